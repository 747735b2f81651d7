// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cases of DMA mappings and of memory regions.
 */
#include <linux/delay.h>
#include <linux/netdevice.h>
#include <linux/slab.h>

#include "rules.h"

/* A peer may read and write. */
#define BOTH	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

static struct device *dma_device(struct end *e)
{
	return e->dev->dma_device;
}

/* A page that a case maps itself. */
static u8 *new_page(void)
{
	return (u8 *)get_zeroed_page(GFP_KERNEL);
}

static u64 map(struct end *e, void *va, size_t n, enum dma_data_direction dir)
{
	u64 bus = ib_dma_map_single(e->dev, va, n, dir);

	return ib_dma_mapping_error(e->dev, bus) ? 0 : bus;
}

/* The DMA API's operations arrive at the device's own, each once. */
static int dma_operations(struct bed *bed)
{
	struct device *dev = dma_device(&bed->a);
	struct vhca_dma *dma = &bed->a.v->dma;
	u64 before[VHCA_DMA_OPS];
	struct scatterlist sg[2];
	dma_addr_t bus;
	u8 *page = new_page();
	void *coherent;
	u32 live = dma->live;
	int i;

	MUST(page);
	memcpy(before, dma->calls, sizeof(before));
	coherent = dma_alloc_coherent(dev, 3 * PAGE_SIZE, &bus, GFP_KERNEL);
	MUST(coherent);
	MUST(!memchr_inv(coherent, 0, 3 * PAGE_SIZE));
	MUST(dma->live == live + 1);
	dma_free_coherent(dev, 3 * PAGE_SIZE, coherent, bus);

	bus = dma_map_single(dev, page, 100, DMA_BIDIRECTIONAL);
	MUST(!dma_mapping_error(dev, bus));
	MUST(bus != virt_to_phys(page));
	dma_sync_single_for_cpu(dev, bus, 100, DMA_BIDIRECTIONAL);
	dma_sync_single_for_device(dev, bus, 100, DMA_BIDIRECTIONAL);
	dma_unmap_single(dev, bus, 100, DMA_BIDIRECTIONAL);

	sg_init_table(sg, 2);
	sg_set_buf(&sg[0], page, 1000);
	sg_set_buf(&sg[1], page + 2000, 1000);
	MUST(dma_map_sg(dev, sg, 2, DMA_FROM_DEVICE) == 2);
	MUST(dma->live == live + 2);
	dma_sync_sg_for_cpu(dev, sg, 2, DMA_FROM_DEVICE);
	dma_sync_sg_for_device(dev, sg, 2, DMA_FROM_DEVICE);
	dma_unmap_sg(dev, sg, 2, DMA_FROM_DEVICE);
	MUST(dma->align_mask == PAGE_SIZE - 1);
	MUST(dma_max_mapping_size(dev) == (dma->bounce ? SZ_256K - PAGE_SIZE : SIZE_MAX));

	for (i = 0; i < VHCA_DMA_OPS; i++)
		if (dma->calls[i] != before[i] + 1)
			return wrong("operation %d was called %llu times", i, dma->calls[i] - before[i]);
	MUST(dma->live == live);
	free_page((unsigned long)page);
	return broken(&bed->a, 0, NULL);
}

static int dma_unmap(struct bed *bed)
{
	struct end *a = &bed->a;
	struct device *dev = dma_device(a);
	u8 *page = new_page();
	u64 bus;

	MUST(page);
	bus = map(a, page, 100, DMA_TO_DEVICE);
	ib_dma_unmap_single(a->dev, bus, 100, DMA_TO_DEVICE);
	TRY(broken(a, 0, NULL));
	dma_unmap_single(dev, bus, 100, DMA_TO_DEVICE);
	TRY(broken(a, 1, "not mapped (any more)"));

	bus = map(a, page, 100, DMA_TO_DEVICE);
	dma_unmap_single(dev, bus + 10, 90, DMA_TO_DEVICE);
	TRY(broken(a, 1, "within a mapping"));
	dma_unmap_single(dev, bus, 99, DMA_TO_DEVICE);
	TRY(broken(a, 1, "unmap of 99 bytes in direction 1, mapped were 100 in 1"));

	bus = map(a, page, 100, DMA_TO_DEVICE);
	dma_unmap_single(dev, bus, 100, DMA_FROM_DEVICE);
	TRY(broken(a, 1, "unmap of 100 bytes in direction 2, mapped were 100 in 1"));
	free_page((unsigned long)page);
	return 0;
}

static int dma_coherent(struct bed *bed)
{
	struct end *a = &bed->a;
	struct device *dev = dma_device(a);
	u8 *page = new_page();
	dma_addr_t bus;
	void *va;

	MUST(page);
	va = dma_alloc_coherent(dev, PAGE_SIZE, &bus, GFP_KERNEL);
	MUST(va);
	dma_unmap_page(dev, bus, PAGE_SIZE, DMA_BIDIRECTIONAL);
	TRY(broken(a, 1, "coherent memory"));
	dma_free_coherent(dev, PAGE_SIZE, va, bus);
	TRY(broken(a, 0, NULL));
	bus = map(a, page, PAGE_SIZE, DMA_BIDIRECTIONAL);
	dma_free_coherent(dev, PAGE_SIZE, page, bus);
	TRY(broken(a, 1, "not coherent"));
	ib_dma_unmap_single(a->dev, bus, PAGE_SIZE, DMA_BIDIRECTIONAL);
	free_page((unsigned long)page);
	return broken(a, 0, NULL);
}

