// SPDX-License-Identifier: GPL-2.0-only
/* Services, and the life of their transports. See svc.hh. */
#include "selftests/sim/svc.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "module/server/audit.hh"
#include "module/server/server.hh"
#include "selftests/sim/sunrpc.hh"

using namespace sim;

static constexpr u32 kMostQueued = 128;
/* Longer than a call that is dropped can hold up a client's replies. */
static constexpr u64 kCallbackTimeout = 120 * kSecond;

/* --- transports --- */

void svc_xprt::get()
{
	REQUIRE(references, "a transport of the server is got that nobody has");
	references++;
}

/* Freeing waits for handlers and completions, so somebody else does it. */
void svc_xprt::put()
{
	REQUIRE(references, "a transport of the server is put that nobody has");
	if (--references)
		return;
	spawn("free connection", Context::process, [this] {
		Service &of = service;

		if (accepted)
			rpcordma_core_server_destroy(core);
		if (endpoint)
			rpcordma_endpoint_destroy(endpoint);
		REQUIRE(!queued, "a connection goes that is queued");
		REQUIRE(backward_calls.empty(), "a connection goes with backward calls");
		::release(core_place);
		delete this;
		of.existing_--;
		of.gone_.wake_all();
	});
}

void svc_xprt::enqueue()
{
	bool ready = connection_request || closing;

	if (busy)
		return;
	if (!ready && (data || has_deferred))
		ready = rpcordma_core_server_has_space(core);
	if (!ready || busy)
		return;
	busy = true;
	service.ready_.push_back(this);
	service.work_.wake_one();
}

void svc_xprt::close()
{
	closing = true;
	enqueue();
}

void svc_xprt::close_now()
{
	closing = true;
	port_call();
	if (busy)
		return;
	busy = true;
	remove();
}

void svc_xprt::free_deferred(Deferred *deferred)
{
	rpcordma_core_server_release(core, deferred->context);
	delete deferred;
}

void svc_xprt::defer(svc_rqst &rqst)
{
	Deferred *deferred = rqst.deferred;

	if (!deferred) {
		const u8 *message = static_cast<const u8 *>(rqst.arg.head.base);

		deferred = new Deferred;
		deferred->message.assign(message, message + rqst.arg.len);
		deferred->xid = u32(message[0]) << 24 | u32(message[1]) << 16 |
				u32(message[2]) << 8 | message[3];
	}
	rqst.deferred = nullptr;
	deferred->context = rqst.context;
	rqst.context = nullptr;
	get();
	TRACE("xid %#x is put off", deferred->xid);
	/* svc_revisit(), when what the service wants to know is there, or others have waited for longer. */
	spawn_after(chance.below(3000) * kMillisecond, "revisit", Context::process, [this, deferred] {
		const bool too_many = faults.strikes(6);

		has_deferred = true;
		if (too_many || dead) {
			if (too_many)
				dropped_calls.insert(deferred->xid);
			free_deferred(deferred);
		} else {
			deferred_calls.push_back(deferred);
			port_call();
			enqueue();
		}
		put();
	});
}

Deferred *svc_xprt::next_deferred()
{
	if (!has_deferred)
		return nullptr;
	if (deferred_calls.empty()) {
		has_deferred = false;
		return nullptr;
	}
	Deferred *deferred = deferred_calls.front();
	deferred_calls.pop_front();
	return deferred;
}

const Conversation &svc_xprt::conversation()
{
	/* The queue pair may be gone later. */
	if (!heard) {
		REQUIRE(id && id->endpoint && id->endpoint->qp && id->endpoint->qp->conversation,
			"a call comes over a connection that there is not");
		heard = id->endpoint->qp->conversation;
	}
	return *heard;
}

bool svc_xprt::was_called() const
{
	const rpcordma_endpoint *ep = id ? id->endpoint : nullptr;

	return ep && ep->qp && ep->qp->conversation && ep->qp->conversation->called;
}

void svc_xprt::remove()
{
	REQUIRE(busy, "a transport is deleted that others may use");
	if (dead)
		return;
	dead = true;
	if (listener) {
		fabric->listener = nullptr;
		while (service.being_made_)
			(void)sim::wait(service.gone_, "requests that are being made");
		service.listener_ = nullptr;
		/* No request comes any more. */
		for (;;) {
			service.accept_lock_.acquire();
			svc_xprt *next = service.requests_.empty() ? nullptr :
								     service.requests_.front();
			if (next) {
				service.requests_.pop_front();
				next->queued = false;
			}
			service.accept_lock_.release();
			if (!next)
				break;
			next->put();
		}
	} else {
		rpcordma_core_server_detach(core);
		for (auto &[xid, call] : backward_calls) {
			call->result = -ENOTCONN;
			call->done = true;
			call->waiting.wake_all();
		}
		window_opened.wake_all();
	}
	service.all_.remove(this);
	while (Deferred *deferred = next_deferred())
		free_deferred(deferred);
	put();
}

