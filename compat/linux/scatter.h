/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Scattered memory, as a device is to see it: what regions (verbs.c) and bulk mappings (bulk.c) have
 * in common.
 */
#ifndef RPCORDMA_LINUX_SCATTER_H
#define RPCORDMA_LINUX_SCATTER_H

#include <linux/dma-direction.h>
#include <linux/scatterlist.h>
#include <linux/sunrpc/xdr.h>
#include <rdma/ib_verbs.h>

struct rpcordma_scatter {
	struct ib_device *device; /* while mapped */
	enum dma_data_direction direction; /* likewise */
	unsigned int mapped; /* entries that are DMA-mapped; 0, none */
	unsigned int used; /* entries that are filled in */
	unsigned int room; /* entries there are */
	unsigned int longest; /* bytes of an entry that more is added to */
	phys_addr_t end; /* where the last entry ends; PHYS_ADDR_MAX, there is none */
	struct scatterlist entries[];
};

void rpcordma_scatter_init(struct rpcordma_scatter *scatter, unsigned int room);
/** Forget what was added; not while it is mapped. */
static inline void rpcordma_scatter_reset(struct rpcordma_scatter *scatter)
{
	scatter->used = 0;
	scatter->end = PHYS_ADDR_MAX;
}

/** Add what lies in one page, or in pages that are neighbours. False: there is no room. */
bool rpcordma_scatter_add(struct rpcordma_scatter *scatter, struct page *page, u32 length,
			  u32 offset);
/** Add @length bytes of @pages, from @in_page bytes behind the start of the first. */
bool rpcordma_scatter_add_pages(struct rpcordma_scatter *scatter, struct page **pages, u32 in_page,
				u32 length);
/** Add bytes [@offset, @offset + @length) of @buf; false also when there are not so many. */
bool rpcordma_scatter_add_buf(struct rpcordma_scatter *scatter, const struct xdr_buf *buf,
			      u32 offset, u32 length);
/** Returns how many entries the device is to see, or -ENOMEM: no room for the mapping now. */
int rpcordma_scatter_map(struct rpcordma_scatter *scatter, struct ib_device *device,
			 enum dma_data_direction direction);
/** Harmless when it is not mapped. */
void rpcordma_scatter_unmap(struct rpcordma_scatter *scatter);

#endif
