/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_CANARY_NO: is a type that no kernel has accepted? (must be no) */

#include <linux/sunrpc/xprt.h>

#ifdef PROBE
unsigned int probe(const struct rpc_xprt *xprt);
unsigned int probe(const struct rpc_xprt *xprt)
{
	/* A field that does not exist: probes must notice this kind of mistake. */
	return xprt->field_that_no_kernel_has;
}
#endif
