// SPDX-License-Identifier: GPL-2.0-only
/*
 * The functions of the client that the port knows (compat/port/sunrpc.h, verbs.h), in the contexts that are told
 * there: each hands on to the file whose subject it is.
 */

#include "module/client/client.hh"

#include <new>

using namespace rpcordma;
using trace::Loss;

/* --- sizes and life --- */

rpcordma_size rpcordma_core_client_size()
{
	return sizeof(Client);
}

rpcordma_size rpcordma_core_call_size()
{
	return sizeof(Call);
}

u32 rpcordma_core_max_payload()
{
	return chunk::kMaxPayload;
}

void rpcordma_core_client_destroy(rpcordma_client *client)
{
	client->destroy();
	client->~Client();
}

int rpcordma_core_client_create(rpcordma_client *place, rpc_xprt *xprt, u32 slots)
{
	Client *client = new (place) Client;
	const Status created = client->create(xprt, slots);

	if (!created.ok())
		rpcordma_core_client_destroy(client);
	return to_errno(created.error());
}

const rpcordma_client_stats *rpcordma_core_client_stats(const rpcordma_client *client)
{
	return &client->stats;
}

void rpcordma_core_client_state(rpcordma_client *client, rpcordma_client_state *state)
{
	/* tear_down() takes it before the connection goes. */
	SpinGuard guard(client->lock);
	const Connection *c = client->connection;

	*state = {};
	if (!c)
		return;
	const chunk::Thresholds thresholds = c->session.thresholds();
	state->inline_send = thresholds.send;
	state->inline_receive = thresholds.receive;
	state->receives = c->receive_queue.provided_now();
	for (const std::atomic<u32> &created : c->regions_created)
		state->regions += created.load(std::memory_order_relaxed);
}

/* --- connecting --- */

/*
 * sunrpc retries some errors of a connection attempt, and hands all others to the application, on a hard
 * mount too. Nothing that may pass (a device that is being replaced, no memory) may end there: so only the
 * errors that it retries leave here. A mount in progress fails with each but ETIMEDOUT and ENOTCONN at once.
 */
[[nodiscard]] static Error translate_for_sunrpc(Error error)
{
	switch (error) {
	case Error::none:
	case Error::protocol:
	case Error::connection_refused:
	case Error::host_unreachable:
	case Error::network_unreachable:
	case Error::not_connected:
	case Error::timed_out:
		return error;
	case Error::no_device:
		return Error::network_unreachable;
	case Error::not_supported:
		return Error::protocol;
	default:
		return Error::not_connected;
	}
}

int rpcordma_core_client_connect(rpcordma_client *client)
{
	return to_errno(translate_for_sunrpc(client->connect().error()));
}

void rpcordma_core_client_close(rpcordma_client *client)
{
	client->close();
	rpcordma_xprt_closed(client->xprt);
}

rpcordma_bool rpcordma_core_client_should_back_off(rpcordma_client *client)
{
	return client->back_off.load(std::memory_order_relaxed);
}

void rpcordma_core_client_inject_disconnect(rpcordma_client *client)
{
	MutexGuard fenced(client->fence);

	if (client->connection && !client->connection->closing) {
		trace::connection(client->peer, "disconnect injected", 0);
		client->connection->injected = true;
		rpcordma_endpoint_disconnect(client->connection->endpoint);
	}
}

void rpcordma_core_client_refill(rpcordma_client *client)
{
	client->refill();
}

void rpcordma_core_client_check(rpcordma_client *client)
{
	client->check_overdue();
}

void rpcordma_core_endpoint_event(void *context, rpcordma_endpoint_event event)
{
	Connection *c = static_cast<Connection *>(context);

	switch (event) {
	case RPCORDMA_EVENT_ESTABLISHED:
		/* Of accepted endpoints only. */
		break;
	case RPCORDMA_EVENT_DISCONNECTED:
		c->request_close(Loss::disconnected, 0);
		break;
	case RPCORDMA_EVENT_ADDRESS_CHANGE:
		c->request_close(Loss::address_change, 0);
		break;
	case RPCORDMA_EVENT_DEVICE_REMOVAL:
		c->request_close(Loss::device_removal, 0);
		break;
	case RPCORDMA_EVENT_QP_FATAL:
		c->request_close(Loss::qp_fatal, 0);
		break;
	}
}

/* --- calls --- */

rpc_rqst *rpcordma_core_alloc_slot(rpcordma_client *client)
{
	return client->alloc_slot();
}

void rpcordma_core_free_slot(rpcordma_client *client, rpcordma_call *call)
{
	client->free_slot(call);
}

int rpcordma_core_buf_alloc(rpcordma_client *client, rpcordma_call *call, rpcordma_size call_size,
			    rpcordma_size reply_size, void **call_buffer, void **reply_buffer)
{
	/* A slot that was in use before mostly has all that its next call takes. */
	if (__builtin_expect(!call->has_buffers(call_size, reply_size, send_head_size()), 0)) {
		const Status allocated = client->alloc_buffers(call, call_size, reply_size);

		if (!allocated.ok()) {
			trace::failure(client->peer, trace::Failure::buffers_missing, 0,
				       allocated.error());
			return to_errno(allocated.error());
		}
	}
	*call_buffer = call->call_buffer.data();
	*reply_buffer = call->reply_buffer.data();
	return 0;
}

