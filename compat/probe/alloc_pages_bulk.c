/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_ALLOC_PAGES_BULK: is it alloc_pages_bulk(), not alloc_pages_bulk_array()? */

#include <linux/gfp.h>

unsigned long probe(struct page **pages);
unsigned long probe(struct page **pages)
{
#ifdef PROBE
	return alloc_pages_bulk(GFP_KERNEL, 1, pages);
#else
	return alloc_pages_bulk_array(GFP_KERNEL, 1, pages);
#endif
}
