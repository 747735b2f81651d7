// SPDX-License-Identifier: GPL-2.0-only
/*
 * The responder: what stands behind the svc_xprt class. One Server for a connection, and one ServerCall for a
 * message of the client and whatever becomes of it. Here is the data, each part in a class of its own
 * header, which says which functions work on it.
 *
 * The way of a call
 *
 *   posted    A Receive: the device has its buffer.                                          receives.hh
 *   received  In the receive completion: the header is decoded and judged, the message has a ServerCall,
 *             and another Receive is posted in its place. One without Read chunks,
 *             or that is to be refused, goes on the ready queue. Read chunks are pulled at
 *             once when sink pages, a transfer, room in the send queue and the eager budget
 *             allow (eager); else the call goes on the held queue, in order, and the thread
 *             that takes it off pulls them into its own pages.              receive.hh, judge.hh
 *   reading   Its Reads are posted; the Read completion puts it on the ready queue.              read.hh
 *   ready     A service thread takes it: the service has the sink's pages where they are until release(), or
 *             they become the thread's, and the thread's the pool's.              queue.hh, deliver.hh
 *   service   sunrpc has it, from recvfrom() to release(); in between maybe sendto().
 *   sending   Its reply's Sends are posted, after the RDMA Writes of the same chain.  reply.hh, send.hh
 *   spare     Released and sent: its Receives are posted again, or spare; so is it.            owners.hh
 *
 * A message may have several Receives (protocol/rules.hh: transmissions). Those that came wait in the
 * connection's Assembly until it is whole; each is replaced when it comes.
 *
 * Who owns what when
 *
 *   A Receive is the device's while it is posted, then the receive completion's, then the call's, if its
 *   message becomes one.
 *
 *   A ServerCall has one owner, or two: sunrpc until release(), and the device from the post of its
 *   reply's chain to the completion of the last work request. The last one makes it spare.
 *
 *   A transfer belongs to one call, from its Reads' start until a thread has exchanged the sink's pages or releases the
 *   call, or from its Writes' start until their Send completes. While it is mapped, its pages are the device's. If it is large, the Send
 *   completion only puts it among the connection's finished ones, and a thread or a worker unmaps it.
 *   What is small needs less, and has it in the call: lone.hh.
 *
 *   The Server lives until nobody has a reference to the svc_xprt. Completions have none: destroy() drains
 *   the queue pair before it frees anything. So no completion can drop the last reference.
 *
 * Credits and Receives (RFC 8166 3.3.1)
 *
 *   posted >= granted + backward calls outstanding, from a Receive's consumption on at the latest, or there is
 *   a debt, which the next reply pays before it is sent;
 *   kServerBatch more are posted, so that reposting costs one doorbell for a batch. A call in service keeps
 *   its Receives: others are posted in their place, made when none is spare, up to three for each one that is
 *   promised. Without memory, or beyond that limit (a client that kills calls and sends more), there are
 *   fewer until a call is done with. Until then a client that keeps to its credits finds a Receive, since its
 *   calls in service count against them; others wait (RNR).
 *
 * The invariants S1 to S3 are listed in Documentation/architecture.rst, each with the place that asserts or ensures it.
 */
#pragma once

#include <atomic>

#include "compat/port/port.h"
#include "module/base/lock.hh"
#include "module/base/result.hh"
#include "module/rdma/connection.hh"
#include "module/rdma/trace.hh"
#include "module/server/backward.hh"
#include "module/server/call.hh"
#include "module/server/close.hh"
#include "module/server/eager.hh"
#include "module/server/growth.hh"
#include "module/server/pool.hh"
#include "module/server/queue.hh"
#include "module/server/receives.hh"
#include "module/server/regions.hh"
#include "module/server/room.hh"
#include "module/server/transfer.hh"

namespace rpcordma {

/** What the device and the client allow; set when the connection is accepted. */
struct ServerLimits {
	u32 send_sges = 1;    /* of an RDMA Write */
	u32 read_sges = 1;    /* of an RDMA Read */
	u32 region_pages = 0; /* of a sink's region, each of page_size; 0: sinks have none */
	u32 regions = 0;      /* of a sink: one chain registers, and invalidates, them all */
	u32 sink_pages = 0;   /* of a call */
	/* Of the service, as it was then: bytes of a call, and pages of one. */
	u32 max_message = 0;
	u32 max_pages = 0;
	u64 eager_memory = 0; /* of eager_memory() */
	/* Of a lone request (lone.hh): pages of a Write, SGEs of a Read; 0: Reads have none. */
	u32 lone_write = 1;
	u32 lone_read = 0;
	bool remote_invalidation = false;
};

} // namespace rpcordma

struct rpcordma_server : rpcordma::ConnectionBase {
	svc_xprt *xprt = nullptr;
	bool joined = false; /* the pool's users */
	rpcordma::ServerLimits limits;

	std::atomic<bool> established{false}; /* set under the lock */
	std::atomic<bool> closing{false};     /* post nothing more */
	std::atomic<bool> access_failed{false};

	rpcordma::SendRoom room;
	rpcordma::EagerBudget eager;
	rpcordma::FinishedTransfers finished;
	rpcordma::Grant grant;
	/* What Receives have in common; own() under the lock. */
	rpcordma::ReceiveMaker receive_maker;

