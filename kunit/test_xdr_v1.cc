// SPDX-License-Identifier: GPL-2.0-only
/*
 * The version 1 header codec, case by case: the examples of RFC 8166 4.7, each proc and each error
 * of xdr_reference::decode(), the direction of a message. What only the encoder does is in test_xdr_v1_encode.cc, and
 * the sweeps over whole families of headers are in test_xdr_v1_sweep.cc.
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

/* H, L, OO of the examples below. */
constexpr Segment s1{Rkey(0x11), 0x1000, 0x1111000022220000};
constexpr Segment s2{Rkey(0x12), 0x2000, 0x3333000044440000};
constexpr Segment s3{Rkey(0x13), 7, 0x5555000066660001};
#define S1 0x11, 0x1000, 0x11110000, 0x22220000
#define S2 0x12, 0x2000, 0x33330000, 0x44440000
#define S3 0x13, 7, 0x55550000, 0x66660001

/** Apart, so that a test of many messages has one header on its stack. */
[[gnu::noinline]] Error outcome(Bytes message)
{
	return xdr_reference::decode(message).error();
}

/** The encoder's outcome is these bytes. */
void expect_built(Encoder &encoder, MutableBytes room, Bytes bytes)
{
	auto length = encoder.finish();

	ASSERT_OK(length);
	EXPECT_EQ(length.value(), bytes.size());
	EXPECT_BYTES(Bytes(room.first(length.value())), bytes);
}

} // namespace

/* 4.7: "after the four fixed fields [...] simply three 32-bit fields that contain zero". */
RPCORDMA_TEST(xdr_v1, rfc_no_chunks)
{
	static const u32 words[] = {0x12345678, 1, 32, 0, 0, 0, 0, 0x12345678, 1, 0xabad1dea};
	MutableBytes message = wire(words);
	auto header = xdr_reference::decode(message);

	ASSERT_OK(header);
	EXPECT_EQ(header.value().xid, xid);
	EXPECT_EQ(header.value().version, 1);
	EXPECT_EQ(header.value().credits, credits);
	EXPECT_EQ(header.value().kind, Kind::msg);
	EXPECT_EQ(header.value().header_length, 28);
	EXPECT_FALSE(header.value().has_chunks());
	EXPECT_TRUE(header.value().reads.ordered());
	for (ReadSegment r : header.value().reads)
		EXPECT_EQ(r.position.get(), 0xdead);
	for (WriteChunk c : header.value().writes)
		EXPECT_EQ(c.count(), 0xdead);
	EXPECT_BYTES(header.value().payload, Bytes(message.from(28)));

	MutableBytes room = test_alloc(28);
	Encoder encoder(room, xid, credits, Kind::msg);
	EXPECT_EQ(encoder.error(), Error::none);
	expect_built(encoder, room, message.first(28));
	EXPECT_EQ(encoded_length(min_header_length, 0, 0, 0, false, 0), 28);
	EXPECT_EQ(min_header_length, 28);
}

/* 4.7: "1 PHLOO 1 PHLOO 1 PHLOO 0", one Read chunk and a Position that varies. */
RPCORDMA_TEST(xdr_v1, rfc_read_list)
{
	static const u32 words[] = {0x12345678, 1,  32, 0,   1,	 64, S1, 1,
				    64,		S2, 1,	128, S3, 0,  0,	 0};
	MutableBytes message = wire(words);
	auto header = xdr_reference::decode(message);

	ASSERT_OK(header);
	const Message &h = header.value();
	EXPECT_TRUE(h.has_chunks());
	EXPECT_EQ(h.header_length, message.size());
	ASSERT_EQ(h.reads.count(), 3);
	EXPECT_EQ(h.reads.runs(), 2);
	EXPECT_TRUE(h.reads.ordered());
	EXPECT_FALSE(h.reads.has_position_zero());
	EXPECT_EQ(h.reads.total_length(), 0x3007);
	EXPECT_EQ(h.reads.position_zero_length(), 0);
	EXPECT_TRUE((h.reads[0] == ReadSegment{Position(64), s1}));
	EXPECT_TRUE((h.reads[1] == ReadSegment{Position(64), s2}));
	EXPECT_TRUE((h.reads[2] == ReadSegment{Position(128), s3}));
	EXPECT_TRUE(h.writes.empty());
	EXPECT_FALSE(h.reply.present());
	EXPECT_TRUE(h.payload.empty());

	MutableBytes room = test_alloc(message.size());
	Encoder encoder(room, xid, credits, Kind::msg);
	encoder.read_segment(Position(64), s1);
	encoder.read_segment(Position(64), s2);
	encoder.read_segment(Position(128), s3);
	expect_built(encoder, room, message);
	EXPECT_EQ(encoded_length(min_header_length, 3, 0, 0, false, 0), message.size());
}

