// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a client's calls and messages fail of, one by one: that it is told with its figure, counted, and what the call is
 * afterwards. And that what comes is looked at before its Receive is given back.
 */
#include "kunit/test_client_items.hh"

namespace rpcordma {
namespace {

using trace::Failure;
using trace::Loss;

/* The next Receive that is given back has its batch posted. */
void fill_batch(Requester &r)
{
	static constexpr u8 useless[4] = {};
	const u32 before = r.verbs.doorbells,
		  failures = r.log.failures[RPCORDMA_FAILURE_message_short];

	while (r.verbs.doorbells == before)
		EXPECT_TRUE(r.deliver(useless));
	for (u32 i = 1; i < ReceiveQueue::kBatch; i++)
		EXPECT_TRUE(r.deliver(useless));
	EXPECT_EQ(r.verbs.doorbells, before + 1);
	r.log.failures[RPCORDMA_FAILURE_message_short] = failures;
}

} // namespace

/* A reply's sparse pages are filled before anything is sent: without memory for that the call waits, and is nobody's. */
RPCORDMA_TEST(client_failures, sparse_pages)
{
	Requester r;
	r.connect();
	rpc_rqst *call = r.prepare(7);

	r.add_pages(call, 5001, true);
	EXPECT_EQ(r.sunrpc.filled, 0);
	call->receive.flags |= RPCORDMA_XDRBUF_SPARSE_PAGES;
	r.sunrpc.sparse_pages = to_errno(Error::no_memory);
	EXPECT_EQ(r.transmit(call), to_errno(Error::no_buffers));
	EXPECT_EQ(r.sunrpc.filled, 1);
	EXPECT_EQ(r.peer.messages, 0);
	EXPECT_EQ(r.dma.region_maps, 0);
	r.sunrpc.sparse_pages = 0;
	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_EQ(r.sunrpc.filled, 2);
	EXPECT_TRUE(r.reply(7, 24));
	r.done(call);
	r.at_rest();
	EXPECT_EQ(r.log.take(Failure::pages_missing), 1);
}

/* What is too long for any way is for its own task to hear of; another one comes again, and its owner then. */
RPCORDMA_TEST(client_failures, too_long)
{
	for (const bool foreign : {false, true}) {
		TEST_NOTE("foreign", foreign);
		Requester r;
		r.connect();
		rpc_rqst *call = r.prepare(7);

		call->foreign = foreign;
		call->send.page_length = chunk::kMaxMessage;
		EXPECT_EQ(r.transmit(call),
			  to_errno(foreign ? Error::no_buffers : Error::message_size));
		EXPECT_EQ(r.peer.messages, 0);
		EXPECT_EQ(r.stats().failed_marshal_count, 1);
		EXPECT_EQ(r.log.take(Failure::reduce_failed), 1);
		EXPECT_EQ(r.log.failure_xid, 7);
		EXPECT_LT(r.log.failure_value, 0);
		call->send.page_length = 0;
		EXPECT_EQ(r.transmit(call), 0);
		EXPECT_TRUE(r.reply(7, 24));
		r.done(call);
		r.at_rest();
	}
}

/* A call that has no reply goes out, and takes its connection with it: nothing would give its credit back. */
RPCORDMA_TEST(client_failures, no_reply_expected)
{
	Requester r;
	r.connect();
	rpc_rqst *call = r.prepare(7);

	call->one_way = true;
	EXPECT_EQ(rpcordma_core_send_request(r.core, call->call), to_errno(Error::not_connected));
	EXPECT_EQ(r.connection(), nullptr);
	EXPECT_EQ(r.sunrpc.closes, 1);
	EXPECT_TRUE(rpcordma_core_client_should_back_off(r.core));
	r.done(call);
	EXPECT_EQ(r.log.take(Failure::reply_not_expected), 1);
	EXPECT_EQ(r.log.failure_xid, 7);
	EXPECT_EQ(r.log.failure_value, 0);
	EXPECT_EQ(r.log.take(Loss::rpc_failed), 1);
	EXPECT_EQ(r.log.loss_value, 0);
}

/* A reply to a call that owes none: it was not sent on this connection, or its memory could not be taken back. */
RPCORDMA_TEST(client_failures, unexpected_reply)
{
	for (const CallState state : {CallState::idle, CallState::lost}) {
		TEST_NOTE("state", state);
		Requester r;
		r.connect();
		rpc_rqst *call = r.prepare(7, 40, 4096);
		u32 bad = 0;

		if (state == CallState::lost) {
			EXPECT_EQ(r.transmit(call), 0);
			r.verbs.sends_left = 0;
			EXPECT_TRUE(r.reply(7, 24));
			r.verbs.sends_left = kNoLimit;
			EXPECT_EQ(r.log.take(Failure::invalidate_post_failed), 1);
			EXPECT_EQ(r.log.take(Loss::rpc_failed), 1);
		}
		for (u32 times = 1; times < 3; times++) {
			if (r.is_connected())
				fill_batch(r);
			bad = u32(r.stats().bad_reply_count);
			EXPECT_TRUE(r.reply(7, 24));
			EXPECT_EQ(r.stats().bad_reply_count, bad + 1);
			EXPECT_EQ(call->completed, 0);
			EXPECT_FALSE(call->pinned);
			EXPECT_EQ(call->call->get_state(), state);
			EXPECT_EQ(r.log.take(Failure::reply_unexpected), 1);
			EXPECT_EQ(r.log.failure_xid, 7);
			EXPECT_EQ(r.log.failure_value, int(state));
		}
		rpcordma_core_client_close(r.core);
		r.done(call);
	}
}

/*
 * What may not be, by the code above us or by our own: it is said to the kernel's log, and costs the connection, if it is
 * a call of which the peer, or the device, may have something still.
 */
RPCORDMA_TEST(client_failures, still_out)
{
	enum How { owed, region, pages };

	for (u32 how = owed; how <= pages; how++) {
		TEST_NOTE("how", how);
		Placer r;
		rpc_rqst *call = how == pages ? r.write(7, 5 * kSegment) : r.prepare(7);

		if (how == region)
			r.add_pages(call, 10000, true);
		EXPECT_EQ(rpcordma_core_send_request(r.core, call->call), 0);
		EXPECT_EQ(call->call->mapped.empty(), how != region);
		EXPECT_EQ(call->call->is_read(), how == pages);
		/* As if nobody knew. */
		if (how != owed)
			call->call->set_state(CallState::idle);
		EXPECT_EQ(rpcordma_core_send_request(r.core, call->call),
			  to_errno(Error::not_connected));
		EXPECT_EQ(r.connection(), nullptr);
		r.done(call);
		EXPECT_EQ(r.log.warned, 1);
		r.log.warned = 0;
		EXPECT_EQ(r.log.take(Failure::call_still_out), 1);
		EXPECT_EQ(r.log.failure_xid, 7);
		EXPECT_EQ(r.log.failure_value, 0);
		EXPECT_EQ(r.log.take(Loss::rpc_failed), 1);
	}
}

/* Nor are a slot that its peer has still, and regions that outlive their connection, passed over in silence. */
RPCORDMA_TEST(client_failures, warned)
{
	Requester r;

	r.connect();
	rpc_rqst *call = r.prepare(7);
	call->call->set_state(CallState::lost);
	rpcordma_core_free_slot(r.core, call->call);
	r.in_use--;
	EXPECT_EQ(r.log.warned, 1);
	call->call->set_state(CallState::idle);
	for (const bool gaps : {false, true}) {
		TEST_NOTE("gaps", gaps);
		if (!r.connection())
			r.connect();
		r.connection()->regions_created[gaps]++;
		rpcordma_core_client_close(r.core);
		EXPECT_EQ(r.log.warned, 2 + gaps);
	}
	r.log.warned = 0;
}

/* Each message is looked at before its Receive is the device's again, though it is the one that makes a batch whole. */
RPCORDMA_TEST(client_failures, given_back)
{
	enum Message { reply, call, refused, last };

	for (u32 message = reply; message < last; message++) {
		TEST_NOTE("message", message);
		Requester r;
		r.connect({.backchannel = true});
		rpc_rqst *rqst = r.call(5);
		CallMaker made(message == reply ? 5 : 9, 32);
		if (message == refused)
			made.read(40, 100);
		made.finish(100, message == reply ? kReplyMessage : kCallMessage);
		fill_batch(r);
		const u32 doorbells = r.verbs.doorbells;
		EXPECT_TRUE(r.deliver(made.message()));
		/* The first grant takes some of its own. */
		if (message != reply)
			EXPECT_EQ(r.verbs.doorbells, doorbells + 1);
		if (message == reply) {
			EXPECT_EQ(rqst->result, 100);
			EXPECT_BYTES(Bytes(static_cast<u8 *>(rqst->receive.head.base), 100),
				     made.message().from(made.header));
		} else if (message == call) {
			ASSERT_EQ(r.sunrpc.backward_calls, 1);
			EXPECT_BYTES(Bytes(static_cast<u8 *>(r.sunrpc.backward->message),
					   r.sunrpc.backward->message_length),
				     made.message().from(made.header));
			rpcordma_core_bc_free(r.core, r.sunrpc.backward->call);
		} else {
			EXPECT_EQ(r.sent().xid, Xid(9));
			EXPECT_EQ(r.sent().error.code, xdr::ErrorCode::chunk);
			EXPECT_EQ(r.log.take(Failure::backward_call_chunks), 1);
		}
		if (message != reply)
			EXPECT_TRUE(r.reply(5, 24));
		r.done(rqst);
		r.at_rest();
	}
}

/* The same of messages of version 2 that carry no RPC message, which are answered. */
RPCORDMA_TEST(client_failures, given_back_control)
{
	static constexpr struct {
		u32 words[14], count;
		u32 answer[8], answer_count;
	} messages[] = {
		/* REQPROP, and one that is not of its type; an extension that is none; a call that is cut short. */
		{{9, 2, 3, 7, 0}, 5, {9, 2, 48, 8, 0, 0, 0}, 7},
		{{9, 2, 3, 7, 1, 1, 2, 0}, 8, {9, 2, 16, 4, 2}, 5},
		{{9, 2, 3, 5, 0, 77, 0}, 7, {9, 2, 16, 4, 5}, 5},
		{{9, 2, 3, 0, 0, 0, 0, 0}, 8, {9, 2, 16, 4, 2}, 5},
	};

	for (const bool groups : {false, true})
		for (const auto &m : messages) {
			TEST_NOTE("groups", groups);
			TEST_NOTE("message", u32(&m - messages));
			GroupRequester r({.parameter = groups ? 7u : 0u});
			const u32 sent = r.peer.messages;

			fill_batch(r);
			const u32 doorbells = r.verbs.doorbells;
			EXPECT_TRUE(
				r.deliver(RawMessage(Span<const u32>(m.words, m.count)).message()));
			EXPECT_EQ(r.verbs.doorbells, doorbells + 1);
			EXPECT_EQ(r.peer.messages, sent + 1);
			expect_words(r.peer.last(), Span<const u32>(m.answer, m.answer_count));
			r.at_rest();
		}
}

/*
 * What a connection is lost for is told first, and not that the queue pair takes no Receives any more: backward calls more
 * than there are, and one longer than its buffer.
 */
RPCORDMA_TEST(client_failures, lost_first)
{
	const private_data::Properties large = {8192, 8192, true};

	for (const bool oversized : {false, true}) {
		TEST_NOTE("oversized", oversized);
		Requester r;
		const u32 size = oversized ? 5000 : 60;

		r.connect({.backchannel = true});
		rpcordma_core_client_close(r.core);
		rpcordma_tunables.max_inline_read = 8192;
		r.connect({.server = &large});
		CallMaker made(9);
		made.finish(size);
		Call *taken[kBackwardCalls];
		for (u32 i = 0; !oversized && i < kBackwardCalls; i++) {
			taken[i] = r.core->take_backward(i);
			ASSERT_NE(taken[i], nullptr);
			r.sunrpc.backward_calls++;
		}
		fill_batch(r);
		r.verbs.receives_left = 0;
		EXPECT_TRUE(r.deliver(made.message()));
		EXPECT_EQ(r.log.logged, 1);
		EXPECT_EQ(r.sunrpc.force_disconnects, 1);
		EXPECT_EQ(r.log.take(oversized ? Loss::backward_oversized : Loss::backward_overrun),
			  1);
		EXPECT_EQ(r.log.loss_value, oversized ? int(size) : 0);
		EXPECT_EQ(r.log.take(Loss::receive_not_posted), 0);
		EXPECT_EQ(r.log.take(Failure::receive_post_failed), 1);
		for (u32 i = 0; !oversized && i < kBackwardCalls; i++) {
			r.sunrpc.backward_calls--;
			r.core->put_backward(taken[i]);
		}
		r.verbs.receives_left = kNoLimit;
	}
}

RPCORDMA_SUITE(client_failures, sparse_pages, too_long, no_reply_expected, unexpected_reply,
	       still_out, warned, given_back, given_back_control, lost_first);

} // namespace rpcordma