static int dma_sync(struct bed *bed)
{
	struct end *a = &bed->a;
	u8 *page = new_page();
	u64 bus;

	MUST(page);
	bus = map(a, page + 50, 100, DMA_FROM_DEVICE);
	ib_dma_sync_single_for_cpu(a->dev, bus + 20, 80, DMA_FROM_DEVICE);
	TRY(broken(a, 0, NULL));
	ib_dma_sync_single_for_cpu(a->dev, bus + 20, 81, DMA_FROM_DEVICE);
	TRY(broken(a, 1, "longer than the mapping"));
	ib_dma_sync_single_for_cpu(a->dev, bus - 1, 10, DMA_FROM_DEVICE);
	TRY(broken(a, 1, "nothing is mapped there"));
	ib_dma_sync_single_for_device(a->dev, bus, 100, DMA_TO_DEVICE);
	TRY(broken(a, 1, "mapped in another one"));
	ib_dma_unmap_single(a->dev, bus, 100, DMA_FROM_DEVICE);
	ib_dma_sync_single_for_cpu(a->dev, bus, 100, DMA_FROM_DEVICE);
	TRY(broken(a, 1, "nothing is mapped there"));
	free_page((unsigned long)page);
	return 0;
}

static int dma_map_fails(struct bed *bed)
{
	struct end *a = &bed->a;
	struct scatterlist sg[2];
	u8 *page = new_page();
	u64 bus, other;
	u32 live = a->v->dma.live;

	MUST(page);
	TRY(tell(a, "map_fails", "1"));
	MUST(!map(a, page, 100, DMA_TO_DEVICE));
	TRY(tell(a, "map_fails", "2"));
	sg_init_table(sg, 2);
	sg_set_buf(&sg[0], page, 1000);
	sg_set_buf(&sg[1], page + 2000, 1000);
	/* The second of the list fails, and the first is undone. */
	atomic_set(&a->v->dma.count, 0);
	MUST(!dma_map_sg(dma_device(a), sg, 2, DMA_TO_DEVICE));
	MUST(a->v->dma.live == live);
	bus = map(a, page, 100, DMA_TO_DEVICE);
	other = map(a, page, 100, DMA_TO_DEVICE);
	MUST(!bus != !other);
	ib_dma_unmap_single(a->dev, bus ?: other, 100, DMA_TO_DEVICE);
	MUST(a->v->dma.live == live);
	free_page((unsigned long)page);
	return 0;
}

/* The DMA API itself refuses what has no direction, so who goes past it is told, too. */
static int dma_of_nothing(struct bed *bed)
{
	struct end *a = &bed->a;
	struct scatterlist sg;
	u8 *page = new_page();

	MUST(page);
	TRY(faulty(a, "mapping of 0 bytes", !map(a, page, 0, DMA_TO_DEVICE), true));
	sg_init_one(&sg, page, 100);
	TRY(faulty(a, "mapping of 100 bytes in direction 3",
		   get_dma_ops(dma_device(a))->map_sg(dma_device(a), &sg, 1, DMA_NONE, 0) < 0, true));
	free_page((unsigned long)page);
	return 0;
}

/* A device goes, with a mapping or without. */
static int device_goes(bool mapped)
{
	struct net_device *netdev;
	struct ib_device *dev;
	struct end e = {};
	u8 *page = new_page();
	u64 bus;
	int err;

	MUST(page);
	TRY(shell("ip link add vl type veth peer name vm && rdma link add vhca_left type vhca netdev vl"));
	netdev = dev_get_by_name(&init_net, "vl");
	MUST(netdev);
	dev = ib_device_get_by_netdev(netdev, VHCA_DRIVER);
	dev_put(netdev);
	MUST(dev);
	e.dev = dev;
	e.v = to_vhca(dev);
	/* What it has counted is there for as long as somebody knows it. */
	get_device(&dev->dev);
	bus = map(&e, page, 100, DMA_TO_DEVICE);
	if (bus && !mapped)
		ib_dma_unmap_single(dev, bus, 100, DMA_TO_DEVICE);
	ib_device_put(dev);
	err = shell("rdma link delete vhca_left && ip link delete vl");
	if (!err && bus)
		err = broken(&e, mapped, "1 mappings are left");
	put_device(&dev->dev);
	free_page((unsigned long)page);
	MUST(bus);
	return err;
}

static int dma_left(struct bed *bed)
{
	TRY(device_goes(false));
	return device_goes(true);
}

static int dma_too_large(struct bed *bed)
{
	u8 *pages = alloc_pages_exact(SZ_512K, GFP_KERNEL);
	u64 bus;

	MUST(pages);
	bus = map(&bed->a, pages, SZ_256K, DMA_TO_DEVICE);
	MUST(bus);
	ib_dma_unmap_single(bed->a.dev, bus, SZ_256K, DMA_TO_DEVICE);
	MUST(!map(&bed->a, pages, SZ_256K + 1, DMA_TO_DEVICE));
	/* Its place in a page is kept, which takes room. */
	bus = map(&bed->a, pages + 100, SZ_256K - 100, DMA_TO_DEVICE);
	MUST(bus);
	ib_dma_unmap_single(bed->a.dev, bus, SZ_256K - 100, DMA_TO_DEVICE);
	MUST(!map(&bed->a, pages + 100, SZ_256K - 99, DMA_TO_DEVICE));
	free_pages_exact(pages, SZ_512K);
	return 0;
}

/* A Send of @length bytes at @addr fails for what is told as @text, and the connection with it. */
static int send_fails(struct bed *bed, u64 addr, u32 length, const char *text)
{
	TRY(post_recv(&bed->b, 1, bed->b.bus, ROOM));
	TRY(post_wr(&bed->a, 2, (struct op){IB_WR_SEND, .addr = addr, .length = length}));
	return fails(&bed->a, 2, IB_WC_LOC_PROT_ERR, text);
}

/* The same for what is mapped well. */
static int send_works(struct bed *bed, u64 addr, u32 length)
{
	TRY(post_recv(&bed->b, 1, bed->b.bus, ROOM));
	TRY(post_wr(&bed->a, 2, (struct op){IB_WR_SEND, .addr = addr, .length = length}));
	TRY(done(bed->a.scq, 2, IB_WC_SUCCESS));
	TRY(done(bed->b.rcq, 1, IB_WC_SUCCESS));
	return broken(&bed->a, 0, NULL);
}

