// SPDX-License-Identifier: GPL-2.0-only
/* The connection manager, and the part of compat/port/verbs.h that is about it. See cm.hh. */
#include "selftests/sim/cm.hh"

#include <algorithm>
#include <cerrno>

#include "selftests/sim/sunrpc.hh"
#include "selftests/sim/svc.hh"

using namespace sim;

namespace sim {

Fabric *fabric;

static constexpr int kPending = 1;

Fabric::Fabric()
{
	fabric = this;
}

Fabric::~Fabric()
{
	fabric = nullptr;
}

/* --- hosts --- */

Device *Host::device()
{
	std::vector<Device *> there;

	for (auto &device : devices)
		if (device->present)
			there.push_back(device.get());
	return there.empty() ? nullptr : there[chance.below(u32(there.size()))];
}

static void tell_loss(rpcordma_endpoint &ep, int result, rpcordma_endpoint_event event);

void Host::remove(Device &device)
{
	if (!device.present)
		return;
	TRACE("%s goes away", device.name.c_str());
	device.present = false;
	for (auto &[number, id] : ids)
		if (id->device == &device)
			id->tell([](rpcordma_endpoint &ep) {
				ep.removed = true;
				tell_loss(ep, -ENODEV, RPCORDMA_EVENT_DEVICE_REMOVAL);
			});
	while (device.users)
		(void)wait(device.unused, "a device that is being removed");
	TRACE("%s is gone", device.name.c_str());
}

/* --- identifiers --- */

CmId::CmId(Host &host_) : host(host_), number(++fabric->ids)
{
}

void CmId::tell(Event event, u64 delay)
{
	if (state == State::gone)
		return;
	events_.emplace_back(now() + delay, std::move(event));
	if (delivering_)
		return;
	delivering_ = true;
	spawn(std::string(host.name) + " cm", Context::process,
	      [self = shared_from_this()] { self->deliver_(); });
}

void CmId::deliver_()
{
	while (!events_.empty() && state != State::gone) {
		const u64 when = events_.front().first;
		const Event event = std::move(events_.front().second);

		events_.pop_front();
		if (when > now())
			sleep_for(when - now(), "an event on its way");
		lock();
		if (state != State::gone) {
			/* The handler itself may not sleep: a fiber of its own says so. */
			bool done = false;
			spawn(std::string(host.name) + " cm handler", Context::completion, [&, this] {
				event(*endpoint);
				done = true;
				idle_.wake_all();
			});
			while (!done)
				(void)wait(idle_, "a handler");
		}
		unlock();
	}
	delivering_ = false;
}

void CmId::lock()
{
	while (busy_)
		(void)wait(idle_, "a handler");
	busy_ = true;
}

void CmId::unlock()
{
	busy_ = false;
	idle_.wake_all();
}

void CmId::bind(Device *to)
{
	device = to;
	device->users++;
	host.ids[number] = this;
}

static void lose_peer(CmId &id, int result)
{
	id.tell(
		[result](rpcordma_endpoint &ep) {
			tell_loss(ep, result, RPCORDMA_EVENT_DISCONNECTED);
		},
		fabric_delay());
}

void CmId::hang_up()
{
	const auto other = peer.lock();
	const State before = state;

	if (state == State::gone)
		return;
	state = State::idle;
	peer.reset();
	if (!other || before == State::idle)
		return;
	other->peer.reset();
	/* A request that is not accepted is rejected; one that is withdrawn is lost, as is a connection. */
	lose_peer(*other, before == State::requested ? -ECONNREFUSED : -ENOTCONN);
}

void CmId::destroy()
{
	lock();
	hang_up();
	state = State::gone;
	events_.clear();
	endpoint = nullptr;
	unlock();
	if (!device)
		return;
	host.ids.erase(number);
	if (!--device->users)
		device->unused.wake_all();
	device = nullptr;
}

/* --- endpoints: what the events do, as compat/linux/cm.c has it --- */

static void end_step(rpcordma_endpoint &ep, int result)
{
	if (ep.result != kPending)
		return;
	ep.result = result;
	ep.ended.wake_all();
}

static void tell_core(rpcordma_endpoint &ep, rpcordma_endpoint_event event)
{
	TRACE("event %d", event);
	if (ep.stranger)
		return;
	if (!ep.server && ep.qp && ep.qp->conversation)
		ep.qp->conversation->versions->lost();
	if (ep.server)
		rpcordma_core_server_event(ep.context, event);
	else
		rpcordma_core_endpoint_event(ep.context, event);
}

static void tell_loss(rpcordma_endpoint &ep, int result, rpcordma_endpoint_event event)
{
	if (!ep.established)
		ep.lost = true;
	if (ep.established)
		tell_core(ep, event);
	else if (ep.server && !ep.stranger)
		request_lost(ep.peer);
	else
		end_step(ep, result);
}

/* A queue pair's event comes in interrupt context, and is told by a worker. */
static std::function<void()> fatal_event(rpcordma_endpoint *ep)
{
	return [ep] {
		ep->fatal_events++;
		spawn("fatal event", Context::process, [ep] {
			if (ep->established)
				tell_core(*ep, RPCORDMA_EVENT_QP_FATAL);
			if (!--ep->fatal_events)
				ep->no_fatal_event.wake_all();
		});
	};
}

rpcordma_endpoint *adopt_endpoint(const std::shared_ptr<CmId> &id, const rpcordma_peer *peer,
				  void *context, const std::vector<u8> &private_data)
{
	if (faults.strikes(faults.memory))
		return nullptr;
	auto *ep = new rpcordma_endpoint;
	ep->peer = peer;
	ep->context = context;
	ep->server = true;
	ep->id = id;
	ep->private_data = private_data;
	id->endpoint = ep;
	return ep;
}

void break_connection(CmId &id)
{
	const auto other = id.peer.lock();
	auto qp = id.endpoint ? id.endpoint->qp : nullptr;

	TRACE("the network breaks a connection of the %s", id.host.name);
	switch (chance.below(4)) {
	default: /* noticed by the queue pair */
		if (qp)
			qp->set_error();
		break;
	case 1: /* noticed by the driver */
		if (qp) {
			qp->set_error();
			if (qp->fatal)
				qp->fatal();
		}
		break;
	case 2: /* by the connection manager, maybe of both sides */
		if (id.state == CmId::State::connected)
			lose_peer(id, -ENOTCONN);
		if (other && other->state == CmId::State::connected && chance.one_in(2))
			lose_peer(*other, -ENOTCONN);
		break;
	case 3: /* its address is another one's now */
		id.tell([](rpcordma_endpoint &ep) {
			tell_loss(ep, -ENOTCONN, RPCORDMA_EVENT_ADDRESS_CHANGE);
		});
		break;
	}
}

} // namespace sim

