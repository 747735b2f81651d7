// SPDX-License-Identifier: GPL-2.0-only
/*
 * A call as RFC 8166 3.4.5 puts it together of its Read chunks and what came inline: written down plainly, without
 * a thought for memory or time. What module/ makes of the same is compared with it.
 */
#pragma once

#include <vector>

#include "xdr/lists.hh"

namespace rpcordma::assembly {

/** The pad behind a chunk: whatever bytes there are. */
constexpr u64 kPad = 1;
/** Byte 0 of what came inline. */
constexpr u64 kInline = u64(1) << 60;
/** Byte 0 of the segment with @number on the Read list. */
constexpr u64 segment_name(u32 number)
{
	return u64(number + 1) << 32;
}

/** A stream whose bytes are names: one of the above, and an offset. */
struct Stream {
	std::vector<u64> bytes;

	[[nodiscard]] u32 length() const
	{
		return u32(bytes.size());
	}
	/** False when that makes more than @most. */
	bool add(u64 first, u32 count, u32 most)
	{
		if (count > most - length())
			return false;
		for (u32 i = 0; i < count; i++)
			bytes.push_back(first == kPad ? kPad : first + i);
		return true;
	}
};

/** All segments with @position behind each other. */
inline bool add_chunk(Stream &to, const xdr::ReadList &reads, u32 position, u32 most)
{
	for (u32 i = 0; i < reads.count(); i++)
		if (reads[i].position.get() == position &&
		    !to.add(segment_name(i), reads[i].target.length, most))
			return false;
	return true;
}

/** False when there is no such call of at most @most bytes. */
inline bool assemble(const xdr::ReadList &reads, u32 inline_length, u32 most, Stream &stream)
{
	Stream base;

	stream.bytes.clear();
	if (reads.has_position_zero() ? !add_chunk(base, reads, 0, most) :
					!base.add(kInline, inline_length, most))
		return false;
	u32 taken = 0, done = 0;
	for (;;) {
		u32 next = ~0u;

		for (xdr::ReadSegment segment : reads)
			if (segment.position.get() > done && segment.target.length)
				next = min(next, segment.position.get());
		if (next == ~0u)
			break;
		while (stream.length() < next && taken < base.length())
			if (!stream.add(base.bytes[taken++], 1, most))
				return false;
		if (stream.length() != next || !add_chunk(stream, reads, next, most) ||
		    !stream.add(kPad, xdr_pad(stream.length()), most))
			return false;
		done = next;
	}
	while (taken < base.length())
		if (!stream.add(base.bytes[taken++], 1, most))
			return false;
	return stream.length() != 0;
}

/** Whether a segment of the call has that R_key. */
inline bool has_key(const xdr::ChunkLists &lists, u32 key)
{
	for (xdr::ReadSegment segment : lists.reads)
		if (segment.target.handle.get() == key)
			return true;
	for (xdr::WriteChunk chunk : lists.writes)
		for (xdr::Segment segment : chunk)
			if (segment.handle.get() == key)
				return true;
	for (xdr::Segment segment : lists.reply)
		if (segment.handle.get() == key)
			return true;
	return false;
}

} // namespace rpcordma::assembly
