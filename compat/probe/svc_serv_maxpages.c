/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_SVC_SERV_MAXPAGES: does svc_serv_maxpages() bound the pages of a request? */

#include <linux/sunrpc/svc.h>

unsigned long probe(const struct svc_serv *serv);
#ifdef PROBE
unsigned long probe(const struct svc_serv *serv)
{
	return svc_serv_maxpages(serv);
}
#else
/* Clashes with a declaration of the function. */
extern unsigned long svc_serv_maxpages;

unsigned long probe(const struct svc_serv *serv)
{
	return RPCSVC_MAXPAGES;
}
#endif
