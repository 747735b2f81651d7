// SPDX-License-Identifier: GPL-2.0-only
/* compat/port/svc.h, simulated; the service itself is in svc.cc, bulk data in port_verbs.cc. */
#include "selftests/sim/svc.hh"

#include "module/server/call.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

using namespace sim;

struct rpcordma_server_tunables rpcordma_server_tunables;

/* --- the connection --- */

void rpcordma_server_count(rpcordma_server_counter, rpcordma_u32)
{
	port_call();
}

rpcordma_server *rpcordma_svc_server(svc_xprt *xprt)
{
	return xprt->core;
}

rpcordma_u64 rpcordma_svc_address_key(const svc_xprt *xprt)
{
	return xprt->address_key();
}

void rpcordma_svc_get_limits(const svc_xprt *xprt, rpcordma_svc_limits *limits)
{
	limits->max_message = xprt->service.max_message;
	limits->max_pages = (xprt->service.max_message + kPageSize - 1) / kPageSize;
	limits->threads = xprt->service.threads;
	port_call();
}

void rpcordma_svc_close(svc_xprt *xprt)
{
	port_call();
	if (!xprt->dead)
		xprt->close();
	port_call();
}

rpcordma_bool rpcordma_svc_is_dead(const svc_xprt *xprt)
{
	return xprt->dead || xprt->closing;
}

void rpcordma_svc_set_data(svc_xprt *xprt)
{
	xprt->data = true;
}

void rpcordma_svc_clear_data(svc_xprt *xprt)
{
	xprt->data = false;
}

void rpcordma_svc_enqueue(svc_xprt *xprt)
{
	port_call();
	if (!xprt->dead)
		xprt->enqueue();
	port_call();
}

void rpcordma_svc_queue_finish(svc_xprt *xprt, rpcordma_u32 delay_ms, rpcordma_bool anew)
{
	if (anew)
		xprt->finish.queue_anew(delay_ms * kMillisecond);
	else
		xprt->finish.queue(delay_ms * kMillisecond);
	port_call();
}

void rpcordma_svc_cancel_finish(svc_xprt *xprt)
{
	xprt->finish.cancel_sync();
}

void rpcordma_svc_received(svc_xprt *xprt)
{
	REQUIRE(xprt->busy, "a transport is given up that nobody has");
	xprt->get();
	xprt->busy = false;
	port_call();
	xprt->enqueue();
	xprt->put();
	port_call();
}

/* --- a thread's call --- */

void rpcordma_svc_set_arg(svc_rqst *rqst, svc_xprt *, rpcordma_server_call *call,
			  const rpcordma_svc_arg *arg)
{
	rpcordma_xdr_buf &buf = rqst->arg;

	REQUIRE(arg->pages_used < rqst->pages.size(),
		"a call leaves the thread no pages for the reply");
	rqst->context = call;
	buf = {};
	buf.head = {arg->head ? arg->head : rqst->pages[0]->data, arg->head_length};
	buf.pages = arg->pages ? arg->pages : rqst->pages.data() + (arg->head ? 0 : 1);
	buf.page_length = arg->page_length;
	buf.tail = {arg->tail, arg->tail_length};
	buf.len = buf.buflen = arg->head_length + arg->page_length + arg->tail_length;
	for (u32 i = 0; arg->pages && i * kPageSize < arg->page_length; i++) {
		arg->pages[i]->lent++;
		rqst->lent.push_back(arg->pages[i]);
	}
	/* Where nfsd looks for a payload that goes on in the tail. */
	for (u32 i = 0; arg->head && i < arg->tail_length; i++) {
		const u32 at = arg->page_length + i;
		const page *p = arg->pages ? arg->pages[at / kPageSize] :
					     rqst->pages.at(at / kPageSize);

		REQUIRE(p && (arg->pages && !call->sink ?
				      p->lent != 0 :
				      p->data[at % kPageSize] ==
					      static_cast<const u8 *>(arg->tail)[i]),
			"a payload that goes on in the tail has somebody else's bytes");
	}
	rqst->respages = arg->pages_used;
	rqst->next_page = rqst->respages + 1;
	port_call();
}

void rpcordma_svc_swap_pages(svc_rqst *rqst, page **pages, rpcordma_u32 count)
{
	for (u32 i = 0; i < count; i++)
		std::swap(rqst->pages.at(i), pages[i]);
	port_call();
}

void rpcordma_svc_write_pages(svc_rqst *rqst, rpcordma_u32 offset, const void *from,
			      rpcordma_u32 length)
{
	REQUIRE(u64(offset) + length <= u64(rqst->pages.size()) * kPageSize,
		"bytes are written behind the thread's pages");
	rpcordma_pages_write(rqst->pages.data(), offset, from, length);
	port_call();
}

