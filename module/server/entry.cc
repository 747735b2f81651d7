// SPDX-License-Identifier: GPL-2.0-only
/* What the port calls of the server (compat/port/svc.h). Nothing in module/server/ calls these. */

#include <new>

#include "module/server/close.hh"
#include "module/server/connection.hh"
#include "module/server/deliver.hh"
#include "module/server/failures.hh"
#include "module/server/owners.hh"
#include "module/server/read.hh"
#include "module/server/receive.hh"
#include "module/server/reply.hh"
#include "module/server/send.hh"
#include "module/server/server.hh"

using namespace rpcordma;
using trace::Loss;

/* Kernel interfaces have 0, or a negative errno. */
[[nodiscard]] static int errno_of(const Status &status)
{
	return status.ok() ? 0 : to_errno(status.error());
}

/* --- the whole module --- */

int rpcordma_core_server_init(void)
{
	if (server_failures_lock.create(RPCORDMA_LOCK_FAILURES) && server_pool.init())
		return 0;
	server_failures_lock.destroy();
	return to_errno(Error::no_memory);
}

void rpcordma_core_server_exit(void)
{
	server_pool.exit();
	server_failures_lock.destroy();
}

u32 rpcordma_core_server_max_payload(u32 page_size)
{
	return Transfer::kLargePayloadPages * page_size;
}

void rpcordma_core_server_refill(void)
{
	server_pool.refill();
}

u32 rpcordma_core_server_spare_pages(void)
{
	return server_pool.spare_pages();
}

u32 rpcordma_core_server_shrink(u32 pages)
{
	return server_pool.shrink(pages);
}

/* --- a connection's life --- */

rpcordma_size rpcordma_core_server_size(void)
{
	return sizeof(Server);
}

int rpcordma_core_server_accept(rpcordma_server *place, svc_xprt *xprt, const rpcordma_peer *peer,
				rpcordma_endpoint *endpoint, const void *private_data,
				rpcordma_u32 private_data_length, rpcordma_u32 initiator_depth)
{
	/* The memory is the port's, so it cannot be Owned. */
	Server &server = *new (place) Server;

	server.xprt = xprt;
	server.peer = peer;
	const Status accepted =
		accept_connection(server, endpoint,
				  Bytes(static_cast<const u8 *>(private_data), private_data_length),
				  initiator_depth);
	if (!accepted.ok()) {
		server.closing.store(true, std::memory_order_seq_cst);
		trace::loss(peer, Loss::accept_failed, to_errno(accepted.error()));
	}
	return errno_of(accepted);
}

void rpcordma_core_server_detach(rpcordma_server *server)
{
	server->closing.store(true, std::memory_order_seq_cst);
	rpcordma_endpoint_disconnect(server->endpoint);
	server->room.wake_all();
}

void rpcordma_core_server_destroy(rpcordma_server *server)
{
	destroy_connection(*server);
	server->~Server();
}

void rpcordma_core_server_describe(rpcordma_server *server, rpcordma_agreement *agreed)
{
	SpinGuard guard(server->lock);

	*agreed = server->agreed;
}

void rpcordma_core_server_state(rpcordma_server *server, rpcordma_server_state *state)
{
	SpinGuard guard(server->lock);
	const protocol::Session &session = server->session;
	const chunk::Thresholds &thresholds = session.thresholds();

	state->version = session.settled() ? session.version() : 0;
	state->established = server->established.load(std::memory_order_relaxed) &&
			     !server->closing.load(std::memory_order_relaxed);
	state->credits = server->grant.credits().get();
	state->calls = server->calls.in_service();
	state->inline_send = thresholds.send;
	/* What the client was told since. */
	state->inline_receive = server->growth.told() ? server->agreed.receive_size :
							thresholds.receive;
	state->receives = server->receives.posted();
	state->waiting = server->room.waited_for(std::memory_order_relaxed);
}

void rpcordma_core_server_inject_disconnect(rpcordma_server *server)
{
	rpcordma_endpoint_disconnect(server->endpoint);
}

