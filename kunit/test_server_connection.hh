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

#include "kunit/test_rdma_port.hh"
#include "module/server/audit.hh"
#include "xdr/private_data.hh"

namespace rpcordma {

/** Byte @i of what goes inline; of the client's memory there is the_port->peer.memory. */
[[nodiscard]] constexpr u8 pattern(u32 i)
{
	return u8(i * 13 + 5);
}

/** As that, of a call from its third word on: with no credential and no verifier. */
[[nodiscard]] constexpr u8 call_pattern(u32 i)
{
	return i >= 24 && i < 40 ? 0 : pattern(i);
}

/** A forward call, or whatever else a client may send. */
struct CallMaker {
	static constexpr u32 kRoom = 1024;
	u8 *bytes; /* a kernel's stack is small */
	u32 length = 0;
	u32 header = 0;
	u32 xid;
	v1::Encoder encoder;

	explicit CallMaker(u32 number, u32 credits = 64, v1::Proc proc = v1::Proc::msg)
		: bytes(static_cast<u8 *>(rpcordma_test_alloc(kRoom))),
		  xid(number),
		  encoder({bytes, kRoom}, Xid(number), Credits(credits), proc)
	{
	}
	~CallMaker()
	{
		rpcordma_test_free(bytes, kRoom);
	}
	CallMaker(const CallMaker &) = delete;
	CallMaker &operator=(const CallMaker &) = delete;

	[[nodiscard]] static xdr::Segment segment(u32 size, u32 offset = 0)
	{
		return {Rkey(PortPeer::kKey), size, PortPeer::kAddress + offset};
	}
	void read(u32 position, u32 size, u32 offset = 0)
	{
		encoder.read_segment(Position(position), segment(size, offset));
	}
	void write(u32 size, u32 offset = 0)
	{
		const xdr::Segment segments[] = {segment(size, offset)};
		encoder.write_chunk(segments);
	}
	void reply(u32 size, u32 offset = 0)
	{
		const xdr::Segment segments[] = {segment(size, offset)};
		encoder.reply_chunk(segments);
	}
	/** The header ends, and @size bytes of RPC message follow: a Call, or a Reply. */
	void finish(u32 size, u32 type = 0)
	{
		const auto end = encoder.finish();

		ASSERT_OK(end);
		header = end.value();
		length = header + size;
		ASSERT_LE(length, kRoom);
		for (u32 i = 0; i < size; i++)
			bytes[header + i] = pattern(i);
		if (size >= 8) {
			xdr::store_be32(bytes + header, xid);
			xdr::store_be32(bytes + header + 4, type);
		}
		if (size >= 40 && !type)
			credential(0);
	}
	/** The call's credential has @length bytes, of which some may not be there; the verifier, none. */
	void credential(u32 length_of_it, u32 verifier = 0)
	{
		const u32 words[] = {0, length_of_it};
		const u32 more[] = {0, verifier};

		put(24, words);
		put(32 + length_of_it + xdr_pad(length_of_it), more);
	}
	void put(u32 at, Span<const u32> words)
	{
		for (const u32 word : words) {
			if (header + at + 4 <= length)
				xdr::store_be32(bytes + header + at, word);
			at += 4;
		}
	}
	[[nodiscard]] Bytes message() const
	{
		return {bytes, length};
	}
};

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
				memory.free_page(p);
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
		u8 said[private_data::length];
		u32 said_length = 0;

