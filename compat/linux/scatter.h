/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Scattered memory that a device is to access: what regions (verbs.c) and bulk mappings (bulk.c)
 * have in common.
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
	unsigned int mapped; /* entries that are DMA-mapped */
	unsigned int used; /* entries that are filled in */
	unsigned int room; /* entries allocated */
	unsigned int longest; /* bytes up to which an entry is extended */
	phys_addr_t end; /* where the last entry ends; PHYS_ADDR_MAX if there is none */
	struct scatterlist entries[];
};

void rpcordma_scatter_init(struct rpcordma_scatter *scatter, unsigned int room);
/** Remove all entries. Not while it is mapped. */
static inline void rpcordma_scatter_reset(struct rpcordma_scatter *scatter)
{
	scatter->used = 0;
	scatter->end = PHYS_ADDR_MAX;
}

/** Add memory within one page, or in adjacent pages. Returns false if there is no room. */
bool rpcordma_scatter_add(struct rpcordma_scatter *scatter, struct page *page, u32 length,
			  u32 offset);
/** The same for @length bytes of @pages, from byte @in_page of the first. */
bool rpcordma_scatter_add_pages(struct rpcordma_scatter *scatter, struct page **pages, u32 in_page,
				u32 length);
/** The same for bytes [@offset, @offset + @length) of @buf; false too if it has fewer. */
bool rpcordma_scatter_add_buf(struct rpcordma_scatter *scatter, const struct xdr_buf *buf,
			      u32 offset, u32 length);
/** Returns the number of DMA segments, or -ENOMEM if there is no room for the mapping now. */
int rpcordma_scatter_map(struct rpcordma_scatter *scatter, struct ib_device *device,
			 enum dma_data_direction direction);
/** Harmless when it is not mapped. */
void rpcordma_scatter_unmap(struct rpcordma_scatter *scatter);

#endif
