/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What cm.c, which connects an endpoint, and verbs.c, which works with its queue pair, both know of
 * it. Nobody else includes this.
 */
#ifndef RPCORDMA_LINUX_ENDPOINT_H
#define RPCORDMA_LINUX_ENDPOINT_H

#include <linux/completion.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "compat/port/verbs.h"

struct rpcordma_endpoint {
	struct rpc_xprt *xprt;
	void *context; /* the core's */

	/* Written by whoever creates and destroys, who is one; read by those whom the core lets. */
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *send_cq;
	struct ib_cq *receive_cq;
	struct work_struct fatal; /* tells the core of an event that came in interrupt context */

	/* The step under way: resolve address, resolve route, connect. */
	struct completion ended;
	spinlock_t lock; /* of the rest; between the event handler and who waits */
	int result; /* of the step; STEP_PENDING meanwhile */
	bool established; /* from here on, the core hears of events */
	bool removed; /* the device goes away: no step can succeed */
	u32 private_data_length;
	u8 private_data[255];
};

/* verbs.c: whatever rpcordma_endpoint_create_qp() made, also half of it */
void rpcordma_endpoint_destroy_qp(struct rpcordma_endpoint *endpoint);

#endif
