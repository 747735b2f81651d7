// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages of a head and pages over a port that keeps account (kunit/test_rdma_port.hh): the pages themselves, and
 * what a Send and a Receive make of them. With each allocation and each mapping failing in turn, nothing is left over.
 */
#include "kunit/test_call_maker.hh"
#include "kunit/test_rdma_port.hh"
#include "kunit/testing.hh"
#include "module/rdma/message_pages.hh"
#include "module/rdma/receive.hh"
#include "module/rdma/send_buffer.hh"

namespace rpcordma {
namespace {

constexpr u32 kCount = 4, kNode = 3, kHead = 512;
constexpr u32 kWhole = kHead + kCount * kPage;
constexpr MessagePages::Layout kLayout = {kCount, kPage, kNode};

/* Lengths at which something begins or ends, each with its neighbours. */
template <typename What> void each_length(What &&what)
{
	for (u32 at = 0; at <= kWhole; at += kPage)
		for (const u32 length : {at ? at - 1 : 0, at, min(at + 1, kWhole)}) {
			TEST_NOTE("length", length);
			what(length);
		}
}

/* Byte @i of a message as the device has it in @sges. */
[[nodiscard]] u8 *device_byte(const rpcordma_sge *sges, int count, u32 i)
{
	for (int n = 0; n < count; n++) {
		if (i < sges[n].length)
			return the_port->dma.byte_of(sges[n], i);
		i -= sges[n].length;
	}
	return nullptr;
}

struct PagesFixture : PortFixture {
	[[nodiscard]] rpcordma_endpoint *endpoint()
	{
		return verbs.endpoint();
	}
	/* All that the port gave but the pages that others have. */
	void expect_taken(u32 allocations, u32 pages, u32 mappings)
	{
		EXPECT_EQ(memory.allocations, allocations);
		EXPECT_EQ(memory.pages, pages);
		EXPECT_EQ(dma.mappings, mappings);
	}
};

/* Pages alone, with a head that is not theirs. */
struct Pages : PagesFixture {
	MessagePages pages;
	rpcordma_sge head = {1, kHead, 1};

	void make(rpcordma_dma direction = RPCORDMA_DMA_FROM_DEVICE)
	{
		EXPECT_TRUE(pages.create(endpoint(), kLayout, direction, RPCORDMA_ALLOC_ATOMIC));
		EXPECT_EQ(pages.describe_all(head), 1 + kCount);
	}
	~Pages()
	{
		pages.destroy(endpoint());
		expect_taken(0, 0, 0);
	}
	/* The device's bytes of page @i, and the CPU's. */
	[[nodiscard]] u8 *device(u32 i)
	{
		return dma.byte_of(pages.sges()[1 + i], 0);
	}
	[[nodiscard]] u8 *cpu(u32 i)
	{
		return pages.pages()[i]->data;
	}
};

struct Maker : PagesFixture {
	ReceiveMaker maker;

