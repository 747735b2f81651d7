// SPDX-License-Identifier: GPL-2.0-only
/* Receive completions. See receive.hh. */

#include "module/server/receive.hh"

#include "module/rdma/transmission.hh"
#include "module/server/close.hh"
#include "module/server/judge.hh"
#include "module/server/negotiate.hh"
#include "module/server/read.hh"
#include "module/server/server.hh"

namespace rpcordma {

/* What is to be done with what came. */
struct Arrived {
	/* A whole message, chained by `next`; null: wait for its rest, or it is dropped. */
	Receive *message = nullptr;
	Receive *useless = nullptr; /* chained by `next` */
	Judged judged;		    /* @message */
};

/* @receives, chained by `next`, with @more of them behind. */
[[nodiscard]] static Receive *chain(Receive *receives, Receive *more)
{
	Receive *last = receives;

	while (last->next)
		last = last->next;
	last->next = more;
	return receives;
}

/* What came in @receive is refused, for @why. Its header may go on where we do not look. */
[[nodiscard]] static Judged refused_unread(const Receive &receive, xdr::ErrorCode why)
{
	return Judged::refused(
		receive.in_pages() && why == xdr::ErrorCode::chunk ? xdr::ErrorCode::system : why);
}

/* What came carries no RPC message, as @verdict says. */
[[nodiscard, gnu::noinline]] static Arrived no_rpc_message(Server &server, Receive *receive,
							   protocol::Session::Verdict verdict)
{
	using Action = protocol::Session::Action;
	const auto header = xdr::peek(receive->bytes());
	const u32 xid = header.ok() ? header.value().xid.get() : 0;
	Arrived arrived;

