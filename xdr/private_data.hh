// SPDX-License-Identifier: GPL-2.0-only
/*
 * The message that two peers exchange in the connection manager's private data (RFC 8797). It is not
 * XDR, and has a format version of its own. How the peers' settings combine is here as far as it is
 * arithmetic; what is done with the result is the connection's business.
 */
#pragma once

#include "xdr/wire.hh"

namespace rpcordma::private_data {

/** The Format Identifier (RFC 8797 4). */
constexpr u32 format_identifier = 0xf6ab0e18;
/** The one format version there is. */
constexpr u8 format_version = 1;
/** Bytes of the message. */
constexpr u32 length = 8;

/*
 * The mark of a peer that speaks version 2, right behind the message: which drafts of it, since a dozen of them say
 * rdma_vers 2. It is this project's, of no registry: RFC 8797 5.2 lets anybody put data behind the message, and who
 * does not know the mark reads the message alone.
 *
 *	u32 mark_identifier, u8 mark_format, three zero bytes
 *
 * The identifier names what is spoken: version-two-03 with rtrext-01. For other drafts it has to be another. The format
 * is that of the eight bytes, and changes if they do. What is not exactly these eight bytes is no mark.
 */
constexpr u32 mark_identifier = 0x72326433; /* "r2d3" */
constexpr u8 mark_format = 1;
/** Bytes of the message and a mark. */
constexpr u32 marked_length = length + 8;

/** The unit of the Size fields, and the inline threshold of a peer that sent nothing (RFC 8166 3.3.3). */
constexpr u32 size_unit = 1024;
/** The largest size that the Size fields can tell (RFC 8797 4.2). */
constexpr u32 max_size = 256 * size_unit;

/** What a peer says of itself; by default, what holds for a peer that says nothing (RFC 8797 5.1). */
struct Properties {
	u32 send_size = size_unit;	  /* bytes it will send at most in one RDMA Send */
	u32 receive_size = size_unit;	  /* bytes it can take in one RDMA Receive */
	bool remote_invalidation = false; /* the R bit (4.1) */
	bool mark = false;		  /* it speaks version 2 as we do */
};

/** The Size field for @bytes: rounded down, since a peer holds us to it, and clamped to what can be told. */
[[nodiscard]] constexpr u8 encode_size(u32 bytes)
{
	return u8(min(max(bytes, size_unit), max_size) / size_unit - 1);
}

/** The bytes that a Size field stands for: size_unit to max_size. */
[[nodiscard]] constexpr u32 decode_size(u8 field)
{
	return (u32(field) + 1) * size_unit;
}

/** The inline threshold from a sender to a receiver: @send_size of the one, @receive_size of the other. */
[[nodiscard]] constexpr u32 inline_threshold(u32 send_size, u32 receive_size)
{
	return min(send_size, receive_size);
}

/**
 * Write our private data into the first bytes of @room. Sizes are told as encode_size() has them: a
 * peer takes them for decode_size(encode_size(size)).
 *
 * Returns length, or marked_length with Properties::mark. Errors: ENOSPC, @room is shorter than that; RFC 8797 4:
 * connect without.
 */
[[nodiscard]] Result<u32> encode(MutableBytes room, const Properties &properties);

/**
 * Find and read the peer's private data.
 *
 * @received  all private data of the connection event. Lower layers may have put theirs before it and
 *            padding behind it, so the identifier is sought at every offset (RFC 8797 5.2). Where what
 *            follows one is of an unknown format version or runs past the end, the identifier was
 *            somebody else's bytes, and the search goes on. A mark counts right behind the message alone.
 *
 * Errors: EPROTONOSUPPORT, there is none: go on with Properties{} (5.1). That is no fault of the peer.
 */
[[nodiscard]] Result<Properties> parse(Bytes received);

} // namespace rpcordma::private_data
