/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the server's Linux side call of each other, and what init and exit of the
 * module call. The port itself is in compat/port/svc.h.
 */
#ifndef RPCORDMA_LINUX_SVC_H
#define RPCORDMA_LINUX_SVC_H

#include <linux/types.h>

#include "compat/port/svc.h"

struct dentry;
struct rdma_cm_id;
struct rdma_conn_param;
struct seq_file;
struct sockaddr;
struct svc_rqst;
struct svc_xprt;
struct workqueue_struct;

/* svc_listener.c: the transport class, and its listeners */
int rpcordma_svc_register(void);
void rpcordma_svc_unregister(void);
/** Connection requests that were refused, for want of memory or of threads to accept them. */
unsigned long rpcordma_svc_refused(void);
/** Module parameter server_accept_queue: how many connections may wait for each listener; READ_ONCE() it. */
extern u32 rpcordma_svc_accept_queue;

/* svc_rqst.c: a thread's call */

/**
 * Whether the reply pages of @rqst, which has no call yet, are where the probes took them to be. If not, nothing
 * may be done with its pages. A service thread.
 */
#ifdef HAVE_SVC_RQST_MAXPAGES
bool rpcordma_svc_pages_as_known(const struct svc_rqst *rqst);
#else
/* The array of the call's pages is part of struct svc_rqst, and large enough for both: svc_rqst.c asserts it. */
static inline bool rpcordma_svc_pages_as_known(const struct svc_rqst *rqst)
{
	return true;
}
#endif

/* svc_connection.c: connections, from their request on */

/** Connections that wait to be accepted. */
struct rpcordma_accept_queue {
	struct list_head list;
	unsigned int length; /* READ_ONCE() it */
};
void rpcordma_accept_queue_init(struct rpcordma_accept_queue *queue);
/**
 * Why a connection from @remote may not wait, too, where @most may: for the log; null if it may. Of one address
 * an eighth of them may, or 16 if that is more. Process context.
 */
const char *rpcordma_accept_queue_full(struct rpcordma_accept_queue *queue, const struct sockaddr *remote,
				       unsigned int most);
/**
 * Make a connection of the request @id, as a transport of @listener's class and service, and queue
 * it. From the handler of that event. From here on events of @id are the connection's. Errors:
 * ENOMEM; nothing has changed then.
 */
int rpcordma_accept_queue_add(struct rpcordma_accept_queue *queue, struct svc_xprt *listener,
			      struct rdma_cm_id *id, const struct rdma_conn_param *request);
/**
 * Take the first connection off the queue and accept it. Returns it, for sunrpc; null if none waits
 * or if it could not be accepted. A service thread.
 */
struct svc_xprt *rpcordma_accept_queue_accept(struct rpcordma_accept_queue *queue);
/** Refuse all that wait. The listener receives no further requests. May sleep. */
void rpcordma_accept_queue_drain(struct rpcordma_accept_queue *queue);

/** Drop the first reference of a transport that sunrpc does not know. */
void rpcordma_svc_drop_unknown(struct svc_xprt *xprt);

/** One line for each accepted connection: its number, the client's address, its state. May sleep. */
void rpcordma_connections_show(struct seq_file *seq);
/**
 * Break the accepted connection with @number, or all if it is 0, as a network failure would.
 * Returns whether there was one. May sleep.
 */
bool rpcordma_connections_disconnect(u32 number);

/** Frees and relistens, unmaps what completions left, and refills the sinks. */
extern struct workqueue_struct *rpcordma_svc_workqueue;
/** Before the first listener; makes the workqueue. Errors: ENOMEM. */
int rpcordma_connections_init(void);
/** After the last transport is freed and the workqueue flushed. */
void rpcordma_connections_exit(void);

/* svc_sinks.c */
/** From here on @workqueue fills the pool, and a shrinker frees idle pages. Errors: ENOMEM. */
int rpcordma_svc_sinks_register(struct workqueue_struct *workqueue);
/** The shrinker stops. The caller flushes the workqueue. */
void rpcordma_svc_sinks_unregister(void);

/* svc_backchannel.c */
int rpcordma_svc_bc_register(void);
void rpcordma_svc_bc_unregister(void);

/* svc_counters.c: counters, and the sysctls that show and set them */
int rpcordma_svc_sysctl_register(void);
void rpcordma_svc_sysctl_unregister(void);
u64 rpcordma_svc_counter(enum rpcordma_server_counter which);

/* svc_debugfs.c; process context */
void rpcordma_svc_debugfs_register(struct dentry *parent);

#endif
