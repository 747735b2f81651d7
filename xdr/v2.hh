// SPDX-License-Identifier: GPL-2.0-only
/*
 * The transport header of RPC-over-RDMA version 2 (draft-cel-nfsv4-rpcrdma-version-two-03): its constants, a decoder
 * and an encoder. What a requester or responder does about a message (answer, drop, count) is theirs; this file only
 * tells the cases apart, and each error below stands for one course of action.
 *
 * On the wire a header is xid, vers, credit, proc, and then for
 *
 *	MSG, NOMSG	direction, R_key to invalidate, and the chunk lists of lists.hh
 *	ERROR		the code, and two words behind VERS and REPLY_RESOURCE
 *	OPTIONAL	direction, opttype, optinfo (counted); the Payload stream follows, as with MSG
 *	CONNPROP ...	property sets and subsets (properties.hh)
 *
 * What is in optinfo belongs to the extension (rtrext.hh). Here it is found whole, of a known type, and of a length
 * that the type can have.
 */
#pragma once

#include "xdr/message.hh"
#include "xdr/properties.hh"

namespace rpcordma::v2 {

/** rdma_vers of this version. */
constexpr u32 version = 2;

/** rdma_proc. */
enum class Proc : u32 {
	msg = static_cast<u32>(xdr::Kind::msg),
	nomsg = static_cast<u32>(xdr::Kind::nomsg),
	error = static_cast<u32>(xdr::Kind::error),
	optional = static_cast<u32>(xdr::Kind::optional),
	connprop = static_cast<u32>(xdr::Kind::connprop),
	reqprop = static_cast<u32>(xdr::Kind::reqprop),
	resprop = static_cast<u32>(xdr::Kind::resprop),
	updprop = static_cast<u32>(xdr::Kind::updprop),
};

/** The header of a message without chunks, and the least that MSG and NOMSG take. */
constexpr u32 min_header_length = 36;
/** An ERROR whose body is void, and one with VERS or REPLY_RESOURCE. */
constexpr u32 error_length = 20;
constexpr u32 error_words_length = 28;
/** The least of the others: what precedes optinfo, an empty set, a set and a subset, a set and two. */
constexpr u32 optional_length = 28;
constexpr u32 set_length = 20;
constexpr u32 connprop_length = 24;
constexpr u32 resprop_length = 28;
/** A CONNPROP with all properties and two groups of segments. */
constexpr u32 most_connprop_length =
	xdr::fixed_header_size + properties::most_set_length + 2 * xdr::word_size;

/**
 * Decode a version 2 transport header, in one pass.
 *
 * @bytes    the received message, from the first byte of rdma_xid to its end; any alignment, any length
 * @message  filled; its lists, body and payload point into @bytes. After an error its kind and direction are those
 *           that were found up to there, and all else means nothing
 *
 * Established beside the layout: the payload of a MSG is an RPC message with the header's xid and direction; Positions
 * are multiples of four; a MSG has no Position Zero Read chunk, and a NOMSG that or a Reply chunk; an XMTREQ is a call
 * and an XMTRESP a reply. What bytes follow the header of a kind that has no payload is not looked at, as in version 1.
 *
 * The direction is the header's. Without that word an ERROR and a RESPROP are replies, and CONNPROP, REQPROP and UPDPROP
 * calls, although a server answers a CONNPROP with one.
 *
 * Errors:
 *   EMSGSIZE         under 16 bytes. Nothing in it is to be believed: drop it.
 *   EBADMSG          it says that it is a reply (by its direction, or as ERROR or RESPROP), and is malformed in any of
 *                    the ways below, or has an unknown error code: drop it. Nothing of that kind is answered.
 *   EPROTONOSUPPORT  another version, unless it is an ERROR with VERS, whose version is that of what it answers.
 *   EOPNOTSUPP       a proc that does not exist: answer INVAL_PROC.
 *   ENOPROTOOPT      an opttype that does not exist, or is none of a call: answer INVAL_OPTION.
 *   EPROTO           not decodable: answer BAD_XDR.
 * refusal() has the answers; peek() gives the xid and vers for them to echo.
 */
[[nodiscard]] Error decode(Bytes bytes, xdr::Message &message);

/** Where a MSG has its direction, the R_key to invalidate, and its lists. */
constexpr usize direction_at = 16, invalidate_at = 20, lists_at = 24;

/**
 * The same, where most messages are decoded: a MSG without chunks, whose payload is an RPC message with its xid and
 * direction. False, with @message as it was: it is none; decode() tells.
 */
[[nodiscard, gnu::always_inline]] inline bool decode_plain(Bytes bytes, xdr::Message &message)
{
	const u8 *at = bytes.data();
	u32 xid, type;

	if (bytes.size() < min_header_length + rpc::peek_length || bytes.size() > ~u32(0))
		return false;
	if (xdr::load_be32(at + xdr::proc_at) != static_cast<u32>(Proc::msg) ||
	    !xdr::lists_absent(at + lists_at) ||
	    !xdr::has_rpc(at, version, min_header_length, xid, type) ||
	    type != xdr::load_be32(at + direction_at))
		return false;
	const u32 invalidate = xdr::load_be32(at + invalidate_at);
	xdr::fill_msg(bytes, version, min_header_length, xid,
		      type ? xdr::Direction::reply : xdr::Direction::call, message);
	message.invalidate = Rkey(invalidate);
	return true;
}

/** The same of one with one chunk of one segment, as most READs and WRITEs have, and their replies. */
[[nodiscard, gnu::noinline]] bool decode_lone(Bytes bytes, xdr::Message &message);

/** What to answer a message with of which decode() said @error. */
[[nodiscard]] constexpr xdr::ErrorCode refusal(Error error)
{
	switch (error) {
	case Error::no_protocol:
		return xdr::ErrorCode::version;
	case Error::not_supported:
		return xdr::ErrorCode::procedure;
	case Error::no_option:
		return xdr::ErrorCode::option;
	default:
		return xdr::ErrorCode::chunk;
	}
}

/**
 * Builds the header of a MSG or NOMSG in place:
 *
 *	Encoder encoder(room, xid, credits, Kind::msg, Direction::call, invalidate);
 *	encoder.read_segment(position, segment);        // the lists, in wire order, see ListEncoder
 *	u32 length = TRY(encoder.finish());             // the one check
 */
class Encoder : public xdr::ListEncoder {
public:
	/**
	 * @room        where the header goes, from its first byte; outlives the encoder. Nothing outside it is
	 *              touched; after an error its content is unspecified
	 * @credits     requested in a call, granted in a reply; not zero, not checked here
	 * @kind        Kind::msg or Kind::nomsg; else EINVAL
	 * @direction   Direction::call or Direction::reply; else EINVAL
	 * @invalidate  the R_key that the reply is to invalidate; zero: none, and in all replies
	 */
	Encoder(MutableBytes room, Xid xid, Credits credits, xdr::Kind kind,
		xdr::Direction direction, Rkey invalidate);