/* --- the port --- */

rpcordma_endpoint *rpcordma_endpoint_create(rpc_xprt *xprt, void *context, int *error)
{
	may_sleep("endpoint");
	port_call();
	if (faults.strikes(faults.memory)) {
		*error = -ENOMEM;
		return nullptr;
	}
	auto *ep = new rpcordma_endpoint;
	ep->peer = rpcordma_xprt_peer(xprt);
	ep->versions = &xprt->versions;
	xprt->versions.attempt();
	ep->context = context;
	ep->id = std::make_shared<CmId>(fabric->client);
	ep->id->endpoint = ep;
	return ep;
}

static int begin_step(rpcordma_endpoint &ep)
{
	port_call();
	if (ep.removed)
		return -ENODEV;
	ep.result = kPending;
	return 0;
}

static int await_step(rpcordma_endpoint &ep, u32 limit_ms)
{
	const u64 end = now() + limit_ms * kMillisecond;

	while (ep.result == kPending && now() < end)
		(void)wait(ep.ended, "a step of connecting", end - now());
	if (ep.result == kPending)
		ep.result = -ETIMEDOUT;
	port_call();
	return ep.result;
}

int rpcordma_endpoint_resolve(rpcordma_endpoint *ep, rpcordma_u32 limit_ms)
{
	static const int errors[] = {-EHOSTUNREACH, -ENETUNREACH, -ENOMEM, -EPROTO};
	int rc = begin_step(*ep);

	if (rc)
		return rc;
	const int result = faults.strikes(faults.resolving) ? chance.any_of(errors) : 0;
	Device *device = fabric->client.device();
	if (!device)
		return ep->result = -EPROTO;
	ep->id->bind(device);
	ep->id->tell([=](rpcordma_endpoint &e) { end_step(e, result); }, fabric_delay());
	rc = await_step(*ep, limit_ms + 1000);
	if (rc)
		return rc;
	rc = begin_step(*ep);
	if (rc)
		return rc;
	ep->id->tell([](rpcordma_endpoint &e) { end_step(e, 0); }, fabric_delay());
	return await_step(*ep, limit_ms + 1000);
}

