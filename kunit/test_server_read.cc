// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read chunks pulled: module/server/read.cc. By the receive completion or by a thread, with whole calls
 * compared byte by byte, and within the budget. See test_server_read_failures.cc for what fails.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"

namespace rpcordma {

/* The completion pulls, nfsd is woken once, with all of it; pages change hands and none is lost. */
RPCORDMA_TEST(server_read, eager)
{
	for (u32 size : {1u, 100u, kPage - 1, kPage, kPage + 1, 5 * kPage, 40 * kPage}) {
		TEST_NOTE("size", size);
		Connected c;
		CallMaker call(1);

		make_write(call, size, 33);
		ASSERT_TRUE(c.send(call));
		EXPECT_EQ(c.svc.enqueued, 1); /* ESTABLISHED */
		EXPECT_FALSE(c.svc.data);
		EXPECT_EQ(c.verbs.sends, div_round_up(size, 32 * kPage));
		EXPECT_EQ(Connected::eager_bytes(), pinned(size));
		c.work();
		EXPECT_EQ(c.svc.enqueued, 2);
		c.fill_thread();
		EXPECT_EQ(c.log.posted_entry, c.log.completed_entry);
		EXPECT_EQ(c.log.count(trace::Bulk::sink_mapped), 1);
		EXPECT_EQ(c.log.count(trace::Bulk::sink_unmapped), 0);
		const u32 pages = c.memory.pages;
		EXPECT_EQ(c.receive(), int(60 + size + xdr_pad(size)));
		EXPECT_EQ(c.memory.pages, pages);
		EXPECT_EQ(c.dma.bulk_maps, 0);
		EXPECT_EQ(c.log.count(trace::Bulk::sink_unmapped), 1);
		EXPECT_EQ(c.log.decoded.xid, 1);
		EXPECT_EQ(c.log.decoded.inline_length, 60);
		EXPECT_EQ(c.log.decoded.read_segments, 1);
		EXPECT_EQ(c.log.decoded.read_length, size);
		EXPECT_EQ(c.log.decoded.write_segments, 0);
		/* The sink is out as long as the service has its pages. */
		EXPECT_EQ(Connected::eager_bytes(), pinned(size));
		EXPECT_EQ(Connected::eager_users(), 1);
		expect_write(c, size, 33);
		EXPECT_EQ(c.reply(20), 0);
		EXPECT_EQ(Connected::eager_bytes(), 0);
		EXPECT_EQ(Connected::eager_users(), 0);
		c.work();
		c.expect_reply(1, 20);
		EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), 1);
		EXPECT_EQ(counter(RPCORDMA_SERVER_HELD), 0);
		EXPECT_EQ(counter(RPCORDMA_SERVER_READ), c.peer.reads);
		/* All room is given back. */
		EXPECT_EQ(c.room_taken(), 0);
	}
}

/* Without sinks, the call waits for a thread, which pulls into its own pages, and comes again. */
RPCORDMA_TEST(server_read, held)
{
	for (u32 size : {100u, kPage + 1, kPage + 2, 40 * kPage - 1, 40 * kPage}) {
		TEST_NOTE("size", size);
		Connected c;
		const NoSinks none;
		CallMaker call(1);

		make_write(call, size, 5);
		ASSERT_TRUE(c.send(call));
		EXPECT_TRUE(c.svc.data);
		EXPECT_EQ(c.verbs.sends, 0);
		EXPECT_EQ(Connected::eager_bytes(), 0);
		EXPECT_EQ(c.receive(), 0);
		EXPECT_EQ(c.rqst->call, nullptr);
		EXPECT_FALSE(c.svc.data);
		EXPECT_EQ(c.rqst->pages[0], nullptr);
		c.work();
		EXPECT_TRUE(c.svc.data);
		EXPECT_EQ(c.receive(), int(60 + size + xdr_pad(size)));
		expect_write(c, size, 5);
		c.release();
		EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), 0);
		EXPECT_EQ(counter(RPCORDMA_SERVER_HELD), 1);
		EXPECT_EQ(counter(RPCORDMA_SERVER_READ), c.peer.reads);
		EXPECT_EQ(c.room_taken(), 0);
	}
}

