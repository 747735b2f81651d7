// SPDX-License-Identifier: GPL-2.0-only
/* The client's side of sunrpc of the double of the port; see test_rdma_port_sunrpc.hh. No tests here. */
#include "kunit/test_rdma_port.hh"
#include "module/client/client.hh"

struct rpcordma_tunables rpcordma_tunables;

using namespace rpcordma;

/* A client has one transport, of which its requests were made, and names no other. */
static const rpc_xprt *transport;

static void expect_own(const rpc_xprt *xprt)
{
	EXPECT_EQ(xprt, transport);
}

/* What a sender may be short of: room in the send queue, and regions, which calls keep of which the peer has none. */
struct Space {
	u32 room, regions;
	bool marker;
};

static Space space()
{
	const auto *c = static_cast<const Connection *>(the_port->verbs.requester);
	Client &client = *c->client;
	Space space = {0, 0, c->send_queue.has_marker()};

	while (c->send_queue.has_room(space.room + 1, 0))
		space.room++;
	for (const bool gaps : {false, true})
		for (const RegionList *list : {&client.pool.of(gaps), &client.at_hand.of(gaps)})
			for (Region *region = list->front(); region; region = list->next(region))
				space.regions++;
	for (Call *call = client.all.front(); call; call = client.all.next(call)) {
		if (call->get_state() != CallState::idle && call->plan.rkeys())
			continue;
		for (Region *region = call->spare.front(); region; region = call->spare.next(region))
			space.regions++;
	}
	return space;
}

/* A task waits for room, and how much there was; nobody wishes for it before one does. */
static bool waiting;
static Space missed;
/* The request that is being sent, or was last. */
static const rpc_rqst *sender;

/* Whose reply was placed, and not handed over yet. */
static const rpc_rqst *placed;

/* --- sunrpc.h --- */

