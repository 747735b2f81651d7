// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes a history that fails small: decisions are taken off its tape as long as it still fails for the same reason, first all
 * of a kind, of a function, of a fiber, then halves, quarters and so on down to single ones (delta debugging), and what is
 * left made smaller.
 */
#pragma once

#include <functional>
#include <string>

#include "selftests/sim/tape.hh"

namespace sim {

struct Subject {
	std::function<void()> scenario;
	std::function<u32()> calls; /* made so far */
	std::function<u32()> limit; /* s that a run may take before it counts as one without end */
};

/**
 * Shrink @seed's history, or @tape's if there is one, for @seconds at most; the tape that is left goes to the file @to. Says
 * what it was and what is left, for people, on standard output. False, with a reason, if that history does not fail.
 */
bool shrink(u64 seed, const Tape *tape, const Subject &subject, double seconds,
	    const std::string &to);

} // namespace sim
