// SPDX-License-Identifier: GPL-2.0-only
/*
 * A requester over the double of the port, whose peer is the running case:
 *
 *	Requester r;
 *	r.connect();
 *	rpc_rqst *call = r.call(0x77);          // sent
 *	ASSERT_TRUE(r.reply(0x77, 20));         // 20 bytes come back
 *	EXPECT_EQ(call->result, 20);
 *	r.done(call);
 *
 * A count that does not balance fails the case, which is looked at after each step: see balance().
 */
#pragma once

#include "kunit/test_server_connection.hh"
#include "module/client/audit.hh"

namespace rpcordma {

/** What a client connects to, and what for. */
struct ConnectionTo {
	/** What the server's private data say; null: it has none. */
	const private_data::Properties *server = nullptr;
	/** Somebody serves backward calls. */
	bool backchannel = false;
};

struct Requester : PortFixture {
	Client *core;
	u32 in_use = 0;			   /* slots that a task has */
	static constexpr u32 kSlots = 48;  /* more than a batch of Receives */
	static constexpr u32 kRoom = 4096; /* of a request's and a reply's head */

	Requester();
	~Requester();

	void connect(const ConnectionTo &to = {});
	/** A call of @size bytes with a reply of at most @reply_size, both in the heads. Null without a slot. */
	[[nodiscard]] rpc_rqst *prepare(u32 xid, u32 size = 40, u32 reply_size = 200);
	/** @rqst's page data, @size bytes; its call has them or its reply will. */
	void add_pages(rpc_rqst *rqst, u32 size, bool of_reply);
	/** What send_request() says; then the device works. */
	[[nodiscard]] int transmit(rpc_rqst *rqst);
	/** Both. */
	[[nodiscard]] rpc_rqst *call(u32 xid, u32 size = 40, u32 reply_size = 200);
	/** The task is through with it. */
	void done(rpc_rqst *rqst);

	/** The device does up to @n posted work requests, and their completions come. How many it did. */
	u32 work(u32 n = ~0u)
	{
		return verbs.work(n);
	}
	/** The peer sends these bytes; false: no Receive. */
	[[nodiscard]] bool deliver(Bytes message, u32 invalidate = 0);
	/** A reply of @size bytes, inline. */
	[[nodiscard]] bool reply(u32 xid, u32 size, u32 credits = 32, u32 invalidate = 0);
	/** Words as they are. */
	[[nodiscard]] bool words(Span<const u32> words);
	/** What was sent to the peer last; it must be decodable. */
	[[nodiscard]] DecodedHeader sent();
	/**
	 * The device has nothing left to do, whatever has become of the connection. What the client has
	 * taken, slots, regions, room in the send queue, markers, owners of backward calls, is with a call
	 * that is under way.
	 */
	void balance();
	/** What the transport counts is what it did of sunrpc and the device, and failed at. */
	void expect_counted();
	/** Each Receive is posted, or has a reply that waits: none was forgotten. Messages of no use come for that. */
	void expect_receives();
	/** And no call is under way. */
	void at_rest();

	/* --- what the module has: its fields are named here, and not in the cases --- */

	[[nodiscard]] bool is_connected() const
	{
		return core->connection && !core->connection->broken;
	}
	[[nodiscard]] Connection *connection() const
	{
		return core->connection;
	}
	[[nodiscard]] SendQueue &send_queue() const
	{
		return core->connection->send_queue;
	}
	[[nodiscard]] chunk::Thresholds thresholds() const
	{
		return core->connection->session.thresholds();
	}
	[[nodiscard]] const auto &stats() const
	{
		return core->stats;
	}
	[[nodiscard]] bool wants_space() const
	{
		return core->wants_space;
	}

private:
	/* As balance() found it last: a sender that waited, and what there was not enough of. */
	bool waited_ = false;
	u32 reserved_ = 0, pool_ = 0;
};

/** The peer writes pattern() from @from on to a chunk. */
inline void fill_chunk(const xdr::WriteChunk &chunk, u32 size, u32 from = 0)
{
	u32 at = 0;

	for (const xdr::Segment segment : chunk)
		for (u32 i = 0; i < segment.length && at < size; i++, at++) {
			u8 *byte = the_port->peer.reach(segment, i, true);
			ASSERT_NE(byte, nullptr);
			*byte = pattern(from + at);
		}
	EXPECT_EQ(at, size);
}

} // namespace rpcordma
