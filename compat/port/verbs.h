/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Verbs: connections, queue pairs, work requests, completions, memory regions, DMA.
 *
 * An endpoint is a connection identifier and, once created, its protection domain, completion
 * queues and queue pair. It belongs to whoever created it. Work requests, SGEs and completion
 * entries mirror the kernel's structs (compat/linux/layout.c asserts that), so that a chain that
 * the core builds is handed to the device as it stands.
 *
 * Completions are delivered from a workqueue, in process context, one at a time for each completion
 * queue; the core must not sleep in them (the workqueue serves memory reclaim).
 */
#ifndef RPCORDMA_PORT_VERBS_H
#define RPCORDMA_PORT_VERBS_H

#include "compat/port/base.h"

RPCORDMA_BEGIN

struct rpc_xprt;
struct rpcordma_endpoint;
struct rpcordma_region;
struct rpcordma_xdr_buf;
struct ib_mr;

struct rpcordma_sge {
	rpcordma_u64 addr;
	rpcordma_u32 length;
	rpcordma_u32 lkey;
};

/** Who gets a completion: set by rpcordma_cqe_init(), opaque otherwise. Mirrors struct ib_cqe. */
struct rpcordma_cqe {
	void *done;
};

enum rpcordma_cqe_kind {
	RPCORDMA_CQE_SEND, /* rpcordma_core_send_done() */
	RPCORDMA_CQE_RECEIVE, /* rpcordma_core_receive_done() */
	RPCORDMA_CQE_REGISTER, /* rpcordma_core_register_done(), on failure only */
	RPCORDMA_CQE_INVALIDATE, /* rpcordma_core_invalidate_done() */
	RPCORDMA_CQE_GATHERED, /* rpcordma_core_gathered_done() */
	RPCORDMA_CQE_SERVER_RECEIVE, /* rpcordma_core_server_receive_done(), and so on: svc.h */
	RPCORDMA_CQE_SERVER_SEND,
	RPCORDMA_CQE_SERVER_READ,
	RPCORDMA_CQE_SERVER_CHAIN,
};
void rpcordma_cqe_init(struct rpcordma_cqe *cqe, enum rpcordma_cqe_kind kind);

/* ib_verbs' values, asserted in layout.c */
enum {
	RPCORDMA_WR_RDMA_WRITE = 0,
	RPCORDMA_WR_SEND = 2,
	RPCORDMA_WR_RDMA_READ = 4,
	RPCORDMA_WR_LOCAL_INV = 7,
	RPCORDMA_WR_SEND_WITH_INV = 9,
	RPCORDMA_WR_RDMA_READ_WITH_INV = 11, /* iWARP: its sink's region is invalidated when it is done */
	RPCORDMA_WR_REG_MR = 32,

	RPCORDMA_SEND_SIGNALED = 2,

	RPCORDMA_ACCESS_LOCAL_WRITE = 1,
	RPCORDMA_ACCESS_REMOTE_WRITE = 2,
	RPCORDMA_ACCESS_REMOTE_READ = 4,

	RPCORDMA_WC_SUCCESS = 0,
	RPCORDMA_WC_FLUSHED = 5,
	RPCORDMA_WC_REMOTE_ACCESS = 10,
	RPCORDMA_WC_WITH_INVALIDATE = 4,
};

/** Mirrors struct ib_send_wr. */
struct rpcordma_send_wr {
	struct rpcordma_send_wr *next;
	struct rpcordma_cqe *cqe;
	struct rpcordma_sge *sg_list;
	int num_sge;
	int opcode;
	int send_flags;
	rpcordma_u32 invalidate_rkey;
};

/** Mirrors struct ib_rdma_wr. */
struct rpcordma_rdma_wr {
	struct rpcordma_send_wr wr;
	rpcordma_u64 remote_addr;
	rpcordma_u32 rkey;
};

/** Mirrors struct ib_reg_wr. */
struct rpcordma_reg_wr {
	struct rpcordma_send_wr wr;
	struct ib_mr *mr;
	rpcordma_u32 key;
	int access;
};

