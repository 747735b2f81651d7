// SPDX-License-Identifier: GPL-2.0-only
/*
 * Taking memory back from the peer: module/client/fence.cc. Calls that were given up, scratch memory behind
 * their keys, and that the room for a LOCAL_INV is there exactly as long as one may be needed.
 */
#include "kunit/test_client_requester.hh"

namespace rpcordma {
namespace {

/* The first segment that the peer may write to, of what was sent last. */
xdr::Segment offered(Requester &r)
{
	const auto header = r.sent();

	return header.writes.empty() ? header.reply[0] : (*header.writes.begin())[0];
}

bool writable(const xdr::Segment &segment)
{
	return the_port->peer.reach(segment, 0, true) != nullptr;
}

/* A call that has @regions regions, 1 or 2, of which the peer may write to one. */
rpc_rqst *chunked(Requester &r, u32 xid, u32 regions = 1)
{
	return r.prepare(xid, regions == 2 ? 4090 : 40, 4096);
}

/* A call with one region, that is answered: its slot, which is given back last, keeps that. */
rpc_rqst *use_region(Requester &r, u32 xid, u32 credits = 32)
{
	rpc_rqst *call = chunked(r, xid);

	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_TRUE(r.reply(xid, 24, credits));
	return call;
}

/* sunrpc has done with the slot of @call, whose buffers it has given back. */
void give_back(Requester &r, rpc_rqst *call)
{
	rpcordma_core_free_slot(r.core, call->call);
	r.in_use--;
}

} // namespace

/*
 * Whichever of a call's regions cannot be mapped: nothing is kept, and the next try has the same room. One that the slot
 * has kept before is with it still; with page data, the one region of plan_lone().
 */
RPCORDMA_TEST(client_fence, mapping_fails)
{
	enum Kind { two, kept_and_another, lone_read, lone_write };

	for (u32 kind = two; kind <= lone_write; kind++) {
		TEST_NOTE("kind", kind);
		Requester r;
		const bool lone = kind >= lone_read;
		const u32 regions = lone ? 1 : 2;
		r.connect();
		if (kind != two)
			r.done(use_region(r, 6));
		rpc_rqst *call = lone ? r.prepare(7) : chunked(r, 7, 2);
		if (lone)
			r.add_pages(call, 5001, kind == lone_read);
		Region *const kept = call->call->spare.front();
		EXPECT_EQ(kept != nullptr, kind != two);
		const u32 messages = r.peer.messages;
		/* Oftener than the send queue has room for. */
		const u32 tries = r.send_queue().size() + 1;

		for (u32 mapped = 0; mapped < regions; mapped++)
			for (u32 i = 0; i < tries; i++) {
				TEST_NOTE("mapped", mapped);
				r.dma.region_maps_left = mapped;
				ASSERT_EQ(r.transmit(call), to_errno(Error::no_buffers));
				ASSERT_EQ(r.send_queue().reserved(), 0);
				ASSERT_EQ(r.peer.messages, messages);
			}
		if (lone)
			EXPECT_EQ(call->call->spare.front(), kept);
		r.dma.region_maps_left = kNoLimit;
		EXPECT_EQ(r.transmit(call), 0);
		EXPECT_EQ(r.send_queue().reserved(), regions);
		EXPECT_TRUE(r.reply(7, 24));
		EXPECT_EQ(call->result, 24);
		EXPECT_EQ(r.send_queue().reserved(), 0);
		r.done(call);
		r.at_rest();
		EXPECT_EQ(r.log.take(trace::Failure::marshal_failed), tries * regions);
		EXPECT_EQ(r.log.take(trace::Failure::region_map_failed), tries * regions);
	}
}

/*
 * Scratch memory takes the place of a given-up call's own until its reply: a late write goes there. Of the
 * regions that the call has, this is for those which the peer may write to on its account alone.
 */
RPCORDMA_TEST(client_fence, scratch)
{
	Requester r;
	rpcordma_tunables.scratch_remap = true;
	r.connect();
	/* Another call's region, done with, which this one has at hand and does not use. */
	rpc_rqst *other = chunked(r, 6);
	EXPECT_EQ(r.transmit(other), 0);
	const xdr::Segment others = offered(r);
	EXPECT_TRUE(r.reply(6, 24));
	r.done(other);
	EXPECT_FALSE(writable(others));
	rpc_rqst *call = chunked(r, 7, 2);
	EXPECT_EQ(r.transmit(call), 0);
	const xdr::Segment read = r.sent().reads[0].target, write = offered(r);
	while (Region *region = r.core->pool.of(false).pop_front())
		call->call->spare.push_back(region);

	u8 *memory = static_cast<u8 *>(call->receive.head.base);
	EXPECT_TRUE(writable(write));
	r.done(call);
	r.work();
	u8 *scratch = r.peer.reach(write, 0, true);
	ASSERT_NE(scratch, nullptr);
	/* A late write. */
	memory[0] = 0x11;
	*scratch = 0x77;
	EXPECT_FALSE(writable(others));
	/* A server must not execute scratch bytes. */
	EXPECT_EQ(r.peer.reach(read, 0, false), nullptr);
	EXPECT_EQ(r.stats().scratch_count, 1);
	EXPECT_EQ(audit(*r.core).mapped, 1);
	r.balance();
	/* The reply: the key is gone, the slot and its credit are back. It counts as the in-tree transport has it. */
	EXPECT_EQ(r.sunrpc.bad_xids, 0);
	EXPECT_TRUE(r.reply(7, 24));
	EXPECT_EQ(r.sunrpc.bad_xids, 1);
	EXPECT_FALSE(writable(write));
	EXPECT_EQ(memory[0], 0x11);
	r.at_rest();
}

/* A chunk of several regions has scratch memory behind each of its keys, and none when the reply has come. */
RPCORDMA_TEST(client_fence, scratch_of_several)
{
	constexpr u32 kRegionPages = 130, kRegions = 3, kSize = kRegions * kRegionPages * kPage;
	Requester r;
	rpcordma_tunables.scratch_remap = true;
	r.verbs.device.max_fast_reg_pages = kRegionPages;
	r.connect();
	/* Oftener than the send queue has room for. */
	const u32 times = r.send_queue().size() / kRegions / 16 + 2;

	for (u32 i = 1; i <= times; i++) {
		rpc_rqst *call = r.prepare(i);
		r.add_pages(call, kSize, true);
		EXPECT_EQ(r.transmit(call), 0);
		const ExactCopy copy(r.peer.last());
		const xdr::WriteChunk chunk = *decoded(copy.bytes()).writes.begin();
		ASSERT_EQ(chunk.count(), kRegions);
		const u32 fenced = r.peer.local_invalidations;
		r.done(call);
		EXPECT_EQ(r.peer.local_invalidations, fenced + kRegions);
		EXPECT_EQ(r.stats().scratch_count, i * kRegions);
		for (const xdr::Segment segment : chunk)
			EXPECT_TRUE(writable(segment));
		EXPECT_TRUE(r.reply(i, 24));
		for (const xdr::Segment segment : chunk)
			EXPECT_FALSE(writable(segment));
		EXPECT_EQ(r.peer.local_invalidations, fenced + 2 * kRegions);
		r.at_rest();
	}
}

/* Of regions that are to be replaced a batch is at a time, so that others have the mutex between. */
RPCORDMA_TEST(client_fence, many_discarded)
{
	constexpr u32 kCalls = 18, kBatch = 16;
	Requester r;
	rpcordma_tunables.scratch_remap = true;
	r.dma.most_regions = PortDma::kMostRegions;
	r.connect();
	rpcordma_core_client_refill(r.core);
	r.sunrpc.window = kCalls;
	const u32 regions = r.dma.regions;
	ASSERT_GE(regions, kCalls);
	xdr::Segment keys[kCalls];
	for (u32 i = 0; i < kCalls; i++) {
		rpc_rqst *call = chunked(r, i + 1);
		EXPECT_EQ(r.transmit(call), 0);
		keys[i] = offered(r);
		r.done(call);
	}
	for (u32 i = 0; i < kCalls; i++)
		EXPECT_TRUE(r.reply(i + 1, 24, kCalls, keys[i].handle.get()));
	const u32 refills = r.sunrpc.refills, made = r.dma.regions_made;
	rpcordma_core_client_refill(r.core);
	EXPECT_EQ(r.dma.regions_made, made + kBatch);
	EXPECT_EQ(r.sunrpc.refills, refills + 1);
	rpcordma_core_client_refill(r.core);
	EXPECT_EQ(r.dma.regions_made, made + kCalls);
	EXPECT_EQ(r.sunrpc.refills, refills + 1);
	EXPECT_EQ(r.dma.regions, regions);
	r.at_rest();
}

/*
 * The late reply invalidates the key that scratch memory is behind, or is about to be: whichever it was, the region is
 * neither used again nor invalidated, but replaced.
 */
RPCORDMA_TEST(client_fence, late_invalidation)
{
	for (const bool registered : {false, true})
		for (const bool given_back : {false, true}) {
			TEST_NOTE("registered", registered);
			TEST_NOTE("given back", given_back);
			Requester r;
			rpcordma_tunables.scratch_remap = true;
			r.connect();
			const u32 refills = r.sunrpc.refills;
			rpc_rqst *call = chunked(r, 7);
			EXPECT_EQ(r.transmit(call), 0);
			const xdr::Segment write = offered(r);
			call->waiting = false;
			rpcordma_core_buf_free(r.core, call->call);
			const u32 invalidations = r.peer.local_invalidations;
			/* The scratch memory's registration waits in the queue. */
			r.verbs.stuck = true;
			if (given_back)
				give_back(r, call);
			r.verbs.stuck = !registered;
			r.verbs.work();
			EXPECT_EQ(writable(write), registered);
			CallMaker reply(7, 32);
			reply.finish(24, kReplyMessage);
			EXPECT_TRUE(r.verbs.send(nullptr, reply.message(), write.handle.get()));
			if (!given_back)
				give_back(r, call);
			EXPECT_EQ(r.sunrpc.refills, refills + 1);
			if (!registered) {
				/* Not before the device has done with it. */
				rpcordma_core_client_refill(r.core);
				EXPECT_EQ(r.sunrpc.refills, refills + 2);
				EXPECT_EQ(r.log.take(trace::Failure::region_failed), 0);
			}
			r.verbs.stuck = false;
			r.work();
			EXPECT_EQ(writable(write), !registered);
			EXPECT_EQ(r.peer.local_invalidations, invalidations);
			EXPECT_TRUE(r.is_connected());
			r.balance();
			const u32 replaced = r.dma.regions;
			rpcordma_core_client_refill(r.core);
			EXPECT_FALSE(writable(write));
			EXPECT_EQ(r.dma.regions, replaced);
			r.at_rest();
			/* Each region has its turn. */
			for (u32 i = 0; i < 2 * replaced; i++) {
				rpc_rqst *other = chunked(r, 100 + i);
				ASSERT_EQ(r.transmit(other), 0);
				EXPECT_TRUE(r.reply(100 + i, 24));
				r.done(other);
			}
			EXPECT_TRUE(r.is_connected());
			r.at_rest();
		}
}

/* A reply that comes before buf_free() has invalidated a key: there is a LOCAL_INV for the others alone. */
RPCORDMA_TEST(client_fence, answered_before)
{
	for (const u32 regions : {1u, 2u}) {
		TEST_NOTE("regions", regions);
		Requester r;
		rpcordma_tunables.scratch_remap = true;
		r.connect();
		rpc_rqst *call = chunked(r, 7, regions);
		EXPECT_EQ(r.transmit(call), 0);
		const xdr::Segment write = offered(r);
		call->waiting = false;
		EXPECT_TRUE(r.reply(7, 24, 32, write.handle.get()));
		EXPECT_EQ(r.peer.local_invalidations, 0);
		rpcordma_core_buf_free(r.core, call->call);
		EXPECT_EQ(r.peer.local_invalidations, regions - 1);
		EXPECT_TRUE(r.is_connected());
		EXPECT_EQ(r.send_queue().reserved(), 0);
		give_back(r, call);
		r.work();
		EXPECT_EQ(r.stats().scratch_count, 0);
		r.at_rest();
	}
}

/* What is discarded waits for others' work requests, and a sender that lacks regions does not wait for that. */
RPCORDMA_TEST(client_fence, discarded)
{
	Requester r;
	rpcordma_tunables.scratch_remap = true;
	r.dma.regions_left = 4;
	r.connect();
	rpc_rqst *call = chunked(r, 7);
	EXPECT_EQ(r.transmit(call), 0);
	const xdr::Segment write = offered(r);
	r.done(call);
	EXPECT_TRUE(r.reply(7, 24, 32, write.handle.get()));
	const u32 regions = r.dma.regions;
	SendQueue::Marker *aside = r.send_queue().signal_aside(nullptr, 1);
	ASSERT_NE(aside, nullptr);
	u32 refills = r.sunrpc.refills;
	rpcordma_core_client_refill(r.core);
	EXPECT_EQ(r.dma.regions, regions);
	EXPECT_EQ(r.sunrpc.refills, ++refills);
	EXPECT_EQ(r.sunrpc.refill_delay, 100);
	r.core->wants_space = true;
	r.dma.regions_left = 3;
	rpcordma_core_client_refill(r.core);
	EXPECT_EQ(r.dma.regions, regions + 3);
	EXPECT_EQ(r.sunrpc.refills, ++refills);
	EXPECT_EQ(r.send_queue().completed(&aside->cqe), aside);
	SendQueue::release(*aside);
	/* Without memory one is missing, until there is some. */
	rpcordma_core_client_refill(r.core);
	EXPECT_EQ(r.dma.regions, regions + 2);
	EXPECT_EQ(r.sunrpc.refills, ++refills);
	EXPECT_EQ(r.sunrpc.refill_delay, 100);
	r.dma.regions_left = 1;
	rpcordma_core_client_refill(r.core);
	EXPECT_EQ(r.dma.regions, regions + 3);
	r.dma.regions_left = kNoLimit;
	EXPECT_GT(r.log.take(trace::Failure::region_failed), 0);
	r.at_rest();
}

/* Another key, that the call has no more, or nobody: the scratch memory is taken back by a LOCAL_INV. */
RPCORDMA_TEST(client_fence, late_invalidation_of_another)
{
	Requester r;
	rpcordma_tunables.scratch_remap = true;
	r.connect();
	rpc_rqst *call = chunked(r, 7, 2);
	EXPECT_EQ(r.transmit(call), 0);
	const xdr::Segment read = r.sent().reads[0].target, write = offered(r);
	r.done(call);
	r.work();
	EXPECT_TRUE(writable(write));
	const u32 invalidations = r.peer.local_invalidations, refills = r.sunrpc.refills;
	EXPECT_TRUE(r.reply(7, 24, 32, read.handle.get()));
	EXPECT_FALSE(writable(write));
	EXPECT_EQ(r.peer.local_invalidations, invalidations + 1);
	EXPECT_EQ(r.sunrpc.refills, refills);
	EXPECT_EQ(r.log.take(trace::Failure::invalidate_foreign), 1);
	r.at_rest();
}

/* A connection that ends before they are replaced takes them with it. */
RPCORDMA_TEST(client_fence, late_invalidation_at_the_end)
{
	Requester r;
	rpcordma_tunables.scratch_remap = true;
	r.connect();
	rpc_rqst *call = chunked(r, 7);
	EXPECT_EQ(r.transmit(call), 0);
	const xdr::Segment write = offered(r);
	r.done(call);
	EXPECT_TRUE(r.reply(7, 24, 32, write.handle.get()));
	rpcordma_core_client_close(r.core);
	EXPECT_EQ(r.dma.regions, 0);
	rpcordma_core_client_refill(r.core);
	EXPECT_EQ(r.dma.regions, 0);
}

/* Without a mapping, or a marker, or where the post fails, a given-up call has no scratch memory. */
RPCORDMA_TEST(client_fence, no_scratch)
{
	enum Missing { mapping, marker, post };

	for (u32 missing = mapping; missing <= post; missing++) {
		TEST_NOTE("missing", missing);
		Requester r;
		rpcordma_tunables.scratch_remap = true;
		r.connect();
		rpc_rqst *call = chunked(r, 7);
		EXPECT_EQ(r.transmit(call), 0);
		const xdr::Segment write = offered(r);
		SendQueue &queue = r.send_queue();
		/* All that others than the sender may have. */
		SendQueue::Marker *markers[SendQueue::kMarkers / 2];
		if (missing == mapping)
			r.dma.scratch_maps_left = 0;
		if (missing == marker)
			for (SendQueue::Marker *&m : markers)
				m = queue.signal_aside(nullptr, 0);
		/* The LOCAL_INV can be posted. */
		if (missing == post) {
			r.verbs.sends_left = 1;
			r.verbs.kept_room = r.verbs.kept_markers = 1;
		}
		if (missing == marker) {
			call->waiting = false;
			rpcordma_core_buf_free(r.core, call->call);
			EXPECT_EQ(queue.reserved(), 0);
			for (SendQueue::Marker *m : markers)
				SendQueue::release(*m);
		}
		r.done(call);
		r.verbs.sends_left = kNoLimit;
		EXPECT_FALSE(writable(write));
		EXPECT_EQ(r.sunrpc.force_disconnects, missing == post ? 1 : 0);
		using trace::Failure;
		EXPECT_EQ(r.log.take(Failure::scratch_map_failed), missing == mapping ? 1 : 0);
		EXPECT_EQ(r.log.take(Failure::scratch_post_failed), missing == post ? 1 : 0);
		EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), missing == post ? 1 : 0);
		if (missing == post)
			continue;
		EXPECT_EQ(r.stats().scratch_count, 0);
		EXPECT_TRUE(r.reply(7, 24));
		r.at_rest();
	}
}

