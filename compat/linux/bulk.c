// SPDX-License-Identifier: GPL-2.0-only
/*
 * Scattered memory: pieces of pages and of messages, collected in a scatterlist and DMA-mapped.
 * Memory regions (verbs.c) and the server's RDMA Reads and Writes with plain SGEs (bulk mappings)
 * use it.
 */

#include <linux/dma-mapping.h>
#include <linux/errno.h>
#include <linux/io.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/sunrpc/xdr.h>
#include <rdma/ib_verbs.h>

#include "compat/linux/endpoint.h"
#include "compat/linux/scatter.h"
#include "compat/port/port.h"

/* --- what regions and bulk mappings share --- */

void rpcordma_scatter_init(struct rpcordma_scatter *scatter, unsigned int room)
{
	scatter->mapped = 0;
	scatter->room = room;
	/* A region must not have a gap where a head meets a page. */
	scatter->longest = UINT_MAX;
	rpcordma_scatter_reset(scatter);
	sg_init_table(scatter->entries, room);
}

/* Where the next entry goes. Copied out of the scatter so that loops keep it in registers. */
struct cursor {
	struct scatterlist *entry;
	const struct scatterlist *limit;
	phys_addr_t end;
	unsigned int longest;
};

static inline struct cursor begin(struct rpcordma_scatter *scatter)
{
	return (struct cursor){
		.entry = &scatter->entries[scatter->used],
		.limit = &scatter->entries[scatter->room],
		.end = scatter->end,
		.longest = scatter->longest,
	};
}

static __always_inline bool put(struct cursor *cursor, struct page *page, u32 length, u32 offset)
{
	if (unlikely(cursor->entry == cursor->limit))
		return false;
	sg_set_page(cursor->entry++, page, length, offset);
	return true;
}

static __always_inline bool append(struct cursor *cursor, struct page *page, u32 length, u32 offset)
{
	/*
	 * Memory that begins where the last entry ends extends that entry: a region would take two
	 * entries within a page for a gap.
	 */
	if (page_to_phys(page) + offset == cursor->end &&
	    cursor->entry[-1].length + length <= cursor->longest) {
		cursor->entry[-1].length += length;
		return true;
	}
	return put(cursor, page, length, offset);
}

/* @page, @length and @offset describe the piece that was added last. */
static __always_inline void finish(struct rpcordma_scatter *scatter, const struct cursor *cursor,
				   struct page *page, u32 length, u32 offset)
{
	scatter->used = cursor->entry - scatter->entries;
	scatter->end = page_to_phys(page) + offset + length;
}

bool rpcordma_scatter_add(struct rpcordma_scatter *scatter, struct page *page, u32 length,
			  u32 offset)
{
	struct cursor cursor = begin(scatter);

	if (!append(&cursor, page, length, offset))
		return false;
	finish(scatter, &cursor, page, length, offset);
	return true;
}

/* Whether struct pages are adjacent if and only if the pages are adjacent in memory. */
#define POINTERS_TELL (!IS_ENABLED(CONFIG_SPARSEMEM) || IS_ENABLED(CONFIG_SPARSEMEM_VMEMMAP))

static_assert(PAGE_SIZE <= LONGEST_RUN, "take_run() has room for a page");

/*
 * Find the run of adjacent pages that begins at @page, at most @left bytes and LONGEST_RUN: it
 * becomes one piece. Returns its length, counted from @in_page, and advances @page past it.
 */
static __always_inline u32 take_run(struct page ***page, u32 in_page, u32 left)
{
	const struct page *next = *(*page)++ + 1;
	struct page **const second = *page, **p = second, **end;
	u32 take = PAGE_SIZE - in_page, most;

	if (!POINTERS_TELL || take >= left || *p != next)
		return min(take, left);
	most = min_t(u32, left, LONGEST_RUN - PAGE_SIZE + 1);
	end = p + (take < most ? DIV_ROUND_UP(most - take, PAGE_SIZE) : 0);
	/* Fifteen pages of 4 KiB follow the first one of the longest run. */
	while (end - p >= 5 && p[0] == next && p[1] == next + 1 && p[2] == next + 2 &&
	       p[3] == next + 3 && p[4] == next + 4) {
		next += 5;
		p += 5;
	}
	while (p < end && *p == next) {
		next++;
		p++;
	}
	*page = p;
	return min_t(u32, take + (p - second) * PAGE_SIZE, left);
}

