// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sending a call: reduce it, take what it needs, map what the peer is to reach, write the header and the inline
 * bytes into the call's send buffer, and post all of it (REG_MRs and the Send) with one doorbell.
 *
 * Runs with the transport's send lock: one sender at a time, and the connection stays.
 */

#include "module/client/transmit.hh"

using namespace rpcordma;
using trace::Failure;

/* The buffer that a segment's offsets are for, when it is not the call's own as it stands. */
[[nodiscard]] static rpcordma_xdr_buf with_shape(const rpcordma_xdr_buf &buf,
						 const chunk::BufferShape &shape)
{
	rpcordma_xdr_buf copy = buf;

	copy.head.base = reinterpret_cast<void *>(shape.head_address);
	copy.page_length = shape.page_length;
	copy.tail.base = reinterpret_cast<void *>(shape.tail_address);
	copy.tail.length = shape.tail_length;
	return copy;
}

/*
 * @error ends the task that sends, which may send for others: they have to come themselves to hear of
 * it, and the sender tries again a little later.
 */
[[nodiscard]] static Error fail_own(const rpcordma_request &request, Error error)
{
	return request.own ? error : Error::no_buffers;
}

/* The error that the peer answered this very call with, if it did. */
[[nodiscard]] static Error failure_of(const Call &call, u32 xid)
{
	return call.failed_xid.load(std::memory_order_acquire) == xid ? call.failure : Error::none;
}

/* Sends of a message: one, where no version has more. */
[[nodiscard]] static constexpr u32 sends_of(const chunk::Plan &plan)
{
	return protocol::kTransmissions > 1 ? plan.transmissions : 1;
}

/* --- planning --- */

/* Have head and tail of @shape in @memory, if that saves a region. Without memory they stay where they are: false. */
[[nodiscard]] static bool place(chunk::BufferShape &shape, const chunk::Limits &limits,
				Buffer &memory)
{
	if (!chunk::placing_joins(shape, limits) ||
	    (!memory && !memory.create(2 * limits.page_size, RPCORDMA_ALLOC_ATOMIC)))
		return false;
	shape = chunk::place_kvecs(shape, limits, reinterpret_cast<u64>(memory.data()));
	return true;
}

static void copy_kvec(u64 to, const rpcordma_kvec &from)
{
	if (from.length)
		__builtin_memcpy(reinterpret_cast<void *>(to), from.base, from.length);
}

/* Of what is sent, the last page as well is copied where it is not full, lest the tail make a region of its own. */
static void place_call(const Connection &c, Call *call, const rpcordma_request &request)
{
	const rpcordma_xdr_buf &buf = *request.send;
	const u32 ahead = chunk::bytes_ahead_of_tail(call->shape.send, c.limits);
	chunk::BufferShape shape = chunk::with_longer_tail(call->shape.send, ahead);

	if (!place(shape, c.limits, call->placed_call))
		return;
	copy_kvec(shape.head_address, buf.head);
	if (ahead)
		rpcordma_copy_from_pages(&buf, shape.page_length,
					 reinterpret_cast<void *>(shape.tail_address), ahead);
	copy_kvec(shape.tail_address + ahead, buf.tail);
	call->shape.send = shape;
}

/*
 * Where @call, or its reply, goes whole by a chunk, place head and tail so that they make one region with the page data:
 * then the peer can invalidate it with its reply.
 */
[[gnu::always_inline]] static inline void place_long(const Connection &c, Call *call,
						     const rpcordma_request &request,
						     const chunk::Thresholds &thresholds)
{
	chunk::CallShape &shape = call->shape;

	if (chunk::goes_whole(shape, thresholds))
		place_call(c, call, request);
	if (chunk::comes_whole(shape, thresholds))
		(void)place(shape.receive, c.limits, call->placed_reply);
}

/*
 * The thresholds that hold for @call, whose shape is known. Where the peer takes more than a send buffer's head, the
 * call gets pages behind it when it is long enough for them; without memory it goes by chunks.
 */
[[nodiscard, gnu::always_inline]] static inline chunk::Thresholds thresholds_for(Connection &c,
										 Call *call)
{
	chunk::Thresholds thresholds = c.session.thresholds();
	SendBuffer &send = call->send();

	if (__builtin_expect(thresholds.send > send.capacity(), 0)) {
		const u64 length = thresholds.bare_header + call->shape.send.length();

		if (length > send.capacity() && length <= thresholds.send && c.send_pages.count)
			(void)send.extend(c.endpoint, c.send_pages, RPCORDMA_ALLOC_ATOMIC);
		thresholds.send = min(thresholds.send, send.whole_capacity());
	}
	return thresholds;
}

