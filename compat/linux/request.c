// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the core asks of a request: its buffers, its xid, its end. Credits are in credits.c, the
 * slots of a transport in xprt.c, backward requests in backchannel.c.
 *
 * Lock: the transport's queue_lock guards which request waits for which reply.
 */

#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sunrpc/auth.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/sched.h>
#include <linux/sunrpc/xdr.h>
#include <linux/sunrpc/xprt.h>

#include "compat/linux/transport.h"
#include "compat/port/port.h"

struct rpc_rqst *rpcordma_rqst_create(struct rpc_xprt *xprt)
{
	struct rpcordma_slot *slot;

	slot = rpcordma_alloc(sizeof(*slot) + RPCORDMA_CORE_ALIGN - 1 + rpcordma_core_call_size(),
			      RPCORDMA_ALLOC_NOIO);
	if (!slot)
		return NULL;
	slot->rqst.rq_xprt = xprt;
	return &slot->rqst;
}

void rpcordma_rqst_destroy(struct rpc_rqst *rqst)
{
	rpcordma_free(to_slot(rqst));
}

struct rpcordma_call *rpcordma_rqst_call(struct rpc_rqst *rqst)
{
	return to_call(rqst);
}

void rpcordma_rqst_reset(struct rpc_rqst *rqst)
{
	memset(rqst, 0, sizeof(*rqst));
}

void rpcordma_rqst_get(struct rpc_rqst *rqst, struct rpcordma_request *request)
{
	struct rpc_xprt *xprt = rqst->rq_xprt;
	const struct rpc_cred *cred = rqst->rq_cred;

	request->send = (struct rpcordma_xdr_buf *)&rqst->rq_snd_buf;
	request->receive = (struct rpcordma_xdr_buf *)&rqst->rq_rcv_buf;
	request->xid = be32_to_cpu(rqst->rq_xid);
	request->connected = xprt_connected(xprt);
	/*
	 * sunrpc copies the transport's cookie into the request when it sends it, and increments
	 * the transport's with each connection.
	 */
	request->sent_before = rqst->rq_connect_cookie == READ_ONCE(xprt->connect_cookie);
	/* A task that holds the send lock also sends the requests of other tasks. */
	request->own = READ_ONCE(xprt->snd_task) == rqst->rq_task;
	/*
	 * If the procedure has no decoder, nobody waits for the reply. A backward reply has no
	 * procedure.
	 */
	request->reply_expected = rqst->rq_task && rpc_reply_expected(rqst->rq_task);
	/*
	 * Integrity and privacy cover the whole message. A backward reply has no credential.
	 */
	request->ddp_allowed = cred && !test_bit(RPCAUTH_AUTH_DATATOUCH, &cred->cr_auth->au_flags);
}

rpcordma_bool rpcordma_rqst_take_credit(struct rpc_rqst *rqst)
{
	return xprt_request_get_cong(rqst->rq_xprt, rqst);
}

void rpcordma_rqst_sent(struct rpc_rqst *rqst)
{
	rqst->rq_xtime = ktime_get();
	rqst->rq_xmit_bytes_sent += rqst->rq_snd_buf.len;
}

int rpcordma_fill_sparse_pages(struct rpcordma_xdr_buf *buf)
{
	struct page **page = buf->pages + (buf->page_base >> PAGE_SHIFT);
	u32 left = buf->page_length;
	u32 in_page = offset_in_page(buf->page_base);

	while (left) {
		const u32 take = min_t(u32, left, PAGE_SIZE - in_page);

		/* The owner of the array frees its pages, however the call ends. */
		if (!*page)
			*page = alloc_page(GFP_NOWAIT | __GFP_NOWARN);
		if (!*page)
			return -ENOBUFS;
		left -= take;
		in_page = 0;
		page++;
	}
	return 0;
}

struct rpc_rqst *rpcordma_rqst_find_pin(struct rpc_xprt *xprt, rpcordma_u32 xid)
{
	struct rpc_rqst *rqst;

	spin_lock(&xprt->queue_lock);
	rqst = xprt_lookup_rqst(xprt, cpu_to_be32(xid));
	if (rqst)
		xprt_pin_rqst(rqst);
	spin_unlock(&xprt->queue_lock);
	return rqst;
}

void rpcordma_rqst_unpin(struct rpc_rqst *rqst)
{
	struct rpc_xprt *xprt = rqst->rq_xprt;

	spin_lock(&xprt->queue_lock);
	xprt_unpin_rqst(rqst);
	spin_unlock(&xprt->queue_lock);
}

void rpcordma_rqst_complete(struct rpc_rqst *rqst, int result)
{
	struct rpc_xprt *xprt = rqst->rq_xprt;

	spin_lock(&xprt->queue_lock);
	if (result < 0) {
		rqst->rq_task->tk_status = result;
		result = 0;
	}
	xprt_complete_rqst(rqst->rq_task, result);
	xprt_unpin_rqst(rqst);
	spin_unlock(&xprt->queue_lock);
}

void rpcordma_rqst_set_reply(struct rpc_rqst *rqst, rpcordma_u32 head, rpcordma_u32 pages,
			     rpcordma_u32 buflen_reduction)
{
	struct xdr_buf *buf = &rqst->rq_rcv_buf;

	buf->head[0].iov_len = head;
	buf->page_len = pages;
	buf->buflen -= buflen_reduction;
	/* sunrpc expects both to agree when it decodes. The core may also have moved a part. */
	memcpy(&rqst->rq_private_buf, buf, sizeof(*buf));
}

void rpcordma_copy_to_pages(struct rpcordma_xdr_buf *buf, rpcordma_u32 offset, const void *from,
			    rpcordma_u32 length)
{
	u32 at = buf->page_base + offset;

	/* Most bytes lie in one page. Where there are none, no page is looked at. */
	if (likely(length - 1 < PAGE_SIZE - offset_in_page(at))) {
		memcpy_to_page(buf->pages[at >> PAGE_SHIFT], offset_in_page(at), from, length);
		return;
	}
	while (length) {
		const u32 take = min_t(u32, length, PAGE_SIZE - offset_in_page(at));

		memcpy_to_page(buf->pages[at >> PAGE_SHIFT], offset_in_page(at), from, take);
		from += take;
		at += take;
		length -= take;
	}
}

void rpcordma_copy_from_pages(const struct rpcordma_xdr_buf *buf, rpcordma_u32 offset, void *to,
			      rpcordma_u32 length)
{
	u32 at = buf->page_base + offset;

	/* Most bytes lie in one page. Where there are none, no page is looked at. */
	if (likely(length - 1 < PAGE_SIZE - offset_in_page(at))) {
		memcpy_from_page(to, buf->pages[at >> PAGE_SHIFT], offset_in_page(at), length);
		return;
	}
	while (length) {
		const u32 take = min_t(u32, length, PAGE_SIZE - offset_in_page(at));

		memcpy_from_page(to, buf->pages[at >> PAGE_SHIFT], offset_in_page(at), take);
		to += take;
		at += take;
		length -= take;
	}
}
