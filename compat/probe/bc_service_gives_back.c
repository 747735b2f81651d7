/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_BC_SERVICE_GIVES_BACK: does a callback service that ends give back what is queued for it? */

#include <linux/sunrpc/xprt.h>
#include <linux/sunrpc/bc_xprt.h>

/* Came with that. xprt_svc_destroy_nullify_bc(), which does it, had been there before. */
#ifdef PROBE
void probe(struct rpc_xprt *xprt);
void probe(struct rpc_xprt *xprt)
{
	xprt_svc_shutdown_bc(xprt);
}
#else
/* Conflicts with the declaration of the function, if there is one. */
extern int xprt_svc_shutdown_bc;
#endif
