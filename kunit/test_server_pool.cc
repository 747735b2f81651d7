// SPDX-License-Identifier: GPL-2.0-only
/*
 * What all connections share: module/server/pool. Over a port that keeps account of pages, bulk mappings
 * and memory (test_rdma_port.hh): what is left at the end of a case fails it.
 */
#include "kunit/test_rdma_random.hh"
#include "kunit/test_rdma_port.hh"
#include "kunit/testing.hh"
#include "module/server/pool.hh"

namespace rpcordma {
namespace {

constexpr u32 kPages = Transfer::kPages;
/* Transfers that a filled pool has. */
constexpr u32 kTransfers = 4;
/* The wish of a take that has no limit to speak of. */
constexpr u32 kPlenty = 100000;

/** A pool that nobody uses yet. At its end it is as at its start: nothing counted, wanted or lent. */
struct UnusedPool : ServerPool {
	ExactCopy before;

	UnusedPool() : before(bytes_of<ServerPool>(*this))
	{
		EXPECT_TRUE(init());
	}
	~UnusedPool()
	{
		exit();
		EXPECT_BYTES(bytes_of<ServerPool>(*this), before.bytes());
	}
};

/** A pool that a connection uses, filled. */
struct Pool : UnusedPool {
	explicit Pool(bool filled = true)
	{
		join();
		if (filled)
			refill();
	}
	~Pool()
	{
		leave();
	}
};

} // namespace

/* Idle, it has nothing; used, what a largest message takes; unused again, nothing. */
RPCORDMA_TEST(server_pool, join_and_leave)
{
	PortFixture c;
	UnusedPool pool;

	pool.refill();
	EXPECT_EQ(c.memory.pages, 0);
	pool.join();
	EXPECT_EQ(c.svc.refills, 1);
	EXPECT_EQ(c.memory.pages, 0);
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages);
	/* It is filled; the second connection changes nothing, nor does its end. */
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages);
	pool.join();
	EXPECT_EQ(c.svc.refills, 1);
	pool.leave();
	EXPECT_EQ(c.memory.pages, kPages);
	pool.give(pool.take(RPCORDMA_ALLOC_NOIO));
	EXPECT_EQ(c.dma.bulks, kTransfers);
	pool.leave();
	EXPECT_EQ(c.memory.pages, 0);
	EXPECT_EQ(c.dma.bulks, 0);
	/* A refill that was asked for before finds nobody. */
	pool.refill();
	EXPECT_EQ(c.memory.pages, 0);
	/* And again. */
	pool.join();
	EXPECT_EQ(c.svc.refills, 2);
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages);
	pool.leave();
}

