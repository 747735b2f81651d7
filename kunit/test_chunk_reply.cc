// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/chunk/reply: honest replies of every form are placed, byte by byte, into a modelled
 * receive buffer, and read back as sunrpc's decoder does; dishonest ones (each number in a reply's
 * header wrong in each way that matters) are refused or, at worst, move bytes within what was
 * received and offered.
 */
#include "kunit/test_chunk_choices.hh"
#include "kunit/testing.hh"
#include "module/chunk/reply.hh"

using namespace rpcordma;
using namespace rpcordma::chunk;

namespace {

constexpr u32 kHead = 24, kPages = 33, kTail = 20;

/** A plan whose chunks have a segment for each length given, over the parts that they cover. */
void set_segments(SegmentList &list, u32 at, Span<const u32> lengths)
{
	list.clear();
	for (const u32 length : lengths) {
		EXPECT_TRUE(list.push({at, length}));
		at += length;
	}
}

void set_plan(Plan &plan, ReceiveMode mode, Span<const u32> write, Span<const u32> reply)
{
	plan.receive_mode = mode;
	set_segments(plan.write_chunk, kHead, write);
	set_segments(plan.reply_chunk, 0, reply);
}

BufferShape offered()
{
	BufferShape shape;

	shape.head_length = kHead;
	shape.page_length = kPages;
	shape.tail_length = kTail;
	return shape;
}

/** The memory behind a receive buffer: each part by itself, so that no overrun goes unseen. */
struct Buffer {
	MutableBytes head, pages, tail;

	Buffer() : head(test_alloc(kHead)), pages(test_alloc(kPages)), tail(test_alloc(kTail))
	{
		clear();
	}
	void clear()
	{
		__builtin_memset(head.data(), 0xee, head.size());
		__builtin_memset(pages.data(), 0xee, pages.size());
		__builtin_memset(tail.data(), 0xee, tail.size());
	}
	/** What an RDMA Write through a chunk over head | pages | tail does, or over two of them.
	 */
	void write(Bytes bytes, bool head_too, bool pages_too)
	{
		usize at = 0;

		if (head_too)
			at += fill(head, bytes.from(at));
		if (pages_too)
			at += fill(pages, bytes.from(at));
		if (head_too)
			at += fill(tail, bytes.from(at));
		ASSERT_EQ(at, bytes.size());
	}
	static usize fill(MutableBytes part, Bytes bytes)
	{
		const usize n = min(part.size(), bytes.size());

		for (usize i = 0; i < n; i++)
			part[i] = bytes[i];
		return n;
	}

	/** Do what @landing says, as the client does. */
	void land(const Landing &landing, Bytes inline_bytes)
	{
		u32 at = 0;

		ASSERT_LE(u64(landing.head_copy) + landing.page_copy + landing.tail_copy,
			  inline_bytes.size());
		copy(head, 0, inline_bytes, at, landing.head_copy);
		at += landing.head_copy;
		copy(pages, 0, inline_bytes, at, landing.page_copy);
		at += landing.page_copy;
		if (landing.tail_move)
			__builtin_memmove(tail.data() + landing.tail_pad, tail.data(),
					  landing.tail_move);
		copy(tail, landing.tail_pad, inline_bytes, at, landing.tail_copy);
		for (u32 i = 0; i < landing.tail_pad; i++)
			tail[i] = 0;
	}
	static void copy(MutableBytes to, u32 to_at, Bytes from, u32 from_at, u32 length)
	{
		for (u32 i = 0; i < length; i++)
			to[to_at + i] = from[from_at + i];
	}

	/** Byte @i of the buffer as sunrpc reads it: head, page data, tail by the lengths set. */
	[[nodiscard]] u8 byte(const Landing &landing, u32 i) const
	{
		if (i < landing.head_length)
			return head[i];
		i -= landing.head_length;
		if (i < landing.page_length)
			return pages[i];
		return tail[i - landing.page_length];
	}
};

/** A reply message whose every byte tells its place. */
struct Stream {
	u8 bytes[kHead + kPages + kTail + 16];

