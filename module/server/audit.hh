// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a server's connection has taken and not given back. Nothing in the module needs it: the simulation
 * waits until a connection that nobody uses is at rest, and the unit tests look into its parts, or bring one
 * into a state that would take others to come about.
 */
#pragma once

#include "module/server/server.hh"

namespace rpcordma {

/** What the parts of a connection keep to themselves. */
struct ServerInside {
	[[nodiscard]] static const Receive *spare(const Receives &receives)
	{
		return receives.spare_;
	}
	[[nodiscard]] static const Receive *bare(const Receives &receives)
	{
		return receives.bare_;
	}
	[[nodiscard]] static u32 made(const Receives &receives)
	{
		return receives.made_;
	}
	[[nodiscard]] static const ServerCall *spare(const ServerCalls &calls)
	{
		return calls.spare_;
	}
	[[nodiscard]] static ServerCall *all(const ServerCalls &calls)
	{
		return calls.all_;
	}
	[[nodiscard]] static bool none_ready(const CallQueue &queue)
	{
		return queue.ready_.empty();
	}
	/** Threads that wait. */
	[[nodiscard]] static std::atomic<u32> &waiters(SendRoom &room)
	{
		return room.waiters_;
	}
	/** Turns of threads that wait: taken, and over. */
	[[nodiscard]] static std::atomic<u32> &turns(SendRoom &room)
	{
		return room.turns_;
	}
	[[nodiscard]] static std::atomic<u32> &over(SendRoom &room)
	{
		return room.over_;
	}
	/** Work requests that there is room for. */
	[[nodiscard]] static std::atomic<u32> &free(SendRoom &room)
	{
		return room.free_;
	}
	[[nodiscard]] static std::atomic<bool> &replied(EagerBudget &eager)
	{
		return eager.replied_;
	}
};

struct ServerAudit {
	u32 receives = 0;      /* there are, as counted */
	u32 posted = 0;	       /* as counted */
	u32 spare = 0;	       /* on that list */
	u32 with_calls = 0;    /* of messages that are not done with */
	u32 calls = 0;	       /* there are */
	u32 spare_calls = 0;   /* on that list */
	u32 queued = 0;	       /* queues that have calls */
	u32 owners = 0;	       /* of all calls together */
	u32 transfers = 0;     /* calls that have one, or a lone request; or finished (if any: 1) */
	u32 with_receives = 0; /* calls that are a message's */
	u32 in_service = 0;    /* as counted */
	u32 waiters = 0;       /* threads that wait for room */
	u32 room_taken = 0;    /* of the send queue */
	u64 eager_bytes = 0;   /* of the connection, as counted */

	/** Nothing is under way: each count is where it began. */
	[[nodiscard]] bool at_rest() const
	{
		return posted + spare == receives && !with_calls && spare_calls == calls &&
		       !queued && !owners && !transfers && !with_receives && !in_service &&
		       !waiters && !room_taken && !eager_bytes;
	}
};

/** Nobody changes the connection meanwhile. */
[[nodiscard]] inline ServerAudit audit(rpcordma_server &server) NO_THREAD_SAFETY_ANALYSIS
{
	ServerAudit a;

	a.receives = ServerInside::made(server.receives);
	a.posted = server.receives.posted();
	for (const Receive *receive = ServerInside::spare(server.receives); receive;
	     receive = receive->next)
		a.spare++;
	for (const Receive *receive = ServerInside::bare(server.receives); receive;
	     receive = receive->next)
		a.spare++;
	a.in_service = server.calls.in_service();
	a.waiters = ServerInside::waiters(server.room).load(std::memory_order_acquire);
	a.room_taken = server.room.size() -
		       ServerInside::free(server.room).load(std::memory_order_acquire);
	a.eager_bytes = server.eager.bytes();
	a.transfers = server.finished.any();
	for (const ServerCall *call = ServerInside::all(server.calls); call; call = call->all_next) {
		a.calls++;
		a.owners += call->owners.load(std::memory_order_acquire);
		a.transfers += call->moves_data();
		a.with_receives += call->receive != nullptr;
		for (const Receive *receive = call->receive; receive; receive = receive->next)
			a.with_calls++;
	}
	for (const ServerCall *call = ServerInside::spare(server.calls); call; call = call->next)
		a.spare_calls++;
	/* It waits for nothing but to be of use. */
	a.spare_calls += server.growth.call != nullptr;
	a.queued = !ServerInside::none_ready(server.queue) + !server.queue.none_held();
	return a;
}

} // namespace rpcordma
