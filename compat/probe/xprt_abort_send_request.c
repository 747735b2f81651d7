/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_XPRT_ABORT_SEND_REQUEST: has rpc_xprt_ops an abort_send_request? */

#include <linux/sunrpc/xprt.h>

#ifdef PROBE
extern const struct rpc_xprt_ops probe;
const struct rpc_xprt_ops probe = {
	.abort_send_request = NULL,
};
#else
/* A second member of that name is an error. */
struct probe {
	struct rpc_xprt_ops;
	int abort_send_request;
};
#endif
