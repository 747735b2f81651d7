// SPDX-License-Identifier: GPL-2.0-only
/*
 * What comes on a connection whose end does round-trip reduction (rtrext-01): a transmission is read, put to the message that
 * it belongs to (group_assembly.hh), and judged. What is wrong with it comes out as what is to be answered; whoever has the
 * connection answers.
 *
 * Items of a message are judged when it is whole, and stay where they came: in the pages of its Receives; or in RDMA segments,
 * which whoever has a call fetches. Whether a reply may have some is for its call to say. Directions for where a reply's items
 * may go are read when it is made.
 */
#pragma once

#include "module/chunk/placement.hh"
#include "module/protocol/session.hh"
#include "module/rdma/group_assembly.hh"
#include "module/rdma/trace.hh"

namespace rpcordma {

/** What a transmission comes to. Each Receive is in one of these. */
struct Transmitted {
	/** What the peer is to be told. */
	struct Answer {
		/* That it is told about; the caller's, by itself. Null: nothing. */
		Receive *about = nullptr;
		/* A REPTERR with this; else an ERROR with the code. */
		bool reports = false;
		rtrext::Report report;
		xdr::ErrorCode code = xdr::ErrorCode::chunk;
	};

	/*
	 * A message that is whole, and nothing is known against it: a group, chained by `next`; or what came, by itself, which may
	 * be anything. Null: there is none.
	 */
	Receive *whole = nullptr;
	rtrext::Request request; /* of what is whole, if that is an XMTREQ with items; else it has none */
	Receive *useless = nullptr; /* chained by `next` */
	Answer broken;		    /* a group was broken off; or an XMTCONT had none */
	Answer refused;		    /* what came, and with it the group that it is of */
	bool dropped = false;	    /* a group that had begun is over, and will not be whole */
	bool lost = false;	    /* a reply that had begun is over, likewise */
	bool lead_refused = false;  /* what came is the first of a reply, which nobody will get */
};

/** The lengths of the transmissions of a message, which is whole. */
class MessageLengths {
public:
	explicit MessageLengths(const Receive &first)
	{
		for (const Receive *part = &first; part; part = part->next) {
			const u32 header = part->message.header_length,
				  stream = part->length - header;

			stream_ += stream;
			if (count_ < protocol::kCallTransmissions)
				lengths_[count_++] = {header, stream, part->whole_length};
		}
	}
	/** Of a message of as many as this end takes. */
	[[nodiscard]] Span<const chunk::TransmissionLengths> each() const
	{
		return {lengths_, count_};
	}
	/** Bytes of the stream, in all of them. */
	[[nodiscard]] u64 stream() const
	{
		return stream_;
	}

private:
	chunk::TransmissionLengths lengths_[protocol::kCallTransmissions];
	usize count_ = 0;
	u64 stream_ = 0;
};

/** What Receives of @room are, as a peer is told. */
[[nodiscard]] constexpr properties::Structure structure_of(const protocol::ReceiveRoom &room)
{
	return {room.bytes(), room.pages, room.pages ? room.page_size : 0};
}

/** Reads and judges one transmission. */
class TransmissionReader {
public:
	/**
	 * @peer   who sends; for traces
	 * @lead   what begins the messages that this end takes: xmtreq, or xmtresp
	 * @most   transmissions of one; of calls, no more than protocol::kCallTransmissions
	 * @room   what they are received into
	 */
	constexpr TransmissionReader(const rpcordma_peer *peer, GroupAssembly &groups,
				     xdr::Option lead, u32 most,
				     const properties::Structure &room = {})
		: peer_(peer),
		  groups_(groups),
		  lead_(lead),
		  most_(most),
		  room_(room)
	{
	}
	/**
	 * @receive is next in this direction. @understood: the session decoded it.
	 *
	 * On return Receives of what is whole have the stream's bytes as their payload, and no others.
	 */
	[[nodiscard]] Transmitted take(Receive *receive, bool understood)
	{
		const xdr::Message &message = receive->message;
		const bool is_optional = message.kind == xdr::Kind::optional;
		Transmitted taken;

		read_(message, understood && is_optional);
		if (is_optional && !bad_ && is_part_(message.option))
			trace_("received", message);
		if (!understood && is_optional && message.option == xdr::Option::xmtcont &&
		    !groups_.open()) {
			/* It breaks nothing off; the session says what is to be answered. */
			taken.whole = receive;
			return taken;
		}
		const GroupAssembly::Outcome outcome = groups_.add(receive, part_);
		taken.whole = outcome.whole;
		taken.useless = outcome.useless;
		/* One is of no use then: what was kept, or what came. */
		if (outcome.faulty && taken.useless) {
			taken.dropped = taken.lost = outcome.report.has_lead;
			taken.broken.reports = true;
			taken.broken.report = outcome.report;
			taken.broken.about = taken.useless;
			taken.useless = taken.useless->next;
			taken.broken.about->next = nullptr;
		}
		/* An XMTCONT is the first of what is useless, if it is that. */
		const bool continues = is_optional && message.option == xdr::Option::xmtcont &&
				       !outcome.faulty && taken.useless != receive;
		if (continues || (is_optional && begins_(message.option)))
			judge_(receive, taken);
		if (taken.dropped)
			trace_("dropped", message);
		else if (taken.whole && taken.whole->next)
			trace_("whole", message);
		return taken;
	}

private:
	[[nodiscard]] static constexpr bool begins_(xdr::Option option)
	{
		return option == xdr::Option::xmtreq || option == xdr::Option::xmtresp;
	}

