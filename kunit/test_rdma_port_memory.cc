// SPDX-License-Identifier: GPL-2.0-only
/* Memory and pages of the double of the port; see test_rdma_port_memory.hh. No tests here. */
#include "kunit/test_rdma_port.hh"

namespace rpcordma {

bool take_one(u32 &left)
{
	if (left == kNoLimit)
		return true;
	if (!left)
		return false;
	left--;
	return true;
}

Block *PortMemory::block_at(const void *memory)
{
	for (Block &block : blocks)
		if (block.memory == memory)
			return &block;
	page *p = memory ? page_at(memory) : nullptr;
	return p ? &p->block : nullptr;
}

page *PortMemory::page_at(const void *memory)
{
	for (page *p : all_pages)
		if (p && p->data == memory)
			return p;
	return nullptr;
}

Block *PortMemory::block_of(const rpcordma_sge &sge)
{
	for (Block &block : blocks)
		if (block.bounce && reinterpret_cast<__UINTPTR_TYPE__>(block.bounce) == sge.addr)
			return &block;
	for (page *p : all_pages)
		if (p && p->block.bounce &&
		    reinterpret_cast<__UINTPTR_TYPE__>(p->block.bounce) == sge.addr)
			return &p->block;
	return nullptr;
}

page *PortMemory::new_page()
{
	for (u32 turn = 0; turn < kMostPages; turn++) {
		const u32 i = next_page++ % kMostPages;

		if (all_pages[i])
			continue;
		page *p = static_cast<page *>(rpcordma_test_alloc(sizeof(page)));

		p->data = static_cast<u8 *>(rpcordma_test_alloc(kPageSize));
		/* What was there before is nobody's business. */
		__builtin_memset(p->data, 0xdd, kPageSize);
		p->slot = i;
		p->node = node;
		p->references = 1;
		p->block = {p->data, kPageSize, 0, RPCORDMA_DMA_TO_DEVICE, nullptr, true};
		all_pages[i] = p;
		pages++;
		return p;
	}
	EXPECT_TRUE(false);
	return nullptr;
}

void PortMemory::put_page(page *p)
{
	EXPECT_EQ(all_pages[p->slot], p);
	if (--p->references)
		return;
	EXPECT_EQ(p->block.mapped, 0);
	all_pages[p->slot] = nullptr;
	rpcordma_test_free(p->data, kPageSize);
	rpcordma_test_free(p, sizeof(*p));
	pages--;
}

void PortMemory::expect_none()
{
	EXPECT_EQ(pages, 0);
	EXPECT_EQ(allocations, 0);
	for (page *p : all_pages)
		if (p) {
			p->references = 1;
			put_page(p);
		}
	for (Block &block : blocks) {
		if (block.bounce)
			rpcordma_test_free(block.bounce, block.mapped);
		if (block.memory)
			rpcordma_test_free(block.memory, block.size);
		block = {};
	}
}

} // namespace rpcordma

using namespace rpcordma;

/* --- base.h --- */

rpcordma_u32 rpcordma_page_size(void)
{
	return 4096;
}

void *rpcordma_alloc(rpcordma_size size, rpcordma_alloc_how how)
{
	EXPECT_TRUE(how == RPCORDMA_ALLOC_ATOMIC || the_port->memory.may_sleep);
	Block *block = the_port->memory.block_at(nullptr);

	const bool this_one = !the_port->memory.allocation_refused_at;

	the_port->memory.allocation_refused_at -= the_port->memory.allocation_refused_at != kNoLimit;
	if (!block || this_one || !take_one(the_port->memory.allocations_left)) {
		the_port->memory.allocations_refused++;
		return nullptr;
	}
	*block = {rpcordma_test_alloc(size), size, 0, RPCORDMA_DMA_TO_DEVICE, nullptr, false};
	__builtin_memset(block->memory, 0, size);
	the_port->memory.allocations++;
	return block->memory;
}

void *rpcordma_alloc_large(rpcordma_size size, rpcordma_alloc_how how)
{
	return rpcordma_alloc(size, how);
}

void rpcordma_free(void *p)
{
	if (!p)
		return;
	Block *block = the_port->memory.block_at(p);

	EXPECT_NE(block, nullptr);
	if (!block)
		return;
	EXPECT_EQ(block->mapped, 0);
	/* Who looks at it still finds nothing of what was there. */
	__builtin_memset(block->memory, 0xdb, block->size);
	rpcordma_test_free(block->memory, block->size);
	*block = {};
	the_port->memory.allocations--;
}

void rpcordma_free_large(void *p)
{
	rpcordma_free(p);
}

/* --- svc.h --- */

rpcordma_u64 rpcordma_memory_size(void)
{
	return the_port->memory.size;
}

rpcordma_u32 rpcordma_node(void)
{
	return the_port->memory.node;
}

void *rpcordma_page_address(page *page)
{
	return page->data;
}

rpcordma_u32 rpcordma_pages_kept(page *const *pages, rpcordma_u32 count)
{
	u32 kept = 0;

	for (u32 i = 0; i < count; i++)
		kept += pages[i]->references - 1;
	return kept;
}

rpcordma_u32 rpcordma_node_count(void)
{
	return the_port->memory.nodes;
}

rpcordma_bool rpcordma_nodes_differ()
{
	return the_port->memory.nodes > 1;
}

rpcordma_u32 rpcordma_page_node(const page *page)
{
	return page->node;
}

rpcordma_u32 rpcordma_pages_alloc(page **pages, rpcordma_u32 count, rpcordma_u32 node,
				  rpcordma_alloc_how how)
{
	EXPECT_TRUE(how == RPCORDMA_ALLOC_ATOMIC ||
		    (the_port->memory.may_sleep && !the_port->sync.locks_held));
	/* What was there is overwritten in any case. */
	for (u32 i = 0; i < count; i++)
		pages[i] = nullptr;
	for (u32 i = 0; i < count; i++) {
		if (!take_one(the_port->memory.pages_left))
			return i;
		pages[i] = the_port->memory.new_page();
		pages[i]->node = node + (node == the_port->memory.full_node);
	}
	return count;
}

void rpcordma_pages_release(page **pages, rpcordma_u32 count)
{
	if (!the_port->memory.may_sleep)
		the_port->memory.most_released = max(the_port->memory.most_released, count);
	for (u32 i = 0; i < count; i++)
		if (pages[i])
			the_port->memory.put_page(pages[i]);
}

void rpcordma_pages_write(page **pages, rpcordma_u32 offset, const void *from, rpcordma_u32 length)
{
	for (u32 i = 0; i < length; i++, offset++)
		pages[offset / kPage]->data[offset % kPage] = static_cast<const u8 *>(from)[i];
}
