// SPDX-License-Identifier: GPL-2.0-only
/* The RDMA Writes of a reply: what goes into Write chunks and the Reply chunk (RFC 8166 3.4.6, 3.5.2). */
#pragma once

#include "compat/port/port.h"
#include "module/base/result.hh"
#include "module/chunk/answer.hh"
#include "module/rdma/chain.hh"
#include "module/server/call.hh"
#include "module/server/send.hh"
#include "module/server/server.hh"

namespace rpcordma {

/**
 * Bytes of an RDMA Write, where there is room for several. One would do, but soft RoCE asks for an
 * acknowledgment at a Write's end, and sends no more than half a megabyte ahead: with longer ones a READ of a
 * megabyte takes a round trip more.
 */
constexpr u32 kLongestWrite = 128 * 1024;

/** What a reply's Writes are made of. */
struct WriteParts {
	u32 mapped = 0;	  /* SGEs of the transfer's `local` */
	u32 reserved = 0; /* of its `sges`, the first ones, which are not the Writes' */
	u32 segments = 0; /* of the client's, that are written to */
	u64 bytes = 0;	  /* that are written */
	/* What follows the Writes, and how many work requests that has. */
	rpcordma_send_wr *sends = nullptr;
	u32 send_count = 1;
};

/**
 * Have a transfer for @call, with room for the pages of @rqst's reply. Errors: ENOMEM. A service thread.
 */
[[nodiscard, gnu::always_inline]] inline Status take_reply_transfer(Server &server,
								    ServerCall *call, svc_rqst *rqst)
{
	call->transfer = server_pool.take(rpcordma_svc_reply_pages(rqst), RPCORDMA_ALLOC_SERVICE);
	if (!call->transfer) {
		trace::failure(server.peer, trace::Failure::transfer_missing, call->xid(),
			       Error::no_memory);
		return Error::no_memory;
	}
	call->transfer->writes = true;
	return {};
}
/** Map what was added to the transfer. Returns how many SGEs there are. Errors: ENOMEM. */
[[nodiscard, gnu::always_inline]] inline Result<u32> map_reply(Server &server,
							       const ServerCall &call)
{
	Transfer &t = *call.transfer;
	const int mapped = rpcordma_bulk_map(t.bulk, server.endpoint, RPCORDMA_DMA_TO_DEVICE,
					     t.local, Transfer::pieces_for(t.room));

	if (mapped < 0) {
		trace::failure(server.peer, trace::Failure::write_map_failed, call.xid(), mapped);
		return Error::no_memory;
	}
	trace_mapping(server, call, true);
	return u32(mapped);
}
/**
 * The pages of @rqst's reply become the transfer's: nobody reads the reply any more. Errors: ENOSPC, they are too many, and
 * nothing is taken.
 */
[[nodiscard, gnu::always_inline]] inline Status take_reply_pages(ServerCall *call, svc_rqst *rqst)
{
	Transfer &t = *call->transfer;

	t.page_count = rpcordma_svc_take_reply_pages(rqst, t.pages, t.room);
	if (!t.page_count)
		return Error::no_space;
	return {};
}

/**
 * Bytes of an RDMA Write at most, of a reply of at most @pages. Short ones only where all of them surely fit, and while others
 * leave the queue half empty.
 */
[[nodiscard, gnu::always_inline]] inline u32 longest_write(const Server &server,
							   const WriteParts &parts, u32 pages)
{
	const u32 queue_size = server.room.size();
	const u64 writes =
		u64(parts.segments) + pages / server.limits.send_sges + parts.bytes / kLongestWrite;
	/* One is the Send, one where a piece of memory is cut once more. */
	const bool fit = writes + 1 + parts.send_count <= min(Transfer::kRequests, queue_size);

	return fit && server.room.free() > queue_size / 2 ? kLongestWrite : ~0u;
}
/** The Writes behind the first @done of @call's reply fit in no chain. */
[[nodiscard]] Error writes_too_long(const Server &server, const ServerCall *call,
				    const Outgoing &out, u32 done);
/** Post @chain, of Writes which others follow. Errors: ENOTCONN. */
[[nodiscard]] Status post_writes(Server &server, ServerCall *call, const Chain &chain,
				 Outgoing &out);

/**
 * Build the chain of Writes of @call's transfer, ahead of what @parts says. @fill(chain) adds all of them, and returns false
 * where the chain has no room for that: then what it has is posted, and another one begun.
 *
 * Errors: ENOSPC, it fits in no chain; EPROTO, likewise, and some of it was posted; ENOTCONN.
 */
template <typename Fill>
[[nodiscard, gnu::always_inline]] inline Status
chain_writes(Server &server, ServerCall *call, const WriteParts &parts, Outgoing &out, Fill &&fill)
{
	Transfer &t = *call->transfer;
	const u32 longest = longest_write(server, parts, t.room);
	/* The Sends are posted with the last of them. */
	const u32 most = min(Transfer::kRequests, server.room.size() - parts.send_count);

	for (u32 done = 0;;) {
		ChainBuilder chain({t.local, parts.mapped}, {t.requests, most},
				   t.all_sges().from(parts.reserved), server.limits.send_sges,
				   longest, RPCORDMA_WR_RDMA_WRITE, &call->chain_cqe);
		chain.begin_at(done);
		const bool last = fill(chain);

		out.writes = chain.count();
		if (!out.writes)
			return writes_too_long(server, call, out, done);
		out.first_write = &t.requests[0].wr;
		if (last) {
			chain.last().next = parts.sends;
			return {};
		}
		TRY_STATUS(post_writes(server, call, {&t.requests[0].wr, &chain.last(), out.writes},
				       out));
		done += out.writes;
	}
}

/** Add Writes to @chain that put @length bytes into @into: a chunk is filled contiguously, in segment order (RFC 8166 3.4.6). */
[[nodiscard]] inline bool fill_segments(ChainBuilder &chain, const xdr::WriteChunk &into, u32 length)
{
	bool built = true;

	for (xdr::Segment segment : into) {
		segment.length = min(segment.length, length);
		length -= segment.length;
		built = built && chain.transfer(segment);
	}
	return built;
}

/**
 * Map what goes into chunks and build the chain of Writes ahead of the Sends of @out: of @call's transfer, whose the
 * pages of @rqst become, or its lone request. Where it fails @call may have a transfer, which is to be given back.
 *
 * Errors: ENOMEM; ENOSPC, it fits in no chain or no transfer. A service thread.
 */
[[nodiscard]] Status build_writes(Server &server, ServerCall *call, const rpcordma_xdr_buf *reply,
				  const chunk::Answer &answer, svc_rqst *rqst, Outgoing &out);

} // namespace rpcordma
