// SPDX-License-Identifier: GPL-2.0-only
/* How a connection asks for its end. See close.hh. */

#include "module/server/close.hh"

#include "module/server/server.hh"

namespace rpcordma {

void request_close(Server &server, const char *why, int value)
{
	if (server.closing.exchange(true, std::memory_order_seq_cst))
		return;
	trace::connection(server.peer, why, value);
	rpcordma_svc_close(server.xprt);
	server.room.wake_all();
}

} // namespace rpcordma
