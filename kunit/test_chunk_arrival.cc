// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/chunk/arrival: calls of every form are taken apart as a requester does, put together as the
 * plan says, and compared byte by byte; chunks that make no call are refused.
 */
#include "kunit/test_chunk_lists.hh"
#include "kunit/test_rdma_random.hh"
#include "kunit/testing.hh"
#include "module/chunk/arrival.hh"

using namespace rpcordma;
using namespace rpcordma::chunk;

namespace {

[[nodiscard]] Result<Arrival> planned(const xdr::ReadList &reads, u32 inline_length, u32 most)
{
	/* Nothing of one before is left in it. */
	Arrival arrival = {Arrival::How::sent, 1, 2, 3, 4, 5, true};

	TRY_STATUS(plan_arrival(reads, inline_length, most, arrival));
	return arrival;
}

using How = Arrival::How;

constexpr u32 kMost = 4096; /* the longest call */

/** A read segment of a table. */
struct Piece {
	u32 position, length;
};

xdr::Segment segment(u32 length)
{
	return {Rkey(7), length, 0x10000};
}

Result<Arrival> plan(Span<const Piece> pieces, u32 inline_length, u32 most = kMost)
{
	ListMaker made;

	for (const Piece &piece : pieces)
		made.read(piece.position, segment(piece.length));
	return planned(made.decode().reads, inline_length, most);
}

template <usize N>
Result<Arrival> plan(const Piece (&pieces)[N], u32 inline_length, u32 most = kMost)
{
	return plan(Span<const Piece>(pieces), inline_length, most);
}

/** As plan(), of the walk alone, which refuses by itself what plan_arrival() has refused before. */
template <usize N> Result<u32> walk(const Piece (&pieces)[N], u32 inline_length, u32 most = kMost)
{
	ListMaker made;

	for (const Piece &piece : pieces)
		made.read(piece.position, segment(piece.length));
	return walk_arrival(
		made.decode().reads, inline_length, most, [](const xdr::Segment &, u32) {},
		[](u32, u32, u32) {});
}

} // namespace

RPCORDMA_TEST(chunk_arrival, all_inline)
{
	for (u32 length : {1u, 40u, kMost}) {
		TEST_NOTE("length", length);
		const auto arrival = plan({}, length);
		ASSERT_OK(arrival);
		EXPECT_EQ(arrival.value().how, How::inline_);
		EXPECT_EQ(arrival.value().inline_length, length);
		EXPECT_EQ(arrival.value().message_length, length);
		EXPECT_EQ(arrival.value().sink_length, 0);
		EXPECT_EQ(arrival.value().segments, 0);
		EXPECT_FALSE(arrival.value().position_zero);
	}
	EXPECT_ERROR(plan({}, 0), Error::protocol);
	EXPECT_ERROR(plan({}, kMost + 1), Error::protocol);
	EXPECT_ERROR(plan({}, ~0u), Error::protocol);
}