/* Calls that are held are not overtaken by those that come after them; whole ones take turns with them. */
RPCORDMA_TEST(server_read, in_order)
{
	Connected c;
	{
		const NoSinks none;
		CallMaker one(1);

		make_write(one, 100);
		ASSERT_TRUE(c.send(one));
	}
	CallMaker two(2);
	make_write(two, 100);
	ASSERT_TRUE(c.send(two));
	EXPECT_EQ(c.verbs.sends, 0);
	for (u32 xid = 3; xid < 7; xid++)
		ASSERT_TRUE(c.send_inline(xid));

	u32 whole = 3, held = 0;
	bool before = false;
	for (u32 turn = 0; turn < 4; turn++) {
		TEST_NOTE("turn", turn);
		const int rc = c.receive();

		EXPECT_TRUE(c.svc.data);
		EXPECT_EQ(c.verbs.sends, held += !rc);
		if (turn)
			EXPECT_NE(before, rc > 0);
		before = rc > 0;
		if (!rc)
			continue;
		EXPECT_EQ(rc, 40);
		EXPECT_EQ(c.call_xid(), Xid(whole++));
		c.release();
	}
	EXPECT_EQ(held, 2);
	/* With none held there are no turns. */
	for (; whole < 7; whole++) {
		EXPECT_TRUE(c.svc.data);
		EXPECT_EQ(c.receive(), 40);
		EXPECT_EQ(c.call_xid(), Xid(whole));
		c.release();
	}
	EXPECT_FALSE(c.svc.data);
	c.work();
	for (u32 xid : {1u, 2u}) {
		EXPECT_EQ(c.receive(), 160);
		EXPECT_EQ(c.call_xid(), Xid(xid));
		c.release();
	}
}

/* What makes room in the send queue is first for the threads that wait for it. */
RPCORDMA_TEST(server_read, behind_waiters)
{
	Connected c;
	CallMaker call(1);

	make_write(call, 100);
	c.pretend_waiters(1);
	ASSERT_TRUE(c.send(call));
	c.pretend_waiters(0);
	EXPECT_EQ(c.verbs.sends, 0);
	EXPECT_TRUE(c.svc.data);
	EXPECT_EQ(c.receive(), 0);
	c.work();
	EXPECT_EQ(c.receive(), 160);
	expect_write(c, 100);
	c.release();
	EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), 0);
}

/* Several chunks, and a Position Zero chunk: the call is put together in the sink. */
RPCORDMA_TEST(server_read, linear)
{
	for (const bool eager : {true, false})
		for (u32 form = 0; form < 4; form++) {
			TEST_NOTE("eager", eager);
			TEST_NOTE("form", form);
			Connected c;
			CallMaker call(1, 64, form ? xdr::Kind::nomsg : xdr::Kind::msg);
			u32 length = 0;

			if (form == 0) {
				/* 40 inline, 698 pulled, 20 inline, 301 pulled, 20 inline. */
				call.read(760, 301, 5000);
				call.read(40, 500, 1000);
				call.read(40, 198, 3000);
				call.finish(80);
				length = 80 + 700 + 304;
			} else if (form == 1) {
				call.read(0, 1000, 100);
				call.finish(0);
				length = 1000;
			} else {
				/* An item, and what is around it pulled as well; the item's pad is nowhere. */
				call.read(0, 50, 200);
				call.read(40, form == 2 ? 700 : 697, 1000);
				call.read(0, 30, 300);
				call.finish(0);
				length = 780;
			}
			if (eager) {
				ASSERT_TRUE(c.send(call));
			} else {
				const NoSinks none;

				ASSERT_TRUE(c.send(call));
				EXPECT_EQ(c.receive(), 0);
			}
			c.work();
			ASSERT_EQ(c.receive(), int(length));
			EXPECT_EQ(c.rqst->arg.head, nullptr);
			EXPECT_EQ(c.rqst->arg.head_length, kPage);
			EXPECT_EQ(c.rqst->arg.page_length, length - kPage);
			EXPECT_EQ(c.rqst->arg.pages_used, div_round_up(length, kPage));
			const u8 *const client = c.peer.memory;
			for (u32 i = form ? 0 : 8; i < length; i++) {
				TEST_NOTE("byte", i);
				u8 expected;

				if (form == 1)
					expected = client[100 + i];
				else if (form >= 2)
					expected = i < 40 ? client[200 + i] :
						   form == 3 && i >= 737 && i < 740 ? 0 :
						   i < 740 ? client[1000 + i - 40] :
						   i < 750 ? client[200 + i - 700] :
							     client[300 + i - 750];
				else
					expected = i < 40   ? call_pattern(i) :
						   i < 540  ? client[1000 + i - 40] :
						   i < 738  ? client[3000 + i - 540] :
						   i < 740  ? 0 /* a pad that nobody sent */ :
						   i < 760  ? pattern(i - 700) :
						   i < 1061 ? client[5000 + i - 760] :
						   i < 1064 ? 0 :
							      pattern(i - 1004);
				ASSERT_EQ(c.call_byte(i), expected);
			}
			c.release();
		}
}

