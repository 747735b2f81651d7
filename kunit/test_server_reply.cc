// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replies and backward calls: module/server/reply.cc, backward.cc. What is written where, what goes with
 * the Send, what the client learns when a reply fits nowhere, and what is left when something fails.
 */
#include "kunit/test_server_connection.hh"
#include "kunit/testing.hh"

namespace rpcordma {
namespace {

constexpr u32 kPage = FakeServerPort::kPageSize;
/* Where in the client's memory chunks are. */
constexpr u32 kWrite = 10000, kReply = 50000;

u32 counter(rpcordma_server_counter which)
{
	return FakeServerPort::counters[which];
}

/* A call that the thread has, with a Write chunk and a Reply chunk of these sizes; 0: without. */
void have_call(Connected &c, u32 write, u32 reply, bool ddp = true)
{
	CallMaker call(1);

	if (write)
		call.write(write, kWrite);
	if (reply)
		call.reply(reply, kReply);
	call.finish(40);
	ASSERT_TRUE(c.send(call));
	ASSERT_EQ(c.receive(), 40);
	c.rqst->ddp_allowed = ddp;
}

/* The client's memory from @at on has bytes [@first, @first + @length) of the reply. */
void expect_written(u32 at, u32 first, u32 length)
{
	for (u32 i = 0; i < length; i++) {
		TEST_NOTE("byte", i);
		ASSERT_EQ(FakeServerPort::client[at + i], pattern(first + i));
	}
}

} // namespace

/* A READ: data to the Write chunk, the rest inline, in one post; pages are the device's until then. */
RPCORDMA_TEST(server_reply, write_chunk)
{
	for (u32 size : {1u, 100u, kPage, 3 * kPage + 17}) {
		TEST_NOTE("size", size);
		Connected c(true);
		const u32 doorbells = FakeServerPort::send_doorbells;

		have_call(c, 4 * kPage, 0);
		EXPECT_EQ(rpcordma_core_server_result_payload(c.rqst->call, 60, size), 0);
		ASSERT_EQ(c.send_reply_pages(60, size, xdr_pad(size) + 8), 0);
		EXPECT_EQ(FakeServerPort::send_doorbells, doorbells + 1);
		EXPECT_EQ(FakeServerPort::sends, 2);
		c.release();
		/* The thread's pages are no more its own. */
		EXPECT_EQ(c.rqst->pages[0], nullptr);
		EXPECT_EQ(FakeServerPort::bulk_maps, 1);
		EXPECT_EQ(c.server->in_service, 1);
		c.work();
		EXPECT_EQ(FakeServerPort::bulk_maps, 0);
		EXPECT_EQ(c.server->in_service, 0);
		expect_written(kWrite, 60, size);
		const auto header = c.got();
		ASSERT_OK(header);
		EXPECT_EQ(header.value().writes.count(), 1);
		EXPECT_EQ(header.value().writes.total_length(), size);
		EXPECT_EQ(header.value()
				  .payload({FakeServerPort::message, FakeServerPort::message_length})
				  .size(),
			  68);
		EXPECT_EQ(FakeServerPort::invalidated, FakeServerPort::kClientKey);
		EXPECT_EQ(counter(RPCORDMA_SERVER_WRITE), 1);
		EXPECT_EQ(c.server->room.load(), c.server->queue_size);
	}
}

/* A result that is announced from its length on, as nfsd does with an NFSv4 READLINK's text. */
RPCORDMA_TEST(server_reply, early_result)
{
	/* What stands where the length of a result belongs, and what behind that: is it moved? */
	const struct {
		u32 before, at, begins;
	} cases[] = {{0, 100, 64}, {100, 100, 60}, {100, 7, 60}, {0, 99, 60}};

	for (const auto &one : cases) {
		TEST_NOTE("before", one.before);
		TEST_NOTE("at", one.at);
		Connected c(true);

		have_call(c, kPage, 0);
		(void)rpcordma_core_server_result_payload(c.rqst->call, 60, 100);
		xdr::store_be32(c.reply_bytes + 56, one.before);
		xdr::store_be32(c.reply_bytes + 60, one.at);
		ASSERT_EQ(c.send_reply(200), 0);
		c.release();
		c.work();
		const auto header = c.got();
		ASSERT_OK(header);
		EXPECT_EQ(header.value().writes.total_length(), 100);
		for (u32 i = 0; i < 100; i++) {
			TEST_NOTE("byte", i);
			ASSERT_EQ(FakeServerPort::client[kWrite + i], c.reply_bytes[one.begins + i]);
		}
	}
	/* At the very ends of a reply. */
	for (const u32 offset : {0u, 2u, 198u, 200u, 4000000000u}) {
		TEST_NOTE("offset", offset);
		Connected c(true);

		have_call(c, kPage, 0);
		(void)rpcordma_core_server_result_payload(c.rqst->call, offset, 100);
		ASSERT_EQ(c.send_reply(200), 0);
		c.release();
		c.work();
		ASSERT_OK(c.got());
	}
}

/* Writes have as many SGEs as the device takes. */
RPCORDMA_TEST(server_reply, long_write)
{
	Connected c;

	have_call(c, 60 * kPage, 0);
	(void)rpcordma_core_server_result_payload(c.rqst->call, 60, 60 * kPage);
	ASSERT_EQ(c.send_reply_pages(60, 60 * kPage, 8), 0);
	EXPECT_EQ(FakeServerPort::sends, 3);
	c.release();
	c.work();
	expect_written(kWrite, 60, 60 * kPage);
}

/* What does not fit inline goes to the Reply chunk, the results beside it to theirs. */
RPCORDMA_TEST(server_reply, reply_chunk)
{
	for (const bool ddp : {true, false}) {
		TEST_NOTE("ddp", ddp);
		Connected c;

		have_call(c, 4 * kPage, 20 * kPage, ddp);
		(void)rpcordma_core_server_result_payload(c.rqst->call, 60, 700);
		ASSERT_EQ(c.send_reply_pages(60, 700, 2000), 0);
		c.release();
		c.work();
		const auto header = c.got();
		ASSERT_OK(header);
		EXPECT_EQ(header.value().proc, v1::Proc::nomsg);
		EXPECT_EQ(header.value().reply.length(), ddp ? 2060 : 2760);
		EXPECT_EQ(header.value().writes.count(), 1);
		EXPECT_EQ(header.value().writes.total_length(), ddp ? 700 : 0);
		expect_written(kReply, 0, 60);
		if (ddp) {
			expect_written(kWrite, 60, 700);
			expect_written(kReply + 60, 760, 2000);
		} else {
			expect_written(kReply + 60, 60, 2700);
		}
		EXPECT_EQ(FakeServerPort::message_length, header.value().header_length);
	}
}

/* Chunks that are not needed come back, empty; the pages stay the thread's. */
RPCORDMA_TEST(server_reply, unused_chunks)
{
	Connected c;

	have_call(c, 1000, 1000);
	ASSERT_EQ(c.send_reply(100), 0);
	EXPECT_EQ(FakeServerPort::sends, 1);
	c.release();
	c.work();
	c.expect_reply(1, 100);
	const auto header = c.got();
	EXPECT_EQ(header.value().writes.count(), 1);
	EXPECT_EQ(header.value().writes.segments(), 1);
	EXPECT_EQ(header.value().writes.total_length(), 0);
	EXPECT_TRUE(header.value().reply.present());
	EXPECT_EQ(header.value().reply.length(), 0);
	EXPECT_EQ(counter(RPCORDMA_SERVER_WRITE), 0);
}

/*
 * RFC 8166 6.1, RFC 8267 4: what the service does not announce as a result that may be placed stays where it
 * is, in pages (a READDIR's) or not; the Write chunk comes back empty, and nothing was written to it.
 */
RPCORDMA_TEST(server_reply, unannounced)
{
	for (const u32 pages : {0u, 300u}) {
		TEST_NOTE("bytes in pages", pages);
		Connected c;

		__builtin_memset(FakeServerPort::client, 0xee, FakeServerPort::kClientBytes);
		have_call(c, 1000, 0);
		if (pages)
			ASSERT_EQ(c.send_reply_pages(60, pages, 8), 0);
		else
			ASSERT_EQ(c.send_reply(60 + pages + 8), 0);
		c.release();
		c.work();
		c.expect_reply(1, 60 + pages + 8);
		const auto header = c.got();
		ASSERT_OK(header);
		EXPECT_EQ(header.value().writes.segments(), 1);
		EXPECT_EQ(header.value().writes.total_length(), 0);
		EXPECT_EQ(counter(RPCORDMA_SERVER_WRITE), 0);
		for (u32 i = 0; i < FakeServerPort::kClientBytes; i++)
			ASSERT_EQ(FakeServerPort::client[i], 0xee);
	}
}

/* More results than are remembered are inline ones. */
RPCORDMA_TEST(server_reply, many_results)
{
	Connected c;

	have_call(c, 100, 0);
	for (u32 i = 0; i < chunk::Answer::kResults + 3; i++)
		EXPECT_EQ(rpcordma_core_server_result_payload(c.rqst->call, 40 + 8 * i, 8), 0);
	EXPECT_EQ(c.rqst->call->result_count, chunk::Answer::kResults);
	ASSERT_EQ(c.reply(300), 0);
	c.work();
	expect_written(kWrite, 40, 8);
	/* They are this call's, not those of the next one in the same memory. */
	for (u32 i = 0; i < 20; i++) {
		ASSERT_TRUE(c.send_inline(2));
		ASSERT_EQ(c.receive(), 40);
		ASSERT_EQ(c.rqst->call->result_count, 0);
		ASSERT_EQ(c.reply(20), 0);
		c.work();
		c.expect_reply(2, 20);
	}
}

/* An R_key goes with the reply if the client can bear it, and if there is one. */
RPCORDMA_TEST(server_reply, invalidation)
{
	for (const bool able : {false, true})
		for (const bool chunk : {false, true}) {
			TEST_NOTE("able", able);
			TEST_NOTE("chunk", chunk);
			Connected c(able);

			have_call(c, chunk ? 100 : 0, 0);
			ASSERT_EQ(c.reply(20), 0);
			c.work();
			EXPECT_EQ(FakeServerPort::invalidated,
				  able && chunk ? FakeServerPort::kClientKey : 0);
			/* The next one that uses the same call has nothing of it. */
			for (u32 i = 0; i < 20; i++) {
				ASSERT_TRUE(c.send_inline(2));
				ASSERT_EQ(c.receive(), 40);
				ASSERT_EQ(c.reply(20), 0);
				c.work();
				ASSERT_EQ(FakeServerPort::invalidated, 0);
			}
		}
}

/* A reply that fits nowhere is refused, without invalidation; the connection stays. */
RPCORDMA_TEST(server_reply, fits_nowhere)
{
	static constexpr struct {
		u32 write, reply, size, inline_size;
	} replies[] = {
		{0, 0, 0, 997},	    /* not inline */
		{0, 900, 0, 1000},  /* nor in the Reply chunk */
		{99, 900, 100, 60}, /* the result not in its Write chunk */
	};

	for (const auto &r : replies) {
		TEST_NOTE("size", r.inline_size);
		Connected c(true);

		have_call(c, r.write, r.reply);
		if (r.size)
			(void)rpcordma_core_server_result_payload(c.rqst->call, 20, r.size);
		EXPECT_EQ(r.size ? c.send_reply_pages(20, r.size, r.inline_size - 20) :
				   c.send_reply(r.inline_size),
			  0);
		c.release();
		c.work();
		c.expect_error(1, v1::ErrorCode::chunk);
		EXPECT_EQ(FakeServerPort::writes, 0);
		EXPECT_EQ(FakeServerPort::closed, 0);
		EXPECT_EQ(counter(RPCORDMA_SERVER_ERR_CHUNK), 1);
		ASSERT_TRUE(c.send_inline(2));
		ASSERT_EQ(c.receive(), 40);
		ASSERT_EQ(c.reply(20), 0);
		c.work();
		c.expect_reply(2, 20);
	}
}

RPCORDMA_TEST(server_reply, largest_inline)
{
	Connected c;

	have_call(c, 0, 0);
	ASSERT_EQ(c.reply(1024 - 28), 0);
	c.work();
	c.expect_reply(1, 1024 - 28);
}

/* A READ of the largest payload that is announced, in as many pages as it can be: it starts within one. */
RPCORDMA_TEST(server_reply, largest_payload)
{
	const u32 payload = rpcordma_core_server_max_payload(kPage);

	for (const bool ddp : {true, false}) {
		TEST_NOTE("ddp", ddp);
		Connected c;
		rpcordma_xdr_buf &buf = c.rqst->reply;

		have_call(c, ddp ? payload : 0, ddp ? 0 : payload + 68, ddp);
		if (ddp)
			(void)rpcordma_core_server_result_payload(c.rqst->call, 60, payload);
		/* The head's page, the payload's and the tail's. */
		c.rqst->reply_pages = payload / kPage + 3;
		ASSERT_LE(c.rqst->reply_pages, svc_rqst::kPages);
		for (u32 i = 0; i < c.rqst->reply_pages; i++)
			if (!c.rqst->pages[i])
				c.rqst->pages[i] = FakeServerPort::new_page();
		buf = {};
		buf.head = {c.reply_bytes, 60};
		buf.pages = c.rqst->pages + 1;
		buf.page_base = kPage - 3;
		buf.page_length = payload;
		buf.tail = {c.reply_bytes + 60 + payload, 8};
		buf.len = payload + 68;
		for (u32 i = 0; i < payload; i++) {
			const u32 at = buf.page_base + i;

			buf.pages[at / kPage]->data[at % kPage] = pattern(60 + i);
		}
		ASSERT_EQ(rpcordma_core_server_sendto(c.server, c.rqst, c.rqst->call), 0);
		c.release();
		c.work();
		const auto header = c.got();
		ASSERT_OK(header);
		ASSERT_EQ(header.value().proc, ddp ? v1::Proc::msg : v1::Proc::nomsg);
		if (ddp)
			expect_written(kWrite, 60, payload);
		else
			expect_written(kReply, 0, payload + 68);
		EXPECT_EQ(c.server->room.load(), c.server->queue_size);
	}
}

/* A reply in more pieces than can be described, or of more Writes than the queue holds, as well. */
RPCORDMA_TEST(server_reply, too_many_pieces)
{
	{
		Connected c;
		have_call(c, 100000, 0);
		constexpr u32 pages = Transfer::kPieces + 2;
		static_assert(pages + 8 <= svc_rqst::kPages);
		(void)rpcordma_core_server_result_payload(c.rqst->call, 20, pages * kPage);
		for (u32 i = 0; i < pages + 8; i++)
			if (!c.rqst->pages[i])
				c.rqst->pages[i] = FakeServerPort::new_page();
		EXPECT_EQ(c.send_reply_pages(20, pages * kPage, 8), 0);
		c.release();
		c.work();
		c.expect_error(1, v1::ErrorCode::chunk);
		EXPECT_EQ(FakeServerPort::writes, 0);
		EXPECT_EQ(FakeServerPort::bulk_maps, 0);
	}
	{
		Connected c;
		have_call(c, 10000, 0);
		const u32 queue_size = c.server->queue_size;
		c.server->queue_size = 2;
		(void)rpcordma_core_server_result_payload(c.rqst->call, 20, 33 * kPage);
		EXPECT_EQ(c.send_reply_pages(20, 33 * kPage, 8), 0);
		c.release();
		c.work();
		c.expect_error(1, v1::ErrorCode::chunk);
		c.server->queue_size = queue_size;
	}
}

/* A reply that cannot be built for want of memory ends the connection: the client asks again. */
RPCORDMA_TEST(server_reply, no_memory)
{
	for (u32 what = 0; what < 4; what++) {
		TEST_NOTE("what", what);
		Connected c;
		u32 &left = what == 0 ? FakePort::allocations_left :
			    what == 1 ? FakePort::mappings_left :
			    what == 2 ? FakeServerPort::bulks_left :
					FakeServerPort::bulk_maps_left;

		const NoTransfers others;

		have_call(c, 1000, 0);
		(void)rpcordma_core_server_result_payload(c.rqst->call, 20, 1000);
		left = 0;
		EXPECT_EQ(c.send_reply_pages(20, 1000, 8), to_errno(Error::not_connected));
		left = FakePort::kNoLimit;
		EXPECT_EQ(FakeServerPort::closed, 1);
		EXPECT_EQ(FakeServerPort::sends, 0);
		EXPECT_EQ(FakeServerPort::bulk_maps, 0);
		c.release();
		EXPECT_EQ(c.server->in_service, 0);
		EXPECT_EQ(c.server->room.load(), c.server->queue_size);
	}
	/* Nor can an error message be. */
	Connected c;
	CallMaker bad(1);
	bad.finish(4);
	ASSERT_TRUE(c.send(bad));
	FakePort::allocations_left = 0;
	EXPECT_EQ(c.receive(), 0);
	FakePort::allocations_left = FakePort::kNoLimit;
	EXPECT_EQ(FakeServerPort::closed, 1);
	EXPECT_EQ(c.server->in_service, 0);
}

/* None or some of the chain can be posted. */
RPCORDMA_TEST(server_reply, post_fails)
{
	for (u32 posted = 0; posted < 2; posted++) {
		TEST_NOTE("posted", posted);
		Connected c;

		/* One before, which leaves nothing. */
		have_call(c, 1000, 0);
		(void)rpcordma_core_server_result_payload(c.rqst->call, 20, 1000);
		ASSERT_EQ(c.send_reply_pages(20, 1000, 8), 0);
		c.release();
		c.work();
		EXPECT_EQ(c.server->in_service, 0);
		c.server->replied.store(false);
		const u32 writes = counter(RPCORDMA_SERVER_WRITE);

		have_call(c, 1000, 0);
		(void)rpcordma_core_server_result_payload(c.rqst->call, 20, 1000);
		FakeServerPort::sends_left = posted;
		EXPECT_EQ(c.send_reply_pages(20, 1000, 8), to_errno(Error::not_connected));
		EXPECT_EQ(FakeServerPort::closed, 1);
		EXPECT_FALSE(c.server->replied.load());
		c.release();
		/* What the device has a part of stays until the drain, pages and all. */
		EXPECT_EQ(FakeServerPort::bulk_maps, posted);
		EXPECT_EQ(c.server->in_service, posted);
		/* A Write and the Send. */
		EXPECT_EQ(c.server->room.load(), c.server->queue_size - (posted ? 2 : 0));
		EXPECT_EQ(counter(RPCORDMA_SERVER_WRITE), writes);
	}
}

/* A Write that the client's device refuses: as a Read. */
RPCORDMA_TEST(server_reply, remote_access)
{
	Connected c;

	have_call(c, 1000, 0);
	(void)rpcordma_core_server_result_payload(c.rqst->call, 20, 1000);
	ASSERT_EQ(c.send_reply_pages(20, 1000, 8), 0);
	FakeServerPort::fail_at = 0;
	FakeServerPort::fail_status = RPCORDMA_WC_REMOTE_ACCESS;
	c.work();
	EXPECT_EQ(FakeServerPort::closed, 1);
	EXPECT_EQ(FakeServerPort::bulk_maps, 0);
	c.release();
	EXPECT_EQ(c.server->in_service, 0);
	c.end();
	c.connect();
	CallMaker again(1);
	again.write(1000, kWrite);
	again.finish(40);
	ASSERT_TRUE(c.send(again));
	EXPECT_EQ(c.receive(), 0);
	c.work();
	c.expect_error(1, v1::ErrorCode::chunk);
	/* A call without chunks is not looked up. */
	ASSERT_TRUE(c.send_inline(1));
	EXPECT_EQ(c.receive(), 40);
	c.release();
}

/* Room for a reply is waited for; when the connection ends meanwhile, that is the end of it. */
RPCORDMA_TEST(server_reply, room)
{
	Connected c;

	EXPECT_TRUE(rpcordma_core_server_has_space(c.server));
	ASSERT_TRUE(c.send_inline(1));
	ASSERT_EQ(c.receive(), 40);
	ASSERT_EQ(c.reply(20), 0);
	have_call(c, 0, 0);
	const NoRoom others(c);
	const u32 enqueued = FakeServerPort::enqueued;
	ASSERT_EQ(c.reply(20), 0);
	EXPECT_EQ(FakeServerPort::waits, 1);
	/* Threads that were held back have a look. */
	EXPECT_EQ(FakeServerPort::enqueued, enqueued + 1);
	EXPECT_TRUE(rpcordma_core_server_has_space(c.server));
	c.server->waiters.store(1);
	EXPECT_FALSE(rpcordma_core_server_has_space(c.server));
	c.server->waiters.store(0);

	/* The next one is flushed: whoever waits goes on, to no avail. */
	have_call(c, 0, 0);
	FakeServerPort::fail_at = 0;
	FakeServerPort::fail_status = 12;
	EXPECT_EQ(c.reply(20), to_errno(Error::not_connected));
	EXPECT_EQ(FakeServerPort::closed, 1);
	EXPECT_EQ(c.server->in_service, 0);

	/* And with that no reply is built any more. */
	EXPECT_EQ(c.server->send_backward(1, &c.rqst->reply), to_errno(Error::not_connected));
}

/*
 * A client takes one thing off our hands, and then nothing more: whoever waits does so for half a minute
 * from there on, and the connection ends.
 */
RPCORDMA_TEST(server_reply, stalled)
{
	Connected c;

	ASSERT_TRUE(c.send_inline(2));
	ASSERT_EQ(c.receive(), 40);
	ASSERT_EQ(c.reply(20), 0);
	have_call(c, 1000, 0);
	(void)rpcordma_core_server_result_payload(c.rqst->call, 20, 100);
	const NoRoom others(c);
	FakeServerPort::stalls = 1;
	const u64 before = FakeServerPort::now;
	/* A Write and a Send, with room for one of them. */
	EXPECT_EQ(c.send_reply_pages(20, 100, 8), to_errno(Error::not_connected));
	EXPECT_EQ(FakeServerPort::waits, 2);
	EXPECT_EQ(FakeServerPort::now - before, 30000);
	EXPECT_EQ(FakeServerPort::messages, 1);
	EXPECT_EQ(FakeServerPort::sends, 0);
	EXPECT_EQ(FakeServerPort::closed, 1);
	EXPECT_EQ(FakeServerPort::bulk_maps, 0);
	EXPECT_EQ(c.server->waiters.load(), 0);
	c.release();
	EXPECT_EQ(c.server->in_service, 0);
	/* The next one does not wait at all. */
	EXPECT_FALSE(c.server->wait_for_room(1));
	EXPECT_EQ(FakeServerPort::waits, 2);
}

/* The connection ends, and nothing more completes: whoever waits hears of it. */
RPCORDMA_TEST(server_reply, room_never)
{
	Connected c;

	have_call(c, 0, 0);
	const NoRoom others(c);
	FakeServerPort::disconnect_in_wait = true;
	EXPECT_EQ(c.reply(20), to_errno(Error::not_connected));
	EXPECT_FALSE(FakeServerPort::disconnect_in_wait);
	EXPECT_EQ(FakeServerPort::closed, 1);
}

RPCORDMA_TEST(server_reply, closing)
{
	Connected c;

	have_call(c, 0, 0);
	rpcordma_core_server_detach(c.server);
	EXPECT_EQ(c.reply(20), to_errno(Error::not_connected));
	EXPECT_EQ(FakeServerPort::sends, 0);
	EXPECT_EQ(c.server->in_service, 0);
}

/*
 * RFC 8267 6.4.2: a Position Zero Read chunk and another one, a Write chunk and a Reply chunk, of sixteen
 * segments each, is what every client may send. (All four exceed 1024 bytes: two at a time.)
 */
RPCORDMA_TEST(server_reply, sixteen_segments)
{
	constexpr u32 n = 16;
	Connected c;
	CallMaker call(1, 64, v1::Proc::nomsg);
	xdr::Segment write[n], reply[n];

	/* The inline part: 160 bytes, the chunk's 320 at its Position 80. */
	for (u32 i = 0; i < 160; i++)
		FakeServerPort::client[i] = call_pattern(i);
	xdr::store_be32(FakeServerPort::client, 1);
	xdr::store_be32(FakeServerPort::client + 4, 0);
	for (u32 i = 0; i < n; i++)
		call.read(0, 10, i * 10);
	for (u32 i = 0; i < n; i++)
		call.read(80, 20, 1000 + i * 30);
	call.finish(0);
	ASSERT_TRUE(c.send(call));
	int got = c.receive();
	for (u32 i = 0; i < 3 && !got; i++) {
		c.work();
		got = c.receive();
	}
	ASSERT_EQ(got, 480);
	for (u32 i = 8; i < 80; i++)
		ASSERT_EQ(c.call_byte(i), call_pattern(i));
	for (u32 i = 0; i < 320; i++)
		ASSERT_EQ(c.call_byte(80 + i), FakeServerPort::client[1000 + i / 20 * 30 + i % 20]);
	for (u32 i = 80; i < 160; i++)
		ASSERT_EQ(c.call_byte(320 + i), call_pattern(i));
	EXPECT_EQ(c.reply(20), 0);
	c.work();
	c.expect_reply(1, 20);

	CallMaker other(2);
	for (u32 i = 0; i < n; i++) {
		write[i] = CallMaker::segment(50, kWrite + i * 50);
		reply[i] = CallMaker::segment(130, kReply + i * 130);
	}
	other.encoder.write_chunk(write);
	other.encoder.reply_chunk(reply);
	other.finish(40);
	ASSERT_TRUE(c.send(other));
	ASSERT_EQ(c.receive(), 40);
	c.rqst->ddp_allowed = true;
	EXPECT_EQ(rpcordma_core_server_result_payload(c.rqst->call, 60, 700), 0);
	ASSERT_EQ(c.send_reply_pages(60, 700, 2000), 0);
	c.release();
	c.work();
	const auto header = c.got();
	ASSERT_OK(header);
	EXPECT_EQ(header.value().proc, v1::Proc::nomsg);
	EXPECT_EQ(header.value().writes.segments(), n);
	EXPECT_EQ(header.value().writes.total_length(), 700);
	EXPECT_EQ(header.value().reply.count(), n);
	EXPECT_EQ(header.value().reply.length(), 2060);
	expect_written(kWrite, 60, 700);
	expect_written(kReply, 0, 60);
	expect_written(kReply + 60, 760, 2000);
	EXPECT_EQ(FakeServerPort::closed, 0);
}

/* --- the backward direction --- */

RPCORDMA_TEST(server_reply, backward)
{
	Connected c;
	const u32 calls = c.server->calls;

	for (u32 xid = 1; xid <= 40; xid++) {
		TEST_NOTE("call", xid);
		EXPECT_EQ(c.send_backward(xid, 100), 0);
		/* Its reply has a Receive of its own. */
		EXPECT_GE(FakePort::posted, c.server->credits.granted() + 1);
		c.work();
		c.expect_reply(xid, 100);
		EXPECT_EQ(c.got().value().credits, Credits(kServerBackwardCalls));
		EXPECT_FALSE(c.got().value().has_chunks());

		CallMaker reply(xid, xid);
		reply.finish(36, 1);
		FakeServerPort::backward_known = true;
		ASSERT_TRUE(c.send(reply));
		EXPECT_EQ(FakeServerPort::backward_replies, xid);
		EXPECT_EQ(FakeServerPort::backward_xid, xid);
		EXPECT_EQ(FakeServerPort::backward_length, 36);
		EXPECT_EQ(FakeServerPort::backward_credits,
			  xid < kServerBackwardCalls ? xid : kServerBackwardCalls);
		EXPECT_EQ(c.server->backward_outstanding, 0);
		EXPECT_FALSE(FakeServerPort::data);
	}
	EXPECT_EQ(counter(RPCORDMA_SERVER_DROPPED), 0);
	EXPECT_LE(c.server->calls, calls + 3);
	/* A grant of zero would be the end: it is one. */
	CallMaker zero(41, 0);
	zero.finish(36, 1);
	EXPECT_EQ(c.send_backward(41, 100), 0);
	c.work();
	ASSERT_TRUE(c.send(zero));
	EXPECT_EQ(FakeServerPort::backward_credits, 1);
}

/* Calls outstanding are backed by Receives, all of them, beside those of forward calls. */
RPCORDMA_TEST(server_reply, backward_receives)
{
	Connected c;

	for (u32 n = 1; n <= kServerBackwardCalls; n++) {
		TEST_NOTE("outstanding", n);
		EXPECT_EQ(c.send_backward(n, 40), 0);
		EXPECT_EQ(c.server->backward_outstanding, n);
		EXPECT_GE(FakePort::posted, c.server->credits.granted() + n);
		c.work();
	}
	/* No more than that is ever outstanding, as far as Receives go. */
	EXPECT_EQ(c.send_backward(100, 40), 0);
	EXPECT_EQ(c.server->backward_outstanding, kServerBackwardCalls);
	c.work();
	/* The client uses its credits, then replies: all find a Receive. */
	FakeServerPort::backward_known = true;
	for (u32 i = 0; i < c.server->credits.granted(); i++) {
		ASSERT_TRUE(c.send_inline(i));
		EXPECT_GE(FakePort::posted, c.server->credits.granted() + kServerBackwardCalls);
	}
	for (u32 n = 1; n <= kServerBackwardCalls; n++) {
		CallMaker reply(n);
		reply.finish(36, 1);
		ASSERT_TRUE(c.send(reply));
		EXPECT_GE(FakePort::posted, c.server->credits.granted() + kServerBackwardCalls);
	}
	EXPECT_EQ(c.server->backward_outstanding, 0);
}

/* A reply to nobody, one with chunks, and an error. */
RPCORDMA_TEST(server_reply, backward_replies)
{
	Connected c;

	EXPECT_EQ(c.send_backward(5, 40), 0);
	c.work();
	CallMaker reply(5);
	reply.finish(36, 1);
	FakeServerPort::backward_known = false;
	ASSERT_TRUE(c.send(reply));
	EXPECT_EQ(counter(RPCORDMA_SERVER_DROPPED), 1);
	EXPECT_EQ(c.server->backward_outstanding, 1);

	FakeServerPort::backward_known = true;
	CallMaker chunks(5);
	chunks.write(100);
	chunks.finish(36, 1);
	ASSERT_TRUE(c.send(chunks));
	EXPECT_EQ(counter(RPCORDMA_SERVER_DROPPED), 2);
	EXPECT_EQ(FakeServerPort::backward_replies, 1);

	u8 error[v1::error_chunk_length];
	ASSERT_OK(v1::encode_error_chunk(error, Xid(5), 1, Credits(1)));
	ASSERT_TRUE(FakeServerPort::send(c.server, error));
	EXPECT_EQ(FakeServerPort::backward_errors, 1);
	EXPECT_EQ(FakeServerPort::backward_xid, 5);
	EXPECT_EQ(FakeServerPort::backward_error, to_errno(Error::io));
	EXPECT_EQ(c.server->backward_outstanding, 0);
	/* A reply more than there were calls. */
	ASSERT_TRUE(c.send(reply));
	EXPECT_EQ(c.server->backward_outstanding, 0);
	EXPECT_EQ(FakeServerPort::closed, 0);
}

RPCORDMA_TEST(server_reply, backward_refused)
{
	{
		Connected c(false, false);
		EXPECT_EQ(c.send_backward(1, 40), to_errno(Error::not_connected));
	}
	{
		Connected c;
		rpcordma_core_server_detach(c.server);
		EXPECT_EQ(c.send_backward(1, 40), to_errno(Error::not_connected));
	}
	{
		/* The client's receive buffer, less the header. */
		Connected c;
		const u32 most = rpcordma_core_server_backward_payload(c.server);
		EXPECT_EQ(c.send_backward(1, most + 1), to_errno(Error::message_size));
		EXPECT_EQ(FakeServerPort::sends, 0);
		EXPECT_EQ(c.send_backward(1, most), 0);
		c.work();
		c.expect_reply(1, most);
	}
	/* No memory: for a Receive, for a call, for a buffer; until there is enough. */
	for (u32 n = 0; n < 12; n++) {
		TEST_NOTE("allocations that go well", n);
		Connected c;
		FakePort::allocations_left = n;
		const int rc = c.send_backward(1, 40);
		EXPECT_TRUE(rc == 0 || rc == to_errno(Error::no_buffers));
		EXPECT_EQ(FakeServerPort::sends, rc ? 0 : 1);
		if (n == 11)
			EXPECT_EQ(rc, 0);
		if (n == 0)
			EXPECT_NE(rc, 0);
		FakePort::allocations_left = FakePort::kNoLimit;
	}
}

/* No room in the send queue: no wait, in which others' calls would stand still; sunrpc tries again. */
RPCORDMA_TEST(server_reply, backward_no_room)
{
	Connected c;

	EXPECT_EQ(c.send_backward(1, 40), 0);
	c.work();
	const u32 spare = c.server->room.exchange(0), calls = c.server->calls;
	for (u32 n = 0; n < 40; n++) {
		EXPECT_EQ(c.send_backward(2, 40), to_errno(Error::no_buffers));
		EXPECT_EQ(c.server->backward_outstanding, 1);
	}
	EXPECT_EQ(FakeServerPort::waits, 0);
	EXPECT_EQ(FakeServerPort::sends, 0);
	EXPECT_EQ(FakeServerPort::closed, 0);
	/* One more Receive there is. */
	EXPECT_LE(c.server->calls, calls + 1);
	c.server->room.store(spare);
	EXPECT_EQ(c.send_backward(2, 40), 0);
	EXPECT_EQ(c.server->backward_outstanding, 2);
	c.work();
	c.expect_reply(2, 40);
	EXPECT_FALSE(c.server->replied.load());
}

/* A call that could not be posted ends the connection. */
RPCORDMA_TEST(server_reply, backward_not_posted)
{
	Connected c;

	FakeServerPort::sends_left = 0;
	EXPECT_EQ(c.send_backward(1, 40), to_errno(Error::not_connected));
	EXPECT_EQ(FakeServerPort::closed, 1);
	EXPECT_EQ(c.server->backward_outstanding, 0);
	EXPECT_EQ(c.server->room.load(), c.server->queue_size);
}

RPCORDMA_SUITE(server_reply, write_chunk, early_result, long_write, reply_chunk, unused_chunks,
	       unannounced, many_results, invalidation, fits_nowhere, largest_inline,
	       largest_payload, too_many_pieces, no_memory, post_fails, remote_access, room,
	       stalled, room_never, closing, backward, backward_receives, backward_replies,
	       backward_refused, backward_no_room, backward_not_posted, sixteen_segments);

} // namespace rpcordma
