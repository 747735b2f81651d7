// SPDX-License-Identifier: GPL-2.0-only
/*
 * Credits and the Receives behind them: module/server/receive.cc. A client that keeps to its credits always
 * finds a Receive; one that does not has a bound.
 */
#include "kunit/test_rdma_random.hh"
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"

namespace rpcordma {

namespace {

constexpr u32 kInitial = ResponderCredits::kInitial;

} // namespace

/* A client at its limit, which finds a Receive each time, for ever. */
RPCORDMA_TEST(server_credits, grant_grows)
{
	Connected c;
	u32 xid = 0, grant = 1;

	for (u32 turn = 0; turn < 300; turn++) {
		TEST_NOTE("turn", turn);
		svc_rqst &rqst = *c.rqst;
		rpcordma_server_call *calls[64];

		for (u32 i = 0; i < grant; i++) {
			ASSERT_TRUE(c.send_inline(++xid));
			expect_promise(c);
		}
		for (u32 i = 0; i < grant; i++) {
			ASSERT_EQ(c.receive(), 40);
			calls[i] = rqst.call;
		}
		u32 last = 0;
		for (u32 i = 0; i < grant; i++) {
			rqst.call = calls[i];
			ASSERT_EQ(c.reply(20), 0);
			c.work();
			last = c.got_credits();
			EXPECT_LE(last, c.verbs.posted);
		}
		EXPECT_GE(last, grant);
		EXPECT_LE(last, 64);
		grant = last;
	}
	EXPECT_EQ(grant, 64);
	EXPECT_EQ(counter(RPCORDMA_SERVER_DEBT), 0);
	/* A buffer for each Receive, and one for each call that may be in service meanwhile. */
	EXPECT_LE(c.calls(), 2 * 64 + 2 * kServerBatch);
}

/* A client that uses little keeps little. */
RPCORDMA_TEST(server_credits, idle_client)
{
	Connected c;

	for (u32 i = 0; i < 100; i++) {
		c.sync.now += 500;
		ASSERT_TRUE(c.send_inline(i));
		ASSERT_EQ(c.receive(), 40);
		EXPECT_EQ(c.reply(20), 0);
		c.work();
		EXPECT_EQ(c.got_credits(), kInitial);
	}
	EXPECT_LE(c.calls(), kInitial + 2 * kServerBatch);
}

/* A client that asks for less gets less, and Receives dwindle; never to nothing. */
RPCORDMA_TEST(server_credits, lower_request)
{
	Connected c;

	for (u32 requested : {3u, 1u, 0u, 0u}) {
		TEST_NOTE("requested", requested);
		ASSERT_TRUE(c.send_inline(requested, requested));
		expect_promise(c);
		ASSERT_EQ(c.receive(), 40);
		EXPECT_EQ(c.reply(20), 0);
		c.work();
		EXPECT_EQ(c.got_credits(), requested ? requested : 1);
	}
	for (u32 i = 0; i < 40; i++) {
		ASSERT_TRUE(c.send_inline(i, 1));
		ASSERT_EQ(c.receive(), 40);
		EXPECT_EQ(c.reply(20), 0);
		c.work();
	}
	EXPECT_LE(c.verbs.posted, 1 + 2 * kServerBatch);
}

/* A message that cannot be believed says nothing about credits. */
RPCORDMA_TEST(server_credits, bad_messages)
{
	Connected c;
	CallMaker call(5, 1);

	call.finish(40, kNeither);
	for (u32 i = 0; i < 30; i++) {
		ASSERT_TRUE(c.send(call));
		EXPECT_EQ(c.receive(), 0);
		c.work();
	}
	EXPECT_EQ(c.granted(), kInitial);
	EXPECT_EQ(c.log.take(trace::Failure::message_undecodable), 30);
	EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 30);
}

/*
 * Random clients that keep to their credits, slow services and replies, with memory running out now and
 * then: a Receive is there for each call. What the client is granted never exceeds what is backed.
 */
RPCORDMA_TEST(server_credits, any_client)
{
	for (u32 seed = 0; seed < 12; seed++) {
		TEST_NOTE("seed", seed);
		Random random(seed);
		Connected c;
		struct {
			rpcordma_server_call *call;
			bool replied;
		} service[64] = {};
		u32 in_service = 0, outstanding = 0, grant = 1, xid = 0, messages = 0;
		const bool poor = seed % 3 == 2;

		for (u32 step = 0; step < 4000; step++) {
			TEST_NOTE("step", step);
			c.sync.now += random.below(20);
			if (poor && random.one_in(10))
				c.memory.allocations_left = random.one_in(2) ? random.below(4) :
									       kNoLimit;
			switch (random.below(5)) {
			case 0:
			case 1:
				if (outstanding >= grant)
					break;
				outstanding++;
				ASSERT_TRUE(c.send_inline(++xid, random.one_in(200) ? 2 : 64));
				break;
			case 2:
				if (in_service < 64 && c.receive() > 0)
					service[in_service++] = {c.rqst->call, false};
				break;
			case 3:
				if (!in_service)
					break;
				{
					auto &s = service[random.below(in_service)];

					c.rqst->call = s.call;
					if (!s.replied) {
						c.memory.allocations_left = kNoLimit;
						ASSERT_EQ(c.send_reply(20), 0);
						s.replied = true;
						break;
					}
					c.release();
					s = service[--in_service];
				}
				break;
			case 4:
				c.work(1 + random.below(3));
				break;
			}
			if (c.peer.messages > messages) {
				outstanding -= c.peer.messages - messages;
				messages = c.peer.messages;
				/* At least what replies tell: it may be less than before. */
				grant = c.got_credits();
			}
			ASSERT_EQ(c.verbs.posted, c.posted());
			ASSERT_LE(c.calls(), 3 * (64 + kServerBatch));
		}
		EXPECT_GT(xid, 300);
		EXPECT_EQ(c.svc.closed, 0);
		c.memory.allocations_left = kNoLimit;
		for (u32 i = 0; i < in_service; i++) {
			c.rqst->call = service[i].call;
			c.release();
		}
	}
}

