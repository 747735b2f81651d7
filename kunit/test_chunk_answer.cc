// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/chunk/answer: replies of every form are taken apart as the plan says, put together again as a
 * requester does, and compared byte by byte; and which R_key goes with them.
 */
#include "kunit/test_chunk_lists.hh"
#include "kunit/test_rdma_random.hh"
#include "kunit/testing.hh"
#include "module/chunk/answer.hh"
#include "xdr/v1.hh"

using namespace rpcordma;
using namespace rpcordma::chunk;

namespace {

constexpr u32 kInline = 1024;
/* Headers with this Write list: a chunk is its one, its count and its segments (RFC 8166 4.3). */
constexpr u32 kHeader = 28, kChunk = 8, kSegment = 16;

/** plan_answer() for a client that takes @most bytes of version 1 inline. */
Result<Answer> plan(const xdr::ChunkLists &lists, Span<const ReplyRange> results, u32 length,
		    u32 most, Shortfall &shortfall)
{
	Thresholds thresholds;

	thresholds.send = most;
	thresholds.bare_header = kHeader;
	Answer answer;
	TRY_STATUS(plan_answer(lists, results, length, thresholds, answer, shortfall));
	return answer;
}
Result<Answer> plan(const xdr::ChunkLists &lists, Span<const ReplyRange> results, u32 length,
		    u32 most)
{
	Shortfall shortfall;

	return plan(lists, results, length, most, shortfall);
}

xdr::Segment segment(u32 length, u32 handle = 7)
{
	return {Rkey(handle), length, 0x10000};
}

void expect_range(const ReplyRange &range, u32 offset, u32 length)
{
	EXPECT_EQ(range.offset, offset);
	EXPECT_EQ(range.length, length);
}

} // namespace

RPCORDMA_TEST(chunk_answer, all_inline)
{
	ListMaker made;
	const xdr::ChunkLists lists = made.decode();
	static constexpr ReplyRange results[] = {{40, 100}};

	for (u32 length = 1; length <= kInline; length++) {
		TEST_NOTE("length", length);
		/* Nothing was offered: results stay where they are. */
		const auto answer = plan(lists, results, length, kInline);
		if (kHeader + length > kInline) {
			EXPECT_ERROR(answer, Error::no_space);
			continue;
		}
		ASSERT_OK(answer);
		EXPECT_EQ(answer.value().kind, xdr::Kind::msg);
		EXPECT_EQ(answer.value().header_length, kHeader);
		EXPECT_EQ(answer.value().inline_length, length);
		EXPECT_EQ(answer.value().reply_length, 0);
		EXPECT_EQ(answer.value().write_length, 0);
		EXPECT_EQ(answer.value().placed_count, 0);
		ASSERT_EQ(answer.value().rest_count, 1);
		expect_range(answer.value().rest[0], 0, length);
	}
}

/* One result in one Write chunk, with bytes behind it and none, with its pad and without. */
RPCORDMA_TEST(chunk_answer, placed)
{
	for (u32 size = 1; size <= 9; size++)
		for (u32 behind : {0u, 4u, 20u})
			for (const bool padded : {true, false}) {
				TEST_NOTE("size", size);
				TEST_NOTE("behind", behind);
				TEST_NOTE("padded", padded);
				if (!padded && behind)
					continue;
				ListMaker made;
				const xdr::Segment segments[] = {segment(5), segment(4)};
				made.end_reads();
				made.write_chunk(segments);
				const xdr::ChunkLists lists = made.decode();
				const ReplyRange results[] = {{40, size}};
				const u32 end = 40 + size + (padded ? xdr_pad(size) : 0);
				const auto answer = plan(lists, results, end + behind, kInline);
				ASSERT_OK(answer);
				const Answer &a = answer.value();
				EXPECT_EQ(a.kind, xdr::Kind::msg);
				EXPECT_EQ(a.header_length, kHeader + kChunk + 2 * kSegment);
				EXPECT_EQ(a.inline_length, 40 + behind);
				EXPECT_EQ(a.write_length, size);
				ASSERT_EQ(a.placed_count, 1);
				expect_range(a.placed[0], 40, size);
				ASSERT_EQ(a.rest_count, behind ? 2 : 1);
				expect_range(a.rest[0], 0, 40);
				if (behind)
					expect_range(a.rest[1], end, behind);
			}
}

