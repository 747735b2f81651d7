// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages of several transmissions, and what is sent beyond the credits: module/protocol/groups.hh. A client with four credits asks
 * once, as the connection begins, and then sends calls of one transmission and of two, and takes replies of two; it gives
 * calls up. The server refuses whole calls and leads, replies in any order, tells once, and may ask. And a receiver gets
 * any few transmissions from a peer that keeps no rule.
 *
 * What the client has for its calls is the module's sums, written a second time: credits of sunrpc's window, and Receives that
 * begin_group() takes and a reply gives back, or an ERROR, unless that ends the connection.
 */
#include "selftests/states/worlds.hh"

#include <cstring>
#include <type_traits>

#include "module/chunk/select.hh"
#include "module/protocol/groups.hh"
#include "selftests/states/explore.hh"

using namespace rpcordma;
using protocol::Collector;
using protocol::AfterError;
using protocol::Transmission;
using xdr::ErrorCode;
using xdr::Kind;
using xdr::Option;

namespace states {
namespace {

constexpr u32 kCredits = 4;
/* What has to stay free for calls of one transmission: a quarter, as rpcordma_xprt_take_credits() has it. */
constexpr u32 kFree = kCredits / 4;
/* That each side has beyond them: for the peer's question, or its answer, and for what it tells. */
constexpr u32 kBeyond = 2;
constexpr u32 kReserve = 3;
constexpr u32 kParts = 2;

enum class Sort : u8 { message, lead, continuation, error, question, answer, told };

struct Sent {
	Sort sort;
	u8 xid;		/* of an RPC: its number */
	ErrorCode code; /* of an error */
};

/* At most @most of them; in a state of plain bytes. */
struct Queue {
	enum { kMost = 15 };
	Sent sent[kMost];
	u8 count;

	void push(Sort sort, u8 xid, ErrorCode code = {})
	{
		sent[count++] = {sort, xid, code};
	}
	bool has(u8 xid) const
	{
		for (u8 i = 0; i < count; i++)
			if (sent[i].xid == xid)
				return true;
		return false;
	}
	Sent pop()
	{
		const Sent first = sent[0];

		count--;
		std::memmove(sent, sent + 1, count * sizeof(*sent));
		sent[count] = {};
		return first;
	}
};

Transmission transmission(const Sent &sent, Option lead)
{
	Transmission t;

	t.xid = Xid(sent.xid);
	if (sent.sort == Sort::lead || sent.sort == Sort::continuation) {
		t.kind = Kind::optional;
		t.option = sent.sort == Sort::lead ? lead : Option::xmtcont;
		t.count = kParts;
		t.number = sent.sort == Sort::continuation;
		t.of = lead;
	} else if (sent.sort != Sort::message) {
		t.kind = Kind::updprop;
	}
	return t;
}

/* How far a history goes. */
struct Limits {
	const char *name;
	u8 calls;
	u8 updates; /* of the server; it has no proof that one was taken, so that more than one is never sent */
	u8 cancels;
	u8 groups;	 /* calls of two transmissions */
	u8 reply_groups; /* calls for a reply of two */
	u8 errors;
	bool in_order; /* of the server's answers */
	u8 server_questions = 0;
};

class Conversation {
public:
	enum : u8 { kMostCalls = 6 };
	enum Stage : u8 { none, sent, arrived, over };
	struct Call {
		u8 stage;
		u8 transmissions;
		u8 reply; /* the most transmissions of its reply */
		u8 reserved;
		u8 cancelled;
	};
	struct Plain {
		u8 calls, updates, cancels, groups, reply_groups, errors, server_questions;
		u8 asked, answered; /* the client, if it has; and whether it has the answer */
		u8 server_asks;	    /* and has no answer */
		u8 ended;	    /* the client has ended the connection */
		u8 in_use;	    /* credits */
		u8 reserved;	    /* Receives */
		Call call[kMostCalls + 1];
		Queue to_server, to_client;
		Collector at_client, at_server;
	};
	/* Copied and compared as bytes, padding included, which is zero from the start. */
	static_assert(std::is_trivially_copyable_v<Plain>);
	struct State {
		alignas(Plain) unsigned char bytes[sizeof(Plain)] = {};
		Fault fault;

