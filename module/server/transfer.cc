// SPDX-License-Identifier: GPL-2.0-only
/* What a call has for its chains, and how it is given back. See transfer.hh. */

#include "module/server/transfer.hh"

#include "module/server/close.hh"
#include "module/server/server.hh"

namespace rpcordma {

/* Pages that a completion unmaps and releases itself: of a READ of 4 KiB there are three. */
static constexpr u32 kFinishedAtOnce = 8;

/* After so long the worker does it. Threads, while there are calls, come by earlier, so that it has nothing to do. */
static constexpr u32 kFinishDelayMs = 100;

u32 part_room(const Server &server)
{
	return min(Transfer::kRequests, server.room.size());
}

PostResult post_part(Server &server, ServerCall *call, const Chain &chain, RoomWait &wait)
{
	const u32 xid = call->xid(), room = part_room(server);

	if (!wait_for_room(server, room, wait))
		return {Error::not_connected, false};
	chain.last->next = nullptr;
	chain.last->cqe = &call->read_cqe;
	chain.last->send_flags = RPCORDMA_SEND_SIGNALED;
	call->parts.fetch_add(1, std::memory_order_relaxed);
	const rpcordma_posted posted = rpcordma_post_send(server.endpoint, chain.first);
	trace::post(server.endpoint, call->transfer->writes ? "write" : "read", xid, chain.count,
		    true, posted.error, call);
	if (!posted.error) {
		rpcordma_server_count(call->transfer->writes ? RPCORDMA_SERVER_WRITE :
							       RPCORDMA_SERVER_READ,
				      chain.count);
		return {};
	}
	if (!posted.any) {
		call->parts.fetch_sub(1, std::memory_order_relaxed);
		server.room.give(room);
	}
	close_after(server, trace::Failure::post_failed, xid, from_errno(posted.error));
	return {from_errno(posted.error), posted.any};
}

[[nodiscard]] static Region *make_region(Server &server)
{
	return create_region(server.endpoint, server.peer,
			     server.limits.region_pages * region_entries(server.device), false,
			     RPCORDMA_ALLOC_SERVICE);
}

bool take_regions(Server &server, Transfer &transfer, u32 count, rpcordma_alloc_how how)
{
	u32 have;
	{
		SpinGuard guard(server.lock);

		have = server.regions.take(transfer.regions, count);
	}
	if (how != RPCORDMA_ALLOC_ATOMIC)
		while (have < count && (transfer.regions[have] = make_region(server)))
			have++;
	return have == count;
}

/* Whether to call watch_regions(), with the lock released. Server lock held. */
[[nodiscard]] static bool begin_watch_locked(Server &server) REQUIRES(server.lock)
{
	/* Nobody cancels what is asked for once it closes. */
	return server.regions.begin_watch() && !server.closing.load(std::memory_order_relaxed);
}

/* Have tend_idle_regions() called. */
static void watch_regions(Server &server)
{
	rpcordma_svc_queue_finish(server.xprt, SinkRegions::kWhileMs, false);
}

void put_regions(Server &server, Transfer &transfer, u32 xid)
{
	bool watch = false;

	for (Region *&region : transfer.regions) {
		if (!region)
			break;
		rpcordma_region_unmap(region->device);
		/* One that was taken in vain was not mapped. */
		if (region->mapping.length && trace::on(RPCORDMA_TRACE_REGION))
			trace::region(server.peer, "unmap", xid, *region);
		region->mapping.length = 0;
		{
			SpinGuard guard(server.lock);

			server.regions.put(region);
			watch |= begin_watch_locked(server);
		}
		region = nullptr;
	}
	if (watch)
		watch_regions(server);
}

void tend_regions(Server &server)
{
	const u64 now = rpcordma_now_ms();
	Region *idle;
	u32 missing;
	bool watch;
	{
		SpinGuard guard(server.lock);

		missing = server.regions.take_missing();
		idle = missing ? nullptr : server.regions.take_idle(now);
		/* Fewer may be kept from now on. */
		watch = begin_watch_locked(server);
	}
	if (idle)
		destroy_region(idle);
	for (; missing; missing--) {
		Region *region = make_region(server);

		if (!region)
			break;
		SpinGuard guard(server.lock);

		server.regions.put(region);
		watch |= begin_watch_locked(server);
	}
	if (watch)
		watch_regions(server);
}

void tend_idle_regions(Server &server)
{
	const u64 now = rpcordma_now_ms();
	bool more;

	for (;;) {
		Region *idle;
		{
			SpinGuard guard(server.lock);

			idle = server.regions.take_idle(now);
			more = server.regions.watch() &&
			       !server.closing.load(std::memory_order_relaxed);
		}
		if (!idle)
			break;
		destroy_region(idle);
	}
	if (more)
		watch_regions(server);
}

[[nodiscard]] static rpcordma_bulk_event mapping_event(bool writes, bool mapped)
{
	return static_cast<rpcordma_bulk_event>(
		mapped ? (writes ? trace::Bulk::reply_mapped : trace::Bulk::sink_mapped) :
			 (writes ? trace::Bulk::reply_unmapped : trace::Bulk::sink_unmapped));
}

void trace_mapping_listened(const Server &server, const Transfer &transfer, u32 xid, bool mapped)
{
	u32 length;

	if (const u32 pieces = rpcordma_bulk_pieces(transfer.bulk, &length))
		rpcordma_trace_bulk(mapping_event(transfer.writes, mapped), server.peer, xid,
				    pieces, length);
}

void trace_mapping_listened(const Server &server, const LoneRequest &lone, u32 xid, bool mapped)
{
	rpcordma_trace_bulk(mapping_event(lone.writes(), mapped), server.peer, xid, lone.mapped,
			    lone.length());
}

/* @call's lone request has @mapped SGEs, or that is an error. */
[[nodiscard, gnu::always_inline]] static inline Result<bool>
lone_mapped(Server &server, ServerCall *call, int mapped)
{
	LoneRequest &lone = call->lone;

	if (mapped < 0) {
		trace::failure(server.peer,
			       lone.writes() ? trace::Failure::write_map_failed :
					       trace::Failure::sink_map_failed,
			       call->xid(), mapped);
		return from_errno(mapped);
	}
	lone.mapped = u16(mapped);
	if (mapped)
		trace_lone_mapping(server, *call, true);
	return mapped != 0;
}

Result<bool> map_lone(Server &server, ServerCall *call, int opcode, page **pages, u32 offset,
		      u32 length, u32 most, u16 first)
{
	LoneRequest &lone = call->lone;

	lone.request.wr.opcode = opcode;
	lone.first = first;
	return lone_mapped(server, call,
			   rpcordma_pages_map(server.endpoint, lone.direction(), pages, offset,
					      length, lone.sges + first, most));
}

Result<bool> map_lone_sink(Server &server, ServerCall *call, u32 length, u32 most)
{
	LoneRequest &lone = call->lone;
	Transfer &sink = *call->transfer;

	lone.request.wr.opcode = RPCORDMA_WR_RDMA_READ;
	lone.first = 0;
	return lone_mapped(server, call,
			   rpcordma_runs_map(server.endpoint, RPCORDMA_DMA_FROM_DEVICE, sink.pages,
					     &sink.runs, length, lone.sges, most));
}

void put_lone(Server &server, ServerCall *call)
{
	LoneRequest &lone = call->lone;

	trace_lone_mapping(server, *call, false);
	rpcordma_pages_unmap(server.endpoint, lone.direction(), lone.sges + lone.first, lone.mapped);
	lone.mapped = 0;
	if (lone.page_count)
		rpcordma_pages_release(lone.pages, lone.page_count);
	lone.page_count = 0;
}

/* @transfer was the call's with @xid. */
static void put_transfer(Server &server, Transfer *transfer, u32 xid)
{
	if (trace::on(RPCORDMA_TRACE_BULK))
		trace_mapping_listened(server, *transfer, xid, false);
	if (transfer->regions[0])
		put_regions(server, *transfer, xid);
	server_pool.give(transfer);
}

void put_transfer(Server &server, ServerCall *call)
{
	Transfer *transfer = call->transfer;

	call->transfer = nullptr;
	put_transfer(server, transfer, call->xid());
}

/* Somebody has references to some of @sink's first @count pages. */
[[gnu::noinline]] static void forgo_kept(Transfer &sink, u32 count)
{
	for (page **p = sink.pages; p < sink.pages + count; p++)
		if (rpcordma_pages_kept(p, 1)) {
			rpcordma_pages_release(p, 1);
			*p = nullptr;
		}
	sink.page_count = count;
}

void put_sink(Server &server, ServerCall *call)
{
	Transfer &sink = *call->sink;
	const u32 count = sink.page_count, eager = sink.eager;

	call->sink = nullptr;
	sink.page_count = 0;
	if (__builtin_expect(rpcordma_pages_kept(sink.pages, count), 0))
		forgo_kept(sink, count);
	server_pool.give(&sink);
	/* Whoever takes that part finds the sink. */
	server.eager.give_back(eager);
}

void finish_transfer(Server &server, ServerCall *call)
{
	Transfer *transfer = call->transfer;

	if (transfer->page_count <= kFinishedAtOnce) {
		put_transfer(server, call);
		return;
	}
	call->transfer = nullptr;
	transfer->xid = call->xid();
	server.finished.push(transfer);
	if (server.finished.ask_for_worker())
		/* Soon, whenever a look at idle regions is due. */
		rpcordma_svc_queue_finish(server.xprt, kFinishDelayMs, true);
}

void put_finished(Server &server)
{
	Transfer *next;

	for (Transfer *transfer = server.finished.take(); transfer; transfer = next) {
		next = transfer->next_finished;
		put_transfer(server, transfer, transfer->xid);
	}
}

void end_reading(Server &server, ServerCall *call)
{
	server.eager.end_reading(call->reading);
	call->reading = 0;
}

void put_eager(Server &server, ServerCall *call)
{
	end_reading(server, call);
	server.eager.give_back(call->eager);
	call->eager = 0;
}

} // namespace rpcordma
