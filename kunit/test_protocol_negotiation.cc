// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/protocol/negotiation: what a requester makes of each answer to its question, and for how long it remembers. No
 * port is needed. `make states` goes through all that may happen between two ends.
 */
#include "kunit/test_xdr_reference.hh"
#include "kunit/testing.hh"
#include "module/protocol/negotiation.hh"

namespace rpcordma {
namespace {

using protocol::Answer;
using protocol::judge_answer;
using xdr_reference::wire;

constexpr u32 kQuestion = 7;

Answer judged(Bytes bytes)
{
	return judge_answer(bytes, Xid(kQuestion)).answer;
}

void expect_properties(const properties::Properties &got, const properties::Properties &wanted)
{
	EXPECT_EQ(got.present, wanted.present);
	EXPECT_EQ(got.receive_size, wanted.receive_size);
	EXPECT_EQ(got.backward, wanted.backward);
	EXPECT_EQ(got.extensions, wanted.extensions);
	EXPECT_EQ(got.structure, wanted.structure);
	EXPECT_EQ(got.call_limit, wanted.call_limit);
	EXPECT_EQ(got.reply_limit, wanted.reply_limit);
}

} // namespace

/* What is no answer costs the connection; nothing but these four is one. */
RPCORDMA_TEST(protocol_negotiation, answers)
{
	const struct {
		u32 words[11];
		u32 length; /* bytes */
		Answer answer;
	} cases[] = {
		/* a CONNPROP, of any xid: without properties, with one, with one that is not known */
		{.words = {7, 2, 9, 6, 0, 0}, .length = 24, .answer = Answer::version_2},
		{.words = {8, 2, 9, 6, 0, 0}, .length = 24, .answer = Answer::version_2},
		{.words = {7, 2, 9, 6, 1, 1, 4, 8192, 0}, .length = 36, .answer = Answer::version_2},
		{.words = {7, 2, 9, 6, 1, 99, 4, 1, 0}, .length = 36, .answer = Answer::version_2},
		/* what it says cannot be read */
		{.words = {7, 2, 9, 6, 1, 1, 8, 1, 1, 0}, .length = 40, .answer = Answer::lost},
		{.words = {7, 2, 9, 6, 2, 1, 4, 8192, 0}, .length = 36, .answer = Answer::lost},
		/* errors: INVAL_PROC; ERR_VERS with version 1 in the range, and without */
		{.words = {7, 2, 9, 4, 4}, .length = 20, .answer = Answer::defaults},
		{.words = {7, 2, 9, 4, 1, 1, 1}, .length = 28, .answer = Answer::version_1},
		{.words = {7, 2, 9, 4, 1, 0, 5}, .length = 28, .answer = Answer::version_1},
		{.words = {7, 2, 9, 4, 1, 1, ~0u}, .length = 28, .answer = Answer::version_1},
		{.words = {7, 1, 9, 4, 1, 1, 1}, .length = 28, .answer = Answer::version_1},
		/* of a version that nobody speaks */
		{.words = {7, 99, 9, 4, 1, 1, 1}, .length = 28, .answer = Answer::version_1},
		{.words = {7, 2, 9, 4, 1, 2, 2}, .length = 28, .answer = Answer::lost},
		{.words = {7, 2, 9, 4, 1, 3, 9}, .length = 28, .answer = Answer::lost},
		{.words = {7, 2, 9, 4, 1, 0, 0}, .length = 28, .answer = Answer::lost},
		{.words = {7, 2, 9, 4, 1, 2, 1}, .length = 28, .answer = Answer::lost},
		/* to somebody else */
		{.words = {8, 2, 9, 4, 4}, .length = 20, .answer = Answer::lost},
		{.words = {8, 2, 9, 4, 1, 1, 1}, .length = 28, .answer = Answer::lost},
		/* the other errors, and one that there is not */
		{.words = {7, 2, 9, 4, 2}, .length = 20, .answer = Answer::lost},
		{.words = {7, 2, 9, 4, 3, 1, 1}, .length = 28, .answer = Answer::lost},
		{.words = {7, 2, 9, 4, 5}, .length = 20, .answer = Answer::lost},
		{.words = {7, 2, 9, 4, 6}, .length = 20, .answer = Answer::lost},
		{.words = {7, 2, 9, 4, 7}, .length = 20, .answer = Answer::lost},
		/* other kinds; version 1 */
		{.words = {7, 2, 9, 7, 0}, .length = 20, .answer = Answer::lost},
		{.words = {7, 2, 9, 8, 0, 0, 0}, .length = 28, .answer = Answer::lost},
		{.words = {7, 2, 9, 9, 0}, .length = 20, .answer = Answer::lost},
		{.words = {7, 2, 9, 0, 1, 0, 0, 0, 0, 7, 1}, .length = 44, .answer = Answer::lost},
		{.words = {7, 2, 9, 5, 1, 4, 0}, .length = 28, .answer = Answer::lost},
		{.words = {7, 1, 9, 0, 0, 0, 0, 7, 1}, .length = 36, .answer = Answer::lost},
		{.words = {7, 1, 9, 4, 2}, .length = 20, .answer = Answer::lost},
		{.words = {7, 1, 9, 6, 0, 0}, .length = 24, .answer = Answer::lost},
		{.words = {7, 3, 9, 6, 0, 0}, .length = 24, .answer = Answer::lost},
	};

	for (const auto &c : cases) {
		TEST_NOTE("case", u32(&c - cases));
		const ExactCopy bytes(Bytes(wire(c.words)).first(c.length));
		const auto answered = judge_answer(bytes.bytes(), Xid(kQuestion));

		EXPECT_EQ(answered.answer, c.answer);
		if (c.answer == Answer::version_2)
			EXPECT_EQ(answered.grant.get(), 9);
		/* Cut short it is no answer at all. */
		for (u32 n = 0; n < c.length; n++) {
			TEST_NOTE("length", n);
			const ExactCopy part(bytes.bytes().first(n));

			EXPECT_EQ(judged(part.bytes()), Answer::lost);
		}
	}
}

/* What we say of ourselves is what the peer understands. */
RPCORDMA_TEST(protocol_negotiation, properties)
{
	const protocol::ReceiveRoom rooms[] = {
		{4096, 0, 4096}, {8192, 0, 4096}, {4096, 4, 4096}, {65536, 16, 4096}};

	for (const protocol::ReceiveRoom &ours : rooms) {
		MutableBytes room = test_alloc(v2::most_connprop_length);
		const auto length = protocol::encode_properties(room, Xid(5), Credits(3), ours,
								protocol::kSizes);

		TEST_NOTE("size", ours.bytes());
		ASSERT_OK(length);
		const auto answered = judge_answer(room.first(length.value()), Xid(6));
		EXPECT_EQ(answered.answer, Answer::version_2);
		EXPECT_EQ(answered.grant.get(), 3);
		EXPECT_EQ(answered.properties.receive_bytes(), ours.head + ours.pages * 4096);
		EXPECT_EQ(answered.properties.ddp_segments(), ours.pages);
		EXPECT_EQ(answered.properties.structure.head(), ours.head);
		EXPECT_EQ(answered.fixed, properties::all & ~protocol::kSizes);
		/* Whole, as told and as decoded. */
		properties::Properties all;
		all.receive_size = ours.bytes();
		all.structure = {ours.bytes(), ours.pages, ours.pages ? ours.page_size : 0};
		all.extensions = 7;
		all.call_limit = 3;
		all.reply_limit = 5;
		all.present = properties::all;
		expect_properties(protocol::properties_of(ours, {7, 3, 5}), all);
		all.extensions = 0;
		all.call_limit = all.reply_limit = 1;
		expect_properties(answered.properties, all);
		all.present = protocol::kSizes;
		expect_properties(protocol::sizes_of(ours), all);
		EXPECT_ERROR(protocol::encode_properties(room.first(length.value() - 1), Xid(5),
							 Credits(3), ours, protocol::kSizes),
			     Error::no_space);
		/* And the news of it, which has these two alone. */
		const auto news = protocol::encode_sizes(room, Xid(5), Credits(3), ours);
		xdr::Message message;
		properties::Properties said;
		ASSERT_OK(news);
		ASSERT_EQ(v2::decode(room.first(news.value()), message), Error::none);
		EXPECT_EQ(message.kind, xdr::Kind::updprop);
		ASSERT_EQ(properties::decode_updprop(message.body(), said), Error::none);
		EXPECT_EQ(said.present, protocol::kSizes);
		EXPECT_EQ(said.receive_bytes(), ours.bytes());
		EXPECT_EQ(said.ddp_segments(), ours.pages);
	}
}

/* The mark is of those who speak version 2 and take its messages; and who is asked without one. */
RPCORDMA_TEST(protocol_negotiation, mark)
{
	private_data::Properties marked, unmarked;

	marked.mark = true;
	for (u32 parameter = 0; parameter < 3; parameter++) {
		TEST_NOTE("parameter", parameter);
		EXPECT_EQ(protocol::may_mark(parameter, 4096, 4096), parameter != 0);
		EXPECT_FALSE(protocol::may_mark(parameter, 4096, 3072));
		EXPECT_FALSE(protocol::may_mark(parameter, 3072, 4096));
		if (!parameter)
			continue;
		EXPECT_TRUE(protocol::may_speak_2(parameter, marked));
		EXPECT_EQ(protocol::may_speak_2(parameter, unmarked), parameter == 2);
	}
}

/* The question's outcome, at the session and at the next connection. */
RPCORDMA_TEST(protocol_negotiation, outcome)
{
	const struct {
		Answer answer;
		u32 version; /* 0: the session stays as it is */
		u32 send;
		bool avoids, again;
	} cases[] = {
		{.answer = Answer::version_2,
		 .version = 2,
		 .send = 8192,
		 .avoids = false,
		 .again = false},
		{.answer = Answer::defaults,
		 .version = 2,
		 .send = 4096,
		 .avoids = false,
		 .again = false},
		{.answer = Answer::version_1,
		 .version = 1,
		 .send = 16384,
		 .avoids = true,
		 .again = false},
		{.answer = Answer::lost, .version = 0, .send = 16384, .avoids = true, .again = true},
		{.answer = Answer::none, .version = 0, .send = 16384, .avoids = false, .again = false},
	};

	for (const auto &c : cases) {
		static const u32 call[] = {1, 2, 1, 0, 0, 0, 0, 0, 0, 1, 0};
		const private_data::Properties ours = {16384, 16384, true, true};
		protocol::Session session;
		protocol::Answered answered;
		protocol::Attempt attempt(true);
		xdr::Message message;

		TEST_NOTE("case", u32(&c - cases));
		session.begin(ours, ours);
		session.ask();
		answered.answer = c.answer;
		answered.properties.receive_size = 8192;
		take_up(session, answered);
		const auto verdict = session.receive(wire(call), message);
		EXPECT_EQ(verdict.action == protocol::Session::Action::negotiate, c.version == 0);
		if (c.version)
			EXPECT_EQ(session.version(), c.version);
		EXPECT_EQ(session.thresholds().send, c.send);
		EXPECT_EQ(protocol::did_not_go_along(c.answer), c.avoids);
		EXPECT_TRUE(attempt.marked());
		EXPECT_EQ(attempt.again(c.answer), c.again);
		EXPECT_EQ(attempt.marked(), !c.again);
	}
	EXPECT_FALSE(protocol::Attempt(false).marked());
}

/* Ten minutes from when it began, or began again. */
RPCORDMA_TEST(protocol_negotiation, avoidance)
{
	protocol::Avoidance avoidance;

	EXPECT_FALSE(avoidance.in_force(0));
	EXPECT_FALSE(avoidance.in_force(~0ull));
	for (u64 begin : {0ull, 5000ull, 1ull << 40}) {
		avoidance.begin(begin);
		EXPECT_TRUE(avoidance.in_force(begin));
		EXPECT_TRUE(avoidance.in_force(begin + 599999));
		EXPECT_FALSE(avoidance.in_force(begin + 600000));
	}
}

/* At once for ten minutes; by lost connections, if the second is within ten minutes of the first. */
RPCORDMA_TEST(protocol_negotiation, plainness)
{
	constexpr u64 while_ms = 600000;

	for (u64 begin : {0ull, 5000ull, 1ull << 40}) {
		protocol::Plainness told;

		TEST_NOTE("begin", begin);
		EXPECT_FALSE(told.in_force(begin));
		told.begin(begin);
		EXPECT_TRUE(told.in_force(begin));
		EXPECT_TRUE(told.in_force(begin + while_ms - 1));
		EXPECT_FALSE(told.in_force(begin + while_ms));
		for (u64 later : {u64(0), u64(1), while_ms - 1, while_ms, while_ms + 1}) {
			protocol::Plainness lost;
			const u64 again = begin + while_ms + later;

			TEST_NOTE("later", later);
			lost.connection_lost(begin + while_ms);
			EXPECT_FALSE(lost.in_force(begin + while_ms));
			lost.connection_lost(again);
			EXPECT_EQ(lost.in_force(again), later < while_ms);
			EXPECT_EQ(lost.in_force(again + while_ms - 1), later < while_ms);
			EXPECT_FALSE(lost.in_force(again + while_ms));
			/* Each counts for the next one. */
			lost.connection_lost(again + while_ms - 1);
			EXPECT_TRUE(lost.in_force(again + while_ms - 1));
			EXPECT_TRUE(lost.in_force(again + 2 * while_ms - 2));
			EXPECT_FALSE(lost.in_force(again + 2 * while_ms - 1));
		}
	}
}

static void expect_reduction(const protocol::Reduction &got, u32 extensions, u32 calls, u32 replies)
{
	EXPECT_EQ(got.extensions, extensions);
	EXPECT_EQ(got.call_limit, calls);
	EXPECT_EQ(got.reply_limit, replies);
}

/* What each end does of round-trip reduction by each value of the parameter; and what is kept of what a peer says. */
RPCORDMA_TEST(protocol_negotiation, reduction)
{
	for (u32 parameter = 0; parameter < 16; parameter++) {
		const u32 known = parameter & 7;
		/* XMTREQ and XMTCONT. */
		const u32 several = (known & 5) == 5 ? 4 : 1;
		const protocol::Reduction server = protocol::server_reduction(parameter),
					  client = protocol::client_reduction(parameter);

		TEST_NOTE("parameter", parameter);
		expect_reduction(server, known, several, several);
		expect_reduction(client, known, 1, 1);
		EXPECT_EQ(server.takes_groups(), known == 7);
		for (u32 which = 0; which < 8; which++)
			EXPECT_EQ(server.has(which), (known & which) == which);
	}
	protocol::PeerReduction peer;
	expect_reduction(peer.now(), 0, 1, 1);
	for (u32 extensions = 0; extensions < 16; extensions++)
		for (u32 calls : {1u, 2u, 254u, 255u, 256u, ~0u})
			for (u32 replies : {1u, 2u, 254u, 255u, 256u, ~0u}) {
				properties::Properties said;
				protocol::PeerReduction assigned;

				said.extensions = extensions;
				said.call_limit = calls;
				said.reply_limit = replies;
				peer.set(said);
				const protocol::PeerReduction copied(peer);
				assigned = peer;
				for (const protocol::PeerReduction *one :
				     {&std::as_const(peer), &copied, &std::as_const(assigned)})
					expect_reduction(one->now(), extensions & 7,
							 min(calls, 255u), min(replies, 255u));
			}
}

RPCORDMA_SUITE(protocol_negotiation, answers, properties, mark, outcome, avoidance, plainness,
	       reduction);

} // namespace rpcordma