/* What lies idle can be had back, but for a call's; and is there again when somebody finds too little. */
RPCORDMA_TEST(server_pool, shrink)
{
	PortFixture c;
	UnusedPool pool;

	EXPECT_EQ(pool.spare_pages(), 0);
	EXPECT_EQ(pool.shrink(100), 0);
	pool.join();
	pool.refill();
	/* All transfers but one; the pages of one call stay. */
	const u32 transfers = pool.spare_pages();
	EXPECT_GT(transfers, kTransfers - 1);
	EXPECT_LT(transfers, 20 * kTransfers);
	EXPECT_EQ(pool.shrink(~0u), transfers);
	EXPECT_EQ(c.dma.bulks, 1);
	EXPECT_EQ(c.memory.pages, kPages);
	EXPECT_EQ(pool.spare_pages(), 0);
	EXPECT_EQ(pool.shrink(100), 0);

	EXPECT_EQ(pool.take_sink(4 * kPages, kPlenty), nullptr);
	pool.refill();
	EXPECT_EQ(c.memory.pages, 4 * kPages);
	EXPECT_EQ(c.dma.bulks, 1);
	EXPECT_EQ(pool.spare_pages(), 3 * kPages);
	/* Two idle transfers: one stays for a call. */
	Transfer *one = pool.take(RPCORDMA_ALLOC_NOIO), *two = pool.take(RPCORDMA_ALLOC_NOIO);
	pool.give(one);
	pool.give(two);
	const u32 transfer = pool.spare_pages() - 3 * kPages;
	EXPECT_EQ(transfer * (kTransfers - 1), transfers);
	EXPECT_EQ(pool.shrink(10), 10);
	EXPECT_EQ(c.memory.pages, 4 * kPages - 10);
	/* They are not allocated again. */
	pool.refill();
	EXPECT_EQ(c.memory.pages, 4 * kPages - 10);
	EXPECT_EQ(pool.shrink(70), 70);
	EXPECT_EQ(c.dma.bulks, 2);
	EXPECT_EQ(pool.shrink(~0u), 3 * kPages - 80 + transfer);
	EXPECT_EQ(c.memory.pages, kPages);
	EXPECT_EQ(c.dma.bulks, 1);
	EXPECT_EQ(pool.spare_pages(), 0);

	/* What is lent counts: with it back, all are kept. */
	EXPECT_EQ(pool.take_sink(3 * kPages, kPlenty), nullptr);
	pool.refill();
	Transfer *lent = pool.take_sink(kPages, kPlenty);
	ASSERT_NE(lent, nullptr);
	const u32 all = c.memory.pages;
	EXPECT_EQ(pool.shrink(10), 10);
	pool.give(lent);
	EXPECT_EQ(c.memory.pages, all - 10);
	EXPECT_GT(pool.shrink(~0u), 0);
	EXPECT_EQ(c.memory.pages, kPages);

	/* Of a call under way nothing is taken. */
	Transfer *sink = pool.take_sink(kPages, kPlenty);
	ASSERT_NE(sink, nullptr);
	EXPECT_EQ(pool.shrink(~0u), 0);
	EXPECT_EQ(c.memory.pages, kPages);
	const u32 refills = c.svc.refills;
	EXPECT_EQ(pool.take_sink(1, kPlenty), nullptr);
	EXPECT_EQ(c.svc.refills, refills + 1);
	pool.give(sink);
	pool.refill();
	EXPECT_EQ(c.memory.pages, 2 * kPages);
	pool.leave();
	EXPECT_EQ(c.memory.pages, 0);
	EXPECT_EQ(pool.spare_pages(), 0);
}

RPCORDMA_TEST(server_pool, init_without_memory)
{
	PortFixture c;
	ServerPool pool;

	c.sync.locks_left = 0;
	EXPECT_FALSE(pool.init());
}

/* A transfer is used again, up to a number. */
RPCORDMA_TEST(server_pool, transfers)
{
	PortFixture c;
	Pool pool(false);
	Transfer *taken[80];

	/* As budgets have it: 22 KiB and 10 KiB, for which kmalloc() takes 32 and 16. */
	EXPECT_EQ(kTransferBytes, 48 * 1024);
	Transfer *first = pool.take(RPCORDMA_ALLOC_NOIO);
	ASSERT_NE(first, nullptr);
	EXPECT_NE(first->bulk, nullptr);
	EXPECT_EQ(first->page_count, 0);
	EXPECT_FALSE(first->writes);
	first->writes = true;
	pool.give(first);
	EXPECT_EQ(pool.take(RPCORDMA_ALLOC_ATOMIC), first);
	EXPECT_FALSE(first->writes);
	pool.give(first);

	for (Transfer *&transfer : taken)
		transfer = pool.take(RPCORDMA_ALLOC_NOIO);
	EXPECT_EQ(c.dma.bulks, 80);
	for (Transfer *transfer : taken)
		pool.give(transfer);
	EXPECT_EQ(c.dma.bulks, 64);
}

/* Without memory for either part, there is no transfer, and nothing is left behind. */
RPCORDMA_TEST(server_pool, no_transfer)
{
	for (const bool no_bulk : {false, true}) {
		TEST_NOTE("no bulk mapping", no_bulk);
		PortFixture c;
		Pool pool(false);
		u32 &left = no_bulk ? c.dma.bulks_left : c.memory.allocations_left;

		left = 0;
		EXPECT_EQ(pool.take(RPCORDMA_ALLOC_NOIO), nullptr);
		pool.refill();
		EXPECT_EQ(pool.take_sink(1, kPlenty), nullptr);
		EXPECT_EQ(c.dma.bulks, 0);
		left = kNoLimit;
		pool.refill();
		Transfer *sink = pool.take_sink(1, kPlenty);
		EXPECT_NE(sink, nullptr);
		pool.give(sink);
	}
}

