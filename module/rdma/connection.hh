// SPDX-License-Identifier: GPL-2.0-only
/* What a connection is at either end. */
#pragma once

#include "compat/port/port.h"
#include "module/protocol/session.hh"
#include "module/rdma/assembly.hh"
#include "module/rdma/group_assembly.hh"

namespace rpcordma {

struct ConnectionBase {
	rpcordma_endpoint *endpoint = nullptr;
	const rpcordma_peer *peer = nullptr;
	rpcordma_device device = {};
	protocol::Session session;
	Assembly assembly;    /* receive completions */
	GroupAssembly groups; /* likewise, of version 2 with round-trip reduction */
};

} // namespace rpcordma
