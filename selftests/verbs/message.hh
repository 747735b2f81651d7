// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is said: RPC-over-RDMA headers, right and wrong, RPC calls, NFSv4.0 COMPOUNDs; and what is
 * answered, taken apart. Headers are built and read by the project's own codecs in xdr/; what those
 * refuse to build is written word by word. So is all of version 2, and it is read so, but for the chunk lists.
 */
#pragma once

#include <string>

#include "peer.hh"
#include "xdr/v1.hh"

namespace verbs {

using rpcordma::Credits;
using rpcordma::Position;
using rpcordma::Xid;
using rpcordma::v1::Proc;
using rpcordma::xdr::Kind;
using rpcordma::xdr::ReadSegment;

/** Appends XDR words to octets. */
class Words {
public:
	Words &word(u32 value);
	Words &words(std::initializer_list<u32> values);
	Words &segment(const Segment &segment);
	/** The bytes as they are. */
	Words &octets(const Octets &octets);
	/** An opaque<>: length, bytes, pad. */
	Words &opaque(const Octets &octets);
	Words &opaque(const std::string &string);

	[[nodiscard]] const Octets &get() const
	{
		return octets_;
	}
	[[nodiscard]] u32 size() const
	{
		return u32(octets_.size());
	}

private:
	Octets octets_;
};

/** What is not said here is right: version 1, 32 credits. */
struct Header {
	u32 xid;
	u32 proc = u32(Proc::msg);
	u32 vers = rpcordma::v1::version;
	u32 credits = 32;
	/* What version 2 has before the lists: 0 in a call, 1 in a reply; and the R_key to invalidate. */
	std::optional<u32> direction = {};
	u32 invalidate = 0;
};

/* Of version 2, as this program has it from the draft (version-two-03), by itself. */
constexpr u32 version_2 = 2;
/** rdma_proc of version 2. */
enum Proc2 : u32 {
	two_msg = 0,
	two_nomsg = 1,
	two_error = 4,
	two_optional = 5,
	two_connprop = 6,
	two_reqprop = 7,
	two_resprop = 8,
	two_updprop = 9
};
/** rdma_err of version 2. */
enum Error2 : u32 {
	two_vers = 1,
	two_bad_xdr = 2,
	two_reply_resource = 3,
	two_inval_proc = 4,
	two_inval_option = 5,
	two_system = 6
};
/** rdma_opttype of rtrext-01. */
enum Option2 : u32 { two_xmtreq = 1, two_xmtresp = 2, two_xmtcont = 3, two_repterr = 4 };
/** Its properties: receive size, backward calls, extensions, receive structure, transmissions of calls and replies. */
enum Property2 : u32 {
	two_rbsiz = 1,
	two_brs = 2,
	two_rtrsupp = 3,
	two_rbstruct = 4,
	two_reqrxlim = 5,
	two_respsxlim = 6
};
/** The bytes of a message that every end of version 2 takes. */
constexpr u32 two_least = 4096;

/** Chunk lists to be sent. */
struct Chunks {
	std::vector<ReadSegment> reads;
	std::vector<std::vector<Segment>> writes;
	std::vector<std::vector<Segment>> reply; /* none or one */

	/** Add @segment to the Read chunk at @position. */
	Chunks &read(u32 position, const Segment &segment);
	/** Add a Write chunk; without segments, an empty one. */
	Chunks &write(const std::vector<Segment> &segments);
	Chunks &reply_chunk(const std::vector<Segment> &segments);
};

/** The four words that every message begins with. */
Octets fixed_header(const Header &header);
/** A message: header, lists and @payload, whether or not the three fit each other. */
Octets message(const Header &header, const Chunks &chunks, const Octets &payload = {});

/** Any message of version 2: the four words, and @body. */
Octets message_2(u32 xid, u32 proc, std::initializer_list<u32> body, u32 credits = 32);
/**
 * A CONNPROP with all that an end says that receives @takes bytes and has no extension.
 *
 * @fixed  of the six, those that will not change: bit n is that of the n-th, from 0
 * @transmissions  of a call that it receives, and of a reply that it sends; with more than one all of rtrext-01 is said
 */
Octets properties_2(u32 xid, u32 credits = 32, u32 takes = two_least, u32 fixed = 0x3f,
		    u32 transmissions = 1);

/** The head of an RPC call; arguments are appended to it. By default with AUTH_NONE. */
Words rpc_call(u32 xid, u32 program, u32 version, u32 procedure, bool auth_sys = false);
/** The same of NFSv3, with AUTH_SYS. */
Words nfs3_call(u32 xid, u32 procedure);
/** A whole NULL call of NFSv3. */
Octets null_call(u32 xid);
/** The same in its message. */
Octets null_message(u32 xid);

/** An NFSv4.0 COMPOUND. Begins with PUTROOTFH; stateids are anonymous, so nothing has to be open. */
class Compound {
public:
	explicit Compound(u32 xid);
	Compound &lookup(const std::string &name);
	Compound &getattr();
	/** GETATTR of the most that the server takes in a READ and in a WRITE. */
	Compound &limits();
	Compound &read(u64 offset, u32 count);
	/** A WRITE whose data are inline. */
	Compound &write(u64 offset, const Octets &data);
	/**
	 * A WRITE whose @length bytes of data, and their pad, are left out: a Read chunk at
	 * positions()[n] has them, the n-th such WRITE's.
	 */
	Compound &write_reduced(u64 offset, u32 length);
	/** The current file's handle. */
	Compound &getfh();
	/** A symbolic link; the @length bytes of its text are left out, as those of a WRITE. */
	Compound &symlink_reduced(const std::string &name, u32 length);
	Compound &readlink();

