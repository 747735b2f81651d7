/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_XPO_SECURE_PORT: has svc_xprt_ops an xpo_secure_port? */

#include <linux/sunrpc/svc_xprt.h>

#ifdef PROBE
extern const struct svc_xprt_ops probe;
const struct svc_xprt_ops probe = {
	.xpo_secure_port = NULL,
};
#else
/* A second member of that name is an error. */
struct probe {
	struct svc_xprt_ops;
	int xpo_secure_port;
};
#endif
