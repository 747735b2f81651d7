// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replies that cannot be sent: module/server/reply.cc without memory, without room in the send queue, and
 * over a connection that ends; what is left then.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"

namespace rpcordma {

/* A reply that cannot be built for want of memory ends the connection: the client asks again. */
RPCORDMA_TEST(server_reply_failures, no_memory)
{
	for (u32 what = 0; what < 5; what++) {
		TEST_NOTE("what", what);
		Connected c;
		/* Of few pages, the last is the call's own to write, and takes no transfer. */
		const u32 size = what == 2 || what == 3 ? 5 * kPage : 1000;
		u32 &left = what == 0 ? c.memory.allocations_left :
			    what == 1 ? c.dma.mappings_left :
			    what == 2 ? c.dma.bulks_left :
					c.dma.bulk_maps_left;

		const NoTransfers others;

		have_call(c, size, 0);
		(void)rpcordma_core_server_result_payload(c.rqst->call, 20, size);
		left = 0;
		EXPECT_EQ(c.send_reply_pages(20, size, 8), to_errno(Error::not_connected));
		left = kNoLimit;
		using trace::Failure;
		static constexpr Failure failures[] = {Failure::send_buffer_failed,
						       Failure::send_map_failed,
						       Failure::transfer_missing,
						       Failure::write_map_failed,
						       Failure::write_map_failed};
		EXPECT_EQ(c.log.take(failures[what]), 1);
		EXPECT_EQ(c.log.take(Failure::reply_failed), what < 2 ? 0 : 1);
		EXPECT_EQ(c.log.take(trace::Loss::rpc_failed), 1);
		EXPECT_EQ(c.svc.closed, 1);
		EXPECT_EQ(c.verbs.sends, 0);
		EXPECT_EQ(c.dma.bulk_maps, 0);
		c.release();
		EXPECT_EQ(c.in_service(), 0);
		EXPECT_EQ(c.room_taken(), 0);
	}
	/* Nor can an error message be. */
	Connected c;
	CallMaker bad(1);
	bad.finish(4);
	ASSERT_TRUE(c.send(bad));
	c.memory.allocations_left = 0;
	EXPECT_EQ(c.receive(), 0);
	c.memory.allocations_left = kNoLimit;
	EXPECT_EQ(c.svc.closed, 1);
	EXPECT_EQ(c.in_service(), 0);
}

/* None or some of the chain can be posted. */
RPCORDMA_TEST(server_reply_failures, post_fails)
{
	for (u32 posted = 0; posted < 2; posted++) {
		TEST_NOTE("posted", posted);
		Connected c;

		/* One before, which leaves nothing. */
		have_call(c, 1000, 0);
		(void)rpcordma_core_server_result_payload(c.rqst->call, 20, 1000);
		ASSERT_EQ(c.send_reply_pages(20, 1000, 8), 0);
		c.release();
		c.work();
		EXPECT_EQ(c.in_service(), 0);
		c.set_replied(false);
		const u32 writes = counter(RPCORDMA_SERVER_WRITE);

		have_call(c, 1000, 0);
		(void)rpcordma_core_server_result_payload(c.rqst->call, 20, 1000);
		c.verbs.sends_left = posted;
		EXPECT_EQ(c.send_reply_pages(20, 1000, 8), to_errno(Error::not_connected));
		EXPECT_EQ(c.svc.closed, 1);
		EXPECT_FALSE(c.replied());
		c.release();
		/* What the device has a part of stays until the drain, pages and all. */
		EXPECT_EQ(c.dma.bulk_maps, posted);
		EXPECT_EQ(c.in_service(), posted);
		/* A Write and the Send. */
		EXPECT_EQ(c.room_taken(), posted ? 2 : 0);
		EXPECT_EQ(counter(RPCORDMA_SERVER_WRITE), writes);
		EXPECT_EQ(c.log.take(trace::Failure::post_failed), 1);
		EXPECT_EQ(c.log.take(trace::Loss::rpc_failed), 1);
	}
}

/* A Write that the client's device refuses: as a Read. */
RPCORDMA_TEST(server_reply_failures, remote_access)
{
	Connected c;

	have_call(c, 1000, 0);
	(void)rpcordma_core_server_result_payload(c.rqst->call, 20, 1000);
	ASSERT_EQ(c.send_reply_pages(20, 1000, 8), 0);
	c.verbs.fail_at = 0;
	c.verbs.fail_status = RPCORDMA_WC_REMOTE_ACCESS;
	c.work();
	EXPECT_EQ(c.svc.closed, 1);
	EXPECT_EQ(c.dma.bulk_maps, 0);
	c.release();
	EXPECT_EQ(c.in_service(), 0);
	c.end();
	c.connect();
	CallMaker again(1);
	again.write(1000, kWrite);
	again.finish(40);
	ASSERT_TRUE(c.send(again));
	EXPECT_EQ(c.receive(), 0);
	c.work();
	c.expect_error(1, xdr::ErrorCode::chunk);
	/* A call without chunks is not looked up. */
	ASSERT_TRUE(c.send_inline(1));
	EXPECT_EQ(c.receive(), 40);
	c.release();
	EXPECT_EQ(c.log.take(trace::Failure::call_failed_before), 1);
	EXPECT_EQ(c.log.take(trace::Failure::chunk_refused), 1);
	EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
	EXPECT_EQ(c.log.take(trace::Loss::chain_failed), 1);
}

/* Room for a reply is waited for; when the connection ends meanwhile, that is the end of it. */
RPCORDMA_TEST(server_reply_failures, room)
{
	Connected c;

	EXPECT_TRUE(rpcordma_core_server_has_space(c.server));
	ASSERT_TRUE(c.send_inline(1));
	ASSERT_EQ(c.receive(), 40);
	ASSERT_EQ(c.reply(20), 0);
	have_call(c, 0, 0);
	const NoRoom others(c);
	const u32 enqueued = c.svc.enqueued;
	ASSERT_EQ(c.reply(20), 0);
	EXPECT_EQ(c.sync.waits, 1);
	/* Threads that were held back have a look. */
	EXPECT_EQ(c.svc.enqueued, enqueued + 1);
	EXPECT_TRUE(rpcordma_core_server_has_space(c.server));
	c.pretend_waiters(1);
	EXPECT_FALSE(rpcordma_core_server_has_space(c.server));
	c.pretend_waiters(0);

	/* The next one is flushed: whoever waits goes on, to no avail. */
	have_call(c, 0, 0);
	c.verbs.fail_at = 0;
	c.verbs.fail_status = 12;
	EXPECT_EQ(c.reply(20), to_errno(Error::not_connected));
	EXPECT_EQ(c.svc.closed, 1);
	EXPECT_EQ(c.in_service(), 0);

	/* And with that no reply is built any more. */
	EXPECT_EQ(rpcordma_core_server_send_backward(c.server, 1, &c.rqst->reply),
		  to_errno(Error::not_connected));
	EXPECT_EQ(c.log.take(trace::Failure::send_queue_full), 2);
	EXPECT_EQ(c.log.take(trace::Loss::send_failed), 1);
}

/* A client takes one thing off our hands, and then nothing more: whoever waits does so for a minute in all. */
RPCORDMA_TEST(server_reply_failures, stalled)
{
	Connected c;

	ASSERT_TRUE(c.send_inline(2));
	ASSERT_EQ(c.receive(), 40);
	ASSERT_EQ(c.reply(20), 0);
	have_call(c, 1000, 0);
	(void)rpcordma_core_server_result_payload(c.rqst->call, 20, 100);
	const NoRoom others(c);
	c.sync.stalls = 1;
	const u64 before = c.sync.now;
	/* A Write and a Send, with room for one of them. */
	EXPECT_EQ(c.send_reply_pages(20, 100, 8), to_errno(Error::not_connected));
	EXPECT_EQ(c.sync.waits, 2);
	EXPECT_EQ(c.sync.now - before, 60000);
	EXPECT_EQ(c.peer.messages, 1);
	EXPECT_EQ(c.verbs.sends, 0);
	EXPECT_EQ(c.svc.closed, 1);
	EXPECT_EQ(c.dma.bulk_maps, 0);
	EXPECT_EQ(c.waiters(), 0);
	c.release();
	EXPECT_EQ(c.in_service(), 0);
	/* The next one does not wait at all. */
	RoomWait wait;
	EXPECT_FALSE(wait_for_room(*c.server, 1, wait));
	EXPECT_EQ(c.sync.waits, 2);
	EXPECT_EQ(c.log.take(trace::Failure::send_queue_full), 1);
	EXPECT_EQ(c.log.take(trace::Loss::send_queue_stalled), 1);
}

static Connected *the_connection;
static u32 times_left;

/* A client takes something now and then, and never enough: that does not make the limit begin anew. */
RPCORDMA_TEST(server_reply_failures, slow)
{
	Connected c;
	const NoRoom others(c);
	const u64 before = c.sync.now;

	the_connection = &c;
	times_left = 5;
	c.sync.meanwhile = [] {
		struct Again {
			static void happens()
			{
				the_connection->sync.now += 29000;
				the_connection->server->room.wake_all();
				if (--times_left)
					the_connection->sync.meanwhile = happens;
			}
		};
		Again::happens();
	};
	RoomWait wait;
	EXPECT_FALSE(wait_for_room(*c.server, 1, wait));
	c.sync.meanwhile = nullptr;
	/* The third is behind the end of it. */
	EXPECT_EQ(c.sync.now - before, 87000);
	EXPECT_EQ(c.svc.closed, 1);
	EXPECT_EQ(c.waiters(), 0);
	EXPECT_EQ(c.log.take(trace::Failure::send_queue_full), 1);
	EXPECT_EQ(c.log.take(trace::Loss::send_queue_stalled), 1);
}

/* There is room for a small reply, and a larger one waits: the small one does not overtake it. */
RPCORDMA_TEST(server_reply_failures, in_turn)
{
	Connected c;
	const NoRoom others(c, 1);

	the_connection = &c;
	c.sync.meanwhile = [] {
		RoomWait wait;

		the_connection->sync.disconnect_in_wait = true;
		EXPECT_FALSE(wait_for_room(*the_connection->server, 1, wait));
		EXPECT_FALSE(the_connection->sync.disconnect_in_wait);
	};
	RoomWait wait;
	EXPECT_FALSE(wait_for_room(*c.server, 2, wait));
	EXPECT_EQ(c.waiters(), 0);
	EXPECT_EQ(c.log.take(trace::Failure::send_queue_full), 2);
	EXPECT_EQ(c.log.take(trace::Loss::disconnected), 1);
}

/* Whoever has room lets the next one look, and is waited for by it. */
RPCORDMA_TEST(server_reply_failures, next_turn)
{
	Connected c;

	/* Another thread waits. */
	ServerInside::turns(c.server->room) = 1;
	c.pretend_waiters(1);
	the_connection = &c;
	c.sync.meanwhile = [] {
		/* It has its room, and a third one waits by now. */
		ServerInside::over(the_connection->server->room) = 1;
		the_connection->server->room.wake_all();
	};
	RoomWait wait;
	EXPECT_TRUE(wait_for_room(*c.server, 1, wait));
	EXPECT_EQ(c.sync.waits, 1);
	EXPECT_EQ(c.sync.openings, 2);
	EXPECT_EQ(ServerInside::over(c.server->room).load(), 2u);
	EXPECT_EQ(c.waiters(), 1);
	c.pretend_waiters(0);
	c.server->room.give(1);
	EXPECT_EQ(c.log.take(trace::Failure::send_queue_full), 1);
}

/* The connection ends, and nothing more completes: whoever waits hears of it. */
RPCORDMA_TEST(server_reply_failures, room_never)
{
	Connected c;

	have_call(c, 0, 0);
	const NoRoom others(c);
	c.sync.disconnect_in_wait = true;
	EXPECT_EQ(c.reply(20), to_errno(Error::not_connected));
	EXPECT_FALSE(c.sync.disconnect_in_wait);
	EXPECT_EQ(c.svc.closed, 1);
	EXPECT_EQ(c.log.take(trace::Failure::send_queue_full), 1);
	EXPECT_EQ(c.log.take(trace::Loss::disconnected), 1);
}

RPCORDMA_TEST(server_reply_failures, closing)
{
	Connected c;

	have_call(c, 0, 0);
	rpcordma_core_server_detach(c.server);
	EXPECT_EQ(c.reply(20), to_errno(Error::not_connected));
	EXPECT_EQ(c.verbs.sends, 0);
	EXPECT_EQ(c.in_service(), 0);
}

RPCORDMA_SUITE(server_reply_failures, no_memory, post_fails, remote_access, room, stalled, slow,
	       in_turn, next_turn, room_never, closing);

} // namespace rpcordma
