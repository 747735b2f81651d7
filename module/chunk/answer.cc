// SPDX-License-Identifier: GPL-2.0-only
/* How a reply is sent. See answer.hh. */

#include "module/chunk/answer.hh"

namespace rpcordma::chunk {

/* A segment of fewer bytes is XDR padding that a client registered for good (RFC 8166 3.4.6.2). */
static constexpr u32 kLeastInvalidated = 4;

/* @chunk has too little for @length bytes; its last segment is the @last-th of all. */
[[nodiscard]] static Shortfall shortfall_of(const xdr::WriteChunk &chunk, u32 last, u32 length)
{
	if (!chunk.count())
		return {};
	return {last, chunk[chunk.count() - 1].length + u32(length - chunk.length())};
}

/* The same, of Write chunk @index. Apart, as it happens to nobody who keeps to what a client knows. */
[[nodiscard, gnu::noinline]] static Shortfall shortfall_of(const xdr::WriteList &writes, u32 index,
							   u32 length)
{
	auto chunk = writes.begin();
	u32 last = (*chunk).count();

	while (index--) {
		++chunk;
		last += (*chunk).count();
	}
	return shortfall_of(*chunk, last, length);
}

/* Where what follows @result begins in a reply of @length bytes: its pad goes with it (3.4.6.2). */
[[nodiscard]] static u32 end_of(const ReplyRange &result, u32 length)
{
	return min(result.offset + result.length + xdr_pad(result.length), length);
}

/* A result that is in a reply of @length bytes. The service may have taken it back, when a later step of it failed. */
[[nodiscard]] static bool is_within(const ReplyRange &result, u32 length)
{
	return result.offset <= length && result.length <= length - result.offset;
}

/*
 * Most READs: one result goes into a chunk of one segment, and the rest inline. False, and nothing: it is not so, and the
 * general way says what it is.
 */
[[nodiscard]] static bool plan_lone_result(const xdr::ChunkLists &lists,
					   Span<const ReplyRange> results, u32 length,
					   const Thresholds &thresholds, Answer &answer)
{
	if (results.size() != 1 || lists.writes.count() != 1 || lists.writes.segments() != 1 ||
	    lists.reply.present())
		return false;
	const ReplyRange result = results[0];
	if (!result.length || result.length > lists.writes.total_length() ||
	    !is_within(result, length))
		return false;
	const u32 header = u32(xdr::encoded_length(thresholds.bare_header, 0, 1, 1, false, 0));
	const u32 end = end_of(result, length), kept = result.offset + (length - end);
	if (thresholds.send < header || kept > thresholds.send - header)
		return false;
	answer.header_length = header;
	answer.inline_length = kept;
	answer.write_length = result.length;
	answer.placed[answer.placed_count++] = result;
	if (result.offset)
		answer.rest[answer.rest_count++] = {0, result.offset};
	if (end < length)
		answer.rest[answer.rest_count++] = {end, length - end};
	return true;
}

Status plan_answer(const xdr::ChunkLists &lists, Span<const ReplyRange> results, u32 length,
		   const Thresholds &thresholds, Answer &answer, Shortfall &shortfall)
{
	if (plan_lone_result(lists, results, length, thresholds, answer))
		return {};
	u32 at = 0; /* of the reply; what precedes is placed or on the list of rest */
	u32 kept = 0;
	usize i = 0;

	auto keep = [&](u32 until) {
		if (until > at)
			answer.rest[answer.rest_count++] = {at, until - at};
		kept += until - at;
	};
	for (xdr::WriteChunk chunk : lists.writes) {
		if (i == results.size() || i == kMostResults)
			break;
		const ReplyRange result = results[i];

		i++;
		ReplyRange &placed = answer.placed[answer.placed_count++];
		placed = {};
		if (!chunk.count() || !result.length)
			continue;
		if (result.offset < at || !is_within(result, length))
			continue;
		if (result.length > chunk.length()) {
			shortfall = shortfall_of(lists.writes, u32(i - 1), result.length);
			return Error::no_space;
		}
		placed = result;
		answer.write_length += result.length;
		keep(result.offset);
		at = end_of(result, length);
	}
	keep(length);

	const u64 header = xdr::encoded_length(thresholds.bare_header, 0, lists.writes.count(),
					       lists.writes.segments(), lists.reply.present(),
					       lists.reply.count());
	if (header > thresholds.send)
		return Error::no_space;
	answer.header_length = u32(header);
	if (const u32 n = thresholds.transmissions_for(thresholds.send, header, kept)) {
		answer.transmissions = n;
		answer.inline_length = kept;
		return {};
	}
	if (!lists.reply.present() || lists.reply.length() < kept) {
		shortfall = shortfall_of(lists.reply, lists.writes.segments() + lists.reply.count(),
					 kept);
		return Error::no_space;
	}
	answer.kind = xdr::Kind::nomsg;
	answer.reply_length = kept;
	return {};
}

void encode_answer(xdr::ListEncoder &encoder, const xdr::ChunkLists &lists, const Answer &answer)
{
	u32 i = 0;

	for (xdr::WriteChunk offered : lists.writes) {
		encoder.write_chunk(offered, i < answer.placed_count ? answer.placed[i].length : 0);
		i++;
	}
	if (lists.reply.present())
		encoder.reply_chunk(lists.reply, answer.reply_length);
}

/* As choose_invalidation(), of any chunks. */
[[nodiscard, gnu::noinline]] static u32 choose_among(const xdr::ChunkLists &lists)
{
	u32 best = 0;
	u64 most = kLeastInvalidated;

	/* Neighbours with one R_key count as one. */
	u32 key = 0;
	u64 bytes = 0;
	auto see = [&](const xdr::Segment &segment) {
		if (segment.handle.get() != key) {
			key = segment.handle.get();
			bytes = 0;
		}
		bytes += segment.length;
		if (bytes > most) {
			most = bytes;
			best = key;
		}
	};
	for (xdr::ReadSegment segment : lists.reads)
		see(segment.target);
	for (xdr::WriteChunk chunk : lists.writes)
		for (xdr::Segment segment : chunk)
			see(segment);
	for (xdr::Segment segment : lists.reply)
		see(segment);
	return best;
}

u32 choose_invalidation(const xdr::ChunkLists &lists)
{
	if (lists.reads.count() + lists.writes.segments() != 1 || lists.writes.count() > 1 ||
	    lists.reply.count())
		return choose_among(lists);
	/* Most calls that have a chunk. */
	const xdr::Segment segment = lists.reads.count() ? lists.reads[0].target :
							   lists.writes.first_segment();

	return segment.length > kLeastInvalidated ? segment.handle.get() : 0;
}

bool offers(const xdr::ChunkLists &lists, Rkey key)
{
	bool found = false;

	for (xdr::ReadSegment segment : lists.reads)
		found = found || segment.target.handle == key;
	for (xdr::WriteChunk chunk : lists.writes)
		for (xdr::Segment segment : chunk)
			found = found || segment.handle == key;
	for (xdr::Segment segment : lists.reply)
		found = found || segment.handle == key;
	return found;
}

} // namespace rpcordma::chunk
