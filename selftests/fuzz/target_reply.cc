// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/chunk/reduce.hh and reply.hh, on arbitrary calls and whatever comes back for them: an honest reply, as
 * module/chunk/answer.hh makes it of what was offered, is the same reply again; of any other no byte is read
 * outside the message or written outside the buffer, and none counts that was not offered.
 */
#include "fuzz.hh"
#include "module/chunk/answer.hh"
#include "module/chunk/reply.hh"

namespace rpcordma {
namespace {

using namespace chunk;

constexpr u32 kPage = 256;

BufferShape any_shape(Input &in)
{
	BufferShape shape;

	shape.head_address = 0x10000 + in.below(kPage);
	shape.head_length = in.below(2048);
	shape.page_base = in.below(kPage);
	shape.page_length = in.below(8192);
	shape.tail_address = in.byte() & 1 ? shape.head_address + shape.head_length :
					     0x20000 + in.below(kPage);
	shape.tail_length = in.below(512);
	return shape;
}

/* sunrpc's receive buffer, each part to the byte. */
struct Buffer {
	MutableBytes head, pages, tail;
	explicit Buffer(const BufferShape &shape)
		: head(test_alloc(shape.head_length)),
		  pages(test_alloc(shape.page_length)),
		  tail(test_alloc(shape.tail_length))
	{
	}
	/* Byte @at of all three. */
	u8 &at(u32 at)
	{
		if (at < head.size())
			return head[at];
		at -= u32(head.size());
		if (at < pages.size())
			return pages[at];
		EXPECT_LT(at - pages.size(), tail.size());
		return tail[at - pages.size()];
	}
};

void copy(u8 *to, const u8 *from, u32 length)
{
	if (length)
		__builtin_memmove(to, from, length);
}

/* As module/client does it. */
void land(const Landing &landing, Bytes inline_bytes, Buffer &b)
{
	EXPECT_LE(u64(landing.head_copy) + landing.page_copy + landing.tail_copy,
		  inline_bytes.size());
	EXPECT_LE(landing.head_copy, b.head.size());
	EXPECT_LE(landing.page_copy, b.pages.size());
	EXPECT_LE(u64(landing.tail_copy) + landing.tail_pad, b.tail.size());
	EXPECT_LE(u64(landing.tail_move) + landing.tail_pad, b.tail.size());
	EXPECT_LE(landing.head_length, b.head.size());
	EXPECT_LE(landing.page_length, b.pages.size());
	const u8 *from = inline_bytes.data();
	copy(b.head.data(), from, landing.head_copy);
	copy(b.pages.data(), from + landing.head_copy, landing.page_copy);
	if (landing.tail_move)
		copy(b.tail.data() + landing.tail_pad, b.tail.data(), landing.tail_move);
	copy(b.tail.data() + landing.tail_pad, from + landing.head_copy + landing.page_copy,
	     landing.tail_copy);
	for (u32 i = 0; i < landing.tail_pad; i++)
		b.tail[i] = 0;
}

u32 total(const SegmentList &list)
{
	u32 sum = 0;

	for (const ByteRange &range : list)
		sum += range.length;
	return sum;
}

u8 stream(u32 i)
{
	return u8(i * 7 + (i >> 8) * 13 + 1);
}

/* An honest peer: a reply of @length bytes, of which [@offset, + @size) is the result. */
void exchange(const CallShape &call, const Plan &plan, u32 offset, u32 size, u32 length,
	      u32 threshold)
{
	MutableBytes room = test_alloc(2048);
	v1::Encoder offer(room, Xid(1), Credits(1), xdr::Kind::msg);
	const auto offered = [&offer](const SegmentList &list) {
		for (const ByteRange &range : list)
			offer.segment({Rkey(1), range.length, range.offset});
	};
	if (!plan.write_chunk.empty()) {
		offer.write_chunk(plan.write_chunk.size());
		offered(plan.write_chunk);
	}
	if (!plan.reply_chunk.empty()) {
		offer.reply_chunk(plan.reply_chunk.size());
		offered(plan.reply_chunk);
	}
	ASSERT_OK(offer.finish());
	const xdr::Message message = decoded(room).value();
	const ReplyRange result = {offset, size};
	Thresholds thresholds;
	thresholds.send = threshold;
	Shortfall shortfall;
	Answer a;
	ASSERT_OK(plan_answer(message, Span<const ReplyRange>(&result, size ? 1 : 0), length,
			      thresholds, a, shortfall));

	Buffer buffer(call.receive);
	ReplyFacts facts;
	u32 written[kMaxSegments] = {}, replied[kMaxSegments] = {}, left = a.write_length;
	for (u32 i = 0; i < plan.write_chunk.size(); i++) {
		written[i] = min(left, plan.write_chunk[i].length);
		for (u32 n = 0; n < written[i]; n++)
			buffer.at(plan.write_chunk[i].offset + n) =
				stream(offset + a.write_length - left + n);
		left -= written[i];
	}
	/* What stays, in order. */
	MutableBytes rest = test_alloc(length);
	u32 rest_length = 0;
	for (u32 i = 0; i < a.rest_count; i++)
		for (u32 n = 0; n < a.rest[i].length; n++)
			rest[rest_length++] = stream(a.rest[i].offset + n);
	left = a.reply_length;
	const bool beside = plan.receive_mode == ReceiveMode::write_and_reply;
	for (u32 i = 0; i < plan.reply_chunk.size(); i++) {
		replied[i] = min(left, plan.reply_chunk[i].length);
		for (u32 n = 0; n < replied[i]; n++) {
			u32 at = plan.reply_chunk[i].offset + n;

			/* Without the pages between. */
			if (beside && at >= call.receive.head_length)
				at += call.receive.page_length;
			buffer.at(at) = rest[a.reply_length - left + n];
		}
		left -= replied[i];
	}
	facts.nomsg = a.kind == xdr::Kind::nomsg;
	facts.write_chunks = plan.write_chunk.empty() ? 0 : 1;
	facts.write_lengths = {written, plan.write_chunk.size()};
	facts.reply_chunk = !plan.reply_chunk.empty();
	facts.reply_lengths = {replied, plan.reply_chunk.size()};
	facts.inline_length = a.inline_length;
	const auto landing = land_reply(facts, call.receive, plan);
	ASSERT_OK(landing);
	const Landing &at = landing.value();
	const ExactCopy inline_bytes(Bytes(rest.first(a.inline_length)));
	land(at, inline_bytes.bytes(), buffer);
	EXPECT_EQ(at.written, a.write_length);
	EXPECT_EQ(at.replied, a.reply_length);
	if (at.truncated)
		return;
	/* The decoder's view: head, pages and tail as they are now. */
	EXPECT_GE(at.length, length);
	EXPECT_LE(at.length - length, 3);
	for (u32 i = 0; i < length; i++) {
		u32 where = i;
		u8 got;

		TEST_NOTE("byte", i);
		/* A pad of the result that has no byte anywhere. */
		if (a.write_length && i >= offset + size && i < offset + size + xdr_pad(size))
			continue;
		if (where < at.head_length) {
			got = buffer.head[where];
		} else if ((where -= at.head_length) < at.page_length) {
			got = buffer.pages[where];
		} else {
			where -= at.page_length;
			ASSERT_LT(where, buffer.tail.size());
			got = buffer.tail[where];
		}
		ASSERT_EQ(got, stream(i));
	}
}

} // namespace
} // namespace rpcordma

