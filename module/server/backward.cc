// SPDX-License-Identifier: GPL-2.0-only
/* The backward direction. See backward.hh. */

#include "module/server/backward.hh"

#include "module/server/owners.hh"
#include "module/server/send.hh"
#include "module/server/server.hh"
#include "xdr/private_data.hh"

namespace rpcordma {

/* What we ask for: a Receive is posted for each call that is outstanding, so any number will do. */
static constexpr Credits kRequested(kServerBackwardCalls);

/* Hand the reply to who waits for it. False: nobody does. */
[[nodiscard]] static bool complete_backward_call(Server &server, const Receive &receive)
{
	const xdr::Message &message = receive.message;
	const u32 xid = message.xid.get();

	if (message.kind == xdr::Kind::error)
		/* The client cannot do what was asked; asking again would not help. */
		return rpcordma_svc_backward_error(server.xprt, xid, to_errno(Error::io));
	/* Nothing that was asked for is so long that it takes several Receives. */
	if (message.has_chunks() || receive.next || receive.in_pages())
		return false;
	return rpcordma_svc_backward_reply(server.xprt, xid, message.payload.data(),
					   u32(message.payload.size()),
					   min(max(message.credits.get(), 1u), kServerBackwardCalls));
}

void take_backward_reply(Server &server, const Receive &receive)
{
	const xdr::Message &message = receive.message;
	const bool known = complete_backward_call(server, receive);

	trace::reply(server.peer, known ? "backward reply" : "backward reply to nobody",
		     message.xid.get(), message.credits.get(), u32(message.kind),
		     int(message.payload.size()));
	if (message.kind == xdr::Kind::error)
		trace::failure(server.peer, trace::Failure::backward_error_received,
			       message.xid.get(), 0);
	if (!known) {
		trace::failure(server.peer,
			       message.has_chunks() || receive.next ?
				       trace::Failure::backward_reply_chunks :
				       trace::Failure::backward_reply_unmatched,
			       message.xid.get(), 0);
		rpcordma_server_count(RPCORDMA_SERVER_DROPPED, 1);
		return;
	}
	SpinGuard guard(server.lock);

	server.backward.end();
}

/* Have a Receive for the reply to one more call, before that goes. */
[[nodiscard]] static bool back_with_receive(Server &server)
{
	u32 backed, receives;

	if (server.grant.in_debt())
		pay_debt(server, RPCORDMA_ALLOC_NOIO);
	{
		SpinGuard guard(server.lock);

		backed = server.backward.with_one_more();
		if (backed <= server.receives.backed())
			return true;
		receives =
			promised_locked(server) - server.receives.backed() + backed + kServerBatch;
	}
	if (!provide_receives(server, receives, RPCORDMA_ALLOC_NOIO))
		return false;
	SpinGuard guard(server.lock);

	server.receives.back(backed);
	return true;
}

/* A call for the message, which its sender owns; null without memory. */
[[nodiscard]] static ServerCall *take_backward_call(Server &server)
{
	{
		SpinGuard guard(server.lock);

		if (ServerCall *call = server.calls.take_backward())
			return call;
	}
	auto made = create_call(server, RPCORDMA_ALLOC_NOIO);
	if (!made)
		return nullptr;
	ServerCall *const call = made.let_go();
	SpinGuard guard(server.lock);

	server.calls.own_backward(call);
	return call;
}

/* Write the message into @call's send buffer, and post it. */
[[nodiscard]] static Status send_with(Server &server, ServerCall *call, u32 xid,
				      const rpcordma_xdr_buf *message)
{
	Outgoing out;

	if (!ensure_send(server, call, RPCORDMA_ALLOC_NOIO))
		return Error::no_buffers;
	TRY_STATUS(build_bare(server, call, nullptr,
			      {Xid(xid), kRequested, xdr::Direction::call, xdr::Kind::msg, 1, {}},
			      message, server.session.thresholds(), out));
	{
		SpinGuard guard(server.lock);

		server.backward.begin();
	}
	/* Without waiting: rpciod serves others as well. */
	const Status posted = server.room.take(out.requests()) ?
				      post_with_room(server, call, out, xid) :
				      Status(Error::no_buffers);
	if (!posted.ok()) {
		if (posted.error() == Error::no_buffers)
			trace::failure(server.peer, trace::Failure::send_queue_full, xid,
				       int(out.requests()));
		SpinGuard guard(server.lock);

		server.backward.end();
	}
	return posted;
}

Status send_backward(Server &server, u32 xid, const rpcordma_xdr_buf *message)
{
	/* A client that has not said anything has not asked for calls either; nor is it known in which version it would. */
	if (server.closing.load(std::memory_order_acquire) ||
	    !server.established.load(std::memory_order_acquire) || !server.session.settled())
		return Error::not_connected;
	/* RPC-over-RDMA without chunks, both ways (RFC 8167 5), in one Send. */
	if (server.session.thresholds().bare_header + message->len > send_size(server)) {
		trace::failure(server.peer, trace::Failure::backward_call_long, xid,
			       int(message->len));
		return Error::message_size;
	}
	if (!back_with_receive(server)) {
		trace::failure(server.peer, trace::Failure::backward_receive_missing, xid,
			       Error::no_memory);
		return Error::no_buffers;
	}
	ServerCall *call = take_backward_call(server);
	if (!call) {
		trace::failure(server.peer, trace::Failure::backward_call_missing, xid,
			       Error::no_memory);
		return Error::no_buffers;
	}
	call->owners.store(1, std::memory_order_relaxed);
	const Status sent = send_with(server, call, xid, message);
	drop_owner(server, call);
	return sent;
}

u32 backward_payload(const Server *server)
{
	/* A session of NFS outlives its connection, whose version may be another one next time. */
	const u32 least = rpcordma_server_tunables.version2 ? protocol::V2::rules().bare_header : 0;

	if (!server || !server->receive_maker.buffer_size())
		return private_data::size_unit -
		       max(protocol::rules_of(protocol::Spoken::preferred()).bare_header, least);
	const chunk::Thresholds thresholds = server->session.thresholds();

	return min(thresholds.send, server->receive_maker.buffer_size()) -
	       max(thresholds.bare_header, least);
}

} // namespace rpcordma
