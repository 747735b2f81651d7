/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The trace events of system rpcordma: for each function of compat/port/trace.h one, or one for each
 * name of its list. The kernel's headers include this file several times, with different
 * definitions of its macros; only trace.c includes it directly.
 *
 * While an event is enabled the bit of its class is set in rpcordma_trace_enabled, by the hooks that
 * the kernel calls before the first user enables the event and after the last one has disabled it.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rpcordma

#if !defined(RPCORDMA_LINUX_TRACEPOINTS_H) || defined(TRACE_HEADER_MULTI_READ)
#define RPCORDMA_LINUX_TRACEPOINTS_H

#include <linux/in6.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/types.h>

#include "compat/linux/peer.h"
#include "compat/port/trace.h"

#ifndef RPCORDMA_TRACE_ONCE
#define RPCORDMA_TRACE_ONCE

#define RPCORDMA_TRACE_HOOKS(name, ...)                                                            \
	int rpcordma_trace_##name##_on(void);                                                      \
	void rpcordma_trace_##name##_off(void);

RPCORDMA_SINGLE_EVENTS(RPCORDMA_TRACE_HOOKS)
RPCORDMA_TRACE_HOOKS(failure)
RPCORDMA_TRACE_HOOKS(loss)
RPCORDMA_TRACE_HOOKS(bulk)

/* The peer by value, since the event outlives the transport. */
#define RPCORDMA_TRACE_PEER __array(unsigned char, peer, sizeof(struct sockaddr_in6))
#define RPCORDMA_TRACE_SET_PEER(who)                                                               \
	do {                                                                                       \
		if (who)                                                                           \
			memcpy(__entry->peer, (who), sizeof(struct sockaddr_in6));                 \
		else                                                                               \
			memset(__entry->peer, 0, sizeof(struct sockaddr_in6));                     \
	} while (0)

#ifdef HAVE_ASSIGN_STR_ONE_ARG
#define RPCORDMA_TRACE_ASSIGN(field) __assign_str(field)
#else
#define RPCORDMA_TRACE_ASSIGN(field) __assign_str(field, field)
#endif

#endif /* RPCORDMA_TRACE_ONCE */

/* clang-format off */

TRACE_EVENT_FN(rpcordma_connection,
	TP_PROTO(const struct rpcordma_peer *peer, const char *what, int value),
	TP_ARGS(peer, what, value),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__string(what, what)
		__field(int, value)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		RPCORDMA_TRACE_ASSIGN(what);
		__entry->value = value;
	),
	TP_printk("peer=%pISpc %s: %d", __entry->peer, __get_str(what), __entry->value),
	rpcordma_trace_connection_on, rpcordma_trace_connection_off
);

TRACE_EVENT_FN(rpcordma_version,
	TP_PROTO(const struct rpcordma_peer *peer, const char *role, u32 version, const char *why),
	TP_ARGS(peer, role, version, why),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__string(role, role)
		__field(u32, version)
		__string(why, why)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		RPCORDMA_TRACE_ASSIGN(role);
		__entry->version = version;
		RPCORDMA_TRACE_ASSIGN(why);
	),
	TP_printk("peer=%pISpc %s: %s version=%u", __entry->peer, __get_str(role), __get_str(why),
		  __entry->version),
	rpcordma_trace_version_on, rpcordma_trace_version_off
);

TRACE_EVENT_FN(rpcordma_property,
	TP_PROTO(const struct rpcordma_peer *peer, const char *what,
		 const struct rpcordma_trace_properties *said),
	TP_ARGS(peer, what, said),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__string(what, what)
		__field(u32, xid)
		__field(u32, credits)
		__field(u32, proc)
		__field(u32, ids)
		__field(u32, fixed)
		__field(u32, receive_size)
		__field(u32, pages)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		RPCORDMA_TRACE_ASSIGN(what);
		__entry->xid = said->xid;
		__entry->credits = said->credits;
		__entry->proc = said->proc;
		__entry->ids = said->ids;
		__entry->fixed = said->fixed;
		__entry->receive_size = said->receive_size;
		__entry->pages = said->pages;
	),
	TP_printk("peer=%pISpc %s xid=0x%08x credits=%u proc=%u ids=0x%02x fixed=0x%02x receive_size=%u pages=%u",
		  __entry->peer, __get_str(what), __entry->xid, __entry->credits, __entry->proc,
		  __entry->ids, __entry->fixed, __entry->receive_size, __entry->pages),
	rpcordma_trace_property_on, rpcordma_trace_property_off
);

