// SPDX-License-Identifier: GPL-2.0-only
/*
 * A server's connection of version 2 whose calls have directions for their results (rtrext-01 7.4): what comes of each, byte for
 * byte, as a requester has to take it; what is copied and what is not; what a client gets that says odd things; and what is
 * left when it cannot be sent. The decisions themselves are test_chunk_directed.cc's.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"
#include "module/chunk/placement.hh"
#include "module/protocol/negotiation.hh"
#include "module/server/response.hh"

namespace rpcordma {
namespace {

using rtrext::Type;

constexpr u32 kMany = 64, kHead = 20, kEach = sizeof(PortPeer::message);
constexpr properties::Structure grown = {20480, 4, 4096}, small = {8192, 4, 1024};

/* A direction of a call. */
struct Direction {
	Type type;
	u32 least;
	u32 most_sent;
	/* Of the client's memory: @segments segments of @each bytes, from @at on, one behind the other. */
	u32 segments;
	u32 each;
	u32 at;
	u32 end() const
	{
		return at + segments * each;
	}
};
constexpr Direction send_it = {Type::sent, 0, 0, 0, 0, 0};

/* What a client says of itself. */
struct Client {
	properties::Structure structure = grown;
	u32 extensions = 7;
};

struct Directing : Served {
	u8 *const room;	   /* a message of the client's */
	u8 *const got[4];  /* transmissions of a reply; */
	u32 lengths[4];	   /* how long each of them is, */
	u32 writes_before; /* RDMA Writes before the first of them, */
	u32 messages = 0;  /* and how many there are */
	rtrext::Response response;

