// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client of version 2 with round-trip reduction (rtrext-01): what it says of that, when a long call goes in several
 * transmissions and what these are, what becomes of their credits; and what it makes of reports, errors and replies of that
 * kind.
 */
#include "kunit/test_client_requester.hh"
#include "module/protocol/negotiation.hh"

namespace rpcordma {
namespace {

constexpr u32 kHead = 4096, kGrant = 20;
/* Bytes of a stream behind an XMTREQ and an XMTCONT of 4096. */
constexpr u32 kFirst = 4048, kNext = 4056;
constexpr u32 kPlainMs = 600000;

struct GroupSetting {
	u32 parameter = 7;
	u32 extensions = 7;
	u32 call_limit = 4;
	u32 takes = kHead;
	u32 grant = kGrant;
	u32 pages = 0;
	u32 reply_limit = 4;
	u32 inline_read = kHead;
	u32 send_write_max = 0;
};

struct GroupRequester : Requester {
	u32 grant = kGrant;

	explicit GroupRequester(const GroupSetting &setting = {})
	{
		rpcordma_tunables.version2 = 1;
		rpcordma_tunables.version2_pages = setting.pages;
		rpcordma_tunables.version2_rtr = setting.parameter;
		rpcordma_tunables.max_inline_read = setting.inline_read;
		rpcordma_tunables.send_write_max = setting.send_write_max;
		const private_data::Properties marked = {kHead, kHead, true, true};
		verbs.answer_length = private_data::encode(verbs.answer, marked).value();
		connect2(setting);
	}
	void connect2(const GroupSetting &setting = {})
	{
		const u32 words[] = {7,
				     2,
				     setting.grant,
				     6,
				     4,
				     1,
				     4,
				     setting.takes,
				     3,
				     4,
				     setting.extensions,
				     5,
				     4,
				     setting.call_limit,
				     6,
				     4,
				     setting.reply_limit,
				     0};

		grant = setting.grant;
		auto answer = [&] { EXPECT_TRUE(deliver(RawMessage(words).message())); };
		have_done_meanwhile(answer);
		EXPECT_EQ(rpcordma_core_client_connect(core), 0);
		sync.meanwhile = nullptr;
		ASSERT_NE(connection(), nullptr);
		EXPECT_EQ(connection()->session.version(), 2);
	}
	[[nodiscard]] bool reply2(u32 xid, u32 size)
	{
		Reply2Maker reply(xid, grant);

		reply.finish(size, kReplyMessage);
		return deliver(reply.message());
	}
	/* An ERROR with this code. */
	[[nodiscard]] bool refuse(u32 xid, u32 code)
	{
		const u32 words[] = {xid, 2, grant, 4, code};

		return deliver(RawMessage(words).message());
	}
	[[nodiscard]] bool report(u32 xid)
	{
		u8 room[rtrext::most_report_length];
		rtrext::Report about;

		about.bad = {Xid(xid), xdr::Direction::call, 1};
		about.detail = rtrext::Detail::differs(rtrext::Fault::sequence, 1, 2);
		const auto length = rtrext::encode({room, sizeof(room)}, Credits(grant), about);
		return deliver({room, length.value()});
	}
	/* A call of @size bytes, most of them in pages, that nobody may place apart. */
	[[nodiscard]] rpc_rqst *long_call(u32 xid, u32 size, u32 head = 60)
	{
		rpc_rqst *call = prepare(xid, head);

		if (!call)
			return nullptr;
		add_pages(call, size - head, false);
		call->send.flags = 0;
		return call;
	}
	[[nodiscard]] static u8 stream_byte(u32 xid, u32 at, u32 head = 60)
	{
		return at < 4	 ? u8(xid >> (24 - 8 * at)) :
		       at < 8	 ? 0 :
		       at < head ? call_pattern(at) :
				   pattern(at - head);
	}
	/* What is posted goes out: it is a group of @count, byte for byte the call @xid of @size. */
	void expect_group(u32 xid, u32 size, u32 count, u32 bytes = kHead)
	{
		const u32 before = peer.messages;
		u32 at = 0, wrong = 0;

		TEST_NOTE("xid", xid);
		ASSERT_EQ(verbs.sends, count);
		EXPECT_GE(log.group_events, count);
		for (u32 i = 0; i < count; i++) {
			TEST_NOTE("transmission", i);
			ASSERT_EQ(work(1), 1);
			const auto message = decoded2(peer.last());
			u32 length;

			EXPECT_EQ(message.kind, xdr::Kind::optional);
			EXPECT_EQ(message.xid, Xid(xid));
			EXPECT_EQ(message.direction, xdr::Direction::call);
			EXPECT_EQ(message.credits.get(), connection()->credits.requested().get());
			EXPECT_LE(peer.message_length, bytes);
			if (i) {
				rtrext::Continuation more;
				EXPECT_EQ(message.option, xdr::Option::xmtcont);
				EXPECT_EQ(rtrext::decode(message.body(), more), Error::none);
				EXPECT_EQ(more.number, i);
				EXPECT_EQ(more.lead, static_cast<u32>(xdr::Option::xmtreq));
				length = more.stream_length;
			} else {
				rtrext::Request lead;
				EXPECT_EQ(message.option, xdr::Option::xmtreq);
				EXPECT_EQ(rtrext::decode(message.body(), lead), Error::none);
				EXPECT_EQ(lead.transmissions, count);
				EXPECT_EQ(lead.items.count(), 0);
				EXPECT_EQ(lead.sets.count(), 0);
				EXPECT_LE(lead.reply_transmissions, 1);
				length = lead.stream_length;
			}
			EXPECT_EQ(length % 4, 0);
			if (i + 1 == count)
				log.expect_group(0, "sent", {xid, 3, i, 0, length});
			ASSERT_EQ(peer.message_length, message.header_length + length);
			for (u32 n = 0; n < length; n++)
				wrong += peer.message[message.header_length + n] !=
					 stream_byte(xid, at + n);
			at += length;
		}
		EXPECT_EQ(at, size);
		EXPECT_EQ(wrong, 0);
		EXPECT_EQ(peer.messages, before + count);
		balance();
	}
	/* A long call of @size: whether it goes as a group of @count, and is answered; else it went by a chunk. */
	[[nodiscard]] bool goes_in(u32 xid, u32 size, u32 count)
	{
		rpc_rqst *call = long_call(xid, size);
		const u32 groups = u32(stats().group_count);

		EXPECT_EQ(rpcordma_core_send_request(core, call->call), 0);
		const bool grouped = stats().group_count == groups + 1;
		if (grouped) {
			EXPECT_EQ(sunrpc.in_flight, count);
			expect_group(xid, size, count);
		} else {
			EXPECT_EQ(sunrpc.in_flight, 1);
			work();
			const auto message = decoded2(peer.last());
			EXPECT_EQ(message.kind, xdr::Kind::nomsg);
			EXPECT_TRUE(message.reads.has_position_zero());
		}
		EXPECT_TRUE(reply2(xid, 24));
		EXPECT_EQ(call->result, 24);
		done(call);
		EXPECT_EQ(sunrpc.in_flight, 0);
		return grouped;
	}
	/*
	 * Send @call with memory for @left allocations, and answer it: it goes as @count counts, if one went so with less. Then
	 * @went is whether it did.
	 */
	void expect_more_with(u32 left, rpc_rqst *call, const unsigned long &count, bool &went)
	{
		memory.allocations_left = left;
		EXPECT_EQ(rpcordma_core_send_request(core, call->call), 0);
		memory.allocations_left = kNoLimit;
		EXPECT_GE(count, went);
		went = count;
		EXPECT_EQ(left > 0 || !went, true);
		work();
		EXPECT_TRUE(reply2(9, 24));
		EXPECT_EQ(call->result, 24);
		done(call);
		at_rest();
	}
	/* The connection is lost, as far as the core has to know. */
	[[nodiscard]] bool is_lost() const
	{
		return connection()->broken.load();
	}
	void reconnect(const GroupSetting &setting = {})
	{
		rpcordma_core_client_close(core);
		connect2(setting);
	}
};

} // namespace

/* RTRSUPP is what the parameter says; a client takes no calls of several transmissions, and sends no such replies. */
RPCORDMA_TEST(client_groups, announcement)
{
	for (u32 parameter = 0; parameter < 8; parameter++) {
		TEST_NOTE("parameter", parameter);
		GroupRequester r({parameter});
		properties::Properties said;
		u32 nochange = 0;
		const auto message = decoded2(r.peer.last());

		EXPECT_EQ(properties::decode_connprop(message.body(), said, nochange), Error::none);
		EXPECT_EQ(said.extensions, parameter);
		EXPECT_EQ(said.call_limit, 1);
		EXPECT_EQ(said.reply_limit, 1);
	}
}

/* What is one byte too long for one message goes in two, and so on to the limit; beyond that, by a chunk. */
RPCORDMA_TEST(client_groups, sizes)
{
	GroupRequester r;
	u32 xid = 1;

	for (u32 count = 2; count <= 4; count++) {
		TEST_NOTE("count", count);
		const u32 least = count == 2 ? 4096 - 36 + 4 : kFirst + (count - 2) * kNext + 4;
		const u32 most = kFirst + (count - 1) * kNext;

		EXPECT_TRUE(r.goes_in(xid++, least, count));
		EXPECT_TRUE(r.goes_in(xid++, most, count));
	}
	EXPECT_FALSE(r.goes_in(xid++, kFirst + 3 * kNext + 4, 0));
	EXPECT_EQ(r.stats().credits_short, 0);
	EXPECT_EQ(r.stats().local_inv_needed, 1);
	r.at_rest();
}

/* Transmissions are as long as the peer takes and our memory allows; without memory a chunk carries the call. */
RPCORDMA_TEST(client_groups, pages)
{
	constexpr u32 kLarge = 4096 + kPage;
	const GroupSetting setting = {7, 7, 4, kLarge, kGrant, 1};
	{
		GroupRequester r(setting);
		const u32 size = 3 * kLarge;
		rpc_rqst *call = r.long_call(9, size);

		EXPECT_EQ(rpcordma_core_send_request(r.core, call->call), 0);
		r.expect_group(9, size, 4, kLarge);
		EXPECT_TRUE(r.reply2(9, 24));
		EXPECT_EQ(call->result, 24);
		r.done(call);
		r.at_rest();
	}
	/* None for the other Sends, nor for pages of theirs. */
	bool grouped = false;
	for (u32 left = 0; left < 20; left++) {
		TEST_NOTE("allocations", left);
		GroupRequester r(setting);
		r.expect_more_with(left, r.long_call(9, 12600), r.stats().group_count, grouped);
	}
	EXPECT_TRUE(grouped);
}

/* Who does not take groups gets none. */
RPCORDMA_TEST(client_groups, peer)
{
	for (u32 extensions = 0; extensions < 8; extensions++) {
		TEST_NOTE("extensions", extensions);
		for (const bool ours : {false, true}) {
			GroupRequester r(ours ? GroupSetting{extensions, 7} :
						GroupSetting{7, extensions});
			EXPECT_EQ(r.goes_in(9, 6000, 2), extensions == 7);
		}
	}
	for (u32 limit = 0; limit < 5; limit++) {
		TEST_NOTE("limit", limit);
		GroupRequester r({7, 7, limit});
		EXPECT_EQ(r.goes_in(9, 6000, 2), limit >= 2);
		EXPECT_EQ(r.goes_in(10, 12000, 3), limit >= 3);
	}
	/* It says otherwise later. */
	GroupRequester r;
	const u32 less[] = {0, 2, kGrant, 9, 1, 5, 4, 2};
	EXPECT_TRUE(r.goes_in(9, 12000, 3));
	EXPECT_TRUE(r.deliver(RawMessage(less).message()));
	EXPECT_FALSE(r.goes_in(10, 12000, 3));
	EXPECT_TRUE(r.goes_in(11, 6000, 2));
}

/* All credits or none, and a quarter of the window stays free. */
RPCORDMA_TEST(client_groups, credits)
{
	for (u32 grant = 1; grant < 9; grant++) {
		TEST_NOTE("grant", grant);
		GroupRequester r({7, 7, 4, kHead, grant});

		for (u32 count = 2; count <= 4; count++) {
			const u32 least = kFirst + (count - 2) * kNext + 20;
			const u32 shorts = u32(r.stats().credits_short);
			const bool fits = count <= grant - (grant + 3) / 4;

			TEST_NOTE("count", count);
			EXPECT_EQ(r.goes_in(count, least, count), fits);
			EXPECT_EQ(r.stats().credits_short, shorts + !fits);
		}
	}
	/* Others have them. */
	GroupRequester r({7, 7, 4, kHead, 8});
	rpc_rqst *others[6];
	for (u32 i = 0; i < 6; i++)
		others[i] = r.call(100 + i);
	rpc_rqst *call = r.long_call(9, 6000);
	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_EQ(r.sunrpc.in_flight, 7);
	EXPECT_EQ(r.stats().credits_short, 1);
	EXPECT_TRUE(r.reply2(9, 24));
	r.done(call);
	for (u32 i = 0; i < 6; i++) {
		EXPECT_TRUE(r.reply2(100 + i, 24));
		r.done(others[i]);
	}
	r.at_rest();
}

/* A reply that needs a chunk makes the call go by one; room for posting is waited for. */
RPCORDMA_TEST(client_groups, others_ways)
{
	GroupRequester r;
	EXPECT_TRUE(r.goes_in(8, 6000, 2));
	rpc_rqst *call = r.long_call(9, 6000);

	r.add_pages(call, 8192, true);
	EXPECT_EQ(r.transmit(call), 0);
	const auto message = decoded2(r.peer.last());
	EXPECT_EQ(message.kind, xdr::Kind::nomsg);
	EXPECT_EQ(r.stats().group_count, 1);
	EXPECT_EQ(r.sunrpc.in_flight, 1);
	rpcordma_core_client_close(r.core);
	r.done(call);

	r.reconnect();
	call = r.long_call(10, 6000);
	u32 taken = 0;
	while (r.send_queue().take(1, 0))
		taken++;
	r.send_queue().give_back(1, 0);
	EXPECT_EQ(rpcordma_core_send_request(r.core, call->call), to_errno(Error::again));
	EXPECT_EQ(r.sunrpc.in_flight, 1);
	r.send_queue().give_back(taken - 1, 0);
	EXPECT_EQ(rpcordma_core_send_request(r.core, call->call), 0);
	r.expect_group(10, 6000, 2);
	EXPECT_TRUE(r.reply2(10, 24));
	r.done(call);
	r.at_rest();
	EXPECT_EQ(r.log.take(trace::Failure::send_queue_full), 1);
}

/* A task gives its call up: the credits of all transmissions stay until the reply. */
RPCORDMA_TEST(client_groups, given_up)
{
	GroupRequester r;
	rpc_rqst *call = r.long_call(9, 12000);

	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_EQ(r.sunrpc.in_flight, 3);
	r.done(call);
	EXPECT_EQ(r.sunrpc.in_flight, 3);
	EXPECT_TRUE(r.reply2(9, 24));
	EXPECT_EQ(r.sunrpc.in_flight, 0);
	r.at_rest();
	/* Before anything is posted by the device, and with the connection's end. */
	call = r.long_call(10, 12000);
	EXPECT_EQ(rpcordma_core_send_request(r.core, call->call), 0);
	EXPECT_EQ(r.work(1), 1);
	rpcordma_core_client_close(r.core);
	EXPECT_EQ(r.dma.mappings, 0);
	r.done(call);
	r.reconnect();
	EXPECT_TRUE(r.goes_in(11, 6000, 2));
	r.at_rest();
}

/* A report about a call ends the connection, and for ten minutes long calls go by chunks. */
RPCORDMA_TEST(client_groups, reported)
{
	for (const bool option : {false, true}) {
		TEST_NOTE("INVAL_OPTION", option);
		GroupRequester r;
		rpc_rqst *call = r.long_call(9, 6000);

		EXPECT_EQ(r.transmit(call), 0);
		EXPECT_TRUE(option ? r.refuse(9, 5) : r.report(9));
		EXPECT_TRUE(r.is_lost());
		/* It is to be sent again. */
		EXPECT_EQ(call->completed, 0);
		EXPECT_EQ(r.stats().repterr_count, 1);
		rpcordma_core_client_close(r.core);
		r.done(call);
		r.reconnect();
		EXPECT_FALSE(r.goes_in(10, 6000, 2));
		r.sync.now += kPlainMs - 1000;
		EXPECT_FALSE(r.goes_in(11, 6000, 2));
		r.sync.now += 1001;
		EXPECT_TRUE(r.goes_in(12, 6000, 2));
		r.at_rest();
		EXPECT_EQ(r.log.take(trace::Failure::repterr_received), 1);
		EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), 1);
	}
}

