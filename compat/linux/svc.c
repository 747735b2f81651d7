// SPDX-License-Identifier: GPL-2.0-only
/*
 * The server's transport class: listeners, and the life of connections. What a service thread does
 * with a call is in svc_rqst.c, the backchannel in svc_backchannel.c.
 *
 * Listeners. One rdma_cm_id each. A connection request makes a connection, whole but for the core's
 * half, and puts it on the listener's queue; a service thread takes it off and has the core accept
 * it. The queue is bounded: who comes when it is full, or when there is no memory, is refused. That
 * is the one place where a handler has an identifier destroyed by its return value: it has just been
 * made, nobody else knows of it, and nothing else refuses a request. The rdma_cm delivers no request
 * once rdma_destroy_id() has returned for the listener.
 *
 * When the listener's address moves to another device, or its device goes, the identifier is made
 * anew: by a worker, since a handler cannot destroy, and again and again until it works out.
 *
 * Life of a connection. Its first reference is the queue's, then sunrpc's: who takes it off the queue
 * without handing it to sunrpc drops it. A request that is lost while it is queued, because the peer
 * gave up or the device goes away, is taken off by the connection's own worker. sunrpc may drop the
 * last reference anywhere, and freeing waits for handlers and completions, so a worker does it.
 *
 * sunrpc puts a reference to the module for each svc_xprt that it frees. Those that sunrpc knows came
 * with one; the others get it right before they are dropped (drop_unknown()).
 *
 * Locks: accept_lock, a leaf, for all queues: a request that is lost need not know whether there still
 * is a listener.
 */

#define pr_fmt(fmt) "rpcordma: " fmt

#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/jhash.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sunrpc/addr.h>
#include <linux/sunrpc/svc.h>
#include <linux/sunrpc/svc_xprt.h>
#include <linux/sunrpc/xprt.h>
#include <linux/workqueue.h>
#include <rdma/rdma_cm.h>

#include "compat/linux/endpoint.h"
#include "compat/linux/svc.h"
#include "compat/port/port.h"

/* Requests that a listener lets wait. */
#define MOST_QUEUED 128
/* Between attempts to make a listener's identifier anew. */
#define RELISTEN_DELAY (5 * HZ)

struct rpcordma_listener {
	struct svc_xprt xprt;
	struct rdma_cm_id *id; /* null between attempts to make it; create, detach, relisten */
	struct delayed_work relisten;
	struct work_struct free;
	bool deaf; /* the last attempt failed, and that is in the log; relisten alone */

	/* accept_lock */
	bool open; /* from the end of create to detach */
	bool stale; /* its identifier is to be made anew */
	unsigned int queued;
	struct list_head queue;
};

/* The rest runs outside of memory reclaim, and waits for drivers' workers that do so as well. */
static struct workqueue_struct *server_workqueue;
static DEFINE_SPINLOCK(accept_lock);
static atomic_long_t refused;
static atomic_t connections;
static struct svc_xprt_class server_class;
static const struct svc_xprt_ops connection_ops;

static struct rpcordma_listener *to_listener(struct svc_xprt *xprt)
{
	return container_of(xprt, struct rpcordma_listener, xprt);
}

unsigned long rpcordma_svc_refused(void)
{
	return atomic_long_read(&refused);
}

/* Drop the first reference of a transport that sunrpc does not know. */
static void drop_unknown(struct svc_xprt *xprt)
{
	__module_get(THIS_MODULE);
	svc_xprt_put(xprt);
}

static void init_xprt(struct svc_xprt *xprt, struct net *net, struct svc_serv *serv)
{
	svc_xprt_init(net, &server_class, xprt, serv);
	/* Credits are congestion control (RFC 7530 3.1). */
	set_bit(XPT_CONG_CTRL, &xprt->xpt_flags);
}

/* --- connections --- */

static void free_connection(struct work_struct *work)
{
	struct rpcordma_connection *connection =
		container_of(work, struct rpcordma_connection, free);

	rpcordma_svc_debugfs_leave(connection);
	if (connection->core)
		rpcordma_core_server_destroy(connection_server(connection));
	/* Never accepted: it is refused hereby. */
	if (connection->endpoint)
		rpcordma_endpoint_destroy(connection->endpoint);
	/* No handler is left that could queue it. */
	cancel_work_sync(&connection->lost);
	/* Ours; see svc_backchannel.c. */
	if (connection->xprt.xpt_bc_xprt)
		xprt_put(connection->xprt.xpt_bc_xprt);
	rpcordma_free(connection);
}

