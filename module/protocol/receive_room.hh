// SPDX-License-Identifier: GPL-2.0-only
/* What a message is received into, as far as a peer hears of it. */
#pragma once

#include <atomic>

#include "xdr/properties.hh"

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
 * What a message to a peer may have, as the peer told last: bytes in all, and where items are placed directly. A receive
 * completion may change it while others send; they read both as one word, and once for a message.
 */
class PeerRoom {
public:
	struct Now {
		u32 bytes = 0;
		/* Where it has segments for items. Of others than of whole KiB, or over a MiB in all, nothing is kept. */
		properties::Structure structure;
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

		return {u32(word >> 32), unpack_(u32(word))};
	}
	/** One at a time. */
	void set(const Now &now)
	{
		word_.store(u64(now.bytes) << 32 | pack_(now.structure), std::memory_order_relaxed);
	}

private:
	/* Head and segments in KiB, and how many of them there are: ten bits each. */
	enum : u32 { kBits = 10, kMost = (u32(1) << kBits) - 1, kUnit = 1024 };

	[[nodiscard]] static constexpr u32 pack_(const properties::Structure &structure)
	{
		const u32 head = structure.head(), each = structure.segment_length;

		if (!structure.segments || structure.segments > kMost || each % kUnit != 0 ||
		    each / kUnit > kMost || head % kUnit != 0 || head / kUnit > kMost)
			return 0;
		return (head / kUnit) << (2 * kBits) | (each / kUnit) << kBits | structure.segments;
	}
	[[nodiscard]] static constexpr properties::Structure unpack_(u32 word)
	{
		const u32 head = (word >> (2 * kBits)) * kUnit;
		const u32 each = (word >> kBits & kMost) * kUnit, segments = word & kMost;

		return segments ? properties::Structure{head + segments * each, segments, each} :
				  properties::Structure{};
	}

	std::atomic<u64> word_{0};
};

/**
 * Bytes of a message that an end of ours sends at most, whatever its peer takes: what the kernel finds in one piece where a
 * device has too few SGEs. And what it counts on when a reply needs no chunk.
 */
constexpr u32 kMostInline = 32768;

} // namespace rpcordma::protocol
