// SPDX-License-Identifier: GPL-2.0-only
/*
 * One run of one seed: the clock, the scheduler, the locks and what they forbid, the faults, the trace,
 * and the verdict. Everything random is drawn from the seed (chance.hh), and nothing else decides: a seed
 * is a whole history.
 *
 * Kernel contexts are fibers. Any of them may run whenever one gives up the processor, which it does
 * when it waits and, by chance, at each call of the port (and anywhere in the module: preempt.cc); also
 * with a spin lock held, since other CPUs run on then. Virtual time goes on when nobody can run.
 */
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "selftests/sim/chance.hh"

namespace sim {

/** What may go wrong, as "one in so many"; 0: never. Drawn from the seed; off when a run winds down. */
struct Faults {
	bool active = false;
	u32 memory = 0;	     /* allocations */
	u32 reclaim = 0;     /* allocations that may sleep, and take milliseconds */
	u32 mapping = 0;     /* DMA mappings */
	u32 posting = 0;     /* posts */
	u32 resolving = 0;   /* addresses, routes, connection attempts */
	u32 breaking = 0;    /* work requests after which the connection breaks */
	u32 slowness = 0;    /* steps of the fabric that take milliseconds */
	u32 patience = 0;    /* the longest such step, and allocation, ms */
	u32 registering = 0; /* REG_MR and LOCAL_INV that fail by themselves */
	u32 tearing = 0; /* RDMA that has moved a part of its bytes when its connection breaks */
	bool bursts = false; /* they strike often, in outages, and not at all between them */
	bool quiet = false;  /* now it is between two outages */
	/* How often each has struck, and when memory did last: an excuse is for what was under way then. */
	u32 memory_failures = 0, mapping_failures = 0, posting_failures = 0;
	u64 memory_failed_at = 0;
	/* Receives that could not be made, for whichever reason; where failures are traced. */
	u32 receives_failed = 0;

	bool strikes(u32 odds, Place at = Place::here())
	{
		if (!active || !odds || quiet)
			return false;
		return chance.one_in(bursts ? (odds + 7) / 8 : odds, at);
	}
};
extern Faults faults;

/* --- verdict and trace --- */

extern bool tracing;
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define TRACE(...)                                     \
	do {                                           \
		if (__builtin_expect(sim::tracing, 0)) \
			sim::trace(__VA_ARGS__);       \
	} while (0)

/** The run has failed: say so, and end the process. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** How fail() ends the process: quietly, or, for a debugger or a fuzzer, by a signal. */
extern void (*end_of_failed_run)();
#define REQUIRE(condition, ...)                        \
	do {                                           \
		if (__builtin_expect(!(condition), 0)) \
			sim::fail(__VA_ARGS__);        \
	} while (0)

/* --- fibers and time --- */

enum class Context {
	process,
	completion, /* also of an event handler: must not sleep */
};

constexpr u64 kForever = ~u64(0);
constexpr u64 kMillisecond = 1000, kSecond = 1000000;

struct Fiber;

/** Who waits for something. Waking never loses anybody: the woken one looks for itself. */
class WaitQueue {
public:
	~WaitQueue();
	void wake_one();
	void wake_all();
	bool empty() const
	{
		return waiting_.empty();
	}

private:
	friend struct Fiber;
	friend class SpinLock;
	friend bool wait(WaitQueue &, const char *, u64);
	std::deque<Fiber *> waiting_;
};

/** Now, in microseconds of virtual time. */
u64 now();
void spawn(std::string name, Context context, std::function<void()> body);
void spawn_after(u64 delay, std::string name, Context context, std::function<void()> body);
/** Every call of the port: maybe somebody else runs first. */
void port_call();
/** Somebody else runs first, if there is one. Does nothing outside fibers. */
void give_way();
/** Draws how often the module is interrupted, where it can be anywhere (preempt.cc); nothing elsewhere. */
void draw_preemption();
/** Wait, sleeping; false when @limit microseconds passed without being woken. */
bool wait(WaitQueue &queue, const char *why, u64 limit = kForever);
void sleep_for(u64 delay, const char *why);
/** Fails when the context must not sleep. */
void may_sleep(const char *what);
Context current_context();
const char *current_name();
/** How often somebody was let run: the measure of a run's length; more than so many are none that ends. */
u64 steps();
extern u64 most_steps;
/** A digest of who ran when: equal for equal histories. */
u64 history();

/** Run @body in a world of its own, made of @seed, to its end: nobody left, nothing left to come. */
void run_world(u64 seed, std::function<void()> body);

/* --- locks --- */

enum class LockClass : u8 {
	client,
	server,
	sinks,
	failures,
	posts,
	fence,
	transport, /* sunrpc's, from here on */
	queue,
	reserve,
	accept,
	service,
	count,
};

/** A spin lock: whoever waits for it spins, on another CPU; whoever holds it must not sleep. */
class SpinLock {
public:
	explicit SpinLock(LockClass which) : class_(which)
	{
	}
	~SpinLock();
	void acquire();
	void release();
	bool held_by_me() const;

private:
	LockClass class_;
	Fiber *owner_ = nullptr;
	WaitQueue spinning_;
};

class Mutex {
public:
	explicit Mutex(LockClass which) : class_(which)
	{
	}
	~Mutex();
	void acquire();
	void release();

private:
	LockClass class_;
	Fiber *owner_ = nullptr;
	WaitQueue waiting_;
};

template <typename L> class Hold {
public:
	explicit Hold(L &lock) : lock_(lock)
	{
		lock_.acquire();
	}
	~Hold()
	{
		lock_.release();
	}
	Hold(const Hold &) = delete;
	Hold &operator=(const Hold &) = delete;

private:
	L &lock_;
};

/* --- work --- */

/** A work item: queued at most once, never run twice at once. */
class Work {
public:
	Work(const char *name, std::function<void()> function);
	~Work();
	/** False, and nothing, when it is queued already, or being cancelled. */
	bool queue(u64 delay = 0);
	/** Queue it, also if it is queued already, for another time. */
	void queue_anew(u64 delay);
	/** Take it off, and wait for it if it is being run; meanwhile it cannot be queued. */
	void cancel_sync();
	/** Wait until it is neither queued nor run. */
	void flush();

private:
	struct State;
	std::shared_ptr<State> state_;
};

} // namespace sim
