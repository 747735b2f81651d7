// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit suite of the server's Linux side, as far as it can be called without a connection: counters (svc_counters.c), a
 * thread's call (svc_rqst.c), a queue to be accepted from, addresses (svc_connection.c); and of the sysctls and parameters
 * of both ends (sysctl.c, module.c), which are read and written as an administrator does.
 */
#include <kunit/test.h>
#include <linux/fs.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sunrpc/svc.h>
#include <linux/sunrpc/svc_xprt.h>

#include "compat/linux/svc.h"
#include "compat/port/port.h"
#include "kunit/compat/device.h"
#include "kunit/compat/engine.h"

#define SYSCTL "/proc/sys/sunrpc/"
#define PARAMETER "/sys/module/" KBUILD_MODNAME "/parameters/"

/* Returns what write() does. */
static ssize_t write_file(const char *path, const char *text)
{
	struct file *file = filp_open(path, O_WRONLY, 0);
	loff_t position = 0;
	ssize_t rc;

	if (IS_ERR(file))
		return PTR_ERR(file);
	rc = kernel_write(file, text, strlen(text), &position);
	filp_close(file, NULL);
	return rc;
}

/* The number in a file; a negative errno if there is none. */
static long long read_file(const char *path)
{
	struct file *file = filp_open(path, O_RDONLY, 0);
	loff_t position = 0;
	char text[32] = {};
	long long number;
	ssize_t rc;

	if (IS_ERR(file))
		return PTR_ERR(file);
	rc = kernel_read(file, text, sizeof(text) - 1, &position);
	filp_close(file, NULL);
	if (rc < 0)
		return rc;
	if (text[0] == 'Y' || text[0] == 'N')
		return text[0] == 'Y';
	return kstrtoll(strim(text), 10, &number) ?: number;
}

/* A number that can be set: where, where it goes to, its default and its range. */
struct number {
	const char *path;
	u32 *value, *other;
	u32 standard, least, most;
};

static void expect_range(struct kunit *test, const struct number *is)
{
	char text[24];
	u32 i;

	KUNIT_EXPECT_EQ_MSG(test, read_file(is->path), is->standard, "%s", is->path);
	for (i = 0; i < 2; i++) {
		const u32 good = i ? is->most : is->least;
		const long long bad = i ? (long long)is->most + 1 : (long long)is->least - 1;

		snprintf(text, sizeof(text), "%u\n", good);
		KUNIT_EXPECT_EQ_MSG(test, write_file(is->path, text), strlen(text), "%s", is->path);
		KUNIT_EXPECT_EQ(test, read_file(is->path), good);
		if (is->value)
			KUNIT_EXPECT_EQ(test, *is->value, good);
		if (is->other)
			KUNIT_EXPECT_EQ(test, *is->other, good);
		snprintf(text, sizeof(text), "%lld\n", bad);
		KUNIT_EXPECT_EQ_MSG(test, write_file(is->path, text), -EINVAL, "%s: %lld", is->path, bad);
		KUNIT_EXPECT_EQ(test, read_file(is->path), good);
	}
	KUNIT_EXPECT_EQ_MSG(test, write_file(is->path, "one"), -EINVAL, "%s", is->path);
	snprintf(text, sizeof(text), "%u", is->standard);
	KUNIT_EXPECT_EQ(test, write_file(is->path, text), strlen(text));
	KUNIT_EXPECT_EQ(test, read_file(is->path), is->standard);
}

