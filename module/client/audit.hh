// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a client has taken and not given back. Nothing in the module needs it: the unit tests compare it
 * with what they know of their calls after each step, and the simulation waits until it is at rest.
 */
#pragma once

#include "module/client/client.hh"

namespace rpcordma {

struct ClientAudit {
	/* Forward calls. */
	u32 calls = 0;	 /* there are */
	u32 free = 0;	 /* on the free list, idle and with no region but the one that it keeps */
	u32 zombies = 0; /* on the list of zombies */
	u32 unfenced =
		0; /* with a mapped region, or pages that Sends read, or whose LOCAL_INVs somebody waits for */
	u32 gathered = 0; /* with pages that Sends read */

	/* Backward calls. */
	u32 backward = 0;
	u32 backward_free = 0;
	u32 owners = 0; /* of all backward calls together */

	/* Of the connection; all zero without one. */
	u32 regions = 0;  /* created */
	u32 listed = 0;	  /* on any list: as many as were created */
	u32 mapped = 0;	  /* with a call, whose LOCAL_INVs have room reserved */
	u32 reserved = 0; /* in the send queue */
	u32 markers = 0;  /* of signaled work requests that have not completed */
	u64 lost = 0; /* work requests that no completion will return; with nothing signaled out */

	/** Nothing is under way: each count is where it began. */
	[[nodiscard]] bool at_rest() const
	{
		return free == calls && !zombies && !unfenced && backward_free == backward &&
		       !owners && listed == regions && !mapped && !reserved && !markers && !lost;
	}
};

/** Somebody waits for LOCAL_INVs, or scratch memory is behind the call's keys. */
[[nodiscard]] constexpr bool is_fencing(CallState state)
{
	switch (state) {
	case CallState::fencing:
	case CallState::fencing_answered:
	case CallState::fencing_lost:
	case CallState::parked:
	case CallState::parked_answered:
	case CallState::parked_zombie:
	case CallState::unparking:
		return true;
	default:
		return false;
	}
}

/** Nobody changes the client meanwhile. */
[[nodiscard]] inline ClientAudit audit(const rpcordma_client &client) NO_THREAD_SAFETY_ANALYSIS
{
	ClientAudit a;

	for (Call *call = client.all.front(); call; call = client.all.next(call)) {
		const CallState state = call->get_state();
		const bool idle = state == CallState::idle;
		const bool listed = static_cast<ListLink<CallListTag> *>(call)->linked();
		u32 mapped = 0;

		for (Region *r = call->mapped.front(); r; r = call->mapped.next(r))
			mapped++;
		u32 spare = 0;
		for (Region *r = call->spare.front(); r; r = call->spare.next(r))
			spare++;
		a.listed += mapped + spare;
		/* The count beside the list, which room is given back by. */
		a.mapped += call->mapped_count;
		a.gathered += call->is_read();
		a.unfenced += mapped || call->mapped_count || call->held || is_fencing(state) ||
			      call->is_read();
		if (call->backward) {
			a.backward++;
			a.backward_free += listed;
			a.owners += call->owners.load(std::memory_order_acquire);
			continue;
		}
		a.calls++;
		a.zombies += state == CallState::zombie || state == CallState::parked_zombie;
		a.free += listed && idle && spare <= 1;
	}
	for (const bool gaps : {false, true})
		for (const RegionList *list : {&client.pool.of(gaps), &client.at_hand.of(gaps)})
			for (Region *r = list->front(); r; r = list->next(r))
				a.listed++;
	for (Region *r = client.discarded.front(); r; r = client.discarded.next(r))
		a.listed++;
	if (const Connection *c = client.connection) {
		a.regions = c->regions_created[0].load(std::memory_order_acquire) +
			    c->regions_created[1].load(std::memory_order_acquire);
		a.reserved = c->send_queue.reserved();
		a.markers = c->send_queue.markers_out();
		if (!a.markers && !a.gathered)
			a.lost = c->send_queue.lost();
	}
	return a;
}

} // namespace rpcordma
