// SPDX-License-Identifier: GPL-2.0-only
/* compat/port/base.h and trace.h, simulated: memory, time, locks, waiting, logging. */
#include "selftests/sim/memory.hh"

using namespace sim;

/* --- memory and time --- */

void *rpcordma_alloc(rpcordma_size size, rpcordma_alloc_how how)
{
	return allocate(u32(size), how);
}

void rpcordma_free(void *p)
{
	release(p);
	port_call();
}

void *rpcordma_alloc_large(rpcordma_size size, rpcordma_alloc_how how)
{
	return allocate(u32(size), how);
}

void rpcordma_free_large(void *p)
{
	release(p);
	port_call();
}

rpcordma_u32 rpcordma_page_size(void)
{
	return kPageSize;
}

rpcordma_u64 rpcordma_now_ms(void)
{
	return 1000000 + now() / kMillisecond;
}

/* --- locks --- */

struct rpcordma_lock {
	SpinLock lock;
};

struct rpcordma_mutex {
	Mutex mutex;
};

/* Null, as the faults have it. */
template <typename T, typename... Arguments> static T *create(Arguments... arguments)
{
	void *place = allocate(sizeof(T), RPCORDMA_ALLOC_NOIO);

	return place ? new (place) T{arguments...} : nullptr;
}

template <typename T> static void destroy(T *object)
{
	if (!object)
		return;
	object->~T();
	release(object);
}

rpcordma_lock *rpcordma_lock_create(rpcordma_lock_class which)
{
	static_assert(RPCORDMA_LOCK_CLASSES == 5);
	static_assert(u32(LockClass::failures) == u32(RPCORDMA_LOCK_FAILURES));
	static_assert(u32(LockClass::posts) == u32(RPCORDMA_LOCK_POSTS));
	void *place = allocate(sizeof(rpcordma_lock), RPCORDMA_ALLOC_NOIO);

	return place ? new (place) rpcordma_lock{SpinLock(LockClass(which))} : nullptr;
}

void rpcordma_lock_destroy(rpcordma_lock *lock)
{
	destroy(lock);
}

void rpcordma_lock_acquire(rpcordma_lock *lock)
{
	lock->lock.acquire();
}

void rpcordma_lock_release(rpcordma_lock *lock)
{
	lock->lock.release();
}

rpcordma_mutex *rpcordma_mutex_create(rpcordma_mutex_class)
{
	static_assert(RPCORDMA_MUTEX_CLASSES == 1);
	void *place = allocate(sizeof(rpcordma_mutex), RPCORDMA_ALLOC_NOIO);

	return place ? new (place) rpcordma_mutex{Mutex(LockClass::fence)} : nullptr;
}

void rpcordma_mutex_destroy(rpcordma_mutex *mutex)
{
	destroy(mutex);
}

void rpcordma_mutex_lock(rpcordma_mutex *mutex)
{
	mutex->mutex.acquire();
}

void rpcordma_mutex_unlock(rpcordma_mutex *mutex)
{
	mutex->mutex.release();
}

/* --- waiting --- */

struct rpcordma_event {
	bool raised = false;
	WaitQueue waiting;
};

rpcordma_event *rpcordma_event_create(void)
{
	return create<rpcordma_event>();
}

void rpcordma_event_destroy(rpcordma_event *event)
{
	destroy(event);
}

void rpcordma_event_reset(rpcordma_event *event)
{
	port_call();
	REQUIRE(event->waiting.empty(), "an event is reset while somebody waits for it");
	event->raised = false;
}

void rpcordma_event_raise(rpcordma_event *event)
{
	event->raised = true;
	event->waiting.wake_all();
	port_call();
}

void rpcordma_event_wait(rpcordma_event *event)
{
	may_sleep("event");
	port_call();
	while (!event->raised)
		(void)wait(event->waiting, "an event");
	event->raised = false;
}