rpc_rqst *rpcordma_rqst_create(rpc_xprt *xprt)
{
	transport = xprt;
	placed = nullptr;
	waiting = false;
	sender = nullptr;
	for (rpc_rqst *&slot : the_port->sunrpc.requests) {
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
	for (rpc_rqst *&slot : the_port->sunrpc.requests) {
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
	the_port->client_ledger.know(rqst->xid);
	sender = rqst;
	*request = {&rqst->send,       &rqst->receive, rqst->xid,      the_port->sunrpc.connected,
		    rqst->sent_before, !rqst->one_way, !rqst->foreign, rqst->ddp_allowed};
}

rpcordma_bool rpcordma_rqst_take_credit(rpc_rqst *rqst)
{
	if (rqst->credit)
		return true;
	if (the_port->sunrpc.in_flight >= the_port->sunrpc.window)
		return false;
	the_port->sunrpc.in_flight++;
	rqst->credit = true;
	return true;
}

void rpcordma_rqst_sent(rpc_rqst *rqst)
{
	the_port->client_ledger.sending(rqst->xid);
}

int rpcordma_fill_sparse_pages(rpcordma_xdr_buf *buf)
{
	const int error = the_port->sunrpc.sparse_pages;

	the_port->sunrpc.filled++;
	EXPECT_TRUE(buf->flags & RPCORDMA_XDRBUF_SPARSE_PAGES);
	for (const rpc_rqst *rqst : the_port->sunrpc.requests)
		if (error && rqst && &rqst->receive == buf)
			the_port->client_ledger.failed(RPCORDMA_FAILURE_pages_missing, rqst->xid,
						       error);
	return error;
}

rpc_rqst *rpcordma_rqst_find_pin(rpc_xprt *xprt, rpcordma_u32 xid)
{
	expect_own(xprt);
	for (rpc_rqst *rqst : the_port->sunrpc.requests)
		if (rqst && rqst->waiting && rqst->xid == xid) {
			EXPECT_FALSE(rqst->pinned);
			rqst->pinned = true;
			the_port->client_ledger.replied(xid);
			return rqst;
		}
	the_port->sunrpc.bad_xids++;
	the_port->client_ledger.replied(xid);
	return nullptr;
}

void rpcordma_rqst_unpin(rpc_rqst *rqst)
{
	EXPECT_TRUE(rqst->pinned);
	/* Its task may give the call up at once: nobody is at its reply. */
	const CallState state = rqst->call->get_state();
	EXPECT_TRUE(state != CallState::posting && state != CallState::early &&
		    state != CallState::replied);
	rqst->pinned = false;
}

void rpcordma_rqst_complete(rpc_rqst *rqst, int result)
{
	EXPECT_TRUE(rqst->pinned);
	EXPECT_TRUE(rqst->call->mapped.empty());
	EXPECT_FALSE(rqst->call->is_read());
	/* It may be another task's call at once. */
	EXPECT_EQ(rqst->call->get_state(), CallState::idle);
	EXPECT_EQ(rqst->call->held, nullptr);
	rqst->pinned = rqst->waiting = false;
	EXPECT_EQ(rqst->completed, 0);
	/* Who has a reply knows where it lies. */
	if (result >= 0)
		EXPECT_EQ(placed, rqst);
	placed = nullptr;
	rqst->completed++;
	rqst->result = result;
}

void rpcordma_rqst_set_reply(rpc_rqst *rqst, rpcordma_u32 head, rpcordma_u32 pages,
			     rpcordma_u32 less)
{
	placed = rqst;
	rqst->receive.head.length = head;
	rqst->receive.page_length = pages;
	rqst->receive.buflen -= less;
}

static void copy_pages(const rpcordma_xdr_buf *buf, u32 offset, u8 *bytes, u32 length, bool to)
{
	EXPECT_NE(length, 0);
	EXPECT_LE(u64(offset) + length, buf->page_length);
	offset += buf->page_base;
	for (u32 i = 0; i < length; i++, offset++) {
		u8 &in_page = buf->pages[offset / kPage]->data[offset % kPage];

		(to ? in_page : bytes[i]) = to ? bytes[i] : in_page;
	}
}

void rpcordma_copy_to_pages(rpcordma_xdr_buf *buf, rpcordma_u32 offset, const void *from,
			    rpcordma_u32 length)
{
	copy_pages(buf, offset, static_cast<u8 *>(const_cast<void *>(from)), length, true);
	the_port->sunrpc.page_bytes += length;
}

void rpcordma_copy_from_pages(const rpcordma_xdr_buf *buf, rpcordma_u32 offset, void *to,
			      rpcordma_u32 length)
{
	copy_pages(buf, offset, static_cast<u8 *>(to), length, false);
}

const rpcordma_peer *rpcordma_xprt_peer(const rpc_xprt *)
{
	/* Any that is none. */
	return reinterpret_cast<const rpcordma_peer *>(&rpcordma_tunables);
}

rpcordma_bool rpcordma_xprt_take_credits(rpc_xprt *xprt, rpcordma_u32 credits, rpcordma_u32 share)
{
	expect_own(xprt);
	PortSunrpc &sunrpc = the_port->sunrpc;

	const u32 kept = share ? (sunrpc.window + share - 1) / share : 0;
	if (sunrpc.in_flight + credits + kept > sunrpc.window)
		return false;
	sunrpc.in_flight += credits;
	return true;
}

void rpcordma_xprt_return_credits(rpc_xprt *xprt, rpcordma_u32 credits)
{
	expect_own(xprt);
	EXPECT_GE(the_port->sunrpc.in_flight, credits);
	the_port->sunrpc.in_flight -= credits;
}

void rpcordma_xprt_set_credits(rpc_xprt *xprt, rpcordma_u32 credits)
{
	expect_own(xprt);
	the_port->client_ledger.granted(credits);
	the_port->sunrpc.window = credits;
}

void rpcordma_xprt_reset_credits(rpc_xprt *xprt, rpcordma_u32 credits)
{
	expect_own(xprt);
	the_port->client_ledger.begun(credits);
	the_port->sunrpc.conversed = 0;
	the_port->sunrpc.window = credits;
	the_port->sunrpc.in_flight = 0;
}

void rpcordma_xprt_return_credit(rpc_xprt *xprt, rpc_rqst *rqst)
{
	expect_own(xprt);
	if (rqst->credit)
		the_port->sunrpc.in_flight--;
	rqst->credit = false;
}

void rpcordma_rqst_forget_credit(rpc_rqst *rqst)
{
	rqst->credit = false;
}

void rpcordma_xprt_conversed(rpc_xprt *xprt)
{
	expect_own(xprt);
	the_port->sunrpc.conversed++;
}

void rpcordma_xprt_force_disconnect(rpc_xprt *xprt)
{
	expect_own(xprt);
	the_port->sunrpc.force_disconnects++;
}

void rpcordma_xprt_closed(rpc_xprt *xprt)
{
	expect_own(xprt);
	/* There is none any more. */
	EXPECT_EQ(the_port->verbs.requester, nullptr);
	the_port->sunrpc.closes++;
}

void rpcordma_xprt_wait_for_space(rpc_xprt *xprt)
{
	expect_own(xprt);
	const auto *c = static_cast<const Connection *>(the_port->verbs.requester);
	EXPECT_TRUE(waiting || !c->client->wants_space.load());
	waiting = true;
	missed = space();
	the_port->sunrpc.space_waits++;
}

void rpcordma_xprt_write_space(rpc_xprt *xprt)
{
	expect_own(xprt);
	/* Who is called looks for more than there was; scratch memory takes back at once what a call that is given up returns. */
	if (sender && the_port->verbs.requester && !rpcordma_tunables.scratch_remap) {
		const Space now = space();

		EXPECT_TRUE(now.room > missed.room || now.regions > missed.regions ||
			    now.marker > missed.marker);
	}
	waiting = false;
	the_port->sunrpc.spaces++;
}

rpcordma_bool rpcordma_xprt_wake_backlog(rpc_xprt *xprt, rpc_rqst *rqst)
{
	expect_own(xprt);
	PortSunrpc &sunrpc = the_port->sunrpc;

	EXPECT_EQ(the_port->sync.locks_held, 0);
	EXPECT_GT(sunrpc.backlog, 0);
	sunrpc.backlog--;
	if (sunrpc.deaf) {
		sunrpc.deaf--;
		return false;
	}
	sunrpc.woken = rqst;
	return true;
}

rpcordma_bool rpcordma_xprt_has_backlog(rpc_xprt *xprt)
{
	expect_own(xprt);
	return the_port->sunrpc.backlog != 0;
}

void PortSunrpc::check(rpcordma_client *client)
{
	the_port->sync.now += check_delay;
	check_delay = 0;
	rpcordma_core_client_check(client);
}

void rpcordma_xprt_queue_refill(rpc_xprt *xprt, rpcordma_u32 delay)
{
	expect_own(xprt);
	the_port->sunrpc.refills++;
	the_port->sunrpc.refill_delay = delay;
}

void rpcordma_xprt_queue_check(rpc_xprt *xprt, rpcordma_u32 delay)
{
	expect_own(xprt);
	/* It may be due at once: there is something to be checked. */
	const auto *c = static_cast<const Connection *>(the_port->verbs.requester);
	Client &client = *c->client;
	bool some = !client.zombies.empty();
	for (Call *call = client.all.front(); call; call = client.all.next(call))
		some = some || call->invalidating.load();
	EXPECT_TRUE(some);
	the_port->sunrpc.checks++;
	if (!the_port->sunrpc.check_delay)
		the_port->sunrpc.check_delay = delay;
}

rpcordma_u32 rpcordma_xprt_connect_limit_ms(rpc_xprt *xprt)
{
	expect_own(xprt);
	return 1000;
}

void rpcordma_xprt_set_max_payload(rpc_xprt *xprt, rpcordma_u32 bytes)
{
	expect_own(xprt);
	the_port->sunrpc.max_payload = bytes;
}

rpcordma_bool rpcordma_xprt_has_bc_service(rpc_xprt *xprt)
{
	expect_own(xprt);
	return the_port->sunrpc.service;
}

void rpcordma_bc_rqst_init(rpc_rqst *rqst, rpc_xprt *xprt, void *reply_buffer,
			   rpcordma_u32 reply_size)
{
	expect_own(xprt);
	rpcordma_rqst_reset(rqst);
	rqst->send.head = {reply_buffer, 0};
	rqst->send.buflen = reply_size;
}

rpcordma_bool rpcordma_bc_rqst_submit(rpc_rqst *rqst, rpcordma_u32 xid, void *message,
				      rpcordma_u32 length)
{
	if (the_port->sunrpc.busy)
		return false;
	rqst->xid = xid;
	rqst->message = message;
	rqst->message_length = length;
	the_port->sunrpc.backward = rqst;
	the_port->sunrpc.backward_calls++;
	return true;
}

void rpcordma_bc_take_back(rpc_xprt *xprt)
{
	expect_own(xprt);
	the_port->sunrpc.taken_back++;
}

void rpcordma_bc_rqst_done(rpc_xprt *xprt)
{
	expect_own(xprt);
	the_port->sunrpc.backward_done++;
	the_port->sunrpc.holds_at_done = the_port->sync.holds;
}
