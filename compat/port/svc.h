/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sunrpc, the server's side: listeners, connections, the calls of a service, the backchannel.
 *
 * A connection is one allocation: struct svc_xprt at its head, where sunrpc finds it, and the core's
 * struct rpcordma_server at its tail. Listeners are C alone: the core hears of a connection when it
 * is to be accepted. A call of the service is a struct rpcordma_server_call of the core's; sunrpc
 * keeps the pointer as the request's transport context.
 *
 * The service has threads, each with a struct svc_rqst: an array of pages, of which the first ones
 * take the call and the rest the reply. "The thread" below is the one whose svc_rqst is handed over.
 */
#ifndef RPCORDMA_PORT_SVC_H
#define RPCORDMA_PORT_SVC_H

#include "compat/port/base.h"
#include "compat/port/sunrpc.h"
#include "compat/port/verbs.h"

RPCORDMA_BEGIN

struct svc_xprt;
struct svc_rqst;
struct rpcordma_server; /* the core's half of a connection */
struct rpcordma_server_call; /* the core's, a request's rq_xprt_ctxt */

/** The limits that the administrator sets; read without a lock, one word at a time. */
struct rpcordma_server_tunables {
	rpcordma_u32 max_requests; /* calls that a client may have outstanding */
	rpcordma_u32 max_req_size; /* bytes that a client may send inline */
	rpcordma_u32 max_outbound_read_requests; /* RDMA Reads at once, per connection */
	rpcordma_u32 eager_read_bytes; /* module parameter; 0: by threads and memory */
	rpcordma_u32 rnr_retry_count; /* module parameter; 7: without end */
	rpcordma_u32 version2; /* module parameter, as in rpcordma_tunables */
	rpcordma_u32 version2_pages; /* module parameter, likewise */
	rpcordma_u32 version2_rtr; /* module parameter, likewise */
	/* Module parameter: what large Receives of all connections may take; 0: a 64th of the memory */
	unsigned long version2_receive_bytes;
};
extern struct rpcordma_server_tunables rpcordma_server_tunables;

/** The counters under /proc/sys/sunrpc/svc_rdma/, of all connections. Any context. */
enum rpcordma_server_counter {
	RPCORDMA_SERVER_READ, /* rdma_stat_read: RDMA Read work requests */
	RPCORDMA_SERVER_RECV, /* rdma_stat_recv: calls received */
	RPCORDMA_SERVER_WRITE, /* rdma_stat_write: RDMA Write work requests */
	RPCORDMA_SERVER_SQ_STARVE, /* rdma_stat_sq_starve: waits for room in a send queue */
	/* Ours alone, in debugfs: */
	RPCORDMA_SERVER_EAGER, /* calls whose Reads were posted by the receive completion */
	RPCORDMA_SERVER_HELD, /* calls whose Reads were left to a thread */
	RPCORDMA_SERVER_DEBT, /* Receives that could not be reposted at once */
	RPCORDMA_SERVER_ERR_VERS, /* errors sent on connections of version 1, or of none yet */
	RPCORDMA_SERVER_ERR_CHUNK,
	RPCORDMA_SERVER_DROPPED, /* messages dropped in silence */
	RPCORDMA_SERVER_V2_CONNECTIONS, /* that have come to version 2 */
	RPCORDMA_SERVER_GROWN, /* of these, connections whose Receives have become large */
	RPCORDMA_SERVER_LENT_PAGES, /* of Receives, that were the service's as they are */
	RPCORDMA_SERVER_V2_FOREIGN_KEYS, /* calls that name an R_key to invalidate, and do not offer it */
	RPCORDMA_SERVER_V2_GROUPS, /* calls of several transmissions that were whole */
	RPCORDMA_SERVER_V2_SENT_ITEMS, /* calls whose payload came into pages of Receives (rtrext-01) */
	RPCORDMA_SERVER_V2_REPLY_GROUPS, /* replies of several transmissions */
	RPCORDMA_SERVER_V2_SENT_RESULTS, /* results of replies that were sent into pages of clients' Receives */
	RPCORDMA_SERVER_V2_GROUPS_DROPPED, /* that were broken off, or refused */
	RPCORDMA_SERVER_V2_REPTERR, /* reports of what was wrong with a transmission, sent */
	RPCORDMA_SERVER_V2_REPTERR_RECEIVED, /* and those of clients, of replies that are gone */
	/* Errors sent on connections of version 2, in the order of their codes: */
	RPCORDMA_SERVER_V2_ERR_VERS,
	RPCORDMA_SERVER_V2_ERR_BAD_XDR,
	RPCORDMA_SERVER_V2_ERR_REPLY_RESOURCE,
	RPCORDMA_SERVER_V2_ERR_INVAL_PROC,
	RPCORDMA_SERVER_V2_ERR_INVAL_OPTION,
	RPCORDMA_SERVER_V2_ERR_SYSTEM,
	RPCORDMA_SERVER_COUNTERS,
};
void rpcordma_server_count(enum rpcordma_server_counter which, rpcordma_u32 add);

