// SPDX-License-Identifier: GPL-2.0-only
/*
 * The server's connections, each from its request until it is freed, and the queues in which they
 * wait to be accepted. svc_listener.c fills the queues. What a service thread does with a call is
 * in svc_rqst.c, the backchannel in svc_backchannel.c.
 *
 * A connection request makes a connection, complete except for the core's half, and puts it on its
 * listener's queue. A service thread takes it off and has the core accept it. If the request is
 * lost while it is queued, because the peer gave up or the device goes away, the connection's own
 * worker takes it off.
 *
 * References. The first reference belongs to the queue, then to sunrpc: whoever takes a connection
 * off the queue without handing it to sunrpc drops it. sunrpc may drop the last reference in any
 * context, and freeing waits for handlers and completions, so a worker frees.
 *
 * sunrpc puts a reference to the module for each svc_xprt that it frees. For those that sunrpc
 * knows it took one; for the others rpcordma_svc_drop_unknown() takes it just before they are
 * dropped.
 *
 * Locks: accept_lock, a leaf, guards all queues: a lost request then need not know whether its
 * listener still exists. list_mutex guards the list of accepted connections.
 */

#include <linux/atomic.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/jhash.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
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
#include "compat/linux/transport.h"
#include "compat/port/port.h"

/** A connection; the core's half follows. sunrpc frees it, by the pointer to xprt. */
struct rpcordma_connection {
	struct svc_xprt xprt;
	struct rpcordma_peer peer; /* with its port, which xprt.xpt_remote hides */
	struct rpcordma_endpoint *endpoint; /* the core's once @core is set */
	bool core; /* the core's half is constructed */
	u32 initiator_depth; /* of the request */

	/* What the core is told of the service, which may be gone before the last completion. */
	u32 max_message;
	u32 threads;

	/* accept_lock */
	struct list_head queued;
	struct rpcordma_accept_queue *queue; /* null: not queued (any more) */

	struct work_struct lost; /* cannot be accepted any more */
	struct work_struct free;
	struct delayed_work finish;
	struct list_head link; /* on accepted */
	u32 number; /* counts connections since the module was loaded */
};

/* Of the connections that wait for a listener, one address may have this share, or so many. */
#define SHARE_OF_ONE 8
#define LEAST_OF_ONE 16u

struct workqueue_struct *rpcordma_svc_workqueue;

static DEFINE_SPINLOCK(accept_lock);
static atomic_t last_number;

static LIST_HEAD(accepted);
/* Held while a connection on the list is used, so that it cannot leave meanwhile. */
static DEFINE_MUTEX(list_mutex);

static struct rpcordma_connection *to_connection(struct svc_xprt *xprt)
{
	return container_of(xprt, struct rpcordma_connection, xprt);
}

static struct rpcordma_server *connection_server(struct rpcordma_connection *connection)
{
	return (struct rpcordma_server *)PTR_ALIGN((char *)(connection + 1), RPCORDMA_CORE_ALIGN);
}

void rpcordma_svc_drop_unknown(struct svc_xprt *xprt)
{
	__module_get(THIS_MODULE);
	svc_xprt_put(xprt);
}

/* --- the list of accepted connections --- */

static void join_list(struct rpcordma_connection *connection)
{
	mutex_lock(&list_mutex);
	list_add_tail(&connection->link, &accepted);
	mutex_unlock(&list_mutex);
}

/* Harmless if it has not joined. */
static void leave_list(struct rpcordma_connection *connection)
{
	mutex_lock(&list_mutex);
	list_del_init(&connection->link);
	mutex_unlock(&list_mutex);
}

