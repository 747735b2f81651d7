// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/base/lock and module/base/memory: what owns a lock, an event or memory of the port's has it from when it is made until
 * it goes, once, and no longer. The double of the port counts.
 */
#include "kunit/test_rdma_port.hh"
#include "module/base/lock.hh"
#include "module/base/memory.hh"

namespace rpcordma {
namespace {

/* Counts those that there are. */
struct Thing {
	static u32 alive;
	u32 value = 7;

	Thing()
	{
		alive++;
	}
	~Thing()
	{
		alive--;
	}
};
u32 Thing::alive;

using OwnedThing = Owned<Thing>;

void expect_things(const PortFixture &c, u32 count)
{
	EXPECT_EQ(Thing::alive, count);
	EXPECT_EQ(c.memory.allocations, count);
}

} // namespace

/* A lock there is from create() to destroy(), or to the end of what owns it; one that was never made is no trouble. */
RPCORDMA_TEST(base_owners, locks)
{
	PortFixture c;
	const u32 had = c.sync.locks;

	{
		ModuleLock lock;

		EXPECT_FALSE(lock.exists());
		lock.destroy();
		for (u32 turn = 0; turn < 2; turn++) {
			ASSERT_TRUE(lock.create(rpcordma_lock_class()));
			EXPECT_TRUE(lock.exists());
			EXPECT_EQ(c.sync.locks, had + 1);
			lock.destroy();
			EXPECT_FALSE(lock.exists());
			EXPECT_EQ(c.sync.locks, had);
			/* Again is no trouble either. */
			lock.destroy();
		}
		c.sync.locks_left = 0;
		EXPECT_FALSE(lock.create(rpcordma_lock_class()));
		EXPECT_FALSE(lock.exists());
		c.sync.locks_left = kNoLimit;
	}
	{
		SpinLock never, lock;

		ASSERT_TRUE(lock.create(rpcordma_lock_class()));
		EXPECT_EQ(c.sync.locks, had + 1);
	}
	EXPECT_EQ(c.sync.locks, had);
}

/* A guard holds its lock until it goes, but for where it was let go; and lets go once. */
RPCORDMA_TEST(base_owners, guards)
{
	PortFixture c;
	SpinLock lock;

	ASSERT_TRUE(lock.create(rpcordma_lock_class()));
	for (u32 steps = 0; steps < 5; steps++) {
		const u32 before = c.sync.holds;
		{
			SpinGuard guard(lock);

			TEST_NOTE("steps", steps);
			EXPECT_EQ(c.sync.locks_held, 1);
			for (u32 step = 0; step < steps; step++) {
				if (step % 2)
					guard.acquire();
				else
					guard.release();
				EXPECT_EQ(c.sync.locks_held, step % 2);
			}
		}
		EXPECT_EQ(c.sync.locks_held, 0);
		EXPECT_EQ(c.sync.holds, before + 1 + steps / 2);
	}
}

/* Mutexes likewise: the double has one locked once, and unlocked when it goes. */
RPCORDMA_TEST(base_owners, mutexes)
{
	PortFixture c;
	{
		Mutex never, mutex;

		ASSERT_TRUE(mutex.create(rpcordma_mutex_class()));
		EXPECT_EQ(c.sync.mutexes, 1);
		for (u32 turn = 0; turn < 2; turn++) {
			MutexGuard guard(mutex);

			guard.release();
			guard.acquire();
		}
		mutex.acquire();
		mutex.release();
	}
	EXPECT_EQ(c.sync.mutexes, 0);
}

/* An event that was raised is waited for at once, and once; reset, it was not raised. */
RPCORDMA_TEST(base_owners, events)
{
	PortFixture c;
	{
		Event never, event;

		ASSERT_TRUE(event.create());
		EXPECT_EQ(c.sync.events, 1);
		const u64 began = c.sync.now;
		event.raise();
		EXPECT_TRUE(event.wait_for(10));
		EXPECT_EQ(c.sync.now, began);
		EXPECT_FALSE(event.wait_for(10));
		EXPECT_EQ(c.sync.now, began + 10);
		event.raise();
		event.reset();
		EXPECT_FALSE(event.wait_for(20));
		EXPECT_EQ(c.sync.now, began + 30);
		event.raise();
		event.wait();
		EXPECT_EQ(c.sync.now, began + 30);
	}
	EXPECT_EQ(c.sync.events, 0);
}

/* One owner at a time: made, moved, given away and taken over, an object ends once, when its last owner does. */
RPCORDMA_TEST(base_owners, owned)
{
	PortFixture c;
	const auto how = RPCORDMA_ALLOC_ATOMIC;

	{
		OwnedThing none, made = OwnedThing::create(how);

		EXPECT_FALSE(none);
		EXPECT_EQ(none.get(), nullptr);
		ASSERT_TRUE(made);
		EXPECT_EQ(made->value, 7);
		EXPECT_EQ((*made).value, 7);
		expect_things(c, 1);
		Thing *const at = made.get();
		OwnedThing moved(static_cast<OwnedThing &&>(made));
		EXPECT_FALSE(made);
		EXPECT_EQ(moved.get(), at);
		expect_things(c, 1);
		/* In place of another. */
		OwnedThing other = OwnedThing::create(how);
		expect_things(c, 2);
		other = static_cast<OwnedThing &&>(moved);
		EXPECT_FALSE(moved);
		EXPECT_EQ(other.get(), at);
		expect_things(c, 1);
		Thing *const given = other.let_go();
		EXPECT_EQ(given, at);
		EXPECT_FALSE(other);
		expect_things(c, 1);
		{
			const OwnedThing taken = OwnedThing::take_over(given);

			EXPECT_EQ(taken.get(), at);
		}
		expect_things(c, 0);
		other = OwnedThing::create(how);
		expect_things(c, 1);
		other = {};
		expect_things(c, 0);
		const auto large = Owned<Thing, LargeHeap>::create(how);
		EXPECT_TRUE(large);
		expect_things(c, 1);
	}
	expect_things(c, 0);
	c.memory.allocations_left = 0;
	EXPECT_FALSE(OwnedThing::create(how));
	c.memory.allocations_left = kNoLimit;
	expect_things(c, 0);
}

/* A buffer has what it was made for last, zeroed; without memory it has what it had; and nothing once it has let go. */
RPCORDMA_TEST(base_owners, buffers)
{
	PortFixture c;
	const auto how = RPCORDMA_ALLOC_ATOMIC;

	{
		Buffer buffer;

		EXPECT_FALSE(buffer);
		EXPECT_EQ(buffer.size(), 0);
		EXPECT_EQ(buffer.bytes().size(), 0);
		buffer.release();
		for (u32 size : {10u, 20u, 5u}) {
			TEST_NOTE("size", size);
			ASSERT_TRUE(buffer.create(size, how));
			EXPECT_TRUE(buffer);
			EXPECT_EQ(c.memory.allocations, 1);
			EXPECT_EQ(buffer.size(), size);
			EXPECT_EQ(buffer.bytes().size(), size);
			EXPECT_EQ(buffer.bytes().data(), buffer.data());
			EXPECT_EQ(c.memory.block_at(buffer.data())->size, size);
			for (u8 &byte : buffer.bytes()) {
				EXPECT_EQ(byte, 0);
				byte = u8(size);
			}
			c.memory.allocations_left = 0;
			EXPECT_FALSE(buffer.create(40, how));
			c.memory.allocations_left = kNoLimit;
			EXPECT_EQ(buffer.size(), size);
			for (u8 byte : buffer.bytes())
				EXPECT_EQ(byte, size);
		}
		buffer.release();
		EXPECT_EQ(c.memory.allocations, 0);
		EXPECT_FALSE(buffer);
		EXPECT_EQ(buffer.data(), nullptr);
		EXPECT_EQ(buffer.size(), 0);
		ASSERT_TRUE(buffer.create(3, how));
	}
	EXPECT_EQ(c.memory.allocations, 0);
}

RPCORDMA_SUITE(base_owners, locks, guards, mutexes, events, owned, buffers);

} // namespace rpcordma
