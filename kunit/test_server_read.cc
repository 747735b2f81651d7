// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read chunks pulled: module/server/read.cc. By the receive completion or by a thread, with whole calls
 * compared byte by byte; within the budget; and when something fails at any point.
 */
#include "kunit/test_rdma_random.hh"
#include "kunit/test_server_connection.hh"
#include "kunit/testing.hh"

namespace rpcordma {
namespace {

constexpr u32 kPage = FakeServerPort::kPageSize;

u32 counter(rpcordma_server_counter which)
{
	return FakeServerPort::counters[which];
}

/* A WRITE, as NFS does it: data behind 40 bytes, 20 bytes behind the data. */
void make_write(CallMaker &call, u32 size, u32 offset = 0)
{
	call.read(40, size, offset);
	call.finish(60);
}

/* The thread has the call of make_write(). */
void expect_write(const Connected &c, u32 size, u32 offset = 0)
{
	const u32 padded = size + xdr_pad(size);

	EXPECT_EQ(c.rqst->arg.head_length, 40);
	EXPECT_EQ(c.rqst->arg.page_length, padded);
	EXPECT_EQ(c.rqst->arg.tail_length, 20);
	EXPECT_EQ(c.rqst->arg.pages_used, (size + kPage - 1) / kPage);
	for (u32 i = 8; i < 40; i++)
		ASSERT_EQ(c.call_byte(i), call_pattern(i));
	for (u32 i = 0; i < size; i++)
		ASSERT_EQ(c.call_byte(40 + i), FakeServerPort::client[offset + i]);
	/* The pad, which nobody sent, tells nothing of whose the page was. */
	for (u32 i = size; i < padded; i++)
		ASSERT_EQ(c.call_byte(40 + i), 0);
	for (u32 i = 40; i < 60; i++)
		ASSERT_EQ(c.call_byte(padded + i), pattern(i));
}

/* What Reads of so many bytes take of memory. */
constexpr u32 pinned(u32 bytes)
{
	return div_round_up(bytes, kPage) * kPage + kTransferBytes;
}

} // namespace

/* The completion pulls, nfsd is woken once, with all of it; pages change hands and none is lost. */
RPCORDMA_TEST(server_read, eager)
{
	for (u32 size : {1u, 100u, kPage - 1, kPage, kPage + 1, 5 * kPage, 40 * kPage}) {
		TEST_NOTE("size", size);
		Connected c;
		CallMaker call(1);

		make_write(call, size, 33);
		ASSERT_TRUE(c.send(call));
		EXPECT_EQ(FakeServerPort::enqueued, 1); /* ESTABLISHED */
		EXPECT_FALSE(FakeServerPort::data);
		EXPECT_EQ(FakeServerPort::sends, div_round_up(size, 32 * kPage));
		EXPECT_EQ(server_pool.eager_bytes.load(), pinned(size));
		c.work();
		EXPECT_EQ(FakeServerPort::enqueued, 2);
		c.fill_thread();
		const u32 pages = FakeServerPort::pages;
		EXPECT_EQ(c.receive(), int(60 + size + xdr_pad(size)));
		EXPECT_EQ(FakeServerPort::pages, pages);
		EXPECT_EQ(FakeServerPort::bulk_maps, 0);
		EXPECT_EQ(server_pool.eager_bytes.load(), 0);
		EXPECT_EQ(server_pool.eager_users.load(), 0);
		expect_write(c, size, 33);
		EXPECT_EQ(c.reply(20), 0);
		c.work();
		c.expect_reply(1, 20);
		EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), 1);
		EXPECT_EQ(counter(RPCORDMA_SERVER_HELD), 0);
		EXPECT_EQ(counter(RPCORDMA_SERVER_READ), FakeServerPort::reads);
		/* All room is given back. */
		EXPECT_EQ(c.server->room.load(), c.server->queue_size);
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
		EXPECT_TRUE(FakeServerPort::data);
		EXPECT_EQ(FakeServerPort::sends, 0);
		EXPECT_EQ(server_pool.eager_bytes.load(), 0);
		EXPECT_EQ(c.receive(), 0);
		EXPECT_EQ(c.rqst->call, nullptr);
		EXPECT_FALSE(FakeServerPort::data);
		EXPECT_EQ(c.rqst->pages[0], nullptr);
		c.work();
		EXPECT_TRUE(FakeServerPort::data);
		EXPECT_EQ(c.receive(), int(60 + size + xdr_pad(size)));
		expect_write(c, size, 5);
		c.release();
		EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), 0);
		EXPECT_EQ(counter(RPCORDMA_SERVER_HELD), 1);
		EXPECT_EQ(counter(RPCORDMA_SERVER_READ), FakeServerPort::reads);
		EXPECT_EQ(c.server->room.load(), c.server->queue_size);
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
	EXPECT_EQ(FakeServerPort::sends, 0);
	for (u32 xid = 3; xid < 7; xid++)
		ASSERT_TRUE(c.send_inline(xid));

	u32 whole = 3, held = 0;
	bool before = false;
	for (u32 turn = 0; turn < 4; turn++) {
		TEST_NOTE("turn", turn);
		const int rc = c.receive();

		EXPECT_TRUE(FakeServerPort::data);
		EXPECT_EQ(FakeServerPort::sends, held += !rc);
		if (turn)
			EXPECT_NE(before, rc > 0);
		before = rc > 0;
		if (!rc)
			continue;
		EXPECT_EQ(rc, 40);
		EXPECT_EQ(c.rqst->call->header.xid, Xid(whole++));
		c.release();
	}
	EXPECT_EQ(held, 2);
	/* With none held there are no turns. */
	for (; whole < 7; whole++) {
		EXPECT_TRUE(FakeServerPort::data);
		EXPECT_EQ(c.receive(), 40);
		EXPECT_EQ(c.rqst->call->header.xid, Xid(whole));
		c.release();
	}
	EXPECT_FALSE(FakeServerPort::data);
	c.work();
	for (u32 xid : {1u, 2u}) {
		EXPECT_EQ(c.receive(), 160);
		EXPECT_EQ(c.rqst->call->header.xid, Xid(xid));
		c.release();
	}
}

