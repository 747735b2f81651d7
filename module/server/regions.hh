// SPDX-License-Identifier: GPL-2.0-only
/*
 * The regions of a connection that no sink has. Sinks are registered where the device asks for it (iWARP), or where
 * a Read of many pieces does better so (max_sgl_rd). Regions are made as sinks ask for them, by service threads, as
 * completions cannot; and destroyed again, when for a while there were more than sinks had use for.
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
		count = min(count, count_);
		for (u32 i = 0; i < count; i++)
			regions[i] = free_.pop_front();
		count_ -= count;
		least_ = min(least_, count_);
		idle_ = min(idle_, count_);
		return count;
	}
	void put(Region *region)
	{
		free_.push_front(region);
		count_++;
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
	/** One of those that no sink needed for a while, to be destroyed; null: there is none. */
	[[nodiscard]] Region *take_idle(u64 now_ms)
	{
		if (now_ms >= look_) {
			idle_ = least_;
			least_ = count_;
			look_ = now_ms + kWhileMs;
		}
		if (!idle_)
			return nullptr;
		idle_--;
		return disown();
	}
	/** One to be destroyed; null: there is none. */
	[[nodiscard]] Region *disown()
	{
		Region *region = nullptr;

		(void)take(&region, 1);
		return region;
	}

private:
	static constexpr u64 kWhileMs = 10000;
	RegionList free_;
	u32 count_ = 0;	  /* of these */
	u32 least_ = 0;	  /* and the least of that since the last look */
	u32 idle_ = 0;	  /* that were there all the time before */
	u64 look_ = 0;	  /* when to look again */
	u32 missing_ = 0; /* to be made */
};

} // namespace rpcordma
