// SPDX-License-Identifier: GPL-2.0-only
/*
 * The backchannel, on the client's side (RFC 8167): calls that the server sends over the client's
 * connection, and our replies to them. RDMA_MSG without chunks, both ways. Credits are accounted apart
 * from the forward ones: the server may have kBackwardCredits calls outstanding.
 *
 * A backward call has two owners: the service that works on it, and the Send of its reply. Its buffers are
 * free for the next one when both have let go.
 */

#include "module/client/client.hh"

using namespace rpcordma;

/*
 * A backward message has no chunk, so that call_buffer holds the received call and reply_buffer the reply
 * that the service writes.
 */
Status rpcordma_client::create_backward_call()
{
	const u32 message = max(rpcordma_tunables.max_inline_read, 4096u);
	Call *call = create_call(true);

	if (!call)
		return Error::no_memory;
	call->call_buffer = rpcordma_alloc(message, RPCORDMA_ALLOC_NOIO);
	call->call_capacity = message;
	/* The service writes its reply there, and takes a page for granted. */
	call->reply_capacity = rpcordma_page_size();
	call->reply_buffer = rpcordma_alloc(call->reply_capacity, RPCORDMA_ALLOC_NOIO);
	if (!call->call_buffer || !call->reply_buffer ||
	    !ensure_wire(call, RPCORDMA_ALLOC_NOIO).ok()) {
		destroy_call(call);
		return Error::no_memory;
	}
	locked(lock, [&] { backward_free.push_back(call); });
	return {};
}

/* Called for each session that gets a backchannel; the calls are made once. */
Status rpcordma_client::backchannel_setup()
{
	for (; backward_made < kBackwardCalls; backward_made++)
		TRY_STATUS(create_backward_call());
	LockGuard guard(lock);
	backchannel_users++;
	backchannel.store(true, std::memory_order_relaxed);
	return {};
}

/*
 * One user less, or none left. The last one's service goes next, and sunrpc does not say so to the
 * transport: after this nothing is handed to it.
 */
void rpcordma_client::backchannel_gone(bool all_users)
{
	LockGuard guard(lock);

	if (all_users)
		backchannel_users = 0;
	else if (backchannel_users)
		backchannel_users--;
	backchannel.store(backchannel_users != 0, std::memory_order_relaxed);
}

/* One that is free, with one owner, or nullptr. */
Call *rpcordma_client::take_backward(u32 xid)
{
	Call *call = locked(lock, [&] { return backward_free.pop_front(); });

	if (call) {
		call->xid = xid;
		call->orphaned = false;
		call->owners.store(1, std::memory_order_relaxed);
	}
	return call;
}

void rpcordma_client::put_backward(Call *call)
{
	if (call->owners.fetch_sub(1, std::memory_order_acq_rel) != 1)
		return;
	LockGuard guard(lock);
	backward_free.push_back(call);
}

/* Receive completion. */
void rpcordma_client::handle_backward_call(Connection &c, Receive *receive, const v1::Header &header)
{
	const u32 xid = header.xid.get();
	const Bytes payload = header.payload(receive->message());

	trace::reply(peer, "backward call", xid, header.credits.get(),
		     static_cast<u32>(header.proc), 0);
	if (!backchannel.load(std::memory_order_relaxed) || !rpcordma_xprt_has_bc_service(xprt)) {
		tally(stats.bad_reply_count, 1);
		trace::error(peer, "backward call, and nobody serves it", xid, 0);
		c.receive_queue.recycle(receive);
		return;
	}
	if (header.has_chunks() || header.proc != v1::Proc::msg) {
		refuse_backward_call(c, header);
		c.receive_queue.recycle(receive);
		return;
	}
	const u32 length = static_cast<u32>(payload.size());
	Call *call = take_backward(xid);
	if (!call) {
		/* The peer is out of step. */
		rpcordma_log(peer, RPCORDMA_LOG_WARNING,
			     "more backward calls than credits; the connection is dropped");
		c.request_close("backward credits overrun", 0);
		c.receive_queue.recycle(receive);
		return;
	}
	if (length > call->call_capacity) {
		/* The limit was raised since its buffer was made. */
		rpcordma_log_value(peer, RPCORDMA_LOG_WARNING,
				   "a backward call is too long; the connection is dropped; bytes",
				   length);
		c.request_close("backward call too long", static_cast<int>(length));
		c.receive_queue.recycle(receive);
		put_backward(call);
		return;
	}
	__builtin_memcpy(call->call_buffer, payload.data(), length);
	/* Before the reply can be sent, and another call follow. */
	c.receive_queue.recycle(receive);
	rpcordma_bc_rqst_init(call->rqst, xprt, call->reply_buffer,
			      static_cast<u32>(call->reply_capacity));
	/* With the lock, so that the service cannot go meanwhile: see backchannel_gone(). */
	LockGuard guard(lock);
	const bool submitted = backchannel.load(std::memory_order_relaxed) &&
			       rpcordma_bc_rqst_submit(call->rqst, xid, call->call_buffer, length);
	if (submitted)
		tally(stats.bcall_count, 1);
	guard.release();
	if (!submitted)
		put_backward(call);
}

