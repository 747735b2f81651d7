// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who owns what when (module/server/server.hh), in the cases in which it changes hands unseen: pages that
 * are not to be kept, regions that are used again, and a connection that ends amid each state of a call.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"

namespace rpcordma {
namespace {

/* The thread has a call with a Write chunk of @size bytes, for all of which there are results. */
void have_read(Served &c, u32 size)
{
	CallMaker call(1);

	call.write(size, 10000);
	call.finish(40);
	ASSERT_TRUE(c.send(call));
	ASSERT_EQ(c.receive(), 40);
	c.rqst->ddp_allowed = true;
	(void)rpcordma_core_server_result_payload(c.rqst->call, 20, size);
}

} // namespace

/* Where the ways of a call lead, and where the connection ends: nothing is left that was counted. */
RPCORDMA_TEST(server_owners, ends_amid)
{
	enum Stage {
		posted,
		ready,
		held,
		reading,
		read,
		sending,
		sending_writes,
		backward,
		stages
	};

	for (u32 stage = 0; stage < stages; stage++)
		for (const bool completes : {false, true}) {
			TEST_NOTE("stage", stage);
			TEST_NOTE("completes in the drain", completes);
			Connected c;
			CallMaker write(1);

			make_write(write, 40 * kPage);
			switch (stage) {
			case posted:
				break;
			case ready:
				ASSERT_TRUE(c.send_inline(1));
				break;
			case held: {
				const NoTransfers none;

				ASSERT_TRUE(c.send(write));
				EXPECT_TRUE(c.has_held());
				break;
			}
			case reading:
			case read:
				ASSERT_TRUE(c.send(write));
				EXPECT_GT(Connected::eager_bytes(), 0);
				EXPECT_EQ(c.dma.bulk_maps, 1);
				if (stage == read)
					c.work();
				break;
			case sending:
				ASSERT_TRUE(c.send_inline(1));
				ASSERT_EQ(c.receive(), 40);
				ASSERT_EQ(c.reply(20), 0);
				break;
			case sending_writes:
				have_read(c, 300);
				ASSERT_EQ(c.send_reply_pages(20, 300, 8), 0);
				c.release();
				break;
			case backward:
				ASSERT_EQ(c.send_backward(1, 40), 0);
				break;
			}
			c.verbs.completes_in_drain = completes;
			c.end();
			EXPECT_EQ(c.dma.bulk_maps, 0);
			EXPECT_EQ(c.dma.mappings, 0);
			/* And it serves the next one. */
			c.connect();
			ASSERT_TRUE(c.send(write));
			c.work();
			ASSERT_EQ(c.receive(), int(60 + 40 * kPage));
			c.release();
		}
}

/* A completion in the drain finds too few Receives, and posts none: the queue pair takes no more (S2). */
RPCORDMA_TEST(server_owners, no_receives_in_drain)
{
	Connected c;

	c.memory.allocations_left = 0;
	for (u32 xid = 0; c.verbs.posted; xid++) {
		ASSERT_TRUE(c.send_inline(xid));
		ASSERT_EQ(c.receive(), 40);
		if (c.verbs.posted)
			continue;
		c.memory.allocations_left = kNoLimit;
		ASSERT_TRUE(ensure_send(*c.server, c.rqst->call, RPCORDMA_ALLOC_SERVICE));
		c.memory.allocations_left = 0;
		ASSERT_EQ(c.reply(20), 0);
	}
	EXPECT_EQ(c.posted(), 0);
	c.verbs.completes_in_drain = true;
	c.end();
	EXPECT_EQ(c.log.take(trace::Failure::receives_missing), 6);
}

/* What a reply lay in may be page cache: the pool, though it has room, does not keep it. */
RPCORDMA_TEST(server_owners, reply_pages)
{
	Connected c;

	/* The pool has ten pages less than it wants. */
	Transfer *sink = server_pool.take_sink(10, Transfer::kPages);
	ASSERT_NE(sink, nullptr);
	for (u32 i = 0; i < 10; i++) {
		c.memory.put_page(sink->pages[i]);
		sink->pages[i] = nullptr;
	}
	server_pool.give(sink);
	have_read(c, 3 * kPage);
	const u32 pages = c.memory.pages;
	ASSERT_EQ(c.send_reply_pages(20, 3 * kPage, 8), 0);
	EXPECT_EQ(c.memory.pages, pages);
	c.work();
	EXPECT_EQ(c.memory.pages, pages - 3);
	c.release();
	/* Nor does a transfer that had them have any for the next reply, which has none. */
	Transfer *next = server_pool.take(Transfer::kPages, RPCORDMA_ALLOC_NOIO);
	EXPECT_EQ(next->page_count, 0);
	server_pool.give(next);
}

/*
 * What a large reply lay in is not unmapped and released by its completion: by a thread, when its own call is over;
 * by the worker; or by the end of the connection.
 */
RPCORDMA_TEST(server_owners, finished)
{
	enum By { thread, worker, end, ways };

	for (u32 by = thread; by < ways; by++) {
		TEST_NOTE("by", by);
		Connected c;

		have_read(c, 40 * kPage);
		ASSERT_EQ(c.send_reply_pages(20, 40 * kPage, 8), 0);
		if (by != thread)
			c.release();
		const u32 pages = c.memory.pages;
		/* Which does not wait for a look at idle regions that is due later. */
		c.svc.finish_ms = 10000;
		c.work();
		EXPECT_EQ(c.memory.most_released, 0);
		EXPECT_EQ(c.memory.pages, pages);
		EXPECT_EQ(c.dma.bulk_maps, 1);
		EXPECT_EQ(c.svc.finish_ms, 100);
		EXPECT_FALSE(audit(*c.server).at_rest());
		if (by == thread)
			c.release();
		else if (by == worker)
			rpcordma_core_server_finish(c.server);
		else
			c.end();
		EXPECT_EQ(c.dma.bulk_maps, 0);
		if (by != end)
			EXPECT_EQ(c.memory.pages, pages - 40);
		/* It may be asked for and find nothing. */
		if (by == worker)
			rpcordma_core_server_finish(c.server);
	}
}

/* A completion releases a few pages at once, however large the reply. */
RPCORDMA_TEST(server_owners, finished_at_once)
{
	Connected c;

	for (u32 pages = 1; pages < 20; pages++) {
		have_read(c, pages * kPage);
		ASSERT_EQ(c.send_reply_pages(20, pages * kPage, 8), 0);
		c.work();
		EXPECT_EQ(c.dma.bulk_maps, pages > 8);
		c.release();
		EXPECT_EQ(c.dma.bulk_maps, 0);
	}
	EXPECT_EQ(c.memory.most_released, 8);
}

/* A reply in more pages than a transfer holds: its Writes are built, and not sent; the client learns so. */
RPCORDMA_TEST(server_owners, too_many_reply_pages)
{
	for (const u32 pages : {Transfer::kPages, Transfer::kPages + 1, Transfer::kLargePages,
				Transfer::kLargePages + 1}) {
		TEST_NOTE("pages", pages);
		const bool fits = pages <= Transfer::kLargePages;
		Connected c;

		c.peer.have(10000 + pages * kPage);
		c.thread_pages = pages + 8;
		have_read(c, pages * kPage);
		ASSERT_EQ(c.send_reply_pages(20, pages * kPage, 8), 0);
		c.release();
		c.work();
		EXPECT_EQ(c.peer.writes > 0, fits);
		EXPECT_EQ(c.svc.closed, 0);
		if (!fits)
			c.expect_error(1, xdr::ErrorCode::chunk);
		EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), fits ? 0 : 1);
		EXPECT_EQ(c.log.take(trace::Failure::reply_no_room), fits ? 0 : 1);
	}
}