/*
 * One result and one segment, as most READs have it, is planned a short way. Beside that of two chunks, the second empty,
 * which is not, and whose header is so much longer.
 */
RPCORDMA_TEST(chunk_answer, one_segment)
{
	constexpr u32 kSize = 9, lone_header = kHeader + kChunk + kSegment;
	const xdr::Segment segments[] = {segment(kSize)};
	ListMaker one, two;

	one.end_reads();
	one.write_chunk(segments);
	two.end_reads();
	two.write_chunk(segments);
	two.write_chunk({});
	const xdr::ChunkLists lone = one.decode(), general = two.decode();
	for (u32 length = 0; length <= 28; length++)
		for (u32 offset = 0; offset <= length + 1; offset++)
			for (u32 size = 0; size <= kSize + 1; size++)
				for (u32 most = lone_header - 1; most <= lone_header + 29; most++) {
					TEST_NOTE("length", length);
					TEST_NOTE("offset", offset);
					TEST_NOTE("size", size);
					TEST_NOTE("most", most);
					const ReplyRange results[] = {{offset, size}};
					Shortfall short_lone, short_general;
					const auto got =
						plan(lone, results, length, most, short_lone);
					const auto wanted = plan(general, results, length,
								 most + kChunk, short_general);
					ASSERT_EQ(got.ok(), wanted.ok());
					if (!got.ok()) {
						EXPECT_EQ(short_lone.segment, short_general.segment);
						EXPECT_EQ(short_lone.needed, short_general.needed);
						continue;
					}
					const Answer &a = got.value(), &b = wanted.value();
					EXPECT_EQ(a.kind, b.kind);
					EXPECT_EQ(a.header_length + kChunk, b.header_length);
					EXPECT_EQ(a.transmissions, b.transmissions);
					EXPECT_EQ(a.inline_length, b.inline_length);
					EXPECT_EQ(a.reply_length, b.reply_length);
					EXPECT_EQ(a.write_length, b.write_length);
					ASSERT_EQ(a.placed_count, 1);
					expect_range(a.placed[0], b.placed[0].offset,
						     b.placed[0].length);
					ASSERT_EQ(a.rest_count, b.rest_count);
					for (u32 i = 0; i < a.rest_count; i++)
						expect_range(a.rest[i], b.rest[i].offset,
							     b.rest[i].length);
				}
}

/* A result at the start of the reply, and one behind the other: nothing stays between. */
RPCORDMA_TEST(chunk_answer, nothing_between)
{
	ListMaker made;
	const xdr::Segment segments[] = {segment(100)};
	made.end_reads();
	made.write_chunk(segments);
	made.write_chunk(segments);
	const xdr::ChunkLists lists = made.decode();
	static constexpr ReplyRange results[] = {{0, 13}, {16, 8}};
	const auto answer = plan(lists, results, 24, kInline);
	ASSERT_OK(answer);
	EXPECT_EQ(answer.value().rest_count, 0);
	EXPECT_EQ(answer.value().inline_length, 0);
	EXPECT_EQ(answer.value().write_length, 21);
	EXPECT_EQ(answer.value().placed_count, 2);
}

/* A chunk is too small by one byte; one that asks for its result inline is not. */
RPCORDMA_TEST(chunk_answer, write_chunk_size)
{
	static constexpr ReplyRange results[] = {{40, 100}};

	for (u32 room : {0u, 1u, 99u, 100u, 101u, ~0u}) {
		TEST_NOTE("room", room);
		ListMaker made;
		const xdr::Segment segments[] = {segment(room / 2), segment(room - room / 2)};
		made.end_reads();
		made.write_chunk(segments);
		const auto answer = plan(made.decode(), results, 140, kInline);
		if (room < 100)
			EXPECT_ERROR(answer, Error::no_space);
		else
			EXPECT_EQ(answer.value().write_length, 100);
	}
	/* More than 32 bits of room. */
	ListMaker vast;
	const xdr::Segment halves[] = {segment(1u << 31), segment(1u << 31)};
	vast.end_reads();
	vast.write_chunk(halves);
	EXPECT_OK(plan(vast.decode(), results, 140, kInline));

	ListMaker empty;
	empty.end_reads();
	empty.write_chunk({});
	const auto answer = plan(empty.decode(), results, 140, kInline);
	ASSERT_OK(answer);
	EXPECT_EQ(answer.value().inline_length, 140);
	EXPECT_EQ(answer.value().write_length, 0);
	ASSERT_EQ(answer.value().placed_count, 1);
	expect_range(answer.value().placed[0], 0, 0);
}

