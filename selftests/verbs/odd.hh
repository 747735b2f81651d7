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
void once(Server &server, u32 procedure, const std::function<void(Call &)> &deal);
/** The client has made @connections in all. */
void connections(Server &server, u32 connections);

extern const std::vector<OddTest> odd_reply_tests, odd_connection_tests, odd_memory_tests,
	odd_backward_tests;

} // namespace verbs