/* A call that fits in the first page is all head there. */
RPCORDMA_TEST(server_read, short_position_zero)
{
	Connected c;
	CallMaker call(1, 64, xdr::Kind::nomsg);

	call.read(0, 100, 7);
	call.finish(0);
	ASSERT_TRUE(c.send(call));
	c.work();
	ASSERT_EQ(c.receive(), 100);
	EXPECT_EQ(c.rqst->arg.head_length, 100);
	EXPECT_EQ(c.rqst->arg.page_length, 0);
	for (u32 i = 0; i < 100; i++)
		ASSERT_EQ(c.call_byte(i), c.peer.memory[7 + i]);
	c.release();
}

/*
 * A WRITE of the largest payload that is announced, and a message of that and a page in one chunk. By a thread: no sink of
 * the pool is so large.
 */
RPCORDMA_TEST(server_read, largest_payload)
{
	/* A completion pulls what goes into the largest sink, a thread what is more. */
	for (const u32 more : {0u, 1u}) {
		TEST_NOTE("more", more);
		constexpr u32 kWhole = Transfer::kPages * kPage;
		Connected c;
		CallMaker call(1);

		c.thread_pages = Transfer::kPages + 3;
		c.svc.limits.max_message = c.server->limits.max_message = kWhole + kPage;
		c.svc.limits.max_pages = c.server->limits.max_pages = Transfer::kPages + 1;
		make_write(call, kWhole + more);
		ASSERT_TRUE(c.send(call));
		EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), 1 - more);
		if (more)
			EXPECT_EQ(c.receive(), 0);
		c.work();
		EXPECT_EQ(c.receive(), int(60 + kWhole + more + xdr_pad(more)));
		c.release();
	}
	const u32 payload = rpcordma_core_server_max_payload(kPage);

	EXPECT_EQ(payload, 1024 * kPage);
	for (const bool linear : {false, true}) {
		TEST_NOTE("linear", linear);
		Connected c;
		CallMaker call(1, 64, linear ? xdr::Kind::nomsg : xdr::Kind::msg);

		c.peer.have(payload + 2 * kPage);
		c.thread_pages = payload / kPage + 3;
		c.fill_thread();
		/* As rpcordma_svc_get_limits() says when the service is made for that payload. */
		c.svc.limits.max_message = c.server->limits.max_message = payload + kPage;
		c.svc.limits.max_pages = c.server->limits.max_pages = payload / kPage + 1;
		/* Nor does the budget grow with such calls: it is for sinks. */
		EXPECT_EQ(eager_cap(nullptr, kPage, c.server->limits.eager_memory),
			  8 * (Transfer::kPages * kPage + kTransferBytes));
		if (linear) {
			call.read(0, payload + kPage, 33);
			call.finish(0);
		} else {
			make_write(call, payload, 33);
		}
		ASSERT_TRUE(c.send(call));
		EXPECT_EQ(c.receive(), 0);
		EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), 0);
		c.work();
		ASSERT_EQ(c.receive(), int(payload + (linear ? kPage : 60)));
		if (!linear)
			expect_write(c, payload, 33);
		else
			for (u32 i = 0; i < payload + kPage; i++)
				ASSERT_EQ(c.call_byte(i), c.peer.memory[33 + i]);
		c.release();
	}
}

