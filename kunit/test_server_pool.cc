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
	EXPECT_EQ(pool.shrink(0), 0);
	EXPECT_EQ(pool.shrink(bare), bare);
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

/* The first pages of @sink, from the lowest address on. */
template <u32 N> static void sort_pages(const Transfer &sink, page *(&sorted)[N])
{
	for (u32 i = 0; i < N; i++) {
		u32 below = 0;

		for (u32 j = 0; j < N; j++)
			below += std::uintptr_t(sink.pages[j]) < std::uintptr_t(sink.pages[i]);
		sorted[below] = sink.pages[i];
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
		sort_pages(*sink, in_order);
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

/* They are turned round where at least half as many go down as there are pages. */
RPCORDMA_TEST(server_pool, order_of_half)
{
	for (u32 down = 0; down < kSmall; down++) {
		TEST_NOTE("go down", down);
		PortFixture c;
		Pool pool(false);

		pool.refill();
		Transfer *sink = pool.take_sink(kSmall, kPlenty);
		page *sorted[kSmall];

		ASSERT_NE(sink, nullptr);
		sort_pages(*sink, sorted);
		/* From the last that has so many below it down to the first one, and then up. */
		page *given[kSmall];
		for (u32 i = 0; i < kSmall; i++)
			sink->pages[i] = given[i] = sorted[i <= down ? down - i : i];
		pool.give(sink);
		sink = pool.take_sink(kSmall, kPlenty);
		ASSERT_NE(sink, nullptr);
		const bool turned = 2 * down >= kSmall;
		for (u32 i = 0; i < kSmall; i++)
			EXPECT_EQ(sink->pages[i], given[turned ? kSmall - 1 - i : i]);
		pool.give(sink);
	}
}

namespace {

/** A thread takes the first @count pages of @sink and gives others, of @node. */
void exchange(PortFixture &c, Transfer &sink, u32 count, u32 node)
{
	for (u32 i = 0; i < count; i++) {
		c.memory.put_page(sink.pages[i]);
		sink.pages[i] = c.memory.new_page();
		sink.pages[i]->node = node;
	}
}

/** Ends on a CPU of node 0, whatever happens. */
struct NodeFixture : PortFixture {
	/** Take a sink on a CPU of @node. */
	Transfer *take(ServerPool &pool, u32 node, u32 pages = kSmall, u32 cap_pages = kPlenty)
	{
		memory.node = node;
		Transfer *sink = pool.take_sink(pages, cap_pages);
		memory.node = 0;
		return sink;
	}
};

} // namespace

/* The first sinks are of the node of the first connection. */
RPCORDMA_TEST(server_pool, joins_on_node)
{
	NodeFixture c;
	UnusedPool pool;

	c.memory.node = 2;
	pool.join();
	c.memory.node = 0;
	pool.refill();
	for (const u32 pages : {1u, 20u, 68u, kPages}) {
		Transfer *sink = c.take(pool, 1, pages);

		ASSERT_NE(sink, nullptr);
		EXPECT_EQ(sink->node, 2);
		EXPECT_EQ(sink->pages[0]->node, 2);
		pool.give(sink);
	}
	/* What has no pages is of the CPU's. */
	c.memory.node = 1;
	Transfer *bare = pool.take(kPages, RPCORDMA_ALLOC_NOIO);
	pool.give(bare);
	EXPECT_EQ(pool.take(kPages, RPCORDMA_ALLOC_NOIO), bare);
	pool.give(bare);
	c.memory.node = 0;
	pool.leave();
}

/* Every shelf is looked at for one, and for one that lacks pages, and nodes may be more than shelves. */
RPCORDMA_TEST(server_pool, many_nodes)
{
	for (const u32 nodes : {16, 20})
		for (const u32 home : {0u, 1u, 14u, 15u, nodes - 1}) {
			NodeFixture c;
			Pool pool;

			TEST_NOTE("home", home);
			c.memory.nodes = nodes;
			Transfer *sink = c.take(pool, 0, kPages);
			ASSERT_NE(sink, nullptr);
			for (const bool lacks : {false, true}) {
				exchange(c, *sink, kPages, home);
				if (lacks) {
					c.memory.put_page(sink->pages[0]);
					sink->pages[0] = nullptr;
				}
				pool.give(sink);
				EXPECT_EQ(sink->node, home);
				pool.refill();
				ASSERT_EQ(c.take(pool, (home + 1) % nodes, kPages), sink);
			}
			EXPECT_EQ(c.memory.pages, kPages);
			pool.give(sink);
		}
}

/* New sinks are of the node of the CPU that found none. */
RPCORDMA_TEST(server_pool, nodes)
{
	NodeFixture c;
	Pool pool;
	Transfer *largest = c.take(pool, 0, kPages);

	ASSERT_NE(largest, nullptr);
	EXPECT_EQ(c.take(pool, 1), nullptr);
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages + kSmall);
	Transfer *sink = c.take(pool, 1);
	ASSERT_NE(sink, nullptr);
	for (u32 i = 0; i < kSmall; i++)
		EXPECT_EQ(sink->pages[i]->node, 1);
	/* A thread of that node: nothing moves, nothing is released, and it is there again. */
	exchange(c, *sink, kSmall, 1);
	const u32 holds = c.sync.holds;
	pool.give(sink);
	EXPECT_EQ(c.sync.holds, holds + 1);
	EXPECT_EQ(c.memory.pages, kPages + kSmall);
	EXPECT_EQ(c.take(pool, 1), sink);
	pool.give(sink);
	pool.give(largest);
	/* One largest of the first node stays, and nothing else. */
	(void)pool.shrink(~0u);
	EXPECT_EQ(c.memory.pages, kPages);
	/* Also those that could not be made when they were missed first, elsewhere. */
	largest = c.take(pool, 0, kPages);
	c.memory.allocations_left = 0;
	EXPECT_EQ(c.take(pool, 0), nullptr);
	pool.refill();
	EXPECT_EQ(c.take(pool, 2), nullptr);
	c.memory.allocations_left = kNoLimit;
	pool.refill();
	sink = c.take(pool, 2);
	ASSERT_NE(sink, nullptr);
	EXPECT_EQ(sink->pages[0]->node, 2);
	pool.give(sink);
	pool.give(largest);
}

/* Most machines have one: of no page anybody asks whose it is, and there is one shelf to look at. */
RPCORDMA_TEST(server_pool, one_node)
{
	NodeFixture c;
	Pool pool;

	c.memory.nodes = 1;
	Transfer *sink = c.take(pool, 0, kPages);
	ASSERT_NE(sink, nullptr);
	exchange(c, *sink, kPages, 1);
	const u32 holds = c.sync.holds;
	EXPECT_EQ(c.take(pool, 0, kPages), nullptr);
	EXPECT_EQ(c.sync.holds, holds + 1);
	pool.give(sink);
	EXPECT_EQ(c.sync.holds, holds + 2);
	EXPECT_EQ(sink->node, 0);
	EXPECT_EQ(c.take(pool, 0, kPages), sink);
	EXPECT_EQ(c.sync.holds, holds + 3);
	/* Nor when one is made. */
	c.memory.full_node = 0;
	pool.refill();
	Transfer *made = c.take(pool, 0, kPages);
	ASSERT_NE(made, nullptr);
	EXPECT_EQ(made->pages[0]->node, 1);
	EXPECT_EQ(made->node, 0);
	pool.give(made);
	pool.give(sink);
}

/* Where a CPU's own node has none, another's serves, and nothing more is wanted. */
RPCORDMA_TEST(server_pool, other_node)
{
	NodeFixture c;
	Pool pool;

	const u32 refills = c.svc.refills;
	for (const u32 node : {1, 2}) {
		const u32 before = c.sync.holds;
		Transfer *of_first = c.take(pool, node, kPages);

		ASSERT_NE(of_first, nullptr);
		/* Of the shelves that have none no lock is taken. */
		EXPECT_EQ(c.sync.holds, before + 1);
		EXPECT_EQ(of_first->pages[0]->node, 0);
		EXPECT_EQ(of_first->page_count, kPages);
		pool.give(of_first);
	}
	EXPECT_EQ(c.svc.refills, refills);
	/* None is anywhere: the pool is to have another one. */
	Transfer *sink = c.take(pool, 0, kPages);
	const u32 holds = c.sync.holds;
	EXPECT_EQ(c.take(pool, 1, kPages), nullptr);
	EXPECT_EQ(c.sync.holds, holds + 1);
	EXPECT_EQ(c.svc.refills, refills + 1);
	pool.give(sink);
	/* Its own is taken first. */
	pool.refill();
	EXPECT_EQ(c.memory.pages, 2 * kPages);
	sink = c.take(pool, 1, kPages);
	ASSERT_NE(sink, nullptr);
	EXPECT_EQ(sink->pages[0]->node, 1);
	pool.give(sink);
}

/*
 * Completions on one node, threads on another: all pages that are given are kept, none is allocated, and what is taken
 * has pages of the node whose threads use them.
 */
RPCORDMA_TEST(server_pool, threads_elsewhere)
{
	NodeFixture c;
	Pool pool;
	Transfer *sinks[4];

	for (u32 round = 0; round < 3; round++) {
		for (Transfer *&sink : sinks)
			sink = c.take(pool, 0, kPages);
		for (Transfer *sink : sinks)
			if (sink)
				pool.give(sink);
		pool.refill();
	}
	EXPECT_EQ(c.memory.pages, 4 * kPages);
	const u32 refills = c.svc.refills;
	for (u32 round = 0; round < 50; round++) {
		TEST_NOTE("round", round);
		for (Transfer *&sink : sinks) {
			sink = c.take(pool, 0, kPages);
			ASSERT_NE(sink, nullptr);
			for (u32 i = 0; i < kPages && round; i++)
				ASSERT_EQ(sink->pages[i]->node, 1);
			exchange(c, *sink, kPages, 1);
		}
		for (Transfer *sink : sinks)
			pool.give(sink);
		EXPECT_EQ(c.memory.pages, 4 * kPages);
	}
	EXPECT_EQ(c.svc.refills, refills);
	EXPECT_EQ(pool.lent_pages(), 0);
	/* They are the other node's now, and the first one's CPUs are not given new ones for them. */
	pool.refill();
	EXPECT_EQ(c.memory.pages, 4 * kPages);
	for (Transfer *&sink : sinks)
		ASSERT_NE(sink = c.take(pool, 1, kPages), nullptr);
	for (Transfer *sink : sinks)
		pool.give(sink);
	EXPECT_EQ(c.memory.pages, 4 * kPages);
}

/* A sink is of the node that most of the pages are of which the last call used. */
RPCORDMA_TEST(server_pool, moves_with_most)
{
	/* Of the least sink's pages so many are exchanged, and of these the first @own for its own node's. */
	static const struct {
		u32 used, own, node;
	} kCases[] = {
		{kSmall, 0, 1},
		{kSmall / 2, 0, 1},
		{1, 0, 1},
		{1, 1, 0},
		{3, 1, 1},
		{3, 2, 0},
		{kSmall, 1, 1},
		{kSmall, kSmall / 2 - 1, 1},
		{kSmall, kSmall / 2, 0},
		{kSmall, kSmall, 0},
	};
	static_assert(kSmall % 2 == 0);

	for (const auto &now : kCases) {
		TEST_NOTE("used", now.used);
		TEST_NOTE("own", now.own);
		NodeFixture c;
		Pool pool;
		Transfer *largest = c.take(pool, 0, kPages);

		ASSERT_NE(largest, nullptr);
		EXPECT_EQ(c.take(pool, 0), nullptr);
		pool.refill();
		Transfer *sink = c.take(pool, 0, now.used);
		ASSERT_NE(sink, nullptr);
		exchange(c, *sink, now.used, 1);
		for (u32 i = 0; i < now.own; i++)
			sink->pages[i]->node = 0;
		pool.give(sink);
		EXPECT_EQ(sink->node, now.node);
		/* It is on that node's shelf: no other one is looked at. */
		const u32 holds = c.sync.holds;
		c.memory.nodes = 0;
		EXPECT_EQ(c.take(pool, now.node), sink);
		c.memory.nodes = 3;
		EXPECT_EQ(c.sync.holds, holds + 1);
		pool.give(sink);
		EXPECT_EQ(pool.lent_pages(), kPages);
		EXPECT_EQ(c.memory.pages, kPages + kSmall);
		pool.give(largest);
	}
}

/* However they lie: where one of three nodes has more than half of them, it is that one. */
RPCORDMA_TEST(server_pool, moves_with_any_most)
{
	constexpr u32 kUsed = 5, kPatterns = 3 * 3 * 3 * 3 * 3;
	NodeFixture c;
	Pool pool;
	Transfer *const largest = c.take(pool, 0, kPages);

	ASSERT_NE(largest, nullptr);
	EXPECT_EQ(c.take(pool, 0), nullptr);
	pool.refill();
	for (u32 pattern = 0; pattern < kPatterns; pattern++) {
		TEST_NOTE("pattern", pattern);
		Transfer *const sink = c.take(pool, 0, kUsed);
		u32 pages[3] = {}, left = pattern;

		ASSERT_NE(sink, nullptr);
		for (u32 i = 0; i < kUsed; i++, left /= 3) {
			sink->pages[i]->node = left % 3;
			pages[left % 3]++;
		}
		pool.give(sink);
		for (u32 node = 0; node < 3; node++)
			if (pages[node] > kUsed / 2)
				EXPECT_EQ(sink->node, node);
	}
	pool.give(largest);
}

/* Pages that are absent are of no node. A sink that lacks them is filled up, with its new node's. */
RPCORDMA_TEST(server_pool, moves_and_lacks)
{
	NodeFixture c;
	Pool pool;
	Transfer *sink = c.take(pool, 0, kPages);

	ASSERT_NE(sink, nullptr);
	exchange(c, *sink, kPages, 1);
	for (u32 i = 0; i < 10; i++) {
		c.memory.put_page(sink->pages[i]);
		sink->pages[i] = nullptr;
	}
	pool.give(sink);
	EXPECT_EQ(c.memory.pages, kPages - 10);
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages);
	EXPECT_EQ(c.take(pool, 1, kPages), sink);
	for (u32 i = 0; i < kPages; i++)
		EXPECT_EQ(sink->pages[i]->node, 1);
	pool.give(sink);
	/* Where that has none, a page or two of another one's do not make it that one's. */
	sink = c.take(pool, 1, kPages);
	ASSERT_NE(sink, nullptr);
	c.memory.put_page(sink->pages[kPages - 1]);
	sink->pages[kPages - 1] = nullptr;
	c.memory.full_node = 1;
	pool.give(sink);
	pool.refill();
	EXPECT_EQ(sink->pages[kPages - 1]->node, 2);
	EXPECT_EQ(sink->node, 1);
}

