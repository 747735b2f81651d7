// SPDX-License-Identifier: GPL-2.0-only
/*
 * chunk/placement: where items of a message are that came in DDP segments, and how one goes. Random messages are held
 * against a map of all bytes, on which every byte is the header's, the stream's, or of one item.
 */
#include "kunit/test_rdma_random.hh"
#include "kunit/test_xdr_reference.hh"
#include "kunit/testing.hh"
#include "module/chunk/placement.hh"

namespace rpcordma {
namespace {

using namespace chunk;
using properties::Structure;
using rtrext::Fault;
using rtrext::Verdict;
using xdr_reference::set_word;
using xdr_reference::wire;

constexpr Structure grown = {20480, 4, 4096};

/* The items of a response, whose words are those of optxrs_ddp. */
template <usize N> rtrext::Items items_of(const u32 (&words)[N])
{
	MutableBytes bytes = test_alloc((N + 2) * 4);
	rtrext::Response response;

	for (u32 i = 0; i < N; i++)
		set_word(bytes, i, words[i]);
	set_word(bytes, N, 1);
	set_word(bytes, N + 1, 28);
	EXPECT_EQ(rtrext::decode(bytes, response), Error::none);
	return response.items;
}

void expect_fault(const Verdict &verdict, Fault fault, u32 value, u32 most)
{
	EXPECT_EQ(verdict.how, Verdict::How::report);
	EXPECT_EQ(verdict.detail.fault, fault);
	EXPECT_EQ(verdict.detail.words[0], value);
	EXPECT_EQ(verdict.detail.words[1], 0);
	EXPECT_EQ(verdict.detail.words[2], most);
}

/* A random message, small enough to look at each byte. */
struct Small {
	static constexpr u32 most_items = 3, most_numbers = 5, most_transmissions = 3;
	Structure room;
	TransmissionLengths transmissions[most_transmissions];
	u32 count;
	struct {
		u32 length, offset, numbers;
		u32 number[most_numbers];
	} item[most_items];
	u32 items;

