// SPDX-License-Identifier: GPL-2.0-only
/*
 * A connection of the server, over the double of the port (test_rdma_port.hh), and a client and a service thread to
 * go with it:
 *
 *	Connected c;
 *	CallMaker call(0x77);
 *	call.read(40, 100);             // a Read chunk: 100 bytes of the client's memory
 *	call.finish(60);                // 60 bytes of RPC message inline
 *	ASSERT_TRUE(c.send(call));
 *	c.work();                       // the device
 *	EXPECT_EQ(c.receive(), 160);    // the thread
 *	EXPECT_EQ(c.reply(100), 0);
 */
#pragma once

#include "kunit/test_call_maker.hh"
#include "kunit/test_rdma_port.hh"
#include "module/server/audit.hh"
#include "module/server/failures.hh"
#include "module/server/send.hh"
#include "xdr/private_data.hh"

namespace rpcordma {

/** What a client says of itself when it connects, and what there is before the connection. */
struct Accepted : PortFixture {
	Server *server;
	svc_rqst *rqst;
	static constexpr u32 kReplyBytes = 96 * 1024;
	u8 *reply_bytes;       /* pattern() */
	bool accepted = false; /* or refused, and destroy() is to come */
	bool serving = false;
	u32 thread_pages = 80;
	ExactCopy pool_before;

