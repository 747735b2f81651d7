/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * HAVE_SVC_RQST_REPLY_PAGES: are a thread's reply pages an array of their own, and only the first
 * rq_pages_nfree of its call's pages allocated anew?
 */

#include <linux/sunrpc/svc.h>

/*
 * No declaration shows that there are two arrays, but rq_pages_nfree came with them. Where they are, both
 * are made to measure: their size is rq_maxpages.
 */
#ifdef PROBE
unsigned long probe(const struct svc_rqst *rqstp);
unsigned long probe(const struct svc_rqst *rqstp)
{
	return rqstp->rq_pages_nfree + rqstp->rq_maxpages;
}
#else
/* A second member of that name is an error. */
struct probe {
	struct svc_rqst;
	int rq_pages_nfree;
};
#endif
