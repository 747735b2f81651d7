// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a version costs and allows, as numbers. Whoever plans, posts or grants asks these, and never which
 * version it is.
 */
#pragma once

#include "module/base/types.hh"

namespace rpcordma::protocol {

struct Rules {
	/** rdma_vers. */
	u32 version;
	/** Bytes of a header without chunks; chunks add what they add in every version (xdr/lists.hh). */
	u32 bare_header;
	/** Bytes of the header of a message's second and later transmissions; 0 where there are none. */
	u32 continuation_header;
	/** The inline threshold of a peer that said nothing, bytes. */
	u32 default_threshold;
	/** Most transmissions of one message. */
	u32 transmissions;
	/** Receives that each side has posted beyond those that back credits. */
	u32 extra_receives;
	/** The responder chooses which R_key its reply invalidates; else the call names it. */
	bool responder_chooses_invalidation;
	/**
	 * Headers say which way a message goes. So what is wrong with a reply is never answered, and a requester
	 * refuses a backward call; and a grant in an error message, which has no such word, is none.
	 */
	bool tells_direction;
	/** Each end tells its properties in a message: these set the thresholds, not the private data. */
	bool properties;
};

} // namespace rpcordma::protocol
