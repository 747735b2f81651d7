// SPDX-License-Identifier: GPL-2.0-only
/* Send buffers, and the chain that a message is posted as: REG_MRs, then its Sends, with one doorbell. */

#include "module/client/transmit.hh"

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

/* As post_call(), out of the way: of backward replies. */
Status rpcordma_client::post(Connection &c, Call *call, u32 transmissions, SendQueue::Marker *marker)
{
	return post_call(c, call, transmissions, marker);
}
