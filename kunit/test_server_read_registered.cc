// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read chunks pulled into sinks that are registered, as iWARP needs it, and as others do better when a Read has many
 * pieces: module/server/read.cc. When regions are made, used again, invalidated, and what becomes of them when
 * something fails.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"

namespace rpcordma {

namespace {

/* The client's memory, from its start. */
void expect_bytes(const Served &c, u32 size)
{
	for (u32 i = 0; i < size; i++)
		ASSERT_EQ(c.call_pages()[i / kPage]->data[i % kPage], c.peer.memory[i]);
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
		/*
		 * What registers its sink, and the Read, which invalidates it: the thread has it when the peer
		 * cannot reach it any more, and no reply waits for that in the send queue.
		 */
		EXPECT_EQ(c.verbs.sends, 2);
		EXPECT_EQ(c.verbs.work(1), 1);
		EXPECT_FALSE(c.svc.data);
		EXPECT_EQ(c.verbs.work(), 1);
		EXPECT_EQ(c.peer.reads, i + 1);
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

/* Bounce buffers do not keep the place of a part of a page in its page: a sink is whole pages to the device. */
RPCORDMA_TEST(server_read_registered, places_lost)
{
	constexpr u32 kSize = 3 * kPage + 5;
	Iwarp c;
	CallMaker call(1);

	c.dma.places_lost = true;
	make_write(call, kSize);
	ASSERT_TRUE(c.send(call));
	/* The first one makes its region. */
	EXPECT_EQ(c.receive(), 0);
	c.work();
	EXPECT_FALSE(c.verbs.broken);
	ASSERT_EQ(c.receive(), int(60 + kSize + xdr_pad(kSize)));
	expect_bytes(c, kSize);
	c.release();
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
			EXPECT_LE(c.verbs.sends, segments + 2 * regions - 1);
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

/* A device whose pages are smaller than the kernel's: a region holds so many of those. */
RPCORDMA_TEST(server_read_registered, small_pages)
{
	for (const u32 entries : {1u, 4u, 16u}) {
		TEST_NOTE("of the device's pages in one", entries);
		Iwarp c(16, entries);
		CallMaker call(1);

		make_write(call, 16 * kPage + 100);
		ASSERT_TRUE(c.send(call));
		EXPECT_EQ(c.receive(), 0);
		c.work();
		EXPECT_EQ(c.receive(), int(60 + 16 * kPage + 100));
		expect_bytes(c, 16 * kPage + 100);
		EXPECT_EQ(c.dma.regions, 2);
		c.release();
	}
}

/* A region whose bytes came inline is not registered, as no Read would invalidate it. */
RPCORDMA_TEST(server_read_registered, inline_region)
{
	Iwarp c(16);

	for (u32 i = 0; i < 3; i++) {
		CallMaker call(i);

		/* The call fills a region to its last byte, but for an inline part that ends in the next one. */
		call.read(40, 16 * kPage - 140, 0);
		call.read(16 * kPage - 80, 20, 0);
		call.finish(180);
		ASSERT_TRUE(c.send(call));
		if (!i)
			EXPECT_EQ(c.receive(), 0);
		EXPECT_EQ(c.verbs.sends, 3);
		c.work();
		EXPECT_FALSE(c.verbs.broken);
		EXPECT_EQ(c.receive(), int(16 * kPage + 60));
		EXPECT_EQ(c.peer.local_invalidations, i + 1);
		EXPECT_EQ(c.dma.regions, 2);
		for (u32 at = 40; at < 16 * kPage - 100; at++)
			ASSERT_EQ(c.call_byte(at), c.peer.memory[at - 40]);
		for (u32 at = 16 * kPage - 60; at < 16 * kPage + 60; at++)
			ASSERT_EQ(c.call_byte(at), call_pattern(at - 16 * kPage + 120));
		c.release();
	}
}

/* Regions that a burst took are destroyed one by one when they were idle for a while; those in use stay. */
RPCORDMA_TEST(server_read_registered, idle_regions)
{
	constexpr u32 size = 16 * kPage + 100;
	Iwarp c(16);

	/* Three calls at a time, of two regions each. */
	for (u32 i = 0; i < 3; i++) {
		CallMaker call(i);

		make_write(call, size);
		ASSERT_TRUE(c.send(call));
	}
	for (u32 i = 0; i < 3; i++)
		EXPECT_EQ(c.receive(), 0);
	c.work();
	for (u32 i = 0; i < 3; i++) {
		EXPECT_EQ(c.receive(), int(60 + size));
		c.release();
	}
	EXPECT_EQ(c.dma.regions, 6);
	/* One call at a time needs two of them. */
	for (u32 i = 0; i < 40; i++) {
		TEST_NOTE("call", i);
		const u32 before = c.dma.regions;
		CallMaker call(i);

		if (i >= 8)
			c.sync.now += 1000;
		make_write(call, size);
		ASSERT_TRUE(c.send(call));
		c.work();
		ASSERT_EQ(c.receive(), int(60 + size));
		c.release();
		EXPECT_GE(c.dma.regions, i < 17 ? 6 : max(2u, before - 1));
	}
	EXPECT_EQ(c.dma.regions, 2);
	EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), 40);
}

namespace {

/* The looks at idle regions that were asked for, until none is. */
void look_at_idle_regions(Served &c)
{
	for (u32 looks = 0; c.svc.finish_ms; looks++) {
		ASSERT_LT(looks, 4);
		EXPECT_EQ(c.svc.finish_ms, 10000);
		c.sync.now += c.svc.finish_ms;
		c.finish();
	}
}

/* WRITEs of @size come, so many at once, and are served. */
void serve_writes(Served &c, u32 count, u32 size)
{
	for (u32 i = 0; i < count; i++) {
		CallMaker call(i);

		make_write(call, size);
		ASSERT_TRUE(c.send(call));
	}
	/* Those that found no regions wait for a thread. */
	for (u32 i = 0; i < count; i++)
		(void)c.receive();
	c.work();
	while (c.svc.data && c.receive())
		c.release();
}

} // namespace

/* They go also where no call comes any more: a worker looks, as long as there are more than one call takes. */
RPCORDMA_TEST(server_read_registered, idle_connection)
{
	constexpr u32 size = 16 * kPage + 100;
	Iwarp c(16);

	for (u32 calls = 1; calls <= 3; calls++) {
		TEST_NOTE("calls", calls);
		serve_writes(c, calls, size);
		EXPECT_EQ(c.dma.regions, 2 * calls);
		EXPECT_EQ(c.svc.finish_ms, calls == 1 ? 0 : 10000);
		look_at_idle_regions(c);
		EXPECT_EQ(c.dma.regions, 2);
	}
	/* After a large one, and a small one long after it, one is enough. */
	serve_writes(c, 1, 5 * size);
	EXPECT_GT(c.dma.regions, 2);
	EXPECT_EQ(c.svc.finish_ms, 0);
	for (u32 i = 0; i < 2; i++) {
		EXPECT_EQ(c.svc.finish_ms, 0);
		c.sync.now += 20000;
		serve_writes(c, 1, 100);
	}
	look_at_idle_regions(c);
	EXPECT_EQ(c.dma.regions, 1);
}

/* They go as well where large READs come all the time, which ask for the worker too. */
RPCORDMA_TEST(server_read_registered, idle_while_others_read)
{
	constexpr u32 size = 16 * kPage + 100, results = 20 * kPage;
	Iwarp c(16);
	u32 looks = 0;

	serve_writes(c, 3, size);
	EXPECT_EQ(c.dma.regions, 6);
	EXPECT_EQ(c.svc.finish_ms, 10000);
	for (u32 i = 0; i < 600; i++) {
		CallMaker call(100 + i);

		call.write(results, 10000);
		call.finish(40);
		ASSERT_TRUE(c.send(call));
		ASSERT_EQ(c.receive(), 40);
		c.rqst->ddp_allowed = true;
		(void)rpcordma_core_server_result_payload(c.rqst->call, 20, results);
		ASSERT_EQ(c.send_reply_pages(20, results, 8), 0);
		c.work();
		/* A thread is faster than the worker. */
		c.release();
		EXPECT_GT(c.svc.finish_ms, 0);
		c.sync.now += 50;
		if (c.svc.finish_ms > 50) {
			c.svc.finish_ms -= 50;
			continue;
		}
		c.finish();
		looks++;
	}
	EXPECT_GT(looks, 200);
	EXPECT_EQ(c.dma.regions, 2);
}

/* Nobody is asked to look when the connection ends: who would be has been cancelled. */
RPCORDMA_TEST(server_read_registered, idle_at_the_end)
{
	constexpr u32 size = 16 * kPage + 100;
	Iwarp c(16);

	serve_writes(c, 2, size);
	look_at_idle_regions(c);
	EXPECT_EQ(c.dma.regions, 2);
	/* Both calls have theirs, and none is spare. */
	for (u32 i = 0; i < 2; i++) {
		CallMaker call(i);

		make_write(call, size);
		ASSERT_TRUE(c.send(call));
	}
	EXPECT_EQ(c.receive(), 0);
	EXPECT_EQ(c.dma.regions, 4);
	EXPECT_EQ(c.svc.finish_ms, 0);
	c.end();
	EXPECT_EQ(c.dma.regions, 0);
}

/* A Read that fails: what was registered goes with the queue pair, and all is given back. */
RPCORDMA_TEST(server_read_registered, read_fails)
{
	for (u32 failing = 0; failing < 2; failing++) {
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

/* --- where Reads of more than 4 pieces do better so --- */

namespace {

struct Choosy : Served {
	explicit Choosy(u32 region_pages = 65536, bool fast_registration = true)
	{
		verbs.device.max_sgl_rd = 4;
		verbs.device.max_fast_reg_pages = region_pages;
		verbs.device.fast_registration = fast_registration;
		connect();
		set_replied(true);
	}
	/** A call comes, and its data. Returns the work requests that took. */
	u32 pull(u32 xid, u32 segments, u32 pages)
	{
		CallMaker call(xid);

		for (u32 i = 0; i < segments; i++)
			call.read(40, pages * kPage / segments, i * (pages * kPage / segments));
		call.finish(60);
		EXPECT_TRUE(send(call));
		return finish(pages);
	}
	/** The same of two segments with @first and @second pages. */
	u32 pull_two(u32 xid, u32 first, u32 second)
	{
		CallMaker call(xid);

		call.read(40, first * kPage, 0);
		call.read(40, second * kPage, first * kPage);
		call.finish(60);
		EXPECT_TRUE(send(call));
		return finish(first + second);
	}
	/** The Reads are done, and a thread takes the call. */
	u32 finish(u32 pages)
	{
		const u32 posted = verbs.sends;

		work();
		EXPECT_FALSE(verbs.broken);
		EXPECT_EQ(receive(), int(60 + pages * kPage));
		expect_bytes(*this, pages * kPage);
		release();
		EXPECT_EQ(room_taken(), 0);
		EXPECT_EQ(dma.bulk_maps, 0);
		EXPECT_EQ(dma.region_maps, 0);
		return posted;
	}
};

} // namespace

/* With many pieces, by one that is there; it stays registered until it is used again. */
RPCORDMA_TEST(server_read_registered, many_pieces)
{
	Choosy c;

	EXPECT_EQ(c.pull(1, 1, 4), 1);
	EXPECT_EQ(c.pull(2, 2, 8), 2);
	EXPECT_EQ(c.dma.regions, 0);
	/* None is there, and so by SGEs; the thread makes one. */
	EXPECT_EQ(c.pull(3, 1, 5), 1);
	EXPECT_EQ(c.dma.regions, 1);
	EXPECT_EQ(c.dma.last_key, 1000);
	/* What registers it, and the Read. */
	EXPECT_EQ(c.pull(4, 1, 5), 2);
	/* Nobody but us: the peer has no part in it. */
	EXPECT_EQ(c.dma.all_regions[0]->access, RPCORDMA_ACCESS_LOCAL_WRITE);
	EXPECT_EQ(c.peer.local_invalidations, 0);
	for (u32 i = 0; i < 3; i++) {
		EXPECT_EQ(c.pull(5 + i, 2, 10), 4);
		EXPECT_EQ(c.peer.local_invalidations, i + 1);
	}
	EXPECT_EQ(c.pull(8, 1, 4), 1);
	/* Each Read counts by itself, in whichever order they are. */
	EXPECT_EQ(c.pull_two(9, 4, 4), 2);
	EXPECT_EQ(c.pull_two(10, 4, 3), 2);
	EXPECT_EQ(c.pull_two(11, 1, 5), 4);
	EXPECT_EQ(c.pull_two(12, 5, 1), 4);
	EXPECT_EQ(c.dma.regions, 1);
	EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), 12);
}

/* By a thread as well; and as many regions as there are sinks at a time. */
RPCORDMA_TEST(server_read_registered, many_pieces_held)
{
	Choosy c;

	for (u32 i = 0; i < 3; i++) {
		TEST_NOTE("call", i);
		CallMaker call(i);

		make_write(call, 5 * kPage);
		{
			const NoTransfers none;

			ASSERT_TRUE(c.send(call));
			ASSERT_EQ(c.receive(), 0);
		}
		EXPECT_EQ(c.finish(5), i + 1);
		EXPECT_EQ(c.dma.regions, 1);
	}
	EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), 0);
	for (u32 i = 0; i < 2; i++) {
		CallMaker call(i);

		make_write(call, 5 * kPage);
		ASSERT_TRUE(c.send(call));
	}
	EXPECT_EQ(c.verbs.sends, 4);
	c.work();
	for (u32 i = 0; i < 2; i++) {
		EXPECT_EQ(c.receive(), 60 + 5 * kPage);
		expect_bytes(c, 5 * kPage);
		c.release();
	}
	EXPECT_EQ(c.dma.regions, 2);
}

