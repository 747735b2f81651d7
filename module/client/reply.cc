// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages from the peer: replies, errors, and telling them from backward calls. Runs in the receive
 * completion mostly; a reply that has to wait for LOCAL_INVs goes on in the send completion, and one that
 * overtook its own post in the sender.
 *
 * The peer is not trusted. What cannot be believed is counted, traced and dropped; then the call times
 * out, which drops the connection, and is sent again on a new one.
 */

#include "module/client/client.hh"

using namespace rpcordma;

void rpcordma_client::grant(Connection &c, Credits granted)
{
	const u32 before = c.credits.in_force();
	const u32 backward = backchannel ? 2 * kBackwardCredits : 0;
	u32 wanted = c.credits.accept(granted);

	if (!granted.get()) {
		tally(stats.bad_reply_count, 1);
		trace::error(peer, "the peer granted no credit", 0, 0);
	}
	/* C4: first the Receives, then the credits; as many credits as there are Receives for. */
	if (wanted + backward > c.receive_queue.provided()) {
		const u32 provided = c.receive_queue.provide(wanted + backward);
		const u32 backed = provided > backward ? provided - backward : 0;
		wanted = max(min(wanted, backed), min(wanted, before));
	}
	if (wanted == before)
		return;
	c.credits.put_in_force(wanted);
	trace::credits(peer, before, wanted);
	rpcordma_xprt_set_credits(xprt, wanted);
}

void rpcordma_client::handle_message(Connection &c, Receive *receive)
{
	const Bytes message = receive->message();
	Result<v1::Header> decoded = v1::decode(message);

	if (!decoded.ok()) {
		tally(stats.bad_reply_count, 1);
		trace::error(peer, "message not decodable", 0, to_errno(decoded.error()));
		c.receive_queue.recycle(receive);
		return;
	}
	const v1::Header &header = decoded.value();
	Result<v1::Direction> direction = v1::direction(header, message);
	if (!direction.ok()) {
		tally(stats.bad_reply_count, 1);
		trace::error(peer, "message neither call nor reply", header.xid.get(),
			     to_errno(direction.error()));
		c.receive_queue.recycle(receive);
		return;
	}
	if (direction.value() == v1::Direction::call) {
		handle_backward_call(c, receive, header);
		return;
	}

	const u32 xid = header.xid.get();
	rpcordma_xprt_conversed(xprt);
	if (back_off.load(std::memory_order_relaxed))
		back_off.store(false, std::memory_order_relaxed);
	grant(c, header.credits);
	rpc_rqst *rqst = rpcordma_rqst_find_pin(xprt, xid);
	if (!rqst) {
		if (!reply_to_cancelled(c, xid, *receive)) {
			rpcordma_xprt_count_bad_xid(xprt);
			trace::error(peer, "reply to nobody", xid, 0);
		}
		c.receive_queue.recycle(receive);
		return;
	}
	Call *call = rpcordma_rqst_call(rqst);
	trace::reply(peer, "reply", xid, header.credits.get(), static_cast<u32>(header.proc), 0);

	CallState expected = CallState::sent;
	if (call->state.compare_exchange_strong(expected, CallState::replied,
						std::memory_order_acq_rel)) {
		process_reply(c, call, receive, &header);
		return;
	}
	if (expected == CallState::posting) {
		/* It overtook the post that it answers. Whoever posts will find it. */
		call->held = receive;
		if (call->state.compare_exchange_strong(expected, CallState::early,
							std::memory_order_acq_rel))
			return;
		call->held = nullptr;
		expected = CallState::sent;
		if (call->state.compare_exchange_strong(expected, CallState::replied,
							std::memory_order_acq_rel)) {
			process_reply(c, call, receive, &header);
			return;
		}
	}
	/* A second reply, or one to a call that was not sent on this connection. */
	tally(stats.bad_reply_count, 1);
	trace::error(peer, "reply to a call that owes none", xid, static_cast<int>(expected));
	rpcordma_rqst_unpin(rqst);
	c.receive_queue.recycle(receive);
}

/* Send With Invalidate: one of the call's regions is out of the peer's reach already. */
void rpcordma_client::believe_invalidation(Connection &c, Call *call, const Receive &receive)
{
	/* Whatever the peer's R bit said (RFC 8797 4.1): the device has done it. */
	if (!(receive.flags & RPCORDMA_WC_WITH_INVALIDATE))
		return;
	Region *region = call->mapped.front();
	while (region && region->mapping.rkey != receive.invalidated_rkey)
		region = call->mapped.next(region);
	if (!region) {
		trace::error(peer, "the peer invalidated an R_key that is not the call's",
			     call->xid, static_cast<int>(receive.invalidated_rkey));
		return;
	}
	decltype(call->mapped)::remove(region);
	call->mapped_count--;
	rpcordma_region_unmap(region->device);
	trace::region(peer, "remote-inv", call->xid, region->mapping);
	call->spare.push_front(region);
	c.send_queue.return_invalidations(1);
	space_came();
}

/*
 * @call's reply is in @receive. Take the memory back from the peer, then complete the call.
 * @header  in the receive completion: the decoded header; elsewhere null
 */
void rpcordma_client::process_reply(Connection &c, Call *call, Receive *receive,
				    const v1::Header *header)
{
	believe_invalidation(c, call, *receive);
	if (call->mapped.empty()) {
		finish(c, call, receive, header);
		return;
	}
	call->held = receive;
	if (post_invalidations(c, call)) {
		/* The drain will fence the memory, and the call be sent again. */
		call->held = nullptr;
		rpcordma_rqst_unpin(call->rqst);
	}
}

