// SPDX-License-Identifier: GPL-2.0-only
/*
 * The version 1 header codec over whole families of headers: every combination of small lists, every
 * prefix, every single-word mutation, every size of the encoder's room. Each message is held against
 * the second codec of test_xdr_reference.hh, and lies in a heap block that ends where it ends. Single
 * cases with a name are in test_xdr_v1.cc.
 */
#include "kunit/test_xdr_reference.hh"
#include "kunit/testing.hh"
#include "xdr/v1.hh"

namespace rpcordma {
namespace {

using namespace xdr_reference;

/** Which Positions the read segments of a header have, and so which Read chunks they make. */
enum class Positions : u32 {
	zero,
	one_chunk,
	rising,
	zero_then_rising,
	falling_to_zero,
	mixed,
	end
};

Position position(Positions kind, u32 i, u32 count)
{
	switch (kind) {
	case Positions::zero:
		return Position(0);
	case Positions::one_chunk:
		return Position(148);
	case Positions::rising:
		return Position(4 + 4 * i);
	case Positions::zero_then_rising:
		return Position(1024 * i);
	case Positions::falling_to_zero:
		return Position(0xfffffffc / 4 / max<u32>(count - 1, 1) * (count - 1 - i) * 4);
	case Positions::mixed:
		return Position(i % 2 ? 8 : 80);
	case Positions::end:
		break;
	}
	return Position(~u32(0));
}

/** Lengths that a sum or a sign could trip over. */
u32 some_length(u32 seed)
{
	constexpr u32 lengths[] = {0xffffffff, 4096, 0, 1, 0x80000000, 1048576, 3};

	return lengths[seed % (sizeof(lengths) / sizeof(lengths[0]))];
}

/** Make @m a header with these lists. @writes: the chunks' segment counts, one per hexadecimal digit + 1. */
void fill(Model &m, u32 proc, Positions kind, u32 reads, u32 writes, bool reply, u32 reply_segments)
{
	u32 seed = reads + writes + reply_segments;

	__builtin_memset(static_cast<void *>(&m), 0, sizeof(m));
	m.xid = 0xc0ffee00 + seed;
	m.vers = 1;
	m.credits = 0x00010203;
	m.proc = proc;
	m.read_count = reads;
	for (u32 i = 0; i < reads; i++) {
		m.reads[i] = {position(kind, i, reads), segment(seed, some_length(seed))};
		seed++;
	}
	for (; writes != 0; writes >>= 4) {
		u32 count = (writes & 15) - 1;
		m.chunk_segments[m.chunk_count++] = count;
		for (u32 i = 0; i < count; i++) {
			m.segments[m.segment_count++] = segment(seed, some_length(seed));
			seed++;
		}
	}
	m.reply = reply;
	m.reply_count = reply_segments;
	for (u32 i = 0; i < reply_segments; i++) {
		m.reply_segments[i] = segment(seed, some_length(seed));
		seed++;
	}
}

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

/** The headers that are cut and mutated: each kind of list, alone and together. */
constexpr u32 specimens = 20;

void fill_specimen(Model &m, u32 i)
{
	ASSERT_LT(i, specimens);
	switch (i) {
	case 0: /* no chunks; backward calls and replies too */
		return fill(m, 0, Positions::zero, 0, 0, false, 0);
	case 1: /* NFS WRITE */
		return fill(m, 0, Positions::one_chunk, 1, 0, false, 0);
	case 2: /* NFS READ */
		return fill(m, 0, Positions::zero, 0, 0x2, false, 0);
	case 3: /* READDIR */
		return fill(m, 0, Positions::zero, 0, 0, true, 1);
	case 4: /* a Long Call */
		return fill(m, 1, Positions::zero, 1, 0, false, 0);
	case 5: /* a Long Call with a Long Reply */
		return fill(m, 1, Positions::zero, 3, 0, true, 3);
	case 6: /* a Long Call with a reduced argument */
		return fill(m, 1, Positions::zero_then_rising, 3, 0, false, 0);
	case 7: /* a Long Reply */
		return fill(m, 1, Positions::zero, 0, 0, true, 2);
	case 8: /* a Long Reply with a reduced result */
		return fill(m, 1, Positions::zero, 0, 0x3, true, 1);
	case 9:
		return fill(m, 0, Positions::rising, 3, 0, false, 0);
	case 10:
		return fill(m, 0, Positions::one_chunk, 4, 0, false, 0);
	case 11: /* empty Write chunks among others */
		return fill(m, 0, Positions::zero, 0, 0x1311, false, 0);
	case 12:
		return fill(m, 0, Positions::zero, 0, 0x222, true, 0);
	case 13:
		return fill(m, 0, Positions::mixed, 4, 0x24, true, 2);
	case 14:
		return fill(m, 1, Positions::falling_to_zero, 3, 0x111, true, 2);
	case 15:
		return fill(m, 0, Positions::rising, 1, 0x2, true, 1);
	case 16:
		return fill(m, 0, Positions::zero, 0, 0x8, false, 0);
	case 17:
		return fill(m, 1, Positions::zero, 0, 0, true, 0);
	case 18:
		return fill_error(m, 1);
	case 19:
		return fill_error(m, 2);
	}
}

/** What the sweeps met, so that one which meets nothing fails. */
struct Tally {
	u32 accepted, too_short, bad, other_version, discarded, padded;