/* The first result goes with the first chunk, the second with the second, whatever becomes of them. */
RPCORDMA_TEST(chunk_answer, pairs)
{
	ListMaker made;
	const xdr::Segment segments[] = {segment(50)};
	made.end_reads();
	made.write_chunk(segments);
	made.write_chunk({});
	made.write_chunk(segments);
	made.write_chunk(segments);
	const xdr::ChunkLists lists = made.decode();

	/* placed; inline as asked for; empty; and one chunk more than results. */
	static constexpr ReplyRange three[] = {{20, 10}, {40, 10}, {60, 0}};
	auto answer = plan(lists, three, 100, kInline);
	ASSERT_OK(answer);
	ASSERT_EQ(answer.value().placed_count, 3);
	expect_range(answer.value().placed[0], 20, 10);
	expect_range(answer.value().placed[1], 0, 0);
	expect_range(answer.value().placed[2], 0, 0);
	EXPECT_EQ(answer.value().write_length, 10);
	EXPECT_EQ(answer.value().inline_length, 88);
	EXPECT_EQ(answer.value().header_length, kHeader + 4 * kChunk + 3 * kSegment);

	/* One result more than chunks: it is inline. */
	static constexpr ReplyRange five[] = {{0, 4}, {4, 4}, {8, 4}, {12, 4}, {16, 4}};
	answer = plan(lists, five, 100, kInline);
	ASSERT_OK(answer);
	EXPECT_EQ(answer.value().placed_count, 4);
	EXPECT_EQ(answer.value().write_length, 12);
	EXPECT_EQ(answer.value().inline_length, 88);
	/* Without results, all chunks are unused. */
	answer = plan(lists, {}, 100, kInline);
	ASSERT_OK(answer);
	EXPECT_EQ(answer.value().placed_count, 0);
	EXPECT_EQ(answer.value().inline_length, 100);
}

/* A result that the service announced and took back, or one that is not behind the one before. */
RPCORDMA_TEST(chunk_answer, not_in_the_reply)
{
	static constexpr struct {
		ReplyRange result;
		bool placed;
	} results[] = {
		{.result = {92, 8}, .placed = true},   {.result = {92, 9}, .placed = false},
		{.result = {100, 1}, .placed = false}, {.result = {104, 1}, .placed = false},
		{.result = {~3u, 8}, .placed = false}, {.result = {92, ~0u}, .placed = false},
		{.result = {36, 4}, .placed = true},   {.result = {32, 4}, .placed = false},
		{.result = {20, 16}, .placed = false}, {.result = {0, 8}, .placed = false},
	};

	for (const auto &r : results) {
		TEST_NOTE("offset", r.result.offset);
		TEST_NOTE("length", r.result.length);
		ListMaker made;
		const xdr::Segment segments[] = {segment(~0u)};
		made.end_reads();
		made.write_chunk(segments);
		made.write_chunk(segments);
		/* The first ends with its pad at 36. */
		const ReplyRange two[] = {{20, 13}, r.result};
		const auto answer = plan(made.decode(), two, 100, kInline);
		ASSERT_OK(answer);
		EXPECT_EQ(answer.value().placed_count, 2);
		EXPECT_EQ(answer.value().placed[1].length, r.placed ? r.result.length : 0);
		EXPECT_EQ(answer.value().inline_length, 84 - (r.placed ? r.result.length : 0));
	}
}

/* More chunks than there is a place for: the rest is inline. */
RPCORDMA_TEST(chunk_answer, many)
{
	constexpr u32 n = kMostResults + 2;
	ListMaker made;
	const xdr::Segment segments[] = {segment(4)};
	ReplyRange results[n];

	made.end_reads();
	for (u32 i = 0; i < n; i++) {
		results[i] = {8 * i + 4, 4};
		made.write_chunk(segments);
	}
	const auto answer = plan(made.decode(), results, 8 * n + 4, kInline);
	ASSERT_OK(answer);
	EXPECT_EQ(answer.value().placed_count, kMostResults);
	EXPECT_EQ(answer.value().write_length, 4 * kMostResults);
	EXPECT_EQ(answer.value().rest_count, kMostResults + 1);
	EXPECT_EQ(answer.value().inline_length, 8 * n + 4 - 4 * kMostResults);
}