/* Note what planning is to know of @request. */
[[gnu::always_inline]] static inline void take_request(Call *call, const rpcordma_request &request)
{
	chunk::CallShape &shape = call->shape;

	call->xid = request.xid;
	call->reply = request.receive;
	take_shape(shape.send, *request.send);
	take_shape(shape.receive, *request.receive);
	shape.send_ddp = request.send->flags & RPCORDMA_XDRBUF_WRITE;
	shape.receive_ddp = request.receive->flags & RPCORDMA_XDRBUF_READ;
	shape.ddp_allowed = request.ddp_allowed;
}

/* Decide how @call goes over the wire. */
[[nodiscard, gnu::always_inline]] static inline Status
reduce_call(Connection &c, Call *call, const rpcordma_request &request, u32 most_transmissions)
{
	chunk::Thresholds thresholds = thresholds_for(c, call);

	thresholds.transmissions = min(thresholds.transmissions, most_transmissions);
	if (!c.limits.sg_gaps)
		place_long(c, call, request, thresholds);
	return chunk::reduce(call->shape, c.limits, thresholds, call->plan);
}

/*
 * Plan @call, with as many transmissions as there are credits for: one has the credit that was taken, and the
 * others take theirs all at once, or the call goes in one.
 */
[[nodiscard, gnu::noinline]] static Status
plan_within_credits(Client &client, Connection &c, Call *call, const rpcordma_request &request)
{
	TRY_STATUS(reduce_call(c, call, request, protocol::kTransmissions));
	if constexpr (protocol::kTransmissions > 1) {
		const u32 more = call->plan.transmissions - 1;

		if (more && !rpcordma_xprt_take_credits(client.xprt, more, 0)) {
			/* place_long() may have changed the shape for a plan that is not to be. */
			take_request(call, request);
			return reduce_call(c, call, request, 1);
		}
		call->credits = more;
	}
	return {};
}

/*
 * Plan a call as most are: all of it is in its head and goes behind a bare header, and the reply fits a Receive whatever
 * it is. What reduce_call() would make of it, but for the shapes, which nobody asks for then (see deliver_other()). False:
 * it may be another one, and nothing is planned.
 */
[[nodiscard, gnu::always_inline]] static inline bool plan_short(const Connection &c, Call *call,
								const rpcordma_request &request)
{
	chunk::Thresholds thresholds = c.session.thresholds();
	const rpcordma_xdr_buf &send = *request.send, &receive = *request.receive;

	/* Nearly all that have a chunk. */
	if ((send.page_length | send.tail.length) || receive.page_length > thresholds.receive)
		return false;
	const u64 length = send.head.length,
		  reply = u64(receive.head.length) + receive.page_length + receive.tail.length;

	thresholds.send = min(thresholds.send, call->send().capacity());
	if (!chunk::goes_short(length, reply, c.limits, thresholds))
		return false;
	call->xid = request.xid;
	call->reply = request.receive;
	call->plan.set_short(thresholds.bare_header, static_cast<u32>(length));
	return true;
}

/*
 * Plan a call as most READs and WRITEs are: it has one chunk, of one region, which the slot has kept. What reduce_call()
 * would make of it. Its request was taken. False: it may be another one, and nothing is planned.
 */
[[nodiscard, gnu::always_inline]] static inline bool plan_lone(const Connection &c, Call *call)
{
	const Region *own = call->spare.front();
	const chunk::Thresholds thresholds = c.session.thresholds();

	if (!own || own->gaps || (c.send_write_max | c.send_read_max) ||
	    thresholds.send > call->send().capacity())
		return false;
	/* Head and tail are what marshal_lone() copies. */
	return chunk::plan_lone(call->shape, c.limits, thresholds, call->plan) &&
	       (!call->shape.send.page_length || !call->plan.read_chunk.empty());
}

/* --- what may run short, before anything is touched --- */

/* What find_regions() says of a call that needs none of these: see send_group(). No other step says it. */
static constexpr Error kGoesAsGroup = Error::no_option;

