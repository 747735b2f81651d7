// SPDX-License-Identifier: GPL-2.0-only
/* Messages about the connection. See negotiate.hh. */

#include "module/server/negotiate.hh"

#include "module/protocol/negotiation.hh"
#include "module/server/close.hh"
#include "module/server/send.hh"

namespace rpcordma {

/* What is received into. What the client does not know of yet it hears when it is true of all. */
[[nodiscard]] static protocol::ReceiveRoom told_room(const Server &server) REQUIRES(server.lock)
{
	const ReceiveMaker &maker = server.receive_maker;

	return server.growth.told() ? maker.room() : protocol::ReceiveRoom{maker.buffer_size()};
}

void note_peer_locked(Server &server)
{
	const properties::Properties &said = server.session.properties();
	const bool tells = server.session.rules().properties;

	server.agreed.peer_receive_size = tells ? said.receive_bytes() :
						  server.session.peer().receive_size;
	server.agreed.peer_receive_pages = tells ? said.ddp_segments() : 0;
}

void note_receives_locked(Server &server)
{
	const protocol::ReceiveRoom room = told_room(server);

	server.agreed.receive_size = room.bytes();
	server.agreed.receive_pages = room.pages;
}

void note_version(Server &server, const char *why)
{
	trace::version(server.peer, "server", server.session.version(), why);
	SpinGuard guard(server.lock);

	server.agreed.why = why;
	server.agreed.version = server.session.version();
	note_peer_locked(server);
}

/* What the client says of itself. False: it cannot be understood, and none of it holds. */
[[nodiscard]] static bool take_properties(Server &server, const xdr::Message &message)
{
	properties::Properties said;
	u32 nochange;

	if (properties::decode_connprop(message.body(), said, nochange) != Error::none) {
		trace::property(server.peer, "malformed", message);
		return false;
	}
	trace::property(server.peer, "applied", message, said, nochange);
	server.session.take(said, nochange);
	SpinGuard guard(server.lock);

	server.growth.possible = server.receive_maker.layout().count != 0;
	note_peer_locked(server);
	return true;
}

/* Some of it is otherwise now. */
static void apply_update(Server &server, const xdr::Message &message,
			 const properties::Properties &said)
{
	trace::property(server.peer, "applied", message, said);
	server.session.update(said);
	SpinGuard guard(server.lock);

	note_peer_locked(server);
}

Judged judge_control(Server &server, const xdr::Message &message)
{
	properties::Properties said;

	trace::reply(server.peer, "control", message.xid.get(), message.credits.get(),
		     u32(message.kind), 0);
	switch (message.kind) {
	case xdr::Kind::connprop:
		if (take_properties(server, message))
			return Judged::of(Judgement::control);
		return Judged::refused();
	case xdr::Kind::reqprop:
	case xdr::Kind::updprop:
		if (properties::decode_updprop(message.body(), said) != Error::none) {
			trace::property(server.peer, "malformed", message);
			return Judged::refused();
		}
		if (message.kind == xdr::Kind::reqprop) {
			trace::property(server.peer, "rejected", message, said);
			return Judged::of(Judgement::control);
		}
		apply_update(server, message, said);
		return Judged::of(Judgement::noted);
	case xdr::Kind::optional:
		if (server.session.reduces() && message.option == xdr::Option::repterr) {
			/* A reply did not arrive as it was meant: nothing is to be said, and it is gone. */
			trace::failure(server.peer, trace::Failure::repterr_received,
				       message.xid.get(), 0);
			rpcordma_server_count(RPCORDMA_SERVER_V2_REPTERR_RECEIVED, 1);
			return Judged::of(Judgement::dropped);
		}
		/* There is no other extension here. */
		return message.direction == xdr::Direction::call ?
			       Judged::refused(xdr::ErrorCode::option) :
			       Judged::of(Judgement::dropped);
	default:
		/* Nothing was asked for. */
		trace::property(server.peer, "ignored", message);
		return Judged::of(Judgement::dropped);
	}
}

/* Write the answer to @message. Errors: ENOSPC. */
[[nodiscard]] static Result<u32> encode_answer(const Server &server, const xdr::Message &message,
					       MutableBytes room) REQUIRES(server.lock)
{
	const Credits grant = server.grant.credits();

	if (message.kind == xdr::Kind::reqprop) {
		trace::property(server.peer, "sent", message.xid, grant, xdr::Kind::resprop);
		return v2::encode_resprop(room, message, grant);
	}
	const protocol::ReceiveRoom ours = told_room(server);
	const u32 may_change = server.receive_maker.layout().count ? protocol::kSizes : 0;

	trace::property(server.peer, "sent", message.xid, grant, xdr::Kind::connprop,
			protocol::properties_of(ours, server.session.reduction()),
			properties::all & ~may_change);
	return protocol::encode_properties(room, message.xid, grant, ours, may_change,
					   server.session.reduction());
}

/*
 * A buffer for an answer, which is short: while the version is new the thresholds' is not there yet, and may be more than
 * a completion gets. Who sends more makes a larger one. False: no memory.
 */
[[nodiscard]] static bool ensure_answer(Server &server, ServerCall *call)
{
	return make_send(server, call, call->sends[0],
			 min(server.session.thresholds().send, kSendHead), 0, RPCORDMA_ALLOC_ATOMIC);
}

/* Post the answer to the question that @call is. False: there is none, and the connection closes. */
[[nodiscard]] static bool post_answer_locked(Server &server, ServerCall *call) REQUIRES(server.lock)
{
	const u32 xid = call->xid();
	Outgoing out;

	if (server.closing.load(std::memory_order_relaxed))
		return false;
	if (!ensure_answer(server, call)) {
		close_after(server, trace::Failure::refusal_failed, xid, Error::no_memory);
		return false;
	}
	const auto length = encode_answer(server, call->message(), call->sends[0].room());
	if (!length.ok()) {
		close_after(server, trace::Failure::refusal_failed, xid, length.error());
		return false;
	}
	out.lengths[0] = length.value();
	/* Without waiting. A client that asks so often that there is no room keeps to no rule. */
	if (!server.room.take(out.requests())) {
		close_after(server, trace::Failure::send_queue_full, xid, Error::no_buffers);
		return false;
	}
	call->owners.store(0, std::memory_order_relaxed);
	return post_with_room(server, call, out, xid).ok();
}

/*
 * With the lock nothing is posted behind the drain. From the post on the call is the device's alone.
 */
static void answer_locked(Server &server, ServerCall *call) REQUIRES(server.lock)
{
	/* One Send was posted, or nothing. */
	if (!post_answer_locked(server, call))
		put_receives_locked(server, server.calls.put(call));
}

void answer_control(Server &server, ServerCall *call)
{
	SpinGuard guard(server.lock);

	if (server.established.load(std::memory_order_relaxed)) {
		answer_locked(server, call);
	} else {
		/* They are answered in order. */
		ServerCall **end = &server.early;

		while (*end)
			end = &(*end)->next;
		call->next = nullptr;
		*end = call;
	}
}

void answer_early_locked(Server &server)
{
	while (ServerCall *call = server.early) {
		server.early = call->next;
		answer_locked(server, call);
	}
}

} // namespace rpcordma
