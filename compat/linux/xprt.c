// SPDX-License-Identifier: GPL-2.0-only
/*
 * The client's transport class: the operations that sunrpc calls. Each translates its arguments and
 * calls the core. The functions that the core calls are in credits.c (the transport) and request.c
 * (requests), the backchannel's operations in backchannel.c.
 *
 * Life of a transport: setup() makes it completely or not at all. It is then on debugfs.c's list
 * until destroy(), which is called when nobody can call the other operations any more; work of its
 * own that is still queued is cancelled first. Each transport holds a reference to the module.
 *
 * Memory: writeback of dirty pages or swapping may depend on any code here that works for a
 * connection. Then allocations must not start I/O, hence the NOIO scopes; and if a swap file uses
 * the transport, they may use the memory reserves, hence PF_MEMALLOC. sunrpc does the same for the
 * tasks themselves.
 */

#define pr_fmt(fmt) "rpcordma: " fmt

#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sunrpc/addr.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/msg_prot.h>
#include <linux/sunrpc/xprt.h>
#include <linux/workqueue.h>

#include "compat/linux/transport.h"
#include "compat/port/port.h"

/*
 * The in-tree transport's times, so that a mount behaves the same over either transport.
 */
#define CALL_TIMEOUT (60 * HZ)
#define BIND_TIMEOUT (60 * HZ)
#define REESTABLISH_TIMEOUT (5 * HZ)
#define IDLE_TIMEOUT (5 * 60 * HZ)

static const struct rpc_xprt_ops client_ops;
static struct xprt_class client_class;

/* --- connecting and closing --- */

static void connect_worker(struct work_struct *work)
{
	struct rpcordma_transport *transport =
		container_of(work, struct rpcordma_transport, connect.work);
	struct rpc_xprt *xprt = &transport->xprt;
	const unsigned int flags = current->flags;
	const unsigned int noio = memalloc_noio_save();
	int rc;

	if (atomic_read(&xprt->swapper))
		current->flags |= PF_MEMALLOC;
	if (xprt->reestablish_timeout < REESTABLISH_TIMEOUT)
		xprt->reestablish_timeout = REESTABLISH_TIMEOUT;

	/* rpcbind has found the port, or an administrator wrote another address (sysfs: dstaddr, with the send lock). */
	rpcordma_peer_set(&transport->peer, (struct sockaddr *)&xprt->addr);
	rc = rpcordma_core_client_connect(to_client(xprt));

	xprt_clear_connecting(xprt);
	if (!rc) {
		xprt->connect_cookie++;
		xprt->stat.connect_count++;
		xprt->stat.connect_time += (long)jiffies - xprt->stat.connect_start;
		xprt_set_connected(xprt);
	}
	/*
	 * The core returns only errors after which sunrpc retries: others fail even hard mounts. Before the send lock is given
	 * back, so that only tasks that wait for the connection are woken: the next sender would wait for its reply in the same
	 * queue, be woken by this, and send again what the server has already.
	 */
	xprt_wake_pending_tasks(xprt, rc ? rc : -EAGAIN);
	xprt_unlock_connect(xprt, transport);

	memalloc_noio_restore(noio);
	current_restore_flags(flags, PF_MEMALLOC);
}

/* The task holds the send lock, and hands it to the worker. */
static void client_connect(struct rpc_xprt *xprt, struct rpc_task *task)
{
	struct rpcordma_transport *transport = to_transport(xprt);
	unsigned long delay = 0;

	WARN_ON_ONCE(!xprt_lock_connect(xprt, task, transport));
	if (rpcordma_core_client_should_back_off(to_client(xprt))) {
		delay = xprt_reconnect_delay(xprt);
		xprt_reconnect_backoff(xprt, REESTABLISH_TIMEOUT);
	}
	queue_delayed_work(rpcordma_workqueue, &transport->connect, delay);
}

static void client_close(struct rpc_xprt *xprt)
{
	const unsigned int noio = memalloc_noio_save();

	rpcordma_core_client_close(to_client(xprt));
	memalloc_noio_restore(noio);
}

static void refill_worker(struct work_struct *work)
{
	struct rpcordma_transport *transport =
		container_of(work, struct rpcordma_transport, refill.work);
	const unsigned int flags = current->flags;
	const unsigned int noio = memalloc_noio_save();

	if (atomic_read(&transport->xprt.swapper))
		current->flags |= PF_MEMALLOC;
	rpcordma_core_client_refill(to_client(&transport->xprt));
	memalloc_noio_restore(noio);
	current_restore_flags(flags, PF_MEMALLOC);
}

