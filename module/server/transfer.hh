// SPDX-License-Identifier: GPL-2.0-only
/*
 * A transfer: all that one chain of RDMA Reads or Writes needs, but the Send behind it. All connections share
 * them (pool.hh); a call has one while it needs it.
 */
#pragma once

#include <atomic>

#include "compat/port/port.h"
#include "module/base/list.hh"
#include "module/base/result.hh"
#include "module/base/types.hh"
#include "module/rdma/region.hh"
#include "module/server/call.hh"
#include "module/server/room.hh"

namespace rpcordma {

struct TransferTag;

/** One chain: the pages, their DMA mapping, and the work requests. Free, or owned by one call. */
struct Transfer : ListLink<TransferTag> {
	/** Pages of a payload that each has room for: 1 MiB where a page has 4 KiB. */
	static constexpr u32 kPayloadPages = 256;
	/** As that, of a large one: 4 MiB where a page has 4 KiB, which is sunrpc's most since Linux 6.16. */
	static constexpr u32 kLargePayloadPages = 1024;
	/**
	 * What a reply has besides: a page for what is before its payload, one for what is behind it, and one more where
	 * the payload starts in the midst of a page; one is to spare.
	 */
	static constexpr u32 kOtherPages = 4;
	/** The pages of a message. */
	static constexpr u32 kPages = kPayloadPages + kOtherPages;
	static constexpr u32 kLargePages = kLargePayloadPages + kOtherPages;
	/** Work requests of a chain: what takes more goes in several. */
	static constexpr u32 kRequests = 128;
	/** Pieces of memory: one for each page, and one for each place where a chunk ends within one. */
	[[nodiscard]] static constexpr u32 pieces_for(u32 pages)
	{
		return pages + 64;
	}
	/** SGEs in all: one for each piece, and one for each place where a segment ends within one. */
	[[nodiscard]] static constexpr u32 sges_for(u32 pages)
	{
		return pieces_for(pages) + kRequests;
	}

	/** Regions of a sink that is registered; with page lists of 32 entries they hold a large one. */
	static constexpr u32 kMostRegions = 33;
	static_assert(kMostRegions * 32 >= kLargePages);
	/** The pages of a call with 1 MiB, which is what nfsd announces where memory is not short; a page has @page_size bytes. */
	[[nodiscard]] static constexpr u32 least_sink_pages(u32 page_size)
	{
		return min(kPayloadPages, (1u << 20) / page_size) + kOtherPages;
	}

	/**
	 * Sizes of sinks, each the pages of four times the payload of the one below: so a sink is never more than
	 * about four times too large.
	 */
	static constexpr u32 kSizes = 5;
	/** No size of a sink: room for kLargePages. No other has room for more than kPages. */
	static constexpr u32 kLarge = kSizes;
	[[nodiscard]] static constexpr bool is_sink(u32 size)
	{
		return size && size < kSizes;
	}
	[[nodiscard]] static constexpr u32 pages_of(u32 size)
	{
		if (!size || size >= kSizes)
			return 0;
		return (kPayloadPages >> 2 * (kSizes - 1 - size)) + kOtherPages;
	}
	/** As it is while nobody uses it. */
	[[nodiscard]] bool whole() const
	{
		return stock == pages_of(size);
	}
	/** The size of a sink of @pages, at least one. */
	[[nodiscard]] static constexpr u32 size_for(u32 pages)
	{
		u32 size = 1;

		while (size < kSizes - 1 && pages_of(size) < pages)
			size++;
		return size;
	}

	/* Behind this in memory (TransferFor): @room pages, pieces_for(@room), sges_for(@room). */
	page **pages = nullptr;
	rpcordma_sge *local = nullptr;
	rpcordma_sge *sges = nullptr;
	u32 room = 0;
	rpcordma_bulk *bulk = nullptr;
	Region *regions[kMostRegions] = {}; /* the connection's; null behind the last, mostly all */
	/*
	 * What the pool has it for: 0 or kLarge, no sink, and then what pages it comes to have are others' and never kept;
	 * else pages_of() this is how many it has of the pool, while nobody uses it.
	 */
	u32 size = 0;
	u32 node = 0;	     /* the pool's shelf; of a sink, that of most pages that came last */
	u32 stock = 0;	     /* pages of the pool, from the first one on */
	u32 page_count = 0;  /* in use; a sink's may be others' now, or absent */
	u32 eager = 0;	     /* bytes of the eager budget, while the service has the pages */
	bool writes = false; /* the pages are a reply's, page cache maybe */
	rpcordma_runs runs = {}; /* of a sink's pages, as long as they are the same */
	/* Among finished ones. */
	Transfer *next_finished = nullptr;
	u32 xid = 0; /* for traces */
	rpcordma_rdma_wr requests[kRequests] = {};

