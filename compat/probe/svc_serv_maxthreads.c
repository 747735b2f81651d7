/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_SVC_SERV_MAXTHREADS: do threads come and go, up to the number that svc_serv_maxthreads() tells? */

#include <linux/sunrpc/svc.h>

#ifdef PROBE
unsigned int probe(const struct svc_serv *serv);
unsigned int probe(const struct svc_serv *serv)
{
	return svc_serv_maxthreads(serv);
}
#else
/* Conflicts with the declaration of the function, if there is one. */
extern int *svc_serv_maxthreads;
#endif
