/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An endpoint, as shared by cm.c, which connects it, and by verbs.c and bulk.c, which use its queue
 * pair and its device; and how svc_connection.c makes one of a connection request.
 */
#ifndef RPCORDMA_LINUX_ENDPOINT_H
#define RPCORDMA_LINUX_ENDPOINT_H

#include <linux/completion.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "compat/linux/peer.h"
#include "compat/port/verbs.h"

struct rpcordma_bulk;

/** As rpcordma_alloc(), of memory of @device's NUMA node where there is some. Freed by rpcordma_free(). */
void *rpcordma_alloc_of(const struct ib_device *device, rpcordma_size size,
			enum rpcordma_alloc_how how);

struct rpcordma_endpoint {
	const struct rpcordma_peer *peer;
	void *context; /* the core's */
	bool server; /* of a connection request; its events go to the server's core */

	/* Written by the thread that creates or destroys it; the core decides who may use them. */
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *send_cq;
	struct ib_cq *receive_cq;
	struct work_struct fatal; /* reports to the core an event that came in interrupt context */
	bool connected; /* for the CM, and so far as we know for the peer; under the id's handler lock */

	/* The step under way: resolve address, resolve route, connect. */
	struct completion ended;
	spinlock_t lock; /* guards the rest, which event handler and waiter share */
	int result; /* of the step; STEP_PENDING meanwhile */
	bool established; /* events are reported to the core */
	bool lost; /* a server's: it cannot be accepted any more */
	bool removed; /* the device goes away: no step can succeed */
	u32 private_data_length;
	u8 private_data[255];
};

/* The kernel's name for it. */
static inline enum dma_data_direction dma_direction(enum rpcordma_dma direction)
{
	return direction == RPCORDMA_DMA_TO_DEVICE ? DMA_TO_DEVICE : DMA_FROM_DEVICE;
}

/* verbs.c: the number that the RDMA core, and `rdma resource show mr`, know it by */
u32 rpcordma_region_id(const struct rpcordma_region *region);

/* verbs.c: destroy what rpcordma_endpoint_create_qp() made, even if it failed half-way */
void rpcordma_endpoint_destroy_qp(struct rpcordma_endpoint *endpoint);

/*
 * cm.c: an endpoint around the identifier of a connection request, in the handler of that event.
 * The caller becomes the identifier's handler, and hands its events to
 * rpcordma_endpoint_handle_event(). Null if there is no memory; nothing has changed then.
 */
struct rpcordma_endpoint *rpcordma_endpoint_adopt(struct rdma_cm_id *id,
						  const struct rpcordma_peer *peer, void *context,
						  const struct rdma_conn_param *request);

/*
 * cm.c: end the step under way, or tell the core, as @event demands. Returns true when the
 * connection was lost before it was established: then a connection request cannot be accepted any
 * more. That may happen more than once. In the handler of the identifier.
 */
bool rpcordma_endpoint_handle_event(struct rpcordma_endpoint *endpoint,
				    const struct rdma_cm_event *event);

#endif
