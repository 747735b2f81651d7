// SPDX-License-Identifier: GPL-2.0-only
//
// The whole C++ half of rpcordma.ko as one translation unit: every .cc of xdr/ and module/ is
// included here once, and nothing else is in this file.
//
// One unit, because codecs and reduction are called for every message and should be inlined into
// their callers, and because the kernel links modules with `ld -r`, which keeps COMDAT groups apart
// instead of folding them: the same template in two objects does not link.
//
// The order is of no consequence: each file includes what it needs. Names at file scope are shared,
// so what is private to a file lives in a namespace of its own. scripts/check-unity proves that no
// file is left out.

#include "xdr/lists.cc"
#include "xdr/private_data.cc"
#include "xdr/v1.cc"