/* --- the budget --- */

/* One call before the first reply, which is none that refuses; then as many as the cap allows. */
RPCORDMA_TEST(server_read, stranger)
{
	Connected c;
	CallMaker bad(9);

	bad.finish(4);
	ASSERT_TRUE(c.send(bad));
	EXPECT_EQ(c.receive(), 0);
	c.work();
	c.expect_error(9, xdr::ErrorCode::chunk);
	EXPECT_FALSE(c.replied());
	for (u32 i = 0; i < 2; i++) {
		CallMaker call(i);

		make_write(call, 100);
		ASSERT_TRUE(c.send(call));
	}
	EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), 1);
	c.work();
	EXPECT_EQ(c.receive(), 160);
	EXPECT_FALSE(c.replied());
	EXPECT_EQ(c.reply(20), 0);
	EXPECT_TRUE(c.replied());
	EXPECT_EQ(c.receive(), 0);
	c.work();
	EXPECT_EQ(c.receive(), 160);
	c.release();
	EXPECT_EQ(counter(RPCORDMA_SERVER_HELD), 1);
	for (u32 i = 2; i < 4; i++) {
		CallMaker call(i);

		make_write(call, 100);
		ASSERT_TRUE(c.send(call));
	}
	EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), 3);
	EXPECT_EQ(c.log.take(trace::Failure::message_undecodable), 1);
	EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
}

/* The module's cap, by its parameter and by default; and a connection's share of it. */
RPCORDMA_TEST(server_read, budget)
{
	/* What each takes: it is memory that counts, not what the peer says that it sends. */
	constexpr u32 kOne = pinned(1000);
	static constexpr struct {
		u32 parameter, threads, others = 0, users = 0, memory = 0, eager;
	} budgets[] = {
		/* 1000 bytes are asked for, then 1000 again. */
		{.parameter = 0, .threads = 8, .eager = 2},
		{.parameter = kOne - 1, .threads = 8, .eager = 0},
		{.parameter = kOne, .threads = 8, .eager = 1},
		{.parameter = 2 * kOne - 1, .threads = 8, .eager = 1},
		{.parameter = 2 * kOne, .threads = 8, .eager = 2},
		{.parameter = 2 * kOne, .threads = 8, .others = 1, .eager = 1},
		{.parameter = 2 * kOne, .threads = 8, .others = kOne, .eager = 1},
		{.parameter = 2 * kOne, .threads = 8, .others = kOne + 1, .eager = 0},
		/* Four connections, of which three have some already. */
		{.parameter = 8 * kOne, .threads = 8, .users = 3, .eager = 2},
		{.parameter = 8 * kOne - 1, .threads = 8, .users = 3, .eager = 1},
		/* One thread, and others have what it could take; with more memory there is more. */
		{.parameter = 0, .threads = 1, .others = pinned(16 * 1024), .eager = 0},
		{.parameter = 0,
		 .threads = 1,
		 .others = pinned(16 * 1024),
		 .memory = 8000000,
		 .eager = 0},
		{.parameter = 0,
		 .threads = 1,
		 .others = pinned(16 * 1024),
		 .memory = 24000000,
		 .eager = 2},
		{.parameter = kOne, .threads = 1, .memory = 24000000, .eager = 1},
		/* No thread, nothing. */
		{.parameter = 0, .threads = 0, .memory = 24000000, .eager = 0},
	};

	for (const auto &b : budgets) {
		TEST_NOTE("cap", b.parameter);
		TEST_NOTE("others' bytes", b.others);
		TEST_NOTE("other connections", b.users);
		Connected c;

		rpcordma_server_tunables.eager_read_bytes = b.parameter;
		c.svc.limits.threads = b.threads;
		c.memory.size = b.memory;
		c.server->limits.eager_memory = eager_memory(); /* as accept() does */
		c.set_replied(true);
		{
			const OthersEager others(b.others, b.users);
			for (u32 i = 0; i < 2; i++) {
				CallMaker call(i);

				make_write(call, 1000);
				ASSERT_TRUE(c.send(call));
			}
			EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), b.eager);
			EXPECT_EQ(Connected::eager_bytes(), b.others + kOne * b.eager);
			EXPECT_EQ(Connected::eager_users(), b.users + (b.eager > 0));
		}
		/* The end of the connection gives the rest back as well. */
		c.end();
	}
}

