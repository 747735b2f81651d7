// SPDX-License-Identifier: GPL-2.0-only
/*
 * Connecting and closing: what a connection is made of, in the order in which it is made, and how all
 * of it goes again. Both run in process context with the transport's send lock held, so that nothing is
 * sent meanwhile; completions and buf_free() may run, and teardown_() says how it keeps clear of them.
 */

#include "module/client/client.hh"

#include <new>

#include "xdr/private_data.hh"

using namespace rpcordma;

/* What the in-tree transport allows for each of address and route. */
static constexpr u32 kResolveLimitMs = 5000;

/* When a region could not be made for want of memory. */
static constexpr u32 kRefillRetryMs = 100;

/* Regions made at once: a handful of full-sized calls. */
static constexpr u32 kRegionBatch = 16;
/* A call has at most this many regions in practice: three each for a long call and a long reply. */
static constexpr u32 kRegionsPerCall = 6;
/* Most regions of one call, by what reduction may put into one header. */
static constexpr u32 kMostRegions = 3 * chunk::kMaxSegments;

void Connection::request_close(const char *why, int value)
{
	if (broken.exchange(true, std::memory_order_seq_cst))
		return;
	trace::connection(client->peer, why, value);
	client->back_off.store(true, std::memory_order_relaxed);
	/* Before that, connect() is still at work, and looks at broken when it is done. */
	if (published.load(std::memory_order_seq_cst))
		rpcordma_xprt_force_disconnect(client->xprt);
}

/* The limits of reduction, from what the device says. */
[[nodiscard]] static Status set_limits(Connection &c, const rpcordma_peer *peer)
{
	const rpcordma_device &d = c.device;

	if (!d.fast_registration) {
		rpcordma_log_string(
			peer, RPCORDMA_LOG_ERROR,
			"this device cannot register memory by work request (no memory "
			"management extensions), which NFS over RDMA needs; use another device, "
			"or mount with proto=tcp",
			d.name);
		return Error::not_supported;
	}
	c.limits.page_size = d.page_size;
	c.limits.mr_page_size = d.mr_page_size;
	c.limits.sg_gaps = d.sg_gaps;
	c.limits.max_send_sge = max(1u, d.max_send_sge);
	/* Never the raw attribute: some devices report billions. */
	c.limits.mr_pages = min(d.max_fast_reg_pages, chunk::kMaxPayload / d.mr_page_size + 1);
	/* Inline messages always go out of the call's own wire buffer, with one SGE. */
	c.limits.copy_limit = ~0u;
	if (!c.limits.valid() || !chunk::max_payload(c.limits)) {
		rpcordma_log_string(
			peer, RPCORDMA_LOG_ERROR,
			"this device registers too little memory at once for NFS over RDMA", d.name);
		return Error::not_supported;
	}
	return {};
}

/* Sizes of the queues, and how many calls they allow at once. */
[[nodiscard]] static Result<u32> size_queues(Connection &c, const rpcordma_peer *peer, u32 slots,
					     rpcordma_queue_sizes &sizes)
{
	/* One work request each is for draining. */
	const u32 most = min(c.device.max_qp_wr, c.device.max_cqe);
	const u32 room = most ? most - 1 : 0;
	constexpr u32 receive_extra = 2 * kBackwardCredits + ReceiveQueue::kBatch;
	/* The longest call, twice: a part of the queue may be taken by Sends that nobody hears of. */
	constexpr u32 send_least = 2 * (2 * kMostRegions + 1) + kBackwardCredits + SendQueue::kSlack;
	static_assert(send_least > receive_extra);

	if (room < send_least) {
		rpcordma_log_string(peer, RPCORDMA_LOG_ERROR,
				    "this device's queues are too short for NFS over RDMA",
				    c.device.name);
		return Error::not_supported;
	}
	const u32 requests = min(slots, room - receive_extra);
	/* A Send, a REG_MR and a LOCAL_INV for each call; more regions than one are rare. */
	sizes.send_wrs =
		min(room, max(send_least, requests * 3 + kBackwardCredits + SendQueue::kSlack));
	sizes.receive_wrs = requests + receive_extra;
	sizes.send_sges = 1;
	return requests;
}

