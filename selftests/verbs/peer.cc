// SPDX-License-Identifier: GPL-2.0-only
/* See peer.hh. */
#include "peer.hh"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <time.h>

namespace verbs {

std::string text(const char *format, ...)
{
	char buffer[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(buffer, sizeof(buffer), format, args);
	va_end(args);
	return buffer;
}

u64 now_ms()
{
	timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return u64(ts.tv_sec) * 1000 + u64(ts.tv_nsec) / 1000000;
}

namespace {

/* What libibverbs and librdmacm say: null or -1, and errno. */
template <typename T> T *must(T *object, const char *what)
{
	if (!object)
		throw Failure{text("%s: %s", what, strerror(errno))};
	return object;
}

void must(int rc, const char *what)
{
	if (rc)
		throw Failure{text("%s: %s", what, strerror(rc < 0 ? errno : rc))};
}

void nonblocking(int fd)
{
	must(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), "fcntl");
}

} // namespace

Peer::Peer(const std::string &address, const std::string &port)
{
	rdma_addrinfo hints = {};
	hints.ai_port_space = RDMA_PS_TCP;
	must(rdma_getaddrinfo(address.c_str(), port.c_str(), &hints, &address_), address.c_str());
	events_ = must(rdma_create_event_channel(), "event channel (is rdma_ucm loaded?)");
	nonblocking(events_->fd);

	int count = 0;
	ibv_context **devices = must(rdma_get_devices(&count), "list of RDMA devices");
	if (!count)
		throw Failure{"no RDMA device (is ib_uverbs loaded, rxe linked?)"};
	device_ = devices[0];
	rdma_free_devices(devices);
	pd_ = must(ibv_alloc_pd(device_), "protection domain");
	completions_ = must(ibv_create_comp_channel(device_), "completion channel");
	nonblocking(completions_->fd);
	cq_ = must(ibv_create_cq(device_, cq_depth_, nullptr, completions_, 0), "completion queue");
	must(ibv_req_notify_cq(cq_, 0), "completion queue's notification");
}

Peer::~Peer()
{
	ibv_destroy_cq(cq_);
	ibv_destroy_comp_channel(completions_);
	ibv_dealloc_pd(pd_);
	rdma_destroy_event_channel(events_);
	rdma_freeaddrinfo(address_);
}

bool Peer::run(u64 limit_ms, const std::function<bool()> &done)
{
	u64 deadline = now_ms() + limit_ms;

	for (;;) {
		handle_completions_();
		handle_events_();
		if (done())
			return true;
		u64 now = now_ms();
		if (now >= deadline)
			return false;
		std::vector<pollfd> fds = {{events_->fd, POLLIN, 0}, {completions_->fd, POLLIN, 0}};
		for (auto &[fd, readable] : watched_)
			fds.push_back({fd, POLLIN, 0});
		poll(fds.data(), fds.size(), int(deadline - now));
		for (const pollfd &fd : fds) {
			auto found = watched_.find(fd.fd);
			if (fd.revents && found != watched_.end())
				std::function<void()>(found->second)(); /* it may forget itself */
		}
	}
}

void Peer::handle_events_()
{
	rdma_cm_event *event;

	while (!rdma_get_cm_event(events_, &event)) {
		/* Whatever is thrown: an identifier with an unacknowledged event cannot go. */
		std::unique_ptr<rdma_cm_event, int (*)(rdma_cm_event *)> held(event,
									      rdma_ack_cm_event);
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			static_cast<Listener *>(event->listen_id->context)
				->asked_.push_back(std::make_unique<Connection>(*this, *event));
		else
			static_cast<Connection *>(event->id->context)->event_(*event);
	}
}

void Peer::handle_completions_()
{
	ibv_cq *cq;
	void *context;
	unsigned int notified = 0;

	while (!ibv_get_cq_event(completions_, &cq, &context))
		notified++;
	if (notified) {
		ibv_ack_cq_events(cq_, notified);
		must(ibv_req_notify_cq(cq_, 0), "completion queue's notification");
	}

	ibv_wc wcs[32];
	int n;
	while ((n = ibv_poll_cq(cq_, 32, wcs)) > 0) {
		for (int i = 0; i < n; i++) {
			auto found = connections_.find(u32(wcs[i].wr_id >> 32));
			if (found != connections_.end())
				found->second->completion_(wcs[i]);
		}
	}
	if (n < 0)
		throw Failure{"polling the completion queue failed"};
}

Memory::Memory(Peer &peer, size_t size, u8 fill) : Memory(peer, Octets(size, fill))
{
}

Memory::Memory(Peer &peer, const Octets &content) : bytes_(content)
{
	mr_ = must(ibv_reg_mr(peer.pd_, bytes_.data(), bytes_.size(),
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				      IBV_ACCESS_REMOTE_WRITE),
		   "memory registration");
	rkey_ = mr_->rkey;
}

Memory::~Memory()
{
	withdraw();
}

Segment Memory::segment(size_t offset, u32 length) const
{
	return {Rkey(rkey_), length, reinterpret_cast<u64>(bytes_.data()) + offset};
}

Segment Memory::segment() const
{
	return segment(0, u32(bytes_.size()));
}

void Memory::withdraw()
{
	if (mr_)
		ibv_dereg_mr(mr_);
	mr_ = nullptr;
}

Connection::Connection(Peer &peer, const Setup &setup)
	: peer_(peer),
	  setup_(setup),
	  number_(peer.next_++)
{
	say_private_data_();
	must(rdma_create_id(peer_.events_, &id_, this, RDMA_PS_TCP), "connection identifier");
	peer_.connections_[number_] = this;
}

Connection::Connection(Peer &peer, const rdma_cm_event &request)
	: peer_(peer),
	  number_(peer.next_++),
	  state_(State::asked),
	  id_(request.id),
	  their_reads_(request.param.conn.initiator_depth)
{
	auto *data = static_cast<const u8 *>(request.param.conn.private_data);
	if (data)
		their_private_data_.assign(data, data + request.param.conn.private_data_len);
	id_->context = this;
	peer_.connections_[number_] = this;
}

Connection::~Connection()
{
	disconnect();
	peer_.connections_.erase(number_);
	if (id_->qp)
		rdma_destroy_qp(id_);
	rdma_destroy_id(id_);
}

void Connection::say_private_data_()
{
	if (!setup_.default_private_data)
		return;
	u8 room[rpcordma::private_data::marked_length];
	/* Memory of ours is plain: a Send With Invalidate would cost the connection. */
	rpcordma::private_data::Properties ours = {setup_.message_size, setup_.message_size,
						   setup_.remote_invalidation, setup_.mark};
	u32 length = rpcordma::private_data::encode(room, ours).value();
	setup_.private_data.assign(room, room + length);
}

void Connection::connect(sockaddr_in *from)
{
	state_ = State::resolving;
	if (rdma_resolve_addr(id_, reinterpret_cast<sockaddr *>(from), peer_.address_->ai_dst_addr,
			      5000))
		end_(State::refused, text("resolve address: %s", strerror(errno)));
}

void Connection::accept(const Setup &setup)
{
	setup_ = setup;
	say_private_data_();
	make_queue_pair_();
	rdma_conn_param param = {};
	param.private_data = setup_.private_data.data();
	param.private_data_len = u8(setup_.private_data.size());
	param.initiator_depth = std::min(their_reads_, u8(16));
	param.rnr_retry_count = 7;
	state_ = State::connecting;
	if (rdma_accept(id_, &param))
		end_(State::refused, text("accept: %s", strerror(errno)));
}

void Connection::reject(const Octets &private_data)
{
	rdma_reject(id_, private_data.data(), u8(private_data.size()));
	end_(State::refused, "we rejected it");
}

bool Connection::established(u64 limit_ms)
{
	peer_.run(limit_ms,
		  [&] { return state_ != State::resolving && state_ != State::connecting; });
	return state_ == State::connected;
}

std::string Connection::describe() const
{
	static const char *const names[] = {"not begun", "resolving", "connecting",
					    "connected", "refused",   "connection lost",
					    "asked for"};
	std::string name = names[int(state_)];

	return why_.empty() ? name : name + " (" + why_ + ")";
}

void Connection::make_queue_pair_()
{
	if (id_->verbs != peer_.device_)
		throw Failure{"the other end is behind another RDMA device than the first"};
	ibv_qp_init_attr attributes = {};
	attributes.send_cq = attributes.recv_cq = peer_.cq_;
	attributes.qp_type = IBV_QPT_RC;
	attributes.cap.max_send_wr = setup_.sends;
	attributes.cap.max_recv_wr = setup_.receives;
	attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
	must(rdma_create_qp(id_, peer_.pd_, &attributes), "queue pair");

	receive_buffers_ =
		std::make_unique<Memory>(peer_, size_t(setup_.receives) * setup_.message_size);
	for (u32 slot = 0; slot < setup_.receives; slot++)
		post_receive_(slot);
	send_buffers_.resize(setup_.sends);
	ends_.resize(setup_.sends);
	for (u32 slot = 0; slot < setup_.sends; slot++)
		free_sends_.push_back(slot);
}

void Connection::post_receive_(u32 slot)
{
	Segment at =
		receive_buffers_->segment(size_t(slot) * setup_.message_size, setup_.message_size);
	ibv_sge sge = {at.offset, at.length, receive_buffers_->lkey()};
	ibv_recv_wr wr = {}, *bad;

	wr.wr_id = wr_id_(false, slot);
	wr.sg_list = &sge;
	wr.num_sge = 1;
	must(ibv_post_recv(id_->qp, &wr, &bad), "post a receive");
}

void Connection::event_(const rdma_cm_event &event)
{
	switch (event.event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(id_, 5000))
			end_(State::refused, text("resolve route: %s", strerror(errno)));
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED: {
		make_queue_pair_();
		rdma_conn_param param = {};
		param.private_data = setup_.private_data.data();
		param.private_data_len = u8(setup_.private_data.size());
		param.responder_resources = setup_.responder_resources;
		param.initiator_depth = 0;
		param.retry_count = 6;
		param.rnr_retry_count = 7;
		state_ = State::connecting;
		if (rdma_connect(id_, &param))
			end_(State::refused, text("connect: %s", strerror(errno)));
		break;
	}
	case RDMA_CM_EVENT_ESTABLISHED: {
		auto *data = static_cast<const u8 *>(event.param.conn.private_data);
		if (data)
			their_private_data_.assign(data, data + event.param.conn.private_data_len);
		if (state_ == State::connecting)
			state_ = State::connected;
		break;
	}
	case RDMA_CM_EVENT_DISCONNECTED:
		end_(State::lost, "the other end disconnected");
		/* The answer that the other end waits for; it also flushes the queues. */
		rdma_disconnect(id_);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		end_(state_ == State::connected ? State::lost : State::refused,
		     text("%s, status %d", rdma_event_str(event.event), event.status));
	}
}

