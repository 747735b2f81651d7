// SPDX-License-Identifier: GPL-2.0-only
/* Explores all worlds, or those that are named: negotiation, groups. */
#include <cstdio>
#include <cstring>

#include "selftests/states/worlds.hh"

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : "";
	states::Totals totals;

	if (!*only || !std::strcmp(only, "negotiation"))
		states::explore_negotiation(totals);
	if (!*only || !std::strcmp(only, "groups"))
		states::explore_groups(totals);
	std::printf("%zu states in all\n", totals.states);
	std::printf("%u passed, %u failed, 0 skipped\n", totals.passed, totals.failed);
	return totals.failed || !totals.passed;
}
