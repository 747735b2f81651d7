// SPDX-License-Identifier: GPL-2.0-only
/*
 * The connection manager's part of endpoints: resolve, connect, accept, disconnect, and the events
 * that arrive meanwhile and afterwards. Queue pairs and what is posted to them are in verbs.c,
 * listeners in svc_listener.c.
 *
 * The event handler runs under a mutex of the rdma_cm_id, one event at a time. It never sleeps,
 * never destroys anything and always returns 0; it ends the step that somebody waits for, or tells
 * the core. So rdma_destroy_id(), which takes that mutex, waits for a running handler and prevents
 * later ones, and only rpcordma_endpoint_destroy() destroys, or what it leaves behind.
 *
 * A server's endpoint is made in the handler of a connection request and waits to be accepted. Its
 * events come by way of the connection (svc_connection.c), which learns here whether the request
 * was lost; once it is accepted, the core is told instead. Handlers are locked out while the
 * endpoint is accepted, so that each event is either before or after. If a peer never completes the
 * handshake, the CM below retransmits for some time, about a minute with InfiniBand and RoCE, and
 * then reports the peer as unreachable.
 *
 * Lingering. rdma_destroy_id() sends a peer that does not know yet that the connection is over one
 * DREQ, and forgets it. If that is lost, the peer keeps queue pair and pinned memory until it finds
 * the connection idle. With InfiniBand and RoCE the CM would send it again until the peer answers,
 * for about a minute, but for that the identifier must live on. So it outlives the endpoint: it is
 * alone then, without queue pair or protection domain, with a handler and a context of its own,
 * until the answer comes or the CM gives up. A work destroys it, never the handler: what it returns
 * would end in a handler that may be unloaded by then. The module's exit ends what lingers, and so
 * does the removal of the device. An identifier keeps its network namespace, which lives on as well.
 * (iWARP ends connections by TCP, which needs no help.) Meanwhile the CM knows the peer's queue pair
 * number: should a peer that was rebooted draw the same one for its next connection, that is refused
 * as stale until the next DREQ is answered, a few seconds later.
 *
 * Device removal. The in-tree transport moved from the rdma_cm's DEVICE_REMOVAL event to an
 * ib_client of its own, for these reasons:
 *
 *   - its handler destroyed, by its return value, an rdma_cm_id that others might be using;
 *   - its endpoint was freed with the last reference, possibly long after the rdma_cm had released
 *     the device, while protection domain and queues still existed;
 *   - a removal during address or route resolution was noticed only when the wait ended.
 *
 * None of this holds here, so the event is enough, and there is one place less that can race. The
 * rdma_cm delivers the event to every identifier bound to the device unless it is being destroyed,
 * and releases the device only after rdma_destroy_id() has returned for each.
 * rpcordma_endpoint_destroy() calls that last, after it has destroyed queue pair, completion queues
 * and protection domain. An identifier that is not yet bound to the device owns nothing of it. The
 * event ends a step under way at once, and later steps fail at once. One that lingers is destroyed.
 */

#define pr_fmt(fmt) "rpcordma: " fmt

#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sunrpc/xprt.h>
#include <rdma/ib_cm.h>
#include <rdma/rdma_cm.h>

#include "compat/linux/endpoint.h"
#include "compat/linux/transport.h"
#include "compat/port/port.h"

/* No step has this result: it has not ended yet. */
#define STEP_PENDING 1

/* The rdma_cm enforces the limit itself. If it has not by this much later, we do. */
#define STEP_GRACE_MS 1000

/* The CM sends a DREQ 16 times in 74 s. If it has not said by this that it gave up, it will not. */
#define LINGER_MS 90000

/* An identifier whose endpoint is gone, until the peer has answered its DREQ. */
struct lingering {
	struct rdma_cm_id *id;
	struct delayed_work end; /* destroys it and frees this */
	struct list_head link; /* on all_lingering; empty: nobody may queue the work (yet, any more) */
	bool over; /* before it was on the list */
};

/* Peers that answer nothing, and come again and again, are not worth more memory than this many take. */
#define MOST_LINGERING 4096

static DEFINE_SPINLOCK(lingering_lock); /* guards the list, all links, over, count; a leaf */
static LIST_HEAD(all_lingering);
static unsigned int lingering_count;

/* Returns 0, or -ENODEV if the device is going away. */
static int begin_step(struct rpcordma_endpoint *ep)
{
	int rc = 0;

	spin_lock(&ep->lock);
	if (ep->removed) {
		rc = -ENODEV;
	} else {
		ep->result = STEP_PENDING;
		reinit_completion(&ep->ended);
	}
	spin_unlock(&ep->lock);
	return rc;
}

