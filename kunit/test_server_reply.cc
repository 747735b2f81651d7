// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replies: module/server/reply.cc. What is written where, what goes with the Send, and what the client
 * learns when a reply fits nowhere. See test_server_reply_failures.cc for what fails.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"

namespace rpcordma {

/* A READ: data to the Write chunk, the rest inline, in one post; pages are the device's until then. */
RPCORDMA_TEST(server_reply, write_chunk)
{
	for (u32 size : {1u, 100u, kPage, 3 * kPage + 17}) {
		TEST_NOTE("size", size);
		Connected c({.remote_invalidation = true});
		const u32 doorbells = c.verbs.send_doorbells;

		have_call(c, 4 * kPage, 0);
		EXPECT_EQ(rpcordma_core_server_result_payload(c.rqst->call, 60, size), 0);
		ASSERT_EQ(c.send_reply_pages(60, size, xdr_pad(size) + 8), 0);
		EXPECT_EQ(c.verbs.send_doorbells, doorbells + 1);
		EXPECT_EQ(c.verbs.sends, 2);
		c.release();
		/* The thread's pages are no more its own. */
		EXPECT_EQ(c.rqst->pages[0], nullptr);
		EXPECT_EQ(c.dma.bulk_maps, 1);
		EXPECT_EQ(c.in_service(), 1);
		c.work();
		EXPECT_EQ(c.dma.bulk_maps, 0);
		EXPECT_EQ(c.in_service(), 0);
		expect_written(kWrite, 60, size);
		const auto header = c.got();
		ASSERT_OK(header);
		EXPECT_EQ(header.value().writes.count(), 1);
		EXPECT_EQ(header.value().writes.total_length(), size);
		EXPECT_EQ(header.value().payload.size(), 68);
		EXPECT_EQ(c.peer.invalidated, PortPeer::kKey);
		EXPECT_EQ(counter(RPCORDMA_SERVER_WRITE), 1);
		EXPECT_EQ(c.room_taken(), 0);
		/* What was traced of it. */
		EXPECT_EQ(c.log.posted_entry, c.log.completed_entry);
		EXPECT_EQ(c.log.encoded.xid, 1);
		EXPECT_EQ(c.log.encoded.header_length, header.value().header_length);
		EXPECT_EQ(c.log.encoded.inline_length, 68);
		EXPECT_EQ(c.log.encoded.write_length, size);
		EXPECT_EQ(c.log.encoded.reply_length, 0);
		EXPECT_EQ(c.log.encoded.segments, 1);
		EXPECT_EQ(c.log.encoded.writes, 1);
		EXPECT_EQ(c.log.encoded.transmissions, 1);
		EXPECT_EQ(c.log.encoded.invalidate, PortPeer::kKey);
		EXPECT_EQ(c.log.count(trace::Bulk::reply_mapped), 1);
		EXPECT_EQ(c.log.count(trace::Bulk::reply_unmapped), 1);
		EXPECT_EQ(c.log.count(trace::Bulk::sink_unmapped), 0);
	}
}

/* A result that is announced from its length on, as nfsd does with an NFSv4 READLINK's text. */
RPCORDMA_TEST(server_reply, early_result)
{
	/* What stands where the length of a result belongs, and what behind that: is it moved? */
	const struct {
		u32 before = 0, at, begins;
	} cases[] = {
		{.at = 100, .begins = 64},
		{.before = 100, .at = 100, .begins = 60},
		{.before = 100, .at = 7, .begins = 60},
		{.at = 99, .begins = 60},
	};

	for (const auto &one : cases) {
		TEST_NOTE("before", one.before);
		TEST_NOTE("at", one.at);
		Connected c({.remote_invalidation = true});

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
			ASSERT_EQ(c.peer.memory[kWrite + i], c.reply_bytes[one.begins + i]);
		}
	}
	/* At the very ends of a reply. */
	for (const u32 offset : {0u, 2u, 198u, 200u, 4000000000u}) {
		TEST_NOTE("offset", offset);
		Connected c({.remote_invalidation = true});

		have_call(c, kPage, 0);
		(void)rpcordma_core_server_result_payload(c.rqst->call, offset, 100);
		ASSERT_EQ(c.send_reply(200), 0);
		c.release();
		c.work();
		ASSERT_OK(c.got());
	}
}