/* Have @entry, which is not the one with the end mark, describe the whole of @page. */
static __always_inline void set_whole(struct scatterlist *entry, struct page *page)
{
	entry->page_link = (unsigned long)page;
	entry->offset = 0;
	entry->length = PAGE_SIZE;
}

/*
 * Add pages from @page on, of which @left bytes are wanted, as entries of a whole page each: two at a time, up to a page whose
 * neighbour in memory comes next. The last page is not taken, as not all of it may be wanted, nor is the last entry, which has
 * the end mark. Returns how many pages were added.
 */
static __always_inline u32 take_apart(struct cursor *cursor, struct page *const *page, u32 left)
{
	const long most = min_t(long, (left - 1) >> PAGE_SHIFT, cursor->limit - cursor->entry - 1);
	struct page *const *const first = page, *const *const last = page + most - 1;
	struct scatterlist *entry = cursor->entry;
	struct page *one = *page;

	for (; page < last; page += 2, entry += 2) {
		struct page *const two = page[1], *const next = page[2];

		if (!one || two == one + 1 || !two || next == two + 1)
			break;
		set_whole(&entry[0], one);
		set_whole(&entry[1], two);
		one = next;
	}
	cursor->entry = entry;
	return page - first;
}

bool rpcordma_scatter_add_any_pages(struct rpcordma_scatter *scatter, struct page **page,
				    u32 in_page, u32 left)
{
	struct cursor cursor = begin(scatter);
	struct page *first;
	u32 take;

	if (!left)
		return true;
	page += in_page >> PAGE_SHIFT;
	in_page = offset_in_page(in_page);
	first = *page;
	if (unlikely(!first))
		goto absent;
	take = take_run(&page, in_page, left);
	if (!append(&cursor, first, take, in_page))
		return false;
	while (left -= take) {
		in_page = 0;
		/* Behind a page that has no neighbour there are mostly more. */
		if (POINTERS_TELL && take <= PAGE_SIZE && left > PAGE_SIZE) {
			const u32 apart = take_apart(&cursor, page, left);

			page += apart;
			left -= apart * PAGE_SIZE;
		}
		first = *page;
		if (unlikely(!first))
			goto absent;
		take = take_run(&page, 0, left);
		if (!put(&cursor, first, take, 0))
			return false;
	}
	finish(scatter, &cursor, first, take, in_page);
	return true;

absent:
	rpcordma_warn("absent pages are filled in before they are mapped");
	return false;
}

/* Add the part of @kvec that lies in the range, and take that part off the range. */
static bool add_kvec(struct rpcordma_scatter *scatter, const struct kvec *kvec, u32 *offset,
		     u32 *length)
{
	const void *base;
	u32 take;

	if (*offset >= kvec->iov_len) {
		*offset -= kvec->iov_len;
		return true;
	}
	take = min_t(size_t, kvec->iov_len - *offset, *length);
	base = kvec->iov_base + *offset;
	*offset = 0;
	*length -= take;
	if (!take)
		return true;
	/* Memory from kmalloc() is contiguous: one entry, however many pages. */
	if (unlikely(!virt_addr_valid(base))) {
		rpcordma_warn("a message's head and tail lie in the kernel's linear mapping");
		return false;
	}
	return rpcordma_scatter_add(scatter, virt_to_page(base), take, offset_in_page(base));
}

/* The same for the page data. */
static bool add_page_data(struct rpcordma_scatter *scatter, const struct xdr_buf *buf, u32 *offset,
			  u32 *length)
{
	u32 from, take;

	if (*offset >= buf->page_len) {
		*offset -= buf->page_len;
		return true;
	}
	from = buf->page_base + *offset;
	take = min(buf->page_len - *offset, *length);
	*offset = 0;
	*length -= take;
	return rpcordma_scatter_add_pages(scatter, buf->pages, from, take);
}

bool rpcordma_scatter_add_parts(struct rpcordma_scatter *scatter, const struct xdr_buf *buf,
				u32 offset, u32 length)
{
	return add_kvec(scatter, &buf->head[0], &offset, &length) &&
	       add_page_data(scatter, buf, &offset, &length) &&
	       add_kvec(scatter, &buf->tail[0], &offset, &length) && !length;
}

/* --- bulk mappings --- */