	void count(Error outcome)
	{
		switch (outcome) {
		case Error::none:
			accepted++;
			break;
		case Error::message_size:
			too_short++;
			break;
		case Error::protocol:
			bad++;
			break;
		case Error::no_protocol:
			other_version++;
			break;
		case Error::bad_message:
			discarded++;
			break;
		case Error::not_supported:
			padded++;
			break;
		default: /* beyond the reference: a test of the tests */
			EXPECT_EQ(outcome, Error::none);
			break;
		}
	}
};

/** Bytes behind the header, which belong to the payload, if anything. */
constexpr u32 trailer = 12;

/** @m on the wire with a trailer that looks like more of the lists. Returns the header's length. */
u32 write_with_trailer(const Model &m, MutableBytes room)
{
	const u32 length = write(m, room);

	for (u32 i = 0; i < trailer / 4; i++)
		set_word(room, length / 4 + i, i == 1);
	return length;
}

/** Every value that a word of a @size byte message is replaced by; false behind the last. */
bool replacement(u32 i, u32 original, u32 size, u32 &value)
{
	const u32 constants[] = {
		0,
		1,
		2,
		3,
		4,
		5,
		8,
		16,
		0x7fffffff,
		0x80000000,
		0xffffffff,
		0xfffffffc,
		0x0fffffff,
		0x10000000,
		0x10000001,
		0x10000002,
		0x01000000,
		original + 1,
		original - 1,
		size,
		size / 4,
		size / 16,
		size / 16 + 1,
		(size - 28) / 16,
		(size - 28) / 24,
		size - 28,
		size - 16,
	};
	constexpr u32 count = sizeof(constants) / sizeof(constants[0]);

	if (i < 32) {
		value = original ^ u32(1) << i;
		return true;
	}
	if (i - 32 < count) {
		value = constants[i - 32];
		return true;
	}
	return false;
}

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
	auto &m = test_zeroed<Model>();
	auto &scratch = test_zeroed<Model>();
	MutableBytes whole = test_alloc(max_message);
	MutableBytes room = test_alloc(max_message);

