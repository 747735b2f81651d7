// SPDX-License-Identifier: GPL-2.0-only
/*
 * A server's connection and version 2: which version the first message makes it, module/server/negotiate.cc, and what
 * calls, replies, errors and backward calls are like then. Messages are written out word by word where their form is
 * what matters.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"
#include "module/protocol/negotiation.hh"

namespace rpcordma {
namespace {

constexpr u32 kInitial = ResponderCredits::kInitial;
constexpr u32 kExtra = 2;

/* What the administrator says, and who connects. */
struct Setting {
	u32 parameter = 1;
	bool marked = true;
	u32 size = 4096; /* of our messages */
	bool established = true;
	bool remote_invalidation = false;
};

struct Served2 : Served {
	explicit Served2(const Setting &setting = {})
	{
		rpcordma_server_tunables.version2 = setting.parameter;
		rpcordma_server_tunables.max_req_size = setting.size;
		connect({setting.remote_invalidation, setting.established, setting.marked});
	}
	/* The client sends these words. */
	[[nodiscard]] bool say(Span<const u32> words)
	{
		return say_bytes(RawMessage(words).message());
	}
	[[nodiscard]] bool say_bytes(Bytes bytes)
	{
		const ExactCopy copy(bytes);

		return verbs.send(server, copy.bytes());
	}
	/* A CONNPROP: RBSIZ. */
	[[nodiscard]] bool say_properties(u32 xid, u32 credits = 64, u32 receive_size = 4096)
	{
		const u32 words[] = {xid, 2, credits, 6, 1, 1, 4, receive_size, 0};

		return say(words);
	}
	[[nodiscard]] bool say_call(u32 xid, u32 size = 40)
	{
		Call2Maker call(xid);

		call.finish(size);
		return send(call);
	}
	[[nodiscard]] u32 version() const
	{
		return server->session.version();
	}
	/* The answer to a CONNPROP was the last message. */
	void expect_properties(u32 xid, u32 grant, u32 size = 4096)
	{
		const u32 front[] = {xid, 2, grant, 6, 6, 1, 4,	 size, 2,
				     4,	  1, 3,	    4, 0, 4, 24, size, 1};
		const auto message = decoded2(peer.last());
		properties::Properties said;
		u32 nochange = 0;

		EXPECT_BYTES(peer.last().first(72), RawMessage(front).message());
		EXPECT_EQ(properties::decode_connprop(message.body(), said, nochange), Error::none);
		EXPECT_EQ(said.present, properties::all);
		EXPECT_EQ(nochange, 0x3f);
		EXPECT_EQ(said.structure.total, size);
		EXPECT_EQ(said.ddp_segments(), 0);
		EXPECT_EQ(said.call_limit, 1);
		EXPECT_EQ(said.reply_limit, 1);
	}
	/* What counts an error with @code, in the version that is spoken. */
	[[nodiscard]] rpcordma_server_counter counter_of(u32 code) const
	{
		static constexpr rpcordma_server_counter two[] = {
			RPCORDMA_SERVER_V2_ERR_VERS,	       RPCORDMA_SERVER_V2_ERR_BAD_XDR,
			RPCORDMA_SERVER_V2_ERR_REPLY_RESOURCE, RPCORDMA_SERVER_V2_ERR_INVAL_PROC,
			RPCORDMA_SERVER_V2_ERR_INVAL_OPTION,   RPCORDMA_SERVER_V2_ERR_SYSTEM,
		};

		return version() == 2 ? two[code - 1] :
		       code == 1      ? RPCORDMA_SERVER_ERR_VERS :
					RPCORDMA_SERVER_ERR_CHUNK;
	}
	/* Errors of all kinds, in either version. */
	[[nodiscard]] static u32 errors()
	{
		u32 sum = counter(RPCORDMA_SERVER_ERR_VERS) + counter(RPCORDMA_SERVER_ERR_CHUNK);

		for (int i = RPCORDMA_SERVER_V2_ERR_VERS; i <= RPCORDMA_SERVER_V2_ERR_SYSTEM; i++)
			sum += counter(rpcordma_server_counter(i));
		return sum;
	}
	/* A thread refuses what came, with an error of these words behind the grant. */
	void expect_refused(u32 xid, u32 vers, Span<const u32> error)
	{
		u32 words[8] = {xid, vers, grant(), 4};
		const u32 before = peer.messages, all = errors();
		const u32 counted = counter(counter_of(error[0]));

		for (u32 i = 0; i < error.size(); i++)
			words[4 + i] = error[i];
		EXPECT_EQ(receive(), 0);
		work();
		EXPECT_EQ(peer.messages, before + 1);
		expect_words(peer.last(), Span<const u32>(words, 4 + error.size()));
		EXPECT_EQ(peer.invalidated, 0);
		EXPECT_EQ(in_service(), 0);
		EXPECT_EQ(counter(counter_of(error[0])), counted + 1);
		EXPECT_EQ(errors(), all + 1);
	}
	/* What came is dropped. */
	void expect_dropped()
	{
		const u32 before = peer.messages;

		EXPECT_FALSE(svc.data);
		EXPECT_EQ(receive(), 0);
		work();
		EXPECT_EQ(peer.messages, before);
		EXPECT_EQ(in_service(), 0);
	}
	/* A call, served, of either version. */
	void expect_served(u32 xid, bool two)
	{
		ASSERT_TRUE(two ? say_call(xid) : send_inline(xid));
		ASSERT_EQ(receive(), 40);
		EXPECT_EQ(reply(20), 0);
		work();
		if (!two) {
			expect_reply(xid, 20);
			return;
		}
		const u32 header[] = {xid, 2, grant(), 0, 1, 0, 0, 0, 0};
		EXPECT_BYTES(peer.last().first(36), RawMessage(header).message());
		EXPECT_BYTES(peer.last().from(36), Bytes(reply_bytes, 20));
	}
};

} // namespace

