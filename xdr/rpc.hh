// SPDX-License-Identifier: GPL-2.0-only
/*
 * A look at the first two words of an RPC message (RFC 5531 9): whose it is and which way it goes.
 * That is all a transport may know of it; sunrpc decodes the rest.
 */
#pragma once

#include "xdr/wire.hh"

namespace rpcordma::rpc {

/** msg_type (RFC 5531 9). */
enum class MessageType : u32 { call = 0, reply = 1 };

struct Peek {
	Xid xid;
	MessageType type = MessageType::call;
};

/** The bytes that peek() needs. No RPC message is this short. */
constexpr u32 peek_length = 8;

/**
 * Read xid and msg_type.
 *
 * @payload  the Payload stream from its first byte, whole or cut off anywhere
 *
 * Errors: EMSGSIZE, under 8 bytes; EPROTO, a msg_type that is neither CALL nor REPLY.
 */
[[nodiscard]] inline Result<Peek> peek(Bytes payload)
{
	if (payload.size() < peek_length)
		return Error::message_size;
	u32 type = xdr::load_be32(payload.data() + xdr::word_size);
	if (type > static_cast<u32>(MessageType::reply))
		return Error::protocol;
	return Peek{Xid(xdr::load_be32(payload.data())), static_cast<MessageType>(type)};
}

/** A Call with no credential, no verifier and no arguments (RFC 5531 9). */
constexpr u32 least_call_length = 40;

/**
 * The length of what precedes a Call's arguments: ten words, credential and verifier (RFC 5531 9).
 * Errors: EMSGSIZE, @payload ends within it, or one of the two is longer than the 400 bytes it may have.
 */
[[nodiscard]] inline Result<u32> call_preface(Bytes payload)
{
	constexpr u32 before_credential = 6 * xdr::word_size, most = 400;
	u32 at = before_credential;

	for (int opaque = 0; opaque < 2; opaque++) {
		if (payload.size() < at + 2 * xdr::word_size)
			return Error::message_size;
		const u32 length = xdr::load_be32(payload.data() + at + xdr::word_size);
		if (length > most)
			return Error::message_size;
		at += 2 * xdr::word_size + length + xdr_pad(length);
	}
	return payload.size() < at ? Result<u32>(Error::message_size) : Result<u32>(at);
}

/**
 * The same, and the word behind it where the credential is RPCSEC_GSS (RFC 2203 5.3): services read that before they look how
 * much there is. What precedes a Call's first item has to be as long.
 */
[[nodiscard]] inline Result<u32> least_call_head(Bytes payload)
{
	constexpr u32 credential = 6 * xdr::word_size, rpcsec_gss = 6;
	const u32 length = TRY(call_preface(payload));

	return xdr::load_be32(payload.data() + credential) == rpcsec_gss ? length + xdr::word_size :
									   length;
}

} // namespace rpcordma::rpc
