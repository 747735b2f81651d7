// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/chunk/segments: buffers are modelled as one memory address for each byte, and layouts are
 * judged against that model: covered once and in order, each segment a possible memory region, and
 * no fewer segments possible. The pages of the model are tiny, so that every alignment can be
 * tried.
 */
#include "kunit/test_chunk_choices.hh"
#include "kunit/testing.hh"
#include "module/chunk/reduce.hh"

using namespace rpcordma;
using namespace rpcordma::chunk;

namespace {

constexpr u32 kMaxModel = 64;

/** Where each byte of a small buffer lies. */
struct Memory {
	u32 size;
	u32 page;
	u64 address[kMaxModel];

	void set(const BufferShape &shape, u32 page_size)
	{
		size = 0;
		page = page_size;
		for (u32 i = 0; i < shape.head_length; i++)
			address[size++] = shape.head_address + i;
		for (u32 i = 0; i < shape.page_length; i++) {
			const u64 at = u64(shape.page_base) + i;

			/* Pages lie apart from each other, and from the kvecs. */
			address[size++] = 0x100000 + at / page * 16 * page + at % page;
		}
		for (u32 i = 0; i < shape.tail_length; i++)
			address[size++] = shape.tail_address + i;
	}

	/** The end of the longest memory region that starts at byte @from. */
	[[nodiscard]] u32 reach(u32 from, const Limits &limits) const
	{
		u32 pages = 1;

		for (u32 i = from; i + 1 < size; i++) {
			const bool page_starts = address[i + 1] % page == 0;

			if (address[i + 1] == address[i] + 1) {
				if (page_starts && ++pages > limits.mr_pages)
					return i + 1;
				continue;
			}
			if (!limits.sg_gaps && !(page_starts && (address[i] + 1) % page == 0))
				return i + 1;
			if (++pages > limits.mr_pages)
				return i + 1;
		}
		return size;
	}

	/**
	 * Whether [from, to) is one piece of memory within a page, or consists of whole pages, no more than a region
	 * has: then it is a possible region wherever in a page a DMA address lies that stands for a part of one.
	 */
	[[nodiscard]] bool apart(u32 from, u32 to, const Limits &limits) const
	{
		const u32 length = to - from;

		if (length <= page && address[to - 1] == address[from] + length - 1 &&
		    address[from] / page == address[to - 1] / page)
			return true;
		for (u32 i = from; i < to; i++) {
			const u32 in_page = (i - from) % page;

			if (address[i] % page != in_page ||
			    address[i] != address[i - in_page] + in_page)
				return false;
		}
		return length % page == 0 && length / limits.mr_page_size <= limits.mr_pages;
	}

