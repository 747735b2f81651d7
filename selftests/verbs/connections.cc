// SPDX-License-Identifier: GPL-2.0-only
/*
 * How a connection is asked for, used and left: private data (RFC 8797), resources that are offered,
 * silence, and good-byes at every point.
 */
#include "test.hh"

namespace verbs {

namespace {

/* Longer than a message of 1024 bytes, shorter than one of 4096. */
constexpr u32 more_than_1024 = 2000;

Octets default_private_data(u32 message_size)
{
	u8 room[rpcordma::private_data::length];
	rpcordma::private_data::Properties ours = {message_size, message_size, false};
	u32 length = rpcordma::private_data::encode(room, ours).value();
	return Octets(room, room + length);
}

Setup with_private_data(const Octets &private_data)
{
	Setup setup;
	setup.default_private_data = false;
	setup.private_data = private_data;
	return setup;
}

/*
 * How long a reply may the server send inline? READs more than 1024 bytes, and offers no chunk for
 * them.
 */
void threshold_is_1024(Test &t, Connection &c)
{
	t.put(t.connect(), 0, pattern(more_than_1024, 1));
	Header header = {t.xid()};
	Compound compound(header.xid);
	compound.lookup(file_name).read(0, more_than_1024);
	t.send(c, message(header, {}, compound.payload()));
	t.error_chunk(c, header);
	t.served(c);
}

void threshold_is_4096(Test &t, Connection &c)
{
	t.put(c, 0, pattern(more_than_1024, 1));
	same(t.get(c, 0, more_than_1024), pattern(more_than_1024, 1), "what was read inline");
}

void private_data_none(Test &t)
{
	Connection &c = t.connect(with_private_data({}));
	t.served(c);
	t.put(c, 0, pattern(more_than_1024 / 4, 1));
	same(t.get(c, 0, more_than_1024 / 4), pattern(more_than_1024 / 4, 1), "a short READ");
	threshold_is_1024(t, c);
}

void private_data_noise(Test &t)
{
	Octets future = default_private_data(4096);
	future[4] = 2; /* of the format version */
	Octets cut = default_private_data(4096);
	cut.resize(7);
	for (const Octets &noise : {pattern(56, 3), Octets(56, 0xff), future}) {
		Connection &c = t.connect(with_private_data(noise));
		t.served(c);
		threshold_is_1024(t, c);
	}
	/* InfiniBand's private data has one length, so what is cut off may be completed with zeros. */
	t.served(t.connect(with_private_data(cut)));
}

void private_data_offset(Test &t)
{
	for (u32 offset : {1u, 8u, 48u}) {
		Octets ours = default_private_data(4096);
		Octets bytes = pattern(offset, 4);
		bytes.insert(bytes.end(), ours.begin(), ours.end());
		Connection &c = t.connect(with_private_data(bytes));
		t.served(c);
		threshold_is_4096(t, c);
	}
}

void no_reads(Test &t)
{
	Setup setup;
	setup.responder_resources = 0;
	Connection c(t.peer(), setup);
	c.connect();
	bool established = c.established();
	check(!established, "accepted");
	check(c.state() == Connection::State::refused,
	      "neither accepted nor refused: " + c.describe());
	t.note(c.describe());
}

void silence(Test &t)
{
	Connection &c = t.connect();
	check(!c.ended(2000), "the server ended a connection that was silent for 2 s");
	t.served(c);
}

/* Leave without a word, again and again; the harness then sees whether the server still serves. */
void leave(Test &t)
{
	for (int round = 0; round < 3; round++) {
		/* While the server is being asked. */
		for (u64 wait : {0, 1, 3, 10, 30}) {
			Connection c(t.peer());
			c.connect();
			t.peer().run(wait, [] { return false; });
		}
		/* As soon as it has accepted. */
		t.drop(t.connect());
		/* With a call on its way, or a reply. */
		for (u64 wait : {0, 1, 3, 10}) {
			Connection &c = t.connect();
			t.send(c, null_message(t.xid()));
			t.peer().run(wait, [] { return false; });
			t.drop(c);
		}
		/* With RDMA Reads and Writes under way. */
		for (u64 wait : {1, 3, 10, 30}) {
			Connection &c = t.connect();
			Memory memory(t.peer(), 1 << 20);
			u32 xid = t.xid();
			Compound write(xid);
			write.lookup(file_name).write_reduced(0, 1 << 20);
			t.send(c,
			       message({xid}, Chunks().read(write.positions()[0], memory.segment()),
				       write.payload()));
			xid = t.xid();
			Compound read(xid);
			read.lookup(file_name).read(0, 1 << 20);
			t.send(c,
			       message({xid}, Chunks().write({memory.segment()}), read.payload()));
			t.peer().run(wait, [] { return false; });
			t.drop(c);
		}
	}
	/* What was half asked for is forgotten in its time; then all is as before. */
	t.served(t.connect());
}

/* Memory goes while the server reads from it, and the connection stays. */
void withdraw(Test &t)
{
	Connection &c = t.connect();
	Memory memory(t.peer(), 1 << 20);
	u32 xid = t.xid();
	Compound write(xid);
	write.lookup(file_name).write_reduced(0, 1 << 20);
	t.send(c, message({xid}, Chunks().read(write.positions()[0], memory.segment()),
			  write.payload()));
	memory.withdraw();
	Received received;
	bool answered = c.receive(received, 15000);
	check(answered || c.state() != Connection::State::connected, "neither answered nor lost");
	t.note(answered ? "answered before" : c.describe());
}

/* The same while the server writes to it. */
void withdraw_written(Test &t)
{
	Connection &c = t.connect();
	Memory memory(t.peer(), 1 << 20);
	u32 xid = t.xid();
	Compound write(xid);
	write.lookup(file_name).write_reduced(0, 1 << 20);
	Results(t.plain_reply(t.call(c, {xid}, Chunks().read(write.positions()[0], memory.segment()),
				     write.payload()),
			      xid),
		xid)
		.compound(3);
	xid = t.xid();
	Compound read(xid);
	read.lookup(file_name).read(0, 1 << 20);
	t.send(c, message({xid}, Chunks().write({memory.segment()}), read.payload()));
	memory.withdraw();
	Received received;
	bool answered = c.receive(received, 15000);
	check(answered || c.state() != Connection::State::connected, "neither answered nor lost");
	t.note(answered ? "answered before" : c.describe());
}

} // namespace

const std::vector<TestCase> connection_tests = {
	{"connect-no-private-data", "none: 1024 bytes inline at most, more is ERR_CHUNK",
	 private_data_none},
	{"connect-noise", "private data of noise, or of another format: as none", private_data_noise},
	{"connect-offset", "private data behind somebody else's: found", private_data_offset},
	{"connect-no-reads", "no RDMA Read allowed: refused", no_reads},
	{"connect-silence", "silent for 2 s, then served", silence},
	{"connect-leave", "left at every point: survived", leave},
	{"connect-withdraw", "memory deregistered while it is read: answered or lost", withdraw},
	{"connect-withdraw-written", "the same while it is written to", withdraw_written},
};

} // namespace verbs
