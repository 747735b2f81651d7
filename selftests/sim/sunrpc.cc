// SPDX-License-Identifier: GPL-2.0-only
/* Transports and tasks. See sunrpc.hh. */
#include "selftests/sim/sunrpc.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

using namespace sim;

static constexpr u64 kReestablish = 5 * kSecond, kMostReestablish = 60 * kSecond;

namespace sim {

void *core_half(void *at)
{
	return reinterpret_cast<void *>((reinterpret_cast<u64>(at) + 63) & ~u64(63));
}

void unpin_locked(rpc_rqst &rqst)
{
	REQUIRE(rqst.pins, "a request is unpinned that is not pinned");
	if (!--rqst.pins)
		rqst.xprt->unpinned.wake_all();
}

/* What a peer could still reach of the call's memory. */
void require_unmapped(const rpcordma_xdr_buf &buf, const char *which)
{
	bool mapped = dma_is_mapped(buf.head.base, u32(buf.head.length)) ||
		      dma_is_mapped(buf.tail.base, u32(buf.tail.length));

	for (u32 at = buf.page_base; at < buf.page_base + buf.page_length;
	     at += kPageSize - at % kPageSize)
		mapped = mapped || (buf.pages[at / kPageSize] && buf.pages[at / kPageSize]->mapped);
	REQUIRE(!mapped, "a call ends while a device can reach its %s buffer", which);
}

} // namespace sim

/* --- what has the transport's locks --- */

void rpc_xprt::unlock_locked()
{
	sender = nullptr;
	if (close_wait) {
		cleanup.queue();
		return;
	}
	locked = false;
	unlocked.wake_all();
}

void rpc_xprt::next_sender_locked(bool of_credits)
{
	if (locked)
		return;
	locked = true;
	if (!write_space_wait && !(of_credits && congestion_wait) && !sending.empty()) {
		Task *next = sending.front();

		sender = next;
		next->wake(0);
		return;
	}
	unlock_locked();
}

void rpc_xprt::put_credit_locked(rpc_rqst &rqst)
{
	if (!rqst.cong)
		return;
	rqst.cong = false;
	REQUIRE(in_flight, "a credit is given back that nobody has");
	in_flight--;
	if (in_flight < window)
		congestion_wait = false;
	next_sender_locked();
}

void rpc_xprt::disconnect_locked()
{
	if (close_wait)
		return;
	close_wait = true;
	if (!locked) {
		locked = true;
		cleanup.queue();
	} else if (sender && !sender_is_cookie) {
		auto *task = static_cast<Task *>(const_cast<void *>(sender));

		if (std::find(pending.begin(), pending.end(), task) != pending.end())
			task->wake(-ENOTCONN);
	}
}

void rpc_xprt::conditional_disconnect(u32 cookie)
{
	Hold hold(transport_lock);

	if (cookie == connect_cookie)
		disconnect_locked();
}

void rpc_xprt::disconnect_done()
{
	Hold hold(transport_lock);

	connected = false;
	if (write_space_wait) {
		write_space_wait = false;
		next_sender_locked(false);
	}
	if (congestion_wait) {
		congestion_wait = false;
		next_sender_locked();
	}
	wake_pending(-ENOTCONN);
}

void rpc_xprt::wake_pending(int status)
{
	while (!pending.empty())
		pending.front()->wake(status);
}

void rpc_xprt::release_write(const void *who)
{
	if (sender != who)
		return;
	Hold hold(transport_lock);
	/* As xprt_release_xprt_cong(). */
	if (sender == who) {
		unlock_locked();
		next_sender_locked();
	}
}

/* --- life --- */

