/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_SVC_RQST_REPLACE_PAGE_BOOL: does svc_rqst_replace_page() tell whether it could? */

#include <linux/sunrpc/svc.h>

#ifdef PROBE
extern bool (*probe)(struct svc_rqst *rqstp, struct page *page);
bool (*probe)(struct svc_rqst *rqstp, struct page *page) = svc_rqst_replace_page;
#else
extern void (*probe)(struct svc_rqst *rqstp, struct page *page);
void (*probe)(struct svc_rqst *rqstp, struct page *page) = svc_rqst_replace_page;
#endif