	Maker()
	{
		maker.init(endpoint(), nullptr, RPCORDMA_CQE_RECEIVE, kHead);
		maker.have_pages(kLayout);
		maker.use_pages(true);
	}
	~Maker()
	{
		maker.destroy();
		expect_taken(0, 0, 0);
	}
	[[nodiscard]] Receive *make()
	{
		Receive *receive = maker.create(RPCORDMA_ALLOC_ATOMIC);

		EXPECT_NE(receive, nullptr);
		if (receive)
			maker.own(receive);
		return receive;
	}
	/* @length bytes of a pattern come, of which the first @header are the header. */
	void arrive(Receive *receive, u32 length, u32 header)
	{
		rpcordma_completion completion = {};

		for (u32 i = 0; i < length; i++)
			*device_byte(receive->wr.sg_list, receive->wr.num_sge, i) = pattern(i);
		completion.byte_len = length;
		maker.arrived(receive, completion);
		receive->message.payload = receive->bytes().from(min(header, length));
	}
};

} // namespace

RPCORDMA_TEST(rdma_message_pages, create)
{
	for (const bool at_mapping : {false, true})
		for (u32 n = 0; n <= kCount; n++) {
			TEST_NOTE("mapping", at_mapping);
			TEST_NOTE("successes", n);
			Pages c;
			const bool enough = n == kCount;

			(at_mapping ? c.dma.mappings_left : c.memory.pages_left) = n;
			EXPECT_EQ(c.pages.create(c.endpoint(), kLayout, RPCORDMA_DMA_FROM_DEVICE,
						 RPCORDMA_ALLOC_ATOMIC),
				  enough);
			EXPECT_EQ(c.pages.count(), enough ? kCount : 0);
			EXPECT_EQ(c.pages.bytes(), enough ? kCount * kPage : 0);
			c.expect_taken(0, enough ? kCount : 0, enough ? kCount : 0);
			c.want_for_nothing();
			if (!enough)
				c.make();
			for (u32 i = 0; i < kCount; i++)
				EXPECT_EQ(c.pages.pages()[i]->node, kNode);
		}
	/* None are none. */
	Pages c;
	EXPECT_TRUE(
		c.pages.create(c.endpoint(), {}, RPCORDMA_DMA_FROM_DEVICE, RPCORDMA_ALLOC_ATOMIC));
	EXPECT_EQ(c.pages.describe_all(c.head), 1);
	EXPECT_TRUE(c.pages.renew(c.endpoint(), RPCORDMA_ALLOC_ATOMIC));
}

/* The SGEs of a message are as long as it is, and none of them is empty. */
RPCORDMA_TEST(rdma_message_pages, describe)
{
	Pages c;

	c.make();
	each_length([&](u32 length) {
		const u32 count = c.pages.describe(c.head, length);
		u32 sum = 0;

		EXPECT_EQ(count,
			  1 + (length > kHead ? div_round_up(length - kHead, u32(kPage)) : 0));
		EXPECT_EQ(c.pages.sges()[0].addr, c.head.addr);
		for (u32 i = 0; i < count; i++) {
			if (length)
				EXPECT_GT(c.pages.sges()[i].length, 0);
			sum += c.pages.sges()[i].length;
		}
		EXPECT_EQ(sum, length);
	});
	/* More than there is. */
	EXPECT_EQ(c.pages.describe(c.head, ~0u), 1 + kCount);
	EXPECT_EQ(c.pages.describe_all(c.head), 1 + kCount);
	for (u32 i = 0; i < kCount; i++)
		EXPECT_EQ(c.pages.sges()[1 + i].length, kPage);
}

RPCORDMA_TEST(rdma_message_pages, sync)
{
	for (const rpcordma_dma direction : {RPCORDMA_DMA_FROM_DEVICE, RPCORDMA_DMA_TO_DEVICE}) {
		TEST_NOTE("direction", direction);
		const bool from = direction == RPCORDMA_DMA_FROM_DEVICE;
		Pages c;

		c.make(direction);
		for (u32 length :
		     {0u, 1u, kPage - 1, kPage, kPage + 1, 2 * kPage, 4 * kPage - 1, 4 * kPage}) {
			TEST_NOTE("length", length);
			for (u32 i = 0; i < kCount; i++) {
				__builtin_memset(c.device(i), from ? 0x5a : 0, kPage);
				__builtin_memset(c.cpu(i), from ? 0 : 0x5a, kPage);
			}
			from ? c.pages.sync_for_cpu(c.endpoint(), length) :
			       c.pages.sync_for_device(c.endpoint(), length);
			for (u32 i = 0; i < kCount * kPage; i++) {
				const u8 *reader = from ? c.cpu(i / kPage) : c.device(i / kPage);
				ASSERT_EQ(reader[i % kPage], i < length ? 0x5a : 0);
			}
		}
	}
}

RPCORDMA_TEST(rdma_message_pages, piece)
{
	Pages c;

	c.make();
	for (u32 offset = 0; offset < kCount * kPage; offset++) {
		const MutableBytes piece = c.pages.piece(offset);

		ASSERT_EQ(piece.data(), c.cpu(offset / kPage) + offset % kPage);
		ASSERT_EQ(piece.size(), kPage - offset % kPage);
	}
}

/* Any of them may be somebody's: those alone are exchanged, and stay what they were for him. */
RPCORDMA_TEST(rdma_message_pages, renew)
{
	for (u32 shared = 0; shared < 1u << kCount; shared++) {
		TEST_NOTE("shared", shared);
		Pages c;
		page *before[kCount];

		c.make();
		for (u32 i = 0; i < kCount; i++) {
			before[i] = c.pages.pages()[i];
			before[i]->references += shared >> i & 1;
			__builtin_memset(c.device(i), 0x5a, kPage);
		}
		c.pages.sync_for_cpu(c.endpoint(), kCount * kPage);
		EXPECT_TRUE(c.pages.renew(c.endpoint(), RPCORDMA_ALLOC_ATOMIC));
		EXPECT_EQ(c.pages.describe_all(c.head), 1 + kCount);
		EXPECT_EQ(c.dma.mappings, kCount);
		for (u32 i = 0; i < kCount; i++) {
			TEST_NOTE("page", i);
			if (!(shared >> i & 1)) {
				EXPECT_EQ(c.pages.pages()[i], before[i]);
				continue;
			}
			EXPECT_NE(c.pages.pages()[i], before[i]);
			EXPECT_EQ(c.pages.pages()[i]->node, kNode);
			EXPECT_EQ(before[i]->references, 1);
			EXPECT_EQ(before[i]->block.mapped, 0);
			/* What comes now is not his. */
			__builtin_memset(c.device(i), 0xa5, kPage);
			c.pages.sync_for_cpu(c.endpoint(), kCount * kPage);
			EXPECT_EQ(c.cpu(i)[0], 0xa5);
			EXPECT_EQ(before[i]->data[0], 0x5a);
			c.memory.put_page(before[i]);
		}
	}
}

/* Without memory or mapping for one, that one stays, mapped; those before it are exchanged. */
RPCORDMA_TEST(rdma_message_pages, renew_fails)
{
	for (const bool at_mapping : {false, true})
		for (u32 n = 0; n < kCount; n++) {
			TEST_NOTE("mapping", at_mapping);
			TEST_NOTE("successes", n);
			Pages c;
			page *before[kCount];

			c.make();
			for (u32 i = 0; i < kCount; i++) {
				before[i] = c.pages.pages()[i];
				before[i]->references++;
			}
			(at_mapping ? c.dma.mappings_left : c.memory.pages_left) = n;
			EXPECT_FALSE(c.pages.renew(c.endpoint(), RPCORDMA_ALLOC_ATOMIC));
			c.expect_taken(0, kCount + n, kCount);
			for (u32 i = 0; i < kCount; i++) {
				EXPECT_EQ(c.pages.pages()[i] == before[i], i >= n);
				EXPECT_EQ(before[i]->references, i < n ? 1 : 2);
			}
			EXPECT_EQ(c.pages.describe_all(c.head), 1 + kCount);
			c.want_for_nothing();
			EXPECT_TRUE(c.pages.renew(c.endpoint(), RPCORDMA_ALLOC_ATOMIC));
			c.expect_taken(0, 2 * kCount, kCount);
			for (page *p : before)
				c.memory.put_page(p);
		}
}

/* A Send of any length goes out of head and pages; what was written is what the device has. */
RPCORDMA_TEST(rdma_message_pages, send)
{
	PagesFixture c;
	SendBuffer send;

	ASSERT_TRUE(send.ensure(kHead, RPCORDMA_ALLOC_ATOMIC));
	ASSERT_TRUE(send.map(c.endpoint()));
	EXPECT_EQ(send.whole_capacity(), kHead);
	send.hand_over(c.endpoint(), kHead);
	EXPECT_EQ(send.wr.num_sge, 1);
	/* What describes them, the pages, their mappings. */
	for (u32 failing = 0; failing < 1 + 2 * kCount; failing++) {
		TEST_NOTE("failing", failing);
		if (!failing)
			c.memory.allocations_left = 0;
		else if (failing <= kCount)
			c.memory.pages_left = failing - 1;
		else
			c.dma.mappings_left = failing - 1 - kCount;
		EXPECT_FALSE(send.extend(c.endpoint(), kLayout, RPCORDMA_ALLOC_ATOMIC));
		c.want_for_nothing();
		EXPECT_EQ(send.whole_capacity(), kHead);
		c.expect_taken(1, 0, 1);
	}
	for (u32 turn = 0; turn < 2; turn++) {
		EXPECT_TRUE(send.extend(c.endpoint(), kLayout, RPCORDMA_ALLOC_ATOMIC));
		EXPECT_EQ(send.whole_capacity(), kWhole);
		EXPECT_EQ(send.capacity(), kHead);
		c.expect_taken(2, kCount, 1 + kCount);
	}
	u8 salt = 0;
	each_length([&](u32 length) {
		salt++;
		for (u32 used = 0; used < length;) {
			const MutableBytes room = send.room_from(used).first(length - used);

			ASSERT_GT(room.size(), 0);
			for (u8 &byte : room)
				byte = u8(pattern(used++) + salt);
		}
		send.hand_over(c.endpoint(), length);
		u32 sum = 0;
		for (int i = 0; i < send.wr.num_sge; i++)
			sum += send.wr.sg_list[i].length;
		ASSERT_EQ(sum, length);
		for (u32 i = 0; i < length; i++)
			ASSERT_EQ(*device_byte(send.wr.sg_list, send.wr.num_sge, i),
				  u8(pattern(i) + salt));
	});
	/* Short ones, before and after, have one SGE. */
	for (const u32 length : {kHead, kHead + 1, kHead}) {
		send.hand_over(c.endpoint(), length);
		EXPECT_EQ(send.wr.num_sge, length > kHead ? 2 : 1);
	}
	send.unmap(c.endpoint());
	EXPECT_EQ(send.whole_capacity(), kHead);
	c.expect_taken(1, 0, 0);
	/* Pages that came without a mapping of the head go the same way. */
	EXPECT_TRUE(send.extend(c.endpoint(), kLayout, RPCORDMA_ALLOC_ATOMIC));
	send.unmap(c.endpoint());
	c.expect_taken(1, 0, 0);
}

/* The head goes out with what others describe behind it, which stays as it is. */
RPCORDMA_TEST(rdma_message_pages, send_with)
{
	PagesFixture c;
	SendBuffer send;

	ASSERT_TRUE(send.ensure(kHead, RPCORDMA_ALLOC_ATOMIC));
	EXPECT_FALSE(send.mapped());
	ASSERT_TRUE(send.map(c.endpoint()));
	EXPECT_TRUE(send.mapped());
	/* It is there, and stays. */
	ASSERT_TRUE(send.map(c.endpoint()));
	ASSERT_TRUE(send.ensure(2 * kHead, RPCORDMA_ALLOC_ATOMIC));
	EXPECT_EQ(send.capacity(), kHead);
	c.expect_taken(1, 0, 1);
	for (const u32 length : {1u, kHead / 2, kHead}) {
		rpcordma_sge sges[3] = {{}, {1000, 10, 1}, {2000, 20, 2}};

		TEST_NOTE("length", length);
		for (u32 i = 0; i < length; i++)
			send.room()[i] = u8(pattern(i) + length);
		send.hand_over_with(c.endpoint(), length, sges);
		EXPECT_EQ(send.wr.num_sge, 3);
		EXPECT_EQ(send.wr.sg_list, &sges[0]);
		EXPECT_EQ(sges[0].length, length);
		EXPECT_EQ(sges[1].addr, 1000);
		EXPECT_EQ(sges[1].length, 10);
		EXPECT_EQ(sges[2].addr, 2000);
		EXPECT_EQ(sges[2].length, 20);
		for (u32 i = 0; i < length; i++)
			ASSERT_EQ(*device_byte(sges, 1, i), u8(pattern(i) + length));
	}
	send.unmap(c.endpoint());
	EXPECT_FALSE(send.mapped());
	c.expect_taken(1, 0, 0);
	/* Without a connection it grows, and not for want of memory. */
	c.memory.allocations_left = 0;
	EXPECT_TRUE(send.ensure(2 * kHead, RPCORDMA_ALLOC_ATOMIC));
	EXPECT_EQ(send.capacity(), kHead);
	c.want_for_nothing();
	EXPECT_TRUE(send.ensure(kHead, RPCORDMA_ALLOC_ATOMIC));
	EXPECT_EQ(send.capacity(), kHead);
	EXPECT_TRUE(send.ensure(2 * kHead, RPCORDMA_ALLOC_ATOMIC));
	EXPECT_EQ(send.capacity(), 2 * kHead);
	SendBuffer none;
	c.memory.allocations_left = 0;
	EXPECT_FALSE(none.ensure(kHead, RPCORDMA_ALLOC_ATOMIC));
	c.want_for_nothing();
}

/* What came is in head and pages; the payload is there in one run, however long the header. */
RPCORDMA_TEST(rdma_message_pages, receive)
{
	Maker c;
	Receive *receive = c.make();

	EXPECT_EQ(receive->wr.num_sge, 1 + kCount);
	EXPECT_EQ(c.maker.whole_size(), kWhole);
	for (const u32 header : {36u, kHead - 1, kHead})
		each_length([&](u32 length) {
			TEST_NOTE("header", header);
			c.arrive(receive, length, header);
			const u32 payload = length - min(header, length);

			EXPECT_EQ(receive->bytes().size(), min(length, kHead));
			EXPECT_EQ(receive->in_pages(), length > kHead ? length - kHead : 0);
			ASSERT_EQ(receive->payload_length(), payload);
			for (u32 at = 0; at < payload; at++) {
				const Bytes piece = receive->payload_from(at);

				ASSERT_GT(piece.size(), 0);
				ASSERT_LE(at + piece.size(), payload);
				ASSERT_EQ(piece[0], pattern(header + at));
				ASSERT_EQ(piece[piece.size() - 1],
					  pattern(header + at + u32(piece.size()) - 1));
			}
		});
}

RPCORDMA_TEST(rdma_message_pages, receive_without_memory)
{
	using trace::Failure;

	/* The Receive, its head and what describes pages; the pages; all mappings, the head's first. */
	for (u32 failing = 0; failing < 3 + kCount + 1 + kCount; failing++) {
		TEST_NOTE("failing", failing);
		Maker c;
		const bool head = failing == 3 + kCount;

		if (failing < 3)
			c.memory.allocations_left = failing;
		else if (failing < 3 + kCount)
			c.memory.pages_left = failing - 3;
		else
			c.dma.mappings_left = failing - 3 - kCount;
		EXPECT_EQ(c.maker.create(RPCORDMA_ALLOC_ATOMIC), nullptr);
		c.expect_taken(0, 0, 0);
		EXPECT_EQ(c.log.take(Failure::receive_alloc_failed), head ? 0 : 1);
		EXPECT_EQ(c.log.take(Failure::receive_map_failed), head ? 1 : 0);
		c.want_for_nothing();
		EXPECT_NE(c.make(), nullptr);
		c.expect_taken(3, kCount, 1 + kCount);
	}
}

/* A Receive gets pages, and loses them, as its maker says; each time it is what the device is to write to. */
RPCORDMA_TEST(rdma_message_pages, with_and_without)
{
	Maker c;

	c.maker.use_pages(false);
	EXPECT_EQ(c.maker.whole_size(), kHead);
	Receive *receive = c.make();
	for (u32 turn = 0; turn < 2; turn++) {
		EXPECT_TRUE(c.maker.complete(*receive));
		EXPECT_EQ(receive->wr.num_sge, 1);
		EXPECT_EQ(receive->wr.sg_list, &receive->sge);
		c.expect_taken(2, 0, 1);
		c.arrive(receive, kHead, 36);
		EXPECT_EQ(receive->payload_length(), kHead - 36);

		c.maker.use_pages(true);
		EXPECT_FALSE(c.maker.complete(*receive));
		c.memory.pages_left = kCount - 1;
		EXPECT_FALSE(c.maker.add_pages(receive, RPCORDMA_ALLOC_ATOMIC));
		c.want_for_nothing();
		EXPECT_FALSE(c.maker.complete(*receive));
		EXPECT_EQ(receive->wr.num_sge, 1);
		EXPECT_TRUE(c.maker.add_pages(receive, RPCORDMA_ALLOC_ATOMIC));
		EXPECT_TRUE(c.maker.complete(*receive));
		c.arrive(receive, kWhole, 36);
		EXPECT_EQ(receive->payload_length(), kWhole - 36);

		/* One that somebody has is exchanged, and the device has the new one. */
		page *had = receive->pages->pages()[1];
		had->references++;
		EXPECT_TRUE(c.maker.renew_pages(receive, RPCORDMA_ALLOC_ATOMIC));
		EXPECT_NE(receive->pages->pages()[1], had);
		c.arrive(receive, kWhole, 36);
		EXPECT_EQ(receive->payload_from(kHead - 36 + kPage)[0], pattern(kHead + kPage));
		c.memory.put_page(had);

		c.maker.drop_pages(receive);
		c.maker.use_pages(false);
	}
	/* Where a device has too few SGEs there are none, whatever is asked for. */
	c.maker.have_pages({});
	c.maker.use_pages(true);
	EXPECT_FALSE(c.maker.with_pages());
	EXPECT_EQ(c.log.take(trace::Failure::receive_alloc_failed), 2);
}

RPCORDMA_SUITE(rdma_message_pages, create, describe, sync, piece, renew, renew_fails, send,
	       send_with, receive, receive_without_memory, with_and_without);

} // namespace rpcordma
