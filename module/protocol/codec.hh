// SPDX-License-Identifier: GPL-2.0-only
/*
 * The one place where a version chooses code. Each entry switches on the connection's version once, and what
 * is behind it is a template argument.
 */
#pragma once

#include "module/protocol/v1.hh"
#include "module/protocol/v2.hh"

/*
 * A test adds a version of its own (kunit/seams/), to show that nothing outside this folder depends on which there are.
 */
#ifdef RPCORDMA_TEST_VERSION
#include RPCORDMA_TEST_VERSION
#endif

namespace rpcordma::protocol {

/** The versions of a build, the preferred one first. */
template <typename First, typename... Others> struct Versions {
	/** What @body returns, called with the codec of @version. */
	template <typename Body>
	[[gnu::always_inline]] static decltype(auto) with(u32 version, Body &&body)
	{
		if constexpr (sizeof...(Others) != 0)
			if (version != First::rules().version)
				return Versions<Others...>::with(version, body);
		return body(First{});
	}
	[[nodiscard]] static constexpr u32 preferred()
	{
		return First::rules().version;
	}
	[[nodiscard]] static constexpr bool speak(u32 version)
	{
		return version == First::rules().version ||
		       (... || (version == Others::rules().version));
	}
	static constexpr u32 lowest()
	{
		u32 all[] = {First::rules().version, Others::rules().version...}, low = ~0u;

		for (u32 version : all)
			low = min(low, version);
		return low;
	}
	static constexpr u32 highest()
	{
		u32 all[] = {First::rules().version, Others::rules().version...}, high = 0;

		for (u32 version : all)
			high = max(high, version);
		return high;
	}
	/** The most that the rules of any version say of @what. */
	static constexpr u32 most(u32 Rules::*what)
	{
		u32 all[] = {First::rules().*what, Others::rules().*what...}, most = 0;

		for (u32 n : all)
			most = max(most, n);
		return most;
	}
};

#ifdef RPCORDMA_TEST_VERSION
using Spoken = Versions<TestVersion, V1, V2>;
/** The version is open from the start, whatever the peers say of themselves. */
static constexpr bool kBornOpen = true;
#else
using Spoken = Versions<V1, V2>;
static constexpr bool kBornOpen = false;
#endif

static constexpr u32 kTransmissions = Spoken::most(&Rules::transmissions);

/** The rules of @version, which is spoken. */
[[nodiscard]] inline Rules rules_of(u32 version)
{
	return Spoken::with(version, [](auto codec) { return decltype(codec)::rules(); });
}

} // namespace rpcordma::protocol
