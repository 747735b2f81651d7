// SPDX-License-Identifier: GPL-2.0-only
/* The consumers. See consumer.hh. */
#include "selftests/sim/consumer.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sim {
namespace {

u32 pages_for(u32 base, u32 length)
{
	return (base + length + kPageSize - 1) / kPageSize;
}

bool sends_pages(Kind kind)
{
	return kind == Kind::write || kind == Kind::both || kind == Kind::linking;
}

bool receives_pages(Kind kind)
{
	return kind == Kind::read || kind == Kind::both || kind == Kind::listing;
}

std::vector<u8> read_all(const rpcordma_xdr_buf &buf, u32 length, const char *what)
{
	std::vector<u8> bytes;

	bytes.reserve(length);
	REQUIRE(each_piece(&buf, 0, length,
			   [&](u8 *at, u32 n) { bytes.insert(bytes.end(), at, at + n); }),
		"%s says that it has %u bytes, and has not", what, length);
	return bytes;
}

} // namespace

/* --- the client --- */

ClientCall::ClientCall(const Call &call) : call_(call)
{
	/* Results behind data that is placed directly have to be where the head ends. */
	const bool placed = call_.kind == Kind::read || call_.kind == Kind::both;

	if (chance.one_in(4)) {
		slack_ = 4 * chance.below(20);
		if (placed && slack_)
			call_.trailer = false;
	}
	ddp_allowed = !call_.sealed;
	call_size = call_.call_length() - (sends_pages(call_.kind) ? call_.call_data & ~3u : 0) + 16;
	reply_size = call_.reply_length() + slack_ + 16 -
		     (receives_pages(call_.kind) ? call_.reply_data & ~3u : 0);
	sparse_ = call_.kind == Kind::listing && chance.one_in(3);
}

ClientCall::~ClientCall()
{
	for (page *p : send_pages_)
		page_put(p);
	for (page *p : receive_pages_)
		if (p)
			page_put(p);
}

void ClientCall::replace_pages()
{
	for (page *&p : send_pages_) {
		page *const fresh = page_create();

		std::memcpy(fresh->data, p->data, kPageSize);
		page_put(p);
		p = fresh;
	}
}

void ClientCall::move_border(rpcordma_xdr_buf &receive)
{
	const bool placed = receive.flags & RPCORDMA_XDRBUF_READ;

	/* What is behind data that is placed is looked for where the head ended. */
	if (!receive.page_length || (placed && call_.trailer) || !chance.one_in(2))
		return;
	/* The tail keeps room for a pad and what is behind it. */
	const u32 front = call_.reply_front(), least_tail = 4 + call_.back();
	const u32 whole = u32(receive.head.length + receive.tail.length);
	const u32 head = front + 4 * chance.below((whole - least_tail - front) / 4 + 1);

	receive.head.length = head;
	receive.tail = {static_cast<u8 *>(receive.head.base) + head, whole - head};
}