rpcordma_bool rpcordma_event_wait_for(rpcordma_event *event, rpcordma_u32 limit_ms)
{
	const u64 end = now() + limit_ms * kMillisecond;

	may_sleep("event");
	port_call();
	while (!event->raised)
		if (now() >= end || !wait(event->waiting, "an event", end - now()))
			break;
	const bool raised = event->raised;
	event->raised = false;
	return raised;
}

struct rpcordma_gate {
	u32 openings = 0;
	WaitQueue waiting;
};

rpcordma_gate *rpcordma_gate_create(void)
{
	return create<rpcordma_gate>();
}

void rpcordma_gate_destroy(rpcordma_gate *gate)
{
	destroy(gate);
}

rpcordma_u32 rpcordma_gate_ticket(rpcordma_gate *gate)
{
	const u32 ticket = gate->openings;

	port_call();
	return ticket;
}

rpcordma_bool rpcordma_gate_wait(rpcordma_gate *gate, rpcordma_u32 ticket, rpcordma_u32 limit_ms)
{
	const u64 end = now() + limit_ms * kMillisecond;

	may_sleep("gate");
	while (gate->openings == ticket)
		if (now() >= end || !wait(gate->waiting, "a gate", end - now()))
			return gate->openings != ticket;
	return true;
}

void rpcordma_gate_open(rpcordma_gate *gate)
{
	gate->openings++;
	gate->waiting.wake_all();
	port_call();
}

/* --- logging --- */

void rpcordma_log(const rpcordma_peer *, rpcordma_level, const char *text)
{
	TRACE("log: %s", text);
	port_call();
}

void rpcordma_log_value(const rpcordma_peer *, rpcordma_level, const char *text, long long value)
{
	TRACE("log: %s: %lld", text, value);
	port_call();
}

void rpcordma_log_values(const rpcordma_peer *, rpcordma_level, const char *text, long long value,
			 long long wanted)
{
	TRACE("log: %s: %lld of %lld", text, value, wanted);
	port_call();
}

void rpcordma_log_string(const rpcordma_peer *, rpcordma_level, const char *text, const char *what)
{
	TRACE("log: %s: %s", text, what);
	port_call();
}

void rpcordma_warn(const char *invariant)
{
	fail("broken invariant: %s", invariant);
}

/* --- trace points --- */

/* Failures are looked at, whether they are printed or not. */
unsigned int rpcordma_trace_enabled = RPCORDMA_TRACE_FAILURE;

void rpcordma_trace_connection(const rpcordma_peer *, const char *what, int value)
{
	TRACE("connection: %s (%d)", what, value);
}

void rpcordma_trace_version(const rpcordma_peer *, const char *role, rpcordma_u32 version,
			    const char *why)
{
	TRACE("version: %s: %s, %u", role, why, version);
}

void rpcordma_trace_property(const rpcordma_peer *, const char *what,
			     const rpcordma_trace_properties *said)
{
	TRACE("properties: %s xid %#x credits %u proc %u ids %#x fixed %#x receive size %u pages "
	      "%u",
	      what, said->xid, said->credits, said->proc, said->ids, said->fixed,
	      said->receive_size, said->pages);
}

void rpcordma_trace_group(const rpcordma_peer *, const char *what,
			  const rpcordma_trace_transmission *transmission)
{
	TRACE("group: %s xid %#x option %u number %u count %u stream %u", what, transmission->xid,
	      transmission->option, transmission->number, transmission->count,
	      transmission->stream_length);
}

void rpcordma_trace_marshal(const rpcordma_peer *, rpcordma_u32 xid, rpcordma_u32 credits,
			    rpcordma_u32 proc, rpcordma_u32 header_length,
			    rpcordma_u32 inline_length, rpcordma_u32 send_mode,
			    rpcordma_u32 receive_mode)
{
	TRACE("marshal: xid %#x credits %u proc %u header %u inline %u send mode %u receive mode "
	      "%u",
	      xid, credits, proc, header_length, inline_length, send_mode, receive_mode);
}

