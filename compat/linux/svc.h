/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the server's Linux side share: the layout of a connection, and what init and exit
 * of the module call. The port itself is in compat/port/svc.h.
 */
#ifndef RPCORDMA_LINUX_SVC_H
#define RPCORDMA_LINUX_SVC_H

#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/sunrpc/svc_xprt.h>
#include <linux/workqueue.h>

#include "compat/linux/peer.h"
#include "compat/linux/transport.h"
#include "compat/port/svc.h"

struct seq_file;

/** A connection; the core's half follows. sunrpc drops it, by the pointer to xprt. */
struct rpcordma_connection {
	struct svc_xprt xprt;
	struct rpcordma_peer peer; /* with its port, which xprt.xpt_remote hides */

	/* From the request until it is accepted; svc.c's accept lock */
	struct list_head queued; /* on the listener's queue, which then holds the reference */
	struct rpcordma_listener *listener; /* while on the queue */
	struct rpcordma_endpoint *endpoint; /* the core's from accept on: null then */
	u32 initiator_depth;
	bool core; /* the core's half is constructed */

	/* What the core is told of the service, which may be gone before the last completion. */
	u32 max_message;
	u32 threads;

	struct work_struct lost; /* cannot be accepted any more */
	struct work_struct free;
	struct list_head link; /* svc_debugfs.c's list */
	u32 number; /* among all connections since the module was loaded */
};

static inline struct rpcordma_connection *to_connection(struct svc_xprt *xprt)
{
	return container_of(xprt, struct rpcordma_connection, xprt);
}

static inline struct rpcordma_server *connection_server(struct rpcordma_connection *connection)
{
	return (struct rpcordma_server *)PTR_ALIGN((char *)(connection + 1), RPCORDMA_CORE_ALIGN);
}

/* svc.c */
int rpcordma_svc_register(void);
void rpcordma_svc_unregister(void);
/** Connection requests that were refused, for want of memory or of threads to accept them. */
unsigned long rpcordma_svc_refused(void);

/* svc_sinks.c */
/** From here on the pool is filled by @workqueue, and shrunk when memory is short. Errors: ENOMEM. */
int rpcordma_svc_sinks_register(struct workqueue_struct *workqueue);
/** It is shrunk no more; what is queued on the workqueue is the caller's to flush. */
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
void rpcordma_svc_debugfs_join(struct rpcordma_connection *connection);
/** On return nobody uses the connection by way of debugfs. Harmless when it has not joined. */
void rpcordma_svc_debugfs_leave(struct rpcordma_connection *connection);

#endif
