// SPDX-License-Identifier: GPL-2.0-only
/*
 * The port as module/server sees it, on top of test_rdma_port.hh: pages, bulk mappings and regions (with
 * bounce buffers, test_server_dma.hh), a send queue that a device works off when it is told to, the client's memory, and sunrpc's side of a
 * connection. All of it keeps account, fails on demand, and takes misuse for a failure of the running
 * case: a lock taken twice, an allocation that sleeps in a completion or under a lock, a page given back
 * twice, a chain longer than the queue has room for, memory that the device uses unmapped.
 *
 * Pages are small here, so that the largest message is small too.
 *
 * All is static, since the port's functions have no context; one FakeServerPort at a time.
 */
#pragma once

#include "kunit/test_rdma_port.hh"
#include "xdr/wire.hh"

/* What is opaque behind the port. */
struct page {
	rpcordma::u8 *data;
	rpcordma::u32 slot; /* of the table of all pages */
};

struct svc_rqst {
	static constexpr rpcordma::u32 kPages = 340;
	page *pages[kPages];
	/* The call, as it was handed over last. */
	rpcordma_server_call *call;
	rpcordma_svc_arg arg;
	rpcordma::u32 calls; /* handed over so far */
	/* The reply, and how many pages it lies in, from arg.pages_used on. */
	rpcordma_xdr_buf reply;
	rpcordma::u32 reply_pages;
	bool ddp_allowed;
};

namespace rpcordma {

/** The server's chain of which some was posted, and some was not; one at most of a queue pair. */
struct PartlyPosted {
	rpcordma_cqe *cqe;	    /* of its first work request; null: there is none */
	u32 requests, regions;	    /* work requests in all; those that register a region */
	bool writes, by_completion; /* or Reads; or a thread */
};

class FakeServerPort : public FakePort {
public:
	static constexpr u32 kPageSize = 256;
	static constexpr u32 kMostPages = 4096;
	static constexpr u32 kMostSends = 512; /* work requests */
	static constexpr u32 kClientBytes = 128 * 1024;
	/* Where the client's memory is for work requests, and its one R_key; others are refused. */
	static constexpr u64 kClientAddress = u64(7) << 40;
	static constexpr u32 kClientKey = 0xc11e47;

	/* Failures to come: how many more of each go well. */
	static u32 pages_left;
	static u32 bulks_left;
	static u32 bulk_maps_left;
	static u32 regions_left;
	static u32 region_maps_left;
	static u32 scratch_maps_left;
	static u32 sends_left; /* work requests that can be posted */
	static u32 locks_left;
	static u32 gates_left;
	static int create_qp_result, accept_result;
	static void (*in_post)(); /* once, at the end of the next post: the device is quicker than its caller */
	static u32 qp_sges; /* with more of them there is no memory for a queue pair */
	static u32 qp_tries;

	/* What there is now. */
	static u32 pages, bulks, bulk_maps, regions, region_maps;
	static u32 locks, locks_held, gates;
	static u32 sends; /* in the send queue */
	static PartlyPosted partly_posted;
	static u32 backward_outstanding; /* calls that the case sent, less their replies */

	/* What there ever was. */
	static u32 send_doorbells, refills, waits;
	static u32 receives_at_send; /* Receives posted at the last of those doorbells */
	static u32 counters[RPCORDMA_SERVER_COUNTERS];
	static u32 logged, warned, disconnects;

	/* The device; set before accept(). */
	static rpcordma_device device;
	static rpcordma_queue_sizes sizes; /* as asked for */
	static rpcordma_connect_parameters parameters;
	static u8 private_data[64];
	/* The next completions: this one (0: the next) fails with that status, and all after it are flushed. */
	static u32 fail_at;
	static int fail_status;
	static bool broken;		/* the queue pair */
	static bool completes_in_drain; /* what was posted, before the rest is flushed */
	static u32 stalls; /* waits in which nothing completes, for as long as they may take */
	static bool disconnect_in_wait; /* once, when somebody waits and nothing completes */
	static u64 now;

	/* The client. */
	static u8 *client;	 /* kClientBytes of it */
	static u8 message[8192]; /* what was sent to it last */
	static u32 message_length;
	static u32 messages;	  /* so far */
	static u32 invalidated;	  /* R_key that came with the last; 0: none */
	static u32 reads, writes; /* work requests that the device did */
	static u32 local_invalidations;

	/* sunrpc. */
	static rpcordma_svc_limits limits;
	static bool data, dead;
	static u32 enqueued, received, closed;
	static bool backward_known;
	static u32 backward_replies, backward_errors, backward_xid, backward_credits,
		backward_length;
	static int backward_error;

	FakeServerPort();
	/** Whatever is left is a failure of the case. */
	~FakeServerPort();

	/** Nothing fails from here on. */
	static void want_for_nothing();
	[[nodiscard]] static page *new_page();
	static void free_page(page *p);

	/**
	 * The client sends @message; the connection is @server. Returns false, and nothing happens,
	 * when no Receive is posted. @invalidate: the R_key that goes with it, if any.
	 */
	[[nodiscard]] static bool send(rpcordma_server *server, Bytes message, u32 invalidate = 0);
	/**
	 * Byte @at of a segment that a requester offers, as its peer reaches it: null where nothing is
	 * registered, or not for that.
	 */
	[[nodiscard]] static u8 *reach(const xdr::Segment &segment, u32 at, bool write);
	/** The device does up to @n posted work requests, and their completions come. How many it did. */
	static u32 work(u32 n = ~0u);
	/** The queue pair fails: all that is posted is flushed. */
	static void flush();
	/** As good as new, after it was drained. */
	static void new_queue_pair();

	/** Who gets completions: set with the connection. */
	static rpcordma_server *server;
	/** The same of a client, test_client_port.hh: the context of its endpoint. */
	static void *requester;
};

} // namespace rpcordma
