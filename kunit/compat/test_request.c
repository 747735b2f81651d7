// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit suite of compat/linux/request.c: requests, their buffers and their replies.
 */
#include <kunit/test.h>
#include <linux/in.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/sunrpc/auth.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/sched.h>
#include <linux/sunrpc/xprt.h>
#include <net/net_namespace.h>

#include "compat/linux/transport.h"
#include "compat/port/port.h"
#include "kunit/compat/device.h"
#include "kunit/compat/engine.h"

static void free_transport(void *xprt)
{
	xprt_free(xprt);
}

static struct rpc_xprt *make_transport(struct kunit *test)
{
	struct rpc_xprt *xprt = xprt_alloc(&init_net, sizeof(struct rpcordma_transport), 0, 4);

	KUNIT_ASSERT_NOT_NULL(test, xprt);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_transport, xprt), 0);
	return xprt;
}

static void life(struct kunit *test)
{
	struct rpc_xprt *xprt = make_transport(test);
	struct rpc_rqst *rqst;

	rpcordma_fault_arm("kzalloc", 1);
	KUNIT_EXPECT_NULL(test, rpcordma_rqst_create(xprt));
	rpcordma_fault_arm(NULL, 0);
	rqst = rpcordma_rqst_create(xprt);
	KUNIT_ASSERT_NOT_NULL(test, rqst);
	KUNIT_EXPECT_PTR_EQ(test, rqst->rq_xprt, xprt);
	KUNIT_EXPECT_TRUE(test, IS_ALIGNED((uintptr_t)rpcordma_rqst_call(rqst), RPCORDMA_CORE_ALIGN));
	KUNIT_EXPECT_GE(test, (uintptr_t)rpcordma_rqst_call(rqst), (uintptr_t)(rqst + 1));
	/* All of the core's half is ours: KASAN says if it is not. */
	KUNIT_EXPECT_NULL(test, memchr_inv(rpcordma_rqst_call(rqst), 0, rpcordma_core_call_size()));
	memset(rpcordma_rqst_call(rqst), 0xa5, rpcordma_core_call_size());
	memset(rqst, 0x5a, sizeof(*rqst));
	rpcordma_rqst_reset(rqst);
	KUNIT_EXPECT_NULL(test, memchr_inv(rqst, 0, sizeof(*rqst)));
	KUNIT_EXPECT_NULL(test, memchr_inv(rpcordma_rqst_call(rqst), 0xa5, rpcordma_core_call_size()));
	rpcordma_rqst_destroy(rqst);
}

static int decode(struct rpc_rqst *rqst, struct xdr_stream *stream, void *result)
{
	return 0;
}

static void what_it_is(struct kunit *test)
{
	const struct rpc_procinfo answered = { .p_decode = decode }, unanswered = {};
	struct rpc_auth auth = {};
	struct rpc_cred cred = { .cr_auth = &auth };
	struct rpc_xprt *xprt = make_transport(test);
	struct rpc_task task = { .tk_msg.rpc_proc = &answered };
	struct rpc_rqst rqst = { .rq_xprt = xprt, .rq_task = &task, .rq_cred = &cred,
				 .rq_xid = cpu_to_be32(0x01020304), .rq_connect_cookie = 4 };
	struct rpcordma_request is;

	xprt->connect_cookie = 4;
	xprt->snd_task = &task;
	xprt_set_connected(xprt);
	rpcordma_rqst_get(&rqst, &is);
	KUNIT_EXPECT_PTR_EQ(test, (void *)is.send, (void *)&rqst.rq_snd_buf);
	KUNIT_EXPECT_PTR_EQ(test, (void *)is.receive, (void *)&rqst.rq_rcv_buf);
	KUNIT_EXPECT_EQ(test, is.xid, 0x01020304);
	KUNIT_EXPECT_TRUE(test, is.connected);
	KUNIT_EXPECT_TRUE(test, is.sent_before);
	KUNIT_EXPECT_TRUE(test, is.own);
	KUNIT_EXPECT_TRUE(test, is.reply_expected);
	KUNIT_EXPECT_TRUE(test, is.ddp_allowed);

	xprt_clear_connected(xprt);
	xprt->connect_cookie = 5;
	xprt->snd_task = NULL;
	task.tk_msg.rpc_proc = &unanswered;
	set_bit(RPCAUTH_AUTH_DATATOUCH, &auth.au_flags);
	rpcordma_rqst_get(&rqst, &is);
	KUNIT_EXPECT_FALSE(test, is.connected);
	KUNIT_EXPECT_FALSE(test, is.sent_before);
	KUNIT_EXPECT_FALSE(test, is.own);
	KUNIT_EXPECT_FALSE(test, is.reply_expected);
	KUNIT_EXPECT_FALSE(test, is.ddp_allowed);

	/* A backward reply has neither task nor credential. */
	rqst.rq_task = NULL;
	rqst.rq_cred = NULL;
	rpcordma_rqst_get(&rqst, &is);
	KUNIT_EXPECT_FALSE(test, is.reply_expected);
	KUNIT_EXPECT_FALSE(test, is.ddp_allowed);
}