	Stream()
	{
		for (u32 i = 0; i < sizeof(bytes); i++)
			bytes[i] = static_cast<u8>(i + 1);
	}
	[[nodiscard]] Bytes from(u32 at, u32 length) const
	{
		return {bytes + at, length};
	}
};

/** What holds for any accepted reply, whatever the peer said. */
void expect_within(const Landing &landing, const BufferShape &receive, u32 inline_length)
{
	EXPECT_LE(landing.head_copy, receive.head_length);
	EXPECT_LE(landing.page_copy, receive.page_length);
	EXPECT_LE(u64(landing.tail_pad) + landing.tail_copy, receive.tail_length);
	EXPECT_LE(u64(landing.tail_pad) + landing.tail_move, receive.tail_length);
	EXPECT_LE(u64(landing.head_copy) + landing.page_copy + landing.tail_copy, inline_length);
	EXPECT_LE(landing.head_length, receive.head_length);
	EXPECT_LE(landing.page_length, receive.page_length);
	EXPECT_LE(landing.written, receive.page_length);
	EXPECT_LE(landing.replied, receive.length());
	EXPECT_LE(landing.length, receive.length() + 3);
	EXPECT_GT(landing.length, 0);
	EXPECT_LT(landing.tail_pad, 4);
	EXPECT_EQ(landing.buflen_reduction,
		  receive.length() -
			  (u64(landing.head_length) + landing.page_length + receive.tail_length));
	/* At most one kind of work on the tail. */
	EXPECT_TRUE(!landing.tail_move || !landing.tail_copy);
	/* And none that moves it by nothing. */
	EXPECT_TRUE(!landing.tail_move || landing.tail_pad);
}

} // namespace

RPCORDMA_TEST(chunk_reply, all_inline)
{
	Plan &plan = test_zeroed<Plan>();
	const BufferShape receive = offered();
	const Stream stream;
	Buffer buffer;
	static constexpr u32 one[] = {kPages};

	/* Offered chunks that the responder did not need change nothing, sent back or left out. */
	for (u32 variant = 0; variant < 3; variant++)
		for (u32 length = 1; length <= receive.length() + 8; length++) {
			static constexpr u32 nothing[] = {0};
			ReplyFacts facts;

			TEST_NOTE("variant", variant);
			TEST_NOTE("length", length);
			set_plan(plan, variant ? ReceiveMode::write_chunk : ReceiveMode::inline_only,
				 variant ? Span<const u32>(one) : Span<const u32>(), {});
			if (variant == 2) {
				facts.write_chunks = 1;
				facts.write_lengths = nothing;
			}
			facts.inline_length = length;
			const Result<Landing> result = land_reply(facts, receive, plan);
			ASSERT_OK(result);
			const Landing &landing = result.value();
			const u32 kept = min<u32>(length, static_cast<u32>(receive.length()));

			expect_within(landing, receive, length);
			EXPECT_EQ(landing.length, kept);
			EXPECT_EQ(landing.truncated, kept < length);
			EXPECT_EQ(landing.head_length, kHead);
			EXPECT_EQ(landing.page_length, kPages);
			EXPECT_EQ(landing.buflen_reduction, 0);
			EXPECT_EQ(landing.written, 0);
			buffer.clear();
			const ExactCopy received(stream.from(0, length));
			buffer.land(landing, received.bytes());
			for (u32 i = 0; i < landing.length; i++)
				EXPECT_EQ(buffer.byte(landing, i), stream.bytes[i]);
		}
}

