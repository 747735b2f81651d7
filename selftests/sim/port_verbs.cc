// SPDX-License-Identifier: GPL-2.0-only
/* compat/port/verbs.h, simulated, without what is about connections (port_cm.cc). */
#include <algorithm>
#include <cerrno>
#include <map>
#include <vector>

#include "selftests/sim/cm.hh"

using namespace sim;

static constexpr u32 kLocalKey = 0x1;

void rpcordma_cqe_init(rpcordma_cqe *cqe, rpcordma_cqe_kind kind)
{
	cqe->done = reinterpret_cast<void *>(u64(kind) + 1);
}

rpcordma_posted rpcordma_post_send(rpcordma_endpoint *ep, const rpcordma_send_wr *first)
{
	const rpcordma_send_wr *bad = first;

	port_call();
	const int error = ep->qp->post_send(first, &bad);
	port_call();
	return {error, bad != first};
}

int rpcordma_post_receive(rpcordma_endpoint *ep, const rpcordma_recv_wr *first)
{
	port_call();
	const int rc = ep->qp->post_receive(first);
	port_call();
	return rc;
}

/* --- message buffers --- */

void *rpcordma_alloc_near(const rpcordma_endpoint *, rpcordma_size size, rpcordma_alloc_how how)
{
	return rpcordma_alloc(size, how);
}

int rpcordma_dma_map(rpcordma_endpoint *, void *memory, rpcordma_u32 length, rpcordma_dma direction,
		     rpcordma_sge *sge)
{
	const u64 address = dma_map(memory, length, direction);

	port_call();
	if (!address)
		return -EIO;
	*sge = {address, length, kLocalKey};
	return 0;
}

void rpcordma_dma_unmap(rpcordma_endpoint *, const rpcordma_sge *sge, rpcordma_u32 length,
			rpcordma_dma direction)
{
	dma_unmap(sge->addr, length, direction, false);
	port_call();
}

void rpcordma_dma_sync_for_device(rpcordma_endpoint *, const rpcordma_sge *sge, rpcordma_u32 length)
{
	dma_sync(sge->addr, length, RPCORDMA_DMA_TO_DEVICE);
	port_call();
}

void rpcordma_dma_sync_for_cpu(rpcordma_endpoint *, const rpcordma_sge *sge, rpcordma_u32 length)
{
	dma_sync(sge->addr, length, RPCORDMA_DMA_FROM_DEVICE);
	port_call();
}

/* --- regions --- */

struct rpcordma_region {
	ib_mr *mr;
	Scatter scatter;
	std::vector<u8> *scratch; /* behind the key of a call that was given up */
};

rpcordma_region *rpcordma_region_create(rpcordma_endpoint *ep, rpcordma_u32 pages,
					rpcordma_bool sg_gaps, int *error)
{
	may_sleep("region");
	port_call();
	if (faults.strikes(faults.memory)) {
		*error = -ENOMEM;
		return nullptr;
	}
	return new rpcordma_region{ep->id->device->create_mr(pages, sg_gaps), Scatter(pages),
				   nullptr};
}

void rpcordma_region_destroy(rpcordma_region *region)
{
	may_sleep("region");
	port_call();
	region->mr->device->destroy_mr(region->mr);
	region->scatter.unmap();
	delete region;
}

/*
 * Whether bounce buffers of @region are elsewhere in their pages than what they stand for. Then several pieces are no page list, as
 * ib_map_mr_sg() finds; and with @fixed one alone is not where it was, either.
 */
static bool is_moved(const rpcordma_region &region, bool fixed)
{
	const auto &runs = region.scatter.runs();
	const auto is_part = [](const Scatter::Run &run) {
		return run.address % kPageSize || run.length % kPageSize;
	};

	return memory->moves && (fixed || (runs.size() > 1 && !region.mr->gaps)) &&
	       std::any_of(runs.begin(), runs.end(), is_part) && chance.one_in(2);
}

