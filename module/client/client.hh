// SPDX-License-Identifier: GPL-2.0-only
/*
 * The requester: what stands behind the xprt class. One Client for a transport, one Connection (connection.hh)
 * for as long as it is connected, one Call (call.hh) for a slot. The files, none of which calls one that
 * stands below it here:
 *
 *   slots.cc         calls as slots: making them, the free list, buffers
 *   registration.cc  regions: the pool, mapping, invalidation
 *   transmit.cc      send buffers, and posting what a message consists of
 *   fence.cc         calls that their tasks gave up: taking their memory back, zombies
 *   close.cc         the end of a connection
 *   aside.cc         messages that are not sent by a task: refusals, and what is about the connection
 *   backchannel.cc   backward calls and their replies
 *   negotiate.cc     which version is spoken, and the peer's properties
 *   reply.cc         messages from the peer
 *   group.cc         calls of several transmissions, with round-trip reduction
 *   send.cc          calls
 *   connect.cc       making a connection; the client's own life
 *   entry.cc         the functions that the port knows
 *
 * Who owns what when
 *
 *   A Call belongs to sunrpc from alloc_slot() to free_slot(), otherwise to the Client: on its free list, or
 *   among the zombies. Its send buffer belongs to the device from the post of a Send until that Send's
 *   reply or the drain of the queue pair.
 *
 *   A call's message and pages belong to sunrpc, and to the peer as well while a region maps them:
 *   from the post of the REG_MR until the R_key is invalidated, by the peer's Send With Invalidate, by our
 *   LOCAL_INV, or by the drain of the queue pair. Pages that Sends read (gather.hh) are the device's as well, from their
 *   post until the last of them is done.
 *
 * The invariants C1 to C5 are listed in Documentation/architecture.rst, each with the place that asserts it.
 */
#pragma once

#include <atomic>

#include "compat/port/port.h"
#include "module/base/list.hh"
#include "module/base/lock.hh"
#include "module/base/result.hh"
#include "module/chunk/select.hh"
#include "module/client/call.hh"
#include "module/client/connection.hh"
#include "module/protocol/negotiation.hh"
#include "module/rdma/region.hh"
#include "module/rdma/trace.hh"
#include "xdr/private_data.hh"

namespace rpcordma {

/** Backward calls that the peer may have outstanding (RFC 8167 4.1): an NFSv4.1 client's session slots. */
static constexpr u32 kBackwardCredits = 16;
/** The next one may come as soon as the peer has a reply, before that reply's Send is known to be done. */
static constexpr u32 kBackwardCalls = 2 * kBackwardCredits;

/**
 * How long a cancelled call may wait for its reply, ms: as long as sunrpc lets a live one wait before it
 * drops the connection.
 */
static constexpr u32 kReplyLimitMs = 60000;

/** Bytes of a send buffer's head, as it is set now: a message of the default size goes, whatever the limit. */
[[nodiscard]] inline u32 send_head_size()
{
	return max(rpcordma_tunables.max_inline_write, private_data::size_unit);
}

/** LOCAL_INVs that two checks find posted, this far apart, are overdue. */
static constexpr u32 kInvalidationLimitMs = kReplyLimitMs / 2;

/** Add to a statistic, in any context: others read it, and some add to it, at the same time. */
template <typename Counter> inline void tally(Counter &counter, u64 more)
{
	if (more)
		__atomic_fetch_add(&counter, static_cast<Counter>(more), __ATOMIC_RELAXED);
}

/** Have @word, of the statistics, be @value. One context at a time; others read it meanwhile. */
template <typename Word, typename Value> inline void note(Word &word, Value value)
{
	__atomic_store_n(&word, static_cast<Word>(value), __ATOMIC_RELAXED);
}

} // namespace rpcordma

/* The name that the port knows: global, as C sees it. */
struct rpcordma_client {
	using u32 = rpcordma::u32;
	using usize = rpcordma::usize;
	using Call = rpcordma::Call;
	using Connection = rpcordma::Connection;
	using Pin = rpcordma::Pin;
	using Receive = rpcordma::Receive;
	using Region = rpcordma::Region;
	using Status = rpcordma::Status;

	rpc_xprt *xprt = nullptr;
	const rpcordma_peer *peer = nullptr;
	rpcordma::SpinLock lock;
	rpcordma::Mutex fence; /* keeps connection and its queue pair for who fences memory */
	Connection *connection = nullptr; /* written under send, fence and client lock */
	u32 slots = 0;
	u32 calls_told = 0; /* in the log: what shorter queues than wanted are for; send lock */
	/* A connection broke, or was not made, and no reply has come since. */
	std::atomic<bool> back_off{false};
	/* Backward calls may come; written under the client lock, as is a call handed to the service. */
	std::atomic<bool> backchannel{false};
	std::atomic<bool> said_segments_missing{false}; /* in the log, once */
	std::atomic<bool> wants_space{false}; /* the sender waits for send queue room or regions */
	rpcordma::Event answered;	      /* a connection's question, or it is broken */
	rpcordma::protocol::Avoidance avoidance; /* of version 2; send lock */
	rpcordma::protocol::Plainness plainness; /* no round-trip reduction */
	rpcordma_client_stats stats = {};

