// SPDX-License-Identifier: GPL-2.0-only
/* Accepting a connection, and its end. See connection.hh. */

#include "module/server/connection.hh"

#include "module/protocol/negotiation.hh"
#include "module/server/server.hh"
#include "xdr/private_data.hh"

namespace rpcordma {

using trace::Loss;

/* SGEs of a Write beyond which longer work requests cost more ring memory than they save. */
static constexpr u32 kMostSges = 32;

/* The room for Writes and Reads in the send queue, on top of a Send for each call. */
static constexpr u32 kChainRoom = Transfer::kRequests;

/* --- accepting --- */

/*
 * The queue pair, with as many SGEs for each work request as the device gives: what it says of one may be
 * too much for so many.
 */
[[nodiscard]] static Status create_queues(Server &server, u32 receives)
{
	const rpcordma_device &device = server.device;
	u32 &send_sges = server.limits.send_sges;
	rpcordma_queue_sizes sizes = {};
	int rc = 0;

	sizes.send_wrs = server.room.size();
	sizes.receive_wrs = receives;
	sizes.receive_sges = 1 + server.receive_maker.layout().count;
	for (send_sges = max(1u, min(device.max_send_sge, kMostSges)); send_sges; send_sges /= 2) {
		/* On iWARP the protocol has no more than one SGE in a Read. */
		server.limits.read_sges =
			device.read_needs_region ? 1 : max(1u, min(send_sges, device.max_sge_rd));
		sizes.send_sges = send_sges;
		rc = rpcordma_endpoint_create_qp(server.endpoint, &sizes);
		if (!rc)
			return {};
		trace::loss(server.peer, Loss::qp_failed, rc);
		/* Drivers say either when it is too large. */
		if (from_errno(rc) != Error::no_memory && from_errno(rc) != Error::invalid)
			break;
		/* Large Receives are what it can do without. */
		if (sizes.receive_sges > 1) {
			sizes.receive_sges = 1;
			server.receive_maker.have_pages({});
			send_sges *= 2;
		}
	}
	return from_errno(rc);
}

/* The pages that Receives get when the connection grows. */
[[nodiscard]] static MessagePages::Layout receive_pages(const rpcordma_device &device)
{
	const u32 most = min(rpcordma_server_tunables.version2_pages, MessagePages::kMost);
	/* Larger pages than version 2 speaks of would be too much memory. */
	const bool may = device.page_size <= properties::default_receive_size;

	return {may ? min(most, max(device.max_recv_sge, 1u) - 1) : 0, device.page_size,
		device.node};
}

/* Whether sinks are registered, always or at times, and in what pieces. */
[[nodiscard]] static Status size_regions(Server &server)
{
	const rpcordma_device &device = server.device;

	if (!device.read_needs_region && !device.max_sgl_rd)
		return {};
	server.limits.region_pages =
		min(device.max_fast_reg_pages / region_entries(device), Transfer::kPages);
	if (device.fast_registration && Transfer::kMostRegions * server.limits.region_pages >=
						Transfer::least_sink_pages(device.page_size))
		return {};
	if (!device.read_needs_region) {
		server.limits.region_pages = 0;
		return {};
	}
	rpcordma_log_string(server.peer, RPCORDMA_LOG_ERROR,
			    "this device registers too little memory at once for NFS over RDMA",
			    device.name);
	trace::loss(server.peer, Loss::device_registration, int(server.limits.region_pages));
	return Error::not_supported;
}

/* @most work requests are too few. */
[[nodiscard]] static Error refuse_queues(Server &server, u32 most)
{
	rpcordma_log_string(server.peer, RPCORDMA_LOG_ERROR,
			    "this device's queues are too short for NFS over RDMA",
			    server.device.name);
	trace::loss(server.peer, Loss::device_queues, int(most));
	return Error::not_supported;
}

/* How long the queues are to be. Returns how many calls the client may have outstanding. */
[[nodiscard]] static Result<u32> size_server_queues(Server &server) EXCLUDES(server.lock)
{
	const rpcordma_device &device = server.device;
	/* Each queue has room for the drain besides. */
	const u32 most = min(device.max_qp_wr, device.max_cqe);
	const u32 extra =
		kServerBackwardCalls + kServerBatch + server.session.rules().extra_receives;
	const u32 least = 4 + extra + 1;

	if (most <= least + 16)
		return refuse_queues(server, most);
	const u32 limit = max(1u, min(rpcordma_server_tunables.max_requests, most - extra - 1));
	server.room.init(min(limit + kServerBackwardCalls + kChainRoom, most - 1));
	SpinGuard guard(server.lock);

	server.receives.init(limit + extra, limit);
	server.grant.set(server.receives.credits().granted());
	return limit;
}

/*
 * How much a call may bring by Reads: what a transfer has room for, and where Reads need regions, what these hold. A chain
 * registers and invalidates them, and has two Reads besides: one of its own, and the next chain's first.
 */
[[nodiscard]] static Status size_sinks(Server &server)
{
	const rpcordma_device &device = server.device;
	ServerLimits &limits = server.limits;

	limits.regions = min(Transfer::kMostRegions, (part_room(server) - 2) / 2);
	limits.sink_pages = device.read_needs_region ? min(Transfer::kLargePages,
							   limits.regions * limits.region_pages) :
						       Transfer::kLargePages;
	if (limits.sink_pages < Transfer::least_sink_pages(device.page_size))
		return refuse_queues(server, server.room.size() + 1);
	rpcordma_svc_limits service;
	rpcordma_svc_get_limits(server.xprt, &service);
	limits.max_message = service.max_message;
	limits.max_pages = service.max_pages;
	limits.eager_memory = eager_memory();
	return {};
}

/* Which Reads and Writes are a call's own: those that one work request has the SGEs for, without a region. */
static void size_lone_requests(Server &server)
{
	const rpcordma_device &device = server.device;
	ServerLimits &limits = server.limits;

	limits.lone_write = min(limits.send_sges, LoneRequest::kPages);
	limits.lone_read = min(limits.read_sges, LoneRequest::kPages);
	if (device.read_needs_region)
		limits.lone_read = 0;
	else if (limits.region_pages)
		limits.lone_read = min(limits.lone_read, device.max_sgl_rd);
}

/* Answer the connection request: from here on messages may come. */
[[nodiscard]] static Status answer_request(Server &server, const private_data::Properties &ours,
					   u32 depth)
{
	u8 message[private_data::marked_length];
	const u32 message_length = TRY(private_data::encode(message, ours));
	rpcordma_connect_parameters parameters = {};

	parameters.private_data = message;
	parameters.private_data_length = u8(message_length);
	/* Nobody reads or writes our memory. */
	parameters.responder_resources = 0;
	parameters.initiator_depth = u8(depth);
	parameters.rnr_retry_count = u8(min(rpcordma_server_tunables.rnr_retry_count, 7u));
	if (int rc = rpcordma_endpoint_accept(server.endpoint, &parameters); rc) {
		trace::loss(server.peer, Loss::handshake_failed, rc);
		return from_errno(rc);
	}
	return {};
}

Status accept_connection(Server &server, rpcordma_endpoint *endpoint, Bytes private_data,
			 u32 initiator_depth)
{
	const auto &t = rpcordma_server_tunables;

	server.endpoint = endpoint;
	if (!server.lock.create(RPCORDMA_LOCK_SERVER) ||
	    !server.posts.create(RPCORDMA_LOCK_POSTS) || !server.room.create())
		return Error::no_memory;
	rpcordma_endpoint_device(endpoint, &server.device);

	/* Without RDMA Reads no call with a Read chunk could ever be served. */
	const u32 depth = min(min(initiator_depth, server.device.max_qp_init_rd_atom),
			      min(t.max_outbound_read_requests, 255u));
	if (!depth) {
		rpcordma_log(server.peer, RPCORDMA_LOG_WARNING,
			     "a client that serves no RDMA Reads (responder resources of zero) was "
			     "refused; raise its limit, or mount with proto=tcp");
		trace::loss(server.peer, Loss::client_serves_no_reads, int(initiator_depth));
		return Error::invalid;
	}

	private_data::Properties ours;
	ours.receive_size = ours.send_size = t.max_req_size;
	ours.remote_invalidation = server.device.fast_registration;
	const auto theirs = private_data::parse(private_data);
	const bool may = protocol::may_mark(t.version2, ours.send_size, ours.receive_size);
	server.session.begin(ours, theirs);
	server.session.reduce_by(protocol::server_reduction(t.version2_rtr));
	if (may && protocol::may_speak_2(t.version2, server.session.peer()))
		server.session.open();
	/* In answer to a mark only: nobody else expects foreign bytes. */
	ours.mark = may && server.session.peer().mark;
	/* Nor do we say that we send what it does not take. */
	ours.send_size = server.session.thresholds().send;
	server.limits.remote_invalidation = server.session.peer().remote_invalidation &&
					    server.device.fast_registration;
	server.receive_maker.init(endpoint, server.peer, RPCORDMA_CQE_SERVER_RECEIVE,
				  ours.receive_size);
	if (may && server.session.peer().mark)
		server.receive_maker.have_pages(receive_pages(server.device));
	server.session.have_room(ours.receive_size, max(ours.send_size, protocol::kMostInline));

	TRY_STATUS(size_regions(server));
	const u32 most_calls = TRY(size_server_queues(server));
	TRY_STATUS(size_sinks(server));
	u32 receives, first;
	{
		SpinGuard guard(server.lock);

		receives = server.receives.limit();
		first = promised_locked(server) + kServerBatch;
		note_receives_locked(server);
		note_peer_locked(server);
	}
	TRY_STATUS(create_queues(server, receives));
	size_lone_requests(server);

	server_pool.join();
	server.joined = true;
	if (!provide_receives(server, first, RPCORDMA_ALLOC_SERVICE) ||
	    server.closing.load(std::memory_order_relaxed)) {
		trace::loss(server.peer, Loss::first_receives_failed, int(first));
		return Error::no_memory;
	}
	/* From then on the first message may say it. */
	const bool settled = server.session.settled();
	TRY_STATUS(answer_request(server, ours, depth));
	trace::connection(server.peer, "accept", int(most_calls));
	if (settled)
		note_version(server, may ? "unmarked" : "off");
	return {};
}

/* --- the end --- */

/* Nobody else is there any more, once the queue pair is drained. */
static void free_all(Server &server) NO_THREAD_SAFETY_ANALYSIS
{
	while (ServerCall *call = server.calls.disown())
		destroy_call(server, call);
	server.receive_maker.destroy();
	end_growth(server);
	while (Region *region = server.regions.disown())
		destroy_region(region);
}

void destroy_connection(Server &server)
{
	/*
	 * Threads post while they have a reference, of which there is none any more. Completions post
	 * under the lock, and not when they see this there: so nothing follows the drain's markers.
	 */
	if (server.lock.exists()) {
		SpinGuard guard(server.lock);

		/* S2 */
		server.closing.store(true, std::memory_order_seq_cst);
	}
	rpcordma_endpoint_drain(server.endpoint);
	/* No completion is left that could queue it. */
	rpcordma_svc_cancel_finish(server.xprt);
	put_finished(server);
	free_all(server);
	if (server.joined)
		server_pool.leave();
	rpcordma_endpoint_destroy(server.endpoint);
}

} // namespace rpcordma