/** What a connection has at this moment. */
struct rpcordma_server_state {
	rpcordma_u32 version; /* of the protocol; 0: the client has not said yet */
	rpcordma_bool established; /* and not closing */
	rpcordma_u32 credits; /* that replies grant */
	rpcordma_u32 calls; /* received, and not done with */
	rpcordma_u32 inline_send; /* inline thresholds, bytes: what we may send at once, */
	rpcordma_u32 inline_receive; /* and the client */
	rpcordma_u32 receives; /* that are posted */
	rpcordma_bool waiting; /* threads wait for room in its send queue */
};

/* Core: a connection's life */

RPCORDMA_CORE rpcordma_size rpcordma_core_server_size(void);
/**
 * Make of @server, zeroed memory of rpcordma_core_server_size() bytes, a connection and accept it:
 * queue pair, Receives, answer. @endpoint came with the connection request, and belongs to the core
 * from here on, whatever the result. @private_data is the request's; @initiator_depth is what the
 * client lets us have of RDMA Reads at once.
 * On failure the connection is refused; rpcordma_core_server_destroy() is to be called all the same.
 * A service thread.
 */
RPCORDMA_CORE int rpcordma_core_server_accept(struct rpcordma_server *server, struct svc_xprt *xprt,
				const struct rpcordma_peer *peer,
				struct rpcordma_endpoint *endpoint, const void *private_data,
				rpcordma_u32 private_data_length, rpcordma_u32 initiator_depth);
/** The transport is being closed: disconnect, and wake whoever waits. Once; process context. */
RPCORDMA_CORE void rpcordma_core_server_detach(struct rpcordma_server *server);
/** Free all that accept() made. Nobody has a reference any more. May sleep; not a completion. */
RPCORDMA_CORE void rpcordma_core_server_destroy(struct rpcordma_server *server);
/** What the connection, which was accepted, has come to. Any context. */
RPCORDMA_CORE void rpcordma_core_server_describe(struct rpcordma_server *server,
						 struct rpcordma_agreement *agreed);
/** Break the connection as a network failure would; anybody may call, in process context. */
RPCORDMA_CORE void rpcordma_core_server_inject_disconnect(struct rpcordma_server *server);
/** For debugfs. @server was accepted, and is not destroyed meanwhile. Any process context. */
RPCORDMA_CORE void rpcordma_core_server_state(struct rpcordma_server *server, struct rpcordma_server_state *state);
/** The largest payload of a call or a reply that can be carried, bytes, in pages of @page_size. */
RPCORDMA_CORE rpcordma_u32 rpcordma_core_server_max_payload(rpcordma_u32 page_size);
/** Once, before the first connection: make what is kept for all of them. */
RPCORDMA_CORE int rpcordma_core_server_init(void);
/** Once, when the module goes and no connection is left: free what is kept for all of them. */
RPCORDMA_CORE void rpcordma_core_server_exit(void);
/** Asked for by rpcordma_server_queue_refill(): fill the pool of sink pages. May sleep. */
RPCORDMA_CORE void rpcordma_core_server_refill(void);
/** Pages that lie idle in the pool, and could be given back. Any context. */
RPCORDMA_CORE rpcordma_u32 rpcordma_core_server_spare_pages(void);
/**
 * The kernel is short of memory: give back up to @pages of those, or a few more. Returns how many.
 * Process context, memory reclaim included.
 */
RPCORDMA_CORE rpcordma_u32 rpcordma_core_server_shrink(rpcordma_u32 pages);

/* Core: the operations of svc_xprt_ops, in a service thread. */

/**
 * Take a call off the connection for @rqst, and let other threads have the next one
 * (rpcordma_svc_received(), exactly once). Returns the call's length in bytes, or 0: none to
 * process now, or its Reads were posted and it comes back when they are done.
 */
RPCORDMA_CORE int rpcordma_core_server_recvfrom(struct rpcordma_server *server, struct svc_rqst *rqst);
/** Send the reply in @rqst to @call; may wait for room in the send queue. Errors: ENOTCONN. */
RPCORDMA_CORE int rpcordma_core_server_sendto(struct rpcordma_server *server, struct svc_rqst *rqst,
				struct rpcordma_server_call *call);
