// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which version a connection has, and what the peer says of itself in version 2 (protocol/negotiation.hh). The
 * question is asked in connect(), unseen by sunrpc; its answer, and whatever else comes that carries no RPC
 * message, is a receive completion's.
 */

#include "module/client/aside.hh"
#include "module/client/client.hh"
#include "module/client/grant.hh"

using namespace rpcordma;
using protocol::Answer;
using trace::Failure;

/* For how long an answer is waited for, ms, if connecting may take as long. */
static constexpr u32 kAnswerLimitMs = 5000;

/* Nobody has decided yet what the question came to: the caller is to. */
[[nodiscard]] static bool begin_judging(Connection &c)
{
	return !c.judging.exchange(true, std::memory_order_acq_rel);
}

/*
 * Ask for version 2, and wait for what comes back. The connection is there, and has sent nothing. Send lock. Without
 * means to ask it is of version 1.
 * Errors: ENODEV; ENOTCONN, and c.answer says whether version 1 is to be tried on another connection.
 */
Status rpcordma_client::ask_version(Connection &c)
{
	/* No RPC is out, so that any xid is of none. It is there before anything can be taken for the answer. */
	c.question = static_cast<u32>(rpcordma_now_ms());
	c.session.ask();
	const protocol::ReceiveRoom ours = c.receive_queue.maker().room();
	const bool sent = send_aside(c, c.question, [&](MutableBytes room) {
		return protocol::encode_properties(room, Xid(c.question), c.credits.requested(),
						   ours, 0, c.session.reduction());
	});

	if (sent)
		trace::property(peer, "sent", Xid(c.question), c.credits.requested(),
				xdr::Kind::connprop,
				protocol::properties_of(ours, c.session.reduction()),
				properties::all);
	if (sent && !c.broken.load(std::memory_order_seq_cst))
		(void)answered.wait_for(min(kAnswerLimitMs, rpcordma_xprt_connect_limit_ms(xprt)));
	if (begin_judging(c)) {
		const bool gone = c.device_gone.load(std::memory_order_relaxed);

		if (gone)
			return Error::no_device;
		if (!sent) {
			/* Callbacks have taken all that goes past the sender, or it cannot be mapped. */
			c.session.speak(v1::version);
			trace::failure(peer, Failure::backward_refusal_lost, c.question, 0);
			return {};
		}
		c.answer.store(Answer::lost, std::memory_order_relaxed);
	} else {
		/* It was in time, or nearly: the completion is at it. */
		while (c.answer.load(std::memory_order_acquire) == Answer::none)
			answered.wait();
	}
	const Answer answer = c.answer.load(std::memory_order_relaxed);

	if (protocol::did_not_go_along(answer))
		avoidance.begin(rpcordma_now_ms());
	if (answer != Answer::lost)
		return {};
	trace::connection(peer, "no answer in version 2", 0);
	return Error::not_connected;
}

/* The message in @bytes was judged: whether what it says of properties holds. */
static void trace_answer(const Client &client, Bytes bytes, const protocol::Answered &judged)
{
	xdr::Message message;

	if (!trace::on(RPCORDMA_TRACE_PROPERTY) || v2::decode(bytes, message) != Error::none ||
	    message.kind != xdr::Kind::connprop)
		return;
	if (judged.answer == Answer::version_2)
		trace::property(client.peer, "applied", message, judged.properties, judged.fixed);
	else
		trace::property(client.peer, "malformed", message);
}

/* What the peer of @c says that it takes, in version 2, is new. Receive completion. */
static void note_peer(Client &client, const Connection &c)
{
	const properties::Properties &said = c.session.properties();

	note(client.stats.agreed.peer_receive_size, said.receive_bytes());
	note(client.stats.agreed.peer_receive_pages, said.ddp_segments());
}

