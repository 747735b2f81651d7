// SPDX-License-Identifier: GPL-2.0-only
/* Refusing a call. See refusal.hh. */

#include "module/server/refusal.hh"

#include "module/server/close.hh"
#include "module/server/owners.hh"
#include "module/server/server.hh"

namespace rpcordma {

static_assert(RPCORDMA_SERVER_V2_ERR_VERS + int(xdr::ErrorCode::system) ==
	      RPCORDMA_SERVER_V2_ERR_SYSTEM);

/* What counts an error with @code. */
[[nodiscard]] static rpcordma_server_counter counter_of(const Server &server, xdr::ErrorCode code)
{
	if (server.session.version() != v2::version)
		return code == xdr::ErrorCode::version ? RPCORDMA_SERVER_ERR_VERS :
							 RPCORDMA_SERVER_ERR_CHUNK;
	return rpcordma_server_counter(RPCORDMA_SERVER_V2_ERR_VERS + int(code));
}

Status build_refusal(Server &server, ServerCall *call, const xdr::ErrorBody &error, Outgoing &out)
{
	const xdr::FixedHeader request = TRY(xdr::peek(call->receive->bytes()));
	const bool version = error.code == xdr::ErrorCode::version;

	trace::failure(server.peer,
		       version ? trace::Failure::err_vers_sent : trace::Failure::err_chunk_sent,
		       request.xid.get(), int(error.code));
	rpcordma_server_count(counter_of(server, error.code), 1);
	out = {};
	out.lengths[0] = TRY(server.session.encode_refusal(call->sends[0].room(), request,
							   server.grant.credits(), error));
	return {};
}

/* Build the report of what is wrong with the transmission that @call is. */
[[nodiscard]] static Status build_report(Server &server, ServerCall *call, Outgoing &out)
{
	const rtrext::Report &report = *call->report;

	trace::failure(server.peer, trace::Failure::repterr_sent, report.bad.xid.get(),
		       int(report.detail.fault));
	rpcordma_server_count(RPCORDMA_SERVER_V2_REPTERR, 1);
	out = {};
	out.lengths[0] = TRY(rtrext::encode(call->sends[0].room(), server.grant.credits(), report));
	return {};
}

void refuse(Server &server, ServerCall *call, const xdr::ErrorBody &error)
{
	const u32 xid = call->report ? call->report->bad.xid.get() : call->xid();

	call->owners.store(1, std::memory_order_relaxed);
	if (ensure_send(server, call, RPCORDMA_ALLOC_SERVICE)) {
		Outgoing out;

		if (const Status built = call->report ? build_report(server, call, out) :
							build_refusal(server, call, error, out);
		    built.ok()) {
			if (server.grant.in_debt())
				pay_debt(server, RPCORDMA_ALLOC_SERVICE);
			(void)post_message(server, call, out, xid);
		} else {
			close_after(server, trace::Failure::refusal_failed, xid, built.error());
		}
	} else {
		request_close(server, trace::Loss::rpc_failed, to_errno(Error::no_memory));
	}
	call->report = {};
	drop_owner(server, call);
}

} // namespace rpcordma