/* 4.7: "1 3 HLOO HLOO HLOO 1 2 HLOO HLOO 0". */
RPCORDMA_TEST(xdr_v1, rfc_write_list)
{
	static const u32 words[] = {0x12345678, 1, 32, 0, 0, 1, 3, S1, S2, S3, 1, 2, S3, S1, 0, 0};
	MutableBytes message = wire(words);
	auto header = xdr_reference::decode(message);

	ASSERT_OK(header);
	const Message &h = header.value();
	EXPECT_TRUE(h.has_chunks());
	EXPECT_TRUE(h.reads.empty());
	EXPECT_EQ(h.writes.count(), 2);
	EXPECT_EQ(h.writes.segments(), 5);
	EXPECT_EQ(h.writes.total_length(), 0x3007 + 0x1007);
	auto it = h.writes.begin();
	WriteChunk first = *it;
	ASSERT_EQ(first.count(), 3);
	EXPECT_EQ(first.length(), 0x3007);
	EXPECT_TRUE(first[0] == s1);
	EXPECT_TRUE(first[1] == s2);
	EXPECT_TRUE(first[2] == s3);
	++it;
	WriteChunk second = *it;
	ASSERT_EQ(second.count(), 2);
	EXPECT_EQ(second.length(), 0x1007);
	EXPECT_TRUE(second[0] == s3);
	EXPECT_TRUE(second[1] == s1);
	++it;
	EXPECT_FALSE(it != h.writes.end());

	MutableBytes room = test_alloc(message.size());
	Encoder encoder(room, xid, credits, Kind::msg);
	const Segment whole[] = {s1, s2, s3};
	encoder.write_chunk(Span<const Segment>(whole));
	encoder.write_chunk(2);
	encoder.segment(s3);
	encoder.segment(s1);
	expect_built(encoder, room, message);
	EXPECT_EQ(encoded_length(min_header_length, 0, 2, 5, false, 0), message.size());
}

/* 4.7: "1 2 HLOO HLOO", here of a Long Reply. */
RPCORDMA_TEST(xdr_v1, rfc_reply_chunk)
{
	static const u32 words[] = {0x12345678, 1, 32, 1, 0, 0, 1, 2, S1, S2};
	MutableBytes message = wire(words);
	auto header = xdr_reference::decode(message);

	ASSERT_OK(header);
	const Message &h = header.value();
	EXPECT_EQ(h.kind, Kind::nomsg);
	EXPECT_TRUE(h.has_chunks());
	EXPECT_TRUE(h.reply.present());
	ASSERT_EQ(h.reply.count(), 2);
	EXPECT_EQ(h.reply.length(), 0x3000);
	EXPECT_TRUE(h.reply[0] == s1);
	EXPECT_TRUE(h.reply[1] == s2);

	MutableBytes room = test_alloc(message.size());
	Encoder encoder(room, xid, credits, Kind::nomsg);
	encoder.reply_chunk(2);
	encoder.segment(s1);
	encoder.segment(s2);
	expect_built(encoder, room, message);
	EXPECT_EQ(encoded_length(min_header_length, 0, 0, 0, true, 2), message.size());
}