static int dma_beyond(struct bed *bed)
{
	u8 *page = new_page();
	u64 bus;

	MUST(page);
	bus = map(&bed->a, page, 100, DMA_TO_DEVICE);
	TRY(send_works(bed, bus, 100));
	TRY(send_works(bed, bus + 99, 1));
	TRY(send_fails(bed, bus, 101, "beyond the end of a mapping"));
	ib_dma_unmap_single(bed->a.dev, bus, 100, DMA_TO_DEVICE);
	free_page((unsigned long)page);
	return 0;
}

static int dma_after_unmap(struct bed *bed)
{
	u8 *page = new_page();
	u64 bus, again;

	MUST(page);
	bus = map(&bed->a, page, 100, DMA_TO_DEVICE);
	TRY(send_works(bed, bus, 100));
	ib_dma_unmap_single(bed->a.dev, bus, 100, DMA_TO_DEVICE);
	/* The same page is mapped again: that does not make the old address good. */
	again = map(&bed->a, page, 100, DMA_TO_DEVICE);
	TRY(send_fails(bed, bus, 100, "mapped no more"));
	MUST(again != bus);
	ib_dma_unmap_single(bed->a.dev, again, 100, DMA_TO_DEVICE);
	free_page((unsigned long)page);
	return 0;
}

static int dma_direction(struct bed *bed)
{
	u8 *page = new_page();
	u64 bus;

	MUST(page);
	bus = map(&bed->a, page, 100, DMA_FROM_DEVICE);
	TRY(send_fails(bed, bus, 100, "mapped for the other direction only"));
	ib_dma_unmap_single(bed->a.dev, bus, 100, DMA_FROM_DEVICE);
	free_page((unsigned long)page);
	return 0;
}

static int dma_physical(struct bed *bed)
{
	return send_fails(bed, virt_to_phys(bed->a.mem), 100, "no bus address at all");
}

static int dma_other_device(struct bed *bed)
{
	MUST(bed->a.bus != bed->b.bus);
	return send_fails(bed, bed->b.bus, 100, "another device's");
}

static int dma_receive_direction(struct bed *bed)
{
	u8 *page = new_page();
	struct ib_wc wc;
	u64 bus;

	MUST(page);
	bus = map(&bed->b, page, 100, DMA_TO_DEVICE);
	TRY(post_recv(&bed->b, 1, bus, 100));
	TRY(post_wr(&bed->a, 2, (struct op){IB_WR_SEND, .addr = bed->a.bus, .length = 100}));
	TRY(next_wc(bed->a.scq, &wc));
	TRY(broken(&bed->b, 1, "mapped for the other direction only"));
	MUST(wc.wr_id == 2 && wc.status == IB_WC_REM_OP_ERR);
	TRY(done(bed->b.rcq, 1, IB_WC_LOC_PROT_ERR));
	ib_dma_unmap_single(bed->b.dev, bus, 100, DMA_TO_DEVICE);
	free_page((unsigned long)page);
	return 0;
}

/* What is neither synchronized nor unmapped has not arrived, or is what it was. */
static int dma_stale(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;
	u8 *page = new_page();
	u64 bus;

	MUST(page);
	fill(a, 0x22);
	fill(b, 0x11);
	TRY(send_works(bed, a->bus, 100));
	MUST(!memchr_inv(b->mem, 0x11, 100));
	MUST(holds(b, 0, 100, 0x22));
	MUST(holds(b, 100, 100, 0x11));

	memset(a->mem, 0x33, 100);
	TRY(send_works(bed, a->bus, 100));
	MUST(holds(b, 0, 100, 0x22));
	ib_dma_sync_single_for_device(a->dev, a->bus, 100, DMA_BIDIRECTIONAL);
	TRY(send_works(bed, a->bus, 100));
	MUST(holds(b, 0, 100, 0x33));

	/* What the device does not write is poison. */
	bus = map(b, page, 64, DMA_FROM_DEVICE);
	TRY(post_recv(b, 3, bus, 64));
	TRY(post_wr(a, 4, (struct op){IB_WR_SEND, .addr = a->bus, .length = 16}));
	TRY(done(b->rcq, 3, IB_WC_SUCCESS));
	ib_dma_unmap_single(b->dev, bus, 64, DMA_FROM_DEVICE);
	MUST(!memchr_inv(page, 0x33, 16));
	MUST(!memchr_inv(page + 16, 0xdb, 48));
	MUST(!memchr_inv(page + 64, 0, 100));
	free_page((unsigned long)page);
	return 0;
}

/* Bytes at 2100 of a page arrive, and where their bounce buffer begins in its page is @place where it keeps @mask. */
static int bounced_at(struct bed *bed, u32 mask, u32 place)
{
	struct end *a = &bed->a;
	u8 *page = new_page();
	u64 bus;

	MUST(page);
	memset(page + 2100, 0x22, 200);
	fill(&bed->b, 0x11);
	WRITE_ONCE(a->v->dma.align_mask, mask);
	bus = map(a, page + 2100, 200, DMA_TO_DEVICE);
	MUST(bus);
	TRY(send_works(bed, bus, 200));
	ib_dma_unmap_single(a->dev, bus, 200, DMA_TO_DEVICE);
	free_page((unsigned long)page);
	MUST(holds(&bed->b, 0, 200, 0x22) && holds(&bed->b, 200, 100, 0x11));
	MUST((bus & ~PAGE_MASK) == place);
	return 0;
}

static int dma_places(struct bed *bed)
{
	TRY(bounced_at(bed, PAGE_SIZE - 1, 2100));
	TRY(bounced_at(bed, 2047, 52));
	return bounced_at(bed, 0, 0);
}