/*
 * A sink that lacks pages is no node's to take, and whoever misses one asks for a refill, on whichever node that is, and
 * although the pool is not to grow.
 */
RPCORDMA_TEST(server_pool, lacks_elsewhere)
{
	for (const u32 node : {0, 1, 2}) {
		NodeFixture c;
		Pool pool;
		Transfer *sink = c.take(pool, 0, kPages);

		TEST_NOTE("node", node);
		ASSERT_NE(sink, nullptr);
		exchange(c, *sink, kPages, 1);
		c.memory.put_page(sink->pages[0]);
		sink->pages[0] = nullptr;
		c.memory.pages_left = 0;
		pool.give(sink);
		pool.refill();
		const u32 refills = c.svc.refills;
		EXPECT_EQ(c.take(pool, node, kPages, 10), nullptr);
		EXPECT_EQ(c.svc.refills, refills + 1);
		c.memory.pages_left = kNoLimit;
		pool.refill();
		EXPECT_EQ(c.memory.pages, kPages);
		EXPECT_EQ(c.take(pool, node, kPages, 10), sink);
		/* It is out: there is nothing to fill. */
		EXPECT_EQ(c.take(pool, node, kPages, 10), nullptr);
		EXPECT_EQ(c.svc.refills, refills + 1);
		pool.give(sink);
	}
}