	explicit Directing(const Client &client = {}, u32 sges = 32, u32 parameter = 7)
		: room(test_alloc(4096).data()),
		  got{test_alloc(kEach).data(), test_alloc(kEach).data(), test_alloc(kEach).data(),
		      test_alloc(kEach).data()}
	{
		rpcordma_server_tunables.version2 = 1;
		rpcordma_server_tunables.version2_rtr = parameter;
		rpcordma_server_tunables.max_req_size = 4096;
		svc.limits.max_message = 256 * 1024;
		thread_pages = 280;
		fill_thread();
		verbs.device.max_send_sge = sges;
		connect({false, true, true});
		say_properties(client);
	}
	~Directing()
	{
		if (serving)
			expect_rest();
	}
	void say_properties(const Client &client)
	{
		const properties::Structure &s = client.structure;
		const u32 plain[] = {1, 2, kMany, 6, 2, 1, 4, 4096, 3, 4, client.extensions, 0};
		const u32 all[] = {1,
				   2,
				   kMany,
				   6,
				   3,
				   1,
				   4,
				   s.total,
				   3,
				   4,
				   client.extensions,
				   4,
				   40,
				   s.total,
				   2,
				   1,
				   s.head(),
				   8,
				   0,
				   s.segments,
				   s.segment_length,
				   4096,
				   1,
				   0};

		EXPECT_TRUE(s.segments ? say(RawMessage(all).message()) :
					 say(RawMessage(plain).message()));
		work();
		/* Receives are never smaller than 4096 bytes. */
		EXPECT_TRUE(server->session.peer_structure() ==
			    (s.total < 4096 ? properties::Structure{} : s));
	}
	[[nodiscard]] bool say(Bytes bytes)
	{
		const ExactCopy copy(bytes);

		return verbs.send(server, copy.bytes());
	}
	/* Begin an XMTREQ with these directions, of which each is in a set of its own. */
	[[nodiscard]] rtrext::Encoder begin(u32 xid, Span<const Direction> directions)
	{
		rtrext::Encoder encoder({room, 4096}, Xid(xid), Credits(kMany), xdr::Option::xmtreq);

		for (usize i = 0; i < directions.size(); i++) {
			const Direction &d = directions[i];
			xdr::Segment segments[240];

			for (u32 n = 0; n < d.segments; n++)
				segments[n] = CallMaker::segment(d.each, d.at + n * d.each);
			encoder.set(u32(i), u32(i) + 1);
			if (d.type == Type::sent)
				encoder.place_sent(d.least);
			else
				encoder.place(d.least, d.type, {segments, d.segments}, d.most_sent);
		}
		return encoder;
	}
	/* The stream of a call is its xid and zeros. */
	void finish(rtrext::Encoder &encoder, u32 xid, u32 count, u32 rsbuf, u32 stream)
	{
		const auto header = encoder.finish(count, rsbuf, stream);

		ASSERT_OK(header);
		__builtin_memset(room + header.value(), 0, stream);
		xdr::store_be32(room + header.value(), xid);
		EXPECT_TRUE(say({room, header.value() + stream}));
	}
	/* A thread has a call with these directions. */
	void have_call(u32 xid, Span<const Direction> directions, u32 rsbuf = 4)
	{
		rtrext::Encoder encoder = begin(xid, directions);

		finish(encoder, xid, 1, rsbuf, 40);
		ASSERT_EQ(receive(), 40);
		EXPECT_EQ(call_xid(), Xid(xid));
		rqst->ddp_allowed = true;
		svc.limits.max_message = 256 * 1024;
	}
	void announce(u32 offset, u32 length)
	{
		EXPECT_EQ(rpcordma_core_server_result_payload(rqst->call, offset, length), 0);
	}
	/* The thread replies with kHead bytes, @size in pages, and @tail. */
	int send_answer(u32 size, u32 tail)
	{
		for (u32 i = 0; i < kHead; i++)
			reply_bytes[i] = pattern(i);
		xdr::store_be32(reply_bytes, call_xid().get());
		xdr::store_be32(reply_bytes + 4, 1);
		return send_reply_pages(kHead, size, tail);
	}
	/* The device does what it has, and the messages come. */
	void collect()
	{
		u32 before = peer.messages;
		const u32 writes = peer.writes;

		messages = 0;
		while (work(1)) {
			if (peer.messages == before)
				continue;
			before = peer.messages;
			ASSERT_LT(messages, 4);
			if (!messages)
				writes_before = peer.writes - writes;
			lengths[messages] = peer.message_length;
			__builtin_memcpy(got[messages++], peer.message, peer.message_length);
		}
	}
	void answer(u32 size, u32 tail)
	{
		EXPECT_EQ(send_answer(size, tail), 0);
		release();
		collect();
		EXPECT_EQ(in_service(), 0);
	}
	[[nodiscard]] static u8 reply_byte(u32 xid, u32 at)
	{
		return at < 4 ? u8(xid >> (24 - 8 * at)) : at < 8 ? u8(at == 7) : pattern(at);
	}
	[[nodiscard]] const rtrext::Item item(u32 n) const
	{
		auto at = response.items.begin();

		while (n--)
			++at;
		return *at;
	}
	/* What came is the reply of @size bytes to the call @xid, which had these directions. */
	void expect_reply(u32 xid, Span<const Direction> directions, u32 size,
			  const properties::Structure &structure = grown)
	{
		TEST_NOTE("xid", xid);
		chunk::TransmissionLengths made[4];

		ASSERT_GT(messages, 0);
		for (u32 n = 0; n < messages; n++) {
			const auto message = decoded2({got[n], lengths[n]});
			u32 stream = 0;

			ASSERT_EQ(message.kind, xdr::Kind::optional);
			EXPECT_EQ(message.direction, xdr::Direction::reply);
			EXPECT_EQ(message.xid, Xid(xid));
			EXPECT_GT(message.credits.get(), 0);
			if (!n) {
				ASSERT_EQ(message.option, xdr::Option::xmtresp);
				ASSERT_EQ(rtrext::decode(message.body(), response), Error::none);
				EXPECT_EQ(response.transmissions, messages);
				stream = response.stream_length;
			} else {
				rtrext::Continuation more;

				ASSERT_EQ(message.option, xdr::Option::xmtcont);
				ASSERT_EQ(rtrext::decode(message.body(), more), Error::none);
				EXPECT_EQ(more.number, n);
				EXPECT_EQ(more.lead, 2);
				stream = more.stream_length;
			}
			made[n] = {message.header_length, stream, lengths[n]};
			ASSERT_LE(message.header_length + stream, lengths[n]);
		}
		EXPECT_EQ(peer.invalidated, 0);
		ASSERT_EQ(response.items.count(), directions.size());
		EXPECT_EQ(chunk::judge_placement(structure, {made, messages}, response.items).how,
			  rtrext::Verdict::How::good);
		u32 at = 0, from = 0, n = 0, used = 0, wrong = 0, padding = 0, i = 0;
		auto stream = [&](u32 until) {
			for (; at < until; at++) {
				while (n < messages && used == made[n].stream_length) {
					n++;
					used = 0;
				}
				ASSERT_LT(n, messages);
				wrong += got[n][made[n].header_length + used++] !=
					 reply_byte(xid, at);
			}
		};
		for (const rtrext::Item &one : response.items) {
			const Direction &d = directions[i++];

			if (!one.placed())
				continue;
			stream(one.displacement);
			from = d.at;
			if (one.type == Type::segments) {
				EXPECT_NE(d.type, Type::sent);
				EXPECT_EQ(one.segments.length(), one.length);
				EXPECT_EQ(one.segments[0].offset, PortPeer::kAddress + d.at);
				for (u32 k = 0; k < one.length; k++)
					wrong += peer.memory[from++] != reply_byte(xid, at++);
			} else {
				EXPECT_NE(d.type, Type::segments);
				EXPECT_EQ(chunk::for_each_piece(
						  one, structure.segment_length,
						  [&](const chunk::ItemPiece &piece) {
							  const u8 *bytes =
								  got[piece.number /
								      structure.segments] +
								  chunk::begin_of(structure, piece);
							  for (u32 k = 0; k < piece.length; k++)
								  wrong += bytes[k] !=
									   reply_byte(xid, at++);
							  return true;
						  }),
					  0);
			}
			at += xdr_pad(one.length);
		}
		stream(size);
		EXPECT_EQ(wrong, 0);
		/* Padding is zeros: between the stream and what is sent. */
		for (u32 k = 0; k < messages; k++)
			for (u32 b = made[k].header_length + made[k].stream_length;
			     b < min(structure.head(), lengths[k]); b++)
				padding += got[k][b] != 0;
		EXPECT_EQ(padding, 0);
	}
	void expect_type(u32 n, Type type, u32 displacement, u32 length)
	{
		TEST_NOTE("item", n);
		EXPECT_EQ(item(n).type, type);
		EXPECT_EQ(item(n).displacement, displacement);
		EXPECT_EQ(item(n).length, length);
	}
	void expect_error2(u32 xid, xdr::ErrorCode code, u32 segment = 0, u32 needed = 0)
	{
		ASSERT_EQ(messages, 1);
		const auto message = decoded2({got[0], lengths[0]});

		EXPECT_EQ(message.kind, xdr::Kind::error);
		EXPECT_EQ(message.xid, Xid(xid));
		EXPECT_EQ(message.error.code, code);
		if (code != xdr::ErrorCode::reply_resource)
			return;
		EXPECT_EQ(message.error.segment(), segment);
		EXPECT_EQ(message.error.needed(), needed);
	}
	/* A plain call is served by an RDMA2_MSG, as if nothing had been. */
	void expect_served(u32 xid)
	{
		Call2Maker call(xid);

		call.finish(40);
		EXPECT_TRUE(send(call));
		ASSERT_EQ(receive(), 40);
		xdr::store_be32(reply_bytes, xid);
		xdr::store_be32(reply_bytes + 4, 1);
		EXPECT_EQ(reply(20), 0);
		work();
		EXPECT_EQ(decoded2(peer.last()).kind, xdr::Kind::msg);
		EXPECT_EQ(decoded2(peer.last()).xid, Xid(xid));
		EXPECT_EQ(in_service(), 0);
	}
	[[nodiscard]] u32 sent() const
	{
		return counter(RPCORDMA_SERVER_V2_SENT_RESULTS);
	}
};

} // namespace

