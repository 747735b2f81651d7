// SPDX-License-Identifier: GPL-2.0-only
/*
 * Receive buffers, and the promise that none is ever missing: at any time as many Receives are posted
 * as messages may come (invariant R1). The queue has kBatch buffers more than that, so that reposting
 * can wait until a batch has gathered, and costs one doorbell for the batch.
 *
 * A buffer is posted, being handled by the receive completion, held by a call whose memory is still
 * being fenced, or waiting to be reposted; it is the receive completion that moves it on, except for held
 * ones, which whoever ends the fencing posts at once. A held buffer does not break the promise: its
 * call's credit is still taken.
 */
#pragma once

#include "module/rdma/receive.hh"

namespace rpcordma {

class ReceiveQueue {
public:
	/** Buffers that may wait to be reposted together. */
	static constexpr u32 kBatch = 8;

	/** @buffer_size: bytes of a Receive's head. @capacity: what the queue pair holds. */
	void init(rpcordma_endpoint *endpoint, const rpcordma_peer *peer, u32 buffer_size,
		  u32 capacity);
	/** Free all buffers. The queue pair is drained or was never there. Process context. */
	void destroy();

	/**
	 * Have Receives posted for @messages messages at once; never takes any away.
	 * Returns for how many there are Receives now. Receive completion, or before connecting.
	 */
	[[nodiscard]] u32 provide(u32 messages);
	/** What provide() returned last. As that. */
	[[nodiscard]] u32 provided() const
	{
		return provided_;
	}
	/** As that, in any context: a value that it had. */
	[[nodiscard]] u32 provided_now() const
	{
		return __atomic_load_n(&provided_, __ATOMIC_RELAXED);
	}
	/** Receives that are made from now on have pages as @layout says. Before any is made. */
	void have_pages(const MessagePages::Layout &layout)
	{
		maker_.have_pages(layout);
		maker_.use_pages(true);
	}
	/** They have none from now on, and those that come back lose theirs. Any context. */
	void do_without_pages()
	{
		maker_.use_pages(false);
	}
	/** What Receives are made of now. */
	[[nodiscard]] const ReceiveMaker &maker() const
	{
		return maker_;
	}
	/** @receive has completed with success: what came is the CPU's. Returns its bytes(). Receive completion only. */
	Bytes arrived(Receive *receive, const rpcordma_completion &completion) const
	{
		return maker_.arrived(receive, completion);
	}
	/**
	 * @receives, chained by `next`, are handled: post them again, with the next batch. Receive completion
	 * only. May be null. False: the queue pair does not take them, and the peer may find none.
	 */
	[[nodiscard]] bool recycle(Receive *receives)
	{
		bool posted = true;

		while (Receive *receive = receives) {
			receives = receive->next;
			posted = recycle_(receive) && posted;
		}
		return posted;
	}
	/** As recycle(), for those that were held: now, and in any context. */
	[[nodiscard]] bool repost(Receive *receives);

private:
	[[nodiscard, gnu::always_inline]] bool recycle_(Receive *receive)
	{
		if (__builtin_expect(receive->pages && !maker_.with_pages(), 0))
			maker_.drop_pages(receive);
		receive->wr.next = waiting_ ? &waiting_->wr : nullptr;
		waiting_ = receive;
		return __builtin_expect(++waiting_count_ < kBatch, 1) || post_waiting_();
	}
	/* Post the batch that has gathered. */
	[[nodiscard]] bool post_waiting_();

	ReceiveMaker maker_;
	Receive *waiting_ = nullptr; /* chained by wr.next */
	u32 waiting_count_ = 0;
	u32 created_ = 0;  /* buffers there are */
	u32 provided_ = 0; /* created_ less kBatch, as far as they were posted */
	u32 capacity_ = 0;
	bool refused_ = false; /* the queue pair did not take some: it is asked for no more */
};

} // namespace rpcordma
