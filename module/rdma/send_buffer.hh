// SPDX-License-Identifier: GPL-2.0-only
/*
 * The buffer that one Send goes out of: transport header and inline bytes. It is made and DMA-mapped when first
 * needed, stays mapped as long as its connection lasts, and belongs to the device from the post of the
 * Send until it is known to be done.
 */
#pragma once

#include "compat/port/port.h"
#include "module/base/memory.hh"
#include "module/base/span.hh"

namespace rpcordma {

class SendBuffer {
public:
	/** The Send itself: its owner sets opcode, flags and completion entry. */
	rpcordma_send_wr wr = {};

	/** Bytes it holds; zero before there is one. */
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
	/** Undo map(), if it was mapped: @endpoint's queue pair is drained. */
	void unmap(rpcordma_endpoint *endpoint)
	{
		if (mapped_)
			rpcordma_dma_unmap(endpoint, &sge_, capacity(), RPCORDMA_DMA_TO_DEVICE);
		mapped_ = false;
	}
	/** Hand the first @length bytes to the device, and make them what the Send sends. Mapped. */
	void hand_over(rpcordma_endpoint *endpoint, u32 length)
	{
		sge_.length = length;
		wr.sg_list = &sge_;
		wr.num_sge = 1;
		rpcordma_dma_sync_for_device(endpoint, &sge_, length);
	}

private:
	[[nodiscard]] bool enough_(u32 size) const
	{
		return capacity() >= size || mapped_;
	}

	Buffer buffer_;
	rpcordma_sge sge_ = {};
	bool mapped_ = false;
};

} // namespace rpcordma
