// SPDX-License-Identifier: GPL-2.0-only
/*
 * The version 2 header: the fixed words, what each proc demands of what follows, the error bodies and the outer form of
 * optinfo. The lists are in lists.cc, the property sets in properties.cc.
 */
#include "xdr/v2.hh"

#include <new>

namespace rpcordma::v2 {

namespace {

using xdr::word_size;

/** rdma_opttype and rdma_optinfo's length, behind rdma_optdir, which is where other kinds have their direction. */
constexpr usize option_at = 20;
constexpr usize optinfo_length_at = 24;

/** rdma_err of an ERROR, and the two words behind it. */
constexpr usize code_at = 16;
constexpr usize first_at = 20;
constexpr usize second_at = 24;

/** rdma_err counts from 1 in the order of xdr::ErrorCode. */
constexpr u32 vers_code = xdr::error_code_vers;
constexpr u32 system_code = 6;
static_assert(static_cast<u32>(xdr::ErrorCode::version) + 1 == vers_code);
static_assert(static_cast<u32>(xdr::ErrorCode::system) + 1 == system_code);

static_assert(lists_at + xdr::encoded_lists_length(0, 0, 0, false, 0) == min_header_length);
static_assert(most_connprop_length == 136);

/** What is malformed in a message that says it is a reply is dropped, and else refused. */
Error malformed(const xdr::Message &message)
{
	return message.direction == xdr::Direction::reply ? Error::bad_message : Error::protocol;
}

bool has_words(xdr::ErrorCode code)
{
	return code == xdr::ErrorCode::version || code == xdr::ErrorCode::reply_resource;
}

/** An ERROR, at least the fixed words long. */
Error decode_refusal(Bytes bytes, xdr::Message &message)
{
	message.kind = xdr::Kind::error;
	message.direction = xdr::Direction::reply;
	if (bytes.size() < error_length)
		return Error::bad_message;
	const u32 code = xdr::load_be32(bytes.data() + code_at);
	/* In an ERROR of another version nothing but VERS is fixed. */
	if (code < vers_code || code > system_code ||
	    (message.version != version && code != vers_code))
		return Error::bad_message;
	message.error.code = static_cast<xdr::ErrorCode>(code - vers_code);
	message.header_length = error_length;
	if (has_words(message.error.code)) {
		if (bytes.size() < error_words_length)
			return Error::bad_message;
		message.error.low = xdr::load_be32(bytes.data() + first_at);
		message.error.high = xdr::load_be32(bytes.data() + second_at);
		message.header_length = error_words_length;
	}
	message.payload = bytes.from(bytes.size());
	return Error::none;
}

/** The word at @at, which says the direction; false when it is not there, or neither. */
bool read_direction(Bytes bytes, xdr::Message &message)
{
	if (bytes.size() < direction_at + word_size)
		return false;
	const u32 word = xdr::load_be32(bytes.data() + direction_at);
	if (word > static_cast<u32>(xdr::Direction::reply))
		return false;
	message.direction = static_cast<xdr::Direction>(word);
	return true;
}

/** The payload of a MSG is an RPC message, and the header says of it what it says. */
bool agrees(const xdr::Message &message)
{
	const auto rpc = rpc::peek(message.payload);

	return rpc && rpc.value().xid == message.xid &&
	       static_cast<u32>(rpc.value().type) == static_cast<u32>(message.direction);
}

/** A MSG or NOMSG. Apart, as its reader would cost every message a stack frame. */
[[gnu::noinline]] Error decode_transfer(Bytes bytes, xdr::Message &message)
{
	const bool msg = message.kind == xdr::Kind::msg;

	if (!read_direction(bytes, message) || bytes.size() < min_header_length)
		return malformed(message);
	message.invalidate = Rkey(xdr::load_be32(bytes.data() + invalidate_at));
	xdr::Reader reader(bytes.from(lists_at));
	if (!xdr::decode_lists(reader, message))
		return malformed(message);
	/* Without either rule the Payload stream would be in two places, or in none. */
	if (msg ? message.reads.has_position_zero() :
		  !message.reads.has_position_zero() && !message.reply.present())
		return malformed(message);
	message.header_length = u32(bytes.size() - reader.left());
	if (!msg)
		return Error::none;
	message.payload = bytes.from(message.header_length);
	return agrees(message) ? Error::none : malformed(message);
}

/** optinfo of @option may have @length bytes. */
bool plausible(xdr::Option option, u32 length)
{
	u32 least, most = ~u32(0);

	switch (option) {
	case xdr::Option::xmtreq: /* two empty lists, count, rsbuf, pslen */
		least = 20;
		break;
	case xdr::Option::xmtresp: /* an empty list, count, pslen */
		least = 12;
		break;
	case xdr::Option::xmtcont: /* xnum, itype, pslen */
		least = most = 12;
		break;
	case xdr::Option::repterr: /* bad, none or another, which, none to three words */
		least = 20;
		most = 44;
		break;
	default:
		return false;
	}
	/* All of them consist of words. */
	return length >= least && length <= most && length % word_size == 0;
}

/** An OPTIONAL, at least the fixed words long. */
[[gnu::noinline]] Error decode_optional(Bytes bytes, xdr::Message &message)
{
	message.kind = xdr::Kind::optional;
	if (!read_direction(bytes, message) || bytes.size() < option_at + word_size)
		return malformed(message);
	const bool call = message.direction == xdr::Direction::call;
	const u32 option = xdr::load_be32(bytes.data() + option_at);
	/* The kinds of neither direction are refused as unknown; optinfo is not looked at. */
	if (option < static_cast<u32>(xdr::Option::xmtreq) ||
	    option > static_cast<u32>(xdr::Option::repterr) ||
	    option == static_cast<u32>(call ? xdr::Option::xmtresp : xdr::Option::xmtreq))
		return call ? Error::no_option : Error::bad_message;
	message.option = static_cast<xdr::Option>(option);
	if (bytes.size() < optional_length)
		return malformed(message);
	const u32 length = xdr::load_be32(bytes.data() + optinfo_length_at);
	if (length > bytes.size() - optional_length || !plausible(message.option, length))
		return malformed(message);
	message.header_length = optional_length + length;
	message.payload = bytes.from(message.header_length);
	return Error::none;
}

/** A message of properties: sets and subsets, whole, with any content. */
[[gnu::noinline]] Error decode_properties(Bytes bytes, xdr::Message &message)
{
	xdr::Reader reader(bytes.from(xdr::fixed_header_size));
	const bool response = message.kind == xdr::Kind::resprop;
	u32 count;

	message.direction = response ? xdr::Direction::reply : xdr::Direction::call;
	for (u32 subset = 0; subset < (response ? 2 : 0); subset++)
		if (!properties::skip_subset(reader))
			return malformed(message);
	if (!properties::skip_set(reader, count))
		return malformed(message);
	if (message.kind == xdr::Kind::connprop && !properties::skip_subset(reader))
		return malformed(message);
	message.header_length = u32(bytes.size() - reader.left());
	message.payload = Bytes(reader.at(), 0);
	return Error::none;
}

u32 direction_word(xdr::Direction direction)
{
	return static_cast<u32>(direction);
}

bool is_direction(xdr::Direction direction)
{
	return direction == xdr::Direction::call || direction == xdr::Direction::reply;
}

/** Begin a message of properties. */
void begin(xdr::Writer &writer, Xid xid, Credits credits, Proc proc)
{
	if (u8 *at = writer.reserve(xdr::fixed_header_size))
		xdr::store_fixed(at, {xid, version, credits, static_cast<u32>(proc)});
}

Result<u32> end(const xdr::Writer &writer)
{
	if (writer.error() != Error::none)
		return writer.error();
	return writer.length();
}

} // namespace

bool decode_lone(Bytes bytes, xdr::Message &message)
{
	constexpr u32 header_length = lists_at + xdr::lone_lists_size;
	const u8 *at = bytes.data();
	u32 xid, type;
	xdr::LoneLists lists;

	if (bytes.size() < header_length + rpc::peek_length || bytes.size() > ~u32(0) ||
	    xdr::load_be32(at + xdr::proc_at) != static_cast<u32>(Proc::msg) ||
	    !xdr::has_rpc(at, version, header_length, xid, type) ||
	    type != xdr::load_be32(at + direction_at) || !lists.load(at + lists_at) ||
	    (lists.read && !lists.position))
		return false;
	const u32 invalidate = xdr::load_be32(at + invalidate_at);
	xdr::fill_msg(bytes, version, header_length, xid,
		      type ? xdr::Direction::reply : xdr::Direction::call, message);
	message.invalidate = Rkey(invalidate);
	lists.fill(at + lists_at, message);
	return true;
}

Error decode(Bytes bytes, xdr::Message &message)
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
	if (proc == Proc::error)
		return decode_refusal(bytes, message);
	if (fixed.value().vers != version)
		return Error::no_protocol;
	switch (proc) {
	case Proc::msg:
		return decode_transfer(bytes, message);
	case Proc::nomsg:
		message.kind = xdr::Kind::nomsg;
		return decode_transfer(bytes, message);
	case Proc::optional:
		return decode_optional(bytes, message);
	case Proc::connprop:
	case Proc::reqprop:
	case Proc::resprop:
	case Proc::updprop:
		message.kind = static_cast<xdr::Kind>(proc);
		return decode_properties(bytes, message);
	default:
		return Error::not_supported;
	}
}