/* Called by the handler. Returns false if nobody waits for the end of a step (any more). */
static bool end_step(struct rpcordma_endpoint *ep, int result)
{
	bool pending;

	spin_lock(&ep->lock);
	pending = ep->result == STEP_PENDING;
	if (pending) {
		ep->result = result;
		complete(&ep->ended);
	}
	spin_unlock(&ep->lock);
	return pending;
}

/* Wait at most @limit_ms for the end of the step. Returns its result. */
static int await_step(struct rpcordma_endpoint *ep, u32 limit_ms)
{
	int result;

	wait_for_completion_timeout(&ep->ended, msecs_to_jiffies(limit_ms) + 1);
	spin_lock(&ep->lock);
	/* An event that comes later finds nobody waiting, and establishes nothing. */
	if (ep->result == STEP_PENDING)
		ep->result = -ETIMEDOUT;
	result = ep->result;
	spin_unlock(&ep->lock);
	return result;
}

/* The step could not be started. Returns its error. */
static int failed_step(struct rpcordma_endpoint *ep, int error)
{
	spin_lock(&ep->lock);
	if (ep->removed)
		error = -ENODEV;
	ep->result = error;
	spin_unlock(&ep->lock);
	return error;
}

/*
 * The errors that the port promises of address resolution. sunrpc fails a task for good if it does
 * not know the errno.
 */
static int address_error(const struct rpcordma_endpoint *ep, int status)
{
	switch (status) {
	case -ENOMEM:
	case -ENETUNREACH:
	case -EHOSTUNREACH:
		return status;
	case -ETIMEDOUT:
		/* Neighbour discovery had no answer. */
		return -EHOSTUNREACH;
	default:
		rpcordma_log_value(ep->peer, RPCORDMA_LOG_ERROR,
				   "no RDMA device leads to this address (see `rdma link`)", status);
		return -EPROTO;
	}
}

static int reject_error(const struct rdma_cm_id *id, int status)
{
	/* The peer remembers an older connection between the same queue pairs: try again. */
	if (rdma_cap_ib_cm(id->device, id->port_num) && status == IB_CM_REJ_STALE_CONN)
		return -ENOTCONN;
	return -ECONNREFUSED;
}

/* Only if the endpoint is established or accepted. */
static void tell_core(struct rpcordma_endpoint *ep, enum rpcordma_endpoint_event event)
{
	if (ep->server)
		rpcordma_core_server_event(ep->context, event);
	else
		rpcordma_core_endpoint_event(ep->context, event);
}

static void handle_established(struct rpcordma_endpoint *ep, const struct rdma_conn_param *param)
{
	if (ep->server) {
		tell_core(ep, RPCORDMA_EVENT_ESTABLISHED);
		return;
	}
	spin_lock(&ep->lock);
	if (ep->result == STEP_PENDING) {
		if (param->private_data) {
			ep->private_data_length =
				min_t(u32, param->private_data_len, sizeof(ep->private_data));
			memcpy(ep->private_data, param->private_data, ep->private_data_length);
		}
		ep->established = true;
		ep->result = 0;
		complete(&ep->ended);
	}
	spin_unlock(&ep->lock);
}

/*
 * The connection was lost: while it was being made, while it waited to be accepted, or after it was
 * established. Returns true unless it was established.
 */
static bool handle_loss(struct rpcordma_endpoint *ep, int result,
			enum rpcordma_endpoint_event event)
{
	bool established;

	spin_lock(&ep->lock);
	established = ep->established;
	if (!established)
		ep->lost = true;
	spin_unlock(&ep->lock);
	if (established)
		tell_core(ep, event);
	else if (!ep->server)
		end_step(ep, result);
	return !established;
}

bool rpcordma_endpoint_handle_event(struct rpcordma_endpoint *ep, const struct rdma_cm_event *event)
{
	bool lost = false;

	if (READ_ONCE(rpcordma_trace_enabled) & RPCORDMA_TRACE_CONNECTION)
		rpcordma_trace_connection(ep->peer, rdma_event_msg(event->event), event->status);

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		end_step(ep, 0);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
		end_step(ep, address_error(ep, event->status));
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		end_step(ep, -ENETUNREACH);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		ep->connected = true;
		handle_established(ep, &event->param.conn);
		break;
	case RDMA_CM_EVENT_REJECTED:
		lost = handle_loss(ep, reject_error(ep->id, event->status),
				   RPCORDMA_EVENT_DISCONNECTED);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		lost = handle_loss(ep, -ENETUNREACH, RPCORDMA_EVENT_DISCONNECTED);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DISCONNECTED:
		ep->connected = false;
		lost = handle_loss(ep, -ENOTCONN, RPCORDMA_EVENT_DISCONNECTED);
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		/* Nothing goes out from an address that is gone: to linger would be of no use. */
		ep->connected = false;
		lost = handle_loss(ep, -ENOTCONN, RPCORDMA_EVENT_ADDRESS_CHANGE);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		ep->connected = false;
		spin_lock(&ep->lock);
		ep->removed = true;
		spin_unlock(&ep->lock);
		lost = handle_loss(ep, -ENODEV, RPCORDMA_EVENT_DEVICE_REMOVAL);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	default:
		break;
	}
	return lost;
}

