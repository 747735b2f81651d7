// SPDX-License-Identifier: GPL-2.0-only
/* Pages behind the head of a message's buffer. See message_pages.hh. */

#include "module/rdma/message_pages.hh"

namespace rpcordma {

bool MessagePages::map_(rpcordma_endpoint *endpoint, u32 i)
{
	/* Whoever reads more than has come reads nobody's memory. */
	if (direction_ == RPCORDMA_DMA_FROM_DEVICE)
		__builtin_memset(rpcordma_page_address(pages_[i]), 0, layout_.page_size);
	return !rpcordma_dma_map(endpoint, rpcordma_page_address(pages_[i]), layout_.page_size,
				 direction_, &mapped_[i]);
}

bool MessagePages::create(rpcordma_endpoint *endpoint, const Layout &layout, rpcordma_dma direction,
			  rpcordma_alloc_how how)
{
	u32 mapped = 0;

	layout_ = layout;
	direction_ = direction;
	const u32 there = rpcordma_pages_alloc(pages_, layout.count, layout.node, how);
	if (there == layout.count) {
		while (mapped < there && map_(endpoint, mapped))
			mapped++;
		if (mapped == there)
			return true;
	}
	for (u32 i = 0; i < mapped; i++)
		rpcordma_dma_unmap(endpoint, &mapped_[i], layout.page_size, direction);
	rpcordma_pages_release(pages_, there);
	layout_.count = 0;
	return false;
}

void MessagePages::destroy(rpcordma_endpoint *endpoint)
{
	for (u32 i = 0; i < layout_.count; i++)
		rpcordma_dma_unmap(endpoint, &mapped_[i], layout_.page_size, direction_);
	rpcordma_pages_release(pages_, layout_.count);
	layout_.count = 0;
}

bool MessagePages::renew(rpcordma_endpoint *endpoint, rpcordma_alloc_how how)
{
	for (u32 i = 0; i < layout_.count; i++) {
		page *const old = pages_[i];
		const rpcordma_sge old_sge = mapped_[i];

		if (!rpcordma_pages_kept(&old, 1))
			continue;
		if (!rpcordma_pages_alloc(&pages_[i], 1, layout_.node, how)) {
			pages_[i] = old;
			return false;
		}
		if (!map_(endpoint, i)) {
			rpcordma_pages_release(&pages_[i], 1);
			pages_[i] = old;
			mapped_[i] = old_sge;
			return false;
		}
		rpcordma_dma_unmap(endpoint, &old_sge, layout_.page_size, direction_);
		page *left = old;
		rpcordma_pages_release(&left, 1);
	}
	return true;
}

u32 MessagePages::describe(const rpcordma_sge &head, u32 length)
{
	u32 n = 1;

	sges_[0] = head;
	sges_[0].length = min(head.length, length);
	length -= sges_[0].length;
	for (u32 i = 0; i < layout_.count && length; i++) {
		sges_[n] = mapped_[i];
		sges_[n].length = min(length, layout_.page_size);
		length -= sges_[n++].length;
	}
	return n;
}

void MessagePages::sync_for_cpu(rpcordma_endpoint *endpoint, u32 length) const
{
	for (u32 i = 0; i < layout_.count && length; i++) {
		const u32 n = min(length, layout_.page_size);

		rpcordma_dma_sync_for_cpu(endpoint, &mapped_[i], n);
		length -= n;
	}
}

void MessagePages::sync_for_device(rpcordma_endpoint *endpoint, u32 length) const
{
	for (u32 i = 0; i < layout_.count && length; i++) {
		const u32 n = min(length, layout_.page_size);

		rpcordma_dma_sync_for_device(endpoint, &mapped_[i], n);
		length -= n;
	}
}

} // namespace rpcordma
