// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which call of compat/linux fails (engine.h). A call is known by its place: the functions of the module that led to it,
 * as a hash of their addresses, counted from the beginning of the module's code, so that it is the same each time that
 * the same module is loaded.
 */
#define pr_fmt(fmt) "faults: " fmt

#include <linux/atomic.h>
#include <linux/jhash.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/spinlock.h>
#include <linux/stacktrace.h>
#include <linux/string.h>

#include "kunit/compat/engine.h"

/* Frames that are looked at, and those of the module's that make a place. */
#define DEPTH 32
#define WAY 8

static DEFINE_RAW_SPINLOCK(lock); /* guards the rest */
static enum { NONE, LOG, CALL, PLACE, NAME } mode;
static unsigned int at; /* the number of the call that fails, of all or of those that match */
static u32 place;
static const char *name;
static char told[32]; /* the name when the parameter says it */
static unsigned int calls, matching;
static bool hit;
static char failed[96];
static atomic_t mappings = ATOMIC_INIT(0);

/* The frames of ours that led here, of @entries; returns how many, and their hash. */
static unsigned int way_here(unsigned long *entries, u32 *hash)
{
	const unsigned int depth = stack_trace_save(entries, DEPTH, 2);
	const unsigned long begin = (unsigned long)THIS_MODULE->mem[MOD_TEXT].base;
	u32 offsets[WAY];
	unsigned int i, ways = 0;

	for (i = 0; i < depth && ways < WAY; i++) {
		if (entries[i] < begin || entries[i] >= begin + THIS_MODULE->mem[MOD_TEXT].size)
			continue;
		entries[ways] = entries[i];
		offsets[ways++] = entries[i] - begin;
	}
	*hash = jhash2(offsets, ways, 0);
	return ways;
}

bool rpcordma_fault(const char *call, const char *file, int line)
{
	unsigned long entries[DEPTH], flags;
	bool fails = false, log;
	unsigned int ways = 0, number;
	u32 here = 0;

	if (READ_ONCE(mode) == LOG || READ_ONCE(mode) == PLACE || READ_ONCE(mode) == CALL)
		ways = way_here(entries, &here);
	file = kbasename(file);

	raw_spin_lock_irqsave(&lock, flags);
	number = ++calls;
	log = mode == LOG;
	if (mode == CALL || (mode == PLACE && here == place) || (mode == NAME && !strcmp(name, call)))
		fails = ++matching == at;
	if (fails) {
		hit = true;
		snprintf(failed, sizeof(failed), "%s %s:%d %08x", call, file, line, here);
	}
	raw_spin_unlock_irqrestore(&lock, flags);

	if (log)
		pr_info("call %u %s %s:%d %08x %ps %ps %ps\n", number, call, file, line, here,
			(void *)(ways > 0 ? entries[0] : 0), (void *)(ways > 1 ? entries[1] : 0),
			(void *)(ways > 2 ? entries[2] : 0));
	else if (fails && (!name || name == told))
		pr_info("failed: call %u %s %s:%d %08x\n", number, call, file, line, here);
	return fails;
}

void rpcordma_fault_mapped(int more)
{
	atomic_add(more, &mappings);
}

static void set_mode(int to, u32 its_place, const char *its_name, unsigned int nth)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&lock, flags);
	mode = to;
	at = nth;
	place = its_place;
	name = its_name;
	calls = matching = 0;
	hit = false;
	failed[0] = 0;
	raw_spin_unlock_irqrestore(&lock, flags);
}

void rpcordma_fault_arm(const char *call, unsigned int nth)
{
	set_mode(nth ? NAME : NONE, 0, nth ? call : NULL, nth);
}

bool rpcordma_fault_hit(void)
{
	return READ_ONCE(hit);
}

static int set_fault(const char *text, const struct kernel_param *parameter)
{
	char its_name[sizeof(told)];
	unsigned int nth;
	u32 its_place;

	if (sysfs_streq(text, "none"))
		set_mode(NONE, 0, NULL, 0);
	else if (sysfs_streq(text, "log"))
		set_mode(LOG, 0, NULL, 0);
	else if (sscanf(text, "call:%u", &nth) == 1)
		set_mode(CALL, 0, NULL, nth);
	else if (sscanf(text, "place:%x:%u", &its_place, &nth) == 2)
		set_mode(PLACE, its_place, NULL, nth);
	else if (sscanf(text, "name:%31[^:]:%u", its_name, &nth) == 2) {
		/* Nobody reads it meanwhile. */
		set_mode(NONE, 0, NULL, 0);
		strscpy(told, its_name);
		set_mode(NAME, 0, told, nth);
	} else
		return -EINVAL;
	return 0;
}

static int get_fault(char *text, const struct kernel_param *parameter)
{
	return sysfs_emit(text, "calls %u failed %s\n", READ_ONCE(calls), hit ? failed : "none");
}

static const struct kernel_param_ops fault_ops = {
	.set = set_fault,
	.get = get_fault,
};

module_param_cb(fault, &fault_ops, NULL, 0644);
MODULE_PARM_DESC(fault, "which call fails: log, call:N, place:P:N, name:CALL:N, none (default: none)");

static int get_mappings(char *text, const struct kernel_param *parameter)
{
	return sysfs_emit(text, "%d\n", atomic_read(&mappings));
}

static const struct kernel_param_ops mappings_ops = {
	.get = get_mappings,
};

module_param_cb(mappings, &mappings_ops, NULL, 0444);
MODULE_PARM_DESC(mappings, "how many mappings for devices there are");