void rpcordma_core_buf_free(rpcordma_client *client, rpcordma_call *call)
{
	/* The peer has nothing of most: who is idle stays so until its task sends it. */
	if (__builtin_expect(call->get_state() != CallState::idle, 0))
		client->cancel(call);
}

rpcordma_bool rpcordma_core_release_credit(rpcordma_client *, rpcordma_call *call)
{
	return !keeps_credit(call->get_state());
}

int rpcordma_core_send_request(rpcordma_client *client, rpcordma_call *call)
{
	return to_errno(client->send_request(call).error());
}

/* --- completions --- */

void rpcordma_core_send_done(void *context, const rpcordma_completion *completion)
{
	Connection *c = static_cast<Connection *>(context);

	trace::completion(c->endpoint, "send", *completion, completion->cqe);
	if (completion->status != RPCORDMA_WC_SUCCESS)
		c->request_close(Loss::send_failed, completion->status);
	SendQueue::Marker *marker = c->send_queue.completed(completion->cqe);
	if (!marker)
		return;
	Call *backward = static_cast<Call *>(marker->context);
	SendQueue::release(*marker);
	if (backward)
		c->client->put_backward(backward);
	c->client->announce_space();
}

void rpcordma_core_register_done(void *context, const rpcordma_completion *completion)
{
	Connection *c = static_cast<Connection *>(context);

	trace::completion(c->endpoint, "register", *completion, completion->cqe);
	if (completion->status != RPCORDMA_WC_SUCCESS)
		c->request_close(Loss::register_failed, completion->status);
}

void rpcordma_core_invalidate_done(void *context, const rpcordma_completion *completion)
{
	Connection *c = static_cast<Connection *>(context);
	const bool success = completion->status == RPCORDMA_WC_SUCCESS;

	trace::completion(c->endpoint, "invalidate", *completion, completion->cqe);
	if (!success)
		c->request_close(Loss::invalidate_failed, completion->status);
	/* One before the last; only a failure is told, and the last one will fail too. */
	if (completion->cqe == &c->silent_invalidate_cqe)
		return;
	c->client->end_invalidation(*c, OwnedCqe<Call>::owner_of(completion->cqe), success);
}

void rpcordma_core_gathered_done(void *context, const rpcordma_completion *completion)
{
	Connection *c = static_cast<Connection *>(context);

	trace::completion(c->endpoint, "send", *completion, completion->cqe);
	if (completion->status != RPCORDMA_WC_SUCCESS)
		c->request_close(Loss::send_failed, completion->status);
	c->client->end_gathered(*c, OwnedCqe<Call>::owner_of(completion->cqe));
	c->client->announce_space();
}

void rpcordma_core_receive_done(void *context, const rpcordma_completion *completion)
{
	Connection *c = static_cast<Connection *>(context);
	Receive *receive = OwnedCqe<Receive>::owner_of(completion->cqe);

	trace::received(c->endpoint, *completion, receive);
	if (completion->status != RPCORDMA_WC_SUCCESS) {
		c->request_close(Loss::receive_failed, completion->status);
		return;
	}
	c->client->handle_message(*c, receive, c->receive_queue.arrived(receive, *completion));
}

/* --- the backchannel --- */

int rpcordma_core_bc_setup(rpcordma_client *client, u32)
{
	const Status made = client->setup_backchannel();

	if (!made.ok())
		trace::failure(client->peer, trace::Failure::backward_setup_failed, 0, made.error());
	return to_errno(made.error());
}

rpcordma_size rpcordma_core_bc_max_payload(rpcordma_client *client)
{
	/* Without a connection an estimate for CREATE_SESSION; what is larger is refused. */
	u32 most = min(rpcordma_tunables.max_inline_read, rpcordma_tunables.max_inline_write);
	/* A session of NFS outlives its connection, whose version may be another one next time. */
	const u32 least = rpcordma_tunables.version2 ? protocol::V2::rules().bare_header : 0;
	u32 header = protocol::Session().thresholds().bare_header;

	/* The lock, not the fence mutex: the caller may not sleep. tear_down() takes both. */
	{
		SpinGuard guard(client->lock);

		if (client->connection) {
			const chunk::Thresholds t = client->connection->session.thresholds();

			most = min(t.send, t.receive);
			header = t.bare_header;
		}
	}
	return min(most, rpcordma_page_size()) - max(header, least);
}

u32 rpcordma_core_bc_slots(rpcordma_client *)
{
	return kBackwardCredits;
}

void rpcordma_core_bc_free(rpcordma_client *client, rpcordma_call *call)
{
	rpc_xprt *xprt = client->xprt;

	client->put_backward(call);
	/* The transport may go with this reference. */
	rpcordma_bc_rqst_done(xprt);
}

void rpcordma_core_bc_destroy(rpcordma_client *client, u32 requests)
{
	/* The backward calls stay with the transport, for the next session, until it is destroyed. */
	client->end_backchannel(requests == ~0u);
}

int rpcordma_core_bc_send_reply(rpcordma_client *client, rpcordma_call *call)
{
	return to_errno(client->send_backward_reply(call).error());
}
