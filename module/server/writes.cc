// SPDX-License-Identifier: GPL-2.0-only
/* The RDMA Writes of a reply. See writes.hh. */

#include "module/server/writes.hh"

#include "module/rdma/chain.hh"
#include "module/server/server.hh"

namespace rpcordma {

using trace::Failure;

Error writes_too_long(const Server &server, const ServerCall *call, const Outgoing &out, u32 done)
{
	trace::failure(server.peer, Failure::write_chain_long, call->xid(), int(done));
	return out.begun ? Error::protocol : Error::no_space;
}

Status post_writes(Server &server, ServerCall *call, const Chain &chain, Outgoing &out)
{
	const PostResult posted = post_part(server, call, chain, out.wait);

	if (posted.any && !out.begun) {
		out.begun = true;
		call->owners.fetch_add(1, std::memory_order_relaxed);
	}
	if (posted.error != Error::none)
		return Error::not_connected;
	return {};
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
	return map_reply(server, call);
}

/* Whether all that @answer has written, of which there is some, goes into one segment, which is the first chunk's: most READs. */
[[nodiscard]] static bool fills_one_segment(const xdr::ChunkLists &lists,
					    const chunk::Answer &answer)
{
	return answer.placed_count == 1 && !answer.reply_length && lists.writes.segments() == 1;
}

/* Add the Writes of what @answer says to @chain. Returns whether all of them fit. */
[[nodiscard]] static bool fill_chunks(ChainBuilder &chain, const xdr::ChunkLists &lists,
				      const chunk::Answer &answer)
{
	bool built = true;
	u32 i = 0;

	if (fills_one_segment(lists, answer) && lists.writes.count() == 1) {
		xdr::Segment only = lists.writes.first_segment();

		only.length = min(only.length, answer.placed[0].length);
		return chain.transfer(only);
	}
	for (xdr::WriteChunk into : lists.writes) {
		if (i == answer.placed_count)
			break;
		built = built && fill_segments(chain, into, answer.placed[i++].length);
	}
	return built &&
	       (!answer.reply_length || fill_segments(chain, lists.reply, answer.reply_length));
}

/*
 * Whether all that @answer has written is page data of @reply, in few pages, and goes into one segment: then the Write is the
 * call's own. Returns whence in the pages that is, or ~0: it is not so.
 */
[[nodiscard]] static u32 lone_write_offset(const Server &server, const ServerCall &call,
					   const rpcordma_xdr_buf *reply,
					   const chunk::Answer &answer, const svc_rqst *rqst)
{
	constexpr u32 none = ~0u;
	const u32 page_size = server.device.page_size, head = u32(reply->head.length);

	if (!fills_one_segment(call.message(), answer))
		return none;
	const chunk::ReplyRange placed = answer.placed[0];
	if (placed.offset < head || placed.length > reply->page_length ||
	    placed.offset - head > reply->page_length - placed.length)
		return none;
	const u32 offset = reply->page_base + (placed.offset - head);
	const u32 pages = rpcordma_svc_reply_pages(rqst);
	if ((offset & (page_size - 1)) + placed.length > server.limits.lone_write * page_size ||
	    !pages || pages > LoneRequest::kReplyPages)
		return none;
	return offset;
}

/* @write, which has its memory and its target, is all the Writes of @out, ahead of @call's Sends. */
static void write_alone(ServerCall *call, rpcordma_send_wr &write, Outgoing &out)
{
	write.next = &call->sends[0].wr;
	write.cqe = &call->chain_cqe;
	write.send_flags = 0;
	out.first_write = &write;
	out.writes = 1;
}

/* Make that Write, of @length bytes; the pages of @rqst become the call's. Errors: ENOMEM; ENOSPC. */
[[nodiscard]] static Status build_lone_write(Server &server, ServerCall *call,
					     const rpcordma_xdr_buf *reply, u32 offset, u32 length,
					     svc_rqst *rqst, Outgoing &out)
{
	LoneRequest &lone = call->lone;

	/* There are no more pages than that. */
	if (!TRY(map_lone(server, call, RPCORDMA_WR_RDMA_WRITE, reply->pages, offset, length,
			  server.limits.lone_write)))
		return Error::no_space;
	lone.page_count = rpcordma_svc_take_reply_pages(rqst, lone.pages, LoneRequest::kReplyPages);
	write_alone(call, lone.prepare(call->message().writes.first_segment()), out);
	return {};
}

/* Whether what @answer has written, which is in @mapped pieces, is what one Write has. */
[[nodiscard]] static bool takes_one_write(const Server &server, const xdr::ChunkLists &lists,
					  const chunk::Answer &answer, u32 mapped)
{
	return fills_one_segment(lists, answer) && mapped <= server.limits.send_sges &&
	       answer.write_length <= kLongestWrite;
}

/* Make that Write, of the @mapped pieces of @call's transfer, where they are: there is nothing to cut. */
static void build_one_write(ServerCall *call, u32 mapped, Outgoing &out)
{
	const xdr::Segment target = call->message().writes.first_segment();
	Transfer &t = *call->transfer;
	rpcordma_rdma_wr &write = t.requests[0];

	write = {};
	write.wr.opcode = RPCORDMA_WR_RDMA_WRITE;
	write.wr.sg_list = t.local;
	write.wr.num_sge = int(mapped);
	write.remote_addr = target.offset;
	write.rkey = target.handle.get();
	write_alone(call, write.wr, out);
}

Status build_writes(Server &server, ServerCall *call, const rpcordma_xdr_buf *reply,
		    const chunk::Answer &answer, svc_rqst *rqst, Outgoing &out)
{
	const xdr::Message &message = call->message();
	const u32 offset = lone_write_offset(server, *call, reply, answer, rqst);
	WriteParts parts;

	if (offset != ~0u)
		return build_lone_write(server, call, reply, offset, answer.write_length, rqst, out);
	TRY_STATUS(take_reply_transfer(server, call, rqst));
	parts.mapped = TRY(map_pieces(server, *call, reply, answer));
	TRY_STATUS(take_reply_pages(call, rqst));
	if (takes_one_write(server, message, answer, parts.mapped)) {
		build_one_write(call, parts.mapped, out);
		return {};
	}
	parts.segments = message.writes.segments() + message.reply.count();
	parts.bytes = u64(answer.write_length) + answer.reply_length;
	parts.sends = &call->sends[0].wr;
	parts.send_count = answer.transmissions;
	return chain_writes(server, call, parts, out, [&](ChainBuilder &chain) {
		return fill_chunks(chain, message, answer);
	});
}

} // namespace rpcordma
