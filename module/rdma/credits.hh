// SPDX-License-Identifier: GPL-2.0-only
/*
 * Credits (RFC 8166 3.3.1): what a requester makes of those it is granted, and what a responder grants.
 * Pure logic.
 */
#pragma once

#include "module/base/types.hh"

namespace rpcordma {

class RequesterCredits {
public:
	/** One call until the first grant (RFC 8166 3.3.3): the state of every fresh connection. */
	static constexpr u32 kInitial = 1;

	/** @limit: the most calls that our side can have outstanding; at least one. */
	explicit constexpr RequesterCredits(u32 limit) : limit_(limit)
	{
	}
	/** The calls that may be outstanding now. Never zero, never over the limit. */
	[[nodiscard]] constexpr u32 in_force() const
	{
		return in_force_;
	}
	/** What a Call asks for. */
	[[nodiscard]] constexpr Credits requested() const
	{
		return Credits(limit_);
	}
	/**
	 * What @grant comes to. A grant of zero is a protocol error by the peer (it would end the
	 * conversation for good): what is in force stays. A grant over the limit is cut to it.
	 */
	[[nodiscard]] constexpr u32 accept(Credits grant) const
	{
		return grant.get() ? min(grant.get(), limit_) : in_force_;
	}
	/** @credits calls are backed by posted Receives, and in force from here on. */
	constexpr void put_in_force(u32 credits)
	{
		in_force_ = max(1u, min(credits, limit_));
	}

private:
	u32 limit_;
	u32 in_force_ = kInitial;
};

/**
 * What a responder grants (RFC 8166 3.3.1): few calls at first, more with use, up to a limit. A grant is
 * backed by posted Receives before it is given; the owner asks for them when wanted() says so.
 */
class ResponderCredits {
public:
	/** A fresh connection's grant: enough for a mount, small enough for a thousand idle clients. */
	static constexpr u32 kInitial = 4;
	/** Calls for each credit granted, within kWindowMs and since the last increase, that are use. */
	static constexpr u32 kCallsPerCredit = 4;
	static constexpr u32 kWindowMs = 1000;

	/** @limit: the most that is ever granted; at least one. */
	explicit constexpr ResponderCredits(u32 limit)
		: limit_(limit),
		  granted_(min(kInitial, limit))
	{
	}
	/** The grant of every reply. Never zero. */
	[[nodiscard]] constexpr u32 granted() const
	{
		return granted_;
	}
	/**
	 * A call came, asking for @requested credits, and with it @in_service calls are not replied to. A request for fewer
	 * than are granted, zero included, is what the client gets from now on, though never zero: its Receives dwindle as
	 * they are consumed. @now_ms() is the time, which is asked for only while the grant may grow.
	 */
	template <typename Clock>
	constexpr void call(Credits requested, u32 in_service, Clock &&now_ms)
	{
		requested_ = max(1u, requested.get());
		if (granted_ > requested_)
			granted_ = requested_;
		busy_ = busy_ || in_service >= granted_;
		if (granted_ >= min(limit_, requested_))
			return;
		const u64 now = now_ms();

		if (now - window_ > kWindowMs) {
			window_ = now;
			calls_ = 0;
		}
		calls_++;
	}
	/** The grant that the client's use of its credits deserves; granted() when that is enough. */
	[[nodiscard]] constexpr u32 wanted() const
	{
		const u32 most = min(limit_, requested_);

		if (granted_ >= most || (!busy_ && calls_ < granted_ * kCallsPerCredit))
			return granted_;
		return min(2 * granted_, most);
	}
	/** @credits calls are backed by posted Receives. */
	constexpr void grant(u32 credits)
	{
		granted_ = max(1u, min(credits, limit_));
		calls_ = 0;
		busy_ = false;
	}

private:
	u32 limit_;
	u32 granted_;
	u32 requested_ = ~0u;
	u64 window_ = 0;    /* when counting began, ms */
	u32 calls_ = 0;	    /* since then, and since the last increase */
	bool busy_ = false; /* all credits were in use since then */
};

} // namespace rpcordma
