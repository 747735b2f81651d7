// SPDX-License-Identifier: GPL-2.0-only
/*
 * Items that come and go in DDP segments of Receives (rtrext-01's send-based placement), as numbers: where each byte of
 * one lies, whether that can be believed, and how long transmissions are that carry one. No memory is touched, no work
 * request made.
 *
 * A peer's Receive is a head, and behind it DDP segments of one length (properties::Structure). They are numbered over
 * all transmissions of a message: with N of them in a Receive, number n is the (n mod N)-th of transmission n / N, used or
 * not. In a transmission, header and stream are first, in the head; what is left of it is padding; then comes the item.
 *
 * Driven for calls: by group.cc at the client, by transmission.hh and deliver.cc at the server.
 */
#pragma once

#include "module/base/span.hh"
#include "xdr/rtrext.hh"

namespace rpcordma::chunk {

/** One transmission of a message. Lengths in bytes. */
struct TransmissionLengths {
	u32 header_length = 0; /* of the transport header */
	u32 stream_length = 0; /* of the Payload stream behind it */
	u32 length = 0;	       /* of all that came */
};

/** Bytes of an item that lie in one DDP segment. */
struct ItemPiece {
	u32 number = 0; /* of the segment */
	u32 offset = 0; /* where in it they begin */
	u32 length = 0; /* not 0 */
};

/**
 * Call @visit(ItemPiece) for each piece of @item, which is Type::sent, in the order of its bytes, until it returns false. An
 * item whose list of segments is too short has pieces as far as that goes; segments behind its end have none.
 *
 * @segment_length  bytes of a DDP segment, not 0; the item's offset is less
 *
 * Returns bytes of the item that are in no segment, or that @visit did not get to see.
 */
template <typename Visit>
u32 for_each_piece(const rtrext::Item &item, u32 segment_length, Visit &&visit)
{
	u32 offset = item.offset, left = item.length;

	for (u32 n = 0; left != 0 && n < item.numbers.count(); n++) {
		const ItemPiece piece = {item.numbers[n], offset,
					 min(left, segment_length - offset)};

		if (!visit(piece))
			break;
		left -= piece.length;
		offset = 0;
	}
	return left;
}

/** Where the first byte of @piece is in its transmission. @room has DDP segments. */
[[nodiscard]] constexpr u64 begin_of(const properties::Structure &room, const ItemPiece &piece)
{
	return room.head() + u64(piece.number % room.segments) * room.segment_length + piece.offset;
}

/**
 * Judge where the items of a message are that is whole. In this order, of each item:
 *
 *	a number that no segment has					BADTBSN
 *	an offset that is not within a segment				BADOFF
 *	fewer segments than it needs					BADTBSN, of the number that would follow
 *	bytes that have not come					BADTBSN
 *	bytes that are the header's or the stream's			BADPL
 *	bytes that are another item's, or its own			BADOFF
 *
 * @room           what this end receives into, as it told the peer
 * @transmissions  of the message, in order: at least one, and no more than a message may have
 *
 * What is not Type::sent is not looked at. Time: linear in the segments that are used, of which there are no more than the
 * transmissions have, and one for each item; quadratic in those that are used twice, and in those beyond the first 64.
 */
[[nodiscard]] rtrext::Verdict judge_placement(const properties::Structure &room,
					      Span<const TransmissionLengths> transmissions,
					      const rtrext::Items &items);

/**
 * Whether a message that was judged good can be given to its reader as it lies, stream and pages, without a copy: it has
 * one item that is placed, that is sent, is not empty and begins where its segment does; and all of its stream is in the
 * head of the first Receive, where the RPC header has to be.
 */
[[nodiscard]] bool lies_in_pages(const properties::Structure &room,
				 Span<const TransmissionLengths> transmissions,
				 const rtrext::Items &items);

/** How an item goes to a peer in its DDP segments, from the first one on. */
struct Placement {
	u32 transmissions = 0; /* 0: it does not go like that */
	u32 segments = 0;      /* that it takes, numbers 0 to segments - 1 */
	u32 padding = 0;       /* bytes behind the stream of the first transmission */
};

/**
 * @peer    what it receives into
 * @bytes   of header and stream in the first transmission
 * @length  of the item, not 0
 * @most    transmissions of a message that it takes
 */
[[nodiscard]] constexpr Placement place(const properties::Structure &peer, u32 bytes, u32 length,
					u32 most)
{
	Placement placed;

	if (peer.segments == 0 || bytes > peer.head() || peer.head() < rtrext::continuation_length)
		return placed;
	placed.segments = div_round_up(length, peer.segment_length);
	placed.transmissions = div_round_up(placed.segments, peer.segments);
	placed.padding = peer.head() - bytes;
	return placed.transmissions <= most ? placed : Placement{};
}

/** Bytes of the item in transmission @n of a placement; what precedes them is as long as the peer's head. */
[[nodiscard]] constexpr u32 item_bytes(const properties::Structure &peer, u32 length, u32 n)
{
	const u64 each = u64(peer.segments) * peer.segment_length, before = n * each;

	return before < length ? u32(min<u64>(length - before, each)) : 0;
}

} // namespace rpcordma::chunk
