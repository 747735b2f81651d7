// SPDX-License-Identifier: GPL-2.0-only
/* What a message is received into, as far as a peer hears of it. */
#pragma once

#include "module/base/types.hh"

namespace rpcordma::protocol {

/** What a message is received into: a head in one piece of memory, and pages behind it. */
struct ReceiveRoom {
	u32 head = 0;
	u32 pages = 0;
	u32 page_size = 0;

	[[nodiscard]] constexpr u32 bytes() const
	{
		return head + pages * page_size;
	}
};

/**
 * Bytes of a message that an end of ours sends at most, whatever its peer takes: what the kernel finds in one piece where a
 * device has too few SGEs. And what it counts on when a reply needs no chunk.
 */
constexpr u32 kMostInline = 32768;

} // namespace rpcordma::protocol
