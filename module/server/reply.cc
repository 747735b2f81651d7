// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replies: the RDMA Writes of their chunks and the Send behind them, in one post; errors; and what
 * follows their completion. See server.hh.
 */

#include "module/server/server.hh"

using namespace rpcordma;

int rpcordma_core_server_result_payload(rpcordma_server_call *call, rpcordma_u32 offset,
					rpcordma_u32 length)
{
	if (call->result_count < chunk::Answer::kResults)
		call->results[call->result_count++] = {offset, length};
	return 0;
}

rpcordma_bool rpcordma_core_server_has_space(const rpcordma_server *server)
{
	/* XPT_DATA was set before this, and waiters fall before a look at XPT_DATA: one sees the other. */
	std::atomic_thread_fence(std::memory_order_seq_cst);
	return !server->waiters.load(std::memory_order_seq_cst);
}

/*
 * Bytes of an RDMA Write at most, for @bytes into the chunks of @lists. Short ones only where all of them
 * surely fit, and while others leave the queue half empty.
 */
u32 rpcordma_server::longest_write(const xdr::ChunkLists &lists, u64 bytes) const
{
	const u64 writes = u64(lists.writes.segments()) + lists.reply.count() +
			   Transfer::kPages / send_sges + bytes / kLongestWrite;
	/* One is the Send, one where a piece of memory is cut once more. */
	const bool fit = writes + 2 <= min(Transfer::kRequests, queue_size);

	return fit && room.load(std::memory_order_relaxed) > queue_size / 2 ? kLongestWrite : ~0u;
}

/* Map what goes into chunks and build the chain of Writes; the pages become the transfer's. */
Status rpcordma_server::build_writes(Call *call, const rpcordma_xdr_buf *reply,
				     const chunk::Answer &answer, svc_rqst *rqst)
{
	call->transfer = server_pool.take(RPCORDMA_ALLOC_SERVICE);
	if (!call->transfer)
		return Error::no_memory;
	Transfer &t = *call->transfer;

	t.writes = true;
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
	const int mapped = rpcordma_bulk_map(t.bulk, endpoint, RPCORDMA_DMA_TO_DEVICE, t.local,
					     Transfer::kPieces);
	if (mapped < 0)
		return Error::no_memory;

	ChainBuilder chain({t.local, usize(mapped)}, t.requests, t.sges, send_sges,
			   longest_write(call->header,
					 u64(answer.write_length) + answer.reply_length),
			   RPCORDMA_WR_RDMA_WRITE, &call->chain_cqe.cqe);
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
	for (xdr::WriteChunk into : call->header.writes) {
		if (i == answer.placed_count)
			break;
		fill(into, answer.placed[i++].length);
	}
	if (answer.reply_length)
		fill(call->header.reply, answer.reply_length);
	/* One more for the Send. */
	if (!built || chain.count() + 1 > queue_size)
		return Error::no_space;
	chain.last().next = &call->send_wr;
	call->chain_length = chain.count();
	/* From here on the thread's pages are the transfer's. */
	t.page_count = rpcordma_svc_take_reply_pages(rqst, t.pages, Transfer::kPages);
	if (!t.page_count)
		return Error::no_space;
	return {};
}

/*
 * Where the result is that the service announced as @said. nfsd, of 6.12 at least, announces an NFSv4
 * READLINK's text from its length on, not from behind it. Before any other result stands its length.
 */
static chunk::ReplyRange located(const rpcordma_xdr_buf *reply, chunk::ReplyRange said)
{
	u8 words[2 * xdr::word_size];

	if (!said.length || said.offset < xdr::word_size || reply->len < xdr::word_size ||
	    said.offset > reply->len - xdr::word_size)
		return said;
	rpcordma_buf_read(reply, said.offset - xdr::word_size, words, sizeof(words));
	if (xdr::load_be32(words) != said.length &&
	    xdr::load_be32(words + xdr::word_size) == said.length)
		said.offset += xdr::word_size;
	return said;
}

