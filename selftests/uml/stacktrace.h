/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included ahead of the kernel's stacktrace.c (scripts/uml-kernel). KASAN and kmemleak save where each allocation is
 * from, and User-Mode Linux asks of each word on the stack, to its end, whether it is an address of code; three quarters
 * of the time of the unit tests went there. Of a trace that is saved only what a frame pointer leads to is kept, so that
 * others need not be asked for. A trace that goes to the log has all of them, as before.
 */
#ifndef RPCORDMA_UML_STACKTRACE_H
#define RPCORDMA_UML_STACKTRACE_H

#include <linux/kernel.h>

/* It saves what is reliable, by the frame pointer. Not in kernel/stacktrace.c, which has this ahead of it, too. */
#pragma GCC diagnostic ignored "-Wunused-function"
static void save_addr(void *data, unsigned long address, int reliable);

/* In dump_trace(), which calls ops->address() for addresses of code from @sp on. */
#define __kernel_text_address(addr)                                                                \
	((ops->address != save_addr || (unsigned long)sp == bp + sizeof(long)) &&                  \
	 __kernel_text_address(addr))

#endif
