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

#include "xdr/lists.hh"

namespace rpcordma::v1 {

/** rdma_vers of this version (RFC 8166 4.2.2). */
constexpr u32 version = 1;

/** rdma_proc (RFC 8166 4.2.4). */
enum class Proc : u32 {
	msg = 0,
	nomsg = 1,
	msgp = 2, /* never sent, 4.6.1 */
	done = 3, /* never sent, 4.6.2 */
	error = 4,
};

/** rdma_err (RFC 8166 4.5). */
enum class ErrorCode : u32 {
	vers = 1,  /* ERR_VERS */
	chunk = 2, /* ERR_CHUNK */
};

/** The header of a message without chunks, and the least that RDMA_MSG and RDMA_NOMSG take. */
constexpr u32 min_header_length = 28;
/** An RDMA_ERROR with ERR_CHUNK, whose body is void; RFC 8166 4.5's minimum of 28 contradicts its 4.1.2. */
constexpr u32 error_chunk_length = 20;
/** An RDMA_ERROR with ERR_VERS. */
constexpr u32 error_vers_length = 28;

/** The body of an RDMA_ERROR (RFC 8166 4.5). */
struct ErrorBody {
	ErrorCode code = ErrorCode::chunk;
	/* The versions that the peer supports, inclusive; ERR_VERS only, else zero. Not checked. */
	u32 vers_low = 0;
	u32 vers_high = 0;
};

/** A decoded header. The lists point into the message and live no longer. */
struct Header : xdr::ChunkLists {
	Xid xid;
	u32 vers = version; /* always version: another is an error */
	Credits credits; /* requested in a Call, granted in a Reply (4.2.3); zero is not refused here */
	Proc proc = Proc::msg; /* msg, nomsg or error: the others are errors */
	u32 header_length = 0; /* bytes; the offset of the Payload stream in an RDMA_MSG */
	ErrorBody error;       /* for Proc::error, whose lists are empty */

	/**
	 * The inline part of the Payload stream of @message, which this header was decoded from:
	 * for RDMA_MSG all that follows the header, maybe nothing; else empty. Bytes behind the
	 * header of an RDMA_NOMSG or RDMA_ERROR mean nothing and are ignored.
	 */
	[[nodiscard]] Bytes payload(Bytes message) const
	{
		return proc == Proc::msg ? message.from(header_length) : Bytes{};
	}
};

/**
 * Decode a version 1 transport header, in one pass.
 *
 * @message  the received message, from the first byte of rdma_xid to its end; any alignment, any length
 *
 * Returns the header. Beside the layout these are established: Positions are multiples of four; an
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
[[nodiscard]] Result<Header> decode(Bytes message);
/** The same into @header, which means nothing after an error. */
[[nodiscard]] Error decode(Bytes message, Header &header);

/** Which way the RPC message goes that a transport message carries (RFC 8167 2). */
enum class Direction : u8 { call, reply };

/**
 * Tell a Call from a Reply, so that a client knows a backward Call from a forward Reply, a server a
 * forward Call from a backward Reply, and both whether the credit value is a request or a grant
 * (RFC 8167 4.1).
 *
 * @header   of @message, as decode() returned it
 * @message  the whole message
 *
 * A Read list marks a Call, whatever the payload says: a responder must leave it empty (RFC 8166 4.3.1).
 * Without one, the payload's msg_type decides for an RDMA_MSG; an RDMA_NOMSG then has only a Reply
 * chunk, and is a Reply. An RDMA_ERROR answers a call of its receiver: a Reply, although it carries none.
 *
 * Errors: EPROTO, the payload is under 8 bytes, is neither Call nor Reply, or has another xid than the
 * header (4.5.2): not decodable, as above; nothing in the message is to be acted on, its credits included.
 */
[[nodiscard]] Result<Direction> direction(const Header &header, Bytes message);

/** Bytes of a header with these counts; to see whether a header fits before it is built. */
[[nodiscard]] constexpr u64 encoded_length(u32 read_segments, u32 write_chunks, u32 write_segments,
					   bool reply_chunk, u32 reply_segments)
{
	return xdr::fixed_header_size + xdr::encoded_lists_length(read_segments, write_chunks,
								  write_segments, reply_chunk,
								  reply_segments);
}

/**
 * Builds the header of an RDMA_MSG or RDMA_NOMSG in place:
 *
 *	Encoder encoder(room, xid, credits, Proc::msg);
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
	 * @proc     Proc::msg or Proc::nomsg; else EINVAL
	 */
	Encoder(MutableBytes room, Xid xid, Credits credits, Proc proc);

	/**
	 * End the header; call it once, last. Returns the header's length, which is the offset of
	 * the Payload stream.
	 * Errors: ENOSPC, @room is too small; EINVAL, a call out of order, a chunk without all its
	 * segments, an RDMA_MSG with a Position Zero Read chunk, or an RDMA_NOMSG with neither that
	 * nor a Reply chunk. So decode() accepts whatever this built.
	 */
	[[nodiscard]] Result<u32> finish();

private:
	Proc proc_;
};

/**
 * Build the header of an RDMA_MSG without chunks, as most messages are, and all in the backward direction
 * (RFC 8167 5): what an Encoder makes without any list.
 *
 * @room  where it goes
 *
 * Returns its length, min_header_length. Errors: ENOSPC.
 */
[[nodiscard]] inline Result<u32> encode_short(MutableBytes room, Xid xid, Credits credits)
{
	if (room.size() < min_header_length)
		return Error::no_space;
	u8 *at = room.data();
	xdr::store_fixed(at, {xid, version, credits, static_cast<u32>(Proc::msg)});
	__builtin_memset(at + xdr::fixed_header_size, 0, min_header_length - xdr::fixed_header_size);
	return min_header_length;
}

/**
 * Build an RDMA_ERROR with ERR_VERS (RFC 8166 4.5.1).
 *
 * @room           at least error_vers_length bytes
 * @xid, @vers     those of the failing request (peek()), its foreign version included
 * @credits        the grant
 * @low, @high     the versions supported here, inclusive
 *
 * Returns the message's length. Errors: ENOSPC.
 */
[[nodiscard]] Result<u32> encode_error_vers(MutableBytes room, Xid xid, u32 vers, Credits credits,
					    u32 low, u32 high);

/** Build an RDMA_ERROR with ERR_CHUNK (4.5.2); as encode_error_vers(), error_chunk_length bytes. */
[[nodiscard]] Result<u32> encode_error_chunk(MutableBytes room, Xid xid, u32 vers, Credits credits);

} // namespace rpcordma::v1
