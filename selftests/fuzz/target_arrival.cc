// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/chunk/arrival.hh, on the Read lists of arbitrary headers: the call that it puts together is, byte for
 * byte, the one that a plain assembly by RFC 8166 3.4.5 has, and it is refused exactly where that fails.
 */
#include "assembly.hh"
#include "fuzz.hh"
#include "module/chunk/arrival.hh"
#include "xdr/v1.hh"

namespace rpcordma {
namespace {

using namespace assembly;
using namespace chunk;

constexpr u32 kMost = 2048; /* the longest call */

/* By the segment's place in memory, which is what a device gets: each has one of its own. */
u32 number_of(const xdr::ReadList &reads, const xdr::Segment &part, u32 &offset)
{
	for (u32 i = 0; i < reads.count(); i++) {
		const xdr::Segment &whole = reads[i].target;

		if (whole.handle == part.handle && part.offset - whole.offset <= whole.length &&
		    part.length <= whole.length - (part.offset - whole.offset)) {
			offset = u32(part.offset - whole.offset);
			return i;
		}
	}
	EXPECT_TRUE(false);
	return 0;
}

} // namespace
} // namespace rpcordma

FUZZ_TARGET()
{
	Input in;
	const u32 most = in.below(kMost + 1);
	u32 inline_length = in.below(kMost + 8);
	const Bytes body = in.take(600);
	const u32 count = u32(body.size() / 4);

	/* Positions and lengths, two bytes each; what else a segment has only has to differ. */
	MutableBytes list = test_alloc(count * 24 + 12);
	u32 at = 0;
	for (u32 i = 0; i < count; i++) {
		const u8 *b = body.data() + 4 * i;
		/* One in eight is as large as a word can tell. */
		const bool huge = (b[2] & 0xe0) == 0xe0;
		const u32 length = huge ? ~(u32(b[2]) << 8 | b[3]) : (u32(b[2]) << 8 | b[3]) & 0x3ff;
		const u32 words[] = {
			1,
			((b[0] & 0xc0) == 0xc0 ? ~0u << 11 : 0) | ((b[0] & 7) << 8) | (b[1] & ~3u),
			1000 + i,
			length,
			0,
			i << 16};

		for (u32 word : words) {
			xdr::store_be32(list.data() + at, word);
			at += 4;
		}
	}
	for (u32 i = 0; i < 3; i++) {
		xdr::store_be32(list.data() + at, 0);
		at += 4;
	}
	xdr::ChunkLists lists;
	xdr::Reader reader(Bytes(list).first(at));
	ASSERT_OK(xdr::decode_lists(reader, lists));
	EXPECT_EQ(reader.left(), 0);
	const xdr::ReadList &reads = lists.reads;
	if (reads.has_position_zero())
		inline_length = 0;

	Stream expected, got;
	Arrival planned;
	const Status status = plan_arrival(reads, inline_length, most, planned);
	const Result<Arrival> arrival = status.ok() ? Result<Arrival>(planned) : status.error();
	if (!assemble(reads, inline_length, most, expected)) {
		EXPECT_ERROR(arrival, Error::protocol);
		return;
	}
	ASSERT_OK(arrival);
	const Arrival &a = arrival.value();
	EXPECT_EQ(a.message_length, expected.length());
	EXPECT_EQ(a.inline_length, inline_length);
	EXPECT_EQ(a.position_zero, reads.has_position_zero());
	if (a.how == Arrival::How::inline_) {
		ASSERT_TRUE(got.add(kInline, inline_length, kMost));
	} else if (a.how == Arrival::How::single) {
		const u32 before = got.length() + a.position;

		ASSERT_LE(a.position, inline_length);
		ASSERT_TRUE(got.add(kInline, a.position, kMost));
		ASSERT_TRUE(add_chunk(got, reads, a.position, kMost));
		EXPECT_EQ(got.length() - before, a.sink_length);
		ASSERT_TRUE(got.add(kPad, xdr_pad(a.sink_length), kMost));
		ASSERT_TRUE(got.add(kInline + a.position, inline_length - a.position, kMost));
	} else {
		u32 segments = 0;
		const auto length = walk_arrival(
			reads, inline_length, most,
			[&](const xdr::Segment &part, u32 to) {
				u32 offset = 0;
				const u32 number = number_of(reads, part, offset);

				EXPECT_EQ(to, got.length());
				EXPECT_TRUE(
					got.add(segment_name(number) + offset, part.length, kMost));
				segments++;
			},
			[&](u32 from, u32 to, u32 n) {
				EXPECT_EQ(to, got.length());
				EXPECT_TRUE(got.add(kInline + from, n, kMost));
			},
			[&](u32 to, u32 n) {
				EXPECT_EQ(to, got.length());
				EXPECT_TRUE(got.add(kPad, n, kMost));
			});
		ASSERT_OK(length);
		EXPECT_EQ(length.value(), a.sink_length);
		EXPECT_EQ(segments, a.segments);
	}
	ASSERT_EQ(got.length(), expected.length());
	for (u32 i = 0; i < got.length(); i++) {
		TEST_NOTE("byte", i);
		EXPECT_EQ(got.bytes[i], expected.bytes[i]);
	}
}
