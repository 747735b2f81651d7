// SPDX-License-Identifier: GPL-2.0-only
/*
 * For tests of module/chunk/select: a call and its reply of given lengths, planned by reduce() as the client has it, and which way
 * they go.
 */
#pragma once

#include "kunit/test_chunk_plan.hh"
#include "module/chunk/select.hh"

namespace rpcordma::chunk {

/** A call and the largest reply to it, in bytes. Items are within, and so are their pads. */
struct Lengths {
	u32 call = 0;
	u32 call_item = 0; /* that may be placed apart; 0: none */
	u32 reply = 0;
	u32 reply_item = 0;
	/* RPCSEC_GSS protects the payload: nothing may be placed apart. */
	bool sealed = false;
	/* The peer is known to take two kinds of chunk for one message. */
	bool marked = false;
};

/**
 * @length bytes, with an item of @item that has its pad behind it; and behind that what makes no word, and a word more, if
 * there is so much.
 */
inline BufferShape shape_with(u32 length, u32 item)
{
	const u32 pad = (4 - item % 4) % 4, rest = length - item - pad;
	const u32 behind = item != 0 && rest >= 8 ? 4 + rest % 4 : 0;

	return shape(rest - behind, item, pad + behind);
}

inline CallShape shape_of(const Lengths &lengths)
{
	CallShape call;

	call.send = shape_with(lengths.call, lengths.call_item);
	call.receive = shape_with(lengths.reply, lengths.reply_item);
	call.send_ddp = lengths.call_item != 0;
	call.receive_ddp = lengths.reply_item != 0;
	call.ddp_allowed = !lengths.sealed;
	return call;
}

/** As in version 2, by thresholds of @send and @receive bytes; each chunk is one region. False: it cannot be sent at all. */
inline bool plan_call(const Lengths &lengths, u32 send, u32 receive, CallShape &call, Plan &plan)
{
	Limits limits;
	Thresholds thresholds;

	limits.sg_gaps = true;
	limits.mr_pages = 1024;
	limits.combine_chunks = lengths.marked;
	thresholds.send = send;
	thresholds.receive = receive;
	thresholds.bare_header = 36;
	call = shape_of(lengths);
	return reduce(call, limits, thresholds, plan).ok();
}

/** How a call goes, and its reply may come. The cheapest first. */
enum class Out : u8 { one, sent, group, read_chunk, long_call };
enum class In : u8 { one, sent, group, write_chunk, reply_chunk };

/** As which of these a plan and what was selected of it comes out. */
inline Out way_of_call(const Plan &plan, const Selection &chosen)
{
	switch (chosen.way) {
	case Way::sent_item:
		return Out::sent;
	case Way::group:
		return chosen.call_transmissions == 1 ? Out::one : Out::group;
	case Way::asked_item:
		return Out::one;
	case Way::planned:
		break;
	}
	return plan.nomsg() ? Out::long_call : plan.read_chunk.empty() ? Out::one : Out::read_chunk;
}

inline In way_of_reply(const Plan &plan, const Selection &chosen)
{
	if (chosen.way == Way::asked_item)
		return In::sent;
	if (chosen.way != Way::planned)
		return chosen.reply_transmissions == 1 ? In::one : In::group;
	return !plan.reply_chunk.empty() ? In::reply_chunk :
	       !plan.write_chunk.empty() ? In::write_chunk :
					   In::one;
}

/** What is expected of a call, all of it. */
struct Ways {
	Out out = Out::long_call;
	In in = In::reply_chunk;
	u32 sends = 1, comes = 1; /* transmissions of the call, and that its reply may have */
	bool xmtreq = false;
	/* Of an XMTREQ: as Selection. */
	u32 header = 0, send_bytes = 0, least = 0;
};

inline bool same(const Plan &plan, const Selection &got, const Ways &want)
{
	return (got.way != Way::planned) == want.xmtreq && way_of_call(plan, got) == want.out &&
	       way_of_reply(plan, got) == want.in && got.call_transmissions == want.sends &&
	       got.reply_transmissions == want.comes && got.header_length == want.header &&
	       got.send_bytes == want.send_bytes && got.item_least == want.least;
}

/** Say where they differ. */
inline void expect_same(const Plan &plan, const Selection &got, const Ways &want)
{
	EXPECT_EQ(got.way != Way::planned, want.xmtreq);
	EXPECT_EQ(way_of_call(plan, got), want.out);
	EXPECT_EQ(way_of_reply(plan, got), want.in);
	EXPECT_EQ(got.call_transmissions, want.sends);
	EXPECT_EQ(got.reply_transmissions, want.comes);
	EXPECT_EQ(got.header_length, want.header);
	EXPECT_EQ(got.send_bytes, want.send_bytes);
	EXPECT_EQ(got.item_least, want.least);
}

} // namespace rpcordma::chunk