/* The payload by Write chunk: head bytes, payload, bytes behind it, for every length of each. */
RPCORDMA_TEST(chunk_reply, write_chunk)
{
	Plan &plan = test_zeroed<Plan>();
	const BufferShape receive = offered();
	const Stream stream;
	Buffer buffer;
	static constexpr u32 segments[] = {kPages - 10, 10};

	set_plan(plan, ReceiveMode::write_chunk, segments, {});
	for (u32 head = 1; head <= kHead; head++)
		for (u32 payload = 1; payload <= kPages; payload++)
			/* Bytes behind the payload are only told apart from a head of the size
			 * foreseen. */
			for (u32 rest = 0; rest <= (head == kHead ? kTail + 4 : 0); rest++) {
				const u32 lengths[] = {min(payload, segments[0]),
						       payload - min(payload, segments[0])};
				const u32 pad = (4 - payload % 4) % 4;
				ReplyFacts facts;

				TEST_NOTE("head", head);
				TEST_NOTE("payload", payload);
				TEST_NOTE("rest", rest);
				facts.write_chunks = 1;
				facts.write_lengths = lengths;
				facts.inline_length = head + rest;
				const Result<Landing> result = land_reply(facts, receive, plan);
				ASSERT_OK(result);
				const Landing &landing = result.value();
				const u32 kept = min(rest, kTail - pad);

				expect_within(landing, receive, head + rest);
				EXPECT_EQ(landing.written, payload);
				EXPECT_EQ(landing.head_length, head);
				EXPECT_EQ(landing.page_length, rest ? payload : kPages);
				EXPECT_EQ(landing.tail_pad, rest ? pad : 0);
				EXPECT_EQ(landing.length, head + payload + pad + kept);
				EXPECT_EQ(landing.truncated, kept < rest);

				/* Wire order: head, rest inline; the stream has the payload between
				 * them. */
				u8 wire[kHead + kTail + 4];
				for (u32 i = 0; i < head; i++)
					wire[i] = stream.bytes[i];
				for (u32 i = 0; i < rest; i++)
					wire[head + i] = stream.bytes[head + payload + pad + i];
				buffer.clear();
				buffer.write(stream.from(head, payload), false, true);
				const ExactCopy received(Bytes(wire, head + rest));
				buffer.land(landing, received.bytes());
				for (u32 i = 0; i < head + payload; i++)
					ASSERT_EQ(buffer.byte(landing, i), stream.bytes[i]);
				for (u32 i = head + payload + pad; i < landing.length; i++)
					ASSERT_EQ(buffer.byte(landing, i), stream.bytes[i]);
				if (rest)
					for (u32 i = 0; i < pad; i++)
						ASSERT_EQ(buffer.byte(landing, head + payload + i),
							  0);
			}
}

RPCORDMA_TEST(chunk_reply, reply_chunk)
{
	Plan &plan = test_zeroed<Plan>();
	const BufferShape receive = offered();
	const Stream stream;
	Buffer buffer;
	static constexpr u32 segments[] = {kHead, kPages, kTail};

	set_plan(plan, ReceiveMode::reply_chunk, {}, segments);
	for (u32 length = 1; length <= receive.length(); length++) {
		u32 lengths[3], left = length;

		for (u32 i = 0; i < 3; i++) {
			lengths[i] = min(left, segments[i]);
			left -= lengths[i];
		}
		for (const u32 behind : {0u, 1u, 5000u}) {
			ReplyFacts facts;

			TEST_NOTE("length", length);
			TEST_NOTE("bytes behind the header", behind);
			facts.nomsg = true;
			facts.reply_chunk = true;
			facts.reply_lengths = lengths;
			facts.inline_length = behind;
			const Result<Landing> result = land_reply(facts, receive, plan);
			ASSERT_OK(result);
			const Landing &landing = result.value();

			expect_within(landing, receive, 0);
			EXPECT_EQ(landing.length, length);
			EXPECT_EQ(landing.replied, length);
			EXPECT_EQ(landing.buflen_reduction, 0);
			buffer.clear();
			buffer.write(stream.from(0, length), true, true);
			buffer.land(landing, {});
			for (u32 i = 0; i < length; i++)
				ASSERT_EQ(buffer.byte(landing, i), stream.bytes[i]);
		}
	}
}

/* The reply may come inline although a Reply chunk was offered (4.3.3), which is then unused or
 * left out. */