/*
 * A READ's result of any length is sent, from the pages that the service has it in, and these are kept until it is done. What a
 * transmission has of it is copied if it has too few SGEs.
 */
RPCORDMA_TEST(server_directed, sent)
{
	const u32 most = 31 * kPage; /* that a transmission of 32 SGEs gathers */

	for (const properties::Structure &structure : {small, grown}) {
		Client client;
		client.structure = structure;
		Directing s(client);
		const u32 each = structure.segments * structure.segment_length;
		u32 xid = 1, results = 0;

		TEST_NOTE("each", each);
		for (const u32 size : {1u, 4u, kPage, kPage + 1, most, most + 1, each - 1, each,
				       each + 1, 2 * each + 70, 4 * each - 3, 4 * each})
			for (const u32 tail : {0u, 12u}) {
				TEST_NOTE("size", size);
				TEST_NOTE("tail", tail);
				const u32 pad = tail ? xdr_pad(size) : 0,
					  count = div_round_up(size, each);
				const bool gathered = size <= most || each <= most ||
						      (size - (count - 1) * each) <= most;

				s.have_call(++xid, {&send_it, 1});
				s.announce(kHead, size);
				page *&first = s.rqst->pages[s.rqst->arg.pages_used];
				page *const had = first;
				EXPECT_EQ(s.send_answer(size, pad + tail), 0);
				EXPECT_EQ(first == nullptr, gathered);
				EXPECT_EQ(s.dma.bulk_maps, gathered);
				EXPECT_EQ(had->references, 1);
				s.release();
				EXPECT_EQ(s.in_service(), 1);
				s.collect();
				EXPECT_EQ(s.in_service(), 0);
				s.settle();
				EXPECT_EQ(s.dma.bulk_maps, 0);
				EXPECT_EQ(s.messages, count);
				s.expect_reply(xid, {&send_it, 1}, kHead + size + pad + tail,
					       structure);
				s.expect_type(0, Type::sent, kHead, size);
				EXPECT_EQ(s.sent(), ++results);
				EXPECT_EQ(s.peer.writes, 0);
				EXPECT_EQ(counter(RPCORDMA_SERVER_WRITE), 0);
			}
		s.expect_served(900);
	}
}

/* Each direction comes to what the rules say, and the draft's Table 2 allows; Writes go before what tells of them. */
RPCORDMA_TEST(server_directed, types)
{
	Directing s;
	const Direction directions[] = {
		send_it,
		{Type::sent, 5000, 0, 0, 0, 0},
		{Type::segments, 0, 0, 1, 16384, 0},
		{Type::segments, 0, 0, 4, 3000, 1001},
		{Type::segments, 0, 0, 0, 0, 0},
		{Type::segments, ~0u, 0, 1, 16384, 0},
		{Type::either, 0, 0, 0, 0, 0},
		{Type::either, 0, 0, 2, 8192, 5},
		{Type::either, 4097, 0, 2, 8192, 5},
		{Type::by_size, 0, 4096, 3, 6000, 77},
		{Type::by_size, 0, 4096, 0, 0, 0},
		{Type::by_size, 0, ~0u, 0, 0, 0},
		{Type::by_size, 0, 0, 1, 100, 0},
	};
	struct {
		Type at_100, at_4096, at_9000;
	} const expected[] = {
		{Type::sent, Type::sent, Type::sent},
		{Type::too_short, Type::too_short, Type::sent},
		{Type::segments, Type::segments, Type::segments},
		{Type::segments, Type::segments, Type::segments},
		{Type::too_short, Type::too_short, Type::too_short},
		{Type::too_short, Type::too_short, Type::too_short},
		{Type::sent, Type::sent, Type::sent},
		{Type::sent, Type::sent, Type::sent},
		{Type::too_short, Type::too_short, Type::sent},
		{Type::sent, Type::sent, Type::segments},
		{Type::sent, Type::sent, Type::too_short},
		{Type::sent, Type::sent, Type::sent},
		{Type::segments, Type::too_short, Type::too_short},
	};
	u32 xid = 1;

	for (usize i = 0; i < sizeof(directions) / sizeof(*directions); i++)
		for (const u32 size : {100u, 4096u, 9000u}) {
			TEST_NOTE("direction", i);
			TEST_NOTE("size", size);
			const Type type = size == 100  ? expected[i].at_100 :
					  size == 4096 ? expected[i].at_4096 :
							 expected[i].at_9000;
			const u32 writes = s.peer.writes;

			s.have_call(++xid, {&directions[i], 1});
			s.announce(kHead, size);
			__builtin_memset(s.peer.memory, 0x5a, s.peer.bytes);
			s.answer(size, 12);
			s.expect_reply(xid, {&directions[i], 1}, kHead + size + 12);
			s.expect_type(0, type, kHead, size);
			EXPECT_EQ(s.peer.writes != writes, type == Type::segments);
			EXPECT_EQ(s.writes_before, s.peer.writes - writes);
			/* Nothing behind what was written. */
			if (type == Type::segments)
				EXPECT_EQ(s.peer.memory[directions[i].at + size], 0x5a);
		}
	s.expect_served(900);
}

