// SPDX-License-Identifier: GPL-2.0-only
/* See message.hh. */
#include "message.hh"

#include <cstring>

namespace verbs {

using rpcordma::MutableBytes;
using rpcordma::xdr_pad;
using rpcordma::xdr::ErrorCode;

Words &Words::word(u32 value)
{
	octets_.resize(octets_.size() + 4);
	rpcordma::xdr::store_be32(&octets_[octets_.size() - 4], value);
	return *this;
}

Words &Words::words(std::initializer_list<u32> values)
{
	for (u32 value : values)
		word(value);
	return *this;
}

Words &Words::segment(const Segment &segment)
{
	return words({segment.handle.get(), segment.length, u32(segment.offset >> 32),
		      u32(segment.offset)});
}

Words &Words::octets(const Octets &octets)
{
	octets_.insert(octets_.end(), octets.begin(), octets.end());
	return *this;
}

Words &Words::opaque(const Octets &octets)
{
	word(u32(octets.size())).octets(octets);
	octets_.resize(octets_.size() + xdr_pad(u32(octets.size())));
	return *this;
}

Words &Words::opaque(const std::string &string)
{
	return opaque(Octets(string.begin(), string.end()));
}

Chunks &Chunks::read(u32 position, const Segment &segment)
{
	reads.push_back({Position(position), segment});
	return *this;
}

Chunks &Chunks::write(const std::vector<Segment> &segments)
{
	writes.push_back(segments);
	return *this;
}

Chunks &Chunks::reply_chunk(const std::vector<Segment> &segments)
{
	reply.push_back(segments);
	return *this;
}

namespace {

/* The project's encoder of the lists, without its judgement of what a proc may carry. */
class Lists : public rpcordma::xdr::ListEncoder {
public:
	Lists(MutableBytes room, const Chunks &chunks) : ListEncoder(room)
	{
		for (const ReadSegment &read : chunks.reads)
			read_segment(read.position, read.target);
		for (const auto &chunk : chunks.writes)
			write_chunk({chunk.data(), chunk.size()});
		for (const auto &chunk : chunks.reply)
			reply_chunk({chunk.data(), chunk.size()});
		end_lists_();
		if (error() != rpcordma::Error::none)
			throw Failure{"these chunk lists cannot be encoded"};
	}
	[[nodiscard]] u32 length() const
	{
		return writer_.length();
	}
};

} // namespace

Octets fixed_header(const Header &header)
{
	return Words().words({header.xid, header.vers, header.credits, header.proc}).get();
}

Octets message(const Header &header, const Chunks &chunks, const Octets &payload)
{
	Octets room(65536);
	room.resize(Lists({room.data(), room.size()}, chunks).length());
	Words all;
	all.octets(fixed_header(header));
	if (header.direction)
		all.words({*header.direction, header.invalidate});
	return all.octets(room).octets(payload).get();
}

Octets message_2(u32 xid, u32 proc, std::initializer_list<u32> body, u32 credits)
{
	return Words().words({xid, version_2, credits, proc}).words(body).get();
}

Octets properties_2(u32 xid, u32 credits, u32 takes, u32 fixed, u32 transmissions)
{
	/* INLINE; a structure of one group, aligned to 8. */
	const u32 extensions = transmissions > 1 ? 7 : 0;
	return message_2(xid, two_connprop, {6,
					     two_rbsiz,
					     4,
					     takes,
					     two_brs,
					     4,
					     1,
					     two_rtrsupp,
					     4,
					     extensions,
					     two_rbstruct,
					     24,
					     takes,
					     1,
					     1,
					     takes,
					     8,
					     0,
					     two_reqrxlim,
					     4,
					     transmissions,
					     two_respsxlim,
					     4,
					     transmissions,
					     1,
					     fixed},
			 credits);
}

Words rpc_call(u32 xid, u32 program, u32 version, u32 procedure, bool auth_sys)
{
	Words call;

	call.words({xid, 0, 2, program, version, procedure});
	if (auth_sys) /* stamp, machine name, uid, gid, no further groups */
		call.word(1).opaque(Words().word(0).opaque("verbs").words({0, 0, 0}).get());
	else
		call.words({0, 0});
	return call.words({0, 0});
}

Octets null_call(u32 xid)
{
	return rpc_call(xid, 100003, 3, 0).get();
}

Words nfs3_call(u32 xid, u32 procedure)
{
	return rpc_call(xid, 100003, 3, procedure, true);
}

Octets null_message(u32 xid)
{
	return message({xid}, {}, null_call(xid));
}

Compound::Compound(u32 xid) : head_(rpc_call(xid, 100003, 4, 1, true))
{
	head_.words({0, 0}); /* no tag, minor version 0 */
	operations_.word(op_putrootfh);
	count_ = 1;
}

Compound &Compound::lookup(const std::string &name)
{
	operations_.word(op_lookup).opaque(name);
	count_++;
	return *this;
}

Compound &Compound::getattr()
{
	operations_.words({op_getattr, 1, 1 << 4}); /* the size */
	count_++;
	return *this;
}

Compound &Compound::limits()
{
	operations_.words({op_getattr, 1, 3u << 30}); /* maxread, maxwrite */
	count_++;
	return *this;
}

Compound &Compound::read(u64 offset, u32 count)
{
	operations_.words({op_read, 0, 0, 0, 0, u32(offset >> 32), u32(offset), count});
	count_++;
	return *this;
}

Compound &Compound::write_head_(u64 offset, u32 length)
{
	/* FILE_SYNC, so that no COMMIT is owed. */
	operations_.words({op_write, 0, 0, 0, 0, u32(offset >> 32), u32(offset), 2, length});
	count_++;
	return *this;
}

Compound &Compound::write(u64 offset, const Octets &data)
{
	write_head_(offset, u32(data.size()));
	operations_.octets(data).octets(Octets(xdr_pad(u32(data.size()))));
	return *this;
}

void Compound::leave_out_(u32 length)
{
	/* The number of operations stands before them. */
	positions_.push_back(head_.size() + 4 + operations_.size() + left_out_);
	left_out_ += length + xdr_pad(length);
}

Compound &Compound::write_reduced(u64 offset, u32 length)
{
	write_head_(offset, length);
	leave_out_(length);
	return *this;
}

Compound &Compound::getfh()
{
	operations_.word(op_getfh);
	count_++;
	return *this;
}

Compound &Compound::symlink_reduced(const std::string &name, u32 length)
{
	operations_.words({op_create, 5 /* NF4LNK */, length});
	leave_out_(length);
	/* No attributes. */
	operations_.opaque(name).words({0, 0});
	count_++;
	return *this;
}

Compound &Compound::readlink()
{
	operations_.word(op_readlink);
	count_++;
	return *this;
}

Octets Compound::payload() const
{
	return Words(head_).word(count_).octets(operations_.get()).get();
}

Answer::Answer(Received &&received) : received_(std::move(received))
{
	auto fixed = rpcordma::xdr::peek({received_.bytes.data(), received_.bytes.size()});
	if (!fixed.ok())
		return;
	vers_ = fixed.value().vers;
	if (vers_ == version_2) {
		valid_ = take_version_2_();
	} else {
		/* An ERR_VERS echoes the version that it refuses, of which the decoder wants to know nothing. */
		if (fixed.value().proc == rpcordma::xdr::proc_error)
			rpcordma::xdr::store_be32(&received_.bytes[4], rpcordma::v1::version);
		valid_ = take_version_1_();
	}
	if (!valid_)
		header_ = {};
}

bool Answer::take_version_1_()
{
	return rpcordma::v1::decode({received_.bytes.data(), received_.bytes.size()}, header_) ==
	       rpcordma::Error::none;
}

/* The four words are there. What properties say is for whom they are sent to. */
bool Answer::take_version_2_()
{
	auto word = [&](u32 index) { return rpcordma::xdr::load_be32(&received_.bytes[4 * index]); };
	const u32 proc = word(3);

	if (proc == two_msg || proc == two_nomsg)
		return take_transfer_2_();
	header_.xid = rpcordma::Xid(word(0));
	header_.version = version_2;
	header_.credits = rpcordma::Credits(word(2));
	header_.kind = Kind(proc);
	header_.direction = proc == two_error || proc == two_resprop ?
				    rpcordma::xdr::Direction::reply :
				    rpcordma::xdr::Direction::call;
	if (proc == two_error)
		return take_error_2_();
	if (proc == two_optional)
		return take_option_2_();
	return proc >= two_connprop && proc <= two_updprop;
}

/* Without direction and R_key it is of version 1. */
bool Answer::take_transfer_2_()
{
	Octets &bytes = received_.bytes;

	if (bytes.size() < 36)
		return false;
	const u32 direction = rpcordma::xdr::load_be32(&bytes[16]);
	invalidate_ = rpcordma::xdr::load_be32(&bytes[20]);
	bytes.erase(bytes.begin() + 16, bytes.begin() + 24);
	rpcordma::xdr::store_be32(&bytes[4], rpcordma::v1::version);
	/* In a reply the R_key is 0. */
	return take_version_1_() && u32(header_.direction) == direction &&
	       (direction == 0 || !invalidate_);
}

/*
 * An XMTREQ of one transmission, without items, and with one direction to send at most, is an RDMA_MSG without chunks of version
 * 1. Of a REPTERR only the direction is looked at here.
 */
bool Answer::take_option_2_()
{
	Octets &bytes = received_.bytes;
	auto word = [&](u32 index) { return rpcordma::xdr::load_be32(&bytes[4 * index]); };

	if (bytes.size() < 48 || word(4) != 0)
		return false;
	if (word(5) == two_repterr)
		return word(6) + 28 == bytes.size();
	const u32 length = word(6), header = 28 + length;
	if (word(5) != two_xmtreq || word(7) || bytes.size() < header)
		return false;
	/* A set of any range with one item, which is TBSN. */
	asks_to_send_ = length == 40 && word(8) == 1 && word(9) == 0 && word(10) == ~0u &&
			word(11) == 1 && word(13) == 2;
	const u32 count = asks_to_send_ ? 14 : 9;
	if ((!asks_to_send_ && (length != 20 || word(8))) || word(count) != 1 ||
	    word(count + 2) != bytes.size() - header)
		return false;
	reply_transmissions_ = std::max(1u, word(count + 1));
	Octets plain = Words().words({word(0), rpcordma::v1::version, word(2), 0, 0, 0, 0}).get();
	plain.insert(plain.end(), bytes.begin() + header, bytes.end());
	bytes = plain;
	return take_version_1_();
}

/* No shorter than its code has it, and no longer. */
bool Answer::take_error_2_()
{
	const Octets &bytes = received_.bytes;

	if (bytes.size() < 20)
		return false;
	const u32 code = rpcordma::xdr::load_be32(&bytes[16]);
	const bool two_words = code == two_vers || code == two_reply_resource;
	if (code < two_vers || code > two_system || bytes.size() != (two_words ? 28 : 20))
		return false;
	header_.error.code = ErrorCode(code - two_vers);
	if (two_words) {
		header_.error.low = rpcordma::xdr::load_be32(&bytes[20]);
		header_.error.high = rpcordma::xdr::load_be32(&bytes[24]);
	}
	return true;
}

Octets Answer::payload() const
{
	return Octets(header_.payload.begin(), header_.payload.end());
}

bool Answer::is_error(ErrorCode code) const
{
	return valid_ && header_.kind == Kind::error && header_.error.code == code;
}

std::string Answer::describe() const
{
	if (!valid_)
		return text("%zu bytes that cannot be decoded", received_.bytes.size());
	u32 xid = header_.xid.get();
	if (is_error(ErrorCode::version))
		return text("ERR_VERS %u..%u to xid %u", header_.error.low, header_.error.high, xid);
	if (is_error(ErrorCode::chunk))
		return text("ERR_CHUNK to xid %u", xid);
	if (header_.kind != Kind::msg && header_.kind != Kind::nomsg)
		return text("rdma_proc %u of version 2, %zu bytes, to xid %u", u32(header_.kind),
			    received_.bytes.size(), xid);
	return text("an %s of %zu bytes to xid %u",
		    header_.kind == Kind::msg ? "RDMA_MSG" : "RDMA_NOMSG", received_.bytes.size(),
		    xid);
}

u32 Reader::word()
{
	if (octets_.size() - at_ < 4)
		throw Failure{text("the message ends after %zu bytes, too early", octets_.size())};
	at_ += 4;
	return rpcordma::xdr::load_be32(&octets_[at_ - 4]);
}

u64 Reader::two_words()
{
	u64 high = word();

	return high << 32 | word();
}

Octets Reader::octets(u32 length)
{
	if (octets_.size() - at_ < length)
		throw Failure{text("the message ends after %zu bytes, too early", octets_.size())};
	auto from = octets_.begin() + at_;
	at_ += length;
	return Octets(from, from + length);
}

Octets Reader::opaque()
{
	u32 length = word();
	Octets data = octets(length);

	octets(xdr_pad(length));
	return data;
}

void Reader::end() const
{
	if (at_ != octets_.size())
		throw Failure{text("%zu bytes behind the end of the message", octets_.size() - at_)};
}

Results::Results(const Octets &payload, u32 xid) : Reader(payload)
{
	u32 got = word();
	if (got != xid)
		throw Failure{text("the reply has xid %u, expected %u", got, xid)};
	got = word();
	if (got != 1)
		throw Failure{text("the reply has msg_type %u", got)};
}

u32 Results::reply_stat()
{
	return word();
}

u32 Results::accept_stat()
{
	if (reply_stat())
		throw Failure{"the call was denied"};
	word(); /* the verifier */
	opaque();
	return word();
}

void Results::success()
{
	if (u32 status = accept_stat())
		throw Failure{text("the call was accepted with accept_stat %u", status)};
}

void Results::compound(u32 operations)
{
	success();
	u32 status = word();
	opaque();
	u32 done = word();
	if (status || done != operations)
		throw Failure{text("the COMPOUND has status %u after %u of %u operations", status,
				   done, operations)};
}

void Results::operation(u32 number)
{
	u32 got = word(), status = word();

	if (got != number || status)
		throw Failure{text("operation %u with status %u, expected %u", got, status, number)};
}

u32 Results::read(bool &eof)
{
	operation(op_read);
	eof = word();
	return word();
}

Octets pattern(size_t length, u32 seed)
{
	Octets bytes(length);
	u32 state = seed * 2654435761u + 1;

	for (u8 &byte : bytes) {
		state = state * 1664525 + 1013904223;
		byte = u8(state >> 24);
	}
	return bytes;
}

} // namespace verbs
