// SPDX-License-Identifier: GPL-2.0-only
/* A client of version 2 whose WRITEs' data go in Sends, into DDP segments of the server's; see test_client_groups.hh. */
#pragma once

#include "kunit/test_client_groups.hh"
#include "module/chunk/placement.hh"

namespace rpcordma {

/* Bytes of a segment that a server of these has. */
static constexpr u32 kSegment = 2048;

struct Placer : GroupRequester {
	/* Bytes of the server's heads, from which on they have segments. */
	u32 before_segments = kHead;

	static GroupSetting with(u32 send_write_max)
	{
		GroupSetting setting;

		setting.pages = 16;
		setting.send_write_max = send_write_max;
		return setting;
	}
	explicit Placer(const GroupSetting &setting) : GroupRequester(setting)
	{
	}
	explicit Placer(u32 send_write_max = 1 << 18) : Placer(with(send_write_max))
	{
		grow();
	}
	/* The server's Receives have so many segments. */
	void grow(u32 segments = 2, u32 segment_length = kSegment, u32 head = kHead)
	{
		u8 room[128];
		const auto said = protocol::encode_sizes({room, sizeof(room)}, Xid(0),
							 Credits(grant),
							 {head, segments, segment_length});

		before_segments = head;
		EXPECT_TRUE(deliver({room, said.value()}));
	}
	[[nodiscard]] rpc_rqst *write(u32 xid, u32 size, u32 head = 60)
	{
		rpc_rqst *call = prepare(xid, head);

		if (call)
			add_pages(call, size, false);
		return call;
	}
	/* Each Send of the call @xid, a WRITE of @size, is an XMTREQ or XMTCONT, and has its part where the segments are. */
	void expect_item(u32 xid, u32 size, u32 count, u32 segments = 2, u32 head = 60,
			 u32 tail = 0, u32 base = 0)
	{
		u32 at = 0, wrong = 0;

		TEST_NOTE("xid", xid);
		ASSERT_EQ(verbs.sends, count);
		for (u32 i = 0; i < count; i++) {
			TEST_NOTE("transmission", i);
			ASSERT_EQ(work(1), 1);
			const auto message = decoded2(peer.last());
			const u32 n = min(size - at, segments * kSegment);
			u32 used = message.header_length;

			EXPECT_EQ(message.kind, xdr::Kind::optional);
			EXPECT_EQ(message.xid, Xid(xid));
			if (i) {
				rtrext::Continuation more;
				EXPECT_EQ(rtrext::decode(message.body(), more), Error::none);
				EXPECT_EQ(more.number, i);
				EXPECT_EQ(more.lead, static_cast<u32>(xdr::Option::xmtreq));
				EXPECT_EQ(more.stream_length, 0);
			} else {
				rtrext::Request lead;
				EXPECT_EQ(rtrext::decode(message.body(), lead), Error::none);
				EXPECT_EQ(lead.transmissions, count);
				EXPECT_EQ(lead.stream_length, head + tail);
				ASSERT_EQ(lead.items.count(), 1);
				const rtrext::Item item = *lead.items.begin();
				EXPECT_EQ(item.type, rtrext::Type::sent);
				EXPECT_EQ(item.displacement, head);
				EXPECT_EQ(item.length, size);
				EXPECT_EQ(item.offset, 0);
				ASSERT_EQ(item.numbers.count(), div_round_up(size, kSegment));
				for (u32 k = 0; k < item.numbers.count(); k++)
					EXPECT_EQ(item.numbers[k], k);
				for (u32 k = 0; k < head; k++)
					wrong += peer.message[used + k] != stream_byte(xid, k, head);
				for (u32 k = 0; k < tail; k++)
					wrong += peer.message[used + head + k] != 0x77;
				used += head + tail;
			}
			for (; used < before_segments; used++)
				wrong += peer.message[used] != 0;
			ASSERT_EQ(peer.message_length, before_segments + n);
			for (u32 k = 0; k < n; k++)
				wrong += peer.message[before_segments + k] != pattern(base + at + k);
			at += n;
		}
		EXPECT_EQ(at, size);
		EXPECT_EQ(wrong, 0);
		log.expect_group(0, "sent", {xid, 3, count - 1, 0, 0});
		balance();
	}
	/* Whether a WRITE of @size goes in @count Sends, and is answered; else it went by a Read chunk. */
	[[nodiscard]] bool goes(u32 xid, u32 size, u32 count, u32 segments = 2)
	{
		return goes_but_for(kNoLimit, xid, size, count, segments);
	}
	/* The same where there is no memory for one allocation, the one after @refused that sending it makes. */
	[[nodiscard]] bool goes_but_for(u32 refused, u32 xid, u32 size, u32 count, u32 segments = 2)
	{
		rpc_rqst *call = write(xid, size);
		const u32 items = u32(stats().sent_item_count);

		memory.allocation_refused_at = refused;
		EXPECT_EQ(rpcordma_core_send_request(core, call->call), 0);
		memory.allocation_refused_at = kNoLimit;
		const bool sent = stats().sent_item_count == items + 1;
		if (sent) {
			EXPECT_EQ(sunrpc.in_flight, count);
			expect_item(xid, size, count, segments);
		} else {
			EXPECT_EQ(sunrpc.in_flight, 1);
			work();
			const auto message = decoded2(peer.last());
			EXPECT_EQ(message.kind, xdr::Kind::msg);
			EXPECT_EQ(message.reads.count(), 1);
			EXPECT_EQ(message.reads.total_length(), size);
		}
		EXPECT_TRUE(reply2(xid, 24));
		EXPECT_EQ(call->result, 24);
		done(call);
		EXPECT_EQ(sunrpc.in_flight, 0);
		return sent;
	}
};

} // namespace rpcordma
