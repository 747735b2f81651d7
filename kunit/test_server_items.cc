// SPDX-License-Identifier: GPL-2.0-only
/*
 * A server's connection of version 2 whose calls have items in pages of its Receives (rtrext-01's send-based placement): what
 * the service gets of them, as they lie or copied; when the pages are the device's again; and what is answered when an item is
 * not where it is said to be.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"
#include "module/protocol/negotiation.hh"

namespace rpcordma {
namespace {

constexpr u32 kHead = 4096, kPages = 4, kMany = 64;
/* Bytes of an item that a transmission takes, those of a transmission, and those of an item that a call takes. */
constexpr u32 kPart = kPages * kPage, kEach = kHead + kPart, kMost = 4 * kPart;
constexpr u32 kRequest = static_cast<u32>(xdr::Option::xmtreq);

/* An item of a call, as it is said to lie. */
struct Placed {
	u32 displacement = 100;
	u32 length = 0;
	u32 offset = 0;
	u32 numbers[16] = {};
	u32 segments = 0;
};

/* @length bytes in so many segments as they take, from @first on. */
[[nodiscard]] Placed placed(u32 length, u32 first = 0, u32 displacement = 100)
{
	Placed item;

	item.displacement = displacement;
	item.length = length;
	item.segments = div_round_up(length, u32(kPage));
	for (u32 n = 0; n < item.segments; n++)
		item.numbers[n] = first + n;
	return item;
}

struct Placing : Served {
	u8 *const room; /* a transmission */
	u32 length = 0; /* of it */

