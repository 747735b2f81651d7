// SPDX-License-Identifier: GPL-2.0-only
/*
 * rtrext-01's rdma_optinfo, case by case: what is established of items and directions, how one transmission is judged,
 * what the encoders refuse, and views of bytes that have changed. Whole families are in test_xdr_rtrext_sweep.cc.
 */
#include "kunit/test_xdr_reference.hh"
#include "kunit/testing.hh"
#include "xdr/rtrext.hh"

namespace rpcordma {
namespace {

using namespace rtrext;
using xdr::Direction;
using xdr::Option;
using xdr_reference::set_word;
using xdr_reference::wire;

constexpr Xid xid{0x12345678};
constexpr Credits credits{32};
using How = Verdict::How;

[[gnu::noinline]] Error request_outcome(Bytes optinfo)
{
	Request request;

	return decode(optinfo, request);
}

[[gnu::noinline]] Error response_outcome(Bytes optinfo)
{
	Response response;

	return decode(optinfo, response);
}

/* A request whose only list of items has these words; no set, one transmission. */
template <usize N> Error items_outcome(const u32 (&words)[N])
{
	MutableBytes bytes = test_alloc((N + 4) * 4);
	const u32 end[] = {0, 1, 1, 40};

	for (u32 i = 0; i < N; i++)
		set_word(bytes, i, words[i]);
	for (u32 i = 0; i < 4; i++)
		set_word(bytes, u32(N) + i, end[i]);
	return request_outcome(bytes);
}

template <usize N> Error sets_outcome(const u32 (&words)[N])
{
	MutableBytes bytes = test_alloc((N + 4) * 4);
	const u32 end[] = {1, 1, 40};

	set_word(bytes, 0, 0);
	for (u32 i = 0; i < N; i++)
		set_word(bytes, 1 + i, words[i]);
	for (u32 i = 0; i < 3; i++)
		set_word(bytes, u32(N) + 1 + i, end[i]);
	return request_outcome(bytes);
}

template <usize N> Error results_outcome(const u32 (&words)[N])
{
	MutableBytes bytes = test_alloc((N + 2) * 4);

	for (u32 i = 0; i < N; i++)
		set_word(bytes, i, words[i]);
	set_word(bytes, N, 1);
	set_word(bytes, N + 1, 40);
	return response_outcome(bytes);
}

/* A NULL call of NFS behind an XMTREQ, or a reply behind an XMTRESP. */
struct Transmission {
	xdr::Message message;
	u8 stream[64] = {};
	Request request;
	Response response;

