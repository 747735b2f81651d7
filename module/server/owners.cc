// SPDX-License-Identifier: GPL-2.0-only
/* When a call is done with. See owners.hh. */

#include "module/server/owners.hh"

#include "module/server/server.hh"
#include "module/server/transfer.hh"

namespace rpcordma {

/*
 * The service had the pages of @receive: those that somebody has still are exchanged, so that no message comes into them.
 * Without memory @receive does without, until there is some.
 */
static void reclaim_pages(Server &server, Receive *receive)
{
	if (!server.receive_maker.renew_pages(receive, RPCORDMA_ALLOC_ATOMIC))
		server.receive_maker.drop_pages(receive);
	receive->length = 0;
}

void put_parts(Server &server, ServerCall *call)
{
	Receive *const parts = call->receive->next;

	if (!parts)
		return;
	const u32 count = parts->chained();
	call->receive->next = nullptr;
	put_transmissions(server, parts);
	SpinGuard guard(server.lock);

	server.calls.drop_parts(count);
}

/* Pages of @call's Receives were the service's, or may have been; or it has a Read list of its own. */
[[gnu::noinline]] static void reclaim(Server &server, ServerCall *call)
{
	call->receive->read_list.release();
	for (Receive *receive = call->receive; receive; receive = receive->next)
		if (receive->in_pages())
			reclaim_pages(server, receive);
	put_parts(server, call);
}

void recycle(Server &server, ServerCall *call)
{
	/* S1 */
	if (call->moves_data()) {
		rpcordma_warn("S1: a server's call is made spare while it still moves data");
		give_back_resources(server, call);
		if (call->sink)
			put_sink(server, call);
	}
	if (call->receive &&
	    __builtin_expect(call->receive->in_pages() || call->receive->read_list, 0))
		reclaim(server, call);
	call->refused = false;
	call->results.clear();
	SpinGuard guard(server.lock);

	put_receives_locked(server, server.calls.put(call));
}

void drop_owner(Server &server, ServerCall *call)
{
	if (call->owners.fetch_sub(1, std::memory_order_acq_rel) == 1)
		recycle(server, call);
}

} // namespace rpcordma
