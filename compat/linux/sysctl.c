// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tunables, and /proc/sys/sunrpc/rdma_*, with the names, ranges and defaults of the in-tree
 * transport, so that existing configurations keep working. Three of them have no effect, there
 * neither: they are kept because a sysctl.conf may set them. A value out of range is refused with
 * EINVAL.
 */

#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/sysctl.h>

#include "compat/linux/transport.h"
#include "compat/port/sunrpc.h"

struct rpcordma_tunables rpcordma_tunables = {
	.slot_table_entries = 128,
	.max_inline_read = 4096,
	.max_inline_write = 4096,
	.scratch_remap = false,
	.version2 = 1,
	.version2_pages = 4,
};

#ifdef CONFIG_SYSCTL

static unsigned int inline_write_padding;
static unsigned int memreg_strategy = 5; /* fast registration, the only one there is */
static int pad_optimize;

static unsigned int least_slots = 4;
static unsigned int most_slots = 16384;
static unsigned int least_inline = 1024;
static unsigned int most_inline = 65536;
static unsigned int most_padding = PAGE_SIZE;
static unsigned int most_strategy = 6;

static struct ctl_table table[] = {
	{
		.procname = "rdma_slot_table_entries",
		.data = &rpcordma_tunables.slot_table_entries,
		.maxlen = sizeof(unsigned int),
		.mode = 0644,
		.proc_handler = proc_dointvec_minmax,
		.extra1 = &least_slots,
		.extra2 = &most_slots,
	},
	{
		.procname = "rdma_max_inline_read",
		.data = &rpcordma_tunables.max_inline_read,
		.maxlen = sizeof(unsigned int),
		.mode = 0644,
		.proc_handler = proc_dointvec_minmax,
		.extra1 = &least_inline,
		.extra2 = &most_inline,
	},
	{
		.procname = "rdma_max_inline_write",
		.data = &rpcordma_tunables.max_inline_write,
		.maxlen = sizeof(unsigned int),
		.mode = 0644,
		.proc_handler = proc_dointvec_minmax,
		.extra1 = &least_inline,
		.extra2 = &most_inline,
	},
	{
		.procname = "rdma_inline_write_padding",
		.data = &inline_write_padding,
		.maxlen = sizeof(unsigned int),
		.mode = 0644,
		.proc_handler = proc_dointvec_minmax,
		.extra1 = SYSCTL_ZERO,
		.extra2 = &most_padding,
	},
	{
		.procname = "rdma_memreg_strategy",
		.data = &memreg_strategy,
		.maxlen = sizeof(unsigned int),
		.mode = 0644,
		.proc_handler = proc_dointvec_minmax,
		.extra1 = SYSCTL_ZERO,
		.extra2 = &most_strategy,
	},
	{
		.procname = "rdma_pad_optimize",
		.data = &pad_optimize,
		.maxlen = sizeof(int),
		.mode = 0644,
		.proc_handler = proc_dointvec,
	},
#ifndef HAVE_REGISTER_SYSCTL_SZ
	{},
#endif
};

static struct ctl_table_header *header;

int rpcordma_sysctl_register(void)
{
	header = register_sysctl("sunrpc", table);
	return header ? 0 : -ENOMEM;
}

void rpcordma_sysctl_unregister(void)
{
	unregister_sysctl_table(header);
}

#else

int rpcordma_sysctl_register(void)
{
	return 0;
}

void rpcordma_sysctl_unregister(void)
{
}

#endif