/* A sink's transfer is never made for it: with all taken, more are wanted, twice as many. */
RPCORDMA_TEST(server_pool, more_transfers)
{
	PortFixture c;
	Pool pool;
	Transfer *taken[kTransfers];

	for (Transfer *&transfer : taken)
		ASSERT_NE(transfer = pool.take_sink(1, kPlenty), nullptr);
	EXPECT_EQ(c.dma.bulks, kTransfers);
	const u32 refills = c.svc.refills;
	EXPECT_EQ(pool.take_sink(1, kPlenty), nullptr);
	EXPECT_EQ(c.svc.refills, refills + 1);
	EXPECT_EQ(c.dma.bulks, kTransfers);
	pool.refill();
	EXPECT_EQ(c.dma.bulks, 3 * kTransfers);
	/* Without use for more pages there are no more. */
	EXPECT_EQ(c.memory.pages, kPages);
	Transfer *sink = pool.take_sink(1, kPlenty);
	EXPECT_NE(sink, nullptr);
	pool.give(sink);
	for (Transfer *transfer : taken)
		pool.give(transfer);
	pool.refill();
	EXPECT_EQ(c.dma.bulks, 3 * kTransfers);
}

RPCORDMA_TEST(server_pool, sinks)
{
	PortFixture c;
	Pool pool;
	const u32 refills = c.svc.refills;

	Transfer *sink = pool.take_sink(100, kPlenty);
	ASSERT_NE(sink, nullptr);
	EXPECT_EQ(sink->page_count, 100);
	for (u32 i = 0; i < 100; i++)
		ASSERT_NE(sink->pages[i], nullptr);
	EXPECT_EQ(c.svc.refills, refills);
	/* Less than half is left, but what is lent comes back: nothing is asked for. */
	Transfer *other = pool.take_sink(100, kPlenty);
	ASSERT_NE(other, nullptr);
	EXPECT_EQ(c.svc.refills, refills);
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages);
	pool.give(other);
	/* All there are go back, and are there again. */
	pool.give(sink);
	EXPECT_EQ(c.memory.pages, kPages);
	sink = pool.take_sink(kPages, kPlenty);
	ASSERT_NE(sink, nullptr);
	EXPECT_EQ(c.memory.pages, kPages);
	pool.give(sink);
}

/* A thread that took the sink may have had fewer pages to give in return. */
RPCORDMA_TEST(server_pool, missing_pages)
{
	PortFixture c;
	Pool pool;
	Transfer *sink = pool.take_sink(10, kPlenty);

	ASSERT_NE(sink, nullptr);
	for (u32 i = 0; i < 10; i += 3) {
		c.memory.free_page(sink->pages[i]);
		sink->pages[i] = nullptr;
	}
	pool.give(sink);
	EXPECT_EQ(c.memory.pages, kPages - 4);
	/* None of those that are missing comes out of it. */
	sink = pool.take_sink(kPages - 4, kPlenty);
	ASSERT_NE(sink, nullptr);
	for (u32 i = 0; i < kPages - 4; i++)
		ASSERT_NE(sink->pages[i], nullptr);
	/* Less than half comes back: more is asked for when the next call comes, in good time. */
	for (u32 i = 0; i < kPages / 2; i++) {
		c.memory.free_page(sink->pages[i]);
		sink->pages[i] = nullptr;
	}
	const u32 refills = c.svc.refills;
	pool.give(sink);
	sink = pool.take_sink(1, kPlenty);
	ASSERT_NE(sink, nullptr);
	EXPECT_EQ(c.svc.refills, refills + 1);
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages);
	pool.give(sink);
	EXPECT_EQ(c.memory.pages, kPages);
}