	/** The fewest regions that cover [from, to), found by trying every cut. */
	[[nodiscard]] u32 fewest(u32 from, u32 to, const Limits &limits) const
	{
		u32 best[kMaxModel + 1];

		best[to] = 0;
		for (u32 i = to; i-- > from;) {
			const u32 last = min(reach(i, limits), to);

			best[i] = ~0u;
			for (u32 cut = i + 1; cut <= last; cut++)
				best[i] = min(best[i], best[cut] + 1);
		}
		return best[from];
	}
};

constexpr u64 kHead = 0x40000, kTail = 0x80000;

/** Call @f(shape, limits) for every shape and limit of a family, with pages of four bytes. */
template <typename F> void for_each_small(F &&f)
{
	static constexpr u32 heads[] = {0, 1, 3, 4, 5, 8}, pages[] = {0, 1, 3, 4, 5, 8, 13},
			     tails[] = {0, 1, 4, 6}, depths[] = {1, 2, 3, 16};
	Limits limits;

	limits.page_size = limits.mr_page_size = 4;
	for (u32 n = 0;; n++) {
		Choices pick(n);
		BufferShape shape;

		limits.sg_gaps = pick.flag();
		limits.mr_pages = pick.of(depths);
		shape.head_length = pick.of(heads);
		shape.page_length = pick.of(pages);
		shape.tail_length = pick.of(tails);
		shape.head_address = kHead + pick.below(4);
		shape.page_base = pick.below(6);
		const u32 tail_at = pick.below(5);

		if (pick.done())
			break;
		/* The last choice is where sunrpc has it: behind the head. */
		shape.tail_address = tail_at == 4 ? shape.head_address + shape.head_length :
						    kTail + tail_at;
		/* Where a part is empty, its place makes no difference. */
		if ((!shape.page_length && shape.page_base) || (!shape.tail_length && tail_at))
			continue;
		f(shape, limits);
	}
}

/** The notes that tell one case of the family from the others. */
class ShapeNotes {
public:
	ShapeNotes(const BufferShape &s, const Limits &l)
		: head_at_("head address", test::shown(s.head_address)),
		  head_("head length", test::shown(s.head_length)),
		  base_("page base", test::shown(s.page_base)),
		  pages_("page length", test::shown(s.page_length)),
		  tail_at_("tail address", test::shown(s.tail_address)),
		  tail_("tail length", test::shown(s.tail_length)),
		  depth_("pages of a region", test::shown(l.mr_pages)),
		  gaps_("gaps", test::shown(l.sg_gaps))
	{
	}

private:
	test::Note head_at_, head_, base_, pages_, tail_at_, tail_, depth_, gaps_;
};

/** A list as the layout before left it. */
SegmentList used_list()
{
	SegmentList list;

	list.gaps = true;
	EXPECT_TRUE(list.push({1, 2}));
	return list;
}

/** @list covers @range once and in order, with memory regions, as few as possible. */
void expect_layout(const Memory &memory, ByteRange range, const Limits &limits,
		   const SegmentList &list)
{
	u32 at = range.offset;
	Limits plain = limits;
	bool gaps = false;

	plain.sg_gaps = false;
	for (const ByteRange &segment : list) {
		gaps = gaps || memory.reach(at, plain) < at + segment.length;
		ASSERT_EQ(segment.offset, at);
		ASSERT_GT(segment.length, 0);
		ASSERT_LE(segment.length, range.offset + range.length - at);
		ASSERT_LE(at + segment.length, memory.reach(at, limits));
		at += segment.length;
	}
	ASSERT_EQ(at, range.offset + range.length);
	EXPECT_EQ(list.size(), memory.fewest(range.offset, at, limits));
	if (list.size())
		EXPECT_EQ(list.gaps, gaps);
}

} // namespace

RPCORDMA_TEST(chunk_segments, whole_buffers)
{
	Memory &memory = test_zeroed<Memory>();
	u32 tried = 0;

	for_each_small([&](const BufferShape &shape, const Limits &limits) {
		SegmentList list = used_list();
		const u32 length = static_cast<u32>(shape.length());

		const ShapeNotes notes(shape, limits);
		memory.set(shape, limits.page_size);
		if (memory.fewest(0, length, limits) > kMaxSegments) {
			EXPECT_ERROR(layout_segments(shape, {0, length}, limits, list),
				     Error::message_size);
			return;
		}
		tried++;
		ASSERT_OK(layout_segments(shape, {0, length}, limits, list));
		expect_layout(memory, {0, length}, limits, list);
	});
	EXPECT_GT(tried, 10000);
}

/* Every range of a few buffers that have all three parts. */
RPCORDMA_TEST(chunk_segments, partial_ranges)
{
	Memory &memory = test_zeroed<Memory>();

	for_each_small([&](const BufferShape &shape, const Limits &limits) {
		if (shape.head_length != 5 || shape.page_length < 8 || shape.tail_length != 6)
			return;
		const u32 length = static_cast<u32>(shape.length());
		const ShapeNotes notes(shape, limits);

		memory.set(shape, limits.page_size);
		for (u32 from = 0; from <= length; from += 2)
			for (u32 to = from; to <= length; to += 3) {
				SegmentList list = used_list();

				TEST_NOTE("from", from);
				TEST_NOTE("to", to);
				ASSERT_OK(layout_segments(shape, {from, to - from}, limits, list));
				expect_layout(memory, {from, to - from}, limits, list);
			}
	});
}

