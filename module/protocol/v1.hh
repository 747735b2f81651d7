// SPDX-License-Identifier: GPL-2.0-only
/* Version 1 (RFC 8166) as protocol/codec.hh enters it: its rules, and its codec in xdr/v1.hh. */
#pragma once

#include "module/protocol/rules.hh"
#include "xdr/v1.hh"

namespace rpcordma::protocol {

struct V1 {
	[[nodiscard]] static constexpr Rules rules()
	{
		return {
			v1::version,	       /* version */
			v1::min_header_length, /* bare_header */
			0,		       /* continuation_header */
			1024,		       /* default_threshold, RFC 8166 3.3.3 */
			1,		       /* transmissions */
			0,		       /* extra_receives */
			true,		       /* responder_chooses_invalidation */
			false,		       /* tells_direction */
			false,		       /* properties */
		};
	}
	/** What to answer a message with of which decode() said @error. */
	[[nodiscard]] static constexpr xdr::ErrorCode refusal(Error error)
	{
		return error == Error::no_protocol ? xdr::ErrorCode::version : xdr::ErrorCode::chunk;
	}
	/** Of the header of a message with chunks. */
	struct Encoder : v1::Encoder {
		Encoder(MutableBytes room, const xdr::Envelope &envelope)
			: v1::Encoder(room, envelope.xid, envelope.credits, envelope.kind)
		{
		}
	};

	/** Whether that was all there is to decode; false: decode() is to see it, and @message is as it was. */
	[[nodiscard, gnu::always_inline]] static bool decode_plain(Bytes bytes,
								   xdr::Message &message)
	{
		return v1::decode_plain(bytes, message) || v1::decode_lone(bytes, message);
	}
	[[nodiscard]] static Error decode(Bytes bytes, xdr::Message &message)
	{
		return v1::decode_any(bytes, message);
	}
	/** The header of a message without chunks. */
	[[nodiscard]] static Result<u32> encode_bare(MutableBytes room,
						     const xdr::Envelope &envelope)
	{
		return v1::encode_bare(room, envelope.xid, envelope.credits);
	}
	/** The header of a message whose only chunk is @chunk. */
	[[nodiscard]] static Result<u32>
	encode_lone(MutableBytes room, const xdr::Envelope &envelope, const xdr::LoneChunk &chunk)
	{
		return v1::encode_lone(room, envelope.xid, envelope.credits, chunk);
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
		return v1::encode_error(room, request, credits, error);
	}
};

} // namespace rpcordma::protocol