RPCORDMA_TEST(chunk_reply, reply_chunk_unused)
{
	Plan &plan = test_zeroed<Plan>();
	const BufferShape receive = offered();
	static constexpr u32 segments[] = {kHead, kPages, kTail}, unused[] = {0, 0, 0};

	set_plan(plan, ReceiveMode::reply_chunk, {}, segments);
	for (const bool present : {false, true}) {
		ReplyFacts facts;

		facts.reply_chunk = present;
		if (present)
			facts.reply_lengths = unused;
		facts.inline_length = 40;
		const Result<Landing> result = land_reply(facts, receive, plan);
		ASSERT_OK(result);
		expect_within(result.value(), receive, 40);
		EXPECT_EQ(result.value().length, 40);
		EXPECT_EQ(result.value().head_copy, kHead);
		EXPECT_EQ(result.value().page_copy, 40 - kHead);
	}
}

/* Payload by Write chunk, the rest by Reply chunk over head and tail. */
RPCORDMA_TEST(chunk_reply, write_and_reply)
{
	Plan &plan = test_zeroed<Plan>();
	const BufferShape receive = offered();
	const Stream stream;
	Buffer buffer;
	static constexpr u32 write[] = {kPages}, reply[] = {kHead, kTail};

	set_plan(plan, ReceiveMode::write_and_reply, write, reply);
	for (u32 head = 1; head <= kHead; head++)
		for (u32 payload = 0; payload <= kPages; payload++)
			for (u32 rest = 0; rest <= (head == kHead ? kTail : 0); rest++) {
				const u32 pad = (4 - payload % 4) % 4;
				const u32 written[] = {payload}, replied[] = {head, rest};
				ReplyFacts facts;
				u8 wire[kHead + kTail];

				TEST_NOTE("head", head);
				TEST_NOTE("payload", payload);
				TEST_NOTE("rest", rest);
				facts.nomsg = true;
				facts.write_chunks = 1;
				facts.write_lengths = written;
				facts.reply_chunk = true;
				facts.reply_lengths = replied;
				const Result<Landing> result = land_reply(facts, receive, plan);
				ASSERT_OK(result);
				const Landing &landing = result.value();

				expect_within(landing, receive, 0);
				for (u32 i = 0; i < head; i++)
					wire[i] = stream.bytes[i];
				for (u32 i = 0; i < rest; i++)
					wire[head + i] = stream.bytes[head + payload + pad + i];
				buffer.clear();
				buffer.write(stream.from(head, payload), false, true);
				buffer.write({wire, head + rest}, true, false);
				buffer.land(landing, {});
				const u32 kept = payload && rest ? min(rest, kTail - pad) : rest;
				ASSERT_EQ(landing.length, head + payload + pad + kept);
				EXPECT_EQ(landing.truncated, kept < rest);
				for (u32 i = 0; i < head + payload; i++)
					ASSERT_EQ(buffer.byte(landing, i), stream.bytes[i]);
				for (u32 i = head + payload + pad; i < landing.length; i++)
					ASSERT_EQ(buffer.byte(landing, i), stream.bytes[i]);
			}

	/* The same call answered inline, as the Write chunk's reply. */
	static constexpr u32 written[] = {5}, unused[] = {0, 0};
	ReplyFacts facts;
	facts.write_chunks = 1;
	facts.write_lengths = written;
	facts.reply_chunk = true;
	facts.reply_lengths = unused;
	facts.inline_length = 20;
	const Result<Landing> result = land_reply(facts, receive, plan);
	ASSERT_OK(result);
	EXPECT_EQ(result.value().length, 20 + 5 + 3);
	EXPECT_EQ(result.value().head_length, 20);
	EXPECT_EQ(result.value().buflen_reduction, 4);
}

