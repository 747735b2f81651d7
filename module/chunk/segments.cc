// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cutting byte ranges into segments. Taking as much as possible into each segment gives the fewest:
 * whatever is cut off the front of a valid segment leaves a valid segment, so a longer first one
 * never makes the rest harder.
 */
#include "module/chunk/segments.hh"

namespace rpcordma::chunk {
namespace {

/** Collects runs of memory into segments, in order. */
class Cutter {
public:
	Cutter(u32 start, const Limits &limits, SegmentList &out)
		: limits_(limits),
		  out_(out),
		  start_(start),
		  end_(start)
	{
	}

	/**
	 * Take in the next @length bytes of the range, which lie in memory that is contiguous but
	 * for page boundaries, the first at @address. Returns false when the list is full.
	 */
	[[nodiscard]] bool take(u64 address, u32 length)
	{
		const u64 page = limits_.mr_page_size;

		while (length) {
			const u64 in_page = address & (page - 1);

			if (end_ != start_) {
				if (extends_(address, length))
					out_.gaps = out_.gaps || in_page || end_in_page_;
				else if (!finish())
					return false;
			}
			u32 taken = static_cast<u32>(min<u64>(length, room_() - in_page));
			if (apart_())
				taken = take_apart_(address, taken);

			pages_ += (in_page + taken + page - 1) / page;
			end_in_page_ = (in_page + taken) & (page - 1);
			end_ += taken;
			address += taken;
			length -= taken;
		}
		return true;
	}

	/** Close the segment that is open, if there is one. Returns false when the list is full. */
	[[nodiscard]] bool finish()
	{
		if (end_ == start_)
			return true;
		if (out_.size() >= limits_.max_segments || !out_.push({start_, end_ - start_}))
			return false;
		start_ = end_;
		pages_ = 0;
		return true;
	}

private:
	/** Bytes that the open segment has room for, from the start of a page. */
	[[nodiscard]] u64 room_() const
	{
		return (limits_.mr_pages - pages_) * u64(limits_.mr_page_size);
	}
	/** Whether parts of pages make segments of their own. */
	[[nodiscard]] bool apart_() const
	{
		return limits_.parts_alone && !limits_.sg_gaps;
	}
	/** How many of @length bytes from @address on are whole pages of memory, or else a part of one. */
	[[nodiscard]] u32 take_apart_(u64 address, u32 length)
	{
		const u32 in_page = static_cast<u32>(address & (limits_.page_size - 1));
		const u32 whole = in_page ? 0 : length - length % limits_.page_size;

		whole_ = whole;
		return whole ? whole : min(length, limits_.page_size - in_page);
	}
	/** Whether some of the next @length bytes, from @address on, may join the open segment. */
	[[nodiscard]] bool extends_(u64 address, u32 length) const
	{
		if (pages_ == limits_.mr_pages)
			return false;
		if (limits_.sg_gaps)
			return true;
		if (limits_.parts_alone)
			return whole_ && !(address & (limits_.page_size - 1)) &&
			       min<u64>(length, room_()) >= limits_.page_size;
		return !(address & (limits_.mr_page_size - 1)) && !end_in_page_;
	}

	const Limits &limits_;
	SegmentList &out_;
	u32 start_; /* the open segment is [start_, end_) of the buffer */
	u32 end_;
	u64 pages_ = 0;	      /* that it touches */
	u64 end_in_page_ = 0; /* where in a page it ends */
	bool whole_ = false;  /* where parts are alone: it is of whole pages */
};

/** A part of the buffer: the bytes from @at on, @length of them, the first at @address. */
struct Run {
	u64 at;
	u64 length;
	u64 address;
};

} // namespace

bool placing_joins(const BufferShape &shape, const Limits &limits)
{
	const u64 page = limits.page_size, begin = shape.page_base, end = begin + shape.page_length;

	if (limits.mr_pages < 3 || limits.parts_alone || shape.head_length > page ||
	    shape.tail_length > page)
		return false;
	if (!shape.page_length)
		return shape.head_length && shape.tail_length && !shape.kvecs_adjacent();
	return (shape.head_length && !(begin & (page - 1))) ||
	       (shape.tail_length && !(end & (page - 1)));
}

u32 bytes_ahead_of_tail(const BufferShape &shape, const Limits &limits)
{
	const u64 end = u64(shape.page_base) + shape.page_length;
	const u32 bytes = min(static_cast<u32>(end & (limits.page_size - 1)), shape.page_length);

	return shape.tail_length && u64(bytes) + shape.tail_length <= limits.page_size ? bytes : 0;
}

BufferShape place_kvecs(const BufferShape &shape, const Limits &limits, u64 memory)
{
	BufferShape placed = shape;

	placed.head_address = memory + limits.page_size - shape.head_length;
	placed.tail_address = memory + limits.page_size;
	return placed;
}

/**
 * Whether all of @shape is one segment, as boundaries of pages are between its parts: place_kvecs() has them there for Reply
 * chunks and Position Zero Read chunks. False where that would have to be looked at piece by piece.
 */
[[nodiscard]] static bool in_one_segment(const BufferShape &shape, const Limits &limits)
{
	const u64 page = limits.mr_page_size;
	u64 boundaries = (shape.head_address + shape.head_length) | shape.page_base;

	if (limits.sg_gaps || limits.parts_alone || !shape.head_length || !shape.page_length)
		return false;
	if (shape.tail_length)
		boundaries |= (u64(shape.page_base) + shape.page_length) | shape.tail_address;
	return !(boundaries & (page - 1)) &&
	       (shape.head_address & (page - 1)) + shape.length() <= limits.mr_pages * page;
}

Status layout_segments(const BufferShape &shape, ByteRange range, const Limits &limits,
		       SegmentList &out)
{
	if (!range.offset && range.length == shape.length() && in_one_segment(shape, limits)) {
		out.clear();
		out.gaps = false;
		(void)out.push(range);
		return {};
	}
	const u64 begin = range.offset, end = begin + range.length;
	const u64 pages_at = shape.head_length, tail_at = pages_at + shape.page_length;
	const bool joined = !shape.page_length && shape.kvecs_adjacent();
	const Run runs[] = {
		{0, joined ? shape.length() : pages_at, shape.head_address},
		{pages_at, shape.page_length, shape.page_base},
		{tail_at, joined ? 0 : shape.tail_length, shape.tail_address},
	};
	Cutter cutter(range.offset, limits, out);

	out.clear();
	/* Where bounce buffers make gaps, memory without any may have some. */
	out.gaps = limits.sg_gaps && limits.parts_alone;
	if (end > shape.length())
		return Error::invalid;
	for (const Run &run : runs) {
		const u64 from = max(begin, run.at), to = min(end, run.at + run.length);

		if (from < to &&
		    !cutter.take(run.address + (from - run.at), static_cast<u32>(to - from)))
			return Error::message_size;
	}
	if (!cutter.finish())
		return Error::message_size;
	return {};
}

} // namespace rpcordma::chunk
