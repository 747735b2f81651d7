// SPDX-License-Identifier: GPL-2.0-only
/* Refusing a call: the error message that it gets instead of a reply (RFC 8166 4.5). */
#pragma once

#include "module/base/result.hh"
#include "module/server/call.hh"
#include "module/server/send.hh"

namespace rpcordma {

/** Write the message that refuses @call with @error into its first send buffer, which there is. Errors: ENOSPC. */
[[nodiscard]] Status build_refusal(Server &server, ServerCall *call, const xdr::ErrorBody &error,
				   Outgoing &out);
/** Refuse @call, of which nobody else knows. A service thread. */
void refuse(Server &server, ServerCall *call, const xdr::ErrorBody &error);

} // namespace rpcordma