/* Several for a sink: all of them, or none. */
RPCORDMA_TEST(server_read_registered, many_pieces_several)
{
	Choosy c(16);

	EXPECT_EQ(c.pull(1, 1, 5), 1);
	EXPECT_EQ(c.dma.regions, 1);
	EXPECT_EQ(c.pull(2, 1, 32), 1);
	/* One more than one sink takes, as one was there. */
	EXPECT_EQ(c.dma.regions, 3);
	EXPECT_EQ(c.svc.finish_ms, 10000);
	EXPECT_EQ(c.pull(3, 1, 32), 3);
	EXPECT_EQ(c.pull(4, 1, 32), 5);
	EXPECT_EQ(c.dma.regions, 3);
}

/* Chains that are built and never posted, or fail, leave no wrong key and no mapping behind. */
RPCORDMA_TEST(server_read_registered, many_pieces_fail)
{
	for (u32 failing = 0; failing < 3; failing++) {
		TEST_NOTE("failing work request", failing);
		Choosy c;

		EXPECT_EQ(c.pull(1, 1, 5), 1);
		EXPECT_EQ(c.pull(2, 1, 5), 2);
		CallMaker call(3);
		make_write(call, 5 * kPage);
		{
			const NoRoom others(c, 1);

			ASSERT_TRUE(c.send(call));
			EXPECT_EQ(c.verbs.sends, 0);
		}
		EXPECT_EQ(c.receive(), 0);
		EXPECT_EQ(c.finish(5), 3);
		CallMaker again(4);
		make_write(again, 5 * kPage);
		ASSERT_TRUE(c.send(again));
		c.verbs.fail_at = failing;
		c.verbs.fail_status = RPCORDMA_WC_REMOTE_ACCESS;
		c.verbs.work();
		EXPECT_EQ(c.svc.closed, 1);
		EXPECT_EQ(c.in_service(), 0);
		EXPECT_EQ(c.dma.region_maps, 0);
		EXPECT_EQ(c.room_taken(), 0);
	}
}

