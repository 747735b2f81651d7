// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages about the connection, in version 2: what the client says of itself, and asks. A client that asks for
 * version 2 waits for the answer, and no thread may be free to give it: so the receive completion does, or the event
 * that establishes the connection if the question came before it.
 */
#pragma once

#include "module/server/judge.hh"
#include "module/server/server.hh"

namespace rpcordma {

/** Judge @message, and take up what it says. Receive completion. */
[[nodiscard]] Judged judge_control(Server &server, const xdr::Message &message);
/** Answer the question that @call is, of which nobody else knows, as soon as can be. Receive completion. */
void answer_control(Server &server, ServerCall *call);
/** The connection is established: answer what came before. */
void answer_early_locked(Server &server) REQUIRES(server.lock);

} // namespace rpcordma
