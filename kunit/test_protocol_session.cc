// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/protocol/session: what is to be done with each kind of message, and what both ends make of each other's
 * private data. No port is needed. What a message's header may be is the subject of test_xdr_v1.cc.
 */
#include "kunit/test_xdr_reference.hh"
#include "kunit/testing.hh"
#include "module/protocol/session.hh"

namespace rpcordma {
namespace {

using Session = protocol::Session;
using Action = protocol::Session::Action;
using xdr_reference::wire;

} // namespace

/* Version 1 has nothing to agree on: the first message is handled as all are, at either end. */
RPCORDMA_TEST(protocol_session, born_ready)
{
	static const u32 call[] = {7, 1, 32, 0, 0, 0, 0, 7, 0};
	Session session;
	xdr::Message message;

	EXPECT_EQ(session.version(), 1);
	EXPECT_EQ(session.rules().bare_header, 28);
	EXPECT_EQ(session.rules().transmissions, 1);
	EXPECT_EQ(session.rules().extra_receives, 0);
	EXPECT_TRUE(session.rules().responder_chooses_invalidation);
	const auto verdict = session.receive(wire(call), message);
	EXPECT_EQ(verdict.action, Action::deliver);
	EXPECT_EQ(message.xid.get(), 7);
	EXPECT_EQ(message.direction, xdr::Direction::call);
}

/* Each course of action of RFC 8166 4.2 and 4.5, and no message changes what the next one gets. */
RPCORDMA_TEST(protocol_session, verdicts)
{
	const struct {
		u32 words[9];
		u32 length; /* bytes */
		Action action;
		Error why;
		xdr::ErrorCode refusal = xdr::ErrorCode::chunk; /* of Action::refuse */
	} cases[] = {
		{.words = {7, 1, 1, 0, 0, 0, 0, 7, 1},
		 .length = 36,
		 .action = Action::deliver,
		 .why = Error::none},
		/* too short for anything, for its proc */
		{.words = {7, 1, 1, 0},
		 .length = 15,
		 .action = Action::drop,
		 .why = Error::message_size},
		{.words = {7, 1, 1, 0, 0, 0, 0},
		 .length = 27,
		 .action = Action::drop,
		 .why = Error::message_size},
		/* an error is never answered: of another version, of no known code */
		{.words = {7, 2, 1, 4, 2},
		 .length = 36,
		 .action = Action::drop,
		 .why = Error::bad_message},
		{.words = {7, 1, 1, 4, 9},
		 .length = 36,
		 .action = Action::drop,
		 .why = Error::bad_message},
		{.words = {7, 1, 1, 4, 2}, .length = 20, .action = Action::deliver, .why = Error::none},
		/* RDMA_DONE */
		{.words = {7, 1, 1, 3},
		 .length = 28,
		 .action = Action::drop,
		 .why = Error::bad_message},
		{.words = {7, 2, 1, 0},
		 .length = 36,
		 .action = Action::refuse,
		 .why = Error::no_protocol,
		 .refusal = xdr::ErrorCode::version},
		{.words = {7, 0, 1, 99},
		 .length = 16,
		 .action = Action::refuse,
		 .why = Error::no_protocol,
		 .refusal = xdr::ErrorCode::version},
		/* RDMA_MSGP, a proc that there is not, a list that is none */
		{.words = {7, 1, 1, 2},
		 .length = 36,
		 .action = Action::refuse,
		 .why = Error::not_supported},
		{.words = {7, 1, 1, 5}, .length = 36, .action = Action::refuse, .why = Error::protocol},
		{.words = {7, 1, 1, 0, 2},
		 .length = 36,
		 .action = Action::refuse,
		 .why = Error::protocol},
		/* the payload has another xid, is neither call nor reply, is cut short */
		{.words = {7, 1, 1, 0, 0, 0, 0, 8, 0},
		 .length = 36,
		 .action = Action::refuse,
		 .why = Error::protocol},
		{.words = {7, 1, 1, 0, 0, 0, 0, 7, 2},
		 .length = 36,
		 .action = Action::refuse,
		 .why = Error::protocol},
		{.words = {7, 1, 1, 0, 0, 0, 0, 7, 0},
		 .length = 35,
		 .action = Action::refuse,
		 .why = Error::protocol},
	};
	Session session;

	for (u32 turn = 0; turn < 2; turn++)
		for (const auto &c : cases) {
			xdr::Message message;
			TEST_NOTE("case", u32(&c - cases));
			const ExactCopy bytes(Bytes(wire(c.words)).first(c.length));
			const auto verdict = session.receive(bytes.bytes(), message);

			EXPECT_EQ(verdict.action, c.action);
			EXPECT_EQ(verdict.why, c.why);
			if (c.action == Action::refuse)
				EXPECT_EQ(verdict.refusal, c.refusal);
			EXPECT_EQ(session.version(), 1);
		}
}

/* A refusal echoes xid and version of what it refuses, and says which versions are spoken. */
RPCORDMA_TEST(protocol_session, refusals)
{
	static const u32 strange[] = {0x12345678, 3, 99, 17, 1, 2};
	static const u32 of_version[] = {0x12345678, 3, 32, 4, 1, 1, 1};
	static const u32 of_chunk[] = {0x12345678, 3, 32, 4, 2};
	MutableBytes room = test_alloc(28);
	const xdr::FixedHeader request = xdr::peek(wire(strange)).value();
	const Session session;

	auto refuse = [&](MutableBytes to, xdr::ErrorCode code) {
		return session.encode_refusal(to, request, Credits(32), session.refusal(code));
	};
	auto length = refuse(room, xdr::ErrorCode::version);
	ASSERT_OK(length);
	EXPECT_BYTES(Bytes(room.first(length.value())), Bytes(wire(of_version)));
	/* Version 1 has one word for all the others. */
	for (const auto code :
	     {xdr::ErrorCode::chunk, xdr::ErrorCode::reply_resource, xdr::ErrorCode::system}) {
		length = refuse(room, code);
		ASSERT_OK(length);
		EXPECT_BYTES(Bytes(room.first(length.value())), Bytes(wire(of_chunk)));
	}
	EXPECT_ERROR(refuse(room.first(27), xdr::ErrorCode::version), Error::no_space);
}

/* RFC 8797 4.2, 5.1: the smaller of what one sends and the other takes; the default for a peer that says nothing. */
RPCORDMA_TEST(protocol_session, thresholds)
{
	for (u32 ours : {1024u, 4096u, 65536u})
		for (u32 theirs : {1024u, 2048u, 65536u}) {
			Session session;
			private_data::Properties us, peer;

			us.send_size = ours;
			us.receive_size = 2 * ours;
			peer.send_size = theirs;
			peer.receive_size = 3 * theirs;
			peer.remote_invalidation = true;
			session.begin(us, peer);
			EXPECT_EQ(session.thresholds().send, min(ours, 3 * theirs));
			EXPECT_EQ(session.thresholds().receive, min(2 * ours, theirs));
			EXPECT_EQ(session.thresholds().bare_header, 28);
			EXPECT_EQ(session.thresholds().transmissions, 1);
			EXPECT_TRUE(session.peer().remote_invalidation);

			session.begin(us, Error::no_protocol);
			EXPECT_EQ(session.thresholds().send, 1024);
			EXPECT_EQ(session.thresholds().receive, 1024);
			EXPECT_FALSE(session.peer().remote_invalidation);
		}
}

/* While it is open, the first message of a version that is spoken decides; what came before it changes nothing. */
RPCORDMA_TEST(protocol_session, open)
{
	static const u32 of_3[] = {7, 3, 1, 0, 0, 0, 0, 7, 0}, of_1[] = {7, 1, 1, 0, 0, 0, 0, 7, 0},
			 of_2[] = {7, 2, 1, 0, 0, 0, 0, 0, 0, 7, 0};
	for (const u32 version : {1u, 2u}) {
		const Bytes own = version == 1 ? Bytes(wire(of_1)) : Bytes(wire(of_2));
		const Bytes foreign = version == 1 ? Bytes(wire(of_2)) : Bytes(wire(of_1));
		Session session;
		xdr::Message message;

		TEST_NOTE("version", version);
		session.begin({}, Error::no_protocol);
		EXPECT_EQ(session.rules().extra_receives, 0);
		session.open();
		EXPECT_EQ(session.rules().extra_receives, 2);
		EXPECT_EQ(session.receive(own.first(15), message).action, Action::drop);
		auto verdict = session.receive(wire(of_3), message);
		EXPECT_EQ(verdict.action, Action::refuse);
		EXPECT_EQ(verdict.refusal, xdr::ErrorCode::version);
		EXPECT_EQ(session.refusal(verdict.refusal).low, 1);
		EXPECT_EQ(session.refusal(verdict.refusal).high, 2);
		EXPECT_EQ(session.receive(own, message).action, Action::deliver);
		EXPECT_EQ(session.version(), version);
		EXPECT_EQ(session.rules().extra_receives, version == 2 ? 2 : 0);
		for (const Bytes &other : {foreign, Bytes(wire(of_3))}) {
			verdict = session.receive(other, message);
			EXPECT_EQ(verdict.action, Action::refuse);
			EXPECT_EQ(verdict.refusal, xdr::ErrorCode::version);
			EXPECT_EQ(session.refusal(verdict.refusal).low, version);
			EXPECT_EQ(session.refusal(verdict.refusal).high, version);
			EXPECT_EQ(session.version(), version);
		}
	}
}

/* RBSIZ says what a peer takes, and private data no longer do; it sends as much as we take. */
RPCORDMA_TEST(protocol_session, properties)
{
	static const u32 connprop[] = {7, 2, 1, 6, 0, 0},
			 call[] = {7, 2, 1, 0, 0, 0, 0, 0, 0, 7, 0};

	for (const u32 theirs : {1024u, 4096u, 65536u})
		for (const u32 size : {4096u, 5000u, 65536u}) {
			const private_data::Properties ours = {16384, 16384, true, true},
						       peer = {theirs, theirs, true, true};
			properties::Properties said;
			xdr::Message message;
			Session session;

			TEST_NOTE("theirs", theirs);
			TEST_NOTE("size", size);
			said.receive_size = size;
			session.begin(ours, peer);
			session.open();
			EXPECT_EQ(session.thresholds().send, min(16384u, theirs));
			EXPECT_EQ(session.receive(wire(connprop), message).action, Action::control);
			EXPECT_EQ(session.version(), 2);
			EXPECT_EQ(session.thresholds().send, 4096);
			EXPECT_EQ(session.thresholds().receive, 4096);
			EXPECT_EQ(session.thresholds().bare_header, 36);
			session.take(said, 0);
			EXPECT_EQ(session.thresholds().send, min(16384u, size));
			EXPECT_EQ(session.thresholds().receive, 16384);
			/* What this end has room for may be more than it told before. */
			session.have_room(20480, 32768);
			EXPECT_EQ(session.thresholds().send, min(32768u, size));
			EXPECT_EQ(session.thresholds().receive, 20480);
			/* Any time again. */
			for (const u32 later : {4096u, 20480u, 65536u}) {
				said.receive_size = later;
				EXPECT_EQ(session.receive(wire(connprop), message).action,
					  Action::control);
				session.take(said, 0);
				EXPECT_EQ(session.thresholds().send, min(32768u, later));
				EXPECT_EQ(session.properties().receive_size, later);
				EXPECT_EQ(session.thresholds().receive, 20480);
			}
		}
	/* Behind another message the threshold from the peer stays: what it is told may not have come yet. */
	for (const bool refused : {false, true}) {
		Session session;
		properties::Properties said;
		xdr::Message message;

		TEST_NOTE("refused", refused);
		said.receive_size = 8192;
		session.begin({16384, 16384, true, true}, Error::no_protocol);
		session.open();
		EXPECT_EQ(session.receive(refused ? wire(connprop) : wire(call), message).action,
			  refused ? Action::control : Action::deliver);
		if (refused)
			session.end_beginning();
		EXPECT_EQ(session.receive(wire(connprop), message).action, Action::control);
		session.take(said, 0);
		EXPECT_EQ(session.thresholds().send, 8192);
		EXPECT_EQ(session.thresholds().receive, 4096);
	}
}

/* Some properties change, but none that was said to stay; a CONNPROP says all of them anew. */
RPCORDMA_TEST(protocol_session, updates)
{
	const u32 size = properties::bit(properties::Id::receive_size);

	for (const bool fixed : {false, true}) {
		Session session;
		properties::Properties all, some;

		TEST_NOTE("fixed", fixed);
		session.begin({16384, 16384, true, true}, Error::no_protocol);
		session.ask();
		session.speak(2);
		all.present = properties::all;
		all.receive_size = 5000;
		all.call_limit = 3;
		session.take(all, fixed ? size : 0);
		some.present = size;
		some.receive_size = 6000;
		session.update(some);
		EXPECT_EQ(session.thresholds().send, fixed ? 5000 : 6000);
		EXPECT_EQ(session.properties().call_limit, 3);
		/* Nothing of it is said: nothing changes. */
		some.present = 0;
		some.receive_size = 7000;
		session.update(some);
		EXPECT_EQ(session.thresholds().send, fixed ? 5000 : 6000);
		all.receive_size = 8000;
		session.take(all, 0);
		EXPECT_EQ(session.thresholds().send, 8000);
		some.present = size;
		session.update(some);
		EXPECT_EQ(session.thresholds().send, 7000);
	}
}

/* What a message to a peer may have is one word: bytes and segments of one moment. */
RPCORDMA_TEST(protocol_session, peer_room)
{
	protocol::PeerRoom room;

	EXPECT_EQ(room.now().bytes, 0);
	EXPECT_EQ(room.now().structure.total, 0);
	room.set({~0u, {20480, 4, 4096}});
	EXPECT_EQ(room.now().bytes, ~0u);
	EXPECT_EQ(room.now().structure, (properties::Structure{20480, 4, 4096}));
	protocol::PeerRoom copy(room);
	room.set({1, {1024, 1, 1024}});
	EXPECT_EQ(copy.now().bytes, ~0u);
	EXPECT_EQ(copy.now().structure, (properties::Structure{20480, 4, 4096}));
	copy = room;
	EXPECT_EQ(copy.now().bytes, 1);
	EXPECT_EQ(copy.now().structure, (properties::Structure{1024, 1, 1024}));
	/* The most that a structure may be, each by itself, is kept or nothing is. */
	const properties::Structure kept[] = {{4096 + 1023 * 1024, 1023, 1024},
					      {1023 * 1024 + 1024, 1, 1024},
					      {1024 + 1023 * 1024, 1, 1023 * 1024},
					      {8192, 2, 4096}};
	for (const auto &structure : kept) {
		room.set({1, structure});
		EXPECT_EQ(room.now().structure, structure);
	}
	const properties::Structure none[] = {{4096, 0, 0},
					      {1024 * 1025, 1024, 1024},
					      {5000 + 4096, 1, 4096},
					      {1024 * 1025 + 1024, 1, 1024},
					      {4096 + 5000, 1, 5000},
					      {1024 * 1025, 1, 1024},
					      {1024 * 1025, 1, 1024 * 1024}};
	for (const auto &structure : none) {
		room.set({1, structure});
		EXPECT_EQ(room.now().structure, (properties::Structure{}));
	}
}

/* In version 2: what is wrong with a call gets its own error, what is wrong with a reply none. */
RPCORDMA_TEST(protocol_session, verdicts_2)
{
	const struct {
		u32 words[11];
		u32 length; /* bytes */
		Action action;
		xdr::ErrorCode refusal = xdr::ErrorCode::chunk; /* of Action::refuse */
	} cases[] = {
		{.words = {7, 2, 1, 0, 0, 0, 0, 0, 0, 7, 0}, .length = 44, .action = Action::deliver},
		{.words = {7, 2, 1, 0, 1, 0, 0, 0, 0, 7, 1}, .length = 44, .action = Action::deliver},
		{.words = {7, 2, 1, 0}, .length = 15, .action = Action::drop},
		/* errors, and what is none */
		{.words = {7, 2, 1, 4, 6}, .length = 20, .action = Action::deliver},
		{.words = {7, 2, 1, 4, 7}, .length = 20, .action = Action::drop},
		{.words = {7, 2, 1, 4, 1, 1, 1}, .length = 27, .action = Action::drop},
		/* MSG: cut short, no direction, no list, another xid, another direction */
		{.words = {7, 2, 1, 0, 0, 0, 0, 0, 0, 7, 0}, .length = 35, .action = Action::refuse},
		{.words = {7, 2, 1, 0, 2, 0, 0, 0, 0, 7, 0}, .length = 44, .action = Action::refuse},
		{.words = {7, 2, 1, 0, 0, 0, 2, 0, 0, 7, 0}, .length = 44, .action = Action::refuse},
		{.words = {7, 2, 1, 0, 0, 0, 0, 0, 0, 8, 0}, .length = 44, .action = Action::refuse},
		{.words = {7, 2, 1, 0, 0, 0, 0, 0, 0, 7, 1}, .length = 44, .action = Action::refuse},
		{.words = {7, 2, 1, 1, 0, 0, 0, 0, 0}, .length = 36, .action = Action::refuse},
		{.words = {7, 2, 1, 0, 1, 0, 0, 0, 0, 7, 0}, .length = 35, .action = Action::drop},
		{.words = {7, 2, 1, 0, 1, 0, 2, 0, 0, 7, 1}, .length = 44, .action = Action::drop},
		{.words = {7, 2, 1, 0, 1, 0, 0, 0, 0, 7, 0}, .length = 44, .action = Action::drop},
		{.words = {7, 2, 1, 1, 1, 0, 0, 0, 0}, .length = 36, .action = Action::drop},
		/* procs that there are not; options */
		{.words = {7, 2, 1, 2},
		 .length = 16,
		 .action = Action::refuse,
		 .refusal = xdr::ErrorCode::procedure},
		{.words = {7, 2, 1, 10},
		 .length = 16,
		 .action = Action::refuse,
		 .refusal = xdr::ErrorCode::procedure},
		{.words = {7, 2, 1, 5, 0, 5, 0},
		 .length = 28,
		 .action = Action::refuse,
		 .refusal = xdr::ErrorCode::option},
		{.words = {7, 2, 1, 5, 0, 2, 0},
		 .length = 28,
		 .action = Action::refuse,
		 .refusal = xdr::ErrorCode::option},
		{.words = {7, 2, 1, 5, 0, 3, 0}, .length = 28, .action = Action::refuse},
		{.words = {7, 2, 1, 5, 1, 1, 0}, .length = 28, .action = Action::drop},
		{.words = {7, 2, 1, 5, 0, 3, 12, 1, 1, 0}, .length = 40, .action = Action::control},
		/* properties */
		{.words = {7, 2, 1, 6, 0, 0}, .length = 24, .action = Action::control},
		{.words = {7, 2, 1, 7, 0}, .length = 20, .action = Action::control},
		{.words = {7, 2, 1, 8, 0, 0, 0}, .length = 28, .action = Action::control},
		{.words = {7, 2, 1, 9, 0}, .length = 20, .action = Action::control},
		{.words = {7, 2, 1, 6, 1, 0}, .length = 24, .action = Action::refuse},
		{.words = {7, 2, 1, 7}, .length = 16, .action = Action::refuse},
		{.words = {7, 2, 1, 8, 0, 0}, .length = 24, .action = Action::drop},
		/* other versions; an error of one says nothing that is known */
		{.words = {7, 1, 1, 0, 0, 0, 0, 7, 0},
		 .length = 36,
		 .action = Action::refuse,
		 .refusal = xdr::ErrorCode::version},
		{.words = {7, 1, 1, 4, 2}, .length = 20, .action = Action::drop},
	};
	Session session;

	session.begin({}, Error::no_protocol);
	session.speak(2);
	for (u32 turn = 0; turn < 2; turn++)
		for (const auto &c : cases) {
			xdr::Message message;
			TEST_NOTE("case", u32(&c - cases));
			const ExactCopy bytes(Bytes(wire(c.words)).first(c.length));
			const auto verdict = session.receive(bytes.bytes(), message);

			EXPECT_EQ(verdict.action, c.action);
			if (c.action == Action::refuse)
				EXPECT_EQ(verdict.refusal, c.refusal);
			EXPECT_EQ(session.version(), 2);
		}
}

/* The numbers of each version, once more. */
RPCORDMA_TEST(protocol_session, rules)
{
	static const protocol::Rules wanted[] = {
		{1, 28, 0, 1024, 1, 0, true, false, false},
		{2, 36, 0, 4096, 1, 2, false, true, true},
	};

	for (const protocol::Rules &w : wanted) {
		const protocol::Rules got = protocol::rules_of(w.version);

		TEST_NOTE("version", w.version);
		EXPECT_EQ(got.version, w.version);
		EXPECT_EQ(got.bare_header, w.bare_header);
		EXPECT_EQ(got.continuation_header, w.continuation_header);
		EXPECT_EQ(got.default_threshold, w.default_threshold);
		EXPECT_EQ(got.transmissions, w.transmissions);
		EXPECT_EQ(got.extra_receives, w.extra_receives);
		EXPECT_EQ(got.responder_chooses_invalidation, w.responder_chooses_invalidation);
		EXPECT_EQ(got.tells_direction, w.tells_direction);
		EXPECT_EQ(got.properties, w.properties);
		EXPECT_TRUE(protocol::Spoken::speak(w.version));
	}
	EXPECT_FALSE(protocol::Spoken::speak(0));
	EXPECT_FALSE(protocol::Spoken::speak(3));
	EXPECT_EQ(protocol::Spoken::lowest(), 1);
	EXPECT_EQ(protocol::Spoken::highest(), 2);
	EXPECT_EQ(protocol::Spoken::preferred(), 1);
	EXPECT_EQ(protocol::Spoken::most(&protocol::Rules::extra_receives), 2);
	EXPECT_EQ(protocol::Spoken::most(&protocol::Rules::bare_header), 36);
	EXPECT_EQ(protocol::kTransmissions, 1);
}

/* Headers of a session are those of its version: with all that an envelope says, at room for them and at a byte less. */
RPCORDMA_TEST(protocol_session, headers)
{
	static const u32 of_1[] = {7, 1, 9, 0, 0, 0, 0},
			 lone_1[] = {7, 1, 9, 0, 0, 1, 1, 5, 6, 0, 8, 0, 0},
			 nomsg_1[] = {7, 1, 9, 1, 1, 0, 5, 6, 0, 8, 0, 0, 0},
			 of_2[] = {7, 2, 9, 0, 1, 3, 0, 0, 0},
			 lone_2[] = {7, 2, 9, 0, 1, 3, 0, 1, 1, 5, 6, 0, 8, 0, 0},
			 nomsg_2[] = {7, 2, 9, 1, 1, 3, 1, 0, 5, 6, 0, 8, 0, 0, 0};
	const xdr::Segment segment = {Rkey(5), 6, 8};

	for (const u32 version : {1u, 2u}) {
		Session session;
		xdr::Envelope envelope;
		const MutableBytes wanted[] = {
			version == 1 ? wire(of_1) : wire(of_2),
			version == 1 ? wire(lone_1) : wire(lone_2),
			version == 1 ? wire(nomsg_1) : wire(nomsg_2),
		};
		const auto encode = [&](u32 which, MutableBytes room) -> Result<u32> {
			if (which == 0)
				return session.encode_bare(room, envelope);
			if (which == 1)
				return session.encode_lone(room, envelope, {false, {}, segment});
			xdr::Envelope nomsg = envelope;

			nomsg.kind = xdr::Kind::nomsg;
			return session.encode(room, nomsg, [&](xdr::ListEncoder &encoder) {
				encoder.read_segment(Position(0), segment);
			});
		};

		TEST_NOTE("version", version);
		session.speak(version);
		envelope.xid = Xid(7);
		envelope.credits = Credits(9);
		envelope.direction = xdr::Direction::reply;
		envelope.invalidate = Rkey(3);
		for (u32 which = 0; which < 3; which++) {
			const u32 length = u32(wanted[which].size());
			const MutableBytes room = test_alloc(length);

			TEST_NOTE("header", which);
			EXPECT_ERROR(encode(which, room.first(length - 1)), Error::no_space);
			const auto got = encode(which, room);
			ASSERT_OK(got);
			EXPECT_EQ(got.value(), length);
			EXPECT_BYTES(Bytes(room), Bytes(wanted[which]));
		}
		const MutableBytes room = test_alloc(64);
		EXPECT_ERROR(session.encode_lone(room, envelope, {true, Position(0), segment}),
			     Error::invalid);
		EXPECT_ERROR(session.encode_continuation(room, envelope, 1), Error::invalid);
	}
}

/* Round-trip reduction of this end and of the peer, and the Receives for it, are of a version with properties alone. */
RPCORDMA_TEST(protocol_session, reduction)
{
	for (const u32 version : {1u, 2u})
		for (const u32 extensions : {0u, 7u})
			for (const u32 receives : {0u, 16u}) {
				Session session;
				properties::Properties said;

				TEST_NOTE("version", version);
				TEST_NOTE("extensions", extensions);
				TEST_NOTE("receives", receives);
				session.begin({}, Error::no_protocol);
				session.reduce_by({extensions, 3, 5}, receives);
				session.open();
				/* As it may still become version 2. */
				EXPECT_EQ(session.rules().extra_receives, 2);
				session.speak(version);
				EXPECT_EQ(session.rules().extra_receives,
					  version == 2 ? 2 + receives : 0);
				EXPECT_EQ(session.reduces(), version == 2 && extensions);
				EXPECT_EQ(session.reduction().extensions, extensions);
				EXPECT_EQ(session.reduction().call_limit, 3);
				EXPECT_EQ(session.reduction().reply_limit, 5);
				EXPECT_EQ(session.peer_reduction().extensions, 0);
				said.extensions = 5;
				said.call_limit = 2;
				said.reply_limit = 4;
				session.take(said, 0);
				const protocol::Reduction peer = session.peer_reduction();
				EXPECT_EQ(peer.extensions, version == 2 ? 5 : 0);
				EXPECT_EQ(peer.call_limit, version == 2 ? 2 : 1);
				EXPECT_EQ(peer.reply_limit, version == 2 ? 4 : 1);
			}
}

/* While a message is collected, all that can be decoded is the connection's to look at. */
RPCORDMA_TEST(protocol_session, collecting)
{
	static const u32 plain[] = {7, 2, 1, 0, 0, 0, 0, 0, 0, 7, 0}, refusal[] = {7, 2, 1, 4, 4},
			 no_header[] = {7, 2, 1, 0, 2, 0, 0, 0, 0};
	Session session;
	xdr::Message message;

	session.begin({}, Error::no_protocol);
	session.speak(2);
	for (const bool begun : {false, true, false}) {
		const Action action = begun ? Action::control : Action::deliver;

		TEST_NOTE("begun", begun);
		session.collect(begun);
		EXPECT_EQ(session.receive(wire(plain), message).action, action);
		EXPECT_EQ(message.xid.get(), 7);
		EXPECT_EQ(session.receive(wire(refusal), message).action, action);
		EXPECT_EQ(session.receive(wire(no_header), message).action, Action::refuse);
	}
	session.speak(1);
	session.collect(true);
	static const u32 plain_1[] = {7, 1, 1, 0, 0, 0, 0, 7, 0};
	EXPECT_EQ(session.receive(wire(plain_1), message).action, Action::deliver);
}

RPCORDMA_SUITE(protocol_session, born_ready, verdicts, refusals, thresholds, open, properties,
	       updates, peer_room, verdicts_2, rules, headers, reduction, collecting);

} // namespace rpcordma
