// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read chunks that cannot be pulled: module/server/read.cc when something fails at any point. The call is
 * held, refused, or the connection ends; nothing leaks.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"

namespace rpcordma {

/* The completion allocates nothing: it takes what is there. */
RPCORDMA_TEST(server_read_failures, without_allocations)
{
	Connected c;
	CallMaker call(1);

	c.memory.allocations_left = c.dma.bulks_left = 0;
	make_write(call, 40 * kPage);
	ASSERT_TRUE(c.send(call));
	EXPECT_FALSE(c.svc.data);
	EXPECT_EQ(c.verbs.sends, 2);
	c.memory.allocations_left = c.dma.bulks_left = kNoLimit;
}

/* Whatever of memory is missing, the call is held; for a thread, the connection ends. Nothing leaks. */
RPCORDMA_TEST(server_read_failures, no_memory)
{
	for (u32 what = 0; what < 3; what++)
		for (const bool thread_too : {false, true}) {
			TEST_NOTE("what", what);
			TEST_NOTE("thread too", thread_too);
			Connected c;
			CallMaker call(1);
			u32 &left = what == 0 ? c.memory.allocations_left :
				    what == 1 ? c.dma.bulks_left :
						c.dma.bulk_maps_left;
			const NoTransfers others;

			left = 0;
			make_write(call, 1000);
			ASSERT_TRUE(c.send(call));
			EXPECT_TRUE(c.svc.data);
			EXPECT_EQ(c.verbs.sends, 0);
			EXPECT_EQ(Connected::eager_bytes(), 0);
			if (!thread_too)
				left = kNoLimit;
			EXPECT_EQ(c.receive(), 0);
			EXPECT_EQ(c.verbs.sends, thread_too ? 0 : 1);
			EXPECT_EQ(c.svc.closed, thread_too ? 1 : 0);
			EXPECT_EQ(c.in_service(), thread_too ? 0 : 1);
			/* Of the completion that is no failure, but a mapping's. */
			using trace::Failure;
			EXPECT_EQ(c.log.take(Failure::transfer_missing), thread_too && what < 2);
			EXPECT_EQ(c.log.take(Failure::sink_map_failed), thread_too && what == 2);
			EXPECT_EQ(c.log.take(trace::Loss::rpc_failed), thread_too);
			left = kNoLimit;
		}
}

namespace {

/* @posted work requests can be posted of a chain of @requests, by completion or thread. */
void expect_post_fails(Served &c, bool eager, u32 requests, u32 posted)
{
	CallMaker before(1), call(2);

	/* One before, which leaves nothing, but a region where those are needed. */
	{
		const NoSinks none;

		make_write(before, kPage);
		ASSERT_TRUE(c.send(before));
		EXPECT_EQ(c.receive(), 0);
	}
	const u32 counted = counter(RPCORDMA_SERVER_READ);
	EXPECT_GT(counted, 0);
	c.work();
	ASSERT_EQ(c.receive(), int(60 + kPage));
	ASSERT_EQ(c.reply(20), 0);
	c.work();
	EXPECT_EQ(c.in_service(), 0);

	make_write(call, 40 * kPage);
	if (eager) {
		c.verbs.sends_left = posted;
		ASSERT_TRUE(c.send(call));
	} else {
		const NoSinks none;

		ASSERT_TRUE(c.send(call));
		c.verbs.sends_left = posted;
		EXPECT_EQ(c.receive(), 0);
	}
	EXPECT_EQ(c.svc.closed, 1);
	EXPECT_EQ(c.verbs.sends, posted);
	/* What the device has a part of stays as it is. */
	EXPECT_EQ(c.verbs.partly_posted.requests, posted ? requests : 0);
	EXPECT_EQ(c.dma.bulk_maps + c.dma.region_maps, posted ? 1 : 0);
	EXPECT_EQ(c.in_service(), posted ? 1 : 0);
	EXPECT_EQ(c.room_taken(), posted ? requests : 0);
	EXPECT_EQ(counter(RPCORDMA_SERVER_READ), counted);
	EXPECT_FALSE(c.svc.data);
}

} // namespace

/* None or some of a chain can be posted: the connection ends, nothing leaks. */
RPCORDMA_TEST(server_read_failures, post_fails)
{
	for (const bool eager : {true, false}) {
		TEST_NOTE("eager", eager);
		for (u32 posted = 0; posted < 2; posted++) {
			TEST_NOTE("posted", posted);
			Connected c;

			/* Two Reads. */
			expect_post_fails(c, eager, 2, posted);
		}
		for (u32 posted = 0; posted < 2; posted++) {
			TEST_NOTE("posted, with a region", posted);
			Iwarp c;

			/* What registers the sink, and the Read. */
			expect_post_fails(c, eager, 2, posted);
		}
	}
}

/* The connection ends while a call is held. */
RPCORDMA_TEST(server_read_failures, closing)
{
	Connected c;
	const NoSinks none;
	CallMaker call(1);

	make_write(call, 100);
	ASSERT_TRUE(c.send(call));
	rpcordma_core_server_detach(c.server);
	EXPECT_EQ(c.receive(), 0);
	EXPECT_EQ(c.verbs.sends, 0);
	EXPECT_EQ(c.dma.bulk_maps, 0);
}

/*
 * A chunk that the client's device refuses breaks the connection; the same call over the next one, with
 * whatever credits, is refused. A call that was flushed, or another client's memory, is not to blame.
 */
RPCORDMA_TEST(server_read_failures, remote_access)
{
	for (u32 failing = 0; failing < 2; failing++) {
		TEST_NOTE("failing work request", failing);
		Connected c;
		CallMaker bad(1), other(2), again(1, 5);

		make_write(bad, 40 * kPage);
		make_write(other, 100);
		make_write(again, 40 * kPage);
		c.set_replied(true);
		ASSERT_TRUE(c.send(bad));
		ASSERT_TRUE(c.send(other));
		c.verbs.fail_at = failing;
		c.verbs.fail_status = RPCORDMA_WC_REMOTE_ACCESS;
		c.work();
		EXPECT_EQ(c.svc.closed, 1);
		EXPECT_FALSE(c.svc.data);
		rpcordma_core_server_finish(c.server);
		EXPECT_EQ(c.dma.bulk_maps, 0);
		EXPECT_EQ(c.in_service(), 0);
		c.end();

		c.connect();
		ASSERT_TRUE(c.send(again));
		EXPECT_EQ(c.verbs.sends, 0);
		EXPECT_EQ(c.receive(), 0);
		c.work();
		c.expect_error(1, xdr::ErrorCode::chunk);
		/* The other one was flushed. */
		ASSERT_TRUE(c.send(other));
		c.work();
		EXPECT_EQ(c.receive(), 160);
		c.release();
		/* It is not held against it for ever. */
		c.sync.now += Failures::kLifetimeMs;
		ASSERT_TRUE(c.send(bad));
		EXPECT_EQ(c.verbs.sends, 2);
		c.svc.closed = 0;
	}
}

/* Any other failure says nothing of chunks. */
RPCORDMA_TEST(server_read_failures, other_failures)
{
	for (const int status : {int(RPCORDMA_WC_FLUSHED), 12, 1}) {
		TEST_NOTE("status", status);
		Connected c;
		CallMaker call(1);

		make_write(call, 100);
		ASSERT_TRUE(c.send(call));
		c.verbs.fail_at = 0;
		c.verbs.fail_status = status;
		c.work();
		EXPECT_EQ(c.svc.closed, 1);
		c.end();
		c.connect();
		ASSERT_TRUE(c.send(call));
		c.work();
		EXPECT_EQ(c.receive(), 160);
		c.release();
		EXPECT_EQ(c.log.take(trace::Loss::read_failed), 1);
	}
}

RPCORDMA_SUITE(server_read_failures, without_allocations, no_memory, post_fails, closing,
	       remote_access, other_failures);

} // namespace rpcordma