struct rpcordma_bulk {
	struct rpcordma_scatter scatter;
};

struct rpcordma_bulk *rpcordma_bulk_create(rpcordma_u32 pieces, enum rpcordma_alloc_how how)
{
	struct rpcordma_bulk *bulk;

	bulk = rpcordma_alloc_large(struct_size(bulk, scatter.entries, pieces), how);
	if (!bulk)
		return NULL;
	rpcordma_scatter_init(&bulk->scatter, pieces);
	/* Many chunks may be added, each beginning within the page in which the last one ended. */
	bulk->scatter.longest = LONGEST_RUN;
	return bulk;
}

void rpcordma_bulk_destroy(struct rpcordma_bulk *bulk)
{
	if (!bulk)
		return;
	rpcordma_bulk_unmap(bulk);
	rpcordma_free_large(bulk);
}

int rpcordma_bulk_add_pages(struct rpcordma_bulk *bulk, struct page **pages, rpcordma_u32 offset,
			    rpcordma_u32 length)
{
	if (!rpcordma_scatter_add_pages(&bulk->scatter, pages, offset, length))
		return -ENOSPC;
	return bulk->scatter.used;
}

int rpcordma_bulk_add_buf(struct rpcordma_bulk *bulk, const struct rpcordma_xdr_buf *buf,
			  rpcordma_u32 offset, rpcordma_u32 length)
{
	return rpcordma_scatter_add_buf(&bulk->scatter, (const struct xdr_buf *)buf, offset,
					length) ?
		       0 :
		       -ENOSPC;
}

int rpcordma_bulk_map(struct rpcordma_bulk *bulk, struct rpcordma_endpoint *ep,
		      enum rpcordma_dma direction, struct rpcordma_sge *sges, rpcordma_u32 room)
{
	const struct scatterlist *entry = bulk->scatter.entries;
	const u32 lkey = ep->pd->local_dma_lkey;
	int entries, i;

	if (bulk->scatter.mapped) {
		rpcordma_warn("a bulk mapping is unmapped before it is mapped again");
		return -ENOSPC;
	}
	if (!bulk->scatter.used)
		return 0;
	entries = rpcordma_scatter_map(&bulk->scatter, ep->id->device,
				       dma_direction(direction));
	if (entries < 0 || entries > room) {
		rpcordma_bulk_unmap(bulk);
		return entries < 0 ? entries : -ENOSPC;
	}
	/* An IOMMU may have merged entries. */
	for (i = 0; i < entries; i++, entry++)
		sges[i] = (struct rpcordma_sge){
			.addr = sg_dma_address(entry),
			.length = sg_dma_len(entry),
			.lkey = lkey,
		};
	return entries;
}

u32 rpcordma_bulk_pieces(const struct rpcordma_bulk *bulk, u32 *length)
{
	const struct scatterlist *entry = bulk->scatter.entries;
	unsigned int i;

	*length = 0;
	for (i = 0; i < bulk->scatter.mapped; i++)
		*length += entry[i].length;
	return bulk->scatter.mapped;
}

void rpcordma_bulk_unmap(struct rpcordma_bulk *bulk)
{
	rpcordma_scatter_unmap(&bulk->scatter);
	rpcordma_scatter_reset(&bulk->scatter);
}

/* Map @length bytes of @page, and of those behind it, from byte @offset on. False: there is no room for the mapping now. */
static __always_inline bool map_sge(struct ib_device *device, u32 lkey, enum rpcordma_dma direction,
				    struct page *page, u32 offset, u32 length,
				    struct rpcordma_sge *sge)
{
	sge->addr = ib_dma_map_page(device, page, offset, length, dma_direction(direction));
	sge->length = length;
	sge->lkey = lkey;
	return likely(!ib_dma_mapping_error(device, sge->addr));
}

