// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a message is, and of a call, how its bytes are put together and whether that is possible at all. All
 * bounds (largest message, pages, work requests, queue) are checked here, before anything is posted.
 */
#pragma once

#include "module/chunk/arrival.hh"
#include "module/rdma/receive.hh"
#include "module/server/call.hh"

namespace rpcordma {

struct Judgement {
	enum class What : u8 {
		backward, /* a reply in the backward direction */
		call,	  /* for the service */
		refused,  /* a call, which gets an error for an answer */
	};
	What what = What::refused;
	xdr::ErrorCode refusal = xdr::ErrorCode::chunk;
	chunk::Arrival arrival; /* of a call */
};

/** Judge the message in @receive and those that follow by `next`, which is whole. Receive completion. */
[[nodiscard]] Judgement judge(const Server &server, const Receive &receive);

} // namespace rpcordma
