// SPDX-License-Identifier: GPL-2.0-only
/*
 * The server's transport class, and its listeners. Connections, from their request on, are in
 * svc_connection.c.
 *
 * A listener has one rdma_cm_id. Its handler puts each connection request on the listener's queue,
 * from which a service thread accepts it. The queue is bounded: a request that comes when it is
 * full, or when there is no memory, is refused. That is the one place where a handler has an
 * identifier destroyed by its return value: the identifier is new, and nobody else knows of it. The
 * rdma_cm delivers no request once rdma_destroy_id() has returned for the listener.
 *
 * When the listener's address moves to another device, or its device goes away, a worker replaces
 * the identifier, since a handler cannot destroy it. The worker retries until it succeeds.
 */

#define pr_fmt(fmt) "rpcordma: " fmt

#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/in.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sunrpc/svc.h>
#include <linux/sunrpc/svc_xprt.h>
#include <linux/sunrpc/xprt.h>
#include <linux/workqueue.h>
#include <rdma/rdma_cm.h>

#include "compat/linux/svc.h"
#include "compat/port/port.h"

/* Between attempts to replace a listener's identifier. */
#define RELISTEN_DELAY (5 * HZ)

struct rpcordma_listener {
	struct svc_xprt xprt;
	struct rpcordma_accept_queue queue;
	struct rdma_cm_id *id; /* null between attempts to make it; create, detach, relisten */
	struct delayed_work relisten;
	struct work_struct free;
	bool deaf; /* the last attempt failed, and the log says so; relisten alone */

	spinlock_t lock; /* of the rest; a leaf */
	bool open; /* from the end of create to detach */
	bool stale; /* its identifier is to be replaced */
};

static struct svc_xprt_class server_class;
static atomic_long_t refused;

u32 rpcordma_svc_accept_queue = 1024;

static struct rpcordma_listener *to_listener(struct svc_xprt *xprt)
{
	return container_of(xprt, struct rpcordma_listener, xprt);
}

unsigned long rpcordma_svc_refused(void)
{
	return atomic_long_read(&refused);
}

/* --- events of the identifier --- */

/* Returns what the handler is to return; any other value than 0 refuses the request. */
static int handle_request(struct rdma_cm_id *id, const struct rdma_conn_param *request)
{
	struct rpcordma_listener *listener = id->context;
	const char *why;

	/* Requests may come on several devices at once, so the bound may be exceeded by a few. */
	why = rpcordma_accept_queue_full(&listener->queue,
					 (const struct sockaddr *)&id->route.addr.dst_addr,
					 READ_ONCE(rpcordma_svc_accept_queue));
	if (!why && rpcordma_accept_queue_add(&listener->queue, &listener->xprt, id, request))
		why = "out of memory";
	if (why) {
		atomic_long_inc(&refused);
		pr_warn_ratelimited("%pISpc: connection refused: %s\n", &id->route.addr.dst_addr,
				    why);
		/* With ENOMEM the rdma_cm would not answer. */
		return -ECONNREFUSED;
	}
	set_bit(XPT_CONN, &listener->xprt.xpt_flags);
	svc_xprt_enqueue(&listener->xprt);
	return 0;
}

static void relisten_in(struct rpcordma_listener *listener, unsigned long delay)
{
	spin_lock(&listener->lock);
	listener->stale = true;
	if (listener->open)
		queue_delayed_work(rpcordma_svc_workqueue, &listener->relisten, delay);
	spin_unlock(&listener->lock);
}

static int handle_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return handle_request(id, &event->param.conn);
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		relisten_in(id->context, 0);
		break;
	default:
		break;
	}
	return 0;
}

/* --- listening --- */

static struct rdma_cm_id *listen(struct rpcordma_listener *listener, struct sockaddr *address)
{
	struct rdma_cm_id *id;
	int rc;

	id = rdma_create_id(listener->xprt.xpt_net, handle_event, listener, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return id;
	/* So that IPv4 and IPv6 can have a listener each on one port. */
	rc = rdma_set_afonly(id, 1);
	if (!rc)
		rc = rdma_bind_addr(id, address);
	if (!rc)
		rc = rdma_listen(id, READ_ONCE(rpcordma_svc_accept_queue));
	if (rc) {
		rdma_destroy_id(id);
		return ERR_PTR(rc);
	}
	return id;
}

/* The old identifier is destroyed first: it occupies the port. */
static void relisten_worker(struct work_struct *work)
{
	struct rpcordma_listener *listener =
		container_of(work, struct rpcordma_listener, relisten.work);
	struct sockaddr *address = (struct sockaddr *)&listener->xprt.xpt_local;
	struct rdma_cm_id *id;

	spin_lock(&listener->lock);
	listener->stale = false;
	spin_unlock(&listener->lock);
	if (listener->id)
		rdma_destroy_id(listener->id);
	listener->id = NULL;
	id = listen(listener, address);
	if (!IS_ERR(id)) {
		listener->id = id;
		if (listener->deaf)
			pr_info("listening on %pISpc again\n", address);
		listener->deaf = false;
		return;
	}
	if (!listener->deaf)
		pr_err("nobody can connect to %pISpc any more: its device went away or changed, and listening anew failed (%pe); trying again every %u s\n",
		       address, id, RELISTEN_DELAY / HZ);
	listener->deaf = true;
	relisten_in(listener, RELISTEN_DELAY);
}

static void free_worker(struct work_struct *work)
{
	rpcordma_free(container_of(work, struct rpcordma_listener, free));
}

/* --- the operations of svc_xprt_ops --- */

static struct svc_xprt *listener_create(struct svc_serv *serv, struct net *net,
					struct sockaddr *address, int length, int flags)
{
	struct rpcordma_listener *listener;
	struct rdma_cm_id *id;