/* An error for a group fails its call; its credits are those of the next connection, as its parts may be under way. */
RPCORDMA_TEST(client_groups, refused)
{
	for (const bool killed : {false, true}) {
		TEST_NOTE("killed", killed);
		GroupRequester r;
		rpc_rqst *call = r.long_call(9, 6000);

		EXPECT_EQ(r.transmit(call), 0);
		if (killed)
			r.done(call);
		EXPECT_TRUE(r.refuse(9, 6));
		EXPECT_TRUE(r.is_lost());
		if (!killed) {
			EXPECT_EQ(call->completed, 1);
			EXPECT_EQ(call->result, to_errno(Error::io));
			r.done(call);
		}
		r.reconnect();
		EXPECT_EQ(r.sunrpc.in_flight, 0);
		EXPECT_FALSE(r.goes_in(10, 6000, 2));
		/* Of another call it is that call's matter. */
		call = r.call(11);
		EXPECT_TRUE(r.refuse(11, 6));
		EXPECT_FALSE(r.is_lost());
		EXPECT_EQ(call->result, to_errno(Error::io));
		r.done(call);
		r.at_rest();
		EXPECT_EQ(r.log.take(trace::Failure::err_chunk_received), killed ? 1 : 2);
		EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), 1);
	}
}

/* Two connections within ten minutes that are lost under a group: it may be the group's fault. */
RPCORDMA_TEST(client_groups, connections_lost)
{
	for (const u32 which : {0, 1, 2}) {
		const bool soon = which != 0, injected = which == 2;

		TEST_NOTE("soon", soon);
		TEST_NOTE("injected", injected);
		GroupRequester r;

		for (u32 turn = 0; turn < 2; turn++) {
			EXPECT_TRUE(r.goes_in(5 + turn, 6000, 2));
			rpc_rqst *call = r.long_call(9, 6000);
			EXPECT_EQ(r.transmit(call), 0);
			/* What is done here on purpose says nothing of the server. */
			if (injected)
				rpcordma_core_client_inject_disconnect(r.core);
			rpcordma_core_endpoint_event(r.verbs.requester, RPCORDMA_EVENT_DISCONNECTED);
			rpcordma_core_client_close(r.core);
			r.done(call);
			r.sync.now += soon ? 1000 : kPlainMs + 1000;
			r.reconnect();
		}
		EXPECT_EQ(r.goes_in(10, 6000, 2), !soon || injected);
		r.at_rest();
		EXPECT_EQ(r.log.take(trace::Loss::disconnected), 2);
	}
}

