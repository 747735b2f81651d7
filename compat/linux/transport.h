/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the Linux side share: the layout of a transport and of a request, and what init
 * and exit of the module call. The port itself is in compat/port/.
 */
#ifndef RPCORDMA_LINUX_TRANSPORT_H
#define RPCORDMA_LINUX_TRANSPORT_H

#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/xprt.h>
#include <linux/workqueue.h>

#include "compat/linux/peer.h"
#include "compat/port/sunrpc.h"

/* The core's part of a struct begins on a cache line of its own. */
#define RPCORDMA_CORE_ALIGN 64

/** A port to display, which is where it is for good: who reads it has no lock, and rpcbind may tell another one meanwhile. */
struct rpcordma_port_text {
	char decimal[sizeof("65535")], hex[sizeof("ffff")];
};

/** A client transport; the core's half follows. sunrpc frees it, by the pointer to xprt. */
struct rpcordma_transport {
	struct rpc_xprt xprt;
	struct rpcordma_peer peer;
	struct delayed_work connect;
	struct delayed_work refill;
	struct delayed_work check;
	struct rpc_timeout timeout; /* xprt->timeout, once set_connect_timeout() changed it */
	struct list_head link; /* debugfs.c's list */
	struct rpc_rqst nudge; /* see nudge_sender() in credits.c; transport_lock */
	struct rpcordma_port_text port;
};

static inline struct rpcordma_transport *to_transport(struct rpc_xprt *xprt)
{
	return container_of(xprt, struct rpcordma_transport, xprt);
}

static inline struct rpcordma_client *to_client(struct rpc_xprt *xprt)
{
	return (struct rpcordma_client *)PTR_ALIGN((char *)(to_transport(xprt) + 1),
						   RPCORDMA_CORE_ALIGN);
}

/** A request, and what the kernel's has no place for. The core's half follows. */
struct rpcordma_slot {
	struct rpc_rqst rqst;
	/* Who frees the encrypted pages, while rq_release_snd_buf is the transport's: xprt.c. */
	typeof(((struct rpc_rqst *)NULL)->rq_release_snd_buf) release_snd_buf;
};

static inline struct rpcordma_slot *to_slot(struct rpc_rqst *rqst)
{
	return container_of(rqst, struct rpcordma_slot, rqst);
}

static inline struct rpcordma_call *to_call(struct rpc_rqst *rqst)
{
	return (struct rpcordma_call *)PTR_ALIGN((char *)(to_slot(rqst) + 1), RPCORDMA_CORE_ALIGN);
}

/** For connects, refills and checks, and for events from interrupt context; module.c. */
extern struct workqueue_struct *rpcordma_workqueue;
/** All of the module is registered. What is made before would outlive the module, if the rest fails. smp_load_acquire(). */
extern bool rpcordma_ready;

/** A page into which peers may write, and which nobody reads; module.c. */
extern struct page *rpcordma_scratch_page;

/* xprt.c */
/** Make the address strings that side protocols and users see. */
int rpcordma_format_addresses(struct rpc_xprt *xprt, struct rpcordma_port_text *port);
void rpcordma_free_addresses(struct rpc_xprt *xprt);
/** The line of /proc/self/mountstats. */
void rpcordma_print_stats(struct rpc_xprt *xprt, const struct rpcordma_client_stats *counters,
			  struct seq_file *seq);
int rpcordma_xprt_register(void);
void rpcordma_xprt_unregister(void);

/* cm.c */
/** Ends what lingers of connections that were ended. All endpoints are destroyed; may sleep. */
void rpcordma_cm_exit(void);

/* backchannel.c; the operations of struct rpc_xprt_ops */
int rpcordma_bc_setup(struct rpc_xprt *xprt, unsigned int requests);
size_t rpcordma_bc_maxpayload(struct rpc_xprt *xprt);
unsigned int rpcordma_bc_num_slots(struct rpc_xprt *xprt);
void rpcordma_bc_free_rqst(struct rpc_rqst *rqst);
void rpcordma_bc_destroy(struct rpc_xprt *xprt, unsigned int requests);

/* debugfs.c; process context */
void rpcordma_debugfs_register(void);
void rpcordma_debugfs_unregister(void);
void rpcordma_debugfs_join(struct rpcordma_transport *transport);
/** On return debugfs does not use the transport any more. */
void rpcordma_debugfs_leave(struct rpcordma_transport *transport);

/* sysctl.c */
int rpcordma_sysctl_register(void);
void rpcordma_sysctl_unregister(void);

#endif
