// SPDX-License-Identifier: GPL-2.0-only
/* DMA of the double of the port; see test_rdma_port_dma.hh. No tests here. */
#include "kunit/test_rdma_port.hh"

/* Opaque behind the port. */
struct rpcordma_bulk {
	rpcordma::u32 room, count;
	bool mapped;
	rpcordma_dma direction;
	rpcordma::DmaPiece *pieces;
};

namespace rpcordma {
namespace {

constexpr u64 kRegionAddress = u64(9) << 40;

/* Copy @length bytes of what @sge describes from memory to the device, or back. */
void sync(const rpcordma_sge &sge, u32 length, rpcordma_dma direction)
{
	Block *block = the_port->memory.block_of(sge);

	ASSERT_NE(block, nullptr);
	ASSERT_LE(length, block->mapped);
	EXPECT_EQ(block->direction, direction);
	if (direction == RPCORDMA_DMA_TO_DEVICE)
		__builtin_memcpy(block->bounce, block->memory, length);
	else
		__builtin_memcpy(block->memory, block->bounce, length);
}

/* The @length bytes of @buf from @offset on, in pieces that are contiguous; false: @visit stopped it. */
template <typename Visit>
bool each_piece_of(const rpcordma_xdr_buf *buf, u32 offset, u32 length, Visit &&visit)
{
	while (length) {
		u32 at = offset, n;
		u8 *from;

		if (at < buf->head.length) {
			from = static_cast<u8 *>(buf->head.base) + at;
			n = u32(buf->head.length) - at;
		} else if ((at -= u32(buf->head.length)) < buf->page_length) {
			const u32 in_pages = buf->page_base + at;

			from = buf->pages[in_pages / kPage]->data + in_pages % kPage;
			n = min(buf->page_length - at, kPage - in_pages % kPage);
		} else {
			at -= buf->page_length;
			if (at >= buf->tail.length) {
				EXPECT_TRUE(false);
				return false;
			}
			from = static_cast<u8 *>(buf->tail.base) + at;
			n = u32(buf->tail.length) - at;
		}
		n = min(n, length);
		if (!visit(from, n))
			return false;
		offset += n;
		length -= n;
	}
	return true;
}

/* The same of a buffer that says how long it is. */
template <typename Visit>
bool each_piece(const rpcordma_xdr_buf *buf, u32 offset, u32 length, Visit &&visit)
{
	EXPECT_LE(u64(offset) + length, buf->len);
	return each_piece_of(buf, offset, length, static_cast<Visit &&>(visit));
}

/* Unmapping takes long, as it may copy, or wait for an IOMMU: a client does none of it with a spin lock held. */
void expect_unlocked()
{
	if (the_port->verbs.requester)
		EXPECT_EQ(the_port->sync.locks_held, 0);
}

} // namespace

void DmaPiece::map()
{
	bounce = static_cast<u8 *>(rpcordma_test_alloc(length));
	__builtin_memcpy(bounce, memory, length);
}

void DmaPiece::unmap(rpcordma_dma direction)
{
	if (direction == RPCORDMA_DMA_FROM_DEVICE)
		__builtin_memcpy(memory, bounce, length);
	rpcordma_test_free(bounce, length);
	bounce = nullptr;
}

rpcordma_region *PortDma::region_of(u32 key) const
{
	for (rpcordma_region *region : all_regions)
		if (key && region && region->registered == key)
			return region;
	return nullptr;
}

bool PortDma::is_stale(u32 key) const
{
	const rpcordma_region *region = region_of(key);

	return region && region->mapped && region->key != key;
}

bool PortDma::invalidate(u32 key)
{
	rpcordma_region *region = region_of(key);

	if (region)
		region->registered = 0;
	return region != nullptr;
}

u8 *PortDma::byte_of(const rpcordma_region &region, u64 at)
{
	EXPECT_TRUE(region.mapped);
	for (u32 i = 0; region.mapped && i < region.count; i++) {
		if (at < region.pieces[i].length)
			return region.pieces[i].bounce + at;
		at -= region.pieces[i].length;
	}
	EXPECT_TRUE(false);
	return the_port->peer.memory;
}

u8 *PortDma::byte_of(const rpcordma_sge &sge, u32 at) const
{
	if (sge.addr < kRegionAddress || sge.addr >= kRegionAddress << 1)
		return reinterpret_cast<u8 *>(static_cast<__UINTPTR_TYPE__>(sge.addr)) + at;
	const rpcordma_region *region = region_of(sge.lkey);

	EXPECT_NE(region, nullptr);
	return region ? byte_of(*region, (sge.addr & 0xffffffff) + at) : the_port->peer.memory;
}

void PortDma::expect_none() const
{
	EXPECT_EQ(mappings, 0);
	EXPECT_EQ(bulks, 0);
	EXPECT_EQ(bulk_maps, 0);
	EXPECT_EQ(regions, 0);
	EXPECT_EQ(region_maps, 0);
}

} // namespace rpcordma