	/* Held by each post with a Send where replies may have several transmissions; a leaf. */
	rpcordma::SpinLock posts;
	/* A chain was posted in part: the rest of its message will not come, so nothing may, and the connection closes. */
	bool cut_short GUARDED_BY(posts) = false;
	rpcordma::SpinLock lock;
	rpcordma::CallQueue queue GUARDED_BY(lock);
	rpcordma::Receives receives GUARDED_BY(lock);
	rpcordma::ServerCalls calls GUARDED_BY(lock);
	rpcordma::Backward backward GUARDED_BY(lock);
	rpcordma::SinkRegions regions GUARDED_BY(lock);
	rpcordma::Growth growth GUARDED_BY(lock);
	rpcordma_agreement agreed GUARDED_BY(lock) = {};
	/* What the refusal that is being handled says instead; receive completions. */
	rpcordma::Owned<rpcordma::rtrext::Report> report;
	/* How the call that is being judged is put together, unless all of it is inline; receive completions. */
	rpcordma::chunk::Arrival arrival;
	/* Questions about the connection that came before it was established; by `next`. */
	rpcordma::ServerCall *early GUARDED_BY(lock) = nullptr;
};

namespace rpcordma {

/**
 * Take room for @requests in the send queue, when there is some and all who waited before have theirs. False: the connection is
 * closing. A service thread; others' completions make the room. A client for which a thread has waited for kWaitLimitMs with
 * one message (@wait) is disconnected, however much of the rest it took off our hands meanwhile, lest it hold all threads.
 */
[[nodiscard]] inline bool wait_for_room(Server &server, u32 requests, RoomWait &wait)
{
	if (server.closing.load(std::memory_order_acquire))
		return false;
	/* Whoever waits already is served first. */
	if (!server.room.waited_for(std::memory_order_relaxed) && server.room.take(requests))
		return true;
	return wait_in_turn(server, requests, wait);
}
/** Receives that must be posted, so that no message of an honest client finds none. */
[[nodiscard]] inline u32 promised_locked(const Server &server) REQUIRES(server.lock)
{
	return server.receives.promised() + server.session.rules().extra_receives;
}
/** The connection is of its version for @why, which is static. */
void note_version(Server &server, const char *why) EXCLUDES(server.lock);
/** What the client says that it takes, or the version that says so, is new. A receive completion, or nothing came yet. */
void note_peer_locked(Server &server) REQUIRES(server.lock);
/** What is received into, as the client is told, is new. */
void note_receives_locked(Server &server) REQUIRES(server.lock);
/**
 * Post @count Receives, chained by wr.next. A queue pair that does not take them is of no use to a client, whose
 * messages would be answered with RNR for ever: the connection ends, and its Receives with it.
 */
inline void post_receives_locked(Server &server, const Receive *first, u32 count)
	REQUIRES(server.lock)
{
	if (!server.receive_maker.post(first, count))
		request_close(server, trace::Loss::receive_not_posted, int(count));
}
/**
 * Tell the client that its Receives have grown, which is due (growth.hh), if there is room; else with the next message.
 * A receive completion.
 */
void tell_growth_locked(Server &server) REQUIRES(server.lock);
/**
 * Queue @call, which may be a thread's as soon as the lock is released. True: then have one look, by rpcordma_svc_enqueue(),
 * without the lock.
 */
[[nodiscard]] inline bool enqueue_locked(Server &server, ServerCall *call, CallQueue::Lane lane)
	REQUIRES(server.lock)
{
	server.queue.push(call, lane);
	/* Nothing can be sent before, so nobody is to look before: the event says when. */
	const bool look = server.established.load(std::memory_order_relaxed);
	if (look)
		rpcordma_svc_set_data(server.xprt);
	return look;
}
/** @receive, which nobody has, is spare; or it is set aside until it gets pages. */
inline void put_done_locked(Server &server, Receive *receive) REQUIRES(server.lock)
{
	if (__builtin_expect(server.receive_maker.complete(*receive), 1))
		server.receives.put_spare(receive);
	else
		server.receives.put_bare(receive);
}
/** Post @receive, which is done with, if it is missing; else it is spare. */
inline void put_receive_locked(Server &server, Receive *receive) REQUIRES(server.lock)
{
	/* Memory was short, or the client has more in service than it should. */
	const bool missing = server.receives.posted() < promised_locked(server) &&
			     !server.closing.load(std::memory_order_relaxed);

	if (missing && __builtin_expect(server.receive_maker.complete(*receive), 1)) {
		server.receives.repost();
		receive->wr.next = nullptr;
		post_receives_locked(server, receive, 1);
	} else {
		if (missing)
			server.grant.note_debt();
		put_done_locked(server, receive);
	}
}
/** As that, of all @receives, chained by `next`; there may be none. */
inline void put_receives_locked(Server &server, Receive *receives) REQUIRES(server.lock)
{
	if (protocol::kTransmissions == 1) {
		if (receives)
			put_receive_locked(server, receives);
		return;
	}
	while (Receive *receive = receives) {
		receives = receive->next;
		put_receive_locked(server, receive);
	}
}

} // namespace rpcordma
