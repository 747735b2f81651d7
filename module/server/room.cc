// SPDX-License-Identifier: GPL-2.0-only
/* Waiting for room in the send queue. See room.hh. */

#include "module/server/room.hh"

#include "module/server/close.hh"
#include "module/server/server.hh"

namespace rpcordma {

/*
 * For so long a thread waits with a message, in all: as long as a client waits for a reply by default. A limit that began
 * anew with each completion, or with each chain, would be none for a client that posts a Receive now and then.
 */
static constexpr u32 kWaitLimitMs = 60000;

bool wait_in_turn(Server &server, u32 requests, RoomWait &wait)
{
	SendRoom &room = server.room;

	rpcordma_server_count(RPCORDMA_SERVER_SQ_STARVE, 1);
	trace::failure(server.peer, trace::Failure::send_queue_full, 0, int(requests));
	room.waiters_.fetch_add(1, std::memory_order_seq_cst);
	const u32 turn = room.turns_.fetch_add(1, std::memory_order_relaxed);
	bool taken = false;

	if (!wait.end)
		wait.end = rpcordma_now_ms() + kWaitLimitMs;
	for (;;) {
		const u32 ticket = rpcordma_gate_ticket(room.gate_);

		if (server.closing.load(std::memory_order_seq_cst))
			break;
		taken = room.over_.load(std::memory_order_acquire) == turn && room.take(requests);
		if (taken)
			break;
		const u64 now = rpcordma_now_ms();

		if (now >= wait.end || !rpcordma_gate_wait(room.gate_, ticket, u32(wait.end - now)))
			request_close(server, trace::Loss::send_queue_stalled, int(requests));
	}
	/* One that leaves without room leaves a connection that closes: no turn matters any more. */
	room.over_.fetch_add(1, std::memory_order_release);
	/* Threads that has_space() held back may come now, or the next that waits. */
	if (room.waiters_.fetch_sub(1, std::memory_order_seq_cst) == 1) {
		/* Pairs with has_space(): sunrpc's look at XPT_DATA, which is no access of ours, is behind it. */
		std::atomic_thread_fence(std::memory_order_seq_cst);
		rpcordma_svc_enqueue(server.xprt);
	} else {
		room.wake_all();
	}
	return taken;
}

} // namespace rpcordma
