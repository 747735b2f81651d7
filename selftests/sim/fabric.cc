// SPDX-License-Identifier: GPL-2.0-only
/* Devices and queue pairs. See fabric.hh. */
#include "selftests/sim/fabric.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kunit/completion.hh"
#include "module/protocol/reduction.hh"
#include "selftests/sim/stranger.hh"
#include "xdr/rtrext.hh"

/* ib_sg_to_pages(), or KLMs where there may be gaps. */
bool ib_mr::set_runs(const std::vector<sim::Scatter::Run> &from)
{
	const sim::u32 page = device->limits.mr_page_size;
	sim::u32 used = 0;

	next = {};
	for (std::size_t i = 0; i < from.size(); i++) {
		const sim::u64 start = from[i].address, end = start + from[i].length;

		if (!gaps && ((i && start % page) || (i + 1 < from.size() && end % page)))
			return false;
		used += gaps ? 1 : sim::u32((end + page - 1) / page - start / page);
		next.runs.push_back({start, from[i].length});
		next.length += from[i].length;
	}
	next.iova = from.empty() ? 0 : from[0].address;
	return used <= pages;
}

namespace sim {

/* Of enum ib_wc_status, besides the port's. */
static constexpr int kLocalLength = 1, kLocalProtection = 4, kRetryExceeded = 12,
		     kReceiverNotReady = 13;
static constexpr u32 kLocalKey = 0x1;

namespace {

u32 word(const u8 *message, u32 index)
{
	const u8 *at = message + 4 * index;

	return u32(at[0]) << 24 | u32(at[1]) << 16 | u32(at[2]) << 8 | at[3];
}

using Message = rpcordma::xdr::Message;
using MessageKind = rpcordma::xdr::Kind;

bool has_chunks(const Message &message)
{
	return message.kind == MessageKind::nomsg || message.has_chunks();
}

/* Whether a message without chunks says that it is a call. */
bool is_call(const Message &message)
{
	return message.kind == MessageKind::msg && !message.has_chunks() &&
	       message.direction == rpcordma::xdr::Direction::call;
}

/* It is not a message's first transmission. */
bool is_continuation(const Message &message)
{
	return message.transmission != 0;
}

bool is_last(const Message &message)
{
	return message.transmission + 1 == message.transmissions;
}

/* It is about the connection, in version 2. */
bool is_control(const Message &message)
{
	return message.kind > MessageKind::error;
}

} // namespace

std::set<u32> given_up;

/* A thread has made the Receives by then that a completion had no memory for, or failed again. */
static constexpr u64 kMemoryExcuse = 30 * kSecond;

u64 fabric_delay()
{
	if (faults.strikes(faults.slowness))
		return chance.below(faults.patience * kMillisecond);
	return chance.one_in(2) ? 0 : chance.below(100);
}

/* --- devices --- */

Device::Device(std::string name_) : name(std::move(name_))
{
	/* Keys start anywhere, and zero is none. */
	mrs_.resize(1 + chance.below(64));
}

Device::~Device()
{
	for (ib_mr *mr : mrs_)
		REQUIRE(!mr, "a memory region is left");
	REQUIRE(!users, "an endpoint is left");
}

ib_mr *Device::create_mr(u32 pages, bool gaps)
{
	REQUIRE(pages && pages <= limits.max_fast_reg_pages, "a region of %u pages", pages);
	REQUIRE(!gaps || limits.sg_gaps, "a region with gaps, which the device has not");
	ib_mr *mr = new ib_mr{this, pages, gaps, u32(mrs_.size()) << 8, {}, false, 0, 0, {}};
	mrs_.push_back(mr);
	return mr;
}

void Device::destroy_mr(ib_mr *mr)
{
	REQUIRE(mrs_[mr->key >> 8] == mr, "a region is destroyed twice");
	mrs_[mr->key >> 8] = nullptr;
	delete mr;
}

ib_mr *Device::find(u32 key, bool or_was)
{
	ib_mr *mr = key >> 8 < mrs_.size() ? mrs_[key >> 8] : nullptr;

	return mr && (mr->valid || or_was) && mr->valid_key == key ? mr : nullptr;
}

void Device::require_unreachable(u32 xid) const
{
	for (const ib_mr *mr : mrs_)
		REQUIRE(!mr || !mr->valid || u32(mr->now.iova >> 32) != xid ||
				!(mr->access &
				  (RPCORDMA_ACCESS_REMOTE_READ | RPCORDMA_ACCESS_REMOTE_WRITE)),
			"xid %#x ends while its peer can reach its memory by key %#x", xid,
			mr->valid_key);
}

/* Bytes of a region's content, which must be within it. */
static void region_access(const ib_mr::Content &content, u64 offset, u32 length, u8 *buffer,
			  Access access)
{
	for (const ib_mr::Run &run : content.runs) {
		if (offset >= run.length) {
			offset -= run.length;
			continue;
		}
		const u32 n = u32(std::min<u64>(run.length - offset, length));

		dma_access(run.address + offset, n, buffer, access);
		buffer += n;
		length -= n;
		offset = 0;
		if (!length)
			return;
	}
}

/* --- completion queues --- */

void Cq::push(Qp &qp, const Completion &completion)
{
	REQUIRE(entries_.size() < room_, "%s overflows", name_.c_str());
	REQUIRE(!closed_, "%s is gone", name_.c_str());
	qp_ = qp.shared_from_this();
	entries_.push_back(completion);
	if (polled_)
		return;
	polled_ = true;
	spawn(name_, Context::completion, [self = shared_from_this()] { self->poll_(); });
}

static void dispatch(void *context, rpcordma_completion what)
{
	rpcordma::leave_unset(what, ~0u);
	switch (rpcordma::kind_of(*what.cqe)) {
	case RPCORDMA_CQE_SEND:
		return rpcordma_core_send_done(context, &what);
	case RPCORDMA_CQE_RECEIVE:
		return rpcordma_core_receive_done(context, &what);
	case RPCORDMA_CQE_REGISTER:
		return rpcordma_core_register_done(context, &what);
	case RPCORDMA_CQE_INVALIDATE:
		return rpcordma_core_invalidate_done(context, &what);
	case RPCORDMA_CQE_GATHERED:
		return rpcordma_core_gathered_done(context, &what);
	case RPCORDMA_CQE_SERVER_RECEIVE:
		return rpcordma_core_server_receive_done(context, &what);
	case RPCORDMA_CQE_SERVER_SEND:
		return rpcordma_core_server_send_done(context, &what);
	case RPCORDMA_CQE_SERVER_READ:
		return rpcordma_core_server_read_done(context, &what);
	case RPCORDMA_CQE_SERVER_CHAIN:
		return rpcordma_core_server_chain_done(context, &what);
	default:
		fail("a completion entry that was not initialised");
	}
}

void Cq::poll_()
{
	while (!entries_.empty()) {
		Completion completion = entries_.front();
		const auto qp = qp_;

		entries_.pop_front();
		(this == qp->send_cq.get() ? qp->send_used : qp->receive_used) -= completion.slots;
		if (completion.drained) {
			*completion.drained = true;
			changed_.wake_all();
			continue;
		}
		TRACE("%s: status %d", name_.c_str(), completion.what.status);
		if (!completion.what.status && qp->arrived_.count(completion.what.cqe)) {
			const auto message = std::move(qp->arrived_[completion.what.cqe]);
			qp->arrived_.erase(completion.what.cqe);
			qp->overhear_completion_(completion, message);
		}
		dispatch(context_, completion.what);
		port_call();
	}
	polled_ = false;
	changed_.wake_all();
}

void Cq::wait_for(const bool &drained)
{
	while (!drained)
		(void)wait(changed_, "the drain");
}

void Cq::close()
{
	while (polled_)
		(void)wait(changed_, "the last completions");
	closed_ = true;
	qp_.reset();
}

/* --- queue pairs: what is posted --- */

Qp::Qp(Device *device_, std::string name_, bool server_, void *context,
       const rpcordma_queue_sizes &sizes)
	: device(device_),
	  name(std::move(name_)),
	  server(server_),
	  send_cq(std::make_shared<Cq>(name + " send cq", sizes.send_wrs + 1, context)),
	  receive_cq(std::make_shared<Cq>(name + " receive cq", sizes.receive_wrs + 1, context)),
	  send_room_(sizes.send_wrs),
	  receive_room_(sizes.receive_wrs),
	  most_sges_(sizes.send_sges),
	  most_receive_sges_(sizes.receive_sges)
{
	REQUIRE(sizes.send_wrs + 1 <= device->limits.max_qp_wr &&
			sizes.receive_wrs + 1 <= device->limits.max_qp_wr,
		"queues of %u and %u: the device has %u", sizes.send_wrs, sizes.receive_wrs,
		device->limits.max_qp_wr);
	REQUIRE(sizes.send_wrs + 1 <= device->limits.max_cqe &&
			sizes.receive_wrs + 1 <= device->limits.max_cqe,
		"completion queues are too long for the device");
	REQUIRE(sizes.send_sges <= device->limits.max_send_sge &&
			sizes.receive_sges <= device->limits.max_recv_sge,
		"too many SGEs for the device");
}

int Qp::post_send(const rpcordma_send_wr *first, const rpcordma_send_wr **bad)
{
	REQUIRE(state == State::connected || state == State::error,
		"%s: posted before it is connected", name.c_str());
	for (const rpcordma_send_wr *wr = first; wr; wr = wr->next) {
		*bad = wr;
		REQUIRE(!drained_sends_, "%s: posted after the drain", name.c_str());
		if (faults.strikes(faults.posting)) {
			faults.posting_failures++;
			kick_();
			return -ENOMEM;
		}
		REQUIRE(send_used < send_room_, "%s: the send queue overflows", name.c_str());
		auto entry = std::make_shared<SendEntry>();
		entry->opcode = wr->opcode;
		entry->flags = wr->send_flags;
		entry->cqe = wr->cqe;
		REQUIRE(wr->num_sge >= 0 && u32(wr->num_sge) <= most_sges_, "%s: %d SGEs",
			name.c_str(), wr->num_sge);
		switch (wr->opcode) {
		case RPCORDMA_WR_RDMA_READ_WITH_INV:
			REQUIRE(device->limits.read_needs_region && wr->num_sge == 1 &&
					wr->sg_list->lkey == wr->invalidate_rkey,
				"%s: Read With Invalidate of key %#x", name.c_str(),
				wr->invalidate_rkey);
			[[fallthrough]];
		case RPCORDMA_WR_RDMA_READ:
			REQUIRE(u32(wr->num_sge) <= device->limits.max_sge_rd,
				"a Read with %d SGEs", wr->num_sge);
			for (int i = 0; i < wr->num_sge; i++)
				REQUIRE(wr->sg_list[i].lkey != kLocalKey ||
						!dma_is_others(wr->sg_list[i].addr,
							       wr->sg_list[i].length),
					"%s: a Read is posted into a page that somebody else has",
					name.c_str());
			[[fallthrough]];
		case RPCORDMA_WR_RDMA_WRITE: {
			const auto *rdma = reinterpret_cast<const rpcordma_rdma_wr *>(wr);
			entry->remote_address = rdma->remote_addr;
			entry->key = rdma->rkey;
			break;
		}
		case RPCORDMA_WR_REG_MR: {
			const auto *reg = reinterpret_cast<const rpcordma_reg_wr *>(wr);
			entry->mr = reg->mr;
			entry->key = reg->key;
			entry->access = reg->access;
			entry->content = reg->mr->next;
			break;
		}
		case RPCORDMA_WR_LOCAL_INV:
		case RPCORDMA_WR_SEND_WITH_INV:
			entry->key = wr->invalidate_rkey;
			break;
		case RPCORDMA_WR_SEND:
			break;
		default:
			fail("%s: opcode %d", name.c_str(), wr->opcode);
		}
		if (wr->opcode != RPCORDMA_WR_REG_MR && wr->opcode != RPCORDMA_WR_LOCAL_INV)
			entry->sges.assign(wr->sg_list, wr->sg_list + wr->num_sge);
		for (const rpcordma_sge &sge : entry->sges)
			entry->length += sge.length;
		if (wr->opcode == RPCORDMA_WR_SEND || wr->opcode == RPCORDMA_WR_SEND_WITH_INV) {
			u32 at = 0;

			entry->message.resize(entry->length);
			gather_(*entry, 0, entry->length, entry->message.data());
			for (const rpcordma_sge &sge : entry->sges) {
				if (entry->lent_from == ~0u && dma_is_lent(sge.addr))
					entry->lent_from = at;
				at += sge.length;
			}
			VersionTalk::gathered += entry->lent_from != ~0u;
			overhear_post_(*entry);
		}
		send_used++;
		sends_.push_back(entry);
	}
	kick_();
	return 0;
}

static u32 receive_length(const rpcordma_recv_wr &wr)
{
	u32 sum = 0;

	for (int i = 0; i < wr.num_sge; i++)
		sum += wr.sg_list[i].length;
	return sum;
}

int Qp::post_receive(const rpcordma_recv_wr *first)
{
	for (const rpcordma_recv_wr *wr = first; wr; wr = wr->next) {
		REQUIRE(!drained_receives_, "%s: a Receive is posted after the drain", name.c_str());
		if (state == State::error && faults.strikes(faults.posting))
			return -EINVAL;
		REQUIRE(receive_used < receive_room_, "%s: the receive queue overflows",
			name.c_str());
		REQUIRE(wr->num_sge >= 1 && u32(wr->num_sge) <= most_receive_sges_,
			"a Receive with %d SGEs", wr->num_sge);
		REQUIRE(!server || !conversation ||
				receive_length(*wr) >= conversation->versions->told,
			"%s: a small Receive, though the client knows of larger ones", name.c_str());
		for (int i = 0; i < wr->num_sge; i++)
			REQUIRE(!dma_is_others(wr->sg_list[i].addr, wr->sg_list[i].length),
				"%s: a Receive is posted into a page that somebody else has",
				name.c_str());
		for (const ReceiveEntry &other : receives_)
			REQUIRE(other.cqe != wr->cqe, "%s: a Receive is posted that is posted",
				name.c_str());
		receive_used++;
		receives_.push_back({wr->cqe, {wr->sg_list, wr->sg_list + wr->num_sge}, nullptr});
	}
	changed_.wake_all();
	if (state == State::error)
		kick_();
	return 0;
}

void Qp::set_error()
{
	if (state == State::error)
		return;
	TRACE("%s: error state", name.c_str());
	state = State::error;
	if (!server && conversation)
		conversation->versions->lost();
	changed_.wake_all();
	kick_();
}

/* The markers have an entry of their own in each queue, beyond what the core asked for. */
void Qp::drain()
{
	bool sends = false, receives = false, again = false;

	set_error();
	auto drain_receives = [&](bool &done) {
		receives_.push_back({nullptr, {}, &done});
		kick_();
		receive_cq->wait_for(done);
	};
	drain_receives(receives);
	auto marker = std::make_shared<SendEntry>();
	marker->drained = &sends;
	sends_.push_back(marker);
	kick_();
	send_cq->wait_for(sends);
	drained_sends_ = true;
	drain_receives(again);
	drained_receives_ = true;
}

void Qp::destroy()
{
	REQUIRE(sends_.empty() && receives_.empty(), "%s: destroyed with work requests posted",
		name.c_str());
	destroyed_ = true;
	state = State::error;
	changed_.wake_all();
	receive_cq->close();
	send_cq->close();
}

/* --- queue pairs: working it off --- */

void Qp::kick_()
{
	if (running_ || destroyed_)
		return;
	running_ = true;
	spawn(name + " engine", Context::process, [self = shared_from_this()] { self->run_(); });
}

void Qp::run_()
{
	for (;;) {
		if (state == State::error) {
			flush_();
			break;
		}
		Entry next;
		for (const Entry &entry : sends_)
			if (!entry->started) {
				next = entry;
				break;
			}
		if (!next)
			break;
		if (next->is_read() && reads_ >= device->limits.max_qp_init_rd_atom) {
			(void)wait(changed_, "RDMA Reads under way");
			continue;
		}
		if (const u64 delay = fabric_delay())
			sleep_for(delay, "the device");
		else
			port_call();
		if (state == State::error)
			continue;
		if (faults.strikes(faults.breaking)) {
			TRACE("%s: the connection breaks", name.c_str());
			if (chance.one_in(faults.tearing))
				tear_(next);
			if (auto other = peer.lock(); other && chance.one_in(2))
				other->set_error();
			if (chance.one_in(2))
				finish_(next, kRetryExceeded);
			set_error();
			continue;
		}
		next->started = true;
		execute_(next);
	}
	running_ = false;
	/* What was posted while the last of it was flushed. */
	if (!sends_.empty() && (state == State::error || !sends_.back()->started))
		kick_();
}

void Qp::finish_(const Entry &entry, int status)
{
	if (entry->gone)
		return;
	entry->started = entry->done = true;
	entry->status = status;
	changed_.wake_all();
	if (status) {
		TRACE("%s: opcode %d fails with %d", name.c_str(), entry->opcode, status);
		set_error();
	}
	retire_();
}

/*
 * Completions in order; those of unsignaled work requests are passed over. Behind one that failed
 * nothing succeeds.
 */
void Qp::retire_()
{
	while (!sends_.empty() && sends_.front()->done) {
		const Entry entry = sends_.front();

		check_lent_(*entry);
		if (failed_ && !entry->status)
			entry->status = RPCORDMA_WC_FLUSHED;
		failed_ = failed_ || entry->status;
		sends_.pop_front();
		entry->gone = true;
		changed_.wake_all();
		silent_slots_ += entry->drained ? 0 : 1;
		if (!entry->status && !(entry->flags & RPCORDMA_SEND_SIGNALED) && !entry->drained)
			continue;
		Completion completion = {{}, silent_slots_, entry->drained};
		completion.what.cqe = entry->cqe;
		completion.what.status = entry->status;
		silent_slots_ = 0;
		send_cq->push(*this, completion);
	}
}

void Qp::flush_()
{
	while (!sends_.empty() || !receives_.empty()) {
		if (!sends_.empty() && (receives_.empty() || chance.one_in(2))) {
			const Entry entry = sends_.front();

			if (!entry->done)
				entry->status = RPCORDMA_WC_FLUSHED;
			entry->started = entry->done = true;
			retire_();
		} else {
			const ReceiveEntry entry = receives_.front();
			Completion completion = {{}, entry.drained ? 0u : 1u, entry.drained};

			receives_.pop_front();
			completion.what.cqe = entry.cqe;
			completion.what.status = RPCORDMA_WC_FLUSHED;
			receive_cq->push(*this, completion);
		}
		port_call();
	}
}

/* The peer as long as it answers; otherwise null, after a while. */
std::shared_ptr<Qp> Qp::reachable_peer_()
{
	auto other = peer.lock();

	if (other && other->state != State::error)
		return other;
	sleep_for(chance.between(1, 500) * kMillisecond, "a peer that is gone");
	return nullptr;
}

void Qp::execute_(const Entry &entry)
{
	switch (entry->opcode) {
	case RPCORDMA_WR_SEND:
	case RPCORDMA_WR_SEND_WITH_INV:
		return send_(entry);
	case RPCORDMA_WR_RDMA_WRITE:
		return write_(entry);
	case RPCORDMA_WR_RDMA_READ:
	case RPCORDMA_WR_RDMA_READ_WITH_INV:
		return read_(entry);
	default:
		return finish_(entry, local_(entry));
	}
}

int Qp::local_(const Entry &entry)
{
	if (faults.strikes(faults.registering))
		return kLocalProtection;
	if (entry->opcode == RPCORDMA_WR_REG_MR) {
		ib_mr *mr = entry->mr;

		REQUIRE(!mr->valid, "%s: REG_MR of a region that is registered", name.c_str());
		mr->valid = true;
		mr->valid_key = entry->key;
		mr->access = entry->access;
		mr->now = entry->content;
		return 0;
	}
	/* The peer may have been faster. */
	ib_mr *mr = device->find(entry->key, true);
	REQUIRE(mr, "%s: LOCAL_INV of a key that was not registered", name.c_str());
	mr->valid = false;
	return 0;
}

bool Qp::local_access_(const rpcordma_sge &sge, u32 offset, u32 length, u8 *buffer, Access access)
{
	REQUIRE(offset + length <= sge.length, "beyond an SGE");
	if (sge.lkey == kLocalKey) {
		dma_access(sge.addr + offset, length, buffer, access);
		return true;
	}
	ib_mr *mr = device->find(sge.lkey);
	REQUIRE(mr, "%s: an SGE's region is not registered (any more)", name.c_str());
	const u64 into = sge.addr + offset - mr->now.iova;
	REQUIRE(into + length <= mr->now.length, "%s: an SGE leaves its region", name.c_str());
	region_access(mr->now, into, length, buffer, access);
	return true;
}

void Qp::gather_(const SendEntry &entry, u32 offset, u32 length, u8 *to)
{
	for (const rpcordma_sge &sge : entry.sges) {
		if (offset >= sge.length) {
			offset -= sge.length;
			continue;
		}
		const u32 n = std::min(sge.length - offset, length);

		(void)local_access_(sge, offset, n, to, Access::read);
		to += n;
		length -= n;
		offset = 0;
		if (!length)
			break;
	}
}

/*
 * A Send's completion is about to come. Until now the device may have had to send it once more: it reads what is the RPC's own
 * again. What is in the module's buffers may be another message's by now, if the reply has come.
 */
void Qp::check_lent_(const SendEntry &entry)
{
	if (entry.lent_from == ~0u)
		return;
	std::vector<u8> now(entry.length - entry.lent_from);

	gather_(entry, entry.lent_from, u32(now.size()), now.data());
	REQUIRE(std::equal(now.begin(), now.end(), entry.message.begin() + entry.lent_from),
		"%s: pages that a Send reads were changed before it was done", name.c_str());
}

bool Qp::accessible_(u64 address, u32 key, u32 length, u8 *buffer, Access access)
{
	ib_mr *mr = device->find(key);
	const int needed = access == Access::read ? RPCORDMA_ACCESS_REMOTE_READ :
						    RPCORDMA_ACCESS_REMOTE_WRITE;

	if (!mr || !(mr->access & needed) || address < mr->now.iova ||
	    address - mr->now.iova > mr->now.length ||
	    length > mr->now.length - (address - mr->now.iova))
		return false;
	region_access(mr->now, address - mr->now.iova, length, buffer, access);
	return true;
}

/* At the target: false, and the connection is lost, when the key does not allow it. */
bool Qp::remote_access_(u64 address, u32 key, u32 length, u8 *buffer, Access access)
{
	if (stranger)
		return stranger->reached(address, key, length, buffer, access);
	if (accessible_(address, key, length, buffer, access))
		return true;
	TRACE("%s: %u bytes at %#llx with key %#x are not to be accessed", name.c_str(), length,
	      (unsigned long long)address, key);
	REQUIRE(given_up.count(u32(address >> 32)),
		"%s: the peer accesses memory of xid %#x, key %#x, which it cannot (any more), "
		"though nobody "
		"gave the call up",
		name.c_str(), u32(address >> 32), key);
	lose_by_fault_();
	return false;
}

bool Qp::strange_access(u64 address, u32 key, u32 length, u8 *buffer, Access access)
{
	if (state == State::init || state == State::error)
		return false;
	if (accessible_(address, key, length, buffer, access))
		return true;
	TRACE("%s: a stranger reaches for %u bytes at %#llx with key %#x", name.c_str(), length,
	      (unsigned long long)address, key);
	lose_by_fault_();
	return false;
}

/* Of the peer, which no completion tells of. */
void Qp::lose_by_fault_()
{
	set_error();
	if (fatal)
		fatal();
}

void Qp::send_(const Entry &entry)
{
	std::shared_ptr<Qp> to;

	for (u64 began = now();;) {
		to = reachable_peer_();
		if (state == State::error)
			return;
		if (!to)
			return finish_(entry, kRetryExceeded);
		if (to->stranger ? to->stranger->receives : !to->receives_.empty())
			break;
		if (to->stranger) {
			/* As often as each end wants to try. */
			if (!server)
				return finish_(entry, kReceiverNotReady);
			to.reset();
			sleep_for(10 * kMillisecond, "a Receive of the stranger");
			continue;
		}
		REQUIRE(to->server, "%s: a message finds no Receive: R1 is broken",
			to->name.c_str());
		/* Receives beyond the credits are for what is about the connection; a call as XMTREQ has a credit. */
		const Message message = decode_message(entry->message.data(), entry->length);
		REQUIRE(!is_control(message) || message.kind == MessageKind::optional,
			"%s: a question finds no Receive", to->name.c_str());
		/* A server's calls are in use until their replies' completions, which Reads may hold up. */
		const bool short_of_memory = faults.memory_failures != to->memory_failures_before &&
					     now() - faults.memory_failed_at < kMemoryExcuse;
		REQUIRE(short_of_memory || to->send_used,
			"%s: a message finds no Receive, though memory was not short lately and "
			"no reply on its way",
			to->name.c_str());
		REQUIRE(now() - began < 120 * kSecond,
			"%s: a message finds no Receive for two minutes", to->name.c_str());
		(void)wait(to->changed_, "a Receive of the peer", 10 * kMillisecond);
		to.reset();
	}
	std::vector<u8> message(entry->length);
	gather_(*entry, 0, entry->length, message.data());
	REQUIRE(message == entry->message, "%s: a message was changed after it was posted",
		name.c_str());

	const u32 invalidated = entry->opcode == RPCORDMA_WR_SEND_WITH_INV ? entry->key : 0;
	if (to->stranger) {
		if (to->stranger->receives != ~0u)
			to->stranger->receives--;
		to->stranger->heard(message, invalidated);
		return finish_(entry, 0);
	}
	REQUIRE(entry->length <= to->receives_.front().length(),
		"%s: a message of %u bytes for a Receive of %u", name.c_str(), entry->length,
		to->receives_.front().length());
	if (invalidated) {
		ib_mr *mr = to->device->find(invalidated);

		if (!mr) {
			/* As a late RDMA Write would. */
			TRACE("%s: invalidates key %#x, which is not registered", name.c_str(),
			      entry->key);
			/* That of a call that was given up; not that of another. */
			const ib_mr *was = to->device->find(invalidated, true);
			REQUIRE(was && given_up.count(u32(was->now.iova >> 32)),
				"%s: invalidates key %#x, which is not registered (any more), "
				"though nobody gave the call up",
				name.c_str(), entry->key);
			to->lose_by_fault_();
			return finish_(entry, RPCORDMA_WC_REMOTE_ACCESS);
		}
		mr->valid = false;
	}
	to->take_message_(message, invalidated);
	/* The acknowledgement may take longer than the reply, or be lost with the connection. */
	if (const u64 delay = chance.one_in(3) ? 0 : fabric_delay(); delay)
		spawn_after(delay, name + " ack", Context::process,
			    [self = shared_from_this(), entry] { self->finish_(entry, 0); });
	else
		finish_(entry, 0);
}

/* Into the first Receive, which is there. */
void Qp::take_message_(const std::vector<u8> &message, u32 invalidated)
{
	const ReceiveEntry receive = receives_.front();
	const u32 length = u32(message.size());
	Completion completion = {{}, 1, nullptr};

	REQUIRE(!receive.drained, "a message for a queue pair that is drained");
	completion.what.cqe = receive.cqe;
	completion.what.byte_len = length;
	if (invalidated) {
		completion.what.flags = RPCORDMA_WC_WITH_INVALIDATE;
		completion.what.invalidated_rkey = invalidated;
	}
	receives_.pop_front();
	u8 *from = const_cast<u8 *>(message.data());
	u32 left = length;
	for (const rpcordma_sge &sge : receive.sges) {
		const u32 n = std::min(left, sge.length);

		if (n)
			dma_access(sge.addr, n, from, Access::write);
		from += n;
		left -= n;
	}
	if (server && length >= 4) {
		const u32 xid = word(message.data(), 0);
		conversation->called = conversation->called || conversation->strange;
		if (conversation->owed.count(xid)) {
			conversation->to_be_replied.insert(xid);
			conversation->called = true;
		}
	}
	arrived_[receive.cqe] = message;
	receive_cq->push(*this, completion);
}

bool Qp::strange_message(const std::vector<u8> &message, u32 invalidate)
{
	if (state == State::init || state == State::error || receives_.empty())
		return false;
	TRACE("%s: a stranger says %zu bytes, invalidating %#x", name.c_str(), message.size(),
	      invalidate);
	if (message.size() > receives_.front().length()) {
		Completion completion = {{}, 1, nullptr};

		completion.what.cqe = receives_.front().cqe;
		completion.what.status = kLocalLength;
		receives_.pop_front();
		receive_cq->push(*this, completion);
		set_error();
		return false;
	}
	if (invalidate) {
		ib_mr *mr = device->find(invalidate);

		if (!mr ||
		    !(mr->access & (RPCORDMA_ACCESS_REMOTE_READ | RPCORDMA_ACCESS_REMOTE_WRITE))) {
			lose_by_fault_();
			return false;
		}
		mr->valid = false;
	}
	if (message.size() >= 4) {
		conversation->unanswered.insert(word(message.data(), 0));
		conversation->deliverable[word(message.data(), 0)]++;
	}
	take_message_(message, invalidate);
	return true;
}

void Qp::write_(const Entry &entry)
{
	const auto to = reachable_peer_();

	if (state == State::error)
		return;
	if (!to)
		return finish_(entry, kRetryExceeded);
	std::vector<u8> bytes(entry->length);
	gather_(*entry, 0, entry->length, bytes.data());
	finish_(entry, to->remote_access_(entry->remote_address, entry->key, entry->length,
					  bytes.data(), Access::write) ?
			       0 :
			       RPCORDMA_WC_REMOTE_ACCESS);
}

/* Of an RDMA Write or Read that fails now, the first bytes have been moved. */
void Qp::tear_(const Entry &entry)
{
	const auto other = peer.lock();

	if (entry->length < 2 || !other || other->state == State::error ||
	    (entry->opcode != RPCORDMA_WR_RDMA_WRITE && entry->opcode != RPCORDMA_WR_RDMA_READ))
		return;
	const u32 part = chance.between(1, entry->length - 1);
	std::vector<u8> bytes(part);
	TRACE("%s: %u of %u bytes get through", name.c_str(), part, entry->length);
	if (entry->opcode == RPCORDMA_WR_RDMA_WRITE) {
		gather_(*entry, 0, part, bytes.data());
		(void)other->remote_access_(entry->remote_address, entry->key, part, bytes.data(),
					    Access::write);
		return;
	}
	if (!other->remote_access_(entry->remote_address, entry->key, part, bytes.data(),
				   Access::read))
		return;
	u32 at = 0;
	for (const rpcordma_sge &sge : entry->sges) {
		const u32 n = std::min(sge.length, part - at);

		if (n)
			(void)local_access_(sge, 0, n, bytes.data() + at, Access::write);
		at += n;
	}
}

bool Qp::reads_before_(const Entry &entry) const
{
	for (const Entry &other : sends_) {
		if (other == entry)
			return false;
		if (other->is_read() && !other->done)
			return true;
	}
	return false;
}

void Qp::read_(const Entry &entry)
{
	reads_++;
	spawn_after(fabric_delay(), name + " read", Context::process,
		    [self = shared_from_this(), entry] {
			    /* The peer answers in order. */
			    while (!entry->gone && self->reads_before_(entry))
				    (void)wait(self->changed_, "the Reads before");
			    const auto from = entry->gone ? nullptr : self->reachable_peer_();

			    self->reads_--;
			    self->changed_.wake_all();
			    /* The queue pair may be destroyed by now. */
			    if (entry->gone || self->state == State::error)
				    return;
			    if (!from)
				    return self->finish_(entry, kRetryExceeded);
			    std::vector<u8> bytes(entry->length);
			    if (!from->remote_access_(entry->remote_address, entry->key,
						      entry->length, bytes.data(), Access::read))
				    return self->finish_(entry, RPCORDMA_WC_REMOTE_ACCESS);
			    u32 at = 0;
			    for (const rpcordma_sge &sge : entry->sges) {
				    (void)self->local_access_(sge, 0, sge.length, bytes.data() + at,
							      Access::write);
				    at += sge.length;
			    }
			    if (entry->opcode == RPCORDMA_WR_RDMA_READ_WITH_INV)
				    self->device->find(entry->sges[0].lkey)->valid = false;
			    self->finish_(entry, 0);
		    });
}

/* --- what is heard --- */

/* One answer for each message of a stranger's, whatever it was. */
void Qp::answer_stranger_(u32 xid)
{
	const auto asked = conversation->unanswered.find(xid);

	REQUIRE(asked != conversation->unanswered.end(),
		"%s: xid %#x is answered, which nobody asks about (any more)", name.c_str(), xid);
	conversation->unanswered.erase(asked);
}

/* The server says that its Receives are larger now: none of them is smaller from here on. */
void Qp::overhear_growth_(const Message &message)
{
	VersionTalk &versions = *conversation->versions;
	rpcordma::properties::Properties said;

	REQUIRE(rpcordma::properties::decode_updprop(message.body(), said) == rpcordma::Error::none &&
			said.present == rpcordma::protocol::kSizes,
		"%s: news that is not of sizes", name.c_str());
	REQUIRE(!versions.told, "%s: it grows twice", name.c_str());
	versions.told = said.receive_bytes();
	REQUIRE(versions.told > rpcordma::properties::default_receive_size, "%s: it does not grow",
		name.c_str());
	for (const ReceiveEntry &receive : receives_)
		REQUIRE(receive.drained || receive.length() >= versions.told,
			"%s: the client is told of %u bytes, and finds %u", name.c_str(),
			versions.told, receive.length());
	VersionTalk::grown++;
}

/*
 * An end posts @message while a message of its own of several transmissions, @group, which begins with @lead, is not whole; or it
 * is a part of one: whatever it is has to be the next one.
 */
void Qp::overhear_part_(const Message &message, GroupHeard &group, rpcordma::xdr::Option lead)
{
	using rpcordma::xdr::Option;
	const char *const what = lead == Option::xmtresp ? "reply " : "";
	rpcordma::rtrext::Continuation part;

	REQUIRE(group.left, "%s: an XMTCONT of no group", name.c_str());
	REQUIRE(message.kind == MessageKind::optional && message.option == Option::xmtcont &&
			message.xid.get() == group.xid,
		"%s: a message of kind %u, xid %#x, amid the transmissions of %s%#x", name.c_str(),
		u32(message.kind), message.xid.get(), what, group.xid);
	REQUIRE(rpcordma::rtrext::decode(message.body(), part) == rpcordma::Error::none &&
			part.number == group.next && part.lead == u32(lead),
		"%s: transmission %u of %s%#x where %u is to be", name.c_str(), part.number, what,
		group.xid, group.next);
	group.next++;
	group.left--;
}

/* The server posts the first transmission of a reply. */
void Qp::overhear_response_(const Message &message)
{
	rpcordma::rtrext::Response lead;
	Conversation &heard = *conversation;
	const u32 xid = message.xid.get();
	const u32 most = heard.replies.count(xid) ? heard.replies[xid] : 1;
	/* It answers the direction, and by what Table 2 allows. */
	const bool directed = heard.directed.erase(xid);

	REQUIRE(rpcordma::rtrext::decode(message.body(), lead) == rpcordma::Error::none &&
			(lead.transmissions > 1 || directed) && lead.transmissions <= most,
		"%s: a reply of %u transmissions to %#x, which may have %u", name.c_str(),
		lead.transmissions, xid, most);
	REQUIRE(lead.items.count() == directed, "%s: a reply to %#x of %u items", name.c_str(), xid,
		lead.items.count());
	for (const rpcordma::rtrext::Item &item : lead.items) {
		REQUIRE(item.type != rpcordma::rtrext::Type::segments,
			"%s: what %#x was to be sent is written", name.c_str(), xid);
		VersionTalk::reply_items += item.type == rpcordma::rtrext::Type::sent;
	}
	if (lead.transmissions == 1)
		return;
	heard.reply.begin(xid, lead.transmissions);
	VersionTalk::reply_groups++;
}

/* The client posts the first transmission of a call. Returns how many more there are to be. */
u32 Qp::overhear_lead_(const Message &message)
{
	rpcordma::rtrext::Request lead;

	if (message.kind != MessageKind::optional)
		return 0;
	REQUIRE(rpcordma::rtrext::decode(message.body(), lead) == rpcordma::Error::none,
		"%s: an XMTREQ that does not decode", name.c_str());
	const bool asks = lead.sets.count() != 0;

	REQUIRE(lead.items.count() <= !asks && lead.sets.count() <= 1 &&
			lead.sets.places() == lead.sets.count(),
		"%s: %u items, %u sets of %u directions", name.c_str(), lead.items.count(),
		lead.sets.count(), lead.sets.places());
	if (asks) {
		REQUIRE((*(*lead.sets.begin()).places.begin()).type == rpcordma::rtrext::Type::sent,
			"%s: a direction that our clients do not give", name.c_str());
		conversation->directed.insert(message.xid.get());
	}
	for (const rpcordma::rtrext::Item &item : lead.items) {
		REQUIRE(item.type == rpcordma::rtrext::Type::sent && conversation->versions->told &&
				item.length <= rpcordma_tunables.send_write_max,
			"%s: an item of type %u, and of %u bytes", name.c_str(), u32(item.type),
			item.length);
		VersionTalk::items++;
	}
	if (lead.reply_transmissions > 1) {
		REQUIRE(lead.reply_transmissions <= rpcordma::protocol::kReplyTransmissions,
			"%s: a reply of %u transmissions", name.c_str(), lead.reply_transmissions);
		conversation->replies[message.xid.get()] = lead.reply_transmissions;
	}
	if (lead.transmissions == 1 && (lead.items.count() || asks || lead.reply_transmissions > 1))
		return 0;
	REQUIRE(lead.transmissions > 1 &&
			lead.transmissions <= rpcordma::protocol::kCallTransmissions,
		"%s: a call of %u transmissions", name.c_str(), lead.transmissions);
	conversation->call.begin(message.xid.get(), lead.transmissions);
	VersionTalk::groups++;
	return lead.transmissions - 1;
}

void Qp::overhear_post_(const SendEntry &entry)
{
	REQUIRE(entry.length >= 20, "%s: a message of %u bytes", name.c_str(), entry.length);
	const u8 *bytes = entry.message.data();
	const u32 xid = word(bytes, 0);
	const bool strange = conversation->strange;

	REQUIRE(word(bytes, 2), "%s: a credit value of zero", name.c_str());
	const Message message = decode_message(bytes, entry.length);
	REQUIRE(message.direction != rpcordma::xdr::Direction::unknown,
		"%s: a message that does not decode", name.c_str());
	const bool question = conversation->versions->is_question(message);
	/* Also one that goes nowhere has been asked. */
	if (question && !server) {
		conversation->versions->posted(server, message, strange);
		if (conversation->memory)
			conversation->memory->asks();
		return;
	}
	if (state == State::error || is_continuation(message))
		return;
	const bool part = message.kind == MessageKind::optional &&
			  message.option == rpcordma::xdr::Option::xmtcont;
	if (!server && (conversation->call.left || part))
		return overhear_part_(message, conversation->call, rpcordma::xdr::Option::xmtreq);
	conversation->versions->posted(server, message, strange);
	const bool is_request = message.kind == MessageKind::optional &&
				message.option == rpcordma::xdr::Option::xmtreq;
	/* It names the transmission that broke a group, which may be a message that is answered besides. */
	if (strange && message.kind == MessageKind::optional &&
	    message.option == rpcordma::xdr::Option::repterr)
		return;
	if (!server) {
		/* A backward reply has no chunks, and is a reply. */
		const bool answer = message.kind == MessageKind::error ||
				    (is_control(message) && !is_request);
		if (answer || (!has_chunks(message) && !is_call(message) && !is_request)) {
			if (strange)
				return answer_stranger_(xid);
			REQUIRE(!answer && conversation->backward_owed.erase(xid),
				"%s: a backward reply to nobody", name.c_str());
			return;
		}
		REQUIRE(!conversation->owed.count(xid), "%s: xid %#x is sent twice", name.c_str(),
			xid);
		const u32 more = overhear_lead_(message);
		REQUIRE(credits_of(*conversation) + more < conversation->granted,
			"%s: credit overrun: %zu transmissions outstanding, %u granted",
			name.c_str(), credits_of(*conversation) + more + 1, conversation->granted);
		conversation->owed.insert(xid);
		conversation->deliverable[xid]++;
		fabric->ledger.sent(conversation->memory, xid, conversation->number);
		if (more)
			conversation->parts[xid] = more;
		return;
	}
	/* The first transmission is the answer; whoever is the stranger judges what the others are. */
	if (server && strange && part)
		return;
	if (server && (conversation->reply.left || part))
		return overhear_part_(message, conversation->reply, rpcordma::xdr::Option::xmtresp);
	if (is_call(message)) {
		REQUIRE(conversation->backward_owed.insert(xid).second,
			"%s: backward xid %#x twice", name.c_str(), xid);
		return;
	}
	if (message.kind == rpcordma::xdr::Kind::updprop)
		return overhear_growth_(message);
	if (strange)
		return answer_stranger_(xid);
	if (question) {
		const VersionTalk &versions = *conversation->versions;

		REQUIRE(versions.asked && !versions.answered && versions.question == xid,
			"%s: an answer to a question that nobody asked", name.c_str());
		return;
	}
	const bool is_response = message.kind == MessageKind::optional &&
				 message.option == rpcordma::xdr::Option::xmtresp;
	if (is_response)
		overhear_response_(message);
	REQUIRE(!is_control(message) || is_response, "%s: a message of kind %u to an honest client",
		name.c_str(), u32(message.kind));
	REQUIRE(conversation->to_be_replied.erase(xid),
		"%s: a reply to xid %#x, which is nobody's (any more)", name.c_str(), xid);
}

/* Before the client's core hears of it. */
void Qp::overhear_completion_(const Completion &completion, const std::vector<u8> &bytes)
{
	const u32 length = completion.what.byte_len;
	if (server)
		return;
	/* Too short for a header: the client may take it for an answer all the same, which is none. */
	if (length < 12) {
		conversation->versions->heard({}, conversation->strange);
		return;
	}
	const Message message = decode_message(bytes.data(), length);
	const bool question = conversation->versions->asked && !conversation->versions->answered;
	if (!is_continuation(message))
		conversation->versions->heard(message, conversation->strange);
	if (is_call(message))
		return;
	if (is_last(message) && !question) {
		conversation->owed.erase(word(bytes.data(), 0));
		conversation->parts.erase(word(bytes.data(), 0));
	}
	if (is_continuation(message))
		return;
	/* Of version 2 an error grants nothing. */
	if (message.version == rpcordma::v2::version && message.kind == MessageKind::error)
		return;
	const u32 grant = word(bytes.data(), 2);
	if (conversation->strange) {
		/* Whether it is believed or not. */
		conversation->granted = std::max(conversation->granted, grant);
		return;
	}
	conversation->latest = grant;
	/*
	 * Replies that were built at once may come in any order, and who has taken a credit may use it: a
	 * grant that is lower than the last one holds after a while, if no other has come by then.
	 */
	if (grant >= conversation->granted)
		conversation->granted = grant;
	else
		spawn_after(kSecond, "lower grant", Context::process, [heard = conversation, grant] {
			if (heard->latest == grant)
				heard->granted = grant;
		});
}

} // namespace sim
