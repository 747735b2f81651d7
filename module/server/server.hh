// SPDX-License-Identifier: GPL-2.0-only
/*
 * The responder: what stands behind the svc_xprt class. One Server for a connection, one ServerCall for a
 * Receive and whatever becomes of the message in it.
 *
 * The way of a call
 *
 *   posted    The device has its Receive buffer.
 *   received  In the receive completion: another ServerCall is posted in its place, the header is
 *             decoded. A call without Read chunks, or one that is to be answered with an error, goes on
 *             the ready queue. Read chunks are pulled at once when sink pages, a transfer, room in the
 *             send queue and the eager budget allow (eager); else the call goes on the held queue, in
 *             order, and the thread that takes it off pulls them into its own pages.
 *   reading   Its Reads are posted; the Read completion puts it on the ready queue.
 *   ready     A service thread takes it: the sink's pages become the thread's, and the thread's the pool's.
 *   service   sunrpc has it, from recvfrom() to release(); in between maybe sendto().
 *   sending   Its reply's Send is posted, after the RDMA Writes of the same chain.
 *   spare     Released and sent: ready to be posted again.
 *
 * Who owns what when
 *
 *   A ServerCall has one owner, or two: sunrpc until release(), and the device from the post of its
 *   reply's chain to the completion of the last work request. The last one makes it spare.
 *
 *   A transfer belongs to one call, from its Reads' start until a thread has the sink, or from its Writes'
 *   start until their Send completes. While it is mapped, its pages are the device's.
 *
 *   The Server lives until nobody has a reference to the svc_xprt. Completions have none: destroy() drains
 *   the queue pair before it frees anything. So no completion can drop the last reference.
 *
 * Credits and Receives (RFC 8166 3.3.1)
 *
 *   posted >= granted + backward calls outstanding, from a Receive's consumption on at the latest; kBatch
 *   more are posted, so that reposting costs one doorbell for a batch. A call in service keeps its buffer:
 *   others are posted in its place, made when none is spare, up to three for each Receive. Without memory, or
 *   beyond that limit (a client that kills calls and sends more), there are fewer until a call becomes
 *   spare. Until then a client that keeps to its credits finds a Receive, since its calls in service
 *   count against them; others wait (RNR).
 *
 * Invariants, each with the place that asserts or ensures it
 *
 *   S1  A call is made spare with no transfer.                        recycle() in receive.cc
 *   S2  Nothing is posted after the drain.                            destroy() in connection.cc
 */
#pragma once

#include <atomic>

#include "compat/port/port.h"
#include "module/base/list.hh"
#include "module/base/lock.hh"
#include "module/base/result.hh"
#include "module/chunk/answer.hh"
#include "module/chunk/arrival.hh"
#include "module/rdma/chain.hh"
#include "module/rdma/cqe.hh"
#include "module/rdma/credits.hh"
#include "module/rdma/trace.hh"
#include "module/server/failures.hh"
#include "module/server/pool.hh"
#include "xdr/v1.hh"

struct ServerCallTag;

struct rpcordma_server_call : rpcordma::ListLink<ServerCallTag> {
	using u8 = rpcordma::u8;
	using u32 = rpcordma::u32;

	/** What the transport itself answers, instead of handing the call to the service. */
	enum class Answer : u8 { none, error_vers, error_chunk };

	rpcordma_server *server = nullptr;
	rpcordma_server_call *all_next = nullptr;

	/* The Receive. */
	rpcordma::OwnedCqe<rpcordma_server_call> receive_cqe;
	rpcordma_recv_wr receive_wr = {};
	rpcordma_sge receive_sge = {};
	u8 *data = nullptr;
	u32 length = 0; /* of the message */

	/* The message, decoded; header points into data. */
	rpcordma::v1::Header header;
	rpcordma::chunk::Arrival arrival;
	Answer answer = Answer::none;
	bool tracked = false; /* counted in_service */
	u32 eager = 0;	      /* bytes taken of the eager budget */
	rpcordma::Transfer *transfer = nullptr;
	u32 chain_length = 0; /* work requests of the chain that is posted */

