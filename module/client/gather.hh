// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page data of a call that its Sends read where they lie: mapped for the device, and described by these Sends' SGEs. One for a
 * slot, made when first needed, and kept.
 *
 * The device reads them until the last of these Sends is done, which is signaled for that: its completion stands for those before
 * it as well. The reply comes through another queue and may be seen before it, and the call may be given up. Whoever comes with
 * either finds the Sends out, and leaves word that he waits; or he finds them done, and goes on:
 *
 *	(1A) the Send's completion unmaps the pages,		(2A) who waits has written down what for,
 *	(1B) and says that the Sends are done;			(2B) and says that they are awaited, unless they are done.
 *	(1C) if they were awaited, it goes on with what he wrote down.
 *
 * One at most waits: a reply that waits keeps its task, which therefore does not give the call up; and a call that is given up is
 * found by no reply. When the queue pair is drained, the drain does it (close.cc).
 */
#pragma once

#include <atomic>

#include "compat/port/port.h"
#include "module/chunk/placement.hh"
#include "module/protocol/reduction.hh"
#include "module/rdma/cqe.hh"
#include "module/rdma/message_pages.hh"
#include "module/rdma/send_queue.hh"

namespace rpcordma {

class GatheredPages {
public:
	/** Most SGEs of one Send for such pages, which may begin within one. */
	static constexpr u32 kMostSges = MessagePages::kMost + 1;

	/** Of its last Send, while they are out. */
	OwnedCqe<rpcordma_call> cqe;

	/**
	 * Map the page data of @buf for the @count transmissions that place them in @room, with up to @most SGEs in each. None is
	 * mapped. False: none is now, as it takes more SGEs, or there is no mapping. The sender.
	 */
	[[nodiscard]] bool map(rpcordma_endpoint *endpoint, const rpcordma_xdr_buf &buf,
			       const properties::Structure &room, u32 count, u32 most)
	{
		u32 at = 0;

		for (; transmissions_ < count; transmissions_++) {
			Part &part = parts_[transmissions_];
			const u32 n = chunk::item_bytes(room, buf.page_length, transmissions_);
			const int rc = rpcordma_pages_map(endpoint, RPCORDMA_DMA_TO_DEVICE,
							  buf.pages, buf.page_base + at, n,
							  part.sges + 1, min(most, kMostSges));

			if (rc <= 0) {
				unmap(endpoint);
				return false;
			}
			part.mapped = u32(rc);
			at += n;
		}
		return true;
	}
	/** Undo that, if it was done: the device has nothing of them, or has done with them. */
	void unmap(rpcordma_endpoint *endpoint)
	{
		while (transmissions_) {
			const Part &part = parts_[--transmissions_];

			rpcordma_pages_unmap(endpoint, RPCORDMA_DMA_TO_DEVICE, part.sges + 1,
					     part.mapped);
		}
	}
	/** They are mapped. The sender, until it posts. */
	[[nodiscard]] bool mapped() const
	{
		return transmissions_ != 0;
	}
	/** The SGEs of transmission @i: the first is for its head. */
	[[nodiscard]] Span<rpcordma_sge> sges(u32 i)
	{
		return {parts_[i].sges, 1 + parts_[i].mapped};
	}

	/** The Sends of @call are about to be posted, the last one with our completion entry. They are counted in @queue. */
	void begin(rpcordma_call *call, SendQueue &queue)
	{
		cqe.init(RPCORDMA_CQE_GATHERED, call);
		counted_ = queue.signal_unmarked();
		sends_.store(Sends::out, std::memory_order_release);
	}
	/** The device may read the pages. */
	[[nodiscard]] bool are_out() const
	{
		return sends_.load(std::memory_order_acquire) != Sends::done;
	}
	/** Have end() say that somebody waits. False: they are done already. (2B) */
	[[nodiscard]] bool await()
	{
		Sends expected = Sends::out;

		return sends_.compare_exchange_strong(expected, Sends::awaited,
						      std::memory_order_acq_rel);
	}
	/** The last Send is done, well or not. Returns whether that is awaited; if not, the call may be another one's now. (1) */
	[[nodiscard]] bool end(rpcordma_endpoint *endpoint, SendQueue &queue)
	{
		queue.completed_unmarked(counted_);
		unmap(endpoint);
		return sends_.exchange(Sends::done, std::memory_order_acq_rel) == Sends::awaited;
	}
	/** The queue pair is drained: no completion will come. */
	void drained(rpcordma_endpoint *endpoint)
	{
		unmap(endpoint);
		sends_.store(Sends::done, std::memory_order_relaxed);
	}

private:
	struct Part {
		rpcordma_sge sges[1 + kMostSges] = {};
		u32 mapped = 0; /* SGEs behind the first */
	};
	enum class Sends : u8 { done, out, awaited };

	std::atomic<Sends> sends_{Sends::done};
	u32 transmissions_ = 0; /* whose parts are mapped */
	u64 counted_ = 0;	/* in the send queue, when they were posted */
	Part parts_[protocol::kCallTransmissions];
};

} // namespace rpcordma
