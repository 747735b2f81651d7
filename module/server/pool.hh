// SPDX-License-Identifier: GPL-2.0-only
/*
 * What all connections of the server share: transfers (transfer.hh), and sink pages for Reads that the receive
 * completion starts. An idle connection holds neither. take() sleeps only if @how allows, take_sink() never does; a
 * worker refills the pool to what recent demand needed, within the cap. Under memory pressure the kernel takes back
 * what is idle, except one call's pages and transfer.
 */
#pragma once

#include "compat/port/port.h"
#include "module/base/list.hh"
#include "module/base/lock.hh"
#include "module/base/types.hh"
#include "module/server/transfer.hh"

namespace rpcordma {

class ServerPool {
public:
	[[nodiscard]] bool init();
	/** No connection is left. */
	void exit();
	/** A connection comes, or goes; with the last one, everything spare is freed. Process context. */
	void join();
	void leave();

	/** A transfer, without pages; null without memory. @how: as for rpcordma_alloc(). */
	[[nodiscard]] Transfer *take(rpcordma_alloc_how how);
	/**
	 * A transfer with @pages sink pages, of what is there: nothing is allocated. Null when the pool has
	 * too little, and then it will have more. Any context.
	 */
	[[nodiscard]] Transfer *take_sink(u32 pages, u32 cap_pages);
	/** The mapping is undone, the pages it still has go to the pool, or are released. Any context. */
	void give(Transfer *transfer);

	/** Fill up to what is wanted, transfers and pages. Process context; may sleep. */
	void refill();

	/** What shrink() could free, in pages. Any context. */
	[[nodiscard]] u32 spare_pages();
	/**
	 * Free up to @pages pages of what lies idle, or a few more; returns how many. Process context,
	 * memory reclaim included; no lock held.
	 */
	u32 shrink(u32 pages);

	/** Pages that transfers have of it now. Any context. */
	[[nodiscard]] u32 lent_pages()
	{
		SpinGuard guard(lock_);

		return lent_;
	}

private:
	struct Block {
		static constexpr u32 kPages = 508;
		Block *below = nullptr;
		u32 count = 0;
		page *pages[kPages] = {};
	};

	[[nodiscard]] static Transfer *create_(rpcordma_alloc_how how);
	static void destroy_(Transfer *transfer);
	[[nodiscard]] Transfer *pop_transfer_locked_() REQUIRES(lock_);
	[[nodiscard]] u32 push_locked_(page *const *pages, u32 count) REQUIRES(lock_);
	void pop_locked_(page **pages, u32 count) REQUIRES(lock_);
	[[nodiscard]] u32 missing_locked_() const REQUIRES(lock_);
	[[nodiscard]] u32 spare_pages_locked_() const REQUIRES(lock_);
	[[nodiscard]] u32 spare_transfers_locked_() const REQUIRES(lock_);
	[[nodiscard]] bool wants_transfer_();
	[[nodiscard]] u32 missing_();
	[[nodiscard]] u32 keep_(page **pages, u32 count);

	ModuleLock lock_;
	List<Transfer, TransferTag> transfers_ GUARDED_BY(lock_);
	u32 transfer_count_ GUARDED_BY(lock_) = 0;
	u32 transfers_wanted_ GUARDED_BY(lock_) = 0; /* to have at hand */
	Block *top_ GUARDED_BY(lock_) = nullptr;     /* blocks below are full */
	Block *spare_ GUARDED_BY(lock_) = nullptr;
	u32 page_count_ GUARDED_BY(lock_) = 0;
	/* Pages that transfers have, and will give back or others for them. */
	u32 lent_ GUARDED_BY(lock_) = 0;
	/* Pages to keep, those that are lent among them. */
	u32 wanted_ GUARDED_BY(lock_) = 0;
	u32 users_ GUARDED_BY(lock_) = 0;
};

extern ServerPool server_pool;

} // namespace rpcordma
