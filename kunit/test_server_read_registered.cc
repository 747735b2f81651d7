// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read chunks pulled into sinks that are registered, as iWARP needs it: module/server/read.cc. When regions
 * are made, used again, invalidated, and what becomes of them when something fails.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"

namespace rpcordma {

namespace {

/* The client's memory, from its start. */
void expect_bytes(const Iwarp &c, u32 size)
{
	for (u32 i = 0; i < size; i++)
		ASSERT_EQ(c.rqst->pages[i / kPage]->data[i % kPage], c.peer.memory[i]);
}

} // namespace

/* Regions are made by the first call that finds none, invalidated with its Reads, and used again. */
RPCORDMA_TEST(server_read_registered, used_again)
{
	Iwarp c;

	for (u32 i = 0; i < 4; i++) {
		TEST_NOTE("call", i);
		CallMaker call(i);

		make_write(call, 1000);
		ASSERT_TRUE(c.send(call));
		if (i == 0) {
			/* None there yet, and a completion makes none. */
			EXPECT_EQ(c.verbs.sends, 0);
			EXPECT_EQ(c.receive(), 0);
		}
		/* What registers its sink, the Read, and what invalidates the sink. */
		EXPECT_EQ(c.verbs.sends, 3);
		/* It is not the thread's before the peer cannot reach it any more. */
		EXPECT_EQ(c.verbs.work(2), 2);
		EXPECT_EQ(c.peer.reads, i + 1);
		EXPECT_FALSE(c.svc.data);
		EXPECT_EQ(c.verbs.work(), 1);
		EXPECT_EQ(c.peer.local_invalidations, i + 1);
		EXPECT_TRUE(c.svc.data);
		EXPECT_FALSE(c.verbs.broken);
		EXPECT_EQ(c.receive(), 1060);
		expect_bytes(c, 1000);
		c.release();
		EXPECT_EQ(c.dma.regions, 1);
	}
	EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), 3);
	EXPECT_EQ(c.room_taken(), 0);
}

/* A chain that was built and never posted leaves no wrong key behind. */
RPCORDMA_TEST(server_read_registered, not_posted)
{
	Iwarp c;

	for (u32 i = 0; i < 3; i++) {
		TEST_NOTE("call", i);
		CallMaker call(i);

		make_write(call, 1000);
		{
			const NoRoom others(c, 1);

			ASSERT_TRUE(c.send(call));
			EXPECT_EQ(c.verbs.sends, 0);
		}
		EXPECT_EQ(c.receive(), 0);
		c.verbs.work();
		ASSERT_FALSE(c.verbs.broken);
		EXPECT_EQ(c.receive(), 1060);
		expect_bytes(c, 1000);
		c.release();
	}
}

/* The largest call takes as many regions as its pages need, however few SGEs its Reads have; it must be possible. */
RPCORDMA_TEST(server_read_registered, largest)
{
	for (const u32 region_pages : {16u, 31u, 128u, 130u, 255u, 256u})
		for (const u32 segments : {1u, 2u, 4u}) {
			TEST_NOTE("pages of a region", region_pages);
			TEST_NOTE("segments", segments);
			Iwarp c(region_pages);
			CallMaker call(1);
			constexpr u32 size = 256 * kPage;
			const u32 regions = (256 + region_pages - 1) / region_pages;

			EXPECT_EQ(c.read_sges(), 1);
			for (u32 i = 0; i < segments; i++)
				call.read(40, size / segments, i * (size / segments));
			call.finish(60);
			ASSERT_TRUE(c.send(call));
			EXPECT_EQ(c.receive(), 0);
			EXPECT_LE(c.verbs.sends, segments + 3 * regions - 1);
			c.verbs.work();
			EXPECT_EQ(c.peer.messages, 0);
			EXPECT_EQ(c.receive(), int(60 + size));
			expect_bytes(c, size);
			EXPECT_EQ(c.dma.regions, regions);
			EXPECT_EQ(c.peer.local_invalidations, regions);
			c.release();
			EXPECT_EQ(c.room_taken(), 0);
		}
}

/* A Read that fails: what was registered goes with the queue pair, and all is given back. */
RPCORDMA_TEST(server_read_registered, read_fails)
{
	for (u32 failing = 0; failing < 3; failing++) {
		TEST_NOTE("failing work request", failing);
		Iwarp c;
		CallMaker call(1);

		make_write(call, 1000);
		ASSERT_TRUE(c.send(call));
		EXPECT_EQ(c.receive(), 0);
		c.verbs.fail_at = failing;
		c.verbs.fail_status = RPCORDMA_WC_REMOTE_ACCESS;
		c.verbs.work();
		EXPECT_EQ(c.svc.closed, 1);
		EXPECT_FALSE(c.svc.data);
		EXPECT_EQ(c.in_service(), 0);
		EXPECT_EQ(c.room_taken(), 0);
	}
}

/* Without a region, or a mapping, the connection ends, and all is given back. */
RPCORDMA_TEST(server_read_registered, no_memory)
{
	for (u32 what = 0; what < 3; what++)
		for (u32 n = 0; n < 2; n++) {
			TEST_NOTE("what", what);
			TEST_NOTE("that go well", n);
			Iwarp c;
			CallMaker call(1);

			c.verbs.device.max_fast_reg_pages = 130;
			c.set_region_pages(2);
			make_write(call, 3 * kPage);
			ASSERT_TRUE(c.send(call));
			EXPECT_EQ(c.verbs.sends, 0);
			if (what == 0)
				c.dma.regions_left = n;
			else if (what == 1)
				c.dma.region_maps_left = n;
			else
				c.memory.allocations_left = n;
			EXPECT_EQ(c.receive(), 0);
			EXPECT_EQ(c.svc.closed, 1);
			EXPECT_EQ(c.verbs.sends, 0);
			c.memory.allocations_left = kNoLimit;
		}
}

RPCORDMA_SUITE(server_read_registered, used_again, not_posted, largest, read_fails, no_memory);

} // namespace rpcordma
