// SPDX-License-Identifier: GPL-2.0-only
/*
 * The eight octets of RFC 8797 4: Format Identifier, Version, seven reserved bits and R, Send Size,
 * Receive Size.
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

} // namespace

Result<u32> encode(MutableBytes room, const Properties &properties)
{
	if (room.size() < length)
		return Error::no_space;
	u8 *at = room.data();
	xdr::store_be32(at, format_identifier);
	at[version_at] = format_version;
	at[flags_at] = properties.remote_invalidation ? flag_remote_invalidation : 0;
	at[send_size_at] = encode_size(properties.send_size);
	at[receive_size_at] = encode_size(properties.receive_size);
	return length;
}

Result<Properties> parse(Bytes received)
{
	for (usize at = 0; received.size() - at >= length; at++) {
		const u8 *p = received.data() + at;

		if (xdr::load_be32(p) != format_identifier || p[version_at] != format_version)
			continue;
		/* The reserved bits are ignored (4). */
		return Properties{decode_size(p[send_size_at]), decode_size(p[receive_size_at]),
				  (p[flags_at] & flag_remote_invalidation) != 0};
	}
	return Error::no_protocol;
}

} // namespace rpcordma::private_data