/* Who is told of version 2, and for whom there are Receives beyond the credits. */
RPCORDMA_TEST(server_version2, mark)
{
	static constexpr struct {
		Setting setting;
		bool says, may;
	} cases[] = {
		{{0, false}, false, false},	 {{0, true}, false, false},
		{{1, false}, false, false},	 {{1, true}, true, true},
		{{2, false}, false, true},	 {{2, true}, true, true},
		{{1, true, 3072}, false, false}, {{2, false, 1024}, false, false},
	};

	for (const auto &k : cases) {
		TEST_NOTE("version2", k.setting.parameter);
		TEST_NOTE("marked", k.setting.marked);
		TEST_NOTE("size", k.setting.size);
		Served2 c(k.setting);
		const u32 extra = k.may ? kExtra : 0;

		EXPECT_EQ(c.verbs.parameters.private_data_length, k.says ? 16 : 8);
		if (k.says) {
			const u32 mark[] = {0x72326433, 0x01000000};
			EXPECT_BYTES(Bytes(c.verbs.private_data + 8, 8), RawMessage(mark).message());
		}
		EXPECT_EQ(c.verbs.posted, kInitial + kServerBatch + extra);
		EXPECT_EQ(c.promised(), kInitial + extra);
		EXPECT_EQ(c.verbs.sizes.receive_wrs,
			  64 + kServerBackwardCalls + kServerBatch + extra);
		EXPECT_EQ(c.version(), 1);
		/* A session of NFS may outlive the version. */
		EXPECT_EQ(rpcordma_core_server_backward_payload(c.server),
			  k.setting.size - (k.setting.parameter ? 36 : 28));
		EXPECT_EQ(rpcordma_core_server_backward_payload(nullptr),
			  1024 - (k.setting.parameter ? 36 : 28));
		/* Version 1 needs no more than it did. */
		c.expect_served(1, false);
		EXPECT_EQ(c.promised(), kInitial);
	}
}

/* The first message of a version that is spoken here decides; others are refused with what there is. */
RPCORDMA_TEST(server_version2, first_message)
{
	static constexpr u32 strange[][4] = {{9, 0, 1, 0}, {9, 3, 1, 6}, {9, ~0u, 1, 99}};
	static constexpr u32 open[] = {1, 1, 2}, one[] = {1, 1, 1}, two[] = {1, 2, 2};

	for (const Setting setting : {Setting{0, true}, Setting{1, false}, Setting{1, true},
				      Setting{2, false}, Setting{2, true}})
		for (const bool first2 : {false, true}) {
			TEST_NOTE("version2", setting.parameter);
			TEST_NOTE("marked", setting.marked);
			TEST_NOTE("first", first2 ? 2 : 1);
			const bool may = setting.parameter == 2 ||
					 (setting.parameter && setting.marked);
			Served2 c(setting);

			/* What is of neither, or too short to tell, leaves it open. */
			for (const auto &words : strange) {
				ASSERT_TRUE(c.say(words));
				c.expect_refused(9, words[1], may ? open : one);
			}
			const u32 cut[] = {9, 2, 1};
			ASSERT_TRUE(c.say(cut));
			c.expect_dropped();
			ASSERT_TRUE(c.say(strange[0]));
			c.expect_refused(9, 0, may ? open : one);

			if (first2 && !may) {
				ASSERT_TRUE(c.say_call(1));
				c.expect_refused(1, 2, one);
				ASSERT_TRUE(c.say_properties(2));
				c.expect_refused(2, 2, one);
			}
			/* What it could not be any more it is from the beginning. */
			if (may)
				EXPECT_EQ(c.log.versions, 0);
			else
				c.log.expect_version("server", 1,
						     setting.parameter ? "unmarked" : "off", 1);
			const bool speaks2 = first2 && may;
			c.expect_served(3, speaks2);
			if (may)
				c.log.expect_version("server", speaks2 ? 2 : 1, "first message", 1);
			EXPECT_EQ(c.version(), speaks2 ? 2 : 1);
			EXPECT_EQ(c.promised(), c.granted() + (speaks2 ? kExtra : 0));
			/* From here on there is one. */
			for (const auto &words : strange) {
				ASSERT_TRUE(c.say(words));
				c.expect_refused(9, words[1], speaks2 ? two : one);
			}
			ASSERT_TRUE(speaks2 ? c.send_inline(4) : c.say_call(4));
			c.expect_refused(4, speaks2 ? 1 : 2, speaks2 ? two : one);
			if (!speaks2) {
				ASSERT_TRUE(c.say_properties(5));
				c.expect_refused(5, 2, one);
			}
			c.expect_served(6, speaks2);
			EXPECT_EQ(c.svc.closed, 0);
		}
}

/* A CONNPROP is answered by the completion, with the grant; what it says counts. */
RPCORDMA_TEST(server_version2, properties)
{
	static constexpr struct {
		u32 size;	    /* of our messages */
		u32 says;	    /* the client */
		u32 credits, grant; /* that it asks for, and gets */
		u32 send;
	} cases[] = {
		{4096, 4096, 64, kInitial, 4096}, {8192, 8192, 64, kInitial, 8192},
		{8192, 20480, 3, 3, 20480},	  {8192, 4096, 0, 1, 4096},
		{8192, 1024, 64, kInitial, 4096}, {8192, 6000, 64, kInitial, 6000},
	};

	for (const auto &k : cases) {
		TEST_NOTE("says", k.says);
		Served2 c({1, true, k.size});

		ASSERT_TRUE(c.say_properties(0xabc, k.credits, k.says));
		/* Nobody was called, and the Receives are there. */
		EXPECT_EQ(c.svc.enqueued, 1); /* by the event */
		EXPECT_FALSE(c.svc.data);
		EXPECT_EQ(c.verbs.sends, 1);
		EXPECT_GE(c.verbs.receives_at_send, k.grant + kExtra);
		EXPECT_EQ(c.work(), 1);
		c.expect_properties(0xabc, k.grant, k.size);
		EXPECT_EQ(c.in_service(), 0);
		EXPECT_EQ(c.version(), 2);
		EXPECT_EQ(c.send_size(), k.send);
		EXPECT_EQ(counter(RPCORDMA_SERVER_V2_CONNECTIONS), 1);
		c.log.expect_version("server", 2, "CONNPROP", 1);
		EXPECT_EQ(c.log.property_events, 2);
		c.log.expect_property(1, "applied",
				      {0xabc, k.credits, 6, 1, 0, max(k.says, 4096u), 0});
		c.log.expect_property(0, "sent", {0xabc, k.grant, 6, 0x3f, 0x3f, k.size, 0});
		c.expect_served(1, true);
		/* A second one, any time. */
		ASSERT_TRUE(c.say_properties(0xabd, 64, 5000));
		c.work();
		c.expect_properties(0xabd, c.grant(), k.size);
		c.log.expect_property(1, "applied", {0xabd, 64, 6, 1, 0, 5000, 0});
		c.log.expect_version("server", 2, "CONNPROP", 1);
		EXPECT_EQ(c.send_size(), 5000);
		EXPECT_EQ(counter(RPCORDMA_SERVER_V2_CONNECTIONS), 1);
		EXPECT_EQ(c.room_taken(), 0);
	}
}