static void take_off_locked(struct rpcordma_connection *connection)
{
	list_del_init(&connection->queued);
	connection->listener->queued--;
	connection->listener = NULL;
}

static void lost_worker(struct work_struct *work)
{
	struct rpcordma_connection *connection =
		container_of(work, struct rpcordma_connection, lost);
	bool ours;

	spin_lock(&accept_lock);
	ours = connection->listener;
	if (ours)
		take_off_locked(connection);
	spin_unlock(&accept_lock);
	/* Otherwise a thread is accepting it, which fails, or it is being dropped already. */
	if (ours)
		drop_unknown(&connection->xprt);
}

void rpcordma_svc_request_lost(const struct rpcordma_peer *peer)
{
	struct rpcordma_connection *connection =
		container_of((struct rpcordma_peer *)peer, struct rpcordma_connection, peer);

	queue_work(server_workqueue, &connection->lost);
}

static struct rpcordma_connection *create_connection(struct rpcordma_listener *listener,
						     struct rdma_cm_id *id,
						     const struct rdma_conn_param *request)
{
	const struct sockaddr *remote = (const struct sockaddr *)&id->route.addr.dst_addr;
	const struct sockaddr *local = (const struct sockaddr *)&id->route.addr.src_addr;
	struct svc_serv *serv = listener->xprt.xpt_server;
	struct rpcordma_connection *connection;
	struct svc_xprt *xprt;

	connection = rpcordma_alloc(sizeof(*connection) + RPCORDMA_CORE_ALIGN - 1 +
					    rpcordma_core_server_size(),
				    RPCORDMA_ALLOC_NOIO);
	if (!connection)
		return NULL;
	rpcordma_peer_set(&connection->peer, remote);
	connection->endpoint = rpcordma_endpoint_adopt(id, &connection->peer,
						       connection_server(connection), request);
	if (!connection->endpoint) {
		rpcordma_free(connection);
		return NULL;
	}
	connection->initiator_depth = request->initiator_depth;
	/*
	 * A payload, and a page for what is around it. The service may be made for larger ones, over
	 * other transports; what READ and WRITE are told of goes by the class. (What an NFSv4.1 session
	 * is told goes by the service alone: Documentation/limitations.rst.)
	 */
	connection->max_message =
		min_t(u32, serv->sv_max_mesg, server_class.xcl_max_payload + PAGE_SIZE);
	INIT_LIST_HEAD(&connection->queued);
	INIT_LIST_HEAD(&connection->link);
	INIT_WORK(&connection->lost, lost_worker);
	INIT_WORK(&connection->free, free_connection);
	connection->number = atomic_inc_return(&connections);

	xprt = &connection->xprt;
	init_xprt(xprt, listener->xprt.xpt_net, serv);
	xprt->xpt_ops = &connection_ops;
	/*
	 * The client's port means nothing, and is another one after each reconnect: without it the
	 * duplicate reply cache knows the client again.
	 */
	svc_xprt_set_remote(xprt, remote, svc_addr_len(remote));
	rpc_set_port((struct sockaddr *)&xprt->xpt_remote, 0);
	snprintf(xprt->xpt_remotebuf, sizeof(xprt->xpt_remotebuf), "%pISc", remote);
	svc_xprt_set_local(xprt, local, svc_addr_len(local));
	return connection;
}

static void connection_detach(struct svc_xprt *xprt)
{
	rpcordma_core_server_detach(connection_server(to_connection(xprt)));
}

static void connection_free(struct svc_xprt *xprt)
{
	queue_work(server_workqueue, &to_connection(xprt)->free);
}

/* --- listeners --- */

