// SPDX-License-Identifier: GPL-2.0-only
/*
 * The backchannel, on the client's side (RFC 8167): calls that the server sends over the client's
 * connection, and our replies to them. RDMA_MSG without chunks, both ways. Credits are accounted apart
 * from the forward ones: the server may have kBackwardCredits calls outstanding.
 *
 * A backward call has two owners: the service that works on it, and the Send of its reply. Its buffers are
 * free for the next one when both have let go. It is `serving` from its arrival until then, or until the end of
 * the connection that it came on.
 */

#include "module/client/client.hh"

using namespace rpcordma;
using trace::Failure;
using trace::Loss;

/* Called for each session that gets a backchannel; the calls are made once. */
Status rpcordma_client::setup_backchannel()
{
	for (; backward_made < kBackwardCalls; backward_made++)
		if (!make_backward_call())
			return Error::no_memory;
	SpinGuard guard(lock);
	backward_users++;
	backchannel.store(true, std::memory_order_relaxed);
	return {};
}

/*
 * One user less, or none left. The last one's service goes next, and sunrpc does not say so to the
 * transport: after this nothing is handed to it. What it has not begun with by then it never looks at on older kernels, and each
 * call of these would keep the transport for good.
 */
void rpcordma_client::end_backchannel(bool all_users)
{
	{
		SpinGuard guard(lock);

		if (all_users)
			backward_users = 0;
		else if (backward_users)
			backward_users--;
		backchannel.store(backward_users != 0, std::memory_order_relaxed);
		/* With the transport itself there are no calls, and its service may be gone. */
		if (backward_users || all_users)
			return;
	}
	rpcordma_bc_take_back(xprt);
}

void rpcordma_client::put_backward(Call *call)
{
	if (call->owners.fetch_sub(1, std::memory_order_acq_rel) != 1)
		return;
	call->set_state(CallState::idle);
	SpinGuard guard(lock);
	backward_free.push_back(call);
}

/* Hand the backward call in @receive to its service, and give the Receive back in any case. */
static void accept_backward_call(Client &client, Connection &c, Receive *receive)
{
	const u32 xid = receive->message.xid.get();
	const Bytes payload = receive->message.payload;
	const u32 length = receive->payload_length();
	Call *call = client.take_backward(xid);

	if (!call) {
		/* The peer is out of step. */
		rpcordma_log(client.peer, RPCORDMA_LOG_WARNING,
			     "more backward calls than credits; the connection is dropped");
		c.request_close(Loss::backward_overrun, 0);
		c.recycle(receive);
		return;
	}
	/* None is longer than a head. */
	if (length > min(call->call_buffer.size(), payload.size())) {
		/* The limit was raised since its buffer was made. */
		rpcordma_log_value(client.peer, RPCORDMA_LOG_WARNING,
				   "a backward call is too long; the connection is dropped; bytes",
				   length);
		c.request_close(Loss::backward_oversized, static_cast<int>(length));
		c.recycle(receive);
		client.put_backward(call);
		return;
	}
	__builtin_memcpy(call->call_buffer.data(), payload.data(), length);
	/* Before the reply can be sent, and another call follow. */
	c.recycle(receive);
	rpcordma_bc_rqst_init(call->rqst, client.xprt, call->reply_buffer.data(),
			      static_cast<u32>(call->reply_buffer.size()));
	/* With the lock, so that the service cannot go meanwhile: see end_backchannel(). */
	SpinGuard guard(client.lock);
	const bool submitted =
		client.backchannel.load(std::memory_order_relaxed) &&
		rpcordma_bc_rqst_submit(call->rqst, xid, call->call_buffer.data(), length);
	if (submitted)
		tally(client.stats.bcall_count, 1);
	guard.release();
	if (!submitted) {
		trace::failure(client.peer, Failure::backward_call_unserved, xid, 0);
		client.put_backward(call);
	}
}

