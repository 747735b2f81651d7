// SPDX-License-Identifier: GPL-2.0-only
/*
 * module/chunk/reduce: each way in which a message may travel (RFC 8166 3.5), each combination of
 * chunk lists that a call may have (4.3), and over families of sizes, thresholds and devices the
 * promises that every plan keeps: nothing is sent twice or left out, everything fits, and nothing
 * cheaper would have. Whether segments are good memory regions is test_chunk_segments.cc's subject.
 */
#include "kunit/test_chunk_choices.hh"
#include "kunit/test_chunk_plan.hh"
#include "kunit/testing.hh"
#include "module/chunk/reduce.hh"

using namespace rpcordma;
using namespace rpcordma::chunk;

namespace {

/** All of a plan, against one that was written down. */
void expect_ranges(Span<const ByteRange> got, Span<const ByteRange> wanted)
{
	ASSERT_EQ(got.size(), wanted.size());
	for (usize i = 0; i < got.size(); i++) {
		EXPECT_EQ(got[i].offset, wanted[i].offset);
		EXPECT_EQ(got[i].length, wanted[i].length);
	}
}
void expect_plan(const Plan &got, const Plan &wanted)
{
	EXPECT_EQ(got.send_mode, wanted.send_mode);
	EXPECT_EQ(got.inline_method, wanted.inline_method);
	EXPECT_EQ(got.receive_mode, wanted.receive_mode);
	EXPECT_EQ(got.header_length, wanted.header_length);
	EXPECT_EQ(got.inline_length, wanted.inline_length);
	EXPECT_EQ(got.transmissions, wanted.transmissions);
	EXPECT_EQ(got.read_position, wanted.read_position);
	expect_ranges(got.inline_ranges.span(), wanted.inline_ranges.span());
	expect_ranges(got.position_zero.span(), wanted.position_zero.span());
	expect_ranges(got.read_chunk.span(), wanted.read_chunk.span());
	expect_ranges(got.write_chunk.span(), wanted.write_chunk.span());
	expect_ranges(got.reply_chunk.span(), wanted.reply_chunk.span());
}

/** A plan that has all there is, as another call left it. */
void set_other(Plan &plan)
{
	plan.send_mode = SendMode::position_zero_read;
	plan.inline_method = InlineMethod::gathered;
	plan.receive_mode = ReceiveMode::write_and_reply;
	plan.header_length = 1001;
	plan.inline_length = 1002;
	plan.transmissions = 1003;
	plan.read_position = 1004;
	plan.inline_ranges.clear();
	EXPECT_TRUE(plan.inline_ranges.push({11, 12}));
	EXPECT_TRUE(plan.inline_ranges.push({13, 14}));
	u32 at = 21;
	for (SegmentList *list :
	     {&plan.position_zero, &plan.read_chunk, &plan.write_chunk, &plan.reply_chunk}) {
		list->clear();
		list->gaps = true;
		EXPECT_TRUE(list->push({at, at + 1}));
		EXPECT_TRUE(list->push({at + 2, at + 3}));
		at += 10;
	}
}

} // namespace

/* RFC 8166 4.1.2, counted by hand: 7 words, 6 a Read segment, 2 and 4 a Write chunk, 1 and 4 a
 * Reply chunk. */
RPCORDMA_TEST(chunk_reduce, header_lengths)
{
	EXPECT_EQ(header_length(28, 0, 0, 0), 28);
	EXPECT_EQ(header_length(28, 1, 0, 0), 52);
	EXPECT_EQ(header_length(28, 0, 1, 0), 52);
	EXPECT_EQ(header_length(28, 0, 0, 1), 48);
	EXPECT_EQ(header_length(28, 2, 3, 4), 28 + 48 + 56 + 68);
	EXPECT_EQ(header_length(28, kMaxSegments, kMaxSegments, kMaxSegments), 936);
	for (u32 r = 0; r <= kMaxSegments; r++)
		for (u32 w = 0; w <= kMaxSegments; w++)
			for (u32 p = 0; p <= kMaxSegments; p++)
				EXPECT_EQ(header_length(44, r, w, p),
					  44 + 24 * r + (w ? 8 + 16 * w : 0) + (p ? 4 + 16 * p : 0));
}

/* Every form of a call (3.5) with every form of a reply: all contents that the chunk lists can have
 * (4.3). */
RPCORDMA_TEST(chunk_reduce, all_combinations)
{
	Plan &plan = test_zeroed<Plan>();
	const Thresholds thresholds{4096, 4096};
	Limits limits;

	limits.combine_chunks = true;
	for (const SendCase &s : sends)
		for (const ReceiveCase &r : receives) {
			const CallShape call = call_of(s, r);

			TEST_NOTE("send mode", s.mode);
			TEST_NOTE("receive mode", r.mode);
			ASSERT_OK(reduce(call, limits, thresholds, plan));
			EXPECT_EQ(plan.send_mode, s.mode);
			EXPECT_EQ(plan.receive_mode, r.mode);
			expect_sound(call, limits, thresholds, plan);

			/* The lists themselves: which are empty, and with how many segments. */
			const bool pz = s.mode == SendMode::position_zero ||
					s.mode == SendMode::position_zero_read;
			const bool read = s.mode == SendMode::read_chunk ||
					  s.mode == SendMode::position_zero_read;
			const bool write = r.mode == ReceiveMode::write_chunk ||
					   r.mode == ReceiveMode::write_and_reply;
			EXPECT_EQ(plan.read_chunk.size(), read ? 1 : 0);
			EXPECT_EQ(plan.position_zero.size(), !pz ? 0 : read ? 2 : 3);
			EXPECT_EQ(plan.write_chunk.size(), write ? 1 : 0);
			EXPECT_EQ(plan.reply_chunk.size(), r.mode == ReceiveMode::write_and_reply ?
								   2 :
							   r.mode == ReceiveMode::reply_chunk ? 3 :
												0);
			EXPECT_EQ(plan.nomsg(), pz);
		}
}

