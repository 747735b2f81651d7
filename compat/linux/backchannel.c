// SPDX-License-Identifier: GPL-2.0-only
/*
 * The client's backchannel (RFC 8167): backward calls are handed to the callback service, as
 * requests that it answers. Here are the operations that sunrpc calls, and the functions that the
 * core calls. The core decides which buffer carries what.
 */

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sunrpc/svc.h>
#include <linux/sunrpc/xdr.h>
#include <linux/sunrpc/xprt.h>

#include "compat/linux/transport.h"
#include "compat/port/port.h"

#ifdef CONFIG_SUNRPC_BACKCHANNEL

int rpcordma_bc_setup(struct rpc_xprt *xprt, unsigned int requests)
{
	return rpcordma_core_bc_setup(to_client(xprt), requests);
}

size_t rpcordma_bc_maxpayload(struct rpc_xprt *xprt)
{
	return rpcordma_core_bc_max_payload(to_client(xprt));
}

unsigned int rpcordma_bc_num_slots(struct rpc_xprt *xprt)
{
	return rpcordma_core_bc_slots(to_client(xprt));
}

void rpcordma_bc_free_rqst(struct rpc_rqst *rqst)
{
	rpcordma_core_bc_free(to_client(rqst->rq_xprt), to_call(rqst));
}

void rpcordma_bc_destroy(struct rpc_xprt *xprt, unsigned int requests)
{
	rpcordma_core_bc_destroy(to_client(xprt), requests);
}

rpcordma_bool rpcordma_xprt_has_bc_service(struct rpc_xprt *xprt)
{
	return READ_ONCE(xprt->bc_serv);
}

void rpcordma_bc_rqst_init(struct rpc_rqst *rqst, struct rpc_xprt *xprt, void *reply_buffer,
			   rpcordma_u32 reply_size)
{
	rqst->rq_xprt = xprt;
	/* Makes sunrpc return the request by bc_free_rqst(). */
	__set_bit(RPC_BC_PA_IN_USE, &rqst->rq_bc_pa_state);
	xdr_buf_init(&rqst->rq_snd_buf, reply_buffer, reply_size);
}

static void wake(struct svc_serv *serv)
{
#ifdef HAVE_SVC_POOL_WAKE_IDLE_THREAD
	svc_pool_wake_idle_thread(&serv->sv_pools[0]);
#else
	wake_up(&serv->sv_cb_waitq);
#endif
}

static void enqueue(struct svc_serv *serv, struct rpc_rqst *rqst)
{
#ifdef HAVE_BC_LIST_LWQ
	lwq_enqueue(&rqst->rq_bc_list, &serv->sv_cb_list);
#else
	spin_lock(&serv->sv_cb_lock);
	list_add_tail(&rqst->rq_bc_list, &serv->sv_cb_list);
	spin_unlock(&serv->sv_cb_lock);
#endif
	wake(serv);
}

#ifdef HAVE_BC_SERVICE_GIVES_BACK

void rpcordma_bc_take_back(struct rpc_xprt *xprt)
{
}

#else

/* Its service has not begun with @rqst, and does not see it any more. */
static void give_back(struct rpc_rqst *rqst)
{
	atomic_dec(&rqst->rq_xprt->bc_slot_count);
	rpcordma_bc_free_rqst(rqst);
}

#ifdef HAVE_BC_LIST_LWQ

/* What one has taken off a queue, with others' among it, nobody else finds there meanwhile. */
static DEFINE_MUTEX(taking_back);

static void take_back(struct svc_serv *serv, struct rpc_xprt *xprt)
{
	struct llist_node *all, **at, *next;
	struct rpc_rqst *rqst;

	mutex_lock(&taking_back);
	all = lwq_dequeue_all(&serv->sv_cb_list);
	/* Null takes one off the list, before it may be another one's. */
	lwq_for_each_safe(rqst, at, next, &all, rq_bc_list)
		if (rqst->rq_xprt == xprt) {
			give_back(rqst);
			rqst = NULL;
		}
	if (all) {
		lwq_enqueue_batch(all, &serv->sv_cb_list);
		wake(serv);
	}
	mutex_unlock(&taking_back);
}

#else

static void take_back(struct svc_serv *serv, struct rpc_xprt *xprt)
{
	struct rpc_rqst *rqst, *next;
	LIST_HEAD(own);

	spin_lock(&serv->sv_cb_lock);
	list_for_each_entry_safe(rqst, next, &serv->sv_cb_list, rq_bc_list)
		if (rqst->rq_xprt == xprt)
			list_move_tail(&rqst->rq_bc_list, &own);
	spin_unlock(&serv->sv_cb_lock);
	list_for_each_entry_safe(rqst, next, &own, rq_bc_list)
		give_back(rqst);
}

#endif

void rpcordma_bc_take_back(struct rpc_xprt *xprt)
{
	struct svc_serv *serv = READ_ONCE(xprt->bc_serv);

	/*
	 * What is queued, or served, was handed to a service with threads, which goes after the last session. Where there is
	 * nothing, the service may never have had any: then it is freed, and nobody has cleared the pointer to it. (A server
	 * that calls back before there is a session breaks this, and rpcordma_bc_rqst_submit(), in that instant.)
	 */
	if (serv && atomic_read(&xprt->bc_slot_count))
		take_back(serv, xprt);
}

#endif

rpcordma_bool rpcordma_bc_rqst_submit(struct rpc_rqst *rqst, rpcordma_u32 xid, void *message,
				      rpcordma_u32 length)
{
	struct rpc_xprt *xprt = rqst->rq_xprt;
	struct svc_serv *serv;

	rqst->rq_xid = cpu_to_be32(xid);
	rqst->rq_reply_bytes_recvd = 0;
	rqst->rq_bytes_sent = 0;
	rqst->rq_private_buf.len = length;
	xdr_buf_init(&rqst->rq_rcv_buf, message, length);
	rqst->rq_rcv_buf.len = length;
	/*
	 * Newer kernels take the service away with this lock, then give back what is queued
	 * (bc_free_rqst()), and then free it. Older ones do neither: with those it is for
	 * rpcordma_core_bc_destroy() that a service with users does not go, and for
	 * rpcordma_bc_take_back() that nothing stays queued.
	 */
	spin_lock(&xprt->bc_pa_lock);
	serv = xprt->bc_serv;
	if (serv && xprt_get(xprt)) {
		/* The callback service decrements it after it has handled the call. */
		atomic_inc(&xprt->bc_slot_count);
		enqueue(serv, rqst);
	} else {
		serv = NULL;
	}
	spin_unlock(&xprt->bc_pa_lock);
	return serv;
}

#else /* nobody can answer */

void rpcordma_bc_take_back(struct rpc_xprt *xprt)
{
}

rpcordma_bool rpcordma_xprt_has_bc_service(struct rpc_xprt *xprt)
{
	return false;
}

void rpcordma_bc_rqst_init(struct rpc_rqst *rqst, struct rpc_xprt *xprt, void *reply_buffer,
			   rpcordma_u32 reply_size)
{
	rqst->rq_xprt = xprt;
	xdr_buf_init(&rqst->rq_snd_buf, reply_buffer, reply_size);
}

rpcordma_bool rpcordma_bc_rqst_submit(struct rpc_rqst *rqst, rpcordma_u32 xid, void *message,
				      rpcordma_u32 length)
{
	return false;
}

#endif

void rpcordma_bc_rqst_done(struct rpc_xprt *xprt)
{
	xprt_put(xprt);
}