/** Mirrors struct ib_recv_wr. */
struct rpcordma_recv_wr {
	struct rpcordma_recv_wr *next;
	struct rpcordma_cqe *cqe;
	struct rpcordma_sge *sg_list;
	int num_sge;
};

/**
 * Mirrors the beginning of struct ib_wc. The device fills in @cqe and @status; only where that is RPCORDMA_WC_SUCCESS, and of a
 * Receive, @byte_len and @flags, and of these with RPCORDMA_WC_WITH_INVALIDATE, @invalidated_rkey. All else is anything.
 */
struct rpcordma_completion {
	struct rpcordma_cqe *cqe;
	int status; /* enum ib_wc_status */
	int opcode;
	rpcordma_u32 vendor_error;
	rpcordma_u32 byte_len;
	void *qp;
	rpcordma_u32 invalidated_rkey;
	rpcordma_u32 source_qp;
	rpcordma_u32 source_lid;
	int flags; /* and others beside RPCORDMA_WC_WITH_INVALIDATE */
};

/* Core: completions. @context is the one given to rpcordma_endpoint_create(). */
RPCORDMA_CORE void rpcordma_core_send_done(void *context, const struct rpcordma_completion *completion);
RPCORDMA_CORE void rpcordma_core_receive_done(void *context, const struct rpcordma_completion *completion);
RPCORDMA_CORE void rpcordma_core_register_done(void *context, const struct rpcordma_completion *completion);
RPCORDMA_CORE void rpcordma_core_invalidate_done(void *context, const struct rpcordma_completion *completion);
RPCORDMA_CORE void rpcordma_core_gathered_done(void *context, const struct rpcordma_completion *completion);

/* What the device can do; figures as the device reports them. */
struct rpcordma_device {
	char name[64];
	rpcordma_bool fast_registration; /* MEM_MGT_EXTENSIONS and a page list length above zero */
	rpcordma_bool sg_gaps;
	rpcordma_u32 max_fast_reg_pages;
	rpcordma_u32 max_send_sge;
	rpcordma_u32 max_recv_sge;
	rpcordma_u32 max_qp_wr;
	rpcordma_u32 max_cqe;
	rpcordma_u32 max_qp_rd_atom; /* RDMA Reads that it serves at once, per queue pair */
	rpcordma_u32 max_qp_init_rd_atom; /* RDMA Reads that it has under way at once, likewise */
	rpcordma_u32 max_sge_rd; /* SGEs of an RDMA Read */
	rpcordma_u32 max_sgl_rd; /* SGEs beyond which a Read into a region does better; 0: it never does */
	rpcordma_bool read_needs_region; /* iWARP: the sink of an RDMA Read is registered memory */
	rpcordma_u32 page_size; /* the kernel's */
	rpcordma_u32 mr_page_size; /* the page size that regions will have */
	rpcordma_u32 node; /* its NUMA node, for rpcordma_pages_alloc() */
};

struct rpcordma_queue_sizes {
	rpcordma_u32 send_wrs;
	rpcordma_u32 receive_wrs;
	rpcordma_u32 send_sges;
	rpcordma_u32 receive_sges;
};

struct rpcordma_connect_parameters {
	const void *private_data;
	rpcordma_u8 private_data_length;
	rpcordma_u8 responder_resources; /* RDMA Reads from the peer that we serve at once */
	rpcordma_u8 initiator_depth; /* RDMA Reads of ours at once */
	rpcordma_u8 retry_count;
	rpcordma_u8 rnr_retry_count;
};

/** What happens to an established connection, or to the device under an endpoint. */
enum rpcordma_endpoint_event {
	RPCORDMA_EVENT_ESTABLISHED, /* of an accepted one; an active one's connect() returns */
	RPCORDMA_EVENT_DISCONNECTED,
	RPCORDMA_EVENT_ADDRESS_CHANGE,
	RPCORDMA_EVENT_DEVICE_REMOVAL,
	RPCORDMA_EVENT_QP_FATAL,
};

