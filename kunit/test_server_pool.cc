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
/* The least sink, and its pages. */
constexpr u32 kSmall = Transfer::pages_of(1);
/* What a filled pool starts with: one of each size. */
constexpr u32 kFirst = kSmall + Transfer::pages_of(2) + Transfer::pages_of(3) + kPages;
static_assert(Transfer::kSizes == 5);
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

/** A pool that a connection uses, with one sink, of the largest size. */
struct Pool : UnusedPool {
	explicit Pool(bool filled = true)
	{
		join();
		if (!filled)
			return;
		refill();
		(void)shrink(~0u);
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
	EXPECT_EQ(c.memory.pages, kFirst);
	/* It is filled; the second connection changes nothing, nor does its end. */
	pool.refill();
	EXPECT_EQ(c.memory.pages, kFirst);
	pool.join();
	EXPECT_EQ(c.svc.refills, 1);
	pool.leave();
	EXPECT_EQ(c.memory.pages, kFirst);
	pool.give(pool.take(Transfer::kPages, RPCORDMA_ALLOC_NOIO));
	EXPECT_EQ(c.dma.bulks, 5);
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
	EXPECT_EQ(c.memory.pages, kFirst);
	pool.leave();
}

/* What lies idle can be had back, but for a largest call's; and is there again when somebody finds none. */
RPCORDMA_TEST(server_pool, shrink)
{
	PortFixture c;
	UnusedPool pool;

	EXPECT_EQ(pool.spare_pages(), 0);
	EXPECT_EQ(pool.shrink(100), 0);
	pool.join();
	pool.refill();
	const u32 smaller = pool.spare_pages();
	EXPECT_GT(smaller, kFirst - kPages);
	EXPECT_EQ(pool.shrink(~0u), smaller);
	EXPECT_EQ(c.memory.pages, kPages);
	EXPECT_EQ(pool.spare_pages(), 0);
	EXPECT_EQ(pool.shrink(100), 0);
	/* Without pages. */
	pool.give(pool.take(Transfer::kPages, RPCORDMA_ALLOC_NOIO));
	const u32 bare = pool.spare_pages();
	EXPECT_GT(bare, 0);
	EXPECT_EQ(smaller, kFirst - kPages + 3 * bare);

	/* One largest more, and a small one. */
	Transfer *sinks[] = {pool.take_sink(kPages, kPlenty), nullptr, nullptr};
	EXPECT_EQ(pool.take_sink(kPages, kPlenty), nullptr);
	EXPECT_EQ(pool.take_sink(1, kPlenty), nullptr);
	pool.refill();
	EXPECT_EQ(c.memory.pages, 2 * kPages + kSmall);
	/* Of a call under way nothing is taken. */
	EXPECT_EQ(pool.spare_pages(), bare + kSmall + bare);
	pool.give(sinks[0]);
	EXPECT_EQ(pool.spare_pages(), 3 * bare + kPages + kSmall);
	/* As much as is asked for, or a little more; what is the least loss first. */
	EXPECT_EQ(pool.shrink(1), bare);
	EXPECT_EQ(pool.shrink(1), bare + kSmall);
	EXPECT_EQ(c.memory.pages, 2 * kPages);
	/* They are not made again. */
	pool.refill();
	EXPECT_EQ(c.memory.pages, 2 * kPages);
	EXPECT_EQ(pool.shrink(~0u), bare + kPages);
	EXPECT_EQ(c.memory.pages, kPages);
	EXPECT_EQ(c.dma.bulks, 1);
	EXPECT_EQ(pool.spare_pages(), 0);
	EXPECT_EQ(pool.shrink(100), 0);
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages);

	/* Until somebody has use for them. */
	sinks[0] = pool.take_sink(1, kPlenty);
	EXPECT_NE(sinks[0], nullptr);
	EXPECT_EQ(pool.shrink(~0u), 0);
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages + kSmall);
	pool.give(sinks[0]);
	pool.leave();
	EXPECT_EQ(c.memory.pages, 0);
	EXPECT_EQ(pool.spare_pages(), 0);
}