using namespace rpcordma;

/* --- verbs.h --- */

void *rpcordma_alloc_near(const rpcordma_endpoint *endpoint, rpcordma_size size,
			  rpcordma_alloc_how how)
{
	void *memory = rpcordma_alloc(size, how);

	EXPECT_EQ(endpoint, the_port->verbs.endpoint());
	if (memory)
		the_port->memory.block_at(memory)->near = true;
	return memory;
}

int rpcordma_dma_map(rpcordma_endpoint *endpoint, void *memory, rpcordma_u32 length,
		     rpcordma_dma direction, rpcordma_sge *sge)
{
	EXPECT_EQ(endpoint, the_port->verbs.endpoint());
	Block *block = the_port->memory.block_at(memory);

	EXPECT_NE(block, nullptr);
	if (!block || !take_one(the_port->dma.mappings_left))
		return -5;
	EXPECT_EQ(block->mapped, 0);
	EXPECT_LE(length, block->size);
	/* A client's Sends outlive their connection, and its device. */
	if (!the_port->memory.page_at(memory))
		EXPECT_EQ(block->near,
			  direction == RPCORDMA_DMA_FROM_DEVICE || the_port->verbs.server);
	block->mapped = length;
	block->direction = direction;
	block->bounce = static_cast<u8 *>(rpcordma_test_alloc(length));
	__builtin_memcpy(block->bounce, memory, length);
	*sge = {reinterpret_cast<__UINTPTR_TYPE__>(block->bounce), length, 1};
	the_port->dma.mappings++;
	return 0;
}

void rpcordma_dma_unmap(rpcordma_endpoint *endpoint, const rpcordma_sge *sge, rpcordma_u32 length,
			rpcordma_dma direction)
{
	EXPECT_EQ(endpoint, the_port->verbs.endpoint());
	Block *block = the_port->memory.block_of(*sge);

	expect_unlocked();
	EXPECT_NE(block, nullptr);
	if (!block)
		return;
	EXPECT_EQ(block->mapped, length);
	EXPECT_EQ(block->direction, direction);
	rpcordma_test_free(block->bounce, block->mapped);
	block->bounce = nullptr;
	block->mapped = 0;
	the_port->dma.mappings--;
}

void rpcordma_dma_sync_for_device(rpcordma_endpoint *, const rpcordma_sge *sge, rpcordma_u32 length)
{
	sync(*sge, length, RPCORDMA_DMA_TO_DEVICE);
}

void rpcordma_dma_sync_for_cpu(rpcordma_endpoint *, const rpcordma_sge *sge, rpcordma_u32 length)
{
	sync(*sge, length, RPCORDMA_DMA_FROM_DEVICE);
	if (void (*const what)() = the_port->sync.meanwhile) {
		the_port->sync.meanwhile = nullptr;
		what();
	}
}

/* A region could not be mapped for @tag, a client's XID: what the port says then. */
static int not_mapped(u32 tag, int error)
{
	the_port->client_ledger.failed(RPCORDMA_FAILURE_region_map_failed, tag, error);
	return error;
}

static void unmap(rpcordma_region *region)
{
	if (!region->mapped)
		return;
	expect_unlocked();
	for (u32 i = 0; i < region->count; i++)
		region->pieces[i].unmap(region->writable ? RPCORDMA_DMA_FROM_DEVICE :
							   RPCORDMA_DMA_TO_DEVICE);
	region->mapped = false;
	EXPECT_FALSE(region->map_untold);
	region->unmap_untold = the_port->verbs.requester;
	the_port->dma.region_maps--;
}

