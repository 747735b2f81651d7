// SPDX-License-Identifier: GPL-2.0-only
/*
 * A version of the protocol that exists in tests alone. It differs from version 1 in all that a version may differ in:
 * its header is longer and says the direction and the R_key to invalidate, a message may have two
 * transmissions, and its errors have another body. That both cores work with it shows that nothing in them
 * knows which version they speak.
 *
 * On the wire:
 *
 *	first          xid, 9, credit, proc; direction, R_key to invalidate, transmissions; lists; payload
 *	continuation   xid, 9, credit, 8; direction, index, transmissions; payload
 *	error          xid, vers of the request, credit, 4; code (100: version, 101: chunk), low, high
 */
#pragma once

#include "module/protocol/rules.hh"
#include "xdr/message.hh"

namespace rpcordma::protocol {

struct TestVersion {
	[[nodiscard]] static constexpr Rules rules()
	{
		return {
			9,     /* version */
			40,    /* bare_header */
			28,    /* continuation_header */
			1024,  /* default_threshold */
			2,     /* transmissions */
			1,     /* extra_receives */
			false, /* responder_chooses_invalidation */
			false, /* tells_direction */
			false, /* properties */
		};
	}
	[[nodiscard]] static constexpr xdr::ErrorCode refusal(Error error)
	{
		return error == Error::no_protocol ? xdr::ErrorCode::version : xdr::ErrorCode::chunk;
	}
	static constexpr u32 kContinuation = 8;
	static constexpr u32 kCodeVersion = 100, kCodeChunk = 101;
	static constexpr u32 kErrorLength = 28;

	class Encoder : public xdr::ListEncoder {
	public:
		Encoder(MutableBytes room, const xdr::Envelope &envelope) : ListEncoder(room)
		{
			if (u8 *at = writer_.reserve(28)) {
				xdr::store_fixed(at, {envelope.xid, 9, envelope.credits,
						      static_cast<u32>(envelope.kind)});
				xdr::store_be32(at + 16, static_cast<u32>(envelope.direction));
				xdr::store_be32(at + 20, envelope.invalidate.get());
				xdr::store_be32(at + 24, envelope.transmissions);
			}
		}
		[[nodiscard]] Result<u32> finish()
		{
			end_lists_();
			if (writer_.error() != Error::none)
				return writer_.error();
			return writer_.length();
		}
	};

	[[nodiscard]] static constexpr bool decode_plain(Bytes, xdr::Message &)
	{
		return false;
	}
	[[nodiscard]] static Error decode(Bytes bytes, xdr::Message &message)
	{
		message = xdr::Message{};
		const auto fixed = xdr::peek(bytes);
		if (!fixed)
			return fixed.error();
		message.xid = fixed.value().xid;
		message.version = fixed.value().vers;
		message.credits = fixed.value().credits;
		const u32 proc = fixed.value().proc;
		if (proc == static_cast<u32>(xdr::Kind::error))
			return decode_error_(bytes, message);
		if (message.version != 9)
			return Error::no_protocol;
		if (bytes.size() < 28)
			return Error::message_size;
		const u32 direction = xdr::load_be32(bytes.data() + 16);
		if (direction > 1 || (proc > 1 && proc != kContinuation))
			return Error::protocol;
		message.direction = static_cast<xdr::Direction>(direction);
		message.transmissions = static_cast<u16>(xdr::load_be32(bytes.data() + 24));
		if (!message.transmissions || message.transmissions > rules().transmissions)
			return Error::protocol;
		if (proc == kContinuation) {
			message.transmission = static_cast<u16>(xdr::load_be32(bytes.data() + 20));
			message.header_length = 28;
			message.payload = bytes.from(28);
			return message.transmission ? Error::none : Error::protocol;
		}
		message.invalidate = Rkey(xdr::load_be32(bytes.data() + 20));
		message.kind = static_cast<xdr::Kind>(proc);
		xdr::Reader reader(bytes.from(28));
		if (auto lists = xdr::decode_lists(reader, message); !lists)
			return lists.error();
		message.header_length = static_cast<u32>(bytes.size() - reader.left());
		if (message.kind == xdr::Kind::msg)
			message.payload = bytes.from(message.header_length);
		return Error::none;
	}

	[[nodiscard]] static Result<u32> encode_bare(MutableBytes room,
						     const xdr::Envelope &envelope)
	{
		Encoder encoder(room, envelope);

		return encoder.finish();
	}

	[[nodiscard]] static Result<u32>
	encode_lone(MutableBytes room, const xdr::Envelope &envelope, const xdr::LoneChunk &chunk)
	{
		Encoder encoder(room, envelope);

		if (chunk.read)
			encoder.read_segment(chunk.position, chunk.segment);
		else
			encoder.write_chunk({&chunk.segment, 1});
		return encoder.finish();
	}

	[[nodiscard]] static Result<u32>
	encode_continuation(MutableBytes room, const xdr::Envelope &envelope, u32 index)
	{
		if (room.size() < 28)
			return Error::no_space;
		xdr::store_fixed(room.data(), {envelope.xid, 9, envelope.credits, kContinuation});
		xdr::store_be32(room.data() + 16, static_cast<u32>(envelope.direction));
		xdr::store_be32(room.data() + 20, index);
		xdr::store_be32(room.data() + 24, envelope.transmissions);
		return 28u;
	}

	[[nodiscard]] static Result<u32> encode_error(MutableBytes room,
						      const xdr::FixedHeader &request,
						      Credits credits, const xdr::ErrorBody &error)
	{
		if (room.size() < kErrorLength)
			return Error::no_space;
		xdr::store_fixed(room.data(), {request.xid, request.vers, credits, 4});
		xdr::store_be32(room.data() + 16,
				error.code == xdr::ErrorCode::version ? kCodeVersion : kCodeChunk);
		xdr::store_be32(room.data() + 20, error.low);
		xdr::store_be32(room.data() + 24, error.high);
		return kErrorLength;
	}

private:
	[[nodiscard]] static Error decode_error_(Bytes bytes, xdr::Message &message)
	{
		if (bytes.size() < kErrorLength)
			return Error::message_size;
		const u32 code = xdr::load_be32(bytes.data() + 16);
		if (code != kCodeVersion && code != kCodeChunk)
			return Error::bad_message;
		message.kind = xdr::Kind::error;
		message.direction = xdr::Direction::reply;
		message.error = {code == kCodeVersion ? xdr::ErrorCode::version :
							xdr::ErrorCode::chunk,
				 xdr::load_be32(bytes.data() + 20),
				 xdr::load_be32(bytes.data() + 24)};
		message.header_length = kErrorLength;
		return Error::none;
	}
};

} // namespace rpcordma::protocol
