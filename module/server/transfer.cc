// SPDX-License-Identifier: GPL-2.0-only
/* What a call has for its chains, and how it is given back. See transfer.hh. */

#include "module/server/transfer.hh"

#include "module/server/server.hh"

namespace rpcordma {

Region *take_region(Server &server, rpcordma_alloc_how how)
{
	{
		SpinGuard guard(server.lock);

		if (Region *region = server.regions.pop_front())
			return region;
	}
	if (how == RPCORDMA_ALLOC_ATOMIC)
		return nullptr;
	return create_region(server.endpoint, server.peer, server.limits.region_pages, false, how);
}

void trace_mapping_listened(const Server &server, const ServerCall &call, bool mapped)
{
	const bool writes = call.transfer->writes;
	const trace::Bulk which =
		mapped ? (writes ? trace::Bulk::reply_mapped : trace::Bulk::sink_mapped) :
			 (writes ? trace::Bulk::reply_unmapped : trace::Bulk::sink_unmapped);

	rpcordma_trace_bulk(static_cast<rpcordma_bulk_event>(which), server.peer, call.xid(),
			    call.transfer->bulk);
}

void put_transfer(Server &server, ServerCall *call)
{
	Transfer *transfer = call->transfer;

	trace_mapping(server, *call, false);
	call->transfer = nullptr;
	for (Region *&region : transfer->regions) {
		if (!region)
			break;
		rpcordma_region_unmap(region->device);
		if (trace::on(RPCORDMA_TRACE_REGION))
			trace::region(server.peer, "unmap", call->xid(), *region);
		{
			SpinGuard guard(server.lock);

			server.regions.push_front(region);
		}
		region = nullptr;
	}
	server_pool.give(transfer);
}

void put_eager(Server &server, ServerCall *call)
{
	server.eager.give_back(call->eager);
	call->eager = 0;
}

} // namespace rpcordma