/* Properties count whenever they come: nothing that came before them matters. */
RPCORDMA_TEST(server_version2, late_properties)
{
	enum First { call, question, cut_short, not_its_type };

	for (u32 first = call; first <= not_its_type; first++) {
		TEST_NOTE("first", first);
		Served2 c({1, true, 8192});
		const u32 asks[] = {1, 2, 64, 7, 0}, cut[] = {1, 2, 64, 6, 1, 1, 4, 8192};
		const u32 undecodable[] = {2};

		if (first == call)
			c.expect_served(1, true);
		if (first == question) {
			ASSERT_TRUE(c.say(asks));
			c.work();
			const u32 rejected[] = {1, 2, kInitial, 8, 0, 0, 0};
			expect_words(c.peer.last(), rejected);
		}
		if (first == cut_short) {
			ASSERT_TRUE(c.say(cut));
			c.expect_refused(1, 2, undecodable);
		}
		if (first == not_its_type) {
			const u32 wrong[] = {1, 2, 64, 6, 2, 1, 4, 8192, 3, 8, 0, 0, 0};
			ASSERT_TRUE(c.say(wrong));
			c.log.expect_property(0, "malformed", {1, 64, 6, 0, 0, 4096, 0});
			c.expect_refused(1, 2, undecodable);
		}
		EXPECT_EQ(c.version(), 2);
		EXPECT_EQ(c.send_size(), 4096);
		EXPECT_EQ(counter(RPCORDMA_SERVER_V2_CONNECTIONS), 1);
		ASSERT_TRUE(c.say_properties(2, 64, 6000));
		c.work();
		c.expect_properties(2, c.grant(), 8192);
		c.log.expect_property(1, "applied", {2, 64, 6, 1, 0, 6000, 0});
		EXPECT_EQ(c.send_size(), 6000);
		/* The client may have sent before it knew ours. */
		EXPECT_EQ(c.server->session.thresholds().receive, 4096);
		EXPECT_EQ(counter(RPCORDMA_SERVER_V2_CONNECTIONS), 1);
		c.expect_served(3, true);
		EXPECT_EQ(c.svc.closed, 0);
	}
}

/* Properties cut at each byte, at first and later: refused, or dropped where there is no header. Nothing of them applies. */
RPCORDMA_TEST(server_version2, properties_cut)
{
	u8 room[v2::most_connprop_length];
	const auto whole = protocol::encode_properties(room, Xid(9), Credits(64), {8192}, 0);
	static constexpr u32 bad_xdr[] = {2};

	ASSERT_OK(whole);
	for (u32 size = 0; size < whole.value(); size++)
		for (const bool first : {true, false}) {
			TEST_NOTE("size", size);
			TEST_NOTE("first", first);
			Served2 c({1, true, 8192});

			if (!first)
				c.expect_served(1, true);
			ASSERT_TRUE(c.say_bytes(Bytes(room, size)));
			if (size < 16)
				c.expect_dropped();
			else
				c.expect_refused(9, 2, bad_xdr);
			c.expect_served(2, true);
			EXPECT_EQ(c.send_size(), 4096);
			EXPECT_EQ(c.svc.closed, 0);
		}
}

/* Sizes and structures of any numbers: never less than every client takes, nor more than we send. */
RPCORDMA_TEST(server_version2, strange_properties)
{
	static constexpr struct {
		u32 size, total, groups[4];
		u32 send;
	} cases[] = {
		{0, 0, {1, 4096, 8, 0}, 4096},
		{1, 1, {1, 1, 8, 0}, 4096},
		{~0u, ~0u, {~0u, 1, 8, 0}, protocol::kMostInline},
		{1u << 31, 0, {1u << 31, 2, 8, 0}, protocol::kMostInline},
		{8192, 1, {~0u, ~0u, 8, 1}, 8192},
		{8192, 0, {1u << 16, 1u << 16, 8, 1}, 8192},
		{8192, 0, {0, 4096, 8, 1}, 8192},
		{8192, 0, {4096, 0, 8, 1}, 8192},
		{8192, 5000, {1, 5000, 8, 0}, 5000},
		{8192, 100, {1, 100, 8, 0}, 4096},
		{8192, 1u << 20, {1, 1u << 20, 8, 0}, 8192},
	};
	static constexpr u32 bad_xdr[] = {2};

	for (const auto &k : cases) {
		TEST_NOTE("case", u32(&k - cases));
		Served2 c({1, true, 8192});
		const u32 words[] = {9,		  2,	       64,	    6,		 2,	  1,
				     4,		  k.size,      4,	    24,		 k.total, 1,
				     k.groups[0], k.groups[1], k.groups[2], k.groups[3], 0};

		ASSERT_TRUE(c.say(words));
		c.work();
		c.expect_properties(9, c.grant(), 8192);
		EXPECT_EQ(c.send_size(), k.send);
		c.expect_served(1, true);
	}
	/* More groups than there are, by a count that overflows what they take. */
	for (const u32 count : {0u, 2u, 1u << 28, (1u << 28) + 1, ~0u}) {
		TEST_NOTE("count", count);
		Served2 c({1, true, 8192});
		const u32 words[] = {9, 2, 64, 6, 1, 4, 24, 8192, count, 1, 8192, 8, 0, 0};

		ASSERT_TRUE(c.say(words));
		c.expect_refused(9, 2, bad_xdr);
		EXPECT_EQ(c.send_size(), 4096);
		c.expect_served(1, true);
	}
	/* 1,000 properties, of which there are as many as a message takes; and all of these. */
	for (const u32 count : {1000u, 500u}) {
		TEST_NOTE("count", count);
		Served2 c;
		const MutableBytes bytes = test_alloc(24 + 8 * 500);
		const u32 head[] = {9, 2, 64, 6, count};

		__builtin_memset(bytes.data(), 0, bytes.size());
		__builtin_memcpy(bytes.data(), RawMessage(head).bytes, 20);
		ASSERT_TRUE(c.say_bytes(bytes));
		if (count == 1000) {
			c.expect_refused(9, 2, bad_xdr);
		} else {
			c.work();
			c.expect_properties(9, c.grant());
		}
		c.expect_served(1, true);
	}
}

