// SPDX-License-Identifier: GPL-2.0-only
/*
 * The shape of a sunrpc buffer, and how its bytes are cut into RDMA segments, one memory region
 * each. Numbers in, numbers out: no memory is touched, registered or mapped here. What goes into
 * which chunk is decided in reduce.hh; what a reply brings back is judged in reply.hh.
 *
 * Everything in module/chunk/ is pure: no allocation, no lock, no kernel; callable from any
 * context.
 */
#pragma once

#include "module/base/result.hh"
#include "module/base/span.hh"
#include "module/base/types.hh"

namespace rpcordma::chunk {

/**
 * Most RDMA segments that one chunk, or the Read list as a whole, may have.
 *
 * With 16 each, the largest header (Read list, one Write chunk, Reply chunk) has 936 bytes, which
 * fits the smallest inline threshold that version 1 knows, 1024 bytes (RFC 8166 3.3.3).
 */
static constexpr u32 kMaxSegments = 16;

/** A list with room for @N items, in place. push() is the only way to grow, and it is bounded. */
template <typename T, u32 N> class FixedList {
public:
	static constexpr u32 kCapacity = N;

	[[nodiscard]] constexpr u32 size() const
	{
		return count_;
	}
	[[nodiscard]] constexpr bool empty() const
	{
		return count_ == 0;
	}
	/** Unchecked: @i < size() is the caller's promise. */
	[[nodiscard]] constexpr const T &operator[](u32 i) const
	{
		return items_[i];
	}
	[[nodiscard]] constexpr const T *begin() const
	{
		return items_;
	}
	[[nodiscard]] constexpr const T *end() const
	{
		return items_ + count_;
	}
	[[nodiscard]] constexpr Span<const T> span() const
	{
		return {items_, count_};
	}
	/** Returns false, and adds nothing, when the list is full. */
	[[nodiscard]] constexpr bool push(const T &item)
	{
		if (count_ == N)
			return false;
		items_[count_++] = item;
		return true;
	}
	constexpr void clear()
	{
		count_ = 0;
	}

private:
	/* Left unset: a Plan is made for every call, and zeroing its lists would be waste. */
	T items_[N];
	u32 count_ = 0;
};

/**
 * The shape of a struct xdr_buf: head | page data | tail, in bytes.
 *
 * Offsets everywhere in module/chunk/ count from the first byte of the head through this
 * concatenation. Kvec addresses are kernel virtual addresses in the linear map; they are looked at
 * modulo the page size, and to see whether the tail follows the head in memory (as the receive
 * buffers of sunrpc do), never followed.
 */
struct BufferShape {
	u64 head_address = 0;
	u32 head_length = 0;
	/* The first byte of the page data, from the start of the page array: xdr_buf.page_base. */
	u32 page_base = 0;
	u32 page_length = 0;
	u64 tail_address = 0;
	u32 tail_length = 0;

	/** All bytes; 64 bits wide, since the three lengths come from outside. */
	[[nodiscard]] constexpr u64 length() const
	{
		return u64(head_length) + page_length + tail_length;
	}
	/** Whether the tail starts where the head ends, so that both are one run of memory. */
	[[nodiscard]] constexpr bool kvecs_adjacent() const
	{
		return head_address + head_length == tail_address;
	}
};

/**
 * What the page data's XDR roundup takes of the tail, in bytes: sunrpc puts the pad of a
 * variable-length item in pages at the start of the tail (xdr_write_pages()).
 */
[[nodiscard]] constexpr u32 pad_in_tail(const BufferShape &shape)
{
	return min(xdr_pad(shape.page_length), shape.tail_length);
}

/** @shape without its page data, the tail whole: what a Reply chunk beside a Write chunk covers. */
[[nodiscard]] constexpr BufferShape without_pages(BufferShape shape)
{
	shape.page_length = 0;
	return shape;
}

/**
 * @shape without its page data and without their XDR pad: the reduced Payload stream of a call
 * whose page data are in a Read chunk (RFC 8166 3.4.4.4, 3.4.5.2).
 */
[[nodiscard]] constexpr BufferShape without_payload(BufferShape shape)
{
	const u32 pad = pad_in_tail(shape);

	shape.page_length = 0;
	shape.tail_address += pad;
	shape.tail_length -= pad;
	return shape;
}

/** Bytes [offset, offset + length) of a buffer; the length is never zero in a list made here. */
struct ByteRange {
	u32 offset;
	u32 length;
};

/** What the device and the connection allow. */
struct Limits {
	/** The kernel's PAGE_SIZE in bytes, a power of two: page data lie in such pages. */
	u32 page_size = 4096;
	/** The page size of a memory region: page_size, or a power of two below it. */
	u32 mr_page_size = 4096;
	/** Pages (of mr_page_size) that one memory region can hold; at least one. */
	u32 mr_pages = 257;
	/** SGEs that a Send may have, the one for the transport header included; at least one. */
	u32 max_send_sge = 3;
	/** Segments per chunk that the peer is ever shown: 1 to kMaxSegments. */
	u32 max_segments = kMaxSegments;
	/** The device has IB_MR_TYPE_SG_GAPS: a region may have gaps at any byte. */
	bool sg_gaps = false;
	/**
	 * A page of which only a part is in a message is a segment of its own: with bounce buffers a
	 * DMA address may lie elsewhere in its page than the memory does, which makes a gap of every
	 * end of such a part. Where sg_gaps is set all regions may have gaps instead.
	 */
	bool parts_alone = false;
	/**
	 * Inline bytes up to which a message is copied behind the transport header, into the send
	 * buffer that is DMA-mapped for good, and goes out with one SGE. Above, pages are mapped
	 * and gathered, if the SGEs suffice. Gathering pins the RPC's pages until a signaled Send
	 * completion, which costs more than copying a page: so the default copies up to 4 KiB.
	 */
	u32 copy_limit = 4096;
	/**
	 * The peer is known to handle two kinds of chunk for one message: Position Zero and normal
	 * Read chunk, Write and Reply chunk. See reduce.hh for why this is off with all others.
	 */
	bool combine_chunks = false;

