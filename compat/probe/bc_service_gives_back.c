/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_BC_SERVICE_GIVES_BACK: does a callback service that ends give back what is queued for it? */

#include <linux/sunrpc/xprt.h>
#include <linux/sunrpc/bc_xprt.h>

#ifdef PROBE
void probe(struct rpc_xprt *xprt, struct svc_serv **serv);
void probe(struct rpc_xprt *xprt, struct svc_serv **serv)
{
	xprt_svc_destroy_nullify_bc(xprt, serv);
}
#else
/* Conflicts with the declaration of the function, if there is one. */
extern int xprt_svc_destroy_nullify_bc;
#endif