/* By default no message has two kinds of chunk. */
RPCORDMA_TEST(chunk_reduce, no_combination_by_default)
{
	Plan &plan = test_zeroed<Plan>();
	const Thresholds thresholds{4096, 4096};
	const Limits limits;
	const CallShape call = call_of(sends[3], receives[3]);

	ASSERT_OK(reduce(call, limits, thresholds, plan));
	EXPECT_EQ(plan.send_mode, SendMode::position_zero);
	EXPECT_EQ(plan.receive_mode, ReceiveMode::reply_chunk);
	expect_sound(call, limits, thresholds, plan);
}

/* Integrity and privacy: nothing is eligible, whatever the upper layer marked. */
RPCORDMA_TEST(chunk_reduce, security_forbids_placement)
{
	Plan &plan = test_zeroed<Plan>();
	const Thresholds thresholds{4096, 4096};
	CallShape call = call_of(sends[1], receives[1]);

	for (const bool combine : {false, true}) {
		Limits limits;

		limits.combine_chunks = combine;
		call.ddp_allowed = false;
		ASSERT_OK(reduce(call, limits, thresholds, plan));
		EXPECT_EQ(plan.send_mode, SendMode::position_zero);
		EXPECT_EQ(plan.receive_mode, ReceiveMode::reply_chunk);
		expect_sound(call, limits, thresholds, plan);
	}
}

/* The common NFS READ and WRITE: one R_key each, so that a Send With Invalidate is enough. */
RPCORDMA_TEST(chunk_reduce, one_rkey)
{
	Plan &plan = test_zeroed<Plan>();
	const Thresholds thresholds{4096, 4096};
	const Limits limits;
	CallShape call;

	call.send = shape(160, 0, 0);
	call.receive = shape(132, 1024 * 1024, 20);
	call.receive_ddp = true;
	for (const u32 length : {1024u * 1024, 1024u * 1024 - 1, 65537u, 8190u}) {
		call.receive.page_length = length; /* an odd one too: there is no pad segment */
		ASSERT_OK(reduce(call, limits, thresholds, plan));
		EXPECT_EQ(plan.rkeys(), 1);
		EXPECT_EQ(plan.write_chunk.size(), 1);
		EXPECT_EQ(plan.header_length, 52);
	}
	call = {};
	call.send = shape(180, 1024 * 1024, 0);
	call.send_ddp = true;
	call.receive = shape(200, 0, 0);
	for (const u32 length : {1024u * 1024, 1024u * 1024 - 1, 65537u, 8190u}) {
		call.send.page_length = length;
		call.send.tail_length = xdr_pad(length);
		ASSERT_OK(reduce(call, limits, thresholds, plan));
		EXPECT_EQ(plan.rkeys(), 1);
		EXPECT_EQ(plan.read_chunk.size(), 1);
		EXPECT_EQ(plan.header_length, 52);
		EXPECT_EQ(plan.inline_length, 180);
	}
}

/* To the byte: what fits goes inline, one byte more does not; chunk lists count. */
RPCORDMA_TEST(chunk_reduce, thresholds_are_exact)
{
	Plan &plan = test_zeroed<Plan>();
	const Limits limits;

	for (const u32 send : {1024u, 1028u, 4096u, 8192u})
		for (const u32 receive : {1024u, 1500u, 4096u}) {
			const Thresholds thresholds{send, receive};
			CallShape call;

			TEST_NOTE("send", send);
			TEST_NOTE("receive", receive);
			/* Short call, short reply. */
			call.send = shape(send - 28, 0, 0);
			call.receive = shape(receive - 28, 0, 0);
			ASSERT_OK(reduce(call, limits, thresholds, plan));
			EXPECT_EQ(plan.send_mode, SendMode::inline_only);
			EXPECT_EQ(plan.receive_mode, ReceiveMode::inline_only);
			EXPECT_EQ(u64(plan.header_length) + plan.inline_length, send);
			/* A byte more in the call. */
			call.send.tail_length++;
			ASSERT_OK(reduce(call, limits, thresholds, plan));
			EXPECT_EQ(plan.send_mode, SendMode::position_zero);
			EXPECT_EQ(plan.receive_mode, ReceiveMode::inline_only);
			/* A byte more in the reply; the Reply chunk then takes its place in the
			 * call's header. */
			call.send.tail_length = 0;
			call.receive.head_length++;
			ASSERT_OK(reduce(call, limits, thresholds, plan));
			EXPECT_EQ(plan.receive_mode, ReceiveMode::reply_chunk);
			EXPECT_EQ(plan.send_mode, SendMode::position_zero);
			call.send.head_length -= 4 + 16;
			ASSERT_OK(reduce(call, limits, thresholds, plan));
			EXPECT_EQ(plan.receive_mode, ReceiveMode::reply_chunk);
			EXPECT_EQ(plan.send_mode, SendMode::inline_only);
			EXPECT_EQ(u64(plan.header_length) + plan.inline_length, send);

			/* READ: the rest of the reply, beside a header with one Write segment. */
			call = {};
			call.send = shape(send - 52, 0, 0);
			call.receive = shape(receive - 52 - 16, 10000, 16);
			call.receive_ddp = true;
			ASSERT_OK(reduce(call, limits, thresholds, plan));
			EXPECT_EQ(plan.receive_mode, ReceiveMode::write_chunk);
			EXPECT_EQ(plan.send_mode, SendMode::inline_only);
			call.receive.tail_length++;
			ASSERT_OK(reduce(call, limits, thresholds, plan));
			EXPECT_EQ(plan.receive_mode, ReceiveMode::reply_chunk);

			/* WRITE: the rest of the call, its payload's pad not counted. */
			call = {};
			call.send = shape(send - 52 - 16, 10001, 3 + 16);
			call.send_ddp = true;
			ASSERT_OK(reduce(call, limits, thresholds, plan));
			EXPECT_EQ(plan.send_mode, SendMode::read_chunk);
			EXPECT_EQ(u64(plan.header_length) + plan.inline_length, send);
			call.send.tail_length += 4;
			ASSERT_OK(reduce(call, limits, thresholds, plan));
			EXPECT_EQ(plan.send_mode, SendMode::position_zero);
		}
}

