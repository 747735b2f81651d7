// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls as slots: how they are made, handed out, given back, and what buffers they keep. What becomes of
 * one whose task gave it up is in fence.cc.
 */

#include "module/client/client.hh"

#include <new>

using namespace rpcordma;

/* Buffers start with what a small NFS call takes, and grow to what their slot's calls need. */
static constexpr usize kFirstBuffer = 1024;

Call *rpcordma_client::create_call(bool backward)
{
	rpc_rqst *rqst = rpcordma_rqst_create(xprt);

	if (!rqst)
		return nullptr;
	Call *call = new (rpcordma_rqst_call(rqst)) Call;
	call->rqst = rqst;
	call->backward = backward;
	call->invalidate_cqe.init(RPCORDMA_CQE_INVALIDATE, call);
	{
		SpinGuard guard(lock);

		all.push_back(call);
	}
	if (!call->fenced.create()) {
		destroy_call(call);
		return nullptr;
	}
	return call;
}

/* Nobody else knows @call any more, or yet; it is on no list but that of all. */
void rpcordma_client::destroy_call(Call *call)
{
	rpc_rqst *rqst = call->rqst;

	{
		/* tear_down() goes through them with the mutex. */
		MutexGuard fenced(fence);
		SpinGuard guard(lock);

		decltype(all)::remove(call);
	}
	call->~Call();
	rpcordma_rqst_destroy(rqst);
}

rpc_rqst *rpcordma_client::alloc_slot()
{
	SpinGuard guard(lock);
	Call *call = free_slots.pop_front();

	return call ? call->rqst : nullptr;
}

/*
 * Nobody at the peer has anything of @call any more: put it on the free list, and give a free slot to each task that
 * waits for one.
 */
void rpcordma_client::retire(Call *call)
{
	if (call->get_state() != CallState::idle) {
		/* With tear_down() it has nothing of the next connection's to give back. */
		SpinGuard guard(lock);
		const CallState state = call->get_state();

		/* Its reply came to nobody, and it kept its credits until here. */
		if (state == CallState::answered || state == CallState::unparking) {
			call->set_state(CallState::idle);
			return_proved_credits(*connection, call);
			rpcordma_xprt_return_credit(xprt, call->rqst);
		}
	}
	/* C3 */
	if (!call->mapped.empty() || call->get_state() != CallState::idle)
		rpcordma_warn("C3: a call is freed while the peer can reach its memory");
	call->failure = Error::none;
	bool regions;
	{
		SpinGuard guard(lock);

		/* One stays, which the slot's next call is likely to want: see take_kept(). */
		Region *own = call->spare.front();

		regions = own != nullptr;
		if (own && call->spare.next(own))
			pool.add(call->spare);
		rpcordma_rqst_reset(call->rqst);
		free_slots.push_front(call);
	}
	if (regions)
		announce_space();

	/*
	 * A task that found no slot looks once more after it has queued up, and we look for it after the
	 * slot is back: one of us finds the other.
	 */
	while (rpcordma_xprt_has_backlog(xprt)) {
		SpinGuard guard(lock);
		Call *spare = free_slots.pop_front();

		guard.release();
		if (!spare)
			return;
		if (rpcordma_xprt_wake_backlog(xprt, spare->rqst))
			continue;
		guard.acquire();
		free_slots.push_front(spare);
	}
}

/* Room for the longest message that may go inline. */
bool rpcordma_client::ensure_send_buffer(Call *call, rpcordma_alloc_how how)
{
	for (SendBuffer &send : call->sends)
		if (!send.ensure(send_head_size(), how))
			return false;
	return true;
}

[[nodiscard]] static Status ensure_buffer(Buffer &buffer, usize size, unsigned long &outgrown)
{
	if (buffer.size() >= size)
		return {};
	size = max(size, kFirstBuffer);
	const bool had_one = bool(buffer);
	if (!buffer.create(size, RPCORDMA_ALLOC_TASK))
		return Error::no_memory;
	if (had_one)
		tally(outgrown, size);
	return {};
}

Status rpcordma_client::alloc_buffers(Call *call, usize call_size, usize reply_size)
{
	TRY_STATUS(ensure_buffer(call->call_buffer, call_size, stats.hardway_register_count));
	TRY_STATUS(ensure_buffer(call->reply_buffer, reply_size, stats.hardway_register_count));
	return ensure_send_buffer(call, RPCORDMA_ALLOC_TASK) ? Status() : Status(Error::no_memory);
}
