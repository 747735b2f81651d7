// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a client has from connect to close: the context of all completions and endpoint events. It is stable for
 * whoever holds the transport's send lock (send, connect, close), in its own completions, under the fence
 * mutex, and under the client lock.
 */
#pragma once

#include <atomic>

#include "module/base/result.hh"
#include "module/chunk/reduce.hh"
#include "module/protocol/negotiation.hh"
#include "module/rdma/connection.hh"
#include "module/rdma/credits.hh"
#include "module/rdma/receive_queue.hh"
#include "module/rdma/send_queue.hh"
#include "module/rdma/trace.hh"

namespace rpcordma {

struct Connection : ConnectionBase {
	rpcordma_client *client = nullptr;
	chunk::Limits limits = {};
	RequesterCredits credits{1}; /* receive completions, once connected */
	SendQueue send_queue;
	ReceiveQueue receive_queue;
	/* For work requests that are heard of only when they fail. */
	rpcordma_cqe silent_send_cqe = {};
	rpcordma_cqe silent_register_cqe = {};
	rpcordma_cqe silent_invalidate_cqe = {};
	/* Pages behind the head of a long call, as the device has SGEs; none where the version is 1 for certain. */
	MessagePages::Layout send_pages;
	/* SGEs of a Send for pages of a call; 0: it reads none. */
	u32 gather_sges = 0;
	u32 unmatched = 0;	   /* replies that no call owed; receive completions */
	bool has_reported = false; /* a REPTERR was sent; receive completions */
	u32 regions_limit = 0;
	std::atomic<u32> regions_created[2] =
		{}; /* without gaps, with gaps; regions_limit of each at most */
	/* The kind of region that the sender found too few of last; with gaps only if the device has such. */
	std::atomic<bool> wants_gaps{false};
	std::atomic<bool> broken{false};    /* a disconnect was asked for, by us or the world */
	std::atomic<bool> published{false}; /* it is client->connection, and can be closed */
	bool closing = false;		    /* fence mutex: post no more LOCAL_INVs */
	bool injected = false;		    /* fence mutex: somebody here asked for its end */
	/* Version 2 may be asked for: the private data have the mark, and there are Receives for both versions. */
	bool marked = false;
	/* What the administrator allowed of round-trip reduction when it was made. */
	u32 reduction = 0;
	/* Longest items that may go in Sends, of calls and of replies, as the administrator allowed it then, bytes; 0: none. */
	u32 send_write_max = 0;
	u32 send_read_max = 0;
	std::atomic<bool> device_gone{false};
	/* What the question came to; asking until somebody decides, once. */
	std::atomic<protocol::Answer> answer{protocol::Answer::none};
	std::atomic<bool> judging{false}; /* somebody decides what the question came to */
	u32 question = 0;		  /* its xid */
	/* A reply has come over this connection; receive completions. */
	bool served = false;
	/* No reply has come over this connection, whose version is 2; receive completions, and the end. */
	bool unproved = false;

	/** Have the transport closed, once. Any context. */
	void request_close(trace::Loss why, int value);

	/**
	 * As those of the receive queue. A queue pair that does not take Receives is of no use, as the peer's messages
	 * would be answered with RNR for ever: the connection ends, and its Receives with it.
	 */
	void recycle(Receive *receives)
	{
		if (!receive_queue.recycle(receives))
			request_close(trace::Loss::receive_not_posted, ReceiveQueue::kBatch);
	}
	void repost(Receive *receives)
	{
		if (!receive_queue.repost(receives))
			request_close(trace::Loss::receive_not_posted, 1);
	}
};

} // namespace rpcordma