/* Placed, no buffer has more segments, and one with whole pages between its kvecs has one. */
RPCORDMA_TEST(chunk_segments, placed)
{
	Memory &memory = test_zeroed<Memory>();
	u32 joined = 0;

	for_each_small([&](const BufferShape &shape, const Limits &limits) {
		if (!placing_joins(shape, limits))
			return;
		const u64 room = 0xc0000;
		const BufferShape placed = place_kvecs(shape, limits, room);
		const u32 length = static_cast<u32>(shape.length());
		SegmentList list = used_list();
		const ShapeNotes notes(placed, limits);

		memory.set(shape, limits.page_size);
		const u32 before = memory.fewest(0, length, limits);
		memory.set(placed, limits.page_size);
		const u32 after = memory.fewest(0, length, limits);

		EXPECT_EQ(placed.length(), shape.length());
		EXPECT_LE(after, before);
		/* Both in the two pages. */
		EXPECT_GE(placed.head_address, room);
		EXPECT_LE(placed.tail_address + placed.tail_length, room + 2 * limits.page_size);
		EXPECT_LE(placed.head_address + placed.head_length, placed.tail_address);
		if (after <= kMaxSegments) {
			ASSERT_OK(layout_segments(placed, {0, length}, limits, list));
			expect_layout(memory, {0, length}, limits, list);
		}
		if (shape.page_base % 4 || shape.page_length % 4 || limits.mr_pages < 16)
			return;
		EXPECT_EQ(after, 1);
		joined++;
	});
	EXPECT_GT(joined, 100);
}

/* With the last page's bytes ahead of the tail, whatever begins at a page's start has one segment. */
RPCORDMA_TEST(chunk_segments, placed_with_last_page)
{
	Memory &memory = test_zeroed<Memory>();
	u32 moved = 0, left = 0;

	for_each_small([&](const BufferShape &shape, const Limits &limits) {
		const u32 ahead = bytes_ahead_of_tail(shape, limits);
		const BufferShape longer = with_longer_tail(shape, ahead);
		const u64 room = 0xc0000;
		const u32 length = static_cast<u32>(shape.length());
		const ShapeNotes notes(shape, limits);

		EXPECT_EQ(longer.length(), shape.length());
		/* It is no more than what is on the last page, and a page holds it with the tail. */
		ASSERT_LE(ahead, shape.page_length);
		EXPECT_LT(ahead, limits.page_size);
		if (!ahead) {
			left += shape.tail_length && (shape.page_base + shape.page_length) % 4;
			return;
		}
		moved++;
		EXPECT_LE(longer.tail_length, limits.page_size);
		EXPECT_TRUE(!longer.page_length ||
			    (longer.page_base + longer.page_length) % limits.page_size == 0);
		/* The tail has the pages before it as a neighbour, or the head; where there is one, wherever it was. */
		if (limits.mr_pages < 3 || longer.head_length > limits.page_size ||
		    !(longer.page_length | longer.head_length))
			return;
		ASSERT_TRUE(placing_joins(longer, limits));
		const BufferShape placed = place_kvecs(longer, limits, room);

		EXPECT_LE(placed.tail_address + placed.tail_length, room + 2 * limits.page_size);
		memory.set(shape, limits.page_size);
		const u32 before = memory.fewest(0, length, limits);
		memory.set(placed, limits.page_size);
		const u32 after = memory.fewest(0, length, limits);
		EXPECT_LE(after, before);
		/* All of the page data may have gone to the tail. */
		if ((placed.page_base % 4 && placed.page_length) || limits.mr_pages < 16)
			return;
		EXPECT_EQ(after, 1);
	});
	EXPECT_GT(moved, 100);
	/* Where both are too long for a page. */
	EXPECT_GT(left, 100);
}

/* Where DMA addresses do not keep the place in a page: neither a gap, nor two neighbours that could be one. */
RPCORDMA_TEST(chunk_segments, parts_alone)
{
	Memory &memory = test_zeroed<Memory>();
	u32 tried = 0;

	for_each_small([&](const BufferShape &shape, Limits limits) {
		if (limits.sg_gaps)
			return;
		const u32 length = static_cast<u32>(shape.length());
		const ShapeNotes notes(shape, limits);

		memory.set(shape, limits.page_size);
		limits.parts_alone = true;
		/* Also where a page of memory is two of the device's. */
		for (const u32 mr_page : {4u, 2u}) {
			SegmentList list = used_list();
			u32 at = 0, before = 0;

			TEST_NOTE("mr_page_size", mr_page);
			limits.mr_page_size = mr_page;
			if (!layout_segments(shape, {0, length}, limits, list).ok()) {
				EXPECT_GT(length, kMaxSegments);
				continue;
			}
			for (const ByteRange &segment : list) {
				ASSERT_EQ(segment.offset, at);
				ASSERT_GT(segment.length, 0);
				at += segment.length;
				/* A region of one such page holds no whole page of memory. */
				if (limits.mr_pages * mr_page >= limits.page_size) {
					ASSERT_TRUE(memory.apart(segment.offset, at, limits));
					EXPECT_TRUE(!segment.offset ||
						    !memory.apart(before, at, limits));
				}
				before = segment.offset;
			}
			ASSERT_EQ(at, length);
			tried++;
		}
	});
	EXPECT_GT(tried, 1000);
}