/**
 * The reply's bytes [@offset, @offset + @length) are one result that may go in a Write chunk: the
 * next one. Returns 0.
 */
RPCORDMA_CORE int rpcordma_core_server_result_payload(struct rpcordma_server_call *call, rpcordma_u32 offset,
					rpcordma_u32 length);
/** sunrpc has done with @call: replied to, or dropped. Any process context. */
RPCORDMA_CORE void rpcordma_core_server_release(struct rpcordma_server *server,
				  struct rpcordma_server_call *call);
/**
 * Asked for by rpcordma_svc_queue_finish(): unmap what completions left mapped, and destroy regions that were idle for
 * long. A worker; may sleep.
 */
RPCORDMA_CORE void rpcordma_core_server_finish(struct rpcordma_server *server);
/** Whether a thread could send a reply without waiting for others that wait. Any context. */
RPCORDMA_CORE rpcordma_bool rpcordma_core_server_has_space(const struct rpcordma_server *server);

/* Core: completions and events of a server's endpoint; as their namesakes in verbs.h. */
RPCORDMA_CORE void rpcordma_core_server_receive_done(void *context, const struct rpcordma_completion *completion);
RPCORDMA_CORE void rpcordma_core_server_send_done(void *context, const struct rpcordma_completion *completion);
RPCORDMA_CORE void rpcordma_core_server_read_done(void *context, const struct rpcordma_completion *completion);
/** Of a work request in the midst of a chain: comes only when it failed. */
RPCORDMA_CORE void rpcordma_core_server_chain_done(void *context, const struct rpcordma_completion *completion);
RPCORDMA_CORE void rpcordma_core_server_event(void *context, enum rpcordma_endpoint_event event);

/* Core: the backchannel. Process context; the caller has a reference to the svc_xprt. */

/**
 * Send the backward call in @message. Returns 0; ENOTCONN, the connection is gone; EMSGSIZE, it is
 * larger than the client's receive buffer; ENOBUFS, call again after a delay.
 */
RPCORDMA_CORE int rpcordma_core_server_send_backward(struct rpcordma_server *server, rpcordma_u32 xid,
				       const struct rpcordma_xdr_buf *message);
/** Backward calls that may be outstanding before the client has granted anything, and at most. */
RPCORDMA_CORE rpcordma_u32 rpcordma_core_server_backward_calls(void);
/** The largest backward call and reply, bytes; before a connection is known, a lower bound. */
RPCORDMA_CORE rpcordma_u32 rpcordma_core_server_backward_payload(const struct rpcordma_server *server);

/* Port: the connection as sunrpc sees it */

struct rpcordma_server *rpcordma_svc_server(struct svc_xprt *xprt);
/** What the service is made for, as of now. Any context. */
struct rpcordma_svc_limits {
	rpcordma_u32 max_message; /* bytes of a call or a reply at most */
	rpcordma_u32 max_pages; /* of a call, in a thread's array, so that some are left for the reply */
	rpcordma_u32 threads;
};
/** The client's address, without its port, as a number; no two clients' are likely to be the same. */
rpcordma_u64 rpcordma_svc_address_key(const struct svc_xprt *xprt);
void rpcordma_svc_get_limits(const struct svc_xprt *xprt, struct rpcordma_svc_limits *limits);
/** Have the transport closed, by a service thread; harmless when it is. Any context. */
void rpcordma_svc_close(struct svc_xprt *xprt);
/** Whether it is closed, or about to be. Any context. */
rpcordma_bool rpcordma_svc_is_dead(const struct svc_xprt *xprt);
/** There is (no) call to take: XPT_DATA. Under the lock that guards what it says. */
void rpcordma_svc_set_data(struct svc_xprt *xprt);
void rpcordma_svc_clear_data(struct svc_xprt *xprt);
/** Have a thread look at the transport, if there is something for it. Any context, no locks held. */
void rpcordma_svc_enqueue(struct svc_xprt *xprt);
/** The thread is done with the transport's queue: another one may look. */
void rpcordma_svc_received(struct svc_xprt *xprt);

/**
 * Have rpcordma_core_server_finish() called in @delay_ms or so. When that was asked for already and has not come, it comes
 * as asked for then, or with @anew in @delay_ms from now. A completion, a thread, or rpcordma_core_server_finish(); no
 * locks held.
 */