	Placing() : room(test_alloc(kEach).data())
	{
		rpcordma_server_tunables.version2 = 1;
		rpcordma_server_tunables.version2_rtr = 7;
		rpcordma_server_tunables.version2_pages = kPages;
		rpcordma_server_tunables.version2_receive_bytes = 0;
		rpcordma_server_tunables.max_req_size = kHead;
		memory.size = u64(1) << 30;
		verbs.device.max_recv_sge = verbs.device.max_send_sge = 32;
		reconnect();
	}
	void reconnect()
	{
		connect({false, true, true});
		const u32 words[] = {1, 2, kMany, 6, 1, 1, 4, kHead, 0};
		EXPECT_TRUE(say({RawMessage(words).message()}));
		work();
		grow();
	}
	~Placing()
	{
		if (serving)
			expect_rest();
		end();
		EXPECT_EQ(receive_budget.taken(), 0);
	}
	[[nodiscard]] bool say(Bytes bytes)
	{
		const ExactCopy copy(bytes);

		return verbs.send(server, copy.bytes());
	}
	/* Calls come until the client is told of large Receives. */
	void grow()
	{
		bool told = false;

		for (u32 i = 0; i < 500 && !told; i++) {
			Call2Maker call(1000 + i);

			call.finish(40);
			ASSERT_TRUE(send(call));
			told = work() > 0;
			ASSERT_EQ(receive(), 40);
			EXPECT_EQ(reply(20), 0);
			work();
		}
		EXPECT_TRUE(told);
	}
	/* Byte @at of the call @xid, which has an RPC header of 40 bytes and nothing else of the kind. */
	[[nodiscard]] static u8 byte_of(u32 xid, u32 at)
	{
		return at < 4 ? u8(xid >> (24 - 8 * at)) : at < 40 ? 0 : pattern(at);
	}
	/* Begin an XMTREQ with these items, and say that it has @said bytes of the stream. */
	void begin(u32 xid, u32 count, Span<const Placed> items, u32 said)
	{
		rtrext::Encoder encoder({room, kEach}, Xid(xid), Credits(kMany),
					xdr::Option::xmtreq);

		for (const Placed &item : items)
			encoder.sent(item.displacement, item.length, item.offset,
				     {item.numbers, item.segments});
		const auto header = encoder.finish(count, 1, said);
		ASSERT_OK(header);
		length = header.value();
	}
	/* Begin an XMTCONT. */
	void begin_more(u32 xid, u32 number, u32 said)
	{
		const auto header = rtrext::encode({room, kEach}, Xid(xid), Credits(kMany),
						   xdr::Direction::call, {number, kRequest, said});

		ASSERT_OK(header);
		length = header.value();
	}
	/* Append bytes [@from, @to) of the call. */
	void add(u32 xid, u32 from, u32 to)
	{
		for (; from < to; from++)
			room[length++] = byte_of(xid, from);
	}
	/* What is in the pages begins: what is left of the head is no zeros, as nobody looks. */
	void begin_pages(u32 offset = 0)
	{
		while (length < kHead + offset)
			room[length++] = 0xa5;
	}
	void go()
	{
		EXPECT_TRUE(say({room, length}));
	}
	/* The call @xid: @item, @tail bytes behind it, in transmissions as a client makes them. */
	void say_call(u32 xid, const Placed &item, u32 tail)
	{
		const u32 begin_tail = item.displacement + item.length + xdr_pad(item.length);
		const u32 count = max(1u, div_round_up(item.segments, kPages));
		u32 at = item.displacement;

		for (u32 i = 0; i < count; i++) {
			const u32 n = min(item.displacement + item.length - at, kPart);

			if (i) {
				begin_more(xid, i, 0);
			} else {
				begin(xid, count, {&item, 1}, item.displacement + tail);
				add(xid, 0, item.displacement);
				add(xid, begin_tail, begin_tail + tail);
			}
			begin_pages();
			add(xid, at, at + n);
			at += n;
			go();
		}
	}
	/* The thread's call has these bytes, and zeros between @pad and @pad_end. */
	void expect_bytes(u32 xid, u32 size, u32 pad = 0, u32 pad_end = 0)
	{
		const rpcordma_svc_arg &arg = rqst->arg;
		u32 wrong = 0;

		ASSERT_EQ(arg.head_length + arg.page_length + arg.tail_length, size);
		for (u32 i = 0; i < size; i++)
			wrong += call_byte(i) != (i >= pad && i < pad_end ? 0 : byte_of(xid, i));
		EXPECT_EQ(wrong, 0);
	}
	/* A page that a posted Receive has. */
	[[nodiscard]] bool is_posted(const page *p) const
	{
		for (u32 i = 0; i < verbs.posted; i++) {
			const Receive *receive =
				OwnedCqe<Receive>::owner_of(verbs.receive_queue[i]->cqe);

			for (u32 n = 0; receive->pages && n < receive->pages->count(); n++)
				if (receive->pages->pages()[n] == p)
					return true;
		}
		return false;
	}
	/* What sendto() says of the reply to the call that the thread has. */
	int send_answer()
	{
		xdr::store_be32(reply_bytes, call_xid().get());
		xdr::store_be32(reply_bytes + 4, 1);
		return send_reply(20);
	}
	void answer()
	{
		EXPECT_EQ(send_answer(), 0);
		release();
		work();
		EXPECT_EQ(in_service(), 0);
	}
	void expect_served(u32 xid)
	{
		Call2Maker call(xid);

		call.finish(40);
		EXPECT_TRUE(send(call));
		ASSERT_EQ(receive(), 40);
		EXPECT_EQ(call_xid(), Xid(xid));
		answer();
	}
	/* A thread sends a REPTERR about the first transmission, which this is. */
	rtrext::Report expect_report(u32 xid, rtrext::Fault fault)
	{
		const u32 before = peer.messages;
		rtrext::Report report;

		EXPECT_EQ(receive(), 0);
		work();
		EXPECT_EQ(peer.messages, before + 1);
		const auto message = decoded2(peer.last());
		EXPECT_EQ(message.kind, xdr::Kind::optional);
		EXPECT_EQ(message.option, xdr::Option::repterr);
		EXPECT_EQ(message.xid, Xid(xid));
		EXPECT_EQ(rtrext::decode(message.body(), report), Error::none);
		EXPECT_EQ(report.bad.xid, Xid(xid));
		EXPECT_EQ(report.bad.number, 0);
		EXPECT_EQ(report.detail.fault, fault);
		EXPECT_EQ(log.take(trace::Failure::repterr_sent), 1);
		EXPECT_EQ(in_service(), 0);
		return report;
	}
	/* A thread sends an ERROR with this code. */
	void expect_refused(u32 xid, xdr::ErrorCode code)
	{
		EXPECT_EQ(receive(), 0);
		work();
		const auto message = decoded2(peer.last());
		EXPECT_EQ(message.kind, xdr::Kind::error);
		EXPECT_EQ(message.xid, Xid(xid));
		EXPECT_EQ(message.error.code, code);
		EXPECT_EQ(in_service(), 0);
	}
	[[nodiscard]] u32 lent() const
	{
		return counter(RPCORDMA_SERVER_LENT_PAGES);
	}
};

} // namespace

