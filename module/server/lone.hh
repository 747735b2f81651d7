// SPDX-License-Identifier: GPL-2.0-only
/*
 * A chunk of one segment whose bytes lie in few pages, as those of most small READs and WRITEs do, takes one work
 * request: the call itself has that, its SGEs and what else it needs, and no transfer of the pool's. (A sink's
 * pages are the pool's all the same.) So it is with a reply whose page data, in few pages, go with its Send: then the
 * SGEs are the Send's. Whatever is larger, or in several segments, goes the general way: transfer.hh.
 */
#pragma once

#include "compat/port/port.h"
#include "module/base/types.hh"
#include "xdr/wire.hh"

namespace rpcordma {

struct LoneRequest {
	/** Pages in which the chunk's bytes lie at most. */
	static constexpr u32 kPages = 4;
	static_assert(kPages >= RPCORDMA_RUNS, "with fewer SGEs no runs are remembered");
	/** Pages of a reply at most: nfsd counts its head's, and one more. */
	static constexpr u32 kReplyPages = kPages + 2;

	rpcordma_rdma_wr request = {};
	u16 mapped = 0; /* SGEs that are its own; 0: it is not in use */
	u16 first = 0; /* the first of these: behind that of a Send's buffer, if they are a Send's */
	u32 page_count = 0; /* of a reply, whose pages are the call's until the Write is done */
	rpcordma_sge sges[kPages] = {};
	page *pages[kReplyPages] = {};

	/** What is mapped is to go from, or to, @remote. Successor, cqe and flags are the caller's to set. */
	[[nodiscard]] rpcordma_send_wr &prepare(const xdr::Segment &remote)
	{
		request.wr.sg_list = sges;
		request.wr.num_sge = int(mapped);
		request.remote_addr = remote.offset;
		request.rkey = remote.handle.get();
		return request.wr;
	}
	[[nodiscard]] bool writes() const
	{
		return request.wr.opcode == RPCORDMA_WR_RDMA_WRITE;
	}
	[[nodiscard]] rpcordma_dma direction() const
	{
		return writes() ? RPCORDMA_DMA_TO_DEVICE : RPCORDMA_DMA_FROM_DEVICE;
	}
	[[nodiscard]] u32 length() const
	{
		u32 bytes = 0;

		for (u32 i = 0; i < mapped; i++)
			bytes += sges[first + i].length;
		return bytes;
	}
};

} // namespace rpcordma
