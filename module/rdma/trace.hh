// SPDX-License-Identifier: GPL-2.0-only
/*
 * Trace points as the cores call them: one load and a branch not taken while nobody listens. Which events
 * there are, and when each is, stands in compat/port/trace.h.
 *
 * Arguments are computed before the load: where calls pass that go well, they are to be at hand, or on() is to be
 * asked first.
 */
#pragma once

#include "compat/port/port.h"
#include "module/base/result.hh"
#include "module/base/types.hh"
#include "xdr/message.hh"
#include "xdr/properties.hh"

namespace rpcordma::trace {

#define RPCORDMA_NAME(name, text) name,
/** Why an RPC or a message failed. */
enum class Failure : u32 { RPCORDMA_FAILURES(RPCORDMA_NAME) };
/** Why a connection was not made, or ended. */
enum class Loss : u32 { RPCORDMA_LOSSES(RPCORDMA_NAME) };
/** What became of scattered memory. */
enum class Bulk : u32 { RPCORDMA_BULK_EVENTS(RPCORDMA_NAME) };
#undef RPCORDMA_NAME

/** @which: bits of rpcordma_trace; whether anybody listens to one of them. */
[[nodiscard]] inline bool on(u32 which)
{
	return __builtin_expect(__atomic_load_n(&rpcordma_trace_enabled, __ATOMIC_RELAXED) & which,
				0);
}

inline void connection(const rpcordma_peer *peer, const char *what, int value)
{
	if (on(RPCORDMA_TRACE_CONNECTION))
		rpcordma_trace_connection(peer, what, value);
}

/** @role, @why: as rpcordma_trace_version() has them. */
inline void version(const rpcordma_peer *peer, const char *role, u32 version, const char *why)
{
	if (on(RPCORDMA_TRACE_VERSION))
		rpcordma_trace_version(peer, role, version, why);
}

/**
 * A message of @kind about properties was posted, or has come.
 *
 * @what   as rpcordma_trace_property() has it
 * @fixed  of @said, those that its sender will not change: a mask
 */
inline void property(const rpcordma_peer *peer, const char *what, Xid xid, Credits credits,
		     xdr::Kind kind, const properties::Properties &said = {}, u32 fixed = 0)
{
	if (!on(RPCORDMA_TRACE_PROPERTY))
		return;
	const rpcordma_trace_properties traced = {
		xid.get(),	    credits.get(),	  static_cast<u32>(kind),
		said.present,	    said.present & fixed, said.receive_size,
		said.ddp_segments()};

	rpcordma_trace_property(peer, what, &traced);
}
/** As that, of @message, which has come. */
inline void property(const rpcordma_peer *peer, const char *what, const xdr::Message &message,
		     const properties::Properties &said = {}, u32 fixed = 0)
{
	property(peer, what, message.xid, message.credits, message.kind, said, fixed);
}

/**
 * A transmission of a message that may have several: see rpcordma_trace_group().
 *
 * @number  of those of its message, from 0
 * @count   how many these are; 0: it does not say
 * @stream  bytes of the RPC message in it
 */
inline void group(const rpcordma_peer *peer, const char *what, Xid xid, xdr::Option option,
		  u32 number, u32 count, u32 stream)
{
	if (!on(RPCORDMA_TRACE_GROUP))
		return;
	const rpcordma_trace_transmission traced = {xid.get(), static_cast<u32>(option), number,
						    count, stream};

	rpcordma_trace_group(peer, what, &traced);
}

/** Transmission @number, of @count, of a message that begins with @lead, is made. @stream: as group() has it. */
inline void group_sent(const rpcordma_peer *peer, Xid xid, xdr::Option lead, u32 number, u32 count,
		       u32 stream)
{
	group(peer, "sent", xid, number ? xdr::Option::xmtcont : lead, number, number ? 0 : count,
	      stream);
}

/** @entry: what the chain's end completes to, as completion() has it. */
inline void post(const rpcordma_endpoint *endpoint, const char *what, u32 xid, u32 requests,
		 bool signaled, int rc, const void *entry)
{
	if (on(RPCORDMA_TRACE_POST))
		rpcordma_trace_post(endpoint, RPCORDMA_TRACE_SEND_QUEUE, what, xid, requests,
				    signaled, rc, entry);
}

/** As that, of a chain whose @last completes to its own entry. */
inline void post(const rpcordma_endpoint *endpoint, const char *what, u32 xid, u32 requests,
		 bool signaled, int rc, const rpcordma_send_wr &last)
{
	if (on(RPCORDMA_TRACE_POST))
		rpcordma_trace_post(endpoint, RPCORDMA_TRACE_SEND_QUEUE, what, xid, requests,
				    signaled, rc, last.cqe);
}

inline void completion(const rpcordma_endpoint *endpoint, const char *what,
		       const rpcordma_completion &c, const void *entry)
{
	if (on(RPCORDMA_TRACE_COMPLETION))
		rpcordma_trace_completion(endpoint, RPCORDMA_TRACE_SEND_QUEUE, what, c.status, 0, 0,
					  entry);
}

/** As completion(), of a Receive. */
inline void received(const rpcordma_endpoint *endpoint, const rpcordma_completion &c,
		     const void *entry)
{
	if (!on(RPCORDMA_TRACE_COMPLETION))
		return;
	const bool success = c.status == RPCORDMA_WC_SUCCESS;
	const bool invalidated = success && c.flags & RPCORDMA_WC_WITH_INVALIDATE;

	rpcordma_trace_completion(endpoint, RPCORDMA_TRACE_RECEIVE_QUEUE, "receive", c.status,
				  success ? c.byte_len : 0, invalidated ? c.invalidated_rkey : 0,
				  entry);
}

/** @region: of struct Region. */
template <typename Region>
inline void region(const rpcordma_peer *peer, const char *what, u32 xid, const Region &region)
{
	if (on(RPCORDMA_TRACE_REGION))
		rpcordma_trace_region(peer, what, xid, region.device, &region.mapping);
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

/** @xid: 0 where there is none. @value: as the event's line in compat/port/trace.h has it. */
inline void failure(const rpcordma_peer *peer, Failure which, u32 xid, int value)
{
	if (on(RPCORDMA_TRACE_FAILURE))
		rpcordma_trace_failure(static_cast<rpcordma_failure>(which), peer, xid, value);
}
inline void failure(const rpcordma_peer *peer, Failure which, u32 xid, Error error)
{
	failure(peer, which, xid, to_errno(error));
}

inline void loss(const rpcordma_peer *peer, Loss which, int value)
{
	if (on(RPCORDMA_TRACE_LOSS))
		rpcordma_trace_loss(static_cast<rpcordma_loss>(which), peer, value);
}

/** The event of a message that cannot be decoded for @why. */
[[nodiscard]] inline Failure undecodable(Error why)
{
	return why == Error::message_size ? Failure::message_short :
	       why == Error::no_protocol  ? Failure::message_version :
					    Failure::message_undecodable;
}

} // namespace rpcordma::trace
