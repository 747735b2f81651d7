// SPDX-License-Identifier: GPL-2.0-only
/*
 * How two ends come to a version: protocol::Session, and what module/protocol/negotiation.hh has. A client connects a few
 * times, to servers of all kinds, any of which may take another one's place between two connections; messages are late,
 * connections break at any point. And a server of each kind gets any few messages from a client that keeps no rule.
 *
 * What connect() and the server's receive completion do about the answers of these machines is done here as there
 * (module/client/connect.cc, negotiate.cc; module/server/receive.cc, negotiate.cc).
 */
#include "selftests/states/worlds.hh"

#include <deque>

#include "module/protocol/negotiation.hh"
#include "selftests/states/explore.hh"

using namespace rpcordma;
using protocol::Answer;
using protocol::Session;
using Action = protocol::Session::Action;

namespace states {
namespace {

constexpr u32 kClientSize = 8192, kServerSize = 4096;
constexpr u32 kSaid = properties::default_receive_size;

Bytes bytes_of(const std::string &s)
{
	return {reinterpret_cast<const u8 *>(s.data()), s.size()};
}

std::string words(std::initializer_list<u32> all)
{
	std::string s;

	for (const u32 word : all)
		for (int shift = 24; shift >= 0; shift -= 8)
			s += static_cast<char>(word >> shift);
	return s;
}

/** What @encode(room) writes. */
template <typename Encode> std::string encoded(Encode encode)
{
	u8 room[512];
	const Result<u32> length = encode(MutableBytes(room));

	return length.ok() ? std::string(reinterpret_cast<char *>(room), length.value()) : "";
}

/** An RPC message without chunks in @session's version. */
std::string rpc_message(const Session &session, u32 xid, xdr::Direction direction)
{
	xdr::Envelope envelope;

	envelope.xid = Xid(xid);
	envelope.credits = Credits(1);
	envelope.direction = direction;
	return encoded([&](MutableBytes room) { return session.encode_bare(room, envelope); }) +
	       words({xid, static_cast<u32>(direction)});
}

std::string rpc_message(u32 version, u32 xid, xdr::Direction direction)
{
	Session session;

	session.speak(version);
	return rpc_message(session, xid, direction);
}

std::string error_message(u32 xid, u32 version, std::initializer_list<u32> body)
{
	return words({xid, version, 1, 4}) + words(body);
}

/** All that two sessions may differ in, but for what begin() was told, as their answers show it. */
std::string key_of(const Session &session)
{
	const auto range = session.refusal(xdr::ErrorCode::version);
	const std::string strange = words({1, 99, 1, 0});
	xdr::Message message;
	Session copy = session, updated = session;
	const auto action = copy.receive(bytes_of(strange), message).action;
	properties::Properties large;

	large.receive_size = 1 << 20;
	large.present = properties::bit(properties::Id::receive_size);
	copy.take({}, 0);
	updated.update(large);
	return words({session.version(), range.low, range.high, static_cast<u32>(action),
		      session.thresholds().send, session.thresholds().receive,
		      copy.thresholds().receive, updated.thresholds().send,
		      session.rules().extra_receives});
}

/* --- servers, of all kinds --- */

enum class Server : u8 {
	ours_off,
	ours_marked,
	ours_any,
	in_tree,	/* ERR_VERS 1..1, without a mark; it goes on with version 1 */
	no_connprop,	/* it speaks version 2, and does not know CONNPROP */
	own_xid,	/* its CONNPROP has an xid of its own */
	only_2,		/* ERR_VERS 2..2 */
	only_3_to_9,	/* ERR_VERS 3..9 */
	only_0,		/* ERR_VERS 0..0 */
	silent,		/* it drops what is not of version 1 */
	wrong_xid,	/* INVAL_PROC to nobody's question */
	wrong_vers_xid, /* ERR_VERS 1..1 to nobody's question */
	bad_property,	/* a receive size of two words */
	other_error,	/* INVAL_OPTION */
	version_1_text, /* a message of version 1 */
	count,
};
const char *const kServers[] = {"ours, version2=0",
				"ours, version2=1",
				"ours, version2=2",
				"in-tree",
				"one without CONNPROP",
				"one with xids of its own",
				"one that says 2..2",
				"one that says 3..9",
				"one that says 0..0",
				"a silent one",
				"one that errs in the xid",
				"one that errs in the xid of ERR_VERS",
				"one with a bad property",
				"one that says INVAL_OPTION",
				"one that answers in version 1"};
static_assert(sizeof(kServers) / sizeof(*kServers) == static_cast<usize>(Server::count));

bool is_ours(Server server)
{
	return server <= Server::ours_any;
}

/** What a message is, which its sender knows and the receiver has to find out. */
enum class Is : u8 { call, question, reply, connprop, inval_proc, err_vers_1, useless };

struct Sent {
	std::string bytes;
	Is is;
};

/* --- a client, and whom it meets --- */

class Meeting {
public:
	enum class Phase : u8 { idle, connecting, asking, up };
	struct State {
		Fault fault;
		u64 now = 1000000;
		protocol::Avoidance avoidance;
		u64 avoid_until = 0; /* as the text has it */
		protocol::Attempt attempt{false};
		Phase phase = Phase::idle;
		u8 connects = 0;
		u8 connections = 0; /* of this connect() */
		u8 waits = 0;
		u8 calls = 0;	/* on this connection */
		u8 replies = 0; /* likewise, that have come */
		bool marked = false, unproved = false;
		Server server = Server::silent;
		u32 stranger_speaks = 0; /* the version of a server that is not ours; 0: none yet */
		u32 at_client = 0, at_server = 0; /* posted Receives */
		Session client, responder;
		std::deque<Sent> to_server, to_client;
	};

