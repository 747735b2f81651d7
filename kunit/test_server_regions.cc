// SPDX-License-Identifier: GPL-2.0-only
/* The regions that no sink has, by themselves, at each side of each look and each limit: module/server/regions.hh. */
#include "kunit/test_rdma_port.hh"
#include "kunit/testing.hh"
#include "module/server/regions.hh"

namespace rpcordma {
namespace {

constexpr u32 kMost = 6;
constexpr u64 kFirst = 1000, kWhile = SinkRegions::kWhileMs;

struct Regions : PortFixture {
	SinkRegions regions;
	Region *taken[kMost] = {};

	explicit Regions(u32 count = 0)
	{
		make(count);
	}
	~Regions()
	{
		while (Region *region = regions.disown())
			destroy_region(region);
		EXPECT_EQ(dma.regions, 0);
	}
	void make(u32 count)
	{
		while (count--)
			regions.put(create_region(verbs.endpoint(), nullptr, 4, false,
						  RPCORDMA_ALLOC_SERVICE));
	}
	/* A sink has so many, if there are, and gives them back. */
	void use(u32 count, u32 there)
	{
		ASSERT_EQ(regions.take(taken, count), there);
		for (u32 i = 0; i < kMost; i++) {
			TEST_NOTE("region", i);
			EXPECT_EQ(taken[i] != nullptr, i < there);
		}
		while (there) {
			regions.put(taken[--there]);
			taken[there] = nullptr;
		}
	}
	/* So many are destroyed at @now, and no more. */
	void expect_idle(u64 now, u32 count)
	{
		TEST_NOTE("at", now);
		for (; count; count--) {
			Region *const region = regions.take_idle(now);

			ASSERT_NE(region, nullptr);
			destroy_region(region);
		}
		EXPECT_EQ(regions.take_idle(now), nullptr);
	}
};

} // namespace

/* As many as there are, and each of them once. */
RPCORDMA_TEST(server_regions, take)
{
	for (u32 there = 0; there < 4; there++)
		for (u32 wanted = 0; wanted < 5; wanted++) {
			TEST_NOTE("there", there);
			TEST_NOTE("wanted", wanted);
			Regions c(there);

			c.use(wanted, min(wanted, there));
			c.use(kMost, there);
		}
}

/* What the largest sink took stays; others go that were there from one look to the next. */
RPCORDMA_TEST(server_regions, idle)
{
	for (u32 kept = 0; kept <= 4; kept++) {
		TEST_NOTE("kept", kept);
		Regions c(4);

		c.use(kept, kept);
		EXPECT_EQ(c.regions.watch(), kept < 4);
		/* The first look sees what there is. */
		c.expect_idle(kFirst, 0);
		c.expect_idle(kFirst + kWhile - 1, 0);
		c.expect_idle(kFirst + kWhile, 4 - kept);
		EXPECT_FALSE(c.regions.watch());
		c.expect_idle(kFirst + 3 * kWhile, 0);
		EXPECT_EQ(c.dma.regions, kept);
	}
}

/* Of the last while alone it is known how many were in use at once, and how many one sink took. */
RPCORDMA_TEST(server_regions, idle_beside_used)
{
	for (u32 used = 1; used <= 4; used++) {
		TEST_NOTE("used", used);
		Regions c(4);

		c.use(3, 3);
		c.expect_idle(kFirst, 0);
		/* Two sinks at once, of which each took one. */
		Region *one[1], *two[1];
		ASSERT_EQ(c.regions.take(one, 1), 1);
		ASSERT_EQ(c.regions.take(two, 1), 1);
		c.regions.put(one[0]);
		c.regions.put(two[0]);
		/* From the look on one stays, and of the other three two were there all the time. */
		c.expect_idle(kFirst + kWhile, 2);
		EXPECT_EQ(c.dma.regions, 2);
		/* Each that is taken in the meantime is none that is idle. */
		c.make(2);
		c.use(used, used);
		c.expect_idle(kFirst + 2 * kWhile - 1, 0);
		/* Two were there since the look before, less those that were in use. */
		const u32 idle = min(2u, 4 - used);
		c.expect_idle(kFirst + 2 * kWhile, idle);
		EXPECT_EQ(c.dma.regions, 4 - idle);
	}
}

/* The most that one sink had to do without, since it was asked last. */
RPCORDMA_TEST(server_regions, missing)
{
	Regions c;

	EXPECT_EQ(c.regions.take_missing(), 0);
	c.regions.miss(2);
	c.regions.miss(3);
	c.regions.miss(1);
	EXPECT_EQ(c.regions.take_missing(), 3);
	EXPECT_EQ(c.regions.take_missing(), 0);
}

/* One comes to look, as long as there are more than a sink has use for. */
RPCORDMA_TEST(server_regions, watch)
{
	Regions c;

	EXPECT_FALSE(c.regions.begin_watch());
	c.use(1, 0);
	c.make(1);
	EXPECT_FALSE(c.regions.begin_watch());
	c.make(1);
	EXPECT_TRUE(c.regions.begin_watch());
	c.make(1);
	EXPECT_FALSE(c.regions.begin_watch());
	EXPECT_TRUE(c.regions.watch());
	EXPECT_FALSE(c.regions.begin_watch());
	c.use(3, 3);
	EXPECT_FALSE(c.regions.watch());
	EXPECT_FALSE(c.regions.begin_watch());
	c.make(1);
	EXPECT_TRUE(c.regions.begin_watch());
}

RPCORDMA_SUITE(server_regions, take, idle, idle_beside_used, missing, watch);

} // namespace rpcordma
