// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client of version 2 whose payload goes in Sends (rtrext-01's send-based placement): the data of WRITEs in DDP segments of
 * the server's, and those of READs in DDP segments of its own.
 */
#include "kunit/test_client_items.hh"
#include "module/rdma/transmission.hh"

namespace rpcordma {

/* From what is too long for one message to the most segments of four: one Send each, nothing registered, no Read. */
RPCORDMA_TEST(client_items, sizes)
{
	Placer r;
	constexpr u32 part = 2 * kSegment;
	u32 xid = 20;

	/* As long as it is inline it is sent inline. */
	rpc_rqst *call = r.write(9, part);
	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_EQ(decoded2(r.peer.last()).kind, xdr::Kind::msg);
	EXPECT_FALSE(decoded2(r.peer.last()).has_chunks());
	EXPECT_TRUE(r.reply2(9, 24));
	r.done(call);
	for (const u32 size :
	     {2 * part - 1, 2 * part, 2 * part + 1, 3 * part - 2, 4 * part - 3, 4 * part})
		EXPECT_TRUE(r.goes(++xid, size, div_round_up(size, part)));
	EXPECT_EQ(r.stats().sent_item_count, 6);
	EXPECT_EQ(r.stats().group_count, 0);
	EXPECT_EQ(r.stats().read_chunk_count, 0);
	EXPECT_EQ(r.dma.region_maps, 0);
	EXPECT_FALSE(r.goes(++xid, 4 * part + 1, 0));
	r.at_rest();
	/* What is behind the data is in the first one. */
	call = r.write(9, 2 * part);
	call->send.tail = {static_cast<u8 *>(call->send.head.base) + Requester::kRoom / 2, 8};
	__builtin_memset(call->send.tail.base, 0x77, 8);
	call->send.len += 8;
	EXPECT_EQ(rpcordma_core_send_request(r.core, call->call), 0);
	r.expect_item(9, 2 * part, 2, 2, 60, 8);
	EXPECT_TRUE(r.reply2(9, 24));
	r.done(call);
	r.at_rest();
}

/* The longest is what the parameter says, and it goes to who has segments for it, and takes groups. */
RPCORDMA_TEST(client_items, peer)
{
	constexpr u32 size = 5 * kSegment;

	EXPECT_FALSE(Placer(0u).goes(9, size, 3));
	EXPECT_FALSE(Placer(size - 1).goes(9, size, 3));
	EXPECT_TRUE(Placer(size).goes(9, size, 3));
	{
		Placer r(Placer::with(1 << 18));

		/* It has not grown. */
		EXPECT_FALSE(r.goes(9, size, 3));
		r.grow();
		EXPECT_TRUE(r.goes(10, size, 3));
		/* More than our Sends have pages for. */
		r.grow(2, 4096);
		EXPECT_FALSE(r.goes(11, 9000, 2));
	}
	for (u32 extensions = 0; extensions < 8; extensions++)
		for (const bool ours : {false, true}) {
			TEST_NOTE("extensions", extensions);
			GroupSetting setting = Placer::with(1 << 18);
			(ours ? setting.parameter : setting.extensions) = extensions;
			Placer r(setting);

			r.grow();
			EXPECT_EQ(r.goes(9, size, 3), extensions == 7);
		}
	for (u32 limit = 1; limit < 5; limit++) {
		TEST_NOTE("limit", limit);
		GroupSetting setting = Placer::with(1 << 18);
		setting.call_limit = limit;
		Placer r(setting);

		r.grow();
		EXPECT_EQ(r.goes(9, size, 3), limit >= 3);
		EXPECT_EQ(r.goes(10, 7 * kSegment, 4), limit >= 4);
	}
	for (u32 grant = 1; grant < 9; grant++) {
		TEST_NOTE("grant", grant);
		GroupSetting setting = Placer::with(1 << 18);
		setting.grant = grant;
		Placer r(setting);
		const bool fits = 4 <= grant - (grant + 3) / 4;

		r.grow();
		EXPECT_EQ(r.goes(9, 7 * kSegment, 4), fits);
		EXPECT_EQ(r.stats().credits_short, !fits);
	}
}

/* What is around the data has to fit the head that the peer has; and nothing is placed of what nobody may place. */
RPCORDMA_TEST(client_items, stream)
{
	constexpr u32 size = 5 * kSegment, header = 48 + 20 + 5 * 4;

	for (const u32 head : {kHead - header - 4, kHead - header, kHead - header + 4}) {
		TEST_NOTE("head", head);
		/* The head has room for no more than a call's. */
		if (head > Requester::kRoom)
			continue;
		Placer r;
		rpc_rqst *call = r.write(9, size, head);

		EXPECT_EQ(rpcordma_core_send_request(r.core, call->call), 0);
		EXPECT_EQ(r.stats().sent_item_count, head <= kHead - header);
		if (head <= kHead - header)
			r.expect_item(9, size, 3, 2, head);
		r.work();
		EXPECT_TRUE(r.reply2(9, 24));
		r.done(call);
		r.at_rest();
	}
	Placer r;
	rpc_rqst *call = r.write(9, size);
	call->ddp_allowed = false;
	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_EQ(r.stats().sent_item_count, 0);
	EXPECT_TRUE(r.reply2(9, 24));
	r.done(call);
	r.at_rest();
}

/* Without memory for its Sends a chunk carries it. */
RPCORDMA_TEST(client_items, memory)
{
	bool sent = false;

	for (u32 left = 0; left < 30; left++) {
		TEST_NOTE("allocations", left);
		Placer r;
		r.expect_more_with(left, r.write(9, 7 * kSegment), r.stats().sent_item_count, sent);
	}
	EXPECT_TRUE(sent);
}

/*
 * Who does not take what he said he takes gets no more of it for a while: who reports it, knows no XMTREQ, or looks at no
 * items though he has segments for them. The call goes by a chunk then.
 */
RPCORDMA_TEST(client_items, refused)
{
	/* A REPTERR; errors BAD_XDR, INVAL_OPTION, SYSTEM. */
	for (const u32 code : {0u, 2u, 5u, 6u}) {
		TEST_NOTE("error", code);
		Placer r;
		rpc_rqst *call = r.write(9, 5 * kSegment);

		EXPECT_EQ(r.transmit(call), 0);
		EXPECT_EQ(r.stats().sent_item_count, 1);
		EXPECT_TRUE(code ? r.refuse(9, code) : r.report(9));
		EXPECT_TRUE(r.is_lost());
		EXPECT_EQ(call->completed, 0);
		EXPECT_EQ(r.stats().repterr_count, 1);
		rpcordma_core_client_close(r.core);
		r.done(call);
		r.reconnect(Placer::with(1 << 18));
		r.grow();
		EXPECT_FALSE(r.goes(10, 5 * kSegment, 3));
		r.sync.now += kPlainMs;
		EXPECT_TRUE(r.goes(11, 5 * kSegment, 3));
		r.at_rest();
		EXPECT_EQ(r.log.take(trace::Failure::repterr_received), 1);
		EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), 1);
	}
}

