// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a run is about. A run that has a little of everything seldom has much of anything: each seed switches whole kinds of
 * faults, events, calls and sizes on or off, so that what is left comes together often.
 */
#pragma once

#include "selftests/sim/message.hh"

namespace sim {

struct Swarm {
	/** Of the seed. */
	void draw();
	/** @faults, as strong as is drawn, of the kinds that the seed has. */
	void draw_faults() const;
	/** Bytes of an inline message, as an administrator may set them. */
	u32 draw_inline() const;
	/** Bytes of a call's data, or its reply's, @most at most. */
	u32 draw_length(u32 most) const;
	Kind draw_kind() const;
	/** Make @call, or its reply, about as long as an inline message, if it is one that can be. */
	void to_the_limit(Call &call) const;
	/** Whether a blow of the kind @which comes in this run. */
	bool has_blow(u32 which) const
	{
		return blows & 1u << which;
	}

	bool large = false; /* payloads of 1 MiB, or nearly; few calls */
	bool edges = false; /* sizes at limits, and one off */
	/* Inline sizes of any number of bytes, up to 64 KiB, and different at each end. */
	bool odd = false;
	bool scattered = false; /* no page has its neighbour beside it */
	bool bursts = false;	/* faults come in outages, with nothing in between */
	bool watched = false; /* somebody reads what debugfs has, and the kernel shrinks the pools */
	bool tuned = false;   /* parameters are changed while it runs */
	/* Payloads of 1 MiB that have come right; of all runs. */
	static unsigned long long full_payloads;
	u32 pace = 1; /* users, events and outages take so many times as long */

private:
	u32 kinds = 0; /* of faults, one bit each */
	u32 blows = 0;
	u32 calls = 0; /* kinds of calls, one bit each */
};

extern Swarm swarm;

/** A fiber's: outages come and go while there are faults. */
void outages();

} // namespace sim
