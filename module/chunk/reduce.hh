// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reduction (RFC 8166 3.4 and 3.5): how one RPC goes over the wire. Given the shapes of a call's
 * send and receive buffers, what the upper layer marked as eligible for direct data placement, the
 * device's limits and both inline thresholds, decide which bytes go inline and which into a Read,
 * Write or Reply chunk, lay the chunks out in segments, and say how long the transport header is,
 * exactly.
 *
 * Nothing is encoded here (xdr/ does), nothing registered (module/rdma/ does), nothing allocated.
 *
 * The decisions, in this order:
 *
 *  Reply   fits inline at its largest           no chunk
 *          page data eligible, rest fits        Write chunk for the page data
 *          fits several transmissions           no chunk
 *          else                                 Reply chunk for head, page data and tail
 *  Call    fits inline                          RDMA_MSG
 *          page data eligible, rest fits        RDMA_MSG with a Read chunk for the page data
 *          fits several transmissions           RDMA_MSG and what continues it
 *          else                                 RDMA_NOMSG with a Position Zero Read chunk
 *
 * Inline comes first, even for an eligible item: it costs no registration and no round trip.
 *
 * An eligible item whose message is too large without it could also have a chunk of its own beside
 * the Reply chunk or the Position Zero Read chunk. 3.5.3 allows to put all into the latter, and
 * that is what is sent, unless Limits::combine_chunks says that the peer can be trusted with both:
 * Linux's own server splices an unpadded Read chunk into a long call without its XDR pad, and in a
 * Reply chunk beside a Write chunk it reports the length of the whole reply instead of what it
 * wrote there. Either would garble file data silently, so that it is for peers with the mark. NFS
 * hardly needs it: the rest of a READ or WRITE is small.
 *
 * XDR roundup (3.4.4.4): a Read chunk goes without the pad, and the inline rest then lacks it too.
 * A Write chunk is offered without a pad segment. Position Zero Read chunk and Reply chunk hold a
 * whole Payload stream, with the pads that belong to it.
 *
 * Every segment is a memory region with an R_key of its own. A version 1 responder can invalidate
 * one R_key with its Send, and the usual one does so only if the header has a single R_key:
 * Plan::rkeys tells whether LOCAL_INV work requests have to be expected.
 */
#pragma once

#include "module/chunk/segments.hh"
#include "module/chunk/thresholds.hh"
#include "xdr/lists.hh"

namespace rpcordma::chunk {

/** One RPC: its buffers as sunrpc offers them, and what may be placed directly. */
struct CallShape {
	/** rq_snd_buf, encoded. */
	BufferShape send;
	/** rq_rcv_buf as it is before the call is sent: its lengths are what the reply may fill. */
	BufferShape receive;
	/** XDRBUF_WRITE on rq_snd_buf: the page data are one DDP-eligible item. */
	bool send_ddp = false;
	/** XDRBUF_READ on rq_rcv_buf: the page data will be one DDP-eligible item. */
	bool receive_ddp = false;
	/** False where the security flavour covers the payload (RPCAUTH_AUTH_DATATOUCH). */
	bool ddp_allowed = true;
};

/** The longest message in bytes; sunrpc counts a reply's bytes in an int. */
static constexpr u32 kMaxMessage = 0x7fff0000;

/** How the call's Payload stream travels. */
enum class SendMode : u8 {
	inline_only,   /* RDMA_MSG, Read list empty (Short Message, 3.5.1) */
	read_chunk,    /* RDMA_MSG, page data in a Read chunk (Chunked Message, 3.5.2) */
	position_zero, /* RDMA_NOMSG, all of it in a Position Zero Read chunk (Long Call, 3.5.3) */
	position_zero_read, /* RDMA_NOMSG, page data in a Read chunk, the rest in Position Zero */
	sent_item, /* not of reduce(): ROPT_XMTREQ, page data in DDP segments, the rest inline (rtrext-01) */
};

/** How the bytes of the call that are inline get behind the transport header. */
enum class InlineMethod : u8 {
	none,	  /* there are none (RDMA_NOMSG) */
	copied,	  /* copy the ranges, in order, behind the header in the send buffer: one SGE */
	gathered, /* one SGE for the header, then one for each range */
};

/** How the reply may come back. A responder may answer inline whatever was offered, if it fits. */
enum class ReceiveMode : u8 {
	inline_only,	 /* no Write list, no Reply chunk */
	write_chunk,	 /* page data by Write chunk, the rest inline */
	reply_chunk,	 /* all by Reply chunk */
	write_and_reply, /* page data by Write chunk, the rest inline or by Reply chunk */
	sent_item, /* not of reduce(): page data in DDP segments of ours or inline, the rest inline (rtrext-01) */
};

/** Most ranges of the send buffer that go inline: head, tail, and pages of a 64 KiB threshold. */
static constexpr u32 kMaxInlineRanges = 20;

/** What to do with one call. Filled by reduce(); all ranges are offsets into the buffers' bytes. */
struct Plan {
	SendMode send_mode;
	InlineMethod inline_method;
	ReceiveMode receive_mode;
	/** The length of the transport header in bytes, chunk lists included. */
	u32 header_length;
	/** Bytes of the Payload stream behind the header; 0 with RDMA_NOMSG. */
	u32 inline_length;
	/** Sends of the message; the second and later ones have no chunks, and more of the inline bytes. */
	u32 transmissions;
	/** The Position of read_chunk; where send_mode has one, never 0 and a multiple of four. */
	u32 read_position;

