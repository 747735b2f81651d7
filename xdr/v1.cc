// SPDX-License-Identifier: GPL-2.0-only
/*
 * The version 1 header: the fixed words, what each proc demands of the lists, and the error bodies.
 * The lists themselves are in lists.cc.
 */
#include "xdr/v1.hh"

#include <new>

namespace rpcordma::v1 {

namespace {

/** rdma_err of an RDMA_ERROR, and the range behind it. */
constexpr usize error_code_at = 16;
constexpr usize vers_low_at = 20;
constexpr usize vers_high_at = 24;

/** rdma_err (RFC 8166 4.5). */
constexpr u32 err_vers = xdr::error_code_vers;
constexpr u32 err_chunk = 2;

static_assert(xdr::fixed_header_size + xdr::encoded_lists_length(0, 0, 0, false, 0) ==
	      min_header_length);

/** RDMA_ERROR of version 1, at least the fixed words long. */
Error decode_error(Bytes bytes, xdr::Message &message)
{
	message.kind = xdr::Kind::error;
	message.direction = xdr::Direction::reply;
	if (bytes.size() < error_chunk_length)
		return Error::message_size;
	switch (xdr::load_be32(bytes.data() + error_code_at)) {
	case err_chunk:
		message.error.code = xdr::ErrorCode::chunk;
		message.header_length = error_chunk_length;
		return Error::none;
	case err_vers:
		if (bytes.size() < error_vers_length)
			return Error::message_size;
		message.error.code = xdr::ErrorCode::version;
		message.error.low = xdr::load_be32(bytes.data() + vers_low_at);
		message.error.high = xdr::load_be32(bytes.data() + vers_high_at);
		message.header_length = error_vers_length;
		return Error::none;
	default:
		return Error::bad_message;
	}
}

/** The lists of an RDMA_MSG or RDMA_NOMSG. Apart, as its reader would cost every message a stack frame. */
[[gnu::noinline]] Error decode_chunks(Bytes bytes, xdr::Message &message)
{
	const bool msg = message.kind == xdr::Kind::msg;
	xdr::Reader reader(bytes.from(xdr::fixed_header_size));

	if (auto status = xdr::decode_lists(reader, message); !status)
		return status.error();
	/* Without either rule the Payload stream would be in two places, or in none. */
	if (msg ? message.reads.has_position_zero() :
		  !message.reads.has_position_zero() && !message.reply.present())
		return Error::protocol;
	message.header_length = u32(bytes.size() - reader.left());
	if (msg)
		message.payload = bytes.from(message.header_length);
	message.direction = xdr::infer_direction(message);
	return Error::none;
}

} // namespace

bool decode_lone(Bytes bytes, xdr::Message &message)
{
	const u8 *at = bytes.data();
	u32 xid, type;
	xdr::LoneLists lists;

	if (bytes.size() < lone_header_length + rpc::peek_length || bytes.size() > ~u32(0) ||
	    xdr::load_be32(at + xdr::proc_at) != static_cast<u32>(Proc::msg) ||
	    !xdr::has_rpc(at, version, lone_header_length, xid, type) ||
	    !lists.load(at + xdr::fixed_header_size) || (lists.read && !lists.position))
		return false;
	/* As infer_direction() has it. */
	xdr::fill_msg(bytes, version, lone_header_length, xid,
		      type && !lists.read ? xdr::Direction::reply : xdr::Direction::call, message);
	lists.fill(at + xdr::fixed_header_size, message);
	return true;
}

Error decode_any(Bytes bytes, xdr::Message &message)
{
	/* In place: an assignment would clear a copy first. */
	new (&message) xdr::Message;
	/* No receive is that long; and the lists' counts and sums rely on it. */
	if (bytes.size() > ~u32(0))
		return Error::message_size;
	auto fixed = xdr::peek(bytes);
	if (!fixed)
		return fixed.error();
	message.xid = fixed.value().xid;
	message.version = fixed.value().vers;
	message.credits = fixed.value().credits;
	const Proc proc = static_cast<Proc>(fixed.value().proc);
	if (fixed.value().vers != version)
		return proc == Proc::error ? Error::bad_message : Error::no_protocol;
	if (proc == Proc::error)
		return decode_error(bytes, message);
	if (bytes.size() < min_header_length)
		return Error::message_size;
	switch (proc) {
	case Proc::msg:
		return decode_chunks(bytes, message);
	case Proc::nomsg:
		message.kind = xdr::Kind::nomsg;
		return decode_chunks(bytes, message);
	case Proc::msgp:
		return Error::not_supported;
	case Proc::done:
		return Error::bad_message;
	default:
		return Error::protocol;
	}
}

Encoder::Encoder(MutableBytes room, Xid xid, Credits credits, xdr::Kind kind)
	: ListEncoder(room),
	  kind_(kind)
{
	if (kind != xdr::Kind::msg && kind != xdr::Kind::nomsg) {
		writer_.fail(Error::invalid);
		return;
	}
	if (u8 *at = writer_.reserve(xdr::fixed_header_size))
		xdr::store_fixed(at, {xid, version, credits, static_cast<u32>(kind)});
}

Result<u32> Encoder::finish()
{
	end_lists_();
	/* As decode_chunks() has it. */
	if (kind_ == xdr::Kind::msg ? position_zero_ : !position_zero_ && !has_reply_)
		writer_.fail(Error::invalid);
	if (writer_.error() != Error::none)
		return writer_.error();
	return writer_.length();
}

Result<u32> encode_error(MutableBytes room, const xdr::FixedHeader &request, Credits credits,
			 const xdr::ErrorBody &error)
{
	const bool vers = error.code == xdr::ErrorCode::version;
	const u32 length = vers ? error_vers_length : error_chunk_length;

	if (room.size() < length)
		return Error::no_space;
	u8 *at = room.data();
	xdr::store_fixed(at, {request.xid, request.vers, credits, static_cast<u32>(Proc::error)});
	xdr::store_be32(at + error_code_at, vers ? err_vers : err_chunk);
	if (vers) {
		xdr::store_be32(at + vers_low_at, error.low);
		xdr::store_be32(at + vers_high_at, error.high);
	}
	return length;
}

} // namespace rpcordma::v1
