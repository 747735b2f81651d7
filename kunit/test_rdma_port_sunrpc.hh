// SPDX-License-Identifier: GPL-2.0-only
/*
 * The client's side of sunrpc as the double of the port has it: its requests, its congestion window and its
 * lookup of replies. See test_rdma_port.hh.
 */
#pragma once

#include "kunit/test_rdma_port_memory.hh"

/* What is opaque behind the port. */
struct rpc_rqst {
	rpcordma_call *call;
	rpcordma_xdr_buf send, receive;
	rpcordma::u32 xid;
	bool ddp_allowed, one_way, sent_before;
	bool foreign; /* another task sends it */
	/* sunrpc's side of it. */
	bool waiting, pinned, credit;
	rpcordma::u32 completed;
	int result;
	/* A backward one. */
	void *message;
	rpcordma::u32 message_length;
};

namespace rpcordma {

struct PortSunrpc {
	static constexpr u32 kRequests = 128;

	rpc_rqst *requests[kRequests] = {};
	u32 window = 0, in_flight = 0;
	bool connected = true; /* as sunrpc has it; what is there may be lost already */
	/* So far. */
	u32 bad_xids = 0, force_disconnects = 0, closes = 0, space_waits = 0, spaces = 0, checks = 0;
	u32 page_bytes = 0; /* copied to pages of replies */
	u32 conversed =
		0; /* how often a connection was said to be of use, since the last one began */
	u32 max_payload = 0;	   /* as it was told last, bytes */
	u32 backlog = 0;	   /* tasks that wait for a slot; */
	u32 deaf = 0;		   /* how many of those that are woken want none any more */
	rpc_rqst *woken = nullptr; /* the last one's slot */
	int sparse_pages = 0;	   /* what filling them comes to: errno, negative */
	u32 filled = 0;		   /* buffers */
	u32 refills = 0;	   /* asked for; */
	u32 refill_delay = 0;	   /* the last one's, ms */
	u32 check_delay = 0;	   /* of the check that is queued, ms; 0: none is */

	/* Backward calls. */
	bool service = false; /* somebody serves them */
	bool busy = false;    /* it takes no more of them */
	u32 backward_calls = 0, backward_done = 0;
	rpc_rqst *backward = nullptr; /* the last of them */
	u32 taken_back = 0;	      /* how often what is queued was asked for */
	/* Spin locks that were had so far, when the transport might go with the last of them: nobody takes one behind that. */
	u32 holds_at_done = 0;

	/** Time passes until the check that is queued, of @client. */
	void check(rpcordma_client *client);
};

} // namespace rpcordma
