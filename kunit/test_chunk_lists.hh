// SPDX-License-Identifier: GPL-2.0-only
/*
 * Chunk lists for tests, written word by word and decoded by xdr/:
 *
 *	ListMaker made;
 *	made.read(40, {Rkey(7), 100, 0x1000});
 *	made.end_reads();
 *	made.write_chunk({segment, segment});
 *	made.end_writes();
 *	const xdr::ChunkLists lists = made.decode();
 *
 * What is not said is not there. The lists live as long as the ListMaker.
 */
#pragma once

#include "kunit/testing.hh"
#include "xdr/lists.hh"

namespace rpcordma {

class ListMaker {
public:
	ListMaker() : bytes_(static_cast<u8 *>(rpcordma_test_alloc(kRoom)))
	{
	}
	~ListMaker()
	{
		rpcordma_test_free(bytes_, kRoom);
	}
	ListMaker(const ListMaker &) = delete;
	ListMaker &operator=(const ListMaker &) = delete;

	void read(u32 position, const xdr::Segment &segment)
	{
		writer_.word(1);
		writer_.word(position);
		segment_(segment);
	}
	void end_reads()
	{
		end_to_(1);
	}
	void write_chunk(Span<const xdr::Segment> segments)
	{
		end_to_(1);
		chunk_(segments);
	}
	void end_writes()
	{
		end_to_(2);
	}
	void reply_chunk(Span<const xdr::Segment> segments)
	{
		end_to_(2);
		chunk_(segments);
		ended_ = 3;
	}
	/** Once, last. A case that asks for what xdr/ refuses fails. */
	[[nodiscard]] xdr::ChunkLists decode()
	{
		end_to_(3);
		EXPECT_EQ(writer_.error(), Error::none);
		xdr::ChunkLists lists;
		xdr::Reader reader({bytes_, writer_.length()});
		EXPECT_OK(xdr::decode_lists(reader, lists));
		EXPECT_EQ(reader.left(), 0);
		return lists;
	}

private:
	void end_to_(u32 ended)
	{
		for (; ended_ < ended; ended_++)
			writer_.word(0);
	}
	void segment_(const xdr::Segment &segment)
	{
		if (u8 *at = writer_.reserve(xdr::segment_size))
			xdr::store_segment(at, segment);
	}
	void chunk_(Span<const xdr::Segment> segments)
	{
		writer_.word(1);
		writer_.word(u32(segments.size()));
		for (const xdr::Segment &segment : segments)
			segment_(segment);
	}

	static constexpr u32 kRoom = 2048;
	u8 *bytes_; /* a kernel's stack is small */
	xdr::Writer writer_{MutableBytes(bytes_, kRoom)};
	u32 ended_ = 0; /* lists */
};

} // namespace rpcordma
