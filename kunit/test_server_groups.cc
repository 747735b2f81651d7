// SPDX-License-Identifier: GPL-2.0-only
/*
 * A server's connection of version 2 with round-trip reduction (rtrext-01): what it says of that, calls of several
 * transmissions, and what is answered when one is broken off, malformed, or more than is taken.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"
#include "module/protocol/negotiation.hh"

namespace rpcordma {
namespace {

constexpr u32 kRequest = static_cast<u32>(xdr::Option::xmtreq);
constexpr u32 kMany = 64;

struct Grouped : Served {
	explicit Grouped(u32 parameter = 7, u32 version2 = 1, u32 size = 4096)
	{
		rpcordma_server_tunables.version2 = version2;
		rpcordma_server_tunables.version2_rtr = parameter;
		rpcordma_server_tunables.max_req_size = size;
		connect({false, true, true});
	}
	[[nodiscard]] bool say(Bytes bytes)
	{
		const ExactCopy copy(bytes);

		return verbs.send(server, copy.bytes());
	}
	/* Byte @at of the call @xid. */
	[[nodiscard]] static u8 stream_byte(u32 xid, u32 at)
	{
		return at < 4 ? u8(xid >> (24 - 8 * at)) : at < 40 ? 0 : pattern(at);
	}
	/* An XMTREQ with @n bytes of the call's stream behind it, said to be @said of them. */
	void lead(u32 xid, u32 count, u32 n, u32 said)
	{
		u8 room[4096];
		rtrext::Encoder encoder({room, sizeof(room)}, Xid(xid), Credits(kMany),
					xdr::Option::xmtreq);
		const auto header = encoder.finish(count, 1, said);

		ASSERT_OK(header);
		fill(room, header.value(), xid, 0, n);
	}
	void lead(u32 xid, u32 count, u32 n)
	{
		lead(xid, count, n, n);
	}
	/* An XMTCONT with the bytes [@at, @at + @n) of the stream. */
	void more(u32 xid, u32 number, u32 at, u32 n, u32 said, u32 of = kRequest)
	{
		u8 room[4096];
		const auto header = rtrext::encode({room, sizeof(room)}, Xid(xid), Credits(kMany),
						   xdr::Direction::call, {number, of, said});

		ASSERT_OK(header);
		fill(room, header.value(), xid, at, n);
	}
	void more(u32 xid, u32 number, u32 at, u32 n)
	{
		more(xid, number, at, n, n);
	}
	void say_call(u32 xid)
	{
		Call2Maker call(xid);

		call.finish(40);
		EXPECT_TRUE(send(call));
	}
	/* A thread has the call @xid of @size bytes, byte for byte, and replies. */
	void expect_call(u32 xid, u32 size)
	{
		TEST_NOTE("xid", xid);
		ASSERT_EQ(receive(), int(size));
		EXPECT_EQ(call_xid(), Xid(xid));
		u32 wrong = 0;
		for (u32 i = 0; i < size; i++)
			wrong += call_byte(i) != stream_byte(xid, i);
		EXPECT_EQ(wrong, 0);
		answer();
		const auto message = decoded2(peer.last());
		EXPECT_EQ(message.kind, xdr::Kind::msg);
		EXPECT_EQ(message.xid, Xid(xid));
		EXPECT_BYTES(message.payload, Bytes(reply_bytes, 20));
	}
	/* A plain call is served, and nothing of what was before is left. */
	void expect_served(u32 xid)
	{
		say_call(xid);
		ASSERT_EQ(receive(), 40);
		EXPECT_EQ(call_xid(), Xid(xid));
		answer();
		EXPECT_EQ(decoded2(peer.last()).xid, Xid(xid));
		EXPECT_EQ(in_service(), 0);
	}
	/* A thread sends a REPTERR, which this is. */
	rtrext::Report expect_report(u32 xid, rtrext::Fault fault)
	{
		const u32 before = peer.messages, reports = counter(RPCORDMA_SERVER_V2_REPTERR);
		rtrext::Report report;

		EXPECT_EQ(receive(), 0);
		work();
		EXPECT_EQ(peer.messages, before + 1);
		EXPECT_EQ(counter(RPCORDMA_SERVER_V2_REPTERR), reports + 1);
		const auto message = decoded2(peer.last());
		EXPECT_EQ(message.kind, xdr::Kind::optional);
		EXPECT_EQ(message.option, xdr::Option::repterr);
		EXPECT_EQ(message.direction, xdr::Direction::reply);
		EXPECT_EQ(message.xid, Xid(xid));
		EXPECT_EQ(message.credits.get(), grant());
		EXPECT_EQ(rtrext::decode(message.body(), report), Error::none);
		EXPECT_EQ(report.bad.xid, Xid(xid));
		EXPECT_EQ(report.detail.fault, fault);
		EXPECT_EQ(log.take(trace::Failure::repterr_sent), 1);
		return report;
	}
	/* A thread sends an ERROR with this code. */
	void expect_refused(u32 xid, xdr::ErrorCode code)
	{
		const u32 before = peer.messages;

		EXPECT_EQ(receive(), 0);
		work();
		EXPECT_EQ(peer.messages, before + 1);
		const auto message = decoded2(peer.last());
		EXPECT_EQ(message.kind, xdr::Kind::error);
		EXPECT_EQ(message.xid, Xid(xid));
		EXPECT_EQ(message.error.code, code);
	}
	/* The thread replies to the call that it has. */
	void answer()
	{
		xdr::store_be32(reply_bytes, call_xid().get());
		xdr::store_be32(reply_bytes + 4, 1);
		EXPECT_EQ(reply(20), 0);
		work();
	}
	/* Nobody has anything to do. */
	void expect_silence()
	{
		const u32 before = peer.messages;

		EXPECT_EQ(receive(), 0);
		work();
		EXPECT_EQ(peer.messages, before);
	}
	[[nodiscard]] u32 dropped() const
	{
		return counter(RPCORDMA_SERVER_V2_GROUPS_DROPPED);
	}

