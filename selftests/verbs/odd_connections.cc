// SPDX-License-Identifier: GPL-2.0-only
/*
 * How connections are granted, refused and ended: at each point of a conversation, and with private
 * data (RFC 8797) of every shape. A hard mount survives all of it.
 */
#include "odd.hh"

#include <cstring>

namespace verbs {

namespace {

constexpr const char *hard = "hard,timeo=600";

/* The mount's connection goes; then a READ needs the next one. */
void read_again(Server &s)
{
	s.current().connection->disconnect();
	s.read(0, 65536);
}

/* More than one in a row would take the client's back-off: 5 s, 10 s, 20 s. */
void rejected(Server &s, const Octets &private_data)
{
	s.mount(hard);
	u32 refused = 0;
	s.asked = [&](Connection &c) {
		if (refused)
			return false;
		refused++;
		c.reject(private_data);
		return true;
	};
	read_again(s);
	check(refused == 1, "the client did not ask again");
	connections(s, 2);
}

void reject(Server &s)
{
	rejected(s, {});
}

void reject_data(Server &s)
{
	rejected(s, pattern(100, 9));
}

void reject_mount(Server &s)
{
	for (const Octets &private_data : {Octets(), pattern(148, 10)}) {
		u32 refused = 0;
		s.asked = [&](Connection &c) {
			refused++;
			c.reject(private_data);
			return true;
		};
		auto job = s.start_mount(hard);
		s.finish(*job, 60000);
		check(job->error() && refused,
		      text("a mount that is refused a connection: %s after %u "
			   "attempts",
			   strerror(job->error()), refused));
	}
	connections(s, 0);
}

void no_answer(Server &s)
{
	u32 asked = 0;
	s.asked = [&](Connection &) {
		asked++;
		return true;
	};
	auto job = s.start_mount(hard);
	check(s.run(30000, [&] { return asked != 0; }), "nobody asks for a connection");
	s.serve(1000);
	check(!job->ended(), text("the mount did not wait: %s", strerror(job->error())));
	job->kill();
	s.finish(*job, 60000);
	connections(s, 0);
}

/* @known: when the client knows that it is connected. */
void leave_new(Server &s, bool known)
{
	s.mount(hard);
	u32 left = 0;
	s.asked = [&](Connection &c) {
		if (left)
			return false;
		left++;
		c.accept(s.setup);
		if (known && c.established())
			s.peer().run(50, [] { return false; });
		c.disconnect();
		return true;
	};
	read_again(s);
	check(left == 1, "the client did not ask again");
	connections(s, 2);
}

void leave_accepted(Server &s)
{
	leave_new(s, false);
}

void leave_established(Server &s)
{
	leave_new(s, true);
}

void leave_call(Server &s)
{
	s.mount(hard);
	u32 calls = 0, xid = 0;
	s.odd = [&](Call &call) {
		if (call.procedure != proc_read)
			return false;
		check(!calls || call.xid == xid, "the call was sent again with another xid");
		xid = call.xid;
		if (++calls == 3)
			return false;
		call.on.connection->disconnect();
		return true;
	};
	s.read(0, 65536);
	connections(s, 3);
}

void leave_writes(Server &s)
{
	s.mount(hard);
	once(s, proc_read, [&](Call &call) {
		Segment first = call.write_chunk().at(0);
		check(call.on.connection->rdma_write(first, pattern(first.length / 2, 99)) ==
			      IBV_WC_SUCCESS,
		      "an RDMA Write that is allowed failed");
		call.on.connection->disconnect();
	});
	s.read(0, 65536);
	once(s, proc_write, [&](Call &call) {
		Segment first = call.read_chunk().at(0);
		Octets some(first.length / 2);
		check(call.on.connection->rdma_read(first, some) == IBV_WC_SUCCESS,
		      "an RDMA Read that is allowed failed");
		call.on.connection->disconnect();
	});
	s.write(0, 65536, 4);
	connections(s, 3);
}

void leave_reply(Server &s)
{
	s.mount(hard);
	once(s, proc_read, [&](Call &call) {
		s.answer(call);
		(void)call.on.connection->sent();
		call.on.connection->disconnect();
	});
	s.read(0, 65536);
	s.read(65536, 65536);
	connections(s, 2);
}

void leave_idle(Server &s)
{
	s.mount(hard);
	s.read(0, 65536);
	s.current().connection->disconnect();
	s.serve(1000);
	connections(s, 1);
	s.read(65536, 65536);
	connections(s, 2);
}

Octets said(u32 send_size, u32 receive_size, bool invalidation = true)
{
	u8 room[rpcordma::private_data::length];
	u32 length =
		rpcordma::private_data::encode(room, {send_size, receive_size, invalidation}).value();
	return Octets(room, room + length);
}

/*
 * With @private_data, the client's calls and our replies are inline up to these lengths, and not beyond:
 * the server fails what is longer, or has no chunk where it needs one.
 */
void thresholds(Server &s, const Octets &private_data, u32 calls, u32 replies)
{
	u32 reads_inline = 0, reads = 0, writes_inline = 0, writes = 0;

	s.setup.default_private_data = false;
	s.setup.private_data = private_data;
	s.odd = [&](Call &call) {
		if (call.procedure == proc_read) {
			reads++;
			reads_inline += call.write_chunk().empty();
		} else if (call.procedure == proc_write) {
			writes++;
			writes_inline += call.read_chunk().empty();
		}
		return false;
	};
	s.mount(hard);
	Conversation &on = s.current();
	check(on.calls_to == calls && on.replies_to == replies,
	      text("the test is wrong: thresholds %u and %u", on.calls_to, on.replies_to));
	/* Headers take less than 400 bytes. */
	s.read(0, replies - 400);
	check(reads == 1 && reads_inline == 1,
	      text("a READ of %u bytes is not inline", replies - 400));
	s.read(0, replies);
	check(reads == 2 && reads_inline == 1, text("a READ of %u bytes has no chunk", replies));
	s.write(0, calls - 400, 11);
	check(writes == 1 && writes_inline == 1,
	      text("a WRITE of %u bytes is not inline", calls - 400));
	s.write(0, calls, 12);
	check(writes == 2 && writes_inline == 1, text("a WRITE of %u bytes has no chunk", calls));
	s.list();
	s.umount();
}

void private_data_none(Server &s)
{
	thresholds(s, {}, 1024, 1024);
}

void private_data_noise(Server &s)
{
	Octets future = said(4096, 4096);
	future[4] = 2; /* of the format version */
	Octets many = said(4096, 4096);
	many.resize(4);
	for (int i = 0; i < 5; i++)
		many.insert(many.end(), many.begin(), many.begin() + 4);
	for (const Octets &noise : {pattern(196, 3), Octets(56, 0xff), future, many})
		thresholds(s, noise, 1024, 1024);
}

void private_data_offset(Server &s)
{
	for (u32 offset : {1u, 8u, 188u}) {
		Octets bytes = pattern(offset, 4), ours = said(4096, 4096);
		bytes.insert(bytes.end(), ours.begin(), ours.end());
		thresholds(s, bytes, 4096, 4096);
	}
}

void private_data_sizes(Server &s)
{
	thresholds(s, said(1024, 2048), 2048, 1024);
	thresholds(s, said(3072, 1024, false), 1024, 3072);
	/* As much as can be told; the client takes 4096. */
	thresholds(s, said(262144, 262144), 4096, 4096);
}

} // namespace

const std::vector<OddTest> odd_connection_tests = {
	{"odd-reject", "an attempt rejected: it asks again", reject},
	{"odd-reject-data", "the same with private data", reject_data},
	{"odd-reject-mount", "every attempt rejected: the mount fails", reject_mount},
	{"odd-no-answer", "attempts get no answer: the mount waits, and can be killed", no_answer},
	{"odd-leave-accepted", "accepted, and left at once", leave_accepted},
	{"odd-leave-established", "left when both know of the connection, before any call",
	 leave_established},
	{"odd-leave-call", "left with the call: sent again with its xid", leave_call},
	{"odd-leave-writes", "left in the middle of RDMA Writes and Reads", leave_writes},
	{"odd-leave-reply", "left with the reply sent: it counts", leave_reply},
	{"odd-leave-idle", "left when idle: connected again when needed", leave_idle},
	{"odd-data-none", "no private data: 1024 bytes inline, both ways", private_data_none},
	{"odd-data-noise", "private data of noise, or of another format: as none",
	 private_data_noise},
	{"odd-data-offset", "private data behind somebody else's: found", private_data_offset},
	{"odd-data-sizes", "sizes that differ each way, or are huge: kept to", private_data_sizes},
};

} // namespace verbs
