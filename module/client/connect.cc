// SPDX-License-Identifier: GPL-2.0-only
/*
 * Connecting: what a connection is made of, in the order in which it is made; and the life of the client itself.
 * Connecting runs in process context with the transport's send lock held, so that nothing is sent meanwhile. How a
 * connection ends is in close.cc.
 */

#include "module/client/client.hh"

#include "xdr/private_data.hh"

using namespace rpcordma;
using trace::Loss;

/* What the in-tree transport allows for each of address and route. */
static constexpr u32 kResolveLimitMs = 5000;

/* Regions made with a connection: a handful of full-sized calls. */
static constexpr u32 kFirstRegions = 16;
/* A call has at most this many regions in practice: three each for a long call and a long reply. */
static constexpr u32 kRegionsPerCall = 6;
/* Most regions of one call, by what reduction may put into one header. */
static constexpr u32 kMostRegions = 3 * chunk::kMaxSegments;

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
		trace::loss(peer, Loss::device_registration, 0);
		return Error::not_supported;
	}
	c.limits.page_size = d.page_size;
	c.limits.mr_page_size = d.mr_page_size;
	c.limits.sg_gaps = d.sg_gaps;
	c.limits.max_send_sge = max(1u, d.max_send_sge);
	/* Never the raw attribute: some devices report billions. */
	c.limits.mr_pages = min(d.max_fast_reg_pages, chunk::kMaxPayload / d.mr_page_size + 1);
	/* Inline messages always go out of the call's own send buffer, with one SGE. */
	c.limits.copy_limit = ~0u;
	if (!c.limits.valid() || !chunk::max_payload(c.limits)) {
		rpcordma_log_string(
			peer, RPCORDMA_LOG_ERROR,
			"this device registers too little memory at once for NFS over RDMA", d.name);
		trace::loss(peer, Loss::device_registration, static_cast<int>(c.limits.mr_pages));
		return Error::not_supported;
	}
	return {};
}

/* What a size comes to once it was told the peer: we hold ourselves to what the peer believes. */
[[nodiscard]] static constexpr u32 announce_size(u32 size)
{
	return private_data::decode_size(private_data::encode_size(size));
}

/* Receives for replies of several transmissions, if there may be some. */
[[nodiscard]] static u32 reserved_receives(const Connection &c)
{
	return c.marked && protocol::client_reduction(c.reduction).takes_groups() ?
		       protocol::kReservedReceives :
		       0;
}

/* Receives that each side has beyond the credits, in whichever version it comes to. */
[[nodiscard]] static u32 beyond_credits(const Connection &c)
{
	return c.marked ? protocol::Spoken::most(&protocol::Rules::extra_receives) +
				  reserved_receives(c) :
			  c.session.rules().extra_receives;
}

/* What the peer and we may send besides calls and their replies. */
[[nodiscard]] static u32 extra_receives(const Connection &c)
{
	return 2 * kBackwardCredits + ReceiveQueue::kBatch + beyond_credits(c);
}

/* The longest call, twice: a part of the queue may be taken by Sends that nobody hears of. */
[[nodiscard]] static u32 least_sends(const Connection &c)
{
	return 2 * (2 * kMostRegions + c.session.rules().transmissions) + kBackwardCredits;
}

/* The pages of a message that has @sges SGEs at most, if it may be of version 2. */
[[nodiscard]] static MessagePages::Layout pages_within(const Client &client, const Connection &c,
						       u32 sges)
{
	/* Larger pages than version 2 speaks of would be too much memory. */
	const bool may = c.marked && !client.avoidance.in_force(rpcordma_now_ms()) &&
			 c.device.page_size <= properties::default_receive_size;
	const u32 most = min(rpcordma_tunables.version2_pages, MessagePages::kMost);

	return {may ? min(most, max(sges, 1u) - 1) : 0, c.device.page_size, c.device.node};
}