void rpcordma_svc_queue_finish(struct svc_xprt *xprt, rpcordma_u32 delay_ms, rpcordma_bool anew);
/** Do not, and wait for it if it is under way. Nobody asks for it again. May sleep. */
void rpcordma_svc_cancel_finish(struct svc_xprt *xprt);

/* Port: a thread's call */

/** A call in pieces, in this order. */
struct rpcordma_svc_arg {
	void *head; /* null: the first page is the head, and @page_length counts from the second */
	rpcordma_u32 head_length;
	/* null: the thread's own pages, from its first on; else pages that stay as they are until release() */
	struct page **pages;
	rpcordma_u32 page_length;
	void *tail;
	rpcordma_u32 tail_length;
	rpcordma_u32 pages_used; /* of the thread's array; the reply begins behind them */
};
/** Hand over a call: the transport context, the addresses, rq_arg, and where the reply begins. */
void rpcordma_svc_set_arg(struct svc_rqst *rqst, struct svc_xprt *xprt,
			  struct rpcordma_server_call *call, const struct rpcordma_svc_arg *arg);
/**
 * Exchange the thread's first @count pages for those of @pages. Any of the thread's may be absent:
 * then null comes back.
 */
void rpcordma_svc_swap_pages(struct svc_rqst *rqst, struct page **pages, rpcordma_u32 count);
/** Copy @length bytes to the thread's pages, from byte @offset of its first on; none of them is absent. */
void rpcordma_svc_write_pages(struct svc_rqst *rqst, rpcordma_u32 offset, const void *from,
			      rpcordma_u32 length);
/** Take the thread's first @count pages; it gets others before its next call. */
void rpcordma_svc_lend_pages(struct svc_rqst *rqst, struct page **pages, rpcordma_u32 count);
/** The reply, encoded. */
struct rpcordma_xdr_buf *rpcordma_svc_reply(struct svc_rqst *rqst);
/** Whether the call's security flavour lets results be placed directly: no integrity, no privacy. */
rpcordma_bool rpcordma_svc_ddp_allowed(const struct svc_rqst *rqst);
/**
 * How many pages the reply lies in, its head's among them. Fewer bytes than these have may be in them: nfsd has counted
 * what an NFSv3 READ asked for, and the file ended before.
 */
rpcordma_u32 rpcordma_svc_reply_pages(const struct svc_rqst *rqst);
/**
 * Take the pages that the reply lies in, its head's among them; returns how many. They are to be
 * given back with rpcordma_pages_release(). Returns 0, and takes none, when there are more than @room.
 */
rpcordma_u32 rpcordma_svc_take_reply_pages(struct svc_rqst *rqst, struct page **pages,
					   rpcordma_u32 room);

/* Port: pages. null entries are passed over by release. */

/** The machine's memory, bytes. Any context. */
rpcordma_u64 rpcordma_memory_size(void);
/** Allocate up to @count pages, of NUMA node @node while that has some; returns how many. */
rpcordma_u32 rpcordma_pages_alloc(struct page **pages, rpcordma_u32 count, rpcordma_u32 node,
				  enum rpcordma_alloc_how how);
/** Where a page's bytes are. Any context. */
void *rpcordma_page_address(struct page *page);
/** How many references somebody has to @count @pages, of rpcordma_pages_alloc(), besides their owner. Any context. */
rpcordma_u32 rpcordma_pages_kept(struct page *const *pages, rpcordma_u32 count);
/**
 * NUMA nodes: one more than the highest number that one can have, the one with memory that is next to the CPU that this
 * runs on, and the one of a page. Any context.
 */
rpcordma_u32 rpcordma_node_count(void);
rpcordma_u32 rpcordma_node(void);
rpcordma_u32 rpcordma_page_node(const struct page *page);
/** Whether two pages can be of different nodes: on most machines they cannot. Any context. */
rpcordma_bool rpcordma_nodes_differ(void);
/** Drop a reference each. Any context that may not sleep too. */
void rpcordma_pages_release(struct page **pages, rpcordma_u32 count);
/** Copy @length bytes to @pages, from byte @offset of the first on. Any context. */
void rpcordma_pages_write(struct page **pages, rpcordma_u32 offset, const void *from,
			  rpcordma_u32 length);
/** Have rpcordma_core_server_refill() called soon; harmless when that is under way. Any context. */
void rpcordma_server_queue_refill(void);

/* Port: the backchannel */

/**
 * Complete the backward call with @xid, on @xprt's backchannel, with the @length bytes of RPC reply
 * at @reply, and put @credits in force there (at least 1, at most what it can have). Returns false
 * when nobody waits for it, or it is too large for who does. A receive completion.
 */