/**
 * Core: an event on an endpoint whose rpcordma_endpoint_connect() returned 0, or is about to.
 * Process context; must not destroy the endpoint nor wait for anything but spin locks. May come
 * more than once, and may come before rpcordma_endpoint_connect() has returned. With
 * RPCORDMA_EVENT_DEVICE_REMOVAL the device waits until the endpoint is destroyed.
 */
RPCORDMA_CORE void rpcordma_core_endpoint_event(void *context, enum rpcordma_endpoint_event event);

/**
 * Make an endpoint for @xprt's network namespace.
 * @context  handed to every core call about this endpoint
 * Returns null and sets *@error (negative errno). Process context.
 */
struct rpcordma_endpoint *rpcordma_endpoint_create(struct rpc_xprt *xprt, void *context,
						   int *error);
/**
 * Find the device and the route to @xprt's address; waits, up to @limit_ms for each of the two.
 * Errors: EPROTO, the address does not resolve to an RDMA device (logged); EHOSTUNREACH, nobody
 * answers at the address; ENETUNREACH, no route; ENODEV, the device went away meanwhile; ENOMEM;
 * ETIMEDOUT. Process context.
 */
int rpcordma_endpoint_resolve(struct rpcordma_endpoint *endpoint, rpcordma_u32 limit_ms);
/** What the resolved device can do. Any context. */
void rpcordma_endpoint_device(const struct rpcordma_endpoint *endpoint,
			      struct rpcordma_device *device);
/**
 * Create protection domain, completion queues and queue pair. Each queue gets room for the drain on
 * top of @sizes: one work request, which the device's limits must allow as well. The completion
 * queues hold one entry for each work request. Process context.
 */
int rpcordma_endpoint_create_qp(struct rpcordma_endpoint *endpoint,
				const struct rpcordma_queue_sizes *sizes);
/**
 * Connect, and wait until that succeeds or fails, up to @limit_ms.
 * Errors: ECONNREFUSED, rejected; ENETUNREACH; ENOTCONN; ETIMEDOUT; ENODEV, the device went away;
 * ERESTARTSYS never. Process context.
 */
int rpcordma_endpoint_connect(struct rpcordma_endpoint *endpoint,
			      const struct rpcordma_connect_parameters *parameters,
			      rpcordma_u32 limit_ms);
/**
 * Accept the connection request that a server's endpoint came with; the queue pair is there. From
 * here on rpcordma_core_server_event() may come: RPCORDMA_EVENT_ESTABLISHED as the first.
 * Errors: ENOTCONN, ENODEV, EINVAL, ENOMEM. Process context.
 */
int rpcordma_endpoint_accept(struct rpcordma_endpoint *endpoint,
			     const struct rpcordma_connect_parameters *parameters);
/** The peer's private data as the connection request was accepted with; stays until destroy. */
const void *rpcordma_endpoint_private_data(const struct rpcordma_endpoint *endpoint,
					   rpcordma_u32 *length);
/**
 * Start to disconnect; harmless when that is under way, or was never connected. Process context.
 */
void rpcordma_endpoint_disconnect(struct rpcordma_endpoint *endpoint);
/**
 * Bring the queue pair into the error state and wait until all posted work requests are completed
 * and their completions delivered: Receives first, then Sends. Harmless without a queue pair.
 * Process context.
 */
void rpcordma_endpoint_drain(struct rpcordma_endpoint *endpoint);
/**
 * Destroy whatever there is; waits for events being delivered. Not to be called from an event. All
 * regions must be gone, all DMA unmapped. A peer that does not know that the connection is over is
 * told of it, behind this too. Process context.
 */
void rpcordma_endpoint_destroy(struct rpcordma_endpoint *endpoint);

/** What became of a chain. */
struct rpcordma_posted {
	int error; /* 0: all of it is the device's; else a negative errno, and what is behind some place in it is not */
	rpcordma_bool any; /* with an error: the device has the first work request at least */
};
/** Post a chain with one doorbell. Any context. */
struct rpcordma_posted rpcordma_post_send(struct rpcordma_endpoint *endpoint,
					  const struct rpcordma_send_wr *first);
/** As that. Returns 0, or a negative errno: the device may have some of the chain's first Receives. Any context. */
int rpcordma_post_receive(struct rpcordma_endpoint *endpoint, const struct rpcordma_recv_wr *first);

