// SPDX-License-Identifier: GPL-2.0-only
/*
 * Judging a reply. Every number that the peer sent is compared with one of ours before it is used
 * in a sum, so no sum here can wrap: what was offered is at most kMaxMessage.
 */
#include "module/chunk/reply.hh"

namespace rpcordma::chunk {
namespace {

/**
 * The bytes of a returned chunk, given the one that was offered. A segment may have bytes only when
 * those before it are full; so those that are left out are the last, and have none.
 */
[[nodiscard]] Result<u32> returned_length(Span<const u32> returned, const SegmentList &offered,
					  Landing &landing)
{
	bool room = false;
	u32 total = 0;

	if (offered.empty() || returned.size() > offered.size())
		return Error::bad_message;
	landing.segments_missing = landing.segments_missing || returned.size() < offered.size();
	for (u32 i = 0; i < returned.size(); i++) {
		if (returned[i] > offered[i].length || (room && returned[i]))
			return Error::bad_message;
		room = returned[i] < offered[i].length;
		total += returned[i];
	}
	return total;
}

/**
 * Lay out a reply whose payload, @landing.written bytes, is in the page data already.
 *
 * @stream   bytes of the reply's Payload stream without the payload
 * @before   of these, those before the payload, as far as the head holds them
 * @receive  what was offered
 *
 * What is behind @before follows the payload and its XDR pad. Returns its length, cut to what the tail holds.
 */
[[nodiscard]] u32 place_around_payload(u32 stream, u32 before, const BufferShape &receive,
				       Landing &landing)
{
	const u32 pad = xdr_pad(landing.written);
	const u32 room = receive.tail_length - min(pad, receive.tail_length);
	u32 rest;

	landing.head_length = before;
	rest = stream - before;
	if (rest) {
		/* The tail has to follow the last byte written, not the last byte that was offered.
		 */
		landing.page_length = landing.written;
		landing.tail_pad = min(pad, receive.tail_length);
		landing.truncated = rest > room;
		rest = min(rest, room);
	}
	/* The pad counts even where no tail holds it, as a decoder expects that skips whole words.
	 */
	landing.length = landing.head_length + landing.written + pad + rest;
	return rest;
}

/** An RDMA_MSG reply: @inline_length bytes came with the header. */
void land_inline(u32 inline_length, const BufferShape &receive, Landing &landing)
{
	if (landing.written) {
		/* Its place is not told: what the head has room for is before it. */
		landing.tail_copy = place_around_payload(inline_length,
							 min(inline_length, receive.head_length),
							 receive, landing);
		landing.head_copy = landing.head_length;
		return;
	}
	u32 left = inline_length;

	landing.head_copy = min(left, receive.head_length);
	left -= landing.head_copy;
	landing.page_copy = min(left, receive.page_length);
	left -= landing.page_copy;
	landing.tail_copy = min(left, receive.tail_length);
	left -= landing.tail_copy;
	landing.truncated = left != 0;
	landing.length = inline_length - left;
}

/** An RDMA_NOMSG reply: the Payload stream, @landing.replied bytes, is in the Reply chunk. */
void land_reply_chunk(const BufferShape &receive, const Plan &plan, Landing &landing)
{
	landing.length = landing.replied;
	if (plan.receive_mode != ReceiveMode::write_and_reply)
		return; /* head, page data and tail were filled in this order */

	/* The chunk covers head and tail only. */
	if (!landing.written) {
		landing.page_length = 0;
		return;
	}
	const u32 rest = place_around_payload(landing.replied,
					      min(landing.replied, receive.head_length), receive,
					      landing);

	landing.tail_move = landing.tail_pad ? rest : 0;
}

} // namespace

Result<Landing> land_reply(const ReplyFacts &facts, const BufferShape &receive, const Plan &plan)
{
	Landing landing;

	/* One Write chunk at most is ever offered. */
	if (facts.read_list || facts.write_chunks > 1)
		return Error::bad_message;
	if (facts.write_chunks)
		landing.written =
			TRY(returned_length(facts.write_lengths, plan.write_chunk, landing));
	if (facts.reply_chunk)
		landing.replied =
			TRY(returned_length(facts.reply_lengths, plan.reply_chunk, landing));

	landing.head_length = receive.head_length;
	landing.page_length = receive.page_length;
	if (facts.nomsg) {
		if (!landing.replied)
			return Error::bad_message;
		land_reply_chunk(receive, plan, landing);
	} else {
		/* Without inline bytes not even the xid is there. */
		if (landing.replied || !facts.inline_length)
			return Error::bad_message;
		land_inline(facts.inline_length, receive, landing);
	}
	landing.count_reduction(receive);
	return landing;
}

Result<Landing> land_item(u32 stream, u32 displacement, u32 length, const BufferShape &receive)
{
	Landing landing;

	if (displacement > min(stream, receive.head_length) || length > receive.page_length)
		return Error::bad_message;
	landing.written = length;
	landing.page_length = receive.page_length;
	landing.tail_copy = place_around_payload(stream, displacement, receive, landing);
	landing.head_copy = landing.head_length;
	landing.count_reduction(receive);
	return landing;
}

} // namespace rpcordma::chunk