rpcordma_region *rpcordma_region_create(rpcordma_endpoint *, rpcordma_u32 pages,
					rpcordma_bool sg_gaps, int *error)
{
	EXPECT_TRUE(the_port->memory.may_sleep);
	EXPECT_EQ(the_port->sync.locks_held, 0);
	EXPECT_LE(pages, the_port->verbs.device.max_fast_reg_pages);
	EXPECT_TRUE(!sg_gaps || the_port->verbs.device.sg_gaps);
	for (u32 i = 0; i < the_port->dma.most_regions; i++) {
		if (the_port->dma.all_regions[i] || !take_one(the_port->dma.regions_left))
			continue;
		auto *region =
			static_cast<rpcordma_region *>(rpcordma_test_alloc(sizeof(rpcordma_region)));
		__builtin_memset(region, 0, sizeof(*region));
		region->slot = i;
		region->pages_most = pages;
		region->gaps = sg_gaps;
		the_port->dma.regions_with_gaps += sg_gaps;
		the_port->dma.all_regions[i] = region;
		the_port->dma.regions++;
		the_port->dma.regions_made++;
		return region;
	}
	*error = -12;
	return nullptr;
}

void rpcordma_region_destroy(rpcordma_region *region)
{
	EXPECT_TRUE(the_port->memory.may_sleep);
	/* A client has unmapped it, or says that it did not. */
	EXPECT_TRUE(!the_port->verbs.requester || !region->mapped || region->discard_told);
	EXPECT_FALSE(region->unmap_untold);
	unmap(region); /* registered or not */
	the_port->dma.all_regions[region->slot] = nullptr;
	the_port->dma.regions_with_gaps -= region->gaps;
	rpcordma_test_free(region, sizeof(*region));
	the_port->dma.regions--;
}

int rpcordma_region_map(rpcordma_region *region, const rpcordma_xdr_buf *buf, rpcordma_u32 offset,
			rpcordma_u32 length, rpcordma_bool writable, rpcordma_u32 tag,
			rpcordma_reg_wr *wr, rpcordma_mapping *mapping)
{
	EXPECT_FALSE(region->mapped);
	if (!the_port->verbs.requester) {
		EXPECT_TRUE(writable);
		EXPECT_EQ(tag, 0);
		EXPECT_LE(div_round_up(length, the_port->verbs.device.mr_page_size),
			  region->pages_most);
		EXPECT_EQ(offset % kPage, 0);
	}
	if (!take_one(the_port->dma.region_maps_left))
		return not_mapped(tag, -12);
	region->count = 0;
	region->length = length;
	region->writable = writable;
	const bool mapped = each_piece_of(buf, offset, length, [region](u8 *at, u32 n) {
		if (region->count == rpcordma_region::kPieces)
			return false;
		region->pieces[region->count++] = {at, n, nullptr};
		return true;
	});
	EXPECT_TRUE(mapped);
	if (the_port->dma.unmappable)
		return not_mapped(tag, -5);
	if (the_port->dma.places_lost && region->count > 1 && !region->gaps)
		for (u32 i = 0; i < region->count; i++)
			if (region->pieces[i].length != kPage)
				return not_mapped(tag, -5);
	for (u32 i = 0; i < region->count; i++)
		region->pieces[i].map();
	region->mapped = true;
	EXPECT_FALSE(region->unmap_untold);
	region->map_untold = the_port->verbs.requester;
	the_port->dma.region_maps++;
	region->key = ++the_port->dma.last_key;
	region->iova = the_port->verbs.requester ? u64(tag) << 32 :
						   kRegionAddress + (u64(region->slot) << 32);
	wr->mr = reinterpret_cast<ib_mr *>(region);
	wr->key = region->key;
	wr->access = writable ? RPCORDMA_ACCESS_LOCAL_WRITE | RPCORDMA_ACCESS_REMOTE_WRITE :
				RPCORDMA_ACCESS_REMOTE_READ;
	*mapping = {region->key, region->key, length, region->iova};
	if (the_port->verbs.server)
		the_port->ledger.mapped(region, *mapping);
	return 0;
}

void rpcordma_region_unmap(rpcordma_region *region)
{
	/* The peer could write to it, whoever has the pages next. */
	EXPECT_TRUE(!region->registered || the_port->verbs.broken ||
		    region->access == RPCORDMA_ACCESS_LOCAL_WRITE);
	unmap(region);
}

