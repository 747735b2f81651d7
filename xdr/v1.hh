// SPDX-License-Identifier: GPL-2.0-only
/*
 * The transport header of RPC-over-RDMA version 1 (RFC 8166 4): its constants, a decoder and an
 * encoder. What a requester or responder does about a message (answer, drop, count) is theirs; this
 * file only tells the cases apart, and each error below stands for one course of action.
 *
 * On the wire a header is xid, vers, credit, proc, and for RDMA_MSG and RDMA_NOMSG the chunk lists of
 * lists.hh; the Payload stream of an RDMA_MSG follows at once.
 */
#pragma once

#include "xdr/message.hh"

namespace rpcordma::v1 {

/** rdma_vers of this version (RFC 8166 4.2.2). */
constexpr u32 version = 1;

/** rdma_proc (RFC 8166 4.2.4). */
enum class Proc : u32 {
	msg = static_cast<u32>(xdr::Kind::msg),
	nomsg = static_cast<u32>(xdr::Kind::nomsg),
	msgp = 2, /* never sent, 4.6.1 */
	done = 3, /* never sent, 4.6.2 */
	error = static_cast<u32>(xdr::Kind::error),
};

/** The header of a message without chunks, and the least that RDMA_MSG and RDMA_NOMSG take. */
constexpr u32 min_header_length = 28;
/** An RDMA_ERROR with ERR_CHUNK, whose body is void; RFC 8166 4.5's minimum of 28 contradicts its 4.1.2. */
constexpr u32 error_chunk_length = 20;
/** An RDMA_ERROR with ERR_VERS. */
constexpr u32 error_vers_length = 28;

/**
 * Decode a version 1 transport header, in one pass.
 *
 * @bytes    the received message, from the first byte of rdma_xid to its end; any alignment, any length
 * @message  filled; its lists and payload point into @bytes. Means nothing after an error
 *
 * Beside the layout these are established: the direction, unknown where the payload is no RPC message or
 * one with another xid; Positions are multiples of four; an
 * RDMA_MSG has no Position Zero Read chunk (its Payload stream would be in two places); an RDMA_NOMSG
 * has a Position Zero Read chunk or a Reply chunk (else its Payload stream is nowhere, 4.2.4, 4.5.2).
 *
 * Errors:
 *   EMSGSIZE         too short for its proc. Nothing in it is to be believed: drop it.
 *   EBADMSG          an RDMA_DONE (4.6.2), an RDMA_ERROR with an unknown code (4.5), or an RDMA_ERROR of
 *                    another version: drop it. An error is never answered with an error.
 *   EPROTONOSUPPORT  another version: a responder answers ERR_VERS (4.5.1), a requester drops it.
 *   EOPNOTSUPP       an RDMA_MSGP: a responder answers ERR_CHUNK, a requester drops it (4.6.1).
 *   EPROTO           not decodable, or a proc that does not exist: a responder answers ERR_CHUNK
 *                    (4.5.2), a requester drops it.
 * With all but EMSGSIZE, peek() gives the xid and vers for an answer to echo.
 */
[[nodiscard]] inline Error decode(Bytes bytes, xdr::Message &message);

/** The same in a call, whatever the message is. */
[[nodiscard]] Error decode_any(Bytes bytes, xdr::Message &message);

/**
 * The same, where most messages are decoded: an RDMA_MSG without chunks, whose payload is an RPC message with its
 * xid. False, with @message as it was: it is none, or may be none; decode_any() tells.
 */
[[nodiscard, gnu::always_inline]] inline bool decode_plain(Bytes bytes, xdr::Message &message)
{
	const u8 *at = bytes.data();
	u32 xid, type;

	if (bytes.size() < min_header_length + rpc::peek_length || bytes.size() > ~u32(0))
		return false;
	/* The four words of proc and of absent lists are zero. */
	static_assert(static_cast<u32>(Proc::msg) == 0 &&
		      min_header_length == xdr::proc_at + 2 * sizeof(u64));
	if ((xdr::load_be64(at + xdr::proc_at) | xdr::load_be64(at + xdr::proc_at + sizeof(u64))) ||
	    !xdr::has_rpc(at, version, min_header_length, xid, type))
		return false;
	xdr::fill_msg(bytes, version, min_header_length, xid,
		      type ? xdr::Direction::reply : xdr::Direction::call, message);
	return true;
}

/**
 * The same of one with one chunk of one segment, as most READs and WRITEs have, and their replies: in a call, which calls
 * nothing else.
 */
[[nodiscard, gnu::noinline]] bool decode_lone(Bytes bytes, xdr::Message &message);

Error decode(Bytes bytes, xdr::Message &message)
{
	return decode_plain(bytes, message) || decode_lone(bytes, message) ?
		       Error::none :
		       decode_any(bytes, message);
}

/**
 * Builds the header of an RDMA_MSG or RDMA_NOMSG in place:
 *
 *	Encoder encoder(room, xid, credits, Kind::msg);
 *	encoder.read_segment(position, segment);        // the lists, in wire order, see ListEncoder
 *	u32 length = TRY(encoder.finish());             // the one check
 *
 * Without any list the header has min_header_length bytes, as in the backward direction (RFC 8167 5).
 */
class Encoder : public xdr::ListEncoder {
public:
	/**
	 * @room     where the header goes, from its first byte; outlives the encoder. Nothing outside
	 *           it is touched; after an error its content is unspecified
	 * @credits  requested in a Call, granted in a Reply; not zero (RFC 8166 3.3.1), not checked here
	 * @kind     Kind::msg or Kind::nomsg; else EINVAL
	 */
	Encoder(MutableBytes room, Xid xid, Credits credits, xdr::Kind kind);

