// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit suite of compat/linux/verbs.c: what a device can do, message buffers, regions, and queues that cannot be made.
 */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <rdma/ib_verbs.h>

#include "compat/linux/endpoint.h"
#include "compat/linux/transport.h"
#include "compat/port/port.h"
#include "kunit/compat/device.h"
#include "kunit/compat/engine.h"

static void what_it_can(struct kunit *test)
{
	struct test_device *device = test_device_make(test);
	struct ib_device_attr *attrs = &device->ib->attrs;
	struct rpcordma_device is;

	*attrs = (struct ib_device_attr){
		.device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS,
		.kernel_cap_flags = IBK_SG_GAPS_REG,
		.max_fast_reg_page_list_len = 11,
		.max_send_sge = 12,
		.max_recv_sge = 13,
		.max_qp_wr = 14,
		.max_cqe = 15,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 17,
		.max_sge_rd = 18,
		.max_sgl_rd = 19,
		.page_size_cap = PAGE_SIZE,
	};
	KUNIT_ASSERT_EQ(test, dev_set_name(&device->ib->dev, "a-device"), 0);
	rpcordma_endpoint_device(&device->endpoint, &is);
	KUNIT_EXPECT_STREQ(test, is.name, "a-device");
	KUNIT_EXPECT_TRUE(test, is.fast_registration);
	KUNIT_EXPECT_TRUE(test, is.sg_gaps);
	KUNIT_EXPECT_EQ(test, is.max_fast_reg_pages, 11);
	KUNIT_EXPECT_EQ(test, is.max_send_sge, 12);
	KUNIT_EXPECT_EQ(test, is.max_recv_sge, 13);
	KUNIT_EXPECT_EQ(test, is.max_qp_wr, 14);
	KUNIT_EXPECT_EQ(test, is.max_cqe, 15);
	KUNIT_EXPECT_EQ(test, is.max_qp_rd_atom, 16);
	KUNIT_EXPECT_EQ(test, is.max_qp_init_rd_atom, 17);
	KUNIT_EXPECT_EQ(test, is.max_sge_rd, 18);
	KUNIT_EXPECT_EQ(test, is.max_sgl_rd, 19);
	KUNIT_EXPECT_EQ(test, is.page_size, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, is.mr_page_size, PAGE_SIZE);
	KUNIT_EXPECT_FALSE(test, is.read_needs_region);
	KUNIT_EXPECT_EQ(test, is.node, NUMA_NO_NODE);
	device->ports[1].immutable.core_cap_flags = RDMA_CORE_CAP_PROT_IWARP;
	attrs->page_size_cap = SZ_64K | SZ_1M;
	rpcordma_endpoint_device(&device->endpoint, &is);
	KUNIT_EXPECT_TRUE(test, is.read_needs_region);
	KUNIT_EXPECT_EQ(test, is.mr_page_size, 4096);

	attrs->max_fast_reg_page_list_len = 0;
	attrs->kernel_cap_flags = 0;
	attrs->max_send_sge = attrs->max_recv_sge = attrs->max_qp_wr = attrs->max_cqe = -1;
	attrs->max_qp_rd_atom = attrs->max_qp_init_rd_atom = attrs->max_sge_rd = -1;
	rpcordma_endpoint_device(&device->endpoint, &is);
	KUNIT_EXPECT_FALSE(test, is.fast_registration);
	KUNIT_EXPECT_FALSE(test, is.sg_gaps);
	KUNIT_EXPECT_EQ(test, is.max_send_sge, 0);
	KUNIT_EXPECT_EQ(test, is.max_recv_sge, 0);
	KUNIT_EXPECT_EQ(test, is.max_qp_wr, 0);
	KUNIT_EXPECT_EQ(test, is.max_cqe, 0);
	KUNIT_EXPECT_EQ(test, is.max_qp_rd_atom, 0);
	KUNIT_EXPECT_EQ(test, is.max_qp_init_rd_atom, 0);
	KUNIT_EXPECT_EQ(test, is.max_sge_rd, 0);
	attrs->max_fast_reg_page_list_len = 1;
	attrs->device_cap_flags = 0;
	rpcordma_endpoint_device(&device->endpoint, &is);
	KUNIT_EXPECT_FALSE(test, is.fast_registration);
}

static void entries(struct kunit *test)
{
	void *done[RPCORDMA_CQE_SERVER_CHAIN + 1];
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(done); i++) {
		struct rpcordma_cqe cqe = {};

		rpcordma_cqe_init(&cqe, i);
		KUNIT_EXPECT_NOT_NULL(test, cqe.done);
		done[i] = cqe.done;
		for (j = 0; j < i; j++)
			KUNIT_EXPECT_PTR_NE(test, done[i], done[j]);
	}
}

