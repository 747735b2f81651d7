// SPDX-License-Identifier: GPL-2.0-only
/*
 * The buffer that one Send goes out of: transport header and inline bytes. It is a head, and pages behind it for a
 * message that is longer. It is made and DMA-mapped when first needed, stays mapped as long as its connection lasts,
 * and belongs to the device from the post of the Send until it is known to be done.
 */
#pragma once

#include "compat/port/port.h"
#include "module/base/memory.hh"
#include "module/base/span.hh"
#include "module/rdma/message_pages.hh"

namespace rpcordma {

class SendBuffer {
public:
	/** The Send itself: its owner sets opcode, flags and completion entry. */
	rpcordma_send_wr wr = {};

	/** Bytes of the head; zero before there is one. */
	[[nodiscard]] u32 capacity() const
	{
		return u32(buffer_.size());
	}
	[[nodiscard]] MutableBytes room() const
	{
		return buffer_.bytes();
	}
	[[nodiscard]] bool mapped() const
	{
		return mapped_;
	}
	/**
	 * Have room for @size bytes. One that is mapped is known to a connection, and stays as it is, as does one
	 * that cannot grow for want of memory: its owner sends that much less inline. False: there is none.
	 */
	[[nodiscard]] bool ensure(u32 size, rpcordma_alloc_how how)
	{
		return enough_(size) || buffer_.create(size, how) || buffer_;
	}
	/** The same, in memory near the device of @endpoint, whose it will stay. */
	[[nodiscard]] bool ensure_near(const rpcordma_endpoint *endpoint, u32 size,
				       rpcordma_alloc_how how)
	{
		return enough_(size) || buffer_.create_near(endpoint, size, how) || buffer_;
	}
	/** Have it mapped for @endpoint's device. There is one. Any context. */
	[[nodiscard]] bool map(rpcordma_endpoint *endpoint)
	{
		if (!mapped_)
			mapped_ = !rpcordma_dma_map(endpoint, buffer_.data(), capacity(),
						    RPCORDMA_DMA_TO_DEVICE, &sge_);
		return mapped_;
	}
	/** Bytes of head and pages. */
	[[nodiscard]] u32 whole_capacity() const
	{
		return capacity() + (pages_ ? pages_->bytes() : 0);
	}
	/**
	 * Have pages as @layout says, until it is unmapped. Nobody uses it. False: no memory. @how names the contexts.
	 */
	[[nodiscard]] bool extend(rpcordma_endpoint *endpoint, const MessagePages::Layout &layout,
				  rpcordma_alloc_how how)
	{
		if (pages_)
			return true;
		auto pages = Owned<MessagePages>::create(how);
		if (!pages || !pages->create(endpoint, layout, RPCORDMA_DMA_TO_DEVICE, how))
			return false;
		pages_ = static_cast<Owned<MessagePages> &&>(pages);
		return true;
	}
	/** What is behind the first @used bytes, less than the whole, as far as it lies in one piece. */
	[[nodiscard]] MutableBytes room_from(u32 used) const
	{
		if (__builtin_expect(used < capacity(), 1))
			return {buffer_.data() + used, buffer_.size() - used};
		return pages_->piece(used - capacity());
	}
	/** Undo map() and extend(), where they were done: @endpoint's queue pair is drained. */
	void unmap(rpcordma_endpoint *endpoint)
	{
		if (pages_) {
			pages_->destroy(endpoint);
			pages_ = {};
		}
		if (mapped_)
			rpcordma_dma_unmap(endpoint, &sge_, capacity(), RPCORDMA_DMA_TO_DEVICE);
		mapped_ = false;
	}
	/** Hand the first @length bytes to the device, and make them what the Send sends. Mapped. */
	void hand_over(rpcordma_endpoint *endpoint, u32 length)
	{
		sge_.length = min(length, capacity());
		rpcordma_dma_sync_for_device(endpoint, &sge_, sge_.length);
		if (__builtin_expect(length > capacity(), 0)) {
			pages_->sync_for_device(endpoint, length - capacity());
			wr.num_sge = int(pages_->describe(sge_, length));
			wr.sg_list = pages_->sges();
		} else {
			wr.sg_list = &sge_;
			wr.num_sge = 1;
		}
	}
	/**
	 * The same, the first @length bytes of the head, and what @sges describe behind the first of them, which is for the head.
	 * They stay until the Send is done.
	 */
	void hand_over_with(rpcordma_endpoint *endpoint, u32 length, Span<rpcordma_sge> sges)
	{
		sge_.length = length;
		rpcordma_dma_sync_for_device(endpoint, &sge_, length);
		sges[0] = sge_;
		wr.sg_list = sges.data();
		wr.num_sge = int(sges.size());
	}

private:
	[[nodiscard]] bool enough_(u32 size) const
	{
		return capacity() >= size || mapped_;
	}

	Buffer buffer_;
	Owned<MessagePages> pages_;
	rpcordma_sge sge_ = {};
	bool mapped_ = false;
};

} // namespace rpcordma