/* An eligible item that fits inline goes inline. */
RPCORDMA_TEST(chunk_reduce, small_payload_is_inline)
{
	Plan &plan = test_zeroed<Plan>();
	const Thresholds thresholds{4096, 4096};
	Limits limits;
	CallShape call;

	call.send = shape(160, 100, 0);
	call.receive = shape(160, 100, 0);
	call.send_ddp = call.receive_ddp = true;
	ASSERT_OK(reduce(call, limits, thresholds, plan));
	EXPECT_EQ(plan.send_mode, SendMode::inline_only);
	EXPECT_EQ(plan.receive_mode, ReceiveMode::inline_only);
	EXPECT_EQ(plan.rkeys(), 0);

	/* Up to the last byte, also where it is gathered. */
	for (const u32 copy_limit : {4096u, 256u}) {
		TEST_NOTE("copy limit", copy_limit);
		limits.copy_limit = copy_limit;
		call.send = call.receive = shape(160, 4096 - 28 - 160, 0);
		ASSERT_OK(reduce(call, limits, thresholds, plan));
		EXPECT_EQ(plan.rkeys(), 0);
		call.send.page_length++;
		ASSERT_OK(reduce(call, limits, thresholds, plan));
		EXPECT_EQ(plan.send_mode, SendMode::read_chunk);
		EXPECT_EQ(plan.receive_mode, ReceiveMode::inline_only);
		call.send.page_length--;
		call.receive.page_length++;
		ASSERT_OK(reduce(call, limits, thresholds, plan));
		EXPECT_EQ(plan.receive_mode, ReceiveMode::write_chunk);
	}
}

/* 3.4.4.4, 3.4.5.2: neither chunk nor inline stream has the pad; a long call has it. */
RPCORDMA_TEST(chunk_reduce, pad)
{
	Plan &plan = test_zeroed<Plan>();
	const Thresholds thresholds{4096, 4096};
	const Limits limits;

	for (u32 odd = 0; odd < 4; odd++)
		for (const u32 behind : {0u, 4u, 24u}) {
			CallShape call;
			const u32 length = 8192 + odd, pad = (4 - odd) % 4;

			TEST_NOTE("odd bytes", odd);
			TEST_NOTE("behind the payload", behind);
			call.send = shape(100, length, pad + behind);
			call.send_ddp = true;
			ASSERT_OK(reduce(call, limits, thresholds, plan));
			ASSERT_EQ(plan.send_mode, SendMode::read_chunk);
			ASSERT_EQ(plan.read_chunk.size(), 1);
			EXPECT_EQ(plan.read_chunk[0].offset, 100);
			EXPECT_EQ(plan.read_chunk[0].length, length);
			EXPECT_EQ(plan.read_position, 100);
			EXPECT_EQ(plan.inline_length, 100 + behind);
			EXPECT_EQ(plan.inline_length % 4, 0);
			ASSERT_EQ(plan.inline_ranges.size(), behind ? 2 : 1);
			if (behind) {
				EXPECT_EQ(plan.inline_ranges[1].offset, 100 + length + pad);
				EXPECT_EQ(plan.inline_ranges[1].length, behind);
			}
			call.ddp_allowed = false;
			ASSERT_OK(reduce(call, limits, thresholds, plan));
			EXPECT_TRUE(covers(plan.position_zero, 0, 100 + length + pad + behind));
		}

	/* A tail that lacks (part of) the pad: what is not there is not taken away. */
	for (u32 tail = 0; tail < 4; tail++) {
		CallShape call;

		call.send = shape(100, 8193, tail);
		call.send_ddp = true;
		ASSERT_OK(reduce(call, limits, thresholds, plan));
		EXPECT_EQ(plan.send_mode, SendMode::read_chunk);
		EXPECT_EQ(plan.inline_length, 100);
		expect_sound(call, limits, thresholds, plan);
	}
}

/* The rest of a call beside its Read chunk: the tail starts behind the pad, in memory too. */
RPCORDMA_TEST(chunk_reduce, pad_moves_tail)
{
	Plan &plan = test_zeroed<Plan>();
	const Thresholds thresholds{4096, 4096};
	Limits limits;
	CallShape call;

	limits.combine_chunks = true;
	call.send = shape(8000, 8193, 3 + 16);
	call.send.head_address = 0x202000 - 8000;
	call.send.tail_address = 0x300000 - 3;
	call.send_ddp = true;
	ASSERT_OK(reduce(call, limits, thresholds, plan));
	ASSERT_EQ(plan.send_mode, SendMode::position_zero_read);
	EXPECT_EQ(plan.position_zero_shape(call).tail_address, 0x300000);
	EXPECT_EQ(plan.position_zero_shape(call).tail_length, 16);
	/* Head and tail meet at page boundaries, so they are one segment. */
	EXPECT_EQ(plan.position_zero.size(), 1);
	expect_sound(call, limits, thresholds, plan);
}

