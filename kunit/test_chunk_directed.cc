// SPDX-License-Identifier: GPL-2.0-only
/*
 * chunk/directed: how a reply goes whose call has directions for its results. One direction of each type is held against
 * the rules, written down once more, at every length and limit that matters. Random replies are made into transmissions
 * and put together again as a requester does, which judges them.
 */
#include "kunit/test_rdma_random.hh"
#include "kunit/testing.hh"
#include "module/chunk/directed.hh"

namespace rpcordma {
namespace {

using namespace chunk;
using properties::Structure;
using rtrext::Type;

constexpr Structure grown = {20480, 4, 4096};
constexpr u32 kHeader = 40, kUnplaced = 12;

/* A direction as a case has it. */
struct Direction {
	Type type;
	u32 least;
	u32 most_sent;
	u32 segments;
	u32 lengths[4];
	bool new_set; /* it begins one */
};

/* A call with directions. */
class Directions {
public:
	explicit Directions(Span<const Direction> directions)
	{
		const MutableBytes room = test_alloc(4096);
		rtrext::Encoder encoder(room, Xid(1), Credits(1), xdr::Option::xmtreq);
		u32 begin = 0;

		for (usize i = 0; i < directions.size(); i++) {
			const Direction &direction = directions[i];
			xdr::Segment segments[4];

			for (u32 n = 0; n < direction.segments; n++)
				segments[n] = {Rkey(7 + n), direction.lengths[n], 0x1000 * n};
			if (!i || direction.new_set) {
				encoder.set(begin, begin + 100);
				begin += 100;
			}
			if (direction.type == Type::sent)
				encoder.place_sent(direction.least);
			else
				encoder.place(direction.least, direction.type,
					      {segments, direction.segments}, direction.most_sent);
		}
		const auto header = encoder.finish(1, 4, 40);
		EXPECT_OK(header);
		EXPECT_EQ(rtrext::decode({room.data() + 28, header.value() - 28}, request_),
			  Error::none);
		EXPECT_EQ(request_.sets.places(), directions.size());
	}
	[[nodiscard]] const rtrext::Sets &sets() const
	{
		return request_.sets;
	}

private:
	rtrext::Request request_;
};

[[nodiscard]] ReplyRoom room_of(u32 transmissions, const Structure &structure = grown,
				u32 bytes = 20480)
{
	ReplyRoom room;

	room.bytes = bytes;
	room.structure = structure;
	room.transmissions = transmissions;
	return room;
}

/* A plan, and whether there is one. */
struct Planned {
	Directed plan;
	Shortfall shortfall;
	Status status;

