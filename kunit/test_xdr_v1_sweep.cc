// SPDX-License-Identifier: GPL-2.0-only
/*
 * The version 1 header codec over whole families of headers: every combination of small lists, every
 * prefix, every single-word mutation, every size of the encoder's room. Each message is held against
 * the second codec of test_xdr_reference.hh, and lies in a heap block that ends where it ends. Single
 * cases with a name are in test_xdr_v1.cc.
 */
#include "kunit/test_xdr_sweep.hh"
#include "kunit/testing.hh"
#include "xdr/v1.hh"

namespace rpcordma {
namespace {

using namespace xdr_reference;

/** Make @m an RDMA_ERROR. */
void fill_error(Model &m, u32 code)
{
	__builtin_memset(static_cast<void *>(&m), 0, sizeof(m));
	m.xid = 0xc0ffee00;
	m.vers = 1;
	m.credits = 32;
	m.proc = 4;
	m.error_code = code;
	m.low = code == 1 ? 1 : 0;
	m.high = code == 1 ? 2 : 0;
}

struct Codec {
	using Model = xdr_reference::Model;
	enum : u32 { specimens = list_specimens + 2, least = v1::min_header_length };

	static void fill_specimen(Model &m, u32 i)
	{
		ASSERT_LT(i, specimens);
		if (i >= list_specimens)
			return fill_error(m, i - list_specimens + 1);
		fill_list_specimen(m, i);
		m.vers = v1::version;
	}
	static u32 write(const Model &m, MutableBytes room)
	{
		return xdr_reference::write(m, room);
	}
	/* It looks like more of the lists. */
	static void write_trailer(const Model &, MutableBytes room)
	{
		for (u32 i = 0; i < trailer / 4; i++)
			set_word(room, i, i == 1);
	}
	static Error check(Bytes message, Model &scratch, MutableBytes room)
	{
		return xdr_reference::check(message, scratch, room);
	}
	static bool encodes(const Model &)
	{
		return true;
	}
	static Result<u32> encode(const Model &m, MutableBytes room)
	{
		return xdr_reference::encode(m, room);
	}
};

} // namespace

/* decode(encode(x)) == x for every combination of small lists; what is no header is refused. */
RPCORDMA_TEST(xdr_v1_sweep, round_trips)
{
	auto &m = test_zeroed<Model>();
	auto &scratch = test_zeroed<Model>();
	MutableBytes by_reference = test_alloc(max_message);
	MutableBytes room = test_alloc(max_message);
	u32 built = 0, refused = 0;

	/* One hexadecimal digit per Write chunk, its segment count plus one: 0 to 3 chunks of 0 to 3. */
	for (u32 writes = 0; writes <= 0x444; writes++) {
		bool wanted = true;
		for (u32 w = writes; w != 0; w >>= 4)
			wanted &= (w & 15) >= 1 && (w & 15) <= 4;
		if (!wanted)
			continue;
		for (u32 shape = 0; shape < 2 * 4 * u32(Positions::end) * 5; shape++) {
			const u32 proc = shape & 1;
			const u32 reads = shape >> 1 & 3;
			const auto kind = Positions((shape >> 3) / 5);
			const u32 reply = (shape >> 3) % 5;
			if (reads == 0 && kind != Positions::zero)
				continue;
			TEST_NOTE("writes", writes);
			TEST_NOTE("shape", shape);
			fill(m, proc, kind, reads, writes, reply != 0, reply ? reply - 1 : 0);
			m.vers = v1::version;
			const u32 length = write(m, by_reference);
			ExactCopy message(by_reference.first(length));
			const Error error = check(message.bytes(), scratch, room);
			auto encoded = encode(m, room);

			if (error == Error::none) {
				ASSERT_OK(encoded);
				ASSERT_BYTES(Bytes(room.first(encoded.value())),
					     Bytes(by_reference.first(length)));
				ASSERT_EQ(xdr::encoded_length(v1::min_header_length, reads,
							      m.chunk_count, m.segment_count,
							      m.reply, m.reply_count),
					  length);
				built++;
			} else {
				EXPECT_EQ(error, Error::protocol);
				EXPECT_ERROR(encoded, Error::invalid);
				refused++;
			}
		}
	}
	/* 85 Write lists; of the 155 forms of the rest, those with their Payload stream in one place. */
	EXPECT_EQ(built + refused, 85 * 2 * (3 * u32(Positions::end) + 1) * 5);
	EXPECT_GT(built, 10000);
	EXPECT_GT(refused, 1000);
}

/* Every prefix: too short, not decodable, or whole. */
RPCORDMA_TEST(xdr_v1_sweep, prefixes)
{
	sweep_prefixes<Codec>([](const Model &m, u32 header, u32 n, Error error) {
		const u32 least = m.proc == 4 ? header : v1::min_header_length;

		EXPECT_EQ(error, n < least  ? Error::message_size :
				 n < header ? Error::protocol :
					      Error::none);
	});
}

RPCORDMA_TEST(xdr_v1_sweep, alignments)
{
	sweep_alignments<Codec>();
}

RPCORDMA_TEST(xdr_v1_sweep, single_word_mutations)
{
	auto &tally = test_zeroed<Tally>();

	sweep_words<Codec>(tally);
	EXPECT_GT(tally.accepted, 10000);
	EXPECT_GT(tally.bad, 10000);
	EXPECT_GT(tally.other_version, 1000);
	EXPECT_GT(tally.discarded, 100);
	EXPECT_GT(tally.no_proc, 20);
	EXPECT_GT(tally.too_short, 1);
}

/* Where the lists' own words are. */
RPCORDMA_TEST(xdr_v1_sweep, double_word_mutations)
{
	auto &tally = test_zeroed<Tally>();

	sweep_pairs<Codec>({0u, 5u, 8u, 11u, 15u, 17u}, 3, tally);
	EXPECT_GT(tally.accepted, 10000);
	EXPECT_GT(tally.bad, 10000);
}

RPCORDMA_TEST(xdr_v1_sweep, rooms)
{
	sweep_rooms<Codec>();
}

/*
 * Headers with one chunk of one segment have a way of their own, if their payload is an RPC message with their xid: each word
 * changed, each length, of both forms and both types.
 */
RPCORDMA_TEST(xdr_v1_sweep, lone_chunks)
{
	static const u32 values[] = {0, 1, 2, 3, 4, 7, 0x01000000, 0xffffffff};
	static const u32 forms[][9] = {{1, 8, 0x11, 0x1000, 0x11110000, 0x22220000, 0, 0, 0},
				       {0, 1, 1, 0x11, 0x1000, 0x11110000, 0x22220000, 0, 0}};
	constexpr u32 count = 17, header = 13;
	auto &scratch = test_zeroed<Model>();
	MutableBytes room = test_alloc(max_message);
	u32 decoded = 0;

	for (const auto &lists : forms)
		for (u32 type = 0; type < 2; type++)
			for (u32 at = 0; at < count; at++)
				for (u32 value : values)
					for (u32 length = 4 * header; length <= 4 * count; length++) {
						u32 words[count] = {7, v1::version, 32, 0};

						__builtin_memcpy(words + 4, lists, sizeof(lists));
						words[header] = 7;
						words[header + 1] = type;
						words[at] = value;
						const ExactCopy copy(
							Bytes(wire(words)).first(length));
						TEST_NOTE("word", at);
						TEST_NOTE("value", value);
						TEST_NOTE("length", length);
						decoded += check(copy.bytes(), scratch, room) ==
							   Error::none;
					}
	/* At least whatever has a word changed that may be anything: xid, credits, segment, Position, payload. */
	EXPECT_GE(decoded, 2 * 2 * 17 * 8 * 10);
}

RPCORDMA_SUITE(xdr_v1_sweep, round_trips, prefixes, alignments, single_word_mutations,
	       double_word_mutations, rooms, lone_chunks);

} // namespace rpcordma
