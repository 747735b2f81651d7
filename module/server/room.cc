// SPDX-License-Identifier: GPL-2.0-only
/* Waiting for room in the send queue. See room.hh. */

#include "module/server/room.hh"

#include "module/server/close.hh"
#include "module/server/server.hh"

namespace rpcordma {

/* Without a completion for so long, a full send queue is stuck: half of what a client waits for a reply. */
static constexpr u32 kStallLimitMs = 30000;

bool wait_for_room(Server &server, u32 requests)
{
	SendRoom &room = server.room;

	if (server.closing.load(std::memory_order_acquire))
		return false;
	if (room.take(requests))
		return true;
	rpcordma_server_count(RPCORDMA_SERVER_SQ_STARVE, 1);
	trace::failure(server.peer, trace::Failure::send_queue_full, 0, int(requests));
	room.waiters_.fetch_add(1, std::memory_order_seq_cst);
	bool taken = false;
	for (;;) {
		const u32 ticket = rpcordma_gate_ticket(room.gate_);

		if (server.closing.load(std::memory_order_seq_cst))
			break;
		taken = room.take(requests);
		if (taken)
			break;
		if (!rpcordma_gate_wait(room.gate_, ticket, kStallLimitMs))
			request_close(server, trace::Loss::send_queue_stalled, int(requests));
	}
	/* Threads that has_space() held back may come now. */
	if (room.waiters_.fetch_sub(1, std::memory_order_seq_cst) == 1)
		rpcordma_svc_enqueue(server.xprt);
	return taken;
}

} // namespace rpcordma
