// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fencing: taking a call's memory back from the peer. The common reply has done it already, with Send
 * With Invalidate; what is left gets LOCAL_INVs, in the background for a reply (reply.cc continues when
 * they are done), and while buf_free() waits for a call that its task gave up.
 *
 * A cancelled call keeps its credit, its slot and its xid until its reply or the disconnect: the peer
 * still owes the reply, and takes a Receive for it (RFC 8166 3.3.1).
 */

#include "module/client/client.hh"

using namespace rpcordma;

void rpcordma_client::unmap_all(Connection &c, Call *call)
{
	while (Region *region = call->mapped.pop_front()) {
		rpcordma_region_unmap(region->device);
		trace::region(peer, "unmap", call->xid, region->mapping);
		call->spare.push_back(region);
	}
	c.send_queue.return_invalidations(call->mapped_count);
	call->mapped_count = 0;
}

/*
 * Post a LOCAL_INV for each region that is mapped; the last one is signaled, and the queue's order makes
 * its completion stand for all. Returns 0 or a negative errno; then the memory is fenced by the drain.
 */
int rpcordma_client::post_invalidations(Connection &c, Call *call)
{
	rpcordma_send_wr *first = nullptr, **link = &first, *last = nullptr;
	const rpcordma_send_wr *bad;
	u32 count = 0;

	for (Region *region = call->mapped.front(); region; region = call->mapped.next(region)) {
		last = &region->invalidate_wr;
		last->cqe = &c.silent_invalidate_cqe;
		last->send_flags = 0;
		last->invalidate_rkey = region->mapping.rkey;
		*link = last;
		link = &last->next;
		count++;
		trace::region(peer, "local-inv", call->xid, region->mapping);
	}
	/* Callers have seen that there is a region. */
	// NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
	last->next = nullptr;
	last->cqe = &call->invalidate_cqe.cqe;
	last->send_flags = RPCORDMA_SEND_SIGNALED;
	tally(stats.local_inv_needed, count);
	int rc = rpcordma_post_send(c.endpoint, first, &bad);
	trace::post(peer, "invalidate", call->xid, count, true, rc);
	if (rc) {
		trace::error(peer, "LOCAL_INV could not be posted", call->xid, rc);
		c.request_close("LOCAL_INV could not be posted", rc);
	}
	return rc;
}

/* The last LOCAL_INV of @call has completed. Send completion. */
void rpcordma_client::invalidated(Connection &c, Call *call, bool success)
{
	Receive *receive = call->held;

	if (call->parked) {
		/* The reply to a cancelled call has come, and its scratch memory is not needed any more. */
		if (!success) {
			/* The drain does it. */
			c.request_close("LOCAL_INV failed", 0);
			return;
		}
		unmap_all(c, call);
		unpark(c, call);
		space_came();
		return;
	}
	if (!receive) {
		/* buf_free() waits. */
		call->fence_failed = !success;
		rpcordma_event_raise(call->fenced);
		return;
	}
	call->held = nullptr;
	if (success) {
		unmap_all(c, call);
		space_came();
		finish(c, call, receive, nullptr);
		return;
	}
	/* The connection is lost, and the reply with it: the call will be sent again. */
	c.request_close("LOCAL_INV failed", 0);
	rpcordma_rqst_unpin(call->rqst);
}

/*
 * buf_free(): the task has done with @call, and its pages are about to go. Most calls have no region left.
 */
void rpcordma_client::cancel(Call *call)
{
	if (call->state.load(std::memory_order_acquire) == CallState::idle)
		return;
	MutexGuard guard(fence);
	Connection *c = connection;
	/* Again, now that no drain can come between. */
	CallState state = call->state.load(std::memory_order_acquire);
	if (!c || state == CallState::idle)
		return;
	if (call->mapped.empty()) {
		if (state == CallState::sent)
			call->state.store(CallState::cancelled, std::memory_order_release);
		return;
	}
	trace::region(peer, "cancel", call->xid, call->mapped.front()->mapping);
	rpcordma_event_reset(call->fenced);
	bool fenced = false;
	if (!c->closing && !post_invalidations(*c, call)) {
		/* Bound to come: done, or flushed by the drain. So teardown must be able to have the mutex. */
		guard.release();
		rpcordma_event_wait(call->fenced);
		guard.acquire();
		/* The drain came, and it did it all. The connection may be another one by now. */
		if (call->state.load(std::memory_order_acquire) == CallState::idle)
			return;
		/* A call that is not idle has the connection that it was sent on. */
		fenced = !call->fence_failed;
		if (!fenced)
			c->request_close("LOCAL_INV failed", 0);
	}
	if (fenced) {
		unmap_all(*c, call);
		if (state == CallState::sent && rpcordma_tunables.scratch_remap && !c->closing)
			park(*c, call);
		call->state.store(state == CallState::sent ? CallState::cancelled : CallState::idle,
				  std::memory_order_release);
		guard.release();
		space_came();
		return;
	}
	/* The drain is what takes the memory from the peer now: wait for it. */
	rpcordma_event_reset(call->fenced);
	call->waiting = true;
	guard.release();
	rpcordma_event_wait(call->fenced);
}