/* The three lists at once, as 3.5.3 has a Long Call with results to place and a Long Reply. */
RPCORDMA_TEST(xdr_v1, all_lists)
{
	static const u32 words[] = {0x12345678,	   1, 32, 1, 1, 0, S2, 1, 8, S3, 0, 1, 1, S1,
				    1 /* empty */, 0, 0,  1, 1, S3};
	MutableBytes message = wire(words);
	auto header = xdr_reference::decode(message);

	ASSERT_OK(header);
	const Message &h = header.value();
	EXPECT_TRUE(h.reads.has_position_zero());
	EXPECT_EQ(h.reads.position_zero_length(), 0x2000);
	EXPECT_EQ(h.reads.total_length(), 0x2007);
	EXPECT_EQ(h.writes.count(), 2);
	EXPECT_EQ(h.writes.segments(), 1);
	EXPECT_EQ(h.reply.length(), 7);
	EXPECT_EQ(h.header_length, message.size());
	EXPECT_EQ(encoded_length(min_header_length, 2, 2, 1, true, 1), message.size());
}

/* Each proc, with the bytes that would make a whole RDMA_MSG. */
RPCORDMA_TEST(xdr_v1, procs)
{
	u32 words[] = {0x12345678, 1, 32, 0, 0, 0, 1, 0};
	const struct {
		u32 proc;
		Error error;
	} cases[] = {
		{.proc = 0, .error = Error::none},
		{.proc = 1, .error = Error::none},
		{.proc = 2, .error = Error::not_supported},
		{.proc = 3, .error = Error::bad_message},
		{.proc = 5, .error = Error::protocol},
		{.proc = 0x01000000, .error = Error::protocol},
		{.proc = 0x80000000, .error = Error::protocol},
		{.proc = 0xffffffff, .error = Error::protocol},
	};

	for (const auto &c : cases) {
		TEST_NOTE("proc", c.proc);
		words[3] = c.proc;
		EXPECT_ERROR(xdr_reference::decode(wire(words)), c.error);
		/* Below the minimum no proc is believed, 4.5. */
		EXPECT_ERROR(xdr_reference::decode(wire(words).first(27)), Error::message_size);
		EXPECT_ERROR(xdr_reference::decode(wire(words).first(16)), Error::message_size);
	}
}

/* Versions other than 1: ERR_VERS is due from the fixed words on, but never to an RDMA_ERROR. */
RPCORDMA_TEST(xdr_v1, versions)
{
	u32 words[] = {0x12345678, 0, 32, 0, 0, 0, 0};

	for (u32 vers : {0u, 2u, 3u, 0x01000000u, 0x80000001u, 0xffffffffu}) {
		TEST_NOTE("vers", vers);
		words[1] = vers;
		for (u32 proc = 0; proc < 12; proc++) {
			TEST_NOTE("proc", proc);
			words[3] = proc;
			Error expected = proc == 4 ? Error::bad_message : Error::no_protocol;
			MutableBytes message = wire(words);
			EXPECT_ERROR(xdr_reference::decode(message), expected);
			EXPECT_ERROR(xdr_reference::decode(test_copy(message.first(16))), expected);
			EXPECT_ERROR(xdr_reference::decode(test_copy(message.first(15))),
				     Error::message_size);
		}
	}
}

RPCORDMA_TEST(xdr_v1, peek)
{
	static const u32 words[] = {0x12345678, 0xfedcba98, 0x01020304, 0x80000005};
	MutableBytes message = wire(words);
	auto fixed = peek(message);

	ASSERT_OK(fixed);
	EXPECT_EQ(fixed.value().xid.get(), 0x12345678);
	EXPECT_EQ(fixed.value().vers, 0xfedcba98);
	EXPECT_EQ(fixed.value().credits.get(), 0x01020304);
	EXPECT_EQ(fixed.value().proc, 0x80000005);
	for (usize n = 0; n < 16; n++)
		EXPECT_ERROR(peek(test_copy(message.first(n))), Error::message_size);
	EXPECT_ERROR(peek(Bytes{}), Error::message_size);
	EXPECT_ERROR(xdr_reference::decode(Bytes{}), Error::message_size);
}