/* What makes room in the send queue is first for the threads that wait for it. */
RPCORDMA_TEST(server_read, behind_waiters)
{
	Connected c;
	CallMaker call(1);

	make_write(call, 100);
	c.server->waiters.store(1);
	ASSERT_TRUE(c.send(call));
	c.server->waiters.store(0);
	EXPECT_EQ(FakeServerPort::sends, 0);
	EXPECT_TRUE(FakeServerPort::data);
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
		for (u32 form = 0; form < 3; form++) {
			TEST_NOTE("eager", eager);
			TEST_NOTE("form", form);
			Connected c;
			CallMaker call(1, 64, form ? v1::Proc::nomsg : v1::Proc::msg);
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
				/* The same as form 0, the inline part pulled as well. */
				call.read(0, 50, 200);
				call.read(40, 700, 1000);
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
			const u8 *const client = FakeServerPort::client;
			for (u32 i = form ? 0 : 8; i < length; i++) {
				TEST_NOTE("byte", i);
				u8 expected;

				if (form == 1)
					expected = client[100 + i];
				else if (form == 2)
					expected = i < 40  ? client[200 + i] :
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
	CallMaker call(1, 64, v1::Proc::nomsg);

	call.read(0, 100, 7);
	call.finish(0);
	ASSERT_TRUE(c.send(call));
	c.work();
	ASSERT_EQ(c.receive(), 100);
	EXPECT_EQ(c.rqst->arg.head_length, 100);
	EXPECT_EQ(c.rqst->arg.page_length, 0);
	for (u32 i = 0; i < 100; i++)
		ASSERT_EQ(c.call_byte(i), FakeServerPort::client[7 + i]);
	c.release();
}

/* A WRITE of the largest payload that is announced, and a message of that and a page in one chunk. */
RPCORDMA_TEST(server_read, largest_payload)
{
	const u32 payload = rpcordma_core_server_max_payload(kPage);

	for (const bool linear : {false, true}) {
		TEST_NOTE("linear", linear);
		Connected c;
		CallMaker call(1, 64, linear ? v1::Proc::nomsg : v1::Proc::msg);

		/* As rpcordma_svc_get_limits() says when the service is made for that payload. */
		FakeServerPort::limits.max_message = payload + kPage;
		FakeServerPort::limits.max_pages = payload / kPage + 1;
		if (linear) {
			call.read(0, payload + kPage, 33);
			call.finish(0);
		} else {
			make_write(call, payload, 33);
		}
		ASSERT_TRUE(c.send(call));
		c.work();
		ASSERT_EQ(c.receive(), int(payload + (linear ? kPage : 60)));
		if (!linear)
			expect_write(c, payload, 33);
		else
			for (u32 i = 0; i < payload + kPage; i++)
				ASSERT_EQ(c.call_byte(i), FakeServerPort::client[33 + i]);
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
	c.expect_error(9, v1::ErrorCode::chunk);
	EXPECT_FALSE(c.server->replied.load());
	for (u32 i = 0; i < 2; i++) {
		CallMaker call(i);

		make_write(call, 100);
		ASSERT_TRUE(c.send(call));
	}
	EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), 1);
	c.work();
	EXPECT_EQ(c.receive(), 160);
	EXPECT_FALSE(c.server->replied.load());
	EXPECT_EQ(c.reply(20), 0);
	EXPECT_TRUE(c.server->replied.load());
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
}

/* The module's cap, by its parameter and by default; and a connection's share of it. */
RPCORDMA_TEST(server_read, budget)
{
	/* What each takes: it is memory that counts, not what the peer says that it sends. */
	constexpr u32 kOne = pinned(1000);
	static constexpr struct {
		u32 parameter, threads, others, users, eager;
	} budgets[] = {
		/* 1000 bytes are asked for, then 1000 again. */
		{0, 8, 0, 0, 2},
		{kOne - 1, 8, 0, 0, 0},
		{kOne, 8, 0, 0, 1},
		{2 * kOne - 1, 8, 0, 0, 1},
		{2 * kOne, 8, 0, 0, 2},
		{2 * kOne, 8, 1, 0, 1},
		{2 * kOne, 8, kOne, 0, 1},
		{2 * kOne, 8, kOne + 1, 0, 0},
		/* Four connections, of which three have some already. */
		{8 * kOne, 8, 0, 3, 2},
		{8 * kOne - 1, 8, 0, 3, 1},
		/* No thread, nothing. */
		{0, 0, 0, 0, 0},
	};

	for (const auto &b : budgets) {
		TEST_NOTE("cap", b.parameter);
		TEST_NOTE("others' bytes", b.others);
		TEST_NOTE("other connections", b.users);
		Connected c;

		rpcordma_server_tunables.eager_read_bytes = b.parameter;
		FakeServerPort::limits.threads = b.threads;
		c.server->replied.store(true);
		server_pool.eager_bytes.fetch_add(b.others);
		server_pool.eager_users.fetch_add(b.users);
		for (u32 i = 0; i < 2; i++) {
			CallMaker call(i);

			make_write(call, 1000);
			ASSERT_TRUE(c.send(call));
		}
		EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), b.eager);
		EXPECT_EQ(server_pool.eager_bytes.load(), b.others + kOne * b.eager);
		EXPECT_EQ(server_pool.eager_users.load(), b.users + (b.eager > 0));
		server_pool.eager_bytes.fetch_sub(b.others);
		server_pool.eager_users.fetch_sub(b.users);
		/* The end of the connection gives the rest back as well. */
		c.end();
	}
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
	EXPECT_EQ(FakeServerPort::sends, 1);
	EXPECT_EQ(server_pool.eager_bytes.load(), 0);
	c.release();
	/* The device makes room while the thread waits. */
	EXPECT_EQ(c.receive(), 0);
	EXPECT_EQ(FakeServerPort::waits, 1);
	EXPECT_EQ(counter(RPCORDMA_SERVER_SQ_STARVE), 1);
	c.work();
	EXPECT_EQ(c.receive(), 160);
	expect_write(c, 100);
	c.release();
}

