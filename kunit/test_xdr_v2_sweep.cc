// SPDX-License-Identifier: GPL-2.0-only
/*
 * The version 2 header codec over whole families of headers, as test_xdr_v1_sweep.cc has them for version 1: against the
 * second codec of test_xdr_reference_v2.hh. Single cases with a name are in test_xdr_v2.cc.
 */
#include "kunit/test_xdr_reference_v2.hh"
#include "kunit/test_xdr_sweep.hh"
#include "kunit/testing.hh"

namespace rpcordma {
namespace {

using namespace xdr_reference;
using Model2 = xdr_reference_v2::Model;

struct Body {
	u32 proc, direction, option, words;
	u32 body[34];
};

/* OPTIONAL of each type and direction, and each message of properties. */
const Body bodies[] = {
	{5, 0, 1, 5, {0, 0, 2, 1, 40}},
	{5, 0, 1, 12, {1, 8, 4096, 2, 0, 1, 3, 0, 1, 1, 40, 0}},
	{5, 1, 2, 3, {0, 1, 100}},
	{5, 0, 3, 3, {1, 1, 3000}},
	{5, 1, 3, 3, {1, 2, 3000}},
	{5, 1, 4, 5, {7, 0, 0, 0, 3}},
	{5, 0, 4, 11, {7, 1, 0, 1, 7, 1, 0, 6, 5000, 0, 4096}},
	{6, 0, 0, 2, {0, 0}},
	{6, 0, 0, 30, {6,    1, 4, 20480, 2,	4,    1, 3, 4, 7, 4, 40, 20480, 2, 1,
		       4096, 8, 0, 4,	  4096, 4096, 1, 5, 4, 4, 6, 4,	 4,	1, 0x36}},
	/* Unknown ones, of lengths that need a pad. */
	{6, 0, 0, 13, {3, 1000, 1, 0x01000000, 1001, 5, 1, 0x02000000, 1, 0, 2, 7, 0}},
	{7, 0, 0, 1, {0}},
	{7, 0, 0, 4, {1, 1, 4, 8192}},
	{8, 1, 0, 3, {0, 0, 0}},
	{8, 1, 0, 8, {1, 1, 1, 2, 1, 1, 4, 4096}},
	{9, 0, 0, 6, {2, 1, 4, 20480, 4, 0}},
};
constexpr u32 body_specimens = sizeof(bodies) / sizeof(bodies[0]);
constexpr u32 error_codes = 6;

void fill_body(Model2 &m, const Body &body)
{
	m.proc = body.proc;
	m.direction = body.direction;
	m.option = body.option;
	m.body_words = body.words;
	for (u32 i = 0; i < body.words; i++)
		m.body[i] = body.body[i];
}

void fill_error(Model2 &m, u32 code)
{
	m.proc = 4;
	m.error_code = code;
	m.direction = 1;
	if (code == 1 || code == 3) {
		m.low = 2;
		m.high = 0x10000;
	}
}

struct Codec {
	using Model = Model2;
	enum : u32 {
		specimens = 2 * list_specimens + error_codes + body_specimens,
		least = v2::min_header_length
	};