/* Several results, by both ways, with what is between them, in one chain; results and directions that are over. */
RPCORDMA_TEST(server_directed, several)
{
	Directing s;
	const Direction directions[] = {send_it,
					{Type::segments, 0, 0, 2, 4000, 100},
					{Type::either, 0, 0, 0, 0, 0},
					{Type::segments, 0, 0, 1, 9000, 20000},
					{Type::sent, 0, 0, 0, 0, 0},
					{Type::either, 0, 0, 1, 100, 0}};
	const u32 at[] = {20, 5032, 10100, 11000, 20012}, size[] = {5001, 5003, 17, 9000, 4096};
	u32 xid = 1;

	for (u32 results = 0; results <= 5; results++)
		for (const bool small : {false, true}) {
			TEST_NOTE("results", results);
			TEST_NOTE("small", small);
			s.have_call(++xid, {directions, small ? min(results, 2u) : 6}, 4);
			for (u32 i = 0; i < results; i++)
				s.announce(at[i], size[i]);
			const bool fits = results || !small;
			if (!fits) {
				/* Without directions, and too long for one message. */
				s.answer(24092, 8);
				EXPECT_EQ(s.messages, 2);
				s.expect_reply(xid, {}, kHead + 24092 + 8);
				continue;
			}
			s.answer(24092, 8);
			s.expect_reply(xid, {directions, small ? min(results, 2u) : 6},
				       kHead + 24092 + 8);
			for (u32 i = 0; i < (small ? min(results, 2u) : 6); i++) {
				if (i >= results)
					s.expect_type(i, Type::none, 0, 0);
				else if (i == 1 || i == 3)
					s.expect_type(i, Type::segments, at[i], size[i]);
			}
		}
	s.expect_served(900);
}

/* Items behind one another in one transmission: each begins with a segment, and what is between them is zeros. */
RPCORDMA_TEST(server_directed, between)
{
	for (const u32 sges : {32u, 22u, 5u, 1u}) {
		TEST_NOTE("sges", sges);
		Directing s({}, sges);
		const Direction directions[] = {send_it, send_it, send_it, send_it, send_it};
		const u32 at[] = {20, 1024, 5200, 9304, 9404}, size[] = {1001, 4097, 4096, 1, 3};
		s.have_call(7, directions);
		for (u32 i = 0; i < 5; i++)
			s.announce(at[i], size[i]);
		s.answer(9400, 4);
		s.expect_reply(7, directions, kHead + 9400 + 4);
		EXPECT_EQ(s.messages, 2);
		const u32 numbers[] = {0, 1, 3, 4, 5};
		for (u32 i = 0; i < 5; i++) {
			s.expect_type(i, Type::sent, at[i], size[i]);
			EXPECT_EQ(s.item(i).numbers[0], numbers[i]);
		}
		u32 wrong = 0;
		for (u32 b = 4096 + 1001; b < 2 * 4096; b++)
			wrong += s.got[0][b] != 0;
		for (u32 b = 3 * 4096 + 1; b < 4 * 4096; b++)
			wrong += s.got[0][b] != 0;
		EXPECT_EQ(wrong, 0);
		EXPECT_EQ(s.lengths[1], 2 * 4096 + 3);
		s.expect_served(8);
	}
}

/* The same where all of it is gathered, by as many SGEs as that takes, or copied, by one less. */
RPCORDMA_TEST(server_directed, between_gathered)
{
	const Direction directions[] = {send_it, send_it, send_it, send_it, send_it};
	const u32 at[] = {20, 320, 1824, 2524, 4548}, size[] = {300, 1501, 699, 2024, 5};

	/* For 12 there is enough in the second, for the first it takes some more. */
	for (u32 sges = 12; sges <= 20; sges++) {
		TEST_NOTE("sges", sges);
		Client client;
		client.structure = small;
		Directing s(client, sges);
		s.have_call(7, directions);
		for (u32 i = 0; i < 5; i++)
			s.announce(at[i], size[i]);
		EXPECT_EQ(s.send_answer(4537, 8), 0);
		EXPECT_EQ(s.dma.bulk_maps, 1);
		s.release();
		s.collect();
		s.expect_reply(7, directions, kHead + 4545, small);
		EXPECT_EQ(s.messages, 2);
		u32 wrong = 0;
		for (u32 b = 4096 + 300; b < 5120; b++)
			wrong += s.got[0][b] != 0;
		for (u32 b = 5120 + 1501; b < 7168; b++)
			wrong += s.got[0][b] != 0;
		EXPECT_EQ(wrong, 0);
		EXPECT_EQ(s.lengths[0], 4096 + 3072 + 699);
		s.expect_served(8);
	}
}

