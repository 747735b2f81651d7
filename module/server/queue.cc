// SPDX-License-Identifier: GPL-2.0-only
/* Queueing calls for service threads. See queue.hh. */

#include "module/server/queue.hh"

#include "module/server/negotiate.hh"
#include "module/server/server.hh"

namespace rpcordma {

void enqueue(Server &server, ServerCall *call, CallQueue::Lane lane)
{
	bool look;
	{
		SpinGuard guard(server.lock);

		look = enqueue_locked(server, call, lane);
	}
	if (look)
		rpcordma_svc_enqueue(server.xprt);
}

void establish(Server &server)
{
	{
		SpinGuard guard(server.lock);

		/* The event may come behind the end of all that there was. What waits for it goes with the connection. */
		if (server.closing.load(std::memory_order_relaxed))
			return;
		server.established.store(true, std::memory_order_release);
		answer_early_locked(server);
		/* Calls may have come before. */
		if (!server.queue.empty())
			rpcordma_svc_set_data(server.xprt);
	}
	rpcordma_svc_enqueue(server.xprt);
}

CallQueue::Taken take_call(Server &server)
{
	SpinGuard guard(server.lock);
	const CallQueue::Taken taken = server.queue.take();

	if (server.queue.empty())
		rpcordma_svc_clear_data(server.xprt);
	return taken;
}

} // namespace rpcordma
