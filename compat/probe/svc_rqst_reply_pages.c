/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * REFUSED: a service thread's reply pages are an array of their own there, not the rest of its call's
 * pages, and of those only the first rq_pages_nfree are allocated anew; a server built with the rules
 * of older kernels would corrupt memory and files at the first WRITE
 */

#include <linux/sunrpc/svc.h>

/* No declaration shows that there are two arrays, but rq_pages_nfree came with them. */
#ifdef PROBE
unsigned long probe(const struct svc_rqst *rqstp);
unsigned long probe(const struct svc_rqst *rqstp)
{
	return rqstp->rq_pages_nfree;
}
#else
/* A second member of that name is an error. */
struct probe {
	struct svc_rqst;
	int rq_pages_nfree;
};
#endif
