// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit suite of compat/linux/bulk.c and scatter.h: pieces of memory, and how they are mapped.
 */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/sunrpc/xdr.h>

#include "compat/linux/scatter.h"
#include "compat/port/port.h"
#include "kunit/compat/device.h"
#include "kunit/compat/engine.h"

#define PAGES 40

static const u32 offsets[] = { 0, 1, 100, 4095, 4096, 4097, 8191, 12288 };
static const u32 lengths[] = { 1,     2,     4095,  4096,  4097,  8192,	 61440, 65435,
			       65436, 65535, 65536, 65537, 69632, 69633, 131072 };

/* In pairs that are the wrong way round: no two that follow one another are neighbours. */
static struct page **strangers(struct kunit *test, struct page **neighbours, u32 count)
{
	struct page **pages = kunit_kcalloc(test, count, sizeof(*pages), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, pages);
	for (i = 0; i < count; i++)
		pages[i] = neighbours[i ^ 1];
	return pages;
}

/* All PAGES of them in @count @runs, each shorter than 64 KiB, the last one first. */
static struct page **in_runs(struct kunit *test, struct page **neighbours, const u32 *runs,
			     u32 count)
{
	struct page **pages = kunit_kcalloc(test, PAGES, sizeof(*pages), GFP_KERNEL);
	u32 i, j, to = PAGES, from = 0;

	KUNIT_ASSERT_NOT_NULL(test, pages);
	for (i = 0; i < count; i++) {
		to -= runs[i];
		for (j = 0; j < runs[i]; j++)
			pages[to + j] = neighbours[from++];
	}
	KUNIT_ASSERT_EQ(test, to, 0);
	return pages;
}

static struct page **short_runs(struct kunit *test, struct page **neighbours)
{
	static const u32 runs[] = { 2, 3, 5, 7, 8, 6, 9 };

	return in_runs(test, neighbours, runs, ARRAY_SIZE(runs));
}

/* Pages that stand alone, an odd and an even number of them, between runs. */
static struct page **some_alone(struct kunit *test, struct page **neighbours)
{
	static const u32 runs[] = { 1, 1, 1, 4, 1, 2, 1, 1, 3, 1, 1, 1, 1, 1, 2, 2, 1, 5, 1, 1, 8 };

	return in_runs(test, neighbours, runs, ARRAY_SIZE(runs));
}

static struct rpcordma_scatter *make_scatter(struct kunit *test, u32 room)
{
	struct rpcordma_scatter *scatter =
		kunit_kzalloc(test, struct_size(scatter, entries, room), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, scatter);
	rpcordma_scatter_init(scatter, room);
	return scatter;
}

/* The entries are @length bytes of @pages from byte @offset on, in order. */
static void expect_bytes(struct kunit *test, const struct rpcordma_scatter *scatter,
			 struct page **pages, u32 offset, u32 length)
{
	u32 i, at = offset;

	for (i = 0; i < scatter->used; i++) {
		const struct scatterlist *entry = &scatter->entries[i];
		u32 left = entry->length;
		const u8 *byte = (const u8 *)page_address(sg_page((struct scatterlist *)entry)) +
				 entry->offset;

		KUNIT_EXPECT_GT(test, left, 0);
		while (left) {
			const u32 take = min_t(u32, left, PAGE_SIZE - offset_in_page(at));
			const u8 *wanted = (const u8 *)page_address(pages[at / PAGE_SIZE]) +
					   offset_in_page(at);

			KUNIT_ASSERT_PTR_EQ(test, byte, wanted);
			byte += take;
			at += take;
			left -= take;
		}
	}
	KUNIT_EXPECT_EQ(test, at, offset + length);
}