		Plain &plain()
		{
			return *reinterpret_cast<Plain *>(bytes);
		}
		const Plain &plain() const
		{
			return *reinterpret_cast<const Plain *>(bytes);
		}
	};

	explicit Conversation(const Limits &limits) : limits_(limits)
	{
	}
	State first() const
	{
		State s;
		Plain &p = s.plain();

		/* Each by itself, or their padding would come along. */
		new (&p.at_client) Collector();
		new (&p.at_server) Collector();
		return s;
	}
	std::string key(const State &s) const
	{
		return {reinterpret_cast<const char *>(s.bytes), sizeof(s.bytes)};
	}

	bool may_end(const State &s) const
	{
		const Plain &p = s.plain();

		/* What is under way then, nobody gets. */
		if (p.ended)
			return true;
		if (p.calls < limits_.calls)
			return false;
		for (u8 i = 1; i <= p.calls; i++)
			if (p.call[i].stage != over)
				return false;
		return !p.to_server.count && !p.to_client.count;
	}

	void moves(const State &s, Moves<State> &next) const
	{
		const Plain &p = s.plain();

		if (p.ended)
			return;
		if (!p.asked) {
			Plain &to = next.add(s, "the client asks").plain();
			to.asked = 1;
			to.to_server.push(Sort::question, 0);
		}
		if (p.answered && p.calls < limits_.calls && p.in_use < kCredits) {
			begin(s, next, 1, 0);
			begin(s, next, kParts, 0);
			begin(s, next, 1, kParts);
			begin(s, next, kParts, kParts);
		}
		if (p.updates < limits_.updates) {
			Plain &to = next.add(s, "the server tells").plain();
			to.updates++;
			to.to_client.push(Sort::told, 0);
		}
		if (p.server_questions < limits_.server_questions && !p.server_asks) {
			Plain &to = next.add(s, "the server asks").plain();
			to.server_questions++;
			to.server_asks = 1;
			to.to_client.push(Sort::question, 0);
		}
		bool waits = false;
		for (u8 i = 1; i <= p.calls; i++) {
			const std::string xid = std::to_string(i);

			if (p.call[i].stage != over && !p.call[i].cancelled &&
			    p.cancels < limits_.cancels) {
				Plain &to = next.add(s, "call " + xid + " is given up").plain();
				to.cancels++;
				to.call[i].cancelled = 1;
			}
			if (p.call[i].stage == arrived && !(waits && limits_.in_order))
				answer(s, next, i, xid);
			waits = waits || p.call[i].stage == arrived;
		}
		if (p.to_server.count)
			serve(s, next);
		if (p.to_client.count)
			hear(next.add(s, "the client gets " + text(p.to_client.sent[0])));
		for (auto &move : next.all)
			check(move.to);
	}

private:
	static std::string text(const Sent &sent)
	{
		static const char *const sorts[] = {"message ",	       "lead ",	    "continuation ",
						    "error ",	       "question ", "answer ",
						    "what it is told "};

		return sorts[static_cast<u32>(sent.sort)] + std::to_string(sent.xid);
	}

	static const char *why(ErrorCode code)
	{
		return code == ErrorCode::system ? ": SYSTEM" :
		       code == ErrorCode::option ? ": INVAL_OPTION" :
						   ": REPLY_RESOURCE";
	}

	void check(State &s) const
	{
		const Plain &p = s.plain();

		/* The server has its grant posted, the client its credits in force; each puts back what it took at once. */
		s.fault.unless(p.to_server.count <= kCredits + kBeyond,
			       "the client sends without a Receive");
		s.fault.unless(p.to_client.count <= kCredits + kBeyond + p.reserved,
			       "the server sends without a Receive");
		s.fault.unless(p.reserved <= kReserve, "more is reserved than there is");
		s.fault.unless(p.in_use <= kCredits, "more credits are in use than there are");
		if (may_end(s) && !p.ended)
			s.fault.unless(!p.in_use && !p.reserved && !p.at_client.open() &&
					       !p.at_server.open(),
				       "something is left when all is over");
	}