/* Chunks without a byte are none; but a call cannot be in one. */
RPCORDMA_TEST(chunk_arrival, empty_segments)
{
	const auto beyond = plan({{400, 0}, {800, 0}}, 40);
	ASSERT_OK(beyond);
	EXPECT_EQ(beyond.value().how, How::inline_);
	EXPECT_EQ(beyond.value().message_length, 40);
	EXPECT_EQ(beyond.value().segments, 0);

	EXPECT_ERROR(plan({{40, 0}}, 0), Error::protocol);
	EXPECT_ERROR(plan({{0, 0}}, 0), Error::protocol);
	EXPECT_ERROR(plan({{0, 0}}, 40), Error::protocol);
	EXPECT_ERROR(plan({{0, 0}, {40, 0}}, 0), Error::protocol);
	/* The call is to be in the Position Zero chunk, and is not. */
	EXPECT_ERROR(plan({{0, 0}, {40, 100}}, 0), Error::protocol);

	/* Among others they change nothing. */
	const auto one = plan({{44, 0}, {40, 0}, {40, 100}, {40, 0}, {4000, 0}}, 60);
	ASSERT_OK(one);
	EXPECT_EQ(one.value().how, How::single);
	EXPECT_EQ(one.value().position, 40);
	EXPECT_EQ(one.value().sink_length, 100);
	EXPECT_EQ(one.value().message_length, 160);
	const auto two = plan({{40, 0}, {48, 10}, {40, 0}, {40, 5}, {48, 0}}, 60);
	ASSERT_OK(two);
	EXPECT_EQ(two.value().how, How::linear);
	EXPECT_EQ(two.value().position, 40);
	EXPECT_EQ(two.value().message_length, 60 + 8 + 12);
	EXPECT_EQ(two.value().segments, 2);
	const auto zero = plan({{0, 0}, {0, 52}, {0, 0}}, 0);
	ASSERT_OK(zero);
	EXPECT_EQ(zero.value().how, How::linear);
	EXPECT_EQ(zero.value().position, 0);
	EXPECT_EQ(zero.value().message_length, 52);
	EXPECT_EQ(zero.value().segments, 1);
}

/* One chunk, at every Position, of every length modulo the pad. */
RPCORDMA_TEST(chunk_arrival, single)
{
	constexpr u32 inline_length = 60;

	for (u32 position = 4; position <= inline_length; position += 4)
		for (u32 length = 1; length <= 9; length++) {
			TEST_NOTE("position", position);
			TEST_NOTE("length", length);
			const auto arrival = plan({{position, length}}, inline_length);
			ASSERT_OK(arrival);
			EXPECT_EQ(arrival.value().how, How::single);
			EXPECT_EQ(arrival.value().position, position);
			EXPECT_EQ(arrival.value().sink_length, length);
			EXPECT_EQ(arrival.value().inline_length, inline_length);
			EXPECT_EQ(arrival.value().message_length,
				  inline_length + (length + 3) / 4 * 4);
			EXPECT_EQ(arrival.value().segments, 1);
			EXPECT_FALSE(arrival.value().position_zero);
		}
	/* Behind the end of the inline part; without one. */
	EXPECT_ERROR(plan({{inline_length + 4, 8}}, inline_length), Error::protocol);
	EXPECT_ERROR(plan({{~3u, 8}}, inline_length), Error::protocol);
	EXPECT_ERROR(plan({{4, 8}}, 0), Error::protocol);
}

RPCORDMA_TEST(chunk_arrival, single_too_long)
{
	/* Inline part, data and pad against the limit, one byte at a time. */
	for (u32 length = kMost - 60 - 8; length <= kMost + 8; length++) {
		TEST_NOTE("length", length);
		EXPECT_EQ(plan({{40, length}}, 60).ok(), 60 + (length + 3) / 4 * 4 <= kMost);
		EXPECT_EQ(plan({{40, 16}, {40, length - 16}}, 60).ok(),
			  60 + (length + 3) / 4 * 4 <= kMost);
	}
	/* Sums beyond 32 bits. */
	EXPECT_ERROR(plan({{40, ~0u}}, 60), Error::protocol);
	EXPECT_ERROR(plan({{40, ~0u}, {40, 101}}, 60), Error::protocol);
	EXPECT_ERROR(plan({{40, 0x80000000}, {40, 0x80000000}}, 60), Error::protocol);
	EXPECT_ERROR(plan({{40, 8}}, ~0u - 4), Error::protocol);
}

