// SPDX-License-Identifier: GPL-2.0-only
/*
 * A Receive: a buffer, its mapping, its work request, and the message that came in it, which is decoded
 * once and stays with it. Both ends post these; which, when and how many is theirs to say.
 */
#pragma once

#include "compat/port/port.h"
#include "module/base/memory.hh"
#include "module/base/span.hh"
#include "module/rdma/cqe.hh"
#include "module/rdma/trace.hh"
#include "xdr/message.hh"

namespace rpcordma {

struct Receive {
	OwnedCqe<Receive> cqe;
	rpcordma_recv_wr wr = {};
	rpcordma_sge sge = {};
	Receive *all_next = nullptr;
	/* The next transmission of the same message; or on its holder's list of Receives that nobody uses. */
	Receive *next = nullptr;
	Buffer buffer;
	u32 length = 0; /* of what came */
	int flags = 0;	/* of its completion */
	u32 invalidated_rkey = 0;
	xdr::Message message; /* points into the buffer */

	/** All that came. */
	[[nodiscard]] Bytes bytes() const
	{
		return {buffer.data(), length};
	}
};

/** What all Receives of a connection have in common. Its owner keeps calls apart. */
class ReceiveMaker {
public:
	/** @buffer_size: bytes that the peer may send at once. @kind: whose completions they have. */
	void init(rpcordma_endpoint *endpoint, const rpcordma_peer *peer, rpcordma_cqe_kind kind,
		  u32 buffer_size)
	{
		endpoint_ = endpoint;
		peer_ = peer;
		kind_ = kind;
		buffer_size_ = buffer_size;
	}

	/** A new one, mapped; null without memory. It is nobody's before own(). @how names the contexts. */
	[[nodiscard]] Receive *create(rpcordma_alloc_how how) const
	{
		auto receive = Owned<Receive>::create(how);

		if (!receive || !receive->buffer.create_near(endpoint_, buffer_size_, how)) {
			trace::failure(peer_, trace::Failure::receive_alloc_failed, 0,
				       Error::no_memory);
			return nullptr;
		}
		if (const int rc = rpcordma_dma_map(endpoint_, receive->buffer.data(), buffer_size_,
						    RPCORDMA_DMA_FROM_DEVICE, &receive->sge)) {
			trace::failure(peer_, trace::Failure::receive_map_failed, 0, rc);
			return nullptr;
		}
		receive->cqe.init(kind_, receive.get());
		receive->wr.cqe = &receive->cqe.cqe;
		receive->wr.sg_list = &receive->sge;
		receive->wr.num_sge = 1;
		return receive.let_go();
	}
	/** destroy() is to free @receive. */
	void own(Receive *receive)
	{
		receive->all_next = all_;
		all_ = receive;
	}
	/** Post @count, chained by wr.next. False: the connection is on its way out. Any context. */
	bool post(const Receive *first, u32 count) const
	{
		const rpcordma_recv_wr *bad;

		/* Before they can complete. */
		if (trace::on(RPCORDMA_TRACE_RECEIVE_POSTED))
			trace_each_(&first->wr);
		const int rc = rpcordma_post_receive(endpoint_, &first->wr, &bad);
		if (trace::on(RPCORDMA_TRACE_POST))
			rpcordma_trace_post(endpoint_, RPCORDMA_TRACE_RECEIVE_QUEUE, "receive", 0,
					    count, true, rc, first);
		if (rc)
			trace::failure(peer_, trace::Failure::receive_post_failed, 0, rc);
		return rc == 0;
	}
	/** @receive has completed with success: what came is the CPU's. Any context. */
	void arrived(Receive *receive, const rpcordma_completion &completion) const
	{
		receive->length = completion.byte_len;
		receive->flags = completion.flags;
		receive->invalidated_rkey = completion.invalidated_rkey;
		receive->next = nullptr;
		rpcordma_dma_sync_for_cpu(endpoint_, &receive->sge, completion.byte_len);
	}
	/** Free all. The queue pair is drained or was never there. Process context. */
	void destroy()
	{
		while (Receive *receive = all_) {
			all_ = receive->all_next;
			rpcordma_dma_unmap(endpoint_, &receive->sge, buffer_size_,
					   RPCORDMA_DMA_FROM_DEVICE);
			(void)Owned<Receive>::take_over(receive);
		}
	}
	[[nodiscard]] u32 buffer_size() const
	{
		return buffer_size_;
	}

private:
	[[gnu::noinline]] void trace_each_(const rpcordma_recv_wr *wr) const
	{
		for (; wr; wr = wr->next)
			rpcordma_trace_receive_posted(endpoint_,
						      OwnedCqe<Receive>::owner_of(wr->cqe));
	}

	rpcordma_endpoint *endpoint_ = nullptr;
	const rpcordma_peer *peer_ = nullptr;
	Receive *all_ = nullptr;
	rpcordma_cqe_kind kind_ = RPCORDMA_CQE_RECEIVE;
	u32 buffer_size_ = 0;
};

} // namespace rpcordma
