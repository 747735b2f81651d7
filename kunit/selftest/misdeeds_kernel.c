// SPDX-License-Identifier: GPL-2.0-only
/*
 * The misdeeds themselves, for scripts/uml-kunit --self-test. Never load this anywhere else.
 */
#include <linux/bug.h>
#include <linux/delay.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>

#include "kunit/selftest/misdeeds.h"

static DEFINE_SPINLOCK(misdeed_spinlock);
static DEFINE_MUTEX(misdeed_first);
static DEFINE_MUTEX(misdeed_second);

int rpcordma_misdeed_sleep_in_atomic(void)
{
	spin_lock(&misdeed_spinlock);
	msleep(20);
	spin_unlock(&misdeed_spinlock);
	return 1;
}

int rpcordma_misdeed_lock_order(void)
{
	mutex_lock(&misdeed_first);
	mutex_lock(&misdeed_second);
	mutex_unlock(&misdeed_second);
	mutex_unlock(&misdeed_first);

	mutex_lock(&misdeed_second);
	mutex_lock(&misdeed_first);
	mutex_unlock(&misdeed_first);
	mutex_unlock(&misdeed_second);
	return 1;
}

int rpcordma_misdeed_warning(void)
{
	WARN_ON(1);
	return 1;
}

int rpcordma_misdeed_oops(void)
{
	int *nowhere = (int *)8;

	OPTIMIZER_HIDE_VAR(nowhere);
	WRITE_ONCE(*nowhere, 1);
	return 1;
}