void Connection::completion_(const ibv_wc &wc)
{
	u32 slot = u32(wc.wr_id & (send_bit_ - 1));

	if (wc.wr_id & send_bit_) {
		free_sends_.push_back(slot);
		ends_[slot] = wc.status;
	}
	if (wc.status != IBV_WC_SUCCESS) {
		end_(State::lost,
		     text("a %s ended with \"%s\"", wc.wr_id & send_bit_ ? "Send" : "Receive",
			  ibv_wc_status_str(wc.status)));
		return;
	}
	if (wc.wr_id & send_bit_)
		return;
	Received message;
	auto from = receive_buffers_->bytes().begin() + size_t(slot) * setup_.message_size;
	message.bytes.assign(from, from + wc.byte_len);
	message.invalidated = wc.wc_flags & IBV_WC_WITH_INV;
	message.rkey = message.invalidated ? wc.invalidated_rkey : 0;
	inbox_.push_back(std::move(message));
	if (state_ == State::connected || state_ == State::connecting)
		post_receive_(slot);
}

void Connection::end_(State state, const std::string &why)
{
	if (state_ == State::lost || state_ == State::refused)
		return;
	state_ = state;
	why_ = why;
}

/* Post @wr, which is about @bytes; returns the slot that has them. None: there is no connection, or no room. */
std::optional<u32> Connection::post_(ibv_send_wr wr, const Octets &bytes)
{
	peer_.run(10000, [&] { return !free_sends_.empty() || state_ != State::connected; });
	if (free_sends_.empty() || state_ != State::connected)
		return {};
	u32 slot = free_sends_.back();
	free_sends_.pop_back();
	ends_[slot].reset();
	/* Registering takes longer than sending. What had the slot before has ended. */
	if (send_buffers_[slot] && send_buffers_[slot]->bytes().size() == bytes.size())
		std::copy(bytes.begin(), bytes.end(), send_buffers_[slot]->bytes().begin());
	else /* A Memory cannot be empty; a Send can, with no piece of memory at all. */
		send_buffers_[slot] =
			std::make_unique<Memory>(peer_, bytes.empty() ? Octets(1) : bytes);

	Segment all = send_buffers_[slot]->segment();
	ibv_sge sge = {all.offset, u32(bytes.size()), send_buffers_[slot]->lkey()};
	ibv_send_wr *bad;
	wr.wr_id = wr_id_(true, slot);
	wr.sg_list = &sge;
	wr.num_sge = bytes.empty() ? 0 : 1;
	wr.send_flags = IBV_SEND_SIGNALED;
	must(ibv_post_send(id_->qp, &wr, &bad), "post a work request");
	return slot;
}

