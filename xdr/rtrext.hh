// SPDX-License-Identifier: GPL-2.0-only
/*
 * Round-trip reduction (draft-dnoveck-nfsv4-rpcrdma-rtrext-01): what is in rdma_optinfo of the four OPTIONALs that it
 * adds to version 2. v2::decode() finds it whole and of a known type; here it is read, and written. Where the draft's text
 * and its XDR contradict each other, Documentation/conformance.rst says what holds.
 *
 *	XMTREQ   items, sets of directions, transmissions, Receives for the reply, length of the stream
 *	XMTRESP  items, transmissions, length of the stream
 *	XMTCONT  number, the lead's type, length of the stream
 *	REPTERR  the bad transmission, the lead of its group, what was wrong
 *
 * An item is a piece of the message that is not in its Payload stream: the peer fetches or has written it by RDMA, or it
 * lies in DDP segments of the Receives that the message came in. A direction tells the responder where an item of
 * the reply may go.
 *
 * Views are as those of lists.hh: they point into the message, and stay within the bytes that were decoded even if
 * these have changed.
 */
#pragma once

#include "xdr/v2.hh"

namespace rpcordma::rtrext {

/** xmddp_type: where an item is, or may go. */
enum class Type : u32 {
	segments = 1,  /* EXRW: in RDMA segments of the requester */
	sent = 2,      /* TBSN: in DDP segments of the Receives */
	either = 3,    /* CHOOSE: the one or the other, as the responder likes */
	by_size = 4,   /* BYSIZE: sent up to a length, beyond that in RDMA segments */
	too_short = 5, /* TOOSHORT: inline, as it was too short for its direction */
	none = 6,      /* NOITEM: there is none for its direction */
};

/** Items that we take in one message, and directions. A call with more is answered SYSTEM. */
constexpr u32 most_items = 16;
/** RDMA segments of a call's items, and of its directions: more than fit a header of 4 KiB. With more it is answered SYSTEM. */
constexpr u32 most_segments = 256;

/** Numbers of DDP segments, in the order in which an item runs through them (xmdl_bsnum). */
class Numbers {
public:
	Numbers() = default;
	/** @first: the first of @count words, all of which lie within the message. */
	Numbers(const u8 *first, u32 count) : first_(first), count_(count)
	{
	}
	[[nodiscard]] u32 count() const
	{
		return count_;
	}
	/** Unchecked: @i < count() is the caller's promise. */
	[[nodiscard]] u32 operator[](u32 i) const
	{
		return xdr::load_be32(first_ + usize(i) * xdr::word_size);
	}

private:
	const u8 *first_ = nullptr;
	u32 count_ = 0;
};

/** xmddp_mitem. */
struct Item {
	/* Where it belongs in the whole message, from the RPC header's first byte, bytes; other items and pads count. */
	u32 displacement = 0;
	u32 length = 0; /* bytes, without its pad */
	Type type = Type::none;
	/* Type::sent: where it begins in the first of its DDP segments. */
	u32 offset = 0;
	Numbers numbers;
	xdr::WriteChunk segments; /* Type::segments */

	/** It is elsewhere, and not in the Payload stream. */
	[[nodiscard]] bool placed() const
	{
		return type == Type::segments || type == Type::sent;
	}
	/** Bytes of the message that are not in the stream: the pad goes with the item. */
	[[nodiscard]] u64 padded() const
	{
		return u64(length) + xdr_pad(length);
	}
};

/** xmddp_rsditem. */
struct Place {
	u32 least = 0; /* shorter items stay inline, bytes */
	Type type = Type::sent;
	u32 most_sent = 0;	  /* Type::by_size: longer items go into the segments, bytes */
	xdr::WriteChunk segments; /* none of Type::sent */
};

/** The items of a message, in the order of the wire. Empty by default. */
class Items {
public:
	class Iterator {
	public:
		Iterator(Bytes bytes, u32 left) : reader_(bytes), left_(left)
		{
			load_();
		}
		[[nodiscard]] const Item &operator*() const
		{
			return item_;
		}
		Iterator &operator++()
		{
			left_--;
			load_();
			return *this;
		}
		[[nodiscard]] bool operator!=(const Iterator &other) const
		{
			return left_ != other.left_;
		}

	private:
		void load_();
		xdr::Reader reader_; /* behind item_ */
		u32 left_;
		Item item_;
	};