	explicit Meeting(u32 parameter) : parameter_(parameter)
	{
	}

	State first() const
	{
		return {};
	}

	std::string key(const State &s) const
	{
		std::string key =
			words({static_cast<u32>(s.now), s.avoidance.in_force(s.now),
			       static_cast<u32>(s.avoid_until), s.attempt.marked(),
			       static_cast<u32>(s.phase), s.connects, s.connections, s.waits,
			       s.calls, s.replies, s.marked, s.unproved, static_cast<u32>(s.server),
			       s.stranger_speaks, s.at_client, s.at_server});

		key += key_of(s.client) + key_of(s.responder);
		for (const auto *queue : {&s.to_server, &s.to_client}) {
			key += words({static_cast<u32>(queue->size())});
			for (const Sent &sent : *queue)
				key += sent.bytes;
		}
		return key;
	}

	bool may_end(const State &s) const
	{
		return s.phase == Phase::idle;
	}

	void moves(const State &s, Moves<State> &next) const
	{
		switch (s.phase) {
		case Phase::idle:
			if (s.connects < 3) {
				State &to = next.add(s, "the client begins to connect");
				to.connects++;
				to.connections = 0;
				to.attempt = protocol::Attempt(
					protocol::may_mark(parameter_, kClientSize, kClientSize));
				to.phase = Phase::connecting;
			}
			if (s.waits < 1) {
				State &to = next.add(s, "ten minutes pass");
				to.now += 600000;
				to.waits++;
			}
			break;
		case Phase::connecting: {
			give_up(next.add(s, "no connection can be made"));
			for (u8 i = 0; i < static_cast<u8>(Server::count); i++)
				connect(next.add(s, std::string("a connection to ") + kServers[i]),
					static_cast<Server>(i));
			break;
		}
		case Phase::asking: {
			deliver(s, next);
			State &late = next.add(s, "the answer is not there in time");
			late.now += 5000;
			lose(late);
			lose(next.add(s, "the connection breaks"));
			give_up(next.add(s, "the device goes"));
			break;
		}
		case Phase::up: {
			deliver(s, next);
			if (s.calls == s.replies) {
				if (s.calls < 2)
					call(next.add(s, "the client calls"));
				leave(next.add(
					s, "the client has no need of the connection any more"));
			}
			State &broken = next.add(s, "the connection breaks");
			if (broken.unproved)
				broken.avoidance.begin(broken.now);
			if (broken.client.version() == 2 && !broken.replies)
				broken.avoid_until = broken.now + 600000;
			leave(broken);
			break;
		}
		}
		for (auto &move : next.all)
			check(move.to);
	}

private:
	/* The text: which servers the client may ask, and for how long it asks none. */
	void check(State &s) const
	{
		Fault &f = s.fault;

		for (const u64 t : {s.now, s.now + 599999, s.now + 600000})
			f.unless(s.avoidance.in_force(t) == (t < s.avoid_until),
				 "the server is avoided though it need not be, or is not though it "
				 "must");
		f.unless(s.connections <= 2, "a third connection in one connect()");
		if (s.phase == Phase::asking) {
			f.unless(s.now >= s.avoid_until, "a server is asked that is to be avoided");
			f.unless(parameter_ == 2 || has_mark(s),
				 "a server is asked that does not have the mark");
			f.unless(parameter_ != 0 && s.connections == 1, "a question out of place");
		}
		if (s.phase != Phase::up)
			return;
		const u32 version = s.client.version();
		const u32 theirs = is_ours(s.server) ? standing(s.responder) : s.stranger_speaks;
		f.unless(version == 2 ? theirs == 2 : theirs != 2,
			 "the client speaks one version and the server another");
		if (theirs != version)
			return;
		f.unless(s.client.thresholds().send <=
				 (is_ours(s.server) || version == 2 ? kServerSize : kClientSize),
			 "the client's messages are too long");
		if (is_ours(s.server))
			f.unless(s.responder.thresholds().send <= kClientSize &&
					 s.client.thresholds().receive >=
						 s.responder.thresholds().send &&
					 s.responder.thresholds().receive >=
						 s.client.thresholds().send,
				 "one sends longer messages than the other takes");
	}

