// SPDX-License-Identifier: GPL-2.0-only
/* When a call is done with. See owners.hh. */

#include "module/server/owners.hh"

#include "module/server/server.hh"
#include "module/server/transfer.hh"

namespace rpcordma {

void recycle(Server &server, ServerCall *call)
{
	/* S1 */
	if (call->transfer) {
		rpcordma_warn("S1: a server's call is made spare while it still has a transfer");
		give_back_resources(server, call);
	}
	call->refused = false;
	call->results.count = 0;
	SpinGuard guard(server.lock);

	put_receives_locked(server, server.calls.put(call));
}

void drop_owner(Server &server, ServerCall *call)
{
	if (call->owners.fetch_sub(1, std::memory_order_acq_rel) == 1)
		recycle(server, call);
}

} // namespace rpcordma
