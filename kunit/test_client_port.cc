// SPDX-License-Identifier: GPL-2.0-only
/* The port's doubles for the tests of module/client; see test_client_port.hh. No tests here. */
#include "kunit/test_client_port.hh"

struct rpcordma_mutex {
	bool held;
};

struct rpcordma_event {
	bool raised;
};

struct rpcordma_tunables rpcordma_tunables;

namespace rpcordma {

rpc_rqst *FakeClientPort::requests[kRequests];
u32 FakeClientPort::window, FakeClientPort::in_flight;
u32 FakeClientPort::bad_xids, FakeClientPort::force_disconnects, FakeClientPort::closes;
u32 FakeClientPort::space_waits, FakeClientPort::spaces, FakeClientPort::checks;
u32 FakeClientPort::refills, FakeClientPort::refill_delay;
bool FakeClientPort::connected, FakeClientPort::service, FakeClientPort::busy,
	FakeClientPort::closing;
u32 FakeClientPort::backward_calls, FakeClientPort::backward_done;
rpc_rqst *FakeClientPort::backward;
u8 FakeClientPort::answer[64];
u32 FakeClientPort::answer_length;
u32 FakeClientPort::kept_room, FakeClientPort::kept_markers;

static u32 mutexes, events;

FakeClientPort::FakeClientPort()
{
	for (rpc_rqst *&rqst : requests)
		rqst = nullptr;
	window = in_flight = 0;
	bad_xids = force_disconnects = closes = space_waits = spaces = checks = 0;
	refills = refill_delay = 0;
	connected = true;
	service = busy = closing = false;
	backward_calls = backward_done = 0;
	backward = nullptr;
	answer_length = kept_room = kept_markers = 0;
	mutexes = events = 0;
	rpcordma_tunables = {};
	rpcordma_tunables.slot_table_entries = 8;
	rpcordma_tunables.max_inline_read = rpcordma_tunables.max_inline_write = 4096;
}

Requester::Requester()
{
	core = reinterpret_cast<Client *>(test_alloc(rpcordma_core_client_size()).data());
	__builtin_memset(static_cast<void *>(core), 0, rpcordma_core_client_size());
	/* A transport is only a name here. */
	EXPECT_EQ(rpcordma_core_client_create(core, reinterpret_cast<rpc_xprt *>(core), kSlots), 0);
}

Requester::~Requester()
{
	balance();
	rpcordma_core_client_close(core);
	/* Without a connection nothing is owed, and nothing can be registered or reserved. */
	const ClientAudit a = audit(*core);
	EXPECT_EQ(a.free, a.calls - in_use);
	EXPECT_EQ(a.zombies, 0);
	EXPECT_EQ(a.unfenced, 0);
	EXPECT_EQ(a.listed, 0);
	EXPECT_EQ(a.owners, backward_calls - backward_done);
	EXPECT_EQ(a.backward_free, a.backward - a.owners);
	rpcordma_core_client_destroy(core);
	for (rpc_rqst *rqst : requests)
		EXPECT_EQ(rqst, nullptr);
	EXPECT_EQ(mutexes, 0);
	EXPECT_EQ(events, 0);
	requester = nullptr;
}

void Requester::connect(const private_data::Properties *server, bool backchannel)
{
	answer_length = server ? private_data::encode(answer, *server).value() : 0;
	if (backchannel) {
		service = true;
		EXPECT_EQ(rpcordma_core_bc_setup(core, 1), 0);
	}
	EXPECT_EQ(rpcordma_core_client_connect(core), 0);
}

void Requester::balance()
{
	const ClientAudit a = audit(*core);

	EXPECT_EQ(FakeServerPort::sends, 0);
	EXPECT_EQ(a.free + a.zombies + in_use, a.calls);
	EXPECT_EQ(a.listed, a.regions);
	EXPECT_EQ(a.reserved, a.mapped + kept_room);
	EXPECT_EQ(a.markers, kept_markers);
	/* What a post that failed has counted, the end of the connection takes along. */
	if (core->connection && !core->connection->broken)
		EXPECT_EQ(a.lost, 0);
	EXPECT_EQ(a.owners, backward_calls - backward_done);
	EXPECT_EQ(a.backward_free, a.backward - a.owners);

	/* Whoever gave back room or a region has called a sender that waits. */
	const bool waits = core->wants_space.load(std::memory_order_relaxed);
	u32 pool = 0;
	for (Region *region = core->pool.front(); region; region = core->pool.next(region))
		pool++;
	if (waited_ && waits) {
		EXPECT_GE(a.reserved, reserved_);
		EXPECT_LE(pool, pool_);
	}
	waited_ = waits;
	reserved_ = a.reserved;
	pool_ = pool;
}

void Requester::at_rest()
{
	balance();
	EXPECT_TRUE(audit(*core).at_rest());
	EXPECT_EQ(in_flight, 0);
}

rpc_rqst *Requester::prepare(u32 xid, u32 size, u32 reply_size)
{
	rpc_rqst *rqst = rpcordma_core_alloc_slot(core);
	void *call_buffer, *reply_buffer;

	if (!rqst)
		return nullptr;
	in_use++;
	EXPECT_EQ(rpcordma_core_buf_alloc(core, rqst->call, kRoom, kRoom, &call_buffer,
					  &reply_buffer),
		  0);
	u8 *bytes = static_cast<u8 *>(call_buffer);
	for (u32 i = 0; i < size; i++)
		bytes[i] = call_pattern(i);
	if (size >= 8) {
		xdr::store_be32(bytes, xid);
		xdr::store_be32(bytes + 4, 0);
	}
	__builtin_memset(reply_buffer, 0xee, kRoom);
	rqst->xid = xid;
	rqst->ddp_allowed = true;
	rqst->send = {};
	rqst->send.head = {call_buffer, size};
	rqst->send.len = rqst->send.buflen = size;
	rqst->receive = {};
	rqst->receive.head = {reply_buffer, reply_size};
	rqst->receive.buflen = reply_size;
	rqst->completed = 0;
	rqst->waiting = true;
	return rqst;
}

void Requester::add_pages(rpc_rqst *rqst, u32 size, bool of_reply)
{
	rpcordma_xdr_buf &buf = of_reply ? rqst->receive : rqst->send;
	const u32 count = div_round_up(size, u32(kPageSize));

	buf.pages = reinterpret_cast<page **>(test_alloc(count * sizeof(page *)).data());
	for (u32 i = 0; i < count; i++) {
		page *p = reinterpret_cast<page *>(test_alloc(sizeof(page)).data());

		p->data = test_alloc(kPageSize).data();
		for (u32 n = 0; n < kPageSize; n++)
			p->data[n] = of_reply ? 0xee : pattern(i * kPageSize + n);
		buf.pages[i] = p;
	}
	buf.page_length = size;
	buf.buflen += size;
	if (!of_reply)
		buf.len += size;
	/* As sunrpc has it: the pad of an item in pages is the tail. */
	if (!of_reply && xdr_pad(size)) {
		buf.tail = {static_cast<u8 *>(buf.head.base) + kRoom / 2, xdr_pad(size)};
		__builtin_memset(buf.tail.base, 0, xdr_pad(size));
		buf.len += xdr_pad(size);
	}
	buf.flags |= of_reply ? RPCORDMA_XDRBUF_READ : RPCORDMA_XDRBUF_WRITE;
}

int Requester::transmit(rpc_rqst *rqst)
{
	const int rc = rpcordma_core_send_request(core, rqst->call);

	work();
	balance();
	return rc;
}

rpc_rqst *Requester::call(u32 xid, u32 size, u32 reply_size)
{
	rpc_rqst *rqst = prepare(xid, size, reply_size);

	EXPECT_NE(rqst, nullptr);
	if (rqst)
		EXPECT_EQ(transmit(rqst), 0);
	return rqst;
}

void Requester::done(rpc_rqst *rqst)
{
	rqst->waiting = false;
	rpcordma_core_buf_free(core, rqst->call);
	if (rqst->credit && rpcordma_core_release_credit(core, rqst->call)) {
		rqst->credit = false;
		in_flight--;
	}
	rpcordma_core_free_slot(core, rqst->call);
	in_use--;
	work();
	balance();
}

bool Requester::deliver(Bytes message, u32 invalidate)
{
	const ExactCopy copy(message);
	const bool there = send(nullptr, copy.bytes(), invalidate);

	work();
	balance();
	return there;
}

bool Requester::reply(u32 xid, u32 size, u32 credits, u32 invalidate)
{
	CallMaker reply(xid, credits);

	reply.finish(size, 1);
	return deliver(reply.message(), invalidate);
}

bool Requester::words(Span<const u32> words)
{
	u8 bytes[256];
	u32 at = 0;

	for (u32 word : words) {
		xdr::store_be32(bytes + at, word);
		at += 4;
	}
	return deliver({bytes, at});
}

v1::Header Requester::sent()
{
	Result<v1::Header> header = v1::decode({message, message_length});

	EXPECT_OK(header);
	return header.ok() ? header.value() : v1::Header();
}

} // namespace rpcordma