static void sysctls(struct kunit *test)
{
	struct rpcordma_tunables *client = &rpcordma_tunables;
	struct rpcordma_server_tunables *server = &rpcordma_server_tunables;
	const struct number numbers[] = {
		{ SYSCTL "rdma_slot_table_entries", &client->slot_table_entries, NULL, 128, 4, 16384 },
		{ SYSCTL "rdma_max_inline_read", &client->max_inline_read, NULL, 4096, 1024, 65536 },
		{ SYSCTL "rdma_max_inline_write", &client->max_inline_write, NULL, 4096, 1024, 65536 },
		{ SYSCTL "rdma_inline_write_padding", NULL, NULL, 0, 0, PAGE_SIZE },
		{ SYSCTL "rdma_memreg_strategy", NULL, NULL, 5, 0, 6 },
		{ SYSCTL "svc_rdma/max_requests", &server->max_requests, NULL, 64, 4, 16384 },
		{ SYSCTL "svc_rdma/max_req_size", &server->max_req_size, NULL, 4096, 4096, 65536 },
		{ SYSCTL "svc_rdma/max_outbound_read_requests", &server->max_outbound_read_requests,
		  NULL, 16, 1, 255 },
		{ SYSCTL "svc_rdma/rdma_stat_rq_starve", NULL, NULL, 0, 0, 0 },
		{ SYSCTL "svc_rdma/rdma_stat_sq_prod", NULL, NULL, 0, 0, 0 },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		expect_range(test, &numbers[i]);
	/* Has no range. */
	KUNIT_EXPECT_EQ(test, read_file(SYSCTL "rdma_pad_optimize"), 0);
}

static void parameters(struct kunit *test)
{
	struct rpcordma_tunables *client = &rpcordma_tunables;
	struct rpcordma_server_tunables *server = &rpcordma_server_tunables;
	const struct number numbers[] = {
		{ PARAMETER "version2", &client->version2, &server->version2, 1, 0, 2 },
		{ PARAMETER "version2_pages", &client->version2_pages, &server->version2_pages, 4, 0, 16 },
		{ PARAMETER "version2_rtr", &client->version2_rtr, &server->version2_rtr, 0, 0, 7 },
		{ PARAMETER "send_write_max", &client->send_write_max, NULL, 0, 0, 262144 },
		{ PARAMETER "send_read_max", &client->send_read_max, NULL, 0, 0, 262144 },
		{ PARAMETER "eager_read_bytes", &server->eager_read_bytes, NULL, 0, 0, U32_MAX },
		{ PARAMETER "server_rnr_retry_count", &server->rnr_retry_count, NULL, 7, 0, 7 },
		{ PARAMETER "server_accept_queue", &rpcordma_svc_accept_queue, NULL, 1024, 1, 65536 },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		expect_range(test, &numbers[i]);
	KUNIT_EXPECT_EQ(test, read_file(PARAMETER "version2_receive_bytes"), 0);
	KUNIT_EXPECT_EQ(test, write_file(PARAMETER "version2_receive_bytes", "4294967296"), 10);
	KUNIT_EXPECT_EQ(test, server->version2_receive_bytes, 1UL << 32);
	KUNIT_EXPECT_EQ(test, write_file(PARAMETER "version2_receive_bytes", "-1"), -EINVAL);
	KUNIT_EXPECT_EQ(test, server->version2_receive_bytes, 1UL << 32);
	KUNIT_EXPECT_EQ(test, write_file(PARAMETER "version2_receive_bytes", "0"), 1);
}

static void a_switch(struct kunit *test)
{
	static const char *const on[] = { "Y", "y", "1", "on", "on\n" }, *const off[] = { "N", "n", "0", "off", "off\n" };
	static const char *const neither[] = { "yes", "no", "nein", "2", "onn", "o", "" };
	const char *path = PARAMETER "scratch_remap";
	u32 i;

	KUNIT_EXPECT_EQ(test, read_file(path), 0);
	for (i = 0; i < ARRAY_SIZE(on); i++) {
		KUNIT_EXPECT_EQ(test, write_file(path, on[i]), strlen(on[i]));
		KUNIT_EXPECT_EQ(test, read_file(path), 1);
		KUNIT_EXPECT_TRUE(test, rpcordma_tunables.scratch_remap);
		KUNIT_EXPECT_EQ(test, write_file(path, off[i]), strlen(off[i]));
		KUNIT_EXPECT_EQ(test, read_file(path), 0);
		KUNIT_EXPECT_FALSE(test, rpcordma_tunables.scratch_remap);
	}
	for (i = 0; i < ARRAY_SIZE(neither) - 1; i++) {
		KUNIT_EXPECT_EQ_MSG(test, write_file(path, neither[i]), -EINVAL, "%s", neither[i]);
		KUNIT_EXPECT_EQ(test, read_file(path), 0);
	}
}

static void counters(struct kunit *test)
{
	static const struct {
		const char *path;
		enum rpcordma_server_counter which;
	} shown[] = {
		{ SYSCTL "svc_rdma/rdma_stat_read", RPCORDMA_SERVER_READ },
		{ SYSCTL "svc_rdma/rdma_stat_recv", RPCORDMA_SERVER_RECV },
		{ SYSCTL "svc_rdma/rdma_stat_write", RPCORDMA_SERVER_WRITE },
		{ SYSCTL "svc_rdma/rdma_stat_sq_starve", RPCORDMA_SERVER_SQ_STARVE },
	};
	u32 i, j;

	for (i = 0; i < RPCORDMA_SERVER_COUNTERS; i++) {
		KUNIT_EXPECT_EQ(test, rpcordma_svc_counter(i), 0);
		rpcordma_server_count(i, i + 1);
		rpcordma_server_count(i, 1000);
	}
	for (i = 0; i < RPCORDMA_SERVER_COUNTERS; i++)
		KUNIT_EXPECT_EQ(test, rpcordma_svc_counter(i), i + 1001);
	for (i = 0; i < ARRAY_SIZE(shown); i++) {
		KUNIT_EXPECT_EQ(test, read_file(shown[i].path), shown[i].which + 1001);
		/* Whatever is written, it begins anew, and no other does. */
		KUNIT_EXPECT_EQ(test, write_file(shown[i].path, "17\n"), 3);
		KUNIT_EXPECT_EQ(test, read_file(shown[i].path), 0);
		rpcordma_server_count(shown[i].which, 5);
		KUNIT_EXPECT_EQ(test, read_file(shown[i].path), 5);
		for (j = i + 1; j < ARRAY_SIZE(shown); j++)
			KUNIT_EXPECT_EQ(test, read_file(shown[j].path), shown[j].which + 1001);
	}
	KUNIT_EXPECT_EQ(test, rpcordma_svc_refused(), 0);
}

static struct svc_rqst *make_thread(struct kunit *test)
{
	struct svc_rqst *rqst = kunit_kzalloc(test, sizeof(*rqst), GFP_KERNEL);
	struct page **pages = test_neighbours(test, 10);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, rqst);
	for (i = 0; i < 10; i++)
		rqst->rq_pages[i] = pages[i];
	rqst->rq_respages = rqst->rq_pages;
	return rqst;
}

static void a_call(struct kunit *test)
{
	struct rpcordma_server_call *call = (struct rpcordma_server_call *)0x10;
	struct svc_xprt *xprt = kunit_kzalloc(test, sizeof(*xprt), GFP_KERNEL);
	struct svc_rqst *rqst = make_thread(test);
	struct page *elsewhere[2] = {};
	struct rpcordma_svc_arg arg = {
		.head = rqst, .head_length = 100, .page_length = 5000, .tail = xprt, .tail_length = 7,
		.pages_used = 2,
	};

	KUNIT_ASSERT_NOT_NULL(test, xprt);
	xprt->xpt_remotelen = 16;
	xprt->xpt_remote.ss_family = AF_INET;
	rpcordma_svc_set_arg(rqst, xprt, call, &arg);
	KUNIT_EXPECT_PTR_EQ(test, rqst->rq_xprt_ctxt, (void *)call);
	KUNIT_EXPECT_EQ(test, rqst->rq_addrlen, 16);
	KUNIT_EXPECT_EQ(test, rqst->rq_addr.ss_family, AF_INET);
	KUNIT_EXPECT_TRUE(test, test_bit(RQ_SECURE, &rqst->rq_flags));
	KUNIT_EXPECT_EQ(test, rqst->rq_prot, IPPROTO_MAX);
	KUNIT_EXPECT_PTR_EQ(test, rqst->rq_arg.head[0].iov_base, arg.head);
	KUNIT_EXPECT_EQ(test, rqst->rq_arg.head[0].iov_len, 100);
	KUNIT_EXPECT_PTR_EQ(test, rqst->rq_arg.pages, &rqst->rq_pages[0]);
	KUNIT_EXPECT_EQ(test, rqst->rq_arg.page_len, 5000);
	KUNIT_EXPECT_EQ(test, rqst->rq_arg.tail[0].iov_len, 7);
	KUNIT_EXPECT_EQ(test, rqst->rq_arg.len, 5107);
	KUNIT_EXPECT_EQ(test, rqst->rq_arg.buflen, 5107);
#ifndef HAVE_SVC_RQST_REPLY_PAGES
	KUNIT_EXPECT_PTR_EQ(test, rqst->rq_respages, &rqst->rq_pages[2]);
#endif
	KUNIT_EXPECT_PTR_EQ(test, rqst->rq_next_page, rqst->rq_respages + 1);
	KUNIT_EXPECT_EQ(test, rpcordma_svc_reply_pages(rqst), 1);

	/* The first page is the head. */
	arg.head = NULL;
	rpcordma_svc_set_arg(rqst, xprt, call, &arg);
	KUNIT_EXPECT_PTR_EQ(test, rqst->rq_arg.head[0].iov_base, page_address(rqst->rq_pages[0]));
	KUNIT_EXPECT_PTR_EQ(test, rqst->rq_arg.pages, &rqst->rq_pages[1]);
	arg.pages = elsewhere;
	rpcordma_svc_set_arg(rqst, xprt, call, &arg);
	KUNIT_EXPECT_PTR_EQ(test, rqst->rq_arg.pages, &elsewhere[0]);
	KUNIT_EXPECT_PTR_EQ(test, (void *)rpcordma_svc_reply(rqst), (void *)&rqst->rq_res);
}

static void pages_of_a_thread(struct kunit *test)
{
	struct svc_rqst *rqst = make_thread(test);
	struct page *mine[4] = { NULL, (struct page *)0x20, (struct page *)0x30, (struct page *)0x40 };
	struct page *had[10];
	u8 *text = kunit_kmalloc(test, 5000, GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, text);
	memcpy(had, rqst->rq_pages, sizeof(had));
	rqst->rq_pages[1] = NULL;
	rpcordma_svc_swap_pages(rqst, mine, 3);
	KUNIT_EXPECT_NULL(test, rqst->rq_pages[0]);
	KUNIT_EXPECT_PTR_EQ(test, rqst->rq_pages[1], (struct page *)0x20);
	KUNIT_EXPECT_PTR_EQ(test, rqst->rq_pages[2], (struct page *)0x30);
	KUNIT_EXPECT_PTR_EQ(test, rqst->rq_pages[3], had[3]);
	KUNIT_EXPECT_PTR_EQ(test, mine[0], had[0]);
	KUNIT_EXPECT_NULL(test, mine[1]);
	KUNIT_EXPECT_PTR_EQ(test, mine[2], had[2]);
	KUNIT_EXPECT_PTR_EQ(test, mine[3], (struct page *)0x40);

	memcpy(rqst->rq_pages, had, sizeof(had));
	memset(text, 0x77, 5000);
	rpcordma_svc_write_pages(rqst, 4000, text, 5000);
	KUNIT_EXPECT_NULL(test, memchr_inv(page_address(had[0]) + 4000, 0x77, 5000));
	KUNIT_EXPECT_EQ(test, ((u8 *)page_address(had[0]))[3999], test_byte(3999));
	KUNIT_EXPECT_EQ(test, ((u8 *)page_address(had[0]))[9000], test_byte(9000));

	rpcordma_svc_lend_pages(rqst, mine, 4);
	for (i = 0; i < 10; i++) {
		if (i < 4)
			KUNIT_EXPECT_PTR_EQ(test, mine[i], had[i]);
		KUNIT_EXPECT_PTR_EQ(test, rqst->rq_pages[i], i < 4 ? NULL : had[i]);
	}
}

static void reply_of_a_thread(struct kunit *test)
{
	struct svc_rqst *rqst = make_thread(test);
	struct page *taken[4] = {};
	struct page **first = &rqst->rq_pages[3];

	rqst->rq_respages = first;
	rqst->rq_next_page = first + 3;
	KUNIT_EXPECT_EQ(test, rpcordma_svc_reply_pages(rqst), 3);
	KUNIT_EXPECT_EQ(test, rpcordma_svc_take_reply_pages(rqst, taken, 2), 0);
	KUNIT_EXPECT_NULL(test, taken[0]);
	KUNIT_EXPECT_NOT_NULL(test, *first);
	KUNIT_EXPECT_EQ(test, rpcordma_svc_take_reply_pages(rqst, taken, 3), 3);
	KUNIT_EXPECT_NULL(test, first[0]);
	KUNIT_EXPECT_NULL(test, first[2]);
	KUNIT_EXPECT_NOT_NULL(test, first[3]);
	KUNIT_EXPECT_PTR_EQ(test, taken[2], taken[0] + 2);
	KUNIT_EXPECT_NULL(test, taken[3]);
#ifndef HAVE_SVC_RQST_REPLY_PAGES
	/* None of them belongs to a reply any more. */
	KUNIT_EXPECT_EQ(test, rpcordma_svc_reply_pages(rqst), 0);
#endif
}

/* What seals a reply may begin a page behind those that the service has counted; the thread's others stay its own. */
static void sealed_reply(struct kunit *test)
{
	u32 base, length;

	for (base = 0; base < PAGE_SIZE; base += PAGE_SIZE - 4)
		for (length = 0; length <= 2 * PAGE_SIZE + 4; length += length % PAGE_SIZE ? PAGE_SIZE - 4 : 4) {
			struct svc_rqst *rqst = make_thread(test);
			struct page *taken[8] = {};
			struct page **first = &rqst->rq_pages[3];
			const u32 in_pages = length ? DIV_ROUND_UP(base + length, PAGE_SIZE) : 0;
			const u32 count = max(2u, 1 + in_pages);

			rqst->rq_respages = first;
			rqst->rq_next_page = first + 2;
			rqst->rq_page_end = first + 5;
			rqst->rq_res.pages = length ? first + 1 : NULL;
			rqst->rq_res.page_base = base;
			rqst->rq_res.page_len = length;
			KUNIT_EXPECT_EQ_MSG(test, rpcordma_svc_reply_pages(rqst), count, "%u at %u", length, base);
			KUNIT_EXPECT_EQ(test, rpcordma_svc_take_reply_pages(rqst, taken, 8), count);
			KUNIT_EXPECT_NULL(test, first[count - 1]);
			KUNIT_EXPECT_NOT_NULL(test, first[count]);
			KUNIT_EXPECT_NOT_NULL(test, taken[count - 1]);
			/* sunrpc fills the gap. */
			KUNIT_EXPECT_PTR_EQ(test, rqst->rq_next_page, first + count);
		}
}

static void flavours(struct kunit *test)
{
	struct svc_rqst *rqst = make_thread(test);
	static const u32 direct[] = { RPC_AUTH_NULL, RPC_AUTH_UNIX, RPC_AUTH_GSS_KRB5 };
	static const u32 not[] = { RPC_AUTH_GSS_KRB5I, RPC_AUTH_GSS_KRB5P, RPC_AUTH_GSS_LKEY, RPC_AUTH_MAXFLAVOR + 1 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(direct); i++) {
		rqst->rq_cred.cr_flavor = direct[i];
		KUNIT_EXPECT_TRUE(test, rpcordma_svc_ddp_allowed(rqst));
	}
	for (i = 0; i < ARRAY_SIZE(not); i++) {
		rqst->rq_cred.cr_flavor = not[i];
		KUNIT_EXPECT_FALSE(test, rpcordma_svc_ddp_allowed(rqst));
	}
}

static void addresses(struct kunit *test)
{
	struct svc_xprt *xprt = kunit_kzalloc(test, sizeof(*xprt), GFP_KERNEL);
	struct sockaddr_in *v4 = (struct sockaddr_in *)&xprt->xpt_remote;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&xprt->xpt_remote;
	u64 key, other;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, xprt);
	*v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000105), .sin_port = 1 };
	KUNIT_EXPECT_EQ(test, rpcordma_svc_address_key(xprt), 0x0a000105);
	*v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	key = rpcordma_svc_address_key(xprt);
	v6->sin6_port = 1;
	KUNIT_EXPECT_EQ(test, rpcordma_svc_address_key(xprt), key);
	v6->sin6_scope_id = 1;
	other = rpcordma_svc_address_key(xprt);
	KUNIT_EXPECT_NE(test, other, key);
	v6->sin6_scope_id = 0;
	for (i = 0; i < 128; i++) {
		v6->sin6_addr.s6_addr[i / 8] ^= 1 << i % 8;
		other = rpcordma_svc_address_key(xprt);
		KUNIT_EXPECT_NE(test, lower_32_bits(other), lower_32_bits(key));
		KUNIT_EXPECT_NE(test, upper_32_bits(other), upper_32_bits(key));
		v6->sin6_addr.s6_addr[i / 8] ^= 1 << i % 8;
	}
}