/* A tail too short for the pad, or none: nothing is written behind it. */
RPCORDMA_TEST(chunk_reply, short_tail)
{
	Plan &plan = test_zeroed<Plan>();
	static constexpr u32 write[] = {kPages};

	set_plan(plan, ReceiveMode::write_chunk, write, {});
	for (u32 tail = 0; tail < 6; tail++)
		for (u32 payload = 1; payload <= 8; payload++)
			for (u32 rest = 0; rest < 8; rest++) {
				const u32 lengths[] = {payload};
				BufferShape receive = offered();
				ReplyFacts facts;

				TEST_NOTE("tail", tail);
				TEST_NOTE("payload", payload);
				TEST_NOTE("rest", rest);
				receive.tail_length = tail;
				facts.write_chunks = 1;
				facts.write_lengths = lengths;
				facts.inline_length = kHead + rest;
				const Result<Landing> result = land_reply(facts, receive, plan);
				ASSERT_OK(result);
				const Landing &landing = result.value();
				const u32 pad = (4 - payload % 4) % 4;
				const u32 room = tail > pad ? tail - pad : 0;

				expect_within(landing, receive, kHead + rest);
				EXPECT_EQ(landing.tail_copy, min(rest, room));
				EXPECT_EQ(landing.truncated, rest > room);
				EXPECT_EQ(landing.length, kHead + payload + pad + min(rest, room));
			}
}

/* Each number of a returned chunk wrong in each way: refused, unless it is a possible answer. */
RPCORDMA_TEST(chunk_reply, hostile_lengths)
{
	static constexpr u32 segments[] = {8, 1, 24}; /* over the page data, or the first bytes */
	static constexpr u32 values[] = {0,	     1,		 7,	     8,		9,
					 23,	     24,	 25,	     33,	0x7fffffff,
					 0x80000000, 0xfffffff8, 0xfffffffe, 0xffffffff};
	Plan &plan = test_zeroed<Plan>();
	const BufferShape receive = offered();
	u32 accepted = 0, refused = 0;

	for (u32 n = 0;; n++) {
		Choices pick(n);
		const bool by_reply_chunk = pick.flag();
		const u32 count = pick.below(5);
		const u32 a = pick.of(values), b = pick.of(values), c = pick.of(values);

		if (pick.done())
			break;
		/* Values that are not sent make no difference. */
		if ((count < 3 && c) || (count < 2 && b) || (count < 1 && a))
			continue;
		const u32 all[] = {a, b, c, 0};
		const ExactCopy lengths(Bytes(reinterpret_cast<const u8 *>(all), 4 * count));
		const Span<const u32> returned(reinterpret_cast<const u32 *>(lengths.bytes().data()),
					       count);
		ReplyFacts facts;
		bool right = count <= 3 && a <= 8 && b <= 1 && c <= 24 && (!b || a == 8) &&
			     (!c || (a == 8 && b == 1));

		TEST_NOTE("reply chunk", by_reply_chunk);
		TEST_NOTE("count", count);
		TEST_NOTE("first", a);
		TEST_NOTE("second", b);
		TEST_NOTE("third", c);
		if (by_reply_chunk) {
			set_plan(plan, ReceiveMode::reply_chunk, {}, segments);
			facts.nomsg = true;
			facts.reply_chunk = true;
			facts.reply_lengths = returned;
			right = right && a; /* it has to hold something */
		} else {
			set_plan(plan, ReceiveMode::write_chunk, segments, {});
			facts.write_chunks = 1;
			facts.write_lengths = returned;
			facts.inline_length = 20;
		}
		const Result<Landing> result = land_reply(facts, receive, plan);
		if (!right) {
			ASSERT_ERROR(result, Error::bad_message);
			refused++;
			continue;
		}
		ASSERT_OK(result);
		accepted++;
		expect_within(result.value(), receive, facts.inline_length);
		EXPECT_EQ(by_reply_chunk ? result.value().replied : result.value().written,
			  a + b + c);
		EXPECT_EQ(result.value().segments_missing, count < 3);
	}
	EXPECT_GT(accepted, 10);
	EXPECT_GT(refused, 5000);
}

