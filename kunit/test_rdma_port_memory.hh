// SPDX-License-Identifier: GPL-2.0-only
/* Memory as the double of the port has it: allocations and pages. See test_rdma_port.hh. */
#pragma once

#include "compat/port/port.h"
#include "kunit/testing.hh"

namespace rpcordma {

/** So many of something go well, and the next one does not. */
constexpr u32 kNoLimit = ~0u;

/** Use up one of what may go well; false when there is none left. */
[[nodiscard]] bool take_one(u32 &left);

/** What rpcordma_alloc() gave; while it is mapped, with the bounce buffer that the device has of it. */
struct Block {
	void *memory;
	usize size;
	u32 mapped; /* bytes; 0: not mapped */
	rpcordma_dma direction;
	u8 *bounce; /* null: not mapped */
	bool near;  /* the device */
};

} // namespace rpcordma

/* What is opaque behind the port. */
struct page {
	rpcordma::u8 *data;
	rpcordma::u32 slot; /* of the table of all pages */
	rpcordma::u32 node;
	rpcordma::u32 references;
	rpcordma::Block block; /* for who maps it alone */
};

namespace rpcordma {

struct PortMemory {
	static constexpr u32 kMostBlocks = 1024; /* allocations at once */
	static constexpr u32 kMostPages = 4096;
	/** Small, so that the largest message is small too. */
	static constexpr u32 kPageSize = 256;

	/* Failures to come: how many more of each go well. */
	u32 allocations_left = kNoLimit;
	u32 pages_left = kNoLimit;
	/* Only the one after so many allocations has none. */
	u32 allocation_refused_at = kNoLimit;

	u64 size = 0; /* of the machine's */

	/* The NUMA node of the CPU, and of what new_page() gives. */
	u32 node = 0;
	u32 nodes = 3;
	/* Has no pages: who wants some of it gets those of the next. */
	u32 full_node = kNoLimit;

	/* Whether an allocation may sleep now. */
	bool may_sleep = true;

	/* What there is now. */
	u32 allocations = 0;
	u32 pages = 0;

	/* What there ever was. */
	u32 allocations_refused = 0;
	u32 most_released = 0; /* pages, by a completion at once */

	/** The block at @memory, a page's too, or a free one when that is null; null when there is none. */
	[[nodiscard]] Block *block_at(const void *memory);
	/** The block that is mapped as @sge says; null when there is none. */
	[[nodiscard]] Block *block_of(const rpcordma_sge &sge);
	[[nodiscard]] page *new_page();
	/** Drop a reference. */
	void put_page(page *p);
	/** Whatever is left is a failure of the case; it is freed. */
	void expect_none();

	Block blocks[kMostBlocks] = {};
	/** The page whose data lie at @memory; null: none. */
	[[nodiscard]] page *page_at(const void *memory);

	page *all_pages[kMostPages] = {};
	u32 next_page = 0;
};

constexpr u32 kPage = PortMemory::kPageSize;

} // namespace rpcordma