/* Whether begin_group() is to look at a call of @plan: it is long, its reply may be, or an item may go in Sends. */
[[nodiscard, gnu::always_inline]] static inline bool may_be_group(const Connection &c,
								  const chunk::Plan &plan)
{
	const bool may = u32(plan.nomsg()) | u32(!plan.reply_chunk.empty()) | c.send_write_max |
			 c.send_read_max;

	return __builtin_expect(may, 0);
}

/* Regions for @call's plan, of which there are @regions. */
[[nodiscard, gnu::noinline]] static Status find_regions(Client &client, Connection &c, Call *call,
							const rpcordma_request &request, u32 regions)
{
	/* Without regions there is nothing that several transmissions could save. */
	if (regions && may_be_group(c, call->plan)) {
		/* C1 */
		if (call->is_read()) {
			rpcordma_warn("C1: a call is to be sent while the device reads its pages");
			return client.drop_connection(Failure::call_still_out, request.xid, 0);
		}
		if (client.begin_group(c, call, request))
			return kGoesAsGroup;
	}
	if (regions && !client.take_regions(c, call)) {
		trace::failure(client.peer, Failure::regions_missing, call->xid,
			       static_cast<int>(regions));
		const Error error =
			client.wait_for_space([&] { return client.take_regions(c, call); });

		rpcordma_xprt_queue_refill(client.xprt, 0);
		return error;
	}
	return {};
}

/* Mapped send buffers for @call, which has @regions, and room in the send queue. */
[[nodiscard, gnu::always_inline]] static inline Status take_room(Client &client, Connection &c,
								 Call *call, u32 regions)
{
	const u32 sends = sends_of(call->plan), requests = regions + sends;

	if ((sends > 1 || !call->send().mapped()) && !client.map_send_buffers(c, call, sends))
		return Error::no_buffers;
	if (!c.send_queue.take(requests, regions)) {
		trace::failure(client.peer, Failure::send_queue_full, call->xid,
			       static_cast<int>(requests));
		return client.wait_for_space(
			[&] { return c.send_queue.has_room(requests, regions); });
	}
	return {};
}

/* --- header and inline bytes --- */

[[nodiscard]] static xdr::Segment segment_of(const Region &region)
{
	return {Rkey(region.mapping.rkey), region.mapping.length, region.mapping.iova};
}

/* The R_key that the reply is best to invalidate: that of the region with most bytes; zero without any. */
[[nodiscard]] static Rkey choose_invalidation(const Call &call)
{
	Rkey best;
	u32 most = 0;

	for (Region *region = call.mapped.front(); region; region = call.mapped.next(region)) {
		if (region->mapping.length <= most)
			continue;
		most = region->mapping.length;
		best = Rkey(region->mapping.rkey);
	}
	return best;
}

/* What the header of @call says besides its chunks, which are mapped. */
[[nodiscard]] static xdr::Envelope envelope_of(const Connection &c, const Call &call)
{
	xdr::Envelope envelope;

	envelope.xid = Xid(call.xid);
	envelope.credits = c.credits.requested();
	envelope.kind = call.plan.nomsg() ? xdr::Kind::nomsg : xdr::Kind::msg;
	envelope.transmissions = call.plan.transmissions;
	if (!c.session.rules().responder_chooses_invalidation)
		envelope.invalidate = choose_invalidation(call);
	return envelope;
}

/* Encode the header from the plan and the mapped regions, which are in the plan's order. */
[[nodiscard]] static Result<u32> encode_header(const Connection &c, const Call &call)
{
	const chunk::Plan &plan = call.plan;
	Region *region = call.mapped.front();
	auto next = [&] {
		xdr::Segment segment = segment_of(*region);
		region = call.mapped.next(region);
		return segment;
	};
	auto fill = [&](xdr::ListEncoder &encoder) {
		for (u32 i = 0; i < plan.position_zero.size(); i++)
			encoder.read_segment(Position(0), next());
		for (u32 i = 0; i < plan.read_chunk.size(); i++)
			encoder.read_segment(Position(plan.read_position), next());
		if (!plan.write_chunk.empty()) {
			encoder.write_chunk(plan.write_chunk.size());
			for (u32 i = 0; i < plan.write_chunk.size(); i++)
				encoder.segment(next());
		}
		if (!plan.reply_chunk.empty()) {
			encoder.reply_chunk(plan.reply_chunk.size());
			for (u32 i = 0; i < plan.reply_chunk.size(); i++)
				encoder.segment(next());
		}
	};

	return c.session.encode(call.send().room(), envelope_of(c, call), fill);
}

