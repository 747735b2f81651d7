// SPDX-License-Identifier: GPL-2.0-only
/*
 * Builds a chain of RDMA Read or Write work requests between a run of local memory, described by SGEs,
 * and segments at the peer. A work request has one segment, or a part of one, and as many SGEs and bytes
 * as it may; so a chain is as short as the segments let it be. Pure logic.
 */
#pragma once

#include "compat/port/verbs.h"
#include "module/base/span.hh"
#include "module/base/types.hh"
#include "xdr/wire.hh"

namespace rpcordma {

class ChainBuilder {
public:
	/**
	 * @local      what is mapped, in order; consumed from its front
	 * @wrs, @sges where the chain is built
	 * @max_sge    SGEs of one work request, at least one
	 * @max_bytes  bytes of one work request, at least one
	 * @opcode     RPCORDMA_WR_RDMA_READ or RPCORDMA_WR_RDMA_WRITE
	 * @cqe        of all work requests: hears of failures only
	 */
	ChainBuilder(Span<const rpcordma_sge> local, Span<rpcordma_rdma_wr> wrs,
		     Span<rpcordma_sge> sges, u32 max_sge, u32 max_bytes, int opcode,
		     rpcordma_cqe *cqe)
		: local_(local),
		  wrs_(wrs),
		  sges_(sges),
		  max_sge_(max_sge),
		  max_bytes_(max_bytes),
		  opcode_(opcode),
		  cqe_(cqe)
	{
	}

	/** Leave out the first @wrs work requests: an earlier chain had them. Before all others. */
	void begin_at(u32 wrs)
	{
		before_ = wrs;
	}
	/** Pass over @length bytes of local memory. False: there are not so many. */
	[[nodiscard]] bool skip(u32 length)
	{
		while (length) {
			if (local_.empty())
				return false;
			const u32 n = min(length, local_[0].length - in_sge_);

			consume_(n);
			length -= n;
		}
		return true;
	}

	/**
	 * Move @remote.length bytes between local memory and @remote. False: the chain has no room for all
	 * of this, and another one has to begin where it ends; or local memory is at its end.
	 */
	[[nodiscard]] bool transfer(const xdr::Segment &remote)
	{
		u32 left = remote.length;

		while (left) {
			if (count_ == wrs_.size())
				return false;
			rpcordma_rdma_wr &wr = wrs_[count_];

			wr = {};
			wr.wr.cqe = cqe_;
			wr.wr.opcode = opcode_;
			wr.wr.sg_list = sges_.data() + sges_used_;
			wr.remote_addr = remote.offset + (remote.length - left);
			wr.rkey = remote.handle.get();
			const u32 part = min(left, max_bytes_), missing = take_(part, wr.wr.num_sge);

			if (missing && u32(wr.wr.num_sge) < max_sge_)
				return false;
			left -= part - missing;
			if (before_) {
				before_--;
				continue;
			}
			sges_used_ += u32(wr.wr.num_sge);
			if (count_)
				wrs_[count_ - 1].wr.next = &wr.wr;
			count_++;
		}
		return true;
	}

	/** Work requests so far. */
	[[nodiscard]] u32 count() const
	{
		return u32(count_);
	}
	/** The last one; only when there is one. */
	[[nodiscard]] rpcordma_send_wr &last()
	{
		return wrs_[count_ - 1].wr;
	}

private:
	/*
	 * Consume @length bytes of local memory, or as many as the SGEs of one work request take, which are the next ones;
	 * @count is how many. Returns the bytes that were not. All in locals: what is written may be the builder, as far as a
	 * compiler knows.
	 */
	[[nodiscard]] u32 take_(u32 length, int &count)
	{
		const rpcordma_sge *from = local_.data(), *const end = from + local_.size();
		rpcordma_sge *const first = sges_.data() + sges_used_, *to = first;
		const rpcordma_sge *const limit =
			first + min<usize>(max_sge_, sges_.size() - sges_used_);
		u32 in_sge = in_sge_;

		if (!in_sge) {
			/* Most are taken whole, one after the other. */
			const auto *const last = from + min(limit - to, end - from);

			while (from != last && from->length <= length) {
				length -= from->length;
				*to++ = *from++;
			}
		}
		for (; length && to != limit && from != end; to++) {
			const u32 n = min(length, from->length - in_sge);

			*to = {from->addr + in_sge, n, from->lkey};
			length -= n;
			in_sge += n;
			if (in_sge == from->length) {
				from++;
				in_sge = 0;
			}
		}
		local_ = local_.from(local_.size() - usize(end - from));
		in_sge_ = in_sge;
		count = int(to - first);
		return length;
	}
	void consume_(u32 n)
	{
		in_sge_ += n;
		if (in_sge_ == local_[0].length) {
			local_ = local_.from(1);
			in_sge_ = 0;
		}
	}

	Span<const rpcordma_sge> local_;
	Span<rpcordma_rdma_wr> wrs_;
	Span<rpcordma_sge> sges_;
	u32 in_sge_ = 0; /* consumed of local_'s first */
	usize count_ = 0;
	usize sges_used_ = 0;
	u32 max_sge_;
	u32 max_bytes_;
	u32 before_ = 0; /* to be left out still */
	int opcode_;
	rpcordma_cqe *cqe_;
};

} // namespace rpcordma
