// SPDX-License-Identifier: GPL-2.0-only
/* The receive queue: creation, posting and reposting of buffers. See receive_queue.hh. */

#include "module/rdma/receive_queue.hh"

namespace rpcordma {

void ReceiveQueue::init(rpcordma_endpoint *endpoint, const rpcordma_peer *peer, u32 buffer_size,
			u32 capacity)
{
	maker_.init(endpoint, peer, RPCORDMA_CQE_RECEIVE, buffer_size);
	capacity_ = capacity;
}

void ReceiveQueue::destroy()
{
	maker_.destroy();
	waiting_ = nullptr;
	waiting_count_ = created_ = provided_ = 0;
	refused_ = false;
}

u32 ReceiveQueue::provide(u32 messages)
{
	const u32 target = min(min(messages, capacity_) + kBatch, capacity_);
	Receive *chain = nullptr;
	u32 count = 0;

	while (created_ < target && !refused_) {
		/* In a completion that serves memory reclaim: never sleep, never wait for memory. */
		Receive *receive = maker_.create(RPCORDMA_ALLOC_ATOMIC);

		if (!receive)
			break;
		maker_.own(receive);
		receive->wr.next = chain ? &chain->wr : nullptr;
		chain = receive;
		created_++;
		count++;
	}
	/*
	 * What cannot be posted is not counted on: fewer credits are used. It is freed with the connection, so there is no
	 * second attempt: each would leave as many more.
	 */
	if (chain && !maker_.post(chain, count)) {
		created_ -= count;
		refused_ = true;
	}
	provided_ = created_ > kBatch ? created_ - kBatch : 0;
	return provided_;
}

[[gnu::noinline]] bool ReceiveQueue::post_waiting_()
{
	Receive *chain = waiting_;

	waiting_ = nullptr;
	waiting_count_ = 0;
	/* destroy() frees them, whatever becomes of them. */
	return maker_.post(chain, kBatch);
}

bool ReceiveQueue::repost(Receive *receives)
{
	bool posted = true;

	while (Receive *receive = receives) {
		receives = receive->next;
		receive->wr.next = nullptr;
		posted = maker_.post(receive, 1) && posted;
	}
	return posted;
}

} // namespace rpcordma