/* Memory that is mapped for a long time: message buffers. */
enum rpcordma_dma { RPCORDMA_DMA_TO_DEVICE, RPCORDMA_DMA_FROM_DEVICE };
/**
 * As rpcordma_alloc(), of the memory that is nearest to @endpoint's device (its NUMA node's) where there is
 * some. Freed by rpcordma_free(); bound to the endpoint in no way. The endpoint is resolved.
 */
void *rpcordma_alloc_near(const struct rpcordma_endpoint *endpoint, rpcordma_size size,
			  enum rpcordma_alloc_how how);
/**
 * Map memory from rpcordma_alloc() or rpcordma_alloc_near(), or a page of rpcordma_pages_alloc(); fills @sge.
 * Errors: EIO. Any context that may not sleep too.
 */
int rpcordma_dma_map(struct rpcordma_endpoint *endpoint, void *memory, rpcordma_u32 length,
		     enum rpcordma_dma direction, struct rpcordma_sge *sge);
/**
 * Unmap it. The device has nothing of it; what it wrote and was not taken back is lost, and what the CPU wrote since stays.
 */
void rpcordma_dma_unmap(struct rpcordma_endpoint *endpoint, const struct rpcordma_sge *sge,
			rpcordma_u32 length, enum rpcordma_dma direction);
/**
 * Hand @length bytes from the start of @sge over to the device (memory mapped
 * RPCORDMA_DMA_TO_DEVICE), or take them back (RPCORDMA_DMA_FROM_DEVICE). Any context.
 */
void rpcordma_dma_sync_for_device(struct rpcordma_endpoint *endpoint, const struct rpcordma_sge *sge,
				  rpcordma_u32 length);
void rpcordma_dma_sync_for_cpu(struct rpcordma_endpoint *endpoint, const struct rpcordma_sge *sge,
			       rpcordma_u32 length);

/*
 * Memory regions for fast registration. A region is created with its scatterlist and reused; it
 * maps one byte range of an xdr_buf at a time, which obeys the rules of module/chunk/segments.hh.
 */
struct rpcordma_mapping {
	rpcordma_u32 rkey;
	rpcordma_u32 lkey; /* for SGEs of our own */
	rpcordma_u32 length;
	rpcordma_u64 iova;
};

/** Process context, may sleep. Returns null and sets *@error. */
struct rpcordma_region *rpcordma_region_create(struct rpcordma_endpoint *endpoint, rpcordma_u32 pages,
					       rpcordma_bool sg_gaps, int *error);
/** Returns the region to the device, registered or not, and unmaps what is mapped. Process context, may sleep. */
void rpcordma_region_destroy(struct rpcordma_region *region);
/**
 * DMA-map bytes [@offset, @offset + @length) of @buf and make them the region's content under a
 * fresh key, with the upper half of the address set to @tag. Fills in @wr's mr, key and access, and
 * @mapping. The buffer's content must not be touched by the CPU until rpcordma_region_unmap().
 * @writable  the peer may write, else it may read
 * Errors: ENOMEM, no room for the mapping now; EIO, it can never be mapped. Any context.
 */
int rpcordma_region_map(struct rpcordma_region *region, const struct rpcordma_xdr_buf *buf,
			rpcordma_u32 offset, rpcordma_u32 length, rpcordma_bool writable,
			rpcordma_u32 tag, struct rpcordma_reg_wr *wr,
			struct rpcordma_mapping *mapping);
/**
 * Put scratch memory behind the key, the address and the length that the region had when it was
 * mapped last; it must be invalidated and unmapped. What the peer writes there is lost. Fills in
 * @wr anew. After an error the region can only be destroyed, or mapped for another call.
 * Errors: ENOMEM, EIO. Any context.
 */
int rpcordma_region_map_scratch(struct rpcordma_region *region, struct rpcordma_reg_wr *wr);
/**
 * Undo the DMA mapping, if there is one. The peer must be unable to reach the memory. Any context.
 */
void rpcordma_region_unmap(struct rpcordma_region *region);

RPCORDMA_END

#endif
