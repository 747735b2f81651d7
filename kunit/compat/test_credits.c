// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit suite of compat/linux/credits.c, and of the addresses and counters that a transport shows (xprt.c).
 */
#include <kunit/test.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/jiffies.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sunrpc/sched.h>
#include <linux/sunrpc/xprt.h>
#include <net/net_namespace.h>

#include "compat/linux/transport.h"
#include "compat/port/port.h"
#include "kunit/compat/engine.h"

static void free_transport(void *xprt)
{
	xprt_free(xprt);
}

/* As sunrpc makes one, without the core's half. */
static struct rpcordma_transport *make_transport(struct kunit *test)
{
	struct rpc_xprt *xprt = xprt_alloc(&init_net, sizeof(struct rpcordma_transport), 0, 4);

	KUNIT_ASSERT_NOT_NULL(test, xprt);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_transport, xprt), 0);
	to_transport(xprt)->nudge.rq_xprt = xprt;
	return to_transport(xprt);
}

static unsigned long credits_of(unsigned long window)
{
	KUNIT_EXPECT_EQ(current->kunit_test, window % RPC_CWNDSCALE, 0);
	return window / RPC_CWNDSCALE;
}

static void window(struct kunit *test)
{
	struct rpcordma_transport *transport = make_transport(test);
	struct rpc_xprt *xprt = &transport->xprt;

	xprt->cong = 3 * RPC_CWNDSCALE;
	rpcordma_xprt_set_credits(xprt, 7);
	KUNIT_EXPECT_EQ(test, credits_of(xprt->cwnd), 7);
	KUNIT_EXPECT_EQ(test, credits_of(xprt->cong), 3);
	/* Who waits is woken when it grows, for nothing: no credit is counted for that. */
	set_bit(XPRT_CWND_WAIT, &xprt->state);
	rpcordma_xprt_set_credits(xprt, 9);
	KUNIT_EXPECT_EQ(test, credits_of(xprt->cwnd), 9);
	KUNIT_EXPECT_EQ(test, credits_of(xprt->cong), 3);
	/* xprt_release_rqst_cong() of the one that was counted. */
	KUNIT_EXPECT_FALSE(test, test_bit(XPRT_CWND_WAIT, &xprt->state));
	set_bit(XPRT_CWND_WAIT, &xprt->state);
	rpcordma_xprt_set_credits(xprt, 2);
	KUNIT_EXPECT_EQ(test, credits_of(xprt->cwnd), 2);
	KUNIT_EXPECT_TRUE(test, test_bit(XPRT_CWND_WAIT, &xprt->state));
	rpcordma_xprt_reset_credits(xprt, 5);
	KUNIT_EXPECT_EQ(test, credits_of(xprt->cwnd), 5);
	KUNIT_EXPECT_EQ(test, xprt->cong, 0);
}

static void more_credits(struct kunit *test)
{
	struct rpcordma_transport *transport = make_transport(test);
	struct rpc_xprt *xprt = &transport->xprt;
	u32 cwnd, used, share, more;

	for (cwnd = 1; cwnd <= 12; cwnd++) {
		for (used = 0; used <= cwnd; used++) {
			for (share = 0; share <= 4; share++) {
				const u32 kept = share ? (cwnd + share - 1) / share : 0;

				for (more = 1; more <= cwnd + 1; more++) {
					const bool room = used + more + kept <= cwnd;

					rpcordma_xprt_reset_credits(xprt, cwnd);
					xprt->cong = used * RPC_CWNDSCALE;
					KUNIT_EXPECT_EQ(test,
							rpcordma_xprt_take_credits(xprt, more, share),
							room);
					KUNIT_EXPECT_EQ(test, credits_of(xprt->cong),
							used + (room ? more : 0));
					if (!room)
						continue;
					set_bit(XPRT_CWND_WAIT, &xprt->state);
					rpcordma_xprt_return_credits(xprt, more);
					KUNIT_EXPECT_EQ(test, credits_of(xprt->cong), used);
					KUNIT_EXPECT_FALSE(test, test_bit(XPRT_CWND_WAIT, &xprt->state));
				}
			}
		}
	}
}

