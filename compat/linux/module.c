// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loading and unloading, and the module's parameters. What others can see is registered in this
 * order and unregistered in reverse: client's transport class, debugfs, sysctls, the backchannel's
 * class, the server's class. nfsd may use a class before rpcordma_init() returns, so what a class
 * itself needs is made before it is registered. A mount may not before all of it is: if the rest
 * fails the module goes, whoever has a reference to it.
 */

#define pr_fmt(fmt) "rpcordma: " fmt

#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "compat/linux/svc.h"
#include "compat/linux/transport.h"
#include "compat/port/sunrpc.h"
#include "compat/port/svc.h"

struct workqueue_struct *rpcordma_workqueue;
bool rpcordma_ready;
struct page *rpcordma_scratch_page;

/* Logs @text up to the end of line, which echo appends. */
static int refuse(const char *text, const struct kernel_param *parameter, const char *why)
{
	pr_err("%s=\"%.*s\": %s\n", parameter->name, (int)strcspn(text, "\n"), text, why);
	return -EINVAL;
}

/*
 * A bool that, unlike the kernel's own, does not go by the first letter of a word, and logs what it
 * refuses.
 */
static int set_switch(const char *text, const struct kernel_param *parameter)
{
	static const char *const on[] = { "Y", "y", "1", "on" };
	static const char *const off[] = { "N", "n", "0", "off" };
	bool *value = parameter->arg;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(on); i++) {
		/* The name without a value switches on. */
		if (!text || sysfs_streq(text, on[i])) {
			*value = true;
			return 0;
		}
		if (sysfs_streq(text, off[i])) {
			*value = false;
			return 0;
		}
	}
	return refuse(text, parameter, "neither on nor off; give Y or N");
}

static const struct kernel_param_ops switch_ops = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG,
	.set = set_switch,
	.get = param_get_bool,
};

module_param_cb(scratch_remap, &switch_ops, &rpcordma_tunables.scratch_remap, 0644);
__MODULE_PARM_TYPE(scratch_remap, "bool");
MODULE_PARM_DESC(scratch_remap,
		 "let a server write the late reply of a cancelled call to scratch memory, instead of losing the connection (default: N)");

/* A number from @least to @most goes to @first and, if there is one, to @second. @why: what others are refused with. */
static int set_number(const char *text, const struct kernel_param *parameter, u32 least, u32 most,
		      const char *why, u32 *first, u32 *second)
{
	u32 number;

	if (kstrtou32(text, 0, &number) || number < least || number > most)
		return refuse(text, parameter, why);
	WRITE_ONCE(*first, number);
	if (second)
		WRITE_ONCE(*second, number);
	return 0;
}

static int set_eager_read_bytes(const char *text, const struct kernel_param *parameter)
{
	return set_number(text, parameter, 0, U32_MAX,
			  "not a number of bytes; 0 means as many as all nfsd threads can take",
			  &rpcordma_server_tunables.eager_read_bytes, NULL);
}

static int set_rnr_retry_count(const char *text, const struct kernel_param *parameter)
{
	return set_number(text, parameter, 0, 7, "not a number from 0 to 7; 7 means without end",
			  &rpcordma_server_tunables.rnr_retry_count, NULL);
}

static int set_accept_queue(const char *text, const struct kernel_param *parameter)
{
	return set_number(text, parameter, 1, 65536, "not a number of connections from 1 to 65536",
			  &rpcordma_svc_accept_queue, NULL);
}

static int set_version2(const char *text, const struct kernel_param *parameter)
{
	return set_number(text, parameter, 0, 2,
			  "not a number from 0 to 2; 0: off, 1: with peers that say they speak it, 2: with all",
			  &rpcordma_tunables.version2, &rpcordma_server_tunables.version2);
}

static int set_version2_pages(const char *text, const struct kernel_param *parameter)
{
	return set_number(text, parameter, 0, 16, "not a number of pages from 0 to 16",
			  &rpcordma_tunables.version2_pages,
			  &rpcordma_server_tunables.version2_pages);
}

static int set_version2_rtr(const char *text, const struct kernel_param *parameter)
{
	return set_number(text, parameter, 0, 7,
			  "not a sum of 1, 2 and 4, which are what may be said of round-trip reduction; 0: nothing",
			  &rpcordma_tunables.version2_rtr, &rpcordma_server_tunables.version2_rtr);
}

