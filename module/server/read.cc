// SPDX-License-Identifier: GPL-2.0-only
/* Pulling a call's Read chunks. See read.hh. */

#include "module/server/read.hh"

#include "module/rdma/chain.hh"
#include "module/server/close.hh"
#include "module/server/failures.hh"
#include "module/server/owners.hh"
#include "module/server/refusal.hh"
#include "module/server/server.hh"

namespace rpcordma {

using trace::Failure;

u32 sink_pages(const Server &server, const chunk::Arrival &arrival)
{
	return div_round_up(arrival.sink_length, server.device.page_size);
}

[[nodiscard]] static u32 sink_regions(const Server &server, const chunk::Arrival &arrival)
{
	return div_round_up(sink_pages(server, arrival), server.limits.region_pages);
}

/* How far the chains of a call's Reads have come. */
struct ReadProgress {
	u32 sges = 0; /* of its sink */
	/* What earlier chains had. */
	u32 reads = 0;
	u32 regions = 0;
	bool whole = false; /* this one is the last */
};

/* --- the sink --- */

/*
 * Map the call's sink by the regions of its transfer, registered ahead of the Reads in the same chain. On iWARP the
 * sink of a Read is memory that the peer could write; elsewhere it is ours alone. Returns how many SGEs there are.
 */
[[nodiscard]] static Result<u32> register_sink(const Server &server, ServerCall *call)
{
	Transfer &t = *call->transfer;
	const u32 page = server.device.page_size, most = server.limits.region_pages * page;
	const u32 bytes = call->arrival.sink_length;
	rpcordma_xdr_buf sink = {};
	u32 count = 0;

	/* Whole pages: a bounce buffer for a part of one may be at another place in its page, which makes a gap. */
	sink.pages = t.pages;
	sink.page_length = sink.len = div_round_up(bytes, page) * page;
	for (u32 at = 0; at < sink.len; count++) {
		const u32 length = min(sink.len - at, most);
		Region *region = t.regions[count];

		region->register_wr.wr.cqe = &call->chain_cqe;
		if (const int rc = rpcordma_region_map(region->device, &sink, at, length, true, 0,
						       &region->register_wr, &region->mapping);
		    rc) {
			trace::failure(server.peer, Failure::region_map_failed, call->xid(), rc);
			return Error::no_memory;
		}
		if (!server.device.read_needs_region)
			region->register_wr.access = RPCORDMA_ACCESS_LOCAL_WRITE;
		if (trace::on(RPCORDMA_TRACE_REGION))
			trace::region(server.peer, "map", call->xid(), *region);
		t.local[count] = {region->mapping.iova, min(bytes - at, length),
				  region->mapping.lkey};
		at += length;
	}
	return count;
}

/*
 * Whether the longest of a call's Reads has more pieces than the device likes, when its sink has @pieces and these are
 * much of a size.
 */
[[nodiscard]] static bool has_many_pieces(const Server &server, const ServerCall &call, u32 pieces)
{
	const u32 most = server.device.max_sgl_rd;
	u32 longest = 0;

	if (pieces <= most)
		return false;
	for (const xdr::ReadSegment segment : call.message().reads)
		longest = max(longest, segment.target.length);
	return u64(pieces) * longest > u64(most) * call.arrival.sink_length;
}

/* Whether Reads into a sink of @pieces do better by regions. By SGEs they do as well, if none is free. */
[[nodiscard]] static bool has_better_regions(Server &server, ServerCall *call, u32 pieces)
{
	const u32 count = sink_regions(server, call->arrival);

	if (!has_many_pieces(server, *call, pieces) || count > server.limits.regions)
		return false;
	if (take_regions(server, *call->transfer, count, RPCORDMA_ALLOC_ATOMIC))
		return true;
	put_regions(server, *call->transfer, call->xid());
	SpinGuard guard(server.lock);

	server.regions.miss(count);
	return false;
}

/* Make the call's sink a place for Reads. Returns how many SGEs there are. Errors: ENOMEM; EPROTO. */
[[nodiscard]] static Result<u32> map_sink(Server &server, ServerCall *call, rpcordma_alloc_how how)
{
	Transfer &t = *call->transfer;

	if (server.device.read_needs_region) {
		if (!take_regions(server, t, sink_regions(server, call->arrival), how))
			return Error::no_memory;
		return register_sink(server, call);
	}
	const int pieces = rpcordma_bulk_add_pages(t.bulk, t.pages, 0, call->arrival.sink_length);
	if (pieces < 0) {
		trace::failure(server.peer, Failure::read_chain_long, call->xid(), Error::no_space);
		return Error::protocol;
	}
	if (server.limits.region_pages && has_better_regions(server, call, u32(pieces))) {
		/* Nothing of it is mapped yet. */
		rpcordma_bulk_unmap(t.bulk);
		return register_sink(server, call);
	}
	const int sges = rpcordma_bulk_map(t.bulk, server.endpoint, RPCORDMA_DMA_FROM_DEVICE,
					   t.local, Transfer::pieces_for(t.room));
	if (sges < 0) {
		trace::failure(server.peer, Failure::sink_map_failed, call->xid(), sges);
		return Error::no_memory;
	}
	trace_mapping(server, *call, true);
	return u32(sges);
}

/* Put @wr, which nobody waits for, at the start of @chain. */
static void push_front(Chain &chain, rpcordma_send_wr &wr, rpcordma_cqe *cqe)
{
	wr.cqe = cqe;
	wr.next = chain.first;
	chain.first = &wr;
	chain.count++;
}

/* Register the next of @t's regions ahead of @chain. */
static void register_next(Transfer &t, rpcordma_cqe *cqe, ReadProgress &progress, Chain &chain)
{
	Region *region = t.regions[progress.regions++];

	push_front(chain, region->register_wr.wr, cqe);
	/* The Reads into it are done: they were another call's. */
	if (region->stale)
		push_front(chain, region->invalidate_wr, cqe);
}

/*
 * Register the regions of @chain's Reads ahead of them, where the peer can write to these. The last Read into each
 * invalidates it: it is out of the peer's reach before anybody has the pages, and replies behind the Reads do not wait
 * for that. Behind the last Read of a chain that is not whole is one that goes with the next.
 */
static void register_exposed(Transfer &t, rpcordma_cqe *cqe, ReadProgress &progress, Chain &chain)
{
	rpcordma_rdma_wr *const reads = t.requests;
	const u32 count = chain.count;

	for (u32 i = 0; i < count; i++) {
		const u32 lkey = reads[i].wr.sg_list->lkey;
		/* Behind those of which all comes inline. */
		const auto is_next = [&] {
			return t.regions[progress.regions]->mapping.lkey == lkey;
		};

		if (!progress.regions || t.regions[progress.regions - 1]->mapping.lkey != lkey) {
			while (!is_next())
				progress.regions++;
			register_next(t, cqe, progress, chain);
		}
		if ((progress.whole && i + 1 == count) || reads[i + 1].wr.sg_list->lkey != lkey) {
			reads[i].wr.opcode = RPCORDMA_WR_RDMA_READ_WITH_INV;
			reads[i].wr.invalidate_rkey = t.regions[progress.regions - 1]->mapping.rkey;
		}
	}
}

/* The Reads are done, and who knows @t's regions is the device alone: they are invalidated when they are used again. */
static void note_stale_regions(Transfer &t)
{
	for (Region *region : t.regions) {
		if (!region)
			break;
		region->invalidate_wr.invalidate_rkey = region->mapping.rkey;
		region->stale = true;
	}
}

/* --- the chain --- */

/*
 * Build the next chain that fills the call's sink: as many of the Reads as it has room for. Errors: EPROTO, not one.
 */
[[nodiscard]] static Status build_reads(Server &server, ServerCall *call, ReadProgress &progress,
					Chain &chain)
{
	Transfer &t = *call->transfer;
	const chunk::Arrival &arrival = call->arrival;
	const xdr::ReadList &reads = call->message().reads;
	/* What registers a region, and what invalidates it first. */
	const u32 regions = t.regions[0] ? 2 * sink_regions(server, arrival) : 0;

	ChainBuilder builder({t.local, progress.sges}, {t.requests, part_room(server) - regions},
			     t.all_sges(), server.limits.read_sges, ~0u, RPCORDMA_WR_RDMA_READ,
			     &call->chain_cqe);
	builder.begin_at(progress.reads);
	bool built = true;
	if (arrival.how == chunk::Arrival::How::single) {
		for (xdr::ReadSegment segment : reads)
			built = built && builder.transfer(segment.target);
	} else {
		u32 at = 0;
		auto read = [&](const xdr::Segment &segment, u32 offset) {
			built = built && builder.skip(offset - at) && builder.transfer(segment);
			at = offset + segment.length;
		};
		auto copy = [](u32, u32, u32) {};
		(void)chunk::walk_arrival(reads, arrival.inline_length, arrival.message_length,
					  read, copy);
	}
	progress.whole = built;
	const u32 count = builder.count() - (built ? 0 : 1);
	if (!builder.count() || !count) {
		trace::failure(server.peer, Failure::read_chain_long, call->xid(), Error::protocol);
		return Error::protocol;
	}
	progress.reads += count;
	chain = {&t.requests[0].wr, &t.requests[count - 1].wr, count};
	if (server.device.read_needs_region)
		register_exposed(t, &call->chain_cqe, progress, chain);
	else
		while (t.regions[0] && progress.regions < sink_regions(server, arrival))
			register_next(t, &call->chain_cqe, progress, chain);
	chain.last->cqe = &call->read_cqe;
	chain.last->send_flags = RPCORDMA_SEND_SIGNALED;
	return {};
}

/*
 * Map the call's sink for one Read that is the call's own, and make that, if it fetches all there is, and has the SGEs. Errors:
 * ENOMEM; EPROTO.
 */
[[nodiscard]] static Result<bool> begin_lone_read(Server &server, ServerCall *call,
						  ReadProgress &progress, Chain &chain)
{
	const chunk::Arrival &arrival = call->arrival;

	if (arrival.how != chunk::Arrival::How::single || arrival.segments != 1 ||
	    !server.limits.lone_read)
		return false;
	const auto mapped =
		map_lone_sink(server, call, arrival.sink_length, server.limits.lone_read);
	if (__builtin_expect(!mapped.ok(), 0))
		return mapped.error() == Error::no_space ? Error::protocol : mapped.error();
	if (!mapped.value())
		return false;
	rpcordma_send_wr &wr = call->lone.prepare(call->message().reads[0].target);

	wr.next = nullptr;
	wr.cqe = &call->read_cqe;
	wr.send_flags = RPCORDMA_SEND_SIGNALED;
	chain = {&wr, &wr, 1};
	progress.whole = true;
	return true;
}

/* Map the call's sink and build the first chain. Errors: ENOMEM, the mapping failed, which may pass; EPROTO. */
[[nodiscard]] static Status begin_reads(Server &server, ServerCall *call, rpcordma_alloc_how how,
					ReadProgress &progress, Chain &chain)
{
	if (TRY(begin_lone_read(server, call, progress, chain)))
		return {};
	progress.sges = TRY(map_sink(server, call, how));
	return build_reads(server, call, progress, chain);
}

/* Post the last chain of @call's Reads, which has the room. The call may be another one's as soon as that is done. */
[[nodiscard]] static PostResult post_reads(Server &server, ServerCall *call, const Chain &chain)
{
	const u32 xid = call->message().xid.get();

	call->room_taken = chain.count;
	const rpcordma_posted posted = rpcordma_post_send(server.endpoint, chain.first);
	trace::post(server.endpoint, "read", xid, chain.count, true, posted.error, call);
	if (posted.error)
		return {from_errno(posted.error), posted.any};
	rpcordma_server_count(RPCORDMA_SERVER_READ, chain.count);
	return {};
}

/* What was posted of the chain stays the device's until the drain: destroy() frees it. */
static void reads_failed(Server &server, ServerCall *call, const Chain &chain, PostResult posted)
{
	const u32 xid = call->xid();

	if (!posted.any) {
		server.room.give(chain.count);
		give_back_resources(server, call);
		recycle(server, call);
	}
	close_after(server, Failure::read_post_failed, xid, posted.error);
}

/* --- by the receive completion --- */

/* Calls of the largest size for which completions have Reads under way at most, or as many bytes of others. */
static constexpr u32 kMostReading = 8;

/* Take part of the budget for @pages of a sink. */
[[nodiscard]] static bool take_eager(Server &server, ServerCall *call, u32 pages, u64 cap)
{
	/* However few bytes they are: a stranger chooses. */
	const u32 bytes = pages * server.device.page_size + kTransferBytes;
	const u32 largest = Transfer::kPages * server.device.page_size + kTransferBytes;

	if (!server.eager.take(bytes, cap))
		return false;
	call->eager = bytes;
	if (!server.eager.begin_reading(bytes, kMostReading * largest)) {
		put_eager(server, call);
		return false;
	}
	call->reading = bytes;
	/* Of the other half, of all and of this connection's share, all come back as soon as a thread has the call. */
	call->keeps_sink = eager_total.bytes() <= cap / 2 &&
			   server.eager.bytes() <= cap / 2 / max(1u, eager_total.users());
	return true;
}

/* Whether no thread that waits for room is to be served before. */
[[nodiscard]] static bool in_order(const Server &server)
{
	return !server.room.waited_for(std::memory_order_relaxed) &&
	       server.established.load(std::memory_order_acquire);
}

/* Completions post under the lock, and nothing once the connection closes: so nothing follows the drain (S2). */
[[nodiscard]] static PostResult post_unless_closing(Server &server, ServerCall *call,
						    const Chain &chain)
{
	SpinGuard guard(server.lock);

	if (server.closing.load(std::memory_order_relaxed))
		return {Error::not_connected, false};
	return post_reads(server, call, chain);
}

bool pull_eagerly(Server &server, ServerCall *call)
{
	const u32 page_size = server.device.page_size;
	const u32 pages = sink_pages(server, call->arrival);
	const u64 cap = eager_cap(server.xprt, page_size, server.limits.eager_memory);

	/* No sink is larger: a thread has the pages for those. */
	if (pages > Transfer::kPages || !in_order(server) || !take_eager(server, call, pages, cap))
		return false;
	call->transfer = server_pool.take_sink(pages, u32(min<u64>(cap / page_size, ~0u >> 1)));
	if (!call->transfer) {
		give_back_resources(server, call);
		return false;
	}
	ReadProgress progress;
	Chain chain;
	/* Others wait until there is room for the next chain. */
	if (!begin_reads(server, call, RPCORDMA_ALLOC_ATOMIC, progress, chain).ok() ||
	    !progress.whole || !server.room.take(chain.count)) {
		give_back_resources(server, call);
		return false;
	}
	const PostResult posted = post_unless_closing(server, call, chain);
	if (posted.error == Error::none)
		rpcordma_server_count(RPCORDMA_SERVER_EAGER, 1);
	else
		reads_failed(server, call, chain, posted);
	return true;
}

/* --- by a service thread --- */

/* Take a transfer, with pages of @rqst, and build the first chain. */
[[nodiscard]] static Status begin_reads_into(Server &server, ServerCall *call, svc_rqst *rqst,
					     ReadProgress &progress, Chain &chain)
{
	const u32 pages = sink_pages(server, call->arrival);

	call->transfer = server_pool.take(pages, RPCORDMA_ALLOC_SERVICE);
	if (!call->transfer) {
		trace::failure(server.peer, Failure::transfer_missing, call->xid(),
			       Error::no_memory);
		return Error::no_memory;
	}
	rpcordma_svc_lend_pages(rqst, call->transfer->pages, pages);
	call->transfer->page_count = pages;
	return begin_reads(server, call, RPCORDMA_ALLOC_SERVICE, progress, chain);
}

/* Post the chains that others of @call follow; @chain becomes the last. */
[[nodiscard]] static PostResult post_parts(Server &server, ServerCall *call, ReadProgress &progress,
					   Chain &chain, RoomWait &wait)
{
	PostResult all = {Error::none, false};

	while (!progress.whole) {
		const PostResult posted = post_part(server, call, chain, wait);

		all.any = all.any || posted.any;
		all.error = posted.error;
		if (all.error != Error::none)
			break;
		if (const Status built = build_reads(server, call, progress, chain); !built.ok()) {
			all.error = built.error();
			request_close(server, trace::Loss::rpc_failed, to_errno(all.error));
			break;
		}
	}
	return all;
}

void pull_with(Server &server, ServerCall *call, svc_rqst *rqst)
{
	rpcordma_server_count(RPCORDMA_SERVER_HELD, 1);
	ReadProgress progress;
	Chain chain;
	if (const Status built = begin_reads_into(server, call, rqst, progress, chain); !built.ok()) {
		give_back_resources(server, call);
		if (built.error() == Error::protocol) {
			refuse(server, call, server.session.refusal(xdr::ErrorCode::chunk));
			return;
		}
		/* The client sends it again, over another connection. */
		recycle(server, call);
		request_close(server, trace::Loss::rpc_failed, to_errno(built.error()));
		return;
	}
	RoomWait wait;
	const PostResult parts = post_parts(server, call, progress, chain, wait);
	if (parts.error != Error::none || !wait_for_room(server, chain.count, wait)) {
		/* Or the drain makes an end of it. */
		if (!parts.any) {
			give_back_resources(server, call);
			recycle(server, call);
		}
		return;
	}
	const PostResult posted = post_reads(server, call, chain);
	if (posted.error != Error::none)
		reads_failed(server, call, chain, {posted.error, posted.any || parts.any});
}

/* --- completion --- */

void part_done(Server &server, ServerCall *call, const rpcordma_completion &completion)
{
	call->parts.fetch_sub(1, std::memory_order_relaxed);
	server.room.give(part_room(server));
	if (completion.status != RPCORDMA_WC_SUCCESS)
		chain_failed(server, call, trace::Loss::chain_failed, completion);
}

void reads_done(Server &server, ServerCall *call, const rpcordma_completion &completion)
{
	server.room.give(call->room_taken);
	if (call->reading)
		end_reading(server, call);
	if (completion.status == RPCORDMA_WC_SUCCESS) {
		if (!server.device.read_needs_region)
			note_stale_regions(*call->transfer);
		enqueue(server, call, CallQueue::Lane::ready);
		return;
	}
	chain_failed(server, call, trace::Loss::read_failed, completion);
	finish_resources(server, call);
	recycle(server, call);
}

} // namespace rpcordma