rpc_xprt::rpc_xprt(const char *name)
	: peer{name},
	  as_in_6_1(chance.one_in(2)),
	  next_xid(u32(chance.next())),
	  connect("connect worker",
		  [this] {
			  reestablish = std::max(reestablish, kReestablish);
			  versions.connecting();
			  const int rc = rpcordma_core_client_connect(core);

			  TRACE("%s: connect: %d", peer.name, rc);
			  versions.connected(
				  rc ? 0 : u32(rpcordma_core_client_stats(core)->agreed.version));
			  connecting = false;
			  if (!rc) {
				  connect_cookie++;
				  connects++;
				  connected = true;
			  }
			  wake_pending(rc ? rc : -EAGAIN);
			  Hold hold(transport_lock);
			  sender_is_cookie = false;
			  sender = nullptr;
			  unlock_locked();
			  next_sender_locked();
		  }),
	  refill("refill worker", [this] { rpcordma_core_client_refill(core); }),
	  check("check worker", [this] { rpcordma_core_client_check(core); }),
	  cleanup("close worker", [this] {
		  connect_cookie++;
		  close_wait = false;
		  rpcordma_core_client_close(core);
		  release_write(nullptr);
	  })
{
}

rpc_xprt::~rpc_xprt() = default;

rpc_xprt *rpc_xprt::create(const char *name)
{
	auto *xprt = new rpc_xprt(name);

	xprt->core_place = allocate(u32(rpcordma_core_client_size() + 63), RPCORDMA_ALLOC_NOIO);
	if (xprt->core_place) {
		xprt->core = static_cast<rpcordma_client *>(core_half(xprt->core_place));
		if (!rpcordma_core_client_create(xprt->core, xprt,
						 rpcordma_tunables.slot_table_entries))
			return xprt;
		release(xprt->core_place);
	}
	delete xprt;
	return nullptr;
}

void rpc_xprt::close_idle()
{
	if (!receive_queue.empty() || locked)
		return;
	locked = true;
	cleanup.queue();
}

void rpc_xprt::destroy()
{
	rpcordma_bc_rqst_done(this);
	/* Its last reference goes with the last backward call. */
	while (references)
		(void)wait(references_fell, "a transport's references");
	for (;;) {
		{
			Hold hold(transport_lock);
			if (!locked) {
				locked = true;
				break;
			}
		}
		(void)wait(unlocked, "the send lock, for good", kSecond);
	}
	cleanup.cancel_sync();
	rpcordma_core_bc_destroy(core, ~0u);
	connect.cancel_sync();
	rpcordma_core_client_close(core);
	cleanup.cancel_sync();
	refill.cancel_sync();
	check.cancel_sync();
	rpcordma_core_client_destroy(core);
	REQUIRE(receive_queue.empty() && transmit_queue.empty() && backward_calls.empty(),
		"a transport goes with calls on its queues");
	release(core_place);
	delete this;
}