/* How few runs of neighbours of at most 64 KiB there are: a page that has begun counts whole. */
static u32 fewest(struct page **pages, u32 offset, u32 length)
{
	u32 count = 0, run = 0, at = offset;

	while (at < offset + length) {
		const u32 take = min_t(u32, offset + length - at, PAGE_SIZE - offset_in_page(at));

		if (!run || pages[at / PAGE_SIZE] != pages[at / PAGE_SIZE - 1] + 1 || run + take > SZ_64K) {
			/* A run that was not full takes a part of a page only as its last. */
			count++;
			run = 0;
		}
		run += take;
		at += take;
	}
	return count;
}

static void pieces(struct kunit *test)
{
	struct page **near = test_neighbours(test, PAGES);
	struct page **layouts[] = { near, strangers(test, near, PAGES), short_runs(test, near),
				    some_alone(test, near) };
	u32 o, l, which;

	for (which = 0; which < ARRAY_SIZE(layouts); which++) {
		struct page **pages = layouts[which];

		for (o = 0; o < ARRAY_SIZE(offsets); o++) {
			for (l = 0; l < ARRAY_SIZE(lengths); l++) {
				struct rpcordma_scatter *scatter = make_scatter(test, PAGES);

				KUNIT_ASSERT_TRUE(test, rpcordma_scatter_add_pages(scatter, pages,
										   offsets[o],
										   lengths[l]));
				expect_bytes(test, scatter, pages, offsets[o], lengths[l]);
				if (which || lengths[l] + offsets[o] % PAGE_SIZE <= SZ_64K)
					KUNIT_EXPECT_EQ(test, scatter->used,
							fewest(pages, offsets[o], lengths[l]));
				/* It ends where it ends: what is next extends it. */
				KUNIT_EXPECT_EQ(test, scatter->end,
						page_to_phys(pages[(offsets[o] + lengths[l] - 1) / PAGE_SIZE]) +
							offset_in_page(offsets[o] + lengths[l] - 1) + 1);
				kunit_kfree(test, scatter);
			}
		}
	}
}

static void no_run_is_longer(struct kunit *test)
{
	struct page **pages = test_neighbours(test, PAGES);
	struct rpcordma_scatter *scatter = make_scatter(test, PAGES);

	KUNIT_ASSERT_TRUE(test, rpcordma_scatter_add_pages(scatter, pages, 0, 33 * PAGE_SIZE));
	KUNIT_EXPECT_EQ(test, scatter->used, 3);
	KUNIT_EXPECT_EQ(test, scatter->entries[0].length, SZ_64K);
	KUNIT_EXPECT_EQ(test, scatter->entries[1].length, SZ_64K);
	KUNIT_EXPECT_EQ(test, scatter->entries[2].length, PAGE_SIZE);
}

static void no_room(struct kunit *test)
{
	struct page **near = test_neighbours(test, 8), **far = strangers(test, near, 8);
	struct rpcordma_scatter *scatter = make_scatter(test, 3);

	KUNIT_EXPECT_TRUE(test, rpcordma_scatter_add_pages(scatter, far, 0, 3 * PAGE_SIZE));
	KUNIT_EXPECT_FALSE(test, rpcordma_scatter_add_pages(scatter, far, 6 * PAGE_SIZE, 1));
	KUNIT_EXPECT_FALSE(test, rpcordma_scatter_add(scatter, far[7], 1, 0));
	rpcordma_scatter_reset(scatter);
	KUNIT_EXPECT_EQ(test, scatter->used, 0);
	KUNIT_EXPECT_FALSE(test, rpcordma_scatter_add_pages(scatter, far, 1, 3 * PAGE_SIZE));
	rpcordma_scatter_reset(scatter);
	KUNIT_EXPECT_TRUE(test, rpcordma_scatter_add_pages(scatter, far, 1, 3 * PAGE_SIZE - 1));
	rpcordma_scatter_reset(scatter);
	/* Nothing is nothing, of absent pages as well. */
	KUNIT_EXPECT_TRUE(test, rpcordma_scatter_add_pages(scatter, NULL, 0, 0));
	KUNIT_EXPECT_EQ(test, scatter->used, 0);
}