/* The service gets the pages that the item came into, in their order, between head and tail; nothing is copied or read. */
RPCORDMA_TEST(server_items, lent)
{
	Placing s;
	u32 xid = 1, pages = 0, items = 0;
	const u32 lengths[] = {1,     2,	 kPage - 1,   kPage,	     kPage + 1, kPart - 1,
			       kPart, kPart + 1, kPart + 300, 2 * kPart + 3, kMost - 3, kMost};

	for (const u32 length : lengths)
		for (const u32 tail : {0u, 8u}) {
			TEST_NOTE("length", length);
			TEST_NOTE("tail", tail);
			const Placed item = placed(length);
			const u32 end = 100 + length, pad = xdr_pad(length);
			const u32 parts = div_round_up(item.segments, kPages);

			s.say_call(++xid, item, tail);
			EXPECT_EQ(s.in_service(), parts);
			ASSERT_EQ(s.receive(), int(end + pad + tail));
			const rpcordma_svc_arg &arg = s.rqst->arg;
			const Receive *receive = s.rqst->call->receive;
			EXPECT_EQ(arg.head, receive->buffer.data() + receive->message.header_length);
			EXPECT_EQ(arg.head_length, 100);
			EXPECT_EQ(arg.page_length, length + pad);
			EXPECT_EQ(arg.tail_length, tail);
			EXPECT_EQ(arg.pages_used, 0);
			EXPECT_FALSE(s.rqst->call->transfer);
			for (u32 n = 0; n < item.segments; n++) {
				if (n && n % kPages == 0)
					receive = receive->next;
				ASSERT_NE(receive, nullptr);
				EXPECT_EQ(arg.pages[n], receive->pages->pages()[n % kPages]);
				EXPECT_FALSE(s.is_posted(arg.pages[n]));
			}
			s.expect_bytes(xid, end + pad + tail, end, end + pad);
			/* All of them are the call's until it is released. */
			EXPECT_EQ(s.in_service(), parts);
			EXPECT_EQ(audit(*s.server).with_calls, parts);
			EXPECT_EQ(s.send_answer(), 0);
			s.work();
			EXPECT_EQ(s.in_service(), parts);
			for (u32 n = 0; n < item.segments; n++)
				EXPECT_FALSE(s.is_posted(arg.pages[n]));
			s.release();
			EXPECT_EQ(s.in_service(), 0);
			EXPECT_EQ(audit(*s.server).with_calls, 0);
			EXPECT_EQ(decoded2(s.peer.last()).xid, Xid(xid));
			pages += item.segments;
			items++;
		}
	EXPECT_EQ(s.lent(), pages);
	EXPECT_EQ(counter(RPCORDMA_SERVER_V2_SENT_ITEMS), items);
	EXPECT_EQ(s.peer.reads, 0);
	s.expect_served(900);
}

/* Right behind the RPC header, and in a call that is just as long as one may be. */
RPCORDMA_TEST(server_items, lent_just_so)
{
	for (const u32 displacement : {40u, 44u})
		for (const u32 over : {0u, 1u}) {
			TEST_NOTE("displacement", displacement);
			TEST_NOTE("too long by", over);
			constexpr u32 length = 300, tail = 8;
			const u32 all = displacement + length + tail;
			Placing s;

			s.server->limits.max_message = all - over;
			s.say_call(7, placed(length, 0, displacement), tail);
			if (over) {
				s.expect_refused(7, xdr::ErrorCode::system);
				EXPECT_EQ(s.log.take(trace::Failure::call_too_long), 1);
				EXPECT_EQ(s.log.take(trace::Failure::err_chunk_sent), 1);
				continue;
			}
			ASSERT_EQ(s.receive(), int(all));
			EXPECT_EQ(s.rqst->arg.head_length, displacement);
			s.expect_bytes(7, all);
			s.answer();
			EXPECT_EQ(s.lent(), div_round_up(length, u32(kPage)));
		}
}

/* The order of an item's pages is what its list says. */
RPCORDMA_TEST(server_items, order)
{
	Placing s;
	Placed item = placed(3 * kPage);

	item.numbers[0] = 2;
	item.numbers[1] = 0;
	item.numbers[2] = 3;
	s.begin(7, 1, {&item, 1}, 104);
	s.add(7, 0, 100);
	s.add(7, 100 + item.length, 104 + item.length);
	s.begin_pages();
	s.add(7, 100 + kPage, 100 + 2 * kPage);
	s.length += kPage;
	s.add(7, 100, 100 + kPage);
	s.add(7, 100 + 2 * kPage, 100 + 3 * kPage);
	s.go();
	ASSERT_EQ(s.receive(), int(104 + item.length));
	EXPECT_NE(s.rqst->arg.pages, nullptr);
	s.expect_bytes(7, 104 + item.length);
	s.answer();
}

