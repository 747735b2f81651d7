/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Trace points. Each has a bit in rpcordma_trace_enabled, set while somebody listens; the core
 * tests it before it calls, so that a silent trace point costs one load. Any context.
 */
#ifndef RPCORDMA_PORT_TRACE_H
#define RPCORDMA_PORT_TRACE_H

#include "compat/port/base.h"

RPCORDMA_BEGIN

enum rpcordma_trace {
	RPCORDMA_TRACE_CONNECTION = 1 << 0,
	RPCORDMA_TRACE_MARSHAL = 1 << 1,
	RPCORDMA_TRACE_POST = 1 << 2,
	RPCORDMA_TRACE_COMPLETION = 1 << 3,
	RPCORDMA_TRACE_REGION = 1 << 4,
	RPCORDMA_TRACE_CREDITS = 1 << 5,
	RPCORDMA_TRACE_REPLY = 1 << 6,
	RPCORDMA_TRACE_ERROR = 1 << 7,
};
extern unsigned int rpcordma_trace_enabled;

/** @what: a word for the event, static. @value: its status or figure. */
void rpcordma_trace_connection(const struct rpcordma_peer *peer, const char *what, int value);
/** A call was reduced: the modes as chunk/reduce.hh numbers them. */
void rpcordma_trace_marshal(const struct rpcordma_peer *peer, rpcordma_u32 xid, rpcordma_u32 credits,
			    rpcordma_u32 proc, rpcordma_u32 header_length,
			    rpcordma_u32 inline_length, rpcordma_u32 send_mode,
			    rpcordma_u32 receive_mode);
/** A chain was posted: @what is "send", "receive", "invalidate", "scratch", "read" or "reply". */
void rpcordma_trace_post(const struct rpcordma_peer *peer, const char *what, rpcordma_u32 xid,
			 rpcordma_u32 work_requests, rpcordma_bool signaled, int result);
/** A completion came: @what is "send", "receive", "invalidate" or "register". */
void rpcordma_trace_completion(const struct rpcordma_peer *peer, const char *what, int status,
			       rpcordma_u32 byte_len, rpcordma_u32 invalidated_rkey);
/** @what: "map", "unmap", "local-inv", "remote-inv", "cancel" or "scratch". */
void rpcordma_trace_region(const struct rpcordma_peer *peer, const char *what, rpcordma_u32 xid,
			   rpcordma_u32 rkey, rpcordma_u32 length, rpcordma_u64 iova);
void rpcordma_trace_credits(const struct rpcordma_peer *peer, rpcordma_u32 from, rpcordma_u32 to);
/** A message came. @what: "reply", "reply to a cancelled call", "backward call" or "error". */
void rpcordma_trace_reply(const struct rpcordma_peer *peer, const char *what, rpcordma_u32 xid,
			  rpcordma_u32 credits, rpcordma_u32 proc, int result);
/** @what: what went wrong, static; one per error branch. */
void rpcordma_trace_error(const struct rpcordma_peer *peer, const char *what, rpcordma_u32 xid,
			  int value);

RPCORDMA_END

#endif
