// SPDX-License-Identifier: GPL-2.0-only
/*
 * The server's backchannel (RFC 8167): NFSv4.1 callbacks go to the client over the connection that
 * the client made. To sunrpc this is a client transport of a class of its own, which is connected
 * from the start and cannot reconnect: it ends with its connection, and nfsd waits until the client
 * makes another.
 *
 * References. The svc_xprt has two to its backchannel. One is sunrpc's, which sunrpc drops when it
 * frees the svc_xprt. Replies may arrive as long as the queue pair exists, so the second is dropped
 * after that is destroyed (free_worker() in svc_connection.c). nfsd holds the svc_xprt for as long
 * as it uses the backchannel.
 *
 * sunrpc's congestion window limits the calls outstanding, as on the client's side (credits.c).
 */

#include <linux/err.h>
#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/sched.h>
#include <linux/sunrpc/svc_xprt.h>
#include <linux/sunrpc/xdr.h>
#include <linux/sunrpc/xprt.h>

#include "compat/linux/svc.h"
#include "compat/linux/transport.h"
#include "compat/port/port.h"

static const struct rpc_timeout callback_timeout = {
	.to_initval = 60 * HZ,
	.to_maxval = 60 * HZ,
};

static struct xprt_class callback_class;

struct callback_transport {
	struct rpc_xprt xprt;
	struct rpcordma_port_text port;
};

/* One allocation for both buffers. The core copies what it sends. */
static int callback_buf_alloc(struct rpc_task *task)
{
	struct rpc_rqst *rqst = task->tk_rqstp;
	const size_t size = ALIGN(rqst->rq_callsize, sizeof(u64));

	rqst->rq_buffer = kmalloc(size + rqst->rq_rcvsize, rpc_task_gfp_mask());
	if (!rqst->rq_buffer)
		return -ENOMEM;
	rqst->rq_rbuffer = rqst->rq_buffer + size;
	return 0;
}

static void callback_buf_free(struct rpc_task *task)
{
	kfree(task->tk_rqstp->rq_buffer);
}

/* The sender holds the send lock. */
static int callback_send_request(struct rpc_rqst *rqst)
{
	struct rpc_xprt *xprt = rqst->rq_xprt;
	struct svc_xprt *connection = xprt->bc_xprt;
	int rc = -ENOTCONN;

	if (!xprt_request_get_cong(xprt, rqst))
		return -EBADSLT;
	if (!rpcordma_svc_is_dead(connection)) {
		rpcordma_rqst_sent(rqst);
		rc = rpcordma_core_server_send_backward(
			rpcordma_svc_server(connection), be32_to_cpu(rqst->rq_xid),
			(const struct rpcordma_xdr_buf *)&rqst->rq_snd_buf);
	}
	switch (rc) {
	case -ENOTCONN:
		svc_xprt_close(connection);
		/* The close does this too; until then nobody need try again. */
		xprt_disconnect_done(xprt);
		return rc;
	case -EMSGSIZE:
		/* A task that sends the call of another must not fail for it: its owner shall. */
		return READ_ONCE(xprt->snd_task) == rqst->rq_task ? rc : -ENOBUFS;
	default:
		return rc;
	}
}

/* sunrpc closes the connection. */
static void callback_close(struct rpc_xprt *xprt)
{
	xprt_disconnect_done(xprt);
}

static void callback_destroy(struct rpc_xprt *xprt)
{
	rpcordma_free_addresses(xprt);
	xprt_free(xprt);
	/* Last, and directly before the return: the module may be unloaded from here on. */
	module_put(THIS_MODULE);
}

static void callback_print_stats(struct rpc_xprt *xprt, struct seq_file *seq)
{
	/* Backward calls have no chunks. */
	static const struct rpcordma_client_stats none;

	rpcordma_print_stats(xprt, &none, seq);
}

/* sunrpc's fault injection calls it without asking. Faults of this connection are those of the server's. */
static void callback_inject_disconnect(struct rpc_xprt *xprt)
{
}

static const struct rpc_xprt_ops callback_ops = {
	.reserve_xprt = xprt_reserve_xprt_cong,
	.release_xprt = xprt_release_xprt_cong,
	.alloc_slot = xprt_alloc_slot,
	.free_slot = xprt_free_slot,
	.buf_alloc = callback_buf_alloc,
	.buf_free = callback_buf_free,
	.send_request = callback_send_request,
	.wait_for_reply_request = xprt_wait_for_reply_request_def,
	.release_request = xprt_release_rqst_cong,
	.close = callback_close,
	.destroy = callback_destroy,
	.print_stats = callback_print_stats,
	.inject_disconnect = callback_inject_disconnect,
};