/* The send queue stays full: the thread does not wait for ever, and the call comes to nothing. */
RPCORDMA_TEST(server_read, stalled)
{
	Connected c;
	CallMaker call(1);

	const NoRoom others(c);
	make_write(call, 100);
	ASSERT_TRUE(c.send(call));
	EXPECT_TRUE(FakeServerPort::data);
	FakeServerPort::stalls = 1;
	EXPECT_EQ(c.receive(), 0);
	EXPECT_EQ(FakeServerPort::closed, 1);
	EXPECT_EQ(FakeServerPort::sends, 0);
	EXPECT_EQ(FakeServerPort::bulk_maps, 0);
	EXPECT_EQ(c.server->in_service, 0);
	EXPECT_EQ(c.server->waiters.load(), 0);
}

/* --- failures --- */

/* The completion allocates nothing: it takes what is there. */
RPCORDMA_TEST(server_read, without_allocations)
{
	Connected c;
	CallMaker call(1);

	FakePort::allocations_left = FakeServerPort::bulks_left = 0;
	make_write(call, 40 * kPage);
	ASSERT_TRUE(c.send(call));
	EXPECT_FALSE(FakeServerPort::data);
	EXPECT_EQ(FakeServerPort::sends, 2);
	FakePort::allocations_left = FakeServerPort::bulks_left = FakePort::kNoLimit;
}