	Items() = default;
	/** @bytes: those of @count items, which were decoded. */
	Items(Bytes bytes, u32 count) : bytes_(bytes), count_(count)
	{
	}
	[[nodiscard]] u32 count() const
	{
		return count_;
	}
	[[nodiscard]] Iterator begin() const
	{
		return {bytes_, count_};
	}
	[[nodiscard]] Iterator end() const
	{
		return {{}, 0};
	}

private:
	Bytes bytes_;
	u32 count_ = 0;
};

/** The directions of a set, in the order of the wire. */
class Places {
public:
	class Iterator {
	public:
		Iterator(Bytes bytes, u32 left) : reader_(bytes), left_(left)
		{
			load_();
		}
		[[nodiscard]] const Place &operator*() const
		{
			return place_;
		}
		Iterator &operator++()
		{
			left_--;
			load_();
			return *this;
		}
		[[nodiscard]] bool operator!=(const Iterator &other) const
		{
			return left_ != other.left_;
		}

	private:
		void load_();
		xdr::Reader reader_;
		u32 left_;
		Place place_;
	};

	Places() = default;
	Places(Bytes bytes, u32 count) : bytes_(bytes), count_(count)
	{
	}
	[[nodiscard]] u32 count() const
	{
		return count_;
	}
	[[nodiscard]] Iterator begin() const
	{
		return {bytes_, count_};
	}
	[[nodiscard]] Iterator end() const
	{
		return {{}, 0};
	}

private:
	Bytes bytes_;
	u32 count_ = 0;
};

/** xmddp_rsdset: the directions for what a part of the call has for results. */
struct Set {
	/* Where that part is in the call, as Item::displacement. Neither text says whether the end is a part of it. */
	u32 begin = 0;
	u32 end = 0;
	Places places;
};

/** The sets of directions of a call, in ascending order. */
class Sets {
public:
	class Iterator {
	public:
		Iterator(Bytes bytes, u32 left) : reader_(bytes), left_(left)
		{
			load_();
		}
		[[nodiscard]] const Set &operator*() const
		{
			return set_;
		}
		Iterator &operator++()
		{
			left_--;
			load_();
			return *this;
		}
		[[nodiscard]] bool operator!=(const Iterator &other) const
		{
			return left_ != other.left_;
		}

	private:
		void load_();
		xdr::Reader reader_;
		u32 left_;
		Set set_;
	};

	Sets() = default;
	/** @bytes: those of @count sets, which were decoded, and have @places directions. */
	Sets(Bytes bytes, u32 count, u32 places) : bytes_(bytes), count_(count), places_(places)
	{
	}
	[[nodiscard]] u32 count() const
	{
		return count_;
	}
	/** Directions of all sets together: as many items the reply has. */
	[[nodiscard]] u32 places() const
	{
		return places_;
	}
	[[nodiscard]] Iterator begin() const
	{
		return {bytes_, count_};
	}
	[[nodiscard]] Iterator end() const
	{
		return {{}, 0};
	}

private:
	Bytes bytes_;
	u32 count_ = 0;
	u32 places_ = 0;
};

/** optxmt_req. */
struct Request {
	Items items;
	Sets sets;
	u32 transmissions = 1; /* of the call, not 0 */
	/* Transmissions that the reply may have, the first included; 0: as 1. */
	u32 reply_transmissions = 0;
	u32 stream_length = 0; /* bytes of the stream in this transmission */
};

/** optxmt_resp. */
struct Response {
	Items items;
	u32 transmissions = 1; /* of the reply, not 0 */
	u32 stream_length = 0; /* bytes of the stream in this transmission */
};

/** optxmt_cont. */
struct Continuation {
	u32 number = 0;	       /* which transmission of the message this is; the lead is 0 */
	u32 lead = 0;	       /* rdma_opttype of the lead; any number */
	u32 stream_length = 0; /* bytes of the stream in this transmission */
};

/** optr_err: what is wrong with a transmission. */
enum class Fault : u8 {
	none = 0,
	header = 1,   /* BADHMT: another proc than has to follow */
	option = 2,   /* BADOMT: another opttype than has to follow */
	alone = 3,    /* BADCONT: an XMTCONT, and no group is open */
	sequence = 4, /* BADSEQ: another number than has to follow */
	xid = 5,      /* BADXID: another xid than has to follow */
	offset = 6,   /* BADOFF: an item begins behind its segment, or where another one is */
	segment = 7,  /* BADTBSN: there is no such DDP segment, or nothing came into it */
	stream = 8,   /* BADPL: the stream has no such length */
};

/** What is wrong with a transmission, and how: optr_info. */
struct Detail {
	Fault fault = Fault::none;
	/*
	 * Up to Fault::xid, but of Fault::alone, what was expected, and what came. Behind that the value, the least and the most
	 * that it may be; if it is not beyond these, it is no multiple of four, or meets something else.
	 */
	u32 words[3] = {};

