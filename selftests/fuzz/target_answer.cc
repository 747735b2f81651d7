// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/chunk/answer.hh, on arbitrary chunk lists and results: no byte of the reply is lost or sent twice, none
 * goes where there is no room, and the header that goes with it has the length that was said and reads back as it
 * was meant. The R_key to be invalidated is one of the call's.
 */
#include "assembly.hh"
#include "fuzz.hh"
#include "module/chunk/answer.hh"

namespace rpcordma {
namespace {

using namespace chunk;

constexpr u32 kResultsMost = 20;

/* The last segment of a chunk of @length bytes, which is the @number-th of all, would have to have so many for @wanted. */
Shortfall too_short(const xdr::WriteChunk &chunk, u32 number, u64 length, u64 wanted)
{
	if (!chunk.count())
		return {};
	return {number, u32(chunk[chunk.count() - 1].length + wanted - length)};
}

/* Whether these results can be placed; the bytes that stay if so, and what is missing if not. */
bool possible(const xdr::ChunkLists &lists, Span<const ReplyRange> results, u32 length, u64 &kept,
	      Shortfall &missing)
{
	u32 i = 0, end = 0, segments = 0;

	kept = length;
	for (xdr::WriteChunk chunk : lists.writes) {
		if (i == results.size() || i == kMostResults)
			break;
		const ReplyRange &r = results[i++];
		segments += chunk.count();
		if (!chunk.count() || !r.length || r.offset < end ||
		    u64(r.offset) + r.length > length)
			continue;
		if (r.length > chunk.length()) {
			missing = too_short(chunk, segments, chunk.length(), r.length);
			return false;
		}
		end = min(r.offset + r.length + xdr_pad(r.length), length);
		kept -= end - r.offset;
	}
	return true;
}

void expect_header(const xdr::ChunkLists &lists, const Answer &a)
{
	MutableBytes room = test_alloc(a.header_length);
	v1::Encoder encoder(room, Xid(1), Credits(1), a.kind);

	encode_answer(encoder, lists, a);
	const auto length = encoder.finish();
	ASSERT_OK(length);
	EXPECT_EQ(length.value(), a.header_length);
	const auto message = decoded(room);
	ASSERT_OK(message);
	EXPECT_EQ(message.value().writes.total_length(), a.write_length);
	EXPECT_EQ(message.value().writes.segments(), lists.writes.segments());
	EXPECT_EQ(message.value().reply.present(), lists.reply.present());
	EXPECT_EQ(message.value().reply.length(), a.reply_length);
}

} // namespace
} // namespace rpcordma

FUZZ_TARGET()
{
	Input in;
	const u32 length = in.half(), max_inline = in.half(), count = in.below(kResultsMost + 1);
	ReplyRange results[kResultsMost];

	for (u32 i = 0; i < count; i++) {
		results[i] = {in.half(), in.half()};
		/* Beyond all sums, now and then. */
		if (results[i].length == 0xffff)
			results[i].offset = ~results[i].offset;
	}
	const ExactCopy bytes(in.take(1024));
	xdr::ChunkLists lists;
	xdr::Reader reader(bytes.bytes());
	if (!xdr::decode_lists(reader, lists).ok())
		return;

	const u32 key = choose_invalidation(lists);
	EXPECT_TRUE(!key || assembly::has_key(lists, key));
	const Span<const ReplyRange> all(results, count);
	Thresholds thresholds;
	thresholds.send = max_inline;
	Shortfall shortfall, missing;
	Answer a;
	const Status answer = plan_answer(lists, all, length, thresholds, a, shortfall);
	const u64 header = xdr::encoded_length(v1::min_header_length, 0, lists.writes.count(),
					       lists.writes.segments(), lists.reply.present(),
					       lists.reply.count());
	u64 kept = 0;
	bool fits_somewhere = possible(lists, all, length, kept, missing) && header <= max_inline;
	if (fits_somewhere && header + kept > max_inline &&
	    (!lists.reply.present() || lists.reply.length() < kept)) {
		fits_somewhere = false;
		missing = too_short(lists.reply, lists.writes.segments() + lists.reply.count(),
				    lists.reply.length(), kept);
	}
	EXPECT_EQ(shortfall.segment, missing.segment);
	EXPECT_EQ(shortfall.needed, missing.needed);
	if (!fits_somewhere) {
		EXPECT_ERROR(answer, Error::no_space);
		return;
	}
	ASSERT_OK(answer);
	const bool fits = header + kept <= max_inline;
	EXPECT_EQ(a.kind, fits ? xdr::Kind::msg : xdr::Kind::nomsg);
	EXPECT_EQ(a.header_length, header);
	EXPECT_EQ(a.inline_length, fits ? kept : 0);
	EXPECT_EQ(a.reply_length, fits ? 0 : kept);

	/* What stays and what is placed, in order: together they are the reply, but for pads. */
	u32 at = 0, placed = 0, rest = 0;
	while (placed < a.placed_count || rest < a.rest_count) {
		if (placed < a.placed_count && !a.placed[placed].length) {
			placed++;
		} else if (placed < a.placed_count && a.placed[placed].offset == at) {
			at += a.placed[placed].length;
			at = min(at + xdr_pad(a.placed[placed].length), length);
			placed++;
		} else {
			ASSERT_LT(rest, a.rest_count);
			EXPECT_GT(a.rest[rest].length, 0);
			EXPECT_EQ(a.rest[rest].offset, at);
			at += a.rest[rest++].length;
		}
		ASSERT_LE(at, length);
	}
	EXPECT_EQ(at, length);
	expect_header(lists, a);
}