TRACE_EVENT_FN(rpcordma_group,
	TP_PROTO(const struct rpcordma_peer *peer, const char *what,
		 const struct rpcordma_trace_transmission *transmission),
	TP_ARGS(peer, what, transmission),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__string(what, what)
		__field(u32, xid)
		__field(u32, option)
		__field(u32, number)
		__field(u32, count)
		__field(u32, stream_length)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		RPCORDMA_TRACE_ASSIGN(what);
		__entry->xid = transmission->xid;
		__entry->option = transmission->option;
		__entry->number = transmission->number;
		__entry->count = transmission->count;
		__entry->stream_length = transmission->stream_length;
	),
	TP_printk("peer=%pISpc %s xid=0x%08x option=%u number=%u count=%u stream_length=%u",
		  __entry->peer, __get_str(what), __entry->xid, __entry->option, __entry->number,
		  __entry->count, __entry->stream_length),
	rpcordma_trace_group_on, rpcordma_trace_group_off
);

TRACE_EVENT_FN(rpcordma_marshal,
	TP_PROTO(const struct rpcordma_peer *peer, u32 xid, u32 credits, u32 proc, u32 header_length,
		 u32 inline_length, u32 send_mode, u32 receive_mode),
	TP_ARGS(peer, xid, credits, proc, header_length, inline_length, send_mode, receive_mode),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__field(u32, xid)
		__field(u32, credits)
		__field(u32, proc)
		__field(u32, header_length)
		__field(u32, inline_length)
		__field(u32, send_mode)
		__field(u32, receive_mode)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		__entry->xid = xid;
		__entry->credits = credits;
		__entry->proc = proc;
		__entry->header_length = header_length;
		__entry->inline_length = inline_length;
		__entry->send_mode = send_mode;
		__entry->receive_mode = receive_mode;
	),
	TP_printk("peer=%pISpc xid=0x%08x credits=%u proc=%u header=%u inline=%u send_mode=%u receive_mode=%u",
		  __entry->peer, __entry->xid, __entry->credits, __entry->proc,
		  __entry->header_length, __entry->inline_length, __entry->send_mode,
		  __entry->receive_mode),
	rpcordma_trace_marshal_on, rpcordma_trace_marshal_off
);

TRACE_EVENT_FN(rpcordma_post,
	TP_PROTO(const struct rpcordma_peer *peer, const char *what, u32 xid, u32 work_requests,
		 bool signaled, int result, u32 cq_id, u32 cid),
	TP_ARGS(peer, what, xid, work_requests, signaled, result, cq_id, cid),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__string(what, what)
		__field(u32, xid)
		__field(u32, work_requests)
		__field(bool, signaled)
		__field(int, result)
		__field(u32, cq_id)
		__field(u32, cid)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		RPCORDMA_TRACE_ASSIGN(what);
		__entry->xid = xid;
		__entry->work_requests = work_requests;
		__entry->signaled = signaled;
		__entry->result = result;
		__entry->cq_id = cq_id;
		__entry->cid = cid;
	),
	TP_printk("peer=%pISpc %s xid=0x%08x work_requests=%u signaled=%d result=%d cq_id=%u cid=0x%08x",
		  __entry->peer, __get_str(what), __entry->xid, __entry->work_requests,
		  __entry->signaled, __entry->result, __entry->cq_id, __entry->cid),
	rpcordma_trace_post_on, rpcordma_trace_post_off
);

TRACE_EVENT_FN(rpcordma_receive_posted,
	TP_PROTO(const struct rpcordma_peer *peer, u32 cq_id, u32 cid),
	TP_ARGS(peer, cq_id, cid),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__field(u32, cq_id)
		__field(u32, cid)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		__entry->cq_id = cq_id;
		__entry->cid = cid;
	),
	TP_printk("peer=%pISpc cq_id=%u cid=0x%08x", __entry->peer, __entry->cq_id, __entry->cid),
	rpcordma_trace_receive_posted_on, rpcordma_trace_receive_posted_off
);

TRACE_EVENT_FN(rpcordma_completion,
	TP_PROTO(const struct rpcordma_peer *peer, const char *what, int status, u32 byte_len,
		 u32 invalidated_rkey, u32 cq_id, u32 cid),
	TP_ARGS(peer, what, status, byte_len, invalidated_rkey, cq_id, cid),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__string(what, what)
		__field(int, status)
		__field(u32, byte_len)
		__field(u32, invalidated_rkey)
		__field(u32, cq_id)
		__field(u32, cid)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		RPCORDMA_TRACE_ASSIGN(what);
		__entry->status = status;
		__entry->byte_len = byte_len;
		__entry->invalidated_rkey = invalidated_rkey;
		__entry->cq_id = cq_id;
		__entry->cid = cid;
	),
	TP_printk("peer=%pISpc %s status=%d bytes=%u invalidated=0x%08x cq_id=%u cid=0x%08x",
		  __entry->peer, __get_str(what), __entry->status, __entry->byte_len,
		  __entry->invalidated_rkey, __entry->cq_id, __entry->cid),
	rpcordma_trace_completion_on, rpcordma_trace_completion_off
);