	/** Everything but the connection: accept() makes that. */
	Accepted() : pool_before(bytes_of(server_pool))
	{
		EXPECT_EQ(rpcordma_core_server_init(), 0);
		/* The memory of the case before. */
		server_failures = Failures();
		rqst = &test_zeroed<svc_rqst>();
		fill_thread();
		reply_bytes = test_alloc(kReplyBytes).data();
		for (u32 i = 0; i < kReplyBytes; i++)
			reply_bytes[i] = pattern(i);
	}
	/** A connection that is left goes on to its rest, where nothing is counted that is not there. */
	~Accepted()
	{
		if (serving)
			expect_rest();
		end();
		for (page *&p : rqst->pages)
			if (p)
				memory.put_page(p);
		rpcordma_core_server_exit();
		/* Pages, transfers, users, what is lent and wanted, eager bytes and connections. */
		EXPECT_BYTES(bytes_of(server_pool), pool_before.bytes());
	}
	/** The device does up to @n posted work requests, and their completions come. How many it did. */
	u32 work(u32 n = ~0u)
	{
		return verbs.work(n);
	}
	/** As sunrpc does before each call. */
	void fill_thread()
	{
		for (u32 i = 0; i < thread_pages; i++)
			if (!rqst->pages[i])
				rqst->pages[i] = memory.new_page();
	}
	/** A connection request; @client: what its private data say. */
	int accept(u32 initiator_depth = 16, const private_data::Properties *client = nullptr)
	{
		u8 said[private_data::marked_length];
		u32 said_length = 0;

		if (client)
			said_length = private_data::encode(said, *client).value();
		server = reinterpret_cast<Server *>(test_alloc(rpcordma_core_server_size()).data());
		__builtin_memset(static_cast<void *>(server), 0, rpcordma_core_server_size());
		verbs.server = server;
		svc.finish_over = false;
		accepted = true;
		const int rc = rpcordma_core_server_accept(server, nullptr, nullptr,
							   verbs.endpoint(), said, said_length,
							   initiator_depth);
		serving = !rc;
		if (serving)
			log.granted = granted();
		return rc;
	}
	/** The connection ends as far as sunrpc is concerned, amid what it does, and with it all its memory. */
	void end()
	{
		if (!accepted)
			return;
		accepted = serving = false;
		rpcordma_core_server_destroy(server);
		verbs.new_queue_pair();
		EXPECT_EQ(eager_bytes(), 0);
		EXPECT_EQ(eager_users(), 0);
		ledger.expect_unmapped();
	}
	/** The worker comes that was asked for. */
	void finish()
	{
		EXPECT_GT(svc.finish_ms, 0);
		svc.finish_ms = 0;
		rpcordma_core_server_finish(server);
	}
	/** There is memory again, the device does what it has to, and threads take what calls there are. */
	void settle()
	{
		want_for_nothing();
		for (;;) {
			const bool sent = work() > 0;

			if (!has_ready() && !has_held()) {
				if (sent)
					continue;
				if (svc.finish_ms)
					finish();
				return;
			}
			fill_thread();
			if (rpcordma_core_server_recvfrom(server, rqst) > 0)
				rpcordma_core_server_release(server, rqst->call);
		}
	}
	/** What is told of the connection, on demand, is so. */
	void expect_described() const
	{
		const protocol::Session &session = server->session;
		const properties::Properties &said = session.properties();
		const bool tells = session.rules().properties;
		rpcordma_agreement agreed;
		rpcordma_server_state state;

		rpcordma_core_server_describe(server, &agreed);
		EXPECT_EQ(agreed.peer_receive_size,
			  tells ? said.receive_bytes() : session.peer().receive_size);
		EXPECT_EQ(agreed.peer_receive_pages, tells ? said.ddp_segments() : 0);
		const protocol::ReceiveRoom room = server->receive_maker.room();
		const bool told = server->growth.told();
		/* What could not be said ends the connection. */
		if (!server->closing.load()) {
			EXPECT_EQ(agreed.receive_size, told ? room.bytes() : receive_size());
			EXPECT_EQ(agreed.receive_pages, told ? room.pages : 0);
		}
		rpcordma_core_server_state(server, &state);
		EXPECT_EQ(state.version, session.settled() ? session.version() : 0);
		if (session.settled())
			EXPECT_EQ(agreed.version, session.version());
		EXPECT_EQ(state.established, server->established.load() && !server->closing.load());
		EXPECT_EQ(state.credits, grant());
		EXPECT_EQ(state.calls, in_service());
		EXPECT_EQ(state.inline_send, send_size());
		EXPECT_EQ(state.inline_receive,
			  told ? agreed.receive_size : session.thresholds().receive);
		EXPECT_EQ(state.receives, posted());
		EXPECT_EQ(state.waiting, waiters() != 0);
	}
	/** The call that completion entry @cqe is of; null: none is. */
	[[nodiscard]] const ServerCall *with_completion(const rpcordma_cqe *cqe) const
	{
		const ServerCall *call = ServerInside::all(server->calls);

		while (call && cqe != &call->send_cqe && cqe != &call->read_cqe &&
		       cqe != &call->chain_cqe)
			call = call->all_next;
		return call;
	}
	/**
	 * settle(); then whatever is counted is at its start. The case has let go of its calls. Of a chain
	 * that was partly posted the device keeps all, until the drain: the call, what it has, and the room.
	 */
	void expect_rest()
	{
		settle();
		const PartlyPosted &chain = verbs.partly_posted;
		const ServerCall *const kept = with_completion(chain.cqe);
		/* A sink from the pool, if it was the completion that pulled. */
		const u32 eager = chain.by_completion ?
					  div_round_up(kept->arrival.sink_length, kPage) * kPage +
						  kTransferBytes :
					  0;
		const ServerAudit a = audit(*server);

		EXPECT_EQ(a.at_rest(), !kept);
		EXPECT_EQ(a.with_calls, kept ? 1 : 0);
		EXPECT_EQ(a.posted + a.spare + a.with_calls, a.receives);
		EXPECT_EQ(a.spare_calls + (kept ? 1 : 0), a.calls);
		/* One with each Receive, and those of backward calls. */
		EXPECT_GE(a.calls, a.receives);
		EXPECT_EQ(a.queued, 0);
		/* Reads have none: sunrpc does not know of the call yet. */
		EXPECT_EQ(a.owners, kept && chain.writes ? 1 : 0);
		EXPECT_EQ(a.transfers, kept ? 1 : 0);
		EXPECT_EQ(a.with_receives, kept ? 1 : 0);
		EXPECT_EQ(a.in_service, kept ? 1 : 0);
		EXPECT_EQ(a.room_taken, chain.requests);
		EXPECT_EQ(a.waiters, 0);
		EXPECT_EQ(a.eager_bytes, eager);
		/* Those are its own. */
		if (kept) {
			EXPECT_EQ(kept->owners.load(), chain.writes ? 1 : 0);
			EXPECT_TRUE(kept->moves_data());
			EXPECT_NE(kept->receive, nullptr);
		}
		u32 number = 0;
		for (const ServerCall *call = ServerInside::all(server->calls); call;
		     call = call->all_next) {
			TEST_NOTE("call", number++);
			EXPECT_EQ(call->eager, call == kept ? eager : 0);
			EXPECT_FALSE(call->refused);
			EXPECT_EQ(call->sink, nullptr);
			EXPECT_EQ(call->moves_data(), call == kept);
			EXPECT_FALSE(call->report);
			if (call != kept) {
				EXPECT_EQ(call->receive, nullptr);
				EXPECT_EQ(call->lone.page_count, 0);
				EXPECT_EQ(call->reading, 0);
				EXPECT_EQ(call->parts.load(), 0);
			}
			/* A reply's were told by the service, and nobody looks at them again. */
			if (!(call == kept && chain.writes))
				EXPECT_EQ(results_of(call), 0);
		}
		EXPECT_EQ(grant(), granted());
		EXPECT_GE(log.granted, granted());
		expect_described();
		EXPECT_EQ(svc.counters[RPCORDMA_SERVER_READ], ledger.reads());
		EXPECT_EQ(svc.counters[RPCORDMA_SERVER_WRITE], ledger.writes());
		if (!kept)
			ledger.expect_no_regions();
		EXPECT_EQ(backward_outstanding(), svc.backward_outstanding);
		EXPECT_LE(backward_outstanding(), backward_backed());
		EXPECT_EQ(a.posted, verbs.posted + verbs.receives_refused);
		/* As far as there was memory to make them. */
		if (!server->closing.load())
			EXPECT_GE(a.posted, min(promised(), a.receives));
		EXPECT_EQ(eager_bytes(), eager);
		EXPECT_EQ(eager_users(), eager ? 1 : 0);
		EXPECT_EQ(dma.bulk_maps, kept && !chain.regions ? 1 : 0);
		EXPECT_EQ(dma.region_maps, chain.regions);
		while (Region *region = server->regions.disown())
			destroy_region(region);
		/* All others were on the list. */
		EXPECT_EQ(dma.regions, chain.regions);
	}

