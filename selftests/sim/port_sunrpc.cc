// SPDX-License-Identifier: GPL-2.0-only
/* compat/port/sunrpc.h, simulated; transports and tasks themselves are in sunrpc.cc. */
#include "selftests/sim/sunrpc.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

using namespace sim;

struct rpcordma_tunables rpcordma_tunables;

/* --- requests --- */

rpc_rqst *rpcordma_rqst_create(rpc_xprt *xprt)
{
	auto *rqst = static_cast<rpc_rqst *>(allocate(
		u32(sizeof(rpc_rqst) + 63 + rpcordma_core_call_size()), RPCORDMA_ALLOC_NOIO));

	if (rqst)
		rqst->xprt = xprt;
	return rqst;
}

void rpcordma_rqst_destroy(rpc_rqst *rqst)
{
	release(rqst);
}

rpcordma_call *rpcordma_rqst_call(rpc_rqst *rqst)
{
	return static_cast<rpcordma_call *>(core_half(rqst + 1));
}

void rpcordma_rqst_reset(rpc_rqst *rqst)
{
	REQUIRE(!rqst->pins, "a slot is freed while its request is pinned");
	std::memset(static_cast<void *>(rqst), 0, sizeof(*rqst));
}

void rpcordma_rqst_get(rpc_rqst *rqst, rpcordma_request *request)
{
	port_call();
	request->send = &rqst->send;
	request->receive = &rqst->receive;
	request->xid = rqst->xid;
	request->connected = rqst->xprt->connected;
	request->sent_before = rqst->connect_cookie == rqst->xprt->connect_cookie;
	request->own = rqst->xprt->sender == rqst->task;
	request->reply_expected = !rqst->backward;
	request->ddp_allowed = rqst->ddp_allowed;
}

rpcordma_bool rpcordma_rqst_take_credit(rpc_rqst *rqst)
{
	rpc_xprt &xprt = *rqst->xprt;

	if (rqst->cong)
		return true;
	Hold hold(xprt.transport_lock);
	if (xprt.in_flight >= xprt.window) {
		if (xprt.transmit_queue.empty() || !xprt.transmit_queue.front()->cong)
			xprt.congestion_wait = true;
		return false;
	}
	rqst->cong = true;
	xprt.in_flight++;
	return true;
}

rpcordma_bool rpcordma_xprt_take_credits(rpc_xprt *xprt, rpcordma_u32 credits, rpcordma_u32 share)
{
	Hold hold(xprt->transport_lock);

	const u32 kept = share ? (xprt->window + share - 1) / share : 0;
	if (u64(xprt->in_flight) + credits + kept > xprt->window)
		return false;
	xprt->in_flight += credits;
	return true;
}

void rpcordma_xprt_return_credits(rpc_xprt *xprt, rpcordma_u32 credits)
{
	Hold hold(xprt->transport_lock);

	REQUIRE(xprt->in_flight >= credits, "%u credits are given back, and %u are out", credits,
		xprt->in_flight);
	xprt->in_flight -= credits;
	if (xprt->in_flight < xprt->window)
		xprt->congestion_wait = false;
	xprt->next_sender_locked();
}

void rpcordma_rqst_sent(rpc_rqst *)
{
	port_call();
}

int rpcordma_fill_sparse_pages(rpcordma_xdr_buf *buf)
{
	u32 pages = (buf->page_base % kPageSize + buf->page_length + kPageSize - 1) / kPageSize;

	port_call();
	for (page **p = buf->pages + buf->page_base / kPageSize; pages; pages--, p++) {
		if (*p)
			continue;
		if (faults.strikes(faults.memory))
			return -ENOBUFS;
		*p = page_create();
	}
	return 0;
}

rpc_rqst *rpcordma_rqst_find_pin(rpc_xprt *xprt, rpcordma_u32 xid)
{
	Hold hold(xprt->queue_lock);
	auto it = xprt->receive_queue.find(xid);

	if (it == xprt->receive_queue.end())
		return nullptr;
	it->second->pins++;
	return it->second;
}