/* A call is given up when its connection is on its way out: the drain takes the memory back. */
RPCORDMA_TEST(client_fence, cancelled_at_the_end)
{
	Requester r;
	rpcordma_tunables.scratch_remap = true;
	r.connect();
	rpc_rqst *call = chunked(r, 7);
	EXPECT_EQ(r.transmit(call), 0);
	const xdr::Segment write = offered(r);
	rpcordma_core_endpoint_event(r.connection(), RPCORDMA_EVENT_DISCONNECTED);
	r.verbs.broken = true;
	r.done(call);
	EXPECT_EQ(r.connection(), nullptr);
	EXPECT_FALSE(writable(write));
	EXPECT_EQ(r.stats().scratch_count, 0);
	EXPECT_TRUE(audit(*r.core).at_rest());
	EXPECT_EQ(r.log.take(trace::Loss::disconnected), 1);
}

/* Given up without a region, or with all of them invalidated by then: nothing is posted. */
RPCORDMA_TEST(client_fence, cancelled_without_regions)
{
	Requester r;
	r.connect();
	rpc_rqst *call = r.call(7);
	r.done(call);
	EXPECT_EQ(r.peer.local_invalidations, 0);
	EXPECT_EQ(audit(*r.core).zombies, 1);
	EXPECT_EQ(r.sunrpc.in_flight, 1);
	EXPECT_TRUE(r.reply(7, 24));
	r.at_rest();
	/* Before it was sent, it owes nothing. */
	r.done(r.prepare(8));
	r.at_rest();
}