RPCORDMA_TEST(chunk_segments, pieces)
{
	Memory &memory = test_zeroed<Memory>();

	for_each_small([&](const BufferShape &shape, const Limits &limits) {
		if (limits.mr_pages != 1 || limits.sg_gaps)
			return; /* pieces do not depend on them */
		const u32 length = static_cast<u32>(shape.length());
		const ShapeNotes notes(shape, limits);

		memory.set(shape, 4);
		for (u32 from = 0; from <= length; from += 1 + length / 5) {
			const u32 to = length - (length - from) / 3;
			u32 at = from;
			u64 behind =
				~0ull; /* the address behind the last piece, when that was a kvec */

			const bool finished =
				for_each_piece(shape, {from, to - from}, 4, [&](const Piece &piece) {
					const u64 base =
						piece.part == Part::head ? shape.head_address :
						piece.part == Part::tail ? shape.tail_address :
									   0;
					u64 first = base + piece.offset;

					if (piece.part == Part::pages)
						first = 0x100000 + piece.offset / 4 * 64 +
							piece.offset % 4;
					EXPECT_GT(piece.length, 0);
					EXPECT_LE(piece.length, to - at);
					for (u32 i = 0; i < piece.length && at < to; i++)
						EXPECT_EQ(memory.address[at++], first + i);
					if (piece.part != Part::pages) {
						/* One piece for memory in one run. */
						EXPECT_NE(first, behind);
						behind = first + piece.length;
					} else {
						behind = ~0ull;
						EXPECT_LE(piece.offset % 4 + piece.length, 4);
					}
					return true;
				});
			EXPECT_TRUE(finished);
			EXPECT_EQ(at, to);
		}
	});
}

RPCORDMA_TEST(chunk_segments, pieces_stop)
{
	BufferShape shape;
	u32 seen = 0;

	shape.page_length = 3 * 4096;
	EXPECT_FALSE(for_each_piece(shape, {0, 3 * 4096}, 4096,
				    [&](const Piece &) { return ++seen < 2; }));
	EXPECT_EQ(seen, 2);
}

RPCORDMA_TEST(chunk_segments, bad_ranges)
{
	SegmentList list;
	BufferShape shape;
	const Limits limits;

	shape.head_length = 100;
	shape.page_length = 4096;
	shape.tail_length = 20;
	(void)list.push({1, 1});
	EXPECT_OK(layout_segments(shape, {4216, 0}, limits, list));
	EXPECT_EQ(list.size(), 0);
	EXPECT_ERROR(layout_segments(shape, {0, 4217}, limits, list), Error::invalid);
	EXPECT_ERROR(layout_segments(shape, {4216, 1}, limits, list), Error::invalid);
	EXPECT_ERROR(layout_segments(shape, {4217, 0}, limits, list), Error::invalid);
	EXPECT_ERROR(layout_segments(shape, {1, 0xffffffff}, limits, list), Error::invalid);
	EXPECT_ERROR(layout_segments(shape, {0xffffffff, 0xffffffff}, limits, list), Error::invalid);
}

/* Exactly max_segments fit, one more does not. */
RPCORDMA_TEST(chunk_segments, too_many)
{
	for (u32 most = 1; most <= kMaxSegments; most++)
		for (const u32 depth : {1u, 2u, 3u, 16u, 256u}) {
			SegmentList list = used_list();
			BufferShape shape;
			Limits limits;

			TEST_NOTE("max_segments", most);
			TEST_NOTE("pages of an MR", depth);
			limits.max_segments = most;
			limits.mr_pages = depth;
			shape.page_base = 4095;
			shape.page_length = (most * depth - 1) * 4096 + 1;
			ASSERT_OK(layout_segments(shape, {0, shape.page_length}, limits, list));
			EXPECT_EQ(list.size(), most);
			for (const ByteRange &segment : list)
				EXPECT_EQ(segment.length,
					  segment.offset ? depth * 4096 : (depth - 1) * 4096 + 1);
			shape.page_length++;
			EXPECT_ERROR(layout_segments(shape, {0, shape.page_length}, limits, list),
				     Error::message_size);
		}
}

