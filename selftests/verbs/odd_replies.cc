// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replies: right ones, late ones, wrong ones, none; and credits. Where the client has to drop what came,
 * the right reply follows, and the connection has to be the same afterwards.
 */
#include "odd.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace verbs {

using rpcordma::xdr::ErrorCode;

void once(Server &server, u32 procedure, const std::function<void(Call &)> &deal, u32 program)
{
	auto done = std::make_shared<bool>(false);

	server.odd = [=](Call &call) {
		if (*done || call.program != program || call.procedure != procedure)
			return false;
		*done = true;
		deal(call);
		return true;
	};
}

Held::Held(Server &server, u32 procedure, size_t limit) : s_(server)
{
	s_.odd = [=](Call &call) {
		if (call.program != nfs_program || call.procedure != procedure || taken_ == limit)
			return false;
		taken_++;
		calls.push_back(std::move(call));
		return true;
	};
}

Held::~Held()
{
	s_.odd = nullptr;
}

void Held::await(size_t count)
{
	if (!s_.run(30000, [&] { return calls.size() >= count; }))
		throw Failure{text("%zu calls came, expected %zu", calls.size(), count)};
}

void Held::settle(size_t count)
{
	await(count);
	/* What is sent at all is sent at once. */
	s_.serve(400);
	check(calls.size() == count,
	      text("%zu calls came that are not answered, expected %zu", calls.size(), count));
}

void Held::answer_all(u32 grant)
{
	s_.grant = grant;
	for (size_t n = calls.size(); n; n--) {
		Call call = std::move(calls.front());
		calls.pop_front();
		s_.answer(call);
	}
}

void connections(Server &server, u32 connections)
{
	check(server.accepted() == connections,
	      text("the client made %u connections, expected %u", server.accepted(), connections));
}