/* What cannot be gathered is copied: by few SGEs, without a transfer, without a mapping. */
RPCORDMA_TEST(server_directed, copied)
{
	for (u32 sges = 1; sges <= 20; sges++) {
		TEST_NOTE("sges", sges);
		Client client;
		client.structure = small;
		Directing s(client, sges);

		s.have_call(7, {&send_it, 1});
		s.announce(kHead, 16384);
		EXPECT_EQ(s.send_answer(16384, 4), 0);
		EXPECT_EQ(s.dma.bulk_maps, sges >= 1 + 4096 / kPage);
		s.release();
		s.collect();
		s.expect_reply(7, {&send_it, 1}, kHead + 16384 + 4, small);
		s.expect_served(8);
	}
	for (u32 what = 0; what < 2; what++) {
		TEST_NOTE("what", what);
		Directing s;
		const NoTransfers others;
		u32 &left = what ? s.dma.bulk_maps_left : s.dma.bulks_left;

		s.have_call(7, {&send_it, 1});
		s.announce(kHead, 30001);
		left = 0;
		EXPECT_EQ(s.send_answer(30001, 7), 0);
		left = kNoLimit;
		EXPECT_EQ(s.dma.bulk_maps, 0);
		s.release();
		s.collect();
		s.expect_reply(7, {&send_it, 1}, kHead + 30001 + 7);
		EXPECT_EQ(s.sent(), 1);
		EXPECT_EQ(s.log.take(what ? trace::Failure::write_map_failed :
					    trace::Failure::transfer_missing),
			  1);
		s.expect_served(8);
	}
}

/* What is too long to be copied, and has too few SGEs, is not sent: it is written, or goes inline. */
RPCORDMA_TEST(server_directed, too_long_to_copy)
{
	Client client;

	client.structure = {36864, 8, 4096};
	for (const bool written : {false, true}) {
		TEST_NOTE("written", written);
		Directing s(client, 4);
		const Direction direction = {Type::either, 0, 0, written, 40000, 0};

		s.have_call(7, {&direction, 1});
		s.announce(kHead, 30000);
		s.answer(30000, 4);
		s.expect_reply(7, {&direction, 1}, kHead + 30004, client.structure);
		s.expect_type(0, written ? Type::segments : Type::too_short, kHead, 30000);
		EXPECT_EQ(s.messages, 1);
		EXPECT_EQ(s.sent(), 0);
		/* What is as long as that, and no longer, is copied. */
		s.have_call(8, {&direction, 1});
		s.announce(kHead, 28672);
		s.answer(28672, 4);
		s.expect_reply(8, {&direction, 1}, kHead + 28676, client.structure);
		s.expect_type(0, Type::sent, kHead, 28672);
		s.expect_served(9);
	}
}

/* Without memory for what is sent it is written, or goes inline; and without any the connection ends. */
RPCORDMA_TEST(server_directed, no_memory)
{
	for (const u32 allocations : {0u, 1u, 2u, 3u, 4u, 5u, 6u}) {
		TEST_NOTE("allocations", allocations);
		Directing s({}, 1);
		const NoTransfers others;

		s.have_call(7, {&send_it, 1});
		s.announce(kHead, 30001);
		s.memory.allocations_left = allocations;
		const int rc = s.send_answer(30001, 7);
		s.memory.allocations_left = kNoLimit;
		s.release();
		if (rc) {
			EXPECT_EQ(rc, to_errno(Error::not_connected));
			EXPECT_EQ(s.svc.closed, 1);
			EXPECT_EQ(s.log.take(trace::Loss::rpc_failed), 1);
		} else {
			s.collect();
			s.expect_reply(7, {&send_it, 1}, kHead + 30001 + 7);
		}
		(void)s.log.take(trace::Failure::send_buffer_failed);
		(void)s.log.take(trace::Failure::transfer_missing);
		(void)s.log.take(trace::Failure::reply_failed);
		EXPECT_EQ(s.in_service(), 0);
		EXPECT_EQ(s.dma.bulk_maps, 0);
	}
	/* A Write cannot be had without a transfer, or a mapping. */
	for (const bool mapping : {false, true}) {
		TEST_NOTE("mapping", mapping);
		Directing s;
		const NoTransfers others;
		const Direction written = {Type::segments, 0, 0, 1, 1000, 0};
		u32 &left = mapping ? s.dma.bulk_maps_left : s.dma.bulks_left;

		s.have_call(7, {&written, 1});
		s.announce(kHead, 1000);
		left = 0;
		EXPECT_EQ(s.send_answer(1000, 8), to_errno(Error::not_connected));
		left = kNoLimit;
		s.release();
		EXPECT_EQ(s.in_service(), 0);
		EXPECT_EQ(s.dma.bulk_maps, 0);
		EXPECT_EQ(s.log.take(mapping ? trace::Failure::write_map_failed :
					       trace::Failure::transfer_missing),
			  1);
		EXPECT_EQ(s.log.take(trace::Failure::reply_failed), 1);
		EXPECT_EQ(s.log.take(trace::Loss::rpc_failed), 1);
	}
}

