// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls as they come: module/server/receive.cc. What is a call, what is answered, what is dropped; and
 * who owns a call. See test_server_credits.cc for what clients are granted.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"

namespace rpcordma {

RPCORDMA_TEST(server_receive, inline_call)
{
	Connected c;

	for (u32 size : {8u, 40u, 996u}) {
		TEST_NOTE("size", size);
		const u32 enqueued = c.svc.enqueued, received = c.svc.received;

		ASSERT_TRUE(c.send_inline(size, 64, size));
		EXPECT_TRUE(c.svc.data);
		EXPECT_EQ(c.svc.enqueued, enqueued + 1);
		EXPECT_EQ(c.receive(), int(size));
		EXPECT_FALSE(c.svc.data);
		EXPECT_EQ(c.svc.received, received + 1);
		EXPECT_EQ(c.rqst->arg.head_length, size);
		EXPECT_EQ(c.rqst->arg.page_length, 0);
		EXPECT_EQ(c.rqst->arg.tail_length, 0);
		EXPECT_EQ(c.rqst->arg.pages_used, 0);
		for (u32 i = 8; i < size; i++)
			ASSERT_EQ(c.call_byte(i), call_pattern(i));
		EXPECT_EQ(c.reply(20), 0);
		c.work();
		c.expect_reply(size, 20);
	}
	EXPECT_EQ(counter(RPCORDMA_SERVER_RECV), 3);
	/* A thread that comes for nothing. */
	EXPECT_EQ(c.receive(), 0);
	EXPECT_EQ(c.svc.received, 4);
}

/* XPT_DATA is there as long as a call is, and calls keep their order. */
RPCORDMA_TEST(server_receive, order)
{
	Connected c;

	for (u32 i = 0; i < 3; i++)
		ASSERT_TRUE(c.send_inline(i));
	for (u32 i = 0; i < 3; i++) {
		EXPECT_TRUE(c.svc.data);
		EXPECT_GT(c.receive(), 0);
		EXPECT_EQ(c.call_xid(), Xid(i));
		c.release();
	}
	EXPECT_FALSE(c.svc.data);
}

/* What comes ahead of the ESTABLISHED event waits for it; nobody is woken. */
RPCORDMA_TEST(server_receive, before_established)
{
	Connected c({.established = false});
	CallMaker write(2);

	ASSERT_TRUE(c.send_inline(1));
	write.read(40, 100);
	write.finish(60);
	ASSERT_TRUE(c.send(write));
	EXPECT_FALSE(c.svc.data);
	EXPECT_EQ(c.svc.enqueued, 0);
	/* Its Reads are not posted either. */
	EXPECT_EQ(c.verbs.sends, 0);
	c.establish();
	EXPECT_TRUE(c.svc.data);
	EXPECT_EQ(c.svc.enqueued, 1);
	/* The held one is first in turn: its Reads are on their way while the other is served. */
	EXPECT_EQ(c.receive(), 0);
	EXPECT_EQ(c.receive(), 40);
	c.release();
	c.work();
	EXPECT_EQ(c.receive(), 160);
	c.release();
}

RPCORDMA_TEST(server_receive, established_idle)
{
	Connected c;

	EXPECT_FALSE(c.svc.data);
}

/* Each message that is no call gets what RFC 8166 4.5 and 4.6 say, or nothing. */
RPCORDMA_TEST(server_receive, bad_messages)
{
	enum Expected { drop, vers, chunk };
	static constexpr struct {
		u32 words[12] = {};
		u32 length;
		Expected expected;
	} messages[] = {
		/* Too short for anything; for its proc. */
		{.length = 0, .expected = drop},
		{.words = {7, 1, 1}, .length = 12, .expected = drop},
		{.words = {7, 1, 1, 0, 0, 0}, .length = 24, .expected = drop},
		/* Versions. */
		{.words = {7, 2, 1, 0, 0, 0, 0}, .length = 28, .expected = vers},
		{.words = {7, 0, 1, 0}, .length = 16, .expected = vers},
		/* RDMA_ERROR of a version that is none: never answered. */
		{.words = {7, 2, 1, 4, 1, 1, 1}, .length = 28, .expected = drop},
		/* RDMA_MSGP, RDMA_DONE, a proc that does not exist. */
		{.words = {7, 1, 1, 2, 0, 0, 0, 0, 0}, .length = 36, .expected = chunk},
		{.words = {7, 1, 1, 3, 0, 0, 0}, .length = 28, .expected = drop},
		{.words = {7, 1, 1, 9, 0, 0, 0}, .length = 28, .expected = chunk},
		/* A Reply that cannot be one: backward ones have no chunks (RFC 8167 5.3). */
		{.words = {7, 1, 1, 1, 0, 0, 1, 0}, .length = 32, .expected = chunk},
		/* Lists that are none; an RDMA_NOMSG with nothing. */
		{.words = {7, 1, 1, 0, 2, 0, 0}, .length = 28, .expected = chunk},
		{.words = {7, 1, 1, 1, 0, 0, 0}, .length = 28, .expected = chunk},
		/* No RPC message, half of one, neither Call nor Reply, another xid. */
		{.words = {7, 1, 1, 0, 0, 0, 0}, .length = 28, .expected = chunk},
		{.words = {7, 1, 1, 0, 0, 0, 0, 7}, .length = 32, .expected = chunk},
		{.words = {7, 1, 1, 0, 0, 0, 0, 7, 2}, .length = 36, .expected = chunk},
		{.words = {7, 1, 1, 0, 0, 0, 0, 8, 0}, .length = 36, .expected = chunk},
	};

	Connected c;
	u32 dropped = 0, answered = 0;

	for (u32 i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		const auto &m = messages[i];
		u8 bytes[48];

		TEST_NOTE("message", i);
		for (u32 w = 0; w < 12; w++)
			xdr::store_be32(bytes + 4 * w, m.words[w]);
		const ExactCopy copy(Bytes(bytes, m.length));
		ASSERT_TRUE(c.verbs.send(c.server, copy.bytes()));
		expect_promise(c);
		if (m.expected == drop) {
			EXPECT_EQ(counter(RPCORDMA_SERVER_DROPPED), ++dropped);
			EXPECT_FALSE(c.svc.data);
			EXPECT_EQ(c.receive(), 0);
			EXPECT_EQ(c.verbs.sends, 0);
			continue;
		}
		EXPECT_TRUE(c.svc.data);
		EXPECT_EQ(c.receive(), 0);
		EXPECT_EQ(c.rqst->call, nullptr);
		EXPECT_EQ(c.work(), 1);
		EXPECT_EQ(c.peer.messages, ++answered);
		/* The failing request's xid and version are echoed. */
		EXPECT_EQ(xdr::load_be32(c.peer.message), m.words[0]);
		EXPECT_EQ(xdr::load_be32(c.peer.message + 4), m.words[1]);
		EXPECT_NE(xdr::load_be32(c.peer.message + 8), 0);
		EXPECT_EQ(xdr::load_be32(c.peer.message + 12), 4);
		EXPECT_EQ(xdr::load_be32(c.peer.message + 16), m.expected == vers ? 1 : 2);
		EXPECT_EQ(c.peer.message_length, m.expected == vers ? 28 : 20);
		if (m.expected == vers) {
			EXPECT_EQ(xdr::load_be32(c.peer.message + 20), 1);
			EXPECT_EQ(xdr::load_be32(c.peer.message + 24), 1);
		}
	}
	EXPECT_EQ(counter(RPCORDMA_SERVER_ERR_VERS), 2);
	EXPECT_EQ(counter(RPCORDMA_SERVER_ERR_CHUNK), answered - 2);
	EXPECT_EQ(c.svc.closed, 0);
	/* None of them is in service any more, and the connection serves. */
	EXPECT_EQ(c.in_service(), 0);
	ASSERT_TRUE(c.send_inline(8));
	EXPECT_EQ(c.receive(), 40);
	c.release();
	EXPECT_EQ(c.log.take(trace::Failure::message_short), 3);
	EXPECT_EQ(c.log.take(trace::Failure::message_version), 2);
	EXPECT_EQ(c.log.take(trace::Failure::message_undecodable), 10);
	EXPECT_EQ(c.log.take(trace::Failure::err_vers_sent), 2);
	EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 9);
	EXPECT_EQ(c.log.take(trace::Failure::backward_reply_chunks), 1);
}