/*
 * A Send for which the peer never has a Receive holds back the LOCAL_INVs behind it: of a call that is given up, of one
 * whose reply is here, whose task would wait as long if it were killed, and of scratch memory. None of them waits for
 * ever: the connection is closed, and takes the memory back.
 */
RPCORDMA_TEST(client_fence, stuck)
{
	enum Waiting { killed, replied, unparking };

	for (u32 waiting = killed; waiting <= unparking; waiting++) {
		TEST_NOTE("waiting", waiting);
		Requester r;
		rpcordma_tunables.scratch_remap = waiting == unparking;
		r.connect();
		rpc_rqst *call = chunked(r, 7);
		EXPECT_EQ(r.transmit(call), 0);
		const xdr::Segment write = offered(r);
		if (waiting == unparking)
			r.done(call);
		/* As if the credit had come. */
		r.sunrpc.window = 2;
		rpc_rqst *in_the_way = r.prepare(8);
		EXPECT_EQ(rpcordma_core_send_request(r.core, in_the_way->call), 0);
		r.verbs.stuck = true;
		if (waiting == killed) {
			call->waiting = false;
			rpcordma_core_buf_free(r.core, call->call);
			EXPECT_EQ(r.connection(), nullptr);
		} else {
			CallMaker reply(7, 32);
			const u64 since = r.sync.now;

			reply.finish(24, kReplyMessage);
			EXPECT_TRUE(r.verbs.send(nullptr, reply.message()));
			while (r.sunrpc.check_delay && !r.sunrpc.force_disconnects)
				r.sunrpc.check(r.core);
			/* Neither at once. */
			EXPECT_GE(r.sync.now - since, kReplyLimitMs / 2);
			EXPECT_LE(r.sync.now - since, kReplyLimitMs);
			EXPECT_TRUE(writable(write));
			rpcordma_core_client_close(r.core);
		}
		EXPECT_FALSE(writable(write));
		EXPECT_EQ(r.sunrpc.force_disconnects, 1);
		EXPECT_EQ(r.log.take(trace::Loss::invalidations_overdue), 1);
		r.done(in_the_way);
		if (waiting != unparking)
			r.done(call);
	}
}

