// SPDX-License-Identifier: GPL-2.0-only
/*
 * Large Receives (version 2). A connection begins with Receives of a head, as most connections idle. When its client
 * has shown what it is for, by the grant that its calls deserved, each Receive gets pages behind the head; those that
 * are posted get theirs when they come back. With the last one gone the client is told (UPDPROP), and from then on a
 * long call, a WRITE of 16 KiB say, needs no RDMA Read. A connection that has grown stays so.
 *
 * What all connections may come to have so is bounded. One that would exceed that stays as it is.
 */
#pragma once

#include <atomic>

#include "compat/port/port.h"
#include "module/base/types.hh"
#include "module/server/call.hh"

namespace rpcordma {

/** The grant with which a connection grows. */
static constexpr u32 kGrowthGrant = 16;

/** The pages that large Receives of all connections have, or may come to have. Any context. */
class ReceiveBudget {
public:
	/** False: there are not so many left. @limit: of all. */
	[[nodiscard]] bool take(u64 pages, u64 limit)
	{
		u64 taken = taken_.load(std::memory_order_relaxed);

		do
			if (taken + pages > limit)
				return false;
		while (!taken_.compare_exchange_weak(taken, taken + pages,
						     std::memory_order_relaxed));
		return true;
	}
	void give(u64 pages)
	{
		taken_.fetch_sub(pages, std::memory_order_relaxed);
	}
	[[nodiscard]] u64 taken() const
	{
		return taken_.load(std::memory_order_relaxed);
	}

private:
	std::atomic<u64> taken_{0};
};
extern ReceiveBudget receive_budget;

/** Where a connection's growth stands. Under the connection's lock. */
struct Growth {
	bool possible = false; /* its client has said what it is, and so will hear of it */
	u32 reserved = 0;      /* pages of the budget */
	u32 small_posted =
		0; /* Receives without pages that the device still has, once it has begun */
	ServerCall *call =
		nullptr; /* what tells the client goes out of its buffer; null: not begun, or sent */

	[[nodiscard]] bool begun() const
	{
		return reserved != 0;
	}
	/** The client knows. */
	[[nodiscard]] bool told() const
	{
		return begun() && !call;
	}
	/** A Receive was consumed; @small: it had no pages. */
	void completed(bool small)
	{
		if (__builtin_expect(small && small_posted, 0))
			small_posted--;
	}
	/** No posted Receive is small, and the client does not know yet. */
	[[nodiscard]] bool to_be_told() const
	{
		return call && !small_posted;
	}
};

/** Begin, if that is due, and there is memory for it; else the next batch of messages tries again. A receive completion. */
void begin_growth(Server &server);
/** The connection is gone, and its Receives with it. */
void end_growth(Server &server);

} // namespace rpcordma
