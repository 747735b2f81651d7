/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the models of the handshakes are made of: relacy's simulated atomics under the names of the standard library,
 * variables whose races are seen, and what sunrpc and the port's Linux side do for the handshakes, where it matters.
 *
 * The lines of the module come into a model as they are: selftests/models/run puts them there in place of
 * SOURCE(...). There `std` is `model::std_`, whose atomics are relacy's.
 */
#pragma once

/* Before relacy, which has macros for words that these use. */
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include <relacy/relacy.hpp>

#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst
#undef assert

#include "module/base/types.hh"

namespace model {

using rpcordma::u32;
using rpcordma::u64;
using rpcordma::u8;
using rpcordma::usize;

/* What is wrong ends the history, which is told. */
#define HOLDS(what) RL_ASSERT(what)

/* --- the standard library's atomics --- */

namespace std_ {

using memory_order = rl::memory_order;
constexpr memory_order memory_order_relaxed = rl::mo_relaxed;
constexpr memory_order memory_order_acquire = rl::mo_acquire;
constexpr memory_order memory_order_release = rl::mo_release;
constexpr memory_order memory_order_acq_rel = rl::mo_acq_rel;
constexpr memory_order memory_order_seq_cst = rl::mo_seq_cst;

#define MODEL_WHERE const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()
#define MODEL_HERE rl::debug_info("", file, line)

/* As std::atomic, of a number, a bool, an enumeration or a pointer. */
template <typename T> class atomic {
	/* What relacy can print. */
	static constexpr auto rep()
	{
		if constexpr (std::is_enum_v<T>)
			return unsigned(); /* and not as a character */
		else if constexpr (std::is_pointer_v<T>)
			return std::uintptr_t();
		else
			return T();
	}
	using Rep = decltype(rep());
	[[nodiscard]] static Rep in(T value)
	{
		if constexpr (std::is_pointer_v<T>)
			return reinterpret_cast<Rep>(value);
		else
			return static_cast<Rep>(value);
	}
	[[nodiscard]] static T out(Rep value)
	{
		if constexpr (std::is_pointer_v<T>)
			return reinterpret_cast<T>(value);
		else
			return static_cast<T>(value);
	}

public:
	atomic() : atomic(T())
	{
	}
	atomic(T value) : at_(in(value))
	{
	}
	[[nodiscard]] T load(memory_order order = memory_order_seq_cst, MODEL_WHERE) const
	{
		return out(at_.load(order, MODEL_HERE));
	}
	void store(T value, memory_order order = memory_order_seq_cst, MODEL_WHERE)
	{
		at_.store(in(value), order, MODEL_HERE);
	}
	T exchange(T value, memory_order order = memory_order_seq_cst, MODEL_WHERE)
	{
		return out(at_.exchange(in(value), order, MODEL_HERE));
	}
	T fetch_add(T more, memory_order order = memory_order_seq_cst, MODEL_WHERE)
	{
		return at_.fetch_add(more, order, MODEL_HERE);
	}
	T fetch_sub(T less, memory_order order = memory_order_seq_cst, MODEL_WHERE)
	{
		return at_.fetch_sub(less, order, MODEL_HERE);
	}
	T fetch_or(T bits, memory_order order = memory_order_seq_cst, MODEL_WHERE)
	{
		return at_.fetch_or(bits, order, MODEL_HERE);
	}
	T fetch_and(T bits, memory_order order = memory_order_seq_cst, MODEL_WHERE)
	{
		return at_.fetch_and(bits, order, MODEL_HERE);
	}
	bool compare_exchange_strong(T &from, T to, memory_order order, MODEL_WHERE)
	{
		Rep was = in(from);
		const bool done = at_.compare_exchange_strong(was, in(to), order, MODEL_HERE);

		from = out(was);
		return done;
	}
	/* Fails as it likes, once in a history. */
	bool compare_exchange_weak(T &from, T to, memory_order order, memory_order failure,
				   MODEL_WHERE)
	{
		Rep was = in(from);
		const bool done = at_.compare_exchange_weak(was, in(to), order, MODEL_HERE, failure,
							    MODEL_HERE);

		from = out(was);
		return done;
	}
	bool compare_exchange_weak(T &from, T to, memory_order order, MODEL_WHERE)
	{
		Rep was = in(from);
		const bool done = at_.compare_exchange_weak(was, in(to), order, MODEL_HERE);

		from = out(was);
		return done;
	}

private:
	rl::atomic<Rep> at_;
};

inline void atomic_thread_fence(memory_order order, MODEL_WHERE)
{
	rl::atomic_thread_fence(order, MODEL_HERE);
}

} // namespace std_

/* --- variables that are no atomics: two accesses, one of which writes, and neither before the other, are an error --- */

template <typename T> class Plain {
public:
	Plain() : Plain(T())
	{
	}
	Plain(T value)
	{
		at_(rl::debug_info()).store(value);
	}
	Plain(const Plain &) = delete;
	Plain &operator=(const Plain &other)
	{
		return *this = T(other);
	}
	Plain &operator=(T value)
	{
		at_(rl::debug_info()).store(value);
		return *this;
	}
	Plain &operator+=(T more)
	{
		return *this = T(*this) + more;
	}
	operator T() const
	{
		return at_(rl::debug_info()).load();
	}
	T operator->() const
	{
		return at_(rl::debug_info()).load();
	}

private:
	mutable rl::var<T> at_;
};

/* --- to sleep --- */

/* Those who sleep, and who wake them; under a lock of its own, as the kernel's wait queues are. */
class Sleepers {
public:
	/* Sleep, unless @awake() says otherwise; once. Whoever makes it true calls wake() after that. */
	template <typename Awake> bool sleep_unless(Awake awake)
	{
		lock_.lock(rl::debug_info());
		const bool stays = awake();
		lock_.unlock(rl::debug_info());
		/* Nothing comes in between: unlock() lets others go first before it unlocks, and not behind that. */
		if (!stays)
			queue_.wait(rl::ctx(), false, false, rl::debug_info());
		return stays;
	}
	template <typename Awake> void sleep_until(Awake awake)
	{
		while (!sleep_unless(awake))
			;
	}
	template <typename Change> void wake(Change change)
	{
		lock_.lock(rl::debug_info());
		change();
		queue_.wake(rl::ctx(), 1000, rl::debug_info());
		lock_.unlock(rl::debug_info());
	}
	void wake()
	{
		wake([] {});
	}

private:
	rl::mutex lock_;
	mutable rl::atomic<int> queue_;
};

/* --- the port's locks and events (module/base/lock.hh, compat/linux/lock.c) --- */

class Lock {
public:
	void acquire()
	{
		lock_.lock(rl::debug_info());
	}
	void release()
	{
		lock_.unlock(rl::debug_info());
	}
	[[nodiscard]] bool exists() const
	{
		return true;
	}

private:
	rl::mutex lock_;
};

class SpinGuard {
public:
	explicit SpinGuard(Lock &lock) : lock_(lock)
	{
		acquire();
	}
	~SpinGuard()
	{
		if (held_)
			release();
	}
	void acquire()
	{
		lock_.acquire();
		held_ = true;
	}
	void release()
	{
		held_ = false;
		lock_.release();
	}

private:
	Lock &lock_;
	bool held_ = false;
};
using MutexGuard = SpinGuard;

/* A kernel's completion. */
class Event {
public:
	void reset()
	{
		raised_ = 0;
	}
	void raise()
	{
		sleepers_.wake([this] { raised_ = raised_ + 1; });
	}
	void wait()
	{
		sleepers_.sleep_until([this] {
			const u32 raised = raised_;

			if (raised)
				raised_ = raised - 1;
			return raised != 0;
		});
	}

private:
	Sleepers sleepers_;
	Plain<u32> raised_;
};

/* What a device does between two of its masters: what is before tell() is seen after await(). */
class Device {
public:
	void tell()
	{
		event_.raise();
	}
	void await()
	{
		event_.wait();
	}

private:
	Event event_;
};

/* --- net/sunrpc/xprt.c: xprt_wait_for_buffer_space(), xprt_reserve_xprt(), xprt_write_space() --- */

class WriteSpace {
public:
	void wait_for_space()
	{
		wanted_.store(true, std_::memory_order_relaxed);
	}
	/* The task that was sent away comes again, and is put to sleep, unless there is space by now. */
	void sleep()
	{
		sending_.sleep_until([this] { return !wanted_.load(std_::memory_order_relaxed); });
	}
	void write_space()
	{
		if (!wanted_.load(std_::memory_order_relaxed))
			return;
		sending_.wake([this] { wanted_.exchange(false, std_::memory_order_seq_cst); });
	}

private:
	std_::atomic<bool> wanted_{false}; /* XPRT_WRITE_SPACE */
	Sleepers sending_;		   /* under transport_lock */
};

/* --- running --- */

/* What relacy says goes where no memory is taken for it: while it runs, all memory is that of its threads. */
struct Notes : std::streambuf {
	char text[1 << 20];