/* The cases that performance rests on: 1 MiB, page aligned, takes one region. */
RPCORDMA_TEST(chunk_segments, one_region_per_mebibyte)
{
	SegmentList list;
	BufferShape shape;
	Limits limits;

	shape.head_length = 200;
	shape.page_length = 1024 * 1024;
	limits.mr_pages = 256;
	ASSERT_OK(layout_segments(shape, {200, shape.page_length}, limits, list));
	EXPECT_EQ(list.size(), 1);
	shape.page_base = 1;
	ASSERT_OK(layout_segments(shape, {200, shape.page_length}, limits, list));
	EXPECT_EQ(list.size(), 2);
	limits.mr_pages = 257;
	ASSERT_OK(layout_segments(shape, {200, shape.page_length}, limits, list));
	EXPECT_EQ(list.size(), 1);
	/* Devices report billions; the product with the page size must not wrap. */
	limits.mr_pages = 0xffffffff;
	ASSERT_OK(layout_segments(shape, {200, shape.page_length}, limits, list));
	EXPECT_EQ(list.size(), 1);

	/* A long reply: three, two when our head ends where a page does, one with gaps. */
	shape.page_base = 0;
	shape.tail_address = 0x5010;
	shape.tail_length = 12;
	limits.mr_pages = 258;
	ASSERT_OK(layout_segments(shape, {0, static_cast<u32>(shape.length())}, limits, list));
	EXPECT_EQ(list.size(), 3);
	shape.head_address = 0x2000 - 200;
	ASSERT_OK(layout_segments(shape, {0, static_cast<u32>(shape.length())}, limits, list));
	EXPECT_EQ(list.size(), 2);
	shape.tail_address = 0x5000;
	ASSERT_OK(layout_segments(shape, {0, static_cast<u32>(shape.length())}, limits, list));
	EXPECT_EQ(list.size(), 1);
	shape.tail_address = 0x5010;
	limits.sg_gaps = true;
	ASSERT_OK(layout_segments(shape, {0, static_cast<u32>(shape.length())}, limits, list));
	EXPECT_EQ(list.size(), 1);
}

/* Memory regions of 4 KiB pages under a kernel with pages of 64 KiB. */
RPCORDMA_TEST(chunk_segments, small_region_pages)
{
	SegmentList list;
	BufferShape shape;
	Limits limits;

	limits.page_size = 65536;
	limits.mr_pages = 20;
	shape.page_base = 65536 - 4096;
	shape.page_length = 65536;
	ASSERT_OK(layout_segments(shape, {0, 65536}, limits, list));
	EXPECT_EQ(list.size(), 1);
	limits.mr_pages = 15;
	ASSERT_OK(layout_segments(shape, {0, 65536}, limits, list));
	ASSERT_EQ(list.size(), 2);
	EXPECT_EQ(list[0].length, 15 * 4096);
	/* Pieces are pages of the kernel. */
	u32 pieces = 0;
	EXPECT_TRUE(for_each_piece(shape, {0, 65536}, 65536, [&](const Piece &piece) {
		EXPECT_EQ(piece.length, pieces++ ? 65536 - 4096 : 4096);
		return true;
	}));
	EXPECT_EQ(pieces, 2);
}

