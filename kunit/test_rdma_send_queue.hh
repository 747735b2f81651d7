// SPDX-License-Identifier: GPL-2.0-only
/* A send queue for tests that sees to it that all it counted is given back. */
#pragma once

#include "kunit/testing.hh"
#include "module/rdma/send_queue.hh"

namespace rpcordma {

/** @queue has room for @free work requests and no more, however they are split. */
inline void expect_room(const SendQueue &queue, u32 free)
{
	EXPECT_TRUE(queue.has_room(free, 0));
	EXPECT_TRUE(queue.has_room(0, free));
	EXPECT_TRUE(queue.has_room(free / 2, free - free / 2));
	EXPECT_FALSE(queue.has_room(free + 1, 0));
	EXPECT_FALSE(queue.has_room(0, free + 1));
	EXPECT_FALSE(queue.has_room(free + 1 - free / 2, free / 2));
}

/** Have all markers out, without counting anything. */
template <typename Any>
void use_up_markers(Any &queue, SendQueue::Marker *(&markers)[SendQueue::kMarkers])
{
	for (SendQueue::Marker *&marker : markers) {
		marker = queue.signal(nullptr);
		ASSERT_NE(marker, nullptr);
	}
}

/**
 * A queue that knows what the case has of it. At its end all of that completes, and is given back: then
 * it is empty, no room is reserved, no marker is out.
 */
class AccountedQueue : public SendQueue {
public:
	~AccountedQueue()
	{
		Marker *markers[kMarkers];

		for (const Out &out : out_) {
			if (!out.marker || !out.marker->busy.load())
				continue;
			if (!out.completed)
				EXPECT_EQ(SendQueue::completed(&out.marker->cqe), out.marker);
			SendQueue::release(*out.marker);
		}
		SendQueue::return_invalidations(reserved_for_case_);
		use_up_markers<SendQueue>(*this, markers);
		/* What was posted silently goes with the next signaled Send. */
		for (Marker *marker : markers) {
			EXPECT_EQ(SendQueue::completed(&marker->cqe), marker);
			SendQueue::release(*marker);
		}
		EXPECT_FALSE(should_signal());
		EXPECT_TRUE(has_marker());
		expect_room(*this, size());
	}
	[[nodiscard]] bool take(u32 requests, u32 invalidations)
	{
		const bool taken = SendQueue::take(requests, invalidations);

		reserved_for_case_ += taken ? invalidations : 0;
		return taken;
	}
	void give_back(u32 requests, u32 invalidations)
	{
		SendQueue::give_back(requests, invalidations);
		reserved_for_case_ -= invalidations;
	}
	[[nodiscard]] bool take_aside(u32 requests)
	{
		const bool taken = SendQueue::take_aside(requests);

		reserved_for_case_ += taken ? requests : 0;
		return taken;
	}
	void return_invalidations(u32 invalidations)
	{
		SendQueue::return_invalidations(invalidations);
		reserved_for_case_ -= invalidations;
	}
	[[nodiscard]] Marker *signal(void *context)
	{
		return out(SendQueue::signal(context));
	}
	[[nodiscard]] Marker *signal_aside(void *context, u32 requests)
	{
		return out(SendQueue::signal_aside(context, requests));
	}
	[[nodiscard]] Marker *completed(rpcordma_cqe *cqe)
	{
		for (Out &out : out_)
			if (out.marker && &out.marker->cqe == cqe)
				out.completed = true;
		return SendQueue::completed(cqe);
	}

private:
	struct Out {
		Marker *marker;
		bool completed;
	};

	Marker *out(Marker *marker)
	{
		for (Out &out : out_)
			if (marker && (!out.marker || out.marker == marker)) {
				out = {marker, false};
				break;
			}
		return marker;
	}

	u32 reserved_for_case_ = 0;
	Out out_[kMarkers] = {};
};

} // namespace rpcordma
