// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the core asks of a transport: its congestion window, its state, its wake-ups. Credits are
 * kept in sunrpc's congestion window, which limits the calls outstanding, in units of
 * RPC_CWNDSCALE. Requests are in request.c.
 *
 * Lock: the transport's transport_lock guards the window, the count, and the choice of whom to
 * wake.
 */

#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/spinlock.h>
#include <linux/sunrpc/xprt.h>
#include <linux/workqueue.h>

#include "compat/linux/transport.h"
#include "compat/port/port.h"

#define CONNECT_LIMIT_LEAST_MS 1000
#define CONNECT_LIMIT_MOST_MS 60000

const struct rpcordma_peer *rpcordma_xprt_peer(const struct rpc_xprt *xprt)
{
	return &container_of(xprt, const struct rpcordma_transport, xprt)->peer;
}

/* Return the credit of @rqst, and wake the next sender. The caller holds transport_lock. */
static void put_credit_locked(struct rpc_rqst *rqst)
{
	/*
	 * Only the pointer to the request is used. The task for which it was sent may no longer
	 * exist.
	 */
	struct rpc_task task = { .tk_rqstp = rqst };

	rqst->rq_task = NULL;
	xprt_release_rqst_cong(&task);
}

/*
 * sunrpc looks for a sender to wake when a request returns its credit, not when the window grows, nor when
 * other credits are returned. So count one more credit as taken, by no call, and return it.
 */
static void nudge_sender(struct rpcordma_transport *transport)
{
	transport->xprt.cong += RPC_CWNDSCALE;
	transport->nudge.rq_cong = 1;
	put_credit_locked(&transport->nudge);
}

void rpcordma_xprt_set_credits(struct rpc_xprt *xprt, rpcordma_u32 credits)
{
	const unsigned long window = (unsigned long)credits << RPC_CWNDSHIFT;
	bool grew;

	/* Most replies grant as much as the one before. */
	if (READ_ONCE(xprt->cwnd) == window)
		return;
	spin_lock(&xprt->transport_lock);
	grew = window > xprt->cwnd;
	xprt->cwnd = window;
	if (grew && test_bit(XPRT_CWND_WAIT, &xprt->state))
		nudge_sender(to_transport(xprt));
	spin_unlock(&xprt->transport_lock);
}

void rpcordma_xprt_reset_credits(struct rpc_xprt *xprt, rpcordma_u32 credits)
{
	spin_lock(&xprt->transport_lock);
	xprt->cong = 0;
	xprt->cwnd = (unsigned long)credits << RPC_CWNDSHIFT;
	spin_unlock(&xprt->transport_lock);
}

rpcordma_bool rpcordma_xprt_take_credits(struct rpc_xprt *xprt, rpcordma_u32 credits,
					 rpcordma_u32 share)
{
	const unsigned long more = (unsigned long)credits << RPC_CWNDSHIFT;
	unsigned long kept;
	bool taken;

	spin_lock(&xprt->transport_lock);
	/* Whole credits: what stays free is that part at least. */
	kept = share ? DIV_ROUND_UP(xprt->cwnd >> RPC_CWNDSHIFT, share) << RPC_CWNDSHIFT : 0;
	taken = xprt->cong + more + kept <= xprt->cwnd;
	if (taken)
		xprt->cong += more;
	spin_unlock(&xprt->transport_lock);
	return taken;
}

void rpcordma_xprt_return_credits(struct rpc_xprt *xprt, rpcordma_u32 credits)
{
	spin_lock(&xprt->transport_lock);
	xprt->cong -= (unsigned long)credits << RPC_CWNDSHIFT;
	nudge_sender(to_transport(xprt));
	spin_unlock(&xprt->transport_lock);
}

void rpcordma_xprt_return_credit(struct rpc_xprt *xprt, struct rpc_rqst *rqst)
{
	spin_lock(&xprt->transport_lock);
	/* sunrpc may have freed the slot, which is zeroed then. */
	rqst->rq_xprt = xprt;
	put_credit_locked(rqst);
	spin_unlock(&xprt->transport_lock);
}

void rpcordma_rqst_forget_credit(struct rpc_rqst *rqst)
{
	/* A slot that was never used has neither transport nor credit. */
	struct rpc_xprt *xprt = READ_ONCE(rqst->rq_xprt);

	if (!xprt)
		return;
	spin_lock(&xprt->transport_lock);
	rqst->rq_cong = 0;
	spin_unlock(&xprt->transport_lock);
}

void rpcordma_xprt_conversed(struct rpc_xprt *xprt)
{
	if (xprt->reestablish_timeout)
		xprt->reestablish_timeout = 0;
}

void rpcordma_xprt_force_disconnect(struct rpc_xprt *xprt)
{
	xprt_force_disconnect(xprt);
}

void rpcordma_xprt_closed(struct rpc_xprt *xprt)
{
	/* A connection does not end the back-off; a reply does: rpcordma_xprt_conversed(). */
	++xprt->connect_cookie;
	xprt_disconnect_done(xprt);
}

void rpcordma_xprt_wait_for_space(struct rpc_xprt *xprt)
{
	xprt_wait_for_buffer_space(xprt);
}

void rpcordma_xprt_write_space(struct rpc_xprt *xprt)
{
	xprt_write_space(xprt);
}

rpcordma_bool rpcordma_xprt_wake_backlog(struct rpc_xprt *xprt, struct rpc_rqst *rqst)
{
	bool taken;

	/*
	 * The lock orders this against tasks that join the backlog because XPRT_CONGESTED is set:
	 * either they see the bit cleared here, or they are found on the backlog here.
	 */
	spin_lock(&xprt->reserve_lock);
	taken = xprt_wake_up_backlog(xprt, rqst);
	spin_unlock(&xprt->reserve_lock);
	return taken;
}

rpcordma_bool rpcordma_xprt_has_backlog(struct rpc_xprt *xprt)
{
	/* client_alloc_slot() sets the bit before it looks for a slot a second time. */
	smp_mb();
	return test_bit(XPRT_CONGESTED, &xprt->state);
}

void rpcordma_xprt_queue_refill(struct rpc_xprt *xprt, rpcordma_u32 delay_ms)
{
	queue_delayed_work(rpcordma_workqueue, &to_transport(xprt)->refill,
			   msecs_to_jiffies(delay_ms));
}

void rpcordma_xprt_queue_check(struct rpc_xprt *xprt, rpcordma_u32 delay_ms)
{
	queue_delayed_work(rpcordma_workqueue, &to_transport(xprt)->check,
			   msecs_to_jiffies(delay_ms));
}

rpcordma_u32 rpcordma_xprt_connect_limit_ms(struct rpc_xprt *xprt)
{
	return clamp_t(unsigned long, jiffies_to_msecs(READ_ONCE(xprt->connect_timeout)),
		       CONNECT_LIMIT_LEAST_MS, CONNECT_LIMIT_MOST_MS);
}

void rpcordma_xprt_set_max_payload(struct rpc_xprt *xprt, rpcordma_u32 bytes)
{
	xprt->max_payload = bytes;
}