static void check_worker(struct work_struct *work)
{
	struct rpcordma_transport *transport =
		container_of(work, struct rpcordma_transport, check.work);

	rpcordma_core_client_check(to_client(&transport->xprt));
}

static void client_inject_disconnect(struct rpc_xprt *xprt)
{
	rpcordma_core_client_inject_disconnect(to_client(xprt));
}

/*
 * A call ran into its retransmit timeout. No keep-alive tells a slow server from a dead path, so
 * the connection is closed: the attempt to make another shows which it is.
 */
static void client_timer(struct rpc_xprt *xprt, struct rpc_task *task)
{
	xprt_force_disconnect(xprt);
}

/* --- requests --- */

static noinline void wait_for_slot(struct rpc_xprt *xprt, struct rpc_task *task)
{
	struct rpcordma_client *client = to_client(xprt);
	struct rpc_rqst *rqst;

	task->tk_status = -EAGAIN;
	/* Under the lock, so that a waker sees both the bit and the queued task, or neither. */
	spin_lock(&xprt->reserve_lock);
	xprt_add_backlog(xprt, task);
	spin_unlock(&xprt->reserve_lock);
	/*
	 * If a slot was freed before the task was on the queue, nobody was woken. Taking a slot and
	 * freeing it wakes the first task on the queue, be it this one or another.
	 */
	rqst = rpcordma_core_alloc_slot(client);
	if (rqst)
		rpcordma_core_free_slot(client, to_call(rqst));
}

static void client_alloc_slot(struct rpc_xprt *xprt, struct rpc_task *task)
{
	struct rpc_rqst *rqst = rpcordma_core_alloc_slot(to_client(xprt));

	if (likely(rqst)) {
		task->tk_rqstp = rqst;
		task->tk_status = 0;
		return;
	}
	wait_for_slot(xprt, task);
}

static void client_free_slot(struct rpc_xprt *xprt, struct rpc_rqst *rqst)
{
	rpcordma_core_free_slot(to_client(xprt), to_call(rqst));
}

static int client_buf_alloc(struct rpc_task *task)
{
	struct rpc_rqst *rqst = task->tk_rqstp;

	return rpcordma_core_buf_alloc(to_client(rqst->rq_xprt), to_call(rqst), rqst->rq_callsize,
				       rqst->rq_rcvsize, &rqst->rq_buffer, &rqst->rq_rbuffer);
}

/*
 * The encrypted pages of a request (krb5p) are about to be freed. That is so behind client_buf_free(), but also before sunrpc
 * encodes a request once more, for which no operation of the transport's is called: the server, or the device, may still read
 * them then. (Its head has been written anew already.)
 */
static void client_release_snd_buf(struct rpc_rqst *rqst)
{
	struct rpc_xprt *xprt = rqst->rq_xprt;
	struct rpc_task *task = rqst->rq_task;

	/*
	 * A task whose request another one has sent may have been given the send lock behind that. Closing takes it, and may
	 * have to be waited for.
	 */
	if (task && unlikely(READ_ONCE(xprt->snd_task) == task)) {
		spin_lock(&xprt->transport_lock);
		xprt_release_xprt_cong(xprt, task);
		spin_unlock(&xprt->transport_lock);
	}
	rpcordma_core_buf_free(to_client(rqst->rq_xprt), to_call(rqst));
	rqst->rq_release_snd_buf = to_slot(rqst)->release_snd_buf;
	rqst->rq_release_snd_buf(rqst);
}

/*
 * Be asked before @rqst's encrypted pages go. Who sends has it pinned, and its own task waits for that before it frees them.
 * Returns @rqst.
 */
static noinline struct rpc_rqst *guard_snd_buf(struct rpc_rqst *rqst)
{
	if (rqst->rq_release_snd_buf != client_release_snd_buf) {
		to_slot(rqst)->release_snd_buf = rqst->rq_release_snd_buf;
		rqst->rq_release_snd_buf = client_release_snd_buf;
	}
	return rqst;
}

static void client_buf_free(struct rpc_task *task)
{
	struct rpc_rqst *rqst = task->tk_rqstp;

	/* Which sunrpc calls behind this: there is nothing to be asked any more. */
	if (unlikely(rqst->rq_release_snd_buf == client_release_snd_buf))
		rqst->rq_release_snd_buf = to_slot(rqst)->release_snd_buf;
	rpcordma_core_buf_free(to_client(rqst->rq_xprt), to_call(rqst));
}

