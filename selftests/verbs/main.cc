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
 *	verbspeer SERVER crowd N SECONDS [ADDRESS]	N that ask to be connected at the same time; the
 *						first from ADDRESS, the others from the next 249
 *	verbspeer SERVER hold			connections that do what standard input says, see hold.cc
 *
 * And the other way round, as a server to a client:
 *
 *	verbspeer --list-odd
 *	verbspeer ADDRESS serve CLIENT [NAME...]	all conversations of an odd server, or some, at ADDRESS
 *						Several of these, each at an ADDRESS of its own, divide the
 *						conversations among them by a folder, VERBS_CLAIMS
 *	verbspeer hands				at the CLIENT: does what the conversations need
 *
 * One line for each test, as TAP has it; the last line counts. Exit status 0 when all was well.
 */
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "odd.hh"
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

/* @names is ended by null; none at all are all. */
bool is_chosen(const std::string &test, char **names)
{
	bool wanted = *names == nullptr;

	for (char **name = names; *name; name++)
		wanted = wanted || !test.compare(0, strlen(*name), *name) || test + "=" == *name;
	return wanted;
}

std::vector<TestCase> chosen(char **names)
{
	std::vector<TestCase> tests;

	/* NFS as it should be comes last: what was done to the server before must not show in it. */
	for (auto *group :
	     {&header_tests, &version2_tests, &group_tests, &item_tests, &direction_tests,
	      &connection_tests, &chunk_tests, &backward_tests, &nfs_tests})
		for (const TestCase &test : *group)
			if (is_chosen(test.name, names))
				tests.push_back(test);
	return tests;
}

std::vector<OddTest> chosen_odd(char **names)
{
	std::vector<OddTest> tests;

	/* Those that wait come first. */
	for (auto *group :
	     {&odd_connection_tests, &odd_version2_tests, &odd_sent_tests, &odd_group_tests,
	      &odd_reply_tests, &odd_item_tests, &odd_memory_tests, &odd_backward_tests})
		for (const OddTest &test : *group)
			if (is_chosen(test.name, names))
				tests.push_back(test);
	return tests;
}

bool run_odd(Peer &peer, const std::string &address, const std::string &client, const OddTest &test)
{
	std::string wrong;

	snprintf(current, sizeof(current), "%s", test.name);
	alarm(test_seconds);
	u64 began = now_ms();
	try {
		Server server(peer, address, client);
		try {
			test.function(server);
			wrong = server.wrong();
		} catch (Failure &failure) {
			wrong = failure.what;
			if (!server.wrong().empty())
				wrong += "; and " + server.wrong();
		}
		server.asked = nullptr;
		server.odd = nullptr;
		/* Most of them leave nothing behind. MNT_FORCE and MNT_DETACH. */
		server.order("umount " + address + " 3");
	} catch (Failure &failure) {
		wrong += (wrong.empty() ? "" : "; and ") + failure.what;
	}
	/* Whatever has been done to the client, it works with the next server. */
	try {
		Server server(peer, address, client);
		server.version2 = true;
		server.mount();
		server.read(0, 65536);
		server.write(65536, 20000, 5);
		server.umount();
		if (!server.wrong().empty() || server.accepted() != 1)
			throw Failure{text("%u connections ", server.accepted()) + server.wrong()};
	} catch (Failure &failure) {
		wrong += (wrong.empty() ? "" : "; and ") +
			 text("a correct server afterwards: %s", failure.what.c_str());
	}
	alarm(0);
	printf("%sok - %s: %s%s%s, %.1f s\n", wrong.empty() ? "" : "not ", test.name, test.what,
	       wrong.empty() ? "" : ": ", wrong.c_str(), double(now_ms() - began) / 1000);
	fflush(stdout);
	return wrong.empty();
}

/* The first who makes its folder has the conversation. */
bool claim(const char *name)
{
	const char *claims = getenv("VERBS_CLAIMS");

	if (!claims || !mkdir((std::string(claims) + "/" + name).c_str(), 0755))
		return true;
	if (errno != EEXIST)
		throw Failure{text("VERBS_CLAIMS=%s: %s", claims, strerror(errno))};
	return false;
}

int serve(const std::string &address, const std::string &client, char **names)
{
	Peer peer(address, port);
	u32 passed = 0, all = 0;
	auto tests = chosen_odd(names);

	for (const OddTest &test : tests) {
		if (!claim(test.name))
			continue;
		all++;
		passed += run_odd(peer, address, client, test);
	}
	printf("%u passed, %u failed\n", passed, all - passed);
	return !tests.empty() && passed == all ? 0 : 1;
}

int usage()
{
	fputs("usage: verbspeer --list | SERVER null | SERVER test [NAME...] |\n"
	      "       SERVER storm N MIX SECONDS   (MIX: letters of g h n c) |\n"
	      "       SERVER crowd N SECONDS [ADDRESS] | SERVER hold |\n"
	      "       --list-odd | ADDRESS serve CLIENT [NAME...] | hands\n",
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
	if (argc == 2 && !strcmp(argv[1], "--list-odd")) {
		for (const OddTest &test : chosen_odd(argv + argc))
			printf("%-28s %s\n", test.name, test.what);
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "hands"))
		return hands();
	if (argc < 3)
		return usage();
	signal(SIGALRM, stuck);
	/* Registered memory counts as locked. */
	rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	setrlimit(RLIMIT_MEMLOCK, &unlimited);

	try {
		if (!strcmp(argv[2], "serve"))
			return argc < 4 ? usage() : serve(argv[1], argv[3], argv + 4);
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
			if (argc < 5 || argc > 6 || !atoi(argv[3]))
				return usage();
			snprintf(current, sizeof(current), "crowd");
			alarm(240 + u32(atoi(argv[4])));
			return crowd(peer, u32(atoi(argv[3])), u32(atoi(argv[4])), argv[5]) ? 0 : 1;
		}
		if (!strcmp(argv[2], "hold"))
			return argc == 3 && hold(peer) ? 0 : 1;
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
