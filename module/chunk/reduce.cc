// SPDX-License-Identifier: GPL-2.0-only
/*
 * The decisions of reduction; reduce.hh tells them in words. The reply comes first, because its
 * chunks lengthen the header of the call.
 */
#include "module/chunk/reduce.hh"

namespace rpcordma::chunk {
namespace {

[[nodiscard]] Status layout_whole(const BufferShape &shape, const Limits &limits, SegmentList &out)
{
	return layout_segments(shape, {0, static_cast<u32>(shape.length())}, limits, out);
}

[[nodiscard]] Status layout_pages(const BufferShape &shape, const Limits &limits, SegmentList &out)
{
	if (in_one_region(shape, limits)) {
		layout_in_one(shape, out);
		return {};
	}
	return layout_segments(shape, {shape.head_length, shape.page_length}, limits, out);
}

/**
 * Offer the chunks that the largest reply needs. A reply repeats the Write list and the Reply
 * chunk, so what it can hold inline depends on how many segments are offered.
 */
[[nodiscard]] Status plan_reply(const CallShape &call, const Limits &limits,
				const Thresholds &thresholds, Plan &plan)
{
	const BufferShape &buffer = call.receive;
	const BufferShape rest = without_pages(buffer);
	const u32 threshold = thresholds.receive, bare = thresholds.bare_header;

	plan.write_chunk.clear();
	plan.reply_chunk.clear();

	if (bare + buffer.length() <= threshold) {
		plan.receive_mode = ReceiveMode::inline_only;
		return {};
	}
	if (reply_reducible(call)) {
		TRY_STATUS(layout_pages(buffer, limits, plan.write_chunk));
		const u32 segments = plan.write_chunk.size();

		if (header_length(bare, 0, segments, 0) + rest.length() <= threshold) {
			plan.receive_mode = ReceiveMode::write_chunk;
			return {};
		}
		if (limits.combine_chunks && rest.length()) {
			TRY_STATUS(layout_whole(rest, limits, plan.reply_chunk));
			if (header_length(bare, 0, segments, plan.reply_chunk.size()) > threshold)
				return Error::message_size;
			plan.receive_mode = ReceiveMode::write_and_reply;
			return {};
		}
		plan.write_chunk.clear();
	}
	if (thresholds.transmissions_for(threshold, bare, buffer.length())) {
		plan.receive_mode = ReceiveMode::inline_only;
		return {};
	}
	TRY_STATUS(layout_whole(buffer, limits, plan.reply_chunk));
	if (header_length(bare, 0, 0, plan.reply_chunk.size()) > threshold)
		return Error::message_size;
	plan.receive_mode = ReceiveMode::reply_chunk;
	return {};
}

/** Choose the mode of the call, lay out its Read list, and fix the header's length. */
[[nodiscard]] Status plan_call(const CallShape &call, const Limits &limits,
			       const Thresholds &thresholds, Plan &plan)
{
	const BufferShape &buffer = call.send;
	const u32 threshold = thresholds.send, bare = thresholds.bare_header;
	const u32 writes = plan.write_chunk.size(), replies = plan.reply_chunk.size();

	plan.read_chunk.clear();
	plan.position_zero.clear();
	plan.read_position = 0;
	plan.inline_length = 0;
	plan.transmissions = 1;

	plan.header_length = header_length(bare, 0, writes, replies);
	if (plan.header_length + buffer.length() <= threshold) {
		plan.send_mode = SendMode::inline_only;
		plan.inline_length = static_cast<u32>(buffer.length());
		return {};
	}
	if (reducible(call)) {
		const BufferShape rest = without_payload(buffer);

		TRY_STATUS(layout_pages(buffer, limits, plan.read_chunk));
		plan.read_position = buffer.head_length;
		plan.header_length = header_length(bare, plan.read_chunk.size(), writes, replies);
		if (plan.header_length + rest.length() <= threshold) {
			plan.send_mode = SendMode::read_chunk;
			plan.inline_length = static_cast<u32>(rest.length());
			return {};
		}
		if (limits.combine_chunks && layout_whole(rest, limits, plan.position_zero).ok()) {
			const u32 reads = plan.position_zero.size() + plan.read_chunk.size();

			plan.header_length = header_length(bare, reads, writes, replies);
			if (reads <= limits.max_segments && plan.header_length <= threshold) {
				plan.send_mode = SendMode::position_zero_read;
				return {};
			}
		}
		plan.read_chunk.clear();
		plan.position_zero.clear();
		plan.read_position = 0;
		plan.header_length = header_length(bare, 0, writes, replies);
	}
	if (const u32 transmissions =
		    thresholds.transmissions_for(threshold, plan.header_length, buffer.length())) {
		plan.send_mode = SendMode::inline_only;
		plan.inline_length = static_cast<u32>(buffer.length());
		plan.transmissions = transmissions;
		return {};
	}
	TRY_STATUS(layout_whole(buffer, limits, plan.position_zero));
	plan.header_length = header_length(bare, plan.position_zero.size(), writes, replies);
	if (plan.header_length > threshold)
		return Error::message_size;
	plan.send_mode = SendMode::position_zero;
	return {};
}

/** List the inline bytes as SGEs. Returns false when the device, or the list, has not enough. */
[[nodiscard]] bool gather(const BufferShape &buffer, Span<const ByteRange> parts,
			  const Limits &limits, Plan &plan)
{
	for (const ByteRange &part : parts) {
		u32 at = part.offset;
		const bool fits =
			for_each_piece(buffer, part, limits.page_size, [&](const Piece &piece) {
				/* One SGE is the header's. */
				if (plan.inline_ranges.size() + 1 >= limits.max_send_sge ||
				    !plan.inline_ranges.push({at, piece.length}))
					return false;
				at += piece.length;
				return true;
			});

		if (!fits)
			return false;
	}
	return true;
}

/** Choose between copying and gathering, and list the ranges. */
void plan_inline(const CallShape &call, const Limits &limits, Plan &plan)
{
	const BufferShape &buffer = call.send;
	const u32 tail_at = buffer.head_length + buffer.page_length;
	const u32 all = static_cast<u32>(buffer.length());
	ByteRange parts[2] = {};

	plan.inline_method = InlineMethod::none;
	plan.inline_ranges.clear();
	if (!plan.inline_length)
		return;

	if (plan.send_mode == SendMode::inline_only) {
		parts[0] = {0, all};
	} else {
		const u32 pad = pad_in_tail(buffer);

		parts[0] = {0, buffer.head_length};
		parts[1] = {tail_at + pad, buffer.tail_length - pad};
	}

	if (plan.inline_length > limits.copy_limit) {
		plan.inline_method = InlineMethod::gathered;
		if (gather(buffer, parts, limits, plan))
			return;
		plan.inline_ranges.clear();
	}

	/* Never fails: at most two ranges, and together they fit the threshold, so the buffer. */
	plan.inline_method = InlineMethod::copied;
	for (const ByteRange &part : parts)
		if (part.length)
			(void)plan.inline_ranges.push(part);
}

} // namespace

Status reduce(const CallShape &call, const Limits &limits, const Thresholds &thresholds, Plan &plan)
{
	const u32 header = thresholds.bare_header;
	const u64 length = call.send.length();

	/* Most calls and their replies are short, and nothing else has to be looked at. */
	if (goes_short(length, call.receive.length(), limits, thresholds)) {
		plan.set_short(header, static_cast<u32>(length));
		return {};
	}
	if (call.send.length() > kMaxMessage || call.receive.length() > kMaxMessage)
		return Error::message_size;
	if (plan_lone(call, limits, thresholds, plan))
		return {};
	/* Whoever connects has seen that they are: what follows would not end, or not fit, if they were not. */
	if (!limits.valid())
		return Error::invalid;
	TRY_STATUS(plan_reply(call, limits, thresholds, plan));
	TRY_STATUS(plan_call(call, limits, thresholds, plan));
	plan_inline(call, limits, plan);
	return {};
}

u32 max_payload(const Limits &limits)
{
	if (!limits.valid())
		return 0;

	/* Pages that @n bytes touch at worst: when the first byte is the last of its page. */
	const u64 page = limits.mr_page_size;
	const u64 kvec_pages = (kMaxKvecLength + 2 * page - 2) / page;
	const u64 per_mr = limits.mr_pages, segments = limits.max_segments;
	u64 pages = 0; /* that are left for the payload, at worst */

	if (limits.sg_gaps) {
		/* Segments fill up to the last page whatever the parts are. */
		if (segments * per_mr > 2 * kvec_pages)
			pages = segments * per_mr - 2 * kvec_pages;
	} else {
		/* No part shares a segment with another. */
		const u64 kvec_segments = 2 * div_round_up(kvec_pages, per_mr);

		if (segments > kvec_segments)
			pages = (segments - kvec_segments) * per_mr;
	}
	if (!pages)
		return 0;
	const u64 bytes = min<u64>((pages - 1) * page + 1, kMaxPayload);

	return static_cast<u32>(bytes & ~u64(limits.page_size - 1));
}

u32 payload_segments(const Limits &limits)
{
	const u64 payload = max_payload(limits), page = limits.mr_page_size;

	if (!payload)
		return 0;
	return static_cast<u32>(div_round_up<u64>((payload + 2 * page - 2) / page, limits.mr_pages));
}

} // namespace rpcordma::chunk