static struct rpc_xprt *callback_setup(struct xprt_create *args)
{
	const u32 calls = rpcordma_core_server_backward_calls();
	struct svc_xprt *connection = args->bc_xprt;
	struct callback_transport *transport;
	struct rpc_xprt *xprt;
	int rc;

	if (!connection || connection->xpt_class->xcl_owner != THIS_MODULE)
		return ERR_PTR(-EINVAL);
	if (args->addrlen > sizeof(xprt->addr))
		return ERR_PTR(-EBADF);
	if (!try_module_get(THIS_MODULE))
		return ERR_PTR(-EIO);
	xprt = xprt_alloc(args->net, sizeof(*transport), calls, calls);
	if (!xprt) {
		rc = -ENOMEM;
		goto out_module;
	}
	transport = container_of(xprt, struct callback_transport, xprt);
	xprt->ops = &callback_ops;
	xprt->xprt_class = &callback_class;
	xprt->timeout = &callback_timeout;
	xprt->connect_timeout = callback_timeout.to_initval;
	xprt->max_reconnect_timeout = callback_timeout.to_maxval;
	/* It is never bound, reconnected, or closed for being idle. */
	xprt->bind_timeout = 0;
	xprt->reestablish_timeout = 0;
	xprt->idle_timeout = 0;
	xprt->prot = XPRT_TRANSPORT_BC_RDMA;
	xprt->resvport = 0;
	xprt->max_payload = rpcordma_core_server_backward_payload(rpcordma_svc_server(connection));
	xprt->addrlen = args->addrlen;
	memcpy(&xprt->addr, args->dstaddr, args->addrlen);
	rc = rpcordma_format_addresses(xprt, &transport->port);
	if (rc)
		goto out_xprt;
	xprt_set_bound(xprt);
	xprt_set_connected(xprt);

	xprt->bc_xprt = connection;
	xprt_get(xprt);
	xprt_get(xprt);
	/* From here on completions find it: find_pin(). */
	smp_store_release(&connection->xpt_bc_xprt, xprt);
	return xprt;

out_xprt:
	rpcordma_free_addresses(xprt);
	xprt_free(xprt);
out_module:
	module_put(THIS_MODULE);
	return ERR_PTR(rc);
}

static struct xprt_class callback_class = {
	.list = LIST_HEAD_INIT(callback_class.list),
	.name = "rdma backchannel",
	.owner = THIS_MODULE,
	.ident = XPRT_TRANSPORT_BC_RDMA,
	.setup = callback_setup,
	.netid = { "" },
};

/* --- what the core hands over --- */

static struct rpc_rqst *find_pin(struct svc_xprt *connection, u32 xid)
{
	/* Pairs with callback_setup(): a transport that is found here is complete. */
	struct rpc_xprt *xprt = smp_load_acquire(&connection->xpt_bc_xprt);

	return xprt ? rpcordma_rqst_find_pin(xprt, xid) : NULL;
}

rpcordma_bool rpcordma_svc_backward_reply(struct svc_xprt *connection, rpcordma_u32 xid,
					  const void *reply, rpcordma_u32 length,
					  rpcordma_u32 credits)
{
	struct rpc_rqst *rqst = find_pin(connection, xid);
	struct rpc_xprt *xprt;

	if (!rqst)
		return false;
	xprt = rqst->rq_xprt;
	if (rqst->rq_rcv_buf.head[0].iov_len < length) {
		rpcordma_rqst_unpin(rqst);
		return false;
	}
	memcpy(&rqst->rq_private_buf, &rqst->rq_rcv_buf, sizeof(rqst->rq_private_buf));
	memcpy(rqst->rq_private_buf.head[0].iov_base, reply, length);
	/* Senders that wait for a larger window are woken when the task returns its credit. */
	spin_lock(&xprt->transport_lock);
	xprt->cwnd = (unsigned long)credits << RPC_CWNDSHIFT;
	spin_unlock(&xprt->transport_lock);
	rpcordma_rqst_complete(rqst, length);
	return true;
}

rpcordma_bool rpcordma_svc_backward_error(struct svc_xprt *connection, rpcordma_u32 xid, int error)
{
	struct rpc_rqst *rqst = find_pin(connection, xid);

	if (!rqst)
		return false;
	rpcordma_rqst_complete(rqst, error);
	return true;
}

/* --- loading and unloading --- */

int rpcordma_svc_bc_register(void)
{
	return xprt_register_transport(&callback_class);
}

void rpcordma_svc_bc_unregister(void)
{
	xprt_unregister_transport(&callback_class);
}