namespace sim {

std::set<u32> dropped_calls;

/* --- tasks --- */

Task::Task(rpc_xprt &xprt, rpc_rqst &backward) : xprt_(xprt), rqst_(&backward)
{
}

void Task::wake(int with)
{
	switch (queue_) {
	case Queue::none:
		return;
	case Queue::sending:
		xprt_.sending.erase(std::find(xprt_.sending.begin(), xprt_.sending.end(), this));
		break;
	case Queue::backlog:
		/* The transport stays congested, though maybe nobody waits: xprt_wake_up_backlog() says. */
		xprt_.backlog.erase(std::find(xprt_.backlog.begin(), xprt_.backlog.end(), this));
		break;
	case Queue::pending:
		xprt_.pending.remove(this);
		break;
	}
	queue_ = Queue::none;
	if (with)
		status = with;
	woken_.wake_all();
}

void Task::kill()
{
	if (killed_)
		return;
	killed_ = true;
	TRACE("xid %#x is given up", xid());
	wake(-ERESTART);
}

/* With the task on @queue, which the caller saw to. False: killed, or timed out. */
bool Task::sleep_(Queue queue, const char *why, u64 limit)
{
	if (killed_ && queue_ == queue)
		wake(-ERESTART);
	const u64 end = limit == kForever ? kForever : now() + limit;
	while (queue_ != Queue::none) {
		if (limit == kForever) {
			(void)sim::wait(woken_, why);
			continue;
		}
		if (now() >= end || !sim::wait(woken_, why, end - now())) {
			if (queue_ == Queue::none)
				break;
			wake(-ETIMEDOUT);
			return false;
		}
	}
	return !killed_;
}

/* With reserve_lock. */
void Task::join_backlog_locked_()
{
	xprt_.congested = true;
	queue_ = Queue::backlog;
	xprt_.backlog.push_back(this);
}

/* xprt_throttle_congested(): behind those that wait, without a look at the slots. */
bool Task::throttle_()
{
	if (!xprt_.congested)
		return false;
	Hold hold(xprt_.reserve_lock);
	if (!xprt_.congested)
		return false;
	join_backlog_locked_();
	return true;
}

/* client_alloc_slot() of compat/linux/xprt.c. False: the task waits for a slot. */
bool Task::alloc_slot_()
{
	rqst_ = rpcordma_core_alloc_slot(xprt_.core);
	if (rqst_)
		return true;
	{
		Hold hold(xprt_.reserve_lock);
		join_backlog_locked_();
	}
	if (rpc_rqst *rqst = rpcordma_core_alloc_slot(xprt_.core))
		rpcordma_core_free_slot(xprt_.core, rpcordma_rqst_call(rqst));
	return false;
}

/* xprt_reserve(), and xprt_retry_reserve() from then on. */
bool Task::reserve_()
{
	for (bool first = true; !rqst_; first = false) {
		if (killed_)
			return false;
		if ((first && throttle_()) || !alloc_slot_())
			(void)sleep_(Queue::backlog, "a slot");
	}
	REQUIRE(!rqst_->task && !rqst_->xid && !rqst_->cong, "a slot is handed out that is in use");
	rqst_->xprt = &xprt_;
	rqst_->task = this;
	rqst_->xid = xprt_.next_xid++;
	rqst_->connect_cookie = xprt_.connect_cookie - 1;
	rqst_->ddp_allowed = procedure_->ddp_allowed;
	return true;
}

bool Task::allocate_()
{
	while (!killed_) {
		const int rc = rpcordma_core_buf_alloc(xprt_.core, rpcordma_rqst_call(rqst_),
						       procedure_->call_size, procedure_->reply_size,
						       &rqst_->buffer, &rqst_->reply_buffer);
		if (!rc)
			return true;
		REQUIRE(rc == -ENOMEM, "buf_alloc: %d", rc);
		sleep_for(62 * kMillisecond, "memory");
	}
	return false;
}

/* xprt_request_dequeue_xprt(): off both queues, once nobody uses the request. */
void Task::dequeue_()
{
	Hold hold(xprt_.queue_lock);

	while (rqst_->pins) {
		xprt_.queue_lock.release();
		if (rqst_->pins)
			(void)sim::wait(xprt_.unpinned, "a pinned request", kSecond);
		xprt_.queue_lock.acquire();
	}
	if (rqst_->need_transmit)
		xprt_.transmit_queue.remove(rqst_);
	if (rqst_->need_receive)
		xprt_.receive_queue.erase(rqst_->xid);
	rqst_->need_transmit = rqst_->need_receive = false;
}

/* rpc_task_need_encode() */
bool Task::need_encode_() const
{
	return !rqst_->need_transmit &&
	       (!rqst_->sent || retransmits_ || rqst_->connect_cookie != xprt_.connect_cookie ||
		!xprt_.connected);
}

/* call_encode(): the call is made once more, and nobody finds it meanwhile. */
void Task::encode_()
{
	if (!need_encode_())
		return;
	dequeue_();
	/* gss_wrap_req_priv(); the glue has it ask before, and gives back the send lock, which the task may have been given. */
	if (!procedure_->ddp_allowed) {
		xprt_.release_write(this);
		/* Its memory goes, until it is sent again. */
		if (rqst_->sent)
			given_up.insert(rqst_->xid);
		rpcordma_core_buf_free(xprt_.core, rpcordma_rqst_call(rqst_));
		procedure_->replace_pages();
	}
	if (rqst_->sent)
		procedure_->move_border(receive_);
	rqst_->send = send_;
	rqst_->receive = receive_;
	rqst_->reply_bytes = 0;
	port_call();
	{
		Hold hold(xprt_.queue_lock);

		rqst_->private_buf = receive_;
		rqst_->need_receive = true;
		REQUIRE(xprt_.receive_queue.emplace(rqst_->xid, rqst_).second,
			"an xid is used twice");
	}
	enqueue_transmit_();
}

/* xprt_request_enqueue_transmit() */
void Task::enqueue_transmit_()
{
	if (rqst_->need_transmit)
		return;
	Hold hold(xprt_.queue_lock);
	rqst_->need_transmit = true;
	/* Those that have a credit go first, and nobody waits for one before they went. */
	auto at = xprt_.transmit_queue.end();
	if (rqst_->cong) {
		if (xprt_.congestion_wait) {
			Hold inner(xprt_.transport_lock);
			xprt_.congestion_wait = false;
			xprt_.next_sender_locked();
		}
		at = xprt_.transmit_queue.begin();
		while (at != xprt_.transmit_queue.end() && (*at)->cong)
			++at;
	}
	xprt_.transmit_queue.insert(at, rqst_);
}

/* xprt_reserve_xprt_cong(); false: the task was asleep, and is to look again. */
bool Task::lock_write_()
{
	{
		Hold hold(xprt_.transport_lock);

		if (xprt_.locked && xprt_.sender == this)
			return true;
		if (!xprt_.locked && !xprt_.write_space_wait && !xprt_.congestion_wait) {
			xprt_.locked = true;
			xprt_.sender = this;
			return true;
		}
		if (!xprt_.locked) {
			xprt_.locked = true;
			xprt_.unlock_locked();
		}
		queue_ = Queue::sending;
		xprt_.sending.push_back(this);
	}
	/* Somebody may have sent it meanwhile. */
	if (!rqst_->need_transmit && queue_ == Queue::sending)
		wake(0);
	(void)sleep_(Queue::sending, "the send lock or a credit",
		     (procedure_ ? soft_ : !xprt_.as_in_6_1) ? kReplyTimeout : kForever);
	return false;
}

void Task::connect_()
{
	if (!lock_write_())
		return;
	if (!xprt_.connected && !xprt_.close_wait) {
		rqst_->connect_cookie = xprt_.connect_cookie;
		queue_ = Queue::pending;
		xprt_.pending.push_back(this);
		if (!xprt_.connecting) {
			xprt_.connecting = true;
			if (!xprt_.connected) {
				u64 delay = 0;
				{
					Hold hold(xprt_.transport_lock);
					xprt_.sender = &xprt_;
					xprt_.sender_is_cookie = true;
				}
				if (rpcordma_core_client_should_back_off(xprt_.core)) {
					delay = xprt_.reestablish;
					xprt_.reestablish =
						std::min(std::max(2 * delay, kReestablish),
							 kMostReestablish);
				}
				xprt_.connect.queue(delay);
			} else {
				xprt_.connecting = false;
				wake(0);
			}
		}
		(void)sleep_(Queue::pending, "a connection", kReplyTimeout);
	}
	xprt_.release_write(this);
}

/* call_connect_status(), of a connection that there is not. */
void Task::sort_out_connect_()
{
	switch (status) {
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -ECONNABORTED:
	case -ENETDOWN:
	case -ENETUNREACH:
	case -EHOSTUNREACH:
	case -EPIPE:
	case -EPROTO:
		xprt_.conditional_disconnect(rqst_->connect_cookie);
		sleep_for(3 * kSecond, "another attempt to connect");
		break;
	case -ENOBUFS:
		sleep_for(250 * kMillisecond, "a little later");
		break;
	}
}

/* xprt_request_transmit(): 0, or what send_request() says. */
int Task::transmit_one_(rpc_rqst &rqst)
{
	int rc = 0;

	if (xprt_.close_wait && !xprt_.as_in_6_1)
		return -ENOTCONN;
	/* One that failed is sent all the same: the task has not seen that yet. */
	const bool answered = !rqst.backward && !rqst.need_receive && rqst.reply_bytes;
	const bool killed = !answered && rqst.task->killed_;
	if (!answered && !killed) {
		const u32 cookie = xprt_.connect_cookie;

		rc = rqst.backward ?
			     rpcordma_core_bc_send_reply(xprt_.core, rpcordma_rqst_call(&rqst)) :
			     rpcordma_core_send_request(xprt_.core, rpcordma_rqst_call(&rqst));
		TRACE("xid %#x is sent: %d", rqst.xid, rc);
		if (rc)
			return rc;
		rqst.sent = true;
		given_up.erase(rqst.xid);
		rqst.connect_cookie = cookie;
	}
	Hold hold(xprt_.queue_lock);
	if (rqst.need_transmit) {
		rqst.need_transmit = false;
		xprt_.transmit_queue.remove(&rqst);
	}
	if (rqst.task != this)
		rqst.task->wake_if(Queue::sending);
	/* sunrpc gives the sender -ERESTARTSYS then, whoever was killed; here it tries again. */
	return killed ? -EAGAIN : 0;
}

/* xprt_transmit(): with the send lock, this request and those of others. */
void Task::transmit_()
{
	xprt_.queue_lock.acquire();
	while (!xprt_.transmit_queue.empty()) {
		rpc_rqst &next = *xprt_.transmit_queue.front();

		next.pins++;
		xprt_.queue_lock.release();
		const int rc = transmit_one_(next);
		xprt_.queue_lock.acquire();
		unpin_locked(next);
		if (rc < 0) {
			if (rqst_->need_transmit)
				status = rc;
			break;
		}
		if (!rqst_->need_transmit && !rqst_->need_receive && rqst_->reply_bytes)
			break;
	}
	xprt_.queue_lock.release();
}

/* xprt_request_wait_receive() */
void Task::wait_for_reply_()
{
	{
		Hold hold(xprt_.queue_lock);

		if (!rqst_->need_receive)
			return;
		queue_ = Queue::pending;
		xprt_.pending.push_back(this);
		if (rqst_->connect_cookie != xprt_.connect_cookie || !xprt_.connected)
			wake(-ENOTCONN);
	}
	if (sleep_(Queue::pending, "a reply", kReplyTimeout) || killed_)
		return;
	/* xprt_timer() */
	if (rqst_->reply_bytes) {
		status = 0;
		return;
	}
	/* A call that is dropped is missed once. */
	REQUIRE(!rqst_->need_receive || fabric->strangers || dropped_calls.erase(rqst_->xid),
		"no reply to xid %#x, and nobody says why", rqst_->xid);
	rpcordma_xprt_force_disconnect(&xprt_);
}

/* xprt_release() */
void Task::release_()
{
	if (rqst_->need_receive)
		given_up.insert(rqst_->xid);
	dequeue_();
	{
		Hold hold(xprt_.transport_lock);

		if (xprt_.sender == this) {
			xprt_.unlock_locked();
			xprt_.next_sender_locked();
		}
		if (!rqst_->backward &&
		    rpcordma_core_release_credit(xprt_.core, rpcordma_rqst_call(rqst_)))
			xprt_.put_credit_locked(*rqst_);
	}
	rpc_rqst *rqst = rqst_;
	if (rqst->backward) {
		rqst->task = nullptr;
		rqst_ = nullptr;
		rpcordma_core_bc_free(xprt_.core, rpcordma_rqst_call(rqst));
		return;
	}
	if (rqst->buffer) {
		rpcordma_core_buf_free(xprt_.core, rpcordma_rqst_call(rqst));
		require_unmapped(send_, "send");
		require_unmapped(receive_, "receive");
		/* Whatever comes in now is late. */
		const u8 junk = u8(chance.next());
		auto spoil = [&](u8 *at, u32 length) { std::memset(at, junk, length); };
		(void)each_piece(&send_, 0, send_.len, spoil);
		/* Absent pages of a sparse buffer are not spoilt. */
		std::memset(receive_.head.base, junk, receive_.head.length);
	}
	rqst->task = nullptr;
	rqst_ = nullptr;
	rpcordma_core_free_slot(xprt_.core, rpcordma_rqst_call(rqst));
}

int Task::run()
{
	if (!procedure_)
		return run_backward_();
	if (!reserve_())
		return -ERESTART;
	if (allocate_()) {
		procedure_->encode(*rqst_);
		send_ = rqst_->send;
		receive_ = rqst_->receive;
	}
	/* The next step is call_encode(), and not only call_bind() or call_transmit(). */
	bool encode = true;
	while (!killed_) {
		status = 0;
		if (encode)
			encode_();
		encode = false;
		if (rqst_->need_transmit && !xprt_.connected) {
			connect_();
			if (!xprt_.connected && soft_ && status && status != -EAGAIN &&
			    status != -ENOTCONN && chance.one_in(4)) {
				gave_up_ = true;
				break;
			}
			if (!xprt_.connected)
				sort_out_connect_();
			continue;
		}
		if (rqst_->need_transmit) {
			if (!lock_write_()) {
				/* Nobody let it send in so long. */
				if (status == -ETIMEDOUT && !xprt_.connected) {
					gave_up_ = true;
					break;
				}
				encode = status == -ETIMEDOUT;
				continue;
			}
			/* The lock is kept, to connect. */
			if (rqst_->need_transmit && !xprt_.connected)
				continue;
			if (rqst_->need_transmit)
				transmit_();
			xprt_.release_write(this);
			if (rqst_->need_transmit) {
				if (status == -ENOBUFS)
					sleep_for(250 * kMillisecond, "a little later");
				else if (status != -EAGAIN && status != -57 &&
					 status != -ENOTCONN && status)
					break; /* for good */
				continue;
			}
		} else {
			/* As rpc_task_handle_transmitted(): the lock may have come meanwhile. */
			xprt_.release_write(this);
		}
		/* A status of an earlier end is lost when it comes before the task sleeps. */
		status = 0;
		wait_for_reply_();
		if (killed_)
			break;
		encode = true;
		/* As call_status(): an answer that came behind such a status is not looked at. */
		if (status == -ENOTCONN || status == -EAGAIN || status == -ETIMEDOUT)
			continue;
		if (status < 0 || rqst_->reply_bytes)
			break;
		/* call_decode(): it failed, and the task does not know how. */
		if (!retransmits_)
			xprt_.conditional_disconnect(rqst_->connect_cookie);
	}
	if (killed_)
		status = -ERESTART;
	else if (!status)
		procedure_->decode(rqst_->private_buf, u32(rqst_->reply_bytes));
	const int result = status;
	release_();
	return result;
}

/* call_bc_transmit(): once, or until there is room. */
int Task::run_backward_()
{
	rqst_->task = this;
	rqst_->connect_cookie = xprt_.connect_cookie - 1;
	rqst_->sent = false;
	enqueue_transmit_();
	while (rqst_->need_transmit) {
		status = 0;
		/* Nobody looks whether there is a connection, nor do calls of others that go first. */
		if (!lock_write_()) {
			if (status != -ETIMEDOUT)
				continue;
			xprt_.conditional_disconnect(rqst_->connect_cookie);
			break;
		}
		if (rqst_->need_transmit)
			transmit_();
		xprt_.release_write(this);
		if (!rqst_->need_transmit)
			break;
		if (status == -ENOBUFS)
			sleep_for(250 * kMillisecond, "a little later");
		else if (status != -EAGAIN && status != -57)
			break;
	}
	const int result = status;
	release_();
	return result;
}

} // namespace sim
