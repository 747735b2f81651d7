/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An RDMA device of which nothing moves data: as much of one as compat/linux needs to map memory, to make protection
 * domains and regions, and to be asked what it can do. It does no DMA (ib_uses_virt_dma()), so an address is the CPU's.
 */
#ifndef RPCORDMA_TEST_DEVICE_H
#define RPCORDMA_TEST_DEVICE_H

#include <kunit/test.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "compat/linux/endpoint.h"

/** Pages that a region of it can have. */
#define TEST_REGION_PAGES 16
/** The key of its local memory. */
#define TEST_LKEY 0x1234

struct test_device {
	struct ib_device *ib;
	struct rdma_cm_id id;
	struct ib_port_data ports[2]; /* of port 1, and of none */
	struct ib_pd *pd;
	struct rpcordma_endpoint endpoint; /* resolved, with a protection domain, without a queue pair */
	unsigned int regions, pds, cqs; /* that there are */
	int least_cqe, most_cqe; /* that a completion queue was asked to have */
	int refuse_map; /* the page list takes so many entries less */
};

/** Made for @test, and gone with it. */
struct test_device *test_device_make(struct kunit *test);

/**
 * @count pages for @test, gone with it, of one piece of memory: neighbours. Filled with bytes that differ.
 */
struct page **test_neighbours(struct kunit *test, unsigned int count);
/** The byte that test_neighbours() has at @offset. */
static inline u8 test_byte(size_t offset)
{
	return offset * 7 + (offset >> 8) + 1;
}

#endif