/* Under the transport lock. */
static void client_release_request(struct rpc_task *task)
{
	struct rpc_rqst *rqst = task->tk_rqstp;

	/* Backward requests use no credit of the forward direction. */
	if (bc_prealloc(rqst))
		return;
	if (rpcordma_core_release_credit(to_client(rqst->rq_xprt), to_call(rqst)))
		xprt_release_rqst_cong(task);
}

/* The sender holds the send lock. */
static int client_send_request(struct rpc_rqst *rqst)
{
	struct rpcordma_client *client = to_client(rqst->rq_xprt);
	/* If the connection breaks while sending, the sender closes it. */
	const unsigned int noio = memalloc_noio_save();
	int rc;

	if (unlikely(rqst->rq_release_snd_buf))
		rqst = guard_snd_buf(rqst);
	/* Buffers are allocated for calls only, so this is the reply to a backward call. */
	if (unlikely(!rqst->rq_buffer))
		rc = rpcordma_core_bc_send_reply(client, to_call(rqst));
	else
		rc = rpcordma_core_send_request(client, to_call(rqst));
	memalloc_noio_restore(noio);
	return rc;
}

/* --- administration --- */

static void client_set_connect_timeout(struct rpc_xprt *xprt, unsigned long connect_timeout,
				       unsigned long reconnect_timeout)
{
	struct rpcordma_transport *transport = to_transport(xprt);

	spin_lock(&xprt->transport_lock);
	if (connect_timeout < xprt->connect_timeout) {
		struct rpc_timeout timeout = *xprt->timeout;

		timeout.to_initval = max_t(unsigned long, connect_timeout, 2 * REESTABLISH_TIMEOUT);
		timeout.to_maxval = timeout.to_initval;
		transport->timeout = timeout;
		xprt->timeout = &transport->timeout;
		xprt->connect_timeout = connect_timeout;
	}
	if (reconnect_timeout < xprt->max_reconnect_timeout)
		xprt->max_reconnect_timeout = reconnect_timeout;
	spin_unlock(&xprt->transport_lock);
}

/* A line of /proc/self/mountstats. Tools parse it by position, so it has the in-tree order. */
void rpcordma_print_stats(struct rpc_xprt *xprt, const struct rpcordma_client_stats *counters,
			  struct seq_file *seq)
{
	/* Not atomic as a whole; each counter is one word, read before or after an addition. */
	const struct rpcordma_client_stats stats = data_race(*counters);
	long idle_time = 0;

	if (xprt_connected(xprt))
		idle_time = (long)(jiffies - xprt->last_used) / HZ;

	seq_puts(seq, "\txprt:\trdma ");
	seq_printf(seq, "%u %lu %lu %lu %ld %lu %lu %lu %llu %llu ", 0 /* no local port */,
		   xprt->stat.bind_count, xprt->stat.connect_count, xprt->stat.connect_time / HZ,
		   idle_time, xprt->stat.sends, xprt->stat.recvs, xprt->stat.bad_xids,
		   xprt->stat.req_u, xprt->stat.bklog_u);
	seq_printf(seq, "%lu %lu %lu %llu %llu %llu %llu %lu %lu %lu %lu ", stats.read_chunk_count,
		   stats.write_chunk_count, stats.reply_chunk_count, stats.total_rdma_request,
		   stats.total_rdma_reply, stats.pullup_copy_count, stats.fixup_copy_count,
		   stats.hardway_register_count, stats.failed_marshal_count,
		   stats.bad_reply_count, stats.nomsg_call_count);
	seq_printf(seq, "%lu %lu %lu %lu %lu %u\n", stats.mrs_recycled, stats.mrs_orphaned,
		   stats.mrs_allocated, stats.local_inv_needed, stats.empty_sendctx_q,
		   0 /* was once a count of replies that waited for their Send */);
}

static void client_print_stats(struct rpc_xprt *xprt, struct seq_file *seq)
{
	rpcordma_print_stats(xprt, rpcordma_core_client_stats(to_client(xprt)), seq);
}

/*
 * From now on a swap file depends on this transport. sunrpc and the workers above test the count.
 * It is not changed under the send lock, since releasing that in the usual way wakes nobody who
 * waits for the bit; so one connection attempt that is already under way may still run without the
 * reserves.
 */
static int client_enable_swap(struct rpc_xprt *xprt)
{
	atomic_inc(&xprt->swapper);
	return 0;
}

