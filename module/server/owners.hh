// SPDX-License-Identifier: GPL-2.0-only
/*
 * When a call is done with. It has one owner, or two: sunrpc, or who sends it, and the device from the
 * post of its reply's chain to the completion of the last work request.
 */
#pragma once

#include "module/server/call.hh"

namespace rpcordma {

/** Neither sunrpc nor the device has anything of @call any more: it is spare, as are its Receives. */
void recycle(Server &server, ServerCall *call);
/**
 * @call came in several transmissions, of which all but the first are done with, if there are others. A service thread, or
 * who recycles it.
 */
void put_parts(Server &server, ServerCall *call);
/** An owner lets go of @call; the last one recycles it. Any context. */
void drop_owner(Server &server, ServerCall *call);

} // namespace rpcordma
