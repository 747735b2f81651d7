// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pulling a call's Read chunks (RFC 8166 3.4.5): by the receive completion, within a budget and without
 * ever sleeping (eagerly), or by a service thread.
 */
#pragma once

#include "compat/port/port.h"
#include "module/server/call.hh"

namespace rpcordma {

/** Pages of the sink of a call that arrives as @arrival says. */
[[nodiscard]] u32 sink_pages(const Server &server, const chunk::Arrival &arrival);

/**
 * Pull @call's chunks now, past which no call that waits for a thread came. False: something for that is short, and a thread is
 * to do it. Receive completion.
 */
[[nodiscard]] bool pull_eagerly(Server &server, ServerCall *call);
/** Pull them into the pages of @rqst; @call comes back when they are here, or is over. A service thread. */
void pull_with(Server &server, ServerCall *call, svc_rqst *rqst);
/** A chain of @call completed that others of the call follow: Reads or Writes. Send completion. */
void part_done(Server &server, ServerCall *call, const rpcordma_completion &completion);
/** The last of @call's chain completed, and with it all of them. Send completion. */
void reads_done(Server &server, ServerCall *call, const rpcordma_completion &completion);

} // namespace rpcordma
