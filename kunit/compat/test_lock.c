// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit suite of compat/linux/lock.c: locks, events and gates.
 */
#include <kunit/test.h>
#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/workqueue.h>

#include "compat/port/base.h"
#include "kunit/compat/engine.h"

static void without_memory(struct kunit *test)
{
	rpcordma_fault_arm("kmalloc", 1);
	KUNIT_EXPECT_NULL(test, rpcordma_lock_create(RPCORDMA_LOCK_CLIENT));
	rpcordma_fault_arm("kmalloc", 1);
	KUNIT_EXPECT_NULL(test, rpcordma_mutex_create(RPCORDMA_MUTEX_FENCE));
	rpcordma_fault_arm("kmalloc", 1);
	KUNIT_EXPECT_NULL(test, rpcordma_event_create());
	rpcordma_fault_arm("kmalloc", 1);
	KUNIT_EXPECT_NULL(test, rpcordma_gate_create());
	rpcordma_fault_arm(NULL, 0);
	rpcordma_lock_destroy(NULL);
	rpcordma_mutex_destroy(NULL);
	rpcordma_event_destroy(NULL);
	rpcordma_gate_destroy(NULL);
}

/* Lockdep takes two of one class for a recursion, and would say so here. */
static void classes(struct kunit *test)
{
	struct rpcordma_lock *locks[RPCORDMA_LOCK_CLASSES];
	struct rpcordma_mutex *mutex = rpcordma_mutex_create(RPCORDMA_MUTEX_FENCE);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, mutex);
	for (i = 0; i < RPCORDMA_LOCK_CLASSES; i++) {
		locks[i] = rpcordma_lock_create(i);
		KUNIT_ASSERT_NOT_NULL(test, locks[i]);
	}
	rpcordma_mutex_lock(mutex);
	for (i = 0; i < RPCORDMA_LOCK_CLASSES; i++)
		rpcordma_lock_acquire(locks[i]);
	for (i = 0; i < RPCORDMA_LOCK_CLASSES; i++)
		rpcordma_lock_release(locks[i]);
	rpcordma_mutex_unlock(mutex);
	for (i = 0; i < RPCORDMA_LOCK_CLASSES; i++)
		rpcordma_lock_destroy(locks[i]);
	rpcordma_mutex_destroy(mutex);
}

struct later {
	struct delayed_work work;
	struct rpcordma_event *event;
	struct rpcordma_gate *gate;
};

static void raise_later(struct work_struct *work)
{
	struct later *later = container_of(to_delayed_work(work), struct later, work);

	if (later->event)
		rpcordma_event_raise(later->event);
	if (later->gate)
		rpcordma_gate_open(later->gate);
}

static void events(struct kunit *test)
{
	struct later later = { .event = rpcordma_event_create() };
	unsigned long began = jiffies;

	KUNIT_ASSERT_NOT_NULL(test, later.event);
	KUNIT_EXPECT_FALSE(test, rpcordma_event_wait_for(later.event, 50));
	KUNIT_EXPECT_GE(test, jiffies - began, msecs_to_jiffies(50));
	rpcordma_event_raise(later.event);
	KUNIT_EXPECT_TRUE(test, rpcordma_event_wait_for(later.event, 0) ||
					rpcordma_event_wait_for(later.event, 50));
	rpcordma_event_raise(later.event);
	rpcordma_event_reset(later.event);
	KUNIT_EXPECT_FALSE(test, rpcordma_event_wait_for(later.event, 20));

	INIT_DELAYED_WORK_ONSTACK(&later.work, raise_later);
	schedule_delayed_work(&later.work, msecs_to_jiffies(30));
	began = jiffies;
	rpcordma_event_wait(later.event);
	KUNIT_EXPECT_GE(test, jiffies - began, msecs_to_jiffies(20));
	began = jiffies;
	schedule_delayed_work(&later.work, msecs_to_jiffies(30));
	KUNIT_EXPECT_TRUE(test, rpcordma_event_wait_for(later.event, 60000));
	KUNIT_EXPECT_LT(test, jiffies - began, msecs_to_jiffies(30000));
	cancel_delayed_work_sync(&later.work);
	destroy_delayed_work_on_stack(&later.work);
	rpcordma_event_destroy(later.event);
}

static void gates(struct kunit *test)
{
	struct later later = { .gate = rpcordma_gate_create() };
	unsigned long began = jiffies;
	u32 ticket;

	KUNIT_ASSERT_NOT_NULL(test, later.gate);
	ticket = rpcordma_gate_ticket(later.gate);
	KUNIT_EXPECT_FALSE(test, rpcordma_gate_wait(later.gate, ticket, 50));
	KUNIT_EXPECT_GE(test, jiffies - began, msecs_to_jiffies(50));
	/* Opened since: nobody waits, not even twice. */
	rpcordma_gate_open(later.gate);
	KUNIT_EXPECT_TRUE(test, rpcordma_gate_wait(later.gate, ticket, 60000));
	KUNIT_EXPECT_TRUE(test, rpcordma_gate_wait(later.gate, ticket, 60000));
	ticket = rpcordma_gate_ticket(later.gate);
	KUNIT_EXPECT_FALSE(test, rpcordma_gate_wait(later.gate, ticket, 20));

	INIT_DELAYED_WORK_ONSTACK(&later.work, raise_later);
	began = jiffies;
	schedule_delayed_work(&later.work, msecs_to_jiffies(30));
	KUNIT_EXPECT_TRUE(test, rpcordma_gate_wait(later.gate, ticket, 60000));
	/* Opening it wakes who waits: it has not slept until the end of its limit. */
	KUNIT_EXPECT_LT(test, jiffies - began, msecs_to_jiffies(30000));
	cancel_delayed_work_sync(&later.work);
	destroy_delayed_work_on_stack(&later.work);
	rpcordma_gate_destroy(later.gate);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(without_memory),
	KUNIT_CASE(classes),
	KUNIT_CASE(events),
	KUNIT_CASE(gates),
	{},
};

static struct kunit_suite suite = {
	.name = "compat_lock",
	.test_cases = cases,
};

kunit_test_suite(suite);
