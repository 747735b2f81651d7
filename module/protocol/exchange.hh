// SPDX-License-Identifier: GPL-2.0-only
/*
 * What an end of a connection may send beyond its credits. Credits stand for RPCs; a message about the connection has
 * none, and the peer has two Receives for such messages. So one question is unanswered at a time (CONNPROP,
 * REQPROP), and of one message that nobody answers (UPDPROP, REPTERR, an ERROR that ends no RPC) it is not known
 * whether the peer has taken it. What answers the peer's question goes into a Receive that the peer keeps for it.
 *
 * Two Receives suffice while only one of both ends asks: a peer that is asked, asks and tells needs a third.
 *
 * A pure machine, which nothing drives yet. The ends of version 2 keep to it without looking: a client asks once for each
 * connection, a server tells once (UPDPROP, when its Receives have grown), and all else that either sends answers something
 * that the peer has asked or got wrong. Extensions that tell more (REPTERR) have to look.
 */
#pragma once

#include "module/base/types.hh"

namespace rpcordma::protocol {

/**
 * The number of an RPC, of those that one end sends over a connection in the order in which they are posted; it wraps
 * around. An RPC is "later" by it, as a connection delivers in order.
 */
using Turn = Strong32<struct TurnTag>;

[[nodiscard]] constexpr bool is_later(Turn a, Turn b)
{
	return static_cast<std::int32_t>(a.get() - b.get()) > 0;
}

class Exchange {
public:
	/** Whether a question may be posted. */
	[[nodiscard]] constexpr bool may_ask() const
	{
		return !asking_;
	}
	/** One is. */
	constexpr void ask()
	{
		asking_ = true;
	}
	/** Its answer is here: an answer of its own kind, or an ERROR. */
	constexpr void answered()
	{
		asking_ = false;
	}

	/** Whether a message that nobody answers may be posted. */
	[[nodiscard]] constexpr bool may_tell() const
	{
		return !telling_;
	}
	/** One is, behind the RPC @last, the last one that was posted. */
	constexpr void tell(Turn last)
	{
		told_behind_ = last;
		telling_ = true;
	}
	/** The RPC @turn of this end is answered, if by an ERROR: the peer has taken what was sent before it. */
	constexpr void proved(Turn turn)
	{
		if (is_later(turn, told_behind_))
			telling_ = false;
	}

private:
	Turn told_behind_;
	bool asking_ = false;
	bool telling_ = false;
};

} // namespace rpcordma::protocol
