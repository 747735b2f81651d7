// SPDX-License-Identifier: GPL-2.0-only
/*
 * What every plan of module/chunk/reduce keeps to, worked out from the lengths alone, and calls that make
 * each mode the one to choose.
 */
#pragma once

#include "kunit/testing.hh"
#include "module/chunk/reduce.hh"
#include "xdr/v1.hh"

namespace rpcordma::chunk {

constexpr u64 kHead = 0x100000, kTail = 0x200040;

inline BufferShape shape(u32 head, u32 pages, u32 tail)
{
	BufferShape s;

	s.head_address = kHead;
	s.head_length = head;
	s.page_length = pages;
	s.tail_address = kTail;
	s.tail_length = tail;
	return s;
}

/** Of version 1 (RFC 8166 4.1.2). */
static constexpr u32 kBareHeader = 28;

/** The length of a plan's header by the codec's own count. */
inline u64 wire_header(const Plan &plan)
{
	const u32 writes = plan.write_chunk.size(), replies = plan.reply_chunk.size();

	return xdr::encoded_length(kBareHeader, plan.read_chunk.size() + plan.position_zero.size(),
				   writes != 0, writes, replies != 0, replies);
}

/** Bytes of the longest reply message that may come inline when the chunks take what they can. */
inline u64 largest_inline_reply(const CallShape &call, const Plan &plan)
{
	const u32 writes = plan.write_chunk.size(), replies = plan.reply_chunk.size();
	u64 length = xdr::encoded_length(kBareHeader, 0, writes != 0, writes, replies != 0, replies);

	if (plan.receive_mode == ReceiveMode::inline_only)
		length += call.receive.length();
	if (plan.receive_mode == ReceiveMode::write_chunk)
		length += u64(call.receive.head_length) + call.receive.tail_length;
	return length;
}

/** Whether @list covers exactly [from, to), in order. */
template <typename List> bool covers(const List &list, u64 from, u64 to)
{
	for (const ByteRange &range : list) {
		if (range.offset != from || !range.length)
			return false;
		from += range.length;
	}
	return from == to;
}

/** Every promise of reduce() that holds for any plan. */
inline void expect_sound(const CallShape &call, const Limits &limits, const Thresholds &thresholds,
			 const Plan &plan)
{
	const BufferShape &send = call.send, &receive = call.receive;
	const u64 pages_at = send.head_length, tail_at = pages_at + send.page_length,
		  end = send.length();
	const u64 pad = min<u64>((4 - send.page_length % 4) % 4, send.tail_length);

	EXPECT_EQ(plan.header_length, wire_header(plan));
	EXPECT_LE(u64(plan.header_length) + plan.inline_length, thresholds.send);
	EXPECT_LE(largest_inline_reply(call, plan), thresholds.receive);
	EXPECT_LE(plan.read_chunk.size() + plan.position_zero.size(), limits.max_segments);
	EXPECT_LE(plan.write_chunk.size(), limits.max_segments);
	EXPECT_LE(plan.reply_chunk.size(), limits.max_segments);
	EXPECT_EQ(plan.rkeys(), plan.read_chunk.size() + plan.position_zero.size() +
					plan.write_chunk.size() + plan.reply_chunk.size());

	/* Direct placement only of what is eligible. */
	if (!call.ddp_allowed || !call.send_ddp)
		EXPECT_TRUE(plan.read_chunk.empty());
	if (!call.ddp_allowed || !call.receive_ddp)
		EXPECT_TRUE(plan.write_chunk.empty());

	/* The call: each byte by one way. */
	u64 sum = 0;
	for (const ByteRange &range : plan.inline_ranges)
		sum += range.length;
	EXPECT_EQ(sum, plan.inline_length);
	EXPECT_EQ(plan.nomsg(), !plan.position_zero.empty());
	switch (plan.send_mode) {
	case SendMode::inline_only:
		EXPECT_TRUE(covers(plan.inline_ranges, 0, end));
		EXPECT_TRUE(plan.read_chunk.empty());
		EXPECT_TRUE(plan.position_zero.empty());
		break;
	case SendMode::read_chunk: {
		/* The inline stream lacks the payload and its pad. */
		FixedList<ByteRange, 32> all;
		u64 at = 0;

		for (const ByteRange &range : plan.inline_ranges) {
			if (at == pages_at) {
				EXPECT_TRUE(all.push({static_cast<u32>(pages_at),
						      static_cast<u32>(send.page_length + pad)}));
				at = tail_at + pad;
			}
			EXPECT_TRUE(all.push(range));
			at = u64(range.offset) + range.length;
		}
		if (at == pages_at)
			EXPECT_TRUE(all.push({static_cast<u32>(pages_at),
					      static_cast<u32>(send.page_length + pad)}));
		EXPECT_TRUE(covers(all, 0, end));
		EXPECT_TRUE(covers(plan.read_chunk, pages_at, tail_at));
		EXPECT_TRUE(plan.position_zero.empty());
		break;
	}
	case SendMode::sent_item:
		EXPECT_TRUE(false); /* not of reduce() */
		break;
	case SendMode::position_zero:
		EXPECT_TRUE(covers(plan.position_zero, 0, end));
		EXPECT_TRUE(plan.read_chunk.empty());
		break;
	case SendMode::position_zero_read:
		EXPECT_TRUE(limits.combine_chunks);
		EXPECT_TRUE(covers(plan.position_zero, 0, pages_at + send.tail_length - pad));
		EXPECT_TRUE(covers(plan.read_chunk, pages_at, tail_at));
		break;
	}
	EXPECT_EQ(plan.position_zero_shape(call).length(),
		  plan.send_mode == SendMode::position_zero_read ? pages_at + send.tail_length - pad :
								   end);
	if (plan.read_chunk.empty()) {
		EXPECT_EQ(plan.read_position, 0);
	} else {
		EXPECT_EQ(plan.read_position, send.head_length);
		EXPECT_NE(plan.read_position, 0);
		EXPECT_EQ(plan.read_position % 4, 0);
	}

	/* The inline bytes. */
	EXPECT_EQ(plan.inline_method == InlineMethod::none, plan.inline_length == 0);
	EXPECT_LE(plan.send_sges(), limits.max_send_sge);
	if (plan.inline_method == InlineMethod::gathered) {
		EXPECT_GT(plan.inline_length, limits.copy_limit);
		EXPECT_EQ(plan.send_sges(), 1 + plan.inline_ranges.size());
		for (const ByteRange &range : plan.inline_ranges) {
			u32 pieces = 0;

			(void)for_each_piece(send, range, limits.page_size, [&](const Piece &) {
				pieces++;
				return true;
			});
			EXPECT_EQ(pieces, 1);
		}
	} else {
		EXPECT_EQ(plan.send_sges(), 1);
		EXPECT_LE(plan.inline_ranges.size(), 2);
	}

	/* The reply: what has to have room has it, once. */
	const u64 in_at = receive.head_length, in_end = in_at + receive.page_length;
	switch (plan.receive_mode) {
	case ReceiveMode::inline_only:
		EXPECT_TRUE(plan.write_chunk.empty());
		EXPECT_TRUE(plan.reply_chunk.empty());
		break;
	case ReceiveMode::write_chunk:
		EXPECT_TRUE(covers(plan.write_chunk, in_at, in_end));
		EXPECT_TRUE(plan.reply_chunk.empty());
		break;
	case ReceiveMode::reply_chunk:
		EXPECT_TRUE(plan.write_chunk.empty());
		EXPECT_TRUE(covers(plan.reply_chunk, 0, receive.length()));
		break;
	case ReceiveMode::write_and_reply:
		EXPECT_TRUE(limits.combine_chunks);
		EXPECT_TRUE(covers(plan.write_chunk, in_at, in_end));
		EXPECT_TRUE(covers(plan.reply_chunk, 0, in_at + receive.tail_length));
		break;
	case ReceiveMode::sent_item:
		EXPECT_TRUE(false); /* not of reduce() */
		break;
	}
	EXPECT_EQ(plan.reply_chunk_shape(call).length(),
		  plan.receive_mode == ReceiveMode::write_and_reply ? in_at + receive.tail_length :
								      receive.length());
}

/** Segments that a range takes; the cutting itself is tested elsewhere. */
inline u32 segments(const BufferShape &s, u64 from, u64 length, const Limits &limits)
{
	SegmentList list;

	EXPECT_OK(layout_segments(s, {static_cast<u32>(from), static_cast<u32>(length)}, limits,
				  list));
	return list.size();
}

/** The mode that the table in reduce.hh asks for, worked out from the lengths alone. */
inline ReceiveMode wanted_receive(const CallShape &call, const Limits &limits,
				  const Thresholds &thresholds)
{
	const BufferShape &r = call.receive;

	if (28 + r.length() <= thresholds.receive)
		return ReceiveMode::inline_only;
	if (call.ddp_allowed && call.receive_ddp && r.page_length) {
		const u32 n = segments(r, r.head_length, r.page_length, limits);

		if (28u + 8 + 16 * n + r.head_length + r.tail_length <= thresholds.receive)
			return ReceiveMode::write_chunk;
		if (limits.combine_chunks)
			return ReceiveMode::write_and_reply;
	}
	return ReceiveMode::reply_chunk;
}

inline SendMode wanted_send(const CallShape &call, const Limits &limits,
			    const Thresholds &thresholds, const Plan &plan)
{
	const BufferShape &s = call.send;
	u64 lists = 0;

	if (!plan.write_chunk.empty())
		lists += 8 + 16 * plan.write_chunk.size();
	if (!plan.reply_chunk.empty())
		lists += 4 + 16 * plan.reply_chunk.size();
	if (28 + lists + s.length() <= thresholds.send)
		return SendMode::inline_only;
	if (call.ddp_allowed && call.send_ddp && s.page_length && s.head_length &&
	    s.head_length % 4 == 0) {
		const u32 n = segments(s, s.head_length, s.page_length, limits);
		const u32 pad = min((4 - s.page_length % 4) % 4, s.tail_length);

		if (28 + lists + 24 * n + s.head_length + s.tail_length - pad <= thresholds.send)
			return SendMode::read_chunk;
		if (limits.combine_chunks)
			return SendMode::position_zero_read;
	}
	return SendMode::position_zero;
}

/* The lengths that make each mode the one to choose, at thresholds of 4096. */
struct SendCase {
	SendMode mode;
	u32 head, pages = 0, tail = 0;
	bool ddp;
};
constexpr SendCase sends[] = {
	{.mode = SendMode::inline_only, .head = 200, .ddp = false},
	{.mode = SendMode::read_chunk, .head = 200, .pages = 65537, .tail = 3 + 16, .ddp = true},
	{.mode = SendMode::position_zero, .head = 200, .pages = 65537, .tail = 3 + 16, .ddp = false},
	{.mode = SendMode::position_zero_read,
	 .head = 8000,
	 .pages = 65537,
	 .tail = 3 + 16,
	 .ddp = true},
};
struct ReceiveCase {
	ReceiveMode mode;
	u32 head, pages = 0, tail = 0;
	bool ddp;
};
constexpr ReceiveCase receives[] = {
	{.mode = ReceiveMode::inline_only, .head = 300, .ddp = false},
	{.mode = ReceiveMode::write_chunk, .head = 128, .pages = 65536, .tail = 16, .ddp = true},
	{.mode = ReceiveMode::reply_chunk, .head = 128, .pages = 65536, .tail = 16, .ddp = false},
	{.mode = ReceiveMode::write_and_reply, .head = 4500, .pages = 65536, .tail = 16, .ddp = true},
};

inline CallShape call_of(const SendCase &s, const ReceiveCase &r)
{
	CallShape call;

	call.send = shape(s.head, s.pages, s.tail);
	call.send_ddp = s.ddp;
	call.receive = shape(r.head, r.pages, r.tail);
	call.receive_ddp = r.ddp;
	return call;
}

} // namespace rpcordma::chunk
