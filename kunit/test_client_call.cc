// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client's calls, as its peer sees them: module/client/send.cc and connect.cc. Replies are
 * test_client_reply.cc's.
 */
#include "kunit/test_client_requester.hh"

namespace rpcordma {

/* What a requester says: version 1, the RPC's own xid, credits, RDMA_MSG; nothing but the call behind it. */
RPCORDMA_TEST(client_call, header)
{
	Requester r;
	r.connect();
	rpc_rqst *call = r.call(0x12345678, 100);
	const auto header = r.sent();

	EXPECT_EQ(r.peer.messages, 1);
	EXPECT_EQ(header.xid, Xid(0x12345678));
	/* rdma_vers as it is there. */
	EXPECT_EQ(xdr::load_be32(r.peer.message + 4), 1);
	EXPECT_GT(header.credits.get(), 0);
	EXPECT_EQ(header.kind, xdr::Kind::msg);
	EXPECT_FALSE(header.has_chunks());
	EXPECT_BYTES(header.payload, Bytes(static_cast<u8 *>(call->send.head.base), 100));
	r.done(call);
}

/* RFC 8166 3.3.1, 3.3.3: one call until the first reply, then as many as were granted, not one more. */
RPCORDMA_TEST(client_call, credits)
{
	Requester r;
	r.connect();
	constexpr u32 n = 8;
	rpc_rqst *calls[n];

	for (u32 i = 0; i < n; i++)
		calls[i] = r.prepare(i + 1);
	EXPECT_EQ(r.transmit(calls[0]), 0);
	EXPECT_EQ(r.transmit(calls[1]), to_errno(Error::no_slot));
	EXPECT_EQ(r.peer.messages, 1);
	/* Words that are no reply grant nothing. */
	const u32 junk[] = {1, 1, 32, 0, 7, 0, 0};
	EXPECT_TRUE(r.words(junk));
	EXPECT_EQ(r.transmit(calls[1]), to_errno(Error::no_slot));

	EXPECT_TRUE(r.reply(1, 24, 5));
	r.done(calls[0]);
	for (u32 i = 1; i <= 5; i++)
		EXPECT_EQ(r.transmit(calls[i]), 0);
	EXPECT_EQ(r.transmit(calls[6]), to_errno(Error::no_slot));
	EXPECT_EQ(r.peer.messages, 6);
	/* A smaller grant is in force at once: four are out there. */
	EXPECT_TRUE(r.reply(2, 24, 4));
	r.done(calls[1]);
	EXPECT_EQ(r.transmit(calls[6]), to_errno(Error::no_slot));
	EXPECT_TRUE(r.reply(3, 24, 4));
	r.done(calls[2]);
	EXPECT_EQ(r.transmit(calls[6]), 0);
	EXPECT_EQ(r.transmit(calls[7]), to_errno(Error::no_slot));
	/* A grant of none would be the end of it: it changes nothing. */
	EXPECT_TRUE(r.reply(4, 24, 0));
	r.done(calls[3]);
	EXPECT_EQ(r.transmit(calls[7]), 0);
	for (u32 i = 4; i < n; i++)
		r.done(calls[i]);
	EXPECT_EQ(r.log.take(trace::Failure::message_undecodable), 1);
	EXPECT_EQ(r.log.take(trace::Failure::grant_zero), 1);
	EXPECT_EQ(r.stats().bad_reply_count, 2);
}

/* There is a Receive for each reply that may come, before the call that brings it. */
RPCORDMA_TEST(client_call, receives)
{
	Requester r;
	r.connect();
	rpc_rqst *calls[Requester::kSlots];

	EXPECT_GE(r.verbs.posted, 1);
	calls[0] = r.call(1);
	EXPECT_TRUE(r.reply(1, 24, Requester::kSlots));
	r.done(calls[0]);
	for (u32 i = 0; i < Requester::kSlots; i++) {
		calls[i] = r.call(i + 2);
		EXPECT_GE(r.verbs.receives_at_send, i + 1);
	}
	EXPECT_GE(r.verbs.posted, Requester::kSlots);
	for (u32 i = 0; i < Requester::kSlots; i++)
		EXPECT_TRUE(r.reply(i + 2, 24));
	for (rpc_rqst *call : calls) {
		EXPECT_EQ(call->result, 24);
		r.done(call);
	}
}

/* Oftener than the send queue has room for, out of the same slot: what is signaled now and then is told as it is. */
RPCORDMA_TEST(client_call, often)
{
	Requester r;
	r.connect();
	const u32 before = r.log.traced_posts;

	for (u32 xid = 1; xid <= r.send_queue().size() + 2; xid++) {
		rpc_rqst *call = r.call(xid);

		EXPECT_TRUE(r.reply(xid, 24));
		EXPECT_EQ(call->result, 24);
		r.done(call);
	}
	EXPECT_GT(r.log.traced_posts, before + r.send_queue().size());
	EXPECT_TRUE(r.send_queue().has_room(r.send_queue().size() / 2, 0));
	r.at_rest();
}

/* A call that goes on in pages, in a tail, or in both, behind a bare header: each byte once, and none of another's. */
RPCORDMA_TEST(client_call, inline_parts)
{
	Requester r;
	r.connect();
	u32 xid = 1;

	for (const u32 pages : {0u, 4u, 100u})
		for (const u32 tail : {0u, 4u, 12u}) {
			TEST_NOTE("pages", pages);
			TEST_NOTE("tail", tail);
			rpc_rqst *call = r.prepare(xid, 60);
			u8 *const base = static_cast<u8 *>(call->send.head.base);
			u8 *const behind = base + Requester::kRoom / 2;

			if (pages)
				r.add_pages(call, pages, false);
			call->send.tail = {behind, tail};
			call->send.len += tail;
			__builtin_memset(base + 60, 0xee, 100);
			__builtin_memset(behind, 0x7a, tail);
			EXPECT_EQ(r.transmit(call), 0);
			const auto header = r.sent();
			EXPECT_FALSE(header.has_chunks());
			ASSERT_EQ(header.payload.size(), 60 + pages + tail);
			for (u32 i = 0; i < header.payload.size(); i++)
				EXPECT_EQ(header.payload.data()[i], i < 60	   ? base[i] :
								    i < 60 + pages ? pattern(i - 60) :
										     0x7a);
			EXPECT_TRUE(r.reply(xid++, 24));
			r.done(call);
		}
}

/* RFC 8166 3.3.3, RFC 8797 5.1: 1024 bytes each way where the peer says nothing, or somebody else's words. */
RPCORDMA_TEST(client_call, silent_peer)
{
	for (u32 noise = 0; noise < 2; noise++) {
		Requester r;
		r.connect();
		if (noise) {
			/* Another format's. */
			const private_data::Properties large = {8192, 8192, true};
			rpcordma_core_client_close(r.core);
			r.connect({.server = &large});
			rpcordma_core_client_close(r.core);
			r.verbs.answer[4] = 2;
			EXPECT_EQ(rpcordma_core_client_connect(r.core), 0);
		}
		EXPECT_EQ(r.thresholds().send, 1024);
		EXPECT_EQ(r.thresholds().receive, 1024);
		rpc_rqst *call = r.call(1, 1024 - 28);
		EXPECT_EQ(r.peer.message_length, 1024);
		EXPECT_TRUE(r.reply(1, 24));
		r.done(call);
		/* One byte more is a long call; so is a reply that may be one byte longer. */
		call = r.call(2, 1024 - 27);
		EXPECT_LE(r.peer.message_length, 1024);
		EXPECT_EQ(r.sent().kind, xdr::Kind::nomsg);
		EXPECT_TRUE(r.sent().reads.has_position_zero());
		EXPECT_TRUE(r.reply(2, 24));
		r.done(call);
		call = r.call(3, 40, 1024 - 28);
		EXPECT_FALSE(r.sent().has_chunks());
		EXPECT_TRUE(r.reply(3, 24));
		r.done(call);
		call = r.call(4, 40, 1024 - 27);
		EXPECT_TRUE(r.sent().reply.present());
		EXPECT_TRUE(r.reply(4, 24));
		r.done(call);
	}
}

/* RFC 8797 4: what one connection's peer said holds for that connection. */
RPCORDMA_TEST(client_call, reconnect_settings)
{
	Requester r;
	const private_data::Properties large = {4096, 2048, true}, small = {1024, 1024, false};

	r.connect({.server = &large});
	EXPECT_EQ(r.thresholds().send, 2048);
	EXPECT_EQ(r.thresholds().receive, 4096);
	rpcordma_core_client_close(r.core);
	r.connect({.server = &small});
	EXPECT_EQ(r.thresholds().send, 1024);
	EXPECT_EQ(r.thresholds().receive, 1024);
	/* What we say of ourselves: 8 bytes of RFC 8797, R set, no other flag. */
	EXPECT_EQ(r.verbs.parameters.private_data_length, private_data::length);
	const auto said = private_data::parse({r.verbs.private_data, private_data::length});
	ASSERT_OK(said);
	EXPECT_TRUE(said.value().remote_invalidation);
	EXPECT_EQ(r.verbs.private_data[5], 1);
	EXPECT_EQ(said.value().send_size, 4096);
	EXPECT_EQ(said.value().receive_size, 4096);
}

/* What a slot has stays from use to use, and grows with what its calls take, and with the limit of what goes inline. */
RPCORDMA_TEST(client_call, buffers)
{
	constexpr u32 room = 3 * Requester::kRoom;
	const private_data::Properties peer = {4096, 4096, true};
	Requester r;
	void *call_buffer[2], *reply_buffer[2];
	rpc_rqst *call;

	for (u32 limit : {1024u, 4096u}) {
		TEST_NOTE("limit", limit);
		rpcordma_core_client_close(r.core);
		rpcordma_tunables.max_inline_write = limit;
		r.connect({.server = &peer});
		call = r.call(limit, 2000);
		EXPECT_EQ(r.sent().kind, limit < 2000 ? xdr::Kind::nomsg : xdr::Kind::msg);
		EXPECT_TRUE(r.reply(limit, 24));
		r.done(call);
	}

	call = r.prepare(3);
	for (u32 i = 0; i < 2; i++) {
		EXPECT_EQ(rpcordma_core_buf_alloc(r.core, call->call, room, room >> i,
						  &call_buffer[i], &reply_buffer[i]),
			  0);
		__builtin_memset(call_buffer[i], 1, room);
		__builtin_memset(reply_buffer[i], 1, room);
	}
	EXPECT_EQ(call_buffer[0], call_buffer[1]);
	EXPECT_EQ(reply_buffer[0], reply_buffer[1]);
	/* Both were shorter before. */
	EXPECT_EQ(r.stats().hardway_register_count, 2 * room);
	r.memory.allocations_left = 0;
	EXPECT_EQ(rpcordma_core_buf_alloc(r.core, call->call, room + 1, room, &call_buffer[0],
					  &reply_buffer[0]),
		  to_errno(Error::no_memory));
	r.memory.allocations_left = kNoLimit;
	EXPECT_EQ(r.log.take(trace::Failure::buffers_missing), 1);
	EXPECT_EQ(r.log.failure_value, to_errno(Error::no_memory));
	EXPECT_EQ(r.stats().hardway_register_count, 2 * room);
	r.done(call);
}

/* RFC 8166 3.4.5, 3.4.4.4: a reduced item's Position and length, and no pad anywhere. */
RPCORDMA_TEST(client_call, read_chunk)
{
	Requester r;
	r.connect();
	for (u32 size : {5001u, 5002u, 5003u, 5004u}) {
		TEST_NOTE("size", size);
		rpc_rqst *call = r.prepare(size, 60);
		r.add_pages(call, size, false);
		EXPECT_EQ(r.transmit(call), 0);
		const auto header = r.sent();
		u32 at = 0;

		EXPECT_EQ(header.kind, xdr::Kind::msg);
		EXPECT_GT(header.reads.count(), 0);
		EXPECT_EQ(header.reads.total_length(), size);
		for (xdr::ReadSegment segment : header.reads) {
			EXPECT_EQ(segment.position, Position(60));
			/* The peer finds the item's bytes there, and cannot write. */
			for (u32 i = 0; i < segment.target.length; i++, at++) {
				const u8 *byte = r.peer.reach(segment.target, i, false);
				ASSERT_NE(byte, nullptr);
				ASSERT_EQ(*byte, pattern(at));
			}
			EXPECT_EQ(r.peer.reach(segment.target, 0, true), nullptr);
		}
		EXPECT_EQ(header.payload.size(), 60);
		EXPECT_TRUE(r.reply(size, 24));
		EXPECT_EQ(call->result, 24);
		r.done(call);
	}
}

/* RFC 8166 3.4.6.2, 4.3.2.2: a Write chunk is as long as its item may be, and has no room for a pad. */
RPCORDMA_TEST(client_call, write_chunk)
{
	Requester r;
	r.connect();
	for (u32 size : {5001u, 5002u, 5003u, 5004u}) {
		TEST_NOTE("size", size);
		rpc_rqst *call = r.prepare(size);
		r.add_pages(call, size, true);
		EXPECT_EQ(r.transmit(call), 0);
		const auto header = r.sent();

		EXPECT_TRUE(header.reads.empty());
		EXPECT_EQ(header.writes.count(), 1);
		EXPECT_EQ(header.writes.total_length(), size);
		EXPECT_FALSE(header.reply.present());
		EXPECT_TRUE(r.reply(size, 24));
		r.done(call);
	}
}

/* Chunks are counted as the in-tree transport has it: bytes in those that the peer writes alone. */
RPCORDMA_TEST(client_call, chunk_counters)
{
	Requester r;
	r.connect();
	rpc_rqst *call = r.prepare(1, 60);
	r.add_pages(call, 5001, false);
	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_TRUE(r.reply(1, 24));
	r.done(call);
	EXPECT_GT(r.stats().read_chunk_count, 0);
	EXPECT_EQ(r.stats().total_rdma_request, 0);

	call = r.prepare(2);
	r.add_pages(call, 5001, true);
	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_TRUE(r.reply(2, 24));
	r.done(call);
	EXPECT_GT(r.stats().write_chunk_count, 0);
	EXPECT_EQ(r.stats().total_rdma_request, 5001);

	/* The call in a Position Zero chunk, the reply in a Reply chunk. */
	call = r.prepare(3, 3000, 3000);
	EXPECT_EQ(r.transmit(call), 0);
	const u64 reply_bytes = r.sent().reply.length();
	EXPECT_EQ(r.sent().kind, xdr::Kind::nomsg);
	EXPECT_GE(reply_bytes, 3000u);
	EXPECT_TRUE(r.reply(3, 24));
	r.done(call);
	EXPECT_EQ(r.stats().nomsg_call_count, 1);
	EXPECT_GT(r.stats().reply_chunk_count, 0);
	EXPECT_EQ(r.stats().total_rdma_request, 5001 + reply_bytes);
}

/*
 * RFC 8166 6.1, RFC 8267 4: page data are reduced where the consumer marks them as eligible, and nowhere
 * else. Those of a READDIR or an ACL, which nobody marks, go whole with the message that they are of.
 */
RPCORDMA_TEST(client_call, unmarked_pages)
{
	Requester r;
	r.connect();
	for (const u32 size : {300u, 5001u}) {
		TEST_NOTE("size", size);
		for (const bool of_reply : {false, true}) {
			TEST_NOTE("of the reply", of_reply);
			rpc_rqst *call = r.prepare(1, 60);
			r.add_pages(call, size, of_reply);
			call->send.flags = call->receive.flags = 0;
			EXPECT_EQ(r.transmit(call), 0);
			const auto header = r.sent();
			const bool is_long = size > 1000;

			EXPECT_TRUE(header.writes.empty());
			EXPECT_EQ(header.reply.present(), is_long && of_reply);
			EXPECT_EQ(header.reads.empty(), !is_long || of_reply);
			for (const xdr::ReadSegment segment : header.reads)
				EXPECT_EQ(segment.position, Position(0));
			EXPECT_TRUE(r.reply(1, 24));
			EXPECT_EQ(call->result, 24);
			r.done(call);
		}
	}
}

/* RFC 8166 8.2.2.3, 3.5.3: nothing is reduced under integrity or privacy; long ones go whole, pad included. */
RPCORDMA_TEST(client_call, protected_payload)
{
	Requester r;
	r.connect();
	rpc_rqst *call = r.prepare(1, 60);
	r.add_pages(call, 5001, false);
	call->ddp_allowed = false;
	EXPECT_EQ(r.transmit(call), 0);
	auto header = r.sent();
	EXPECT_EQ(header.kind, xdr::Kind::nomsg);
	EXPECT_EQ(header.reads.total_length(), 60 + 5001 + 3);
	for (xdr::ReadSegment segment : header.reads)
		EXPECT_EQ(segment.position, Position(0));
	EXPECT_TRUE(r.reply(1, 24));
	r.done(call);

	call = r.prepare(2);
	r.add_pages(call, 5001, true);
	call->ddp_allowed = false;
	EXPECT_EQ(r.transmit(call), 0);
	header = r.sent();
	EXPECT_TRUE(header.writes.empty());
	EXPECT_TRUE(header.reply.present());
	EXPECT_GE(header.reply.length(), 5001 + 200);
	EXPECT_TRUE(r.reply(2, 24));
	r.done(call);
}

/* A peer sees no xid twice on one connection: it would owe two replies, and have no credit for one. */
RPCORDMA_TEST(client_call, no_retransmission)
{
	Requester r;
	r.connect();
	rpc_rqst *call = r.call(1);

	call->sent_before = true;
	EXPECT_EQ(r.transmit(call), to_errno(Error::not_connected));
	EXPECT_EQ(r.peer.messages, 1);
	EXPECT_EQ(r.sunrpc.closes, 1);
	/* The next connection has it. */
	call->sent_before = false;
	r.connect();
	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_TRUE(r.reply(1, 24));
	EXPECT_EQ(call->result, 24);
	r.done(call);
	EXPECT_EQ(r.log.take(trace::Failure::retransmission), 1);
	EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), 1);
}