namespace {

/* How a server places the item of a reply, right or wrong. */
struct Response {
	u32 before = 64;       /* bytes of the stream before it */
	u32 after = 0;	       /* and behind it */
	u32 size = 0;	       /* of the item, bytes */
	u32 transmissions = 0; /* 0: as many as it takes */
	u32 first_number = 0;  /* of its DDP segments */
	u32 cut = 0;	       /* segments that its list does not name */
	u32 offset = 0;	       /* within the first of them */
	rtrext::Type type = rtrext::Type::sent;
	u32 items = 1;
};

struct Reader : GroupRequester {
	static constexpr u32 kHeadRoom = 200; /* for a reply's head, as prepare() has it */

	static GroupSetting with(u32 send_read_max, u32 pages = 16)
	{
		GroupSetting setting;

		setting.pages = pages;
		setting.send_read_max = send_read_max;
		return setting;
	}
	explicit Reader(const GroupSetting &setting) : GroupRequester(setting)
	{
	}
	explicit Reader(u32 send_read_max = 1 << 18) : Reader(with(send_read_max))
	{
	}
	[[nodiscard]] properties::Structure room() const
	{
		return structure_of(connection()->receive_queue.maker().room());
	}
	/** Bytes of an item in each transmission. */
	[[nodiscard]] u32 part() const
	{
		return room().segments * room().segment_length;
	}
	/** The call @xid, a READ of @size; its reply has a tail of @tail bytes. */
	[[nodiscard]] rpc_rqst *read(u32 xid, u32 size, u32 tail = 40)
	{
		rpc_rqst *call = prepare(xid, 60, kHeadRoom);

		if (!call)
			return nullptr;
		add_pages(call, size, true);
		call->receive.tail = {test_alloc(tail).data(), tail};
		__builtin_memset(call->receive.tail.base, 0xdd, tail);
		call->receive.buflen += tail;
		return call;
	}
	/** Send it: whether it asks for its data in Sends, and for up to @replies of them. */
	[[nodiscard]] bool asks(rpc_rqst *call, u32 replies, u32 *least = nullptr)
	{
		const u32 asked = u32(stats().asked_item_count), in_flight = sunrpc.in_flight;
		rtrext::Request lead;

		EXPECT_EQ(transmit(call), 0);
		const auto message = decoded2(peer.last());
		EXPECT_EQ(sunrpc.in_flight, in_flight + 1);
		if (stats().asked_item_count == asked) {
			EXPECT_EQ(message.kind, xdr::Kind::msg);
			return false;
		}
		EXPECT_EQ(message.kind, xdr::Kind::optional);
		EXPECT_EQ(message.option, xdr::Option::xmtreq);
		EXPECT_EQ(rtrext::decode(message.body(), lead), Error::none);
		EXPECT_EQ(lead.transmissions, 1);
		EXPECT_EQ(lead.reply_transmissions, replies);
		EXPECT_EQ(lead.items.count(), 0);
		EXPECT_EQ(lead.sets.count(), 1);
		EXPECT_EQ(lead.sets.places(), 1);
		const rtrext::Set set = *lead.sets.begin();
		const rtrext::Place place = *set.places.begin();
		EXPECT_EQ(set.begin, 0);
		EXPECT_EQ(set.end, ~0u);
		EXPECT_EQ(place.type, rtrext::Type::sent);
		if (least)
			*least = place.least;
		EXPECT_EQ(lead.stream_length, 60);
		EXPECT_EQ(peer.message_length, message.header_length + 60);
		for (u32 i = 0; i < 60; i++)
			EXPECT_EQ(peer.message[message.header_length + i],
				  stream_byte(call->xid, i));
		EXPECT_EQ(dma.region_maps, 0);
		return true;
	}
	/** The reply to @xid as @how says; its bytes are pattern(). False: there was no Receive for all of it. */
	[[nodiscard]] bool respond(u32 xid, const Response &how)
	{
		const properties::Structure into = room();
		const bool sent = how.type == rtrext::Type::sent;
		const u32 segments = div_round_up(how.size + how.offset, into.segment_length),
			  stream = how.before + how.after +
				   (how.type == rtrext::Type::too_short ? how.size : 0),
			  needed = max(1u, div_round_up(segments + how.first_number, into.segments)),
			  count = how.transmissions ? how.transmissions :
				  sent		    ? needed :
						      1;
		static u8 whole[kHead + 16 * 4096]; /* too large for a kernel's stack */
		u32 numbers[70], at = 0;

		for (u32 i = 0; i < segments; i++)
			numbers[i] = how.first_number + i;
		for (u32 i = 0; i < count; i++) {
			u32 used;

			__builtin_memset(whole, 0, sizeof(whole));
			if (i) {
				used = rtrext::encode({whole, sizeof(whole)}, Xid(xid),
						      Credits(grant), xdr::Direction::reply,
						      {i, 2, 0})
					       .value();
			} else {
				rtrext::Encoder lead({whole, sizeof(whole)}, Xid(xid),
						     Credits(grant), xdr::Option::xmtresp);

				for (u32 n = 0; n < how.items; n++)
					if (sent)
						lead.sent(how.before + n * how.size, how.size,
							  how.offset, {numbers, segments - how.cut});
					else if (how.type == rtrext::Type::segments)
						lead.segments(how.before, how.size, {});
					else
						lead.unplaced(how.type == rtrext::Type::none ?
								      0 :
								      how.before,
							      how.type == rtrext::Type::none ?
								      0 :
								      how.size,
							      how.type);
				used = lead.finish(count, 0, stream).value();
				for (u32 b = 0; b < stream; b++)
					whole[used + b] = pattern(b);
				xdr::store_be32(whole + used, xid);
				xdr::store_be32(whole + used + 4, 1);
				used += stream;
			}
			/* Of the item, what lies in this one. */
			for (u32 s = 0; sent && s < into.segments; s++)
				for (u32 b = 0; b < into.segment_length; b++) {
					const u32 number = i * into.segments + s;

					if (number < how.first_number ||
					    (number == how.first_number && b < how.offset) ||
					    at == how.size)
						continue;
					used = into.head() + s * into.segment_length + b;
					whole[used++] = pattern(1000 + at++);
				}
			if (!deliver({whole, used}))
				return false;
		}
		return true;
	}
	/** What has become of it is the reply as it is, with its data where they belong. */
	void expect(const rpc_rqst *call, const Response &how)
	{
		const u32 pad = xdr_pad(how.size);
		u32 wrong = 0;

		TEST_NOTE("size", how.size);
		ASSERT_EQ(call->completed, 1);
		EXPECT_EQ(call->result, int(how.before + how.size + pad + how.after));
		EXPECT_EQ(call->receive.head.length, how.before);
		for (u32 i = 8; i < how.before; i++)
			wrong += static_cast<u8 *>(call->receive.head.base)[i] != pattern(i);
		for (u32 i = 0; i < how.size; i++)
			wrong += call->receive.pages[i / kPage]->data[i % kPage] !=
				 pattern(1000 + i);
		if (how.after) {
			const u8 *tail = static_cast<u8 *>(call->receive.tail.base);

			EXPECT_EQ(call->receive.page_length, how.size);
			for (u32 i = 0; i < pad; i++)
				wrong += tail[i] != 0;
			for (u32 i = 0; i < how.after; i++)
				wrong += tail[pad + i] != pattern(how.before + i);
		}
		EXPECT_EQ(wrong, 0);
	}
};

} // namespace