/*
 * A cancelled call's late RDMA Writes would cost the connection: put scratch memory behind the keys that
 * the peer may still write to. Read chunks stay invalidated: a server must not execute scratch bytes. All
 * of it is best effort; a late access before this is posted costs the connection as it does without it.
 * With the fence mutex; the memory is fenced and unmapped.
 */
void rpcordma_client::park(Connection &c, Call *call)
{
	RegionList others;
	rpcordma_send_wr *first = nullptr, **link = &first, *last = nullptr;
	const rpcordma_send_wr *bad;
	u32 count = 0;

	if (locked(lock, [&] { return call->late_reply; }))
		return;
	while (Region *region = call->spare.pop_front()) {
		/* A spare region that this call did not use has no mapping of this call. */
		if (!region->writable || u32(region->mapping.iova >> 32) != call->xid ||
		    !c.send_queue.take_aside(1)) {
			others.push_back(region);
			continue;
		}
		/* The room is for the LOCAL_INV that undoes it. */
		if (rpcordma_region_map_scratch(region->device, &region->register_wr)) {
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
		trace::region(peer, "scratch", call->xid, region->mapping);
	}
	call->spare.splice_back(others);
	if (!count)
		return;
	SendQueue::Marker *marker = c.send_queue.signal_aside(nullptr, count);
	if (!marker) {
		unmap_all(c, call);
		return;
	}
	last->cqe = &marker->cqe;
	last->send_flags = RPCORDMA_SEND_SIGNALED;
	call->parked = true;
	tally(stats.scratch_count, count);
	int rc = rpcordma_post_send(c.endpoint, first, &bad);
	trace::post(peer, "scratch", call->xid, count, true, rc);
	if (rc)
		c.request_close("scratch memory could not be registered", rc);
}

/*
 * The reply to a parked call has come: take the scratch memory back, then free the slot. Nobody else
 * knows the call now (unparking is set). Completion, or under the fence mutex.
 */
void rpcordma_client::unpark(Connection &c, Call *call)
{
	if (!call->mapped.empty()) {
		/* If they cannot be posted, the drain does it. */
		(void)post_invalidations(c, call);
		return;
	}
	call->parked = call->unparking = false;
	free_slot(call);
}

/*
 * A reply that nobody in sunrpc waits for. When it is the one that a cancelled call still owes, its slot
 * and its credit are free now; or will be in a moment, when sunrpc is just giving it up. Returns false
 * when no call owes a reply to @xid.
 */
bool rpcordma_client::reply_to_cancelled(Connection &c, u32 xid, const Receive &receive)
{
	Call *call;

	LockGuard guard(lock);
	for (call = all.front(); call; call = all.next(call)) {
		CallState state = call->state.load(std::memory_order_acquire);

		if (call->xid == xid && !call->backward && !call->late_reply &&
		    (state == CallState::sent || state == CallState::cancelled))
			break;
	}
	if (!call)
		return false;
	trace::reply(peer, "reply to a cancelled call", xid, 0, 0, 0);
	call->late_reply = true;
	const bool zombie = call->zombie;
	if (zombie) {
		call->zombie = false;
		call->unparking = call->parked;
		decltype(zombies)::remove(call);
	}
	guard.release();
	if (!zombie)
		return true;
	if (call->parked) {
		believe_invalidation(c, call, receive);
		unpark(c, call);
	} else {
		free_slot(call);
	}
	return true;
}

/*
 * Replies that are owed for too long keep slots and credits from those who come now, and nobody else
 * may notice: tasks that wait for a credit or a slot have no timer. Process context.
 */
void rpcordma_client::check_zombies()
{
	LockGuard guard(lock);
	const Call *oldest = zombies.front();
	if (!oldest)
		return;
	const u64 age = rpcordma_now_ms() - oldest->cancelled_at;
	guard.release();
	if (age >= kReplyLimitMs) {
		trace::connection(peer, "replies to cancelled calls are overdue", 0);
		rpcordma_xprt_force_disconnect(xprt);
	} else {
		rpcordma_xprt_queue_check(xprt, static_cast<u32>(kReplyLimitMs - age));
	}
}

void rpcordma_core_client_check(rpcordma_client *client)
{
	client->check_zombies();
}

void rpcordma_core_buf_free(rpcordma_client *client, rpcordma_call *call)
{
	client->cancel(call);
}

rpcordma_bool rpcordma_core_release_credit(rpcordma_client *, rpcordma_call *call)
{
	CallState state = call->state.load(std::memory_order_acquire);

	return state != CallState::sent && state != CallState::cancelled;
}

void rpcordma_core_invalidate_done(void *context, rpcordma_cqe *cqe,
				   const rpcordma_completion *completion)
{
	Connection *c = static_cast<Connection *>(context);
	const bool success = completion->status == RPCORDMA_WC_SUCCESS;

	trace::completion(c->client->peer, "invalidate", *completion);
	if (cqe == &c->silent_invalidate_cqe) {
		/* One before the last; only a failure is told, and the last one will fail too. */
		if (!success)
			c->request_close("LOCAL_INV failed", completion->status);
		return;
	}
	c->client->invalidated(*c, OwnedCqe<Call>::owner_of(cqe), success);
}