/* A reply that is owed for a minute costs the connection, and each is given its own minute. */
RPCORDMA_TEST(client_fence, owed)
{
	constexpr u32 kApart = kReplyLimitMs / 3;
	Requester r;
	r.connect();
	rpc_rqst *older = r.call(7);
	r.done(older);
	EXPECT_EQ(r.sunrpc.check_delay, kReplyLimitMs);
	/* As if the credit had come, after a while. */
	r.sunrpc.window = 2;
	r.sync.now += kApart;
	r.sunrpc.check_delay -= kApart;
	rpc_rqst *younger = r.call(8);
	r.done(younger);
	EXPECT_TRUE(r.reply(7, 24));
	r.sunrpc.check(r.core);
	EXPECT_EQ(r.sunrpc.force_disconnects, 0);
	EXPECT_EQ(r.sunrpc.check_delay, kApart);
	r.sunrpc.check(r.core);
	EXPECT_EQ(r.sunrpc.force_disconnects, 1);
	EXPECT_EQ(r.sunrpc.check_delay, 0);
	EXPECT_EQ(r.log.take(trace::Loss::replies_overdue), 1);
}

/* LOCAL_INVs have their time also where a reply that is owed asks for a check sooner. */
RPCORDMA_TEST(client_fence, owed_and_stuck)
{
	Requester r;
	r.connect();
	rpc_rqst *call = chunked(r, 7);
	EXPECT_EQ(r.transmit(call), 0);
	/* As if the credits had come. */
	r.sunrpc.window = 4;
	rpc_rqst *older = r.call(8);
	r.done(older);
	r.sync.now += 100;
	r.sunrpc.check_delay -= 100;
	rpc_rqst *younger = r.call(9);
	r.done(younger);
	EXPECT_TRUE(r.reply(8, 24));
	rpc_rqst *in_the_way = r.prepare(10);
	EXPECT_EQ(rpcordma_core_send_request(r.core, in_the_way->call), 0);
	r.verbs.stuck = true;
	/* At the last moment before the check. */
	r.sync.now += r.sunrpc.check_delay;
	r.sunrpc.check_delay = 0;
	const u64 since = r.sync.now;
	CallMaker reply(7, 32);
	reply.finish(24, kReplyMessage);
	EXPECT_TRUE(r.verbs.send(nullptr, reply.message()));
	r.sunrpc.check_delay = 0;
	rpcordma_core_client_check(r.core);
	EXPECT_GE(r.sunrpc.check_delay, kReplyLimitMs / 2);
	while (r.sunrpc.check_delay && !r.sunrpc.force_disconnects)
		r.sunrpc.check(r.core);
	EXPECT_GE(r.sync.now - since, kReplyLimitMs / 2);
	EXPECT_EQ(r.log.take(trace::Loss::invalidations_overdue), 1);
	rpcordma_core_client_close(r.core);
	r.done(in_the_way);
	r.done(call);
}

