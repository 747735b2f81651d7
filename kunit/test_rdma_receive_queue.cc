// SPDX-License-Identifier: GPL-2.0-only
/*
 * The receive queue over a port that keeps account (kunit/test_rdma_port.hh): what is posted when,
 * with how many doorbells, and what becomes of the memory. The invariant that all of it is for, R1:
 * with N messages provided for, and M of their buffers not given back, N - M messages find a Receive.
 */
#include "kunit/test_rdma_port.hh"
#include "kunit/test_rdma_random.hh"
#include "kunit/testing.hh"
#include "module/rdma/receive_queue.hh"

namespace rpcordma {
namespace {

constexpr u32 kBatch = ReceiveQueue::kBatch;
constexpr u32 kBufferSize = 1024;

/** A port where nothing may sleep. What is posted to the queue pair goes with it. */
struct QueueFixture : PortFixture {
	QueueFixture()
	{
		memory.may_sleep = false;
	}
	~QueueFixture()
	{
		verbs.posted = 0;
	}
};

/**
 * A queue that frees its buffers at the end of its scope, and then is as at the start: with none created,
 * provided or waiting.
 */
struct Queue : ReceiveQueue {
	ExactCopy before;

	explicit Queue(u32 capacity, u32 buffer_size = kBufferSize)
		: before(initialized(*this, capacity, buffer_size))
	{
	}
	~Queue()
	{
		destroy();
		EXPECT_BYTES(bytes_of<ReceiveQueue>(*this), before.bytes());
	}
	[[nodiscard]] static Bytes initialized(ReceiveQueue &queue, u32 capacity, u32 buffer_size)
	{
		queue.init(the_port->verbs.endpoint(), nullptr, buffer_size, capacity);
		return bytes_of(queue);
	}
};

} // namespace

RPCORDMA_TEST(rdma_receive_queue, provide)
{
	QueueFixture c;
	Queue queue(64);

	EXPECT_EQ(queue.provide(1), 1);
	EXPECT_EQ(c.verbs.posted, 1 + kBatch);
	EXPECT_EQ(c.verbs.doorbells, 1);
	/* A buffer and what describes it. */
	EXPECT_EQ(c.memory.allocations, 2 * (1 + kBatch));
	EXPECT_EQ(c.dma.mappings, 1 + kBatch);

	EXPECT_EQ(queue.provide(20), 20);
	EXPECT_EQ(c.verbs.posted, 20 + kBatch);
	EXPECT_EQ(c.verbs.doorbells, 2);

	/* Fewer or as many: nothing is posted, nothing is taken away. */
	for (u32 n : {20u, 19u, 1u, 0u}) {
		TEST_NOTE("messages", n);
		EXPECT_EQ(queue.provide(n), 20);
		EXPECT_EQ(c.verbs.posted, 20 + kBatch);
		EXPECT_EQ(c.verbs.doorbells, 2);
	}
}

RPCORDMA_TEST(rdma_receive_queue, capacity)
{
	QueueFixture c;
	Queue queue(20 + kBatch);

	EXPECT_EQ(queue.provide(19), 19);
	EXPECT_EQ(queue.provide(21), 20);
	EXPECT_EQ(c.verbs.posted, 20 + kBatch);
	EXPECT_EQ(queue.provide(1000), 20);
	EXPECT_EQ(c.verbs.posted, 20 + kBatch);
	EXPECT_EQ(c.verbs.doorbells, 2);
}

/* A queue that holds no more than a batch promises nothing, whatever is posted. */
RPCORDMA_TEST(rdma_receive_queue, tiny_capacity)
{
	for (u32 capacity = 1; capacity <= kBatch + 1; capacity++) {
		TEST_NOTE("capacity", capacity);
		QueueFixture c;
		Queue queue(capacity);

		EXPECT_EQ(queue.provide(5), capacity > kBatch ? capacity - kBatch : 0);
		EXPECT_EQ(c.verbs.posted, capacity);
	}
}

/* Each Receive is whole: its own buffer of the announced size, the way back from its completion. */
RPCORDMA_TEST(rdma_receive_queue, buffers)
{
	for (u32 size : {1024u, 4096u, 1000u}) {
		TEST_NOTE("size", size);
		QueueFixture c;
		Queue queue(64, size);
		const u8 *seen[3 + kBatch];
		u32 count = 0;

		ASSERT_EQ(queue.provide(3), 3);
		while (c.verbs.posted) {
			Receive *receive = c.verbs.deliver(60 + count);

			ASSERT_NE(receive, nullptr);
			ASSERT_LT(count, 3 + kBatch);
			EXPECT_EQ(receive->sge.length, size);
			EXPECT_EQ(receive->wr.sg_list, &receive->sge);
			EXPECT_EQ(receive->wr.cqe, &receive->cqe.cqe);
			rpcordma_cqe expected;
			rpcordma_cqe_init(&expected, RPCORDMA_CQE_RECEIVE);
			EXPECT_EQ(receive->cqe.cqe.done, expected.done);
			EXPECT_EQ(receive->bytes().size(), 60 + count);
			EXPECT_EQ(receive->bytes().data(), receive->buffer.data());
			/* What the device has mapped is this buffer, to its end. */
			EXPECT_NE(receive->buffer.data()[size - 1], 0x5a);
			rpcordma_dma_sync_for_cpu(c.verbs.endpoint(), &receive->sge, size);
			EXPECT_EQ(receive->buffer.data()[size - 1], 0x5a);
			for (u32 i = 0; i < count; i++)
				EXPECT_NE(seen[i], receive->buffer.data());
			seen[count++] = receive->buffer.data();
		}
		EXPECT_EQ(count, 3 + kBatch);
	}
}

/*
 * Memory runs short at every place there is: what could be had is posted, the promise is for no more,
 * nothing is lost, and the rest is made up for when there is memory again.
 */
RPCORDMA_TEST(rdma_receive_queue, memory_runs_short)
{
	constexpr u32 all = 4 + kBatch;

	for (bool at_mapping : {false, true}) {
		for (u32 n = 0; n <= all * (at_mapping ? 1 : 2); n++) {
			TEST_NOTE("mapping", at_mapping);
			TEST_NOTE("successes", n);
			QueueFixture c;
			Queue queue(64);
			const u32 made = at_mapping ? n : n / 2;
			const u32 promised = made > kBatch ? made - kBatch : 0;

			(at_mapping ? c.dma.mappings_left : c.memory.allocations_left) = n;
			EXPECT_EQ(queue.provide(4), promised);
			EXPECT_EQ(c.verbs.posted, made);
			EXPECT_EQ(c.dma.mappings, made);
			EXPECT_EQ(c.memory.allocations, 2 * made);
			EXPECT_EQ(c.verbs.doorbells, made ? 1 : 0);

			c.dma.mappings_left = c.memory.allocations_left = kNoLimit;
			EXPECT_EQ(queue.provide(4), 4);
			EXPECT_EQ(c.verbs.posted, all);
		}
	}
}

/* One allocation fails, and the next one would not: what it was for is given back, and tried again. */
RPCORDMA_TEST(rdma_receive_queue, one_allocation_fails)
{
	constexpr u32 all = 4 + kBatch;

	for (u32 n = 0; n < 2 * all; n++) {
		TEST_NOTE("the allocation that fails", n);
		QueueFixture c;
		Queue queue(64);
		const u32 made = n / 2;

		c.memory.allocation_refused_at = n;
		EXPECT_EQ(queue.provide(4), made > kBatch ? made - kBatch : 0);
		EXPECT_EQ(c.verbs.posted, made);
		EXPECT_EQ(c.memory.allocations, 2 * made);
		c.memory.allocation_refused_at = kNoLimit;
		EXPECT_EQ(queue.provide(4), 4);
		EXPECT_EQ(c.verbs.posted, all);
		EXPECT_EQ(c.log.take(trace::Failure::receive_alloc_failed), 1);
	}
}

/* A chain that was not posted, or not in full, is not counted on; its buffers are freed all the same. */
RPCORDMA_TEST(rdma_receive_queue, post_fails)
{
	for (u32 n : {0u, 1u, 9u}) {
		TEST_NOTE("posted", n);
		QueueFixture c;
		Queue queue(64);

		ASSERT_EQ(queue.provide(3), 3);
		c.verbs.receives_left = n;
		EXPECT_EQ(queue.provide(13), 3);
		EXPECT_EQ(c.verbs.posted, 3 + kBatch + n);
		EXPECT_EQ(c.dma.mappings, 13 + kBatch);
		/* Who has refused some is asked for no more: each time others would be made, and freed with the connection. */
		c.verbs.receives_left = kNoLimit;
		for (u32 messages = 13; messages < 20; messages++)
			EXPECT_EQ(queue.provide(messages), 3);
		EXPECT_EQ(c.verbs.posted, 3 + kBatch + n);
		EXPECT_EQ(c.dma.mappings, 13 + kBatch);
	}

	QueueFixture c;
	Queue queue(64);
	rpcordma_trace_enabled = RPCORDMA_TRACE_FAILURE;
	c.verbs.receives_left = 0;
	EXPECT_EQ(queue.provide(3), 0);
	EXPECT_EQ(c.log.take(trace::Failure::receive_post_failed), 1);
	EXPECT_EQ(c.log.traced_posts, 0);
}

RPCORDMA_TEST(rdma_receive_queue, recycle)
{
	QueueFixture c;
	Queue queue(64);
	Receive *taken[3 * kBatch];

	ASSERT_EQ(queue.provide(2 * kBatch), 2 * kBatch);
	ASSERT_EQ(c.verbs.posted, 3 * kBatch);
	for (Receive *&receive : taken) {
		receive = c.verbs.deliver(28);
		ASSERT_NE(receive, nullptr);
	}
	rpcordma_trace_enabled = RPCORDMA_TRACE_POST;
	c.log.traced_posts = c.log.traced_receives = 0;
	for (u32 n = 1; n <= 3 * kBatch; n++) {
		TEST_NOTE("recycled", n);
		EXPECT_TRUE(queue.recycle(taken[n - 1]));
		EXPECT_EQ(c.verbs.doorbells, 1 + n / kBatch);
		EXPECT_EQ(c.verbs.posted, n / kBatch * kBatch);
	}
	EXPECT_EQ(c.log.traced_posts, 3);
	EXPECT_EQ(c.log.traced_receives, 0);
	EXPECT_EQ(c.log.take(trace::Failure::receive_post_failed), 0);
	/* All of them are good for another message. */
	for (u32 n = 0; n < 3 * kBatch; n++)
		ASSERT_NE(c.verbs.deliver(28), nullptr);
	EXPECT_EQ(c.verbs.deliver(28), nullptr);
}

/* Of a batch that cannot be posted no buffer is lost to destroy(), and the next batch is a fresh one. */
RPCORDMA_TEST(rdma_receive_queue, recycle_fails)
{
	QueueFixture c;
	Queue queue(64);
	Receive *taken[2 * kBatch];

	ASSERT_EQ(queue.provide(kBatch), kBatch);
	for (Receive *&receive : taken) {
		receive = c.verbs.deliver(28);
		ASSERT_NE(receive, nullptr);
	}
	c.verbs.receives_left = 0;
	for (u32 i = 0; i < kBatch; i++)
		EXPECT_EQ(queue.recycle(taken[i]), i + 1 < kBatch);
	EXPECT_EQ(c.verbs.doorbells, 2);
	EXPECT_EQ(c.verbs.posted, 0);
	c.verbs.receives_left = kNoLimit;
	for (u32 i = kBatch; i < 2 * kBatch; i++)
		EXPECT_TRUE(queue.recycle(taken[i]));
	EXPECT_EQ(c.verbs.doorbells, 3);
	EXPECT_EQ(c.verbs.posted, kBatch);
	EXPECT_EQ(c.log.take(trace::Failure::receive_post_failed), 1);
}

/* A held buffer does not wait for others, and takes none along that wait. */
RPCORDMA_TEST(rdma_receive_queue, repost)
{
	QueueFixture c;
	Queue queue(64);

	ASSERT_EQ(queue.provide(2), 2);
	Receive *held = c.verbs.deliver(28), *handled = c.verbs.deliver(28);
	Receive *another = c.verbs.deliver(28);

	EXPECT_TRUE(queue.recycle(handled));
	EXPECT_TRUE(queue.recycle(another));
	/* It may have waited in a chain before. */
	held->wr.next = &handled->wr;
	EXPECT_TRUE(queue.repost(held));
	EXPECT_EQ(c.verbs.doorbells, 2);
	EXPECT_EQ(c.verbs.posted, 2 + kBatch - 2);
	c.verbs.receives_left = 0;
	EXPECT_FALSE(queue.repost(c.verbs.deliver(28)));
	EXPECT_EQ(c.verbs.posted, kBatch - 1);
	EXPECT_EQ(c.log.take(trace::Failure::receive_post_failed), 1);
}

/* After destroy() the queue is as new, for the next connection. */
RPCORDMA_TEST(rdma_receive_queue, destroy)
{
	QueueFixture c;
	Queue queue(64);

	queue.destroy();
	for (u32 round = 0; round < 3; round++) {
		TEST_NOTE("round", round);
		c.verbs.posted = 0; /* drained */
		c.verbs.doorbells = 0;
		ASSERT_EQ(queue.provide(5), 5);
		EXPECT_EQ(c.verbs.posted, 5 + kBatch);
		/* Some posted, some waiting, one held. */
		for (u32 i = 0; i < kBatch - 1; i++)
			EXPECT_TRUE(queue.recycle(c.verbs.deliver(28)));
		ASSERT_NE(c.verbs.deliver(28), nullptr);
		EXPECT_EQ(c.verbs.doorbells, 1);
		queue.destroy();
		EXPECT_EQ(c.memory.allocations, 0);
		EXPECT_EQ(c.dma.mappings, 0);
	}
}

/* R1, through a long random life of a connection whose peer uses all that it was granted. */
RPCORDMA_TEST(rdma_receive_queue, always_enough)
{
	constexpr u32 capacity = 40;

	for (u32 seed = 0; seed < 40; seed++) {
		TEST_NOTE("seed", seed);
		QueueFixture c;
		Queue queue(capacity);
		Random random(seed);
		Receive *out[capacity]; /* being handled, or held */
		u32 out_count = 0, provided = 0, recycled = 0, doorbells = 0;

		for (u32 step = 0; step < 1500; step++) {
			TEST_NOTE("step", step);
			const u32 action = random.below(100);

			if (action < 2 || !provided) {
				const u32 wanted = random.below(capacity + 5);
				const u32 before = c.dma.mappings;
				const u32 now = queue.provide(wanted);

				doorbells += c.dma.mappings > before;
				ASSERT_GE(now, provided);
				ASSERT_GE(now,
					  wanted < capacity - kBatch ? wanted : capacity - kBatch);
				provided = now;
			} else if (action < 60 && out_count < provided) {
				/* It is this that must never fail. */
				Receive *receive = c.verbs.deliver(28);

				ASSERT_NE(receive, nullptr);
				out[out_count++] = receive;
			} else if (out_count) {
				const u32 which = random.below(out_count);
				Receive *receive = out[which];

				out[which] = out[--out_count];
				if (random.one_in(4)) {
					EXPECT_TRUE(queue.repost(receive));
					doorbells++;
				} else {
					EXPECT_TRUE(queue.recycle(receive));
					doorbells += ++recycled % kBatch == 0;
				}
			}
			ASSERT_LE(c.dma.mappings, capacity);
			ASSERT_GE(c.verbs.posted + out_count, provided);
			ASSERT_EQ(c.verbs.posted + out_count + recycled % kBatch, c.dma.mappings);
			ASSERT_EQ(c.verbs.doorbells, doorbells);
		}
	}
}

/* Buffers whose post failed are not counted on by the next provide(). */
RPCORDMA_TEST(rdma_receive_queue, provide_after_failed_post)
{
	QueueFixture c;
	Queue queue(64);

	c.verbs.receives_left = 0;
	EXPECT_EQ(queue.provide(4), 0);
	EXPECT_EQ(queue.provide(4), 0);
	c.verbs.receives_left = kNoLimit;
	EXPECT_LE(queue.provide(5), c.verbs.posted);
	EXPECT_EQ(c.log.take(trace::Failure::receive_post_failed), 1);
}

RPCORDMA_TEST(rdma_receive_queue, provide_does_not_wrap)
{
	QueueFixture c;
	Queue queue(64);

	EXPECT_EQ(queue.provide(~0u), 56);
}

RPCORDMA_SUITE(rdma_receive_queue, provide_after_failed_post, provide_does_not_wrap, provide,
	       capacity, tiny_capacity, buffers, memory_runs_short, one_allocation_fails,
	       post_fails, recycle, recycle_fails, repost, destroy, always_enough);

} // namespace rpcordma
