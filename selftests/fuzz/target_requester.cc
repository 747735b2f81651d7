// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/client, on arbitrary messages of its peer, over the doubles of the unit tests: an RPC completes once and
 * with its memory out of the peer's reach, or stays; no byte is written outside what was offered; credits keep
 * their bounds; whatever was wrong, the next connection serves. The input is a list of steps.
 */
#include "fuzz.hh"
#include "kunit/test_client_port.hh"

namespace rpcordma {
namespace {

constexpr u32 kCalls = 6, kReply = 400;

struct Fuzzed : Requester {
	rpc_rqst *calls[kCalls] = {};
	bool sent_[kCalls] = {};
	u32 xids = 0;

	/* A reply of ours ended at the right place: the head's bytes beyond the offer are as they were. */
	void check(u32 i)
	{
		rpc_rqst *rqst = calls[i];
		const u8 *head = static_cast<u8 *>(rqst->receive.head.base);

		if (!rqst->completed)
			return;
		EXPECT_TRUE(rqst->result < 0 || rqst->result <= int(kReply + 5000 + 3));
		for (u32 n = kReply; n < kReply + 64; n++)
			ASSERT_EQ(head[n], 0xee);
	}
	void finish(u32 i)
	{
		check(i);
		done(calls[i]);
		calls[i] = nullptr;
		sent_[i] = false;
	}
	void reconnect()
	{
		rpcordma_core_client_close(core);
		for (rpc_rqst *rqst : calls)
			if (rqst)
				EXPECT_FALSE(rqst->pinned);
		force_disconnects = 0;
		connect(nullptr, false);
	}
};

} // namespace
} // namespace rpcordma

FUZZ_TARGET()
{
	Input in;
	Fuzzed r;
	const u8 first = in.byte();
	const private_data::Properties peer = {1024u + (first & 3) * 1024u, 4096, bool(first & 4)};

	r.connect(first & 8 ? &peer : nullptr, first & 16);
	for (u32 step = 0; step < 60 && !in.empty(); step++) {
		TEST_NOTE("step", step);
		const u8 what = in.byte();
		const u32 i = (what >> 3) % kCalls;

		/* The end comes soon after it is asked for. */
		if (FakeClientPort::force_disconnects && (what & 7) != 1)
			r.reconnect();
		switch (what & 7) {
		case 0: /* a call */
			if (r.calls[i])
				break;
			r.calls[i] = r.prepare(++r.xids, 40 + in.byte() * 8, kReply);
			if (!r.calls[i])
				break;
			if (const u32 pages = in.below(5000))
				r.add_pages(r.calls[i], pages, in.byte() & 1);
			r.calls[i]->ddp_allowed = !(what & 0x80);
			break;
		case 1: /* it is sent */
			if (!r.calls[i] || r.calls[i]->completed || r.sent_[i])
				break;
			r.sent_[i] = r.transmit(r.calls[i]) == 0;
			break;
		case 2: /* the task is through with it, or gives it up */
			if (r.calls[i])
				r.finish(i);
			break;
		case 3: /* any bytes */
			(void)r.deliver(in.take(in.byte()));
			break;
		case 4: { /* its reply, more or less: the first words are right, and so may be an R_key */
			u8 bytes[512];
			const u32 xid = r.calls[i] ? r.calls[i]->xid : in.byte();
			const u8 kind = in.byte();
			const Bytes rest = in.take(in.byte());
			u32 at = 16;

			xdr::store_be32(bytes, xid);
			xdr::store_be32(bytes + 4, 1);
			xdr::store_be32(bytes + 8, kind >> 3);
			xdr::store_be32(bytes + 12, kind & 7);
			for (u8 byte : rest)
				bytes[at++] = byte;
			(void)r.deliver({bytes, at}, in.byte() & 1 ? 1000 + in.byte() : 0);
			break;
		}
		case 5: { /* its reply with the chunks that it offered last, of some length */
			const auto offered = v1::decode(
				{FakeServerPort::message, FakeServerPort::message_length});
			const u32 written = in.half(), replied = in.half();
			const u8 size = in.byte();

			if (!FakeServerPort::messages || !offered.ok())
				break;
			CallMaker reply(offered.value().xid.get(), size >> 4,
					replied ? v1::Proc::nomsg : v1::Proc::msg);
			for (v1::WriteChunk chunk : offered.value().writes)
				reply.encoder.write_chunk(chunk,
							  written < chunk.length() ? written : 0);
			if (offered.value().reply.present())
				reply.encoder.reply_chunk(offered.value().reply,
							  replied < offered.value().reply.length() ?
								  replied :
								  0);
			const auto end = reply.encoder.finish();
			if (!end.ok())
				break;
			reply.header = end.value();
			reply.length = reply.header + size;
			for (u32 n = 0; n < size; n++)
				reply.bytes[reply.header + n] = pattern(n);
			if (size >= 8) {
				xdr::store_be32(reply.bytes + reply.header, reply.xid);
				xdr::store_be32(reply.bytes + reply.header + 4, 1);
			}
			(void)r.deliver(reply.message());
			break;
		}
		case 6: /* a failure of the device, or of a post */
			if (what & 8) {
				FakeServerPort::fail_at = in.byte() & 3;
				FakeServerPort::fail_status = 2;
			} else {
				FakeServerPort::sends_left = what & 16 ? in.byte() & 3 :
									 FakePort::kNoLimit;
			}
			break;
		case 7: /* the backward service replies */
			if (FakeClientPort::backward) {
				rpc_rqst *rqst = FakeClientPort::backward;

				FakeClientPort::backward = nullptr;
				rqst->send.head.length = rqst->send.len = 24 + in.byte();
				(void)rpcordma_core_bc_send_reply(r.core, rqst->call);
				r.work();
				rpcordma_core_bc_free(r.core, rqst->call);
			}
			break;
		}
		EXPECT_LE(FakeClientPort::window, Requester::kSlots);
	}
	/* Whatever it was, the next connection serves. */
	FakeServerPort::sends_left = FakeServerPort::fail_at = FakePort::kNoLimit;
	if (FakeClientPort::backward)
		rpcordma_core_bc_free(r.core, FakeClientPort::backward->call);
	for (u32 i = 0; i < kCalls; i++)
		if (r.calls[i])
			r.finish(i);
	r.reconnect();
	rpc_rqst *last = r.call(0x7777);
	ASSERT_NE(last, nullptr);
	EXPECT_TRUE(r.reply(0x7777, 24));
	EXPECT_EQ(last->result, 24);
	r.done(last);
}