/* Behind one word alone stands that, and before the end no word is looked for that is not there. */
RPCORDMA_TEST(server_reply, early_result_at_end)
{
	const struct {
		u32 offset, length, size, begins;
	} cases[] = {
		{.offset = 4, .length = 100, .size = 200, .begins = 8},
		{.offset = 3, .length = 100, .size = 200, .begins = 3},
		{.offset = 96, .length = 0, .size = 100, .begins = 96},
		{.offset = 95, .length = 1, .size = 100, .begins = 99},
		{.offset = 97, .length = 3, .size = 100, .begins = 97},
	};

	for (const auto &one : cases) {
		TEST_NOTE("offset", one.offset);
		Connected c({.remote_invalidation = true});

		have_call(c, kPage, 0);
		(void)rpcordma_core_server_result_payload(c.rqst->call, one.offset, one.length);
		xdr::store_be32(c.reply_bytes + one.offset, one.length);
		ASSERT_EQ(c.send_reply(one.size), 0);
		c.release();
		c.work();
		const auto header = c.got();
		ASSERT_OK(header);
		EXPECT_EQ(header.value().writes.total_length(), one.length);
		for (u32 i = 0; i < one.length; i++) {
			TEST_NOTE("byte", i);
			ASSERT_EQ(c.peer.memory[kWrite + i], c.reply_bytes[one.begins + i]);
		}
	}
}

/* The same where these two words lie across the end of the reply's head, or behind it. */
RPCORDMA_TEST(server_reply, early_result_across)
{
	constexpr u32 kOffset = 60, kLength = 100;

	for (u32 head = kOffset - 8; head <= kOffset + 8; head++)
		for (const bool early : {false, true}) {
			TEST_NOTE("head", head);
			TEST_NOTE("early", early);
			Connected c({.remote_invalidation = true});
			u8 words[8] = {};

			have_call(c, kPage, 0);
			(void)rpcordma_core_server_result_payload(c.rqst->call, kOffset, kLength);
			c.have_reply_pages(head, 300, 0);
			xdr::store_be32(words + (early ? 4 : 0), kLength);
			for (u32 i = 0; i < 8; i++)
				c.reply_byte(kOffset - 4 + i) = words[i];
			u8 want[kLength];
			for (u32 i = 0; i < kLength; i++)
				want[i] = c.reply_byte(kOffset + (early ? 4 : 0) + i);
			ASSERT_EQ(c.send_made_reply(), 0);
			c.release();
			c.work();
			const auto header = c.got();
			ASSERT_OK(header);
			EXPECT_EQ(header.value().writes.total_length(), kLength);
			for (u32 i = 0; i < kLength; i++) {
				TEST_NOTE("byte", i);
				ASSERT_EQ(c.peer.memory[kWrite + i], want[i]);
			}
		}
}

/* Writes have as many SGEs as the device takes. */
RPCORDMA_TEST(server_reply, long_write)
{
	Connected c;

	have_call(c, 60 * kPage, 0);
	(void)rpcordma_core_server_result_payload(c.rqst->call, 60, 60 * kPage);
	ASSERT_EQ(c.send_reply_pages(60, 60 * kPage, 8), 0);
	EXPECT_EQ(c.verbs.sends, 3);
	c.release();
	c.work();
	expect_written(kWrite, 60, 60 * kPage);
}

/* What does not fit inline goes to the Reply chunk, the results beside it to theirs. */
RPCORDMA_TEST(server_reply, reply_chunk)
{
	static constexpr struct {
		bool ddp;
		u32 size;
	} cases[] = {{true, 700}, {true, 701}, {false, 700}};

	for (const auto &[ddp, size] : cases) {
		TEST_NOTE("ddp", ddp);
		TEST_NOTE("size", size);
		const u32 padded = size + xdr_pad(size);
		Connected c;

		have_call(c, 4 * kPage, 20 * kPage, ddp);
		(void)rpcordma_core_server_result_payload(c.rqst->call, 60, size);
		ASSERT_EQ(c.send_reply_pages(60, size, xdr_pad(size) + 2000), 0);
		c.release();
		c.work();
		const auto header = c.got();
		ASSERT_OK(header);
		EXPECT_EQ(header.value().kind, xdr::Kind::nomsg);
		EXPECT_EQ(header.value().reply.length(), ddp ? 2060 : 2760);
		EXPECT_EQ(header.value().writes.count(), 1);
		EXPECT_EQ(header.value().writes.total_length(), ddp ? size : 0);
		expect_written(kReply, 0, 60);
		if (ddp) {
			expect_written(kWrite, 60, size);
			expect_written(kReply + 60, 60 + padded, 2000);
		} else {
			expect_written(kReply + 60, 60, 2700);
		}
		EXPECT_EQ(c.peer.message_length, header.value().header_length);
	}
}