using namespace rpcordma;

/* --- base.h --- */

rpcordma_u32 rpcordma_page_size(void)
{
	return 4096;
}

rpcordma_mutex *rpcordma_mutex_create(rpcordma_mutex_class)
{
	auto *mutex = static_cast<rpcordma_mutex *>(rpcordma_test_alloc(sizeof(rpcordma_mutex)));

	mutex->held = false;
	mutexes++;
	return mutex;
}

void rpcordma_mutex_destroy(rpcordma_mutex *mutex)
{
	EXPECT_FALSE(mutex->held);
	rpcordma_test_free(mutex, sizeof(*mutex));
	mutexes--;
}

/* The connection whose closing the one mutex there is, the fence, protects; null without. */
static const Connection *fenced()
{
	return static_cast<const Connection *>(FakeServerPort::requester);
}

void rpcordma_mutex_lock(rpcordma_mutex *mutex)
{
	EXPECT_TRUE(FakePort::may_sleep);
	EXPECT_EQ(FakeServerPort::locks_held, 0);
	EXPECT_FALSE(mutex->held);
	if (fenced())
		EXPECT_EQ(fenced()->closing, FakeClientPort::closing);
	mutex->held = true;
}

void rpcordma_mutex_unlock(rpcordma_mutex *mutex)
{
	EXPECT_TRUE(mutex->held);
	FakeClientPort::closing = fenced() && fenced()->closing;
	mutex->held = false;
}

