// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client's connections, as sunrpc sees them: module/client/connect.cc. When the next one has to wait, and
 * what is tried again while one lasts.
 */
#include "kunit/test_client_requester.hh"

namespace rpcordma {
namespace {

bool backs_off(const Requester &r)
{
	return rpcordma_core_client_should_back_off(r.core);
}

} // namespace

/* What debugfs shows of a connection: nothing without one. */
RPCORDMA_TEST(client_life, state)
{
	Requester r;
	rpcordma_client_state state = {1, 1, 1, 1};

	rpcordma_core_client_state(r.core, &state);
	EXPECT_EQ(state.inline_send, 0);
	EXPECT_EQ(state.inline_receive, 0);
	EXPECT_EQ(state.receives, 0);
	EXPECT_EQ(state.regions, 0);
	const private_data::Properties server = {2048, 3072, false};
	r.connect({.server = &server});
	rpcordma_core_client_state(r.core, &state);
	EXPECT_EQ(state.inline_send, r.thresholds().send);
	EXPECT_EQ(state.inline_receive, r.thresholds().receive);
	EXPECT_NE(state.inline_send, state.inline_receive);
	EXPECT_EQ(state.receives + ReceiveQueue::kBatch, r.verbs.posted);
	EXPECT_EQ(state.regions, audit(*r.core).regions);
	EXPECT_GT(state.regions, 0);
	rpcordma_core_client_close(r.core);
	rpcordma_core_client_state(r.core, &state);
	EXPECT_EQ(state.receives, 0);
}

/* A connection that broke keeps the next one waiting, until a reply shows that the peer is well. */
RPCORDMA_TEST(client_life, back_off)
{
	enum End {
		disconnected,
		address_change,
		device_removal,
		queue_pair,
		send_fails,
		receive_fails,
		not_posted
	};
	using trace::Failure;
	using trace::Loss;
	static constexpr Loss losses[] = {Loss::disconnected,	Loss::address_change,
					  Loss::device_removal, Loss::qp_fatal,
					  Loss::send_failed,	Loss::receive_failed,
					  Loss::rpc_failed};

	for (u32 end = disconnected; end <= not_posted; end++) {
		TEST_NOTE("end", end);
		Requester r;
		r.connect();
		EXPECT_FALSE(backs_off(r));
		rpc_rqst *call = r.prepare(1);
		auto event = [&](rpcordma_endpoint_event e) {
			rpcordma_core_endpoint_event(r.connection(), e);
		};

		switch (end) {
		case disconnected:
			event(RPCORDMA_EVENT_DISCONNECTED);
			break;
		case address_change:
			event(RPCORDMA_EVENT_ADDRESS_CHANGE);
			break;
		case device_removal:
			event(RPCORDMA_EVENT_DEVICE_REMOVAL);
			break;
		case queue_pair:
			event(RPCORDMA_EVENT_QP_FATAL);
			break;
		case send_fails:
			r.verbs.fail_at = 0;
			r.verbs.fail_status = 2;
			EXPECT_EQ(r.transmit(call), 0);
			break;
		case receive_fails:
			r.verbs.flush();
			break;
		case not_posted:
			r.verbs.sends_left = 0;
			EXPECT_EQ(r.transmit(call), to_errno(Error::not_connected));
			r.verbs.sends_left = kNoLimit;
			break;
		}
		EXPECT_EQ(r.log.take(losses[end]), 1);
		EXPECT_EQ(r.log.take(Failure::post_failed), end == not_posted ? 1 : 0);
		EXPECT_TRUE(backs_off(r));
		/* Once, or closed at once by who posted. */
		EXPECT_EQ(r.sunrpc.force_disconnects, end == not_posted ? 0 : 1);
		EXPECT_EQ(r.sunrpc.closes, end == not_posted ? 1 : 0);
		rpcordma_core_client_close(r.core);
		r.connect();
		/* That it can be made says little. */
		EXPECT_TRUE(backs_off(r));
		EXPECT_EQ(r.transmit(call), 0);
		EXPECT_TRUE(r.reply(1, 24));
		EXPECT_FALSE(backs_off(r));
		EXPECT_EQ(call->result, 24);
		r.done(call);
		r.at_rest();
		/* Idle ones are closed in peace. */
		rpcordma_core_client_close(r.core);
		EXPECT_FALSE(backs_off(r));
	}
}

/* So does one that could not be made; the errors are those that sunrpc tries again. */
RPCORDMA_TEST(client_life, back_off_unconnected)
{
	enum Missing { memory, mappings, receives, regions };

	for (u32 missing = memory; missing <= regions; missing++) {
		TEST_NOTE("missing", missing);
		Requester r;
		u32 *const left[] = {&r.memory.allocations_left, &r.dma.mappings_left,
				     &r.verbs.receives_left, &r.dma.regions_left};

		*left[missing] = 0;
		EXPECT_EQ(rpcordma_core_client_connect(r.core), to_errno(Error::not_connected));
		using trace::Failure;
		using trace::Loss;
		static constexpr Loss losses[] = {Loss::connection_alloc_failed,
						  Loss::first_receives_failed,
						  Loss::first_receives_failed,
						  Loss::first_regions_failed};
		EXPECT_EQ(r.log.take(losses[missing]), 1);
		EXPECT_EQ(r.log.take(Loss::connect_failed), missing == memory ? 0 : 1);
		EXPECT_EQ(r.log.take(Failure::receive_map_failed), missing == mappings ? 1 : 0);
		EXPECT_EQ(r.log.take(Failure::receive_post_failed), missing == receives ? 1 : 0);
		EXPECT_EQ(r.log.take(Failure::region_failed), missing == regions ? 1 : 0);
		EXPECT_TRUE(backs_off(r));
		EXPECT_EQ(r.connection(), nullptr);
		*left[missing] = kNoLimit;
		r.connect();
		EXPECT_TRUE(backs_off(r));
		rpc_rqst *call = r.call(1);
		EXPECT_TRUE(r.reply(1, 24));
		EXPECT_FALSE(backs_off(r));
		r.done(call);
		r.at_rest();
	}
}

/* The device does not take Receives any more: the peer's replies would find none. */
RPCORDMA_TEST(client_life, receives_not_posted)
{
	Requester r;
	r.connect();
	for (u32 xid = 1; xid <= ReceiveQueue::kBatch; xid++) {
		EXPECT_EQ(r.sunrpc.force_disconnects, 0);
		rpc_rqst *call = r.call(xid);
		EXPECT_TRUE(r.reply(xid, 24));
		r.done(call);
		/* The first grant is provided for. */
		r.verbs.receives_left = 0;
	}
	EXPECT_EQ(r.sunrpc.force_disconnects, 1);
	EXPECT_EQ(r.log.take(trace::Failure::receive_post_failed), 1);
	EXPECT_EQ(r.log.take(trace::Loss::receive_not_posted), 1);
	r.verbs.receives_left = kNoLimit;
	rpcordma_core_client_close(r.core);
	r.connect();
	/* One that waited for LOCAL_INVs is posted by itself. */
	rpc_rqst *call = r.call(9, 40, 4096);
	r.verbs.receives_left = 0;
	EXPECT_TRUE(r.reply(9, 24));
	EXPECT_EQ(r.sunrpc.force_disconnects, 2);
	r.done(call);
	/* It, and those that the first grant asks for. */
	EXPECT_EQ(r.log.take(trace::Failure::receive_post_failed), 2);
	EXPECT_EQ(r.log.take(trace::Loss::receive_not_posted), 1);
	r.verbs.receives_left = kNoLimit;
	rpcordma_core_client_close(r.core);
	r.connect();
	r.at_rest();
}

/* The send queue is full of what others reserved: the sender waits until there is room. */
RPCORDMA_TEST(client_life, send_queue_full)
{
	Requester r;
	r.connect();
	SendQueue &queue = r.connection()->send_queue;
	const u32 all = queue.size();

	ASSERT_TRUE(queue.take_aside(all));
	r.verbs.kept_room = all;
	rpc_rqst *call = r.prepare(1);
	EXPECT_EQ(r.transmit(call), to_errno(Error::again));
	EXPECT_TRUE(r.wants_space());
	queue.return_invalidations(all);
	r.verbs.kept_room = 0;
	r.core->announce_space();
	EXPECT_FALSE(r.wants_space());
	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_TRUE(r.reply(1, 24));
	r.done(call);
	r.at_rest();
	/* The next connection has room: nobody waits for it there. */
	while (queue.take_aside(1))
		r.verbs.kept_room++;
	call = r.prepare(2);
	EXPECT_EQ(r.transmit(call), to_errno(Error::again));
	rpcordma_core_client_close(r.core);
	EXPECT_TRUE(r.wants_space());
	r.connect();
	EXPECT_FALSE(r.wants_space());
	r.done(call);
	EXPECT_EQ(r.log.take(trace::Failure::send_queue_full), 2);
}

/* Room comes between a sender's look and its wish: nobody else would wake it. */
RPCORDMA_TEST(client_life, space_came)
{
	for (const bool came : {false, true}) {
		TEST_NOTE("came", came);
		Requester r;

		r.connect();
		const u32 spaces = r.sunrpc.spaces, waits = r.sunrpc.space_waits;
		EXPECT_EQ(r.core->wait_for_space([&] { return came; }), Error::again);
		EXPECT_EQ(r.sunrpc.space_waits, waits + 1);
		EXPECT_EQ(r.wants_space(), !came);
		EXPECT_EQ(r.sunrpc.spaces, spaces + came);
		r.core->announce_space();
		EXPECT_EQ(r.sunrpc.spaces, spaces + 1);
		EXPECT_FALSE(r.wants_space());
	}
}

/* A refill that finds no memory is tried again a little later, as often as it takes; then the sender goes on. */
RPCORDMA_TEST(client_life, refill)
{
	Requester r;
	r.dma.regions_left = 1;
	r.connect();
	/* A long call with a long reply needs two regions, and there is one. */
	rpc_rqst *call = r.prepare(7, 4090, 4096);
	EXPECT_EQ(r.transmit(call), to_errno(Error::again));
	EXPECT_EQ(r.sunrpc.space_waits, 1);
	ASSERT_EQ(r.sunrpc.refills, 1);
	EXPECT_EQ(r.sunrpc.refill_delay, 0);
	for (u32 i = 2; i < 5; i++) {
		rpcordma_core_client_refill(r.core);
		EXPECT_EQ(r.sunrpc.refills, i);
		EXPECT_EQ(r.sunrpc.refill_delay, 100);
		EXPECT_EQ(r.sunrpc.spaces, 0);
	}
	r.dma.regions_left = kNoLimit;
	rpcordma_core_client_refill(r.core);
	EXPECT_EQ(r.sunrpc.refills, 4);
	EXPECT_EQ(r.sunrpc.spaces, 1);
	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_TRUE(r.reply(7, 24));
	EXPECT_EQ(call->result, 24);
	r.done(call);
	r.at_rest();
	/* Without a connection there is nothing to fill up, now or later. */
	rpcordma_core_client_close(r.core);
	rpcordma_core_client_refill(r.core);
	EXPECT_EQ(r.sunrpc.refills, 4);
	EXPECT_EQ(r.log.take(trace::Failure::regions_missing), 1);
	EXPECT_EQ(r.log.take(trace::Failure::region_failed), 5);
}

/* A call that needs no region keeps none from those that do: not before it is sent, nor until its slot is freed. */
RPCORDMA_TEST(client_life, regions_for_who_needs_them)
{
	Requester r;
	r.dma.regions_left = 1;
	r.connect();
	rpc_rqst *prepared = r.prepare(1), *small = r.call(2), *large;

	EXPECT_TRUE(r.reply(2, 24, 3));
	large = r.call(3, 40, 4096);
	EXPECT_TRUE(r.sent().reply.present());
	EXPECT_TRUE(r.reply(3, 24));
	EXPECT_EQ(large->result, 24);
	for (rpc_rqst *call : {prepared, small, large})
		r.done(call);
	r.at_rest();
	EXPECT_EQ(r.log.take(trace::Failure::region_failed), 1);
}

/*
 * On a device that has both kinds of regions, what has no gap goes without: a page list, wherever it begins. What has
 * one, the head and the pages of a long message, is one region all the same.
 */
RPCORDMA_TEST(client_life, gaps_where_needed)
{
	enum Kind { write, read, long_call, long_reply };
	Requester r;
	r.verbs.device.sg_gaps = true;
	r.dma.regions_left = 4;
	r.connect();
	EXPECT_EQ(r.dma.regions, 4);
	EXPECT_EQ(r.dma.regions_with_gaps, 0);
	for (u32 kind = write; kind <= long_reply; kind++) {
		TEST_NOTE("kind", kind);
		const bool of_reply = kind == read || kind == long_reply;
		const bool gaps = kind >= long_call;
		rpc_rqst *call = r.prepare(kind + 1, 60);

		r.add_pages(call, 5001, of_reply);
		if (gaps)
			call->send.flags = call->receive.flags = 0;
		if (kind == long_call) {
			/* The first one has to wait for a region of this kind. */
			EXPECT_EQ(r.transmit(call), to_errno(Error::again));
			EXPECT_TRUE(r.wants_space());
			rpcordma_core_client_refill(r.core);
			EXPECT_TRUE(r.wants_space());
			r.dma.regions_left = 2;
			rpcordma_core_client_refill(r.core);
			EXPECT_FALSE(r.wants_space());
			EXPECT_EQ(r.dma.regions_with_gaps, 2);
		}
		EXPECT_EQ(r.transmit(call), 0);
		const auto header = r.sent();
		EXPECT_EQ(audit(*r.core).mapped, 1);
		const xdr::Segment segment = kind == read	? (*header.writes.begin())[0] :
					     kind == long_reply ? header.reply[0] :
								  header.reads[0].target;
		const rpcordma_region *region = r.dma.region_of(segment.handle.get());
		ASSERT_NE(region, nullptr);
		EXPECT_EQ(region->gaps, gaps);
		EXPECT_TRUE(r.reply(kind + 1, 24));
		EXPECT_EQ(call->result, 24);
		r.done(call);
	}
	/* Each part of a call has a region of its kind, in whatever order they come. */
	rpc_rqst *both = r.prepare(9, 60);
	r.add_pages(both, 5001, false);
	r.add_pages(both, 5001, true);
	both->send.flags = 0;
	EXPECT_EQ(r.transmit(both), 0);
	const auto header = r.sent();
	EXPECT_TRUE(r.dma.region_of(header.reads[0].target.handle.get())->gaps);
	EXPECT_FALSE(r.dma.region_of((*header.writes.begin())[0].handle.get())->gaps);
	EXPECT_TRUE(r.reply(9, 24));
	r.done(both);
	r.at_rest();
	EXPECT_EQ(r.log.take(trace::Failure::regions_missing), 1);
	EXPECT_EQ(r.log.take(trace::Failure::region_failed), 3);
}

/*
 * A slot keeps a region of either kind. Where its next call wants the other one, the kept one is for others at once, and
 * from then on the slot keeps what that call had.
 */
RPCORDMA_TEST(client_life, other_kind_kept)
{
	Requester r;
	const private_data::Properties plain = {1024, 1024, true};
	r.verbs.device.sg_gaps = true;
	r.dma.regions_left = 1;
	r.connect({.server = &plain});
	/* One of each kind there is. */
	auto prepare = [&](u32 xid, bool gaps) {
		rpc_rqst *call = r.prepare(xid, 60);

		r.add_pages(call, 5001, false);
		if (gaps)
			call->send.flags = 0;
		return call;
	};
	auto of_sent = [&] { return r.dma.region_of(r.sent().reads[0].target.handle.get()); };
	rpc_rqst *call = prepare(1, true);
	EXPECT_EQ(r.transmit(call), to_errno(Error::again));
	r.dma.regions_left = 1;
	rpcordma_core_client_refill(r.core);
	EXPECT_EQ(r.dma.regions, 2);
	r.sunrpc.window = 2;
	for (u32 xid = 1; xid <= 8; xid++) {
		const bool gaps = xid <= 2 || xid == 5;

		TEST_NOTE("xid", xid);
		if (xid > 1)
			call = prepare(xid, gaps);
		EXPECT_EQ(r.transmit(call), 0);
		EXPECT_EQ(of_sent()->gaps, gaps);
		EXPECT_TRUE(call->call->spare.empty());
		/* What it did not want, another one has meanwhile. */
		rpc_rqst *other = prepare(100 + xid, !gaps);
		EXPECT_EQ(r.transmit(other), 0);
		EXPECT_EQ(of_sent()->gaps, !gaps);
		EXPECT_TRUE(r.reply(100 + xid, 24));
		/* The slot that is given back last is the next one's. */
		r.done(other);
		EXPECT_TRUE(r.reply(xid, 24));
		EXPECT_EQ(call->result, 24);
		ASSERT_NE(call->call->spare.front(), nullptr);
		EXPECT_EQ(call->call->spare.front()->gaps, gaps);
		r.done(call);
	}
	r.at_rest();
	EXPECT_EQ(r.log.take(trace::Failure::regions_missing), 1);
	EXPECT_EQ(r.log.take(trace::Failure::region_failed), 2);
}

/* The next connection may be over a device that has no regions with gaps: what the last one was short of says nothing. */
RPCORDMA_TEST(client_life, gaps_forgotten)
{
	Requester r;
	r.verbs.device.sg_gaps = true;
	r.dma.regions_left = 4;
	r.connect();
	rpc_rqst *call = r.prepare(1, 60);
	r.add_pages(call, 5001, false);
	call->send.flags = 0;
	EXPECT_EQ(r.transmit(call), to_errno(Error::again));
	EXPECT_TRUE(r.wants_space());
	rpcordma_core_client_close(r.core);

	r.verbs.device.sg_gaps = false;
	r.dma.regions_left = 4;
	r.connect();
	r.dma.regions_left = 3;
	rpcordma_core_client_refill(r.core);
	EXPECT_EQ(r.dma.regions, 7);
	EXPECT_EQ(r.dma.regions_with_gaps, 0);
	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_TRUE(r.reply(1, 24));
	r.done(call);
	r.at_rest();
	EXPECT_EQ(r.log.take(trace::Failure::regions_missing), 1);
	EXPECT_EQ(r.log.take(trace::Failure::region_failed), 3);
}

/* All calls at once may be READs of the largest payload, however few pages a region of this device has. */
RPCORDMA_TEST(client_life, room_for_all_calls)
{
	static constexpr struct {
		u32 pages;   /* of a page list */
		u32 regions; /* of 1 MiB, or as much as it comes to, at any alignment */
	} devices[] = {{512, 1}, {256, 2}, {128, 3}, {17, 14}};

	for (const auto &device : devices) {
		TEST_NOTE("pages", device.pages);
		Requester r;
		r.verbs.device.max_fast_reg_pages = device.pages;
		r.verbs.device.page_size = r.verbs.device.mr_page_size = 4096;
		r.connect();
		u32 calls = 0;
		while (r.send_queue().take(1 + device.regions, device.regions))
			calls++;
		EXPECT_GE(calls, Requester::kSlots);
		EXPECT_GE(r.connection()->regions_limit, Requester::kSlots * device.regions);
		for (; calls; calls--)
			r.send_queue().give_back(1 + device.regions, device.regions);
		r.at_rest();
	}
}

/* Page lists are of the device's pages, which may be smaller than the kernel's. */
RPCORDMA_TEST(client_life, small_pages)
{
	constexpr u32 per_page = 4, largest = 1024 * 1024;

	for (const u32 list : {16 * per_page, 2 * largest / kPage * per_page}) {
		TEST_NOTE("list", list);
		Requester r;
		r.verbs.device.mr_page_size = kPage / per_page;
		r.verbs.device.max_fast_reg_pages = list;
		r.connect();
		for (const u32 bytes : {16u * kPage, 16u * kPage + 1}) {
			TEST_NOTE("bytes", bytes);
			rpc_rqst *call = r.prepare(bytes);

			r.add_pages(call, bytes, true);
			EXPECT_EQ(r.transmit(call), 0);
			const auto header = r.sent();
			const u32 segments = list == 16 * per_page && bytes > 16 * kPage ? 2 : 1;
			EXPECT_EQ((*header.writes.begin()).count(), segments);
			EXPECT_TRUE(r.reply(bytes, 24));
			r.done(call);
		}
		u32 longest = 0;
		for (const rpcordma_region *region : r.dma.all_regions)
			longest = max(longest, region ? region->pages_most : 0);
		/* For the largest payload at any place in a page. */
		EXPECT_EQ(longest, min(list, largest / kPage * per_page + 1));
		r.at_rest();
	}
}

/* A device that refuses the queues that we want gets shorter ones, and the server is asked for as many credits. */
RPCORDMA_TEST(client_life, shorter_queues)
{
	Requester r;
	r.connect();
	const u32 most = r.verbs.sizes.receive_wrs;
	rpcordma_core_client_close(r.core);
	/* Half the calls are one too many. */
	r.verbs.qp_receives = most - Requester::kSlots / 2 - 1;
	r.verbs.qp_tries = 0;
	for (u32 times = 1; times <= 2; times++) {
		r.connect();
		EXPECT_EQ(r.verbs.qp_tries, 3 * times);
		EXPECT_EQ(r.verbs.sizes.receive_wrs, most - Requester::kSlots * 3 / 4);
		/* Once for all of its connections. */
		EXPECT_EQ(r.log.logged, 1);
		EXPECT_EQ(r.log.value, Requester::kSlots / 4);
		EXPECT_EQ(r.log.wanted, Requester::kSlots);
		rpc_rqst *call = r.call(times);
		EXPECT_EQ(r.sent().credits, Credits(Requester::kSlots / 4));
		EXPECT_TRUE(r.reply(times, 24));
		EXPECT_EQ(r.sunrpc.window, Requester::kSlots / 4);
		r.done(call);
		r.at_rest();
		rpcordma_core_client_close(r.core);
	}
	/* Not even for one call; and for another reason it is not tried again. */
	r.verbs.qp_tries = 0;
	r.verbs.qp_receives = most - Requester::kSlots;
	EXPECT_EQ(rpcordma_core_client_connect(r.core), to_errno(Error::not_connected));
	EXPECT_EQ(r.verbs.qp_tries, 6);
	r.verbs.qp_receives = kNoLimit;
	r.verbs.create_qp_result = to_errno(Error::no_device);
	EXPECT_EQ(rpcordma_core_client_connect(r.core), to_errno(Error::network_unreachable));
	EXPECT_EQ(r.verbs.qp_tries, 7);
	EXPECT_EQ(r.log.take(trace::Loss::qp_failed), 2 * 2 + 6 + 1);
	EXPECT_EQ(r.log.take(trace::Loss::connect_failed), 2);
}

/* A device of which a limit is one too low is refused, with the reason in the log; and taken when it is just enough. */
RPCORDMA_TEST(client_life, device_refused)
{
	/* The longest call twice, and backward replies; one work request is for draining. */
	static constexpr u32 queue = 2 * (2 * 3 * chunk::kMaxSegments + 1) + kBackwardCredits + 1;
	using trace::Loss;
	chunk::Limits limits;

	limits.page_size = limits.mr_page_size = kPage;
	limits.max_send_sge = 32;
	limits.copy_limit = ~0u;
	limits.mr_pages = 0;
	do
		limits.mr_pages++;
	while (!limits.valid() || !chunk::max_payload(limits));
	for (const bool enough : {false, true})
		for (const Loss loss : {Loss::device_registration, Loss::device_queues}) {
			TEST_NOTE("enough", enough);
			TEST_NOTE("loss", loss);
			for (u32 limit = 0; limit < 2; limit++) {
				TEST_NOTE("limit", limit);
				Requester r;
				rpcordma_device &device = r.verbs.device;
				u32 *const queues[] = {&device.max_qp_wr, &device.max_cqe};
				int figure = 0;

				if (loss == Loss::device_queues) {
					*queues[limit] = enough ? queue : queue - 1;
					figure = int(queue - 2);
				} else if (limit) {
					device.fast_registration = enough;
				} else {
					figure = int(limits.mr_pages - 1);
					device.max_fast_reg_pages = limits.mr_pages - !enough;
				}
				if (enough) {
					r.connect();
					EXPECT_EQ(r.log.logged, 0);
					if (loss == Loss::device_queues)
						EXPECT_EQ(r.verbs.sizes.send_wrs, queue - 1);
					continue;
				}
				EXPECT_EQ(rpcordma_core_client_connect(r.core),
					  to_errno(Error::protocol));
				EXPECT_EQ(r.log.logged, 1);
				EXPECT_EQ(r.log.take(loss), 1);
				EXPECT_EQ(r.log.take(Loss::connect_failed), 1);
				EXPECT_EQ(r.log.loss_value, to_errno(Error::not_supported));
				EXPECT_EQ(r.verbs.qp_tries, 0);
				EXPECT_EQ(r.log.loss_before, figure);
			}
		}
	/* Nor one without queues. */
	Requester r;
	r.verbs.device.max_cqe = 0;
	EXPECT_EQ(rpcordma_core_client_connect(r.core), to_errno(Error::protocol));
	EXPECT_EQ(r.log.take(Loss::device_queues), 1);
	EXPECT_EQ(r.log.loss_before, 0);
	EXPECT_EQ(r.log.take(Loss::connect_failed), 1);
}

/* The queues are as long as all calls take together, in a connection of version 1. */
RPCORDMA_TEST(client_life, queue_sizes)
{
	static constexpr struct {
		u32 pages;   /* of a page list */
		u32 regions; /* of the longest payload */
	} devices[] = {{512, 1}, {128, 3}, {17, 14}};

	for (const auto &device : devices) {
		TEST_NOTE("pages", device.pages);
		Requester r;

		r.verbs.device.max_fast_reg_pages = device.pages;
		r.verbs.device.page_size = r.verbs.device.mr_page_size = 4096;
		r.connect();
		/* A Send, and a REG_MR and a LOCAL_INV for each region. */
		const u32 sends = 1 + 2 * device.regions;

		EXPECT_EQ(r.verbs.sizes.send_wrs,
			  max(Requester::kSlots * sends + kBackwardCredits,
			      2 * (2 * 3 * chunk::kMaxSegments + 1) + kBackwardCredits));
		EXPECT_EQ(r.verbs.sizes.receive_wrs,
			  Requester::kSlots + 2 * kBackwardCredits + ReceiveQueue::kBatch);
		EXPECT_EQ(r.verbs.sizes.send_sges, 1);
		EXPECT_EQ(r.verbs.sizes.receive_sges, 1);
		EXPECT_EQ(r.connection()->regions_limit,
			  max(3 * chunk::kMaxSegments, Requester::kSlots * max(6u, device.regions)));
		EXPECT_EQ(r.connection()->credits.requested(), Credits(Requester::kSlots));
		EXPECT_EQ(audit(*r.core).regions, 16);
	}
}

/* What a connection is asked for with, and how long each step may take. */
RPCORDMA_TEST(client_life, parameters)
{
	for (const u32 reads : {0u, 16u, 255u, 256u}) {
		TEST_NOTE("reads", reads);
		Requester r;

		r.verbs.device.max_qp_rd_atom = reads;
		r.connect();
		EXPECT_EQ(r.verbs.parameters.responder_resources, min(reads, 255u));
		EXPECT_EQ(r.verbs.parameters.initiator_depth, 0);
		EXPECT_EQ(r.verbs.parameters.retry_count, 6);
		EXPECT_EQ(r.verbs.parameters.rnr_retry_count, 0);
		EXPECT_EQ(r.verbs.resolve_limit, 5000);
		EXPECT_EQ(r.verbs.connect_limit, 1000);
	}
}

/* A step fails: that is told, and sunrpc is given an error that it tries again after. */
RPCORDMA_TEST(client_life, steps_fail)
{
	using trace::Loss;
	static constexpr struct {
		Error error, for_sunrpc;
	} errors[] = {
		{Error::protocol, Error::protocol},
		{Error::connection_refused, Error::connection_refused},
		{Error::host_unreachable, Error::host_unreachable},
		{Error::network_unreachable, Error::network_unreachable},
		{Error::not_connected, Error::not_connected},
		{Error::timed_out, Error::timed_out},
		{Error::no_device, Error::network_unreachable},
		{Error::not_supported, Error::protocol},
		{Error::no_memory, Error::not_connected},
		{Error::io, Error::not_connected},
	};
	static constexpr Loss losses[] = {Loss::endpoint_failed, Loss::resolve_failed,
					  Loss::handshake_failed};

	for (u32 step = 0; step < 3; step++)
		for (const auto &error : errors) {
			TEST_NOTE("step", step);
			TEST_NOTE("error", error.error);
			Requester r;
			int *const results[] = {&r.verbs.create_result, &r.verbs.resolve_result,
						&r.verbs.connect_result};

			*results[step] = to_errno(error.error);
			EXPECT_EQ(rpcordma_core_client_connect(r.core), to_errno(error.for_sunrpc));
			EXPECT_EQ(r.log.take(losses[step]), 1);
			EXPECT_EQ(r.log.take(Loss::connect_failed), 1);
			EXPECT_EQ(r.log.loss_before, to_errno(error.error));
			EXPECT_EQ(r.log.loss_value, to_errno(error.error));
			EXPECT_TRUE(backs_off(r));
			*results[step] = 0;
			r.connect();
		}
}

/* What nobody hears of while it goes well ends the connection when it fails, and is told. */
RPCORDMA_TEST(client_life, silent_requests_fail)
{
	using trace::Loss;
	/* A REG_MR, the Send behind it; the first of two LOCAL_INVs, and the second. */
	static constexpr struct {
		u32 request;
		Loss loss;
	} all[] = {{0, Loss::register_failed},
		   {2, Loss::send_failed},
		   {3, Loss::invalidate_failed},
		   {4, Loss::invalidate_failed}};

	for (const auto &one : all) {
		TEST_NOTE("request", one.request);
		Requester r;

		r.connect();
		r.verbs.fail_at = one.request;
		r.verbs.fail_status = RPCORDMA_WC_REMOTE_ACCESS;
		/* Data of the call, and a long reply. */
		rpc_rqst *call = r.prepare(1, 40, 2048);
		r.add_pages(call, 8000, false);
		r.add_pages(call, 8000, true);
		EXPECT_EQ(r.transmit(call), 0);
		if (one.loss == Loss::invalidate_failed)
			EXPECT_TRUE(r.reply(1, 24));
		EXPECT_EQ(r.log.take(one.loss), 1);
		EXPECT_EQ(r.log.loss_value, RPCORDMA_WC_REMOTE_ACCESS);
		EXPECT_EQ(r.sunrpc.force_disconnects, 1);
		EXPECT_FALSE(r.is_connected());
		EXPECT_EQ(call->completed, 0);
		rpcordma_core_client_close(r.core);
		r.done(call);
	}
}

/* Tasks that wait for a slot get each that is free; one that nobody wants any more is handed out next. */
RPCORDMA_TEST(client_life, backlog)
{
	for (u32 deaf = 0; deaf <= 2; deaf++) {
		TEST_NOTE("deaf", deaf);
		Requester r;
		rpc_rqst *calls[Requester::kSlots];

		r.connect();
		for (u32 i = 0; i < Requester::kSlots; i++) {
			calls[i] = r.prepare(i + 1);
			ASSERT_NE(calls[i], nullptr);
		}
		EXPECT_EQ(r.prepare(99), nullptr);
		r.sunrpc.backlog = 2;
		r.sunrpc.deaf = deaf;
		calls[5]->waiting = false;
		/* Who is woken has a slot. */
		if (deaf < 2)
			r.in_use++;
		r.done(calls[5]);
		EXPECT_EQ(r.sunrpc.woken, deaf < 2 ? calls[5] : nullptr);
		EXPECT_EQ(r.sunrpc.backlog, deaf ? 0 : 1);
		if (deaf == 2) {
			calls[5] = r.prepare(6);
			ASSERT_NE(calls[5], nullptr);
		}
		/* The one that waits still has the next. */
		r.sunrpc.deaf = 0;
		if (!deaf)
			r.in_use++;
		r.done(calls[7]);
		EXPECT_EQ(r.sunrpc.backlog, 0);
		if (!deaf)
			EXPECT_EQ(r.sunrpc.woken, calls[7]);
		for (u32 i = 0; i < Requester::kSlots; i++)
			if (i != 7 || !deaf)
				r.done(calls[i]);
	}
}

/* A connection's life is told, from its thresholds on; and that it is over is said to the server before the queues are drained. */
RPCORDMA_TEST(client_life, told)
{
	Requester r;

	r.connect();
	EXPECT_EQ(r.log.connection_events, 3);
	r.log.expect_connection(2, "inline threshold, send",
				int(r.connection()->session.thresholds().send));
	r.log.expect_connection(1, "inline threshold, receive",
				int(r.connection()->session.thresholds().receive));
	r.log.expect_connection(0, "connected", int(r.connection()->credits.requested().get()));

	EXPECT_EQ(r.verbs.disconnects, 0);
	rpcordma_core_client_inject_disconnect(r.core);
	r.log.expect_connection(0, "disconnect injected", 0);
	EXPECT_EQ(r.verbs.disconnects, 1);

	EXPECT_EQ(r.sunrpc.closes, 0);
	rpcordma_core_client_close(r.core);
	EXPECT_EQ(r.sunrpc.closes, 1);
	r.log.expect_connection(0, "close", 0);
	EXPECT_EQ(r.verbs.disconnects, 2);
	EXPECT_TRUE(r.verbs.drained);
	/* There is nothing any more that could be disconnected, or closed. */
	rpcordma_core_client_inject_disconnect(r.core);
	rpcordma_core_client_close(r.core);
	EXPECT_EQ(r.verbs.disconnects, 2);
	EXPECT_EQ(r.log.connection_events, 5);

	/* To who does not listen nothing is told. */
	rpcordma_trace_enabled &= ~RPCORDMA_TRACE_CONNECTION;
	r.connect();
	rpcordma_core_client_close(r.core);
	EXPECT_EQ(r.log.connection_events, 5);
	rpcordma_trace_enabled |= RPCORDMA_TRACE_CONNECTION;
}

RPCORDMA_SUITE(client_life, space_came, state, told, back_off, back_off_unconnected,
	       receives_not_posted, send_queue_full, refill, regions_for_who_needs_them,
	       gaps_where_needed, other_kind_kept, gaps_forgotten, room_for_all_calls, small_pages,
	       shorter_queues, device_refused, queue_sizes, parameters, steps_fail,
	       silent_requests_fail, backlog);

} // namespace rpcordma