	explicit Transmission(Direction direction, u32 length = 40)
	{
		const u32 call[] = {xid.get(), 0, 2, 100003, 3, 0, 0, 0, 0, 0};
		const MutableBytes all(stream);

		for (u32 i = 0; i < 10; i++)
			set_word(all, i, call[i]);
		set_word(all, 1, static_cast<u32>(direction));
		message.xid = xid;
		message.kind = xdr::Kind::optional;
		message.direction = direction;
		message.payload = Bytes(all).first(length);
		request.stream_length = response.stream_length = length;
	}
};

} // namespace

/* Displacements: multiples of four, ascending, and none within another item or its pad. */
RPCORDMA_TEST(xdr_rtrext, displacements)
{
	const u32 at_begin[] = {1, 0, 4, 2, 0, 1, 0};

	EXPECT_EQ(results_outcome(at_begin), Error::none);
	EXPECT_EQ(items_outcome(at_begin), Error::none);
	EXPECT_EQ(items_outcome({1, 40, 16, 2, 0, 1, 0}), Error::none);
	EXPECT_EQ(items_outcome({1, 42, 16, 2, 0, 1, 0}), Error::protocol);
	EXPECT_EQ(items_outcome({2, 40, 5, 2, 0, 0, 48, 1, 2, 0, 0}), Error::none);
	EXPECT_EQ(items_outcome({2, 40, 5, 2, 0, 0, 44, 1, 2, 0, 0}), Error::protocol);
	EXPECT_EQ(items_outcome({2, 48, 5, 2, 0, 0, 40, 1, 2, 0, 0}), Error::protocol);
	/* Of no bytes, and yet not at one place with another. */
	EXPECT_EQ(items_outcome({2, 40, 0, 2, 0, 0, 40, 0, 2, 0, 0}), Error::protocol);
	EXPECT_EQ(items_outcome({2, 40, 0, 2, 0, 0, 44, 0, 2, 0, 0}), Error::none);
	/* The end of the first is beyond what a displacement can say. */
	EXPECT_EQ(items_outcome({2, 0xfffffffc, 8, 2, 0, 0, 4, 1, 2, 0, 0}), Error::protocol);
	/* What is not placed has no place. */
	EXPECT_EQ(results_outcome({2, 48, 4, 2, 0, 1, 0, 2, 9, 5}), Error::none);
	EXPECT_EQ(results_outcome({2, 48, 4, 2, 0, 1, 0, 44, 4, 2, 0, 0}), Error::protocol);
}

/* The draft's Table 1: which type may stand where. */
RPCORDMA_TEST(xdr_rtrext, types)
{
	for (u32 type = 0; type < 9; type++) {
		const Error good = Error::none, bad = Error::protocol;
		TEST_NOTE("type", type);
		/* Segments where it has some, or an offset and no numbers. */
		const u32 more = type == 2 ? 1 : 0;

		if (type == 1)
			EXPECT_EQ(items_outcome({1, 40, 0, type, 0}), good);
		else if (more)
			EXPECT_EQ(items_outcome({1, 40, 0, type, 0, 0}), good);
		else
			EXPECT_EQ(items_outcome({1, 40, 0, type}), bad);
		if (type == 5 || type == 6)
			EXPECT_EQ(results_outcome({1, 40, 0, type}), good);
		if (type == 3 || type == 4)
			EXPECT_EQ(results_outcome({1, 40, 0, type, 0}), bad);
		if (type == 1 || type == 3)
			EXPECT_EQ(sets_outcome({1, 0, 8, 1, 0, type, 0}), good);
		else if (type == 2)
			EXPECT_EQ(sets_outcome({1, 0, 8, 1, 0, type}), good);
		else if (type == 4)
			EXPECT_EQ(sets_outcome({1, 0, 8, 1, 0, type, 4096, 0}), good);
		else
			EXPECT_EQ(sets_outcome({1, 0, 8, 1, 0, type}), bad);
	}
}

/* The segments of a call's item have as many bytes as it has, or its pad too. */
RPCORDMA_TEST(xdr_rtrext, sums)
{
	EXPECT_EQ(items_outcome({1, 40, 63, 1, 1, 7, 63, 0, 0}), Error::none);
	EXPECT_EQ(items_outcome({1, 40, 63, 1, 1, 7, 64, 0, 0}), Error::none);
	EXPECT_EQ(items_outcome({1, 40, 63, 1, 1, 7, 62, 0, 0}), Error::protocol);
	EXPECT_EQ(items_outcome({1, 40, 63, 1, 1, 7, 65, 0, 0}), Error::protocol);
	EXPECT_EQ(items_outcome({1, 40, 63, 1, 2, 7, 60, 0, 0, 8, 4, 0, 0}), Error::none);
	/* Beyond 32 bits. */
	EXPECT_EQ(items_outcome({1, 40, 4, 1, 2, 7, ~0u, 0, 0, 8, 5, 0, 0}), Error::protocol);
	EXPECT_EQ(items_outcome({1, 40, 4, 1, 0}), Error::protocol);
	/* A reply is not measured: it contradicts its call in any case. */
	EXPECT_EQ(results_outcome({1, 40, 63, 1, 1, 7, 4096, 0, 0}), Error::none);
}

/* Sets do not end before they begin, are disjoint and ascend. */
RPCORDMA_TEST(xdr_rtrext, sets)
{
	EXPECT_EQ(sets_outcome({1, 0, ~0u, 0}), Error::none);
	EXPECT_EQ(sets_outcome({1, 8, 8, 0}), Error::none);
	EXPECT_EQ(sets_outcome({1, 8, 7, 0}), Error::protocol);
	EXPECT_EQ(sets_outcome({2, 0, 100, 0, 50, 200, 0}), Error::protocol);
	EXPECT_EQ(sets_outcome({2, 0, 100, 0, 100, 200, 0}), Error::none);
	EXPECT_EQ(sets_outcome({2, 100, 200, 0, 0, 50, 0}), Error::protocol);
	EXPECT_EQ(sets_outcome({2, 8, 8, 0, 8, 9, 0}), Error::protocol);
	EXPECT_EQ(sets_outcome({2, ~0u, ~0u, 0, ~0u, ~0u, 0}), Error::protocol);
	/* Counts beyond the message. */
	EXPECT_EQ(sets_outcome({~0u, 0, 1, 0}), Error::protocol);
	EXPECT_EQ(sets_outcome({1, 0, 1, ~0u}), Error::protocol);
	EXPECT_EQ(sets_outcome({1, 0, 1, 1, 0, 1, ~0u}), Error::protocol);
	EXPECT_EQ(items_outcome({~0u}), Error::protocol);
	EXPECT_EQ(items_outcome({1, 40, 1, 2, 0, ~0u}), Error::protocol);
}

/* A message has a transmission at least; a group of 2^32 - 1 decodes, and is judged. */
RPCORDMA_TEST(xdr_rtrext, transmissions)
{
	EXPECT_EQ(request_outcome(wire({0, 0, 1, 0, 40})), Error::none);
	EXPECT_EQ(request_outcome(wire({0, 0, 0, 0, 40})), Error::protocol);
	EXPECT_EQ(request_outcome(wire({0, 0, ~0u, 0, 40})), Error::none);
	EXPECT_EQ(response_outcome(wire({0, 1, 40})), Error::none);
	EXPECT_EQ(response_outcome(wire({0, 0, 40})), Error::protocol);
}

RPCORDMA_TEST(xdr_rtrext, judged)
{
	Transmission t(Direction::call);

	EXPECT_TRUE(judge(t.message, t.request, 40, 4).good());
	/* A limit that is its own. */
	t.request.transmissions = 4;
	EXPECT_TRUE(judge(t.message, t.request, 40, 4).good());
	t.request.transmissions = 5;
	Verdict verdict = judge(t.message, t.request, 40, 4);
	EXPECT_EQ(verdict.how, How::error);
	EXPECT_EQ(verdict.code, xdr::ErrorCode::chunk);

	/* Of another xid, of the other direction, or too short to tell. */
	Transmission other(Direction::call);
	other.message.xid = Xid(1);
	EXPECT_EQ(judge(other.message, other.request, 40, 4).how, How::error);
	Transmission reply(Direction::call);
	reply.stream[7] = 1;
	EXPECT_EQ(judge(reply.message, reply.request, 40, 4).how, How::error);
	Transmission short_one(Direction::call);
	short_one.request.stream_length = 4;
	EXPECT_EQ(judge(short_one.message, short_one.request, 40, 4).code, xdr::ErrorCode::chunk);

	Transmission answer(Direction::reply, 28);
	EXPECT_TRUE(judge(answer.message, answer.response, 28).good());
	answer.response.stream_length = 4;
	EXPECT_EQ(judge(answer.message, answer.response, 28).how, How::error);
	answer.response.stream_length = 32;
	EXPECT_EQ(judge(answer.message, answer.response, 28).detail.fault, Fault::stream);
}

/* BADPL: the value, and the least and most that it may be. */
RPCORDMA_TEST(xdr_rtrext, stream_lengths)
{
	Transmission t(Direction::call);

	for (u32 length : {38u, 44u, 0xfffffffcu, ~0u}) {
		TEST_NOTE("length", length);
		t.request.stream_length = length;
		const Verdict verdict = judge(t.message, t.request, 40, 4);

		EXPECT_EQ(verdict.how, How::report);
		EXPECT_EQ(verdict.detail.fault, Fault::stream);
		EXPECT_EQ(verdict.detail.words[0], length);
		EXPECT_EQ(verdict.detail.words[1], 0);
		EXPECT_EQ(verdict.detail.words[2], 40);
	}
	/* What came into pages counts, though it is not at hand. */
	t.request.stream_length = 4000;
	EXPECT_TRUE(judge(t.message, t.request, 4000, 4).good());
	EXPECT_TRUE(judge_stream(0, 0).good());
	EXPECT_FALSE(judge_stream(4, 0).good());
}

/* An item inside the RPC header, and an RPC header that is cut short. */
RPCORDMA_TEST(xdr_rtrext, rpc_headers)
{
	const MutableBytes inside = wire({1, 36, 16, 2, 0, 1, 0, 0, 1, 1, 40});
	Transmission t(Direction::call);

	ASSERT_EQ(decode(inside, t.request), Error::none);
	EXPECT_EQ(judge(t.message, t.request, 40, 4).code, xdr::ErrorCode::chunk);
	EXPECT_EQ(judge(t.message, t.request, 40, 4).how, How::error);
	set_word(inside, 1, 40);
	ASSERT_EQ(decode(inside, t.request), Error::none);
	EXPECT_TRUE(judge(t.message, t.request, 40, 4).good());

	/* A part of it: the only one, or of a group. */
	Transmission cut(Direction::call, 36);
	EXPECT_TRUE(judge(cut.message, cut.request, 36, 4).good());
	cut.request.items = t.request.items;
	EXPECT_EQ(judge(cut.message, cut.request, 36, 4).how, How::error);
	cut.request.transmissions = 2;
	EXPECT_TRUE(judge(cut.message, cut.request, 36, 4).good());
	/* The rest of it is in pages. */
	Transmission across(Direction::call, 36);
	across.request.items = t.request.items;
	across.request.stream_length = 40;
	EXPECT_TRUE(judge(across.message, across.request, 40, 4).good());
}

/* More items than are taken are refused, and so are directions. */
RPCORDMA_TEST(xdr_rtrext, limits)
{
	for (u32 n : {most_items, most_items + 1}) {
		Transmission t(Direction::call);
		MutableBytes items = test_alloc((5 + 4 * n) * 4),
			     places = test_alloc((8 + 2 * n) * 4);
		u32 at = 0;
		TEST_NOTE("n", n);

		set_word(items, at++, n);
		for (u32 i = 0; i < n; i++)
			for (u32 word : {40 + 4 * i, 0u, 1u, 0u})
				set_word(items, at++, word);
		for (u32 word : {0u, 1u, 0u, 40u})
			set_word(items, at++, word);
		ASSERT_EQ(decode(items, t.request), Error::none);
		/* Their stream is too short for the second one: that is judged behind it. */
		Verdict verdict = judge(t.message, t.request, 40, 4);
		EXPECT_EQ(verdict.how, n > most_items ? How::error : How::report);
		EXPECT_EQ(verdict.code,
			  n > most_items ? xdr::ErrorCode::system : xdr::ErrorCode::version);

		at = 0;
		for (u32 word : {0u, 1u, 0u, 9u, n})
			set_word(places, at++, word);
		for (u32 i = 0; i < n; i++)
			for (u32 word : {0u, 2u})
				set_word(places, at++, word);
		for (u32 word : {1u, 0u, 40u})
			set_word(places, at++, word);
		ASSERT_EQ(decode(places, t.request), Error::none);
		EXPECT_EQ(t.request.sets.places(), n);
		verdict = judge(t.message, t.request, 40, 4);
		EXPECT_EQ(verdict.good(), n == most_items);
		EXPECT_TRUE(verdict.good() || verdict.code == xdr::ErrorCode::system);
	}
}

/* So are more RDMA segments, wherever they are. */
RPCORDMA_TEST(xdr_rtrext, segment_limits)
{
	for (u32 n : {most_segments, most_segments + 1})
		for (u32 in_item = 0; in_item <= n; in_item += n / 2) {
			Transmission t(Direction::call);
			const u32 in_place = n - in_item;
			const MutableBytes optinfo = test_alloc((16 + 4 * n) * 4);
			u32 at = 0;
			TEST_NOTE("n", n);
			TEST_NOTE("in_item", in_item);

			auto segments = [&](u32 count) {
				set_word(optinfo, at++, count);
				for (u32 i = 0; i < 4 * count; i++)
					set_word(optinfo, at++, 0);
			};
			for (u32 word : {1u, 40u, 0u, 1u})
				set_word(optinfo, at++, word);
			segments(in_item);
			for (u32 word : {1u, 0u, 9u, 1u, 0u, 1u})
				set_word(optinfo, at++, word);
			segments(in_place);
			for (u32 word : {1u, 0u, 40u})
				set_word(optinfo, at++, word);
			ASSERT_EQ(decode(optinfo.first(at * 4), t.request), Error::none);
			const Verdict verdict = judge(t.message, t.request, 40, 4);
			EXPECT_EQ(verdict.good(), n == most_segments);
			EXPECT_TRUE(verdict.good() || verdict.code == xdr::ErrorCode::system);
		}
}

/* Items of a reply, which no call has asked for. */
RPCORDMA_TEST(xdr_rtrext, reply_limits)
{
	for (u32 n : {most_items, most_items + 1}) {
		Transmission t(Direction::reply);
		const MutableBytes items = test_alloc((4 + 3 * n) * 4);
		u32 at = 0;
		TEST_NOTE("n", n);

		set_word(items, at++, n);
		for (u32 i = 0; i < n; i++)
			for (u32 word : {0u, 0u, 6u})
				set_word(items, at++, word);
		for (u32 word : {1u, 28u})
			set_word(items, at++, word);
		ASSERT_EQ(decode(items.first(at * 4), t.response), Error::none);
		const Verdict verdict = judge(t.message, t.response, 28);
		EXPECT_EQ(verdict.good(), n == most_items);
		EXPECT_TRUE(verdict.good() || verdict.code == xdr::ErrorCode::system);
	}
}

/* The stream reaches to where the last item belongs, items themselves left out. */
RPCORDMA_TEST(xdr_rtrext, whole_messages)
{
	Request request;

	ASSERT_EQ(decode(wire({2, 40, 5, 2, 0, 0, 60, 4, 2, 0, 0, 0, 1, 1, 52}), request),
		  Error::none);
	EXPECT_TRUE(judge_whole(request.items, 52).good());
	const Verdict verdict = judge_whole(request.items, 48);
	EXPECT_EQ(verdict.detail.fault, Fault::stream);
	EXPECT_EQ(verdict.detail.words[0], 48);
	EXPECT_EQ(verdict.detail.words[1], 52);
	EXPECT_FALSE(judge_whole(request.items, 36).good());

	/* Of one transmission, with all else. */
	Transmission t(Direction::call);
	ASSERT_EQ(decode(wire({1, 44, 5, 2, 0, 0, 0, 1, 1, 40}), t.request), Error::none);
	EXPECT_EQ(judge(t.message, t.request, 40, 4).detail.fault, Fault::stream);
	t.request.transmissions = 2;
	EXPECT_TRUE(judge(t.message, t.request, 40, 4).good());
	Transmission answer(Direction::reply, 28);
	ASSERT_EQ(decode(wire({2, 0, 0, 6, 32, 5, 2, 0, 0, 1, 28}), answer.response), Error::none);
	EXPECT_EQ(judge(answer.message, answer.response, 28).detail.fault, Fault::stream);
	answer.response.transmissions = 2;
	EXPECT_TRUE(judge(answer.message, answer.response, 28).good());
}

/* The longest REPTERR, which goes the other way than what it is about. */
RPCORDMA_TEST(xdr_rtrext, reports)
{
	MutableBytes room = test_alloc(most_report_length);
	Report report, again;
	xdr::Message message;

	report.bad = {xid, Direction::reply, 3};
	report.has_lead = true;
	report.lead = {Xid(9), Direction::reply, 0};
	report.detail = Detail::beyond(Fault::segment, 17, 15);
	auto length = encode(room, credits, report);
	ASSERT_OK(length);
	EXPECT_EQ(length.value(), most_report_length);
	ASSERT_EQ(v2::decode(room, message), Error::none);
	EXPECT_EQ(message.option, Option::repterr);
	EXPECT_EQ(message.direction, Direction::call);
	EXPECT_EQ(message.xid, xid);
	ASSERT_EQ(decode(message.body(), again), Error::none);
	EXPECT_EQ(again.bad.number, 3);
	EXPECT_EQ(again.lead.xid, Xid(9));
	EXPECT_EQ(again.detail.fault, Fault::segment);
	EXPECT_EQ(again.detail.words[0], 17);
	EXPECT_EQ(again.detail.words[2], 15);

	/* It is about the group, if there is one. */
	report.bad.direction = Direction::call;
	ASSERT_OK(encode(room, credits, report));
	ASSERT_EQ(v2::decode(room, message), Error::none);
	EXPECT_EQ(message.direction, Direction::call);
	report.lead.direction = Direction::unknown;
	EXPECT_ERROR(encode(room, credits, report), Error::invalid);
	report.lead.direction = Direction::call;
	report.detail = Detail::differs(Fault::sequence, 1, 2);
	ASSERT_OK(encode(room, credits, report));
	ASSERT_EQ(v2::decode(room.first(68), message), Error::none);
	EXPECT_EQ(message.direction, Direction::reply);
	report.detail = {};
	EXPECT_ERROR(encode(room, credits, report), Error::invalid);
}

/* Each report, of each fault, goes there whole and comes back; and what is no report is none. */
RPCORDMA_TEST(xdr_rtrext, every_report)
{
	const auto expect_id = [](const Id &got, const Id &wanted) {
		EXPECT_EQ(got.xid, wanted.xid);
		EXPECT_EQ(got.direction, wanted.direction);
		EXPECT_EQ(got.number, wanted.number);
	};

	for (u32 fault = 1; fault <= 8; fault++)
		for (u32 which = 0; which < 8; which++) {
			const bool has_lead = which & 1;
			const auto bad = static_cast<Direction>(which >> 1 & 1),
				   lead = static_cast<Direction>(which >> 2);
			const u32 words = fault == 3 ? 0 : fault < 6 ? 2 : 3;
			const u32 length = 28 + 12 + 4 + (has_lead ? 12 : 0) + 4 + 4 * words;
			MutableBytes room = test_alloc(length);
			Report report, again;
			xdr::Message message;

			TEST_NOTE("fault", fault);
			TEST_NOTE("lead", has_lead);
			report.bad = {xid, bad, 3};
			report.has_lead = has_lead;
			report.lead = {Xid(9), lead, 4};
			report.detail = {static_cast<Fault>(fault), {17, 18, 19}};
			EXPECT_EQ(report.detail.count(), words);
			EXPECT_ERROR(encode(room.first(length - 1), credits, report),
				     Error::no_space);
			const auto made = encode(room, credits, report);
			ASSERT_OK(made);
			ASSERT_EQ(made.value(), length);
			ASSERT_EQ(v2::decode(room, message), Error::none);
			EXPECT_EQ(message.xid, xid);
			EXPECT_EQ(message.credits, credits);
			EXPECT_EQ(message.option, Option::repterr);
			EXPECT_NE(message.direction, has_lead ? lead : bad);
			/* Where something was. */
			again.detail = {Fault::header, {7, 7, 7}};
			again.lead = {Xid(7), Direction::call, 7};
			ASSERT_EQ(decode(message.body(), again), Error::none);
			expect_id(again.bad, report.bad);
			EXPECT_EQ(again.has_lead, has_lead);
			expect_id(again.lead, has_lead ? report.lead : Id{});
			EXPECT_EQ(again.detail.fault, report.detail.fault);
			for (u32 n = 0; n < 3; n++)
				EXPECT_EQ(again.detail.words[n], n < words ? 17 + n : 0);
			/* Words that say whether there is a lead, and which fault it is; and one too many, or too few. */
			const u32 which_at = 28 + 16 + (has_lead ? 12 : 0);
			for (u32 word : {0u, 9u, 0x100u + fault, ~0u}) {
				const ExactCopy copy(room);

				set_word(copy.bytes(), which_at / 4, word);
				EXPECT_EQ(decode(Bytes(copy.bytes()).from(28), again),
					  Error::protocol);
			}
			for (u32 word : {2u, ~0u}) {
				const ExactCopy copy(room);

				set_word(copy.bytes(), 28 / 4 + 3, word);
				EXPECT_EQ(decode(Bytes(copy.bytes()).from(28), again),
					  Error::protocol);
			}
			for (u32 at : {28 / 4 + 1, 28 / 4 + 5}) {
				const ExactCopy copy(room);

				if (at == 28 / 4 + 5 && !has_lead)
					continue;
				set_word(copy.bytes(), at, 2);
				EXPECT_EQ(decode(Bytes(copy.bytes()).from(28), again),
					  Error::protocol);
			}
			EXPECT_EQ(decode(Bytes(room).from(28).first(length - 28 - 4), again),
				  Error::protocol);
			MutableBytes more = test_alloc(length + 4);
			__builtin_memset(more.data(), 0, more.size());
			__builtin_memcpy(more.data(), room.data(), length);
			EXPECT_EQ(decode(Bytes(more).from(28), again), Error::protocol);
		}
	/* What each kind of detail has. */
	for (u32 n : {3u, 4u}) {
		const Detail differs = Detail::differs(Fault::xid, n, n + 1),
			     beyond = Detail::beyond(Fault::stream, n, n + 1);

		EXPECT_EQ(differs.fault, Fault::xid);
		EXPECT_EQ(differs.words[0], n);
		EXPECT_EQ(differs.words[1], n + 1);
		EXPECT_EQ(differs.words[2], 0);
		EXPECT_EQ(beyond.fault, Fault::stream);
		EXPECT_EQ(beyond.words[0], n);
		EXPECT_EQ(beyond.words[1], 0);
		EXPECT_EQ(beyond.words[2], n + 1);
	}
	for (const Direction direction : {Direction::call, Direction::reply, Direction::unknown}) {
		Report report;

		report.bad = {xid, direction, 3};
		report.detail = {Fault::alone, {}};
		EXPECT_EQ(encode(test_alloc(72), credits, report).ok(),
			  direction != Direction::unknown);
		report.lead = {xid, Direction::call, 0};
		report.has_lead = true;
		EXPECT_EQ(encode(test_alloc(72), credits, report).ok(),
			  direction != Direction::unknown);
	}
}

/* How many transmissions a message without items takes: counted one by one. */
RPCORDMA_TEST(xdr_rtrext, transmission_counts)
{
	for (u32 bytes : {52u, 53u, 55u, 56u, 60u, 64u, 100u, 128u}) {
		const u32 first = (bytes - 48) / 4 * 4, more = (bytes - 40) / 4 * 4;

		TEST_NOTE("bytes", bytes);
		EXPECT_EQ(request_room(bytes, 0), first);
		EXPECT_EQ(request_room(bytes, 1), more);
		EXPECT_EQ(request_room(bytes, 2), more);
		EXPECT_EQ(stream_room(bytes, 40), more);
		for (u32 length = 0; length <= 5 * more; length++) {
			u32 calls = 1, replies = 0;

			TEST_NOTE("length", length);
			for (u32 room = first; room < length; room += more)
				calls++;
			for (u32 room = 0; room < (length + 3) / 4 * 4; room += more)
				replies++;
			EXPECT_EQ(request_transmissions(length, bytes), calls);
			EXPECT_EQ(response_transmissions(length, bytes), replies);
		}
	}
	EXPECT_EQ(request_transmissions(u64(1) << 33, 56),
		  1 + ((u64(1) << 33) - 8) / 16 + (((u64(1) << 33) - 8) % 16 != 0));
	EXPECT_EQ(response_transmissions(u64(1) << 33, 56), (u64(1) << 33) / 16);
}

/* The optinfo of an XMTCONT, word by word. */
RPCORDMA_TEST(xdr_rtrext, continuations)
{
	static const u32 words[] = {xid.get(), 2, 32, 5, 1, 3, 12, 5, 2, 60};
	MutableBytes room = test_alloc(continuation_length);
	xdr::Message message;
	Continuation again;

	EXPECT_ERROR(encode(room.first(39), xid, credits, Direction::reply, Continuation{5, 2, 60}),
		     Error::no_space);
	const auto made = encode(room, xid, credits, Direction::reply, Continuation{5, 2, 60});
	ASSERT_OK(made);
	EXPECT_EQ(made.value(), continuation_length);
	EXPECT_BYTES(Bytes(room), Bytes(wire(words)));
	ASSERT_EQ(v2::decode(room, message), Error::none);
	ASSERT_EQ(decode(message.body(), again), Error::none);
	EXPECT_EQ(again.number, 5);
	EXPECT_EQ(again.lead, 2);
	EXPECT_EQ(again.stream_length, 60);
	for (u32 n = 0; n < 12; n++)
		EXPECT_EQ(decode(message.body().first(n), again), Error::protocol);
}

/* What a peer would refuse is not made, nor what is out of order. */
RPCORDMA_TEST(xdr_rtrext, encoder_refuses)
{
	MutableBytes room = test_alloc(400);
	const u32 numbers[] = {0};
	const xdr::Segment segment = {Rkey(7), 16, 0};
	const Span<const xdr::Segment> one(&segment, 1);
	u32 refused = 0;
	const auto refuses = [&](Option option, auto &&fill, u32 transmissions = 1) {
		Encoder e(room, xid, credits, option);

		fill(e);
		EXPECT_ERROR(e.finish(transmissions, 0, 40), Error::invalid);
		refused++;
	};
	const auto nothing = [](Encoder &) {};

	refuses(Option::xmtcont, nothing);
	refuses(Option::xmtreq, nothing, 0);
	refuses(Option::xmtresp, nothing, 0);
	refuses(Option::xmtreq, [&](Encoder &e) { e.unplaced(0, 0, Type::none); });
	refuses(Option::xmtreq, [&](Encoder &e) { e.segments(40, 12, one); });
	refuses(Option::xmtreq, [&](Encoder &e) { e.place_sent(0); });
	refuses(Option::xmtreq, [&](Encoder &e) { e.place(0, Type::either, one); });
	refuses(Option::xmtresp, [&](Encoder &e) { e.unplaced(0, 0, Type::sent); });
	refuses(Option::xmtresp, [&](Encoder &e) { e.set(0, 1); });
	refuses(Option::xmtreq, [&](Encoder &e) {
		e.sent(44, 4, 0, numbers);
		e.sent(40, 4, 0, numbers);
	});
	refuses(Option::xmtreq, [&](Encoder &e) {
		e.set(0, 8);
		e.sent(40, 4, 0, numbers);
	});
	refuses(Option::xmtreq, [&](Encoder &e) {
		e.set(0, 8);
		e.place(0, Type::sent, one);
	});
	refuses(Option::xmtreq, [&](Encoder &e) {
		e.set(0, 8);
		e.place(0, Type::too_short, one);
	});
	refuses(Option::xmtreq, [&](Encoder &e) {
		e.set(0, 8);
		e.set(4, 9);
	});
	EXPECT_EQ(refused, 14);
	EXPECT_ERROR(encode(room, xid, credits, Direction::unknown, Continuation{1, 1, 0}),
		     Error::invalid);
}

/* The header's first words, and how long each message is at least. */
RPCORDMA_TEST(xdr_rtrext, lengths)
{
	MutableBytes room = test_alloc(200);
	xdr::Message message;
	Encoder call(room, xid, credits, Option::xmtreq), reply(room, xid, credits, Option::xmtresp);

	EXPECT_EQ(Encoder(room, xid, credits, Option::xmtreq).finish(1, 4, 40).value(),
		  least_request_length);
	ASSERT_EQ(v2::decode(room.first(least_request_length), message), Error::none);
	EXPECT_EQ(message.direction, Direction::call);
	EXPECT_EQ(message.xid, xid);
	EXPECT_EQ(message.credits, credits);
	EXPECT_EQ(Encoder(room, xid, credits, Option::xmtresp).finish(1, 0, 40).value(),
		  least_response_length);
	ASSERT_EQ(v2::decode(room.first(least_response_length), message), Error::none);
	EXPECT_EQ(message.direction, Direction::reply);
	EXPECT_EQ(encode(room, xid, credits, Direction::reply, Continuation{1, 2, 0}).value(),
		  continuation_length);
	const u32 numbers[] = {0, 1, 2};
	call.sent(40, 9000, 0, numbers);
	call.set(0, ~0u);
	call.place_sent(0);
	EXPECT_EQ(call.finish(1, 4, 40).value(),
		  least_request_length + sent_item_length + 3 * 4 + set_length + send_place_length);
	reply.sent(24, 9000, 0, numbers);
	EXPECT_EQ(reply.finish(1, 0, 40).value(), least_response_length + sent_item_length + 3 * 4);
}

/* A result that was written has the segments that it filled, and no more of the last one than it took. */
RPCORDMA_TEST(xdr_rtrext, written)
{
	const xdr::Segment offered[] = {{Rkey(1), 0, 100},   {Rkey(2), 8, 200},
					{Rkey(3), 0, 300},   {Rkey(4), 4, 400},
					{Rkey(5), ~0u, 500}, {Rkey(6), ~0u, 600}};
	u8 room[1024], answer[1024];
	Encoder call({room, sizeof(room)}, xid, credits, Option::xmtreq);
	Request request;

	call.set(0, ~0u);
	call.place(0, Type::segments, {offered, 6});
	call.place(0, Type::segments, {offered, 4});
	const auto made = call.finish(1, 1, 40);
	ASSERT_OK(made);
	ASSERT_EQ(decode({room + 28, made.value() - 28}, request), Error::none);
	auto place = (*request.sets.begin()).places.begin();
	const xdr::WriteChunk six = (*place).segments;
	++place;
	const xdr::WriteChunk four = (*place).segments;
	struct {
		u32 length, count, last;
	} const cases[] = {{0, 0, 0},
			   {1, 1, 1},
			   {8, 1, 8},
			   {9, 2, 1},
			   {12, 2, 4},
			   {13, 3, 1},
			   {~0u - 3, 3, ~0u - 15},
			   {~0u, 3, ~0u - 12}};
	for (const auto &one : cases) {
		TEST_NOTE("length", one.length);
		Encoder encoder({answer, sizeof(answer)}, xid, credits, Option::xmtresp);
		Response response;

		EXPECT_EQ(filled_segments(six, one.length), one.count);
		encoder.written(44, one.length, six);
		const auto header = encoder.finish(1, 0, 40);
		ASSERT_OK(header);
		EXPECT_EQ(header.value(), 40 + 16 + 16 * one.count);
		ASSERT_EQ(decode({answer + 28, header.value() - 28}, response), Error::none);
		const Item item = *response.items.begin();
		EXPECT_EQ(item.type, Type::segments);
		EXPECT_EQ(item.displacement, 44);
		EXPECT_EQ(item.length, one.length);
		EXPECT_EQ(item.segments.length(), one.length);
		ASSERT_EQ(item.segments.count(), one.count);
		if (one.count)
			EXPECT_EQ(item.segments[one.count - 1].length, one.last);
		for (u32 i = 0; i < one.count; i++)
			EXPECT_EQ(item.segments[i].offset, offered[i < 1 ? 1 :
								   i < 2 ? 3 :
									   4]
								   .offset);
	}
	/* They are too short. */
	Encoder encoder({answer, sizeof(answer)}, xid, credits, Option::xmtresp);
	encoder.written(44, 13, four);
	EXPECT_ERROR(encoder.finish(1, 0, 40), Error::invalid);
	/* There is no room. */
	Encoder small({answer, 40 + 16 + 16}, xid, credits, Option::xmtresp);
	small.written(44, 12, four);
	EXPECT_ERROR(small.finish(1, 0, 40), Error::no_space);
}

/* Bytes that change behind the decoder's back lead nothing out of the message, and no list gets longer. */
RPCORDMA_TEST(xdr_rtrext, changed_bytes)
{
	static const u32 words[] = {2, 40, 8, 1, 1, 7, 8, 0, 0, 48, 4, 2,  0, 2, 0, 1, 2, 0, 8,
				    2, 0,  2, 0, 3, 1, 9, 4, 0, 0,  9, 10, 1, 0, 2, 1, 1, 40};
	const MutableBytes bytes = wire(words);
	Request request;

	ASSERT_EQ(decode(bytes, request), Error::none);
	for (u32 at = 0; at < sizeof(words) / 4; at++) {
		for (u32 value : {0u, 1u, 2u, 3u, 4u, 5u, ~0u, 0x10000001u}) {
			u32 items = 0, sets = 0, places = 0;
			u64 sum = 0;
			TEST_NOTE("at", at);
			TEST_NOTE("value", value);

			set_word(bytes, at, value);
			for (const Item &item : request.items) {
				for (u32 n = 0; n < item.numbers.count(); n++)
					sum += item.numbers[n];
				sum += item.segments.length();
				items++;
			}
			for (const Set &set : request.sets) {
				for (const Place &place : set.places) {
					sum += place.segments.length();
					places++;
				}
				sets++;
			}
			EXPECT_EQ(items, 2);
			EXPECT_EQ(sets, 2);
			EXPECT_LE(places, 12);
			set_word(bytes, at, words[at]);
			(void)sum;
		}
	}
}

/* Behind what has changed into nothing that can be read, nothing is found. */
RPCORDMA_TEST(xdr_rtrext, changed_into_nothing)
{
	static const u32 words[] = {2, 40, 8, 2, 0, 0, 48, 4, 2, 0, 0, 2, 0, 8,
				    2, 0,  2, 0, 2, 9, 9,  1, 7, 2, 1, 1, 40};
	const MutableBytes bytes = wire(words);
	Request request;
	u32 n = 0;

	ASSERT_EQ(decode(bytes, request), Error::none);
	/* The type of the first item. */
	set_word(bytes, 3, 9);
	for (const Item &item : request.items) {
		EXPECT_EQ(item.type, Type::none);
		EXPECT_EQ(item.length, 0);
		n++;
	}
	EXPECT_EQ(n, 2);
	/* That of the first set's first direction; and then the set is none either. */
	const auto sets = request.sets.begin();
	set_word(bytes, 16, 9);
	for (const Place &place : (*sets).places)
		EXPECT_EQ(place.least, 0);
	n = 0;
	for (const Set &set : request.sets) {
		EXPECT_EQ(set.places.count(), 0);
		EXPECT_EQ(set.end, 0);
		n++;
	}
	EXPECT_EQ(n, 2);
}

RPCORDMA_SUITE(xdr_rtrext, written, displacements, types, sums, sets, transmissions, judged,
	       every_report, transmission_counts, continuations, stream_lengths, rpc_headers,
	       limits, segment_limits, reply_limits, whole_messages, reports, encoder_refuses,
	       lengths, changed_bytes, changed_into_nothing);

} // namespace rpcordma