	/* The reply. */
	u32 result_count = 0;
	rpcordma::chunk::ReplyRange results[rpcordma::chunk::Answer::kResults];
	rpcordma::OwnedCqe<rpcordma_server_call> send_cqe;
	rpcordma::OwnedCqe<rpcordma_server_call> read_cqe;
	rpcordma::OwnedCqe<rpcordma_server_call> chain_cqe;
	rpcordma_send_wr send_wr = {};
	rpcordma_sge wire_sge = {};
	u8 *wire = nullptr;
	std::atomic<u32> owners{0};

	[[nodiscard]] rpcordma::Bytes message() const
	{
		return {data, length};
	}
};

namespace rpcordma {

using ServerCall = rpcordma_server_call;
using ServerCallList = List<ServerCall, ServerCallTag>;

/** Most backward calls outstanding (RFC 8167 4.1): a client's session slots. */
static constexpr u32 kServerBackwardCalls = 16;
/** Receives posted beyond those that are promised. */
static constexpr u32 kServerBatch = 4;
/**
 * Bytes of an RDMA Write, where there is room for several. One would do, but soft RoCE asks for an
 * acknowledgment at a Write's end, and sends no more than half a megabyte ahead: with longer ones a READ of a
 * megabyte takes a round trip more.
 */
static constexpr u32 kLongestWrite = 128 * 1024;

extern ServerPool server_pool;
/** The calls whose chunks broke connections, of all clients; and its lock. */
extern Failures server_failures;
extern rpcordma_lock *server_failures_lock;

} // namespace rpcordma

struct rpcordma_server {
	using u8 = rpcordma::u8;
	using u32 = rpcordma::u32;
	using u64 = rpcordma::u64;
	using Call = rpcordma::ServerCall;

	svc_xprt *xprt = nullptr;
	const rpcordma_peer *peer = nullptr;
	rpcordma_endpoint *endpoint = nullptr;
	rpcordma_lock *lock = nullptr;
	rpcordma_gate *gate = nullptr; /* opens when the send queue gets room, and at the end */
	bool joined = false;	       /* server_pool */

	/* Set when the connection is accepted. */
	rpcordma_device device = {};
	u32 receive_size = 0;	/* bytes the client may send inline */
	u32 send_size = 0;	/* bytes we may */
	u32 send_sges = 1;	/* of an RDMA Write */
	u32 read_sges = 1;	/* of an RDMA Read */
	u32 region_pages = 0;	/* of a sink's region; 0: sinks need none */
	u32 queue_size = 0;	/* work requests of the send queue */
	u32 receives_limit = 0; /* what the queue pair holds */
	bool remote_invalidation = false;

	std::atomic<bool> established{false}; /* set under the lock */
	std::atomic<bool> closing{false};     /* post nothing more */
	std::atomic<bool> access_failed{false};
	std::atomic<bool> short_of_receives{false}; /* the next reply makes up for it first */
	std::atomic<u32> room{0};		    /* in the send queue */
	std::atomic<u32> waiters{0};		    /* threads that wait for some */
	std::atomic<u64> eager_bytes{0};
	std::atomic<bool> replied{false}; /* once; then more than one eager call may be under way */

	/* Under the lock: */
	rpcordma::ServerCallList ready;
	rpcordma::ServerCallList held;
	rpcordma::ServerCallList spare;
	rpcordma::RegionList regions; /* free ones */
	Call *all = nullptr;
	u32 calls = 0; /* there are, or are being made */
	u32 posted = 0;
	bool held_turn = false; /* of the two queues, when both have calls */
	u32 in_service = 0;	/* calls received and not released */
	u32 backward_outstanding = 0;
	u32 backward_backed = 0; /* the most that were outstanding, with Receives posted for them */

	rpcordma::ResponderCredits credits{1};
	std::atomic<u32> grant{1}; /* what credits grants, for replies; written under the lock */