/* ERR_CHUNK is whole at 20 bytes and ERR_VERS at 28; what follows is ignored. */
RPCORDMA_TEST(xdr_v1, error_bodies)
{
	u32 words[] = {0x12345678, 1, 32, 4, 1, 1, 2, 0xdead};
	MutableBytes message = wire(words);

	for (usize n = 0; n <= message.size(); n++) {
		TEST_NOTE("length", n);
		auto header = xdr_reference::decode(test_copy(message.first(n)));
		if (n < 28) {
			EXPECT_ERROR(header, Error::message_size);
			continue;
		}
		ASSERT_OK(header);
		EXPECT_EQ(header.value().kind, Kind::error);
		EXPECT_EQ(header.value().xid, xid);
		EXPECT_EQ(header.value().error.code, ErrorCode::version);
		EXPECT_EQ(header.value().error.low, 1);
		EXPECT_EQ(header.value().error.high, 2);
		EXPECT_EQ(header.value().header_length, 28);
		EXPECT_FALSE(header.value().has_chunks());
		EXPECT_TRUE(header.value().payload.empty());
	}
	words[4] = 2;
	message = wire(words);
	for (usize n = 0; n <= message.size(); n++) {
		TEST_NOTE("length", n);
		auto header = xdr_reference::decode(test_copy(message.first(n)));
		if (n < 20) {
			EXPECT_ERROR(header, Error::message_size);
			continue;
		}
		ASSERT_OK(header);
		EXPECT_EQ(header.value().error.code, ErrorCode::chunk);
		EXPECT_EQ(header.value().error.low, 0);
		EXPECT_EQ(header.value().error.high, 0);
		EXPECT_EQ(header.value().header_length, 20);
	}
	for (u32 code : {0u, 3u, 0x01000000u, 0xffffffffu}) {
		TEST_NOTE("code", code);
		words[4] = code;
		EXPECT_ERROR(xdr_reference::decode(wire(words)), Error::bad_message);
		EXPECT_ERROR(xdr_reference::decode(wire(words).first(20)), Error::bad_message);
	}
}

/* The Payload stream has one place, 4.2.4. */
RPCORDMA_TEST(xdr_v1, payload_place)
{
	static const u32 msg_zero[] = {1, 1, 1, 0, 1, 0, S1, 0, 0, 0};
	static const u32 msg_zero_last[] = {1, 1, 1, 0, 1, 4, S1, 1, 0, S1, 0, 0, 0};
	static const u32 msg_zero_reply[] = {1, 1, 1, 0, 1, 0, S1, 0, 0, 1, 0};
	EXPECT_EQ(outcome(wire(msg_zero)), Error::protocol);
	EXPECT_EQ(outcome(wire(msg_zero_last)), Error::protocol);
	EXPECT_EQ(outcome(wire(msg_zero_reply)), Error::protocol);

	static const u32 nomsg_nothing[] = {1, 1, 1, 1, 0, 0, 0};
	static const u32 nomsg_read[] = {1, 1, 1, 1, 1, 4, S1, 0, 0, 0};
	static const u32 nomsg_write[] = {1, 1, 1, 1, 0, 1, 1, S1, 0, 0};
	EXPECT_EQ(outcome(wire(nomsg_nothing)), Error::protocol);
	EXPECT_EQ(outcome(wire(nomsg_read)), Error::protocol);
	EXPECT_EQ(outcome(wire(nomsg_write)), Error::protocol);

	static const u32 nomsg_zero[] = {1, 1, 1, 1, 1, 0, S1, 0, 0, 0};
	static const u32 nomsg_zero_last[] = {1, 1, 1, 1, 1, 4, S1, 1, 0, S1, 0, 0, 0};
	static const u32 nomsg_reply[] = {1, 1, 1, 1, 0, 0, 1, 1, S1};
	EXPECT_EQ(outcome(wire(nomsg_zero)), Error::none);
	EXPECT_EQ(outcome(wire(nomsg_zero_last)), Error::none);
	EXPECT_EQ(outcome(wire(nomsg_reply)), Error::none);
	auto header = xdr_reference::decode(wire(nomsg_zero_last));
	ASSERT_OK(header);
	EXPECT_FALSE(header.value().reads.ordered());
}