/* Chunks that make no call, or one that is more than can be pulled. */
RPCORDMA_TEST(server_receive, bad_chunks)
{
	Connected c;
	u32 answered = 0;
	auto expect_refused = [&](const CallMaker &call, u32 reads = 0) {
		ASSERT_TRUE(c.send(call));
		EXPECT_EQ(c.receive(), 0);
		c.work();
		EXPECT_EQ(c.peer.messages, ++answered);
		c.expect_error(call.xid, xdr::ErrorCode::chunk);
		EXPECT_EQ(c.peer.reads, reads);
	};
	{
		CallMaker behind(1);
		behind.read(64, 100);
		behind.finish(60);
		expect_refused(behind);
	}
	{
		CallMaker too_long(2);
		too_long.read(40, c.svc.limits.max_message - 56);
		too_long.finish(60);
		expect_refused(too_long);
	}
	{
		/* The service's pages: those of the call must leave some for the reply. */
		c.server->limits.max_pages = 4;
		CallMaker pages(3);
		pages.read(40, 4 * kPage + 1);
		pages.finish(60);
		expect_refused(pages);
		CallMaker fits(4);
		fits.read(40, 4 * kPage);
		fits.finish(60);
		ASSERT_TRUE(c.send(fits));
		c.work();
		EXPECT_EQ(c.receive(), 60 + 4 * int(kPage));
		c.release();
	}
	{
		/* Neither a call, which it has no chunk for, nor a reply, which it has one too many for. */
		CallMaker nothing(5, 64, xdr::Kind::nomsg);
		nothing.reply(1000);
		nothing.finish(0);
		expect_refused(nothing, 1);
		EXPECT_EQ(c.svc.backward_replies, 0);
		EXPECT_EQ(counter(RPCORDMA_SERVER_DROPPED), 0);
	}
	EXPECT_EQ(c.svc.closed, 0);
	EXPECT_EQ(c.log.take(trace::Failure::call_read_list), 1);
	EXPECT_EQ(c.log.take(trace::Failure::call_too_long), 2);
	EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 4);
	EXPECT_EQ(c.log.take(trace::Failure::backward_reply_chunks), 1);
}