Encoder::Encoder(MutableBytes room, Xid xid, Credits credits, xdr::Kind kind,
		 xdr::Direction direction, Rkey invalidate)
	: ListEncoder(room),
	  kind_(kind)
{
	if ((kind != xdr::Kind::msg && kind != xdr::Kind::nomsg) || !is_direction(direction)) {
		writer_.fail(Error::invalid);
		return;
	}
	if (u8 *at = writer_.reserve(lists_at)) {
		xdr::store_fixed(at, {xid, version, credits, static_cast<u32>(kind)});
		xdr::store_be32(at + direction_at, direction_word(direction));
		xdr::store_be32(at + invalidate_at, invalidate.get());
	}
}

Result<u32> Encoder::finish()
{
	end_lists_();
	/* As decode_transfer() has it. */
	if (kind_ == xdr::Kind::msg ? position_zero_ : !position_zero_ && !has_reply_)
		writer_.fail(Error::invalid);
	return end(writer_);
}

/** What a MSG has in front of its lists. */
static void store_head(u8 *at, Xid xid, Credits credits, xdr::Direction direction, Rkey invalidate)
{
	xdr::store_fixed(at, {xid, version, credits, static_cast<u32>(Proc::msg)});
	xdr::store_be32(at + direction_at, direction_word(direction));
	xdr::store_be32(at + invalidate_at, invalidate.get());
}

