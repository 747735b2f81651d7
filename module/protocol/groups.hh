// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages of several transmissions ("groups", rtrext-01): how the receiver finds them again, and what an ERROR for one leaves. A
 * group is a lead, an XMTREQ or XMTRESP that tells how many there are, and XMTCONTs, which follow it with nothing of that
 * direction in between.
 *
 * Pure. module/rdma/group_assembly.hh has the receiver's with the Receives. What groups cost is taken in
 * module/client/group.cc: credits of sunrpc's window (rpcordma_xprt_take_credits()), and Receives that are reserved for the reply.
 */
#pragma once

#include "module/base/types.hh"
#include "xdr/rtrext.hh"

namespace rpcordma::protocol {

/** What a requester does about an ERROR that answers a call of its own. */
enum class AfterError : u8 {
	fail, /* the call fails, and what it took is free */
	/*
	 * It fails, and the connection ends: transmissions of it may be under way still, so that its credits are not free. The
	 * next connection has them back.
	 */
	close,
	/* The connection ends, and the call is sent over the next one, by chunks: the peer does not take what it announced. */
	resend,
};

/**
 * @code      what the ERROR says
 * @item      the call had an item in DDP segments, or asked for one
 * @credits   that it has beyond the first: as many transmissions
 * @receives  that it has for a reply of several
 */
[[nodiscard]] constexpr AfterError after_error(xdr::ErrorCode code, bool item, u32 credits,
					       u32 receives)
{
	using xdr::ErrorCode;

	/* Whose reply is too long had a call that came whole. */
	if (code == ErrorCode::reply_resource)
		return AfterError::fail;
	/* Or what a server says that looks at no items, though it has segments for them; or at no directions. */
	if (code == ErrorCode::option ||
	    (item && (code == ErrorCode::system || code == ErrorCode::chunk)))
		return item || credits || receives ? AfterError::resend : AfterError::fail;
	return credits ? AfterError::close : AfterError::fail;
}

/** A transmission, as far as it matters to which message it belongs. */
struct Transmission {
	xdr::Kind kind = xdr::Kind::msg;
	xdr::Option option = xdr::Option::none;
	Xid xid;
	u32 count = 1;	/* of XMTREQ and XMTRESP: transmissions of the message */
	u32 number = 0; /* of XMTCONT: which, from 1 */
	xdr::Option of = xdr::Option::none;		    /* of XMTCONT: what the lead is */
	xdr::Direction direction = xdr::Direction::unknown; /* an xid is one of its direction */
};

/** Finds the messages in the transmissions of one direction of a connection. */
class Collector {
public:
	/** What a transmission is. */
	enum class What : u8 {
		message, /* a message by itself; it may be wrong with that, see refuse() */
		part,	 /* to be kept until the group is whole */
		last,	 /* the group's last: it is whole with it */
		nothing, /* of no use */
	};
	/** What the peer is to be told in a REPTERR, of which there is one for a group: none of those behind xid. */
	using Fault = rtrext::Fault;
	struct Step {
		What what = What::message;
		Fault fault = Fault::none;
		/* The group that was open is over; the parts that were kept are of no use. */
		bool dropped = false;
	};

	/** The next transmission. */
	[[nodiscard]] constexpr Step take(const Transmission &t)
	{
		const bool optional = t.kind == xdr::Kind::optional;
		const bool continues = optional && t.option == xdr::Option::xmtcont;
		Step step;

		if (state_ == State::skip && continues && is_of_(t))
			return {What::nothing, Fault::none, false};
		if (state_ == State::collect) {
			if (continues)
				return continue_(t);
			step.dropped = true;
			step.fault = optional ? Fault::option : Fault::header;
		}
		state_ = State::idle;
		if (continues)
			return {What::nothing, Fault::alone, false};
		xid_ = t.xid;
		direction_ = t.direction;
		if (optional && t.count > 1 &&
		    (t.option == xdr::Option::xmtreq || t.option == xdr::Option::xmtresp)) {
			state_ = State::collect;
			lead_ = t.option;
			left_ = t.count - 1;
			next_ = 1;
			step.what = What::part;
		}
		return step;
	}
	/** The last transmission is refused, with all of its group: what follows of that gets no answer of its own. */
	constexpr void refuse()
	{
		if (state_ == State::collect)
			state_ = State::skip;
	}
	/** One is open, or what follows of one that was broken off is passed over. */
	[[nodiscard]] constexpr bool amid() const
	{
		return state_ != State::idle;
	}
	/** A group has begun, and is not over. */
	[[nodiscard]] constexpr bool open() const
	{
		return state_ == State::collect;
	}
	/** Of the group that is open, or was broken off by the last XMTCONT: its xid, its lead, the number that has to follow. */
	[[nodiscard]] constexpr Xid xid() const
	{
		return xid_;
	}
	[[nodiscard]] constexpr xdr::Option lead() const
	{
		return lead_;
	}
	[[nodiscard]] constexpr u32 next() const
	{
		return next_;
	}

private:
	enum class State : u8 { idle, collect, skip };

	/** Of the group, by its xid. Where its header does not decode it is of it, for all that is known. */
	[[nodiscard]] constexpr bool is_of_(const Transmission &t) const
	{
		return t.xid == xid_ &&
		       (t.direction == direction_ || t.direction == xdr::Direction::unknown ||
			direction_ == xdr::Direction::unknown);
	}
	[[nodiscard]] constexpr Step continue_(const Transmission &t)
	{
		const Fault fault = !is_of_(t)	      ? Fault::xid :
				    t.of != lead_     ? Fault::option :
				    t.number != next_ ? Fault::sequence :
							Fault::none;

		if (fault != Fault::none) {
			state_ = State::skip;
			return {What::nothing, fault, true};
		}
		next_++;
		if (--left_)
			return {What::part, Fault::none, false};
		state_ = State::idle;
		return {What::last, Fault::none, false};
	}

	Xid xid_; /* of the group that is collected or skipped */
	u32 next_ = 0;
	u32 left_ = 0; /* transmissions of the group that are still to come */
	xdr::Option lead_ = xdr::Option::none;
	xdr::Direction direction_ = xdr::Direction::unknown; /* of xid_ */
	State state_ = State::idle;
};

} // namespace rpcordma::protocol