/* Pages of which none is behind another: an entry for each, up to the last one, which keeps its mark. */
static void room_for_all_alone(struct kunit *test)
{
	struct page **far = strangers(test, test_neighbours(test, 12), 12);
	u32 room, count;

	for (room = 1; room <= 11; room++) {
		for (count = 1; count <= 12; count++) {
			struct rpcordma_scatter *scatter = make_scatter(test, room);
			const u32 length = count * PAGE_SIZE - 1;

			KUNIT_EXPECT_EQ(test, rpcordma_scatter_add_pages(scatter, far, 0, length),
					count <= room);
			if (count <= room)
				expect_bytes(test, scatter, far, 0, length);
			KUNIT_EXPECT_TRUE(test, sg_is_last(&scatter->entries[room - 1]));
			kunit_kfree(test, scatter);
		}
	}
}

static void joining(struct kunit *test)
{
	struct page **pages = test_neighbours(test, 4);
	struct rpcordma_scatter *scatter = make_scatter(test, 4);

	KUNIT_EXPECT_TRUE(test, rpcordma_scatter_add(scatter, pages[0], 10, 20));
	KUNIT_EXPECT_TRUE(test, rpcordma_scatter_add(scatter, pages[0], 5, 30));
	KUNIT_EXPECT_EQ(test, scatter->used, 1);
	KUNIT_EXPECT_EQ(test, scatter->entries[0].length, 15);
	/* A byte between them, and memory that is before the other. */
	KUNIT_EXPECT_TRUE(test, rpcordma_scatter_add(scatter, pages[0], 1, 36));
	KUNIT_EXPECT_TRUE(test, rpcordma_scatter_add(scatter, pages[0], 1, 35));
	KUNIT_EXPECT_EQ(test, scatter->used, 3);
	rpcordma_scatter_reset(scatter);
	/* Behind a reset nothing is extended. */
	KUNIT_EXPECT_TRUE(test, rpcordma_scatter_add(scatter, pages[0], 1, 36));
	KUNIT_EXPECT_EQ(test, scatter->used, 1);
	KUNIT_EXPECT_EQ(test, scatter->entries[0].offset, 36);
	/* Over the end of a page, and up to the limit. */
	rpcordma_scatter_reset(scatter);
	scatter->longest = PAGE_SIZE + 7;
	KUNIT_EXPECT_TRUE(test, rpcordma_scatter_add(scatter, pages[1], PAGE_SIZE, 0));
	KUNIT_EXPECT_TRUE(test, rpcordma_scatter_add(scatter, pages[2], 7, 0));
	KUNIT_EXPECT_EQ(test, scatter->used, 1);
	KUNIT_EXPECT_TRUE(test, rpcordma_scatter_add(scatter, pages[2], 1, 7));
	KUNIT_EXPECT_EQ(test, scatter->used, 2);
}

/* Bytes [@offset, @offset + @length) of a message of three parts, read back from its pieces. */
static void message(struct kunit *test)
{
	struct page **near = test_neighbours(test, 6), **pages = strangers(test, near, 6);
	u8 *head = page_address(near[4]), *tail = page_address(near[5]) + 100;
	struct xdr_buf buf = {
		.head = { { .iov_base = head, .iov_len = 60 } },
		.tail = { { .iov_base = tail, .iov_len = 40 } },
		.pages = pages,
		.page_base = 4000,
		.page_len = 5000,
		.len = 5100,
	};
	u8 *whole = kunit_kmalloc(test, buf.len, GFP_KERNEL), *some = kunit_kmalloc(test, buf.len, GFP_KERNEL);
	u32 offset, length, i;

	KUNIT_ASSERT_NOT_NULL(test, whole);
	KUNIT_ASSERT_NOT_NULL(test, some);
	for (i = 0; i < buf.len; i++) {
		const u32 at = 4000 + i - 60;

		if (i < 60)
			whole[i] = head[i];
		else if (i < 5060)
			whole[i] = ((u8 *)page_address(pages[at / PAGE_SIZE]))[at % PAGE_SIZE];
		else
			whole[i] = tail[i - 5060];
	}
	for (offset = 0; offset <= buf.len; offset += offset < 150 || offset > 5000 ? 1 : 97) {
		for (length = 1; offset + length <= buf.len;
		     length += length < 100 || offset + length > 5000 ? 7 : 501) {
			struct rpcordma_scatter *scatter = make_scatter(test, 8);
			u32 have = 0;

			KUNIT_ASSERT_TRUE(test, rpcordma_scatter_add_buf(scatter, &buf, offset, length));
			for (i = 0; i < scatter->used; i++) {
				memcpy(some + have, sg_virt(&scatter->entries[i]),
				       scatter->entries[i].length);
				have += scatter->entries[i].length;
			}
			KUNIT_ASSERT_EQ(test, have, length);
			KUNIT_ASSERT_MEMEQ(test, some, whole + offset, length);
			kunit_kfree(test, scatter);

			rpcordma_buf_read((const struct rpcordma_xdr_buf *)&buf, offset, some, length);
			KUNIT_ASSERT_MEMEQ(test, some, whole + offset, length);
		}
	}
}