	[[nodiscard]] static constexpr Detail differs(Fault fault, u32 expected, u32 current)
	{
		return {fault, {expected, current, 0}};
	}
	[[nodiscard]] static constexpr Detail beyond(Fault fault, u32 value, u32 most)
	{
		return {fault, {value, 0, most}};
	}
	/** Words that are told. */
	[[nodiscard]] constexpr u32 count() const
	{
		return fault == Fault::alone ? 0 : fault < Fault::offset ? 2 : 3;
	}
};

/** xms_id: a transmission. */
struct Id {
	Xid xid;
	xdr::Direction direction = xdr::Direction::call; /* Direction::call or Direction::reply */
	u32 number = 0;					 /* within its message, from 0 */
};

/** optrept_err. */
struct Report {
	Id bad;
	bool has_lead = false;
	Id lead; /* if has_lead: of the group that was open */
	Detail detail;

	/** The first transmission of what is reported: of the group that was open, or the bad one. A REPTERR goes against it. */
	[[nodiscard]] constexpr const Id &about() const
	{
		return has_lead ? lead : bad;
	}
};

/** The longest REPTERR. */
constexpr u32 most_report_length = 72;
/** An XMTCONT's header. */
constexpr u32 continuation_length = 40;
/** An XMTREQ without items and directions, and an XMTRESP without items. */
constexpr u32 least_request_length = 48;
constexpr u32 least_response_length = 40;

/** Bytes of a stream, which has whole words, that go behind a header of @header in a transmission of @bytes. */
[[nodiscard]] constexpr u32 stream_room(u32 bytes, u32 header)
{
	return (bytes - header) & ~u32(xdr::word_size - 1);
}

/** Bytes of a call that has nothing placed in its transmission @number of @bytes, unless it is the last one. */
[[nodiscard]] constexpr u32 request_room(u32 bytes, u32 number)
{
	return stream_room(bytes, number ? continuation_length : least_request_length);
}
/** In how many transmissions of @bytes each, such a call of @length goes. */
[[nodiscard]] constexpr u64 request_transmissions(u64 length, u32 bytes)
{
	return 1 + div_round_up<u64>(length - min<u64>(length, request_room(bytes, 0)),
				     request_room(bytes, 1));
}

static_assert(least_response_length == continuation_length);
/**
 * In how many transmissions of @bytes each, a reply of @length comes that has nothing placed: XMTRESP and XMTCONT have one
 * length then.
 */
[[nodiscard]] constexpr u64 response_transmissions(u64 length, u32 bytes)
{
	return div_round_up<u64>(length + xdr_pad(u32(length)),
				 stream_room(bytes, continuation_length));
}

/** What an item adds that is in no segments, */
constexpr u32 unplaced_item_length = 12;
/** and one that is sent, besides a word for each of its DDP segments. */
constexpr u32 sent_item_length = 20;
/** Segments of @offered, up to the last one that @length bytes, no more than these have, go into; those without bytes not. */
[[nodiscard]] u32 filled_segments(const xdr::WriteChunk &offered, u32 length);
/** What a set adds, and each direction to send. */
constexpr u32 set_length = 12;
constexpr u32 send_place_length = 8;

/**
 * Read rdma_optinfo.
 *
 * @optinfo  xdr::Message::body() of an OPTIONAL of that type
 *
 * Established beside the layout: there is nothing behind it; the types of items and directions are those that the
 * draft's Table 1 allows in that place; displacements of what is placed are multiples of four and ascend, and none lies
 * within the item before or its pad; the RDMA segments of an item of a call have as many bytes as it has, or its pad too;
 * a set does not begin before the one before it ends, nor ends before it begins; a message has a transmission at least.
 *
 * A reply's RDMA segments are not measured against their items: we offer none, so that a reply with some contradicts its
 * call.
 *
 * Errors: EPROTO, not decodable: a call is answered BAD_XDR, a reply is dropped. What was to be filled means nothing.
 */
[[nodiscard]] Error decode(Bytes optinfo, Request &request);
[[nodiscard]] Error decode(Bytes optinfo, Response &response);
[[nodiscard]] Error decode(Bytes optinfo, Continuation &continuation);
[[nodiscard]] Error decode(Bytes optinfo, Report &report);

/** What is to be done about a transmission. */
struct Verdict {
	/* Nothing is wrong; or what an ERROR says; or what a REPTERR says. */
	enum class How : u8 { good, error, report } how = How::good;
	xdr::ErrorCode code = xdr::ErrorCode::chunk;
	Detail detail;

