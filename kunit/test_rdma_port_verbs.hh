// SPDX-License-Identifier: GPL-2.0-only
/*
 * A queue pair as the double of the port has it, the device, and the peer at the other end. Sends wait until
 * the device is told to work them off; messages come when the case sends them. See test_rdma_port.hh.
 */
#pragma once

#include "kunit/test_rdma_port_memory.hh"
#include "module/rdma/receive_queue.hh"
#include "xdr/wire.hh"

namespace rpcordma {

/** The server's chain of which some was posted, and some was not; one at most of a queue pair. */
struct PartlyPosted {
	rpcordma_cqe *cqe;	    /* of its first work request; null: there is none */
	u32 requests, regions;	    /* work requests in all; those that register a region */
	bool writes, by_completion; /* or Sends: a reply's; or Reads; or a thread */
};

/** A work request as it was posted: what it points to may change afterwards. */
struct Posted {
	int opcode, send_flags, num_sge;
	u32 invalidate_rkey, rkey;
	u64 remote_addr;
	rpcordma_cqe *cqe;
	rpcordma_region *region;
	u32 region_key;
	int access;
	rpcordma_sge sges[32];

	[[nodiscard]] u32 length() const;
};

struct PortVerbs {
	static constexpr u32 kMostReceives = 1024;
	static constexpr u32 kMostSends = 512; /* work requests */

	/* --- the receive queue --- */
	u32 receives_left = kNoLimit; /* that can be posted; the next one is the chain's bad one */
	u32 receive_room = kMostReceives; /* Receives that the queue pair holds */
	bool takes_receives = true;	  /* it is there for any */
	u32 posted = 0;			  /* now */
	u32 receives_refused = 0;	  /* of this queue pair: these never complete */
	u32 doorbells = 0;		  /* calls that posted something or tried to */

	/* --- the send queue --- */
	u32 sends_left = kNoLimit; /* work requests that can be posted */
	void (*in_post)() =
		nullptr; /* once, at the end of the next post: the device is quicker than its caller */
	u32 sends = 0; /* now */
	u32 send_doorbells = 0;
	u32 receives_at_send = 0; /* Receives posted at the last of those doorbells */
	PartlyPosted partly_posted = {};
	/* What a client's post that failed has its connection keep until it goes, as the case says. */
	u32 kept_room = 0, kept_markers = 0;

	/* --- the device; set before the connection is made --- */
	rpcordma_device device = {};
	rpcordma_queue_sizes sizes = {0, 0, 1, 1}; /* as asked for */
	u32 qp_sges = kNoLimit;		/* with more of them there is no memory for a queue pair */
	u32 qp_receives = kNoLimit;	/* nor with more Receives */
	u32 qp_receive_sges = kNoLimit; /* nor with more SGEs in each of them */
	u32 qp_tries = 0;
	int create_qp_result = 0;
	/* The next completions: this one (0: the next) fails with that status, and all after it are flushed. */
	u32 fail_at = kNoLimit;
	int fail_status = 0;
	bool broken = false; /* the queue pair */
	bool stuck = false; /* until then: a Send is answered RNR for ever, and nothing passes it */
	bool drained = false;		 /* nobody may post any more */
	bool completes_in_drain = false; /* what was posted, before the rest is flushed */

	/* --- the connection --- */
	/* A client's steps to one that fail: errnos, negative. */
	int create_result = 0, resolve_result = 0, connect_result = 0;
	u32 resolve_limit = 0, connect_limit = 0; /* ms, that they were given last */
	int accept_result = 0;
	bool connected = false; /* a client, and it has not said that it is over */
	/* A server, and its CM may still say that the connection is established. */
	bool accepted = false;
	u32 connects = 0; /* of a client, */
	u32 disconnects = 0;
	rpcordma_connect_parameters parameters = {};
	u8 private_data[64] = {}; /* ours; */
	u8 answer[64] = {};	  /* the server's, to a client */
	u32 answer_length = 0;
	/* Who gets completions: a server's connection, or the context of a client's endpoint. */
	rpcordma_server *server = nullptr;
	void *requester = nullptr;

	[[nodiscard]] rpcordma_endpoint *endpoint();

	/** The Receive posted first, taken off its queue. Null without one. */
	[[nodiscard]] const rpcordma_recv_wr *take_receive();
	/** A message of @length bytes comes: the Receive posted first takes it. Null without one. */
	[[nodiscard]] Receive *deliver(u32 length);
	/**
	 * The peer sends @message; a server's connection is @to. Returns false, and nothing happens,
	 * when no Receive is posted. @invalidate: the R_key that goes with it, if any.
	 */
	[[nodiscard]] bool send(rpcordma_server *to, Bytes message, u32 invalidate = 0);
	/** The device does up to @n posted work requests, and their completions come. How many it did. */
	u32 work(u32 n = ~0u);
	/** The queue pair fails: all that is posted is flushed. */
	void flush();
	/** As good as new, after it was drained. */
	void new_queue_pair();
	/** Whatever is still posted is a failure of the case. */
	void expect_none() const;
	/** Work request @i of those that are posted. */
	[[nodiscard]] const Posted &queued(u32 i) const
	{
		return send_queue[(send_queue_first + i) % kMostSends];
	}

	int post(const rpcordma_send_wr *first, const rpcordma_send_wr **bad);
	void post_one(const rpcordma_recv_wr &wr);
	void note_partly_posted(const rpcordma_send_wr &first);
	void complete(rpcordma_cqe *cqe, rpcordma_completion completion);
	void expect_called(Bytes message, const rpcordma_server_call *before, u32 calls,
			   u32 decodes) const;
	/** Returns a completion's status. */
	int execute(const Posted &wr);
	int transfer(const Posted &wr, bool write);

	const rpcordma_recv_wr *receive_queue[kMostReceives] = {}; /* the first one posted first */
	Posted *send_queue = nullptr; /* kMostSends of them, in a ring */
	u32 send_queue_first = 0;
};

/** The other end of the connection. */
struct PortPeer {
	static constexpr u32 kBytes = 128 * 1024;
	/* Where its memory is for work requests, and its one R_key; others are refused. */
	static constexpr u64 kAddress = u64(7) << 40;
	static constexpr u32 kKey = 0xc11e47;

	u8 *memory = nullptr;
	u32 bytes = 0; /* of it: kBytes, as a case begins */

	/* What was sent to it last. */
	u8 message[36864] = {};
	u32 message_length = 0;
	u32 invalidated = 0; /* R_key that came with it; 0: none */

	/* So far. */
	u32 messages = 0;
	u32 reads = 0, writes = 0;   /* work requests that the device did */
	u32 local_invalidations = 0; /* of regions, by LOCAL_INV or with a Read */

	[[nodiscard]] Bytes last() const
	{
		return {message, message_length};
	}
	/** Have @bytes of memory, that differ, in place of what there was. */
	void have(u32 bytes);
	/**
	 * Byte @at of a segment that a requester offers, as the peer reaches it: null where nothing is
	 * registered, or not for that.
	 */
	[[nodiscard]] static u8 *reach(const xdr::Segment &segment, u32 at, bool write);
};

} // namespace rpcordma