/* Build the reply's message, and its Writes if it has some. Returns the message's length. */
Result<u32> rpcordma_server::build_reply(Call *call, svc_rqst *rqst)
{
	const v1::Header &header = call->header;
	const rpcordma_xdr_buf *reply = rpcordma_svc_reply(rqst);

	if (!header.has_chunks()) {
		/* Nothing can be placed. */
		u32 length = TRY(v1::encode_short({call->wire, send_size}, header.xid, granted()));

		if (reply->len > send_size - length)
			return Error::no_space;
		rpcordma_buf_read(reply, 0, call->wire + length, reply->len);
		call->chain_length = 0;
		return length + reply->len;
	}
	for (u32 i = 0; i < call->result_count; i++)
		call->results[i] = located(reply, call->results[i]);
	const Span<const chunk::ReplyRange> results(call->results, rpcordma_svc_ddp_allowed(rqst) ?
									   call->result_count :
									   0);
	const chunk::Answer answer = TRY(chunk::plan_answer(header, results, reply->len, send_size));

	v1::Encoder encoder({call->wire, send_size}, header.xid, granted(), answer.proc);
	chunk::encode_answer(encoder, header, answer);
	u32 length = TRY(encoder.finish());

	if (answer.proc == v1::Proc::msg)
		for (u32 i = 0; i < answer.rest_count; i++) {
			rpcordma_buf_read(reply, answer.rest[i].offset, call->wire + length,
					  answer.rest[i].length);
			length += answer.rest[i].length;
		}
	call->chain_length = 0;
	if (answer.write_length || answer.reply_length)
		TRY_STATUS(build_writes(call, reply, answer, rqst));
	return length;
}

/* The message that refuses a call (RFC 8166 4.5). */
Result<u32> rpcordma_server::encode_error(Call *call)
{
	const xdr::FixedHeader fixed = TRY(xdr::peek(call->message()));
	const MutableBytes room(call->wire, send_size);

	if (call->answer == Call::Answer::error_vers) {
		rpcordma_server_count(RPCORDMA_SERVER_ERR_VERS, 1);
		return v1::encode_error_vers(room, fixed.xid, fixed.vers, granted(), v1::version,
					     v1::version);
	}
	rpcordma_server_count(RPCORDMA_SERVER_ERR_CHUNK, 1);
	return v1::encode_error_chunk(room, fixed.xid, fixed.vers, granted());
}

/*
 * Post the message in @call's wire buffer, behind the Writes of its transfer if it has one: one chain,
 * one post. From here on the device is an owner; on failure it is not, or the drain makes an end of it.
 * May wait for room.
 */
int rpcordma_server::post_message(Call *call, u32 length, u32 xid)
{
	if (!wait_for_room(call->chain_length + 1))
		return to_errno(Error::not_connected);
	return post_taken(call, length, xid);
}

/* As that, with the room taken. */
int rpcordma_server::post_taken(Call *call, u32 length, u32 xid)
{
	const u32 count = call->chain_length + 1;

	call->wire_sge.length = length;
	call->send_wr.sg_list = &call->wire_sge;
	call->send_wr.num_sge = 1;
	call->send_wr.next = nullptr;
	rpcordma_dma_sync_for_device(endpoint, &call->wire_sge, length);

	const rpcordma_send_wr *first = call->chain_length ? &call->transfer->requests[0].wr :
							     &call->send_wr;
	const rpcordma_send_wr *bad;
	const u32 writes = call->chain_length;
	call->owners.fetch_add(1, std::memory_order_relaxed);
	call->chain_length = count;
	const int rc = rpcordma_post_send(endpoint, first, &bad);
	trace::post(peer, "reply", xid, count, true, rc);
	if (!rc) {
		if (writes)
			rpcordma_server_count(RPCORDMA_SERVER_WRITE, writes);
		return 0;
	}
	/*
	 * Nothing of it was posted: nothing of it is the device's. Otherwise the Writes that were
	 * posted use the transfer until the drain, and the owner that never goes keeps it.
	 */
	if (bad == first) {
		give_room(count);
		call->owners.fetch_sub(1, std::memory_order_relaxed);
	}
	request_close("a reply could not be posted", rc);
	return to_errno(Error::not_connected);
}