/* Mapped at @offset, registered for a peer: it must not be unmapped until that is over. */
static int exposed_at(struct bed *bed, u32 offset)
{
	struct end *a = &bed->a;
	u8 *page = new_page();
	u64 bus;

	MUST(page);
	bus = map(a, page + offset, 512, DMA_BIDIRECTIONAL);
	TRY(reg(a, bus, 512, IB_ACCESS_REMOTE_READ));
	TRY(unreg(a));
	ib_dma_unmap_single(a->dev, bus, 512, DMA_BIDIRECTIONAL);
	TRY(broken(a, 0, NULL));

	/* Only this end itself may use it. */
	bus = map(a, page + offset, 512, DMA_BIDIRECTIONAL);
	TRY(reg(a, bus, 512, IB_ACCESS_LOCAL_WRITE));
	ib_dma_unmap_single(a->dev, bus, 512, DMA_BIDIRECTIONAL);
	TRY(broken(a, 0, NULL));
	TRY(unreg(a));

	bus = map(a, page + offset, 512, DMA_BIDIRECTIONAL);
	TRY(reg(a, bus, 512, IB_ACCESS_REMOTE_READ));
	ib_dma_unmap_single(a->dev, bus, 512, DMA_BIDIRECTIONAL);
	TRY(broken(a, 1, "which a peer may access still"));
	TRY(unreg(a));
	free_page((unsigned long)page);
	return 0;
}

static int dma_exposed(struct bed *bed)
{
	struct end *a = &bed->a;

	TRY(exposed_at(bed, 0));
	TRY(exposed_at(bed, 256));
	/* Nobody uses anything through a queue pair that is over. */
	TRY(reg(a, a->bus, ROOM, IB_ACCESS_REMOTE_READ));
	TRY(to_error(a));
	ib_dma_unmap_single(a->dev, a->bus, ROOM, DMA_BIDIRECTIONAL);
	a->bus = 0;
	return broken(a, 0, NULL);
}

/* What is unmapped all the same is found by the peer's access. */
static int dma_remote(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;

	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(post_wr(a, 1, (struct op){IB_WR_RDMA_WRITE, .addr = a->bus, .length = 100, .remote = b->mr->iova,
				      .rkey = b->mr->rkey}));
	TRY(done(a->scq, 1, IB_WC_SUCCESS));
	TRY(broken(b, 0, NULL));
	ib_dma_unmap_single(b->dev, b->bus, ROOM, DMA_BIDIRECTIONAL);
	b->bus = 0;
	TRY(broken(b, 1, "which a peer may access still"));
	TRY(post_wr(a, 2, (struct op){IB_WR_RDMA_WRITE, .addr = a->bus, .length = 100, .remote = b->mr->iova,
				      .rkey = b->mr->rkey}));
	TRY(done(a->scq, 2, IB_WC_REM_OP_ERR));
	return broken(b, 1, "mapped no more");
}

/* A Send has arrived, and only a completion says that its memory is its owner's again. */
static int dma_early(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;
	u8 *page = new_page();
	u64 bus[3];
	int i;

	MUST(page);
	for (i = 0; i < 3; i++) {
		bus[i] = map(a, page, 100, DMA_TO_DEVICE);
		TRY(post_recv(b, i, b->bus, 100));
	}
	WRITE_ONCE(a->v->cq_delay, 200000);
	WRITE_ONCE(a->v->cq_batch, 100);
	/* The first two are told of by the completion of the second. */
	TRY(post_wr(a, 10, (struct op){IB_WR_SEND, .silent = true, .addr = bus[0], .length = 100}));
	TRY(post_wr(a, 11, (struct op){IB_WR_SEND, .addr = bus[1], .length = 100}));
	for (i = 0; i < 2; i++)
		TRY(done(b->rcq, i, IB_WC_SUCCESS));
	TRY(done(a->scq, 11, IB_WC_SUCCESS));
	for (i = 0; i < 2; i++)
		ib_dma_unmap_single(a->dev, bus[i], 100, DMA_TO_DEVICE);
	TRY(broken(a, 0, NULL));
	TRY(post_wr(a, 12, (struct op){IB_WR_SEND, .addr = bus[2], .length = 100}));
	TRY(done(b->rcq, 2, IB_WC_SUCCESS));
	ib_dma_unmap_single(a->dev, bus[2], 100, DMA_TO_DEVICE);
	TRY(broken(a, 1, "which is in a send queue"));
	TRY(done(a->scq, 12, IB_WC_SUCCESS));
	free_page((unsigned long)page);
	return 0;
}

/* All of it done right. */
static int all_right(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;
	struct ib_wc wc;
	u64 addr;
	u32 lkey;

	fill(a, 0x44);
	fill(b, 0x55);
	TRY(reg(b, b->bus + 100, 3 * PAGE_SIZE, BOTH));
	MUST(b->mr->length == 3 * PAGE_SIZE);
	TRY(post_wr(a, 1, (struct op){IB_WR_RDMA_WRITE, .addr = a->bus, .length = 2 * PAGE_SIZE,
				      .remote = b->mr->iova + 10, .rkey = b->mr->rkey}));
	TRY(next_wc(a->scq, &wc));
	MUST(wc.wr_id == 1 && wc.status == IB_WC_SUCCESS && wc.opcode == IB_WC_RDMA_WRITE && wc.qp == a->qp);
	MUST(holds(b, 0, 110, 0x55));
	MUST(holds(b, 110, 2 * PAGE_SIZE, 0x44));
	MUST(holds(b, 110 + 2 * PAGE_SIZE, PAGE_SIZE, 0x55));

	fill(b, 0x66);
	TRY(sink(a, &addr, &lkey));
	TRY(post_wr(a, 2, (struct op){IB_WR_RDMA_READ, .addr = addr + 50, .length = PAGE_SIZE, .lkey = lkey,
				      .remote = b->mr->iova, .rkey = b->mr->rkey}));
	TRY(next_wc(a->scq, &wc));
	MUST(wc.wr_id == 2 && wc.status == IB_WC_SUCCESS && wc.opcode == IB_WC_RDMA_READ);
	MUST(holds(a, 0, 50, 0x44));
	MUST(holds(a, 50, PAGE_SIZE, 0x66));
	MUST(holds(a, 50 + PAGE_SIZE, PAGE_SIZE, 0x44));
	TRY(unreg(b));

	fill(a, 0x77);
	TRY(post_recv(b, 3, b->bus, 200));
	TRY(post_wr(a, 4, (struct op){IB_WR_SEND, .addr = a->bus, .length = 100, .nsge = 2}));
	TRY(next_wc(b->rcq, &wc));
	MUST(wc.wr_id == 3 && wc.status == IB_WC_SUCCESS && wc.opcode == IB_WC_RECV);
	MUST(wc.byte_len == 200 && !wc.wc_flags);
	MUST(holds(b, 0, 200, 0x77));
	TRY(done(a->scq, 4, IB_WC_SUCCESS));
	TRY(none(a->scq, 1));
	return none(b->rcq, 1);
}

