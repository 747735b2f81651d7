// SPDX-License-Identifier: GPL-2.0-only
/* Numbers that look random and are the same in each run, for tests that take random steps. */
#pragma once

#include "module/base/types.hh"

namespace rpcordma {

class Random {
public:
	explicit Random(u32 seed) : state_(seed * 2654435761u + 1)
	{
	}
	/** A number from 0 to @n - 1. */
	[[nodiscard]] u32 below(u32 n)
	{
		/* xorshift; never zero, since it starts from something else */
		state_ = state_ ? state_ : 1;
		state_ ^= state_ << 13;
		state_ ^= state_ >> 17;
		state_ ^= state_ << 5;
		return (state_ >> 8) % n;
	}
	[[nodiscard]] bool one_in(u32 n)
	{
		return below(n) == 0;
	}

private:
	u32 state_;
};

} // namespace rpcordma