	/**
	 * The inline bytes of the send buffer, in stream order, as offsets into CallShape::send.
	 * copied: at most two ranges, which may run through all parts (walk them by pieces).
	 * gathered: each is contiguous in memory, page data one range per page, so that each is
	 * one SGE.
	 */
	FixedList<ByteRange, kMaxInlineRanges> inline_ranges;
	/**
	 * Segments with Position 0. Offsets into CallShape::send; with position_zero_read, into
	 * without_payload(CallShape::send).
	 */
	SegmentList position_zero;
	/** Segments with Position read_position; offsets into CallShape::send. */
	SegmentList read_chunk;
	/** The only Write chunk; offsets into CallShape::receive. */
	SegmentList write_chunk;
	/**
	 * The Reply chunk. Offsets into CallShape::receive; with write_and_reply, into
	 * without_pages(CallShape::receive).
	 */
	SegmentList reply_chunk;

	/** Without any chunk, and @length bytes inline, which are copied. */
	constexpr void set_short(u32 header, u32 length)
	{
		send_mode = SendMode::inline_only;
		inline_method = InlineMethod::copied;
		receive_mode = ReceiveMode::inline_only;
		header_length = header;
		inline_length = length;
		transmissions = 1;
		read_position = 0;
		inline_ranges.clear();
		(void)inline_ranges.push({0, length});
		position_zero.clear();
		read_chunk.clear();
		write_chunk.clear();
		reply_chunk.clear();
	}
	/** RDMA_NOMSG instead of RDMA_MSG. */
	[[nodiscard]] constexpr bool nomsg() const
	{
		return send_mode == SendMode::position_zero ||
		       send_mode == SendMode::position_zero_read;
	}
	/**
	 * The page data, which were planned as read_chunk, go in Sends instead, behind a header of @header in the first of @count
	 * transmissions; and the reply comes without chunks.
	 */
	constexpr void set_sent_item(u32 header, u32 count)
	{
		send_mode = SendMode::sent_item;
		receive_mode = ReceiveMode::inline_only;
		header_length = header;
		transmissions = count;
		read_chunk.clear();
		reply_chunk.clear();
	}
	/**
	 * The page data of the reply, which were planned as write_chunk, come in Sends instead. The call is a ROPT_XMTREQ, with
	 * @length bytes inline behind a header of @header.
	 */
	constexpr void set_asked_item(u32 header, u32 length)
	{
		set_short(header, length);
		receive_mode = ReceiveMode::sent_item;
	}
	/** The number of memory regions, so of R_keys in the header. */
	[[nodiscard]] constexpr u32 rkeys() const
	{
		return position_zero.size() + read_chunk.size() + write_chunk.size() +
		       reply_chunk.size();
	}
	/** SGEs of the Send, the header's included. */
	[[nodiscard]] constexpr u32 send_sges() const
	{
		return inline_method == InlineMethod::gathered ? 1 + inline_ranges.size() : 1;
	}
	/** The buffer that the offsets of position_zero are for. */
	[[nodiscard]] constexpr BufferShape position_zero_shape(const CallShape &call) const
	{
		return send_mode == SendMode::position_zero_read ? without_payload(call.send) :
								   call.send;
	}
	/** The buffer that the offsets of reply_chunk are for. */
	[[nodiscard]] constexpr BufferShape reply_chunk_shape(const CallShape &call) const
	{
		return receive_mode == ReceiveMode::write_and_reply ? without_pages(call.receive) :
								      call.receive;
	}
};

/**
 * The length in bytes of a header that has @bare without chunks: a Read list with @read_segments entries, a Write
 * list of at most one Write chunk with @write_segments, and a Reply chunk with @reply_segments; no chunk
 * where the number is 0.
 */
[[nodiscard]] constexpr u32 header_length(u32 bare, u32 read_segments, u32 write_segments,
					  u32 reply_segments)
{
	return static_cast<u32>(xdr::encoded_length(bare, read_segments, write_segments != 0,
						    write_segments, reply_segments != 0,
						    reply_segments));
}

/**
 * Decide how one call goes over the wire.
 *
 * @call        the shapes of its buffers
 * @limits      what the device allows
 * @thresholds  the connection's inline thresholds
 * @plan        overwritten; only meaningful on success
 *
 * On success header_length + inline_length <= thresholds.send, or fits plan.transmissions of them, and the largest
 * reply that the chunks leave inline fits thresholds.receive. Callable from any context.
 *
 * Errors: EINVAL, @limits are not valid() (a fault of the caller). Calls that go inline, or with one segment, do not look;
 *         EMSGSIZE, the message cannot be sent over this connection: a buffer over kMaxMessage,
 *         more segments than limits.max_segments, or a header over an inline threshold. Not to be
 *         retried. It does not happen with payloads up to max_payload(), kvecs up to kMaxKvecLength, and
 *         thresholds of 1024 or more.
 */
[[nodiscard]] Status reduce(const CallShape &call, const Limits &limits,
			    const Thresholds &thresholds, Plan &plan);

/**
 * Whether a call goes as most do, behind a bare header and without chunks: what is sent, @send bytes of the RPC message, fits,
 * and so does the longest reply, @reply bytes. What reduce() asks first.
 */
[[nodiscard]] constexpr bool goes_short(u64 send, u64 reply, const Limits &limits,
					const Thresholds &thresholds)
{
	return send && send <= limits.copy_limit &&
	       thresholds.bare_header + send <= thresholds.send &&
	       thresholds.bare_header + reply <= thresholds.receive;
}

/** Whether one region holds the page data. */
[[nodiscard]] constexpr bool in_one_region(const BufferShape &shape, const Limits &limits)
{
	const u64 touched = (shape.page_base & (limits.mr_page_size - 1)) + u64(shape.page_length);

	return !limits.parts_alone && touched <= u64(limits.mr_pages) * limits.mr_page_size;
}

/** Lay out the page data of which in_one_region() is true. */
constexpr void layout_in_one(const BufferShape &shape, SegmentList &out)
{
	out.clear();
	out.gaps = false;
	(void)out.push({shape.head_length, shape.page_length});
}

/** Whether the page data may come as a Write chunk. */
[[nodiscard]] constexpr bool reply_reducible(const CallShape &call)
{
	return call.ddp_allowed && call.receive_ddp && call.receive.page_length;
}

/** Whether the page data may go as a Read chunk, at the Position where they stand. */
[[nodiscard]] constexpr bool reducible(const CallShape &call)
{
	/* Position 0 means a long call, and one that is no multiple of four is not allowed (3.4.5).
	 */
	return call.ddp_allowed && call.send_ddp && call.send.page_length &&
	       call.send.head_length && !(call.send.head_length & 3);
}

/**
 * Whether the call goes whole, as a Position Zero Read chunk, because it is too long for everything else. reduce() may
 * come to it in other ways too, where a payload's chunk does not fit, or the rest beside it. False of what reduce() refuses.
 */
[[nodiscard]] constexpr bool goes_whole(const CallShape &call, const Thresholds &thresholds)
{
	return call.send.length() <= kMaxMessage &&
	       !thresholds.transmissions_for(thresholds.send, thresholds.bare_header,
					     call.send.length()) &&
	       !reducible(call);
}

/** The same of the longest reply, which comes whole in a Reply chunk. */
[[nodiscard]] constexpr bool comes_whole(const CallShape &call, const Thresholds &thresholds)
{
	return call.receive.length() <= kMaxMessage &&
	       !thresholds.transmissions_for(thresholds.receive, thresholds.bare_header,
					     call.receive.length()) &&
	       !reply_reducible(call);
}

/**
 * The plan of most READs and WRITEs: the page data in one chunk of one region, and what is left of the call copied
 * behind the header. What reduce() asks second; goes_short() is false, and neither message is longer than kMaxMessage.
 * False: it is another one, and @plan says nothing.
 */
[[nodiscard, gnu::always_inline]] inline bool plan_lone(const CallShape &call, const Limits &limits,
							const Thresholds &thresholds, Plan &plan)
{
	const u32 bare = thresholds.bare_header, header = header_length(bare, 0, 1, 0);
	const BufferShape &send = call.send, &receive = call.receive;
	const u64 sent = send.length(), received = receive.length();

	static_assert(header_length(0, 0, 1, 0) == header_length(0, 1, 0, 0));
	if (bare + received > thresholds.receive) {
		/* Without page data it is too long with a chunk as well. */
		if (!call.ddp_allowed || !call.receive_ddp || !sent || sent > limits.copy_limit ||
		    header + sent > thresholds.send ||
		    header + received - receive.page_length > thresholds.receive ||
		    !in_one_region(receive, limits))
			return false;
		plan.set_short(header, static_cast<u32>(sent));
		plan.receive_mode = ReceiveMode::write_chunk;
		layout_in_one(receive, plan.write_chunk);
		return true;
	}
	const u32 pad = pad_in_tail(send), tail = send.tail_length - pad;
	const u64 rest = u64(send.head_length) + tail;

	if (!reducible(call) || bare + sent <= thresholds.send || rest > limits.copy_limit ||
	    header + rest > thresholds.send || !in_one_region(send, limits))
		return false;
	plan.set_short(header, static_cast<u32>(rest));
	plan.send_mode = SendMode::read_chunk;
	plan.read_position = send.head_length;
	layout_in_one(send, plan.read_chunk);
	if (tail) {
		plan.inline_ranges.clear();
		(void)plan.inline_ranges.push({0, send.head_length});
		(void)plan.inline_ranges.push({send.head_length + send.page_length + pad, tail});
	}
	return true;
}

/** The largest payload that is ever announced, in bytes: what an nfsd takes in one call. */
static constexpr u32 kMaxPayload = 1024 * 1024;

/** The longest head or tail, in bytes, that max_payload() makes room for. */
static constexpr u32 kMaxKvecLength = 16 * 1024;

/**
 * The largest payload in bytes that always fits one chunk, whatever its alignment, with a head and
 * a tail of up to kMaxKvecLength each beside it: sunrpc's xprt->max_payload. A multiple of
 * page_size, at most kMaxPayload; 0 when the device is too poor to carry a page, or @limits are not
 * valid().
 */
[[nodiscard]] u32 max_payload(const Limits &limits);

/**
 * The most segments that a chunk of max_payload() bytes has, whatever its alignment: regions of the largest READ or WRITE.
 * 0 where that is 0.
 */
[[nodiscard]] u32 payload_segments(const Limits &limits);

} // namespace rpcordma::chunk