int rpcordma_server::sendto(svc_rqst *rqst, Call *call)
{
	const u32 xid = call->header.xid.get();

	if (closing.load(std::memory_order_acquire))
		return to_errno(Error::not_connected);
	if (!ensure_wire(call, RPCORDMA_ALLOC_SERVICE)) {
		/* A reply that is not sent must end the connection, so that the client asks again. */
		request_close("no memory for a reply", to_errno(Error::no_memory));
		return to_errno(Error::not_connected);
	}
	call->send_wr.opcode = RPCORDMA_WR_SEND;
	auto length = build_reply(call, rqst);
	if (length.ok()) {
		const u32 key = remote_invalidation && call->header.has_chunks() ?
					chunk::choose_invalidation(call->header) :
					0;

		if (key) {
			call->send_wr.opcode = RPCORDMA_WR_SEND_WITH_INV;
			call->send_wr.invalidate_rkey = key;
		}
	} else {
		abandon(call);
		call->chain_length = 0;
		if (length.error() != Error::no_space) {
			request_close("a reply could not be built", to_errno(length.error()));
			return to_errno(Error::not_connected);
		}
		/* It fits nowhere: the call is over, and the client learns so. */
		trace::error(peer, "a reply that fits in no chunk", xid, 0);
		call->answer = Call::Answer::error_chunk;
		length = encode_error(call);
	}
	/*
	 * The reply gives the client a credit back, and what it sends with that must find a Receive. In a
	 * thread there is memory for what the completion had none for.
	 */
	if (short_of_receives.exchange(false, std::memory_order_relaxed)) {
		const u32 promised = locked(lock, [&] { return promised_locked(); });
		if (!provide(promised, RPCORDMA_ALLOC_SERVICE))
			short_of_receives.store(true, std::memory_order_relaxed);
	}
	const int rc = post_message(call, length.value(), xid);
	if (!rc)
		replied.store(true, std::memory_order_relaxed);
	if (rc && call->owners.load(std::memory_order_relaxed) == 1)
		abandon(call);
	return rc;
}

int rpcordma_core_server_sendto(rpcordma_server *server, svc_rqst *rqst, rpcordma_server_call *call)
{
	return server->sendto(rqst, call);
}

/* Refuse @call, of which nobody else knows. A service thread. */
void rpcordma_server::send_error(Call *call)
{
	call->owners.store(1, std::memory_order_relaxed);
	call->chain_length = 0;
	call->send_wr.opcode = RPCORDMA_WR_SEND;
	if (ensure_wire(call, RPCORDMA_ALLOC_SERVICE)) {
		const auto length = encode_error(call);

		if (length.ok())
			(void)post_message(call, length.value(),
					   xdr::peek(call->message()).value().xid.get());
	} else {
		request_close("no memory for an error message", to_errno(Error::no_memory));
	}
	drop_owner(call);
}

/* The last of the chain completed, and with it all of them. */
void rpcordma_server::sent(Call *call, const rpcordma_completion &completion)
{
	give_room(call->chain_length);
	if (completion.status != RPCORDMA_WC_SUCCESS)
		chain_failed(call, completion);
	abandon(call);
	drop_owner(call);
}

void rpcordma_core_server_send_done(void *context, rpcordma_cqe *cqe,
				    const rpcordma_completion *completion)
{
	Server *server = static_cast<Server *>(context);

	trace::completion(server->peer, "send", *completion);
	server->sent(OwnedCqe<ServerCall>::owner_of(cqe), *completion);
}