rpcordma_bool rpcordma_svc_backward_reply(struct svc_xprt *xprt, rpcordma_u32 xid,
					  const void *reply, rpcordma_u32 length,
					  rpcordma_u32 credits);
/** As that, with an error instead of a reply: a negative errno that becomes the task's status. */
rpcordma_bool rpcordma_svc_backward_error(struct svc_xprt *xprt, rpcordma_u32 xid, int error);

/* Port: what it takes to move bulk data; see also rpcordma_rdma_wr in verbs.h */

/** A DMA mapping of pieces of memory: scattered page data, in order. Belongs to no device while empty. */
struct rpcordma_bulk;
/** Room for @pieces pieces; a page's part is one, neighbours in memory join. Null without memory. */
struct rpcordma_bulk *rpcordma_bulk_create(rpcordma_u32 pieces, enum rpcordma_alloc_how how);
void rpcordma_bulk_destroy(struct rpcordma_bulk *bulk);
/**
 * Add @length bytes of @pages, from byte @offset of the first on. Returns how many pieces there are
 * then. Errors: ENOSPC. Any context.
 */
int rpcordma_bulk_add_pages(struct rpcordma_bulk *bulk, struct page **pages, rpcordma_u32 offset,
			    rpcordma_u32 length);
/** Add bytes [@offset, @offset + @length) of @buf. Errors: ENOSPC. Any context. */
int rpcordma_bulk_add_buf(struct rpcordma_bulk *bulk, const struct rpcordma_xdr_buf *buf,
			  rpcordma_u32 offset, rpcordma_u32 length);
/**
 * Map what was added, and describe it with SGEs, in order, at most @room. Returns how many.
 * Errors (then it is empty again): ENOMEM, no room for the mapping now; ENOSPC. Any context.
 */
int rpcordma_bulk_map(struct rpcordma_bulk *bulk, struct rpcordma_endpoint *endpoint,
		      enum rpcordma_dma direction, struct rpcordma_sge *sges, rpcordma_u32 room);
/** How it is mapped: the pieces, 0 if it is not, and in @length the bytes of all. Any context. */
rpcordma_u32 rpcordma_bulk_pieces(const struct rpcordma_bulk *bulk, rpcordma_u32 *length);
/** Undo the mapping, if there is one, and forget what was added. Any context. */
void rpcordma_bulk_unmap(struct rpcordma_bulk *bulk);
/**
 * Map @length bytes of @pages, at least one, from byte @offset of the first on, and describe them with at most
 * @room SGEs, one for each run of neighbours: for few of them, as there is no more of that mapping than the SGEs, and
 * behind an IOMMU each has a mapping of its own. Returns how many; 0, and nothing is mapped: it takes more of them.
 * Errors: ENOMEM, no room for the mapping now; ENOSPC, a page is absent. Any context.
 */
int rpcordma_pages_map(struct rpcordma_endpoint *endpoint, enum rpcordma_dma direction,
		       struct page **pages, rpcordma_u32 offset, rpcordma_u32 length,
		       struct rpcordma_sge *sges, rpcordma_u32 room);
/* Runs of neighbours among pages, from the first page on; behind that many it is not known. */
#define RPCORDMA_RUNS 4
struct rpcordma_runs {
	rpcordma_u16 known; /* pages that those have together; 0: none is known */
	rpcordma_u16 pages[RPCORDMA_RUNS];
};

/**
 * As rpcordma_pages_map(), of @pages from the first byte on, of which @runs tells, and is told: as long as these are the same
 * pages, nobody looks at each of them again. Others in their place: the caller sets @runs->known to 0 before. Any context.
 */
int rpcordma_runs_map(struct rpcordma_endpoint *endpoint, enum rpcordma_dma direction,
		      struct page **pages, struct rpcordma_runs *runs, rpcordma_u32 length,
		      struct rpcordma_sge *sges, rpcordma_u32 room);
/** Undo either. Any context. */
void rpcordma_pages_unmap(struct rpcordma_endpoint *endpoint, enum rpcordma_dma direction,
			  const struct rpcordma_sge *sges, rpcordma_u32 count);
/** Copy bytes [@offset, @offset + @length) of @buf, head, pages and tail. Any context. */
void rpcordma_buf_read(const struct rpcordma_xdr_buf *buf, rpcordma_u32 offset, void *to,
		       rpcordma_u32 length);

RPCORDMA_END

#endif
