// SPDX-License-Identifier: GPL-2.0-only
/* What a message is received into, as far as a peer hears of it. */
#pragma once

#include <atomic>

#include "module/base/types.hh"

namespace rpcordma::protocol {

/** What a message is received into: a head in one piece of memory, and pages behind it. */
struct ReceiveRoom {
	u32 head = 0;
	u32 pages = 0;
	u32 page_size = 0;

	[[nodiscard]] constexpr u32 bytes() const
	{
		return head + pages * page_size;
	}
};

/**
 * What a message to a peer may have, as the peer told last: bytes in all, and segments for items placed directly. A receive
 * completion may change it while others send; they read both as one word, and once for a message.
 */
class PeerRoom {
public:
	struct Now {
		u32 bytes = 0;
		u32 segments = 0;
	};
	PeerRoom() = default;
	PeerRoom(const PeerRoom &other) : word_(other.word_.load(std::memory_order_relaxed))
	{
	}
	PeerRoom &operator=(const PeerRoom &other)
	{
		set(other.now());
		return *this;
	}
	/** Any context. */
	[[nodiscard]] Now now() const
	{
		const u64 word = word_.load(std::memory_order_relaxed);

		return {u32(word >> 32), u32(word)};
	}
	/** One at a time. */
	void set(Now now)
	{
		word_.store(u64(now.bytes) << 32 | now.segments, std::memory_order_relaxed);
	}

private:
	std::atomic<u64> word_{0};
};

/**
 * Bytes of a message that an end of ours sends at most, whatever its peer takes: what the kernel finds in one piece where a
 * device has too few SGEs. And what it counts on when a reply needs no chunk.
 */
constexpr u32 kMostInline = 32768;

} // namespace rpcordma::protocol