	/** The Payload stream, without what was left out. */
	[[nodiscard]] Octets payload() const;
	/** Where the data belong that were left out, in the unreduced Payload stream. */
	[[nodiscard]] const std::vector<u32> &positions() const
	{
		return positions_;
	}

private:
	Compound &write_head_(u64 offset, u32 length);
	void leave_out_(u32 length);
	Words head_, operations_;
	u32 count_ = 0;
	u32 left_out_ = 0;
	std::vector<u32> positions_;
};

/** A message of the other end's, taken apart; it owns all of its bytes, and can be moved, not copied. */
class Answer {
public:
	explicit Answer(Received &&received);
	Answer(Answer &&) = default;
	Answer &operator=(Answer &&) = default;
	/** Whether it can be decoded; if not, only describe() says something. */
	[[nodiscard]] bool valid() const
	{
		return valid_;
	}
	/** rdma_vers as it came; header() has an error of any version as one of version 1. */
	[[nodiscard]] u32 vers() const
	{
		return vers_;
	}
	/** Of a call of version 2: the R_key that the reply is to invalidate, or 0. */
	[[nodiscard]] u32 invalidate() const
	{
		return invalidate_;
	}
	/** Of a call that came by an XMTREQ: the transmissions that its reply may have; of any other 0. */
	[[nodiscard]] u32 reply_transmissions() const
	{
		return reply_transmissions_;
	}
	/** Of such a call: the result is to come in Sends; it has that one direction. */
	[[nodiscard]] bool asks_to_send() const
	{
		return asks_to_send_;
	}
	/** Lists and payload point into the message, which this object has. Of what version 2 adds, the first four words. */
	[[nodiscard]] const rpcordma::xdr::Message &header() const
	{
		return header_;
	}
	/** All of it; of a call or reply of version 2, as version 1 would have it. */
	[[nodiscard]] const Octets &bytes() const
	{
		return received_.bytes;
	}
	[[nodiscard]] bool invalidated() const
	{
		return received_.invalidated;
	}
	/** The inline part of the Payload stream. */
	[[nodiscard]] Octets payload() const;
	[[nodiscard]] bool is_error(rpcordma::xdr::ErrorCode code) const;
	/** For a report. */
	[[nodiscard]] std::string describe() const;

private:
	[[nodiscard]] bool take_version_1_();
	[[nodiscard]] bool take_version_2_();
	[[nodiscard]] bool take_transfer_2_();
	[[nodiscard]] bool take_error_2_();
	[[nodiscard]] bool take_option_2_();

	Received received_;
	rpcordma::xdr::Message header_;
	u32 vers_ = 0, invalidate_ = 0, reply_transmissions_ = 0;
	bool valid_ = false, asks_to_send_ = false;
};

/** Reads XDR; what ends too early is thrown as a Failure. */
class Reader {
public:
	explicit Reader(const Octets &octets) : octets_(octets)
	{
	}
	/** Nothing but what was read. */
	void end() const;

	u32 word();
	u64 two_words();
	Octets octets(u32 length);
	Octets opaque();
	/** Bytes read so far. */
	[[nodiscard]] u32 at() const
	{
		return u32(at_);
	}

private:
	Octets octets_;
	size_t at_ = 0;
};

/** Reads an RPC reply; whatever is not as it must be is thrown as a Failure. */
class Results : public Reader {
public:
	/**
	 * @payload  the Payload stream, without what came in Write chunks
	 * @xid      what it has to answer
	 */
	Results(const Octets &payload, u32 xid);

	/** Accepted, and executed. */
	void success();
	/** The accept_stat of an accepted reply; 0 is SUCCESS (RFC 5531 9). */
	u32 accept_stat();
	/** The reply_stat: 0 accepted, 1 denied. For the two above, read by them. */
	u32 reply_stat();

	/** A COMPOUND of which @operations were executed, all of them well. */
	void compound(u32 operations);
	/** The next operation is @number, and went well. */
	void operation(u32 number);
	/** The result of READ: returns the length of the data, which come next if they are inline. */
	u32 read(bool &eof);
};

/** Numbers of NFSv4.0's operations (RFC 7530 16). */
enum Operation : u32 {
	op_create = 6,
	op_getattr = 9,
	op_getfh = 10,
	op_lookup = 15,
	op_putrootfh = 24,
	op_read = 25,
	op_readlink = 27,
	op_write = 38
};

/** @length bytes that differ from place to place, and with @seed. */
Octets pattern(size_t length, u32 seed);

} // namespace verbs
