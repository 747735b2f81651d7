// SPDX-License-Identifier: GPL-2.0-only
/* Version 2 (version-two-03) as protocol/codec.hh enters it: its rules, and its codec in xdr/v2.hh. */
#pragma once

#include "module/protocol/rules.hh"
#include "xdr/v2.hh"

namespace rpcordma::protocol {

struct V2 {
	[[nodiscard]] static constexpr Rules rules()
	{
		return {
			v2::version,			  /* version */
			v2::min_header_length,		  /* bare_header */
			0,				  /* continuation_header */
			properties::default_receive_size, /* default_threshold */
			1,				  /* transmissions */
			2,     /* extra_receives: a property, and an error */
			false, /* responder_chooses_invalidation */
			true,  /* tells_direction */
			true,  /* properties */
		};
	}
	/** What to answer a message with of which decode() said @error. */
	[[nodiscard]] static constexpr xdr::ErrorCode refusal(Error error)
	{
		return v2::refusal(error);
	}
	/** Of the header of a message with chunks. */
	struct Encoder : v2::Encoder {
		Encoder(MutableBytes room, const xdr::Envelope &envelope)
			: v2::Encoder(room, envelope.xid, envelope.credits, envelope.kind,
				      envelope.direction, envelope.invalidate)
		{
		}
	};

	/** Decode a message without chunks, or with one of one segment. False: it is none, or decode() tells. */
	[[nodiscard, gnu::always_inline]] static bool decode_plain(Bytes bytes,
								   xdr::Message &message)
	{
		return v2::decode_plain(bytes, message) || v2::decode_lone(bytes, message);
	}
	[[nodiscard]] static Error decode(Bytes bytes, xdr::Message &message)
	{
		return v2::decode(bytes, message);
	}
	/** The header of a message without chunks. */
	[[nodiscard]] static Result<u32> encode_bare(MutableBytes room,
						     const xdr::Envelope &envelope)
	{
		return v2::encode_bare(room, envelope.xid, envelope.credits, envelope.direction,
				       envelope.invalidate);
	}
	/** The header of a message whose only chunk is @chunk. */
	[[nodiscard]] static Result<u32>
	encode_lone(MutableBytes room, const xdr::Envelope &envelope, const xdr::LoneChunk &chunk)
	{
		return v2::encode_lone(room, envelope.xid, envelope.credits, envelope.direction,
				       envelope.invalidate, chunk);
	}
	/** A message has one transmission. */
	[[nodiscard]] static Result<u32> encode_continuation(MutableBytes, const xdr::Envelope &,
							     u32)
	{
		return Error::invalid;
	}
	[[nodiscard]] static Result<u32> encode_error(MutableBytes room,
						      const xdr::FixedHeader &request,
						      Credits credits, const xdr::ErrorBody &error)
	{
		return v2::encode_error(room, request, credits, error);
	}
};

} // namespace rpcordma::protocol