static void message_too_short(struct kunit *test)
{
	struct page **pages = test_neighbours(test, 2);
	u8 *head = page_address(pages[1]);
	struct xdr_buf buf = {
		.head = { { .iov_base = head, .iov_len = 60 } },
		.pages = pages,
		.page_len = 100,
		.len = 160,
	};
	struct rpcordma_scatter *scatter = make_scatter(test, 8);

	KUNIT_EXPECT_FALSE(test, rpcordma_scatter_add_buf(scatter, &buf, 0, 161));
	rpcordma_scatter_reset(scatter);
	KUNIT_EXPECT_FALSE(test, rpcordma_scatter_add_buf(scatter, &buf, 60, 101));
	rpcordma_scatter_reset(scatter);
	KUNIT_EXPECT_FALSE(test, rpcordma_scatter_add_buf(scatter, &buf, 160, 1));
	rpcordma_scatter_reset(scatter);
	KUNIT_EXPECT_TRUE(test, rpcordma_scatter_add_buf(scatter, &buf, 60, 100));
	KUNIT_EXPECT_EQ(test, scatter->used, 1);
}

static void mapping(struct kunit *test)
{
	struct test_device *device = test_device_make(test);
	struct page **pages = strangers(test, test_neighbours(test, 4), 4);
	struct rpcordma_scatter *scatter = make_scatter(test, 4);
	u32 i;

	KUNIT_ASSERT_TRUE(test, rpcordma_scatter_add_pages(scatter, pages, 5, 4 * PAGE_SIZE - 10));
	/* Harmless. */
	rpcordma_scatter_unmap(scatter);
	KUNIT_EXPECT_EQ(test, rpcordma_scatter_map(scatter, device->ib, DMA_FROM_DEVICE), 4);
	KUNIT_EXPECT_EQ(test, scatter->mapped, 4);
	KUNIT_EXPECT_EQ(test, scatter->direction, DMA_FROM_DEVICE);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, sg_dma_address(&scatter->entries[i]),
				(uintptr_t)sg_virt(&scatter->entries[i]));
	rpcordma_scatter_unmap(scatter);
	KUNIT_EXPECT_EQ(test, scatter->mapped, 0);
	KUNIT_EXPECT_EQ(test, scatter->used, 4);
}

