// SPDX-License-Identifier: GPL-2.0-only
/* How a call with Read chunks arrives. See arrival.hh. */

#include "module/chunk/arrival.hh"

namespace rpcordma::chunk {

Result<Arrival> plan_arrival(const xdr::ReadList &reads, u32 inline_length, u32 max_message,
			     bool whole)
{
	Arrival arrival;

	arrival.inline_length = inline_length;
	arrival.position_zero = reads.has_position_zero();
	if (inline_length > max_message || reads.total_length() > max_message)
		return Error::protocol;

	const u32 length = u32(reads.total_length());

	if (!length) {
		/* A Position Zero chunk without a byte has the call nowhere. */
		if (arrival.position_zero || !inline_length)
			return Error::protocol;
		arrival.message_length = inline_length;
		return arrival;
	}
	arrival.position = next_position(reads, 0);
	if (!whole && !arrival.position_zero && !next_position(reads, arrival.position)) {
		const u32 padded = length + xdr_pad(length);

		if (arrival.position > inline_length || padded > max_message - inline_length)
			return Error::protocol;
		arrival.how = Arrival::How::single;
		arrival.sink_length = length;
		arrival.message_length = inline_length + padded;
		arrival.segments = reads.count();
		return arrival;
	}
	arrival.how = Arrival::How::linear;
	auto read = [&](const xdr::Segment &, u32) { arrival.segments++; };
	auto copy = [](u32, u32, u32) {};
	const u32 total = TRY(walk_arrival(reads, inline_length, max_message, read, copy));
	arrival.sink_length = arrival.message_length = total;
	return arrival;
}

} // namespace rpcordma::chunk
