// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages from the peer: replies, errors, and telling them from backward calls. Runs in the receive
 * completion mostly; a reply that has to wait for LOCAL_INVs goes on in the send completion, and one that
 * overtook its own post in the sender.
 *
 * The peer is not trusted. What cannot be believed is counted, traced and dropped; then the call times
 * out, which drops the connection, and is sent again on a new one.
 */

#include "module/client/client.hh"
#include "module/client/grant.hh"
#include "module/client/unmap.hh"
#include "module/protocol/groups.hh"
#include "module/rdma/transmission.hh"

using namespace rpcordma;
using trace::Failure;

/*
 * Replies to calls that nobody made, on one connection: each has all calls gone through, with the lock. A peer that
 * sends so many is not worth more of that.
 */
static constexpr u32 kMostUnmatched = 1024;

/* Where a reply goes on: a Receive is given back with the next batch in the receive completion, else at once. */
enum class Context { receive_completion, elsewhere };

/* Takes the Payload stream's bytes in order, from the Receives of one message. */
class PayloadReader {
public:
	explicit PayloadReader(const Receive &first) : at_(&first)
	{
	}
	/** Hand the next @length bytes, which are there, to @take(bytes, offset) in pieces. */
	template <typename Take> void read(u32 length, Take take)
	{
		for (u32 done = 0; done < length && at_;) {
			if (used_ == at_->payload_length()) {
				at_ = at_->next;
				used_ = 0;
				continue;
			}
			const Bytes piece = at_->payload_from(used_).first(length - done);

			take(piece, done);
			used_ += static_cast<u32>(piece.size());
			done += static_cast<u32>(piece.size());
		}
	}

private:
	const Receive *at_;
	u32 used_ = 0; /* of at_'s payload */
};

/* The lengths that the peer claims to have written to a chunk's segments. */
struct Lengths {
	u32 value[chunk::kMaxSegments];

	[[nodiscard]] Result<Span<const u32>> copy(const xdr::WriteChunk &from)
	{
		u32 n = 0;

		if (from.count() > chunk::kMaxSegments)
			return Error::bad_message;
		for (xdr::Segment segment : from)
			value[n++] = segment.length;
		return Span<const u32>(value, n);
	}
};

/* The peer left out segments of a chunk that it wrote nothing to: a fault of its own, and harmless. */
static void note_missing_segments(Client &client, const Call &call)
{
	trace::failure(client.peer, Failure::segments_missing, call.xid, 0);
	if (client.said_segments_missing.exchange(true, std::memory_order_relaxed))
		return;
	rpcordma_log(client.peer, RPCORDMA_LOG_WARNING,
		     "the server returns chunks with fewer segments than they have (RFC 8166 "
		     "3.4.6); what it wrote is taken");
}

/* The first @length bytes of @call's Reply chunk are there: if head and tail were placed, bring them to where they belong. */
static void unplace(const Call &call, u32 length)
{
	const chunk::BufferShape offered = call.plan.reply_chunk_shape(call.shape);
	const rpcordma_xdr_buf &buf = *call.reply;
	const u32 tail_at = offered.head_length + offered.page_length;

	if (offered.head_address == reinterpret_cast<u64>(buf.head.base))
		return;
	__builtin_memcpy(buf.head.base, reinterpret_cast<const void *>(offered.head_address),
			 min(length, offered.head_length));
	if (length > tail_at)
		__builtin_memcpy(buf.tail.base, reinterpret_cast<const void *>(offered.tail_address),
				 min(length - tail_at, offered.tail_length));
}

/* Copy the inline bytes of a reply to where @at says, and tell sunrpc what it has. Returns the reply's length. */
static u32 copy_stream(const Call *call, const Receive &receive, const chunk::Landing &at)
{
	rpcordma_xdr_buf *buf = call->reply;
	u8 *head = static_cast<u8 *>(buf->head.base), *tail = static_cast<u8 *>(buf->tail.base);
	PayloadReader payload(receive);
	payload.read(at.head_copy, [&](Bytes piece, u32 offset) {
		__builtin_memcpy(head + offset, piece.data(), piece.size());
	});
	payload.read(at.page_copy, [&](Bytes piece, u32 offset) {
		rpcordma_copy_to_pages(buf, offset, piece.data(), static_cast<u32>(piece.size()));
	});
	if (at.tail_move)
		__builtin_memmove(tail + at.tail_pad, tail, at.tail_move);
	payload.read(at.tail_copy, [&](Bytes piece, u32 offset) {
		__builtin_memcpy(tail + at.tail_pad + offset, piece.data(), piece.size());
	});
	if (at.tail_pad)
		__builtin_memset(tail, 0, at.tail_pad);
	rpcordma_rqst_set_reply(call->rqst, at.head_length, at.page_length, at.buflen_reduction);
	return at.length;
}