/* The whole call in a Position Zero chunk. */
RPCORDMA_TEST(chunk_arrival, position_zero)
{
	const auto arrival = plan({{0, 100}, {0, 28}}, 0);
	ASSERT_OK(arrival);
	EXPECT_EQ(arrival.value().how, How::linear);
	EXPECT_TRUE(arrival.value().position_zero);
	EXPECT_EQ(arrival.value().inline_length, 0);
	EXPECT_EQ(arrival.value().sink_length, 128);
	EXPECT_EQ(arrival.value().message_length, 128);
	EXPECT_EQ(arrival.value().segments, 2);

	EXPECT_OK(plan({{0, kMost}}, 0));
	EXPECT_OK(plan({{0, 1}, {0, kMost - 1}}, 0));
	EXPECT_ERROR(plan({{0, kMost + 1}}, 0), Error::protocol);
	EXPECT_ERROR(plan({{0, ~0u}, {0, ~0u}}, 0), Error::protocol);
	EXPECT_EQ(walk({{0, kMost}}, 0).value(), kMost);
	EXPECT_ERROR(walk({{0, kMost}, {0, 1}}, 0), Error::protocol);
}

/* A Position Zero chunk is the stream that other chunks are cut from. */
RPCORDMA_TEST(chunk_arrival, position_zero_with_others)
{
	/* What is behind the chunk, too, comes from the Position Zero chunk: the segment is split. */
	const auto arrival = plan({{0, 100}, {40, 13}}, 0);
	ASSERT_OK(arrival);
	EXPECT_EQ(arrival.value().how, How::linear);
	EXPECT_TRUE(arrival.value().position_zero);
	EXPECT_EQ(arrival.value().message_length, 116);
	EXPECT_EQ(arrival.value().sink_length, 116);
	EXPECT_EQ(arrival.value().segments, 3);

	/* At its end, and behind it. */
	EXPECT_EQ(plan({{0, 100}, {100, 13}}, 0).value().segments, 2);
	EXPECT_ERROR(plan({{0, 100}, {104, 13}}, 0), Error::protocol);
	EXPECT_ERROR(plan({{104, 13}, {0, 100}}, 0), Error::protocol);
	/* What comes before counts: the stream is longer than its base. */
	EXPECT_OK(plan({{0, 100}, {40, 13}, {116, 8}}, 0));
	EXPECT_ERROR(plan({{0, 100}, {40, 13}, {120, 8}}, 0), Error::protocol);
	/* Too long with the rest of the base. */
	EXPECT_OK(plan({{0, 100}, {40, kMost - 100}}, 0));
	EXPECT_ERROR(plan({{0, 104}, {40, kMost - 103}}, 0), Error::protocol);
	EXPECT_ERROR(walk({{0, 104}, {40, kMost - 100}}, 0), Error::protocol);
}

RPCORDMA_TEST(chunk_arrival, several)
{
	const auto arrival = plan({{40, 13}, {60, 8}}, 100);
	ASSERT_OK(arrival);
	EXPECT_EQ(arrival.value().how, How::linear);
	EXPECT_FALSE(arrival.value().position_zero);
	EXPECT_EQ(arrival.value().inline_length, 100);
	EXPECT_EQ(arrival.value().message_length, 124);
	EXPECT_EQ(arrival.value().sink_length, 124);
	EXPECT_EQ(arrival.value().segments, 2);

	/* Side by side, the first with its pad left out or not. */
	EXPECT_OK(plan({{40, 13}, {56, 8}}, 100));
	EXPECT_OK(plan({{40, 16}, {56, 8}}, 100));
	EXPECT_OK(plan({{56, 8}, {40, 16}}, 100));
	/* In the midst of each other, at the first byte or in the last word. */
	for (u32 inside = 44; inside < 56; inside += 4) {
		TEST_NOTE("inside", inside);
		EXPECT_ERROR(plan({{40, 13}, {inside, 8}}, 100), Error::protocol);
		EXPECT_ERROR(plan({{inside, 8}, {40, 13}}, 100), Error::protocol);
		EXPECT_ERROR(plan({{40, 16}, {inside, 8}}, 100), Error::protocol);
	}
	/* Behind the end; the end moves with what is before. */
	EXPECT_OK(plan({{40, 13}, {116, 8}}, 100));
	EXPECT_ERROR(plan({{40, 13}, {120, 8}}, 100), Error::protocol);
	EXPECT_ERROR(plan({{40, 13}, {~3u, 8}}, 100), Error::protocol);
	EXPECT_ERROR(plan({{104, 13}, {116, 8}}, 100), Error::protocol);
}

