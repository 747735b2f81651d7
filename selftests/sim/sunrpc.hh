// SPDX-License-Identifier: GPL-2.0-only
/*
 * sunrpc's client, as far as a transport sees it: tasks, each run by a fiber, that take a slot, a send
 * lock and a credit, send for each other, wait, time out, are killed, and send again over the next
 * connection. It follows net/sunrpc/xprt.c and clnt.c step by step, with their locks and their races,
 * since those are what the core has to live with.
 */
#pragma once

#include <list>
#include <map>

#include "selftests/sim/cm.hh"

namespace sim {
class Task;

/** Makes a call's messages and checks its reply; consumer.cc has the procedures. */
class Procedure {
public:
	virtual ~Procedure() = default;
	/** Sizes of the buffers that the transport is to provide. */
	u32 call_size = 0, reply_size = 0;
	bool ddp_allowed = true;
	/** Write the call, and say where the reply goes. */
	virtual void encode(rpc_rqst &rqst) = 0;
	/** As each encoding of a message that is encrypted does: its page data are in other pages from now on. */
	virtual void replace_pages()
	{
	}
	/** As each encoding may, where verifiers differ in length: the border between head and tail of @receive moves. */
	virtual void move_border(rpcordma_xdr_buf &)
	{
	}
	/** The reply of @length bytes is in the receive buffer, in the lengths that @buf says. */
	virtual void decode(const rpcordma_xdr_buf &buf, u32 length) = 0;
};

} // namespace sim

/** The core's half follows, on a boundary of 64 bytes. */
struct rpc_rqst {
	rpc_xprt *xprt;
	sim::Task *task;
	sim::u32 xid;
	sim::u32 connect_cookie;
	bool cong, backward, ddp_allowed, sent;
	bool need_transmit, need_receive; /* on the transport's queues */
	sim::u32 pins;
	int reply_bytes;
	void *buffer, *reply_buffer;
	rpcordma_xdr_buf send, receive, private_buf;
};

struct rpc_xprt {
	explicit rpc_xprt(const char *name);
	~rpc_xprt();
	/** Null when the faults say so. */
	static rpc_xprt *create(const char *name);
	/** Nobody uses it any more. */
	void destroy();
	/** As the idle timer does, unless it is busy. */
	void close_idle();

	rpcordma_peer peer;
	rpcordma_client *core = nullptr;
	void *core_place = nullptr;

	sim::SpinLock transport_lock{sim::LockClass::transport};
	sim::SpinLock queue_lock{sim::LockClass::queue};
	sim::SpinLock reserve_lock{sim::LockClass::reserve};
	const bool as_in_6_1; /* where 6.1 and 6.12 differ */
	bool locked = false, connected = false, connecting = false, congestion_wait = false;
	bool write_space_wait = false, close_wait = false, congested = false,
	     sender_is_cookie = false;
	const void *sender = nullptr; /* snd_task */
	sim::u32 in_flight = 0, window = 1, connect_cookie = 0;
	sim::u64 reestablish = 0;
	sim::u32 next_xid;
	std::deque<sim::Task *> sending, backlog;
	std::list<sim::Task *> pending;
	std::list<rpc_rqst *> transmit_queue;
	std::map<sim::u32, rpc_rqst *> receive_queue;
	sim::WaitQueue unlocked, unpinned;
	sim::u32 connects = 0;
	sim::VersionMemory versions;

	/* The backchannel. */
	bool backward_service = false;
	sim::u32 references = 1;
	std::deque<rpc_rqst *> backward_calls;
	sim::WaitQueue backward_came, references_fell;

	sim::Work connect, refill, check, cleanup;

	/* with transport_lock */
	void unlock_locked();
	/** Wake who sends next; unless it waits for @of_credits, as nearly always. */
	void next_sender_locked(bool of_credits = true);
	void put_credit_locked(rpc_rqst &rqst);
	void disconnect_locked();

	void disconnect_done();
	/** Unless the connection that @cookie stands for is gone. */
	void conditional_disconnect(sim::u32 cookie);
	void release_write(const void *who);
	void wake_pending(int status);
};

namespace sim {

class Task {
public:
	Task(rpc_xprt &xprt, Procedure &procedure, bool soft)
		: xprt_(xprt),
		  procedure_(&procedure),
		  soft_(soft),
		  retransmits_(chance.one_in(3))
	{
	}
	/** The reply to a backward call. */
	Task(rpc_xprt &xprt, rpc_rqst &backward);
	/** To the end: 0, or a negative errno. */
	int run();
	/** From any other context: the user does not want it any more. */
	void kill();
	/** It was killed, or is soft and found no connection. */
	bool may_fail() const
	{
		return killed_ || gave_up_;
	}
	u32 xid() const
	{
		return rqst_ ? rqst_->xid : 0;
	}

	/* What the transport does to it, from any context: */
	enum class Queue { none, sending, pending, backlog };
	void wake(int with);
	void wake_if(Queue where)
	{
		if (queue_ == where)
			wake(0);
	}
	void take_slot(rpc_rqst *rqst)
	{
		rqst_ = rqst;
		wake(0);
	}

	int status = 0;

private:
	bool sleep_(Queue queue, const char *why, u64 limit = kForever);
	void join_backlog_locked_();
	bool throttle_();
	bool alloc_slot_();
	bool reserve_();
	bool allocate_();
	void dequeue_();
	bool need_encode_() const;
	void encode_();
	void enqueue_transmit_();
	bool lock_write_();
	void connect_();
	void sort_out_connect_();
	void transmit_();
	int transmit_one_(rpc_rqst &rqst);
	void wait_for_reply_();
	void release_();
	int run_backward_();

	rpc_xprt &xprt_;
	Procedure *procedure_ = nullptr;
	bool soft_ = true, killed_ = false, gave_up_ = false;
	bool retransmits_ = false; /* over the same connection too: NFSv3 */
	rpc_rqst *rqst_ = nullptr;
	Queue queue_ = Queue::none;
	WaitQueue woken_;
	rpcordma_xdr_buf send_ = {}, receive_ = {}; /* as encoded */
};

/** Where the core's half begins, in what follows the kernel's. */
void *core_half(void *at);
/** With queue_lock. */
void unpin_locked(rpc_rqst &rqst);
/** Fails when a device, and so a peer, can still reach a call's buffer. */
void require_unmapped(const rpcordma_xdr_buf &buf, const char *which);

/** Calls that the service drops without a reply: they may time out. */
extern std::set<u32> dropped_calls;
/** A call that nobody replies to in so long has been lost. */
constexpr u64 kReplyTimeout = 60 * kSecond;

} // namespace sim
