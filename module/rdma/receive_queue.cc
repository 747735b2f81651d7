// SPDX-License-Identifier: GPL-2.0-only
/* The receive queue: creation, posting and reposting of buffers. See receive_queue.hh. */

#include "module/rdma/receive_queue.hh"

#include <new>

#include "module/rdma/trace.hh"

namespace rpcordma {

void ReceiveQueue::init(rpcordma_endpoint *endpoint, const rpcordma_peer *peer, u32 buffer_size,
			u32 capacity)
{
	endpoint_ = endpoint;
	peer_ = peer;
	buffer_size_ = buffer_size;
	capacity_ = capacity;
}

void ReceiveQueue::destroy()
{
	while (Receive *receive = all_) {
		all_ = receive->all_next;
		rpcordma_dma_unmap(endpoint_, &receive->sge, buffer_size_, RPCORDMA_DMA_FROM_DEVICE);
		rpcordma_free(receive->data);
		rpcordma_free(receive);
	}
	waiting_ = nullptr;
	waiting_count_ = created_ = provided_ = 0;
}

Receive *ReceiveQueue::create_()
{
	/* In a completion that serves memory reclaim: never sleep, never wait for memory. */
	void *place = rpcordma_alloc(sizeof(Receive), RPCORDMA_ALLOC_ATOMIC);
	u8 *data = static_cast<u8 *>(rpcordma_alloc(buffer_size_, RPCORDMA_ALLOC_ATOMIC));

	if (!place || !data) {
		rpcordma_free(place);
		rpcordma_free(data);
		return nullptr;
	}
	Receive *receive = new (place) Receive;
	receive->data = data;
	if (rpcordma_dma_map(endpoint_, data, buffer_size_, RPCORDMA_DMA_FROM_DEVICE,
			     &receive->sge)) {
		rpcordma_free(data);
		rpcordma_free(place);
		return nullptr;
	}
	receive->cqe.init(RPCORDMA_CQE_RECEIVE, receive);
	receive->wr.cqe = &receive->cqe.cqe;
	receive->wr.sg_list = &receive->sge;
	receive->wr.num_sge = 1;
	receive->all_next = all_;
	all_ = receive;
	return receive;
}

bool ReceiveQueue::post_(Receive *first, u32 count)
{
	const rpcordma_recv_wr *bad;
	int rc = rpcordma_post_receive(endpoint_, &first->wr, &bad);

	trace::post(peer_, "receive", 0, count, true, rc);
	if (rc)
		trace::error(peer_, "Receives could not be posted", 0, rc);
	return rc == 0;
}

u32 ReceiveQueue::provide(u32 messages)
{
	const u32 target = min(min(messages, capacity_) + kBatch, capacity_);
	Receive *chain = nullptr;
	u32 count = 0;

	while (created_ < target) {
		Receive *receive = create_();

		if (!receive)
			break;
		receive->wr.next = chain ? &chain->wr : nullptr;
		chain = receive;
		created_++;
		count++;
	}
	/* What cannot be posted is not counted on; it is freed with the connection, which is on its way out. */
	if (chain && !post_(chain, count))
		created_ -= count;
	provided_ = created_ > kBatch ? created_ - kBatch : 0;
	return provided_;
}

void ReceiveQueue::recycle(Receive *receive)
{
	receive->wr.next = waiting_ ? &waiting_->wr : nullptr;
	waiting_ = receive;
	if (++waiting_count_ < kBatch)
		return;
	Receive *chain = waiting_;
	waiting_ = nullptr;
	waiting_count_ = 0;
	/* When posting fails the connection is on its way out, and destroy() frees the buffers. */
	(void)post_(chain, kBatch);
}

void ReceiveQueue::repost(Receive *receive)
{
	receive->wr.next = nullptr;
	(void)post_(receive, 1);
}

} // namespace rpcordma