/* nfsd counts the pages that a READ of NFSv3 asked for, and the file ends early: the reply has few bytes in many pages. */
RPCORDMA_TEST(server_owners, short_read)
{
	for (const u32 pages : {Transfer::kPages, Transfer::kPages + 1, Transfer::kLargePages}) {
		TEST_NOTE("pages", pages);
		Connected c;

		c.thread_pages = pages + 8;
		c.fill_thread();
		have_read(c, 3 * kPage);
		ASSERT_EQ(c.send_reply_pages(20, 3 * kPage, 8, pages), 0);
		const u32 before = c.memory.pages;
		c.release();
		c.work();
		EXPECT_GT(c.peer.writes, 0);
		/* Those without a byte of the reply as well, some by the next thread that comes by. */
		rpcordma_core_server_finish(c.server);
		EXPECT_EQ(c.memory.pages, before - pages);
	}
}

/*
 * A call that takes two regions, then calls at once that take one each: of the chain that a region was in
 * before, nothing is left, nor of the transfer's other region.
 */
RPCORDMA_TEST(server_owners, regions_used_again)
{
	Iwarp c;
	CallMaker large(1);

	make_write(large, 3 * kPage);
	c.set_region_pages(2);
	ASSERT_TRUE(c.send(large));
	EXPECT_EQ(c.receive(), 0);
	c.work();
	ASSERT_EQ(c.receive(), int(60 + 3 * kPage));
	c.release();
	EXPECT_EQ(c.dma.regions, 2);
	for (u32 round = 0; round < 3; round++) {
		TEST_NOTE("round", round);
		const u32 reads = c.peer.reads, before = c.peer.local_invalidations;

		for (u32 i = 0; i < 2; i++) {
			CallMaker call(10 + i);

			make_write(call, kPage);
			ASSERT_TRUE(c.send(call));
			/* What registers the sink, and the Read, which invalidates it: two each. */
			EXPECT_EQ(c.verbs.sends, 2 * (i + 1));
			EXPECT_EQ(c.room_taken(), 2 * (i + 1));
		}
		c.work();
		EXPECT_FALSE(c.verbs.broken);
		EXPECT_EQ(c.peer.reads, reads + 2);
		EXPECT_EQ(c.peer.local_invalidations, before + 2);
		for (u32 i = 0; i < 2; i++) {
			ASSERT_EQ(c.receive(), int(60 + kPage));
			for (u32 at = 0; at < kPage; at++)
				ASSERT_EQ(c.call_byte(40 + at), c.peer.memory[at]);
			c.release();
		}
		/* With both, and back. */
		ASSERT_TRUE(c.send(large));
		EXPECT_EQ(c.verbs.sends, 4);
		EXPECT_EQ(c.room_taken(), 4);
		c.work();
		ASSERT_EQ(c.receive(), int(60 + 3 * kPage));
		c.release();
	}
	EXPECT_EQ(c.dma.regions, 2);
}

