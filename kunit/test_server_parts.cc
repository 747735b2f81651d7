// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls and replies that take more RDMA Reads or Writes than a chain has room for: they go in several, which a thread
 * posts (module/server/read.cc, module/server/writes.cc, post_part() in module/server/transfer.cc).
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"
#include "module/server/writes.hh"

namespace rpcordma {
namespace {

/** A connection with messages that have room for many segments. */
struct Roomy : Served {
	Roomy()
	{
		rpcordma_server_tunables.max_req_size = 8192;
		svc.limits.max_message = 100 * kPage;
		svc.limits.max_pages = 100;
		thread_pages = 120;
	}
	void begin()
	{
		private_data::Properties client;

		client.send_size = client.receive_size = 8192;
		ASSERT_EQ(accept(16, &client), 0);
		rpcordma_core_server_refill();
		establish();
		set_replied(true);
	}
	/** A WRITE of @segments segments of @size bytes each comes, and of one of @first ahead of them. */
	void send_reads(u32 segments, u32 size, u32 first = 0)
	{
		CallMaker call(1);

		if (first)
			call.read(40, first, 0);
		for (u32 i = 0; i < segments; i++)
			call.read(40, size, first + i * size);
		call.finish(60);
		ASSERT_TRUE(send(call));
	}
	/** The thread has it whole, or takes it once it is: so many bytes. */
	void expect_reads(u32 bytes)
	{
		work();
		ASSERT_FALSE(verbs.broken);
		ASSERT_EQ(receive(), int(60 + bytes + xdr_pad(bytes)));
		for (u32 i = 0; i < bytes; i++)
			ASSERT_EQ(call_pages()[i / kPage]->data[i % kPage], peer.memory[i]);
		release();
		expect_nothing_left();
	}
	/** So many chains of Reads and, ahead of the replies, of Writes were posted and completed, by the trace. */
	void expect_told(u32 reads, u32 writes)
	{
		EXPECT_EQ(log.read_posts, reads);
		EXPECT_EQ(log.read_completions, reads);
		EXPECT_EQ(log.write_posts, writes);
		EXPECT_EQ(log.write_completions, writes);
	}
	void expect_nothing_left()
	{
		/* What completions left to others. */
		rpcordma_core_server_finish(server);
		EXPECT_EQ(room_taken(), 0);
		EXPECT_EQ(dma.bulk_maps, 0);
		EXPECT_EQ(dma.region_maps, 0);
		EXPECT_EQ(in_service(), 0);
	}
	/** The thread has a READ whose Write chunk has @segments segments of @size bytes each. */
	void have_read(u32 segments, u32 size)
	{
		static xdr::Segment list[256];
		CallMaker call(1);

		ASSERT_LE(segments, 256);
		for (u32 i = 0; i < segments; i++)
			list[i] = CallMaker::segment(size, kWrite + i * size);
		call.encoder.write_chunk({list, segments});
		call.finish(40);
		ASSERT_TRUE(send(call));
		ASSERT_EQ(receive(), 40);
		rqst->ddp_allowed = true;
	}
	/** It replies with so many bytes. Returns what sendto() says. */
	int reply_read(u32 bytes)
	{
		(void)rpcordma_core_server_result_payload(rqst->call, 20, bytes);
		const int rc = send_reply_pages(20, bytes, 8);
		release();
		return rc;
	}
};

} // namespace

/* As many Reads as a chain has room for are pulled by the completion; more by a thread, in several. */
RPCORDMA_TEST(server_parts, reads)
{
	for (const u32 segments : {1u, 127u, 128u, 129u, 168u, 255u, 256u}) {
		TEST_NOTE("segments", segments);
		Roomy c;

		c.begin();
		c.send_reads(segments, 50);
		EXPECT_EQ(counter(RPCORDMA_SERVER_EAGER), segments <= 128 ? 1 : 0);
		if (segments > 128) {
			EXPECT_EQ(c.verbs.sends, 0);
			EXPECT_EQ(c.receive(), 0);
		}
		c.expect_reads(segments * 50);
		/* One is left, to go with the next chain. */
		c.expect_told(max(1u, div_round_up(segments - 1, 127u)), 0);
		EXPECT_EQ(c.peer.reads, segments);
		EXPECT_EQ(counter(RPCORDMA_SERVER_READ), segments);
	}
	Roomy c;
	c.begin();
	c.send_reads(257, 50);
	EXPECT_EQ(c.receive(), 0);
	c.work();
	c.expect_error(1, xdr::ErrorCode::chunk);
	EXPECT_EQ(c.log.take(trace::Failure::call_segments), 1);
	EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
}

/* One SGE in each Read, and a queue that has room for all of them or has not. */
RPCORDMA_TEST(server_parts, one_sge)
{
	for (const u32 queue : {4096u, 46u}) {
		TEST_NOTE("work requests", queue);
		Roomy c;

		c.verbs.device.max_sge_rd = 1;
		c.verbs.device.max_qp_wr = queue;
		c.begin();
		EXPECT_EQ(c.read_sges(), 1);
		c.send_reads(20, 412);
		if (queue == 46)
			EXPECT_EQ(c.receive(), 0);
		c.expect_reads(20 * 412);
		/* One more where a page ends within a segment. */
		EXPECT_EQ(c.peer.reads, 20 + 20 * 412 / kPage);
	}
}

/* A thread waits for the room of each chain. */
RPCORDMA_TEST(server_parts, waits)
{
	Roomy c;

	rpcordma_server_tunables.max_requests = 1;
	c.begin();
	c.send_reads(200, 100);
	EXPECT_EQ(c.receive(), 0);
	EXPECT_EQ(c.sync.waits, 1);
	EXPECT_EQ(c.log.take(trace::Failure::send_queue_full), 1);
	c.expect_reads(200 * 100);
}

/* However many chains there are, and whatever room comes: it is a minute for all. */
RPCORDMA_TEST(server_parts, waits_in_all)
{
	for (const u32 wait : {29000u, 35000u})
		for (const bool reads : {true, false}) {
			TEST_NOTE("wait", wait);
			TEST_NOTE("reads", reads);
			/* Two chains behind the first one, and that is the last: each waits for the one before it. */
			constexpr u32 segments = 255, size = 96, bytes = segments * size;
			const bool ends = wait > 30000;
			Roomy c;

			c.verbs.device.max_sge_rd = 1;
			c.verbs.device.max_send_sge = 1;
			c.begin();
			c.sync.wait_ms = wait;
			const u64 before = c.sync.now;
			if (reads) {
				c.send_reads(segments, size);
				const NoRoom others(c, 128);
				EXPECT_EQ(c.receive(), 0);
			} else {
				c.have_read(segments, size);
				const NoRoom others(c, 128);
				EXPECT_EQ(c.reply_read(bytes),
					  ends ? to_errno(Error::not_connected) : 0);
			}
			EXPECT_EQ(c.sync.now - before, ends ? 60000 : 2 * wait);
			EXPECT_EQ(c.sync.waits, 2);
			EXPECT_EQ(c.log.take(trace::Failure::send_queue_full), 2);
			EXPECT_EQ(c.svc.closed, ends);
			EXPECT_EQ(c.log.take(trace::Loss::send_queue_stalled), ends);
			c.sync.wait_ms = 0;
			if (ends) {
				c.end();
				continue;
			}
			if (reads)
				c.expect_reads(bytes);
			else
				c.work();
			c.expect_nothing_left();
		}
}

/* Registered sinks: each region is invalidated with the last Read into it, in whichever chain that is. */
RPCORDMA_TEST(server_parts, registered)
{
	/* The first chain ends before its region does, with it, or behind it; or there is one for all. */
	for (const u32 regions : {1u, 2u})
		for (const u32 first : {20u, 36u, 37u, 38u, 50u, 69u, 70u, 71u, 90u, 103u, 104u}) {
			TEST_NOTE("regions", regions);
			TEST_NOTE("first", first);
			Roomy c;

			c.verbs.device.read_needs_region = true;
			c.verbs.device.max_fast_reg_pages = regions > 1 ? 16 : 100;
			c.begin();
			for (u32 i = 0; i < 2; i++) {
				c.send_reads(200, 33, first);
				EXPECT_EQ(c.receive(), 0);
				c.expect_reads(first + 200 * 33);
				EXPECT_EQ(c.dma.regions, regions);
				EXPECT_EQ(c.peer.local_invalidations, regions * (i + 1));
			}
		}
}

/* Where regions only do better: what registers one, and what invalidates it first, has its place in a chain, too. */
RPCORDMA_TEST(server_parts, registered_by_choice)
{
	constexpr u32 kFirst = 40 * kPage;
	Roomy c;

	c.verbs.device.max_sgl_rd = 4;
	c.verbs.device.max_fast_reg_pages = 100;
	c.begin();
	for (u32 i = 0; i < 4; i++) {
		TEST_NOTE("call", i);
		c.send_reads(200, 33, kFirst);
		EXPECT_EQ(c.receive(), 0);
		c.expect_reads(kFirst + 200 * 33);
		EXPECT_EQ(c.dma.regions, 1);
		/* None at first, then a fresh one, then one that is known still. */
		EXPECT_EQ(c.peer.local_invalidations, i ? i - 1 : 0);
	}
}

/* Whatever fails amid them: what was posted is the device's until the drain, and then all is given back. */
RPCORDMA_TEST(server_parts, reads_fail)
{
	for (u32 posted : {0u, 1u, 126u, 127u, 130u, 199u}) {
		TEST_NOTE("work requests posted", posted);
		Roomy c;

		c.begin();
		c.send_reads(200, 100);
		c.verbs.sends_left = posted;
		EXPECT_EQ(c.receive(), 0);
		EXPECT_EQ(c.svc.closed, 1);
		EXPECT_EQ(c.room_taken() != 0, posted != 0);
		EXPECT_EQ(c.dma.bulk_maps, posted ? 1 : 0);
		c.work();
		EXPECT_EQ(c.dma.bulk_maps, posted ? 1 : 0);
		c.verbs.sends_left = kNoLimit;
		if (!posted)
			c.expect_rest();
		c.end();
		EXPECT_EQ(c.dma.bulk_maps, 0);
		EXPECT_EQ(c.log.take(trace::Failure::post_failed), posted < 127 ? 1 : 0);
		EXPECT_EQ(c.log.take(trace::Failure::read_post_failed), posted < 127 ? 0 : 1);
		EXPECT_EQ(c.log.take(trace::Loss::rpc_failed), 1);
	}
	for (u32 failing : {0u, 126u, 127u, 199u}) {
		TEST_NOTE("failing work request", failing);
		Roomy c;

		c.begin();
		c.send_reads(200, 100);
		EXPECT_EQ(c.receive(), 0);
		c.verbs.fail_at = failing;
		c.verbs.fail_status = RPCORDMA_WC_REMOTE_ACCESS;
		c.work();
		EXPECT_EQ(c.svc.closed, 1);
		EXPECT_FALSE(c.svc.data);
		c.expect_nothing_left();
		EXPECT_EQ(c.log.take(trace::Failure::chunk_refused), 1);
		EXPECT_EQ(c.log.take(failing < 199 ? trace::Loss::chain_failed :
						     trace::Loss::read_failed),
			  1);
	}
	/* The end comes while the thread waits for room, for the first chain and for the second. */
	for (const bool second : {false, true}) {
		TEST_NOTE("second", second);
		Roomy c;

		rpcordma_server_tunables.max_requests = 1;
		c.begin();
		c.send_reads(200, 100);
		{
			const NoRoom others(c, second ? 128 : 0);

			c.verbs.fail_at = 0;
			c.verbs.fail_status = 12;
			c.sync.disconnect_in_wait = true;
			EXPECT_EQ(c.receive(), 0);
		}
		EXPECT_EQ(c.svc.closed, 1);
		EXPECT_EQ(c.dma.bulk_maps, second ? 1 : 0);
		c.verbs.fail_at = kNoLimit;
		c.end();
		EXPECT_EQ(c.log.take(trace::Failure::send_queue_full), 1);
		EXPECT_EQ(c.log.take(second ? trace::Loss::chain_failed : trace::Loss::disconnected),
			  1);
	}
}

/* The Writes of a reply, and behind the last chain of them the message. */
RPCORDMA_TEST(server_parts, writes)
{
	for (const u32 segments : {1u, 127u, 128u, 129u, 254u, 256u})
		for (const u32 sges : {1u, 4u, 32u}) {
			TEST_NOTE("segments", segments);
			TEST_NOTE("SGEs", sges);
			const u32 bytes = segments * 30 - 3;
			Roomy c;

			c.verbs.device.max_send_sge = sges;
			c.begin();
			EXPECT_EQ(c.send_sges(), sges);
			c.have_read(segments, 30);
			ASSERT_EQ(c.reply_read(bytes), 0);
			EXPECT_EQ(c.peer.messages, 0);
			c.work();
			ASSERT_FALSE(c.verbs.broken);
			EXPECT_EQ(c.peer.messages, 1);
			expect_written(kWrite, 20, bytes);
			const auto header = c.got();
			ASSERT_OK(header);
			EXPECT_EQ(header.value().kind, xdr::Kind::msg);
			EXPECT_EQ(counter(RPCORDMA_SERVER_WRITE), c.peer.writes);
			EXPECT_EQ(c.log.read_posts + c.log.read_completions, 0);
			EXPECT_EQ(c.log.write_posts > 0, c.peer.writes > 128);
			EXPECT_EQ(c.log.write_completions, c.log.write_posts);
			c.expect_nothing_left();
		}
	/* More are refused before the call is executed. */
	Roomy c;
	c.begin();
	CallMaker call(1);
	static constexpr xdr::Segment list[129] = {};
	call.encoder.write_chunk({list, 129});
	call.encoder.reply_chunk({list, 128});
	call.finish(40);
	ASSERT_TRUE(c.send(call));
	EXPECT_EQ(c.receive(), 0);
	c.work();
	c.expect_error(1, xdr::ErrorCode::chunk);
	EXPECT_EQ(c.log.take(trace::Failure::call_segments), 1);
	EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
}

/* Of each kind there may be as many segments as are looked at, and of the others none or all. */
RPCORDMA_TEST(server_parts, most_segments)
{
	constexpr u32 kMost = 256;
	static constexpr struct {
		u32 reads, writes, replies;
		bool good;
	} calls[] = {
		{.reads = 1, .writes = kMost, .replies = 0, .good = true},
		{.reads = 1, .writes = kMost + 1, .replies = 0, .good = false},
		{.reads = 1, .writes = kMost - 1, .replies = 1, .good = true},
		{.reads = 1, .writes = kMost, .replies = 1, .good = false},
		{.reads = 0, .writes = kMost, .replies = 0, .good = true},
		{.reads = 0, .writes = 1, .replies = kMost - 1, .good = true},
		{.reads = 0, .writes = 1, .replies = kMost, .good = false},
	};
	static constexpr xdr::Segment list[kMost + 1] = {};

	for (const auto &m : calls) {
		TEST_NOTE("reads", m.reads);
		TEST_NOTE("writes", m.writes);
		TEST_NOTE("replies", m.replies);
		Roomy c;
		CallMaker call(1);

		c.begin();
		if (m.reads)
			call.read(40, 10);
		call.encoder.write_chunk({list, m.writes});
		if (m.replies)
			call.encoder.reply_chunk({list, m.replies});
		call.finish(40);
		ASSERT_TRUE(c.send(call));
		c.work();
		const int length = 40 + (m.reads ? 12 : 0);
		EXPECT_EQ(c.receive(), m.good ? length : 0);
		if (m.good) {
			c.release();
			continue;
		}
		c.work();
		c.expect_error(1, xdr::ErrorCode::chunk);
		EXPECT_EQ(c.log.take(trace::Failure::call_segments), 1);
		EXPECT_EQ(c.log.failure_value, int(xdr::ErrorCode::system));
		EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
	}
}

/* As with Reads. */
RPCORDMA_TEST(server_parts, writes_fail)
{
	for (u32 posted : {0u, 1u, 127u, 128u, 130u, 200u}) {
		TEST_NOTE("work requests posted", posted);
		Roomy c;

		c.begin();
		c.have_read(200, 100);
		c.verbs.sends_left = posted;
		EXPECT_EQ(c.reply_read(20000), to_errno(Error::not_connected));
		EXPECT_EQ(c.svc.closed, 1);
		EXPECT_EQ(c.room_taken() != 0, posted != 0);
		EXPECT_EQ(c.dma.bulk_maps, posted ? 1 : 0);
		c.work();
		EXPECT_EQ(c.dma.bulk_maps, posted ? 1 : 0);
		c.verbs.sends_left = kNoLimit;
		if (!posted)
			c.expect_rest();
		c.end();
		EXPECT_EQ(c.dma.bulk_maps, 0);
		EXPECT_EQ(c.log.take(trace::Failure::post_failed), 1);
		EXPECT_EQ(c.log.take(trace::Failure::reply_failed), posted < 128 ? 1 : 0);
		EXPECT_EQ(c.log.take(trace::Loss::rpc_failed), 1);
	}
	for (u32 failing : {0u, 127u, 128u, 200u}) {
		TEST_NOTE("failing work request", failing);
		Roomy c;

		c.begin();
		c.have_read(200, 100);
		EXPECT_EQ(c.reply_read(20000), 0);
		c.verbs.fail_at = failing;
		c.verbs.fail_status = RPCORDMA_WC_REMOTE_ACCESS;
		c.work();
		EXPECT_EQ(c.svc.closed, 1);
		c.expect_nothing_left();
		EXPECT_EQ(c.log.take(trace::Failure::chunk_refused), 1);
		EXPECT_EQ(c.log.take(failing < 200 ? trace::Loss::chain_failed :
						     trace::Loss::send_failed),
			  1);
	}
}

/* Writes are cut short as long as a chain surely holds them, and others leave half of the queue empty. */
RPCORDMA_TEST(server_parts, longest_write)
{
	for (const u32 queue : {0u, 100u}) {
		TEST_NOTE("work requests", queue);
		Roomy c;

		if (queue)
			c.verbs.device.max_qp_wr = queue;
		c.begin();
		const u32 most = min(Transfer::kRequests, c.room() + c.room_taken());
		const u32 size = c.room();
		constexpr u32 pages = 100;
		WriteParts parts;

		EXPECT_EQ(size == most, queue != 0);
		for (const u32 sends : {1u, 3u})
			for (const u32 bytes :
			     {0u, kLongestWrite - 1, kLongestWrite, 5 * kLongestWrite}) {
				TEST_NOTE("sends", sends);
				TEST_NOTE("bytes", bytes);
				parts.send_count = sends;
				parts.bytes = bytes;
				parts.segments = most - sends - 1 - pages / c.send_sges() -
						 bytes / kLongestWrite;
				EXPECT_EQ(longest_write(*c.server, parts, pages), kLongestWrite);
				parts.segments++;
				EXPECT_EQ(longest_write(*c.server, parts, pages), ~0u);
			}
		parts = {};
		for (const u32 free : {size / 2 + 1, size / 2, size / 2 - 1, size}) {
			TEST_NOTE("free", free);
			const NoRoom others(c, free);

			EXPECT_EQ(longest_write(*c.server, parts, pages),
				  free > size / 2 ? kLongestWrite : ~0u);
		}
	}
}

/* It is their segments, pages and bytes that tell whether one chain holds Writes that are cut short. */
RPCORDMA_TEST(server_parts, cut_short)
{
	constexpr u32 kLong = 5 * kLongestWrite / 2, kShort = 8;
	/* Besides the segments: what pages and bytes may take, the Send, and one more. */
	constexpr u32 kOthers = Transfer::kPages / 32 + 2 + 2;

	for (const u32 segments :
	     {2u, Transfer::kRequests - kOthers, Transfer::kRequests - kOthers + 1}) {
		TEST_NOTE("segments", segments);
		const u32 bytes = kLong + (segments - 1) * kShort;
		const bool cut = segments + kOthers <= Transfer::kRequests;
		static xdr::Segment list[Transfer::kRequests];
		Roomy c;
		CallMaker call(1);

		c.peer.have(kLong + Transfer::kRequests * kShort);
		c.svc.limits.max_message = 2 * kLong;
		c.begin();
		list[0] = CallMaker::segment(kLong);
		for (u32 i = 1; i < segments; i++)
			list[i] = CallMaker::segment(kShort, kLong + (i - 1) * kShort);
		call.encoder.write_chunk({list, segments});
		call.finish(40);
		ASSERT_TRUE(c.send(call));
		ASSERT_EQ(c.receive(), 40);
		c.rqst->ddp_allowed = true;
		(void)rpcordma_core_server_result_payload(c.rqst->call, 20, bytes);
		c.rqst->reply = {};
		c.rqst->reply.head = Served::reply_tail(0, 20 + bytes);
		c.rqst->reply.len = 20 + bytes;
		c.rqst->reply_pages = 0;
		ASSERT_EQ(c.send_made_reply(), 0);
		c.release();
		c.work();
		ASSERT_FALSE(c.verbs.broken);
		EXPECT_EQ(c.peer.writes, segments + (cut ? 2 : 0));
		expect_written(0, 20, bytes);
		c.expect_nothing_left();
	}
}

RPCORDMA_SUITE(server_parts, reads, one_sge, waits, waits_in_all, registered, registered_by_choice,
	       reads_fail, writes, most_segments, writes_fail, longest_write, cut_short);

} // namespace rpcordma