/* LOCAL_INVs that are done are none that are overdue, however long the connection lasts. */
RPCORDMA_TEST(client_fence, in_time)
{
	Requester r;
	r.connect();
	for (u32 xid = 1; xid < 5; xid++) {
		rpc_rqst *call = chunked(r, xid);
		EXPECT_EQ(r.transmit(call), 0);
		EXPECT_TRUE(r.reply(xid, 24));
		EXPECT_EQ(r.sunrpc.check_delay, kInvalidationLimitMs);
		r.sunrpc.check(r.core);
		EXPECT_EQ(r.sunrpc.check_delay, 0);
		r.done(call);
	}
	EXPECT_EQ(r.sunrpc.force_disconnects, 0);
	r.at_rest();
}

/* Whatever gives back a region, or room in the send queue, has a sender that waits for it called. */
RPCORDMA_TEST(client_fence, space)
{
	enum Way { remote_invalidation, local_invalidation, cancelled, unparked };

	for (u32 way = remote_invalidation; way <= unparked; way++) {
		TEST_NOTE("way", way);
		Requester r;
		r.dma.regions_left = 2;
		rpcordma_tunables.scratch_remap = way == unparked;
		r.connect();
		/* A first call has one of two regions, also when it is answered; the next one needs both. */
		rpc_rqst *first = chunked(r, 6), *next;
		EXPECT_EQ(r.transmit(first), 0);
		const auto header = r.sent();
		u32 key = header.reply.present() ? header.reply[0].handle.get() : 0;
		next = chunked(r, 7, 2);
		/* As if the credit had come. */
		r.sunrpc.window = 2;
		EXPECT_EQ(r.transmit(next), to_errno(Error::again));
		EXPECT_TRUE(r.wants_space());
		const u32 spaces = r.sunrpc.spaces;

		if (way == remote_invalidation || way == local_invalidation)
			EXPECT_TRUE(r.reply(6, 24, 2, way == remote_invalidation ? key : 0));
		r.done(first);
		u32 tries = 1;
		if (way == cancelled) {
			/* There is room in the send queue, but the region stays with the call until its reply comes. */
			EXPECT_GT(r.sunrpc.spaces, spaces);
			EXPECT_EQ(r.transmit(next), to_errno(Error::again));
			EXPECT_TRUE(r.wants_space());
			tries++;
		}
		const u32 before = way == cancelled ? r.sunrpc.spaces : spaces;
		if (way == cancelled || way == unparked) {
			r.sunrpc.window = 2;
			EXPECT_TRUE(r.reply(6, 24, 2));
		}
		EXPECT_GT(r.sunrpc.spaces, before);
		EXPECT_EQ(r.transmit(next), 0);
		EXPECT_TRUE(r.reply(7, 24));
		r.done(next);
		r.balance();
		EXPECT_EQ(r.log.take(trace::Failure::regions_missing), tries);
		EXPECT_EQ(r.log.take(trace::Failure::region_failed), 1);
	}
}

