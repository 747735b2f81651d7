/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_SVC_RQST_RELEASE_PAGES: are reply pages given back by svc_rqst_release_pages()? */

#include <linux/sunrpc/svc.h>

void probe(struct svc_rqst *rqstp);
void probe(struct svc_rqst *rqstp)
{
#ifdef PROBE
	svc_rqst_release_pages(rqstp);
#else
	svc_free_res_pages(rqstp);
#endif
}
