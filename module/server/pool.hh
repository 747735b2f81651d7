// SPDX-License-Identifier: GPL-2.0-only
/*
 * What all connections of the server share: transfers (transfer.hh), and in them sink pages for Reads that the
 * receive completion starts. An idle connection holds neither. A free transfer keeps the pages of its sink, so to
 * take or to give one moves no page; free ones stand in lists by how many pages they have, and each NUMA node has a
 * shelf of such lists under a lock of its own. take() sleeps only if @how allows, take_sink() never does; a
 * worker refills the shelves to what recent demand needed, within the cap. Under memory pressure the kernel takes back
 * what is idle, except one transfer with the pages of a largest sink on each shelf.
 */
#pragma once

#include <atomic>

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

	/**
	 * A transfer without pages, with room for @pages, or for kLargePages if that is less; null without memory.
	 * @how: as for rpcordma_alloc().
	 */
	[[nodiscard]] Transfer *take(u32 pages, rpcordma_alloc_how how);
	/**
	 * A transfer with @pages sink pages or more, of what there is on this CPU's node: nothing is allocated. Null
	 * when there is none, and then there will be more, within @cap_pages for a node. Any context.
	 */
	[[nodiscard]] Transfer *take_sink(u32 pages, u32 cap_pages);
	/**
	 * The mapping is undone. The pages that a sink has now stay with it, if they are of its node; those of any other
	 * transfer are released. Any context.
	 */
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

	/** Pages that transfers which are taken have of it. Any context. */
	[[nodiscard]] u32 lent_pages();

private:
	/** Shelves: of so many nodes; others share theirs. */
	static constexpr u32 kShelves = 16;

	/** Transfers of one size, on one shelf. */
	struct Stock {
		List<Transfer, TransferTag> free;
		List<Transfer, TransferTag> lacking; /* pages: nobody takes them */
		u32 free_count = 0;
		u32 lacking_count = 0;
		u32 out = 0;	/* taken, or being made or filled */
		u32 wanted = 0; /* to have, those that are out among them */

		[[nodiscard]] u32 count() const
		{
			return free_count + lacking_count + out;
		}
		/** A free one, which is out now; null: there is none. */
		[[nodiscard]] Transfer *pop();
		/** As that, of those that lack pages. */
		[[nodiscard]] Transfer *pop_lacking();
		/** One that was out is free again, or lacks pages. */
		void put(Transfer *transfer);
	};
	/** Transfers of one node. */
	struct Shelf {
		ModuleLock lock;
		u32 node GUARDED_BY(lock) = 0; /* whose pages are here */
		Stock stocks[Transfer::kLarge + 1] GUARDED_BY(lock);

		[[nodiscard]] bool want_more_locked(u32 size, u32 cap_pages) REQUIRES(lock);
		[[nodiscard]] Transfer *pop_idle_locked(bool in_use) REQUIRES(lock);
	};

	[[nodiscard]] static Transfer *create_(u32 size, rpcordma_alloc_how how);
	static void destroy_(Transfer *transfer);
	static void fill_(Transfer *transfer);
	[[nodiscard]] Shelf &shelf_of_(u32 node)
	{
		return shelves_[node % kShelves];
	}
	[[nodiscard]] bool in_use_() const
	{
		return users_.load(std::memory_order_relaxed);
	}
	void put_(Transfer *transfer);
	[[nodiscard]] bool restock_(Shelf &shelf);

	Shelf shelves_[kShelves];
	std::atomic<u32> users_{0};
};

extern ServerPool server_pool;

} // namespace rpcordma
