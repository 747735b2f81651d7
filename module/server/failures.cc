// SPDX-License-Identifier: GPL-2.0-only
/* Calls whose chunks broke a connection: of all connections. See failures.hh. */

#include "module/server/failures.hh"

#include "module/server/close.hh"
#include "module/server/server.hh"

namespace rpcordma {

Failures server_failures;
ModuleLock server_failures_lock;

/*
 * What tells one call from another: its first Receive, where its header is with all its chunks. A client
 * that registers its memory anew has others. Of an RDMA2_OPTIONAL it is the header alone, as it is known only when such a call
 * is whole what its Receive has besides.
 */
[[nodiscard]] static Bytes identity(const Receive &receive)
{
	const xdr::Message &message = receive.message;

	return message.kind == xdr::Kind::optional ? receive.bytes().first(message.header_length) :
						     receive.bytes();
}

bool failed_before(const Server &server, const Receive &receive)
{
	const xdr::Message &message = receive.message;

	if (server_failures.none_ever() ||
	    (!message.has_chunks() && message.kind != xdr::Kind::optional))
		return false;
	const u64 now = rpcordma_now_ms();
	if (!server_failures.any(now))
		return false;
	const u64 address = rpcordma_svc_address_key(server.xprt);
	SpinGuard guard(server_failures_lock);

	return server_failures.recall(address, identity(receive), now);
}

void chain_failed(Server &server, ServerCall *call, trace::Loss what,
		  const rpcordma_completion &completion)
{
	if (completion.status == RPCORDMA_WC_REMOTE_ACCESS && call->receive &&
	    !server.access_failed.exchange(true, std::memory_order_relaxed)) {
		const u64 address = rpcordma_svc_address_key(server.xprt);
		{
			SpinGuard guard(server_failures_lock);

			server_failures.remember(address, identity(*call->receive),
						 rpcordma_now_ms());
		}
		trace::failure(server.peer, trace::Failure::chunk_refused,
			       call->message().xid.get(), completion.status);
	}
	request_close(server, what, completion.status);
}

} // namespace rpcordma