/*
 * Map what the peer is to reach, in the header's order: encode_header() relies on it. Some may be mapped after an
 * error.
 */
[[nodiscard]] static Status map_chunks(Client &client, Call *call, const rpcordma_request &request)
{
	const chunk::Plan &plan = call->plan;

	if (!plan.position_zero.empty()) {
		const rpcordma_xdr_buf buf =
			with_shape(*request.send, plan.position_zero_shape(call->shape));
		TRY_STATUS(client.map_segments(plan.position_zero, &buf, call, false));
	}
	if (!plan.read_chunk.empty())
		TRY_STATUS(client.map_segments(plan.read_chunk, request.send, call, false));
	if (!plan.write_chunk.empty())
		TRY_STATUS(client.map_segments(plan.write_chunk, request.receive, call, true));
	if (!plan.reply_chunk.empty()) {
		const rpcordma_xdr_buf buf =
			with_shape(*request.receive, plan.reply_chunk_shape(call->shape));
		TRY_STATUS(client.map_segments(plan.reply_chunk, &buf, call, true));
	}
	return {};
}

/* Tools know the counters from the in-tree transport, whose total_rdma_request leaves Read chunks out. */
static void count_chunks(rpcordma_client_stats &stats, const chunk::Plan &plan)
{
	auto count_writable = [&](unsigned long &chunks, const chunk::SegmentList &segments) {
		tally(chunks, segments.size());
		for (chunk::ByteRange range : segments)
			tally(stats.total_rdma_request, range.length);
	};
	tally(stats.read_chunk_count, plan.position_zero.size() + plan.read_chunk.size());
	count_writable(stats.write_chunk_count, plan.write_chunk);
	count_writable(stats.reply_chunk_count, plan.reply_chunk);
	tally(stats.nomsg_call_count, plan.nomsg());
}

/* Map the call's chunks, and write its header. */
[[nodiscard, gnu::noinline]] static Result<u32>
marshal_chunks(Client &client, const Connection &c, Call *call, const rpcordma_request &request)
{
	TRY_STATUS(map_chunks(client, call, request));
	const u32 length = TRY(encode_header(c, *call));
	count_chunks(client.stats, call->plan);
	return length;
}

/* Map the call's chunks, if it has some, and write its header. Returns the header's length. */
[[nodiscard, gnu::always_inline]] static inline Result<u32>
marshal_header(Client &client, const Connection &c, Call *call, const rpcordma_request &request)
{
	if (!call->plan.rkeys())
		return c.session.encode_bare(call->send().room(), envelope_of(c, *call));
	return marshal_chunks(client, c, call, request);
}

/* Copy bytes [@at, @at + @left) of @buf to @to. Returns how many came from pages or the tail. */
[[nodiscard, gnu::always_inline]] static inline u32 copy_range(const rpcordma_xdr_buf &buf, u32 at,
							       u32 left, u8 *to)
{
	const u32 head = static_cast<u32>(buf.head.length);
	const u32 pages_end = head + buf.page_length;
	u32 pulled = 0;

	if (at < head && left) {
		const u32 n = min(left, head - at);

		__builtin_memcpy(to, static_cast<const u8 *>(buf.head.base) + at, n);
		to += n, at += n, left -= n;
	}
	if (at < pages_end && left) {
		const u32 n = min(left, pages_end - at);

		rpcordma_copy_from_pages(&buf, at - head, to, n);
		to += n, at += n, left -= n, pulled += n;
	}
	if (left) {
		__builtin_memcpy(to, static_cast<const u8 *>(buf.tail.base) + (at - pages_end),
				 left);
		pulled += left;
	}
	return pulled;
}

/*
 * Copy the inline bytes of @buf into the call's send buffer, behind the header of @used bytes. Returns how many came from
 * pages or the tail.
 */