/* No memory for more Receives: those there are go round, and the grant stays as it is. */
RPCORDMA_TEST(server_credits, no_memory_to_grow)
{
	Connected c;
	rpcordma_server_call *calls[kInitial];

	c.memory.allocations_left = 0;
	for (u32 i = 0; i < kInitial; i++)
		ASSERT_TRUE(c.send_inline(i));
	EXPECT_GT(counter(RPCORDMA_SERVER_DEBT), 0);
	EXPECT_EQ(c.granted(), kInitial);
	for (rpcordma_server_call *&call : calls) {
		ASSERT_EQ(c.receive(), 40);
		call = c.rqst->call;
	}
	/* What is done with is posted again at once, until the debt is paid. */
	for (rpcordma_server_call *call : calls) {
		c.rqst->call = call;
		c.release();
	}
	EXPECT_GE(c.verbs.posted, kInitial);
	c.memory.allocations_left = kNoLimit;
	EXPECT_EQ(c.log.take(trace::Failure::receives_missing), 1);
}

/* Receives that a completion had no memory for are there before the reply that lets the client send. */
RPCORDMA_TEST(server_credits, short_of_receives)
{
	Connected c;
	rpcordma_server_call *calls[kInitial];
	u32 xid = 0;
	auto send_without_memory = [&] {
		c.memory.allocations_left = 0;
		ASSERT_TRUE(c.send_inline(++xid));
		c.memory.allocations_left = kNoLimit;
	};

	for (u32 i = 0; i < kInitial; i++)
		send_without_memory();
	for (rpcordma_server_call *&call : calls) {
		ASSERT_EQ(c.receive(), 40);
		call = c.rqst->call;
	}
	/* Enough for a client that has all its credits in use; it gets one back, and uses that. */
	EXPECT_EQ(c.verbs.posted, kInitial);
	EXPECT_TRUE(c.short_of_receives());
	c.rqst->call = calls[0];
	ASSERT_EQ(c.send_reply(20), 0);
	EXPECT_FALSE(c.short_of_receives());
	c.work();
	send_without_memory();
	EXPECT_EQ(c.verbs.posted, kInitial - 1);
	EXPECT_TRUE(c.short_of_receives());

	/* The thread has memory for the reply, and none besides: the next one is to try. */
	c.rqst->call = calls[1];
	c.memory.allocations_left = 1;
	ASSERT_EQ(c.send_reply(20), 0);
	c.memory.allocations_left = kNoLimit;
	EXPECT_EQ(c.verbs.receives_at_send, kInitial - 1);
	EXPECT_TRUE(c.short_of_receives());
	c.rqst->call = calls[2];
	ASSERT_EQ(c.send_reply(20), 0);
	EXPECT_EQ(c.verbs.receives_at_send, kInitial);
	EXPECT_FALSE(c.short_of_receives());
	c.work();
	for (rpcordma_server_call *call : calls) {
		c.rqst->call = call;
		c.release();
	}
	expect_promise(c);
	EXPECT_EQ(c.log.take(trace::Failure::receives_missing), 3);
}

/* So it is with whatever else has the client send again: an error for a call, and a backward call, which it replies to. */
RPCORDMA_TEST(server_credits, others_pay)
{
	for (const bool backward : {false, true}) {
		Connected c;
		rpcordma_server_call *calls[kInitial - 1];
		CallMaker bad(500, 1);
		u32 xid = 0;

		bad.finish(40, kNeither);
		c.memory.allocations_left = 0;
		for (u32 i = 0; i < kInitial - 1; i++)
			ASSERT_TRUE(c.send_inline(++xid));
		ASSERT_TRUE(c.send(bad));
		c.memory.allocations_left = kNoLimit;
		for (rpcordma_server_call *&call : calls) {
			ASSERT_EQ(c.receive(), 40);
			call = c.rqst->call;
		}
		EXPECT_TRUE(c.short_of_receives());
		if (backward)
			EXPECT_EQ(c.send_backward(1000, 40), 0);
		else
			EXPECT_EQ(c.receive(), 0);
		EXPECT_FALSE(c.short_of_receives());
		EXPECT_GE(c.verbs.receives_at_send, kInitial);
		if (backward)
			EXPECT_EQ(c.receive(), 0);
		c.work();
		for (rpcordma_server_call *call : calls) {
			c.rqst->call = call;
			c.release();
		}
		EXPECT_EQ(c.log.take(trace::Failure::message_undecodable), 1);
		EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
		EXPECT_GE(c.log.take(trace::Failure::receives_missing), 1);
	}
}