/* READs whose data come in one to four Sends, all of what was asked for or less: every byte is where it belongs. */
RPCORDMA_TEST(client_items, read)
{
	Reader r;
	const u32 part = r.part();
	u32 xid = 20, received = 0;

	ASSERT_GT(part, kPage);
	for (const u32 most : {2 * part, 2 * part + 1, 3 * part - 2, 4 * part - 3, 4 * part})
		for (const u32 size : {most, most - 1, kPage + 3, 1u})
			for (const u32 after : {0u, 8u}) {
				const Response how = {.before = after ? 60u : 64u,
						      .after = after,
						      .size = size};
				rpc_rqst *call = r.read(++xid, most);

				EXPECT_TRUE(r.asks(call, max(2u, div_round_up(most, part))));
				EXPECT_EQ(r.core->reserve.load(),
					  16 - max(2u, div_round_up(most, part)));
				EXPECT_TRUE(r.respond(xid, how));
				r.expect(call, how);
				r.done(call);
				EXPECT_EQ(r.stats().received_item_count, ++received);
				EXPECT_EQ(r.core->reserve.load(), 16);
				r.at_rest();
			}
	EXPECT_EQ(r.stats().write_chunk_count, 0);
	EXPECT_EQ(r.stats().bad_reply_count, 0);
	EXPECT_EQ(r.stats().local_inv_needed, 0);
	/* More than four transmissions have. */
	rpc_rqst *call = r.read(9, 4 * part + 1);
	EXPECT_FALSE(r.asks(call, 0));
	EXPECT_EQ(decoded2(r.peer.last()).writes.count(), 1);
	EXPECT_TRUE(r.reply2(9, 24));
	r.done(call);
	r.at_rest();
}

