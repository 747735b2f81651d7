// SPDX-License-Identifier: GPL-2.0-only
/*
 * Locks and mutexes of the port as owners, guards that hold them for a scope, and the annotations by which
 * clang's -Wthread-safety checks who holds what (scripts/check-locks). A guard may let go early, and take
 * the lock again, where the order of two locks or a long call asks for it.
 */
#pragma once

#include "compat/port/port.h"

#ifdef __clang__
#define RPCORDMA_ANNOTATE(attribute) __attribute__((attribute))
#else
#define RPCORDMA_ANNOTATE(attribute)
#endif

/** A type that can be held. */
#define CAPABILITY(name) RPCORDMA_ANNOTATE(capability(name))
/** Data that is read and written only with @lock held. */
#define GUARDED_BY(lock) RPCORDMA_ANNOTATE(guarded_by(lock))
/** The function is called with these locks held, and leaves them so. */
#define REQUIRES(...) RPCORDMA_ANNOTATE(requires_capability(__VA_ARGS__))
/** The function takes these locks itself, or waits for somebody who does: not to be called with them held. */
#define EXCLUDES(...) RPCORDMA_ANNOTATE(locks_excluded(__VA_ARGS__))
/** Nobody else can reach the object: it is being made, or its end has come. */
#define NO_THREAD_SAFETY_ANALYSIS RPCORDMA_ANNOTATE(no_thread_safety_analysis)

namespace rpcordma {

/**
 * A spin lock of the whole module: process and completion context; its holder does not sleep. It is ended by
 * name, as nobody runs the destructors of what is static in a module.
 */
class CAPABILITY("spin lock") ModuleLock {
public:
	constexpr ModuleLock() = default;
	ModuleLock(const ModuleLock &) = delete;
	ModuleLock &operator=(const ModuleLock &) = delete;
	/** Make it; false without memory. Process context; once, before all else. */
	[[nodiscard]] bool create(rpcordma_lock_class which)
	{
		lock_ = rpcordma_lock_create(which);
		return lock_ != nullptr;
	}
	/** The end of it; it may never have been made. Process context. */
	void destroy()
	{
		if (lock_)
			rpcordma_lock_destroy(lock_);
		lock_ = nullptr;
	}
	/** It was made. */
	[[nodiscard]] bool exists() const
	{
		return lock_ != nullptr;
	}
	void acquire() RPCORDMA_ANNOTATE(acquire_capability())
		RPCORDMA_ANNOTATE(no_thread_safety_analysis)
	{
		rpcordma_lock_acquire(lock_);
	}
	void release() RPCORDMA_ANNOTATE(release_capability())
		RPCORDMA_ANNOTATE(no_thread_safety_analysis)
	{
		rpcordma_lock_release(lock_);
	}

private:
	rpcordma_lock *lock_ = nullptr;
};

/** The same in an object, with which it ends. */
class CAPABILITY("spin lock") SpinLock : public ModuleLock {
public:
	~SpinLock()
	{
		destroy();
	}
};

/** A mutex: process context; its holder may sleep. */
class CAPABILITY("mutex") Mutex {
public:
	Mutex() = default;
	Mutex(const Mutex &) = delete;
	Mutex &operator=(const Mutex &) = delete;
	~Mutex()
	{
		if (mutex_)
			rpcordma_mutex_destroy(mutex_);
	}
	/** As ModuleLock::create(). */
	[[nodiscard]] bool create(rpcordma_mutex_class which)
	{
		mutex_ = rpcordma_mutex_create(which);
		return mutex_ != nullptr;
	}
	void acquire() RPCORDMA_ANNOTATE(acquire_capability())
		RPCORDMA_ANNOTATE(no_thread_safety_analysis)
	{
		rpcordma_mutex_lock(mutex_);
	}
	void release() RPCORDMA_ANNOTATE(release_capability())
		RPCORDMA_ANNOTATE(no_thread_safety_analysis)
	{
		rpcordma_mutex_unlock(mutex_);
	}

private:
	rpcordma_mutex *mutex_ = nullptr;
};

/** An event of the port: see there for who may call what when. */
class Event {
public:
	Event() = default;
	Event(const Event &) = delete;
	Event &operator=(const Event &) = delete;
	~Event()
	{
		if (event_)
			rpcordma_event_destroy(event_);
	}
	/** As ModuleLock::create(). */
	[[nodiscard]] bool create()
	{
		event_ = rpcordma_event_create();
		return event_ != nullptr;
	}
	void reset()
	{
		rpcordma_event_reset(event_);
	}
	void raise()
	{
		rpcordma_event_raise(event_);
	}
	void wait()
	{
		rpcordma_event_wait(event_);
	}
	/** Up to @limit_ms; false: it was not raised until then. */
	[[nodiscard]] bool wait_for(rpcordma_u32 limit_ms)
	{
		return rpcordma_event_wait_for(event_, limit_ms);
	}

private:
	rpcordma_event *event_ = nullptr;
};

template <typename Lock> class [[nodiscard]] RPCORDMA_ANNOTATE(scoped_lockable) BasicGuard {
public:
	/** Take @lock, whose context rules are the caller's. */
	explicit BasicGuard(Lock &lock) RPCORDMA_ANNOTATE(acquire_capability(lock)) : lock_(lock)
	{
		lock_.acquire();
	}
	~BasicGuard() RPCORDMA_ANNOTATE(release_capability())
	{
		if (held_)
			lock_.release();
	}
	BasicGuard(const BasicGuard &) = delete;
	BasicGuard &operator=(const BasicGuard &) = delete;

	/** Let go before the scope ends. Held. */
	void release() RPCORDMA_ANNOTATE(release_capability())
	{
		held_ = false;
		lock_.release();
	}
	/** Take it again. Not held. */
	void acquire() RPCORDMA_ANNOTATE(acquire_capability())
	{
		lock_.acquire();
		held_ = true;
	}

private:
	Lock &lock_;
	/* A word: of an object with padding g++ clears all by -ftrivial-auto-var-init=zero, wherever its members live. */
	unsigned long held_ = true;
};

using SpinGuard = BasicGuard<ModuleLock>;
using MutexGuard = BasicGuard<Mutex>;

} // namespace rpcordma