private:
	void fill(u8 *room, u32 header, u32 xid, u32 at, u32 n)
	{
		ASSERT_LE(header + n, 4096);
		for (u32 i = 0; i < n; i++)
			room[header + i] = stream_byte(xid, at + i);
		EXPECT_TRUE(say({room, header + n}));
	}
};

} // namespace

/* RTRSUPP is what the parameter says, and a call has several transmissions where the bits for that are there. */
RPCORDMA_TEST(server_groups, announcement)
{
	for (u32 parameter = 0; parameter < 8; parameter++) {
		TEST_NOTE("parameter", parameter);
		Grouped s(parameter);
		const u32 words[] = {9, 2, 64, 6, 0, 0};
		properties::Properties said;
		u32 nochange = 0;

		EXPECT_TRUE(s.say(RawMessage(words).message()));
		s.work();
		const auto message = decoded2(s.peer.last());
		EXPECT_EQ(properties::decode_connprop(message.body(), said, nochange), Error::none);
		EXPECT_EQ(said.extensions, parameter);
		EXPECT_EQ(said.call_limit, (parameter & 5) == 5 ? 4 : 1);
		EXPECT_EQ(said.reply_limit, (parameter & 5) == 5 ? 4 : 1);
		EXPECT_EQ(s.server->session.reduces(), parameter != 0);
	}
	/* It is the first message, and its properties are so, whether or not there may be others amid a group. */
	for (const u32 parameter : {0u, 7u})
		for (const bool first : {true, false}) {
			TEST_NOTE("parameter", parameter);
			TEST_NOTE("first", first);
			Grouped s(parameter, 1, 16384);
			const u32 words[] = {9, 2, 64, 6, 0, 0};

			if (!first) {
				s.say_call(1);
				EXPECT_EQ(s.receive(), 40);
				EXPECT_EQ(s.reply(20), 0);
				s.work();
			}
			EXPECT_TRUE(s.say(RawMessage(words).message()));
			s.work();
			EXPECT_EQ(s.server->session.thresholds().receive, first ? 16384 : 4096);
		}
}

