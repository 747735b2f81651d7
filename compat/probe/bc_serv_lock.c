/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * REFUSED: the callback service of a mount is taken away under bc_pa_lock there, and then freed; a
 * client built with the rules of older kernels does not take that lock, and would queue a callback
 * that comes at that moment in memory that is freed
 */

#include <linux/sunrpc/bc_xprt.h>
#include <linux/sunrpc/svc.h>
#include <linux/sunrpc/xprt.h>

/* The lock is older than the rule. The function that queues callbacks under it came with it. */
#ifdef PROBE
void probe(struct rpc_rqst *rqst);
void probe(struct rpc_rqst *rqst)
{
	xprt_enqueue_bc_request(rqst);
}
#else
/* Conflicts with the declaration of the function, if there is one. */
extern struct rpc_rqst *xprt_enqueue_bc_request;
#endif
