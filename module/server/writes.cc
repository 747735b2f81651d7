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
	const PostResult posted = post_part(server, call, chain);

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

/* Add the Writes of what @answer says to @chain. Returns whether all of them fit. */
[[nodiscard]] static bool fill_chunks(ChainBuilder &chain, const xdr::ChunkLists &lists,
				      const chunk::Answer &answer)
{
	bool built = true;
	u32 i = 0;

	for (xdr::WriteChunk into : lists.writes) {
		if (i == answer.placed_count)
			break;
		built = built && fill_segments(chain, into, answer.placed[i++].length);
	}
	return built &&
	       (!answer.reply_length || fill_segments(chain, lists.reply, answer.reply_length));
}

Status build_writes(Server &server, ServerCall *call, const rpcordma_xdr_buf *reply,
		    const chunk::Answer &answer, svc_rqst *rqst, Outgoing &out)
{
	const xdr::Message &message = call->message();
	WriteParts parts;

	TRY_STATUS(take_reply_transfer(server, call, rqst));
	parts.mapped = TRY(map_pieces(server, *call, reply, answer));
	TRY_STATUS(take_reply_pages(call, rqst));
	parts.segments = message.writes.segments() + message.reply.count();
	parts.bytes = u64(answer.write_length) + answer.reply_length;
	parts.sends = &call->sends[0].wr;
	parts.send_count = answer.transmissions;
	return chain_writes(server, call, parts, out, [&](ChainBuilder &chain) {
		return fill_chunks(chain, message, answer);
	});
}

} // namespace rpcordma
