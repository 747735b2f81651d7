// SPDX-License-Identifier: GPL-2.0-only
/*
 * The end of a connection. It comes in process context with the transport's send lock held, so that nothing is
 * sent meanwhile; completions and buf_free() may run.
 */

#include "module/client/client.hh"

using namespace rpcordma;

void Connection::request_close(trace::Loss why, int value)
{
	/* Before anybody can see that it is broken, and ask why. */
	if (why == trace::Loss::device_removal)
		device_gone.store(true, std::memory_order_relaxed);
	if (broken.exchange(true, std::memory_order_seq_cst))
		return;
	trace::loss(peer, why, value);
	client->back_off.store(true, std::memory_order_relaxed);
	/* Before that, connect() is still at work, and looks at broken when it is done. */
	if (published.load(std::memory_order_seq_cst))
		rpcordma_xprt_force_disconnect(client->xprt);
	else if (marked)
		client->answered.raise();
}

/* The call behind @call, the first one behind null; null: there is none. Fence mutex held, so that none goes. */
[[nodiscard]] static Call *next_call(Client &client, Call *call)
{
	SpinGuard guard(client.lock);

	return call ? client.all.next(call) : client.all.front();
}

/*
 * The peer can reach nothing of @call any more, nor can the device. It is as busy as before, so that nobody
 * does anything to its memory. Fence mutex held.
 */
static void unmap_call(Client &client, Connection &c, Call *call)
{
	for (Region *region = call->mapped.front(); region; region = call->mapped.next(region)) {
		rpcordma_region_unmap(region->device);
		trace::region(c.peer, "drain", call->xid, *region);
		tally(client.stats.mrs_recycled, 1);
	}
	for (SendBuffer &send : call->sends)
		send.unmap(c.endpoint);
	if (call->others)
		for (SendBuffer &send : call->others->sends)
			send.unmap(c.endpoint);
	if (call->gathered)
		call->gathered->drained(c.endpoint);
}

/* @call is unmapped: it is idle, and its regions are @doomed. Fence mutex and client lock held. */
static void end_call(Call *call, RegionList &doomed)
{
	doomed.splice_back(call->mapped);
	doomed.splice_back(call->spare);
	call->mapped_count = 0;
	call->invalidating.store(0, std::memory_order_relaxed);
	call->held = nullptr;
	rpcordma_rqst_forget_credit(call->rqst);
	call->credits = call->receives = 0;
	call->set_state(CallState::idle);
}

/*
 * Take a connection apart, as far as it was made: what never happened is passed over. Nothing is sent (send lock), so
 * that what may still happen is:
 *
 *   completions       until the queue pair is drained; each may find calls, and post LOCAL_INVs
 *   buf_free()        may be fencing a killed call's memory; it posts only while !closing, under the
 *                     mutex. It waits without the mutex, for its event: the completion of what it posted
 *                     raises it, or this does when the drain is over
 *   free_slot()       may be about to make a zombie; the state decides, under the client lock
 */
void rpcordma_client::tear_down(Connection *c)
{
	CallList freed;
	RegionList doomed;

	const bool broke = c->broken.exchange(true, std::memory_order_acq_rel);
	bool owed = false;	 /* a reply */
	bool group_owed = false; /* to a call of several transmissions */
	bool injected = false;
	{
		MutexGuard fenced(fence);

		c->closing = true;
		injected = c->injected;
	}
	if (c->endpoint) {
		rpcordma_endpoint_disconnect(c->endpoint);
		rpcordma_endpoint_drain(c->endpoint);
	}

	/* The peer can reach nothing any more. */
	{
		MutexGuard fenced(fence);

		for (Call *call = next_call(*this, nullptr); call; call = next_call(*this, call))
			unmap_call(*this, *c, call);

		SpinGuard guard(lock);
		for (Call *call = all.front(); call; call = all.next(call)) {
			const CallState state = call->get_state();

			owed = owed || (!call->backward && state != CallState::idle);
			group_owed = group_owed || call->credits || call->receives;
			end_call(call, doomed);
			switch (state) {
			case CallState::zombie:
			case CallState::parked_zombie:
				decltype(zombies)::remove(call);
				freed.push_back(call);
				break;
			case CallState::unparking:
				freed.push_back(call);
				break;
			case CallState::fencing:
			case CallState::fencing_answered:
			case CallState::fencing_lost:
				call->fenced.raise();
				break;
			default:
				break;
			}
		}
		at_hand.add(pool);
		for (const bool gaps : {false, true})
			doomed.splice_back(at_hand.of(gaps));
		doomed.splice_back(discarded);
		connection = nullptr;
	}

	/* Whether it broke, or timed out, or was ended by us: the server may be silent about groups only. */
	if (group_owed && !injected)
		plainness.connection_lost(rpcordma_now_ms());
	/* Who speaks version 2 and never replies may do better in version 1. */
	if (c->unproved && (broke || owed))
		avoidance.begin(rpcordma_now_ms());
	while (Region *region = doomed.pop_front()) {
		c->regions_created[region->gaps].fetch_sub(1, std::memory_order_relaxed);
		destroy_region(region);
	}
	/* C5 */
	if (c->regions_created[0].load(std::memory_order_relaxed) ||
	    c->regions_created[1].load(std::memory_order_relaxed))
		rpcordma_warn("C5: memory regions outlive their connection");
	c->receive_queue.destroy();
	if (c->endpoint)
		rpcordma_endpoint_destroy(c->endpoint);
	(void)Owned<Connection>::take_over(c);

	while (Call *call = freed.pop_front())
		retire(call);
}

void rpcordma_client::close()
{
	if (!connection)
		return;
	trace::connection(peer, "close", 0);
	tear_down(connection);
}

/* The sender cannot go on with this connection: send it all again over another one. Send lock held. */
Error rpcordma_client::drop_connection(trace::Failure why, u32 xid, int value)
{
	trace::failure(peer, why, xid, value);
	trace::loss(peer, trace::Loss::rpc_failed, value);
	/* Whatever it is: it may be there on the next connection too. */
	back_off.store(true, std::memory_order_relaxed);
	close();
	rpcordma_xprt_closed(xprt);
	return Error::not_connected;
}
