// SPDX-License-Identifier: GPL-2.0-only
/*
 * The port's memory, pages and time. Mapping memory for a device is in verbs.c.
 */

#include <linux/cache.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/topology.h>
#include <linux/sched/mm.h>
#include <linux/sunrpc/sched.h>
#include <rdma/ib_verbs.h>

#include "compat/linux/endpoint.h"
#include "compat/linux/scatter.h"
#include "compat/port/base.h"
#include "compat/port/svc.h"

rpcordma_u32 rpcordma_page_size(void)
{
	return PAGE_SIZE;
}

static gfp_t gfp_of(enum rpcordma_alloc_how how)
{
	switch (how) {
	case RPCORDMA_ALLOC_NOIO:
		/*
		 * Without __GFP_NOMEMALLOC: work for a swap file runs with PF_MEMALLOC, and may
		 * use the memory reserves, which are meant for it.
		 */
		return GFP_NOIO | __GFP_NORETRY | __GFP_NOWARN;
	case RPCORDMA_ALLOC_TASK:
		return rpc_task_gfp_mask();
	case RPCORDMA_ALLOC_SERVICE:
		/* The flags with which sunrpc allocates the thread's own pages. */
		return GFP_KERNEL | __GFP_NOWARN;
	case RPCORDMA_ALLOC_ATOMIC:
	default:
		return GFP_NOWAIT | __GFP_NOWARN;
	}
}

void *rpcordma_alloc(rpcordma_size size, enum rpcordma_alloc_how how)
{
	/* kmalloc() aligns memory whose size is a power of two to that size. */
	return kzalloc(size, gfp_of(how));
}

void *rpcordma_alloc_of(const struct ib_device *device, rpcordma_size size,
			enum rpcordma_alloc_how how)
{
	return kzalloc_node(size, gfp_of(how), ibdev_to_node((struct ib_device *)device));
}

void *rpcordma_alloc_near(const struct rpcordma_endpoint *ep, rpcordma_size size,
			  enum rpcordma_alloc_how how)
{
	return rpcordma_alloc_of(ep->id->device, size, how);
}

void rpcordma_free(void *p)
{
	kfree(p);
}

void *rpcordma_alloc_large(rpcordma_size size, enum rpcordma_alloc_how how)
{
	unsigned int noio;
	void *p;

	if (how == RPCORDMA_ALLOC_ATOMIC)
		return rpcordma_alloc(size, how);
	if (how == RPCORDMA_ALLOC_SERVICE)
		return kvzalloc(size, GFP_KERNEL | __GFP_NOWARN);
	/*
	 * Page tables are allocated without these flags, but heed the scope. Without __GFP_NORETRY
	 * the allocator would wait for single pages without end, since in this scope it ends no
	 * process to get them.
	 */
	noio = memalloc_noio_save();
	p = kvzalloc(size, GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
	memalloc_noio_restore(noio);
	return p;
}

void rpcordma_free_large(void *p)
{
	kvfree(p);
}

rpcordma_u64 rpcordma_memory_size(void)
{
	return (u64)totalram_pages() << PAGE_SHIFT;
}

rpcordma_u32 rpcordma_node(void)
{
	return numa_mem_id();
}

rpcordma_u32 rpcordma_node_count(void)
{
	return nr_node_ids;
}

rpcordma_bool rpcordma_nodes_differ(void)
{
	return nr_online_nodes > 1;
}

rpcordma_u32 rpcordma_page_node(const struct page *page)
{
	return page_to_nid(page);
}

void *rpcordma_page_address(struct page *page)
{
	/* None of them is in high memory. */
	return page_address(page);
}

rpcordma_u32 rpcordma_pages_kept(struct page *const *pages, rpcordma_u32 count)
{
	struct page *const *const end = pages + count;
	u32 references = 0;

	/* None of them is a part of a larger one. */
	for (; end - pages >= 8; pages += 8)
		references += page_ref_count(pages[0]) + page_ref_count(pages[1]) +
			      page_ref_count(pages[2]) + page_ref_count(pages[3]) +
			      page_ref_count(pages[4]) + page_ref_count(pages[5]) +
			      page_ref_count(pages[6]) + page_ref_count(pages[7]);
	while (pages < end)
		references += page_ref_count(*pages++);
	return references - count;
}

#define RUN_ORDER get_order(LONGEST_RUN)

/*
 * Allocate what there is in runs of neighbours on node @nid; for those nothing is reclaimed, as the page cache has what is
 * free in pieces on any file server. Returns how many of @count pages that are: the first ones.
 */
static unsigned long alloc_runs(struct page **pages, unsigned long count, int nid, gfp_t gfp)
{
	unsigned int order = RUN_ORDER, i;
	unsigned long filled = 0;

	gfp &= ~__GFP_DIRECT_RECLAIM;
	gfp |= __GFP_THISNODE | __GFP_NOMEMALLOC | __GFP_NORETRY | __GFP_NOWARN;
	while (order) {
		struct page *run = NULL;

		if (count - filled >= 1UL << order)
			run = alloc_pages_node(nid, gfp, order);
		if (!run) {
			order--;
			continue;
		}
		split_page(run, order);
		for (i = 0; i < 1U << order; i++)
			pages[filled++] = run + i;
	}
	return filled;
}

rpcordma_u32 rpcordma_pages_alloc(struct page **pages, rpcordma_u32 count, rpcordma_u32 node,
				  enum rpcordma_alloc_how how)
{
	/* A device may have none, and its memory may have been removed meanwhile. */
	const int nid = node < MAX_NUMNODES && node_online(node) ? node : NUMA_NO_NODE;
	unsigned long filled = 0, before;

	/* It fills in null entries, at times not all of them. */
	memset(pages, 0, count * sizeof(*pages));
	filled = alloc_runs(pages, count, nid, gfp_of(how));
	if (filled == count)
		return filled;
	do {
		before = filled;
#ifdef HAVE_ALLOC_PAGES_BULK
		filled = alloc_pages_bulk_node(gfp_of(how), nid, count, pages);
#else
		filled = alloc_pages_bulk_array_node(gfp_of(how), nid, count, pages);
#endif
	} while (filled < count && filled > before);
	return filled;
}

void rpcordma_pages_release(struct page **pages, rpcordma_u32 count)
{
	struct page **end = pages + count;

	while (pages < end) {
		struct page **absent = pages;

		while (end - absent >= 4 && absent[0] && absent[1] && absent[2] && absent[3])
			absent += 4;
		while (absent < end && *absent)
			absent++;
		if (absent > pages)
			release_pages(pages, absent - pages);
		pages = absent + 1;
	}
}

void rpcordma_pages_write(struct page **pages, rpcordma_u32 offset, const void *from,
			  rpcordma_u32 length)
{
	while (length) {
		const u32 take = min_t(u32, length, PAGE_SIZE - offset_in_page(offset));

		memcpy_to_page(pages[offset >> PAGE_SHIFT], offset_in_page(offset), from, take);
		from += take;
		offset += take;
		length -= take;
	}
}

rpcordma_u64 rpcordma_now_ms(void)
{
	return ktime_to_ms(ktime_get());
}