void ClientCall::encode(rpc_rqst &rqst)
{
	xid_ = rqst.xid;
	client_ = &rqst.xprt->versions;
	const std::vector<u8> bytes = call_bytes(call_, xid_);
	u8 *head = static_cast<u8 *>(rqst.buffer);

	rqst.send = {};
	rqst.send.head = {head, bytes.size()};
	rqst.send.len = u32(bytes.size());
	rqst.send.buflen = call_size;
	if (sends_pages(call_.kind) && call_.call_data) {
		const u32 front = call_.call_front(), n = call_.call_data;
		const u32 rest = u32(bytes.size()) - front - n;

		send_base_ = chance.one_in(2) ? 0 : chance.below(2 * kPageSize);
		for (u32 i = pages_for(send_base_, n); i; i--)
			send_pages_.push_back(page_create());
		rqst.send.pages = send_pages_.data();
		rqst.send.page_base = send_base_;
		rqst.send.page_length = n;
		std::memcpy(head, bytes.data(), front);
		rpcordma_copy_to_pages(&rqst.send, 0, bytes.data() + front, n);
		rqst.send.head.length = front;
		/* As xdr_write_pages() has it. */
		rqst.send.tail = {head + front + (n & 3), rest};
		std::memcpy(rqst.send.tail.base, bytes.data() + front + n, rest);
		if (call_.kind != Kind::linking)
			rqst.send.flags = RPCORDMA_XDRBUF_WRITE;
	} else {
		std::memcpy(head, bytes.data(), bytes.size());
	}

	u8 *to = static_cast<u8 *>(rqst.reply_buffer);
	rqst.receive = {};
	rqst.receive.head = {to, reply_size};
	rqst.receive.buflen = reply_size;
	if (receives_pages(call_.kind) && call_.reply_data) {
		const u32 front = call_.reply_front() + slack_;

		receive_base_ = chance.one_in(2) ? 0 : chance.below(kPageSize);
		/* Room for more than comes, at times. */
		const u32 room = call_.reply_data + (chance.one_in(4) ? chance.below(5000) : 0);
		for (u32 i = pages_for(receive_base_, room); i; i--)
			receive_pages_.push_back(sparse_ ? nullptr : page_create());
		rqst.receive.pages = receive_pages_.data();
		rqst.receive.page_base = receive_base_;
		rqst.receive.page_length = room;
		rqst.receive.head.length = front;
		rqst.receive.tail = {to + front, reply_size - front};
		rqst.receive.buflen += room;
		if (call_.kind != Kind::listing)
			rqst.receive.flags = RPCORDMA_XDRBUF_READ;
		else if (sparse_)
			rqst.receive.flags = RPCORDMA_XDRBUF_SPARSE_PAGES;
	}
}

void ClientCall::decode(const rpcordma_xdr_buf &buf, u32 length)
{
	Ledger &ledger = fabric->ledger;
	const Stamps stamps = check_reply(call_, xid_, read_all(buf, length, "a reply"));

	ledger.take(stamps, xid_, call_.id, ledger.last(client_, xid_));
	decoded = true;
}

/* --- the service --- */

void keep_lent_page(const svc_rqst &rqst)
{
	if (rqst.lent.empty())
		return;
	const u32 i = chance.below(u32(rqst.lent.size()));
	page *const kept = rqst.lent[i];
	/* The last one is not full. */
	const u32 length = std::min(rqst.arg.page_length - i * kPageSize, kPageSize);

	/* Who decrypts, does so in place. */
	kept->data[chance.below(length)] ^= 0xff;
	const std::vector<u8> bytes(kept->data, kept->data + length);

	page_get(kept);
	spawn_after(chance.below(4000000), "who keeps a page", Context::process, [kept, bytes] {
		REQUIRE(std::equal(bytes.begin(), bytes.end(), kept->data),
			"a page changes that somebody has kept");
		page_put(kept);
	});
}

bool FileService::is_served_(svc_rqst &rqst, u32 xid)
{
	if (faults.active && chance.one_in(drops)) {
		TRACE("the service drops xid %#x", xid);
		dropped_calls.insert(xid);
		rqst.close = chance.one_in(3);
		return false;
	}
	rqst.defer = defers && rqst.may_defer() && chance.one_in(defers);
	return !rqst.defer;
}

