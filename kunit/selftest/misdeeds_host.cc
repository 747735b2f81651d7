// SPDX-License-Identifier: GPL-2.0-only
/*
 * There is no kernel on the host: nothing to do wrong.
 */
#include "kunit/selftest/misdeeds.h"

int rpcordma_misdeed_sleep_in_atomic()
{
	return 0;
}

int rpcordma_misdeed_lock_order()
{
	return 0;
}

int rpcordma_misdeed_warning()
{
	return 0;
}

int rpcordma_misdeed_oops()
{
	return 0;
}
