// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/protocol/groups: what messages of several transmissions cost, and how they are found again. No port is needed.
 * `make states` goes through all orders of what may come.
 */
#include "kunit/testing.hh"
#include "module/protocol/groups.hh"

namespace rpcordma {
namespace {

using protocol::Collector;
using protocol::Transmission;
using protocol::Turn;
using What = protocol::Collector::What;
using Fault = protocol::Collector::Fault;
using xdr::Kind;
using xdr::Option;

Transmission lead(u32 xid, u32 count, Option option = Option::xmtreq)
{
	Transmission t;

	t.kind = Kind::optional;
	t.option = option;
	t.xid = Xid(xid);
	t.count = count;
	return t;
}

Transmission part(u32 xid, u32 number, Option of = Option::xmtreq)
{
	Transmission t = lead(xid, 1, Option::xmtcont);

	t.number = number;
	t.of = of;
	return t;
}

Transmission other(Kind kind, Option option = Option::none)
{
	Transmission t;

	t.kind = kind;
	t.option = option;
	return t;
}

} // namespace

/* All or none, and a quarter of the window, rounded up, is left. */
RPCORDMA_TEST(protocol_groups, credits)
{
	const struct {
		u32 transmissions, in_use, in_force;
		bool may;
	} cases[] = {
		{.transmissions = 2, .in_use = 1, .in_force = 4, .may = true},
		{.transmissions = 3, .in_use = 1, .in_force = 4, .may = true},
		{.transmissions = 4, .in_use = 1, .in_force = 4, .may = false},
		{.transmissions = 2, .in_use = 3, .in_force = 4, .may = false},
		{.transmissions = 2, .in_use = 1, .in_force = 3, .may = true},
		{.transmissions = 3, .in_use = 1, .in_force = 3, .may = false},
		{.transmissions = 2, .in_use = 1, .in_force = 2, .may = false},
		{.transmissions = 2, .in_use = 1, .in_force = 1, .may = false},
		{.transmissions = 1, .in_use = 3, .in_force = 4, .may = true},
		{.transmissions = 4, .in_use = 45, .in_force = 64, .may = true},
		{.transmissions = 4, .in_use = 46, .in_force = 64, .may = false},
		/* the window has shrunk */
		{.transmissions = 2, .in_use = 9, .in_force = 4, .may = false},
		{.transmissions = 0, .in_use = 1, .in_force = 4, .may = false},
		{.transmissions = ~0u, .in_use = 1, .in_force = ~0u, .may = false},
	};

	for (const auto &c : cases) {
		TEST_NOTE("case", u32(&c - cases));
		EXPECT_EQ(protocol::may_take_group(c.transmissions, c.in_use, c.in_force), c.may);
	}
}

RPCORDMA_TEST(protocol_groups, reservation)
{
	protocol::Reservation reservation(5);

	EXPECT_TRUE(reservation.take(4));
	EXPECT_FALSE(reservation.take(2));
	EXPECT_FALSE(reservation.take(~0u));
	EXPECT_EQ(reservation.taken(), 4);
	EXPECT_TRUE(reservation.take(1));
	reservation.put(4);
	EXPECT_EQ(reservation.taken(), 1);
	EXPECT_TRUE(reservation.take(4));
}

/* What an ERROR leaves goes back with the answer to an RPC that was sent later than all of them. */
RPCORDMA_TEST(protocol_groups, retained)
{
	for (u32 first : {5u, 0xffffffffu}) {
		protocol::Retained retained;

		TEST_NOTE("first", first);
		EXPECT_EQ(retained.proved(Turn(first)).credits, 0);
		retained.add(Turn(first), {1, 2});
		EXPECT_EQ(retained.proved(Turn(first - 1)).credits, 0);
		EXPECT_EQ(retained.proved(Turn(first)).receives, 0);
		/* One that was sent earlier, and one that was later. */
		retained.add(Turn(first - 2), {3, 0});
		retained.add(Turn(first + 2), {0, 4});
		EXPECT_EQ(retained.proved(Turn(first + 1)).credits, 0);
		EXPECT_EQ(retained.proved(Turn(first + 2)).credits, 0);
		EXPECT_EQ(retained.share().credits, 4);
		EXPECT_EQ(retained.share().receives, 6);
		const auto freed = retained.proved(Turn(first + 3));
		EXPECT_EQ(freed.credits, 4);
		EXPECT_EQ(freed.receives, 6);
		EXPECT_EQ(retained.share().credits, 0);
		EXPECT_EQ(retained.proved(Turn(first + 4)).credits, 0);
		/* An older one than what went back is not proved by what came before it. */
		retained.add(Turn(first), {1, 0});
		EXPECT_EQ(retained.proved(Turn(first + 1)).credits, 1);
	}
}

/* A group in order, of either kind; messages by themselves. */
RPCORDMA_TEST(protocol_groups, whole)
{
	Collector collector;

	for (const Option option : {Option::xmtreq, Option::xmtresp})
		for (u32 count = 2; count < 6; count++) {
			TEST_NOTE("count", count);
			EXPECT_EQ(collector.take(lead(7, count, option)).what, What::part);
			for (u32 i = 1; i < count; i++) {
				EXPECT_TRUE(collector.open());
				const auto step = collector.take(part(7, i, option));

				EXPECT_EQ(step.what, i + 1 == count ? What::last : What::part);
				EXPECT_EQ(step.fault, Fault::none);
				EXPECT_FALSE(step.dropped);
			}
			EXPECT_FALSE(collector.open());
		}
	for (const auto &t : {lead(1, 1), lead(1, 0), other(Kind::msg), other(Kind::error),
			      other(Kind::optional, Option::repterr)}) {
		EXPECT_EQ(collector.take(t).what, What::message);
		EXPECT_FALSE(collector.open());
	}
	/* Without a group. */
	const auto step = collector.take(part(1, 1));
	EXPECT_EQ(step.what, What::nothing);
	EXPECT_EQ(step.fault, Fault::alone);
	EXPECT_FALSE(step.dropped);
}

/* What breaks a group off gets one fault, the rest of it none; and what is no part of it is handled. */
RPCORDMA_TEST(protocol_groups, broken_off)
{
	const struct {
		Transmission t;
		Fault fault;
		bool skips;
	} cases[] = {
		{.t = part(8, 2), .fault = Fault::xid, .skips = true},
		{.t = part(7, 1), .fault = Fault::sequence, .skips = true},
		{.t = part(7, 3), .fault = Fault::sequence, .skips = true},
		{.t = part(7, 2, Option::xmtresp), .fault = Fault::option, .skips = true},
		{.t = other(Kind::msg), .fault = Fault::header, .skips = false},
		{.t = other(Kind::updprop), .fault = Fault::header, .skips = false},
		{.t = lead(9, 1), .fault = Fault::option, .skips = false},
	};

	for (const auto &c : cases) {
		Collector collector;

		TEST_NOTE("case", u32(&c - cases));
		(void)collector.take(lead(7, 4));
		(void)collector.take(part(7, 1));
		const auto step = collector.take(c.t);
		EXPECT_EQ(step.fault, c.fault);
		EXPECT_TRUE(step.dropped);
		EXPECT_EQ(step.what, c.skips ? What::nothing : What::message);
		EXPECT_FALSE(collector.open());
		const auto rest = collector.take(part(7, 3));
		EXPECT_EQ(rest.what, What::nothing);
		EXPECT_EQ(rest.fault, c.skips ? Fault::none : Fault::alone);
		EXPECT_EQ(collector.take(other(Kind::msg)).what, What::message);
		EXPECT_EQ(collector.take(part(7, 3)).fault, Fault::alone);
	}
	/* Another group begins within one. */
	Collector collector;
	(void)collector.take(lead(7, 3));
	const auto step = collector.take(lead(8, 2));
	EXPECT_EQ(step.what, What::part);
	EXPECT_EQ(step.fault, Fault::option);
	EXPECT_TRUE(step.dropped);
	EXPECT_EQ(collector.take(part(8, 1)).what, What::last);
}

/* A lead that is refused: the rest gets no answer of its own. A message by itself has no rest. */
RPCORDMA_TEST(protocol_groups, refused)
{
	Collector collector;

	(void)collector.take(lead(7, ~0u));
	collector.refuse();
	EXPECT_FALSE(collector.open());
	for (u32 i = 1; i < 4; i++) {
		const auto step = collector.take(part(7, i));

		EXPECT_EQ(step.what, What::nothing);
		EXPECT_EQ(step.fault, Fault::none);
	}
	EXPECT_EQ(collector.take(part(8, 1)).fault, Fault::alone);
	(void)collector.take(lead(7, 1));
	collector.refuse();
	EXPECT_EQ(collector.take(part(7, 1)).fault, Fault::alone);
}

RPCORDMA_SUITE(protocol_groups, credits, reservation, retained, whole, broken_off, refused);

} // namespace rpcordma