void rpcordma_rqst_unpin(rpc_rqst *rqst)
{
	Hold hold(rqst->xprt->queue_lock);

	unpin_locked(*rqst);
}

void rpcordma_rqst_complete(rpc_rqst *rqst, int result)
{
	rpc_xprt &xprt = *rqst->xprt;

	REQUIRE(rqst->pins, "a request is completed that is not pinned");
	Hold hold(xprt.queue_lock);
	TRACE("xid %#x is completed: %d", rqst->xid, result);
	REQUIRE(rqst->need_receive, "xid %#x is completed twice", rqst->xid);
	require_unmapped(rqst->send, "send");
	require_unmapped(rqst->receive, "receive");
	for (auto &device : fabric->client.devices)
		device->require_unreachable(rqst->xid);
	if (result < 0) {
		rqst->task->status = result;
		result = 0;
	}
	rqst->reply_bytes = result;
	rqst->private_buf.len = u32(result);
	rqst->need_receive = false;
	xprt.receive_queue.erase(rqst->xid);
	rqst->task->wake_if(Task::Queue::pending);
	unpin_locked(*rqst);
}

void rpcordma_rqst_set_reply(rpc_rqst *rqst, rpcordma_u32 head, rpcordma_u32 pages,
			     rpcordma_u32 buflen_reduction)
{
	rqst->receive.head.length = head;
	rqst->receive.page_length = pages;
	rqst->receive.buflen -= buflen_reduction;
	rqst->private_buf = rqst->receive;
	port_call();
}

static void copy_pages(const rpcordma_xdr_buf *buf, u32 offset, u32 length, u8 *bytes, bool in)
{
	for (u32 at = buf->page_base + offset; length;) {
		const u32 n = std::min(length, kPageSize - at % kPageSize);
		u8 *data = buf->pages[at / kPageSize]->data + at % kPageSize;

		in ? std::memcpy(data, bytes, n) : std::memcpy(bytes, data, n);
		bytes += n;
		at += n;
		length -= n;
	}
	port_call();
}

void rpcordma_copy_to_pages(rpcordma_xdr_buf *buf, rpcordma_u32 offset, const void *from,
			    rpcordma_u32 length)
{
	copy_pages(buf, offset, length, static_cast<u8 *>(const_cast<void *>(from)), true);
}

void rpcordma_copy_from_pages(const rpcordma_xdr_buf *buf, rpcordma_u32 offset, void *to,
			      rpcordma_u32 length)
{
	copy_pages(buf, offset, length, static_cast<u8 *>(to), false);
}

/* --- the transport --- */

const rpcordma_peer *rpcordma_xprt_peer(const rpc_xprt *xprt)
{
	return &xprt->peer;
}

void rpcordma_xprt_set_credits(rpc_xprt *xprt, rpcordma_u32 credits)
{
	port_call();
	if (xprt->window == credits)
		return;
	Hold hold(xprt->transport_lock);
	const bool grew = credits > xprt->window;
	xprt->window = credits;
	if (grew && xprt->congestion_wait) {
		xprt->congestion_wait = xprt->in_flight >= xprt->window;
		xprt->next_sender_locked();
	}
}

void rpcordma_xprt_reset_credits(rpc_xprt *xprt, rpcordma_u32 credits)
{
	Hold hold(xprt->transport_lock);

	xprt->in_flight = 0;
	xprt->window = credits;
}

void rpcordma_xprt_return_credit(rpc_xprt *xprt, rpc_rqst *rqst)
{
	Hold hold(xprt->transport_lock);

	rqst->xprt = xprt;
	rqst->task = nullptr;
	xprt->put_credit_locked(*rqst);
}

void rpcordma_rqst_forget_credit(rpc_rqst *rqst)
{
	rpc_xprt *xprt = rqst->xprt;

	if (!xprt)
		return;
	Hold hold(xprt->transport_lock);
	rqst->cong = false;
}