RPCORDMA_TEST(chunk_arrival, several_too_long)
{
	/* The limit among the first chunk, its pad, the second, its pad, and the rest inline. */
	for (u32 most = 90; most <= 140; most++) {
		TEST_NOTE("limit", most);
		EXPECT_EQ(plan({{40, 13}, {60, 7}}, 100, most).ok(), most >= 124);
		EXPECT_EQ(walk({{40, 13}, {60, 7}}, 100, most).ok(), most >= 124);
		/* Nothing behind the last: its pad is the end. */
		EXPECT_EQ(plan({{40, 13}, {100, 7}}, 84, most).ok(), most >= 108);
		EXPECT_EQ(walk({{40, 13}, {100, 7}}, 84, most).ok(), most >= 108);
		EXPECT_EQ(plan({{0, 84}, {40, 13}, {100, 7}}, 0, most).ok(), most >= 108);
	}
	EXPECT_ERROR(walk({{40, ~0u}, {60, 8}}, 100), Error::protocol);
	EXPECT_ERROR(walk({{40, 13}, {60, ~0u}}, 100), Error::protocol);
	EXPECT_ERROR(plan({{40, kMost / 2}, {60, kMost / 2 + 1}}, 100), Error::protocol);
}

/* A chunk's segments in any order among other chunks', but in order among themselves. */
RPCORDMA_TEST(chunk_arrival, order)
{
	static constexpr Piece pieces[] = {{60, 3}, {0, 30}, {40, 8}, {60, 4}, {0, 50}, {40, 5}};
	/* Which of these fills the sink from where, and how far into the segment. */
	static constexpr struct {
		u32 piece, skipped = 0, at, length;
	} expected[] = {
		{.piece = 1, .at = 0, .length = 30},
		{.piece = 4, .at = 30, .length = 10},
		{.piece = 2, .at = 40, .length = 8},
		{.piece = 5, .at = 48, .length = 5},
		{.piece = 4, .skipped = 10, .at = 56, .length = 4},
		{.piece = 0, .at = 60, .length = 3},
		{.piece = 3, .at = 63, .length = 4},
		{.piece = 4, .skipped = 14, .at = 68, .length = 36},
	};
	ListMaker made;
	u32 n = 0;

	for (u32 i = 0; i < 6; i++)
		made.read(pieces[i].position, {Rkey(i), pieces[i].length, 1000 * (i + 1)});
	const xdr::ChunkLists lists = made.decode();
	const auto length = walk_arrival(
		lists.reads, 0, kMost,
		[&](const xdr::Segment &part, u32 at) {
			TEST_NOTE("part", n);
			ASSERT_LT(n, 8);
			const auto &e = expected[n++];
			EXPECT_EQ(part.handle, Rkey(e.piece));
			EXPECT_EQ(part.offset, 1000 * (e.piece + 1) + e.skipped);
			EXPECT_EQ(part.length, e.length);
			EXPECT_EQ(at, e.at);
		},
		[](u32, u32, u32) { EXPECT_TRUE(false); });
	ASSERT_OK(length);
	EXPECT_EQ(length.value(), 104);
	EXPECT_EQ(n, 8);
}

namespace {

/* A requester's memory: one segment behind the other, with room between them. */
constexpr u32 kSegments = 40, kMemory = 8192;
constexpr u64 kAddress = u64(1) << 32;

/** A call, and the call reduced: what a requester with any taste might send. */
struct Reduced {
	u32 length;
	u8 message[1400];
	bool pad_left_out[1400]; /* such a byte of the message is sent nowhere */
	u32 inline_length;
	u8 inline_part[1400];
	bool zero;
	u32 chunks; /* that are not empty, Position Zero not counted */
	u32 count;
	xdr::ReadSegment segments[kSegments];
	u8 memory[kMemory];
	u32 memory_used;