static void bulk(struct kunit *test)
{
	struct test_device *device = test_device_make(test);
	struct page **pages = strangers(test, test_neighbours(test, 6), 6);
	struct rpcordma_sge sges[5] = {};
	struct rpcordma_bulk *bulk;
	u32 length;

	rpcordma_fault_arm("kvzalloc", 1);
	KUNIT_EXPECT_NULL(test, rpcordma_bulk_create(4, RPCORDMA_ALLOC_NOIO));
	rpcordma_fault_arm(NULL, 0);
	bulk = rpcordma_bulk_create(4, RPCORDMA_ALLOC_NOIO);
	KUNIT_ASSERT_NOT_NULL(test, bulk);

	KUNIT_EXPECT_EQ(test, rpcordma_bulk_map(bulk, &device->endpoint, RPCORDMA_DMA_TO_DEVICE, sges, 5), 0);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_add_pages(bulk, pages, 10, 100), 1);
	/* It begins where the last one ended. */
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_add_pages(bulk, pages, 110, 200), 1);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_add_pages(bulk, pages, PAGE_SIZE, 3 * PAGE_SIZE), 4);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_add_pages(bulk, pages, 5 * PAGE_SIZE, 1), -ENOSPC);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_pieces(bulk, &length), 0);
	KUNIT_EXPECT_EQ(test, length, 0);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_map(bulk, &device->endpoint, RPCORDMA_DMA_TO_DEVICE, sges, 4), 4);
	KUNIT_EXPECT_EQ(test, sges[0].addr, (uintptr_t)page_address(pages[0]) + 10);
	KUNIT_EXPECT_EQ(test, sges[0].length, 300);
	KUNIT_EXPECT_EQ(test, sges[3].addr, (uintptr_t)page_address(pages[3]));
	KUNIT_EXPECT_EQ(test, sges[3].length, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, sges[3].lkey, TEST_LKEY);
	KUNIT_EXPECT_EQ(test, sges[4].length, 0);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_pieces(bulk, &length), 4);
	KUNIT_EXPECT_EQ(test, length, 300 + 3 * PAGE_SIZE);
	rpcordma_bulk_unmap(bulk);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_pieces(bulk, &length), 0);

	/* After each failure it is empty again. */
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_add_pages(bulk, pages, 0, 4 * PAGE_SIZE), 4);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_map(bulk, &device->endpoint, RPCORDMA_DMA_TO_DEVICE, sges, 3),
			-ENOSPC);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_pieces(bulk, &length), 0);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_add_pages(bulk, pages, 0, PAGE_SIZE), 1);
	rpcordma_fault_arm("ib_dma_map_sg", 1);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_map(bulk, &device->endpoint, RPCORDMA_DMA_TO_DEVICE, sges, 5),
			-ENOMEM);
	rpcordma_fault_arm(NULL, 0);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_add_pages(bulk, pages, 0, PAGE_SIZE), 1);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_map(bulk, &device->endpoint, RPCORDMA_DMA_FROM_DEVICE, sges, 5), 1);
	/* With its mapping. */
	rpcordma_bulk_destroy(bulk);
	rpcordma_bulk_destroy(NULL);
}

static void bulk_of_message(struct kunit *test)
{
	struct page **pages = test_neighbours(test, 20);
	struct rpcordma_xdr_buf buf = {
		.head = { .base = page_address(pages[19]), .length = 8 },
		.pages = pages,
		.page_length = 18 * PAGE_SIZE,
		.len = 18 * PAGE_SIZE + 8,
	};
	struct rpcordma_bulk *bulk = rpcordma_bulk_create(3, RPCORDMA_ALLOC_ATOMIC);
	struct test_device *device = test_device_make(test);
	struct rpcordma_sge sges[3];

	KUNIT_ASSERT_NOT_NULL(test, bulk);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_add_buf(bulk, &buf, 0, buf.len), 0);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_map(bulk, &device->endpoint, RPCORDMA_DMA_TO_DEVICE, sges, 3), 3);
	/* A run is no longer, though all of them are neighbours. */
	KUNIT_EXPECT_EQ(test, sges[0].length, 8);
	KUNIT_EXPECT_EQ(test, sges[1].length, SZ_64K);
	KUNIT_EXPECT_EQ(test, sges[2].length, 2 * PAGE_SIZE);
	rpcordma_bulk_unmap(bulk);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_add_buf(bulk, &buf, 1, buf.len), -ENOSPC);
	rpcordma_bulk_unmap(bulk);
	/* Calls that follow one another do not make it longer either. */
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_add_pages(bulk, pages, 0, SZ_64K), 1);
	KUNIT_EXPECT_EQ(test, rpcordma_bulk_add_pages(bulk, pages, SZ_64K, 1), 2);
	rpcordma_bulk_destroy(bulk);
}

