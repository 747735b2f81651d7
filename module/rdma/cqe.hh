// SPDX-License-Identifier: GPL-2.0-only
/* A completion entry that knows what it belongs to. */
#pragma once

#include "compat/port/port.h"

namespace rpcordma {

template <typename Owner> struct OwnedCqe {
	rpcordma_cqe cqe = {};
	Owner *owner = nullptr;

	void init(rpcordma_cqe_kind kind, Owner *who)
	{
		rpcordma_cqe_init(&cqe, kind);
		owner = who;
	}
	/** @cqe must be the one inside an OwnedCqe<Owner>. */
	[[nodiscard]] static Owner *owner_of(rpcordma_cqe *cqe)
	{
		return reinterpret_cast<OwnedCqe *>(cqe)->owner;
	}
};

} // namespace rpcordma