/* 3.4.5: a Position is a multiple of four, and zero means a long call. */
RPCORDMA_TEST(chunk_reduce, position)
{
	Plan &plan = test_zeroed<Plan>();
	const Thresholds thresholds{4096, 4096};
	CallShape call;

	call.send_ddp = true;
	for (const bool combine : {false, true})
		for (const u32 head : {0u, 1u, 2u, 3u, 4u, 97u, 98u, 99u, 100u}) {
			Limits limits;

			TEST_NOTE("head", head);
			limits.combine_chunks = combine;
			call.send = shape(head, 8192, 8);
			ASSERT_OK(reduce(call, limits, thresholds, plan));
			EXPECT_EQ(plan.send_mode, head && head % 4 == 0 ? SendMode::read_chunk :
									  SendMode::position_zero);
			expect_sound(call, limits, thresholds, plan);
		}
}

/* Copy up to the limit, gather above it; copy again where the SGEs do not suffice. */
RPCORDMA_TEST(chunk_reduce, copy_or_gather)
{
	Plan &plan = test_zeroed<Plan>();
	const Thresholds thresholds{16384, 4096};
	Limits limits;
	CallShape call;

	limits.max_send_sge = 6;
	call.send = shape(96, 4000, 0);
	ASSERT_OK(reduce(call, limits, thresholds, plan));
	EXPECT_EQ(plan.inline_method, InlineMethod::copied);
	EXPECT_EQ(plan.send_sges(), 1);
	call.send.head_length += 4;
	ASSERT_OK(reduce(call, limits, thresholds, plan));
	EXPECT_EQ(plan.inline_method, InlineMethod::gathered);
	EXPECT_EQ(plan.send_sges(), 3);
	/* Header, head, two pages for 4000 bytes, tail. */
	call.send.page_base = 200;
	call.send.tail_length = 4;
	for (u32 sges = 1; sges < 8; sges++) {
		TEST_NOTE("SGEs", sges);
		limits.max_send_sge = sges;
		ASSERT_OK(reduce(call, limits, thresholds, plan));
		EXPECT_EQ(plan.inline_method,
			  sges < 5 ? InlineMethod::copied : InlineMethod::gathered);
		expect_sound(call, limits, thresholds, plan);
	}
	ASSERT_EQ(plan.inline_ranges.size(), 4);
	EXPECT_EQ(plan.inline_ranges[1].length, 3896);
	EXPECT_EQ(plan.inline_ranges[2].offset, 100 + 3896);

	/* Nothing to send has nothing to copy. */
	call.send = {};
	ASSERT_OK(reduce(call, limits, thresholds, plan));
	EXPECT_EQ(plan.inline_method, InlineMethod::none);
	EXPECT_TRUE(plan.inline_ranges.empty());

	/* More pages than the list holds, with SGEs for all: the copy is the way out. */
	limits.max_send_sge = 64;
	call.send = shape(96, 30 * 4096, 0);
	ASSERT_OK(reduce(call, limits, {256 * 1024, 4096}, plan));
	EXPECT_EQ(plan.send_mode, SendMode::inline_only);
	EXPECT_EQ(plan.inline_method, InlineMethod::copied);

	/* Beside a Read chunk, head and tail are gathered, the payload's pad left out. */
	limits.copy_limit = 0;
	limits.max_send_sge = 3;
	call.send = shape(96, 65537, 3 + 20);
	call.send_ddp = true;
	ASSERT_OK(reduce(call, limits, thresholds, plan));
	EXPECT_EQ(plan.send_mode, SendMode::read_chunk);
	EXPECT_EQ(plan.inline_method, InlineMethod::gathered);
	EXPECT_EQ(plan.send_sges(), 3);
	EXPECT_EQ(plan.inline_ranges[1].offset, 96 + 65537 + 3);
	EXPECT_EQ(plan.inline_ranges[1].length, 20);
}

/* Combined Read chunks that would need too many segments go as one long call. */
RPCORDMA_TEST(chunk_reduce, combination_too_large)
{
	Plan &plan = test_zeroed<Plan>();
	const Thresholds thresholds{1024, 1024};
	Limits limits;
	CallShape call;

	limits.combine_chunks = true;
	limits.mr_pages = 1;
	limits.max_segments = 4;
	call.send_ddp = true;
	call.send = shape(1000, 4 * 4096, 0);
	/* The head ends where a page does: four segments hold all, with the pages' last one full.
	 */
	call.send.head_address = 0x101000 - 1000;
	call.send.page_length = 3 * 4096;
	ASSERT_OK(reduce(call, limits, thresholds, plan));
	EXPECT_EQ(plan.send_mode, SendMode::position_zero_read);
	EXPECT_EQ(plan.rkeys(), 4);
	/* One region more than there is room for, for the pages or for the rest. */
	call.send.page_length = 4 * 4096;
	EXPECT_ERROR(reduce(call, limits, thresholds, plan), Error::message_size);
	limits.mr_pages = 6;
	limits.max_segments = 1;
	ASSERT_OK(reduce(call, limits, thresholds, plan));
	EXPECT_EQ(plan.send_mode, SendMode::position_zero);
	EXPECT_EQ(plan.read_position, 0);
	expect_sound(call, limits, thresholds, plan);
	/* The rest alone takes too many: its own tail, apart from the head. */
	call.send.tail_length = 12;
	call.send.tail_address = 0x300000;
	ASSERT_OK(reduce(call, limits, thresholds, plan));
	EXPECT_EQ(plan.send_mode, SendMode::position_zero);
	expect_sound(call, limits, thresholds, plan);
}

