// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loading and unloading, and the module's parameters. What is visible to others comes in this order
 * and goes in reverse: transport class, debugfs, sysctls. A mount may use the class before we
 * return, so what the class itself needs, and nobody sees, is there before it.
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

#include "compat/linux/transport.h"
#include "compat/port/sunrpc.h"

struct workqueue_struct *rpcordma_workqueue;
struct page *rpcordma_scratch_page;

/*
 * A bool that takes no word by its first letter, as the kernel's own does, and says what it did not
 * take.
 */
static int set_switch(const char *text, const struct kernel_param *parameter)
{
	static const char *const on[] = { "Y", "y", "1", "on" };
	static const char *const off[] = { "N", "n", "0", "off" };
	bool *value = parameter->arg;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(on); i++) {
		/* The name alone switches on. */
		if (!text || sysfs_streq(text, on[i])) {
			*value = true;
			return 0;
		}
		if (sysfs_streq(text, off[i])) {
			*value = false;
			return 0;
		}
	}
	pr_err("%s=\"%s\": neither on nor off; give Y or N\n", parameter->name, text);
	return -EINVAL;
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

static int __init rpcordma_init(void)
{
	int rc;

	/* Reconnecting may be what frees memory: dirty pages, or a swap file, may be behind it. */
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
	return 0;

out_class:
	rpcordma_debugfs_unregister();
	rpcordma_xprt_unregister();
out_page:
	__free_page(rpcordma_scratch_page);
out_workqueue:
	destroy_workqueue(rpcordma_workqueue);
	return rc;
}

static void __exit rpcordma_exit(void)
{
	rpcordma_sysctl_unregister();
	rpcordma_debugfs_unregister();
	rpcordma_xprt_unregister();
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
