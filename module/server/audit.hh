// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a server's connection has taken and not given back. Nothing in the module needs it: the simulation
 * waits until a connection that nobody uses is at rest.
 */
#pragma once

#include "module/server/server.hh"

namespace rpcordma {

struct ServerAudit {
	u32 calls = 0;	   /* there are, as counted */
	u32 listed = 0;	   /* on the list of all */
	u32 posted = 0;	   /* Receives, as counted */
	u32 spare = 0;	   /* on that list */
	u32 queued = 0;	   /* ready or held */
	u32 owners = 0;	   /* of all calls together */
	u32 transfers = 0; /* with a call */
	u32 tracked = 0;   /* calls that are counted in service */
	u32 in_service = 0;
	u32 waiters = 0;     /* threads that wait for room */
	u32 room_taken = 0;  /* of the send queue */
	u64 eager_bytes = 0; /* of the connection, as counted */

	/** Nothing is under way: each count is where it began. */
	[[nodiscard]] bool at_rest() const
	{
		return listed == calls && posted + spare == calls && !queued && !owners &&
		       !transfers && !tracked && !in_service && !waiters && !room_taken &&
		       !eager_bytes;
	}
};

/** Nobody changes the connection meanwhile. */
[[nodiscard]] inline ServerAudit audit(const rpcordma_server &server)
{
	ServerAudit a;

	a.calls = server.calls;
	a.posted = server.posted;
	a.in_service = server.in_service;
	a.waiters = server.waiters.load(std::memory_order_acquire);
	a.room_taken = server.queue_size - server.room.load(std::memory_order_acquire);
	a.eager_bytes = server.eager_bytes.load(std::memory_order_acquire);
	for (const ServerCall *call = server.all; call; call = call->all_next) {
		a.listed++;
		a.owners += call->owners.load(std::memory_order_acquire);
		a.transfers += call->transfer != nullptr;
		a.tracked += call->tracked;
	}
	for (ServerCall *call = server.spare.front(); call; call = server.spare.next(call))
		a.spare++;
	a.queued = !server.ready.empty() + !server.held.empty();
	return a;
}

} // namespace rpcordma
