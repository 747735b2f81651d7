// SPDX-License-Identifier: GPL-2.0-only
/*
 * The requester: what stands behind the xprt class. One Client for a transport, one Connection for as
 * long as it is connected, one Call for a slot.
 *
 * Who owns what when
 *
 *   A Call belongs to sunrpc from alloc_slot() to free_slot(), otherwise to the Client: on its free list,
 *   or among the zombies (sent, given up by sunrpc, reply still owed). Its wire buffer belongs to the
 *   device from the post of a Send until that Send's reply or the drain of the queue pair.
 *
 *   A call's message and pages belong to sunrpc, and to the peer as well while a region maps them:
 *   from the post of the REG_MR until the R_key is invalidated, by the peer's Send With Invalidate, by our
 *   LOCAL_INV, or by the drain of the queue pair.
 *
 *   The Connection is stable for whoever holds the transport's send lock (send, connect, close), in its
 *   own completions, under the fence mutex, and under the client lock.
 *
 * Call::state says who may act on a call:
 *
 *      idle --send--> posting --posted--> sent --reply--> replied --fenced--> idle
 *                        \--reply--> early --sender--> replied
 *                                    early --post failed--> sent
 *                        sent --task gone--> cancelled --free_slot--> (zombie) --reply--> idle
 *                        sent, replied, cancelled --drained--> idle
 *
 * Invariants, each with the place that asserts it
 *
 *   C1  No RPC completes while a region maps its memory.              finish() in reply.cc
 *   C2  A wire buffer is written only when the device has done with   send_request() in send.cc
 *       it: its call is not sent, and no zombie.
 *   C3  A call on the free list has no mapped region and is idle.     free_slot() in client.cc
 *   C4  Receives are posted before the credits they back are used.    grant() in reply.cc
 *   C5  No memory of the device is left when the queue pair goes.     teardown_() in connect.cc
 */
#pragma once

#include <atomic>

#include "compat/port/port.h"
#include "module/base/list.hh"
#include "module/base/lock.hh"
#include "module/base/result.hh"
#include "module/chunk/reduce.hh"
#include "module/chunk/reply.hh"
#include "module/rdma/credits.hh"
#include "module/rdma/receive_queue.hh"
#include "module/rdma/region.hh"
#include "module/rdma/send_queue.hh"
#include "module/rdma/trace.hh"
#include "xdr/v1.hh"

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

/** What sunrpc's transmit machinery tells apart, as negative errnos (asm-generic/errno.h). */
namespace status {
static constexpr int kIo = -5, kAgain = -11, kBadSlot = -57, kMessageSize = -90, kNoBuffers = -105,
		     kNotConnected = -107;
}

} // namespace rpcordma

/* The two names that the port knows: global, as C sees them. */

struct AllCallsTag;
struct CallListTag;

struct rpcordma_call : rpcordma::ListLink<AllCallsTag>, rpcordma::ListLink<CallListTag> {
	enum class State : unsigned {
		idle,
		posting,   /* its work requests are being posted */
		early,	   /* as posting, and the reply is here already */
		sent,	   /* the reply is owed */
		replied,   /* the reply is here, memory is being fenced */
		cancelled, /* sunrpc gave it up; the reply is still owed */
	};

	rpcordma_client *client = nullptr;
	rpc_rqst *rqst = nullptr;
	std::atomic<State> state{State::idle};
	rpcordma::u32 xid = 0; /* of the last transmission */
	bool backward = false;
	bool zombie = false;		/* on the zombie list; client lock */
	rpcordma::u64 cancelled_at = 0; /* when it became a zombie, ms */
	bool parked =
		false; /* its regions have scratch memory behind them; fence mutex, then the reply */
	bool unparking = false; /* parked, and nobody's until its LOCAL_INVs are done; client lock */
	int failure = 0;	/* how the peer answered failed_xid; a negative errno, or 0 */
	rpcordma::u32 failed_xid = 0;
	bool late_reply = false; /* the reply to a cancelled call has come; client lock */
	std::atomic<rpcordma::u32> owners{
		0};	       /* of a backward call: the service, and its reply's Send */
	bool orphaned = false; /* a backward call, whose connection is gone */

