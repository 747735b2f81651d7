/* SPDX-License-Identifier: GPL-2.0-only */
/* The whole port, for whoever wants it at once. */
#ifndef RPCORDMA_PORT_H
#define RPCORDMA_PORT_H

#include "compat/port/base.h"
#include "compat/port/sunrpc.h"
#include "compat/port/svc.h"
#include "compat/port/trace.h"
#include "compat/port/verbs.h"

#endif
