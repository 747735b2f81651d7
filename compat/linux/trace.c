// SPDX-License-Identifier: GPL-2.0-only
/*
 * The port's trace points. The events are defined in tracepoints.h; messages for the administrator
 * are in log.c.
 */

/* GNU C defines linux as 1, which would turn the path compat/linux below into compat/1. */
#undef linux

#include <linux/compiler.h>
#include <linux/in6.h>

#include "compat/linux/peer.h"
#include "compat/port/trace.h"

unsigned int rpcordma_trace_enabled;

#define CREATE_TRACE_POINTS
#include "compat/linux/tracepoints.h"

/* The kernel calls both under a mutex of its own. */
#define DEFINE_HOOKS(name, bit)                                                                    \
	int rpcordma_trace_##name##_on(void)                                                       \
	{                                                                                          \
		WRITE_ONCE(rpcordma_trace_enabled, rpcordma_trace_enabled | (bit));                \
		return 0;                                                                          \
	}                                                                                          \
	void rpcordma_trace_##name##_off(void)                                                     \
	{                                                                                          \
		WRITE_ONCE(rpcordma_trace_enabled, rpcordma_trace_enabled & ~(bit));               \
	}

DEFINE_HOOKS(connection, RPCORDMA_TRACE_CONNECTION)
DEFINE_HOOKS(marshal, RPCORDMA_TRACE_MARSHAL)
DEFINE_HOOKS(post, RPCORDMA_TRACE_POST)
DEFINE_HOOKS(completion, RPCORDMA_TRACE_COMPLETION)
DEFINE_HOOKS(region, RPCORDMA_TRACE_REGION)
DEFINE_HOOKS(credits, RPCORDMA_TRACE_CREDITS)
DEFINE_HOOKS(reply, RPCORDMA_TRACE_REPLY)
DEFINE_HOOKS(error, RPCORDMA_TRACE_ERROR)

void rpcordma_trace_connection(const struct rpcordma_peer *peer, const char *what, int value)
{
	trace_rpcordma_connection(peer, what, value);
}

void rpcordma_trace_marshal(const struct rpcordma_peer *peer, rpcordma_u32 xid, rpcordma_u32 credits,
			    rpcordma_u32 proc, rpcordma_u32 header_length,
			    rpcordma_u32 inline_length, rpcordma_u32 send_mode,
			    rpcordma_u32 receive_mode)
{
	trace_rpcordma_marshal(peer, xid, credits, proc, header_length, inline_length, send_mode,
			       receive_mode);
}

void rpcordma_trace_post(const struct rpcordma_peer *peer, const char *what, rpcordma_u32 xid,
			 rpcordma_u32 work_requests, rpcordma_bool signaled, int result)
{
	trace_rpcordma_post(peer, what, xid, work_requests, signaled, result);
}

void rpcordma_trace_completion(const struct rpcordma_peer *peer, const char *what, int status,
			       rpcordma_u32 byte_len, rpcordma_u32 invalidated_rkey)
{
	trace_rpcordma_completion(peer, what, status, byte_len, invalidated_rkey);
}

void rpcordma_trace_region(const struct rpcordma_peer *peer, const char *what, rpcordma_u32 xid,
			   rpcordma_u32 rkey, rpcordma_u32 length, rpcordma_u64 iova)
{
	trace_rpcordma_region(peer, what, xid, rkey, length, iova);
}

void rpcordma_trace_credits(const struct rpcordma_peer *peer, rpcordma_u32 from, rpcordma_u32 to)
{
	trace_rpcordma_credits(peer, from, to);
}

void rpcordma_trace_reply(const struct rpcordma_peer *peer, const char *what, rpcordma_u32 xid,
			  rpcordma_u32 credits, rpcordma_u32 proc, int result)
{
	trace_rpcordma_reply(peer, what, xid, credits, proc, result);
}

void rpcordma_trace_error(const struct rpcordma_peer *peer, const char *what, rpcordma_u32 xid,
			  int value)
{
	trace_rpcordma_error(peer, what, xid, value);
}