	/* What the call was sent with; valid from marshal to the end of the transmission. */
	rpcordma_xdr_buf *reply = nullptr; /* rq_rcv_buf */
	rpcordma::chunk::CallShape shape = {};
	rpcordma::chunk::Plan plan = {};
	rpcordma::RegionList mapped;
	rpcordma::RegionList spare;
	rpcordma::u32 mapped_count = 0;

	/* Fencing: set while a LOCAL_INV is on its way. */
	rpcordma::OwnedCqe<rpcordma_call> invalidate_cqe;
	rpcordma::Receive *held = nullptr;
	rpcordma_event *fenced = nullptr;
	bool waiting = false; /* buf_free waits for the drain; fence mutex */
	bool fence_failed = false;

	/* Buffers, kept from use to use. */
	void *call_buffer = nullptr;
	void *reply_buffer = nullptr;
	rpcordma::usize call_capacity = 0;
	rpcordma::usize reply_capacity = 0;
	rpcordma::u8 *wire = nullptr;
	rpcordma::u32 wire_capacity = 0;
	bool wire_mapped = false;
	rpcordma_sge wire_sge = {};
	rpcordma_send_wr send_wr = {};
};

namespace rpcordma {

using Call = rpcordma_call;
using CallState = rpcordma_call::State;

/** Add to a statistic, in any context: others read it, and some add to it, at the same time. */
template <typename Counter> inline void tally(Counter &counter, u64 more)
{
	if (more)
		__atomic_fetch_add(&counter, static_cast<Counter>(more), __ATOMIC_RELAXED);
}

/** What exists from connect to close. The context of all completions and endpoint events. */
struct Connection {
	rpcordma_client *client = nullptr;
	rpcordma_endpoint *endpoint = nullptr;
	rpcordma_device device = {};
	chunk::Limits limits = {};
	chunk::Thresholds thresholds = {};
	RequesterCredits credits{1}; /* receive completions, once connected */
	SendQueue send_queue;
	ReceiveQueue receive_queue;
	rpcordma_cqe silent_send_cqe = {}; /* for Sends that are heard of only when they fail */
	rpcordma_cqe silent_register_cqe = {};
	rpcordma_cqe silent_invalidate_cqe = {};
	u32 regions_limit = 0;
	std::atomic<u32> regions_created{0};
	std::atomic<bool> broken{false};    /* a disconnect was asked for, by us or the world */
	std::atomic<bool> published{false}; /* it is client->connection, and can be closed */
	bool closing = false;		    /* fence mutex: post no more LOCAL_INVs */

	/** Have the transport closed, once. Any context. */
	void request_close(const char *why, int value);
};

} // namespace rpcordma

struct rpcordma_client {
	using u32 = rpcordma::u32;
	using usize = rpcordma::usize;
	using Call = rpcordma::Call;
	using Region = rpcordma::Region;
	using Receive = rpcordma::Receive;
	using Connection = rpcordma::Connection;

	rpc_xprt *xprt = nullptr;
	const rpcordma_peer *peer = nullptr;
	rpcordma_lock *lock = nullptr; /* all lists, and what the calls say of them */
	rpcordma_mutex *fence =
		nullptr; /* keeps connection and its queue pair for who fences memory */
	Connection *connection = nullptr; /* written under send, fence and client lock */
	u32 slots = 0;
	/* A connection broke, or was not made, and no reply has come since. */
	std::atomic<bool> back_off{false};
	/* Backward calls may come; written under the client lock, as is a call handed to the service. */
	std::atomic<bool> backchannel{false};
	u32 backchannel_users = 0;	      /* bc_setup() less bc_destroy(); client lock */
	u32 backward_made = 0;		      /* backward calls there are */
	std::atomic<bool> wants_space{false}; /* the sender waits for send queue room or regions */
	rpcordma_client_stats stats = {};

