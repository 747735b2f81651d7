/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sunrpc, the client's side: transports, requests, the backchannel.
 *
 * A client transport is one allocation: struct rpc_xprt at its head, where sunrpc finds it, and the
 * core's struct rpcordma_client at its tail. A request likewise: struct rpc_rqst and struct
 * rpcordma_call. The core tells the sizes of its halves, and constructs and destroys them.
 */
#ifndef RPCORDMA_PORT_SUNRPC_H
#define RPCORDMA_PORT_SUNRPC_H

#include "compat/port/base.h"

RPCORDMA_BEGIN

struct rpc_xprt;
struct rpc_rqst;
struct page;
struct rpcordma_client; /* the core's half of a transport */
struct rpcordma_call; /* the core's half of a request */

/** Mirrors struct kvec. */
struct rpcordma_kvec {
	void *base;
	rpcordma_size length;
};

/** Mirrors struct xdr_buf. */
struct rpcordma_xdr_buf {
	struct rpcordma_kvec head;
	struct rpcordma_kvec tail;
	void *bvec;
	struct page **pages;
	rpcordma_u32 page_base;
	rpcordma_u32 page_length;
	rpcordma_u32 flags; /* RPCORDMA_XDRBUF_ */
	rpcordma_u32 buflen;
	rpcordma_u32 len;
};

enum {
	RPCORDMA_XDRBUF_READ = 1,
	RPCORDMA_XDRBUF_WRITE = 2,
	RPCORDMA_XDRBUF_SPARSE_PAGES = 4,
};

/** The limits and switches that the administrator sets; read without a lock, one word at a time. */
struct rpcordma_tunables {
	rpcordma_u32 slot_table_entries;
	rpcordma_u32 max_inline_read;
	rpcordma_u32 max_inline_write;
	rpcordma_bool scratch_remap; /* module parameter */
	rpcordma_u32 version2; /* module parameter: 0 off, 1 with marked peers, 2 with any */
	rpcordma_u32 version2_pages; /* module parameter: pages of a message in version 2, behind its head */
	rpcordma_u32 version2_rtr; /* module parameter: what may be announced of round-trip reduction, 0 to 7 */
	/* Module parameter: the longest payload of a call that goes in Sends where round-trip reduction can, bytes */
	rpcordma_u32 send_write_max;
	rpcordma_u32 send_read_max; /* module parameter: the same of a reply, bytes */
};
extern struct rpcordma_tunables rpcordma_tunables;

/**
 * What the two ends of a connection have come to, for whoever looks at a live system. Sizes are those of a message
 * that an end receives now, in bytes, and pages those of them that are behind its head.
 */
struct rpcordma_agreement {
	const char *why; /* static, as rpcordma_trace_version() has it; null: it is not settled */
	rpcordma_u32 version; /* of the protocol */
	rpcordma_u32 receive_size;
	rpcordma_u32 receive_pages;
	rpcordma_u32 peer_receive_size;
	rpcordma_u32 peer_receive_pages;
};

/** The counters of the mountstats line, in its order; see rpcordma_core_client_stats(). */
struct rpcordma_client_stats {
	unsigned long read_chunk_count;
	unsigned long write_chunk_count;
	unsigned long reply_chunk_count;
	unsigned long long total_rdma_request;
	unsigned long long total_rdma_reply;
	unsigned long long pullup_copy_count;
	unsigned long long fixup_copy_count;
	unsigned long hardway_register_count;
	unsigned long failed_marshal_count;
	unsigned long bad_reply_count;
	unsigned long nomsg_call_count;
	unsigned long mrs_recycled;
	unsigned long mrs_orphaned;
	unsigned long mrs_allocated;
	unsigned long local_inv_needed;
	unsigned long empty_sendctx_q;
	unsigned long bcall_count; /* not on the line */
	unsigned long scratch_count; /* regions that got scratch memory; not on the line */
	/* Of version 2's round-trip reduction; not on the line: */
	unsigned long group_count; /* calls sent in several transmissions */
	unsigned long sent_item_count; /* calls whose payload went in Sends, into pages of the server's */
	unsigned long gathered_item_count; /* those of them whose Sends read it where it lay */
	unsigned long asked_item_count; /* calls that asked for the payload of their replies in Sends */
	unsigned long received_item_count; /* replies whose payload came so */
	unsigned long credits_short; /* calls that went by chunks, as there were too few credits for that */
	unsigned long reserve_short; /* calls that offered a Reply chunk, as there were too few Receives for that */
	unsigned long reply_group_count; /* replies that came in several transmissions */
	unsigned long repterr_count; /* reports from the server that a transmission was wrong */
	struct rpcordma_agreement agreed; /* of the newest connection; not on the line */
};

