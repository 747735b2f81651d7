// SPDX-License-Identifier: GPL-2.0-only
/*
 * One decoded message, of whatever version. Each version's decoder fills it (v1.hh), and everything behind
 * the decoders sees messages in this form only.
 */
#pragma once

#include <new>

#include "xdr/lists.hh"
#include "xdr/rpc.hh"

namespace rpcordma::xdr {

/** What a message is (RFC 8166 4.2.4), with the numbers that rdma_proc has for it in every version that has it. */
enum class Kind : u8 {
	msg = 0,   /* RDMA_MSG: the Payload stream follows the header */
	nomsg = 1, /* RDMA_NOMSG: the Payload stream is in chunks */
	error = 4, /* RDMA_ERROR: the answer to a message that could not be processed */
	/* Of version 2 (v2.hh). */
	optional = 5, /* RDMA2_OPTIONAL: of an extension */
	connprop = 6, /* RDMA2_CONNPROP: the sender's properties */
	reqprop = 7,  /* RDMA2_REQPROP: the receiver is asked to change some of its own */
	resprop = 8,  /* RDMA2_RESPROP: the answer to that */
	updprop = 9,  /* RDMA2_UPDPROP: some of the sender's properties have changed */
};
static_assert(static_cast<u32>(Kind::error) == proc_error);

/** What a Kind::optional is, with the numbers that rdma_opttype has for it (rtrext-01). */
enum class Option : u8 {
	none = 0,
	xmtreq = 1,  /* ROPT_XMTREQ: the first transmission of a call */
	xmtresp = 2, /* ROPT_XMTRESP: the first transmission of a reply */
	xmtcont = 3, /* ROPT_XMTCONT: a later transmission of either */
	repterr = 4, /* ROPT_REPTERR: what was wrong with one of these */
};

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

/** Why a message could not be processed: an RDMA_ERROR's code (RFC 8166 4.5). Version 1 knows the first two. */
enum class ErrorCode : u8 {
	version, /* ERR_VERS: the version is not spoken here */
	/* ERR_CHUNK, BAD_XDR: the header is not decodable, or its chunks cannot be used */
	chunk,
	reply_resource, /* REPLY_RESOURCE: the reply fits nowhere */
	procedure,	/* INVAL_PROC: no such rdma_proc here */
	option,		/* INVAL_OPTION: no such rdma_opttype here */
	system,		/* SYSTEM: the responder could not, whatever the message says */
};

/** The body of an RDMA_ERROR. Its two words mean what the code says, and are zero where it says nothing of them. */
struct ErrorBody {
	ErrorCode code = ErrorCode::chunk;
	/* ErrorCode::version: the versions that the peer speaks, inclusive. Not checked. */
	u32 low = 0;
	u32 high = 0;

	/* ErrorCode::reply_resource: the segment that is too short, from 1, or 0 for none; and the bytes it needs. */
	[[nodiscard]] static constexpr ErrorBody reply_resource(u32 segment, u32 needed)
	{
		return {ErrorCode::reply_resource, segment, needed};
	}
	[[nodiscard]] constexpr u32 segment() const
	{
		return low;
	}
	[[nodiscard]] constexpr u32 needed() const
	{
		return high;
	}
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
	Option option = Option::none; /* of Kind::optional */
	ErrorBody error;	      /* of Kind::error, whose lists are empty */
	/*
	 * Bytes of the Payload stream behind the header: none unless Kind::msg or Kind::optional. Of all kinds of
	 * version 2 but the error its data() is where the header ends, which body() relies on.
	 */
	Bytes payload;

	/**
	 * What only the kind's own decoder can read, and the codec has found whole: of Kind::optional, rdma_optinfo; of
	 * the four property kinds, all that follows rdma_proc (properties.hh). None of other kinds.
	 *
	 * A function, and no member that every message would have to clear.
	 */
	[[nodiscard]] Bytes body() const
	{
		if (kind < Kind::optional)
			return {};
		const u32 at = fixed_header_size + (kind == Kind::optional ? 3 * word_size : 0);

		return {payload.data() - (header_length - at), header_length - at};
	}
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

/** Where the words of the fixed header are, in every version. */
constexpr usize vers_at = 4, credits_at = 8, proc_at = 12;

/**
 * Whether @at, a header of @header_length bytes with rpc::peek_length more, is of @version and has an RPC message behind it
 * that has its xid, which go to @xid and @type.
 */
[[nodiscard, gnu::always_inline]] inline bool has_rpc(const u8 *at, u32 version, u32 header_length,
						      u32 &xid, u32 &type)
{
	xid = load_be32(at);
	type = load_be32(at + header_length + word_size);
	return load_be32(at + vers_at) == version && xid == load_be32(at + header_length) &&
	       type <= static_cast<u32>(rpc::MessageType::reply);
}

/** Make @message what an RDMA_MSG in @bytes says, with a header of @header_length bytes, and lists that are empty. */
[[gnu::always_inline]] inline void fill_msg(Bytes bytes, u32 version, u32 header_length, u32 xid,
					    Direction direction, Message &message)
{
	/* Read before anything is written, which else is written twice: as far as a compiler knows it may be the same memory. */
	const u32 credits = load_be32(bytes.data() + credits_at);

	/* In place: an assignment would clear a copy first. */
	new (&message) Message;
	message.xid = Xid(xid);
	message.version = version;
	message.credits = Credits(credits);
	message.header_length = header_length;
	message.direction = direction;
	message.payload = bytes.from(header_length);
}

} // namespace rpcordma::xdr
