// SPDX-License-Identifier: GPL-2.0-only
/* module/rdma/assembly: Receives of one message, in and out of order. No port is needed. */
#include "kunit/testing.hh"
#include "module/rdma/assembly.hh"

namespace rpcordma {
namespace {

/* A Receive of a kernel's size is not for its stack. */
Receive *part(u32 xid, u32 transmission, u32 transmissions,
	      xdr::Direction direction = xdr::Direction::call)
{
	/* It owns nothing, so that its memory may go as it is when the case ends. */
	Receive *receive = new (test_alloc(sizeof(Receive)).data()) Receive;

	receive->message.xid = Xid(xid);
	receive->message.direction = direction;
	receive->message.transmission = static_cast<u16>(transmission);
	receive->message.transmissions = static_cast<u16>(transmissions);
	return receive;
}

u32 length_of(const Receive *chain)
{
	u32 n = 0;

	for (; chain; chain = chain->next)
		n++;
	return n;
}

} // namespace

/* A message of one transmission is whole when it comes, whatever came before. */
RPCORDMA_TEST(rdma_assembly, single)
{
	Assembly assembly;

	for (u32 xid = 1; xid < 4; xid++) {
		Receive *receive = part(xid, 0, 1);
		const auto outcome = assembly.add(receive);

		EXPECT_EQ(outcome.whole, receive);
		EXPECT_EQ(outcome.whole->next, nullptr);
		EXPECT_EQ(outcome.useless, nullptr);
	}
	EXPECT_EQ(assembly.abandon(), nullptr);
}

RPCORDMA_TEST(rdma_assembly, several)
{
	Assembly assembly;

	for (u32 n = 2; n < 6; n++) {
		Receive *first = part(n, 0, n);

		TEST_NOTE("transmissions", n);
		EXPECT_EQ(assembly.add(first).whole, nullptr);
		for (u32 i = 1; i < n; i++) {
			const auto outcome = assembly.add(part(n, i, n));

			EXPECT_EQ(outcome.useless, nullptr);
			EXPECT_EQ(outcome.whole, i + 1 == n ? first : nullptr);
		}
		u32 i = 0;
		for (const Receive *at = first; at; at = at->next)
			EXPECT_EQ(at->message.transmission, i++);
		EXPECT_EQ(i, n);
	}
}

/* What ends a message that was begun: all of it comes back, and what ended it is handled, or comes back as well. */
RPCORDMA_TEST(rdma_assembly, broken_off)
{
	const struct {
		u32 xid, transmission, transmissions;
		xdr::Direction direction;
		bool whole;  /* it is a message of its own */
		u32 useless; /* Receives that come back */
	} cases[] = {
		/* another message */
		{.xid = 2,
		 .transmission = 0,
		 .transmissions = 1,
		 .direction = xdr::Direction::call,
		 .whole = true,
		 .useless = 2},
		/* another message's continuation; one that was sent twice, or left out; of the other direction */
		{.xid = 2,
		 .transmission = 2,
		 .transmissions = 4,
		 .direction = xdr::Direction::call,
		 .whole = false,
		 .useless = 3},
		{.xid = 1,
		 .transmission = 1,
		 .transmissions = 4,
		 .direction = xdr::Direction::call,
		 .whole = false,
		 .useless = 3},
		{.xid = 1,
		 .transmission = 3,
		 .transmissions = 4,
		 .direction = xdr::Direction::call,
		 .whole = false,
		 .useless = 3},
		{.xid = 1,
		 .transmission = 2,
		 .transmissions = 4,
		 .direction = xdr::Direction::reply,
		 .whole = false,
		 .useless = 3},
	};

	for (const auto &c : cases) {
		Assembly assembly;
		Receive *last = part(c.xid, c.transmission, c.transmissions, c.direction);

		TEST_NOTE("case", u32(&c - cases));
		(void)assembly.add(part(1, 0, 4));
		(void)assembly.add(part(1, 1, 4));
		const auto outcome = assembly.add(last);
		EXPECT_EQ(outcome.whole, c.whole ? last : nullptr);
		EXPECT_EQ(length_of(outcome.useless), c.useless);
		EXPECT_EQ(assembly.abandon(), nullptr);
		/* The next one is as if nothing had been. */
		EXPECT_NE(assembly.add(part(9, 0, 1)).whole, nullptr);
	}
	/* A continuation of nothing. */
	Assembly assembly;
	const auto outcome = assembly.add(part(1, 1, 2));
	EXPECT_EQ(outcome.whole, nullptr);
	EXPECT_EQ(length_of(outcome.useless), 1);
	/* The connection ends amid a message. */
	(void)assembly.add(part(1, 0, 2));
	EXPECT_EQ(length_of(assembly.abandon()), 1);
}

RPCORDMA_SUITE(rdma_assembly, single, several, broken_off);

} // namespace rpcordma