	/**
	 * End the header; call it once, last. Returns the header's length, which is the offset of
	 * the Payload stream.
	 * Errors: ENOSPC, @room is too small; EINVAL, a call out of order, a chunk without all its
	 * segments, an RDMA_MSG with a Position Zero Read chunk, or an RDMA_NOMSG with neither that
	 * nor a Reply chunk. So decode() accepts whatever this built.
	 */
	[[nodiscard]] Result<u32> finish();

private:
	xdr::Kind kind_;
};

/**
 * Build the header of an RDMA_MSG without chunks, as most messages are, and all in the backward direction
 * (RFC 8167 5): what an Encoder makes without any list.
 *
 * @room  where it goes
 *
 * Returns its length, min_header_length. Errors: ENOSPC.
 */
[[nodiscard]] inline Result<u32> encode_bare(MutableBytes room, Xid xid, Credits credits)
{
	if (room.size() < min_header_length)
		return Error::no_space;
	u8 *at = room.data();
	xdr::store_fixed(at, {xid, version, credits, static_cast<u32>(Proc::msg)});
	__builtin_memset(at + xdr::fixed_header_size, 0, min_header_length - xdr::fixed_header_size);
	return min_header_length;
}

/** The header of a message with one chunk of one segment. */
constexpr u32 lone_header_length = xdr::fixed_header_size + xdr::lone_lists_size;

/**
 * Build the header of an RDMA_MSG whose only chunk is @chunk: what an Encoder makes of it.
 *
 * Returns its length, lone_header_length. Errors: ENOSPC; EINVAL, a Position that is zero or no multiple of four.
 */
[[nodiscard]] inline Result<u32> encode_lone(MutableBytes room, Xid xid, Credits credits,
					     const xdr::LoneChunk &chunk)
{
	if (room.size() < lone_header_length)
		return Error::no_space;
	if (chunk.read && !xdr::is_position_of_data(chunk.position))
		return Error::invalid;
	u8 *at = room.data();
	xdr::store_fixed(at, {xid, version, credits, static_cast<u32>(Proc::msg)});
	xdr::store_lone(at + xdr::fixed_header_size, chunk);
	return lone_header_length;
}

/**
 * Build an RDMA_ERROR (RFC 8166 4.5).
 *
 * @room      at least error_vers_length bytes
 * @request   the fixed words of the failing request, its foreign version included: xid and vers are echoed
 * @credits   the grant
 * @error     what to say; with ErrorCode::version, the versions supported here
 *
 * Returns the message's length. Errors: ENOSPC.
 */
[[nodiscard]] Result<u32> encode_error(MutableBytes room, const xdr::FixedHeader &request,
				       Credits credits, const xdr::ErrorBody &error);

} // namespace rpcordma::v1