	void begin(const State &s, Moves<State> &next, u8 transmissions, u8 reply) const
	{
		State to = s;
		Plain &p = to.plain();
		const u32 reserved = chunk::receives_to_reserve(reply);

		p.groups = u8(p.groups + (transmissions > 1));
		p.reply_groups = u8(p.reply_groups + (reply > 1));
		if (p.groups > limits_.groups || p.reply_groups > limits_.reply_groups)
			return;
		if (transmissions > 1 && p.in_use + transmissions + kFree > kCredits)
			return;
		if (p.reserved + reserved > kReserve)
			return;
		p.reserved = u8(p.reserved + reserved);
		const u8 xid = ++p.calls;
		p.in_use = u8(p.in_use + transmissions);
		to.fault.unless(transmissions == 1 || p.in_use < kCredits,
				"calls of one transmission starve");
		p.call[xid] = {Stage::sent, transmissions, reply, u8(reserved), 0};
		p.to_server.push(transmissions > 1 ? Sort::lead : Sort::message, xid);
		for (u8 i = 1; i < transmissions; i++)
			p.to_server.push(Sort::continuation, xid);
		next.add(to, "call " + std::to_string(xid) +
				     (transmissions > 1 ? " in two parts" : "") +
				     (reply ? ", for a reply of two" : ""));
	}

	/* The server's answers to a call that is there. */
	void answer(const State &s, Moves<State> &next, u8 i, const std::string &xid) const
	{
		Plain &whole = next.add(s, "the server replies to call " + xid).plain();
		whole.call[i].stage = over_at_server_;
		whole.to_client.push(Sort::message, i);
		if (s.plain().call[i].reply > 1) {
			Plain &to =
				next.add(s, "the server replies to call " + xid + " in two parts")
					.plain();
			to.call[i].stage = over_at_server_;
			to.to_client.push(Sort::lead, i);
			to.to_client.push(Sort::continuation, i);
		}
		if (s.plain().errors < limits_.errors)
			for (const ErrorCode code :
			     {ErrorCode::system, ErrorCode::option, ErrorCode::reply_resource}) {
				Plain &to = next.add(s, "the server refuses call " + xid + why(code))
						    .plain();
				to.errors++;
				to.call[i].stage = over_at_server_;
				to.to_client.push(Sort::error, i, code);
			}
	}

	void serve(const State &s, Moves<State> &next) const
	{
		const std::string label = "the server gets " + text(s.plain().to_server.sent[0]);
		State &taken = next.add(s, label);
		Plain &p = taken.plain();
		const Sent sent = p.to_server.pop();
		const auto step = p.at_server.take(transmission(sent, Option::xmtreq));

		taken.fault.unless(step.fault == Collector::Fault::none && !step.dropped,
				   "a group of a faultless client is found fault with");
		switch (sent.sort) {
		case Sort::question:
			p.to_client.push(Sort::answer, 0);
			return;
		case Sort::answer:
			p.server_asks = 0;
			return;
		case Sort::told:
			return;
		default:
			break;
		}
		if (step.what == Collector::What::message || step.what == Collector::What::last) {
			taken.fault.unless(p.call[sent.xid].stage == Stage::sent,
					   "a call comes that was refused");
			p.call[sent.xid].stage = arrived;
		} else {
			taken.fault.unless((step.what == Collector::What::part) ==
						   (sent.sort == Sort::lead),
					   "a part is lost");
		}
		if (sent.sort == Sort::lead && p.errors < limits_.errors) {
			/* Of a copy, as the first one moves with the list. */
			const State before = taken;

			for (const ErrorCode code : {ErrorCode::system, ErrorCode::option}) {
				State &to = next.add(before, label + ", and refuses it" + why(code));
				to.plain().errors++;
				to.plain().at_server.refuse();
				to.plain().call[sent.xid].stage = over_at_server_;
				to.plain().to_client.push(Sort::error, sent.xid, code);
			}
		}
	}