bool Connection::send(const Octets &message, std::optional<u32> invalidate)
{
	ibv_send_wr wr = {};
	wr.opcode = invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
	if (invalidate)
		wr.invalidate_rkey = *invalidate;
	return post_(wr, message).has_value();
}

/* Between @bytes and what is @there; returns how it ended. */
ibv_wc_status Connection::transfer_(ibv_wr_opcode opcode, const Segment &there, Octets &bytes)
{
	ibv_send_wr wr = {};
	wr.opcode = opcode;
	wr.wr.rdma.remote_addr = there.offset;
	wr.wr.rdma.rkey = there.handle.get();
	auto slot = post_(wr, bytes);
	if (!slot)
		return IBV_WC_WR_FLUSH_ERR;
	/* A connection that is lost flushes its queue. */
	peer_.run(10000, [&] { return ends_[*slot].has_value(); });
	bytes = send_buffers_[*slot]->bytes();
	return ends_[*slot].value_or(IBV_WC_RESP_TIMEOUT_ERR);
}

ibv_wc_status Connection::rdma_write(const Segment &to, Octets bytes)
{
	return transfer_(IBV_WR_RDMA_WRITE, to, bytes);
}

ibv_wc_status Connection::rdma_read(const Segment &from, Octets &bytes)
{
	return transfer_(IBV_WR_RDMA_READ, from, bytes);
}

