// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a message is, and of a call, how its bytes are put together and whether that is possible at all. All
 * bounds (largest message, pages, work requests, queue) are checked here, before anything is posted.
 */
#pragma once

#include "module/chunk/arrival.hh"
#include "module/rdma/receive.hh"
#include "module/server/server.hh"
#include "xdr/rpc.hh"

namespace rpcordma {

/** What a message is. */
enum class Judgement : u8 {
	call,	  /* for the service */
	refused,  /* a call that gets an error for an answer */
	backward, /* a reply in the backward direction */
	control,  /* about the connection: a question that negotiate.hh answers */
	noted,	  /* about the connection: it was taken up, and nothing answers it */
	dropped,  /* none of these, and not to be answered */
};

/** The same, and what follows from it. */
struct Judged {
	Judgement judgement = Judgement::refused;
	xdr::ErrorCode refusal =
		xdr::ErrorCode::chunk; /* of Judgement::refused: what the answer says */
	/*
	 * Of Judgement::call: all of it came inline, these bytes, and the service has them where they are. Zero: server.arrival
	 * says how its bytes are put together.
	 */
	u32 inline_length = 0;

	[[nodiscard]] static Judged refused(xdr::ErrorCode why = xdr::ErrorCode::chunk)
	{
		return {Judgement::refused, why, 0};
	}
	[[nodiscard]] static Judged of(Judgement judgement)
	{
		return {judgement, xdr::ErrorCode::chunk, 0};
	}
	[[nodiscard]] static Judged inline_call(u32 length)
	{
		return {Judgement::call, xdr::ErrorCode::chunk, length};
	}
};
/* In a register. */
static_assert(sizeof(Judged) <= sizeof(u64));

/**
 * Of most messages, calls without chunks that came inline, in the head of @receive: how long it is. Zero: it is none; judge()
 * tells.
 */
[[nodiscard, gnu::always_inline]] inline u32 bare_call(const Server &server, const Receive &receive)
{
	const xdr::Message &message = receive.message;
	const usize length = message.payload.size();

	if (receive.in_pages() || message.direction == xdr::Direction::reply ||
	    message.has_chunks() || length < rpc::least_call_length ||
	    length > server.limits.max_message)
		return 0;
	return u32(length);
}

/** Judge the message in @receive and those that follow by `next`, which is whole. Receive completion. */
[[nodiscard]] Judged judge(Server &server, const Receive &receive);

/**
 * The same of a call that came in several transmissions with round-trip reduction, whose Receives, from @first on, have its
 * stream and nothing else.
 */
[[nodiscard]] Judged judge_group(Server &server, const Receive &first);
/** The same of one that has items, those of @request, which TransmissionReader judged good; it may be of one transmission. */
[[nodiscard]] Judged judge_items(Server &server, const Receive &first,
				 const rtrext::Request &request);

/** Whether @receive, the first of a call, broke an earlier connection; with a trace: it is refused with ErrorCode::system. */
[[nodiscard]] bool declined_before(const Server &server, const Receive &receive);

} // namespace rpcordma
