// SPDX-License-Identifier: GPL-2.0-only
/*
 * The backward direction (RFC 8167): calls to the client over its own connection, and their replies.
 * A backward call goes out with a ServerCall that is spare, or one made for it; it lives until its Send
 * completes. Who waits for the reply, and for how long, is sunrpc's business.
 */

#include "module/server/server.hh"

#include "xdr/private_data.hh"

using namespace rpcordma;

/* RPC-over-RDMA without chunks, both ways (RFC 8167 5). */
static constexpr u32 kHeader = v1::min_header_length;

/* What we ask for: a Receive is posted for each call that is outstanding, so any number will do. */
static constexpr Credits kRequested(kServerBackwardCalls);

void rpcordma_server::backward_reply(Call *call)
{
	const v1::Header &header = call->header;
	const u32 xid = header.xid.get();
	const Bytes payload = header.payload(call->message());
	bool known;

	if (header.proc == v1::Proc::error)
		/* The client cannot do what was asked; asking again would not help. */
		known = rpcordma_svc_backward_error(xprt, xid, to_errno(Error::io));
	else if (header.has_chunks())
		known = false;
	else
		known = rpcordma_svc_backward_reply(xprt, xid, payload.data(), u32(payload.size()),
						    min(max(header.credits.get(), 1u),
							kServerBackwardCalls));
	trace::reply(peer, known ? "backward reply" : "backward reply to nobody", xid,
		     header.credits.get(), u32(header.proc), int(payload.size()));
	if (!known) {
		rpcordma_server_count(RPCORDMA_SERVER_DROPPED, 1);
		return;
	}
	LockGuard guard(lock);

	if (backward_outstanding)
		backward_outstanding--;
}

int rpcordma_server::send_backward(u32 xid, const rpcordma_xdr_buf *message)
{
	if (closing.load(std::memory_order_acquire) || !established.load(std::memory_order_acquire))
		return to_errno(Error::not_connected);
	if (kHeader + message->len > send_size) {
		trace::error(peer, "a backward call that exceeds the receive buffer", xid,
			     int(message->len));
		return to_errno(Error::message_size);
	}

	/* Its reply needs a Receive, posted before it goes. */
	LockGuard guard(lock);
	const u32 backed = min(backward_outstanding + 1, kServerBackwardCalls);
	const bool more = backed > backward_backed;
	const u32 receives = credits.granted() + backed + kServerBatch;
	guard.release();
	if (more && !provide(receives, RPCORDMA_ALLOC_NOIO))
		return to_errno(Error::no_buffers);

	guard.acquire();
	backward_backed = max(backward_backed, backed);
	Call *call = spare.pop_front();
	guard.release();
	if (!call) {
		call = create_call(RPCORDMA_ALLOC_NOIO);
		if (!call)
			return to_errno(Error::no_buffers);
		guard.acquire();
		own_locked(call);
		calls++;
		guard.release();
	}
	call->owners.store(1, std::memory_order_relaxed);
	call->chain_length = 0;
	call->length = 0;
	call->send_wr.opcode = RPCORDMA_WR_SEND;
	int rc = to_errno(Error::no_buffers);
	if (ensure_wire(call, RPCORDMA_ALLOC_NOIO)) {
		const auto length = v1::encode_short({call->wire, send_size}, Xid(xid), kRequested);

		rpcordma_buf_read(message, 0, call->wire + length.value(), message->len);
		guard.acquire();
		backward_outstanding = min(backward_outstanding + 1, kServerBackwardCalls);
		guard.release();
		/* Without waiting: rpciod serves others as well. */
		if (take_room(1))
			rc = post_taken(call, length.value() + message->len, xid);
		if (rc) {
			guard.acquire();
			backward_outstanding -= backward_outstanding > 0;
			guard.release();
		}
	}
	drop_owner(call);
	return rc;
}

int rpcordma_core_server_send_backward(rpcordma_server *server, rpcordma_u32 xid,
				       const rpcordma_xdr_buf *message)
{
	return server->send_backward(xid, message);
}

rpcordma_u32 rpcordma_core_server_backward_calls(void)
{
	return kServerBackwardCalls;
}

rpcordma_u32 rpcordma_core_server_backward_payload(const rpcordma_server *server)
{
	return (server && server->send_size ? min(server->send_size, server->receive_size) :
					      private_data::size_unit) -
	       kHeader;
}