/*
 * As many are posted as are promised, and no batch in reserve: the call that comes then may be a thread's, and its reply sent,
 * before others are posted in its place. So that reply is to pay, whatever becomes of them.
 */
RPCORDMA_TEST(server_credits, none_in_reserve)
{
	/* The last of the reserve is none of what was promised: nothing is owed. */
	{
		Connected c;

		for (u32 i = 1; i <= 3 * kServerBatch; i++) {
			TEST_NOTE("call", i);
			ASSERT_TRUE(c.send_inline(i));
			EXPECT_FALSE(c.short_of_receives());
		}
	}
	Connected c;
	rpcordma_server_call *calls[kInitial];
	u32 xid = 0;

	c.memory.allocations_left = 0;
	for (u32 i = 0; i < kInitial; i++)
		ASSERT_TRUE(c.send_inline(++xid));
	/* Each time that was told of. */
	EXPECT_GT(counter(RPCORDMA_SERVER_DEBT), 0);
	EXPECT_EQ(counter(RPCORDMA_SERVER_DEBT), c.log.ever(trace::Failure::receives_missing));
	c.memory.allocations_left = kNoLimit;
	for (rpcordma_server_call *&call : calls) {
		ASSERT_EQ(c.receive(), 40);
		call = c.rqst->call;
	}
	for (rpcordma_server_call *call : calls) {
		c.rqst->call = call;
		ASSERT_EQ(c.send_reply(20), 0);
		c.work();
		c.release();
	}
	ASSERT_EQ(c.verbs.posted, c.promised());
	EXPECT_FALSE(c.short_of_receives());
	/* There are spare ones by now, and memory. */
	ASSERT_TRUE(c.send_inline(++xid));
	EXPECT_EQ(c.verbs.posted, c.promised() + kServerBatch);
	EXPECT_TRUE(c.short_of_receives());
	ASSERT_EQ(c.receive(), 40);
	ASSERT_EQ(c.send_reply(20), 0);
	EXPECT_FALSE(c.short_of_receives());
	c.work();
	c.release();
	/* With the batch, a call is no reason. */
	ASSERT_TRUE(c.send_inline(++xid));
	EXPECT_FALSE(c.short_of_receives());
	ASSERT_EQ(c.receive(), 40);
	ASSERT_EQ(c.send_reply(20), 0);
	c.work();
	c.release();
	(void)c.log.take(trace::Failure::receives_missing);
}

/* A client that heeds no credits comes to an end: there is a bound on what it can have of ours. */
RPCORDMA_TEST(server_credits, greedy_client)
{
	Connected c;
	constexpr u32 kMost = 3 * (64 + kServerBatch);
	rpcordma_server_call *calls[kMost];
	u32 n = 0;

	while (c.send_inline(n)) {
		ASSERT_LT(n, kMost);
		ASSERT_EQ(c.receive(), 40);
		calls[n++] = c.rqst->call;
		ASSERT_LE(c.calls(), kMost);
	}
	EXPECT_GT(n, 64);
	EXPECT_EQ(c.calls(), n);
	EXPECT_EQ(c.verbs.posted, 0);
	EXPECT_GT(counter(RPCORDMA_SERVER_DEBT), 0);
	EXPECT_EQ(c.svc.closed, 0);
	while (n) {
		c.rqst->call = calls[--n];
		c.release();
	}
	expect_promise(c);
	ASSERT_TRUE(c.send_inline(1));
	EXPECT_EQ(c.log.take(trace::Failure::receives_missing), 65);
}

/* A Receive that cannot be posted ends the connection: messages would find none, and be sent again for ever. */
RPCORDMA_TEST(server_credits, post_fails)
{
	Connected c;

	c.verbs.receives_left = 0;
	for (u32 i = 0; !c.svc.closed; i++) {
		/* As many are posted beyond the promised ones. */
		ASSERT_LE(i, kServerBatch + 1);
		ASSERT_TRUE(c.send_inline(i));
	}
	EXPECT_EQ(c.svc.closed, 1);
	EXPECT_EQ(c.log.take(trace::Failure::receive_post_failed), 1);
	EXPECT_EQ(c.log.take(trace::Loss::receive_not_posted), 1);
	/* What has arrived may be taken still; nothing is posted any more, and nothing is lost. */
	c.verbs.receives_left = kNoLimit;
	const u32 posted = c.verbs.posted;
	EXPECT_EQ(c.receive(), 40);
	c.release();
	EXPECT_EQ(c.verbs.posted, posted);
}

RPCORDMA_SUITE(server_credits, grant_grows, idle_client, lower_request, bad_messages, any_client,
	       no_memory_to_grow, short_of_receives, others_pay, none_in_reserve, greedy_client,
	       post_fails);

} // namespace rpcordma
