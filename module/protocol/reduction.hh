// SPDX-License-Identifier: GPL-2.0-only
/*
 * What an end of a connection of version 2 does of round-trip reduction (rtrext-01), as its properties say it: RTRSUPP,
 * REQRXLIM and RESPSXLIM. By default it does nothing of it, which is what module parameter version2_rtr says by default.
 */
#pragma once

#include <atomic>

#include "xdr/properties.hh"

namespace rpcordma::protocol {

/** Most transmissions of a call that a server of ours takes, and that a client of ours sends. */
constexpr u32 kCallTransmissions = 4;

/** Most transmissions of a reply that a server of ours sends, and that a client of ours asks for. */
constexpr u32 kReplyTransmissions = 4;
/** Receives that a client has for replies of several transmissions, of all its calls. */
constexpr u32 kReservedReceives = 16;

struct Reduction {
	u32 extensions = 0;  /* a mask of properties::Extensions */
	u32 call_limit = 1;  /* transmissions of a call that it receives */
	u32 reply_limit = 1; /* transmissions of a reply that it sends */

	/** It knows all of @which. */
	[[nodiscard]] constexpr bool has(u32 which) const
	{
		return (extensions & which) == which;
	}
	/** An XMTREQ may go to it, to be answered by an XMTRESP, and of several transmissions. */
	[[nodiscard]] constexpr bool takes_groups() const
	{
		return has(properties::takes_xmtreq | properties::takes_xmtresp |
			   properties::takes_xmtcont);
	}
};

/** Of a server of ours whose administrator allows @parameter (module parameter version2_rtr). */
[[nodiscard]] constexpr Reduction server_reduction(u32 parameter)
{
	Reduction ours;

	ours.extensions = parameter & 7;
	if (ours.has(properties::takes_xmtreq | properties::takes_xmtcont)) {
		ours.call_limit = kCallTransmissions;
		ours.reply_limit = kReplyTransmissions;
	}
	return ours;
}

/** Of a client of ours, which takes no calls of several transmissions. */
[[nodiscard]] constexpr Reduction client_reduction(u32 parameter)
{
	Reduction ours;

	ours.extensions = parameter & 7;
	return ours;
}

/** What a peer told of it last. A receive completion may change it while others send; it is read as one word. */
class PeerReduction {
public:
	PeerReduction() = default;
	PeerReduction(const PeerReduction &other)
		: word_(other.word_.load(std::memory_order_relaxed))
	{
	}
	PeerReduction &operator=(const PeerReduction &other)
	{
		word_.store(other.word_.load(std::memory_order_relaxed), std::memory_order_relaxed);
		return *this;
	}
	/** Any context. */
	[[nodiscard]] Reduction now() const
	{
		const u32 word = word_.load(std::memory_order_relaxed);

		return {word & 0xff, word >> 8 & 0xff, word >> 16 & 0xff};
	}
	/** One at a time. Limits beyond what anybody here uses are cut. */
	void set(const properties::Properties &said)
	{
		word_.store((said.extensions & 7) | min(said.call_limit, 255u) << 8 |
				    min(said.reply_limit, 255u) << 16,
			    std::memory_order_relaxed);
	}

private:
	std::atomic<u32> word_{1 << 8 | 1 << 16};
};

} // namespace rpcordma::protocol