[[nodiscard]] static u32 copy_inline(const rpcordma_xdr_buf &buf, const Call &call, u32 used)
{
	const SendBuffer &send = call.send();
	u32 pulled = 0;

	for (chunk::ByteRange range : call.plan.inline_ranges) {
		/* Of most calls with a chunk: within the head, and to the buffer's head. */
		if (u64(range.offset) + range.length <= buf.head.length &&
		    u64(used) + range.length <= send.capacity()) {
			__builtin_memcpy(send.room().data() + used,
					 static_cast<const u8 *>(buf.head.base) + range.offset,
					 range.length);
			used += range.length;
			continue;
		}
		while (range.length) {
			const MutableBytes room = send.room_from(used);
			const u32 n = static_cast<u32>(min<usize>(range.length, room.size()));

			pulled += copy_range(buf, range.offset, n, room.data());
			range.offset += n;
			range.length -= n;
			used += n;
		}
	}
	return pulled;
}

/*
 * Write the header of each transmission behind the first, and the inline bytes, which are one run of the
 * message, into all of them; hand them over.
 */
[[nodiscard]] static Result<u32> fill_transmissions(const Connection &c, Call *call,
						    const rpcordma_xdr_buf &buf, u32 header)
{
	const u32 count = call->plan.transmissions;
	u32 at = 0, pulled = 0;

	for (u32 i = 0; i < count; i++) {
		SendBuffer &send = call->sends[i];
		const u32 room = min(c.session.thresholds().send, send.capacity());

		if (i)
			header = TRY(c.session.encode_continuation(send.room(),
								   envelope_of(c, *call), i));
		const u32 length = min(room - header, call->plan.inline_length - at);
		pulled += copy_range(buf, at, length, send.room().data() + header);
		at += length;
		send.hand_over(c.endpoint, header + length);
	}
	return pulled;
}

/* A header of @length was written for @plan. */
[[gnu::always_inline]] static inline void check_header(const chunk::Plan &plan, u32 length)
{
	if (length != plan.header_length)
		rpcordma_warn("the header is not as long as reduction said");
}

/* Make the call's message: map its chunks, write its header, copy its inline bytes. */
[[nodiscard, gnu::noinline]] static Status marshal(Client &client, const Connection &c, Call *call,
						   const rpcordma_request &request)
{
	const chunk::Plan &plan = call->plan;
	const u32 header = TRY(marshal_header(client, c, call, request));

	check_header(plan, header);
	if (sends_of(plan) == 1) {
		SendBuffer &send = call->send();

		tally(client.stats.pullup_copy_count, copy_inline(*request.send, *call, header));
		send.hand_over(c.endpoint, header + plan.inline_length);
	} else {
		tally(client.stats.pullup_copy_count,
		      TRY(fill_transmissions(c, call, *request.send, header)));
	}
	if (trace::on(RPCORDMA_TRACE_MARSHAL))
		client.trace_marshal(c, *call, plan.nomsg() ? xdr::Kind::nomsg : xdr::Kind::msg);
	return {};
}

/* The same, of a call that plan_short() has planned: the header has no chunk, and one copy is all. */
[[nodiscard, gnu::always_inline]] static inline Status
marshal_short(const Client &client, const Connection &c, Call *call, const rpcordma_request &request)
{
	SendBuffer &send = call->send();
	const u32 length = static_cast<u32>(request.send->head.length);
	xdr::Envelope envelope;

	envelope.xid = Xid(request.xid);
	envelope.credits = c.credits.requested();
	const u32 header = TRY(c.session.encode_bare(send.room(), envelope));
	check_header(call->plan, header);
	__builtin_memcpy(send.room().data() + header, request.send->head.base, length);
	send.hand_over(c.endpoint, header + length);
	if (trace::on(RPCORDMA_TRACE_MARSHAL))
		client.trace_marshal(c, *call, xdr::Kind::msg);
	return {};
}

/*
 * The same, of a call that plan_lone() has planned: one region is mapped, and behind the header go the head, and what is
 * not padding of the tail.
 */