/* Updates, however many, apply at once, are not answered, and take nothing. */
RPCORDMA_TEST(server_version2, updates)
{
	enum { by_default, told, fixed };

	for (u32 before = by_default; before <= fixed; before++) {
		TEST_NOTE("before", before);
		Served2 c({1, true, 8192});
		const u32 says[] = {1, 2, 64, 6, 1, 1, 4, 5000, 1, before == fixed};

		if (before != by_default) {
			ASSERT_TRUE(c.say(says));
			c.work();
			c.expect_properties(1, c.grant(), 8192);
		}
		const u32 messages = c.peer.messages;
		for (u32 i = 0; i < 1000; i++) {
			const u32 words[] = {9, 2, 64, 9, 1, 1, 4, 4096 + i};

			ASSERT_TRUE(c.say(words));
			EXPECT_EQ(c.in_service(), 0);
			c.log.expect_property(0, "applied", {9, 64, 9, 1, 0, 4096 + i, 0});
			EXPECT_EQ(c.send_size(), before == fixed ? 5000 : 4096 + i);
		}
		EXPECT_EQ(c.peer.messages, messages);
		EXPECT_EQ(counter(RPCORDMA_SERVER_DROPPED), 0);
		/* One that does not decode changes nothing. */
		static constexpr u32 wrong[] = {9, 2, 64, 9, 2, 1, 4, 6000, 3, 8, 0, 0},
				     bad_xdr[] = {2};
		const u32 size = c.send_size();
		ASSERT_TRUE(c.say(wrong));
		c.expect_refused(9, 2, bad_xdr);
		EXPECT_EQ(c.send_size(), size);
		c.expect_served(2, true);
		EXPECT_EQ(c.promised(), c.granted() + kExtra);
	}
}

/* A reply is as long as the client takes when it is planned, which may be more or less than when its call came. */
RPCORDMA_TEST(server_version2, reply_after_update)
{
	static constexpr struct {
		u32 before, after;
		bool fits;
	} cases[] = {
		{4096, 5000, true}, {5000, 4096, false}, {5000, 4999, false}, {5000, 5000, true}};
	static constexpr u32 payload = 5000 - 36;

	for (const auto &k : cases)
		for (const bool update : {false, true}) {
			TEST_NOTE("before", k.before);
			TEST_NOTE("after", k.after);
			TEST_NOTE("update", update);
			Served2 c({1, true, 8192});
			const u32 words[] = {2, 2, 64, 9, 1, 1, 4, k.after};

			ASSERT_TRUE(c.say_properties(1, 64, k.before));
			c.work();
			ASSERT_TRUE(c.say_call(7));
			ASSERT_EQ(c.receive(), 40);
			ASSERT_TRUE(update ? c.say(words) : c.say_properties(2, 64, k.after));
			c.work();
			EXPECT_EQ(c.reply(payload), 0);
			c.work();
			if (k.fits) {
				const u32 header[] = {7, 2, c.grant(), 0, 1, 0, 0, 0, 0};

				EXPECT_BYTES(c.peer.last().first(36), RawMessage(header).message());
				EXPECT_EQ(c.peer.message_length, 5000);
			} else {
				const u32 refusal[] = {7, 2, c.grant(), 4, 3, 0, 0};

				expect_words(c.peer.last(), refusal);
			}
		}
}

/* What the client's private data said of its Receives is over with the version in which it says it otherwise. */
RPCORDMA_TEST(server_version2, described_anew)
{
	for (const bool two : {false, true}) {
		TEST_NOTE("two", two);
		Served c;
		private_data::Properties client;
		rpcordma_agreement agreed;

		client.send_size = client.receive_size = 8192;
		client.mark = true;
		rpcordma_server_tunables.version2 = 1;
		rpcordma_server_tunables.max_req_size = 8192;
		EXPECT_EQ(c.accept(16, &client), 0);
		rpcordma_core_server_refill();
		c.establish();
		rpcordma_core_server_describe(c.server, &agreed);
		EXPECT_EQ(agreed.peer_receive_size, 8192);
		if (two) {
			Call2Maker call(1);

			call.finish(40);
			ASSERT_TRUE(c.send(call));
		} else {
			ASSERT_TRUE(c.send_inline(1));
		}
		rpcordma_core_server_describe(c.server, &agreed);
		EXPECT_EQ(agreed.peer_receive_size, two ? 4096 : 8192);
		ASSERT_EQ(c.receive(), 40);
		c.release();
	}
}

/* What an administrator sees of a connection. */
RPCORDMA_TEST(server_version2, described)
{
	auto seen = [](const Served2 &c) {
		rpcordma_agreement agreed;

		rpcordma_core_server_describe(c.server, &agreed);
		EXPECT_EQ(agreed.receive_pages, 0);
		EXPECT_EQ(agreed.peer_receive_pages, 0);
		return agreed;
	};

	for (const bool two : {false, true}) {
		TEST_NOTE("two", two);
		Served2 c({1, true, 8192});

		EXPECT_EQ(seen(c).why, nullptr);
		EXPECT_EQ(seen(c).receive_size, 8192);
		c.expect_served(1, two);
		EXPECT_TRUE(same_words(seen(c).why, "first message"));
		EXPECT_EQ(seen(c).version, two ? 2 : 1);
		EXPECT_EQ(seen(c).receive_size, 8192);
		EXPECT_EQ(seen(c).peer_receive_size, two ? 4096 : c.send_size());
		if (two) {
			ASSERT_TRUE(c.say_properties(2, 64, 6000));
			c.work();
			EXPECT_EQ(seen(c).peer_receive_size, 6000);
			const u32 words[] = {9, 2, 64, 9, 1, 1, 4, 7000};
			ASSERT_TRUE(c.say(words));
			EXPECT_EQ(seen(c).peer_receive_size, 7000);
			EXPECT_TRUE(same_words(seen(c).why, "first message"));
		}
	}
	{
		Served2 c({1, true, 8192});

		ASSERT_TRUE(c.say_properties(1));
		c.work();
		EXPECT_TRUE(same_words(seen(c).why, "CONNPROP"));
		EXPECT_EQ(seen(c).version, 2);
	}
	for (const bool off : {false, true}) {
		Served2 c({off ? 0u : 1u, off, 8192});

		EXPECT_TRUE(same_words(seen(c).why, off ? "off" : "unmarked"));
		EXPECT_EQ(seen(c).version, 1);
	}
}