	if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
		return ERR_PTR(-EAFNOSUPPORT);
	listener = rpcordma_alloc(sizeof(*listener), RPCORDMA_ALLOC_NOIO);
	if (!listener)
		return ERR_PTR(-ENOMEM);
	rpcordma_accept_queue_init(&listener->queue);
	INIT_DELAYED_WORK(&listener->relisten, relisten_worker);
	INIT_WORK(&listener->free, free_worker);
	spin_lock_init(&listener->lock);
	svc_xprt_init(net, &server_class, &listener->xprt, serv);
	set_bit(XPT_CONG_CTRL, &listener->xprt.xpt_flags);
	set_bit(XPT_LISTENER, &listener->xprt.xpt_flags);
	strscpy(listener->xprt.xpt_remotebuf, "listener", sizeof(listener->xprt.xpt_remotebuf));

	id = listen(listener, address);
	if (IS_ERR(id)) {
		pr_err("cannot listen on %pISpc: %pe\n", address, id);
		rpcordma_svc_drop_unknown(&listener->xprt);
		return ERR_CAST(id);
	}
	/* If the caller asked for port 0, this is the port that was chosen. */
	svc_xprt_set_local(&listener->xprt, (struct sockaddr *)&id->route.addr.src_addr, length);
	listener->id = id;
	spin_lock(&listener->lock);
	listener->open = true;
	if (listener->stale)
		queue_delayed_work(rpcordma_svc_workqueue, &listener->relisten, 0);
	spin_unlock(&listener->lock);
	return &listener->xprt;
}

/*
 * In a service thread, one at a time for each listener. The thread has taken a reference to the
 * module for the connection; if null is returned it gives that back.
 */
static struct svc_xprt *listener_accept(struct svc_xprt *xprt)
{
	struct rpcordma_listener *listener = to_listener(xprt);
	struct svc_xprt *connection;

	/* Cleared first: a request that is queued from here on sets it again. */
	clear_bit(XPT_CONN, &xprt->xpt_flags);
	connection = rpcordma_accept_queue_accept(&listener->queue);
	if (READ_ONCE(listener->queue.length))
		set_bit(XPT_CONN, &xprt->xpt_flags);
	return connection;
}

static void listener_detach(struct svc_xprt *xprt)
{
	struct rpcordma_listener *listener = to_listener(xprt);

	spin_lock(&listener->lock);
	listener->open = false;
	spin_unlock(&listener->lock);
	cancel_delayed_work_sync(&listener->relisten);
	if (listener->id)
		rdma_destroy_id(listener->id);
	listener->id = NULL;
	/* No request comes any more. */
	rpcordma_accept_queue_drain(&listener->queue);
}

static void listener_free(struct svc_xprt *xprt)
{
	queue_work(rpcordma_svc_workqueue, &to_listener(xprt)->free);
}

/* sunrpc calls this each time that it has looked at a listener. */
static void listener_release_ctxt(struct svc_xprt *xprt, void *context)
{
}

static const struct svc_xprt_ops listener_ops = {
	.xpo_create = listener_create,
	.xpo_accept = listener_accept,
	.xpo_release_ctxt = listener_release_ctxt,
	.xpo_detach = listener_detach,
	.xpo_free = listener_free,
};

static struct svc_xprt_class server_class = {
	.xcl_name = "rdma",
	.xcl_owner = THIS_MODULE,
	.xcl_ops = &listener_ops,
	.xcl_ident = XPRT_TRANSPORT_RDMA,
};

/* --- loading and unloading --- */

int rpcordma_svc_register(void)
{
	int rc;

	rc = rpcordma_core_server_init();
	if (rc)
		return rc;
	/* sunrpc's own limit may be larger than ours: since 6.16 it is 4 MiB. */
	server_class.xcl_max_payload =
		min_t(u32, RPCSVC_MAXPAYLOAD, rpcordma_core_server_max_payload(PAGE_SIZE));
	rc = rpcordma_connections_init();
	if (rc)
		goto no_connections;
	rc = rpcordma_svc_sinks_register(rpcordma_svc_workqueue);
	if (rc)
		goto no_sinks;
	rc = svc_reg_xprt_class(&server_class);
	if (!rc)
		return 0;
	rpcordma_svc_sinks_unregister();
no_sinks:
	rpcordma_connections_exit();
no_connections:
	rpcordma_core_server_exit();
	if (rc == -EEXIST)
		pr_err("another module serves the server's transport \"rdma\", most likely the in-tree rpcrdma; unload it first (rmmod rpcrdma)\n");
	return rc;
}

void rpcordma_svc_unregister(void)
{
	svc_unreg_xprt_class(&server_class);
	/*
	 * All transports are dropped, or the module could not be removed; the flush waits until the
	 * last ones are freed. Meanwhile a completion of theirs may have asked for a refill; after
	 * the flush nobody does.
	 */
	flush_workqueue(rpcordma_svc_workqueue);
	rpcordma_svc_sinks_unregister();
	rpcordma_connections_exit();
	rpcordma_core_server_exit();
}
