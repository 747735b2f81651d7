// SPDX-License-Identifier: GPL-2.0-only
/*
 * Backward calls at a client (RFC 8167): module/client/backchannel.cc. Calls that are served, refused and
 * dropped, their replies, and that a call which comes to nothing is free for the next one.
 */
#include "kunit/test_client_requester.hh"

namespace rpcordma {

namespace {

/* A backward call of 60 bytes without chunks. */
struct SmallCall : CallMaker {
	explicit SmallCall(u32 number) : CallMaker(number)
	{
		finish(60);
	}
};

/* One with a Read chunk, which is refused. */
struct RefusedCall : CallMaker {
	explicit RefusedCall(u32 number) : CallMaker(number)
	{
		read(40, 100);
		finish(40);
	}
};

/* rdma_vers of @message, as it is there: a decoded header always says 1. */
u32 version_of(Bytes message)
{
	return message.size() < 8 ? 0 : xdr::load_be32(message.data() + 4);
}

/* The service answers the last backward call with @size bytes. */
int answer_backward(Requester &r, u32 size)
{
	rpc_rqst *rqst = r.sunrpc.backward;
	u8 *bytes = static_cast<u8 *>(rqst->send.head.base);

	for (u32 i = 0; i < size; i++)
		bytes[i] = pattern(i);
	xdr::store_be32(bytes, rqst->xid);
	xdr::store_be32(bytes + 4, 1);
	rqst->send.head.length = rqst->send.len = size;
	const int rc = rpcordma_core_bc_send_reply(r.core, rqst->call);
	r.work();
	rpcordma_core_bc_free(r.core, rqst->call);
	/* The transport may be gone by then. */
	EXPECT_EQ(r.sync.holds, r.sunrpc.holds_at_done);
	if (r.connection())
		r.balance();
	return rc;
}

} // namespace

/* RFC 8167 4.1, 5.1, 5.2: the call as it came; the reply with its xid, version, type and a grant. */
RPCORDMA_TEST(client_backward, call)
{
	Requester r;
	r.connect({.backchannel = true});
	/* The same xid forward: two different spaces. */
	rpc_rqst *forward = r.call(9);
	CallMaker call(9, 77);
	call.finish(60);
	EXPECT_TRUE(r.deliver(call.message()));
	ASSERT_EQ(r.sunrpc.backward_calls, 1);
	EXPECT_EQ(r.sunrpc.backward->xid, 9);
	EXPECT_BYTES(Bytes(static_cast<u8 *>(r.sunrpc.backward->message),
			   r.sunrpc.backward->message_length),
		     call.message().from(call.header));
	/* Its credits are the backward direction's. */
	EXPECT_EQ(r.sunrpc.window, 1);
	EXPECT_EQ(forward->completed, 0);

	EXPECT_EQ(answer_backward(r, 32), 0);
	const auto header = r.sent();
	EXPECT_EQ(header.xid, Xid(9));
	EXPECT_EQ(version_of(r.peer.last()), version_of(call.message()));
	EXPECT_EQ(header.kind, xdr::Kind::msg);
	EXPECT_EQ(header.credits, Credits(kBackwardCredits));
	EXPECT_FALSE(header.has_chunks());
	const Bytes payload = header.payload;
	EXPECT_EQ(payload.size(), 32);
	EXPECT_EQ(xdr::load_be32(payload.data()), 9);
	EXPECT_EQ(xdr::load_be32(payload.data() + 4), 1);
	/* And the forward reply is told from it. */
	EXPECT_TRUE(r.reply(9, 24));
	EXPECT_EQ(forward->result, 24);
	r.done(forward);
}

/* RFC 8167 5.3: a backward call with any chunk is answered ERR_CHUNK, and not executed. */
RPCORDMA_TEST(client_backward, chunks)
{
	Requester r;
	r.connect({.backchannel = true});
	for (u32 kind = 0; kind < 4; kind++) {
		TEST_NOTE("kind", kind);
		CallMaker call(9, 16, kind == 3 ? xdr::Kind::nomsg : xdr::Kind::msg);

		if (kind == 0)
			call.read(40, 100);
		if (kind == 1)
			call.write(100);
		if (kind == 2)
			call.reply(100);
		if (kind == 3)
			call.read(0, 100);
		call.finish(kind == 3 ? 0 : 40);
		EXPECT_TRUE(r.deliver(call.message()));
		EXPECT_EQ(r.sunrpc.backward_calls, 0);
		EXPECT_EQ(r.peer.messages, kind + 1);
		const auto header = r.sent();
		EXPECT_EQ(header.kind, xdr::Kind::error);
		EXPECT_EQ(header.error.code, xdr::ErrorCode::chunk);
		EXPECT_EQ(header.xid, Xid(9));
		EXPECT_EQ(version_of(r.peer.last()), version_of(call.message()));
		EXPECT_GT(header.credits.get(), 0);
	}
	EXPECT_EQ(r.log.take(trace::Failure::backward_call_chunks), 4);
}

/*
 * RFC 8167 5.2: a reply has the version of its call. All that we say is version 1: so a call of another
 * version, with chunks or without, is neither executed nor answered.
 */
RPCORDMA_TEST(client_backward, version)
{
	Requester r;
	r.connect({.backchannel = true});
	for (const u32 version : {0u, 2u, 0x01000000u, ~0u})
		for (const bool chunks : {false, true}) {
			TEST_NOTE("version", version);
			TEST_NOTE("chunks", chunks);
			CallMaker call(9);

			if (chunks)
				call.write(100);
			call.finish(60);
			xdr::store_be32(call.bytes + 4, version);
			EXPECT_TRUE(r.deliver(call.message()));
			EXPECT_EQ(r.sunrpc.backward_calls, 0);
			EXPECT_EQ(r.peer.messages, 0);
		}
	EXPECT_EQ(r.sunrpc.force_disconnects, 0);
	EXPECT_TRUE(r.deliver(SmallCall(9).message()));
	EXPECT_EQ(r.sunrpc.backward_calls, 1);
	EXPECT_EQ(answer_backward(r, 32), 0);
	EXPECT_EQ(version_of(r.peer.last()), 1);
	EXPECT_EQ(r.log.take(trace::Failure::message_version), 8);
}

/* RFC 8167 6: where nobody serves them, backward calls are dropped; forward ones go on. */
RPCORDMA_TEST(client_backward, unserved)
{
	Requester r;
	r.connect();
	CallMaker call(9);
	call.finish(60);
	EXPECT_TRUE(r.deliver(call.message()));
	EXPECT_EQ(r.sunrpc.backward_calls, 0);
	EXPECT_EQ(r.peer.messages, 0);
	EXPECT_EQ(r.sunrpc.force_disconnects, 0);
	rpc_rqst *forward = r.call(9);
	EXPECT_TRUE(r.reply(9, 24));
	EXPECT_EQ(forward->result, 24);
	r.done(forward);
	EXPECT_EQ(r.log.take(trace::Failure::backward_call_unserved), 1);
}

/*
 * The last session's service goes without a look at what is queued for it: that comes back, and no more goes there. As long as
 * there is another session nothing comes back; nor where the transport itself goes, whose service may be gone.
 */
RPCORDMA_TEST(client_backward, last_session)
{
	Requester r;
	r.connect({.backchannel = true});
	EXPECT_EQ(rpcordma_core_bc_setup(r.core, 1), 0);
	rpcordma_core_bc_destroy(r.core, 1);
	EXPECT_EQ(r.sunrpc.taken_back, 0);
	EXPECT_TRUE(r.deliver(SmallCall(9).message()));
	EXPECT_EQ(answer_backward(r, 32), 0);
	rpcordma_core_bc_destroy(r.core, 1);
	EXPECT_EQ(r.sunrpc.taken_back, 1);
	EXPECT_TRUE(r.deliver(SmallCall(10).message()));
	EXPECT_EQ(r.sunrpc.backward_calls, 1);
	EXPECT_EQ(r.log.take(trace::Failure::backward_call_unserved), 1);

	EXPECT_EQ(rpcordma_core_bc_setup(r.core, 1), 0);
	rpcordma_core_bc_destroy(r.core, ~0u);
	EXPECT_EQ(r.sunrpc.taken_back, 1);
}

/* The reply to a backward call of a connection that is gone goes nowhere: the next one's peer did not ask. */
RPCORDMA_TEST(client_backward, orphan)
{
	Requester r;
	r.connect({.backchannel = true});
	CallMaker call(9);
	call.finish(60);
	EXPECT_TRUE(r.deliver(call.message()));
	ASSERT_EQ(r.sunrpc.backward_calls, 1);
	rpcordma_core_client_close(r.core);
	EXPECT_EQ(rpcordma_core_client_connect(r.core), 0);
	EXPECT_EQ(answer_backward(r, 32), to_errno(Error::not_connected));
	EXPECT_EQ(r.peer.messages, 0);
	/* A call of the new one is answered. */
	EXPECT_TRUE(r.deliver(call.message()));
	EXPECT_EQ(answer_backward(r, 32), 0);
	EXPECT_EQ(r.peer.messages, 1);
	EXPECT_EQ(r.log.take(trace::Failure::backward_reply_lost), 1);
}

/*
 * A reply that can never be sent does not fail, or hold up, the call of a task that sends for others: it
 * leaves the queue. Its own task hears why.
 */
RPCORDMA_TEST(client_backward, undeliverable)
{
	enum Reason { orphaned, too_long };

	for (u32 reason = orphaned; reason <= too_long; reason++)
		for (bool foreign : {false, true}) {
			TEST_NOTE("reason", reason);
			TEST_NOTE("foreign", foreign);
			Requester r;
			r.connect({.backchannel = true});
			EXPECT_TRUE(r.deliver(SmallCall(9).message()));
			ASSERT_EQ(r.sunrpc.backward_calls, 1);
			if (reason == orphaned) {
				rpcordma_core_client_close(r.core);
				EXPECT_EQ(rpcordma_core_client_connect(r.core), 0);
			}
			r.sunrpc.backward->foreign = foreign;
			const int own = reason == orphaned ? to_errno(Error::not_connected) :
							     to_errno(Error::io);
			EXPECT_EQ(answer_backward(r, reason == orphaned ? 32 : 1024 - 27),
				  foreign ? 0 : own);
			EXPECT_EQ(r.peer.messages, 0);
			EXPECT_EQ(r.sunrpc.force_disconnects, 0);
			r.at_rest();
		}
}

/* What passes is waited for: a connection, a mapping, and a marker. */
RPCORDMA_TEST(client_backward, shortage)
{
	Requester r;
	r.connect({.backchannel = true});
	EXPECT_TRUE(r.deliver(SmallCall(9).message()));
	rpc_rqst *rqst = r.sunrpc.backward;
	rqst->send.head.length = rqst->send.len = 32;

	/* sunrpc knows of the loss of a connection that we have not closed yet. */
	r.sunrpc.connected = false;
	EXPECT_EQ(rpcordma_core_bc_send_reply(r.core, rqst->call), to_errno(Error::not_connected));
	r.sunrpc.connected = true;
	r.dma.mappings_left = 0;
	EXPECT_EQ(rpcordma_core_bc_send_reply(r.core, rqst->call), to_errno(Error::no_buffers));
	r.dma.mappings_left = kNoLimit;
	SendQueue &queue = r.send_queue();
	SendQueue::Marker *markers[SendQueue::kMarkers];
	for (SendQueue::Marker *&marker : markers)
		marker = queue.signal(nullptr);
	/* As often as the queue has room: trying takes none of it. */
	for (u32 i = 0; i <= queue.size(); i++)
		EXPECT_EQ(rpcordma_core_bc_send_reply(r.core, rqst->call), to_errno(Error::again));
	EXPECT_EQ(r.sunrpc.space_waits, queue.size() + 1);
	for (SendQueue::Marker *marker : markers)
		SendQueue::release(*marker);
	EXPECT_EQ(r.peer.messages, 0);
	EXPECT_EQ(answer_backward(r, 32), 0);
	EXPECT_EQ(r.peer.messages, 1);
	r.at_rest();
	EXPECT_EQ(r.log.take(trace::Failure::send_map_failed), 1);
	EXPECT_GT(r.log.take(trace::Failure::send_queue_full), 0);
}

/* However many replies are not known to be sent: the calls behind them, which are silent, have a marker left. */
RPCORDMA_TEST(client_backward, markers)
{
	constexpr u32 n = SendQueue::kMarkers;
	Requester r;
	r.connect({.backchannel = true});
	rpc_rqst *rqsts[n];
	u32 sent = 0;

	for (u32 i = 0; i < n; i++) {
		EXPECT_TRUE(r.verbs.send(nullptr, SmallCall(i + 1).message()));
		rqsts[i] = r.sunrpc.backward;
		rqsts[i]->send.head.length = rqsts[i]->send.len = 32;
	}
	while (sent < n && !rpcordma_core_bc_send_reply(r.core, rqsts[sent]->call))
		sent++;
	EXPECT_GT(sent, 0);
	SendQueue::Marker *marker = r.send_queue().signal(nullptr);
	ASSERT_NE(marker, nullptr);
	SendQueue::release(*marker);
	/* The others go when the first have gone. */
	EXPECT_TRUE(r.wants_space());
	r.work();
	EXPECT_FALSE(r.wants_space());
	for (; sent < n; sent++) {
		EXPECT_EQ(rpcordma_core_bc_send_reply(r.core, rqsts[sent]->call), 0);
		r.work();
	}
	for (rpc_rqst *rqst : rqsts)
		rpcordma_core_bc_free(r.core, rqst->call);
	EXPECT_EQ(r.peer.messages, n);
	r.at_rest();
	EXPECT_EQ(r.log.take(trace::Failure::send_queue_full), 1);
}

/* RFC 8167 4.3.1: as many backward calls as are granted find a Receive each; one that heeds nothing, an end. */
RPCORDMA_TEST(client_backward, credits)
{
	Requester r;
	r.connect({.backchannel = true});
	u32 calls = 0;

	EXPECT_GE(r.verbs.posted, kBackwardCredits + 1);
	for (; calls < 4 * kBackwardCredits && !r.sunrpc.force_disconnects; calls++) {
		CallMaker call(calls + 1);
		call.finish(40);
		if (calls < kBackwardCredits) {
			EXPECT_TRUE(r.deliver(call.message()));
			EXPECT_EQ(r.sunrpc.backward_calls, calls + 1);
		} else {
			(void)r.deliver(call.message());
		}
	}
	EXPECT_EQ(r.sunrpc.force_disconnects, 1);
	EXPECT_EQ(r.sunrpc.backward_calls, kBackwardCalls);
	EXPECT_EQ(r.log.take(trace::Loss::backward_overrun), 1);
	EXPECT_EQ(r.log.logged, 1);
}

namespace {

/* More calls than there are come to nothing, one after the other; then one is served. */
template <typename Nothing> void more_than_there_are(Requester &r, Nothing nothing)
{
	for (u32 i = 0; i <= kBackwardCalls; i++) {
		TEST_NOTE("call", i);
		nothing(i + 1);
		if (!r.is_connected())
			EXPECT_EQ(rpcordma_core_client_connect(r.core), 0);
	}
	const u32 served = r.sunrpc.backward_calls, sent = r.peer.messages;
	EXPECT_TRUE(r.deliver(SmallCall(9).message()));
	ASSERT_EQ(r.sunrpc.backward_calls, served + 1);
	EXPECT_EQ(answer_backward(r, 32), 0);
	EXPECT_EQ(r.peer.messages, sent + 1);
	r.at_rest();
}

} // namespace

/* The service does not take it. */
RPCORDMA_TEST(client_backward, not_submitted)
{
	Requester r;
	r.connect({.backchannel = true});
	r.sunrpc.busy = true;
	more_than_there_are(r, [&](u32 xid) {
		EXPECT_TRUE(r.deliver(SmallCall(xid).message()));
		EXPECT_EQ(r.sunrpc.backward_calls, 0);
		r.sunrpc.busy = xid <= kBackwardCalls;
	});
	EXPECT_EQ(r.log.take(trace::Failure::backward_call_unserved), kBackwardCalls + 1);
}

/* The reply cannot be posted: the connection goes, the call does not. */
RPCORDMA_TEST(client_backward, reply_not_posted)
{
	Requester r;
	r.connect({.backchannel = true});
	more_than_there_are(r, [&](u32 xid) {
		EXPECT_TRUE(r.deliver(SmallCall(xid).message()));
		r.verbs.sends_left = 0;
		EXPECT_EQ(answer_backward(r, 32), to_errno(Error::not_connected));
		r.verbs.sends_left = kNoLimit;
		EXPECT_EQ(r.sunrpc.closes, xid);
	});
	EXPECT_EQ(r.log.take(trace::Failure::post_failed), kBackwardCalls + 1);
	EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), kBackwardCalls + 1);
}

