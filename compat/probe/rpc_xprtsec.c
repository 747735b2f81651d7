/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_RPC_XPRTSEC: does an rpc_xprt carry a transport security policy? */

#include <linux/sunrpc/xprt.h>

#ifdef PROBE
int probe(const struct rpc_xprt *xprt);
int probe(const struct rpc_xprt *xprt)
{
	return xprt->xprtsec.policy == RPC_XPRTSEC_NONE;
}
#else
/* A second member of that name is an error. */
struct probe {
	struct rpc_xprt;
	int xprtsec;
};
#endif
