// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pulling a call's Read chunks (RFC 8166 3.4.5): by the receive completion, within a budget and without
 * ever sleeping, or by a service thread. See server.hh.
 */

#include "module/server/server.hh"

#include <new>

using namespace rpcordma;

u32 rpcordma_server::sink_pages(const Call *call) const
{
	return div_round_up(call->arrival.sink_length, device.page_size);
}

/*
 * Work requests of @call's Reads at most: one for each segment, and for each run of SGEs that is full;
 * where the sink is registered, those that do and undo that, and one for where a segment meets its end.
 */
u32 rpcordma_server::longest_chain(const Call *call) const
{
	return call->arrival.segments +
	       (region_pages ? 3 * Transfer::kRegions : sink_pages(call) / read_sges);
}

/* --- the eager budget --- */

[[nodiscard]] static u64 eager_cap(const svc_xprt *xprt, u32 page_size)
{
	const u32 bytes = rpcordma_server_tunables.eager_read_bytes;
	rpcordma_svc_limits limits;

	if (bytes)
		return bytes;
	rpcordma_svc_get_limits(xprt, &limits);
	return u64(limits.threads) * (limits.max_message + page_size + kTransferBytes);
}

/*
 * Memory that the module pulls into before any thread has asked for it is capped, lest strangers pin what
 * there is; connections that have some under way share the cap evenly; and one that has not been
 * replied to yet has one call.
 */
bool rpcordma_server::take_eager(Call *call, u32 pages, u64 cap)
{
	/* However few bytes they are: a stranger chooses. */
	const u32 bytes = pages * device.page_size + kTransferBytes;

	/* Only receive completions, one at a time, add to it. */
	const u64 mine = eager_bytes.load(std::memory_order_relaxed);
	if (mine) {
		const u32 users = max(1u, server_pool.eager_users.load(std::memory_order_relaxed));

		if (!replied.load(std::memory_order_relaxed) || mine + bytes > cap / users)
			return false;
	}
	if (server_pool.eager_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes > cap) {
		server_pool.eager_bytes.fetch_sub(bytes, std::memory_order_relaxed);
		return false;
	}
	if (!eager_bytes.fetch_add(bytes, std::memory_order_relaxed))
		server_pool.eager_users.fetch_add(1, std::memory_order_relaxed);
	call->eager = bytes;
	return true;
}

void rpcordma_server::return_eager(Call *call)
{
	server_pool.eager_bytes.fetch_sub(call->eager, std::memory_order_relaxed);
	if (eager_bytes.fetch_sub(call->eager, std::memory_order_relaxed) == call->eager)
		server_pool.eager_users.fetch_sub(1, std::memory_order_relaxed);
	call->eager = 0;
}

/* --- Reads --- */

Region *rpcordma_server::take_region(rpcordma_alloc_how how)
{
	Region *region = locked(lock, [&] { return regions.pop_front(); });
	if (region || how == RPCORDMA_ALLOC_ATOMIC)
		return region;
	return create_region(endpoint, peer, region_pages, false, how);
}

/*
 * On iWARP the sink of a Read is memory that the peer could write: a region, registered ahead of the Read
 * in the same chain, and invalidated at its end. Returns how many SGEs there are.
 */
Result<u32> rpcordma_server::register_sink(Call *call, rpcordma_alloc_how how)
{
	Transfer &t = *call->transfer;
	rpcordma_xdr_buf sink = {};
	u32 count = 0;

	sink.pages = t.pages;
	sink.page_length = sink.len = call->arrival.sink_length;
	for (u32 at = 0; at < sink.len; count++) {
		const u32 length = min(sink.len - at, region_pages * device.page_size);
		Region *region = take_region(how);

		if (!region)
			return Error::no_memory;
		t.regions[count] = region;
		region->register_wr.wr.cqe = &call->chain_cqe.cqe;
		if (rpcordma_region_map(region->device, &sink, at, length, true, 0,
					&region->register_wr, &region->mapping))
			return Error::no_memory;
		t.local[count] = {region->mapping.iova, length, region->mapping.lkey};
		at += length;
	}
	return count;
}

/*
 * Map the call's sink and build the chain that fills it. Errors: ENOMEM, the mapping failed, which may
 * pass; EPROTO, the chain would be longer than a chain can be.
 */