	/** Whether the numbers make sense together. */
	[[nodiscard]] constexpr bool valid() const
	{
		return page_size && !(page_size & (page_size - 1)) && mr_page_size &&
		       !(mr_page_size & (mr_page_size - 1)) && mr_page_size <= page_size &&
		       mr_pages && max_send_sge && max_segments && max_segments <= kMaxSegments;
	}
};

/** A chunk: the byte ranges of its segments, in order. */
struct SegmentList : FixedList<ByteRange, kMaxSegments> {
	/** A region of it has to have gaps (Limits::sg_gaps). Of a chunk that is not empty. */
	bool gaps = false;
};

/**
 * Cut @range of a buffer into the fewest segments.
 *
 * @shape   the buffer; its length fits 32 bits
 * @range   the bytes to cut, within @shape
 * @limits  valid() limits
 * @out     cleared, then filled: in order, without gap or overlap, none of them empty
 *
 * One segment is one memory region. A plain region holds bytes whose inner boundaries are page
 * boundaries (the first byte may lie anywhere in its page, the last one too) in at most mr_pages
 * pages; parts of the buffer share a segment where their boundary allows. With sg_gaps only the
 * number of pages counts. An empty range gives an empty list.
 *
 * Errors: EINVAL, @range leaves the buffer; EMSGSIZE, more than limits.max_segments are needed.
 */
[[nodiscard]] Status layout_segments(const BufferShape &shape, ByteRange range,
				     const Limits &limits, SegmentList &out);

/** Whether place_kvecs() has head or tail of @shape share a segment with what is beside them, and they fit a page each. */
[[nodiscard]] bool placing_joins(const BufferShape &shape, const Limits &limits);

/**
 * How many bytes of the page data have to be copied ahead of the tail for both to begin a page together, and to share a
 * segment with the pages before: those on the last page, where it is not full. 0 where there are none, or no room for them.
 */
[[nodiscard]] u32 bytes_ahead_of_tail(const BufferShape &shape, const Limits &limits);

/** @shape with the last @bytes of its page data in the tail, which is nowhere then, if that is any, until it is placed. */
[[nodiscard]] constexpr BufferShape with_longer_tail(BufferShape shape, u32 bytes)
{
	shape.page_length -= bytes;
	shape.tail_length += bytes;
	if (bytes)
		shape.tail_address = 0;
	return shape;
}

/**
 * @shape with the head moved so that it ends where a page does, and the tail to where the next one begins: both make
 * one run with page data that begin and end so.
 *
 * @memory  two pages of limits.page_size, for head and tail
 */
[[nodiscard]] BufferShape place_kvecs(const BufferShape &shape, const Limits &limits, u64 memory);

/** A run of bytes that is contiguous in memory. */
enum class Part : u8 { head, pages, tail };

struct Piece {
	Part part;
	/**
	 * head, tail: from the kvec's first byte. pages: from the start of the page array, so that
	 * offset / page_size is the index of the page and offset % page_size the place in it.
	 */
	u64 offset;
	u32 length;
};

/**
 * Walk the bytes of @range in order, as pieces that are each contiguous in memory: a kvec's bytes
 * in one piece, page data one piece per page. A tail that follows the head in memory, with no page
 * data between them, is part of the head's piece. So every piece is one scatterlist entry or one
 * SGE.
 *
 * @range must lie within @shape. @visit is called as visit(const Piece &) and returns false to
 * stop. Returns false if it was stopped.
 */
template <typename Visit>
constexpr bool for_each_piece(const BufferShape &shape, ByteRange range, u32 page_size,
			      Visit &&visit)
{
	const u64 pages_at = shape.head_length, tail_at = pages_at + shape.page_length;
	const u64 end = u64(range.offset) + range.length;
	const bool joined = !shape.page_length && shape.kvecs_adjacent();
	u64 at = range.offset;

	while (at < end) {
		Piece piece{};
		u64 stop = end;

		if (at < pages_at) {
			piece.part = Part::head;
			piece.offset = at;
			if (!joined)
				stop = min(stop, pages_at);
		} else if (at < tail_at) {
			piece.part = Part::pages;
			piece.offset = u64(shape.page_base) + (at - pages_at);
			stop = min(stop, at + (page_size - (piece.offset & (page_size - 1))));
			stop = min(stop, tail_at);
		} else {
			piece.part = Part::tail;
			piece.offset = at - tail_at;
		}
		piece.length = static_cast<u32>(stop - at);
		if (!visit(static_cast<const Piece &>(piece)))
			return false;
		at = stop;
	}
	return true;
}

} // namespace rpcordma::chunk
