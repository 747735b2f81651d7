// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions: memory registered with FRWR, one for each RDMA segment.
 *
 * A region is free (on a pool, or on a call's spare list) or mapped (on its call's list of mapped
 * regions). From the moment its REG_MR is posted until its R_key is invalidated, the peer can reach the
 * memory; only then may it be unmapped, and only unmapped regions are free. Regions live as long as the
 * connection's protection domain and are destroyed with it, which also takes care of those that a flushed
 * work request left in an unknown state.
 */
#pragma once

#include "compat/port/port.h"
#include "module/base/list.hh"
#include "module/base/types.hh"

namespace rpcordma {

struct RegionTag;

struct Region : ListLink<RegionTag> {
	rpcordma_region *device = nullptr;
	rpcordma_reg_wr register_wr = {};
	rpcordma_send_wr invalidate_wr = {};
	rpcordma_mapping mapping = {};
	bool writable = false; /* by the peer: part of a Write or Reply chunk */
};

using RegionList = List<Region, RegionTag>;

} // namespace rpcordma