/* Where neither a Read chunk nor that beside a Position Zero one fits, several transmissions do: without a trace of either. */
RPCORDMA_TEST(chunk_reduce, chunks_given_up)
{
	Plan &plan = test_zeroed<Plan>(), &wanted = test_zeroed<Plan>();
	Thresholds thresholds{1024, 1024};
	Limits limits;
	CallShape call;

	thresholds.continuation_header = 16;
	thresholds.transmissions = 20;
	limits.combine_chunks = true;
	limits.max_segments = 1;
	call.send_ddp = true;
	call.send = shape(1000, 4096, 8);
	ASSERT_OK(reduce(call, limits, thresholds, plan));
	wanted.send_mode = SendMode::inline_only;
	wanted.inline_method = InlineMethod::copied;
	wanted.receive_mode = ReceiveMode::inline_only;
	wanted.header_length = 28;
	wanted.inline_length = 1000 + 4096 + 8;
	wanted.transmissions = 6;
	ASSERT_TRUE(wanted.inline_ranges.push({0, wanted.inline_length}));
	expect_plan(plan, wanted);
	/* A reply likewise. */
	CallShape reply;
	reply.receive_ddp = true;
	reply.send = shape(100, 0, 0);
	reply.receive = shape(1000, 4096, 8);
	limits.combine_chunks = false;
	ASSERT_OK(reduce(reply, limits, thresholds, plan));
	wanted.inline_length = 100;
	wanted.transmissions = 1;
	wanted.inline_ranges.clear();
	ASSERT_TRUE(wanted.inline_ranges.push({0, 100}));
	expect_plan(plan, wanted);
}

/* A message of any way is no longer than it may be, whatever regions hold. */
RPCORDMA_TEST(chunk_reduce, longest)
{
	Plan &plan = test_zeroed<Plan>();
	const Thresholds thresholds{1024, 1024};
	Limits limits;

	limits.mr_pages = 1 << 20;
	for (const bool reply : {false, true})
		for (const bool ddp : {false, true})
			for (u32 length : {kMaxMessage - 1, kMaxMessage, kMaxMessage + 1}) {
				CallShape call;

				TEST_NOTE("reply", reply);
				TEST_NOTE("ddp", ddp);
				TEST_NOTE("length", length);
				call.send = call.receive = shape(100, 0, 0);
				(reply ? call.receive : call.send) = shape(100, length - 100, 0);
				call.send_ddp = call.receive_ddp = ddp;
				const Status status = reduce(call, limits, thresholds, plan);
				if (length <= kMaxMessage)
					EXPECT_OK(status);
				else
					EXPECT_ERROR(status, Error::message_size);
			}
}

RPCORDMA_TEST(chunk_reduce, errors)
{
	Plan &plan = test_zeroed<Plan>();
	const Thresholds thresholds{1024, 1024};
	Limits limits;
	CallShape call;

	limits.mr_pages = 0;
	EXPECT_ERROR(reduce(call, limits, thresholds, plan), Error::invalid);
	limits = {};

	/* Longer than sunrpc can count, sums that wrap 32 bits included. */
	call.send = shape(0, kMaxMessage, 1);
	EXPECT_ERROR(reduce(call, limits, thresholds, plan), Error::message_size);
	call.send = shape(0xffffffff, 0xffffffff, 2);
	EXPECT_ERROR(reduce(call, limits, thresholds, plan), Error::message_size);
	call.send = {};
	call.receive = shape(1, kMaxMessage, 0);
	EXPECT_ERROR(reduce(call, limits, thresholds, plan), Error::message_size);
	call.receive = shape(0xfffffff0, 0, 0x20);
	EXPECT_ERROR(reduce(call, limits, thresholds, plan), Error::message_size);

	/* More segments than there may be, in each of the lists. */
	limits.mr_pages = 1;
	call.receive = shape(100, 17 * 4096, 0);
	EXPECT_ERROR(reduce(call, limits, thresholds, plan), Error::message_size);
	call.receive_ddp = true;
	EXPECT_ERROR(reduce(call, limits, thresholds, plan), Error::message_size);
	limits.combine_chunks = true;
	call.receive = shape(17 * 4096, 4096, 0);
	EXPECT_ERROR(reduce(call, limits, thresholds, plan), Error::message_size);
	call.receive = {};
	call.send = shape(100, 17 * 4096, 0);
	EXPECT_ERROR(reduce(call, limits, thresholds, plan), Error::message_size);
	call.send_ddp = true;
	EXPECT_ERROR(reduce(call, limits, thresholds, plan), Error::message_size);

	/* Thresholds under what version 1 allows: the headers alone do not fit. */
	limits = {};
	call = call_of(sends[2], receives[0]);
	EXPECT_ERROR(reduce(call, limits, {28 + 3 * 24 - 1, 1024}, plan), Error::message_size);
	EXPECT_OK(reduce(call, limits, {28 + 3 * 24, 1024}, plan));
	call = call_of(sends[0], receives[2]);
	EXPECT_ERROR(reduce(call, limits, {4096, 28 + 4 + 3 * 16 - 1}, plan), Error::message_size);
	EXPECT_OK(reduce(call, limits, {4096, 28 + 4 + 3 * 16}, plan));
	call = call_of(sends[0], receives[3]);
	limits.combine_chunks = true;
	EXPECT_ERROR(reduce(call, limits, {4096, 28 + 24 + 4 + 2 * 16 - 1}, plan),
		     Error::message_size);
	EXPECT_OK(reduce(call, limits, {4096, 28 + 24 + 4 + 2 * 16}, plan));
}

