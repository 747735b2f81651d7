// SPDX-License-Identifier: GPL-2.0-only
/*
 * Receives as they are replaced, and the queues of calls: the parts of module/server/receive.cc that keep
 * account. What is tried again when there was no memory, in how many doorbells, and who is told of a call.
 */
#include "kunit/test_server_connection.hh"
#include "kunit/testing.hh"

namespace rpcordma {
namespace {

constexpr u32 kInitial = ResponderCredits::kInitial;

/* A call comes, is served and replied to. Returns what the reply grants. */
u32 serve_one(Connected &c, u32 xid)
{
	EXPECT_TRUE(c.send_inline(xid));
	EXPECT_EQ(c.receive(), 40);
	EXPECT_EQ(c.reply(20), 0);
	c.work();
	return c.got_credits();
}

void send_write(Connected &c, u32 xid)
{
	CallMaker call(xid);

	call.read(40, 100);
	call.finish(60);
	ASSERT_TRUE(c.send(call));
}

} // namespace

/* With the last call that the window needs, the grant doubles, and a whole batch is posted beyond it. */
RPCORDMA_TEST(server_receives, growth)
{
	Connected c;
	constexpr u32 calls = kInitial * ResponderCredits::kCallsPerCredit;

	/* One of another window, so that it is not the time for a batch of Receives anyway. */
	ASSERT_EQ(serve_one(c, calls + 1), kInitial);
	c.sync.now += 2 * ResponderCredits::kWindowMs;
	for (u32 i = 1; i < calls; i++)
		ASSERT_EQ(serve_one(c, i), kInitial);
	EXPECT_GT(c.verbs.posted, c.promised() + 1);
	ASSERT_TRUE(c.send_inline(calls));
	EXPECT_EQ(c.granted(), 2 * kInitial);
	EXPECT_EQ(c.grant(), 2 * kInitial);
	EXPECT_EQ(c.verbs.posted, 2 * kInitial + kServerBatch);
}

/*
 * No memory for a larger grant: it is as it was, and is tried for again after as much use, not with each
 * call; with memory it comes then.
 */
RPCORDMA_TEST(server_receives, growth_without_memory)
{
	Connected c;
	constexpr u32 calls = kInitial * ResponderCredits::kCallsPerCredit;
	u32 xid = 0;

	/* All that a call takes itself is there. */
	for (u32 i = 0; i < 2 * kServerBatch; i++)
		ASSERT_EQ(serve_one(c, ++xid), kInitial);
	c.sync.now += 2 * ResponderCredits::kWindowMs;
	for (u32 round = 0; round < 3; round++) {
		TEST_NOTE("round", round);
		const bool memory = round == 2;

		for (u32 i = 1; i <= calls; i++) {
			TEST_NOTE("call", i);
			const u32 refused = c.memory.allocations_refused;
			const u32 tries = i == calls && !memory;

			c.memory.allocations_left = memory ? kNoLimit : 0;
			ASSERT_TRUE(c.send_inline(++xid));
			c.memory.allocations_left = kNoLimit;
			EXPECT_EQ(c.memory.allocations_refused > refused, tries);
			EXPECT_EQ(c.granted(), i == calls && memory ? 2 * kInitial : kInitial);
			ASSERT_EQ(c.receive(), 40);
			ASSERT_EQ(c.reply(20), 0);
			c.work();
		}
	}
}

/* Receives are replaced by batches: one doorbell for each kServerBatch messages. */
RPCORDMA_TEST(server_receives, doorbells)
{
	Connected c;
	u32 xid = 0;

	/* Without growth, and with as many calls as that needs. */
	for (; xid < 2 * kServerBatch; xid++)
		(void)serve_one(c, xid);
	for (u32 i = 0; i < 5 * kServerBatch; i++) {
		const u32 doorbells = c.verbs.doorbells, before = c.verbs.posted;

		c.sync.now += 2 * ResponderCredits::kWindowMs;
		(void)serve_one(c, xid++);
		EXPECT_EQ(c.verbs.doorbells - doorbells, before == kInitial + 1 ? 1 : 0);
		EXPECT_EQ(c.verbs.posted,
			  before == kInitial + 1 ? kInitial + kServerBatch : before - 1);
	}
}

/* A buffer that was posted in a chain is posted alone when it is the only one that is missing. */
RPCORDMA_TEST(server_receives, reposted_alone)
{
	Connected c;
	rpcordma_server_call *calls[kInitial + kServerBatch];
	u32 xid = 0;

	/* Each buffer was posted as one of a batch. */
	for (; xid < 8 * kServerBatch; xid++) {
		c.sync.now += 2 * ResponderCredits::kWindowMs;
		(void)serve_one(c, xid);
	}
	/* All come at once, and there are none in their place: each is missing when it is done with. */
	const NoSpareReceives none(c);
	c.memory.allocations_left = 0;
	u32 n = 0;
	for (; c.verbs.posted && n < kInitial + kServerBatch; n++) {
		ASSERT_TRUE(c.send_inline(++xid));
		ASSERT_EQ(c.receive(), 40);
		calls[n] = c.rqst->call;
	}
	for (u32 i = 0; i < n; i++) {
		TEST_NOTE("call", i);
		const u32 missing = c.verbs.posted < c.promised();
		const u32 before = c.verbs.posted;

		c.rqst->call = calls[i];
		c.release();
		/* And no more than are missing. */
		EXPECT_EQ(c.verbs.posted, before + missing);
	}
	EXPECT_EQ(c.verbs.posted, c.promised());
	EXPECT_EQ(c.log.take(trace::Failure::receives_missing), 5);
}

/* A connection that closes has no use for Receives, whoever asks for them. */
RPCORDMA_TEST(server_receives, closing)
{
	Connected c;

	ASSERT_TRUE(c.send_inline(1));
	ASSERT_EQ(c.receive(), 40);
	const u32 posted = c.verbs.posted;
	rpcordma_core_server_detach(c.server);
	EXPECT_FALSE(provide_receives(*c.server, posted + 3, RPCORDMA_ALLOC_ATOMIC));
	EXPECT_EQ(c.verbs.posted, posted);
	/* Nor has the call that is done with. */
	while (c.verbs.posted)
		ASSERT_TRUE(c.send_inline(2));
	c.release();
	EXPECT_EQ(c.verbs.posted, 0);
}

/* It begins to close while a message is looked at: neither Reads nor Receives are posted any more (S2). */
RPCORDMA_TEST(server_receives, closes_meanwhile)
{
	for (const bool low : {false, true}) {
		TEST_NOTE("low on Receives", low);
		Connected c;

		/* With this one another batch of Receives is due. */
		while (low && c.verbs.posted > c.promised() + 1)
			(void)serve_one(c, 7);
		const u32 posted = c.verbs.posted;
		c.sync.meanwhile = [] {
			rpcordma_core_server_detach(the_port->verbs.server);
			the_port->verbs.takes_receives = false;
		};
		send_write(c, 1);
		EXPECT_EQ(c.verbs.sends, 0);
		EXPECT_EQ(c.verbs.posted, posted - 1);
		EXPECT_EQ(Connected::eager_bytes(), 0);
		EXPECT_EQ(c.in_service(), 0);
	}
}

/* A backward call goes out with a Receive for its reply, and a batch more; or it does not go out. */
RPCORDMA_TEST(server_receives, backward)
{
	Connected c;

	c.memory.allocation_refused_at = 0;
	EXPECT_EQ(c.send_backward(1, 40), to_errno(Error::no_buffers));
	EXPECT_EQ(c.verbs.sends, 0);
	EXPECT_EQ(c.backward_backed(), 0);
	EXPECT_EQ(c.send_backward(1, 40), 0);
	EXPECT_EQ(c.verbs.posted, kInitial + 1 + kServerBatch);
	EXPECT_EQ(c.backward_backed(), 1);
	c.work();
	EXPECT_EQ(c.log.take(trace::Failure::backward_receive_missing), 1);
}

/* --- the queues --- */

/* XPT_DATA stays for as long as either queue has a call. */
RPCORDMA_TEST(server_receives, data)
{
	static constexpr struct {
		u32 whole, held;
	} cases[] = {
		{.whole = 1, .held = 0}, {.whole = 2, .held = 0}, {.whole = 0, .held = 1},
		{.whole = 0, .held = 2}, {.whole = 1, .held = 1}, {.whole = 1, .held = 2},
		{.whole = 2, .held = 1},
	};

	for (const auto &calls : cases) {
		TEST_NOTE("whole calls", calls.whole);
		TEST_NOTE("held calls", calls.held);
		Connected c;
		const NoTransfers none;

		for (u32 i = 0; i < calls.held; i++)
			send_write(c, i);
		for (u32 i = 0; i < calls.whole; i++)
			ASSERT_TRUE(c.send_inline(10 + i));
		for (u32 left = calls.held + calls.whole; left; left--) {
			TEST_NOTE("left", left);
			EXPECT_TRUE(c.svc.data);
			if (c.receive() > 0)
				c.release();
		}
		EXPECT_FALSE(c.svc.data);
		EXPECT_FALSE(c.has_ready());
		EXPECT_FALSE(c.has_held());
	}
}

/* A call that came before the connection was established is looked at then, of whichever kind it is. */
RPCORDMA_TEST(server_receives, before_established)
{
	for (const bool held : {false, true}) {
		TEST_NOTE("held", held);
		Connected c({.established = false});

		if (held)
			send_write(c, 1);
		else
			ASSERT_TRUE(c.send_inline(1));
		EXPECT_FALSE(c.svc.data);
		c.establish();
		EXPECT_TRUE(c.svc.data);
		EXPECT_EQ(c.svc.enqueued, 1);
	}
}

/* What a call was, the next one in its memory is not: refused, dropped, a reply. */
RPCORDMA_TEST(server_receives, used_again)
{
	Connected c;
	u32 xid = 0;

	c.svc.backward_known = true;
	for (u32 i = 0; i < 60; i++) {
		TEST_NOTE("message", i);
		const u32 kind = i % 4;

		if (kind == 0) {
			/* No RPC message: refused. */
			CallMaker bad(++xid);

			bad.finish(4);
			ASSERT_TRUE(c.send(bad));
			EXPECT_EQ(c.receive(), 0);
			c.work();
			c.expect_error(xid, xdr::ErrorCode::chunk);
		} else if (kind == 1) {
			/* Dropped. */
			const u8 short_one[12] = {};

			ASSERT_TRUE(c.verbs.send(c.server, short_one));
		} else if (kind == 2) {
			CallMaker reply(++xid);

			EXPECT_EQ(c.send_backward(xid, 40), 0);
			c.work();
			reply.finish(36, kReplyMessage);
			ASSERT_TRUE(c.send(reply));
		} else {
			++xid;
			(void)serve_one(c, xid);
			c.expect_reply(xid, 20);
		}
		EXPECT_EQ(c.in_service(), 0);
		EXPECT_FALSE(c.svc.data);
	}
	EXPECT_EQ(c.log.take(trace::Failure::message_short), 15);
	EXPECT_EQ(c.log.take(trace::Failure::message_undecodable), 15);
	EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 15);
}

RPCORDMA_SUITE(server_receives, growth, growth_without_memory, doorbells, reposted_alone, closing,
	       closes_meanwhile, backward, data, before_established, used_again);

} // namespace rpcordma
