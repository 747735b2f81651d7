// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/rdma/group_assembly: Receives of groups, in and out of order, and what the peer is told of each fault. What
 * belongs to which group is test_protocol_groups.cc's. No port is needed.
 */
#include "kunit/test_rdma_random.hh"
#include "kunit/testing.hh"
#include "module/rdma/group_assembly.hh"

namespace rpcordma {
namespace {

using Part = GroupAssembly::Part;
using Outcome = GroupAssembly::Outcome;
using rtrext::Fault;
using xdr::Direction;
using xdr::Kind;
using xdr::Option;

/* A Receive of a kernel's size is not for its stack; it owns nothing. */
Receive *received(u32 xid, Kind kind, Option option = Option::none,
		  Direction direction = Direction::call)
{
	Receive *receive = new (test_alloc(sizeof(Receive)).data()) Receive;

	receive->message.xid = Xid(xid);
	receive->message.kind = kind;
	receive->message.option = option;
	receive->message.direction = direction;
	/* What was left in it. */
	receive->next = receive;
	return receive;
}

Receive *lead(u32 xid, Option option = Option::xmtreq)
{
	return received(xid, Kind::optional, option,
			option == Option::xmtreq ? Direction::call : Direction::reply);
}

Receive *more(u32 xid, Direction direction = Direction::call)
{
	return received(xid, Kind::optional, Option::xmtcont, direction);
}

u32 length_of(const Receive *chain)
{
	u32 n = 0;

	for (; chain; chain = chain->next)
		n++;
	return n;
}

void expect_report(const Outcome &outcome, Fault fault, u32 xid, u32 number, u32 expected,
		   u32 current)
{
	const rtrext::Detail &detail = outcome.report.detail;

	EXPECT_TRUE(outcome.faulty);
	EXPECT_EQ(detail.fault, fault);
	EXPECT_EQ(outcome.report.bad.xid, Xid(xid));
	EXPECT_EQ(outcome.report.bad.number, number);
	EXPECT_EQ(outcome.report.bad.direction, Direction::call);
	EXPECT_EQ(outcome.report.has_lead, fault != Fault::alone);
	if (outcome.report.has_lead) {
		EXPECT_EQ(outcome.report.lead.xid, Xid(7));
		EXPECT_EQ(outcome.report.lead.number, 0);
	}
	EXPECT_EQ(detail.words[0], expected);
	EXPECT_EQ(detail.words[1], current);
}

} // namespace

/* What of an optinfo decides. */
RPCORDMA_TEST(rdma_group_assembly, parts)
{
	for (u32 n : {1u, 2u, 300u}) {
		rtrext::Request request;
		rtrext::Response response;
		rtrext::Continuation continuation;

		request.transmissions = response.transmissions = n;
		request.reply_transmissions = 9;
		request.stream_length = response.stream_length = continuation.stream_length = 8;
		continuation.number = n + 1;
		continuation.lead = n + 2;
		const Part parts[] = {GroupAssembly::part(request), GroupAssembly::part(response),
				      GroupAssembly::part(continuation)};
		const Part wanted[] = {{n, 0, 0}, {n, 0, 0}, {1, n + 1, n + 2}};
		for (u32 i = 0; i < 3; i++) {
			TEST_NOTE("part", i);
			EXPECT_EQ(parts[i].count, wanted[i].count);
			EXPECT_EQ(parts[i].number, wanted[i].number);
			EXPECT_EQ(parts[i].lead, wanted[i].lead);
		}
	}
}

/* What is no group is whole at once. */
RPCORDMA_TEST(rdma_group_assembly, single)
{
	GroupAssembly assembly;

	for (Receive *receive :
	     {received(1, Kind::msg), received(2, Kind::nomsg), received(3, Kind::updprop), lead(4),
	      lead(5, Option::xmtresp), received(6, Kind::optional, Option::repterr)}) {
		const Outcome outcome = assembly.add(receive, {});

		EXPECT_EQ(outcome.whole, receive);
		EXPECT_EQ(length_of(outcome.whole), 1);
		EXPECT_EQ(outcome.useless, nullptr);
		EXPECT_FALSE(outcome.faulty);
		EXPECT_FALSE(assembly.open());
	}
}

RPCORDMA_TEST(rdma_group_assembly, several)
{
	GroupAssembly assembly;

	for (const Option option : {Option::xmtreq, Option::xmtresp}) {
		for (u32 n = 2; n < 6; n++) {
			Receive *const first = lead(n, option);
			TEST_NOTE("transmissions", n);

			EXPECT_EQ(assembly.add(first, {n, 0, 0}).whole, nullptr);
			for (u32 i = 1; i < n; i++) {
				const Outcome outcome =
					assembly.add(more(n, first->message.direction),
						     {1, i, static_cast<u32>(option)});

				EXPECT_TRUE(assembly.open() == (i + 1 < n));
				EXPECT_FALSE(outcome.faulty);
				EXPECT_EQ(outcome.useless, nullptr);
				EXPECT_EQ(outcome.whole, i + 1 < n ? nullptr : first);
			}
			EXPECT_EQ(length_of(first), n);
		}
	}
}

/* Each fault, behind a lead of three and its second: what is told, what is dropped, and what of the rest is. */
RPCORDMA_TEST(rdma_group_assembly, faults)
{
	struct Case {
		Receive *receive;
		Part part;
		Fault fault;
		u32 expected, current;
		bool handled;
	};
	const Case cases[] = {
		{more(8), {1, 2, 1}, Fault::xid, 7, 8, false},
		{more(7), {1, 3, 1}, Fault::sequence, 2, 3, false},
		{more(7), {1, 1, 1}, Fault::sequence, 2, 1, false},
		{more(7), {1, 2, 2}, Fault::option, 1, 2, false},
		/* Only its last bits are those of an XMTREQ. */
		{more(7), {1, 2, 0x101}, Fault::option, 1, 0x101, false},
		{received(9, Kind::msg), {}, Fault::header, 5, 0, true},
		{received(9, Kind::updprop), {}, Fault::header, 5, 9, true},
		{received(9, Kind::error), {}, Fault::header, 5, 4, true},
		{lead(7), {1, 0, 0}, Fault::option, 3, 1, true},
		{received(9, Kind::optional, Option::repterr), {}, Fault::option, 3, 4, true},
	};

	for (const Case &c : cases) {
		GroupAssembly assembly;
		TEST_NOTE("case", u32(&c - cases));

		ASSERT_EQ(assembly.add(lead(7), {3, 0, 0}).whole, nullptr);
		ASSERT_EQ(assembly.add(more(7), {1, 1, 1}).whole, nullptr);
		const Outcome outcome = assembly.add(c.receive, c.part);
		expect_report(outcome, c.fault, c.receive->message.xid.get(), c.part.number,
			      c.expected, c.current);
		EXPECT_EQ(outcome.whole, c.handled ? c.receive : nullptr);
		EXPECT_EQ(length_of(outcome.whole), c.handled);
		EXPECT_EQ(length_of(outcome.useless), c.handled ? 2 : 3);
		EXPECT_FALSE(assembly.open());

		/* What is left of the group: dropped in silence, or of no group. */
		Receive *const rest = more(7);
		const Outcome behind = assembly.add(rest, {1, 2, 1});
		EXPECT_EQ(behind.whole, nullptr);
		EXPECT_EQ(behind.useless, rest);
		EXPECT_EQ(length_of(rest), 1);
		EXPECT_EQ(behind.faulty, c.handled);
		if (c.handled)
			expect_report(behind, Fault::alone, 7, 2, 0, 0);
	}
}

/* A lead amid a group begins another one, and both are told apart. */
RPCORDMA_TEST(rdma_group_assembly, lead_amid_group)
{
	GroupAssembly assembly;
	Receive *const first = lead(7), *const second = lead(8);

	ASSERT_EQ(assembly.add(first, {2, 0, 0}).whole, nullptr);
	const Outcome outcome = assembly.add(second, {2, 0, 0});
	expect_report(outcome, Fault::option, 8, 0, 3, 1);
	EXPECT_EQ(outcome.whole, nullptr);
	EXPECT_EQ(outcome.useless, first);
	EXPECT_EQ(length_of(first), 1);
	EXPECT_TRUE(assembly.open());
	const Outcome last = assembly.add(more(8), {1, 1, 1});
	EXPECT_EQ(last.whole, second);
	EXPECT_EQ(length_of(second), 2);
	EXPECT_FALSE(last.faulty);
}

/* Calls and replies of one peer come the same way: a backward call breaks a reply's group off, which is what is told. */
RPCORDMA_TEST(rdma_group_assembly, other_direction)
{
	for (const Direction direction : {Direction::call, Direction::reply, Direction::unknown}) {
		GroupAssembly assembly;
		Receive *const first = lead(7, Option::xmtresp);
		Receive *const other = received(9, Kind::msg, Option::none, direction);
		MutableBytes room = test_alloc(rtrext::most_report_length);
		xdr::Message message;

		ASSERT_EQ(assembly.add(first, {2, 0, 0}).whole, nullptr);
		const Outcome outcome = assembly.add(other, {});
		EXPECT_EQ(outcome.whole, other);
		EXPECT_EQ(outcome.useless, first);
		ASSERT_TRUE(outcome.faulty);
		EXPECT_EQ(outcome.report.lead.direction, Direction::reply);
		EXPECT_EQ(outcome.report.bad.direction,
			  direction == Direction::call ? Direction::call : Direction::reply);
		auto length = rtrext::encode(room, Credits(1), outcome.report);
		ASSERT_OK(length);
		ASSERT_EQ(v2::decode(room.first(length.value()), message), Error::none);
		EXPECT_EQ(message.direction, Direction::call);
		EXPECT_EQ(message.xid, Xid(9));
	}
}

/* What a transmission contains may be refused: its group with it. */
RPCORDMA_TEST(rdma_group_assembly, refused)
{
	GroupAssembly assembly;
	Receive *const first = lead(7), *const second = more(7);

	EXPECT_EQ(assembly.refuse(), nullptr);
	ASSERT_EQ(assembly.add(first, {4, 0, 0}).whole, nullptr);
	EXPECT_EQ(assembly.refuse(), first);
	EXPECT_FALSE(assembly.open());
	EXPECT_EQ(assembly.refuse(), nullptr);
	EXPECT_FALSE(assembly.add(more(7), {1, 1, 1}).faulty);
	/* Of another group they are alone. */
	EXPECT_TRUE(assembly.add(more(9), {1, 1, 1}).faulty);

	Receive *const again = lead(7);
	ASSERT_EQ(assembly.add(again, {4, 0, 0}).whole, nullptr);
	ASSERT_EQ(assembly.add(second, {1, 1, 1}).whole, nullptr);
	EXPECT_EQ(assembly.refuse(), again);
	EXPECT_EQ(length_of(again), 2);
	EXPECT_FALSE(assembly.add(more(7), {1, 2, 1}).faulty);
}

/* A lead of 2^32 - 1 waits for the next; 2^32 - 1 as a number is one too many. */
RPCORDMA_TEST(rdma_group_assembly, extremes)
{
	GroupAssembly assembly;

	EXPECT_EQ(assembly.add(lead(7), {~u32(0), 0, 0}).whole, nullptr);
	EXPECT_TRUE(assembly.open());
	EXPECT_FALSE(assembly.add(more(7), {1, 1, 1}).faulty);
	expect_report(assembly.add(more(7), {1, ~u32(0), 1}), Fault::sequence, 7, ~u32(0), 2,
		      ~u32(0));
}

/* Whatever comes, each Receive comes back once: as a part of what is whole, or as useless, or it is still kept. */
RPCORDMA_TEST(rdma_group_assembly, none_is_lost)
{
	for (u32 seed = 1; seed <= 200; seed++) {
		GroupAssembly assembly;
		Random random(seed);
		u32 in = 0, out = 0, kept = 0;
		TEST_NOTE("seed", seed);

		for (u32 n = 0; n < 60; n++) {
			const u32 xid = 1 + random.below(2), what = random.below(8);
			Receive *receive = what < 5  ? more(xid) :
					   what == 5 ? received(xid, Kind::msg) :
						       lead(xid);
			const Outcome outcome = assembly.add(
				receive, {what < 6 ? 1 : 1 + random.below(3), random.below(3), 1});

			in++;
			kept++;
			kept -= length_of(outcome.whole) + length_of(outcome.useless);
			out += length_of(outcome.whole) + length_of(outcome.useless);
			if (random.below(10) == 0) {
				const u32 refused = length_of(assembly.refuse());

				kept -= refused;
				out += refused;
			}
			EXPECT_EQ(kept != 0, assembly.open());
		}
		out += length_of(assembly.refuse());
		EXPECT_EQ(out, in);
	}
}

RPCORDMA_SUITE(rdma_group_assembly, parts, single, several, faults, lead_amid_group,
	       other_direction, refused, extremes, none_is_lost);

} // namespace rpcordma
