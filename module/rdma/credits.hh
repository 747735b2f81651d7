// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a requester makes of the credits that a responder grants (RFC 8166 3.3.1). Pure logic.
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

} // namespace rpcordma