u32 rpcordma_client::create_regions(Connection &c, u32 count)
{
	u32 made = 0;

	for (; made < count && c.regions_created.load(std::memory_order_relaxed) < c.regions_limit;
	     made++) {
		Region *region = create_region(c.endpoint, peer, c.limits.mr_pages,
					       c.limits.sg_gaps, RPCORDMA_ALLOC_NOIO);

		if (!region)
			break;
		locked(lock, [&] { pool.push_front(region); });
		c.regions_created.fetch_add(1, std::memory_order_relaxed);
		tally(stats.mrs_allocated, 1);
	}
	return made;
}

void rpcordma_client::refill()
{
	bool short_of_memory = false, made = false;

	{
		MutexGuard guard(fence);

		if (connection && !connection->closing) {
			made = create_regions(*connection, kRegionBatch) != 0;
			short_of_memory = !made && connection->regions_created.load(
							   std::memory_order_relaxed) <
							   connection->regions_limit;
		}
	}
	/* At the limit, the regions that calls give back are what is waited for. */
	if (short_of_memory)
		rpcordma_xprt_queue_refill(xprt, kRefillRetryMs);
	else if (made)
		space_came();
}

/* What a size comes to once it was told the peer: we hold ourselves to what the peer believes. */
[[nodiscard]] static constexpr u32 announced(u32 size)
{
	return private_data::decode_size(private_data::encode_size(size));
}

/* What has to be torn down again when a step fails: teardown_() bears with any that did not happen. */
[[nodiscard]] static Status establish(Client &client, Connection &c)
{
	const rpcordma_peer *peer = client.peer;
	rpcordma_queue_sizes sizes = {};
	u8 message[private_data::length];
	int rc = 0;

	c.endpoint = rpcordma_endpoint_create(client.xprt, &c, &rc);
	if (!c.endpoint)
		return from_errno(rc);
	if ((rc = rpcordma_endpoint_resolve(c.endpoint, kResolveLimitMs)) < 0) {
		trace::connection(peer, "not resolved", rc);
		return from_errno(rc);
	}
	rpcordma_endpoint_device(c.endpoint, &c.device);
	TRY_STATUS(set_limits(c, peer));
	const u32 requests = TRY(size_queues(c, peer, client.slots, sizes));
	c.credits = RequesterCredits(requests);
	c.regions_limit = requests * kRegionsPerCall;
	c.send_queue.init(sizes.send_wrs - SendQueue::kSlack);
	rpcordma_cqe_init(&c.silent_send_cqe, RPCORDMA_CQE_SEND);
	rpcordma_cqe_init(&c.silent_register_cqe, RPCORDMA_CQE_REGISTER);
	rpcordma_cqe_init(&c.silent_invalidate_cqe, RPCORDMA_CQE_INVALIDATE);

	if ((rc = rpcordma_endpoint_create_qp(c.endpoint, &sizes)) < 0) {
		trace::connection(peer, "no queue pair", rc);
		return from_errno(rc);
	}

	/* Receives before the connection: the peer may send as soon as it is there. */
	const u32 local_send = announced(rpcordma_tunables.max_inline_write);
	const u32 local_receive = announced(rpcordma_tunables.max_inline_read);
	c.receive_queue.init(c.endpoint, peer, local_receive, sizes.receive_wrs);
	const u32 first =
		RequesterCredits::kInitial + (client.backchannel ? 2 * kBackwardCredits : 0);
	if (c.receive_queue.provide(first) < first)
		return Error::no_memory;

	const private_data::Properties ours = {local_send, local_receive, true};
	const u32 length = TRY(private_data::encode(message, ours));
	rpcordma_connect_parameters parameters = {};
	parameters.private_data = message;
	parameters.private_data_length = static_cast<rpcordma_u8>(length);
	/* The peer reads from us and writes to us; we start no RDMA operation ourselves. */
	parameters.responder_resources =
		static_cast<rpcordma_u8>(min(c.device.max_qp_rd_atom, 255u));
	parameters.initiator_depth = 0;
	/* Give up early, so that a peer that moved is noticed; the RPC layer tries again. */
	parameters.retry_count = 6;
	/* Credits are the flow control: a Receive that is missing is a fault, and is to be seen. */
	parameters.rnr_retry_count = 0;
	rc = rpcordma_endpoint_connect(c.endpoint, &parameters,
				       rpcordma_xprt_connect_limit_ms(client.xprt));
	if (rc < 0) {
		trace::connection(peer, "not connected", rc);
		return from_errno(rc);
	}

	u32 received = 0;
	const void *theirs = rpcordma_endpoint_private_data(c.endpoint, &received);
	/* Without valid private data: the defaults of RFC 8166 3.3.3. */
	private_data::Properties answer;
	if (auto parsed = private_data::parse({static_cast<const u8 *>(theirs), received});
	    parsed.ok())
		answer = parsed.value();
	c.thresholds.send = private_data::inline_threshold(local_send, answer.receive_size);
	c.thresholds.receive = private_data::inline_threshold(answer.send_size, local_receive);
	trace::connection(peer, "inline threshold, send", static_cast<int>(c.thresholds.send));
	trace::connection(peer, "inline threshold, receive", static_cast<int>(c.thresholds.receive));

	if (!client.create_regions(c, kRegionBatch))
		return Error::no_memory;
	return {};
}