/* One page for all, whose bytes nobody reads: the device writes to it as it stands. */
int rpcordma_region_map_scratch(rpcordma_region *region, rpcordma_reg_wr *wr)
{
	static u8 scratch[kPage];

	EXPECT_FALSE(region->mapped);
	EXPECT_EQ(region->registered, 0);
	if (!take_one(the_port->dma.scratch_maps_left)) {
		the_port->client_ledger.failed(RPCORDMA_FAILURE_scratch_map_failed,
					       u32(region->iova >> 32), -12);
		return -12;
	}
	region->count = 0;
	for (u32 left = region->length; left;) {
		DmaPiece &piece = region->pieces[region->count++];

		piece = {scratch, min(left, kPage), nullptr};
		piece.map();
		left -= piece.length;
	}
	region->mapped = region->map_untold = true;
	the_port->dma.region_maps++;
	wr->mr = reinterpret_cast<ib_mr *>(region);
	wr->key = region->key;
	return 0;
}

/* --- svc.h --- */

rpcordma_bulk *rpcordma_bulk_create(rpcordma_u32 pieces, rpcordma_alloc_how how)
{
	EXPECT_TRUE(how == RPCORDMA_ALLOC_ATOMIC ||
		    (the_port->memory.may_sleep && !the_port->sync.locks_held));
	if (!take_one(the_port->dma.bulks_left))
		return nullptr;
	auto *bulk = static_cast<rpcordma_bulk *>(rpcordma_test_alloc(sizeof(rpcordma_bulk)));
	*bulk = {pieces, 0, false, RPCORDMA_DMA_TO_DEVICE, nullptr};
	bulk->pieces = static_cast<DmaPiece *>(rpcordma_test_alloc(pieces * sizeof(DmaPiece)));
	the_port->dma.bulks++;
	return bulk;
}

void rpcordma_bulk_destroy(rpcordma_bulk *bulk)
{
	EXPECT_FALSE(bulk->mapped);
	rpcordma_test_free(bulk->pieces, bulk->room * sizeof(DmaPiece));
	rpcordma_test_free(bulk, sizeof(*bulk));
	the_port->dma.bulks--;
}

static bool add_piece(rpcordma_bulk *bulk, u8 *at, u32 length)
{
	EXPECT_FALSE(bulk->mapped);
	if (bulk->count == bulk->room)
		return false;
	bulk->pieces[bulk->count++] = {at, length, nullptr};
	return true;
}

int rpcordma_bulk_add_pages(rpcordma_bulk *bulk, page **pages, rpcordma_u32 offset,
			    rpcordma_u32 length)
{
	rpcordma_xdr_buf buf = {};

	buf.pages = pages;
	buf.page_base = offset;
	buf.page_length = buf.len = length;
	const int rc = rpcordma_bulk_add_buf(bulk, &buf, 0, length);
	return rc ? rc : int(bulk->count);
}

int rpcordma_bulk_add_buf(rpcordma_bulk *bulk, const rpcordma_xdr_buf *buf, rpcordma_u32 offset,
			  rpcordma_u32 length)
{
	return each_piece(buf, offset, length,
			  [bulk](u8 *at, u32 n) { return add_piece(bulk, at, n); }) ?
		       0 :
		       -28;
}

int rpcordma_bulk_map(rpcordma_bulk *bulk, rpcordma_endpoint *endpoint, rpcordma_dma direction,
		      rpcordma_sge *sges, rpcordma_u32 room)
{
	EXPECT_EQ(endpoint, the_port->verbs.endpoint());
	EXPECT_FALSE(bulk->mapped);
	if (!take_one(the_port->dma.bulk_maps_left)) {
		bulk->count = 0;
		return -12;
	}
	EXPECT_LE(bulk->count, room);
	for (u32 i = 0; i < bulk->count; i++) {
		bulk->pieces[i].map();
		sges[i] = {reinterpret_cast<__UINTPTR_TYPE__>(bulk->pieces[i].bounce),
			   bulk->pieces[i].length, 1};
	}
	bulk->mapped = true;
	bulk->direction = direction;
	the_port->dma.bulk_maps++;
	u32 length;
	const u32 pieces = rpcordma_bulk_pieces(bulk, &length);
	the_port->ledger.mapped(direction, pieces, length);
	return int(bulk->count);
}

void rpcordma_bulk_unmap(rpcordma_bulk *bulk)
{
	if (bulk->mapped) {
		u32 length;
		const u32 pieces = rpcordma_bulk_pieces(bulk, &length);

		the_port->ledger.unmapped(bulk->direction, pieces, length);
		for (u32 i = 0; i < bulk->count; i++)
			bulk->pieces[i].unmap(bulk->direction);
		the_port->dma.bulk_maps--;
	}
	bulk->mapped = false;
	bulk->count = 0;
}

