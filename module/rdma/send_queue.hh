// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bookkeeping of a send queue: how many work requests it holds, and which Sends are signaled.
 *
 * Most Sends are unsignaled. A signaled one takes a Marker, which remembers how many work requests had
 * been counted when it was posted; its completion returns all of those at once, since a send queue
 * completes in order. LOCAL_INVs are accounted apart: room for them is reserved together with the
 * REG_MR they undo, so that posting one never fails for want of room.
 *
 * A Send that its owner hears of in any case is signaled without one.
 *
 * take(), give_back(), signal() and signal_unmarked() are for the sender, of which there is one at a time; everything else
 * may be called from any context. Who posts beside the sender (a refusal, scratch memory) uses take_aside() and
 * signal_aside(). All take their room from one count, so that two who ask at once never get more than there is.
 */
#pragma once

#include <atomic>

#include "compat/port/port.h"
#include "module/base/types.hh"

namespace rpcordma {

class SendQueue {
public:
	/** Most signaled Sends outstanding at once. */
	static constexpr u32 kMarkers = 16;

	struct Marker {
		rpcordma_cqe cqe = {};
		u64 counted = 0;
		void *context = nullptr; /* whom this completion is for besides; null mostly */
		u32 aside = 0;		 /* work requests of somebody who is not the sender */
		std::atomic<bool> busy{false};
	};

	/** @size: the work requests that the queue holds. */
	void init(u32 size)
	{
		size_ = size;
		interval_ = max(1u, size / 4);
		for (Marker &marker : markers_)
			rpcordma_cqe_init(&marker.cqe, RPCORDMA_CQE_SEND);
	}

	/** Count @requests to be posted, and room for @invalidations; false, and nothing, without room. */
	[[nodiscard]] bool take(u32 requests, u32 invalidations)
	{
		if (!take_room_(requests + invalidations))
			return false;
		count_(requests);
		return true;
	}

	/** Nothing of what take() counted last was posted. */
	void give_back(u32 requests, u32 invalidations)
	{
		count_(-u64(requests));
		return_room_(requests + invalidations);
	}

	/** Whether take() would succeed now. */
	[[nodiscard]] bool has_room(u32 requests, u32 invalidations) const
	{
		return used_.load(std::memory_order_acquire) + requests + invalidations <= size_;
	}

	/** Whether the next Send has to be signaled lest the queue fill with silent work requests. */
	[[nodiscard]] bool should_signal() const
	{
		return since_signal_ >= interval_;
	}

	/** Whether signal() would return one now, for a context. */
	[[nodiscard]] bool has_marker() const
	{
		for (u32 i = 0; i < kShared; i++)
			if (!markers_[i].busy.load(std::memory_order_acquire))
				return true;
		return false;
	}

	/**
	 * A marker for a signaled Send that was taken already, or null when all are out that it may have: without
	 * @context it is one that stands for silent Sends as well, and may have any.
	 */
	[[nodiscard]] Marker *signal(void *context)
	{
		Marker *marker = claim_(context, context ? kShared : kMarkers);

		if (marker)
			since_signal_ = 0;
		return marker;
	}

	/**
	 * The same for a signaled Send that has a completion entry of its own: what completed_unmarked() is to be told when it
	 * is done.
	 */
	[[nodiscard]] u64 signal_unmarked()
	{
		since_signal_ = 0;
		return counted_.load(std::memory_order_relaxed);
	}

	/**
	 * Reserve room for @requests of somebody who is not the sender, until he gives it back with
	 * return_invalidations(); false, and nothing, without room.
	 */
	[[nodiscard]] bool take_aside(u32 requests)
	{
		return take_room_(requests);
	}

	/**
	 * A marker, with room for a chain of @requests whose last is signaled, for somebody who is not
	 * the sender; null without.
	 */
	[[nodiscard]] Marker *signal_aside(void *context, u32 requests)
	{
		if (!take_aside(requests))
			return nullptr;
		Marker *marker = claim_(context, kShared);
		if (marker) {
			/*
			 * The sender may have counted a chain that it has not posted yet: this Send's
			 * completion says nothing of it, and returns its own room only.
			 */
			marker->aside = requests;
			asides_.fetch_add(1, std::memory_order_relaxed);
		} else {
			return_invalidations(requests);
		}
		return marker;
	}

