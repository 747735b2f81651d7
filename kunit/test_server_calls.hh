// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls with Read and Write chunks, as the tests of a server's connection make them, and what the thread
 * and the client then have to find.
 */
#pragma once

#include "kunit/test_server_connection.hh"

namespace rpcordma {

/** Where in the client's memory Write and Reply chunks are. */
constexpr u32 kWrite = 10000, kReply = 50000;

[[nodiscard]] inline u32 counter(rpcordma_server_counter which)
{
	return the_port->svc.counters[which];
}

/** A WRITE, as NFS does it: data behind 40 bytes, 20 bytes behind the data. */
inline void make_write(CallMaker &call, u32 size, u32 offset = 0)
{
	call.read(40, size, offset);
	call.finish(60);
}

/** The thread has the call of make_write(). */
void expect_write(const Served &c, u32 size, u32 offset = 0);

/** What Reads of so many bytes take of memory. */
[[nodiscard]] constexpr u32 pinned(u32 bytes)
{
	return div_round_up(bytes, kPage) * kPage + kTransferBytes;
}

/** A call that the thread has, with a Write chunk and a Reply chunk of these sizes; 0: without. */
void have_call(Connected &c, u32 write, u32 reply, bool ddp = true);

/** The client's memory from @at on has bytes [@first, @first + @length) of the reply. */
void expect_written(u32 at, u32 first, u32 length);

/** The server has Receives for all that it promised. */
void expect_promise(const Served &c);

} // namespace rpcordma