/* What was not offered cannot come back; what contradicts itself is refused. */
RPCORDMA_TEST(chunk_reply, hostile_lists)
{
	static constexpr u32 write[] = {kPages}, reply[] = {kHead, kPages, kTail},
			     rest[] = {kHead, kTail};
	static constexpr u32 some1[] = {4}, some2[] = {4, 0}, some3[] = {4, 0, 0}, none1[] = {0},
			     none2[] = {0, 0}, none3[] = {0, 0, 0};
	static constexpr ReceiveMode modes[] = {ReceiveMode::inline_only, ReceiveMode::write_chunk,
						ReceiveMode::reply_chunk,
						ReceiveMode::write_and_reply};
	const Span<const u32> nothing, lists[] = {{}, some1, some2, some3, none1, none2, none3};
	Plan &plan = test_zeroed<Plan>();
	const BufferShape receive = offered();
	u32 accepted = 0, refused = 0;

	for (u32 n = 0;; n++) {
		static constexpr u32 inlines[] = {0, 1, 24, 1000, 0xffffffff};
		Choices pick(n);
		ReplyFacts facts;
		const ReceiveMode mode = pick.of(modes);

		facts.write_chunks = pick.below(4);
		facts.write_lengths = pick.of(lists);
		facts.reply_chunk = pick.flag();
		facts.reply_lengths = pick.of(lists);
		facts.nomsg = pick.flag();
		facts.read_list = pick.flag();
		facts.inline_length = pick.of(inlines);
		if (pick.done())
			break;
		const bool writes = mode == ReceiveMode::write_chunk ||
				    mode == ReceiveMode::write_and_reply;
		const Span<const u32> replies = mode == ReceiveMode::reply_chunk     ? reply :
						mode == ReceiveMode::write_and_reply ? rest :
										       nothing;
		set_plan(plan, mode, writes ? Span<const u32>(write) : nothing, replies);

		const bool write_right = !facts.write_chunks || (facts.write_chunks == 1 && writes &&
								 facts.write_lengths.size() <= 1);
		const bool reply_right =
			!facts.reply_chunk ||
			(!replies.empty() && facts.reply_lengths.size() <= replies.size());
		const bool used = facts.reply_chunk && reply_right &&
				  !facts.reply_lengths.empty() && facts.reply_lengths[0];
		const bool right = write_right && reply_right && !facts.read_list &&
				   (facts.nomsg ? used : !used && facts.inline_length);
		const Result<Landing> result = land_reply(facts, receive, plan);

		TEST_NOTE("turn", n);
		TEST_NOTE("mode", mode);
		TEST_NOTE("write chunks", facts.write_chunks);
		TEST_NOTE("write segments", facts.write_lengths.size());
		TEST_NOTE("reply chunk", facts.reply_chunk);
		TEST_NOTE("reply segments", facts.reply_lengths.size());
		TEST_NOTE("nomsg", facts.nomsg);
		TEST_NOTE("read list", facts.read_list);
		TEST_NOTE("inline", facts.inline_length);
		if (!right) {
			ASSERT_ERROR(result, Error::bad_message);
			refused++;
			continue;
		}
		ASSERT_OK(result);
		accepted++;
		expect_within(result.value(), receive, facts.inline_length);
	}
	EXPECT_GT(accepted, 100);
	EXPECT_GT(refused, 10000);
}

/* The largest offers: no sum wraps. */
RPCORDMA_TEST(chunk_reply, largest)
{
	Plan &plan = test_zeroed<Plan>();
	static constexpr u32 write[] = {kMaxMessage - 101, 100}, lengths[] = {kMaxMessage - 101, 98};
	BufferShape receive;
	ReplyFacts facts;

	receive.head_length = 0;
	receive.page_length = kMaxMessage - 1;
	receive.tail_length = 1;
	set_plan(plan, ReceiveMode::write_chunk, write, {});
	facts.write_chunks = 1;
	facts.write_lengths = lengths;
	facts.inline_length = 0xffffffff;
	const Result<Landing> result = land_reply(facts, receive, plan);
	ASSERT_OK(result);
	expect_within(result.value(), receive, 0xffffffff);
	EXPECT_EQ(result.value().written, kMaxMessage - 3);
	EXPECT_EQ(result.value().length, kMaxMessage - 3 + 3);
	EXPECT_TRUE(result.value().truncated);
}