/* What comes ahead of the ESTABLISHED event is answered by it, all of it. */
RPCORDMA_TEST(server_version2, before_established)
{
	for (const u32 questions : {1u, 7u}) {
		TEST_NOTE("questions", questions);
		Served2 c({.established = false});

		for (u32 i = 0; i < questions; i++)
			ASSERT_TRUE(c.say_properties(i));
		ASSERT_TRUE(c.say_call(99));
		EXPECT_EQ(c.verbs.sends, 0);
		EXPECT_EQ(c.svc.enqueued, 0);
		EXPECT_EQ(c.in_service(), questions + 1);
		c.establish();
		EXPECT_EQ(c.verbs.sends, questions);
		EXPECT_EQ(c.work(), questions);
		EXPECT_EQ(c.peer.messages, questions);
		c.expect_properties(questions - 1, c.grant());
		EXPECT_EQ(c.in_service(), 1);
		EXPECT_EQ(c.receive(), 40);
		EXPECT_EQ(c.reply(20), 0);
		c.work();
		/* Once. */
		c.expect_served(1, true);
	}
	/* The event comes behind the disconnect, or only when all that there was is freed: see rpcordma_endpoint_destroy(). */
	for (const bool event : {false, true}) {
		TEST_NOTE("event", event);
		Served2 c({.established = false});

		ASSERT_TRUE(c.say_properties(1));
		ASSERT_TRUE(c.say_properties(2));
		rpcordma_core_server_event(c.server, RPCORDMA_EVENT_DISCONNECTED);
		if (event)
			c.establish();
		EXPECT_EQ(c.verbs.sends, 0);
		c.end();
	}
}

/* An answer that cannot be given ends the connection, and nothing of it is left. */
RPCORDMA_TEST(server_version2, no_answer)
{
	enum Missing { memory, mapping, room, post };

	for (u32 missing = memory; missing <= post; missing++)
		for (const bool early : {false, true}) {
			TEST_NOTE("missing", missing);
			TEST_NOTE("early", early);
			Served2 c({.established = !early});
			const u32 xid = 5, others = early ? 2 : 0;

			for (u32 i = 0; i < others; i++)
				ASSERT_TRUE(c.say_properties(i));
			if (early)
				ASSERT_TRUE(c.say_properties(xid));
			{
				const NoRoom none(c, missing == room ? 0 : c.room());

				if (missing == memory)
					c.memory.allocations_left = 0;
				if (missing == mapping)
					c.dma.mappings_left = 0;
				if (missing == post)
					c.verbs.sends_left = 0;
				if (early)
					c.establish();
				else
					ASSERT_TRUE(c.say_properties(xid));
				c.want_for_nothing();
			}
			EXPECT_EQ(c.svc.closed, 1);
			EXPECT_EQ(c.verbs.sends, 0);
			EXPECT_EQ(c.in_service(), 0);
			EXPECT_EQ(c.room_taken(), 0);
			EXPECT_EQ(c.log.take(trace::Loss::rpc_failed), 1);
			using trace::Failure;
			EXPECT_EQ(c.log.take(Failure::send_buffer_failed), missing == memory);
			EXPECT_EQ(c.log.take(Failure::send_map_failed), missing == mapping);
			EXPECT_EQ(c.log.take(Failure::refusal_failed), missing < room);
			EXPECT_EQ(c.log.take(Failure::send_queue_full), missing == room);
			EXPECT_EQ(c.log.take(Failure::post_failed), missing == post);
		}
}

/* Who asks on and on without taking the answers fills the send queue, and that is the end of it; until then he is served. */
RPCORDMA_TEST(server_version2, flood)
{
	for (const bool properties : {false, true}) {
		TEST_NOTE("properties", properties);
		Served2 c;
		const u32 asks[] = {1, 2, 64, 7, 0}, room = c.room();

		for (u32 sent = 0; sent <= room; sent++) {
			TEST_NOTE("sent", sent);
			EXPECT_EQ(c.svc.closed, 0);
			ASSERT_TRUE(properties ? c.say_properties(sent) : c.say(asks));
			EXPECT_FALSE(c.svc.data);
		}
		EXPECT_EQ(c.svc.closed, 1);
		EXPECT_EQ(c.verbs.sends, room);
		EXPECT_EQ(c.room(), 0);
		EXPECT_EQ(c.work(), room);
		EXPECT_EQ(c.in_service(), 0);
	}
	/* As often as he likes, if he takes them. */
	Served2 c;
	for (u32 i = 0; i < 500; i++) {
		ASSERT_TRUE(c.say_properties(i));
		EXPECT_EQ(c.work(), 1);
		c.expect_properties(i, c.grant());
	}
	c.expect_served(7, true);
}

