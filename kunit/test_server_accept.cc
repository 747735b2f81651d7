// SPDX-License-Identifier: GPL-2.0-only
/*
 * A server's connection from its request to its end: module/server/connection.cc. What it asks of the
 * device, what it tells the client, and that nothing is left of it whatever fails.
 */
#include "kunit/test_server_connection.hh"
#include "kunit/testing.hh"

namespace rpcordma {
namespace {

constexpr u32 kFirst = ResponderCredits::kInitial + kServerBatch;

} // namespace

RPCORDMA_TEST(server_accept, sizes)
{
	Connected c;

	/* A handful of Receives, with their buffers; nothing else. */
	EXPECT_EQ(c.verbs.posted, kFirst);
	EXPECT_EQ(c.dma.mappings, kFirst);
	EXPECT_EQ(c.calls(), kFirst);
	EXPECT_EQ(c.grant(), ResponderCredits::kInitial);
	EXPECT_EQ(c.verbs.sizes.send_sges, 32);
	EXPECT_EQ(c.verbs.sizes.receive_wrs, 64 + kServerBackwardCalls + kServerBatch);
	EXPECT_EQ(c.verbs.sizes.send_wrs, 64 + kServerBackwardCalls + Transfer::kRequests);
	EXPECT_EQ(c.receive_size(), 1024);
	/* The lower of what we send and what it takes. */
	EXPECT_EQ(c.send_size(), 1024);

	EXPECT_EQ(c.verbs.parameters.initiator_depth, 16);
	EXPECT_EQ(c.verbs.parameters.responder_resources, 0);
	EXPECT_EQ(c.verbs.parameters.rnr_retry_count, 7);
	const auto said =
		private_data::parse({c.verbs.private_data, c.verbs.parameters.private_data_length});
	ASSERT_OK(said);
	EXPECT_EQ(said.value().receive_size, 1024);
	EXPECT_EQ(said.value().send_size, 1024);
	EXPECT_TRUE(said.value().remote_invalidation);
	EXPECT_EQ(rpcordma_core_server_backward_payload(c.server), 1024 - 28);
	EXPECT_EQ(rpcordma_core_server_backward_payload(nullptr), 1024 - 28);
	EXPECT_EQ(rpcordma_core_server_backward_calls(), kServerBackwardCalls);
}

/* What debugfs shows of a connection. */
RPCORDMA_TEST(server_accept, state)
{
	Connected c({.established = false});
	rpcordma_server_state state = {};

	rpcordma_core_server_state(c.server, &state);
	EXPECT_FALSE(state.established);
	c.establish();
	rpcordma_core_server_state(c.server, &state);
	EXPECT_TRUE(state.established);
	EXPECT_EQ(state.version, 1);
	EXPECT_EQ(state.credits, ResponderCredits::kInitial);
	EXPECT_EQ(state.calls, 0);
	EXPECT_EQ(state.inline_send, c.send_size());
	EXPECT_EQ(state.inline_receive, c.receive_size());
	EXPECT_EQ(state.receives, kFirst);
	EXPECT_FALSE(state.waiting);
	ASSERT_TRUE(c.send_inline(1));
	rpcordma_core_server_state(c.server, &state);
	EXPECT_EQ(state.calls, 1);
	ASSERT_EQ(c.receive(), 40);
	EXPECT_EQ(c.reply(20), 0);
	c.work();
	rpcordma_core_server_state(c.server, &state);
	EXPECT_EQ(state.calls, 0);
	rpcordma_core_server_detach(c.server);
	rpcordma_core_server_state(c.server, &state);
	EXPECT_FALSE(state.established);
}

/* A client that says nothing takes 1024 bytes (RFC 8166 3.3.3), and knows no remote invalidation. */
RPCORDMA_TEST(server_accept, silent_client)
{
	Accepted c;

	rpcordma_server_tunables.max_req_size = 4096;
	EXPECT_EQ(c.accept(), 0);
	EXPECT_EQ(c.receive_size(), 4096);
	EXPECT_EQ(c.send_size(), 1024);
	EXPECT_FALSE(c.remote_invalidation());
}

/* The least of what the client serves, the device does, and the administrator allows. */
RPCORDMA_TEST(server_accept, read_depth)
{
	static constexpr struct {
		u32 client, device, tunable, depth; /* 0: refused */
	} depths[] = {
		{.client = 16, .device = 16, .tunable = 16, .depth = 16},
		{.client = 1, .device = 16, .tunable = 16, .depth = 1},
		{.client = 16, .device = 3, .tunable = 16, .depth = 3},
		{.client = 16, .device = 16, .tunable = 4, .depth = 4},
		{.client = 0, .device = 16, .tunable = 16, .depth = 0},
		{.client = 16, .device = 0, .tunable = 16, .depth = 0},
		{.client = 16, .device = 16, .tunable = 0, .depth = 0},
		{.client = 255, .device = 1000, .tunable = 1000, .depth = 255},
		{.client = 300, .device = 1000, .tunable = 1000, .depth = 255},
	};

	for (const auto &d : depths) {
		TEST_NOTE("the client's", d.client);
		TEST_NOTE("the device's", d.device);
		TEST_NOTE("the limit", d.tunable);
		Accepted c;

		c.verbs.device.max_qp_init_rd_atom = d.device;
		rpcordma_server_tunables.max_outbound_read_requests = d.tunable;
		EXPECT_EQ(c.accept(d.client), d.depth ? 0 : to_errno(Error::invalid));
		EXPECT_EQ(c.verbs.parameters.initiator_depth, d.depth);
		EXPECT_EQ(c.log.logged, d.depth ? 0 : 1);
		EXPECT_EQ(c.log.take(trace::Loss::accept_failed), d.depth ? 0 : 1);
		EXPECT_EQ(c.log.take(trace::Loss::client_serves_no_reads), d.depth ? 0 : 1);
	}
}

/* Small devices give small connections; too small ones, none, and a line in the log. */
RPCORDMA_TEST(server_accept, small_queues)
{
	for (u32 most = 36; most <= 300; most += most < 46 ? 1 : 10) {
		TEST_NOTE("work requests", most);
		Accepted c;
		c.verbs.device.max_qp_wr = most;
		const int rc = c.accept();

		if (most <= 41) {
			EXPECT_EQ(rc, to_errno(Error::not_supported));
			EXPECT_EQ(c.log.logged, 1);
			EXPECT_EQ(c.log.take(trace::Loss::device_queues), 1);
			EXPECT_EQ(c.log.take(trace::Loss::accept_failed), 1);
			EXPECT_EQ(c.log.loss_before, int(most));
			continue;
		}
		EXPECT_EQ(rc, 0);
		/* One more in each queue is for the drain. */
		EXPECT_LT(c.verbs.sizes.send_wrs, most);
		EXPECT_LT(c.verbs.sizes.receive_wrs, most);
		EXPECT_EQ(c.room(), c.verbs.sizes.send_wrs);
	}
	Accepted c;
	c.verbs.device.max_cqe = 20;
	EXPECT_EQ(c.accept(), to_errno(Error::not_supported));
}

/* One call at least, and as many as the administrator says: with each there is room for one more reply. */
RPCORDMA_TEST(server_accept, few_requests)
{
	u32 room[4];

	for (u32 requests = 0; requests < 4; requests++) {
		Accepted c;

		rpcordma_server_tunables.max_requests = requests;
		ASSERT_EQ(c.accept(), 0);
		room[requests] = c.room();
		EXPECT_EQ(c.granted(), max(1u, requests));
	}
	EXPECT_EQ(room[0], room[1]);
	EXPECT_EQ(room[2], room[1] + 1);
	EXPECT_EQ(room[3], room[1] + 2);
}

/* As many as the device has. */
RPCORDMA_TEST(server_accept, device_sges)
{
	static constexpr struct {
		u32 send, read;
		bool region = false;
		u32 sends, reads;
	} devices[] = {
		{.send = 30, .read = 30, .sends = 30, .reads = 30},
		{.send = 255, .read = 255, .sends = 32, .reads = 32},
		{.send = 6, .read = 3, .sends = 6, .reads = 3},
		{.send = 3, .read = 32, .sends = 3, .reads = 3},
		{.send = 0, .read = 0, .sends = 1, .reads = 1},
		{.send = 1, .read = 32, .sends = 1, .reads = 1},
		{.send = 6, .read = 1, .sends = 6, .reads = 1},
		{.send = 6, .read = 32, .region = true, .sends = 6, .reads = 1},
	};

	for (const auto &d : devices) {
		TEST_NOTE("SGEs of a Send", d.send);
		TEST_NOTE("SGEs of a Read", d.read);
		Accepted c;
		c.verbs.device.max_send_sge = d.send;
		c.verbs.device.max_sge_rd = d.read;
		c.verbs.device.read_needs_region = d.region;
		ASSERT_EQ(c.accept(), 0);
		EXPECT_EQ(c.send_sges(), d.sends);
		EXPECT_EQ(c.read_sges(), d.reads);
	}
}

/* A device that cannot give as many SGEs to so many work requests as it says gives fewer. */
RPCORDMA_TEST(server_accept, fewer_sges)
{
	static constexpr struct {
		u32 most;	  /* SGEs that create_qp() goes along with */
		u32 sends, tries; /* sends 0: refused */
	} devices[] = {
		{.most = 32, .sends = 32, .tries = 1}, {.most = 31, .sends = 16, .tries = 2},
		{.most = 16, .sends = 16, .tries = 2}, {.most = 5, .sends = 4, .tries = 4},
		{.most = 4, .sends = 4, .tries = 4},   {.most = 3, .sends = 2, .tries = 5},
		{.most = 1, .sends = 1, .tries = 6},   {.most = 0, .sends = 0, .tries = 6},
	};

	for (const auto &d : devices) {
		TEST_NOTE("SGEs", d.most);
		Accepted c;
		c.verbs.qp_sges = d.most;
		EXPECT_EQ(c.accept(), d.sends ? 0 : to_errno(Error::no_memory));
		EXPECT_EQ(c.verbs.qp_tries, d.tries);
		EXPECT_EQ(c.log.take(trace::Loss::qp_failed), d.sends ? d.tries - 1 : d.tries);
		EXPECT_EQ(c.log.take(trace::Loss::accept_failed), d.sends ? 0 : 1);
		if (!d.sends)
			continue;
		EXPECT_EQ(c.send_sges(), d.sends);
		EXPECT_EQ(c.read_sges(), d.sends);
		EXPECT_EQ(c.verbs.sizes.send_sges, d.sends);
	}
}

/* The device does, or is refused, which is told once, as @why, with @figure. */
static void expect_device(Accepted &c, bool good, trace::Loss why, u32 figure)
{
	EXPECT_EQ(c.accept(), good ? 0 : to_errno(Error::not_supported));
	EXPECT_EQ(c.log.logged, good ? 0 : 1);
	EXPECT_EQ(c.log.take(trace::Loss::accept_failed), good ? 0 : 1);
	EXPECT_EQ(c.log.take(why), good ? 0 : 1);
	if (!good)
		EXPECT_EQ(c.log.loss_before, int(figure));
}

/* Where sinks are to be registered, the device must be able to: 1 MiB by 33 regions. */
RPCORDMA_TEST(server_accept, read_needs_region)
{
	static constexpr u32 kLarge = 64 * 1024;
	static constexpr struct {
		bool fast;
		u32 pages;
		bool good;
		u32 page_size = kPage, mr_page_size = kPage;
	} devices[] = {
		{.fast = true, .pages = 256, .good = true},
		{.fast = true, .pages = 128, .good = true},
		{.fast = true, .pages = 8, .good = true},
		{.fast = true, .pages = 7, .good = false},
		{.fast = false, .pages = 256, .good = false},
		/* Pages of its own, four to one of the kernel's. */
		{.fast = true, .pages = 32, .good = true, .mr_page_size = kPage / 4},
		{.fast = true, .pages = 31, .good = false, .mr_page_size = kPage / 4},
		/* A kernel of 64 KiB pages on a device of 4 KiB pages: 1 MiB is 16 of them. */
		{.fast = true, .pages = 128, .good = true, .page_size = kLarge, .mr_page_size = 4096},
		{.fast = true, .pages = 16, .good = true, .page_size = kLarge, .mr_page_size = 4096},
		{.fast = true, .pages = 15, .good = false, .page_size = kLarge, .mr_page_size = 4096},
		/* Of 8 KiB pages 33 regions of four are what there has to be, and no page more. */
		{.fast = true, .pages = 4, .good = true, .page_size = 8192, .mr_page_size = 8192},
		{.fast = true, .pages = 3, .good = false, .page_size = 8192, .mr_page_size = 8192},
	};

	for (const auto &d : devices) {
		TEST_NOTE("pages", d.pages);
		TEST_NOTE("of bytes", d.mr_page_size);
		Accepted c;
		c.verbs.device.read_needs_region = true;
		c.verbs.device.fast_registration = d.fast;
		c.verbs.device.max_fast_reg_pages = d.pages;
		c.verbs.device.page_size = d.page_size;
		c.verbs.device.mr_page_size = d.mr_page_size;
		expect_device(c, d.good, trace::Loss::device_registration,
			      d.pages / (d.page_size / d.mr_page_size));
	}
}

/* One chain registers the regions of a sink, and invalidates them: the send queue has to have room for 1 MiB. */
RPCORDMA_TEST(server_accept, queue_for_regions)
{
	static constexpr struct {
		u32 pages, work_requests;
		bool good;
	} devices[] = {
		{.pages = 8, .work_requests = 69, .good = true},
		{.pages = 8, .work_requests = 68, .good = false},
		{.pages = 10, .work_requests = 55, .good = true},
		{.pages = 10, .work_requests = 54, .good = false},
	};

	for (const auto &d : devices) {
		TEST_NOTE("pages", d.pages);
		TEST_NOTE("work requests", d.work_requests);
		Accepted c;
		c.verbs.device.read_needs_region = true;
		c.verbs.device.max_fast_reg_pages = d.pages;
		c.verbs.device.max_qp_wr = d.work_requests;
		expect_device(c, d.good, trace::Loss::device_queues, d.work_requests);
	}
}

/* Whatever is missing: an error, and all is given back. */
RPCORDMA_TEST(server_accept, failures)
{
	for (u32 n = 0;; n++) {
		TEST_NOTE("allocations that go well", n);
		Accepted c;
		c.memory.allocations_left = n;
		const int rc = c.accept();
		c.memory.allocations_left = kNoLimit;
		if (!rc) {
			EXPECT_GE(n, 3 * kFirst);
			break;
		}
		EXPECT_EQ(rc, to_errno(Error::no_memory));
	}
	/* Each allocation alone, so that what comes behind it has to be given back. */
	for (u32 n = 0; n < 3 * kFirst; n++) {
		TEST_NOTE("the allocation that fails", n);
		Accepted c;
		c.memory.allocation_refused_at = n;
		EXPECT_EQ(c.accept(), to_errno(Error::no_memory));
		c.memory.allocation_refused_at = kNoLimit;
	}
	for (u32 n = 0; n < kFirst; n++) {
		TEST_NOTE("mappings that go well", n);
		Accepted c;
		c.dma.mappings_left = n;
		EXPECT_EQ(c.accept(), to_errno(Error::no_memory));
		EXPECT_EQ(c.log.take(trace::Failure::receive_map_failed), 1);
		EXPECT_EQ(c.log.take(trace::Loss::first_receives_failed), 1);
		EXPECT_EQ(c.log.take(trace::Loss::accept_failed), 1);
	}
	for (u32 n = 0; n < kFirst; n++) {
		TEST_NOTE("Receives that can be posted", n);
		Accepted c;
		c.verbs.receives_left = n;
		EXPECT_EQ(c.accept(), to_errno(Error::no_memory));
		EXPECT_EQ(c.log.take(trace::Failure::receive_post_failed), 1);
		EXPECT_EQ(c.log.take(trace::Loss::receive_not_posted), 1);
		EXPECT_EQ(c.log.take(trace::Loss::first_receives_failed), 1);
		EXPECT_EQ(c.log.take(trace::Loss::accept_failed), 1);
	}
	{
		Accepted c;
		c.sync.locks_left = 0;
		EXPECT_EQ(c.accept(), to_errno(Error::no_memory));
	}
	{
		Accepted c;
		c.sync.gates_left = 0;
		EXPECT_EQ(c.accept(), to_errno(Error::no_memory));
		rpcordma_core_server_event(c.server, RPCORDMA_EVENT_DEVICE_REMOVAL);
		rpcordma_core_server_detach(c.server);
		EXPECT_EQ(c.verbs.disconnects, 1);
	}
	{
		Accepted c;
		c.verbs.create_qp_result = -12;
		EXPECT_EQ(c.accept(), -12);
	}
	{
		Accepted c;
		c.verbs.accept_result = -107;
		EXPECT_EQ(c.accept(), -107);
		EXPECT_EQ(c.log.take(trace::Loss::handshake_failed), 1);
		EXPECT_EQ(c.log.take(trace::Loss::accept_failed), 1);
		/* A later event finds a connection that is closing already. */
		rpcordma_core_server_event(c.server, RPCORDMA_EVENT_DISCONNECTED);
		EXPECT_EQ(c.svc.closed, 0);
	}
}

RPCORDMA_TEST(server_accept, module)
{
	for (u32 n = 0; n < 2; n++) {
		TEST_NOTE("locks that go well", n);
		PortFixture c;
		c.sync.locks_left = n;
		EXPECT_EQ(rpcordma_core_server_init(), to_errno(Error::no_memory));
	}
	PortFixture c;
	EXPECT_EQ(rpcordma_core_server_init(), 0);
	rpcordma_core_server_exit();
}

/* Whatever ends a connection asks for its end once. */
RPCORDMA_TEST(server_accept, events)
{
	static constexpr rpcordma_endpoint_event events[] = {RPCORDMA_EVENT_DISCONNECTED,
							     RPCORDMA_EVENT_ADDRESS_CHANGE,
							     RPCORDMA_EVENT_DEVICE_REMOVAL,
							     RPCORDMA_EVENT_QP_FATAL};

	using trace::Loss;
	static constexpr Loss losses[] = {Loss::disconnected, Loss::address_change,
					  Loss::device_removal, Loss::qp_fatal};
	const Loss *loss = losses;

	for (const rpcordma_endpoint_event event : events) {
		TEST_NOTE("event", event);
		Connected c;
		EXPECT_EQ(c.svc.closed, 0);
		rpcordma_core_server_event(c.server, event);
		EXPECT_EQ(c.svc.closed, 1);
		rpcordma_core_server_event(c.server, event);
		EXPECT_EQ(c.svc.closed, 1);
		EXPECT_EQ(c.log.take(*loss++), 1);
		rpcordma_core_server_detach(c.server);
		EXPECT_EQ(c.verbs.disconnects, 1);
	}
	Connected c;
	rpcordma_core_server_inject_disconnect(c.server);
	EXPECT_EQ(c.verbs.disconnects, 1);
	EXPECT_EQ(c.svc.closed, 0);
}

/* What was agreed on is told, and when the client is there. */
RPCORDMA_TEST(server_accept, told)
{
	Accepted c;

	EXPECT_EQ(c.accept(), 0);
	EXPECT_EQ(c.log.connection_events, 1);
	c.log.expect_connection(0, "accept", 64);
	rpcordma_core_server_event(c.server, RPCORDMA_EVENT_ESTABLISHED);
	EXPECT_EQ(c.log.connection_events, 2);
	c.log.expect_connection(0, "established", 0);
}

/* Receives that come back flushed are no calls, and bring no others. */
RPCORDMA_TEST(server_accept, flushed)
{
	Connected c;

	c.verbs.flush();
	EXPECT_EQ(c.verbs.posted, 0);
	EXPECT_EQ(c.posted(), 0);
	EXPECT_EQ(c.svc.closed, 1);
	EXPECT_FALSE(c.svc.data);
	EXPECT_EQ(c.log.take(trace::Loss::receive_failed), 1);
}

/* A message that comes with the end is not looked at. */
RPCORDMA_TEST(server_accept, late_message)
{
	Connected c;

	rpcordma_core_server_detach(c.server);
	ASSERT_TRUE(c.send_inline(1));
	EXPECT_FALSE(c.svc.data);
	EXPECT_EQ(c.verbs.posted, kFirst - 1);
}

RPCORDMA_SUITE(server_accept, state, sizes, silent_client, read_depth, small_queues, few_requests,
	       device_sges, fewer_sges, read_needs_region, queue_for_regions, failures, module,
	       events, told, flushed, late_message);

} // namespace rpcordma
