// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client of version 2 whose messages have pages behind their head: what it says of that, when a long call goes
 * inline, where a long reply lands, and when there are no pages.
 */
#include "kunit/test_client_requester.hh"
#include "module/protocol/negotiation.hh"

namespace rpcordma {
namespace {

constexpr u32 kHead = 4096, kPages = 4, kHeader = 36;
constexpr u32 kLarge = kHead + kPages * kPage;
constexpr u32 kGrant = 20;
constexpr u32 kAvoidMs = 600000;

struct LongRequester : Requester {
	explicit LongRequester(u32 pages = kPages)
	{
		rpcordma_tunables.version2 = 1;
		rpcordma_tunables.version2_pages = pages;
		const private_data::Properties marked = {kHead, kHead, true, true};
		verbs.answer_length = private_data::encode(verbs.answer, marked).value();
	}
	[[nodiscard]] bool say(Span<const u32> words)
	{
		return deliver(RawMessage(words).message());
	}
	/* What connect() says when @answer() answers the question. */
	template <typename Answer> [[nodiscard]] int ask(Answer answer)
	{
		have_done_meanwhile(answer);
		const int rc = rpcordma_core_client_connect(core);
		sync.meanwhile = nullptr;
		return rc;
	}
	/* A connection to a server that takes @takes bytes; @fixed: and says that this will not change. */
	void connect2(u32 takes = kHead, bool fixed = false)
	{
		const u32 words[] = {7, 2, kGrant, 6, 1, 1, 4, takes, 1, fixed};

		EXPECT_EQ(ask([&] { EXPECT_TRUE(say(words)); }), 0);
		ASSERT_NE(connection(), nullptr);
		EXPECT_EQ(connection()->session.version(), 2);
	}
	/* What the CONNPROP that was sent last says. */
	[[nodiscard]] properties::Properties said() const
	{
		properties::Properties said;
		u32 nochange = 0;

		EXPECT_EQ(properties::decode_connprop(decoded2(peer.last()).body(), said, nochange),
			  Error::none);
		EXPECT_EQ(nochange, u32(properties::all));
		return said;
	}
	/* The server says that it takes @takes bytes from now on. */
	void update(u32 takes)
	{
		const u32 words[] = {0, 2, kGrant, 9, 1, 1, 4, takes};

		EXPECT_TRUE(say(words));
	}
	[[nodiscard]] bool reply2(u32 xid, u32 size)
	{
		Reply2Maker reply(xid, kGrant);

		reply.finish(size, kReplyMessage);
		return deliver(reply.message());
	}
	/* Receives that are posted with pages. */
	[[nodiscard]] u32 large_posted() const
	{
		u32 large = 0;

		for (u32 i = 0; i < verbs.posted; i++)
			large += verbs.receive_queue[i]->num_sge > 1;
		return large;
	}
	/* A call of @size bytes, of which @paged are page data, is sent; whether it goes without a chunk, byte for byte. */
	[[nodiscard]] bool goes_inline(u32 xid, u32 size, u32 paged = 0)
	{
		const u32 head = size - paged;
		rpc_rqst *call = prepare(xid, head);

		if (paged)
			add_pages(call, paged, false);
		EXPECT_EQ(transmit(call), 0);
		const auto message = decoded2(peer.last());
		const bool whole = message.kind == xdr::Kind::msg && !message.has_chunks();
		if (whole) {
			EXPECT_EQ(message.header_length, kHeader);
			EXPECT_EQ(peer.message_length, kHeader + size);
			u32 wrong = 0;
			for (u32 i = 8; i < size; i++)
				wrong += peer.message[kHeader + i] !=
					 (i < head ? call_pattern(i) : pattern(i - head));
			EXPECT_EQ(wrong, 0);
		} else {
			EXPECT_FALSE(message.reads.empty());
			EXPECT_LE(peer.message_length, kLarge);
		}
		EXPECT_TRUE(reply2(xid, 24));
		EXPECT_EQ(call->result, 24);
		done(call);
		return whole;
	}
	/* The longest message that goes inline is this. */
	void expect_longest(u32 message)
	{
		TEST_NOTE("longest", message);
		EXPECT_TRUE(goes_inline(9, message - kHeader, 1000));
		EXPECT_FALSE(goes_inline(10, message - kHeader + 4, 1000));
	}
	/* Pages that Sends have. */
	[[nodiscard]] u32 send_pages() const
	{
		return memory.pages - receive_pages();
	}
	/* All Receives have them: those posted, and those that wait to be. */
	[[nodiscard]] u32 receive_pages() const
	{
		return (verbs.sizes.receive_sges - 1) *
		       (connection()->receive_queue.provided() + ReceiveQueue::kBatch);
	}
};

} // namespace

/* A CONNPROP says how much there is room for, in head and pages. */
RPCORDMA_TEST(client_long, question)
{
	for (const u32 pages : {0u, 1u, kPages, 16u, 99u}) {
		TEST_NOTE("pages", pages);
		LongRequester r(pages);
		const u32 count = min(pages, 16u);

		EXPECT_EQ(r.ask([&] {
			const properties::Properties said = r.said();
			EXPECT_EQ(said.receive_size, kHead + count * kPage);
			EXPECT_EQ(said.receive_bytes(), kHead + count * kPage);
			EXPECT_EQ(said.structure.head(), kHead);
			EXPECT_EQ(said.ddp_segments(), count);
			EXPECT_EQ(said.structure.segment_length, count ? kPage : 0);
			EXPECT_EQ(r.large_posted(), count ? r.verbs.posted : 0);
			const u32 words[] = {7, 2, kGrant, 6, 0, 0};
			EXPECT_TRUE(r.say(words));
		}),
			  0);
		EXPECT_EQ(r.verbs.sizes.receive_sges, 1 + count);
		EXPECT_EQ(r.verbs.sizes.send_sges, 1 + count);
		EXPECT_EQ(r.thresholds().receive, kHead + count * kPage);
		/* What it says nothing of is as every peer has it. */
		EXPECT_EQ(r.thresholds().send, kHead);
		r.expect_longest(kHead);
		EXPECT_EQ(r.send_pages(), 0);
	}
}

/* A long call goes inline as far as the server takes it, and there is room to send from. */
RPCORDMA_TEST(client_long, calls)
{
	static constexpr struct {
		u32 first, later; /* the server takes; 0: it says nothing more */
		bool fixed;
		u32 longest;
	} cases[] = {
		{kHead, 0, false, kHead},     {4600, 0, false, 4600},
		{kLarge, 0, false, kLarge},   {65536, 0, false, kLarge},
		{kHead, 4600, false, 4600},   {kHead, 65536, false, kLarge},
		{kHead, 65536, true, kHead},  {65536, kHead, false, kHead},
		{65536, kHead, true, kLarge}, {65536, 1, false, kHead},
	};

	for (const auto &k : cases) {
		TEST_NOTE("first", k.first);
		TEST_NOTE("later", k.later);
		TEST_NOTE("fixed", k.fixed);
		LongRequester r;

		r.connect2(k.first, k.fixed);
		if (k.later)
			r.update(k.later);
		/* What is too long anyhow gets none. */
		EXPECT_FALSE(r.goes_inline(8, k.longest - kHeader + 4, 1000));
		EXPECT_EQ(r.send_pages(), 0);
		r.expect_longest(k.longest);
		/* One call's, which serve the next one that goes out of the same buffer. */
		EXPECT_EQ(r.send_pages(), k.longest > kHead ? kPages : 0);
		r.expect_longest(k.longest);
		EXPECT_EQ(r.send_pages(), k.longest > kHead ? kPages : 0);
		r.at_rest();
	}
}

/* At every length about the boundaries, in head and pages of the call: each byte is where it belongs. */
RPCORDMA_TEST(client_long, call_bytes)
{
	LongRequester r;

	r.connect2(kLarge);
	for (u32 message = kHead - 4; message <= kLarge; message += 4)
		if (message % kPage <= 8 || message % kPage >= kPage - 8)
			for (const u32 paged : {1000u, message - kHeader - 44}) {
				TEST_NOTE("message", message);
				TEST_NOTE("page data", paged);
				EXPECT_TRUE(r.goes_inline(message, message - kHeader, paged));
			}
	/* All of it in one piece, as long as the double's buffers are. */
	EXPECT_TRUE(r.goes_inline(1, 4096));
	/* With a Write chunk in a longer header: the rest is inline all the same. */
	for (u32 size = kHead - kHeader + 4; size <= 4096; size += 4) {
		TEST_NOTE("size", size);
		rpc_rqst *call = r.prepare(5, size);
		r.add_pages(call, 6000, true);
		EXPECT_EQ(r.transmit(call), 0);
		const auto sent = decoded2(r.peer.last());
		EXPECT_EQ(sent.kind, xdr::Kind::msg);
		EXPECT_EQ(sent.writes.count(), 1);
		EXPECT_TRUE(sent.reads.empty());
		ASSERT_EQ(sent.payload.size(), size);
		for (u32 i = 8; i < size; i++)
			ASSERT_EQ(sent.payload[i], call_pattern(i));
		r.done(call);
	}
}

/* An update that cannot be understood, or says nothing of it, changes nothing. */
RPCORDMA_TEST(client_long, strange_updates)
{
	static constexpr struct {
		u32 words[16];
		u32 count;
		u32 bad;     /* it is counted as such */
		u32 longest; /* 0: as before */
	} cases[] = {
		{{0, 2, 1, 9, 0}, 5, 0, 0},
		{{0, 2, 1, 9, 1, 3, 4, 20480}, 8, 0, 0},
		{{0, 2, 1, 9, 1, 77, 4, 20480}, 8, 0, 0},
		{{0, 2, 1, 9, 1, 1, 8, 20480, 0}, 9, 1, 0},
		{{0, 2, 1, 9, 2, 1, 4, 20480, 2, 4, 99}, 11, 1, 0},
		/* A CONNPROP comes once. */
		{{0, 2, 1, 6, 1, 1, 4, 20480, 0}, 9, 1, 0},
		/* The smaller of two that differ, and what two agree on. */
		{{0, 2, 1, 9, 2, 1, 4, 20480, 4, 24, 4608, 1, 4608, 1, 8, 0}, 16, 0, 4608},
		{{0, 2, 1, 9, 2, 1, 4, 4608, 4, 24, 4608, 1, 4608, 1, 8, 0}, 16, 0, 4608},
	};

	for (const auto &k : cases)
		for (const u32 before : {kHead, kHead + kPage}) {
			TEST_NOTE("case", u32(&k - cases));
			TEST_NOTE("before", before);
			LongRequester r;

			r.connect2(before);
			const auto bad = r.stats().bad_reply_count;
			EXPECT_TRUE(r.say(Span<const u32>(k.words, k.count)));
			EXPECT_EQ(r.stats().bad_reply_count, bad + k.bad);
			r.expect_longest(k.longest ? k.longest : before);
			EXPECT_EQ(r.sunrpc.force_disconnects, 0);
			EXPECT_EQ(r.sunrpc.window, kGrant);
		}
}

/* Without pages a long call goes by chunk, and nothing is left of the attempt; with memory again it does not. */
RPCORDMA_TEST(client_long, no_memory)
{
	enum { descriptor, pages, mappings = pages + kPages, none = mappings + kPages };

	for (u32 what = descriptor; what <= none; what++) {
		TEST_NOTE("what", what);
		LongRequester r;
		r.connect2(kLarge);
		/* The slot's own buffer is there, and mapped. */
		EXPECT_TRUE(r.goes_inline(1, 48));
		const u32 before = r.memory.allocations, mapped = r.dma.mappings;
		rpc_rqst *call = r.prepare(2, 100);
		r.add_pages(call, 4400, false);

		if (what == descriptor)
			r.memory.allocations_left = 0;
		else if (what < mappings)
			r.memory.pages_left = what - pages;
		else if (what < none)
			r.dma.mappings_left = what - mappings;
		EXPECT_EQ(r.transmit(call), 0);
		r.want_for_nothing();
		EXPECT_EQ(decoded2(r.peer.last()).has_chunks(), what != none);
		if (what != none) {
			EXPECT_EQ(r.send_pages(), 0);
			EXPECT_EQ(r.memory.allocations, before);
			EXPECT_EQ(r.dma.mappings, mapped);
		}
		EXPECT_TRUE(r.reply2(2, 24));
		EXPECT_EQ(call->result, 24);
		r.done(call);
		EXPECT_TRUE(r.goes_inline(3, 4500, 4400));
		EXPECT_EQ(r.send_pages(), kPages);
	}
}

/* A long reply lands in head, pages and tail, wherever one of them or a Receive's piece ends. */
RPCORDMA_TEST(client_long, replies)
{
	static constexpr struct {
		u32 head, pages, tail; /* that the call has room for */
	} cases[] = {
		{4096, 0, 0},	 {4056, 1000, 28},  {4060, 1000, 24},  {4064, 1000, 20},
		{100, 4984, 0},	 {100, 3960, 1024}, {100, 3956, 1028}, {2000, 2500, 500},
		{4060, 0, 1024}, {4060, 256, 768},
	};

	LongRequester r;
	r.connect2();
	for (const auto &k : cases) {
		TEST_NOTE("head", k.head);
		TEST_NOTE("pages", k.pages);
		TEST_NOTE("tail", k.tail);
		const u32 most = k.head + k.pages + k.tail;
		const u32 stops[] = {k.head, k.head + k.pages, most, kHead - kHeader,
				     kHead - kHeader + kPage};

		for (const u32 stop : stops)
			for (const u32 size : {stop - 4, stop, stop + 4}) {
				TEST_NOTE("size", size);
				if (size > most)
					continue;
				rpc_rqst *call = r.prepare(5, 40, k.head);
				if (k.pages)
					r.add_pages(call, k.pages, true);
				u8 *const tail = test_alloc(k.tail + 1).data();
				__builtin_memset(tail, 0xee, k.tail);
				if (k.tail) {
					call->receive.tail = {tail, k.tail};
					call->receive.buflen += k.tail;
				}
				u8 *const head = static_cast<u8 *>(call->receive.head.base);
				EXPECT_EQ(r.transmit(call), 0);
				EXPECT_FALSE(decoded2(r.peer.last()).has_chunks());
				EXPECT_TRUE(r.reply2(5, size));
				EXPECT_EQ(call->result, int(size));
				for (u32 i = 8; i < most; i++) {
					const u32 at = i - k.head;
					const u8 byte =
						i < k.head   ? head[i] :
						at < k.pages ? call->receive.pages[at / kPage]
								       ->data[at % kPage] :
							       tail[at - k.pages];

					ASSERT_EQ(byte, i < size ? pattern(i) : 0xee);
				}
				r.done(call);
			}
	}
	/* Receives keep their pages. */
	EXPECT_EQ(r.large_posted(), r.verbs.posted);
	r.at_rest();
}

/* What a reply says that is in chunks is in chunks, however long its message. */
RPCORDMA_TEST(client_long, reply_in_chunk)
{
	LongRequester r;

	r.connect2();
	for (const u32 message : {100u, kHead, kHead + 1, kLarge}) {
		TEST_NOTE("message", message);
		rpc_rqst *call = r.prepare(6, 40, 4000);
		call->receive.tail = {test_alloc(2000).data(), 2000};
		call->receive.buflen += 2000;
		EXPECT_EQ(r.transmit(call), 0);
		const auto sent = decoded2(r.peer.last());
		ASSERT_TRUE(sent.reply.present());
		const xdr::Segment segment = *sent.reply.begin();
		for (u32 i = 0; i < 300; i++)
			*r.peer.reach(segment, i, true) = pattern(i);
		Reply2Maker answer(6, kGrant, xdr::Kind::nomsg);
		answer.encoder.reply_chunk(sent.reply, 300);
		answer.finish(0);
		const ExactCopy bytes(test_alloc(max(message, answer.length)));
		for (u32 i = 0; i < bytes.bytes().size(); i++)
			bytes[i] = i < answer.length ? answer.message()[i] : 0xa5;
		EXPECT_TRUE(r.deliver(bytes.bytes()));
		EXPECT_EQ(call->result, 300);
		for (u32 i = 0; i < 300; i++)
			ASSERT_EQ(static_cast<u8 *>(call->receive.head.base)[i], pattern(i));
		r.done(call);
	}
	r.at_rest();
}

/* Where it comes to version 1 the Receives lose their pages one after the other, and the next connection has none. */
RPCORDMA_TEST(client_long, version_1)
{
	LongRequester r;

	EXPECT_EQ(r.ask([&] {
		const u32 words[] = {xdr::load_be32(r.peer.message), 2, 1, 4, 1, 1, 1};
		EXPECT_TRUE(r.say(words));
	}),
		  0);
	EXPECT_EQ(r.connection()->session.version(), 1);
	EXPECT_EQ(r.thresholds().receive, kHead);
	EXPECT_EQ(r.thresholds().send, kHead);
	/* What was there before has them still. */
	const u32 large = r.large_posted();
	EXPECT_EQ(large, r.verbs.posted);
	auto serve = [&](u32 xid) {
		rpc_rqst *call = r.call(xid);
		EXPECT_TRUE(r.reply(xid, 24, 4));
		EXPECT_EQ(call->result, 24);
		r.done(call);
	};
	for (u32 i = 1; i <= large; i++) {
		serve(i);
		/* The one of the answer came back before that was understood. */
		EXPECT_EQ(r.memory.pages, kPages * (large - i + 1));
	}
	for (u32 i = 0; i < 40; i++)
		serve(i);
	EXPECT_EQ(r.memory.pages, 0);
	EXPECT_EQ(r.large_posted(), 0);
	r.at_rest();

	/* As long as version 2 is avoided there are none, and none is offered. */
	for (const bool avoided : {true, false}) {
		TEST_NOTE("avoided", avoided);
		rpcordma_core_client_close(r.core);
		r.sync.now += avoided ? kAvoidMs - 1 : 1;
		const u32 words[] = {7, 2, kGrant, 6, 0, 0};
		EXPECT_EQ(r.ask([&] { EXPECT_TRUE(r.say(words)); }), 0);
		EXPECT_EQ(r.connection()->session.version(), avoided ? 1 : 2);
		EXPECT_EQ(r.verbs.sizes.receive_sges, avoided ? 1 : 1 + kPages);
		EXPECT_EQ(r.verbs.sizes.send_sges, avoided ? 1 : 1 + kPages);
		EXPECT_EQ(r.large_posted(), avoided ? 0 : r.verbs.posted);
		EXPECT_EQ(r.memory.pages == 0, avoided);
	}
}

/* A device's SGEs say how many pages there are, of Receives and of Sends. */
RPCORDMA_TEST(client_long, few_sges)
{
	for (const u32 receive_sges : {0u, 1u, 2u, 5u})
		for (const u32 send_sges : {0u, 1u, 2u, 5u}) {
			TEST_NOTE("receive", receive_sges);
			TEST_NOTE("send", send_sges);
			LongRequester r;
			const u32 received = max(receive_sges, 1u) - 1,
				  sent = max(send_sges, 1u) - 1;

			r.verbs.device.max_recv_sge = receive_sges;
			r.verbs.device.max_send_sge = send_sges;
			r.connect2(65536);
			EXPECT_EQ(r.verbs.sizes.receive_sges, 1 + received);
			EXPECT_EQ(r.verbs.sizes.send_sges, 1 + sent);
			EXPECT_EQ(r.thresholds().receive, kHead + received * kPage);
			r.expect_longest(kHead + sent * kPage);
			EXPECT_EQ(r.large_posted(), received ? r.verbs.posted : 0);
		}
}

/* A device that has not the SGEs that it announces: as many calls as ever, none of them long. */
RPCORDMA_TEST(client_long, sges_refused)
{
	LongRequester r;

	r.verbs.qp_receive_sges = 1;
	r.connect2(65536);
	EXPECT_EQ(r.verbs.sizes.receive_sges, 1);
	EXPECT_EQ(r.verbs.sizes.send_sges, 1);
	EXPECT_EQ(r.connection()->credits.requested().get(), Requester::kSlots);
	EXPECT_EQ(r.thresholds().receive, kHead);
	EXPECT_EQ(r.log.take(trace::Loss::qp_failed), 1);
	r.expect_longest(kHead);
}

/*
 * Without memory for all the pages a connection needs, there is one, with small messages: as many Receives as ever, and the
 * server is told what they have. The next connection has pages again.
 */
RPCORDMA_TEST(client_long, first_pages_missing)
{
	const u32 words[] = {7, 2, kGrant, 6, 0, 0};
	u32 enough = 0;
	for (u32 left = 0; !enough; left++) {
		TEST_NOTE("pages", left);
		LongRequester r;
		u32 told = 0, posted = 0;

		r.memory.pages_left = left;
		ASSERT_EQ(r.ask([&] {
			told = r.said().receive_bytes();
			posted = r.verbs.posted;
			r.memory.pages_left = kNoLimit;
			EXPECT_TRUE(r.say(words));
		}),
			  0);
		const bool short_of = r.log.take(trace::Failure::receive_alloc_failed) > 0;
		EXPECT_EQ(r.log.take(trace::Loss::first_receives_failed), 0);
		EXPECT_EQ(told, short_of ? kHead : kLarge);
		EXPECT_EQ(posted, 1 + 2 + ReceiveQueue::kBatch);
		EXPECT_EQ(r.connection()->session.version(), 2);
		EXPECT_EQ(r.thresholds().receive, told);
		EXPECT_EQ(r.verbs.connects, 1);
		if (!short_of)
			enough = left;
		for (u32 i = 1; i < 40; i++) {
			rpc_rqst *call = r.call(i);

			EXPECT_TRUE(r.reply2(i, 24));
			EXPECT_EQ(call->result, 24);
			r.done(call);
		}
		if (short_of) {
			EXPECT_EQ(r.memory.pages, 0);
		}
		r.at_rest();
		rpcordma_core_client_close(r.core);
		r.connect2();
		EXPECT_EQ(r.thresholds().receive, kLarge);
	}
	EXPECT_GE(enough, (1 + 2 + ReceiveQueue::kBatch) * kPages);
}

/* Pages go with their connection, whatever is under way; the next one has its own. */
RPCORDMA_TEST(client_long, ends)
{
	LongRequester r;

	for (u32 turn = 0; turn < 3; turn++) {
		TEST_NOTE("turn", turn);
		r.connect2();
		/* What the last server said is forgotten. */
		r.expect_longest(kHead);
		r.update(65536);
		rpc_rqst *call = r.prepare(turn, 100);
		r.add_pages(call, 4400, false);
		EXPECT_EQ(rpcordma_core_send_request(r.core, call->call), 0);
		EXPECT_EQ(r.send_pages(), kPages);
		if (turn)
			r.work();
		rpcordma_core_client_close(r.core);
		EXPECT_EQ(r.memory.pages, 0);
		EXPECT_EQ(r.dma.mappings, 0);
		r.done(call);
	}
}

RPCORDMA_SUITE(client_long, question, calls, call_bytes, strange_updates, no_memory, replies,
	       reply_in_chunk, version_1, few_sges, sges_refused, first_pages_missing, ends);

} // namespace rpcordma