/* What max_payload() promises: no message of that size is refused, at the smallest thresholds. */
RPCORDMA_TEST(chunk_reduce, max_payload_is_sent)
{
	static constexpr u32 depths[] = {1, 2, 3, 16, 17, 32, 256, 257}, bases[] = {0, 1, 4095},
			     kvecs[] = {300, kMaxKvecLength};
	Plan &plan = test_zeroed<Plan>();
	const Thresholds thresholds{1024, 1024};
	u32 filled = 0;

	for (u32 n = 0;; n++) {
		Choices pick(n);
		CallShape call;
		Limits limits;

		limits.mr_pages = pick.of(depths);
		limits.sg_gaps = pick.flag();
		limits.combine_chunks = pick.flag();
		call.send_ddp = pick.flag();
		call.receive_ddp = pick.flag();
		const u32 base = pick.of(bases), kvec = pick.of(kvecs);

		if (pick.done())
			break;
		const u32 payload = max_payload(limits);

		if (!payload)
			continue;
		filled++;
		TEST_NOTE("turn", n);
		TEST_NOTE("depth", limits.mr_pages);
		call.send = shape(kvec, payload, kvec);
		call.receive = shape(kvec, payload, kvec);
		call.send.page_base = call.receive.page_base = base;
		call.send.head_address = call.receive.tail_address = 0x1fff;
		call.send.tail_address = call.receive.head_address = 0x8001;
		ASSERT_OK(reduce(call, limits, thresholds, plan));
		expect_sound(call, limits, thresholds, plan);
		/* What payload_segments() promises, and at the worst alignment no fewer. */
		for (const SegmentList *chunk : {&plan.read_chunk, &plan.write_chunk}) {
			EXPECT_LE(chunk->size(), payload_segments(limits));
			if (!chunk->empty() && base == 4095)
				EXPECT_EQ(chunk->size(), payload_segments(limits));
		}
	}
	EXPECT_GT(filled, 500);
}

/* Sizes around every boundary, on every device: sound, and by the table in reduce.hh. */
RPCORDMA_TEST(chunk_reduce, families)
{
	static constexpr u32 heads[] = {0, 4, 99, 300, 1008, 4076},
			     pages[] = {0, 1, 900, 4096, 8195, 70000}, tails[] = {0, 3, 20, 4000};
	static constexpr Thresholds all[] = {{.send = 1024, .receive = 1024},
					     {.send = 4096, .receive = 1024},
					     {.send = 1024, .receive = 4096},
					     {.send = 8192, .receive = 8192}};
	struct Device {
		u32 mr_pages, max_send_sge, copy_limit;
		bool gaps = false, combine = false;
	};
	static constexpr Device devices[] = {
		{.mr_pages = 2, .max_send_sge = 3, .copy_limit = 4096},
		{.mr_pages = 3, .max_send_sge = 2, .copy_limit = 4096, .combine = true},
		{.mr_pages = 16, .max_send_sge = 5, .copy_limit = 1000},
		{.mr_pages = 16, .max_send_sge = 4, .copy_limit = 4096, .gaps = true, .combine = true},
		{.mr_pages = 256, .max_send_sge = 30, .copy_limit = 4096, .gaps = true},
		{.mr_pages = 256, .max_send_sge = 30, .copy_limit = 4096, .combine = true},
	};
	Plan &plan = test_zeroed<Plan>();
	u32 planned = 0;

	for (u32 n = 0;; n++) {
		Choices pick(n);
		CallShape call;
		Limits limits;
		const Device &device = pick.of(devices);
		const Thresholds &thresholds = pick.of(all);
		const u32 head = pick.of(heads), length = pick.of(pages), tail = pick.of(tails);
		const ReceiveCase &r = pick.of(receives);

		call.send = shape(head, length, tail);
		call.send.page_base = pick.flag() ? 4095 : 0;
		call.send_ddp = pick.flag();
		call.receive = shape(r.head, r.pages, r.tail);
		call.receive_ddp = r.ddp;
		if (pick.flag()) {
			/* The family as replies, too. */
			const BufferShape other = call.receive;

			call.receive = call.send;
			call.receive_ddp = call.send_ddp;
			call.send = other;
			call.send_ddp = r.ddp;
		}
		if (pick.done())
			break;
		limits.mr_pages = device.mr_pages;
		limits.max_send_sge = device.max_send_sge;
		limits.copy_limit = device.copy_limit;
		limits.sg_gaps = device.gaps;
		limits.combine_chunks = device.combine;

		TEST_NOTE("turn", n);
		TEST_NOTE("head", head);
		TEST_NOTE("pages", length);
		TEST_NOTE("tail", tail);
		TEST_NOTE("send threshold", thresholds.send);
		TEST_NOTE("receive threshold", thresholds.receive);
		TEST_NOTE("depth", limits.mr_pages);
		planned++;
		ASSERT_OK(reduce(call, limits, thresholds, plan));
		expect_sound(call, limits, thresholds, plan);
		EXPECT_EQ(plan.receive_mode, wanted_receive(call, limits, thresholds));
		EXPECT_EQ(plan.send_mode, wanted_send(call, limits, thresholds, plan));
	}
	EXPECT_EQ(planned, 6 * 4 * 6 * 6 * 4 * 4 * 8);
}

/* Where a version has several transmissions to a message: no chunk for what they hold, and not one more than needed. */
RPCORDMA_TEST(chunk_reduce, transmissions)
{
	Plan &plan = test_zeroed<Plan>();
	constexpr u32 bare = 40, more = 16, threshold = 1024;
	const u32 whole = threshold - bare + 2 * (threshold - more); /* what three hold */

	for (u32 length : {100u, threshold - bare, threshold - bare + 1, 2 * threshold - bare - more,
			   2 * threshold - bare - more + 1, whole, whole + 1, 2 * whole})
		for (u32 allowed : {1u, 2u, 3u}) {
			Thresholds thresholds{threshold, threshold};
			CallShape call;

			TEST_NOTE("length", length);
			TEST_NOTE("transmissions allowed", allowed);
			thresholds.bare_header = bare;
			thresholds.continuation_header = more;
			thresholds.transmissions = allowed;
			call.send = shape(length, 0, 0);
			call.receive = shape(length, 0, 0);
			ASSERT_OK(reduce(call, Limits(), thresholds, plan));
			u32 needed = 1;
			for (u32 room = threshold - bare; room < length; room += threshold - more)
				needed++;
			const bool fits = needed <= allowed;
			EXPECT_EQ(plan.send_mode,
				  fits ? SendMode::inline_only : SendMode::position_zero);
			EXPECT_EQ(plan.receive_mode,
				  fits ? ReceiveMode::inline_only : ReceiveMode::reply_chunk);
			EXPECT_EQ(plan.transmissions, fits ? needed : 1);
			EXPECT_EQ(plan.inline_length, fits ? length : 0);
			EXPECT_EQ(plan.header_length, fits ? bare : bare + 24 + 20);
		}
}