/* The parts of a call come together in the thread's pages, and have credits until then. */
RPCORDMA_TEST(server_groups, whole)
{
	Grouped s;

	for (u32 parts = 1; parts <= 4; parts++)
		for (const u32 last : {4u, 1000u, 4056u}) {
			TEST_NOTE("parts", parts);
			const u32 xid = 100 * parts + last, groups = parts > 1;
			const u32 before = counter(RPCORDMA_SERVER_V2_GROUPS);
			const u32 first = parts == 1 ? min(max(last, 40u), 4048u) : 4048;
			u32 at = first;

			s.lead(xid, parts, first);
			for (u32 i = 1; i < parts; i++) {
				EXPECT_EQ(s.in_service(), 0);
				EXPECT_FALSE(s.has_ready());
				const u32 n = i + 1 < parts ? 4056 : last;
				s.more(xid, i, at, n);
				at += n;
			}
			EXPECT_EQ(s.in_service(), parts);
			EXPECT_GE(s.posted(), s.promised());
			s.expect_call(xid, at);
			EXPECT_EQ(s.in_service(), 0);
			EXPECT_EQ(counter(RPCORDMA_SERVER_V2_GROUPS), before + groups);
		}
	s.expect_served(5);
	EXPECT_EQ(s.dropped(), 0);
	/* What is behind the stream is none of it. */
	s.lead(9, 2, 400, 200);
	s.more(9, 1, 200, 300, 100);
	s.log.expect_group(1, "received", {9, 3, 1, 0, 100});
	s.log.expect_group(0, "whole", {9, 3, 1, 0, 100});
	s.expect_call(9, 300);
}

/* Parts are done with as soon as a thread has their bytes: the client may use their credits with the reply. */
RPCORDMA_TEST(server_groups, parts_given_back)
{
	Grouped s;

	s.lead(7, 3, 4000);
	s.more(7, 1, 4000, 4000);
	s.more(7, 2, 8000, 400);
	EXPECT_EQ(audit(*s.server).with_calls, 3);
	ASSERT_EQ(s.receive(), 8400);
	EXPECT_EQ(audit(*s.server).with_calls, 1);
	EXPECT_EQ(s.in_service(), 1);
	s.answer();
	EXPECT_EQ(s.in_service(), 0);
}

/* What follows is none of the group: each has its report, the rest is silence, and others are served. */
RPCORDMA_TEST(server_groups, broken_off)
{
	Grouped s;

	/* None is open. */
	s.more(1, 1, 0, 8);
	auto report = s.expect_report(1, rtrext::Fault::alone);
	EXPECT_FALSE(report.has_lead);
	EXPECT_EQ(report.bad.number, 1);
	EXPECT_EQ(s.dropped(), 0);
	s.expect_served(2);

	/* Another number. */
	s.lead(10, 4, 400);
	s.more(10, 1, 400, 400);
	s.more(10, 3, 800, 400);
	report = s.expect_report(10, rtrext::Fault::sequence);
	EXPECT_TRUE(report.has_lead);
	EXPECT_EQ(report.lead.xid, Xid(10));
	EXPECT_EQ(report.detail.words[0], 2);
	EXPECT_EQ(report.detail.words[1], 3);
	EXPECT_EQ(s.dropped(), 1);
	s.log.expect_group(1, "received", {10, 3, 3, 0, 400});
	s.log.expect_group(0, "dropped", {10, 3, 3, 0, 400});
	s.more(10, 2, 800, 400);
	s.more(10, 4, 800, 400);
	s.expect_silence();
	/* Until something else comes. */
	s.expect_served(11);
	s.more(10, 2, 800, 400);
	report = s.expect_report(10, rtrext::Fault::alone);

	/* Another call's. */
	s.lead(20, 3, 400);
	s.more(21, 1, 400, 400);
	report = s.expect_report(21, rtrext::Fault::xid);
	EXPECT_EQ(report.detail.words[0], 20);
	EXPECT_EQ(report.detail.words[1], 21);
	s.more(20, 1, 400, 400);
	s.expect_silence();

	/* Of a reply's group. */
	s.lead(30, 3, 400);
	s.more(30, 1, 400, 400, 400, 2);
	report = s.expect_report(30, rtrext::Fault::option);

	/* A call by itself: it is served all the same. */
	s.lead(40, 3, 400);
	s.more(40, 1, 400, 400);
	s.say_call(41);
	report = s.expect_report(41, rtrext::Fault::header);
	EXPECT_EQ(report.detail.words[0], 5);
	EXPECT_EQ(report.detail.words[1], 0);
	ASSERT_EQ(s.receive(), 40);
	EXPECT_EQ(s.call_xid(), Xid(41));
	s.answer();
	s.more(40, 2, 800, 400);
	report = s.expect_report(40, rtrext::Fault::alone);

	/* Another group, which goes on. */
	s.lead(50, 3, 400);
	s.lead(51, 2, 400);
	report = s.expect_report(51, rtrext::Fault::option);
	EXPECT_EQ(report.lead.xid, Xid(50));
	s.more(51, 1, 400, 100);
	s.expect_call(51, 500);

	/* What cannot be understood at all. */
	s.lead(60, 3, 400);
	const u32 nonsense[] = {61, 2, 64, 99};
	EXPECT_TRUE(s.say(RawMessage(nonsense).message()));
	report = s.expect_report(61, rtrext::Fault::header);
	s.expect_refused(61, xdr::ErrorCode::procedure);
	s.expect_served(62);
	EXPECT_EQ(s.dropped(), 6);
	EXPECT_EQ(s.log.take(trace::Failure::message_incomplete), 6);
	EXPECT_GT(s.log.take(trace::Failure::err_chunk_sent), 0);
	(void)s.log.take(trace::Failure::message_undecodable);
}

