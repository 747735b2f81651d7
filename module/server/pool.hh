// SPDX-License-Identifier: GPL-2.0-only
/*
 * What all connections of the server share: transfers, each with all that one RDMA Read or Write chain
 * needs, and sink pages for Reads that the receive completion starts. Neither is held by an idle
 * connection. Taking never sleeps unless it says so; a worker keeps the pool filled, as far as use has
 * shown to be wanted and never beyond the cap. When the kernel is short of memory it takes back what
 * lies idle, but for one call's pages and transfer.
 */
#pragma once

#include <atomic>

#include "compat/port/port.h"
#include "module/base/list.hh"
#include "module/base/lock.hh"
#include "module/base/types.hh"
#include "module/rdma/region.hh"

namespace rpcordma {

struct TransferTag;

/** One chain: the pages, their DMA mapping, and the work requests. Free, or owned by one call. */
struct Transfer : ListLink<TransferTag> {
	/** Pages of the largest payload: 1 MiB where a page has 4 KiB. */
	static constexpr u32 kPayloadPages = 256;
	/**
	 * The pages of the largest message. A reply has one for what is before its payload, one for what
	 * is behind it, and one more where the payload starts in the midst of a page; one is to spare.
	 */
	static constexpr u32 kPages = kPayloadPages + 4;
	/** Pieces of memory: one for each page, and one for each place where a chunk ends within one. */
	static constexpr u32 kPieces = kPages + 64;
	/** Work requests of a chain: more segments than this are refused. */
	static constexpr u32 kRequests = 128;
	/** SGEs in all: one for each piece, and one for each place where a segment ends within one. */
	static constexpr u32 kSges = kPieces + kRequests;

	/** Where the sink has to be registered (iWARP), one region does for the largest message or two. */
	static constexpr u32 kRegions = 2;

	rpcordma_bulk *bulk = nullptr;
	Region *regions[kRegions] = {};		 /* the connection's; null mostly */
	const rpcordma_send_wr *first = nullptr; /* of a Read chain */
	u32 page_count = 0;
	u32 lent = 0;	     /* of these, by the pool */
	bool writes = false; /* the pages are a reply's, page cache maybe: released, never kept */
	page *pages[kPages] = {};
	rpcordma_sge local[kPieces] = {};
	rpcordma_sge sges[kSges] = {};
	rpcordma_rdma_wr requests[kRequests] = {};
};

/** What a transfer takes of memory, its mapping's 32 bytes for each piece included. */
inline constexpr u32 kTransferBytes = sizeof(Transfer) + Transfer::kPieces * 32;

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
		return locked(lock_, [&] { return lent_; });
	}

	/** Bytes of memory for Reads that receive completions have under way, of all connections. */
	std::atomic<u64> eager_bytes{0};
	/** Connections that have some. */
	std::atomic<u32> eager_users{0};

private:
	struct Block {
		static constexpr u32 kPages = 508;
		Block *below = nullptr;
		u32 count = 0;
		page *pages[kPages] = {};
	};

	[[nodiscard]] Transfer *create_(rpcordma_alloc_how how);
	static void destroy_(Transfer *transfer);
	[[nodiscard]] Transfer *pop_transfer_locked_();
	[[nodiscard]] u32 push_locked_(page *const *pages, u32 count);
	void pop_locked_(page **pages, u32 count);
	[[nodiscard]] u32 missing_locked_() const;
	[[nodiscard]] u32 spare_pages_locked_() const;
	[[nodiscard]] u32 spare_transfers_locked_() const;

	rpcordma_lock *lock_ = nullptr; /* of all below */
	List<Transfer, TransferTag> transfers_;
	u32 transfer_count_ = 0;
	u32 transfers_wanted_ = 0; /* to have at hand */
	Block *top_ = nullptr;	   /* blocks below are full */
	Block *spare_ = nullptr;
	u32 page_count_ = 0;
	u32 lent_ = 0;	 /* pages that transfers have, and will give back or others for them */
	u32 wanted_ = 0; /* pages to keep, those that are lent among them */
	u32 users_ = 0;
};

} // namespace rpcordma