/* RPCSEC_GSS, clients that take nothing sent, or not so many transmissions; and replies that fit nowhere. */
RPCORDMA_TEST(server_directed, limits)
{
	{
		Directing s;
		const Direction both[] = {send_it, {Type::segments, 0, 0, 1, 16384, 0}};

		s.have_call(7, both);
		s.rqst->ddp_allowed = false;
		s.announce(kHead, 1000);
		s.announce(kHead + 1004, 2000);
		s.answer(9000, 4);
		s.expect_reply(7, both, kHead + 9004);
		s.expect_type(0, Type::too_short, kHead, 1000);
		s.expect_type(1, Type::too_short, kHead + 1004, 2000);
		EXPECT_EQ(s.peer.writes, 0);
		EXPECT_EQ(s.sent(), 0);
		/* As many transmissions as the call says. */
		for (const u32 rsbuf : {0u, 1u, 2u, 3u, 4u, 17u, ~0u}) {
			TEST_NOTE("rsbuf", rsbuf);
			s.have_call(8, {&send_it, 1}, rsbuf);
			s.announce(kHead, 65536);
			s.answer(65536, 0);
			if (rsbuf < 4) {
				s.expect_error2(8, xdr::ErrorCode::reply_resource);
				EXPECT_EQ(s.log.take(trace::Failure::reply_no_room), 1);
				EXPECT_EQ(s.log.take(trace::Failure::err_chunk_sent), 1);
			} else {
				s.expect_reply(8, {&send_it, 1}, kHead + 65536);
			}
		}
		/* Segments that are too short: in the stream, while there is room, and then an error that says how much. */
		const Direction short_one = {Type::either, 0, 0, 2, 4096, 0};
		s.have_call(9, {&short_one, 1}, 1);
		s.announce(kHead, 20000);
		s.answer(20000, 0);
		s.expect_reply(9, {&short_one, 1}, kHead + 20000);
		s.expect_type(0, Type::too_short, kHead, 20000);
		s.have_call(10, {&short_one, 1}, 1);
		s.announce(kHead, 30000);
		s.answer(30000, 0);
		s.expect_error2(10, xdr::ErrorCode::reply_resource, 2, 4096 + 30000 - 8192);
		EXPECT_EQ(s.log.take(trace::Failure::reply_no_room), 1);
		EXPECT_EQ(s.log.take(trace::Failure::err_chunk_sent), 1);
		s.expect_served(11);
	}
	/* A client without DDP segments, and one that knows no XMTCONT. */
	for (u32 what = 0; what < 2; what++) {
		TEST_NOTE("what", what);
		Client client;
		if (what)
			client.extensions = 0;
		else
			client.structure = {};
		Directing s(client);
		s.have_call(7, {&send_it, 1});
		s.announce(kHead, 3000);
		s.answer(3000, 0);
		s.expect_reply(7, {&send_it, 1}, kHead + 3000);
		s.expect_type(0, what ? Type::sent : Type::too_short, kHead, 3000);
		EXPECT_EQ(s.messages, 1);
		/* Without directions, and to who takes no XMTRESP. */
		if (what) {
			s.have_call(9, {});
			s.answer(40000, 0);
			s.expect_error2(9, xdr::ErrorCode::reply_resource);
			EXPECT_EQ(s.log.take(trace::Failure::reply_no_room), 1);
			EXPECT_EQ(s.log.take(trace::Failure::err_chunk_sent), 1);
		}
		s.have_call(8, {&send_it, 1});
		s.announce(kHead, 40000);
		s.answer(40000, 0);
		s.expect_error2(8, xdr::ErrorCode::reply_resource);
		EXPECT_EQ(s.log.take(trace::Failure::reply_no_room), 1);
		EXPECT_EQ(s.log.take(trace::Failure::err_chunk_sent), 1);
	}
	/* Heads and segments that are long, few, and many. */
	const properties::Structure structures[] = {{16384, 1, 1024},  {8192, 1, 4096},
						    {20480, 19, 1024}, {5120, 1, 4096},
						    {3072, 1, 1024},   {40960, 1, 4096}};
	for (const properties::Structure &structure : structures) {
		TEST_NOTE("structure", &structure - structures);
		Client client;
		client.structure = structure;
		Directing s(client, 4);
		s.have_call(7, {&send_it, 1});
		s.announce(kHead, 900);
		s.answer(900, 0);
		if (structure.total < 4096) {
			/* Receives are never smaller than that: it contradicts itself. */
			s.expect_reply(7, {&send_it, 1}, kHead + 900, {});
			s.expect_type(0, Type::too_short, kHead, 900);
			continue;
		}
		s.expect_reply(7, {&send_it, 1}, kHead + 900, structure);
		s.expect_type(0,
			      structure.head() > protocol::kMostInline ? Type::too_short :
									 Type::sent,
			      kHead, 900);
	}
}

/* All of it is none: an XMTRESP with an item for each direction. More of them than are taken: SYSTEM. */
RPCORDMA_TEST(server_directed, none)
{
	Directing s;
	Direction many[17];

	for (Direction &one : many)
		one = send_it;
	for (const u32 count : {1u, 16u}) {
		s.have_call(count, {many, count});
		s.answer(40, 0);
		s.expect_reply(count, {many, count}, kHead + 40);
		for (u32 i = 0; i < count; i++)
			s.expect_type(i, Type::none, 0, 0);
	}
	rtrext::Encoder encoder = s.begin(17, many);
	s.finish(encoder, 17, 1, 4, 40);
	EXPECT_EQ(s.receive(), 0);
	s.collect();
	s.expect_error2(17, xdr::ErrorCode::system);
	EXPECT_EQ(s.log.take(trace::Failure::err_chunk_sent), 1);
	/* A set without directions is none: the reply is as ever. */
	rtrext::Encoder empty = s.begin(18, {});
	empty.set(0, ~0u);
	s.finish(empty, 18, 1, 4, 40);
	EXPECT_EQ(s.receive(), 40);
	s.answer(40, 0);
	EXPECT_EQ(decoded2(s.peer.last()).kind, xdr::Kind::msg);
	s.expect_served(19);
}