static void credit_of_a_request(struct kunit *test)
{
	struct rpcordma_transport *transport = make_transport(test);
	struct rpc_xprt *xprt = &transport->xprt;
	struct rpc_rqst rqst = { .rq_cong = 1 };

	rpcordma_xprt_reset_credits(xprt, 4);
	xprt->cong = 2 * RPC_CWNDSCALE;
	/* sunrpc may have zeroed its transport, and a task that is gone stands there. */
	rqst.rq_task = (struct rpc_task *)0x1;
	rpcordma_xprt_return_credit(xprt, &rqst);
	KUNIT_EXPECT_EQ(test, credits_of(xprt->cong), 1);
	KUNIT_EXPECT_EQ(test, rqst.rq_cong, 0);
	KUNIT_EXPECT_NULL(test, rqst.rq_task);
	/* It has none any more. */
	rpcordma_xprt_return_credit(xprt, &rqst);
	KUNIT_EXPECT_EQ(test, credits_of(xprt->cong), 1);
	rqst.rq_cong = 1;
	rpcordma_rqst_forget_credit(&rqst);
	KUNIT_EXPECT_EQ(test, rqst.rq_cong, 0);
	KUNIT_EXPECT_EQ(test, credits_of(xprt->cong), 1);
	rqst.rq_xprt = NULL;
	rpcordma_rqst_forget_credit(&rqst);
}

static void small_things(struct kunit *test)
{
	struct rpcordma_transport *transport = make_transport(test);
	struct rpc_xprt *xprt = &transport->xprt;

	xprt->reestablish_timeout = 5 * HZ;
	rpcordma_xprt_conversed(xprt);
	KUNIT_EXPECT_EQ(test, xprt->reestablish_timeout, 0);
	xprt->connect_timeout = msecs_to_jiffies(500);
	KUNIT_EXPECT_EQ(test, rpcordma_xprt_connect_limit_ms(xprt), 1000);
	xprt->connect_timeout = msecs_to_jiffies(7000);
	KUNIT_EXPECT_EQ(test, rpcordma_xprt_connect_limit_ms(xprt), 7000);
	xprt->connect_timeout = msecs_to_jiffies(61000);
	KUNIT_EXPECT_EQ(test, rpcordma_xprt_connect_limit_ms(xprt), 60000);
	rpcordma_xprt_set_max_payload(xprt, 12345);
	KUNIT_EXPECT_EQ(test, xprt->max_payload, 12345);
	KUNIT_EXPECT_FALSE(test, rpcordma_xprt_has_backlog(xprt));
	set_bit(XPRT_CONGESTED, &xprt->state);
	KUNIT_EXPECT_TRUE(test, rpcordma_xprt_has_backlog(xprt));
	clear_bit(XPRT_CONGESTED, &xprt->state);
	KUNIT_EXPECT_PTR_EQ(test, rpcordma_xprt_peer(xprt), (const struct rpcordma_peer *)&transport->peer);
	xprt->connect_cookie = 8;
	xprt_set_connected(xprt);
	rpcordma_xprt_closed(xprt);
	KUNIT_EXPECT_EQ(test, xprt->connect_cookie, 9);
	KUNIT_EXPECT_FALSE(test, xprt_connected(xprt));
}

static void peers(struct kunit *test)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(20049), .sin_addr.s_addr = htonl(0x0a000001) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_scope_id = 7, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct rpcordma_peer peer;

	rpcordma_peer_set(&peer, (struct sockaddr *)&v4);
	KUNIT_EXPECT_MEMEQ(test, &peer.v4, &v4, sizeof(v4));
	rpcordma_peer_set(&peer, (struct sockaddr *)&v6);
	KUNIT_EXPECT_MEMEQ(test, &peer.v6, &v6, sizeof(v6));
}

static void clear_names(struct rpc_xprt *xprt)
{
	rpcordma_free_addresses(xprt);
	memset(xprt->address_strings, 0, sizeof(xprt->address_strings));
}

