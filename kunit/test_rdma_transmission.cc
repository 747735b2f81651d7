// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/rdma/transmission: transmissions of an end that does round-trip reduction, one by one. All that each comes to is held
 * against what is written beside it: which Receives are a message, which are of no use, what the peer is told, and of what.
 */
#include "kunit/test_rdma_port.hh"
#include "kunit/test_xdr_reference.hh"
#include "kunit/testing.hh"
#include "module/rdma/transmission.hh"

namespace rpcordma {
namespace {

using rtrext::Detail;
using rtrext::Fault;
using xdr::Direction;
using xdr::ErrorCode;
using xdr::Option;
using xdr_reference::set_word;

constexpr u32 call = 0, reply = 1;
/* A head of 128 bytes, and two DDP segments of 64. */
constexpr properties::Structure small = {256, 2, 64};
constexpr u32 kMost = 3;

/* What a transmission is to come to; by default to nothing. */
struct Expected {
	struct Answer {
		Receive *about = nullptr;
		bool reports = false;
		ErrorCode code = ErrorCode::chunk; /* of what is no report */
		rtrext::Report report;
	};
	Receive *whole[4] = {};
	Receive *useless[4] = {};
	Answer broken, refused;
	bool dropped = false, lost = false, lead_refused = false;
};

void expect_id(const rtrext::Id &got, const rtrext::Id &wanted)
{
	EXPECT_EQ(got.xid, wanted.xid);
	EXPECT_EQ(got.direction, wanted.direction);
	EXPECT_EQ(got.number, wanted.number);
}

void expect_answer(const Transmitted::Answer &got, const Expected::Answer &wanted)
{
	ASSERT_EQ(got.about, wanted.about);
	if (!wanted.about)
		return;
	EXPECT_EQ(got.about->next, nullptr);
	ASSERT_EQ(got.reports, wanted.reports);
	if (!wanted.reports) {
		EXPECT_EQ(got.code, wanted.code);
		return;
	}
	expect_id(got.report.bad, wanted.report.bad);
	ASSERT_EQ(got.report.has_lead, wanted.report.has_lead);
	if (wanted.report.has_lead)
		expect_id(got.report.lead, wanted.report.lead);
	EXPECT_EQ(got.report.detail.fault, wanted.report.detail.fault);
	for (u32 i = 0; i < 3; i++)
		EXPECT_EQ(got.report.detail.words[i], wanted.report.detail.words[i]);
}

void expect_chain(const Receive *got, Receive *const (&wanted)[4])
{
	for (Receive *one : wanted) {
		ASSERT_EQ(got, one);
		if (!got)
			return;
		got = got->next;
	}
}

rtrext::Report report_of(const rtrext::Id &bad, const Detail &detail)
{
	rtrext::Report report;

	report.bad = bad;
	report.detail = detail;
	return report;
}
rtrext::Report report_of(const rtrext::Id &bad, const Detail &detail, const rtrext::Id &lead)
{
	rtrext::Report report = report_of(bad, detail);

	report.has_lead = true;
	report.lead = lead;
	return report;
}

/* One end, and what comes to it. */
struct End : PortFixture {
	GroupAssembly groups;
	TransmissionReader reader;
	Owned<Receive> receives[8];
	u32 came = 0;

