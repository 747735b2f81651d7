// SPDX-License-Identifier: GPL-2.0-only
/*
 * What all connections of the server share: transfers (transfer.hh), and in them sink pages for Reads that the
 * receive completion starts. An idle connection holds neither. A free transfer keeps the pages of its sink, so to
 * take or to give one moves no page; free ones stand in lists by how many pages they have, and each NUMA node has a
 * shelf of such lists under a lock of its own. take() sleeps only if @how allows, take_sink() never does; a
 * worker refills the shelves to what recent demand needed, within the cap. How many sinks there are, and are to be, is
 * counted for all shelves together: a sink that a thread of another node gave pages of its own for goes to that node's
 * shelf. Under memory pressure the kernel takes back
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
	 * A transfer with @pages sink pages or more: one of the size that fits, of this CPU's node if there is one, else of
	 * another's, or a larger one. Nothing is allocated. When none of the size is there, there will be more, within
	 * @cap_pages for all sinks of the pool, whoever asks. Null: there is no larger one either. Any context.
	 */
	[[nodiscard]] Transfer *take_sink(u32 pages, u32 cap_pages);
	/**
	 * The mapping is undone. The pages that a sink has now stay with it; those of any other transfer are released.
	 * Any context.
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
	};
	/** Transfers of one node. Beside the lock is what everyone who takes it changes. */
	struct alignas(64) Shelf {
		ModuleLock lock;
		/* Of each size. They change under the lock, and who only wonders reads them without. */
		std::atomic<u32> free_count[Transfer::kLarge + 1] = {};
		std::atomic<u32> lacking_count[Transfer::kLarge + 1] = {};
		Stock stocks[Transfer::kLarge + 1] GUARDED_BY(lock);

		/** A free one of @size, which is out now; null: there is none. */
		[[nodiscard]] Transfer *pop(u32 size);
		[[nodiscard]] Transfer *pop_locked(u32 size) REQUIRES(lock);
		/** One that was out is free again, or lacks pages. */
		void put_locked(Transfer *transfer) REQUIRES(lock);
	};
	/** Sinks of one size, on all shelves and out: few change it, and everyone who gives reads it. */
	struct Demand {
		std::atomic<u32> wanted{0}; /* to have; changes under growth_ */
		std::atomic<u32> made{0};   /* or being made */
		std::atomic<u32> usable{0}; /* without those that lie on a shelf for want of pages */
		/* Of the CPU that missed one last: new ones have pages of it. */
		std::atomic<u32> node{0};

		/** Count one more, if it is wanted: the caller makes it. */
		[[nodiscard]] bool claim();
		/** If there are more than are wanted, count one less: the caller, who has it, destroys it. */
		[[nodiscard]] bool release_surplus();
		/** One that is out will be gone. */
		void lose();
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
	[[nodiscard]] Transfer *take_other_(u32 size, u32 node);
	[[nodiscard]] u32 goal_(u32 size, u32 cap_pages) const;
	[[nodiscard]] bool want_more_(u32 size, u32 node, u32 cap_pages);
	void forgo_(u32 size);
	[[nodiscard]] Transfer *pop_idle_(Shelf &shelf);
	[[nodiscard]] Transfer *pop_lacking_locked_(Shelf &shelf, u32 size) REQUIRES(shelf.lock);
	[[nodiscard]] Transfer *pop_lacking_(u32 size);
	void put_(Transfer *transfer);
	[[nodiscard]] bool restock_();

	Shelf shelves_[kShelves];
	alignas(64) Demand demands_[Transfer::kSizes];
	std::atomic<u32> users_{0};
	ModuleLock growth_; /* users_ and what is wanted change under it; held with no shelf's lock */
};

extern ServerPool server_pool;

} // namespace rpcordma