RPCORDMA_TEST(chunk_answer, reply_chunk)
{
	const xdr::Segment segments[] = {segment(1000), segment(1000)};
	constexpr u32 header = kHeader + 4 + 2 * kSegment;

	for (u32 length = kInline - header - 1; length <= 2001; length++) {
		TEST_NOTE("length", length);
		ListMaker made;
		made.reply_chunk(segments);
		const auto answer = plan(made.decode(), {}, length, kInline);
		if (length > 2000) {
			EXPECT_ERROR(answer, Error::no_space);
			continue;
		}
		ASSERT_OK(answer);
		const bool fits = header + length <= kInline;
		EXPECT_EQ(answer.value().kind, fits ? xdr::Kind::msg : xdr::Kind::nomsg);
		EXPECT_EQ(answer.value().header_length, header);
		EXPECT_EQ(answer.value().inline_length, fits ? length : 0);
		EXPECT_EQ(answer.value().reply_length, fits ? 0 : length);
		ASSERT_EQ(answer.value().rest_count, 1);
		expect_range(answer.value().rest[0], 0, length);
	}
	/* One without a segment is not there. */
	ListMaker made;
	made.reply_chunk({});
	const xdr::ChunkLists lists = made.decode();
	EXPECT_OK(plan(lists, {}, kInline - kHeader - 4, kInline));
	EXPECT_ERROR(plan(lists, {}, kInline - kHeader - 3, kInline), Error::no_space);
}

/* Of what is too short the first is told, by its last segment, and what that would have to be: with so much, it fits. */
RPCORDMA_TEST(chunk_answer, shortfall)
{
	static constexpr ReplyRange results[] = {{40, 100}, {140, 60}, {200, 20}};
	static constexpr u32 length = 4000;
	/* Segments of three Write chunks, of which the second is empty, and of a Reply chunk. */
	static constexpr struct {
		u32 writes[5], reply[2];
		u32 segment, needed;
	} cases[] = {
		{{50, 50, 10, 5, 5}, {3000, 1000}, 0, 0},  {{50, 49, 1, 1, 1}, {1, 1}, 2, 50},
		{{0, 0, 1, 1, 1}, {1, 1}, 2, 100},	   {{99, 0, 1, 1, 1}, {1, 1}, 2, 1},
		{{50, 50, 10, 5, 4}, {1, 1}, 5, 5},	   {{90, 90, 0, 0, 0}, {0, 0}, 5, 20},
		{{50, 50, 10, 5, 5}, {3000, 879}, 7, 880}, {{50, 50, 10, 5, 5}, {0, 0}, 7, 3880},
		{{50, 50, 10, 5, 5}, {3879, 0}, 7, 1},
	};

	for (const auto &k : cases) {
		TEST_NOTE("case", u32(&k - cases));
		u32 writes[5], reply[2], told = 0;

		__builtin_memcpy(writes, k.writes, sizeof(writes));
		__builtin_memcpy(reply, k.reply, sizeof(reply));
		for (const bool mended : {false, true}) {
			ListMaker made;
			const xdr::Segment first[] = {segment(writes[0]), segment(writes[1])};
			const xdr::Segment third[] = {segment(writes[2]), segment(writes[3]),
						      segment(writes[4])};
			const xdr::Segment last[] = {segment(reply[0]), segment(reply[1])};
			Shortfall missing;

			made.end_reads();
			made.write_chunk(first);
			made.write_chunk({});
			made.write_chunk(third);
			made.end_writes();
			made.reply_chunk(last);
			const auto answer = plan(made.decode(), results, length, kInline, missing);
			if (mended) {
				/* Or something behind it is too short. */
				EXPECT_TRUE(answer.ok() || missing.segment > told);
				break;
			}
			EXPECT_EQ(answer.ok(), k.segment == 0);
			EXPECT_EQ(missing.segment, k.segment);
			EXPECT_EQ(missing.needed, k.needed);
			told = missing.segment;
			if (!told)
				break;
			(told <= 5 ? writes[told - 1] : reply[told - 6]) = missing.needed;
		}
	}
	/* Where no segment could be longer: no Reply chunk, one without segments, a header that does not fit. */
	for (const bool empty : {false, true}) {
		ListMaker made;
		Shortfall missing;

		if (empty)
			made.reply_chunk({});
		EXPECT_ERROR(plan(made.decode(), {}, length, kInline, missing), Error::no_space);
		EXPECT_EQ(missing.segment, 0);
		EXPECT_EQ(missing.needed, 0);
	}
	ListMaker made;
	const xdr::Segment one[] = {segment(1)};
	Shortfall missing;
	made.reply_chunk(one);
	EXPECT_ERROR(plan(made.decode(), {}, length, kHeader + 4, missing), Error::no_space);
	EXPECT_EQ(missing.segment, 0);
	EXPECT_EQ(missing.needed, 0);
}