/* 3.4.5: a Position is a multiple of four. */
RPCORDMA_TEST(xdr_v1, positions)
{
	u32 words[] = {1, 1, 1, 0, 1, 0, S1, 0, 0, 0};

	for (u32 position : {4u, 8u, 0x7ffffffcu, 0x80000000u, 0xfffffffcu}) {
		for (u32 low = 0; low < 4; low++) {
			TEST_NOTE("position", position + low);
			words[5] = position + low;
			auto header = xdr_reference::decode(wire(words));
			EXPECT_ERROR(header, low ? Error::protocol : Error::none);
			MutableBytes room = test_alloc(64);
			Encoder encoder(room, xid, credits, Kind::msg);
			encoder.read_segment(Position(position + low), s1);
			EXPECT_ERROR(encoder.finish(), low ? Error::invalid : Error::none);
		}
	}
}

/* Counts that overflow when multiplied, or that just do not fit. */
RPCORDMA_TEST(xdr_v1, hostile_counts)
{
	u32 in_write_list[] = {1, 1, 1, 0, 0, 1, 0, S1, S2, 0, 0};
	u32 in_reply[] = {1, 1, 1, 0, 0, 0, 1, 0, S1, S2};

	for (u32 count : {3u, 4u, 0x0fffffffu, 0x10000000u, 0x10000001u, 0x10000002u, 0x7fffffffu,
			  0x80000000u, 0x80000001u, 0xf0000001u, 0xffffffffu}) {
		TEST_NOTE("count", count);
		in_write_list[6] = count;
		EXPECT_ERROR(xdr_reference::decode(wire(in_write_list)), Error::protocol);
		in_reply[7] = count;
		EXPECT_ERROR(xdr_reference::decode(wire(in_reply)), Error::protocol);
	}
	in_write_list[6] = 2;
	EXPECT_OK(xdr_reference::decode(wire(in_write_list)));
	in_reply[7] = 2;
	EXPECT_OK(xdr_reference::decode(wire(in_reply)));
}

/* Sums of lengths go beyond 32 bits. */
RPCORDMA_TEST(xdr_v1, long_lists)
{
	constexpr u32 count = 4000;
	constexpr u64 whole = u64(count) * 0xffffffff;
	const u32 size = u32(encoded_length(min_header_length, count, count, 0, true, count));
	MutableBytes room = test_alloc(size);
	Encoder encoder(room, xid, credits, Kind::nomsg);

	for (u32 i = 0; i < count; i++)
		encoder.read_segment(Position(i / 2 * 4), {Rkey(i), 0xffffffff, i});
	for (u32 i = 0; i < count; i++)
		encoder.write_chunk(0);
	encoder.reply_chunk(count);
	for (u32 i = 0; i < count; i++)
		encoder.segment({Rkey(i), 0xffffffff, i});
	auto length = encoder.finish();
	ASSERT_OK(length);
	EXPECT_EQ(length.value(), size);

	auto header = xdr_reference::decode(room);
	ASSERT_OK(header);
	const Message &h = header.value();
	EXPECT_EQ(h.reads.count(), count);
	EXPECT_EQ(h.reads.runs(), count / 2);
	EXPECT_TRUE(h.reads.ordered());
	EXPECT_EQ(h.reads.total_length(), whole);
	EXPECT_EQ(h.reads.position_zero_length(), 2 * u64(0xffffffff));
	EXPECT_EQ(h.reads[count - 1].target.handle.get(), count - 1);
	EXPECT_EQ(h.writes.count(), count);
	EXPECT_EQ(h.writes.segments(), 0);
	EXPECT_EQ(h.reply.count(), count);
	EXPECT_EQ(h.reply.length(), whole);
	EXPECT_EQ(h.reply[count - 1].handle.get(), count - 1);
}

