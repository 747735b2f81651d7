// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls whose Sends read their pages where they lie (module/client/gather.hh): that the pages stay mapped, and the call with its
 * task, until the last of these Sends is done, whatever comes first or instead; and that they are copied where they cannot be.
 */
#include "kunit/test_client_items.hh"

namespace rpcordma {
namespace {

/* Of three transmissions, the last one shorter. */
constexpr u32 kSize = 5 * kSegment, kSends = 3;

struct Gatherer : Placer {
	Gatherer() = default;
	explicit Gatherer(const GroupSetting &setting) : Placer(setting)
	{
		grow();
	}
	/* The WRITE @xid is posted, and the device has not begun with it. */
	[[nodiscard]] rpc_rqst *post(u32 xid, u32 size = kSize)
	{
		rpc_rqst *call = write(xid, size);

		EXPECT_EQ(rpcordma_core_send_request(core, call->call), 0);
		return call;
	}
	/* The reply to @xid comes, and the device does nothing else. */
	void reply_now(u32 xid, u32 size = 24)
	{
		Reply2Maker maker(xid, grant);

		maker.finish(size, kReplyMessage);
		EXPECT_TRUE(verbs.send(nullptr, maker.message()));
	}
	[[nodiscard]] u32 gathered() const
	{
		return u32(stats().gathered_item_count);
	}
	/* Transmissions with mapped pages. */
	[[nodiscard]] u32 mapped() const
	{
		return dma.bulk_maps;
	}
	/* The connection is lost, and the task sends its call again: it goes in the same way. */
	void again(rpc_rqst *call, u32 xid)
	{
		EXPECT_EQ(call->completed, 0);
		EXPECT_FALSE(call->pinned);
		EXPECT_EQ(mapped(), 0);
		reconnect(with(1 << 18));
		grow();
		call->waiting = true;
		EXPECT_EQ(transmit(call), 0);
		EXPECT_TRUE(reply2(xid, 24));
		EXPECT_EQ(call->result, 24);
		done(call);
		at_rest();
	}
};

} // namespace

/* The reply is seen before the Sends are known to be done, at any point between them, or behind: it completes with the later. */
RPCORDMA_TEST(client_gather, order)
{
	for (u32 done = 0; done <= kSends; done++) {
		TEST_NOTE("done", done);
		Gatherer r;
		rpc_rqst *call = r.post(9);

		EXPECT_EQ(r.gathered(), 1);
		EXPECT_EQ(r.mapped(), kSends);
		EXPECT_EQ(audit(*r.core).gathered, 1);
		EXPECT_EQ(r.verbs.work(done), done);
		EXPECT_EQ(r.mapped(), done == kSends ? 0 : kSends);
		r.reply_now(9);
		EXPECT_EQ(call->completed, done == kSends);
		EXPECT_EQ(call->pinned, done != kSends);
		r.work();
		EXPECT_EQ(r.mapped(), 0);
		EXPECT_EQ(call->completed, 1);
		EXPECT_EQ(call->result, 24);
		r.done(call);
		r.at_rest();
		/* Nothing else is asked for a check. */
		if (r.sunrpc.check_delay)
			r.sunrpc.check(r.core);
		EXPECT_EQ(r.sunrpc.force_disconnects, 0);
	}
}

/* Byte for byte, wherever in a page they begin and end, and whatever is behind them. */
RPCORDMA_TEST(client_gather, places)
{
	constexpr u32 part = 2 * kSegment;
	u32 xid = 20, gathered = 0;
	Gatherer r;

	for (const u32 base : {0u, 1u, 3u, u32(kPage) - 1, u32(kPage), u32(kPage) + 77})
		for (const u32 size : {2 * part - 1, 2 * part, 2 * part + u32(kPage) + 1,
				       3 * part - 2, 4 * part - 3}) {
			TEST_NOTE("base", base);
			rpc_rqst *call = r.write(++xid, base + size);
			const u32 pad = xdr_pad(base + size);

			call->send.page_base = base;
			call->send.page_length = size;
			call->send.tail = {static_cast<u8 *>(call->send.head.base) +
						   Requester::kRoom / 2,
					   xdr_pad(size)};
			__builtin_memset(call->send.tail.base, 0, 4);
			call->send.len = call->send.len - base - pad + xdr_pad(size);
			EXPECT_EQ(rpcordma_core_send_request(r.core, call->call), 0);
			EXPECT_EQ(r.gathered(), ++gathered);
			r.expect_item(xid, size, div_round_up(size, part), 2, 60, 0, base);
			EXPECT_TRUE(r.reply2(xid, 24));
			EXPECT_EQ(call->result, 24);
			r.done(call);
			r.at_rest();
		}
	EXPECT_EQ(r.stats().pullup_copy_count, 0);
}

namespace {

Gatherer *quick; /* whose peer is quicker than its post */
u32 quick_sends; /* how many of its Sends are */

void reply_at_once()
{
	/* The sender has it, who is on another CPU. */
	const u32 held = quick->sync.locks_held;

	quick->sync.locks_held = 0;
	quick->verbs.work(quick_sends);
	quick->reply_now(9);
	quick->sync.locks_held = held;
}

} // namespace

/* Before the post has returned the reply may come, and the Sends be done, or some of them. */
RPCORDMA_TEST(client_gather, overtakes_its_post)
{
	for (u32 done = 0; done <= kSends; done++) {
		TEST_NOTE("done", done);
		Gatherer r;
		rpc_rqst *call = r.write(9, kSize);

		quick = &r;
		quick_sends = done;
		r.verbs.in_post = reply_at_once;
		EXPECT_EQ(rpcordma_core_send_request(r.core, call->call), 0);
		EXPECT_EQ(call->completed, done == kSends);
		r.work();
		EXPECT_EQ(call->result, 24);
		r.done(call);
		r.at_rest();
	}
}

/* A task that gives its call up has the Sends done before its pages go; and waits for nothing when they are done. */
RPCORDMA_TEST(client_gather, given_up)
{
	for (u32 done = 0; done <= kSends; done++) {
		TEST_NOTE("done", done);
		Gatherer r;
		rpc_rqst *call = r.post(9);

		EXPECT_EQ(r.verbs.work(done), done);
		/* done() looks at it as its pages go. */
		r.done(call);
		EXPECT_EQ(r.mapped(), 0);
		EXPECT_EQ(audit(*r.core).zombies, 1);
		/* The credits are the peer's, until the reply. */
		EXPECT_EQ(r.sunrpc.in_flight, kSends);
		EXPECT_TRUE(r.reply2(9, 24));
		EXPECT_EQ(r.sunrpc.in_flight, 0);
		r.at_rest();
	}
}

/* The reply comes when nobody waits for it any more, and the Sends are out still. */
RPCORDMA_TEST(client_gather, answered_before)
{
	for (u32 done = 0; done <= kSends; done++) {
		TEST_NOTE("done", done);
		Gatherer r;
		rpc_rqst *call = r.post(9);

		EXPECT_EQ(r.verbs.work(done), done);
		call->waiting = false;
		r.reply_now(9);
		EXPECT_EQ(r.mapped(), done == kSends ? 0 : kSends);
		r.done(call);
		EXPECT_EQ(r.mapped(), 0);
		EXPECT_EQ(r.sunrpc.in_flight, 0);
		r.at_rest();
	}
}

/* A Send that is never done costs the connection, as LOCAL_INVs do: who waits for it, task or reply, has no timer. */
RPCORDMA_TEST(client_gather, stuck)
{
	for (const bool replied : {false, true}) {
		TEST_NOTE("replied", replied);
		Gatherer r;
		rpc_rqst *call = r.post(9);

		r.verbs.stuck = true;
		if (replied) {
			r.reply_now(9);
			EXPECT_EQ(call->completed, 0);
			EXPECT_EQ(r.sunrpc.check_delay, kInvalidationLimitMs);
			while (r.sunrpc.check_delay && !r.sunrpc.force_disconnects)
				r.sunrpc.check(r.core);
			EXPECT_EQ(r.sunrpc.force_disconnects, 1);
			EXPECT_EQ(r.mapped(), kSends);
			rpcordma_core_client_close(r.core);
			/* The drain ends the Sends. */
			EXPECT_EQ(call->result, 24);
		}
		r.done(call);
		EXPECT_EQ(r.mapped(), 0);
		EXPECT_EQ(r.log.take(trace::Loss::invalidations_overdue), 1);
		EXPECT_EQ(r.sunrpc.force_disconnects, 1);
	}
}

/* The connection is lost: the pages are the task's again when it is drained, and the call is sent again, or has its reply. */
RPCORDMA_TEST(client_gather, lost)
{
	enum Way { flushed, failed, closed, removed };

	for (u32 way = flushed; way <= removed; way++)
		for (const bool replied : {false, true}) {
			TEST_NOTE("way", way);
			TEST_NOTE("replied", replied);
			Gatherer r;
			rpc_rqst *call = r.post(9);

			if (replied)
				r.reply_now(9);
			EXPECT_EQ(call->completed, 0);
			if (way == flushed) {
				r.verbs.flush();
			} else if (way == failed) {
				/* The second of the three; the third is flushed. */
				r.verbs.fail_at = 1;
				r.verbs.fail_status = 12;
				r.verbs.work();
			} else if (way == removed) {
				rpcordma_core_endpoint_event(r.connection(),
							     RPCORDMA_EVENT_DEVICE_REMOVAL);
			}
			rpcordma_core_client_close(r.core);
			EXPECT_EQ(r.mapped(), 0);
			for (const auto loss :
			     {trace::Loss::send_failed, trace::Loss::receive_failed,
			      trace::Loss::device_removal})
				(void)r.log.take(loss);
			if (replied) {
				EXPECT_EQ(call->completed, 1);
				EXPECT_EQ(call->result, 24);
				r.done(call);
			} else {
				/* Not again so soon in several messages (close.cc). */
				r.sync.now += kPlainMs;
				r.again(call, 9);
			}
		}
}

/* A task gives its call up amid the end of its connection. */
RPCORDMA_TEST(client_gather, given_up_at_the_end)
{
	Gatherer r;
	rpc_rqst *call = r.post(9);

	r.verbs.stuck = true;
	rpcordma_core_endpoint_event(r.connection(), RPCORDMA_EVENT_DISCONNECTED);
	/* buf_free() waits for the drain. */
	r.done(call);
	EXPECT_EQ(r.mapped(), 0);
	EXPECT_EQ(r.connection(), nullptr);
	EXPECT_EQ(r.log.take(trace::Loss::disconnected), 1);
	EXPECT_EQ(audit(*r.core).unfenced, 0);
}

/* However much of it cannot be posted: nothing reads the pages any more when the task has them back, and no guess is a reply. */
RPCORDMA_TEST(client_gather, post_fails)
{
	for (u32 posted = 0; posted < kSends; posted++)
		for (const bool guessed : {false, true}) {
			TEST_NOTE("posted", posted);
			TEST_NOTE("guessed", guessed);
			Gatherer r;
			rpc_rqst *call = r.write(9, kSize);

			quick = &r;
			quick_sends = 0;
			if (guessed)
				r.verbs.in_post = reply_at_once;
			r.verbs.sends_left = posted;
			EXPECT_EQ(rpcordma_core_send_request(r.core, call->call),
				  to_errno(Error::not_connected));
			r.verbs.sends_left = kNoLimit;
			EXPECT_EQ(r.log.take(trace::Failure::post_failed), 1);
			EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), 1);
			(void)r.log.take(trace::Loss::send_failed);
			r.sync.now += kPlainMs;
			r.again(call, 9);
		}
}

