// SPDX-License-Identifier: GPL-2.0-only
/*
 * The port's locks, mutexes, events and gates. C++ holds them by pointer, since their sizes depend
 * on the kernel's configuration. Each class has a lockdep key of its own: initialised in one place
 * with one key, all would be one class to lockdep, which could not check their order.
 */

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/lockdep.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include "compat/port/base.h"

/* Those of two owners share no cache line. */
struct rpcordma_lock {
	spinlock_t lock;
} ____cacheline_aligned_in_smp;

struct rpcordma_mutex {
	struct mutex mutex;
};

struct rpcordma_event {
	struct completion raised;
};

struct rpcordma_gate {
	atomic_t openings;
	wait_queue_head_t waiters;
};

static struct lock_class_key lock_keys[RPCORDMA_LOCK_CLASSES];
static const char *const lock_names[RPCORDMA_LOCK_CLASSES] = {
	[RPCORDMA_LOCK_CLIENT] = "rpcordma_client",
	[RPCORDMA_LOCK_SERVER] = "rpcordma_server",
	[RPCORDMA_LOCK_SINKS] = "rpcordma_sinks",
	[RPCORDMA_LOCK_FAILURES] = "rpcordma_failures",
	[RPCORDMA_LOCK_POSTS] = "rpcordma_posts",
};

static struct lock_class_key mutex_keys[RPCORDMA_MUTEX_CLASSES];
static const char *const mutex_names[RPCORDMA_MUTEX_CLASSES] = {
	[RPCORDMA_MUTEX_FENCE] = "rpcordma_fence",
};

struct rpcordma_lock *rpcordma_lock_create(enum rpcordma_lock_class which)
{
	struct rpcordma_lock *lock = kmalloc(sizeof(*lock), GFP_KERNEL);

	if (lock) {
		spin_lock_init(&lock->lock);
		lockdep_set_class_and_name(&lock->lock, &lock_keys[which], lock_names[which]);
	}
	return lock;
}

void rpcordma_lock_destroy(struct rpcordma_lock *lock)
{
	kfree(lock);
}

void rpcordma_lock_acquire(struct rpcordma_lock *lock)
	__acquires(&lock->lock)
{
	spin_lock(&lock->lock);
}

void rpcordma_lock_release(struct rpcordma_lock *lock)
	__releases(&lock->lock)
{
	spin_unlock(&lock->lock);
}

struct rpcordma_mutex *rpcordma_mutex_create(enum rpcordma_mutex_class which)
{
	struct rpcordma_mutex *mutex = kmalloc(sizeof(*mutex), GFP_KERNEL);

	if (mutex) {
		mutex_init(&mutex->mutex);
		lockdep_set_class_and_name(&mutex->mutex, &mutex_keys[which], mutex_names[which]);
	}
	return mutex;
}

void rpcordma_mutex_destroy(struct rpcordma_mutex *mutex)
{
	if (mutex)
		mutex_destroy(&mutex->mutex);
	kfree(mutex);
}

void rpcordma_mutex_lock(struct rpcordma_mutex *mutex)
{
	mutex_lock(&mutex->mutex);
}

void rpcordma_mutex_unlock(struct rpcordma_mutex *mutex)
{
	mutex_unlock(&mutex->mutex);
}

struct rpcordma_event *rpcordma_event_create(void)
{
	struct rpcordma_event *event = kmalloc(sizeof(*event), GFP_KERNEL);

	if (event)
		init_completion(&event->raised);
	return event;
}

void rpcordma_event_destroy(struct rpcordma_event *event)
{
	kfree(event);
}

void rpcordma_event_reset(struct rpcordma_event *event)
{
	reinit_completion(&event->raised);
}

void rpcordma_event_raise(struct rpcordma_event *event)
{
	complete(&event->raised);
}

void rpcordma_event_wait(struct rpcordma_event *event)
{
	wait_for_completion(&event->raised);
}

rpcordma_bool rpcordma_event_wait_for(struct rpcordma_event *event, rpcordma_u32 limit_ms)
{
	return wait_for_completion_timeout(&event->raised, msecs_to_jiffies(limit_ms)) != 0;
}

struct rpcordma_gate *rpcordma_gate_create(void)
{
	struct rpcordma_gate *gate = kmalloc(sizeof(*gate), GFP_KERNEL);

	if (gate) {
		atomic_set(&gate->openings, 0);
		init_waitqueue_head(&gate->waiters);
	}
	return gate;
}

void rpcordma_gate_destroy(struct rpcordma_gate *gate)
{
	kfree(gate);
}

rpcordma_u32 rpcordma_gate_ticket(struct rpcordma_gate *gate)
{
	/* Acquire: what the caller examines next was changed before the gate was opened. */
	return atomic_read_acquire(&gate->openings);
}

rpcordma_bool rpcordma_gate_wait(struct rpcordma_gate *gate, rpcordma_u32 ticket,
				 rpcordma_u32 limit_ms)
{
	return wait_event_timeout(gate->waiters, atomic_read(&gate->openings) != ticket,
				  msecs_to_jiffies(limit_ms));
}

void rpcordma_gate_open(struct rpcordma_gate *gate)
{
	/* Fully ordered: whoever sees the new count sees the changes made before. */
	atomic_inc_return(&gate->openings);
	wake_up_all(&gate->waiters);
}