static void pages_by_runs(struct kunit *test)
{
	struct test_device *device = test_device_make(test);
	struct page **near = test_neighbours(test, PAGES);
	struct page **layouts[] = { near, strangers(test, near, PAGES), short_runs(test, near),
				    some_alone(test, near) };
	struct rpcordma_sge sges[PAGES + 1];
	u32 o, l, which;

	for (which = 0; which < ARRAY_SIZE(layouts); which++) {
		struct page **pages = layouts[which];

		for (o = 0; o < ARRAY_SIZE(offsets); o++) {
			for (l = 0; l < ARRAY_SIZE(lengths); l++) {
				u32 at = offsets[o], i;
				int count, again;

				count = rpcordma_pages_map(&device->endpoint, RPCORDMA_DMA_FROM_DEVICE,
							   pages, at, lengths[l], sges, PAGES);
				KUNIT_ASSERT_GT(test, count, 0);
				for (i = 0; i < count; i++) {
					KUNIT_EXPECT_EQ(test, sges[i].addr,
							(uintptr_t)page_address(pages[at / PAGE_SIZE]) +
								offset_in_page(at));
					KUNIT_EXPECT_LE(test, sges[i].length, SZ_64K);
					KUNIT_EXPECT_EQ(test, sges[i].lkey, TEST_LKEY);
					at += sges[i].length;
				}
				KUNIT_EXPECT_EQ(test, at, offsets[o] + lengths[l]);
				rpcordma_pages_unmap(&device->endpoint, RPCORDMA_DMA_FROM_DEVICE,
						     sges, count);
				/* As many as there are do, and one less do not. */
				again = rpcordma_pages_map(&device->endpoint, RPCORDMA_DMA_FROM_DEVICE,
							   pages, offsets[o], lengths[l], sges, count);
				KUNIT_EXPECT_EQ(test, again, count);
				rpcordma_pages_unmap(&device->endpoint, RPCORDMA_DMA_FROM_DEVICE,
						     sges, count);
				again = rpcordma_pages_map(&device->endpoint, RPCORDMA_DMA_FROM_DEVICE,
							   pages, offsets[o], lengths[l], sges, count - 1);
				KUNIT_EXPECT_EQ(test, again, 0);
				if (which)
					KUNIT_EXPECT_EQ(test, count, fewest(pages, offsets[o], lengths[l]));
				else
					KUNIT_EXPECT_LE(test, count, 1 + (lengths[l] + offsets[o] % PAGE_SIZE) / SZ_64K);
			}
		}
	}
}

static void pages_that_do_not_map(struct kunit *test)
{
	struct test_device *device = test_device_make(test);
	struct page **pages = strangers(test, test_neighbours(test, 4), 4);
	struct rpcordma_sge sges[4];
	u32 nth;

	for (nth = 1; nth <= 4; nth++) {
		rpcordma_fault_arm("ib_dma_map_page", nth);
		KUNIT_EXPECT_EQ(test,
				rpcordma_pages_map(&device->endpoint, RPCORDMA_DMA_TO_DEVICE, pages,
						   0, 4 * PAGE_SIZE, sges, 4),
				-ENOMEM);
		KUNIT_EXPECT_TRUE(test, rpcordma_fault_hit());
	}
	rpcordma_fault_arm("ib_dma_map_page", 5);
	KUNIT_EXPECT_EQ(test,
			rpcordma_pages_map(&device->endpoint, RPCORDMA_DMA_TO_DEVICE, pages, 0,
					   4 * PAGE_SIZE, sges, 4),
			4);
	rpcordma_fault_arm(NULL, 0);
	rpcordma_pages_unmap(&device->endpoint, RPCORDMA_DMA_TO_DEVICE, sges, 4);
}