/* Without a mapping, or memory to describe it, they are copied; without room in the send queue nothing is kept. */
RPCORDMA_TEST(client_gather, shortages)
{
	for (u32 maps = 0; maps < kSends; maps++) {
		TEST_NOTE("maps", maps);
		Gatherer r;

		r.dma.bulk_maps_left = maps;
		EXPECT_TRUE(r.goes(9, kSize, kSends));
		EXPECT_EQ(r.gathered(), 0);
		EXPECT_EQ(r.stats().pullup_copy_count, kSize);
		r.dma.bulk_maps_left = kNoLimit;
		EXPECT_TRUE(r.goes(10, kSize, kSends));
		EXPECT_EQ(r.gathered(), 1);
		r.at_rest();
	}
	Gatherer r;
	const u32 room = r.send_queue().size() - kSends + 1;
	rpc_rqst *call = r.write(9, kSize);
	EXPECT_TRUE(r.send_queue().take_aside(room));
	EXPECT_EQ(rpcordma_core_send_request(r.core, call->call), to_errno(Error::again));
	EXPECT_EQ(r.mapped(), 0);
	EXPECT_EQ(r.sunrpc.in_flight, 1);
	r.send_queue().return_invalidations(room);
	r.core->announce_space();
	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_EQ(r.gathered(), 1);
	EXPECT_TRUE(r.reply2(9, 24));
	r.done(call);
	r.at_rest();
	EXPECT_EQ(r.log.take(trace::Failure::send_queue_full), 1);
}