RPCORDMA_TEST(chunk_segments, limits_valid)
{
	const auto bad = [](auto change) {
		Limits limits;

		change(limits);
		return !limits.valid() && max_payload(limits) == 0 && payload_segments(limits) == 0;
	};

	EXPECT_TRUE(Limits{}.valid());
	EXPECT_TRUE(bad([](Limits &l) { l.page_size = 0; }));
	EXPECT_TRUE(bad([](Limits &l) { l.page_size = 12288; }));
	EXPECT_TRUE(bad([](Limits &l) { l.mr_page_size = 0; }));
	EXPECT_TRUE(bad([](Limits &l) { l.mr_page_size = 3072; }));
	EXPECT_TRUE(bad([](Limits &l) { l.mr_page_size = 8192; }));
	EXPECT_TRUE(bad([](Limits &l) { l.mr_pages = 0; }));
	EXPECT_TRUE(bad([](Limits &l) { l.max_send_sge = 0; }));
	EXPECT_TRUE(bad([](Limits &l) { l.max_segments = 0; }));
	EXPECT_TRUE(bad([](Limits &l) { l.max_segments = kMaxSegments + 1; }));
	/* Sizes of a page are powers of two, and a region's is no larger. */
	for (u32 size = 0, power = 1; size <= 65537; size++) {
		Limits of_page, of_region;

		if (size > power)
			power *= 2;
		of_page.page_size = of_region.mr_page_size = size;
		of_page.mr_page_size = 1;
		TEST_NOTE("size", size);
		ASSERT_EQ(of_page.valid(), size == power);
		ASSERT_EQ(of_region.valid(), size == power && size <= 4096);
	}
	Limits least;
	least.mr_pages = least.max_send_sge = least.max_segments = 1;
	EXPECT_TRUE(least.valid());
	least.max_segments = kMaxSegments;
	EXPECT_TRUE(least.valid());
}

namespace {

void expect_shape(const BufferShape &got, const BufferShape &wanted)
{
	EXPECT_EQ(got.head_address, wanted.head_address);
	EXPECT_EQ(got.head_length, wanted.head_length);
	EXPECT_EQ(got.page_base, wanted.page_base);
	EXPECT_EQ(got.page_length, wanted.page_length);
	EXPECT_EQ(got.tail_address, wanted.tail_address);
	EXPECT_EQ(got.tail_length, wanted.tail_length);
}

} // namespace

/* Shapes that are made of others: what changes, and that nothing else does. */
RPCORDMA_TEST(chunk_segments, other_shapes)
{
	for (u32 pages = 4; pages <= 8; pages++)
		for (u32 tail = 0; tail <= 5; tail++) {
			const BufferShape made = {0x1000, 20, 7, pages, 0x3000, tail};
			const u32 pad = min((8 - pages) % 4, tail);

			TEST_NOTE("pages", pages);
			TEST_NOTE("tail", tail);
			EXPECT_EQ(made.length(), 20 + pages + tail);
			EXPECT_EQ(pad_in_tail(made), pad);
			expect_shape(without_pages(made), {0x1000, 20, 7, 0, 0x3000, tail});
			expect_shape(without_payload(made),
				     {0x1000, 20, 7, 0, 0x3000 + pad, tail - pad});
			for (u32 bytes = 0; bytes <= pages; bytes++)
				expect_shape(with_longer_tail(made, bytes),
					     {0x1000, 20, 7, pages - bytes, bytes ? 0 : 0x3000ull,
					      tail + bytes});
			expect_shape(place_kvecs(made, Limits(), 0x10000),
				     {0x11000 - 20, 20, 7, pages, 0x11000, tail});
		}
	BufferShape beside = {0x1000, 20, 0, 0, 0x1014, 4};
	EXPECT_TRUE(beside.kvecs_adjacent());
	beside.tail_address++;
	EXPECT_FALSE(beside.kvecs_adjacent());
	/* More than 32 bits. */
	EXPECT_EQ((BufferShape{0, ~0u, 0, ~0u, 0, ~0u}).length(), 3 * u64(~0u));
}

/* Where head or tail are put beside pages that begin, or end, where a page does; or beside each other. */
RPCORDMA_TEST(chunk_segments, placing_joins)
{
	const u32 lengths[] = {0, 1, 4095, 4096, 4097};

	for (u32 head : lengths)
		for (u32 tail : lengths)
			for (u32 begin : {0u, 1u, 2u, 3u, 2048u, 4095u, 4096u, 4097u})
				for (u32 pages : {0u, 1u, 2u, 3u, 4095u, 4096u, 4097u, 8192u})
					for (u32 depth : {2u, 3u, 4u})
						for (const bool alone : {false, true})
							for (const bool adjacent : {false, true}) {
								BufferShape shape = {0x10000, head,
										     begin,   pages,
										     0x50000, tail};
								Limits limits;
								const bool joins =
									pages ? (head &&
										 begin % 4096 == 0) ||
											(tail &&
											 (begin +
											  pages) % 4096 ==
												 0) :
										head && tail &&
											!adjacent;

								if (adjacent)
									shape.tail_address =
										0x10000 + head;
								limits.mr_pages = depth;
								limits.parts_alone = alone;
								ASSERT_EQ(chunk::placing_joins(
										  shape, limits),
									  joins && depth >= 3 &&
										  !alone &&
										  head <= 4096 &&
										  tail <= 4096);
								const u32 last =
									min((begin + pages) % 4096,
									    pages);
								ASSERT_EQ(
									bytes_ahead_of_tail(shape,
											    limits),
									tail && last + tail <= 4096 ?
										last :
										0);
							}
}