void rpcordma_connections_show(struct seq_file *seq)
{
	struct rpcordma_connection *connection;
	struct rpcordma_server_state state;

	mutex_lock(&list_mutex);
	list_for_each_entry(connection, &accepted, link) {
		struct rpcordma_agreement agreed;

		rpcordma_core_server_state(connection_server(connection), &state);
		rpcordma_core_server_describe(connection_server(connection), &agreed);
		seq_printf(seq, "%u %pISpc version=%u established=%u credits=%u calls=%u ",
			   connection->number, &connection->peer.address, state.version,
			   state.established, state.credits, state.calls);
		seq_printf(seq, "inline_send=%u inline_receive=%u receives=%u waiting=%u ",
			   state.inline_send, state.inline_receive, state.receives, state.waiting);
		/* Its words are the last, as there may be several. */
		seq_printf(seq, "receive=%u pages=%u peer_receive=%u peer_pages=%u why=%s\n",
			   agreed.receive_size, agreed.receive_pages, agreed.peer_receive_size,
			   agreed.peer_receive_pages, agreed.why ?: "not settled");
	}
	mutex_unlock(&list_mutex);
}

bool rpcordma_connections_disconnect(u32 number)
{
	struct rpcordma_connection *connection;
	bool found = false;

	mutex_lock(&list_mutex);
	list_for_each_entry(connection, &accepted, link) {
		if (number && number != connection->number)
			continue;
		found = true;
		rpcordma_core_server_inject_disconnect(connection_server(connection));
	}
	mutex_unlock(&list_mutex);
	return found;
}

/* --- the operations of svc_xprt_ops --- */

/* How many threads the administrator lets the service have. */
static u32 service_threads(const struct svc_serv *serv)
{
#ifdef HAVE_SVC_SERV_MAXTHREADS
	return svc_serv_maxthreads(serv);
#else
	return serv->sv_nrthreads;
#endif
}

static int connection_recvfrom(struct svc_rqst *rqst)
{
	struct rpcordma_connection *connection = to_connection(rqst->rq_xprt);

	rqst->rq_xprt_ctxt = NULL;
	if (!rpcordma_svc_pages_as_known(rqst)) {
		WARN_ONCE(true,
			  "this kernel has a thread's reply pages elsewhere than its headers say: nothing is served");
		svc_xprt_deferred_close(&connection->xprt);
		svc_xprt_received(&connection->xprt);
		return 0;
	}
	/* If there is no call, none of the thread's pages belongs to a reply. */
#ifndef HAVE_SVC_RQST_REPLY_PAGES
	rqst->rq_respages = rqst->rq_pages;
#endif
	rqst->rq_next_page = rqst->rq_respages;
	WRITE_ONCE(connection->threads, service_threads(rqst->rq_server));
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

static void connection_detach(struct svc_xprt *xprt)
{
	rpcordma_core_server_detach(connection_server(to_connection(xprt)));
}

static void connection_free(struct svc_xprt *xprt)
{
	queue_work(rpcordma_svc_workqueue, &to_connection(xprt)->free);
}

/* The local address of the connection goes away. sunrpc closes it next, which is enough. */
static void connection_kill_temp_xprt(struct svc_xprt *xprt)
{
}

#ifdef HAVE_XPO_SECURE_PORT
static void connection_secure_port(struct svc_rqst *rqst)
{
	set_bit(RQ_SECURE, &rqst->rq_flags);
}
#endif

static const struct svc_xprt_ops connection_ops = {
	.xpo_recvfrom = connection_recvfrom,
	.xpo_sendto = connection_sendto,
	.xpo_result_payload = connection_result_payload,
	.xpo_release_ctxt = connection_release_ctxt,
	.xpo_has_wspace = connection_has_wspace,
	.xpo_detach = connection_detach,
	.xpo_free = connection_free,
	.xpo_kill_temp_xprt = connection_kill_temp_xprt,
#ifdef HAVE_XPO_SECURE_PORT
	.xpo_secure_port = connection_secure_port,
#endif
};

/* --- from the request until it is accepted --- */

static void free_worker(struct work_struct *work)
{
	struct rpcordma_connection *connection =
		container_of(work, struct rpcordma_connection, free);

	leave_list(connection);
	/* Destroying the endpoint of a request that was never accepted rejects the request. */
	if (connection->core)
		rpcordma_core_server_destroy(connection_server(connection));
	else
		rpcordma_endpoint_destroy(connection->endpoint);
	/* No handler is left that could queue it. */
	cancel_work_sync(&connection->lost);
	/* Our own reference: see svc_backchannel.c. */
	if (connection->xprt.xpt_bc_xprt)
		xprt_put(connection->xprt.xpt_bc_xprt);
	rpcordma_free(connection);
}

static void finish_worker(struct work_struct *work)
{
	struct rpcordma_connection *connection =
		container_of(to_delayed_work(work), struct rpcordma_connection, finish);

	rpcordma_core_server_finish(connection_server(connection));
}

static void take_off_locked(struct rpcordma_connection *connection)
{
	lockdep_assert_held(&accept_lock);
	list_del_init(&connection->queued);
	connection->queue->length--;
	connection->queue = NULL;
}

static void lost_worker(struct work_struct *work)
{
	struct rpcordma_connection *connection =
		container_of(work, struct rpcordma_connection, lost);
	bool queued;

	spin_lock(&accept_lock);
	queued = connection->queue;
	if (queued)
		take_off_locked(connection);
	spin_unlock(&accept_lock);
	/* If not, a thread is accepting it, which fails, or it is already being dropped. */
	if (queued)
		rpcordma_svc_drop_unknown(&connection->xprt);
}

static int handle_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct rpcordma_connection *connection = id->context;

	if (rpcordma_endpoint_handle_event(connection->endpoint, event))
		queue_work(rpcordma_svc_workqueue, &connection->lost);
	return 0;
}

