// SPDX-License-Identifier: GPL-2.0-only
/* Making and freeing ServerCalls. See call.hh. */

#include "module/server/call.hh"

#include "module/server/server.hh"
#include "module/server/transfer.hh"

namespace rpcordma {

Owned<ServerCall> create_call(Server &server, rpcordma_alloc_how how)
{
	auto call = Owned<ServerCall>::create_near(server.endpoint, how);

	if (!call)
		return call;
	call->server = &server;
	rpcordma_cqe_init(&call->send_cqe, RPCORDMA_CQE_SERVER_SEND);
	rpcordma_cqe_init(&call->read_cqe, RPCORDMA_CQE_SERVER_READ);
	rpcordma_cqe_init(&call->chain_cqe, RPCORDMA_CQE_SERVER_CHAIN);
	/* As it is for a message of one Send. */
	call->sends[0].wr.cqe = &call->send_cqe;
	call->sends[0].wr.send_flags = RPCORDMA_SEND_SIGNALED;
	return call;
}

void destroy_call(Server &server, ServerCall *call)
{
	/* Left over by a connection that ended in the midst of it. */
	give_back_resources(server, call);
	for (SendBuffer &send : call->sends)
		send.unmap(server.endpoint);
	if (call->others)
		for (SendBuffer &send : call->others->sends)
			send.unmap(server.endpoint);
	(void)Owned<ServerCall>::take_over(call);
}

} // namespace rpcordma