		if (client)
			said_length = private_data::encode(said, *client).value();
		server = reinterpret_cast<Server *>(test_alloc(rpcordma_core_server_size()).data());
		__builtin_memset(static_cast<void *>(server), 0, rpcordma_core_server_size());
		verbs.server = server;
		accepted = true;
		const int rc = rpcordma_core_server_accept(server, nullptr, nullptr,
							   verbs.endpoint(), said, said_length,
							   initiator_depth);
		serving = !rc;
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
		EXPECT_EQ(server_pool.eager_bytes.load(), 0);
		EXPECT_EQ(server_pool.eager_users.load(), 0);
	}
	/** There is memory again, the device does what it has to, and threads take what calls there are. */
	void settle()
	{
		want_for_nothing();
		for (;;) {
			const bool sent = work() > 0;

			if (server->ready.empty() && server->held.empty()) {
				if (!sent)
					return;
				continue;
			}
			fill_thread();
			if (rpcordma_core_server_recvfrom(server, rqst) > 0)
				rpcordma_core_server_release(server, rqst->call);
		}
	}
	/**
	 * settle(); then whatever is counted is at its start. The case has let go of its calls. Of a chain
	 * that was partly posted the device keeps all, until the drain: the call, what it has, and the room.
	 */
	void expect_rest()
	{
		settle();
		const PartlyPosted &chain = verbs.partly_posted;
		const ServerCall *const kept =
			chain.cqe ? OwnedCqe<ServerCall>::owner_of(chain.cqe) : nullptr;
		/* A sink from the pool, if it was the completion that pulled. */
		const u32 eager = chain.by_completion ?
					  div_round_up(kept->arrival.sink_length, kPage) * kPage +
						  kTransferBytes :
					  0;
		const ServerAudit a = audit(*server);

		EXPECT_EQ(a.at_rest(), !kept);
		EXPECT_EQ(a.listed, a.calls);
		EXPECT_EQ(a.posted + a.spare + (kept ? 1 : 0), a.calls);
		EXPECT_EQ(a.queued, 0);
		/* Reads have none: sunrpc does not know of the call yet. */
		EXPECT_EQ(a.owners, kept && chain.writes ? 1 : 0);
		EXPECT_EQ(a.transfers, kept ? 1 : 0);
		EXPECT_EQ(a.tracked, kept ? 1 : 0);
		EXPECT_EQ(a.in_service, kept ? 1 : 0);
		EXPECT_EQ(a.room_taken, chain.requests);
		EXPECT_EQ(a.waiters, 0);
		EXPECT_EQ(a.eager_bytes, eager);
		/* Those are its own. */
		if (kept) {
			EXPECT_EQ(kept->owners.load(), chain.writes ? 1 : 0);
			EXPECT_NE(kept->transfer, nullptr);
			EXPECT_TRUE(kept->tracked);
		}
		u32 number = 0;
		for (const ServerCall *call = server->all; call; call = call->all_next) {
			TEST_NOTE("call", number++);
			EXPECT_EQ(call->eager, call == kept ? eager : 0);
			EXPECT_EQ(call->answer, ServerCall::Answer::none);
			/* A reply's were told by the service, and nobody looks at them again. */
			if (!(call == kept && chain.writes))
				EXPECT_EQ(call->result_count, 0);
		}
		EXPECT_EQ(server->grant.load(), server->credits.granted());
		EXPECT_EQ(server->backward_outstanding, svc.backward_outstanding);
		EXPECT_LE(server->backward_outstanding, server->backward_backed);
		EXPECT_EQ(a.posted, verbs.posted + verbs.receives_refused);
		/* As far as there was memory to make them. */
		if (!server->closing.load())
			EXPECT_GE(a.posted, min(server->promised_locked(), a.calls));
		EXPECT_EQ(server_pool.eager_bytes.load(), eager);
		EXPECT_EQ(server_pool.eager_users.load(), eager ? 1 : 0);
		EXPECT_EQ(dma.bulk_maps, kept && !chain.regions ? 1 : 0);
		EXPECT_EQ(dma.region_maps, chain.regions);
		while (Region *region = server->regions.pop_front()) {
			rpcordma_region_destroy(region->device);
			rpcordma_free(region);
		}
		/* All others were on the list. */
		EXPECT_EQ(dma.regions, chain.regions);
	}
};

