// SPDX-License-Identifier: GPL-2.0-only
/*
 * The regions of a connection that no sink has. Sinks are registered where the device asks for it (iWARP), or where
 * a Read of many pieces does better so (max_sgl_rd). Regions are made as sinks ask for them, by service threads, as
 * completions cannot.
 */
#pragma once

#include "module/rdma/region.hh"

namespace rpcordma {

/** Whoever has one guards it with a lock. */
class SinkRegions {
public:
	/** Take @count into @regions. Returns how many were there. */
	[[nodiscard]] u32 take(Region **regions, u32 count)
	{
		for (u32 i = 0; i < count; i++)
			if (!(regions[i] = free_.pop_front()))
				return i;
		return count;
	}
	void put(Region *region)
	{
		free_.push_front(region);
	}
	/** A sink had to do without @count: they are to be made. */
	void miss(u32 count)
	{
		missing_ = max(missing_, count);
	}
	/** How many are to be made; none from here on. */
	[[nodiscard]] u32 take_missing()
	{
		const u32 missing = missing_;

		missing_ = 0;
		return missing;
	}
	/** One to be destroyed; null: there is none. */
	[[nodiscard]] Region *disown()
	{
		return free_.pop_front();
	}

private:
	RegionList free_;
	u32 missing_ = 0;
};

} // namespace rpcordma
