/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Things that a kernel's checkers have to notice, for broken.cc. Each returns 1 when it was done,
 * 0 where there is no kernel to do it in (misdeeds_host.cc).
 */
#ifndef RPCORDMA_KUNIT_MISDEEDS_H
#define RPCORDMA_KUNIT_MISDEEDS_H

#ifdef __cplusplus
extern "C" {
#endif

int rpcordma_misdeed_sleep_in_atomic(void);
int rpcordma_misdeed_lock_order(void);
int rpcordma_misdeed_warning(void);
int rpcordma_misdeed_oops(void);

#ifdef __cplusplus
}
#endif

#endif