/* The page list is what map_mr_sg() made until the registration's turn comes. */
static int list_changed(struct bed *bed)
{
	struct end *a = &bed->a;

	TRY(tell(a, "inject", "reg 1 hold 300"));
	TRY(map_region(a, a->bus, PAGE_SIZE));
	TRY(broken(a, 0, NULL));
	TRY(post_reg(a, 1, a->mr->rkey, IB_ACCESS_LOCAL_WRITE));
	TRY(map_region(a, a->bus, PAGE_SIZE));
	TRY(broken(a, 1, "is written while its registration is posted"));
	TRY(done(a->scq, 1, IB_WC_SUCCESS));
	/* It is the device's own now. */
	TRY(map_region(a, a->bus + PAGE_SIZE, PAGE_SIZE));
	TRY(broken(a, 0, NULL));
	return unreg(a);
}

static int reg_other_device(struct bed *bed)
{
	struct end mixed = bed->a;

	TRY(map_region(&bed->b, bed->b.bus, PAGE_SIZE));
	mixed.mr = bed->b.mr;
	TRY(faulty(&bed->a, "another device's region", post_reg(&mixed, 1, mixed.mr->rkey, IB_ACCESS_LOCAL_WRITE),
		   -EINVAL));
	return none(bed->a.scq, 10);
}

static int reg_twice_posted(struct bed *bed)
{
	struct end *a = &bed->a;

	TRY(tell(a, "inject", "reg 1 hold 200"));
	TRY(map_region(a, a->bus, PAGE_SIZE));
	TRY(post_reg(a, 1, a->mr->rkey, IB_ACCESS_LOCAL_WRITE));
	TRY(faulty(a, "whose last one is not carried out", post_reg(a, 2, a->mr->rkey, IB_ACCESS_LOCAL_WRITE),
		   -EINVAL));
	return done(a->scq, 1, IB_WC_SUCCESS);
}

/* A registration that is wrong, of what map_region() made, fails for what is told as @text. */
static int reg_fails(struct end *e, u32 key, int access, const char *text)
{
	TRY(post_reg(e, 1, key, access));
	return fails(e, 1, IB_WC_MW_BIND_ERR, text);
}

static int reg_valid(struct bed *bed)
{
	struct end *a = &bed->a;

	TRY(reg(a, a->bus, PAGE_SIZE, IB_ACCESS_LOCAL_WRITE));
	TRY(broken(a, 0, NULL));
	ib_update_fast_reg_key(a->mr, 7);
	return reg_fails(a, a->mr->rkey, IB_ACCESS_LOCAL_WRITE, "which is valid");
}

static int reg_other_key(struct bed *bed)
{
	TRY(map_region(&bed->a, bed->a.bus, PAGE_SIZE));
	return reg_fails(&bed->a, bed->a.mr->rkey + 0x100, IB_ACCESS_LOCAL_WRITE, "another one's");
}

static int reg_no_pages(struct bed *bed)
{
	return reg_fails(&bed->a, bed->a.mr->rkey, IB_ACCESS_LOCAL_WRITE, "has no pages");
}

static int reg_access(struct bed *bed)
{
	TRY(map_region(&bed->a, bed->a.bus, PAGE_SIZE));
	return reg_fails(&bed->a, bed->a.mr->rkey, IB_ACCESS_REMOTE_WRITE, "without IB_ACCESS_LOCAL_WRITE");
}

static int reg_other_pd(struct bed *bed)
{
	struct end *a = &bed->a;
	struct ib_pd *pd = ib_alloc_pd(a->dev, 0);
	struct ib_mr *own = a->mr;
	int err;

	TRY(PTR_ERR_OR_ZERO(pd));
	a->mr = ib_alloc_mr(pd, own->type, 8);
	err = PTR_ERR_OR_ZERO(a->mr) ?: map_region(a, a->bus, PAGE_SIZE) ?:
		reg_fails(a, a->mr->rkey, IB_ACCESS_LOCAL_WRITE, "another protection domain");
	if (!IS_ERR(a->mr))
		ib_dereg_mr(a->mr);
	a->mr = own;
	ib_dealloc_pd(pd);
	return err;
}

static int reg_limits(struct bed *bed)
{
	struct end *a = &bed->a;
	struct scatterlist sg[9];
	struct ib_mr *mr;
	int i;

	mr = ib_alloc_mr(a->pd, a->mr->type, a->v->preset->page_list);
	TRY(PTR_ERR_OR_ZERO(mr));
	ib_dereg_mr(mr);
	MUST(IS_ERR(ib_alloc_mr(a->pd, a->mr->type, a->v->preset->page_list + 1)));
	MUST(IS_ERR(ib_alloc_mr(a->pd, a->mr->type, 0)));
	if (!a->v->preset->sg_gaps)
		MUST(IS_ERR(ib_alloc_mr(a->pd, IB_MR_TYPE_SG_GAPS, 8)));
	/* Eight entries are what it has. */
	sg_init_table(sg, 9);
	for (i = 0; i < 9; i++) {
		sg_dma_address(&sg[i]) = a->bus + (i & 1) * 2 * PAGE_SIZE;
		sg_dma_len(&sg[i]) = PAGE_SIZE;
	}
	MUST(ib_map_mr_sg(a->mr, sg, 9, NULL, PAGE_SIZE) == 8);
	return 0;
}