/*
 * A slot keeps one region for its next call. Who needs it more takes it, whether the slot is free, or its call is done with or
 * not sent yet.
 */
RPCORDMA_TEST(client_fence, kept)
{
	enum Owner { free_slot, done_with, not_sent };

	for (u32 owner = free_slot; owner <= not_sent; owner++) {
		TEST_NOTE("owner", owner);
		Requester r;
		r.dma.regions_left = 2;
		r.connect();
		/* Both at a time, so that each has a slot and a region. */
		r.sunrpc.window = 2;
		rpc_rqst *one = chunked(r, 6), *two = chunked(r, 7);
		EXPECT_EQ(r.transmit(one), 0);
		EXPECT_EQ(r.transmit(two), 0);
		EXPECT_TRUE(r.reply(6, 24, 2));
		EXPECT_TRUE(r.reply(7, 24, 2));
		Region *const own = one->call->spare.front();
		EXPECT_NE(own, nullptr);
		r.done(two);
		if (owner != done_with)
			r.done(one);
		if (owner != free_slot) {
			/* The next one has what the last one had. */
			rpc_rqst *again = owner == not_sent ? chunked(r, 8) : one;
			EXPECT_EQ(again->call->spare.front(), own);
			one = again;
		}
		EXPECT_TRUE(r.core->pool.of(false).empty());
		rpc_rqst *needy = chunked(r, 9, 2);
		EXPECT_EQ(r.transmit(needy), 0);
		EXPECT_TRUE(r.reply(9, 24));
		/* Of several none is kept. */
		r.done(needy);
		EXPECT_FALSE(r.core->pool.of(false).empty());
		if (owner == not_sent) {
			EXPECT_EQ(r.transmit(one), 0);
			EXPECT_TRUE(r.reply(8, 24, 2));
		}
		if (owner != free_slot)
			r.done(one);
		r.at_rest();
		EXPECT_EQ(r.log.take(trace::Failure::region_failed), 1);
	}
}

