// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a reply brings back: the lengths that a responder claims to have written are judged against
 * what was offered, and the place of every byte in the receive buffer is worked out. The peer is not
 * trusted: whatever the numbers, no byte is read outside the received message, and none written outside
 * the buffer that sunrpc offered. No byte is moved here; the caller does what Landing says.
 */
#pragma once

#include "module/chunk/reduce.hh"

namespace rpcordma::chunk {

/** A Write chunk or the Reply chunk as it stands in a reply's header. */
struct ReturnedChunk {
	bool present = false;
	/** The segments' lengths in order; the count is what the header says, not what was offered. */
	Span<const u32> lengths;
};

/** A decoded reply header, the parts that say where bytes are. */
struct ReplyFacts {
	/** RDMA_NOMSG instead of RDMA_MSG. */
	bool nomsg = false;
	/** The Read list has an entry. */
	bool read_list = false;
	/** Chunks in the Write list. */
	u32 write_chunks = 0;
	/** The first of them. */
	ReturnedChunk write;
	ReturnedChunk reply;
	/** Bytes of the received message behind the transport header. */
	u32 inline_length = 0;
};

/**
 * Where a reply's bytes are, and where they belong.
 *
 * Set rq_rcv_buf's (and rq_private_buf's, they have to stay equal) head iov_len, page_len and tail
 * iov_len to the lengths here, take buflen_reduction off buflen, and complete the RPC with @length.
 * Then copy, all three from the inline bytes, which start at 0:
 *   head_copy bytes from 0 to the head's first byte;
 *   page_copy bytes from head_copy to the first byte of page data;
 *   tail_copy bytes from head_copy + page_copy to the tail, tail_pad bytes after its first.
 * Instead of the last, with tail_move != 0: move that many bytes within the tail from its first byte
 * to tail_pad bytes behind it (a Reply chunk has placed them; the regions overlap).
 * The tail_pad bytes are XDR roundup that a Write chunk's item lacks; the caller zeroes them.
 */
struct Landing {
	u32 length = 0;
	u32 head_length = 0;
	u32 page_length = 0;
	u32 tail_length = 0;
	u32 buflen_reduction = 0;
	u32 head_copy = 0;
	u32 page_copy = 0;
	u32 tail_copy = 0;
	u32 tail_move = 0;
	u32 tail_pad = 0;
	/** Bytes that came by Write chunk and by Reply chunk, for the statistics. */
	u32 written = 0;
	u32 replied = 0;
	/** The reply was longer than the buffer. What did not fit is dropped, as on other transports. */
	bool truncated = false;
};

/**
 * Judge a reply, and find the place of its bytes.
 *
 * @facts    the reply's decoded header
 * @receive  CallShape::receive of the call
 * @plan     the plan by which the call was sent
 *
 * A chunk in the reply must be one that was offered, with as many segments, none longer than offered,
 * and none with bytes while one before it has room (RFC 8166 3.4.6). RDMA_MSG must leave the Reply chunk
 * unused; RDMA_NOMSG must use it. A Read list is always wrong (4.3.1). A responder that leaves an unused
 * chunk out, instead of returning it with lengths of zero, is borne with: it claims nothing.
 * Bytes behind the header of RDMA_NOMSG are not part of the message, and are ignored.
 *
 * Errors: EBADMSG, the header contradicts the call or itself; nothing of it is to be believed.
 * Callable from any context.
 */
[[nodiscard]] Result<Landing> land_reply(const ReplyFacts &facts, const BufferShape &receive,
					 const Plan &plan);

} // namespace rpcordma::chunk
