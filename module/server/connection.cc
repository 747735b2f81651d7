// SPDX-License-Identifier: GPL-2.0-only
/*
 * A server connection's life: accepting it, its ServerCalls, room in its send queue, and its end. See
 * server.hh.
 */

#include "module/server/server.hh"

#include <new>

#include "xdr/private_data.hh"

using namespace rpcordma;

ServerPool rpcordma::server_pool;
Failures rpcordma::server_failures;
rpcordma_lock *rpcordma::server_failures_lock;

/* SGEs of a Write beyond which longer work requests cost more ring memory than they save. */
static constexpr u32 kMostSges = 32;

/* Without a completion for so long, a full send queue is stuck: half of what a client waits for a reply. */
static constexpr u32 kStallLimitMs = 30000;

/* The room for Writes and Reads in the send queue, on top of a Send for each call. */
static constexpr u32 kChainRoom = Transfer::kRequests;

/* --- the whole module --- */

int rpcordma_core_server_init(void)
{
	server_failures_lock = rpcordma_lock_create(RPCORDMA_LOCK_FAILURES);
	if (server_failures_lock && server_pool.init())
		return 0;
	rpcordma_lock_destroy(server_failures_lock);
	return to_errno(Error::no_memory);
}

void rpcordma_core_server_exit(void)
{
	server_pool.exit();
	rpcordma_lock_destroy(server_failures_lock);
}

u32 rpcordma_core_server_max_payload(u32 page_size)
{
	return Transfer::kPayloadPages * page_size;
}

void rpcordma_core_server_refill(void)
{
	server_pool.refill();
}

u32 rpcordma_core_server_spare_pages(void)
{
	return server_pool.spare_pages();
}

u32 rpcordma_core_server_shrink(u32 pages)
{
	return server_pool.shrink(pages);
}

/* --- calls --- */

ServerCall *rpcordma_server::create_call(rpcordma_alloc_how how)
{
	void *place = rpcordma_alloc(sizeof(Call), how);
	u8 *data = static_cast<u8 *>(rpcordma_alloc(receive_size, how));

	if (!place || !data) {
		rpcordma_free(data);
		rpcordma_free(place);
		return nullptr;
	}
	Call *call = new (place) Call;
	call->server = this;
	call->data = data;
	if (rpcordma_dma_map(endpoint, data, receive_size, RPCORDMA_DMA_FROM_DEVICE,
			     &call->receive_sge)) {
		rpcordma_free(data);
		rpcordma_free(place);
		return nullptr;
	}
	call->receive_cqe.init(RPCORDMA_CQE_SERVER_RECEIVE, call);
	call->send_cqe.init(RPCORDMA_CQE_SERVER_SEND, call);
	call->read_cqe.init(RPCORDMA_CQE_SERVER_READ, call);
	call->chain_cqe.init(RPCORDMA_CQE_SERVER_CHAIN, call);
	call->receive_wr.cqe = &call->receive_cqe.cqe;
	call->receive_wr.sg_list = &call->receive_sge;
	call->receive_wr.num_sge = 1;
	call->send_wr.cqe = &call->send_cqe.cqe;
	call->send_wr.send_flags = RPCORDMA_SEND_SIGNALED;
	return call;
}

void rpcordma_server::destroy_call(Call *call)
{
	/* Left over by a connection that ended in the midst of it. */
	abandon(call);
	if (call->wire)
		rpcordma_dma_unmap(endpoint, &call->wire_sge, send_size, RPCORDMA_DMA_TO_DEVICE);
	rpcordma_dma_unmap(endpoint, &call->receive_sge, receive_size, RPCORDMA_DMA_FROM_DEVICE);
	rpcordma_free(call->wire);
	rpcordma_free(call->data);
	rpcordma_free(call);
}

/* The buffer that the reply is built in: made with the first reply, and kept. */
bool rpcordma_server::ensure_wire(Call *call, rpcordma_alloc_how how)
{
	if (call->wire)
		return true;
	u8 *wire = static_cast<u8 *>(rpcordma_alloc(send_size, how));

	if (!wire)
		return false;
	if (rpcordma_dma_map(endpoint, wire, send_size, RPCORDMA_DMA_TO_DEVICE, &call->wire_sge)) {
		rpcordma_free(wire);
		return false;
	}
	call->wire = wire;
	return true;
}

/* --- room in the send queue --- */

bool rpcordma_server::take_room(u32 requests)
{
	u32 free = room.load(std::memory_order_seq_cst);

	while (free >= requests)
		if (room.compare_exchange_weak(free, free - requests, std::memory_order_seq_cst))
			return true;
	return false;
}

/*
 * False: the connection is closing. A service thread; others' completions make the room. A client that
 * takes nothing off our hands for so long (it may well have no Receives, and we try without end) is
 * disconnected, lest it hold all threads.
 */
