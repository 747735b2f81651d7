// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls that their tasks gave up. buf_free() waits until the peer cannot reach the call's memory any more; then the
 * call keeps its credit, its slot and its xid until its reply comes or the connection ends: the peer still
 * owes the reply, and takes a Receive for it (RFC 8166 3.3.1).
 *
 * The states are told in call.hh.
 */

#include "module/client/client.hh"

using namespace rpcordma;

/*
 * The peer may still write to what @call offered for its reply, and a late RDMA Write to an invalid key would cost
 * the connection: put scratch memory behind these keys. Read chunks stay invalidated: a server must not execute
 * scratch bytes. All of it is best effort; a late access before this is posted costs the connection as it
 * does without it. Fence mutex held; @call is cancelled, and has no mapped region.
 */
static void park(Client &client, Connection &c, Call *call)
{
	rpcordma_send_wr *first = nullptr, **link = &first, *last = nullptr;
	RegionList others;
	u32 count = 0;

	while (Region *region = call->spare.pop_front()) {
		/* A spare region that this call did not use has no mapping of this call. */
		if (!region->writable || u32(region->mapping.iova >> 32) != call->xid ||
		    !c.send_queue.take_aside(1)) {
			others.push_back(region);
			continue;
		}
		/* The room is for the LOCAL_INV that undoes it. */
		if (const int rc = rpcordma_region_map_scratch(region->device, &region->register_wr);
		    rc) {
			trace::failure(client.peer, trace::Failure::scratch_map_failed, call->xid,
				       rc);
			c.send_queue.return_invalidations(1);
			others.push_back(region);
			continue;
		}
		last = &region->register_wr.wr;
		last->cqe = &c.silent_register_cqe;
		last->send_flags = 0;
		last->next = nullptr;
		*link = last;
		link = &last->next;
		call->mapped.push_back(region);
		call->mapped_count++;
		count++;
		trace::region(client.peer, "scratch", call->xid, *region);
	}
	call->spare.splice_back(others);
	if (!count)
		return;
	SendQueue::Marker *marker = c.send_queue.signal_aside(nullptr, count);
	if (!marker) {
		client.unmap_all(c, call);
		return;
	}
	last->cqe = &marker->cqe;
	last->send_flags = RPCORDMA_SEND_SIGNALED;
	/* Its reply may have come since. */
	if (!call->change_from(CallState::cancelled, CallState::parked))
		call->set_state(CallState::parked_answered);
	tally(client.stats.scratch_count, count);
	const int rc = rpcordma_post_send(c.endpoint, first).error;
	trace::post(c.endpoint, "scratch", call->xid, count, true, rc, *last);
	if (!rc)
		return;
	trace::failure(client.peer, trace::Failure::scratch_post_failed, call->xid, rc);
	c.request_close(trace::Loss::rpc_failed, rc);
}

/* buf_free() waits for the memory of @call from here on. */
static void begin_fencing(Call *call)
{
	CallState state = call->get_state(), to;

	/* A reply may come meanwhile. */
	do {
		to = state == CallState::sent || state == CallState::reading ? CallState::fencing :
		     state == CallState::answered ? CallState::fencing_answered :
						    CallState::fencing_lost;
	} while (!call->change(state, to));
}

/* The memory of @call is fenced. Returns whether its reply is still owed. */
[[nodiscard]] static bool end_fencing(Call *call)
{
	if (call->change_from(CallState::fencing, CallState::cancelled))
		return true;
	call->set_state(call->get_state() == CallState::fencing_answered ? CallState::answered :
									   CallState::idle);
	return false;
}

/*
 * Have end_gathered() go on with @call, whose state says with what, when its Sends are done that read its pages. False: they
 * are, or there are none.
 */
bool rpcordma_client::await_sends(Call *call)
{
	if (!call->is_read())
		return false;
	/* A peer that acknowledges nothing is found out as one is that keeps LOCAL_INVs from being done. */
	call->invalidating.store(1, std::memory_order_relaxed);
	rpcordma_xprt_queue_check(xprt, kInvalidationLimitMs);
	if (call->gathered->await())
		return true;
	call->invalidating.store(0, std::memory_order_relaxed);
	return false;
}