/* A question about the connection amid a group has its answer, and the group its report. */
RPCORDMA_TEST(server_groups, question_amid)
{
	Grouped s;
	const u32 words[] = {9, 2, 64, 6, 0, 0};

	s.lead(8, 2, 400);
	EXPECT_TRUE(s.say(RawMessage(words).message()));
	s.work();
	EXPECT_EQ(decoded2(s.peer.last()).kind, xdr::Kind::connprop);
	const auto report = s.expect_report(9, rtrext::Fault::header);
	EXPECT_EQ(report.detail.words[1], 6);
	s.expect_served(10);
	EXPECT_EQ(s.log.take(trace::Failure::message_incomplete), 1);
}

/*
 * What answers a backward call comes the same way as calls do: amid a group it is handled, and the group is over. So does an
 * ERROR that ends one.
 */
RPCORDMA_TEST(server_groups, backward_reply_amid)
{
	for (const bool error : {false, true})
		for (u32 parts = 1; parts <= 3; parts++) {
			TEST_NOTE("error", error);
			TEST_NOTE("parts", parts);
			Grouped s;

			/* The version is settled; and the xid is that of the group, too. */
			s.expect_served(1);
			s.svc.backward_known = true;
			EXPECT_EQ(s.send_backward(10, 40), 0);
			s.work();
			s.lead(10, 4, 400);
			for (u32 i = 1; i < parts; i++)
				s.more(10, i, 400 * i, 400);
			Reply2Maker reply(10, 7);
			reply.finish(36, kReplyMessage);
			const u32 words[] = {10, 2, 7, 4, 4};
			EXPECT_TRUE(error ? s.say(RawMessage(words).message()) : s.send(reply));
			EXPECT_EQ(s.svc.backward_replies, !error);
			EXPECT_EQ(s.svc.backward_errors, error);
			EXPECT_EQ(s.svc.backward_xid, 10);
			EXPECT_EQ(s.backward_outstanding(), 0);
			const auto report = s.expect_report(10, rtrext::Fault::header);
			EXPECT_EQ(report.bad.direction, xdr::Direction::reply);
			EXPECT_EQ(report.bad.number, 0);
			ASSERT_TRUE(report.has_lead);
			EXPECT_EQ(report.lead.xid, Xid(10));
			EXPECT_EQ(report.lead.direction, xdr::Direction::call);
			EXPECT_EQ(report.detail.words[0], 5);
			EXPECT_EQ(report.detail.words[1], error ? 4 : 0);
			EXPECT_EQ(s.dropped(), 1);
			/* What follows of the group has none. */
			s.more(10, parts, 400 * parts, 400);
			(void)s.expect_report(10, rtrext::Fault::alone);
			s.lead(11, 2, 400);
			s.more(11, 1, 400, 100);
			s.expect_call(11, 500);
			expect_promise(s);
			EXPECT_EQ(s.in_service(), 0);
			EXPECT_EQ(s.svc.closed, 0);
			EXPECT_EQ(s.log.take(trace::Failure::message_incomplete), 1);
			EXPECT_EQ(s.log.take(trace::Failure::backward_error_received), error);
		}
}

/* A backward call goes amid a group that comes, and breaks nothing off: it is of the other direction. */
RPCORDMA_TEST(server_groups, backward_call_amid)
{
	Grouped s;

	s.expect_served(1);
	s.lead(10, 3, 400);
	xdr::store_be32(s.reply_bytes, 10);
	xdr::store_be32(s.reply_bytes + 4, 0);
	EXPECT_EQ(s.send_backward(10, 40), 0);
	s.more(10, 1, 400, 400);
	s.work();
	const auto message = decoded2(s.peer.last());
	EXPECT_EQ(message.kind, xdr::Kind::msg);
	EXPECT_EQ(message.direction, xdr::Direction::call);
	s.more(10, 2, 800, 4);
	s.expect_call(10, 804);
	EXPECT_EQ(s.dropped(), 0);
	EXPECT_EQ(s.backward_outstanding(), 1);
}