void rpcordma_svc_lend_pages(svc_rqst *rqst, page **pages, rpcordma_u32 count)
{
	for (u32 i = 0; i < count; i++) {
		pages[i] = rqst->pages.at(i);
		rqst->pages[i] = nullptr;
	}
	port_call();
}

rpcordma_xdr_buf *rpcordma_svc_reply(svc_rqst *rqst)
{
	return &rqst->res;
}

rpcordma_bool rpcordma_svc_ddp_allowed(const svc_rqst *rqst)
{
	return rqst->ddp_allowed;
}

rpcordma_u32 rpcordma_svc_reply_pages(const svc_rqst *rqst)
{
	return rqst->next_page - rqst->respages;
}

rpcordma_u32 rpcordma_svc_take_reply_pages(svc_rqst *rqst, page **pages, rpcordma_u32 room)
{
	const u32 count = rpcordma_svc_reply_pages(rqst);

	if (count > room)
		return 0;
	for (u32 i = 0; i < count; i++) {
		pages[i] = rqst->pages[rqst->respages + i];
		rqst->pages[rqst->respages + i] = nullptr;
	}
	rqst->respages += count;
	port_call();
	return count;
}

rpcordma_u64 rpcordma_memory_size(void)
{
	return 16 << 20;
}

rpcordma_u32 rpcordma_node(void)
{
	return chance.below(2);
}

void *rpcordma_page_address(page *page)
{
	return page->data;
}

rpcordma_u32 rpcordma_pages_kept(page *const *pages, rpcordma_u32 count)
{
	u32 kept = 0;

	for (u32 i = 0; i < count; i++)
		kept += pages[i]->references - 1;
	return kept;
}

rpcordma_u32 rpcordma_node_count(void)
{
	return 2;
}

rpcordma_bool rpcordma_nodes_differ(void)
{
	return true;
}

rpcordma_u32 rpcordma_page_node(const page *page)
{
	return page->node;
}

rpcordma_u32 rpcordma_pages_alloc(page **pages, rpcordma_u32 count, rpcordma_u32 node,
				  rpcordma_alloc_how how)
{
	if (how != RPCORDMA_ALLOC_ATOMIC)
		may_sleep("pages");
	port_call();
	std::fill_n(pages, count, nullptr);
	for (u32 i = 0; i < count; i++) {
		if (faults.strikes(8 * faults.memory)) {
			TRACE("no memory for page %u of %u", i + 1, count);
			return i;
		}
		pages[i] = page_create();
		pages[i]->node = node;
	}
	return count;
}

void rpcordma_pages_release(page **pages, rpcordma_u32 count)
{
	for (u32 i = 0; i < count; i++)
		if (pages[i])
			page_put(pages[i]);
	port_call();
}

void rpcordma_pages_write(page **pages, rpcordma_u32 offset, const void *from, rpcordma_u32 length)
{
	const u8 *bytes = static_cast<const u8 *>(from);

	while (length) {
		const u32 n = std::min(length, kPageSize - offset % kPageSize);

		std::memcpy(pages[offset / kPageSize]->data + offset % kPageSize, bytes, n);
		bytes += n;
		offset += n;
		length -= n;
	}
	port_call();
}

void rpcordma_buf_read(const rpcordma_xdr_buf *buf, rpcordma_u32 offset, void *to,
		       rpcordma_u32 length)
{
	u8 *bytes = static_cast<u8 *>(to);

	REQUIRE(each_piece(buf, offset, length,
			   [&](u8 *at, u32 n) {
				   std::memcpy(bytes, at, n);
				   bytes += n;
			   }),
		"more is read from a message than it holds");
	port_call();
}

void rpcordma_server_queue_refill(void)
{
	server_refill->queue();
	port_call();
}

/* --- the backchannel --- */

static rpcordma_bool end_backward(svc_xprt *xprt, u32 xid, int result, const void *reply, u32 length)
{
	auto it = xprt->backward_calls.find(xid);

	port_call();
	it = xprt->backward_calls.find(xid);
	if (it == xprt->backward_calls.end())
		return false;
	BackwardCall &call = *it->second;
	if (call.done)
		return false;
	call.result = result;
	if (reply)
		call.reply.assign(static_cast<const u8 *>(reply),
				  static_cast<const u8 *>(reply) + length);
	call.done = true;
	call.waiting.wake_all();
	return true;
}

rpcordma_bool rpcordma_svc_backward_reply(svc_xprt *xprt, rpcordma_u32 xid, const void *reply,
					  rpcordma_u32 length, rpcordma_u32 credits)
{
	REQUIRE(credits && credits <= rpcordma_core_server_backward_calls(), "%u backward credits",
		credits);
	xprt->window = credits;
	xprt->window_opened.wake_all();
	return end_backward(xprt, xid, 0, reply, length);
}

rpcordma_bool rpcordma_svc_backward_error(svc_xprt *xprt, rpcordma_u32 xid, int error)
{
	return end_backward(xprt, xid, error, nullptr, 0);
}