/* Neighbours come out one behind the other, whichever way round they went in: they are one piece of a mapping. */
RPCORDMA_TEST(server_pool, order)
{
	static constexpr u32 kMany = 40;
	PortFixture c;
	Pool pool;

	for (const bool backwards : {false, true}) {
		page *in_order[kMany];
		Transfer *sink = pool.take_sink(kMany, kPlenty);

		TEST_NOTE("backwards", backwards);
		ASSERT_NE(sink, nullptr);
		for (u32 i = 0; i < kMany; i++) {
			u32 below = 0;

			for (u32 j = 0; j < kMany; j++)
				below += std::uintptr_t(sink->pages[j]) <
					 std::uintptr_t(sink->pages[i]);
			in_order[below] = sink->pages[i];
		}
		for (u32 i = 0; i < kMany; i++)
			sink->pages[i] = in_order[backwards ? kMany - 1 - i : i];
		pool.give(sink);
		sink = pool.take_sink(kMany, kPlenty);
		ASSERT_NE(sink, nullptr);
		for (u32 i = 0; i < kMany; i++)
			EXPECT_EQ(sink->pages[i], in_order[i]);
		pool.give(sink);
	}
}

/* Too few pages: nothing is taken; the pool is to grow, up to the cap. */
RPCORDMA_TEST(server_pool, grows)
{
	PortFixture c;
	Pool pool;
	Transfer *one = pool.take_sink(kPages, kPlenty);
	const u32 refills = c.svc.refills;

	ASSERT_NE(one, nullptr);
	EXPECT_EQ(pool.take_sink(1, 700), nullptr);
	EXPECT_EQ(c.svc.refills, refills + 1);
	pool.refill();
	EXPECT_EQ(c.memory.pages, 2 * kPages);
	/* What was lent is part of what the pool wants. */
	pool.give(one);
	EXPECT_EQ(c.memory.pages, 2 * kPages);

	/* The cap, which is lower than twice that. */
	Transfer *two[] = {pool.take_sink(kPages, 700), pool.take_sink(kPages, 700)};
	EXPECT_EQ(pool.take_sink(1, 700), nullptr);
	pool.refill();
	EXPECT_EQ(c.memory.pages, 700);
	for (Transfer *sink : two)
		pool.give(sink);
	EXPECT_EQ(c.memory.pages, 700);
	/* The cap was lowered: no more than that is kept, or than one call needs that is larger. */
	Transfer *all = pool.take_sink(200, 10);
	ASSERT_NE(all, nullptr);
	Transfer *rest = pool.take_sink(kPages, 10);
	Transfer *last = pool.take_sink(700 - 200 - kPages, 10);
	EXPECT_EQ(pool.take_sink(200, 10), nullptr);
	pool.refill();
	EXPECT_EQ(c.memory.pages, 700);
	for (Transfer *sink : {all, rest, last})
		pool.give(sink);
	EXPECT_EQ(c.memory.pages, 200);
}

/* What a reply lay in may be page cache: it is released, never kept. */
RPCORDMA_TEST(server_pool, reply_pages)
{
	PortFixture c;
	Pool pool(false);
	Transfer *transfer = pool.take(RPCORDMA_ALLOC_NOIO);

	ASSERT_NE(transfer, nullptr);
	transfer->writes = true;
	for (; transfer->page_count < 5; transfer->page_count++)
		transfer->pages[transfer->page_count] = c.memory.new_page();
	transfer->pages[5] = nullptr;
	transfer->page_count++;
	pool.give(transfer);
	EXPECT_EQ(c.memory.pages, 0);
}

/* With the last connection gone, what comes back late goes. */
RPCORDMA_TEST(server_pool, late)
{
	PortFixture c;
	UnusedPool pool;

	pool.join();
	pool.refill();
	Transfer *sink = pool.take_sink(20, kPlenty);
	pool.leave();
	EXPECT_EQ(c.memory.pages, 20);
	pool.give(sink);
	EXPECT_EQ(c.memory.pages, 0);
	EXPECT_EQ(c.dma.bulks, 0);
}