Status rpcordma_server::build_reads(Call *call, rpcordma_alloc_how how)
{
	Transfer &t = *call->transfer;
	const chunk::Arrival &arrival = call->arrival;
	u32 mapped;

	if (region_pages) {
		mapped = TRY(register_sink(call, how));
	} else {
		if (rpcordma_bulk_add_pages(t.bulk, t.pages, 0, arrival.sink_length))
			return Error::protocol;
		const int sges = rpcordma_bulk_map(t.bulk, endpoint, RPCORDMA_DMA_FROM_DEVICE,
						   t.local, Transfer::kPieces);
		if (sges < 0)
			return Error::no_memory;
		mapped = u32(sges);
	}

	ChainBuilder chain({t.local, mapped}, t.requests, t.sges, read_sges, ~0u,
			   RPCORDMA_WR_RDMA_READ, &call->chain_cqe.cqe);
	bool built = true;
	if (arrival.how == chunk::Arrival::How::single) {
		for (xdr::ReadSegment segment : call->header.reads)
			built = built && chain.transfer(segment.target);
	} else {
		u32 at = 0;
		auto read = [&](const xdr::Segment &segment, u32 offset) {
			built = built && chain.skip(offset - at) && chain.transfer(segment);
			at = offset + segment.length;
		};
		auto copy = [](u32, u32, u32) {};
		(void)chunk::walk_arrival(call->header.reads, arrival.inline_length,
					  arrival.message_length, read, copy);
	}
	if (!built || !chain.count() || chain.count() > queue_size)
		return Error::protocol;
	call->chain_length = chain.count();
	t.first = &t.requests[0].wr;
	rpcordma_send_wr *last = &chain.last();
	for (Region *region : t.regions) {
		if (!region)
			continue;
		/* Registered ahead of all Reads, and out of the peer's reach before anybody has the pages. */
		region->register_wr.wr.next = const_cast<rpcordma_send_wr *>(t.first);
		t.first = &region->register_wr.wr;
		region->invalidate_wr.cqe = &call->chain_cqe.cqe;
		region->invalidate_wr.send_flags = RPCORDMA_SEND_FENCE;
		region->invalidate_wr.invalidate_rkey = region->mapping.rkey;
		region->invalidate_wr.next = nullptr;
		last->next = &region->invalidate_wr;
		last = &region->invalidate_wr;
		call->chain_length += 2;
	}
	last->cqe = &call->read_cqe.cqe;
	last->send_flags |= RPCORDMA_SEND_SIGNALED;
	return call->chain_length <= queue_size ? Status() : Status(Error::protocol);
}

/* Post @call's chain of Reads. */
int rpcordma_server::post_reads(Call *call, bool &some)
{
	Transfer &t = *call->transfer;
	const rpcordma_send_wr *bad;
	const u32 count = call->chain_length;
	const u32 xid = call->header.xid.get();

	/* The call may be another one's as soon as that is posted. */
	const rpcordma_send_wr *first = t.first;
	const int rc = rpcordma_post_send(endpoint, first, &bad);
	some = !rc || bad != first;
	trace::post(peer, "read", xid, count, true, rc);
	if (!rc)
		rpcordma_server_count(RPCORDMA_SERVER_READ, count);
	return rc;
}

/* @call, which has a transfer, has done with it, and so has the device. */
void rpcordma_server::put_transfer(Call *call)
{
	Transfer *transfer = call->transfer;

	call->transfer = nullptr;
	for (Region *&region : transfer->regions) {
		if (!region)
			continue;
		rpcordma_region_unmap(region->device);
		locked(lock, [&] { regions.push_front(region); });
		region = nullptr;
	}
	server_pool.give(transfer);
}