/* What is shorter than its direction says, or not there at all, is inline. */
RPCORDMA_TEST(client_items, read_inline)
{
	Reader r;
	const u32 most = 3 * r.part();
	u32 least = 0;
	rpc_rqst *call = r.read(9, most);

	EXPECT_TRUE(r.asks(call, 3, &least));
	/* One transmission has room for it, with all that may be around it. */
	EXPECT_EQ(least, (kHead + r.part() - 60 - Reader::kHeadRoom - 40) & ~3u);
	/* The head is full then, and the pages have the rest. */
	EXPECT_TRUE(r.respond(9, {.before = 200, .size = 100, .type = rtrext::Type::too_short}));
	EXPECT_EQ(call->result, 300);
	for (u32 i = 0; i < 100; i++)
		EXPECT_EQ(call->receive.pages[0]->data[i], pattern(200 + i));
	r.done(call);
	call = r.read(10, most);
	EXPECT_TRUE(r.asks(call, 3));
	EXPECT_TRUE(r.respond(10, {.before = 48, .type = rtrext::Type::none}));
	EXPECT_EQ(call->result, 48);
	r.done(call);
	/* An item without bytes; and a server that says nothing of it. */
	call = r.read(11, most);
	EXPECT_TRUE(r.asks(call, 3));
	EXPECT_TRUE(r.respond(11, {.before = 48}));
	EXPECT_EQ(call->result, 48);
	r.done(call);
	call = r.read(12, most);
	EXPECT_TRUE(r.asks(call, 3));
	EXPECT_TRUE(r.reply2(12, 48));
	EXPECT_EQ(call->result, 48);
	r.done(call);
	EXPECT_EQ(r.stats().received_item_count, 0);
	r.at_rest();
}

