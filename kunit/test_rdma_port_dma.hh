// SPDX-License-Identifier: GPL-2.0-only
/*
 * DMA as the double of the port does it: mappings of blocks of memory, bulk mappings and regions, each over
 * bounce buffers. The device works on a copy that mapping makes; unmapping, or syncing, copies it back over
 * all of the memory if it is the device that writes. So what the CPU writes to mapped memory is lost, and
 * what it reads there is stale, as it is where DMA cannot reach memory itself. See test_rdma_port.hh.
 */
#pragma once

#include "kunit/test_rdma_port_memory.hh"

namespace rpcordma {

/** A piece of memory that is contiguous, and while it is mapped its bounce buffer. */
struct DmaPiece {
	u8 *memory;
	u32 length;
	u8 *bounce;

	void map();
	void unmap(rpcordma_dma direction);
};

} // namespace rpcordma

/* What is opaque behind the port. */
struct rpcordma_region {
	static constexpr rpcordma::u32 kPieces = 300;
	rpcordma::u32 slot;
	rpcordma::u32 pages_most;
	rpcordma::u32 key;	  /* the fresh one, of the mapping */
	rpcordma::u32 registered; /* as the device knows it; 0: it does not */
	bool mapped, writable, gaps;
	int access; /* as it is registered */
	/* See test_rdma_port_client.hh. */
	bool map_untold, unmap_untold, invalidation_told, discard_told;
	rpcordma::u32 length, count;
	rpcordma::u64 iova;
	rpcordma::DmaPiece pieces[kPieces];
};

namespace rpcordma {

struct PortDma {
	static constexpr u32 kMostRegions = 40;

	/* Failures to come: how many more of each go well. */
	u32 mappings_left = kNoLimit;
	u32 bulks_left = kNoLimit;
	u32 bulk_maps_left = kNoLimit;
	u32 regions_left = kNoLimit;
	u32 most_regions = 16; /* at once */
	u32 region_maps_left = kNoLimit;
	u32 scratch_maps_left = kNoLimit;
	/* Bounce buffers do not keep the place in a page: what is of more than one piece is of whole pages. */
	bool places_lost = false;
	/* What bulk_maps_left does not let be mapped has an absent page. */
	bool pages_absent = false;
	bool unmappable = false; /* no region can be mapped, ever */

	/* What there is now. */
	u32 mappings = 0; /* of blocks */
	u32 bulks = 0, bulk_maps = 0;
	u32 regions = 0, region_maps = 0;
	u32 regions_made = 0;	   /* ever */
	u32 regions_with_gaps = 0; /* of the regions */

	/** The region that the device knows by @key; null without. */
	[[nodiscard]] rpcordma_region *region_of(u32 key) const;
	/** The region that the device knows by @key is mapped for another use by now. */
	[[nodiscard]] bool is_stale(u32 key) const;
	/** The device forgets @key. False: it did not know it. */
	[[nodiscard]] bool invalidate(u32 key);
	/** Byte @at of what @region is mapped to, as the device has it. */
	[[nodiscard]] static u8 *byte_of(const rpcordma_region &region, u64 at);
	/** Byte @at of what @sge describes: mapped memory, or a region's. As the device has it. */
	[[nodiscard]] u8 *byte_of(const rpcordma_sge &sge, u32 at) const;
	/** Whatever is left is a failure of the case. */
	void expect_none() const;

	rpcordma_region *all_regions[kMostRegions] = {};
	/* Of each whose runs are known, by which pages. */
	struct KnownRuns {
		const rpcordma_runs *runs;
		page *pages[RPCORDMA_RUNS];
	} known_runs[64] = {};
	DmaPiece page_maps[256] = {}; /* those of single pages; without a bounce buffer: none */
	u32 last_key = 1000;
};

} // namespace rpcordma