/* Lists of pages have no gaps. */
static int reg_gaps(struct bed *bed)
{
	struct scatterlist sg[2];
	struct end *a = &bed->a;

	sg_init_table(sg, 2);
	sg_dma_address(&sg[0]) = a->bus;
	sg_dma_len(&sg[0]) = PAGE_SIZE - 10;
	sg_dma_address(&sg[1]) = a->bus + 2 * PAGE_SIZE;
	sg_dma_len(&sg[1]) = PAGE_SIZE;
	MUST(ib_map_mr_sg(a->mr, sg, 2, NULL, PAGE_SIZE) == 1);
	return 0;
}

static int dereg_posted(struct bed *bed)
{
	struct end *a = &bed->a;

	TRY(tell(a, "inject", "reg 1 hold 200"));
	TRY(map_region(a, a->bus, PAGE_SIZE));
	TRY(post_reg(a, 1, a->mr->rkey, IB_ACCESS_LOCAL_WRITE));
	ib_dereg_mr(a->mr);
	a->mr = NULL;
	TRY(broken(a, 1, "with its registration in a send queue"));
	return fails(a, 1, IB_WC_MW_BIND_ERR, "which is gone");
}

/* What a LOCAL_INV that fails has for a status. */
static enum ib_wc_status inv_status(struct end *e)
{
	return e->v->preset->iwarp ? IB_WC_LOC_ACCESS_ERR : IB_WC_MW_BIND_ERR;
}

/* LOCAL_INV of @key fails, and it is a fault. */
static int inv_fails(struct end *e, u32 key)
{
	TRY(post_wr(e, 1, (struct op){IB_WR_LOCAL_INV, .rkey = key}));
	return fails(e, 1, inv_status(e), "under which nothing is registered");
}

static int inv_invalid(struct bed *bed)
{
	struct end *a = &bed->a;

	TRY(reg(a, a->bus, PAGE_SIZE, IB_ACCESS_LOCAL_WRITE));
	TRY(unreg(a));
	TRY(broken(a, 0, NULL));
	return inv_fails(a, a->mr->rkey);
}

static int inv_old_key(struct bed *bed)
{
	struct end *a = &bed->a;
	u32 old;

	TRY(reg(a, a->bus, PAGE_SIZE, IB_ACCESS_LOCAL_WRITE));
	old = a->mr->rkey;
	TRY(unreg(a));
	TRY(reg(a, a->bus, PAGE_SIZE, IB_ACCESS_LOCAL_WRITE));
	TRY(broken(a, 0, NULL));
	return inv_fails(a, old);
}

/* The peer refuses: that is no fault of its own, and of nobody's that could be told. */
static int refused(struct bed *bed, struct op op)
{
	struct end *a = &bed->a, *b = &bed->b;

	TRY(post_recv(b, 5, b->bus, 100));
	op.addr = op.addr ?: a->bus;
	op.length = op.length ?: 100;
	if (op.opcode == IB_WR_RDMA_READ)
		TRY(sink(a, &op.addr, &op.lkey));
	TRY(post_wr(a, 6, op));
	TRY(done(a->scq, 6, IB_WC_REM_ACCESS_ERR));
	TRY(done(b->rcq, 5, IB_WC_WR_FLUSH_ERR));
	MUST(atomic_read(&b->events[IB_EVENT_QP_ACCESS_ERR]) == 1);
	MUST(to_vqp(a->qp)->state == IB_QPS_ERR);
	MUST(to_vqp(b->qp)->state == IB_QPS_ERR);
	return 0;
}

static int works(struct bed *bed, enum ib_wr_opcode opcode, u64 remote, u32 length)
{
	struct op op = {opcode, .addr = bed->a.bus, .length = length, .remote = remote, .rkey = bed->b.mr->rkey};
	bool own = opcode == IB_WR_RDMA_READ && bed->a.v->preset->sink_access;

	if (own)
		TRY(sink(&bed->a, &op.addr, &op.lkey));
	TRY(post_wr(&bed->a, 7, op));
	TRY(done(bed->a.scq, 7, IB_WC_SUCCESS));
	if (own)
		TRY(unreg(&bed->a));
	return 0;
}

static int rkey_bits(struct bed *bed)
{
	struct end *b = &bed->b;

	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(works(bed, IB_WR_RDMA_WRITE, b->mr->iova, 100));
	return refused(bed, (struct op){IB_WR_RDMA_WRITE, .remote = b->mr->iova, .rkey = b->mr->rkey ^ 1});
}

static int rkey_index(struct bed *bed)
{
	struct end *b = &bed->b;

	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	return refused(bed, (struct op){IB_WR_RDMA_READ, .remote = b->mr->iova, .rkey = b->mr->rkey + 0x100});
}

/* A peer that takes its own key for the other end's does not get by with it. */
static int rkey_other_device(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;

	TRY(reg(a, a->bus, PAGE_SIZE, BOTH));
	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	MUST(a->mr->rkey >> 8 != b->mr->rkey >> 8);
	return refused(bed, (struct op){IB_WR_RDMA_WRITE, .remote = b->mr->iova, .rkey = a->mr->rkey});
}

static int rkey_invalidated(struct bed *bed)
{
	struct end *b = &bed->b;

	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(works(bed, IB_WR_RDMA_READ, b->mr->iova, 100));
	TRY(unreg(b));
	return refused(bed, (struct op){IB_WR_RDMA_READ, .remote = b->mr->iova, .rkey = b->mr->rkey});
}