/* The call was fenced, and the reply is owed, or has come to nobody; its regions have scratch memory. */
[[nodiscard]] static bool is_parked(CallState state)
{
	return state == CallState::parked || state == CallState::parked_answered;
}

/*
 * buf_free(): the task has done with @call, which is not idle, and its pages are about to go. Or these are another one's, as it is
 * made once more.
 */
void rpcordma_client::cancel(Call *call)
{
	MutexGuard guard(fence);
	Connection *c = connection;
	/* A drain may have come between, and none can now. */
	if (!c || call->get_state() == CallState::idle)
		return;
	/* It was given up before: what its regions have is scratch memory. */
	if (is_parked(call->get_state()))
		return;
	if (call->mapped.empty() && !call->is_read()) {
		/* Where that fails, its reply has come since. */
		if (!call->change_from(CallState::sent, CallState::cancelled))
			(void)call->change_from(CallState::reading, CallState::cancelled);
		return;
	}
	/* Else the spare region is the slot's, which the sender may take: see rpcordma_call::spare. */
	const bool had_regions = !call->mapped.empty();
	if (had_regions)
		trace::region(peer, "cancel", call->xid, *call->mapped.front());
	call->fenced.reset();
	begin_fencing(call);
	/* The reply is here, and to invalidate what it has invalidated costs the connection with some devices. */
	if (call->get_state() == CallState::fencing_answered && call->late_invalidated)
		unmap_invalidated(*c, call, call->late_invalidated_rkey);
	if (call->mapped.empty() && !await_sends(call)) {
		(void)end_fencing(call);
		return;
	}
	/*
	 * The event is bound to come: the LOCAL_INVs, or the Sends, are done; or they failed, could not be posted, or are
	 * overdue (check_overdue()), and the drain is what takes the memory back. For that tear_down() must be able to have
	 * the mutex.
	 */
	if (!c->closing && !call->mapped.empty())
		(void)post_invalidations(*c, call);
	guard.release();
	call->fenced.wait();
	guard.acquire();
	/* The drain came, and it did it all. The connection may be another one by now. */
	if (call->get_state() == CallState::idle)
		return;
	/* A call that is not idle has the connection that it was sent on. */
	unmap_all(*c, call);
	if (end_fencing(call) && had_regions && rpcordma_tunables.scratch_remap && !c->closing)
		park(*this, *c, call);
	guard.release();
	announce_space();
}

/*
 * The reply to a parked call has come: take the scratch memory back, then free the slot. Nobody else
 * knows the call now. Completion, or with the fence mutex held.
 */
static void unpark(Client &client, Connection &c, Call *call)
{
	client.discard_invalidated(c, call);
	if (call->mapped.empty())
		client.retire(call);
	else
		/* If they cannot be posted, the drain does it. */
		(void)client.post_invalidations(c, call);
}

/* As free_slot(), of a call that was given up: false if it is free at once. */
bool rpcordma_client::keep_owed(Call *call)
{
	{
		SpinGuard guard(lock);
		const CallState state = call->get_state();

		if (state == CallState::cancelled || state == CallState::parked) {
			/* The peer still owes the reply. */
			const bool first = zombies.empty();

			call->set_state(state == CallState::cancelled ? CallState::zombie :
									CallState::parked_zombie);
			call->cancelled_at = rpcordma_now_ms();
			zombies.push_back(call);
			if (first)
				rpcordma_xprt_queue_check(xprt, kReplyLimitMs);
			return true;
		}
	}
	if (call->get_state() == CallState::parked_answered) {
		/* With the mutex a drain is over, or not begun. */
		MutexGuard fenced(fence);

		if (call->change_from(CallState::parked_answered, CallState::unparking)) {
			/* With the drain begun, its end frees the call. */
			if (!connection->closing)
				unpark(*this, *connection, call);
			return true;
		}
	}
	return false;
}

/* sunrpc has done with the slot. */
void rpcordma_client::free_slot(Call *call)
{
	/* Mostly its reply has come, or it was not sent; whatever a drain does to it is done before it is idle. */
	if (__builtin_expect(call->get_state() != CallState::idle, 0) && keep_owed(call))
		return;
	retire(call);
}

