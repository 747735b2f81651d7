// SPDX-License-Identifier: GPL-2.0-only
/*
 * The life of a client transport, its slots and their buffers. Connecting is in connect.cc, sending in
 * send.cc, replies in reply.cc, the invalidation of memory in fence.cc, the backchannel in its own file.
 */

#include "module/client/client.hh"

#include <new>

#include "xdr/private_data.hh"

using namespace rpcordma;

/* Buffers start with what a small NFS call takes, and grow to what their slot's calls need. */
static constexpr usize kFirstBuffer = 1024;

Status rpcordma_client::create(rpc_xprt *transport, u32 slot_count)
{
	xprt = transport;
	peer = rpcordma_xprt_peer(transport);
	slots = slot_count;
	lock = rpcordma_lock_create(RPCORDMA_LOCK_CLIENT);
	fence = rpcordma_mutex_create(RPCORDMA_MUTEX_FENCE);
	bool made = lock && fence;
	for (u32 i = 0; made && i < slots; i++) {
		Call *call = create_call(false);

		if (!call)
			made = false;
		else
			free_.push_back(call);
	}
	if (made)
		return {};
	destroy();
	return Error::no_memory;
}

void rpcordma_client::destroy()
{
	close();
	while (Call *call = all.front())
		destroy_call(call);
	if (lock)
		rpcordma_lock_destroy(lock);
	if (fence)
		rpcordma_mutex_destroy(fence);
}

Call *rpcordma_client::create_call(bool backward)
{
	rpc_rqst *rqst = rpcordma_rqst_create(xprt);

	if (!rqst)
		return nullptr;
	Call *call = new (rpcordma_rqst_call(rqst)) Call;
	call->client = this;
	call->rqst = rqst;
	call->backward = backward;
	call->invalidate_cqe.init(RPCORDMA_CQE_INVALIDATE, call);
	locked(lock, [&] { all.push_back(call); });
	call->fenced = rpcordma_event_create();
	if (!call->fenced) {
		destroy_call(call);
		return nullptr;
	}
	return call;
}

void rpcordma_client::destroy_call(Call *call)
{
	locked(lock, [&] { decltype(all)::remove(call); });
	if (call->fenced)
		rpcordma_event_destroy(call->fenced);
	rpcordma_free(call->call_buffer);
	rpcordma_free(call->reply_buffer);
	rpcordma_free(call->wire);
	rpcordma_rqst_destroy(call->rqst);
}

rpc_rqst *rpcordma_client::alloc_slot()
{
	LockGuard guard(lock);
	Call *call = free_.pop_front();
	/* Most chunked calls need one region: take it here, where the lock is held anyway. */
	if (call)
		if (Region *region = pool.pop_front())
			call->spare.push_back(region);
	return call ? call->rqst : nullptr;
}

/* The peer still owes the reply; client lock held. */
void rpcordma_client::make_zombie_locked(Call *call)
{
	const bool first = zombies.empty();

	call->zombie = true;
	call->cancelled_at = rpcordma_now_ms();
	zombies.push_back(call);
	if (first)
		rpcordma_xprt_queue_check(xprt, kReplyLimitMs);
}