TRACE_EVENT_FN(rpcordma_region,
	TP_PROTO(const struct rpcordma_peer *peer, const char *what, u32 xid, u32 rkey, u32 length,
		 u64 iova, u32 mr_id),
	TP_ARGS(peer, what, xid, rkey, length, iova, mr_id),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__string(what, what)
		__field(u32, xid)
		__field(u32, rkey)
		__field(u32, length)
		__field(u64, iova)
		__field(u32, mr_id)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		RPCORDMA_TRACE_ASSIGN(what);
		__entry->xid = xid;
		__entry->rkey = rkey;
		__entry->length = length;
		__entry->iova = iova;
		__entry->mr_id = mr_id;
	),
	TP_printk("peer=%pISpc %s xid=0x%08x rkey=0x%08x length=%u iova=0x%016llx mr_id=%u",
		  __entry->peer, __get_str(what), __entry->xid, __entry->rkey, __entry->length,
		  __entry->iova, __entry->mr_id),
	rpcordma_trace_region_on, rpcordma_trace_region_off
);

TRACE_EVENT_FN(rpcordma_credits,
	TP_PROTO(const struct rpcordma_peer *peer, u32 from, u32 to),
	TP_ARGS(peer, from, to),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__field(u32, from)
		__field(u32, to)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("peer=%pISpc from=%u to=%u", __entry->peer, __entry->from, __entry->to),
	rpcordma_trace_credits_on, rpcordma_trace_credits_off
);

TRACE_EVENT_FN(rpcordma_reply,
	TP_PROTO(const struct rpcordma_peer *peer, const char *what, u32 xid, u32 credits, u32 proc,
		 int result),
	TP_ARGS(peer, what, xid, credits, proc, result),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__string(what, what)
		__field(u32, xid)
		__field(u32, credits)
		__field(u32, proc)
		__field(int, result)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		RPCORDMA_TRACE_ASSIGN(what);
		__entry->xid = xid;
		__entry->credits = credits;
		__entry->proc = proc;
		__entry->result = result;
	),
	TP_printk("peer=%pISpc %s xid=0x%08x credits=%u proc=%u result=%d", __entry->peer,
		  __get_str(what), __entry->xid, __entry->credits, __entry->proc, __entry->result),
	rpcordma_trace_reply_on, rpcordma_trace_reply_off
);

TRACE_EVENT_FN(rpcordma_decode,
	TP_PROTO(const struct rpcordma_peer *peer, const struct rpcordma_trace_call *what),
	TP_ARGS(peer, what),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__field(u32, xid)
		__field(u32, credits)
		__field(u32, proc)
		__field(u32, header_length)
		__field(u32, inline_length)
		__field(u32, read_segments)
		__field(u32, read_length)
		__field(u32, write_chunks)
		__field(u32, write_segments)
		__field(u32, reply_segments)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		__entry->xid = what->xid;
		__entry->credits = what->credits;
		__entry->proc = what->proc;
		__entry->header_length = what->header_length;
		__entry->inline_length = what->inline_length;
		__entry->read_segments = what->read_segments;
		__entry->read_length = what->read_length;
		__entry->write_chunks = what->write_chunks;
		__entry->write_segments = what->write_segments;
		__entry->reply_segments = what->reply_segments;
	),
	TP_printk("peer=%pISpc xid=0x%08x credits=%u proc=%u header=%u inline=%u read_segments=%u read=%u write_chunks=%u write_segments=%u reply_segments=%u",
		  __entry->peer, __entry->xid, __entry->credits, __entry->proc,
		  __entry->header_length, __entry->inline_length, __entry->read_segments,
		  __entry->read_length, __entry->write_chunks, __entry->write_segments,
		  __entry->reply_segments),
	rpcordma_trace_decode_on, rpcordma_trace_decode_off
);