	/* Did the server answer with the mark, as it may, and the client's own private data have it? */
	bool has_mark(const State &s) const
	{
		if (!is_ours(s.server))
			return s.marked && s.server != Server::in_tree;
		return s.marked && s.server != Server::ours_off;
	}

	/* The version that the session has settled on; 0: none yet. */
	static u32 standing(const Session &session)
	{
		const auto range = session.refusal(xdr::ErrorCode::version);

		return range.low == range.high ? range.low : 0;
	}

	void send(State &s, bool to_client, Sent sent) const
	{
		u32 &posted = to_client ? s.at_client : s.at_server;

		s.fault.unless(!sent.bytes.empty(), "a message that cannot be encoded");
		s.fault.unless(posted != 0, "a Send without a Receive");
		if (posted)
			posted--;
		(to_client ? s.to_client : s.to_server).push_back(std::move(sent));
	}

	static Result<private_data::Properties> exchange(const private_data::Properties &said)
	{
		const std::string data =
			encoded([&](MutableBytes room) { return private_data::encode(room, said); });

		return private_data::parse(bytes_of(data));
	}

	void connect(State &s, Server server) const
	{
		const private_data::Properties ours = {kClientSize, kClientSize, true,
						       s.attempt.marked()};
		private_data::Properties theirs = {kServerSize, kServerSize, true, false};
		const auto heard = exchange(ours);

		s.server = server;
		s.connections++;
		s.marked = heard.value().mark;
		s.fault.unless(!s.marked || parameter_ != 0, "a mark though version 2 is off");
		s.fault.unless(!s.marked || s.connections == 1, "a mark on the second connection");
		s.calls = s.replies = 0;
		s.unproved = false;
		s.stranger_speaks = 0;
		s.client = s.responder = Session();
		s.to_server.clear();
		s.to_client.clear();
		s.at_client = 1 + (s.attempt.marked() ?
					   protocol::Spoken::most(&protocol::Rules::extra_receives) :
					   0);
		if (is_ours(server)) {
			const u32 parameter = static_cast<u32>(server);
			const bool may = protocol::may_mark(parameter, kServerSize, kServerSize);

			s.responder.begin(theirs, heard);
			if (may && protocol::may_speak_2(parameter, s.responder.peer()))
				s.responder.open();
			theirs.mark = may && s.responder.peer().mark;
			s.fault.unless(!theirs.mark || (parameter != 0 && s.marked),
				       "a server's mark that answers none");
			s.at_server = 1 + s.responder.rules().extra_receives;
		} else {
			/* In version 1 it takes more than its CONNPROP says, or one that is not there. */
			theirs = {kClientSize, kClientSize, true,
				  s.marked && server != Server::in_tree};
			s.at_server = server == Server::in_tree ? 1 : 3;
		}
		s.client.begin(ours, exchange(theirs));
		s.phase = Phase::up;
		if (s.marked && protocol::may_speak_2(parameter_, s.client.peer()) &&
		    !s.avoidance.in_force(s.now)) {
			s.client.ask();
			s.phase = Phase::asking;
			send(s, false,
			     {encoded([](MutableBytes room) {
				      return protocol::encode_properties(room, Xid(kQuestion),
									 Credits(8),
									 {kClientSize, 0, 0}, 0);
			      }),
			      Is::question});
		}
		if (s.connections == 1 && parameter_ != 0 && s.now >= s.avoid_until &&
		    (parameter_ == 2 || has_mark(s)))
			s.fault.unless(s.phase == Phase::asking,
				       "a server is not asked that could be");
	}