/* Nor can the answer to one that is refused. */
RPCORDMA_TEST(client_backward, refusal_not_posted)
{
	Requester r;
	r.connect({.backchannel = true});
	more_than_there_are(r, [&](u32 xid) {
		r.verbs.sends_left = 0;
		r.verbs.kept_room = 1;
		EXPECT_TRUE(r.deliver(RefusedCall(xid).message()));
		r.verbs.sends_left = kNoLimit;
		EXPECT_EQ(r.sunrpc.force_disconnects, xid);
	});
	EXPECT_EQ(r.log.take(trace::Failure::post_failed), kBackwardCalls + 1);
	EXPECT_EQ(r.log.take(trace::Failure::backward_call_chunks), kBackwardCalls + 1);
	EXPECT_EQ(r.log.take(trace::Loss::rpc_failed), kBackwardCalls + 1);
}

/* Nor can its buffer be mapped: then it is not answered. */
RPCORDMA_TEST(client_backward, refusal_dropped)
{
	Requester r;
	r.connect({.backchannel = true});
	more_than_there_are(r, [&](u32 xid) {
		r.dma.mappings_left = 0;
		EXPECT_TRUE(r.deliver(RefusedCall(xid).message()));
		r.dma.mappings_left = kNoLimit;
		EXPECT_EQ(r.sunrpc.force_disconnects, 0);
		EXPECT_EQ(r.peer.messages, 0);
	});
	EXPECT_EQ(r.log.take(trace::Failure::send_map_failed), kBackwardCalls + 1);
	EXPECT_EQ(r.log.take(trace::Failure::backward_call_chunks), kBackwardCalls + 1);
	EXPECT_EQ(r.log.take(trace::Failure::backward_refusal_lost), kBackwardCalls + 1);
}

