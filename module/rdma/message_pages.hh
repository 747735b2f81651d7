// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pages behind the head of a message's buffer, where one allocation would be too much to hope for: single
 * pages, mapped for the device, and the SGEs of head and pages together. A message fills the head first, then
 * the pages in order.
 */
#pragma once

#include "compat/port/port.h"
#include "module/base/memory.hh"
#include "module/base/span.hh"

namespace rpcordma {

class MessagePages {
public:
	/** Most pages of a message: what module parameter version2_pages may be. */
	static constexpr u32 kMost = 16;

	/** What the pages of one connection have in common. */
	struct Layout {
		u32 count = 0; /* 0: messages have none */
		u32 page_size = 0;
		u32 node = 0; /* the device's NUMA node */

		[[nodiscard]] constexpr u32 bytes() const
		{
			return count * page_size;
		}
	};

	/**
	 * Have pages as @layout says, mapped for @endpoint's device. False: no memory, or no mapping, and there are
	 * none. They are to be destroyed before this goes. @how names the contexts.
	 */
	[[nodiscard]] bool create(rpcordma_endpoint *endpoint, const Layout &layout,
				  rpcordma_dma direction, rpcordma_alloc_how how);
	/** Unmap and release them. The device has nothing of them. Any context. */
	void destroy(rpcordma_endpoint *endpoint);
	/**
	 * Exchange those that somebody else still has a reference to for others, so that a device may write here. False:
	 * no memory or no mapping for one, which stays. The device has nothing of them. Any context, as @how is.
	 */
	[[nodiscard]] bool renew(rpcordma_endpoint *endpoint, rpcordma_alloc_how how);

	/** Make the first @length bytes of a message with @head what the device gets or gives. Returns the number of SGEs. */
	[[nodiscard]] u32 describe(const rpcordma_sge &head, u32 length);
	/** The SGEs of all. @head: the head's, whole. */
	[[nodiscard]] u32 describe_all(const rpcordma_sge &head)
	{
		return describe(head, head.length + bytes());
	}
	[[nodiscard]] rpcordma_sge *sges()
	{
		return sges_;
	}
	/** The first @length bytes of the pages came from, or go to, the device. */
	void sync_for_cpu(rpcordma_endpoint *endpoint, u32 length) const;
	void sync_for_device(rpcordma_endpoint *endpoint, u32 length) const;

	[[nodiscard]] u32 count() const
	{
		return layout_.count;
	}
	/** Of all of them. */
	[[nodiscard]] u32 bytes() const
	{
		return layout_.bytes();
	}
	/** The pages, for whoever takes them as pages. They stay this one's. */
	[[nodiscard]] page **pages()
	{
		return pages_;
	}
	/** The bytes of the page @i, which is there. */
	[[nodiscard]] MutableBytes whole_page(u32 i) const
	{
		return {static_cast<u8 *>(rpcordma_page_address(pages_[i])), layout_.page_size};
	}
	/** The bytes from @offset to the end of the page that has it. */
	[[nodiscard]] MutableBytes piece(u32 offset) const
	{
		const u32 in_page = offset & (layout_.page_size - 1);

		return {static_cast<u8 *>(rpcordma_page_address(pages_[offset / layout_.page_size])) +
				in_page,
			layout_.page_size - in_page};
	}

private:
	[[nodiscard]] bool map_(rpcordma_endpoint *endpoint, u32 i);

	Layout layout_;
	rpcordma_dma direction_ = RPCORDMA_DMA_FROM_DEVICE;
	page *pages_[kMost] = {};
	rpcordma_sge mapped_[kMost] = {}; /* each page whole */
	rpcordma_sge sges_[1 + kMost] = {};
};

} // namespace rpcordma