/* What cannot be the service's as it lies is copied into the thread's pages. */
RPCORDMA_TEST(server_items, copied)
{
	Placing s;

	/* An item that begins within a page. */
	Placed odd = placed(300);
	odd.offset = 8;
	s.begin(1, 1, {&odd, 1}, 112);
	s.add(1, 0, 100);
	s.add(1, 400, 412);
	s.begin_pages(8);
	s.add(1, 100, 400);
	s.go();
	ASSERT_EQ(s.receive(), 412);
	EXPECT_EQ(s.rqst->arg.head, nullptr);
	s.expect_bytes(1, 412);
	s.answer();

	/* Two, and the stream between and behind them; the first one's pad nobody sent. */
	const Placed two[] = {placed(kPage - 2, 0, 100), placed(kPage + 44, 1, 108 + kPage)};
	const u32 first_end = 100 + kPage - 2, second_end = 152 + 2 * kPage;
	s.begin(2, 1, two, 112);
	s.add(2, 0, 100);
	s.add(2, 100 + kPage, 108 + kPage);
	s.add(2, second_end, second_end + 4);
	s.begin_pages();
	s.add(2, 100, first_end);
	s.length = kHead + kPage;
	s.add(2, 108 + kPage, second_end);
	s.go();
	ASSERT_EQ(s.receive(), int(second_end + 4));
	s.expect_bytes(2, second_end + 4, first_end, 100 + kPage);
	s.answer();

	/* A stream in two transmissions, with the item in the second, and no RPC header in the first. */
	const Placed late = placed(2 * kPage, kPages);
	const u32 end = 100 + 2 * kPage;
	s.begin(3, 2, {&late, 1}, 20);
	s.add(3, 0, 20);
	s.go();
	s.begin_more(3, 1, 84);
	s.add(3, 20, 100);
	s.add(3, end, end + 4);
	s.begin_pages();
	s.add(3, 100, end);
	s.go();
	EXPECT_EQ(s.in_service(), 2);
	ASSERT_EQ(s.receive(), int(end + 4));
	EXPECT_EQ(s.in_service(), 1);
	s.expect_bytes(3, end + 4);
	s.answer();

	/* All of the stream in the first, which may be as long as a head, and all of the item in the second. */
	for (const bool whole_head : {false, true}) {
		TEST_NOTE("whole head", whole_head);
		s.begin(4, 2, {&late, 1}, 104);
		s.add(4, 0, 100);
		s.add(4, end, end + 4);
		if (whole_head)
			s.begin_pages();
		s.go();
		s.begin_more(4, 1, 0);
		s.begin_pages();
		s.add(4, 100, end);
		s.go();
		ASSERT_EQ(s.receive(), int(end + 4));
		EXPECT_EQ(s.rqst->arg.head, nullptr);
		s.expect_bytes(4, end + 4);
		s.answer();
	}

	/* An item that has a part of the RPC header. */
	const Placed early = placed(kPart + 4, 0, 20);
	const u32 all = 20 + kPart + 4;
	s.begin(6, 2, {&early, 1}, 20);
	s.add(6, 0, 20);
	s.begin_pages();
	s.add(6, 20, 20 + kPart);
	s.go();
	s.begin_more(6, 1, 0);
	s.begin_pages();
	s.add(6, 20 + kPart, all);
	s.go();
	ASSERT_EQ(s.receive(), int(all));
	EXPECT_EQ(s.rqst->arg.head, nullptr);
	s.expect_bytes(6, all);
	s.answer();

	/* An item of no bytes. */
	const Placed none = placed(0);
	s.begin(5, 1, {&none, 1}, 120);
	s.add(5, 0, 120);
	s.go();
	ASSERT_EQ(s.receive(), 120);
	s.expect_bytes(5, 120);
	s.answer();
	EXPECT_EQ(s.lent(), 0);
	EXPECT_EQ(s.peer.reads, 0);
	s.expect_served(900);
}

