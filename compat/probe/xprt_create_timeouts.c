/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_XPRT_CREATE_TIMEOUTS: does xprt_create carry connect and reconnect timeouts? */

#include <linux/sunrpc/xprt.h>

#ifdef PROBE
unsigned long probe(const struct xprt_create *args);
unsigned long probe(const struct xprt_create *args)
{
	return args->connect_timeout + args->reconnect_timeout;
}
#else
/* A second member of that name is an error. */
struct probe {
	struct xprt_create;
	int connect_timeout;
};
#endif
