// SPDX-License-Identifier: GPL-2.0-only
/* A client for the tests of module/client; see test_client_requester.hh. No tests here. */
#include "kunit/test_client_requester.hh"

namespace rpcordma {

Requester::Requester()
{
	core = reinterpret_cast<Client *>(test_alloc(rpcordma_core_client_size()).data());
	__builtin_memset(static_cast<void *>(core), 0, rpcordma_core_client_size());
	/* A transport is only a name here. */
	EXPECT_EQ(rpcordma_core_client_create(core, reinterpret_cast<rpc_xprt *>(core), kSlots), 0);
}

namespace {

/* A call that is idle has nothing of its last transmission; what others hold beyond their first credit is counted. */
void expect_calls(const Client &core)
{
	const Connection *c = core.connection;
	u32 credits = 0, receives = 0;

	for (Call *call = core.all.front(); call; call = core.all.next(call)) {
		credits += call->credits;
		receives += call->receives;
		credits += !call->backward && call->rqst->credit;
		if (!c)
			EXPECT_EQ(call->get_state(), CallState::idle);
		if (call->get_state() != CallState::idle)
			continue;
		EXPECT_EQ(call->invalidating.load(), 0);
		EXPECT_EQ(call->held, nullptr);
		EXPECT_FALSE(call->pin);
		EXPECT_EQ(call->mapped_count, 0);
		EXPECT_TRUE(call->mapped.empty());
		EXPECT_EQ(call->credits, 0);
		EXPECT_EQ(call->receives, 0);
		EXPECT_TRUE(c || call->spare.empty());
	}
	/* What may be under way when a connection breaks keeps its credits to the end. */
	if (!c || c->broken)
		return;
	EXPECT_EQ(the_port->sunrpc.in_flight, credits);
	if (core.reserve || receives)
		EXPECT_EQ(core.reserve.load() + receives, protocol::kReservedReceives);
}

} // namespace

/* Counters are what happened. */
void Requester::expect_counted()
{
	EXPECT_EQ(stats().bcall_count, sunrpc.backward_calls);
	EXPECT_EQ(stats().empty_sendctx_q, sunrpc.space_waits);
	EXPECT_EQ(stats().fixup_copy_count, sunrpc.page_bytes);
	EXPECT_EQ(stats().mrs_allocated, dma.regions_made);
	EXPECT_EQ(stats().mrs_recycled, client_ledger.drained);
	EXPECT_EQ(stats().local_inv_needed, client_ledger.invalidations);
	EXPECT_EQ(stats().scratch_count, client_ledger.scratch);
	EXPECT_EQ(stats().read_chunk_count + stats().write_chunk_count + stats().reply_chunk_count,
		  client_ledger.registered);
	EXPECT_EQ(stats().total_rdma_request, client_ledger.writable_bytes);
	EXPECT_EQ(stats().nomsg_call_count, client_ledger.nomsgs);
	EXPECT_EQ(stats().repterr_count, log.ever(trace::Failure::repterr_received));
	EXPECT_EQ(stats().failed_marshal_count,
		  log.ever(trace::Failure::marshal_failed) + log.ever(trace::Failure::reduce_failed) +
			  log.ever(trace::Failure::backward_reply_long));
}

void Requester::expect_receives()
{
	static constexpr u8 useless[4] = {};
	const u32 before = verbs.doorbells, failures = log.failures[RPCORDMA_FAILURE_message_short];
	u32 held = 0;

	/* One that takes no Receives any more, or has a part of a message, has others elsewhere. */
	if (!connection() || verbs.broken || verbs.receives_refused ||
	    verbs.receives_left != kNoLimit || connection()->groups.amid())
		return;
	for (Call *call = core->all.front(); call; call = core->all.next(call))
		held += call->held ? call->held->chained() : 0;
	for (u32 i = 0; i < ReceiveQueue::kBatch && verbs.doorbells == before; i++)
		EXPECT_TRUE(deliver(useless));
	EXPECT_EQ(verbs.doorbells, before + 1);
	EXPECT_EQ(verbs.posted + held,
		  connection()->receive_queue.provided() + ReceiveQueue::kBatch);
	/* The case is not to account for these. */
	log.failures[RPCORDMA_FAILURE_message_short] = failures;
}

Requester::~Requester()
{
	balance();
	expect_counted();
	expect_receives();
	rpcordma_core_client_close(core);
	/* Without a connection nothing is owed, and nothing can be registered or reserved. */
	const ClientAudit a = audit(*core);
	EXPECT_EQ(a.free, a.calls - in_use);
	EXPECT_EQ(a.zombies, 0);
	EXPECT_EQ(a.unfenced, 0);
	EXPECT_EQ(a.listed, 0);
	EXPECT_EQ(a.owners, sunrpc.backward_calls - sunrpc.backward_done);
	EXPECT_EQ(a.backward_free, a.backward - a.owners);
	rpcordma_core_client_destroy(core);
	verbs.requester = nullptr;
}

void Requester::connect(const ConnectionTo &to)
{
	verbs.answer_length = to.server ? private_data::encode(verbs.answer, *to.server).value() : 0;
	if (to.backchannel) {
		sunrpc.service = true;
		EXPECT_EQ(rpcordma_core_bc_setup(core, 1), 0);
	}
	EXPECT_EQ(rpcordma_core_client_connect(core), 0);
	if (is_connected())
		EXPECT_EQ(sunrpc.max_payload, chunk::max_payload(connection()->limits));
}

void Requester::balance()
{
	const ClientAudit a = audit(*core);

	client_ledger.balance();
	expect_calls(*core);
	EXPECT_EQ(verbs.sends, 0);
	EXPECT_EQ(a.free + a.zombies + in_use, a.calls);
	EXPECT_EQ(a.listed, a.regions);
	EXPECT_EQ(a.reserved, a.mapped + verbs.kept_room);
	EXPECT_EQ(a.markers, verbs.kept_markers);
	/* What a post that failed has counted, the end of the connection takes along. */
	if (core->connection && !core->connection->broken) {
		EXPECT_EQ(a.lost, 0);
		EXPECT_EQ(sunrpc.conversed, u32(core->connection->served));
	}
	EXPECT_EQ(a.owners, sunrpc.backward_calls - sunrpc.backward_done);
	EXPECT_EQ(a.backward_free, a.backward - a.owners);
	for (Call *call = core->backward_free.front(); call; call = core->backward_free.next(call))
		EXPECT_EQ(call->get_state(), CallState::idle);

	/* Whoever gave back room or a region has called a sender that waits. */
	const bool waits = core->wants_space.load(std::memory_order_relaxed);
	u32 pool = 0;
	for (const bool gaps : {false, true})
		for (Region *region = core->pool.of(gaps).front(); region;
		     region = core->pool.of(gaps).next(region))
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
	EXPECT_EQ(sunrpc.in_flight, 0);
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
	const u32 count = div_round_up(size, u32(kPage));

	buf.pages = reinterpret_cast<page **>(test_alloc(count * sizeof(page *)).data());
	for (u32 i = 0; i < count; i++) {
		page *p = reinterpret_cast<page *>(test_alloc(sizeof(page)).data());

		p->data = test_alloc(kPage).data();
		for (u32 n = 0; n < kPage; n++)
			p->data[n] = of_reply ? 0xee : pattern(i * kPage + n);
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

	verbs.work();
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
	/* Its pages go now. */
	EXPECT_FALSE(rqst->call->is_read());
	if (rqst->credit && rpcordma_core_release_credit(core, rqst->call)) {
		rqst->credit = false;
		sunrpc.in_flight--;
	}
	rpcordma_core_free_slot(core, rqst->call);
	in_use--;
	verbs.work();
	balance();
}

bool Requester::deliver(Bytes message, u32 invalidate)
{
	const ExactCopy copy(message);
	const bool there = verbs.send(nullptr, copy.bytes(), invalidate);

	verbs.work();
	balance();
	return there;
}

bool Requester::reply(u32 xid, u32 size, u32 credits, u32 invalidate)
{
	CallMaker reply(xid, credits);

	reply.finish(size, kReplyMessage);
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

DecodedHeader Requester::sent()
{
	return decoded(peer.last());
}

} // namespace rpcordma