/* The lengths that the peer claims to have written to a chunk's segments. */
struct Lengths {
	u32 value[chunk::kMaxSegments];
};

[[nodiscard]] static Status returned(const xdr::WriteChunk &from, Lengths &lengths,
				     Span<const u32> &to)
{
	if (from.count() > chunk::kMaxSegments)
		return Error::bad_message;
	u32 n = 0;
	for (xdr::Segment segment : from)
		lengths.value[n++] = segment.length;
	to = {lengths.value, n};
	return {};
}

/* Judge the reply's header against what was offered, and put the bytes in their place. */
[[nodiscard]] static Result<u32> deliver(Client &client, Call *call, const v1::Header &header,
					 Bytes message)
{
	const Bytes payload = header.payload(message);
	rpcordma_xdr_buf *buf = call->reply;

	/* Most replies: no chunk, and the head has room for all. What land_reply() would say of it. */
	if (header.proc == v1::Proc::msg && !header.has_chunks() && payload.size() &&
	    payload.size() <= call->shape.receive.head_length) {
		__builtin_memcpy(buf->head.base, payload.data(), payload.size());
		rpcordma_rqst_set_reply(call->rqst, call->shape.receive.head_length,
					call->shape.receive.page_length, 0);
		return u32(payload.size());
	}

	chunk::ReplyFacts facts;
	Lengths written, replied;

	facts.nomsg = header.proc == v1::Proc::nomsg;
	facts.read_list = !header.reads.empty();
	facts.write_chunks = header.writes.count();
	if (facts.write_chunks)
		TRY_STATUS(returned(*header.writes.begin(), written, facts.write_lengths));
	facts.reply_chunk = header.reply.present();
	if (facts.reply_chunk)
		TRY_STATUS(returned(header.reply, replied, facts.reply_lengths));
	facts.inline_length = static_cast<u32>(payload.size());
	const chunk::Landing at = TRY(chunk::land_reply(facts, call->shape.receive, call->plan));

	u8 *tail = static_cast<u8 *>(buf->tail.base);
	const u8 *from = payload.data();
	if (at.head_copy)
		__builtin_memcpy(buf->head.base, from, at.head_copy);
	if (at.page_copy)
		rpcordma_copy_to_pages(buf, 0, from + at.head_copy, at.page_copy);
	if (at.tail_move)
		__builtin_memmove(tail + at.tail_pad, tail, at.tail_move);
	if (at.tail_copy)
		__builtin_memcpy(tail + at.tail_pad, from + at.head_copy + at.page_copy,
				 at.tail_copy);
	if (at.tail_pad)
		__builtin_memset(tail, 0, at.tail_pad);
	rpcordma_rqst_set_reply(call->rqst, at.head_length, at.page_length, at.buflen_reduction);
	tally(client.stats.fixup_copy_count, at.page_copy);
	tally(client.stats.total_rdma_reply, at.written + at.replied);
	return at.length;
}

/* All memory is back. @header as for process_reply(). */
void rpcordma_client::finish(Connection &c, Call *call, Receive *receive, const v1::Header *header)
{
	rpc_rqst *rqst = call->rqst;
	const u32 xid = call->xid;
	v1::Header again;
	int result = status::kIo;

	/* C1 */
	if (!call->mapped.empty())
		rpcordma_warn("C1: an RPC completes while the peer can reach its memory");
	const bool in_receive_completion = header != nullptr;
	if (!header) {
		/* It was decodable before, and its bytes are the same. */
		if (auto decoded = v1::decode(receive->message()); decoded.ok()) {
			again = decoded.value();
			header = &again;
		}
	}
	if (header && header->proc != v1::Proc::error) {
		Result<u32> delivered = deliver(*this, call, *header, receive->message());
		result = delivered.ok() ? static_cast<int>(delivered.value()) : status::kIo;
		if (!delivered.ok())
			trace::error(peer, "reply contradicts its call", xid,
				     to_errno(delivered.error()));
	} else if (header) {
		trace::reply(peer, "error", xid, header->credits.get(),
			     static_cast<u32>(header->error.code),
			     static_cast<int>(header->error.vers_low));
	}
	if (result < 0) {
		tally(stats.bad_reply_count, 1);
		call->failure = result;
		call->failed_xid = xid;
	}

	/* The Receive first: the credit that the completion frees must find it. */
	if (in_receive_completion)
		c.receive_queue.recycle(receive);
	else
		c.receive_queue.repost(receive);
	call->state.store(CallState::idle, std::memory_order_release);
	rpcordma_rqst_complete(rqst, result);
}

void rpcordma_core_receive_done(void *context, rpcordma_cqe *cqe,
				const rpcordma_completion *completion)
{
	Connection *c = static_cast<Connection *>(context);
	Receive *receive = OwnedCqe<Receive>::owner_of(cqe);

	trace::completion(c->client->peer, "receive", *completion);
	if (completion->status != RPCORDMA_WC_SUCCESS) {
		c->request_close("Receive failed", completion->status);
		return;
	}
	receive->length = completion->byte_len;
	receive->flags = completion->flags;
	receive->invalidated_rkey = completion->invalidated_rkey;
	rpcordma_dma_sync_for_cpu(c->endpoint, &receive->sge, completion->byte_len);
	c->client->handle_message(*c, receive);
}
