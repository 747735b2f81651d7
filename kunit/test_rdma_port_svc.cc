// SPDX-License-Identifier: GPL-2.0-only
/* The server's side of sunrpc of the double of the port; see test_rdma_port_svc.hh. No tests here. */
#include "kunit/test_rdma_port.hh"
#include "module/server/call.hh"

struct rpcordma_server_tunables rpcordma_server_tunables;

using namespace rpcordma;

/* --- svc.h --- */

void rpcordma_server_count(rpcordma_server_counter which, rpcordma_u32 add)
{
	the_port->svc.counters[which] += add;
}

rpcordma_u64 rpcordma_svc_address_key(const svc_xprt *)
{
	return 4711;
}

void rpcordma_svc_get_limits(const svc_xprt *, rpcordma_svc_limits *limits)
{
	*limits = the_port->svc.limits;
}

void rpcordma_svc_close(svc_xprt *)
{
	the_port->svc.closed++;
}

void rpcordma_svc_set_data(svc_xprt *)
{
	EXPECT_EQ(the_port->sync.locks_held, 1);
	the_port->svc.data = true;
}

void rpcordma_svc_clear_data(svc_xprt *)
{
	EXPECT_EQ(the_port->sync.locks_held, 1);
	the_port->svc.data = false;
}

void rpcordma_svc_enqueue(svc_xprt *)
{
	EXPECT_EQ(the_port->sync.locks_held, 0);
	the_port->svc.enqueued++;
}

void rpcordma_svc_received(svc_xprt *)
{
	EXPECT_EQ(the_port->sync.locks_held, 0);
	the_port->svc.received++;
}

/*
 * nfsd takes a payload that goes on in the tail from the pages all the same (svc_fill_write_vector()): it has to find the
 * call's bytes there, as they stand in the tail where the pages are the thread's.
 */
static void expect_nothing_behind(const svc_rqst &rqst, const rpcordma_server_call &call,
				  const rpcordma_svc_arg &arg)
{
	const u32 own = div_round_up(arg.page_length, u32(kPage));

	for (u32 i = 0; arg.head && i < arg.tail_length; i++) {
		const u32 at = arg.page_length + i;
		const page *p = (arg.pages ? arg.pages : rqst.pages)[at / kPage];

		ASSERT_NE(p, nullptr);
		if (!arg.pages || call.sink) {
			ASSERT_EQ(p->data[at % kPage], static_cast<const u8 *>(arg.tail)[i]);
			continue;
		}
		bool found = false;
		for (u32 n = 0; n < own; n++)
			found |= arg.pages[n] == p;
		ASSERT_TRUE(found);
	}
	if (!arg.pages && arg.head && arg.page_length)
		EXPECT_EQ(arg.pages_used,
			  div_round_up(arg.page_length + arg.tail_length, u32(kPage)));
}

void rpcordma_svc_set_arg(svc_rqst *rqst, svc_xprt *, rpcordma_server_call *call,
			  const rpcordma_svc_arg *arg)
{
	expect_nothing_behind(*rqst, *call, *arg);
	rqst->call = call;
	rqst->arg = *arg;
	rqst->calls++;
}

void rpcordma_svc_swap_pages(svc_rqst *rqst, page **pages, rpcordma_u32 count)
{
	ASSERT_LE(count, svc_rqst::kPages);
	for (u32 i = 0; i < count; i++) {
		page *const p = rqst->pages[i];

		rqst->pages[i] = pages[i];
		pages[i] = p;
	}
}

void rpcordma_svc_write_pages(svc_rqst *rqst, rpcordma_u32 offset, const void *from,
			      rpcordma_u32 length)
{
	ASSERT_LE(u64(offset) + length, u64(svc_rqst::kPages) * kPage);
	rpcordma_pages_write(rqst->pages, offset, from, length);
}

void rpcordma_svc_lend_pages(svc_rqst *rqst, page **pages, rpcordma_u32 count)
{
	ASSERT_LE(count, svc_rqst::kPages);
	for (u32 i = 0; i < count; i++) {
		pages[i] = rqst->pages[i];
		rqst->pages[i] = nullptr;
	}
}

rpcordma_xdr_buf *rpcordma_svc_reply(svc_rqst *rqst)
{
	return &rqst->reply;
}

rpcordma_bool rpcordma_svc_ddp_allowed(const svc_rqst *rqst)
{
	return rqst->ddp_allowed;
}

rpcordma_u32 rpcordma_svc_reply_pages(const svc_rqst *rqst)
{
	/* The head has one at least. */
	return max(rqst->reply_pages, 1u);
}

rpcordma_u32 rpcordma_svc_take_reply_pages(svc_rqst *rqst, page **pages, rpcordma_u32 room)
{
	const u32 count = rpcordma_svc_reply_pages(rqst);

	if (count > room)
		return 0;
	for (u32 i = 0; i < count; i++) {
		pages[i] = rqst->pages[rqst->arg.pages_used + i];
		rqst->pages[rqst->arg.pages_used + i] = nullptr;
	}
	return count;
}

void rpcordma_svc_queue_finish(svc_xprt *, rpcordma_u32 delay_ms, rpcordma_bool anew)
{
	u32 &asked = the_port->svc.finish_ms;

	EXPECT_EQ(the_port->sync.locks_held, 0);
	EXPECT_FALSE(the_port->svc.finish_over);
	if (anew || !asked)
		asked = delay_ms;
}

void rpcordma_svc_cancel_finish(svc_xprt *)
{
	EXPECT_TRUE(the_port->memory.may_sleep);
	EXPECT_EQ(the_port->sync.locks_held, 0);
	the_port->svc.finish_ms = 0;
	the_port->svc.finish_over = true;
}

void rpcordma_server_queue_refill(void)
{
	EXPECT_EQ(the_port->sync.locks_held, 0);
	the_port->svc.refills++;
}

rpcordma_bool rpcordma_svc_backward_reply(svc_xprt *, rpcordma_u32 xid, const void *,
					  rpcordma_u32 length, rpcordma_u32 credits)
{
	the_port->svc.backward_replies++;
	the_port->svc.backward_xid = xid;
	the_port->svc.backward_length = length;
	the_port->svc.backward_credits = credits;
	the_port->svc.backward_outstanding -= the_port->svc.backward_known &&
					      the_port->svc.backward_outstanding;
	return the_port->svc.backward_known;
}

rpcordma_bool rpcordma_svc_backward_error(svc_xprt *, rpcordma_u32 xid, int error)
{
	the_port->svc.backward_errors++;
	the_port->svc.backward_xid = xid;
	the_port->svc.backward_error = error;
	the_port->svc.backward_outstanding -= the_port->svc.backward_known &&
					      the_port->svc.backward_outstanding;
	return the_port->svc.backward_known;
}