/* Any segments will do, from any place in the first on. */
RPCORDMA_TEST(client_items, read_anywhere)
{
	Reader r;
	const u32 segment = r.room().segment_length;
	u32 xid = 20;

	for (const u32 first : {0u, 1u, r.room().segments - 1, r.room().segments + 1})
		for (const u32 offset : {0u, 4u, segment - 1}) {
			const Response how = {.size = 2 * segment + 5,
					      .first_number = first,
					      .offset = offset};
			rpc_rqst *call = r.read(++xid, 3 * r.part());

			EXPECT_TRUE(r.asks(call, 3));
			EXPECT_TRUE(r.respond(xid, how));
			r.expect(call, how);
			r.done(call);
			r.at_rest();
		}
}

/* Replies that contradict their call, or themselves: it fails, or is sent again over another connection. */
RPCORDMA_TEST(client_items, read_contradicts)
{
	using rtrext::Fault;
	constexpr u32 kSize = 3 * 4096 - 8;
	const struct {
		const char *what;
		Response how;
		bool lost;	    /* with its connection; else the call fails */
		rtrext::Fault told; /* what the server is told first */
	} cases[] = {
		{"longer than the pages", {.size = 3 * 4096}, false, Fault::none},
		{"behind the head", {.before = 204, .size = 1000}, false, Fault::none},
		{"two items", {.size = 4, .items = 2}, true, Fault::offset},
		{"no item", {.before = 48, .size = 0, .items = 0}, false, Fault::none},
		{"in RDMA segments",
		 {.before = 48, .size = 0, .type = rtrext::Type::segments},
		 false,
		 Fault::none},
		{"a segment that is not there",
		 {.size = 1000, .first_number = 100, .cut = 0},
		 true,
		 Fault::segment},
		{"segments too few", {.size = 5000, .cut = 1}, true, Fault::segment},
		{"in the RPC header", {.before = 4, .size = 1000}, true, Fault::none},
		{"an empty transmission",
		 {.size = 1000, .transmissions = 1, .first_number = 20},
		 true,
		 Fault::segment},
	};

	for (const auto &one : cases) {
		TEST_NOTE("case", u32(&one - cases));
		Reader r;
		rpc_rqst *call = r.read(9, kSize);

		(void)one.what;
		EXPECT_TRUE(r.asks(call, max(2u, div_round_up(kSize, r.part()))));
		Response how = one.how;
		if (how.first_number >= 20)
			how.transmissions = 1;
		const u32 before = r.peer.messages;
		EXPECT_TRUE(r.respond(9, how));
		EXPECT_EQ(r.is_lost(), one.lost);
		EXPECT_EQ(r.peer.messages, before + (one.told != Fault::none));
		if (one.told != Fault::none)
			r.expect_report(9, 0, one.told, how.size > r.part());
		EXPECT_EQ(call->completed, !one.lost);
		for (u32 i = 0; i < kSize; i++)
			ASSERT_EQ(call->receive.pages[i / kPage]->data[i % kPage], 0xee);
		if (one.lost) {
			EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), 1);
			rpcordma_core_client_close(r.core);
			r.done(call);
			r.reconnect(Reader::with(1 << 18));
			/* Not again so soon. */
			call = r.read(10, kSize);
			EXPECT_FALSE(r.asks(call, 0));
			EXPECT_TRUE(r.reply2(10, 24));
		} else {
			EXPECT_EQ(call->result, to_errno(Error::io));
			EXPECT_EQ(r.log.take(trace::Failure::reply_contradicts), 1);
			EXPECT_EQ(r.stats().bad_reply_count, 1);
		}
		r.done(call);
		r.at_rest();
	}
	/* An item that no call asked for. */
	Reader r;
	rpc_rqst *call = r.call(9);
	EXPECT_TRUE(r.respond(9, {.before = 48, .type = rtrext::Type::none}));
	EXPECT_EQ(call->result, to_errno(Error::io));
	EXPECT_EQ(r.log.take(trace::Failure::reply_contradicts), 1);
	r.done(call);
	r.at_rest();
}

