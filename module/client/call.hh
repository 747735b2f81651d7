// SPDX-License-Identifier: GPL-2.0-only
/*
 * A Call: one slot of a client's transport, or one backward call. Its state says who may act on it.
 *
 *	idle      nobody's at the peer: free, or with a task that has not sent it on this connection
 *	posting   its work requests are being posted
 *	early     as posting, and the reply is here already: whoever posts goes on with it
 *	sent      the peer owes the reply
 *	reading   as sent, and the device may be reading the call's pages still (gather.hh)
 *	replied   the reply is here; its memory is being fenced, or read by the device, in the background
 *	lost      the reply was here, and its memory could not be fenced: the drain does it
 *
 *	     .--------------------- the reply, and no region is left --------------------.
 *	     |                                                                           v
 *	idle --> posting --> sent --> replied --LOCAL_INVs done--> (finished) -------> idle
 *	             |        ^           \--LOCAL_INVs failed--> lost --drain--------> idle
 *	             v        |
 *	           early --post failed
 *	             \--posted--> replied
 *
 * A call whose Sends read its pages is `reading` where others are `sent`. If its post fails it is `lost`: what was posted of it
 * may be read until the drain.
 *
 * A task that is killed, or gives up, leaves its call at the peer:
 *
 *	fencing            buf_free() waits for the call's memory to be fenced
 *	cancelled          it is; the reply is still owed, and the slot not given back yet
 *	parked             as cancelled, with scratch memory behind the keys that the peer may write to
 *	zombie             as cancelled, and sunrpc has given the slot back
 *	parked_zombie      as parked, likewise
 *	unparking          the reply has come; the scratch memory is being invalidated
 *	*_answered         the reply has come, to nobody, before sunrpc gave the slot back
 *
 *	sent ----> fencing ----> cancelled ---> zombie ----reply---> idle
 *	 | reply      | reply     |  |  \--> parked ---> parked_zombie ---reply---> unparking ---> idle
 *	 |            |           |  | reply     \--reply--> parked_answered --free_slot--> unparking
 *	 |            v           |  |
 *	 |     fencing_answered   |  |
 *	 |            v           |  |
 *	 \-------> answered <-----+--/                  answered --free_slot--> idle
 *
 *	answered -> fencing_answered, parked_answered   (the reply was faster than the fence, or than the scratch memory)
 *	lost -> fencing_lost -> idle                    (the memory of a reply that could not be fenced)
 *
 * A drain makes every state idle. Changes between threads that may race are compare-and-exchange; those from
 * sent on along the second diagram are made with the fence mutex held, or by the receive completion and
 * free_slot() with the client lock held.
 */
#pragma once

#include <atomic>

#include "compat/port/port.h"
#include "module/base/list.hh"
#include "module/base/lock.hh"
#include "module/base/memory.hh"
#include "module/base/result.hh"
#include "module/chunk/reduce.hh"
#include "module/chunk/reply.hh"
#include "module/client/gather.hh"
#include "module/client/pin.hh"
#include "module/protocol/codec.hh"
#include "module/protocol/reduction.hh"
#include "module/rdma/receive.hh"
#include "module/rdma/region.hh"
#include "module/rdma/send_buffer.hh"

namespace rpcordma {

/** The Sends of a call of several transmissions (rtrext-01) but for the first. */
struct GroupSends {
	SendBuffer sends[protocol::kCallTransmissions - 1];
};

} // namespace rpcordma

struct AllCallsTag;
struct CallListTag;

/* The name that the port knows: global, as C sees it. */
struct rpcordma_call : rpcordma::ListLink<AllCallsTag>, rpcordma::ListLink<CallListTag> {
	using u32 = rpcordma::u32;

	enum class State : unsigned {
		idle,
		posting,
		early,
		sent,
		reading,
		replied,
		lost,
		fencing,
		fencing_answered,
		fencing_lost,
		cancelled,
		answered,
		parked,
		parked_answered,
		zombie,
		parked_zombie,
		unparking,
		serving, /* of a backward call: the service has it, on the connection it came on */
	};

	rpc_rqst *rqst = nullptr;
	std::atomic<State> state{State::idle};
	u32 xid = 0; /* of the last transmission */

	/* A backward call, and its owners: the service, and its reply's Send. */
	bool backward = false;
	std::atomic<u32> owners{0};

	rpcordma::u64 cancelled_at = 0; /* when it became a zombie, ms */
	/* What the reply invalidated, which came when the call was given up. */
	bool late_invalidated = false;
	u32 late_invalidated_rkey = 0;
	/*
	 * While its LOCAL_INVs are posted, or somebody waits for its Sends: one more than the checks that have found that so;
	 * else 0.
	 */
	std::atomic<u32> invalidating{0};
	/* How the peer answered the call with failed_xid, which is written behind it: the sender may look as the reply ends the call. */
	rpcordma::Error failure = rpcordma::Error::none;
	std::atomic<u32> failed_xid{0};