/* Without memory for a region, or for what is mapped by it. */
RPCORDMA_TEST(server_read_registered, many_pieces_no_memory)
{
	Choosy c;

	c.dma.regions_left = 0;
	for (u32 i = 0; i < 2; i++)
		EXPECT_EQ(c.pull(i, 1, 5), 1);
	EXPECT_EQ(c.log.take(trace::Failure::region_failed), 2);
	c.dma.regions_left = kNoLimit;
	EXPECT_EQ(c.pull(2, 1, 5), 1);
	CallMaker call(3);
	make_write(call, 5 * kPage);
	c.dma.region_maps_left = 0;
	ASSERT_TRUE(c.send(call));
	EXPECT_EQ(c.log.take(trace::Failure::region_map_failed), 1);
	c.dma.region_maps_left = kNoLimit;
	EXPECT_EQ(c.receive(), 0);
	EXPECT_EQ(c.finish(5), 2);
}

/* A device that registers nothing, or too little at once, has SGEs for all. */
RPCORDMA_TEST(server_read_registered, many_pieces_unfit)
{
	for (const bool fast : {true, false}) {
		Choosy c(fast ? 7 : 65536, fast);

		for (u32 i = 0; i < 2; i++)
			EXPECT_EQ(c.pull(i, 1, 5), 1);
		EXPECT_EQ(c.dma.regions, 0);
	}
}

RPCORDMA_SUITE(server_read_registered, used_again, places_lost, not_posted, largest, small_pages,
	       inline_region, idle_regions, idle_connection, idle_while_others_read,
	       idle_at_the_end, read_fails, no_memory, many_pieces, many_pieces_held,
	       many_pieces_several, many_pieces_fail, many_pieces_no_memory, many_pieces_unfit);

} // namespace rpcordma