static int map_runs(rpcordma_region *region, u32 length, rpcordma_dma direction, bool fixed)
{
	if (!region->scatter.map(direction))
		return -ENOMEM;
	if (is_moved(*region, fixed)) {
		region->scatter.unmap();
		return -EIO;
	}
	REQUIRE(region->mr->set_runs(region->scatter.runs()) && region->mr->next.length == length,
		"a segment that breaks the rules of segment layout");
	return 0;
}

int rpcordma_region_map(rpcordma_region *region, const rpcordma_xdr_buf *buf, rpcordma_u32 offset,
			rpcordma_u32 length, rpcordma_bool writable, rpcordma_u32 tag,
			rpcordma_reg_wr *wr, rpcordma_mapping *mapping)
{
	ib_mr *mr = region->mr;

	port_call();
	region->scatter.reset();
	if (!length || !region->scatter.add_buf(buf, offset, length))
		return -EIO;
	if (int rc = map_runs(region, length,
			      writable ? RPCORDMA_DMA_FROM_DEVICE : RPCORDMA_DMA_TO_DEVICE, false))
		return rc;
	mr->next.iova = (mr->next.iova & 0xffffffff) | u64(tag) << 32;
	mr->key = (mr->key & ~u32(0xff)) | u8(mr->key + 1);
	wr->mr = mr;
	wr->key = mr->key;
	wr->access = writable ? RPCORDMA_ACCESS_REMOTE_WRITE | RPCORDMA_ACCESS_LOCAL_WRITE :
				RPCORDMA_ACCESS_REMOTE_READ;
	*mapping = {mr->key, mr->key, length, mr->next.iova};
	port_call();
	return 0;
}

int rpcordma_region_map_scratch(rpcordma_region *region, rpcordma_reg_wr *wr)
{
	ib_mr *mr = region->mr;
	const u64 iova = mr->next.iova;
	const u32 length = mr->next.length;
	u32 in_page = u32(iova % kPageSize);

	port_call();
	region->scatter.reset();
	for (u32 left = length; left; in_page = 0) {
		const u32 n = left < kPageSize - in_page ? left : kPageSize - in_page;

		if (!region->scatter.add(memory->scratch->data + in_page, n))
			return -EIO;
		left -= n;
	}
	if (int rc = map_runs(region, length, RPCORDMA_DMA_FROM_DEVICE, true))
		return rc;
	mr->next.iova = iova;
	wr->mr = mr;
	wr->key = mr->key;
	wr->access = RPCORDMA_ACCESS_REMOTE_WRITE | RPCORDMA_ACCESS_LOCAL_WRITE;
	port_call();
	return 0;
}

void rpcordma_region_unmap(rpcordma_region *region)
{
	region->scatter.unmap();
	port_call();
}

/* --- bulk data, of svc.h --- */

static constexpr u32 kLongestRun = 65536;

struct rpcordma_bulk {
	Scatter scatter;
};

rpcordma_bulk *rpcordma_bulk_create(rpcordma_u32 pieces, rpcordma_alloc_how how)
{
	void *place = allocate(sizeof(rpcordma_bulk), how);

	return place ? new (place) rpcordma_bulk{Scatter(pieces)} : nullptr;
}

void rpcordma_bulk_destroy(rpcordma_bulk *bulk)
{
	if (!bulk)
		return;
	rpcordma_bulk_unmap(bulk);
	bulk->~rpcordma_bulk();
	release(bulk);
}

int rpcordma_bulk_add_pages(rpcordma_bulk *bulk, page **pages, rpcordma_u32 offset,
			    rpcordma_u32 length)
{
	if (!bulk->scatter.add_pages(pages, offset, length, kLongestRun))
		return -ENOSPC;
	return int(bulk->scatter.runs().size());
}

int rpcordma_bulk_add_buf(rpcordma_bulk *bulk, const rpcordma_xdr_buf *buf, rpcordma_u32 offset,
			  rpcordma_u32 length)
{
	return bulk->scatter.add_buf(buf, offset, length, kLongestRun) ? 0 : -ENOSPC;
}