/*
 * Judge a reply with chunks, or one longer than the head, against what was offered, and put its bytes in their place.
 */
[[nodiscard]] static Result<u32> place_reply(Client &client, Call *call, const Receive &receive)
{
	const xdr::Message &message = receive.message;
	chunk::ReplyFacts facts;
	Lengths written, replied;

	facts.nomsg = message.kind == xdr::Kind::nomsg;
	facts.read_list = !message.reads.empty();
	facts.write_chunks = message.writes.count();
	if (facts.write_chunks)
		facts.write_lengths = TRY(written.copy(*message.writes.begin()));
	facts.reply_chunk = message.reply.present();
	if (facts.reply_chunk)
		facts.reply_lengths = TRY(replied.copy(message.reply));
	for (const Receive *part = &receive; part; part = part->next)
		facts.inline_length += part->payload_length();
	const chunk::Landing at = TRY(chunk::land_reply(facts, call->shape.receive, call->plan));
	if (at.segments_missing)
		note_missing_segments(client, *call);

	if (at.replied)
		unplace(*call, at.replied);
	tally(client.stats.fixup_copy_count, at.page_copy);
	tally(client.stats.total_rdma_reply, at.written + at.replied);
	return copy_stream(call, receive, at);
}

/* Copy the bytes of @item, which was judged, from the pages of the Receives of @first's message to where they belong. */
static void copy_item(const Call &call, const Receive &first, const properties::Structure &room,
		      const rtrext::Item &item)
{
	u32 at = 0;

	(void)chunk::for_each_piece(item, room.segment_length, [&](const chunk::ItemPiece &piece) {
		const Receive *part = &first;

		for (u32 n = piece.number / room.segments; n && part->next; n--)
			part = part->next;
		const u32 in_pages = u32(chunk::begin_of(room, piece)) - room.head();
		rpcordma_copy_to_pages(call.reply, at, part->pages->piece(in_pages).data(),
				       piece.length);
		at += piece.length;
		return true;
	});
}

/*
 * Judge an XMTRESP by what its call asked for, and put its bytes in their place. It has an item for each direction, which says
 * what became of it (rtrext-01 7.4, Table 2): our calls have one, to send, or none.
 */
[[nodiscard]] static Result<u32> place_response(Client &client, const Connection &c, Call *call,
						const Receive &receive)
{
	const bool asked = call->plan.receive_mode == chunk::ReceiveMode::sent_item;
	rtrext::Response response;

	if (rtrext::decode(receive.message.body(), response) != Error::none ||
	    response.items.count() != u32(asked))
		return Error::bad_message;
	if (!asked)
		return place_reply(client, call, receive);
	const rtrext::Item item = *response.items.begin();
	const properties::Structure room = structure_of(c.receive_queue.maker().room());
	/* Who asks has pages to receive into. */
	if (item.type == rtrext::Type::segments || !room.segments)
		return Error::bad_message;
	if (item.type != rtrext::Type::sent || !item.length)
		return place_reply(client, call, receive);
	u32 stream = 0;
	for (const Receive *part = &receive; part; part = part->next)
		stream += part->payload_length();
	const chunk::Landing at =
		TRY(chunk::land_item(stream, item.displacement, item.length, call->shape.receive));
	copy_item(*call, receive, room, item);
	tally(client.stats.fixup_copy_count, item.length);
	tally(client.stats.received_item_count, 1);
	return copy_stream(call, receive, at);
}

/*
 * Have @call's shape be that of the buffer that its reply goes to now. Nobody has noted a short call's (plan_short()). And a
 * call whose reply is late is encoded once more; with GSS the border between head and tail of its buffer may move then.
 * Bytes that came inline go by the border of now. A reply that came @whole in chunks lies where the border was: it is moved
 * back, and what was noted stays, as unplace() needs it. False: the buffer is another one, as far as its lengths tell.
 */