/* What a server says of that kind besides. */
RPCORDMA_TEST(client_groups, strange)
{
	GroupRequester r;
	u8 room[256] = {};
	rpc_rqst *call = r.call(9);

	/* A reply by XMTRESP. */
	rtrext::Encoder one({room, sizeof(room)}, Xid(9), Credits(kGrant), xdr::Option::xmtresp);
	u32 header = one.finish(1, 0, 24).value();
	xdr::store_be32(room + header, 9);
	xdr::store_be32(room + header + 4, 1);
	EXPECT_TRUE(r.deliver({room, header + 40}));
	EXPECT_EQ(call->result, 24);
	r.done(call);

	/* One of several, for which it has no Receives: it fails, when that is whole. */
	call = r.call(10);
	rtrext::Encoder several({room, sizeof(room)}, Xid(10), Credits(kGrant),
				xdr::Option::xmtresp);
	header = several.finish(2, 0, 24).value();
	xdr::store_be32(room + header, 10);
	xdr::store_be32(room + header + 4, 1);
	EXPECT_TRUE(r.deliver({room, header + 24}));
	header = rtrext::encode({room, sizeof(room)}, Xid(10), Credits(kGrant),
				xdr::Direction::reply, {1, 2, 24})
			 .value();
	EXPECT_TRUE(r.deliver({room, header + 24}));
	EXPECT_EQ(call->completed, 1);
	EXPECT_EQ(call->result, to_errno(Error::io));
	EXPECT_EQ(r.log.take(trace::Failure::reply_contradicts), 1);
	r.done(call);

	/* One of more than there are Receives for at all, and one with an item: no call of ours has such replies. */
	rtrext::Encoder many({room, sizeof(room)}, Xid(13), Credits(kGrant), xdr::Option::xmtresp);
	header = many.finish(17, 0, 24).value();
	xdr::store_be32(room + header, 13);
	xdr::store_be32(room + header + 4, 1);
	EXPECT_TRUE(r.deliver({room, header + 24}));
	rtrext::Encoder item({room, sizeof(room)}, Xid(13), Credits(kGrant), xdr::Option::xmtresp);
	item.unplaced(0, 0, rtrext::Type::none);
	header = item.finish(1, 0, 24).value();
	xdr::store_be32(room + header, 13);
	xdr::store_be32(room + header + 4, 1);
	EXPECT_TRUE(r.deliver({room, header + 24}));
	EXPECT_FALSE(r.connection()->groups.open());

	/* A call by XMTREQ. */
	const u32 before = r.peer.messages;
	rtrext::Encoder request({room, sizeof(room)}, Xid(11), Credits(kGrant), xdr::Option::xmtreq);
	header = request.finish(2, 1, 48).value();
	EXPECT_TRUE(r.deliver({room, header + 48}));
	EXPECT_EQ(r.peer.messages, before + 1);
	const auto refusal = decoded2(r.peer.last());
	EXPECT_EQ(refusal.kind, xdr::Kind::error);
	EXPECT_EQ(refusal.error.code, xdr::ErrorCode::option);
	header = rtrext::encode({room, sizeof(room)}, Xid(11), Credits(kGrant),
				xdr::Direction::call, {1, 1, 24})
			 .value();
	EXPECT_TRUE(r.deliver({room, header + 24}));
	EXPECT_EQ(r.peer.messages, before + 1);
	/* An XMTCONT of nobody, and a report that is none. */
	EXPECT_TRUE(r.deliver({room, header + 24}));
	const u32 none[] = {9, 2, kGrant, 5, 1, 4, 20, 9, 0, 0, 0, 99};
	EXPECT_TRUE(r.deliver(RawMessage(none).message()));
	EXPECT_FALSE(r.is_lost());
	EXPECT_EQ(r.stats().repterr_count, 0);
	EXPECT_TRUE(r.goes_in(12, 6000, 2));
	r.at_rest();
	EXPECT_EQ(r.log.take(trace::Failure::message_undecodable), 1);
}