namespace {

struct Bad {
	u32 words[14];
	u32 length; /* bytes */
	u32 answer; /* rdma_err; 0: none */
};

constexpr u32 kBadXdr = 2, kReplyResource = 3, kInvalProc = 4, kInvalOption = 5, kSystem = 6;

constexpr Bad kBad[] = {
	/* No such proc, whatever follows. */
	{{9, 2, 3, 2, 0, 0, 0, 0, 0, 9, 0}, 44, kInvalProc},
	{{9, 2, 3, 3, 0, 0, 0, 0, 0, 9, 0}, 44, kInvalProc},
	{{9, 2, 3, 10}, 16, kInvalProc},
	{{9, 2, 3, ~0u}, 16, kInvalProc},
	/* Extensions. */
	{{9, 2, 3, 5, 0, 77, 0}, 28, kInvalOption},
	{{9, 2, 3, 5, 0, 77}, 24, kInvalOption},
	{{9, 2, 3, 5, 0, 2, 12, 0, 1, 0}, 40, kInvalOption},
	{{9, 2, 3, 5, 0, 1, 20, 0, 0, 1, 0, 0}, 48, kInvalOption},
	{{9, 2, 3, 5, 0, 3, 12, 1, 0, 0}, 40, kInvalOption},
	{{9, 2, 3, 5, 0, 1, 20, 0, 0, 1, 0}, 44, kBadXdr},
	{{9, 2, 3, 5, 2, 1, 20, 0, 0, 1, 0, 0}, 48, kBadXdr},
	/* Cut short; a direction, or a list, that is neither; counts beyond the message. */
	{{9, 2, 3, 0}, 16, kBadXdr},
	{{9, 2, 3, 0, 0, 0, 0, 0}, 32, kBadXdr},
	{{9, 2, 3, 0, 2, 0, 0, 0, 0, 9, 0}, 44, kBadXdr},
	{{9, 2, 3, 0, 0, 0, 2, 0, 0, 9, 0}, 44, kBadXdr},
	{{9, 2, 3, 0, 0, 0, 0, 1, 99, 0, 0, 9, 0}, 52, kBadXdr},
	{{9, 2, 3, 7, 1}, 20, kBadXdr},
	{{9, 2, 3, 9, 1}, 20, kBadXdr},
	{{9, 2, 3, 6, 0}, 20, kBadXdr},
	/* Properties that are known, and not of their type: alone, and behind others that are. */
	{{9, 2, 3, 6, 1, 1, 8, 1, 2, 0}, 40, kBadXdr},
	{{9, 2, 3, 7, 1, 1, 2, 0}, 32, kBadXdr},
	{{9, 2, 3, 7, 2, 77, 4, 1, 2, 4, 3}, 44, kBadXdr},
	{{9, 2, 3, 9, 1, 1, 8, 1, 2}, 36, kBadXdr},
	{{9, 2, 3, 9, 2, 1, 4, 8192, 4, 4, 9}, 44, kBadXdr},
	{{9, 2, 3, 9, 2, 1, 4, 8192, 4, 8, 9, 1}, 48, kBadXdr},
	/* No RPC message, half of one, another's, a reply; nothing at all. */
	{{9, 2, 3, 0, 0, 0, 0, 0, 0}, 36, kBadXdr},
	{{9, 2, 3, 0, 0, 0, 0, 0, 0, 9}, 40, kBadXdr},
	{{9, 2, 3, 0, 0, 0, 0, 0, 0, 8, 0}, 44, kBadXdr},
	{{9, 2, 3, 0, 0, 0, 0, 0, 0, 9, 1}, 44, kBadXdr},
	{{9, 2, 3, 1, 0, 0, 0, 0, 0}, 36, kBadXdr},
	/* Replies: never answered. */
	{{9, 2, 3, 0, 1, 0, 0, 0}, 32, 0},
	{{9, 2, 3, 0, 1, 0, 2, 0, 0, 9, 1}, 44, 0},
	{{9, 2, 3, 0, 1, 0, 0, 0, 0, 8, 1}, 44, 0},
	{{9, 2, 3, 0, 1, 0, 0, 0, 0, 9, 0}, 44, 0},
	{{9, 2, 3, 1, 1, 0, 0, 0, 0}, 36, 0},
	{{9, 2, 3, 1, 1, 0, 0, 0, 1, 0}, 40, 0},
	{{9, 2, 3, 5, 1, 77, 0}, 28, 0},
	{{9, 2, 3, 5, 1, 2, 12, 0, 1, 0}, 40, 0},
	{{9, 2, 3, 4, 0}, 20, 0},
	{{9, 2, 3, 4, 7}, 20, 0},
	{{9, 2, 3, 4, 1, 1}, 24, 0},
	{{9, 1, 3, 4, 2}, 20, 0},
	{{9, 2, 3, 8, 0, 0, 0}, 28, 0},
	{{9, 2, 3, 8, 0, 0, 1}, 28, 0},
	{{9, 2, 3, 8, 0, 0, 1, 1, 2, 0}, 40, 0},
	/* Too short for anything. */
	{{9, 2, 3, 6}, 15, 0},
	{{}, 0, 0},
};

} // namespace

/* Each gets its own error, or none; and the connection serves. As the first message it settles the version, too. */
RPCORDMA_TEST(server_version2, bad_messages)
{
	for (const bool first : {false, true})
		for (u32 i = 0; i < sizeof(kBad) / sizeof(kBad[0]); i++) {
			TEST_NOTE("message", i);
			TEST_NOTE("first", first);
			const Bad &m = kBad[i];
			Served2 c({1, true, 8192});

			if (!first)
				c.expect_served(1, true);
			ASSERT_TRUE(c.say_bytes(RawMessage(m.words).message().first(m.length)));
			const u32 error[] = {m.answer};
			if (m.answer)
				c.expect_refused(9, 2, error);
			else
				c.expect_dropped();
			EXPECT_EQ(counter(RPCORDMA_SERVER_DROPPED), m.answer ? 0 : 1);
			EXPECT_EQ(c.errors(), m.answer ? 1 : 0);
			EXPECT_EQ(c.svc.backward_replies, 0);
			EXPECT_EQ(c.send_size(), 4096);
			/* It took the version of what came, where it was long enough to have one. */
			c.expect_served(2, !(first && m.length >= 16 && m.words[1] == 1));
			EXPECT_EQ(c.svc.closed, 0);
		}
}

/* An RPC header that is cut short is answered; version 1 leaves that to sunrpc, which closes the connection. */
RPCORDMA_TEST(server_version2, cut_calls)
{
	static constexpr u32 bad[] = {kBadXdr};

	for (const u32 size : {8u, 12u, 24u, 39u, 40u}) {
		TEST_NOTE("size", size);
		{
			Served2 c;

			ASSERT_TRUE(c.say_call(3, size));
			if (size < 40) {
				c.expect_refused(3, 2, bad);
				EXPECT_EQ(c.log.take(trace::Failure::call_cut_short), 1);
				EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
			} else {
				EXPECT_EQ(c.receive(), 40);
				c.release();
			}
			c.expect_served(4, true);
		}
		Connected one;
		ASSERT_TRUE(one.send_inline(5, 64, size));
		EXPECT_EQ(one.receive(), int(size));
		one.release();
	}
}

