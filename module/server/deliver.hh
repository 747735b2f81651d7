// SPDX-License-Identifier: GPL-2.0-only
/* What a service thread takes off a connection: a call for the service, one to refuse, or Reads to post. */
#pragma once

#include "compat/port/port.h"
#include "module/server/call.hh"

namespace rpcordma {

/** As rpcordma_core_server_recvfrom(). Returns the length of the call that @rqst has, or 0. */
[[nodiscard]] u32 take_and_deliver(Server &server, svc_rqst *rqst);

} // namespace rpcordma