	Planned(const Directions &directions, Span<const ReplyRange> results, u32 length,
		const ReplyRoom &room)
		: status(plan_directed(directions.sets(), results, length, room, plan, shortfall))
	{
	}
	Planned(const Direction &direction, const ReplyRange &result, u32 length,
		const ReplyRoom &room)
		: Planned(Directions({&direction, 1}), {&result, 1}, length, room)
	{
	}
};

void expect_item(const Directed &plan, u32 i, Type type, u32 offset, u32 length)
{
	TEST_NOTE("item", i);
	EXPECT_EQ(plan.items[i].type, type);
	EXPECT_EQ(plan.items[i].range.offset, offset);
	EXPECT_EQ(plan.items[i].range.length, length);
}

/* Which answers the draft's Table 2 has for a direction. */
struct Allowed {
	Type direction;
	bool segments, sent;
};
constexpr Allowed table_2[] = {
	{Type::segments, true, false},
	{Type::sent, false, true},
	{Type::either, true, true},
	{Type::by_size, true, true},
};

void expect_table_2(Type direction, Type answer)
{
	bool known = false;

	for (const Allowed &row : table_2) {
		if (row.direction != direction)
			continue;
		known = true;
		EXPECT_TRUE(answer != Type::segments || row.segments);
		EXPECT_TRUE(answer != Type::sent || row.sent);
		EXPECT_NE(answer, Type::either);
		EXPECT_NE(answer, Type::by_size);
	}
	EXPECT_TRUE(known);
}

/* Transmissions of @stream bytes of a stream, none of them sent, one by one. */
[[nodiscard]] u32 counted(u32 stream, u32 header, u32 bytes)
{
	u32 n = 1;

	for (u32 room = (bytes - header) / 4 * 4; stream > room; room = (bytes - kHeader) / 4 * 4) {
		stream -= room;
		n++;
	}
	return n;
}

/* What one direction comes to, and in how many transmissions; none: the reply fits nowhere. */
struct Expected {
	Type type = Type::none;
	u32 transmissions = 0;
};

/* @offered: bytes of segments. A reply of @before bytes, the result with its pad, and @behind. */
[[nodiscard]] Expected rules(const Direction &d, u32 length, u32 before, u32 behind,
			     const ReplyRoom &room)
{
	const u32 padded = (length + 3) / 4 * 4, stream = before + behind;
	u32 offered = 0;
	Expected sent, written, in_line;

	for (u32 i = 0; i < d.segments; i++)
		offered += d.lengths[i];
	/* Each way by itself. */
	const u32 segments = (length + 4095) / 4096;
	if (room.structure.segments && segments <= 4 * room.transmissions &&
	    kHeader + 20 + 4 * segments + stream <= 4096)
		sent = {Type::sent, (segments + 3) / 4};
	/* Segments that come back; those without bytes do not. */
	u32 used = 0, filled = 0;
	for (u32 i = 0; filled < length && i < d.segments; i++) {
		filled += d.lengths[i];
		used += d.lengths[i] != 0;
	}
	if (offered >= length) {
		const u32 n = counted(stream, kHeader + 16 + 16 * used, room.bytes);
		if (n <= room.transmissions)
			written = {Type::segments, n};
	}
	const u32 n = counted(stream + padded, kHeader + kUnplaced, room.bytes);
	if (n <= room.transmissions)
		in_line = {Type::too_short, n};

	if (!length || length < d.least)
		return in_line;
	switch (d.type) {
	case Type::segments:
		return written.transmissions ? written : in_line;
	case Type::sent:
		return sent.transmissions ? sent : in_line;
	case Type::by_size:
		if (length > d.most_sent)
			return written.transmissions ? written : in_line;
		[[fallthrough]];
	default:
		return sent.transmissions ? sent : written.transmissions ? written : in_line;
	}
}

/* All else of a plan, of whose one item the type is known. */
void expect_whole(const Directed &plan, const Direction &d, Type type, u32 length, u32 before,
		  u32 behind)
{
	const bool placed = type == Type::sent || type == Type::segments;
	const u32 padded = (length + 3) / 4 * 4, all = before + padded + behind;
	const u32 sent = type == Type::sent ? (length + 4095) / 4096 : 0;
	u32 used = 0, filled = 0;

	for (u32 i = 0; type == Type::segments && filled < length && i < d.segments; i++) {
		filled += d.lengths[i];
		used += d.lengths[i] != 0;
	}
	EXPECT_EQ(plan.count, 1);
	EXPECT_EQ(plan.segments, sent);
	EXPECT_EQ(plan.items[0].first, 0);
	EXPECT_EQ(plan.items[0].segments, sent + used);
	EXPECT_EQ(plan.write_length, type == Type::segments ? length : 0);
	EXPECT_EQ(plan.header_length, kHeader + kUnplaced +
					      (sent		      ? 8 + 4 * sent :
					       type == Type::segments ? 4 + 16 * used :
									0));
	EXPECT_EQ(plan.stream_length, placed ? before + behind : all);
	ASSERT_EQ(plan.rest_count, placed && behind ? 2 : 1);
	EXPECT_EQ(plan.rest[0].offset, 0);
	EXPECT_EQ(plan.rest[0].length, placed ? before : all);
	if (placed && behind) {
		EXPECT_EQ(plan.rest[1].offset, before + padded);
		EXPECT_EQ(plan.rest[1].length, behind);
	}
}

} // namespace

/* Each type of direction, at each length and limit that matters, by the rules. */
RPCORDMA_TEST(chunk_directed, every_combination)
{
	const Direction directions[] = {
		{Type::sent, 0, 0, 0, {}, false},
		{Type::sent, 100, 0, 0, {}, false},
		{Type::sent, ~0u, 0, 0, {}, false},
		{Type::segments, 0, 0, 0, {}, false},
		{Type::segments, 0, 0, 1, {16384}, false},
		{Type::segments, 100, 0, 3, {0, 4096, 70000}, false},
		{Type::segments, 0, 0, 4, {1, 1, 1, 1}, false},
		{Type::either, 0, 0, 0, {}, false},
		{Type::either, 0, 0, 2, {4096, 70000}, false},
		{Type::either, 4097, 0, 1, {99}, false},
		{Type::by_size, 0, 0, 1, {70000}, false},
		{Type::by_size, 0, 4096, 1, {70000}, false},
		{Type::by_size, 0, 4096, 0, {}, false},
		{Type::by_size, 99, ~0u, 1, {8192}, false},
	};
	const u32 lengths[] = {0,    1,	    4,	   99,	  100,	 4093,	4096,  4097,
			       8192, 16383, 16384, 16385, 20300, 32768, 65536, 65537};
	const Structure none;
	u32 fits = 0, fits_not = 0;

	for (const Direction &direction : directions)
		for (const u32 length : lengths)
			for (const u32 before : {40u, 4000u, 20000u})
				for (const u32 behind : {0u, 8u})
					for (const u32 transmissions : {1u, 2u, 4u})
						for (const u32 way : {0u, 1u, 2u}) {
							TEST_NOTE("direction",
								  &direction - directions);
							TEST_NOTE("length", length);
							TEST_NOTE("before", before);
							TEST_NOTE("behind", behind);
							TEST_NOTE("transmissions", transmissions);
							TEST_NOTE("way", way);
							const ReplyRoom room =
								room_of(transmissions,
									way == 1 ? none : grown,
									way == 2 ? 4096 : 20480);
							const u32 all = before + length +
									xdr_pad(length) + behind;
							const Expected expected =
								rules(direction, length, before,
								      behind, room);
							const Planned p(direction, {before, length},
									all, room);
							EXPECT_EQ(p.status.ok(),
								  expected.transmissions != 0);
							if (!p.status.ok() ||
							    !expected.transmissions) {
								fits_not++;
								continue;
							}
							fits++;
							expect_item(p.plan, 0, expected.type,
								    before, length);
							EXPECT_EQ(p.plan.transmissions,
								  expected.transmissions);
							expect_whole(p.plan, direction,
								     expected.type, length, before,
								     behind);
							expect_table_2(direction.type,
								       p.plan.items[0].type);
						}
	EXPECT_GT(fits, 1000);
	EXPECT_GT(fits_not, 300);
}

/* Results go to directions in order, whatever their sets; what is over on either side. */
RPCORDMA_TEST(chunk_directed, matching)
{
	const Direction three[] = {{Type::sent, 0, 0, 0, {}, true},
				   {Type::segments, 0, 0, 1, {1000}, false},
				   {Type::either, 0, 0, 1, {1000}, true}};
	const Directions directions(three);
	const ReplyRange results[] = {{40, 10}, {60, 1000}, {1064, 4}, {1072, 500}};

	for (u32 n = 0; n <= 4; n++) {
		TEST_NOTE("results", n);
		const Planned p(directions, {results, n}, 1600, room_of(4));

		ASSERT_TRUE(p.status.ok());
		ASSERT_EQ(p.plan.count, 3);
		if (n > 0)
			expect_item(p.plan, 0, Type::sent, 40, 10);
		if (n > 1)
			expect_item(p.plan, 1, Type::segments, 60, 1000);
		if (n > 2)
			expect_item(p.plan, 2, Type::sent, 1064, 4);
		for (u32 i = n; i < 3; i++)
			expect_item(p.plan, i, Type::none, 0, 0);
		EXPECT_EQ(p.plan.segments, (n > 0) + (n > 2));
		EXPECT_EQ(p.plan.write_length, n > 1 ? 1000 : 0);
		/* A fourth stays in the stream. */
		EXPECT_EQ(p.plan.stream_length,
			  1600 - (n > 0 ? 12 : 0) - (n > 1 ? 1000 : 0) - (n > 2 ? 4 : 0));
	}
	/* One that the service took back uses its direction up. */
	const ReplyRange back[] = {{2000, 10}, {40, ~0u}, {1064, 4}};
	const Planned p(directions, back, 1600, room_of(4));
	ASSERT_TRUE(p.status.ok());
	expect_item(p.plan, 0, Type::none, 0, 0);
	expect_item(p.plan, 1, Type::none, 0, 0);
	expect_item(p.plan, 2, Type::sent, 1064, 4);
	EXPECT_EQ(p.plan.items[2].first, 0);
	/* As does one that is in another. */
	const ReplyRange within[] = {{40, 100}, {80, 4}, {~0u, ~0u}};
	const Planned q(directions, within, 1600, room_of(4));
	ASSERT_TRUE(q.status.ok());
	expect_item(q.plan, 0, Type::sent, 40, 100);
	expect_item(q.plan, 1, Type::none, 0, 0);
	expect_item(q.plan, 2, Type::none, 0, 0);
	/* Sets without directions. */
	const Directions empty(Span<const Direction>{});
	const Planned r(empty, results, 1600, room_of(1));
	ASSERT_TRUE(r.status.ok());
	EXPECT_EQ(r.plan.count, 0);
	EXPECT_EQ(r.plan.header_length, kHeader);
	EXPECT_EQ(r.plan.stream_length, 1600);
}

/* Nothing is placed that RPCSEC_GSS protects, nor what does not begin with a word. */
RPCORDMA_TEST(chunk_directed, not_placed)
{
	for (const Allowed &row : table_2) {
		TEST_NOTE("type", static_cast<u32>(row.direction));
		const Direction direction = {row.direction, 0,	  ~0u, row.direction != Type::sent,
					     {1000},	    false};
		ReplyRoom room = room_of(1);

		for (const u32 offset : {40u, 41u, 42u, 43u}) {
			const Planned p(direction, {offset, 100}, 200, room);
			ASSERT_TRUE(p.status.ok());
			EXPECT_EQ(p.plan.items[0].type == Type::too_short, offset != 40);
		}
		room.sealed = true;
		const Planned p(direction, {40, 100}, 200, room);
		ASSERT_TRUE(p.status.ok());
		expect_item(p.plan, 0, Type::too_short, 40, 100);
		EXPECT_EQ(p.plan.stream_length, 200);
		/* Nor are its segments too short. */
		const Planned q(direction, {40, 90000}, 100000, room);
		EXPECT_EQ(q.status.ok(), false);
		EXPECT_EQ(q.shortfall.segment, 0);
	}
}

/* What is done about a reply that does not fit: written before sent, nothing sent, nothing placed. */
RPCORDMA_TEST(chunk_directed, efforts)
{
	/* The first takes what the second needs: it can be written. */
	const Direction both[] = {{Type::either, 0, 0, 1, {16384}, true},
				  {Type::sent, 0, 0, 0, {}, false}};
	const ReplyRange results[] = {{40, 16384}, {16432, 16384}};
	Planned p(Directions(both), results, 32820, room_of(1));
	ASSERT_TRUE(p.status.ok());
	expect_item(p.plan, 0, Type::segments, 40, 16384);
	expect_item(p.plan, 1, Type::sent, 16432, 16384);
	EXPECT_EQ(p.plan.segments, 4);
	EXPECT_EQ(p.plan.items[1].first, 0);
	EXPECT_EQ(p.plan.transmissions, 1);
	/* There is room for both in two. */
	Planned two(Directions(both), results, 32820, room_of(2));
	ASSERT_TRUE(two.status.ok());
	expect_item(two.plan, 0, Type::sent, 40, 16384);
	expect_item(two.plan, 1, Type::sent, 16432, 16384);
	EXPECT_EQ(two.plan.items[1].first, 4);
	EXPECT_EQ(two.plan.transmissions, 2);
	/* The stream is longer than a head: nothing is sent, and all of it goes in the stream. */
	const Direction lone[] = {{Type::sent, 0, 0, 0, {}, true}};
	Planned q(Directions(lone), {results, 1}, 16424 + 5000, room_of(2));
	ASSERT_TRUE(q.status.ok());
	expect_item(q.plan, 0, Type::too_short, 40, 16384);
	EXPECT_EQ(q.plan.transmissions, 2);
	/* Or is written. */
	Planned w(Directions({both, 1}), {results, 1}, 16424 + 5000, room_of(2));
	ASSERT_TRUE(w.status.ok());
	expect_item(w.plan, 0, Type::segments, 40, 16384);
	EXPECT_EQ(w.plan.transmissions, 1);
}

/* Headers that are too long with their segments, or at all. */
RPCORDMA_TEST(chunk_directed, headers)
{
	/* The result goes without. */
	const Direction many[] = {{Type::segments, 0, 0, 4, {4, 4, 4, 4}, true}};
	const ReplyRange small = {40, 16};
	Planned h(Directions(many), {&small, 1}, 56, room_of(1, {}, 112));
	ASSERT_TRUE(h.status.ok());
	expect_item(h.plan, 0, Type::too_short, 40, 16);
	Planned none(Directions(many), {&small, 1}, 56, room_of(1, {}, 107));
	EXPECT_EQ(none.status.ok(), false);
	EXPECT_EQ(none.shortfall.segment, 0);
	/* There is nothing behind a header. */
	for (const u32 bytes : {40u, 43u, 44u}) {
		TEST_NOTE("bytes", bytes);
		EXPECT_EQ(Planned(Directions({}), {}, 56, room_of(~0u, {}, bytes)).status.ok(),
			  bytes == 44);
	}
	for (const u32 bytes : {0u, 39u, 40u, 51u, 52u, 53u}) {
		TEST_NOTE("bytes", bytes);
		EXPECT_EQ(
			Planned(Directions(many), {&small, 1}, 56, room_of(1, {}, bytes)).status.ok(),
			false);
		EXPECT_EQ(Planned(Directions(many), {&small, 1}, 56, room_of(~0u, {}, bytes))
				  .status.ok(),
			  bytes >= 52);
	}
}

/* A result that is larger than its segments stays in the stream; where that does not fit, the client is told. */
RPCORDMA_TEST(chunk_directed, shortfall)
{
	const Direction two[] = {{Type::either, 0, 0, 2, {8, 16}, true},
				 {Type::segments, 0, 0, 3, {4096, 4096, 100}, true}};
	const Directions directions(two);
	const ReplyRange results[] = {{40, 16}, {56, 9000}};
	Planned in_line(directions, results, 9100, room_of(1));
	ASSERT_TRUE(in_line.status.ok());
	expect_item(in_line.plan, 1, Type::too_short, 56, 9000);

	Planned p(directions, results, 9100, room_of(1, {}, 4096));
	EXPECT_EQ(p.status.ok(), false);
	EXPECT_EQ(p.shortfall.segment, 5);
	EXPECT_EQ(p.shortfall.needed, 100 + 9000 - 8292);
	/* Of a direction that takes less, or just that; or more, where the segments are not the reason. */
	for (u32 least : {8999u, 9000u, 9001u}) {
		const Direction one = {Type::segments, least, 0, 1, {100}, false};
		Planned at(one, {56, 9000}, 9100, room_of(1, {}, 4096));

		TEST_NOTE("least", least);
		EXPECT_FALSE(at.status.ok());
		EXPECT_EQ(at.shortfall.segment, least <= 9000 ? 1 : 0);
		EXPECT_EQ(at.shortfall.needed, least <= 9000 ? 9000 : 0);
	}
	/* The first that is too short. */
	const ReplyRange both[] = {{40, 5000}, {5040, 9000}};
	Planned q(directions, both, 14100, room_of(1, {}, 4096));
	EXPECT_EQ(q.status.ok(), false);
	EXPECT_EQ(q.shortfall.segment, 2);
	EXPECT_EQ(q.shortfall.needed, 16 + 5000 - 24);
}

/* What is sent of a plan in each transmission: one piece of each item that has segments there, by the segments one by one. */
RPCORDMA_TEST(chunk_directed, sent_pieces)
{
	static constexpr u32 kSegment = 64;

	for (u32 each = 1; each <= 4; each++)
		for (u32 first = 1; first <= 5; first++)
			for (u32 second = 1; second <= 5; second++)
				for (u32 missing : {0u, 1u, kSegment - 1}) {
					const Structure structure = {1000 + each * kSegment, each,
								     kSegment};
					const u32 segments = first + second;
					auto &plan = test_zeroed<Directed>();

					TEST_NOTE("in each", each);
					TEST_NOTE("first", first);
					TEST_NOTE("second", second);
					TEST_NOTE("missing", missing);
					/* With items beside them that are not sent, and what is no item any more. */
					plan.count = 4;
					plan.segments = segments;
					plan.items[0] = {Type::sent,
							 {40, first * kSegment - missing},
							 0,
							 first};
					plan.items[1] = {Type::segments, {2000, 100}, 0, 1};
					plan.items[2] = {Type::sent,
							 {4000, second * kSegment - missing},
							 first,
							 second};
					plan.items[3] = {Type::too_short, {8000, 100}, 0, 9};
					plan.items[4] = {Type::sent, {9000, 100}, 0, 9};
					for (u32 n = 0; n <= segments / each + 1; n++) {
						SentPiece got[4] = {}, wanted[4] = {};
						u32 count = 0, expected = 0, last_item = 9;

						for_each_sent_piece(plan, structure, n,
								    [&](const SentPiece &piece) {
									    if (count < 4)
										    got[count] =
											    piece;
									    count++;
								    });
						for (u32 number = n * each;
						     number < (n + 1) * each && number < segments;
						     number++) {
							const u32 item = number < first ? 0 : 2;
							const u32 in_item =
								number - (item ? first : 0);
							const u32 all = item ? second : first;
							const bool last = in_item + 1 == all;
							const u32 bytes = last ? kSegment - missing :
										 kSegment;

							if (item != last_item) {
								wanted[expected].range.offset =
									(item ? 4000 : 40) +
									in_item * kSegment;
								expected++;
								last_item = item;
							}
							SentPiece &piece = wanted[expected - 1];
							piece.range.length += bytes;
							/* Up to the next segment, if that is there as well. */
							piece.padding =
								number + 1 < segments &&
										number + 1 <
											(n +
											 1) * each ?
									kSegment - bytes :
									0;
						}
						ASSERT_EQ(count, expected);
						for (u32 i = 0; i < count; i++) {
							EXPECT_EQ(got[i].range.offset,
								  wanted[i].range.offset);
							EXPECT_EQ(got[i].range.length,
								  wanted[i].range.length);
							EXPECT_EQ(got[i].padding, wanted[i].padding);
						}
					}
				}
}

/* With an item that is sent, header and stream fill the head, and no more. */
RPCORDMA_TEST(chunk_directed, head_is_full)
{
	const Direction sent = {Type::sent, 0, 0, 0, {}, false};

	for (u32 before : {4028u, 4032u, 4036u}) {
		TEST_NOTE("before", before);
		const Planned p(sent, {before, 100}, before + 100, room_of(1));
		ASSERT_TRUE(p.status.ok());
		EXPECT_EQ(p.plan.items[0].type == Type::sent,
			  kHeader + 20 + 4 + before <= grown.head());
	}
}

/* Segments of more than 4 GiB are not too short: what does not fit is the rest. */
RPCORDMA_TEST(chunk_directed, huge)
{
	const ReplyRange both[] = {{40, 5000}, {5040, 9000}};
	const Direction huge[] = {{Type::segments, 0, 0, 4, {~0u, ~0u, ~0u, ~0u}, true}};
	Planned h(Directions(huge), {both, 1}, 14100, room_of(1, {}, 4096));
	EXPECT_EQ(h.status.ok(), false);
	EXPECT_EQ(h.shortfall.segment, 0);
	Planned whole(Directions(huge), {both, 1}, 5100, room_of(1, {}, 4096));
	ASSERT_TRUE(whole.status.ok());
	EXPECT_EQ(whole.plan.write_length, 5000);
	EXPECT_EQ(whole.plan.items[0].segments, 1);
}

/* Lengths at the end of what a number holds. */
RPCORDMA_TEST(chunk_directed, last_lengths)
{
	const Direction two[] = {{Type::either, 0, 0, 2, {8, 16}, true},
				 {Type::segments, 0, 0, 3, {4096, 4096, 100}, true}};
	const Directions directions(two);
	const ReplyRange last = {~3u, 3};
	Planned l(directions, {&last, 1}, ~0u, room_of(4));
	EXPECT_EQ(l.status.ok(), false);
	const ReplyRange all = {0, ~0u};
	Planned a(directions, {&all, 1}, ~0u, room_of(4));
	EXPECT_EQ(a.status.ok(), false);
	EXPECT_EQ(a.shortfall.segment, 2);
	/* A stream that whole words cannot count. */
	for (u32 length = ~u32(0); length >= ~u32(0) - 4; length--) {
		TEST_NOTE("length", length);
		EXPECT_FALSE(Planned(Directions({}), {}, length, room_of(4)).status.ok());
		EXPECT_EQ(Planned(Directions({}), {}, length, room_of(~0u, {}, ~0u)).status.ok(),
			  length <= ~u32(3));
	}
	/* No stream at all needs no room behind the header. */
	Planned nothing(Directions({}), {}, 0, room_of(1, {}, 40));
	EXPECT_TRUE(nothing.status.ok());
	EXPECT_EQ(nothing.plan.transmissions, 1);
	EXPECT_EQ(nothing.plan.rest_count, 0);
}

/* Peers whose Receives are odd: a DDP segment, one; heads that hold no header; more segments than are ever used. */
RPCORDMA_TEST(chunk_directed, structures)
{
	const Direction direction = {Type::sent, 0, 0, 0, {}, false};
	struct {
		Structure structure;
		u32 length;
		bool sent;
		u32 transmissions;
	} const cases[] = {
		{{8192, 1, 4096}, 4096, true, 1},
		{{8192, 1, 4096}, 4097, true, 2},
		{{8192, 1, 4096}, 16384, true, 4},
		{{8192, 1, 4096}, 16385, false, 1},
		{{4096 + 24, 1, 4096}, 100, false, 1},
		{{4096 + 39, 1, 4096}, 100, false, 1},
		{{4096 + 120, 1, 4096}, 100, true, 1},
		{{4096 + 96, 1, 4096}, 100, false, 1},
		{{66560, 64, 1024}, 65536, true, 1},
		{{66560, 64, 1024}, 65537, false, 4},
		{{4097, 1, 1}, 4, true, 4},
		{{4097, 1, 1}, 5, false, 1},
	};
	for (const auto &one : cases) {
		TEST_NOTE("case", &one - cases);
		const u32 all = 40 + one.length + xdr_pad(one.length);
		const Planned p(direction, {40, one.length}, all, room_of(4, one.structure));

		ASSERT_TRUE(p.status.ok());
		EXPECT_EQ(p.plan.items[0].type, one.sent ? Type::sent : Type::too_short);
		EXPECT_EQ(p.plan.transmissions, one.transmissions);
	}
}

namespace {

/* A reply as its transmissions have it, put together again. */
constexpr u32 kEach = 3072; /* bytes of a transmission at most */
using Transmissions = u8[4][kEach];

struct Reassembled {
	Transmissions &sent;
	TransmissionLengths lengths[4] = {};
	u8 *const whole;

