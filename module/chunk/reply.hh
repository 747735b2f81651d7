// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a reply brings back: the lengths that a responder claims to have written are judged against
 * what was offered, and the place of every byte in the receive buffer is worked out. The peer is
 * not trusted: whatever the numbers, no byte is read outside the received message, and none written
 * outside the buffer that sunrpc offered. No byte is moved here; the caller does what Landing says.
 */
#pragma once

#include "module/chunk/reduce.hh"

namespace rpcordma::chunk {

/** A decoded reply header, the parts that say where bytes are. */
struct ReplyFacts {
	/** RDMA_NOMSG instead of RDMA_MSG. */
	bool nomsg = false;
	/** The Read list has an entry. */
	bool read_list = false;
	/** The Reply chunk is present. */
	bool reply_chunk = false;
	/** Chunks in the Write list. */
	u32 write_chunks = 0;
	/** The segments' lengths of the first; as many as the header says, not as offered. */
	Span<const u32> write_lengths;
	/** The segments' lengths of the Reply chunk, likewise. */
	Span<const u32> reply_lengths;
	/** Bytes of the received message behind the transport header. */
	u32 inline_length = 0;
};

/**
 * Where a reply's bytes are, and where they belong.
 *
 * Set rq_rcv_buf's (and rq_private_buf's, they have to stay equal) head iov_len and page_len to the
 * lengths here, take buflen_reduction off buflen, leave the tail's iov_len, and complete the RPC
 * with @length. Then copy, all three from the inline bytes:
 *   head_copy bytes from their first to the head's first byte;
 *   page_copy bytes from head_copy to the first byte of page data;
 *   tail_copy bytes from head_copy + page_copy to the tail, tail_pad bytes behind its first.
 * With tail_move instead of the last: move that many bytes within the tail from its first byte to
 * tail_pad bytes behind it (a Reply chunk has placed them; the regions overlap).
 * The tail_pad bytes are the XDR roundup that a Write chunk's item lacks; the caller zeroes them.
 */
struct Landing {
	/** Bytes of the whole reply, as sunrpc's decoder is to see it. */
	u32 length = 0;
	u32 head_length = 0;
	u32 page_length = 0;
	u32 buflen_reduction = 0;
	u32 head_copy = 0;
	u32 page_copy = 0;
	u32 tail_copy = 0;
	u32 tail_move = 0;
	u32 tail_pad = 0;
	/** Bytes that came by Write chunk and by Reply chunk, for the statistics. */
	u32 written = 0;
	u32 replied = 0;
	/** The reply was longer than the buffer; the rest is dropped, as on other transports. */
	bool truncated = false;
	/** A chunk came back with fewer segments than were offered, against RFC 8166 3.4.6. */
	bool segments_missing = false;

	/** Have buflen_reduction be what head and page data are shorter than @receive's. */
	constexpr void count_reduction(const BufferShape &receive)
	{
		buflen_reduction =
			(receive.head_length - head_length) + (receive.page_length - page_length);
	}
};

/**
 * Judge a reply, and find the place of its bytes.
 *
 * @facts    the reply's decoded header
 * @receive  CallShape::receive of the call
 * @plan     the plan by which the call was sent
 *
 * A chunk in the reply must be one that was offered, with no more segments, none longer than
 * offered, and none with bytes while one before it has room (RFC 8166 3.4.6). It must have as many
 * segments, too; but a responder that returns only those that it wrote to is understood, as it fills
 * them in order, and Landing::segments_missing says so. RDMA_MSG must leave
 * the Reply chunk unused; RDMA_NOMSG must use it. A Read list is always wrong (4.3.1). A responder
 * may leave an unused chunk out, instead of returning it with lengths of zero: then it
 * claims nothing. Bytes behind the header of RDMA_NOMSG are not part of the message, and are
 * ignored.
 *
 * Where an item came by Write chunk, the bytes of the rest go to the head as far as they reach, and
 * the head is cut to them: its length was an estimate, and the payload has to follow its last byte.
 * Only what the estimated head cannot hold is taken for what follows the payload.
 *
 * Errors: EBADMSG, the header contradicts the call or itself; nothing of it is to be believed.
 * Callable from any context.
 */
[[nodiscard]] Result<Landing> land_reply(const ReplyFacts &facts, const BufferShape &receive,
					 const Plan &plan);

/**
 * The same for a reply whose item came in DDP segments (rtrext-01), of which the inline bytes are those of its stream: as for
 * an item that came by Write chunk, but that the reply says where the item belongs. The head is cut to what is before that.
 * Landing::written is the item's length; its bytes are the first of the page data.
 *
 * @stream        inline bytes
 * @displacement  of the stream, which the item follows
 * @length        of the item, without its pad; not 0
 *
 * Errors: EBADMSG, it belongs behind the stream's end, or behind the head; or it is longer than the page data.
 */
[[nodiscard]] Result<Landing> land_item(u32 stream, u32 displacement, u32 length,
					const BufferShape &receive);

/** Where the reply is of land_lone(): all inline bytes go to the head, whose length is @head_length then. */
struct LoneLanding {
	u32 length;	 /* as Landing has it */
	u32 head_length; /* likewise; page data and tail stay as they are */
};

/**
 * The same for most replies to a READ: an RDMA_MSG, no longer than the head, with one Write chunk of one segment, of
 * which @written bytes came back; one like it was offered. False: it is none of these, ask land_reply().
 */
[[nodiscard, gnu::always_inline]] inline bool land_lone(u32 inline_length, u32 written,
							const BufferShape &receive,
							const Plan &plan, LoneLanding &at)
{
	if (plan.write_chunk.size() != 1 || written > plan.write_chunk[0].length ||
	    !inline_length || inline_length > receive.head_length)
		return false;
	at.length = inline_length + written + xdr_pad(written);
	at.head_length = written ? inline_length : receive.head_length;
	return true;
}

} // namespace rpcordma::chunk
