// SPDX-License-Identifier: GPL-2.0-only
/* The double of the port; see test_rdma_port.hh. No tests here. */
#include "kunit/test_rdma_port.hh"

#include <new>

unsigned int rpcordma_trace_enabled;

namespace rpcordma {

PortDouble *the_port;

void PortLog::expect_no_others() const
{
	for (u32 i = 0; i < RPCORDMA_FAILURE_COUNT; i++) {
		TEST_NOTE("a failure that was not asked for", i);
		EXPECT_EQ(failures[i], 0);
	}
	for (u32 i = 0; i < RPCORDMA_LOSS_COUNT; i++) {
		TEST_NOTE("a loss that was not asked for", i);
		EXPECT_EQ(losses[i], 0);
	}
}

void PortDouble::want_for_nothing()
{
	memory.allocations_left = memory.pages_left = kNoLimit;
	sync.locks_left = sync.gates_left = kNoLimit;
	sync.stalls = 0;
	sync.disconnect_in_wait = false;
	dma.mappings_left = kNoLimit;
	dma.bulks_left = dma.bulk_maps_left = kNoLimit;
	dma.regions_left = dma.region_maps_left = dma.scratch_maps_left = kNoLimit;
	verbs.receives_left = verbs.sends_left = kNoLimit;
	verbs.fail_at = kNoLimit;
}

bool same_words(const char *a, const char *b)
{
	if (!a || !b)
		return a == b;
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

void PortLog::expect_version(const char *role, u32 number, const char *why, u32 events) const
{
	EXPECT_EQ(versions, events);
	EXPECT_TRUE(same_words(version.role, role));
	EXPECT_EQ(version.version, number);
	EXPECT_TRUE(same_words(version.why, why));
}

void PortLog::expect_property(u32 age, const char *what, const rpcordma_trace_properties &said) const
{
	TEST_NOTE("events ago", age);
	const auto &event = properties[age];

	EXPECT_TRUE(same_words(event.what, what));
	EXPECT_EQ(event.said.xid, said.xid);
	EXPECT_EQ(event.said.credits, said.credits);
	EXPECT_EQ(event.said.proc, said.proc);
	EXPECT_EQ(event.said.ids, said.ids);
	EXPECT_EQ(event.said.fixed, said.fixed);
	EXPECT_EQ(event.said.receive_size, said.receive_size);
	EXPECT_EQ(event.said.pages, said.pages);
}

void PortLog::expect_group(u32 age, const char *what, const rpcordma_trace_transmission &said) const
{
	TEST_NOTE("events ago", age);
	const auto &event = transmissions[age];

	EXPECT_TRUE(same_words(event.what, what));
	EXPECT_EQ(event.said.xid, said.xid);
	EXPECT_EQ(event.said.option, said.option);
	EXPECT_EQ(event.said.number, said.number);
	EXPECT_EQ(event.said.count, said.count);
	EXPECT_EQ(event.said.stream_length, said.stream_length);
}

void PortLog::expect_connection(u32 age, const char *what, int value) const
{
	TEST_NOTE("events ago", age);
	EXPECT_TRUE(same_words(connections[age].what, what));
	EXPECT_EQ(connections[age].value, value);
}

/* On the heap: a kernel's stack is small. */
PortFixture::PortFixture()
	: port_(*new (rpcordma_test_alloc(sizeof(PortDouble))) PortDouble),
	  memory(port_.memory),
	  sync(port_.sync),
	  dma(port_.dma),
	  verbs(port_.verbs),
	  peer(port_.peer),
	  svc(port_.svc),
	  sunrpc(port_.sunrpc),
	  log(port_.log),
	  ledger(port_.ledger),
	  client_ledger(port_.client_ledger)
{
	the_port = &port_;
	verbs.device.fast_registration = true;
	verbs.device.max_fast_reg_pages = 512;
	verbs.device.max_send_sge = 32;
	verbs.device.max_recv_sge = 32;
	verbs.device.max_qp_wr = 4096;
	verbs.device.max_cqe = 4096;
	verbs.device.max_qp_rd_atom = verbs.device.max_qp_init_rd_atom = 16;
	verbs.device.max_sge_rd = 32;
	verbs.device.page_size = verbs.device.mr_page_size = kPage;
	verbs.send_queue =
		static_cast<Posted *>(rpcordma_test_alloc(PortVerbs::kMostSends * sizeof(Posted)));
	peer.have(PortPeer::kBytes);
	/* Each case counts what it says, and has seen the code that says it. */
	rpcordma_trace_enabled = ~0u;
	rpcordma_server_tunables = {};
	rpcordma_server_tunables.max_requests = 64;
	rpcordma_server_tunables.max_req_size = 1024;
	rpcordma_server_tunables.max_outbound_read_requests = 16;
	rpcordma_server_tunables.rnr_retry_count = 7;
	rpcordma_tunables = {};
	rpcordma_tunables.slot_table_entries = 8;
	rpcordma_tunables.max_inline_read = rpcordma_tunables.max_inline_write = 4096;
}

PortFixture::~PortFixture()
{
	verbs.expect_none();
	dma.expect_none();
	sync.expect_none();
	ledger.expect_even();
	EXPECT_EQ(log.warned, 0);
	if (log.asked)
		log.expect_no_others();
	for (rpc_rqst *rqst : sunrpc.requests)
		EXPECT_EQ(rqst, nullptr);
	/* Last, as it frees what is left. */
	memory.expect_none();
	rpcordma_test_free(verbs.send_queue, PortVerbs::kMostSends * sizeof(Posted));
	rpcordma_test_free(peer.memory, peer.bytes);
	rpcordma_test_free(&port_, sizeof(port_));
	the_port = nullptr;
}

} // namespace rpcordma

using namespace rpcordma;

/* A client says of everything whom it is about. */
static void expect_peer(const rpcordma_peer *peer)
{
	if (the_port->verbs.requester)
		EXPECT_EQ(peer, rpcordma_xprt_peer(nullptr));
}

/* --- base.h --- */

void rpcordma_log(const rpcordma_peer *peer, rpcordma_level, const char *)
{
	expect_peer(peer);
	the_port->log.logged++;
}

void rpcordma_log_value(const rpcordma_peer *peer, rpcordma_level, const char *, long long)
{
	expect_peer(peer);
	the_port->log.logged++;
}

void rpcordma_log_values(const rpcordma_peer *peer, rpcordma_level, const char *, long long value,
			 long long wanted)
{
	expect_peer(peer);
	the_port->log.logged++;
	the_port->log.value = value;
	the_port->log.wanted = wanted;
}

void rpcordma_log_string(const rpcordma_peer *peer, rpcordma_level, const char *, const char *)
{
	expect_peer(peer);
	the_port->log.logged++;
}

void rpcordma_warn(const char *)
{
	the_port->log.warned++;
}

/* --- trace.h --- */

void rpcordma_trace_connection(const rpcordma_peer *peer, const char *what, int value)
{
	expect_peer(peer);
	PortLog &log = the_port->log;

	for (u32 i = sizeof(log.connections) / sizeof(log.connections[0]) - 1; i; i--)
		log.connections[i] = log.connections[i - 1];
	the_port->client_ledger.traced_connection(what, value);
	log.connections[0] = {what, value};
	log.connection_events++;
}

void rpcordma_trace_version(const rpcordma_peer *peer, const char *role, rpcordma_u32 version,
			    const char *why)
{
	expect_peer(peer);
	PortLog &log = the_port->log;

	log.version = {role, why, version};
	log.versions++;
}

void rpcordma_trace_property(const rpcordma_peer *peer, const char *what,
			     const rpcordma_trace_properties *said)
{
	expect_peer(peer);
	PortLog &log = the_port->log;

	log.properties[2] = log.properties[1];
	log.properties[1] = log.properties[0];
	log.properties[0] = {what, *said};
	log.property_events++;
}

void rpcordma_trace_group(const rpcordma_peer *peer, const char *what,
			  const rpcordma_trace_transmission *transmission)
{
	expect_peer(peer);
	PortLog &log = the_port->log;

	log.transmissions[1] = log.transmissions[0];
	log.transmissions[0] = {what, *transmission};
	log.group_events++;
}

void rpcordma_trace_marshal(const rpcordma_peer *peer, rpcordma_u32 xid, rpcordma_u32 credits,
			    rpcordma_u32 proc, rpcordma_u32 header, rpcordma_u32 stream,
			    rpcordma_u32, rpcordma_u32)
{
	expect_peer(peer);
	the_port->client_ledger.traced_marshal(xid, credits, proc, header, stream);
}

void rpcordma_trace_post(const rpcordma_endpoint *, rpcordma_trace_queue queue, const char *what,
			 rpcordma_u32 xid, rpcordma_u32 requests, rpcordma_bool signaled,
			 int result, const void *entry)
{
	PortLog &log = the_port->log;

	the_port->ledger.traced_post(queue, xid, requests, signaled, result, entry);
	log.traced_posts++;
	log.read_posts += same_words(what, "read");
	log.write_posts += same_words(what, "write");
	if (queue == RPCORDMA_TRACE_SEND_QUEUE)
		log.posted_entry = entry;
}

void rpcordma_trace_receive_posted(const rpcordma_endpoint *, const void *entry)
{
	the_port->ledger.traced_receive(entry);
	the_port->log.traced_receives++;
	the_port->log.receive_entry = entry;
}

void rpcordma_trace_completion(const rpcordma_endpoint *, rpcordma_trace_queue queue,
			       const char *what, int status, rpcordma_u32 byte_len,
			       rpcordma_u32 invalidated_rkey, const void *entry)
{
	PortLog &log = the_port->log;

	the_port->ledger.traced_completion(queue, what, status, byte_len, invalidated_rkey, entry);
	log.read_completions += same_words(what, "read");
	log.write_completions += same_words(what, "write");
	(queue == RPCORDMA_TRACE_SEND_QUEUE ? log.completed_entry : log.received_entry) = entry;
}

void rpcordma_trace_region(const rpcordma_peer *peer, const char *what, rpcordma_u32 xid,
			   const rpcordma_region *region, const rpcordma_mapping *mapping)
{
	expect_peer(peer);
	the_port->ledger.traced_region(what, xid, region, mapping);
	the_port->client_ledger.traced_region(what, xid, *const_cast<rpcordma_region *>(region),
					      *mapping);
	the_port->log.traced_regions++;
}

void rpcordma_trace_credits(const rpcordma_peer *peer, rpcordma_u32 from, rpcordma_u32 to)
{
	expect_peer(peer);
	the_port->client_ledger.traced_credits(from, to);
	/* A client that asks for fewer gets no more: that has no event. */
	if (the_port->verbs.server)
		EXPECT_LE(from, the_port->log.granted);
	the_port->log.granted = to;
}

void rpcordma_trace_reply(const rpcordma_peer *peer, const char *what, rpcordma_u32 xid,
			  rpcordma_u32 credits, rpcordma_u32 proc, int result)
{
	PortLog &log = the_port->log;

	expect_peer(peer);
	the_port->ledger.traced_reply(what, xid, result);
	the_port->client_ledger.traced_reply(what, xid, credits, proc, result);
	log.reply = {what, xid, credits, proc, result};
	log.calls += same_words(what, "call");
}

void rpcordma_trace_decode(const rpcordma_peer *, const rpcordma_trace_call *call)
{
	the_port->log.decoded = *call;
	the_port->log.decodes++;
}

void rpcordma_trace_encode(const rpcordma_peer *, const rpcordma_trace_answer *answer)
{
	the_port->log.encoded = *answer;
	the_port->log.encodes++;
}

void rpcordma_trace_failure(rpcordma_failure which, const rpcordma_peer *peer, rpcordma_u32 xid,
			    int value)
{
	expect_peer(peer);
	the_port->ledger.traced_failure(which, xid, value);
	the_port->client_ledger.traced_failure(which, xid, value);
	the_port->log.failure_xid = xid;
	the_port->log.failure_value = value;
	the_port->log.failures[which]++;
	the_port->log.all_failures[which]++;
}

void rpcordma_trace_loss(rpcordma_loss which, const rpcordma_peer *peer, int value)
{
	expect_peer(peer);
	the_port->ledger.traced_loss(which, value);
	the_port->client_ledger.traced_loss(which, value);
	the_port->log.loss_before = the_port->log.loss_value;
	the_port->log.loss_value = value;
	the_port->log.losses[which]++;
}
