// SPDX-License-Identifier: GPL-2.0-only
/*
 * The eager budget: memory that receive completions pull Read chunks into before any thread has asked for
 * them. It is capped, lest strangers pin what there is; connections that have some under way share the cap evenly;
 * and one that has not been replied to yet has one call. How much Reads may be under way into is bounded for each
 * connection as well: what a completion handler maps and posts while calls pour in keeps others waiting, and more
 * Reads than the wire has room for would only keep replies waiting behind them.
 */
#pragma once

#include <atomic>

#include "compat/port/port.h"
#include "module/base/types.hh"

namespace rpcordma {

/** Of all connections. */
struct EagerTotal {
	std::atomic<u64> bytes{0}; /* under way */
	std::atomic<u32> users{0}; /* connections that have some */
};
extern EagerTotal eager_total;

/** The bytes that all connections together may have under way. Any context. */
[[nodiscard]] u64 eager_cap(const svc_xprt *xprt, u32 page_size);

/** A connection's share. */
class EagerBudget {
public:
	/** Take @bytes, of @cap for all connections; false, and nothing, when it is too much. Receive completion. */
	[[nodiscard]] bool take(u32 bytes, u64 cap);
	/** Any context. */
	void give_back(u32 bytes);
	/**
	 * Completions are about to post Reads into @bytes of them: false if those under way would be more than @most.
	 * One call's may always be. Receive completion.
	 */
	[[nodiscard]] bool begin_reading(u32 bytes, u32 most);
	/** They are done, or were not posted. Any context. */
	void end_reading(u32 bytes)
	{
		reading_.fetch_sub(bytes, std::memory_order_relaxed);
	}
	/** A reply was posted: more than one call may be under way from now on. Any context. */
	void note_reply()
	{
		replied_.store(true, std::memory_order_relaxed);
	}
	[[nodiscard]] bool replied() const
	{
		return replied_.load(std::memory_order_relaxed);
	}
	/** Bytes under way. */
	[[nodiscard]] u64 bytes() const
	{
		return bytes_.load(std::memory_order_acquire);
	}

private:
	friend struct ServerInside;
	std::atomic<u64> bytes_{0};
	std::atomic<u32> reading_{0}; /* of these, with Reads under way */
	std::atomic<bool> replied_{false};
};

} // namespace rpcordma