/* nfsd_dispatch() */
std::vector<u8> FileService::serve_(svc_rqst &rqst, const Call &call, const std::vector<u8> &bytes)
{
	Ledger &ledger = fabric->ledger;
	const u32 xid = xid_of(bytes), connection = rqst.xprt->conversation().number;
	const ReplyCache::Key key = ReplyCache::key_of(rqst.xprt->address_key(), call, bytes);
	const ReplyCache::Entry *const known = call.changes ? cache.look_up(key, call.id) : nullptr;

	if (known && known->done) {
		TRACE("xid %#x is answered by the reply cache", xid);
		Ledger::replayed++;
		return reply_again(call, xid,
				   ledger.reply(connection, xid, call.id, known->execution),
				   known->results);
	}
	if (known) {
		/* Whoever executes it replies to the other. */
		TRACE("xid %#x is dropped: it is being executed", xid);
		Ledger::met_running++;
		dropped_calls.insert(xid);
		return {};
	}
	if (chance.one_in(4))
		sleep_for(chance.below(2000), "the file system");
	if (faults.active && chance.one_in(slow))
		sleep_for(chance.below(2000) * kMillisecond, "a slow file system");
	REQUIRE(read_all(rqst.arg, rqst.arg.len, "a call") == bytes,
		"xid %#x: the call changes while the service has it", xid);
	if (!rqst.lent.empty() && chance.one_in(4))
		keep_lent_page(rqst);
	if (!is_served_(rqst, xid)) {
		if (call.changes)
			cache.drop(key);
		return {};
	}
	const Stamps stamps = ledger.reply(connection, xid, call.id, ledger.execution());
	std::vector<u8> reply = reply_bytes(call, xid, stamps);
	if (call.changes) {
		ledger.change(call.id);
		cache.keep(key, stamps.execution, reply, call.results_at());
	}
	return reply;
}

/*
 * Announce the data of @n bytes at @front of @reply, which a word with their number precedes: in another way at times, as nfsd does
 * a link's text, from that word on.
 */
static void announce_data(svc_rqst &rqst, const std::vector<u8> &reply, u32 front, u32 n)
{
	const bool from_length = xid_of({reply.begin() + front - 8, reply.begin() + front - 4}) != n;

	(void)rpcordma_core_server_result_payload(
		rqst.context, from_length && chance.one_in(8) ? front - 4 : front, n);
}

/* A COMPOUND may have many READs. Our clients have a chunk for the first one alone; most others are beyond the file's end. */
static void announce_others(svc_rqst &rqst, u32 at, u32 end, u32 odds)
{
	if (!chance.one_in(odds))
		return;
	for (u32 more = chance.between(1, 20); more; more--) {
		const u32 n = std::min(4u, end - at);

		(void)rpcordma_core_server_result_payload(rqst.context, at, n);
		at += n;
	}
}

bool FileService::process(svc_rqst &rqst)
{
	const std::vector<u8> bytes = read_all(rqst.arg, rqst.arg.len, "a call");
	const Call call = check_call(bytes);

	processed++;
	const std::vector<u8> reply = serve_(rqst, call, bytes);
	if (reply.empty())
		return false;
	rqst.ddp_allowed = !call.sealed;
	rpcordma_xdr_buf &res = rqst.res;
	page *head = rqst.pages.at(rqst.respages);
	res.head = {head->data, reply.size()};
	res.len = res.buflen = u32(reply.size());
	if (!receives_pages(call.kind) || !call.reply_data) {
		REQUIRE(reply.size() == call.reply_length() && reply.size() <= kPageSize,
			"the simulation's small reply is too large");
		std::memcpy(head->data, reply.data(), reply.size());
		return true;
	}
	const u32 front = call.reply_front(), n = call.reply_data;
	const u32 rest = u32(reply.size()) - front - n;
	res.page_base = chance.one_in(2) ? 0 : chance.below(kPageSize);
	const u32 pages = pages_for(res.page_base, n);
	REQUIRE(rqst.next_page + pages <= rqst.pages.size(), "the simulation's reply has no pages");
	/* Spliced, the reply has pages of the page cache instead of the thread's own. */
	if (chance.one_in(3))
		for (u32 i = 0; i < pages; i++) {
			page *&p = rqst.pages[rqst.next_page + i];

			page_put(p);
			p = page_create();
		}
	res.pages = rqst.pages.data() + rqst.next_page;
	rqst.next_page += pages;
	res.page_length = n;
	res.head.length = front;
	res.tail = {head->data + front, rest};
	std::memcpy(head->data, reply.data(), front);
	std::memcpy(res.tail.base, reply.data() + front + n, rest);
	rpcordma_copy_to_pages(&res, 0, reply.data() + front, n);
	if (call.kind != Kind::listing) {
		announce_data(rqst, reply, front, n);
		announce_others(rqst, front + Call::padded(n), u32(reply.size()), others);
	}
	return true;
}