/* What precedes the arguments comes inline, all of it: a chunk begins at its end, or later. */
RPCORDMA_TEST(server_receive, chunk_in_header)
{
	static constexpr struct {
		u32 credential = 0, verifier = 0, position, size;
		bool good;
	} calls[] = {
		{.position = 40, .size = 60, .good = true},
		{.position = 44, .size = 60, .good = true},
		{.position = 36, .size = 60, .good = false},
		{.position = 28, .size = 60, .good = false},
		{.position = 8, .size = 60, .good = false},
		{.position = 8, .size = 8, .good = false},
		{.position = 40, .size = 40, .good = true},
		{.position = 36, .size = 36, .good = false},
		/* In the credential, the verifier, and right behind them. */
		{.credential = 32, .position = 40, .size = 120, .good = false},
		{.credential = 32, .position = 60, .size = 120, .good = false},
		{.credential = 32, .position = 64, .size = 120, .good = false},
		{.credential = 32, .position = 68, .size = 120, .good = false},
		{.credential = 32, .position = 72, .size = 120, .good = true},
		{.verifier = 16, .position = 40, .size = 120, .good = false},
		{.verifier = 16, .position = 52, .size = 120, .good = false},
		{.verifier = 16, .position = 56, .size = 120, .good = true},
		{.credential = 24, .verifier = 16, .position = 76, .size = 120, .good = false},
		{.credential = 24, .verifier = 16, .position = 80, .size = 120, .good = true},
		{.credential = 24, .verifier = 16, .position = 80, .size = 80, .good = true},
		/* Longer than what is there, and than it may be. */
		{.credential = 400, .position = 440, .size = 440, .good = true},
		{.credential = 400, .position = 436, .size = 436, .good = false},
		{.credential = 404, .position = 444, .size = 444, .good = false},
		{.credential = ~0u, .position = 40, .size = 60, .good = false},
		{.verifier = ~3u, .position = 40, .size = 60, .good = false},
	};

	for (const bool two : {false, true})
		for (const auto &m : calls) {
			TEST_NOTE("credential", m.credential);
			TEST_NOTE("verifier", m.verifier);
			TEST_NOTE("position", m.position);
			TEST_NOTE("size", m.size);
			TEST_NOTE("two chunks", two);
			Connected c;
			CallMaker call(1);

			call.read(m.position, 100);
			if (two)
				call.read(m.position + 100, 20);
			call.finish(m.size);
			call.credential(m.credential, m.verifier);
			ASSERT_TRUE(c.send(call));
			EXPECT_EQ(c.verbs.sends, !m.good ? 0 : two ? 2 : 1);
			c.work();
			EXPECT_EQ(c.receive(), m.good ? int(m.size + (two ? 120 : 100)) : 0);
			if (m.good) {
				c.release();
				continue;
			}
			c.work();
			c.expect_error(1, xdr::ErrorCode::chunk);
			EXPECT_EQ(c.in_service(), 0);
			EXPECT_EQ(c.svc.closed, 0);
			EXPECT_EQ(c.log.take(trace::Failure::call_cut_short), 1);
			EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
		}
}