/* A call in several transmissions has directions, too; and is not taken if it comes again. */
RPCORDMA_TEST(server_directed, of_a_group)
{
	Directing s;
	const Direction written = {Type::segments, 0, 0, 1, 9000, 64};
	rtrext::Encoder encoder = s.begin(7, {&written, 1});

	s.finish(encoder, 7, 2, 4, 40);
	const auto header = rtrext::encode({s.room, 4096}, Xid(7), Credits(kMany),
					   xdr::Direction::call, {1, 1, 8});
	ASSERT_OK(header);
	__builtin_memset(s.room + header.value(), 0, 8);
	EXPECT_TRUE(s.say({s.room, header.value() + 8}));
	ASSERT_EQ(s.receive(), 48);
	s.rqst->ddp_allowed = true;
	s.announce(kHead, 9000);
	s.answer(9000, 4);
	s.expect_reply(7, {&written, 1}, kHead + 9004);
	s.expect_type(0, Type::segments, kHead, 9000);
	s.expect_served(8);
}

/* More segments than a chain has Writes: those before the last chain are posted by themselves. */
RPCORDMA_TEST(server_directed, many_segments)
{
	for (const u32 segments : {100u, 126u, 127u, 128u, 129u, 230u}) {
		TEST_NOTE("segments", segments);
		Directing s;
		const Direction both[] = {{Type::segments, 0, 0, segments, 100, 3}, send_it};

		s.have_call(7, both);
		s.announce(kHead, segments * 100 - 3);
		s.announce(kHead + segments * 100, 20000);
		const u32 writes = counter(RPCORDMA_SERVER_WRITE);
		s.answer(segments * 100 + 20000, 4);
		s.expect_reply(7, both, kHead + segments * 100 + 20000 + 4);
		s.expect_type(0, Type::segments, kHead, segments * 100 - 3);
		EXPECT_EQ(counter(RPCORDMA_SERVER_WRITE), writes + s.peer.writes);
		EXPECT_EQ(s.item(0).segments.count(), segments);
		EXPECT_EQ(s.messages, 2);
		s.expect_served(8);
	}
}

/* None or some of the chain can be posted: of Writes, of a group, of a Send. */
RPCORDMA_TEST(server_directed, post_fails)
{
	const Direction written = {Type::segments, 0, 0, 2, 20000, 0};

	for (const bool writes : {false, true})
		for (const u32 size : {4096u, 40000u})
			for (u32 posted = 0; posted < 3; posted++) {
				TEST_NOTE("writes", writes);
				TEST_NOTE("size", size);
				TEST_NOTE("posted", posted);
				const u32 requests = writes ? (size > 20000 ? 3 : 2) :
							      (size > 16384 ? 3 : 1);
				if (posted >= requests)
					continue;
				Directing s;

				s.have_call(7, {writes ? &written : &send_it, 1});
				s.announce(kHead, size);
				s.verbs.sends_left = posted;
				EXPECT_EQ(s.send_answer(size, 0), to_errno(Error::not_connected));
				EXPECT_EQ(s.svc.closed, 1);
				s.release();
				EXPECT_EQ(s.dma.bulk_maps, posted ? 1 : 0);
				EXPECT_EQ(s.in_service(), posted ? 1 : 0);
				EXPECT_EQ(s.room_taken(),
					  posted ? s.verbs.partly_posted.requests : 0);
				EXPECT_EQ(s.log.take(trace::Failure::post_failed), 1);
				EXPECT_EQ(s.log.take(trace::Loss::rpc_failed), 1);
			}
}

/* The connection closes while a thread waits for room, or all is flushed: nothing is left. */
RPCORDMA_TEST(server_directed, closing)
{
	{
		Directing s;
		s.have_call(7, {&send_it, 1});
		s.announce(kHead, 40000);
		const NoRoom others(s);
		s.sync.disconnect_in_wait = true;
		EXPECT_EQ(s.send_answer(40000, 0), to_errno(Error::not_connected));
		s.release();
		EXPECT_EQ(s.in_service(), 0);
		EXPECT_EQ(s.dma.bulk_maps, 0);
		EXPECT_EQ(s.log.take(trace::Failure::send_queue_full), 1);
		EXPECT_EQ(s.log.take(trace::Loss::disconnected), 1);
	}
	for (u32 at = 0; at < 4; at++) {
		TEST_NOTE("at", at);
		Directing s;
		const Direction both[] = {{Type::segments, 0, 0, 1, 9000, 0}, send_it};
		s.have_call(7, both);
		s.announce(kHead, 9000);
		s.announce(kHead + 9000, 40000);
		EXPECT_EQ(s.send_answer(49000, 0), 0);
		s.verbs.fail_at = at;
		s.verbs.fail_status = 12;
		s.work();
		EXPECT_EQ(s.in_service(), 1);
		s.release();
		EXPECT_EQ(s.in_service(), 0);
		EXPECT_EQ(s.svc.closed, 1);
		s.settle();
		EXPECT_EQ(s.dma.bulk_maps, 0);
		EXPECT_GT(s.log.take(trace::Loss::chain_failed) +
				  s.log.take(trace::Loss::send_failed),
			  0);
	}
}