RPCORDMA_TEST(server_pool, init_without_memory)
{
	PortFixture c;
	ServerPool pool;

	for (u32 locks = 0;; locks++) {
		TEST_NOTE("locks", locks);
		c.sync.locks_left = locks;
		if (pool.init())
			break;
		EXPECT_EQ(c.sync.locks, 0);
		ASSERT_LT(locks, 100);
	}
	pool.exit();
	EXPECT_EQ(c.sync.locks, 0);
}

/* A transfer is used again, up to a number. */
RPCORDMA_TEST(server_pool, transfers)
{
	PortFixture c;
	Pool pool(false);
	Transfer *taken[80];

	/* As budgets have it: 22 KiB and 10 KiB, for which kmalloc() takes 32 and 16. */
	EXPECT_EQ(kTransferBytes, 48 * 1024);
	Transfer *first = pool.take(Transfer::kPages, RPCORDMA_ALLOC_NOIO);
	ASSERT_NE(first, nullptr);
	EXPECT_NE(first->bulk, nullptr);
	EXPECT_EQ(first->page_count, 0);
	EXPECT_FALSE(first->writes);
	first->writes = true;
	pool.give(first);
	EXPECT_EQ(pool.take(Transfer::kPages, RPCORDMA_ALLOC_ATOMIC), first);
	EXPECT_FALSE(first->writes);
	pool.give(first);

	for (Transfer *&transfer : taken)
		transfer = pool.take(Transfer::kPages, RPCORDMA_ALLOC_NOIO);
	EXPECT_EQ(c.dma.bulks, 80);
	for (Transfer *transfer : taken)
		pool.give(transfer);
	EXPECT_EQ(c.dma.bulks, 64);
}

/* What has room for the largest payload is made for that alone, and few are kept: each is 128 KiB. */
RPCORDMA_TEST(server_pool, large_transfers)
{
	PortFixture c;
	Pool pool(false);
	Transfer *taken[6];

	for (Transfer *&transfer : taken) {
		transfer = pool.take(Transfer::kPages + 1, RPCORDMA_ALLOC_NOIO);
		ASSERT_NE(transfer, nullptr);
		EXPECT_EQ(transfer->room, Transfer::kLargePages);
		EXPECT_EQ(transfer->stock, 0);
	}
	EXPECT_EQ(pool.spare_pages(), 0);
	/* What it is given is released: it is no sink. */
	taken[0]->pages[Transfer::kLargePages - 1] = c.memory.new_page();
	taken[0]->page_count = Transfer::kLargePages;
	for (Transfer *transfer : taken)
		pool.give(transfer);
	EXPECT_EQ(c.memory.pages, 0);
	EXPECT_EQ(c.dma.bulks, 4);
	EXPECT_EQ(pool.spare_pages(), 4 * 32);
	EXPECT_EQ(pool.lent_pages(), 0);
	/* Others are as they were, and neither serves for the other. */
	Transfer *usual = pool.take(Transfer::kPages, RPCORDMA_ALLOC_NOIO);
	ASSERT_NE(usual, nullptr);
	EXPECT_EQ(usual->room, Transfer::kPages);
	EXPECT_EQ(c.dma.bulks, 5);
	Transfer *large = pool.take(Transfer::kLargePages, RPCORDMA_ALLOC_ATOMIC);
	EXPECT_EQ(large, taken[3]);
	EXPECT_EQ(c.dma.bulks, 5);
	pool.give(usual);
	pool.give(large);
	EXPECT_EQ(pool.shrink(1), 12);
	EXPECT_EQ(pool.shrink(33), 64);
	EXPECT_EQ(pool.shrink(~0u), 64);
	EXPECT_EQ(c.dma.bulks, 0);
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
		EXPECT_EQ(pool.take(Transfer::kPages, RPCORDMA_ALLOC_NOIO), nullptr);
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
	Transfer *taken[7];

	/* None of its size: a larger one serves, and one is made. */
	u32 refills = c.svc.refills;
	taken[0] = pool.take_sink(1, kPlenty);
	ASSERT_NE(taken[0], nullptr);
	EXPECT_EQ(taken[0]->stock, kPages);
	EXPECT_EQ(c.svc.refills, refills + 1);
	EXPECT_EQ(c.dma.bulks, 1);
	for (const u32 wanted : {1, 2, 4}) {
		pool.refill();
		EXPECT_EQ(c.memory.pages, kPages + wanted * kSmall);
		pool.refill();
		EXPECT_EQ(c.memory.pages, kPages + wanted * kSmall);
		refills = c.svc.refills;
		for (u32 i = wanted / 2; i < wanted; i++) {
			taken[1 + i] = pool.take_sink(kSmall, kPlenty);
			ASSERT_NE(taken[1 + i], nullptr);
			EXPECT_EQ(taken[1 + i]->stock, kSmall);
		}
		EXPECT_EQ(c.svc.refills, refills);
		EXPECT_EQ(pool.take_sink(1, kPlenty), nullptr);
		EXPECT_EQ(c.svc.refills, refills + 1);
	}
	EXPECT_EQ(pool.lent_pages(), kPages + 4 * kSmall);
	for (u32 i = 0; i < 5; i++)
		pool.give(taken[i]);
	EXPECT_EQ(pool.lent_pages(), 0);
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages + 8 * kSmall);
}

