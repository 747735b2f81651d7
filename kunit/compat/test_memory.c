// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit suite of compat/linux/memory.c: memory, pages and time, as compat/port/base.h and svc.h promise them.
 */
#include <kunit/test.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "compat/port/base.h"
#include "compat/port/svc.h"
#include "kunit/compat/device.h"
#include "kunit/compat/engine.h"

/* What a service thread may have of pages, and a few more. */
#define MOST_PAGES 70

static const enum rpcordma_alloc_how ways[] = {
	RPCORDMA_ALLOC_NOIO,
	RPCORDMA_ALLOC_ATOMIC,
	RPCORDMA_ALLOC_SERVICE,
	RPCORDMA_ALLOC_TASK,
};

static void sizes(struct kunit *test)
{
	u32 i, size;

	KUNIT_EXPECT_EQ(test, rpcordma_page_size(), PAGE_SIZE);
	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		for (size = 1; size <= SZ_64K; size *= 2) {
			const u32 alignment = min_t(u32, size, PAGE_SIZE);
			u8 *memory = rpcordma_alloc(size, ways[i]);

			KUNIT_ASSERT_NOT_NULL(test, memory);
			KUNIT_EXPECT_NULL(test, memchr_inv(memory, 0, size));
			if (size >= 64)
				KUNIT_EXPECT_TRUE(test, IS_ALIGNED((uintptr_t)memory, alignment));
			/* The next of its size must not find what this one has left. */
			memset(memory, 0xa5, size);
			rpcordma_free(memory);
		}
	}
	rpcordma_free(NULL);
}

static void of_device(struct kunit *test)
{
	struct test_device *device = test_device_make(test);
	u8 *memory;

	memory = rpcordma_alloc_of(device->ib, 1000, RPCORDMA_ALLOC_NOIO);
	KUNIT_ASSERT_NOT_NULL(test, memory);
	KUNIT_EXPECT_NULL(test, memchr_inv(memory, 0, 1000));
	memset(memory, 0xa5, 1000);
	rpcordma_free(memory);
	memory = rpcordma_alloc_near(&device->endpoint, 1000, RPCORDMA_ALLOC_ATOMIC);
	KUNIT_ASSERT_NOT_NULL(test, memory);
	KUNIT_EXPECT_NULL(test, memchr_inv(memory, 0, 1000));
	rpcordma_free(memory);
	rpcordma_fault_arm("kzalloc_node", 1);
	KUNIT_EXPECT_NULL(test, rpcordma_alloc_near(&device->endpoint, 1, RPCORDMA_ALLOC_NOIO));
	rpcordma_fault_arm("kzalloc", 1);
	KUNIT_EXPECT_NULL(test, rpcordma_alloc(1, RPCORDMA_ALLOC_NOIO));
	rpcordma_fault_arm(NULL, 0);
}

/* Who must not sleep does not; lockdep and the scheduler's own check say so if it does. */
static void atomic(struct kunit *test)
{
	static DEFINE_SPINLOCK(lock);
	struct page *pages[3];
	void *memory, *large;
	u32 count;

	spin_lock(&lock);
	memory = rpcordma_alloc(100, RPCORDMA_ALLOC_ATOMIC);
	large = rpcordma_alloc_large(100, RPCORDMA_ALLOC_ATOMIC);
	count = rpcordma_pages_alloc(pages, 3, 0, RPCORDMA_ALLOC_ATOMIC);
	spin_unlock(&lock);
	KUNIT_EXPECT_NOT_NULL(test, memory);
	KUNIT_EXPECT_NOT_NULL(test, large);
	KUNIT_EXPECT_EQ(test, count, 3);
	rpcordma_free(memory);
	rpcordma_free_large(large);
	rpcordma_pages_release(pages, 3);
}

static void large(struct kunit *test)
{
	const unsigned int flags = current->flags;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		/* More than kmalloc() has: from single pages, but for who must not sleep. */
		const size_t size = ways[i] == RPCORDMA_ALLOC_ATOMIC ? SZ_64K :
								       KMALLOC_MAX_SIZE + 1;
		u8 *memory = rpcordma_alloc_large(size, ways[i]);

		KUNIT_ASSERT_NOT_NULL(test, memory);
		KUNIT_EXPECT_NULL(test, memchr_inv(memory, 0, size));
		rpcordma_free_large(memory);
		KUNIT_EXPECT_EQ(test, current->flags & PF_MEMALLOC_NOIO, flags & PF_MEMALLOC_NOIO);

		rpcordma_fault_arm(ways[i] == RPCORDMA_ALLOC_ATOMIC ? "kzalloc" : "kvzalloc", 1);
		KUNIT_EXPECT_NULL(test, rpcordma_alloc_large(1, ways[i]));
		KUNIT_EXPECT_EQ(test, current->flags & PF_MEMALLOC_NOIO, flags & PF_MEMALLOC_NOIO);
	}
	rpcordma_fault_arm(NULL, 0);
	rpcordma_free_large(NULL);
}