/* A header that must come back does not fit by itself. */
RPCORDMA_TEST(chunk_answer, header_too_long)
{
	xdr::Segment segments[8] = {};

	for (u32 n = 0; n <= 8; n++) {
		TEST_NOTE("segments", n);
		ListMaker made;
		made.reply_chunk(Span<const xdr::Segment>(segments).first(n));
		const xdr::ChunkLists lists = made.decode();
		const u32 header = kHeader + 4 + n * kSegment;

		EXPECT_OK(plan(lists, {}, 0, header));
		EXPECT_ERROR(plan(lists, {}, 0, header - 1), Error::no_space);
		EXPECT_ERROR(plan(lists, {}, 1, header), Error::no_space);
	}
}

namespace {

constexpr u32 kResults = 6, kLongest = 1200;

/** A reply with results, and the chunks offered for them. */
struct Reply {
	u32 length;
	u8 bytes[kLongest];
	u32 result_count;
	ReplyRange results[kResults];
	u32 chunk_count;
	bool chunk_empty[kResults + 1];
	u32 chunk_room[kResults + 1];
	bool reply_chunk;
	u32 reply_room;
	u32 max_inline;
	u32 header;

	[[nodiscard]] xdr::ChunkLists make(Random &random, ListMaker &made);
};

/* A chunk of up to three segments. Returns how many bytes it has. */
u32 any_segments(Random &random, u32 least, xdr::Segment (&segments)[3], u32 &count)
{
	u32 sum = 0;

	count = 1 + random.below(3);
	for (u32 i = 0; i < count; i++) {
		segments[i] = segment(random.below(300));
		sum += segments[i].length;
	}
	/* Mostly it is enough. */
	if (sum < least && !random.one_in(8)) {
		segments[count - 1].length += least - sum;
		sum = least;
	}
	return sum;
}

xdr::ChunkLists Reply::make(Random &random, ListMaker &made)
{
	xdr::Segment segments[3];
	u32 n;

	length = 0;
	auto stays = [&](u32 count) {
		while (count--)
			bytes[length++] = u8(random.below(256));
	};
	stays(4 * random.below(10));
	result_count = random.below(kResults + 1);
	for (u32 i = 0; i < result_count; i++) {
		const u32 size = random.one_in(6) ? 0 : 1 + random.below(100);

		results[i] = {length, size};
		stays(size);
		/* The pad of the last may be missing, as of a READ of odd length. */
		if (i + 1 < result_count || random.one_in(2)) {
			for (u32 pad = xdr_pad(size); pad--;)
				bytes[length++] = 0;
			stays(4 * random.below(12));
		}
	}
	header = kHeader;
	made.end_reads();
	chunk_count = random.below(result_count + 2);
	for (u32 i = 0; i < chunk_count; i++) {
		chunk_empty[i] = random.one_in(5);
		n = chunk_room[i] = 0;
		if (!chunk_empty[i])
			chunk_room[i] = any_segments(random,
						     i < result_count ? results[i].length : 0,
						     segments, n);
		made.write_chunk({segments, n});
		header += kChunk + n * kSegment;
	}
	reply_chunk = random.one_in(2);
	reply_room = 0;
	if (reply_chunk) {
		reply_room = any_segments(random, random.below(length + 1), segments, n);
		made.reply_chunk({segments, n});
		header += 4 + n * kSegment;
	}
	max_inline = header + random.below(kLongest);
	return made.decode();
}

/* Whether the reply can be sent at all; what @kept is of it when the results are placed. */
bool possible(const Reply &reply, u32 &kept)
{
	bool fits = true;

	kept = reply.length;
	for (u32 i = 0; i < reply.result_count && i < reply.chunk_count; i++) {
		const ReplyRange &r = reply.results[i];

		if (reply.chunk_empty[i] || !r.length)
			continue;
		fits = fits && r.length <= reply.chunk_room[i];
		const u32 end = r.offset + r.length + xdr_pad(r.length);
		kept -= (end < reply.length ? end : reply.length) - r.offset;
	}
	return fits && (reply.header + kept <= reply.max_inline ||
			(reply.reply_chunk && kept <= reply.reply_room));
}

/* Do what @answer says, then what a requester does, and compare. */
void send_and_receive(const Reply &reply, const Answer &answer)
{
	u8 rest[kLongest], whole[kLongest];
	u32 rest_length = 0, taken = 0, length = 0;

	for (u32 i = 0; i < answer.rest_count; i++) {
		const ReplyRange &r = answer.rest[i];

		EXPECT_GT(r.length, 0);
		ASSERT_LE(u64(r.offset) + r.length, reply.length);
		for (u32 n = 0; n < r.length; n++)
			rest[rest_length++] = reply.bytes[r.offset + n];
	}
	EXPECT_EQ(rest_length,
		  answer.kind == xdr::Kind::msg ? answer.inline_length : answer.reply_length);
	auto rest_until = [&](u32 offset) {
		while (length < offset && taken < rest_length)
			whole[length++] = rest[taken++];
	};
	u32 written = 0;
	for (u32 i = 0; i < answer.placed_count; i++) {
		const ReplyRange &placed = answer.placed[i];

		written += placed.length;
		/* A requester knows by its own chunk, and by what is in it, where the result is. */
		if (!placed.length)
			continue;
		ASSERT_LE(placed.length, reply.chunk_room[i]);
		rest_until(reply.results[i].offset);
		ASSERT_EQ(length, reply.results[i].offset);
		ASSERT_EQ(placed.offset, length);
		ASSERT_EQ(placed.length, reply.results[i].length);
		for (u32 n = 0; n < placed.length; n++)
			whole[length++] = reply.bytes[placed.offset + n];
		for (u32 pad = xdr_pad(placed.length); pad-- && length < reply.length;)
			whole[length++] = 0;
	}
	EXPECT_EQ(written, answer.write_length);
	rest_until(reply.length);
	EXPECT_EQ(taken, rest_length);
	EXPECT_BYTES(Bytes(whole, length), Bytes(reply.bytes, reply.length));
}

/* The header that says so: the chunks as they were offered, filled in order with what is placed. */
void expect_encoded(const xdr::ChunkLists &lists, const Answer &answer)
{
	MutableBytes room = test_alloc(answer.header_length);
	v1::Encoder encoder(room, Xid(1), Credits(1), answer.kind);
	xdr::Message header;
	u32 i = 0;

	encode_answer(encoder, lists, answer);
	const auto length = encoder.finish();
	ASSERT_OK(length);
	ASSERT_EQ(length.value(), answer.header_length);
	xdr::Reader reader(Bytes(room).from(16));
	ASSERT_OK(xdr::decode_lists(reader, header));
	EXPECT_TRUE(header.reads.empty());
	ASSERT_EQ(header.writes.count(), lists.writes.count());
	auto offered = lists.writes.begin();
	for (const xdr::WriteChunk chunk : header.writes) {
		EXPECT_EQ(chunk.count(), (*offered).count());
		EXPECT_EQ(chunk.length(), i < answer.placed_count ? answer.placed[i].length : 0);
		++offered;
		i++;
	}
	EXPECT_EQ(header.reply.present(), lists.reply.present());
	EXPECT_EQ(header.reply.length(), answer.reply_length);
}

} // namespace

