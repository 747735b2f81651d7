// SPDX-License-Identifier: GPL-2.0-only
/* Sending a message. See send.hh. */

#include "module/server/send.hh"

#include "module/server/close.hh"
#include "module/server/failures.hh"
#include "module/server/owners.hh"
#include "module/server/server.hh"

namespace rpcordma {

/* A message may have more than one Send. */
static constexpr bool kSeveral = protocol::kTransmissions > 1;

/* Bytes of a header without chunks: more than any version has. */
static constexpr u32 kLongestBareHeader = 64;

/* --- building --- */

bool make_send(Server &server, const ServerCall *call, SendBuffer &send, u32 size, u32 least,
	       rpcordma_alloc_how how)
{
	/* Of another version's threshold. */
	if (send.capacity() < least)
		send.unmap(server.endpoint);
	if (!send.ensure_near(server.endpoint, size, how) || send.capacity() < least) {
		trace::failure(server.peer, trace::Failure::send_buffer_failed, call->xid(),
			       Error::no_memory);
		return false;
	}
	if (!send.map(server.endpoint)) {
		trace::failure(server.peer, trace::Failure::send_map_failed, call->xid(), Error::io);
		return false;
	}
	return true;
}

bool make_sends(Server &server, ServerCall *call, u32 transmissions, u32 size,
		rpcordma_alloc_how how)
{
	for (u32 i = 0; i < transmissions; i++)
		if (!make_send(server, call, call->sends[i], size, size, how))
			return false;
	return true;
}

Status encode_continuations(Server &server, ServerCall *call, const xdr::Envelope &envelope,
			    Outgoing &out)
{
	if (!make_sends(server, call, out.transmissions, RPCORDMA_ALLOC_SERVICE))
		return Error::no_memory;
	for (u32 i = 1; i < out.transmissions; i++)
		out.lengths[i] =
			TRY(server.session.encode_continuation(call->sends[i].room(), envelope, i));
	return {};
}

void spread_inline(const Server &server, ServerCall *call, const rpcordma_xdr_buf *buf,
		   Span<const chunk::ReplyRange> ranges, Outgoing &out)
{
	/* Each Send but the last is filled. */
	const u32 size = send_size(server);
	u32 i = 0;

	for (chunk::ReplyRange range : ranges)
		while (range.length) {
			if (out.lengths[i] == size)
				i++;
			const u32 part = min(range.length, size - out.lengths[i]);

			rpcordma_buf_read(buf, range.offset,
					  call->sends[i].room().data() + out.lengths[i], part);
			out.lengths[i] += part;
			range.offset += part;
			range.length -= part;
		}
}

/* The first Send, with header and all of @buf in its SGEs. False: that cannot be, and nothing is taken. */
[[nodiscard]] static bool gather_reply(Server &server, ServerCall *call, svc_rqst *rqst,
				       const rpcordma_xdr_buf *buf, Outgoing &out)
{
	Transfer *transfer = server_pool.take(Transfer::kPages, RPCORDMA_ALLOC_SERVICE);

	if (!transfer)
		return false;
	call->transfer = transfer;
	transfer->writes = true;
	/* One SGE is the header's. */
	const int mapped = rpcordma_bulk_add_buf(transfer->bulk, buf, 0, buf->len) ?
				   -1 :
				   rpcordma_bulk_map(transfer->bulk, server.endpoint,
						     RPCORDMA_DMA_TO_DEVICE, transfer->sges + 1,
						     Transfer::sges_for(transfer->room) - 1);
	trace_mapping(server, *call, true);
	if (mapped > 0 && u32(mapped) < server.limits.send_sges) {
		/* From here on the thread's pages are the transfer's. */
		transfer->page_count =
			rpcordma_svc_take_reply_pages(rqst, transfer->pages, transfer->room);
		if (transfer->page_count) {
			out.gathered = 1 + u32(mapped);
			return true;
		}
	}
	put_transfer(server, call);
	return false;
}

/*
 * The same of one whose page data lie in few pages, as a small READ's do: its head and its tail are copied, and @call's lone
 * request has the rest.
 */
[[nodiscard]] static bool gather_lone(Server &server, ServerCall *call, svc_rqst *rqst,
				      const rpcordma_xdr_buf *buf, Outgoing &out)
{
	const u32 head = u32(buf->head.length), tail = u32(buf->tail.length);
	const u32 pages = rpcordma_svc_reply_pages(rqst);
	/* One SGE is the head's, and one the tail's. */
	const u32 others = 1 + (tail != 0);
	SendBuffer &send = call->sends[0];
	LoneRequest &lone = call->lone;

	if (u64(head) + buf->page_length + tail != buf->len || !pages ||
	    pages > LoneRequest::kReplyPages || server.limits.lone_write <= others ||
	    out.lengths[0] + u64(head) + tail > send.capacity())
		return false;
	const auto mapped = map_lone(server, call, RPCORDMA_WR_RDMA_WRITE, buf->pages,
				     buf->page_base, buf->page_length,
				     server.limits.lone_write - others, 1);
	if (!mapped.ok() || !mapped.value())
		return false;
	u8 *const to = send.room().data() + out.lengths[0];
	__builtin_memcpy(to, buf->head.base, head);
	if (tail)
		__builtin_memcpy(to + head, buf->tail.base, tail);
	out.lengths[0] += head + tail;
	out.tail_length = tail;
	lone.page_count = rpcordma_svc_take_reply_pages(rqst, lone.pages, LoneRequest::kReplyPages);
	out.gathered = others + lone.mapped;
	return true;
}

/* append_long() of any other than gather_lone() takes. */
[[nodiscard, gnu::noinline]] static Status append_larger(Server &server, ServerCall *call,
							 svc_rqst *rqst,
							 const rpcordma_xdr_buf *buf, Outgoing &out)
{
	const chunk::ReplyRange all[] = {{0, buf->len}};
	const u32 header = out.lengths[0];

	if (rqst && gather_reply(server, call, rqst, buf, out))
		return {};
	/* The header has to be written again: it was in the smaller one. */
	u8 kept[kLongestBareHeader];
	if (header > sizeof(kept))
		return Error::no_space;
	__builtin_memcpy(kept, call->sends[0].room().data(), header);
	if (!make_sends(server, call, 1, slab_bytes(header + buf->len), RPCORDMA_ALLOC_SERVICE))
		return Error::no_memory;
	__builtin_memcpy(call->sends[0].room().data(), kept, header);
	append_inline(server, call, buf, all, out);
	return {};
}

Status append_long(Server &server, ServerCall *call, svc_rqst *rqst, const rpcordma_xdr_buf *buf,
		   Outgoing &out)
{
	if (rqst && gather_lone(server, call, rqst, buf, out))
		return {};
	return append_larger(server, call, rqst, buf, out);
}

/* --- posting --- */

/* Make the Sends of @out ready to be posted. Returns the first. */
[[nodiscard, gnu::always_inline]] static inline rpcordma_send_wr *
link_sends(Server &server, ServerCall *call, const Outgoing &out)
{
	const u32 last = kSeveral ? out.transmissions - 1 : 0;

	for (u32 i = 0; i <= last; i++) {
		rpcordma_send_wr &wr = call->sends[i].wr;

		wr.opcode = RPCORDMA_WR_SEND;
		wr.next = i < last ? &call->sends[i + 1].wr : nullptr;
		/* The last one's completion tells of all; of others, failures are heard. */
		if constexpr (kSeveral) {
			wr.cqe = i < last ? &call->chain_cqe : &call->send_cqe;
			wr.send_flags = i < last ? 0 : RPCORDMA_SEND_SIGNALED;
		}
		call->sends[i].hand_over(server.endpoint, out.lengths[i]);
	}
	if (__builtin_expect(out.gathered, 0)) {
		rpcordma_send_wr &wr = call->sends[0].wr;
		rpcordma_sge *const sges = call->transfer ? call->transfer->sges : call->lone.sges;

		sges[0] = *wr.sg_list;
		if (out.tail_length) {
			rpcordma_sge &tail = sges[out.gathered - 1];

			sges[0].length -= out.tail_length;
			tail = sges[0];
			tail.addr += sges[0].length;
			tail.length = out.tail_length;
		}
		wr.sg_list = sges;
		wr.num_sge = int(out.gathered);
	}
	if (out.invalidate) {
		call->sends[last].wr.opcode = RPCORDMA_WR_SEND_WITH_INV;
		call->sends[last].wr.invalidate_rkey = out.invalidate;
	}
	return &call->sends[0].wr;
}

/*
 * Post what begins with @first, where replies may have several transmissions: nothing of another thread's is to come in
 * between, and drivers promise nothing of a chain; nor behind one of which a part was posted.
 */
[[nodiscard, gnu::noinline]] static rpcordma_posted post_alone(Server &server,
							       const rpcordma_send_wr *first)
{
	SpinGuard guard(server.posts);

	if (server.cut_short)
		return {to_errno(Error::not_connected), false};
	const rpcordma_posted posted = rpcordma_post_send(server.endpoint, first);
	server.cut_short = posted.error && posted.any;
	return posted;
}

/* Post what begins with @first. */
[[nodiscard, gnu::always_inline]] static inline rpcordma_posted
post_chain(Server &server, const rpcordma_send_wr *first)
{
	return __builtin_expect(!server.session.reduces(), 1) ?
		       rpcordma_post_send(server.endpoint, first) :
		       post_alone(server, first);
}

/* post_with_room(). */
[[nodiscard, gnu::always_inline]] static inline Status
post_outgoing(Server &server, ServerCall *call, const Outgoing &out, u32 xid)
{
	const u32 requests = out.requests(), writes = out.writes;
	const rpcordma_send_wr *const sends = link_sends(server, call, out);
	const rpcordma_send_wr *const first = writes ? out.first_write : sends;

	if (!out.begun)
		call->owners.fetch_add(1, std::memory_order_relaxed);
	call->room_taken = requests;
	const rpcordma_posted posted = post_chain(server, first);
	trace::post(server.endpoint, "reply", xid, requests, true, posted.error, call);
	if (!posted.error) {
		if (writes && writes != out.others)
			rpcordma_server_count(RPCORDMA_SERVER_WRITE, writes - out.others);
		return {};
	}
	/*
	 * Nothing of it was posted: nothing of it is the device's. Otherwise the Writes that were
	 * posted use what the call has until the drain, and the owner that never goes keeps it.
	 */
	if (!posted.any) {
		server.room.give(requests);
		if (!out.begun)
			call->owners.fetch_sub(1, std::memory_order_relaxed);
	}
	close_after(server, trace::Failure::post_failed, xid, from_errno(posted.error));
	return Error::not_connected;
}

Status post_message(Server &server, ServerCall *call, Outgoing &out, u32 xid)
{
	if (!wait_for_room(server, out.requests(), out.wait))
		return Error::not_connected;
	return post_outgoing(server, call, out, xid);
}

Status post_with_room(Server &server, ServerCall *call, const Outgoing &out, u32 xid)
{
	return post_outgoing(server, call, out, xid);
}

void message_sent(Server &server, ServerCall *call, const rpcordma_completion &completion)
{
	server.room.give(call->room_taken);
	if (completion.status != RPCORDMA_WC_SUCCESS)
		chain_failed(server, call, trace::Loss::send_failed, completion);
	finish_resources(server, call);
	drop_owner(server, call);
}

} // namespace rpcordma