/* RFC 8167 5.3: a backward call with chunks gets ERR_CHUNK. One answer at a time; more are dropped. */
void rpcordma_client::refuse_backward_call(Connection &c, const v1::Header &header)
{
	tally(stats.bad_reply_count, 1);
	trace::error(peer, "backward call with chunks", header.xid.get(), 0);
	Call *call = take_backward(header.xid.get());
	if (!call)
		return;
	SendQueue::Marker *marker = nullptr;
	Result<u32> length = v1::encode_error_chunk({call->wire, call->wire_capacity}, header.xid,
						    header.vers, Credits(kBackwardCredits));
	if (length.ok() && map_wire(c, call))
		marker = c.send_queue.signal_aside(call, 1);
	if (!marker) {
		put_backward(call);
		return;
	}
	if (int rc = post(c, call, length.value(), 1, marker)) {
		SendQueue::release(*marker);
		put_backward(call);
		c.request_close("post failed", rc);
	}
}

/*
 * A reply that cannot be sent, now or later. Its own task hears why, if it is the one that sends. For a task
 * that sends for others the reply counts as sent, in sunrpc's counters as well: so it leaves the queue, and
 * neither holds up nor ends the calls behind it. There is a trace for one that is too long.
 */
[[nodiscard]] static int undeliverable(const rpcordma_request &request, int error)
{
	return request.own ? error : 0;
}

/* With the send lock, as send_request(). */
int rpcordma_client::send_backward_reply(Call *call)
{
	rpcordma_request request;

	rpcordma_rqst_get(call->rqst, &request);
	Connection *c = connection;
	/* On another connection nobody asked: no Receive is posted for it there. */
	if (call->orphaned)
		return undeliverable(request, status::kNotConnected);
	if (!request.connected || !c)
		return status::kNotConnected;
	const u32 payload = static_cast<u32>(request.send->head.length) +
			    request.send->page_length + static_cast<u32>(request.send->tail.length);
	if (payload + v1::min_header_length > min(c->thresholds.send, call->wire_capacity)) {
		tally(stats.failed_marshal_count, 1);
		trace::error(peer, "backward reply too long", call->xid, static_cast<int>(payload));
		return undeliverable(request, status::kIo);
	}
	Result<u32> header = v1::encode_short({call->wire, call->wire_capacity}, Xid(call->xid),
					      Credits(kBackwardCredits));
	if (!header.ok())
		return undeliverable(request, status::kIo);
	u8 *to = call->wire + header.value();
	__builtin_memcpy(to, request.send->head.base, request.send->head.length);
	to += request.send->head.length;
	if (request.send->page_length)
		rpcordma_copy_from_pages(request.send, 0, to, request.send->page_length);
	to += request.send->page_length;
	if (request.send->tail.length)
		__builtin_memcpy(to, request.send->tail.base, request.send->tail.length);
	if (!map_wire(*c, call))
		return status::kNoBuffers;
	/* Signaled always: no reply will tell that the buffer is free. */
	SendQueue::Marker *marker = nullptr;
	if (c->send_queue.take(1, 0)) {
		marker = c->send_queue.signal(call);
		if (!marker)
			c->send_queue.give_back(1, 0);
	}
	if (!marker)
		return wait_for_space(
			[&] { return c->send_queue.has_room(1, 0) && c->send_queue.has_marker(); });
	call->owners.fetch_add(1, std::memory_order_relaxed);
	if (int rc = post(*c, call, header.value() + payload, 1, marker)) {
		SendQueue::release(*marker);
		put_backward(call);
		return drop_connection("post failed", call->xid, rc);
	}
	return 0;
}

int rpcordma_core_bc_setup(rpcordma_client *client, u32)
{
	return to_errno(client->backchannel_setup().error());
}

rpcordma_size rpcordma_core_bc_max_payload(rpcordma_client *client)
{
	/* Without a connection an estimate for CREATE_SESSION; what is larger is refused. */
	u32 most = min(rpcordma_tunables.max_inline_read, rpcordma_tunables.max_inline_write);

	/* The lock, not the fence mutex: the caller may not sleep. teardown_() takes both. */
	locked(client->lock, [&] {
		if (client->connection)
			most = min(client->connection->thresholds.send,
				   client->connection->thresholds.receive);
	});
	return min(most, rpcordma_page_size()) - v1::min_header_length;
}

u32 rpcordma_core_bc_slots(rpcordma_client *)
{
	return kBackwardCredits;
}

void rpcordma_core_bc_free(rpcordma_client *client, rpcordma_call *call)
{
	rpc_xprt *xprt = client->xprt;

	client->put_backward(call);
	/* The transport may go with this reference. */
	rpcordma_bc_rqst_done(xprt);
}

void rpcordma_core_bc_destroy(rpcordma_client *client, u32 requests)
{
	/* The backward calls stay with the transport, for the next session, until it is destroyed. */
	client->backchannel_gone(requests == ~0u);
}

int rpcordma_core_bc_send_reply(rpcordma_client *client, rpcordma_call *call)
{
	return client->send_backward_reply(call);
}