/* A call that was given up keeps its credit, and its memory is out of reach, until the reply. */
RPCORDMA_TEST(client_call, cancelled)
{
	Requester r;
	r.connect();
	rpc_rqst *call = r.prepare(1), *next;
	r.add_pages(call, 5001, true);
	EXPECT_EQ(r.transmit(call), 0);
	const xdr::Segment offered = (*r.sent().writes.begin())[0];

	EXPECT_NE(r.peer.reach(offered, 0, true), nullptr);
	r.done(call);
	EXPECT_EQ(r.peer.reach(offered, 0, true), nullptr);
	/* "map", "cancel", "local-inv" and "unmap". */
	EXPECT_EQ(r.log.traced_regions, 4);
	next = r.prepare(2);
	EXPECT_EQ(r.transmit(next), to_errno(Error::no_slot));
	EXPECT_TRUE(r.reply(1, 24, 1));
	EXPECT_EQ(r.transmit(next), 0);
	EXPECT_TRUE(r.reply(2, 24, 1));
	EXPECT_EQ(next->result, 24);
	r.done(next);
}

/* With the region that a slot has kept a call with one chunk is what it is with one from the pool, but for the key. */
RPCORDMA_TEST(client_call, kept_region)
{
	static constexpr struct {
		u32 size, tail; /* of page data, and in the tail behind their pad */
		bool of_reply;
	} kinds[] = {{8000, 0, true},  {8000, 0, false},  {8001, 0, false},
		     {8002, 20, true}, {8000, 12, false}, {8003, 12, false}};

	for (const auto &kind : kinds) {
		TEST_NOTE("bytes", kind.size);
		TEST_NOTE("tail", kind.tail);
		Requester r;
		r.connect();
		u8 before[256];
		u32 length = 0, pulled = 0;
		chunk::Plan plan = {};
		const u32 key_at = kind.of_reply ? 28 : 24;

		for (const bool kept : {false, true}) {
			rpc_rqst *call = r.prepare(7);
			EXPECT_EQ(call->call->spare.empty(), !kept);
			r.add_pages(call, kind.size, kind.of_reply);
			rpcordma_kvec &tail = call->send.tail;
			if (!tail.base)
				tail.base = static_cast<u8 *>(call->send.head.base) + 2048;
			for (u32 i = 0; i < kind.tail; i++)
				static_cast<u8 *>(tail.base)[tail.length++] = u8(0x40 + i);
			call->send.len += kind.tail;
			const u64 pulled_before = r.stats().pullup_copy_count;
			EXPECT_EQ(r.transmit(call), 0);
			const u32 pulled_now = u32(r.stats().pullup_copy_count - pulled_before);
			const DecodedHeader header = r.sent();
			const Rkey key = kind.of_reply ? (*header.writes.begin())[0].handle :
							 header.reads[0].target.handle;
			EXPECT_EQ(xdr::load_be32(r.peer.message + key_at), key.get());
			__builtin_memset(r.peer.message + key_at, 0, 4);
			const chunk::Plan &now = call->call->plan;
			if (kept) {
				EXPECT_BYTES(Bytes(r.peer.message, r.peer.message_length),
					     Bytes(before, length));
				EXPECT_EQ(pulled_now, pulled);
				EXPECT_EQ(now.send_mode, plan.send_mode);
				EXPECT_EQ(now.receive_mode, plan.receive_mode);
				EXPECT_EQ(now.header_length, plan.header_length);
				EXPECT_EQ(now.inline_length, plan.inline_length);
				EXPECT_EQ(now.rkeys(), plan.rkeys());
			}
			length = r.peer.message_length;
			ASSERT_LE(length, sizeof(before));
			__builtin_memcpy(before, r.peer.message, length);
			plan = now;
			pulled = pulled_now;
			EXPECT_TRUE(r.reply(7, 24, 32, key.get()));
			r.done(call);
		}
		r.at_rest();
	}
}

RPCORDMA_SUITE(client_call, often, kept_region, header, credits, receives, inline_parts,
	       silent_peer, reconnect_settings, buffers, read_chunk, write_chunk, chunk_counters,
	       unmarked_pages, protected_payload, no_retransmission, cancelled);

} // namespace rpcordma