bool rpcordma_server::wait_for_room(u32 requests)
{
	if (closing.load(std::memory_order_acquire))
		return false;
	if (take_room(requests))
		return true;
	rpcordma_server_count(RPCORDMA_SERVER_SQ_STARVE, 1);
	waiters.fetch_add(1, std::memory_order_seq_cst);
	bool taken = false;
	for (;;) {
		const u32 ticket = rpcordma_gate_ticket(gate);

		if (closing.load(std::memory_order_seq_cst))
			break;
		taken = take_room(requests);
		if (taken)
			break;
		if (!rpcordma_gate_wait(gate, ticket, kStallLimitMs))
			request_close("the send queue stalled", int(requests));
	}
	/* Threads that has_space() held back may come now. */
	if (waiters.fetch_sub(1, std::memory_order_seq_cst) == 1)
		rpcordma_svc_enqueue(xprt);
	return taken;
}

void rpcordma_server::give_room(u32 requests)
{
	room.fetch_add(requests, std::memory_order_seq_cst);
	if (waiters.load(std::memory_order_seq_cst))
		rpcordma_gate_open(gate);
}

/* --- accepting --- */

void rpcordma_server::request_close(const char *why, int value)
{
	if (closing.exchange(true, std::memory_order_seq_cst))
		return;
	trace::connection(peer, why, value);
	rpcordma_svc_close(xprt);
	if (gate)
		rpcordma_gate_open(gate);
}

/*
 * The queue pair, with as many SGEs for each work request as the device gives: what it says of one may be
 * too much for so many.
 */
Status rpcordma_server::create_queues()
{
	rpcordma_queue_sizes sizes = {};
	int rc = 0;

	sizes.send_wrs = queue_size;
	sizes.receive_wrs = receives_limit;
	for (send_sges = max(1u, min(device.max_send_sge, kMostSges)); send_sges; send_sges /= 2) {
		/* On iWARP the protocol has no more than one SGE in a Read. */
		read_sges = region_pages ? 1 : max(1u, min(send_sges, device.max_sge_rd));
		/* The longest call and the longest reply must be possible: each of their pages an SGE. */
		const u32 least = region_pages ? send_sges : read_sges;
		if (Transfer::kPages / least >= min(Transfer::kRequests, queue_size))
			break;
		sizes.send_sges = send_sges;
		rc = rpcordma_endpoint_create_qp(endpoint, &sizes);
		if (!rc)
			return {};
		trace::connection(peer, "no queue pair", rc);
		/* Drivers say either when it is too large. */
		if (from_errno(rc) != Error::no_memory && from_errno(rc) != Error::invalid)
			break;
	}
	if (rc)
		return from_errno(rc);
	rpcordma_log_string(peer, RPCORDMA_LOG_ERROR,
			    "this device has too few SGEs for each RDMA Read or Write, or too "
			    "short a queue",
			    device.name);
	return Error::not_supported;
}

