// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bookkeeping of the send queue, step by step, and then against a model of the device's queue
 * through long random lives.
 *
 * What a chain may ask for so that the queue never gets stuck: the silent work requests behind the
 * last signaled Send are fewer than size / 4, and nobody but the sender's next one returns them. So a
 * chain asks for no more than size - size / 4 + 1, its invalidations included.
 */
#include <new>

#include "kunit/test_rdma_port.hh"
#include "kunit/test_rdma_random.hh"
#include "kunit/test_rdma_send_queue.hh"
#include "kunit/testing.hh"
#include "module/rdma/send_queue.hh"

namespace rpcordma {
namespace {

using Marker = SendQueue::Marker;

constexpr u32 kMarkers = SendQueue::kMarkers;

} // namespace

RPCORDMA_TEST(rdma_send_queue, room)
{
	AccountedQueue queue;

	queue.init(20);
	EXPECT_EQ(queue.size(), 20);
	expect_room(queue, 20);
	EXPECT_TRUE(queue.take(3, 0));
	expect_room(queue, 17);
	EXPECT_TRUE(queue.take(2, 4));
	expect_room(queue, 11);
	/* A refused chain leaves no trace, in no combination. */
	EXPECT_FALSE(queue.take(12, 0));
	EXPECT_FALSE(queue.take(0, 12));
	EXPECT_FALSE(queue.take(6, 6));
	EXPECT_FALSE(queue.take_aside(12));
	expect_room(queue, 11);
	EXPECT_TRUE(queue.take(6, 5));
	expect_room(queue, 0);
	EXPECT_FALSE(queue.take(1, 0));
	EXPECT_FALSE(queue.take_aside(1));
}

RPCORDMA_TEST(rdma_send_queue, give_back)
{
	AccountedQueue queue;

	queue.init(40);
	ASSERT_TRUE(queue.take(9, 0));
	EXPECT_FALSE(queue.should_signal());
	ASSERT_TRUE(queue.take(3, 2));
	EXPECT_TRUE(queue.should_signal());
	/* A chain that was not posted says nothing about the next Send. */
	queue.give_back(3, 2);
	EXPECT_FALSE(queue.should_signal());
	expect_room(queue, 31);
	/* Some of its invalidations were given back already. */
	ASSERT_TRUE(queue.take(3, 2));
	queue.return_invalidations(1);
	queue.give_back(3, 1);
	expect_room(queue, 31);
}

/* Room for LOCAL_INVs stays reserved until they are done, whatever else completes. */
RPCORDMA_TEST(rdma_send_queue, invalidations)
{
	AccountedQueue queue;

	queue.init(10);
	ASSERT_TRUE(queue.take(4, 3));
	Marker *marker = queue.signal(nullptr);
	ASSERT_NE(marker, nullptr);
	expect_room(queue, 3);
	ASSERT_EQ(queue.completed(&marker->cqe), marker);
	SendQueue::release(*marker);
	expect_room(queue, 7);
	queue.return_invalidations(1);
	expect_room(queue, 8);
	queue.return_invalidations(2);
	expect_room(queue, 10);
	/* The whole queue may be reserved. */
	EXPECT_TRUE(queue.take(0, 10));
	expect_room(queue, 0);
	queue.return_invalidations(10);
	expect_room(queue, 10);
}

RPCORDMA_TEST(rdma_send_queue, markers)
{
	AccountedQueue queue;
	Marker *markers[kMarkers];
	int contexts[kMarkers];
	rpcordma_cqe expected;

	rpcordma_cqe_init(&expected, RPCORDMA_CQE_SEND);
	queue.init(100);
	ASSERT_TRUE(queue.take(50, 0));
	ASSERT_TRUE(queue.should_signal());
	for (u32 i = 0; i < kMarkers; i++) {
		TEST_NOTE("marker", i);
		/* Half of them are for silent Sends. */
		void *const context = i < kMarkers / 2 ? &contexts[i] : nullptr;

		if (!context)
			EXPECT_EQ(queue.signal(&contexts[i]), nullptr);
		EXPECT_EQ(queue.has_marker(), context != nullptr);
		markers[i] = queue.signal(context);
		ASSERT_NE(markers[i], nullptr);
		EXPECT_EQ(markers[i]->context, context);
		EXPECT_EQ(markers[i]->cqe.done, expected.done);
		for (u32 j = 0; j < i; j++)
			EXPECT_NE(markers[i], markers[j]);
		EXPECT_FALSE(queue.should_signal());
	}

	/* All are out: the Send stays silent, and the next one is to be signaled all the more. */
	ASSERT_TRUE(queue.take(25, 0));
	EXPECT_TRUE(queue.should_signal());
	EXPECT_EQ(queue.signal(nullptr), nullptr);
	EXPECT_TRUE(queue.should_signal());
	expect_room(queue, 25);

	/* A marker is out until it is released, not merely until it completed. */
	ASSERT_EQ(queue.completed(&markers[5]->cqe), markers[5]);
	EXPECT_EQ(markers[5]->context, &contexts[5]);
	EXPECT_EQ(queue.signal(nullptr), nullptr);
	SendQueue::release(*markers[5]);
	EXPECT_EQ(markers[5]->context, nullptr);
	EXPECT_EQ(queue.signal(&contexts[0]), markers[5]);
	EXPECT_EQ(markers[5]->context, &contexts[0]);
	EXPECT_FALSE(queue.should_signal());
	EXPECT_EQ(queue.signal(nullptr), nullptr);
}

/* A completion returns what was counted before its marker, silent or not, and nothing after. */
RPCORDMA_TEST(rdma_send_queue, completion)
{
	AccountedQueue queue;

	queue.init(100);
	for (u32 i = 0; i < 10; i++)
		ASSERT_TRUE(queue.take(2, 0));
	Marker *first = queue.signal(nullptr);
	ASSERT_TRUE(queue.take(7, 0));
	Marker *second = queue.signal(nullptr);
	ASSERT_TRUE(queue.take(5, 0));
	ASSERT_NE(first, nullptr);
	ASSERT_NE(second, nullptr);
	expect_room(queue, 68);
	EXPECT_EQ(queue.completed(&first->cqe), first);
	expect_room(queue, 88);
	EXPECT_EQ(queue.completed(&second->cqe), second);
	expect_room(queue, 95);
	SendQueue::release(*first);
	SendQueue::release(*second);

	/* A marker that is used again stands for its new place. */
	Marker *again = queue.signal(nullptr);
	ASSERT_NE(again, nullptr);
	EXPECT_EQ(queue.completed(&again->cqe), again);
	expect_room(queue, 100);
	SendQueue::release(*again);
}

/* Two completions handled in the wrong order: the later one stands for both, the earlier for nothing. */
RPCORDMA_TEST(rdma_send_queue, out_of_order)
{
	AccountedQueue queue;
	rpcordma_cqe foreign;

	rpcordma_cqe_init(&foreign, RPCORDMA_CQE_SEND);
	queue.init(100);
	ASSERT_TRUE(queue.take(20, 0));
	Marker *first = queue.signal(nullptr);
	ASSERT_TRUE(queue.take(30, 0));
	Marker *second = queue.signal(nullptr);
	ASSERT_NE(first, nullptr);
	ASSERT_NE(second, nullptr);

	/* Silent Sends that are flushed complete too, by a cqe that is no marker's. */
	EXPECT_EQ(queue.completed(&foreign), nullptr);
	expect_room(queue, 50);
	EXPECT_EQ(queue.completed(&second->cqe), second);
	expect_room(queue, 100);
	EXPECT_EQ(queue.completed(&first->cqe), first);
	expect_room(queue, 100);
}

RPCORDMA_TEST(rdma_send_queue, take_aside)
{
	AccountedQueue queue;

	queue.init(40);
	ASSERT_TRUE(queue.take(5, 0));
	EXPECT_TRUE(queue.take_aside(30));
	expect_room(queue, 5);
	/* It is not the sender's turn that comes nearer. */
	EXPECT_FALSE(queue.should_signal());
	ASSERT_TRUE(queue.take(5, 0));
	EXPECT_TRUE(queue.should_signal());
	expect_room(queue, 0);
	Marker *marker = queue.signal(nullptr);
	ASSERT_NE(marker, nullptr);
	/* The sender's completion returns what is the sender's, and nothing of what is held aside. */
	EXPECT_EQ(queue.completed(&marker->cqe), marker);
	expect_room(queue, 10);
	queue.return_invalidations(30);
	expect_room(queue, 40);
}

RPCORDMA_TEST(rdma_send_queue, signal_aside)
{
	AccountedQueue queue;
	int context;

	queue.init(40);
	/* The sender is between take() and its post when somebody else's Send is posted and completes. */
	ASSERT_TRUE(queue.take(9, 0));
	Marker *aside = queue.signal_aside(&context, 1);
	ASSERT_NE(aside, nullptr);
	EXPECT_EQ(aside->context, &context);
	EXPECT_FALSE(queue.should_signal());
	expect_room(queue, 30);
	EXPECT_EQ(queue.completed(&aside->cqe), aside);
	/* Nothing of the chain is returned, for it may not even be posted. */
	EXPECT_FALSE(queue.has_room(32, 0));
	SendQueue::release(*aside);

	ASSERT_TRUE(queue.take(1, 0));
	ASSERT_TRUE(queue.should_signal());
	Marker *marker = queue.signal(nullptr);
	ASSERT_NE(marker, nullptr);
	EXPECT_EQ(queue.completed(&marker->cqe), marker);
	SendQueue::release(*marker);
	expect_room(queue, 40);

	/* Of a chain of three all the room comes back. */
	aside = queue.signal_aside(&context, 3);
	ASSERT_NE(aside, nullptr);
	expect_room(queue, 37);
	EXPECT_EQ(queue.completed(&aside->cqe), aside);
	SendQueue::release(*aside);
	expect_room(queue, 40);

	/* Without room: nothing is counted, and no marker stays out. */
	ASSERT_TRUE(queue.take(40, 0));
	EXPECT_EQ(queue.signal_aside(&context, 1), nullptr);
	Marker *markers[kMarkers];
	use_up_markers(queue, markers);
	for (Marker *m : markers) {
		ASSERT_NE(m, nullptr);
		EXPECT_EQ(queue.completed(&m->cqe), m);
	}
	expect_room(queue, 40);

	/* Without a marker: the room is given back. */
	EXPECT_EQ(queue.signal_aside(&context, 1), nullptr);
	expect_room(queue, 40);
}

/* Refusals alone, each completed before the next: their room comes back without the sender. */
RPCORDMA_TEST(rdma_send_queue, asides_alone)
{
	AccountedQueue queue;

	queue.init(400);
	for (u32 i = 0; i < 1000; i++) {
		TEST_NOTE("refusal", i);
		Marker *marker = queue.signal_aside(nullptr, 1);
		ASSERT_NE(marker, nullptr);
		ASSERT_EQ(queue.completed(&marker->cqe), marker);
		SendQueue::release(*marker);
	}
	expect_room(queue, 400);
}

/* However many are out aside, there is a marker for the sender when it needs one. */
RPCORDMA_TEST(rdma_send_queue, a_marker_for_the_sender)
{
	AccountedQueue queue;
	u32 aside = 0;

	queue.init(400);
	while (queue.signal_aside(nullptr, 1))
		aside++;
	EXPECT_EQ(aside, kMarkers / 2);
	ASSERT_TRUE(queue.take(100, 0));
	ASSERT_TRUE(queue.should_signal());
	EXPECT_NE(queue.signal(nullptr), nullptr);
}

/* The price of completions: fewer than one Send in ten is signaled, the smallest queue's included. */
RPCORDMA_TEST(rdma_send_queue, few_are_signaled)
{
	/* 44: the shortest with one in eleven. */
	for (u32 size : {44u, 113u, 400u, 4096u}) {
		for (u32 regions : {0u, 1u}) {
			TEST_NOTE("size", size);
			TEST_NOTE("regions", regions);
			AccountedQueue queue;
			u32 sends = 0, signaled = 0, silent = 0;

			queue.init(size);
			for (; sends < 10000; sends++) {
				ASSERT_TRUE(queue.take(1 + regions, regions));
				silent += 1 + regions;
				/* The reply took the memory back. */
				queue.return_invalidations(regions);
				if (!queue.should_signal())
					continue;
				Marker *marker = queue.signal(nullptr);
				ASSERT_NE(marker, nullptr);
				/* Not seldom either: a quarter of the queue at most waits for it. */
				EXPECT_LE(silent, size / 4 + regions);
				silent = 0;
				signaled++;
				ASSERT_EQ(queue.completed(&marker->cqe), marker);
				SendQueue::release(*marker);
			}
			EXPECT_GT(signaled, 0);
			if (!regions)
				EXPECT_LT(signaled * 10, sends);
		}
	}
}

namespace {

/*
 * The device's queue and the calls behind it: work requests lie in the order of posting and complete
 * in it; those that are silent leave their place when a later signaled one completes.
 */
class Device {
public:
	static constexpr u32 kMost = 160;

