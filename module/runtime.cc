// SPDX-License-Identifier: GPL-2.0-only
/*
 * The C++ runtime that a freestanding module has to bring: what the compiler may call on its own. Nothing
 * in the project allocates with new, so that operator delete is only ever named, never reached.
 */

#include "compat/port/port.h"
#include "module/base/types.hh"

extern "C" [[noreturn]] void __cxa_pure_virtual();
extern "C" [[noreturn]] void __cxa_pure_virtual()
{
	rpcordma_warn("pure virtual function called");
	__builtin_trap();
}
