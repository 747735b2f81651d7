// SPDX-License-Identifier: GPL-2.0-only
/* What a reply has invalidated: part of the way of most replies, so its code is part of that. */

#pragma once

#include "module/client/client.hh"

namespace rpcordma {

/*
 * Send With Invalidate: the device has invalidated @rkey, whatever the peer's R bit said (RFC 8797 4.1). Returns the region
 * that has it, of those that @call has mapped; or null, with a trace, if none has. It needs no LOCAL_INV any more, and is for
 * the caller to move to another list.
 */
[[nodiscard, gnu::always_inline]] inline Region *
take_invalidated(const rpcordma_client &client, Connection &c, rpcordma_call *call, u32 rkey)
{
	Region *region = call->mapped.front();

	while (region && region->mapping.rkey != rkey)
		region = call->mapped.next(region);
	if (!region) {
		trace::failure(client.peer, trace::Failure::invalidate_foreign, call->xid,
			       static_cast<int>(rkey));
		return nullptr;
	}
	call->mapped_count--;
	c.send_queue.return_invalidations(1);
	return region;
}

/* One of @call's regions is out of the peer's reach already. */
[[gnu::always_inline]] inline void unmap_one(rpcordma_client &client, Connection &c,
					     rpcordma_call *call, u32 rkey)
{
	Region *const region = take_invalidated(client, c, call, rkey);

	if (!region)
		return;
	rpcordma_region_unmap(region->device);
	trace::region(client.peer, "remote-inv", call->xid, *region);
	call->spare.move_front(region);
	client.announce_space();
}

} // namespace rpcordma