	Device(SendQueue &queue, u32 size) : queue_(queue), size_(size)
	{
		queue.init(size);
	}

	/** @count silent work requests, and maybe a signaled one behind them. */
	void post(u32 count, Marker *marker)
	{
		post_(count, marker, 0, marker != nullptr);
	}
	/** LOCAL_INVs for @count regions, the last one signaled. Their room is reserved. */
	void invalidate(u32 count)
	{
		post_(count - 1, nullptr, count, true);
	}
	[[nodiscard]] bool idle() const
	{
		return first_ == count_signaled_;
	}
	/** Deliver the completion of the first signaled work request. */
	void complete()
	{
		const Signaled done = signaled_[first_++ % kMost];

		retired_ = done.position;
		if (done.marker) {
			EXPECT_EQ(queue_.completed(&done.marker->cqe), done.marker);
			SendQueue::release(*done.marker);
		} else {
			queue_.return_invalidations(done.invalidations);
		}
	}
	/** Work requests that take a place. */
	[[nodiscard]] u32 held() const
	{
		return posted_ - retired_;
	}

private:
	struct Signaled {
		u32 position; /* work requests posted up to it, itself included */
		u32 invalidations;
		Marker *marker;
	};

	void post_(u32 silent, Marker *marker, u32 invalidations, bool signaled)
	{
		posted_ += silent + signaled;
		ASSERT_LE(held(), size_);
		ASSERT_LT(count_signaled_ - first_, kMost);
		if (signaled)
			signaled_[count_signaled_++ % kMost] = {posted_, invalidations, marker};
	}