static void buffers(struct kunit *test)
{
	struct test_device *device = test_device_make(test);
	struct rpcordma_sge sge = {};
	void *memory = kunit_kzalloc(test, 4096, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, memory);
	rpcordma_fault_arm("ib_dma_map_single", 1);
	KUNIT_EXPECT_EQ(test,
			rpcordma_dma_map(&device->endpoint, memory, 4096, RPCORDMA_DMA_TO_DEVICE, &sge),
			-EIO);
	rpcordma_fault_arm(NULL, 0);
	KUNIT_EXPECT_EQ(test,
			rpcordma_dma_map(&device->endpoint, memory, 4000, RPCORDMA_DMA_FROM_DEVICE, &sge),
			0);
	KUNIT_EXPECT_EQ(test, sge.addr, (uintptr_t)memory);
	KUNIT_EXPECT_EQ(test, sge.length, 4000);
	KUNIT_EXPECT_EQ(test, sge.lkey, TEST_LKEY);
	rpcordma_dma_sync_for_device(&device->endpoint, &sge, 4000);
	rpcordma_dma_sync_for_cpu(&device->endpoint, &sge, 4000);
	rpcordma_dma_unmap(&device->endpoint, &sge, 4000, RPCORDMA_DMA_FROM_DEVICE);
}

static void region_not_made(struct kunit *test)
{
	struct test_device *device = test_device_make(test);
	int error = 0;

	rpcordma_fault_arm("kvzalloc", 1);
	KUNIT_EXPECT_NULL(test, rpcordma_region_create(&device->endpoint, 4, false, &error));
	KUNIT_EXPECT_EQ(test, error, -ENOMEM);
	rpcordma_fault_arm("ib_alloc_mr", 1);
	error = 0;
	KUNIT_EXPECT_NULL(test, rpcordma_region_create(&device->endpoint, 4, false, &error));
	KUNIT_EXPECT_EQ(test, error, -ENOMEM);
	rpcordma_fault_arm(NULL, 0);
	/* What the device says. */
	KUNIT_EXPECT_NULL(test, rpcordma_region_create(&device->endpoint, TEST_REGION_PAGES + 1, false,
						       &error));
	KUNIT_EXPECT_EQ(test, error, -EINVAL);
	KUNIT_EXPECT_EQ(test, device->regions, 0);
}

static void region(struct kunit *test)
{
	struct test_device *device = test_device_make(test);
	struct page **pages = test_neighbours(test, 8);
	struct rpcordma_xdr_buf buf = { .pages = pages, .page_base = 100, .page_length = 20000, .len = 20000 };
	struct rpcordma_mapping first, second;
	struct rpcordma_region *region;
	struct rpcordma_reg_wr wr = {};
	int error = 0;

	region = rpcordma_region_create(&device->endpoint, TEST_REGION_PAGES, false, &error);
	KUNIT_ASSERT_NOT_NULL(test, region);
	KUNIT_EXPECT_EQ(test, device->regions, 1);

	KUNIT_EXPECT_EQ(test, rpcordma_region_map(region, &buf, 0, 20000, true, 0xabcd, &wr, &first), 0);
	KUNIT_EXPECT_EQ(test, first.length, 20000);
	KUNIT_EXPECT_EQ(test, upper_32_bits(first.iova), 0xabcd);
	KUNIT_EXPECT_EQ(test, lower_32_bits(first.iova),
			lower_32_bits((uintptr_t)page_address(pages[0]) + 100));
	KUNIT_EXPECT_EQ(test, wr.key, first.rkey);
	KUNIT_EXPECT_EQ(test, wr.mr->rkey, first.rkey);
	KUNIT_EXPECT_EQ(test, first.lkey, wr.mr->lkey);
	KUNIT_EXPECT_EQ(test, wr.access, IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE);
	rpcordma_region_unmap(region);

	/* Another key each time, and other rights. */
	KUNIT_EXPECT_EQ(test, rpcordma_region_map(region, &buf, 5000, 10000, false, 1, &wr, &second), 0);
	KUNIT_EXPECT_NE(test, second.rkey, first.rkey);
	KUNIT_EXPECT_EQ(test, second.rkey & ~0xff, first.rkey & ~0xff);
	KUNIT_EXPECT_EQ(test, second.length, 10000);
	KUNIT_EXPECT_EQ(test, lower_32_bits(second.iova),
			lower_32_bits((uintptr_t)page_address(pages[0]) + 5100));
	KUNIT_EXPECT_EQ(test, wr.access, IB_ACCESS_REMOTE_READ);
	rpcordma_region_unmap(region);
	/* Harmless. */
	rpcordma_region_unmap(region);

	/* Scratch memory has the key, the address and the length of what was there. */
	wr = (struct rpcordma_reg_wr){};
	KUNIT_EXPECT_EQ(test, rpcordma_region_map_scratch(region, &wr), 0);
	KUNIT_EXPECT_EQ(test, wr.key, second.rkey);
	KUNIT_EXPECT_EQ(test, wr.mr->iova, second.iova);
	KUNIT_EXPECT_EQ(test, wr.mr->length, second.length);
	KUNIT_EXPECT_EQ(test, wr.access, IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE);
	rpcordma_region_unmap(region);
	rpcordma_fault_arm("ib_dma_map_sg", 1);
	KUNIT_EXPECT_EQ(test, rpcordma_region_map_scratch(region, &wr), -ENOMEM);
	rpcordma_fault_arm("ib_map_mr_sg", 1);
	KUNIT_EXPECT_EQ(test, rpcordma_region_map_scratch(region, &wr), -EIO);
	rpcordma_fault_arm(NULL, 0);

	/* Destroyed with its mapping. */
	KUNIT_EXPECT_EQ(test, rpcordma_region_map(region, &buf, 1, 1, false, 0, &wr, &second), 0);
	rpcordma_region_destroy(region);
	KUNIT_EXPECT_EQ(test, device->regions, 0);
}

