// SPDX-License-Identifier: GPL-2.0-only
/* The eager budget by itself, both sides of each of its limits: module/server/eager.hh. */
#include "kunit/test_rdma_port.hh"
#include "kunit/testing.hh"
#include "module/server/eager.hh"
#include "module/server/transfer.hh"

namespace rpcordma {
namespace {

/** A budget, of all; at its end it is as at its start. */
struct Total {
	PortFixture port;

	~Total()
	{
		EXPECT_EQ(eager_total.bytes(), 0);
		EXPECT_EQ(eager_total.users(), 0);
	}
	/** Connections that have some, and how much. */
	void expect(u32 users, u64 bytes) const
	{
		EXPECT_EQ(eager_total.users(), users);
		EXPECT_EQ(eager_total.bytes(), bytes);
	}
};

} // namespace

/* All of the cap, and not a byte more; what is refused leaves nothing behind. */
RPCORDMA_TEST(server_eager, cap)
{
	Total total;

	for (const bool joins : {false, true}) {
		TEST_NOTE("joins", joins);
		EXPECT_FALSE(eager_total.take(101, 100, joins));
		total.expect(0, 0);
		EXPECT_TRUE(eager_total.take(60, 100, joins));
		total.expect(joins, 60);
		EXPECT_FALSE(eager_total.take(41, 100, joins));
		total.expect(joins, 60);
		EXPECT_TRUE(eager_total.take(40, 100, false));
		total.expect(joins, 100);
		eager_total.give_back(40, false);
		eager_total.give_back(60, joins);
		total.expect(0, 0);
	}
}

/* One call of whoever has none; more of one that was replied to, within its share of the cap. */
RPCORDMA_TEST(server_eager, shares)
{
	Total total;
	EagerBudget one, other;

	EXPECT_FALSE(one.replied());
	EXPECT_TRUE(one.take(50, 100));
	EXPECT_FALSE(one.take(1, 100));
	one.note_reply();
	EXPECT_TRUE(one.replied());
	EXPECT_FALSE(one.take(51, 100));
	EXPECT_TRUE(one.take(50, 100));
	EXPECT_EQ(one.bytes(), 100);
	total.expect(1, 100);
	/* The other finds none. */
	EXPECT_FALSE(other.take(1, 100));
	EXPECT_EQ(other.bytes(), 0);
	one.give_back(50);
	total.expect(1, 50);
	/* It has half of the cap from now on. */
	EXPECT_TRUE(other.take(20, 100));
	total.expect(2, 70);
	other.note_reply();
	EXPECT_FALSE(other.take(31, 101));
	EXPECT_TRUE(other.take(30, 100));
	EXPECT_FALSE(one.take(1, 101));
	EXPECT_TRUE(one.take(1, 102));
	total.expect(2, 101);
	one.give_back(1);
	one.give_back(50);
	total.expect(1, 50);
	other.give_back(50);
	/* And is as good as new. */
	EXPECT_TRUE(other.take(100, 100));
	total.expect(1, 100);
	other.give_back(100);
}

/* One call's Reads, however many bytes they are; more only up to the limit. */
RPCORDMA_TEST(server_eager, reading)
{
	EagerBudget budget;

	for (u32 round = 0; round < 2; round++) {
		TEST_NOTE("round", round);
		EXPECT_TRUE(budget.begin_reading(101, 100));
		EXPECT_FALSE(budget.begin_reading(1, 100));
		budget.end_reading(101);
		EXPECT_TRUE(budget.begin_reading(60, 100));
		EXPECT_FALSE(budget.begin_reading(41, 100));
		EXPECT_TRUE(budget.begin_reading(40, 100));
		budget.end_reading(60);
		EXPECT_TRUE(budget.begin_reading(60, 100));
		EXPECT_FALSE(budget.begin_reading(1, 100));
		budget.end_reading(100);
	}
}

/* What the administrator says; else what the threads can have, or a part of the machine's memory if that is more. */
RPCORDMA_TEST(server_eager, cap_of_all)
{
	constexpr u32 kWhole = Transfer::kPages * kPage;
	PortFixture port;

	port.memory.size = 128000;
	EXPECT_EQ(eager_memory(), 1000);
	port.memory.size = 128000 - 1;
	EXPECT_EQ(eager_memory(), 999);
	port.svc.limits.threads = 0;
	EXPECT_EQ(eager_cap(nullptr, kPage, 5000), 0);
	for (const u32 threads : {1u, 8u})
		for (const u32 message : {u32(kPage), kWhole - kPage - 1, kWhole - kPage,
					  kWhole - kPage + 1, 2 * kWhole}) {
			TEST_NOTE("threads", threads);
			TEST_NOTE("message", message);
			const u64 of_threads =
				threads * u64(min(message + kPage, kWhole) + kTransferBytes);

			port.svc.limits.threads = threads;
			port.svc.limits.max_message = message;
			for (const u64 memory : {u64(0), of_threads - 1, of_threads})
				EXPECT_EQ(eager_cap(nullptr, kPage, memory), of_threads);
			EXPECT_EQ(eager_cap(nullptr, kPage, of_threads + 1), of_threads + 1);
		}
	rpcordma_server_tunables.eager_read_bytes = 77;
	EXPECT_EQ(eager_cap(nullptr, kPage, 5000), 77);
	rpcordma_server_tunables.eager_read_bytes = 0;
}

RPCORDMA_SUITE(server_eager, cap, shares, reading, cap_of_all);

} // namespace rpcordma