/* Returns what the handler is to return: not 0, the request is refused. */
static int handle_request(struct rdma_cm_id *id, const struct rdma_conn_param *request)
{
	struct rpcordma_listener *listener = id->context;
	struct rpcordma_connection *connection = NULL;
	bool full;

	/* Requests may come on several devices at once: a little more than the bound does no harm. */
	full = READ_ONCE(listener->queued) >= MOST_QUEUED;
	if (!full)
		connection = create_connection(listener, id, request);
	if (!connection) {
		atomic_long_inc(&refused);
		pr_warn_ratelimited("%pISpc: connection refused: %s\n", &id->route.addr.dst_addr,
				    full ? "too many wait to be accepted; are there enough nfsd threads?" :
					   "out of memory");
		/* ENOMEM would leave it unanswered. */
		return -ECONNREFUSED;
	}
	spin_lock(&accept_lock);
	connection->listener = listener;
	list_add_tail(&connection->queued, &listener->queue);
	listener->queued++;
	set_bit(XPT_CONN, &listener->xprt.xpt_flags);
	spin_unlock(&accept_lock);
	svc_xprt_enqueue(&listener->xprt);
	return 0;
}

static void relisten_in(struct rpcordma_listener *listener, unsigned long delay)
{
	spin_lock(&accept_lock);
	listener->stale = true;
	if (listener->open)
		queue_delayed_work(server_workqueue, &listener->relisten, delay);
	spin_unlock(&accept_lock);
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

static struct rdma_cm_id *listen(struct rpcordma_listener *listener, struct sockaddr *address)
{
	struct rdma_cm_id *id;
	int rc;

	id = rdma_create_id(listener->xprt.xpt_net, handle_event, listener, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return id;
	/* So that IPv4 and IPv6 can have listeners of their own on one port. */
	rc = rdma_set_afonly(id, 1);
	if (!rc)
		rc = rdma_bind_addr(id, address);
	if (!rc)
		rc = rdma_listen(id, MOST_QUEUED);
	if (rc) {
		rdma_destroy_id(id);
		return ERR_PTR(rc);
	}
	return id;
}

/* The port is free again only when the old identifier is gone. */
static void relisten_worker(struct work_struct *work)
{
	struct rpcordma_listener *listener =
		container_of(work, struct rpcordma_listener, relisten.work);
	struct sockaddr *address = (struct sockaddr *)&listener->xprt.xpt_local;
	struct rdma_cm_id *id;

	spin_lock(&accept_lock);
	listener->stale = false;
	spin_unlock(&accept_lock);
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

static void free_listener(struct work_struct *work)
{
	rpcordma_free(container_of(work, struct rpcordma_listener, free));
}

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
	INIT_DELAYED_WORK(&listener->relisten, relisten_worker);
	INIT_WORK(&listener->free, free_listener);
	INIT_LIST_HEAD(&listener->queue);
	init_xprt(&listener->xprt, net, serv);
	set_bit(XPT_LISTENER, &listener->xprt.xpt_flags);
	strscpy(listener->xprt.xpt_remotebuf, "listener", sizeof(listener->xprt.xpt_remotebuf));

	id = listen(listener, address);
	if (IS_ERR(id)) {
		pr_err("cannot listen on %pISpc: %pe\n", address, id);
		drop_unknown(&listener->xprt);
		return ERR_CAST(id);
	}
	/* Port 0 asks for any. */
	svc_xprt_set_local(&listener->xprt, (struct sockaddr *)&id->route.addr.src_addr, length);
	listener->id = id;
	spin_lock(&accept_lock);
	listener->open = true;
	if (listener->stale)
		queue_delayed_work(server_workqueue, &listener->relisten, 0);
	spin_unlock(&accept_lock);
	return &listener->xprt;
}

static struct rpcordma_connection *next_in_queue(struct rpcordma_listener *listener)
{
	struct rpcordma_connection *connection;

	spin_lock(&accept_lock);
	connection = list_first_entry_or_null(&listener->queue, struct rpcordma_connection, queued);
	if (connection)
		take_off_locked(connection);
	if (list_empty(&listener->queue))
		clear_bit(XPT_CONN, &listener->xprt.xpt_flags);
	spin_unlock(&accept_lock);
	return connection;
}

/* A service thread. It has taken a reference to the module for the connection; null gives it back. */
static struct svc_xprt *listener_accept(struct svc_xprt *xprt)
{
	struct rpcordma_connection *connection = next_in_queue(to_listener(xprt));
	struct rpcordma_endpoint *endpoint;
	const void *private_data;
	u32 private_data_length;
	int rc;

	if (!connection)
		return NULL;
	endpoint = connection->endpoint;
	connection->endpoint = NULL;
	connection->core = true;
	connection->threads = xprt->xpt_server->sv_nrthreads;
	private_data = rpcordma_endpoint_private_data(endpoint, &private_data_length);
	rc = rpcordma_core_server_accept(connection_server(connection), &connection->xprt,
					 &connection->peer, endpoint, private_data,
					 private_data_length, connection->initiator_depth);
	if (rc) {
		rpcordma_log_value(&connection->peer, RPCORDMA_LOG_WARNING,
				   "the connection could not be accepted", rc);
		drop_unknown(&connection->xprt);
		return NULL;
	}
	rpcordma_svc_debugfs_join(connection);
	return &connection->xprt;
}

static void listener_detach(struct svc_xprt *xprt)
{
	struct rpcordma_listener *listener = to_listener(xprt);
	struct rpcordma_connection *connection;

	spin_lock(&accept_lock);
	listener->open = false;
	spin_unlock(&accept_lock);
	cancel_delayed_work_sync(&listener->relisten);
	if (listener->id)
		rdma_destroy_id(listener->id);
	listener->id = NULL;
	/* No request comes any more. */
	while ((connection = next_in_queue(listener)))
		drop_unknown(&connection->xprt);
}

static void listener_free(struct svc_xprt *xprt)
{
	queue_work(server_workqueue, &to_listener(xprt)->free);
}

/* --- the core's view of a connection --- */

struct rpcordma_server *rpcordma_svc_server(struct svc_xprt *xprt)
{
	return connection_server(to_connection(xprt));
}

void rpcordma_svc_get_limits(const struct svc_xprt *xprt, struct rpcordma_svc_limits *limits)
{
	const struct rpcordma_connection *connection =
		container_of(xprt, const struct rpcordma_connection, xprt);

	limits->max_message = connection->max_message;
	/* sunrpc provides two more, for the reply. */
	limits->max_pages = DIV_ROUND_UP(connection->max_message, PAGE_SIZE);
	limits->threads = READ_ONCE(connection->threads);
}

rpcordma_u64 rpcordma_svc_address_key(const struct svc_xprt *xprt)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&xprt->xpt_remote;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&xprt->xpt_remote;

	/* An IPv4 address in the clear; of an IPv6 address all bits, the scope included. */
	if (v4->sin_family == AF_INET)
		return be32_to_cpu(v4->sin_addr.s_addr);
	return (u64)jhash2((const u32 *)&v6->sin6_addr, sizeof(v6->sin6_addr) / sizeof(u32),
			   v6->sin6_scope_id)
		       << 32 |
	       jhash2((const u32 *)&v6->sin6_addr, sizeof(v6->sin6_addr) / sizeof(u32),
		      ~v6->sin6_scope_id);
}

void rpcordma_svc_close(struct svc_xprt *xprt)
{
	/* The service may be gone, and with it what sunrpc would look at. */
	if (!test_bit(XPT_DEAD, &xprt->xpt_flags))
		svc_xprt_deferred_close(xprt);
}

rpcordma_bool rpcordma_svc_is_dead(const struct svc_xprt *xprt)
{
	return test_bit(XPT_DEAD, &xprt->xpt_flags) || test_bit(XPT_CLOSE, &xprt->xpt_flags);
}

void rpcordma_svc_set_data(struct svc_xprt *xprt)
{
	set_bit(XPT_DATA, &xprt->xpt_flags);
}

void rpcordma_svc_clear_data(struct svc_xprt *xprt)
{
	clear_bit(XPT_DATA, &xprt->xpt_flags);
}

void rpcordma_svc_enqueue(struct svc_xprt *xprt)
{
	/* As in close. */
	if (!test_bit(XPT_DEAD, &xprt->xpt_flags))
		svc_xprt_enqueue(xprt);
}

void rpcordma_svc_received(struct svc_xprt *xprt)
{
	svc_xprt_received(xprt);
}

/* --- calls, in a service thread --- */

static int connection_recvfrom(struct svc_rqst *rqst)
{
	struct rpcordma_connection *connection = to_connection(rqst->rq_xprt);

	/* Nothing of the thread's pages is a reply's, should there be no call. */
	rqst->rq_respages = rqst->rq_pages;
	rqst->rq_next_page = rqst->rq_respages;
	rqst->rq_xprt_ctxt = NULL;
	WRITE_ONCE(connection->threads, rqst->rq_server->sv_nrthreads);
	return rpcordma_core_server_recvfrom(connection_server(connection), rqst);
}

static int connection_sendto(struct svc_rqst *rqst)
{
	return rpcordma_core_server_sendto(connection_server(to_connection(rqst->rq_xprt)), rqst,
					   rqst->rq_xprt_ctxt);
}

static int connection_result_payload(struct svc_rqst *rqst, unsigned int offset,
				     unsigned int length)
{
	return rpcordma_core_server_result_payload(rqst->rq_xprt_ctxt, offset, length);
}

static void connection_release_ctxt(struct svc_xprt *xprt, void *context)
{
	if (context)
		rpcordma_core_server_release(connection_server(to_connection(xprt)), context);
}

static int connection_has_wspace(struct svc_xprt *xprt)
{
	return rpcordma_core_server_has_space(connection_server(to_connection(xprt)));
}

#ifdef HAVE_XPO_SECURE_PORT
static void secure_port(struct svc_rqst *rqst)
{
	set_bit(RQ_SECURE, &rqst->rq_flags);
}
#endif

/* The address that it came to is being removed; it is closed next, which is all that is needed. */
static void kill_temp_xprt(struct svc_xprt *xprt)
{
}

/* sunrpc calls it after each look at a listener. */
static void listener_release_ctxt(struct svc_xprt *xprt, void *context)
{
}

static const struct svc_xprt_ops connection_ops = {
	.xpo_recvfrom = connection_recvfrom,
	.xpo_sendto = connection_sendto,
	.xpo_result_payload = connection_result_payload,
	.xpo_release_ctxt = connection_release_ctxt,
	.xpo_has_wspace = connection_has_wspace,
	.xpo_detach = connection_detach,
	.xpo_free = connection_free,
	.xpo_kill_temp_xprt = kill_temp_xprt,
#ifdef HAVE_XPO_SECURE_PORT
	.xpo_secure_port = secure_port,
#endif
};

static const struct svc_xprt_ops listener_ops = {
	.xpo_create = listener_create,
	.xpo_accept = listener_accept,
	.xpo_release_ctxt = listener_release_ctxt,
	.xpo_detach = listener_detach,
	.xpo_free = listener_free,
	.xpo_kill_temp_xprt = kill_temp_xprt,
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
	rc = -ENOMEM;
	/* sunrpc's own limit may be above ours: since 6.16 it is 4 MiB. */
	server_class.xcl_max_payload =
		min_t(u32, RPCSVC_MAXPAYLOAD, rpcordma_core_server_max_payload(PAGE_SIZE));
	server_workqueue = alloc_workqueue("rpcordma-server", WQ_UNBOUND, 0);
	if (!server_workqueue)
		goto no_workqueue;
	rc = rpcordma_svc_sinks_register(server_workqueue);
	if (rc)
		goto no_sinks;
	rc = svc_reg_xprt_class(&server_class);
	if (!rc)
		return 0;
	rpcordma_svc_sinks_unregister();
no_sinks:
	destroy_workqueue(server_workqueue);
no_workqueue:
	rpcordma_core_server_exit();
	if (rc != -EEXIST)
		return rc;
	pr_err("another module serves the server's transport \"rdma\", most likely the in-tree rpcrdma; unload it first (rmmod rpcrdma)\n");
	/* modprobe takes EEXIST for "is loaded already", and says nothing. */
	return -EBUSY;
}

void rpcordma_svc_unregister(void)
{
	svc_unreg_xprt_class(&server_class);
	/*
	 * All transports are dropped, or the module could not go; here the last ones are freed. A
	 * completion of theirs may still have asked for a refill, which nobody does afterwards.
	 */
	flush_workqueue(server_workqueue);
	rpcordma_svc_sinks_unregister();
	destroy_workqueue(server_workqueue);
	rpcordma_core_server_exit();
}