/* Transmissions that are wrong by themselves, and what becomes of what follows. */
RPCORDMA_TEST(server_groups, refused)
{
	Grouped s;

	/* More than the limit: one answer, whatever follows. */
	for (const u32 count : {5u, 17u, 0x10000u, ~0u}) {
		TEST_NOTE("count", count);
		s.lead(count, count, 400);
		s.more(count, 1, 400, 400);
		s.more(count, 2, 400, 400);
		s.expect_refused(count, xdr::ErrorCode::chunk);
		s.expect_silence();
	}
	/* Lengths of streams. */
	s.lead(10, 2, 400, 404);
	auto report = s.expect_report(10, rtrext::Fault::stream);
	EXPECT_FALSE(report.has_lead);
	EXPECT_EQ(report.detail.words[0], 404);
	EXPECT_EQ(report.detail.words[2], 400);
	s.more(10, 1, 400, 400);
	s.expect_silence();
	s.lead(11, 3, 400);
	s.more(11, 1, 400, 400, 398);
	report = s.expect_report(11, rtrext::Fault::stream);
	EXPECT_TRUE(report.has_lead);
	EXPECT_EQ(report.bad.number, 1);
	s.more(11, 2, 800, 4);
	s.expect_silence();
	/* The last one, too. */
	s.lead(12, 2, 400);
	s.more(12, 1, 400, 400, ~3u);
	report = s.expect_report(12, rtrext::Fault::stream);
	EXPECT_TRUE(report.has_lead);
	s.lead(13, 1, 400, 404);
	report = s.expect_report(13, rtrext::Fault::stream);
	/* No call. */
	s.lead(14, 2, 4);
	s.expect_refused(14, xdr::ErrorCode::chunk);
	s.lead(15, 2, 8);
	s.more(15, 1, 8, 4);
	s.expect_refused(15, xdr::ErrorCode::chunk);
	EXPECT_GT(s.log.take(trace::Failure::call_cut_short), 0);
	/* An optinfo that is none: no transmissions; and the group that follows. */
	const u32 none[] = {16, 2, 64, 5, 0, 1, 20, 0, 0, 0, 0, 8, 16, 0};
	EXPECT_TRUE(s.say(RawMessage(none).message()));
	s.expect_refused(16, xdr::ErrorCode::chunk);
	s.more(16, 1, 0, 8);
	s.expect_silence();
	/* An XMTCONT that cannot be read, by itself: an error; amid a group: that one's report. */
	const u32 bad_more[] = {22, 2, 64, 5, 0, 3, 8, 1, 1};
	EXPECT_TRUE(s.say(RawMessage(bad_more).message()));
	s.expect_refused(22, xdr::ErrorCode::chunk);
	EXPECT_EQ(s.log.take(trace::Failure::message_undecodable), 1);
	s.lead(22, 3, 400);
	EXPECT_TRUE(s.say(RawMessage(bad_more).message()));
	report = s.expect_report(22, rtrext::Fault::option);
	s.more(22, 1, 400, 400);
	s.expect_silence();
	/* An item for segments that there are not. */
	u8 room[4096] = {};
	rtrext::Encoder items({room, sizeof(room)}, Xid(17), Credits(64), xdr::Option::xmtreq);
	const u32 numbers[] = {0};
	items.sent(48, 4, 0, numbers);
	u32 header = items.finish(1, 1, 48).value();
	xdr::store_be32(room + header, 17);
	EXPECT_TRUE(s.say({room, header + 48}));
	report = s.expect_report(17, rtrext::Fault::segment);
	EXPECT_FALSE(report.has_lead);
	/* A reply to nobody: nothing is said. */
	rtrext::Encoder reply({room, sizeof(room)}, Xid(19), Credits(64), xdr::Option::xmtresp);
	header = reply.finish(2, 0, 48).value();
	EXPECT_TRUE(s.say({room, header + 48}));
	s.expect_silence();
	/* A report of a reply is counted, and not answered. */
	rtrext::Report about;
	about.bad = {Xid(20), xdr::Direction::reply, 0};
	about.detail = rtrext::Detail{rtrext::Fault::alone, {}};
	header = rtrext::encode({room, sizeof(room)}, Credits(64), about).value();
	EXPECT_TRUE(s.say({room, header}));
	s.expect_silence();
	EXPECT_EQ(counter(RPCORDMA_SERVER_V2_REPTERR_RECEIVED), 1);
	EXPECT_EQ(s.log.take(trace::Failure::repterr_received), 1);
	s.expect_served(21);
	(void)s.log.take(trace::Failure::message_incomplete);
	EXPECT_GT(s.log.take(trace::Failure::err_chunk_sent), 0);
}

