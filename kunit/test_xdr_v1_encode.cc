// SPDX-License-Identifier: GPL-2.0-only
/*
 * The encoder of version 1 headers, apart from decode(): error bodies, chunks as a responder returns
 * them, and calls out of order. That it writes what decode() reads is tested in test_xdr_v1.cc, and over
 * whole families of headers in test_xdr_v1_sweep.cc.
 */
#include "kunit/test_xdr_reference.hh"
#include "kunit/testing.hh"
#include "xdr/v1.hh"

namespace rpcordma {
namespace {

using namespace v1;
using namespace xdr;
using xdr_reference::wire;

constexpr Xid xid{0x12345678};
constexpr Credits credits{32};
constexpr Segment s1{Rkey(0x11), 0x1000, 0x1111000022220000};
constexpr Segment s2{Rkey(0x12), 0x2000, 0x3333000044440000};
constexpr Segment s3{Rkey(0x13), 7, 0x5555000066660001};

/**
 * Calls to @encoder by letter: r a read segment, z one at Position zero, w and p a Write and the Reply
 * chunk of as many segments as the digit behind says, s a segment.
 */
void play(Encoder &encoder, const char *calls)
{
	for (; *calls; calls++) {
		if (*calls == 'r')
			encoder.read_segment(Position(4), s1);
		else if (*calls == 'z')
			encoder.read_segment(Position(0), s1);
		else if (*calls == 's')
			encoder.segment(s1);
		else if (*calls == 'w')
			encoder.write_chunk(u32(*++calls - '0'));
		else if (*calls == 'p')
			encoder.reply_chunk(u32(*++calls - '0'));
	}
}

} // namespace

RPCORDMA_TEST(xdr_v1_encode, error_bodies)
{
	static const u32 vers_words[] = {0x12345678, 7, 32, 4, 1, 1, 2};
	static const u32 chunk_words[] = {0x12345678, 7, 32, 4, 2};
	const FixedHeader request = {xid, 7, {}, 0};

	for (usize n = 0; n <= 32; n++) {
		TEST_NOTE("room", n);
		MutableBytes room = test_alloc(n);
		auto length = encode_error(room, request, credits, {ErrorCode::version, 1, 2});
		if (n < 28) {
			EXPECT_ERROR(length, Error::no_space);
		} else {
			ASSERT_OK(length);
			EXPECT_BYTES(Bytes(room.first(length.value())), Bytes(wire(vers_words)));
		}
		room = test_alloc(n);
		length = encode_error(room, request, credits, {});
		if (n < 20) {
			EXPECT_ERROR(length, Error::no_space);
		} else {
			ASSERT_OK(length);
			EXPECT_BYTES(Bytes(room.first(length.value())), Bytes(wire(chunk_words)));
		}
	}
	EXPECT_EQ(error_vers_length, 28);
	EXPECT_EQ(error_chunk_length, 20);
}

/* What a responder returns: the chunks as offered, lengths filled in order, 3.4.6 and 4.3.3. */
RPCORDMA_TEST(xdr_v1_encode, returned_chunks)
{
	const Segment offered[] = {s1, s3, s2};
	static const u32 lengths[] = {0x1000, 7, 0x2000};
	MutableBytes call = test_alloc(encoded_length(min_header_length, 0, 2, 3, true, 3));
	Encoder requester(call, xid, credits, Kind::msg);
	requester.write_chunk(Span<const Segment>(offered));
	requester.write_chunk(0);
	requester.reply_chunk(Span<const Segment>(offered));
	ASSERT_OK(requester.finish());
	auto header = xdr_reference::decode(call);
	ASSERT_OK(header);
	const Message &h = header.value();
	const WriteChunk chunk = *h.writes.begin();

	for (u64 written : {0, 1, 0xfff, 0x1000, 0x1001, 0x1007, 0x1008, 0x3006, 0x3007}) {
		TEST_NOTE("written", written);
		MutableBytes room = test_alloc(call.size());
		Encoder responder(room, xid, credits, Kind::nomsg);
		responder.write_chunk(chunk, written);
		responder.write_chunk(*++h.writes.begin(), 0);
		responder.reply_chunk(h.reply, 0x3007 - written);
		ASSERT_OK(responder.finish());
		auto reply = xdr_reference::decode(room);
		ASSERT_OK(reply);
		ASSERT_EQ(reply.value().writes.count(), 2);
		const WriteChunk returned = *reply.value().writes.begin();
		ASSERT_EQ(returned.count(), 3);
		EXPECT_EQ(returned.length(), written);
		EXPECT_EQ((*++reply.value().writes.begin()).count(), 0);
		ASSERT_EQ(reply.value().reply.count(), 3);
		EXPECT_EQ(reply.value().reply.length(), 0x3007 - written);
		u64 before = 0;
		for (u32 i = 0; i < 3; i++) {
			u64 left = written > before ? written - before : 0;
			EXPECT_EQ(returned[i].length, min<u64>(left, lengths[i]));
			EXPECT_EQ(returned[i].handle, offered[i].handle);
			EXPECT_EQ(returned[i].offset, offered[i].offset);
			before += lengths[i];
		}
	}
	for (u64 written : {u64(0x3008), u64(1) << 32, ~u64(0)}) {
		TEST_NOTE("written", written);
		MutableBytes room = test_alloc(call.size());
		Encoder in_list(room, xid, credits, Kind::msg);
		in_list.write_chunk(chunk, written);
		EXPECT_ERROR(in_list.finish(), Error::invalid);
		Encoder in_reply(room, xid, credits, Kind::msg);
		in_reply.reply_chunk(chunk, written);
		EXPECT_ERROR(in_reply.finish(), Error::invalid);
	}
}

/* Every call out of order fails, and nothing that follows makes it good. */
RPCORDMA_TEST(xdr_v1_encode, misuse)
{
	MutableBytes room = test_alloc(512);
	const struct {
		Kind kind;
		const char *calls; /* see play() */
	} cases[] = {
		/* A segment of no chunk, or of one that is complete. */
		{.kind = Kind::msg, .calls = "s"},
		{.kind = Kind::msg, .calls = "w0s"},
		{.kind = Kind::msg, .calls = "w1ss"},
		{.kind = Kind::msg, .calls = "p1ss"},
		/* A chunk that lacks segments, and what comes after it. */
		{.kind = Kind::msg, .calls = "w1"},
		{.kind = Kind::msg, .calls = "w2s"},
		{.kind = Kind::msg, .calls = "p1"},
		{.kind = Kind::msg, .calls = "w1w1s"},
		{.kind = Kind::msg, .calls = "w1p1s"},
		{.kind = Kind::msg, .calls = "w1r"},
		/* Lists out of order, and two Reply chunks. */
		{.kind = Kind::msg, .calls = "w0r"},
		{.kind = Kind::msg, .calls = "p0r"},
		{.kind = Kind::msg, .calls = "p0w0"},
		{.kind = Kind::msg, .calls = "p0p0"},
		/* The Payload stream in two places, or in none. */
		{.kind = Kind::msg, .calls = "z"},
		{.kind = Kind::msg, .calls = "zrp0"},
		{.kind = Kind::nomsg, .calls = ""},
		{.kind = Kind::nomsg, .calls = "r"},
		{.kind = Kind::nomsg, .calls = "w1s"},
		/* No lists follow these procs. */
		{.kind = static_cast<Kind>(Proc::msgp), .calls = ""},
		{.kind = static_cast<Kind>(Proc::done), .calls = ""},
		{.kind = Kind::error, .calls = ""},
		{.kind = static_cast<Kind>(77), .calls = "p0"},
	};

	for (const auto &c : cases) {
		TEST_NOTE("case", u32(&c - cases));
		Encoder encoder(room, xid, credits, c.kind);
		play(encoder, c.calls);
		EXPECT_ERROR(encoder.finish(), Error::invalid);
	}
	/* The first failure is the one reported. */
	Encoder encoder(room.first(28), xid, credits, Kind::msg);
	encoder.read_segment(Position(4), s1);
	EXPECT_EQ(encoder.error(), Error::no_space);
	encoder.segment(s1);
	EXPECT_EQ(encoder.error(), Error::no_space);
	EXPECT_ERROR(encoder.finish(), Error::no_space);
	Encoder other(room.first(28), xid, credits, Kind::msg);
	other.segment(s1);
	other.read_segment(Position(4), s1);
	EXPECT_ERROR(other.finish(), Error::invalid);
}

/* A span with more segments than a count word can tell fits in no room, and is not read through. */
RPCORDMA_TEST(xdr_v1_encode, huge_span)
{
	if constexpr (sizeof(usize) > sizeof(u32)) {
		MutableBytes room = test_alloc(28 + 8 + 16);
		const Span<const Segment> huge(&s1, (usize(1) << 32) + 1);
		Encoder in_list(room, xid, credits, Kind::msg);
		in_list.write_chunk(huge);
		EXPECT_ERROR(in_list.finish(), Error::no_space);
		Encoder in_reply(room, xid, credits, Kind::msg);
		in_reply.reply_chunk(huge);
		EXPECT_ERROR(in_reply.finish(), Error::no_space);
	} else {
		TEST_SKIP("no span is that long here");
	}
}

/* The short way gives the bytes that the encoder gives, and touches no more of the room. */
RPCORDMA_TEST(xdr_v1_encode, without_chunks)
{
	MutableBytes slow = test_alloc(64), fast = test_alloc(64);

	__builtin_memset(slow.data(), 0xa5, slow.size());
	__builtin_memset(fast.data(), 0xa5, fast.size());
	Encoder encoder(slow, xid, credits, Kind::msg);
	EXPECT_EQ(encoder.finish().value(), min_header_length);
	auto length = encode_bare(fast, xid, credits);
	ASSERT_OK(length);
	EXPECT_EQ(length.value(), min_header_length);
	EXPECT_BYTES(Bytes(fast), Bytes(slow));
	EXPECT_ERROR(encode_bare(fast.first(min_header_length - 1), xid, credits), Error::no_space);
	EXPECT_EQ(encode_bare(fast.first(min_header_length), xid, credits).value(),
		  min_header_length);
}

/* So does that of one chunk of one segment; and what it gives is decoded. */
RPCORDMA_TEST(xdr_v1_encode, lone_chunk)
{
	const LoneChunk chunks[] = {
		{false, {}, {Rkey(0x01020304), 0x05060708, 0x090a0b0c0d0e0f10}},
		{false, Position(4), {}},
		{true, Position(148), {Rkey(0xfffefdfc), 4096, ~u64(1)}},
	};

	for (const LoneChunk &chunk : chunks) {
		MutableBytes slow = test_alloc(64), fast = test_alloc(64);

		__builtin_memset(slow.data(), 0xa5, slow.size());
		__builtin_memset(fast.data(), 0xa5, fast.size());
		Encoder encoder(slow, xid, credits, Kind::msg);
		if (chunk.read)
			encoder.read_segment(chunk.position, chunk.segment);
		else
			encoder.write_chunk({&chunk.segment, 1});
		EXPECT_EQ(encoder.finish().value(), lone_header_length);
		auto length = encode_lone(fast, xid, credits, chunk);
		ASSERT_OK(length);
		EXPECT_EQ(length.value(), lone_header_length);
		EXPECT_BYTES(Bytes(fast), Bytes(slow));
		EXPECT_EQ(encode_lone(fast.first(lone_header_length), xid, credits, chunk).value(),
			  lone_header_length);
		EXPECT_ERROR(encode_lone(fast.first(lone_header_length - 1), xid, credits, chunk),
			     Error::no_space);
		ChunkLists lists;
		Reader reader(Bytes(fast).from(fixed_header_size));
		ASSERT_OK(decode_lists(reader, lists));
		EXPECT_EQ(reader.left(), 64 - lone_header_length);
		ASSERT_EQ(lists.reads.count(), chunk.read);
		ASSERT_EQ(lists.writes.count(), !chunk.read);
		EXPECT_FALSE(lists.reply.present());
		if (chunk.read) {
			EXPECT_TRUE(lists.reads[0] == (ReadSegment{chunk.position, chunk.segment}));
			EXPECT_EQ(lists.reads.runs(), 1);
			EXPECT_EQ(lists.reads.total_length(), chunk.segment.length);
			EXPECT_FALSE(lists.reads.has_position_zero());
		} else {
			EXPECT_TRUE((*lists.writes.begin())[0] == chunk.segment);
			EXPECT_EQ(lists.writes.segments(), 1);
			EXPECT_EQ(lists.writes.total_length(), chunk.segment.length);
		}
	}
	for (u32 position : {0u, 3u, 6u})
		EXPECT_ERROR(encode_lone(test_alloc(64), xid, credits,
					 {true, Position(position), {}}),
			     Error::invalid);
}

RPCORDMA_SUITE(xdr_v1_encode, without_chunks, lone_chunk, error_bodies, returned_chunks, misuse,
	       huge_span);

} // namespace rpcordma