void rpcordma_endpoint_device(const rpcordma_endpoint *ep, rpcordma_device *device)
{
	*device = ep->id->device->limits;
}

/* It is too large, or something that less of it does not help. */
static int refusal()
{
	return chance.one_in(4) ? -EIO : -ENOMEM;
}

int rpcordma_endpoint_create_qp(rpcordma_endpoint *ep, const rpcordma_queue_sizes *sizes)
{
	may_sleep("queue pair");
	port_call();
	if (faults.strikes(faults.memory))
		return refusal();
	const u32 most = ep->id->device->most_sges;
	if (most && sizes->send_wrs * sizes->send_sges > most)
		return -EINVAL;
	ep->qp = std::make_shared<Qp>(ep->id->device, ep->server ? "server" : "client", ep->server,
				      ep->context, *sizes);
	ep->qp->stranger = ep->stranger;
	ep->qp->fatal = fatal_event(ep);
	return 0;
}

/* The passive side has accepted: at the active one. */
static void establish(const std::shared_ptr<CmId> &client, const std::vector<u8> &private_data)
{
	const auto server = client->peer.lock();

	if (client->state != CmId::State::connecting || !server)
		return;
	client->tell(
		[=](rpcordma_endpoint &ep) {
			if (client->state != CmId::State::connecting || ep.result != kPending)
				return;
			client->state = CmId::State::connected;
			if (ep.qp->state == Qp::State::init)
				ep.qp->state = Qp::State::connected;
			ep.private_data = private_data;
			ep.established = true;
			end_step(ep, 0);
			u64 delay = fabric_delay();
			/* The last word of the handshake comes late, and the connection ends before, now and then. */
			if (faults.active && chance.one_in(6)) {
				spawn_after(chance.below(faults.patience * kMillisecond + 1),
					    "network", Context::completion,
					    [server] { break_connection(*server); });
				delay += chance.below(2 * faults.patience * kMillisecond + 1);
			}
			server->tell(
				[server](rpcordma_endpoint &e) {
					/* A server that has hung up meanwhile is told as well, until it is gone. */
					if (server->state == CmId::State::accepted) {
						server->state = CmId::State::connected;
						if (e.qp->state == Qp::State::receiving)
							e.qp->state = Qp::State::connected;
					}
					tell_core(e, RPCORDMA_EVENT_ESTABLISHED);
				},
				delay);
		},
		fabric_delay());
}

static void request(const std::shared_ptr<CmId> &client, u32 initiator_depth,
		    const std::vector<u8> &private_data)
{
	if (client->state != CmId::State::connecting)
		return;
	Device *device = fabric->server.device();
	bool taken = false;
	if (device && fabric->listener && !faults.strikes(faults.resolving)) {
		auto id = std::make_shared<CmId>(fabric->server);

		id->bind(device);
		id->state = CmId::State::requested;
		id->peer = client;
		client->peer = id;
		taken = fabric->listener(id, initiator_depth, private_data);
		if (!taken) {
			fabric->server.ids.erase(id->number);
			if (!--device->users)
				device->unused.wake_all();
		}
	}
	if (!taken)
		lose_peer(*client, -ECONNREFUSED);
}