	void make(Random &random);

private:
	void segments_of_(Random &random, u32 position, Bytes bytes);
	void shuffle_(Random &random);
};

/* Put @bytes in up to four segments, some of them empty. */
void Reduced::segments_of_(Random &random, u32 position, Bytes bytes)
{
	u32 pieces = 1 + random.below(4);

	for (usize at = 0; pieces--;) {
		const u32 left = u32(bytes.size() - at);
		const u32 n = pieces ? random.below(left + 1) : left;

		ASSERT_LT(count, kSegments);
		memory_used += random.below(8);
		segments[count] = {Position(position),
				   {Rkey(1000 + count), n, kAddress + memory_used}};
		count++;
		for (u32 i = 0; i < n; i++)
			memory[memory_used++] = bytes[at++];
	}
}

/* Mix the segments; those of one Position stay in order. */
void Reduced::shuffle_(Random &random)
{
	for (u32 turn = 0; turn < 4 * count; turn++) {
		const u32 i = random.below(count);

		if (i + 1 == count || segments[i].position == segments[i + 1].position)
			continue;
		const xdr::ReadSegment first = segments[i];
		segments[i] = segments[i + 1];
		segments[i + 1] = first;
	}
}

void Reduced::make(Random &random)
{
	u8 base[sizeof(message)];
	u32 base_length = 0;
	const u32 items = random.below(5);

	length = inline_length = count = chunks = memory_used = 0;
	zero = random.one_in(2);
	auto stays = [&](u32 n) {
		for (; n--; length++) {
			message[length] = base[base_length++] = u8(random.below(256));
			pad_left_out[length] = false;
		}
	};
	stays(4 * (1 + random.below(20)));
	for (u32 i = 0; i < items; i++) {
		const u32 position = length, data = 1 + random.below(200);
		const bool with_pad = random.one_in(2);

		for (u32 n = 0; n < data + xdr_pad(data); n++, length++) {
			message[length] = n < data ? u8(random.below(256)) : 0;
			pad_left_out[length] = n >= data && !with_pad;
		}
		segments_of_(random, position,
			     {message + position, with_pad ? length - position : data});
		chunks++;
		/* The next may follow at once; the last may be the end. */
		if (!random.one_in(3))
			stays(4 * random.below(20));
	}
	if (zero) {
		segments_of_(random, 0, {base, base_length});
	} else {
		inline_length = base_length;
		__builtin_memcpy(inline_part, base, base_length);
	}
	/* At places where there is nothing. */
	if (random.one_in(4) && count)
		segments[count++] = {Position(4 * random.below(500)), {Rkey(1), 0, 0}};
	if (!random.one_in(3) && count)
		shuffle_(random);
	/* The empty one must not turn a call without Position Zero chunk into one that has it. */
	for (u32 i = 0; i < count; i++)
		if (!zero && !segments[i].position.get())
			segments[i].position = Position(4);
}

/** The responder's side: the call as it is handed to the service, and what was touched of the sink. */
struct Sink {
	u8 bytes[1400];
	bool filled[1400];
	u32 end; /* of what was filled last */