/* No receive is 4 GiB long; such a span is refused before its bytes are looked at. */
RPCORDMA_TEST(xdr_v1, span_beyond_32_bits)
{
	if constexpr (sizeof(usize) > sizeof(u32)) {
		const Bytes bytes(test_alloc(0).data(), usize(1) << 32);
		xdr::Message message;

		EXPECT_FALSE(v1::decode_plain(bytes, message));
		EXPECT_FALSE(v1::decode_lone(bytes, message));
		EXPECT_ERROR(xdr_reference::decode(bytes), Error::message_size);
		EXPECT_EQ(v1::decode_any(bytes, message), Error::message_size);
		/* The longest of all is as any other, for each of its readers. */
		static const u32 plain[16] = {7, 1, 9, 0, 0, 0, 0, 7, 0},
				 lone[16] = {7, 1, 9, 0, 0, 1, 1, 5, 6, 0, 8, 0, 0, 7, 0};
		for (const bool bare : {true, false}) {
			const Bytes most(wire(bare ? plain : lone).data(), ~u32(0));

			EXPECT_EQ(v1::decode_plain(most, message), bare);
			EXPECT_EQ(v1::decode_lone(most, message), !bare);
			EXPECT_EQ(v1::decode_any(most, message), Error::none);
			EXPECT_EQ(message.payload.size(), ~u32(0) - (bare ? 28 : 52));
		}
	} else {
		TEST_SKIP("no span is that long here");
	}
}

/* A chunk view reads its counts again; changed ones must not lead it out of the message. */
RPCORDMA_TEST(xdr_v1, message_changes_under_views)
{
	static const u32 words[] = {1, 1, 1, 0, 0, 1, 1, S1, 1, 2, S2, S3, 1, 0, 0, 0};
	static const u32 count_words[] = {6, 12, 22};

	for (u32 changed : count_words) {
		for (u32 value : {0u, 1u, 2u, 3u, 4u, 0x10000000u, 0xffffffffu}) {
			TEST_NOTE("word", changed);
			TEST_NOTE("value", value);
			/* A segment too many would end behind the message. */
			MutableBytes message = wire(words);
			auto header = xdr_reference::decode(message);
			ASSERT_OK(header);
			const WriteList writes = header.value().writes;
			xdr_reference::set_word(message, changed, value);
			u32 chunks = 0, segments = 0;
			for (WriteChunk chunk : writes) {
				chunks++;
				segments += chunk.count();
				for (Segment s : chunk)
					(void)*const_cast<volatile u32 *>(&s.length);
			}
			EXPECT_EQ(chunks, 3);
			EXPECT_LE(segments, 3);
		}
	}
}