void rpcordma_client::free_slot(Call *call)
{
	LockGuard guard(lock);
	if (call->parked && call->late_reply) {
		/* The reply came in between. The fence mutex first, so that a drain is over or not begun. */
		guard.release();
		{
			MutexGuard fenced(fence);
			const bool parked =
				locked(lock, [&] { return call->unparking = call->parked; });

			/* With the drain begun, its end frees the call. */
			if (parked && !connection->closing)
				unpark(*connection, call);
			if (parked)
				return;
		}
		guard.acquire();
	}
	if (call->state.load(std::memory_order_acquire) == CallState::cancelled) {
		if (!call->late_reply) {
			make_zombie_locked(call);
			return;
		}
		call->state.store(CallState::idle, std::memory_order_release);
		rpcordma_xprt_return_credit(xprt, call->rqst);
	}
	/* C3 */
	if (!call->mapped.empty() || call->state.load(std::memory_order_relaxed) != CallState::idle)
		rpcordma_warn("C3: a call was freed before its memory was fenced");
	call->late_reply = false;
	call->failure = 0;
	const bool regions = !call->spare.empty();
	pool.splice_back(call->spare);
	rpcordma_rqst_reset(call->rqst);
	free_.push_front(call);
	guard.release();
	if (regions)
		space_came();

	/*
	 * A task that found no slot looks once more after it has queued up, and we look for it after the
	 * slot is back: one of us finds the other.
	 */
	while (rpcordma_xprt_has_backlog(xprt)) {
		Call *spare = locked(lock, [&] { return free_.pop_front(); });
		if (!spare)
			return;
		if (rpcordma_xprt_wake_backlog(xprt, spare->rqst))
			continue;
		locked(lock, [&] { free_.push_front(spare); });
	}
}

/* Room for the longest message that may go inline. */
Status rpcordma_client::ensure_wire(Call *call, rpcordma_alloc_how how)
{
	/* A message of the default size goes, whatever the limit. */
	const u32 size = max(rpcordma_tunables.max_inline_write, private_data::size_unit);

	if (call->wire_capacity >= size)
		return {};
	/* Mapped means that a connection knows it: it is kept, and the call sends that much less inline. */
	if (call->wire_mapped)
		return {};
	void *wire = rpcordma_alloc(size, how);
	if (!wire)
		return call->wire ? Status{} : Status{Error::no_memory};
	rpcordma_free(call->wire);
	call->wire = static_cast<u8 *>(wire);
	call->wire_capacity = size;
	return {};
}

static Status ensure_buffer(void *&buffer, usize &capacity, usize size, unsigned long &outgrown)
{
	if (capacity >= size)
		return {};
	size = max(size, kFirstBuffer);
	void *bigger = rpcordma_alloc(size, RPCORDMA_ALLOC_TASK);
	if (!bigger)
		return Error::no_memory;
	rpcordma_free(buffer);
	if (buffer)
		tally(outgrown, size);
	buffer = bigger;
	capacity = size;
	return {};
}

Status rpcordma_client::buf_alloc(Call *call, usize call_size, usize reply_size)
{
	TRY_STATUS(ensure_buffer(call->call_buffer, call->call_capacity, call_size,
				 stats.hardway_register_count));
	TRY_STATUS(ensure_buffer(call->reply_buffer, call->reply_capacity, reply_size,
				 stats.hardway_register_count));
	return ensure_wire(call, RPCORDMA_ALLOC_TASK);
}

/* The port's names */

rpcordma_size rpcordma_core_client_size()
{
	return sizeof(Client);
}

rpcordma_size rpcordma_core_call_size()
{
	return sizeof(Call);
}

int rpcordma_core_client_create(rpcordma_client *client, rpc_xprt *xprt, u32 slots)
{
	new (client) Client;
	return to_errno(client->create(xprt, slots).error());
}

void rpcordma_core_client_destroy(rpcordma_client *client)
{
	client->destroy();
}

u32 rpcordma_core_max_payload()
{
	return chunk::kMaxPayload;
}

rpc_rqst *rpcordma_core_alloc_slot(rpcordma_client *client)
{
	return client->alloc_slot();
}

void rpcordma_core_free_slot(rpcordma_client *client, rpcordma_call *call)
{
	client->free_slot(call);
}

int rpcordma_core_buf_alloc(rpcordma_client *client, rpcordma_call *call, rpcordma_size call_size,
			    rpcordma_size reply_size, void **call_buffer, void **reply_buffer)
{
	Status status = client->buf_alloc(call, call_size, reply_size);

	if (!status.ok())
		return to_errno(status.error());
	*call_buffer = call->call_buffer;
	*reply_buffer = call->reply_buffer;
	return 0;
}

const rpcordma_client_stats *rpcordma_core_client_stats(const rpcordma_client *client)
{
	return &client->stats;
}