/* The state of a call whose reply has come, and which its task gave up in @state; idle: it owes none. */
[[nodiscard]] static CallState answered_state(CallState state)
{
	switch (state) {
	case CallState::sent:
	case CallState::reading:
	case CallState::cancelled:
	case CallState::zombie:
		return CallState::answered;
	case CallState::fencing:
		return CallState::fencing_answered;
	case CallState::parked:
		return CallState::parked_answered;
	case CallState::parked_zombie:
		return CallState::unparking;
	default:
		return CallState::idle;
	}
}

/*
 * A reply that nobody in sunrpc waits for. When it is the one that a cancelled call still owes, its slot
 * and its credit are free now; or will be in a moment, when sunrpc is just giving it up. Returns false
 * when no call owes a reply to @xid. Receive completion.
 */
bool rpcordma_client::take_late_reply(Connection &c, u32 xid, const Receive &receive)
{
	SpinGuard guard(lock);
	Call *call = all.front();
	CallState state = CallState::idle;

	for (; call; call = all.next(call)) {
		state = call->get_state();
		if (call->xid == xid && !call->backward && answered_state(state) != CallState::idle)
			break;
	}
	if (!call)
		return false;
	/* For cancel() and unpark(). */
	call->late_invalidated = receive.flags & RPCORDMA_WC_WITH_INVALIDATE;
	call->late_invalidated_rkey = receive.invalidated_rkey;
	/* Its task may be giving it up at this moment: then it is in another state that owes the reply. */
	while (!call->change(state, answered_state(state)))
		if (answered_state(state) == CallState::idle)
			return false;
	const bool zombie = state == CallState::zombie || state == CallState::parked_zombie;
	if (zombie)
		decltype(zombies)::remove(call);
	guard.release();
	trace::reply(peer, "reply to a cancelled call", xid, 0, 0, 0);
	if (state == CallState::zombie) {
		retire(call);
	} else if (state == CallState::parked_zombie) {
		unpark(*this, c, call);
	}
	return true;
}

/* The LOCAL_INVs that buf_free() or unpark() posted for @call have completed, or the Sends that it waits for. Send completion. */
void rpcordma_client::end_fence(Connection &c, Call *call, bool success)
{
	/* The connection is lost: the drain does it, and wakes buf_free(). */
	if (!success)
		return;
	if (call->get_state() != CallState::unparking) {
		call->fenced.raise();
		return;
	}
	unmap_all(c, call);
	retire(call);
	announce_space();
}

/*
 * Replies that are owed for too long keep slots and credits from those who come now; LOCAL_INVs that stay in the send
 * queue, behind a Send that the peer has no Receive for, keep a killed task. Nobody else may notice: tasks that wait
 * for a credit, a slot, or their memory have no timer. Either costs the connection. Process context.
 */
void rpcordma_client::check_overdue()
{
	u64 age = 0;
	u32 next = 0; /* ms; 0: nothing is left to be checked */
	bool stuck = false;

	{
		SpinGuard guard(lock);

		if (const Call *oldest = zombies.front()) {
			age = rpcordma_now_ms() - oldest->cancelled_at;
			next = age < kReplyLimitMs ? static_cast<u32>(kReplyLimitMs - age) : 0;
		}
		for (Call *call = all.front(); call; call = all.next(call)) {
			u32 checks = call->invalidating.load(std::memory_order_relaxed);

			/* Unless they complete at this moment. */
			if (!checks ||
			    !call->invalidating.compare_exchange_strong(checks, checks + 1,
									std::memory_order_relaxed))
				continue;
			stuck = stuck || checks > 1;
			/* Not earlier: what was posted a moment ago is not overdue for two checks side by side. */
			next = kInvalidationLimitMs;
		}
	}
	if (stuck)
		trace::loss(peer, trace::Loss::invalidations_overdue, 0);
	else if (age >= kReplyLimitMs)
		trace::loss(peer, trace::Loss::replies_overdue, static_cast<int>(age));
	if (stuck || age >= kReplyLimitMs)
		rpcordma_xprt_force_disconnect(xprt);
	else if (next)
		rpcordma_xprt_queue_check(xprt, next);
}
