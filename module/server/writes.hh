// SPDX-License-Identifier: GPL-2.0-only
/* The RDMA Writes of a reply: what goes into Write chunks and the Reply chunk (RFC 8166 3.4.6, 3.5.2). */
#pragma once

#include "compat/port/port.h"
#include "module/base/result.hh"
#include "module/chunk/answer.hh"
#include "module/server/call.hh"
#include "module/server/send.hh"

namespace rpcordma {

/**
 * Map what goes into chunks and build the chain of Writes, which is @call's transfer's, ahead of the Sends of
 * @out; the pages of @rqst become the transfer's. Where it fails @call may have a transfer, which is to be given
 * back.
 *
 * Errors: ENOMEM; ENOSPC, it fits in no chain or no transfer. A service thread.
 */
[[nodiscard]] Status build_writes(Server &server, ServerCall *call, const rpcordma_xdr_buf *reply,
				  const chunk::Answer &answer, svc_rqst *rqst, Outgoing &out);

} // namespace rpcordma
