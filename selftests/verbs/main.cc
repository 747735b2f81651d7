// SPDX-License-Identifier: GPL-2.0-only
/*
 * verbspeer: speaks RPC-over-RDMA to an NFS server from user space, rightly and wrongly, and judges
 * the answers.
 *
 *	verbspeer --list
 *	verbspeer SERVER null			a NULL call of NFSv3, and what the server says of itself
 *	verbspeer SERVER test [NAME...]		all tests, or those that begin with one of these;
 *						NAME= is one test alone
 *	verbspeer SERVER storm N MIX SECONDS	N strangers, see storm.cc
 *	verbspeer SERVER crowd N SECONDS	N that ask to be connected at the same time
 *
 * One line for each test, as TAP has it; the last line counts. Exit status 0 when all was well.
 */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/resource.h>
#include <unistd.h>

#include "test.hh"

namespace verbs {

namespace {

constexpr const char *port = "20049";
/* A test that takes longer hangs, most likely in the RDMA core. */
constexpr unsigned int test_seconds = 120;

/* What SIGALRM says is stuck. */
char current[100];

void stuck(int)
{
	static const char after[] = ": no end after its time limit\n";
	/* Nothing else is safe in a signal handler. */
	if (write(1, "not ok - ", 9) < 0 || write(1, current, strlen(current)) < 0 ||
	    write(1, after, sizeof(after) - 1) < 0)
		_exit(3);
	_exit(2);
}

void null_call_alone(Test &t)
{
	Connection &c = t.connect();
	const Octets &data = c.private_data();
	auto theirs = rpcordma::private_data::parse({data.data(), data.size()});
	if (theirs.ok())
		t.note(text("private data: sends %u, receives %u, R %d", theirs.value().send_size,
			    theirs.value().receive_size, theirs.value().remote_invalidation));
	else
		t.note("no private data");
	t.note(text("%u credits", t.served(c)));
}

bool run(Peer &peer, const TestCase &test)
{
	std::string wrong, notes;

	snprintf(current, sizeof(current), "%s", test.name);
	alarm(test_seconds);
	u64 began = now_ms();
	try {
		Test t(peer);
		try {
			test.function(t);
		} catch (Failure &failure) {
			wrong = failure.what;
		}
		notes = t.notes();
	} catch (Failure &failure) {
		wrong = failure.what;
	}
	/* Whatever has been done to the server, it serves the next one. */
	try {
		Test t(peer);
		t.served(t.connect());
	} catch (Failure &failure) {
		wrong += (wrong.empty() ? "" : "; and ") +
			 text("a fresh connection is not served afterwards: %s",
			      failure.what.c_str());
	}
	alarm(0);
	if (!wrong.empty())
		notes = wrong + (notes.empty() ? "" : " (" + notes + ")");
	printf("%sok - %s: %s%s%s, %.1f s\n", wrong.empty() ? "" : "not ", test.name, test.what,
	       notes.empty() ? "" : ": ", notes.c_str(), double(now_ms() - began) / 1000);
	fflush(stdout);
	return wrong.empty();
}

std::vector<TestCase> chosen(char **names)
{
	std::vector<TestCase> tests;
	bool any = *names == nullptr;

	for (auto *group : {&header_tests, &connection_tests, &nfs_tests, &chunk_tests}) {
		for (const TestCase &test : *group) {
			bool wanted = any;
			for (char **name = names; *name; name++)
				wanted = wanted || !strncmp(test.name, *name, strlen(*name)) ||
					 *name == std::string(test.name) + "=";
			if (wanted)
				tests.push_back(test);
		}
	}
	return tests;
}

int usage()
{
	fputs("usage: verbspeer --list | SERVER null | SERVER test [NAME...] |\n"
	      "       SERVER storm N MIX SECONDS   (MIX: letters of g h n c) |\n"
	      "       SERVER crowd N SECONDS\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--list")) {
		for (const TestCase &test : chosen(argv + argc))
			printf("%-28s %s\n", test.name, test.what);
		return 0;
	}
	if (argc < 3)
		return usage();
	signal(SIGALRM, stuck);
	/* Registered memory counts as locked. */
	rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	setrlimit(RLIMIT_MEMLOCK, &unlimited);

	try {
		Peer peer(argv[1], port);
		if (!strcmp(argv[2], "storm")) {
			if (argc != 6 || !atoi(argv[3]) || !*argv[4] ||
			    argv[4][strspn(argv[4], "ghnc")])
				return usage();
			snprintf(current, sizeof(current), "storm");
			alarm(120 + u32(atoi(argv[5])) + u32(atoi(argv[3])));
			return storm(peer, u32(atoi(argv[3])), argv[4], u32(atoi(argv[5]))) ? 0 : 1;
		}
		if (!strcmp(argv[2], "crowd")) {
			if (argc != 5 || !atoi(argv[3]))
				return usage();
			snprintf(current, sizeof(current), "crowd");
			alarm(240 + u32(atoi(argv[4])));
			return crowd(peer, u32(atoi(argv[3])), u32(atoi(argv[4]))) ? 0 : 1;
		}
		std::vector<TestCase> tests;
		if (!strcmp(argv[2], "null"))
			tests = {{"null", "a NULL call is answered", null_call_alone}};
		else if (!strcmp(argv[2], "test"))
			tests = chosen(argv + 3);
		else
			return usage();
		u32 passed = 0;
		for (const TestCase &test : tests)
			passed += run(peer, test);
		printf("%u passed, %zu failed\n", passed, tests.size() - passed);
		return passed && passed == tests.size() ? 0 : 1;
	} catch (Failure &failure) {
		fprintf(stderr, "verbspeer: %s\n", failure.what.c_str());
		return 1;
	}
}

} // namespace

} // namespace verbs

int main(int argc, char **argv)
{
	return verbs::main(argc, argv);
}