/* Who is asked: a server that takes XMTREQs and sends XMTRESPs of several; by who has pages for it, and is to. */
RPCORDMA_TEST(client_items, read_asked)
{
	const auto asks = [](Reader &&r, u32 size) {
		rpc_rqst *call = r.read(9, size);
		const bool asked = r.asks(call, max(2u, div_round_up(size, max(1u, r.part()))));

		EXPECT_TRUE(r.reply2(9, 24));
		r.done(call);
		r.at_rest();
		return asked;
	};
	constexpr u32 size = 3 * 4096;

	EXPECT_FALSE(asks(Reader(0u), size));
	EXPECT_FALSE(asks(Reader(size - 1), size));
	EXPECT_TRUE(asks(Reader(size), size));
	EXPECT_FALSE(asks(Reader(Reader::with(1 << 18, 0)), size));
	for (u32 extensions = 0; extensions < 8; extensions++)
		for (const bool ours : {false, true}) {
			TEST_NOTE("extensions", extensions);
			GroupSetting setting = Reader::with(1 << 18);
			(ours ? setting.parameter : setting.extensions) = extensions;
			EXPECT_EQ(asks(Reader(setting), size), extensions == 7);
		}
	for (u32 limit = 1; limit < 5; limit++) {
		TEST_NOTE("limit", limit);
		GroupSetting setting = Reader::with(1 << 18);
		setting.reply_limit = limit;
		/* Of sixteen pages each. */
		for (u32 n = 2; n <= 4; n++)
			EXPECT_EQ(asks(Reader(setting), n * 16 * kPage), n <= limit);
	}
	/* It takes no credit beyond its own, also where others leave none. */
	GroupSetting one = Reader::with(1 << 18);
	one.grant = 1;
	EXPECT_TRUE(asks(Reader(one), size));
	/* Nothing may be placed, or the head of a Receive is too short for what may be around it. */
	Reader r;
	rpc_rqst *call = r.read(9, size);
	call->ddp_allowed = false;
	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_EQ(r.stats().asked_item_count, 0);
	EXPECT_TRUE(r.reply2(9, 24));
	r.done(call);
	call = r.read(10, size, kHead - Reader::kHeadRoom);
	EXPECT_FALSE(r.asks(call, 0));
	EXPECT_TRUE(r.reply2(10, 24));
	r.done(call);
	r.at_rest();
}