int rpcordma_bulk_map(rpcordma_bulk *bulk, rpcordma_endpoint *, rpcordma_dma direction,
		      rpcordma_sge *sges, rpcordma_u32 room)
{
	const auto &runs = bulk->scatter.runs();

	port_call();
	if (runs.empty())
		return 0;
	if (!bulk->scatter.map(direction)) {
		bulk->scatter.reset();
		return -ENOMEM;
	}
	if (runs.size() > room) {
		rpcordma_bulk_unmap(bulk);
		return -ENOSPC;
	}
	for (std::size_t i = 0; i < runs.size(); i++)
		sges[i] = {runs[i].address, runs[i].length, kLocalKey};
	return int(runs.size());
}

rpcordma_u32 rpcordma_bulk_pieces(const rpcordma_bulk *bulk, rpcordma_u32 *length)
{
	*length = 0;
	if (!bulk->scatter.mapped())
		return 0;
	for (const Scatter::Run &run : bulk->scatter.runs())
		*length += run.length;
	return u32(bulk->scatter.runs().size());
}

void rpcordma_bulk_unmap(rpcordma_bulk *bulk)
{
	bulk->scatter.unmap();
	bulk->scatter.reset();
	port_call();
}

int rpcordma_pages_map(rpcordma_endpoint *, rpcordma_dma direction, page **pages,
		       rpcordma_u32 offset, rpcordma_u32 length, rpcordma_sge *sges,
		       rpcordma_u32 room)
{
	u32 count = 0;

	port_call();
	REQUIRE(length, "nothing is to be mapped");
	/* No page has a neighbour. */
	if ((offset % kPageSize + length + kPageSize - 1) / kPageSize > room)
		return 0;
	for (u32 at = offset; length; at += sges[count++].length) {
		page *const in = pages[at / kPageSize];
		const u32 n = std::min(length, kPageSize - at % kPageSize);

		REQUIRE(in, "an absent page is to be mapped");
		const u64 address = dma_map(in->data + at % kPageSize, n, direction);
		if (!address) {
			rpcordma_pages_unmap(nullptr, direction, sges, count);
			return -ENOMEM;
		}
		dma_lend(address);
		sges[count] = {address, n, kLocalKey};
		length -= n;
	}
	return int(count);
}

int rpcordma_runs_map(rpcordma_endpoint *endpoint, rpcordma_dma direction, page **pages,
		      rpcordma_runs *runs, rpcordma_u32 length, rpcordma_sge *sges,
		      rpcordma_u32 room)
{
	/* The pages by which they are known, wherever the runs lie now. */
	static std::map<const rpcordma_runs *, std::vector<page *>> pages_of;
	std::vector<page *> &known = pages_of[runs];
	const u32 count = (length + kPageSize - 1) / kPageSize;

	REQUIRE(runs->known <= RPCORDMA_RUNS, "more runs are known than there are");
	for (u32 i = 0; i < runs->known; i++)
		REQUIRE(runs->pages[i] == 1 && known[i] == pages[i],
			"a page was exchanged, and its run is thought to be known");
	const int mapped = rpcordma_pages_map(endpoint, direction, pages, 0, length, sges, room);
	if (count > runs->known || room < RPCORDMA_RUNS) {
		runs->known = mapped > 0 && mapped <= RPCORDMA_RUNS ? u16(mapped) : 0;
		known.assign(pages, pages + runs->known);
		std::fill_n(runs->pages, runs->known, 1);
	}
	return mapped;
}

void rpcordma_pages_unmap(rpcordma_endpoint *, rpcordma_dma direction, const rpcordma_sge *sges,
			  rpcordma_u32 count)
{
	for (u32 i = 0; i < count; i++)
		dma_unmap(sges[i].addr, sges[i].length, direction);
	port_call();
}