namespace {

constexpr u32 large = 65536; /* a READ of it has a Write chunk */
constexpr u32 small = 512;   /* a READ of it comes inline */

void right(Server &s)
{
	s.mount();
	for (auto [offset, count] :
	     {std::pair(0u, small), {0u, large}, {4096u, 1u << 19}, {4u, 4099u}})
		s.read(offset, count);
	s.write(0, 512, 1);
	s.write(4096, 65536, 2);
	s.write(8192, 5001, 3);
	s.read(0, 131072);
	s.list();
	s.read(0, 8192, 16);
	connections(s, 1);
	Conversation &on = s.current();
	s.umount();
	check(s.run(15000, [&] { return on.connection->state() != Connection::State::connected; }),
	      "the connection outlives the mount");
}

/* A READ gets @odd, all of which has to be dropped, and then the right reply. */
void dropped(Server &s, const std::function<std::vector<Octets>(Call &, const Reply &)> &odd)
{
	s.mount("hard,timeo=600");
	for (u32 count : {small, large}) {
		once(s, proc_read, [&](Call &call) {
			for (const Octets &bytes : odd(call, s.prepare_dry(call))) {
				s.send(call.on, bytes);
				/* As many Receives as the client may need for them are not promised. */
				s.peer().run(20, [] { return false; });
			}
			s.answer(call);
		});
		s.read(0, count);
	}
	s.read(0, large);
	connections(s, 1);
}

Octets cut(Octets bytes, size_t length)
{
	bytes.resize(length);
	return bytes;
}

Octets error(u32 xid, std::initializer_list<u32> body, u32 vers = 1)
{
	Header header = {xid, u32(Proc::error)};
	header.vers = vers;
	return Words().octets(fixed_header(header)).words(body).get();
}

void dropped_short(Server &s)
{
	dropped(s, [](Call &call, const Reply &reply) {
		std::vector<Octets> odd;
		for (size_t length : {0, 1, 4, 15, 16, 20, 27})
			odd.push_back(cut(reply.bytes(), length));
		for (size_t length : {16, 19})
			odd.push_back(cut(error(call.xid, {2}), length));
		for (size_t length : {20, 24, 27})
			odd.push_back(cut(error(call.xid, {1, 1, 1}), length));
		return odd;
	});
}

void dropped_version(Server &s)
{
	dropped(s, [](Call &call, const Reply &reply) {
		std::vector<Octets> odd;
		for (u32 vers : {0u, 2u, 0x01000000u, ~0u}) {
			Reply other = reply;
			other.header.vers = vers;
			odd.push_back(other.bytes());
			odd.push_back(error(call.xid, {2}, vers));
		}
		return odd;
	});
}

void dropped_proc(Server &s)
{
	dropped(s, [](Call &call, const Reply &reply) {
		std::vector<Octets> odd;
		for (u32 proc : {2u, 3u, 5u, 0x04000000u, ~0u}) {
			Reply other = reply;
			other.header.proc = proc;
			odd.push_back(other.bytes());
		}
		for (u32 code : {0u, 3u, ~0u})
			odd.push_back(error(call.xid, {code, 1, 1}));
		return odd;
	});
}

void dropped_lists(Server &s)
{
	dropped(s, [](Call &call, const Reply &reply) {
		auto with = [&](std::initializer_list<u32> lists) {
			return Words()
				.octets(fixed_header({call.xid}))
				.words(lists)
				.octets(reply.payload)
				.get();
		};
		Reply reads = reply;
		reads.chunks.read(0, {Rkey(1), 4, 0});
		Reply nothing = reply;
		nothing.header.proc = u32(Proc::nomsg);
		nothing.chunks = {};
		return std::vector<Octets>{
			with({2, 0, 0}),
			with({1, 7, 1, 4, 0, 0, 0, 0, 0}), /* a Position that no word has */
			with({0, 2, 0}),
			with({0, 0, 2}),
			with({0, 1, ~0u, 0}),
			with({0, 1, 0x10000000, 1, 2, 3, 4}),
			with({0, 0, 1, ~0u}),
			cut(with({0, 1, 1, 7, 7, 7, 7, 0, 0}), 40),
			reads.bytes(),
			nothing.bytes(),
		};
	});
}

void dropped_payload(Server &s)
{
	dropped(s, [](Call &call, const Reply &reply) {
		std::vector<Octets> odd;
		Reply other = reply;
		for (size_t length : {0, 4, 7}) {
			other.payload = cut(reply.payload, length);
			odd.push_back(other.bytes());
		}
		other.payload = Words().words({call.xid + 1, 1, 0, 0, 0, 0}).get();
		odd.push_back(other.bytes());
		for (u32 type : {0u, 2u, ~0u}) { /* the first is a backward call to nobody */
			other.payload = Words().words({call.xid, type, 2, 0, 0, 0}).get();
			odd.push_back(other.bytes());
		}
		return odd;
	});
}

/* Replies to nobody, which are right otherwise. */
void dropped_xid(Server &s)
{
	dropped(s, [](Call &call, const Reply &reply) {
		std::vector<Octets> odd;
		for (u32 xid : {call.xid + 1000, call.xid ^ 0x80000000, 0u}) {
			Reply other = reply;
			other.header.xid = xid;
			rpcordma::xdr::store_be32(other.payload.data(), xid);
			odd.push_back(other.bytes());
			odd.push_back(error(xid, {2}));
			odd.push_back(error(xid, {1, 1, 1}));
		}
		return odd;
	});
}

/* A READ of @count gets the right reply as @change leaves it, and fails with EIO; all else goes on. */
void fails(Server &s, u32 count, const std::function<void(Call &, Reply &)> &change)
{
	once(s, proc_read, [&](Call &call) {
		Reply reply = s.prepare(call);
		change(call, reply);
		s.reply(call.on, reply);
	});
	auto job = s.start_read(0, count);
	s.finish(*job);
	check(job->error() == EIO,
	      text("a READ ended with \"%s\", expected EIO", strerror(job->error())));
	s.read(0, large);
}

void errors(Server &s)
{
	s.mount("hard,timeo=600");
	for (u32 count : {small, large}) {
		for (auto body : {std::initializer_list<u32>{2}, {1, 1, 1}, {1, 2, 2}, {1, 9, 3}}) {
			once(s, proc_read,
			     [&](Call &call) { s.reply(call.on, error(call.xid, body), 32); });
			auto job = s.start_read(0, count);
			s.finish(*job);
			check(job->error() == EIO, text("an RDMA_ERROR made \"%s\", expected EIO",
							strerror(job->error())));
			s.read(0, count);
		}
	}
	connections(s, 1);
}

void contradicts_write_chunk(Server &s)
{
	s.mount("hard,timeo=600");
	fails(s, large, [](Call &, Reply &r) { r.chunks.writes[0][0].length += 4; });
	fails(s, large, [](Call &, Reply &r) { r.chunks.writes[0][0].length = ~0u; });
	fails(s, large, [](Call &, Reply &r) { r.chunks.writes[0].push_back({Rkey(1), 0, 0}); });
	fails(s, large, [](Call &, Reply &r) {
		r.chunks.writes[0].resize(200);
		r.invalidate.reset();
	});
	fails(s, large, [](Call &, Reply &r) { r.chunks.writes[0].clear(); });
	fails(s, large, [](Call &, Reply &r) { r.chunks.write(r.chunks.writes[0]); });
	fails(s, small, [](Call &, Reply &r) { r.chunks.write({{Rkey(1), 512, 0}}); });
	connections(s, 1);
}

/*
 * We write to a Write chunk, and return it as unused (RFC 8166 4.3.2.2): what is there is nothing that was read.
 * Either the READ fails, or its data come inline all the same (6.1); the file's bytes, no others, get to the reader.
 */
void unused_write_chunk(Server &s)
{
	constexpr u32 nfs3err_io = 5, inside = 512, before_count = 24 + 92;
	s.mount("hard,timeo=600");
	u32 times = 0;
	auto write_and_disown = [&](Call &call, Reply &reply) {
		for (const Segment &segment : call.write_chunk()) {
			ibv_wc_status status =
				call.on.connection->rdma_write(segment, pattern(segment.length, 77));
			check(status == IBV_WC_SUCCESS, ibv_wc_status_str(status));
		}
		for (Segment &segment : reply.chunks.writes.at(0))
			segment.length = 0;
		times++;
	};
	fails(s, large, [&](Call &call, Reply &r) {
		write_and_disown(call, r);
		r.payload = Words().words({call.xid, 1, 0, 0, 0, 0, nfs3err_io, 0}).get();
	});
	/* The first bytes come inline; the client asks for the others. */
	once(s, proc_read, [&](Call &call) {
		Reply r = s.prepare(call);
		write_and_disown(call, r);
		r.payload.resize(before_count);
		r.payload = Words().octets(r.payload)
				    .words({inside, 0, inside})
				    .octets(s.bytes(0, inside))
				    .get();
		s.reply(call.on, r);
	});
	s.read(0, large);
	check(times == 2, text("%u of 2 chunks were written to", times));
	connections(s, 1);
}

void contradicts_reply_chunk(Server &s)
{
	s.mount("hard,timeo=600");
	for (u32 count : {small, large}) {
		for (u32 proc : {u32(Proc::msg), u32(Proc::nomsg)}) {
			fails(s, count, [=](Call &, Reply &r) {
				r.chunks.reply_chunk({{Rkey(1), 128, 0}});
				r.header.proc = proc;
			});
		}
	}
	auto fails_to_list = [&](const std::function<void(Reply &)> &change) {
		once(s, proc_readdir, [&](Call &call) {
			Reply reply = s.prepare(call);
			check(reply.header.proc == u32(Proc::nomsg),
			      "a long READDIR without Reply chunk");
			change(reply);
			s.reply(call.on, reply);
		});
		auto job = s.start("list " + s.address());
		s.finish(*job);
		check(job->error() == EIO,
		      text("a READDIR ended with \"%s\", expected EIO", strerror(job->error())));
	};
	fails_to_list([](Reply &r) {
		r.header.proc = u32(Proc::msg);
		r.payload = Octets(100);
		rpcordma::xdr::store_be32(r.payload.data(), r.header.xid);
		rpcordma::xdr::store_be32(r.payload.data() + 4, 1);
	});
	fails_to_list([](Reply &r) { r.chunks.reply[0][0].length = 0; });
	fails_to_list([](Reply &r) { r.chunks.reply[0][0].length += 1 << 20; });
	fails_to_list([](Reply &r) { r.chunks.reply[0].push_back({Rkey(1), 4, 0}); });
	fails_to_list([](Reply &r) { r.chunks.reply[0].clear(); });
	s.list();
	connections(s, 1);
}

/* RPC replies that end early: an error or another try, as sunrpc has it; never wrong bytes. */
void truncated(Server &s)
{
	for (size_t length : {8, 16, 24, 28, 120}) {
		s.mount("hard,timeo=600");
		once(s, proc_read, [&](Call &call) {
			Reply reply = s.prepare(call);
			reply.payload.resize(std::min(reply.payload.size(), length));
			s.reply(call.on, reply);
		});
		auto job = s.start_read(0, large);
		s.finish(*job);
		if (!job->error())
			s.right(*job, 0, large);
		else
			check(job->error() == EIO,
			      text("cut to %zu bytes: %s", length, strerror(job->error())));
		s.umount();
	}
}

/* Bytes of a Receive with the pages of version 2, by default. */
constexpr u32 longest_2 = 20480;

/* The longest Send that the client takes, and one that is longer. */
void oversized(Server &s)
{
	s.mount("hard,timeo=600");
	once(s, proc_read, [&](Call &call) {
		Reply reply = s.prepare(call);
		u32 header = u32(reply.bytes().size() - reply.payload.size());
		reply.payload.resize(call.on.replies_to - header);
		s.reply(call.on, reply);
	});
	s.read(0, small);
	connections(s, 1);
	once(s, proc_read, [&](Call &call) {
		Reply reply = s.prepare(call);
		/* In version 1, too, a client's first Receives have room for a message of version 2. */
		reply.payload.resize(std::max(call.on.replies_to, longest_2) + 904);
		s.reply(call.on, reply);
	});
	s.read(0, small);
	connections(s, 2);
}

void twice(Server &s)
{
	s.mount("hard,timeo=600");
	for (u32 count : {small, large}) {
		once(s, proc_read, [&](Call &call) {
			Reply reply = s.prepare(call);
			s.reply(call.on, reply);
			for (int i = 0; i < 3; i++)
				s.send(call.on, reply.bytes());
		});
		s.read(0, count);
		/* And once more while the next call is under way. */
		Octets before;
		s.odd = [&](Call &call) {
			if (call.procedure != proc_read)
				return false;
			if (before.empty())
				before = s.prepare_dry(call).bytes();
			else
				s.send(call.on, before);
			return false;
		};
		s.read(0, count);
		s.read(count, count);
	}
	connections(s, 1);
}

/* No reply in time: the connection is given up, the call sent again with its xid; the late reply is nobody's. */
void silence(Server &s)
{
	s.mount("hard,timeo=50,retrans=1");
	u32 xid = 0;
	once(s, proc_read, [&](Call &call) { xid = call.xid; });
	auto job = s.start_read(0, large);
	check(s.run(30000, [&] { return xid != 0; }), "no READ came");
	Octets late;
	once(s, proc_read, [&](Call &call) {
		check(call.xid == xid, "the call was sent again with another xid");
		Reply reply = s.prepare(call);
		late = reply.bytes();
		s.reply(call.on, reply);
		s.send(call.on, late);
	});
	s.right(*job, 0, large);
	s.send(s.current(), late);
	s.read(0, small);
	connections(s, 2);
}

void grant_zero(Server &s)
{
	s.grant = 0;
	s.mount("hard,timeo=600");
	Held held(s);
	auto job = s.start_read(0, 4096, 4);
	for (int i = 0; i < 4; i++) {
		held.settle(1);
		held.answer_all(0);
	}
	s.odd = nullptr;
	s.right(*job, 0, 4 * 4096);
	connections(s, 1);
}

void grant_huge(Server &s)
{
	s.grant = ~0u;
	s.mount("hard,timeo=600");
	Held held(s);
	auto job = s.start_read(0, 4096, 64);
	held.await(64);
	u32 asked = held.calls[0].message.header().credits.get();
	check(s.current().most_outstanding <= asked,
	      text("%u calls outstanding, %u asked for", s.current().most_outstanding, asked));
	s.odd = nullptr;
	held.answer_all(~0u);
	s.right(*job, 0, 64 * 4096);
	connections(s, 1);
}

void grant_changes(Server &s)
{
	s.grant = 8;
	s.mount("hard,timeo=600");
	Held held(s);
	auto job = s.start_read(0, 4096, 40);
	held.settle(8);
	for (u32 grant : {2, 1, 5, 16}) {
		held.answer_all(grant);
		held.settle(grant);
	}
	s.odd = nullptr;
	held.answer_all(1);
	s.right(*job, 0, 40 * 4096);
	connections(s, 1);
}

/* A reply to nobody grants what it says; what cannot be believed grants nothing. */
void grant_to_nobody(Server &s)
{
	s.grant = 1;
	s.mount("hard,timeo=600");
	Held held(s);
	auto job = s.start_read(0, 4096, 8);
	held.settle(1);
	Reply reply = s.prepare_dry(held.calls[0]);
	reply.invalidate.reset();
	reply.header.credits = 6;
	reply.header.vers = 2;
	s.send(s.current(), reply.bytes());
	reply.header.vers = 1;
	reply.header.xid++; /* and the payload has the other */
	s.send(s.current(), reply.bytes());
	held.settle(1);
	rpcordma::xdr::store_be32(reply.payload.data(), reply.header.xid);
	reply.header.credits = 4;
	s.granted(s.current(), 4);
	s.send(s.current(), reply.bytes());
	held.settle(4);
	s.odd = nullptr;
	held.answer_all(4);
	s.right(*job, 0, 8 * 4096);
	connections(s, 1);
}

} // namespace