static int handle_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	rpcordma_endpoint_handle_event(id->context, event);
	return 0;
}

static void fatal_worker(struct work_struct *work)
{
	struct rpcordma_endpoint *ep = container_of(work, struct rpcordma_endpoint, fatal);
	bool established;

	spin_lock(&ep->lock);
	established = ep->established;
	spin_unlock(&ep->lock);
	if (established)
		tell_core(ep, RPCORDMA_EVENT_QP_FATAL);
}

static struct rpcordma_endpoint *alloc_endpoint(const struct rpcordma_peer *peer, void *context)
{
	struct rpcordma_endpoint *ep = rpcordma_alloc(sizeof(*ep), RPCORDMA_ALLOC_NOIO);

	if (!ep)
		return NULL;
	ep->peer = peer;
	ep->context = context;
	spin_lock_init(&ep->lock);
	init_completion(&ep->ended);
	INIT_WORK(&ep->fatal, fatal_worker);
	return ep;
}

struct rpcordma_endpoint *rpcordma_endpoint_create(struct rpc_xprt *xprt, void *context, int *error)
{
	struct rpcordma_endpoint *ep = alloc_endpoint(rpcordma_xprt_peer(xprt), context);

	if (!ep) {
		*error = -ENOMEM;
		return NULL;
	}
	ep->id = rdma_create_id(xprt->xprt_net, handle_event, ep, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(ep->id)) {
		*error = PTR_ERR(ep->id);
		rpcordma_free(ep);
		return NULL;
	}
	return ep;
}

struct rpcordma_endpoint *rpcordma_endpoint_adopt(struct rdma_cm_id *id,
						  const struct rpcordma_peer *peer, void *context,
						  const struct rdma_conn_param *request)
{
	struct rpcordma_endpoint *ep = alloc_endpoint(peer, context);

	if (!ep)
		return NULL;
	ep->server = true;
	if (request->private_data) {
		ep->private_data_length =
			min_t(u32, request->private_data_len, sizeof(ep->private_data));
		memcpy(ep->private_data, request->private_data, ep->private_data_length);
	}
	ep->id = id;
	return ep;
}

int rpcordma_endpoint_resolve(struct rpcordma_endpoint *ep, rpcordma_u32 limit_ms)
{
	int rc;

	rc = begin_step(ep);
	if (rc)
		return rc;
	rc = rdma_resolve_addr(ep->id, NULL, (struct sockaddr *)&ep->peer->address, limit_ms);
	if (rc)
		return failed_step(ep, address_error(ep, rc));
	rc = await_step(ep, limit_ms + STEP_GRACE_MS);
	if (rc)
		return rc;

	rc = begin_step(ep);
	if (rc)
		return rc;
	rc = rdma_resolve_route(ep->id, limit_ms);
	if (rc)
		return failed_step(ep, rc == -ENOMEM ? rc : -ENETUNREACH);
	return await_step(ep, limit_ms + STEP_GRACE_MS);
}

static struct rdma_conn_param translate(const struct rpcordma_connect_parameters *parameters)
{
	return (struct rdma_conn_param){
		.private_data = parameters->private_data,
		.private_data_len = parameters->private_data_length,
		.responder_resources = parameters->responder_resources,
		.initiator_depth = parameters->initiator_depth,
		.retry_count = parameters->retry_count,
		.rnr_retry_count = parameters->rnr_retry_count,
	};
}

int rpcordma_endpoint_connect(struct rpcordma_endpoint *ep,
			      const struct rpcordma_connect_parameters *parameters,
			      rpcordma_u32 limit_ms)
{
	struct rdma_conn_param param = translate(parameters);
	int rc;

	rc = begin_step(ep);
	if (rc)
		return rc;
	rc = rdma_connect(ep->id, &param);
	if (rc)
		return failed_step(ep, rc == -ENOMEM ? rc : -ENOTCONN);
	return await_step(ep, limit_ms);
}

