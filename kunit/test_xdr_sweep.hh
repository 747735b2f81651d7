// SPDX-License-Identifier: GPL-2.0-only
/*
 * Families of headers for the sweeps over a codec, and the sweeps themselves, which all versions share: every prefix,
 * every alignment, every single-word mutation, pairs of words, every size of the encoder's room. A version gives
 *
 *	struct Codec {
 *		using Model = ...;
 *		enum : u32 { specimens, least };             // how many there are; bytes of a header without chunks
 *		static void fill_specimen(Model &, u32 i);
 *		static u32 write(const Model &, MutableBytes);          // returns the header's length
 *		static void write_trailer(const Model &, MutableBytes); // what follows it: trailer bytes
 *		static Error check(Bytes, Model &scratch, MutableBytes room);
 *		static bool encodes(const Model &);          // encode() makes it
 *		static Result<u32> encode(const Model &, MutableBytes);
 *	};
 */
#pragma once

#include "kunit/test_xdr_reference.hh"

namespace rpcordma::xdr_reference {

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

inline Position position(Positions kind, u32 i, u32 count)
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
inline u32 some_length(u32 seed)
{
	constexpr u32 lengths[] = {0xffffffff, 4096, 0, 1, 0x80000000, 1048576, 3};

	return lengths[seed % (sizeof(lengths) / sizeof(lengths[0]))];
}

/** Make @m a header with these lists. @writes: the chunks' segment counts, one per hexadecimal digit + 1. */
inline void fill(Model &m, u32 proc, Positions kind, u32 reads, u32 writes, bool reply,
		 u32 reply_segments)
{
	u32 seed = reads + writes + reply_segments;

	__builtin_memset(static_cast<void *>(&m), 0, sizeof(m));
	m.xid = 0xc0ffee00 + seed;
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

/** The headers that are cut and mutated: each kind of list, alone and together. */
constexpr u32 list_specimens = 18;

inline void fill_list_specimen(Model &m, u32 i)
{
	ASSERT_LT(i, list_specimens);
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
	}
}

/** What the sweeps met, so that one which meets nothing fails. */
struct Tally {
	u32 accepted, too_short, bad, other_version, discarded, no_proc, no_option;

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
			no_proc++;
			break;
		case Error::no_option:
			no_option++;
			break;
		default: /* beyond the reference: a test of the tests */
			EXPECT_EQ(outcome, Error::none);
			break;
		}
	}
};

/** Every value that a word of a @size byte message is replaced by, whose header has at least @least; false behind the last. */
inline bool replacement(u32 i, u32 original, u32 size, u32 least, u32 &value)
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
		(size - least) / 16,
		(size - least) / 24,
		size - least,
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

/** Bytes behind the header, which belong to the payload, if anything. */
constexpr u32 trailer = 12;

/** @m on the wire with a trailer. Returns the header's length. */
template <typename Codec> u32 write_with_trailer(const typename Codec::Model &m, MutableBytes room)
{
	const u32 length = Codec::write(m, room);

	Codec::write_trailer(m, room.from(length));
	return length;
}

/**
 * Every prefix of every specimen, as the reference has it; @expect(m, header, n, error) has more to say of the first n
 * bytes of one whose header has so many.
 */
template <typename Codec, typename Expect> void sweep_prefixes(Expect &&expect)
{
	auto &m = test_zeroed<typename Codec::Model>();
	auto &scratch = test_zeroed<typename Codec::Model>();
	MutableBytes whole = test_alloc(max_message);
	MutableBytes room = test_alloc(max_message);

	for (u32 specimen = 0; specimen < Codec::specimens; specimen++) {
		TEST_NOTE("specimen", specimen);
		Codec::fill_specimen(m, specimen);
		const u32 header = write_with_trailer<Codec>(m, whole);
		for (u32 n = 0; n <= header + trailer; n++) {
			TEST_NOTE("length", n);
			ExactCopy message(whole.first(n));
			expect(m, header, n, Codec::check(message.bytes(), scratch, room));
		}
	}
}