/* Queues for @calls at once, in a device's room for @room work requests each. */
[[nodiscard]] static rpcordma_queue_sizes size_queues(const Connection &c, u32 room, u32 calls,
						      u32 receive_pages)
{
	const u32 transmissions = c.session.rules().transmissions;
	/* A call's Sends; a REG_MR and a LOCAL_INV for each region that the largest payload takes on this device. */
	const u32 sends = transmissions + 2 * chunk::payload_segments(c.limits);
	rpcordma_queue_sizes sizes = {};

	sizes.send_wrs = min(room, max(least_sends(c), calls * sends + kBackwardCredits));
	/* Each call may have a reply of as many transmissions as there may be. */
	sizes.receive_wrs = calls * transmissions + extra_receives(c);
	sizes.send_sges = 1 + max(c.send_pages.count, c.gather_sges);
	sizes.receive_sges = 1 + receive_pages;
	return sizes;
}

/*
 * Make the queue pair, for as many calls at once as the device goes along with, and have the connection's
 * limits be what these need. What a device says of its queues may be too much of both at a time.
 */
[[nodiscard]] static Status create_queue_pair(Client &client, Connection &c)
{
	/* One work request each is for draining. */
	const u32 most = min(c.device.max_qp_wr, c.device.max_cqe);
	const u32 room = most ? most - 1 : 0;
	const u32 transmissions = c.session.rules().transmissions;

	if (room < max(least_sends(c), extra_receives(c) + transmissions)) {
		rpcordma_log_string(client.peer, RPCORDMA_LOG_ERROR,
				    "this device's queues are too short for NFS over RDMA",
				    c.device.name);
		trace::loss(client.peer, Loss::device_queues, static_cast<int>(room));
		return Error::not_supported;
	}
	const u32 wanted = min(client.slots, (room - extra_receives(c)) / transmissions);
	MessagePages::Layout receive_pages = pages_within(client, c, c.device.max_recv_sge);
	Error error = Error::none;

	c.send_pages = pages_within(client, c, c.device.max_send_sge);
	/* As much of a call's as there are pages for, which may begin within a page. */
	if (c.send_write_max && c.send_pages.count)
		c.gather_sges = min(c.send_pages.count + 1, c.device.max_send_sge - 1);
	for (u32 calls = wanted; calls; calls /= 2) {
		const rpcordma_queue_sizes sizes = size_queues(c, room, calls, receive_pages.count);
		const int rc = rpcordma_endpoint_create_qp(c.endpoint, &sizes);

		if (!rc) {
			if (calls < wanted && calls != client.calls_told) {
				rpcordma_log_values(
					client.peer, RPCORDMA_LOG_WARNING,
					"the device refuses longer queues; calls at once", calls,
					wanted);
				client.calls_told = calls;
			}
			c.credits = RequesterCredits(calls);
			/* Of the longest call as many as it may take, however few calls there are. */
			c.regions_limit =
				max(kMostRegions,
				    calls * max(kRegionsPerCall, chunk::payload_segments(c.limits)));
			c.send_queue.init(sizes.send_wrs);
			c.receive_queue.init(c.endpoint, c.peer,
					     announce_size(rpcordma_tunables.max_inline_read),
					     sizes.receive_wrs);
			c.receive_queue.have_pages(receive_pages);
			return {};
		}
		trace::loss(client.peer, Loss::qp_failed, rc);
		error = from_errno(rc);
		/* Drivers say either when it is too large. */
		if (error != Error::no_memory && error != Error::invalid)
			break;
		/* Gathering is what it can do without, and then long messages. */
		if (c.gather_sges) {
			c.gather_sges = 0;
			calls *= 2;
		} else if (receive_pages.count || c.send_pages.count) {
			receive_pages.count = c.send_pages.count = 0;
			calls *= 2;
		}
	}
	return error;
}

/* What the question has come to, for a trace. */
[[nodiscard]] static const char *word_for(protocol::Answer answer)
{
	switch (answer) {
	case protocol::Answer::version_2:
		return "answered";
	case protocol::Answer::defaults:
		return "INVAL_PROC";
	case protocol::Answer::version_1:
		return "ERR_VERS";
	default:
		return "not asked";
	}
}