/*
 * Take a connection apart. Nothing is sent (send lock), so that what may still happen is:
 *
 *   completions       until the queue pair is drained; each may find calls, and post LOCAL_INVs
 *   buf_free()        may be fencing a killed call's memory; it posts only while !closing, under the
 *                     mutex. It waits without the mutex: for what it posted, which the drain flushes;
 *                     else for its event, which is raised here when the drain is over
 *   free_slot()       may be about to make a zombie; the state decides, under the client lock
 */
static void teardown_(Client &client, Connection *c)
{
	List<Call, CallListTag> revived;
	RegionList doomed;

	c->broken.store(true, std::memory_order_release);
	{
		MutexGuard fenced(client.fence);

		c->closing = true;
	}
	if (c->endpoint) {
		rpcordma_endpoint_disconnect(c->endpoint);
		rpcordma_endpoint_drain(c->endpoint);
	}

	/* The peer can reach nothing any more. */
	MutexGuard fenced(client.fence);
	LockGuard guard(client.lock);
	for (Call *call = client.all.front(); call; call = client.all.next(call)) {
		while (Region *region = call->mapped.pop_front()) {
			rpcordma_region_unmap(region->device);
			doomed.push_back(region);
			tally(client.stats.mrs_recycled, 1);
		}
		call->mapped_count = 0;
		call->held = nullptr;
		doomed.splice_back(call->spare);
		if (call->wire_mapped) {
			rpcordma_dma_unmap(c->endpoint, &call->wire_sge, call->wire_capacity,
					   RPCORDMA_DMA_TO_DEVICE);
			call->wire_mapped = false;
		}
		rpcordma_rqst_forget_credit(call->rqst);
		call->orphaned = true;
		call->state.store(CallState::idle, std::memory_order_release);
		if (call->zombie)
			decltype(client.zombies)::remove(call);
		if (call->zombie || call->unparking)
			revived.push_back(call);
		call->zombie = call->parked = call->unparking = call->late_reply = false;
		if (call->waiting) {
			call->waiting = false;
			rpcordma_event_raise(call->fenced);
		}
	}
	doomed.splice_back(client.pool);
	client.connection = nullptr;
	guard.release();
	fenced.release();

	while (Region *region = doomed.pop_front()) {
		rpcordma_region_destroy(region->device);
		rpcordma_free(region);
		c->regions_created.fetch_sub(1, std::memory_order_relaxed);
	}
	/* C5 */
	if (c->regions_created.load(std::memory_order_relaxed))
		rpcordma_warn("C5: memory regions outlive their connection");
	c->receive_queue.destroy();
	if (c->endpoint)
		rpcordma_endpoint_destroy(c->endpoint);
	c->~Connection();
	rpcordma_free(c);

	while (Call *call = revived.pop_front())
		client.free_slot(call);
}

