// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's side of the server's pool of sink pages: a worker that fills it, and a shrinker that
 * frees its idle pages when memory is short.
 */

#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/shrinker.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "compat/linux/svc.h"

static struct workqueue_struct *refill_workqueue;

static void refill_worker(struct work_struct *work)
{
	rpcordma_core_server_refill();
}

static DECLARE_WORK(refill, refill_worker);

void rpcordma_server_queue_refill(void)
{
	queue_work(refill_workqueue, &refill);
}

static unsigned long count_spare(struct shrinker *shrinker, struct shrink_control *control)
{
	return rpcordma_core_server_spare_pages() ?: SHRINK_EMPTY;
}

static unsigned long free_spare(struct shrinker *shrinker, struct shrink_control *control)
{
	u32 wanted = min_t(unsigned long, control->nr_to_scan, U32_MAX);

	return rpcordma_core_server_shrink(wanted) ?: SHRINK_STOP;
}

#ifdef HAVE_SHRINKER_ALLOC

static struct shrinker *shrinker;

static int register_it(void)
{
	shrinker = shrinker_alloc(0, "rpcordma-sinks");
	if (!shrinker)
		return -ENOMEM;
	shrinker->count_objects = count_spare;
	shrinker->scan_objects = free_spare;
	shrinker_register(shrinker);
	return 0;
}

void rpcordma_svc_sinks_unregister(void)
{
	shrinker_free(shrinker);
}

#else

static struct shrinker shrinker = {
	.count_objects = count_spare,
	.scan_objects = free_spare,
	.seeks = DEFAULT_SEEKS,
};

static int register_it(void)
{
	return register_shrinker(&shrinker, "rpcordma-sinks");
}

void rpcordma_svc_sinks_unregister(void)
{
	unregister_shrinker(&shrinker);
}

#endif

int rpcordma_svc_sinks_register(struct workqueue_struct *workqueue)
{
	refill_workqueue = workqueue;
	return register_it();
}
