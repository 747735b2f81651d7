// SPDX-License-Identifier: GPL-2.0-only
/* Receive completions: another Receive is posted first, then the message goes its way. */
#pragma once

#include "compat/port/port.h"
#include "module/rdma/receive.hh"
#include "module/server/call.hh"

namespace rpcordma {

/** @receive completed with success. Receive completion. */
void take_message(Server &server, Receive *receive, const rpcordma_completion &completion);
/** It was flushed, failed, or came when the connection closed. Receive completion. */
void receive_failed(Server &server, Receive *receive, const rpcordma_completion &completion);

} // namespace rpcordma