	explicit End(Option lead) : reader(nullptr, groups, lead, kMost, small)
	{
	}
	/* An OPTIONAL with this optinfo and stream, in a Receive in which @length bytes came, if that is more. */
	Receive *optional(u32 xid, u32 direction, Option option, Span<const u32> optinfo,
			  u32 stream_words, u32 length = 0)
	{
		const u32 header[] = {
			xid, 2, 9, 5, direction, static_cast<u32>(option), u32(optinfo.size()) * 4};
		u32 words[64] = {}, n = 0;

		for (u32 word : header)
			words[n++] = word;
		for (u32 word : optinfo)
			words[n++] = word;
		/* A NULL call of NFS, or what looks like its reply. */
		const u32 rpc[] = {xid, direction, 2, 100003, 3, 0, 0, 0, 0, 0};
		for (u32 i = 0; i < stream_words; i++)
			words[n++] = i < 10 ? rpc[i] : 0;
		return received({words, n}, length);
	}
	Receive *received(Span<const u32> words, u32 length = 0)
	{
		Receive *const receive =
			(receives[came++] = Owned<Receive>::create(RPCORDMA_ALLOC_ATOMIC)).get();

		receive->length = max(length, u32(words.size()) * 4);
		EXPECT_TRUE(receive->buffer.create(receive->length, RPCORDMA_ALLOC_ATOMIC));
		for (u32 i = 0; i < words.size(); i++)
			set_word(receive->buffer.bytes(), i, words[i]);
		/* What was left in it. */
		receive->whole_length = 12345;
		return receive;
	}
	Receive *request(u32 xid, u32 transmissions, u32 stream_words = 10, u32 length = 0)
	{
		const u32 optinfo[] = {0, 0, transmissions, 0, stream_words * 4};

		return optional(xid, call, Option::xmtreq, optinfo, stream_words, length);
	}
	Receive *response(u32 xid, u32 transmissions, u32 stream_words = 10, u32 length = 0)
	{
		const u32 optinfo[] = {0, transmissions, stream_words * 4};

		return optional(xid, reply, Option::xmtresp, optinfo, stream_words, length);
	}
	/* It says that its stream has @said bytes more than it has. */
	Receive *more(u32 xid, u32 direction, u32 number, u32 said = 0, u32 length = 0)
	{
		const u32 optinfo[] = {number, direction + 1, 8 + said};

		return optional(xid, direction, Option::xmtcont, optinfo, 2, length);
	}
	/* @receive has come, and comes to @expected. */
	Transmitted take(Receive *receive, const Expected &expected)
	{
		const bool understood = v2::decode(receive->bytes(), receive->message) ==
					Error::none;
		const Transmitted taken = reader.take(receive, understood);

		expect_chain(taken.whole, expected.whole);
		expect_chain(taken.useless, expected.useless);
		{
			TEST_NOTE("answer", "broken"[0]);
			expect_answer(taken.broken, expected.broken);
		}
		{
			TEST_NOTE("answer", "refused"[0]);
			expect_answer(taken.refused, expected.refused);
		}
		EXPECT_EQ(taken.dropped, expected.dropped);
		EXPECT_EQ(taken.lost, expected.lost);
		EXPECT_EQ(taken.lead_refused, expected.lead_refused);
		return taken;
	}
};

/* Its stream alone is what is left of a transmission that was good. */
void expect_cut(const Receive *receive, u32 header, u32 stream, u32 came)
{
	EXPECT_EQ(receive->message.header_length, header);
	EXPECT_EQ(receive->length, header + stream);
	EXPECT_EQ(receive->whole_length, came);
	EXPECT_EQ(receive->message.payload.size(), stream);
}

} // namespace

/* Messages by themselves, and groups, of calls and of replies. */
RPCORDMA_TEST(rdma_transmission, whole)
{
	for (const Option lead : {Option::xmtreq, Option::xmtresp}) {
		const bool calls = lead == Option::xmtreq;
		const u32 direction = calls ? call : reply, header = calls ? 48 : 40;
		End end(lead);
		const auto first = [&](u32 xid, u32 transmissions, u32 length) {
			return calls ? end.request(xid, transmissions, 10, length) :
				       end.response(xid, transmissions, 10, length);
		};

		TEST_NOTE("lead", static_cast<u32>(lead));
		/* With bytes behind the stream, which are none of it. */
		Receive *const one = first(7, 1, header + 45);
		const Transmitted taken = end.take(one, {{one}, {}, {}, {}, false, false, false});
		expect_cut(one, header, 40, header + 45);
		EXPECT_EQ(taken.request.items.count(), 0);
		end.log.expect_group(0, "received", {7, static_cast<u32>(lead), 0, 1, 40});
		EXPECT_EQ(end.log.group_events, 1);
		for (u32 n = 2; n <= kMost; n++) {
			const u32 before = end.log.group_events;
			Receive *const begun = first(7 + n, n, header + 44), *last = nullptr,
				       *second = nullptr;

			TEST_NOTE("transmissions", n);
			(void)end.take(begun, {});
			for (u32 i = 1; i < n; i++) {
				second = last;
				last = end.more(7 + n, direction, i, 0, 40 + 8 + i);
				Expected expected;
				if (i + 1 == n) {
					expected.whole[0] = begun;
					expected.whole[1] = n == 2 ? last : second;
					expected.whole[2] = n == 2 ? nullptr : last;
				}
				(void)end.take(last, expected);
				expect_cut(last, 40, 8, 40 + 8 + i);
			}
			expect_cut(begun, header, 40, header + 44);
			EXPECT_EQ(end.log.group_events, before + n + 1);
			end.log.expect_group(0, "whole", {7 + n, 3, n - 1, 0, 8});
			end.log.expect_group(1, "received", {7 + n, 3, n - 1, 0, 8});
			const MessageLengths lengths(*begun);
			ASSERT_EQ(lengths.each().size(), n);
			EXPECT_EQ(lengths.stream(), 40 + 8 * (n - 1));
			for (u32 i = 0; i < n; i++) {
				EXPECT_EQ(lengths.each()[i].header_length, i ? 40 : header);
				EXPECT_EQ(lengths.each()[i].stream_length, i ? 8 : 40);
				EXPECT_EQ(lengths.each()[i].length, i ? 48 + i : header + 44);
			}
		}
	}
}

/* What is no part of a group goes on as it came, at once. */
RPCORDMA_TEST(rdma_transmission, others)
{
	static const u32 plain[] = {7, 2, 9, 0, 0, 0, 0, 0, 0, 7, 0};
	End end(Option::xmtreq);
	Receive *const one = end.received(plain, 50);

	(void)end.take(one, {{one}, {}, {}, {}, false, false, false});
	EXPECT_EQ(one->length, 50);
	EXPECT_EQ(one->whole_length, 12345);
	EXPECT_EQ(end.log.group_events, 0);
	/* An XMTCONT whose optinfo is none is the session's to answer, where no group is open. */
	const u32 none[] = {1, 1};
	Receive *const bad = end.optional(7, call, Option::xmtcont, none, 0);
	(void)end.take(bad, {{bad}, {}, {}, {}, false, false, false});
	/* Without a group an XMTCONT is told so. */
	Receive *const alone = end.more(7, call, 2);
	(void)end.take(
		alone,
		{{},
		 {},
		 {alone, true, {}, report_of({Xid(7), Direction::call, 2}, {Fault::alone, {}})},
		 {},
		 false,
		 false,
		 false});
}

/* A group is broken off: by another message, by what does not follow, by what cannot be read. */
RPCORDMA_TEST(rdma_transmission, broken_off)
{
	static const u32 plain[] = {9, 2, 9, 0, 0, 0, 0, 0, 0, 9, 0};
	const rtrext::Id lead = {Xid(7), Direction::call, 0};
	{
		End end(Option::xmtreq);
		Receive *const first = end.request(7, 3), *const second = end.more(7, call, 1),
			       *const other = end.received(plain);

		(void)end.take(first, {});
		(void)end.take(second, {});
		(void)end.take(other, {{other},
				       {second},
				       {first,
					true,
					{},
					report_of({Xid(9), Direction::call, 0},
						  Detail::differs(Fault::header, 5, 0), lead)},
				       {},
				       true,
				       true,
				       false});
		end.log.expect_group(0, "dropped", {9, 0, 0, 1, 0});
	}
	{
		End end(Option::xmtreq);
		Receive *const first = end.request(7, 3), *const second = end.more(7, call, 2),
			       *const rest = end.more(7, call, 1);

		(void)end.take(first, {});
		(void)end.take(second, {{},
					{first},
					{second,
					 true,
					 {},
					 report_of({Xid(7), Direction::call, 2},
						   Detail::differs(Fault::sequence, 1, 2), lead)},
					{},
					true,
					true,
					false});
		(void)end.take(rest, {{}, {rest}, {}, {}, false, false, false});
		EXPECT_EQ(rest->whole_length, 12345);
	}
	{
		const u32 none[] = {1, 1};
		End end(Option::xmtreq);
		Receive *const first = end.request(7, 3), *const bad = end.optional(7, call,
										    Option::xmtcont,
										    none, 0);

		(void)end.take(first, {});
		(void)end.take(bad, {{},
				     {first},
				     {bad,
				      true,
				      {},
				      report_of({Xid(7), Direction::call, 0},
						Detail::differs(Fault::option, 1, 0), lead)},
				     {},
				     true,
				     true,
				     false});
	}
}

/* What is refused for what it says; what follows of it is passed over. */
RPCORDMA_TEST(rdma_transmission, refused)
{
	const u32 nothing[] = {0, 0, 0, 0, 40}, no_reply[] = {0, 0, 40};
	struct Case {
		Option lead;
		Receive *(*make)(End &end, const u32 *optinfo);
		Expected expected; /* but for whom it is about */
		bool useless;
	};
	const rtrext::Report stream =
		report_of({Xid(7), Direction::call, 0}, Detail::beyond(Fault::stream, 44, 40));
	rtrext::Report reply_stream = stream;
	reply_stream.bad.direction = Direction::reply;
	const Expected chunk_undecoded = {}, chunk = {{}, {}, {}, {}, true, false, false};
	Expected option = chunk;
	option.refused.code = ErrorCode::option;
	Expected by_report, reply_by_report, reply_lost = {{}, {}, {}, {}, true, false, true},
					     reply_undecoded = {{}, {}, {}, {}, false, false, true};
	by_report.refused.reports = reply_by_report.refused.reports = true;
	by_report.refused.report = stream;
	reply_by_report.refused.report = reply_stream;
	reply_by_report.lead_refused = true;
	const auto make_bad = [](End &end, const u32 *optinfo) {
		return end.optional(7, call, Option::xmtreq, {optinfo, 5}, 10);
	};
	const auto make_bad_reply = [](End &end, const u32 *optinfo) {
		return end.optional(7, reply, Option::xmtresp, {optinfo, 3}, 10);
	};
	const auto make_long = [](End &end, const u32 *) { return end.request(7, kMost + 1); };
	const auto make_long_reply = [](End &end, const u32 *) {
		return end.response(7, kMost + 1);
	};
	const auto make_call = [](End &end, const u32 *) { return end.request(7, 1); };
	const auto make_reply = [](End &end, const u32 *) { return end.response(7, 1); };
	const auto make_short = [](End &end, const u32 *) {
		const u32 optinfo[] = {0, 0, 1, 0, 44};

		return end.optional(7, call, Option::xmtreq, optinfo, 10);
	};
	const auto make_short_reply = [](End &end, const u32 *) {
		const u32 optinfo[] = {0, 1, 44};

		return end.optional(7, reply, Option::xmtresp, optinfo, 10);
	};
	const Case cases[] = {
		{Option::xmtreq, make_bad, chunk_undecoded, false},
		{Option::xmtreq, make_long, chunk, false},
		{Option::xmtreq, make_reply, reply_lost, true},
		{Option::xmtreq, make_short, by_report, false},
		{Option::xmtresp, make_bad_reply, reply_undecoded, true},
		{Option::xmtresp, make_long_reply, reply_lost, true},
		{Option::xmtresp, make_call, option, false},
		{Option::xmtresp, make_short_reply, reply_by_report, false},
	};

	for (const Case &c : cases) {
		End end(c.lead);
		Receive *const receive = c.make(end, c.make == +make_bad ? nothing : no_reply);
		Expected expected = c.expected;

		TEST_NOTE("case", u32(&c - cases));
		if (c.useless)
			expected.useless[0] = receive;
		else
			expected.refused.about = receive;
		(void)end.take(receive, expected);
		if (expected.dropped)
			end.log.expect_group(
				0, "dropped",
				{7, static_cast<u32>(receive->message.option), 0,
				 c.make == +make_long || c.make == +make_long_reply ? kMost + 1 : 2,
				 40});
		/* Of one that was by itself nothing follows: what comes is alone. */
		if (expected.refused.reports)
			continue;
		Receive *const rest =
			end.more(7, receive->message.direction == Direction::call ? call : reply, 1);
		(void)end.take(rest, {{}, {rest}, {}, {}, false, false, false});
	}
}

/* A later transmission says more of its stream than there is: it and its group are of no use, as the peer is told. */
RPCORDMA_TEST(rdma_transmission, later_refused)
{
	for (const u32 direction : {call, reply})
		for (u32 at = 1; at < kMost; at++) {
			End end(direction == call ? Option::xmtreq : Option::xmtresp);
			Receive *const first = direction == call ? end.request(7, kMost) :
								   end.response(7, kMost);
			Receive *const good = end.more(7, direction, 1);
			Receive *const bad = end.more(7, direction, at, 4);
			const auto way = static_cast<Direction>(direction);
			Expected expected;

			TEST_NOTE("direction", direction);
			TEST_NOTE("at", at);
			(void)end.take(first, {});
			if (at == 2)
				(void)end.take(good, {});
			expected.useless[0] = at == 2 ? good : first;
			expected.useless[1] = at == 2 ? first : nullptr;
			expected.refused = {bad,
					    true,
					    {},
					    report_of({Xid(7), way, at},
						      Detail::beyond(Fault::stream, 12, 8),
						      {Xid(7), way, 0})};
			expected.dropped = true;
			expected.lost = direction == reply;
			(void)end.take(bad, expected);
			EXPECT_EQ(bad->whole_length, 12345);
			EXPECT_EQ(end.groups.first(), nullptr);
		}
}

/* Items, when all is there: in DDP segments, wherever these are; or to be fetched, for a call of one transmission. */
RPCORDMA_TEST(rdma_transmission, items)
{
	static const u32 sent[] = {1, 40, 16, 2, 0, 1, 1, 0, 1, 0, 40},
			 beyond[] = {1, 40, 16, 2, 0, 1, 2, 0, 1, 0, 40},
			 fetched[] = {1, 40, 16, 1, 1, 5, 16, 0, 8, 0, 1, 0, 40},
			 both[] = {2, 40, 16, 1, 1, 5, 16, 0, 8, 56, 16, 2, 0, 1, 1, 0, 1, 0, 40};
	const Span<const u32> good[] = {sent, fetched};
	u32 two[19];

	for (const auto &optinfo : good) {
		End end(Option::xmtreq);
		Receive *const one = end.optional(7, call, Option::xmtreq, optinfo, 10, 256);
		const u32 header = 28 + 4 * u32(optinfo.size());

		TEST_NOTE("words", optinfo.size());
		const Transmitted taken = end.take(one, {{one}, {}, {}, {}, false, false, false});
		EXPECT_EQ(taken.request.items.count(), 1);
		EXPECT_EQ((*taken.request.items.begin()).displacement, 40);
		expect_cut(one, header, 40, 256);
	}
	{
		End end(Option::xmtreq);
		Receive *const one = end.optional(7, call, Option::xmtreq, beyond, 10, 256);

		(void)end.take(one, {{},
				     {},
				     {},
				     {one,
				      true,
				      {},
				      report_of({Xid(7), Direction::call, 0},
						Detail::beyond(Fault::segment, 2, 1))},
				     false,
				     false,
				     false});
	}
	/* Some of either; or what is to be fetched, of a group: not here. */
	{
		End end(Option::xmtreq);
		Receive *const one = end.optional(7, call, Option::xmtreq, both, 10, 256);

		(void)end.take(
			one, {{}, {}, {}, {one, false, ErrorCode::system, {}}, false, false, false});
	}
	for (const auto &optinfo : {Span<const u32>(fetched), Span<const u32>(beyond)}) {
		End end(Option::xmtreq);
		const bool fetches = optinfo.size() == 13;

		for (u32 i = 0; i < optinfo.size(); i++)
			two[i] = optinfo[i];
		/* The third segment is there, in two transmissions; and then not all of it has come. */
		two[optinfo.size() - 3] = 2;
		for (const u32 length : {48u, 128 + 16u}) {
			Receive *const first = end.optional(7, call, Option::xmtreq,
							    {two, optinfo.size()}, 10, 256);
			Receive *const last = end.more(7, call, 1, 0, length);
			Expected expected;

			TEST_NOTE("length", length);
			TEST_NOTE("fetches", fetches);
			(void)end.take(first, {});
			if (fetches) {
				expected.refused = {last, false, ErrorCode::system, {}};
			} else if (length == 48) {
				expected.refused = {last,
						    true,
						    {},
						    report_of({Xid(7), Direction::call, 0},
							      Detail::beyond(Fault::segment, 2, 1),
							      {Xid(7), Direction::call, 0})};
			} else {
				expected.whole[0] = first;
				expected.whole[1] = last;
			}
			if (!expected.whole[0]) {
				expected.useless[0] = first;
				expected.dropped = true;
			}
			(void)end.take(last, expected);
		}
	}
	/* Of a reply. */
	for (const bool fits : {true, false}) {
		const u32 optinfo[] = {1, 24, 16, 2, 0, 1, fits ? 1u : 2u, 1, 40};
		End end(Option::xmtresp);
		Receive *const one = end.optional(7, reply, Option::xmtresp, optinfo, 10, 256);
		Expected expected;

		TEST_NOTE("fits", fits);
		if (fits)
			expected.whole[0] = one;
		else
			expected.refused = {one,
					    true,
					    {},
					    report_of({Xid(7), Direction::reply, 0},
						      Detail::beyond(Fault::segment, 2, 1))};
		expected.lead_refused = !fits;
		const Transmitted taken = end.take(one, expected);
		EXPECT_EQ(taken.request.items.count(), 0);
	}
}

/* What Receives are, as a peer is told; and the lengths of more transmissions than there may be. */
RPCORDMA_TEST(rdma_transmission, numbers)
{
	EXPECT_EQ(structure_of({4096, 4, 256}), (properties::Structure{5120, 4, 256}));
	EXPECT_EQ(structure_of({4096, 0, 256}), (properties::Structure{4096, 0, 0}));
	End end(Option::xmtreq);
	Receive *last = nullptr;
	for (u32 n = 1; n <= 6; n++) {
		Receive *const receive = end.more(7, call, n);

		ASSERT_EQ(v2::decode(receive->bytes(), receive->message), Error::none);
		receive->next = last;
		last = receive;
		const MessageLengths lengths(*last);
		TEST_NOTE("transmissions", n);
		EXPECT_EQ(lengths.each().size(), min(n, 4u));
		EXPECT_EQ(lengths.stream(), 8 * n);
	}
}

RPCORDMA_SUITE(rdma_transmission, whole, others, broken_off, refused, later_refused, items, numbers);

} // namespace rpcordma
