// SPDX-License-Identifier: GPL-2.0-only
/*
 * The port as the tests of module/rdma see it: memory, DMA mappings and a receive queue that keep
 * account, and fail on demand. Only what module/rdma calls is here, and what it shares with
 * module/server (test_server_port.hh has the rest); rpcordma_kunit.ko holds nothing of compat/linux, so
 * the doubles serve in a kernel as well.
 *
 * What is mapped has a bounce buffer, which is what the device has of it: memory and that are brought into
 * line when it is synced or, with the direction, mapped or unmapped.
 *
 * Misuse is a failure of the running case: memory freed twice, a buffer unmapped twice or of another
 * length, a Receive posted while it is posted, an allocation that may sleep where that is not allowed.
 */
#pragma once

#include "compat/port/port.h"
#include "kunit/testing.hh"
#include "module/rdma/receive_queue.hh"

namespace rpcordma {

class FakePort {
public:
	static constexpr u32 kMost = 1024; /* allocations, and Receives posted, at once */
	static constexpr u32 kNoLimit = ~0u;

	/* Failures to come: how many more of each go well. */
	static u32 allocations_left;
	static u32 mappings_left;
	static u32 receives_left; /* Receives that can be posted; the next one is the chain's bad one */

	/* Only the one after so many allocations has none. */
	static u32 allocation_refused_at;
	/* Receives that the queue pair holds, and whether it is there for any. */
	static u32 receive_room;
	static bool takes_receives;

	/* Whether an allocation may sleep now. */
	static bool may_sleep;

	/* What somebody else does, once: while a completion looks at a message, or while a thread waits. */
	static void (*meanwhile)();

	/* What there is now. */
	static u32 allocations;
	static u32 mappings;
	static u32 posted;
	static u32 receives_refused; /* of this queue pair: these never complete */

	/* What there ever was. */
	static u32 doorbells; /* calls that posted something or tried to */
	static u32 allocations_refused;
	static u32 traced_posts;
	static u32 traced_errors;

	/** A fresh port for the case, one at a time. */
	FakePort();
	/** Whatever is still allocated or mapped is a failure of the case; it is freed. */
	~FakePort();
	FakePort(const FakePort &) = delete;
	FakePort &operator=(const FakePort &) = delete;

	[[nodiscard]] static rpcordma_endpoint *endpoint();

	/** Use up one of what may go well; false when there is none left. */
	[[nodiscard]] static bool one_of(u32 &left);

	/** The Receive posted first, taken off its queue. Null without one. */
	[[nodiscard]] static const rpcordma_recv_wr *take_receive();
	/** A message of @length bytes comes: the Receive posted first takes it. Null without one. */
	[[nodiscard]] static Receive *deliver(u32 length);
};

} // namespace rpcordma