void rpcordma_core_server_event(void *context, rpcordma_endpoint_event event)
{
	Server &server = *static_cast<Server *>(context);

	switch (event) {
	case RPCORDMA_EVENT_ESTABLISHED:
		trace::connection(server.peer, "established", 0);
		establish(server);
		break;
	case RPCORDMA_EVENT_DISCONNECTED:
		request_close(server, Loss::disconnected, 0);
		break;
	case RPCORDMA_EVENT_ADDRESS_CHANGE:
		request_close(server, Loss::address_change, 0);
		break;
	case RPCORDMA_EVENT_DEVICE_REMOVAL:
		request_close(server, Loss::device_removal, 0);
		break;
	case RPCORDMA_EVENT_QP_FATAL:
		request_close(server, Loss::qp_fatal, 0);
		break;
	}
}

/* --- completions --- */

void rpcordma_core_server_receive_done(void *context, const rpcordma_completion *completion)
{
	Server &server = *static_cast<Server *>(context);
	Receive *receive = OwnedCqe<Receive>::owner_of(completion->cqe);

	trace::received(server.endpoint, *completion, receive);
	/* A call that came with the disconnect is dropped: its reply could not be sent. */
	if (completion->status == RPCORDMA_WC_SUCCESS &&
	    !server.closing.load(std::memory_order_relaxed))
		take_message(server, receive, *completion);
	else
		receive_failed(server, receive, *completion);
}

void rpcordma_core_server_send_done(void *context, const rpcordma_completion *completion)
{
	Server &server = *static_cast<Server *>(context);

	ServerCall *call = ServerCall::of_send(completion->cqe);

	trace::completion(server.endpoint, "send", *completion, call);
	message_sent(server, call, *completion);
}

void rpcordma_core_server_read_done(void *context, const rpcordma_completion *completion)
{
	Server &server = *static_cast<Server *>(context);

	ServerCall *call = ServerCall::of_read(completion->cqe);

	/* In order: those that others follow come before the last. */
	if (__builtin_expect(call->parts.load(std::memory_order_acquire) != 0, 0)) {
		trace::completion(server.endpoint, call->transfer->writes ? "write" : "read",
				  *completion, call);
		part_done(server, call, *completion);
	} else {
		trace::completion(server.endpoint, "read", *completion, call);
		reads_done(server, call, *completion);
	}
}

void rpcordma_core_server_chain_done(void *context, const rpcordma_completion *completion)
{
	Server &server = *static_cast<Server *>(context);

	ServerCall *call = ServerCall::of_chain(completion->cqe);

	trace::completion(server.endpoint, "chain", *completion, call);
	/* It comes for those that were flushed, too, and has freed nothing: the chain's last does. */
	if (completion->status != RPCORDMA_WC_SUCCESS)
		chain_failed(server, call, Loss::chain_failed, *completion);
}

/* --- service threads --- */

int rpcordma_core_server_recvfrom(rpcordma_server *server, svc_rqst *rqst)
{
	return int(take_and_deliver(*server, rqst));
}

int rpcordma_core_server_sendto(rpcordma_server *server, svc_rqst *rqst, rpcordma_server_call *call)
{
	return errno_of(send_reply(*server, rqst, call));
}

int rpcordma_core_server_result_payload(rpcordma_server_call *call, rpcordma_u32 offset,
					rpcordma_u32 length)
{
	announce_result(call, {offset, length});
	return 0;
}

void rpcordma_core_server_release(rpcordma_server *server, rpcordma_server_call *call)
{
	if (call->sink)
		put_sink(*server, call);
	drop_owner(*server, call);
	/* The client waits for nothing that this thread does now. */
	if (server->finished.any())
		put_finished(*server);
}

void rpcordma_core_server_finish(rpcordma_server *server)
{
	server->finished.worker_comes();
	put_finished(*server);
	if (server->limits.region_pages)
		tend_idle_regions(*server);
}

rpcordma_bool rpcordma_core_server_has_space(const rpcordma_server *server)
{
	/* XPT_DATA was set before this, and waiters fall before a look at XPT_DATA: one sees the other. */
	std::atomic_thread_fence(std::memory_order_seq_cst);
	return !server->room.waited_for(std::memory_order_seq_cst);
}

/* --- the backchannel --- */

int rpcordma_core_server_send_backward(rpcordma_server *server, rpcordma_u32 xid,
				       const rpcordma_xdr_buf *message)
{
	return errno_of(send_backward(*server, xid, message));
}

rpcordma_u32 rpcordma_core_server_backward_calls(void)
{
	return kServerBackwardCalls;
}

rpcordma_u32 rpcordma_core_server_backward_payload(const rpcordma_server *server)
{
	return backward_payload(server);
}
