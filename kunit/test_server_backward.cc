// SPDX-License-Identifier: GPL-2.0-only
/*
 * Backward calls at a server (RFC 8167): module/server/backward.cc. Calls, their replies, the Receives
 * behind them, and what cannot be sent.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"

namespace rpcordma {

RPCORDMA_TEST(server_backward, calls)
{
	Connected c;
	const u32 calls = c.calls();

	for (u32 xid = 1; xid <= 40; xid++) {
		TEST_NOTE("call", xid);
		EXPECT_EQ(c.send_backward(xid, 100), 0);
		/* Its reply has a Receive of its own. */
		EXPECT_GE(c.verbs.posted, c.granted() + 1);
		c.work();
		c.expect_reply(xid, 100);
		EXPECT_EQ(c.got_credits(), kServerBackwardCalls);
		EXPECT_FALSE(c.got().value().has_chunks());

		CallMaker reply(xid, xid);
		reply.finish(36, kReplyMessage);
		c.svc.backward_known = true;
		ASSERT_TRUE(c.send(reply));
		EXPECT_EQ(c.svc.backward_replies, xid);
		EXPECT_EQ(c.svc.backward_xid, xid);
		EXPECT_EQ(c.svc.backward_length, 36);
		EXPECT_EQ(c.svc.backward_credits,
			  xid < kServerBackwardCalls ? xid : kServerBackwardCalls);
		EXPECT_EQ(c.backward_outstanding(), 0);
		EXPECT_FALSE(c.svc.data);
	}
	EXPECT_EQ(counter(RPCORDMA_SERVER_DROPPED), 0);
	EXPECT_LE(c.calls(), calls + 3);
	/* A grant of zero would be the end: it is one. */
	CallMaker zero(41, 0);
	zero.finish(36, kReplyMessage);
	EXPECT_EQ(c.send_backward(41, 100), 0);
	c.work();
	ASSERT_TRUE(c.send(zero));
	EXPECT_EQ(c.svc.backward_credits, 1);
}

/* Calls outstanding are backed by Receives, all of them, beside those of forward calls. */
RPCORDMA_TEST(server_backward, receives)
{
	Connected c;

	for (u32 n = 1; n <= kServerBackwardCalls; n++) {
		TEST_NOTE("outstanding", n);
		EXPECT_EQ(c.send_backward(n, 40), 0);
		EXPECT_EQ(c.backward_outstanding(), n);
		EXPECT_GE(c.verbs.posted, c.granted() + n);
		c.work();
	}
	/* No more than that is ever outstanding, as far as Receives go. */
	EXPECT_EQ(c.send_backward(100, 40), 0);
	EXPECT_EQ(c.backward_outstanding(), kServerBackwardCalls);
	c.work();
	/* The client uses its credits, then replies: all find a Receive. */
	c.svc.backward_known = true;
	for (u32 i = 0; i < c.granted(); i++) {
		ASSERT_TRUE(c.send_inline(i));
		EXPECT_GE(c.verbs.posted, c.granted() + kServerBackwardCalls);
	}
	for (u32 n = 1; n <= kServerBackwardCalls; n++) {
		CallMaker reply(n);
		reply.finish(36, kReplyMessage);
		ASSERT_TRUE(c.send(reply));
		EXPECT_GE(c.verbs.posted, c.granted() + kServerBackwardCalls);
	}
	EXPECT_EQ(c.backward_outstanding(), 0);
}

/* A Receive that was posted for a backward call is there for the next one, too: no other is. */
RPCORDMA_TEST(server_backward, backed_already)
{
	Connected c;

	c.svc.backward_known = true;
	for (u32 xid = 1; xid <= 3; xid++) {
		TEST_NOTE("call", xid);
		const u32 doorbells = c.verbs.doorbells, posted = c.verbs.posted;

		EXPECT_EQ(c.send_backward(xid, 40), 0);
		/* The batch in reserve is for replies as well. */
		if (xid > 1) {
			EXPECT_EQ(c.verbs.doorbells, doorbells);
			EXPECT_EQ(c.verbs.posted, posted);
		}
		c.work();
		CallMaker reply(xid);
		reply.finish(36, kReplyMessage);
		ASSERT_TRUE(c.send(reply));
	}
	EXPECT_EQ(c.backward_backed(), 1);
}

