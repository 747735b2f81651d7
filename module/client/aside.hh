// SPDX-License-Identifier: GPL-2.0-only
/* Sending past the sender; see aside.cc. */
#pragma once

#include "module/client/client.hh"

/**
 * Send the message that @encode(room) writes, and whose length it returns, beside the task that sends. Any context, while
 * the connection lasts. False: there are no means to. One that cannot be posted ends the connection.
 *
 * @xid  the message's, for traces
 */
template <typename Encode> bool rpcordma_client::send_aside(Connection &c, u32 xid, Encode encode)
{
	Call *call = take_backward(xid);

	if (!call)
		return false;
	const rpcordma::Result<u32> length = encode(call->send().room());
	rpcordma::SendQueue::Marker *marker = nullptr;
	if (length.ok() && map_send_buffers(c, call, 1))
		marker = c.send_queue.signal_aside(call, 1);
	if (!marker) {
		put_backward(call);
		/* signal_aside() may have had room for a moment, which the sender has found missing. */
		announce_space();
		return false;
	}
	call->send().hand_over(c.endpoint, length.value());
	Status posted;
	{
		/* Not between the transmissions of a message, which the sender may be posting. */
		rpcordma::SpinGuard guard(lock);

		posted = post(c, call, 1, marker);
	}
	if (!posted.ok()) {
		rpcordma::trace::failure(peer, rpcordma::trace::Failure::post_failed, xid,
					 posted.error());
		rpcordma::SendQueue::release(*marker);
		put_backward(call);
		c.request_close(rpcordma::trace::Loss::rpc_failed,
				rpcordma::to_errno(posted.error()));
	}
	return true;
}