/* The part @i of @count of a reply to @xid: bytes [@at, @at + @n) of it. */
static bool reply_part(GroupRequester &r, u32 xid, u32 i, u32 count, u32 at, u32 n)
{
	u8 room[4096];
	u32 header;

	if (i) {
		header = rtrext::encode({room, sizeof(room)}, Xid(xid), Credits(kGrant),
					xdr::Direction::reply, {i, 2, n})
				 .value();
	} else {
		rtrext::Encoder encoder({room, sizeof(room)}, Xid(xid), Credits(kGrant),
					xdr::Option::xmtresp);
		header = encoder.finish(count, 0, n).value();
	}
	for (u32 b = 0; b < n; b++)
		room[header + b] = pattern(at + b);
	if (!i) {
		xdr::store_be32(room + header, xid);
		xdr::store_be32(room + header + 4, 1);
	}
	return r.deliver({room, header + n});
}

/* A call whose reply may be too long for one message: what it asks for, and where the reply lands. */
RPCORDMA_TEST(client_groups, replies)
{
	GroupRequester r;

	EXPECT_EQ(r.core->reserve.load(), 16);
	/* Often enough that more Receives would be missing than a batch. */
	for (u32 turn = 0; turn < 6; turn++) {
		const bool long_too = turn % 2;

		TEST_NOTE("turn", turn);
		rpc_rqst *call = long_too ? r.long_call(9, 6000) : r.prepare(9, 60);
		const u32 most = 200 + 10000;

		r.add_pages(call, 10000, true);
		call->receive.flags = 0;
		EXPECT_EQ(rpcordma_core_send_request(r.core, call->call), 0);
		ASSERT_EQ(r.work(1), 1);
		const auto message = decoded2(r.peer.last());
		rtrext::Request lead;
		EXPECT_EQ(message.option, xdr::Option::xmtreq);
		EXPECT_EQ(rtrext::decode(message.body(), lead), Error::none);
		EXPECT_EQ(lead.transmissions, long_too ? 2 : 1);
		EXPECT_EQ(lead.reply_transmissions, div_round_up(most, kNext));
		EXPECT_EQ(r.core->reserve.load(), 13);
		EXPECT_EQ(r.sunrpc.in_flight, long_too ? 2 : 1);
		r.work();
		/* In three, all of it. */
		EXPECT_TRUE(reply_part(r, 9, 0, 3, 0, kNext));
		EXPECT_TRUE(reply_part(r, 9, 1, 3, kNext, kNext));
		EXPECT_EQ(call->completed, 0);
		EXPECT_TRUE(reply_part(r, 9, 2, 3, 2 * kNext, most - 2 * kNext));
		r.log.expect_group(1, "received", {9, 3, 2, 0, most - 2 * kNext});
		r.log.expect_group(0, "whole", {9, 3, 2, 0, most - 2 * kNext});
		EXPECT_EQ(call->completed, 1);
		EXPECT_EQ(call->result, int(most));
		u32 wrong = 0;
		for (u32 i = 8; i < most; i++)
			wrong += (i < 200 ? static_cast<u8 *>(call->receive.head.base)[i] :
					    call->receive.pages[(i - 200) / kPage]
						    ->data[(i - 200) % kPage]) != pattern(i);
		EXPECT_EQ(wrong, 0);
		EXPECT_EQ(r.core->reserve.load(), 16);
		r.done(call);
		r.at_rest();
	}
	EXPECT_GE(r.verbs.posted, r.connection()->receive_queue.provided());
	EXPECT_EQ(r.stats().reply_group_count, 6);
	EXPECT_EQ(r.stats().local_inv_needed, 0);
}