[[nodiscard, gnu::always_inline]] static inline Status
marshal_lone(Client &client, const Connection &c, Call *call, const rpcordma_request &request)
{
	const chunk::Plan &plan = call->plan;
	const rpcordma_kvec &head = request.send->head, &tail = request.send->tail;
	const bool read = !plan.read_chunk.empty();
	Region *region = call->spare.front();
	SendBuffer &send = call->send();
	xdr::Envelope envelope;

	TRY_STATUS(client.map_region(call, region, read ? request.send : request.receive,
				     read ? plan.read_chunk[0] : plan.write_chunk[0], !read));
	const xdr::Segment segment = segment_of(*region);
	envelope.xid = Xid(request.xid);
	envelope.credits = c.credits.requested();
	envelope.invalidate = segment.handle;
	const u32 header = TRY(c.session.encode_lone(send.room(), envelope,
						     {read, Position(plan.read_position), segment}));
	check_header(plan, header);

	u8 *to = send.room().data() + header;
	const u32 from_head = static_cast<u32>(head.length),
		  from_tail = plan.inline_length - from_head;
	__builtin_memcpy(to, head.base, from_head);
	if (from_tail) {
		const usize pad = tail.length - from_tail;

		__builtin_memcpy(to + from_head, static_cast<const u8 *>(tail.base) + pad,
				 from_tail);
		tally(client.stats.pullup_copy_count, from_tail);
	}
	send.hand_over(c.endpoint, header + plan.inline_length);
	tally(read ? client.stats.read_chunk_count : client.stats.write_chunk_count, 1);
	if (!read)
		tally(client.stats.total_rdma_request, segment.length);
	if (trace::on(RPCORDMA_TRACE_MARSHAL))
		client.trace_marshal(c, *call, xdr::Kind::msg);
	return {};
}

/* --- the whole of it --- */

/*
 * Post @call, whose message is made, by @post(marker), and see to a reply that was faster.
 *
 * @gathered  its pages, if its Sends read them: @post has the last one signaled for that; else null
 */
template <typename Post>
[[nodiscard, gnu::always_inline]] static inline Status
transmit(Client &client, Connection &c, Call *call, const rpcordma_request &request,
	 GatheredPages *gathered, Post &&post)
{
	rpcordma_rqst_sent(call->rqst);
	call->set_state(CallState::posting);
	if (gathered)
		gathered->begin(call, c.send_queue);
	const bool signaled = !gathered && c.send_queue.should_signal();
	SendQueue::Marker *marker = signaled ? c.send_queue.signal(nullptr) : nullptr;
	const Status posted = post(marker);
	if (!posted.ok()) {
		/*
		 * Some of it may have been posted: the drain sorts it out. A reply to what was not sent in
		 * full is a peer's guess. It is let go of before the next guess can be taken for a reply; where the device
		 * may read pages until the drain, with no completion to tell of the end of it, none is.
		 */
		const CallState to = gathered ? CallState::lost : CallState::sent;
		Pin early;
		if (!call->change_from(CallState::posting, to)) {
			call->held = nullptr;
			early = static_cast<Pin &&>(call->pin);
			call->set_state(to);
		}
		early.drop();
		return client.drop_connection(Failure::post_failed, call->xid,
					      to_errno(posted.error()));
	}
	if (!call->change_from(CallState::posting, gathered ? CallState::reading : CallState::sent)) {
		if (gathered)
			client.process_early_gathered(c, call);
		else
			client.process_early_reply(c, call);
		return request.own ? failure_of(*call, request.xid) : Error::none;
	}
	/* Without a reply, credits would be off for good: start over with a fresh connection. */
	if (!request.reply_expected)
		return client.drop_connection(Failure::reply_not_expected, request.xid, 0);
	return {};
}

/* Send @call, which begin_group() has made one of several transmissions. */
[[nodiscard, gnu::noinline]] static Status send_group(Client &client, Connection &c, Call *call,
						      const rpcordma_request &request)
{
	const u32 requests = call->plan.transmissions;
	GatheredPages *const gathered = call->is_gathered() ? call->gathered.get() : nullptr;

	if (!c.send_queue.take(requests, 0)) {
		trace::failure(client.peer, Failure::send_queue_full, call->xid,
			       static_cast<int>(requests));
		if (gathered)
			gathered->unmap(c.endpoint);
		client.return_extra_credits(call);
		return client.wait_for_space([&] { return c.send_queue.has_room(requests, 0); });
	}
	if (const Status made = client.make_group(c, call, request); !made.ok()) {
		tally(client.stats.failed_marshal_count, 1);
		trace::failure(client.peer, Failure::marshal_failed, call->xid, made.error());
		c.send_queue.give_back(requests, 0);
		if (gathered)
			gathered->unmap(c.endpoint);
		client.return_extra_credits(call);
		return fail_own(request, Error::io);
	}
	if (call->plan.receive_mode == chunk::ReceiveMode::sent_item)
		tally(client.stats.asked_item_count, 1);
	else if (call->plan.send_mode == chunk::SendMode::sent_item)
		tally(client.stats.sent_item_count, 1);
	else
		tally(client.stats.group_count, call->plan.transmissions > 1);
	return transmit(client, c, call, request, gathered, [&](SendQueue::Marker *marker) {
		return client.post_group(c, call,
					 gathered ? &gathered->cqe.cqe :
					 marker	  ? &marker->cqe :
						    nullptr);
	});
}

