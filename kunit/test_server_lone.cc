// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads and Writes that are the call's own: module/server/lone.hh. Which are, on which device, and that the same bytes
 * go to the same places as by a transfer. What fails of them is in test_server_read_failures.cc and
 * test_server_reply_failures.cc.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"

namespace rpcordma {

namespace {

/* A device that gives so many SGEs to a work request. */
struct FewSges : Served {
	FewSges(u32 send, u32 read, u32 better_by_region = 0)
	{
		verbs.device.max_send_sge = send;
		verbs.device.max_sge_rd = read;
		verbs.device.max_sgl_rd = better_by_region;
		connect();
		set_replied(true);
	}
	/** The reply is 60 bytes of head, @size in pages from byte @base of the first on, and 8 bytes. */
	[[nodiscard]] int reply_from(u32 base, u32 size, u32 pages = 0)
	{
		rpcordma_xdr_buf &buf = rqst->reply;

		have_reply_pages(60, size, xdr_pad(size) + 8, pages);
		buf.page_base = base;
		rqst->reply_pages = max(div_round_up(base + size, u32(kPage)), pages);
		for (u32 i = 0; i < size; i++)
			buf.pages[(base + i) / kPage]->data[(base + i) % kPage] = pattern(60 + i);
		(void)rpcordma_core_server_result_payload(rqst->call, 60, size);
		return send_made_reply();
	}
	/** The thread has a call with a Write chunk of @size bytes. */
	void have_read(u32 size)
	{
		CallMaker call(1);

		call.write(size, kWrite);
		call.finish(40);
		fill_thread();
		ASSERT_TRUE(send(call));
		ASSERT_EQ(receive(), 40);
		rqst->ddp_allowed = true;
	}
	[[nodiscard]] bool lone() const
	{
		EXPECT_NE(rqst->call->lone.mapped != 0, rqst->call->transfer != nullptr);
		return rqst->call->lone.mapped != 0;
	}
};

/* What a call may be, each by other means: of the call alone, or of the pool, or neither. */
enum Form : u32 {
	plain,
	small_write,
	large_write,
	small_read,
	large_read,
	small_reply,
	reply_chunk,
	forms,
};

void expect_served(FewSges &c, u32 form)
{
	constexpr u32 kSmall = 500, kLarge = 9 * kPage + 10;
	const bool large = form == large_write || form == large_read;
	const u32 size = large ? kLarge : kSmall;

	c.fill_thread();
	switch (form) {
	case plain:
		ASSERT_TRUE(c.send_inline(1));
		ASSERT_EQ(c.receive(), 40);
		EXPECT_EQ(c.reply(100), 0);
		c.work();
		c.expect_reply(1, 100);
		break;
	case small_write:
	case large_write: {
		CallMaker call(1);

		make_write(call, size, 33);
		ASSERT_TRUE(c.send(call));
		c.work();
		ASSERT_EQ(c.receive(), int(60 + size + xdr_pad(size)));
		expect_write(c, size, 33);
		EXPECT_EQ(c.reply(20), 0);
		c.work();
		c.expect_reply(1, 20);
		break;
	}
	case small_read:
	case large_read:
		c.have_read(size);
		EXPECT_EQ(c.reply_from(17, size), 0);
		c.release();
		c.work();
		EXPECT_EQ(c.got().value().writes.total_length(), size);
		expect_written(kWrite, 60, size);
		break;
	case small_reply:
		ASSERT_TRUE(c.send_inline(1));
		ASSERT_EQ(c.receive(), 40);
		EXPECT_EQ(c.send_reply_pages(60, kSmall, 8), 0);
		c.release();
		c.work();
		EXPECT_EQ(c.got().value().payload.size(), 60 + kSmall + 8);
		break;
	case reply_chunk: {
		CallMaker call(1);

		call.reply(8 * kPage, kReply);
		call.finish(40);
		ASSERT_TRUE(c.send(call));
		ASSERT_EQ(c.receive(), 40);
		EXPECT_EQ(c.reply(5 * kPage), 0);
		c.work();
		EXPECT_EQ(c.got().value().kind, xdr::Kind::nomsg);
		expect_written(kReply, 0, 5 * kPage);
		break;
	}
	}
	c.peer.have(PortPeer::kBytes);
	EXPECT_EQ(c.room_taken(), 0);
	EXPECT_EQ(c.in_service(), 0);
}

} // namespace

/* Each behind each, by one call and one Receive: none finds anything of the one before. */
RPCORDMA_TEST(server_lone, each_behind_each)
{
	for (u32 first = 0; first < forms; first++)
		for (u32 second = 0; second < forms; second++) {
			TEST_NOTE("first", first);
			TEST_NOTE("second", second);
			FewSges c(8, 8);

			expect_served(c, first);
			expect_served(c, second);
			expect_served(c, first);
		}
}

/* A READ's data in four pages, or as many as a Write has SGEs for. Its pages are the device's until that is done. */
RPCORDMA_TEST(server_lone, writes)
{
	for (const u32 sges : {1u, 2u, 3u, 8u}) {
		TEST_NOTE("SGEs", sges);
		FewSges c(sges, 8);

		for (const u32 base : {0u, 1u, 61u, kPage - 1, kPage + 5})
			for (const u32 size :
			     {1u, 2u, kPage - 61, kPage, kPage + 1, 2 * kPage - 61, 2 * kPage - 60,
			      2 * kPage, 2 * kPage + 1, 3 * kPage, 4 * kPage - 61, 4 * kPage - 60,
			      4 * kPage, 4 * kPage + 1}) {
				TEST_NOTE("base", base);
				TEST_NOTE("size", size);
				__builtin_memset(c.peer.memory + kWrite, 0, 5 * kPage);
				c.have_read(size);
				ASSERT_EQ(c.reply_from(base, size), 0);
				EXPECT_EQ(c.lone(), base % kPage + size <= min(sges, 4u) * kPage);
				c.release();
				EXPECT_EQ(c.rqst->pages[0], nullptr);
				EXPECT_EQ(c.dma.bulk_maps, 1);
				c.work();
				EXPECT_EQ(c.dma.bulk_maps, 0);
				EXPECT_EQ(c.in_service(), 0);
				expect_written(kWrite, 60, size);
			}
	}
}

/* What has more pages than nfsd counts for such a READ. */
RPCORDMA_TEST(server_lone, reply_pages)
{
	for (const u32 pages : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u}) {
		TEST_NOTE("pages", pages);
		FewSges c(8, 8);

		c.have_read(100);
		const u32 filled = c.memory.pages;
		ASSERT_EQ(c.reply_from(0, 100, pages), 0);
		EXPECT_EQ(c.lone(), pages <= 6);
		c.release();
		c.work();
		EXPECT_EQ(c.memory.pages, filled - pages);
	}
}

