// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sending a call: reduce it, map what the peer is to reach, write the header and the inline bytes into
 * the call's wire buffer, and post all of it (REG_MRs and the Send) with one doorbell.
 *
 * Runs with the transport's send lock: one sender at a time, and the connection stays.
 */

#include "module/client/client.hh"

using namespace rpcordma;

[[nodiscard]] static chunk::BufferShape shape_of(const rpcordma_xdr_buf &buf)
{
	chunk::BufferShape shape;

	shape.head_address = reinterpret_cast<u64>(buf.head.base);
	shape.head_length = static_cast<u32>(buf.head.length);
	shape.page_base = buf.page_base;
	shape.page_length = buf.page_length;
	shape.tail_address = reinterpret_cast<u64>(buf.tail.base);
	shape.tail_length = static_cast<u32>(buf.tail.length);
	return shape;
}

/* The buffer that a segment's offsets are for, when it is not the call's own as it stands. */
[[nodiscard]] static rpcordma_xdr_buf reshaped(const rpcordma_xdr_buf &buf,
					       const chunk::BufferShape &shape)
{
	rpcordma_xdr_buf copy = buf;

	copy.page_length = shape.page_length;
	copy.tail.base = reinterpret_cast<void *>(shape.tail_address);
	copy.tail.length = shape.tail_length;
	return copy;
}

/* Copy the inline bytes of @buf behind the header. Returns how many came from pages or the tail. */
[[nodiscard]] static u32 copy_inline(const rpcordma_xdr_buf &buf, const Call &call, u8 *to)
{
	u32 pulled = 0;

	for (chunk::ByteRange range : call.plan.inline_ranges) {
		u32 at = range.offset, left = range.length;
		const u32 head = call.shape.send.head_length;
		const u32 pages_end = head + call.shape.send.page_length;

		if (at < head && left) {
			u32 n = min(left, head - at);
			__builtin_memcpy(to, static_cast<const u8 *>(buf.head.base) + at, n);
			to += n, at += n, left -= n;
		}
		if (at < pages_end && left) {
			u32 n = min(left, pages_end - at);
			rpcordma_copy_from_pages(&buf, at - head, to, n);
			to += n, at += n, left -= n, pulled += n;
		}
		if (left) {
			__builtin_memcpy(to,
					 static_cast<const u8 *>(buf.tail.base) + (at - pages_end),
					 left);
			to += left, pulled += left;
		}
	}
	return pulled;
}

Status rpcordma_client::map_segments(const chunk::SegmentList &segments,
				     const rpcordma_xdr_buf *buf, Call *call, bool writable)
{
	for (chunk::ByteRange range : segments) {
		Region *region = call->spare.pop_front();
		int rc = rpcordma_region_map(region->device, buf, range.offset, range.length,
					     writable, call->xid, &region->register_wr,
					     &region->mapping);

		if (rc) {
			call->spare.push_front(region);
			return from_errno(rc);
		}
		region->writable = writable;
		call->mapped.push_back(region);
		call->mapped_count++;
		trace::region(peer, "map", call->xid, region->mapping);
	}
	return {};
}

[[nodiscard]] static xdr::Segment segment_of(const Region &region)
{
	return {Rkey(region.mapping.rkey), region.mapping.length, region.mapping.iova};
}

/* Encode the header from the plan and the mapped regions, which are in the plan's order. */
[[nodiscard]] static Result<u32> encode_header(const Connection &c, const Call &call)
{
	const chunk::Plan &plan = call.plan;
	v1::Encoder encoder({call.wire, call.wire_capacity}, Xid(call.xid), c.credits.requested(),
			    plan.nomsg() ? v1::Proc::nomsg : v1::Proc::msg);
	Region *region = call.mapped.front();
	auto next = [&] {
		xdr::Segment segment = segment_of(*region);
		region = call.mapped.next(region);
		return segment;
	};

	for (u32 i = 0; i < plan.position_zero.size(); i++)
		encoder.read_segment(Position(0), next());
	for (u32 i = 0; i < plan.read_chunk.size(); i++)
		encoder.read_segment(Position(plan.read_position), next());
	if (!plan.write_chunk.empty()) {
		encoder.write_chunk(plan.write_chunk.size());
		for (u32 i = 0; i < plan.write_chunk.size(); i++)
			encoder.segment(next());
	}
	if (!plan.reply_chunk.empty()) {
		encoder.reply_chunk(plan.reply_chunk.size());
		for (u32 i = 0; i < plan.reply_chunk.size(); i++)
			encoder.segment(next());
	}
	return encoder.finish();
}