FUZZ_TARGET()
{
	Input in;
	CallShape call;
	Limits limits;
	const u8 flags = in.byte();

	call.send_ddp = flags & 1;
	call.receive_ddp = flags & 2;
	call.ddp_allowed = !(flags & 4);
	limits.combine_chunks = flags & 8;
	limits.page_size = limits.mr_page_size = kPage;
	limits.mr_pages = 1 + in.below(64);
	limits.sg_gaps = flags & 16;
	call.send = any_shape(in);
	call.receive = any_shape(in);
	const Thresholds thresholds = {1024 + in.below(4096), 1024 + in.below(4096)};
	Plan &plan = test_zeroed<Plan>();
	if (!reduce(call, limits, thresholds, plan).ok())
		return;
	EXPECT_LE(u64(plan.header_length) + plan.inline_length, thresholds.send);

	/*
	 * A reply that the buffer was made for: a head, the result in the pages, and more behind it only where
	 * the head is as long as it was taken to be. Without a Write chunk, the same holds for the pages.
	 */
	const bool placed = !plan.write_chunk.empty();
	u32 head = min(call.receive.head_length, in.below(2048)) & ~3u;
	const u32 size = min(call.receive.page_length, in.below(8192)), pad = xdr_pad(size);
	u32 more = in.below(call.receive.tail_length + 1) & ~3u;
	if (more > pad && !(call.receive.head_length & 3) && placed) {
		head = call.receive.head_length;
		more -= pad;
	} else {
		more = 0;
	}
	/* No reply has nothing but a payload. */
	if (head && size && (placed || head == call.receive.head_length))
		exchange(call, plan, head, placed ? size : 0,
			 head + size + (more ? pad + (more & ~3u) : 0), thresholds.receive);

	/* And any other. */
	ReplyFacts facts;
	u32 lengths[2][kMaxSegments + 4];
	const u8 lies = in.byte();
	facts.nomsg = lies & 1;
	facts.read_list = (lies & 0x30) == 0x30;
	facts.reply_chunk = lies & 2;
	facts.write_chunks = (lies >> 2) & 3;
	for (u32 i = 0; i < 2; i++) {
		const SegmentList &offered = i ? plan.reply_chunk : plan.write_chunk;
		const u32 count = in.byte() % 8 ? offered.size() : in.below(kMaxSegments + 4);

		for (u32 n = 0; n < count; n++) {
			const u32 wanted = in.half();
			lengths[i][n] = n >= offered.size() || wanted == 0xffff ? ~wanted :
					wanted & 0x8000 ? offered[n].length :
							  wanted;
		}
		(i ? facts.reply_lengths : facts.write_lengths) = {lengths[i], count};
	}
	const ExactCopy inline_bytes(in.rest());
	facts.inline_length = u32(inline_bytes.bytes().size());
	const auto landing = land_reply(facts, call.receive, plan);
	if (!landing.ok()) {
		EXPECT_ERROR(landing, Error::bad_message);
		return;
	}
	Buffer buffer(call.receive);
	for (MutableBytes part : {buffer.head, buffer.pages, buffer.tail})
		if (part.size())
			__builtin_memset(part.data(), 0, part.size());
	land(landing.value(), inline_bytes.bytes(), buffer);
	EXPECT_FALSE(facts.read_list);
	EXPECT_LE(landing.value().written, total(plan.write_chunk));
	EXPECT_LE(landing.value().replied, total(plan.reply_chunk));
	EXPECT_LE(landing.value().length, call.receive.length() + 3);
}
