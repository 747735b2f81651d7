// SPDX-License-Identifier: GPL-2.0-only
/* The chain that a message is posted as, where it is part of sending a call. */

#pragma once

#include "module/client/client.hh"

namespace rpcordma {

/*
 * Post a REG_MR for each mapped region of @call, then the Sends of its @transmissions, each of which was handed
 * over. The send queue has room. The last Send is signaled when there is a @marker.
 */
[[nodiscard, gnu::always_inline]] inline Status
post_call(Connection &c, rpcordma_call *call, u32 transmissions, SendQueue::Marker *marker)
{
	u32 count = transmissions;
	rpcordma_send_wr *const last =
		&call->sends[protocol::kTransmissions > 1 ? transmissions - 1 : 0].wr;
	rpcordma_send_wr *first = nullptr;

	/* From behind, so that none needs to know where the one before it is. */
	for (u32 i = protocol::kTransmissions > 1 ? transmissions : 1; i--;) {
		rpcordma_send_wr &wr = call->sends[i].wr;

		wr.opcode = RPCORDMA_WR_SEND;
		wr.send_flags = 0;
		wr.cqe = &c.silent_send_cqe;
		wr.next = first;
		first = &wr;
	}
	if (marker) {
		last->send_flags = RPCORDMA_SEND_SIGNALED;
		last->cqe = &marker->cqe;
	}
	for (Region *region = call->mapped.front(); region; region = call->mapped.next(region)) {
		rpcordma_send_wr &wr = region->register_wr.wr;

		wr.cqe = &c.silent_register_cqe;
		wr.send_flags = 0;
		wr.next = first;
		first = &wr;
		count++;
	}
	/* Once posted, a backward reply may complete, and the call be another one's, before this goes on. */
	const u32 xid = call->xid;
	const rpcordma_cqe *const entry = last->cqe;
	const int rc = rpcordma_post_send(c.endpoint, first).error;
	trace::post(c.endpoint, "send", xid, count, marker != nullptr, rc, entry);
	return rc ? Status(from_errno(rc)) : Status();
}

} // namespace rpcordma
