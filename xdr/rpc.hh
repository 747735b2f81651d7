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

} // namespace rpcordma::rpc