/* Have @c come to a version, once it is there. @unanswered: another connection's question was. */
[[nodiscard]] static Status settle_version(Client &client, Connection &c, bool unanswered)
{
	const char *why = unanswered ? "no answer" : "off";

	if (c.marked) {
		if (!protocol::may_speak_2(rpcordma_tunables.version2, c.session.peer())) {
			why = "unmarked";
		} else if (client.avoidance.in_force(rpcordma_now_ms())) {
			why = "avoided";
		} else {
			TRY_STATUS(client.ask_version(c));
			why = word_for(c.answer.load(std::memory_order_relaxed));
		}
	}
	trace::version(client.peer, "client", c.session.version(), why);
	note(client.stats.agreed.why, why);
	note(client.stats.agreed.version, c.session.version());
	return {};
}

/*
 * Make all that a connection consists of. When a step fails tear_down() undoes those before it. @unanswered as
 * settle_version() has it.
 */
[[nodiscard]] static Status establish(Client &client, Connection &c, bool unanswered)
{
	const rpcordma_peer *peer = client.peer;
	u8 message[private_data::marked_length];
	int rc = 0;

	c.endpoint = rpcordma_endpoint_create(client.xprt, &c, &rc);
	if (!c.endpoint) {
		trace::loss(peer, Loss::endpoint_failed, rc);
		return from_errno(rc);
	}
	if ((rc = rpcordma_endpoint_resolve(c.endpoint, kResolveLimitMs)) < 0) {
		trace::loss(peer, Loss::resolve_failed, rc);
		return from_errno(rc);
	}
	rpcordma_endpoint_device(c.endpoint, &c.device);
	TRY_STATUS(set_limits(c, peer));
	TRY_STATUS(create_queue_pair(client, c));
	rpcordma_cqe_init(&c.silent_send_cqe, RPCORDMA_CQE_SEND);
	rpcordma_cqe_init(&c.silent_register_cqe, RPCORDMA_CQE_REGISTER);
	rpcordma_cqe_init(&c.silent_invalidate_cqe, RPCORDMA_CQE_INVALIDATE);

	/* Receives before the connection: the peer may send as soon as it is there. */
	const u32 local_send = announce_size(rpcordma_tunables.max_inline_write);
	const u32 local_receive = c.receive_queue.maker().buffer_size();
	/* The administrator may have changed the limits meanwhile. */
	c.marked = c.marked &&
		   protocol::may_mark(rpcordma_tunables.version2, local_send, local_receive);
	const protocol::Rules rules = c.session.rules();
	const u32 first = RequesterCredits::kInitial * rules.transmissions +
			  (client.backchannel ? 2 * kBackwardCredits : 0) + beyond_credits(c);
	u32 provided = c.receive_queue.provide(first);
	/* Dirty pages may wait for this connection. Small messages take a fifth of the memory. */
	if (provided < first && c.receive_queue.maker().with_pages()) {
		c.receive_queue.do_without_pages();
		provided = c.receive_queue.provide(first);
	}
	if (provided < first) {
		trace::loss(peer, Loss::first_receives_failed, static_cast<int>(first));
		return Error::no_memory;
	}

	const private_data::Properties ours = {local_send, local_receive, true, c.marked};
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
		trace::loss(peer, Loss::handshake_failed, rc);
		return from_errno(rc);
	}

	u32 received = 0;
	const void *theirs = rpcordma_endpoint_private_data(c.endpoint, &received);
	c.session.begin(ours, private_data::parse({static_cast<const u8 *>(theirs), received}));
	c.session.reduce_by(protocol::client_reduction(c.reduction), reserved_receives(c));
	/* The mark comes in answer to ours, from whoever keeps to RFC 8166 in this as well; it is this connection's peer's. */
	c.limits.combine_chunks = c.marked && c.session.peer().mark;
	/* Of what a server takes to be sent no property tells: its private data does, and each one sends kMostInline. */
	c.session.have_room(max(min(local_receive, c.session.peer().send_size),
				min(c.receive_queue.maker().whole_size(), protocol::kMostInline)),
			    local_send + c.send_pages.bytes());
	TRY_STATUS(settle_version(client, c, unanswered));
	/* They are among the first that were posted. */
	if (c.session.version() == v2::version)
		client.reserve.store(reserved_receives(c), std::memory_order_relaxed);
	if (c.session.version() == v1::version) {
		c.receive_queue.do_without_pages();
		note(client.stats.agreed.peer_receive_size, c.session.peer().receive_size);
		note(client.stats.agreed.peer_receive_pages, 0);
	}
	const protocol::ReceiveRoom room = c.receive_queue.maker().room();
	note(client.stats.agreed.receive_size, room.bytes());
	note(client.stats.agreed.receive_pages, room.pages);
	trace::connection(peer, "inline threshold, send",
			  static_cast<int>(c.session.thresholds().send));
	trace::connection(peer, "inline threshold, receive",
			  static_cast<int>(c.session.thresholds().receive));

	if (!client.create_regions(c, kFirstRegions, false)) {
		trace::loss(peer, Loss::first_regions_failed, to_errno(Error::no_memory));
		return Error::no_memory;
	}
	return {};
}