	[[nodiscard]] constexpr bool good() const
	{
		return how == How::good;
	}
	[[nodiscard]] static constexpr Verdict refuse(xdr::ErrorCode code)
	{
		return {How::error, code, {}};
	}
	[[nodiscard]] static constexpr Verdict report(const Detail &detail)
	{
		return {How::report, {}, detail};
	}
};

/**
 * Judge the first transmission of a message by itself, and what of the whole message can be seen in it. In this order:
 *
 *	the stream is no RPC message, or not that of the header		BAD_XDR
 *	an item belongs into the RPC header, or that is cut short	BAD_XDR
 *	more transmissions than are taken				BAD_XDR
 *	the stream has no such length					REPTERR, BADPL
 *	more items, directions or RDMA segments than are taken		SYSTEM
 *	it is all there, and ends before an item that is placed		REPTERR, BADPL
 *
 * Of a call whose RPC header is not all in this transmission, items are not held against it.
 *
 * @message    the OPTIONAL, as v2::decode() left it; its payload are the first bytes behind the header
 * @behind     bytes that came behind the header
 * @most       transmissions of a message that this end takes
 *
 * A reply is judged alike, but nobody is answered: its error ends the RPC. Of its transmissions there is no limit here,
 * nor of RDMA segments: the call has it.
 */
[[nodiscard]] Verdict judge(const xdr::Message &message, const Request &request, u32 behind,
			    u32 most);
[[nodiscard]] Verdict judge(const xdr::Message &message, const Response &response, u32 behind);
/** Judge the stream of a transmission: BADPL, if it has no such length; @behind as above. */
[[nodiscard]] Verdict judge_stream(u32 stream_length, u32 behind);
/**
 * Judge the items of a message that is whole: BADPL, if its stream of @stream_length bytes ends before the place of one
 * that is placed. The least that is told is what it lacks.
 */
[[nodiscard]] Verdict judge_whole(const Items &items, u64 stream_length);

/**
 * Builds an XMTREQ or XMTRESP in place, up to where its stream begins:
 *
 *	Encoder encoder(room, xid, credits, xdr::Option::xmtreq);
 *	encoder.sent(displacement, length, 0, numbers);	// items, in the order of their displacements
 *	encoder.set(0, ~0u);				// of an XMTREQ: a set, and its directions
 *	encoder.place_sent(0);
 *	u32 length = TRY(encoder.finish(1, 4, stream_length));	// the one check
 */
class Encoder {
public:
	/**
	 * @room    where the message goes, from its first byte; outlives the encoder. Nothing outside it is touched; after an
	 *          error its content is unspecified
	 * @option  xmtreq, which is a call, or xmtresp, a reply; else EINVAL
	 */
	Encoder(MutableBytes room, Xid xid, Credits credits, xdr::Option option);

	/** Append an item in RDMA segments. */
	void segments(u32 displacement, u32 length, Span<const xdr::Segment> segments);
	/**
	 * As that, of an item of a reply that was written into @offered, in their order: with those that it filled, and of the last
	 * one so much as it did. EINVAL: they are shorter than it.
	 */
	void written(u32 displacement, u32 length, const xdr::WriteChunk &offered);
	/** Append an item in DDP segments. */
	void sent(u32 displacement, u32 length, u32 offset, Span<const u32> numbers);
	/** Append a result that is not placed: Type::too_short or Type::none. */
	void unplaced(u32 displacement, u32 length, Type type);

	/** Begin a set of directions; items are over. */
	void set(u32 begin, u32 end);
	/** Append a direction to the set begun last: to send; or any other, with segments. */
	void place_sent(u32 least);
	void place(u32 least, Type type, Span<const xdr::Segment> segments, u32 most_sent = 0);

	/**
	 * End the header; call it once, last.
	 *
	 * @reply_transmissions  of an XMTREQ; else ignored
	 *
	 * Returns its length, the offset of the stream. Errors: ENOSPC, @room is too small; EINVAL, a call out of order, or
	 * what decode() refuses.
	 */
	[[nodiscard]] Result<u32> finish(u32 transmissions, u32 reply_transmissions,
					 u32 stream_length);

private:
	void begin_item_(u32 displacement, u32 length, Type type);
	void put_(Span<const xdr::Segment> segments);
	/** A count, whose word is written when it is known. */
	struct Count {
		u8 *at = nullptr;
		u32 value = 0;
	};
	[[nodiscard]] Count begin_count_();
	static void grow_(Count &count);

	MutableBytes room_;
	xdr::Writer writer_; /* of optinfo */
	Xid xid_;
	Credits credits_;
	xdr::Option option_;
	bool in_sets_ = false; /* items are over */
	Count items_, sets_, places_;
};

/** Build an XMTCONT, up to where its stream begins. Returns its length, continuation_length. Errors: ENOSPC; EINVAL. */
[[nodiscard]] Result<u32> encode(MutableBytes room, Xid xid, Credits credits,
				 xdr::Direction direction, const Continuation &continuation);

/**
 * Build a REPTERR. It has the xid of the bad transmission, and goes the other way than the message that is reported: the
 * group's, if there is a lead. REPLY about a call, CALL about a reply.
 *
 * Returns its length, most_report_length at most. Errors: ENOSPC; EINVAL, no fault, or
 * a direction that is none.
 */
[[nodiscard]] Result<u32> encode(MutableBytes room, Credits credits, const Report &report);

} // namespace rpcordma::rtrext