Status rpcordma_server::accept(rpcordma_endpoint *from, Bytes private_data, u32 initiator_depth)
{
	const auto &t = rpcordma_server_tunables;

	endpoint = from;
	lock = rpcordma_lock_create(RPCORDMA_LOCK_SERVER);
	gate = rpcordma_gate_create();
	if (!lock || !gate)
		return Error::no_memory;
	rpcordma_endpoint_device(endpoint, &device);

	/* Without RDMA Reads no call with a Read chunk could ever be served. */
	const u32 depth = min(min(initiator_depth, device.max_qp_init_rd_atom),
			      min(t.max_outbound_read_requests, 255u));
	if (!depth) {
		rpcordma_log(peer, RPCORDMA_LOG_WARNING,
			     "a client that serves no RDMA Reads (responder resources of zero) was "
			     "refused; raise its limit, or mount with proto=tcp");
		return Error::invalid;
	}

	/* What the client says of itself; by default, what RFC 8797 5.1 has it mean to say nothing. */
	const auto parsed = private_data::parse(private_data);
	const private_data::Properties client = parsed.ok() ? parsed.value() :
							      private_data::Properties{};
	receive_size = t.max_req_size;
	send_size = private_data::inline_threshold(receive_size, client.receive_size);
	remote_invalidation = client.remote_invalidation && device.fast_registration;

	if (device.read_needs_region) {
		region_pages = min(device.max_fast_reg_pages, Transfer::kPages);
		if (!device.fast_registration ||
		    region_pages * Transfer::kRegions < Transfer::kPages) {
			rpcordma_log_string(peer, RPCORDMA_LOG_ERROR,
					    "this device registers too little memory at once for "
					    "NFS over RDMA",
					    device.name);
			return Error::not_supported;
		}
	}

	/* Each queue has room for the drain besides. */
	const u32 most = min(device.max_qp_wr, device.max_cqe);
	constexpr u32 extra = kServerBackwardCalls + kServerBatch;
	constexpr u32 least = 4 + extra + 1;
	if (most <= least + 16) {
		rpcordma_log_string(peer, RPCORDMA_LOG_ERROR,
				    "this device's queues are too short for NFS over RDMA",
				    device.name);
		return Error::not_supported;
	}
	const u32 limit = max(1u, min(t.max_requests, most - extra - 1));
	credits = ResponderCredits(limit);
	grant.store(credits.granted(), std::memory_order_relaxed);
	receives_limit = limit + extra;
	queue_size = min(limit + kServerBackwardCalls + kChainRoom, most - 1);
	room.store(queue_size, std::memory_order_relaxed);

	TRY_STATUS(create_queues());

	server_pool.join();
	joined = true;
	if (!provide(credits.granted() + kServerBatch, RPCORDMA_ALLOC_SERVICE))
		return Error::no_memory;

	u8 message[private_data::length];
	private_data::Properties ours;
	ours.send_size = send_size;
	ours.receive_size = receive_size;
	ours.remote_invalidation = device.fast_registration;
	const u32 message_length = TRY(private_data::encode(message, ours));

	rpcordma_connect_parameters parameters = {};
	parameters.private_data = message;
	parameters.private_data_length = u8(message_length);
	/* Nobody reads or writes our memory. */
	parameters.responder_resources = 0;
	parameters.initiator_depth = u8(depth);
	parameters.rnr_retry_count = u8(min(t.rnr_retry_count, 7u));
	if (int rc = rpcordma_endpoint_accept(endpoint, &parameters); rc)
		return from_errno(rc);
	trace::connection(peer, "accept", int(limit));
	return {};
}

int rpcordma_core_server_accept(rpcordma_server *place, svc_xprt *xprt, const rpcordma_peer *peer,
				rpcordma_endpoint *endpoint, const void *private_data,
				rpcordma_u32 private_data_length, rpcordma_u32 initiator_depth)
{
	Server *server = new (place) Server;

	server->xprt = xprt;
	server->peer = peer;
	const Status accepted =
		server->accept(endpoint,
			       Bytes(static_cast<const u8 *>(private_data), private_data_length),
			       initiator_depth);
	if (!accepted.ok()) {
		server->closing.store(true, std::memory_order_seq_cst);
		trace::connection(peer, "accept failed", to_errno(accepted.error()));
		return to_errno(accepted.error());
	}
	return 0;
}

rpcordma_size rpcordma_core_server_size(void)
{
	return sizeof(Server);
}

/* --- the end --- */

void rpcordma_server::destroy()
{
	/*
	 * Threads post while they have a reference, of which there is none any more. Completions post
	 * under the lock, and not when they see this there: so nothing follows the drain's markers.
	 */
	if (lock)
		locked(lock, [&] { closing.store(true, std::memory_order_seq_cst); });
	rpcordma_endpoint_drain(endpoint);
	while (Call *call = all) {
		all = call->all_next;
		destroy_call(call);
	}
	while (Region *region = regions.pop_front()) {
		rpcordma_region_destroy(region->device);
		rpcordma_free(region);
	}
	if (joined)
		server_pool.leave();
	rpcordma_endpoint_destroy(endpoint);
	rpcordma_gate_destroy(gate);
	rpcordma_lock_destroy(lock);
}

void rpcordma_core_server_detach(rpcordma_server *server)
{
	server->closing.store(true, std::memory_order_seq_cst);
	rpcordma_endpoint_disconnect(server->endpoint);
	if (server->gate)
		rpcordma_gate_open(server->gate);
}

void rpcordma_core_server_destroy(rpcordma_server *server)
{
	server->destroy();
}

void rpcordma_core_server_inject_disconnect(rpcordma_server *server)
{
	rpcordma_endpoint_disconnect(server->endpoint);
}

/* --- events --- */

void rpcordma_core_server_event(void *context, rpcordma_endpoint_event event)
{
	Server *server = static_cast<Server *>(context);

	switch (event) {
	case RPCORDMA_EVENT_ESTABLISHED:
		trace::connection(server->peer, "established", 0);
		server->establish();
		break;
	case RPCORDMA_EVENT_DISCONNECTED:
		server->request_close("disconnected", 0);
		break;
	case RPCORDMA_EVENT_ADDRESS_CHANGE:
		server->request_close("address changed", 0);
		break;
	case RPCORDMA_EVENT_DEVICE_REMOVAL:
		server->request_close("device goes away", 0);
		break;
	case RPCORDMA_EVENT_QP_FATAL:
		server->request_close("queue pair failed", 0);
		break;
	}
}