	SendQueue &queue_;
	u32 size_;
	u32 posted_ = 0, retired_ = 0;
	u32 first_ = 0, count_signaled_ = 0;
	Signaled signaled_[kMost];
};

/*
 * One life: calls of up to @most_regions regions, whose replies invalidate remotely or not at all, and
 * between two markers of the sender up to @asides Sends and registrations by somebody else: nobody but
 * the sender's next marker returns their room.
 */
void live(u32 seed, u32 size, u32 most_regions, u32 asides)
{
	SendQueue &queue = *new (test_alloc(sizeof(SendQueue)).data()) SendQueue;
	Device &device = *new (test_alloc(sizeof(Device)).data()) Device(queue, size);
	Random random(seed);
	u32 reserved = 0; /* for regions that calls have mapped, not being invalidated */
	u32 waits = 0, aside_count = 0;

	for (u32 step = 0; step < 3000; step++) {
		TEST_NOTE("step", step);
		/* The peer and the device do nothing for a while, then everything at once. */
		const bool stalled = step / 500 % 2;
		const u32 action = random.below(10);

		if (action < 5) {
			const u32 regions = random.below(most_regions + 1);

			if (!queue.take(1 + regions, regions)) {
				/* All replies come, all completions, and the call has its room. */
				waits++;
				if (reserved)
					queue.return_invalidations(reserved);
				reserved = 0;
				while (!device.idle())
					device.complete();
				ASSERT_TRUE(queue.take(1 + regions, regions));
			}
			reserved += regions;
			/* Somebody else is faster than this chain's post, and done before it. */
			if (aside_count < asides && random.one_in(8)) {
				if (Marker *marker = queue.signal_aside(&device, 1)) {
					device.post(0, marker);
					aside_count++;
					while (!device.idle())
						device.complete();
				}
			}
			/* Marshaling failed: regions were mapped, nothing was posted. */
			if (random.one_in(50)) {
				queue.give_back(1 + regions, regions);
				reserved -= regions;
				continue;
			}
			Marker *marker = queue.should_signal() ? queue.signal(nullptr) : nullptr;
			if (marker)
				aside_count = 0;
			device.post(regions + (marker ? 0 : 1), marker);
		} else if (action < 7) {
			if (!device.idle() && !stalled)
				device.complete();
		} else if (action < 9) {
			/* A reply: the peer invalidated its regions, or we have to. */
			const u32 regions = min(reserved, 1 + random.below(3));

			if (!regions || stalled)
				continue;
			reserved -= regions;
			if (random.one_in(2))
				queue.return_invalidations(regions);
			else
				device.invalidate(regions);
		} else if (aside_count < asides) {
			if (random.one_in(2)) {
				if (Marker *marker = queue.signal_aside(&device, 1)) {
					device.post(0, marker);
					aside_count++;
				}
			} else if (queue.take_aside(1)) {
				/* A registration, and room for the LOCAL_INV that undoes it. */
				if (Marker *marker = queue.signal_aside(&device, 1)) {
					device.post(0, marker);
					reserved++;
					aside_count++;
				} else {
					queue.return_invalidations(1);
				}
			}
		}
		/* What has a place is accounted for. */
		ASSERT_FALSE(queue.has_room(size - device.held() + 1, 0));
	}
	/* It was no idle life. */
	EXPECT_GT(waits, 0);

	/* At rest everything but the silent ones is room again, and with a marker behind them, all. */
	queue.return_invalidations(reserved);
	while (!device.idle())
		device.complete();
	EXPECT_TRUE(queue.has_room(size - size / 4 + 1 - min(asides, size / 4), 0));
	ASSERT_TRUE(queue.take(1, 0));
	Marker *marker = queue.signal(nullptr);
	ASSERT_NE(marker, nullptr);
	device.post(0, marker);
	device.complete();
	expect_room(queue, size);
}

} // namespace

RPCORDMA_TEST(rdma_send_queue, never_stuck)
{
	for (u32 size : {4u, 7u, 16u, 61u, 113u, 150u}) {
		/* Twice the regions and the Send: the longest chain that the queue is good for. */
		const u32 most_regions = (size - size / 4) / 2;

		for (u32 regions : {0u, 1u, most_regions}) {
			for (u32 seed = 0; seed < 4; seed++) {
				TEST_NOTE("size", size);
				TEST_NOTE("regions", regions);
				TEST_NOTE("seed", seed);
				live(seed, size, regions, 0);
			}
		}
	}
}

/* With a few Sends and registrations by others in between. */
RPCORDMA_TEST(rdma_send_queue, never_stuck_with_asides)
{
	for (u32 size : {64u, 113u, 150u}) {
		for (u32 seed = 0; seed < 8; seed++) {
			TEST_NOTE("size", size);
			TEST_NOTE("seed", seed);
			live(seed, size, size / 4, 8);
		}
	}
}

RPCORDMA_SUITE(rdma_send_queue, room, give_back, invalidations, markers, completion, out_of_order,
	       take_aside, signal_aside, asides_alone, a_marker_for_the_sender, few_are_signaled,
	       never_stuck, never_stuck_with_asides);

} // namespace rpcordma