/* Each sink has the pages it needs, and not many times as many. */
RPCORDMA_TEST(server_pool, sizes)
{
	for (u32 pages = 1; pages <= kPages; pages++) {
		const u32 has = Transfer::pages_of(Transfer::size_for(pages));

		TEST_NOTE("pages", pages);
		EXPECT_GE(has, pages);
		EXPECT_LE(has, 4 * pages + kSmall);
	}
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
	/* What is there goes back, and is there again. */
	pool.give(sink);
	EXPECT_EQ(c.memory.pages, kPages);
	sink = pool.take_sink(kPages, kPlenty);
	ASSERT_NE(sink, nullptr);
	EXPECT_EQ(c.memory.pages, kPages);
	pool.give(sink);
	EXPECT_EQ(c.svc.refills, refills);
}

/* One hold of a lock to take, one to give, however many pages; a reply's transfer likewise. */
RPCORDMA_TEST(server_pool, holds)
{
	PortFixture c;
	Pool pool;

	u32 holds = c.sync.holds;
	Transfer *transfer = pool.take_sink(kPages, kPlenty);
	ASSERT_NE(transfer, nullptr);
	EXPECT_EQ(c.sync.holds, holds + 1);
	pool.give(transfer);
	EXPECT_EQ(c.sync.holds, holds + 2);

	pool.give(pool.take(Transfer::kPages, RPCORDMA_ALLOC_NOIO));
	holds = c.sync.holds;
	pool.give(pool.take(Transfer::kPages, RPCORDMA_ALLOC_NOIO));
	EXPECT_EQ(c.sync.holds, holds + 2);
}

/* A thread that took the sink may have had fewer pages to give in return. */
RPCORDMA_TEST(server_pool, missing_pages)
{
	PortFixture c;
	Pool pool;
	Transfer *sink = pool.take_sink(69, kPlenty);

	ASSERT_NE(sink, nullptr);
	for (u32 i = 0; i < 10; i += 3) {
		c.memory.put_page(sink->pages[i]);
		sink->pages[i] = nullptr;
	}
	const u32 refills = c.svc.refills;
	pool.give(sink);
	EXPECT_EQ(c.memory.pages, kPages - 4);
	EXPECT_EQ(c.svc.refills, refills + 1);
	/* It is nobody's until it has them. */
	EXPECT_EQ(pool.lent_pages(), 0);
	EXPECT_EQ(pool.take_sink(kPages, kPlenty), nullptr);
	EXPECT_EQ(c.svc.refills, refills + 2);
	c.memory.pages_left = 3;
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages - 1);
	EXPECT_EQ(pool.take_sink(kPages, kPlenty), nullptr);
	c.memory.pages_left = kNoLimit;
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages);
	sink = pool.take_sink(kPages, kPlenty);
	ASSERT_NE(sink, nullptr);
	for (u32 i = 0; i < kPages; i++)
		ASSERT_NE(sink->pages[i], nullptr);
	/* Memory is short, or the pool's last user gone: what lacks pages goes too. */
	for (const bool last : {false, true}) {
		for (u32 i = 0; i < kPages / 2; i++) {
			c.memory.put_page(sink->pages[i]);
			sink->pages[i] = nullptr;
		}
		pool.give(sink);
		EXPECT_EQ(c.memory.pages, kPages / 2);
		if (last)
			break;
		EXPECT_GT(pool.spare_pages(), 0);
		EXPECT_GT(pool.shrink(~0u), kPages / 2);
		EXPECT_EQ(c.memory.pages, 0);
		EXPECT_EQ(pool.take_sink(kPages, kPlenty), nullptr);
		pool.refill();
		sink = pool.take_sink(kPages, kPlenty);
		ASSERT_NE(sink, nullptr);
	}
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

