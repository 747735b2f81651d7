// SPDX-License-Identifier: GPL-2.0-only
/*
 * Property sets: what each property's data may be, what a set is read as, and what is written. Whole families are held
 * against a second decoder, written from the XDR and with no thought of speed.
 */
#include "kunit/test_xdr_reference.hh"
#include "kunit/testing.hh"
#include "xdr/properties.hh"

namespace rpcordma {
namespace {

using namespace properties;
using xdr_reference::set_word;
using xdr_reference::wire;
using xdr_reference::word_at;
using xdr_reference::WordSource;

/** The six properties as they have been read, and no more. */
struct Said {
	u32 word[7]; /* by id; of the structure, total */
	u32 segments, segment_length, present;
};

/** Words of a structure's data at @at: none, or what they say. False: they are no structure. */
bool read_structure(Bytes data, Said &said)
{
	u64 sum = 0;
	u32 segments = 0, length = 0;
	bool sound = true, uniform = true;

	said.word[4] = said.segments = said.segment_length = 0;
	if (data.empty())
		return true;
	if (data.size() < 8 || data.size() % 4 || (data.size() - 8) / 16 != word_at(data, 1) ||
	    data.size() % 16 != 8)
		return false;
	const u32 groups = word_at(data, 1);
	for (u32 g = 0; g < groups && sound; g++) {
		const u32 count = word_at(data, 2 + 4 * g), each = word_at(data, 3 + 4 * g);
		const bool ddp = word_at(data, 5 + 4 * g) % 2;

		sound = count != 0 && each != 0 && count <= 1 << 20 && each <= 1 << 20;
		sum += u64(count) * each;
		sound = sound && sum <= 1 << 20;
		if (segments && (!ddp || each != length))
			uniform = false;
		if (ddp) {
			segments += count;
			length = each;
		}
	}
	if (!sound || groups > 64 || sum != word_at(data, 0))
		return true;
	said.word[4] = u32(sum);
	said.segments = uniform ? segments : 0;
	said.segment_length = uniform && segments ? length : 0;
	return true;
}

/** A set, by the texts. False: it is cut short, or a known property does not decode. */
bool read_set(WordSource &in, Said &said)
{
	/* The words of a property again, as bytes. */
	MutableBytes data = test_alloc(64 * 16 + 64);
	static const u32 defaults[7] = {0, 4096, 1, 0, 0, 1, 1};

	__builtin_memset(&said, 0, sizeof(said));
	__builtin_memcpy(said.word, defaults, sizeof(defaults));
	for (u32 left = in.word(); left != 0; left--) {
		const u32 id = in.word(), length = in.word();
		for (u64 at = 0; at < length && !in.ran_out(); at += 4) {
			const u32 word = in.word();
			if (at + 4 <= data.size())
				set_word(data, u32(at / 4), word);
		}
		if (in.ran_out() || length > data.size())
			return false;
		if (id == 0 || id > 6)
			continue;
		if (id == 4) {
			if (!read_structure(Bytes(data.first(length)), said))
				return false;
		} else {
			if (length != 0 && length != 4)
				return false;
			u32 value = length ? word_at(data, 0) : defaults[id];
			if (id == 2 && value > 2)
				return false;
			if (id == 1 && value < 4096)
				value = 4096;
			if (id >= 5 && value == 0)
				value = 1;
			said.word[id] = value;
		}
		said.present |= 1u << (id - 1);
	}
	return !in.ran_out();
}

void expect_said(const Properties &said, const Said &by_reference)
{
	EXPECT_EQ(said.receive_size, by_reference.word[1]);
	EXPECT_EQ(static_cast<u32>(said.backward), by_reference.word[2]);
	EXPECT_EQ(said.extensions, by_reference.word[3]);
	EXPECT_EQ(said.structure.total, by_reference.word[4]);
	EXPECT_EQ(said.structure.segments, by_reference.segments);
	EXPECT_EQ(said.structure.segment_length, by_reference.segment_length);
	EXPECT_EQ(said.call_limit, by_reference.word[5]);
	EXPECT_EQ(said.reply_limit, by_reference.word[6]);
	EXPECT_EQ(said.present, by_reference.present);
}

/** Decode the set in @bytes, and hold it against the reference. Returns the outcome. */
Error check(Bytes bytes, Properties &said)
{
	auto &by_reference = test_zeroed<Said>();
	WordSource in(bytes, 0);
	const bool good = read_set(in, by_reference);
	const Error error = decode_updprop(bytes, said);

	EXPECT_EQ(error, good ? Error::none : Error::protocol);
	if (good)
		expect_said(said, by_reference);
	return error;
}

template <usize N> Error check_words(const u32 (&words)[N], Properties &said)
{
	return check(wire(words), said);
}

/** All six, as an end with four pages behind its head has them. */
Properties all_six()
{
	Properties said;

	said.receive_size = 20480;
	said.extensions = takes_xmtreq | takes_xmtresp | takes_xmtcont;
	said.structure = {20480, 4, 4096};
	said.call_limit = 4;
	said.reply_limit = 3;
	said.present = all;
	return said;
}

const u32 all_six_words[] = {6, 1,    4, 20480, 2, 4,	 1,    3, 4, 7, 4, 40, 20480, 2,
			     1, 4096, 8, 0,	4, 4096, 4096, 1, 5, 4, 4, 6,  4,     3};

} // namespace

RPCORDMA_TEST(xdr_properties, all_six)
{
	MutableBytes room = test_alloc(most_set_length);
	xdr::Writer writer(room);
	const Properties before = all_six();
	Properties said;

	encode_set(writer, before);
	EXPECT_EQ(writer.error(), Error::none);
	EXPECT_EQ(writer.length(), most_set_length);
	EXPECT_BYTES(Bytes(room), Bytes(wire(all_six_words)));
	ASSERT_EQ(check(room, said), Error::none);
	EXPECT_TRUE(said.structure == before.structure);
	EXPECT_EQ(said.structure.head(), 4096);
	EXPECT_EQ(said.present, all);
	EXPECT_EQ(said.receive_bytes(), 20480);
	EXPECT_EQ(said.ddp_segments(), 4);
	EXPECT_TRUE(said.has(Id::reply_limit));
}

/* Nothing said is what the drafts give as defaults; empty data says the same, aloud. */
RPCORDMA_TEST(xdr_properties, defaults)
{
	static const u32 nothing[] = {0};
	static const u32 empty[] = {6, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0};
	Properties said;

	ASSERT_EQ(check_words(nothing, said), Error::none);
	EXPECT_EQ(said.present, 0);
	EXPECT_EQ(said.receive_size, 4096);
	EXPECT_EQ(said.backward, Backward::inline_only);
	EXPECT_EQ(said.extensions, 0);
	EXPECT_EQ(said.call_limit, 1);
	EXPECT_EQ(said.reply_limit, 1);
	EXPECT_EQ(said.receive_bytes(), 4096);
	EXPECT_EQ(said.ddp_segments(), 0);
	ASSERT_EQ(check_words(empty, said), Error::none);
	EXPECT_EQ(said.present, all);
	EXPECT_EQ(said.receive_size, 4096);
}

/* A size that nobody may have, limits that would allow nothing, one that is told twice, and unknown ones. */
RPCORDMA_TEST(xdr_properties, corrected)
{
	static const u32 low[] = {3, 1, 4, 4095, 5, 4, 0, 6, 4, 0};
	static const u32 high[] = {1, 1, 4, 0xffffffff};
	static const u32 twice[] = {3, 5, 4, 7, 1, 4, 8192, 5, 4, 9};
	static const u32 unknown[] = {4, 0, 0, 7, 5, 1, 0x02000000, 0x80000001, 4, 3, 1, 4, 8192};
	Properties said;

	ASSERT_EQ(check_words(low, said), Error::none);
	EXPECT_EQ(said.receive_size, 4096);
	EXPECT_EQ(said.call_limit, 1);
	EXPECT_EQ(said.reply_limit, 1);
	ASSERT_EQ(check_words(high, said), Error::none);
	EXPECT_EQ(said.receive_size, 0xffffffff);
	ASSERT_EQ(check_words(twice, said), Error::none);
	EXPECT_EQ(said.call_limit, 9);
	ASSERT_EQ(check_words(unknown, said), Error::none);
	EXPECT_EQ(said.present, bit(Id::receive_size));
	EXPECT_EQ(said.receive_size, 8192);
}

/* Data of every length from 0 to 60 bytes, for each id and an unknown one. */
RPCORDMA_TEST(xdr_properties, lengths)
{
	for (u32 id = 1; id <= 7; id++) {
		for (u32 length = 0; length <= 60; length++) {
			TEST_NOTE("id", id);
			TEST_NOTE("length", length);
			MutableBytes bytes = test_alloc(12 + length + xdr_pad(length));
			Properties said;

			__builtin_memset(bytes.data(), 0, bytes.size());
			set_word(bytes, 0, 1);
			set_word(bytes, 1, id);
			set_word(bytes, 2, length);
			if (id == 4 && length >= 8)
				set_word(bytes, 4, (length - 8) / 16);
			const Error error = check(bytes, said);
			const bool good = length == 0 || id == 7 ||
					  (id == 4 ? length >= 8 && length % 16 == 8 : length == 4);
			EXPECT_EQ(error, good ? Error::none : Error::protocol);
		}
	}
}

RPCORDMA_TEST(xdr_properties, backward)
{
	for (u32 value : {0u, 1u, 2u, 3u, 0xffffffffu}) {
		const u32 words[] = {1, 2, 4, value};
		Properties said;

		EXPECT_EQ(check_words(words, said), value > 2 ? Error::protocol : Error::none);
		if (value <= 2)
			EXPECT_EQ(static_cast<u32>(said.backward), value);
	}
}

/* Structures that contradict themselves are none; those whose segments cannot be used have none. */
RPCORDMA_TEST(xdr_properties, structures)
{
	static const struct {
		u32 total, groups;
		u32 group[3][3]; /* count, length, flags */
		Structure found;
	} cases[] = {
		{4096, 1, {{1, 4096, 0}}, {4096, 0, 0}},
		{20480, 2, {{1, 4096, 0}, {4, 4096, 1}}, {20480, 4, 4096}},
		{12288, 3, {{1, 4096, 0}, {1, 4096, 1}, {1, 4096, 1}}, {12288, 2, 4096}},
		{9216, 2, {{2, 512, 0}, {2, 4096, 0xffffffff}}, {9216, 2, 4096}},
		{8192, 1, {{2, 4096, 1}}, {8192, 2, 4096}},
		/* Other flags mean nothing here. */
		{4096, 1, {{1, 4096, 2}}, {4096, 0, 0}},
		/* DDP segments that are not last, or of two lengths. */
		{8192, 2, {{1, 4096, 1}, {1, 4096, 0}}, {8192, 0, 0}},
		{8192, 2, {{1, 4096, 1}, {2, 2048, 1}}, {8192, 0, 0}},
		/* The sum is another. */
		{4097, 1, {{1, 4096, 0}}, {}},
		{0, 0, {}, {}},
		{4096, 0, {}, {}},
		/* Nothing in a group. */
		{4096, 2, {{1, 4096, 0}, {0, 4096, 1}}, {}},
		{4096, 2, {{1, 4096, 0}, {4096, 0, 1}}, {}},
		/* The most, and more. */
		{1 << 20, 1, {{1, 1 << 20, 0}}, {1 << 20, 0, 0}},
		{1 << 20, 2, {{1, 1 << 19, 0}, {1 << 19, 1, 1}}, {1 << 20, 1 << 19, 1}},
		{(1 << 20) + 1, 1, {{1, (1 << 20) + 1, 0}}, {}},
		{(1 << 20) + 1, 2, {{1, 1 << 20, 0}, {1, 1, 0}}, {}},
		/* Sums that would be right in 32 bits, or in 64. */
		{0, 1, {{0x10000, 0x10000, 0}}, {}},
		{4096, 2, {{1, 4096, 0}, {0x80000000, 2, 0}}, {}},
		{1, 3, {{0xffffffff, 0xffffffff, 0}, {0xffffffff, 2, 0}, {1, 1, 0}}, {}},
	};

	for (const auto &c : cases) {
		TEST_NOTE("case", &c - cases);
		MutableBytes bytes = test_alloc(20 + c.groups * 16);
		Properties said;

		set_word(bytes, 0, 1);
		set_word(bytes, 1, 4);
		set_word(bytes, 2, 8 + c.groups * 16);
		set_word(bytes, 3, c.total);
		set_word(bytes, 4, c.groups);
		for (u32 g = 0; g < c.groups; g++) {
			set_word(bytes, 5 + g * 4, c.group[g][0]);
			set_word(bytes, 6 + g * 4, c.group[g][1]);
			set_word(bytes, 7 + g * 4, 3);
			set_word(bytes, 8 + g * 4, c.group[g][2]);
		}
		ASSERT_EQ(check(bytes, said), Error::none);
		EXPECT_TRUE(said.structure == c.found);
		EXPECT_TRUE(said.has(Id::structure));
	}
}

/* 64 groups are taken, 65 are none. */
RPCORDMA_TEST(xdr_properties, groups)
{
	for (u32 groups : {64u, 65u}) {
		MutableBytes bytes = test_alloc(20 + groups * 16);
		Properties said;

		set_word(bytes, 0, 1);
		set_word(bytes, 1, 4);
		set_word(bytes, 2, 8 + groups * 16);
		set_word(bytes, 3, groups * 100);
		set_word(bytes, 4, groups);
		for (u32 g = 0; g < groups; g++) {
			set_word(bytes, 5 + g * 4, 1);
			set_word(bytes, 6 + g * 4, 100);
			set_word(bytes, 7 + g * 4, 4);
			set_word(bytes, 8 + g * 4, 0);
		}
		ASSERT_EQ(check(bytes, said), Error::none);
		EXPECT_EQ(said.structure.total, groups == 64 ? 6400 : 0);
	}
}

/* A structure and a receive size that differ: the smaller, and no segments. */
RPCORDMA_TEST(xdr_properties, receive_bytes)
{
	Properties said = all_six();

	said.receive_size = 8192;
	EXPECT_EQ(said.receive_bytes(), 8192);
	EXPECT_EQ(said.ddp_segments(), 0);
	said.receive_size = 40960;
	EXPECT_EQ(said.receive_bytes(), 20480);
	EXPECT_EQ(said.ddp_segments(), 0);
	said.structure = {1024, 0, 0};
	EXPECT_EQ(said.receive_bytes(), 4096);
}

RPCORDMA_TEST(xdr_properties, updates)
{
	const Properties update = all_six();

	for (u32 present = 0; present <= all; present++) {
		for (u32 fixed : {0u, 0x36u, all}) {
			TEST_NOTE("present", present);
			TEST_NOTE("fixed", fixed);
			const u32 changed = present & ~fixed;
			Properties now, some = update;

			now.backward = Backward::none;
			some.present = present;
			now.apply(some, fixed);
			EXPECT_EQ(now.receive_size, changed & 1 ? 20480 : 4096);
			EXPECT_EQ(now.backward,
				  changed & 2 ? Backward::inline_only : Backward::none);
			EXPECT_EQ(now.extensions, changed & 4 ? 7 : 0);
			EXPECT_EQ(now.structure.total, changed & 8 ? 20480 : 0);
			EXPECT_EQ(now.call_limit, changed & 16 ? 4 : 1);
			EXPECT_EQ(now.reply_limit, changed & 32 ? 3 : 1);
			EXPECT_EQ(now.present, changed);
		}
	}
}

/* Every set of properties is written in order, and read as it was; and no byte goes beyond the room. */
RPCORDMA_TEST(xdr_properties, round_trips)
{
	for (u32 present = 0; present <= all; present++) {
		TEST_NOTE("present", present);
		MutableBytes whole = test_alloc(most_set_length);
		xdr::Writer writer(whole);
		Properties before = all_six(), said;

		before.present = present;
		if (present % 3 == 0)
			before.structure = {};
		else if (present % 3 == 1)
			before.structure = {4096, 0, 0};
		if (present == 0x2a)
			before.structure = {8192, 2, 4096};
		encode_set(writer, before);
		ASSERT_EQ(writer.error(), Error::none);
		const u32 length = writer.length();
		ASSERT_EQ(check(whole.first(length), said), Error::none);
		EXPECT_EQ(said.present, present);
		if (present & bit(Id::structure))
			EXPECT_TRUE(said.structure == before.structure);
		for (u32 n = 0; n < length; n++) {
			TEST_NOTE("room", n);
			ExactCopy room(whole.first(n));
			xdr::Writer small(room.bytes());
			Properties cut;

			EXPECT_EQ(check(room.bytes(), cut), Error::protocol);
			encode_set(small, before);
			EXPECT_EQ(small.error(), Error::no_space);
		}
	}
}

/* A structure as it is written: none, a head, pages, both; word by word. */
RPCORDMA_TEST(xdr_properties, written_structures)
{
	static const struct {
		Structure structure;
		u32 words[13];
		u32 count;
	} cases[] = {
		{{0, 0, 0}, {1, 4, 0}, 3},
		{{1, 0, 0}, {1, 4, 24, 1, 1, 1, 1, 8, 0}, 9},
		{{4096, 0, 0}, {1, 4, 24, 4096, 1, 1, 4096, 8, 0}, 9},
		{{2048, 2, 1024}, {1, 4, 24, 2048, 1, 2, 1024, 1024, 1}, 9},
		{{2049, 2, 1024}, {1, 4, 40, 2049, 2, 1, 1, 8, 0, 2, 1024, 1024, 1}, 13},
	};

	for (const auto &c : cases) {
		MutableBytes room = test_alloc(c.count * 4);
		xdr::Writer writer(room);
		Properties said;

		TEST_NOTE("case", u32(&c - cases));
		said.structure = c.structure;
		said.present = bit(Id::structure);
		encode_set(writer, said);
		ASSERT_EQ(writer.error(), Error::none);
		EXPECT_EQ(writer.length(), c.count * 4);
		EXPECT_BYTES(Bytes(room), Bytes(wire(c.words)).first(c.count * 4));
	}
}

/* Every word of a whole set replaced by what may mean something. */
RPCORDMA_TEST(xdr_properties, mutations)
{
	static const u32 constants[] = {0,	    1,		2,	    3,		4,
					5,	    6,		7,	    8,		12,
					16,	    24,		40,	    56,		4096,
					4097,	    20480,	1 << 20,    0x10000000, 0x7fffffff,
					0x80000000, 0xfffffff8, 0xfffffffc, 0xfffffffd, 0xffffffff};
	MutableBytes bytes = wire(all_six_words);
	u32 good = 0, bad = 0;

	for (u32 word = 0; word < bytes.size() / 4; word++) {
		const u32 original = word_at(bytes, word);

		for (u32 i = 0; i < 32 + sizeof(constants) / sizeof(constants[0]); i++) {
			const u32 value = i < 32 ? original ^ u32(1) << i : constants[i - 32];
			Properties said;

			TEST_NOTE("word", word);
			TEST_NOTE("value", value);
			set_word(bytes, word, value);
			(check(bytes, said) == Error::none ? good : bad)++;
		}
		set_word(bytes, word, original);
	}
	EXPECT_GT(good, 500);
	EXPECT_GT(bad, 500);
}

/* The subset counts places in the set, not ids. */
RPCORDMA_TEST(xdr_properties, subsets)
{
	static const u32 ours[] = {2, 6, 4, 3, 1, 4, 8192, 1, 1};
	static const u32 among_others[] = {4, 9, 0, 1, 0, 10, 0, 4, 0, 1, 0xa};
	static const u32 twice[] = {2, 1, 0, 1, 0, 1, 1};
	static const u32 none[] = {2, 1, 0, 4, 0, 0};
	/* Ids around those that are known, each with its bit. */
	static const u32 edges[] = {4, 0, 0, 7, 0, 6, 0, 33, 0, 1, 0xf};
	static const u32 no_subset[] = {2, 1, 0, 4, 0};
	static const u32 cut_subset[] = {2, 1, 0, 4, 0, 2, 1};
	static const u32 bad_set[] = {1, 2, 4, 9, 0};
	Properties said;
	u32 nochange;

	ASSERT_EQ(decode_connprop(wire(ours), said, nochange), Error::none);
	EXPECT_EQ(nochange, bit(Id::reply_limit));
	EXPECT_EQ(subset_of(said, bit(Id::receive_size)), 1);
	EXPECT_EQ(subset_of(said, bit(Id::reply_limit)), 2);
	EXPECT_EQ(subset_of(said, bit(Id::structure)), 0);
	ASSERT_EQ(decode_connprop(wire(among_others), said, nochange), Error::none);
	EXPECT_EQ(nochange, bit(Id::receive_size) | bit(Id::structure));
	ASSERT_EQ(decode_connprop(wire(twice), said, nochange), Error::none);
	EXPECT_EQ(nochange, bit(Id::receive_size));
	ASSERT_EQ(decode_connprop(wire(edges), said, nochange), Error::none);
	EXPECT_EQ(nochange, bit(Id::reply_limit));
	ASSERT_EQ(decode_connprop(wire(none), said, nochange), Error::none);
	EXPECT_EQ(nochange, 0);
	EXPECT_EQ(decode_connprop(wire(no_subset), said, nochange), Error::protocol);
	EXPECT_EQ(decode_connprop(wire(cut_subset), said, nochange), Error::protocol);
	EXPECT_EQ(decode_connprop(wire(bad_set), said, nochange), Error::protocol);
	EXPECT_EQ(nochange, 0);
}

/* A thousand properties, of which the last is known, and whose bit is in the 32nd word. */
RPCORDMA_TEST(xdr_properties, thousand)
{
	constexpr u32 count = 1000, words = (count + 31) / 32;
	MutableBytes bytes = test_alloc((1 + 2 * count + 1 + words) * 4);
	Properties said;
	u32 nochange;

	__builtin_memset(bytes.data(), 0, bytes.size());
	set_word(bytes, 0, count);
	for (u32 i = 0; i < count; i++)
		set_word(bytes, 1 + 2 * i, i == count - 1 ? 4 : 100 + i);
	set_word(bytes, 1 + 2 * count, words);
	set_word(bytes, 1 + 2 * count + words, u32(1) << ((count - 1) % 32));
	ASSERT_EQ(decode_connprop(bytes, said, nochange), Error::none);
	EXPECT_EQ(said.present, bit(Id::structure));
	EXPECT_EQ(nochange, bit(Id::structure));
}

RPCORDMA_TEST(xdr_properties, responses)
{
	static const u32 words[] = {1, 1, 2, 0x80000000, 1, 1, 1, 4, 8192};
	static const u32 bad[] = {1, 1, 2, 0x80000000, 1, 1, 2, 4, 8192};
	MutableBytes bytes = wire(words);
	Response response;

	ASSERT_EQ(decode_resprop(bytes, response), Error::none);
	EXPECT_TRUE(response.done.has(0));
	EXPECT_FALSE(response.done.has(1));
	EXPECT_FALSE(response.done.has(32));
	EXPECT_TRUE(response.rejected.has(31));
	EXPECT_TRUE(response.rejected.has(32));
	EXPECT_FALSE(response.rejected.has(33));
	EXPECT_FALSE(response.rejected.has(0xffffffff));
	EXPECT_EQ(response.other.receive_size, 8192);
	for (u32 n = 0; n < bytes.size(); n++) {
		ExactCopy cut(bytes.first(n));
		EXPECT_EQ(decode_resprop(cut.bytes(), response), Error::protocol);
	}
	EXPECT_EQ(decode_resprop(wire(bad), response), Error::protocol);
}

RPCORDMA_SUITE(xdr_properties, all_six, defaults, corrected, lengths, backward, structures, groups,
	       written_structures, receive_bytes, updates, round_trips, mutations, subsets,
	       thousand, responses);

} // namespace rpcordma