static void client_disable_swap(struct rpc_xprt *xprt)
{
	atomic_dec(&xprt->swapper);
}

/* --- addresses, as the side protocols and the user see them --- */

void rpcordma_free_addresses(struct rpc_xprt *xprt)
{
	/* The other strings are literals. */
	kfree(xprt->address_strings[RPC_DISPLAY_ADDR]);
	kfree(xprt->address_strings[RPC_DISPLAY_HEX_ADDR]);
}

static void format_port(struct rpcordma_port_text *text, unsigned short port)
{
	snprintf(text->decimal, sizeof(text->decimal), "%hu", port);
	snprintf(text->hex, sizeof(text->hex), "%4hx", port);
}

int rpcordma_format_addresses(struct rpc_xprt *xprt, struct rpcordma_port_text *port)
{
	const struct sockaddr *address = (const struct sockaddr *)&xprt->addr;
	char text[INET6_ADDRSTRLEN + IPV6_SCOPE_ID_LEN + 1];

	switch (address->sa_family) {
	case AF_INET:
		xprt->address_strings[RPC_DISPLAY_HEX_ADDR] =
			kasprintf(GFP_KERNEL, "%08x",
				  ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr));
		xprt->address_strings[RPC_DISPLAY_NETID] = RPCBIND_NETID_RDMA;
		break;
	case AF_INET6:
		xprt->address_strings[RPC_DISPLAY_HEX_ADDR] =
			kasprintf(GFP_KERNEL, "%pi6",
				  &((const struct sockaddr_in6 *)address)->sin6_addr);
		xprt->address_strings[RPC_DISPLAY_NETID] = RPCBIND_NETID_RDMA6;
		break;
	default:
		pr_err("address family %u: RPC over RDMA knows IPv4 and IPv6 only\n",
		       address->sa_family);
		return -EAFNOSUPPORT;
	}
	xprt->address_strings[RPC_DISPLAY_PROTO] = "rdma";
	if (!rpc_ntop(address, text, sizeof(text)))
		return -EAFNOSUPPORT;
	xprt->address_strings[RPC_DISPLAY_ADDR] = kstrdup(text, GFP_KERNEL);
	if (!xprt->address_strings[RPC_DISPLAY_ADDR] ||
	    !xprt->address_strings[RPC_DISPLAY_HEX_ADDR])
		return -ENOMEM;
	format_port(port, rpc_get_port(address));
	xprt->address_strings[RPC_DISPLAY_PORT] = port->decimal;
	xprt->address_strings[RPC_DISPLAY_HEX_PORT] = port->hex;
	return 0;
}

/* rpcbind knows the port now. */
static void client_set_port(struct rpc_xprt *xprt, unsigned short port)
{
	rpc_set_port((struct sockaddr *)&xprt->addr, port);
	format_port(&to_transport(xprt)->port, port);
}

/* --- life --- */

static const struct rpc_timeout default_timeout = {
	.to_initval = CALL_TIMEOUT,
	.to_maxval = CALL_TIMEOUT,
};

static struct rpc_xprt *client_setup(struct xprt_create *args)
{
	const size_t size = sizeof(struct rpcordma_transport) + RPCORDMA_CORE_ALIGN - 1 +
			    rpcordma_core_client_size();
	struct rpcordma_transport *transport;
	struct rpc_xprt *xprt;
	u32 slots;
	int rc;

	if (args->addrlen > sizeof(xprt->addr))
		return ERR_PTR(-EBADF);
	/* Pairs with rpcordma_init(). mount.nfs tries again. */
	if (!smp_load_acquire(&rpcordma_ready))
		return ERR_PTR(-EAGAIN);
	if (!try_module_get(THIS_MODULE))
		return ERR_PTR(-EIO);

	slots = READ_ONCE(rpcordma_tunables.slot_table_entries);
	/* The core has the slots. */
	xprt = xprt_alloc(args->net, size, 0, slots);
	if (!xprt) {
		rc = -ENOMEM;
		goto out_module;
	}
	transport = to_transport(xprt);
	INIT_DELAYED_WORK(&transport->connect, connect_worker);
	INIT_DELAYED_WORK(&transport->refill, refill_worker);
	INIT_DELAYED_WORK(&transport->check, check_worker);
	INIT_LIST_HEAD(&transport->link);
	transport->nudge.rq_xprt = xprt;

