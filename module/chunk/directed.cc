// SPDX-License-Identifier: GPL-2.0-only
/* How a reply goes whose call has directions for its results. See directed.hh. */

#include "module/chunk/directed.hh"

namespace rpcordma::chunk {

using rtrext::Place;
using rtrext::Type;

/* What is done to have the reply fit, the best first. */
enum class Effort : u8 { preferred, written, unsent, unplaced };

/* A plan that is being made, by one of the Efforts. */
class DirectedPlanner {
public:
	DirectedPlanner(const rtrext::Sets &sets, Span<const ReplyRange> results, u32 length,
			const ReplyRoom &room, Directed &plan)
		: sets_(sets),
		  results_(results),
		  length_(length),
		  room_(room),
		  plan_(plan)
	{
	}

	/* Returns whether the reply fits. */
	[[nodiscard]] bool plan(Effort effort)
	{
		usize i = 0;

		plan_ = {};
		at_ = kept_ = 0;
		plan_.header_length = rtrext::least_response_length;
		for (const rtrext::Set &set : sets_)
			for (const Place &place : set.places) {
				if (plan_.count == rtrext::most_items)
					break;
				DirectedItem &item = plan_.items[plan_.count++];

				plan_.header_length += rtrext::unplaced_item_length;
				if (i < results_.size() && is_there_(results_[i]))
					match_(effort, place, results_[i], item);
				i++;
			}
		keep_(length_);
		/* The words of no stream are so many bytes. */
		if (kept_ > ~u32(xdr::word_size - 1))
			return false;
		plan_.stream_length = kept_ + xdr_pad(kept_);
		return plan_.segments ? fits_head_() : fits_();
	}

	/* Of the directions of results that are larger than their segments, the first. After a plan that does not fit. */
	[[nodiscard]] Shortfall shortfall() const
	{
		Shortfall shortfall;
		u32 last = 0; /* segment so far */

		for_each_direction(sets_, plan_, [&](const DirectedItem &item, const Place &place) {
			const u32 count = place.segments.count(), length = item.range.length;
			const u64 offered = place.segments.length();

			last += count;
			if (!count || item.type == Type::none || room_.sealed ||
			    length < place.least || length <= offered)
				return true;
			shortfall = {last, place.segments[count - 1].length + u32(length - offered)};
			return false;
		});
		return shortfall;
	}

private:
	/* @result is in the reply, behind what was placed before. The service may have taken it back. */
	[[nodiscard]] bool is_there_(const ReplyRange &result) const
	{
		return result.offset >= at_ && result.offset <= length_ &&
		       result.length <= length_ - result.offset;
	}

	/* What of the reply has no place yet stays in the stream, up to @until. */
	void keep_(u32 until)
	{
		if (until > at_)
			plan_.rest[plan_.rest_count++] = {at_, until - at_};
		kept_ += until - at_;
	}

	/* DDP segments that @length bytes take. */
	[[nodiscard]] u32 segments_for_(u32 length) const
	{
		return u32(div_round_up<u64>(length, room_.structure.segment_length));
	}

	[[nodiscard]] bool can_send_(Effort effort, const Place &place, u32 length) const
	{
		const properties::Structure &to = room_.structure;

		if (effort >= Effort::unsent || !to.segments || !to.segment_length ||
		    place.type == Type::segments ||
		    (place.type == Type::by_size && length > place.most_sent))
			return false;
		return u64(plan_.segments) + segments_for_(length) <=
		       min<u64>(u64(to.segments) * room_.transmissions, kMostSentSegments);
	}

	/* One that is to be sent has no segments. */
	[[nodiscard]] static bool can_write_(Effort effort, const Place &place, u32 length)
	{
		return effort != Effort::unplaced && length <= place.segments.length();
	}

	/* @result is for @place. */
	void match_(Effort effort, const Place &place, const ReplyRange &result, DirectedItem &item)
	{
		const u32 length = result.length;

		item.range = result;
		item.type = Type::too_short;
		/* Placed is what begins with a word of the message: of XDR everything does. */
		if (room_.sealed || !length || length < place.least ||
		    result.offset % xdr::word_size != 0)
			return;
		const bool sends = can_send_(effort, place, length),
			   writes = can_write_(effort, place, length);
		if (sends && !(writes && effort == Effort::written)) {
			item.type = Type::sent;
			item.first = plan_.segments;
			item.segments = segments_for_(length);
			plan_.segments += item.segments;
			plan_.header_length += rtrext::sent_item_length -
					       rtrext::unplaced_item_length +
					       item.segments * u32(xdr::word_size);
		} else if (writes) {
			item.type = Type::segments;
			item.segments = rtrext::filled_segments(place.segments, length);
			plan_.write_length += length;
			plan_.header_length +=
				u32(xdr::word_size) + item.segments * u32(xdr::segment_size);
		} else {
			return;
		}
		keep_(result.offset);
		/* Its pad goes with it. */
		at_ = u32(min<u64>(u64(result.offset) + length + xdr_pad(length), length_));
	}

	/* With items that are sent. */
	[[nodiscard]] bool fits_head_()
	{
		plan_.transmissions =
			u32(div_round_up<u64>(plan_.segments, room_.structure.segments));
		return u64(plan_.header_length) + plan_.stream_length <= room_.structure.head();
	}

	/* Without. */
	[[nodiscard]] bool fits_()
	{
		const u32 header = plan_.header_length;

		if (room_.bytes < header)
			return false;
		const u32 first = rtrext::stream_room(room_.bytes, header);
		const u32 more = rtrext::stream_room(room_.bytes, rtrext::continuation_length);
		if (plan_.stream_length <= first)
			return true;
		if (!more)
			return false;
		const u64 n = 1 + div_round_up<u64>(plan_.stream_length - first, more);
		plan_.transmissions = u32(min<u64>(n, ~0u));
		return n <= room_.transmissions;
	}

	const rtrext::Sets &sets_;
	const Span<const ReplyRange> results_;
	const u32 length_;
	const ReplyRoom &room_;
	Directed &plan_;
	u32 at_ = 0;   /* of the reply; what precedes is placed or in the rest */
	u32 kept_ = 0; /* bytes of the rest */
};

Status plan_directed(const rtrext::Sets &sets, Span<const ReplyRange> results, u32 length,
		     const ReplyRoom &room, Directed &plan, Shortfall &shortfall)
{
	DirectedPlanner planner(sets, results, length, room, plan);

	for (const Effort effort :
	     {Effort::preferred, Effort::written, Effort::unsent, Effort::unplaced})
		if (planner.plan(effort))
			return {};
	shortfall = planner.shortfall();
	return Error::no_space;
}

void encode_directed(rtrext::Encoder &encoder, const rtrext::Sets &sets, const Directed &plan)
{
	u32 numbers[kMostSentSegments];

	for_each_direction(sets, plan, [&](const DirectedItem &item, const Place &place) {
		const ReplyRange &at = item.range;

		switch (item.type) {
		case Type::segments:
			encoder.written(at.offset, at.length, place.segments);
			break;
		case Type::sent:
			for (u32 n = 0; n < item.segments; n++)
				numbers[n] = item.first + n;
			encoder.sent(at.offset, at.length, 0, {numbers, item.segments});
			break;
		default:
			encoder.unplaced(at.offset, at.length, item.type);
			break;
		}
		return true;
	});
}

} // namespace rpcordma::chunk