/* Any reply, to any chunks, is the same reply again at the requester; or it fits nowhere. */
RPCORDMA_TEST(chunk_answer, any_reply)
{
	Reply &reply = test_zeroed<Reply>();
	u32 refused = 0, in_reply_chunk = 0, placed = 0;

	for (u32 seed = 0; seed < 3000; seed++) {
		TEST_NOTE("seed", seed);
		Random random(seed);
		ListMaker made;
		const xdr::ChunkLists lists = reply.make(random, made);
		const auto answer = plan(lists, {reply.results, reply.result_count}, reply.length,
					 reply.max_inline);
		u32 kept;

		if (!possible(reply, kept)) {
			EXPECT_ERROR(answer, Error::no_space);
			refused++;
			continue;
		}
		ASSERT_OK(answer);
		const Answer &a = answer.value();
		/* Inline if it can be. */
		const bool fits = reply.header + kept <= reply.max_inline;
		EXPECT_EQ(a.kind, fits ? xdr::Kind::msg : xdr::Kind::nomsg);
		EXPECT_EQ(a.inline_length, fits ? kept : 0);
		EXPECT_EQ(a.reply_length, fits ? 0 : kept);
		EXPECT_EQ(a.header_length, reply.header);
		EXPECT_EQ(a.placed_count, min(reply.result_count, reply.chunk_count));
		send_and_receive(reply, a);
		expect_encoded(lists, a);
		in_reply_chunk += !fits;
		placed += a.write_length > 0;
	}
	EXPECT_GT(refused, 100);
	EXPECT_GT(in_reply_chunk, 100);
	EXPECT_GT(placed, 500);
}