/** A connection with a client and a thread. */
struct Served : Accepted {
	void connect(bool remote_invalidation = false, bool established = true)
	{
		private_data::Properties client;

		client.send_size = client.receive_size = 4096;
		client.remote_invalidation = remote_invalidation;
		EXPECT_EQ(accept(16, &client), 0);
		rpcordma_core_server_refill();
		if (established)
			establish();
	}
	void establish()
	{
		rpcordma_core_server_event(server, RPCORDMA_EVENT_ESTABLISHED);
	}
	/** False: there is no Receive. */
	[[nodiscard]] bool send(const CallMaker &call)
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
	[[nodiscard]] u8 call_byte(u32 i) const
	{
		const rpcordma_svc_arg &arg = rqst->arg;
		u32 first_page = 0;

		if (i < arg.head_length)
			return arg.head ? static_cast<u8 *>(arg.head)[i] : rqst->pages[0]->data[i];
		i -= arg.head_length;
		if (!arg.head)
			first_page = 1;
		if (i < arg.page_length)
			return rqst->pages[first_page + i / kPage]->data[i % kPage];
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
		return rpcordma_core_server_sendto(server, rqst, rqst->call);
	}
	/** A reply whose bytes [@head, @head + @size) are in pages, and @tail follow. */
	int send_reply_pages(u32 head, u32 size, u32 tail)
	{
		rpcordma_xdr_buf &buf = rqst->reply;
		const u32 used = rqst->arg.pages_used;

		buf = {};
		buf.head = {reply_bytes, head};
		buf.tail = {reply_bytes + head + size, tail};
		buf.pages = rqst->pages + used;
		buf.page_length = size;
		buf.len = head + size + tail;
		rqst->reply_pages = div_round_up(size, u32(kPage));
		for (u32 i = 0; i < size; i++)
			buf.pages[i / kPage]->data[i % kPage] = pattern(head + i);
		return rpcordma_core_server_sendto(server, rqst, rqst->call);
	}
	void release()
	{
		rpcordma_core_server_release(server, rqst->call);
		rqst->call = nullptr;
	}
	/** What the client got last. */
	[[nodiscard]] Result<v1::Header> got() const
	{
		return v1::decode(peer.last());
	}
	void expect_error(u32 xid, v1::ErrorCode code)
	{
		const auto header = got();

		ASSERT_OK(header);
		EXPECT_EQ(header.value().proc, v1::Proc::error);
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
		EXPECT_EQ(header.value().proc, v1::Proc::msg);
		EXPECT_EQ(header.value().xid, Xid(xid));
		EXPECT_BYTES(header.value().payload(peer.last()), Bytes(reply_bytes, size));
	}
};

struct Connected : Served {
	/** @remote_invalidation: the client's R bit. */
	explicit Connected(bool remote_invalidation = false, bool established = true)
	{
		connect(remote_invalidation, established);
	}
};

/** Over a device whose Reads need a region for a sink. */
struct Iwarp : Served {
	explicit Iwarp(u32 region_pages = 130)
	{
		verbs.device.read_needs_region = true;
		verbs.device.max_fast_reg_pages = region_pages;
		/* The largest call takes them all. */
		svc.limits.max_message = 64 * 1024 + 1024;
		svc.limits.max_pages = thread_pages = Transfer::kPages;
		connect();
		server->replied.store(true);
	}
};

/** No sink is to be had from the pool, until it is refilled. */
struct NoSinks {
	Transfer *taken;

	NoSinks() : taken(server_pool.take_sink(Transfer::kPages, Transfer::kPages))
	{
		EXPECT_NE(taken, nullptr);
	}
	~NoSinks()
	{
		server_pool.give(taken);
	}
};

/** Has what room there is in the send queue, while it lives. */
struct NoRoom {
	Server *server;
	u32 taken;

	explicit NoRoom(Served &c) : server(c.server), taken(server->room.exchange(0))
	{
	}
	~NoRoom()
	{
		server->room.fetch_add(taken);
	}
};

/** Has all transfers of the pool, while it lives. */
class NoTransfers {
public:
	NoTransfers()
	{
		for (u32 left = the_port->dma.bulks; left && count_ < 8; left--)
			taken_[count_++] = server_pool.take(RPCORDMA_ALLOC_NOIO);
	}
	~NoTransfers()
	{
		while (count_)
			server_pool.give(taken_[--count_]);
	}

private:
	u32 count_ = 0;
	Transfer *taken_[8];
};

} // namespace rpcordma