	Reassembled(Transmissions &room, u32 length)
		: sent(room),
		  whole(test_alloc(length + 4).data())
	{
		__builtin_memset(sent, 0xee, sizeof(sent));
	}
	/* Byte @at of the reply. */
	[[nodiscard]] static u8 byte_of(u32 at)
	{
		return u8(at * 7 + at / 251);
	}
	[[nodiscard]] Bytes transmission(u32 n) const
	{
		return {sent[n], lengths[n].length};
	}
	/* Send @plan's reply of @length bytes. */
	void send(const Directions &directions, const Directed &plan, const ReplyRoom &room,
		  u32 length)
	{
		u32 rest = 0, used = 0, left = plan.stream_length;

		for (u32 n = 0; n < plan.transmissions; n++) {
			u32 header = kHeader;

			if (!n) {
				rtrext::Encoder encoder({sent[0], kEach}, Xid(1), Credits(1),
							xdr::Option::xmtresp);
				encode_directed(encoder, directions.sets(), plan);
				const auto made =
					encoder.finish(plan.transmissions, 0, plan.stream_length);
				ASSERT_OK(made);
				header = made.value();
				EXPECT_EQ(header, plan.header_length);
			}
			u32 end = header;
			const u32 most = plan.segments ? room.structure.head() :
							 header + (room.bytes - header) / 4 * 4;
			for (; left && end < most; left--) {
				while (rest < plan.rest_count && used == plan.rest[rest].length) {
					rest++;
					used = 0;
				}
				sent[n][end++] = rest == plan.rest_count ?
							 0 :
							 byte_of(plan.rest[rest].offset + used++);
			}
			lengths[n] = {header, end - header, end};
			if (!plan.segments)
				continue;
			end = room.structure.head();
			for_each_sent_piece(plan, room.structure, n, [&](const SentPiece &piece) {
				ASSERT_LE(end + piece.range.length + piece.padding, kEach);
				for (u32 i = 0; i < piece.range.length; i++)
					sent[n][end++] = byte_of(piece.range.offset + i);
				for (u32 i = 0; i < piece.padding; i++)
					sent[n][end++] = 0;
			});
			lengths[n].length = end;
			EXPECT_LE(end, room.structure.total);
		}
		EXPECT_EQ(left, 0);
		(void)length;
	}
	/* Bytes of the stream, as they came. */
	[[nodiscard]] u8 stream_byte(u32 at) const
	{
		u32 n = 0;

		for (; at >= lengths[n].stream_length; n++)
			at -= lengths[n].stream_length;
		return sent[n][lengths[n].header_length + at];
	}
	/* Returns how many bytes of the reply are not what they were. */
	[[nodiscard]] u32 wrong(const rtrext::Items &items, const ReplyRoom &room, u32 length)
	{
		u32 at = 0, stream = 0, bad = 0;
		auto copy = [&](u32 until) {
			for (; at < until; at++)
				whole[at] = stream_byte(stream++);
		};

		for (const rtrext::Item &item : items) {
			if (!item.placed())
				continue;
			copy(item.displacement);
			if (item.type == Type::segments) {
				EXPECT_EQ(item.segments.length(), item.length);
				for (u32 i = 0; i < item.length; i++, at++)
					whole[at] = byte_of(at);
			} else {
				EXPECT_EQ(for_each_piece(
						  item, room.structure.segment_length,
						  [&](const ItemPiece &piece) {
							  const u8 *from =
								  sent[piece.number /
								       room.structure.segments] +
								  begin_of(room.structure, piece);
							  __builtin_memcpy(whole + at, from,
									   piece.length);
							  at += piece.length;
							  return true;
						  }),
					  0);
			}
			for (; at % 4; at++)
				whole[at] = 0;
		}
		copy(length);
		for (u32 i = 0; i < length; i++)
			bad += whole[i] != byte_of(i);
		return bad;
	}
};

} // namespace

/* Random replies: what goes is what a requester takes, and puts together to the same bytes. */
RPCORDMA_TEST(chunk_directed, round_trips)
{
	auto &sent = *reinterpret_cast<Transmissions *>(test_alloc(sizeof(Transmissions)).data());
	u32 answered[7] = {}, groups = 0, refused = 0;

	for (u32 seed = 0; seed < 3000; seed++) {
		TEST_NOTE("seed", seed);
		Random random(seed);
		Direction list[5];
		ReplyRange results[7];
		const u32 count = 1 + random.below(5), offers = random.below(7);
		ReplyRoom room;

		room.structure = {0, random.below(5), u32(64) << random.below(3)};
		room.structure.total = 256 + 128 * random.below(8) +
				       room.structure.segments * room.structure.segment_length;
		room.bytes = room.structure.total;
		room.transmissions = 1 + random.below(4);
		for (u32 i = 0; i < count; i++) {
			list[i] = {static_cast<Type>(1 + random.below(4)),
				   random.one_in(4) ? random.below(300) : 0,
				   random.below(600),
				   random.below(4),
				   {random.below(300), random.below(900), random.below(900), 0},
				   random.one_in(3)};
			if (list[i].type == Type::sent)
				list[i].segments = 0;
		}
		u32 length = 40;
		for (u32 i = 0; i < offers; i++) {
			results[i] = {length, random.one_in(8) ? 0 : random.below(500)};
			length += results[i].length + xdr_pad(results[i].length) +
				  4 * random.below(20);
		}
		const Directions directions({list, count});
		Directed plan;
		Shortfall shortfall;
		if (!plan_directed(directions.sets(), {results, offers}, length, room, plan,
				   shortfall)
			     .ok()) {
			refused++;
			continue;
		}
		ASSERT_EQ(plan.count, count);
		EXPECT_LE(plan.transmissions, room.transmissions);
		for (u32 i = 0; i < count; i++) {
			expect_table_2(list[i].type, plan.items[i].type);
			EXPECT_EQ(plan.items[i].type == Type::none, i >= offers);
			answered[static_cast<u32>(plan.items[i].type)]++;
		}
		groups += plan.transmissions > 1;
		Reassembled reply(sent, length);
		/* Pads are zeros. */
		reply.send(directions, plan, room, length);
		rtrext::Response response;
		ASSERT_EQ(rtrext::decode({reply.sent[0] + 28, plan.header_length - 28}, response),
			  Error::none);
		EXPECT_EQ(response.items.count(), count);
		EXPECT_EQ(judge_placement(room.structure, {reply.lengths, plan.transmissions},
					  response.items)
				  .how,
			  rtrext::Verdict::How::good);
		EXPECT_EQ(rtrext::judge_whole(response.items, plan.stream_length).how,
			  rtrext::Verdict::How::good);
		u32 pads = 0;
		for (u32 i = 0; i < count; i++)
			if (plan.items[i].type == Type::segments || plan.items[i].type == Type::sent)
				for (u32 at = plan.items[i].range.offset + plan.items[i].range.length;
				     at % 4; at++)
					pads += Reassembled::byte_of(at) != 0;
		EXPECT_EQ(reply.wrong(response.items, room, length), pads);
	}
	EXPECT_GT(answered[static_cast<u32>(Type::segments)], 500);
	EXPECT_GT(answered[static_cast<u32>(Type::sent)], 500);
	EXPECT_GT(answered[static_cast<u32>(Type::too_short)], 500);
	EXPECT_GT(answered[static_cast<u32>(Type::none)], 500);
	EXPECT_GT(groups, 300);
	EXPECT_GT(refused, 30);
}

RPCORDMA_SUITE(chunk_directed, every_combination, matching, not_placed, efforts, headers, shortfall,
	       sent_pieces, head_is_full, huge, last_lengths, structures, round_trips);

} // namespace rpcordma