/* Nor in that of a call that is in a chunk itself, as far as every call has one. */
RPCORDMA_TEST(server_receive, chunk_inside_position_zero)
{
	for (const u32 position : {4u, 36u, 40u, 60u}) {
		TEST_NOTE("position", position);
		Connected c;
		CallMaker call(1, 64, xdr::Kind::nomsg);

		call.read(0, 60);
		call.read(position, 100);
		call.finish(0);
		ASSERT_TRUE(c.send(call));
		c.work();
		EXPECT_EQ(c.receive(), position < 40 ? 0 : 160);
		if (position >= 40) {
			c.release();
			continue;
		}
		c.work();
		c.expect_error(1, xdr::ErrorCode::chunk);
		EXPECT_EQ(c.log.take(trace::Failure::call_cut_short), 1);
		EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
	}
}

/* A call that comes in pieces is not shorter than any call. */
RPCORDMA_TEST(server_receive, short_linear_call)
{
	for (const u32 length : {4u, 36u, 39u, 40u}) {
		TEST_NOTE("length", length);
		Connected c;
		CallMaker call(1, 64, xdr::Kind::nomsg);

		call.read(0, length);
		call.finish(0);
		ASSERT_TRUE(c.send(call));
		c.work();
		EXPECT_EQ(c.receive(), length < 40 ? 0 : int(length));
		EXPECT_EQ(c.peer.reads, length < 40 ? 0 : 1);
		if (length == 40) {
			c.release();
			continue;
		}
		c.work();
		c.expect_error(1, xdr::ErrorCode::chunk);
		EXPECT_EQ(c.log.take(trace::Failure::call_cut_short), 1);
		EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
	}
}

/* A call has two owners while its reply is on its way: the last of them makes it spare. */
RPCORDMA_TEST(server_receive, two_owners)
{
	for (const bool release_first : {false, true}) {
		TEST_NOTE("release first", release_first);
		Connected c;

		ASSERT_TRUE(c.send_inline(1));
		ASSERT_EQ(c.receive(), 40);
		const u32 before = c.in_service();
		EXPECT_EQ(before, 1);
		ASSERT_EQ(c.send_reply(20), 0);
		rpcordma_server_call *const call = c.rqst->call;
		if (release_first)
			c.release();
		else
			EXPECT_EQ(c.work(), 1);
		EXPECT_EQ(c.in_service(), 1);
		EXPECT_FALSE(c.idle(call));
		if (release_first)
			EXPECT_EQ(c.work(), 1);
		else
			c.release();
		EXPECT_EQ(c.in_service(), 0);
		EXPECT_TRUE(c.idle(call));
		c.expect_reply(1, 20);
	}
}

RPCORDMA_SUITE(server_receive, inline_call, order, before_established, established_idle,
	       bad_messages, bad_chunks, chunk_in_header, chunk_inside_position_zero,
	       short_linear_call, two_owners);

} // namespace rpcordma