/* Whatever of memory is missing, the call is held; for a thread, the connection ends. Nothing leaks. */
RPCORDMA_TEST(server_read, no_memory)
{
	for (u32 what = 0; what < 3; what++)
		for (const bool thread_too : {false, true}) {
			TEST_NOTE("what", what);
			TEST_NOTE("thread too", thread_too);
			Connected c;
			CallMaker call(1);
			u32 &left = what == 0 ? FakePort::allocations_left :
				    what == 1 ? FakeServerPort::bulks_left :
						FakeServerPort::bulk_maps_left;
			const NoTransfers others;

			left = 0;
			make_write(call, 1000);
			ASSERT_TRUE(c.send(call));
			EXPECT_TRUE(FakeServerPort::data);
			EXPECT_EQ(FakeServerPort::sends, 0);
			EXPECT_EQ(server_pool.eager_bytes.load(), 0);
			if (!thread_too)
				left = FakePort::kNoLimit;
			EXPECT_EQ(c.receive(), 0);
			EXPECT_EQ(FakeServerPort::sends, thread_too ? 0 : 1);
			EXPECT_EQ(FakeServerPort::closed, thread_too ? 1 : 0);
			EXPECT_EQ(c.server->in_service, thread_too ? 0 : 1);
			left = FakePort::kNoLimit;
		}
}

namespace {

/* @posted work requests can be posted of a chain of @requests, by completion or thread. */
void expect_post_fails(Served &c, bool eager, u32 requests, u32 posted)
{
	CallMaker before(1), call(2);

	/* One before, which leaves nothing, but a region where those are needed. */
	{
		const NoSinks none;

		make_write(before, kPage);
		ASSERT_TRUE(c.send(before));
		EXPECT_EQ(c.receive(), 0);
	}
	const u32 counted = counter(RPCORDMA_SERVER_READ);
	EXPECT_GT(counted, 0);
	c.work();
	ASSERT_EQ(c.receive(), int(60 + kPage));
	ASSERT_EQ(c.reply(20), 0);
	c.work();
	EXPECT_EQ(c.server->in_service, 0);

	make_write(call, 40 * kPage);
	if (eager) {
		FakeServerPort::sends_left = posted;
		ASSERT_TRUE(c.send(call));
	} else {
		const NoSinks none;

		ASSERT_TRUE(c.send(call));
		FakeServerPort::sends_left = posted;
		EXPECT_EQ(c.receive(), 0);
	}
	EXPECT_EQ(FakeServerPort::closed, 1);
	EXPECT_EQ(FakeServerPort::sends, posted);
	/* What the device has a part of stays as it is. */
	EXPECT_EQ(FakeServerPort::partly_posted.requests, posted ? requests : 0);
	EXPECT_EQ(FakeServerPort::bulk_maps + FakeServerPort::region_maps, posted ? 1 : 0);
	EXPECT_EQ(c.server->in_service, posted ? 1 : 0);
	EXPECT_EQ(c.server->room.load(), c.server->queue_size - (posted ? requests : 0));
	EXPECT_EQ(counter(RPCORDMA_SERVER_READ), counted);
	EXPECT_FALSE(FakeServerPort::data);
}

} // namespace

/* None or some of a chain can be posted: the connection ends, nothing leaks. */
RPCORDMA_TEST(server_read, post_fails)
{
	for (const bool eager : {true, false}) {
		TEST_NOTE("eager", eager);
		for (u32 posted = 0; posted < 2; posted++) {
			TEST_NOTE("posted", posted);
			Connected c;

			/* Two Reads. */
			expect_post_fails(c, eager, 2, posted);
		}
		for (u32 posted = 0; posted < 3; posted++) {
			TEST_NOTE("posted, with a region", posted);
			Iwarp c;

			/* What registers the sink, the Read, and what invalidates. */
			expect_post_fails(c, eager, 3, posted);
		}
	}
}

/* The connection ends while a call is held. */
RPCORDMA_TEST(server_read, closing)
{
	Connected c;
	const NoSinks none;
	CallMaker call(1);

	make_write(call, 100);
	ASSERT_TRUE(c.send(call));
	rpcordma_core_server_detach(c.server);
	EXPECT_EQ(c.receive(), 0);
	EXPECT_EQ(FakeServerPort::sends, 0);
	EXPECT_EQ(FakeServerPort::bulk_maps, 0);
}