/* A sink is of the node of the CPU that takes it; pages of another node, a thread's, do not stay. */
RPCORDMA_TEST(server_pool, nodes)
{
	PortFixture c;
	Pool pool;

	c.memory.node = 1;
	EXPECT_EQ(pool.take_sink(1, kPlenty), nullptr);
	c.memory.node = 0;
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages + kSmall);
	c.memory.node = 1;
	Transfer *sink = pool.take_sink(kSmall, kPlenty);
	ASSERT_NE(sink, nullptr);
	for (u32 i = 0; i < kSmall; i++)
		EXPECT_EQ(sink->pages[i]->node, 1);
	/* A thread has pages of the node, but for where that had none. */
	sink->pages[1]->node = sink->pages[2]->node = 0;
	sink->page_count = 4;
	c.memory.node = 0;
	pool.give(sink);
	EXPECT_EQ(c.memory.pages, kPages + kSmall - 2);
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages + kSmall);
	c.memory.node = 1;
	sink = pool.take_sink(kSmall, kPlenty);
	ASSERT_NE(sink, nullptr);
	for (u32 i = 0; i < kSmall; i++)
		EXPECT_EQ(sink->pages[i]->node, 1);
	pool.give(sink);
	/* One largest of the first node stays, and nothing else. */
	(void)pool.shrink(~0u);
	EXPECT_EQ(c.memory.pages, kPages);
	c.memory.node = 0;
}

/* A node without pages is not asked after each use: pages of another one are kept, for a while. */
RPCORDMA_TEST(server_pool, full_node)
{
	PortFixture c;
	Pool pool;
	u32 uses = 0;

	c.memory.full_node = 1;
	c.memory.node = 1;
	EXPECT_EQ(pool.take_sink(kSmall, kPlenty), nullptr);
	pool.refill();
	const u32 made = c.memory.pages;
	for (;; uses++) {
		Transfer *sink = pool.take_sink(kSmall, kPlenty);

		ASSERT_NE(sink, nullptr);
		EXPECT_EQ(sink->pages[0]->node, 2);
		ASSERT_LT(uses, 1000);
		pool.give(sink);
		if (c.memory.pages < made)
			break;
	}
	EXPECT_GT(uses, 100);
	/* It has some again. */
	c.memory.full_node = kNoLimit;
	pool.refill();
	EXPECT_EQ(c.memory.pages, made);
	for (u32 i = 0; i < 3; i++) {
		Transfer *sink = pool.take_sink(kSmall, kPlenty);

		ASSERT_NE(sink, nullptr);
		EXPECT_EQ(sink->pages[0]->node, 1);
		sink->pages[0]->node = 2;
		pool.give(sink);
		EXPECT_EQ(c.memory.pages, made - 1);
		pool.refill();
	}
	c.memory.node = 0;
}