	arrived.message = receive;
	switch (verdict.action) {
	case Action::control:
		arrived.judged = judge_control(server, receive->message);
		break;
	case Action::refuse:
		arrived.judged = refused_unread(*receive, verdict.refusal);
		break;
	default:
		arrived.judged = Judged::of(Judgement::dropped);
		break;
	}
	if (verdict.action != Action::control)
		trace::failure(server.peer, trace::undecodable(verdict.why), xid, verdict.why);
	/* Understood or not: from here on there may be calls. */
	server.session.end_beginning();
	return arrived;
}

/* What a thread sends for @answer: a REPTERR; null: an ERROR, or there is no memory, and the connection ends. */
[[nodiscard]] static Owned<rtrext::Report> report_of(Server &server,
						     const Transmitted::Answer &answer)
{
	if (!answer.reports)
		return {};
	auto report = Owned<rtrext::Report>::create(RPCORDMA_ALLOC_ATOMIC);
	if (report)
		*report = answer.report;
	else
		/* The client sends what it has sent again, over another one. */
		close_after(server, trace::Failure::refusal_failed, answer.report.bad.xid.get(),
			    Error::no_memory);
	return report;
}

/* Tell the client @answer, about what came before the transmission that is being handled. */
static void answer_earlier(Server &server, const Transmitted::Answer &answer)
{
	auto report = report_of(server, answer);
	ServerCall *call;
	{
		SpinGuard guard(server.lock);

		call = server.calls.take_for(answer.about);
	}
	call->refused = true;
	call->refusal = server.session.refusal(answer.code);
	call->report = static_cast<Owned<rtrext::Report> &&>(report);
	enqueue(server, call, CallQueue::Lane::ready);
}

/*
 * @receives, chained by `next`, are of no use: give them back, but for @receive, which is being handled: take_message()
 * does so when it has counted it.
 */
static void put_others(Server &server, Receive *receives, Receive *receive, Arrived &arrived)
{
	Receive *others = nullptr;

	while (Receive *one = receives) {
		receives = one->next;
		one->next = nullptr;
		if (one == receive) {
			arrived.useless = one;
		} else {
			one->next = others;
			others = one;
		}
	}
	put_transmissions(server, others);
}

/* A call is whole that came in several transmissions, or has items, as @request tells. */
[[nodiscard]] static Arrived take_group(Server &server, Receive *first, Receive *last,
					const rtrext::Request &request)
{
	const bool has_items = request.items.count() != 0;
	Arrived arrived;

	arrived.message = first;
	if (declined_before(server, *first))
		arrived.judged = Judged::refused(xdr::ErrorCode::system);
	else if (has_items)
		arrived.judged = judge_items(server, *first, request);
	else
		arrived.judged = judge_group(server, *first);
	if (arrived.judged.judgement == Judgement::refused) {
		Receive *const others = first->next;

		rpcordma_server_count(RPCORDMA_SERVER_V2_GROUPS_DROPPED, 1);
		first->next = nullptr;
		put_others(server, others, last, arrived);
		return arrived;
	}
	rpcordma_server_count(has_items ? RPCORDMA_SERVER_V2_SENT_ITEMS : RPCORDMA_SERVER_V2_GROUPS,
			      1);
	const u32 parts = first->chained() - 1;
	SpinGuard guard(server.lock);

	server.calls.hold_parts(parts);
	return arrived;
}

/* The items of @request are in RDMA segments. */
[[nodiscard]] static bool is_fetched(const rtrext::Request &request)
{
	return request.items.count() && (*request.items.begin()).type == rtrext::Type::segments;
}

/*
 * Have the items of @request, which are in RDMA segments, as the Read list of the call in @receive: from here on it is one with
 * Read chunks. False: no memory.
 */
[[nodiscard]] static bool list_items(Receive *receive, const rtrext::Request &request)
{
	u32 segments = 0;

	for (const rtrext::Item &item : request.items)
		segments += item.segments.count();
	if (!receive->read_list.create(segments * xdr::read_item_size + xdr::absent_lists_size,
				       RPCORDMA_ALLOC_ATOMIC))
		return false;
	xdr::Writer writer(receive->read_list.bytes());
	for (const rtrext::Item &item : request.items)
		for (const xdr::Segment segment : item.segments) {
			writer.word(1);
			writer.word(item.displacement);
			if (u8 *at = writer.reserve(xdr::segment_size))
				xdr::store_segment(at, segment);
		}
	/* What is behind them is zero: the list's end, and the others. */
	xdr::Reader reader(receive->read_list.bytes());
	return xdr::decode_lists(reader, receive->message).ok();
}

/*
 * What came where this end does round-trip reduction, and is either about the connection, or may break off a group. @verdict:
 * the session's.
 */
[[nodiscard, gnu::noinline]] static Arrived take_transmission(Server &server, Receive *receive,
							      protocol::Session::Verdict verdict)
{
	using Action = protocol::Session::Action;
	const bool understood = verdict.action == Action::control;
	TransmissionReader reader(server.peer, server.groups, xdr::Option::xmtreq,
				  server.session.reduction().call_limit,
				  structure_of(server.receive_maker.room()));
	const Transmitted taken = reader.take(receive, understood);
	Arrived arrived;