	/* What the call was sent with; valid from marshal to the end of the transmission. A reply may renew shape.receive. */
	rpcordma_xdr_buf *reply = nullptr;     /* rq_rcv_buf */
	rpcordma::chunk::CallShape shape = {}; /* not that of a short call, see plan_short() */
	rpcordma::chunk::Plan plan = {};
	u32 credits = 0;  /* that it holds beyond the first */
	u32 receives = 0; /* reserved for its reply, which may have so many transmissions; 0: one */
	rpcordma::RegionList mapped;
	/*
	 * Regions that map nothing: what the call had before it was sent and has back, and from use to use one. Of an
	 * idle call that a task has they are the sender's (send lock); of a call that was sent with regions, whoever takes
	 * these back: the completions, in turn, or who has the fence mutex; of one without them, the sender's again,
	 * as nothing comes back. retire(), which may be before or after any of these, and a sender that takes them from
	 * another call (take_kept()) have the client lock as well. A drain has all of these locks.
	 */
	rpcordma::RegionList spare;
	u32 mapped_count = 0;

	/* The reply, while it waits: for whoever posts (early), or for LOCAL_INVs (replied). */
	rpcordma::Receive *held = nullptr;
	rpcordma::Pin pin;
	rpcordma::OwnedCqe<rpcordma_call> invalidate_cqe;
	rpcordma::Event fenced; /* for buf_free() */

	/* Buffers, kept from use to use. */
	rpcordma::Buffer call_buffer;
	rpcordma::Buffer reply_buffer;
	/* Two pages each, made when first needed: head and tail of a long call or reply, in one run with its pages. */
	rpcordma::Buffer placed_call;
	rpcordma::Buffer placed_reply;
	rpcordma::SendBuffer sends[rpcordma::protocol::kTransmissions];
	/* Of its other transmissions with round-trip reduction; made when first needed. */
	rpcordma::Owned<rpcordma::GroupSends> others;
	/* Its pages, where Sends read them; made when first needed. */
	rpcordma::Owned<rpcordma::GatheredPages> gathered;

	/** The first Send of its message. */
	[[nodiscard]] rpcordma::SendBuffer &send()
	{
		return sends[0];
	}
	[[nodiscard]] const rpcordma::SendBuffer &send() const
	{
		return sends[0];
	}
	/** It is about to be posted, and its Sends read its pages. The sender. */
	[[nodiscard]] bool is_gathered() const
	{
		return gathered && gathered->mapped();
	}
	/** The device may be reading its pages. */
	[[nodiscard]] bool is_read() const
	{
		return gathered && gathered->are_out();
	}
	/** What alloc_buffers() would provide is there. */
	[[nodiscard]] bool has_buffers(rpcordma::usize call_size, rpcordma::usize reply_size,
				       u32 send_size) const
	{
		bool has = call_size <= call_buffer.size() && reply_size <= reply_buffer.size();

		for (const rpcordma::SendBuffer &one : sends)
			has = has && one.capacity() >= send_size;
		return has;
	}
	[[nodiscard]] State get_state() const
	{
		return state.load(std::memory_order_acquire);
	}
	void set_state(State to)
	{
		state.store(to, std::memory_order_release);
	}
	/** From @from to @to, unless it is in another state, which is returned in @from. */
	[[nodiscard]] bool change(State &from, State to)
	{
		return state.compare_exchange_strong(from, to, std::memory_order_acq_rel);
	}
	[[nodiscard]] bool change_from(State from, State to)
	{
		return change(from, to);
	}
};

namespace rpcordma {

using Call = rpcordma_call;
using CallState = rpcordma_call::State;
using CallList = List<Call, CallListTag>;

/**
 * Whether the call keeps its credit beyond its task: its reply is owed, or came when sunrpc had begun to give the
 * call up, in which case free_slot() returns the credit.
 */
[[nodiscard]] constexpr bool keeps_credit(CallState state)
{
	switch (state) {
	case CallState::sent:
	case CallState::reading:
	case CallState::fencing:
	case CallState::fencing_answered:
	case CallState::cancelled:
	case CallState::answered:
	case CallState::parked:
	case CallState::parked_answered:
	case CallState::zombie:
	case CallState::parked_zombie:
	case CallState::unparking:
		return true;
	default:
		return false;
	}
}

/** Note in @shape where @buf is, and how long. In place: a copy would go through the stack. */
[[gnu::always_inline]] inline void take_shape(chunk::BufferShape &shape, const rpcordma_xdr_buf &buf)
{
	shape.head_address = reinterpret_cast<u64>(buf.head.base);
	shape.head_length = static_cast<u32>(buf.head.length);
	shape.page_base = buf.page_base;
	shape.page_length = buf.page_length;
	shape.tail_address = reinterpret_cast<u64>(buf.tail.base);
	shape.tail_length = static_cast<u32>(buf.tail.length);
}

} // namespace rpcordma