bool Connection::sent(u64 limit_ms)
{
	peer_.run(limit_ms,
		  [&] { return state_ != State::connected || free_sends_.size() == setup_.sends; });
	return state_ == State::connected && free_sends_.size() == setup_.sends;
}

bool Connection::receive(Received &message, u64 limit_ms)
{
	peer_.run(limit_ms, [&] { return pending() || state_ != State::connected; });
	if (inbox_.empty())
		return false;
	message = std::move(inbox_.front());
	inbox_.pop_front();
	return true;
}

bool Connection::ended(u64 limit_ms)
{
	return peer_.run(limit_ms, [&] { return state_ != State::connected; });
}

void Connection::disconnect()
{
	if (state_ != State::connected && state_ != State::connecting)
		return;
	rdma_disconnect(id_);
	end_(State::lost, "we disconnected");
}

Listener::Listener(Peer &peer) : peer_(peer)
{
	must(rdma_create_id(peer_.events_, &id_, this, RDMA_PS_TCP), "listener");
	must(rdma_bind_addr(id_, peer_.address_->ai_dst_addr), "bind the listener");
	must(rdma_listen(id_, 64), "listen");
}

Listener::~Listener()
{
	asked_.clear();
	rdma_destroy_id(id_);
}

std::unique_ptr<Connection> Listener::next()
{
	auto first = std::move(asked_.front());
	asked_.pop_front();
	return first;
}

} // namespace verbs