static struct rpcordma_connection *create_connection(struct svc_xprt *listener,
						     struct rdma_cm_id *id,
						     const struct rdma_conn_param *request)
{
	const struct sockaddr *remote = (const struct sockaddr *)&id->route.addr.dst_addr;
	const struct sockaddr *local = (const struct sockaddr *)&id->route.addr.src_addr;
	struct rpcordma_connection *connection;
	struct svc_xprt *xprt;

	connection = rpcordma_alloc_of(id->device,
				       sizeof(*connection) + RPCORDMA_CORE_ALIGN - 1 +
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
	/* The listener's until now. */
	id->context = connection;
	id->event_handler = handle_event;
	connection->initiator_depth = request->initiator_depth;
	/*
	 * A payload, and a page for what is around it. The service may allow larger messages for
	 * the sake of other transports. The sizes that READ and WRITE are told follow the transport
	 * class. (Those that an NFSv4.1 session is told follow the service alone:
	 * Documentation/limitations.rst.)
	 */
	connection->max_message =
		min_t(u32, listener->xpt_server->sv_max_mesg,
		      listener->xpt_class->xcl_max_payload + PAGE_SIZE);
	INIT_LIST_HEAD(&connection->queued);
	INIT_LIST_HEAD(&connection->link);
	INIT_WORK(&connection->lost, lost_worker);
	INIT_WORK(&connection->free, free_worker);
	INIT_DELAYED_WORK(&connection->finish, finish_worker);
	connection->number = atomic_inc_return(&last_number);

	xprt = &connection->xprt;
	svc_xprt_init(listener->xpt_net, listener->xpt_class, xprt, listener->xpt_server);
	xprt->xpt_ops = &connection_ops;
	/* Credits are congestion control (RFC 7530 3.1). */
	set_bit(XPT_CONG_CTRL, &xprt->xpt_flags);
	/*
	 * The client's port has no meaning, and changes with each reconnect. Without it the
	 * duplicate reply cache recognizes the client.
	 */
	svc_xprt_set_remote(xprt, remote, svc_addr_len(remote));
	rpc_set_port((struct sockaddr *)&xprt->xpt_remote, 0);
	snprintf(xprt->xpt_remotebuf, sizeof(xprt->xpt_remotebuf), "%pISc", remote);
	svc_xprt_set_local(xprt, local, svc_addr_len(local));
	return connection;
}

void rpcordma_accept_queue_init(struct rpcordma_accept_queue *queue)
{
	INIT_LIST_HEAD(&queue->list);
	queue->length = 0;
}

const char *rpcordma_accept_queue_full(struct rpcordma_accept_queue *queue, const struct sockaddr *remote,
				       unsigned int most)
{
	const unsigned int most_of_one = max(most / SHARE_OF_ONE, LEAST_OF_ONE);
	const struct rpcordma_connection *connection;
	unsigned int of_one = 0;

	if (READ_ONCE(queue->length) >= most)
		return "too many wait to be accepted; are there enough nfsd threads?";
	/* Most of the time there is nothing to count. */
	if (READ_ONCE(queue->length) < most_of_one)
		return NULL;
	spin_lock(&accept_lock);
	list_for_each_entry(connection, &queue->list, queued)
		if (rpc_cmp_addr((const struct sockaddr *)&connection->peer.address, remote))
			of_one++;
	spin_unlock(&accept_lock);
	return of_one >= most_of_one ? "too many of this client wait to be accepted" : NULL;
}

int rpcordma_accept_queue_add(struct rpcordma_accept_queue *queue, struct svc_xprt *listener,
			      struct rdma_cm_id *id, const struct rdma_conn_param *request)
{
	struct rpcordma_connection *connection = create_connection(listener, id, request);

	if (!connection)
		return -ENOMEM;
	spin_lock(&accept_lock);
	connection->queue = queue;
	list_add_tail(&connection->queued, &queue->list);
	queue->length++;
	spin_unlock(&accept_lock);
	return 0;
}

static struct rpcordma_connection *take_first(struct rpcordma_accept_queue *queue)
{
	struct rpcordma_connection *connection;

	spin_lock(&accept_lock);
	connection = list_first_entry_or_null(&queue->list, struct rpcordma_connection, queued);
	if (connection)
		take_off_locked(connection);
	spin_unlock(&accept_lock);
	return connection;
}

struct svc_xprt *rpcordma_accept_queue_accept(struct rpcordma_accept_queue *queue)
{
	struct rpcordma_connection *connection = take_first(queue);
	const void *private_data;
	u32 private_data_length;
	int rc;

	if (!connection)
		return NULL;
	connection->core = true;
	connection->threads = service_threads(connection->xprt.xpt_server);
	private_data = rpcordma_endpoint_private_data(connection->endpoint, &private_data_length);
	rc = rpcordma_core_server_accept(connection_server(connection), &connection->xprt,
					 &connection->peer, connection->endpoint, private_data,
					 private_data_length, connection->initiator_depth);
	if (rc) {
		rpcordma_log_value(&connection->peer, RPCORDMA_LOG_WARNING,
				   "the connection could not be accepted", rc);
		rpcordma_svc_drop_unknown(&connection->xprt);
		return NULL;
	}
	join_list(connection);
	return &connection->xprt;
}

void rpcordma_accept_queue_drain(struct rpcordma_accept_queue *queue)
{
	struct rpcordma_connection *connection;

	while ((connection = take_first(queue)))
		rpcordma_svc_drop_unknown(&connection->xprt);
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

void rpcordma_svc_queue_finish(struct svc_xprt *xprt, rpcordma_u32 delay_ms, rpcordma_bool anew)
{
	struct delayed_work *work = &to_connection(xprt)->finish;
	const unsigned long delay = msecs_to_jiffies(delay_ms);

	if (anew)
		mod_delayed_work(rpcordma_svc_workqueue, work, delay);
	else
		queue_delayed_work(rpcordma_svc_workqueue, work, delay);
}

void rpcordma_svc_cancel_finish(struct svc_xprt *xprt)
{
	cancel_delayed_work_sync(&to_connection(xprt)->finish);
}

void rpcordma_svc_received(struct svc_xprt *xprt)
{
	svc_xprt_received(xprt);
}

/* --- loading and unloading --- */

int rpcordma_connections_init(void)
{
	/* Not for memory reclaim: works wait for drivers' workers, which are not either. */
	rpcordma_svc_workqueue = alloc_workqueue("rpcordma-server", WQ_UNBOUND, 0);
	return rpcordma_svc_workqueue ? 0 : -ENOMEM;
}

void rpcordma_connections_exit(void)
{
	destroy_workqueue(rpcordma_svc_workqueue);
}
