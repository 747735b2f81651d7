// SPDX-License-Identifier: GPL-2.0-only
/* Locks and their kin of the double of the port; see test_rdma_port_sync.hh. No tests here. */
#include "kunit/test_rdma_port.hh"
#include "module/client/client.hh"

/* Opaque behind the port. */
struct rpcordma_lock {
	bool held;
};

struct rpcordma_mutex {
	bool held;
};

struct rpcordma_gate {
	rpcordma::u32 openings;
};

struct rpcordma_event {
	bool raised;
};

namespace rpcordma {

void PortSync::expect_none() const
{
	EXPECT_EQ(locks, 0);
	EXPECT_EQ(locks_held, 0);
	EXPECT_EQ(gates, 0);
	EXPECT_EQ(mutexes, 0);
	EXPECT_EQ(events, 0);
}

} // namespace rpcordma

using namespace rpcordma;

/* --- base.h --- */

rpcordma_u64 rpcordma_now_ms(void)
{
	/* A client's question has it for its xid. */
	the_port->client_ledger.know(u32(the_port->sync.now));
	return the_port->sync.now;
}

rpcordma_lock *rpcordma_lock_create(rpcordma_lock_class)
{
	if (!take_one(the_port->sync.locks_left))
		return nullptr;
	the_port->sync.locks++;
	auto *lock = static_cast<rpcordma_lock *>(rpcordma_test_alloc(sizeof(rpcordma_lock)));
	lock->held = false;
	return lock;
}

void rpcordma_lock_destroy(rpcordma_lock *lock)
{
	if (!lock)
		return;
	EXPECT_FALSE(lock->held);
	rpcordma_test_free(lock, sizeof(*lock));
	the_port->sync.locks--;
}

void rpcordma_lock_acquire(rpcordma_lock *lock)
{
	if (void (*before)() = the_port->sync.before_hold) {
		the_port->sync.before_hold = nullptr;
		before();
	}
	EXPECT_FALSE(lock->held);
	lock->held = true;
	the_port->sync.locks_held++;
	the_port->sync.holds++;
}

void rpcordma_lock_release(rpcordma_lock *lock)
{
	EXPECT_TRUE(lock->held);
	lock->held = false;
	the_port->sync.locks_held--;
}

rpcordma_mutex *rpcordma_mutex_create(rpcordma_mutex_class)
{
	auto *mutex = static_cast<rpcordma_mutex *>(rpcordma_test_alloc(sizeof(rpcordma_mutex)));

	mutex->held = false;
	the_port->sync.mutexes++;
	return mutex;
}

void rpcordma_mutex_destroy(rpcordma_mutex *mutex)
{
	EXPECT_FALSE(mutex->held);
	rpcordma_test_free(mutex, sizeof(*mutex));
	the_port->sync.mutexes--;
}

/* The connection whose closing the one mutex there is, the fence, protects; null without. */
static const Connection *fenced()
{
	return static_cast<const Connection *>(the_port->verbs.requester);
}

void rpcordma_mutex_lock(rpcordma_mutex *mutex)
{
	EXPECT_TRUE(the_port->memory.may_sleep);
	EXPECT_EQ(the_port->sync.locks_held, 0);
	EXPECT_FALSE(mutex->held);
	if (fenced())
		EXPECT_EQ(fenced()->closing, the_port->sync.closing);
	mutex->held = true;
}

void rpcordma_mutex_unlock(rpcordma_mutex *mutex)
{
	EXPECT_TRUE(mutex->held);
	the_port->sync.closing = fenced() && fenced()->closing;
	mutex->held = false;
}

rpcordma_gate *rpcordma_gate_create(void)
{
	if (!take_one(the_port->sync.gates_left))
		return nullptr;
	the_port->sync.gates++;
	auto *gate = static_cast<rpcordma_gate *>(rpcordma_test_alloc(sizeof(rpcordma_gate)));
	gate->openings = 0;
	return gate;
}

void rpcordma_gate_destroy(rpcordma_gate *gate)
{
	if (!gate)
		return;
	rpcordma_test_free(gate, sizeof(*gate));
	the_port->sync.gates--;
}