	Notes()
	{
		clear();
	}
	void clear()
	{
		setp(text, text + sizeof(text) - 1);
	}
	[[nodiscard]] const char *end()
	{
		*pptr() = 0;
		return text;
	}
};
inline Notes notes;

inline bool histories = false;	/* one that fails is told step by step */
inline bool first_only = false; /* nothing is searched behind that */
inline unsigned passed, failed;

inline void read_options(int count, char **options)
{
	for (int i = 1; i < count; i++) {
		histories |= !std::strcmp(options[i], "--history");
		first_only |= !std::strcmp(options[i], "--first");
	}
}

/* No history has so many. */
constexpr unsigned kAnySwitches = 1000;

/*
 * All histories of @Suite in which a thread that could go on is interrupted @switches times at most; kAnySwitches: all
 * there are. Histories differ in which thread is next before each access, in whether a load gives the newest value or
 * the one before, where the memory orders allow both, and in whether a weak exchange fails.
 */
template <typename Suite> void explore(const char *name, unsigned switches = kAnySwitches)
{
	using Scheduler = rl::context_bound_scheduler<Suite::params::thread_count>;
	std::ostream said(&notes), nowhere(nullptr);
	rl::ostringstream state;
	rl::test_params p;

	if (failed && first_only)
		return;
	notes.clear();

	p.search_type = rl::sched_bound;
	p.context_bound = switches;
	p.iteration_count = ~rl::iteration_t();
	p.execution_depth_limit = 2000;
	p.output_stream = &said;
	p.progress_stream = &nowhere;
	const bool ok = rl::run_test<Suite, Scheduler>(p, state, false) == rl::test_result_success;
	const auto count = static_cast<unsigned long long>(p.stop_iteration + 1);

	if (switches == kAnySwitches)
		std::printf("%s - %s: %llu histories, all\n", ok ? "ok" : "not ok", name, count);
	else
		std::printf("%s - %s: %llu histories, all with %u switches\n", ok ? "ok" : "not ok",
			    name, count, switches);
	++(ok ? passed : failed);
	if (!ok) {
		/* The same once more, with notes. */
		rl::ostringstream again;

		p.initial_state = state.str();
		p.collect_history = true;
		(void)rl::run_test<Suite, Scheduler>(p, again, true);
		const std::string what = notes.end();

		std::printf("%s\n", (histories ? what : what.substr(0, what.find('\n'))).c_str());
	}
	std::fflush(stdout);
}

} // namespace model

/* A program of one model. */
#define MODEL_MAIN(name)                                          \
	int main(int argc, char **argv)                           \
	{                                                         \
		model::read_options(argc, argv);                  \
		name::run();                                      \
		return model::failed ? 1 : model::passed ? 0 : 2; \
	}

/* From here on. */
#define std model_std
namespace model_std = model::std_;
