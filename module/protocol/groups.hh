// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages of several transmissions ("groups", rtrext-01): what they cost in credits and Receives, and how the receiver
 * finds them again. A group is a lead, an XMTREQ or XMTRESP that tells how many there are, and XMTCONTs, which
 * follow it with nothing of that direction in between.
 *
 * Pure machines. module/rdma/group_assembly.hh has the receiver's with the Receives. Reservation and Retained are not driven
 * by a connection yet.
 */
#pragma once

#include "module/protocol/exchange.hh"
#include "xdr/rtrext.hh"

namespace rpcordma::protocol {

/**
 * Whether a call of @transmissions, which has its first credit, may take those for the others: all or none, so that
 * nobody waits with a part; and only if a quarter of the window stays free, so that calls of one do not starve.
 *
 * @in_use    credits that calls have, and what is retained, the call's first one included
 * @in_force  the window
 */
[[nodiscard]] constexpr bool may_take_group(u32 transmissions, u32 in_use, u32 in_force)
{
	const u32 most = in_force - in_force / 4 - (in_force % 4 != 0);

	return transmissions != 0 && in_use <= most && transmissions - 1 <= most - in_use;
}

/** A connection's Receives for replies of several transmissions; of a call from its post until its reply. */
class Reservation {
public:
	explicit constexpr Reservation(u32 limit) : limit_(limit)
	{
	}
	/** @receives of them, or none and false. */
	[[nodiscard]] constexpr bool take(u32 receives)
	{
		if (receives > limit_ - taken_)
			return false;
		taken_ += receives;
		return true;
	}
	constexpr void put(u32 receives)
	{
		taken_ -= receives;
	}
	[[nodiscard]] constexpr u32 taken() const
	{
		return taken_;
	}

private:
	u32 limit_;
	u32 taken_ = 0;
};

/**
 * What a call does not give back with its first credit if an ERROR ends it: parts of the call may still be under way, and
 * of a reply. When an RPC sent later is answered, they have come.
 */
class Retained {
public:
	struct Share {
		u32 credits = 0;  /* without the first */
		u32 receives = 0; /* of the Reservation */
	};
	/** An ERROR has ended the call @turn. */
	constexpr void add(Turn turn, Share share)
	{
		const bool first = !share_.credits && !share_.receives;

		share_.credits += share.credits;
		share_.receives += share.receives;
		/* All that is retained waits for the same answer. */
		if (first || is_later(turn, behind_))
			behind_ = turn;
	}
	/** The call @turn is answered, if by an ERROR, before that is added. Returns what is to be given back now. */
	[[nodiscard]] constexpr Share proved(Turn turn)
	{
		Share freed;

		if (is_later(turn, behind_)) {
			freed = share_;
			share_ = {};
		}
		return freed;
	}
	[[nodiscard]] constexpr const Share &share() const
	{
		return share_;
	}

private:
	Share share_;
	Turn behind_;
};

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
