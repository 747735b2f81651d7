// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queue pairs, work requests, completions, DMA and memory regions. cm.c connects endpoints, bulk.c
 * has scattered memory. The core decides what is posted when, and what a completion means.
 */

#include <linux/dma-mapping.h>
#include <linux/io.h>
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sunrpc/xdr.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "compat/linux/endpoint.h"
#include "compat/linux/scatter.h"
#include "compat/linux/transport.h"
#include "compat/port/port.h"

/* Room in each queue and its completion queue for the marker that ib_drain_*() posts. */
#define DRAIN_WRS 1

/* --- completions --- */

/* As the core has it (layout.c). */
static const struct rpcordma_completion *completion_of(const struct ib_wc *wc)
{
	return (const struct rpcordma_completion *)wc;
}

static void send_done(struct ib_cq *cq, struct ib_wc *wc)
{
	rpcordma_core_send_done(cq->cq_context, completion_of(wc));
}

static void receive_done(struct ib_cq *cq, struct ib_wc *wc)
{
	rpcordma_core_receive_done(cq->cq_context, completion_of(wc));
}

static void register_done(struct ib_cq *cq, struct ib_wc *wc)
{
	rpcordma_core_register_done(cq->cq_context, completion_of(wc));
}

static void invalidate_done(struct ib_cq *cq, struct ib_wc *wc)
{
	rpcordma_core_invalidate_done(cq->cq_context, completion_of(wc));
}

static void gathered_done(struct ib_cq *cq, struct ib_wc *wc)
{
	rpcordma_core_gathered_done(cq->cq_context, completion_of(wc));
}

static void server_receive_done(struct ib_cq *cq, struct ib_wc *wc)
{
	rpcordma_core_server_receive_done(cq->cq_context, completion_of(wc));
}

static void server_send_done(struct ib_cq *cq, struct ib_wc *wc)
{
	rpcordma_core_server_send_done(cq->cq_context, completion_of(wc));
}

static void server_read_done(struct ib_cq *cq, struct ib_wc *wc)
{
	rpcordma_core_server_read_done(cq->cq_context, completion_of(wc));
}

static void server_chain_done(struct ib_cq *cq, struct ib_wc *wc)
{
	rpcordma_core_server_chain_done(cq->cq_context, completion_of(wc));
}

void rpcordma_cqe_init(struct rpcordma_cqe *cqe, enum rpcordma_cqe_kind kind)
{
	struct ib_cqe *entry = (struct ib_cqe *)cqe;

	switch (kind) {
	case RPCORDMA_CQE_SEND:
		entry->done = send_done;
		break;
	case RPCORDMA_CQE_RECEIVE:
		entry->done = receive_done;
		break;
	case RPCORDMA_CQE_REGISTER:
		entry->done = register_done;
		break;
	case RPCORDMA_CQE_INVALIDATE:
		entry->done = invalidate_done;
		break;
	case RPCORDMA_CQE_GATHERED:
		entry->done = gathered_done;
		break;
	case RPCORDMA_CQE_SERVER_RECEIVE:
		entry->done = server_receive_done;
		break;
	case RPCORDMA_CQE_SERVER_SEND:
		entry->done = server_send_done;
		break;
	case RPCORDMA_CQE_SERVER_READ:
		entry->done = server_read_done;
		break;
	case RPCORDMA_CQE_SERVER_CHAIN:
		entry->done = server_chain_done;
		break;
	}
}

/* --- device and queue pair --- */

static u32 region_page_size(const struct ib_device *device)
{
	return device->attrs.page_size_cap & PAGE_SIZE ? PAGE_SIZE : 4096;
}