/* Who takes what a free slot has kept has more made, so that each slot keeps one in the end; not beyond the limit. */
RPCORDMA_TEST(client_fence, kept_for_each)
{
	for (const bool at_limit : {false, true}) {
		TEST_NOTE("at_limit", at_limit);
		Requester r;
		r.dma.regions_left = 1;
		r.connect();
		r.dma.regions_left = kNoLimit;
		EXPECT_EQ(r.log.take(trace::Failure::region_failed), 1);
		if (at_limit)
			r.connection()->regions_limit = 1;
		r.sunrpc.window = 2;
		rpc_rqst *one = chunked(r, 6), *two = r.prepare(7);
		EXPECT_EQ(r.transmit(one), 0);
		EXPECT_EQ(r.transmit(two), 0);
		EXPECT_TRUE(r.reply(6, 24, 2));
		EXPECT_TRUE(r.reply(7, 24));
		r.done(two);
		r.done(one);
		EXPECT_EQ(r.sunrpc.refills, 0);
		/* Of the two slots the first has it, and the second needs it. */
		one = r.prepare(8);
		two = chunked(r, 9);
		ASSERT_EQ(two->call->spare.front(), nullptr);
		EXPECT_EQ(r.transmit(two), 0);
		EXPECT_EQ(r.sunrpc.refills, at_limit ? 0 : 1);
		EXPECT_EQ(r.sunrpc.refill_delay, 0);
		rpcordma_core_client_refill(r.core);
		/* Nor is it tried again for ever. */
		EXPECT_EQ(r.sunrpc.refills, at_limit ? 0 : 1);
		EXPECT_EQ(r.core->pool.of(false).empty(), at_limit);
		/* The device has no more. */
		EXPECT_EQ(r.log.take(trace::Failure::region_failed), at_limit ? 0 : 1);
		EXPECT_EQ(r.transmit(one), 0);
		EXPECT_TRUE(r.reply(8, 24));
		EXPECT_TRUE(r.reply(9, 24, 2));
		r.done(one);
		r.done(two);
		if (!at_limit) {
			one = chunked(r, 10);
			two = chunked(r, 11);
			EXPECT_EQ(r.transmit(one), 0);
			EXPECT_EQ(r.transmit(two), 0);
			EXPECT_EQ(r.sunrpc.refills, 1);
			EXPECT_TRUE(r.reply(10, 24, 2));
			EXPECT_TRUE(r.reply(11, 24, 2));
			r.done(one);
			r.done(two);
		}
		r.at_rest();
	}
}