/* Chunks that are not needed come back, empty; the pages stay the thread's. */
RPCORDMA_TEST(server_reply, unused_chunks)
{
	Connected c;

	have_call(c, 1000, 1000);
	ASSERT_EQ(c.send_reply(100), 0);
	EXPECT_EQ(c.verbs.sends, 1);
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

/* A chunk without a segment is a chunk, too: it comes back where it stood, and its result stays inline. */
RPCORDMA_TEST(server_reply, chunk_without_segments)
{
	for (const bool first : {false, true})
		for (const u32 size : {100u, 4 * kPage + 17}) {
			TEST_NOTE("first", first);
			TEST_NOTE("size", size);
			Connected c;
			CallMaker call(1);

			if (first)
				call.encoder.write_chunk({});
			call.write(8 * kPage, kWrite);
			if (!first)
				call.encoder.write_chunk({});
			call.finish(40);
			ASSERT_TRUE(c.send(call));
			ASSERT_EQ(c.receive(), 40);
			c.rqst->ddp_allowed = true;
			if (first)
				(void)rpcordma_core_server_result_payload(c.rqst->call, 20, 0);
			(void)rpcordma_core_server_result_payload(c.rqst->call, 60, size);
			ASSERT_EQ(c.send_reply_pages(60, size, xdr_pad(size) + 8), 0);
			c.release();
			c.work();
			const auto header = c.got();
			ASSERT_OK(header);
			EXPECT_EQ(header.value().kind, xdr::Kind::msg);
			EXPECT_EQ(header.value().writes.count(), 2);
			EXPECT_EQ(header.value().writes.segments(), 1);
			EXPECT_EQ(header.value().writes.total_length(), size);
			EXPECT_EQ((*header.value().writes.begin()).count(), first ? 0 : 1);
			expect_written(kWrite, 60, size);
		}
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

		__builtin_memset(c.peer.memory, 0xee, PortPeer::kBytes);
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
		for (u32 i = 0; i < PortPeer::kBytes; i++)
			ASSERT_EQ(c.peer.memory[i], 0xee);
	}
}

/* Each result goes into its own Write chunk, however many there are, in calls that come one after the other in the same memory. */
RPCORDMA_TEST(server_reply, results_in_order)
{
	Connected c;
	u32 xid = 0;

	for (const u32 results : {6u, 4u, 5u, 1u, chunk::kMostResults, 2u}) {
		TEST_NOTE("results", results);
		CallMaker call(++xid);
		const u32 length = 44 + 16 * results;

		for (u32 i = 0; i < results; i++)
			call.write(8 + 4 * i, kWrite + 100 * i);
		call.finish(40);
		__builtin_memset(c.peer.memory + kWrite, 0, 100 * results);
		ASSERT_TRUE(c.send(call));
		ASSERT_EQ(c.receive(), 40);
		c.rqst->ddp_allowed = true;
		for (u32 i = 0; i < results; i++)
			EXPECT_EQ(rpcordma_core_server_result_payload(c.rqst->call, 44 + 16 * i, 8),
				  0);
		EXPECT_EQ(c.call_results(), results);
		ASSERT_EQ(c.reply(length), 0);
		c.work();
		for (u32 i = 0; i < results; i++)
			expect_written(kWrite + 100 * i, 44 + 16 * i, 8);
		const auto header = c.got();
		ASSERT_OK(header);
		EXPECT_EQ(header.value().writes.count(), results);
		EXPECT_EQ(header.value().writes.total_length(), 8 * results);
		EXPECT_EQ(header.value().payload.size(), length - 8 * results);
	}
}

/* Without memory to note them the connection ends, so that the client asks again: inline they might be too much. */
RPCORDMA_TEST(server_reply, results_without_memory)
{
	Connected c;

	have_call(c, 100, 0);
	c.memory.allocations_left = 0;
	for (u32 i = 0; i < 4; i++)
		EXPECT_EQ(rpcordma_core_server_result_payload(c.rqst->call, 40 + 16 * i, 8), 0);
	EXPECT_EQ(c.svc.closed, 0);
	EXPECT_EQ(rpcordma_core_server_result_payload(c.rqst->call, 104, 8), 0);
	EXPECT_EQ(c.svc.closed, 1);
	c.memory.allocations_left = kNoLimit;
	EXPECT_EQ(c.reply(300), to_errno(Error::not_connected));
}