Result<u32> encode_lone(MutableBytes room, Xid xid, Credits credits, xdr::Direction direction,
			Rkey invalidate, const xdr::LoneChunk &chunk)
{
	if (!is_direction(direction) || (chunk.read && !xdr::is_position_of_data(chunk.position)))
		return Error::invalid;
	if (room.size() < lists_at + xdr::lone_lists_size)
		return Error::no_space;
	store_head(room.data(), xid, credits, direction, invalidate);
	xdr::store_lone(room.data() + lists_at, chunk);
	return u32(lists_at + xdr::lone_lists_size);
}

Result<u32> encode_bare(MutableBytes room, Xid xid, Credits credits, xdr::Direction direction,
			Rkey invalidate)
{
	if (!is_direction(direction))
		return Error::invalid;
	if (room.size() < min_header_length)
		return Error::no_space;
	u8 *at = room.data();
	store_head(at, xid, credits, direction, invalidate);
	__builtin_memset(at + lists_at, 0, min_header_length - lists_at);
	return min_header_length;
}

Result<u32> encode_error(MutableBytes room, const xdr::FixedHeader &request, Credits credits,
			 const xdr::ErrorBody &error)
{
	const bool words = has_words(error.code);
	const u32 length = words ? error_words_length : error_length;

	if (room.size() < length)
		return Error::no_space;
	u8 *at = room.data();
	xdr::store_fixed(at, {request.xid, request.vers, credits, static_cast<u32>(Proc::error)});
	xdr::store_be32(at + code_at, static_cast<u32>(error.code) + vers_code);
	if (words) {
		xdr::store_be32(at + first_at, error.low);
		xdr::store_be32(at + second_at, error.high);
	}
	return length;
}

Result<u32> encode_connprop(MutableBytes room, Xid xid, Credits credits,
			    const properties::Properties &said, u32 nochange)
{
	xdr::Writer writer(room);

	begin(writer, xid, credits, Proc::connprop);
	properties::encode_set(writer, said);
	writer.word(1);
	writer.word(properties::subset_of(said, nochange));
	return end(writer);
}

Result<u32> encode_updprop(MutableBytes room, Xid xid, Credits credits,
			   const properties::Properties &said)
{
	xdr::Writer writer(room);

	begin(writer, xid, credits, Proc::updprop);
	properties::encode_set(writer, said);
	return end(writer);
}

Result<u32> encode_resprop(MutableBytes room, const xdr::Message &request, Credits credits)
{
	xdr::Reader reader(request.body());
	xdr::Writer writer(room);
	u32 count;

	/* decode() found it whole. */
	if (!properties::skip_set(reader, count))
		return Error::invalid;
	begin(writer, request.xid, credits, Proc::resprop);
	writer.word(0);
	writer.word(count / 32 + (count % 32 != 0));
	for (; count >= 32; count -= 32)
		writer.word(~u32(0));
	if (count != 0)
		writer.word((u32(1) << count) - 1);
	writer.word(0);
	return end(writer);
}

Result<u32> encode_optional(MutableBytes room, Xid xid, Credits credits, xdr::Direction direction,
			    xdr::Option option, Bytes optinfo)
{
	if (optinfo.size() > ~u32(0) - optional_length)
		return Error::no_space;
	const u32 length = u32(optinfo.size());

	if (!is_direction(direction) || !plausible(option, length))
		return Error::invalid;
	if (room.size() < optional_length || room.size() - optional_length < length)
		return Error::no_space;
	u8 *at = room.data();
	if (optinfo.data() != at + optional_length)
		__builtin_memmove(at + optional_length, optinfo.data(), length);
	xdr::store_fixed(at, {xid, version, credits, static_cast<u32>(Proc::optional)});
	xdr::store_be32(at + direction_at, direction_word(direction));
	xdr::store_be32(at + option_at, static_cast<u32>(option));
	xdr::store_be32(at + optinfo_length_at, length);
	return optional_length + length;
}

} // namespace rpcordma::v2