	xprt->ops = &client_ops;
	xprt->xprt_class = &client_class;
	xprt->timeout = &default_timeout;
	xprt->connect_timeout = xprt->timeout->to_initval;
	xprt->max_reconnect_timeout = xprt->timeout->to_maxval;
#ifdef HAVE_XPRT_CREATE_TIMEOUTS
	if (args->reconnect_timeout)
		xprt->max_reconnect_timeout = args->reconnect_timeout;
#endif
	xprt->bind_timeout = BIND_TIMEOUT;
	xprt->reestablish_timeout = REESTABLISH_TIMEOUT;
	xprt->idle_timeout = IDLE_TIMEOUT;
	xprt->max_payload = rpcordma_core_max_payload();
	/* The server sees no port number of ours, so no privileged port is needed. */
	xprt->resvport = 0;
	/* Read by the side protocols (mount, lock manager), which use TCP. */
	xprt->prot = IPPROTO_TCP;

	xprt->addrlen = args->addrlen;
	memcpy(&xprt->addr, args->dstaddr, args->addrlen);
	rc = rpcordma_format_addresses(xprt, &transport->port);
	if (rc)
		goto out_xprt;
	rpcordma_peer_set(&transport->peer, args->dstaddr);
	if (rpc_get_port(args->dstaddr))
		xprt_set_bound(xprt);
#ifdef HAVE_XPRT_CREATE_TIMEOUTS
	if (args->connect_timeout)
		client_set_connect_timeout(xprt, args->connect_timeout,
					   xprt->max_reconnect_timeout);
#endif

	rc = rpcordma_core_client_create(to_client(xprt), xprt, slots);
	if (rc)
		goto out_xprt;
	rpcordma_debugfs_join(transport);
	return xprt;

out_xprt:
	rpcordma_free_addresses(xprt);
	xprt_free(xprt);
out_module:
	module_put(THIS_MODULE);
	return ERR_PTR(rc);
}

/* sunrpc holds the send lock for good, and no task is left. */
static void client_destroy(struct rpc_xprt *xprt)
{
	struct rpcordma_transport *transport = to_transport(xprt);

	rpcordma_debugfs_leave(transport);
	cancel_delayed_work_sync(&transport->connect);
	/* Until then completions queue the other works, which use the core's half. */
	rpcordma_core_client_close(to_client(xprt));
	cancel_delayed_work_sync(&transport->refill);
	cancel_delayed_work_sync(&transport->check);
	rpcordma_core_client_destroy(to_client(xprt));
	rpcordma_free_addresses(xprt);
	xprt_free(xprt);
	/* Last, and directly before the return: the module may be unloaded from here on. */
	module_put(THIS_MODULE);
}

static const struct rpc_xprt_ops client_ops = {
	.reserve_xprt = xprt_reserve_xprt_cong,
	.release_xprt = xprt_release_xprt_cong,
	.alloc_slot = client_alloc_slot,
	.free_slot = client_free_slot,
	.rpcbind = rpcb_getport_async,
	.set_port = client_set_port,
	.connect = client_connect,
	.buf_alloc = client_buf_alloc,
	.buf_free = client_buf_free,
	.send_request = client_send_request,
	.wait_for_reply_request = xprt_wait_for_reply_request_def,
	.timer = client_timer,
	.release_request = client_release_request,
	.close = client_close,
	.destroy = client_destroy,
	.set_connect_timeout = client_set_connect_timeout,
	.print_stats = client_print_stats,
	.enable_swap = client_enable_swap,
	.disable_swap = client_disable_swap,
	.inject_disconnect = client_inject_disconnect,
#ifdef CONFIG_SUNRPC_BACKCHANNEL
	.bc_setup = rpcordma_bc_setup,
	.bc_maxpayload = rpcordma_bc_maxpayload,
	.bc_num_slots = rpcordma_bc_num_slots,
	.bc_free_rqst = rpcordma_bc_free_rqst,
	.bc_destroy = rpcordma_bc_destroy,
#endif
};

static struct xprt_class client_class = {
	.list = LIST_HEAD_INIT(client_class.list),
	.name = "rdma",
	.owner = THIS_MODULE,
	.ident = XPRT_TRANSPORT_RDMA,
	.setup = client_setup,
	.netid = { "rdma", "rdma6", "" },
};

int rpcordma_xprt_register(void)
{
	int rc = xprt_register_transport(&client_class);

	if (rc == -EEXIST)
		pr_err("another module serves the transport \"rdma\", most likely the in-tree rpcrdma; unload it first (rmmod rpcrdma)\n");
	return rc;
}

void rpcordma_xprt_unregister(void)
{
	xprt_unregister_transport(&client_class);
}
