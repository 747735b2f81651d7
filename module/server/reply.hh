// SPDX-License-Identifier: GPL-2.0-only
/* Replies: what the service announces of them, and sending them. */
#pragma once

#include "compat/port/port.h"
#include "module/base/result.hh"
#include "module/server/call.hh"

namespace rpcordma {

/** The reply's bytes @range are one result that may go in a Write chunk: the next one. A service thread. */
void announce_result(ServerCall *call, chunk::ReplyRange range);
/** Send the reply in @rqst to @call; may wait for room. Errors: ENOTCONN. A service thread. */
[[nodiscard]] Status send_reply(Server &server, svc_rqst *rqst, ServerCall *call);

} // namespace rpcordma
