// SPDX-License-Identifier: GPL-2.0-only
/* The RDMA Writes of a reply. See writes.hh. */

#include "module/server/writes.hh"

#include "module/rdma/chain.hh"
#include "module/server/server.hh"

namespace rpcordma {

using trace::Failure;

/*
 * Bytes of an RDMA Write, where there is room for several. One would do, but soft RoCE asks for an
 * acknowledgment at a Write's end, and sends no more than half a megabyte ahead: with longer ones a READ of a
 * megabyte takes a round trip more.
 */
static constexpr u32 kLongestWrite = 128 * 1024;

/*
 * Bytes of an RDMA Write at most, for @bytes of at most @pages into the chunks of @lists. Short ones only where all of them
 * surely fit, and while others leave the queue half empty.
 */
[[nodiscard]] static u32 longest_write(const Server &server, const xdr::ChunkLists &lists,
				       u32 pages, u64 bytes)
{
	const u32 queue_size = server.room.size();
	const u64 writes = u64(lists.writes.segments()) + lists.reply.count() +
			   pages / server.limits.send_sges + bytes / kLongestWrite;
	/* One is the Send, one where a piece of memory is cut once more. */
	const bool fit = writes + 2 <= min(Transfer::kRequests, queue_size);

	return fit && server.room.free() > queue_size / 2 ? kLongestWrite : ~0u;
}

/* Map what @answer places and what goes into the Reply chunk, in that order. Returns how many SGEs there are. */
[[nodiscard]] static Result<u32> map_pieces(Server &server, const ServerCall &call,
					    const rpcordma_xdr_buf *reply,
					    const chunk::Answer &answer)
{
	Transfer &t = *call.transfer;

	for (u32 i = 0; i < answer.placed_count; i++)
		if (answer.placed[i].length &&
		    rpcordma_bulk_add_buf(t.bulk, reply, answer.placed[i].offset,
					  answer.placed[i].length))
			return Error::no_space;
	if (answer.reply_length)
		for (u32 i = 0; i < answer.rest_count; i++)
			if (rpcordma_bulk_add_buf(t.bulk, reply, answer.rest[i].offset,
						  answer.rest[i].length))
				return Error::no_space;
	const int mapped = rpcordma_bulk_map(t.bulk, server.endpoint, RPCORDMA_DMA_TO_DEVICE,
					     t.local, Transfer::pieces_for(t.room));
	if (mapped < 0) {
		trace::failure(server.peer, Failure::write_map_failed, call.xid(), mapped);
		return Error::no_memory;
	}
	trace_mapping(server, call, true);
	return u32(mapped);
}

/*
 * Build the next chain of Writes of what @answer says: as many as it has room for. @done: what earlier ones had. Returns
 * whether it is the last.
 */
[[nodiscard]] static bool build_chain(const xdr::ChunkLists &lists, const chunk::Answer &answer,
				      u32 done, ChainBuilder &chain)
{
	bool built = true;
	/* A chunk is filled contiguously, in segment order (RFC 8166 3.4.6). */
	auto fill = [&](const xdr::WriteChunk &into, u32 length) {
		for (xdr::Segment segment : into) {
			segment.length = min(segment.length, length);
			length -= segment.length;
			built = built && chain.transfer(segment);
		}
	};
	u32 i = 0;

	chain.begin_at(done);
	for (xdr::WriteChunk into : lists.writes) {
		if (i == answer.placed_count)
			break;
		fill(into, answer.placed[i++].length);
	}
	if (answer.reply_length)
		fill(lists.reply, answer.reply_length);
	return built;
}

Status build_writes(Server &server, ServerCall *call, const rpcordma_xdr_buf *reply,
		    const chunk::Answer &answer, svc_rqst *rqst, Outgoing &out)
{
	const xdr::Message &message = call->message();

	call->transfer = server_pool.take(rpcordma_svc_reply_pages(rqst), RPCORDMA_ALLOC_SERVICE);
	if (!call->transfer) {
		trace::failure(server.peer, Failure::transfer_missing, call->xid(),
			       Error::no_memory);
		return Error::no_memory;
	}
	Transfer &t = *call->transfer;

	t.writes = true;
	const u32 mapped = TRY(map_pieces(server, *call, reply, answer));
	/* From here on the thread's pages are the transfer's. */
	t.page_count = rpcordma_svc_take_reply_pages(rqst, t.pages, t.room);
	if (!t.page_count)
		return Error::no_space;
	const u32 longest = longest_write(server, message, t.room,
					  u64(answer.write_length) + answer.reply_length);
	/* The Sends are posted with the last of them. */
	const u32 most = min(Transfer::kRequests, server.room.size() - answer.transmissions);
	for (u32 done = 0;;) {
		ChainBuilder chain({t.local, mapped}, {t.requests, most}, t.all_sges(),
				   server.limits.send_sges, longest, RPCORDMA_WR_RDMA_WRITE,
				   &call->chain_cqe.cqe);
		const bool last = build_chain(message, answer, done, chain);

		out.writes = chain.count();
		if (!out.writes) {
			trace::failure(server.peer, Failure::write_chain_long, call->xid(),
				       int(done));
			return out.begun ? Error::protocol : Error::no_space;
		}
		out.first_write = &t.requests[0].wr;
		if (last) {
			chain.last().next = &call->sends[0].wr;
			return {};
		}
		const PostResult posted =
			post_part(server, call, {&t.requests[0].wr, &chain.last(), out.writes});
		if (posted.any && !out.begun) {
			out.begun = true;
			call->owners.fetch_add(1, std::memory_order_relaxed);
		}
		if (posted.error != Error::none)
			return Error::not_connected;
		done += out.writes;
	}
}

} // namespace rpcordma