/* As rpcordma_pages_map(). */
static noinline int map_runs(struct rpcordma_endpoint *ep, enum rpcordma_dma direction,
			     struct page **page, u32 offset, u32 length, struct rpcordma_sge *sges,
			     u32 room)
{
	struct ib_device *device = ep->id->device;
	const u32 lkey = ep->pd->local_dma_lkey;
	u32 count = 0, mapped, in_page;

	if (length > (u64)room * LONGEST_RUN)
		return 0;
	page += offset >> PAGE_SHIFT;
	offset = offset_in_page(offset);
	/* Nothing is mapped before all of it is known to fit: an address is that of a run's first page. */
	in_page = offset;
	do {
		if (count == room)
			return 0;
		if (unlikely(!*page)) {
			rpcordma_warn("absent pages are filled in before they are mapped");
			return -ENOSPC;
		}
		sges[count].addr = (uintptr_t)*page;
		sges[count].length = take_run(&page, in_page, length);
		length -= sges[count++].length;
		in_page = 0;
	} while (length);

	for (mapped = 0; mapped < count; mapped++) {
		struct rpcordma_sge *sge = &sges[mapped];

		if (!map_sge(device, lkey, direction, (struct page *)(uintptr_t)sge->addr, offset,
			     sge->length, sge)) {
			rpcordma_pages_unmap(ep, direction, sges, mapped);
			return -ENOMEM;
		}
		offset = 0;
	}
	return count;
}

int rpcordma_pages_map(struct rpcordma_endpoint *ep, enum rpcordma_dma direction,
		       struct page **pages, rpcordma_u32 offset, rpcordma_u32 length,
		       struct rpcordma_sge *sges, rpcordma_u32 room)
{
	const u32 in_page = offset_in_page(offset);
	struct page *page = NULL;

	/* Small transfers are of one page. */
	if (length <= PAGE_SIZE - in_page && room)
		page = pages[offset >> PAGE_SHIFT];
	if (!page)
		return map_runs(ep, direction, pages, offset, length, sges, room);
	return map_sge(ep->id->device, ep->pd->local_dma_lkey, direction, page, in_page, length, sges) ?
		       1 :
		       -ENOMEM;
}

/* As rpcordma_runs_map(), of runs that are not known, or as well. */
static noinline int find_runs(struct rpcordma_endpoint *ep, enum rpcordma_dma direction,
			      struct page **pages, struct rpcordma_runs *runs, u32 length,
			      struct rpcordma_sge *sges, u32 room)
{
	const int count = map_runs(ep, direction, pages, 0, length, sges, room);
	int i;

	runs->known = 0;
	for (i = 0; i < count && count <= RPCORDMA_RUNS; i++) {
		runs->pages[i] = PFN_UP(sges[i].length);
		runs->known += runs->pages[i];
	}
	return count;
}

/* Other pages in their place would be written to by a device. */
static void check_run(struct page **page, u32 count)
{
	u32 i;

	for (i = 1; i < count; i++)
		if (page[i] != page[0] + i)
			rpcordma_warn("who exchanges a page of a run says so");
}

int rpcordma_runs_map(struct rpcordma_endpoint *ep, enum rpcordma_dma direction, struct page **pages,
		      struct rpcordma_runs *runs, rpcordma_u32 length, struct rpcordma_sge *sges,
		      rpcordma_u32 room)
{
	struct ib_device *device = ep->id->device;
	const u32 lkey = ep->pd->local_dma_lkey;
	const u16 *run = runs->pages;
	struct rpcordma_sge *sge = sges;

	if (length > (u32)runs->known << PAGE_SHIFT || room < RPCORDMA_RUNS)
		return find_runs(ep, direction, pages, runs, length, sges, room);
	for (; length; sge++) {
		const u32 bytes = min_t(u32, length, *run << PAGE_SHIFT);

		if (IS_ENABLED(CONFIG_KASAN))
			check_run(pages, *run);
		if (!map_sge(device, lkey, direction, *pages, 0, bytes, sge)) {
			rpcordma_pages_unmap(ep, direction, sges, sge - sges);
			return -ENOMEM;
		}
		pages += *run++;
		length -= bytes;
	}
	return sge - sges;
}

void rpcordma_pages_unmap(struct rpcordma_endpoint *ep, enum rpcordma_dma direction,
			  const struct rpcordma_sge *sges, rpcordma_u32 count)
{
	for (; count; count--, sges++)
		ib_dma_unmap_page(ep->id->device, sges->addr, sges->length,
				  dma_direction(direction));
}

void rpcordma_buf_read(const struct rpcordma_xdr_buf *buf, rpcordma_u32 offset, void *to,
		       rpcordma_u32 length)
{
	if (read_bytes_from_xdr_buf((const struct xdr_buf *)buf, offset, to, length))
		rpcordma_warn("only what a message holds is read from it");
}