static void a_transport(struct kunit *test)
{
	struct svc_xprt *xprt = kunit_kzalloc(test, sizeof(*xprt), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, xprt);
	KUNIT_EXPECT_FALSE(test, rpcordma_svc_is_dead(xprt));
	set_bit(XPT_CLOSE, &xprt->xpt_flags);
	KUNIT_EXPECT_TRUE(test, rpcordma_svc_is_dead(xprt));
	xprt->xpt_flags = 0;
	rpcordma_svc_set_data(xprt);
	KUNIT_EXPECT_EQ(test, xprt->xpt_flags, BIT(XPT_DATA));
	rpcordma_svc_clear_data(xprt);
	KUNIT_EXPECT_EQ(test, xprt->xpt_flags, 0);
	/* Of a dead one nothing is touched: its service may be gone. */
	set_bit(XPT_DEAD, &xprt->xpt_flags);
	KUNIT_EXPECT_TRUE(test, rpcordma_svc_is_dead(xprt));
	rpcordma_svc_close(xprt);
	rpcordma_svc_enqueue(xprt);
	KUNIT_EXPECT_EQ(test, xprt->xpt_flags, BIT(XPT_DEAD));
}

static void an_empty_queue(struct kunit *test)
{
	struct sockaddr_in remote = { .sin_family = AF_INET };
	struct rpcordma_accept_queue queue;

	rpcordma_accept_queue_init(&queue);
	KUNIT_EXPECT_NULL(test, rpcordma_accept_queue_full(&queue, (struct sockaddr *)&remote, 1));
	KUNIT_EXPECT_NULL(test, rpcordma_accept_queue_accept(&queue));
	rpcordma_accept_queue_drain(&queue);
	/* As many as may wait, and none of this one's. */
	queue.length = 1024;
	KUNIT_EXPECT_NOT_NULL(test, rpcordma_accept_queue_full(&queue, (struct sockaddr *)&remote, 1024));
	KUNIT_EXPECT_NULL(test, rpcordma_accept_queue_full(&queue, (struct sockaddr *)&remote, 1025));
	KUNIT_EXPECT_FALSE(test, rpcordma_connections_disconnect(0));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(sysctls),
	KUNIT_CASE(parameters),
	KUNIT_CASE(a_switch),
	KUNIT_CASE(counters),
	KUNIT_CASE(a_call),
	KUNIT_CASE(pages_of_a_thread),
	KUNIT_CASE(reply_of_a_thread),
	KUNIT_CASE(sealed_reply),
	KUNIT_CASE(flavours),
	KUNIT_CASE(addresses),
	KUNIT_CASE(a_transport),
	KUNIT_CASE(an_empty_queue),
	{},
};

static struct kunit_suite suite = {
	.name = "compat_svc",
	.test_cases = cases,
};

kunit_test_suite(suite);