	void hear(State &s) const
	{
		Plain &p = s.plain();
		const Sent sent = p.to_client.pop();
		const auto step = p.at_client.take(transmission(sent, Option::xmtresp));

		s.fault.unless(step.fault == Collector::Fault::none && !step.dropped,
			       "a group of a faultless server is found fault with");
		switch (sent.sort) {
		case Sort::question:
			p.to_server.push(Sort::answer, 0);
			return;
		case Sort::answer:
			p.answered = 1;
			return;
		case Sort::told:
			return;
		default:
			break;
		}
		if (step.what == Collector::What::part)
			return;
		s.fault.unless(step.what != Collector::What::nothing, "a part of a reply is lost");
		Call &call = p.call[sent.xid];
		s.fault.unless(call.stage == over_at_server_, "an answer to nothing");
		call.stage = over;
		if (sent.sort == Sort::error) {
			const u32 credits = call.transmissions - 1u;
			const AfterError after =
				protocol::after_error(sent.code, false, credits, call.reserved);

			s.fault.unless(after == AfterError::fail || credits || call.reserved,
				       "the error of a plain call ends the connection");
			s.fault.unless(after == AfterError::fail ||
					       sent.code != ErrorCode::reply_resource,
				       "the error of a call that came whole ends the connection");
			s.fault.unless(
				(after == AfterError::resend) == (sent.code == ErrorCode::option &&
								  (credits || call.reserved)),
				"a call that is not taken fails, or another one is sent again");
			if (after != AfterError::fail) {
				/* What it had is the next connection's. */
				p.ended = 1;
				return;
			}
			s.fault.unless(!credits || !p.to_server.has(sent.xid),
				       "credits are given back while parts are under way");
		}
		s.fault.unless(!p.to_client.has(sent.xid),
			       "Receives are given back while parts are under way");
		p.in_use = u8(p.in_use - call.transmissions);
		p.reserved = u8(p.reserved - call.reserved);
	}

	/* The server is done with it, and the client does not know. */
	static constexpr Stage over_at_server_ = static_cast<Stage>(over + 1);
	Limits limits_;
};

/* --- a receiver, and anything that its peer may send --- */

class Receiver {
public:
	struct Came {
		const char *name;
		Transmission t;
		bool refused = false; /* by the receiver, for a reason of its own */
	};
	struct State {
		Fault fault;
		Collector collector;
		u8 messages = 0;
		/* As the text has it. */
		u8 stage = 0; /* idle, collect, skip */
		u8 group = 0; /* its xid */
		u8 next = 0, count = 0;
	};