rpcordma_u32 rpcordma_gate_ticket(rpcordma_gate *gate)
{
	return gate->openings;
}

/* Who waits has only the device to wait for. */
rpcordma_bool rpcordma_gate_wait(rpcordma_gate *gate, rpcordma_u32 ticket, rpcordma_u32 limit_ms)
{
	EXPECT_TRUE(the_port->memory.may_sleep);
	EXPECT_EQ(the_port->sync.locks_held, 0);
	the_port->sync.waits++;
	const u32 passes = min(the_port->sync.wait_ms, limit_ms);

	the_port->sync.now += passes;
	if (the_port->sync.wait_ms > passes)
		return false;
	limit_ms -= passes;
	while (gate->openings == ticket) {
		if (the_port->verbs.work(1))
			continue;
		if (void (*const what)() = the_port->sync.meanwhile) {
			the_port->sync.meanwhile = nullptr;
			what();
			continue;
		}
		if (the_port->sync.disconnect_in_wait) {
			the_port->sync.disconnect_in_wait = false;
			rpcordma_core_server_event(the_port->verbs.server,
						   RPCORDMA_EVENT_DISCONNECTED);
			continue;
		}
		if (the_port->sync.stalls) {
			the_port->sync.stalls--;
			the_port->sync.now += limit_ms;
			return false;
		}
		/* For ever, that is. */
		EXPECT_TRUE(false);
		rpcordma_core_server_event(the_port->verbs.server, RPCORDMA_EVENT_QP_FATAL);
		return false;
	}
	return true;
}

void rpcordma_gate_open(rpcordma_gate *gate)
{
	gate->openings++;
	the_port->sync.openings++;
}

rpcordma_event *rpcordma_event_create(void)
{
	auto *event = static_cast<rpcordma_event *>(rpcordma_test_alloc(sizeof(rpcordma_event)));

	event->raised = false;
	the_port->sync.events++;
	return event;
}

void rpcordma_event_destroy(rpcordma_event *event)
{
	rpcordma_test_free(event, sizeof(*event));
	the_port->sync.events--;
}

void rpcordma_event_reset(rpcordma_event *event)
{
	event->raised = false;
}

void rpcordma_event_raise(rpcordma_event *event)
{
	/* Who connects waits for an answer, or for the end, and looks which it is. */
	if (const Connection *c = fenced(); c && !c->published)
		EXPECT_TRUE(c->broken || c->answer.load() != protocol::Answer::none);
	event->raised = true;
}

/* What somebody else does is done when the device has nothing left; then time passes. */
rpcordma_bool rpcordma_event_wait_for(rpcordma_event *event, rpcordma_u32 limit_ms)
{
	EXPECT_TRUE(the_port->memory.may_sleep);
	EXPECT_EQ(the_port->sync.locks_held, 0);
	while (!event->raised) {
		if (the_port->verbs.work(1))
			continue;
		void (*const what)() = the_port->sync.meanwhile;
		const bool late = !what || the_port->sync.late;
		if (late)
			the_port->sync.now += limit_ms;
		the_port->sync.meanwhile = nullptr;
		if (what)
			what();
		if (late)
			return false;
	}
	/* One wait uses it up. */
	event->raised = false;
	return true;
}

/* Who waits has only the device to wait for; or the end of the connection, which a check may bring. */
void rpcordma_event_wait(rpcordma_event *event)
{
	EXPECT_TRUE(the_port->memory.may_sleep);
	EXPECT_EQ(the_port->sync.locks_held, 0);
	while (!event->raised) {
		if (the_port->verbs.work(1))
			continue;
		auto *c = static_cast<Connection *>(the_port->verbs.requester);
		const bool ends = c && (c->broken || the_port->sunrpc.force_disconnects);

		if (c && !ends && the_port->sunrpc.check_delay) {
			the_port->sunrpc.check(c->client);
			continue;
		}
		EXPECT_TRUE(ends);
		if (!ends)
			return;
		rpcordma_core_client_close(c->client);
	}
}