	/* --- what the module counts: its fields are named here, and not in the cases --- */

	/** Receives that there are; and calls, one with each of them, and those that backward calls took. */
	[[nodiscard]] u32 receives() const
	{
		return ServerInside::made(server->receives);
	}
	[[nodiscard]] u32 calls() const
	{
		return audit(*server).calls;
	}
	[[nodiscard]] u32 in_service() const
	{
		return server->calls.in_service();
	}
	/** Of the send queue. */
	[[nodiscard]] u32 room() const
	{
		return server->room.free();
	}
	[[nodiscard]] u32 room_taken() const
	{
		return server->room.size() - server->room.free();
	}
	/** Credits: as counted, and as replies say. */
	[[nodiscard]] u32 granted() const
	{
		return server->receives.credits().granted();
	}
	[[nodiscard]] u32 grant() const
	{
		return server->grant.credits().get();
	}
	/** Receives that are to be there, and those that the server counts. */
	[[nodiscard]] u32 promised() const
	{
		return promised_locked(*server);
	}
	[[nodiscard]] u32 posted() const
	{
		return server->receives.posted();
	}
	[[nodiscard]] bool short_of_receives() const
	{
		return server->grant.in_debt();
	}
	[[nodiscard]] u32 backward_outstanding() const
	{
		return server->backward.outstanding();
	}
	[[nodiscard]] u32 backward_backed() const
	{
		return server->receives.backed();
	}
	/** Something was replied to: the client is no stranger. */
	[[nodiscard]] bool replied() const
	{
		return server->eager.replied();
	}
	void set_replied(bool replied)
	{
		ServerInside::replied(server->eager).store(replied);
	}
	/** Threads that wait for room. */
	[[nodiscard]] u32 waiters() const
	{
		return ServerInside::waiters(server->room).load();
	}
	void pretend_waiters(u32 waiters)
	{
		ServerInside::waiters(server->room).store(waiters);
	}
	/** Bytes that a Receive holds, and that the peer's does. */
	[[nodiscard]] u32 receive_size() const
	{
		return server->receive_maker.buffer_size();
	}
	[[nodiscard]] u32 send_size() const
	{
		return server->session.thresholds().send;
	}
	/** SGEs of a Send or Write, and of a Read. */
	[[nodiscard]] u32 send_sges() const
	{
		return server->limits.send_sges;
	}
	[[nodiscard]] u32 read_sges() const
	{
		return server->limits.read_sges;
	}
	[[nodiscard]] bool remote_invalidation() const
	{
		return server->limits.remote_invalidation;
	}
	[[nodiscard]] bool has_ready() const
	{
		return !ServerInside::none_ready(server->queue);
	}
	[[nodiscard]] bool has_held() const
	{
		return !server->queue.none_held();
	}
	/** Pages of the regions that are made from here on. */
	void set_region_pages(u32 pages)
	{
		server->limits.region_pages = pages;
	}
	/** The call that the thread has. */
	[[nodiscard]] Xid call_xid() const
	{
		return rqst->call->message().xid;
	}
	[[nodiscard]] u32 call_results() const
	{
		return results_of(rqst->call);
	}
	[[nodiscard]] static u32 results_of(const ServerCall *call)
	{
		return call->results.count();
	}
	/** @call is spare: nobody has it. */
	[[nodiscard]] bool idle(const rpcordma_server_call *call) const
	{
		const ServerCall *at = ServerInside::spare(server->calls);

		while (at && at != call)
			at = at->next;
		return at;
	}
	/** Of eager Reads, of all connections. */
	[[nodiscard]] static u64 eager_bytes()
	{
		return eager_total.bytes();
	}
	[[nodiscard]] static u32 eager_users()
	{
		return eager_total.users();
	}
};

/** What a client's connection is like. */
struct ConnectionFrom {
	bool remote_invalidation = false; /* the client's R bit */
	bool established = true;	  /* the event has come */
	bool marked = false;		  /* it speaks version 2, it says */
};

/** A connection with a client and a thread. */
struct Served : Accepted {
	void connect(const ConnectionFrom &from = {})
	{
		private_data::Properties client;

		client.send_size = client.receive_size = 4096;
		client.remote_invalidation = from.remote_invalidation;
		client.mark = from.marked;
		EXPECT_EQ(accept(16, &client), 0);
		rpcordma_core_server_refill();
		if (from.established)
			establish();
	}
	void establish()
	{
		rpcordma_core_server_event(server, RPCORDMA_EVENT_ESTABLISHED);
	}
	/** False: there is no Receive. */
	template <typename Encoder> [[nodiscard]] bool send(const MessageMaker<Encoder> &call)
	{
		const ExactCopy copy(call.message());

		return verbs.send(server, copy.bytes());
	}
	/** A call of @size bytes and nothing else. */
	[[nodiscard]] bool send_inline(u32 xid, u32 credits = 64, u32 size = 40)
	{
		CallMaker call(xid, credits);

		call.finish(size);
		return send(call);
	}
	/** What send_backward() says of a call of @size bytes. */
	int send_backward(u32 xid, u32 size)
	{
		rpcordma_xdr_buf buf = {};

		buf.head = {reply_bytes, size};
		buf.len = size;
		ledger.know(xid);
		const int rc = rpcordma_core_server_send_backward(server, xid, &buf);
		if (!rc)
			svc.backward_outstanding =
				min(svc.backward_outstanding + 1, kServerBackwardCalls);
		return rc;
	}
	/** A service thread looks. Returns what recvfrom() says. */
	int receive()
	{
		fill_thread();
		rqst->call = nullptr;
		return rpcordma_core_server_recvfrom(server, rqst);
	}
	/** The bytes of the call that the thread has: head, pages, tail. */
	/** The pages that the service has page data in: the thread's, or others. */
	[[nodiscard]] page *const *call_pages() const
	{
		return rqst->arg.pages ? rqst->arg.pages : rqst->pages + (rqst->arg.head ? 0 : 1);
	}
	[[nodiscard]] u8 call_byte(u32 i) const
	{
		const rpcordma_svc_arg &arg = rqst->arg;

		if (i < arg.head_length)
			return arg.head ? static_cast<u8 *>(arg.head)[i] : rqst->pages[0]->data[i];
		i -= arg.head_length;
		if (i < arg.page_length)
			return call_pages()[i / kPage]->data[i % kPage];
		i -= arg.page_length;
		return static_cast<u8 *>(arg.tail)[i];
	}
	/** The thread replies with @size bytes, without pages, to the call it has; then it lets go. */
	int reply(u32 size)
	{
		const int rc = send_reply(size);

		release();
		return rc;
	}
	int send_reply(u32 size)
	{
		rqst->reply = {};
		rqst->reply.head = {reply_bytes, size};
		rqst->reply.len = size;
		rqst->reply_pages = 0;
		return send_made_reply();
	}
	/** The reply that the thread has made. Its Send, if it comes to that, is as its event says. */
	int send_made_reply()
	{
		const u32 sends = verbs.sends, encodes = log.encodes, xid = call_xid().get();
		const bool optional = rqst->call->message().kind == xdr::Kind::optional;
		const u32 reply_length = rqst->reply.len;
		const int rc = rpcordma_core_server_sendto(server, rqst, rqst->call);

		EXPECT_LE(log.encodes, encodes + 1);
		/* A device that was quicker has sent it already. */
		if (!rc && !optional && verbs.sends > sends)
			expect_encoded(encodes, xid, reply_length);
		return rc;
	}
	/* What was posted last is a reply to @xid, of @length bytes, or an error; there were @encodes events before. */
	void expect_encoded(u32 encodes, u32 xid, u32 length)
	{
		const Posted &last = verbs.queued(verbs.sends - 1);
		u32 first = verbs.sends - 1;

		/* Others of the chain have no completion. */
		while (first && verbs.queued(first - 1).opcode == RPCORDMA_WR_SEND &&
		       !verbs.queued(first - 1).send_flags)
			first--;
		u32 writes = 0;
		while (writes < first &&
		       verbs.queued(first - writes - 1).opcode == RPCORDMA_WR_RDMA_WRITE &&
		       !verbs.queued(first - writes - 1).send_flags)
			writes++;
		const Posted &send = verbs.queued(first);
		const MutableBytes message = test_alloc(send.length());
		u32 at = 0;
		for (int i = 0; i < send.num_sge; i++)
			for (u32 n = 0; n < send.sges[i].length; n++)
				message[at++] = *dma.byte_of(send.sges[i], n);
		xdr::Message header;
		if (xdr_reference::word_at(message, 1) == 1)
			ASSERT_EQ(v1::decode(message, header), Error::none);
		/* A case's reply need not be one of RPC, as version 2 has it. */
		else if (v2::decode(message, header) != Error::none)
			return;
		EXPECT_EQ(header.xid, Xid(xid));
		EXPECT_EQ(header.credits.get(), grant());
		if (header.kind == xdr::Kind::error) {
			EXPECT_EQ(writes, 0);
			return;
		}
		const rpcordma_trace_answer &told = log.encoded;
		EXPECT_EQ(log.encodes, encodes + 1);
		EXPECT_EQ(told.xid, xid);
		EXPECT_EQ(told.credits, grant());
		EXPECT_EQ(told.proc, u32(header.kind));
		EXPECT_EQ(told.header_length, header.header_length);
		EXPECT_EQ(told.transmissions, verbs.sends - first);
		EXPECT_EQ(told.writes, writes);
		EXPECT_EQ(told.segments, header.writes.segments() + header.reply.count());
		EXPECT_EQ(told.invalidate,
			  last.opcode == RPCORDMA_WR_SEND_WITH_INV ? last.invalidate_rkey : 0);
		/* Of results that are placed no pad is sent. */
		const u64 told_length =
			u64(told.inline_length) + told.write_length + told.reply_length;
		EXPECT_LE(told_length, length);
		EXPECT_LE(length, told_length + 3 * header.writes.count());
		if (told.transmissions == 1)
			EXPECT_EQ(told.inline_length, message.size() - header.header_length);
	}
	/** Bytes [@at, @at + @length) of a reply, however far behind reply_bytes. */
	static rpcordma_kvec reply_tail(u32 at, u32 length)
	{
		u8 *bytes = test_alloc(length).data();

		for (u32 i = 0; i < length; i++)
			bytes[i] = pattern(at + i);
		return {bytes, length};
	}
	/** A reply whose bytes [@head, @head + @size) are in pages, and @tail follow. Counted are @pages at least. */
	int send_reply_pages(u32 head, u32 size, u32 tail, u32 pages = 0)
	{
		have_reply_pages(head, size, tail, pages);
		return send_made_reply();
	}
	/** That reply, without sending it. */
	void have_reply_pages(u32 head, u32 size, u32 tail, u32 pages = 0)
	{
		rpcordma_xdr_buf &buf = rqst->reply;
		const u32 used = rqst->arg.pages_used;

		buf = {};
		buf.head = {reply_bytes, head};
		buf.tail = reply_tail(head + size, tail);
		buf.pages = rqst->pages + used;
		buf.page_length = size;
		buf.len = head + size + tail;
		rqst->reply_pages = max(div_round_up(size, u32(kPage)), pages);
		for (u32 i = 0; i < size; i++)
			buf.pages[i / kPage]->data[i % kPage] = pattern(head + i);
	}
	/** Byte @at of the reply that is in a head and pages. */
	[[nodiscard]] u8 &reply_byte(u32 at)
	{
		const rpcordma_xdr_buf &buf = rqst->reply;
		const u32 in_pages = at - u32(buf.head.length);

		return at < buf.head.length ? static_cast<u8 *>(buf.head.base)[at] :
					      buf.pages[in_pages / kPage]->data[in_pages % kPage];
	}
	void release()
	{
		rpcordma_core_server_release(server, rqst->call);
		rqst->call = nullptr;
	}
	/** What the client got last. */
	[[nodiscard]] Result<DecodedHeader> got() const
	{
		return xdr_reference::decode(peer.last());
	}
	/** What it was granted with that. */
	[[nodiscard]] u32 got_credits() const
	{
		return decoded(peer.last()).credits.get();
	}
	void expect_error(u32 xid, xdr::ErrorCode code)
	{
		const auto header = got();

		ASSERT_OK(header);
		EXPECT_EQ(header.value().kind, xdr::Kind::error);
		EXPECT_EQ(header.value().xid, Xid(xid));
		EXPECT_EQ(header.value().error.code, code);
		EXPECT_GT(header.value().credits.get(), 0);
		EXPECT_EQ(peer.invalidated, 0);
	}
	/** The last message is an RDMA_MSG with bytes [0, @size) of a reply. */
	void expect_reply(u32 xid, u32 size)
	{
		const auto header = got();

		ASSERT_OK(header);
		EXPECT_EQ(header.value().kind, xdr::Kind::msg);
		EXPECT_EQ(header.value().xid, Xid(xid));
		EXPECT_BYTES(header.value().payload, Bytes(reply_bytes, size));
	}
};

struct Connected : Served {
	explicit Connected(const ConnectionFrom &from = {})
	{
		connect(from);
	}
};

/** Over a device whose Reads need a region for a sink. */
struct Iwarp : Served {
	/** @entries: of the device's pages, that one of the kernel's takes. */
	explicit Iwarp(u32 region_pages = 130, u32 entries = 1)
	{
		verbs.device.read_needs_region = true;
		verbs.device.mr_page_size = kPage / entries;
		verbs.device.max_fast_reg_pages = region_pages * entries;
		/* The largest call takes them all. */
		svc.limits.max_message = 64 * 1024 + 1024;
		svc.limits.max_pages = thread_pages = Transfer::kPages;
		connect();
		set_replied(true);
	}
};

/** No sink is to be had from the pool, until it is refilled. */
struct NoSinks {
	u32 count = 0;
	Transfer *taken[16];