	[[nodiscard]] static constexpr bool is_part_(xdr::Option option)
	{
		return begins_(option) || option == xdr::Option::xmtcont;
	}

	void trace_(const char *what, const xdr::Message &message) const
	{
		trace::group(peer_, what, message.xid, message.option, part_.number,
			     message.option == xdr::Option::xmtcont ? 0 : part_.count,
			     stream_length_);
	}

	void read_(const xdr::Message &message, bool readable)
	{
		stream_length_ = 0;
		bad_ = !readable;
		part_ = {};
		if (readable && message.option == xdr::Option::xmtreq) {
			bad_ = rtrext::decode(message.body(), request_) != Error::none;
			stream_length_ = request_.stream_length;
			if (!bad_)
				part_ = GroupAssembly::part(request_);
		} else if (readable && message.option == xdr::Option::xmtresp) {
			bad_ = rtrext::decode(message.body(), response_) != Error::none;
			stream_length_ = response_.stream_length;
			if (!bad_)
				part_ = GroupAssembly::part(response_);
		} else if (readable && message.option == xdr::Option::xmtcont) {
			rtrext::Continuation continuation;

			bad_ = rtrext::decode(message.body(), continuation) != Error::none;
			stream_length_ = continuation.stream_length;
			if (!bad_)
				part_ = GroupAssembly::part(continuation);
		}
		/* What follows one that is refused is of no use either, and gets no answer of its own: see refuse_(). */
		if (message.kind == xdr::Kind::optional && begins_(message.option) &&
		    (bad_ || message.option != lead_))
			part_.count = max(part_.count, 2u);
	}

	/* What @receive, which is a part of a group or a message by itself, is by what it says of its stream. */
	[[nodiscard]] rtrext::Verdict verdict_(const Receive &receive) const
	{
		const xdr::Message &message = receive.message;
		const u32 behind = receive.payload_length();

		if (message.option == xdr::Option::xmtcont)
			return bad_ ? rtrext::Verdict::refuse(xdr::ErrorCode::chunk) :
				      rtrext::judge_stream(stream_length_, behind);
		if (bad_)
			return rtrext::Verdict::refuse(xdr::ErrorCode::chunk);
		if (message.option != lead_)
			return rtrext::Verdict::refuse(xdr::ErrorCode::option);
		if (lead_ == xdr::Option::xmtresp) {
			if (response_.transmissions > most_)
				return rtrext::Verdict::refuse(xdr::ErrorCode::chunk);
			return rtrext::judge(message, response_, behind);
		}
		return rtrext::judge(message, request_, behind, most_);
	}

