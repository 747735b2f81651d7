// SPDX-License-Identifier: GPL-2.0-only
/*
 * What was done, held against what was traced of it, as compat/port/trace.h has it. Each post, each completion and each mapping
 * has one event, with the numbers of what the double of the port was given; a class of events that nobody listens to is
 * left out. What a failure or a loss of a server's says is of the kind that compat/port/trace.h tells. See test_rdma_port.hh.
 */
#pragma once

#include "kunit/test_rdma_port_memory.hh"
#include "module/base/types.hh"

namespace rpcordma {

class PortLedger {
public:
	/** A chain that was posted, as its event has to tell of it. */
	struct Post {
		bool owed; /* the event */
		u32 requests;
		bool signaled;
		int result;
		bool xid_known;
		u32 xid;
		const void *entry;
		u32 reads, writes; /* of the requests: all of a chain of Reads */
	};

	/* --- what was done --- */

	/** The chain of @first, posted with @result: to be read before the device has it. */
	[[nodiscard]] static Post chain_of(const rpcordma_send_wr *first, int result);
	/** What was posted is to be told of next. */
	void posted(const Post &post);
	/** Receives, which were told of one by one before. */
	void posted(const rpcordma_recv_wr *first, int result);
	/** @completion is being told of, until this ends. */
	class Completing {
	public:
		Completing(PortLedger &ledger, const rpcordma_completion &completion);
		~Completing();
		Completing(const Completing &) = delete;
		Completing &operator=(const Completing &) = delete;

	private:
		PortLedger &ledger_;
		const rpcordma_completion *const before_;
	};
	/** Memory was mapped for @direction, or is no more. Its event is behind the first, and ahead of the second. */
	void mapped(rpcordma_dma direction, u32 pieces, u32 length);
	void unmapped(rpcordma_dma direction, u32 pieces, u32 length);
	/** A server's region was mapped. */
	void mapped(const rpcordma_region *region, const rpcordma_mapping &mapping);
	/** A message of @xid has come to a server, or is about to be sent. */
	void know(u32 xid);

	/* --- what was traced --- */

	void traced_post(rpcordma_trace_queue queue, u32 xid, u32 requests, bool signaled,
			 int result, const void *entry);
	void traced_receive(const void *entry);
	void traced_completion(rpcordma_trace_queue queue, const char *what, int status,
			       u32 byte_len, u32 invalidated_rkey, const void *entry);
	void traced_bulk(rpcordma_bulk_event which, u32 xid, u32 pieces, u32 length);
	void traced_region(const char *what, u32 xid, const rpcordma_region *region,
			   const rpcordma_mapping *mapping);
	void traced_reply(const char *what, u32 xid, int result) const;
	void traced_failure(u32 which, u32 xid, int value) const;
	void traced_loss(u32 which, int value) const;

	/** Work requests of Reads, and Writes, that were posted in chains that were posted whole. */
	[[nodiscard]] u32 reads() const
	{
		return reads_;
	}
	[[nodiscard]] u32 writes() const
	{
		return writes_;
	}
	/** Each has had its event. */
	void expect_even() const;
	/** And nothing of a server's is mapped; none of its regions, before it goes. */
	void expect_unmapped() const;
	void expect_no_regions() const;

private:
	/* Memory that is mapped, or is about to be unmapped. */
	struct Mapping {
		u32 pieces, length;
		rpcordma_dma direction;
	};
	static void expect_same(const Mapping &a, const Mapping &b);
	[[nodiscard]] bool knows(u32 xid) const;

	u32 reads_ = 0, writes_ = 0;
	Post posts_[2] = {}; /* the last ones */
	/* Receives that are about to be posted: how many, and all their addresses. */
	u32 receives_ = 0;
	u64 receive_entries_ = 0;
	const rpcordma_completion *completing_ = nullptr;
	u32 completions_ = 0, traced_completions_ = 0;
	Mapping mapped_ = {}, unmapped_ = {};
	/* Of what is mapped, as its events say. */
	u32 xids_[2] = {}, pieces_[2] = {}, bytes_[2] = {};
	const rpcordma_region *region_ = nullptr;
	rpcordma_mapping mapping_ = {};
	u32 region_maps_ = 0, region_xids_ = 0;
	u32 known_[64] = {}, known_count_ = 0; /* XIDs, the last ones */
};

} // namespace rpcordma
