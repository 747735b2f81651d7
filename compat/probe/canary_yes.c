/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_CANARY_YES: does kbuild compile for this kernel at all? (must be yes) */

#include <linux/module.h>
#include <linux/sunrpc/xprt.h>
#include <linux/sunrpc/svc_xprt.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#ifdef PROBE
const char *probe(const struct rpc_xprt *xprt);
const char *probe(const struct rpc_xprt *xprt)
{
	return xprt->servername;
}
#else
#error "the form that must not compile"
#endif