/* A call that is longer than its buffer, as the limit was raised meanwhile, costs the connection. */
RPCORDMA_TEST(client_backward, longer_than_its_buffer)
{
	const private_data::Properties large = {8192, 8192, true};
	Requester r;
	r.connect({.backchannel = true});
	rpcordma_core_client_close(r.core);
	rpcordma_tunables.max_inline_read = 8192;
	r.connect({.server = &large});
	more_than_there_are(r, [&](u32 xid) {
		const Bytes room = test_alloc(5028);
		u8 *bytes = const_cast<u8 *>(room.data());
		(void)v1::encode_bare({bytes, 28}, Xid(xid), Credits(16));
		xdr::store_be32(bytes + 28, xid);
		xdr::store_be32(bytes + 32, 0);
		EXPECT_TRUE(r.deliver(room));
		EXPECT_EQ(r.sunrpc.backward_calls, 0);
		EXPECT_EQ(r.sunrpc.force_disconnects, xid);
	});
	EXPECT_EQ(r.log.take(trace::Loss::backward_oversized), kBackwardCalls + 1);
}

/* Each grant comes on top of the Receives that backward calls and replies to them may take (RFC 8167 4.3.1). */
RPCORDMA_TEST(client_backward, receives_beside_the_grant)
{
	Requester r;
	r.connect({.backchannel = true});
	EXPECT_GE(r.verbs.posted, 1 + 2 * kBackwardCredits);
	for (u32 granted : {2u, 20u, 40u}) {
		TEST_NOTE("granted", granted);
		rpc_rqst *call = r.call(granted);
		EXPECT_TRUE(r.reply(granted, 24, granted));
		r.done(call);
		EXPECT_EQ(r.sunrpc.window, granted);
		EXPECT_GE(r.verbs.posted, granted + 2 * kBackwardCredits);
	}
}

