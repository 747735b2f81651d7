// SPDX-License-Identifier: GPL-2.0-only
/* A client of version 2 with round-trip reduction, connected to a peer which is the running case. */
#pragma once

#include "kunit/test_client_requester.hh"
#include "module/protocol/negotiation.hh"

namespace rpcordma {

static constexpr u32 kHead = 4096, kGrant = 20;
/* Bytes of a stream behind an XMTREQ and an XMTCONT of 4096. */
static constexpr u32 kFirst = 4048, kNext = 4056;
static constexpr u32 kPlainMs = 600000;

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
	u32 send_read_max = 0;
	bool backchannel = false;
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
		rpcordma_tunables.send_read_max = setting.send_read_max;
		const private_data::Properties marked = {kHead, kHead, true, true};
		verbs.answer_length = private_data::encode(verbs.answer, marked).value();
		if (setting.backchannel) {
			sunrpc.service = true;
			EXPECT_EQ(rpcordma_core_bc_setup(core, 1), 0);
		}
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
	/* The second transmission of a message, with @size bytes of its stream. */
	[[nodiscard]] bool go_on(u32 xid, xdr::Direction direction, u32 size)
	{
		u8 room[kHead] = {};
		const u32 header = rtrext::encode({room, sizeof(room)}, Xid(xid), Credits(kGrant),
						  direction, {1, 2, size})
					   .value();
		return deliver({room, header + size});
	}
	/*
	 * The last message is a REPTERR about a reply: its transmission @number, with @xid, is bad. @lead: a group was open; what
	 * breaks that off may be of the other @direction.
	 */
	void expect_report(u32 xid, u32 number, rtrext::Fault fault, bool lead,
			   xdr::Direction direction = xdr::Direction::reply)
	{
		const auto message = decoded2(peer.last());
		rtrext::Report report;

		EXPECT_EQ(message.kind, xdr::Kind::optional);
		EXPECT_EQ(message.option, xdr::Option::repterr);
		EXPECT_EQ(message.direction, xdr::Direction::call);
		EXPECT_EQ(message.xid, Xid(xid));
		ASSERT_EQ(rtrext::decode(message.body(), report), Error::none);
		EXPECT_EQ(report.bad.xid, Xid(xid));
		EXPECT_EQ(report.bad.direction, direction);
		EXPECT_EQ(report.bad.number, number);
		EXPECT_EQ(report.detail.fault, fault);
		EXPECT_EQ(report.has_lead, lead);
		if (lead)
			EXPECT_EQ(report.lead.direction, xdr::Direction::reply);
		EXPECT_EQ(log.take(trace::Failure::repterr_sent), 1);
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
	/* The same with its page data from @base on, and a tail: the pattern goes on through both. */
	[[nodiscard]] rpc_rqst *long_call_at(u32 xid, u32 base, u32 length, u32 tail)
	{
		rpc_rqst *call = long_call(xid, 60 + base + length);
		rpcordma_xdr_buf &send = call->send;

		send.page_base = base;
		send.page_length = length;
		for (u32 i = 0; i < length; i++)
			send.pages[(base + i) / kPage]->data[(base + i) % kPage] = pattern(i);
		send.tail = {test_alloc(tail).data(), tail};
		for (u32 i = 0; i < tail; i++)
			static_cast<u8 *>(send.tail.base)[i] = pattern(length + i);
		send.len = 60 + length + tail;
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
	/* What is posted goes out: it is the call @xid of @size in a Read chunk, byte for byte. */
	void expect_chunk(u32 xid, u32 size)
	{
		u32 at = 0, wrong = 0;

		work();
		const auto message = decoded2(peer.last());
		EXPECT_EQ(message.kind, xdr::Kind::nomsg);
		EXPECT_EQ(message.xid, Xid(xid));
		for (const auto &segment : message.reads) {
			EXPECT_EQ(segment.position.get(), 0);
			for (u32 i = 0; i < segment.target.length; i++, at++) {
				const u8 *byte = peer.reach(segment.target, i, false);

				ASSERT_NE(byte, nullptr);
				wrong += *byte != stream_byte(xid, at);
			}
		}
		EXPECT_EQ(at, size);
		EXPECT_EQ(wrong, 0);
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
	 * @went is whether it did. @size: of a call that goes inline then, every byte of it, in @sends of up to @bytes.
	 */
	void expect_more_with(u32 left, rpc_rqst *call, const unsigned long &count, bool &went,
			      u32 size = 0, u32 sends = 0, u32 bytes = kHead)
	{
		memory.allocations_left = left;
		EXPECT_EQ(rpcordma_core_send_request(core, call->call), 0);
		memory.allocations_left = kNoLimit;
		EXPECT_GE(count, went);
		went = count;
		EXPECT_EQ(left > 0 || !went, true);
		if (size && went)
			expect_group(9, size, sends, bytes);
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

} // namespace rpcordma
