// SPDX-License-Identifier: GPL-2.0-only
/* The server's side of sunrpc as the double of the port has it. See test_rdma_port.hh. */
#pragma once

#include "kunit/test_rdma_port_memory.hh"

/* What is opaque behind the port. */
struct svc_rqst {
	static constexpr rpcordma::u32 kPages = 1104;
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

struct PortSvc {
	rpcordma_svc_limits limits = {16 * 1024, 256, 8};
	bool data = false; /* XPT_DATA */
	bool dead = false;
	u32 finish_ms = 0;	  /* asked for, so soon; 0: it is not */
	bool finish_over = false; /* cancelled: nobody may ask for it again */
	/* So far. */
	u32 enqueued = 0, received = 0, closed = 0;
	u32 refills = 0; /* of the pool, asked for */
	u32 counters[RPCORDMA_SERVER_COUNTERS] = {};

	/* Backward calls. */
	bool backward_known = false;  /* somebody waits for the replies */
	u32 backward_outstanding = 0; /* calls that the case sent, less their replies */
	u32 backward_replies = 0, backward_errors = 0;
	/* Of the last one. */
	u32 backward_xid = 0, backward_credits = 0, backward_length = 0;
	int backward_error = 0;
};

} // namespace rpcordma
