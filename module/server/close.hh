// SPDX-License-Identifier: GPL-2.0-only
/* How a connection asks for its end. */
#pragma once

#include "module/base/result.hh"
#include "module/rdma/trace.hh"
#include "module/server/call.hh"

namespace rpcordma {

/** Have the transport closed, once. @value: a figure for the trace. Any context. */
void request_close(Server &server, trace::Loss why, int value);
/** As that, because the call or message @xid failed. */
void close_after(Server &server, trace::Failure why, u32 xid, Error error);

} // namespace rpcordma