/* A server that does not do so, whatever it says of itself, gets no more of it for a while; its call goes by a chunk. */
RPCORDMA_TEST(client_items, read_refused)
{
	/* Errors BAD_XDR, INVAL_OPTION, SYSTEM. */
	for (const u32 code : {2u, 5u, 6u}) {
		TEST_NOTE("error", code);
		Reader r;
		rpc_rqst *call = r.read(9, 3 * 4096);

		EXPECT_TRUE(r.asks(call, max(2u, div_round_up(3 * 4096u, r.part()))));
		EXPECT_TRUE(r.refuse(9, code));
		EXPECT_TRUE(r.is_lost());
		EXPECT_EQ(call->completed, 0);
		rpcordma_core_client_close(r.core);
		r.done(call);
		r.reconnect(Reader::with(1 << 18));
		call = r.read(10, 3 * 4096);
		EXPECT_FALSE(r.asks(call, 0));
		EXPECT_TRUE(r.reply2(10, 24));
		r.done(call);
		r.at_rest();
		EXPECT_EQ(r.log.take(trace::Failure::repterr_received), 1);
		EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), 1);
	}
}

/* A task that gives its READ up: what comes of it touches nothing. */
RPCORDMA_TEST(client_items, read_given_up)
{
	Reader r;
	rpc_rqst *call = r.read(9, 3 * 4096);

	EXPECT_TRUE(r.asks(call, max(2u, div_round_up(3 * 4096u, r.part()))));
	r.done(call);
	EXPECT_EQ(r.sunrpc.in_flight, 1);
	EXPECT_TRUE(r.respond(9, {.size = 3 * 4096}));
	EXPECT_EQ(r.sunrpc.in_flight, 0);
	EXPECT_EQ(r.core->reserve.load(), 16);
	EXPECT_EQ(r.stats().received_item_count, 0);
	r.at_rest();
}

/* Without Receives for its reply, or memory for its Send, a READ offers a Write chunk. */
RPCORDMA_TEST(client_items, read_short)
{
	Reader r;
	const u32 size = 3 * r.part();
	rpc_rqst *calls[6];

	for (u32 i = 0; i < 6; i++) {
		calls[i] = r.read(20 + i, size);
		if (i < 5)
			EXPECT_TRUE(r.asks(calls[i], 3));
		else
			EXPECT_EQ(r.transmit(calls[i]), 0);
		EXPECT_EQ(r.core->reserve.load(), 16 - 3 * min(i + 1, 5u));
	}
	EXPECT_EQ(r.stats().asked_item_count, 5);
	EXPECT_EQ(r.stats().reserve_short, 1);
	EXPECT_EQ(decoded2(r.peer.last()).writes.count(), 1);
	for (u32 i = 0; i < 6; i++) {
		EXPECT_TRUE(r.reply2(20 + i, 24));
		r.done(calls[i]);
	}
	EXPECT_EQ(r.core->reserve.load(), 16);
	r.at_rest();
}

RPCORDMA_SUITE(client_items, sizes, peer, stream, memory, refused, read, read_inline, read_anywhere,
	       read_contradicts, read_asked, read_refused, read_given_up, read_short);

} // namespace rpcordma