	/* What @first is, which is whole, by its @items. */
	[[nodiscard]] rtrext::Verdict items_verdict_(const Receive &first,
						     const rtrext::Items &items) const
	{
		const MessageLengths lengths(first);
		const auto verdict = rtrext::judge_whole(items, lengths.stream());

		return verdict.good() ? chunk::judge_placement(room_, lengths.each(), items) :
					verdict;
	}
	/* What the call @first is, which is whole, by its items: @request is its own then. */
	[[nodiscard]] rtrext::Verdict whole_verdict_(const Receive &first,
						     rtrext::Request &request) const
	{
		/* It was decoded before. */
		if (rtrext::decode(first.message.body(), request) != Error::none ||
		    !request.items.count()) {
			request = {};
			return {};
		}
		/* Those in RDMA segments are fetched for a call that has no others, and is in one transmission. */
		u32 fetched = 0;
		for (const rtrext::Item &item : request.items)
			fetched += item.type == rtrext::Type::segments;
		if (fetched && (fetched < request.items.count() || first.next))
			return rtrext::Verdict::refuse(xdr::ErrorCode::system);
		return items_verdict_(first, request.items);
	}
	/* The same of a reply. */
	[[nodiscard]] rtrext::Verdict whole_verdict_(const Receive &first) const
	{
		rtrext::Response response;

		if (rtrext::decode(first.message.body(), response) != Error::none ||
		    !response.items.count())
			return {};
		return items_verdict_(first, response.items);
	}

	void judge_(Receive *receive, Transmitted &taken)
	{
		const bool continues = receive->message.option == xdr::Option::xmtcont;
		auto verdict = verdict_(*receive);
		u32 number = part_.number;

		if (verdict.good()) {
			/* What is behind the stream is none of it. */
			receive->whole_length = receive->length;
			receive->length = receive->message.header_length + stream_length_;
			receive->message.payload = receive->message.payload.first(stream_length_);
			if (!taken.whole)
				return;
			verdict = lead_ == xdr::Option::xmtreq ?
					  whole_verdict_(*taken.whole, taken.request) :
					  whole_verdict_(*taken.whole);
			if (verdict.good())
				return;
			/* The first one says where its items are. */
			number = 0;
		}
		const Receive *const lead = !continues	? nullptr :
					    taken.whole ? taken.whole :
							  groups_.first();
		taken.refused.report.has_lead = lead != nullptr;
		if (lead)
			taken.refused.report.lead = {lead->message.xid, lead->message.direction, 0};
		refuse_(receive, taken);
		/* A reply is never answered by an ERROR, nor what does not say that it is a call. */
		const bool reply = receive->message.direction != xdr::Direction::call;
		taken.lost = taken.lost || (reply && continues);
		taken.lead_refused = reply && !continues;
		taken.refused.reports = verdict.how == rtrext::Verdict::How::report;
		if (reply && !taken.refused.reports) {
			receive->next = taken.useless;
			taken.useless = receive;
			return;
		}
		taken.refused.about = receive;
		taken.refused.code = verdict.code;
		taken.refused.report.bad = {receive->message.xid, receive->message.direction,
					    number};
		taken.refused.report.detail = verdict.detail;
	}

	/* What is kept of the message that @receive is of, is of no use; @receive is by itself then. */
	void refuse_(Receive *receive, Transmitted &taken)
	{
		Receive *kept = taken.whole ? taken.whole : groups_.refuse();

		taken.dropped = taken.dropped || kept->next || (!taken.whole && !bad_);
		taken.whole = nullptr;
		while (Receive *one = kept) {
			kept = one->next;
			one->next = nullptr;
			if (one != receive) {
				one->next = taken.useless;
				taken.useless = one;
			}
		}
	}

	const rpcordma_peer *peer_;
	GroupAssembly &groups_;
	xdr::Option lead_;
	u32 most_;
	properties::Structure room_;
	/* Of what came last: */
	bool bad_ = false; /* its optinfo cannot be read */
	GroupAssembly::Part part_;
	rtrext::Request request_;
	rtrext::Response response_;
	u32 stream_length_ = 0;
};

} // namespace rpcordma
