// SPDX-License-Identifier: GPL-2.0-only
/*
 * The connection manager: two hosts with their devices, identifiers that are resolved, connected and
 * disconnected, and the events that tell of it. Each identifier's events are delivered one at a time and
 * in order, by a fiber that must not sleep, and none once it is destroyed.
 */
#pragma once

#include "selftests/sim/fabric.hh"

namespace sim {

struct CmId;
class Stranger;

struct Host {
	explicit Host(const char *name_) : name(name_)
	{
	}
	/** One that is there, or null. */
	Device *device();
	/** Take @device away: it goes when nobody has anything of it any more. It may come back. */
	void remove(Device &device);

	const char *name;
	std::vector<std::unique_ptr<Device>> devices;
	std::map<u32, CmId *> ids; /* by number: those bound to one of the devices */
};

/** What a listener makes of a request: false, it is refused. A handler. */
using Listener = std::function<bool(const std::shared_ptr<CmId> &id, u32 initiator_depth,
				    const std::vector<u8> &private_data)>;

struct Fabric {
	Fabric();
	~Fabric();
	Host client{"client"}, server{"server"};
	Listener listener;	/* empty: nobody listens */
	bool strangers = false; /* there are some: what is owed may never come */
	u32 ids = 0;		/* ever made */
	Ledger ledger;
};
extern Fabric *fabric;

struct CmId : std::enable_shared_from_this<CmId> {
	enum class State { idle, connecting, requested, accepted, connected, gone };
	using Event = std::function<void(rpcordma_endpoint &)>;

	explicit CmId(Host &host_);
	/** Have @event delivered, after those that were before it. */
	void tell(Event event, u64 delay = 0);
	/** Handlers wait until unlock(). */
	void lock();
	void unlock();
	void bind(Device *device);
	/** The peer learns that it is alone. */
	void hang_up();
	/** No handler runs afterwards. */
	void destroy();

	Host &host;
	const u32 number; /* in the order of creation */
	Device *device = nullptr;
	State state = State::idle;
	rpcordma_endpoint *endpoint = nullptr;
	std::weak_ptr<CmId> peer;

private:
	void deliver_();

	std::deque<std::pair<u64, Event>> events_;
	bool delivering_ = false, busy_ = false;
	WaitQueue idle_;
};

/** An endpoint around the identifier of a connection request. */
rpcordma_endpoint *adopt_endpoint(const std::shared_ptr<CmId> &id, const rpcordma_peer *peer,
				  void *context, const std::vector<u8> &private_data);
/** The network breaks it, in one of the ways in which it can. */
void break_connection(CmId &id);

} // namespace sim

struct rpcordma_peer {
	const char *name;
};

struct rpcordma_endpoint {
	const rpcordma_peer *peer = nullptr;
	void *context = nullptr;
	bool server = false;
	sim::Stranger *stranger = nullptr; /* whose it is, when no core is behind it */
	std::shared_ptr<sim::CmId> id;
	std::shared_ptr<sim::Qp> qp;

	int result = 0;
	sim::WaitQueue ended;
	bool established = false, lost = false, removed = false;
	sim::u32 fatal_events = 0; /* on their way */
	sim::WaitQueue no_fatal_event;
	std::vector<sim::u8> private_data; /* the peer's */
	/* An active one: */
	std::vector<sim::u8> said;		/* its own */
	sim::VersionMemory *versions = nullptr; /* the client's, if it has a core */
};