bool rpcordma_client::map_wire(Connection &c, Call *call)
{
	if (call->wire_mapped)
		return true;
	if (rpcordma_dma_map(c.endpoint, call->wire, call->wire_capacity, RPCORDMA_DMA_TO_DEVICE,
			     &call->wire_sge))
		return false;
	call->wire_mapped = true;
	return true;
}

void rpcordma_client::space_came()
{
	std::atomic_thread_fence(std::memory_order_seq_cst);
	if (wants_space.load(std::memory_order_acquire) &&
	    wants_space.exchange(false, std::memory_order_acq_rel))
		rpcordma_xprt_write_space(xprt);
}

int rpcordma_client::drop_connection(const char *why, u32 xid, int value)
{
	trace::error(peer, why, xid, value);
	/* Whatever it is: it may be there on the next connection too. */
	back_off.store(true, std::memory_order_relaxed);
	close();
	rpcordma_xprt_closed(xprt);
	return status::kNotConnected;
}

/*
 * Post the @requests work requests of @call: a REG_MR for each mapped region, then the Send of @length
 * bytes of the wire buffer. The send queue has room. The Send is signaled when there is a @marker.
 */
int rpcordma_client::post(Connection &c, Call *call, u32 length, u32 requests,
			  SendQueue::Marker *marker)
{
	rpcordma_send_wr *first = &call->send_wr, **link = &first;
	const rpcordma_send_wr *bad;

	for (Region *region = call->mapped.front(); region; region = call->mapped.next(region)) {
		region->register_wr.wr.cqe = &c.silent_register_cqe;
		region->register_wr.wr.send_flags = 0;
		*link = &region->register_wr.wr;
		link = &region->register_wr.wr.next;
	}
	*link = &call->send_wr;
	call->wire_sge.length = length;
	call->send_wr.next = nullptr;
	call->send_wr.sg_list = &call->wire_sge;
	call->send_wr.num_sge = 1;
	call->send_wr.opcode = RPCORDMA_WR_SEND;
	call->send_wr.send_flags = marker ? RPCORDMA_SEND_SIGNALED : 0;
	call->send_wr.cqe = marker ? &marker->cqe : &c.silent_send_cqe;
	rpcordma_dma_sync_for_device(c.endpoint, &call->wire_sge, length);
	int rc = rpcordma_post_send(c.endpoint, first, &bad);
	trace::post(peer, "send", call->xid, requests, call->send_wr.send_flags != 0, rc);
	return rc;
}

/*
 * @error ends the task that sends, which may send for others: they have to come themselves to hear of
 * it, and the sender tries again a little later.
 */
[[nodiscard]] static int final(const rpcordma_request &request, int error)
{
	return request.own ? error : status::kNoBuffers;
}

/* The error that the peer answered this very call with, or 0. */
[[nodiscard]] static int failure_of(const Call &call, u32 xid)
{
	return call.failed_xid == xid ? call.failure : 0;
}

/* Have at least @regions spare for @call; false when there are too few, which are kept. */
bool rpcordma_client::take_regions(Call *call, u32 regions)
{
	u32 have = 0;

	LockGuard guard(lock);
	for (Region *r = call->spare.front(); r && have < regions; r = call->spare.next(r))
		have++;
	for (; have < regions; have++) {
		Region *region = pool.pop_front();
		if (!region)
			return false;
		call->spare.push_back(region);
	}
	return true;
}

/*
 * Map what the peer is to reach, and encode the header. Returns its length; after an error some may be
 * mapped.
 */
