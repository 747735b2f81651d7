// SPDX-License-Identifier: GPL-2.0-only
/*
 * A tape: the decisions of a history that are not calm (chance.hh), in their order. Whatever is not on it is calm, so that a
 * decision taken off a tape is a fault that does not come, a call that is small, a fiber that waits for its turn. A tape
 * is what seeds are shrunk to (shrink.hh); as a file it is a line for each decision: its source, which of that source's it
 * is, what it came to, and for people, who drew what where.
 *
 * And edits: a seed's history, with some of its sources drawn anew. That is what a fuzzer changes (guided.cc).
 */
#pragma once

#include <string>
#include <vector>

#include "selftests/sim/chance.hh"

namespace sim {

struct Recorded {
	u64 source, value;
	u32 index;
	Draw kind;
	char who[27];
	Place at; /* as a text, only in the process that has recorded it, and its children */
};

struct Tape {
	/** Says what is wrong with the file, if anything; "" when it was read. */
	std::string read(const char *path);
	bool write(const char *path, const std::string &about) const;

	u64 seed = 0; /* that it is of */
	std::vector<Recorded> decisions;
};

/** Where decisions are recorded, also while a process dies of what it finds: made by new_recording(). */
struct Recording {
	static constexpr u32 kMost = 2000000;

	u64 steps, ended_at;
	u32 calls;
	u32 count;
	Recorded decisions[kMost];
};

/** Shared with children; nullptr: there is no memory. */
Recording *new_recording();

/** Of all runs from now on: play @tape, if there is one, and record what is decided, if there is a @recording. */
void use_tape(const Tape *tape, Recording *recording);

/**
 * Of all runs from now on: the first 8 bytes are a seed, which is returned; each 4 more an edit. Two say which sources, by
 * their hash, one from which draw on, one what they are drawn from anew. With kOthers in the second all that is not what
 * the run is about is drawn anew, from the last two.
 */
u64 use_edits(const u8 *bytes, std::size_t size);
constexpr std::size_t kEditSize = 4, kMostEdits = 64;
constexpr u8 kOthers = 0xff;

} // namespace sim