/*
 * A chunk that the client's device refuses breaks the connection; the same call over the next one, with
 * whatever credits, is refused. A call that was flushed, or another client's memory, is not to blame.
 */
RPCORDMA_TEST(server_read, remote_access)
{
	for (u32 failing = 0; failing < 2; failing++) {
		TEST_NOTE("failing work request", failing);
		Connected c;
		CallMaker bad(1), other(2), again(1, 5);

		make_write(bad, 40 * kPage);
		make_write(other, 100);
		make_write(again, 40 * kPage);
		c.server->replied.store(true);
		ASSERT_TRUE(c.send(bad));
		ASSERT_TRUE(c.send(other));
		FakeServerPort::fail_at = failing;
		FakeServerPort::fail_status = RPCORDMA_WC_REMOTE_ACCESS;
		c.work();
		EXPECT_EQ(FakeServerPort::closed, 1);
		EXPECT_FALSE(FakeServerPort::data);
		EXPECT_EQ(FakeServerPort::bulk_maps, 0);
		EXPECT_EQ(c.server->in_service, 0);
		c.end();

		c.connect();
		ASSERT_TRUE(c.send(again));
		EXPECT_EQ(FakeServerPort::sends, 0);
		EXPECT_EQ(c.receive(), 0);
		c.work();
		c.expect_error(1, v1::ErrorCode::chunk);
		/* The other one was flushed. */
		ASSERT_TRUE(c.send(other));
		c.work();
		EXPECT_EQ(c.receive(), 160);
		c.release();
		/* It is not held against it for ever. */
		FakeServerPort::now += Failures::kLifetimeMs;
		ASSERT_TRUE(c.send(bad));
		EXPECT_EQ(FakeServerPort::sends, 2);
		FakeServerPort::closed = 0;
	}
}

/* Any other failure says nothing of chunks. */
RPCORDMA_TEST(server_read, other_failures)
{
	for (const int status : {int(RPCORDMA_WC_FLUSHED), 12, 1}) {
		TEST_NOTE("status", status);
		Connected c;
		CallMaker call(1);

		make_write(call, 100);
		ASSERT_TRUE(c.send(call));
		FakeServerPort::fail_at = 0;
		FakeServerPort::fail_status = status;
		c.work();
		EXPECT_EQ(FakeServerPort::closed, 1);
		c.end();
		c.connect();
		ASSERT_TRUE(c.send(call));
		c.work();
		EXPECT_EQ(c.receive(), 160);
		c.release();
	}
}

/* --- sinks that are registered (iWARP) --- */

namespace {

/* The client's memory, from its start. */
void expect_bytes(const Iwarp &c, u32 size)
{
	for (u32 i = 0; i < size; i++)
		ASSERT_EQ(c.rqst->pages[i / kPage]->data[i % kPage], FakeServerPort::client[i]);
}

} // namespace

/* Regions are made by the first call that finds none, invalidated with its Reads, and used again. */
RPCORDMA_TEST(server_read, registered)
{
	Iwarp c;

	for (u32 i = 0; i < 4; i++) {
		TEST_NOTE("call", i);
		CallMaker call(i);

		make_write(call, 1000);
		ASSERT_TRUE(c.send(call));
		if (i == 0) {
			/* None there yet, and a completion makes none. */
			EXPECT_EQ(FakeServerPort::sends, 0);
			EXPECT_EQ(c.receive(), 0);
		}
		/* What registers its sink, the Read, and what invalidates the sink. */
		EXPECT_EQ(FakeServerPort::sends, 3);
		/* It is not the thread's before the peer cannot reach it any more. */
		EXPECT_EQ(FakeServerPort::work(2), 2);
		EXPECT_EQ(FakeServerPort::reads, i + 1);
		EXPECT_FALSE(FakeServerPort::data);
		EXPECT_EQ(FakeServerPort::work(), 1);
		EXPECT_EQ(FakeServerPort::local_invalidations, i + 1);
		EXPECT_TRUE(FakeServerPort::data);
		EXPECT_FALSE(FakeServerPort::broken);
		EXPECT_EQ(c.receive(), 1060);
		expect_bytes(c, 1000);
		c.release();
		EXPECT_EQ(FakeServerPort::regions, 1);
	}
	EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), 3);
	EXPECT_EQ(c.server->room.load(), c.server->queue_size);
}