/* The reserve has an end, as has what the server sends: then there is a Reply chunk. */
RPCORDMA_TEST(client_groups, reserve)
{
	for (u32 limit = 1; limit <= 4; limit++) {
		TEST_NOTE("limit", limit);
		GroupRequester r({7, 7, 4, kHead, kGrant, 0, limit});
		rpc_rqst *calls[7];
		u32 grouped = 0;

		for (u32 i = 0; i < 7; i++) {
			calls[i] = r.prepare(20 + i, 60);
			r.add_pages(calls[i], 10000, true);
			calls[i]->receive.flags = 0;
			EXPECT_EQ(r.transmit(calls[i]), 0);
			grouped += decoded2(r.peer.last()).kind == xdr::Kind::optional;
		}
		EXPECT_EQ(grouped, limit >= 3 ? 5 : 0);
		EXPECT_EQ(r.core->reserve.load(), limit >= 3 ? 1 : 16);
		EXPECT_EQ(r.stats().reserve_short, limit >= 3 ? 2 : 0);
		/* One that is given up keeps its Receives until its reply. */
		r.done(calls[0]);
		EXPECT_EQ(r.core->reserve.load(), limit >= 3 ? 1 : 16);
		EXPECT_TRUE(r.reply2(20, 24));
		EXPECT_EQ(r.core->reserve.load(), limit >= 3 ? 4 : 16);
		/* An error is no reply of several. */
		EXPECT_TRUE(r.refuse(21, 4));
		EXPECT_EQ(r.core->reserve.load(), limit >= 3 ? 7 : 16);
		EXPECT_FALSE(r.is_lost());
		r.done(calls[1]);
		EXPECT_EQ(r.log.take(trace::Failure::err_chunk_received), 1);
		rpcordma_core_client_close(r.core);
		for (u32 i = 2; i < 7; i++)
			r.done(calls[i]);
		r.connect2();
		EXPECT_EQ(r.core->reserve.load(), 16);
	}
}

