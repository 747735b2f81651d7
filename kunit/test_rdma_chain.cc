// SPDX-License-Identifier: GPL-2.0-only
/*
 * Chains of RDMA work requests: module/rdma/chain.hh. A chain is executed as a device would, on local
 * memory described by SGEs and a peer's memory described by segments, and each byte must arrive.
 */
#include "kunit/test_rdma_random.hh"
#include "kunit/testing.hh"
#include "module/rdma/chain.hh"

namespace rpcordma {
namespace {

constexpr u32 kRequests = 32, kSges = 96, kLocal = 40;

/** Room for a chain. */
struct Room {
	rpcordma_rdma_wr requests[kRequests];
	rpcordma_sge sges[kSges];
	rpcordma_cqe cqe;
};

/* Filled with what no field may be left at. */
Room &fresh_room()
{
	Room &room = test_zeroed<Room>();

	__builtin_memset(&room, 0xee, sizeof(room));
	return room;
}

xdr::Segment segment(u32 handle, u32 length, u64 offset)
{
	return {Rkey(handle), length, offset};
}

/* One work request against what it should be; its SGEs by address and length. */
void expect_request(const rpcordma_rdma_wr &wr, const Room &room, int opcode, u32 rkey, u64 address,
		    Span<const rpcordma_sge> sges)
{
	EXPECT_EQ(wr.wr.opcode, opcode);
	EXPECT_EQ(wr.wr.cqe, &room.cqe);
	EXPECT_EQ(wr.wr.send_flags, 0);
	EXPECT_EQ(wr.rkey, rkey);
	EXPECT_EQ(wr.remote_addr, address);
	ASSERT_EQ(wr.wr.num_sge, sges.size());
	for (usize i = 0; i < sges.size(); i++) {
		TEST_NOTE("sge", i);
		EXPECT_EQ(wr.wr.sg_list[i].addr, sges[i].addr);
		EXPECT_EQ(wr.wr.sg_list[i].length, sges[i].length);
		EXPECT_EQ(wr.wr.sg_list[i].lkey, sges[i].lkey);
	}
}

} // namespace

/* A segment that ends within an SGE splits it; one that ends with it does not. */
RPCORDMA_TEST(rdma_chain, splits)
{
	Room &room = fresh_room();
	static constexpr rpcordma_sge local[] = {{1000, 100, 1}, {5000, 50, 2}, {9000, 70, 3}};
	ChainBuilder chain(local, room.requests, room.sges, 8, ~0u, RPCORDMA_WR_RDMA_READ,
			   &room.cqe);

	EXPECT_EQ(chain.count(), 0);
	ASSERT_TRUE(chain.transfer(segment(7, 30, 0x70000)));
	ASSERT_TRUE(chain.transfer(segment(8, 0, 0x80000)));
	ASSERT_TRUE(chain.transfer(segment(9, 120, 0x90000)));
	ASSERT_TRUE(chain.transfer(segment(10, 70, 0xa0000)));
	ASSERT_EQ(chain.count(), 3);

	static constexpr rpcordma_sge first[] = {{1000, 30, 1}};
	static constexpr rpcordma_sge second[] = {{1030, 70, 1}, {5000, 50, 2}};
	static constexpr rpcordma_sge third[] = {{9000, 70, 3}};
	expect_request(room.requests[0], room, RPCORDMA_WR_RDMA_READ, 7, 0x70000, first);
	expect_request(room.requests[1], room, RPCORDMA_WR_RDMA_READ, 9, 0x90000, second);
	expect_request(room.requests[2], room, RPCORDMA_WR_RDMA_READ, 10, 0xa0000, third);
	EXPECT_EQ(room.requests[0].wr.next, &room.requests[1].wr);
	EXPECT_EQ(room.requests[1].wr.next, &room.requests[2].wr);
	EXPECT_EQ(room.requests[2].wr.next, nullptr);
	EXPECT_EQ(&chain.last(), &room.requests[2].wr);

	/* All of it is used up. */
	EXPECT_FALSE(chain.transfer(segment(11, 1, 0)));
	EXPECT_FALSE(chain.skip(1));
	EXPECT_TRUE(chain.transfer(segment(11, 0, 0)));
	EXPECT_TRUE(chain.skip(0));
}

/* A segment over more SGEs than a work request takes goes on in the next one. */
RPCORDMA_TEST(rdma_chain, max_sge)
{
	static constexpr rpcordma_sge local[] = {
		{1000, 10, 1}, {2000, 10, 1}, {3000, 10, 1}, {4000, 10, 1}, {5000, 10, 1},
	};

	for (u32 most = 1; most <= 6; most++) {
		TEST_NOTE("SGEs at most", most);
		Room &room = fresh_room();
		ChainBuilder chain(local, room.requests, room.sges, most, ~0u,
				   RPCORDMA_WR_RDMA_WRITE, &room.cqe);

		ASSERT_TRUE(chain.transfer(segment(7, 45, 0x70000)));
		ASSERT_EQ(chain.count(), (5 + most - 1) / most);
		for (u32 i = 0; i < chain.count(); i++) {
			rpcordma_sge expected[6];
			u32 n = 0;

			TEST_NOTE("request", i);
			for (u32 j = i * most; j < 5 && n < most; j++)
				expected[n++] = {1000 * (j + 1), j == 4 ? 5u : 10u, 1};
			expect_request(room.requests[i], room, RPCORDMA_WR_RDMA_WRITE, 7,
				       0x70000 + 10 * i * most, {expected, n});
		}
		EXPECT_TRUE(chain.skip(5));
		EXPECT_FALSE(chain.skip(1));
	}
}

RPCORDMA_TEST(rdma_chain, skip)
{
	Room &room = fresh_room();
	static constexpr rpcordma_sge local[] = {{1000, 100, 1}, {5000, 50, 2}, {9000, 70, 3}};
	ChainBuilder chain(local, room.requests, room.sges, 8, ~0u, RPCORDMA_WR_RDMA_READ,
			   &room.cqe);

	/* Within an SGE, to its end, over one, and too far. */
	ASSERT_TRUE(chain.skip(10));
	ASSERT_TRUE(chain.transfer(segment(7, 20, 0x70000)));
	ASSERT_TRUE(chain.skip(70));
	ASSERT_TRUE(chain.transfer(segment(8, 5, 0x80000)));
	ASSERT_TRUE(chain.skip(55));
	ASSERT_TRUE(chain.transfer(segment(9, 5, 0x90000)));
	static constexpr rpcordma_sge first[] = {{1010, 20, 1}};
	static constexpr rpcordma_sge second[] = {{5000, 5, 2}};
	static constexpr rpcordma_sge third[] = {{9010, 5, 3}};
	ASSERT_EQ(chain.count(), 3);
	expect_request(room.requests[0], room, RPCORDMA_WR_RDMA_READ, 7, 0x70000, first);
	expect_request(room.requests[1], room, RPCORDMA_WR_RDMA_READ, 8, 0x80000, second);
	expect_request(room.requests[2], room, RPCORDMA_WR_RDMA_READ, 9, 0x90000, third);
	EXPECT_FALSE(chain.skip(56));
}

/* No room for one more work request, or one more SGE; what fits exactly does. */
RPCORDMA_TEST(rdma_chain, room)
{
	static constexpr rpcordma_sge local[] = {{1000, 10, 1}, {2000, 10, 1}, {3000, 10, 1}};
	Room &room = fresh_room();

	for (usize requests = 0; requests <= 4; requests++)
		for (usize sges = 0; sges <= 4; sges++) {
			TEST_NOTE("requests", requests);
			TEST_NOTE("sges", sges);
			ChainBuilder one(local, Span(room.requests).first(requests),
					 Span(room.sges).first(sges), 8, ~0u, RPCORDMA_WR_RDMA_READ,
					 &room.cqe);
			EXPECT_EQ(one.transfer(segment(7, 30, 0)), requests >= 1 && sges >= 3);

			ChainBuilder three(local, Span(room.requests).first(requests),
					   Span(room.sges).first(sges), 1, ~0u,
					   RPCORDMA_WR_RDMA_READ, &room.cqe);
			EXPECT_EQ(three.transfer(segment(7, 30, 0)), requests >= 3 && sges >= 3);
		}
	/* More at the peer than here. */
	ChainBuilder chain(local, room.requests, room.sges, 8, ~0u, RPCORDMA_WR_RDMA_READ,
			   &room.cqe);
	EXPECT_FALSE(chain.transfer(segment(7, 31, 0)));
}

namespace {

constexpr u32 kBytes = 4096;

/** Local memory in pieces, anywhere, and what the chain makes of it at the peer. */
struct World {
	u8 local[kBytes];
	rpcordma_sge sges[kLocal];
	u32 sge_count;
	u8 peer[kBytes];
	u8 expected[kBytes];
};

/* The @i th byte of the local stream. */
u8 *local_byte(World &world, u32 i)
{
	for (u32 n = 0; n < world.sge_count; n++) {
		const rpcordma_sge &sge = world.sges[n];

		if (i < sge.length)
			return world.local + sge.addr + i;
		i -= sge.length;
	}
	return nullptr;
}

/* Write, as a device does. */
void execute(World &world, const rpcordma_send_wr *first, u32 count, u32 most,
	     const rpcordma_cqe *cqe)
{
	for (const rpcordma_send_wr *wr = first; wr; wr = wr->next, count--) {
		const auto *rdma = reinterpret_cast<const rpcordma_rdma_wr *>(wr);
		u64 at = rdma->remote_addr;

		ASSERT_GT(count, 0);
		EXPECT_EQ(wr->opcode, RPCORDMA_WR_RDMA_WRITE);
		EXPECT_EQ(wr->cqe, cqe);
		EXPECT_GT(wr->num_sge, 0);
		EXPECT_LE(wr->num_sge, most);
		/* Its segment, and no other. */
		EXPECT_EQ(rdma->rkey, 100 + at / 128);
		for (int i = 0; i < wr->num_sge; i++) {
			const rpcordma_sge &sge = wr->sg_list[i];

			EXPECT_GT(sge.length, 0);
			EXPECT_EQ(sge.lkey, 3);
			ASSERT_LE(sge.addr + sge.length, kBytes);
			ASSERT_LE(at + sge.length, kBytes);
			__builtin_memcpy(world.peer + at, world.local + sge.addr, sge.length);
			at += sge.length;
		}
	}
	EXPECT_EQ(count, 0);
}

} // namespace

/* Any chain moves every byte where it belongs, and no other. */
RPCORDMA_TEST(rdma_chain, any)
{
	World &world = test_zeroed<World>();
	Room &room = fresh_room();
	u32 built = 0;

	for (u32 seed = 0; seed < 1000; seed++) {
		TEST_NOTE("seed", seed);
		Random random(seed);
		const u32 most = 1 + random.below(6);
		const u32 bytes = random.one_in(2) ? ~0u : 16 + random.below(200);
		u32 total = 0, at = 0, least = 0;

		world.sge_count = 1 + random.below(kLocal);
		for (u32 i = 0; i < world.sge_count; i++) {
			/* From the end of memory to its start, so that order is not what it seems. */
			const u32 length = 1 + random.below(kBytes / kLocal);

			world.sges[i] = {kBytes - (i + 1) * (kBytes / kLocal), length, 3};
			total += length;
		}
		for (u8 &byte : world.local)
			byte = u8(random.below(256));
		__builtin_memset(world.peer, 0, kBytes);
		__builtin_memset(world.expected, 0, kBytes);

		ChainBuilder chain({world.sges, world.sge_count}, room.requests, room.sges, most,
				   bytes, RPCORDMA_WR_RDMA_WRITE, &room.cqe);
		bool good = true;
		for (u32 n = 0; n < 16 && good; n++) {
			const u32 skipped = random.one_in(3) ? random.below(40) : 0;
			const u32 length = random.below(128);

			if (at + skipped + length > total)
				break;
			good = chain.skip(skipped);
			ASSERT_TRUE(good);
			at += skipped;
			good = chain.transfer(segment(100 + n, length, 128 * n));
			for (u32 i = 0; i < length; i++)
				world.expected[128 * n + i] = *local_byte(world, at++);
			const u32 longest = bytes < kBytes / kLocal * most ? bytes :
									     kBytes / kLocal * most;
			least += (length + longest - 1) / longest;
		}
		/* Out of room only where there may be none. */
		if (!good) {
			EXPECT_EQ(chain.count(), kRequests);
			continue;
		}
		built++;
		EXPECT_GE(chain.count(), least);
		for (u32 i = 0; i < chain.count(); i++) {
			u32 length = 0;
			for (int n = 0; n < room.requests[i].wr.num_sge; n++)
				length += room.requests[i].wr.sg_list[n].length;
			EXPECT_LE(length, bytes);
		}
		execute(world, chain.count() ? &room.requests[0].wr : nullptr, chain.count(), most,
			&room.cqe);
		EXPECT_BYTES(Bytes(world.peer), Bytes(world.expected));
	}
	EXPECT_GT(built, 800);
}

/* In several, each of which begins where the one before had no more room: the same work requests as in one. */
RPCORDMA_TEST(rdma_chain, parts)
{
	static constexpr rpcordma_sge local[] = {{1000, 100, 1}, {5000, 50, 2}, {9000, 70, 3}};

	for (u32 most = 1; most <= 8; most++) {
		TEST_NOTE("work requests of a part", most);
		Room &whole = fresh_room(), &room = fresh_room();
		auto build = [&](ChainBuilder &chain) {
			return chain.transfer(segment(7, 30, 0x70000)) && chain.skip(10) &&
			       chain.transfer(segment(8, 140, 0x80000)) &&
			       chain.transfer(segment(9, 40, 0x90000));
		};
		ChainBuilder all(local, whole.requests, whole.sges, 1, 25, RPCORDMA_WR_RDMA_READ,
				 &room.cqe);

		ASSERT_TRUE(build(all));
		for (u32 done = 0, last = 0; !last;) {
			TEST_NOTE("done", done);
			ChainBuilder chain(local, {room.requests, most}, room.sges, 1, 25,
					   RPCORDMA_WR_RDMA_READ, &room.cqe);

			chain.begin_at(done);
			last = build(chain);
			ASSERT_GT(chain.count(), 0);
			for (u32 i = 0; i < chain.count(); i++) {
				const rpcordma_rdma_wr &wr = whole.requests[done + i];

				expect_request(room.requests[i], room, RPCORDMA_WR_RDMA_READ,
					       wr.rkey, wr.remote_addr, {wr.wr.sg_list, 1});
				if (i)
					EXPECT_EQ(room.requests[i - 1].wr.next,
						  &room.requests[i].wr);
			}
			done += chain.count();
			if (last)
				EXPECT_EQ(done, all.count());
		}
	}
}

RPCORDMA_SUITE(rdma_chain, splits, max_sge, skip, room, any, parts);

} // namespace rpcordma