Status rpcordma_client::connect()
{
	if (connection)
		teardown_(*this, connection);
	void *place = rpcordma_alloc(sizeof(Connection), RPCORDMA_ALLOC_NOIO);
	if (!place) {
		/* Or sunrpc would try again at once, and again. */
		back_off.store(true, std::memory_order_relaxed);
		return Error::no_memory;
	}
	Connection *c = new (place) Connection;
	c->client = this;
	/* Before anything can be granted. */
	rpcordma_xprt_reset_credits(xprt, RequesterCredits::kInitial);
	Status status = establish(*this, *c);
	if (!status.ok()) {
		back_off.store(true, std::memory_order_relaxed);
		teardown_(*this, c);
		return status;
	}
	rpcordma_xprt_set_max_payload(xprt, chunk::max_payload(c->limits));
	wants_space.store(false, std::memory_order_relaxed);
	{
		MutexGuard fenced(fence);

		locked(lock, [&] { connection = c; });
	}
	trace::connection(peer, "connected", static_cast<int>(c->credits.requested().get()));
	c->published.store(true, std::memory_order_seq_cst);
	if (c->broken.load(std::memory_order_seq_cst))
		rpcordma_xprt_force_disconnect(xprt);
	return {};
}

void rpcordma_client::close()
{
	if (!connection)
		return;
	trace::connection(peer, "close", 0);
	teardown_(*this, connection);
}

/*
 * sunrpc retries some errors of a connection attempt, and hands all others to the application, on a hard
 * mount too. Nothing that may pass (a device that is being replaced, no memory) may end there: so only the
 * errors that it retries leave here. A mount in progress fails with each but ETIMEDOUT and ENOTCONN at once.
 */
[[nodiscard]] static Error for_sunrpc(Error error)
{
	switch (error) {
	case Error::none:
	case Error::protocol:
	case Error::connection_refused:
	case Error::host_unreachable:
	case Error::network_unreachable:
	case Error::not_connected:
	case Error::timed_out:
		return error;
	case Error::no_device:
		return Error::network_unreachable;
	case Error::not_supported:
		return Error::protocol;
	default:
		return Error::not_connected;
	}
}

int rpcordma_core_client_connect(rpcordma_client *client)
{
	return to_errno(for_sunrpc(client->connect().error()));
}

void rpcordma_core_client_close(rpcordma_client *client)
{
	client->close();
	rpcordma_xprt_closed(client->xprt);
}

rpcordma_bool rpcordma_core_client_should_back_off(rpcordma_client *client)
{
	return client->back_off.load(std::memory_order_relaxed);
}

void rpcordma_core_client_inject_disconnect(rpcordma_client *client)
{
	MutexGuard fenced(client->fence);

	if (client->connection && !client->connection->closing) {
		trace::connection(client->peer, "disconnect injected", 0);
		rpcordma_endpoint_disconnect(client->connection->endpoint);
	}
}

void rpcordma_core_client_refill(rpcordma_client *client)
{
	client->refill();
}

void rpcordma_core_endpoint_event(void *context, rpcordma_endpoint_event event)
{
	Connection *c = static_cast<Connection *>(context);

	switch (event) {
	case RPCORDMA_EVENT_ESTABLISHED:
		/* Of accepted endpoints only. */
		break;
	case RPCORDMA_EVENT_DISCONNECTED:
		c->request_close("disconnected", 0);
		break;
	case RPCORDMA_EVENT_ADDRESS_CHANGE:
		c->request_close("address change", 0);
		break;
	case RPCORDMA_EVENT_DEVICE_REMOVAL:
		c->request_close("device removal", 0);
		break;
	case RPCORDMA_EVENT_QP_FATAL:
		c->request_close("queue pair failed", 0);
		break;
	}
}
