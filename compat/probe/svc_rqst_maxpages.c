/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_SVC_RQST_MAXPAGES: is a thread's array of pages made to measure, of svc_serv_maxpages()? */

#include <linux/build_bug.h>
#include <linux/kernel.h>
#include <linux/sunrpc/svc.h>

unsigned long probe(const struct svc_rqst *rqstp, const struct svc_serv *serv);
unsigned long probe(const struct svc_rqst *rqstp, const struct svc_serv *serv)
{
#ifdef PROBE
	struct page **pages = rqstp->rq_pages;

	return pages ? rqstp->rq_maxpages : svc_serv_maxpages(serv);
#else
	/* rq_pages is an array in struct svc_rqst, of that many pages. */
	return ARRAY_SIZE(rqstp->rq_pages) + RPCSVC_MAXPAGES;
#endif
}