void rpcordma_endpoint_device(const struct rpcordma_endpoint *ep, struct rpcordma_device *device)
{
	const struct ib_device *ib = ep->id->device;
	const struct ib_device_attr *attrs = &ib->attrs;

	memset(device, 0, sizeof(*device));
	strscpy(device->name, dev_name(&ib->dev), sizeof(device->name));
	device->fast_registration = (attrs->device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS) &&
				    attrs->max_fast_reg_page_list_len > 0;
	device->sg_gaps = attrs->kernel_cap_flags & IBK_SG_GAPS_REG;
	device->max_fast_reg_pages = attrs->max_fast_reg_page_list_len;
	device->max_send_sge = max(attrs->max_send_sge, 0);
	device->max_recv_sge = max(attrs->max_recv_sge, 0);
	device->max_qp_wr = max(attrs->max_qp_wr, 0);
	device->max_cqe = max(attrs->max_cqe, 0);
	device->max_qp_rd_atom = max(attrs->max_qp_rd_atom, 0);
	device->max_qp_init_rd_atom = max(attrs->max_qp_init_rd_atom, 0);
	device->max_sge_rd = max(attrs->max_sge_rd, 0);
	device->max_sgl_rd = attrs->max_sgl_rd;
	device->read_needs_region = rdma_protocol_iwarp(ib, ep->id->port_num);
	device->page_size = PAGE_SIZE;
	device->mr_page_size = region_page_size(ib);
	device->node = ibdev_to_node((struct ib_device *)ib);
}

/* The device's driver may call this in any context, interrupts included. */
static void handle_qp_event(struct ib_event *event, void *context)
{
	struct rpcordma_endpoint *ep = context;

	switch (event->event) {
	case IB_EVENT_QP_FATAL:
	case IB_EVENT_QP_REQ_ERR:
	case IB_EVENT_QP_ACCESS_ERR:
		queue_work(rpcordma_workqueue, &ep->fatal);
		break;
	case IB_EVENT_COMM_EST:
		/* A message came before the end of the handshake: it is established. */
		rdma_notify(ep->id, event->event);
		break;
	default:
		break;
	}
}

static struct ib_cq *create_cq(struct rpcordma_endpoint *ep, u32 entries)
{
	return ib_alloc_cq_any(ep->id->device, ep->context, entries, IB_POLL_WORKQUEUE);
}