	void leave(State &s) const
	{
		s.phase = Phase::idle;
		s.to_server.clear();
		s.to_client.clear();
	}

	/* As a connect() of version 1 may end. */
	void give_up(State &s) const
	{
		s.fault.unless(!s.attempt.again(Answer::none),
			       "another connection though there is no hope");
		leave(s);
	}

	void lose(State &s) const
	{
		s.avoid_until = s.now + 600000;
		conclude(s, Answer::lost);
	}

	/* What the question has come to, as ask_version() and connect() go on. */
	void conclude(State &s, Answer answer) const
	{
		if (protocol::did_not_go_along(answer))
			s.avoidance.begin(s.now);
		if (answer != Answer::lost) {
			s.phase = Phase::up;
			return;
		}
		s.to_server.clear();
		s.to_client.clear();
		s.phase = s.attempt.again(answer) ? Phase::connecting : Phase::idle;
		s.fault.unless(s.phase == Phase::connecting,
			       "connect() fails as none of version 1 would");
	}

	void call(State &s) const
	{
		s.calls++;
		send(s, false, {rpc_message(s.client, s.calls, xdr::Direction::call), Is::call});
	}

	void deliver(const State &s, Moves<State> &next) const
	{
		if (!s.to_server.empty()) {
			State &to = next.add(s, "the server gets what the client sent");
			const Sent sent = to.to_server.front();

			to.to_server.pop_front();
			to.at_server++;
			if (is_ours(to.server))
				serve(to, sent);
			else
				serve_strangely(to, sent);
		}
		if (!s.to_client.empty()) {
			State &to = next.add(s, "the client gets what the server sent");
			const Sent sent = to.to_client.front();

			to.to_client.pop_front();
			to.at_client++;
			hear(to, sent);
		}
	}

	void hear(State &s, const Sent &sent) const
	{
		xdr::Message message;
		const auto verdict = s.client.receive(bytes_of(sent.bytes), message);

		if (s.phase == Phase::asking) {
			s.fault.unless(verdict.action == Action::negotiate,
				       "the answer to the question is not taken for it");
			const auto answered =
				protocol::judge_answer(bytes_of(sent.bytes), Xid(kQuestion));
			const bool version_2 = sent.is == Is::connprop || sent.is == Is::inval_proc;

			/* As the text has it. */
			if (!version_2)
				s.avoid_until = s.now + 600000;
			protocol::take_up(s.client, answered);
			s.unproved = answered.answer == Answer::version_2 ||
				     answered.answer == Answer::defaults;
			conclude(s, answered.answer);
			s.fault.unless(version_2 ? s.phase == Phase::up && s.client.version() == 2 :
				       sent.is == Is::err_vers_1 ?
						   s.phase == Phase::up && s.client.version() == 1 :
						   s.phase == Phase::connecting,
				       "the answer is taken for another one");
			return;
		}
		s.fault.unless(message.version == s.client.version(),
			       "a message of another version than the client speaks");
		s.fault.unless(verdict.action == Action::deliver && sent.is == Is::reply,
			       "the client gets something else than a reply");
		s.replies++;
		s.unproved = false;
	}