static unsigned int released;

static void release_encrypted(struct rpc_rqst *rqst)
{
	released++;
	rqst->rq_release_snd_buf = NULL;
}

static const struct rpc_version version = { .number = 1 };
static const struct rpc_version *versions[] = { NULL, &version };
static struct rpc_stat stats;
static const struct rpc_program program = {
	.name = "test", .number = 1, .nrvers = ARRAY_SIZE(versions), .version = versions, .stats = &stats
};

static void shut_down(void *client)
{
	rpc_shutdown_client(client);
}

/* Who is about to free a request's encrypted pages asks the transport first, from the first attempt to send them on. */
static void encrypted_pages(struct kunit *test)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(20049),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rpc_create_args create = {
		.net = &init_net, .protocol = XPRT_TRANSPORT_RDMA, .address = (struct sockaddr *)&to,
		.addrsize = sizeof(to), .servername = "server", .program = &program, .version = 1,
		.authflavor = RPC_AUTH_NULL, .flags = RPC_CLNT_CREATE_NOPING, .cred = current_cred(),
	};
	struct rpc_clnt *client = rpc_create(&create);
	struct rpc_task task = {};
	struct rpc_xprt *xprt;
	struct rpc_rqst *rqst;
	u32 byte;

	KUNIT_ASSERT_FALSE(test, IS_ERR(client));
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, shut_down, client), 0);
	xprt = rcu_access_pointer(client->cl_xprt);
	xprt->ops->alloc_slot(xprt, &task);
	rqst = task.tk_rqstp;
	KUNIT_ASSERT_NOT_NULL(test, rqst);
	rqst->rq_xprt = xprt;
	rqst->rq_buffer = &byte;
	released = 0;

	rqst->rq_release_snd_buf = release_encrypted;
	/* There is no connection; twice, as sunrpc may try again. */
	KUNIT_EXPECT_EQ(test, xprt->ops->send_request(rqst), -ENOTCONN);
	KUNIT_EXPECT_EQ(test, xprt->ops->send_request(rqst), -ENOTCONN);
	KUNIT_ASSERT_NOT_NULL(test, rqst->rq_release_snd_buf);
	KUNIT_EXPECT_PTR_NE(test, rqst->rq_release_snd_buf, &release_encrypted);
	/* It is encoded once more, by a task that was given the send lock and had no need of it. */
	rqst->rq_task = &task;
	set_bit(XPRT_LOCKED, &xprt->state);
	xprt->snd_task = &task;
	rqst->rq_release_snd_buf(rqst);
	KUNIT_EXPECT_PTR_NE(test, xprt->snd_task, &task);
	KUNIT_EXPECT_FALSE(test, test_bit(XPRT_LOCKED, &xprt->state));
	KUNIT_EXPECT_EQ(test, released, 1);
	KUNIT_EXPECT_NULL(test, rqst->rq_release_snd_buf);

	/* Its task has done with it: the buffers go first, and the transport is not asked again. */
	rqst->rq_release_snd_buf = release_encrypted;
	KUNIT_EXPECT_EQ(test, xprt->ops->send_request(rqst), -ENOTCONN);
	xprt->ops->buf_free(&task);
	KUNIT_EXPECT_EQ(test, released, 1);
	KUNIT_EXPECT_PTR_EQ(test, rqst->rq_release_snd_buf, &release_encrypted);
	xprt->ops->free_slot(xprt, rqst);
}

static void sending(struct kunit *test)
{
	struct rpc_rqst rqst = { .rq_snd_buf.len = 100, .rq_xmit_bytes_sent = 7 };
	const ktime_t before = ktime_get();

	rpcordma_rqst_sent(&rqst);
	KUNIT_EXPECT_EQ(test, rqst.rq_xmit_bytes_sent, 107);
	KUNIT_EXPECT_GE(test, rqst.rq_xtime, before);
	KUNIT_EXPECT_LE(test, rqst.rq_xtime, ktime_get());
}

static void nobody_waits(struct kunit *test)
{
	struct rpc_xprt *xprt = make_transport(test);

	KUNIT_EXPECT_NULL(test, rpcordma_rqst_find_pin(xprt, 1));
	KUNIT_EXPECT_EQ(test, xprt->stat.bad_xids, 1);
}