/*
 * The only region there is, and ever will be, is kept by a slot whose present call has no use for it: who needs it does not
 * wait for that call's reply, nor for that which a call still owes whose task gave it up.
 */
RPCORDMA_TEST(client_fence, kept_by_short)
{
	enum Owner { under_way, given_up, zombie };

	for (u32 owner = under_way; owner <= zombie; owner++) {
		TEST_NOTE("owner", owner);
		Requester r;
		r.dma.regions_left = 1;
		r.connect();
		r.done(use_region(r, 6, 3));
		rpc_rqst *one = r.call(7);
		EXPECT_FALSE(r.sent().has_chunks());
		EXPECT_NE(one->call->spare.front(), nullptr);
		if (owner == given_up) {
			one->waiting = false;
			rpcordma_core_buf_free(r.core, one->call);
		} else if (owner == zombie) {
			r.done(one);
		}
		rpc_rqst *needy = chunked(r, 8);
		EXPECT_EQ(r.transmit(needy), 0);
		EXPECT_TRUE(r.sent().reply.present());
		EXPECT_TRUE(one->call->spare.empty());
		/* Each ends as if the other was not there. */
		EXPECT_TRUE(r.reply(7, 24, 3));
		EXPECT_TRUE(r.reply(8, 24, 3));
		EXPECT_EQ(needy->result, 24);
		if (owner != zombie)
			r.done(one);
		r.done(needy);
		r.at_rest();
		EXPECT_EQ(r.log.take(trace::Failure::region_failed), 1);
	}
}

/*
 * A call that was planned for the region that its slot had kept could not be sent, and another call takes that region
 * before the next try: that waits, and says what it would have said.
 */
RPCORDMA_TEST(client_fence, kept_is_taken)
{
	for (const bool of_reply : {false, true})
		for (const bool no_room : {false, true}) {
			TEST_NOTE("of_reply", of_reply);
			TEST_NOTE("no_room", no_room);
			constexpr u32 kSize = 5001;
			Requester r;
			r.dma.regions_left = 1;
			r.connect();
			r.done(use_region(r, 6));
			rpc_rqst *call = r.prepare(7);
			EXPECT_NE(call->call->spare.front(), nullptr);
			r.add_pages(call, kSize, of_reply);
			u32 all = 0;
			while (no_room && r.send_queue().take_aside(1))
				all++;
			r.verbs.kept_room = all;
			r.dma.region_maps_left = 0;
			EXPECT_EQ(r.transmit(call),
				  to_errno(no_room ? Error::again : Error::no_buffers));
			r.dma.region_maps_left = kNoLimit;
			if (all)
				r.send_queue().return_invalidations(all);
			r.verbs.kept_room = 0;
			r.core->announce_space();

			rpc_rqst *other = chunked(r, 8);
			EXPECT_EQ(r.transmit(other), 0);
			EXPECT_TRUE(call->call->spare.empty());
			EXPECT_EQ(r.transmit(call), to_errno(Error::again));
			EXPECT_TRUE(r.wants_space());
			EXPECT_TRUE(r.reply(8, 24));
			EXPECT_FALSE(r.wants_space());
			EXPECT_EQ(r.transmit(call), 0);
			const ExactCopy message(r.peer.last());
			const auto sent = decoded(message.bytes());
			const xdr::Segment segment = of_reply ? (*sent.writes.begin())[0] :
								sent.reads[0].target;
			EXPECT_EQ(segment.length, kSize);
			EXPECT_EQ(sent.payload.size(), call->send.head.length);
			EXPECT_TRUE(r.peer.reach(segment, 0, of_reply));
			EXPECT_TRUE(r.reply(7, 24, 32, segment.handle.get()));
			EXPECT_EQ(call->result, 24);
			r.done(other);
			r.done(call);
			r.at_rest();
			EXPECT_EQ(r.log.take(trace::Failure::region_failed), 1);
			EXPECT_EQ(r.log.take(trace::Failure::regions_missing), 1);
			EXPECT_EQ(r.log.take(trace::Failure::send_queue_full), no_room);
			EXPECT_EQ(r.log.take(trace::Failure::marshal_failed), !no_room);
			EXPECT_EQ(r.log.take(trace::Failure::region_map_failed), !no_room);
		}
}

RPCORDMA_SUITE(client_fence, scratch_of_several, many_discarded, space, kept, kept_for_each,
	       kept_by_short, kept_is_taken, mapping_fails, scratch, no_scratch,
	       cancelled_at_the_end, cancelled_without_regions, stuck, owed, owed_and_stuck,
	       in_time, late_invalidation, late_invalidation_of_another,
	       late_invalidation_at_the_end, answered_before, discarded);

} // namespace rpcordma
