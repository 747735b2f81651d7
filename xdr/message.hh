// SPDX-License-Identifier: GPL-2.0-only
/*
 * One decoded message, of whatever version. Each version's decoder fills it (v1.hh), and everything behind
 * the decoders sees messages in this form only.
 */
#pragma once

#include "xdr/lists.hh"
#include "xdr/rpc.hh"

namespace rpcordma::xdr {

/** What a message is (RFC 8166 4.2.4), with the numbers that rdma_proc has for it in every version. */
enum class Kind : u8 {
	msg = 0,   /* RDMA_MSG: the Payload stream follows the header */
	nomsg = 1, /* RDMA_NOMSG: the Payload stream is in chunks */
	error = 4, /* RDMA_ERROR: the answer to a message that could not be processed */
};
static_assert(static_cast<u32>(Kind::error) == proc_error);

/**
 * Which way the RPC message goes that a message carries (RFC 8167 2). It tells a client a backward Call from
 * a forward Reply, a server a forward Call from a backward Reply, and both whether the credit value is a
 * request or a grant (RFC 8167 4.1).
 */
enum class Direction : u8 {
	call,
	reply,
	/* The payload is too short, or contradicts the header: not decodable (RFC 8166 4.5.2). */
	unknown,
};

/** Why a message could not be processed: an RDMA_ERROR's code (RFC 8166 4.5). */
enum class ErrorCode : u8 {
	version, /* ERR_VERS: the version is not spoken here */
	chunk,	 /* ERR_CHUNK: the header is not decodable, or its chunks cannot be used */
};

/** The body of an RDMA_ERROR. */
struct ErrorBody {
	ErrorCode code = ErrorCode::chunk;
	/* The versions that the peer speaks, inclusive; ErrorCode::version only, else zero. Not checked. */
	u32 low = 0;
	u32 high = 0;
};

/**
 * What the header of a message that is to be sent says besides its chunks; a version leaves out what it does not say.
 */
struct Envelope {
	Xid xid;
	Credits credits; /* requested in a Call, granted in a Reply; not zero */
	Direction direction = Direction::call;
	Kind kind = Kind::msg;
	/* Transmissions of the message. */
	u32 transmissions = 1;
	/* In a Call: the R_key that the reply is to invalidate; zero: none. */
	Rkey invalidate;
};

/** A decoded message. The lists and the payload point into the received bytes and live no longer. */
struct Message : ChunkLists {
	Xid xid;
	u32 version = 0;
	Credits credits; /* requested in a Call, granted in a Reply (4.2.3); zero is not refused here */
	/* The R_key that the requester wants invalidated with the reply; zero: it does not say. */
	Rkey invalidate;
	u32 header_length = 0; /* bytes */
	Kind kind = Kind::msg;
	Direction direction = Direction::unknown;
	/* Transmissions of this message, this one included, and which of them this one is, from 0. */
	u16 transmissions = 1;
	u16 transmission = 0;
	ErrorBody error; /* of Kind::error, whose lists are empty */
	/* Bytes of the Payload stream behind the header: none unless Kind::msg. */
	Bytes payload;
};

/**
 * Which way a message goes whose version does not say. A Read list marks a Call, whatever the payload says: a
 * responder must leave it empty (RFC 8166 4.3.1). Without one, the payload's msg_type decides for an
 * RDMA_MSG; an RDMA_NOMSG then has only a Reply chunk, and is a Reply. An RDMA_ERROR answers a call of its
 * receiver: a Reply, although it carries none.
 *
 * @message  with all other fields set
 */
[[nodiscard]] inline Direction infer_direction(const Message &message)
{
	if (!message.reads.empty())
		return Direction::call;
	if (message.kind != Kind::msg)
		return Direction::reply;
	const auto rpc = rpc::peek(message.payload);
	if (!rpc || rpc.value().xid != message.xid)
		return Direction::unknown;
	return rpc.value().type == rpc::MessageType::call ? Direction::call : Direction::reply;
}

} // namespace rpcordma::xdr
