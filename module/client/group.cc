// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls of several transmissions, on connections of version 2 with round-trip reduction (rtrext-01): a call that is too long
 * for one message, and has nothing to be placed, is an XMTREQ and XMTCONTs instead of an RDMA_NOMSG with a Read chunk. They
 * are posted as one chain, and nothing else of this end comes between them. Each has a credit. A call whose reply may be long is
 * an XMTREQ as well, and says in how many transmissions that may come: for these it has Receives.
 *
 * Calls whose page data go in Sends instead of a Read chunk: each transmission begins with what is as long as the peer's
 * head, header, stream and zeros, so that its part of the page data comes into pages of the peer's. The Sends read the data where
 * they lie (gather.hh); without a mapping, or enough SGEs, they are copied into the Sends' own pages.
 *
 * And calls whose reply's page data may come in Sends instead of a Write chunk: they say so, and reply.cc copies the data from
 * the Receives' pages.
 *
 * With the transport's send lock.
 */

#include "module/chunk/placement.hh"
#include "module/chunk/select.hh"
#include "module/client/client.hh"
#include "module/rdma/transmission.hh"
#include "xdr/rtrext.hh"

using namespace rpcordma;

/* What stays free of the window: calls of one transmission are not to starve. */
static constexpr u32 kFreeShare = 4;

/* DDP segments that the item of a call takes: no more than of our size come into play. */
static constexpr u32 kItemSegments = protocol::kCallTransmissions * MessagePages::kMost;

/* The buffer of @call's transmission @i. */
[[nodiscard]] static SendBuffer &send_of(Call *call, u32 i)
{
	return i ? call->others->sends[i - 1] : call->send();
}

/* Have the buffers of @count Sends, of @bytes each where there is memory. Returns the least that one has; 0: none. */
[[nodiscard]] static u32 provide_sends(Connection &c, Call *call, u32 count, u32 bytes)
{
	const u32 head = call->send().capacity();
	u32 least = bytes;

	if (count > 1 && !call->others)
		call->others = Owned<GroupSends>::create(RPCORDMA_ALLOC_ATOMIC);
	if (count > 1 && !call->others)
		return 0;
	for (u32 i = 0; i < count; i++) {
		SendBuffer &send = send_of(call, i);

		if (!send.ensure(head, RPCORDMA_ALLOC_ATOMIC) || !send.map(c.endpoint))
			return 0;
		if (bytes > send.capacity() && c.send_pages.count)
			(void)send.extend(c.endpoint, c.send_pages, RPCORDMA_ALLOC_ATOMIC);
		least = min(least, send.whole_capacity());
	}
	return least;
}

/* Have credits for @count transmissions of @call, and Receives for @replies of its reply; or none. */
bool rpcordma_client::take_for_group(Call *call, u32 count, u32 replies)
{
	/* The peer may use those at once that another call gave back. */
	if (reserve.load(std::memory_order_acquire) < replies) {
		tally(stats.reserve_short, 1);
		return false;
	}
	if (count > 1 && !rpcordma_xprt_take_credits(xprt, count - 1, kFreeShare)) {
		tally(stats.credits_short, 1);
		return false;
	}
	/* Others only give back. */
	reserve.fetch_sub(replies, std::memory_order_relaxed);
	call->receives = replies;
	call->credits = count - 1;
	return true;
}

/* Have the @count Sends of @call read its page data where they lie. */
[[nodiscard]] static bool gather_item(Connection &c, Call *call, const rpcordma_xdr_buf &buf,
				      const properties::Structure &room, u32 count)
{
	if (!c.gather_sges || room.head() > call->send().capacity())
		return false;
	const u32 bytes = provide_sends(c, call, count, room.head());
	if (!bytes || bytes < room.head())
		return false;
	/* What precedes the data is in the heads, of which one may be from before they were made longer. */
	for (u32 i = 1; i < count; i++)
		if (send_of(call, i).capacity() < room.head())
			return false;
	if (!call->gathered)
		call->gathered = Owned<GatheredPages>::create(RPCORDMA_ALLOC_ATOMIC);
	if (!call->gathered)
		return false;
	return call->gathered->map(c.endpoint, buf, room, count, c.gather_sges);
}

/* Have the @count Sends of @call carry a copy of its page data, the first one @bytes in all, and none more. */
[[nodiscard]] static bool copy_item_whole(Connection &c, Call *call, u32 count, u32 bytes)
{
	return bytes <= call->send().capacity() + c.send_pages.bytes() &&
	       provide_sends(c, call, count, bytes) >= bytes;
}