	/* Shrinks under the fence mutex as well. */
	rpcordma::List<Call, AllCallsTag> all GUARDED_BY(lock);
	rpcordma::CallList free_slots GUARDED_BY(lock);
	rpcordma::CallList zombies GUARDED_BY(lock);
	rpcordma::RegionSet pool GUARDED_BY(lock);
	rpcordma::RegionSet at_hand; /* taken from the pool, for the calls to come; send lock */
	rpcordma::RegionList discarded GUARDED_BY(lock); /* for refill() to replace */
	rpcordma::CallList backward_free GUARDED_BY(lock);
	u32 backward_users GUARDED_BY(lock) = 0; /* setup_backchannel() less end_backchannel() */
	u32 backward_made = 0; /* backward calls that setup_backchannel() made; it alone */
	/* Receives that are posted for replies of several transmissions, and that no call has; none before they are. */
	std::atomic<u32> reserve{0};
	u32 group_bytes = 0; /* of each transmission of the call that is being sent; send lock */
	/* What the peer receives its item into, if it has one; likewise. */
	rpcordma::properties::Structure item_room;
	/* Of the item of its reply, if one may come in Sends: shorter ones are inline; likewise. */
	u32 item_least = 0;
	bool aside_made = false; /* one more, for messages about the connection; send lock */

	/* slots.cc */
	[[nodiscard]] Call *create_call(bool backward);
	void destroy_call(Call *call);
	[[nodiscard]] rpc_rqst *alloc_slot();
	void retire(Call *call);
	[[nodiscard, gnu::noinline]] Status alloc_buffers(Call *call, usize call_size,
							  usize reply_size);
	[[nodiscard]] bool ensure_send_buffer(Call *call, rpcordma_alloc_how how);

	/* registration.cc */
	[[nodiscard]] u32 create_regions(Connection &c, u32 count, bool gaps);
	void refill();
	void take_kept(const Call *but) REQUIRES(lock);
	void want_more_regions(rpcordma::Connection &c, bool gaps);
	[[nodiscard]] bool take_regions(rpcordma::Connection &c, Call *call);
	/** Map bytes @range of @buf by @region, which is one of @call's spare ones. */
	[[nodiscard]] Status map_region(Call *call, Region *region, const rpcordma_xdr_buf *buf,
					rpcordma::chunk::ByteRange range, bool writable);
	[[nodiscard]] Status map_segments(const rpcordma::chunk::SegmentList &segments,
					  const rpcordma_xdr_buf *buf, Call *call, bool writable);
	void unmap_all(Connection &c, Call *call);
	void unmap_invalidated(Connection &c, Call *call, u32 rkey);
	void discard_invalidated(Connection &c, Call *call);
	[[nodiscard]] bool has_discarded();
	[[nodiscard]] bool replace_discarded(Connection &c);
	[[nodiscard]] Status post_invalidations(Connection &c, Call *call);

	/* transmit.cc */
	[[nodiscard]] bool map_send_buffers(Connection &c, Call *call, u32 count);
	[[nodiscard]] Status post(Connection &c, Call *call, u32 transmissions,
				  rpcordma::SendQueue::Marker *marker);

	/* fence.cc */
	[[gnu::noinline]] void cancel(Call *call);
	void free_slot(Call *call);
	[[nodiscard, gnu::noinline]] bool keep_owed(Call *call);
	[[nodiscard]] bool await_sends(Call *call);
	[[nodiscard]] bool take_late_reply(Connection &c, u32 xid, const Receive &receive);
	void end_fence(Connection &c, Call *call, bool success);
	void check_overdue();

	/* close.cc */
	void tear_down(Connection *c);
	void close();
	[[nodiscard]] rpcordma::Error drop_connection(rpcordma::trace::Failure why, u32 xid,
						      int value);

	/* aside.cc */
	[[nodiscard]] bool make_backward_call();
	[[nodiscard]] Call *take_backward(u32 xid);
	template <typename Encode>
	[[nodiscard]] bool send_aside(Connection &c, u32 xid, Encode encode);
	void refuse(Connection &c, const Receive &receive, rpcordma::xdr::ErrorCode code);
	void report_reply(Connection &c, const rpcordma::rtrext::Report &report);

	/* backchannel.cc */
	[[nodiscard]] Status setup_backchannel();
	void end_backchannel(bool all_users);
	void handle_backward_call(Connection &c, Receive *receive);
	[[nodiscard]] Status send_backward_reply(Call *call);
	void put_backward(Call *call);

	/* reply.cc */
	void handle_message(Connection &c, Receive *receive, rpcordma::Bytes bytes);
	void process_early_reply(Connection &c, Call *call);
	void process_early_gathered(Connection &c, Call *call);
	void end_invalidation(Connection &c, Call *call, bool success);
	void end_gathered(Connection &c, Call *call);

	/* negotiate.cc */
	[[nodiscard]] Status ask_version(Connection &c);
	void take_answer(Connection &c, const Receive &receive);
	void take_control(Connection &c, const Receive &receive);

