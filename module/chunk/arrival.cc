// SPDX-License-Identifier: GPL-2.0-only
/* How a call with Read chunks arrives. See arrival.hh. */

#include "module/chunk/arrival.hh"

namespace rpcordma::chunk {

/** A call with one segment at @position, which is not zero. False: it is not as it should be, or empty. */
[[nodiscard, gnu::always_inline]] static inline bool
plan_one_segment(u32 position, u32 length, u32 inline_length, u32 max_message, Arrival &arrival)
{
	const u64 total = u64(inline_length) + length + xdr_pad(length);

	if (!length || position > inline_length || total > max_message)
		return false;
	arrival.how = Arrival::How::single;
	arrival.inline_length = inline_length;
	arrival.position = position;
	arrival.sink_length = length;
	arrival.message_length = u32(total);
	arrival.segments = 1;
	arrival.position_zero = false;
	return true;
}

Status plan_arrival(const xdr::ReadList &reads, u32 inline_length, u32 max_message,
		    Arrival &arrival, bool whole)
{
	/* As most have. */
	const bool one = reads.count() == 1;
	const u32 its = one ? reads[0].position.get() : 0;

	if (its && !whole &&
	    plan_one_segment(its, reads[0].target.length, inline_length, max_message, arrival))
		return {};
	arrival = Arrival::inline_only(inline_length);
	arrival.position_zero = one ? !its : reads.has_position_zero();
	if (inline_length > max_message || reads.total_length() > max_message)
		return Error::protocol;

	const u32 length = u32(reads.total_length());

	if (!length) {
		/* A Position Zero chunk without a byte has the call nowhere. */
		if (arrival.position_zero || !inline_length)
			return Error::protocol;
		return {};
	}
	arrival.position = one ? its : next_position(reads, 0);
	if (!whole && !arrival.position_zero && (one || !next_position(reads, arrival.position))) {
		const u32 padded = length + xdr_pad(length);

		if (arrival.position > inline_length || padded > max_message - inline_length)
			return Error::protocol;
		arrival.how = Arrival::How::single;
		arrival.sink_length = length;
		arrival.message_length = inline_length + padded;
		arrival.segments = reads.count();
		return {};
	}
	arrival.how = Arrival::How::linear;
	auto read = [&](const xdr::Segment &, u32) { arrival.segments++; };
	auto copy = [](u32, u32, u32) {};
	const u32 total = TRY(walk_arrival(reads, inline_length, max_message, read, copy));
	arrival.sink_length = arrival.message_length = total;
	return {};
}

} // namespace rpcordma::chunk