/* A reply to nobody, one with chunks, and an error. */
RPCORDMA_TEST(server_backward, replies)
{
	Connected c;

	EXPECT_EQ(c.send_backward(5, 40), 0);
	c.work();
	CallMaker reply(5);
	reply.finish(36, kReplyMessage);
	c.svc.backward_known = false;
	ASSERT_TRUE(c.send(reply));
	EXPECT_EQ(counter(RPCORDMA_SERVER_DROPPED), 1);
	EXPECT_EQ(c.backward_outstanding(), 1);

	c.svc.backward_known = true;
	CallMaker chunks(5);
	chunks.write(100);
	chunks.finish(36, kReplyMessage);
	ASSERT_TRUE(c.send(chunks));
	EXPECT_EQ(counter(RPCORDMA_SERVER_DROPPED), 2);
	EXPECT_EQ(c.svc.backward_replies, 1);

	u8 error[v1::error_chunk_length];
	ASSERT_OK(v1::encode_error(error, {Xid(5), 1, {}, 0}, Credits(1), {}));
	ASSERT_TRUE(c.verbs.send(c.server, error));
	EXPECT_EQ(c.svc.backward_errors, 1);
	EXPECT_EQ(c.svc.backward_xid, 5);
	EXPECT_EQ(c.svc.backward_error, to_errno(Error::io));
	EXPECT_EQ(c.backward_outstanding(), 0);
	/* A reply more than there were calls. */
	ASSERT_TRUE(c.send(reply));
	EXPECT_EQ(c.backward_outstanding(), 0);
	EXPECT_EQ(c.svc.closed, 0);
	EXPECT_EQ(c.log.take(trace::Failure::backward_error_received), 1);
	EXPECT_EQ(c.log.take(trace::Failure::backward_reply_unmatched), 1);
	EXPECT_EQ(c.log.take(trace::Failure::backward_reply_chunks), 1);
}

RPCORDMA_TEST(server_backward, refused)
{
	{
		Connected c({.established = false});
		EXPECT_EQ(c.send_backward(1, 40), to_errno(Error::not_connected));
	}
	{
		Connected c;
		rpcordma_core_server_detach(c.server);
		EXPECT_EQ(c.send_backward(1, 40), to_errno(Error::not_connected));
	}
	{
		/* The client's receive buffer, less the header. */
		Connected c;
		const u32 most = rpcordma_core_server_backward_payload(c.server);
		EXPECT_EQ(c.send_backward(1, most + 1), to_errno(Error::message_size));
		EXPECT_EQ(c.verbs.sends, 0);
		EXPECT_EQ(c.send_backward(1, most), 0);
		c.work();
		c.expect_reply(1, most);
	}
	/* No memory: for a Receive, for a call, for a buffer; until there is enough. */
	for (u32 n = 0; n < 12; n++) {
		TEST_NOTE("allocations that go well", n);
		Connected c;
		c.memory.allocations_left = n;
		const int rc = c.send_backward(1, 40);
		EXPECT_TRUE(rc == 0 || rc == to_errno(Error::no_buffers));
		EXPECT_EQ(c.verbs.sends, rc ? 0 : 1);
		if (n == 11)
			EXPECT_EQ(rc, 0);
		if (n == 0)
			EXPECT_NE(rc, 0);
		c.memory.allocations_left = kNoLimit;
	}
}

/* No room in the send queue: no wait, in which others' calls would stand still; sunrpc tries again. */
RPCORDMA_TEST(server_backward, no_room)
{
	Connected c;

	EXPECT_EQ(c.send_backward(1, 40), 0);
	c.work();
	const u32 calls = c.calls();
	{
		const NoRoom others(c);

		for (u32 n = 0; n < 40; n++) {
			EXPECT_EQ(c.send_backward(2, 40), to_errno(Error::no_buffers));
			EXPECT_EQ(c.backward_outstanding(), 1);
		}
		EXPECT_EQ(c.sync.waits, 0);
		EXPECT_EQ(c.verbs.sends, 0);
		EXPECT_EQ(c.svc.closed, 0);
		/* One more Receive there is. */
		EXPECT_LE(c.calls(), calls + 1);
	}
	EXPECT_EQ(c.send_backward(2, 40), 0);
	EXPECT_EQ(c.backward_outstanding(), 2);
	c.work();
	c.expect_reply(2, 40);
	EXPECT_FALSE(c.replied());
	EXPECT_EQ(c.log.take(trace::Failure::send_queue_full), 40);
}

/* A call that could not be posted ends the connection. */
RPCORDMA_TEST(server_backward, not_posted)
{
	Connected c;

	c.verbs.sends_left = 0;
	EXPECT_EQ(c.send_backward(1, 40), to_errno(Error::not_connected));
	EXPECT_EQ(c.svc.closed, 1);
	EXPECT_EQ(c.backward_outstanding(), 0);
	EXPECT_EQ(c.room_taken(), 0);
	EXPECT_EQ(c.log.take(trace::Failure::post_failed), 1);
	EXPECT_EQ(c.log.take(trace::Loss::rpc_failed), 1);
}

RPCORDMA_SUITE(server_backward, calls, receives, backed_already, replies, refused, no_room,
	       not_posted);

} // namespace rpcordma