const std::vector<OddTest> odd_reply_tests = {
	{"odd-right", "nothing odd: every byte arrives, on one connection", right},
	{"odd-short", "replies and errors too short to be believed: dropped", dropped_short},
	{"odd-version", "replies and errors of other versions: dropped", dropped_version},
	{"odd-proc", "procs and error codes that there are not: dropped", dropped_proc},
	{"odd-lists", "chunk lists not decodable, Read lists, NOMSG of nothing: dropped",
	 dropped_lists},
	{"odd-payload", "what is neither call nor reply, or has another xid: dropped",
	 dropped_payload},
	{"odd-xid", "replies and errors to nobody: dropped", dropped_xid},
	{"odd-error", "ERR_CHUNK and ERR_VERS: EIO", errors},
	{"odd-write-chunk", "a Write chunk returned as it was not offered: EIO",
	 contradicts_write_chunk},
	{"odd-write-unused", "a Write chunk that was written to, returned as unused: not believed",
	 unused_write_chunk},
	{"odd-reply-chunk", "a Reply chunk likewise, or used when it must not be: EIO",
	 contradicts_reply_chunk},
	{"odd-truncated", "RPC replies that end early: EIO, or asked again", truncated},
	{"odd-oversized",
	 "a Send of the longest length is taken, a longer one costs the connection", oversized},
	{"odd-twice", "replies that come again: dropped", twice},
	{"odd-silence", "no reply: another connection, the same xid; and then the late reply",
	 silence},
	{"odd-grant-zero", "no credits at all: one call at a time", grant_zero},
	{"odd-grant-huge", "2^32 - 1 credits: no more calls than were asked for", grant_huge},
	{"odd-grant-changes", "credits go down and up: never more calls than granted", grant_changes},
	{"odd-grant-nobody", "a grant in a reply to nobody counts, one in what is dropped does not",
	 grant_to_nobody},
};

} // namespace verbs