/* A page that somebody has when the call is over is his: the device gets another, or none. Of each part. */
RPCORDMA_TEST(server_items, kept)
{
	for (const bool memory : {true, false})
		for (const u32 which : {0u, 3u, 4u, 9u, 15u}) {
			TEST_NOTE("memory", memory);
			TEST_NOTE("page", which);
			Placing s;

			s.say_call(7, placed(kMost), 8);
			ASSERT_EQ(s.receive(), int(100 + kMost + 8));
			page *const had = s.rqst->arg.pages[which];
			had->references++;
			EXPECT_EQ(s.send_answer(), 0);
			if (!memory)
				s.memory.pages_left = 0;
			s.release();
			s.work();
			s.want_for_nothing();
			EXPECT_EQ(had->references, 1);
			EXPECT_EQ(had->block.mapped, 0);
			EXPECT_FALSE(s.is_posted(had));
			const ExactCopy before(Bytes(had->data, kPage));
			for (u32 xid = 20; xid < 40; xid++) {
				s.say_call(xid, placed(kMost), 8);
				ASSERT_EQ(s.receive(), int(100 + kMost + 8));
				s.expect_bytes(xid, 100 + kMost + 8);
				s.answer();
			}
			EXPECT_BYTES(Bytes(had->data, kPage), before.bytes());
			s.memory.put_page(had);
		}
}

/* What is said of an item has to be so: each fault has its report, and the next call is served. */
RPCORDMA_TEST(server_items, refused)
{
	using rtrext::Fault;
	Placing s;
	rtrext::Report report;

	/* Segments of more transmissions than there are. */
	Placed item = placed(kPage, 4);
	s.say_call(1, item, 8);
	report = s.expect_report(1, Fault::segment);
	EXPECT_FALSE(report.has_lead);
	EXPECT_EQ(report.detail.words[0], 4);
	EXPECT_EQ(report.detail.words[2], 3);
	/* Bytes that have not come. */
	item = placed(kPage);
	s.begin(2, 1, {&item, 1}, 100);
	s.add(2, 0, 100);
	s.begin_pages();
	s.add(2, 100, 100 + kPage - 1);
	s.go();
	(void)s.expect_report(2, Fault::segment);
	/* Of a whole group, when its last transmission is here. */
	item = placed(kPart + 100);
	item.numbers[4] = 8;
	s.say_call(3, item, 0);
	report = s.expect_report(3, Fault::segment);
	EXPECT_TRUE(report.has_lead);
	EXPECT_EQ(report.lead.xid, Xid(3));
	EXPECT_EQ(report.detail.words[0], 8);
	/* Fewer segments than it takes. */
	item = placed(kPage + 10);
	item.segments = 1;
	s.say_call(4, item, 0);
	(void)s.expect_report(4, Fault::segment);
	/* Behind its segment; where another one is; where it is itself. */
	item = placed(kPage);
	item.offset = kPage;
	s.say_call(5, item, 0);
	(void)s.expect_report(5, Fault::offset);
	const Placed both[] = {placed(kPage, 0, 100), placed(kPage, 0, 1000)};
	s.begin(6, 1, both, 904);
	s.add(6, 0, 904);
	s.begin_pages();
	s.add(6, 100, 100 + kPage);
	s.go();
	(void)s.expect_report(6, Fault::offset);
	item = placed(2 * kPage);
	item.numbers[1] = 0;
	s.say_call(7, item, 0);
	(void)s.expect_report(7, Fault::offset);
	/* The stream ends before it; or is where the item is. */
	item = placed(kPage, 0, 400);
	s.begin(8, 1, {&item, 1}, 300);
	s.add(8, 0, 300);
	s.begin_pages();
	s.add(8, 400, 400 + kPage);
	s.go();
	(void)s.expect_report(8, Fault::stream);
	item = placed(kPage);
	s.begin(9, 1, {&item, 1}, 4096);
	s.add(9, 0, 100);
	s.add(9, 100 + kPage, 100 + kPage + 3996);
	s.add(9, 100, 100 + kPage);
	s.go();
	(void)s.expect_report(9, Fault::stream);
	/* Of a group, only the last transmission tells. */
	item = placed(kPage, kPages);
	s.begin(13, 2, {&item, 1}, 60);
	s.add(13, 0, 60);
	s.go();
	s.begin_more(13, 1, 20);
	s.add(13, 60, 80);
	s.begin_pages();
	s.add(13, 100, 100 + kPage);
	s.go();
	report = s.expect_report(13, Fault::stream);
	EXPECT_EQ(report.detail.words[0], 80);
	EXPECT_EQ(report.detail.words[1], 100);
	/* In the RPC header; too long for the service. */
	item = placed(kPage, 0, 36);
	s.say_call(10, item, 40);
	s.expect_refused(10, xdr::ErrorCode::chunk);
	s.server->limits.max_message = 2000;
	s.say_call(12, placed(kMost), 0);
	s.expect_refused(12, xdr::ErrorCode::system);
	EXPECT_EQ(s.log.take(trace::Failure::call_too_long), 1);
	EXPECT_EQ(s.log.take(trace::Failure::err_chunk_sent), 2);
	EXPECT_EQ(s.lent(), 0);
	s.expect_served(900);
	(void)s.log.take(trace::Failure::message_incomplete);
}