int rpcordma_endpoint_accept(struct rpcordma_endpoint *ep,
			     const struct rpcordma_connect_parameters *parameters)
{
	struct rdma_conn_param param = translate(parameters);
	int rc;

	/* Handlers are locked out, so that an event comes either before it is accepted or after. */
	rdma_lock_handler(ep->id);
	if (ep->removed)
		rc = -ENODEV;
	else if (ep->lost)
		rc = -ENOTCONN;
	else
		rc = rdma_accept(ep->id, &param);
	if (!rc) {
		spin_lock(&ep->lock);
		ep->established = true;
		spin_unlock(&ep->lock);
	}
	rdma_unlock_handler(ep->id);

	switch (rc) {
	case 0:
	case -ENODEV:
	case -EINVAL:
	case -ENOMEM:
		return rc;
	default:
		return -ENOTCONN;
	}
}

const void *rpcordma_endpoint_private_data(const struct rpcordma_endpoint *ep, rpcordma_u32 *length)
{
	*length = ep->private_data_length;
	return ep->private_data;
}

void rpcordma_endpoint_disconnect(struct rpcordma_endpoint *ep)
{
	/* It fails only if there is nothing to disconnect. */
	rdma_disconnect(ep->id);
}

/* --- lingering --- */

static void end_worker(struct work_struct *work)
{
	struct lingering *lingering = container_of(to_delayed_work(work), struct lingering, end);

	spin_lock(&lingering_lock);
	list_del_init(&lingering->link);
	lingering_count--;
	spin_unlock(&lingering_lock);
	rdma_destroy_id(lingering->id);
	/* Queued once more since it began, and before it left the list? */
	cancel_delayed_work(&lingering->end);
	rpcordma_free(lingering);
}

static int handle_lingering(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct lingering *lingering = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_DISCONNECTED: /* answered; or not, and the CM gave up */
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		break;
	default:
		/* A neighbour that is looked for counts as unreachable, too, and may be found. */
		return 0;
	}
	spin_lock(&lingering_lock);
	if (list_empty(&lingering->link))
		lingering->over = true;
	else
		mod_delayed_work(rpcordma_workqueue, &lingering->end, 0);
	spin_unlock(&lingering_lock);
	return 0;
}

/*
 * Leave the identifier to itself, if its peer may still have to learn that the connection is over.
 * Returns true if so: then it is not the caller's any more, and has no pointer to the endpoint.
 */
static bool linger(struct rpcordma_endpoint *ep)
{
	struct rdma_cm_id *id = ep->id;
	struct lingering *lingering;
	bool lingers;

	/* Without a device it has never been connected. */
	if (!id->device || !rdma_cap_ib_cm(id->device, id->port_num) ||
	    READ_ONCE(lingering_count) >= MOST_LINGERING)
		return false;
	lingering = rpcordma_alloc(sizeof(*lingering), RPCORDMA_ALLOC_NOIO);
	if (!lingering)
		return false;
	lingering->id = id;
	INIT_DELAYED_WORK(&lingering->end, end_worker);
	INIT_LIST_HEAD(&lingering->link);

	/* An event comes either before, and the endpoint knows, or after, to the new handler. */
	rdma_lock_handler(id);
	lingers = ep->connected;
	if (lingers) {
		id->context = lingering;
		id->event_handler = handle_lingering;
	}
	rdma_unlock_handler(id);
	if (!lingers) {
		rpcordma_free(lingering);
		return false;
	}

	/* Fails if that was done before; the CM repeats it without our help. */
	rdma_disconnect(id);
	spin_lock(&lingering_lock);
	list_add(&lingering->link, &all_lingering);
	lingering_count++;
	queue_delayed_work(rpcordma_workqueue, &lingering->end,
			   lingering->over ? 0 : msecs_to_jiffies(LINGER_MS));
	spin_unlock(&lingering_lock);
	return true;
}

void rpcordma_cm_exit(void)
{
	struct lingering *lingering;

	spin_lock(&lingering_lock);
	list_for_each_entry(lingering, &all_lingering, link)
		mod_delayed_work(rpcordma_workqueue, &lingering->end, 0);
	spin_unlock(&lingering_lock);
	flush_workqueue(rpcordma_workqueue);
}

void rpcordma_endpoint_destroy(struct rpcordma_endpoint *ep)
{
	/*
	 * The identifier goes last: it holds the device. Without a queue pair the rdma_cm's own
	 * handling of late connection messages finds nothing to do.
	 */
	rpcordma_endpoint_destroy_qp(ep);
	cancel_work_sync(&ep->fatal);
	if (!linger(ep))
		rdma_destroy_id(ep->id);
	rpcordma_free(ep);
}