/** What a transport's connection has at this moment; all 0 without one. */
struct rpcordma_client_state {
	rpcordma_u32 inline_send; /* inline thresholds, bytes: what we may send at once, */
	rpcordma_u32 inline_receive; /* and the server */
	rpcordma_u32 receives; /* messages that there are Receives for */
	rpcordma_u32 regions; /* memory regions */
};

/* Core: sizes and life of its halves. */

RPCORDMA_CORE rpcordma_size rpcordma_core_client_size(void);
RPCORDMA_CORE rpcordma_size rpcordma_core_call_size(void);
/**
 * Construct the core's half, zeroed memory of rpcordma_core_client_size() bytes, and all that a
 * transport without a connection needs, @slots requests among it. On failure there is nothing to
 * destroy. Process context.
 */
RPCORDMA_CORE int rpcordma_core_client_create(struct rpcordma_client *client, struct rpc_xprt *xprt,
				rpcordma_u32 slots);
/**
 * Free what create() made. Nobody uses the transport any more, nor does queued work: so whoever has such work
 * closes first, as completions queue it until then. Process context.
 */
RPCORDMA_CORE void rpcordma_core_client_destroy(struct rpcordma_client *client);
/** The largest payload to announce before a device is known; bytes. */
RPCORDMA_CORE rpcordma_u32 rpcordma_core_max_payload(void);

/* Core: the xprt operations, in the contexts that struct rpc_xprt_ops defines. */

/**
 * Connect. The caller holds the transport's send lock. Waits, within limits, for the peer. Returns
 * 0 when calls can be sent. On failure nothing is left of the attempt, and the error is one after
 * which sunrpc tries again: EPROTO, ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ENOTCONN, ETIMEDOUT.
 */
RPCORDMA_CORE int rpcordma_core_client_connect(struct rpcordma_client *client);
/** Drop the connection, if there is one; the caller holds the send lock. May sleep. */
RPCORDMA_CORE void rpcordma_core_client_close(struct rpcordma_client *client);
/** Break the connection as a network failure would; anybody may call, in process context. */
RPCORDMA_CORE void rpcordma_core_client_inject_disconnect(struct rpcordma_client *client);
/**
 * Whether a connection attempt may have to wait: a connection broke, or was not made, and no reply
 * has come since. For how long is sunrpc's rule.
 */
RPCORDMA_CORE rpcordma_bool rpcordma_core_client_should_back_off(struct rpcordma_client *client);
/** A free request, or null; sunrpc's part of it is zeroed. */
RPCORDMA_CORE struct rpc_rqst *rpcordma_core_alloc_slot(struct rpcordma_client *client);
/** sunrpc has done with @call, which was a slot: it, or another one, goes to a task that waits. */
RPCORDMA_CORE void rpcordma_core_free_slot(struct rpcordma_client *client, struct rpcordma_call *call);
/** Provide buffers of these sizes. Errors: ENOMEM. */
RPCORDMA_CORE int rpcordma_core_buf_alloc(struct rpcordma_client *client, struct rpcordma_call *call,
			    rpcordma_size call_size, rpcordma_size reply_size, void **call_buffer,
			    void **reply_buffer);
/**
 * @call's message and pages are about to be released: on return the peer cannot reach them, nor does the device read them.
 * Nobody finds the call for a reply any more. Its task has done with it, or goes on: then the connection that it was sent on is
 * closed before it is sent again. More than once does no harm. May sleep.
 */
RPCORDMA_CORE void rpcordma_core_buf_free(struct rpcordma_client *client, struct rpcordma_call *call);
/**
 * Whether @call's credit is to be given back now. False for a call whose reply is still owed: its
 * credit is held until the reply or the disconnect. Under xprt's transport lock.
 */
RPCORDMA_CORE rpcordma_bool rpcordma_core_release_credit(struct rpcordma_client *client,
					   struct rpcordma_call *call);
/**
 * Send @call. The caller holds the send lock.
 * Returns 0; ENOTCONN, reconnect and call again; EAGAIN, call again when woken; EBADSLT, no credit;
 * ENOBUFS, call again after a delay; EMSGSIZE or EIO, cannot be sent.
 */
RPCORDMA_CORE int rpcordma_core_send_request(struct rpcordma_client *client, struct rpcordma_call *call);
RPCORDMA_CORE const struct rpcordma_client_stats *rpcordma_core_client_stats(const struct rpcordma_client *client);
/** For debugfs. Any process context, in which the transport stays. */
RPCORDMA_CORE void rpcordma_core_client_state(struct rpcordma_client *client, struct rpcordma_client_state *state);
/** Make more regions: asked for by rpcordma_xprt_queue_refill(). Process context, may sleep. */
RPCORDMA_CORE void rpcordma_core_client_refill(struct rpcordma_client *client);
/** Look after replies that are overdue: asked for by rpcordma_xprt_queue_check(). Process context. */
RPCORDMA_CORE void rpcordma_core_client_check(struct rpcordma_client *client);

