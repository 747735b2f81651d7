// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit suite of compat/linux/backchannel.c: what is queued for a callback service, and comes back. The transports are real
 * ones, which no connection was made for.
 */
#include <kunit/test.h>
#include <linux/cred.h>
#include <linux/in.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/svc.h>
#include <linux/sunrpc/xprt.h>
#include <net/net_namespace.h>

#include "compat/linux/transport.h"
#include "compat/port/port.h"

#if defined(CONFIG_SUNRPC_BACKCHANNEL) && defined(HAVE_BC_LIST_LWQ) && !defined(HAVE_BC_SERVICE_GIVES_BACK)

#define CALLS 6

static const struct rpc_version version = { .number = 4 };
static const struct rpc_version *versions[] = { NULL, NULL, NULL, NULL, &version };
static struct rpc_stat stats;
static const struct rpc_program program = {
	.name = "backchannel",
	.number = 100003,
	.nrvers = ARRAY_SIZE(versions),
	.version = versions,
	.stats = &stats,
};

struct bed {
	struct svc_pool pool;
	struct svc_serv service;
	struct svc_rqst idle; /* a thread without work */
	struct rpc_clnt *clients[2];
	struct rpc_rqst *rqsts[CALLS]; /* by turns of the one and of the other client's transport */
};

static void shut_down(void *client)
{
	rpc_shutdown_client(client);
}

static struct rpc_xprt *transport(const struct bed *bed, unsigned int of)
{
	return rcu_access_pointer(bed->clients[of]->cl_xprt);
}

static struct bed *make_bed(struct kunit *test)
{
	struct bed *bed = kunit_kzalloc(test, sizeof(*bed), GFP_KERNEL);
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(20049),
	};
	struct rpc_create_args args = {
		.net = &init_net,
		.protocol = XPRT_TRANSPORT_RDMA,
		.address = (struct sockaddr *)&address,
		.addrsize = sizeof(address),
		.servername = "nobody",
		.program = &program,
		.version = 4,
		.authflavor = RPC_AUTH_NULL,
		.flags = RPC_CLNT_CREATE_NOPING,
		.cred = current_cred(),
	};
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, bed);
	lwq_init(&bed->service.sv_cb_list);
	bed->service.sv_pools = &bed->pool;
	bed->idle.rq_task = current;
	llist_add(&bed->idle.rq_idle, &bed->pool.sp_idle_threads);
	for (i = 0; i < ARRAY_SIZE(bed->clients); i++) {
		bed->clients[i] = rpc_create(&args);
		KUNIT_ASSERT_FALSE(test, IS_ERR(bed->clients[i]));
		KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, shut_down, bed->clients[i]), 0);
		transport(bed, i)->bc_serv = &bed->service;
	}
	return bed;
}

/* Queue @count calls, which have references to their transports. */
static void submit(struct kunit *test, struct bed *bed, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		struct rpc_xprt *xprt = transport(bed, i % 2);

		bed->rqsts[i] = rpcordma_rqst_create(xprt);
		KUNIT_ASSERT_NOT_NULL(test, bed->rqsts[i]);
		rpcordma_bc_rqst_init(bed->rqsts[i], xprt, bed, 0);
		KUNIT_ASSERT_TRUE(test, rpcordma_bc_rqst_submit(bed->rqsts[i], i, bed, 0));
	}
}

static unsigned int references(const struct bed *bed, unsigned int of)
{
	return kref_read(&transport(bed, of)->kref);
}

/* What of one transport's is queued comes back; another's stays, in order, and a thread is told. */
static void last_session(struct kunit *test)
{
	struct bed *bed = make_bed(test);
	const unsigned int had[] = { references(bed, 0), references(bed, 1) };
	unsigned int i;

	/* Nothing is there; */
	rpcordma_bc_take_back(transport(bed, 0));
	KUNIT_EXPECT_EQ(test, bed->idle.rq_qtime, 0);
	submit(test, bed, CALLS);
	KUNIT_EXPECT_EQ(test, references(bed, 0), had[0] + CALLS / 2);
	KUNIT_EXPECT_EQ(test, atomic_read(&transport(bed, 0)->bc_slot_count), CALLS / 2);
	bed->idle.rq_qtime = 0;

	rpcordma_bc_take_back(transport(bed, 0));
	KUNIT_EXPECT_EQ(test, references(bed, 0), had[0]);
	KUNIT_EXPECT_EQ(test, atomic_read(&transport(bed, 0)->bc_slot_count), 0);
	KUNIT_EXPECT_EQ(test, references(bed, 1), had[1] + CALLS / 2);
	KUNIT_EXPECT_EQ(test, atomic_read(&transport(bed, 1)->bc_slot_count), CALLS / 2);
	KUNIT_EXPECT_NE(test, bed->idle.rq_qtime, 0);
	for (i = 1; i < CALLS; i += 2) {
		struct rpc_rqst *rqst = lwq_dequeue(&bed->service.sv_cb_list, struct rpc_rqst, rq_bc_list);

		KUNIT_ASSERT_PTR_EQ(test, rqst, bed->rqsts[i]);
		atomic_dec(&rqst->rq_xprt->bc_slot_count);
		rpcordma_bc_rqst_done(rqst->rq_xprt);
	}
	KUNIT_EXPECT_TRUE(test, lwq_empty(&bed->service.sv_cb_list));

	/* or only one's own: then nobody is told. */
	for (i = 0; i < CALLS; i++)
		rpcordma_rqst_destroy(bed->rqsts[i]);
	submit(test, bed, 1);
	bed->idle.rq_qtime = 0;
	rpcordma_bc_take_back(transport(bed, 0));
	KUNIT_EXPECT_EQ(test, references(bed, 0), had[0]);
	KUNIT_EXPECT_EQ(test, bed->idle.rq_qtime, 0);
	KUNIT_EXPECT_TRUE(test, lwq_empty(&bed->service.sv_cb_list));
	rpcordma_rqst_destroy(bed->rqsts[0]);

	/* With nothing queued a service is not looked at: it may be gone, where its threads could not be started. */
	transport(bed, 0)->bc_serv = (struct svc_serv *)8;
	rpcordma_bc_take_back(transport(bed, 0));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(last_session),
	{},
};

static struct kunit_suite suite = {
	.name = "compat_backchannel",
	.test_cases = cases,
};

kunit_test_suite(suite);

#endif
