// SPDX-License-Identifier: GPL-2.0-only
/* What a requester makes of granted credits: module/rdma/credits.hh. */
#include "kunit/testing.hh"
#include "module/rdma/credits.hh"

namespace rpcordma {

/* RFC 8166 3.3.3: one call until the first grant, however many are asked for. */
RPCORDMA_TEST(rdma_credits, initial)
{
	for (u32 limit : {1u, 2u, 128u, ~0u}) {
		TEST_NOTE("limit", limit);
		const RequesterCredits credits(limit);

		EXPECT_EQ(credits.in_force(), 1);
		EXPECT_EQ(credits.requested(), Credits(limit));
	}
}

RPCORDMA_TEST(rdma_credits, accept)
{
	const struct {
		u32 limit, grant, accepted;
	} grants[] = {
		{1, 1, 1},     {1, 2, 1},	{1, ~0u, 1},  {32, 1, 1},
		{32, 31, 31},  {32, 32, 32},	{32, 33, 32}, {32, 0x80000000, 32},
		{32, ~0u, 32}, {~0u, ~0u, ~0u}, {~0u, 5, 5},
	};

	for (const auto &g : grants) {
		TEST_NOTE("limit", g.limit);
		TEST_NOTE("grant", g.grant);
		RequesterCredits credits(g.limit);

		EXPECT_EQ(credits.accept(Credits(g.grant)), g.accepted);
		/* Not in force before there are Receives. */
		EXPECT_EQ(credits.in_force(), 1);
		credits.put_in_force(credits.accept(Credits(g.grant)));
		EXPECT_EQ(credits.in_force(), g.accepted);
		EXPECT_EQ(credits.requested(), Credits(g.limit));
	}
}

/* A grant of zero leaves what is in force, before the first grant and after others. */
RPCORDMA_TEST(rdma_credits, zero_grant)
{
	RequesterCredits credits(32);

	EXPECT_EQ(credits.accept(Credits(0)), 1);
	for (u32 n : {7u, 32u, 2u, 1u}) {
		TEST_NOTE("in force", n);
		credits.put_in_force(n);
		EXPECT_EQ(credits.accept(Credits(0)), n);
		credits.put_in_force(credits.accept(Credits(0)));
		EXPECT_EQ(credits.in_force(), n);
	}
}

/* A grant may shrink, down to one call, and grow again. */
RPCORDMA_TEST(rdma_credits, put_in_force)
{
	RequesterCredits credits(16);

	for (u32 n = 0; n < 40; n++) {
		TEST_NOTE("credits", n);
		credits.put_in_force(n);
		EXPECT_EQ(credits.in_force(), n == 0 ? 1 : n > 16 ? 16 : n);
	}
	credits.put_in_force(~0u);
	EXPECT_EQ(credits.in_force(), 16);
	credits.put_in_force(3);
	EXPECT_EQ(credits.in_force(), 3);
}

RPCORDMA_SUITE(rdma_credits, initial, accept, zero_grant, put_in_force);

} // namespace rpcordma
