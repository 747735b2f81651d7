// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client and version 2: module/client/negotiate.cc and aside.cc. What becomes of the question which version is
 * spoken; and what calls, replies, errors and messages about the connection are like afterwards. Messages are
 * written out word by word where their form is what matters.
 */
#include "kunit/test_client_requester.hh"

namespace rpcordma {
namespace {

/* Servers, as their private data have them. */
constexpr private_data::Properties kMarked = {4096, 4096, true, true};
constexpr private_data::Properties kUnmarked = {4096, 4096, true, false};

/* A grant that is neither what there was before nor what is asked for. */
constexpr u32 kGrant = 20;
/* Receives beyond those that are counted on. */
constexpr u32 kBatch = ReceiveQueue::kBatch;
constexpr u32 kAvoidMs = 600000;

/* Private data with a mark behind RFC 8797's eight bytes. */
constexpr u32 kMarkedLength = 16, kPlainLength = 8;

/* Of a message that is long without its item: before it, between the two in memory, behind it; what stands there. */
constexpr u32 kWide = 4048, kGap = 16, kTail = 8, kRest = 77;
constexpr u8 kTailByte = 0x7a;

/* A message of @version, which is right. */
xdr::Message decoded_of(u32 version, Bytes bytes)
{
	return version == 1 ? decoded(bytes) : decoded2(bytes);
}

/* RDMA_NOMSG that returns @offered, of which so many bytes are used. */
template <typename Maker>
bool deliver_with_chunks(Requester &r, Maker &&answer, const xdr::Message &offered, u32 written,
			 u32 replied)
{
	for (const xdr::WriteChunk chunk : offered.writes)
		answer.encoder.write_chunk(chunk, written);
	answer.encoder.reply_chunk(offered.reply, replied);
	answer.finish(0, kReplyMessage);
	return r.deliver(answer.message());
}

/* A client whose administrator lets it speak version 2. */
struct Requester2 : Requester {
	explicit Requester2(u32 parameter = 1)
	{
		rpcordma_tunables.version2 = parameter;
	}
	/* Messages so far that ask for version 2: nothing else is sent while connecting. */
	[[nodiscard]] u32 questions() const
	{
		return peer.messages;
	}
	[[nodiscard]] u32 version() const
	{
		return connection()->session.version();
	}
	[[nodiscard]] bool backs_off() const
	{
		return rpcordma_core_client_should_back_off(core);
	}
	/* The last message's xid. */
	[[nodiscard]] u32 last_xid() const
	{
		return xdr::load_be32(peer.message);
	}
	[[nodiscard]] bool say(Span<const u32> words)
	{
		return deliver(RawMessage(words).message());
	}
	/* A CONNPROP: RBSIZ, and that nothing is said not to change. */
	[[nodiscard]] bool say_properties(u32 xid, u32 grant = kGrant, u32 receive_size = 4096)
	{
		const u32 words[] = {xid, 2, grant, 6, 1, 1, 4, receive_size, 0};

		return say(words);
	}
	void event(rpcordma_endpoint_event e)
	{
		rpcordma_core_endpoint_event(verbs.requester, e);
	}
	/* What connect() says when the server answers the question by @answer(), or never if that does nothing. */
	template <typename Answer> [[nodiscard]] int ask(Answer answer)
	{
		have_done_meanwhile(answer);
		const int rc = rpcordma_core_client_connect(core);
		sync.meanwhile = nullptr;
		return rc;
	}
	void to(const private_data::Properties &server)
	{
		verbs.answer_length = private_data::encode(verbs.answer, server).value();
	}
	/* A reply of @size bytes, inline. */
	[[nodiscard]] bool reply2(u32 xid, u32 size, u32 credits = kGrant)
	{
		Reply2Maker reply(xid, credits);

		reply.finish(size, kReplyMessage);
		return deliver(reply.message());
	}
	/* A connection of version 2. */
	void connect2(bool backchannel = false, u32 grant = kGrant, u32 receive_size = 4096)
	{
		to(kMarked);
		if (backchannel) {
			sunrpc.service = true;
			EXPECT_EQ(rpcordma_core_bc_setup(core, 1), 0);
		}
		EXPECT_EQ(ask([&] { EXPECT_TRUE(say_properties(7, grant, receive_size)); }), 0);
		ASSERT_NE(connection(), nullptr);
		EXPECT_EQ(version(), 2);
	}
	/* A server with the mark, and a connection of this version all the same. */
	void connect_to(u32 version_of_it)
	{
		if (version_of_it == 2)
			return connect2();
		to(kMarked);
		EXPECT_EQ(ask([&] {
				  const u32 refusal[] = {last_xid(), 2, 1, 4, 1, 1, 1};
				  EXPECT_TRUE(say(refusal));
			  }),
			  0);
		EXPECT_EQ(version(), 1);
	}
	void connect_unmarked()
	{
		to(kUnmarked);
		EXPECT_EQ(rpcordma_core_client_connect(core), 0);
		EXPECT_EQ(version(), 1);
	}
	bool answer_of(u32 version_of_it, u32 xid, u32 size)
	{
		return version_of_it == 1 ? reply(xid, size) : reply2(xid, size);
	}
	/* A call, or one whose reply may be, so long without its item of @size bytes that it fits no message inline. */
	[[nodiscard]] rpc_rqst *prepare_wide(u32 xid, u32 size, bool of_reply)
	{
		rpc_rqst *call = prepare(xid, of_reply ? 40 : kWide, of_reply ? kWide : 200);
		rpcordma_xdr_buf &buf = of_reply ? call->receive : call->send;
		u8 *const head = static_cast<u8 *>(buf.head.base);
		const u32 before = buf.len;

		add_pages(call, size, of_reply);
		/* Where add_pages() has the pad. */
		for (u32 i = 0; !of_reply && i < xdr_pad(size); i++)
			head[kRoom / 2 + i] = call_pattern(kRoom / 2 + i);
		buf.tail = {head + kWide + kGap, xdr_pad(size) + kTail};
		__builtin_memset(buf.tail.base, 0, xdr_pad(size));
		__builtin_memset(static_cast<u8 *>(buf.tail.base) + xdr_pad(size), kTailByte, kTail);
		if (!of_reply)
			buf.len = before + size + xdr_pad(size) + kTail;
		buf.buflen += kTail;
		return call;
	}
	[[nodiscard]] bool deliver_returned(u32 version_of_it, u32 xid, const xdr::Message &offered,
					    u32 written, u32 replied)
	{
		if (version_of_it == 1)
			return deliver_with_chunks(*this, CallMaker(xid, 32, xdr::Kind::nomsg),
						   offered, written, replied);
		return deliver_with_chunks(*this, Reply2Maker(xid, 32, xdr::Kind::nomsg), offered,
					   written, replied);
	}
	/* The next connection is made without a question, or with one. */
	void expect_next(bool asked)
	{
		const u32 before = questions(), connects = verbs.connects;

		rpcordma_core_client_close(core);
		EXPECT_EQ(ask([&] { EXPECT_TRUE(say_properties(7)); }), 0);
		EXPECT_EQ(questions(), before + (asked ? 1 : 0));
		EXPECT_EQ(verbs.connects, connects + 1);
		EXPECT_EQ(version(), asked ? 2 : 1);
		EXPECT_EQ(stats().agreed.version, asked ? 2 : 1);
		/* The mark says what we can, not what we do. */
		EXPECT_EQ(verbs.parameters.private_data_length, kMarkedLength);
	}
	/* No question for ten minutes; then there is one. */
	void expect_avoided()
	{
		const u64 begin = sync.now;

		expect_next(false);
		sync.now = begin + kAvoidMs - 1;
		expect_next(false);
		sync.now = begin + kAvoidMs;
		expect_next(true);
	}
};

/* As the trace has them. */
constexpr const char *kWhy[] = {"answered", "INVAL_PROC", "ERR_VERS", "no answer"};

/* What the words of an answer stand for that depend on the question. */
constexpr u32 kOurs = 0xfffffff0, kForeign = 0xfffffff1;

enum class Outcome {
	version_2,
	defaults, /* version 2, with nothing said or granted */
	version_1,
	again, /* in version 1, over another connection */
};

struct AnswerCase {
	u32 words[12];
	u32 length; /* bytes */
	Outcome outcome;
	u32 send = 4096; /* the inline threshold that comes out */
};

constexpr AnswerCase kAnswers[] = {
	/* CONNPROP: with our xid, with another one, with nothing in it, with a larger receive size than we send. */
	{{kOurs, 2, kGrant, 6, 1, 1, 4, 4096, 0}, 36, Outcome::version_2},
	{{kForeign, 2, kGrant, 6, 1, 1, 4, 4096, 0}, 36, Outcome::version_2},
	{{kForeign, 2, kGrant, 6, 0, 0}, 24, Outcome::version_2},
	{{kOurs, 2, kGrant, 6, 1, 1, 4, 20480, 0}, 36, Outcome::version_2},
	/* A smaller one than there is; an unknown property. */
	{{kOurs, 2, kGrant, 6, 1, 1, 4, 1024, 0}, 36, Outcome::version_2},
	{{kOurs, 2, kGrant, 6, 1, 77, 4, 1024, 0}, 36, Outcome::version_2},
	/* One that is cut short, or whose data are not what their type has. */
	{{kOurs, 2, kGrant, 6, 1, 1, 4, 4096}, 32, Outcome::again},
	{{kOurs, 2, kGrant, 6, 1, 1, 8, 4096, 0, 0}, 40, Outcome::again},
	{{kOurs, 2, kGrant, 6, 1, 2, 4, 3, 0}, 36, Outcome::again},
	/* INVAL_PROC. */
	{{kOurs, 2, kGrant, 4, 4}, 20, Outcome::defaults},
	{{kForeign, 2, kGrant, 4, 4}, 20, Outcome::again},
	/* ERR_VERS: of version 1, of our own version, of neither. */
	{{kOurs, 2, kGrant, 4, 1, 1, 1}, 28, Outcome::version_1},
	{{kOurs, 2, kGrant, 4, 1, 1, 2}, 28, Outcome::version_1},
	{{kOurs, 2, kGrant, 4, 1, 0, ~0u}, 28, Outcome::version_1},
	{{kOurs, 2, kGrant, 4, 1, 2, 2}, 28, Outcome::again},
	{{kOurs, 2, kGrant, 4, 1, 3, 9}, 28, Outcome::again},
	{{kOurs, 2, kGrant, 4, 1, 2, 1}, 28, Outcome::again},
	{{kForeign, 2, kGrant, 4, 1, 1, 1}, 28, Outcome::again},
	{{kOurs, 2, kGrant, 4, 1, 1}, 24, Outcome::again},
	/* Other errors. */
	{{kOurs, 2, kGrant, 4, 2}, 20, Outcome::again},
	{{kOurs, 2, kGrant, 4, 6}, 20, Outcome::again},
	{{kOurs, 2, kGrant, 4, 7}, 20, Outcome::again},
	/* A reply of either version, other messages about properties, and what is no message. */
	{{kOurs, 1, kGrant, 0, 0, 0, 0, kOurs, 1}, 36, Outcome::again},
	{{kOurs, 2, kGrant, 0, 1, 0, 0, 0, 0, kOurs, 1}, 44, Outcome::again},
	{{kOurs, 2, kGrant, 8, 0, 0, 0}, 28, Outcome::again},
	{{kOurs, 2, kGrant, 9, 0}, 20, Outcome::again},
	{{kOurs, 3, kGrant, 6, 0, 0}, 24, Outcome::again},
	{{kOurs, 2, kGrant, 6}, 15, Outcome::again},
	{{}, 0, Outcome::again},
};

} // namespace

/* The question: a CONNPROP, with all properties, none of which will change; and a mark before it. */
RPCORDMA_TEST(client_version2, question)
{
	Requester2 r;
	r.to(kMarked);
	EXPECT_EQ(r.ask([&] {
		EXPECT_EQ(r.peer.messages, 1);
		EXPECT_EQ(r.peer.invalidated, 0);
		const u32 xid = r.last_xid();
		const u32 words[] = {xid, 2,	48, 6,	  6, 1, 4, 4096, 2, 4, 1, 3, 4, 0, 4,
				     24,  4096, 1,  4096, 1, 8, 0, 5,	 4, 1, 6, 4, 1, 1, 0x3f};
		/* RBSTRUCT's group: count, length, alignment, flags. */
		EXPECT_BYTES(r.peer.last().first(56), RawMessage(words).message().first(56));
		EXPECT_EQ(r.peer.message_length % 4, 0);
		const auto message = decoded2(r.peer.last());
		properties::Properties said;
		u32 nochange = 0;
		EXPECT_EQ(properties::decode_connprop(message.body(), said, nochange), Error::none);
		EXPECT_EQ(said.present, properties::all);
		EXPECT_EQ(nochange, 0x3f);
		EXPECT_EQ(said.receive_size, 4096);
		EXPECT_EQ(said.structure.total, 4096);
		EXPECT_EQ(said.ddp_segments(), 0);
		EXPECT_EQ(said.extensions, 0);
		EXPECT_EQ(said.backward, properties::Backward::inline_only);
		EXPECT_EQ(said.call_limit, 1);
		EXPECT_EQ(said.reply_limit, 1);
		/* The mark stands behind RFC 8797's message. */
		EXPECT_EQ(r.verbs.parameters.private_data_length, kMarkedLength);
		const u32 mark[] = {0x72326433, 0x01000000};
		EXPECT_BYTES(Bytes(r.verbs.private_data + 8, 8), RawMessage(mark).message());
		/* Receives for the answer, and one more message, beside the first reply's. */
		EXPECT_EQ(r.verbs.posted, 1 + 2 + kBatch);
		EXPECT_TRUE(r.say_properties(xid));
	}),
		  0);
	EXPECT_EQ(r.verbs.connects, 1);
	r.at_rest();
}

/* Each answer: what is spoken then, over which connection, with which grant, and whether it is asked again. */
RPCORDMA_TEST(client_version2, answers)
{
	for (u32 i = 0; i < sizeof(kAnswers) / sizeof(kAnswers[0]); i++) {
		const AnswerCase &c = kAnswers[i];
		TEST_NOTE("answer", i);
		Requester2 r;

		r.to(kMarked);
		EXPECT_EQ(r.ask([&] {
			u32 words[12];
			const u32 ours = r.last_xid();
			for (u32 w = 0; w < 12; w++)
				words[w] = c.words[w] == kOurs	  ? ours :
					   c.words[w] == kForeign ? ours + 1 :
								    c.words[w];
			EXPECT_TRUE(r.deliver(RawMessage(words).message().first(c.length)));
		}),
			  0);
		EXPECT_EQ(r.questions(), 1);
		const bool two = c.outcome == Outcome::version_2 || c.outcome == Outcome::defaults;
		EXPECT_EQ(r.verbs.connects, c.outcome == Outcome::again ? 2 : 1);
		EXPECT_EQ(r.version(), two ? 2 : 1);
		EXPECT_EQ(r.stats().agreed.version, two ? 2 : 1);
		EXPECT_EQ(r.thresholds().bare_header, two ? 36 : 28);
		EXPECT_EQ(r.thresholds().send, c.send);
		EXPECT_EQ(r.thresholds().receive, 4096);
		/* A grant in an error is none. */
		const u32 window = c.outcome == Outcome::version_2 ? kGrant : 1;
		EXPECT_EQ(r.sunrpc.window, window);
		EXPECT_GE(r.connection()->receive_queue.provided(), window + (two ? 2 : 0));
		EXPECT_EQ(r.verbs.parameters.private_data_length,
			  c.outcome == Outcome::again ? kPlainLength : kMarkedLength);
		EXPECT_FALSE(r.backs_off());
		r.log.expect_version("client", two ? 2 : 1, kWhy[u32(c.outcome)], 1);
		r.at_rest();
		/* What comes of it is no answer any more, and does no harm. */
		EXPECT_EQ(r.sunrpc.force_disconnects, 0);
		if (two)
			r.expect_next(true);
		else
			r.expect_avoided();
	}
}

/* Properties cut at each byte are none, and the next connection is of version 1. */
RPCORDMA_TEST(client_version2, answers_cut)
{
	u8 room[v2::most_connprop_length];
	const auto whole = protocol::encode_properties(room, Xid(7), Credits(kGrant), {4096}, 0);

	ASSERT_OK(whole);
	for (u32 size = 0; size <= whole.value(); size++) {
		TEST_NOTE("size", size);
		Requester2 r;
		const bool two = size == whole.value();

		r.to(kMarked);
		EXPECT_EQ(r.ask([&] { EXPECT_TRUE(r.deliver(Bytes(room, size))); }), 0);
		EXPECT_EQ(r.version(), two ? 2 : 1);
		EXPECT_EQ(r.verbs.connects, two ? 1 : 2);
		EXPECT_EQ(r.sunrpc.window, two ? kGrant : 1);
		r.at_rest();
		r.expect_next(two);
	}
}

/* No answer: what happens instead, in the place of one. */
RPCORDMA_TEST(client_version2, no_answer)
{
	enum What {
		silence,
		disconnect,
		address_change,
		queue_pair,
		flush,
		removal,
		removal_after,
		post
	};

	for (u32 what = silence; what <= post; what++) {
		TEST_NOTE("what", what);
		Requester2 r;
		const bool fails = what == removal;
		r.to(kMarked);
		if (what == post)
			r.verbs.sends_left = 0;
		const u64 begin = r.sync.now;
		const int rc = r.ask([&] {
			if (what == disconnect || what == removal_after)
				r.event(RPCORDMA_EVENT_DISCONNECTED);
			if (what == address_change)
				r.event(RPCORDMA_EVENT_ADDRESS_CHANGE);
			if (what == queue_pair)
				r.event(RPCORDMA_EVENT_QP_FATAL);
			if (what == flush)
				r.verbs.flush();
			if (what == removal)
				r.event(RPCORDMA_EVENT_DEVICE_REMOVAL);
		});
		r.verbs.sends_left = kNoLimit;
		/* As long as connecting may take here. */
		EXPECT_EQ(r.sync.now - begin, what == silence ? 1000 : 0);
		EXPECT_EQ(rc, fails ? to_errno(Error::network_unreachable) : 0);
		EXPECT_EQ(r.verbs.connects, fails ? 1 : 2);
		EXPECT_EQ(r.questions(), what == post ? 0 : 1);
		/* Only what broke keeps the next one waiting. */
		EXPECT_EQ(r.backs_off(), what != silence);
		EXPECT_EQ(r.sunrpc.force_disconnects, 0);
		if (fails) {
			r.expect_next(true);
			continue;
		}
		EXPECT_EQ(r.version(), 1);
		EXPECT_EQ(r.verbs.parameters.private_data_length, kPlainLength);
		r.at_rest();
		r.expect_avoided();
	}
}

/* An answer that comes when the time has just passed counts all the same; a removal of the device does. */
RPCORDMA_TEST(client_version2, late_answer)
{
	for (const bool removed : {false, true}) {
		TEST_NOTE("removed", removed);
		Requester2 r;
		r.to(kMarked);
		r.sync.late = true;
		EXPECT_EQ(r.ask([&] {
			if (removed)
				r.event(RPCORDMA_EVENT_DEVICE_REMOVAL);
			else
				EXPECT_TRUE(r.say_properties(r.last_xid()));
		}),
			  removed ? to_errno(Error::network_unreachable) : 0);
		r.sync.late = false;
		EXPECT_EQ(r.verbs.connects, 1);
		if (!removed) {
			EXPECT_EQ(r.version(), 2);
			EXPECT_EQ(r.sunrpc.window, kGrant);
		}
		r.expect_next(true);
	}
}

/* The connection breaks with the answer, or while a disconnect is being dealt with: the first of the two decides. */
RPCORDMA_TEST(client_version2, answer_and_disconnect)
{
	for (const bool answered_first : {false, true}) {
		TEST_NOTE("answered first", answered_first);
		Requester2 r;
		r.to(kMarked);
		EXPECT_EQ(r.ask([&] {
			if (!answered_first)
				r.event(RPCORDMA_EVENT_DISCONNECTED);
			EXPECT_TRUE(r.say_properties(r.last_xid()));
			/* The first answer counts. */
			EXPECT_TRUE(r.say_properties(r.last_xid(), 30));
			if (answered_first)
				r.event(RPCORDMA_EVENT_DISCONNECTED);
		}),
			  0);
		EXPECT_EQ(r.verbs.connects, 1);
		EXPECT_EQ(r.version(), 2);
		EXPECT_EQ(r.sunrpc.window, kGrant);
		/* sunrpc closes it as soon as it is there. */
		EXPECT_EQ(r.sunrpc.force_disconnects, 1);
		EXPECT_TRUE(r.backs_off());
		r.expect_avoided();
	}
}

/* Memory that is missing fails the connection as it does in version 1, or costs version 2 alone. */
RPCORDMA_TEST(client_version2, no_memory)
{
	u32 with_version_1 = 0, failed = 0;

	for (u32 at = 0;; at++) {
		TEST_NOTE("allocation", at);
		Requester2 r;
		r.to(kMarked);
		r.memory.allocation_refused_at = at;
		const int rc = r.ask([&] { EXPECT_TRUE(r.say_properties(7)); });
		r.memory.allocation_refused_at = kNoLimit;
		if (!r.memory.allocations_refused) {
			EXPECT_EQ(rc, 0);
			break;
		}
		EXPECT_EQ(r.verbs.connects, r.questions() || !rc ? 1 : 0);
		if (!rc && r.version() == 1) {
			/* No call for the question: nothing is said of version 2. */
			EXPECT_EQ(r.questions(), 0);
			EXPECT_EQ(r.verbs.parameters.private_data_length, kPlainLength);
			with_version_1++;
		}
		if (rc) {
			EXPECT_EQ(rc, to_errno(Error::not_connected));
			failed++;
		}
		EXPECT_EQ(r.backs_off(), rc != 0);
		r.expect_next(true);
	}
	/* Its two buffers, and that of its Send. */
	EXPECT_EQ(with_version_1, 3);
	EXPECT_GT(failed, 0);
}

/* The question's buffer cannot be mapped: the connection is of version 1, and the next one asks. */
RPCORDMA_TEST(client_version2, question_not_mapped)
{
	Requester2 r;
	r.to(kMarked);
	r.dma.mappings_left = 1 + 2 + kBatch;
	EXPECT_EQ(r.ask([] {}), 0);
	EXPECT_EQ(r.log.take(trace::Failure::send_map_failed), 1);
	EXPECT_EQ(r.log.take(trace::Failure::backward_refusal_lost), 1);
	r.dma.mappings_left = kNoLimit;
	EXPECT_EQ(r.verbs.connects, 1);
	EXPECT_EQ(r.questions(), 0);
	EXPECT_EQ(r.version(), 1);
	EXPECT_FALSE(r.backs_off());
	r.log.expect_version("client", 1, "not asked", 1);
	EXPECT_EQ(r.log.property_events, 0);
	r.expect_next(true);
	rpc_rqst *call = r.call(5);
	EXPECT_TRUE(r.reply2(5, 24));
	EXPECT_EQ(call->result, 24);
	r.done(call);
	/* It is the reply that shows that the server is well. */
	EXPECT_FALSE(r.backs_off());
}

/* Which servers are asked: marked ones, or all; where our own messages are too small for version 2, none. */
RPCORDMA_TEST(client_version2, who_is_asked)
{
	static constexpr struct {
		u32 parameter;
		bool marked;
		u32 read, write;
		bool says, asks;
	} cases[] = {
		{0, true, 4096, 4096, false, false}, {0, false, 4096, 4096, false, false},
		{1, true, 4096, 4096, true, true},   {1, false, 4096, 4096, true, false},
		{2, true, 4096, 4096, true, true},   {2, false, 4096, 4096, true, true},
		{1, true, 3072, 4096, false, false}, {1, true, 4096, 3072, false, false},
		{2, true, 4095, 4096, false, false}, {2, false, 8192, 8192, true, true},
	};

	for (const auto &c : cases) {
		TEST_NOTE("version2", c.parameter);
		TEST_NOTE("marked", c.marked);
		TEST_NOTE("read", c.read);
		TEST_NOTE("write", c.write);
		Requester2 r(c.parameter);
		rpcordma_tunables.max_inline_read = c.read;
		rpcordma_tunables.max_inline_write = c.write;
		r.to(c.marked ? kMarked : kUnmarked);
		EXPECT_EQ(r.ask([&] { EXPECT_TRUE(r.say_properties(7)); }), 0);
		EXPECT_EQ(r.verbs.parameters.private_data_length,
			  c.says ? kMarkedLength : kPlainLength);
		EXPECT_EQ(r.questions(), c.asks ? 1 : 0);
		EXPECT_EQ(r.verbs.connects, 1);
		EXPECT_EQ(r.version(), c.asks ? 2 : 1);
		r.log.expect_version("client", c.asks ? 2 : 1,
				     c.asks ? "answered" :
				     c.says ? "unmarked" :
					      "off",
				     1);
		/* Receives for either version are there before it is known which it will be. */
		EXPECT_EQ(r.connection()->receive_queue.provided(),
			  (c.asks ? kGrant : 1) + (c.says ? 2 : 0));
		/* A session may outlive the version. */
		const u32 most = min(min(c.read, c.write) & ~1023u, 4096u);
		EXPECT_EQ(rpcordma_core_bc_max_payload(r.core),
			  min(most, rpcordma_page_size()) - (c.parameter ? 36 : 28));
		rpcordma_core_client_close(r.core);
		EXPECT_EQ(rpcordma_core_bc_max_payload(r.core),
			  min(min(c.read, c.write), rpcordma_page_size()) - (c.parameter ? 36 : 28));
	}
}

/* The trace has what was said and what came of it. */
RPCORDMA_TEST(client_version2, traced)
{
	struct Heard {
		u32 words[12];
		u32 length; /* bytes */
		const char *what;
		rpcordma_trace_properties said;
	};
	static constexpr Heard heard[] = {
		/* UPDPROP: of all; of an id that nobody knows; not of its type. */
		{{9, 2, 3, 9, 1, 1, 4, 20480}, 32, "applied", {9, 3, 9, 1, 0, 20480, 0}},
		{{9, 2, 3, 9, 1, 77, 4, 20480}, 32, "applied", {9, 3, 9, 0, 0, 4096, 0}},
		{{9, 2, 3, 9, 2, 1, 4, 20480, 4, 4, 9}, 44, "malformed", {9, 3, 9, 0, 0, 4096, 0}},
		/* REQPROP not of its type; a RESPROP, and another CONNPROP: nobody asked. */
		{{9, 2, 3, 7, 1, 1, 2, 0}, 32, "malformed", {9, 3, 7, 0, 0, 4096, 0}},
		{{9, 2, 3, 8, 0, 0, 0}, 28, "ignored", {9, 3, 8, 0, 0, 4096, 0}},
		{{9, 2, 3, 6, 1, 1, 4, 20480, 0}, 36, "ignored", {9, 3, 6, 0, 0, 4096, 0}},
	};

	for (const auto &h : heard) {
		TEST_NOTE("message", u32(&h - heard));
		Requester2 r;
		r.connect2();
		const u32 question = r.last_xid();
		EXPECT_EQ(r.log.property_events, 2);
		r.log.expect_property(1, "sent", {question, 48, 6, 0x3f, 0x3f, 4096, 0});
		r.log.expect_property(0, "applied", {7, kGrant, 6, 1, 0, 4096, 0});
		EXPECT_TRUE(r.deliver(RawMessage(h.words).message().first(h.length)));
		EXPECT_EQ(r.log.property_events, 3);
		r.log.expect_property(0, h.what, h.said);
	}
}

/* REQPROP: all of it is rejected. An extension has no properties. */
RPCORDMA_TEST(client_version2, traced_request)
{
	Requester2 r;
	r.connect2();
	const u32 words[] = {9, 2, 3, 7, 2, 1, 4, 9999, 77, 0};
	EXPECT_TRUE(r.say(words));
	EXPECT_EQ(r.log.property_events, 4);
	r.log.expect_property(1, "rejected", {9, 3, 7, 1, 0, 9999, 0});
	r.log.expect_property(0, "sent", {9, 48, 8, 0, 0, 4096, 0});
	const u32 option[] = {9, 2, 3, 5, 1, 77, 0};
	EXPECT_TRUE(r.say(option));
	EXPECT_EQ(r.log.property_events, 4);
}

/* The answer's properties do not decode: another connection, and after that none asks for a while. */
RPCORDMA_TEST(client_version2, traced_malformed)
{
	Requester2 r;
	r.to(kMarked);
	EXPECT_EQ(r.ask([&] {
		const u32 answer[] = {7, 2, kGrant, 6, 1, 2, 4, 3, 0};
		EXPECT_TRUE(r.say(answer));
	}),
		  0);
	EXPECT_EQ(r.log.property_events, 2);
	r.log.expect_property(0, "malformed", {7, kGrant, 6, 0, 0, 4096, 0});
	r.log.expect_version("client", 1, "no answer", 1);
	r.expect_next(false);
	r.log.expect_version("client", 1, "avoided", 2);
	EXPECT_EQ(r.log.property_events, 2);
}

/* Without version 2 nothing of it is there: no mark, no Receive more, no answer to its messages. */
RPCORDMA_TEST(client_version2, off)
{
	Requester2 r(0);
	r.to(kMarked);
	EXPECT_EQ(r.ask([] { EXPECT_TRUE(false); }), 0);
	EXPECT_EQ(r.verbs.posted, 1 + kBatch);
	EXPECT_EQ(r.verbs.sizes.receive_wrs, 48 + 2 * kBackwardCredits + kBatch);
	EXPECT_TRUE(r.say_properties(7));
	const u32 ask[] = {7, 2, 8, 7, 0};
	EXPECT_TRUE(r.say(ask));
	EXPECT_EQ(r.peer.messages, 0);
	EXPECT_EQ(r.sunrpc.window, 1);
	EXPECT_EQ(r.stats().agreed.version, 1);
	EXPECT_EQ(r.log.take(trace::Failure::message_version), 2);
	r.at_rest();
}

/* A connection of version 2 that breaks before its first reply, or is closed while it owes one, is not made again. */
RPCORDMA_TEST(client_version2, unproved)
{
	enum End { peace, breaks, owes, killed, post_fails, replied_breaks, replied_owes };

	for (u32 end = peace; end <= replied_owes; end++) {
		TEST_NOTE("end", end);
		Requester2 r;
		rpc_rqst *call = nullptr;
		r.connect2();
		if (end == replied_breaks || end == replied_owes) {
			rpc_rqst *first = r.call(1);
			EXPECT_TRUE(r.reply2(1, 24));
			r.done(first);
		}
		if (end == owes || end == replied_owes || end == killed)
			call = r.call(2);
		if (end == killed) {
			r.done(call);
			call = nullptr;
		}
		if (end == breaks || end == replied_breaks)
			r.event(RPCORDMA_EVENT_DISCONNECTED);
		if (end == post_fails) {
			call = r.prepare(2);
			r.verbs.sends_left = 0;
			EXPECT_EQ(r.transmit(call), to_errno(Error::not_connected));
			r.verbs.sends_left = kNoLimit;
		}
		if (end == peace || end == replied_breaks || end == replied_owes)
			r.expect_next(true);
		else
			r.expect_avoided();
		if (call)
			r.done(call);
	}
}

/* Neither the answer to the question nor a reply to nobody shows that the server serves: an answered call does. */
RPCORDMA_TEST(client_version2, talks_only)
{
	enum Said { properties, nobody, error, request, killed, served };

	for (u32 said = properties; said <= served; said++) {
		TEST_NOTE("said", said);
		Requester2 r;
		const u32 refusal[] = {9, 2, 3, 4, 2}, ask[] = {9, 2, 3, 7, 0};

		r.connect2();
		r.event(RPCORDMA_EVENT_DISCONNECTED);
		EXPECT_TRUE(r.backs_off());
		rpcordma_core_client_close(r.core);
		/* That was before its first reply. */
		r.sync.now += kAvoidMs;
		r.connect2();
		rpc_rqst *call = r.call(1);
		if (said == nobody)
			EXPECT_TRUE(r.reply2(2, 24));
		if (said == error)
			EXPECT_TRUE(r.say(refusal));
		if (said == request)
			EXPECT_TRUE(r.say(ask));
		if (said == killed || said == served) {
			if (said == killed)
				r.done(call);
			EXPECT_TRUE(r.reply2(1, 24));
			if (said == served)
				r.done(call);
			call = nullptr;
		}
		const bool shown = !call;
		EXPECT_EQ(r.backs_off(), !shown);
		r.event(RPCORDMA_EVENT_DISCONNECTED);
		r.expect_next(shown);
		if (call)
			r.done(call);
	}
}

/* What an administrator sees of the newest connection. */
RPCORDMA_TEST(client_version2, described)
{
	Requester2 r;
	const rpcordma_agreement &agreed = r.stats().agreed;

	EXPECT_EQ(agreed.why, nullptr);
	rpcordma_tunables.version2_pages = 2;
	r.verbs.device.max_recv_sge = 8;
	const u32 large = 4096 + 2 * r.verbs.device.page_size;
	r.connect2(false, kGrant, 6000);
	EXPECT_TRUE(same_words(agreed.why, "answered"));
	EXPECT_EQ(agreed.version, 2);
	EXPECT_EQ(agreed.receive_size, large);
	EXPECT_EQ(agreed.receive_pages, 2);
	EXPECT_EQ(agreed.peer_receive_size, 6000);
	EXPECT_EQ(agreed.peer_receive_pages, 0);
	const u32 grown[] = {9,	    2, 3, 9,	2, 1, 4, 12288, 4,    40,
			     12288, 2, 1, 4096, 8, 0, 2, 4096,	4096, 1};
	EXPECT_TRUE(r.say(grown));
	EXPECT_EQ(agreed.peer_receive_size, 12288);
	EXPECT_EQ(agreed.peer_receive_pages, 2);
	r.event(RPCORDMA_EVENT_DISCONNECTED);
	rpcordma_core_client_close(r.core);
	/* It broke before its first reply. */
	r.connect_unmarked();
	EXPECT_TRUE(same_words(agreed.why, "unmarked"));
	EXPECT_EQ(agreed.version, 1);
	EXPECT_EQ(agreed.receive_size, 4096);
	EXPECT_EQ(agreed.receive_pages, 0);
	EXPECT_EQ(agreed.peer_receive_size, 4096);
	EXPECT_EQ(agreed.peer_receive_pages, 0);
}

/* Calls and replies without chunks: the header word by word. */
RPCORDMA_TEST(client_version2, inline_call)
{
	Requester2 r;
	r.connect2();
	rpc_rqst *call = r.call(0x77, 48);
	const u32 header[] = {0x77, 2, 48, 0, 0, 0, 0, 0, 0, 0x77, 0};
	EXPECT_BYTES(r.peer.last().first(44), RawMessage(header).message());
	EXPECT_EQ(r.peer.message_length, 36 + 48);
	for (u32 i = 8; i < 48; i++)
		EXPECT_EQ(r.peer.message[36 + i], call_pattern(i));
	EXPECT_TRUE(r.reply2(0x77, 100, 30));
	EXPECT_EQ(call->result, 100);
	for (u32 i = 8; i < 100; i++)
		ASSERT_EQ(static_cast<u8 *>(call->receive.head.base)[i], pattern(i));
	/* A reply's grant counts, and Receives go with it. */
	EXPECT_EQ(r.sunrpc.window, 30);
	EXPECT_EQ(r.connection()->receive_queue.provided(), 30 + 2);
	r.done(call);

	/* The longest: what is one byte longer goes by Read chunk. */
	for (const u32 size : {4060u, 4061u}) {
		TEST_NOTE("size", size);
		call = r.call(0x78, size);
		const auto message = decoded2(r.peer.last());
		EXPECT_EQ(message.kind, size == 4060 ? xdr::Kind::msg : xdr::Kind::nomsg);
		EXPECT_EQ(message.reads.empty(), size == 4060);
		EXPECT_EQ(r.peer.message_length, size == 4060 ? 4096 : 60);
		EXPECT_TRUE(r.reply2(0x78, 24));
		EXPECT_EQ(call->result, 24);
		r.done(call);
	}
	r.at_rest();
}

/*
 * With a Read chunk, a Write chunk, a Reply chunk, and as a long call: and the R_key that is to be invalidated. The second
 * call of each kind has the region that the first one left with the slot.
 */
RPCORDMA_TEST(client_version2, chunks)
{
	enum Chunk { read, write, reply, long_call };

	for (u32 chunk = read; chunk <= long_call; chunk++)
		for (const bool invalidated : {false, true}) {
			TEST_NOTE("chunk", chunk);
			TEST_NOTE("invalidated", invalidated);
			Requester2 r;
			r.connect2();
			for (u32 xid = 1; xid <= 2; xid++) {
				TEST_NOTE("xid", xid);
				rpc_rqst *call = r.prepare(xid, chunk == long_call ? 4090 : 40,
							   chunk == reply ? 4096 : 200);
				EXPECT_EQ(call->call->spare.empty(), xid == 1);
				if (chunk == read)
					r.add_pages(call, 5001, false);
				if (chunk == write)
					r.add_pages(call, 5001, true);
				EXPECT_EQ(r.transmit(call), 0);
				const ExactCopy copy(r.peer.last());
				const auto sent = decoded2(copy.bytes());
				EXPECT_EQ(sent.direction, xdr::Direction::call);
				EXPECT_EQ(sent.kind,
					  chunk == long_call ? xdr::Kind::nomsg : xdr::Kind::msg);
				EXPECT_EQ(sent.reads.empty(), chunk != read && chunk != long_call);
				EXPECT_EQ(sent.writes.empty(), chunk != write);
				EXPECT_EQ(sent.reply.present(), chunk == reply);
				xdr::Segment segment;
				if (!sent.reads.empty())
					segment = sent.reads[0].target;
				if (chunk == write)
					segment = (*sent.writes.begin())[0];
				if (chunk == reply)
					segment = *sent.reply.begin();
				/* The one region that the server can reach. */
				EXPECT_EQ(sent.invalidate, segment.handle);
				EXPECT_NE(segment.handle.get(), 0);
				const bool writable = chunk == write || chunk == reply;
				EXPECT_NE(r.peer.reach(segment, 0, writable), nullptr);

				const u32 in_chunk = chunk == write ? 5001 :
						     chunk == reply ? 3000 :
								      0;
				for (u32 i = 0; i < in_chunk; i++)
					*r.peer.reach(segment, i, true) = pattern(i);
				Reply2Maker answer(xid, 32,
						   chunk == reply ? xdr::Kind::nomsg :
								    xdr::Kind::msg);
				for (const xdr::WriteChunk offered : sent.writes)
					answer.encoder.write_chunk(offered, in_chunk);
				if (sent.reply.present())
					answer.encoder.reply_chunk(sent.reply, in_chunk);
				answer.finish(chunk == reply ? 0 : 48, kReplyMessage);
				const u32 fenced = r.peer.local_invalidations;
				EXPECT_TRUE(r.deliver(answer.message(),
						      invalidated ? segment.handle.get() : 0));
				EXPECT_EQ(r.peer.local_invalidations,
					  fenced + (invalidated ? 0 : 1));
				EXPECT_EQ(r.peer.reach(segment, 0, writable), nullptr);
				EXPECT_EQ(call->result, int(chunk == write ? 48 + 5001 + 3 :
							    chunk == reply ? 3000 :
									     48));
				if (chunk == reply)
					for (u32 i = 0; i < 3000; i++)
						ASSERT_EQ(static_cast<u8 *>(
								  call->receive.head.base)[i],
							  pattern(i));
				if (chunk == write)
					for (u32 i = 0; i < 5001; i++)
						ASSERT_EQ(call->receive.pages[i / kPage]
								  ->data[i % kPage],
							  pattern(i));
				r.done(call);
				r.at_rest();
			}
		}
}

/*
 * A server with the mark gets two kinds of chunk for one message, in either version: the item of a long call in a Read
 * chunk beside the Position Zero one, without its pad in either; and a Write chunk beside a Reply chunk.
 */
RPCORDMA_TEST(client_version2, two_kinds)
{
	for (const u32 version : {1u, 2u})
		for (const u32 size : {8192u, 5001u}) {
			TEST_NOTE("version", version);
			TEST_NOTE("size", size);
			Requester2 r;
			r.connect_to(version);
			rpc_rqst *call = r.prepare_wide(1, size, false);
			EXPECT_EQ(r.transmit(call), 0);
			const ExactCopy copy(r.peer.last());
			const auto sent = decoded_of(version, copy.bytes());
			EXPECT_EQ(sent.kind, xdr::Kind::nomsg);
			EXPECT_EQ(sent.payload.size(), 0);
			u32 whole = 0, item = 0;
			for (const xdr::ReadSegment segment : sent.reads) {
				const bool reduced = segment.position.get() != 0;
				u32 &at = reduced ? item : whole;

				if (reduced)
					EXPECT_EQ(segment.position, Position(kWide));
				for (u32 i = 0; i < segment.target.length; i++, at++) {
					const u8 *byte = r.peer.reach(segment.target, i, false);
					ASSERT_NE(byte, nullptr);
					if (reduced)
						ASSERT_EQ(*byte, pattern(at));
					else if (at >= 8)
						ASSERT_EQ(*byte, at < kWide ? call_pattern(at) :
									      kTailByte);
				}
			}
			EXPECT_EQ(whole, kWide + kTail);
			EXPECT_EQ(item, size);
			/* Of two regions the longer one is the server's to invalidate, whichever comes first. */
			if (version == 2)
				EXPECT_EQ(r.dma.region_of(sent.invalidate.get())->length, size);
			EXPECT_TRUE(r.answer_of(version, 1, 24));
			EXPECT_EQ(call->result, 24);
			r.done(call);

			call = r.prepare_wide(2, size, true);
			EXPECT_EQ(r.transmit(call), 0);
			const ExactCopy second(r.peer.last());
			const auto offered = decoded_of(version, second.bytes());
			EXPECT_EQ(offered.kind, xdr::Kind::msg);
			EXPECT_EQ(offered.writes.count(), 1);
			EXPECT_EQ(offered.writes.total_length(), size);
			EXPECT_EQ(offered.reply.length(), kWide + xdr_pad(size) + kTail);
			if (version == 2)
				EXPECT_EQ(offered.invalidate, (*offered.writes.begin())[0].handle);
			fill_chunk(*offered.writes.begin(), size);
			/* The reply's rest: what is before the item, and what is behind its pad. */
			fill_chunk(offered.reply, kWide + kTail, kRest);
			EXPECT_TRUE(r.deliver_returned(version, 2, offered, size, kWide + kTail));
			EXPECT_EQ(call->completed, 1);
			EXPECT_EQ(call->result, int(kWide + size + xdr_pad(size) + kTail));
			for (u32 i = 0; i < kWide; i++)
				ASSERT_EQ(static_cast<u8 *>(call->receive.head.base)[i],
					  pattern(kRest + i));
			for (u32 i = 0; i < size; i++)
				ASSERT_EQ(call->receive.pages[i / kPage]->data[i % kPage],
					  pattern(i));
			const u8 *tail = static_cast<u8 *>(call->receive.tail.base);
			for (u32 i = 0; i < xdr_pad(size) + kTail; i++)
				ASSERT_EQ(tail[i], i < xdr_pad(size) ? 0 :
								       pattern(kRest + kWide + i -
									       xdr_pad(size)));
			r.done(call);
			r.at_rest();
		}
}

/* Of regions that are as long as each other it is the first. */
RPCORDMA_TEST(client_version2, first_of_same_length)
{
	constexpr u32 kPages = 130;
	Requester2 r;

	r.verbs.device.max_fast_reg_pages = kPages;
	r.connect2();
	rpc_rqst *call = r.prepare(1);
	r.add_pages(call, 3 * kPages * kPage, true);
	EXPECT_EQ(r.transmit(call), 0);
	const auto sent = decoded2(r.peer.last());
	const xdr::WriteChunk chunk = *sent.writes.begin();
	ASSERT_EQ(chunk.count(), 3);
	EXPECT_EQ(chunk[0].length, chunk[1].length);
	EXPECT_EQ(sent.invalidate, chunk[0].handle);
	EXPECT_TRUE(r.reply2(1, 24));
	r.done(call);
	r.at_rest();
}

/* What a server is trusted with goes with its connection: the same calls are made anew for the next one. */
RPCORDMA_TEST(client_version2, two_kinds_elsewhere)
{
	for (const bool first : {true, false}) {
		TEST_NOTE("first", first);
		Requester2 r;
		rpc_rqst *call = nullptr, *read = nullptr;

		for (const bool marked : {first, !first}) {
			TEST_NOTE("marked", marked);
			if (marked)
				r.connect_to(1);
			else
				r.connect_unmarked();
			rpc_rqst *first_one = r.call(9);
			EXPECT_TRUE(r.reply(9, 24));
			r.done(first_one);
			if (!call) {
				call = r.prepare_wide(1, 5001, false);
				read = r.prepare_wide(2, 5001, true);
			}
			for (rpc_rqst *each : {call, read}) {
				each->sent_before = false;
				ASSERT_EQ(r.transmit(each), 0);
				const auto sent = decoded_of(1, r.peer.last());
				u32 positions = 0, whole = 0;

				for (const xdr::ReadSegment segment : sent.reads) {
					positions += segment.position.get() != 0;
					whole += segment.position.get() ? 0 : segment.target.length;
				}
				EXPECT_EQ(positions != 0, each == call && marked);
				if (each == call)
					EXPECT_EQ(whole,
						  kWide + kTail +
							  (marked ? 0 : 5001 + xdr_pad(5001)));
				else
					EXPECT_TRUE(sent.reply.present());
				EXPECT_EQ(sent.writes.count(), each == read && marked ? 1 : 0);
			}
			if (marked == first) {
				rpcordma_core_client_close(r.core);
				EXPECT_EQ(call->completed + read->completed, 0);
			}
		}
		EXPECT_TRUE(r.answer_of(1, 1, 24));
		EXPECT_TRUE(r.answer_of(1, 2, 24));
		EXPECT_EQ(call->result, 24);
		EXPECT_EQ(read->result, 24);
		r.done(call);
		r.done(read);
		r.at_rest();
	}
}

/* Each error ends its RPC with EIO, once; it is not sent again, and the grant in it is none. */
RPCORDMA_TEST(client_version2, errors)
{
	for (u32 code = 0; code <= 7; code++) {
		TEST_NOTE("code", code);
		Requester2 r;
		r.connect2();
		rpc_rqst *call = r.prepare(5);
		r.add_pages(call, 5001, true);
		EXPECT_EQ(r.transmit(call), 0);
		const bool known = code >= 1 && code <= 6;
		const u32 words[] = {5, 2, 40, 4, code, 1, 9};
		const u32 length = code == 1 || code == 3 ? 28 : 20;
		EXPECT_TRUE(r.deliver(RawMessage(words).message().first(length)));
		EXPECT_EQ(call->completed, known ? 1 : 0);
		EXPECT_EQ(r.sunrpc.window, kGrant);
		EXPECT_EQ(r.peer.messages, 2);
		if (known) {
			EXPECT_EQ(call->result, to_errno(Error::io));
			/* Once more: to nobody. */
			EXPECT_TRUE(r.deliver(RawMessage(words).message().first(length)));
			EXPECT_EQ(call->completed, 1);
			/* The task that lost the result hears it when it sends again. */
			EXPECT_EQ(r.transmit(call), to_errno(Error::io));
			EXPECT_EQ(r.peer.messages, 2);
		}
		/* An error shows that the server is there. */
		r.done(call);
		EXPECT_EQ(r.sunrpc.force_disconnects, 0);
		if (known)
			r.at_rest();
	}
}

namespace {

/* What is said of a message, word by word; empty: nothing. */
struct Said {
	u32 words[14];
	u32 length; /* bytes */
	u32 answer[10];
	u32 answer_length; /* words; 0: there is none */
};

constexpr Said kSaid[] = {
	/* Calls that are none: no such proc, cut short, a direction or list that is neither, no RPC message, another's. */
	{{9, 2, 3, 2, 0, 0, 0, 0, 0, 9, 0}, 44, {9, 2, 16, 4, 4}, 5},
	{{9, 2, 3, 3, 0, 0, 0, 0, 0, 9, 0}, 44, {9, 2, 16, 4, 4}, 5},
	{{9, 2, 3, 10}, 16, {9, 2, 16, 4, 4}, 5},
	{{9, 2, 3, ~0u}, 16, {9, 2, 16, 4, 4}, 5},
	{{9, 2, 3, 0, 0, 0, 0, 0}, 32, {9, 2, 16, 4, 2}, 5},
	{{9, 2, 3, 0, 2, 0, 0, 0, 0, 9, 0}, 44, {9, 2, 16, 4, 2}, 5},
	{{9, 2, 3, 0, 0, 0, 2, 0, 0, 9, 0}, 44, {9, 2, 16, 4, 2}, 5},
	{{9, 2, 3, 0, 0, 0, 0, 0, 0, 9}, 40, {9, 2, 16, 4, 2}, 5},
	{{9, 2, 3, 0, 0, 0, 0, 0, 0, 8, 0}, 44, {9, 2, 16, 4, 2}, 5},
	{{9, 2, 3, 0, 0, 0, 0, 0, 0, 9, 1}, 44, {9, 2, 16, 4, 2}, 5},
	/* With chunks: a Write chunk of no segment, a Reply chunk. */
	{{9, 2, 3, 0, 0, 0, 0, 1, 0, 0, 0, 9, 0}, 52, {9, 2, 16, 4, 2}, 5},
	{{9, 2, 3, 1, 0, 0, 0, 0, 1, 0}, 40, {9, 2, 16, 4, 2}, 5},
	/* Without, and with an R_key that is to be invalidated. */
	{{9, 2, 3, 0, 0, 77, 0, 0, 0, 9, 0}, 44, {9, 2, 16, 4, 2}, 5},
	/* Extensions: none of them is there, known or not. */
	{{9, 2, 3, 5, 0, 77, 0}, 28, {9, 2, 16, 4, 5}, 5},
	{{9, 2, 3, 5, 0, 2, 12, 0, 1, 0}, 40, {9, 2, 16, 4, 5}, 5},
	{{9, 2, 3, 5, 0, 1, 20, 0, 0, 1, 0, 0}, 48, {9, 2, 16, 4, 5}, 5},
	{{9, 2, 3, 5, 0, 3, 12, 1, 0, 0}, 40, {9, 2, 16, 4, 5}, 5},
	{{9, 2, 3, 5, 0, 1, 21, 0, 0, 1, 0, 0}, 48, {9, 2, 16, 4, 2}, 5},
	/* Replies are not answered, whatever is wrong with them. */
	{{9, 2, 3, 0, 1, 0, 0, 0}, 32, {}, 0},
	{{9, 2, 3, 0, 1, 0, 2, 0, 0, 9, 1}, 44, {}, 0},
	{{9, 2, 3, 0, 1, 0, 0, 0, 0, 8, 1}, 44, {}, 0},
	{{9, 2, 3, 0, 1, 0, 0, 0, 0, 9, 0}, 44, {}, 0},
	{{9, 2, 3, 1, 1, 0, 0, 0, 0}, 36, {}, 0},
	{{9, 2, 3, 5, 1, 77, 0}, 28, {}, 0},
	{{9, 2, 3, 5, 1, 2, 12, 0, 1, 0}, 40, {}, 0},
	{{9, 2, 3, 5, 1, 4, 20, 9, 0, 0, 0, 3}, 48, {}, 0},
	{{9, 2, 3, 4, 0}, 20, {}, 0},
	{{9, 2, 3, 4, 1, 1}, 24, {}, 0},
	/* What nobody owes, and is too short. */
	{{9, 2, 3, 4, 2}, 20, {}, 0},
	{{9, 2, 3, 0}, 12, {}, 0},
	{{}, 0, {}, 0},
	/* About the connection: REQPROP is rejected, all of it; the others are known, or late, or nobody asked. */
	{{9, 2, 3, 7, 0}, 20, {9, 2, 48, 8, 0, 0, 0}, 7},
	{{9, 2, 3, 7, 2, 1, 4, 9999, 77, 0}, 40, {9, 2, 48, 8, 0, 1, 3, 0}, 8},
	{{9, 2, 3, 7, 1}, 20, {9, 2, 16, 4, 2}, 5},
	{{9, 2, 3, 9, 1, 1, 4, 20480}, 32, {}, 0},
	{{9, 2, 3, 9, 1}, 20, {9, 2, 16, 4, 2}, 5},
	{{9, 2, 3, 6, 1, 1, 4, 20480, 0}, 36, {}, 0},
	/* Properties that are known, and not of their type. */
	{{9, 2, 3, 7, 1, 1, 2, 0}, 32, {9, 2, 16, 4, 2}, 5},
	{{9, 2, 3, 7, 2, 77, 4, 1, 2, 4, 3}, 44, {9, 2, 16, 4, 2}, 5},
	{{9, 2, 3, 9, 2, 1, 4, 20480, 4, 4, 9}, 44, {9, 2, 16, 4, 2}, 5},
	{{9, 2, 3, 9, 2, 1, 4, 20480, 4, 8, 9, 1}, 48, {9, 2, 16, 4, 2}, 5},
	/* A CONNPROP of a server's is a reply. */
	{{9, 2, 3, 6, 1}, 20, {}, 0},
	{{9, 2, 3, 6, 1, 1, 8, 1, 2, 0}, 40, {}, 0},
	{{9, 2, 3, 8, 0, 0, 0}, 28, {}, 0},
	{{9, 2, 3, 8, 0, 0, 1}, 28, {}, 0},
	{{9, 2, 3, 8, 0, 0, 1, 1, 2, 0}, 40, {}, 0},
	/* Other versions: all but errors, as what stands in them is not known. */
	{{9, 1, 3, 0, 0, 0, 0, 9, 0}, 36, {9, 1, 16, 4, 1, 2, 2}, 7},
	{{9, 3, 3, 0}, 16, {9, 3, 16, 4, 1, 2, 2}, 7},
	{{9, 0, 3, 99}, 16, {9, 0, 16, 4, 1, 2, 2}, 7},
	{{9, 1, 3, 4, 2}, 20, {}, 0},
};

} // namespace

/* What is no call and no reply: the answer, if there is one. The connection goes on, and nothing of it is taken up. */
RPCORDMA_TEST(client_version2, other_messages)
{
	for (const bool backchannel : {false, true})
		for (u32 i = 0; i < sizeof(kSaid) / sizeof(kSaid[0]); i++) {
			const Said &m = kSaid[i];
			TEST_NOTE("backchannel", backchannel);
			TEST_NOTE("message", i);
			Requester2 r;
			r.connect2(backchannel);
			const auto before = r.thresholds();
			rpc_rqst *call = r.call(1);
			const u32 messages = r.peer.messages;
			EXPECT_TRUE(r.deliver(RawMessage(m.words).message().first(m.length)));
			/* Without anybody who serves it, a call that is well-formed is dropped. */
			const bool chunked = i >= 10 && i <= 12;
			const u32 answer = chunked && !backchannel ? 0 : m.answer_length;
			EXPECT_EQ(r.peer.messages, messages + (answer ? 1 : 0));
			if (answer)
				expect_words(r.peer.last(), Span<const u32>(m.answer, answer));
			EXPECT_EQ(r.sunrpc.backward_calls, 0);
			EXPECT_EQ(r.sunrpc.window, kGrant);
			EXPECT_EQ(r.thresholds().send, before.send);
			EXPECT_EQ(r.version(), 2);
			EXPECT_EQ(r.sunrpc.force_disconnects, 0);
			EXPECT_EQ(call->completed, 0);
			EXPECT_TRUE(r.reply2(1, 24));
			EXPECT_EQ(call->result, 24);
			r.done(call);
			r.at_rest();
		}
}

/* However often: each answer finds its means again; where there are none it is left out. */
RPCORDMA_TEST(client_version2, answered_often)
{
	Requester2 r;
	r.connect2();
	for (u32 i = 0; i < 200; i++) {
		const u32 words[] = {i, 2, 3, 7, 0};
		const u32 expected[] = {i, 2, 48, 8, 0, 0, 0};
		EXPECT_TRUE(r.say(words));
		expect_words(r.peer.last(), expected);
	}
	/* All at once: there is one buffer for these. */
	const u32 before = r.peer.messages;
	const u32 words[] = {1, 2, 3, 7, 0}, option[] = {2, 2, 3, 5, 0, 77, 0};
	EXPECT_TRUE(r.verbs.send(nullptr, RawMessage(words).message()));
	EXPECT_TRUE(r.verbs.send(nullptr, RawMessage(words).message()));
	EXPECT_TRUE(r.verbs.send(nullptr, RawMessage(option).message()));
	r.work();
	EXPECT_EQ(r.peer.messages, before + 1);
	EXPECT_EQ(r.log.take(trace::Failure::backward_refusal_lost), 2);
	EXPECT_EQ(r.log.take(trace::Failure::message_undecodable), 1);
	EXPECT_EQ(r.sunrpc.force_disconnects, 0);
	r.at_rest();
}

/* An answer that cannot be posted ends the connection. */
RPCORDMA_TEST(client_version2, answer_not_posted)
{
	Requester2 r;
	r.connect2();
	r.verbs.sends_left = 0;
	r.verbs.kept_room = 1;
	const u32 words[] = {1, 2, 3, 7, 0};
	EXPECT_TRUE(r.say(words));
	r.verbs.sends_left = kNoLimit;
	EXPECT_EQ(r.sunrpc.force_disconnects, 1);
	r.expect_next(false);
}

/* Backward calls and replies. */
RPCORDMA_TEST(client_version2, backward)
{
	Requester2 r;
	r.connect2(true);
	EXPECT_GE(r.verbs.posted, kGrant + 2 * kBackwardCredits + 2);
	EXPECT_EQ(r.connection()->receive_queue.provided(), kGrant + 2 * kBackwardCredits + 2);
	rpc_rqst *forward = r.call(9);
	for (const u32 size : {60u, 4060u}) {
		TEST_NOTE("size", size);
		Call2Maker call(9, 77);
		call.finish(size);
		EXPECT_TRUE(r.deliver(call.message()));
		EXPECT_EQ(r.sunrpc.backward->xid, 9);
		EXPECT_BYTES(Bytes(static_cast<u8 *>(r.sunrpc.backward->message),
				   r.sunrpc.backward->message_length),
			     call.message().from(36));
		rpc_rqst *rqst = r.sunrpc.backward;
		u8 *bytes = static_cast<u8 *>(rqst->send.head.base);
		/* As long as a page: the double's is small. */
		const u32 length = size == 60 ? 32 : rpcordma_page_size() - 36;
		for (u32 i = 0; i < length; i++)
			bytes[i] = pattern(i);
		xdr::store_be32(bytes, 9);
		xdr::store_be32(bytes + 4, 1);
		rqst->send.head.length = rqst->send.len = length;
		EXPECT_EQ(rpcordma_core_bc_send_reply(r.core, rqst->call), 0);
		r.work();
		const u32 header[] = {9, 2, kBackwardCredits, 0, 1, 0, 0, 0, 0, 9, 1};
		EXPECT_BYTES(r.peer.last().first(44), RawMessage(header).message());
		EXPECT_BYTES(r.peer.last().from(36), Bytes(bytes, length));
		rpcordma_core_bc_free(r.core, rqst->call);
		r.balance();
	}
	EXPECT_EQ(r.sunrpc.window, kGrant);
	EXPECT_EQ(forward->completed, 0);
	EXPECT_TRUE(r.reply2(9, 24));
	EXPECT_EQ(forward->result, 24);
	r.done(forward);
	r.at_rest();
}

/* A grant of zero leaves one call; one that there is no memory for leaves as many as there is. */
RPCORDMA_TEST(client_version2, grants)
{
	static constexpr struct {
		u32 grant, allocations, window;
	} grants[] = {
		{0, kNoLimit, 1},     {1, kNoLimit, 1}, {48, kNoLimit, 48},
		{1000, kNoLimit, 48}, {20, 0, 1},	{20, 2 * 5, 1 + 5},
	};

	for (const auto &g : grants) {
		TEST_NOTE("grant", g.grant);
		TEST_NOTE("allocations", g.allocations);
		Requester2 r;
		r.to(kMarked);
		EXPECT_EQ(r.ask([&] {
			r.memory.allocations_left = g.allocations;
			EXPECT_TRUE(r.say_properties(7, g.grant));
			r.memory.allocations_left = kNoLimit;
		}),
			  0);
		EXPECT_EQ(r.version(), 2);
		EXPECT_EQ(r.sunrpc.window, g.window);
		EXPECT_EQ(r.connection()->receive_queue.provided(), g.window + 2);
		r.at_rest();
	}
}

/*
 * The server's receive size is the threshold, whatever its private data said; ours is what we were told to take, unless the
 * server sends less: as much as its private data said, and 32 KiB in any case.
 */
RPCORDMA_TEST(client_version2, thresholds)
{
	static constexpr struct {
		u32 read, write;     /* ours */
		u32 sends, receives; /* the server's, by private data */
		u32 size;	     /* by CONNPROP; 0: INVAL_PROC */
		u32 send, receive;
	} cases[] = {
		{8192, 8192, 8192, 8192, 8192, 8192, 8192},
		{8192, 8192, 1024, 1024, 8192, 8192, 8192},
		{8192, 8192, 1024, 1024, 0, 4096, 4096},
		{4096, 8192, 8192, 8192, 20480, 8192, 4096},
		{8192, 4096, 8192, 8192, 20480, 4096, 8192},
		{8192, 8192, 8192, 8192, 1, 4096, 8192},
		{65536, 4096, 4096, 4096, 8192, 4096, 32768},
		{65536, 4096, 49152, 4096, 8192, 4096, 49152},
		{65536, 4096, 131072, 4096, 8192, 4096, 65536},
		{49152, 4096, 65536, 4096, 8192, 4096, 49152},
	};

	for (const auto &c : cases) {
		TEST_NOTE("case", u32(&c - cases));
		Requester2 r(2);
		rpcordma_tunables.max_inline_read = c.read;
		rpcordma_tunables.max_inline_write = c.write;
		r.to({c.sends, c.receives, true, false});
		EXPECT_EQ(r.ask([&] {
			const u32 none[] = {r.last_xid(), 2, 1, 4, 4};
			EXPECT_TRUE(c.size ? r.say_properties(7, kGrant, c.size) : r.say(none));
		}),
			  0);
		EXPECT_EQ(r.version(), 2);
		EXPECT_EQ(r.thresholds().send, c.send);
		EXPECT_EQ(r.thresholds().receive, c.receive);
	}
}

/* A reply with a Read list, which makes it a call in version 1 alone, contradicts its call. */
RPCORDMA_TEST(client_version2, read_list)
{
	Requester2 r;
	r.connect2();
	rpc_rqst *call = r.call(0x77);
	Reply2Maker reply(0x77);

	reply.encoder.read_segment(Position(4), CallMaker::segment(100));
	reply.finish(24, kReplyMessage);
	EXPECT_TRUE(r.deliver(reply.message()));
	EXPECT_EQ(call->completed, 1);
	EXPECT_EQ(call->result, to_errno(Error::io));
	r.done(call);
	r.at_rest();
	EXPECT_EQ(r.log.take(trace::Failure::reply_contradicts), 1);
}

RPCORDMA_SUITE(client_version2, first_of_same_length, question, answers, answers_cut, no_answer,
	       late_answer, answer_and_disconnect, no_memory, question_not_mapped, who_is_asked,
	       traced, traced_request, traced_malformed, off, unproved, talks_only, described,
	       inline_call, chunks, errors, other_messages, answered_often, answer_not_posted,
	       backward, grants, thresholds, two_kinds, two_kinds_elsewhere, read_list);

} // namespace rpcordma