/* A reply that lies in head, pages and tail goes as it is, when it is as long as the client may take inline, and not beyond. */
RPCORDMA_TEST(client_backward, reply_parts)
{
	constexpr u32 head = 40, pages = 3;

	for (const u32 longer : {0u, 1u})
		for (const bool foreign : {false, true}) {
			TEST_NOTE("longer", longer);
			TEST_NOTE("foreign", foreign);
			Requester r;
			r.connect({.backchannel = true});
			const u32 limit = r.thresholds().send - r.thresholds().bare_header;
			const u32 size = limit + longer, in_pages = (pages - 1) * kPage + 7;
			const MutableBytes all = test_alloc(size);
			page *list[pages];

			for (u32 i = 0; i < size; i++)
				all[i] = pattern(i);
			for (u32 i = 0; i < pages; i++) {
				const u32 at = head + i * kPage;

				list[i] = reinterpret_cast<page *>(test_alloc(sizeof(page)).data());
				list[i]->data = test_alloc(kPage).data();
				__builtin_memcpy(list[i]->data, all.data() + at,
						 min(kPage, size - at));
			}
			EXPECT_TRUE(r.deliver(SmallCall(9).message()));
			rpc_rqst *rqst = r.sunrpc.backward;
			rqst->foreign = foreign;
			__builtin_memcpy(rqst->send.head.base, all.data(), head);
			rqst->send.head.length = head;
			rqst->send.pages = list;
			rqst->send.page_length = in_pages;
			rqst->send.tail = {all.data() + head + in_pages, size - head - in_pages};
			rqst->send.len = size;
			EXPECT_EQ(rpcordma_core_bc_send_reply(r.core, rqst->call),
				  longer && !foreign ? to_errno(Error::io) : 0);
			r.work();
			rpcordma_core_bc_free(r.core, rqst->call);
			EXPECT_EQ(r.peer.messages, !longer);
			if (!longer)
				EXPECT_BYTES(r.sent().payload, Bytes(all.data(), size));
			EXPECT_EQ(r.log.take(trace::Failure::backward_reply_long), longer);
			if (longer)
				EXPECT_EQ(r.log.failure_value, int(size));
			r.at_rest();
		}
}