/* What select() is to know of @c's ends, and of what @call has. */
[[nodiscard]] static chunk::Means means_of(const Connection &c, const Call &call)
{
	const protocol::Reduction theirs = c.session.peer_reduction();
	const chunk::Thresholds thresholds = c.session.thresholds();
	chunk::Means means;

	means.extensions = c.session.reduction().extensions & theirs.extensions;
	means.send_bytes = thresholds.send;
	/* Of each Receive the server fills no more than that. */
	means.receive_bytes = min(thresholds.receive, protocol::kMostInline);
	means.buffer_bytes = call.send().capacity() + c.send_pages.bytes();
	means.theirs = c.session.peer_structure();
	means.ours = structure_of(c.receive_queue.maker().room());
	means.call_limit = min(theirs.call_limit, protocol::kCallTransmissions);
	means.reply_limit = min(theirs.reply_limit, protocol::kReplyTransmissions);
	means.item_segments = kItemSegments;
	means.write_max = c.send_write_max;
	means.read_max = c.send_read_max;
	return means;
}

/* Whether what @chosen takes can be had, for @call to go with its page data in Sends; as begin_group(). */
bool rpcordma_client::begin_item(Connection &c, Call *call, const rpcordma_request &request,
				 const chunk::Means &means, const chunk::Selection &chosen)
{
	const u32 count = chosen.call_transmissions;

	if (!take_for_group(call, count, chunk::receives_to_reserve(chosen.reply_transmissions)))
		return false;
	if (!gather_item(c, call, *request.send, means.theirs, count) &&
	    !copy_item_whole(c, call, count, chosen.send_bytes)) {
		return_extra_credits(call);
		return false;
	}
	call->plan.set_sent_item(chosen.header_length, count);
	item_room = means.theirs;
	return true;
}

/* The same, for @call to have its reply's page data come in Sends. */
bool rpcordma_client::begin_asking(Connection &c, Call *call, const chunk::Selection &chosen)
{
	if (provide_sends(c, call, 1, chosen.send_bytes) < chosen.send_bytes ||
	    !take_for_group(call, 1, chunk::receives_to_reserve(chosen.reply_transmissions)))
		return false;
	item_least = chosen.item_least;
	call->plan.set_asked_item(chosen.header_length, call->plan.inline_length);
	return true;
}

/* The same, for @call to go inline in several transmissions, or to have a reply of several. */
bool rpcordma_client::begin_parts(Connection &c, Call *call, chunk::Means means,
				  chunk::Selection chosen)
{
	const u32 bytes = provide_sends(c, call, chosen.call_transmissions, chosen.send_bytes);

	if (!bytes)
		return false;
	/* Without pages for all it may take more. */
	if (bytes < chosen.send_bytes) {
		const u32 count = chosen.call_transmissions;

		means.buffer_bytes = bytes;
		chosen = chunk::select(call->shape, call->plan, means);
		if (chosen.way != chunk::Way::group ||
		    (chosen.call_transmissions > count &&
		     provide_sends(c, call, chosen.call_transmissions, bytes) < bytes))
			return false;
	}
	if (!take_for_group(call, chosen.call_transmissions,
			    chunk::receives_to_reserve(chosen.reply_transmissions)))
		return false;
	call->plan.set_short(chosen.header_length, u32(call->shape.send.length()));
	call->plan.transmissions = chosen.call_transmissions;
	group_bytes = bytes;
	return true;
}

/*
 * Whether @call, which was planned with chunks, goes by an XMTREQ instead. Then its plan says so, and it has the credits,
 * Receives and buffers for that.
 */
bool rpcordma_client::begin_group(Connection &c, Call *call, const rpcordma_request &request)
{
	if (!c.session.reduces())
		return false;
	const chunk::Means means = means_of(c, *call);
	const chunk::Selection chosen = chunk::select(call->shape, call->plan, means);

	if (chosen.way == chunk::Way::planned || plainness.in_force(rpcordma_now_ms()))
		return false;
	/* Where the reply goes is looked up when it is here, as of each that comes without chunks (renew_shape()). */
	return chosen.way == chunk::Way::group	   ? begin_parts(c, call, means, chosen) :
	       chosen.way == chunk::Way::sent_item ? begin_item(c, call, request, means, chosen) :
						     begin_asking(c, call, chosen);
}

/* Have @write(bytes, n) write each piece of memory of @send's bytes [@from, @end). */
template <typename Write>
static void write_pieces(const SendBuffer &send, u32 from, u32 end, Write write)
{
	while (from < end) {
		const MutableBytes room = send.room_from(from);
		const u32 n = static_cast<u32>(min<usize>(end - from, room.size()));

		write(room.data(), n);
		from += n;
	}
}

/* Copy @length bytes of @buf, from @at on, into @send, from @used on. */
static void copy_into(const SendBuffer &send, u32 used, const rpcordma_xdr_buf &buf, u32 at,
		      u32 length)
{
	write_pieces(send, used, used + length, [&](u8 *bytes, u32 n) {
		rpcordma_buf_read(&buf, at, bytes, n);
		at += n;
	});
}

/* Fill @send from @used up to @end with zeros. */
static void clear(const SendBuffer &send, u32 used, u32 end)
{
	write_pieces(send, used, end, [](u8 *bytes, u32 n) { __builtin_memset(bytes, 0, n); });
}