	NoSinks()
	{
		while (Transfer *sink = server_pool.take_sink(1, 1))
			taken[count++] = sink;
		EXPECT_GT(count, 0);
	}
	~NoSinks()
	{
		while (count)
			server_pool.give(taken[--count]);
	}
};

/** Has what room there is in the send queue, while it lives. */
struct NoRoom {
	Server *server;
	u32 taken;

	/** @left: what is left of it. */
	explicit NoRoom(Served &c, u32 left = 0)
		: server(c.server),
		  taken(ServerInside::free(server->room).exchange(left) - left)
	{
	}
	~NoRoom()
	{
		ServerInside::free(server->room).fetch_add(taken);
	}
};

/** Other connections have so much of the budget of eager Reads, while this lives. */
struct OthersEager {
	const u32 bytes, users;

	OthersEager(u32 others_bytes, u32 others) : bytes(others_bytes), users(others)
	{
		(void)eager_total.take(bytes, ~u64(0), false);
		for (u32 i = 0; i < users; i++)
			eager_total.join();
	}
	~OthersEager()
	{
		eager_total.give_back(bytes, false);
		for (u32 i = 0; i < users; i++)
			eager_total.give_back(0, true);
	}
};

/** No Receive is spare, while this lives. */
struct NoSpareReceives {
	Server *server;
	Receive *taken = nullptr; /* chained by `next` */

	explicit NoSpareReceives(Served &c) : server(c.server)
	{
		while (Receive *receive = server->receives.take_spare()) {
			server->receives.completed();
			receive->next = taken;
			taken = receive;
		}
	}
	~NoSpareReceives()
	{
		while (Receive *receive = taken) {
			taken = receive->next;
			server->receives.put_spare(receive);
		}
	}
};

/** Has all transfers of the pool, while it lives. */
struct NoTransfers : NoSinks {
	NoTransfers()
	{
		for (u32 left = the_port->dma.bulks - count; left; left--)
			taken[count++] = server_pool.take(Transfer::kPages, RPCORDMA_ALLOC_NOIO);
	}
};

} // namespace rpcordma
