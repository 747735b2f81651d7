// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many connections at once.
 *
 * Of a storm none means well. Each does one thing, by its place in the mix:
 *
 *	g	noise, long enough to be answered: ERR_VERS
 *	h	half a header: dropped
 *	n	nothing at all
 *	c	a call with chunks that point nowhere: the connection is lost, or ERR_CHUNK
 *
 * Whoever is still connected at the end has to be served like anybody else.
 *
 * A crowd is honest and in a hurry: all of them ask to be connected before one of them is.
 */
#include "test.hh"

#include <algorithm>
#include <cstdio>

#include <arpa/inet.h>

namespace verbs {

namespace {

/* Connections that are being made at once: more only wait for each other. */
constexpr u32 window = 8;
/* Of ours, at most: a program can name 256 of a device's GIDs. */
constexpr u32 addresses = 250;

struct Stranger {
	std::unique_ptr<Connection> connection;
	char kind;
	bool acted = false;
	u32 xid = 0;
	std::string answer = {}; /* to what it did */
};

struct Count {
	u32 all = 0, refused = 0, answered = 0, lost = 0, served = 0, wrong = 0;
	std::string what; /* was the first thing wrong */

	void fault(const std::string &text)
	{
		if (!wrong++)
			what = text;
	}
};

Octets misdeed(Stranger &s, u32 i)
{
	s.xid = 0x80000000 | i;
	if (s.kind == 'g')
		return pattern(28 + i * 37 % 900, i);
	if (s.kind == 'h') {
		Octets half = null_message(s.xid);
		half.resize(14);
		return half;
	}
	Compound compound(s.xid);
	compound.lookup(file_name).write_reduced(0, 4096);
	Segment nowhere = {Rkey(0xdead0000 | (i & 0xffff)), 4096, u64(i) << 20};
	return message({s.xid}, Chunks().read(compound.positions()[0], nowhere), compound.payload());
}

bool settled(const Stranger &s)
{
	auto state = s.connection->state();
	return state != Connection::State::resolving && state != Connection::State::connecting;
}

void judge(Stranger &s, Count &count)
{
	count.all++;
	if (s.connection->state() == Connection::State::refused) {
		count.refused++;
		count.fault(s.connection->describe());
		return;
	}
	if (!s.answer.empty())
		count.answered++;
	bool connected = s.connection->state() == Connection::State::connected;
	if (!connected)
		count.lost++;

	bool expected = false;
	switch (s.kind) {
	case 'g':
		expected = connected && s.answer.rfind("ERR_VERS", 0) == 0;
		break;
	case 'c':
		expected = (!connected && s.answer.empty()) || s.answer.rfind("ERR_CHUNK", 0) == 0;
		break;
	default:
		expected = connected && s.answer.empty();
	}
	if (!expected)
		count.fault((s.answer.empty() ? "no answer" : s.answer) + ", " +
			    s.connection->describe());
	if (!connected)
		return;
	Received received;
	if (s.connection->send(null_message(1)) && s.connection->receive(received) &&
	    Answer(std::move(received)).describe() == "an RDMA_MSG of 52 bytes to xid 1")
		count.served++;
	else
		count.fault("not served afterwards: " + s.connection->describe());
}

} // namespace

bool storm(Peer &peer, u32 connections, const std::string &mix, u32 seconds)
{
	std::vector<Stranger> strangers;
	Setup setup;
	setup.message_size = 1024;
	setup.receives = setup.sends = 4;

	u64 began = now_ms(), slowest = 0;
	for (u32 i = 0; i < connections; i++) {
		auto making = [&] {
			return std::count_if(strangers.begin(), strangers.end(),
					     [](auto &s) { return !settled(s); });
		};
		u64 asked = now_ms();
		if (!peer.run(30000, [&] { return making() < window; })) {
			printf("not ok - storm: the server takes no more after %u connections\n", i);
			return false;
		}
		slowest = std::max(slowest, now_ms() - asked);
		strangers.push_back({std::make_unique<Connection>(peer, setup), mix[i % mix.size()]});
		strangers.back().connection->connect();
		for (u32 j = 0; j <= i; j++) {
			Stranger &s = strangers[j];
			if (s.acted || s.connection->state() != Connection::State::connected)
				continue;
			s.acted = true;
			if (s.kind != 'n')
				s.connection->send(misdeed(s, j));
		}
	}
	peer.run(30000, [&] { return std::all_of(strangers.begin(), strangers.end(), settled); });
	for (u32 i = 0; i < connections; i++) {
		Stranger &s = strangers[i];
		if (!s.acted && s.connection->state() == Connection::State::connected &&
		    s.kind != 'n')
			s.connection->send(misdeed(s, i));
	}
	/* The test looks at the server while all of them are there. */
	printf("storm: %u connections asked for in %.1f s, the slowest took %.1f s\n", connections,
	       double(now_ms() - began) / 1000, double(slowest) / 1000);
	fflush(stdout);
	peer.run(u64(seconds) * 1000, [] { return false; });

	std::map<char, Count> counts;
	for (Stranger &s : strangers) {
		Received received;
		if (s.connection->receive(received, 0))
			s.answer = Answer(std::move(received)).describe();
		judge(s, counts[s.kind]);
	}
	bool good = true;
	for (auto &[kind, count] : counts) {
		good = good && !count.wrong;
		printf("%sok - storm-%c: %u connections, %u refused, %u answered, %u lost, %u "
		       "served "
		       "afterwards%s\n",
		       count.wrong ? "not " : "", kind, count.all, count.refused, count.answered,
		       count.lost, count.served,
		       count.wrong ? text(", %u not as expected, the first: %s", count.wrong,
					  count.what.c_str())
					     .c_str() :
				     "");
	}
	return good;
}

bool crowd(Peer &peer, u32 connections, u32 seconds, const char *first)
{
	std::vector<std::unique_ptr<Connection>> all;
	Setup setup;
	setup.message_size = 1024;
	setup.receives = setup.sends = 2;

	sockaddr_in from = {};
	from.sin_family = AF_INET;
	if (first && inet_pton(AF_INET, first, &from.sin_addr) != 1)
		throw Failure{text("%s is no IPv4 address", first)};
	const u32 base = ntohl(from.sin_addr.s_addr);
	const u64 began = now_ms();
	for (u32 i = 0; i < connections; i++) {
		from.sin_addr.s_addr = htonl(base + i % addresses);
		all.push_back(std::make_unique<Connection>(peer, setup));
		all.back()->connect(first ? &from : nullptr);
	}
	auto count = [&](Connection::State state) {
		return u32(std::count_if(all.begin(), all.end(),
					 [&](auto &c) { return c->state() == state; }));
	};
	u32 waiting = 0;
	std::string told;
	/* The test looks at the server while they wait, and makes it go on. */
	auto settled = [&] {
		u32 asked = connections - count(Connection::State::resolving);
		waiting = count(Connection::State::connecting);
		std::string line = text("crowd: %u asked, %u wait, %u refused", asked, waiting,
					count(Connection::State::refused));
		if (line != told)
			printf("%s\n", line.c_str());
		fflush(stdout);
		told = line;
		return asked == connections && !waiting;
	};
	bool all_settled = peer.run(u64(seconds) * 1000, settled);
	const u64 took = now_ms() - began;
	const auto first_refused = std::find_if(all.begin(), all.end(), [](auto &c) {
		return c->state() == Connection::State::refused;
	});
	if (first_refused != all.end())
		printf("the first that was refused: number %zu, %s\n", first_refused - all.begin(),
		       (*first_refused)->describe().c_str());

	u32 connected = count(Connection::State::connected), served = 0;
	for (auto &c : all) {
		Received received;
		if (c->state() == Connection::State::connected && c->send(null_message(1)) &&
		    c->receive(received, 30000) &&
		    Answer(std::move(received)).describe() == "an RDMA_MSG of 52 bytes to xid 1")
			served++;
	}
	bool good = all_settled && served == connected;
	printf("%sok - crowd: %u connections, %u connected, %u of them served, %u refused, %u "
	       "without an answer, %.1f s\n",
	       good ? "" : "not ", connections, connected, served,
	       count(Connection::State::refused), waiting, double(took) / 1000);
	return good;
}

} // namespace verbs
