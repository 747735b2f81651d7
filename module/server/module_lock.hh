// SPDX-License-Identifier: GPL-2.0-only
/*
 * A spin lock of the whole module. It is ended by name: nobody runs the destructors of what is static in a
 * module.
 */
#pragma once

#include "module/base/lock.hh"

namespace rpcordma {

class CAPABILITY("spin lock") ModuleLock {
public:
	constexpr ModuleLock() = default;
	ModuleLock(const ModuleLock &) = delete;
	ModuleLock &operator=(const ModuleLock &) = delete;
	/** Make it; false without memory. Process context. */
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

using ModuleGuard = BasicGuard<ModuleLock>;

} // namespace rpcordma
