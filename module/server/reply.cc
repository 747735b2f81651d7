// SPDX-License-Identifier: GPL-2.0-only
/* Replies. See reply.hh. */

#include "module/server/reply.hh"

#include "module/server/close.hh"
#include "module/server/refusal.hh"
#include "module/server/response.hh"
#include "module/server/send.hh"
#include "module/server/server.hh"
#include "module/server/writes.hh"

namespace rpcordma {

using trace::Failure;

bool ResultList::add_to_many_(chunk::ReplyRange range)
{
	if (!many_) {
		many_ = Owned<Many>::create(RPCORDMA_ALLOC_SERVICE);
		if (!many_)
			return false;
	}
	if (count_ == kFew)
		for (u32 i = 0; i < kFew; i++)
			many_->ranges[i] = few_[i];
	if (count_ < chunk::kMostResults)
		many_->ranges[count_++] = range;
	return true;
}

void announce_result(ServerCall *call, chunk::ReplyRange range)
{
	/* Inline it might be too much: the client asks again. */
	if (__builtin_expect(!call->results.add(range), 0))
		request_close(*call->server, trace::Loss::rpc_failed, to_errno(Error::no_memory));
}

/*
 * Where the result is that the service announced as @said. nfsd, of 6.12 at least, announces an NFSv4
 * READLINK's text from its length on, not from behind it. Before any other result stands its length.
 */
[[nodiscard, gnu::always_inline]] static inline chunk::ReplyRange
find_result(const rpcordma_xdr_buf *reply, chunk::ReplyRange said)
{
	u8 word[xdr::word_size];

	if (!said.length || said.offset < xdr::word_size || reply->len < xdr::word_size ||
	    said.offset > reply->len - xdr::word_size)
		return said;
	read_bytes(reply, said.offset - xdr::word_size, word, sizeof(word));
	/* What follows may be in pages, and is looked at only where it matters. */
	if (xdr::load_be32(word) == said.length)
		return said;
	read_bytes(reply, said.offset, word, sizeof(word));
	if (xdr::load_be32(word) == said.length)
		said.offset += xdr::word_size;
	return said;
}

/* The results that the service announced, as they are in @reply. */
[[nodiscard, gnu::always_inline]] static inline Span<const chunk::ReplyRange>
find_results(ServerCall *call, const rpcordma_xdr_buf *reply)
{
	chunk::ReplyRange *const ranges = call->results.ranges();
	const u32 count = call->results.count();

	for (u32 i = 0; i < count; i++)
		ranges[i] = find_result(reply, ranges[i]);
	return {ranges, count};
}

/* The results that may be placed. */
[[nodiscard]] static Span<const chunk::ReplyRange>
placeable_results(ServerCall *call, svc_rqst *rqst, const rpcordma_xdr_buf *reply)
{
	const auto results = find_results(call, reply);

	return rpcordma_svc_ddp_allowed(rqst) ? results : Span<const chunk::ReplyRange>();
}

/* The R_key that the reply to @message, which has chunks, invalidates; 0: none. */
[[nodiscard]] static u32 chosen_key(const Server &server, const xdr::Message &message)
{
	if (!server.limits.remote_invalidation)
		return 0;
	if (!server.session.rules().responder_chooses_invalidation)
		return chunk::offers(message, message.invalidate) ? message.invalidate.get() : 0;
	return chunk::choose_invalidation(message);
}

/* As that, of any. */
[[nodiscard, gnu::always_inline]] static inline u32 invalidated_key(const Server &server,
								    const xdr::Message &message)
{
	return message.has_chunks() ? chosen_key(server, message) : 0;
}

/* The call names an R_key to invalidate that is not invalidated: is it a fault of the client? */
[[gnu::noinline]] static void note_foreign_key(const ServerCall &call)
{
	const xdr::Message &message = call.message();

	if (!chunk::offers(message, message.invalidate))
		rpcordma_server_count(RPCORDMA_SERVER_V2_FOREIGN_KEYS, 1);
}

/* How the reply goes whose header, and inline bytes if it has some, are in @out. @answer: null without chunks. */
[[gnu::noinline]] static void trace_encode(const Server &server, const ServerCall &call,
					   const Outgoing &out, u32 length,
					   const chunk::Answer *answer)
{
	const xdr::Message &message = call.message();
	rpcordma_trace_answer what = {};

	what.xid = message.xid.get();
	what.credits = server.grant.credits().get();
	what.inline_length = answer ? answer->inline_length : length;
	what.header_length = server.session.thresholds().bare_header;
	what.transmissions = out.transmissions;
	what.writes = out.writes;
	what.invalidate = invalidated_key(server, message);
	if (answer) {
		what.proc = u32(answer->kind);
		what.header_length = answer->header_length;
		what.write_length = answer->write_length;
		what.reply_length = answer->reply_length;
		what.segments = message.writes.segments() + message.reply.count();
	}
	rpcordma_trace_encode(server.peer, &what);
}

/* Write the header of the reply that @answer says. Returns its length. */
[[nodiscard]] static Result<u32> encode_answer_header(const Server &server, const ServerCall &call,
						      const xdr::Envelope &envelope,
						      const chunk::Answer &answer)
{
	const xdr::Message &message = call.message();
	const MutableBytes room = call.sends[0].room();

	/* Most READs. */
	if (answer.kind == xdr::Kind::msg && message.writes.segments() == 1 &&
	    message.writes.count() == 1 && !message.reply.present()) {
		xdr::LoneChunk chunk;

		chunk.segment = message.writes.first_segment();
		chunk.segment.length = answer.placed_count ? answer.placed[0].length : 0;
		return server.session.encode_lone(room, envelope, chunk);
	}
	return server.session.encode(room, envelope, [&](xdr::ListEncoder &encoder) {
		chunk::encode_answer(encoder, message, answer);
	});
}

/* Build the reply to a call with chunks: its Sends, and its Writes if it has some. Where it fits nowhere: @shortfall. */
[[nodiscard, gnu::noinline]] static Status build_chunked(Server &server, ServerCall *call,
							 svc_rqst *rqst,
							 const rpcordma_xdr_buf *reply,
							 Outgoing &out, chunk::Shortfall &shortfall)
{
	const xdr::Message &message = call->message();
	chunk::Thresholds thresholds = server.session.thresholds();
	/* The chunk costs no copy. */
	if (message.reply.present())
		thresholds.send = min(thresholds.send, call->sends[0].capacity());
	chunk::Answer answer;
	TRY_STATUS(chunk::plan_answer(message, placeable_results(call, rqst, reply), reply->len,
				      thresholds, answer, shortfall));
	const xdr::Envelope envelope = {message.xid, server.grant.credits(), xdr::Direction::reply,
					answer.kind, answer.transmissions,   {}};

	if (answer.transmissions == 1 && answer.kind == xdr::Kind::msg &&
	    answer.header_length + answer.inline_length > call->sends[0].capacity() &&
	    !make_sends(server, call, 1, slab_bytes(answer.header_length + answer.inline_length),
			RPCORDMA_ALLOC_SERVICE))
		return Error::no_memory;
	out.transmissions = answer.transmissions;
	out.lengths[0] = TRY(encode_answer_header(server, *call, envelope, answer));
	if (protocol::kTransmissions > 1 && answer.transmissions > 1)
		TRY_STATUS(encode_continuations(server, call, envelope, out));
	if (answer.kind == xdr::Kind::msg)
		append_inline(server, call, reply, {answer.rest, answer.rest_count}, out);
	if (answer.write_length || answer.reply_length)
		TRY_STATUS(build_writes(server, call, reply, answer, rqst, out));
	if (trace::on(RPCORDMA_TRACE_ENCODE))
		trace_encode(server, *call, out, reply->len, &answer);
	return {};
}

[[nodiscard, gnu::always_inline]] static inline Status build_reply(Server &server, ServerCall *call,
								   svc_rqst *rqst, Outgoing &out,
								   chunk::Shortfall &shortfall)
{
	const rpcordma_xdr_buf *reply = rpcordma_svc_reply(rqst);
	const xdr::Message &message = call->message();

	const chunk::Thresholds thresholds = server.session.thresholds();

	/* Nothing can be placed. What a call's Read chunks brought may be here still, and room for no more. */
	if (!message.has_chunks() || (message.writes.empty() && !message.reply.present() &&
				      thresholds.bare_header + reply->len <=
					      min(thresholds.send, call->sends[0].capacity()))) {
		const xdr::Envelope envelope = {message.xid,
						server.grant.credits(),
						xdr::Direction::reply,
						xdr::Kind::msg,
						1,
						{}};

		TRY_STATUS(build_bare(server, call, rqst, envelope, reply, thresholds, out));
		if (trace::on(RPCORDMA_TRACE_ENCODE))
			trace_encode(server, *call, out, reply->len, nullptr);
		return {};
	}
	return build_chunked(server, call, rqst, reply, out, shortfall);
}

Status send_reply(Server &server, svc_rqst *rqst, ServerCall *call)
{
	const u32 xid = call->message().xid.get();
	chunk::Shortfall shortfall;
	Outgoing out;

	if (server.closing.load(std::memory_order_acquire))
		return Error::not_connected;
	if (!ensure_send(server, call, RPCORDMA_ALLOC_SERVICE)) {
		/* A reply that is not sent must end the connection, so that the client asks again. */
		request_close(server, trace::Loss::rpc_failed, to_errno(Error::no_memory));
		return Error::not_connected;
	}
	const bool optional = call->message().kind == xdr::Kind::optional;
	Status built = __builtin_expect(optional, 0) && has_directions(*call) ?
			       Status(Error::no_space) :
			       build_reply(server, call, rqst, out, shortfall);
	if (__builtin_expect(!built.ok(), 0) && built.error() == Error::no_space && optional)
		built = build_response(server, call, rqst,
				       find_results(call, rpcordma_svc_reply(rqst)),
				       !rpcordma_svc_ddp_allowed(rqst), out, shortfall);
	if (built.ok()) {
		out.invalidate = invalidated_key(server, call->message());
		if (__builtin_expect(call->message().invalidate.get() && !out.invalidate, 0))
			note_foreign_key(*call);
	} else {
		/* What is posted is the device's until the drain. */
		if (!out.begun)
			give_back_resources(server, call);
		if (built.error() != Error::no_space) {
			close_after(server, Failure::reply_failed, xid, built.error());
			return Error::not_connected;
		}
		/* It fits nowhere: the call is over, and the client learns so. */
		trace::failure(server.peer, Failure::reply_no_room, xid,
			       int(rpcordma_svc_reply(rqst)->len));
		TRY_STATUS(build_refusal(
			server, call,
			xdr::ErrorBody::reply_resource(shortfall.segment, shortfall.needed), out));
	}
	/* The reply gives the client a credit back, and what it sends with that must find a Receive. */
	if (server.grant.in_debt())
		pay_debt(server, RPCORDMA_ALLOC_SERVICE);
	const Status posted = post_message(server, call, out, xid);
	if (posted.ok())
		server.eager.note_reply();
	else if (call->owners.load(std::memory_order_relaxed) == 1)
		give_back_resources(server, call);
	return posted;
}

} // namespace rpcordma
