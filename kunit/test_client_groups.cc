// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client of version 2 with round-trip reduction (rtrext-01): what it says of that, when a long call goes in several
 * transmissions and what these are, what becomes of their credits; and what it makes of reports, errors and replies of that
 * kind.
 */
#include "kunit/test_client_groups.hh"

namespace rpcordma {

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

/* Oftener than the send queue has room for. */
RPCORDMA_TEST(client_groups, often)
{
	GroupRequester r;

	for (u32 i = 0; i < r.send_queue().size() / 2 + 2; i++)
		EXPECT_TRUE(r.goes_in(20 + i, 6000, 2));
	EXPECT_TRUE(r.send_queue().has_room(r.send_queue().size() / 2, 0));
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
		r.expect_more_with(left, r.long_call(9, 12600), r.stats().group_count, grouped,
				   12600, 3, kLarge);
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

/*
 * Page data from any place in a page on, with what stands behind it: the call is placed for a chunk before it is known to
 * be a group, or not to have the credits of one. Each byte goes out once, in its place, either way.
 */
RPCORDMA_TEST(client_groups, placed)
{
	static constexpr struct {
		u32 base, length, tail;
	} cases[] = {
		{0, 20 * kPage, 4},
		{0, 20 * kPage - 100, 40},
		{100, 20 * kPage - 100, 8},
		{100, 20 * kPage - 96, 40},
		{128, 40 * kPage, 200},
		{kPage - 4, 20 * kPage + 8, 44},
		{0, 20 * kPage - 60, kPage - 4},
		{52, 20 * kPage - 60, kPage},
	};

	for (const u32 grant : {kGrant, 2u})
		for (const auto &k : cases) {
			TEST_NOTE("grant", grant);
			TEST_NOTE("base", k.base);
			TEST_NOTE("length", k.length);
			TEST_NOTE("tail", k.tail);
			GroupRequester r({7, 7, 4, kHead, grant});
			const u32 size = 60 + k.length + k.tail;
			const u32 count = size <= kFirst + kNext     ? 2 :
					  size <= kFirst + 2 * kNext ? 3 :
								       4;
			rpc_rqst *call = r.long_call_at(9, k.base, k.length, k.tail);

			EXPECT_EQ(rpcordma_core_send_request(r.core, call->call), 0);
			if (grant == kGrant)
				r.expect_group(9, size, count);
			else
				r.expect_chunk(9, size);
			EXPECT_EQ(r.stats().group_count, grant == kGrant);
			EXPECT_EQ(r.stats().credits_short, grant != kGrant);
			EXPECT_TRUE(r.reply2(9, 24));
			EXPECT_EQ(call->result, 24);
			r.done(call);
			r.at_rest();
		}
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

		/* Nor are the Receives for its reply others' before. */
		r.add_pages(call, 10000, true);
		call->receive.flags = 0;
		EXPECT_EQ(r.transmit(call), 0);
		EXPECT_EQ(r.core->reserve.load(), 13);
		if (killed)
			r.done(call);
		EXPECT_TRUE(r.refuse(9, 6));
		EXPECT_TRUE(r.is_lost());
		if (!killed) {
			EXPECT_EQ(call->completed, 1);
			EXPECT_EQ(call->result, to_errno(Error::io));
			r.done(call);
		}
		/* Until then, whether anybody has waited for it or not. */
		EXPECT_EQ(r.sunrpc.in_flight, 1);
		EXPECT_EQ(r.core->reserve.load(), 13);
		r.reconnect();
		EXPECT_EQ(r.sunrpc.in_flight, 0);
		EXPECT_EQ(r.core->reserve.load(), 16);
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

	/* One of more than there are Receives for at all; and one with an item, to a call of nobody's. */
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
	EXPECT_EQ(r.log.take(trace::Failure::reply_unmatched), 2);

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
	/* XMTCONTs of nobody, of which the server is told once, when there are means to; and a report that is none. */
	auto *const used = r.core->take_backward(1);
	ASSERT_NE(used, nullptr);
	r.sunrpc.backward_calls++;
	EXPECT_TRUE(r.go_on(11, xdr::Direction::reply, 24));
	r.sunrpc.backward_calls--;
	EXPECT_EQ(r.peer.messages, before + 1);
	EXPECT_EQ(r.log.take(trace::Failure::backward_refusal_lost), 1);
	r.core->put_backward(used);
	for (u32 i = 0; i < 3; i++) {
		const auto bad = r.stats().bad_reply_count;

		EXPECT_TRUE(r.go_on(11, xdr::Direction::reply, 24));
		EXPECT_EQ(r.stats().bad_reply_count, bad + 1);
		EXPECT_EQ(r.peer.messages, before + 2);
	}
	r.expect_report(11, 1, rtrext::Fault::alone, false);
	const u32 none[] = {9, 2, kGrant, 5, 1, 4, 20, 9, 0, 0, 0, 99};
	const auto bad_before = r.stats().bad_reply_count;
	EXPECT_TRUE(r.deliver(RawMessage(none).message()));
	EXPECT_EQ(r.stats().bad_reply_count, bad_before + 1);
	EXPECT_FALSE(r.is_lost());
	EXPECT_EQ(r.stats().repterr_count, 0);
	EXPECT_TRUE(r.goes_in(12, 6000, 2));
	r.at_rest();
	EXPECT_EQ(r.log.take(trace::Failure::message_undecodable), 1);
}

/* An XMTCONT of nobody: a report of what says that it is a call is a reply, with a grant; who has no extension gets none. */
RPCORDMA_TEST(client_groups, report_of_nobody)
{
	for (const bool knows : {true, false})
		for (const auto direction : {xdr::Direction::call, xdr::Direction::reply}) {
			const bool call = direction == xdr::Direction::call;
			GroupSetting setting;

			TEST_NOTE("the server has the extension", knows);
			TEST_NOTE("a call", call);
			if (!knows)
				setting.extensions = 0;
			GroupRequester r(setting);
			const u32 before = r.peer.messages;
			EXPECT_TRUE(r.go_on(11, direction, 24));
			EXPECT_EQ(r.peer.messages, before + knows);
			EXPECT_EQ(r.stats().bad_reply_count, 1);
			EXPECT_FALSE(r.is_lost());
			if (knows) {
				const auto message = decoded2(r.peer.last());
				const auto said = message.credits.get();

				EXPECT_EQ(message.direction,
					  call ? xdr::Direction::reply : xdr::Direction::call);
				EXPECT_EQ(said == kBackwardCredits, call);
				EXPECT_EQ(r.log.take(trace::Failure::repterr_sent), 1);
			}
			r.at_rest();
		}
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

/* Each reply whose first transmission is refused has its call looked for among all: a server that goes on is left. */
RPCORDMA_TEST(client_groups, refused_for_long)
{
	constexpr u32 most = 1024;
	GroupRequester r;
	rpc_rqst *call = r.call(14);
	const auto refuse = [&r](u32 xid) {
		u8 room[256] = {};
		rtrext::Encoder many({room, sizeof(room)}, Xid(xid), Credits(kGrant),
				     xdr::Option::xmtresp);
		const u32 header = many.finish(17, 0, 24).value();

		EXPECT_TRUE(r.deliver({room, header + 24}));
	};

	for (u32 i = 0; i < most; i++) {
		EXPECT_EQ(r.sunrpc.force_disconnects, 0);
		refuse(13);
	}
	EXPECT_EQ(r.sunrpc.force_disconnects, 1);
	/* While it ends nobody is looked for, even one that waits. */
	refuse(14);
	EXPECT_EQ(r.log.take(trace::Failure::reply_unmatched), most + 1);
	EXPECT_EQ(r.log.take(trace::Loss::replies_unmatched), 1);
	r.done(call);
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
		/* A connection of version 1 has none. */
		rpcordma_core_client_close(r.core);
		r.connect();
		EXPECT_EQ(r.connection()->session.version(), 1);
		EXPECT_EQ(r.core->reserve.load(), 0);
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
	r.expect_report(77, 0, rtrext::Fault::header, true, xdr::Direction::call);
	rpcordma_core_client_close(r.core);
	r.done(call);
	EXPECT_EQ(r.log.take(trace::Failure::backward_call_unserved), 1);
	EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), 1);
}

/*
 * The same with a service for it, which gets the call as it was sent, and no byte of the reply; the other one's task has its
 * call back, and nothing is left when both are done.
 */
RPCORDMA_TEST(client_groups, backward_call_served_amid)
{
	for (u32 parts = 1; parts <= 3; parts++) {
		TEST_NOTE("parts", parts);
		GroupSetting setting;

		setting.backchannel = true;
		GroupRequester r(setting);
		rpc_rqst *call = r.prepare(9, 60);
		/* The same xid: they are two spaces. */
		Call2Maker backward(9, 16);

		r.add_pages(call, 10000, true);
		call->receive.flags = 0;
		EXPECT_EQ(r.transmit(call), 0);
		EXPECT_EQ(r.core->reserve.load(), 13);
		for (u32 i = 0; i < parts; i++)
			EXPECT_TRUE(reply_part(r, 9, i, 4, 400 * i, 400));
		EXPECT_EQ(r.sunrpc.backward_calls, 0);
		backward.finish(60);
		EXPECT_TRUE(r.deliver(backward.message()));
		ASSERT_EQ(r.sunrpc.backward_calls, 1);
		EXPECT_EQ(r.sunrpc.backward->xid, 9);
		EXPECT_BYTES(Bytes(static_cast<u8 *>(r.sunrpc.backward->message),
				   r.sunrpc.backward->message_length),
			     backward.message().from(36));
		EXPECT_TRUE(r.is_lost());
		r.expect_report(9, 0, rtrext::Fault::header, true, xdr::Direction::call);
		/* What follows of the reply is none. */
		EXPECT_TRUE(reply_part(r, 9, parts, 4, 400 * parts, 400));
		EXPECT_EQ(call->completed, 0);
		r.expect_receives();
		rpcordma_core_client_close(r.core);
		rpc_rqst *served = r.sunrpc.backward;
		served->send.head.length = served->send.len = 32;
		EXPECT_EQ(rpcordma_core_bc_send_reply(r.core, served->call),
			  to_errno(Error::not_connected));
		rpcordma_core_bc_free(r.core, served->call);
		r.done(call);
		r.connect2(setting);
		EXPECT_EQ(r.core->reserve.load(), 16);
		/* Not again so soon in several messages; and then as if nothing had been. */
		EXPECT_FALSE(r.goes_in(10, 6000, 2));
		r.sync.now += kPlainMs;
		EXPECT_TRUE(r.goes_in(11, 6000, 2));
		r.at_rest();
		EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), 1);
		EXPECT_EQ(r.log.take(trace::Failure::backward_reply_lost), 1);
	}
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
		/* What came instead is bad, or of which number it is. */
		const auto fault = other ? rtrext::Fault::header : rtrext::Fault::sequence;
		r.expect_report(other ? 10 : 9, other ? 0 : 2, fault, true);
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
			/* A count that cannot be is no matter of reports. */
			if (!many)
				r.expect_report(9, 0, rtrext::Fault::stream, false);
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

