// SPDX-License-Identifier: GPL-2.0-only
/*
 * A server's connection of version 2 whose Receives become large (module/server/growth.hh): when, with what failing, how
 * the client hears of it; and what long calls and long replies are like then.
 */
#include "kunit/test_server_calls.hh"
#include "kunit/testing.hh"
#include "module/protocol/negotiation.hh"

namespace rpcordma {
namespace {

constexpr u32 kHead = 4096, kPages = 4, kHeader = 36;
constexpr u32 kLarge = kHead + kPages * kPage;

struct GrowthSetting {
	u32 parameter = 1;
	bool marked = true;
	bool established = true;
	u32 pages = kPages;
	u32 receive_sges = 32, send_sges = 32; /* of the device */
	u32 receive_sges_given = ~0u;	       /* that a queue pair has memory for */
	unsigned long budget = 0;	       /* bytes; 0: plenty, by the machine's memory */
	u32 reduction = 0;
};

struct Growing : Served {
	u32 xid = 1;
	u32 updates = 0; /* UPDPROPs that the client got */

	explicit Growing(const GrowthSetting &setting = {})
	{
		rpcordma_server_tunables.version2 = setting.parameter;
		rpcordma_server_tunables.max_req_size = kHead;
		rpcordma_server_tunables.version2_pages = setting.pages;
		rpcordma_server_tunables.version2_rtr = setting.reduction;
		rpcordma_server_tunables.version2_receive_bytes = setting.budget;
		memory.size = u64(1) << 30;
		verbs.device.max_recv_sge = setting.receive_sges;
		verbs.device.max_send_sge = setting.send_sges;
		verbs.qp_receive_sges = setting.receive_sges_given;
		EXPECT_EQ(receive_budget.taken(), 0);
		connect({false, setting.established, setting.marked});
	}
	~Growing()
	{
		if (serving)
			expect_rest();
		end();
		EXPECT_EQ(receive_budget.taken(), 0);
	}
	[[nodiscard]] bool begun() const
	{
		return server->growth.begun();
	}
	/* Receives without pages that the device has. */
	[[nodiscard]] u32 small_posted() const
	{
		u32 small = 0;

		for (u32 i = 0; i < verbs.posted; i++)
			small += verbs.receive_queue[i]->num_sge == 1;
		return small;
	}
	/* Of the last message, whatever is in it. */
	[[nodiscard]] u32 said_xid() const
	{
		return xdr::load_be32(peer.message);
	}
	[[nodiscard]] xdr::Kind said_kind() const
	{
		return static_cast<xdr::Kind>(xdr::load_be32(peer.message + 12));
	}
	/* The client's CONNPROP: RBSIZ. */
	void introduce(u32 receive_size = kHead)
	{
		const u32 words[] = {1, 2, 64, 6, 1, 1, 4, receive_size, 0};

		EXPECT_TRUE(verbs.send(server, RawMessage(words).message()));
		work();
		EXPECT_EQ(said_kind(), xdr::Kind::connprop);
	}
	/* The device works; nothing but an UPDPROP may be sent, and then no small Receive is posted. */
	void hear()
	{
		if (!work())
			return;
		updates++;
		const auto message = decoded2(peer.last());
		properties::Properties said;

		EXPECT_EQ(message.kind, xdr::Kind::updprop);
		EXPECT_EQ(message.xid, Xid(0));
		EXPECT_EQ(message.credits.get(), grant());
		EXPECT_EQ(properties::decode_updprop(message.body(), said), Error::none);
		EXPECT_EQ(said.present, protocol::kSizes);
		EXPECT_EQ(said.receive_bytes(), kLarge);
		EXPECT_EQ(said.ddp_segments(), kPages);
		EXPECT_EQ(said.structure.segment_length, kPage);
		log.expect_property(0, "sent", {0, grant(), 9, protocol::kSizes, 0, kLarge, kPages});
		EXPECT_EQ(small_posted(), 0);
	}
	[[nodiscard]] bool say_call(u32 size = 40)
	{
		Call2Maker call(++xid);

		call.finish(size);
		return send(call);
	}
	/* A call comes, and is not served yet. */
	void take(u32 size = 40)
	{
		const bool before = begun();
		const u32 small = small_posted();

		ASSERT_TRUE(say_call(size));
		hear();
		/* From the beginning on each that is posted has pages. */
		if (before)
			EXPECT_LE(small_posted(), small ? small - 1 : 0);
		EXPECT_EQ(begun() ? server->growth.small_posted : 0, begun() ? small_posted() : 0);
	}
	/* The rest of it. */
	void serve_taken(u32 size = 40)
	{
		const u32 small = small_posted();

		ASSERT_EQ(receive(), int(size));
		EXPECT_EQ(reply(20), 0);
		work();
		EXPECT_EQ(said_xid(), xid);
		if (begun())
			EXPECT_EQ(small_posted(), small);
	}
	void serve(u32 size = 40)
	{
		take(size);
		serve_taken(size);
	}
	void serve_all(u32 calls)
	{
		for (u32 i = 0; i < calls; i++)
			serve();
	}
	/* Up to the call with which the next grant comes, which is not there yet. */
	void serve_until_grant(u32 grant)
	{
		u32 calls = 0;

		while (granted() < grant / 2 && calls++ < 500)
			serve();
		/* The other half takes as many calls for each credit. */
		for (calls = 1; calls < grant / 2 * ResponderCredits::kCallsPerCredit; calls++)
			serve();
		EXPECT_EQ(granted(), grant / 2);
	}
	void serve_until_begun()
	{
		for (u32 calls = 0; !begun() && calls < 500; calls++)
			serve();
		EXPECT_TRUE(begun());
	}
	void serve_until_told()
	{
		for (u32 calls = 0; !updates && calls < 500; calls++) {
			EXPECT_EQ(shown_receive(), kHead);
			serve();
		}
		EXPECT_EQ(updates, 1);
		EXPECT_EQ(shown_receive(), kLarge);
	}
	/* Bytes that the client may send at once, as an administrator sees them. */
	[[nodiscard]] u32 shown_receive() const
	{
		rpcordma_server_state state;

		rpcordma_core_server_state(server, &state);
		return state.inline_receive;
	}
	/* The client was told of large Receives. */
	void grow(u32 receive_size = kHead)
	{
		introduce(receive_size);
		serve_until_told();
	}
	/* The call that the thread has is @size bytes of pattern, from its 40th byte on. */
	void expect_call_bytes(u32 size)
	{
		ASSERT_EQ(rqst->arg.head_length + rqst->arg.page_length + rqst->arg.tail_length,
			  size);
		for (u32 i = 40; i < size; i++)
			ASSERT_EQ(call_byte(i), pattern(i));
	}
	/* What the device is to send first. */
	[[nodiscard]] const Posted &first_posted() const
	{
		return verbs.send_queue[verbs.send_queue_first];
	}
	[[nodiscard]] bool transfer_of_call() const
	{
		return rqst->call->transfer;
	}
};

/* Pages that the Receives of a connection may come to have. */
[[nodiscard]] u32 most_pages(const Growing &c)
{
	return kCallsPerReceive * c.verbs.sizes.receive_wrs * kPages;
}

} // namespace

/* With a grant of 16, and not before. */
RPCORDMA_TEST(server_growth, begins)
{
	Growing c;

	EXPECT_EQ(c.verbs.sizes.receive_sges, 1 + kPages);
	c.introduce();
	while (!c.begun() && c.xid < 500) {
		EXPECT_LT(c.granted(), kGrowthGrant);
		EXPECT_EQ(receive_budget.taken(), 0);
		EXPECT_EQ(c.small_posted(), c.verbs.posted);
		c.serve();
	}
	EXPECT_EQ(c.granted(), kGrowthGrant);
	EXPECT_EQ(receive_budget.taken(), most_pages(c));
	EXPECT_EQ(counter(RPCORDMA_SERVER_GROWN), 0);
	/* Each Receive that comes back gets its pages; with the last one the client hears of it. */
	const u32 small = c.small_posted();
	for (u32 i = 1; i <= small; i++) {
		EXPECT_EQ(c.updates, 0);
		c.serve();
		EXPECT_EQ(c.small_posted(), small - i);
	}
	EXPECT_EQ(c.updates, 1);
	EXPECT_EQ(counter(RPCORDMA_SERVER_GROWN), 1);
	/* Once. */
	c.serve_all(300);
	EXPECT_EQ(c.updates, 1);
	EXPECT_EQ(c.granted(), 64);
	EXPECT_EQ(receive_budget.taken(), most_pages(c));
	/* A CONNPROP, any time, says what there is. */
	c.introduce();
	properties::Properties said;
	u32 nochange = 0;
	const auto message = decoded2(c.peer.last());
	EXPECT_EQ(properties::decode_connprop(message.body(), said, nochange), Error::none);
	EXPECT_EQ(said.receive_bytes(), kLarge);
	EXPECT_EQ(nochange, properties::all & ~protocol::kSizes);
}

/* Properties that come late are as good: from then on it grows, if it has the grant for it already. */
RPCORDMA_TEST(server_growth, late_properties)
{
	for (const u32 calls : {1u, 400u}) {
		TEST_NOTE("calls", calls);
		Growing c;

		c.serve_all(calls);
		EXPECT_FALSE(c.begun());
		c.introduce();
		c.serve_all(400);
		EXPECT_TRUE(c.begun());
		EXPECT_EQ(c.updates, 1);
		EXPECT_EQ(c.small_posted(), 0);
		rpcordma_agreement agreed;
		rpcordma_core_server_describe(c.server, &agreed);
		EXPECT_EQ(agreed.receive_size, kLarge);
		EXPECT_EQ(agreed.receive_pages, kPages);
	}
}

/* Receives that were spare when it began are no longer, until they have pages. */
RPCORDMA_TEST(server_growth, spares)
{
	GrowthSetting setting;
	setting.budget = u64(1) << 20;
	const u64 all = setting.budget / kPage;
	Growing c(setting);

	/* A client that had a large grant, while others had all the budget, and asks for a small one. */
	ASSERT_TRUE(receive_budget.take(all, all));
	c.introduce();
	c.serve_all(400);
	EXPECT_EQ(c.granted(), 64);
	for (u32 i = 0; i < 100; i++) {
		Call2Maker call(++c.xid, 1);
		call.finish(40);
		ASSERT_TRUE(c.send(call));
		c.serve_taken();
	}
	receive_budget.give(all);
	while (c.granted() < kGrowthGrant / 2)
		c.serve();
	ASSERT_FALSE(c.begun());
	u32 spares = 0;
	for (const Receive *receive = ServerInside::spare(c.server->receives); receive;
	     receive = receive->next)
		spares++;
	EXPECT_GT(spares, kGrowthGrant);
	c.serve_until_begun();
	EXPECT_EQ(ServerInside::spare(c.server->receives), nullptr);
	EXPECT_NE(ServerInside::bare(c.server->receives), nullptr);
	c.serve_until_told();
	c.serve_all(100);
	EXPECT_EQ(c.small_posted(), 0);
}

/* What keeps a connection small. */
RPCORDMA_TEST(server_growth, does_not_begin)
{
	enum What { no_properties, no_pages, one_sge, unmarked, version_1 };

	for (u32 what = no_properties; what <= version_1; what++) {
		TEST_NOTE("what", what);
		GrowthSetting setting;
		setting.pages = what == no_pages ? 0 : kPages;
		setting.receive_sges = what == one_sge ? 1 : 32;
		setting.parameter = what == unmarked ? 2 : 1;
		setting.marked = what != unmarked;
		Growing c(setting);

		if (what == version_1) {
			for (u32 i = 0; i < 400; i++) {
				ASSERT_TRUE(c.send_inline(i));
				ASSERT_EQ(c.receive(), 40);
				EXPECT_EQ(c.reply(20), 0);
				c.work();
				c.expect_reply(i, 20);
			}
		} else {
			if (what != no_properties)
				c.introduce();
			c.serve_all(400);
		}
		EXPECT_EQ(c.granted(), 64);
		EXPECT_FALSE(c.begun());
		EXPECT_EQ(c.updates, 0);
		EXPECT_EQ(c.small_posted(), c.verbs.posted);
		EXPECT_EQ(c.verbs.sizes.receive_sges,
			  what == no_pages || what == one_sge || what == unmarked ? 1 : 1 + kPages);
	}
}

/* One page for each Receive is enough to grow for. */
RPCORDMA_TEST(server_growth, one_page)
{
	GrowthSetting setting;
	setting.pages = 1;
	Growing c(setting);

	c.introduce();
	c.serve_until_begun();
}

/* Receives may come to have pages as large as a head, and no larger ones. */
RPCORDMA_TEST(server_growth, size_of_pages)
{
	for (const u32 size : {kHead / 2, kHead, 2 * kHead}) {
		TEST_NOTE("size", size);
		Accepted c;
		private_data::Properties client;

		client.send_size = client.receive_size = kHead;
		client.mark = true;
		rpcordma_server_tunables.version2 = 1;
		rpcordma_server_tunables.max_req_size = kHead;
		rpcordma_server_tunables.version2_pages = kPages;
		c.verbs.device.page_size = c.verbs.device.mr_page_size = size;
		EXPECT_EQ(c.accept(16, &client), 0);
		EXPECT_EQ(c.verbs.sizes.receive_sges, size > kHead ? 1 : 1 + kPages);
	}
}

/* Only within what all connections may have; what others have given back is there again. */
RPCORDMA_TEST(server_growth, budget)
{
	u32 most;
	{
		const Growing c;
		most = most_pages(c);
	}
	for (const bool by_memory : {false, true})
		for (const bool enough : {false, true}) {
			TEST_NOTE("by memory", by_memory);
			TEST_NOTE("enough", enough);
			const unsigned long bytes = (enough ? most : most - 1) * kPage;
			GrowthSetting setting;
			setting.budget = by_memory ? 0 : bytes;
			Growing c(setting);

			if (by_memory)
				c.memory.size = u64(64) * bytes;
			c.introduce();
			c.serve_all(400);
			EXPECT_EQ(c.begun(), enough);
			EXPECT_EQ(c.updates, enough ? 1 : 0);
			EXPECT_EQ(receive_budget.taken(), enough ? most : 0);
		}
	/* Others have some of it until a later grant. */
	GrowthSetting setting;
	setting.budget = most * kPage;
	Growing c(setting);
	c.introduce();
	ASSERT_TRUE(receive_budget.take(1, most));
	c.serve_until_grant(32);
	EXPECT_FALSE(c.begun());
	receive_budget.give(1);
	c.serve();
	EXPECT_EQ(c.granted(), 32);
	EXPECT_TRUE(c.begun());
	c.serve_until_told();
}

/* Without memory for the beginning, whatever is missing: nothing of it stays, and a later grant brings it. */
RPCORDMA_TEST(server_growth, no_memory_to_begin)
{
	u32 without = 0;

	for (const bool at_mapping : {false, true})
		for (u32 n = 0;; n++) {
			TEST_NOTE("mapping", at_mapping);
			TEST_NOTE("successes", n);
			Growing c;

			c.introduce();
			c.serve_until_grant(kGrowthGrant);
			if (at_mapping)
				c.dma.mappings_left = n;
			else
				c.memory.allocation_refused_at = n;
			c.take();
			const bool refused = at_mapping ? !c.dma.mappings_left :
							  c.memory.allocations_refused;
			c.want_for_nothing();
			c.memory.allocation_refused_at = kNoLimit;
			c.serve_taken();
			if (!c.begun()) {
				EXPECT_EQ(receive_budget.taken(), 0);
				without += c.granted() == kGrowthGrant;
			}
			c.serve_until_told();
			EXPECT_EQ(receive_budget.taken(), most_pages(c));
			c.serve_all(20);
			EXPECT_EQ(c.updates, 1);
			EXPECT_EQ(c.svc.closed, 0);
			/* As many as the device takes in one message, and some. */
			if (!refused || n > 200)
				break;
		}
	/* The call, its buffer, and that one's mapping, with the grant there. */
	EXPECT_EQ(without, 3);
}

/* Without pages for them Receives are owed, not posted without; a thread makes up for it. */
RPCORDMA_TEST(server_growth, no_pages)
{
	for (const bool at_mapping : {false, true}) {
		TEST_NOTE("mapping", at_mapping);
		Growing c;

		c.introduce();
		c.serve_until_begun();
		const u32 posted = c.verbs.posted, debts = counter(RPCORDMA_SERVER_DEBT);
		const u32 large = c.verbs.posted - c.small_posted();
		EXPECT_EQ(c.short_of_receives(), false);
		(at_mapping ? c.dma.mappings_left : c.memory.pages_left) = kPages - 1;
		for (u32 i = 1; i <= 12; i++) {
			TEST_NOTE("call", i);
			c.serve();
			EXPECT_EQ(c.verbs.posted, posted - i);
			EXPECT_EQ(c.verbs.posted - c.small_posted(), large);
		}
		EXPECT_TRUE(c.short_of_receives());
		EXPECT_GT(counter(RPCORDMA_SERVER_DEBT), debts);
		EXPECT_LT(c.verbs.posted, c.promised());
		c.take();
		c.want_for_nothing();
		EXPECT_LT(c.verbs.posted, c.promised());
		/* The thread's reply gives a credit back: what it pays is there first. */
		ASSERT_EQ(c.receive(), 40);
		EXPECT_EQ(c.reply(20), 0);
		EXPECT_GE(c.verbs.receives_at_send, c.promised());
		c.work();
		EXPECT_FALSE(c.short_of_receives());
		c.serve_until_told();
	}
}

/* Where the send queue is full the client hears of it with the next message. */
RPCORDMA_TEST(server_growth, no_room)
{
	Growing c;

	c.introduce();
	c.serve_until_begun();
	while (c.small_posted() > 1)
		c.serve();
	{
		const NoRoom none(c);

		ASSERT_TRUE(c.say_call());
		EXPECT_EQ(c.small_posted(), 0);
		EXPECT_EQ(c.verbs.sends, 0);
	}
	EXPECT_EQ(counter(RPCORDMA_SERVER_GROWN), 0);
	c.serve_taken();
	EXPECT_EQ(c.updates, 0);
	c.serve();
	EXPECT_EQ(c.updates, 1);
	c.serve_all(10);
	EXPECT_EQ(c.updates, 1);
	EXPECT_EQ(counter(RPCORDMA_SERVER_GROWN), 1);
}

/* News that cannot be posted end the connection. */
RPCORDMA_TEST(server_growth, not_posted)
{
	Growing c;

	c.introduce();
	c.serve_until_begun();
	while (c.small_posted() > 1)
		c.serve();
	c.verbs.sends_left = 0;
	ASSERT_TRUE(c.say_call());
	c.want_for_nothing();
	EXPECT_EQ(c.svc.closed, 1);
	EXPECT_EQ(counter(RPCORDMA_SERVER_GROWN), 0);
	EXPECT_EQ(c.room_taken(), 0);
	EXPECT_EQ(c.verbs.sends, 0);
}

/* Nothing is said before the connection is established, however many calls have come. */
RPCORDMA_TEST(server_growth, before_established)
{
	GrowthSetting setting;
	setting.established = false;
	Growing c(setting);
	const u32 words[] = {1, 2, 64, 6, 0, 0};

	ASSERT_TRUE(c.verbs.send(c.server, RawMessage(words).message()));
	u32 calls = 0;
	while ((!c.begun() || c.small_posted()) && calls++ < 100)
		ASSERT_TRUE(c.say_call());
	EXPECT_TRUE(c.begun());
	EXPECT_EQ(c.small_posted(), 0);
	ASSERT_TRUE(c.say_call());
	EXPECT_EQ(c.verbs.sends, 0);
	c.establish();
	/* The answer to the CONNPROP comes first. */
	EXPECT_EQ(c.work(), 1);
	EXPECT_EQ(c.said_kind(), xdr::Kind::connprop);
	ASSERT_TRUE(c.say_call());
	c.hear();
	EXPECT_EQ(c.updates, 1);
}

/* A call that fills the head reaches the service as it lies; what is behind is in the Receive's own pages. */
RPCORDMA_TEST(server_growth, lent)
{
	Growing c;
	u32 lent = 0; /* pages */

	c.grow();
	for (u32 size = kHead - kHeader - 4; size <= kLarge - kHeader;
	     size += size < kHead - kHeader + 8 ? 1 : 41) {
		TEST_NOTE("size", size);
		const u32 bulks = c.dma.bulks, reads = c.peer.reads;

		c.take(size);
		ASSERT_EQ(c.receive(), int(size));
		const rpcordma_svc_arg &arg = c.rqst->arg;
		Receive &receive = *c.rqst->call->receive;
		const bool reaches = size > kHead - kHeader;
		EXPECT_EQ(arg.head, receive.buffer.data() + kHeader);
		EXPECT_EQ(arg.head_length, min(size, kHead - kHeader));
		EXPECT_EQ(arg.pages, reaches ? receive.pages->pages() : nullptr);
		EXPECT_EQ(arg.page_length, reaches ? size - (kHead - kHeader) : 0);
		EXPECT_EQ(arg.tail_length, 0);
		EXPECT_EQ(arg.pages_used, 0);
		lent += div_round_up(arg.page_length, kPage);
		EXPECT_EQ(counter(RPCORDMA_SERVER_LENT_PAGES), lent);
		EXPECT_FALSE(c.transfer_of_call());
		EXPECT_EQ(c.dma.bulks, bulks);
		EXPECT_EQ(c.peer.reads, reads);
		c.expect_call_bytes(size);
		/* They are where they were, for another message. */
		page *const had = receive.pages->pages()[0];
		EXPECT_EQ(c.reply(20), 0);
		EXPECT_EQ(receive.pages->pages()[0], had);
		c.work();
	}
	/* To the last byte. */
	c.serve(kLarge - kHeader);
	EXPECT_EQ(c.updates, 1);
}

/* A page that somebody has when the call is over is his: the device gets another, or none. */
RPCORDMA_TEST(server_growth, exchanged)
{
	constexpr u32 size = kLarge - kHeader;

	for (const bool memory : {true, false})
		for (u32 which = 0; which < kPages; which++) {
			TEST_NOTE("memory", memory);
			TEST_NOTE("page", which);
			Growing c;

			c.grow();
			c.take(size);
			ASSERT_EQ(c.receive(), int(size));
			Receive *const receive = c.rqst->call->receive;
			page *const had = c.rqst->arg.pages[which];
			had->references++;
			/* As who decrypts. */
			had->data[100] ^= 0xff;
			const u8 changed = had->data[100];
			EXPECT_EQ(c.send_reply(20), 0);
			if (!memory)
				c.memory.pages_left = 0;
			c.release();
			c.work();
			c.want_for_nothing();
			EXPECT_EQ(had->references, 1);
			EXPECT_EQ(had->block.mapped, 0);
			EXPECT_EQ(had->data[100], changed);
			EXPECT_EQ(bool(receive->pages), memory);
			if (memory)
				EXPECT_NE(receive->pages->pages()[which], had);
			/* Whatever comes, it stays what it was; and all that is posted has pages. */
			const ExactCopy before(Bytes(had->data, kPage));
			for (u32 i = 0; i < 60; i++) {
				c.serve(size);
				EXPECT_EQ(c.small_posted(), 0);
			}
			EXPECT_BYTES(Bytes(had->data, kPage), before.bytes());
			EXPECT_EQ(had->references, 1);
			c.memory.put_page(had);
		}
}

/* Where a header leaves too little of the head for that of RPC, the call is copied into the thread's pages. */
RPCORDMA_TEST(server_growth, copied)
{
	Growing c;
	u32 lent = 0, copied = 0, exactly = 0;

	c.grow();
	for (u32 segments = 180; segments <= 200; segments++) {
		TEST_NOTE("segments", segments);
		Call2Maker call(++c.xid);
		call.encoder.write_chunk(segments);
		for (u32 i = 0; i < segments; i++)
			call.encoder.segment(CallMaker::segment(4, i * 4));
		call.reply(4);
		call.finish(1500);
		exactly += kHead - call.header == 1024;
		const bool reaches = call.length > kHead, lendable = kHead - call.header >= 1024;
		EXPECT_TRUE(reaches);
		ASSERT_TRUE(c.send(call));
		c.hear();
		ASSERT_EQ(c.receive(), 1500);
		EXPECT_EQ(c.rqst->arg.head == nullptr, !lendable);
		EXPECT_EQ(c.rqst->arg.pages == nullptr, !lendable);
		EXPECT_EQ(c.rqst->arg.pages_used, lendable ? 0 : div_round_up(1500u, u32(kPage)));
		EXPECT_FALSE(c.transfer_of_call());
		c.expect_call_bytes(1500);
		(lendable ? lent : copied)++;
		EXPECT_EQ(c.reply(20), 0);
		c.work();
	}
	EXPECT_GT(lent, 0);
	EXPECT_GT(copied, 0);
	EXPECT_EQ(exactly, 1);
	c.serve_all(40);
}

/* Without memory to copy it the connection ends, so that the client sends it again. */
RPCORDMA_TEST(server_growth, not_copied)
{
	Growing c;

	c.grow();
	Call2Maker call(++c.xid);
	call.encoder.write_chunk(200);
	for (u32 i = 0; i < 200; i++)
		call.encoder.segment(CallMaker::segment(4, i * 4));
	call.reply(4);
	call.finish(1500);
	ASSERT_TRUE(c.send(call));
	c.hear();
	{
		const NoTransfers none;

		c.dma.bulks_left = 0;
		EXPECT_EQ(c.receive(), 0);
		c.want_for_nothing();
	}
	EXPECT_EQ(c.svc.closed, 1);
	EXPECT_EQ(c.log.take(trace::Failure::gather_failed), 1);
	EXPECT_EQ(c.log.take(trace::Loss::rpc_failed), 1);
}

/* Read chunks besides: the call is put together in pages, wherever the chunk belongs. */
RPCORDMA_TEST(server_growth, read_chunks)
{
	for (const bool eager : {false, true})
		for (const u32 position : {44u, 2000u, 4056u, 4060u, 4064u, 4400u, 4600u}) {
			TEST_NOTE("eager", eager);
			TEST_NOTE("position", position);
			constexpr u32 inline_size = 4600, chunk = 301, padded = 304;
			Growing c;

			c.grow();
			c.set_replied(eager);
			Call2Maker call(++c.xid);
			call.read(position, chunk);
			call.finish(inline_size);
			EXPECT_GT(call.length, kHead);
			ASSERT_TRUE(c.send(call));
			c.work();
			int got = c.receive();
			if (!got) {
				c.work();
				got = c.receive();
			}
			ASSERT_EQ(got, int(inline_size + padded));
			EXPECT_EQ(c.rqst->arg.pages, nullptr);
			EXPECT_EQ(c.rqst->arg.head, nullptr);
			for (u32 i = 40; i < inline_size + padded; i++) {
				const u32 in = i - position;

				ASSERT_EQ(c.call_byte(i), i < position ? pattern(i) :
							  in < chunk   ? c.peer.memory[in] :
							  in < padded  ? 0 :
									 pattern(i - padded));
			}
			EXPECT_EQ(c.reply(20), 0);
			c.work();
			EXPECT_EQ(c.updates, 1);
			c.serve_all(30);
		}
}

/* Long messages that are no calls get what short ones get. */
RPCORDMA_TEST(server_growth, no_calls)
{
	Growing c;

	c.grow();
	{
		/* Behind a header that says that the call is elsewhere, there is none. */
		for (const bool read : {false, true}) {
			TEST_NOTE("read", read);
			Call2Maker call(++c.xid, 64, xdr::Kind::nomsg);
			if (read)
				call.read(0, 200);
			else
				call.reply(200);
			call.finish(0);
			const ExactCopy message(test_alloc(kHead + 300));
			for (u32 i = 0; i < message.bytes().size(); i++)
				message[i] = i < call.length ? call.message()[i] : pattern(i);
			ASSERT_TRUE(c.verbs.send(c.server, message.bytes()));
			c.work();
			int got = c.receive();
			c.work();
			if (!got && read)
				got = c.receive();
			EXPECT_EQ(got, read ? 200 : 0);
			if (got > 0) {
				for (u32 i = 0; i < 200; i++)
					ASSERT_EQ(c.call_byte(i), c.peer.memory[i]);
				EXPECT_EQ(c.reply(20), 0);
				c.work();
			} else {
				EXPECT_EQ(c.said_kind(), xdr::Kind::error);
			}
		}
	}
	/* A backward reply that nobody can have asked for. */
	EXPECT_EQ(c.send_backward(5, 40), 0);
	c.work();
	c.svc.backward_known = true;
	Reply2Maker reply(5);
	reply.finish(4500, kReplyMessage);
	ASSERT_TRUE(c.send(reply));
	EXPECT_EQ(c.svc.backward_replies, 0);
	EXPECT_EQ(counter(RPCORDMA_SERVER_DROPPED), 1);
	/* One that is too long for the service, inline as it is. */
	c.server->limits.max_message = 4500;
	ASSERT_TRUE(c.say_call(4501));
	EXPECT_EQ(c.receive(), 0);
	c.work();
	EXPECT_EQ(c.said_kind(), xdr::Kind::error);
	c.serve(4500);
	c.serve_all(40);
	EXPECT_EQ(c.small_posted(), 0);
}

/* A reply that a send buffer does not hold goes out of the service's own memory. */
RPCORDMA_TEST(server_growth, long_replies)
{
	for (const u32 send_sges : {32u, 21u, 20u, 1u}) {
		TEST_NOTE("SGEs", send_sges);
		GrowthSetting setting;
		setting.send_sges = send_sges;
		Growing c(setting);
		const u32 head = 24, tail = 8;

		c.introduce(8192);
		EXPECT_EQ(c.send_size(), 8192);
		for (const u32 whole : {4095u, 4096u, 4097u, 4600u, 8192u, 8193u}) {
			TEST_NOTE("message", whole);
			const u32 size = whole - kHeader - head - tail;
			const u32 pages = div_round_up(size, u32(kPage));
			/* A header, head, pages, tail. */
			const bool fits = whole <= 8192;
			const bool gathered = whole > 4096 && 3 + pages <= c.send_sges();

			ASSERT_TRUE(c.say_call());
			ASSERT_EQ(c.receive(), 40);
			const u32 maps = c.dma.bulk_maps;
			EXPECT_EQ(c.send_reply_pages(head, size, tail), 0);
			ASSERT_EQ(c.verbs.sends, 1);
			EXPECT_EQ(c.first_posted().num_sge, gathered && fits ? int(3 + pages) : 1);
			EXPECT_EQ(c.dma.bulk_maps, maps + (gathered && fits ? 1 : 0));
			EXPECT_EQ(c.transfer_of_call(), gathered && fits);
			for (u32 i = 0; i < pages; i++)
				EXPECT_EQ(c.rqst->pages[i] == nullptr, gathered && fits);
			const ServerCall *const call = c.rqst->call;
			const u32 there = c.memory.pages;
			c.release();
			/* Until the device has sent it. */
			EXPECT_FALSE(c.idle(call));
			c.work();
			if (c.svc.finish_ms)
				c.finish();
			EXPECT_TRUE(c.idle(call));
			EXPECT_EQ(c.dma.bulk_maps, maps);
			EXPECT_EQ(c.memory.pages, there - (gathered && fits ? pages : 0));
			if (!fits) {
				EXPECT_EQ(c.said_kind(), xdr::Kind::error);
				continue;
			}
			EXPECT_EQ(c.peer.message_length, whole);
			const u32 header[] = {c.xid, 2, c.grant(), 0, 1, 0, 0, 0, 0};
			EXPECT_BYTES(c.peer.last().first(kHeader), RawMessage(header).message());
			EXPECT_BYTES(c.peer.last().from(kHeader),
				     Bytes(c.reply_bytes, head + size + tail));
		}
		EXPECT_EQ(c.svc.closed, 0);
	}
}

/* One whose pages are few has no transfer: its head and its tail are copied, as a small READ's are. */
RPCORDMA_TEST(server_growth, replies_of_few_pages)
{
	for (const u32 send_sges : {32u, 4u, 3u, 2u, 1u}) {
		TEST_NOTE("SGEs", send_sges);
		GrowthSetting setting;
		setting.send_sges = send_sges;

		for (const u32 tail : {0u, 4u, 100u})
			for (const u32 head : {24u, 1000u, 3960u, 4056u, 4060u, 4064u})
				for (const u32 size : {1u, 3000u, kPage, kPage + 1, 2 * kPage,
						       2 * kPage + 1, 3 * kPage, 3 * kPage + 1}) {
					TEST_NOTE("tail", tail);
					TEST_NOTE("head", head);
					TEST_NOTE("size", size);
					Growing c(setting);

					c.introduce(20480);
					const u32 whole = kHeader + head + size + tail;
					const u32 pages = div_round_up(size, u32(kPage));
					const u32 room = min(c.send_sges(), LoneRequest::kPages);
					const bool lone = whole > kHead &&
							  kHeader + head + tail <= kHead &&
							  pages + (tail != 0) < room;
					ASSERT_TRUE(c.say_call());
					ASSERT_EQ(c.receive(), 40);
					EXPECT_EQ(c.send_reply_pages(head, size, tail), 0);
					ASSERT_EQ(c.verbs.sends, 1);
					EXPECT_EQ(c.rqst->call->lone.mapped, lone ? pages : 0);
					EXPECT_FALSE(lone && c.transfer_of_call());
					if (lone)
						EXPECT_EQ(c.first_posted().num_sge,
							  int(1 + pages + (tail != 0)));
					const ServerCall *const call = c.rqst->call;
					const bool taken = lone || c.transfer_of_call();
					const u32 there = c.memory.pages;
					c.release();
					EXPECT_FALSE(c.idle(call));
					EXPECT_EQ(c.memory.pages, there);
					c.work();
					if (c.svc.finish_ms)
						c.finish();
					EXPECT_TRUE(c.idle(call));
					EXPECT_EQ(c.dma.bulk_maps, 0);
					EXPECT_EQ(c.memory.pages, there - (taken ? pages : 0));
					EXPECT_EQ(c.peer.message_length, whole);
					const u32 header[] = {c.xid, 2, c.grant(), 0, 1,
							      0,     0, 0,	   0};
					EXPECT_BYTES(c.peer.last().first(kHeader),
						     RawMessage(header).message());
					EXPECT_BYTES(c.peer.last().from(kHeader),
						     Bytes(c.reply_bytes, head + size + tail));
					EXPECT_EQ(c.svc.closed, 0);
				}
	}
}

/* What is missing for that: its mapping, and it is copied; the connection, and it is given back. */
RPCORDMA_TEST(server_growth, few_pages_failures)
{
	for (const bool posted : {false, true}) {
		TEST_NOTE("posted", posted);
		Growing c;

		c.introduce(8192);
		ASSERT_TRUE(c.say_call());
		ASSERT_EQ(c.receive(), 40);
		if (posted)
			c.dma.bulk_maps_left = 0;
		else
			c.verbs.sends_left = 0;
		EXPECT_EQ(c.send_reply_pages(4000, kPage + 1, 0),
			  posted ? 0 : to_errno(Error::not_connected));
		c.want_for_nothing();
		EXPECT_EQ(c.rqst->call->lone.mapped, 0);
		c.release();
		c.work();
		EXPECT_EQ(c.dma.bulk_maps, 0);
		EXPECT_EQ(c.svc.closed, posted ? 0 : 1);
		EXPECT_EQ(c.log.take(trace::Failure::write_map_failed), posted);
		EXPECT_EQ(c.log.take(trace::Failure::post_failed), !posted);
		EXPECT_EQ(c.log.take(trace::Loss::rpc_failed), !posted);
		if (posted)
			EXPECT_BYTES(c.peer.last().from(kHeader),
				     Bytes(c.reply_bytes, 4000 + kPage + 1));
	}
}

/* What is missing for a transfer: the reply is copied, or it is the end; nothing is left over. */
RPCORDMA_TEST(server_growth, long_reply_failures)
{
	enum What { no_transfer, no_mapping, no_memory, not_mapped, not_posted };
	using trace::Failure;

	for (u32 what = no_transfer; what <= not_posted; what++) {
		TEST_NOTE("what", what);
		Growing c;
		const bool copied = what < no_memory;

		c.introduce(8192);
		ASSERT_TRUE(c.say_call());
		ASSERT_EQ(c.receive(), 40);
		{
			if (what != not_posted)
				c.dma.bulk_maps_left = 0;
			if (what == no_memory)
				c.memory.allocations_left = 0;
			if (what == not_mapped)
				c.dma.mappings_left = 0;
			if (what == not_posted)
				c.verbs.sends_left = 0;
			if (what == no_transfer) {
				const NoTransfers none;
				c.dma.bulks_left = 0;
				EXPECT_EQ(c.send_reply_pages(24, 4500, 8), 0);
			} else {
				EXPECT_EQ(c.send_reply_pages(24, 4500, 8),
					  copied ? 0 : to_errno(Error::not_connected));
			}
			c.want_for_nothing();
		}
		EXPECT_FALSE(c.transfer_of_call());
		EXPECT_EQ(c.dma.bulk_maps, 0);
		c.release();
		c.work();
		EXPECT_EQ(c.svc.closed, copied ? 0 : 1);
		EXPECT_EQ(c.log.take(Failure::send_buffer_failed), what == no_memory);
		EXPECT_EQ(c.log.take(Failure::send_map_failed), what == not_mapped);
		EXPECT_EQ(c.log.take(Failure::reply_failed),
			  what == no_memory || what == not_mapped);
		EXPECT_EQ(c.log.take(Failure::post_failed), what == not_posted);
		EXPECT_EQ(c.log.take(trace::Loss::rpc_failed), copied ? 0 : 1);
		if (copied)
			EXPECT_BYTES(c.peer.last().from(kHeader), Bytes(c.reply_bytes, 4532));
	}
}

/* A device that has not the SGEs that it announces: the connection stays small, and says so. */
RPCORDMA_TEST(server_growth, sges_refused)
{
	for (const u32 pages : {1u, kPages}) {
		TEST_NOTE("pages", pages);
		GrowthSetting setting;
		setting.pages = pages;
		setting.receive_sges_given = 1;
		Growing c(setting);

		EXPECT_EQ(c.log.take(trace::Loss::qp_failed), 1);
		EXPECT_EQ(c.verbs.sizes.receive_sges, 1);
		EXPECT_EQ(c.verbs.sizes.send_sges, 32);
		c.introduce();
		c.serve_all(300);
		EXPECT_FALSE(c.begun());
		EXPECT_EQ(c.updates, 0);
	}
}

/* A header that goes on in the pages, where nobody looks: SYSTEM, as it is well-formed, and more than we do. */
RPCORDMA_TEST(server_growth, long_header)
{
	constexpr u32 segments = 270;
	/* The optinfo of an XMTREQ that has as many items. */
	constexpr u32 optinfo = 20 + segments * 16;

	for (const u32 reduction : {0u, 7u})
		for (const bool optional : {false, true}) {
			if (optional && !reduction)
				continue;
			TEST_NOTE("version2_rtr", reduction);
			TEST_NOTE("XMTREQ", optional);
			GrowthSetting setting;
			setting.reduction = reduction;
			Growing c(setting);

			c.grow();
			const ExactCopy message(test_alloc(kHeader + 4 + segments * 16 + 8 + 40));
			const u32 front[] = {++c.xid, 2, 64, 0, 0, 0, 0, 1, segments};
			const u32 option[] = {c.xid, 2, 64, 5, 0, 1, optinfo, 0, 0};
			for (u32 i = 0; i < message.bytes().size() / 4; i++)
				xdr::store_be32(&message[i * 4],
						i < 9 ? (optional ? option : front)[i] :
						i % 4 ? 0 :
							1);
			ASSERT_GT(message.bytes().size(), kHead);
			ASSERT_TRUE(c.verbs.send(c.server, message.bytes()));
			c.hear();
			EXPECT_EQ(c.receive(), 0);
			c.work();
			EXPECT_EQ(c.said_xid(), c.xid);
			EXPECT_EQ(c.said_kind(), xdr::Kind::error);
			EXPECT_EQ(counter(RPCORDMA_SERVER_V2_ERR_SYSTEM), 1);
			EXPECT_EQ(counter(RPCORDMA_SERVER_V2_ERR_BAD_XDR), 0);
			(void)c.log.take(trace::undecodable(Error::protocol));
			(void)c.log.take(trace::Failure::message_incomplete);
			EXPECT_EQ(c.log.take(trace::Failure::err_chunk_sent), 1);
			c.serve_all(40);
		}
}

/* Amid anything the connection may end; all that it had is given back, the budget too. */
RPCORDMA_TEST(server_growth, ends)
{
	for (u32 calls = 0; calls < 90; calls += calls < 40 ? 20 : 3) {
		TEST_NOTE("calls", calls);
		Growing c;

		c.introduce(8192);
		c.serve_all(calls);
		/* One in the queue, one whose reply is under way; the news maybe as well. */
		ASSERT_TRUE(c.say_call(c.updates ? kLarge - kHeader : 40));
		ASSERT_TRUE(c.say_call(c.updates ? kLarge - kHeader : 40));
		ASSERT_GT(c.receive(), 0);
		EXPECT_EQ(c.send_reply_pages(24, 4500, 8), 0);
		c.release();
		c.end();
		EXPECT_EQ(receive_budget.taken(), 0);
	}
}

RPCORDMA_SUITE(server_growth, begins, late_properties, spares, does_not_begin, one_page,
	       size_of_pages, budget, no_memory_to_begin, no_pages, no_room, not_posted,
	       before_established, lent, exchanged, copied, not_copied, read_chunks, no_calls,
	       long_replies, replies_of_few_pages, few_pages_failures, long_reply_failures,
	       sges_refused, long_header, ends);

} // namespace rpcordma
