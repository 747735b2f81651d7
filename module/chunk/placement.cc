// SPDX-License-Identifier: GPL-2.0-only
/* Whether what a peer says of the place of its items can be believed. */
#include "module/chunk/placement.hh"

namespace rpcordma::chunk {

using rtrext::Detail;
using rtrext::Fault;
using rtrext::Item;
using rtrext::Items;
using rtrext::Type;
using rtrext::Verdict;

static Verdict bad_segment(u32 number, u64 segments)
{
	return Verdict::report(
		Detail::beyond(Fault::segment, number, segments != 0 ? u32(segments - 1) : 0));
}

/** What can be said of @item without the others. @segments: that all transmissions have together. */
static Verdict judge_alone(const properties::Structure &room,
			   Span<const TransmissionLengths> transmissions, u64 segments,
			   const Item &item)
{
	Verdict verdict;

	for (u32 n = 0; n < item.numbers.count(); n++)
		if (item.numbers[n] >= segments)
			return bad_segment(item.numbers[n], segments);
	if (item.length == 0)
		return {};
	if (item.numbers.count() == 0)
		return bad_segment(0, segments);
	if (item.offset >= room.segment_length)
		return Verdict::report(
			Detail::beyond(Fault::offset, item.offset, room.segment_length - 1));
	const u32 left = for_each_piece(item, room.segment_length, [&](const ItemPiece &piece) {
		const TransmissionLengths &in = transmissions[piece.number / room.segments];
		const u64 begin = begin_of(room, piece);

		if (begin + piece.length > in.length)
			verdict = bad_segment(piece.number, piece.number);
		else if (u64(in.header_length) + in.stream_length > begin)
			verdict = Verdict::report(Detail::beyond(
				Fault::stream, in.stream_length,
				begin > in.header_length ? u32(begin - in.header_length) : 0));
		return verdict.good();
	});
	if (verdict.good() && left != 0)
		return bad_segment(item.numbers[item.numbers.count() - 1] + 1, segments);
	return verdict;
}

/** @piece, which is the @index-th of the @which-th item, has bytes of one before it. */
static bool overlaps(const properties::Structure &room, const Items &items, u32 which, u32 index,
		     const ItemPiece &piece)
{
	bool found = false;
	u32 i = 0;

	for (const Item &other : items) {
		u32 n = 0;

		if (found || i > which)
			break;
		if (other.type == Type::sent)
			(void)for_each_piece(other, room.segment_length, [&](const ItemPiece &before) {
				if (i == which && n++ == index)
					return false;
				found = before.number == piece.number &&
					before.offset < piece.offset + piece.length &&
					piece.offset < before.offset + before.length;
				return !found;
			});
		i++;
	}
	return found;
}

Verdict judge_placement(const properties::Structure &room,
			Span<const TransmissionLengths> transmissions, const Items &items)
{
	const u64 segments = u64(room.segments) * transmissions.size();
	/* Of the first segments, those that have bytes of an item: only in one of these, or of the others, may bytes overlap. */
	constexpr u32 kFirst = 64;
	u64 used = 0;
	u32 which = 0;

	for (const Item &item : items) {
		Verdict verdict;
		u32 index = 0;

		if (item.type == Type::sent) {
			verdict = judge_alone(room, transmissions, segments, item);
			if (verdict.good() && item.length != 0)
				(void)for_each_piece(
					item, room.segment_length, [&](const ItemPiece &piece) {
						const u64 bit = piece.number < kFirst ?
									u64(1) << piece.number :
									0;
						if ((!bit || used & bit) &&
						    overlaps(room, items, which, index, piece))
							verdict = Verdict::report(Detail::beyond(
								Fault::offset, piece.offset,
								room.segment_length - 1));
						used |= bit;
						index++;
						return verdict.good();
					});
		}
		if (!verdict.good())
			return verdict;
		which++;
	}
	return {};
}

bool lies_in_pages(const properties::Structure &room, Span<const TransmissionLengths> transmissions,
		   const Items &items)
{
	u32 placed = 0;
	bool good = false;

	for (const Item &item : items) {
		if (!item.placed())
			continue;
		placed++;
		good = item.type == Type::sent && item.length != 0 && item.offset == 0;
	}
	if (placed != 1 || !good)
		return false;
	for (usize n = 1; n < transmissions.size(); n++)
		if (transmissions[n].stream_length != 0)
			return false;
	return u64(transmissions[0].header_length) + transmissions[0].stream_length <= room.head();
}

} // namespace rpcordma::chunk
