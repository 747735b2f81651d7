// SPDX-License-Identifier: GPL-2.0-only
/* A connection's life: its beginning and its end. */
#pragma once

#include "compat/port/port.h"
#include "module/base/result.hh"
#include "module/base/span.hh"
#include "module/server/call.hh"

namespace rpcordma {

/** As rpcordma_core_server_accept(), with @server constructed. Errors: of whatever was refused. */
[[nodiscard]] Status accept_connection(Server &server, rpcordma_endpoint *endpoint,
				       Bytes private_data, u32 initiator_depth);
/** Free all that accept_connection() made. Nobody has a reference any more. Process context. */
void destroy_connection(Server &server);

} // namespace rpcordma