namespace sim {

Work *server_refill;

/* --- the service --- */

Service::Service(Program &program, u32 threads_, u32 max_message_)
	: threads(threads_),
	  max_message(max_message_),
	  program_(program)
{
}

Service::~Service()
{
	REQUIRE(all_.empty() && !running_ && !existing_, "a service goes with transports");
}

bool Service::listen()
{
	listener_ = new svc_xprt(*this, "listener");
	existing_++;
	listener_->listener = true;
	listener_->busy = false;
	all_.push_back(listener_);
	fabric->listener = [this](const std::shared_ptr<CmId> &id, u32 depth,
				  const std::vector<u8> &data) {
		return handle_request_(id, depth, data);
	};
	for (u32 i = 0; i < threads; i++) {
		running_++;
		spawn("nfsd " + std::to_string(i), Context::process, [this] { thread_(); });
	}
	return true;
}

void Service::stop()
{
	/* svc_close_net(): maybe with threads, maybe they are gone. */
	const bool threads_first = chance.one_in(2);
	if (threads_first) {
		stopping_ = true;
		work_.wake_all();
		while (running_)
			(void)wait(gone_, "nfsd threads to end");
	}
	while (!all_.empty()) {
		/* The list changes while one of them is closed. */
		const std::vector<svc_xprt *> now_there(all_.begin(), all_.end());
		for (svc_xprt *xprt : now_there)
			if (std::find(all_.begin(), all_.end(), xprt) != all_.end())
				xprt->close();
		/* svc_clean_up_xprts(), beside the threads if there are any. */
		while (!ready_.empty()) {
			svc_xprt *xprt = ready_.front();
			ready_.pop_front();
			xprt->closing = true;
			xprt->remove();
		}
		if (!all_.empty())
			sleep_for(10 * kMillisecond, "transports to be closed");
	}
	stopping_ = true;
	work_.wake_all();
	while (running_ || existing_)
		(void)wait(gone_, "nfsd threads and transports to end");
}

/* svc_alloc_arg(): as many as there are, and then the rest. */
static void fill_pages(svc_rqst &rqst)
{
	while (faults.strikes(faults.memory))
		sleep_for(20 * kMillisecond, "memory for a thread's pages");
	for (page *&p : rqst.pages)
		if (!p)
			p = page_create();
}

void Service::thread_()
{
	svc_rqst rqst = {};

	rqst.service = this;
	/* As many as the largest message takes, and some for the reply. */
	rqst.pages.resize((max_message + kPageSize - 1) / kPageSize + 3);
	for (;;) {
		fill_pages(rqst);
		while (ready_.empty() && !stopping_)
			(void)wait(work_, "work for nfsd");
		if (stopping_)
			break;
		svc_xprt *xprt = ready_.front();
		ready_.pop_front();
		xprt->get();
		rqst.xprt = xprt;
		port_call();
		handle_(rqst, *xprt);
	}
	for (page *p : rqst.pages)
		if (p)
			page_put(p);
	running_--;
	gone_.wake_all();
}

/* What has come once is handed out once. */
static void require_new(const svc_rqst &rqst)
{
	const u32 xid = rqst.context->message().xid.get();
	const auto &deliverable = rqst.xprt->conversation().deliverable;
	const auto it = deliverable.find(xid);

	REQUIRE(it != deliverable.end() && it->second,
		"xid %#x: the service gets a call more often than it has come", xid);
	rqst.xprt->heard->deliverable[xid]--;
}

/* svc_handle_xprt() */
void Service::handle_(svc_rqst &rqst, svc_xprt &xprt)
{
	int length = 0;

	rqst.respages = rqst.next_page = 0;
	rqst.context = nullptr;
	rqst.res = {};
	if (xprt.closing) {
		xprt.remove();
	} else if (xprt.listener) {
		if (svc_xprt *fresh = accept_()) {
			all_.push_back(fresh);
			rpcordma_svc_received(fresh);
		}
		rpcordma_svc_received(&xprt);
	} else {
		rqst.deferred = xprt.next_deferred();
		length = rqst.deferred ? deferred_recv_(rqst) :
					 rpcordma_core_server_recvfrom(xprt.core, &rqst);
	}
	rqst.defer = rqst.close = false;
	if (length > 0) {
		if (!rqst.deferred)
			require_new(rqst);
		/* Though the connection may have been closed meanwhile. */
		if (program_.process(rqst))
			(void)rpcordma_core_server_sendto(xprt.core, &rqst, rqst.context);
		else if (rqst.defer)
			xprt.defer(rqst);
		else if (rqst.close)
			xprt.close_now();
	}
	release_(rqst);
}

/* svc_deferred_recv(), and what svc_process() makes of it */
int Service::deferred_recv_(svc_rqst &rqst)
{
	std::vector<u8> &message = rqst.deferred->message;

	rqst.arg = {};
	rqst.arg.head = {message.data(), message.size()};
	rqst.arg.len = rqst.arg.buflen = u32(message.size());
	rqst.respages = 0;
	rqst.next_page = 1;
	rqst.context = rqst.deferred->context;
	rqst.deferred->context = nullptr;
	rpcordma_svc_received(rqst.xprt);
	return int(message.size());
}

/* svc_xprt_release() */
void Service::release_(svc_rqst &rqst)
{
	svc_xprt *xprt = rqst.xprt;

	for (page *p : rqst.lent)
		p->lent--;
	rqst.lent.clear();
	if (rqst.context)
		rpcordma_core_server_release(xprt->core, rqst.context);
	rqst.context = nullptr;
	delete rqst.deferred;
	rqst.deferred = nullptr;
	for (u32 i = rqst.respages; i < rqst.next_page; i++) {
		if (rqst.pages[i])
			page_put(rqst.pages[i]);
		rqst.pages[i] = nullptr;
	}
	rqst.xprt = nullptr;
	/* svc_reserve(), svc_xprt_release_slot() */
	port_call();
	xprt->enqueue();
	xprt->put();
}

/* --- listening: compat/linux/svc_listener.c --- */

bool Service::handle_request_(const std::shared_ptr<CmId> &id, u32 initiator_depth,
			      const std::vector<u8> &private_data)
{
	struct Making {
		Service &service;
		explicit Making(Service &s) : service(s)
		{
			service.being_made_++;
		}
		~Making()
		{
			service.being_made_--;
			service.gone_.wake_all();
		}
	} making(*this);

	if (requests_.size() >= kMostQueued)
		return false;
	auto *xprt = new svc_xprt(*this, "client");
	xprt->core_place = allocate(u32(rpcordma_core_server_size() + 63), RPCORDMA_ALLOC_ATOMIC);
	if (xprt->core_place) {
		xprt->core = reinterpret_cast<rpcordma_server *>(
			(reinterpret_cast<u64>(xprt->core_place) + 63) & ~u64(63));
		xprt->endpoint = adopt_endpoint(id, xprt, xprt->core, private_data);
	}
	if (!xprt->endpoint) {
		release(xprt->core_place);
		delete xprt;
		return false;
	}
	existing_++;
	xprt->id = id;
	xprt->initiator_depth = initiator_depth;
	xprt->window = rpcordma_core_server_backward_calls();
	svc_xprt *listener = listener_;
	accept_lock_.acquire();
	requests_.push_back(xprt);
	xprt->queued = true;
	listener->connection_request = true;
	accept_lock_.release();
	listener->enqueue();
	return true;
}

bool Service::take_off_(svc_xprt &xprt)
{
	Hold hold(accept_lock_);

	if (!xprt.queued)
		return false;
	xprt.queued = false;
	requests_.erase(std::find(requests_.begin(), requests_.end(), &xprt));
	return true;
}

void request_lost(const rpcordma_peer *peer)
{
	auto *xprt = static_cast<svc_xprt *>(const_cast<rpcordma_peer *>(peer));

	/* Freeing it waits for this worker. */
	if (!xprt->queued)
		return;
	xprt->get();
	spawn("lost request", Context::process, [xprt] {
		if (xprt->service.take_off_(*xprt))
			xprt->put();
		xprt->put();
	});
}

svc_xprt *Service::accept_()
{
	svc_xprt *xprt = nullptr;

	accept_lock_.acquire();
	if (!requests_.empty()) {
		xprt = requests_.front();
		requests_.pop_front();
		xprt->queued = false;
	}
	if (requests_.empty() && listener_)
		listener_->connection_request = false;
	accept_lock_.release();
	if (!xprt)
		return nullptr;
	rpcordma_endpoint *endpoint = xprt->endpoint;
	xprt->endpoint = nullptr;
	xprt->accepted = true;
	u32 length;
	const void *private_data = rpcordma_endpoint_private_data(endpoint, &length);
	const int rc = rpcordma_core_server_accept(xprt->core, xprt, xprt, endpoint, private_data,
						   length, xprt->initiator_depth);
	TRACE("accept: %d", rc);
	if (rc) {
		xprt->put();
		return nullptr;
	}
	return xprt;
}

/* --- the backchannel: compat/linux/svc_backchannel.c, and a task of sunrpc's --- */

std::string Service::unrest() const
{
	for (const svc_xprt *xprt : all_) {
		/* One that is being closed goes with all it has. */
		if (xprt->listener || !xprt->accepted || xprt->closing || xprt->dead ||
		    xprt->core->closing || !xprt->core->established)
			continue;
		const rpcordma::ServerAudit a = rpcordma::audit(*xprt->core);
		if (a.at_rest())
			continue;
		char text[256];
		std::snprintf(
			text, sizeof(text),
			"%u Receives: %u posted, %u spare, %u with calls; %u of %u calls spare, "
			"%u queues, %u owners, %u transfers, %u with Receives, %u in service, "
			"%u waiters, %u of the room, %llu eager bytes",
			a.receives, a.posted, a.spare, a.with_calls, a.spare_calls, a.calls,
			a.queued, a.owners, a.transfers, a.with_receives, a.in_service, a.waiters,
			a.room_taken, static_cast<unsigned long long>(a.eager_bytes));
		return text;
	}
	return {};
}

void Service::age()
{
	const std::vector<svc_xprt *> now_there(all_.begin(), all_.end());

	for (svc_xprt *xprt : now_there)
		if (chance.one_in(2) && std::find(all_.begin(), all_.end(), xprt) != all_.end() &&
		    !xprt->listener) {
			TRACE("a connection is aged");
			xprt->close();
		}
}

void Service::watch(bool disconnect)
{
	const std::vector<svc_xprt *> now_there(all_.begin(), all_.end());

	for (svc_xprt *xprt : now_there) {
		rpcordma_server_state state;
		rpcordma_agreement agreed;

		if (std::find(all_.begin(), all_.end(), xprt) == all_.end() || xprt->listener ||
		    !xprt->accepted)
			continue;
		xprt->get();
		rpcordma_core_server_state(xprt->core, &state);
		port_call();
		rpcordma_core_server_describe(xprt->core, &agreed);
		if (disconnect && chance.one_in(4))
			rpcordma_core_server_inject_disconnect(xprt->core);
		xprt->put();
	}
}

svc_xprt *Service::any_connection()
{
	std::vector<svc_xprt *> there;

	for (svc_xprt *xprt : all_)
		if (!xprt->listener && !xprt->dead && xprt->was_called())
			there.push_back(xprt);
	if (there.empty())
		return nullptr;
	svc_xprt *xprt = there[chance.below(u32(there.size()))];
	xprt->get();
	return xprt;
}

int Service::call_back(svc_xprt &xprt, u32 xid, const std::vector<u8> &call, std::vector<u8> &reply)
{
	rpcordma_xdr_buf message = {};
	BackwardCall waiting;

	message.head = {const_cast<u8 *>(call.data()), call.size()};
	message.len = message.buflen = u32(call.size());
	while (!xprt.dead && xprt.in_flight >= xprt.window)
		(void)wait(xprt.window_opened, "a backward credit");
	if (xprt.dead)
		return -ENOTCONN;
	xprt.in_flight++;
	xprt.backward_calls[xid] = &waiting;
	int rc;
	for (;;) {
		xprt.sending.acquire();
		rc = xprt.dead || xprt.closing ?
			     -ENOTCONN :
			     rpcordma_core_server_send_backward(xprt.core, xid, &message);
		/* From within send_request(), as callback_send_request() does. */
		if (rc == -ENOTCONN)
			xprt.close_now();
		xprt.sending.release();
		TRACE("backward xid %#x is sent: %d", xid, rc);
		if (rc != -ENOBUFS)
			break;
		sleep_for(250 * kMillisecond, "a little later");
	}
	while (!rc && !waiting.done)
		if (!wait(waiting.waiting, "a backward reply", kCallbackTimeout)) {
			REQUIRE(waiting.done || xprt.closing || fabric->strangers ||
					dropped_calls.count(xid),
				"no reply to backward xid %#x, and nobody says why", xid);
			if (!waiting.done)
				rc = -ETIMEDOUT;
		}
	xprt.backward_calls.erase(xid);
	xprt.in_flight--;
	xprt.window_opened.wake_all();
	reply = std::move(waiting.reply);
	return rc ? rc : waiting.result;
}

bool ServerModule::start()
{
	if (rpcordma_core_server_init())
		return false;
	server_refill = new Work("refill sinks", [] { rpcordma_core_server_refill(); });
	return true;
}

void ServerModule::end()
{
	server_refill->flush();
	delete server_refill;
	rpcordma_core_server_exit();
}

} // namespace sim