/* Calls are served while there is a session; the calls are made once. Where none is left at once, nothing is taken back. */
RPCORDMA_TEST(client_backward, sessions)
{
	Requester r;
	r.connect({.backchannel = true});
	EXPECT_EQ(rpcordma_core_bc_setup(r.core, 1), 0);
	EXPECT_EQ(audit(*r.core).backward, kBackwardCalls);
	rpcordma_core_bc_destroy(r.core, 1);
	EXPECT_TRUE(r.deliver(SmallCall(9).message()));
	EXPECT_EQ(answer_backward(r, 32), 0);
	rpcordma_core_bc_destroy(r.core, ~0u);
	EXPECT_EQ(r.sunrpc.taken_back, 0);
	EXPECT_TRUE(r.deliver(SmallCall(10).message()));
	EXPECT_EQ(r.sunrpc.backward_calls, 1);
	EXPECT_EQ(r.stats().bad_reply_count, 1);
	EXPECT_EQ(rpcordma_core_bc_setup(r.core, 1), 0);
	EXPECT_EQ(audit(*r.core).backward, kBackwardCalls);
	rpcordma_core_bc_destroy(r.core, 1);
	EXPECT_EQ(r.sunrpc.taken_back, 1);
	/* One more than there were. */
	rpcordma_core_bc_destroy(r.core, 1);
	EXPECT_EQ(r.log.take(trace::Failure::backward_call_unserved), 1);
}