rpcordma_event *rpcordma_event_create(void)
{
	auto *event = static_cast<rpcordma_event *>(rpcordma_test_alloc(sizeof(rpcordma_event)));

	event->raised = false;
	events++;
	return event;
}

void rpcordma_event_destroy(rpcordma_event *event)
{
	rpcordma_test_free(event, sizeof(*event));
	events--;
}

void rpcordma_event_reset(rpcordma_event *event)
{
	event->raised = false;
}

void rpcordma_event_raise(rpcordma_event *event)
{
	event->raised = true;
}

/* Who waits has only the device to wait for; or the end of the connection. */
void rpcordma_event_wait(rpcordma_event *event)
{
	EXPECT_TRUE(FakePort::may_sleep);
	EXPECT_EQ(FakeServerPort::locks_held, 0);
	while (!event->raised) {
		if (FakeServerPort::work(1))
			continue;
		auto *c = static_cast<Connection *>(FakeServerPort::requester);

		EXPECT_TRUE(c && c->broken);
		if (!c || !c->broken)
			return;
		rpcordma_core_client_close(c->client);
	}
}

/* --- trace.h --- */

void rpcordma_trace_marshal(const rpcordma_peer *, rpcordma_u32, rpcordma_u32, rpcordma_u32,
			    rpcordma_u32, rpcordma_u32, rpcordma_u32, rpcordma_u32)
{
}

void rpcordma_trace_region(const rpcordma_peer *, const char *, rpcordma_u32, rpcordma_u32,
			   rpcordma_u32, rpcordma_u64)
{
}

/* --- verbs.h --- */

rpcordma_endpoint *rpcordma_endpoint_create(rpc_xprt *, void *context, int *)
{
	FakeServerPort::new_queue_pair();
	FakeServerPort::requester = context;
	FakeClientPort::closing = false;
	FakeClientPort::kept_room = FakeClientPort::kept_markers = 0;
	return FakePort::endpoint();
}

