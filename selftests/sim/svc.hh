// SPDX-License-Identifier: GPL-2.0-only
/*
 * sunrpc's server, as far as a transport sees it: a service with threads, a listener, connections that are
 * enqueued when there is something to do, and the backchannel. It follows net/sunrpc/svc_xprt.c, and
 * compat/linux/svc_connection.c for what is between that and the core.
 */
#pragma once

#include <list>
#include <map>

#include "selftests/sim/cm.hh"

namespace sim {

class Service;

/** A backward call that waits for its reply. */
struct BackwardCall {
	std::vector<u8> reply;
	int result = 0;
	bool done = false;
	WaitQueue waiting;
};

/** A call that was put off: a copy of its message, and what the transport has of it. */
struct Deferred {
	std::vector<u8> message;
	rpcordma_server_call *context = nullptr;
	u32 xid = 0;
};

/** The connection whose endpoint has this peer cannot be accepted any more. A handler. */
void request_lost(const rpcordma_peer *peer);

} // namespace sim

struct svc_xprt : rpcordma_peer {
	svc_xprt(sim::Service &service_, const char *name)
		: rpcordma_peer{name},
		  service(service_),
		  finish("finish transfers", [this] { rpcordma_core_server_finish(core); })
	{
	}
	void get();
	void put();
	void enqueue();
	/** XPT_CLOSE, and have a thread look. */
	void close();
	/** svc_xprt_close(): now, unless somebody has it, who does it then. May sleep. */
	void close_now();
	/** svc_defer(): @rqst's call comes back later, or is dropped. */
	void defer(svc_rqst &rqst);
	/** svc_deferred_dequeue() */
	sim::Deferred *next_deferred();
	/** svc_delete_xprt(); XPT_BUSY is the caller's. */
	void remove();
	void free_deferred(sim::Deferred *deferred);
	/** What is heard on it, once it is accepted. */
	const sim::Conversation &conversation();
	/** Of the peer, as the reply cache has it: without a port, which is another one with each connection. */
	sim::u64 address_key() const
	{
		return 0x0a000001;
	}
	/** A call has come over it: then it may be called back over. Nobody is who does not call, in NFS. */
	bool was_called() const;

	sim::Service &service;
	sim::u32 references = 1;
	bool listener = false, busy = true, connection_request = false, closing = false,
	     data = false, dead = false, has_deferred = false;
	std::deque<sim::Deferred *> deferred_calls;

	/* A connection: */
	std::shared_ptr<sim::CmId> id;
	rpcordma_endpoint *endpoint = nullptr; /* until it is accepted */
	rpcordma_server *core = nullptr;
	void *core_place = nullptr;
	bool accepted = false, queued = false;
	sim::Work finish;
	sim::u32 initiator_depth = 0;
	std::shared_ptr<sim::Conversation> heard;

	/* Its backchannel: */
	sim::Mutex sending{sim::LockClass::service};
	sim::u32 window = 0, in_flight = 0;
	sim::WaitQueue window_opened;
	std::map<sim::u32, sim::BackwardCall *> backward_calls;
};

struct svc_rqst {
	sim::Service *service;
	svc_xprt *xprt;
	std::vector<page *> pages;
	sim::u32 respages = 0, next_page = 0; /* indices */
	rpcordma_server_call *context = nullptr;
	rpcordma_xdr_buf arg = {}, res = {};
	bool ddp_allowed = true;
	/* Pages that stay the transport's, until it hears that the call is over. */
	std::vector<page *> lent;
	sim::Deferred *deferred = nullptr; /* the call is one that was put off */
	/* What becomes of a call that the service does not reply to; else it is dropped: */
	bool defer = false, close = false;
	/** A call that is in its head as a whole can be put off. */
	bool may_defer() const
	{
		return !arg.page_length && arg.len <= arg.head.length;
	}
};

namespace sim {

/** What the service does with calls; consumer.cc has it. */
class Program {
public:
	virtual ~Program() = default;
	/** Read rq_arg, write rq_res. False: no reply, and what else is in @rqst. Calls result_payload(). */
	virtual bool process(svc_rqst &rqst) = 0;
};

class Service {
public:
	Service(Program &program, u32 threads, u32 max_message);
	~Service();
	/** False without memory. */
	bool listen();
	/** Every transport is closed, threads end. */
	void stop();
	/** A backward call over any connection: 0, or a negative errno. */
	int call_back(svc_xprt &xprt, u32 xid, const std::vector<u8> &call, std::vector<u8> &reply);
	/** A connection that is up, with a reference; or null. */
	svc_xprt *any_connection();
	/** svc_age_temp_xprts_now(): some connections are closed, whatever they do. */
	void age();
	/** What debugfs shows of each connection; @disconnect: and have one end, now and then. */
	void watch(bool disconnect);
	/** Those that are not freed yet, whatever became of them. */
	u32 connections() const
	{
		return existing_ - (listener_ != nullptr);
	}

	/** What a connection that nobody uses has not given back; empty when there is nothing. */
	std::string unrest() const;

	u32 threads, max_message;

private:
	friend struct ::svc_xprt;
	friend void request_lost(const rpcordma_peer *);
	bool handle_request_(const std::shared_ptr<CmId> &id, u32 initiator_depth,
			     const std::vector<u8> &private_data);
	void thread_();
	void handle_(svc_rqst &rqst, svc_xprt &xprt);
	svc_xprt *accept_();
	static int deferred_recv_(svc_rqst &rqst);
	void release_(svc_rqst &rqst);
	bool take_off_(svc_xprt &xprt);

	Program &program_;
	SpinLock accept_lock_{LockClass::accept};
	std::deque<svc_xprt *> ready_, requests_;
	std::list<svc_xprt *> all_;
	WaitQueue work_, gone_;
	svc_xprt *listener_ = nullptr;
	bool stopping_ = false;
	u32 running_ = 0;
	u32 being_made_ = 0; /* requests that a handler is putting on the queue */
	u32 existing_ = 0;   /* transports that are not freed yet */
};

/** Fills the module's pool of sink pages. */
extern Work *server_refill;

/** Of all services: starts before the first, ends after the last. */
struct ServerModule {
	bool start();
	void end();
};

} // namespace sim
