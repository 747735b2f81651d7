// SPDX-License-Identifier: GPL-2.0-only
/*
 * Taking a reply apart at the responder: which of its bytes go in which Write chunk, in the Reply chunk,
 * and inline (RFC 8166 3.4.6, 3.5, 4.3). Pure.
 */
#pragma once

#include "module/base/result.hh"
#include "module/base/span.hh"
#include "module/base/types.hh"
#include "module/chunk/thresholds.hh"
#include "xdr/message.hh"

namespace rpcordma::chunk {

/** A run of a reply's bytes. */
struct ReplyRange {
	u32 offset;
	u32 length;
};

/** More DDP-eligible results of a reply than this go inline. */
constexpr u32 kMostResults = 16;

/** How a reply is sent. */
struct Answer {
	xdr::Kind kind = xdr::Kind::msg;
	u32 header_length = 0;
	u32 transmissions =
		1; /* Sends of the message; the second and later ones have more of what is inline */
	u32 inline_length = 0; /* of the reduced reply; 0 with Kind::nomsg */
	u32 reply_length = 0;  /* of the reduced reply, in the Reply chunk; 0 with Kind::msg */
	u32 write_length = 0;  /* of the results in Write chunks */
	/*
	 * What the client gets back of Write chunk i: the payload written there, maybe nothing. Ranges behind those that
	 * are counted are left unset.
	 */
	u32 placed_count = 0;
	ReplyRange placed[kMostResults];
	/* What stays of the reply, in order: before, between and behind the results placed. */
	u32 rest_count = 0;
	ReplyRange rest[kMostResults + 1];
};

/**
 * Which segment of the call's chunks is too short for the reply: the last of a chunk that is. Write chunks come first, then
 * the Reply chunk.
 */
struct Shortfall {
	u32 segment = 0; /* from 1, of all; 0: none could be longer so that the reply fits */
	u32 needed = 0;	 /* bytes that it has to have for it */
};

/**
 * Decide how a reply of @length bytes is sent, whose results (in the reply's order) may be placed in the
 * Write chunks of @lists, the first in the first: an empty Write chunk has its result stay inline, as
 * one without a Write chunk does (RFC 8267 6.4.1). A result that is not in the reply is passed over.
 *
 * @thresholds  the connection's: what the client takes inline, and what a header costs
 * @answer      new; means nothing after an error
 * @shortfall   set where it fits nowhere; of several chunks that are too short it has the first
 *
 * Errors: ENOSPC, a result is larger than its Write chunk, or the reply fits neither inline nor in a
 * Reply chunk: the client gets ERR_CHUNK (RFC 8166 4.5.3), or REPLY_RESOURCE.
 */
[[nodiscard]] Status plan_answer(const xdr::ChunkLists &lists, Span<const ReplyRange> results,
				 u32 length, const Thresholds &thresholds, Answer &answer,
				 Shortfall &shortfall);

/**
 * Put the Write list and the Reply chunk of @answer, which was planned for @lists, into a header: the
 * segments as they came, with the lengths that were written (RFC 8166 4.3.1, 4.3.2).
 */
void encode_answer(xdr::ListEncoder &encoder, const xdr::ChunkLists &lists, const Answer &answer);

/**
 * The R_key that is best invalidated with the reply: that of most bytes among all chunks of the call;
 * 0 when there is none. Never that of a segment too short to be data: a pad.
 */
[[nodiscard]] u32 choose_invalidation(const xdr::ChunkLists &lists);
/** Whether a segment of @lists has the R_key @key. */
[[nodiscard]] bool offers(const xdr::ChunkLists &lists, Rkey key);

} // namespace rpcordma::chunk