/* The mapping ends before the pages are anybody else's. */
RPCORDMA_TEST(server_pool, mapped)
{
	PortFixture c;
	Pool pool;
	Transfer *sink = pool.take_sink(3, kPlenty);

	ASSERT_NE(sink, nullptr);
	EXPECT_EQ(rpcordma_bulk_add_pages(sink->bulk, sink->pages, 0, 600), 3);
	EXPECT_EQ(rpcordma_bulk_map(sink->bulk, c.verbs.endpoint(), RPCORDMA_DMA_FROM_DEVICE,
				    sink->local, Transfer::kPages),
		  3);
	pool.give(sink);
	EXPECT_EQ(c.dma.bulk_maps, 0);
}

/* No pages to be had, fewer than wanted, and no memory to keep them in. */
RPCORDMA_TEST(server_pool, refill_without_memory)
{
	PortFixture c;
	Pool pool(false);

	c.memory.pages_left = 0;
	pool.refill();
	EXPECT_EQ(c.memory.pages, 0);
	c.memory.pages_left = 70;
	pool.refill();
	EXPECT_EQ(c.memory.pages, 70);
	EXPECT_EQ(pool.take_sink(71, kPlenty), nullptr);
	Transfer *sink = pool.take_sink(70, kPlenty);
	ASSERT_NE(sink, nullptr);
	pool.give(sink);
	c.memory.pages_left = kNoLimit;
	/* That was a shortage, and no use for more. */
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages);
	sink = pool.take_sink(kPages, kPlenty);
	ASSERT_NE(sink, nullptr);
	EXPECT_EQ(pool.take_sink(1, kPlenty), nullptr);
	pool.give(sink);

	/* The first block has room for 508, of 520 that are wanted now. */
	c.memory.allocations_left = 0;
	pool.refill();
	EXPECT_EQ(c.memory.pages, 508);
	c.memory.allocations_left = kNoLimit;
	pool.refill();
	EXPECT_EQ(c.memory.pages, 2 * kPages);
}

RPCORDMA_TEST(server_pool, give_without_memory)
{
	PortFixture c;
	Pool pool(false);
	Transfer *transfer = pool.take(RPCORDMA_ALLOC_NOIO);

	for (; transfer->page_count < 5; transfer->page_count++)
		transfer->pages[transfer->page_count] = c.memory.new_page();
	c.memory.allocations_left = 0;
	pool.give(transfer);
	EXPECT_EQ(c.memory.pages, 0);
	c.memory.allocations_left = kNoLimit;
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages);
}

/* Takes and gives of all sizes, over many blocks: no page is ever two transfers'. */
RPCORDMA_TEST(server_pool, any)
{
	constexpr u32 kMost = 8;
	PortFixture c;
	Pool pool;
	Transfer *taken[kMost] = {};
	Random random(1);
	u32 sinks = 0, refused = 0;

	for (u32 step = 0; step < 3000; step++) {
		TEST_NOTE("step", step);
		const u32 i = random.below(kMost);

		if (taken[i]) {
			for (u32 n = 0; n < taken[i]->page_count; n++)
				ASSERT_EQ(taken[i]->pages[n]->data[0], i);
			pool.give(taken[i]);
			taken[i] = nullptr;
		} else {
			taken[i] = pool.take_sink(1 + random.below(kPages), 700);
			(taken[i] ? sinks : refused)++;
			if (taken[i])
				for (u32 n = 0; n < taken[i]->page_count; n++)
					taken[i]->pages[n]->data[0] = u8(i);
		}
		if (random.one_in(20))
			pool.refill();
		ASSERT_LE(c.memory.pages, 700);
	}
	EXPECT_GT(sinks, 500);
	EXPECT_GT(refused, 5);
	for (Transfer *transfer : taken)
		if (transfer)
			pool.give(transfer);
}

RPCORDMA_SUITE(server_pool, join_and_leave, shrink, init_without_memory, transfers, no_transfer,
	       more_transfers, sinks, missing_pages, order, grows, reply_pages, late, mapped,
	       refill_without_memory, give_without_memory, any);

} // namespace rpcordma
