// SPDX-License-Identifier: GPL-2.0-only
/* The port's doubles for the tests of module/rdma; see test_rdma_port.hh. No tests here. */
#include "kunit/test_rdma_port.hh"

unsigned int rpcordma_trace_enabled;

namespace rpcordma {
namespace {

struct Block {
	void *memory;
	usize size;
	u32 mapped; /* bytes; 0: not mapped */
	rpcordma_dma direction;
	u8 *bounce; /* null: not mapped */
};

Block blocks[FakePort::kMost];
const rpcordma_recv_wr *queue[FakePort::kMost]; /* the first one posted first */

/* The block at @memory, or a free one when that is null; null when there is none. */
Block *block_at(const void *memory)
{
	for (Block &block : blocks)
		if (block.memory == memory)
			return &block;
	return nullptr;
}

/* The block that is mapped as @sge says; null when there is none. */
Block *block_of(const rpcordma_sge &sge)
{
	for (Block &block : blocks)
		if (block.bounce && reinterpret_cast<__UINTPTR_TYPE__>(block.bounce) == sge.addr)
			return &block;
	return nullptr;
}

/* Copy @length bytes of what @sge describes from memory to the device, or back. */
void sync(const rpcordma_sge &sge, u32 length, rpcordma_dma direction)
{
	Block *block = block_of(sge);

	ASSERT_NE(block, nullptr);
	ASSERT_LE(length, block->mapped);
	EXPECT_EQ(block->direction, direction);
	if (direction == RPCORDMA_DMA_TO_DEVICE)
		__builtin_memcpy(block->bounce, block->memory, length);
	else
		__builtin_memcpy(block->memory, block->bounce, length);
}

void post_one(const rpcordma_recv_wr &wr)
{
	for (u32 i = 0; i < FakePort::posted; i++)
		ASSERT_NE(queue[i], &wr);
	/* Accounting is the core's, so that this never happens. */
	ASSERT_LT(FakePort::posted, FakePort::receive_room);
	ASSERT_EQ(wr.num_sge, 1);
	ASSERT_NE(wr.cqe, nullptr);
	const Block *block = block_of(*wr.sg_list);
	ASSERT_NE(block, nullptr);
	EXPECT_EQ(block->mapped, wr.sg_list->length);
	EXPECT_EQ(block->direction, RPCORDMA_DMA_FROM_DEVICE);
	queue[FakePort::posted++] = &wr;
}

} // namespace

u32 FakePort::allocation_refused_at, FakePort::receive_room;
bool FakePort::takes_receives;
void (*FakePort::meanwhile)();
u32 FakePort::allocations_left, FakePort::mappings_left, FakePort::receives_left;
bool FakePort::may_sleep;
u32 FakePort::allocations, FakePort::mappings, FakePort::posted;
u32 FakePort::allocations_refused, FakePort::receives_refused;
u32 FakePort::doorbells, FakePort::traced_posts, FakePort::traced_errors;

FakePort::FakePort()
{
	allocations_left = mappings_left = receives_left = kNoLimit;
	allocation_refused_at = kNoLimit;
	receive_room = kMost;
	takes_receives = true;
	meanwhile = nullptr;
	may_sleep = false;
	allocations = mappings = posted = 0;
	allocations_refused = receives_refused = 0;
	doorbells = traced_posts = traced_errors = 0;
	rpcordma_trace_enabled = 0;
}

FakePort::~FakePort()
{
	EXPECT_EQ(allocations, 0);
	EXPECT_EQ(mappings, 0);
	for (Block &block : blocks) {
		if (block.bounce)
			rpcordma_test_free(block.bounce, block.mapped);
		if (block.memory)
			rpcordma_test_free(block.memory, block.size);
		block = {};
	}
}

bool FakePort::one_of(u32 &left)
{
	if (left == kNoLimit)
		return true;
	if (!left)
		return false;
	left--;
	return true;
}

rpcordma_endpoint *FakePort::endpoint()
{
	return reinterpret_cast<rpcordma_endpoint *>(blocks);
}

const rpcordma_recv_wr *FakePort::take_receive()
{
	if (!posted)
		return nullptr;
	const rpcordma_recv_wr *wr = queue[0];

	posted--;
	for (u32 i = 0; i < posted; i++)
		queue[i] = queue[i + 1];
	return wr;
}

Receive *FakePort::deliver(u32 length)
{
	const rpcordma_recv_wr *wr = take_receive();

	if (!wr)
		return nullptr;
	Receive *receive = OwnedCqe<Receive>::owner_of(wr->cqe);
	/* The device writes as much as the SGE allows: the sanitizers see what is not ours. */
	__builtin_memset(reinterpret_cast<void *>(static_cast<__UINTPTR_TYPE__>(wr->sg_list->addr)),
			 0x5a, wr->sg_list->length);
	receive->length = length;
	return receive;
}

} // namespace rpcordma

using namespace rpcordma;