/* The first of these Sends that is signaled has its room given back for all that were posted before it. */
RPCORDMA_TEST(client_gather, room)
{
	Gatherer r;

	/* Oftener than the send queue has room for. */
	for (u32 i = 0; i < r.send_queue().size() / kSends + 2; i++) {
		EXPECT_TRUE(r.goes(20 + i, kSize, kSends));
		EXPECT_TRUE(r.send_queue().has_room(r.send_queue().size(), 0));
	}
	EXPECT_EQ(r.gathered(), r.send_queue().size() / kSends + 2);
	r.at_rest();
}

/* A sender that waits for room is called when these Sends are done, and finds it. */
RPCORDMA_TEST(client_gather, space)
{
	Gatherer r;
	const u32 room = r.send_queue().size() - kSends;

	EXPECT_TRUE(r.send_queue().take_aside(room));
	rpc_rqst *call = r.post(9), *other = r.prepare(10);
	EXPECT_EQ(rpcordma_core_send_request(r.core, other->call), to_errno(Error::again));
	EXPECT_TRUE(r.wants_space());
	r.verbs.work();
	EXPECT_FALSE(r.wants_space());
	EXPECT_EQ(r.sunrpc.spaces, 1);
	EXPECT_EQ(rpcordma_core_send_request(r.core, other->call), 0);
	r.send_queue().return_invalidations(room);
	for (rpc_rqst *each : {call, other}) {
		EXPECT_TRUE(r.reply2(each->xid, 24));
		EXPECT_EQ(each->result, 24);
		r.done(each);
	}
	r.at_rest();
	EXPECT_EQ(r.log.take(trace::Failure::send_queue_full), 1);
}

