// SPDX-License-Identifier: GPL-2.0-only
/*
 * The double of the port, for client and server: one object, made of one piece for each subject. All of it
 * keeps account, fails on demand, and takes misuse for a failure of the running case: memory freed twice, a
 * buffer unmapped twice or of another length, a lock taken twice, an allocation that sleeps in a completion
 * or under a lock, a Receive posted while it is posted, a chain longer than the queue has room for, memory
 * that the device uses unmapped, an RPC that completes twice.
 *
 *	PortFixture c;
 *	c.memory.allocations_left = 0;          // the next one fails
 *	...
 *	EXPECT_EQ(c.verbs.posted, 8);
 *
 * The port's functions have no context: they find the double by the_port, which a PortFixture sets while it
 * lives. There is one at a time. rpcordma_kunit.ko holds nothing of compat/linux, so the double serves in a
 * kernel as well.
 */
#pragma once

#include "kunit/test_rdma_port_client.hh"
#include "kunit/test_rdma_port_dma.hh"
#include "kunit/test_rdma_port_ledger.hh"
#include "kunit/test_rdma_port_memory.hh"
#include "kunit/test_rdma_port_sunrpc.hh"
#include "kunit/test_rdma_port_svc.hh"
#include "kunit/test_rdma_port_sync.hh"
#include "kunit/test_rdma_port_verbs.hh"
#include "module/rdma/trace.hh"

namespace rpcordma {

/** Two texts, or none. */
[[nodiscard]] bool same_words(const char *a, const char *b);

/** What was logged and traced. */
struct PortLog {
	u32 logged = 0, warned = 0;
	long long value = 0, wanted = 0; /* in the last line that has both */
	u32 traced_posts = 0, traced_receives = 0, traced_regions = 0;
	/* Chains that were told of as "read", and as "write". */
	u32 read_posts = 0, read_completions = 0, write_posts = 0, write_completions = 0;
	/* What the last post to the send queue ends in, and what completed there last; likewise of Receives. */
	const void *posted_entry = nullptr, *completed_entry = nullptr;
	const void *receive_entry = nullptr, *received_entry = nullptr;
	/* The last event about a connection's version, and how many there were. */
	struct {
		const char *role, *why;
		u32 version;
	} version = {"", "", 0};
	u32 versions = 0;
	/* The last ones about properties, the newest first, and how many there were. */
	struct {
		const char *what;
		rpcordma_trace_properties said;
	} properties[3] = {{"", {}}, {"", {}}, {"", {}}};
	u32 property_events = 0;
	/* Likewise, of transmissions of messages that may have several. */
	struct {
		const char *what;
		rpcordma_trace_transmission said;
	} transmissions[2] = {{"", {}}, {"", {}}};
	u32 group_events = 0;
	/* The last ones of a connection's life, the newest first, and how many there were. */
	struct {
		const char *what;
		int value;
	} connections[6] = {{"", 0}, {"", 0}, {"", 0}, {"", 0}, {"", 0}, {"", 0}};
	u32 connection_events = 0;
	/* The last message that came, and how many of a server's there were that are calls. */
	struct {
		const char *what;
		u32 xid, credits, proc;
		int result;
	} reply = {"", 0, 0, 0, 0};
	u32 calls = 0;
	/* What a server grants, by its events. */
	u32 granted = 0;
	rpcordma_trace_call decoded = {};
	rpcordma_trace_answer encoded = {};
	u32 decodes = 0, encodes = 0;
	u32 failures[RPCORDMA_FAILURE_COUNT] = {};
	u32 all_failures[RPCORDMA_FAILURE_COUNT] = {}; /* those that were asked for, too */
	u32 losses[RPCORDMA_LOSS_COUNT] = {};
	u32 bulks[RPCORDMA_BULK_COUNT] = {};
	/* What the last failure said, and the last loss, and that before it. */
	u32 failure_xid = 0;
	int failure_value = 0, loss_value = 0, loss_before = 0;

	/** How often there was such an event. */
	[[nodiscard]] u32 count(trace::Bulk which) const
	{
		return bulks[u32(which)];
	}
	/**
	 * How often there was such an event since it was asked last. A case that asks for one is to ask for all
	 * that it gave, lest the fixture fail it at its end.
	 */
	[[nodiscard]] u32 take(trace::Failure which)
	{
		return take_(failures[u32(which)]);
	}
	[[nodiscard]] u32 take(trace::Loss which)
	{
		return take_(losses[u32(which)]);
	}
	/** How often there ever was one. */
	[[nodiscard]] u32 ever(trace::Failure which) const
	{
		return all_failures[u32(which)];
	}
	/** The last connection came to a version so, and there were @events of that. */
	void expect_version(const char *role, u32 number, const char *why, u32 events) const;
	/** The last event but @age about properties said so. */
	void expect_property(u32 age, const char *what, const rpcordma_trace_properties &said) const;
	/** The last event but @age about a transmission said so. */
	void expect_group(u32 age, const char *what, const rpcordma_trace_transmission &said) const;
	/** The last event but @age of a connection's life said so. */
	void expect_connection(u32 age, const char *what, int value) const;
	/** Nothing else failed. */
	void expect_no_others() const;

	bool asked = false;

private:
	[[nodiscard]] u32 take_(u32 &count)
	{
		const u32 taken = count;

		asked = true;
		count = 0;
		return taken;
	}
};

struct PortDouble {
	PortMemory memory;
	PortSync sync;
	PortDma dma;
	PortVerbs verbs;
	PortPeer peer;
	PortSvc svc;
	PortSunrpc sunrpc;
	PortLog log;
	PortLedger ledger;
	ClientLedger client_ledger;

	/** Nothing fails from here on. */
	void want_for_nothing();
};

/** What the port's functions work on. Helpers that are given no fixture find it by this too. */
extern PortDouble *the_port;

/** A fresh double for the case. Whatever of it is taken and not given back fails the case. */
class PortFixture {
private:
	PortDouble &port_;

public:
	PortMemory &memory;
	PortSync &sync;
	PortDma &dma;
	PortVerbs &verbs;
	PortPeer &peer;
	PortSvc &svc;
	PortSunrpc &sunrpc;
	PortLog &log;
	PortLedger &ledger;
	ClientLedger &client_ledger;

	PortFixture();
	~PortFixture();
	PortFixture(const PortFixture &) = delete;
	PortFixture &operator=(const PortFixture &) = delete;

	void want_for_nothing()
	{
		port_.want_for_nothing();
	}
};

} // namespace rpcordma