static void runs_are_known(struct kunit *test)
{
	struct test_device *device = test_device_make(test);
	struct rpcordma_endpoint *ep = &device->endpoint;
	struct page **near = test_neighbours(test, PAGES);
	struct page **layouts[] = { near, strangers(test, near, PAGES), short_runs(test, near),
				    some_alone(test, near) };
	struct rpcordma_sge sges[PAGES], expected[PAGES];
	u32 room, which, first, l;

	for (which = 0; which < ARRAY_SIZE(layouts); which++) {
		struct page **pages = layouts[which];

		/* Of those that were known by a message of each length, as long as all others. */
		for (first = 0; first < ARRAY_SIZE(lengths); first++) {
			struct rpcordma_runs runs = {};
			int count = rpcordma_runs_map(ep, RPCORDMA_DMA_FROM_DEVICE, pages, &runs,
						      lengths[first], sges, PAGES);

			KUNIT_EXPECT_EQ(test, runs.known,
					count <= RPCORDMA_RUNS ? PFN_UP(lengths[first]) : 0);
			rpcordma_pages_unmap(ep, RPCORDMA_DMA_FROM_DEVICE, sges, count);
			for (l = 0; l < ARRAY_SIZE(lengths); l++) {
				for (room = RPCORDMA_RUNS - 2; room < RPCORDMA_RUNS + 2; room++) {
					const struct rpcordma_runs before = runs;
					int got;

					count = rpcordma_pages_map(ep, RPCORDMA_DMA_FROM_DEVICE,
								   pages, 0, lengths[l], expected,
								   room);
					rpcordma_pages_unmap(ep, RPCORDMA_DMA_FROM_DEVICE,
							     expected, count);
					got = rpcordma_runs_map(ep, RPCORDMA_DMA_FROM_DEVICE, pages,
								&runs, lengths[l], sges, room);
					KUNIT_ASSERT_EQ(test, got, count);
					KUNIT_EXPECT_EQ(test, memcmp(sges, expected,
								     count * sizeof(*sges)),
							0);
					rpcordma_pages_unmap(ep, RPCORDMA_DMA_FROM_DEVICE, sges,
							     got);
					runs = before;
				}
			}
		}
	}
}

static void known_runs_that_do_not_map(struct kunit *test)
{
	struct test_device *device = test_device_make(test);
	struct rpcordma_endpoint *ep = &device->endpoint;
	struct page **pages = strangers(test, test_neighbours(test, 4), 4);
	struct rpcordma_runs runs = {};
	struct rpcordma_sge sges[4];
	u32 nth;

	for (nth = 0; nth <= 4; nth++) {
		if (nth)
			rpcordma_fault_arm("ib_dma_map_page", nth);
		KUNIT_EXPECT_EQ(test,
				rpcordma_runs_map(ep, RPCORDMA_DMA_FROM_DEVICE, pages, &runs,
						  4 * PAGE_SIZE, sges, 4),
				nth ? -ENOMEM : 4);
		KUNIT_EXPECT_EQ(test, runs.known, 4);
		if (nth)
			KUNIT_EXPECT_TRUE(test, rpcordma_fault_hit());
		else
			rpcordma_pages_unmap(ep, RPCORDMA_DMA_FROM_DEVICE, sges, 4);
	}
	rpcordma_fault_arm(NULL, 0);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(pieces),
	KUNIT_CASE(no_run_is_longer),
	KUNIT_CASE(no_room),
	KUNIT_CASE(room_for_all_alone),
	KUNIT_CASE(joining),
	KUNIT_CASE(message),
	KUNIT_CASE(message_too_short),
	KUNIT_CASE(mapping),
	KUNIT_CASE(bulk),
	KUNIT_CASE(bulk_of_message),
	KUNIT_CASE(pages_by_runs),
	KUNIT_CASE(pages_that_do_not_map),
	KUNIT_CASE(runs_are_known),
	KUNIT_CASE(known_runs_that_do_not_map),
	{},
};

static struct kunit_suite suite = {
	.name = "compat_bulk",
	.test_cases = cases,
};

kunit_test_suite(suite);
