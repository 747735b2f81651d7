/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_SVC_POOL_WAKE_IDLE_THREAD: is a callback thread woken through its pool? */

#include <linux/sunrpc/svc.h>

void probe(struct svc_serv *serv);
void probe(struct svc_serv *serv)
{
#ifdef PROBE
	svc_pool_wake_idle_thread(&serv->sv_pools[0]);
#else
	wake_up(&serv->sv_cb_waitq);
#endif
}