/* What makes another plan of one: all of it is as it is said, and nothing else. */
RPCORDMA_TEST(chunk_reduce, other_plans)
{
	Plan &plan = test_zeroed<Plan>(), &wanted = test_zeroed<Plan>();

	set_other(plan);
	plan.set_short(28, 100);
	wanted.send_mode = SendMode::inline_only;
	wanted.inline_method = InlineMethod::copied;
	wanted.receive_mode = ReceiveMode::inline_only;
	wanted.header_length = 28;
	wanted.inline_length = 100;
	wanted.transmissions = 1;
	ASSERT_TRUE(wanted.inline_ranges.push({0, 100}));
	expect_plan(plan, wanted);

	set_other(plan);
	plan.set_asked_item(40, 200);
	wanted.receive_mode = ReceiveMode::sent_item;
	wanted.header_length = 40;
	wanted.inline_length = 200;
	wanted.inline_ranges.clear();
	ASSERT_TRUE(wanted.inline_ranges.push({0, 200}));
	expect_plan(plan, wanted);

	set_other(plan);
	set_other(wanted);
	plan.set_sent_item(60, 3);
	wanted.send_mode = SendMode::sent_item;
	wanted.receive_mode = ReceiveMode::inline_only;
	wanted.header_length = 60;
	wanted.transmissions = 3;
	wanted.read_chunk.clear();
	wanted.reply_chunk.clear();
	expect_plan(plan, wanted);
	EXPECT_EQ(plan.rkeys(), 4);
	EXPECT_EQ(plan.send_sges(), 3);
	plan.inline_method = InlineMethod::copied;
	EXPECT_EQ(plan.send_sges(), 1);
}

/* Nothing of a plan is left from the call before: each mode after one that had everything. */
RPCORDMA_TEST(chunk_reduce, nothing_is_left)
{
	Plan &fresh = test_zeroed<Plan>(), &used = test_zeroed<Plan>();
	const Thresholds thresholds{4096, 4096};

	for (const bool combine : {false, true})
		for (const SendCase &s : sends)
			for (const ReceiveCase &r : receives) {
				const CallShape call = call_of(s, r);
				Limits limits;

				TEST_NOTE("combine", combine);
				TEST_NOTE("send mode", s.mode);
				TEST_NOTE("receive mode", r.mode);
				limits.combine_chunks = combine;
				set_other(used);
				ASSERT_OK(reduce(call, limits, thresholds, fresh));
				ASSERT_OK(reduce(call, limits, thresholds, used));
				expect_plan(used, fresh);
				for (const SegmentList *list :
				     {&used.position_zero, &used.read_chunk, &used.write_chunk,
				      &used.reply_chunk})
					EXPECT_TRUE(list->empty() || !list->gaps);
			}
}

/* What reduce() asks first, at each of its limits, and a byte beyond. */
RPCORDMA_TEST(chunk_reduce, short_ways)
{
	Plan &plan = test_zeroed<Plan>();
	const Thresholds thresholds{2000, 1000};
	Limits limits;

	limits.copy_limit = 1500;
	EXPECT_FALSE(goes_short(0, 100, limits, thresholds));
	EXPECT_TRUE(goes_short(1, 972, limits, thresholds));
	EXPECT_FALSE(goes_short(1, 973, limits, thresholds));
	EXPECT_TRUE(goes_short(1500, 0, limits, thresholds));
	EXPECT_FALSE(goes_short(1501, 0, limits, thresholds));
	limits.copy_limit = 4096;
	EXPECT_TRUE(goes_short(1972, 0, limits, thresholds));
	EXPECT_FALSE(goes_short(1973, 0, limits, thresholds));

	/* One region has 257 pages. */
	for (u32 base : {0u, 1u, 4095u}) {
		BufferShape pages = shape(100, 257 * 4096 - base, 0);

		pages.page_base = base;
		EXPECT_TRUE(in_one_region(pages, limits));
		pages.page_length++;
		EXPECT_FALSE(in_one_region(pages, limits));
		limits.parts_alone = true;
		pages.page_length = 100;
		EXPECT_FALSE(in_one_region(pages, limits));
		limits.parts_alone = false;
	}

	/* Whole by a Position Zero Read chunk, or by a Reply chunk: no longer than a message is, and not inline. */
	for (u32 length :
	     {1000u, 972u, 973u, 1972u, 1973u, kMaxMessage - 1, kMaxMessage, kMaxMessage + 1}) {
		CallShape call;

		TEST_NOTE("length", length);
		call.send = call.receive = shape(length, 0, 0);
		EXPECT_EQ(goes_whole(call, thresholds), length > 1972 && length <= kMaxMessage);
		EXPECT_EQ(comes_whole(call, thresholds), length > 972 && length <= kMaxMessage);
		call.send = call.receive = shape(4, length - 4, 0);
		call.send_ddp = call.receive_ddp = true;
		EXPECT_FALSE(goes_whole(call, thresholds));
		EXPECT_FALSE(comes_whole(call, thresholds));
		ASSERT_EQ(reduce(call, limits, thresholds, plan).ok(), length < 2000);
	}
}