/* Receive completion. */
void rpcordma_client::handle_backward_call(Connection &c, Receive *receive)
{
	const xdr::Message &message = receive->message;
	const u32 xid = message.xid.get();

	trace::reply(peer, "backward call", xid, message.credits.get(),
		     static_cast<u32>(message.kind), 0);
	if (!backchannel.load(std::memory_order_relaxed) || !rpcordma_xprt_has_bc_service(xprt)) {
		tally(stats.bad_reply_count, 1);
		trace::failure(peer, Failure::backward_call_unserved, xid, 0);
		c.recycle(receive);
		return;
	}
	/* One transmission, and no chunk, nor then an R_key to invalidate. */
	if (message.has_chunks() || message.kind != xdr::Kind::msg || message.invalidate.get() ||
	    receive->next) {
		trace::failure(peer, Failure::backward_call_chunks, xid, 0);
		/* RFC 8167 5.3 */
		refuse(c, *receive, xdr::ErrorCode::chunk);
		c.recycle(receive);
		return;
	}
	accept_backward_call(*this, c, receive);
}

/*
 * A reply that cannot be sent, now or later. Its own task hears why, if it is the one that sends. For a task
 * that sends for others the reply counts as sent, in sunrpc's counters as well: so it leaves the queue, and
 * neither holds up nor ends the calls behind it. There is a trace for one that is too long.
 */
[[nodiscard]] static Error give_up_reply(const rpcordma_request &request, Error error)
{
	return request.own ? error : Error::none;
}

/* Copy the whole of @buf to @to. */
static void copy_message(const rpcordma_xdr_buf &buf, u8 *to)
{
	__builtin_memcpy(to, buf.head.base, buf.head.length);
	to += buf.head.length;
	if (buf.page_length)
		rpcordma_copy_from_pages(&buf, 0, to, buf.page_length);
	to += buf.page_length;
	if (buf.tail.length)
		__builtin_memcpy(to, buf.tail.base, buf.tail.length);
}

/* With the send lock, as send_request(). */
Status rpcordma_client::send_backward_reply(Call *call)
{
	rpcordma_request request;

	rpcordma_rqst_get(call->rqst, &request);
	Connection *c = connection;
	/* On another connection nobody asked: no Receive is posted for it there. */
	if (call->get_state() != CallState::serving) {
		trace::failure(peer, Failure::backward_reply_lost, call->xid, 0);
		return give_up_reply(request, Error::not_connected);
	}
	if (!request.connected || !c)
		return Error::not_connected;
	SendBuffer &send = call->send();
	const u32 payload = static_cast<u32>(request.send->head.length) +
			    request.send->page_length + static_cast<u32>(request.send->tail.length);
	if (payload + c->session.thresholds().bare_header >
	    min(c->session.thresholds().send, send.capacity())) {
		tally(stats.failed_marshal_count, 1);
		trace::failure(peer, Failure::backward_reply_long, call->xid,
			       static_cast<int>(payload));
		return give_up_reply(request, Error::io);
	}
	xdr::Envelope envelope;
	envelope.xid = Xid(call->xid);
	envelope.credits = Credits(kBackwardCredits);
	envelope.direction = xdr::Direction::reply;
	const Result<u32> header = c->session.encode_bare(send.room(), envelope);
	if (!header.ok()) {
		trace::failure(peer, Failure::marshal_failed, call->xid, header.error());
		return give_up_reply(request, Error::io);
	}
	copy_message(*request.send, send.room().data() + header.value());
	if (!map_send_buffers(*c, call, 1))
		return Error::no_buffers;
	/* Signaled always: no reply will tell that the buffer is free. */
	SendQueue::Marker *marker = nullptr;
	if (c->send_queue.take(1, 0)) {
		marker = c->send_queue.signal(call);
		if (!marker)
			c->send_queue.give_back(1, 0);
	}
	if (!marker) {
		trace::failure(peer, Failure::send_queue_full, call->xid, 1);
		return wait_for_space(
			[&] { return c->send_queue.has_room(1, 0) && c->send_queue.has_marker(); });
	}
	send.hand_over(c->endpoint, header.value() + payload);
	call->owners.fetch_add(1, std::memory_order_relaxed);
	if (const Status posted = post(*c, call, 1, marker); !posted.ok()) {
		SendQueue::release(*marker);
		put_backward(call);
		return drop_connection(Failure::post_failed, call->xid, to_errno(posted.error()));
	}
	return {};
}
