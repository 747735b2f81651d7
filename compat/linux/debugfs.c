// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/debug/rpcordma, for tests and for inspecting a live system:
 *
 *   disconnect   writing anything to it breaks every client connection, as a network failure would;
 *                the kernel's own hook for that (fail_sunrpc) is not configured in distributions
 *   stats        every client transport, its state and its counters, one "name: value" a line
 *   server/      see svc_debugfs.c
 *
 * As all of debugfs these files are no stable interface, and a failure to create them is no error.
 */

#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/sunrpc/xprt.h>

#include "compat/linux/svc.h"
#include "compat/linux/transport.h"
#include "compat/port/sunrpc.h"

static LIST_HEAD(transports);
/* Held while a transport on the list is used, so that it cannot leave meanwhile. */
static DEFINE_MUTEX(transports_mutex);
static struct dentry *directory;

void rpcordma_debugfs_join(struct rpcordma_transport *transport)
{
	mutex_lock(&transports_mutex);
	list_add_tail(&transport->link, &transports);
	mutex_unlock(&transports_mutex);
}

void rpcordma_debugfs_leave(struct rpcordma_transport *transport)
{
	mutex_lock(&transports_mutex);
	list_del_init(&transport->link);
	mutex_unlock(&transports_mutex);
}

static ssize_t disconnect_write(struct file *file, const char __user *data, size_t length,
				loff_t *position)
{
	struct rpcordma_transport *transport;
	bool found = false;

	mutex_lock(&transports_mutex);
	list_for_each_entry(transport, &transports, link) {
		found |= xprt_connected(&transport->xprt);
		rpcordma_core_client_inject_disconnect(to_client(&transport->xprt));
	}
	mutex_unlock(&transports_mutex);
	return found ? length : -ENOENT;
}

static const struct file_operations disconnect_operations = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = disconnect_write,
	.llseek = noop_llseek,
};

/* Of the newest connection; a word may be of the one before. */
static void show_agreement(struct seq_file *seq, const struct rpcordma_agreement *agreed)
{
	const char *why = READ_ONCE(agreed->why);

	seq_printf(seq, "version: %u\n", READ_ONCE(agreed->version));
	seq_printf(seq, "version_why: %s\n", why ?: "not settled");
	seq_printf(seq, "receive_size: %u\n", READ_ONCE(agreed->receive_size));
	seq_printf(seq, "receive_pages: %u\n", READ_ONCE(agreed->receive_pages));
	seq_printf(seq, "peer_receive_size: %u\n", READ_ONCE(agreed->peer_receive_size));
	seq_printf(seq, "peer_receive_pages: %u\n", READ_ONCE(agreed->peer_receive_pages));
}

static void show_transport(struct seq_file *seq, struct rpcordma_transport *transport)
{
	struct rpc_xprt *xprt = &transport->xprt;
	const struct rpcordma_client_stats *stats = rpcordma_core_client_stats(to_client(xprt));
	struct rpcordma_client_state state;

	rpcordma_core_client_state(to_client(xprt), &state);
	seq_printf(seq, "transport: %pISpc\n", &xprt->addr);
	seq_printf(seq, "connected: %d\n", xprt_connected(xprt) ? 1 : 0);
	seq_printf(seq, "connects: %lu\n", xprt->stat.connect_count);
	seq_printf(seq, "window: %lu\n", READ_ONCE(xprt->cwnd) >> RPC_CWNDSHIFT);
	seq_printf(seq, "outstanding: %lu\n", READ_ONCE(xprt->cong) >> RPC_CWNDSHIFT);
	seq_printf(seq, "swap_files: %d\n", atomic_read(&xprt->swapper));
	seq_printf(seq, "bad_xids: %lu\n", xprt->stat.bad_xids);
	seq_printf(seq, "read_chunk_count: %lu\n", stats->read_chunk_count);
	seq_printf(seq, "write_chunk_count: %lu\n", stats->write_chunk_count);
	seq_printf(seq, "reply_chunk_count: %lu\n", stats->reply_chunk_count);
	seq_printf(seq, "total_rdma_request: %llu\n", stats->total_rdma_request);
	seq_printf(seq, "total_rdma_reply: %llu\n", stats->total_rdma_reply);
	seq_printf(seq, "pullup_copy_count: %llu\n", stats->pullup_copy_count);
	seq_printf(seq, "fixup_copy_count: %llu\n", stats->fixup_copy_count);
	seq_printf(seq, "hardway_register_count: %lu\n", stats->hardway_register_count);
	seq_printf(seq, "failed_marshal_count: %lu\n", stats->failed_marshal_count);
	seq_printf(seq, "bad_reply_count: %lu\n", stats->bad_reply_count);
	seq_printf(seq, "nomsg_call_count: %lu\n", stats->nomsg_call_count);
	seq_printf(seq, "mrs_recycled: %lu\n", stats->mrs_recycled);
	seq_printf(seq, "mrs_orphaned: %lu\n", stats->mrs_orphaned);
	seq_printf(seq, "mrs_allocated: %lu\n", stats->mrs_allocated);
	seq_printf(seq, "local_inv_needed: %lu\n", stats->local_inv_needed);
	seq_printf(seq, "empty_sendctx_q: %lu\n", stats->empty_sendctx_q);
	seq_printf(seq, "bcall_count: %lu\n", stats->bcall_count);
	seq_printf(seq, "scratch_count: %lu\n", stats->scratch_count);
	seq_printf(seq, "group_count: %lu\n", stats->group_count);
	seq_printf(seq, "sent_item_count: %lu\n", stats->sent_item_count);
	seq_printf(seq, "gathered_item_count: %lu\n", stats->gathered_item_count);
	seq_printf(seq, "asked_item_count: %lu\n", stats->asked_item_count);
	seq_printf(seq, "received_item_count: %lu\n", stats->received_item_count);
	seq_printf(seq, "credits_short: %lu\n", stats->credits_short);
	seq_printf(seq, "reserve_short: %lu\n", stats->reserve_short);
	seq_printf(seq, "reply_group_count: %lu\n", stats->reply_group_count);
	seq_printf(seq, "repterr_count: %lu\n", stats->repterr_count);
	seq_printf(seq, "inline_send: %u\n", state.inline_send);
	seq_printf(seq, "inline_receive: %u\n", state.inline_receive);
	seq_printf(seq, "receives: %u\n", state.receives);
	seq_printf(seq, "regions: %u\n", state.regions);
	show_agreement(seq, &stats->agreed);
}

static int stats_show(struct seq_file *seq, void *unused)
{
	struct rpcordma_transport *transport;

	mutex_lock(&transports_mutex);
	list_for_each_entry(transport, &transports, link)
		show_transport(seq, transport);
	mutex_unlock(&transports_mutex);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

void rpcordma_debugfs_register(void)
{
	directory = debugfs_create_dir("rpcordma", NULL);
	debugfs_create_file("disconnect", 0200, directory, NULL, &disconnect_operations);
	debugfs_create_file("stats", 0400, directory, NULL, &stats_fops);
	rpcordma_svc_debugfs_register(directory);
}

void rpcordma_debugfs_unregister(void)
{
	debugfs_remove(directory);
}
