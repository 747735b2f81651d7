// SPDX-License-Identifier: GPL-2.0-only
/* Memory, pages, DMA. See memory.hh. */
#include "selftests/sim/memory.hh"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "selftests/sim/swarm.hh"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, length) ((void)(at), (void)(length))
#define ASAN_UNPOISON_MEMORY_REGION(at, length) ((void)(at), (void)(length))
#endif

namespace sim {
namespace {

/* Pages lie in one array, so that neighbours are neighbours for a device as well. */
constexpr u32 kPages = 32768;
constexpr u32 kScattered = 8192; /* of these, where they are in any order */

struct Block {
	u32 size;
	u32 mapped;
	void *base; /* as the C library knows it */
};

struct Mapping {
	u8 *at;
	u32 length;
	rpcordma_dma direction;
	u8 *copy;  /* with bounce buffers */
	bool lent; /* dma_lend() */
};

struct Arena {
	u8 *data = nullptr;
	page pages[kPages];
} * arena;

std::map<u8 *, Block> blocks;
std::map<u64, Mapping> mappings;
std::vector<u32> free_pages; /* from next_page on, the longest free first */
u32 next_page;
u32 pages_out;
u64 next_address;

/* The block that @at lies in. */
Block *block_of(const void *at)
{
	auto it = blocks.upper_bound(static_cast<u8 *>(const_cast<void *>(at)));

	if (it == blocks.begin())
		return nullptr;
	--it;
	return static_cast<const u8 *>(at) < it->first + it->second.size ? &it->second : nullptr;
}

void count_mapping(u8 *at, u32 length, int by)
{
	if (page *first = page_of(at)) {
		for (page *p = first; p <= page_of(at + length - 1); p++) {
			REQUIRE(p->references, "a page is mapped for a device that nobody has");
			p->mapped += u32(by);
		}
		return;
	}
	Block *block = block_of(at);
	REQUIRE(block, "memory is mapped for a device that is not allocated");
	block->mapped += u32(by);
}

/* The live mapping of the device's @address. */
std::pair<const u64, Mapping> &mapping_at(u64 address, const char *who)
{
	auto it = mappings.upper_bound(address);

	REQUIRE(it != mappings.begin(), "%s: nothing is mapped at %#llx", who,
		(unsigned long long)address);
	--it;
	REQUIRE(address - it->first < it->second.length,
		"%s: nothing is mapped at %#llx (any more)", who, (unsigned long long)address);
	return *it;
}

} // namespace

Memory *memory;
std::function<void(u8 *, const u8 *, u32)> device_wrote;

static bool draw_moves()
{
	return chance.one_in(3);
}

Memory::Memory()
{
	if (!arena) {
		arena = new Arena;
		arena->data = static_cast<u8 *>(std::aligned_alloc(kPageSize, kPages * kPageSize));
		ASAN_POISON_MEMORY_REGION(arena->data, kPages * kPageSize);
	}
	memory = this;
	bounce = chance.one_in(3);
	moves = bounce && draw_moves();
	next_address = 0x100000000;
	pages_out = 0;
	/* Neighbours come one after the other, in runs of eight, the runs in any order. */
	free_pages.resize(kPages);
	next_page = 0;
	for (u32 i = 0; i < kPages; i++)
		free_pages[i] = i;
	for (u32 i = 0; i < 128; i++) {
		const u32 one = 8 * chance.below(128), other = 8 * chance.below(128);

		if (one != other)
			std::swap_ranges(&free_pages[one], &free_pages[one + 8], &free_pages[other]);
	}
	/* After months no page has its neighbour beside it: each is a piece of its own for a device. */
	if (swarm.scattered)
		for (u32 i = 0; i < kScattered; i++)
			std::swap(free_pages[i], free_pages[chance.below(kScattered)]);
	scratch = page_create();
}

Memory::~Memory()
{
	page_put(scratch);
	for (auto &[address, mapping] : mappings)
		fail("a DMA mapping of %u bytes is left", mapping.length);
	for (auto &[at, block] : blocks)
		fail("%zu allocations are left, one of %u bytes", blocks.size(), block.size);
	REQUIRE(!pages_out, "%u pages are left", pages_out);
	memory = nullptr;
}

/* Memory is short: whoever may sleep has other memory written out first. */
static void reclaim()
{
	if (faults.strikes(faults.reclaim))
		sleep_for(chance.below(faults.patience * kMillisecond + 1),
			  "memory to be reclaimed");
}

void *allocate(u32 size, rpcordma_alloc_how how)
{
	if (how != RPCORDMA_ALLOC_ATOMIC)
		may_sleep("allocation");
	port_call();
	if (how != RPCORDMA_ALLOC_ATOMIC)
		reclaim();
	/* A service's thread tries hard. */
	const u32 odds = how == RPCORDMA_ALLOC_SERVICE ? 8 * faults.memory : faults.memory;
	if (faults.strikes(odds)) {
		TRACE("no memory for %u bytes", size);
		faults.memory_failures++;
		faults.memory_failed_at = now();
		return nullptr;
	}
	/* The place in a page of what may be a message is chosen, since that decides about segments. */
	const bool placed = size >= 512 && size <= 16 * kPageSize;
	const bool natural = size >= 64 && !(size & (size - 1));
	u32 offset = 0;
	if (placed)
		offset = natural && size >= kPageSize ? 0 :
			 natural		      ? size * chance.below(kPageSize / size) :
							64 * chance.below(kPageSize / 64);
	const u32 align = placed ? kPageSize : natural ? 64 : 16;
	const u32 whole = (offset + size + align - 1) / align * align;
	u8 *base = static_cast<u8 *>(std::aligned_alloc(align, whole));
	u8 *at = base + offset;

	std::memset(at, 0, size);
	ASAN_POISON_MEMORY_REGION(base, offset);
	ASAN_POISON_MEMORY_REGION(at + size, base + whole - (at + size));
	blocks[at] = {size, 0, base};
	memory->allocations++;
	return at;
}

void release(void *at)
{
	if (!at)
		return;
	auto it = blocks.find(static_cast<u8 *>(at));
	REQUIRE(it != blocks.end(), "memory is freed that is not allocated (any more)");
	REQUIRE(!it->second.mapped, "memory of %u bytes is freed while a device may use it",
		it->second.size);
	void *base = it->second.base;
	blocks.erase(it);
	std::free(base);
}

/* --- pages --- */

page *page_create()
{
	REQUIRE(next_page < free_pages.size(), "the simulation is out of pages");
	const u32 index = free_pages[next_page++];
	page *p = &arena->pages[index];

	*p = {arena->data + std::size_t(index) * kPageSize, 1, 0, 0, 0};
	ASAN_UNPOISON_MEMORY_REGION(p->data, kPageSize);
	/* What was there before is nobody's business; to spoil its ends is enough. */
	std::memset(p->data, 0xdd, 64);
	std::memset(p->data + kPageSize - 64, 0xdd, 64);
	pages_out++;
	return p;
}

void page_get(page *p)
{
	REQUIRE(p->references, "a page is got that nobody has");
	p->references++;
}

void page_put(page *p)
{
	REQUIRE(p->references, "a page is put that nobody has");
	if (--p->references)
		return;
	REQUIRE(!p->mapped, "a page is freed while a device may use it");
	REQUIRE(!p->lent, "a page is freed that is lent to the service");
	ASAN_POISON_MEMORY_REGION(p->data, kPageSize);
	free_pages.push_back(u32(p - arena->pages));
	pages_out--;
}

page *page_of(const void *at)
{
	const auto offset = std::size_t(static_cast<const u8 *>(at) - arena->data);

	return offset < std::size_t(kPages) * kPageSize ? &arena->pages[offset / kPageSize] :
							  nullptr;
}

/* --- DMA --- */

u64 dma_map(void *at, u32 length, rpcordma_dma direction)
{
	u8 *bytes = static_cast<u8 *>(at);

	REQUIRE(length, "nothing is mapped");
	if (faults.strikes(faults.mapping)) {
		faults.mapping_failures++;
		return 0;
	}
	count_mapping(bytes, length, 1);
	const u64 address = next_address + (reinterpret_cast<u64>(at) & (kPageSize - 1));
	next_address = (address + length + 2 * kPageSize) & ~u64(kPageSize - 1);
	u8 *copy = nullptr;
	if (memory->bounce) {
		copy = static_cast<u8 *>(std::malloc(length));
		/* Both ways: what the device does not write is to stay as it is. */
		std::memcpy(copy, bytes, length);
	}
	mappings[address] = {bytes, length, direction, copy, false};
	return address;
}

void dma_unmap(u64 address, u32 length, rpcordma_dma direction, bool take_back)
{
	auto it = mappings.find(address);

	REQUIRE(it != mappings.end(), "unmap: nothing is mapped at %#llx (any more)",
		(unsigned long long)address);
	const Mapping mapping = it->second;
	REQUIRE(mapping.length == length && mapping.direction == direction,
		"unmap: %u bytes were mapped, in another way or another number than %u",
		mapping.length, length);
	mappings.erase(it);
	count_mapping(mapping.at, length, -1);
	if (take_back && mapping.copy && direction == RPCORDMA_DMA_FROM_DEVICE)
		std::memcpy(mapping.at, mapping.copy, length);
	std::free(mapping.copy);
}

void dma_sync(u64 address, u32 length, rpcordma_dma direction)
{
	auto &[start, mapping] = mapping_at(address, "sync");
	const u64 into = address - start;

	REQUIRE(into + length <= mapping.length && mapping.direction == direction,
		"sync: beyond the mapping, or the wrong way");
	if (!mapping.copy)
		return;
	if (direction == RPCORDMA_DMA_TO_DEVICE)
		std::memcpy(mapping.copy + into, mapping.at + into, length);
	else
		std::memcpy(mapping.at + into, mapping.copy + into, length);
}

void dma_access(u64 address, u32 length, void *buffer, Access access)
{
	u8 *bytes = static_cast<u8 *>(buffer);

	while (length) {
		auto &[start, mapping] = mapping_at(address, "device");
		const u64 into = address - start;
		const u32 n = u32(std::min<u64>(length, mapping.length - into));
		u8 *at = (mapping.copy ? mapping.copy : mapping.at) + into;

		if (access == Access::read) {
			REQUIRE(mapping.direction == RPCORDMA_DMA_TO_DEVICE,
				"the device reads what is mapped to be written");
			std::memcpy(bytes, at, n);
		} else {
			REQUIRE(mapping.direction == RPCORDMA_DMA_FROM_DEVICE,
				"the device writes what is mapped to be read");
			std::memcpy(at, bytes, n);
			if (device_wrote)
				device_wrote(mapping.at + into, bytes, n);
		}
		bytes += n;
		address += n;
		length -= n;
	}
}

void dma_lend(u64 address)
{
	mapping_at(address, "lender").second.lent = true;
}

bool dma_is_lent(u64 address)
{
	return mapping_at(address, "device").second.lent;
}

bool dma_is_others(u64 address, u32 length)
{
	const auto &[start, mapping] = mapping_at(address, "device");
	u8 *const at = mapping.at + (address - start);

	for (page *p = page_of(at); p && p <= page_of(at + length - 1); p++)
		if (p->references > 1 || p->lent)
			return true;
	return false;
}

bool dma_is_mapped(const void *at, u32 length)
{
	const u8 *from = static_cast<const u8 *>(at);
	const Block *block = block_of(at);

	if (block && !block->mapped)
		return false;
	for (auto &[address, mapping] : mappings)
		if (mapping.at < from + length && from < mapping.at + mapping.length)
			return true;
	return false;
}

void Scatter::reset()
{
	REQUIRE(!mapped_, "a scatterlist is reset while it is mapped");
	runs_.clear();
}

bool Scatter::add(void *at, u32 length, u32 longest)
{
	u8 *bytes = static_cast<u8 *>(at);

	if (!runs_.empty()) {
		Run &last = runs_.back();

		/* Two allocations are never taken for one, however near. */
		if (last.at + last.length == bytes && page_of(at) && page_of(last.at) &&
		    (!longest || last.length + length <= longest)) {
			last.length += length;
			return true;
		}
		if (last.at + last.length == bytes && !page_of(at) &&
		    block_of(last.at) == block_of(at)) {
			last.length += length;
			return true;
		}
	}
	if (runs_.size() == room_)
		return false;
	runs_.push_back({bytes, length, 0});
	return true;
}

bool Scatter::add_pages(page *const *pages, u32 in_page, u32 length, u32 longest)
{
	pages += in_page / kPageSize;
	in_page %= kPageSize;
	for (; length; pages++, in_page = 0) {
		const u32 n = std::min(length, kPageSize - in_page);

		REQUIRE(*pages, "an absent page is to be mapped");
		if (!add((*pages)->data + in_page, n, longest))
			return false;
		length -= n;
	}
	return true;
}

bool Scatter::add_buf(const rpcordma_xdr_buf *buf, u32 offset, u32 length, u32 longest)
{
	bool fits = true;

	return each_piece(buf, offset, length,
			  [&](u8 *at, u32 n) { fits = fits && add(at, n, longest); }) &&
	       fits;
}

bool Scatter::map(rpcordma_dma direction)
{
	REQUIRE(!mapped_, "what is mapped is mapped again");
	for (Run &run : runs_) {
		run.address = dma_map(run.at, run.length, direction);
		if (run.address)
			continue;
		for (Run &done : runs_) {
			if (&done == &run)
				break;
			dma_unmap(done.address, done.length, direction);
		}
		return false;
	}
	mapped_ = true;
	direction_ = direction;
	return true;
}

void Scatter::unmap()
{
	if (!mapped_)
		return;
	for (Run &run : runs_)
		dma_unmap(run.address, run.length, direction_);
	mapped_ = false;
}

bool each_piece(const rpcordma_xdr_buf *buf, u32 offset, u32 length,
		const std::function<void(u8 *, u32)> &visit)
{
	auto kvec = [&](const rpcordma_kvec &part) {
		if (offset >= part.length) {
			offset -= u32(part.length);
			return;
		}
		const u32 n = std::min(u32(part.length) - offset, length);
		if (n)
			visit(static_cast<u8 *>(part.base) + offset, n);
		offset = 0;
		length -= n;
	};

	kvec(buf->head);
	if (offset >= buf->page_length) {
		offset -= buf->page_length;
	} else {
		u32 at = buf->page_base + offset, n = std::min(buf->page_length - offset, length);

		offset = 0;
		length -= n;
		while (n) {
			const u32 in_page = at % kPageSize, m = std::min(n, kPageSize - in_page);
			page *p = buf->pages[at / kPageSize];

			REQUIRE(p, "an absent page of a message is touched");
			visit(p->data + in_page, m);
			at += m;
			n -= m;
		}
	}
	kvec(buf->tail);
	return !length;
}

} // namespace sim