int rpcordma_endpoint_create_qp(struct rpcordma_endpoint *ep,
				const struct rpcordma_queue_sizes *sizes)
{
	struct ib_qp_init_attr attributes = {
		.event_handler = handle_qp_event,
		.qp_context = ep,
		.cap.max_send_wr = sizes->send_wrs + DRAIN_WRS,
		.cap.max_recv_wr = sizes->receive_wrs + DRAIN_WRS,
		.cap.max_send_sge = sizes->send_sges,
		.cap.max_recv_sge = sizes->receive_sges,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	struct ib_pd *pd;
	struct ib_cq *cq;
	int rc;

	pd = ib_alloc_pd(ep->id->device, 0);
	if (IS_ERR(pd))
		return PTR_ERR(pd);
	ep->pd = pd;

	cq = create_cq(ep, attributes.cap.max_send_wr);
	rc = PTR_ERR_OR_ZERO(cq);
	if (rc)
		goto failed;
	ep->send_cq = cq;

	cq = create_cq(ep, attributes.cap.max_recv_wr);
	rc = PTR_ERR_OR_ZERO(cq);
	if (rc)
		goto failed;
	ep->receive_cq = cq;

	attributes.send_cq = ep->send_cq;
	attributes.recv_cq = ep->receive_cq;
	rc = rdma_create_qp(ep->id, ep->pd, &attributes);
	if (!rc)
		return 0;
failed:
	rpcordma_endpoint_destroy_qp(ep);
	return rc;
}

void rpcordma_endpoint_destroy_qp(struct rpcordma_endpoint *ep)
{
	if (ep->id->qp)
		rdma_destroy_qp(ep->id);
	if (ep->receive_cq)
		ib_free_cq(ep->receive_cq);
	if (ep->send_cq)
		ib_free_cq(ep->send_cq);
	if (ep->pd)
		ib_dealloc_pd(ep->pd);
	ep->receive_cq = NULL;
	ep->send_cq = NULL;
	ep->pd = NULL;
}

void rpcordma_endpoint_drain(struct rpcordma_endpoint *ep)
{
	struct ib_qp *qp = ep->id->qp;

	if (!qp)
		return;
	/*
	 * Both move the queue pair to the error state. That is legal from INIT, in which
	 * rdma_create_qp() left it, and from every later state. Receives first: the handling of
	 * replies may post LOCAL_INVs, which must precede the send queue's marker.
	 */
	ib_drain_rq(qp);
	ib_drain_sq(qp);
	/*
	 * Again: a LOCAL_INV may have succeeded before, with its completion handled only now, which
	 * returned a reply's buffer to the receive queue.
	 */
	ib_drain_rq(qp);
}

struct rpcordma_posted rpcordma_post_send(struct rpcordma_endpoint *ep,
					  const struct rpcordma_send_wr *first)
{
	const struct ib_send_wr *const wr = (const struct ib_send_wr *)first;
	/* Drivers need not set it if nothing was posted. */
	const struct ib_send_wr *bad = wr;
	const int error = ib_post_send(ep->id->qp, wr, &bad);

	return (struct rpcordma_posted){ .error = error, .any = bad != wr };
}

int rpcordma_post_receive(struct rpcordma_endpoint *ep, const struct rpcordma_recv_wr *first)
{
	const struct ib_recv_wr *bad;

	return ib_post_recv(ep->id->qp, (const struct ib_recv_wr *)first, &bad);
}

/* --- message buffers --- */

int rpcordma_dma_map(struct rpcordma_endpoint *ep, void *memory, rpcordma_u32 length,
		     enum rpcordma_dma direction, struct rpcordma_sge *sge)
{
	u64 address = ib_dma_map_single(ep->id->device, memory, length, dma_direction(direction));

	if (ib_dma_mapping_error(ep->id->device, address))
		return -EIO;
	sge->addr = address;
	sge->length = length;
	sge->lkey = ep->pd->local_dma_lkey;
	return 0;
}

void rpcordma_dma_unmap(struct rpcordma_endpoint *ep, const struct rpcordma_sge *sge,
			rpcordma_u32 length, enum rpcordma_dma direction)
{
	struct ib_device *device = ep->id->device;

	/* A bounce buffer is not copied back: the memory may be somebody else's, who has written to it. */
	if (!ib_uses_virt_dma(device))
		dma_unmap_single_attrs(device->dma_device, sge->addr, length, dma_direction(direction),
				       DMA_ATTR_SKIP_CPU_SYNC);
}

void rpcordma_dma_sync_for_device(struct rpcordma_endpoint *ep, const struct rpcordma_sge *sge,
				  rpcordma_u32 length)
{
	ib_dma_sync_single_for_device(ep->id->device, sge->addr, length, DMA_TO_DEVICE);
}

void rpcordma_dma_sync_for_cpu(struct rpcordma_endpoint *ep, const struct rpcordma_sge *sge,
			       rpcordma_u32 length)
{
	ib_dma_sync_single_for_cpu(ep->id->device, sge->addr, length, DMA_FROM_DEVICE);
}

/* --- memory regions --- */

struct rpcordma_region {
	struct ib_mr *mr;
	u32 page_size;
	struct rpcordma_scatter scatter;
};

struct rpcordma_region *rpcordma_region_create(struct rpcordma_endpoint *ep, rpcordma_u32 pages,
					       rpcordma_bool sg_gaps, int *error)
{
	struct rpcordma_region *region;

	/* More than a page, and the CPU's alone: it need not be contiguous. */
	region = rpcordma_alloc_large(struct_size(region, scatter.entries, pages),
				      RPCORDMA_ALLOC_NOIO);
	if (!region) {
		*error = -ENOMEM;
		return NULL;
	}
	region->page_size = region_page_size(ep->id->device);
	rpcordma_scatter_init(&region->scatter, pages);
	region->mr = ib_alloc_mr(ep->pd, sg_gaps ? IB_MR_TYPE_SG_GAPS : IB_MR_TYPE_MEM_REG, pages);
	if (IS_ERR(region->mr)) {
		*error = PTR_ERR(region->mr);
		rpcordma_free_large(region);
		return NULL;
	}
	return region;
}

void rpcordma_region_destroy(struct rpcordma_region *region)
{
	int rc;

	/* The peer may reach it until then. */
	rc = ib_dereg_mr(region->mr);
	rpcordma_region_unmap(region);
	if (rc)
		rpcordma_log_value(NULL, RPCORDMA_LOG_ERROR,
				   "the device does not give back a memory region", rc);
	rpcordma_free_large(region);
}

/* DMA-map the used entries, and make them the region's page list. */
static __always_inline int map_entries(struct rpcordma_region *region, u32 length,
				       enum dma_data_direction direction)
{
	int entries, taken;

	entries = rpcordma_scatter_map(&region->scatter, region->mr->device, direction);
	if (entries < 0)
		return entries;

	/* It takes what fits. If that is not all, the segment was laid out wrongly. */
	taken = ib_map_mr_sg(region->mr, region->scatter.entries, entries, NULL, region->page_size);
	if (taken != entries || region->mr->length != length) {
		rpcordma_region_unmap(region);
		return -EIO;
	}
	return 0;
}

int rpcordma_region_map(struct rpcordma_region *region, const struct rpcordma_xdr_buf *buf,
			rpcordma_u32 offset, rpcordma_u32 length, rpcordma_bool writable,
			rpcordma_u32 tag, struct rpcordma_reg_wr *wr,
			struct rpcordma_mapping *mapping)
{
	const struct xdr_buf *xdr = (const struct xdr_buf *)buf;
	struct ib_mr *mr = region->mr;
	u32 rkey, lkey;
	u64 iova;
	int rc;

	if (region->scatter.mapped) {
		rpcordma_warn("a region is unmapped before it is mapped again");
		return -EIO;
	}
	rpcordma_scatter_reset(&region->scatter);
	if (!length || !rpcordma_scatter_add_buf(&region->scatter, xdr, offset, length))
		return -EIO;

	rc = map_entries(region, length, writable ? DMA_FROM_DEVICE : DMA_TO_DEVICE);
	if (rc)
		return rc;

	ib_update_fast_reg_key(mr, (u8)mr->rkey + 1);
	/* Read before anything is written, which may be anywhere for all the compiler knows. */
	rkey = mr->rkey;
	lkey = mr->lkey;
	iova = mr->iova;

	/* The device uses only the offset within a page, so the upper half is free for a mark. */
	iova = lower_32_bits(iova) | (u64)tag << 32;
	mr->iova = iova;
	wr->mr = mr;
	wr->key = rkey;
	wr->access = writable ? IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE :
				IB_ACCESS_REMOTE_READ;
	mapping->rkey = rkey;
	mapping->lkey = lkey;
	mapping->length = length;
	mapping->iova = iova;
	return 0;
}

int rpcordma_region_map_scratch(struct rpcordma_region *region, struct rpcordma_reg_wr *wr)
{
	struct ib_mr *mr = region->mr;
	const u64 iova = mr->iova;
	const u32 length = mr->length;
	u32 in_page = offset_in_page(iova), left = length;
	int rc;

	if (region->scatter.mapped) {
		rpcordma_warn("a region is unmapped before it is mapped again");
		return -EIO;
	}
	/* One page serves for all, since nobody reads what is written there. */
	rpcordma_scatter_reset(&region->scatter);
	while (left) {
		const u32 take = min_t(u32, left, PAGE_SIZE - in_page);

		if (!rpcordma_scatter_add(&region->scatter, rpcordma_scratch_page, take, in_page))
			return -EIO;
		left -= take;
		in_page = 0;
	}
	rc = map_entries(region, length, DMA_FROM_DEVICE);
	if (rc)
		return rc;
	/* With bounce buffers the page list may begin elsewhere in its page than the address says. */
	if ((mr->iova ^ iova) & (region->page_size - 1)) {
		rpcordma_region_unmap(region);
		return -EIO;
	}
	mr->iova = iova;
	wr->mr = mr;
	wr->key = mr->rkey;
	wr->access = IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE;
	return 0;
}

void rpcordma_region_unmap(struct rpcordma_region *region)
{
	rpcordma_scatter_unmap(&region->scatter);
}

u32 rpcordma_region_id(const struct rpcordma_region *region)
{
	return region->mr->res.id;
}
