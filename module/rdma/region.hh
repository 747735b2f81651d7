// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions: memory registered with FRWR, one for each RDMA segment.
 *
 * A region is free (on a pool, or on a call's spare list) or mapped (on its call's list of mapped
 * regions). From the moment its REG_MR is posted until its R_key is invalidated, the peer can reach the
 * memory; only then may it be unmapped, and only unmapped regions are free. Regions live as long as the
 * connection's protection domain and are destroyed with it, which also takes care of those that a flushed
 * work request left in an unknown state. But for those of a client that are discarded, as nobody knows whether they are
 * registered: these are destroyed earlier.
 */
#pragma once

#include "compat/port/port.h"
#include "module/base/list.hh"
#include "module/base/memory.hh"
#include "module/base/types.hh"
#include "module/rdma/trace.hh"

namespace rpcordma {

struct RegionTag;

struct Region : ListLink<RegionTag> {
	rpcordma_region *device = nullptr;
	rpcordma_reg_wr register_wr = {};
	rpcordma_send_wr invalidate_wr = {};
	rpcordma_mapping mapping = {};
	bool writable = false; /* by the peer: part of a Write or Reply chunk */
	bool gaps = false;     /* it may map memory with gaps: rpcordma_region_create()'s sg_gaps */
	/*
	 * Of a server's sink: registered still, for the device's own use alone, under the key that invalidate_wr
	 * has. That is to be posted before it is registered again.
	 */
	bool stale = false;
};

using RegionList = List<Region, RegionTag>;

/** Regions of either kind: without gaps, which the device registers and translates faster, and with them. */
class RegionSet {
public:
	[[nodiscard]] RegionList &of(bool gaps)
	{
		return lists_[gaps];
	}
	[[nodiscard]] const RegionList &of(bool gaps) const
	{
		return lists_[gaps];
	}
	/** Take over all of @other. */
	void add(RegionList &other)
	{
		while (Region *region = other.pop_front())
			of(region->gaps).push_back(region);
	}
	/** Likewise. */
	void add(RegionSet &other)
	{
		for (const bool gaps : {false, true})
			of(gaps).splice_back(other.of(gaps));
	}

private:
	RegionList lists_[2];
};

/** As rpcordma_region_create(), whose pages and gaps these are; null, with a trace, on failure. */
[[nodiscard]] inline Region *create_region(rpcordma_endpoint *endpoint, const rpcordma_peer *peer,
					   u32 pages, bool sg_gaps, rpcordma_alloc_how how)
{
	auto region = Owned<Region>::create(how);
	int error = 0;

	if (region)
		region->device = rpcordma_region_create(endpoint, pages, sg_gaps, &error);
	if (!region || !region->device) {
		trace::failure(peer, trace::Failure::region_failed, 0,
			       region ? error : to_errno(Error::no_memory));
		return nullptr;
	}
	region->gaps = sg_gaps;
	region->register_wr.wr.opcode = RPCORDMA_WR_REG_MR;
	region->invalidate_wr.opcode = RPCORDMA_WR_LOCAL_INV;
	return region.let_go();
}

/** @region is on no list, and no work request that the device has is about it. Process context. */
inline void destroy_region(Region *region)
{
	rpcordma_region_destroy(region->device);
	(void)Owned<Region>::take_over(region);
}

} // namespace rpcordma
