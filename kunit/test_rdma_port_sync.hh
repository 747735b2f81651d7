// SPDX-License-Identifier: GPL-2.0-only
/*
 * Locks, mutexes, gates, events and the clock as the double of the port has them. Whoever waits has only the
 * device to wait for, which works off what is posted meanwhile. See test_rdma_port.hh.
 */
#pragma once

#include "kunit/test_rdma_port_memory.hh"

namespace rpcordma {

struct PortSync {
	/* Failures to come: how many more of each go well. */
	u32 locks_left = kNoLimit;
	u32 gates_left = kNoLimit;

	/* What there is now. */
	u32 locks = 0, locks_held = 0;
	u32 gates = 0, mutexes = 0, events = 0;

	/* What there ever was. */
	u32 waits = 0;	  /* at gates */
	u32 openings = 0; /* of gates */
	u32 holds = 0;	  /* of spin locks */

	/* What another CPU does, once, just before somebody has a spin lock. */
	void (*before_hold)() = nullptr;

	/* What somebody else does, once: while a completion looks at a message, or while a thread waits. */
	void (*meanwhile)() = nullptr;
	void *what = nullptr; /* have_done_meanwhile()'s */
	bool late = false;    /* he does it when the limit of such a wait has just passed */
	u32 wait_ms = 0;      /* what a wait takes at least */
	u32 stalls = 0;	      /* waits in which nothing completes, for as long as they may take */
	bool disconnect_in_wait = false; /* once, when somebody waits and nothing completes */
	u64 now = 5000000;		 /* ms */

	/*
	 * The fence mutex of a client: what its connection's closing was when it was locked or unlocked last.
	 * It may not change in between.
	 */
	bool closing = false;

	/** Whatever is left is a failure of the case. */
	void expect_none() const;
};

} // namespace rpcordma
