// SPDX-License-Identifier: GPL-2.0-only
/*
 * Receives and what comes in them: decoding, the queues, the service threads' side of them, and how
 * Receives are replaced. See server.hh.
 */

#include "module/server/server.hh"

#include "xdr/rpc.hh"

using namespace rpcordma;

/* ServerCalls that there may be for each Receive that is promised: a bound on what a client can pin. */
static constexpr u32 kCallsPerReceive = 3;

/* --- Receives --- */

/* Receives that must be posted, so that no message of an honest client finds none. */
u32 rpcordma_server::promised_locked() const
{
	return credits.granted() + backward_backed;
}

void rpcordma_server::post_receives_locked(Call *first, u32 count)
{
	const rpcordma_recv_wr *bad;
	const int rc = rpcordma_post_receive(endpoint, &first->receive_wr, &bad);

	trace::post(peer, "receive", 0, count, true, rc);
	/* The queue pair is in no state for it: the connection is gone, and destroy() frees the calls. */
	if (rc)
		trace::error(peer, "Receives could not be posted", 0, rc);
}

/*
 * Have @receives posted, making calls where none are spare. Returns whether so many are. Receive
 * completion; or any process context, with @how to match.
 */
bool rpcordma_server::provide(u32 receives, rpcordma_alloc_how how)
{
	for (;;) {
		Call *chain = nullptr;
		u32 count = 0;
		bool make = false;

		LockGuard guard(lock);
		receives = min(receives, receives_limit);
		while (posted < receives && !closing.load(std::memory_order_relaxed)) {
			Call *call = spare.pop_front();

			if (!call) {
				/* As many may be in service as are posted, and as many being sent. */
				make = calls < kCallsPerReceive * receives;
				calls += make;
				break;
			}
			call->receive_wr.next = chain ? &chain->receive_wr : nullptr;
			chain = call;
			count++;
			posted++;
		}
		if (chain)
			post_receives_locked(chain, count);
		const bool enough = posted >= receives;
		guard.release();
		if (!make)
			return enough;
		Call *made = create_call(how);
		guard.acquire();
		if (!made) {
			calls--;
			return false;
		}
		own_locked(made);
		spare.push_front(made);
	}
}

/* A Receive was consumed: post others before anything that lets the client send again. */
void rpcordma_server::replenish()
{
	LockGuard guard(lock);
	const u32 wanted = credits.wanted();
	const bool grow = wanted > credits.granted();
	const u32 promised = promised_locked();
	guard.release();

	if (!provide(promised + kServerBatch, RPCORDMA_ALLOC_ATOMIC)) {
		rpcordma_server_count(RPCORDMA_SERVER_DEBT, 1);
		short_of_receives.store(true, std::memory_order_relaxed);
	}
	if (!grow)
		return;
	const bool backed = provide(wanted - credits.granted() + promised + kServerBatch,
				    RPCORDMA_ALLOC_ATOMIC);
	guard.acquire();
	trace::credits(peer, credits.granted(), backed ? wanted : credits.granted());
	/* Without memory it stays as it is, and is tried again after as much use. */
	credits.grant(backed ? wanted : credits.granted());
	grant.store(credits.granted(), std::memory_order_relaxed);
}

/* Neither sunrpc nor the device has anything of it any more. */
void rpcordma_server::recycle(Call *call)
{
	if (call->transfer) {
		rpcordma_warn("a server's call is spare with a transfer");
		abandon(call);
	}
	call->answer = Call::Answer::none;
	call->result_count = 0;
	LockGuard guard(lock);
	if (call->tracked)
		in_service--;
	call->tracked = false;
	/* Memory was short, or the client has more in service than it should. */
	if (posted < promised_locked() && !closing.load(std::memory_order_relaxed)) {
		posted++;
		call->receive_wr.next = nullptr;
		post_receives_locked(call, 1);
	} else {
		spare.push_front(call);
	}
}

void rpcordma_server::drop_owner(Call *call)
{
	if (call->owners.fetch_sub(1, std::memory_order_acq_rel) == 1)
		recycle(call);
}

/* --- messages --- */

/* Whether this very call broke an earlier connection with its chunks. */
[[nodiscard]] static bool failed_before(const Server &server, const ServerCall *call)
{
	const u64 now = rpcordma_now_ms();

	if (!call->header.has_chunks() || !server_failures.any(now))
		return false;
	const u64 address = rpcordma_svc_address_key(server.xprt);
	return locked(server_failures_lock,
		      [&] { return server_failures.recall(address, call->message(), now); });
}