/* The same of one with an item: header and stream are in the first, and the item behind what is as long as the peer's head. */
Status rpcordma_client::make_item(const Connection &c, Call *call, const rpcordma_request &request)
{
	const Xid xid(call->xid);
	const Credits credits = c.credits.requested();
	const rpcordma_xdr_buf &buf = *request.send;
	const u32 count = call->plan.transmissions, head = item_room.head();
	const bool gathered = call->is_gathered();
	u32 at = u32(buf.head.length), numbers[kItemSegments];

	for (u32 i = 0; i < count; i++) {
		SendBuffer &send = send_of(call, i);
		const u32 n = chunk::item_bytes(item_room, buf.page_length, i);
		u32 used;

		if (i) {
			used = TRY(rtrext::encode(send.room(), xid, credits, xdr::Direction::call,
						  {i, static_cast<u32>(xdr::Option::xmtreq), 0}));
		} else {
			const u32 segments = div_round_up(buf.page_length, item_room.segment_length);
			rtrext::Encoder encoder(send.room(), xid, credits, xdr::Option::xmtreq);

			for (u32 number = 0; number < segments; number++)
				numbers[number] = number;
			encoder.sent(call->plan.read_position, buf.page_length, 0,
				     {numbers, segments});
			used = TRY(encoder.finish(count, max(1u, call->receives),
						  call->plan.inline_length));
			for (chunk::ByteRange range : call->plan.inline_ranges) {
				copy_into(send, used, buf, range.offset, range.length);
				used += range.length;
			}
		}
		trace::group_sent(peer, xid, xdr::Option::xmtreq, i, count,
				  i ? 0 : call->plan.inline_length);
		clear(send, used, head);
		if (gathered) {
			send.hand_over_with(c.endpoint, head, call->gathered->sges(i));
			continue;
		}
		copy_into(send, head, buf, at, n);
		at += n;
		send.hand_over(c.endpoint, head + n);
	}
	tally(stats.gathered_item_count, gathered);
	tally(stats.pullup_copy_count, gathered ? 0 : buf.page_length);
	if (trace::on(RPCORDMA_TRACE_MARSHAL))
		trace_marshal(c, *call, xdr::Kind::optional);
	return {};
}

/* Write the transmissions of @call, and hand them over. Errors: those of their encoders. */
Status rpcordma_client::make_group(const Connection &c, Call *call, const rpcordma_request &request)
{
	const Xid xid(call->xid);
	const Credits credits = c.credits.requested();
	const u32 count = call->plan.transmissions, length = call->plan.inline_length;
	u32 at = 0;

	if (call->plan.send_mode == chunk::SendMode::sent_item)
		return make_item(c, call, request);
	for (u32 i = 0; i < count; i++) {
		SendBuffer &send = send_of(call, i);
		u32 header, n = min(rtrext::request_room(group_bytes, i), length - at);

		if (i) {
			header = TRY(rtrext::encode(send.room(), xid, credits, xdr::Direction::call,
						    {i, static_cast<u32>(xdr::Option::xmtreq), n}));
		} else {
			rtrext::Encoder encoder(send.room(), xid, credits, xdr::Option::xmtreq);

			if (call->plan.receive_mode == chunk::ReceiveMode::sent_item) {
				encoder.set(0, ~0u);
				encoder.place_sent(item_least);
				n = length;
			}
			header = TRY(encoder.finish(count, max(1u, call->receives), n));
		}
		copy_into(send, header, *request.send, at, n);
		trace::group_sent(peer, xid, xdr::Option::xmtreq, i, count, n);
		at += n;
		send.hand_over(c.endpoint, header + n);
	}
	tally(stats.pullup_copy_count, length - min<u32>(length, u32(request.send->head.length)));
	if (trace::on(RPCORDMA_TRACE_MARSHAL))
		trace_marshal(c, *call, xdr::Kind::optional);
	return {};
}

/* Post the transmissions of @call. Room for them is taken. The last is signaled when there is an entry for it. */
Status rpcordma_client::post_group(Connection &c, Call *call, rpcordma_cqe *signaled)
{
	const u32 count = call->plan.transmissions;

	for (u32 i = 0; i < count; i++) {
		rpcordma_send_wr &wr = send_of(call, i).wr;

		wr.opcode = RPCORDMA_WR_SEND;
		wr.send_flags = 0;
		wr.cqe = &c.silent_send_cqe;
		wr.next = i + 1 < count ? &send_of(call, i + 1).wr : nullptr;
	}
	rpcordma_send_wr &last = send_of(call, count - 1).wr;
	if (signaled) {
		last.send_flags = RPCORDMA_SEND_SIGNALED;
		last.cqe = signaled;
	}
	const u32 xid = call->xid;
	const rpcordma_cqe *const entry = last.cqe;
	/* Drivers promise nothing of a chain: what goes past the sender has the lock too (send_aside()). */
	SpinGuard guard(lock);
	const int rc = rpcordma_post_send(c.endpoint, &call->send().wr).error;

	guard.release();
	trace::post(c.endpoint, "group", xid, count, signaled != nullptr, rc, entry);
	return rc ? Status(from_errno(rc)) : Status();
}