/* --- invalidation --- */

RPCORDMA_TEST(chunk_answer, invalidation)
{
	{
		ListMaker none;
		EXPECT_EQ(choose_invalidation(none.decode()), 0);
	}
	/* From any of the lists. */
	const xdr::Segment small[] = {segment(100, 11)}, large[] = {segment(200, 22)};
	for (u32 winner = 0; winner < 3; winner++) {
		TEST_NOTE("winner", winner);
		ListMaker made;
		made.read(40, segment(winner == 0 ? 300 : 50, 1));
		made.end_reads();
		made.write_chunk(winner == 1 ? large : small);
		made.end_writes();
		const xdr::Segment reply[] = {segment(winner == 2 ? 400 : 60, 3)};
		made.reply_chunk(reply);
		EXPECT_EQ(choose_invalidation(made.decode()), winner == 0 ? 1 :
							      winner == 1 ? 22 :
									    3);
	}
}

/* The one segment of a call, wherever it is, and whatever empty chunks are beside it; or the larger of two. */
RPCORDMA_TEST(chunk_answer, invalidation_alone)
{
	const xdr::Segment one[] = {segment(100, 7)}, other[] = {segment(200, 8)};

	for (u32 read = 0; read < 2; read++)
		for (u32 first = 0; first < 3; first++)
			for (u32 second = 0; second < 3; second++)
				for (u32 reply = 0; reply < 3; reply++) {
					ListMaker made;
					const auto chunk =
						[&](u32 which) -> Span<const xdr::Segment> {
						if (which == 2)
							return {other, 1};
						return {one, which};
					};
					const bool large = first == 2 || second == 2 || reply == 2;
					const bool any = read || first || second || reply;

					TEST_NOTE("read", read);
					TEST_NOTE("first", first);
					TEST_NOTE("second", second);
					TEST_NOTE("reply", reply);
					if (read)
						made.read(40, one[0]);
					made.end_reads();
					made.write_chunk(chunk(first));
					made.write_chunk(chunk(second));
					made.end_writes();
					made.reply_chunk(chunk(reply));
					const u32 key = choose_invalidation(made.decode());
					/* Neighbours with one R_key count as one: 200 bytes of two, and more of three. */
					u32 best = 0, most = 0, last = 0, sum = 0;
					for (u32 which : {read, first, second, reply}) {
						if (!which)
							continue;
						sum = which == last ? sum : 0;
						sum += which * 100;
						last = which;
						if (sum > most) {
							most = sum;
							best = 6 + which;
						}
					}
					EXPECT_EQ(key, best);
					EXPECT_EQ(key != 0, any);
					EXPECT_TRUE(large || key != 8);
				}
	/* Alone on each list. */
	ListMaker reads, writes, reply;
	reads.read(40, one[0]);
	EXPECT_EQ(choose_invalidation(reads.decode()), 7);
	writes.write_chunk(one);
	EXPECT_EQ(choose_invalidation(writes.decode()), 7);
	reply.reply_chunk(one);
	EXPECT_EQ(choose_invalidation(reply.decode()), 7);
}

