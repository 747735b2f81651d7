// SPDX-License-Identifier: GPL-2.0-only
/* Trace points as the cores call them: one load and a branch not taken while nobody listens. */
#pragma once

#include "compat/port/port.h"
#include "module/base/types.hh"

namespace rpcordma::trace {

[[nodiscard]] inline bool on(rpcordma_trace which)
{
	return __builtin_expect(__atomic_load_n(&rpcordma_trace_enabled, __ATOMIC_RELAXED) & which,
				0);
}

inline void connection(const rpcordma_peer *peer, const char *what, int value)
{
	if (on(RPCORDMA_TRACE_CONNECTION))
		rpcordma_trace_connection(peer, what, value);
}

inline void post(const rpcordma_peer *peer, const char *what, u32 xid, u32 requests, bool signaled,
		 int rc)
{
	if (on(RPCORDMA_TRACE_POST))
		rpcordma_trace_post(peer, what, xid, requests, signaled, rc);
}

inline void completion(const rpcordma_peer *peer, const char *what, const rpcordma_completion &c)
{
	if (on(RPCORDMA_TRACE_COMPLETION))
		rpcordma_trace_completion(peer, what, c.status, c.byte_len, c.invalidated_rkey);
}

inline void region(const rpcordma_peer *peer, const char *what, u32 xid, const rpcordma_mapping &m)
{
	if (on(RPCORDMA_TRACE_REGION))
		rpcordma_trace_region(peer, what, xid, m.rkey, m.length, m.iova);
}

inline void credits(const rpcordma_peer *peer, u32 from, u32 to)
{
	if (on(RPCORDMA_TRACE_CREDITS))
		rpcordma_trace_credits(peer, from, to);
}

inline void reply(const rpcordma_peer *peer, const char *what, u32 xid, u32 credits, u32 proc,
		  int result)
{
	if (on(RPCORDMA_TRACE_REPLY))
		rpcordma_trace_reply(peer, what, xid, credits, proc, result);
}

inline void error(const rpcordma_peer *peer, const char *what, u32 xid, int value)
{
	if (on(RPCORDMA_TRACE_ERROR))
		rpcordma_trace_error(peer, what, xid, value);
}

} // namespace rpcordma::trace
