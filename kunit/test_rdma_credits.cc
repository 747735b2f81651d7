// SPDX-License-Identifier: GPL-2.0-only
/* What a requester makes of granted credits, and what a responder grants: module/rdma/credits.hh. */
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
		{.limit = 1, .grant = 1, .accepted = 1},
		{.limit = 1, .grant = 2, .accepted = 1},
		{.limit = 1, .grant = ~0u, .accepted = 1},
		{.limit = 32, .grant = 1, .accepted = 1},
		{.limit = 32, .grant = 31, .accepted = 31},
		{.limit = 32, .grant = 32, .accepted = 32},
		{.limit = 32, .grant = 33, .accepted = 32},
		{.limit = 32, .grant = 0x80000000, .accepted = 32},
		{.limit = 32, .grant = ~0u, .accepted = 32},
		{.limit = ~0u, .grant = ~0u, .accepted = ~0u},
		{.limit = ~0u, .grant = 5, .accepted = 5},
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

/* --- the responder's --- */

namespace {

constexpr u32 kInitial = ResponderCredits::kInitial;
constexpr u32 kWindow = ResponderCredits::kWindowMs;
constexpr u32 kPerCredit = ResponderCredits::kCallsPerCredit;
constexpr u64 kNow = 5000000;

/** A clock that says @now. */
auto at(u64 now)
{
	return [now] { return now; };
}

/** @n calls at once that ask for plenty, of which none is in service by the time of the next. */
void use(ResponderCredits &credits, u32 n, u64 now = kNow)
{
	while (n--)
		credits.call(Credits(1000), 0, at(now));
}

} // namespace

RPCORDMA_TEST(rdma_credits, responder_initial)
{
	for (u32 limit : {1u, 2u, kInitial, kInitial + 1, 64u, ~0u}) {
		TEST_NOTE("limit", limit);
		const ResponderCredits credits(limit);

		EXPECT_EQ(credits.granted(), limit < kInitial ? limit : kInitial);
		/* Nobody has used it. */
		EXPECT_EQ(credits.wanted(), credits.granted());
	}
}

/* Many calls in a short time deserve twice the grant, up to the limit; not one call before. */
RPCORDMA_TEST(rdma_credits, responder_grows_with_use)
{
	ResponderCredits credits(20);

	for (u32 granted : {4u, 8u, 16u, 20u}) {
		TEST_NOTE("granted", granted);
		ASSERT_EQ(credits.granted(), granted);
		use(credits, granted * kPerCredit - 1);
		EXPECT_EQ(credits.wanted(), granted);
		use(credits, 1);
		EXPECT_EQ(credits.wanted(), granted == 16 || granted == 20 ? 20 : 2 * granted);
		/* Wanting is not granting. */
		EXPECT_EQ(credits.granted(), granted);
		credits.grant(credits.wanted());
		/* Use counts from the increase on. */
		EXPECT_EQ(credits.wanted(), credits.granted());
	}
}

/* As many calls in a long time are no use; the window starts again with the first call behind it. */
RPCORDMA_TEST(rdma_credits, responder_window)
{
	for (const bool slow : {false, true}) {
		TEST_NOTE("slow", slow);
		ResponderCredits credits(64);
		const u32 calls = kInitial * kPerCredit;

		use(credits, 1);
		use(credits, calls - 1, kNow + kWindow + slow);
		EXPECT_EQ(credits.wanted(), slow ? kInitial : 2 * kInitial);
		use(credits, 1, kNow + kWindow + slow);
		EXPECT_EQ(credits.wanted(), 2 * kInitial);
	}
}

/* One moment in which all credits are in use is enough, even for the slowest client. */
RPCORDMA_TEST(rdma_credits, responder_busy)
{
	for (u32 in_service = 1; in_service <= kInitial + 1; in_service++) {
		TEST_NOTE("in service", in_service);
		ResponderCredits credits(64);

		credits.call(Credits(64), in_service, at(kNow));
		EXPECT_EQ(credits.wanted(), in_service >= kInitial ? 2 * kInitial : kInitial);
		/* It was so, though it is no more. */
		credits.call(Credits(64), 1, at(kNow + 1));
		EXPECT_EQ(credits.wanted(), in_service >= kInitial ? 2 * kInitial : kInitial);
		/* Without Receives for it, it stays, until there is as much use again. */
		credits.grant(credits.granted());
		EXPECT_EQ(credits.granted(), kInitial);
		EXPECT_EQ(credits.wanted(), kInitial);
	}
}

/* The client gets no more than it asks for, and less at once; but it always gets one. */
RPCORDMA_TEST(rdma_credits, responder_requested)
{
	ResponderCredits credits(64);

	/* It grows no further than is asked for. */
	credits.call(Credits(6), kInitial, at(kNow));
	EXPECT_EQ(credits.granted(), kInitial);
	EXPECT_EQ(credits.wanted(), 6);
	credits.grant(6);
	credits.call(Credits(6), 6, at(kNow));
	EXPECT_EQ(credits.wanted(), 6);

	/* Less, down to nothing. */
	for (u32 requested : {5u, 2u, 1u, 0u}) {
		TEST_NOTE("requested", requested);
		credits.call(Credits(requested), 0, at(kNow));
		EXPECT_EQ(credits.granted(), requested ? requested : 1);
		EXPECT_EQ(credits.wanted(), credits.granted());
	}
	/* And more again, from there. */
	credits.call(Credits(64), 1, at(kNow));
	EXPECT_EQ(credits.granted(), 1);
	EXPECT_EQ(credits.wanted(), 2);
	/* In use are all that it has now, not all that it had. */
	ResponderCredits shrunk(64);
	shrunk.call(Credits(2), 2, at(kNow));
	EXPECT_EQ(shrunk.granted(), 2);
	shrunk.call(Credits(64), 1, at(kNow));
	EXPECT_EQ(shrunk.wanted(), 4);
}

RPCORDMA_TEST(rdma_credits, responder_grant)
{
	ResponderCredits credits(16);

	for (u32 n = 0; n < 40; n++) {
		TEST_NOTE("credits", n);
		credits.grant(n);
		EXPECT_EQ(credits.granted(), n == 0 ? 1 : n > 16 ? 16 : n);
	}
	/* At the limit there is nothing to want, however busy, and nobody asks what time it is. */
	u32 asked = 0;
	credits.call(Credits(64), 64, [&] {
		asked++;
		return kNow;
	});
	EXPECT_EQ(credits.wanted(), 16);
	EXPECT_EQ(asked, 0);
}

RPCORDMA_SUITE(rdma_credits, initial, accept, zero_grant, put_in_force, responder_initial,
	       responder_grows_with_use, responder_window, responder_busy, responder_requested,
	       responder_grant);

} // namespace rpcordma
