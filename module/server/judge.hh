// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a message is, and of a call, how its bytes are put together and whether that is possible at all. All
 * bounds (largest message, pages, work requests, queue) are checked here, before anything is posted.
 */
#pragma once

#include "module/chunk/arrival.hh"
#include "module/rdma/receive.hh"
#include "module/server/call.hh"

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

/**
 * Judge the message in @receive and those that follow by `next`, which is whole. Receive completion.
 *
 * @arrival  freshly constructed; says of a call how its bytes are put together
 * @refusal  set where a refused call's error is another one than ErrorCode::chunk
 */
[[nodiscard]] Judgement judge(const Server &server, const Receive &receive, chunk::Arrival &arrival,
			      xdr::ErrorCode &refusal);

/**
 * The same of a call that came in several transmissions with round-trip reduction, whose Receives, from @first on, have its
 * stream and nothing else.
 */
[[nodiscard]] Judgement judge_group(const Server &server, const Receive &first,
				    chunk::Arrival &arrival, xdr::ErrorCode &refusal);
/** The same of one that has items, those of @request, which TransmissionReader judged good; it may be of one transmission. */
[[nodiscard]] Judgement judge_items(const Server &server, const Receive &first,
				    const rtrext::Request &request, chunk::Arrival &arrival,
				    xdr::ErrorCode &refusal);

/** Whether @receive, the first of a call, broke an earlier connection: it is refused, with @refusal, and a trace. */
[[nodiscard]] bool declined_before(const Server &server, const Receive &receive,
				   xdr::ErrorCode &refusal);

} // namespace rpcordma
