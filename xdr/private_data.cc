// SPDX-License-Identifier: GPL-2.0-only
/*
 * The eight octets of RFC 8797 4: Format Identifier, Version, seven reserved bits and R, Send Size,
 * Receive Size; and the mark.
 */
#include "xdr/private_data.hh"

namespace rpcordma::private_data {

namespace {

constexpr usize version_at = 4;
constexpr usize flags_at = 5;
constexpr usize send_size_at = 6;
constexpr usize receive_size_at = 7;
/** R is the last bit of the second 16, in network bit order. */
constexpr u8 flag_remote_invalidation = 0x01;

/** The four bytes of the mark behind its identifier. */
constexpr u32 mark_rest = u32(mark_format) << 24;

/** The mark begins at @bytes. */
bool is_mark(Bytes bytes)
{
	return bytes.size() >= marked_length - length &&
	       xdr::load_be32(bytes.data()) == mark_identifier &&
	       xdr::load_be32(bytes.data() + xdr::word_size) == mark_rest;
}

} // namespace

Result<u32> encode(MutableBytes room, const Properties &properties)
{
	const u32 bytes = properties.mark ? marked_length : length;

	if (room.size() < bytes)
		return Error::no_space;
	u8 *at = room.data();
	xdr::store_be32(at, format_identifier);
	at[version_at] = format_version;
	at[flags_at] = properties.remote_invalidation ? flag_remote_invalidation : 0;
	at[send_size_at] = encode_size(properties.send_size);
	at[receive_size_at] = encode_size(properties.receive_size);
	if (properties.mark) {
		xdr::store_be32(at + length, mark_identifier);
		xdr::store_be32(at + length + xdr::word_size, mark_rest);
	}
	return bytes;
}

Result<Properties> parse(Bytes received)
{
	for (usize at = 0; received.size() - at >= length; at++) {
		const u8 *p = received.data() + at;

		if (xdr::load_be32(p) != format_identifier || p[version_at] != format_version)
			continue;
		/* The reserved bits are ignored (4). */
		return Properties{decode_size(p[send_size_at]), decode_size(p[receive_size_at]),
				  (p[flags_at] & flag_remote_invalidation) != 0,
				  is_mark(received.from(at + length))};
	}
	return Error::no_protocol;
}

} // namespace rpcordma::private_data