int rpcordma_endpoint_resolve(rpcordma_endpoint *, rpcordma_u32)
{
	return 0;
}

int rpcordma_endpoint_connect(rpcordma_endpoint *, const rpcordma_connect_parameters *parameters,
			      rpcordma_u32)
{
	FakeServerPort::parameters = *parameters;
	__builtin_memcpy(FakeServerPort::private_data, parameters->private_data,
			 parameters->private_data_length);
	return 0;
}

const void *rpcordma_endpoint_private_data(const rpcordma_endpoint *, rpcordma_u32 *length)
{
	*length = FakeClientPort::answer_length;
	return FakeClientPort::answer;
}

/* --- sunrpc.h --- */

rpc_rqst *rpcordma_rqst_create(rpc_xprt *)
{
	for (rpc_rqst *&slot : FakeClientPort::requests) {
		if (slot)
			continue;
		slot = static_cast<rpc_rqst *>(rpcordma_test_alloc(sizeof(rpc_rqst)));
		__builtin_memset(slot, 0, sizeof(*slot));
		slot->call =
			static_cast<rpcordma_call *>(rpcordma_test_alloc(rpcordma_core_call_size()));
		__builtin_memset(static_cast<void *>(slot->call), 0, rpcordma_core_call_size());
		return slot;
	}
	EXPECT_TRUE(false);
	return nullptr;
}

void rpcordma_rqst_destroy(rpc_rqst *rqst)
{
	for (rpc_rqst *&slot : FakeClientPort::requests) {
		if (slot != rqst)
			continue;
		slot = nullptr;
		rpcordma_test_free(rqst->call, rpcordma_core_call_size());
		rpcordma_test_free(rqst, sizeof(*rqst));
		return;
	}
	EXPECT_TRUE(false);
}

rpcordma_call *rpcordma_rqst_call(rpc_rqst *rqst)
{
	return rqst->call;
}

void rpcordma_rqst_reset(rpc_rqst *rqst)
{
	rpcordma_call *const call = rqst->call;

	EXPECT_FALSE(rqst->credit);
	*rqst = {};
	rqst->call = call;
}

void rpcordma_rqst_get(rpc_rqst *rqst, rpcordma_request *request)
{
	*request = {&rqst->send,       &rqst->receive, rqst->xid,      FakeClientPort::connected,
		    rqst->sent_before, !rqst->one_way, !rqst->foreign, rqst->ddp_allowed};
}

rpcordma_bool rpcordma_rqst_take_credit(rpc_rqst *rqst)
{
	if (rqst->credit)
		return true;
	if (FakeClientPort::in_flight >= FakeClientPort::window)
		return false;
	FakeClientPort::in_flight++;
	rqst->credit = true;
	return true;
}

void rpcordma_rqst_sent(rpc_rqst *)
{
}

int rpcordma_fill_sparse_pages(rpcordma_xdr_buf *)
{
	return 0;
}

rpc_rqst *rpcordma_rqst_find_pin(rpc_xprt *, rpcordma_u32 xid)
{
	for (rpc_rqst *rqst : FakeClientPort::requests)
		if (rqst && rqst->waiting && rqst->xid == xid) {
			EXPECT_FALSE(rqst->pinned);
			rqst->pinned = true;
			return rqst;
		}
	return nullptr;
}

void rpcordma_rqst_unpin(rpc_rqst *rqst)
{
	EXPECT_TRUE(rqst->pinned);
	rqst->pinned = false;
}

void rpcordma_rqst_complete(rpc_rqst *rqst, int result)
{
	EXPECT_TRUE(rqst->pinned);
	EXPECT_TRUE(rqst->call->mapped.empty());
	rqst->pinned = rqst->waiting = false;
	EXPECT_EQ(rqst->completed, 0);
	rqst->completed++;
	rqst->result = result;
}

void rpcordma_rqst_set_reply(rpc_rqst *rqst, rpcordma_u32 head, rpcordma_u32 pages,
			     rpcordma_u32 less)
{
	rqst->receive.head.length = head;
	rqst->receive.page_length = pages;
	rqst->receive.buflen -= less;
}

