// SPDX-License-Identifier: GPL-2.0-only
/* Send buffers, and the chain that a message is posted as: REG_MRs, then its Sends, with one doorbell. */

#include "module/client/client.hh"

using namespace rpcordma;

/* Have the buffers of @call's first @count Sends mapped. Any context. */
bool rpcordma_client::map_send_buffers(Connection &c, Call *call, u32 count)
{
	for (u32 i = 0; i < (protocol::kTransmissions > 1 ? count : 1); i++)
		if (!call->sends[i].map(c.endpoint)) {
			trace::failure(c.peer, trace::Failure::send_map_failed, call->xid,
				       Error::io);
			return false;
		}
	return true;
}

/*
 * Post a REG_MR for each mapped region of @call, then the Sends of its @transmissions, each of which was handed
 * over. The send queue has room. The last Send is signaled when there is a @marker.
 */
Status rpcordma_client::post(Connection &c, Call *call, u32 transmissions, SendQueue::Marker *marker)
{
	rpcordma_send_wr *first = nullptr, **link = &first;
	const rpcordma_send_wr *bad;
	u32 count = transmissions;

	for (Region *region = call->mapped.front(); region; region = call->mapped.next(region)) {
		region->register_wr.wr.cqe = &c.silent_register_cqe;
		region->register_wr.wr.send_flags = 0;
		*link = &region->register_wr.wr;
		link = &region->register_wr.wr.next;
		count++;
	}
	rpcordma_send_wr *last = nullptr;
	for (u32 i = 0; i < (protocol::kTransmissions > 1 ? transmissions : 1); i++) {
		last = &call->sends[i].wr;
		last->opcode = RPCORDMA_WR_SEND;
		last->send_flags = 0;
		last->cqe = &c.silent_send_cqe;
		*link = last;
		link = &last->next;
	}
	last->next = nullptr;
	if (marker) {
		last->send_flags = RPCORDMA_SEND_SIGNALED;
		last->cqe = &marker->cqe;
	}
	/* Once posted, a backward reply may complete, and the call be another one's, before this goes on. */
	const u32 xid = call->xid;
	const rpcordma_cqe *const entry = last->cqe;
	const int rc = rpcordma_post_send(c.endpoint, first, &bad);
	trace::post(c.endpoint, "send", xid, count, marker != nullptr, rc, entry);
	return rc ? Status(from_errno(rc)) : Status();
}