namespace {

struct Narrow : Gatherer {
	/* @setting, with a device of @sges SGEs in a Send. */
	Narrow(u32 sges, const GroupSetting &setting) : Gatherer(setting)
	{
		verbs.device.max_send_sge = sges;
		reconnect(setting);
		grow();
	}
};

} // namespace

/* SGEs for this are asked for by who may need them; a device with fewer has them copied, as far as it goes, or a chunk. */
RPCORDMA_TEST(client_gather, sges)
{
	constexpr u32 pages = 2 * kSegment / kPage;

	for (u32 sges = 1; sges <= pages + 3; sges++) {
		TEST_NOTE("SGEs", sges);
		Narrow r(sges, Placer::with(1 << 18));

		EXPECT_EQ(r.verbs.sizes.send_sges, min(sges, pages + 2));
		EXPECT_EQ(r.goes(9, kSize, kSends), sges > pages);
		EXPECT_EQ(r.gathered(), sges > pages);
		/* Off a page's start it takes one more. */
		rpc_rqst *call = r.write(10, kSize + 4);
		call->send.page_base = 4;
		call->send.page_length -= 4;
		call->send.len -= 4;
		EXPECT_EQ(r.transmit(call), 0);
		EXPECT_EQ(r.gathered(), (sges > pages) + (sges > pages + 1));
		EXPECT_EQ(r.stats().sent_item_count, 2 * (sges > pages));
		EXPECT_TRUE(r.reply2(10, 24));
		r.done(call);
		r.at_rest();
	}
	{
		Narrow r(32, Placer::with(0));

		EXPECT_EQ(r.verbs.sizes.send_sges, pages + 1);
		EXPECT_EQ(r.connection()->gather_sges, 0);
	}
	/* Where there is no memory for a queue pair of so many, it does without; then without long messages. */
	for (const bool longer : {true, false}) {
		TEST_NOTE("longer", longer);
		GroupSetting setting = Placer::with(1 << 18);
		Gatherer less(setting);
		less.verbs.qp_sges = longer ? pages + 1 : pages;
		less.reconnect(setting);
		less.grow();
		EXPECT_EQ(less.connection()->gather_sges, 0);
		EXPECT_EQ(less.goes(9, kSize, kSends), longer);
		EXPECT_EQ(less.gathered(), 0);
		less.at_rest();
	}
}

/*
 * What precedes the data goes out of heads as long as the peer's. Of the Sends of a slot that was used before heads were made
 * longer, some may be short still, for want of memory: then such a call goes by a chunk, and on the next connection no more.
 */
RPCORDMA_TEST(client_gather, shorter_heads)
{
	constexpr u32 longer = 2 * kHead, size = 7 * kSegment, sends = 4;
	const GroupSetting setting = Placer::with(1 << 18);

	for (u32 refused = 0; refused < sends; refused++) {
		TEST_NOTE("allocation", refused);
		Gatherer r(setting);

		EXPECT_TRUE(r.goes(9, size, sends));
		EXPECT_EQ(r.gathered(), 1);

		rpcordma_tunables.max_inline_write = longer;
		r.reconnect(setting);
		r.grow(2, kSegment, longer);
		/* Those of its three other Sends come first. */
		const bool all = refused >= sends - 1;
		EXPECT_EQ(r.goes_but_for(refused, 10, size, sends), all);
		EXPECT_EQ(r.gathered(), 1 + all);
		/* It stays so as long as the connection. */
		EXPECT_EQ(r.goes(11, size, sends), all);
		EXPECT_EQ(r.gathered(), 1 + 2 * all);
		r.at_rest();

		r.reconnect(setting);
		r.grow(2, kSegment, longer);
		EXPECT_TRUE(r.goes(12, size, sends));
		EXPECT_EQ(r.gathered(), 2 + 2 * all);
		r.at_rest();
	}
}

RPCORDMA_SUITE(client_gather, space, shorter_heads, order, places, overtakes_its_post, given_up,
	       answered_before, stuck, lost, given_up_at_the_end, post_fails, shortages, room, sges);

} // namespace rpcordma
