// SPDX-License-Identifier: GPL-2.0-only
/* Receives become large. See growth.hh. */

#include "module/server/growth.hh"

#include "module/protocol/negotiation.hh"
#include "module/server/send.hh"
#include "module/server/server.hh"

namespace rpcordma {

ReceiveBudget receive_budget;

/* By default, of the machine's memory. */
static constexpr u32 kMemoryShare = 64;

/* Pages that all connections may have for this. */
[[nodiscard]] static u64 budget_limit(const Server &server)
{
	const u64 set = rpcordma_server_tunables.version2_receive_bytes;

	return (set ? set : rpcordma_memory_size() / kMemoryShare) / server.device.page_size;
}

/* A call to tell the client with, and its buffer; null without memory. */
[[nodiscard]] static Owned<ServerCall> create_teller(Server &server)
{
	auto call = create_call(server, RPCORDMA_ALLOC_ATOMIC);

	if (call && !make_sends(server, call.get(), 1, RPCORDMA_ALLOC_ATOMIC)) {
		call->sends[0].unmap(server.endpoint);
		return {};
	}
	return call;
}

void begin_growth(Server &server)
{
	const ReceiveMaker &maker = server.receive_maker;
	u64 pages;
	{
		SpinGuard guard(server.lock);

		if (server.growth.begun() || !server.growth.possible ||
		    server.receives.credits().granted() < kGrowthGrant)
			return;
		/* All that there may ever be. */
		pages = u64(kCallsPerReceive) * server.receives.limit() * maker.layout().count;
	}
	if (!pages || !receive_budget.take(pages, budget_limit(server)))
		return;
	auto teller = create_teller(server);
	if (!teller) {
		receive_budget.give(pages);
		return;
	}
	SpinGuard guard(server.lock);
	Growth &growth = server.growth;

	growth.reserved = u32(pages);
	growth.call = teller.let_go();
	server.calls.own_backward(growth.call);
	server.receive_maker.use_pages(true);
	growth.small_posted = server.receives.posted();
	server.receives.set_spares_aside();
}

void tell_growth_locked(Server &server)
{
	ServerCall *const call = server.growth.call;
	const ReceiveMaker &maker = server.receive_maker;
	Outgoing out;

	/* Nothing is posted behind the drain, nor before the connection is there. */
	if (server.closing.load(std::memory_order_relaxed) ||
	    !server.established.load(std::memory_order_relaxed))
		return;
	const auto length = protocol::encode_sizes(call->sends[0].room(), Xid(0),
						   server.grant.credits(), maker.room());
	if (!length.ok() || !server.room.take(1))
		return;
	out.lengths[0] = length.value();
	server.growth.call = nullptr;
	call->owners.store(0, std::memory_order_relaxed);
	/* One that cannot be posted ends the connection. */
	if (post_with_room(server, call, out, 0).ok()) {
		rpcordma_server_count(RPCORDMA_SERVER_GROWN, 1);
		note_receives_locked(server);
		trace::property(server.peer, "sent", Xid(0), server.grant.credits(),
				xdr::Kind::updprop, protocol::sizes_of(maker.room()));
	} else {
		put_receives_locked(server, server.calls.put(call));
	}
}

/* Nobody else is there any more. */
void end_growth(Server &server) NO_THREAD_SAFETY_ANALYSIS
{
	if (server.growth.reserved)
		receive_budget.give(server.growth.reserved);
}

} // namespace rpcordma