[[nodiscard]] static bool renew_shape(Call *call, bool whole)
{
	rpcordma_xdr_buf &buf = *call->reply;
	chunk::BufferShape &noted = call->shape.receive;
	chunk::BufferShape now;

	take_shape(now, buf);
	const bool in_chunks = call->plan.rkeys();
	if (in_chunks && (now.page_base != noted.page_base || now.page_length != noted.page_length))
		return false;
	if (!in_chunks || !whole) {
		noted = now;
		return true;
	}
	if (now.head_length == noted.head_length && now.tail_length == noted.tail_length)
		return true;
	/* As xdr_inline_pages() has it: a tail begins where its head ends. */
	if (u64(now.head_length) + now.tail_length != u64(noted.head_length) + noted.tail_length ||
	    now.tail_address != now.head_address + now.head_length)
		return false;
	buf.head.length = noted.head_length;
	buf.tail = {static_cast<u8 *>(buf.head.base) + noted.head_length, noted.tail_length};
	return true;
}

/* As deliver(), for all that it does not see to itself. */
[[nodiscard, gnu::noinline]] static Result<u32> deliver_other(Client &client, const Connection &c,
							      Call *call, const Receive &receive)
{
	const xdr::Message &message = receive.message;

	if (message.kind == xdr::Kind::error) {
		trace::reply(client.peer, "error", call->xid, message.credits.get(),
			     static_cast<u32>(message.error.code),
			     static_cast<int>(message.error.low));
		if (message.error.code == xdr::ErrorCode::version)
			trace::failure(client.peer, Failure::err_vers_received, call->xid,
				       static_cast<int>(message.error.high));
		else
			trace::failure(client.peer, Failure::err_chunk_received, call->xid,
				       static_cast<int>(message.error.code));
		return Error::io;
	}
	/* It has no more transmissions than its call said. */
	if (__builtin_expect(receive.next != nullptr, 0) && message.kind == xdr::Kind::optional) {
		tally(client.stats.reply_group_count, 1);
		if (receive.chained() > call->receives) {
			trace::failure(client.peer, Failure::reply_contradicts, call->xid,
				       Error::message_size);
			return Error::io;
		}
	}
	Result<u32> placed = Error::bad_message;

	if (renew_shape(call, message.kind == xdr::Kind::nomsg))
		placed = message.kind == xdr::Kind::optional ?
				 place_response(client, c, call, receive) :
				 place_reply(client, call, receive);
	if (placed.ok())
		return placed;
	trace::failure(client.peer, Failure::reply_contradicts, call->xid, placed.error());
	return Error::io;
}

/* What deliver_behind_head() puts in the pages and in the tail of @buf: @length bytes in all. */
[[gnu::noinline]] static void fill_pages_and_tail(rpcordma_xdr_buf *buf, const Receive &receive,
						  u32 length)
{
	const Bytes payload = receive.message.payload;
	const u32 pages = buf->page_length;
	u32 at = 0; /* behind the head */
	const auto put = [&](Bytes piece) {
		const u32 size = u32(piece.size()), n = min(size, pages - min(at, pages));

		if (n)
			rpcordma_copy_to_pages(buf, at, piece.data(), n);
		at += n;
		if (n == size)
			return;
		__builtin_memcpy(static_cast<u8 *>(buf->tail.base) + (at - pages), piece.data() + n,
				 size - n);
		at += size - n;
	};

	put(payload.from(buf->head.length));
	for (u32 done = 0, left = length - u32(payload.size()); left;) {
		const Bytes piece = Bytes(receive.pages->piece(done)).first(left);

		put(piece);
		done += u32(piece.size()), left -= u32(piece.size());
	}
}

/*
 * Put a reply of @length bytes, which came without chunks in one transmission, in its place: it is more than the head and no more
 * than all of the buffer. What land_reply() would say of it.
 */