/* The lone chunk of most READs and WRITEs: planned at once up to each limit, and just as reduce() plans it the long way. */
RPCORDMA_TEST(chunk_reduce, lone_chunk)
{
	Plan &plan = test_zeroed<Plan>(), &planned = test_zeroed<Plan>();
	const Thresholds thresholds{2000, 1000};
	constexpr u32 header = 52;

	struct Case {
		u32 head, pages, tail; /* of the call */
		bool send_ddp;
		u32 reply_head, reply_pages, reply_tail;
		bool receive_ddp;
		bool taken;
		u32 copy_limit = 4096;
		u32 mr_pages = 257;
		u32 base = 0;
	};
	static constexpr Case cases[] = {
		/* READs: the call at its limits */
		{100, 0, 0, false, 100, 8192, 4, true, true},
		{0, 0, 0, false, 100, 8192, 4, true, false},
		{1500, 0, 0, false, 100, 8192, 4, true, true, 1500},
		{1501, 0, 0, false, 100, 8192, 4, true, false, 1500},
		{2000 - header, 0, 0, false, 100, 8192, 4, true, true},
		{2000 - header + 1, 0, 0, false, 100, 8192, 4, true, false},
		/* its reply, without the data, and with; not eligible */
		{100, 0, 0, false, 1000 - header - 4, 8192, 4, true, true},
		{100, 0, 0, false, 1000 - header - 3, 8192, 4, true, false},
		{100, 0, 0, false, 100, 872, 0, true, false},
		{100, 0, 0, false, 100, 873, 0, true, true},
		{100, 0, 0, false, 100, 8192, 4, false, false},
		{100, 0, 0, false, 1000, 0, 0, true, false},
		/* its region */
		{100, 0, 0, false, 100, 8192, 4, true, true, 4096, 2},
		{100, 0, 0, false, 100, 8193, 4, true, false, 4096, 2},
		{100, 0, 0, false, 100, 8192, 4, true, false, 4096, 2, 1},
		/* WRITEs: the call without the data */
		{100, 8192, 0, true, 100, 0, 0, false, true},
		{100, 8190, 7, true, 100, 0, 0, false, true},
		{100, 8190, 2, true, 100, 0, 0, false, true},
		{100, 8190, 1, true, 100, 0, 0, false, true},
		{100, 8192, 0, false, 100, 0, 0, false, false},
		{102, 8192, 0, true, 100, 0, 0, false, false},
		{1500, 8192, 0, true, 100, 0, 0, false, true, 1500},
		{1500, 8192, 1, true, 100, 0, 0, false, false, 1500},
		{1948 - 4, 8192, 4, true, 100, 0, 0, false, true},
		{1948 - 4, 8192, 5, true, 100, 0, 0, false, false},
		/* and with it: inline, when it fits */
		{100, 1872, 0, true, 100, 0, 0, false, false},
		{100, 1873, 0, true, 100, 0, 0, false, true},
		{100, 8192, 0, true, 100, 0, 0, false, true, 4096, 2},
		{100, 8193, 0, true, 100, 0, 0, false, false, 4096, 2},
	};

	for (const Case &c : cases) {
		CallShape call;
		Limits limits;

		TEST_NOTE("case", u32(&c - cases));
		call.send = shape(c.head, c.pages, c.tail);
		call.send_ddp = c.send_ddp;
		call.receive = shape(c.reply_head, c.reply_pages, c.reply_tail);
		call.receive_ddp = c.receive_ddp;
		call.send.page_base = call.receive.page_base = c.base;
		limits.copy_limit = c.copy_limit;
		limits.mr_pages = c.mr_pages;
		set_other(plan);
		ASSERT_EQ(plan_lone(call, limits, thresholds, plan), c.taken);
		call.ddp_allowed = false;
		EXPECT_FALSE(plan_lone(call, limits, thresholds, planned));
		if (!c.taken)
			continue;
		Plan &wanted = test_zeroed<Plan>();
		const u32 pad = c.send_ddp ? min((4 - c.pages % 4) % 4, c.tail) : 0;
		wanted.inline_method = InlineMethod::copied;
		wanted.header_length = header;
		wanted.inline_length = c.head + c.tail - pad;
		wanted.transmissions = 1;
		(void)wanted.inline_ranges.push({0, c.head});
		if (c.send_ddp) {
			wanted.send_mode = SendMode::read_chunk;
			wanted.receive_mode = ReceiveMode::inline_only;
			wanted.read_position = c.head;
			(void)wanted.read_chunk.push({c.head, c.pages});
			if (c.tail > pad)
				(void)wanted.inline_ranges.push(
					{c.head + c.pages + pad, c.tail - pad});
		} else {
			wanted.send_mode = SendMode::inline_only;
			wanted.receive_mode = ReceiveMode::write_chunk;
			(void)wanted.write_chunk.push({c.reply_head, c.reply_pages});
		}
		expect_plan(plan, wanted);
		EXPECT_FALSE(plan.read_chunk.gaps && c.send_ddp);
		EXPECT_FALSE(plan.write_chunk.gaps && c.receive_ddp);
	}
}

RPCORDMA_SUITE(chunk_reduce, header_lengths, all_combinations, no_combination_by_default,
	       security_forbids_placement, one_rkey, thresholds_are_exact, small_payload_is_inline,
	       pad, pad_moves_tail, position, copy_or_gather, combination_too_large, errors,
	       max_payload_is_sent, transmissions, families, other_plans, nothing_is_left,
	       short_ways, chunks_given_up, longest, lone_chunk);