RPCORDMA_TEST(xdr_v1, direction)
{
	const struct {
		u32 words[9];
		Direction expected;
	} messages[] = {
		/* xid, vers, credit, proc, three empty lists, xid, msg_type */
		{.words = {7, 1, 1, 0, 0, 0, 0, 7, 0}, .expected = Direction::call},
		{.words = {7, 1, 1, 0, 0, 0, 0, 7, 1}, .expected = Direction::reply},
		{.words = {7, 1, 1, 0, 0, 0, 0, 7, 2}, .expected = Direction::unknown},
		{.words = {7, 1, 1, 0, 0, 0, 0, 7, 0x01000000}, .expected = Direction::unknown},
		{.words = {7, 1, 1, 0, 0, 0, 0, 7, 0xffffffff}, .expected = Direction::unknown},
		{.words = {7, 1, 1, 0, 0, 0, 0, 6, 0}, .expected = Direction::unknown},
		{.words = {7, 1, 1, 0, 0, 0, 0, 6, 1}, .expected = Direction::unknown},
		/* RDMA_NOMSG with an empty Reply chunk; what follows is no payload */
		{.words = {7, 1, 1, 1, 0, 0, 1, 0, 0}, .expected = Direction::reply},
		{.words = {7, 1, 1, 4, 2, 0, 0, 7, 0}, .expected = Direction::reply},
		{.words = {7, 1, 1, 4, 1, 1, 1, 7, 0}, .expected = Direction::reply},
	};

	for (const auto &m : messages) {
		TEST_NOTE("message", u32(&m - messages));
		MutableBytes message = wire(m.words);
		auto header = xdr_reference::decode(message);
		ASSERT_OK(header);
		EXPECT_EQ(header.value().direction, m.expected);
	}

	/* Every payload too short to tell. */
	MutableBytes whole = wire(messages[0].words);
	for (usize n = 28; n < 36; n++) {
		MutableBytes message = test_copy(whole.first(n));
		auto header = xdr_reference::decode(message);
		ASSERT_OK(header);
		EXPECT_EQ(header.value().direction, Direction::unknown);
	}

	/* A Read list is a Call's, whatever the payload says and wherever it is. */
	static const u32 msg_read[] = {7, 1, 1, 0, 1, 4, S1, 0, 0, 0, 7, 1};
	static const u32 nomsg_zero[] = {7, 1, 1, 1, 1, 0, S1, 0, 0, 0};
	static const u32 nomsg_both[] = {7, 1, 1, 1, 1, 0, S1, 0, 0, 1, 1, S2};
	for (MutableBytes message : {wire(msg_read), wire(nomsg_zero), wire(nomsg_both)}) {
		auto header = xdr_reference::decode(message);
		ASSERT_OK(header);
		EXPECT_EQ(header.value().direction, Direction::call);
	}
}

/* The way of most messages: it says nothing but what decode_any() says, takes what it is for, and else touches nothing. */
RPCORDMA_TEST(xdr_v1, plain)
{
	static const u32 values[] = {0, 1, 2, 3, 4, 5, 7, 0x700, 0x01000000, 0xffffffff};
	static const u32 lengths[] = {0, 12, 16, 27, 28, 32, 35, 36, 40};
	u32 words[10] = {7, 1, 32, 0, 0, 0, 0, 7, 0, 9}, taken = 0;

	for (u32 type = 0; type < 2; type++) {
		xdr::Message message;
		words[8] = type;
		ASSERT_TRUE(v1::decode_plain(wire(words), message));
		EXPECT_EQ(message.direction, type ? xdr::Direction::reply : xdr::Direction::call);
		EXPECT_EQ(message.payload.size(), sizeof(words) - v1::min_header_length);
	}
	for (u32 at = 0; at < 10; at++)
		for (u32 value : values)
			for (u32 length : lengths) {
				const u32 was = words[at];
				xdr::Message plain, any;
				words[at] = value;
				const ExactCopy copy(Bytes(wire(words)).first(length));
				words[at] = was;
				TEST_NOTE("word", at);
				TEST_NOTE("value", value);
				TEST_NOTE("length", length);
				/* As of another message that came in the same Receive. */
				plain.kind = any.kind = xdr::Kind::nomsg;
				plain.header_length = 99;
				const Error error = v1::decode_any(copy.bytes(), any);
				if (!v1::decode_plain(copy.bytes(), plain)) {
					EXPECT_EQ(plain.header_length, 99);
					EXPECT_EQ(plain.kind, xdr::Kind::nomsg);
					continue;
				}
				taken++;
				EXPECT_EQ(error, Error::none);
				EXPECT_NE(any.direction, xdr::Direction::unknown);
				EXPECT_FALSE(plain.has_chunks() || any.has_chunks());
				xdr_reference::expect_same(plain, any);
			}
	/* With 36 and with 40 bytes: any credits, any word behind, both types, and what is as it was. */
	EXPECT_EQ(taken, 2 * (2 * 10 + 2 + 7));
}

RPCORDMA_SUITE(xdr_v1, rfc_no_chunks, rfc_read_list, rfc_write_list, rfc_reply_chunk, all_lists,
	       procs, versions, peek, error_bodies, payload_place, positions, hostile_counts,
	       long_lists, span_beyond_32_bits, message_changes_under_views, direction, plain);

} // namespace rpcordma