/* What NFS is told before it makes a session: how many calls there may be, and how long. */
RPCORDMA_TEST(client_backward, told)
{
	for (const bool version2 : {false, true}) {
		TEST_NOTE("version2", version2);
		Requester r;
		const private_data::Properties server = {1024, 2048, true};
		const u32 bare = 28, bare2 = protocol::V2::rules().bare_header;
		const u32 header = version2 ? max(bare, bare2) : bare;

		rpcordma_tunables.version2 = version2;
		EXPECT_EQ(rpcordma_core_bc_slots(r.core), kBackwardCredits);
		const u32 page_size = rpcordma_page_size();

		EXPECT_EQ(rpcordma_core_bc_max_payload(r.core),
			  min(rpcordma_tunables.max_inline_read, page_size) - header);
		r.connect({.server = &server});
		EXPECT_EQ(rpcordma_core_bc_max_payload(r.core),
			  min(min(r.thresholds().send, r.thresholds().receive), page_size) - header);
	}
}

/* Without memory for the calls there is no backchannel. */
RPCORDMA_TEST(client_backward, no_memory)
{
	for (const u32 left : {0u, 1u, 2u, 3u, 3 * kBackwardCalls - 1}) {
		TEST_NOTE("left", left);
		Requester r;

		r.memory.allocations_left = left;
		EXPECT_EQ(rpcordma_core_bc_setup(r.core, 1), to_errno(Error::no_memory));
		EXPECT_GT(r.log.take(trace::Failure::backward_setup_failed), 0);
		EXPECT_EQ(r.log.failure_value, to_errno(Error::no_memory));
		EXPECT_EQ(audit(*r.core).backward, left / 3);
		r.memory.allocations_left = kNoLimit;
		EXPECT_EQ(rpcordma_core_bc_setup(r.core, 1), 0);
		EXPECT_EQ(audit(*r.core).backward, kBackwardCalls);
		(void)r.log.take(trace::Failure::send_buffer_failed);
	}
}

RPCORDMA_SUITE(client_backward, reply_parts, sessions, told, no_memory, call, chunks, version,
	       unserved, orphan, last_session, undeliverable, shortage, markers, credits,
	       not_submitted, reply_not_posted, refusal_not_posted, refusal_dropped,
	       longer_than_its_buffer, receives_beside_the_grant);

} // namespace rpcordma