/*
 * A larger sink of its own node does not keep a CPU from one that fits, of another's: else the fitting ones were never used
 * there, and more were made at each use.
 */
RPCORDMA_TEST(server_pool, fits_elsewhere)
{
	NodeFixture c;
	Pool pool;
	u32 made = 0;

	for (u32 round = 0; round < 1000; round++) {
		Transfer *sink = c.take(pool, 0, kSmall);

		TEST_NOTE("round", round);
		ASSERT_NE(sink, nullptr);
		if (sink->size == 1)
			exchange(c, *sink, kSmall, 1);
		pool.give(sink);
		pool.refill();
		if (!round)
			made = c.memory.pages;
		ASSERT_EQ(c.memory.pages, made);
	}
	EXPECT_EQ(made, kPages + kSmall);
	/* There being none, a larger one of any node serves. */
	Transfer *small = c.take(pool, 1, kSmall);
	ASSERT_NE(small, nullptr);
	EXPECT_EQ(small->size, 1);
	Transfer *largest = c.take(pool, 1, kSmall);
	ASSERT_NE(largest, nullptr);
	EXPECT_EQ(largest->stock, kPages);
	EXPECT_EQ(largest->node, 0);
	pool.give(largest);
	pool.give(small);
}

/* What is wanted is of all nodes: wherever sinks go, one that is too many goes with the first that comes back. */
RPCORDMA_TEST(server_pool, moves_surplus)
{
	NodeFixture c;
	Pool pool;
	Transfer *two[2] = {c.take(pool, 0, kPages), nullptr};

	EXPECT_EQ(c.take(pool, 0, kPages), nullptr);
	pool.refill();
	ASSERT_NE(two[1] = c.take(pool, 0, kPages), nullptr);
	/* The cap is lowered to one. */
	EXPECT_EQ(pool.take_sink(kPages, 10), nullptr);
	for (Transfer *sink : two) {
		exchange(c, *sink, kPages, 1);
		pool.give(sink);
	}
	EXPECT_EQ(c.memory.pages, kPages);
	pool.refill();
	EXPECT_EQ(c.memory.pages, kPages);
	two[1] = c.take(pool, 1, kPages);
	ASSERT_NE(two[1], nullptr);
	EXPECT_EQ(two[1]->node, 1);
	pool.give(two[1]);
	/* The last connection is gone: what comes late stays nowhere, whatever node it is of. */
	two[1] = c.take(pool, 1, kPages);
	exchange(c, *two[1], kPages, 0);
	pool.leave();
	pool.give(two[1]);
	EXPECT_EQ(c.memory.pages, 0);
	pool.join();
}

