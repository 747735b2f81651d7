/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which call fails: what faults.h asks, and what KUnit suites say. A script says it by the module's parameter "fault":
 *
 *	log		log each call, until told otherwise
 *	call:N		the Nth call from now on fails
 *	place:P:N	the Nth call from now on fails of those that come by the same way, the place P that a log had
 *	name:CALL:N	the Nth call from now on fails of those of CALL, a function of the kernel's
 *	none		none fails
 *
 * Each of these begins to count anew. Reading the parameter tells of the calls since, and of the one that failed.
 * The parameter "mappings" has how many mappings there are for devices; without a connection it has to be none.
 */
#ifndef RPCORDMA_FAULTS_ENGINE_H
#define RPCORDMA_FAULTS_ENGINE_H

#include <linux/types.h>

/** Whether the call of @call at @line of @file is to fail. Any context. */
bool rpcordma_fault(const char *call, const char *file, int line);

/** @more mappings for a device are there, or less. Any context. */
void rpcordma_fault_mapped(int more);

/** The @nth call of @call from now on fails: 1 is the next one. 0: none does any more. */
void rpcordma_fault_arm(const char *call, unsigned int nth);
/** Whether it has, since it was armed. */
bool rpcordma_fault_hit(void);

#endif