/* All @count of @pages are there, each once, and nobody's but ours. */
static void expect_own(struct kunit *test, struct page **pages, u32 count)
{
	u32 i, j;

	for (i = 0; i < count; i++) {
		KUNIT_ASSERT_NOT_NULL(test, pages[i]);
		KUNIT_EXPECT_EQ(test, page_ref_count(pages[i]), 1);
		KUNIT_EXPECT_FALSE(test, PageCompound(pages[i]));
		for (j = 0; j < i; j++)
			KUNIT_EXPECT_PTR_NE(test, pages[i], pages[j]);
	}
}

static void pages_of_each_count(struct kunit *test)
{
	struct page *pages[MOST_PAGES + 1];
	u32 count, i;

	for (count = 1; count <= MOST_PAGES; count++) {
		/* What stands there before is of no meaning. */
		memset(pages, 0xa5, sizeof(pages));
		KUNIT_ASSERT_EQ(test, rpcordma_pages_alloc(pages, count, 0, RPCORDMA_ALLOC_SERVICE),
				count);
		expect_own(test, pages, count);
		KUNIT_EXPECT_PTR_EQ(test, pages[count], (struct page *)0xa5a5a5a5a5a5a5a5);
		/* Runs of 64 KiB while they fit, then of half of that, and so on. */
		for (i = 1; i < count; i++) {
			const u32 run = 1 << min_t(u32, ilog2(count - round_down(i, 16)), 4);

			if (i % 16 && i % 16 < run)
				KUNIT_EXPECT_PTR_EQ(test, pages[i], pages[i - 1] + 1);
		}
		rpcordma_pages_release(pages, count);
	}
}

static void pages_elsewhere(struct kunit *test)
{
	struct page *pages[5];

	/* A device may be of no node. */
	KUNIT_EXPECT_EQ(test, rpcordma_pages_alloc(pages, 5, ~0u, RPCORDMA_ALLOC_NOIO), 5);
	expect_own(test, pages, 5);
	rpcordma_pages_release(pages, 5);
	KUNIT_EXPECT_EQ(test, rpcordma_pages_alloc(pages, 5, MAX_NUMNODES, RPCORDMA_ALLOC_NOIO), 5);
	rpcordma_pages_release(pages, 5);
}

static void pages_without_runs(struct kunit *test)
{
	struct page *pages[MOST_PAGES];
	u32 nth;

	/* Each of the runs of 64 KiB in turn, and of what is behind them. */
	for (nth = 1; nth <= 6; nth++) {
		rpcordma_fault_arm("alloc_pages_node", nth);
		KUNIT_EXPECT_EQ(test,
				rpcordma_pages_alloc(pages, MOST_PAGES, 0, RPCORDMA_ALLOC_SERVICE),
				MOST_PAGES);
		KUNIT_EXPECT_TRUE(test, rpcordma_fault_hit());
		rpcordma_fault_arm(NULL, 0);
		expect_own(test, pages, MOST_PAGES);
		rpcordma_pages_release(pages, MOST_PAGES);
	}
}

static void too_few_pages(struct kunit *test)
{
#ifdef HAVE_ALLOC_PAGES_BULK
	const char *bulk = "alloc_pages_bulk_node";
#else
	const char *bulk = "alloc_pages_bulk_array_node";
#endif
	struct page *pages[19];

	rpcordma_fault_arm(bulk, 1);
	KUNIT_EXPECT_EQ(test, rpcordma_pages_alloc(pages, 1, 0, RPCORDMA_ALLOC_ATOMIC), 0);
	KUNIT_EXPECT_NULL(test, pages[0]);
	rpcordma_fault_arm(bulk, 1);
	/* 16 in a run, 2 in another, and one by itself. */
	KUNIT_EXPECT_EQ(test, rpcordma_pages_alloc(pages, 19, 0, RPCORDMA_ALLOC_ATOMIC), 18);
	rpcordma_fault_arm(NULL, 0);
	expect_own(test, pages, 18);
	KUNIT_EXPECT_NULL(test, pages[18]);
	rpcordma_pages_release(pages, 19);
}