/* A node without pages: those of another one serve, on that one's shelf, and nothing is allocated for each use. */
RPCORDMA_TEST(server_pool, full_node)
{
	NodeFixture c;
	Pool pool;
	Transfer *largest = c.take(pool, 0, kPages);

	c.memory.full_node = 1;
	EXPECT_EQ(c.take(pool, 1), nullptr);
	pool.refill();
	const u32 made = c.memory.pages, refills = c.svc.refills;
	EXPECT_EQ(made, kPages + kSmall);
	for (u32 uses = 0; uses < 100; uses++) {
		Transfer *sink = c.take(pool, 1);

		ASSERT_NE(sink, nullptr);
		EXPECT_EQ(sink->node, 2);
		EXPECT_EQ(sink->pages[0]->node, 2);
		pool.give(sink);
	}
	/* It has some again, and its threads give them. */
	c.memory.full_node = kNoLimit;
	Transfer *sink = c.take(pool, 1);
	exchange(c, *sink, kSmall, 1);
	pool.give(sink);
	EXPECT_EQ(sink->node, 1);
	EXPECT_EQ(c.take(pool, 1), sink);
	pool.give(sink);
	pool.refill();
	EXPECT_EQ(c.memory.pages, made);
	EXPECT_EQ(c.svc.refills, refills);
	pool.give(largest);
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

/* The cap is for all nodes together, wherever sinks go, and whichever CPUs find none. */
RPCORDMA_TEST(server_pool, grows_on_nodes)
{
	constexpr u32 kCap = 3 * kPages + kPages / 2;

	for (const u32 askers : {3u, 1u}) {
		NodeFixture c;
		Pool pool;
		Transfer *taken[16] = {};

		TEST_NOTE("askers", askers);
		for (u32 round = 0; round < 12; round++) {
			u32 count = 0;

			TEST_NOTE("round", round);
			for (u32 node = 0; node < askers; node++) {
				c.memory.node = node;
				while ((taken[count] = pool.take_sink(kPages, kCap)))
					ASSERT_LT(++count, 16);
			}
			c.memory.node = 0;
			pool.refill();
			while (count) {
				exchange(c, *taken[--count], kPages, 1 + round % 2);
				pool.give(taken[count]);
			}
			EXPECT_LE(c.memory.pages, kCap);
		}
		EXPECT_GE(c.memory.pages, 3 * kPages);
	}
}

/* And for all sizes, on whatever node those are. */
RPCORDMA_TEST(server_pool, grows_beside_sizes)
{
	constexpr u32 kMiddle = Transfer::pages_of(3), kCap = kPages + kMiddle;
	NodeFixture c;
	Pool pool;
	Transfer *largest = c.take(pool, 0, kPages);

	ASSERT_NE(largest, nullptr);
	EXPECT_EQ(c.take(pool, 1, kMiddle, kCap), nullptr);
	pool.refill();
	Transfer *middle = c.take(pool, 1, kMiddle, kCap);
	ASSERT_NE(middle, nullptr);
	/* Two would be more than that. */
	EXPECT_EQ(c.take(pool, 1, kMiddle, kCap), nullptr);
	pool.refill();
	EXPECT_EQ(c.memory.pages, kCap);
	pool.give(middle);
	pool.give(largest);
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
	Transfer *bare = pool.take(Transfer::kPages, RPCORDMA_ALLOC_NOIO);
	pool.give(sink);
	pool.give(bare);
	EXPECT_EQ(c.memory.pages, 0);
	EXPECT_EQ(c.dma.bulks, 0);
}

/* The mapping ends before the pages are anybody else's. */
RPCORDMA_TEST(server_pool, mapped)
{
	PortFixture c;
	Pool pool;
	Transfer *sink = pool.take_sink(3, kPlenty);

	/* Nobody tells of what a case maps. */
	rpcordma_trace_enabled &= ~RPCORDMA_TRACE_BULK;
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

/*
 * Between a look at the shelves and the growth others take and give. A miss that is none any more makes nothing grow: else
 * the pool grew for good, to its cap, with no more calls under way than before.
 */
RPCORDMA_TEST(server_pool, missed_meanwhile)
{
	static struct {
		ServerPool *pool;
		Transfer *sink;
	} other;

	for (const bool made : {false, true}) {
		NodeFixture c;
		Pool pool;
		Transfer *sink = c.take(pool, 0, kPages);

		TEST_NOTE("made", made);
		ASSERT_NE(sink, nullptr);
		if (made) {
			/* Two are wanted, of which the worker makes one. */
			EXPECT_EQ(c.take(pool, 0, kPages), nullptr);
			pool.refill();
			other = {&pool, c.take(pool, 0, kPages)};
			ASSERT_NE(other.sink, nullptr);
		} else {
			other = {&pool, sink};
		}
		const u32 pages = c.memory.pages;
		c.sync.before_hold = [] { other.pool->give(other.sink); };
		EXPECT_EQ(c.take(pool, 1, kPages), nullptr);
		EXPECT_EQ(c.sync.before_hold, nullptr);
		pool.refill();
		EXPECT_EQ(c.memory.pages, pages);
		/* It was a miss, and is again. */
		ASSERT_NE(other.sink = c.take(pool, 1, kPages), nullptr);
		EXPECT_EQ(c.take(pool, 1, kPages), nullptr);
		pool.refill();
		EXPECT_EQ(c.memory.pages, 2 * pages);
		pool.give(other.sink);
		if (made)
			pool.give(sink);
	}
}

/* Where the pool may not grow, who is served by a larger sink has one hold of a lock, and who is not has none. */
RPCORDMA_TEST(server_pool, holds_at_cap)
{
	NodeFixture c;
	Pool pool(false);

	pool.refill();
	Transfer *small = c.take(pool, 0, 1, 10);
	ASSERT_NE(small, nullptr);
	for (const u32 node : {0, 1}) {
		const u32 holds = c.sync.holds, refills = c.svc.refills;
		Transfer *larger = c.take(pool, node, 1, 10);

		ASSERT_NE(larger, nullptr);
		EXPECT_EQ(larger->size, 2);
		EXPECT_EQ(c.sync.holds, holds + 1);
		EXPECT_EQ(c.svc.refills, refills);
		pool.give(larger);
	}
	Transfer *largest = c.take(pool, 0, kPages, 10);
	const u32 holds = c.sync.holds;
	EXPECT_EQ(c.take(pool, 1, kPages, 10), nullptr);
	EXPECT_EQ(c.sync.holds, holds);
	pool.give(largest);
	pool.give(small);
}

/* Of larger ones its own node's is taken first, then that of the next. */
RPCORDMA_TEST(server_pool, larger_of_own)
{
	NodeFixture c;
	Pool pool;
	Transfer *largest[3];

	for (u32 round = 0; round < 3; round++) {
		u32 count = 0;

		while (count < 3 && (largest[count] = c.take(pool, 0, kPages, 3 * kPages)))
			count++;
		(void)c.take(pool, 0, kPages, 3 * kPages);
		for (u32 node = 0; node < count; node++) {
			exchange(c, *largest[node], kPages, node);
			pool.give(largest[node]);
		}
		pool.refill();
	}
	for (const u32 node : {1, 2, 0}) {
		Transfer *first = c.take(pool, node, 1, 10), *second = c.take(pool, node, 1, 10);

		ASSERT_NE(first, nullptr);
		ASSERT_NE(second, nullptr);
		EXPECT_EQ(first, largest[node]);
		EXPECT_EQ(second, largest[(node + 1) % 3]);
		pool.give(second);
		pool.give(first);
		(void)pool.shrink(1);
	}
}

/* The pool doubles what it has, whichever node's CPUs miss one. */
RPCORDMA_TEST(server_pool, grows_everywhere)
{
	NodeFixture c;
	Pool pool;
	Transfer *taken[16] = {};
	u32 count = 0;

	for (const u32 node : {1, 2, 0}) {
		while ((taken[count] = c.take(pool, node, kPages)))
			ASSERT_LT(++count, 16);
		pool.refill();
		EXPECT_EQ(c.memory.pages, 2 * count * kPages);
	}
	EXPECT_EQ(count, 4);
	while (count)
		pool.give(taken[--count]);
}

/*
 * Takes and gives of all sizes, by CPUs and threads of any node: no page is ever two transfers', the cap holds, and of what
 * is taken everything is there again.
 */
RPCORDMA_TEST(server_pool, any)
{
	constexpr u32 kMost = 8, kCap = 1400;

	for (const u32 nodes : {1, 2, 16, 20}) {
		NodeFixture c;
		Pool pool;
		Transfer *taken[kMost] = {};
		Random random(nodes);
		u32 sinks = 0, refused = 0;

		TEST_NOTE("nodes", nodes);
		c.memory.nodes = nodes;
		for (u32 step = 0; step < 3000; step++) {
			TEST_NOTE("step", step);
			const u32 i = random.below(kMost);

			if (taken[i]) {
				const u32 node = random.below(nodes);

				for (u32 n = 0; n < taken[i]->page_count; n++)
					ASSERT_EQ(taken[i]->pages[n]->data[0], i);
				/* A thread has another one for it, or none. */
				if (random.one_in(2))
					exchange(c, *taken[i], taken[i]->page_count, node);
				for (u32 n = 0; n < taken[i]->page_count; n++)
					if (random.one_in(600)) {
						c.memory.put_page(taken[i]->pages[n]);
						taken[i]->pages[n] = nullptr;
					}
				pool.give(taken[i]);
				taken[i] = nullptr;
			} else {
				taken[i] =
					c.take(pool, random.below(nodes),
					       1 + random.below(random.one_in(2) ? kPages : kSmall),
					       kCap);
				(taken[i] ? sinks : refused)++;
				if (taken[i])
					for (u32 n = 0; n < taken[i]->page_count; n++)
						taken[i]->pages[n]->data[0] = u8(i);
			}
			/* Memory is short, or its kernel wants some back. */
			if (random.one_in(20)) {
				c.memory.pages_left = random.one_in(3) ? random.below(kPages) :
									 kNoLimit;
				pool.refill();
				c.memory.pages_left = kNoLimit;
			}
			/* What is made again after that is one of a size at least, whatever the cap. */
			if (step > 2000 && random.one_in(100))
				(void)pool.shrink(1 + random.below(400));
			ASSERT_LE(c.memory.pages, step > 2000 ? kCap + kFirst : kCap);
		}
		EXPECT_GT(sinks, 500);
		EXPECT_GT(refused, 5);
		for (Transfer *&transfer : taken)
			if (transfer)
				pool.give(transfer);
		EXPECT_EQ(pool.lent_pages(), 0);
		/* No call is out: what is there, and nothing else, can be taken, of whichever node it is. */
		pool.refill();
		(void)pool.shrink(pool.spare_pages());
		for (Transfer *&transfer : taken)
			transfer = c.take(pool, 0, kPages);
		u32 there = 0;
		for (Transfer *transfer : taken)
			if (transfer) {
				there += transfer->stock;
				pool.give(transfer);
			}
		EXPECT_EQ(there, c.memory.pages);
	}
}

RPCORDMA_SUITE(server_pool, join_and_leave, shrink, init_without_memory, transfers, large_transfers,
	       no_transfer, more_transfers, sizes, sinks, holds, missing_pages, order,
	       order_of_half, joins_on_node, many_nodes, nodes, one_node, other_node,
	       threads_elsewhere, moves_with_most, moves_with_any_most, moves_and_lacks,
	       lacks_elsewhere, fits_elsewhere, moves_surplus, full_node, grows, grows_on_nodes,
	       grows_beside_sizes, grows_everywhere, missed_meanwhile, holds_at_cap, larger_of_own,
	       reply_pages, late, mapped, refill_without_memory, any);

} // namespace rpcordma