	static void fill_specimen(Model &m, u32 i)
	{
		ASSERT_LT(i, specimens);
		__builtin_memset(static_cast<void *>(&m), 0, sizeof(m));
		if (i < 2 * list_specimens) {
			fill_list_specimen(m, i / 2);
			m.direction = i % 2;
			m.invalidate = m.direction ? 0 : 0x89abcdef;
		} else if (i < 2 * list_specimens + error_codes) {
			fill_error(m, i - 2 * list_specimens + 1);
		} else {
			fill_body(m, bodies[i - 2 * list_specimens - error_codes]);
		}
		m.xid = 0xc0ffee00 + i;
		m.vers = v2::version;
		m.credits = 0x00010203;
	}
	static u32 write(const Model &m, MutableBytes room)
	{
		return xdr_reference_v2::write(m, room);
	}
	/* The payload of a MSG. */
	static void write_trailer(const Model &m, MutableBytes room)
	{
		set_word(room, 0, m.xid);
		set_word(room, 1, m.direction);
		set_word(room, 2, 1);
	}
	static Error check(Bytes message, Model &scratch, MutableBytes room)
	{
		return xdr_reference_v2::check(message, scratch, room);
	}
	static bool encodes(const Model &m)
	{
		return !xdr_reference_v2::has_properties(m);
	}
	static Result<u32> encode(const Model &m, MutableBytes room)
	{
		return xdr_reference_v2::encode(m, room);
	}
};

} // namespace

/* decode(encode(x)) == x for combinations of small lists, both ways; what is no header is refused. */
RPCORDMA_TEST(xdr_v2_sweep, round_trips)
{
	auto &m = test_zeroed<Model2>();
	auto &scratch = test_zeroed<Model2>();
	MutableBytes whole = test_alloc(max_message);
	MutableBytes room = test_alloc(max_message);
	u32 built = 0, refused = 0;

	for (u32 writes : {0x0, 0x1, 0x3, 0x24, 0x131}) {
		for (u32 shape = 0; shape < 4 * 4 * u32(Positions::end) * 4; shape++) {
			const u32 proc = shape & 1;
			const u32 reads = shape >> 2 & 3;
			const auto kind = Positions((shape >> 4) / 4);
			const u32 reply = (shape >> 4) % 4;
			TEST_NOTE("writes", writes);
			TEST_NOTE("shape", shape);
			__builtin_memset(static_cast<void *>(&m), 0, sizeof(m));
			fill(m, proc, kind, reads, writes, reply != 0, reply ? reply - 1 : 0);
			m.vers = v2::version;
			m.direction = shape >> 1 & 1;
			m.invalidate = shape;
			const u32 header = write_with_trailer<Codec>(m, whole);
			ExactCopy message(whole.first(header + trailer));
			const Error error = Codec::check(message.bytes(), scratch, room);
			auto encoded = Codec::encode(m, room);

			if (error == Error::none) {
				ASSERT_OK(encoded);
				ASSERT_BYTES(Bytes(room.first(encoded.value())),
					     Bytes(whole.first(header)));
				ASSERT_EQ(xdr::encoded_length(v2::min_header_length, reads,
							      m.chunk_count, m.segment_count,
							      m.reply, m.reply_count),
					  header);
				built++;
			} else {
				EXPECT_EQ(error, m.direction ? Error::bad_message : Error::protocol);
				EXPECT_ERROR(encoded, Error::invalid);
				refused++;
			}
		}
	}
	EXPECT_GT(built, 1000);
	EXPECT_GT(refused, 500);
}

/* Every prefix: too short, not decodable (which a reply is not told), or whole. */
RPCORDMA_TEST(xdr_v2_sweep, prefixes)
{
	sweep_prefixes<Codec>([](const Model2 &m, u32 header, u32 n, Error error) {
		const u32 whole = header + (m.proc == 0 ? 8 : 0);
		/* From here on it says that it is a reply. */
		const u32 says = m.proc == 4 || m.proc == 8 ? 16 : 20;

		EXPECT_EQ(error, n < 16			  ? Error::message_size :
				 n >= whole		  ? Error::none :
				 m.direction && n >= says ? Error::bad_message :
							    Error::protocol);
	});
}

RPCORDMA_TEST(xdr_v2_sweep, alignments)
{
	sweep_alignments<Codec>();
}

RPCORDMA_TEST(xdr_v2_sweep, single_word_mutations)
{
	auto &tally = test_zeroed<Tally>();

	sweep_words<Codec>(tally);
	EXPECT_GT(tally.accepted, 10000);
	EXPECT_GT(tally.bad, 10000);
	EXPECT_GT(tally.other_version, 1000);
	EXPECT_GT(tally.discarded, 10000);
	EXPECT_GT(tally.no_proc, 1000);
	EXPECT_GT(tally.no_option, 100);
	EXPECT_EQ(tally.too_short, 0);
}

/* Behind the fixed words. */
RPCORDMA_TEST(xdr_v2_sweep, double_word_mutations)
{
	auto &tally = test_zeroed<Tally>();

	sweep_pairs<Codec>({0u, 17u, 22u, 36u, 38u, 43u, 49u, 51u, 55u}, 4, tally);
	EXPECT_GT(tally.accepted, 5000);
	EXPECT_GT(tally.bad, 10000);
}

RPCORDMA_TEST(xdr_v2_sweep, rooms)
{
	sweep_rooms<Codec>();
}

RPCORDMA_SUITE(xdr_v2_sweep, round_trips, prefixes, alignments, single_word_mutations,
	       double_word_mutations, rooms);

} // namespace rpcordma