	void reply(State &s, const std::string &text, Is is) const
	{
		send(s, true, {text, is});
	}

	/* As our server's receive completion has it. */
	void serve(State &s, const Sent &sent) const
	{
		const Bytes bytes = bytes_of(sent.bytes);
		const u32 parameter = static_cast<u32>(s.server);
		const auto request = xdr::peek(bytes).value();
		xdr::Message message;
		const auto verdict = s.responder.receive(bytes, message);
		auto refuse = [&](xdr::ErrorCode code) {
			reply(s, encoded([&](MutableBytes room) {
				      return s.responder.encode_refusal(room, request, Credits(1),
									s.responder.refusal(code));
			      }),
			      code == xdr::ErrorCode::version ? Is::err_vers_1 : Is::useless);
		};

		if (sent.is == Is::call) {
			s.fault.unless(verdict.action == Action::deliver, "a call is not served");
			s.fault.unless(s.responder.version() == s.client.version(),
				       "the call's version is not the server's");
			reply(s, rpc_message(s.responder, message.xid.get(), xdr::Direction::reply),
			      Is::reply);
			return;
		}
		s.fault.unless((verdict.action == Action::control) == (parameter != 0),
			       "a question for version 2 is not answered as the parameter says");
		if (verdict.action != Action::control) {
			refuse(verdict.refusal);
			return;
		}
		properties::Properties said;
		u32 fixed;
		s.fault.unless(properties::decode_connprop(message.body(), said, fixed) ==
				       Error::none,
			       "the client's properties do not decode");
		s.responder.take(said, fixed);
		reply(s, encoded([&](MutableBytes room) {
			      return protocol::encode_properties(room, message.xid, Credits(1),
								 {kServerSize, 0, 0}, 0);
		      }),
		      Is::connprop);
	}

	void serve_strangely(State &s, const Sent &sent) const
	{
		const auto request = xdr::peek(bytes_of(sent.bytes)).value();
		const u32 xid = request.xid.get();

		if (sent.is == Is::call) {
			s.fault.unless(!s.stranger_speaks || s.stranger_speaks == request.vers,
				       "a version amid another");
			s.stranger_speaks = request.vers;
			reply(s, rpc_message(request.vers, xid, xdr::Direction::reply), Is::reply);
			return;
		}
		auto connprop = [&](u32 with) { return words({with, 2, 1, 6, 1, 1, 4, kSaid, 0}); };
		switch (s.server) {
		case Server::in_tree:
			return reply(s, error_message(xid, 2, {1, 1, 1}), Is::err_vers_1);
		case Server::no_connprop:
			s.stranger_speaks = 2;
			return reply(s, error_message(xid, 2, {4}), Is::inval_proc);
		case Server::own_xid:
			s.stranger_speaks = 2;
			return reply(s, connprop(xid + 1), Is::connprop);
		case Server::only_2:
			return reply(s, error_message(xid, 2, {1, 2, 2}), Is::useless);
		case Server::only_3_to_9:
			return reply(s, error_message(xid, 2, {1, 3, 9}), Is::useless);
		case Server::only_0:
			return reply(s, error_message(xid, 2, {1, 0, 0}), Is::useless);
		case Server::wrong_xid:
			return reply(s, error_message(xid + 1, 2, {4}), Is::useless);
		case Server::wrong_vers_xid:
			return reply(s, error_message(xid + 1, 2, {1, 1, 1}), Is::useless);
		case Server::bad_property:
			return reply(s, words({xid, 2, 1, 6, 1, 1, 8, kSaid, 0, 0}), Is::useless);
		case Server::other_error:
			return reply(s, error_message(xid, 2, {5}), Is::useless);
		case Server::version_1_text:
			return reply(s, rpc_message(1, xid, xdr::Direction::reply), Is::useless);
		default:
			return; /* silence */
		}
	}

