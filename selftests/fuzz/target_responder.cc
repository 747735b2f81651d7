// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/server, on arbitrary messages and replies, over the doubles of the unit tests: whatever a client sends,
 * each message of ours decodes, grants a credit, and answers an xid that came; sinks, Receives, memory and room
 * come back; no misuse of the port. The input is a list of steps.
 */
#include "fuzz.hh"
#include "kunit/test_server_connection.hh"

namespace rpcordma {
namespace {

constexpr u32 kXids = 64;

struct Fuzzed : Connected {
	u32 xids[kXids] = {};
	u32 xid_count = 0;
	u32 seen_messages = 0;
	bool backward = false;

	using Connected::Connected;
	/* Every message of ours is in order. */
	void look()
	{
		if (messages == seen_messages)
			return;
		seen_messages = messages;
		ASSERT_GE(message_length, 20);
		const u32 xid = xdr::load_be32(message), vers = xdr::load_be32(message + 4);
		bool known = false;

		for (u32 i = 0; i < min(xid_count, kXids); i++)
			known = known || xids[i] == xid;
		EXPECT_TRUE(known || xid_count > kXids);
		EXPECT_NE(xdr::load_be32(message + 8), 0);
		/* ERR_VERS echoes whatever version there was. */
		if (vers == 1)
			EXPECT_OK(got());
		else
			EXPECT_EQ(xdr::load_be32(message + 12), 4);
		EXPECT_LE(message_length, server->send_size);
	}
	void work_some(u32 n)
	{
		while (n-- && FakeServerPort::work(1))
			look();
	}
	bool deliver(Bytes bytes)
	{
		if (bytes.size() >= 4)
			xids[xid_count++ % kXids] = xdr::load_be32(bytes.data());
		const ExactCopy copy(bytes.first(server->receive_size));
		return FakeServerPort::send(server, copy.bytes());
	}
};

} // namespace
} // namespace rpcordma

FUZZ_TARGET()
{
	Input in;
	Fuzzed c(in.byte() & 1);

	for (u32 step = 0; step < 60 && !in.empty() && !FakeServerPort::closed; step++) {
		TEST_NOTE("step", step);
		const u8 what = in.byte();

		switch (what & 7) {
		case 0: /* any bytes */
			if (!c.deliver(in.take(in.byte())))
				return;
			break;
		case 1: /* a header of this or that, and a call behind it */
		case 2: {
			const u8 kind = in.byte();
			CallMaker call(in.byte(), in.byte(),
				       kind & 0x80 ? v1::Proc::nomsg : v1::Proc::msg);

			for (u32 i = 0; i < (kind & 3); i++)
				call.read(kind & 0x80 && !i ? 0 : in.byte() * 4, in.below(3000),
					  in.half());
			for (u32 i = 0; i < ((kind >> 2) & 3); i++)
				call.write(in.below(3000), in.half());
			if (kind & 0x10)
				call.reply(in.below(6000), in.half());
			/* A list that cannot be built is no step. */
			const auto end = call.encoder.finish();
			if (!end.ok())
				break;
			call.header = end.value();
			const u32 size = kind & 0x80 ?
						 0 :
						 min(in.byte() * 2u, CallMaker::kRoom - call.header);
			call.length = call.header + size;
			for (u32 i = 0; i < size; i++)
				call.bytes[call.header + i] = call_pattern(i);
			if (size >= 8) {
				xdr::store_be32(call.bytes + call.header, call.xid);
				xdr::store_be32(call.bytes + call.header + 4, kind & 0x20 ? 1 : 0);
			}
			if (!c.deliver(call.message()))
				return;
			break;
		}
		case 3: /* the device */
			c.work_some(1 + in.byte());
			break;
		case 4: /* a thread: it takes what there is, and replies, or not */
		case 5: {
			if (c.receive() <= 0)
				break;
			c.rqst->ddp_allowed = !(what & 8);
			const u32 head = in.byte() & ~3u, size = in.below(4000), tail = in.byte();
			if (what & 16 && size)
				(void)rpcordma_core_server_result_payload(c.rqst->call, head, size);
			if (what & 32)
				(void)(what & 64 ? c.send_reply(head + tail) :
						   c.send_reply_pages(head, size, tail));
			c.release();
			c.fill_thread();
			break;
		}
		case 6: { /* a backward call */
			rpcordma_xdr_buf buf = {};
			const u32 size = 40 + in.byte();

			c.xids[c.xid_count++ % kXids] = what;
			buf.head = {c.reply_bytes, size};
			buf.len = size;
			FakeServerPort::backward_known = what & 8;
			(void)rpcordma_core_server_send_backward(c.server, what, &buf);
			break;
		}
		case 7: /* something runs short, or no longer */
			FakePort::allocations_left = what & 8 ? in.byte() & 7 : FakePort::kNoLimit;
			FakeServerPort::pages_left = what & 16 ? in.byte() & 7 : FakePort::kNoLimit;
			FakeServerPort::bulks_left = what & 32 ? in.byte() & 3 : FakePort::kNoLimit;
			break;
		}
		EXPECT_EQ(FakePort::posted, c.server->posted);
	}
	FakePort::allocations_left = FakeServerPort::pages_left = FakeServerPort::bulks_left =
		FakePort::kNoLimit;
}
