// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conversations in which the server is the odd one, and the client is judged. Before and after each
 * the client is to get a file right from a correct server (main.cc).
 */
#pragma once

#include "server.hh"
#include "test.hh"

namespace verbs {

struct OddTest {
	const char *name;
	const char *what;
	void (*function)(Server &);
};

/** The next call of @procedure is @deal's; all others are the server's. */
void once(Server &server, u32 procedure, const std::function<void(Call &)> &deal,
	  u32 program = nfs_program);

/** Calls of one procedure, the first @limit of them, which are not answered; all others are. */
class Held {
public:
	explicit Held(Server &server, u32 procedure = proc_read, size_t limit = ~size_t(0));
	/** From here on the server answers all. */
	~Held();
	Held(const Held &) = delete;
	Held &operator=(const Held &) = delete;

	/** Wait until @count are here. */
	void await(size_t count);
	/** The same, and no more than that come. */
	void settle(size_t count);
	/** Do what is right with those that are here, and grant so much from now on. */
	void answer_all(u32 grant);

	std::deque<Call> calls;

private:
	Server &s_;
	size_t taken_ = 0;
};

/** The client has made @connections in all. */
void connections(Server &server, u32 connections);

extern const std::vector<OddTest> odd_reply_tests, odd_item_tests, odd_connection_tests,
	odd_memory_tests, odd_backward_tests, odd_version2_tests, odd_group_tests, odd_sent_tests;

} // namespace verbs
