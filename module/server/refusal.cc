// SPDX-License-Identifier: GPL-2.0-only
/* Refusing a call. See refusal.hh. */

#include "module/server/refusal.hh"

#include "module/server/close.hh"
#include "module/server/owners.hh"
#include "module/server/server.hh"

namespace rpcordma {

Status build_refusal(Server &server, ServerCall *call, xdr::ErrorCode code, Outgoing &out)
{
	const xdr::FixedHeader request = TRY(xdr::peek(call->receive->bytes()));

	rpcordma_server_count(code == xdr::ErrorCode::version ? RPCORDMA_SERVER_ERR_VERS :
								RPCORDMA_SERVER_ERR_CHUNK,
			      1);
	out = {};
	out.lengths[0] = TRY(server.session.encode_refusal(call->sends[0].room(), request,
							   server.grant.credits(), code));
	return {};
}

void refuse(Server &server, ServerCall *call, xdr::ErrorCode code)
{
	call->owners.store(1, std::memory_order_relaxed);
	if (ensure_send(server, call, RPCORDMA_ALLOC_SERVICE)) {
		Outgoing out;

		if (build_refusal(server, call, code, out).ok())
			(void)post_message(server, call, out,
					   xdr::peek(call->receive->bytes()).value().xid.get());
	} else {
		request_close(server, "no memory for an error message", Error::no_memory);
	}
	drop_owner(server, call);
}

} // namespace rpcordma