static int rkey_beyond(struct bed *bed)
{
	struct end *b = &bed->b;

	TRY(reg(b, b->bus + 100, 1000, BOTH));
	TRY(works(bed, IB_WR_RDMA_WRITE, b->mr->iova + 900, 100));
	fill(b, 1);
	/* Its first bytes would have their place: they do not arrive either. */
	fill(&bed->a, 2);
	TRY(refused(bed, (struct op){IB_WR_RDMA_WRITE, .addr = bed->a.bus + PAGE_SIZE - 50,
				     .remote = b->mr->iova + 901, .rkey = b->mr->rkey}));
	MUST(holds(b, 0, ROOM, 1));
	return 0;
}

static int rkey_before(struct bed *bed)
{
	struct end *b = &bed->b;

	TRY(reg(b, b->bus + 100, 1000, BOTH));
	TRY(works(bed, IB_WR_RDMA_READ, b->mr->iova, 1000));
	return refused(bed, (struct op){IB_WR_RDMA_READ, .remote = b->mr->iova - 1, .rkey = b->mr->rkey});
}

static int rkey_write_access(struct bed *bed)
{
	struct end *b = &bed->b;

	TRY(reg(b, b->bus, PAGE_SIZE, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ));
	TRY(works(bed, IB_WR_RDMA_READ, b->mr->iova, 100));
	return refused(bed, (struct op){IB_WR_RDMA_WRITE, .remote = b->mr->iova, .rkey = b->mr->rkey});
}

static int rkey_read_access(struct bed *bed)
{
	struct end *b = &bed->b;

	TRY(reg(b, b->bus, PAGE_SIZE, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE));
	TRY(works(bed, IB_WR_RDMA_WRITE, b->mr->iova, 100));
	return refused(bed, (struct op){IB_WR_RDMA_READ, .remote = b->mr->iova, .rkey = b->mr->rkey});
}

static int rkey_qp_access(struct bed *bed)
{
	struct ib_qp_attr attr = {.qp_access_flags = IB_ACCESS_REMOTE_READ};
	struct end *b = &bed->b;

	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(works(bed, IB_WR_RDMA_WRITE, b->mr->iova, 100));
	TRY(ib_modify_qp(b->qp, &attr, IB_QP_ACCESS_FLAGS));
	TRY(works(bed, IB_WR_RDMA_READ, b->mr->iova, 100));
	return refused(bed, (struct op){IB_WR_RDMA_WRITE, .remote = b->mr->iova, .rkey = b->mr->rkey});
}

static int rkey_other_pd(struct bed *bed)
{
	struct end *b = &bed->b;
	struct ib_pd *pd = ib_alloc_pd(b->dev, 0);
	struct ib_mr *mr;
	int err;

	TRY(PTR_ERR_OR_ZERO(pd));
	mr = ib_alloc_mr(pd, b->mr->type, 8);
	if (!IS_ERR(mr)) {
		/* As if a queue pair of that domain had registered it, for all that is mapped. */
		to_vmr(mr)->valid = to_vmr(mr)->all = true;
		to_vmr(mr)->access = BOTH;
	}
	err = PTR_ERR_OR_ZERO(mr) ?: refused(bed, (struct op){IB_WR_RDMA_WRITE, .remote = b->bus, .rkey = mr->rkey});
	if (!IS_ERR(mr))
		ib_dereg_mr(mr);
	ib_dealloc_pd(pd);
	return err;
}

static int lkey_access(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;

	/* A Send from what may only be read is right, a Read into it is not. */
	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(reg(a, a->bus, PAGE_SIZE, IB_ACCESS_REMOTE_READ));
	TRY(post_wr(a, 1, (struct op){IB_WR_RDMA_WRITE, .addr = a->mr->iova, .length = 100, .lkey = a->mr->lkey,
				      .remote = b->mr->iova, .rkey = b->mr->rkey}));
	TRY(done(a->scq, 1, IB_WC_SUCCESS));
	TRY(broken(a, 0, NULL));
	TRY(post_wr(a, 2, (struct op){IB_WR_RDMA_READ, .addr = a->mr->iova, .length = 100, .lkey = a->mr->lkey,
				      .remote = b->mr->iova, .rkey = b->mr->rkey}));
	return fails(a, 2, IB_WC_LOC_PROT_ERR, a->v->preset->sink_access ? "the sink of a Read" :
		     "the Read's own memory is not to be written");
}

static int lkey_wrong(struct bed *bed)
{
	struct end *a = &bed->a;

	TRY(reg(a, a->bus, PAGE_SIZE, IB_ACCESS_LOCAL_WRITE));
	TRY(post_recv(&bed->b, 1, bed->b.bus, ROOM));
	TRY(post_wr(a, 2, (struct op){IB_WR_SEND, .addr = a->mr->iova, .length = 100, .lkey = a->mr->lkey}));
	TRY(done(a->scq, 2, IB_WC_SUCCESS));
	TRY(broken(a, 0, NULL));
	TRY(post_recv(&bed->b, 3, bed->b.bus, ROOM));
	TRY(post_wr(a, 4, (struct op){IB_WR_SEND, .addr = a->mr->iova, .length = 100, .lkey = a->mr->lkey ^ 1}));
	return fails(a, 4, IB_WC_LOC_PROT_ERR, "the Send's own memory is not to be read");
}

static int lkey_of_write(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;
	struct op op = {IB_WR_RDMA_WRITE, .length = 100};

	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(reg(a, a->bus, PAGE_SIZE, IB_ACCESS_LOCAL_WRITE));
	op.addr = a->mr->iova;
	op.lkey = a->mr->lkey;
	op.remote = b->mr->iova;
	op.rkey = b->mr->rkey;
	TRY(post_wr(a, 1, op));
	TRY(done(a->scq, 1, IB_WC_SUCCESS));
	TRY(broken(a, 0, NULL));
	op.lkey ^= 1;
	TRY(post_wr(a, 2, op));
	return fails(a, 2, IB_WC_LOC_PROT_ERR, "the Write's own memory is not to be read");
}

