// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/protocol/groups: how messages of several transmissions are found again, and what an ERROR for one leaves. No port is needed.
 * `make states` goes through all orders of what may come.
 */
#include "kunit/testing.hh"
#include "module/protocol/groups.hh"

namespace rpcordma {
namespace {

using protocol::Collector;
using protocol::Transmission;
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

/* Of each ERROR, and each kind of call, what it leaves. */
RPCORDMA_TEST(protocol_groups, errors)
{
	using protocol::AfterError;
	using protocol::after_error;
	using xdr::ErrorCode;

	for (const ErrorCode code :
	     {ErrorCode::version, ErrorCode::chunk, ErrorCode::procedure, ErrorCode::reply_resource,
	      ErrorCode::option, ErrorCode::system})
		for (u32 kind = 0; kind < 8; kind++) {
			const bool item = kind & 1;
			const u32 credits = kind & 2 ? 3 : 0, receives = kind & 4 ? 4 : 0;
			const AfterError after = after_error(code, item, credits, receives);

			TEST_NOTE("code", u32(code));
			TEST_NOTE("kind", kind);
			/* No XMTREQ. */
			if (kind == 0)
				EXPECT_EQ(after, AfterError::fail);
			/* Nothing is known of the call's other transmissions. */
			if (credits && code != ErrorCode::reply_resource)
				EXPECT_NE(after, AfterError::fail);
			if (code == ErrorCode::option)
				EXPECT_EQ(after == AfterError::resend, kind != 0);
			else if (code == ErrorCode::chunk || code == ErrorCode::system)
				EXPECT_EQ(after == AfterError::resend, item);
			else
				EXPECT_NE(after, AfterError::resend);
			if (!credits)
				EXPECT_NE(after, AfterError::close);
		}
	EXPECT_EQ(after_error(ErrorCode::reply_resource, true, 3, 4), AfterError::fail);
	EXPECT_EQ(after_error(ErrorCode::system, false, 1, 0), AfterError::close);
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

/* An xid is one of its direction; what does not say a direction is of either, as far as anybody knows. */
RPCORDMA_TEST(protocol_groups, directions)
{
	using xdr::Direction;
	const Direction directions[] = {Direction::call, Direction::reply, Direction::unknown};

	for (const Direction begun : directions)
		for (const Direction next : directions) {
			const bool same = begun == next || begun == Direction::unknown ||
					  next == Direction::unknown;
			Transmission first = lead(7, 3), second = part(7, 1);

			TEST_NOTE("begun", static_cast<u32>(begun));
			TEST_NOTE("next", static_cast<u32>(next));
			first.direction = begun;
			second.direction = next;
			Collector collector;
			/* Of another one before it nothing is left. */
			(void)collector.take(other(Kind::msg));
			(void)collector.take(first);
			EXPECT_TRUE(collector.amid());
			const auto step = collector.take(second);
			EXPECT_EQ(step.fault, same ? Fault::none : Fault::xid);
			EXPECT_EQ(step.what, same ? What::part : What::nothing);
			EXPECT_EQ(step.dropped, !same);
			EXPECT_EQ(collector.next(), same ? 2 : 1);
			EXPECT_EQ(collector.xid(), Xid(7));
			EXPECT_EQ(collector.lead(), Option::xmtreq);
			EXPECT_TRUE(collector.amid());
			EXPECT_EQ(collector.open(), same);
			/* And as to what is passed over. */
			Collector refused;
			(void)refused.take(first);
			refused.refuse();
			EXPECT_TRUE(refused.amid());
			EXPECT_EQ(refused.take(second).fault, same ? Fault::none : Fault::alone);
			EXPECT_EQ(refused.amid(), same);
		}
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

RPCORDMA_SUITE(protocol_groups, errors, whole, broken_off, directions, refused);

} // namespace rpcordma
