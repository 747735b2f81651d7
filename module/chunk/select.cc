// SPDX-License-Identifier: GPL-2.0-only
/* Whether a call and its reply go by round-trip reduction; select.hh tells it in words. */
#include "module/chunk/placement.hh"
#include "module/chunk/select.hh"

namespace rpcordma::chunk {

/* An XMTREQ that has one set of one direction, to send. */
static constexpr u32 kAskingHeader =
	rtrext::least_request_length + rtrext::set_length + rtrext::send_place_length;
/* An XMTRESP with an item that is sent, but for the numbers of its DDP segments. */
static constexpr u32 kAnsweringHeader = rtrext::least_response_length + rtrext::sent_item_length;

/* How many transmissions the reply may have, all of it being inline. */
[[nodiscard]] static u64 reply_transmissions(const CallShape &shape, const Plan &plan,
					     const Means &means)
{
	return plan.reply_chunk.empty() ?
		       1 :
		       rtrext::response_transmissions(shape.receive.length(), means.receive_bytes);
}

/* Bytes of the numbers of the DDP segments that an item of @length takes. */
[[nodiscard]] static u32 numbers_of(const properties::Structure &room, u32 length)
{
	return div_round_up(length, room.segment_length) * xdr::word_size;
}

[[nodiscard]] static Selection select_asking(const CallShape &shape, const Plan &plan,
					     const Means &means)
{
	const BufferShape &reply = shape.receive;
	Selection chosen;

	if (reply.page_length > means.read_max || !means.ours.segments ||
	    plan.send_mode != SendMode::inline_only || plan.transmissions != 1 ||
	    !plan.reply_chunk.empty() || plan.inline_length % xdr::word_size ||
	    kAskingHeader + plan.inline_length > means.send_bytes)
		return {};
	/* Around the item; no longer than the head of a Receive has room for. */
	const u32 around = reply.head_length + reply.tail_length;
	const u32 numbers = numbers_of(means.ours, reply.page_length);
	const Placement placed = place(means.ours, kAnsweringHeader + numbers + around,
				       reply.page_length, means.reply_limit);
	/* Inline it may come as well, where the server cannot send it so: there is room for that, too. */
	const u64 inline_count =
		rtrext::response_transmissions(reply.length() + rtrext::sent_item_length,
					       means.receive_bytes);
	if (!placed.transmissions || inline_count > means.reply_limit)
		return {};
	chosen.way = Way::asked_item;
	chosen.reply_transmissions = max(placed.transmissions, u32(inline_count));
	chosen.header_length = kAskingHeader;
	chosen.send_bytes = kAskingHeader + plan.inline_length;
	/* What fits one transmission costs no padding there. */
	const u32 one = rtrext::stream_room(means.receive_bytes, kAnsweringHeader);
	chosen.item_least = one > around ? (one - around) & ~u32(xdr::word_size - 1) : 0;
	return chosen;
}

[[nodiscard]] static Selection select_item(const CallShape &shape, const Plan &plan,
					   const Means &means)
{
	const u32 item = shape.send.page_length;
	const u64 replies = reply_transmissions(shape, plan, means);
	Selection chosen;

	if (item > means.write_max || plan.inline_length % xdr::word_size ||
	    !means.theirs.segments || replies > means.reply_limit)
		return {};
	const u32 header = rtrext::least_request_length + rtrext::sent_item_length +
			   numbers_of(means.theirs, item);
	const Placement placed =
		place(means.theirs, header + plan.inline_length, item, means.call_limit);
	if (!placed.transmissions || placed.segments > means.item_segments)
		return {};
	chosen.way = Way::sent_item;
	chosen.call_transmissions = placed.transmissions;
	chosen.reply_transmissions = u32(replies);
	chosen.header_length = header;
	chosen.send_bytes = means.theirs.head() + item_bytes(means.theirs, item, 0);
	return chosen;
}

[[nodiscard]] static Selection select_group(const CallShape &shape, const Plan &plan,
					    const Means &means)
{
	const u64 length = shape.send.length();
	const u32 bytes = min(means.send_bytes, means.buffer_bytes);
	const u64 count = rtrext::request_transmissions(length, bytes);
	const u64 replies = reply_transmissions(shape, plan, means);
	Selection chosen;

	if (replies > means.reply_limit || (count < 2 && replies < 2) || count > means.call_limit ||
	    length % xdr::word_size)
		return {};
	chosen.way = Way::group;
	chosen.call_transmissions = u32(count);
	chosen.reply_transmissions = u32(replies);
	chosen.header_length = rtrext::least_request_length;
	chosen.send_bytes = bytes;
	return chosen;
}

Selection select(const CallShape &shape, const Plan &plan, const Means &means)
{
	constexpr u32 kAll = properties::takes_xmtreq | properties::takes_xmtresp |
			     properties::takes_xmtcont;

	if ((means.extensions & kAll) != kAll || !plan.rkeys())
		return {};
	/* A chunk for a part of the reply: then chunks for all, as an XMTREQ offers none. */
	if (!plan.write_chunk.empty())
		return select_asking(shape, plan, means);
	if (plan.send_mode == SendMode::read_chunk)
		return select_item(shape, plan, means);
	if (!plan.read_chunk.empty())
		return {};
	return select_group(shape, plan, means);
}

} // namespace rpcordma::chunk
