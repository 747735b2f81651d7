// SPDX-License-Identifier: GPL-2.0-only
/*
 * Locks and mutexes of the port, held for a scope. A guard may let go early, and take the lock again:
 * where the order of two locks or a long call asks for it.
 */
#pragma once

#include "compat/port/port.h"

namespace rpcordma {

template <typename Lock, void (*Acquire)(Lock *), void (*Release)(Lock *)>
class [[nodiscard]] BasicGuard {
public:
	/** Take @lock, whose context rules are the caller's. */
	explicit BasicGuard(Lock *lock) : lock_(lock)
	{
		acquire();
	}
	~BasicGuard()
	{
		if (held_)
			release();
	}
	BasicGuard(const BasicGuard &) = delete;
	BasicGuard &operator=(const BasicGuard &) = delete;

	/** Let go before the scope ends. Held. */
	void release()
	{
		held_ = false;
		Release(lock_);
	}
	/** Take it again. Not held. */
	void acquire()
	{
		Acquire(lock_);
		held_ = true;
	}

private:
	Lock *lock_;
	bool held_ = false;
};

/** Holds a spin lock: process and completion context, no sleep. */
using LockGuard = BasicGuard<rpcordma_lock, rpcordma_lock_acquire, rpcordma_lock_release>;
/** Holds a mutex: process context. */
using MutexGuard = BasicGuard<rpcordma_mutex, rpcordma_mutex_lock, rpcordma_mutex_unlock>;

/** What @body() returns, called with @lock held. */
template <typename Body> inline auto locked(rpcordma_lock *lock, Body body)
{
	LockGuard guard(lock);

	return body();
}

} // namespace rpcordma