/* Well-formed calls that are too much, and replies that fit nowhere. */
RPCORDMA_TEST(server_version2, beyond_us)
{
	static constexpr u32 system[] = {kSystem}, bad[] = {kBadXdr};
	{
		Served2 c({1, true, 8192});
		Call2Maker many(1);
		many.encoder.write_chunk(257);
		for (u32 i = 0; i < 257; i++)
			many.encoder.segment(CallMaker::segment(4, i * 4));
		many.finish(40);
		ASSERT_TRUE(c.send(many));
		c.expect_refused(1, 2, system);
		EXPECT_EQ(c.log.take(trace::Failure::call_segments), 1);
		EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
	}
	{
		Served2 c;
		c.server->limits.max_pages = 4;
		Call2Maker pages(2);
		pages.read(40, 4 * kPage + 1);
		pages.finish(60);
		ASSERT_TRUE(c.send(pages));
		c.expect_refused(2, 2, system);
		/* Longer than any call may be, by one byte and by all that lengths can say. */
		for (const u32 read : {c.svc.limits.max_message - 59, ~0u}) {
			Call2Maker longer(5);
			longer.read(40, read);
			longer.finish(60);
			ASSERT_TRUE(c.send(longer));
			c.expect_refused(5, 2, system);
		}
		/* Not beyond us, but wrong: a chunk in the header of the RPC. */
		Call2Maker inside(3);
		inside.read(36, 100);
		inside.finish(60);
		ASSERT_TRUE(c.send(inside));
		c.expect_refused(3, 2, bad);
		Call2Maker behind(4);
		behind.read(64, 100);
		behind.finish(60);
		ASSERT_TRUE(c.send(behind));
		c.expect_refused(4, 2, bad);
	}
	{
		/* A chunk that could not be written the last time. */
		Served2 c;
		auto send_it = [&] {
			Call2Maker call(1);
			call.write(1000, kWrite);
			call.finish(40);
			ASSERT_TRUE(c.send(call));
		};
		send_it();
		ASSERT_EQ(c.receive(), 40);
		c.rqst->ddp_allowed = true;
		(void)rpcordma_core_server_result_payload(c.rqst->call, 20, 1000);
		ASSERT_EQ(c.send_reply_pages(20, 1000, 8), 0);
		c.verbs.fail_at = 0;
		c.verbs.fail_status = RPCORDMA_WC_REMOTE_ACCESS;
		c.work();
		c.release();
		c.end();
		c.connect({.marked = true});
		send_it();
		c.expect_refused(1, 2, system);
	}
	/* No room for a reply, which is told of the last segment of the chunk that is too short. */
	for (const u32 room : {0u, 100u, 4999u}) {
		TEST_NOTE("room", room);
		Served2 c({.remote_invalidation = true});
		Call2Maker call(1, 64, xdr::Kind::msg, xdr::Direction::call, PortPeer::kKey);
		call.write(100, kWrite);
		if (room)
			call.reply(room, kReply);
		call.finish(40);
		ASSERT_TRUE(c.send(call));
		ASSERT_EQ(c.receive(), 40);
		EXPECT_EQ(c.reply(5000), 0);
		c.work();
		const u32 words[] = {
			1, 2, c.grant(), 4, kReplyResource, room ? 2u : 0u, room ? 5000u : 0u};
		expect_words(c.peer.last(), words);
		EXPECT_EQ(counter(RPCORDMA_SERVER_V2_ERR_REPLY_RESOURCE), 1);
		EXPECT_EQ(c.errors(), 1);
		EXPECT_EQ(c.peer.invalidated, 0);
		c.expect_served(2, true);
	}
	{
		Served2 c;
		Call2Maker call(1);
		call.write(99, kWrite);
		call.finish(40);
		ASSERT_TRUE(c.send(call));
		ASSERT_EQ(c.receive(), 40);
		c.rqst->ddp_allowed = true;
		(void)rpcordma_core_server_result_payload(c.rqst->call, 20, 100);
		ASSERT_EQ(c.send_reply_pages(20, 100, 8), 0);
		c.release();
		c.work();
		const u32 words[] = {1, 2, c.grant(), 4, kReplyResource, 1, 100};
		expect_words(c.peer.last(), words);
	}
}

/* The R_key that the call names is invalidated with its reply, if the call offers it; and no other. */
RPCORDMA_TEST(server_version2, invalidation)
{
	enum Chunk { none, read, write, reply };

	for (const bool able : {false, true})
		for (u32 chunk = none; chunk <= reply; chunk++)
			for (const u32 key : {0u, u32(PortPeer::kKey), PortPeer::kKey + 1}) {
				TEST_NOTE("able", able);
				TEST_NOTE("chunk", chunk);
				TEST_NOTE("key", key);
				Served2 c({.remote_invalidation = able});
				Call2Maker call(1, 64, xdr::Kind::msg, xdr::Direction::call, key);

				if (chunk == read)
					call.read(40, 100);
				if (chunk == write)
					call.write(100, kWrite);
				if (chunk == reply)
					call.reply(100, kReply);
				call.finish(60);
				ASSERT_TRUE(c.send(call));
				c.work();
				int got = c.receive();
				/* It was the thread that pulled. */
				if (!got && chunk == read) {
					c.work();
					got = c.receive();
				}
				ASSERT_EQ(got, chunk == read ? 160 : 60);
				EXPECT_EQ(c.reply(20), 0);
				c.work();
				EXPECT_EQ(c.peer.invalidated,
					  able && chunk != none && key == PortPeer::kKey ? key : 0);
				/* Of no chunk: as none, but counted. */
				EXPECT_EQ(counter(RPCORDMA_SERVER_V2_FOREIGN_KEYS),
					  key && (chunk == none || key != PortPeer::kKey) ? 1 : 0);
			}
}

/* Replies with Write and Reply chunks. */
RPCORDMA_TEST(server_version2, chunks)
{
	Served2 c;
	{
		Call2Maker call(1);
		call.write(1000, kWrite);
		call.finish(40);
		ASSERT_TRUE(c.send(call));
		ASSERT_EQ(c.receive(), 40);
		c.rqst->ddp_allowed = true;
		(void)rpcordma_core_server_result_payload(c.rqst->call, 20, 1000);
		ASSERT_EQ(c.send_reply_pages(20, 1000, 8), 0);
		c.release();
		c.work();
		const u64 at = PortPeer::kAddress + kWrite;
		const u32 header[] = {1,	 2,
				      c.grant(), 0,
				      1,	 0,
				      0,	 1,
				      1,	 PortPeer::kKey,
				      1000,	 u32(at >> 32),
				      u32(at),	 0,
				      0};
		EXPECT_BYTES(c.peer.last().first(60), RawMessage(header).message());
		EXPECT_EQ(c.peer.message_length, 60 + 28);
		expect_written(kWrite, 20, 1000);
	}
	{
		Call2Maker call(2);
		call.reply(6000, kReply);
		call.finish(40);
		ASSERT_TRUE(c.send(call));
		ASSERT_EQ(c.receive(), 40);
		EXPECT_EQ(c.reply(5000), 0);
		c.work();
		const u64 at = PortPeer::kAddress + kReply;
		const u32 header[] = {2,
				      2,
				      c.grant(),
				      1,
				      1,
				      0,
				      0,
				      0,
				      1,
				      1,
				      PortPeer::kKey,
				      5000,
				      u32(at >> 32),
				      u32(at)};
		expect_words(c.peer.last(), header);
		expect_written(kReply, 0, 5000);
	}
	{
		/* A long call, whose bytes are all in a Read chunk. */
		Call2Maker call(3, 64, xdr::Kind::nomsg);
		call.read(0, 200);
		call.finish(0);
		ASSERT_TRUE(c.send(call));
		c.work();
		int got = c.receive();
		if (!got) {
			c.work();
			got = c.receive();
		}
		EXPECT_EQ(got, 200);
		EXPECT_EQ(c.reply(20), 0);
		c.work();
	}
}

/* What fits inline: one byte more does not. */
RPCORDMA_TEST(server_version2, longest_reply)
{
	for (const u32 size : {4060u, 4061u}) {
		TEST_NOTE("size", size);
		Served2 c;

		ASSERT_TRUE(c.say_call(1));
		ASSERT_EQ(c.receive(), 40);
		EXPECT_EQ(c.reply(size), 0);
		c.work();
		/* RDMA2_MSG, or RDMA2_ERROR. */
		EXPECT_EQ(xdr::load_be32(c.peer.message + 12), size == 4060 ? 0 : 4);
		EXPECT_EQ(c.peer.message_length, size == 4060 ? 4096 : 28);
	}
}

