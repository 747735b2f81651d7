// SPDX-License-Identifier: GPL-2.0-only
/*
 * The port's memory and time. Mapping memory for a device is in verbs.c.
 */

#include <linux/cache.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sunrpc/sched.h>

#include "compat/port/base.h"

rpcordma_u32 rpcordma_page_size(void)
{
	return PAGE_SIZE;
}

void *rpcordma_alloc(rpcordma_size size, enum rpcordma_alloc_how how)
{
	gfp_t gfp;

	switch (how) {
	case RPCORDMA_ALLOC_NOIO:
		/*
		 * Without __GFP_NOMEMALLOC: who works for a swap file runs with PF_MEMALLOC, and
		 * then the reserves are meant for just this.
		 */
		gfp = GFP_NOIO | __GFP_NORETRY | __GFP_NOWARN;
		break;
	case RPCORDMA_ALLOC_TASK:
		gfp = rpc_task_gfp_mask();
		break;
	case RPCORDMA_ALLOC_ATOMIC:
	default:
		gfp = GFP_NOWAIT | __GFP_NOWARN;
		break;
	}
	/* kmalloc() aligns what has a power of two as its size to that size. */
	return kzalloc(size, gfp);
}

void rpcordma_free(void *p)
{
	kfree(p);
}

rpcordma_u64 rpcordma_now_ms(void)
{
	return ktime_to_ms(ktime_get());
}