void rpcordma_xprt_conversed(rpc_xprt *xprt)
{
	xprt->reestablish = 0;
	port_call();
}

void rpcordma_xprt_force_disconnect(rpc_xprt *xprt)
{
	Hold hold(xprt->transport_lock);

	xprt->disconnect_locked();
}

void rpcordma_xprt_closed(rpc_xprt *xprt)
{
	++xprt->connect_cookie;
	xprt->disconnect_done();
}

void rpcordma_xprt_wait_for_space(rpc_xprt *xprt)
{
	xprt->write_space_wait = true;
	port_call();
}

void rpcordma_xprt_write_space(rpc_xprt *xprt)
{
	Hold hold(xprt->transport_lock);

	if (!xprt->write_space_wait)
		return;
	xprt->write_space_wait = false;
	xprt->next_sender_locked(false);
}

rpcordma_bool rpcordma_xprt_has_backlog(rpc_xprt *xprt)
{
	port_call();
	return xprt->congested;
}

void rpcordma_xprt_queue_refill(rpc_xprt *xprt, rpcordma_u32 delay_ms)
{
	xprt->refill.queue(delay_ms * kMillisecond);
	port_call();
}

void rpcordma_xprt_queue_check(rpc_xprt *xprt, rpcordma_u32 delay_ms)
{
	xprt->check.queue(delay_ms * kMillisecond);
	port_call();
}

rpcordma_u32 rpcordma_xprt_connect_limit_ms(rpc_xprt *)
{
	return 10000;
}

void rpcordma_xprt_set_max_payload(rpc_xprt *, rpcordma_u32)
{
	port_call();
}

rpcordma_bool rpcordma_xprt_wake_backlog(rpc_xprt *xprt, rpc_rqst *rqst)
{
	Hold hold(xprt->reserve_lock);

	if (xprt->backlog.empty()) {
		xprt->congested = false;
		return false;
	}
	xprt->backlog.front()->take_slot(rqst);
	return true;
}

/* --- the backchannel --- */

rpcordma_bool rpcordma_xprt_has_bc_service(rpc_xprt *xprt)
{
	port_call();
	return xprt->backward_service;
}

void rpcordma_bc_rqst_init(rpc_rqst *rqst, rpc_xprt *xprt, void *reply_buffer,
			   rpcordma_u32 reply_size)
{
	REQUIRE(!rqst->task, "a backward request is used while it is in use");
	rqst->xprt = xprt;
	rqst->backward = true;
	rqst->send = {};
	rqst->send.head = {reply_buffer, 0};
	rqst->send.buflen = reply_size;
	port_call();
}

rpcordma_bool rpcordma_bc_rqst_submit(rpc_rqst *rqst, rpcordma_u32 xid, void *message,
				      rpcordma_u32 length)
{
	rpc_xprt *xprt = rqst->xprt;

	if (!xprt->backward_service || !xprt->references)
		return false;
	xprt->references++;
	rqst->xid = xid;
	rqst->private_buf = {};
	rqst->private_buf.len = length;
	rqst->receive = {};
	rqst->receive.head = {message, length};
	rqst->receive.len = rqst->receive.buflen = length;
	xprt->backward_calls.push_back(rqst);
	xprt->backward_came.wake_one();
	port_call();
	return true;
}

void rpcordma_bc_take_back(rpc_xprt *xprt)
{
	port_call();
	while (!xprt->backward_calls.empty()) {
		rpc_rqst *rqst = xprt->backward_calls.front();

		xprt->backward_calls.pop_front();
		TRACE("backward xid %#x is taken back", rqst->xid);
		dropped_calls.insert(rqst->xid);
		rpcordma_core_bc_free(xprt->core, rpcordma_rqst_call(rqst));
	}
}

void rpcordma_bc_rqst_done(rpc_xprt *xprt)
{
	REQUIRE(xprt->references, "a transport is put that nobody has");
	xprt->references--;
	xprt->references_fell.wake_all();
	port_call();
}