/* What came back to the question; the first message decides. Receive completion. */
void rpcordma_client::take_answer(Connection &c, const Receive &receive)
{
	if (!begin_judging(c))
		return;
	const auto answered_with = protocol::judge_answer(receive.bytes(), Xid(c.question));

	trace_answer(*this, receive.bytes(), answered_with);
	protocol::take_up(c.session, answered_with);
	note_peer(*this, c);
	c.unproved = answered_with.answer == Answer::version_2 ||
		     answered_with.answer == Answer::defaults;
	if (answered_with.answer == Answer::version_2)
		accept_grant(*this, c, answered_with.grant);
	c.answer.store(answered_with.answer, std::memory_order_release);
	answered.raise();
}

/* The peer says that some of its properties have changed. What it takes at once is all that counts here. */
static void take_update(Client &client, Connection &c, const xdr::Message &message,
			const properties::Properties &update)
{
	trace::property(client.peer, "applied", message, update);
	c.session.update(update);
	note_peer(client, c);
	trace::connection(client.peer, "inline threshold, send",
			  static_cast<int>(c.session.thresholds().send));
}

/* From now on long calls go in chunks, and all that is owed over another connection. */
void rpcordma_client::go_plain(const char *why, u32 value)
{
	const u64 now = rpcordma_now_ms();

	if (!plainness.in_force(now))
		rpcordma_log_value(peer, RPCORDMA_LOG_WARNING, why, value);
	plainness.begin(now);
}

void rpcordma_client::reported(u32 xid, u32 fault)
{
	tally(stats.repterr_count, 1);
	trace::failure(peer, Failure::repterr_received, xid, static_cast<int>(fault));
	go_plain(
		"the server does not take a call in several messages as it said, and gets none for "
		"ten minutes; what it reports",
		fault);
}

/* A REPTERR, in @message. It is about a call: none about a reply comes to us. Receive completion. */
static void take_report(Client &client, Connection &c, const xdr::Message &message)
{
	rtrext::Report report;

	if (rtrext::decode(message.body(), report) != Error::none) {
		tally(client.stats.bad_reply_count, 1);
		trace::failure(client.peer, Failure::message_undecodable, message.xid.get(),
			       Error::protocol);
		return;
	}
	/* It speaks version 2. */
	c.unproved = false;
	client.reported(report.bad.xid.get(), static_cast<u32>(report.detail.fault));
	c.request_close(trace::Loss::rpc_failed, static_cast<int>(report.detail.fault));
}

/*
 * A message about the connection, in version 2. We ask for nothing. Receive completion.
 */
void rpcordma_client::take_control(Connection &c, const Receive &receive)
{
	const xdr::Message &message = receive.message;
	const u32 xid = message.xid.get();
	properties::Properties said;

	trace::reply(peer, "control", xid, message.credits.get(), static_cast<u32>(message.kind), 0);
	if (message.kind == xdr::Kind::optional && message.direction == xdr::Direction::call) {
		refuse(c, receive, xdr::ErrorCode::option);
	} else if (message.kind == xdr::Kind::optional && c.session.reduces() &&
		   message.option == xdr::Option::repterr) {
		take_report(*this, c, message);
	} else if ((message.kind == xdr::Kind::reqprop || message.kind == xdr::Kind::updprop) &&
		   properties::decode_updprop(message.body(), said) != Error::none) {
		trace::property(peer, "malformed", message);
		refuse(c, receive, xdr::ErrorCode::chunk);
	} else if (message.kind == xdr::Kind::reqprop) {
		/* None can be asked for. */
		trace::property(peer, "rejected", message, said);
		if (send_aside(c, xid, [&](MutableBytes room) {
			    return v2::encode_resprop(room, message, c.credits.requested());
		    }))
			trace::property(peer, "sent", message.xid, c.credits.requested(),
					xdr::Kind::resprop);
		else
			trace::failure(peer, Failure::backward_refusal_lost, xid, 0);
	} else if (message.kind == xdr::Kind::updprop) {
		take_update(*this, c, message, said);
	} else {
		if (message.kind != xdr::Kind::optional)
			trace::property(peer, "ignored", message);
		tally(stats.bad_reply_count, 1);
		trace::failure(peer, Failure::reply_unmatched, xid, 0);
	}
}