/* Segments that the client's device refuses end the connection; when the call comes again it is refused. */
RPCORDMA_TEST(server_directed, remote_access)
{
	Directing s;
	const Direction written = {Type::segments, 0, 0, 1, 9000, 0};

	s.have_call(7, {&written, 1});
	s.announce(kHead, 9000);
	EXPECT_EQ(s.send_answer(9000, 0), 0);
	s.verbs.fail_at = 0;
	s.verbs.fail_status = RPCORDMA_WC_REMOTE_ACCESS;
	s.work();
	s.release();
	EXPECT_EQ(s.svc.closed, 1);
	s.end();
	s.connect({false, true, true});
	s.say_properties({});
	rtrext::Encoder encoder = s.begin(7, {&written, 1});
	s.finish(encoder, 7, 1, 4, 40);
	EXPECT_EQ(s.receive(), 0);
	s.collect();
	s.expect_error2(7, xdr::ErrorCode::system);
	/* Another call is not. */
	s.have_call(8, {&written, 1});
	s.announce(kHead, 9000);
	s.answer(9000, 0);
	s.expect_reply(8, {&written, 1}, kHead + 9000);
	EXPECT_EQ(s.log.take(trace::Failure::call_failed_before), 1);
	EXPECT_EQ(s.log.take(trace::Failure::chunk_refused), 1);
	EXPECT_EQ(s.log.take(trace::Failure::err_chunk_sent), 1);
	EXPECT_EQ(s.log.take(trace::Loss::chain_failed), 1);
}

/* Segments of no bytes, of more than 4 GiB together, and at the end of memory; results at odd places. */
RPCORDMA_TEST(server_directed, hostile)
{
	Directing s;
	u8 *const room = s.room;
	auto say = [&](u32 xid, Span<const xdr::Segment> segments, Type type, u32 least) {
		rtrext::Encoder encoder({room, 4096}, Xid(xid), Credits(kMany), xdr::Option::xmtreq);

		encoder.set(0, ~0u);
		encoder.place(least, type, segments, ~0u);
		s.finish(encoder, xid, 1, 4, 40);
		ASSERT_EQ(s.receive(), 40);
		s.rqst->ddp_allowed = true;
	};
	/* What is not needed is not touched. */
	const xdr::Segment huge[] = {{Rkey(PortPeer::kKey), 0, ~u64(0)},
				     {Rkey(PortPeer::kKey), 100, PortPeer::kAddress},
				     {Rkey(1), 0, 0},
				     {Rkey(PortPeer::kKey), ~0u, PortPeer::kAddress + 1000},
				     {Rkey(2), ~0u, ~u64(0)}};
	say(1, huge, Type::segments, 0);
	s.announce(kHead, 900);
	s.answer(900, 0);
	const auto message = decoded2({s.got[0], s.lengths[0]});
	ASSERT_EQ(rtrext::decode(message.body(), s.response), Error::none);
	s.expect_type(0, Type::segments, kHead, 900);
	ASSERT_EQ(s.item(0).segments.count(), 2);
	EXPECT_EQ(s.item(0).segments[0].length, 100);
	EXPECT_EQ(s.item(0).segments[1].length, 800);
	EXPECT_EQ(s.item(0).segments[1].offset, PortPeer::kAddress + 1000);
	for (u32 i = 0; i < 900; i++)
		ASSERT_EQ(s.peer.memory[i < 100 ? i : 900 + i], pattern(kHead + i));
	/* None of them has a byte. */
	const xdr::Segment empty[] = {{Rkey(1), 0, ~u64(0)}, {Rkey(2), 0, 0}};
	say(2, empty, Type::segments, 0);
	s.announce(kHead, 900);
	s.answer(900, 0);
	const Direction one = {Type::segments, 0, 0, 2, 0, 0};
	s.expect_reply(2, {&one, 1}, kHead + 900);
	s.expect_type(0, Type::too_short, kHead, 900);
	/* Results that are not in the reply, or in one another, or empty. */
	const Direction three[] = {send_it, send_it, send_it};
	const chunk::ReplyRange odd[][3] = {{{~0u, ~0u}, {0, ~0u}, {5000, 1}},
					    {{20, 100}, {60, 40}, {20, 100}},
					    {{20, 0}, {21, 3}, {1020, 0}},
					    {{0, 8}, {8, 12}, {20, 1000}},
					    {{1016, 5}, {1016, 4}, {1020, 4}}};
	u32 xid = 10;
	for (const auto &results : odd) {
		TEST_NOTE("results", &results - odd);
		s.have_call(++xid, three);
		for (const chunk::ReplyRange &range : results)
			s.announce(range.offset, range.length);
		s.answer(1000, 0);
		s.expect_reply(xid, three, kHead + 1000);
	}
	s.expect_served(900);
}

RPCORDMA_SUITE(server_directed, between_gathered, too_long_to_copy, sent, types, several, between,
	       copied, no_memory, limits, none, of_a_group, many_segments, post_fails, closing,
	       remote_access, hostile);

} // namespace rpcordma