/* The server fills no more of a Receive than it fills of any message, however large that is. */
RPCORDMA_TEST(client_groups, reply_of_large_receives)
{
	for (const u32 size : {33000u, 65000u, 70000u}) {
		TEST_NOTE("size", size);
		GroupRequester r({.inline_read = 65536});
		rpc_rqst *call = r.prepare(9, 60);
		rtrext::Request lead;

		r.add_pages(call, size, true);
		call->receive.flags = 0;
		EXPECT_EQ(r.transmit(call), 0);
		const auto message = decoded2(r.peer.last());
		const u32 most = protocol::kMostInline - rtrext::continuation_length;
		if (message.kind == xdr::Kind::optional) {
			EXPECT_EQ(rtrext::decode(message.body(), lead), Error::none);
			EXPECT_EQ(lead.reply_transmissions, div_round_up(200 + size, most));
		} else {
			/* It may be as long as what the server sends at once, or there is a chunk. */
			EXPECT_LE(200 + size, r.thresholds().receive);
		}
		EXPECT_TRUE(r.reply2(9, 24));
		r.done(call);
		r.at_rest();
	}
}

/* A backward call amid a reply: it is handled, and the connection ends. */
RPCORDMA_TEST(client_groups, backward_call_amid)
{
	GroupRequester r;
	rpc_rqst *call = r.prepare(9, 60);
	Call2Maker backward(77, 16);

	r.add_pages(call, 10000, true);
	call->receive.flags = 0;
	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_TRUE(reply_part(r, 9, 0, 3, 0, 400));
	backward.finish(40);
	EXPECT_TRUE(r.deliver(backward.message()));
	EXPECT_TRUE(r.is_lost());
	rpcordma_core_client_close(r.core);
	r.done(call);
	EXPECT_EQ(r.log.take(trace::Failure::backward_call_unserved), 1);
	EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), 1);
}