/* A list keeps what it has room for, and says when it is full. */
RPCORDMA_TEST(chunk_segments, fixed_list)
{
	FixedList<u32, 3> list;

	EXPECT_TRUE(list.empty());
	for (u32 n = 0; n < 5; n++) {
		TEST_NOTE("n", n);
		EXPECT_EQ(list.push(10 + n), n < 3);
		const u32 size = min(n + 1, 3u);
		EXPECT_FALSE(list.empty());
		ASSERT_EQ(list.size(), size);
		EXPECT_EQ(list.span().size(), size);
		EXPECT_EQ(list.end() - list.begin(), size);
		for (u32 i = 0; i < size; i++) {
			EXPECT_EQ(list[i], 10 + i);
			EXPECT_EQ(list.span()[i], 10 + i);
		}
	}
	list.clear();
	EXPECT_TRUE(list.empty());
	EXPECT_EQ(list.size(), 0);
	EXPECT_TRUE(list.push(7));
	EXPECT_EQ(list[0], 7);
}

/* What max_payload() says fits at the worst alignment, and a page more does not. */
RPCORDMA_TEST(chunk_segments, max_payload)
{
	static constexpr u32 depths[] = {1, 2, 3, 16, 17, 32, 256, 257, 0xffffffff};
	u32 below = 0, full = 0;

	for (u32 n = 0;; n++) {
		Choices pick(n);
		SegmentList list = used_list();
		BufferShape shape;
		Limits limits;

		limits.page_size = pick.flag() ? 65536 : 4096;
		limits.mr_page_size = pick.flag() ? limits.page_size : 4096;
		limits.mr_pages = pick.of(depths);
		limits.max_segments = 1 + pick.below(kMaxSegments);
		limits.sg_gaps = pick.flag();
		if (pick.done())
			break;
		const u32 payload = max_payload(limits), page = limits.page_size;

		TEST_NOTE("page", page);
		TEST_NOTE("region page", limits.mr_page_size);
		TEST_NOTE("depth", limits.mr_pages);
		TEST_NOTE("max_segments", limits.max_segments);
		TEST_NOTE("gaps", limits.sg_gaps);
		ASSERT_LE(payload, kMaxPayload);
		ASSERT_EQ(payload & (page - 1), 0);
		shape.head_length = shape.tail_length = kMaxKvecLength;
		shape.page_length = payload;
		for (u32 m = 0; payload; m++) {
			const u32 places[] = {0, 1, 2048, page - 1};
			Choices place(m);
			const u32 kvecs = place.of(places);

			shape.page_base = place.of(places);
			if (place.done())
				break;
			shape.head_address = 0x200000 + kvecs;
			shape.tail_address = 0x300000 + kvecs;
			ASSERT_OK(layout_segments(shape, {0, static_cast<u32>(shape.length())},
						  limits, list));
		}
		if (payload == kMaxPayload) {
			full++;
			continue;
		}
		below++;
		shape.head_address = 0x200000 + page - 1;
		shape.tail_address = 0x300000 + page - 1;
		shape.page_base = page - 1;
		shape.page_length = payload + page;
		EXPECT_ERROR(layout_segments(shape, {0, static_cast<u32>(shape.length())}, limits,
					     list),
			     Error::message_size);
	}
	EXPECT_GT(below, 100);
	EXPECT_GT(full, 100);

	/* Real devices: rxe (512 pages), siw (256), and anything larger. */
	Limits limits;
	for (const u32 depth : {256u, 257u, 512u}) {
		limits.mr_pages = depth;
		EXPECT_EQ(max_payload(limits), kMaxPayload);
	}
}

RPCORDMA_SUITE(chunk_segments, whole_buffers, partial_ranges, placed, placed_with_last_page,
	       parts_alone, pieces, pieces_stop, bad_ranges, too_many, one_region_per_mebibyte,
	       small_region_pages, limits_valid, other_shapes, placing_joins, fixed_list,
	       max_payload);