void *rpcordma_alloc(rpcordma_size size, rpcordma_alloc_how how)
{
	EXPECT_TRUE(how == RPCORDMA_ALLOC_ATOMIC || FakePort::may_sleep);
	Block *block = block_at(nullptr);

	const bool this_one = !FakePort::allocation_refused_at;

	FakePort::allocation_refused_at -= FakePort::allocation_refused_at != FakePort::kNoLimit;
	if (!block || this_one || !FakePort::one_of(FakePort::allocations_left)) {
		FakePort::allocations_refused++;
		return nullptr;
	}
	*block = {rpcordma_test_alloc(size), size, 0, RPCORDMA_DMA_TO_DEVICE, nullptr};
	__builtin_memset(block->memory, 0, size);
	FakePort::allocations++;
	return block->memory;
}

void *rpcordma_alloc_large(rpcordma_size size, rpcordma_alloc_how how)
{
	return rpcordma_alloc(size, how);
}

void rpcordma_free_large(void *p)
{
	rpcordma_free(p);
}

void rpcordma_free(void *p)
{
	if (!p)
		return;
	Block *block = block_at(p);

	EXPECT_NE(block, nullptr);
	if (!block)
		return;
	EXPECT_EQ(block->mapped, 0);
	rpcordma_test_free(block->memory, block->size);
	*block = {};
	FakePort::allocations--;
}

int rpcordma_dma_map(rpcordma_endpoint *endpoint, void *memory, rpcordma_u32 length,
		     rpcordma_dma direction, rpcordma_sge *sge)
{
	EXPECT_EQ(endpoint, FakePort::endpoint());
	Block *block = block_at(memory);

	EXPECT_NE(block, nullptr);
	if (!block || !FakePort::one_of(FakePort::mappings_left))
		return -5;
	EXPECT_EQ(block->mapped, 0);
	EXPECT_LE(length, block->size);
	block->mapped = length;
	block->direction = direction;
	block->bounce = static_cast<u8 *>(rpcordma_test_alloc(length));
	__builtin_memcpy(block->bounce, memory, length);
	*sge = {reinterpret_cast<__UINTPTR_TYPE__>(block->bounce), length, 1};
	FakePort::mappings++;
	return 0;
}

void rpcordma_dma_unmap(rpcordma_endpoint *endpoint, const rpcordma_sge *sge, rpcordma_u32 length,
			rpcordma_dma direction)
{
	EXPECT_EQ(endpoint, FakePort::endpoint());
	Block *block = block_of(*sge);

	EXPECT_NE(block, nullptr);
	if (!block)
		return;
	EXPECT_EQ(block->mapped, length);
	EXPECT_EQ(block->direction, direction);
	if (direction == RPCORDMA_DMA_FROM_DEVICE)
		__builtin_memcpy(block->memory, block->bounce, block->mapped);
	rpcordma_test_free(block->bounce, block->mapped);
	block->bounce = nullptr;
	block->mapped = 0;
	FakePort::mappings--;
}

void rpcordma_dma_sync_for_device(rpcordma_endpoint *, const rpcordma_sge *sge, rpcordma_u32 length)
{
	sync(*sge, length, RPCORDMA_DMA_TO_DEVICE);
}

void rpcordma_dma_sync_for_cpu(rpcordma_endpoint *, const rpcordma_sge *sge, rpcordma_u32 length)
{
	sync(*sge, length, RPCORDMA_DMA_FROM_DEVICE);
	if (void (*const what)() = FakePort::meanwhile) {
		FakePort::meanwhile = nullptr;
		what();
	}
}

int rpcordma_post_receive(rpcordma_endpoint *endpoint, const rpcordma_recv_wr *first,
			  const rpcordma_recv_wr **bad)
{
	EXPECT_EQ(endpoint, FakePort::endpoint());
	EXPECT_TRUE(FakePort::takes_receives);
	FakePort::doorbells++;
	for (const rpcordma_recv_wr *wr = first; wr; wr = wr->next) {
		const u32 before = FakePort::posted;

		if (!FakePort::one_of(FakePort::receives_left)) {
			*bad = wr;
			for (; wr; wr = wr->next)
				FakePort::receives_refused++;
			return -12;
		}
		post_one(*wr);
		/* A chain that bites its own tail would go on for ever. */
		if (FakePort::posted == before)
			return -22;
	}
	return 0;
}

void rpcordma_cqe_init(rpcordma_cqe *cqe, rpcordma_cqe_kind kind)
{
	/* What else it may be is opaque: kinds are told apart, and from none. */
	cqe->done = reinterpret_cast<void *>(static_cast<__UINTPTR_TYPE__>(kind) + 1);
}

void rpcordma_trace_post(const rpcordma_peer *, const char *, rpcordma_u32, rpcordma_u32,
			 rpcordma_bool, int)
{
	FakePort::traced_posts++;
}

void rpcordma_trace_error(const rpcordma_peer *, const char *, rpcordma_u32, int)
{
	FakePort::traced_errors++;
}