	/**
	 * Whether all chains with a marker of signal_aside() have completed. The caller has a lock that those had who
	 * took the markers that he asks about: others may be taken meanwhile.
	 */
	[[nodiscard]] bool asides_done() const
	{
		return !asides_.load(std::memory_order_acquire);
	}

	/**
	 * The marker whose Send completed, with what was counted before it returned; null when @cqe is
	 * no marker's. The caller reads the context, then calls release().
	 */
	[[nodiscard]] Marker *completed(rpcordma_cqe *cqe)
	{
		for (Marker &marker : markers_) {
			if (&marker.cqe != cqe)
				continue;
			if (marker.aside) {
				return_invalidations(marker.aside);
				asides_.fetch_sub(1, std::memory_order_release);
				return &marker;
			}
			completed_unmarked(marker.counted);
			return &marker;
		}
		return nullptr;
	}
	/** A Send has completed of which signal_unmarked() said @counted. */
	void completed_unmarked(u64 counted)
	{
		/* Send completions come one at a time. */
		const u64 seen = completed_.load(std::memory_order_relaxed);

		if (seen < counted) {
			completed_.store(counted, std::memory_order_relaxed);
			return_room_(static_cast<u32>(counted - seen));
		}
	}
	static void release(Marker &marker)
	{
		marker.context = nullptr;
		marker.busy.store(false, std::memory_order_release);
	}

	/** @invalidations are done, or were done by the peer. */
	void return_invalidations(u32 invalidations)
	{
		return_room_(invalidations);
	}

	[[nodiscard]] u32 size() const
	{
		return size_;
	}

	/** Room that is reserved: for LOCAL_INVs, and by take_aside(). While nothing is taken or returned. */
	[[nodiscard]] u32 reserved() const
	{
		return used_.load(std::memory_order_acquire) -
		       static_cast<u32>(counted_.load(std::memory_order_relaxed) -
					completed_.load(std::memory_order_relaxed));
	}

	/**
	 * Requests that are counted, and will not be returned by the completion of the next signaled Send; at
	 * rest, none. With nothing signaled out; the sender, or nobody sends.
	 */
	[[nodiscard]] u64 lost() const
	{
		return counted_.load(std::memory_order_relaxed) -
		       completed_.load(std::memory_order_acquire) - since_signal_;
	}

	/** Markers that are out. */
	[[nodiscard]] u32 markers_out() const
	{
		u32 out = 0;

		for (const Marker &marker : markers_)
			out += marker.busy.load(std::memory_order_acquire);
		return out;
	}

private:
	/* Markers for everybody. The others are for what silent Sends depend on: they fill the queue without one. */
	static constexpr u32 kShared = kMarkers / 2;

	/* A free one of the first @among. */
	[[nodiscard]] Marker *claim_(void *context, u32 among)
	{
		/* From behind, so that the sender leaves those to others which only they may have. */
		while (among--) {
			Marker &marker = markers_[among];

			if (marker.busy.exchange(true, std::memory_order_acq_rel))
				continue;
			marker.counted = counted_.load(std::memory_order_relaxed);
			marker.context = context;
			marker.aside = 0;
			return &marker;
		}
		return nullptr;
	}

	/* The sender has @more requests to post; or fewer, modulo 2^64. */
	void count_(u64 more)
	{
		counted_.store(counted_.load(std::memory_order_relaxed) + more,
			       std::memory_order_relaxed);
		since_signal_ += static_cast<u32>(more);
	}
	[[nodiscard]] bool take_room_(u32 requests)
	{
		u32 used = used_.load(std::memory_order_relaxed);

		do {
			if (used + requests > size_)
				return false;
		} while (!used_.compare_exchange_weak(used, used + requests,
						      std::memory_order_acquire,
						      std::memory_order_relaxed));
		return true;
	}
	void return_room_(u32 requests)
	{
		used_.fetch_sub(requests, std::memory_order_release);
	}

	std::atomic<u32> used_{0};   /* room that is taken: posted and not completed, or reserved */
	std::atomic<u32> asides_{0}; /* markers of signal_aside() that are out */
	std::atomic<u64> counted_{0};	/* posted by the sender, ever */
	std::atomic<u64> completed_{0}; /* of those */
	u32 size_ = 0;
	u32 interval_ = 1;
	u32 since_signal_ = 0;
	Marker markers_[kMarkers];
};

} // namespace rpcordma