bool rpcordma_server::read_eagerly(Call *call)
{
	const u32 pages = sink_pages(call);
	const u64 cap = eager_cap(xprt, device.page_size);

	/* Not past calls that are waiting for a thread. */
	const bool in_order = locked(lock, [&] { return held.empty(); });
	/* Nor past threads that wait for room. */
	if (!in_order || waiters.load(std::memory_order_relaxed) ||
	    !established.load(std::memory_order_acquire) || !take_eager(call, pages, cap))
		return false;

	call->transfer =
		server_pool.take_sink(pages, u32(min<u64>(cap / device.page_size, ~0u >> 1)));
	if (!call->transfer || !build_reads(call, RPCORDMA_ALLOC_ATOMIC).ok() ||
	    !take_room(call->chain_length)) {
		abandon(call);
		return false;
	}
	const u32 count = call->chain_length;
	bool some = false;
	const int rc = locked(lock, [&] {
		return closing.load(std::memory_order_relaxed) ? to_errno(Error::not_connected) :
								 post_reads(call, some);
	});
	if (!rc)
		rpcordma_server_count(RPCORDMA_SERVER_EAGER, 1);
	else
		reads_failed(call, count, some, rc);
	return true;
}

/* What was posted of the chain stays the device's until the drain: destroy() frees it. */
void rpcordma_server::reads_failed(Call *call, u32 count, bool some, int rc)
{
	if (!some) {
		give_room(count);
		abandon(call);
		recycle(call);
	}
	request_close("RDMA Reads could not be posted", rc);
}

/* The thread's part for a call that the receive completion held: its Reads, into its own pages. */
int rpcordma_server::read_with(Call *call, svc_rqst *rqst)
{
	const u32 pages = sink_pages(call);
	Status built = Error::no_memory;

	rpcordma_server_count(RPCORDMA_SERVER_HELD, 1);
	call->transfer = server_pool.take(RPCORDMA_ALLOC_SERVICE);
	if (call->transfer) {
		rpcordma_svc_lend_pages(rqst, call->transfer->pages, pages);
		call->transfer->page_count = pages;
		built = build_reads(call, RPCORDMA_ALLOC_SERVICE);
	}
	if (!built.ok()) {
		const Error error = built.error();

		abandon(call);
		if (error == Error::protocol) {
			call->answer = Call::Answer::error_chunk;
			send_error(call);
			return 0;
		}
		/* The client sends it again, over another connection. */
		recycle(call);
		request_close("no memory for RDMA Reads", to_errno(error));
		return 0;
	}
	const u32 count = call->chain_length;
	if (!wait_for_room(count)) {
		abandon(call);
		recycle(call);
		return 0;
	}
	bool some;
	const int rc = post_reads(call, some);
	if (rc)
		reads_failed(call, count, some, rc);
	return 0;
}

/* The last of the chain completed, and with it all of them. */
void rpcordma_server::reads_done(Call *call, const rpcordma_completion &completion)
{
	give_room(call->chain_length);
	if (completion.status == RPCORDMA_WC_SUCCESS) {
		enqueue(call, ready);
		return;
	}
	chain_failed(call, completion);
	abandon(call);
	recycle(call);
}

void rpcordma_core_server_read_done(void *context, rpcordma_cqe *cqe,
				    const rpcordma_completion *completion)
{
	Server *server = static_cast<Server *>(context);

	trace::completion(server->peer, "read", *completion);
	server->reads_done(OwnedCqe<ServerCall>::owner_of(cqe), *completion);
}

/*
 * A work request of @call failed. The first on a connection to report a remote access error tells that
 * the call's chunks are bad; those behind it are flushed, and tell nothing (RFC 8166 4.5.3).
 */
void rpcordma_server::chain_failed(Call *call, const rpcordma_completion &completion)
{
	if (completion.status == RPCORDMA_WC_REMOTE_ACCESS &&
	    !access_failed.exchange(true, std::memory_order_relaxed)) {
		const u64 address = rpcordma_svc_address_key(xprt);

		locked(server_failures_lock, [&] {
			server_failures.remember(address, call->message(), rpcordma_now_ms());
		});
		trace::error(peer, "the client's device refused a chunk", call->header.xid.get(),
			     completion.status);
	}
	request_close("RDMA failed", completion.status);
}

void rpcordma_core_server_chain_done(void *context, rpcordma_cqe *cqe,
				     const rpcordma_completion *completion)
{
	Server *server = static_cast<Server *>(context);

	trace::completion(server->peer, "chain", *completion);
	/* It comes for those that were flushed, too, and has freed nothing: the chain's last does. */
	if (completion->status != RPCORDMA_WC_SUCCESS)
		server->chain_failed(OwnedCqe<ServerCall>::owner_of(cqe), *completion);
}