/* A call that the service would not take, in bytes or in pages. */
RPCORDMA_TEST(server_groups, too_long)
{
	constexpr u32 kSize = 5000;

	for (const bool pages : {false, true}) {
		TEST_NOTE("pages", pages);
		Grouped s;
		u32 &limit = pages ? s.server->limits.max_pages : s.server->limits.max_message;

		limit = pages ? div_round_up(kSize, u32(kPage)) : kSize;
		s.lead(6, 2, 4000);
		s.more(6, 1, 4000, kSize - 4000);
		s.expect_call(6, kSize);
		limit--;
		s.lead(7, 2, 4000);
		s.more(7, 1, 4000, kSize - 4000);
		EXPECT_EQ(s.in_service(), 1);
		s.expect_refused(7, xdr::ErrorCode::system);
		EXPECT_EQ(s.dropped(), 1);
		EXPECT_EQ(s.in_service(), 0);
		EXPECT_EQ(s.log.take(trace::Failure::call_too_long), 1);
		(void)s.log.take(trace::Failure::err_chunk_sent);
	}
}

/* Nor is one shorter than any call, in however many transmissions. */
RPCORDMA_TEST(server_groups, too_short)
{
	for (const u32 size : {36u, 40u}) {
		const u32 first = (size - 1) / 4 * 4;

		TEST_NOTE("size", size);
		Grouped s;

		s.lead(7, 2, first);
		s.more(7, 1, first, size - first);
		if (size == 40) {
			s.expect_call(7, size);
			continue;
		}
		s.expect_refused(7, xdr::ErrorCode::chunk);
		EXPECT_EQ(s.in_service(), 0);
		EXPECT_EQ(s.log.take(trace::Failure::call_cut_short), 1);
		(void)s.log.take(trace::Failure::err_chunk_sent);
	}
}

/* Behind a chain of which a part was posted nothing is, whoever saw the connection open before. */
RPCORDMA_TEST(server_groups, cut_short)
{
	Grouped s;
	Call2Maker read(1);

	read.write(1000, kWrite);
	read.finish(40);
	ASSERT_TRUE(s.send(read));
	s.say_call(2);
	ASSERT_EQ(s.receive(), 40);
	rpcordma_server_call *const first = s.rqst->call;
	ASSERT_EQ(s.receive(), 40);
	rpcordma_server_call *const second = s.rqst->call;

	s.rqst->call = first;
	s.rqst->ddp_allowed = true;
	(void)rpcordma_core_server_result_payload(first, 60, 300);
	s.verbs.sends_left = 1;
	EXPECT_EQ(s.send_reply_pages(60, 300, 8), to_errno(Error::not_connected));
	s.release();
	s.verbs.sends_left = kNoLimit;
	EXPECT_EQ(s.verbs.sends, 1);
	/* Another thread was past its look at that; of what is not posted the queue pair does not hear. */
	s.server->closing.store(false);
	rpcordma_trace_enabled &= ~u32(RPCORDMA_TRACE_POST);
	s.rqst->call = second;
	EXPECT_EQ(s.send_reply(20), to_errno(Error::not_connected));
	s.release();
	EXPECT_EQ(s.verbs.sends, 1);
	rpcordma_trace_enabled = ~0u;
	EXPECT_EQ(s.svc.closed, 2);
	EXPECT_EQ(s.log.take(trace::Failure::post_failed), 2);
	EXPECT_EQ(s.log.take(trace::Loss::rpc_failed), 2);
}