/* A result that begins in the head, or two results, or a chunk of two segments. */
RPCORDMA_TEST(server_lone, other_shapes)
{
	for (u32 what = 0; what < 4; what++) {
		TEST_NOTE("what", what);
		FewSges c(8, 8);
		CallMaker call(1);

		const xdr::Segment halves[] = {CallMaker::segment(50, kWrite),
					       CallMaker::segment(50, kWrite + 50)};

		if (what == 3)
			call.encoder.write_chunk(halves);
		else
			call.write(100, kWrite);
		if (what == 2)
			call.write(100, kReply);
		call.finish(40);
		ASSERT_TRUE(c.send(call));
		ASSERT_EQ(c.receive(), 40);
		c.rqst->ddp_allowed = true;
		c.have_reply_pages(60, 300, 8);
		const u32 at = what == 1 ? 56 : 60;
		(void)rpcordma_core_server_result_payload(c.rqst->call, at, 100);
		if (what == 2)
			(void)rpcordma_core_server_result_payload(c.rqst->call, 200, 100);
		ASSERT_EQ(c.send_made_reply(), 0);
		EXPECT_EQ(c.lone(), what == 0);
		c.release();
		c.work();
		expect_written(kWrite, at, 100);
	}
}

/* A WRITE's sink, of as many pages as a Read has SGEs for, or as are no better by a region. */
RPCORDMA_TEST(server_lone, reads)
{
	for (const u32 sges : {1u, 2u, 3u, 8u})
		for (const u32 better : {0u, 1u, 2u, 8u})
			for (const u32 size : {1u, kPage, kPage + 1, 2 * kPage, 2 * kPage + 1,
					       3 * kPage + 1, 4 * kPage, 4 * kPage + 1}) {
				TEST_NOTE("SGEs", sges);
				TEST_NOTE("better", better);
				TEST_NOTE("size", size);
				FewSges c(8, sges, better);
				CallMaker call(1);
				const u32 most = min(min(sges, 4u), better ? better : 4u);

				make_write(call, size, 33);
				ASSERT_TRUE(c.send(call));
				const ServerCall *lone = nullptr;
				for (const ServerCall *one = ServerInside::all(c.server->calls);
				     one; one = one->all_next)
					if (one->lone.mapped)
						lone = one;
				EXPECT_EQ(lone != nullptr, size <= most * kPage);
				c.work();
				c.fill_thread();
				EXPECT_EQ(c.receive(), int(60 + size + xdr_pad(size)));
				EXPECT_EQ(c.dma.bulk_maps, 0);
				expect_write(c, size, 33);
				c.release();
			}
}

/* A page that is not there is nobody's fault that a new connection would mend: the call gets an error, and no other. */
RPCORDMA_TEST(server_lone, absent_pages)
{
	for (const bool write : {false, true}) {
		TEST_NOTE("write", write);
		FewSges c(8, 8);
		CallMaker call(1);

		c.dma.bulk_maps_left = 0;
		c.dma.pages_absent = true;
		if (write) {
			make_write(call, 100, 33);
			ASSERT_TRUE(c.send(call));
			EXPECT_EQ(c.receive(), 0);
			EXPECT_GE(c.log.take(trace::Failure::sink_map_failed), 1);
		} else {
			c.have_read(100);
			EXPECT_EQ(c.reply_from(0, 100), 0);
			c.release();
			EXPECT_EQ(c.log.take(trace::Failure::write_map_failed), 1);
			EXPECT_EQ(c.log.take(trace::Failure::reply_no_room), 1);
		}
		EXPECT_EQ(c.svc.closed, 0);
		c.work();
		c.expect_error(1, xdr::ErrorCode::chunk);
		EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
		EXPECT_EQ(c.in_service(), 0);
		c.dma.bulk_maps_left = kNoLimit;
		c.dma.pages_absent = false;
	}
}

RPCORDMA_SUITE(server_lone, each_behind_each, writes, reply_pages, other_shapes, reads,
	       absent_pages);

} // namespace rpcordma