/* land_lone() says of each reply what land_reply() says, or leaves it to that. */
RPCORDMA_TEST(chunk_reply, lone)
{
	static constexpr u32 one[] = {kPages}, two[] = {kPages - 4, 4};
	u32 landed = 0;

	for (Span<const u32> segments :
	     {Span<const u32>(one), Span<const u32>(two), Span<const u32>()})
		for (u32 length = 0; length <= kHead + 2; length++)
			for (u32 written = 0; written <= kPages + 1; written++) {
				const BufferShape receive = offered();
				ReplyFacts facts;
				LoneLanding at;
				Plan plan;

				set_plan(plan, ReceiveMode::write_chunk, segments, {});
				facts.write_chunks = 1;
				facts.write_lengths = {&written, 1};
				facts.inline_length = length;
				if (!land_lone(length, written, receive, plan, at))
					continue;
				const auto wanted = land_reply(facts, receive, plan);
				ASSERT_OK(wanted);
				EXPECT_EQ(at.length, wanted.value().length);
				EXPECT_EQ(at.head_length, wanted.value().head_length);
				EXPECT_EQ(kHead - at.head_length, wanted.value().buflen_reduction);
				EXPECT_EQ(kPages, wanted.value().page_length);
				EXPECT_EQ(length, wanted.value().head_copy);
				EXPECT_FALSE(wanted.value().segments_missing);
				landed++;
			}
	EXPECT_EQ(landed, kHead * (kPages + 1));
}

/* A reply whose item came in Sends: by the rules, once more, at each length around the limits. */
RPCORDMA_TEST(chunk_reply, item)
{
	const BufferShape receive = offered();
	u32 landed = 0, refused = 0;

	for (u32 stream = 0; stream <= kHead + kTail + 2; stream++)
		for (u32 displacement = 0; displacement <= kHead + 1; displacement++)
			for (u32 length : {1u, 2u, 3u, 4u, 5u, kPages - 1, kPages, kPages + 1}) {
				TEST_NOTE("stream", stream);
				TEST_NOTE("displacement", displacement);
				TEST_NOTE("length", length);
				const auto got = land_item(stream, displacement, length, receive);
				if (displacement > stream || displacement > kHead ||
				    length > kPages) {
					EXPECT_ERROR(got, Error::bad_message);
					refused++;
					continue;
				}
				ASSERT_OK(got);
				const Landing &l = got.value();
				const u32 pad = (4 - length % 4) % 4, behind = stream - displacement,
					  kept = min(behind, kTail - pad);
				landed++;
				EXPECT_EQ(l.written, length);
				EXPECT_EQ(l.replied, 0);
				EXPECT_EQ(l.head_length, displacement);
				EXPECT_EQ(l.head_copy, displacement);
				EXPECT_EQ(l.page_copy, 0);
				/* Only where something follows has the item to end where the pages do. */
				EXPECT_EQ(l.page_length, behind ? length : kPages);
				EXPECT_EQ(l.tail_pad, behind ? pad : 0);
				EXPECT_EQ(l.tail_copy, kept);
				EXPECT_EQ(l.tail_move, 0);
				EXPECT_EQ(l.length, displacement + length + pad + kept);
				EXPECT_EQ(l.buflen_reduction,
					  kHead - displacement + (behind ? kPages - length : 0));
				EXPECT_EQ(l.truncated, behind > kept);
				EXPECT_FALSE(l.segments_missing);
			}
	EXPECT_GT(landed, 1000);
	EXPECT_GT(refused, 1000);
	/* A tail that does not hold the pad. */
	for (u32 tail = 0; tail <= 4; tail++) {
		BufferShape narrow = receive;

		TEST_NOTE("tail", tail);
		narrow.tail_length = tail;
		const auto got = land_item(kHead + 4, kHead, 5, narrow);
		ASSERT_OK(got);
		EXPECT_EQ(got.value().tail_pad, min(tail, 3u));
		EXPECT_EQ(got.value().tail_copy, tail - min(tail, 3u));
		EXPECT_EQ(got.value().length, kHead + 8 + tail - min(tail, 3u));
		EXPECT_TRUE(got.value().truncated);
	}
}

RPCORDMA_SUITE(chunk_reply, all_inline, lone, item, write_chunk, reply_chunk, reply_chunk_unused,
	       write_and_reply, short_tail, hostile_lengths, hostile_lists, largest);