	static constexpr u32 kQuestion = 77;
	u32 parameter_;
};

/* --- a server, and anything that a client may send --- */

class Responder {
public:
	enum class What : u8 { nothing, reply, call, control, ranges, procedure, option, chunk };
	struct Kind {
		const char *name;
		std::string bytes;
		u32 version;	      /* 0: too short to have one */
		What what;	      /* in its own version */
		bool says = false;    /* all its properties */
		bool updates = false; /* some of them */
	};
	struct State {
		Fault fault;
		Session session;
		u32 speaks = 0; /* as the text has it; 0: nothing is settled */
		u8 messages = 0;
		/* As the text has them: what the client takes, and will not change of that; whether it began with that. */
		u32 takes = properties::default_receive_size;
		bool fixed = false;
		bool told = false;
	};

	/* What the server takes and sends at once in version 2. */
	static constexpr u32 kTakes = 5000, kSends = 16384;

	Responder(u32 parameter, bool mark)
		: parameter_(parameter),
		  mark_(mark),
		  possible_(parameter == 2 || (parameter == 1 && mark))
	{
		properties::Properties said;

		said.receive_size = kSaid;
		said.present = properties::bit(properties::Id::receive_size);
		kinds_ = {
			{"12 bytes", words({1, 2, 3}), 0, What::nothing},
			{"a call of version 1", rpc_message(1, 5, xdr::Direction::call), 1,
			 What::call},
			{"a call of version 2", rpc_message(2, 5, xdr::Direction::call), 2,
			 What::call},
			{"a CONNPROP", encoded([&](MutableBytes room) {
				 return v2::encode_connprop(room, Xid(5), Credits(1), said, 0);
			 }),
			 2, What::control, true},
			{"a REQPROP", words({5, 2, 1, 7, 0}), 2, What::control},
			{"an UPDPROP", words({5, 2, 1, 9, 1, 1, 4, kSaid}), 2, What::control, false,
			 true},
			{"a call of version 3", words({5, 3, 1, 0, 0, 0, 0, 5, 0}), 3, What::ranges},
			{"a call of version 0", words({5, 0, 1, 0, 0, 0, 0, 5, 0}), 3, What::ranges},
			{"version 1, no list", words({5, 1, 1, 0, 2, 0, 0, 5, 0}), 1, What::chunk},
			{"version 2, no list", words({5, 2, 1, 0, 0, 0, 2, 0, 0, 5, 0}), 2,
			 What::chunk},
			{"version 2, proc 3", words({5, 2, 1, 3}), 2, What::procedure},
			{"version 2, OPTIONAL 9", words({5, 2, 1, 5, 0, 9, 0}), 2, What::option},
			{"an ERROR of version 2", error_message(5, 2, {6}), 2, What::nothing},
			{"a malformed reply of version 2", words({5, 2, 1, 0, 1, 0, 2, 0, 0, 5, 1}),
			 2, What::reply},
		};
	}