int rpcordma_endpoint_connect(rpcordma_endpoint *ep, const rpcordma_connect_parameters *parameters,
			      rpcordma_u32 limit_ms)
{
	int rc = begin_step(*ep);

	if (rc)
		return rc;
	const auto *bytes = static_cast<const u8 *>(parameters->private_data);
	std::vector<u8> private_data(bytes, bytes + parameters->private_data_length);
	const u32 depth = parameters->responder_resources;

	if (ep->versions)
		ep->versions->requested(private_data);
	ep->said = private_data;
	ep->id->state = CmId::State::connecting;
	/* Lost on the way, now and then. */
	if (!faults.strikes(faults.resolving))
		spawn_after(fabric_delay(), "listener", Context::completion,
			    [id = ep->id, depth, private_data] { request(id, depth, private_data); });
	return await_step(*ep, limit_ms);
}

int rpcordma_endpoint_accept(rpcordma_endpoint *ep, const rpcordma_connect_parameters *parameters)
{
	const auto *bytes = static_cast<const u8 *>(parameters->private_data);
	std::vector<u8> private_data(bytes, bytes + parameters->private_data_length);
	int rc = 0;

	may_sleep("accept");
	ep->id->lock();
	const auto client = ep->id->peer.lock();
	if (ep->removed)
		rc = -ENODEV;
	else if (ep->lost || !client || !client->endpoint || !client->endpoint->qp)
		rc = -ENOTCONN;
	if (!rc) {
		Qp &ours = *ep->qp, &theirs = *client->endpoint->qp;

		ep->established = true;
		ep->id->state = CmId::State::accepted;
		ours.state = Qp::State::receiving;
		ours.peer = theirs.weak_from_this();
		theirs.peer = ours.weak_from_this();
		ours.conversation = theirs.conversation =
			std::make_shared<Conversation>(fabric->ledger.connection());
		ours.conversation->strange = ours.stranger || theirs.stranger;
		ours.conversation->versions->begin(client->endpoint->said, private_data,
						   ours.stranger);
		if (VersionMemory *memory = client->endpoint->versions) {
			ours.conversation->memory = memory;
			memory->agreed(ours.conversation->versions);
		}
		establish(client, private_data);
	}
	ep->id->unlock();
	port_call();
	return rc;
}

const void *rpcordma_endpoint_private_data(const rpcordma_endpoint *ep, rpcordma_u32 *length)
{
	*length = u32(ep->private_data.size());
	return ep->private_data.data();
}

void rpcordma_endpoint_disconnect(rpcordma_endpoint *ep)
{
	may_sleep("disconnect");
	port_call();
	if (!ep->server && ep->qp && ep->qp->conversation)
		ep->qp->conversation->versions->ended = true;
	if (ep->qp)
		ep->qp->set_error();
	const bool connected = ep->id->state == CmId::State::connected;
	ep->id->hang_up();
	if (connected)
		lose_peer(*ep->id, -ENOTCONN);
	port_call();
}

void rpcordma_endpoint_drain(rpcordma_endpoint *ep)
{
	may_sleep("drain");
	port_call();
	if (ep->qp)
		ep->qp->drain();
}

void rpcordma_endpoint_destroy(rpcordma_endpoint *ep)
{
	may_sleep("endpoint");
	port_call();
	if (ep->qp) {
		ep->qp->destroy();
		ep->qp->fatal = nullptr;
		if (auto other = ep->qp->peer.lock())
			other->peer.reset();
		ep->qp.reset();
	}
	/* It is a command to the device, which takes its time. */
	if (const u64 time = fabric_delay())
		sleep_for(time, "a queue pair that goes");
	while (ep->fatal_events)
		(void)wait(ep->no_fatal_event, "a fatal event");
	ep->id->destroy();
	delete ep;
	port_call();
}