/* Backward calls and their replies. */
RPCORDMA_TEST(server_version2, backward)
{
	Served2 c;

	/* While the version is open there is none to call in. */
	EXPECT_EQ(c.send_backward(1, 40), to_errno(Error::not_connected));
	EXPECT_EQ(c.verbs.sends, 0);
	EXPECT_EQ(c.backward_outstanding(), 0);
	ASSERT_TRUE(c.say_properties(1));
	c.work();
	const u32 most = rpcordma_core_server_backward_payload(c.server);
	EXPECT_EQ(most, 4096 - 36);
	EXPECT_EQ(c.send_backward(1, most + 1), to_errno(Error::message_size));
	c.svc.backward_known = true;
	for (const u32 size : {100u, most}) {
		TEST_NOTE("size", size);
		EXPECT_EQ(c.send_backward(5, size), 0);
		c.work();
		const u32 header[] = {5, 2, kServerBackwardCalls, 0, 0, 0, 0, 0, 0};
		EXPECT_BYTES(c.peer.last().first(36), RawMessage(header).message());
		EXPECT_BYTES(c.peer.last().from(36), Bytes(c.reply_bytes, size));
		EXPECT_GE(c.verbs.posted, c.granted() + 1 + kExtra);
		Reply2Maker reply(5, 7);
		reply.finish(36, kReplyMessage);
		ASSERT_TRUE(c.send(reply));
		EXPECT_EQ(c.svc.backward_xid, 5);
		EXPECT_EQ(c.svc.backward_length, 36);
		EXPECT_EQ(c.svc.backward_credits, 7);
		EXPECT_EQ(c.backward_outstanding(), 0);
	}
	EXPECT_EQ(c.svc.backward_replies, 2);
	/* Errors, each of which is for good. */
	for (u32 code = 1; code <= 6; code++) {
		TEST_NOTE("code", code);
		EXPECT_EQ(c.send_backward(code, 40), 0);
		c.work();
		const u32 words[] = {code, 2, 16, 4, code, 0, 0};
		ASSERT_TRUE(c.say(words));
		EXPECT_EQ(c.svc.backward_errors, code);
		EXPECT_EQ(c.svc.backward_error, to_errno(Error::io));
		EXPECT_EQ(c.backward_outstanding(), 0);
	}
	/* A reply with a chunk is none, and not answered. */
	EXPECT_EQ(c.send_backward(9, 40), 0);
	c.work();
	const u32 before = c.peer.messages;
	Reply2Maker chunked(9);
	chunked.write(100);
	chunked.finish(36, kReplyMessage);
	ASSERT_TRUE(c.send(chunked));
	EXPECT_EQ(c.receive(), 0);
	c.work();
	EXPECT_EQ(c.peer.messages, before);
	EXPECT_EQ(c.svc.backward_replies, 2);
	EXPECT_EQ(c.backward_outstanding(), 1);
	EXPECT_EQ(counter(RPCORDMA_SERVER_DROPPED), 1);
}

/* REQPROP: all that is asked for is rejected. */
RPCORDMA_TEST(server_version2, request)
{
	Served2 c;
	const u32 two[] = {7, 2, 64, 7, 2, 1, 4, 9999, 77, 0};
	const u32 answer[] = {7, 2, kInitial, 8, 0, 1, 3, 0};

	ASSERT_TRUE(c.say_properties(1));
	c.work();
	ASSERT_TRUE(c.say(two));
	EXPECT_FALSE(c.svc.data);
	c.work();
	expect_words(c.peer.last(), answer);
	EXPECT_EQ(c.log.property_events, 4);
	c.log.expect_property(1, "rejected", {7, 64, 7, 1, 0, 9999, 0});
	c.log.expect_property(0, "sent", {7, kInitial, 8, 0, 0, 4096, 0});
	const u32 wrong[] = {7, 2, 64, 7, 1, 1, 2, 0}, response[] = {7, 2, 64, 8, 0, 0, 0};
	const u32 bad_xdr[] = {2};
	ASSERT_TRUE(c.say(wrong));
	c.log.expect_property(0, "malformed", {7, 64, 7, 0, 0, 4096, 0});
	c.expect_refused(7, 2, bad_xdr);
	ASSERT_TRUE(c.say(response));
	c.log.expect_property(0, "ignored", {7, 64, 8, 0, 0, 4096, 0});
	/* More than 32 of them, and as many as fit a message. */
	for (const u32 count : {32u, 33u, 500u}) {
		TEST_NOTE("count", count);
		const MutableBytes bytes = test_alloc(20 + 8 * count);
		const u32 head[] = {8, 2, 64, 7, count};

		__builtin_memset(bytes.data(), 0, bytes.size());
		__builtin_memcpy(bytes.data(), RawMessage(head).bytes, 20);
		ASSERT_TRUE(c.say_bytes(bytes));
		c.work();
		const u32 words = (count + 31) / 32;
		EXPECT_EQ(c.peer.message_length, 28 + 4 * words);
		EXPECT_EQ(xdr::load_be32(c.peer.message + 20), words);
		EXPECT_EQ(xdr::load_be32(c.peer.message + 24 + 4 * (words - 1)),
			  count % 32 ? (1u << count % 32) - 1 : ~0u);
	}
	EXPECT_EQ(c.send_size(), 4096);
	c.expect_served(2, true);
}

/* Two Receives more than are granted, however many that are. */
RPCORDMA_TEST(server_version2, receives)
{
	Served2 c;
	u32 most = 0;

	ASSERT_TRUE(c.say_properties(1));
	c.work();
	for (u32 i = 0; i < 600; i++) {
		TEST_NOTE("call", i);
		c.expect_served(i, true);
		EXPECT_GE(c.verbs.receives_at_send, c.granted() + kExtra);
		EXPECT_EQ(c.promised(), c.granted() + kExtra);
		most = max(most, c.granted());
	}
	EXPECT_EQ(most, 64);
}

RPCORDMA_SUITE(server_version2, mark, first_message, properties, late_properties, properties_cut,
	       strange_properties, updates, reply_after_update, described, described_anew,
	       before_established, no_answer, flood, bad_messages, cut_calls, beyond_us,
	       invalidation, chunks, longest_reply, backward, request, receives);

} // namespace rpcordma