/* An XMTCONT of the other direction is of another message, whatever its xid is: no part of a reply. */
RPCORDMA_TEST(client_groups, other_direction)
{
	for (const bool wrong : {false, true}) {
		GroupRequester r;
		EXPECT_TRUE(r.goes_in(8, 6000, 2));
		rpc_rqst *call = r.prepare(9, 60);

		TEST_NOTE("wrong", wrong);
		r.add_pages(call, 10000, true);
		call->receive.flags = 0;
		EXPECT_EQ(r.transmit(call), 0);
		EXPECT_TRUE(reply_part(r, 9, 0, 2, 0, 400));
		const auto direction = wrong ? xdr::Direction::call : xdr::Direction::reply;
		EXPECT_TRUE(r.go_on(9, direction, 400));
		EXPECT_EQ(r.is_lost(), wrong);
		EXPECT_EQ(call->completed, !wrong);
		if (wrong)
			r.expect_report(9, 1, rtrext::Fault::xid, true, direction);
		rpcordma_core_client_close(r.core);
		r.done(call);
		EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), wrong);
	}
}

RPCORDMA_SUITE(client_groups, often, other_direction, announcement, sizes, pages, peer, credits,
	       placed, others_ways, given_up, reported, refused, connections_lost, strange,
	       refused_for_long, replies, reserve, reply_of_large_receives, backward_call_amid,
	       backward_call_served_amid, reply_broken_off, silence, reply_refused,
	       reply_fits_nowhere, report_of_nobody);

} // namespace rpcordma
