// SPDX-License-Identifier: GPL-2.0-only
/*
 * Connections that are there, for whoever measures what they cost the server. They are idle until a line
 * of standard input says otherwise:
 *
 *	open N		so many there are from then on; each new one presents a filehandle to the server once
 *	calls ROUNDS	so many times every connection has `depth` small calls (NFSv3 GETATTR) at a time
 *	end		they go
 *
 * A line on standard output says that it is done, with the numbers; "not ok", and the end, that it cannot be.
 */
#include "test.hh"

#include <algorithm>
#include <cstdio>
#include <deque>

#include <fcntl.h>
#include <unistd.h>

namespace verbs {

namespace {

constexpr u32 window = 8; /* connections that are being made at once: more only wait for each other */
constexpr u32 depth = 4;
constexpr u64 patience_ms = 60000;     /* for an answer, behind those of all others */
constexpr u64 boredom_ms = 10 * 60000; /* without an order */
constexpr u32 getattr = 1;

class Crew {
public:
	explicit Crew(Peer &peer) : peer_(peer), test_(peer)
	{
		setup_.message_size = 1024;
		setup_.receives = setup_.sends = depth;
	}

	void open(u32 number);
	void calls(u32 rounds);
	/* Fails when one that was there no longer is. */
	void all_there() const;

	/* As many as there are. */
	[[nodiscard]] u32 size() const
	{
		return u32(all_.size());
	}

private:
	using Member = std::unique_ptr<Connection>;

	void present_(Connection &connection);
	void ask_(Connection &connection, u32 number);
	void answers_(Connection &connection, u32 number);

	Peer &peer_;
	Test test_;
	Setup setup_;
	std::vector<Member> all_;
	Octets handle_;
	u32 first_xid_ = 0; /* of the calls that are outstanding on each connection */
};

void Crew::ask_(Connection &connection, u32 number)
{
	for (u32 i = 0; i < number; i++) {
		u32 xid = first_xid_ + i;
		Octets call = nfs3_call(xid, getattr).opaque(handle_).get();
		const bool sent = connection.send(message({xid}, {}, call));
		check(sent, "cannot send: " + connection.describe());
	}
}

void Crew::answers_(Connection &connection, u32 number)
{
	std::vector<bool> seen(number);

	for (u32 i = 0; i < number; i++) {
		Received received;
		const bool came = connection.receive(received, patience_ms);
		check(came, "no answer: " + connection.describe());
		Answer answer(std::move(received));
		check(answer.valid(), "came " + answer.describe());
		u32 xid = answer.header().xid.get(), index = xid - first_xid_;
		check(index < number && !seen[index], "not asked for: " + answer.describe());
		seen[index] = true;
		check(answer.header().credits.get() >= depth,
		      text("%u credits, too few for %u calls at a time",
			   answer.header().credits.get(), depth));
		Results results(test_.plain_reply(answer, xid), xid);
		results.success();
		u32 status = results.word();
		check(!status, text("a GETATTR ended with status %u", status));
	}
}

/* An idle one is to have cost the server no more than this. */
void Crew::present_(Connection &connection)
{
	if (handle_.empty())
		handle_ = test_.root(connection);
	first_xid_ = test_.xid();
	ask_(connection, 1);
	answers_(connection, 1);
}

void Crew::open(u32 number)
{
	std::deque<Member> making;

	while (all_.size() < number) {
		while (making.size() < window && all_.size() + making.size() < number) {
			making.push_back(std::make_unique<Connection>(peer_, setup_));
			making.back()->connect();
		}
		Connection &first = *making.front();
		check(first.established(patience_ms),
		      text("connection %zu: ", all_.size() + 1) + first.describe());
		present_(first);
		all_.push_back(std::move(making.front()));
		making.pop_front();
	}
}

void Crew::calls(u32 rounds)
{
	while (rounds--) {
		first_xid_ = test_.xid();
		for (u32 i = 1; i < depth; i++)
			test_.xid();
		for (Member &c : all_)
			ask_(*c, depth);
		for (Member &c : all_)
			answers_(*c, depth);
	}
}

void Crew::all_there() const
{
	for (const Member &c : all_)
		check(c->state() == Connection::State::connected, "idle, then: " + c->describe());
}

} // namespace

bool hold(Peer &peer)
{
	Crew crew(peer);
	std::string input;

	fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
	peer.watch(0, [&] {
		char room[100];
		ssize_t n = read(0, room, sizeof(room));
		if (n > 0)
			input.append(room, size_t(n));
		else if (!n)
			input += "end\n";
	});
	try {
		for (;;) {
			auto line = [&] { return input.find('\n'); };
			check(peer.run(boredom_ms, [&] { return line() != std::string::npos; }),
			      "nobody said what to do");
			std::string order = input.substr(0, line());
			input.erase(0, line() + 1);
			crew.all_there();

			u32 number;
			u64 began = now_ms();
			if (order == "end")
				break;
			if (sscanf(order.c_str(), "open %u", &number) == 1) {
				crew.open(number);
				printf("open: %u connections", crew.size());
			} else if (sscanf(order.c_str(), "calls %u", &number) == 1) {
				crew.calls(number);
				printf("calls: %u", number * depth * crew.size());
			} else {
				throw Failure{"no order: " + order};
			}
			printf(" in %.2f s\n", double(now_ms() - began) / 1000);
			fflush(stdout);
		}
	} catch (Failure &failure) {
		printf("not ok - hold: %s\n", failure.what.c_str());
		peer.forget(0);
		return false;
	}
	peer.forget(0);
	return true;
}

} // namespace verbs
