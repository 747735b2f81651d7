/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One program with all mutants of a draw (scripts/mutants): MUTANT=N in the environment says which of them it is, and
 * without it none. What is evaluated while it is compiled is never mutated.
 *
 * Relational operators are switched in place, a < b as a < Lt<N>() < b: they have the same precedence, so no operand has
 * to be found.
 */

#pragma once

#include <cstdlib>

namespace mutants {

inline int chosen = [] {
	const char *value = std::getenv("MUTANT");

	return value ? std::atoi(value) : 0;
}();

constexpr bool is(int n)
{
	return !__builtin_is_constant_evaluated() && chosen == n;
}

/* The left operand of a comparison that may be another one. */
template <int N, int Kind, typename T> struct Left {
	const T &value;
};
template <int N> struct Lt {
};
template <int N> struct Le {
};
template <int N> struct Gt {
};
template <int N> struct Ge {
};
template <int N> struct Eq {
};
template <int N> struct Ne {
};

#define MUTANTS_COMPARISON(NAME, KIND, OPERATOR, OTHER)                   \
	template <int N, typename T>                                      \
	constexpr Left<N, KIND, T> operator OPERATOR(const T &a, NAME<N>) \
	{                                                                 \
		return {a};                                               \
	}                                                                 \
	template <int N, typename T, typename U>                          \
	constexpr bool operator OPERATOR(Left<N, KIND, T> a, const U &b)  \
	{                                                                 \
		return is(N) ? a.value OTHER b : a.value OPERATOR b;      \
	}

MUTANTS_COMPARISON(Lt, 0, <, <=)
MUTANTS_COMPARISON(Le, 1, <=, <)
MUTANTS_COMPARISON(Gt, 2, >, >=)
MUTANTS_COMPARISON(Ge, 3, >=, >)
MUTANTS_COMPARISON(Eq, 4, ==, !=)
MUTANTS_COMPARISON(Ne, 5, !=, ==)

#undef MUTANTS_COMPARISON

} // namespace mutants
