// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls put together from Read chunks and inline parts: deliver() in module/server/receive.cc, byte by
 * byte, with a sink that is mapped, or registered. Both are over bounce buffers (test_rdma_port_dma.hh), so
 * that a part which is written before the sink is unmapped is lost.
 */
#include "kunit/test_server_connection.hh"
#include "kunit/testing.hh"

namespace rpcordma {
namespace {

/** A Read chunk of one segment; bytes 0: none. */
struct ReadChunk {
	u32 position, bytes;
	u32 from; /* in the client's memory */
};

struct Form {
	u32 inline_bytes; /* of a call; 0: an RDMA_NOMSG */
	u32 length;	  /* of the message, with all pads */
	ReadChunk chunks[4];
};

/* Positions count what precedes: inline parts, chunks and their pads. */
constexpr Form kForms[] = {
	/* One chunk: its pages alone, with a pad and without. */
	{.inline_bytes = 60,
	 .length = 60 + 104,
	 .chunks = {{.position = 40, .bytes = 101, .from = 1000}}},
	{.inline_bytes = 60,
	 .length = 60 + 2 * kPage,
	 .chunks = {{.position = 40, .bytes = 2 * kPage, .from = 1000}}},
	/* Several, with inline parts ahead, between and behind, that begin and end within pages. */
	{.inline_bytes = 80,
	 .length = 80 + 700 + 304,
	 .chunks = {{.position = 40, .bytes = 698, .from = 1000},
		    {.position = 760, .bytes = 301, .from = 5000}}},
	{.inline_bytes = 100,
	 .length = 100 + 104 + 8 + 600,
	 .chunks = {{.position = 40, .bytes = 102, .from = 1000},
		    {.position = 164, .bytes = 5, .from = 3000},
		    {.position = 192, .bytes = 600, .from = 5000}}},
	/* The message ends with a chunk, and with its pad. */
	{.inline_bytes = 60,
	 .length = 60 + 400 + 300,
	 .chunks = {{.position = 40, .bytes = 400, .from = 1000},
		    {.position = 460, .bytes = 299, .from = 3000}}},
	/* Nothing but a pad is between two of them. */
	{.inline_bytes = 60,
	 .length = 60 + 304 + 400,
	 .chunks = {{.position = 40, .bytes = 303, .from = 1000},
		    {.position = 344, .bytes = 400, .from = 3000}}},
	/* An inline part is a whole page. */
	{.inline_bytes = 40 + kPage + 20,
	 .length = 60 + kPage + 216 + 104,
	 .chunks = {{.position = 40, .bytes = 216, .from = 1000},
		    {.position = 256 + kPage, .bytes = 103, .from = 3000}}},
	/* Position Zero: all of it is pulled, alone and with another chunk; and ends with a pad. */
	{.inline_bytes = 0, .length = 1000, .chunks = {{.position = 0, .bytes = 1000, .from = 100}}},
	{.inline_bytes = 0,
	 .length = 780,
	 .chunks = {{.position = 0, .bytes = 80, .from = 200},
		    {.position = 40, .bytes = 700, .from = 1000}}},
	{.inline_bytes = 0,
	 .length = 784,
	 .chunks = {{.position = 0, .bytes = 80, .from = 200},
		    {.position = 40, .bytes = 701, .from = 1000}}},
};

/* Byte @at of the message that @form makes. */
u8 expected(const Form &form, u32 at)
{
	const ReadChunk *const zero = form.inline_bytes ? nullptr : &form.chunks[0];
	u32 pulled = 0; /* ahead of @at, pads included */

	for (const ReadChunk &chunk : form.chunks) {
		if (!chunk.bytes || &chunk == zero || at < chunk.position)
			continue;
		if (at < chunk.position + chunk.bytes)
			return the_port->peer.memory[chunk.from + at - chunk.position];
		pulled += chunk.bytes + xdr_pad(chunk.bytes);
		if (at < chunk.position + chunk.bytes + xdr_pad(chunk.bytes))
			return 0;
	}
	at -= pulled;
	return zero ? the_port->peer.memory[zero->from + at] : call_pattern(at);
}

/* Have @form sent and delivered. @held: there is no sink when it comes. */
void expect_delivered(Served &c, const Form &form, bool held)
{
	CallMaker call(1, 64, form.inline_bytes ? xdr::Kind::msg : xdr::Kind::nomsg);

	for (const ReadChunk &chunk : form.chunks)
		if (chunk.bytes)
			call.read(chunk.position, chunk.bytes, chunk.from);
	call.finish(form.inline_bytes);
	if (held) {
		const NoTransfers none;

		ASSERT_TRUE(c.send(call));
		ASSERT_EQ(c.receive(), 0);
	} else {
		ASSERT_TRUE(c.send(call));
	}
	EXPECT_FALSE(c.svc.data);
	c.work();
	ASSERT_EQ(c.receive(), int(form.length));
	/* The xid and the direction are as they are. */
	for (u32 i = form.inline_bytes ? 8 : 0; i < form.length; i++) {
		TEST_NOTE("byte", i);
		ASSERT_EQ(c.call_byte(i), expected(form, i));
	}
	EXPECT_EQ(c.dma.bulk_maps, 0);
	EXPECT_EQ(c.dma.region_maps, 0);
	c.release();
}

} // namespace

RPCORDMA_TEST(server_sink, mapped)
{
	u32 number = 0;

	for (const Form &form : kForms) {
		TEST_NOTE("form", number++);
		for (const bool held : {false, true}) {
			TEST_NOTE("held", held);
			Connected c;

			expect_delivered(c, form, held);
			EXPECT_EQ(c.dma.regions, 0);
		}
	}
}

/* The same where the sink has to be registered; in one region, and in several. */
RPCORDMA_TEST(server_sink, registered)
{
	for (const u32 region_pages : {130u, 2u}) {
		u32 number = 0;

		TEST_NOTE("pages of a region", region_pages);
		for (const Form &form : kForms) {
			TEST_NOTE("form", number++);
			if (form.length > Transfer::kMostRegions * region_pages * kPage)
				continue;
			Iwarp c;

			c.set_region_pages(region_pages);
			/* The first makes the regions, which a completion does not. */
			expect_delivered(c, form, true);
			for (const bool held : {false, true}) {
				TEST_NOTE("held", held);
				expect_delivered(c, form, held);
			}
			EXPECT_EQ(c.svc.counters[RPCORDMA_SERVER_EAGER], 1);
		}
	}
}

/*
 * The largest payload where it has to be registered: as far as the regions of one chain go. What is longer is refused, and
 * nothing is read.
 */
RPCORDMA_TEST(server_sink, largest_registered)
{
	static constexpr struct {
		u32 region_pages, work_requests, pages, regions;
	} devices[] = {
		{1028, 4096, 1024, 4},
		{128, 4096, 1024, 8},
		{32, 4096, 1024, 32},
		{31, 4096, 1023, 33},
		{16, 4096, 528, 33},
		/* A queue of 59: 28 regions are registered and invalidated by 56. */
		{32, 60, 896, 28},
	};
	u32 number = 0;

	for (const auto &device : devices) {
		TEST_NOTE("device", number++);
		Served c;

		c.verbs.device.read_needs_region = true;
		c.verbs.device.max_fast_reg_pages = device.region_pages;
		c.verbs.device.max_qp_wr = device.work_requests;
		c.svc.limits.max_message = 1025 * kPage;
		c.svc.limits.max_pages = 1025;
		c.thread_pages = 1027;
		c.peer.have(1030 * kPage);
		c.dma.most_regions = device.regions;
		c.fill_thread();
		c.connect();
		for (const bool fits : {true, false}) {
			TEST_NOTE("fits", fits);
			CallMaker call(1);

			if (!fits && device.pages == 1024)
				break;
			call.read(40, (device.pages + !fits) * kPage, 33);
			call.finish(60);
			ASSERT_TRUE(c.send(call));
			c.work();
			EXPECT_EQ(c.receive(), 0);
			c.work();
			if (!fits) {
				c.expect_error(1, xdr::ErrorCode::chunk);
				EXPECT_EQ(c.log.take(trace::Failure::call_too_long), 1);
				EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
				continue;
			}
			EXPECT_EQ(c.dma.regions, device.regions);
			EXPECT_EQ(c.log.take(trace::Failure::send_queue_full) > 0,
				  device.work_requests < 100);
			ASSERT_EQ(c.receive(), int(60 + device.pages * kPage));
			for (u32 i = 0; i < device.pages * kPage; i++)
				ASSERT_EQ(c.call_pages()[i / kPage]->data[i % kPage],
					  c.peer.memory[33 + i]);
			c.release();
		}
	}
}

/* A device that has better Reads by regions (max_sgl_rd), and page lists too short for this sink: it reads by SGEs. */
RPCORDMA_TEST(server_sink, largest_by_sges)
{
	for (const bool fits : {true, false}) {
		TEST_NOTE("fits", fits);
		const u32 pages = 33 * 16 + !fits;
		Served c;

		c.verbs.device.max_sgl_rd = 1;
		c.verbs.device.max_fast_reg_pages = 16;
		c.svc.limits.max_message = 1025 * kPage;
		c.svc.limits.max_pages = 1025;
		c.thread_pages = 1027;
		c.peer.have(1030 * kPage);
		c.dma.most_regions = 33;
		c.fill_thread();
		c.connect();
		/* The first asks for the regions that the second has. */
		for (const u32 regions : {0, 33}) {
			CallMaker call(1);

			call.read(40, pages * kPage, 33);
			call.finish(60);
			ASSERT_TRUE(c.send(call));
			c.work();
			EXPECT_EQ(c.receive(), 0);
			EXPECT_EQ(c.dma.region_maps, fits ? regions : 0);
			c.work();
			ASSERT_EQ(c.receive(), int(60 + pages * kPage));
			for (u32 i = 0; i < pages * kPage; i++)
				ASSERT_EQ(c.call_pages()[i / kPage]->data[i % kPage],
					  c.peer.memory[33 + i]);
			c.release();
			(void)c.log.take(trace::Failure::send_queue_full);
		}
	}
}

/* A sink whose Reads failed is unmapped as well, and its pages are good for the next call. */
RPCORDMA_TEST(server_sink, failed)
{
	for (u32 failing = 0; failing < 2; failing++) {
		TEST_NOTE("failing work request", failing);
		Connected c;
		CallMaker call(1);

		call.read(40, 300);
		call.read(360, 300);
		call.finish(80);
		ASSERT_TRUE(c.send(call));
		c.verbs.fail_at = failing;
		c.verbs.fail_status = 12;
		c.work();
		EXPECT_EQ(c.dma.bulk_maps, 0);
		EXPECT_EQ(c.in_service(), 0);
		c.end();
		c.connect();
		expect_delivered(c, kForms[2], false);
	}
}

RPCORDMA_SUITE(server_sink, mapped, registered, largest_registered, largest_by_sges, failed);

} // namespace rpcordma