/* More results than are remembered are inline ones. */
RPCORDMA_TEST(server_reply, many_results)
{
	Connected c;

	have_call(c, 100, 0);
	for (u32 i = 0; i < chunk::kMostResults + 3; i++)
		EXPECT_EQ(rpcordma_core_server_result_payload(c.rqst->call, 40 + 8 * i, 8), 0);
	EXPECT_EQ(c.call_results(), chunk::kMostResults);
	ASSERT_EQ(c.reply(300), 0);
	c.work();
	expect_written(kWrite, 40, 8);
	/* They are this call's, not those of the next one in the same memory. */
	for (u32 i = 0; i < 20; i++) {
		ASSERT_TRUE(c.send_inline(2));
		ASSERT_EQ(c.receive(), 40);
		ASSERT_EQ(c.call_results(), 0);
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
			Connected c({.remote_invalidation = able});

			have_call(c, chunk ? 100 : 0, 0);
			ASSERT_EQ(c.reply(20), 0);
			c.work();
			EXPECT_EQ(c.peer.invalidated, able && chunk ? PortPeer::kKey : 0);
			/* The next one that uses the same call has nothing of it. */
			for (u32 i = 0; i < 20; i++) {
				ASSERT_TRUE(c.send_inline(2));
				ASSERT_EQ(c.receive(), 40);
				ASSERT_EQ(c.reply(20), 0);
				c.work();
				ASSERT_EQ(c.peer.invalidated, 0);
			}
		}
}