/* --- the backchannel --- */

bool CallbackService::start(u32 sessions)
{
	for (; sessions_ < sessions; sessions_++)
		if (rpcordma_core_bc_setup(xprt_.core, 1))
			return false;
	xprt_.backward_service = true;
	running_ = true;
	spawn("callback service", Context::process, [this] {
		serve_();
		running_ = false;
		ended_.wake_all();
	});
	return true;
}

void CallbackService::stop()
{
	for (; sessions_; sessions_--)
		rpcordma_core_bc_destroy(xprt_.core, 1);
	xprt_.backward_service = false;
	stopping_ = true;
	xprt_.backward_came.wake_all();
	while (running_)
		(void)wait(ended_, "the callback service to end");
}

std::vector<u8> CallbackService::answer(u32 xid, const std::vector<u8> &call)
{
	const Call what = check_call(call);
	Ledger &ledger = fabric->ledger;

	ledger.change_backward(xid);
	return reply_bytes(what, xid, ledger.reply(0, xid, what.id, ledger.execution()));
}

void CallbackService::serve_()
{
	for (;;) {
		while (xprt_.backward_calls.empty() && !stopping_)
			(void)wait(xprt_.backward_came, "a backward call");
		/* Linux 6.12's looks at no more. */
		if (stopping_)
			return;
		/* One of several sessions goes. */
		if (sessions_ > 1 && chance.one_in(4)) {
			sessions_--;
			rpcordma_core_bc_destroy(xprt_.core, 1);
			/* The last one may have gone meanwhile, with what was queued. */
			continue;
		}
		rpc_rqst *rqst = xprt_.backward_calls.front();
		xprt_.backward_calls.pop_front();
		const std::vector<u8> reply =
			answer(rqst->xid,
			       read_all(rqst->receive, rqst->receive.len, "a backward call"));
		if (chance.one_in(4))
			sleep_for(chance.below(3000), "the callback");
		if (faults.active && chance.one_in(drops)) {
			TRACE("backward xid %#x is dropped", rqst->xid);
			dropped_calls.insert(rqst->xid);
			rpcordma_core_bc_free(xprt_.core, rpcordma_rqst_call(rqst));
			continue;
		}
		REQUIRE(reply.size() <= rqst->send.buflen, "no room for a backward reply");
		std::memcpy(rqst->send.head.base, reply.data(), reply.size());
		rqst->send.head.length = reply.size();
		rqst->send.len = u32(reply.size());
		/* Each reply has a context of its own, as rpciod gives it. */
		spawn("backward reply", Context::process, [this, rqst] {
			Task task(xprt_, *rqst);

			(void)task.run();
		});
	}
}

void call_back(Service &service, u32 id, u32 xid)
{
	svc_xprt *xprt = service.any_connection();
	Call call;

	if (!xprt)
		return;
	call.id = id;
	call.kind = Kind::small;
	const u32 most = rpcordma_core_server_backward_payload(xprt->core);
	call.call_data = chance.below(std::min(most - call.call_length(), 600u));
	call.reply_data = chance.below(std::min(most - call.reply_length(), 600u));
	std::vector<u8> reply;
	const int rc = service.call_back(*xprt, xid, call_bytes(call, xid), reply);
	TRACE("backward call: %d", rc);
	if (!rc)
		fabric->ledger.take(check_reply(call, xid, reply), xid, id, 0);
	xprt->put();
}

} // namespace sim