[[nodiscard, gnu::noinline]] static Result<u32>
deliver_behind_head(Client &client, Call *call, const Receive &receive, u32 length)
{
	const Bytes payload = receive.message.payload;
	rpcordma_xdr_buf *const buf = call->reply;
	const u32 head = static_cast<u32>(buf->head.length), pages = buf->page_length;
	u32 at = u32(payload.size()) - head; /* behind the head */

	__builtin_memcpy(buf->head.base, payload.data(), head);
	if (__builtin_expect(length - head > pages, 0)) {
		fill_pages_and_tail(buf, receive, length);
		at = pages;
	} else {
		/* Most READs. */
		if (at)
			rpcordma_copy_to_pages(buf, 0, payload.data() + head, at);
		for (u32 i = 0; at < length - head; i++) {
			const Bytes piece =
				Bytes(receive.pages->whole_page(i)).first(length - head - at);

			rpcordma_copy_to_pages(buf, at, piece.data(), u32(piece.size()));
			at += u32(piece.size());
		}
	}
	rpcordma_rqst_set_reply(call->rqst, head, pages, 0);
	tally(client.stats.fixup_copy_count, at);
	return length;
}

/* What the reply in @receive comes to: its length, its bytes being in their place; or an error, of the call. */
[[nodiscard, gnu::always_inline]] static inline Result<u32>
deliver(Client &client, const Connection &c, Call *call, const Receive &receive)
{
	const xdr::Message &message = receive.message;
	const Bytes payload = message.payload;
	const rpcordma_xdr_buf &buf = *call->reply;
	const u32 head = static_cast<u32>(buf.head.length);

	/* Most replies: no chunk, and the head has room for all. What land_reply() would say of it. */
	if (message.kind == xdr::Kind::msg && !message.has_chunks() && !receive.next &&
	    payload.size() && payload.size() <= head && !receive.in_pages()) {
		__builtin_memcpy(buf.head.base, payload.data(), payload.size());
		rpcordma_rqst_set_reply(call->rqst, head, buf.page_length, 0);
		return u32(payload.size());
	}
	if (message.kind == xdr::Kind::msg && !message.has_chunks() && !receive.next &&
	    payload.size() >= head && !call->plan.rkeys()) {
		const u32 length = receive.payload_length();

		/* READs that came inline, mostly. */
		if (length > head &&
		    length - head <= u64(buf.page_length) + static_cast<u32>(buf.tail.length))
			return deliver_behind_head(client, call, receive, length);
	}
	if (message.kind == xdr::Kind::msg && message.writes.segments() == 1 &&
	    message.writes.count() == 1 && message.reads.empty() && !message.reply.present() &&
	    !receive.next && !receive.in_pages()) {
		const chunk::BufferShape &offered = call->shape.receive;
		const u32 written = message.writes.first_segment().length;
		chunk::LoneLanding at;

		/* Most READs, but those that were encoded once more since: see renew_shape(). */
		if (offered.head_length == head && offered.page_length == buf.page_length &&
		    chunk::land_lone(u32(payload.size()), written, offered, call->plan, at)) {
			__builtin_memcpy(buf.head.base, payload.data(), payload.size());
			rpcordma_rqst_set_reply(call->rqst, at.head_length, offered.page_length,
						offered.head_length - at.head_length);
			tally(client.stats.total_rdma_reply, written);
			return at.length;
		}
	}
	return deliver_other(client, c, call, receive);
}

/* All memory of @pin's @call is back: complete it with the reply in @receive. */
[[gnu::always_inline]] static inline void finish(Client &client, Connection &c, Pin pin, Call *call,
						 Receive *receive, Context context)
{
	/* C1 */
	if (!call->mapped.empty())
		rpcordma_warn("C1: an RPC completes while the peer can reach its memory");
	const Result<u32> delivered = deliver(client, c, call, *receive);
	if (!delivered.ok()) {
		tally(client.stats.bad_reply_count, 1);
		call->failure = delivered.error();
		call->failed_xid.store(call->xid, std::memory_order_release);
	}
	/* The Receive first: the credit that the completion frees must find it. */
	if (context == Context::receive_completion)
		c.recycle(receive);
	else
		c.repost(receive);
	if (__builtin_expect((call->credits | call->receives) != 0, 0))
		client.return_proved_credits(c, call);
	call->set_state(CallState::idle);
	pin.complete(delivered.ok() ? static_cast<int>(delivered.value()) :
				      to_errno(delivered.error()));
}

/*
 * The reply to @pin's @call, which is `replied`, is in @receive. Take the memory back from the peer, and complete it.
 */
