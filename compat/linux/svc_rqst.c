// SPDX-License-Identifier: GPL-2.0-only
/*
 * A service thread's call: its arguments, its reply, its pages.
 *
 * A thread has an array of pages, rq_pages. Before each call sunrpc allocates the absent ones and
 * uses the others again. So pages can be taken out of it, and others put in, as long as the call
 * that is being processed does not use them. The pages from rq_respages up to rq_next_page belong
 * to the reply; a spliced READ has pages of the page cache there.
 *
 * Kernels differ in where the reply's pages are (HAVE_SVC_RQST_REPLY_PAGES). In older ones they are
 * those of the same array that follow the call's, and sunrpc looks at all of the array for absent
 * ones. In newer ones they are an array of their own, always from its beginning; of the call's
 * array sunrpc looks at the first rq_pages_nfree pages only, so whoever takes some says so there.
 */

#include <linux/bitops.h>
#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/in.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/sunrpc/svc.h>
#include <linux/sunrpc/svc_xprt.h>
#include <linux/sunrpc/xdr.h>

#include "compat/linux/svc.h"
#include "compat/port/port.h"

#ifdef HAVE_SVC_RQST_REPLY_PAGES
#define REPLY_PAGES_APART true
#else
#define REPLY_PAGES_APART false
#endif

/* The port hands these over as struct page **. */
#define MEMBER(member) (((struct svc_rqst *)NULL)->member)
static_assert(__same_type(MEMBER(rq_pages)[0], struct page *));
static_assert(__same_type(MEMBER(rq_respages), struct page **));
static_assert(__same_type(MEMBER(rq_next_page), struct page **));
#ifndef HAVE_SVC_RQST_MAXPAGES
/*
 * What rpcordma_svc_get_limits() lets a call take, a payload and a page, and two more pages. Where
 * the size of the array is not fixed, sunrpc allocates as many.
 */
static_assert(ARRAY_SIZE(MEMBER(rq_pages)) >= DIV_ROUND_UP(RPCSVC_MAXPAYLOAD, PAGE_SIZE) + 1 + 2);
#endif

void rpcordma_svc_set_arg(struct svc_rqst *rqst, struct svc_xprt *xprt,
			  struct rpcordma_server_call *call, const struct rpcordma_svc_arg *arg)
{
	struct xdr_buf *buf = &rqst->rq_arg;

	rqst->rq_xprt_ctxt = call;
	rqst->rq_prot = IPPROTO_MAX;
	svc_xprt_copy_addrs(rqst, xprt);
	/* The client's port is unknown, and would prove nothing. */
	set_bit(RQ_SECURE, &rqst->rq_flags);

	/*
	 * A call without page data lies wholly in the head. sunrpc can defer such a call: it copies
	 * the head, and processes the copy later without calling the transport.
	 */
	buf->head[0].iov_base = arg->head ? arg->head : page_address(rqst->rq_pages[0]);
	buf->head[0].iov_len = arg->head_length;
	buf->pages = arg->pages ? arg->pages : rqst->rq_pages + (arg->head ? 0 : 1);
	buf->page_base = 0;
	buf->page_len = arg->page_length;
	buf->tail[0].iov_base = arg->tail;
	buf->tail[0].iov_len = arg->tail_length;
	buf->len = arg->head_length + arg->page_length + arg->tail_length;
	buf->buflen = buf->len;

#ifndef HAVE_SVC_RQST_REPLY_PAGES
	/* The reply's head is the first page after the call's. */
	rqst->rq_respages = rqst->rq_pages + arg->pages_used;
#endif
	rqst->rq_next_page = rqst->rq_respages + 1;
}

#ifdef HAVE_SVC_RQST_MAXPAGES
/*
 * No declaration says whether there are two arrays: the probe looks at what came with the second. What
 * a thread brings shows it. It has no reply pages before its first call where there is one array.
 */
bool rpcordma_svc_pages_as_known(const struct svc_rqst *rqst)
{
	struct page **const reply = rqst->rq_respages;
	const bool apart =
		reply && (reply < rqst->rq_pages || reply > rqst->rq_pages + rqst->rq_maxpages);

	return apart == REPLY_PAGES_APART;
}
#endif

void rpcordma_svc_swap_pages(struct svc_rqst *rqst, struct page **pages, rpcordma_u32 count)
{
	u32 i;

	for (i = 0; i < count; i++)
		swap(rqst->rq_pages[i], pages[i]);
}

void rpcordma_svc_write_pages(struct svc_rqst *rqst, rpcordma_u32 offset, const void *from,
			      rpcordma_u32 length)
{
	rpcordma_pages_write(rqst->rq_pages, offset, from, length);
}

void rpcordma_svc_lend_pages(struct svc_rqst *rqst, struct page **pages, rpcordma_u32 count)
{
	memcpy(pages, rqst->rq_pages, count * sizeof(*pages));
	memset(rqst->rq_pages, 0, count * sizeof(*pages));
#ifdef HAVE_SVC_RQST_REPLY_PAGES
	/* Those that come back meanwhile are passed over. */
	rqst->rq_pages_nfree = max_t(unsigned long, rqst->rq_pages_nfree, count);
#endif
}

struct rpcordma_xdr_buf *rpcordma_svc_reply(struct svc_rqst *rqst)
{
	return (struct rpcordma_xdr_buf *)&rqst->rq_res;
}

rpcordma_bool rpcordma_svc_ddp_allowed(const struct svc_rqst *rqst)
{
	const rpc_authflavor_t flavor = rqst->rq_cred.cr_flavor;

	/* A pseudoflavor names mechanism and service. Only this one merely authenticates. */
	return flavor <= RPC_AUTH_MAXFLAVOR || flavor == RPC_AUTH_GSS_KRB5;
}

/*
 * Behind the last page that the reply lies in. The service has counted its pages; what seals the reply then (a GSS MIC) begins
 * another one where these are full.
 */
static struct page **reply_end(const struct svc_rqst *rqst)
{
	const struct xdr_buf *reply = &rqst->rq_res;
	struct page **end;

	if (!reply->page_len)
		return rqst->rq_next_page;
	end = reply->pages + DIV_ROUND_UP(reply->page_base + reply->page_len, PAGE_SIZE);
	return end > rqst->rq_next_page && end <= rqst->rq_page_end ? end : rqst->rq_next_page;
}

rpcordma_u32 rpcordma_svc_reply_pages(const struct svc_rqst *rqst)
{
	return reply_end(rqst) - rqst->rq_respages;
}

rpcordma_u32 rpcordma_svc_take_reply_pages(struct svc_rqst *rqst, struct page **pages,
					   rpcordma_u32 room)
{
	const u32 count = rpcordma_svc_reply_pages(rqst);

	if (count > room)
		return 0;
	memcpy(pages, rqst->rq_respages, count * sizeof(*pages));
	memset(rqst->rq_respages, 0, count * sizeof(*pages));
	/* sunrpc fills what is absent up to here. */
	rqst->rq_next_page = rqst->rq_respages + count;
#ifndef HAVE_SVC_RQST_REPLY_PAGES
	/* The pages after them remain the thread's. */
	rqst->rq_respages += count;
#endif
	return count;
}