/*
 * The backchannel; the operations of rpc_xprt_ops with the same names. setup and destroy may sleep;
 * max_payload and slots may not: sunrpc asks for them in an RCU read-side section.
 */
RPCORDMA_CORE int rpcordma_core_bc_setup(struct rpcordma_client *client, rpcordma_u32 requests);
RPCORDMA_CORE rpcordma_size rpcordma_core_bc_max_payload(struct rpcordma_client *client);
RPCORDMA_CORE rpcordma_u32 rpcordma_core_bc_slots(struct rpcordma_client *client);
/** The service has done with @call, a backward one; the reply is sent or never will be. */
RPCORDMA_CORE void rpcordma_core_bc_free(struct rpcordma_client *client, struct rpcordma_call *call);
/** @requests: as for setup, one user less; or ~0, none is left. */
RPCORDMA_CORE void rpcordma_core_bc_destroy(struct rpcordma_client *client, rpcordma_u32 requests);
/** Send the reply to the backward @call; results as rpcordma_core_send_request(). */
RPCORDMA_CORE int rpcordma_core_bc_send_reply(struct rpcordma_client *client, struct rpcordma_call *call);

/* Port: requests */

/**
 * One allocation of struct rpc_rqst and the core's half, zeroed; null without memory. Process
 * context.
 */
struct rpc_rqst *rpcordma_rqst_create(struct rpc_xprt *xprt);
void rpcordma_rqst_destroy(struct rpc_rqst *rqst);
/** The core's half. Any context. */
struct rpcordma_call *rpcordma_rqst_call(struct rpc_rqst *rqst);
/** Zero sunrpc's half, as a slot must be when it is handed out. */
void rpcordma_rqst_reset(struct rpc_rqst *rqst);

/** What the core has to know to send a request. */
struct rpcordma_request {
	struct rpcordma_xdr_buf *send; /* rq_snd_buf, encoded */
	struct rpcordma_xdr_buf *receive; /* rq_rcv_buf */
	rpcordma_u32 xid; /* host byte order */
	rpcordma_bool connected; /* the transport believes it is */
	rpcordma_bool sent_before; /* on this very connection */
	rpcordma_bool reply_expected;
	/* The task that sends is the one that the request belongs to: an error ends the right one. */
	rpcordma_bool own;
	rpcordma_bool ddp_allowed; /* the security flavour lets payloads be placed directly */
};
/** Any context in which @rqst is stable. */
void rpcordma_rqst_get(struct rpc_rqst *rqst, struct rpcordma_request *request);
/**
 * Take a credit of the congestion window for @rqst; false when there is none, and it will be woken.
 */
rpcordma_bool rpcordma_rqst_take_credit(struct rpc_rqst *rqst);
/**
 * Take @credits more of the congestion window, for the other transmissions of a message: all, or none and
 * false. Nobody is woken for them.
 *
 * @share  that part of the window has to stay free: a half for 2, a quarter for 4; 0: none
 */
rpcordma_bool rpcordma_xprt_take_credits(struct rpc_xprt *xprt, rpcordma_u32 credits,
					 rpcordma_u32 share);
/** Give back what rpcordma_xprt_take_credits() took; the next sender is woken. Any context. */
void rpcordma_xprt_return_credits(struct rpc_xprt *xprt, rpcordma_u32 credits);
/**
 * The moment of transmission, and the bytes, for sunrpc's statistics. To be called right before the
 * post: afterwards the reply may be there, and with it the round-trip time.
 */
void rpcordma_rqst_sent(struct rpc_rqst *rqst);
/** Allocate the absent pages of a sparse receive buffer, without sleeping. Errors: ENOBUFS. */
int rpcordma_fill_sparse_pages(struct rpcordma_xdr_buf *buf);

/**
 * Find the request that waits for the reply with @xid, and pin it: until complete() or unpin() it,
 * its task and its buffers stay. Returns null when nobody waits, and counts that in bad_xids. Any context.
 */
struct rpc_rqst *rpcordma_rqst_find_pin(struct rpc_xprt *xprt, rpcordma_u32 xid);
void rpcordma_rqst_unpin(struct rpc_rqst *rqst);
/**
 * Give the reply to sunrpc, and unpin. @result is the reply's length in bytes, or a negative errno,
 * that becomes the task's status. The request may be gone on return.
 */
void rpcordma_rqst_complete(struct rpc_rqst *rqst, int result);
/**
 * Set, in rq_rcv_buf and rq_private_buf alike, the head's iov_len and page_len, and take
 * @buflen_reduction off buflen.
 */
void rpcordma_rqst_set_reply(struct rpc_rqst *rqst, rpcordma_u32 head, rpcordma_u32 pages,
			     rpcordma_u32 buflen_reduction);