	/* connection.cc */
	[[nodiscard]] rpcordma::Status accept(rpcordma_endpoint *from, rpcordma::Bytes private_data,
					      u32 initiator_depth);
	[[nodiscard]] rpcordma::Status create_queues();
	void destroy();
	/** Have the transport closed, once. Any context. */
	void request_close(const char *why, int value);
	[[nodiscard]] Call *create_call(rpcordma_alloc_how how);
	void destroy_call(Call *call);
	[[nodiscard]] bool ensure_wire(Call *call, rpcordma_alloc_how how);
	[[nodiscard]] bool take_room(u32 requests);
	[[nodiscard]] bool wait_for_room(u32 requests);
	void give_room(u32 requests);

	/* receive.cc */
	enum class Kind : rpcordma::u8 { drop, backward, call };
	void receive(Call *call);
	[[nodiscard]] Kind classify(Call *call);
	void enqueue(Call *call, rpcordma::ServerCallList &queue);
	void establish();
	void replenish();
	bool provide(u32 receives, rpcordma_alloc_how how);
	[[nodiscard]] u32 promised_locked() const;
	void own_locked(rpcordma_server_call *call)
	{
		call->all_next = all;
		all = call;
	}
	void post_receives_locked(Call *first, u32 count);
	void drop_owner(Call *call);
	void recycle(Call *call);
	[[nodiscard]] int recvfrom(svc_rqst *rqst);
	[[nodiscard]] int deliver(Call *call, svc_rqst *rqst);

	/* read.cc */
	[[nodiscard]] bool read_eagerly(Call *call);
	[[nodiscard]] bool take_eager(Call *call, u32 pages, u64 cap);
	void return_eager(Call *call);
	[[nodiscard]] rpcordma::Status build_reads(Call *call, rpcordma_alloc_how how);
	[[nodiscard]] rpcordma::Result<u32> register_sink(Call *call, rpcordma_alloc_how how);
	[[nodiscard]] rpcordma::Region *take_region(rpcordma_alloc_how how);
	void put_transfer(Call *call);
	[[nodiscard]] int post_reads(Call *call, bool &some);
	void reads_failed(Call *call, u32 count, bool some, int rc);
	[[nodiscard]] int read_with(Call *call, svc_rqst *rqst);
	void reads_done(Call *call, const rpcordma_completion &completion);
	/* Undo what the call took, if it did: a transfer, and a part of the eager budget. */
	void abandon(Call *call)
	{
		if (call->transfer)
			put_transfer(call);
		if (call->eager)
			return_eager(call);
	}
	[[nodiscard]] u32 sink_pages(const Call *call) const;
	[[nodiscard]] u32 longest_chain(const Call *call) const;

	/* reply.cc */
	[[nodiscard]] int sendto(svc_rqst *rqst, Call *call);
	[[nodiscard]] rpcordma::Credits granted() const
	{
		return rpcordma::Credits(grant.load(std::memory_order_relaxed));
	}
	[[nodiscard]] rpcordma::Result<u32> build_reply(Call *call, svc_rqst *rqst);
	[[nodiscard]] u32 longest_write(const rpcordma::xdr::ChunkLists &lists,
					rpcordma::u64 bytes) const;
	[[nodiscard]] rpcordma::Status build_writes(Call *call, const rpcordma_xdr_buf *reply,
						    const rpcordma::chunk::Answer &answer,
						    svc_rqst *rqst);
	[[nodiscard]] rpcordma::Result<u32> encode_error(Call *call);
	void send_error(Call *call);
	[[nodiscard]] int post_message(Call *call, u32 length, u32 xid);
	[[nodiscard]] int post_taken(Call *call, u32 length, u32 xid);
	void sent(Call *call, const rpcordma_completion &completion);

	/* read.cc, for Writes as well */
	void chain_failed(Call *call, const rpcordma_completion &completion);

	/* backward.cc */
	void backward_reply(Call *call);
	[[nodiscard]] int send_backward(u32 xid, const rpcordma_xdr_buf *message);
};

namespace rpcordma {
using Server = rpcordma_server;
}