	/** Do without round-trip reduction for a while. @why, and @value behind it, are for the log. Any context. */
	void go_plain(const char *why, u32 value);
	/** The peer reports that a transmission of @xid's call was wrong: do without, likewise. */
	void reported(u32 xid, u32 fault);

	/* group.cc */
	[[nodiscard]] bool begin_group(Connection &c, Call *call, const rpcordma_request &request);
	[[nodiscard]] bool begin_item(Connection &c, Call *call, const rpcordma_request &request,
				      const rpcordma::chunk::Means &means,
				      const rpcordma::chunk::Selection &chosen);
	[[nodiscard]] bool begin_asking(Connection &c, Call *call,
					const rpcordma::chunk::Selection &chosen);
	[[nodiscard]] bool begin_parts(Connection &c, Call *call, rpcordma::chunk::Means means,
				       rpcordma::chunk::Selection chosen);
	[[nodiscard]] bool take_for_group(Call *call, u32 count, u32 replies);
	[[nodiscard]] Status make_group(const Connection &c, Call *call,
					const rpcordma_request &request);
	[[nodiscard]] Status make_item(const Connection &c, Call *call,
				       const rpcordma_request &request);
	[[nodiscard]] Status post_group(Connection &c, Call *call, rpcordma_cqe *signaled);

	/** The message of @call, of @kind, is made. Ask trace::on() first. */
	[[gnu::noinline]] void trace_marshal(const Connection &c, const Call &call,
					     rpcordma::xdr::Kind kind) const
	{
		rpcordma_trace_marshal(peer, call.xid, c.credits.requested().get(),
				       static_cast<u32>(kind), call.plan.header_length,
				       call.plan.inline_length,
				       static_cast<u32>(call.plan.send_mode),
				       static_cast<u32>(call.plan.receive_mode));
	}

	/* send.cc */
	[[nodiscard]] Status send_request(Call *call);

	/* connect.cc */
	[[nodiscard]] Status create(rpc_xprt *transport, u32 slot_count);
	void destroy();
	[[nodiscard]] Status connect();

	/** Nothing can be sent before @has_space(); have the task that sends called when it is so. */
	template <typename HasSpace>
	[[nodiscard]] rpcordma::Error wait_for_space(HasSpace has_space);
	/**
	 * The credits that @call holds beyond its first are free, and Receives that were reserved: its reply is here, or
	 * nothing of it was posted.
	 */
	void return_extra_credits(Call *call)
	{
		if (__builtin_expect(call->receives != 0, 0)) {
			/* Posted again before; see begin_group(). */
			reserve.fetch_add(call->receives, std::memory_order_release);
			call->receives = 0;
		}
		if (__builtin_expect(call->credits != 0, 0)) {
			rpcordma_xprt_return_credits(xprt, call->credits);
			call->credits = 0;
		}
	}
	/**
	 * The same of a call whose reply, which came over @c, is handled: unless that is broken. Then it may have been an ERROR,
	 * and parts of the call may still be under way: the next connection has them back.
	 */
	void return_proved_credits(const rpcordma::Connection &c, Call *call)
	{
		if (c.broken.load(std::memory_order_relaxed))
			call->credits = call->receives = 0;
		return_extra_credits(call);
	}
	/** There is room in the send queue, or regions, that the sender may be waiting for. Any context. */
	void announce_space();
};

inline void rpcordma_client::announce_space()
{
	/* Pairs with wait_for_space(): either it sees the room, or we see the wish. */
	std::atomic_thread_fence(std::memory_order_seq_cst);
	if (wants_space.load(std::memory_order_acquire) &&
	    wants_space.exchange(false, std::memory_order_acq_rel))
		rpcordma_xprt_write_space(xprt);
}

[[gnu::always_inline]] inline rpcordma::Status
rpcordma_client::map_region(rpcordma::Call *call, rpcordma::Region *region,
			    const rpcordma_xdr_buf *buf, rpcordma::chunk::ByteRange range,
			    bool writable)
{
	const int rc = rpcordma_region_map(region->device, buf, range.offset, range.length, writable,
					   call->xid, &region->register_wr, &region->mapping);

	if (__builtin_expect(rc, 0)) {
		rpcordma::trace::failure(peer, rpcordma::trace::Failure::region_map_failed,
					 call->xid, rc);
		return rpcordma::from_errno(rc);
	}
	region->writable = writable;
	call->mapped.move_back(region);
	call->mapped_count++;
	rpcordma::trace::region(peer, "map", call->xid, *region);
	return {};
}

template <typename HasSpace>
inline rpcordma::Error rpcordma_client::wait_for_space(HasSpace has_space)
{
	rpcordma::tally(stats.empty_sendctx_q, 1);
	rpcordma_xprt_wait_for_space(xprt);
	/* Whoever sees the wish is to see what the line before has left with sunrpc, too, or wakes nobody. */
	wants_space.store(true, std::memory_order_release);
	/* Pairs with announce_space(). */
	std::atomic_thread_fence(std::memory_order_seq_cst);
	if (has_space())
		announce_space();
	return rpcordma::Error::again;
}

namespace rpcordma {
using Client = rpcordma_client;
}