static void release(struct kunit *test)
{
	struct page *pages[12], *kept[12];
	u32 i, absent;

	/* Each pattern of absent pages of these. */
	for (absent = 0; absent < 1 << ARRAY_SIZE(pages); absent += 37) {
		KUNIT_ASSERT_EQ(test, rpcordma_pages_alloc(kept, 12, 0, RPCORDMA_ALLOC_SERVICE), 12);
		for (i = 0; i < 12; i++) {
			get_page(kept[i]);
			pages[i] = absent & 1 << i ? NULL : kept[i];
		}
		rpcordma_pages_release(pages, 12);
		for (i = 0; i < 12; i++) {
			KUNIT_EXPECT_EQ(test, page_ref_count(kept[i]), absent & 1 << i ? 2 : 1);
			put_page(kept[i]);
			if (absent & 1 << i)
				put_page(kept[i]);
		}
	}
	rpcordma_pages_release(pages, 0);
}

static void references(struct kunit *test)
{
	struct page *pages[20];
	u32 count, i;

	KUNIT_ASSERT_EQ(test, rpcordma_pages_alloc(pages, 20, 0, RPCORDMA_ALLOC_SERVICE), 20);
	for (count = 0; count <= 20; count++) {
		KUNIT_EXPECT_EQ(test, rpcordma_pages_kept(pages, count), 0);
		for (i = 0; i < count; i++) {
			get_page(pages[i]);
			KUNIT_EXPECT_EQ(test, rpcordma_pages_kept(pages, count), 1);
			get_page(pages[i]);
			KUNIT_EXPECT_EQ(test, rpcordma_pages_kept(pages, count), 2);
			put_page(pages[i]);
			put_page(pages[i]);
		}
	}
	rpcordma_pages_release(pages, 20);
}

static void writing(struct kunit *test)
{
	static const u32 offsets[] = { 0, 1, 4095, 4096, 4097, 8191 };
	static const u32 lengths[] = { 0, 1, 2, 4095, 4096, 4097, 8192 };
	struct page **pages = test_neighbours(test, 4);
	struct page *turned[4] = { pages[2], pages[0], pages[3], pages[1] };
	u8 *text = kunit_kmalloc(test, SZ_8K, GFP_KERNEL);
	u32 i, o, l;

	KUNIT_ASSERT_NOT_NULL(test, text);
	for (i = 0; i < SZ_8K; i++)
		text[i] = 255 - test_byte(i);
	for (o = 0; o < ARRAY_SIZE(offsets); o++) {
		for (l = 0; l < ARRAY_SIZE(lengths); l++) {
			u32 at, wrong = 0;

			for (i = 0; i < 4; i++)
				memset(rpcordma_page_address(turned[i]), 0, PAGE_SIZE);
			rpcordma_pages_write(turned, offsets[o], text, lengths[l]);
			for (at = 0; at < SZ_16K; at++) {
				const u8 *page = rpcordma_page_address(turned[at / PAGE_SIZE]);
				const bool in = at >= offsets[o] && at < offsets[o] + lengths[l];

				wrong += page[at % PAGE_SIZE] != (in ? text[at - offsets[o]] : 0);
			}
			KUNIT_EXPECT_EQ_MSG(test, wrong, 0, "%u bytes at %u", lengths[l], offsets[o]);
		}
	}
}

static void the_machine(struct kunit *test)
{
	struct page **pages = test_neighbours(test, 1);

	KUNIT_EXPECT_EQ(test, rpcordma_memory_size(), (u64)totalram_pages() * PAGE_SIZE);
	KUNIT_EXPECT_GE(test, rpcordma_node_count(), 1);
	KUNIT_EXPECT_LT(test, rpcordma_node(), rpcordma_node_count());
	KUNIT_EXPECT_EQ(test, rpcordma_page_node(pages[0]), page_to_nid(pages[0]));
	KUNIT_EXPECT_EQ(test, rpcordma_nodes_differ(), num_online_nodes() > 1);
	KUNIT_EXPECT_PTR_EQ(test, rpcordma_page_address(pages[0]), page_address(pages[0]));
}

static void the_clock(struct kunit *test)
{
	const u64 before = ktime_get_ns(), now = rpcordma_now_ms(), after = ktime_get_ns();

	KUNIT_EXPECT_GE(test, now, div_u64(before, NSEC_PER_MSEC));
	KUNIT_EXPECT_LE(test, now, div_u64(after, NSEC_PER_MSEC));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(sizes),
	KUNIT_CASE(of_device),
	KUNIT_CASE(atomic),
	KUNIT_CASE(large),
	KUNIT_CASE(pages_of_each_count),
	KUNIT_CASE(pages_elsewhere),
	KUNIT_CASE(pages_without_runs),
	KUNIT_CASE(too_few_pages),
	KUNIT_CASE(release),
	KUNIT_CASE(references),
	KUNIT_CASE(writing),
	KUNIT_CASE(the_machine),
	KUNIT_CASE(the_clock),
	{},
};

static struct kunit_suite suite = {
	.name = "compat_memory",
	.test_cases = cases,
};

kunit_test_suite(suite);