	server.session.collect(server.groups.amid());
	if (taken.dropped) {
		rpcordma_server_count(RPCORDMA_SERVER_V2_GROUPS_DROPPED, 1);
		trace::failure(server.peer, trace::Failure::message_incomplete,
			       receive->message.xid.get(), 0);
	}
	if (taken.useless)
		put_others(server, taken.useless, receive, arrived);
	for (const Transmitted::Answer *answer : {&taken.broken, &taken.refused}) {
		if (!answer->about)
			continue;
		if (answer->about != receive) {
			answer_earlier(server, *answer);
			continue;
		}
		arrived.message = receive;
		arrived.judged = understood ? Judged::refused(answer->code) :
					      refused_unread(*receive, answer->code);
		server.report = report_of(server, *answer);
	}
	const xdr::Message &message = receive->message;
	const bool is_call = understood && message.kind == xdr::Kind::optional &&
			     message.option == xdr::Option::xmtreq;
	/* A first message's properties set both thresholds. */
	if (taken.whole == receive && !receive->next && !is_call &&
	    (!understood || message.kind > xdr::Kind::error))
		return no_rpc_message(server, receive, verdict);
	server.session.end_beginning();
	if (!taken.whole)
		return arrived;
	const bool fetched = is_fetched(taken.request);
	if (taken.whole->next || (taken.request.items.count() && !fetched))
		return take_group(server, taken.whole, receive, taken.request);
	if (fetched && !list_items(receive, taken.request)) {
		/* The client sends it again, over another connection. */
		arrived.useless = receive;
		close_after(server, trace::Failure::gather_failed, message.xid.get(),
			    Error::no_memory);
		return arrived;
	}
	arrived.message = receive;
	arrived.judged = is_call && declined_before(server, *receive) ?
				 Judged::refused(xdr::ErrorCode::system) :
				 judge(server, *receive);
	return arrived;
}

/* The first message, in @bytes, has said the version. */
[[gnu::noinline]] static void settled(Server &server, Bytes bytes)
{
	const auto header = xdr::peek(bytes);
	const bool two = server.session.version() == v2::version;
	const bool asked = two && header.ok() && header.value().proc == u32(xdr::Kind::connprop);

	if (two)
		rpcordma_server_count(RPCORDMA_SERVER_V2_CONNECTIONS, 1);
	note_version(server, asked ? "CONNPROP" : "first message");
}

[[gnu::noinline]] static void trace_decode(const Server &server, const ServerCall &call)
{
	const xdr::Message &message = call.message();
	rpcordma_trace_call what = {};

	what.xid = message.xid.get();
	what.credits = message.credits.get();
	what.proc = u32(message.kind);
	what.header_length = message.header_length;
	what.inline_length = call.arrival.inline_length;
	what.read_segments = message.reads.count();
	what.read_length = u32(message.reads.total_length());
	what.write_chunks = message.writes.count();
	what.write_segments = message.writes.segments();
	what.reply_segments = message.reply.count();
	rpcordma_trace_decode(server.peer, &what);
}

/* Trace @call, which is the service's. */
[[gnu::always_inline]] static inline void note_call(const Server &server, const ServerCall &call)
{
	const xdr::Message &message = call.message();

	trace::reply(server.peer, "call", message.xid.get(), message.credits.get(),
		     u32(message.kind), int(call.receive->length));
	if (trace::on(RPCORDMA_TRACE_DECODE))
		trace_decode(server, call);
}

/*
 * @call is a message's, and is judged: it goes to the threads, or its chunks are pulled, but not past a call that waits for a
 * thread, as @held says.
 */
static void begin_call(Server &server, ServerCall *call, bool held)
{
	rpcordma_server_count(RPCORDMA_SERVER_RECV, 1);
	if (!call->refused)
		note_call(server, *call);
	/* Pieces are put together by a thread: there is nothing to pull. */
	if (call->refused || call->arrival.how == chunk::Arrival::How::inline_ || call->in_pieces())
		enqueue(server, call, CallQueue::Lane::ready);
	else if (held || !pull_eagerly(server, call))
		enqueue(server, call, CallQueue::Lane::held);
}

/* @receive was consumed. */
[[gnu::always_inline]] static inline void count_receive_locked(Server &server,
							       const Receive &receive)
	REQUIRES(server.lock)
{
	server.receives.completed();
	server.growth.completed(!receive.pages);
}

/* A call for what @message says; @served: the service's. */
[[nodiscard, gnu::always_inline]] static inline ServerCall *
begin_call_locked(Server &server, Receive *message, bool served) REQUIRES(server.lock)
{
	ServerCall *call = server.calls.take_for(message);
	ResponderCredits &credits = server.receives.credits();

	if (served)
		credits.call(message->message.credits, server.calls.in_service(), rpcordma_now_ms);
	server.grant.set(credits.granted());
	return call;
}

/* True: replenish() is to be called, without the lock. */
[[nodiscard, gnu::always_inline]] static inline bool runs_low_locked(Server &server)
	REQUIRES(server.lock)
{
	if (__builtin_expect(server.growth.to_be_told(), 0))
		tell_growth_locked(server);
	return server.receives.posted() <= promised_locked(server) ||
	       server.receives.credits().wanted() > server.receives.credits().granted();
}

/* Count what came in @receive, and what @arrived says of it goes its way. */
static void settle(Server &server, const Receive *receive, Arrived arrived)
{
	const Judged judged = arrived.judged;
	Receive *noted = nullptr;
	if (arrived.message && judged.judgement >= Judgement::noted) {
		if (judged.judgement == Judgement::noted)
			noted = arrived.message;
		else
			arrived.useless = chain(arrived.message, arrived.useless);
		arrived.message = nullptr;
	}
	const bool is_call = arrived.message && judged.judgement != Judgement::backward;
	ServerCall *call = nullptr;
	bool low, held;
	{
		SpinGuard guard(server.lock);

		count_receive_locked(server, *receive);
		/* It may be none soon, but no more come before this one. */
		held = !server.queue.none_held();
		if (is_call)
			call = begin_call_locked(server, arrived.message,
						 judged.judgement != Judgement::refused);
		low = runs_low_locked(server);
	}
	if (low)
		replenish(server);
	if (arrived.useless) {
		rpcordma_server_count(RPCORDMA_SERVER_DROPPED, 1);
		put_receives(server, arrived.useless);
	}
	if (noted)
		put_receives(server, noted);
	if (is_call && judged.judgement == Judgement::control) {
		answer_control(server, call);
	} else if (is_call) {
		call->refused = judged.judgement == Judgement::refused;
		if (call->refused) {
			call->refusal = server.session.refusal(judged.refusal);
			call->report = static_cast<Owned<rtrext::Report> &&>(server.report);
		}
		if (call->refused || judged.inline_length)
			call->arrival = chunk::Arrival::inline_only(judged.inline_length);
		else
			call->arrival = server.arrival;
		begin_call(server, call, held);
	} else if (arrived.message) {
		take_backward_reply(server, *arrived.message);
		put_receives(server, arrived.message);
	}
}

/* @verdict: not, or not for certain, that it is a whole RPC message. */
[[gnu::noinline]] static void take_other(Server &server, Receive *receive,
					 protocol::Session::Verdict verdict)
{
	settle(server, receive,
	       server.session.reduces() ? take_transmission(server, receive, verdict) :
					  no_rpc_message(server, receive, verdict));
}

/* Any other than what take_message() does by itself. */
[[gnu::noinline]] static void take_whole(Server &server, Receive *receive)
{
	const Assembly::Outcome outcome = server.assembly.add(receive);
	Arrived arrived;

	arrived.message = outcome.whole;
	arrived.useless = outcome.useless;
	if (outcome.useless)
		trace::failure(server.peer, trace::Failure::message_incomplete,
			       outcome.useless->message.xid.get(), 0);
	if (arrived.message)
		arrived.judged = judge(server, *arrived.message);
	settle(server, receive, arrived);
}

void take_message(Server &server, Receive *receive, const rpcordma_completion &completion)
{
	server.receive_maker.arrived(receive, completion);
	const bool open = !server.session.settled();
	const auto verdict = server.session.receive(receive->bytes(), receive->message);

	if (__builtin_expect(open, 0) && server.session.settled())
		settled(server, receive->bytes());
	if (__builtin_expect(verdict.action != protocol::Session::Action::deliver, 0)) {
		take_other(server, receive, verdict);
		return;
	}
	/* One of several transmissions may be none yet. */
	if (protocol::kTransmissions > 1) {
		take_whole(server, receive);
		return;
	}
	u32 length = bare_call(server, *receive);
	if (!length) {
		const Judged judged = judge(server, *receive);

		length = judged.inline_length;
		if (!length) {
			settle(server, receive, {receive, nullptr, judged});
			return;
		}
	}
	bool low, look;
	{
		SpinGuard guard(server.lock);

		count_receive_locked(server, *receive);
		ServerCall *call = begin_call_locked(server, receive, true);
		low = runs_low_locked(server);
		/* Where there is no batch in reserve, its reply may be sent before replenish() is done. */
		if (low && server.receives.posted() < promised_locked(server))
			server.grant.note_debt();
		call->refused = false;
		call->arrival = chunk::Arrival::inline_only(length);
		note_call(server, *call);
		look = enqueue_locked(server, call, CallQueue::Lane::ready);
	}
	rpcordma_server_count(RPCORDMA_SERVER_RECV, 1);
	if (low)
		replenish(server);
	if (look)
		rpcordma_svc_enqueue(server.xprt);
}

void receive_failed(Server &server, Receive *receive, const rpcordma_completion &completion)
{
	{
		SpinGuard guard(server.lock);

		server.receives.completed();
		put_done_locked(server, receive);
	}
	request_close(server, trace::Loss::receive_failed, completion.status);
}

} // namespace rpcordma
