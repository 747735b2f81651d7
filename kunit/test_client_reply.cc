// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a client does with the replies that its peer sends: module/client/reply.cc and fence.cc. Right ones,
 * wrong ones, those to nobody, and invalidation. Backward calls are test_client_backward.cc's.
 */
#include "kunit/test_client_requester.hh"

namespace rpcordma {
namespace {

/* A reply that returns @offered, of which @written bytes and @replied bytes are used; @inline_size bytes inline. */
struct Returning : CallMaker {
	Returning(u32 number, const DecodedHeader &offered, u64 written, u64 replied,
		  u32 inline_size, xdr::Kind proc = xdr::Kind::msg)
		: CallMaker(number, 32, proc)
	{
		for (const xdr::WriteChunk chunk : offered.writes) {
			encoder.write_chunk(chunk, written);
			written = 0;
		}
		if (offered.reply.present())
			encoder.reply_chunk(offered.reply, replied);
		finish(inline_size, kReplyMessage);
	}
};

/* The first @size bytes of @call's reply, as its decoder finds them, are pattern(): head, then pages. */
void expect_reply(const rpc_rqst *call, u32 size)
{
	const u32 head = call->receive.head.length;

	ASSERT_LE(size, head + call->receive.page_length);
	for (u32 i = 8; i < size; i++) {
		const u32 in_pages = i - head;
		TEST_NOTE("byte", i);
		ASSERT_EQ(i < head ? static_cast<u8 *>(call->receive.head.base)[i] :
				     call->receive.pages[in_pages / kPage]->data[in_pages % kPage],
			  pattern(i));
	}
}

bool reachable(const xdr::WriteChunk &chunk)
{
	for (const xdr::Segment segment : chunk)
		if (the_port->peer.reach(segment, 0, true))
			return true;
	return false;
}

} // namespace

RPCORDMA_TEST(client_reply, inline_reply)
{
	Requester r;
	r.connect();
	rpc_rqst *call = r.call(5);

	EXPECT_TRUE(r.reply(5, 100));
	EXPECT_EQ(call->completed, 1);
	EXPECT_EQ(call->result, 100);
	const u8 *head = static_cast<u8 *>(call->receive.head.base);
	for (u32 i = 8; i < 100; i++)
		ASSERT_EQ(head[i], pattern(i));
	/* Nothing behind it. */
	EXPECT_EQ(head[100], 0xee);
	/* The reply needs no answer. */
	EXPECT_EQ(r.peer.messages, 1);
	r.done(call);
}

/* A byte more than there is room for, in the head alone, and behind it, is cut off: it is nowhere behind the buffer. */
RPCORDMA_TEST(client_reply, too_long)
{
	constexpr u32 head = 200, paged = 300, tail = 8;
	Requester r;
	r.connect();
	for (const u32 pages : {0u, paged})
		for (const u32 behind : {0u, tail})
			for (const u32 longer : {0u, 1u}) {
				TEST_NOTE("pages", pages);
				TEST_NOTE("tail", behind);
				TEST_NOTE("longer", longer);
				const u32 room = head + pages + behind;
				rpc_rqst *call = r.prepare(7, 40, head);
				if (pages)
					r.add_pages(call, pages, true);
				call->receive.flags = 0;
				call->receive.tail = {test_alloc(tail).data(), behind};
				call->receive.buflen += behind;
				EXPECT_EQ(r.transmit(call), 0);
				EXPECT_FALSE(r.sent().has_chunks());
				EXPECT_TRUE(r.reply(7, room + longer));
				EXPECT_EQ(call->result, int(room));
				expect_reply(call, head + pages);
				EXPECT_EQ(static_cast<u8 *>(call->receive.head.base)[head], 0xee);
				for (u32 i = 0; i < behind; i++)
					EXPECT_EQ(static_cast<u8 *>(call->receive.tail.base)[i],
						  pattern(head + pages + i));
				r.done(call);
			}
	r.at_rest();
}

/* By Write chunk and by Reply chunk: every byte, and the memory is out of reach when the RPC completes. */
RPCORDMA_TEST(client_reply, chunks)
{
	Requester r;
	r.connect();
	for (u32 size : {5001u, 3u, 0u}) {
		TEST_NOTE("size", size);
		rpc_rqst *call = r.prepare(1);
		r.add_pages(call, 5001, true);
		EXPECT_EQ(r.transmit(call), 0);
		const ExactCopy message(r.peer.last());
		const auto offered = decoded(message.bytes());
		const xdr::WriteChunk chunk = *offered.writes.begin();
		fill_chunk(chunk, size);
		EXPECT_TRUE(r.deliver(Returning(1, offered, size, 0, 48).message()));
		EXPECT_EQ(call->result, int(48 + size + xdr_pad(size)));
		for (u32 i = 0; i < size; i++)
			ASSERT_EQ(call->receive.pages[i / 256]->data[i % 256], pattern(i));
		EXPECT_FALSE(reachable(chunk));
		r.done(call);
	}
	rpc_rqst *call = r.call(2, 40, 4096);
	const ExactCopy message(r.peer.last());
	const auto offered = decoded(message.bytes());
	fill_chunk(offered.reply, 3000);
	const u64 by_rdma = r.stats().total_rdma_reply;
	EXPECT_TRUE(r.deliver(Returning(2, offered, 0, 3000, 0, xdr::Kind::nomsg).message()));
	EXPECT_EQ(call->result, 3000);
	EXPECT_EQ(r.stats().total_rdma_reply, by_rdma + 3000);
	for (u32 i = 0; i < 3000; i++)
		ASSERT_EQ(static_cast<u8 *>(call->receive.head.base)[i], pattern(i));
	EXPECT_FALSE(reachable(offered.reply));
	r.done(call);
}

/*
 * Bounce buffers that do not keep the place in a page: the first call of many pages that begins or ends within one is
 * tried again with those parts in segments of their own, as is each one after it. What cannot be mapped even so is EIO.
 */
RPCORDMA_TEST(client_reply, places_lost)
{
	/* Without a region that its slot has kept, and with one. */
	for (const bool kept : {false, true})
		for (const bool gaps : {false, true}) {
			TEST_NOTE("kept", kept);
			TEST_NOTE("gaps", gaps);
			constexpr u32 kBase = 100, kSize = 5001;
			Requester r;
			r.verbs.device.sg_gaps = gaps;
			r.dma.regions_left = 4;
			r.connect();
			if (kept) {
				rpc_rqst *call = r.prepare(9);
				r.add_pages(call, kSize, true);
				EXPECT_EQ(r.transmit(call), 0);
				EXPECT_TRUE(r.reply(9, 24));
				r.done(call);
			}
			const u32 messages = r.peer.messages;
			r.dma.places_lost = true;
			for (u32 xid = 1; xid <= 2; xid++) {
				TEST_NOTE("xid", xid);
				rpc_rqst *call = r.prepare(xid);
				r.add_pages(call, kSize, true);
				call->receive.page_base = kBase;
				if (xid == 1) {
					EXPECT_EQ(call->call->spare.empty(), !kept);
					EXPECT_EQ(r.transmit(call), to_errno(Error::no_buffers));
					EXPECT_EQ(r.send_queue().reserved(), 0);
					EXPECT_EQ(r.peer.messages, messages);
					/* The first one of this kind has to be made. */
					if (gaps) {
						EXPECT_EQ(r.transmit(call), to_errno(Error::again));
						r.dma.regions_left = 2;
						rpcordma_core_client_refill(r.core);
					}
				}
				ASSERT_EQ(r.transmit(call), 0);
				const ExactCopy message(r.peer.last());
				const auto offered = decoded(message.bytes());
				const xdr::WriteChunk chunk = *offered.writes.begin();
				EXPECT_EQ(chunk.count(), gaps ? 1 : 3);
				fill_chunk(chunk, kSize);
				EXPECT_TRUE(
					r.deliver(Returning(xid, offered, kSize, 0, 48).message()));
				EXPECT_EQ(call->result, int(48 + kSize + xdr_pad(kSize)));
				for (u32 i = 0; i < kSize; i++)
					ASSERT_EQ(call->receive.pages[(kBase + i) / kPage]
							  ->data[(kBase + i) % kPage],
						  pattern(i));
				r.done(call);
			}
			rpc_rqst *call = r.prepare(3);
			r.dma.unmappable = true;
			r.add_pages(call, kSize, true);
			EXPECT_EQ(r.transmit(call), to_errno(Error::io));
			r.done(call);
			r.at_rest();
			EXPECT_EQ(r.log.take(trace::Failure::region_map_failed), 2);
			EXPECT_EQ(r.log.take(trace::Failure::marshal_failed), 2);
			EXPECT_EQ(r.log.take(trace::Failure::regions_missing), gaps ? 1 : 0);
			EXPECT_EQ(r.log.take(trace::Failure::region_failed), gaps ? 2 : 1);
		}
}

/*
 * The same of a long call whose head and tail were brought to its pages: with a gap at its joints it is sent as it lies,
 * and so is each one after it.
 */
RPCORDMA_TEST(client_reply, places_lost_of_long)
{
	constexpr u32 kSize = 5000, kTail = 40;
	Requester r;
	r.connect();
	u8 *const tail = test_alloc(kTail).data();
	for (u32 i = 0; i < kTail; i++)
		tail[i] = pattern(kSize + i);
	for (u32 xid = 1; xid <= 3; xid++) {
		TEST_NOTE("xid", xid);
		rpc_rqst *call = r.prepare(xid, 60);

		r.add_pages(call, kSize, false);
		call->send.flags = 0;
		call->send.tail = {tail, kTail};
		call->send.len = 60 + kSize + kTail;
		r.dma.places_lost = xid > 1;
		if (xid == 2)
			EXPECT_EQ(r.transmit(call), to_errno(Error::no_buffers));
		ASSERT_EQ(r.transmit(call), 0);
		const auto header = r.sent();
		/* Head, pages that are whole, the last one, tail. */
		EXPECT_EQ(header.reads.count(), xid == 1 ? 1 : 4);
		EXPECT_EQ(header.reads.total_length(), 60 + kSize + kTail);
		u32 at = 0, wrong = 0;
		for (const auto &segment : header.reads)
			for (u32 i = 0; i < segment.target.length; i++, at++) {
				const u8 *byte = r.peer.reach(segment.target, i, false);
				ASSERT_NE(byte, nullptr);
				wrong += *byte !=
					 (at < 60 ? static_cast<u8 *>(call->send.head.base)[at] :
						    pattern(at - 60));
			}
		EXPECT_EQ(at, 60 + kSize + kTail);
		EXPECT_EQ(wrong, 0);
		EXPECT_TRUE(r.reply(xid, 24));
		r.done(call);
	}
	r.at_rest();
	EXPECT_EQ(r.log.take(trace::Failure::region_map_failed), 1);
	EXPECT_EQ(r.log.take(trace::Failure::marshal_failed), 1);
}

/* What cannot be believed changes nothing: no RPC ends, nothing is answered, the right reply still counts. */
RPCORDMA_TEST(client_reply, discarded)
{
	static constexpr struct {
		u32 words[10] = {};
		u32 count;
	} messages[] = {
		/* Shorter than their proc's least length (4.5); words of which the credits are no grant. */
		{.count = 0},
		{.words = {7}, .count = 1},
		{.words = {7, 1, 99}, .count = 3},
		{.words = {7, 1, 99, 0, 0, 0}, .count = 6},
		/* Another version. */
		{.words = {7, 2, 99, 0, 0, 0, 0, 7, 1, 0}, .count = 10},
		/* RDMA_MSGP, RDMA_DONE (4.6), a proc that there is not. */
		{.words = {7, 1, 99, 2, 0, 0, 0, 0, 0}, .count = 9},
		{.words = {7, 1, 99, 3, 0, 0, 0}, .count = 7},
		{.words = {7, 1, 99, 5, 0, 0, 0}, .count = 7},
		/* RDMA_ERROR that is cut off, or of no known kind. */
		{.words = {7, 1, 99, 4}, .count = 4},
		{.words = {7, 1, 99, 4, 1, 1}, .count = 6},
		{.words = {7, 1, 99, 4, 3, 0, 0}, .count = 7},
		/* Lists: an optional word that is neither 0 nor 1, a count that does not fit. */
		{.words = {7, 1, 99, 0, 2, 0, 0}, .count = 7},
		{.words = {7, 1, 99, 0, 0, 1, 0xffffffff, 0}, .count = 8},
		{.words = {7, 1, 99, 1, 0, 0, 1, 7}, .count = 8},
		/* A Payload stream that is none, or another's. */
		{.words = {7, 1, 99, 0, 0, 0, 0}, .count = 7},
		{.words = {7, 1, 99, 0, 0, 0, 0, 8, 1, 0}, .count = 10},
		{.words = {7, 1, 99, 0, 0, 0, 0, 7, 2, 0}, .count = 10},
		/* RDMA_NOMSG that has it nowhere. */
		{.words = {7, 1, 99, 1, 0, 0, 0}, .count = 7},
	};
	Requester r;
	r.connect();
	rpc_rqst *call = r.call(7);

	for (const auto &m : messages) {
		TEST_NOTE("message", &m - messages);
		EXPECT_TRUE(r.words({m.words, m.count}));
		EXPECT_EQ(call->completed, 0);
		EXPECT_FALSE(call->pinned);
		EXPECT_EQ(r.peer.messages, 1);
		EXPECT_EQ(r.sunrpc.window, 1);
	}
	EXPECT_EQ(r.stats().bad_reply_count, sizeof(messages) / sizeof(*messages));
	EXPECT_EQ(r.sunrpc.force_disconnects, 0);
	EXPECT_TRUE(r.reply(7, 24));
	EXPECT_EQ(call->result, 24);
	r.done(call);
	EXPECT_EQ(r.log.take(trace::Failure::message_short), 6);
	EXPECT_EQ(r.log.take(trace::Failure::message_version), 1);
	EXPECT_EQ(r.log.take(trace::Failure::message_undecodable), 11);
}

/* Replies to nobody, or a second time: dropped, whatever they are. */
RPCORDMA_TEST(client_reply, nobody)
{
	Requester r;
	r.connect();
	EXPECT_TRUE(r.reply(5, 24, 3));
	EXPECT_EQ(r.sunrpc.bad_xids, 1);
	/* A valid reply all the same. */
	EXPECT_EQ(r.sunrpc.window, 3);
	rpc_rqst *call = r.call(7);
	const u32 error[] = {5, 1, 32, 4, 2};
	EXPECT_TRUE(r.words(error));
	EXPECT_EQ(r.sunrpc.bad_xids, 2);
	EXPECT_EQ(call->completed, 0);
	EXPECT_TRUE(r.reply(7, 24));
	EXPECT_TRUE(r.reply(7, 28));
	EXPECT_EQ(call->completed, 1);
	EXPECT_EQ(call->result, 24);
	EXPECT_EQ(r.sunrpc.bad_xids, 3);
	r.done(call);
	EXPECT_EQ(r.log.take(trace::Failure::reply_unmatched), 3);
}

/* Each of them is looked for among all calls: a peer that goes on with it is left. */
RPCORDMA_TEST(client_reply, nobody_for_long)
{
	constexpr u32 most = 1024, owed = most + 100;
	Requester r;
	r.connect();
	r.done(r.call(owed));
	for (u32 i = 0; i < most; i++) {
		EXPECT_EQ(r.sunrpc.force_disconnects, 0);
		EXPECT_TRUE(r.reply(i + 1, 24));
	}
	EXPECT_EQ(r.sunrpc.force_disconnects, 1);
	EXPECT_TRUE(r.reply(most + 1, 24));
	EXPECT_EQ(r.sunrpc.force_disconnects, 1);
	EXPECT_EQ(r.sunrpc.bad_xids, most + 1);
	/* Nobody is looked for any more, not even who is there. */
	EXPECT_TRUE(r.reply(owed, 24));
	EXPECT_EQ(audit(*r.core).zombies, 1);
	/* The next connection begins anew. */
	rpcordma_core_client_close(r.core);
	r.connect();
	EXPECT_TRUE(r.reply(1, 24));
	EXPECT_EQ(r.sunrpc.force_disconnects, 1);
	EXPECT_EQ(r.log.take(trace::Failure::reply_unmatched), most + 3);
	EXPECT_EQ(r.log.take(trace::Loss::replies_unmatched), 1);
}

/*
 * Where regions have no gaps, a long call or reply is one region all the same if its pages are whole: the peer
 * invalidates it with the reply. The bytes are in their places, at either end, when the reply is shorter too.
 */
RPCORDMA_TEST(client_reply, long_in_one_region)
{
	constexpr u32 head = 200, pages = 16 * kPage, tail = 40;
	Requester r;
	r.connect();
	for (const u32 size : {head + pages + tail, head + pages + 8, head + 100, 100u}) {
		TEST_NOTE("size", size);
		rpc_rqst *call = r.prepare(size, 60, head);
		u8 *const base = static_cast<u8 *>(call->receive.head.base);
		r.add_pages(call, pages, true);
		call->receive.flags = 0;
		call->receive.tail = {base + head, tail};
		call->receive.buflen += tail;
		EXPECT_EQ(r.transmit(call), 0);
		const auto header = r.sent();
		EXPECT_EQ(header.reply.count(), 1);
		fill_chunk(header.reply, size);
		EXPECT_TRUE(r.deliver(Returning(size, header, 0, size, 0, xdr::Kind::nomsg).message(),
				      header.reply[0].handle.get()));
		EXPECT_EQ(r.peer.local_invalidations, 0);
		EXPECT_EQ(call->result, size);
		expect_reply(call, min(size, head + pages));
		for (u32 i = 0; i < tail; i++)
			EXPECT_EQ(base[head + i],
				  head + pages + i < size ? pattern(head + pages + i) : 0xee);
		r.done(call);
	}
	/* Of a call, the last page goes with the tail where it is not full; unless both are too long for a page. */
	u8 *const tails = test_alloc(kPage).data();
	__builtin_memset(tails, 0x7a, kPage);
	static constexpr struct {
		u32 pages, tail, regions;
	} calls[] = {
		{.pages = pages, .tail = tail, .regions = 1},
		{.pages = pages - 1000, .tail = tail, .regions = 1},
		{.pages = 4 * kPage + 1, .tail = kPage - 1, .regions = 1},
		{.pages = 4 * kPage + 1, .tail = kPage, .regions = 2},
		{.pages = pages - 1000, .tail = 0, .regions = 1},
	};
	for (const auto &t : calls) {
		const u32 length = 60 + t.pages + t.tail;
		rpc_rqst *call = r.prepare(7, 60);

		TEST_NOTE("pages", t.pages);
		TEST_NOTE("tail", t.tail);
		r.add_pages(call, t.pages, false);
		call->send.flags = 0;
		call->send.tail = {tails, t.tail};
		call->send.len += t.tail;
		EXPECT_EQ(r.transmit(call), 0);
		const auto header = r.sent();
		EXPECT_EQ(header.reads.count(), t.regions);
		EXPECT_EQ(header.reads.total_length(), length);
		u32 at = 0;
		for (const auto &segment : header.reads)
			for (u32 i = 0; i < segment.target.length; i++, at++) {
				const u8 *byte = r.peer.reach(segment.target, i, false);
				ASSERT_NE(byte, nullptr);
				EXPECT_EQ(*byte,
					  at < 60 ? static_cast<u8 *>(call->send.head.base)[at] :
					  at < 60 + t.pages ? pattern(at - 60) :
							      0x7a);
			}
		EXPECT_TRUE(r.reply(7, 24, 8, header.reads[0].target.handle.get()));
		r.done(call);
	}
	/* Without memory for that it goes as it is: another slot has none yet. */
	rpc_rqst *call = r.call(7);
	rpc_rqst *other = r.prepare(8, 60);
	r.add_pages(other, pages, true);
	other->receive.flags = 0;
	r.memory.allocations_left = 0;
	EXPECT_EQ(r.transmit(other), 0);
	r.memory.allocations_left = kNoLimit;
	EXPECT_EQ(r.sent().reply.count(), 2);
	EXPECT_TRUE(r.reply(8, 24));
	r.done(other);
	EXPECT_TRUE(r.reply(7, 24));
	r.done(call);
	r.at_rest();
}

/* RDMA_ERROR completes the RPC for good: the same xid is not sent again on its account (4.5). */
RPCORDMA_TEST(client_reply, errors)
{
	static constexpr struct {
		u32 words[7];
		u32 count;
	} errors[] = {
		{.words = {7, 1, 1, 4, 2}, .count = 5},
		{.words = {7, 1, 5, 4, 2, 0, 0}, .count = 7},
		{.words = {7, 1, 4, 4, 1, 1, 1}, .count = 7},
		{.words = {7, 1, 9, 4, 1, 2, 3}, .count = 7},
	};
	Requester r;
	r.connect();

	for (const auto &e : errors) {
		TEST_NOTE("error", &e - errors);
		const u32 messages = r.peer.messages;
		rpc_rqst *call = r.prepare(7);
		r.add_pages(call, 5001, true);
		EXPECT_EQ(r.transmit(call), 0);
		const ExactCopy copy(r.peer.last());
		const auto offered = decoded(copy.bytes());

		const auto bad = r.stats().bad_reply_count;

		EXPECT_TRUE(r.words({e.words, e.count}));
		EXPECT_EQ(r.stats().bad_reply_count, bad + 1);
		/* Its grant is one as any. */
		EXPECT_EQ(r.sunrpc.window, e.words[2]);
		EXPECT_EQ(call->completed, 1);
		EXPECT_EQ(call->result, to_errno(Error::io));
		EXPECT_FALSE(reachable(*offered.writes.begin()));
		/* Should sunrpc ask for it once more, it hears the same. */
		EXPECT_EQ(r.transmit(call), to_errno(Error::io));
		EXPECT_EQ(r.peer.messages, messages + 1);
		EXPECT_EQ(r.sunrpc.force_disconnects, 0);
		r.done(call);
	}
	EXPECT_EQ(r.log.take(trace::Failure::err_vers_received), 2);
	EXPECT_EQ(r.log.take(trace::Failure::err_chunk_received), 2);
}

/* Chunks that come back otherwise than they were offered: an error for the consumer, for good (6.1). */
RPCORDMA_TEST(client_reply, contradictions)
{
	enum Lie {
		not_offered,
		more_segments,
		too_long,
		read_list,
		two_chunks,
		other_chunk,
		unused_nomsg
	};
	Requester r;
	r.connect();

	for (u32 lie = not_offered; lie <= unused_nomsg; lie++) {
		TEST_NOTE("lie", lie);
		rpc_rqst *call = r.prepare(7);
		if (lie != not_offered)
			r.add_pages(call, 5001, true);
		EXPECT_EQ(r.transmit(call), 0);
		const ExactCopy copy(r.peer.last());
		const auto offered = decoded(copy.bytes());
		CallMaker reply(7, 32, lie == unused_nomsg ? xdr::Kind::nomsg : xdr::Kind::msg);
		xdr::Segment segments[2] = {CallMaker::segment(100), CallMaker::segment(100)};

		if (!offered.writes.empty())
			segments[0] = segments[1] = (*offered.writes.begin())[0];
		switch (lie) {
		case not_offered:
			reply.encoder.write_chunk(Span<const xdr::Segment>(segments, 1));
			break;
		case more_segments:
			reply.encoder.write_chunk(Span<const xdr::Segment>(segments, 2));
			break;
		case too_long:
			segments[0].length++;
			reply.encoder.write_chunk(Span<const xdr::Segment>(segments, 1));
			break;
		case read_list:
			reply.encoder.read_segment(Position(4), segments[0]);
			reply.encoder.write_chunk(Span<const xdr::Segment>(segments, 1));
			break;
		case two_chunks:
			reply.encoder.write_chunk(Span<const xdr::Segment>(segments, 1));
			reply.encoder.write_chunk(Span<const xdr::Segment>(segments, 1));
			break;
		case other_chunk:
		case unused_nomsg:
			reply.encoder.reply_chunk(Span<const xdr::Segment>(segments, 1));
			break;
		}
		reply.finish(lie == unused_nomsg ? 0 : 24, kReplyMessage);
		EXPECT_TRUE(r.deliver(reply.message()));
		/* A Read list makes it a backward call, which nobody serves: the reply is not there yet. */
		EXPECT_EQ(call->completed, lie == read_list ? 0 : 1);
		const u32 error[] = {7, 1, 32, 4, 2};
		if (lie == read_list)
			EXPECT_TRUE(r.words(error));
		EXPECT_EQ(call->result, to_errno(Error::io));
		r.done(call);
	}
	EXPECT_EQ(r.log.take(trace::Failure::reply_contradicts), 6);
	EXPECT_EQ(r.log.take(trace::Failure::err_chunk_received), 1);
	EXPECT_EQ(r.log.take(trace::Failure::backward_call_unserved), 1);
}

/*
 * A peer that returns only the segments it wrote to, against 3.4.6: each byte is where it belongs, and the log says it
 * once. One that wrote more to a segment than it has is not believed.
 */
RPCORDMA_TEST(client_reply, segments_missing)
{
	constexpr u32 kRegionPages = 130, kSegment = kRegionPages * kPage;
	Requester r;
	r.verbs.device.max_fast_reg_pages = kRegionPages;
	r.connect();
	for (const u32 size : {kSegment + 1001, kSegment, 77u, 0u, kSegment + 1}) {
		const u32 segments = div_round_up(size, kSegment);
		const bool too_long = size == kSegment + 1;
		TEST_NOTE("size", size);
		rpc_rqst *call = r.prepare(7);
		r.add_pages(call, 3 * kSegment, true);
		EXPECT_EQ(r.transmit(call), 0);
		const ExactCopy copy(r.peer.last());
		const auto offered = decoded(copy.bytes());
		const xdr::WriteChunk chunk = *offered.writes.begin();
		ASSERT_EQ(chunk.count(), 3);
		fill_chunk(chunk, size);
		xdr::Segment returned[2] = {chunk[0], chunk[1]};
		returned[0].length = min(size, kSegment);
		returned[1].length = size - returned[0].length;
		if (too_long)
			returned[0].length = size;
		CallMaker reply(7, 32);
		reply.encoder.write_chunk(
			Span<const xdr::Segment>(returned, too_long ? 1 : segments));
		reply.finish(48, kReplyMessage);
		EXPECT_TRUE(r.deliver(reply.message()));
		EXPECT_EQ(call->result,
			  too_long ? to_errno(Error::io) : int(48 + size + xdr_pad(size)));
		for (u32 i = 0; i < size; i++)
			ASSERT_EQ(call->receive.pages[i / kPage]->data[i % kPage], pattern(i));
		EXPECT_FALSE(reachable(chunk));
		r.done(call);
	}
	r.at_rest();
	EXPECT_EQ(r.log.logged, 1);
	EXPECT_EQ(r.log.take(trace::Failure::segments_missing), 4);
	EXPECT_EQ(r.log.take(trace::Failure::reply_contradicts), 1);
}

/*
 * RFC 8166 6.1: a result that could have gone to its Write chunk and came inline is taken, every byte of it,
 * whether the chunk comes back with nothing in it or not at all. 4.3.2.2: nor does it matter what the peer
 * wrote to the chunk before.
 */
RPCORDMA_TEST(client_reply, inline_despite_chunk)
{
	Requester r;
	r.connect();
	for (const bool written_to : {false, true})
		for (const bool comes_back : {false, true})
			/* In the head alone; a byte in the pages; more. */
			for (const u32 size : {24u, 201u, 500u}) {
				TEST_NOTE("written to", written_to);
				TEST_NOTE("comes back", comes_back);
				TEST_NOTE("size", size);
				rpc_rqst *call = r.prepare(7);
				r.add_pages(call, 5001, true);
				EXPECT_EQ(r.transmit(call), 0);
				const ExactCopy copy(r.peer.last());
				auto offered = decoded(copy.bytes());
				const xdr::WriteChunk chunk = *offered.writes.begin();
				const u64 placed = r.stats().total_rdma_reply;

				if (written_to)
					for (u32 i = 0; i < chunk[0].length; i++)
						*r.peer.reach(chunk[0], i, true) =
							u8(~pattern(i + 200));
				if (!comes_back)
					offered = DecodedHeader();
				EXPECT_TRUE(r.deliver(Returning(7, offered, 0, 0, size).message()));
				EXPECT_EQ(call->completed, 1);
				EXPECT_EQ(call->result, size);
				EXPECT_EQ(call->receive.head.length, 200);
				expect_reply(call, size);
				/* None of it by RDMA. */
				EXPECT_EQ(r.stats().total_rdma_reply, placed);
				EXPECT_FALSE(reachable(chunk));
				r.done(call);
			}
}

namespace {

/* Bytes of a reply's buffer, head and tail, of which the border may move. */
constexpr u32 kHead = 200, kTail = 32;

/* A call whose reply has @size bytes of pages, by a Write chunk or not. */
rpc_rqst *with_tail(Requester &r, u32 xid, u32 size, bool ddp)
{
	rpc_rqst *call = r.prepare(xid, 60, kHead);

	r.add_pages(call, size, true);
	call->receive.tail = {static_cast<u8 *>(call->receive.head.base) + kHead, kTail};
	call->receive.buflen += kTail;
	if (!ddp)
		call->receive.flags = 0;
	EXPECT_EQ(r.transmit(call), 0);
	return call;
}

/* As sunrpc encodes a call once more, with GSS: the head is longer by @grown, and its reply has not come yet. */
void encode_again(rpc_rqst *call, int grown)
{
	const u32 head = u32(int(kHead) + grown);

	call->receive.head.length = head;
	call->receive.tail = {static_cast<u8 *>(call->receive.head.base) + head,
			      kHead + kTail - head};
}

/* Nothing was written behind @call's buffer, and its parts are no more than there is room for. */
void expect_within(const rpc_rqst *call)
{
	const rpcordma_xdr_buf &buf = call->receive;
	const u8 *const bytes = static_cast<const u8 *>(buf.head.base);

	for (u32 i = kHead + kTail; i < kHead + kTail + 64; i++)
		ASSERT_EQ(bytes[i], 0xee);
	EXPECT_LE(static_cast<const u8 *>(buf.tail.base) + buf.tail.length, bytes + kHead + kTail);
	EXPECT_LE(buf.head.length + buf.page_length + buf.tail.length, buf.buflen);
}

} // namespace

/*
 * sunrpc encodes a call once more whose reply is late, and the border between head and tail of its buffer may move then. The
 * reply to the first one goes where the buffer is now, and not beyond its end.
 */
RPCORDMA_TEST(client_reply, encoded_once_more)
{
	constexpr u32 size = 5001;
	Requester r;
	r.connect();
	for (const int grown : {-8, 0, 8, 32})
		for (const u32 written : {size, size - 4, 0u})
			for (const u32 inlined : {150u, 192u, 196u, 200u, 208u, 220u, 300u}) {
				TEST_NOTE("grown", grown);
				TEST_NOTE("written", written);
				TEST_NOTE("inline", inlined);
				rpc_rqst *call = with_tail(r, 7, size, true);
				const u8 *const bytes = static_cast<u8 *>(call->receive.head.base);
				const ExactCopy copy(r.peer.last());
				const auto offered = decoded(copy.bytes());

				fill_chunk(*offered.writes.begin(), written);
				encode_again(call, grown);
				EXPECT_TRUE(r.deliver(
					Returning(7, offered, written, 0, inlined).message()));
				EXPECT_EQ(call->completed, 1);
				const u32 head = min(u32(int(kHead) + grown), inlined);
				const u32 tail = kTail - u32(grown), pad = xdr_pad(written);
				const u32 rest = tail > pad ? min(inlined - head, tail - pad) : 0;
				EXPECT_EQ(call->result,
					  int(written ? head + written + pad + rest : inlined));
				for (u32 i = 8; i < head; i++)
					ASSERT_EQ(bytes[i], pattern(i));
				const u8 *const behind = bytes + kHead + grown + pad;
				for (u32 i = 0; written && i < rest; i++)
					ASSERT_EQ(behind[i], pattern(head + i));
				if (!written) {
					EXPECT_EQ(call->receive.head.length,
						  u32(int(kHead) + grown));
					expect_reply(call, inlined);
				}
				expect_within(call);
				r.done(call);
			}
	/* Pages of another length cannot be what the peer wrote to. */
	rpc_rqst *other = with_tail(r, 7, size, true);
	const ExactCopy sent(r.peer.last());
	other->receive.page_length -= 4;
	EXPECT_TRUE(r.deliver(Returning(7, decoded(sent.bytes()), size, 0, 150).message()));
	EXPECT_EQ(other->result, to_errno(Error::io));
	r.done(other);
	EXPECT_EQ(r.log.take(trace::Failure::reply_contradicts), 1);
}

/*
 * What came whole by Reply chunk lies as the buffer was when the call was sent, and is found there, where head and tail were
 * placed elsewhere for it, too. If head and tail are not what they were together the buffer is another one.
 */
RPCORDMA_TEST(client_reply, encoded_once_more_whole)
{
	Requester r;
	r.connect();
	/* The first is one region, with head and tail placed beside the pages; the other is not. */
	for (const u32 pages : {16u * kPage, 16u * kPage - 5})
		for (const int grown : {-8, 0, 8, 32})
			for (const u32 size : {kHead + pages + kTail, kHead + 100, 100u}) {
				TEST_NOTE("pages", pages);
				TEST_NOTE("grown", grown);
				TEST_NOTE("size", size);
				rpc_rqst *call = with_tail(r, 7, pages, false);
				const u8 *const bytes = static_cast<u8 *>(call->receive.head.base);
				const auto header = r.sent();

				fill_chunk(header.reply, size);
				encode_again(call, grown);
				EXPECT_TRUE(r.deliver(
					Returning(7, header, 0, size, 0, xdr::Kind::nomsg).message()));
				EXPECT_EQ(call->result, size);
				EXPECT_EQ(call->receive.head.length, kHead);
				expect_reply(call, min(size, kHead + pages));
				for (u32 i = kHead + pages; i < size; i++)
					ASSERT_EQ(bytes[i - pages], pattern(i));
				expect_within(call);
				r.done(call);
			}
	for (const bool shorter : {false, true}) {
		TEST_NOTE("shorter", shorter);
		rpc_rqst *call = with_tail(r, 7, 4096, false);
		const auto header = r.sent();

		fill_chunk(header.reply, 3000);
		encode_again(call, 8);
		call->receive.tail.length -= shorter ? 4 : 0;
		if (!shorter)
			call->receive.tail.base = static_cast<u8 *>(call->receive.tail.base) + 4;
		EXPECT_TRUE(r.deliver(Returning(7, header, 0, 3000, 0, xdr::Kind::nomsg).message()));
		EXPECT_EQ(call->result, to_errno(Error::io));
		r.done(call);
	}
	EXPECT_EQ(r.log.take(trace::Failure::reply_contradicts), 2);
}

/*
 * draft 8.2.3, 8.2.5: of two R_keys the peer invalidates one, the other, none, or somebody else's. What is
 * left is invalidated here, and nothing twice; the RPC waits for it.
 */
RPCORDMA_TEST(client_reply, invalidation)
{
	enum Which { none, first, second, foreign };
	Requester r;
	r.connect();

	for (u32 which = none; which <= foreign; which++) {
		TEST_NOTE("which", which);
		const u32 before = r.peer.local_invalidations;
		/* A long call and a long reply. */
		rpc_rqst *call = r.call(7, 4090, 4096);
		const ExactCopy copy(r.peer.last());
		const auto offered = decoded(copy.bytes());

		ASSERT_EQ(offered.reads.count(), 1);
		ASSERT_EQ(offered.reply.count(), 1);
		const xdr::Segment read = offered.reads[0].target, write = offered.reply[0];
		EXPECT_NE(read.handle, write.handle);
		u32 key = 0;
		if (which == first)
			key = read.handle.get();
		if (which == second)
			key = write.handle.get();
		if (which == foreign)
			key = 0xdead;
		EXPECT_TRUE(r.deliver(Returning(7, offered, 0, 0, 24).message(), key));
		EXPECT_EQ(call->completed, 1);
		EXPECT_EQ(call->result, 24);
		EXPECT_EQ(r.peer.reach(read, 0, false), nullptr);
		EXPECT_EQ(r.peer.reach(write, 0, true), nullptr);
		EXPECT_EQ(r.peer.local_invalidations - before,
			  which == first || which == second ? 1 : 2);
		r.done(call);
	}
	EXPECT_EQ(r.log.take(trace::Failure::invalidate_foreign), 1);
}

/* RFC 8166 4.5.4: memory that cannot be taken back costs the connection, and the RPC is not complete. */
RPCORDMA_TEST(client_reply, invalidation_fails)
{
	for (u32 posting = 0; posting < 2; posting++) {
		TEST_NOTE("posting", posting);
		Requester r;
		r.connect();
		rpc_rqst *call = r.call(7, 40, 4096);
		const ExactCopy copy(r.peer.last());
		const auto offered = decoded(copy.bytes());

		if (posting) {
			r.verbs.sends_left = 0;
		} else {
			r.verbs.fail_at = 0;
			r.verbs.fail_status = 2;
		}
		EXPECT_TRUE(r.deliver(Returning(7, offered, 0, 0, 24).message()));
		EXPECT_EQ(call->completed, 0);
		EXPECT_FALSE(call->pinned);
		EXPECT_EQ(r.sunrpc.force_disconnects, 1);
		r.verbs.sends_left = kNoLimit;
		rpcordma_core_client_close(r.core);
		EXPECT_FALSE(reachable(offered.reply));
		/* The next connection has it. */
		r.connect();
		EXPECT_EQ(r.transmit(call), 0);
		EXPECT_TRUE(r.reply(7, 24));
		EXPECT_EQ(call->result, 24);
		r.done(call);
	}
}

namespace {

Requester *quick; /* whose peer is quicker than its post */

void reply_at_once()
{
	EXPECT_TRUE(quick->verbs.send(nullptr, Returning(7, DecodedHeader(), 0, 0, 24).message()));
}

} // namespace

/* A reply that comes before its call's post has returned is the poster's to process; if that failed, nobody's. */
RPCORDMA_TEST(client_reply, overtakes_its_post)
{
	/* The region of a long reply is to be taken back first. */
	for (const u32 room : {200u, 4096u})
		for (bool posted : {true, false}) {
			TEST_NOTE("posted", posted);
			TEST_NOTE("room", room);
			Requester r;
			r.connect();
			rpc_rqst *call = r.prepare(7, 40, room);

			quick = &r;
			r.verbs.in_post = reply_at_once;
			if (!posted)
				r.verbs.sends_left = 0;
			EXPECT_EQ(r.transmit(call), posted ? 0 : to_errno(Error::not_connected));
			r.verbs.sends_left = kNoLimit;
			EXPECT_FALSE(call->pinned);
			EXPECT_EQ(call->completed, posted ? 1 : 0);
			if (!posted) {
				r.connect();
				EXPECT_EQ(r.transmit(call), 0);
				EXPECT_TRUE(r.reply(7, 24));
			}
			EXPECT_EQ(call->result, 24);
			EXPECT_EQ(r.peer.local_invalidations, room > 1000);
			r.done(call);
			r.at_rest();
			EXPECT_EQ(r.log.take(trace::Failure::post_failed), posted ? 0 : 1);
			EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), posted ? 0 : 1);
		}
}

RPCORDMA_SUITE(client_reply, too_long, overtakes_its_post, inline_reply, chunks, places_lost,
	       places_lost_of_long, discarded, nobody, nobody_for_long, long_in_one_region, errors,
	       contradictions, segments_missing, inline_despite_chunk, encoded_once_more,
	       encoded_once_more_whole, invalidation, invalidation_fails);

} // namespace rpcordma