	State first() const
	{
		const private_data::Properties ours = {kServerSize, kServerSize, true, false},
					       peer = {kClientSize, kClientSize, true, mark_};
		State s;

		s.session.begin(ours, peer);
		s.session.have_room(kTakes, kSends);
		if (protocol::may_mark(parameter_, kServerSize, kServerSize) &&
		    protocol::may_speak_2(parameter_, s.session.peer()))
			s.session.open();
		s.speaks = possible_ ? 0 : 1;
		s.fault.unless(s.session.rules().extra_receives == (possible_ ? 2u : 0u),
			       "Receives beyond the credits that are not needed, or are missing");
		return s;
	}
	std::string key(const State &s) const
	{
		return key_of(s.session) + words({s.speaks, s.messages, s.takes, s.fixed, s.told});
	}
	bool may_end(const State &s) const
	{
		return s.messages == 4;
	}
	void moves(const State &s, Moves<State> &next) const
	{
		if (!may_end(s))
			for (const Kind &kind : kinds_)
				handle(next.add(s, kind.name), kind);
	}

private:
	void handle(State &s, const Kind &kind) const
	{
		const Bytes bytes = bytes_of(kind.bytes);
		const bool before = s.speaks != 0;
		What wanted = kind.what;
		u32 low, high;
		xdr::Message message;

		s.messages++;
		const auto verdict = s.session.receive(bytes, message);
		/* What the text says. */
		if (!s.speaks && (kind.version == 1 || kind.version == 2))
			s.speaks = kind.version;
		if (kind.version && kind.version != s.speaks && wanted != What::nothing)
			wanted = What::ranges;
		if (wanted == What::reply)
			wanted = What::nothing;
		low = s.speaks ? s.speaks : 1;
		high = s.speaks ? s.speaks : 2;

		Fault &f = s.fault;
		switch (wanted) {
		case What::call:
			f.unless(verdict.action == Action::deliver && message.xid == Xid(5),
				 "a call is not delivered");
			break;
		case What::control:
			f.unless(verdict.action == Action::control,
				 "a property is not taken for one");
			break;
		case What::nothing:
			f.unless(verdict.action == Action::drop ||
					 (verdict.action == Action::deliver &&
					  message.kind == xdr::Kind::error),
				 "what is not to be answered is");
			break;
		default: {
			f.unless(verdict.action == Action::refuse, "what is to be refused is not");
			check_refusal(s, bytes, verdict.refusal, wanted, low, high);
			break;
		}
		}
		if (s.speaks)
			f.unless(s.session.version() == s.speaks,
				 "another version than the first message's");
		if (verdict.action == Action::control && (kind.says || kind.updates))
			hear(s, kind, !before);
		if (s.speaks == 2) {
			f.unless(
				s.session.thresholds().send == min(kSends, s.takes),
				"what the client said last does not count, or what it said before");
			f.unless(
				s.session.thresholds().receive ==
					(s.told ? kTakes : properties::default_receive_size),
				"another threshold from the client than what it was told at first");
		}
		if (verdict.action != Action::deliver)
			s.session.end_beginning();
		f.unless(s.session.rules().extra_receives == (s.speaks == 1 ? 0u : 2u),
			 "Receives beyond the credits that are not needed, or are missing");
	}

	/* A word with its properties: each CONNPROP tells another receive size, and every other one that it stays so. */
	void hear(State &s, const Kind &kind, bool first) const
	{
		properties::Properties said;

		said.present = properties::bit(properties::Id::receive_size);
		said.receive_size = kTakes + s.messages;
		if (kind.says) {
			s.fixed = s.messages % 2;
			s.told = s.told || first;
			s.takes = said.receive_size;
			s.session.take(said, s.fixed ? said.present : 0);
		} else {
			if (!s.fixed)
				s.takes = said.receive_size;
			s.session.update(said);
		}
	}

	void check_refusal(State &s, Bytes bytes, xdr::ErrorCode code, What wanted, u32 low,
			   u32 high) const
	{
		const auto request = xdr::peek(bytes).value();
		const std::string text = encoded([&](MutableBytes room) {
			return s.session.encode_refusal(room, request, Credits(3),
							s.session.refusal(code));
		});
		std::string right = words({5, request.vers, 3, 4});

		switch (wanted) {
		case What::ranges:
			right += words({1, low, high});
			break;
		case What::procedure:
			right += words({4});
			break;
		case What::option:
			right += words({5});
			break;
		default:
			right += words({2});
			break;
		}
		s.fault.unless(text == right, "another error than the text has");
	}

	u32 parameter_;
	bool mark_;
	bool possible_;
	std::vector<Kind> kinds_;
};

} // namespace

void explore_negotiation(Totals &totals)
{
	for (u32 parameter = 0; parameter <= 2; parameter++)
		totals.add(explore(("client, version2=" + std::to_string(parameter)).c_str(),
				   Meeting(parameter)));
	for (u32 parameter = 0; parameter <= 2; parameter++)
		for (const bool mark : {false, true})
			totals.add(explore(("server, version2=" + std::to_string(parameter) +
					    (mark ? ", marked client" : ", other client"))
						   .c_str(),
					   Responder(parameter, mark)));
}

} // namespace states