static int set_send_write_max(const char *text, const struct kernel_param *parameter)
{
	return set_number(text, parameter, 0, 262144, "not a number of bytes from 0 to 262144",
			  &rpcordma_tunables.send_write_max, NULL);
}

static int set_send_read_max(const char *text, const struct kernel_param *parameter)
{
	return set_number(text, parameter, 0, 262144, "not a number of bytes from 0 to 262144",
			  &rpcordma_tunables.send_read_max, NULL);
}

static int set_version2_receive_bytes(const char *text, const struct kernel_param *parameter)
{
	unsigned long bytes;

	if (kstrtoul(text, 0, &bytes))
		return refuse(text, parameter, "not a number of bytes");
	WRITE_ONCE(rpcordma_server_tunables.version2_receive_bytes, bytes);
	return 0;
}

static const struct kernel_param_ops version2_ops = {
	.set = set_version2,
	.get = param_get_uint,
};

module_param_cb(version2, &version2_ops, &rpcordma_tunables.version2, 0644);
__MODULE_PARM_TYPE(version2, "uint");
MODULE_PARM_DESC(version2,
		 "RPC-over-RDMA version 2 on connections made from now on, at either end; 0: off, 1: with peers whose connection request or answer says that they speak it, 2: with all that do not refuse it (default: 1)");

static const struct kernel_param_ops version2_pages_ops = {
	.set = set_version2_pages,
	.get = param_get_uint,
};

static const struct kernel_param_ops version2_rtr_ops = {
	.set = set_version2_rtr,
	.get = param_get_uint,
};

static const struct kernel_param_ops send_write_max_ops = {
	.set = set_send_write_max,
	.get = param_get_uint,
};

static const struct kernel_param_ops send_read_max_ops = {
	.set = set_send_read_max,
	.get = param_get_uint,
};

static const struct kernel_param_ops version2_receive_bytes_ops = {
	.set = set_version2_receive_bytes,
	.get = param_get_ulong,
};

module_param_cb(version2_pages, &version2_pages_ops, &rpcordma_tunables.version2_pages, 0644);
__MODULE_PARM_TYPE(version2_pages, "uint");
MODULE_PARM_DESC(version2_pages,
		 "pages of 4 KiB behind the first 4 KiB of a message of version 2, on connections made from now on, at either end, 0 to 16; fewer where the device has not so many SGEs (default: 4)");

module_param_cb(version2_rtr, &version2_rtr_ops, &rpcordma_tunables.version2_rtr, 0644);
__MODULE_PARM_TYPE(version2_rtr, "uint");
MODULE_PARM_DESC(version2_rtr,
		 "experimental: what an end says that it takes of version 2's round-trip reduction, on connections made from now on, the sum of 1: ROPT_XMTREQ, 2: ROPT_XMTRESP, 4: ROPT_XMTCONT; with 7 at both ends long calls go in up to four messages instead of an RDMA Read; 0: none (default: 0)");

module_param_cb(send_write_max, &send_write_max_ops, &rpcordma_tunables.send_write_max, 0644);
__MODULE_PARM_TYPE(send_write_max, "uint");
MODULE_PARM_DESC(send_write_max,
		 "experimental: on connections made from now on with version2_rtr=7 at both ends, a client sends the data of a WRITE of up to so many bytes in up to four messages into pages of the server's instead of having the server read them by RDMA; 0 to 262144, and no more than four times version2_pages of 4 KiB are of use; 0: none (default: 0)");

module_param_cb(send_read_max, &send_read_max_ops, &rpcordma_tunables.send_read_max, 0644);
__MODULE_PARM_TYPE(send_read_max, "uint");
MODULE_PARM_DESC(send_read_max,
		 "experimental: on connections made from now on with version2_rtr=7 at both ends, a client has the data of a READ of up to so many bytes sent in up to four messages, and copies them, instead of having the server write them by RDMA; 0 to 262144, and no more than four times version2_pages of 4 KiB, nor than some 130000, are of use; 0: none (default: 0)");

module_param_cb(version2_receive_bytes, &version2_receive_bytes_ops,
		&rpcordma_server_tunables.version2_receive_bytes, 0644);
