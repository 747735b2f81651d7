// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sinks that the service has where they are: lend_sink() in module/server/deliver.cc, put_sink() in transfer.cc. Which are
 * lent and which are exchanged, and what comes back.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"

namespace rpcordma {

namespace {

struct Lending : Connected {
	Lending()
	{
		set_replied(true);
	}
	/** The thread has a WRITE of @size bytes, which completions pulled. */
	void have_write(u32 xid, u32 size)
	{
		CallMaker call(xid);

		make_write(call, size, 33);
		ASSERT_TRUE(send(call));
		work();
		ASSERT_EQ(receive(), int(60 + size + xdr_pad(size)));
		expect_write(*this, size, 33);
	}
	[[nodiscard]] const Transfer *lent() const
	{
		return rqst->call->sink;
	}
};

} // namespace

/* No page moves, neither to the thread nor from it, and the next call has the same ones. */
RPCORDMA_TEST(server_lend, stays)
{
	for (const u32 size : {1u, 100u, 8 * kPage - 20, 9 * kPage, 20 * kPage - 20, 40 * kPage}) {
		TEST_NOTE("size", size);
		Lending c;
		page *first = nullptr;

		for (u32 xid = 1; xid < 4; xid++) {
			c.fill_thread();
			page *const own = c.rqst->pages[0];

			c.have_write(xid, size);
			ASSERT_NE(c.lent(), nullptr);
			EXPECT_EQ(c.rqst->arg.pages, c.lent()->pages);
			EXPECT_EQ(c.rqst->arg.pages_used, 0);
			EXPECT_EQ(c.rqst->pages[0], own);
			EXPECT_EQ(c.dma.bulk_maps, 0);
			if (first)
				EXPECT_EQ(c.rqst->arg.pages[0], first);
			first = c.rqst->arg.pages[0];
			EXPECT_EQ(Connected::eager_bytes(), pinned(size));
			const Transfer *const sink = c.lent();
			const u32 known = sink->runs.known;
			if (xid == 2) {
				/* The service drops it. */
				c.release();
			} else {
				/* The thread is behind its Send. */
				EXPECT_EQ(c.send_reply(20), 0);
				c.work();
				EXPECT_EQ(c.in_service(), 1);
				EXPECT_EQ(Connected::eager_bytes(), pinned(size));
				c.release();
			}
			EXPECT_EQ(Connected::eager_bytes(), 0);
			EXPECT_EQ(c.in_service(), 0);
			/* Nor is anything forgotten of how they lie. */
			EXPECT_EQ(sink->runs.known, known);
			EXPECT_EQ(known != 0, size <= RPCORDMA_RUNS * kPage);
		}
	}
}

/* What is behind the item has to have a page of the sink; and a sink that is too large is needed by others. */
RPCORDMA_TEST(server_lend, sizes)
{
	struct {
		u32 size;
		bool lent;
	} const cases[] = {
		{8 * kPage - 20, true}, {8 * kPage - 19, false}, {8 * kPage, false},
		{9 * kPage - 20, true}, {20 * kPage - 20, true}, {20 * kPage - 18, false},
		{20 * kPage, false},	{20 * kPage + 1, true},	 {60 * kPage, true},
	};
	for (const auto &t : cases) {
		TEST_NOTE("size", t.size);
		Lending c;

		c.have_write(1, t.size);
		EXPECT_EQ(c.lent() != nullptr, t.lent);
		EXPECT_EQ(c.rqst->arg.pages != nullptr, t.lent);
		EXPECT_EQ(c.rqst->arg.pages_used,
			  t.lent ? 0 : div_round_up(t.size + xdr_pad(t.size) + 20, u32(kPage)));
		c.release();
	}
	/* There is none of the size: a larger one goes on at once, but where the smaller one could not be lent. */
	constexpr u32 kSmall = Transfer::pages_of(1) * kPage;
	for (const u32 size : {100u, kSmall - 24, kSmall - 20, kSmall - 19, kSmall}) {
		TEST_NOTE("size", size);
		Lending c;
		Transfer *const small = server_pool.take_sink(1, 1);

		ASSERT_NE(small, nullptr);
		EXPECT_EQ(small->size, 1);
		c.have_write(1, size);
		EXPECT_EQ(c.lent() != nullptr, size > kSmall - 20);
		EXPECT_EQ(Connected::eager_bytes(), size > kSmall - 20 ? pinned(size) : 0);
		c.release();
		server_pool.give(small);
	}
}

/* When half of the eager budget is taken, a sink comes back as soon as a thread has its call. */
RPCORDMA_TEST(server_lend, half)
{
	constexpr u32 kOne = pinned(1000);

	for (const bool over : {false, true}) {
		TEST_NOTE("over", over);
		Lending c;

		rpcordma_server_tunables.eager_read_bytes = 2 * kOne - over;
		c.have_write(1, 1000);
		EXPECT_EQ(c.lent() == nullptr, over);
		EXPECT_EQ(Connected::eager_bytes(), over ? 0 : kOne);
		c.release();
		EXPECT_EQ(Connected::eager_bytes(), 0);
	}
}

/* A thread of another node gives pages of its own, and the sink goes to that node. */
RPCORDMA_TEST(server_lend, other_node)
{
	for (const u32 nodes : {1u, 2u}) {
		TEST_NOTE("nodes", nodes);
		Lending c;
		CallMaker call(1);

		c.memory.nodes = nodes;
		make_write(call, 1000, 33);
		ASSERT_TRUE(c.send(call));
		c.work();
		c.memory.node = 1;
		ASSERT_EQ(c.receive(), 1060);
		expect_write(c, 1000, 33);
		EXPECT_EQ(c.lent() == nullptr, nodes > 1);
		c.release();
		c.memory.node = 0;
		c.memory.nodes = 1;
	}
}

/* A page that somebody keeps is written no more: another one comes in its place. */
RPCORDMA_TEST(server_lend, kept_page)
{
	constexpr u32 kSize = 5 * kPage - 60;

	for (u32 which = 0; which < 5; which++) {
		TEST_NOTE("page", which);
		Lending c;

		c.have_write(1, kSize);
		ASSERT_NE(c.lent(), nullptr);
		page *const kept = c.rqst->arg.pages[which];
		kept->references++;
		c.release();
		EXPECT_EQ(kept->references, 1);
		const u8 byte = kept->data[0];
		rpcordma_core_server_refill();
		for (u32 xid = 2; xid < 6; xid++) {
			CallMaker call(xid);

			make_write(call, kSize, 333);
			ASSERT_TRUE(c.send(call));
			c.work();
			ASSERT_EQ(c.receive(), int(60 + kSize + xdr_pad(kSize)));
			expect_write(c, kSize, 333);
			for (u32 i = 0; i < 5; i++)
				EXPECT_NE(c.call_pages()[i], kept);
			c.release();
		}
		EXPECT_EQ(kept->data[0], byte);
		page *left = kept;
		rpcordma_pages_release(&left, 1);
	}
}

/* As many threads have each their own, and what they reply with does not touch them. */
RPCORDMA_TEST(server_lend, with_write_chunk)
{
	Lending c;
	CallMaker call(1);

	call.read(40, 3 * kPage, 33);
	call.write(5 * kPage, kWrite);
	call.finish(60);
	ASSERT_TRUE(c.send(call));
	c.work();
	ASSERT_EQ(c.receive(), int(60 + 3 * kPage));
	c.rqst->ddp_allowed = true;
	ASSERT_NE(c.lent(), nullptr);
	(void)rpcordma_core_server_result_payload(c.rqst->call, 60, 5 * kPage);
	ASSERT_EQ(c.send_reply_pages(60, 5 * kPage, 8), 0);
	EXPECT_NE(c.rqst->call->transfer, nullptr);
	expect_write(c, 3 * kPage, 33);
	c.work();
	EXPECT_EQ(c.rqst->call->transfer, nullptr);
	EXPECT_NE(c.lent(), nullptr);
	expect_write(c, 3 * kPage, 33);
	c.release();
	EXPECT_EQ(c.in_service(), 0);
	expect_written(kWrite, 60, 5 * kPage);
}

RPCORDMA_SUITE(server_lend, stays, sizes, half, other_node, kept_page, with_write_chunk);

} // namespace rpcordma
