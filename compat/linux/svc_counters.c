// SPDX-License-Identifier: GPL-2.0-only
/*
 * The server's tunables and counters, and /proc/sys/sunrpc/svc_rdma/, with the names, ranges and
 * defaults of the in-tree transport. Five of its counters are always 0, there too: they are kept
 * for programs that read them. A value out of range is refused with EINVAL. Writing anything to one
 * of the other counters sets it to 0.
 */

#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/percpu.h>
#include <linux/sunrpc/svc_rdma.h> /* defaults */
#include <linux/sysctl.h>

#include "compat/linux/svc.h"
#include "compat/port/svc.h"

struct rpcordma_server_tunables rpcordma_server_tunables = {
	.max_requests = RPCRDMA_MAX_REQUESTS, /* 64; 128 where nfsd's threads come and go with the load */
	.max_req_size = 4096,
	.max_outbound_read_requests = 16,
	.eager_read_bytes = 0,
	.rnr_retry_count = 7,
	.version2 = 1,
	.version2_pages = 4,
};

struct counters {
	u64 value[RPCORDMA_SERVER_COUNTERS];
};

static DEFINE_PER_CPU(struct counters, counters);
/* Subtracted from the counters: to zero the counters themselves would race with their CPUs. */
static u64 zero_at[RPCORDMA_SERVER_COUNTERS];

void rpcordma_server_count(enum rpcordma_server_counter which, rpcordma_u32 add)
{
	this_cpu_add(counters.value[which], add);
}

static u64 sum(enum rpcordma_server_counter which)
{
	u64 total = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		total += READ_ONCE(per_cpu(counters, cpu).value[which]);
	return total;
}

u64 rpcordma_svc_counter(enum rpcordma_server_counter which)
{
	return sum(which) - READ_ONCE(zero_at[which]);
}

#ifdef CONFIG_SYSCTL

static unsigned int unused;
static unsigned int least_requests = 4;
static unsigned int most_requests = 16384;
static unsigned int least_size = 4096;
static unsigned int most_size = 65536;
static unsigned int least_reads = 1;
static unsigned int most_reads = 255;

#ifdef HAVE_CTL_TABLE_CONST
typedef const struct ctl_table handler_table;
#else
typedef struct ctl_table handler_table;
#endif

static int handle_counter(handler_table *table, int write, void *buffer, size_t *length,
			  loff_t *position)
{
	const enum rpcordma_server_counter which = (uintptr_t)table->extra1;
	unsigned long value;
	const struct ctl_table shown = {
		.data = &value,
		.maxlen = sizeof(value),
		.mode = table->mode,
	};

	if (write) {
		WRITE_ONCE(zero_at[which], sum(which));
		return 0;
	}
	value = rpcordma_svc_counter(which);
	return proc_doulongvec_minmax((handler_table *)&shown, 0, buffer, length, position);
}

#define LIMIT(name, least, most)                                                                   \
	{                                                                                          \
		.procname = #name,                                                                 \
		.data = &rpcordma_server_tunables.name,                                            \
		.maxlen = sizeof(unsigned int),                                                    \
		.mode = 0644,                                                                      \
		.proc_handler = proc_dointvec_minmax,                                              \
		.extra1 = &(least),                                                                \
		.extra2 = &(most),                                                                 \
	}
#define COUNTER(name, which)                                                                       \
	{                                                                                          \
		.procname = #name,                                                                 \
		.maxlen = sizeof(unsigned long),                                                   \
		.mode = 0644,                                                                      \
		.proc_handler = handle_counter,                                                    \
		.extra1 = (void *)(uintptr_t)(which),                                              \
	}
#define UNUSED(name)                                                                               \
	{                                                                                          \
		.procname = #name,                                                                 \
		.data = &unused,                                                                   \
		.maxlen = sizeof(unsigned int),                                                    \
		.mode = 0644,                                                                      \
		.proc_handler = proc_dointvec_minmax,                                              \
		.extra1 = SYSCTL_ZERO,                                                             \
		.extra2 = SYSCTL_ZERO,                                                             \
	}

static struct ctl_table table[] = {
	LIMIT(max_requests, least_requests, most_requests),
	LIMIT(max_req_size, least_size, most_size),
	LIMIT(max_outbound_read_requests, least_reads, most_reads),
	COUNTER(rdma_stat_read, RPCORDMA_SERVER_READ),
	COUNTER(rdma_stat_recv, RPCORDMA_SERVER_RECV),
	COUNTER(rdma_stat_write, RPCORDMA_SERVER_WRITE),
	COUNTER(rdma_stat_sq_starve, RPCORDMA_SERVER_SQ_STARVE),
	UNUSED(rdma_stat_rq_starve),
	UNUSED(rdma_stat_rq_poll),
	UNUSED(rdma_stat_rq_prod),
	UNUSED(rdma_stat_sq_poll),
	UNUSED(rdma_stat_sq_prod),
#ifndef HAVE_REGISTER_SYSCTL_SZ
	{},
#endif
};

static struct ctl_table_header *header;

int rpcordma_svc_sysctl_register(void)
{
	header = register_sysctl("sunrpc/svc_rdma", table);
	return header ? 0 : -ENOMEM;
}

void rpcordma_svc_sysctl_unregister(void)
{
	unregister_sysctl_table(header);
}

#else

int rpcordma_svc_sysctl_register(void)
{
	return 0;
}

void rpcordma_svc_sysctl_unregister(void)
{
}

#endif