/* A new connection, made as far as it can be; null without memory. @marked as in Connection. */
[[nodiscard]] static Connection *create_connection(Client &client, bool marked)
{
	auto made = Owned<Connection>::create(RPCORDMA_ALLOC_NOIO);

	if (!made)
		return nullptr;
	Connection *c = made.let_go();
	c->client = &client;
	c->reduction = rpcordma_tunables.version2_rtr;
	if (c->reduction) {
		c->send_write_max = rpcordma_tunables.send_write_max;
		c->send_read_max = rpcordma_tunables.send_read_max;
	}
	client.reserve.store(0, std::memory_order_relaxed);
	c->peer = client.peer;
	c->marked = marked && (client.aside_made || client.make_backward_call());
	client.aside_made = client.aside_made || c->marked;
	client.answered.reset();
	/* Before anything can be granted. */
	rpcordma_xprt_reset_credits(client.xprt, RequesterCredits::kInitial);
	return c;
}

Status rpcordma_client::connect()
{
	protocol::Attempt attempt(protocol::may_mark(
		rpcordma_tunables.version2, announce_size(rpcordma_tunables.max_inline_write),
		announce_size(rpcordma_tunables.max_inline_read)));

	if (connection)
		tear_down(connection);
	Connection *c;
	bool unanswered = false;
	for (;;) {
		c = create_connection(*this, attempt.marked());
		if (!c) {
			/* Or sunrpc would try again at once, and again. */
			back_off.store(true, std::memory_order_relaxed);
			trace::loss(peer, Loss::connection_alloc_failed, to_errno(Error::no_memory));
			return Error::no_memory;
		}
		const Status status = establish(*this, *c, unanswered);
		if (status.ok())
			break;
		const bool again = attempt.again(c->answer.load());
		if (!again) {
			back_off.store(true, std::memory_order_relaxed);
			trace::loss(peer, Loss::connect_failed, to_errno(status.error()));
		}
		tear_down(c);
		if (!again)
			return status;
		unanswered = true;
	}
	rpcordma_xprt_set_max_payload(xprt, chunk::max_payload(c->limits));
	wants_space.store(false, std::memory_order_relaxed);
	{
		MutexGuard fenced(fence);
		SpinGuard guard(lock);

		connection = c;
	}
	trace::connection(peer, "connected", static_cast<int>(c->credits.requested().get()));
	c->published.store(true, std::memory_order_seq_cst);
	if (c->broken.load(std::memory_order_seq_cst))
		rpcordma_xprt_force_disconnect(xprt);
	return {};
}

/* --- the client's own life --- */

Status rpcordma_client::create(rpc_xprt *transport, u32 slot_count)
{
	xprt = transport;
	peer = rpcordma_xprt_peer(transport);
	slots = slot_count;
	if (!lock.create(RPCORDMA_LOCK_CLIENT) || !fence.create(RPCORDMA_MUTEX_FENCE) ||
	    !answered.create())
		return Error::no_memory;
	for (u32 i = 0; i < slots; i++) {
		Call *call = create_call(false);

		if (!call)
			return Error::no_memory;
		SpinGuard guard(lock);
		free_slots.push_back(call);
	}
	return {};
}

/* Nobody else knows the client any more; create() may have failed. */
void rpcordma_client::destroy() NO_THREAD_SAFETY_ANALYSIS
{
	close();
	while (Call *call = all.front())
		destroy_call(call);
}