/* sunrpc lets go of the connection while a thread waits for room: it hears of it, and gives up. */
RPCORDMA_TEST(server_owners, detached_in_wait)
{
	Connected c;

	have_read(c, 300);
	{
		const NoRoom others(c);

		c.sync.meanwhile = [] { rpcordma_core_server_detach(the_port->verbs.server); };
		EXPECT_EQ(c.send_reply_pages(20, 300, 8), to_errno(Error::not_connected));
	}
	EXPECT_EQ(c.sync.waits, 1);
	EXPECT_EQ(c.dma.bulk_maps, 0);
	c.release();
	EXPECT_EQ(c.log.take(trace::Failure::send_queue_full), 1);
}

/* Only the first refusal on a connection says that a call's chunks are bad (RFC 8166 4.5.3). */
RPCORDMA_TEST(server_owners, first_refusal)
{
	Connected c;
	CallMaker bad(1), other(2);
	rpcordma_completion refused = {};

	make_write(bad, 100);
	make_write(other, 200);
	c.set_replied(true);
	refused.status = RPCORDMA_WC_REMOTE_ACCESS;
	for (const CallMaker *call : {&bad, &other}) {
		ASSERT_TRUE(c.send(*call));
		c.work();
		ASSERT_GT(c.receive(), 0);
		chain_failed(*c.server, c.rqst->call, trace::Loss::send_failed, refused);
		c.server->closing.store(false);
		c.release();
	}
	c.end();
	c.connect();
	ASSERT_TRUE(c.send(other));
	EXPECT_EQ(c.verbs.sends, 1);
	ASSERT_TRUE(c.send(bad));
	EXPECT_EQ(c.verbs.sends, 1);
	EXPECT_TRUE(c.svc.data);
	EXPECT_EQ(c.receive(), 0);
	EXPECT_EQ(c.log.take(trace::Failure::call_failed_before), 1);
	EXPECT_EQ(c.log.take(trace::Failure::chunk_refused), 1);
	EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
	EXPECT_EQ(c.log.take(trace::Loss::send_failed), 2);
}

RPCORDMA_SUITE(server_owners, ends_amid, no_receives_in_drain, reply_pages, too_many_reply_pages,
	       short_read, finished, finished_at_once, regions_used_again, detached_in_wait,
	       first_refusal);

} // namespace rpcordma