	explicit Small(Random &random)
	{
		room = {0, 1 + random.below(3), 4 + 4 * random.below(3)};
		room.total = 32 + room.segments * room.segment_length;
		count = 1 + random.below(most_transmissions);
		for (u32 t = 0; t < count; t++) {
			auto &one = transmissions[t];

			one.header_length = 12 + 4 * random.below(3);
			one.stream_length = 4 * random.below(random.one_in(3) ? 8 : 3);
			one.length = random.one_in(4) ? random.below(room.total + 1) : room.total;
			one.length = max(one.length, one.header_length + one.stream_length);
		}
		items = 1 + random.below(most_items);
		u32 next = 0;
		for (u32 i = 0; i < items; i++) {
			item[i].length = random.below(3 * room.segment_length);
			item[i].offset = random.one_in(3) ? random.below(room.segment_length + 2) :
							    0;
			item[i].numbers =
				min(most_numbers, div_round_up(item[i].length + item[i].offset,
							       room.segment_length) +
							  random.one_in(9));
			if (item[i].numbers != 0 && random.one_in(12))
				item[i].numbers--;
			for (u32 n = 0; n < item[i].numbers; n++)
				item[i].number[n] = random.one_in(9) ? random.below(11) : next++;
		}
	}
	/* As the wire has them. */
	rtrext::Items decoded() const
	{
		const u32 room_words = 3 + most_items * (5 + most_numbers);
		MutableBytes bytes = test_alloc(room_words * 4);
		rtrext::Response response;
		u32 at = 0, displacement = 24;

		set_word(bytes, at++, items);
		for (u32 i = 0; i < items; i++) {
			for (u32 word :
			     {displacement, item[i].length, 2u, item[i].offset, item[i].numbers})
				set_word(bytes, at++, word);
			for (u32 n = 0; n < item[i].numbers; n++)
				set_word(bytes, at++, item[i].number[n]);
			displacement += max(item[i].length + xdr_pad(item[i].length), 4u);
		}
		set_word(bytes, at++, count);
		set_word(bytes, at++, 28);
		EXPECT_EQ(rtrext::decode(bytes.first(at * 4), response), Error::none);
		return response.items;
	}
	/* By the map: each byte of each item is somewhere, and nobody else's. */
	bool good() const
	{
		u8 map[most_transmissions][128] = {};

		for (u32 t = 0; t < count; t++)
			for (u32 b = 0;
			     b < transmissions[t].header_length + transmissions[t].stream_length;
			     b++)
				map[t][b] = 1;
		for (u32 i = 0; i < items; i++) {
			for (u32 n = 0; n < item[i].numbers; n++)
				if (item[i].number[n] >= count * room.segments)
					return false;
			if (item[i].length != 0 && item[i].offset >= room.segment_length)
				return false;
			for (u32 b = 0; b < item[i].length; b++) {
				const u32 in_list = item[i].offset + b;
				const u32 n = in_list / room.segment_length;

				if (n >= item[i].numbers)
					return false;
				const u32 number = item[i].number[n], t = number / room.segments;
				const u32 at = 32 + number % room.segments * room.segment_length +
					       in_list % room.segment_length;
				if (at >= transmissions[t].length || map[t][at]++)
					return false;
			}
		}
		return true;
	}
};

} // namespace

/* A WRITE of 64 KiB in four transmissions, and what there is to say against one. */
RPCORDMA_TEST(chunk_placement, whole_segments)
{
	const u32 words[] = {1, 24, 65536, 2, 0, 16, 0,	 1,  2,	 3,  4,
			     5, 6,  7,	   8, 9, 10, 11, 12, 13, 14, 15};
	TransmissionLengths lengths[4] = {
		{132, 140, 20480}, {40, 0, 20480}, {40, 0, 20480}, {40, 0, 20480}};
	const auto items = items_of(words);

	EXPECT_TRUE(judge_placement(grown, lengths, items).good());
	EXPECT_TRUE(lies_in_pages(grown, lengths, items));
	/* Streams may be in all of them, if not for a reader of pages. */
	lengths[3].stream_length = 4056;
	EXPECT_TRUE(judge_placement(grown, lengths, items).good());
	EXPECT_FALSE(lies_in_pages(grown, lengths, items));
	lengths[3].stream_length = 4060;
	expect_fault(judge_placement(grown, lengths, items), Fault::stream, 4060, 4056);
	lengths[3].stream_length = 0;
	lengths[3].length = 20479;
	expect_fault(judge_placement(grown, lengths, items), Fault::segment, 15, 14);
	/* One transmission less. */
	expect_fault(judge_placement(grown, Span<const TransmissionLengths>(lengths, 3), items),
		     Fault::segment, 12, 11);
}

RPCORDMA_TEST(chunk_placement, faults)
{
	const TransmissionLengths one[] = {{68, 40, 20480}};
	const auto judged = [&](auto &words) {
		return judge_placement(grown, one, items_of(words));
	};
	const u32 beyond[] = {1, 24, 16, 2, 0, 1, 4}, far[] = {1, 24, 16, 2, 0, 1, ~0u},
		  offset[] = {1, 24, 16, 2, 4096, 1, 0}, last[] = {1, 24, 1, 2, 4095, 1, 3},
		  across[] = {1, 24, 2, 2, 4095, 2, 0, 2}, few[] = {1, 24, 4097, 2, 0, 1, 1},
		  none[] = {1, 24, 4, 2, 0, 0}, empty[] = {1, 24, 0, 2, 0, 0},
		  unused[] = {1, 24, 4, 2, 0, 2, 1, 4},
		  both[] = {2, 24, 16, 2, 0, 1, 0, 40, 16, 2, 15, 1, 0},
		  beside[] = {2, 24, 16, 2, 0, 1, 0, 40, 16, 2, 16, 1, 0},
		  itself[] = {1, 24, 8192, 2, 0, 2, 1, 1},
		  others[] = {3, 24, 4, 1, 0, 28, 4, 5, 0, 0, 6};

	expect_fault(judged(beyond), Fault::segment, 4, 3);
	expect_fault(judged(far), Fault::segment, ~0u, 3);
	expect_fault(judged(offset), Fault::offset, 4096, 4095);
	EXPECT_TRUE(judged(last).good());
	EXPECT_TRUE(judged(across).good());
	expect_fault(judged(few), Fault::segment, 2, 3);
	expect_fault(judged(none), Fault::segment, 0, 3);
	EXPECT_TRUE(judged(empty).good());
	/* One that no byte lies in has to be there all the same. */
	expect_fault(judged(unused), Fault::segment, 4, 3);
	expect_fault(judged(both), Fault::offset, 15, 4095);
	EXPECT_TRUE(judged(beside).good());
	expect_fault(judged(itself), Fault::offset, 0, 4095);
	EXPECT_TRUE(judged(others).good());
	/* Who has told of no DDP segment has none. */
	expect_fault(judge_placement({4096, 0, 0}, one, items_of(last)), Fault::segment, 3, 0);
	expect_fault(judge_placement({}, one, items_of(none)), Fault::segment, 0, 0);
	/* A stream that runs through the head and into a segment. */
	const TransmissionLengths deep[] = {{68, 4032, 20480}};
	expect_fault(judge_placement(grown, deep, items_of(beside)), Fault::stream, 4032, 4028);
	EXPECT_TRUE(judge_placement(grown, deep, items_of(last)).good());
	/* A header that runs as far as that leaves the stream nothing. */
	const TransmissionLengths to_the_end[] = {{4096, 4, 20480}},
				  beyond_it[] = {{4100, 0, 20480}};
	expect_fault(judge_placement(grown, to_the_end, items_of(beside)), Fault::stream, 4, 0);
	expect_fault(judge_placement(grown, beyond_it, items_of(beside)), Fault::stream, 0, 0);
	EXPECT_FALSE(lies_in_pages(grown, deep, items_of(few)));
}

/* What can be given to a reader as it lies: one item, from the begin of a segment. */
RPCORDMA_TEST(chunk_placement, lies_in_pages)
{
	const TransmissionLengths one[] = {{68, 40, 20480}};
	const u32 good[] = {1, 24, 5000, 2, 0, 2, 2, 0}, later[] = {1, 24, 16, 2, 4, 1, 0},
		  two[] = {2, 24, 16, 2, 0, 1, 0, 40, 16, 2, 0, 1, 1},
		  results[] = {2, 24, 16, 2, 0, 1, 0, 40, 4, 5}, nothing[] = {1, 24, 0, 2, 0, 0},
		  fetched[] = {1, 24, 4, 1, 0}, absent[] = {0};

	EXPECT_TRUE(lies_in_pages(grown, one, items_of(good)));
	EXPECT_TRUE(lies_in_pages(grown, one, items_of(results)));
	EXPECT_FALSE(lies_in_pages(grown, one, items_of(later)));
	EXPECT_FALSE(lies_in_pages(grown, one, items_of(two)));
	EXPECT_FALSE(lies_in_pages(grown, one, items_of(nothing)));
	EXPECT_FALSE(lies_in_pages(grown, one, items_of(fetched)));
	EXPECT_FALSE(lies_in_pages(grown, one, items_of(absent)));
	/* Header and stream up to the end of the head, and beyond. */
	for (u32 stream : {4024u, 4028u, 4032u}) {
		const TransmissionLengths full[] = {{68, stream, 20480}};

		TEST_NOTE("stream", stream);
		EXPECT_EQ(lies_in_pages(grown, full, items_of(good)), stream <= 4028);
	}
	/* Whatever follows of a stream is elsewhere. */
	for (u32 at = 1; at < 3; at++) {
		TransmissionLengths three[] = {{68, 40, 20480}, {40, 0, 20480}, {40, 0, 20480}};

		EXPECT_TRUE(lies_in_pages(grown, three, items_of(good)));
		three[at].stream_length = 4;
		EXPECT_FALSE(lies_in_pages(grown, three, items_of(good)));
	}
}

/* An item is walked from its offset on, as far as it, its segments or the visitor go. */
RPCORDMA_TEST(chunk_placement, pieces)
{
	const u32 words[] = {1, 24, 20, 2, 5, 4, 7, 3, 9, 8};
	const auto items = items_of(words);
	const rtrext::Item item = *items.begin();
	static constexpr ItemPiece wanted[] = {{7, 5, 3}, {3, 0, 8}, {9, 0, 8}, {8, 0, 1}};

	for (u32 most = 0; most <= 5; most++) {
		u32 seen = 0, sum = 0;

		TEST_NOTE("most", most);
		const u32 left = for_each_piece(item, 8, [&](const ItemPiece &piece) {
			if (seen == most || seen == 4)
				return false;
			EXPECT_EQ(piece.number, wanted[seen].number);
			EXPECT_EQ(piece.offset, wanted[seen].offset);
			EXPECT_EQ(piece.length, wanted[seen].length);
			sum += piece.length;
			seen++;
			return true;
		});
		EXPECT_EQ(seen, min(most, 4u));
		EXPECT_EQ(left, 20 - sum);
	}
	/* One segment less than it needs. */
	const u32 few[] = {1, 24, 20, 2, 5, 2, 7, 3};
	EXPECT_EQ(for_each_piece(*items_of(few).begin(), 8, [](const ItemPiece &) { return true; }),
		  20 - 3 - 8);
}

/* Of many segments as of few: one that is used twice is found wherever it is, and by whom. */
RPCORDMA_TEST(chunk_placement, many_segments)
{
	constexpr Structure many = {4096 + 100 * 64, 100, 64};
	const TransmissionLengths one[] = {{68, 40, many.total}};

	for (u32 first : {0u, 1u, 62u, 63u, 64u, 65u, 98u})
		for (u32 second : {0u, 1u, 62u, 63u, 64u, 65u, 98u}) {
			const u32 words[] = {2,	 24, 10, 2,  0, 1,  first,
					     40, 74, 2,	 10, 2, 99, second};
			const u32 overlapping[] = {2,  24, 64, 2, 0, 1,	 first,
						   96, 74, 2,  8, 2, 99, second};

			TEST_NOTE("first", first);
			TEST_NOTE("second", second);
			/* Bytes 0 to 9, or all, of the first; and of the second bytes 0 to 19, or 17. */
			const auto a = judge_placement(many, one, items_of(words));
			const auto b = judge_placement(many, one, items_of(overlapping));
			EXPECT_EQ(a.good(), first != second);
			EXPECT_EQ(b.good(), first != second);
			if (first == second) {
				expect_fault(a, Fault::offset, 0, 63);
				expect_fault(b, Fault::offset, 0, 63);
			}
		}
}

/* Random messages: good are those whose map is. */
RPCORDMA_TEST(chunk_placement, map)
{
	u32 good = 0, bad = 0;

	for (u32 seed = 1; seed <= 4000; seed++) {
		Random random(seed);
		const Small small(random);
		const auto items = small.decoded();
		const Span<const TransmissionLengths> lengths(small.transmissions, small.count);
		TEST_NOTE("seed", seed);

		const bool is_good = small.good();
		EXPECT_EQ(judge_placement(small.room, lengths, items).good(), is_good);
		(is_good ? good : bad)++;
	}
	EXPECT_GT(good, 500);
	EXPECT_GT(bad, 500);
}

/* What we send: every byte of the item once, in full segments, and what the other end takes. */
RPCORDMA_TEST(chunk_placement, sent)
{
	for (const Structure &peer :
	     {grown, Structure{4096 + 512, 1, 512}, Structure{64 + 96, 3, 32}}) {
		for (u32 length :
		     {1u, 31u, 32u, 33u, 96u, 97u, 512u, 4096u, 16384u, 16385u, 65536u}) {
			const Placement placed = place(peer, 60, length, 4);
			const u32 most = 4 * peer.segments * peer.segment_length;
			u32 sum = 0;
			TEST_NOTE("peer", peer.total);
			TEST_NOTE("length", length);

			EXPECT_EQ(placed.transmissions != 0, length <= most);
			if (!placed.transmissions)
				continue;
			EXPECT_EQ(placed.padding, peer.head() - 60);
			EXPECT_GE(placed.segments * peer.segment_length, length);
			EXPECT_LT((placed.segments - 1) * peer.segment_length, length);
			for (u32 n = 0; n < placed.transmissions; n++) {
				EXPECT_NE(item_bytes(peer, length, n), 0);
				sum += item_bytes(peer, length, n);
			}
			EXPECT_EQ(sum, length);
			EXPECT_EQ(item_bytes(peer, length, placed.transmissions), 0);
		}
	}
	/* Header and stream do not fit the head; no segments; a limit. */
	for (u32 bytes = 4095; bytes <= 4097; bytes++)
		EXPECT_EQ(place(grown, bytes, 10, 1).transmissions, bytes <= 4096 ? 1 : 0);
	EXPECT_EQ(place({4096, 0, 0}, 60, 10, 1).transmissions, 0);
	EXPECT_EQ(place(grown, 60, 16385, 1).transmissions, 0);
	/* A head that no XMTCONT fits, and one that it does; what does not go says nothing. */
	const Placement refused = place({36 + 32, 1, 32}, 30, 10, 1),
			taken = place({40 + 32, 1, 32}, 30, 10, 1);
	EXPECT_EQ(refused.transmissions, 0);
	EXPECT_EQ(refused.segments, 0);
	EXPECT_EQ(refused.padding, 0);
	EXPECT_EQ(taken.transmissions, 1);
	EXPECT_EQ(taken.segments, 1);
	EXPECT_EQ(taken.padding, 10);
	EXPECT_EQ(place(grown, 60, 16385, 1).segments, 0);
}

RPCORDMA_SUITE(chunk_placement, whole_segments, faults, lies_in_pages, pieces, many_segments, map,
	       sent);

} // namespace rpcordma