void rpcordma_trace_post(const rpcordma_endpoint *, rpcordma_trace_queue, const char *what,
			 rpcordma_u32 xid, rpcordma_u32 work_requests, rpcordma_bool signaled,
			 int result, const void *)
{
	TRACE("post: %s xid %#x, %u requests%s: %d", what, xid, work_requests,
	      signaled ? ", signaled" : "", result);
}

/* The chain has its line. */
void rpcordma_trace_receive_posted(const rpcordma_endpoint *, const void *)
{
}

void rpcordma_trace_completion(const rpcordma_endpoint *, rpcordma_trace_queue, const char *what,
			       int status, rpcordma_u32 byte_len, rpcordma_u32 invalidated_rkey,
			       const void *)
{
	TRACE("completion: %s status %d, %u bytes, invalidated %#x", what, status, byte_len,
	      invalidated_rkey);
}

void rpcordma_trace_region(const rpcordma_peer *, const char *what, rpcordma_u32 xid,
			   const rpcordma_region *, const rpcordma_mapping *mapping)
{
	TRACE("region: %s xid %#x rkey %#x %u@%#llx", what, xid, mapping->rkey, mapping->length,
	      mapping->iova);
}

void rpcordma_trace_credits(const rpcordma_peer *, rpcordma_u32 from, rpcordma_u32 to)
{
	TRACE("credits: %u to %u", from, to);
}

void rpcordma_trace_reply(const rpcordma_peer *, const char *what, rpcordma_u32 xid,
			  rpcordma_u32 credits, rpcordma_u32 proc, int result)
{
	TRACE("message: %s xid %#x credits %u proc %u: %d", what, xid, credits, proc, result);
}

void rpcordma_trace_decode(const rpcordma_peer *, const rpcordma_trace_call *call)
{
	TRACE("decode: xid %#x credits %u proc %u header %u inline %u, segments read %u write %u "
	      "reply %u",
	      call->xid, call->credits, call->proc, call->header_length, call->inline_length,
	      call->read_segments, call->write_segments, call->reply_segments);
}

void rpcordma_trace_encode(const rpcordma_peer *, const rpcordma_trace_answer *answer)
{
	TRACE("encode: xid %#x credits %u proc %u header %u inline %u write %u reply %u in %u "
	      "sends",
	      answer->xid, answer->credits, answer->proc, answer->header_length,
	      answer->inline_length, answer->write_length, answer->reply_length,
	      answer->transmissions);
}

#define RPCORDMA_NAME(name, text) #name,
void rpcordma_trace_failure(rpcordma_failure which, const rpcordma_peer *, rpcordma_u32 xid,
			    int value)
{
	static const char *const names[] = {RPCORDMA_FAILURES(RPCORDMA_NAME)};

	TRACE("failure: %s xid %#x: %d", names[which], xid, value);
	faults.receives_failed += which == RPCORDMA_FAILURE_receive_alloc_failed ||
				  which == RPCORDMA_FAILURE_receive_map_failed;
	/* What was planned can be encoded: another error would only cost the connection, and hide that. */
	REQUIRE((which != RPCORDMA_FAILURE_reply_failed && which != RPCORDMA_FAILURE_marshal_failed) ||
			value != -EINVAL,
		"%s: a header that was planned, and cannot be encoded", names[which]);
}

void rpcordma_trace_loss(rpcordma_loss which, const rpcordma_peer *, int value)
{
	static const char *const names[] = {RPCORDMA_LOSSES(RPCORDMA_NAME)};

	TRACE("connection: %s: %d", names[which], value);
}

void rpcordma_trace_bulk(rpcordma_bulk_event which, const rpcordma_peer *, rpcordma_u32 xid,
			 rpcordma_u32 pieces, rpcordma_u32 length)
{
	static const char *const names[] = {RPCORDMA_BULK_EVENTS(RPCORDMA_NAME)};

	TRACE("memory: %s xid %#x, %u bytes in %u pieces", names[which], xid, length, pieces);
}
#undef RPCORDMA_NAME