/* None is there: the pool is to grow, up to the cap. */
RPCORDMA_TEST(server_pool, grows)
{
	PortFixture c;
	Pool pool;
	Transfer *one = pool.take_sink(kPages, kPlenty);
	const u32 refills = c.svc.refills;

	ASSERT_NE(one, nullptr);
	EXPECT_EQ(pool.take_sink(kPages, 700), nullptr);
	EXPECT_EQ(c.svc.refills, refills + 1);
	pool.refill();
	EXPECT_EQ(c.memory.pages, 2 * kPages);
	/* What was lent is part of what the pool wants. */
	pool.give(one);
	EXPECT_EQ(c.memory.pages, 2 * kPages);

	/* Another would be more than the cap; but there is room for smaller ones, and for one of each size. */
	Transfer *two[] = {pool.take_sink(kPages, 700), pool.take_sink(kPages, 700)};
	EXPECT_EQ(pool.take_sink(kPages, 700), nullptr);
	pool.refill();
	EXPECT_EQ(c.memory.pages, 2 * kPages);
	EXPECT_EQ(pool.take_sink(68, 700), nullptr);
	pool.refill();
	EXPECT_EQ(c.memory.pages, 2 * kPages + 68);
	Transfer *middle = pool.take_sink(21, 700);
	ASSERT_NE(middle, nullptr);
	EXPECT_EQ(pool.take_sink(21, 700), nullptr);
	EXPECT_EQ(pool.take_sink(1, 10), nullptr);
	pool.refill();
	EXPECT_EQ(c.memory.pages, 2 * kPages + 2 * 68 + kSmall);
	EXPECT_LE(c.memory.pages, 700);
	pool.give(middle);
	for (Transfer *sink : two)
		pool.give(sink);
	EXPECT_EQ(c.memory.pages, 2 * kPages + 2 * 68 + kSmall);

	/* The cap was lowered: who finds none does not make it grow, and one of each size is left. */
	for (Transfer *&sink : two)
		ASSERT_NE(sink = pool.take_sink(kPages, 10), nullptr);
	EXPECT_EQ(pool.take_sink(kPages, 10), nullptr);
	for (Transfer *sink : two)
		pool.give(sink);
	EXPECT_EQ(c.memory.pages, kPages + 2 * 68 + kSmall);
}

/* What a reply lay in may be page cache: it is released, never kept. */
RPCORDMA_TEST(server_pool, reply_pages)
{
	PortFixture c;
	Pool pool(false);
	Transfer *transfer = pool.take(Transfer::kPages, RPCORDMA_ALLOC_NOIO);

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
	EXPECT_EQ(c.memory.pages, Transfer::pages_of(2));
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

/* No pages to be had, or fewer than wanted. */
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
	EXPECT_EQ(c.dma.bulks, 1);
	EXPECT_EQ(pool.take_sink(1, kPlenty), nullptr);
	c.memory.pages_left = kNoLimit;
	pool.refill();
	EXPECT_EQ(c.memory.pages, kFirst);
	Transfer *sink = pool.take_sink(kPages, kPlenty);
	ASSERT_NE(sink, nullptr);
	pool.give(sink);
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
			/* A thread has another one for it, or none. */
			if (random.one_in(2))
				for (u32 n = 0; n < taken[i]->page_count; n++) {
					c.memory.put_page(taken[i]->pages[n]);
					taken[i]->pages[n] =
						random.one_in(300) ? nullptr : c.memory.new_page();
				}
			pool.give(taken[i]);
			taken[i] = nullptr;
		} else {
			taken[i] = pool.take_sink(1 + random.below(kPages), 1400);
			(taken[i] ? sinks : refused)++;
			if (taken[i])
				for (u32 n = 0; n < taken[i]->page_count; n++)
					taken[i]->pages[n]->data[0] = u8(i);
		}
		if (random.one_in(20))
			pool.refill();
		ASSERT_LE(c.memory.pages, 1400);
	}
	EXPECT_GT(sinks, 500);
	EXPECT_GT(refused, 5);
	for (Transfer *transfer : taken)
		if (transfer)
			pool.give(transfer);
}

RPCORDMA_SUITE(server_pool, join_and_leave, shrink, init_without_memory, transfers, large_transfers,
	       no_transfer, more_transfers, sizes, sinks, holds, missing_pages, order, nodes,
	       full_node, grows, reply_pages, late, mapped, refill_without_memory, any);

} // namespace rpcordma