[[gnu::always_inline]] static inline void
process_reply(Client &client, Connection &c, Pin pin, Call *call, Receive *receive, Context context)
{
	if (receive->flags & RPCORDMA_WC_WITH_INVALIDATE)
		unmap_one(client, c, call, receive->invalidated_rkey);
	if constexpr (protocol::kTransmissions > 1)
		for (const Receive *more = receive->next; more; more = more->next)
			if (more->flags & RPCORDMA_WC_WITH_INVALIDATE)
				client.unmap_invalidated(c, call, more->invalidated_rkey);
	if (call->mapped.empty()) {
		finish(client, c, static_cast<Pin &&>(pin), call, receive, context);
		return;
	}
	call->held = receive;
	call->pin = static_cast<Pin &&>(pin);
	if (!client.post_invalidations(c, call).ok()) {
		/* The drain will fence the memory, and the call be sent again. */
		call->held = nullptr;
		call->set_state(CallState::lost);
		call->pin.drop();
	}
}

/*
 * As process_reply(), of a call whose pages the device may be reading still: then end_gathered() goes on with it. What is needed
 * for that is held by the call (2A). Out of the way of all others.
 */
[[gnu::noinline]] static void process_held_reply(Client &client, Connection &c, Call *call,
						 Context context)
{
	Receive *receive = call->held;

	if (client.await_sends(call))
		return;
	call->held = nullptr;
	process_reply(client, c, static_cast<Pin &&>(call->pin), call, receive, context);
}

/*
 * The reply may have overtaken the post that it answers. Then whoever posts will find it, with its pin. Returns
 * false when the post has returned meanwhile; @pin is empty only when this returns true.
 */
[[nodiscard]] static bool leave_early(Pin &pin, Receive *receive)
{
	Call *call = pin.call();

	call->held = receive;
	call->pin = static_cast<Pin &&>(pin);
	if (call->change_from(CallState::posting, CallState::early))
		return true;
	call->held = nullptr;
	pin = static_cast<Pin &&>(call->pin);
	return false;
}

/* The peer has answered a call of ours: who only talks has shown nothing. Receive completion. */
static void is_served(Client &client, Connection &c)
{
	if (client.back_off.load(std::memory_order_relaxed))
		client.back_off.store(false, std::memory_order_relaxed);
	if (__builtin_expect(c.served, 1))
		return;
	c.served = true;
	c.unproved = false;
	rpcordma_xprt_conversed(client.xprt);
}

/* Whether a call of ours is out with @xid that @is_meant(call); its task may have given it up. Receive completion. */
template <typename IsMeant>
[[nodiscard]] static bool some_waits(Client &client, u32 xid, IsMeant is_meant)
{
	SpinGuard guard(client.lock);

	for (Call *call = client.all.front(); call; call = client.all.next(call))
		if (call->xid == xid && !call->backward && call->get_state() != CallState::idle &&
		    is_meant(*call))
			return true;
	return false;
}

/*
 * An ERROR, which answers a call of ours. Where this connection has to end for it (protocol::after_error()), long calls go by
 * chunks from here on. Returns whether it is to be handled as a reply: not if the call is to be sent again.
 */
[[nodiscard, gnu::noinline]] static bool take_error(Client &client, Connection &c,
						    const Receive &receive)
{
	const xdr::Message &message = receive.message;
	const u32 xid = message.xid.get();

	if (!c.session.rules().tells_direction) {
		accept_grant(client, c, message.credits);
		return true;
	}
	if (!c.session.reduces())
		return true;
	using protocol::AfterError;
	const xdr::ErrorCode code = message.error.code;
	AfterError after = AfterError::fail;
	(void)some_waits(client, xid, [&](const Call &call) {
		const bool item = call.plan.send_mode == chunk::SendMode::sent_item ||
				  call.plan.receive_mode == chunk::ReceiveMode::sent_item;

		after = protocol::after_error(code, item, call.credits, call.receives);
		return after != AfterError::fail;
	});
	if (after == AfterError::fail)
		return true;
	c.unproved = false;
	if (after == AfterError::resend)
		client.reported(xid, 0);
	else
		client.go_plain(
			"the server answers a call in several messages by an error, and gets "
			"none for ten minutes; xid",
			xid);
	c.request_close(trace::Loss::rpc_failed, static_cast<int>(code));
	return after != AfterError::resend;
}