TRACE_EVENT_FN(rpcordma_encode,
	TP_PROTO(const struct rpcordma_peer *peer, const struct rpcordma_trace_answer *what),
	TP_ARGS(peer, what),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__field(u32, xid)
		__field(u32, credits)
		__field(u32, proc)
		__field(u32, header_length)
		__field(u32, inline_length)
		__field(u32, write_length)
		__field(u32, reply_length)
		__field(u32, segments)
		__field(u32, writes)
		__field(u32, transmissions)
		__field(u32, invalidate)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		__entry->xid = what->xid;
		__entry->credits = what->credits;
		__entry->proc = what->proc;
		__entry->header_length = what->header_length;
		__entry->inline_length = what->inline_length;
		__entry->write_length = what->write_length;
		__entry->reply_length = what->reply_length;
		__entry->segments = what->segments;
		__entry->writes = what->writes;
		__entry->transmissions = what->transmissions;
		__entry->invalidate = what->invalidate;
	),
	TP_printk("peer=%pISpc xid=0x%08x credits=%u proc=%u header=%u inline=%u write=%u reply=%u segments=%u writes=%u transmissions=%u invalidate=0x%08x",
		  __entry->peer, __entry->xid, __entry->credits, __entry->proc,
		  __entry->header_length, __entry->inline_length, __entry->write_length,
		  __entry->reply_length, __entry->segments, __entry->writes,
		  __entry->transmissions, __entry->invalidate),
	rpcordma_trace_encode_on, rpcordma_trace_encode_off
);

/* --- classes, each with a list of names in compat/port/trace.h --- */

DECLARE_EVENT_CLASS(rpcordma_failure,
	TP_PROTO(const struct rpcordma_peer *peer, u32 xid, int value),
	TP_ARGS(peer, xid, value),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__field(u32, xid)
		__field(int, value)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		__entry->xid = xid;
		__entry->value = value;
	),
	TP_printk("peer=%pISpc xid=0x%08x value=%d", __entry->peer, __entry->xid, __entry->value)
);

#define RPCORDMA_DEFINE_FAILURE(name, ...)                                                        \
	DEFINE_EVENT_FN(rpcordma_failure, rpcordma_##name,                                         \
			TP_PROTO(const struct rpcordma_peer *peer, u32 xid, int value),            \
			TP_ARGS(peer, xid, value),                                                 \
			rpcordma_trace_failure_on, rpcordma_trace_failure_off);
RPCORDMA_FAILURES(RPCORDMA_DEFINE_FAILURE)

DECLARE_EVENT_CLASS(rpcordma_loss,
	TP_PROTO(const struct rpcordma_peer *peer, int value),
	TP_ARGS(peer, value),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__field(int, value)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		__entry->value = value;
	),
	TP_printk("peer=%pISpc value=%d", __entry->peer, __entry->value)
);

#define RPCORDMA_DEFINE_LOSS(name, ...)                                                           \
	DEFINE_EVENT_FN(rpcordma_loss, rpcordma_##name,                                            \
			TP_PROTO(const struct rpcordma_peer *peer, int value),                     \
			TP_ARGS(peer, value),                                                      \
			rpcordma_trace_loss_on, rpcordma_trace_loss_off);
RPCORDMA_LOSSES(RPCORDMA_DEFINE_LOSS)

DECLARE_EVENT_CLASS(rpcordma_bulk,
	TP_PROTO(const struct rpcordma_peer *peer, u32 xid, u32 length, u32 pieces),
	TP_ARGS(peer, xid, length, pieces),
	TP_STRUCT__entry(
		RPCORDMA_TRACE_PEER
		__field(u32, xid)
		__field(u32, length)
		__field(u32, pieces)
	),
	TP_fast_assign(
		RPCORDMA_TRACE_SET_PEER(peer);
		__entry->xid = xid;
		__entry->length = length;
		__entry->pieces = pieces;
	),
	TP_printk("peer=%pISpc xid=0x%08x length=%u pieces=%u", __entry->peer, __entry->xid,
		  __entry->length, __entry->pieces)
);

#define RPCORDMA_DEFINE_BULK(name, ...)                                                           \
	DEFINE_EVENT_FN(rpcordma_bulk, rpcordma_##name,                                            \
			TP_PROTO(const struct rpcordma_peer *peer, u32 xid, u32 length, u32 pieces), \
			TP_ARGS(peer, xid, length, pieces),                                        \
			rpcordma_trace_bulk_on, rpcordma_trace_bulk_off);
RPCORDMA_BULK_EVENTS(RPCORDMA_DEFINE_BULK)

/* clang-format on */

#endif

/* Relative to the top of the mirrored tree, which is on the include path. */
#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH compat/linux
#define TRACE_INCLUDE_FILE tracepoints
#include <trace/define_trace.h>
