// SPDX-License-Identifier: GPL-2.0-only
/*
 * Taking a reply apart at the responder whose call has directions for its results (rtrext-01 7.4): which of them go by RDMA
 * Writes, which in DDP segments of the requester's Receives, which stay in the Payload stream, and in how many
 * transmissions all of it goes. Pure, as answer.hh, which is the same for Write chunks.
 *
 * What a direction has come to is an item of the reply: there are as many of these as directions, in their order. The draft's
 * Table 2 says which may answer which:
 *
 *	direction	answered by
 *	segments	segments, too_short, none
 *	sent		sent, too_short, none
 *	either		segments, sent, too_short, none
 *	by_size		segments, sent, too_short, none
 */
#pragma once

#include "module/chunk/answer.hh"
#include "module/chunk/placement.hh"

namespace rpcordma::chunk {

/** What there is for a reply. */
struct ReplyRoom {
	u32 bytes = 0; /* of a transmission that has nothing of what is sent */
	/* What the requester receives into; without DDP segments nothing is sent. */
	properties::Structure structure;
	u32 transmissions = 1; /* at most, at least one */
	/* RPCSEC_GSS protects the payload: nothing may be placed apart. */
	bool sealed = false;
};

/** What became of a direction, and of the result that it was for. */
struct DirectedItem {
	rtrext::Type type = rtrext::Type::none;
	/* Of the reply: where the result is, without its pad; it begins where it belongs in the whole message. Of none, 0 and 0. */
	ReplyRange range = {0, 0};
	/* Type::sent: the first of its DDP segments, which are neighbours, and how many there are. */
	u32 first = 0;
	u32 segments = 0;
};

/** DDP segments of a reply at most. What is in more of them is not sent. */
constexpr u32 kMostSentSegments = 64;

/** How a reply goes. */
struct Directed {
	u32 count = 0;
	DirectedItem items[rtrext::most_items];
	/* What stays in the stream, in order. */
	u32 rest_count = 0;
	ReplyRange rest[rtrext::most_items + 1];
	u32 header_length = 0; /* of the XMTRESP */
	u32 stream_length =
		0; /* of all transmissions, whole words: what is behind the rest is zero */
	u32 transmissions = 1;
	u32 segments = 0;     /* DDP segments, from number 0 on; 0: nothing is sent */
	u32 write_length = 0; /* bytes that go by RDMA Writes */
};

/** A piece of what is sent in one transmission, behind the head of a Receive. */
struct SentPiece {
	ReplyRange range;
	u32 padding = 0; /* bytes behind it, up to the segment that the next item begins with */
};

/**
 * Decide how a reply of @length bytes goes, whose results (in the reply's order) are for the directions of @sets, the first
 * for the first, whatever set that is in. What a direction's set says of the part of the call is not looked at: nobody
 * here knows of which operation a result is. Results beyond the directions stay in the stream.
 *
 *	segments	is written
 *	sent		is sent
 *	either		is sent, if that can be; else written
 *	by_size		is sent up to a length, if that can be; else written
 *
 * A result comes out as too_short, and stays in the stream, that is shorter than its direction takes, or empty; whose direction
 * has no segments, and is not to be sent, or cannot be; or that may not be placed at all (@room.sealed). One that is
 * larger than its segments is sent, if it may be sent at its length; else it stays in the stream as well: the requester gets
 * all of it, and has to expect that by Table 2. Only if the stream then fits nowhere it is an error. A
 * direction without a result, or with one that the service took back, comes out as none.
 *
 * With items that are sent the stream has to fit the head of the first Receive. Of these ways the first is taken by which the
 * reply fits in its transmissions:
 *
 *	as above
 *	what may be written is written, and sent is only what cannot be
 *	nothing is sent
 *	nothing is placed
 *
 * @sets       with most_items directions at most
 * @results    unset beyond their number; each may be anywhere
 * @plan       new; means nothing after an error
 * @shortfall  set where it fits nowhere: of directions whose segments are too short, the first; segments of all
 *             directions count, in their order
 *
 * Errors: ENOSPC, the reply fits nowhere: the requester gets REPLY_RESOURCE.
 */
[[nodiscard]] Status plan_directed(const rtrext::Sets &sets, Span<const ReplyRange> results,
				   u32 length, const ReplyRoom &room, Directed &plan,
				   Shortfall &shortfall);

/** Call @visit(item, place) for each direction of @sets that @plan has an item for, until it returns false. */
template <typename Visit>
void for_each_direction(const rtrext::Sets &sets, const Directed &plan, Visit &&visit)
{
	u32 i = 0;

	for (const rtrext::Set &set : sets)
		for (const rtrext::Place &place : set.places)
			if (i == plan.count || !visit(plan.items[i++], place))
				return;
}

/** Append the items of @plan, which was made for @sets. */
void encode_directed(rtrext::Encoder &encoder, const rtrext::Sets &sets, const Directed &plan);

/**
 * Call @visit(SentPiece) for each piece of what is sent in transmission @n of @plan, in order. All that precedes them there is
 * as long as the head of @structure, for which the plan was made.
 */
template <typename Visit>
void for_each_sent_piece(const Directed &plan, const properties::Structure &structure, u32 n,
			 Visit &&visit)
{
	const u32 begin = n * structure.segments, end = begin + structure.segments;

	for (u32 i = 0; i < plan.count; i++) {
		const DirectedItem &item = plan.items[i];

		if (item.type != rtrext::Type::sent || item.first + item.segments <= begin ||
		    item.first >= end)
			continue;
		const u32 first = max(item.first, begin),
			  last = min(item.first + item.segments, end);
		const u32 at = (first - item.first) * structure.segment_length;
		const u32 bytes = (last - first) * structure.segment_length;
		const u32 length = min(bytes, item.range.length - at);
		/* The next item's segments follow, if there are any in this transmission. */
		const bool follows = last != end && last != plan.segments;

		visit(SentPiece{{item.range.offset + at, length}, follows ? bytes - length : 0});
	}
}

} // namespace rpcordma::chunk
