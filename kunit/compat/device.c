// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device of the KUnit suites (device.h): its verbs, and memory for tests.
 */
#include <kunit/test.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>

#include "kunit/compat/device.h"

struct region {
	struct ib_mr mr;
	u64 pages[TEST_REGION_PAGES];
	u32 used;
};

/* The RDMA core frees a device by its own address, so ours stands beside it. */
struct core_device {
	struct ib_device ib;
	struct test_device *test;
};

static struct test_device *of(struct ib_device *ib)
{
	return container_of(ib, struct core_device, ib)->test;
}

static int alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	of(pd->device)->pds++;
	return 0;
}

static int dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	of(pd->device)->pds--;
	return 0;
}

static int create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attributes,
		     struct uverbs_attr_bundle *attrs)
{
	struct test_device *device = of(cq->device);

	device->cqs++;
	device->least_cqe = min_t(int, device->least_cqe, attributes->cqe);
	device->most_cqe = max_t(int, device->most_cqe, attributes->cqe);
	return 0;
}

static int destroy_cq(struct ib_cq *cq, struct ib_udata *udata)
{
	of(cq->device)->cqs--;
	return 0;
}

static int req_notify_cq(struct ib_cq *cq, enum ib_cq_notify_flags flags)
{
	return 0;
}

static int poll_cq(struct ib_cq *cq, int count, struct ib_wc *wc)
{
	return 0;
}

static struct ib_mr *alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 most)
{
	struct region *region;

	if (most > TEST_REGION_PAGES)
		return ERR_PTR(-EINVAL);
	region = kzalloc(sizeof(*region), GFP_KERNEL);
	if (!region)
		return ERR_PTR(-ENOMEM);
	region->mr.rkey = region->mr.lkey = 0x100;
	of(pd->device)->regions++;
	return &region->mr;
}

static int dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	of(mr->device)->regions--;
	kfree(container_of(mr, struct region, mr));
	return 0;
}

static int set_page(struct ib_mr *mr, u64 address)
{
	struct region *region = container_of(mr, struct region, mr);

	if (region->used == TEST_REGION_PAGES)
		return -ENOMEM;
	region->pages[region->used++] = address;
	return 0;
}

static int map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int entries, unsigned int *offset)
{
	struct test_device *device = of(mr->device);

	container_of(mr, struct region, mr)->used = 0;
	return ib_sg_to_pages(mr, sg, entries - device->refuse_map, offset, set_page);
}

static const struct ib_device_ops operations = {
	.owner = THIS_MODULE,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.alloc_mr = alloc_mr,
	.dereg_mr = dereg_mr,
	.map_mr_sg = map_mr_sg,
	.create_cq = create_cq,
	.destroy_cq = destroy_cq,
	.req_notify_cq = req_notify_cq,
	.poll_cq = poll_cq,
};

static void unmake(void *context)
{
	struct test_device *device = context;

	if (device->pd)
		ib_dealloc_pd(device->pd);
	device->ib->port_data = NULL;
	ib_dealloc_device(device->ib);
}

struct test_device *test_device_make(struct kunit *test)
{
	struct test_device *device = kunit_kzalloc(test, sizeof(*device), GFP_KERNEL);
	struct core_device *core;

	KUNIT_ASSERT_NOT_NULL(test, device);
	core = ib_alloc_device(core_device, ib);
	KUNIT_ASSERT_NOT_NULL(test, core);
	core->test = device;
	device->ib = &core->ib;
	ib_set_device_ops(device->ib, &operations);
	device->ib->ops.size_ib_pd = sizeof(struct ib_pd);
	device->ib->ops.size_ib_cq = sizeof(struct ib_cq);
	device->ib->local_dma_lkey = TEST_LKEY;
	device->ib->attrs.kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	device->ib->attrs.page_size_cap = PAGE_SIZE;
	device->pd = ib_alloc_pd(device->ib, 0);
	if (IS_ERR(device->pd))
		device->pd = NULL;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, unmake, device), 0);
	KUNIT_ASSERT_NOT_NULL(test, device->pd);
	device->ib->port_data = device->ports;
	device->id.device = device->ib;
	device->id.port_num = 1;
	device->endpoint.id = &device->id;
	device->endpoint.pd = device->pd;
	return device;
}

struct piece {
	struct page *first;
	unsigned int order;
};

static void free_piece(void *context)
{
	struct piece *piece = context;

	__free_pages(piece->first, piece->order);
}

struct page **test_neighbours(struct kunit *test, unsigned int count)
{
	struct piece *piece = kunit_kzalloc(test, sizeof(*piece), GFP_KERNEL);
	struct page **pages = kunit_kcalloc(test, count, sizeof(*pages), GFP_KERNEL);
	size_t offset;
	u8 *bytes;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, piece);
	KUNIT_ASSERT_NOT_NULL(test, pages);
	piece->order = get_order(count * PAGE_SIZE);
	piece->first = alloc_pages(GFP_KERNEL, piece->order);
	KUNIT_ASSERT_NOT_NULL(test, piece->first);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_piece, piece), 0);
	bytes = page_address(piece->first);
	for (offset = 0; offset < count * PAGE_SIZE; offset++)
		bytes[offset] = test_byte(offset);
	for (i = 0; i < count; i++)
		pages[i] = piece->first + i;
	return pages;
}
