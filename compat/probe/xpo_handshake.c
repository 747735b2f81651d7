/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_XPO_HANDSHAKE: is it xpo_handshake, not xpo_start_tls? */

#include <linux/sunrpc/svc_xprt.h>

extern const struct svc_xprt_ops probe;
const struct svc_xprt_ops probe = {
#ifdef PROBE
	.xpo_handshake = NULL,
#else
	.xpo_start_tls = NULL,
#endif
};
