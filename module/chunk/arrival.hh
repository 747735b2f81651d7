// SPDX-License-Identifier: GPL-2.0-only
/*
 * Putting a call together at the responder: its inline part, and what its Read chunks hold (RFC 8166
 * 3.4.5, 3.5.3). Pure: this says what goes where, others move the bytes.
 *
 * A call's Read chunks are pulled into a sink, a run of pages. With one Read chunk, as nearly always,
 * the sink holds that chunk alone, and the inline part stays where it was received: what is before the
 * chunk's Position is the call's head, what is behind it the tail. Otherwise (several chunks, or a
 * Position Zero Read chunk) the sink holds the whole call in the order of its XDR stream.
 *
 * Segments are grouped by Position, whatever their order on the list: a chunk's segments are those with
 * its Position, in list order, and chunks go into the stream by ascending Position.
 */
#pragma once

#include "module/base/result.hh"
#include "module/base/types.hh"
#include "xdr/lists.hh"

namespace rpcordma::chunk {

/** Where a call's bytes are when all are here. */
struct Arrival {
	enum class How : u8 {
		inline_, /* in the Receive buffer */
		single,	 /* the sink has one chunk; the Receive buffer the rest */
		linear,	 /* in the sink */
		sent, /* as single, but the chunk is an item that came into pages of the Receives (rtrext-01) */
	};
	How how = How::inline_;
	u32 inline_length = 0; /* of the call in the Receive buffer */
	/* Of the first chunk but a Position Zero one; single, sent: bytes before it. */
	u32 position = 0;
	/* Bytes of the sink, or of the item, that are filled; single, sent: without XDR pad. */
	u32 sink_length = 0;
	u32 message_length = 0; /* of the whole call, XDR pads included */
	u32 segments = 0;	/* that are to be read */
	bool position_zero = false;

	/** Of a call without chunks, @length bytes long. */
	[[nodiscard]] static Arrival inline_only(u32 length)
	{
		Arrival arrival;

		arrival.inline_length = arrival.message_length = length;
		return arrival;
	}
};

/**
 * Plan how the call arrives.
 *
 * @reads          of its header, decoded
 * @inline_length  bytes of the Payload stream behind the header; 0 for an RDMA_NOMSG
 * @max_message    the longest call, bytes
 * @arrival        set; means nothing after an error
 * @whole          the sink has to hold the whole call, if there are Read chunks
 *
 * Errors: EPROTO, the chunks do not make one stream (a Position in the midst of another chunk, or
 * behind the end), or the call would be too long.
 */
[[nodiscard]] Status plan_arrival(const xdr::ReadList &reads, u32 inline_length, u32 max_message,
				  Arrival &arrival, bool whole = false);

/**
 * Walk the pieces of a linear arrival in stream order; sink offsets ascend.
 *
 * @read(segment, sink_offset)                       part of a segment that is to be read
 * @copy(inline_offset, sink_offset, length)         part of the inline part that is to be copied
 * @pad(sink_offset, length)                         XDR padding that nobody sent
 *
 * Returns the length of the stream, or EPROTO as above. With @max_message as limit.
 */
template <typename Read, typename Copy, typename Pad>
[[nodiscard]] Result<u32> walk_arrival(const xdr::ReadList &reads, u32 inline_length,
				       u32 max_message, Read &&read, Copy &&copy, Pad &&pad);
template <typename Read, typename Copy>
[[nodiscard]] Result<u32> walk_arrival(const xdr::ReadList &reads, u32 inline_length,
				       u32 max_message, Read &&read, Copy &&copy)
{
	return walk_arrival(reads, inline_length, max_message, read, copy, [](u32, u32) {});
}

/* --- implementation --- */

/** Takes the segments with one Position off a Read list, in order and in parts. */
class SegmentCursor {
public:
	SegmentCursor(const xdr::ReadList &reads, u32 position)
		: at_(reads.begin()),
		  end_(reads.end()),
		  position_(position)
	{
		settle_();
	}
	[[nodiscard]] bool empty() const
	{
		return !left_;
	}
	/** Up to @most bytes, contiguous at the peer; not when empty. */
	[[nodiscard]] xdr::Segment take(u32 most)
	{
		const u32 length = min(most, left_);
		xdr::Segment part = (*at_).target;

		part.offset += part.length - left_;
		part.length = length;
		left_ -= length;
		if (!left_) {
			++at_;
			settle_();
		}
		return part;
	}

private:
	void settle_()
	{
		for (; at_ != end_; ++at_) {
			const xdr::ReadSegment segment = *at_;

			left_ = segment.target.length;
			if (segment.position.get() == position_ && left_)
				return;
		}
		left_ = 0;
	}
	xdr::ReadList::Iterator at_;
	xdr::ReadList::Iterator end_;
	u32 position_;
	u32 left_ = 0; /* of the segment at at_ */
};

/** The lowest Position above @floor of a segment that is not empty; 0 when there is none. */
[[nodiscard]] inline u32 next_position(const xdr::ReadList &reads, u32 floor)
{
	u32 lowest = 0;

	for (xdr::ReadSegment segment : reads) {
		const u32 position = segment.position.get();

		if (position > floor && segment.target.length && (!lowest || position < lowest))
			lowest = position;
	}
	return lowest;
}

template <typename Read, typename Copy, typename Pad>
Result<u32> walk_arrival(const xdr::ReadList &reads, u32 inline_length, u32 max_message,
			 Read &&read, Copy &&copy, Pad &&pad)
{
	const bool zero = reads.has_position_zero();
	SegmentCursor base(reads, 0);
	u32 taken = 0; /* of the inline part */
	u32 length = 0;

	/* Move the stream on to @target with bytes of its base: the Position Zero chunk, or inline. */
	auto advance = [&](u32 target) {
		if (zero) {
			while (length < target && !base.empty()) {
				const xdr::Segment part = base.take(target - length);

				read(part, length);
				length += part.length;
			}
		} else if (length < target) {
			const u32 n = min(target - length, inline_length - taken);

			if (n)
				copy(taken, length, n);
			taken += n;
			length += n;
		}
		return length == target;
	};

	for (u32 position = next_position(reads, 0); position;
	     position = next_position(reads, position)) {
		if (position > max_message || !advance(position))
			return Error::protocol;
		for (SegmentCursor chunk(reads, position); !chunk.empty();) {
			const xdr::Segment part = chunk.take(~0u);

			if (part.length > max_message - length)
				return Error::protocol;
			read(part, length);
			length += part.length;
		}
		/* The pad was reduced with the data (3.4.5.2), unless the chunk holds it. */
		const u32 missing = xdr_pad(length - position);
		if (missing > max_message - length)
			return Error::protocol;
		if (missing)
			pad(length, missing);
		length += missing;
	}
	/* What follows the last chunk. */
	if (zero) {
		while (!base.empty()) {
			const xdr::Segment part = base.take(~0u);

			if (part.length > max_message - length)
				return Error::protocol;
			read(part, length);
			length += part.length;
		}
	} else {
		if (inline_length - taken > max_message - length ||
		    !advance(length + (inline_length - taken)))
			return Error::protocol;
	}
	return length;
}

} // namespace rpcordma::chunk