	[[nodiscard]] Span<rpcordma_sge> all_sges()
	{
		return {sges, sges_for(room)};
	}
};

/** A transfer with room for @Pages. */
template <u32 Pages> struct TransferFor : Transfer {
	TransferFor()
	{
		pages = own_pages;
		local = own_local;
		sges = own_sges;
		room = Pages;
	}
	page *own_pages[Pages] = {};
	rpcordma_sge own_local[pieces_for(Pages)] = {};
	rpcordma_sge own_sges[sges_for(Pages)] = {};
};

/** What kmalloc() takes for @bytes: a power of two. */
[[nodiscard]] constexpr u32 slab_bytes(u32 bytes)
{
	u32 taken = 1;

	while (taken < bytes)
		taken *= 2;
	return taken;
}
/** What a transfer takes of memory, with its mapping: 32 bytes for each piece, and what is ahead of them. */
template <u32 Pages>
inline constexpr u32 kTransferBytesFor = slab_bytes(sizeof(TransferFor<Pages>)) +
					 slab_bytes(64 + Transfer::pieces_for(Pages) * 32);
inline constexpr u32 kTransferBytes = kTransferBytesFor<Transfer::kPages>;

/** Work requests that are linked, in the order in which they are to be posted. */
struct Chain {
	rpcordma_send_wr *first = nullptr; /* null: there are none */
	rpcordma_send_wr *last = nullptr;
	u32 count = 0;
};

/** What became of a chain that was to be posted. */
struct PostResult {
	Error error = Error::none;
	bool any = true; /* the device has some of it, or had */
};
/** The room that a chain takes which others of its call follow; it has no more work requests. */
[[nodiscard]] u32 part_room(const Server &server);
/**
 * Post @chain, of @call's transfer, which others of the call follow; its completion gives back the room. May wait for
 * that (@wait is all chains'). When it fails the connection closes, and what of the call was posted is the device's
 * until the drain. A service thread.
 */
[[nodiscard]] PostResult post_part(Server &server, ServerCall *call, const Chain &chain,
				   RoomWait &wait);

/** Entries of a region's page list for each page: more than one where the device's pages are smaller. */
[[nodiscard]] inline u32 region_entries(const rpcordma_device &device)
{
	return device.page_size / device.mr_page_size;
}
/**
 * Take @count regions for @transfer's sink. False, with fewer of them: no memory; or not so many are free, and a
 * completion (RPCORDMA_ALLOC_ATOMIC) makes none.
 */
[[nodiscard]] bool take_regions(Server &server, Transfer &transfer, u32 count,
				rpcordma_alloc_how how);
/** Give back @transfer's regions, of which the device has nothing. Any context. */
void put_regions(Server &server, Transfer &transfer, u32 xid);
/** Make the regions that sinks had to do without, or destroy one that none needs. A service thread. */
void tend_regions(Server &server);
/** Destroy those that none needs; where no call comes, nobody else does. Process context. */
void tend_idle_regions(Server &server);

/**
 * A connection's transfers that a completion was the end of, and that are still mapped: to unmap a megabyte and to
 * release its pages takes long, with an IOMMU most of all, and other completions of the CPU wait meanwhile. A thread
 * does it when its own call is over, or a worker when none comes by.
 */
class FinishedTransfers {
public:
	[[nodiscard]] bool any() const
	{
		return last_.load(std::memory_order_relaxed);
	}
	/** It may be somebody else's at once. Any context. */
	void push(Transfer *transfer)
	{
		Transfer *last = last_.load(std::memory_order_relaxed);

		do
			transfer->next_finished = last;
		while (!last_.compare_exchange_weak(last, transfer, std::memory_order_release,
						    std::memory_order_relaxed));
	}
	/**
	 * Behind push(): whether the worker is to be asked for. Else it was, and has not come: it will see what was pushed.
	 * It is asked for once, however often threads were faster: each time anew, it would never come. Any context.
	 */
	[[nodiscard]] bool ask_for_worker()
	{
		return !asked_.exchange(true, std::memory_order_acq_rel);
	}
	/** The worker is here, and will take() them: what is pushed later asks for it anew. */
	void worker_comes()
	{
		(void)asked_.exchange(false, std::memory_order_acq_rel);
	}
	/** All of them, chained by next_finished. Any context. */
	[[nodiscard]] Transfer *take()
	{
		return last_.exchange(nullptr, std::memory_order_acquire);
	}

private:
	std::atomic<Transfer *> last_{nullptr};
	std::atomic<bool> asked_{false};
};

[[gnu::noinline]] void trace_mapping_listened(const Server &server, const Transfer &transfer,
					      u32 xid, bool mapped);
[[gnu::noinline]] void trace_mapping_listened(const Server &server, const LoneRequest &lone,
					      u32 xid, bool mapped);
/** The memory of @call's transfer was mapped, or is to be unmapped: a trace, if it is mapped. */
inline void trace_mapping(const Server &server, const ServerCall &call, bool mapped)
{
	if (trace::on(RPCORDMA_TRACE_BULK))
		trace_mapping_listened(server, *call.transfer, call.xid(), mapped);
}
/** As that, of @call's lone request. */
inline void trace_lone_mapping(const Server &server, const ServerCall &call, bool mapped)
{
	if (trace::on(RPCORDMA_TRACE_BULK))
		trace_mapping_listened(server, call.lone, call.xid(), mapped);
}
/**
 * Map @length bytes of @pages, from byte @offset of the first on, for @call's lone request, @opcode, with @most SGEs, from
 * @first on: together they are no more than there are. False, and nothing is mapped: they are in more pieces. Errors: ENOMEM;
 * ENOSPC, a page is absent. Any context.
 */
[[nodiscard]] Result<bool> map_lone(Server &server, ServerCall *call, int opcode, page **pages,
				    u32 offset, u32 length, u32 most, u16 first = 0);
/**
 * As that, of the first @length bytes of the sink's pages, for a Read. Of pages that the pool had before, it is known how they lie.
 */
[[nodiscard]] Result<bool> map_lone_sink(Server &server, ServerCall *call, u32 length, u32 most);
/** The end of @call's lone request, of which the device has nothing. It is in use. Any context. */
void put_lone(Server &server, ServerCall *call);
/** Give back @call's transfer, of which the device has nothing. It has one. Any context. */
void put_transfer(Server &server, ServerCall *call);
/**
 * The service, which has @call's sink, has done with it. Pages that somebody has a reference to are no longer the sink's, so that
 * nothing comes into them. (A thread's own, which come in an exchange, sunrpc uses again without such a look.) Any context.
 */
void put_sink(Server &server, ServerCall *call);
/** As put_transfer(), by a completion: what takes long is left to whoever comes by. */
void finish_transfer(Server &server, ServerCall *call);
/** Give back those that completions left. Process context. */
void put_finished(Server &server);
/** @call's Reads are done, or are none. Any context. */
void end_reading(Server &server, ServerCall *call);
/** Give back @call's part of the eager budget. It has one. Any context. */
void put_eager(Server &server, ServerCall *call);
/** Give back what @call took, if it did: a transfer, and a part of the eager budget. Any context. */
inline void give_back_resources(Server &server, ServerCall *call)
{
	/* Ahead of the pages that it may be mapped to. */
	if (call->lone.mapped)
		put_lone(server, call);
	if (call->transfer)
		put_transfer(server, call);
	if (call->eager)
		put_eager(server, call);
}
/** As that, by a completion. */
inline void finish_resources(Server &server, ServerCall *call)
{
	if (call->lone.mapped)
		put_lone(server, call);
	if (call->transfer)
		finish_transfer(server, call);
	if (call->eager)
		put_eager(server, call);
}

} // namespace rpcordma