/** Copy @length bytes to page data of @buf, from @offset bytes behind its first. Any context. */
void rpcordma_copy_to_pages(struct rpcordma_xdr_buf *buf, rpcordma_u32 offset, const void *from,
			    rpcordma_u32 length);
/** Copy @length bytes of @buf's page data, from @offset bytes behind the first. Any context. */
void rpcordma_copy_from_pages(const struct rpcordma_xdr_buf *buf, rpcordma_u32 offset, void *to,
			      rpcordma_u32 length);

/* Port: the transport. Any context that does not hold its locks, unless said otherwise. */

/** Who the server is, for logs and traces. */
const struct rpcordma_peer *rpcordma_xprt_peer(const struct rpc_xprt *xprt);

/** The congestion window becomes @credits calls. */
void rpcordma_xprt_set_credits(struct rpc_xprt *xprt, rpcordma_u32 credits);
/** As above for a fresh connection: nothing is in flight. */
void rpcordma_xprt_reset_credits(struct rpc_xprt *xprt, rpcordma_u32 credits);
/**
 * @rqst's credit, held back by rpcordma_core_release_credit(), is free now; the next sender is
 * woken. Only for a request of which that function said so.
 */
void rpcordma_xprt_return_credit(struct rpc_xprt *xprt, struct rpc_rqst *rqst);
/** @rqst holds no credit of the connection to come. */
void rpcordma_rqst_forget_credit(struct rpc_rqst *rqst);
/** A conversation was had: the next reconnect need not wait. */
void rpcordma_xprt_conversed(struct rpc_xprt *xprt);
/** Have rpcordma_core_client_close() called soon, with the send lock held. */
void rpcordma_xprt_force_disconnect(struct rpc_xprt *xprt);
/** The connection is closed; calls in flight are woken to be sent again. Holds the send lock. */
void rpcordma_xprt_closed(struct rpc_xprt *xprt);
/**
 * The current sender waits until rpcordma_xprt_write_space(). Holds the send lock. What came before
 * this call wakes nobody: look once more for what is waited for after it.
 */
void rpcordma_xprt_wait_for_space(struct rpc_xprt *xprt);
void rpcordma_xprt_write_space(struct rpc_xprt *xprt);
/** A request was freed: a task that waits for a slot may get it. Returns true if one took @rqst. */
rpcordma_bool rpcordma_xprt_wake_backlog(struct rpc_xprt *xprt, struct rpc_rqst *rqst);
/** Whether a task may be waiting for a slot. */
rpcordma_bool rpcordma_xprt_has_backlog(struct rpc_xprt *xprt);
/** Have rpcordma_core_client_refill() called in @delay_ms; harmless when that is under way. */
void rpcordma_xprt_queue_refill(struct rpc_xprt *xprt, rpcordma_u32 delay_ms);
/** Have rpcordma_core_client_check() called in @delay_ms, or earlier, if it was asked for before. */
void rpcordma_xprt_queue_check(struct rpc_xprt *xprt, rpcordma_u32 delay_ms);
/** The limit for a connection attempt, ms. */
rpcordma_u32 rpcordma_xprt_connect_limit_ms(struct rpc_xprt *xprt);
/** The payload that chunks can carry on this connection's device, bytes. */
void rpcordma_xprt_set_max_payload(struct rpc_xprt *xprt, rpcordma_u32 bytes);

/* Port: the backchannel */

/** Whether somebody serves backward calls on this transport. */
rpcordma_bool rpcordma_xprt_has_bc_service(struct rpc_xprt *xprt);
/**
 * Make @rqst a backward request with a reply buffer; fresh from rpcordma_rqst_create(), or used for
 * one before and rpcordma_rqst_reset().
 */
void rpcordma_bc_rqst_init(struct rpc_rqst *rqst, struct rpc_xprt *xprt, void *reply_buffer,
			   rpcordma_u32 reply_size);
/**
 * Hand a backward call to its service: @length bytes at @message, which stay until
 * rpcordma_core_bc_free(). Takes a reference to @xprt; returns false, and takes nothing, without
 * service.
 */
rpcordma_bool rpcordma_bc_rqst_submit(struct rpc_rqst *rqst, rpcordma_u32 xid, void *message,
				      rpcordma_u32 length);
/**
 * Call rpcordma_core_bc_free() for each request that was submitted on @xprt and that its service has not begun with, where the
 * kernel does not do so by itself when the service ends. Nothing is submitted meanwhile, the service has not ended if something
 * was submitted, and the caller has a reference to @xprt. Process context.
 */
void rpcordma_bc_take_back(struct rpc_xprt *xprt);
/** Drop the reference that submit took. The transport may be gone on return. */
void rpcordma_bc_rqst_done(struct rpc_xprt *xprt);

RPCORDMA_END

#endif