/* A reply that is broken off ends the connection: nobody can tell what else is wrong. */
RPCORDMA_TEST(client_groups, reply_broken_off)
{
	for (const bool other : {false, true}) {
		TEST_NOTE("by another reply", other);
		GroupRequester r;

		EXPECT_TRUE(r.goes_in(8, 6000, 2));
		rpc_rqst *call = r.prepare(9, 60);
		r.add_pages(call, 10000, true);
		call->receive.flags = 0;
		EXPECT_EQ(r.transmit(call), 0);
		EXPECT_TRUE(reply_part(r, 9, 0, 3, 0, 400));
		EXPECT_TRUE(other ? r.reply2(10, 24) : reply_part(r, 9, 2, 3, 400, 400));
		EXPECT_TRUE(r.is_lost());
		EXPECT_EQ(call->completed, 0);
		rpcordma_core_client_close(r.core);
		r.done(call);
		r.connect2();
		EXPECT_EQ(r.core->reserve.load(), 16);
		EXPECT_FALSE(r.goes_in(11, 6000, 2));
		r.at_rest();
		EXPECT_EQ(r.log.take(trace::Failure::reply_unmatched), other);
		EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), 1);
	}
}

/* A server that is silent about groups, and answers everything else: the second time that is enough. */
RPCORDMA_TEST(client_groups, silence)
{
	GroupRequester r;

	for (u32 turn = 0; turn < 4; turn++) {
		TEST_NOTE("turn", turn);
		rpc_rqst *other = r.call(100 + turn), *call = r.long_call(9, 6000);
		const u32 groups = u32(r.stats().group_count);

		EXPECT_TRUE(r.reply2(100 + turn, 24));
		r.done(other);
		EXPECT_EQ(r.transmit(call), 0);
		EXPECT_EQ(r.stats().group_count, groups + (turn < 2));
		/* It times out, and is sent again: never over the same connection. */
		call->sent_before = true;
		EXPECT_EQ(rpcordma_core_send_request(r.core, call->call),
			  to_errno(Error::not_connected));
		EXPECT_EQ(r.connection(), nullptr);
		r.done(call);
		r.sync.now += 60000;
		r.connect2();
		EXPECT_EQ(r.core->plainness.in_force(r.sync.now), turn > 0);
		EXPECT_FALSE(r.core->avoidance.in_force(r.sync.now));
	}
	r.at_rest();
	EXPECT_EQ(r.log.take(trace::Failure::retransmission), 4);
	EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), 4);
}