__MODULE_PARM_TYPE(version2_receive_bytes, "ulong");
MODULE_PARM_DESC(version2_receive_bytes,
		 "most bytes of memory for the pages of the server's receive buffers, of all connections of version 2; a connection that would exceed it keeps small ones; 0: a 64th of the memory (default: 0)");

static const struct kernel_param_ops eager_read_bytes_ops = {
	.set = set_eager_read_bytes,
	.get = param_get_uint,
};

static const struct kernel_param_ops rnr_retry_count_ops = {
	.set = set_rnr_retry_count,
	.get = param_get_uint,
};

static const struct kernel_param_ops accept_queue_ops = {
	.set = set_accept_queue,
	.get = param_get_uint,
};

module_param_cb(eager_read_bytes, &eager_read_bytes_ops, &rpcordma_server_tunables.eager_read_bytes,
		0644);
__MODULE_PARM_TYPE(eager_read_bytes, "uint");
MODULE_PARM_DESC(eager_read_bytes,
		 "most bytes of memory for calls that the server fetches before a thread asks for them; 0: enough for as many of the largest messages as there are nfsd threads, or a 128th of the memory, whichever is more (default: 0)");

module_param_cb(server_rnr_retry_count, &rnr_retry_count_ops,
		&rpcordma_server_tunables.rnr_retry_count, 0644);
__MODULE_PARM_TYPE(server_rnr_retry_count, "uint");
MODULE_PARM_DESC(server_rnr_retry_count,
		 "how often a client's device sends again while our server has no receive buffer, 0 to 7; 7: without end (default: 7)");

module_param_cb(server_accept_queue, &accept_queue_ops, &rpcordma_svc_accept_queue, 0644);
__MODULE_PARM_TYPE(server_accept_queue, "uint");
MODULE_PARM_DESC(server_accept_queue,
		 "how many connections may wait for an nfsd thread to accept them, for each listener; one client may have an eighth of them, or 16; others are refused (default: 1024)");

static int __init rpcordma_init(void)
{
	int rc;

	/* Memory reclaim may depend on a reconnect, to write dirty pages or to a swap file. */
	rpcordma_workqueue = alloc_workqueue("rpcordma", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!rpcordma_workqueue)
		return -ENOMEM;
	rc = -ENOMEM;
	rpcordma_scratch_page = alloc_page(GFP_KERNEL);
	if (!rpcordma_scratch_page)
		goto out_workqueue;
	rc = rpcordma_xprt_register();
	if (rc)
		goto out_page;
	rpcordma_debugfs_register();
	rc = rpcordma_sysctl_register();
	if (rc)
		goto out_class;
	rc = rpcordma_svc_sysctl_register();
	if (rc)
		goto out_sysctl;
	rc = rpcordma_svc_bc_register();
	if (rc)
		goto out_svc_sysctl;
	rc = rpcordma_svc_register();
	if (rc)
		goto out_svc_bc;
	/* Pairs with client_setup(). */
	smp_store_release(&rpcordma_ready, true);
	return 0;

out_svc_bc:
	rpcordma_svc_bc_unregister();
out_svc_sysctl:
	rpcordma_svc_sysctl_unregister();
out_sysctl:
	rpcordma_sysctl_unregister();
out_class:
	rpcordma_debugfs_unregister();
	rpcordma_xprt_unregister();
out_page:
	rpcordma_cm_exit();
	__free_page(rpcordma_scratch_page);
out_workqueue:
	destroy_workqueue(rpcordma_workqueue);
	/* modprobe takes EEXIST to mean that the module is already loaded, and says nothing. */
	return rc == -EEXIST ? -EBUSY : rc;
}

static void __exit rpcordma_exit(void)
{
	rpcordma_svc_unregister();
	rpcordma_svc_bc_unregister();
	rpcordma_svc_sysctl_unregister();
	rpcordma_sysctl_unregister();
	rpcordma_debugfs_unregister();
	rpcordma_xprt_unregister();
	rpcordma_cm_exit();
	__free_page(rpcordma_scratch_page);
	destroy_workqueue(rpcordma_workqueue);
}

module_init(rpcordma_init);
module_exit(rpcordma_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("RPC-over-RDMA transport");
MODULE_VERSION("0.1");
MODULE_ALIAS("rpcrdma");
MODULE_ALIAS("rpcrdma6");
MODULE_ALIAS("xprtrdma");
MODULE_ALIAS("svcrdma");
