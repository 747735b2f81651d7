// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sending a message: its Sends, behind the RDMA Writes of its chunks, in one chain and one post; and what
 * follows their completion. As the send queue is in order, data are there before the message that tells of
 * them.
 */
#pragma once

#include "compat/port/port.h"
#include "module/base/result.hh"
#include "module/base/span.hh"
#include "module/server/call.hh"
#include "module/server/transfer.hh"

namespace rpcordma {

/** A message that is to be posted. */
struct Outgoing {
	Chain writes;	    /* of the call's transfer; the last is linked to the first Send */
	u32 invalidate = 0; /* the R_key that the last Send invalidates; 0: none */
	u32 transmissions = 1;
	u32 lengths[protocol::kTransmissions] = {}; /* bytes in each Send */

	/** Work requests of all. */
	[[nodiscard]] u32 requests() const
	{
		return writes.count + transmissions;
	}
};

/** Have the first @transmissions of @call's send buffers, which nobody uses. False: no memory. @how names the contexts. */
[[nodiscard]] bool ensure_sends(Server &server, ServerCall *call, u32 transmissions,
				rpcordma_alloc_how how);
/**
 * Write the header of each transmission of @out but the first, whose lengths then are those of the headers.
 * Errors: ENOMEM; ENOSPC.
 */
[[nodiscard]] Status encode_continuations(Server &server, ServerCall *call,
					  const xdr::Envelope &envelope, Outgoing &out);
/** Copy the bytes of @buf that @ranges say into the Sends of @out, behind what is there. There is room. */
void append_inline(const Server &server, ServerCall *call, const rpcordma_xdr_buf *buf,
		   Span<const chunk::ReplyRange> ranges, Outgoing &out);
/**
 * Write a message without chunks, with the bytes of @buf behind the header; as many transmissions as they take.
 * Errors: ENOSPC, it is too long; ENOMEM. @call has a first send buffer. A service thread, or any process
 * context for one Send.
 */
[[nodiscard]] Status build_bare(Server &server, ServerCall *call, xdr::Envelope envelope,
				const rpcordma_xdr_buf *buf, Outgoing &out);

/**
 * Post @out, which is in @call's send buffers and its transfer, once there is room. From here on the device is
 * an owner of @call; on failure it is not, or the drain makes an end of it. Errors: ENOTCONN. May wait.
 */
[[nodiscard]] Status post_message(Server &server, ServerCall *call, const Outgoing &out, u32 xid);
/** As that, with the room taken: does not wait. */
[[nodiscard]] Status post_with_room(Server &server, ServerCall *call, const Outgoing &out, u32 xid);
/** The last of @call's chain completed, and with it all of them. Send completion. */
void message_sent(Server &server, ServerCall *call, const rpcordma_completion &completion);

} // namespace rpcordma