/* A reply with @xid that no call waits for: of a server that sends no other ones we want none. Receive completion. */
static void note_unmatched(Client &client, Connection &c, u32 xid)
{
	if (++c.unmatched == kMostUnmatched)
		c.request_close(trace::Loss::replies_unmatched, kMostUnmatched);
	trace::failure(client.peer, Failure::reply_unmatched, xid, 0);
}

/* A reply that is whole, from the peer. Receive completion. */
[[gnu::always_inline]] static inline void handle_reply(Client &client, Connection &c,
						       Receive *receive)
{
	const xdr::Message &message = receive->message;
	const u32 xid = message.xid.get();

	if (message.kind != xdr::Kind::error) {
		accept_grant(client, c, message.credits);
	} else if (!take_error(client, c, *receive)) {
		c.recycle(receive);
		return;
	}
	Pin pin = Pin::find(client.xprt, xid);
	if (!pin) {
		/* Before what is reserved for them may be another call's. */
		c.recycle(receive->next);
		receive->next = nullptr;
		if (c.unmatched < kMostUnmatched && client.take_late_reply(c, xid, *receive))
			is_served(client, c);
		else
			note_unmatched(client, c, xid);
		c.recycle(receive);
		return;
	}
	is_served(client, c);
	Call *call = pin.call();
	trace::reply(client.peer, "reply", xid, message.credits.get(),
		     static_cast<u32>(message.kind), 0);

	CallState state = CallState::sent;
	bool replied = call->change(state, CallState::replied);
	if (!replied && state == CallState::posting) {
		if (leave_early(pin, receive))
			return;
		state = CallState::sent;
		replied = call->change(state, CallState::replied);
	}
	if (replied) {
		process_reply(client, c, static_cast<Pin &&>(pin), call, receive,
			      Context::receive_completion);
		return;
	}
	if (state == CallState::reading && call->change(state, CallState::replied)) {
		call->held = receive;
		call->pin = static_cast<Pin &&>(pin);
		process_held_reply(client, c, call, Context::receive_completion);
		return;
	}
	/* A second reply, or one to a call that was not sent on this connection. */
	tally(client.stats.bad_reply_count, 1);
	trace::failure(client.peer, Failure::reply_unexpected, xid, static_cast<int>(state));
	c.recycle(receive);
}

/* The same, where few are. */
[[gnu::noinline]] static void handle_rare_reply(Client &client, Connection &c, Receive *receive)
{
	handle_reply(client, c, receive);
}

/* Something came that carries no RPC message. Receive completion. */
static void handle_other(Client &client, Connection &c, const Receive &receive,
			 protocol::Session::Verdict verdict)
{
	using Action = protocol::Session::Action;

	if (verdict.action == Action::negotiate) {
		client.take_answer(c, receive);
		return;
	}
	if (verdict.action == Action::control) {
		client.take_control(c, receive);
		return;
	}
	trace::failure(client.peer, trace::undecodable(verdict.why), 0, verdict.why);
	/* A server's CONNPROP answers ours: a reply, and not to be answered. */
	if (verdict.action == Action::refuse && c.session.rules().tells_direction &&
	    receive.message.kind != xdr::Kind::connprop)
		client.refuse(c, receive, verdict.refusal);
	else
		tally(client.stats.bad_reply_count, 1);
}

/*
 * Something came where this end does round-trip reduction, and it is either no RPC message by itself, or may break off one of
 * several transmissions. Receive completion.
 */
[[gnu::noinline]] static void take_reply_transmission(Client &client, Connection &c,
						      Receive *receive,
						      protocol::Session::Verdict verdict)
{
	const bool understood = verdict.action == protocol::Session::Action::control;
	TransmissionReader reader(client.peer, c.groups, xdr::Option::xmtresp,
				  protocol::kReplyTransmissions,
				  structure_of(c.receive_queue.maker().room()));
	const Transmitted taken = reader.take(receive, understood);

