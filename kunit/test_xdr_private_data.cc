// SPDX-License-Identifier: GPL-2.0-only
/* The connection's private data, RFC 8797: layout, sizes, and the search among other layers' bytes. */
#include "kunit/testing.hh"
#include "xdr/private_data.hh"

namespace rpcordma {
namespace {

using namespace private_data;

/* As in RFC 8797 4: identifier, version 1, R, send 4096, receive 8192. */
constexpr u8 example[] = {0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 7};

/** parse() of an exact-size copy. */
Result<Properties> parse_exact(Bytes bytes)
{
	ExactCopy copy(bytes);

	return parse(copy.bytes());
}

/** What parse() makes of @bytes is the example. */
void expect_example(Bytes bytes)
{
	auto found = parse_exact(bytes);

	ASSERT_OK(found);
	EXPECT_EQ(found.value().send_size, 4096);
	EXPECT_EQ(found.value().receive_size, 8192);
	EXPECT_TRUE(found.value().remote_invalidation);
}

} // namespace

RPCORDMA_TEST(xdr_private_data, layout)
{
	MutableBytes room = test_alloc(length);
	auto encoded = encode(room, {4096, 8192, true});

	ASSERT_OK(encoded);
	EXPECT_EQ(encoded.value(), 8);
	EXPECT_BYTES(Bytes(room), Bytes(example));
	expect_example(room);

	ASSERT_OK(encode(room, {8192, 4096, false}));
	const u8 other[] = {0xf6, 0xab, 0x0e, 0x18, 1, 0, 7, 3};
	EXPECT_BYTES(Bytes(room), Bytes(other));
	auto found = parse_exact(room);
	ASSERT_OK(found);
	EXPECT_EQ(found.value().send_size, 8192);
	EXPECT_EQ(found.value().receive_size, 4096);
	EXPECT_FALSE(found.value().remote_invalidation);
}

/* What a peer that says nothing is taken to say, 5.1: R zero, both Size fields zero. */
RPCORDMA_TEST(xdr_private_data, defaults)
{
	const u8 zero[] = {0xf6, 0xab, 0x0e, 0x18, 1, 0, 0, 0};
	auto found = parse_exact(Bytes(zero));

	ASSERT_OK(found);
	EXPECT_EQ(found.value().send_size, Properties{}.send_size);
	EXPECT_EQ(found.value().receive_size, Properties{}.receive_size);
	EXPECT_EQ(found.value().remote_invalidation, Properties{}.remote_invalidation);
	EXPECT_EQ(Properties{}.send_size, 1024);
}

/* 4.2: 1024 to 262144; what lies between is told smaller, never larger, than it is. */
RPCORDMA_TEST(xdr_private_data, sizes)
{
	const struct {
		u32 bytes;
		u8 field;
	} cases[] = {
		{.bytes = 0, .field = 0},
		{.bytes = 1, .field = 0},
		{.bytes = 1023, .field = 0},
		{.bytes = 1024, .field = 0},
		{.bytes = 1025, .field = 0},
		{.bytes = 2047, .field = 0},
		{.bytes = 2048, .field = 1},
		{.bytes = 4095, .field = 2},
		{.bytes = 4096, .field = 3},
		{.bytes = 4097, .field = 3},
		{.bytes = 65536, .field = 63},
		{.bytes = 262143, .field = 254},
		{.bytes = 262144, .field = 255},
		{.bytes = 262145, .field = 255},
		{.bytes = 263168, .field = 255},
		{.bytes = 1048576, .field = 255},
		{.bytes = 0x7fffffff, .field = 255},
		{.bytes = 0x80000000, .field = 255},
		{.bytes = 0xffffffff, .field = 255},
	};

	for (const auto &c : cases) {
		TEST_NOTE("bytes", c.bytes);
		EXPECT_EQ(encode_size(c.bytes), c.field);
		if (c.bytes >= 1024)
			EXPECT_LE(decode_size(encode_size(c.bytes)), c.bytes);
		MutableBytes room = test_alloc(length);
		ASSERT_OK(encode(room, {c.bytes, 1024, false}));
		EXPECT_EQ(room[6], c.field);
		ASSERT_OK(encode(room, {1024, c.bytes, false}));
		EXPECT_EQ(room[7], c.field);
	}
	for (u32 field = 0; field < 256; field++) {
		EXPECT_EQ(decode_size(u8(field)), 1024 * (field + 1));
		EXPECT_EQ(encode_size(decode_size(u8(field))), field);
	}
	EXPECT_EQ(inline_threshold(4096, 1024), 1024);
	EXPECT_EQ(inline_threshold(1024, 4096), 1024);
}

RPCORDMA_TEST(xdr_private_data, rooms)
{
	for (usize n = 0; n < 12; n++) {
		TEST_NOTE("room", n);
		MutableBytes room = test_alloc(n);
		__builtin_memset(room.data(), 0xa5, n);
		auto encoded = encode(room, {4096, 8192, true});
		if (n < 8) {
			EXPECT_ERROR(encoded, Error::no_space);
			for (u8 byte : room)
				EXPECT_EQ(byte, 0xa5);
			continue;
		}
		ASSERT_OK(encoded);
		for (u8 byte : room.from(8))
			EXPECT_EQ(byte, 0xa5);
	}
}

/* 5.2: at any offset, with anything before and behind, and nowhere when it is cut. */
RPCORDMA_TEST(xdr_private_data, offsets)
{
	/* As much as InfiniBand's REP carries. */
	constexpr usize most = 196;

	for (u8 filler : {0x00, 0xf6, 0xff}) {
		for (usize at = 0; at + length <= most; at++) {
			TEST_NOTE("filler", filler);
			TEST_NOTE("offset", at);
			MutableBytes data = test_alloc(most);
			__builtin_memset(data.data(), filler, most);
			__builtin_memcpy(data.data() + at, example, length);
			expect_example(data);
			expect_example(data.first(at + length));
			for (usize cut = 1; cut <= length; cut++)
				EXPECT_ERROR(parse_exact(data.first(at + length - cut)),
					     Error::no_protocol);
		}
	}
}

RPCORDMA_TEST(xdr_private_data, absent)
{
	EXPECT_ERROR(parse(Bytes{}), Error::no_protocol);
	MutableBytes data = test_alloc(196);
	__builtin_memset(data.data(), 0, data.size());
	EXPECT_ERROR(parse(data), Error::no_protocol);

	/* Each bit of the identifier and of the version counts. */
	for (u32 bit = 0; bit < 40; bit++) {
		TEST_NOTE("bit", bit);
		ExactCopy flipped{Bytes(example)};
		flipped[bit / 8] ^= u8(1u << bit % 8);
		EXPECT_ERROR(parse(flipped.bytes()), Error::no_protocol);
	}
	/* The reserved bits do not, 4. */
	for (u32 bits = 0; bits < 128; bits++) {
		ExactCopy flipped{Bytes(example)};
		flipped[5] = u8(bits << 1 | 1);
		expect_example(flipped.bytes());
		flipped[5] = u8(bits << 1);
		auto found = parse(flipped.bytes());
		ASSERT_OK(found);
		EXPECT_FALSE(found.value().remote_invalidation);
	}
}

/* An identifier that is not followed by a message known here does not hide one that is. */
RPCORDMA_TEST(xdr_private_data, false_identifiers)
{
	for (u8 version : {0, 2, 255}) {
		for (usize gap = 5; gap <= 12; gap++) {
			TEST_NOTE("version", version);
			TEST_NOTE("gap", gap);
			MutableBytes data = test_alloc(gap + length);
			__builtin_memset(data.data(), 0, data.size());
			__builtin_memcpy(data.data(), example, 4);
			data[4] = version;
			EXPECT_ERROR(parse_exact(data), Error::no_protocol);
			__builtin_memcpy(data.data() + gap, example, length);
			expect_example(data);
		}
	}
	/* The first of two is taken. */
	u8 two[16] = {};
	__builtin_memcpy(two, example, length);
	__builtin_memcpy(two + 8, example, length);
	two[14] = two[15] = 0xff;
	expect_example(Bytes(two));
}

/* The mark: sixteen bytes in all, right behind the message, wherever that is. */
RPCORDMA_TEST(xdr_private_data, mark)
{
	static const u8 mark[8] = {0x72, 0x32, 0x64, 0x33, 1, 0, 0, 0};
	Properties said{4096, 8192, true, true};
	u8 room[24];

	__builtin_memset(room, 0xa5, sizeof(room));
	for (usize n = 0; n < marked_length; n++)
		EXPECT_ERROR(encode({room, n}, said), Error::no_space);
	EXPECT_EQ(room[0], 0xa5);
	auto encoded = encode({room, marked_length}, said);
	ASSERT_OK(encoded);
	EXPECT_EQ(encoded.value(), marked_length);
	EXPECT_BYTES(Bytes(room).from(length).first(8), Bytes(mark));
	EXPECT_EQ(room[marked_length], 0xa5);

	for (usize at : {0, 1, 7, 36, 40}) {
		TEST_NOTE("offset", at);
		MutableBytes data = test_alloc(at + marked_length + 4);
		__builtin_memset(data.data(), 0, data.size());
		__builtin_memcpy(data.data() + at, room, marked_length);
		for (usize n = at + length; n <= data.size(); n++) {
			TEST_NOTE("bytes", n);
			auto found = parse_exact(data.first(n));
			ASSERT_OK(found);
			EXPECT_EQ(found.value().mark, n >= at + marked_length);
			EXPECT_EQ(found.value().receive_size, 8192);
		}
	}

	said.mark = false;
	encoded = encode(room, said);
	ASSERT_OK(encoded);
	EXPECT_EQ(encoded.value(), length);
}

/* Anything else there is somebody else's: each bit counts, and so does the place. */
RPCORDMA_TEST(xdr_private_data, no_mark)
{
	u8 data[20] = {};

	ASSERT_OK(encode(data, {4096, 8192, true, true}));
	for (u32 bit = 0; bit < 64; bit++) {
		TEST_NOTE("bit", bit);
		data[length + bit / 8] ^= u8(1u << bit % 8);
		auto found = parse(Bytes(data));
		ASSERT_OK(found);
		EXPECT_FALSE(found.value().mark);
		data[length + bit / 8] ^= u8(1u << bit % 8);
	}
	/* A gap of one byte, and before the message. */
	u8 apart[20] = {};
	__builtin_memcpy(apart, data, length);
	__builtin_memcpy(apart + length + 1, data + length, 8);
	auto found = parse(Bytes(apart));
	ASSERT_OK(found);
	EXPECT_FALSE(found.value().mark);
	__builtin_memcpy(apart, data + length, 8);
	__builtin_memcpy(apart + 8, data, length);
	__builtin_memset(apart + 16, 0, 4);
	found = parse(Bytes(apart));
	ASSERT_OK(found);
	EXPECT_FALSE(found.value().mark);
}

RPCORDMA_SUITE(xdr_private_data, layout, defaults, sizes, rooms, offsets, absent, false_identifiers,
	       mark, no_mark);

} // namespace rpcordma