/** The message may begin at any address. */
template <typename Codec> void sweep_alignments()
{
	auto &m = test_zeroed<typename Codec::Model>();
	auto &scratch = test_zeroed<typename Codec::Model>();
	MutableBytes whole = test_alloc(max_message);
	MutableBytes room = test_alloc(max_message + 8);

	for (u32 specimen = 0; specimen < Codec::specimens; specimen++) {
		Codec::fill_specimen(m, specimen);
		const u32 length = write_with_trailer<Codec>(m, whole) + trailer;
		for (u32 shift = 1; shift < 8; shift++) {
			TEST_NOTE("specimen", specimen);
			TEST_NOTE("shift", shift);
			MutableBytes shifted = test_alloc(shift + length);
			__builtin_memcpy(shifted.data() + shift, whole.data(), length);
			EXPECT_EQ(Codec::check(shifted.from(shift), scratch, room.from(shift)),
				  Error::none);
		}
	}
}

/** Every word replaced by every bit flip of itself and by every number that may mean something. */
template <typename Codec> void sweep_words(Tally &tally)
{
	auto &m = test_zeroed<typename Codec::Model>();
	auto &scratch = test_zeroed<typename Codec::Model>();
	MutableBytes whole = test_alloc(max_message);
	MutableBytes room = test_alloc(max_message);

	for (u32 specimen = 0; specimen < Codec::specimens; specimen++) {
		TEST_NOTE("specimen", specimen);
		Codec::fill_specimen(m, specimen);
		const u32 header = write_with_trailer<Codec>(m, whole);
		/* With and without a payload behind it. */
		for (u32 size : {header, header + trailer}) {
			TEST_NOTE("size", size);
			const ExactCopy copy(whole.first(size));
			const MutableBytes message = copy.bytes();
			for (u32 word = 0; word < size / 4; word++) {
				const u32 original = word_at(message, word);
				u32 value;
				TEST_NOTE("word", word);
				for (u32 i = 0; replacement(i, original, size, Codec::least, value);
				     i++) {
					TEST_NOTE("value", value);
					set_word(message, word, value);
					tally.count(Codec::check(message, scratch, room));
				}
				set_word(message, word, original);
			}
		}
	}
}

/** Two words at once, from word @begin on: what one of them claims, the other may allow. */
template <typename Codec, usize N>
void sweep_pairs(const u32 (&specimens)[N], u32 begin, Tally &tally)
{
	const u32 values[] = {0, 1, 2, 3, 4, 0x10000001, 0x80000000, 0xffffffff};
	auto &m = test_zeroed<typename Codec::Model>();
	auto &scratch = test_zeroed<typename Codec::Model>();
	MutableBytes whole = test_alloc(max_message);
	MutableBytes room = test_alloc(max_message);

	for (u32 specimen : specimens) {
		TEST_NOTE("specimen", specimen);
		Codec::fill_specimen(m, specimen);
		const u32 size = write_with_trailer<Codec>(m, whole) + trailer;
		const ExactCopy copy(whole.first(size));
		const MutableBytes message = copy.bytes();
		for (u32 first = begin; first < size / 4; first++) {
			const u32 first_original = word_at(message, first);
			for (u32 second = first + 1; second < size / 4; second++) {
				const u32 second_original = word_at(message, second);
				for (u32 i = 0; i < 64; i++) {
					TEST_NOTE("first", first);
					TEST_NOTE("second", second);
					TEST_NOTE("values", i);
					set_word(message, first, values[i / 8]);
					set_word(message, second, values[i % 8]);
					tally.count(Codec::check(message, scratch, room));
				}
				set_word(message, second, second_original);
			}
			set_word(message, first, first_original);
		}
	}
}

/** Every room that is too small: ENOSPC, and no byte outside; one that is just large enough will do. */
template <typename Codec> void sweep_rooms()
{
	auto &m = test_zeroed<typename Codec::Model>();
	MutableBytes message = test_alloc(max_message);

	for (u32 specimen = 0; specimen < Codec::specimens; specimen++) {
		TEST_NOTE("specimen", specimen);
		Codec::fill_specimen(m, specimen);
		if (!Codec::encodes(m))
			continue;
		const u32 length = Codec::write(m, message);
		for (u32 n = 0; n <= length + 5; n++) {
			TEST_NOTE("room", n);
			ExactCopy room(message.first(n));
			__builtin_memset(room.bytes().data(), 0xa5, room.bytes().size());
			auto encoded = Codec::encode(m, room.bytes());
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

} // namespace rpcordma::xdr_reference