rpcordma_u32 rpcordma_bulk_pieces(const rpcordma_bulk *bulk, rpcordma_u32 *length)
{
	*length = 0;
	for (u32 i = 0; bulk->mapped && i < bulk->count; i++)
		*length += bulk->pieces[i].length;
	return bulk->mapped ? bulk->count : 0;
}

int rpcordma_pages_map(rpcordma_endpoint *endpoint, rpcordma_dma direction, page **pages,
		       rpcordma_u32 offset, rpcordma_u32 length, rpcordma_sge *sges,
		       rpcordma_u32 room)
{
	rpcordma_xdr_buf buf = {};
	u32 count = 0;

	EXPECT_EQ(endpoint, the_port->verbs.endpoint());
	EXPECT_NE(length, 0);
	/* No page has a neighbour. */
	if (div_round_up(offset % u32(kPage) + length, u32(kPage)) > room)
		return 0;
	if (!take_one(the_port->dma.bulk_maps_left))
		return the_port->dma.pages_absent ? -28 : -12;
	buf.pages = pages;
	buf.page_base = offset;
	buf.page_length = buf.len = length;
	EXPECT_TRUE(each_piece(&buf, 0, length, [&](u8 *at, u32 n) {
		for (DmaPiece &piece : the_port->dma.page_maps)
			if (!piece.bounce) {
				piece = {at, n, nullptr};
				piece.map();
				sges[count++] = {reinterpret_cast<__UINTPTR_TYPE__>(piece.bounce),
						 n, 1};
				return true;
			}
		return false;
	}));
	the_port->dma.bulk_maps++;
	the_port->ledger.mapped(direction, count, length);
	return int(count);
}

int rpcordma_runs_map(rpcordma_endpoint *endpoint, rpcordma_dma direction, page **pages,
		      rpcordma_runs *runs, rpcordma_u32 length, rpcordma_sge *sges,
		      rpcordma_u32 room)
{
	const int mapped = rpcordma_pages_map(endpoint, direction, pages, 0, length, sges, room);

	auto *known = the_port->dma.known_runs;

	while (known->runs && known->runs != runs)
		known++;
	EXPECT_TRUE(known < the_port->dma.known_runs + 63);
	/* No page has a neighbour; and whoever has others in their place says so before. */
	for (u32 i = 0; i < runs->known; i++)
		EXPECT_EQ(known->pages[i], pages[i]);
	if (length > runs->known * kPage || room < RPCORDMA_RUNS) {
		known->runs = runs;
		runs->known = mapped > 0 && mapped <= RPCORDMA_RUNS ? u16(mapped) : 0;
		for (u32 i = 0; i < runs->known; i++) {
			runs->pages[i] = 1;
			known->pages[i] = pages[i];
		}
	}
	return mapped;
}

void rpcordma_pages_unmap(rpcordma_endpoint *endpoint, rpcordma_dma direction,
			  const rpcordma_sge *sges, rpcordma_u32 count)
{
	u32 length = 0;

	EXPECT_EQ(endpoint, the_port->verbs.endpoint());
	for (u32 i = 0; i < count; i++)
		length += sges[i].length;
	the_port->ledger.unmapped(direction, count, length);
	for (u32 i = 0; i < count; i++) {
		bool found = false;

		for (DmaPiece &piece : the_port->dma.page_maps)
			if (piece.bounce && !found &&
			    reinterpret_cast<__UINTPTR_TYPE__>(piece.bounce) == sges[i].addr) {
				EXPECT_EQ(piece.length, sges[i].length);
				piece.unmap(direction);
				found = true;
			}
		EXPECT_TRUE(found);
	}
	the_port->dma.bulk_maps--;
}

void rpcordma_trace_bulk(rpcordma_bulk_event which, const rpcordma_peer *, rpcordma_u32 xid,
			 rpcordma_u32 pieces, rpcordma_u32 length)
{
	EXPECT_NE(pieces, 0);
	EXPECT_LE(pieces, length);
	the_port->ledger.traced_bulk(which, xid, pieces, length);
	the_port->log.bulks[which]++;
}

void rpcordma_buf_read(const rpcordma_xdr_buf *buf, rpcordma_u32 offset, void *to,
		       rpcordma_u32 length)
{
	u8 *at = static_cast<u8 *>(to);

	(void)each_piece(buf, offset, length, [&at](u8 *from, u32 n) {
		__builtin_memcpy(at, from, n);
		at += n;
		return true;
	});
}