static void region_not_mapped(struct kunit *test)
{
	struct test_device *device = test_device_make(test);
	struct page **pages = test_neighbours(test, 32);
	struct page **apart = kunit_kcalloc(test, 16, sizeof(*apart), GFP_KERNEL);
	struct rpcordma_xdr_buf buf = { .pages = pages, .page_length = SZ_64K, .len = SZ_64K };
	struct rpcordma_mapping mapping;
	struct rpcordma_region *region;
	struct rpcordma_reg_wr wr;
	int error, i;

	KUNIT_ASSERT_NOT_NULL(test, apart);
	for (i = 0; i < 16; i++)
		apart[i] = pages[2 * i];
	region = rpcordma_region_create(&device->endpoint, 4, true, &error);
	KUNIT_ASSERT_NOT_NULL(test, region);
	KUNIT_EXPECT_EQ(test, rpcordma_region_map(region, &buf, 0, 0, true, 0, &wr, &mapping), -EIO);
	KUNIT_EXPECT_EQ(test, rpcordma_region_map(region, &buf, 0, SZ_64K + 1, true, 0, &wr, &mapping), -EIO);
	rpcordma_fault_arm("ib_dma_map_sg", 1);
	KUNIT_EXPECT_EQ(test, rpcordma_region_map(region, &buf, 0, 1000, true, 0, &wr, &mapping), -ENOMEM);
	rpcordma_fault_arm("ib_map_mr_sg", 1);
	KUNIT_EXPECT_EQ(test, rpcordma_region_map(region, &buf, 0, 1000, true, 0, &wr, &mapping), -EIO);
	rpcordma_fault_arm(NULL, 0);
	/* More pages than it has, and a device that takes less than all. */
	buf.pages = apart;
	KUNIT_EXPECT_EQ(test, rpcordma_region_map(region, &buf, 0, 5 * PAGE_SIZE, true, 0, &wr, &mapping), -EIO);
	device->refuse_map = 1;
	KUNIT_EXPECT_EQ(test, rpcordma_region_map(region, &buf, 0, 4 * PAGE_SIZE, true, 0, &wr, &mapping), -EIO);
	device->refuse_map = 0;
	/* A page that is not full, with others behind it, is none to a device. */
	buf.page_base = 0;
	KUNIT_EXPECT_EQ(test, rpcordma_region_map(region, &buf, 0, 4 * PAGE_SIZE, true, 0, &wr, &mapping), 0);
	KUNIT_EXPECT_EQ(test, mapping.length, 4 * PAGE_SIZE);
	rpcordma_fault_arm("ib_dereg_mr", 1);
	rpcordma_region_destroy(region);
	rpcordma_fault_arm(NULL, 0);
	KUNIT_EXPECT_EQ(test, device->regions, 0);
}

static void queues_not_made(struct kunit *test)
{
	static const char *const calls[] = { "ib_alloc_pd", "ib_alloc_cq_any", "ib_alloc_cq_any", "rdma_create_qp" };
	static const u32 nth[] = { 1, 1, 2, 1 };
	static const struct rpcordma_queue_sizes sizes = { 3, 5, 1, 1 };
	struct test_device *device = test_device_make(test);
	struct rpcordma_endpoint ep = { .id = &device->id };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		device->least_cqe = INT_MAX;
		rpcordma_fault_arm(calls[i], nth[i]);
		KUNIT_EXPECT_EQ(test, rpcordma_endpoint_create_qp(&ep, &sizes), -ENOMEM);
		KUNIT_EXPECT_TRUE(test, rpcordma_fault_hit());
		rpcordma_fault_arm(NULL, 0);
		KUNIT_EXPECT_NULL(test, ep.pd);
		KUNIT_EXPECT_NULL(test, ep.send_cq);
		KUNIT_EXPECT_NULL(test, ep.receive_cq);
		KUNIT_EXPECT_EQ(test, device->pds, 1);
		KUNIT_EXPECT_EQ(test, device->cqs, 0);
	}
	/* One entry for each work request, and for the one that drains. */
	KUNIT_EXPECT_EQ(test, device->least_cqe, 4);
	KUNIT_EXPECT_EQ(test, device->most_cqe, 6);
	/* Harmless without a queue pair. */
	rpcordma_endpoint_drain(&ep);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(what_it_can),
	KUNIT_CASE(entries),
	KUNIT_CASE(buffers),
	KUNIT_CASE(region_not_made),
	KUNIT_CASE(region),
	KUNIT_CASE(region_not_mapped),
	KUNIT_CASE(queues_not_made),
	{},
};

static struct kunit_suite suite = {
	.name = "compat_verbs",
	.test_cases = cases,
};

kunit_test_suite(suite);