	for (u32 specimen = 0; specimen < specimens; specimen++) {
		TEST_NOTE("specimen", specimen);
		fill_specimen(m, specimen);
		const u32 header = write_with_trailer(m, whole);
		const u32 least = m.proc == 4 ? header : v1::min_header_length;
		for (u32 n = 0; n <= header + trailer; n++) {
			TEST_NOTE("length", n);
			ExactCopy message(whole.first(n));
			const Error error = check(message.bytes(), scratch, room);
			EXPECT_EQ(error, n < least  ? Error::message_size :
					 n < header ? Error::protocol :
						      Error::none);
		}
	}
}

/* The message may begin at any address. */
RPCORDMA_TEST(xdr_v1_sweep, alignments)
{
	auto &m = test_zeroed<Model>();
	auto &scratch = test_zeroed<Model>();

	for (u32 specimen = 0; specimen < specimens; specimen++) {
		for (u32 shift = 1; shift < 8; shift++) {
			TEST_NOTE("specimen", specimen);
			TEST_NOTE("shift", shift);
			MutableBytes room = test_alloc(max_message);
			fill_specimen(m, specimen);
			const u32 length = write(m, room);
			MutableBytes shifted = test_alloc(shift + length);
			__builtin_memcpy(shifted.data() + shift, room.data(), length);
			const Bytes message = shifted.from(shift);
			ASSERT_EQ(read(message, scratch), Error::none);
			auto decoded = xdr_reference::decode(message);
			ASSERT_OK(decoded);
			expect_same(decoded.value(), scratch);
			auto encoded = encode(decoded.value(), room.from(shift));
			ASSERT_OK(encoded);
			EXPECT_BYTES(Bytes(room.from(shift).first(length)), message);
		}
	}
}

/* Every word replaced by every bit flip of itself and by every number that may mean something. */
RPCORDMA_TEST(xdr_v1_sweep, single_word_mutations)
{
	auto &m = test_zeroed<Model>();
	auto &scratch = test_zeroed<Model>();
	auto &tally = test_zeroed<Tally>();
	MutableBytes whole = test_alloc(max_message);
	MutableBytes room = test_alloc(max_message);

	for (u32 specimen = 0; specimen < specimens; specimen++) {
		TEST_NOTE("specimen", specimen);
		fill_specimen(m, specimen);
		const u32 header = write_with_trailer(m, whole);
		/* With and without a payload behind it. */
		for (u32 size : {header, header + trailer}) {
			TEST_NOTE("size", size);
			const ExactCopy copy(whole.first(size));
			const MutableBytes message = copy.bytes();
			for (u32 word = 0; word < size / 4; word++) {
				const u32 original = word_at(message, word);
				u32 value;
				TEST_NOTE("word", word);
				for (u32 i = 0; replacement(i, original, size, value); i++) {
					TEST_NOTE("value", value);
					set_word(message, word, value);
					tally.count(check(message, scratch, room));
				}
				set_word(message, word, original);
			}
		}
	}
	EXPECT_GT(tally.accepted, 10000);
	EXPECT_GT(tally.bad, 10000);
	EXPECT_GT(tally.other_version, 1000);
	EXPECT_GT(tally.discarded, 100);
	EXPECT_GT(tally.padded, 20);
	EXPECT_GT(tally.too_short, 1);
}

/* Two words at once, where the lists' own words are: what one of them claims, the other may allow. */
RPCORDMA_TEST(xdr_v1_sweep, double_word_mutations)
{
	constexpr u32 values[] = {0, 1, 2, 3, 4, 0x10000001, 0x80000000, 0xffffffff};
	auto &m = test_zeroed<Model>();
	auto &scratch = test_zeroed<Model>();
	auto &tally = test_zeroed<Tally>();
	MutableBytes whole = test_alloc(max_message);
	MutableBytes room = test_alloc(max_message);

	for (u32 specimen : {0u, 5u, 8u, 11u, 15u, 17u}) {
		TEST_NOTE("specimen", specimen);
		fill_specimen(m, specimen);
		const u32 size = write_with_trailer(m, whole) + trailer;
		const ExactCopy copy(whole.first(size));
		const MutableBytes message = copy.bytes();
		for (u32 first = 3; first < size / 4; first++) {
			const u32 first_original = word_at(message, first);
			for (u32 second = first + 1; second < size / 4; second++) {
				const u32 second_original = word_at(message, second);
				for (u32 i = 0; i < 64; i++) {
					TEST_NOTE("first", first);
					TEST_NOTE("second", second);
					TEST_NOTE("values", i);
					set_word(message, first, values[i / 8]);
					set_word(message, second, values[i % 8]);
					tally.count(check(message, scratch, room));
				}
				set_word(message, second, second_original);
			}
			set_word(message, first, first_original);
		}
	}
	EXPECT_GT(tally.accepted, 10000);
	EXPECT_GT(tally.bad, 10000);
}

/* Every room that is too small: ENOSPC, and no byte outside; one that is just large enough will do. */
RPCORDMA_TEST(xdr_v1_sweep, rooms)
{
	auto &m = test_zeroed<Model>();
	MutableBytes message = test_alloc(max_message);

	for (u32 specimen = 0; specimen < specimens; specimen++) {
		TEST_NOTE("specimen", specimen);
		fill_specimen(m, specimen);
		const u32 length = write(m, message);
		for (u32 n = 0; n <= length + 5; n++) {
			TEST_NOTE("room", n);
			ExactCopy room(message.first(n));
			__builtin_memset(room.bytes().data(), 0xa5, room.bytes().size());
			auto encoded = encode(m, room.bytes());
			if (n < length) {
				EXPECT_ERROR(encoded, Error::no_space);
				continue;
			}
			ASSERT_OK(encoded);
			EXPECT_EQ(encoded.value(), length);
			EXPECT_BYTES(Bytes(room.bytes().first(length)),
				     Bytes(message.first(length)));
			for (u8 byte : room.bytes().from(length))
				EXPECT_EQ(byte, 0xa5);
		}
	}
}

RPCORDMA_SUITE(xdr_v1_sweep, round_trips, prefixes, alignments, single_word_mutations,
	       double_word_mutations, rooms);

} // namespace rpcordma
