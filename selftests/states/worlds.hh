// SPDX-License-Identifier: GPL-2.0-only
/* The worlds that are explored, by what they are of. */
#pragma once

#include "selftests/states/explore.hh"

namespace states {

struct Totals {
	unsigned passed = 0, failed = 0;
	std::size_t states = 0;

	void add(const Outcome &outcome)
	{
		(outcome.wrong ? failed : passed)++;
		states += outcome.states;
	}
};

/** How two ends come to a version. */
void explore_negotiation(Totals &totals);
/** What goes beyond the credits, and messages of several transmissions. */
void explore_groups(Totals &totals);

} // namespace states