/* What a message is, and for a call how it is to be answered if not by the service. */
Server::Kind rpcordma_server::classify(Call *call)
{
	const Bytes message = call->message();
	auto refuse = [&](const char *why, int value) {
		trace::error(peer, why, call->header.xid.get(), value);
		call->answer = Call::Answer::error_chunk;
		return Kind::call;
	};
	const Error error = v1::decode(message, call->header);

	if (error != Error::none) {
		switch (error) {
		case Error::message_size:
		case Error::bad_message:
			trace::error(peer, "a message that is to be dropped", 0, to_errno(error));
			return Kind::drop;
		case Error::no_protocol:
			call->answer = Call::Answer::error_vers;
			break;
		default:
			call->answer = Call::Answer::error_chunk;
			break;
		}
		trace::error(peer, "a header that is not understood",
			     xdr::peek(message).value().xid.get(), to_errno(error));
		return Kind::call;
	}
	const v1::Header &header = call->header;

	const auto direction = v1::direction(header, message);
	if (!direction.ok())
		return refuse("a header that its payload contradicts", to_errno(direction.error()));
	if (direction.value() == v1::Direction::reply) {
		/* Neither a call nor, as it has a chunk, a backward reply (RFC 8167 5.3). */
		if (header.proc == v1::Proc::nomsg)
			call->answer = Call::Answer::error_chunk;
		return header.proc == v1::Proc::nomsg ? Kind::call : Kind::backward;
	}

	rpcordma_svc_limits limits;
	rpcordma_svc_get_limits(xprt, &limits);
	const Bytes payload = header.payload(message);
	if (!header.has_chunks() && payload.size() <= limits.max_message) {
		call->arrival = chunk::Arrival::inline_only(u32(payload.size()));
		return Kind::call;
	}
	/* Before they are looked at one by one; and what a reply could never fill, before it is executed. */
	const u32 most = min(Transfer::kRequests, queue_size) - 1;
	if (header.reads.count() > most ||
	    header.writes.segments() + header.reply.count() + Transfer::kPages / send_sges > most)
		return refuse("chunks of too many segments", int(header.reads.count()));
	const auto arrival =
		chunk::plan_arrival(header.reads, u32(payload.size()), limits.max_message);
	if (!arrival.ok())
		return refuse("Read chunks that make no call", to_errno(arrival.error()));
	call->arrival = arrival.value();
	/*
	 * What stands before the arguments is read as one piece of memory, not always with a look at its
	 * length: no chunk may begin in it, nor may it be cut short.
	 */
	const auto preface = rpc::call_preface(payload);
	if (call->arrival.how == chunk::Arrival::How::single ?
		    !preface.ok() || call->arrival.position < preface.value() :
		    call->arrival.how == chunk::Arrival::How::linear &&
			    call->arrival.message_length < rpc::least_call_length)
		return refuse("a call that is cut short, or with a chunk in its RPC header",
			      int(call->arrival.position));
	if (sink_pages(call) > min(limits.max_pages, Transfer::kPages) ||
	    longest_chain(call) > min(Transfer::kRequests, queue_size))
		return refuse("Read chunks of too many segments or pages",
			      int(call->arrival.segments));
	if (failed_before(*this, call))
		return refuse("a call whose chunks broke a connection", 0);
	return Kind::call;
}

/* Put @call on a queue, and have a thread look. */
void rpcordma_server::enqueue(Call *call, ServerCallList &queue)
{
	LockGuard guard(lock);
	queue.push_back(call);
	/* Nothing can be sent before, so nobody is to look before: the event says when. */
	const bool look = established.load(std::memory_order_relaxed);
	if (look)
		rpcordma_svc_set_data(xprt);
	guard.release();
	if (look)
		rpcordma_svc_enqueue(xprt);
}

/* Calls may have come before. */
void rpcordma_server::establish()
{
	locked(lock, [&] {
		established.store(true, std::memory_order_release);
		if (!ready.empty() || !held.empty())
			rpcordma_svc_set_data(xprt);
	});
	rpcordma_svc_enqueue(xprt);
}

void rpcordma_server::receive(Call *call)
{
	rpcordma_dma_sync_for_cpu(endpoint, &call->receive_sge, call->length);
	const Kind kind = classify(call);

	LockGuard guard(lock);
	posted--;
	if (kind == Kind::call) {
		call->tracked = true;
		in_service++;
		if (call->answer == Call::Answer::none)
			credits.call(call->header.credits, in_service, rpcordma_now_ms());
		grant.store(credits.granted(), std::memory_order_relaxed);
	}
	const bool low = posted <= promised_locked() || credits.wanted() > credits.granted();
	guard.release();
	if (low)
		replenish();

	switch (kind) {
	case Kind::drop:
		rpcordma_server_count(RPCORDMA_SERVER_DROPPED, 1);
		recycle(call);
		break;
	case Kind::backward:
		backward_reply(call);
		recycle(call);
		break;
	case Kind::call:
		rpcordma_server_count(RPCORDMA_SERVER_RECV, 1);
		if (call->answer == Call::Answer::none)
			trace::reply(peer, "call", call->header.xid.get(),
				     call->header.credits.get(), u32(call->header.proc),
				     int(call->length));
		if (call->answer != Call::Answer::none ||
		    call->arrival.how == chunk::Arrival::How::inline_)
			enqueue(call, ready);
		else if (!read_eagerly(call))
			enqueue(call, held);
		break;
	}
}