	void fill(u32 at, Bytes from)
	{
		/* Ascending, and within. */
		ASSERT_GE(at, end);
		ASSERT_LE(at + from.size(), sizeof(bytes));
		for (usize i = 0; i < from.size(); i++) {
			bytes[at + i] = from[i];
			filled[at + i] = true;
		}
		end = at + u32(from.size());
	}
};

/* What an RDMA Read of @part returns, if all of it lies in the segment that its R_key names. */
Bytes read(const Reduced &call, const xdr::Segment &part)
{
	const u32 at = u32(part.offset - kAddress);

	for (u32 i = 0; i < call.count; i++) {
		const xdr::Segment &s = call.segments[i].target;

		if (s.handle == part.handle && part.offset >= s.offset &&
		    part.offset + part.length <= s.offset + s.length)
			return {call.memory + at, part.length};
	}
	EXPECT_TRUE(false);
	return {};
}

void put_together(const Reduced &call, const Arrival &arrival, const xdr::ReadList &reads,
		  Sink &sink)
{
	u32 at = 0;

	switch (arrival.how) {
	case How::inline_:
		sink.fill(0, {call.inline_part, call.inline_length});
		break;
	case How::single:
		sink.fill(0, {call.inline_part, arrival.position});
		at = arrival.position;
		for (xdr::ReadSegment segment : reads) {
			sink.fill(at, read(call, segment.target));
			at += segment.target.length;
		}
		EXPECT_EQ(at, arrival.position + arrival.sink_length);
		sink.fill(at + xdr_pad(arrival.sink_length),
			  {call.inline_part + arrival.position,
			   call.inline_length - arrival.position});
		break;
	case How::sent:
		EXPECT_TRUE(false); /* there are no chunks then */
		break;
	case How::linear: {
		u32 segments = 0, pads = 0, left_out = 0;
		const auto walked = walk_arrival(
			reads, arrival.inline_length, arrival.message_length,
			[&](const xdr::Segment &part, u32 to) {
				EXPECT_GT(part.length, 0);
				sink.fill(to, read(call, part));
				segments++;
			},
			[&](u32 from, u32 to, u32 length) {
				EXPECT_GT(length, 0);
				ASSERT_LE(from + length, call.inline_length);
				sink.fill(to, {call.inline_part + from, length});
			},
			[&](u32 at, u32 length) {
				/* Those that were left out, each once. */
				EXPECT_GT(length, 0);
				EXPECT_LT(length, 4);
				ASSERT_GE(at, sink.end);
				for (u32 n = 0; n < length; n++)
					EXPECT_TRUE(call.pad_left_out[at + n]);
				pads += length;
			});
		ASSERT_OK(walked);
		EXPECT_EQ(walked.value(), arrival.message_length);
		EXPECT_EQ(segments, arrival.segments);
		for (u32 i = 0; i < call.length; i++)
			left_out += call.pad_left_out[i];
		EXPECT_EQ(pads, left_out);
		break;
	}
	}
}

} // namespace

/* Any call, reduced in any way, is the same call again. */
RPCORDMA_TEST(chunk_arrival, any_call)
{
	Reduced &call = test_zeroed<Reduced>();
	Sink &sink = test_zeroed<Sink>();
	u32 seen[3] = {};

	for (u32 seed = 0; seed < 2000; seed++) {
		TEST_NOTE("seed", seed);
		Random random(seed);
		ListMaker made;

		call.make(random);
		for (u32 i = 0; i < call.count; i++)
			made.read(call.segments[i].position.get(), call.segments[i].target);
		const xdr::ChunkLists lists = made.decode();
		const auto arrival = planned(lists.reads, call.inline_length, call.length);
		ASSERT_OK(arrival);
		EXPECT_EQ(arrival.value().how, call.zero || call.chunks > 1 ? How::linear :
					       call.chunks		    ? How::single :
									      How::inline_);
		EXPECT_EQ(arrival.value().position_zero, call.zero);
		ASSERT_EQ(arrival.value().message_length, call.length);
		/* Not a byte more than there is. */
		EXPECT_ERROR(planned(lists.reads, call.inline_length, call.length - 1),
			     Error::protocol);

		__builtin_memset(&sink, 0, sizeof(sink));
		put_together(call, arrival.value(), lists.reads, sink);
		for (u32 i = 0; i < call.length; i++) {
			TEST_NOTE("byte", i);
			ASSERT_EQ(sink.filled[i], !call.pad_left_out[i]);
			if (sink.filled[i])
				ASSERT_EQ(sink.bytes[i], call.message[i]);
		}
		EXPECT_LE(sink.end, call.length);
		seen[u32(arrival.value().how)]++;
	}
	for (u32 times : seen)
		EXPECT_GT(times, 50);
}

RPCORDMA_SUITE(chunk_arrival, all_inline, empty_segments, single, single_too_long, position_zero,
	       position_zero_with_others, several, several_too_long, order, any_call);
