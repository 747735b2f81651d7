// SPDX-License-Identifier: GPL-2.0-only
/* Which way a call and its reply go with round-trip reduction. */
#include "module/chunk/placement.hh"
#include "module/chunk/select.hh"

namespace rpcordma::chunk {

/** Headers of first transmissions, as long as they may become without items: with one set of one direction to send. */
static constexpr u32 kRequestHeader =
	rtrext::least_request_length + rtrext::set_length + rtrext::send_place_length;
static constexpr u32 kResponseHeader = rtrext::least_response_length;

/** Transmissions that @length bytes inline take behind a header of @header, into Receives of @bytes. */
static u32 transmissions_of(u32 length, u32 header, u32 bytes)
{
	/* Every transmission but the last is full, up to a multiple of four. */
	const u32 first = (bytes - header) & ~u32(3);
	const u32 more = (bytes - rtrext::continuation_length) & ~u32(3);

	return 1 + div_round_up(length - min(length, first), more);
}

/** Transmissions that a message takes whose item goes in DDP segments; 0: it does not go like that. */
static u32 transmissions_placed(const properties::Structure &room, u32 header, u32 length, u32 item,
				u32 most)
{
	if (room.segments == 0)
		return 0;
	/* The item's pad goes with it. */
	const u64 numbers = u64(div_round_up(item, room.segment_length)) * xdr::word_size;
	const u64 stream = length - min(length, item + xdr_pad(item));
	const u64 bytes = header + rtrext::sent_item_length + numbers + stream;

	return bytes <= room.head() ? place(room, u32(bytes), item, most).transmissions : 0;
}

namespace {

struct Call {
	CallWay way = CallWay::one;
	u32 transmissions = 1;
};

struct Reply {
	ReplyWay way = ReplyWay::one;
	u32 transmissions = 1;
};

} // namespace

static constexpr bool has(const End &end, u32 extensions)
{
	return (end.extensions & extensions) == extensions;
}

/** An XMTREQ of @transmissions, which is not 0, may go, to be answered by an XMTRESP. */
static bool takes(const End &peer, u32 transmissions)
{
	return has(peer, properties::takes_xmtreq | properties::takes_xmtresp) &&
	       (transmissions == 1 || has(peer, properties::takes_xmtcont));
}

/** @may: an XMTREQ is a way at all. @must: the reply needs one. */
static Call select_call(const Lengths &lengths, const Means &means, bool may, bool must)
{
	const End &peer = means.peer;
	const u32 item = lengths.sealed ? 0 : lengths.call_item;
	const u32 most = min(peer.call_limit, means.credits);

	if (u64(must ? kRequestHeader : v2::min_header_length) + lengths.call <= peer.receive_bytes)
		return {};
	if (may && item != 0 && item <= means.write_max)
		if (const u32 n = transmissions_placed(peer.room, kRequestHeader, lengths.call,
						       item, most);
		    n != 0 && takes(peer, n))
			return {CallWay::sent, n};
	if (item != 0)
		return {CallWay::read_chunk, 1};
	if (may)
		if (const u32 n = transmissions_of(lengths.call, kRequestHeader, peer.receive_bytes);
		    n <= most && takes(peer, n))
			return {CallWay::group, n};
	return {CallWay::long_call, 1};
}

/** The Receives of a reply of up to @transmissions can be had, and the peer sends so many. */
static bool may_come(const Means &means, u32 transmissions)
{
	return transmissions != 0 && transmissions <= means.peer.reply_limit &&
	       takes(means.peer, transmissions) &&
	       receives_to_reserve(transmissions) <= means.receives;
}

static Reply select_reply(const Lengths &lengths, const Means &means, bool may)
{
	const End &ours = means.ours;
	const u32 item = lengths.sealed ? 0 : lengths.reply_item;

	if (u64(v2::min_header_length) + lengths.reply <= ours.receive_bytes &&
	    item <= means.read_max)
		return {};
	if (may && item != 0 && item <= means.read_max)
		if (const u32 n = transmissions_placed(ours.room, kResponseHeader, lengths.reply,
						       item, means.peer.reply_limit);
		    may_come(means, n))
			return {ReplyWay::sent, n};
	if (item != 0)
		return {ReplyWay::write_chunk, 1};
	if (may)
		if (const u32 n =
			    transmissions_of(lengths.reply, kResponseHeader, ours.receive_bytes);
		    may_come(means, n))
			return {ReplyWay::group, n};
	return {ReplyWay::reply_chunk, 1};
}

Selection select(const Lengths &lengths, const Means &means)
{
	const auto ways = [&](bool may) {
		const Reply reply = select_reply(lengths, means, may);
		Selection chosen;

		chosen.reply = reply.way;
		chosen.reply_transmissions = reply.transmissions;
		const Call call = select_call(lengths, means, may, chosen.xmtreq());
		chosen.call = call.way;
		chosen.call_transmissions = call.transmissions;
		return chosen;
	};
	const Selection chosen = ways(takes(means.peer, 1));

	return chosen.xmtreq() && chosen.chunks() ? ways(false) : chosen;
}

} // namespace rpcordma::chunk