/* Items in RDMA segments are fetched, as Read chunks are, by the completion or by a thread: one, or several, and what is between. */
RPCORDMA_TEST(server_items, fetched)
{
	Placing s;
	struct {
		u32 displacement, length;
		/* Of the client's memory; the last ones may have the pad. */
		u32 segments, each[3];
	} const items[][2] = {
		{{100, 300, 1, {300}}, {}},	    {{100, 5001, 2, {5000, 1}}, {}},
		{{100, 5001, 3, {5000, 0, 4}}, {}}, {{40, 1, 1, {1}}, {48, 9000, 2, {1, 8999}}},
		{{60, 3, 1, {4}}, {64, 4, 1, {4}}}, {{60, 0, 0, {}}, {100, 700, 1, {700}}},
		{{60, 0, 2, {0, 0}}, {}},
	};
	u32 xid = 100, reads = 0, allocations = 0;

	for (u32 turn = 0; turn < 4; turn++) {
		const bool eager = turn % 2 == 0;

		for (const auto &call : items) {
			TEST_NOTE("turn", turn);
			TEST_NOTE("case", &call - items);
			rtrext::Encoder encoder({s.room, kEach}, Xid(++xid), Credits(kMany),
						xdr::Option::xmtreq);
			u32 at = 0, excised = 0, bytes = 0;

			for (const auto &item : call) {
				xdr::Segment segments[3];

				if (!item.displacement)
					continue;
				for (u32 n = 0; n < item.segments; n++) {
					segments[n] = CallMaker::segment(item.each[n], at);
					at += item.each[n];
				}
				encoder.segments(item.displacement, item.length,
						 {segments, item.segments});
				excised += item.length + xdr_pad(item.length);
				bytes += item.length;
			}
			const u32 stream = 120;
			s.length = encoder.finish(1, 1, stream).value();
			s.add(xid, 0, stream);
			if (!eager)
				s.pretend_waiters(1);
			s.go();
			s.pretend_waiters(0);
			reads += bytes != 0;
			if (!eager && bytes) {
				EXPECT_EQ(s.receive(), 0);
			}
			s.work();
			ASSERT_EQ(s.receive(), int(stream + excised));
			EXPECT_EQ(counter(RPCORDMA_SERVER_HELD) != 0, turn && reads > 6);
			u32 wrong = 0, from = 0, said = 0, i = 0;
			for (const auto &item : call) {
				if (!item.displacement)
					continue;
				for (; i < item.displacement; i++)
					wrong += s.call_byte(i) != Placing::byte_of(xid, said++);
				u32 memory = from;
				for (u32 n = 0; n < item.length; n++, i++)
					wrong += s.call_byte(i) != s.peer.memory[memory++];
				for (u32 n = 0; n < item.segments; n++)
					from += item.each[n];
				i += xdr_pad(item.length);
			}
			for (; i < stream + excised; i++)
				wrong += s.call_byte(i) != Placing::byte_of(xid, said++);
			EXPECT_EQ(wrong, 0);
			EXPECT_EQ(s.peer.invalidated, 0);
			s.answer();
			EXPECT_EQ(decoded2(s.peer.last()).kind, xdr::Kind::msg);
		}
		/* What lists the segments of a call ends with it. */
		if (turn == 1)
			allocations = the_port->memory.allocations;
	}
	EXPECT_EQ(the_port->memory.allocations, allocations);
	EXPECT_GT(counter(RPCORDMA_SERVER_EAGER), 0);
	EXPECT_GT(counter(RPCORDMA_SERVER_HELD), 0);
	s.expect_served(900);
}