/* A memory region of b's is invalidated by a Send of a's. */
static int invalidated_by_peer(struct bed *bed)
{
	struct end *a = &bed->a, *b = &bed->b;
	struct ib_wc wc;

	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(post_recv(b, 1, b->bus + PAGE_SIZE, 100));
	TRY(post_wr(a, 2, (struct op){IB_WR_SEND_WITH_INV, .addr = a->bus, .length = 100, .rkey = b->mr->rkey}));
	TRY(done(a->scq, 2, IB_WC_SUCCESS));
	TRY(next_wc(b->rcq, &wc));
	MUST(wc.wr_id == 1 && wc.status == IB_WC_SUCCESS && wc.wc_flags == IB_WC_WITH_INVALIDATE);
	MUST(wc.ex.invalidate_rkey == b->mr->rkey);
	return 0;
}

static int send_inv(struct bed *bed)
{
	struct end *b = &bed->b;

	TRY(invalidated_by_peer(bed));
	/* No peer can use it: it may be unmapped. */
	ib_dma_unmap_single(b->dev, b->bus, ROOM, DMA_BIDIRECTIONAL);
	b->bus = 0;
	TRY(broken(b, 0, NULL));
	/* It is not valid, and cannot be invalidated. Who tries may not have known: nobody is at fault. */
	TRY(post_wr(b, 1, (struct op){IB_WR_LOCAL_INV, .rkey = b->mr->rkey}));
	TRY(done(b->scq, 1, inv_status(b)));
	return broken(b, 0, NULL);
}

/* What a peer has invalidated once is nobody's excuse once it was registered again. */
static int inv_after_send_inv(struct bed *bed)
{
	struct end *b = &bed->b;

	TRY(invalidated_by_peer(bed));
	TRY(reg(b, b->bus, PAGE_SIZE, BOTH));
	TRY(unreg(b));
	TRY(broken(b, 0, NULL));
	return inv_fails(b, b->mr->rkey);
}

static int send_inv_fails(struct bed *bed, u32 key)
{
	struct end *a = &bed->a, *b = &bed->b;

	TRY(post_recv(b, 1, b->bus + PAGE_SIZE, 100));
	TRY(post_wr(a, 2, (struct op){IB_WR_SEND_WITH_INV, .addr = a->bus, .length = 100, .rkey = key}));
	TRY(done(a->scq, 2, IB_WC_REM_ACCESS_ERR));
	TRY(done(b->rcq, 1, IB_WC_LOC_ACCESS_ERR));
	MUST(atomic_read(&b->events[IB_EVENT_QP_ACCESS_ERR]) == 1);
	return 0;
}

static int send_inv_bad_key(struct bed *bed)
{
	TRY(reg(&bed->b, bed->b.bus, PAGE_SIZE, BOTH));
	return send_inv_fails(bed, bed->b.mr->rkey ^ 1);
}

static int send_inv_local(struct bed *bed)
{
	/* What was never the peer's it cannot invalidate. */
	TRY(reg(&bed->b, bed->b.bus, PAGE_SIZE, IB_ACCESS_LOCAL_WRITE));
	return send_inv_fails(bed, bed->b.mr->rkey);
}

const struct rules_case memory_cases[] = {
	{"dma-operations", dma_operations, ALONE},
	{"dma-unmap", dma_unmap, ALONE},
	{"dma-coherent", dma_coherent, ALONE},
	{"dma-sync", dma_sync, ALONE},
	{"dma-map-fails", dma_map_fails, ALONE},
	{"dma-of-nothing", dma_of_nothing, ALONE},
	{"dma-left", dma_left, ALONE},
	{"dma-too-large", dma_too_large, ALONE | BOUNCE},
	{"dma-beyond", dma_beyond},
	{"dma-after-unmap", dma_after_unmap},
	{"dma-direction", dma_direction},
	{"dma-physical", dma_physical},
	{"dma-other-device", dma_other_device},
	{"dma-receive-direction", dma_receive_direction},
	{"dma-stale", dma_stale, BOUNCE},
	{"dma-places", dma_places, BOUNCE},
	{"dma-exposed", dma_exposed},
	{"dma-remote", dma_remote},
	{"dma-early", dma_early},
	{"all-right", all_right},
	{"list-changed", list_changed},
	{"reg-other-device", reg_other_device},
	{"reg-twice-posted", reg_twice_posted},
	{"reg-valid", reg_valid},
	{"reg-other-key", reg_other_key},
	{"reg-no-pages", reg_no_pages},
	{"reg-access", reg_access},
	{"reg-other-pd", reg_other_pd},
	{"reg-limits", reg_limits, ALONE},
	{"reg-gaps", reg_gaps, ALONE | PAGES},
	{"dereg-posted", dereg_posted},
	{"inv-invalid", inv_invalid},
	{"inv-old-key", inv_old_key},
	{"rkey-bits", rkey_bits},
	{"rkey-index", rkey_index},
	{"rkey-other-device", rkey_other_device},
	{"rkey-invalidated", rkey_invalidated},
	{"rkey-beyond", rkey_beyond},
	{"rkey-before", rkey_before},
	{"rkey-write-access", rkey_write_access},
	{"rkey-read-access", rkey_read_access},
	{"rkey-qp-access", rkey_qp_access},
	{"rkey-other-pd", rkey_other_pd},
	{"lkey-access", lkey_access},
	{"lkey-wrong", lkey_wrong},
	{"lkey-of-write", lkey_of_write},
	{"send-inv", send_inv},
	{"inv-after-send-inv", inv_after_send_inv},
	{"send-inv-bad-key", send_inv_bad_key},
	{"send-inv-local", send_inv_local},
	{}
};
