// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every combination of some choices, without a loop inside a loop for each:
 *
 *	for (u32 n = 0;; n++) {
 *		Choices pick(n);
 *		const u32 head = pick.of(heads);
 *		const bool gaps = pick.flag();
 *		if (pick.done())
 *			break;
 *		...
 *	}
 *
 * Each turn has to make the same choices, and make them all before it asks for done().
 */
#pragma once

#include "module/base/types.hh"

namespace rpcordma {

class Choices {
public:
	/** The choices of turn @n, counted from 0. */
	explicit Choices(u32 n) : left_(n)
	{
	}
	/** A number from 0 to @n - 1. */
	[[nodiscard]] u32 below(u32 n)
	{
		const u32 chosen = left_ % n;

		left_ /= n;
		return chosen;
	}
	/** One of the items of a table. */
	template <typename T, usize N> [[nodiscard]] const T &of(const T (&table)[N])
	{
		return table[below(N)];
	}
	[[nodiscard]] bool flag()
	{
		return below(2) != 0;
	}
	/** Whether all combinations were had in the turns before. */
	[[nodiscard]] bool done() const
	{
		return left_ != 0;
	}

private:
	u32 left_;
};

} // namespace rpcordma