static void sparse_pages(struct kunit *test)
{
	/* Where the data begin and end, and which of five pages that concerns. */
	static const struct {
		u32 base, length, first, count;
	} cases[] = {
		{ 0, 1, 0, 1 },		  { 0, 4096, 0, 1 },	   { 0, 4097, 0, 2 },
		{ 4095, 1, 0, 1 },	  { 4095, 2, 0, 2 },	   { 4096, 1, 1, 1 },
		{ 5000, 8192, 1, 3 },	  { 8192, 3 * 4096, 2, 3 }, { 1, 4 * 4096, 0, 5 },
		{ 3, 0, 0, 0 },
	};
	struct page *there = test_neighbours(test, 1)[0];
	u32 i, p, nth;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		for (nth = 0; nth <= cases[i].count; nth++) {
			struct page *pages[5] = {};
			struct rpcordma_xdr_buf buf = { .pages = pages, .page_base = cases[i].base,
							.page_length = cases[i].length };

			rpcordma_fault_arm("alloc_page", nth);
			KUNIT_EXPECT_EQ(test, rpcordma_fill_sparse_pages(&buf), nth ? -ENOBUFS : 0);
			rpcordma_fault_arm(NULL, 0);
			for (p = 0; p < 5; p++) {
				const u32 have = nth ? nth - 1 : cases[i].count;

				KUNIT_EXPECT_EQ_MSG(test, pages[p] != NULL,
						    p >= cases[i].first && p < cases[i].first + have,
						    "page %u of case %u, failure %u", p, i, nth);
				if (pages[p])
					put_page(pages[p]);
			}
		}
	}
	/* What is there stays. */
	for (p = 0; p < 3; p++) {
		struct page *pages[3] = { NULL, there, NULL };
		struct rpcordma_xdr_buf buf = { .pages = pages, .page_length = 3 * 4096 };

		KUNIT_EXPECT_EQ(test, rpcordma_fill_sparse_pages(&buf), 0);
		KUNIT_EXPECT_PTR_EQ(test, pages[1], there);
		KUNIT_ASSERT_NOT_NULL(test, pages[0]);
		KUNIT_ASSERT_NOT_NULL(test, pages[2]);
		put_page(pages[0]);
		put_page(pages[2]);
	}
}

static void a_reply(struct kunit *test)
{
	struct rpc_rqst rqst = {};

	rqst.rq_rcv_buf.head[0].iov_base = &rqst;
	rqst.rq_rcv_buf.head[0].iov_len = 500;
	rqst.rq_rcv_buf.page_len = 4096;
	rqst.rq_rcv_buf.buflen = 5000;
	rpcordma_rqst_set_reply(&rqst, 120, 77, 30);
	KUNIT_EXPECT_EQ(test, rqst.rq_rcv_buf.head[0].iov_len, 120);
	KUNIT_EXPECT_EQ(test, rqst.rq_rcv_buf.page_len, 77);
	KUNIT_EXPECT_EQ(test, rqst.rq_rcv_buf.buflen, 4970);
	KUNIT_EXPECT_MEMEQ(test, &rqst.rq_private_buf, &rqst.rq_rcv_buf, sizeof(rqst.rq_rcv_buf));
}

static void copies(struct kunit *test)
{
	static const u32 bases[] = { 0, 1, 4000, 4095, 4096, 5000 };
	static const u32 offsets[] = { 0, 1, 95, 96, 97, 4096, 5000 };
	static const u32 lengths[] = { 0, 1, 2, 4095, 4096, 4097, 6000 };
	struct page **near = test_neighbours(test, 4);
	struct page *pages[4] = { near[3], near[1], near[0], near[2] };
	u8 *in = kunit_kmalloc(test, SZ_8K, GFP_KERNEL), *out = kunit_kmalloc(test, SZ_8K, GFP_KERNEL);
	u32 b, o, l, i;

	KUNIT_ASSERT_NOT_NULL(test, in);
	KUNIT_ASSERT_NOT_NULL(test, out);
	for (i = 0; i < SZ_8K; i++)
		in[i] = test_byte(i);
	for (b = 0; b < ARRAY_SIZE(bases); b++) {
		for (o = 0; o < ARRAY_SIZE(offsets); o++) {
			for (l = 0; l < ARRAY_SIZE(lengths); l++) {
				struct rpcordma_xdr_buf buf = { .pages = pages, .page_base = bases[b] };
				const u32 from = bases[b] + offsets[o], to = from + lengths[l];
				u32 wrong = 0;

				if (to > SZ_16K)
					continue;
				for (i = 0; i < 4; i++)
					memset(page_address(pages[i]), 0xee, PAGE_SIZE);
				memset(out, 0, SZ_8K);
				rpcordma_copy_to_pages(&buf, offsets[o], in, lengths[l]);
				for (i = 0; i < SZ_16K; i++) {
					const u8 is = ((u8 *)page_address(pages[i / PAGE_SIZE]))[i % PAGE_SIZE];

					wrong += is != (i >= from && i < to ? in[i - from] : 0xee);
				}
				rpcordma_copy_from_pages(&buf, offsets[o], out, lengths[l]);
				KUNIT_EXPECT_EQ_MSG(test, wrong, 0, "base %u, %u bytes at %u", bases[b],
						    lengths[l], offsets[o]);
				KUNIT_EXPECT_MEMEQ(test, in, out, lengths[l]);
				KUNIT_EXPECT_EQ(test, out[lengths[l]], 0);
			}
		}
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(life),
	KUNIT_CASE(what_it_is),
	KUNIT_CASE(encrypted_pages),
	KUNIT_CASE(sending),
	KUNIT_CASE(nobody_waits),
	KUNIT_CASE(sparse_pages),
	KUNIT_CASE(a_reply),
	KUNIT_CASE(copies),
	{},
};

static struct kunit_suite suite = {
	.name = "compat_request",
	.test_cases = cases,
};

kunit_test_suite(suite);
