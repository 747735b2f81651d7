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
	/** How long a region is idle before it is destroyed, at least. */
	static constexpr u32 kWhileMs = 10000;

	/** Take @count for a sink into @regions. Returns how many were there. */
	[[nodiscard]] u32 take(Region **regions, u32 count)
	{
		most_ = max(most_, count);
		kept_ = max(kept_, count);
		count = min(count, count_);
		for (u32 i = 0; i < count; i++)
			regions[i] = pop_();
		return count;
	}
	/** Give back one that a sink had, or add one that was made. */
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
			/* Of who sends no more, the last one's stay: the next is to find some. */
			if (most_)
				kept_ = most_;
			most_ = 0;
			look_ = now_ms + kWhileMs;
		}
		if (!idle_ || count_ <= kept_)
			return nullptr;
		idle_--;
		return disown();
	}
	/** Whether there are more than a sink has use for: then somebody is to have a look in kWhileMs. */
	[[nodiscard]] bool watch()
	{
		watched_ = count_ > kept_;
		return watched_;
	}
	/** As that; false also if somebody will. To be asked when there are more, or kept are fewer. */
	[[nodiscard]] bool begin_watch()
	{
		return !watched_ && watch();
	}
	/** One to be destroyed; null: there is none. */
	[[nodiscard]] Region *disown()
	{
		return count_ ? pop_() : nullptr;
	}

private:
	[[nodiscard]] Region *pop_()
	{
		count_--;
		least_ = min(least_, count_);
		idle_ = min(idle_, count_);
		return free_.pop_front();
	}

	RegionList free_;
	u32 count_ = 0;	       /* of these */
	u32 least_ = 0;	       /* and the least of that since the last look */
	u32 idle_ = 0;	       /* that were there all the time before */
	u32 most_ = 0;	       /* that one sink took, since the last look */
	u32 kept_ = 0;	       /* and before it, which are not destroyed */
	u64 look_ = 0;	       /* when to look again */
	u32 missing_ = 0;      /* to be made */
	bool watched_ = false; /* a worker comes to look */
};

} // namespace rpcordma
