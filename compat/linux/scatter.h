/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Scattered memory that a device is to access: what regions (verbs.c) and bulk mappings (bulk.c)
 * have in common.
 */
#ifndef RPCORDMA_LINUX_SCATTER_H
#define RPCORDMA_LINUX_SCATTER_H

#include <linux/dma-direction.h>
#include <linux/errno.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/sunrpc/xdr.h>
#include <rdma/ib_verbs.h>

/*
 * The most bytes of adjacent pages that become one piece of a bulk mapping, and that are allocated together. A piece
 * larger than a bounce buffer (256 KiB) or than a device's segment limit could never be mapped; this is well below both.
 */
#define LONGEST_RUN 65536

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

/** Have no entries, and @room for some: one at least, which sg_init_table() and who adds the first one rely on. */
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
bool rpcordma_scatter_add_any_pages(struct rpcordma_scatter *scatter, struct page **pages,
				    u32 in_page, u32 length);
/**
 * The same, where it may be all there is, and within one page, as small transfers are: it extends nothing, has no neighbours,
 * and there is room for one entry always.
 */
static inline bool rpcordma_scatter_add_pages(struct rpcordma_scatter *scatter, struct page **pages,
					      u32 in_page, u32 length)
{
	const u32 offset = offset_in_page(in_page);
	struct page *page = NULL;

	if (!scatter->used && length && length <= PAGE_SIZE - offset)
		page = pages[in_page >> PAGE_SHIFT];
	if (!page)
		return rpcordma_scatter_add_any_pages(scatter, pages, in_page, length);
	sg_set_page(scatter->entries, page, length, offset);
	scatter->used = 1;
	scatter->end = page_to_phys(page) + offset + length;
	return true;
}
/** The same for bytes [@offset, @offset + @length) of @buf; false too if it has fewer. */
bool rpcordma_scatter_add_parts(struct rpcordma_scatter *scatter, const struct xdr_buf *buf,
				u32 offset, u32 length);
/** The same, where mostly it is all page data, or what they begin with. */
static inline bool rpcordma_scatter_add_buf(struct rpcordma_scatter *scatter,
					    const struct xdr_buf *buf, u32 offset, u32 length)
{
	if (length && offset == buf->head[0].iov_len && length <= buf->page_len)
		return rpcordma_scatter_add_pages(scatter, buf->pages, buf->page_base, length);
	return rpcordma_scatter_add_parts(scatter, buf, offset, length);
}

/** Returns the number of DMA segments, or -ENOMEM if there is no room for the mapping now. */
static inline int rpcordma_scatter_map(struct rpcordma_scatter *scatter,
				       struct ib_device *device,
				       enum dma_data_direction direction)
{
	int entries;

#ifdef CONFIG_NEED_SG_DMA_FLAGS
	/* An IOMMU that used bounce buffers leaves a flag here, wrong for the next mapping. */
	scatter->entries[0].dma_flags = 0;
#endif
	entries = ib_dma_map_sg(device, scatter->entries, scatter->used, direction);
	/* The IOMMU or the bounce buffers are full, which is temporary. */
	if (entries <= 0)
		return -ENOMEM;
	scatter->device = device;
	scatter->direction = direction;
	scatter->mapped = scatter->used;
	return entries;
}

/** Harmless when it is not mapped. */
static inline void rpcordma_scatter_unmap(struct rpcordma_scatter *scatter)
{
	if (!scatter->mapped)
		return;
	ib_dma_unmap_sg(scatter->device, scatter->entries, scatter->mapped, scatter->direction);
	scatter->mapped = 0;
}

#endif