void rpcordma_core_server_receive_done(void *context, rpcordma_cqe *cqe,
				       const rpcordma_completion *completion)
{
	Server *server = static_cast<Server *>(context);
	ServerCall *call = OwnedCqe<ServerCall>::owner_of(cqe);

	trace::completion(server->peer, "receive", *completion);
	if (completion->status == RPCORDMA_WC_SUCCESS &&
	    !server->closing.load(std::memory_order_relaxed)) {
		call->length = completion->byte_len;
		server->receive(call);
		return;
	}
	/* A call that came with the disconnect is dropped: its reply could not be sent. */
	locked(server->lock, [&] {
		server->posted--;
		server->spare.push_front(call);
	});
	server->request_close("receive failed", completion->status);
}

/* --- the service threads' side --- */

/* XDR padding. */
static constexpr u8 kZeros[4] = {};

/* Hand a whole call to the thread. Returns its length. */
int rpcordma_server::deliver(Call *call, svc_rqst *rqst)
{
	const chunk::Arrival &arrival = call->arrival;
	u8 *const payload = call->data + call->header.header_length;
	rpcordma_svc_arg arg = {};

	if (Transfer *transfer = call->transfer) {
		rpcordma_bulk_unmap(transfer->bulk);
		for (Region *region : transfer->regions)
			if (region)
				rpcordma_region_unmap(region->device);
		arg.pages_used = sink_pages(call);
		if (arrival.how == chunk::Arrival::How::linear) {
			auto read = [](const xdr::Segment &, u32) {};
			auto copy = [&](u32 from, u32 to, u32 length) {
				rpcordma_pages_write(transfer->pages, to, payload + from, length);
			};
			auto pad = [&](u32 at, u32 length) {
				rpcordma_pages_write(transfer->pages, at, kZeros, length);
			};
			(void)chunk::walk_arrival(call->header.reads, arrival.inline_length,
						  arrival.message_length, read, copy, pad);
		} else {
			/* What is behind the chunk was somebody else's. */
			rpcordma_pages_write(transfer->pages, arrival.sink_length, kZeros,
					     xdr_pad(arrival.sink_length));
		}
		rpcordma_svc_swap_pages(rqst, transfer->pages, arg.pages_used);
		abandon(call);
	}
	switch (arrival.how) {
	case chunk::Arrival::How::inline_:
		arg.head = payload;
		arg.head_length = arrival.inline_length;
		break;
	case chunk::Arrival::How::single:
		arg.head = payload;
		arg.head_length = arrival.position;
		arg.page_length = arrival.sink_length + xdr_pad(arrival.sink_length);
		arg.tail = payload + arrival.position;
		arg.tail_length = arrival.inline_length - arrival.position;
		break;
	case chunk::Arrival::How::linear:
		arg.head_length = min(arrival.message_length, device.page_size);
		arg.page_length = arrival.message_length - arg.head_length;
		break;
	}
	call->owners.store(1, std::memory_order_relaxed);
	rpcordma_svc_set_arg(rqst, xprt, call, &arg);
	return int(arrival.message_length);
}

int rpcordma_server::recvfrom(svc_rqst *rqst)
{
	bool read = false;

	LockGuard guard(lock);
	/* In turn, so that calls which came later and went by do not keep the held ones waiting. */
	held_turn = !held_turn;
	Call *call = held_turn && !held.empty() ? nullptr : ready.pop_front();
	if (!call) {
		call = held.pop_front();
		read = call != nullptr;
	}
	if (ready.empty() && held.empty())
		rpcordma_svc_clear_data(xprt);
	guard.release();
	rpcordma_svc_received(xprt);

	if (!call)
		return 0;
	if (read)
		return read_with(call, rqst);
	if (call->answer != Call::Answer::none) {
		send_error(call);
		return 0;
	}
	return deliver(call, rqst);
}

int rpcordma_core_server_recvfrom(rpcordma_server *server, svc_rqst *rqst)
{
	return server->recvfrom(rqst);
}

void rpcordma_core_server_release(rpcordma_server *server, rpcordma_server_call *call)
{
	server->drop_owner(call);
}