/* Without memory for the thread's pages, or for a report, the connection ends; nothing is lost. */
RPCORDMA_TEST(server_groups, no_memory)
{
	{
		Grouped s;
		s.lead(7, 2, 400);
		s.more(7, 1, 400, 400);
		{
			NoTransfers none;
			s.memory.allocations_left = 0;
			EXPECT_EQ(s.receive(), 0);
		}
		EXPECT_TRUE(s.svc.closed);
		EXPECT_EQ(s.in_service(), 0);
		s.settle();
		EXPECT_EQ(s.log.take(trace::Failure::gather_failed), 1);
		EXPECT_EQ(s.log.take(trace::Loss::rpc_failed), 1);
	}
	Grouped s;
	s.memory.allocations_left = 0;
	s.more(7, 1, 400, 400);
	EXPECT_TRUE(s.svc.closed);
	s.settle();
	EXPECT_EQ(s.log.take(trace::Failure::refusal_failed), 1);
	EXPECT_EQ(s.log.take(trace::Loss::rpc_failed), 1);
	(void)s.log.take(trace::Failure::err_chunk_sent);
}

/* What cannot be reported of a group that another breaks off is an ERROR of its own, and not that of the call before. */
RPCORDMA_TEST(server_groups, no_memory_to_report)
{
	Grouped s;
	const u32 nonsense[] = {61, 2, 64, 99};

	EXPECT_TRUE(s.say(RawMessage(nonsense).message()));
	s.expect_refused(61, xdr::ErrorCode::procedure);
	s.lead(50, 3, 400);
	s.memory.allocations_left = 0;
	s.lead(51, 2, 400);
	EXPECT_TRUE(s.svc.closed);
	s.settle();
	EXPECT_EQ(counter(RPCORDMA_SERVER_V2_ERR_INVAL_PROC), 1);
	EXPECT_EQ(counter(RPCORDMA_SERVER_V2_ERR_BAD_XDR), 1);
	EXPECT_EQ(s.log.take(trace::Failure::refusal_failed), 1);
	EXPECT_EQ(s.log.take(trace::Loss::rpc_failed), 1);
	EXPECT_EQ(s.log.take(trace::Failure::err_chunk_sent), 2);
	EXPECT_EQ(s.log.failure_value, int(xdr::ErrorCode::chunk));
	/* With what came of the other one. */
	s.end();
	(void)s.log.take(trace::Failure::message_undecodable);
	(void)s.log.take(trace::Failure::message_incomplete);
}

/* A connection ends with a group open, or one that no thread has taken. */
RPCORDMA_TEST(server_groups, ends)
{
	for (u32 parts = 1; parts <= 3; parts++) {
		TEST_NOTE("parts", parts);
		Grouped s;
		u32 at = 400;

		s.lead(7, 3, 400);
		for (u32 i = 1; i < parts; i++, at += 400)
			s.more(7, i, at, 400);
		s.end();
	}
}

/* Without the switch each is refused as before, and an end of version 1 does not know them. */
RPCORDMA_TEST(server_groups, off)
{
	Grouped s(0);

	s.lead(7, 2, 400);
	s.expect_refused(7, xdr::ErrorCode::option);
	s.more(7, 1, 400, 400);
	s.expect_refused(7, xdr::ErrorCode::option);
	EXPECT_EQ(counter(RPCORDMA_SERVER_V2_GROUPS), 0);
	EXPECT_EQ(s.dropped(), 0);
	EXPECT_EQ(s.log.take(trace::Failure::err_chunk_sent), 2);
}