/* While no Read is done, completions start so many and no more, whatever there is of sinks and of the budget. */
RPCORDMA_TEST(server_read, reading)
{
	constexpr u32 kMany = 40;
	constexpr u32 kMost = 8 * (Transfer::kPages * kPage + kTransferBytes) / pinned(1000);
	Connected c;

	static_assert(kMost < kMany);
	c.svc.limits.threads = 1000;
	c.set_replied(true);
	/* As use would make it. */
	for (u32 count = 0; count < kMany;) {
		Transfer *taken[2 * kMany];

		count = 0;
		while (Transfer *sink = server_pool.take_sink(4, ~0u))
			taken[count++] = sink;
		rpcordma_core_server_refill();
		for (u32 i = 0; i < count; i++)
			server_pool.give(taken[i]);
	}
	for (u32 i = 0; i < kMany; i++) {
		CallMaker call(i);

		make_write(call, 1000);
		ASSERT_TRUE(c.send(call));
		EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), min(i + 1, kMost));
		/* Those that are held have nothing of the budget. */
		EXPECT_EQ(Connected::eager_bytes(), min(i + 1, kMost) * pinned(1000));
	}
	EXPECT_TRUE(c.has_held());
	/* When they are done, and those that are held, it goes on. */
	c.settle();
	EXPECT_EQ(counter(RPCORDMA_SERVER_HELD), kMany - kMost);
	for (u32 i = 0; i < kMany; i++) {
		CallMaker call(i);

		make_write(call, 1000);
		ASSERT_TRUE(c.send(call));
		c.work();
	}
	EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), kMost + kMany);
}

/* The send queue is full: the completion does not wait, the thread does. */
RPCORDMA_TEST(server_read, no_room)
{
	Connected c;
	CallMaker call(1);

	/* Others' work requests are under way. */
	ASSERT_TRUE(c.send_inline(7));
	EXPECT_EQ(c.receive(), 40);
	EXPECT_EQ(c.send_reply(20), 0);
	const NoRoom others(c);
	make_write(call, 100);
	ASSERT_TRUE(c.send(call));
	EXPECT_EQ(c.verbs.sends, 1);
	EXPECT_EQ(Connected::eager_bytes(), 0);
	c.release();
	/* The device makes room while the thread waits. */
	EXPECT_EQ(c.receive(), 0);
	EXPECT_EQ(c.sync.waits, 1);
	EXPECT_EQ(counter(RPCORDMA_SERVER_SQ_STARVE), 1);
	c.work();
	EXPECT_EQ(c.receive(), 160);
	expect_write(c, 100);
	c.release();
	EXPECT_EQ(c.log.take(trace::Failure::send_queue_full), 1);
}

/* The send queue stays full: the thread does not wait for ever, and the call comes to nothing. */
RPCORDMA_TEST(server_read, stalled)
{
	Connected c;
	CallMaker call(1);

	const NoRoom others(c);
	make_write(call, 100);
	ASSERT_TRUE(c.send(call));
	EXPECT_TRUE(c.svc.data);
	c.sync.stalls = 1;
	EXPECT_EQ(c.receive(), 0);
	EXPECT_EQ(c.svc.closed, 1);
	EXPECT_EQ(c.verbs.sends, 0);
	EXPECT_EQ(c.dma.bulk_maps, 0);
	EXPECT_EQ(c.in_service(), 0);
	EXPECT_EQ(c.waiters(), 0);
	EXPECT_EQ(c.log.take(trace::Failure::send_queue_full), 1);
	EXPECT_EQ(c.log.take(trace::Loss::send_queue_stalled), 1);
}

RPCORDMA_SUITE(server_read, eager, held, in_order, behind_waiters, linear, short_position_zero,
	       largest_payload, stranger, budget, reading, no_room, stalled);

} // namespace rpcordma