/* A reply that fits nowhere is refused, without invalidation; the connection stays. */
RPCORDMA_TEST(server_reply, fits_nowhere)
{
	static constexpr struct {
		u32 write = 0, reply = 0, size = 0, inline_size;
	} replies[] = {
		{.inline_size = 997},		     /* not inline */
		{.reply = 900, .inline_size = 1000}, /* nor in the Reply chunk */
		{.write = 99,
		 .reply = 900,
		 .size = 100,
		 .inline_size = 60}, /* the result not in its Write chunk */
	};

	for (const auto &r : replies) {
		TEST_NOTE("size", r.inline_size);
		Connected c({.remote_invalidation = true});

		have_call(c, r.write, r.reply);
		if (r.size)
			(void)rpcordma_core_server_result_payload(c.rqst->call, 20, r.size);
		EXPECT_EQ(r.size ? c.send_reply_pages(20, r.size, r.inline_size - 20) :
				   c.send_reply(r.inline_size),
			  0);
		c.release();
		c.work();
		c.expect_error(1, xdr::ErrorCode::chunk);
		EXPECT_EQ(c.peer.writes, 0);
		EXPECT_EQ(c.svc.closed, 0);
		EXPECT_EQ(counter(RPCORDMA_SERVER_ERR_CHUNK), 1);
		ASSERT_TRUE(c.send_inline(2));
		ASSERT_EQ(c.receive(), 40);
		ASSERT_EQ(c.reply(20), 0);
		c.work();
		c.expect_reply(2, 20);
		EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
		EXPECT_EQ(c.log.take(trace::Failure::reply_no_room), 1);
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

/* A reply without chunks that goes on in pages and a tail: what is behind the head in memory is not of it. */
RPCORDMA_TEST(server_reply, inline_pages)
{
	for (const u32 head : {56u, 60u, 200u}) {
		TEST_NOTE("head", head);
		Connected c;

		have_call(c, 0, 0);
		__builtin_memset(c.reply_bytes + head, 0xee, 400);
		ASSERT_EQ(c.send_reply_pages(head, 100, 8), 0);
		c.release();
		c.work();
		const auto header = c.got();
		ASSERT_OK(header);
		ASSERT_EQ(header.value().payload.size(), head + 108);
		for (u32 i = 0; i < head + 108; i++) {
			TEST_NOTE("byte", i);
			ASSERT_EQ(header.value().payload.data()[i], pattern(i));
		}
	}
}

/* A READ of the largest payload that is announced, in as many pages as it can be: it starts within one. */
RPCORDMA_TEST(server_reply, largest_payload)
{
	const u32 payload = rpcordma_core_server_max_payload(kPage);

	for (const bool ddp : {true, false}) {
		TEST_NOTE("ddp", ddp);
		Connected c;
		rpcordma_xdr_buf &buf = c.rqst->reply;

		c.peer.have(payload + 128 * 1024);
		have_call(c, ddp ? payload : 0, ddp ? 0 : payload + 68, ddp);
		if (ddp)
			(void)rpcordma_core_server_result_payload(c.rqst->call, 60, payload);
		/* The head's page, the payload's and the tail's. */
		c.rqst->reply_pages = payload / kPage + 3;
		ASSERT_LE(c.rqst->reply_pages, svc_rqst::kPages);
		for (u32 i = 0; i < c.rqst->reply_pages; i++)
			if (!c.rqst->pages[i])
				c.rqst->pages[i] = c.memory.new_page();
		buf = {};
		buf.head = {c.reply_bytes, 60};
		buf.pages = c.rqst->pages + 1;
		buf.page_base = kPage - 3;
		buf.page_length = payload;
		buf.tail = c.reply_tail(60 + payload, 8);
		buf.len = payload + 68;
		for (u32 i = 0; i < payload; i++) {
			const u32 at = buf.page_base + i;

			buf.pages[at / kPage]->data[at % kPage] = pattern(60 + i);
		}
		ASSERT_EQ(c.send_made_reply(), 0);
		c.release();
		c.work();
		const auto header = c.got();
		ASSERT_OK(header);
		ASSERT_EQ(header.value().kind, ddp ? xdr::Kind::msg : xdr::Kind::nomsg);
		if (ddp)
			expect_written(kWrite, 60, payload);
		else
			expect_written(kReply, 0, payload + 68);
		EXPECT_EQ(c.room_taken(), 0);
	}
}

/* A reply in more pieces than can be described, as well. */
RPCORDMA_TEST(server_reply, too_many_pieces)
{
	constexpr u32 pages = Transfer::pieces_for(Transfer::kLargePages) + 2;
	Connected c;
	have_call(c, pages * kPage, 0);
	static_assert(pages + 8 <= svc_rqst::kPages);
	(void)rpcordma_core_server_result_payload(c.rqst->call, 20, pages * kPage);
	for (u32 i = 0; i < pages + 8; i++)
		if (!c.rqst->pages[i])
			c.rqst->pages[i] = c.memory.new_page();
	EXPECT_EQ(c.send_reply_pages(20, pages * kPage, 8), 0);
	c.release();
	c.work();
	c.expect_error(1, xdr::ErrorCode::chunk);
	EXPECT_EQ(c.peer.writes, 0);
	EXPECT_EQ(c.dma.bulk_maps, 0);
}

/*
 * RFC 8267 6.4.2: a Position Zero Read chunk and another one, a Write chunk and a Reply chunk, of sixteen
 * segments each, is what every client may send. (All four exceed 1024 bytes: two at a time.)
 */
RPCORDMA_TEST(server_reply, sixteen_segments)
{
	constexpr u32 n = 16;
	Connected c;
	CallMaker call(1, 64, xdr::Kind::nomsg);
	xdr::Segment write[n], reply[n];

	/* The inline part: 160 bytes, the chunk's 320 at its Position 80. */
	for (u32 i = 0; i < 160; i++)
		c.peer.memory[i] = call_pattern(i);
	xdr::store_be32(c.peer.memory, 1);
	xdr::store_be32(c.peer.memory + 4, 0);
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
		ASSERT_EQ(c.call_byte(80 + i), c.peer.memory[1000 + i / 20 * 30 + i % 20]);
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
	EXPECT_EQ(header.value().kind, xdr::Kind::nomsg);
	EXPECT_EQ(header.value().writes.segments(), n);
	EXPECT_EQ(header.value().writes.total_length(), 700);
	EXPECT_EQ(header.value().reply.count(), n);
	EXPECT_EQ(header.value().reply.length(), 2060);
	expect_written(kWrite, 60, 700);
	expect_written(kReply, 0, 60);
	expect_written(kReply + 60, 760, 2000);
	EXPECT_EQ(c.svc.closed, 0);
}

RPCORDMA_SUITE(server_reply, write_chunk, early_result, early_result_at_end, early_result_across,
	       long_write, reply_chunk, unused_chunks, chunk_without_segments, unannounced,
	       results_in_order, results_without_memory, many_results, invalidation, fits_nowhere,
	       largest_inline, inline_pages, largest_payload, too_many_pieces, sixteen_segments);

} // namespace rpcordma