Result<u32> rpcordma_client::marshal_chunks(Connection &c, Call *call,
					    const rpcordma_request &request)
{
	const chunk::Plan &plan = call->plan;
	/* In the header's order: encode_header() relies on it. */
	if (!plan.position_zero.empty()) {
		const rpcordma_xdr_buf buf =
			reshaped(*request.send, plan.position_zero_shape(call->shape));
		TRY_STATUS(map_segments(plan.position_zero, &buf, call, false));
	}
	if (!plan.read_chunk.empty())
		TRY_STATUS(map_segments(plan.read_chunk, request.send, call, false));
	if (!plan.write_chunk.empty())
		TRY_STATUS(map_segments(plan.write_chunk, request.receive, call, true));
	if (!plan.reply_chunk.empty()) {
		const rpcordma_xdr_buf buf =
			reshaped(*request.receive, plan.reply_chunk_shape(call->shape));
		TRY_STATUS(map_segments(plan.reply_chunk, &buf, call, true));
	}
	const u32 length = TRY(encode_header(c, *call));

	auto count = [&](unsigned long &chunks, const chunk::SegmentList &segments) {
		tally(chunks, segments.size());
		for (chunk::ByteRange range : segments)
			tally(stats.total_rdma_request, range.length);
	};
	count(stats.read_chunk_count, plan.position_zero);
	count(stats.read_chunk_count, plan.read_chunk);
	count(stats.write_chunk_count, plan.write_chunk);
	count(stats.reply_chunk_count, plan.reply_chunk);
	tally(stats.nomsg_call_count, plan.nomsg());
	return length;
}