/* The message of @call, with @regions, could not be made, for @error: nothing was posted, and the peer knows none of it. */
[[nodiscard, gnu::noinline]] static Error undo(Client &client, Connection &c, Call *call,
					       const rpcordma_request &request, u32 regions,
					       Error error)
{
	tally(client.stats.failed_marshal_count, 1);
	trace::failure(client.peer, Failure::marshal_failed, call->xid, error);
	c.send_queue.give_back(regions + sends_of(call->plan), regions - call->mapped_count);
	client.unmap_all(c, call);
	client.return_extra_credits(call);
	/* A shortage of mappings passes; */
	if (error == Error::no_memory)
		return Error::no_buffers;
	/* so may gaps that bounce buffers have made; */
	if (error == Error::io && !c.limits.parts_alone) {
		c.limits.parts_alone = true;
		return Error::no_buffers;
	}
	/* anything else would fail for ever. */
	return fail_own(request, Error::io);
}

/* Whether @call may be sent over @c now: it has a credit, and the peer has nothing of it. */
[[nodiscard, gnu::always_inline]] static inline Status admit(Client &client, Call *call,
							     const rpcordma_request &request)
{
	if (!rpcordma_rqst_take_credit(call->rqst))
		return Error::no_slot;
	/* The peer would see two calls and owe two replies: credits, and non-idempotent calls, forbid it. */
	if (request.sent_before)
		return client.drop_connection(Failure::retransmission, request.xid, 0);
	if (request.receive->flags & RPCORDMA_XDRBUF_SPARSE_PAGES)
		if (const int rc = rpcordma_fill_sparse_pages(request.receive); rc) {
			trace::failure(client.peer, Failure::pages_missing, request.xid, rc);
			return Error::no_buffers;
		}
	/* C2 */
	if (call->get_state() != CallState::idle || !call->mapped.empty()) {
		rpcordma_warn("C2: a call is to be sent while the peer still has it");
		return client.drop_connection(Failure::call_still_out, request.xid, 0);
	}
	return {};
}

Status rpcordma_client::send_request(Call *call)
{
	rpcordma_request request __attribute__((uninitialized)); /* the next line fills it */

	rpcordma_rqst_get(call->rqst, &request);
	Connection *c = connection;
	if (!request.connected || !c)
		return Error::not_connected;
	/* If the task was not asleep yet when it failed, sunrpc lost the result and calls again: return it now. */
	if (const Error failure = failure_of(*call, request.xid); failure != Error::none)
		return fail_own(request, failure);
	TRY_STATUS(admit(*this, call, request));
	const bool is_short = plan_short(*c, call, request);
	if (!is_short)
		take_request(call, request);
	const bool is_lone = !is_short && plan_lone(*c, call);
	const bool is_other = !is_short && !is_lone;
	if (is_other) {
		const Status planned = plan_within_credits(*this, *c, call, request);

		if (!planned.ok()) {
			tally(stats.failed_marshal_count, 1);
			trace::failure(peer, Failure::reduce_failed, call->xid, planned.error());
			return fail_own(request, Error::message_size);
		}
	}
	const u32 regions = is_other ? call->plan.rkeys() : is_lone;
	Status taken;
	if (is_other)
		taken = find_regions(*this, *c, call, request, regions);
	if (taken.ok())
		taken = take_room(*this, *c, call, regions);
	if (!taken.ok()) {
		if (taken.error() == kGoesAsGroup)
			return send_group(*this, *c, call, request);
		return_extra_credits(call);
		return taken;
	}
	const Status made = is_short ? marshal_short(*this, *c, call, request) :
			    is_lone  ? marshal_lone(*this, *c, call, request) :
				       marshal(*this, *c, call, request);
	if (!made.ok())
		return undo(*this, *c, call, request, regions, made.error());
	return transmit(*this, *c, call, request, nullptr, [&](SendQueue::Marker *marker) {
		return post_call(*c, call, sends_of(call->plan), marker);
	});
}
