// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/debug/rpcordma/server, for tests and for inspecting a live system:
 *
 *   connections  every connection, a line each: its number, the client's address, its state, and what the ends
 *                have agreed on, as "name=value"
 *   counters     of all connections since the module was loaded, one "name value" a line
 *   disconnect   writing a connection's number to it breaks that connection, as a network failure
 *                would; writing "all" breaks all of them
 *
 * As all of debugfs these files are no stable interface, and a failure to create them is no error.
 */

#include <linux/debugfs.h>
#include <linux/errno.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "compat/linux/svc.h"
#include "compat/port/svc.h"

static ssize_t disconnect_write(struct file *file, const char __user *data, size_t length,
				loff_t *position)
{
	char text[16] = "";
	u32 number = 0;
	bool all;

	if (copy_from_user(text, data, min(length, sizeof(text) - 1)))
		return -EFAULT;
	all = sysfs_streq(text, "all");
	if (!all && (kstrtou32(strim(text), 10, &number) || !number))
		return -EINVAL;
	return rpcordma_connections_disconnect(number) ? length : -ENOENT;
}

static const struct file_operations disconnect_operations = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = disconnect_write,
	.llseek = noop_llseek,
};

static int connections_show(struct seq_file *seq, void *unused)
{
	rpcordma_connections_show(seq);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(connections);

static const char *const names[RPCORDMA_SERVER_COUNTERS] = {
	[RPCORDMA_SERVER_READ] = "read",
	[RPCORDMA_SERVER_RECV] = "recv",
	[RPCORDMA_SERVER_WRITE] = "write",
	[RPCORDMA_SERVER_SQ_STARVE] = "sq_starve",
	[RPCORDMA_SERVER_EAGER] = "eager",
	[RPCORDMA_SERVER_HELD] = "held",
	[RPCORDMA_SERVER_DEBT] = "debt",
	[RPCORDMA_SERVER_ERR_VERS] = "err_vers",
	[RPCORDMA_SERVER_ERR_CHUNK] = "err_chunk",
	[RPCORDMA_SERVER_DROPPED] = "dropped",
	[RPCORDMA_SERVER_V2_CONNECTIONS] = "v2_connections",
	[RPCORDMA_SERVER_GROWN] = "grown",
	[RPCORDMA_SERVER_LENT_PAGES] = "lent_pages",
	[RPCORDMA_SERVER_V2_FOREIGN_KEYS] = "v2_foreign_keys",
	[RPCORDMA_SERVER_V2_GROUPS] = "v2_groups",
	[RPCORDMA_SERVER_V2_SENT_ITEMS] = "v2_sent_items",
	[RPCORDMA_SERVER_V2_REPLY_GROUPS] = "v2_reply_groups",
	[RPCORDMA_SERVER_V2_SENT_RESULTS] = "v2_sent_results",
	[RPCORDMA_SERVER_V2_GROUPS_DROPPED] = "v2_groups_dropped",
	[RPCORDMA_SERVER_V2_REPTERR] = "v2_repterr",
	[RPCORDMA_SERVER_V2_REPTERR_RECEIVED] = "v2_repterr_received",
	[RPCORDMA_SERVER_V2_ERR_VERS] = "v2_err_vers",
	[RPCORDMA_SERVER_V2_ERR_BAD_XDR] = "v2_err_bad_xdr",
	[RPCORDMA_SERVER_V2_ERR_REPLY_RESOURCE] = "v2_err_reply_resource",
	[RPCORDMA_SERVER_V2_ERR_INVAL_PROC] = "v2_err_inval_proc",
	[RPCORDMA_SERVER_V2_ERR_INVAL_OPTION] = "v2_err_inval_option",
	[RPCORDMA_SERVER_V2_ERR_SYSTEM] = "v2_err_system",
};

static int counters_show(struct seq_file *seq, void *unused)
{
	unsigned int i;

	for (i = 0; i < RPCORDMA_SERVER_COUNTERS; i++)
		seq_printf(seq, "%s %llu\n", names[i], rpcordma_svc_counter(i));
	seq_printf(seq, "refused %lu\n", rpcordma_svc_refused());
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

void rpcordma_svc_debugfs_register(struct dentry *parent)
{
	struct dentry *directory = debugfs_create_dir("server", parent);

	debugfs_create_file("connections", 0400, directory, NULL, &connections_fops);
	debugfs_create_file("counters", 0400, directory, NULL, &counters_fops);
	debugfs_create_file("disconnect", 0200, directory, NULL, &disconnect_operations);
}