static void copy_pages(const rpcordma_xdr_buf *buf, u32 offset, u8 *bytes, u32 length, bool to)
{
	EXPECT_LE(u64(offset) + length, buf->page_length);
	offset += buf->page_base;
	for (u32 i = 0; i < length; i++, offset++) {
		u8 &in_page = buf->pages[offset / FakeServerPort::kPageSize]
				      ->data[offset % FakeServerPort::kPageSize];

		(to ? in_page : bytes[i]) = to ? bytes[i] : in_page;
	}
}

void rpcordma_copy_to_pages(rpcordma_xdr_buf *buf, rpcordma_u32 offset, const void *from,
			    rpcordma_u32 length)
{
	copy_pages(buf, offset, static_cast<u8 *>(const_cast<void *>(from)), length, true);
}

void rpcordma_copy_from_pages(const rpcordma_xdr_buf *buf, rpcordma_u32 offset, void *to,
			      rpcordma_u32 length)
{
	copy_pages(buf, offset, static_cast<u8 *>(to), length, false);
}

const rpcordma_peer *rpcordma_xprt_peer(const rpc_xprt *)
{
	return nullptr;
}

void rpcordma_xprt_set_credits(rpc_xprt *, rpcordma_u32 credits)
{
	FakeClientPort::window = credits;
}

void rpcordma_xprt_reset_credits(rpc_xprt *, rpcordma_u32 credits)
{
	FakeClientPort::window = credits;
	FakeClientPort::in_flight = 0;
}

void rpcordma_xprt_return_credit(rpc_xprt *, rpc_rqst *rqst)
{
	if (rqst->credit)
		FakeClientPort::in_flight--;
	rqst->credit = false;
}

void rpcordma_rqst_forget_credit(rpc_rqst *rqst)
{
	rqst->credit = false;
}

void rpcordma_xprt_conversed(rpc_xprt *)
{
}

void rpcordma_xprt_count_bad_xid(rpc_xprt *)
{
	FakeClientPort::bad_xids++;
}

void rpcordma_xprt_force_disconnect(rpc_xprt *)
{
	FakeClientPort::force_disconnects++;
}

void rpcordma_xprt_closed(rpc_xprt *)
{
	FakeClientPort::closes++;
}

void rpcordma_xprt_wait_for_space(rpc_xprt *)
{
	FakeClientPort::space_waits++;
}

void rpcordma_xprt_write_space(rpc_xprt *)
{
	FakeClientPort::spaces++;
}

rpcordma_bool rpcordma_xprt_wake_backlog(rpc_xprt *, rpc_rqst *)
{
	return false;
}

rpcordma_bool rpcordma_xprt_has_backlog(rpc_xprt *)
{
	return false;
}

void rpcordma_xprt_queue_refill(rpc_xprt *, rpcordma_u32 delay)
{
	FakeClientPort::refills++;
	FakeClientPort::refill_delay = delay;
}

void rpcordma_xprt_queue_check(rpc_xprt *, rpcordma_u32)
{
	FakeClientPort::checks++;
}

rpcordma_u32 rpcordma_xprt_connect_limit_ms(rpc_xprt *)
{
	return 1000;
}

void rpcordma_xprt_set_max_payload(rpc_xprt *, rpcordma_u32)
{
}

rpcordma_bool rpcordma_xprt_has_bc_service(rpc_xprt *)
{
	return FakeClientPort::service;
}

void rpcordma_bc_rqst_init(rpc_rqst *rqst, rpc_xprt *, void *reply_buffer, rpcordma_u32 reply_size)
{
	rpcordma_rqst_reset(rqst);
	rqst->send.head = {reply_buffer, 0};
	rqst->send.buflen = reply_size;
}

rpcordma_bool rpcordma_bc_rqst_submit(rpc_rqst *rqst, rpcordma_u32 xid, void *message,
				      rpcordma_u32 length)
{
	if (FakeClientPort::busy)
		return false;
	rqst->xid = xid;
	rqst->message = message;
	rqst->message_length = length;
	FakeClientPort::backward = rqst;
	FakeClientPort::backward_calls++;
	return true;
}

void rpcordma_bc_rqst_done(rpc_xprt *)
{
	FakeClientPort::backward_done++;
}