/* What is not fetched: beside others, of a group, in the RPC header, behind the end; what cannot be, and what was not before. */
RPCORDMA_TEST(server_items, not_fetched)
{
	Placing s;
	const xdr::Segment segment = CallMaker::segment(100, 0);
	const u32 numbers[] = {0};
	auto say = [&](u32 xid, u32 displacement, bool beside, u32 count) {
		rtrext::Encoder encoder({s.room, kEach}, Xid(xid), Credits(kMany),
					xdr::Option::xmtreq);

		encoder.segments(displacement, 100, {&segment, 1});
		if (beside)
			encoder.sent(displacement + 200, 100, 0, numbers);
		s.length = encoder.finish(count, 1, 320).value();
		s.add(xid, 0, 320);
		if (beside) {
			s.begin_pages();
			s.add(xid, 0, 100);
		}
		s.go();
	};

	say(1, 100, true, 1);
	s.expect_refused(1, xdr::ErrorCode::system);
	say(2, 100, false, 2);
	s.begin_more(2, 1, 4);
	s.add(2, 0, 4);
	s.go();
	s.expect_refused(2, xdr::ErrorCode::system);
	say(3, 36, false, 1);
	s.expect_refused(3, xdr::ErrorCode::chunk);
	say(4, 400, false, 1);
	(void)s.expect_report(4, rtrext::Fault::stream);
	/* Where the service takes no more. */
	const u32 most = s.server->limits.max_message;
	s.server->limits.max_message = 410;
	say(5, 100, false, 1);
	s.expect_refused(5, xdr::ErrorCode::system);
	EXPECT_EQ(s.log.take(trace::Failure::call_too_long), 1);
	s.server->limits.max_message = most;
	EXPECT_EQ(s.peer.reads, 0);
	s.expect_served(900);
	EXPECT_EQ(s.log.take(trace::Failure::err_chunk_sent), 4);
	(void)s.log.take(trace::Failure::message_incomplete);
	/* The client's device refuses it: the call is known when it comes again. */
	say(6, 100, false, 1);
	s.verbs.fail_at = 0;
	s.verbs.fail_status = RPCORDMA_WC_REMOTE_ACCESS;
	s.work();
	EXPECT_EQ(s.log.take(trace::Failure::chunk_refused), 1);
	EXPECT_EQ(s.log.take(trace::Loss::read_failed), 1);
	s.end();
	s.reconnect();
	say(6, 100, false, 1);
	s.expect_refused(6, xdr::ErrorCode::system);
	EXPECT_EQ(s.log.take(trace::Failure::call_failed_before), 1);
	EXPECT_EQ(s.log.take(trace::Failure::err_chunk_sent), 1);
	/* No memory for the list. */
	s.memory.allocations_left = 0;
	say(7, 100, false, 1);
	s.want_for_nothing();
	EXPECT_TRUE(s.svc.closed);
	EXPECT_EQ(s.log.take(trace::Failure::gather_failed), 1);
	EXPECT_EQ(s.log.take(trace::Loss::rpc_failed), 1);
}

/* Directions whose segments the client's device refuses: the call is known again, though its pages were the service's. */
RPCORDMA_TEST(server_items, failed_before)
{
	Placing s;
	const Placed item = placed(300);
	const xdr::Segment result = CallMaker::segment(1000, 0);
	auto say = [&] {
		rtrext::Encoder encoder({s.room, kEach}, Xid(7), Credits(kMany),
					xdr::Option::xmtreq);

		encoder.sent(item.displacement, item.length, 0, {item.numbers, item.segments});
		encoder.set(0, ~0u);
		encoder.place(0, rtrext::Type::segments, {&result, 1});
		s.length = encoder.finish(1, 1, 104).value();
		s.add(7, 0, 100);
		s.add(7, 400, 404);
		s.begin_pages();
		s.add(7, 100, 400);
		s.go();
	};

	say();
	ASSERT_EQ(s.receive(), 404);
	EXPECT_NE(s.rqst->arg.pages, nullptr);
	s.rqst->ddp_allowed = true;
	EXPECT_EQ(rpcordma_core_server_result_payload(s.rqst->call, 8, 12), 0);
	EXPECT_EQ(s.send_answer(), 0);
	s.verbs.fail_at = 0;
	s.verbs.fail_status = RPCORDMA_WC_REMOTE_ACCESS;
	s.work();
	s.release();
	EXPECT_EQ(s.log.take(trace::Failure::chunk_refused), 1);
	EXPECT_EQ(s.log.take(trace::Loss::chain_failed), 1);
	s.end();
	s.reconnect();
	say();
	s.expect_refused(7, xdr::ErrorCode::system);
	EXPECT_EQ(s.log.take(trace::Failure::call_failed_before), 1);
	EXPECT_EQ(s.log.take(trace::Failure::err_chunk_sent), 1);
	s.expect_served(8);
}

/* Without memory for the list of its pages, or for the copy, the client has to send it again. */
RPCORDMA_TEST(server_items, no_memory)
{
	Placing s;

	s.say_call(7, placed(kMost), 8);
	s.memory.allocations_left = 0;
	EXPECT_EQ(s.receive(), 0);
	s.want_for_nothing();
	EXPECT_EQ(s.in_service(), 0);
	EXPECT_EQ(s.lent(), 0);
	EXPECT_EQ(s.log.take(trace::Failure::gather_failed), 1);
	s.work();
	EXPECT_TRUE(s.server->closing.load());
	EXPECT_EQ(s.log.take(trace::Loss::rpc_failed), 1);
}

