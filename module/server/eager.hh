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

/** What all connections have under way. One word, so that who takes and who gives back touches it once. */
class EagerTotal {
public:
	/** Take @bytes of @cap, for a connection that had none if @joins; false, and nothing, when it is too much. */
	[[nodiscard]] bool take(u64 bytes, u64 cap, bool joins);
	/** @leaves: the connection has none any more. Any context. */
	void give_back(u64 bytes, bool leaves)
	{
		taken_.fetch_sub(bytes + (leaves ? kUser : 0), std::memory_order_relaxed);
	}
	/** A connection that was thought to have some had none. Any context. */
	void join()
	{
		taken_.fetch_add(kUser, std::memory_order_relaxed);
	}
	[[nodiscard]] u64 bytes() const
	{
		return taken_.load(std::memory_order_relaxed) % kUser;
	}
	/** Connections that have some. */
	[[nodiscard]] u32 users() const
	{
		return static_cast<u32>(taken_.load(std::memory_order_relaxed) / kUser);
	}

private:
	/* A connection; below are bytes. */
	static constexpr u64 kUser = u64(1) << 44;
	std::atomic<u64> taken_{0};
};
extern EagerTotal eager_total;

/** The part of the machine's memory, in bytes, that they may fill however few the threads. Any context. */
[[nodiscard]] u64 eager_memory();
/** The bytes that all connections together may have under way; @memory: of eager_memory(). Any context. */
[[nodiscard]] u64 eager_cap(const svc_xprt *xprt, u32 page_size, u64 memory);

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
