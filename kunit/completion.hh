// SPDX-License-Identifier: GPL-2.0-only
/* What a device leaves of a completion, for the ports of the unit tests and of the simulation. */
#pragma once

#include "compat/port/port.h"
#include "module/base/types.hh"

namespace rpcordma {

/** What rpcordma_cqe_init() of both ports made @cqe: an enum rpcordma_cqe_kind; else another number. */
inline u64 kind_of(const rpcordma_cqe &cqe)
{
	return reinterpret_cast<__UINTPTR_TYPE__>(cqe.done) - 1;
}

/**
 * Fill in what a device does not, and nobody is to look at, with what would do harm. @key: an R_key. The worst is that of a
 * region that is registered.
 */
inline void leave_unset(rpcordma_completion &completion, u32 key)
{
	const u64 kind = kind_of(*completion.cqe);
	const bool told = (kind == RPCORDMA_CQE_RECEIVE || kind == RPCORDMA_CQE_SERVER_RECEIVE) &&
			  completion.status == RPCORDMA_WC_SUCCESS;

	completion.opcode = -1;
	completion.vendor_error = completion.source_qp = completion.source_lid = ~0u;
	if (!told) {
		completion.byte_len = ~0u;
		completion.flags = RPCORDMA_WC_WITH_INVALIDATE;
	}
	if (!told || !(completion.flags & RPCORDMA_WC_WITH_INVALIDATE))
		completion.invalidated_rkey = key;
	completion.flags |= ~RPCORDMA_WC_WITH_INVALIDATE;
}

} // namespace rpcordma