static void names(struct kunit *test)
{
	static const char *const calls[] = { "kasprintf", "kstrdup" };
	struct rpc_xprt *xprt = &make_transport(test)->xprt;
	struct rpcordma_port_text port;
	struct sockaddr_in *v4 = (struct sockaddr_in *)&xprt->addr;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&xprt->addr;
	u32 i;

	*v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(20049), .sin_addr.s_addr = htonl(0x0a00010f) };
	KUNIT_EXPECT_EQ(test, rpcordma_format_addresses(xprt, &port), 0);
	KUNIT_EXPECT_STREQ(test, xprt->address_strings[RPC_DISPLAY_ADDR], "10.0.1.15");
	KUNIT_EXPECT_STREQ(test, xprt->address_strings[RPC_DISPLAY_PORT], "20049");
	KUNIT_EXPECT_STREQ(test, xprt->address_strings[RPC_DISPLAY_PROTO], "rdma");
	KUNIT_EXPECT_STREQ(test, xprt->address_strings[RPC_DISPLAY_HEX_ADDR], "0a00010f");
	KUNIT_EXPECT_STREQ(test, xprt->address_strings[RPC_DISPLAY_HEX_PORT], "4e51");
	KUNIT_EXPECT_STREQ(test, xprt->address_strings[RPC_DISPLAY_NETID], "rdma");
	clear_names(xprt);

	/* Whichever is missing: an error, and all can be freed. */
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		rpcordma_fault_arm(calls[i], 1);
		KUNIT_EXPECT_EQ(test, rpcordma_format_addresses(xprt, &port), -ENOMEM);
		KUNIT_EXPECT_TRUE(test, rpcordma_fault_hit());
		clear_names(xprt);
	}
	rpcordma_fault_arm(NULL, 0);

	*v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(1), .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	KUNIT_EXPECT_EQ(test, rpcordma_format_addresses(xprt, &port), 0);
	KUNIT_EXPECT_STREQ(test, xprt->address_strings[RPC_DISPLAY_ADDR], "::1");
	KUNIT_EXPECT_STREQ(test, xprt->address_strings[RPC_DISPLAY_HEX_ADDR], "00000000000000000000000000000001");
	KUNIT_EXPECT_STREQ(test, xprt->address_strings[RPC_DISPLAY_NETID], "rdma6");
	clear_names(xprt);

	xprt->addr.ss_family = AF_UNIX;
	KUNIT_EXPECT_EQ(test, rpcordma_format_addresses(xprt, &port), -EAFNOSUPPORT);
	clear_names(xprt);
}

static void the_line_of_mountstats(struct kunit *test)
{
	static const struct rpcordma_client_stats counters = {
		.read_chunk_count = 101, .write_chunk_count = 102, .reply_chunk_count = 103,
		.total_rdma_request = 104, .total_rdma_reply = 105, .pullup_copy_count = 106,
		.fixup_copy_count = 107, .hardway_register_count = 108, .failed_marshal_count = 109,
		.bad_reply_count = 110, .nomsg_call_count = 111, .mrs_recycled = 112,
		.mrs_orphaned = 113, .mrs_allocated = 114, .local_inv_needed = 115,
		.empty_sendctx_q = 116, .bcall_count = 999, .scratch_count = 999,
	};
	struct rpc_xprt *xprt = &make_transport(test)->xprt;
	struct seq_file seq = { .size = 1024 };
	char *number, *rest, *text;
	u32 wanted = 101;

	text = kunit_kzalloc(test, seq.size, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, text);
	seq.buf = text;
	xprt->stat.bind_count = 2;
	xprt->stat.connect_count = 3;
	rpcordma_print_stats(xprt, &counters, &seq);
	KUNIT_EXPECT_FALSE(test, seq_has_overflowed(&seq));
	KUNIT_EXPECT_EQ(test, strncmp(text, "\txprt:\trdma 0 2 3 0 0 ", 22), 0);
	KUNIT_EXPECT_EQ(test, text[seq.count - 1], '\n');
	rest = strstr(text, " 101 ");
	KUNIT_ASSERT_NOT_NULL(test, rest);
	rest++;
	/* Each once, in the order in which tools know them. */
	while ((number = strsep(&rest, "\n ")) && *number) {
		unsigned int is;

		KUNIT_ASSERT_EQ(test, kstrtouint(number, 10, &is), 0);
		/* Behind them is one that is no more. */
		KUNIT_EXPECT_EQ(test, is, wanted < 117 ? wanted : 0);
		wanted++;
	}
	KUNIT_EXPECT_EQ(test, wanted, 118);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(window),
	KUNIT_CASE(more_credits),
	KUNIT_CASE(credit_of_a_request),
	KUNIT_CASE(small_things),
	KUNIT_CASE(peers),
	KUNIT_CASE(names),
	KUNIT_CASE(the_line_of_mountstats),
	{},
};

static struct kunit_suite suite = {
	.name = "compat_credits",
	.test_cases = cases,
};

kunit_test_suite(suite);