	Receiver()
	{
		auto lead = [](u32 xid, u32 count) {
			return Transmission{Kind::optional, Option::xmtreq, Xid(xid), count, 0, {}};
		};
		auto part = [](u32 xid, u32 number, Option of = Option::xmtreq) {
			return Transmission{Kind::optional, Option::xmtcont,
					    Xid(xid),	    1,
					    number,	    of};
		};
		all_ = {{"MSG", {}},
			{"REPTERR", {Kind::optional, Option::repterr, Xid(1), 1, 0, {}}},
			{"XMTREQ 1 of 1", lead(1, 1)},
			{"XMTREQ 1 of 2", lead(1, 2)},
			{"XMTREQ 1 of 3", lead(1, 3)},
			{"XMTREQ 2 of 2", lead(2, 2)},
			{"XMTREQ 1 of 2^32 - 1, refused", lead(1, ~0u), true},
			{"XMTREQ 2 of 2, refused", lead(2, 2), true},
			{"XMTCONT 1 number 1", part(1, 1)},
			{"XMTCONT 1 number 2", part(1, 2)},
			{"XMTCONT 2 number 1", part(2, 1)},
			{"XMTCONT 1 number 0", part(1, 0)},
			{"XMTCONT 1 number 1 of a reply", part(1, 1, Option::xmtresp)}};
	}
	State first() const
	{
		return {};
	}
	/* The machine's own state, of which nothing but open() can be seen, follows from what came. */
	std::string key(const State &s) const
	{
		std::string key;

		for (const u8 byte : {s.messages, s.stage, s.group, s.next, s.count})
			key += static_cast<char>(byte);
		return key + answers(s);
	}
	bool may_end(const State &s) const
	{
		return s.messages == 6;
	}
	void moves(const State &s, Moves<State> &next) const
	{
		if (!may_end(s))
			for (const Came &came : all_)
				take(next.add(s, came.name), came);
	}

private:
	/* What the machine would say to each transmission, and then to each other one: its state. */
	std::string answers(const State &s) const
	{
		std::string all;

		for (const Came &a : all_) {
			Collector first = s.collector;

			all += said(first.take(a.t));
			for (const Came &b : all_) {
				Collector second = first;

				all += said(second.take(b.t));
			}
		}
		return all;
	}
	static char said(const Collector::Step &step)
	{
		return static_cast<char>(static_cast<u32>(step.what) |
					 static_cast<u32>(step.fault) << 2 | u32(step.dropped) << 5);
	}

	void take(State &s, const Came &came) const
	{
		using What = Collector::What;
		using Said = Collector::Fault;
		const Transmission &t = came.t;
		const bool continues = t.option == Option::xmtcont;
		const bool leads = t.option == Option::xmtreq && t.count > 1;
		const u8 xid = u8(t.xid.get());
		const bool was_open = s.stage == 1;
		What what = leads ? What::part : What::message;
		Said fault = Said::none;

		s.messages++;
		if (continues) {
			what = What::nothing;
			if (s.stage == 0 || (s.stage == 2 && xid != s.group)) {
				fault = Said::alone;
				s.stage = 0;
			} else if (s.stage == 1 && xid == s.group && t.of == Option::xmtreq &&
				   t.number == s.next) {
				what = ++s.next == s.count ? What::last : What::part;
				s.stage = what == What::last ? 0 : 1;
			} else if (s.stage == 1) {
				fault = xid != s.group	       ? Said::xid :
					t.of != Option::xmtreq ? Said::option :
								 Said::sequence;
				s.stage = 2;
			}
		} else {
			if (was_open)
				fault = t.kind == Kind::optional ? Said::option : Said::header;
			s.stage = leads ? (came.refused ? 2 : 1) : 0;
			s.group = xid;
			s.next = 1;
			s.count = u8(t.count);
		}
		if (s.stage == 0)
			s.group = s.next = s.count = 0;
		const auto step = s.collector.take(t);
		if (came.refused)
			s.collector.refuse();
		s.fault.unless(step.what == what, "a transmission is taken for something else");
		s.fault.unless(step.fault == fault, "another fault than the text has");
		s.fault.unless(step.dropped == (was_open && fault != Said::none),
			       "an open group is kept, or one dropped that is none");
		s.fault.unless(s.collector.open() == (s.stage == 1), "a group is open, or is not");
	}

	std::vector<Came> all_;
};

constexpr Limits kWorlds[] = {
	{"what is told", 5, 1, 1, 0, 0, 0, true},
	{"a server that asks", 5, 1, 0, 0, 0, 0, true, 2},
	{"credits of calls of two parts", 5, 0, 0, 1, 0, 2, true},
	{"receives of replies of two parts", 5, 1, 0, 0, 2, 1, true, 1},
	{"calls of two parts", 4, 0, 1, 3, 0, 3, false},
	{"calls and replies of two parts", 3, 1, 1, 2, 2, 2, false},
};

} // namespace

void explore_groups(Totals &totals)
{
	for (const Limits &limits : kWorlds)
		totals.add(explore(limits.name, Conversation(limits)));
	totals.add(explore("a receiver of anything", Receiver()));
}

} // namespace states
