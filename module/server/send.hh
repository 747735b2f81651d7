// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sending a message: its Sends, behind the RDMA Writes of its chunks, in one chain and one post; and what
 * follows their completion. As the send queue is in order, data are there before the message that tells of
 * them.
 */
#pragma once

#include "compat/port/port.h"
#include "module/base/result.hh"
#include "module/base/span.hh"
#include "module/server/call.hh"
#include "module/server/server.hh"

namespace rpcordma {

/** Bytes of a send buffer for most messages of version 2. Longer ones lend their memory, or have a buffer made. */
constexpr u32 kSendHead = properties::default_receive_size;

/** A message that is to be posted. */
struct Outgoing {
	const rpcordma_send_wr *first_write =
		nullptr; /* of the call's transfer, or lone; the last is linked to the first Send */
	u32 writes = 0;
	/* The last of these are no Writes: a reply's transmissions but for the last, with round-trip reduction. */
	u32 others = 0;
	bool begun = false; /* Writes of it are posted: the device is an owner of the call already */
	RoomWait wait;
	u32 invalidate = 0; /* the R_key that the last Send invalidates; 0: none */
	u32 transmissions = 1;
	u32 lengths[protocol::kTransmissions] = {}; /* bytes in each Send */
	/* SGEs of the last Send, in the call's transfer or lone request, the buffer's first; 0: its buffer has all. */
	u32 gathered = 0;
	/* Then as many bytes, the last in that buffer, have the last SGE. */
	u32 tail_length = 0;

	/** Work requests of all. */
	[[nodiscard]] u32 requests() const
	{
		return writes + (protocol::kTransmissions > 1 ? transmissions : 1);
	}
};

/** Bytes of a send buffer, as most messages want it. */
[[nodiscard]] inline u32 send_size(const Server &server)
{
	const u32 threshold = server.session.thresholds().send;

	return server.session.rules().properties ? min(threshold, kSendHead) : threshold;
}
/**
 * Have @send, of @call, which nobody uses, ready to be written. One that has @least bytes will do; a new one gets @size. As
 * make_sends().
 */
[[nodiscard]] bool make_send(Server &server, const ServerCall *call, SendBuffer &send, u32 size,
			     u32 least, rpcordma_alloc_how how);
/**
 * Make the first @transmissions of @call's send buffers, which nobody uses, at least @size bytes each. False: no
 * memory. @how names the contexts.
 */
[[nodiscard]] bool make_sends(Server &server, ServerCall *call, u32 transmissions, u32 size,
			      rpcordma_alloc_how how);
[[nodiscard]] inline bool make_sends(Server &server, ServerCall *call, u32 transmissions,
				     rpcordma_alloc_how how)
{
	return make_sends(server, call, transmissions, send_size(server), how);
}
/** Have its first one. As that. */
[[nodiscard, gnu::always_inline]] inline bool ensure_send(Server &server, ServerCall *call,
							  rpcordma_alloc_how how)
{
	const SendBuffer &send = call->sends[0];

	/* The threshold may change once, with the version. */
	if (send.mapped() && send.capacity() >= send_size(server))
		return true;
	return make_sends(server, call, 1, how);
}
/**
 * Write the header of each transmission of @out but the first, whose lengths then are those of the headers.
 * Errors: ENOMEM; ENOSPC.
 */
[[nodiscard]] Status encode_continuations(Server &server, ServerCall *call,
					  const xdr::Envelope &envelope, Outgoing &out);
/** As append_inline(), for messages of several Sends. */
void spread_inline(const Server &server, ServerCall *call, const rpcordma_xdr_buf *buf,
		   Span<const chunk::ReplyRange> ranges, Outgoing &out);
/**
 * Put @buf, whose pages are @rqst's, behind the header in @call's first Send, without a copy where the device has the
 * SGEs: then the pages are the call's until that is done. Null @rqst: by copy. Errors: ENOMEM. A service thread.
 */
[[nodiscard]] Status append_long(Server &server, ServerCall *call, svc_rqst *rqst,
				 const rpcordma_xdr_buf *buf, Outgoing &out);
/** Copy bytes [@offset, @offset + @length) of @buf, which has them; most are in the head. Any context. */
inline void read_bytes(const rpcordma_xdr_buf *buf, u32 offset, void *to, u32 length)
{
	if (u64(offset) + length <= buf->head.length)
		__builtin_memcpy(to, static_cast<const u8 *>(buf->head.base) + offset, length);
	else
		rpcordma_buf_read(buf, offset, to, length);
}
/** Copy the bytes of @buf that @ranges say into the Sends of @out, behind what is there. There is room. */
inline void append_inline(const Server &server, ServerCall *call, const rpcordma_xdr_buf *buf,
			  Span<const chunk::ReplyRange> ranges, Outgoing &out)
{
	if (protocol::kTransmissions > 1)
		return spread_inline(server, call, buf, ranges, out);
	for (const chunk::ReplyRange &range : ranges) {
		read_bytes(buf, range.offset, call->sends[0].room().data() + out.lengths[0],
			   range.length);
		out.lengths[0] += range.length;
	}
}
/**
 * Write a message without chunks, with the bytes of @buf behind the header; as many transmissions as they take.
 * @rqst: whose reply @buf is, or null. @thresholds: the session's, by which it was planned. Errors: ENOSPC, it is too
 * long; ENOMEM. @call has a first send buffer. A service thread, or any process context for what fits a send buffer.
 */
[[nodiscard, gnu::always_inline]] inline Status
build_bare(Server &server, ServerCall *call, svc_rqst *rqst, xdr::Envelope envelope,
	   const rpcordma_xdr_buf *buf, const chunk::Thresholds &thresholds, Outgoing &out)
{
	envelope.transmissions =
		thresholds.transmissions_for(thresholds.send, thresholds.bare_header, buf->len);
	if (!envelope.transmissions)
		return Error::no_space;
	out.transmissions = envelope.transmissions;
	out.lengths[0] = TRY(server.session.encode_bare(call->sends[0].room(), envelope));
	if (protocol::kTransmissions > 1 && envelope.transmissions > 1)
		TRY_STATUS(encode_continuations(server, call, envelope, out));
	if (__builtin_expect(envelope.transmissions == 1 &&
				     out.lengths[0] + buf->len > call->sends[0].capacity(),
			     0))
		return append_long(server, call, rqst, buf, out);
	const chunk::ReplyRange all[] = {{0, buf->len}};
	append_inline(server, call, buf, all, out);
	return {};
}

/**
 * Post @out, which is in @call's send buffers, and its transfer or lone request, once there is room. From here on the device is
 * an owner of @call; on failure it is not, or the drain makes an end of it. Errors: ENOTCONN. May wait.
 */
[[nodiscard]] Status post_message(Server &server, ServerCall *call, Outgoing &out, u32 xid);
/** As that, with the room taken: does not wait. */
[[nodiscard]] Status post_with_room(Server &server, ServerCall *call, const Outgoing &out, u32 xid);
/** The last of @call's chain completed, and with it all of them. Send completion. */
void message_sent(Server &server, ServerCall *call, const rpcordma_completion &completion);

} // namespace rpcordma
