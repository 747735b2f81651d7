// SPDX-License-Identifier: GPL-2.0-only
/* How a connection asks for its end. See close.hh. */

#include "module/server/close.hh"

#include "module/server/server.hh"

namespace rpcordma {

void request_close(Server &server, trace::Loss why, int value)
{
	if (server.closing.exchange(true, std::memory_order_seq_cst))
		return;
	trace::loss(server.peer, why, value);
	rpcordma_svc_close(server.xprt);
	server.room.wake_all();
}

void close_after(Server &server, trace::Failure why, u32 xid, Error error)
{
	trace::failure(server.peer, why, xid, error);
	request_close(server, trace::Loss::rpc_failed, to_errno(error));
}

} // namespace rpcordma
