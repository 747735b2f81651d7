// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory as the kernel and its devices have it: allocations that fail on demand, pages with references,
 * and DMA mappings. What a device does with memory goes through a mapping, by an address that is never
 * used twice: an access without a live mapping, beyond it or in the wrong direction is the run's failure,
 * and so is memory that is freed while it is mapped.
 *
 * A run either has devices that see memory itself, or bounce buffers: then a mapping is a copy, made when
 * memory is mapped or synced for the device, and copied back when it is unmapped or synced for the CPU.
 */
#pragma once

#include <vector>

#include "compat/port/port.h"
#include "selftests/sim/world.hh"

#ifndef SIM_PAGE_SIZE
#define SIM_PAGE_SIZE 4096
#endif
constexpr sim::u32 kPageSize = SIM_PAGE_SIZE;

struct page {
	sim::u8 *data;
	sim::u32 references;
	sim::u32 mapped; /* DMA mappings that cover a part of it */
	sim::u32 node;
	sim::u32 lent; /* to so many calls of the service, which have no reference */
};

namespace sim {

/** What a run has of memory; everything must be back when it goes. */
class Memory {
public:
	Memory();
	~Memory();

	bool bounce = false;
	/* Bounce buffers for a part of a page may be elsewhere in their page than what they stand for. */
	bool moves = false;
	u64 allocations = 0;
	page *scratch = nullptr; /* where peers may write what nobody reads */
};
extern Memory *memory;

/** Zeroed; null when the faults say so. @how: who may sleep. */
void *allocate(u32 size, rpcordma_alloc_how how);
/** As that, for the simulation's own use: never fails, is not checked for leaks. */
void release(void *at);

page *page_create();
void page_get(page *p);
void page_put(page *p);
/** The page that @at lies in, or null: it is other memory. */
page *page_of(const void *at);

/* --- DMA --- */

/** Returns the device's address, of the same offset in a page as @at; 0 when the faults say so. */
u64 dma_map(void *at, u32 length, rpcordma_dma direction);
/** @take_back: with what the device wrote, as if it were synced before. */
void dma_unmap(u64 address, u32 length, rpcordma_dma direction, bool take_back = true);
void dma_sync(u64 address, u32 length, rpcordma_dma direction);
enum class Access { read, write }; /* by the device */
/** The device moves bytes between @buffer and what is mapped at @address, over several mappings maybe. */
void dma_access(u64 address, u32 length, void *buffer, Access access);
/** Told of what the device writes to memory, also where that shows later only; mostly empty. */
extern std::function<void(u8 *to, const u8 *from, u32 length)> device_wrote;
/** Whether a page at the device's @address is lent to the service, or somebody has a reference besides its owner. */
bool dma_is_others(u64 address, u32 length);
/** The memory that is mapped at @address is an RPC's, mapped for this alone; and whether it is. */
void dma_lend(u64 address);
bool dma_is_lent(u64 address);
/** Whether any byte of that memory is mapped. */
bool dma_is_mapped(const void *at, u32 length);

/** Runs of memory, as a device is to see them: scatterlist and mapping in one. */
class Scatter {
public:
	struct Run {
		u8 *at;
		u32 length;
		u64 address; /* while mapped */
	};
	explicit Scatter(u32 room) : room_(room)
	{
	}
	void reset();
	/** False: there is no room. @longest: bytes of a run, or 0. */
	bool add(void *at, u32 length, u32 longest = 0);
	bool add_pages(page *const *pages, u32 in_page, u32 length, u32 longest = 0);
	/** Bytes [@offset, @offset + @length) of @buf; false also when there are not so many. */
	bool add_buf(const rpcordma_xdr_buf *buf, u32 offset, u32 length, u32 longest = 0);
	/** False when the faults say so. */
	bool map(rpcordma_dma direction);
	void unmap();
	bool mapped() const
	{
		return mapped_;
	}
	const std::vector<Run> &runs() const
	{
		return runs_;
	}

private:
	u32 room_;
	bool mapped_ = false;
	rpcordma_dma direction_ = RPCORDMA_DMA_TO_DEVICE;
	std::vector<Run> runs_;
};

/** Visit the pieces, contiguous in memory, of a part of an xdr_buf; false if there are not so many bytes. */
bool each_piece(const rpcordma_xdr_buf *buf, u32 offset, u32 length,
		const std::function<void(u8 *, u32)> &visit);

} // namespace sim