	rpcordma::List<Call, AllCallsTag> all; /* grows, until destroy; client lock */
	rpcordma::List<Call, CallListTag> free_;
	rpcordma::List<Call, CallListTag> zombies;
	rpcordma::List<Call, CallListTag> backward_free;
	rpcordma::RegionList pool;

	/* client.cc */
	[[nodiscard]] rpcordma::Status create(rpc_xprt *transport, u32 slot_count);
	void destroy();
	[[nodiscard]] Call *create_call(bool backward);
	[[nodiscard]] rpcordma::Status create_backward_call();
	void destroy_call(Call *call);
	[[nodiscard]] rpc_rqst *alloc_slot();
	void free_slot(Call *call);
	void make_zombie_locked(Call *call);
	[[nodiscard]] rpcordma::Status buf_alloc(Call *call, usize call_size, usize reply_size);
	[[nodiscard]] rpcordma::Status ensure_wire(Call *call, rpcordma_alloc_how how);

	/* connect.cc */
	[[nodiscard]] rpcordma::Status connect();
	void close();
	void refill();
	[[nodiscard]] u32 create_regions(Connection &c, u32 count);

	/* send.cc */
	[[nodiscard]] int send_request(Call *call);
	[[nodiscard]] bool take_regions(Call *call, u32 regions);
	[[nodiscard]] rpcordma::Result<u32> marshal_chunks(Connection &c, Call *call,
							   const rpcordma_request &request);
	[[nodiscard]] rpcordma::Status map_segments(const rpcordma::chunk::SegmentList &segments,
						    const rpcordma_xdr_buf *buf, Call *call,
						    bool writable);
	[[nodiscard]] bool map_wire(Connection &c, Call *call);
	[[nodiscard]] int post(Connection &c, Call *call, u32 length, u32 requests,
			       rpcordma::SendQueue::Marker *marker);
	[[nodiscard]] int drop_connection(const char *why, u32 xid, int value);
	/* Nothing can be sent before @has_space(); have the task that sends called when it is so. */
	template <typename HasSpace> [[nodiscard]] int wait_for_space(HasSpace has_space);
	void space_came();

	/* reply.cc */
	void handle_message(Connection &c, Receive *receive);
	void process_reply(Connection &c, Call *call, Receive *receive,
			   const rpcordma::v1::Header *header);
	void finish(Connection &c, Call *call, Receive *receive, const rpcordma::v1::Header *header);
	void grant(Connection &c, rpcordma::Credits granted);

	/* fence.cc */
	[[nodiscard]] int post_invalidations(Connection &c, Call *call);
	void unmap_all(Connection &c, Call *call);
	void invalidated(Connection &c, Call *call, bool success);
	void cancel(Call *call);
	void park(Connection &c, Call *call);
	void believe_invalidation(Connection &c, Call *call, const Receive &receive);
	void unpark(Connection &c, Call *call);
	[[nodiscard]] bool reply_to_cancelled(Connection &c, u32 xid, const Receive &receive);
	void check_zombies();

	/* backchannel.cc */
	[[nodiscard]] rpcordma::Status backchannel_setup();
	void backchannel_gone(bool all);
	void handle_backward_call(Connection &c, Receive *receive,
				  const rpcordma::v1::Header &header);
	void refuse_backward_call(Connection &c, const rpcordma::v1::Header &header);
	[[nodiscard]] int send_backward_reply(Call *call);
	[[nodiscard]] Call *take_backward(u32 xid);
	void put_backward(Call *call);
};

template <typename HasSpace> inline int rpcordma_client::wait_for_space(HasSpace has_space)
{
	rpcordma::tally(stats.empty_sendctx_q, 1);
	rpcordma_xprt_wait_for_space(xprt);
	wants_space.store(true, std::memory_order_relaxed);
	/* Pairs with space_came(): either it sees the wish, or we see the room. */
	std::atomic_thread_fence(std::memory_order_seq_cst);
	if (has_space())
		space_came();
	return rpcordma::status::kAgain;
}

namespace rpcordma {
using Client = rpcordma_client;
}
