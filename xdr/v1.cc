// SPDX-License-Identifier: GPL-2.0-only
/*
 * The version 1 header: the fixed words, what each proc demands of the lists, and the error bodies.
 * The lists themselves are in lists.cc.
 */
#include "xdr/rpc.hh"
#include "xdr/v1.hh"

namespace rpcordma::v1 {

namespace {

/** rdma_err of an RDMA_ERROR, and the range behind it. */
constexpr usize error_code_at = 16;
constexpr usize vers_low_at = 20;
constexpr usize vers_high_at = 24;

static_assert(static_cast<u32>(Proc::error) == xdr::proc_error);
static_assert(static_cast<u32>(ErrorCode::vers) == xdr::error_code_vers);
static_assert(xdr::fixed_header_size + xdr::encoded_lists_length(0, 0, 0, false, 0) ==
	      min_header_length);

/** RDMA_ERROR of version 1, at least the fixed words long. */
Error decode_error(Bytes message, Header &header)
{
	if (message.size() < error_chunk_length)
		return Error::message_size;
	header.error.code = static_cast<ErrorCode>(xdr::load_be32(message.data() + error_code_at));
	switch (header.error.code) {
	case ErrorCode::chunk:
		header.header_length = error_chunk_length;
		return Error::none;
	case ErrorCode::vers:
		if (message.size() < error_vers_length)
			return Error::message_size;
		header.error.vers_low = xdr::load_be32(message.data() + vers_low_at);
		header.error.vers_high = xdr::load_be32(message.data() + vers_high_at);
		header.header_length = error_vers_length;
		return Error::none;
	}
	return Error::bad_message;
}

/** The lists of an RDMA_MSG or RDMA_NOMSG. Apart, as its reader would cost every message a stack frame. */
[[gnu::noinline]] Error decode_chunks(Bytes message, Header &header)
{
	xdr::Reader reader(message.from(xdr::fixed_header_size));
	if (auto status = xdr::decode_lists(reader, header); !status)
		return status.error();
	/* Without either rule the Payload stream would be in two places, or in none. */
	if (header.proc == Proc::msg ? header.reads.has_position_zero() :
				       !header.reads.has_position_zero() && !header.reply.present())
		return Error::protocol;
	header.header_length = u32(message.size() - reader.left());
	return Error::none;
}

/** Fills @header, which is fresh. Split from decode() so that the result is built where it is returned. */
[[gnu::always_inline]] inline Error decode_into(Bytes message, Header &header)
{
	/* No receive is that long; and the lists' counts and sums rely on it. */
	if (message.size() > ~u32(0))
		return Error::message_size;
	auto fixed = xdr::peek(message);
	if (!fixed)
		return fixed.error();
	header.xid = fixed.value().xid;
	header.credits = fixed.value().credits;
	header.proc = static_cast<Proc>(fixed.value().proc);
	if (fixed.value().vers != version)
		return header.proc == Proc::error ? Error::bad_message : Error::no_protocol;
	if (header.proc == Proc::error)
		return decode_error(message, header);
	if (message.size() < min_header_length)
		return Error::message_size;
	switch (header.proc) {
	case Proc::msg:
		/* Most messages have no chunk. */
		if (xdr::lists_absent(message.data() + xdr::fixed_header_size)) {
			header.header_length = min_header_length;
			return Error::none;
		}
		return decode_chunks(message, header);
	case Proc::nomsg:
		return decode_chunks(message, header);
	case Proc::msgp:
		return Error::not_supported;
	case Proc::done:
		return Error::bad_message;
	default:
		return Error::protocol;
	}
}

} // namespace

Error decode(Bytes message, Header &header)
{
	header = Header{};
	return decode_into(message, header);
}

Result<Header> decode(Bytes message)
{
	Result<Header> result{Header{}};

	if (Error error = decode_into(message, result.value()); error != Error::none)
		result = error;
	return result;
}

Result<Direction> direction(const Header &header, Bytes message)
{
	if (!header.reads.empty())
		return Direction::call;
	if (header.proc != Proc::msg)
		return Direction::reply;
	auto rpc = rpc::peek(header.payload(message));
	if (!rpc || rpc.value().xid != header.xid)
		return Error::protocol;
	return rpc.value().type == rpc::MessageType::call ? Direction::call : Direction::reply;
}

Encoder::Encoder(MutableBytes room, Xid xid, Credits credits, Proc proc)
	: ListEncoder(room),
	  proc_(proc)
{
	if (proc != Proc::msg && proc != Proc::nomsg) {
		writer_.fail(Error::invalid);
		return;
	}
	if (u8 *at = writer_.reserve(xdr::fixed_header_size))
		xdr::store_fixed(at, {xid, version, credits, static_cast<u32>(proc)});
}

Result<u32> Encoder::finish()
{
	end_lists_();
	/* As decode_chunks() has it. */
	if (proc_ == Proc::msg ? position_zero_ : !position_zero_ && !has_reply_)
		writer_.fail(Error::invalid);
	if (writer_.error() != Error::none)
		return writer_.error();
	return writer_.length();
}

Result<u32> encode_error_vers(MutableBytes room, Xid xid, u32 vers, Credits credits, u32 low,
			      u32 high)
{
	if (room.size() < error_vers_length)
		return Error::no_space;
	u8 *at = room.data();
	xdr::store_fixed(at, {xid, vers, credits, static_cast<u32>(Proc::error)});
	xdr::store_be32(at + error_code_at, static_cast<u32>(ErrorCode::vers));
	xdr::store_be32(at + vers_low_at, low);
	xdr::store_be32(at + vers_high_at, high);
	return error_vers_length;
}

Result<u32> encode_error_chunk(MutableBytes room, Xid xid, u32 vers, Credits credits)
{
	if (room.size() < error_chunk_length)
		return Error::no_space;
	u8 *at = room.data();
	xdr::store_fixed(at, {xid, vers, credits, static_cast<u32>(Proc::error)});
	xdr::store_be32(at + error_code_at, static_cast<u32>(ErrorCode::chunk));
	return error_chunk_length;
}

} // namespace rpcordma::v1