/* A reply that cannot be taken from its first transmission on: too many, or one that says what is not so. */
RPCORDMA_TEST(client_groups, reply_refused)
{
	for (const bool many : {false, true})
		for (const bool proved : {false, true}) {
			TEST_NOTE("too many", many);
			TEST_NOTE("something was answered", proved);
			GroupRequester r;
			rpc_rqst *call = r.prepare(9, 60);
			u8 room[512] = {};

			if (proved)
				EXPECT_TRUE(r.goes_in(8, 6000, 2));
			r.add_pages(call, 10000, true);
			call->receive.flags = 0;
			EXPECT_EQ(r.transmit(call), 0);
			rtrext::Encoder lead({room, sizeof(room)}, Xid(9), Credits(kGrant),
					     xdr::Option::xmtresp);
			/* More bytes of the stream than there are. */
			const u32 header = lead.finish(many ? 17 : 3, 0, many ? 400 : 404).value();
			xdr::store_be32(room + header, 9);
			xdr::store_be32(room + header + 4, 1);
			EXPECT_TRUE(r.deliver({room, header + 400}));
			EXPECT_TRUE(r.is_lost());
			EXPECT_EQ(call->completed, 0);
			rpcordma_core_client_close(r.core);
			r.done(call);
			r.connect2();
			EXPECT_TRUE(r.core->plainness.in_force(r.sync.now));
			/* Version 2 is not what is wrong. */
			EXPECT_FALSE(r.core->avoidance.in_force(r.sync.now));
			EXPECT_EQ(r.stats().repterr_count, 0);
			r.at_rest();
			EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), 1);
		}
}

/* A reply that fits nowhere is about a call that came whole: nothing else is disturbed. */
RPCORDMA_TEST(client_groups, reply_fits_nowhere)
{
	GroupRequester r;
	const u32 words[] = {9, 2, kGrant, 4, 3, 0, 0};
	rpc_rqst *call = r.long_call(9, 6000);

	EXPECT_EQ(r.transmit(call), 0);
	EXPECT_TRUE(r.deliver(RawMessage(words).message()));
	EXPECT_FALSE(r.is_lost());
	EXPECT_EQ(call->result, to_errno(Error::io));
	r.done(call);
	EXPECT_EQ(r.sunrpc.in_flight, 0);
	EXPECT_TRUE(r.goes_in(10, 6000, 2));
	r.at_rest();
	EXPECT_EQ(r.log.take(trace::Failure::err_chunk_received), 1);
}

namespace {

/* Bytes of a segment that a server of these has. */
constexpr u32 kSegment = 2048;

struct Placer : GroupRequester {
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
	void grow(u32 segments = 2, u32 segment_length = kSegment)
	{
		u8 room[128];
		const auto said = protocol::encode_sizes({room, sizeof(room)}, Xid(0),
							 Credits(grant),
							 {kHead, segments, segment_length});

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
	void expect_item(u32 xid, u32 size, u32 count, u32 segments = 2, u32 head = 60, u32 tail = 0)
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
			for (; used < kHead; used++)
				wrong += peer.message[used] != 0;
			ASSERT_EQ(peer.message_length, kHead + n);
			for (u32 k = 0; k < n; k++)
				wrong += peer.message[kHead + k] != pattern(at + k);
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
		rpc_rqst *call = write(xid, size);
		const u32 items = u32(stats().sent_item_count);

		EXPECT_EQ(rpcordma_core_send_request(core, call->call), 0);
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

} // namespace

/* From what is too long for one message to the most segments of four: one Send each, nothing registered, no Read. */
RPCORDMA_TEST(client_groups, items)
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
RPCORDMA_TEST(client_groups, items_peer)
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
RPCORDMA_TEST(client_groups, items_stream)
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
RPCORDMA_TEST(client_groups, items_memory)
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
RPCORDMA_TEST(client_groups, items_refused)
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

RPCORDMA_SUITE(client_groups, announcement, sizes, pages, peer, credits, others_ways, given_up,
	       reported, refused, connections_lost, strange, replies, reserve,
	       reply_of_large_receives, backward_call_amid, reply_broken_off, silence, reply_refused,
	       reply_fits_nowhere, items, items_peer, items_stream, items_memory, items_refused);

} // namespace rpcordma