/* In several transmissions, where the version has them: as many as it takes, or nowhere. */
RPCORDMA_TEST(chunk_answer, transmissions)
{
	ListMaker made;
	const xdr::ChunkLists lists = made.decode();
	Thresholds thresholds;

	thresholds.send = 128;
	thresholds.bare_header = 28;
	thresholds.continuation_header = 16;
	thresholds.transmissions = 3;
	for (u32 length = 1; length <= 400; length++) {
		Answer answer;
		Shortfall shortfall;
		u32 needed = 1;

		TEST_NOTE("length", length);
		for (u32 room = 100; room < length; room += 112)
			needed++;
		EXPECT_EQ(plan_answer(lists, {}, length, thresholds, answer, shortfall).ok(),
			  needed <= 3);
		if (needed > 3)
			continue;
		EXPECT_EQ(answer.transmissions, needed);
		EXPECT_EQ(answer.inline_length, length);
		EXPECT_EQ(answer.header_length, 28);
	}
}

/* A pad that the client registered for good is nothing to invalidate, alone or behind the data. */
RPCORDMA_TEST(chunk_answer, invalidation_pad)
{
	for (u32 length = 0; length <= 6; length++) {
		TEST_NOTE("length", length);
		ListMaker made;
		const xdr::Segment pad[] = {segment(length, 5)};
		made.end_reads();
		made.write_chunk(pad);
		EXPECT_EQ(choose_invalidation(made.decode()), length > 4 ? 5 : 0);
	}
	ListMaker made;
	const xdr::Segment data_and_pad[] = {segment(13, 6), segment(4, 5)};
	made.end_reads();
	made.write_chunk(data_and_pad);
	EXPECT_EQ(choose_invalidation(made.decode()), 6);
}

/* Segments of one R_key count together; the first one wins among equals. */
RPCORDMA_TEST(chunk_answer, invalidation_sums)
{
	{
		ListMaker made;
		const xdr::Segment parts[] = {segment(100, 1), segment(60, 2), segment(60, 2)};
		made.end_reads();
		made.write_chunk(parts);
		EXPECT_EQ(choose_invalidation(made.decode()), 2);
	}
	{
		ListMaker made;
		const xdr::Segment parts[] = {segment(100, 1), segment(100, 2)};
		made.end_reads();
		made.write_chunk(parts);
		EXPECT_EQ(choose_invalidation(made.decode()), 1);
	}
	{
		/* Beyond 32 bits. */
		ListMaker made;
		const xdr::Segment parts[] = {segment(~0u, 1), segment(~0u, 2), segment(9, 2)};
		made.end_reads();
		made.write_chunk(parts);
		EXPECT_EQ(choose_invalidation(made.decode()), 2);
	}
}

/* Each segment of each list is looked at, and nothing else of it than its R_key. */
RPCORDMA_TEST(chunk_answer, offered_keys)
{
	ListMaker made;
	const xdr::Segment first[] = {segment(100, 2), segment(0, 3)}, second[] = {segment(4, 4)};
	const xdr::Segment reply[] = {segment(100, 5), segment(100, 6)};

	made.read(0, segment(100, 1));
	made.read(40, segment(100, 8));
	made.end_reads();
	made.write_chunk(first);
	made.write_chunk(second);
	made.end_writes();
	made.reply_chunk(reply);
	const xdr::ChunkLists lists = made.decode();
	for (u32 key = 0; key <= 9; key++) {
		TEST_NOTE("key", key);
		EXPECT_EQ(offers(lists, Rkey(key)), key != 0 && key != 7 && key != 9);
	}
	/* A length, an offset, a position and a count are none. */
	EXPECT_FALSE(offers(lists, Rkey(100)));
	EXPECT_FALSE(offers(lists, Rkey(40)));
	EXPECT_FALSE(offers(lists, Rkey(0x10000)));
	EXPECT_FALSE(offers(xdr::ChunkLists(), Rkey(0)));
}

RPCORDMA_SUITE(chunk_answer, all_inline, placed, one_segment, nothing_between, write_chunk_size,
	       pairs, not_in_the_reply, many, reply_chunk, shortfall, header_too_long, any_reply,
	       invalidation, invalidation_alone, transmissions, invalidation_pad, invalidation_sums,
	       offered_keys);
