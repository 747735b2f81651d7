// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replies by XMTRESP (rtrext-01): those of several transmissions, and those whose call has directions for its results
 * (chunk/directed.hh). RDMA Writes go first, then the transmissions, in one chain.
 */
#pragma once

#include "module/base/result.hh"
#include "module/chunk/answer.hh"
#include "module/server/call.hh"
#include "module/server/send.hh"

namespace rpcordma {

/** Whether @call, an RDMA2_OPTIONAL, is an XMTREQ with directions: then nothing but an XMTRESP answers it. */
[[nodiscard]] bool has_directions(const ServerCall &call);

/**
 * Build the reply to @call, an XMTREQ. The last transmission is in the call's send buffer, as any reply, and what comes before is
 * linked to it. What is sent or written of @results is not copied, where the device has the SGEs: then the pages of @rqst's
 * reply are the call's transfer's, until the last Send completes. Where it fails @call may have a transfer, which is to be
 * given back if nothing of it was posted (@out.begun).
 *
 * @sealed  nothing may be placed
 *
 * Errors: ENOSPC, with @shortfall: it fits nowhere, and the call has a send buffer; ENOMEM; as build_writes(). A service
 * thread.
 */
[[nodiscard]] Status build_response(Server &server, ServerCall *call, svc_rqst *rqst,
				    Span<const chunk::ReplyRange> results, bool sealed,
				    Outgoing &out, chunk::Shortfall &shortfall);

} // namespace rpcordma
