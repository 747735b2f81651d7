// SPDX-License-Identifier: GPL-2.0-only
/* What a message is. See judge.hh. */

#include "module/server/judge.hh"

#include "module/rdma/transmission.hh"
#include "module/server/failures.hh"
#include "module/server/read.hh"
#include "module/server/server.hh"
#include "xdr/rpc.hh"

namespace rpcordma {

/* Segments of Read chunks, and of others: more than fit a header of 4 KiB. */
static constexpr u32 kMostSegments = 256;

/* Bytes of a call that sunrpc wants in one piece: more than an RPC header has. */
static constexpr u32 kLeastHead = 1024;

[[nodiscard]] static bool in_pieces(const Receive &receive)
{
	return protocol::kTransmissions > 1 && receive.next;
}

/* Whether the pages of @receive, which has some of the call, can be the service's as they are. */
[[nodiscard]] static bool lendable(const Receive &receive)
{
	return receive.message.payload.size() >= kLeastHead;
}

/* Bytes of the payload that came inline, in all Receives. */
[[nodiscard]] static u64 inline_length(const Receive &receive)
{
	u64 length = receive.payload_length();

	if constexpr (protocol::kTransmissions > 1)
		for (const Receive *more = receive.next; more; more = more->next)
			length += more->payload_length();
	return length;
}

/*
 * What stands before a call's arguments is read as one piece of memory, not always with a look at its length: no chunk
 * may begin in it, nor may it be cut short. That of a call that is here in one piece sunrpc looks at; by version 2 it is
 * answered.
 */
[[nodiscard]] static bool cut_short(const Server &server, const xdr::Message &message,
				    const chunk::Arrival &arrival)
{
	if (arrival.message_length < rpc::least_call_length)
		return arrival.how != chunk::Arrival::How::inline_ ||
		       server.session.rules().tells_direction;
	if (!arrival.position)
		return false;
	/* All before it is in a chunk, too, and not here yet. */
	if (arrival.position_zero)
		return arrival.position < rpc::least_call_length;
	const auto head = rpc::least_call_head(message.payload);
	return !head.ok() || arrival.position < head.value();
}

bool declined_before(const Server &server, const Receive &receive)
{
	if (!failed_before(server, receive))
		return false;
	trace::failure(server.peer, trace::Failure::call_failed_before, receive.message.xid.get(),
		       0);
	return true;
}

/* A call with chunks, or in pieces, too long, or very short. With a trace, when it is refused. */
[[nodiscard]] static Judged plan_call_chunks(Server &server, const Receive &receive, u32 length)
{
	using trace::Failure;
	const xdr::Message &message = receive.message;
	const ServerLimits &limits = server.limits;
	chunk::Arrival &arrival = server.arrival;
	auto refuse = [&](Failure why, int value) {
		trace::failure(server.peer, why, message.xid.get(), value);
		return Judged::refused();
	};
	/* It is well-formed, and more than we do. */
	auto decline = [&](Failure why, int value) {
		trace::failure(server.peer, why, message.xid.get(), value);
		return Judged::refused(xdr::ErrorCode::system);
	};

	/* Before they are looked at one by one. */
	if (message.reads.count() > kMostSegments ||
	    message.writes.segments() + message.reply.count() > kMostSegments)
		return decline(Failure::call_segments, int(message.reads.count()));
	if (u64(length) + message.reads.total_length() > limits.max_message)
		return decline(Failure::call_too_long, int(message.reads.count()));
	/* Read chunks would have to be put in between the pieces; nobody who has chunks needs several. */
	if (in_pieces(receive) && !message.reads.empty())
		return refuse(Failure::call_pieces, int(message.reads.count()));
	/* What is behind the head cannot be the thread's tail. */
	const Status planned = chunk::plan_arrival(message.reads, length, limits.max_message,
						   arrival, receive.in_pages() != 0);
	if (!planned.ok())
		return refuse(Failure::call_read_list, to_errno(planned.error()));
	if (in_pieces(receive) || (receive.in_pages() && !arrival.segments && !lendable(receive))) {
		/* A thread copies the pieces into its pages. */
		arrival.how = chunk::Arrival::How::linear;
		arrival.sink_length = arrival.message_length;
	}
	if (cut_short(server, message, arrival))
		return refuse(Failure::call_cut_short, int(arrival.position));
	if (sink_pages(server, arrival) > min(limits.max_pages, limits.sink_pages))
		return decline(Failure::call_too_long, int(arrival.segments));
	if (declined_before(server, receive))
		return Judged::refused(xdr::ErrorCode::system);
	return Judged::of(Judgement::call);
}

Judged judge(Server &server, const Receive &receive)
{
	const xdr::Message &message = receive.message;

	if (message.direction == xdr::Direction::reply) {
		if (message.kind != xdr::Kind::nomsg)
			return Judged::of(Judgement::backward);
		/* Neither a call nor, as it has a chunk, a backward reply (RFC 8167 5.3). */
		trace::failure(server.peer, trace::Failure::backward_reply_chunks,
			       message.xid.get(), 0);
		return server.session.rules().tells_direction ? Judged::of(Judgement::dropped) :
								Judged::refused();
	}
	const u64 length = inline_length(receive);
	/* As nearly all are: there is nothing to pull, nor to put together. */
	if (!message.reads.count() && !in_pieces(receive) && length <= server.limits.max_message &&
	    length >= rpc::least_call_length && (!receive.in_pages() || lendable(receive))) {
		if (!message.has_chunks())
			return Judged::inline_call(u32(length));
		if (message.writes.segments() + message.reply.count() <= kMostSegments)
			return declined_before(server, receive) ?
				       Judged::refused(xdr::ErrorCode::system) :
				       Judged::inline_call(u32(length));
	}
	return plan_call_chunks(server, receive, u32(min<u64>(length, ~0u)));
}

/* A call of @length bytes that a thread copies into its pages. */
[[nodiscard]] static Judged judge_pieces(Server &server, const Receive &first, u64 length)
{
	using trace::Failure;
	const ServerLimits &limits = server.limits;
	chunk::Arrival &arrival = server.arrival;

	arrival = chunk::Arrival::inline_only(u32(min<u64>(length, ~0u)));
	arrival.how = chunk::Arrival::How::linear;
	arrival.sink_length = arrival.message_length;
	if (length < rpc::least_call_length) {
		trace::failure(server.peer, Failure::call_cut_short, first.message.xid.get(),
			       int(length));
		return Judged::refused();
	}
	if (length > limits.max_message ||
	    sink_pages(server, arrival) > min(limits.max_pages, limits.sink_pages)) {
		trace::failure(server.peer, Failure::call_too_long, first.message.xid.get(),
			       int(arrival.message_length));
		return Judged::refused(xdr::ErrorCode::system);
	}
	return Judged::of(Judgement::call);
}

Judged judge_group(Server &server, const Receive &first)
{
	u64 length = 0;

	for (const Receive *part = &first; part; part = part->next)
		length += part->payload_length();
	return judge_pieces(server, first, length);
}

Judged judge_items(Server &server, const Receive &first, const rtrext::Request &request)
{
	const MessageLengths lengths(first);
	u64 length = lengths.stream();

	for (const rtrext::Item &item : request.items)
		length += item.padded();
	const rtrext::Item item = *request.items.begin();
	const auto head = rpc::least_call_head(first.message.payload);
	/*
	 * sunrpc reads the RPC header as one piece of memory, and recycle() looks for pages at the first Receive. Behind the
	 * item's pages there is one more (LentPages).
	 */
	if (!chunk::lies_in_pages(structure_of(server.receive_maker.room()), lengths.each(),
				  request.items) ||
	    request.items.count() != 1 || first.whole_length <= first.buffer.size() ||
	    lengths.stream() > u64(item.displacement) + server.device.page_size ||
	    length > server.limits.max_message || !head.ok() || item.displacement < head.value())
		return judge_pieces(server, first, length);
	chunk::Arrival &arrival = server.arrival;
	arrival = chunk::Arrival::inline_only(u32(lengths.stream()));
	arrival.how = chunk::Arrival::How::sent;
	arrival.position = item.displacement;
	arrival.sink_length = item.length;
	arrival.message_length = u32(length);
	return Judged::of(Judgement::call);
}

} // namespace rpcordma