/* A reply that is too long for one message comes in several, if its call says so, and each is full but the last. */
RPCORDMA_TEST(server_groups, replies)
{
	constexpr u32 kOne = 4096 - 36, kPart = 4056;

	for (const u32 extensions : {7u, 3u})
		for (const u32 asked : {0u, 1u, 2u, 3u, 4u, 9u})
			for (const u32 size : {kOne, kOne + 4, 2 * kPart, 2 * kPart + 1, 3 * kPart,
					       4 * kPart - 3, 4 * kPart + 4}) {
				TEST_NOTE("extensions", extensions);
				TEST_NOTE("asked for", asked);
				TEST_NOTE("bytes", size);
				Grouped s;
				const u32 words[] = {9, 2, 64, 6, 1, 3, 4, extensions, 0};
				u8 room[256] = {};
				rtrext::Encoder call({room, sizeof(room)}, Xid(7), Credits(64),
						     xdr::Option::xmtreq);
				const u32 header = call.finish(1, asked, 40).value();
				const u32 padded = size + xdr_pad(size);
				const u32 count = div_round_up(padded, kPart);
				const bool grouped = size > kOne && extensions == 7 &&
						     count <= min(asked, 4u);

				EXPECT_TRUE(s.say(RawMessage(words).message()));
				s.work();
				xdr::store_be32(room + header, 7);
				EXPECT_TRUE(s.say({room, header + 40}));
				ASSERT_EQ(s.receive(), 40);
				xdr::store_be32(s.reply_bytes, 7);
				xdr::store_be32(s.reply_bytes + 4, 1);
				EXPECT_EQ(s.reply(size), 0);
				EXPECT_EQ(s.room_taken(), grouped ? count : 1);
				EXPECT_EQ(counter(RPCORDMA_SERVER_V2_REPLY_GROUPS), grouped);
				EXPECT_EQ(s.log.group_events, grouped ? 1 + count : 1);
				if (grouped)
					s.log.expect_group(0, "sent",
							   {7, 3, count - 1, 0,
							    padded - (count - 1) * kPart});
				if (!grouped) {
					s.work();
					EXPECT_EQ(decoded2(s.peer.last()).kind,
						  size == kOne ? xdr::Kind::msg : xdr::Kind::error);
					(void)s.log.take(trace::Failure::reply_no_room);
					(void)s.log.take(trace::Failure::err_chunk_sent);
					continue;
				}
				u32 at = 0, wrong = 0;
				for (u32 i = 0; i < count; i++) {
					ASSERT_EQ(s.work(1), 1);
					const auto message = decoded2(s.peer.last());
					u32 length;
					EXPECT_EQ(message.xid, Xid(7));
					EXPECT_EQ(message.direction, xdr::Direction::reply);
					EXPECT_EQ(message.credits.get(), s.grant());
					if (i) {
						rtrext::Continuation more;
						EXPECT_EQ(rtrext::decode(message.body(), more),
							  Error::none);
						EXPECT_EQ(more.number, i);
						EXPECT_EQ(more.lead, 2);
						length = more.stream_length;
					} else {
						rtrext::Response lead;
						EXPECT_EQ(message.option, xdr::Option::xmtresp);
						EXPECT_EQ(rtrext::decode(message.body(), lead),
							  Error::none);
						EXPECT_EQ(lead.transmissions, count);
						length = lead.stream_length;
					}
					ASSERT_EQ(s.peer.message_length,
						  message.header_length + length);
					for (u32 n = 0; n < length; n++, at++)
						wrong += s.peer.message[message.header_length + n] !=
							 (at < size ? s.reply_bytes[at] : 0);
				}
				EXPECT_EQ(at, padded);
				EXPECT_EQ(wrong, 0);
				EXPECT_EQ(s.work(), 0);
				EXPECT_EQ(s.in_service(), 0);
			}
}

/* Without memory for its buffers the connection ends, at whichever allocation. */
RPCORDMA_TEST(server_groups, reply_without_memory)
{
	for (u32 left = 0; left < 8; left++) {
		TEST_NOTE("allocations", left);
		Grouped s;
		const u32 words[] = {9, 2, 64, 6, 2, 1, 4, 8192, 3, 4, 7, 0};
		u8 room[256] = {};
		rtrext::Encoder call({room, sizeof(room)}, Xid(7), Credits(64), xdr::Option::xmtreq);
		const u32 header = call.finish(1, 4, 40).value();

		EXPECT_TRUE(s.say(RawMessage(words).message()));
		s.work();
		xdr::store_be32(room + header, 7);
		EXPECT_TRUE(s.say({room, header + 40}));
		ASSERT_EQ(s.receive(), 40);
		s.memory.allocations_left = left;
		const bool sent = s.reply(12000) == 0;
		s.settle();
		EXPECT_EQ(s.svc.closed, !sent);
		EXPECT_EQ(counter(RPCORDMA_SERVER_V2_REPLY_GROUPS), sent);
		(void)s.log.take(trace::Failure::send_buffer_failed);
		(void)s.log.take(trace::Failure::reply_failed);
		(void)s.log.take(trace::Loss::rpc_failed);
	}
}

RPCORDMA_SUITE(server_groups, announcement, whole, parts_given_back, broken_off, question_amid,
	       backward_reply_amid, backward_call_amid, refused, too_long, too_short, cut_short,
	       no_memory, no_memory_to_report, ends, off, replies, reply_without_memory);

} // namespace rpcordma