/*
 * A service may believe what a call says of its payload's length, and look for more than the item has: not for more than
 * came, which is in the call's own pages.
 */
RPCORDMA_TEST(server_items, more_than_came)
{
	Placing s;
	u32 xid = 500;

	for (u32 turn = 0; turn < 3; turn++) {
		const u32 size = turn == 1 ? kMost : kPage, pages = size / kPage;

		TEST_NOTE("turn", turn);
		s.say_call(++xid, placed(size), 40);
		ASSERT_EQ(s.receive(), int(placed(size).displacement + size + 40));
		page *const *const lent = s.rqst->arg.pages;
		EXPECT_EQ(lent[pages], lent[pages - 1]);
		EXPECT_FALSE(s.is_posted(lent[pages]));
		s.answer();
		/* The same calls come into use again. */
		for (u32 i = 0; i < 70; i++)
			s.expect_served(2000 + i);
	}
	/* What no message was received into has nothing of anybody's. */
	u32 others = 0, clean = 0;
	for (u32 i = 0; i < s.verbs.posted; i++) {
		Receive *receive = OwnedCqe<Receive>::owner_of(s.verbs.receive_queue[i]->cqe);
		u32 bytes = 0;

		for (u32 n = 0; receive->pages && n < kPages; n++)
			for (u32 at = 0; at < kPage; at++)
				bytes += receive->pages->pages()[n]->data[at] != 0;
		(bytes ? others : clean)++;
	}
	EXPECT_LE(others, 6);
	EXPECT_GT(clean, 6);
}

/*
 * The same where what is behind the data is longer than a page: a chunk's, and an item's, which comes in a call that had
 * more pages before. The port's rpcordma_svc_set_arg() looks behind the data of each call.
 */
RPCORDMA_TEST(server_items, much_behind)
{
	for (const bool eager : {true, false})
		for (const u32 size : {4u, u32(kPage) - 1, u32(kPage)}) {
			Connected c;
			CallMaker call(1);

			TEST_NOTE("eager", eager);
			TEST_NOTE("size", size);
			call.read(40, size, 0);
			call.finish(40 + 3 * kPage);
			c.pretend_waiters(!eager);
			ASSERT_TRUE(c.send(call));
			c.pretend_waiters(0);
			if (!eager)
				EXPECT_EQ(c.receive(), 0);
			c.work();
			ASSERT_EQ(c.receive(), int(40 + size + xdr_pad(size) + 3 * kPage));
			EXPECT_EQ(c.rqst->arg.tail_length, 3 * kPage);
			c.release();
		}

	Placing s;
	const u32 tails[] = {kPage, kPage + 4, 1000};

	for (const u32 tail : tails) {
		TEST_NOTE("tail", tail);
		s.say_call(500 + tail, placed(kMost), tail);
		ASSERT_EQ(s.receive(), int(100 + kMost + tail));
		EXPECT_EQ(s.rqst->arg.pages != nullptr, tail <= kPage);
		s.answer();
		s.say_call(501 + tail, placed(kPage), tail);
		ASSERT_EQ(s.receive(), int(100 + kPage + tail));
		EXPECT_EQ(s.rqst->arg.pages != nullptr, tail <= kPage);
		s.answer();
	}
}

/* Nothing of a call is ahead of its header, though the message has so little of that that nobody can tell how long it is. */
RPCORDMA_TEST(server_items, ahead_of_header)
{
	for (const u32 displacement : {0u, 36u}) {
		Placing s;
		xdr::Segment segments[251] = {};

		TEST_NOTE("displacement", displacement);
		segments[0] = CallMaker::segment(400, 0);
		rtrext::Encoder encoder({s.room, kEach}, Xid(7), Credits(kMany),
					xdr::Option::xmtreq);
		encoder.segments(displacement, 400, {segments, 251});
		s.length = encoder.finish(1, 1, 120).value();
		/* The head of the Receive ends within the call's. */
		EXPECT_LT(kHead, s.length + rpc::least_call_length);
		s.add(7, 0, 120);
		s.go();
		s.expect_refused(7, xdr::ErrorCode::chunk);
	}
}

RPCORDMA_SUITE(server_items, ahead_of_header, much_behind, fetched, not_fetched, failed_before,
	       more_than_came, lent, lent_just_so, order, copied, kept, refused, no_memory);

} // namespace rpcordma