	/**
	 * End the header; call it once, last. Returns the header's length, which is the offset of the Payload stream.
	 * Errors: ENOSPC, @room is too small; EINVAL, a call out of order, a chunk without all its segments, a MSG with
	 * a Position Zero Read chunk, or a NOMSG with neither that nor a Reply chunk.
	 */
	[[nodiscard]] Result<u32> finish();

private:
	xdr::Kind kind_;
};

/**
 * Build the header of a MSG without chunks: what an Encoder makes without any list.
 *
 * Returns its length, min_header_length. Errors: ENOSPC; EINVAL, a direction that is neither.
 */
[[nodiscard]] Result<u32> encode_bare(MutableBytes room, Xid xid, Credits credits,
				      xdr::Direction direction, Rkey invalidate);

/**
 * Build the header of a MSG whose only chunk is @chunk: what an Encoder makes of it.
 *
 * Returns its length, min_header_length - absent_lists_size + lone_lists_size. Errors: ENOSPC; EINVAL, a direction that
 * is neither, or a Position that is zero or no multiple of four.
 */
[[nodiscard]] Result<u32> encode_lone(MutableBytes room, Xid xid, Credits credits,
				      xdr::Direction direction, Rkey invalidate,
				      const xdr::LoneChunk &chunk);

/**
 * Build an ERROR.
 *
 * @room      at least error_words_length bytes
 * @request   the fixed words of the failing request, its foreign version included: xid and vers are echoed
 * @credits   the grant
 * @error     what to say
 *
 * Returns the message's length. Errors: ENOSPC.
 */
[[nodiscard]] Result<u32> encode_error(MutableBytes room, const xdr::FixedHeader &request,
				       Credits credits, const xdr::ErrorBody &error);

/**
 * Build a CONNPROP.
 *
 * @room      most_connprop_length is always enough
 * @said      the properties to tell: those that are present
 * @nochange  which of them will not change, a mask of properties::bit()
 *
 * Returns the message's length. Errors: ENOSPC.
 */
[[nodiscard]] Result<u32> encode_connprop(MutableBytes room, Xid xid, Credits credits,
					  const properties::Properties &said, u32 nochange);

/** Build an UPDPROP of the properties that are present in @said. Returns its length. Errors: ENOSPC. */
[[nodiscard]] Result<u32> encode_updprop(MutableBytes room, Xid xid, Credits credits,
					 const properties::Properties &said);

/**
 * Build the RESPROP that rejects all that a REQPROP asks for.
 *
 * @request  the REQPROP, as decode() left it
 *
 * Returns its length, which grows by a word for every 32 properties asked for. Errors: ENOSPC.
 */
[[nodiscard]] Result<u32> encode_resprop(MutableBytes room, const xdr::Message &request,
					 Credits credits);

/**
 * Build the header of an OPTIONAL: what precedes its Payload stream.
 *
 * @optinfo  what the extension puts there: its own encoder's bytes, whole words. They may stand in @room already, at
 *           optional_length, and then stay there
 *
 * Returns its length. Errors: ENOSPC; EINVAL, a direction that is neither, or @optinfo of a length that decode() refuses.
 */
[[nodiscard]] Result<u32> encode_optional(MutableBytes room, Xid xid, Credits credits,
					  xdr::Direction direction, xdr::Option option,
					  Bytes optinfo);

} // namespace rpcordma::v2
