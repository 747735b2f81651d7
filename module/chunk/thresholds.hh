// SPDX-License-Identifier: GPL-2.0-only
/* What a connection carries inline, and what headers cost there. Numbers only. */
#pragma once

#include "module/base/types.hh"

namespace rpcordma::chunk {

/** Inline thresholds in bytes, each of which counts transport header and payload (RFC 8166 3.3.2), and headers. */
struct Thresholds {
	u32 send = 1024;
	u32 receive = 1024;
	/** Bytes of a header without chunks. */
	u32 bare_header = 28;
	/** Bytes of the header of the second and later transmissions of a message. */
	u32 continuation_header = 0;
	/** Most transmissions of one message; each has room for a threshold's bytes. */
	u32 transmissions = 1;

	/**
	 * In how many transmissions @payload bytes go behind a header of @header bytes, when each has
	 * @threshold bytes; 0: they do not go inline.
	 */
	[[nodiscard]] constexpr u32 transmissions_for(u32 threshold, u64 header, u64 payload) const
	{
		if (header + payload <= threshold)
			return 1;
		if (transmissions == 1 || header > threshold || threshold <= continuation_header)
			return 0;
		const u64 more = payload - (threshold - header);
		const u64 needed = 1 + div_round_up<u64>(more, threshold - continuation_header);

		return needed <= transmissions ? u32(needed) : 0;
	}
};

} // namespace rpcordma::chunk