/* A chain that was built and never posted leaves no wrong key behind. */
RPCORDMA_TEST(server_read, registered_not_posted)
{
	Iwarp c;

	for (u32 i = 0; i < 3; i++) {
		TEST_NOTE("call", i);
		CallMaker call(i);

		make_write(call, 1000);
		const u32 room = c.server->room.exchange(1);
		ASSERT_TRUE(c.send(call));
		EXPECT_EQ(FakeServerPort::sends, 0);
		c.server->room.store(room);
		EXPECT_EQ(c.receive(), 0);
		FakeServerPort::work();
		ASSERT_FALSE(FakeServerPort::broken);
		EXPECT_EQ(c.receive(), 1060);
		expect_bytes(c, 1000);
		c.release();
	}
}

/* The largest call takes a region or two, however few SGEs its Reads have; it must be possible. */
RPCORDMA_TEST(server_read, registered_largest)
{
	for (const u32 region_pages : {130u, 255u, 256u})
		for (const u32 segments : {1u, 2u, 4u}) {
			TEST_NOTE("pages of a region", region_pages);
			TEST_NOTE("segments", segments);
			Iwarp c(region_pages);
			CallMaker call(1);
			constexpr u32 size = 256 * kPage;
			const u32 regions = region_pages < 256 ? 2 : 1;

			EXPECT_EQ(c.server->read_sges, 1);
			for (u32 i = 0; i < segments; i++)
				call.read(40, size / segments, i * (size / segments));
			call.finish(60);
			ASSERT_TRUE(c.send(call));
			EXPECT_EQ(c.receive(), 0);
			EXPECT_LE(FakeServerPort::sends, segments + 3 * regions - 1);
			FakeServerPort::work();
			EXPECT_EQ(FakeServerPort::messages, 0);
			EXPECT_EQ(c.receive(), int(60 + size));
			expect_bytes(c, size);
			EXPECT_EQ(FakeServerPort::regions, regions);
			EXPECT_EQ(FakeServerPort::local_invalidations, regions);
			c.release();
			EXPECT_EQ(c.server->room.load(), c.server->queue_size);
		}
}

/* A Read that fails: what was registered goes with the queue pair, and all is given back. */
RPCORDMA_TEST(server_read, registered_read_fails)
{
	for (u32 failing = 0; failing < 3; failing++) {
		TEST_NOTE("failing work request", failing);
		Iwarp c;
		CallMaker call(1);

		make_write(call, 1000);
		ASSERT_TRUE(c.send(call));
		EXPECT_EQ(c.receive(), 0);
		FakeServerPort::fail_at = failing;
		FakeServerPort::fail_status = RPCORDMA_WC_REMOTE_ACCESS;
		FakeServerPort::work();
		EXPECT_EQ(FakeServerPort::closed, 1);
		EXPECT_FALSE(FakeServerPort::data);
		EXPECT_EQ(c.server->in_service, 0);
		EXPECT_EQ(c.server->room.load(), c.server->queue_size);
	}
}

/* Without a region, or a mapping, the connection ends, and all is given back. */
RPCORDMA_TEST(server_read, registered_no_memory)
{
	for (u32 what = 0; what < 3; what++)
		for (u32 n = 0; n < 2; n++) {
			TEST_NOTE("what", what);
			TEST_NOTE("that go well", n);
			Iwarp c;
			CallMaker call(1);

			FakeServerPort::device.max_fast_reg_pages = 130;
			c.server->region_pages = 2;
			make_write(call, 3 * kPage);
			ASSERT_TRUE(c.send(call));
			EXPECT_EQ(FakeServerPort::sends, 0);
			if (what == 0)
				FakeServerPort::regions_left = n;
			else if (what == 1)
				FakeServerPort::region_maps_left = n;
			else
				FakePort::allocations_left = n;
			EXPECT_EQ(c.receive(), 0);
			EXPECT_EQ(FakeServerPort::closed, 1);
			EXPECT_EQ(FakeServerPort::sends, 0);
			FakePort::allocations_left = FakePort::kNoLimit;
		}
}

RPCORDMA_SUITE(server_read, eager, held, in_order, behind_waiters, linear, short_position_zero,
	       largest_payload, stranger, budget, no_room, stalled, without_allocations, no_memory,
	       post_fails, closing, remote_access, other_failures, registered, registered_not_posted,
	       registered_largest, registered_read_fails, registered_no_memory);

} // namespace rpcordma