int rpcordma_client::send_request(Call *call)
{
	rpcordma_request request;

	rpcordma_rqst_get(call->rqst, &request);
	Connection *c = connection;
	if (!request.connected || !c)
		return status::kNotConnected;
	/* sunrpc may have missed how it ended, being not asleep yet: then it comes here again. */
	if (int failure = failure_of(*call, request.xid))
		return final(request, failure);
	if (!rpcordma_rqst_take_credit(call->rqst))
		return status::kBadSlot;
	/* The peer would see two calls and owe two replies: credits, and non-idempotent calls, forbid it. */
	if (request.sent_before)
		return drop_connection("retransmission on the same connection", request.xid, 0);
	if (request.receive->flags & RPCORDMA_XDRBUF_SPARSE_PAGES)
		if (rpcordma_fill_sparse_pages(request.receive))
			return status::kNoBuffers;

	/* C2 */
	if (call->state.load(std::memory_order_acquire) != CallState::idle || !call->mapped.empty()) {
		rpcordma_warn("C2: a call is to be sent while the peer still has it");
		return drop_connection("call sent twice", request.xid, 0);
	}
	call->xid = request.xid;
	call->reply = request.receive;
	call->shape.send = shape_of(*request.send);
	call->shape.receive = shape_of(*request.receive);
	call->shape.send_ddp = request.send->flags & RPCORDMA_XDRBUF_WRITE;
	call->shape.receive_ddp = request.receive->flags & RPCORDMA_XDRBUF_READ;
	call->shape.ddp_allowed = request.ddp_allowed;
	chunk::Thresholds thresholds = c->thresholds;
	thresholds.send = min(thresholds.send, call->wire_capacity);
	chunk::Plan &plan = call->plan;
	if (Status status = chunk::reduce(call->shape, c->limits, thresholds, plan); !status.ok()) {
		tally(stats.failed_marshal_count, 1);
		trace::error(peer, "reduction failed", call->xid, to_errno(status.error()));
		return final(request, status::kMessageSize);
	}

	/* Everything that may run short, before anything is touched. */
	const u32 regions = plan.rkeys(), requests = regions + 1;
	const bool enough = !regions || (regions == 1 && call->spare.front());
	if (!enough && !take_regions(call, regions)) {
		const int rc =
			wait_for_space([&] { return locked(lock, [&] { return !pool.empty(); }); });

		rpcordma_xprt_queue_refill(xprt, 0);
		return rc;
	}
	if (!map_wire(*c, call))
		return status::kNoBuffers;
	if (!c->send_queue.take(requests, regions))
		return wait_for_space([&] { return c->send_queue.has_room(requests, regions); });

	const Result<u32> header = regions ?
					   marshal_chunks(*c, call, request) :
					   v1::encode_short({call->wire, call->wire_capacity},
							    Xid(call->xid), c->credits.requested());
	if (!header.ok()) {
		tally(stats.failed_marshal_count, 1);
		trace::error(peer, "marshaling failed", call->xid, to_errno(header.error()));
		/* Nothing was posted: the peer knows none of it. */
		c->send_queue.give_back(requests, regions - call->mapped_count);
		unmap_all(*c, call);
		/* A shortage of mappings passes; anything else would fail for ever. */
		return header.error() == Error::no_memory ? status::kNoBuffers :
							    final(request, status::kIo);
	}
	if (header.value() != plan.header_length)
		rpcordma_warn("the header is not as long as reduction said");
	tally(stats.pullup_copy_count,
	      copy_inline(*request.send, *call, call->wire + header.value()));
	if (trace::on(RPCORDMA_TRACE_MARSHAL))
		rpcordma_trace_marshal(
			peer, call->xid, c->credits.requested().get(),
			static_cast<u32>(plan.nomsg() ? v1::Proc::nomsg : v1::Proc::msg),
			plan.header_length, plan.inline_length, static_cast<u32>(plan.send_mode),
			static_cast<u32>(plan.receive_mode));

	rpcordma_rqst_sent(call->rqst);
	call->state.store(CallState::posting, std::memory_order_release);
	SendQueue::Marker *marker = c->send_queue.should_signal() ? c->send_queue.signal(nullptr) :
								    nullptr;
	if (int rc = post(*c, call, plan.header_length + plan.inline_length, requests, marker)) {
		/*
		 * Some of it may have been posted: the drain sorts it out. A reply to what was not sent in
		 * full is a peer's guess.
		 */
		if (call->state.exchange(CallState::sent, std::memory_order_acq_rel) ==
		    CallState::early) {
			call->held = nullptr;
			rpcordma_rqst_unpin(call->rqst);
		}
		return drop_connection("post failed", call->xid, rc);
	}
	CallState expected = CallState::posting;
	if (!call->state.compare_exchange_strong(expected, CallState::sent,
						 std::memory_order_acq_rel)) {
		/* The reply overtook us: the receive completion left it here. */
		Receive *receive = call->held;

		call->held = nullptr;
		call->state.store(CallState::replied, std::memory_order_release);
		process_reply(*c, call, receive, nullptr);
		return request.own ? failure_of(*call, request.xid) : 0;
	}
	/* Without a reply, credits would be off for good: start over with a fresh connection. */
	if (!request.reply_expected)
		return drop_connection("no reply expected", request.xid, 0);
	return 0;
}

int rpcordma_core_send_request(rpcordma_client *client, rpcordma_call *call)
{
	return client->send_request(call);
}

void rpcordma_core_send_done(void *context, rpcordma_cqe *cqe, const rpcordma_completion *completion)
{
	Connection *c = static_cast<Connection *>(context);

	trace::completion(c->client->peer, "send", *completion);
	if (completion->status != RPCORDMA_WC_SUCCESS)
		c->request_close("Send failed", completion->status);
	SendQueue::Marker *marker = c->send_queue.completed(cqe);
	if (!marker)
		return;
	Call *backward = static_cast<Call *>(marker->context);
	SendQueue::release(*marker);
	if (backward)
		c->client->put_backward(backward);
	c->client->space_came();
}

void rpcordma_core_register_done(void *context, rpcordma_cqe *,
				 const rpcordma_completion *completion)
{
	Connection *c = static_cast<Connection *>(context);

	trace::completion(c->client->peer, "register", *completion);
	if (completion->status != RPCORDMA_WC_SUCCESS)
		c->request_close("REG_MR failed", completion->status);
}
