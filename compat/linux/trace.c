// SPDX-License-Identifier: GPL-2.0-only
/*
 * The port's trace points. The events are defined in tracepoints.h; messages for the administrator
 * are in log.c.
 */

/* GNU C defines linux as 1, which would turn the path compat/linux below into compat/1. */
#undef linux

#include <linux/compiler.h>
#include <linux/in6.h>
#include <linux/once.h>
#include <linux/siphash.h>

#include "compat/linux/endpoint.h"
#include "compat/linux/peer.h"
#include "compat/port/trace.h"
#include "compat/port/verbs.h"

unsigned int rpcordma_trace_enabled;

#define CREATE_TRACE_POINTS
#include "compat/linux/tracepoints.h"

/* How many events of the class are enabled. The kernel calls both under a mutex of its own. */
#define DEFINE_HOOKS(name, bit)                                                                    \
	static unsigned int name##_users;                                                          \
	int rpcordma_trace_##name##_on(void)                                                       \
	{                                                                                          \
		if (!name##_users++)                                                               \
			WRITE_ONCE(rpcordma_trace_enabled, rpcordma_trace_enabled | (bit));        \
		return 0;                                                                          \
	}                                                                                          \
	void rpcordma_trace_##name##_off(void)                                                     \
	{                                                                                          \
		if (!--name##_users)                                                               \
			WRITE_ONCE(rpcordma_trace_enabled, rpcordma_trace_enabled & ~(bit));       \
	}

DEFINE_HOOKS(connection, RPCORDMA_TRACE_CONNECTION)
DEFINE_HOOKS(version, RPCORDMA_TRACE_VERSION)
DEFINE_HOOKS(property, RPCORDMA_TRACE_PROPERTY)
DEFINE_HOOKS(group, RPCORDMA_TRACE_GROUP)
DEFINE_HOOKS(marshal, RPCORDMA_TRACE_MARSHAL)
DEFINE_HOOKS(post, RPCORDMA_TRACE_POST)
DEFINE_HOOKS(receive_posted, RPCORDMA_TRACE_RECEIVE_POSTED)
DEFINE_HOOKS(completion, RPCORDMA_TRACE_COMPLETION)
DEFINE_HOOKS(region, RPCORDMA_TRACE_REGION)
DEFINE_HOOKS(credits, RPCORDMA_TRACE_CREDITS)
DEFINE_HOOKS(reply, RPCORDMA_TRACE_REPLY)
DEFINE_HOOKS(decode, RPCORDMA_TRACE_DECODE)
DEFINE_HOOKS(encode, RPCORDMA_TRACE_ENCODE)
DEFINE_HOOKS(failure, RPCORDMA_TRACE_FAILURE)
DEFINE_HOOKS(loss, RPCORDMA_TRACE_LOSS)
DEFINE_HOOKS(bulk, RPCORDMA_TRACE_BULK)

/* A number for an address, which says nothing of the address. */
static u32 digest(const void *entry)
{
	static siphash_key_t key;

	get_random_once(&key, sizeof(key));
	return siphash_1u64((unsigned long)entry, &key);
}

static u32 queue_id(const struct rpcordma_endpoint *ep, enum rpcordma_trace_queue queue)
{
	const struct ib_cq *cq = queue == RPCORDMA_TRACE_SEND_QUEUE ? ep->send_cq : ep->receive_cq;

	return cq ? cq->res.id : 0;
}

void rpcordma_trace_connection(const struct rpcordma_peer *peer, const char *what, int value)
{
	trace_rpcordma_connection(peer, what, value);
}

void rpcordma_trace_version(const struct rpcordma_peer *peer, const char *role,
			    rpcordma_u32 version, const char *why)
{
	trace_rpcordma_version(peer, role, version, why);
}

void rpcordma_trace_property(const struct rpcordma_peer *peer, const char *what,
			     const struct rpcordma_trace_properties *said)
{
	trace_rpcordma_property(peer, what, said);
}

void rpcordma_trace_group(const struct rpcordma_peer *peer, const char *what,
			  const struct rpcordma_trace_transmission *transmission)
{
	trace_rpcordma_group(peer, what, transmission);
}

void rpcordma_trace_marshal(const struct rpcordma_peer *peer, rpcordma_u32 xid, rpcordma_u32 credits,
			    rpcordma_u32 proc, rpcordma_u32 header_length,
			    rpcordma_u32 inline_length, rpcordma_u32 send_mode,
			    rpcordma_u32 receive_mode)
{
	trace_rpcordma_marshal(peer, xid, credits, proc, header_length, inline_length, send_mode,
			       receive_mode);
}

void rpcordma_trace_post(const struct rpcordma_endpoint *ep, enum rpcordma_trace_queue queue,
			 const char *what, rpcordma_u32 xid, rpcordma_u32 work_requests,
			 rpcordma_bool signaled, int result, const void *entry)
{
	trace_rpcordma_post(ep->peer, what, xid, work_requests, signaled, result,
			    queue_id(ep, queue), digest(entry));
}

void rpcordma_trace_receive_posted(const struct rpcordma_endpoint *ep, const void *entry)
{
	trace_rpcordma_receive_posted(ep->peer, queue_id(ep, RPCORDMA_TRACE_RECEIVE_QUEUE),
				      digest(entry));
}

void rpcordma_trace_completion(const struct rpcordma_endpoint *ep, enum rpcordma_trace_queue queue,
			       const char *what, int status, rpcordma_u32 byte_len,
			       rpcordma_u32 invalidated_rkey, const void *entry)
{
	trace_rpcordma_completion(ep->peer, what, status, byte_len, invalidated_rkey,
				  queue_id(ep, queue), digest(entry));
}

void rpcordma_trace_region(const struct rpcordma_peer *peer, const char *what, rpcordma_u32 xid,
			   const struct rpcordma_region *region,
			   const struct rpcordma_mapping *mapping)
{
	trace_rpcordma_region(peer, what, xid, mapping->rkey, mapping->length, mapping->iova,
			      rpcordma_region_id(region));
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

void rpcordma_trace_decode(const struct rpcordma_peer *peer, const struct rpcordma_trace_call *call)
{
	trace_rpcordma_decode(peer, call);
}

void rpcordma_trace_encode(const struct rpcordma_peer *peer,
			   const struct rpcordma_trace_answer *answer)
{
	trace_rpcordma_encode(peer, answer);
}

#define FAILURE(name, ...)                                                                        \
	case RPCORDMA_FAILURE_##name:                                                              \
		trace_rpcordma_##name(peer, xid, value);                                           \
		break;

void rpcordma_trace_failure(enum rpcordma_failure which, const struct rpcordma_peer *peer,
			    rpcordma_u32 xid, int value)
{
	switch (which) {
	RPCORDMA_FAILURES(FAILURE)
	case RPCORDMA_FAILURE_COUNT:
		break;
	}
}

#define LOSS(name, ...)                                                                           \
	case RPCORDMA_LOSS_##name:                                                                 \
		trace_rpcordma_##name(peer, value);                                                \
		break;

void rpcordma_trace_loss(enum rpcordma_loss which, const struct rpcordma_peer *peer, int value)
{
	switch (which) {
	RPCORDMA_LOSSES(LOSS)
	case RPCORDMA_LOSS_COUNT:
		break;
	}
}

#define BULK(name, ...)                                                                           \
	case RPCORDMA_BULK_##name:                                                                 \
		trace_rpcordma_##name(peer, xid, length, pieces);                                  \
		break;

void rpcordma_trace_bulk(enum rpcordma_bulk_event which, const struct rpcordma_peer *peer,
			 rpcordma_u32 xid, rpcordma_u32 pieces, rpcordma_u32 length)
{
	switch (which) {
	RPCORDMA_BULK_EVENTS(BULK)
	case RPCORDMA_BULK_COUNT:
		break;
	}
}