	c.session.collect(c.groups.amid());
	for (const Transmitted::Answer *answer : {&taken.broken, &taken.refused}) {
		if (!answer->about)
			continue;
		if (answer->reports)
			client.report_reply(c, answer->report);
		else
			client.refuse(c, *answer->about, answer->code);
		c.recycle(answer->about);
	}
	for (Receive *useless = taken.useless; useless;) {
		Receive *const next = useless->next;

		tally(client.stats.bad_reply_count, 1);
		useless->next = nullptr;
		c.recycle(useless);
		useless = next;
	}
	const u32 xid = receive->message.xid.get();
	const bool owed = taken.lead_refused && c.unmatched < kMostUnmatched &&
			  some_waits(client, xid, [](const Call &) { return true; });

	if (taken.lead_refused && !owed)
		note_unmatched(client, c, xid);
	/* All that is owed comes over another connection. The server speaks version 2 all the same. */
	if (taken.lost || owed) {
		c.unproved = false;
		client.go_plain(
			"a reply in several messages is not as it has to be, and no call asks "
			"for one for ten minutes; xid",
			xid);
		c.request_close(trace::Loss::rpc_failed, 0);
	}
	if (!taken.whole)
		return;
	const xdr::Message &message = taken.whole->message;
	const bool is_reply = understood && (message.kind == xdr::Kind::optional ?
						     message.option == xdr::Option::xmtresp :
						     message.kind <= xdr::Kind::error);
	if (!is_reply) {
		handle_other(client, c, *receive, verdict);
		c.recycle(receive);
	} else if (message.direction == xdr::Direction::call) {
		client.handle_backward_call(c, receive);
	} else {
		handle_rare_reply(client, c, taken.whole);
	}
}

/* Something came, whose head has @bytes. Receive completion. */
void rpcordma_client::handle_message(Connection &c, Receive *receive, Bytes bytes)
{
	const auto verdict = c.session.receive(bytes, receive->message);

	if (__builtin_expect(verdict.action != protocol::Session::Action::deliver, 0)) {
		if (c.session.reduces() && verdict.action != protocol::Session::Action::negotiate) {
			take_reply_transmission(*this, c, receive, verdict);
			return;
		}
		handle_other(*this, c, *receive, verdict);
		c.recycle(receive);
		return;
	}
	const Assembly::Outcome outcome = c.assembly.add(receive);
	if (outcome.useless) {
		tally(stats.bad_reply_count, 1);
		trace::failure(peer, Failure::message_incomplete,
			       outcome.useless->message.xid.get(), 0);
		c.recycle(outcome.useless);
	}
	if (!outcome.whole)
		return;
	if (outcome.whole->message.direction == xdr::Direction::call)
		handle_backward_call(c, outcome.whole);
	else
		handle_reply(*this, c, outcome.whole);
}

/* The reply overtook the post, and the receive completion left it here. The sender. */
void rpcordma_client::process_early_reply(Connection &c, Call *call)
{
	Receive *receive = call->held;

	call->held = nullptr;
	call->set_state(CallState::replied);
	process_reply(*this, c, static_cast<Pin &&>(call->pin), call, receive, Context::elsewhere);
}

/* The same, of a call whose Sends read its pages. */
void rpcordma_client::process_early_gathered(Connection &c, Call *call)
{
	call->set_state(CallState::replied);
	process_held_reply(*this, c, call, Context::elsewhere);
}

/* What @call's reply or buf_free() waits for is done: with @success, or the connection is lost. */
[[gnu::always_inline]] static inline void go_on(Client &client, Connection &c, Call *call,
						bool success)
{
	call->invalidating.store(0, std::memory_order_relaxed);
	if (call->get_state() != CallState::replied) {
		client.end_fence(c, call, success);
		return;
	}
	Receive *receive = call->held;

	call->held = nullptr;
	if (!success) {
		/* The connection is lost, and the reply with it: the call will be sent again. */
		call->set_state(CallState::lost);
		call->pin.drop();
		return;
	}
	client.unmap_all(c, call);
	client.announce_space();
	finish(client, c, static_cast<Pin &&>(call->pin), call, receive, Context::elsewhere);
}

/* The last LOCAL_INV of @call has completed. Send completion. */
void rpcordma_client::end_invalidation(Connection &c, Call *call, bool success)
{
	go_on(*this, c, call, success);
}

/* The last Send that read pages of @call is done, whatever became of it: the device reads no more of them. Send completion. */
void rpcordma_client::end_gathered(Connection &c, Call *call)
{
	/* (1C) */
	if (call->gathered->end(c.endpoint, c.send_queue))
		go_on(*this, c, call, true);
}
