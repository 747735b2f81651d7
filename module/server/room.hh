// SPDX-License-Identifier: GPL-2.0-only
/*
 * Room in a connection's send queue. A chain takes room for all its work requests before it is posted, and
 * gives it back in one, when its last completes: that one alone is signaled. Completions try; threads wait, and
 * are served in the order in which they came.
 */
#pragma once

#include <atomic>

#include "compat/port/port.h"
#include "module/base/types.hh"
#include "module/server/call.hh"

namespace rpcordma {

/** How long a thread may wait with one message, for the room of all its chains. */
struct RoomWait {
	u64 end = 0; /* rpcordma_now_ms(); 0: it has not waited */
};

class SendRoom {
public:
	SendRoom() = default;
	SendRoom(const SendRoom &) = delete;
	SendRoom &operator=(const SendRoom &) = delete;
	~SendRoom()
	{
		if (gate_)
			rpcordma_gate_destroy(gate_);
	}
	/** Make what threads wait at; false without memory. Process context, once. */
	[[nodiscard]] bool create()
	{
		gate_ = rpcordma_gate_create();
		return gate_ != nullptr;
	}
	/** The queue holds @size work requests. */
	void init(u32 size)
	{
		size_ = size;
		free_.store(size, std::memory_order_relaxed);
	}
	[[nodiscard]] u32 size() const
	{
		return size_;
	}
	/** Work requests that there is room for now. */
	[[nodiscard]] u32 free() const
	{
		return free_.load(std::memory_order_relaxed);
	}
	/** Take room for @requests; false, and nothing, without. Any context. */
	[[nodiscard]] bool take(u32 requests)
	{
		u32 free = free_.load(std::memory_order_seq_cst);

		while (free >= requests)
			if (free_.compare_exchange_weak(free, free - requests,
							std::memory_order_seq_cst))
				return true;
		return false;
	}
	/** Any context. */
	void give(u32 requests)
	{
		free_.fetch_add(requests, std::memory_order_seq_cst);
		if (waiters_.load(std::memory_order_seq_cst))
			rpcordma_gate_open(gate_);
	}
	/** Threads wait for some. */
	[[nodiscard]] bool waited_for(std::memory_order order) const
	{
		return waiters_.load(order) != 0;
	}
	/** Have those that wait look again. Any context. */
	void wake_all()
	{
		if (gate_)
			rpcordma_gate_open(gate_);
	}

private:
	friend bool wait_in_turn(Server &server, u32 requests, RoomWait &wait);
	friend struct ServerInside;
	std::atomic<u32> free_{0};
	std::atomic<u32> waiters_{0}; /* threads */
	std::atomic<u32> turns_{0};   /* that were taken by threads that wait, */
	std::atomic<u32> over_{0};    /* and how many of them are over */
	rpcordma_gate *gate_ = nullptr;
	u32 size_ = 0;
};

/** wait_for_room() (server.hh), of a thread that cannot have it at once. */
[[nodiscard, gnu::noinline]] bool wait_in_turn(Server &server, u32 requests, RoomWait &wait);

} // namespace rpcordma
