// SPDX-License-Identifier: GPL-2.0-only
/* How a connection asks for its end. */
#pragma once

#include "module/base/result.hh"
#include "module/server/call.hh"

namespace rpcordma {

/** Have the transport closed, once. @value: a figure for the trace. Any context. */
void request_close(Server &server, const char *why, int value);
/** As that, for an error. */
inline void request_close(Server &server, const char *why, Error error)
{
	request_close(server, why, to_errno(error));
}

} // namespace rpcordma
