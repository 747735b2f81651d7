// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the Receives of a message of several transmissions ("group", rtrext-01) come together, of one direction of a
 * connection: as assembly.hh, with what the peer is told of each fault. Ahead of any look at whose message it is.
 *
 *	IDLE     a lead of several --> COLLECT; XMTCONT --> BADCONT
 *	COLLECT  the XMTCONT that has to follow --> the next; the last --> IDLE, and the group is whole
 *	         another XMTCONT --> fault, the group is dropped, SKIP
 *	         anything else --> fault, the group is dropped, IDLE, and it is handled
 *	SKIP     an XMTCONT of that group --> dropped, in silence; anything else --> IDLE, and it is handled
 *
 * transmission.hh drives it, on connections of version 2 whose end does round-trip reduction.
 */
#pragma once

#include "module/protocol/groups.hh"
#include "module/rdma/receive.hh"

namespace rpcordma {

class GroupAssembly {
public:
	struct Outcome {
		/* A message that is whole: its first Receive, the others follow by `next`. Null: there is none yet. */
		Receive *whole = nullptr;
		/* Receives of no use, chained by `next`, which are the caller's again. */
		Receive *useless = nullptr;
		/* The peer is to be told what is in report. What is whole besides is handled all the same. */
		bool faulty = false;
		rtrext::Report report;
	};

	/** What decides to which message a transmission belongs; an OPTIONAL's optinfo was decoded. */
	struct Part {
		u32 count = 1;	/* of an XMTREQ or XMTRESP: transmissions of the message */
		u32 number = 0; /* of an XMTCONT: optxc_xnum */
		u32 lead = 0;	/* of an XMTCONT: optxc_itype */
	};
	[[nodiscard]] static constexpr Part part(const rtrext::Request &request)
	{
		return {request.transmissions, 0, 0};
	}
	[[nodiscard]] static constexpr Part part(const rtrext::Response &response)
	{
		return {response.transmissions, 0, 0};
	}
	[[nodiscard]] static constexpr Part part(const rtrext::Continuation &continuation)
	{
		return {1, continuation.number, continuation.lead};
	}

	/** @receive, which was decoded, is next in this direction. @part: of an OPTIONAL; else as it is by default. */
	[[nodiscard]] Outcome add(Receive *receive, const Part &part)
	{
		using What = protocol::Collector::What;
		const xdr::Message &message = receive->message;
		const bool was_open = collector_.open();
		const rtrext::Id lead = {collector_.xid(), direction_of_(collector_.lead()), 0};
		const auto step =
			collector_.take({message.kind, message.option, message.xid, part.count,
					 part.number, option_(part.lead), message.direction});
		Outcome outcome;

		if (step.dropped)
			outcome.useless = abandon_();
		if (step.fault != rtrext::Fault::none) {
			outcome.faulty = true;
			outcome.report.bad = {message.xid, message.direction, part.number};
			outcome.report.has_lead = was_open;
			if (was_open)
				outcome.report.lead = lead;
			/* Its header does not decode: it is of the group, for all that is known. */
			if (message.direction == xdr::Direction::unknown)
				outcome.report.bad.direction = outcome.report.lead.direction;
			outcome.report.detail = detail_(step.fault, message, part);
		}
		receive->next = nullptr;
		switch (step.what) {
		case What::message:
			outcome.whole = receive;
			break;
		case What::part:
			append_(receive);
			break;
		case What::last:
			append_(receive);
			outcome.whole = abandon_();
			break;
		case What::nothing:
			receive->next = outcome.useless;
			outcome.useless = receive;
		}
		return outcome;
	}

	/**
	 * The transmission that came last is refused for what is in it, and with it all of its group: what follows of that
	 * is dropped in silence. Returns the Receives that were kept, that one too if it was; chained by `next`, or null.
	 */
	[[nodiscard]] Receive *refuse()
	{
		collector_.refuse();
		return abandon_();
	}

	/** The first Receive of what is kept; null: nothing is. */
	[[nodiscard]] const Receive *first() const
	{
		return first_;
	}
	/** One is open, or what follows of one that was broken off is passed over. */
	[[nodiscard]] bool amid() const
	{
		return collector_.amid();
	}
	/** A group has begun, and is not over. */
	[[nodiscard]] bool open() const
	{
		return collector_.open();
	}

private:
	[[nodiscard]] static constexpr xdr::Direction direction_of_(xdr::Option lead)
	{
		return lead == xdr::Option::xmtresp ? xdr::Direction::reply : xdr::Direction::call;
	}
	/** A number that no type has is no type, whatever its last bits are. */
	[[nodiscard]] static constexpr xdr::Option option_(u32 word)
	{
		return word <= static_cast<u32>(xdr::Option::repterr) ?
			       static_cast<xdr::Option>(word) :
			       xdr::Option::none;
	}

	/** Behind take(). */
	[[nodiscard]] rtrext::Detail detail_(rtrext::Fault fault, const xdr::Message &message,
					     const Part &part) const
	{
		using rtrext::Detail;
		using rtrext::Fault;

		switch (fault) {
		case Fault::header:
			return Detail::differs(fault, static_cast<u32>(xdr::Kind::optional),
					       static_cast<u32>(message.kind));
		case Fault::option:
			/* An XMTCONT is what has to follow: then it is the lead's type that differs. */
			if (message.option == xdr::Option::xmtcont)
				return Detail::differs(fault, static_cast<u32>(collector_.lead()),
						       part.lead);
			return Detail::differs(fault, static_cast<u32>(xdr::Option::xmtcont),
					       static_cast<u32>(message.option));
		case Fault::sequence:
			return Detail::differs(fault, collector_.next(), part.number);
		case Fault::xid:
			return Detail::differs(fault, collector_.xid().get(), message.xid.get());
		default:
			return {fault, {}};
		}
	}

	void append_(Receive *receive)
	{
		if (last_)
			last_->next = receive;
		else
			first_ = receive;
		last_ = receive;
	}
	[[nodiscard]] Receive *abandon_()
	{
		Receive *const begun = first_;

		first_ = last_ = nullptr;
		return begun;
	}

	protocol::Collector collector_;
	Receive *first_ = nullptr;
	Receive *last_ = nullptr;
};

} // namespace rpcordma
