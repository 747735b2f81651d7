// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs seeds, each in a world of its own: sim [--first N] [--seeds N] | --seed N [--trace]; or a tape (tape.hh), and shrinks
 * what fails to one.
 *
 * Seeds run one after the other in a child process. A run that fails ends its child; the parent counts it,
 * says how to see it again, and goes on with the next seed in another one. The last line is the total.
 */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compat/port/trace.h"
#include "selftests/sim/ledger.hh"
#include "selftests/sim/scenario.hh"
#include "selftests/sim/shrink.hh"
#include "selftests/sim/stranger.hh"
#include "selftests/sim/swarm.hh"
#include "selftests/sim/tape.hh"
#include "selftests/sim/versions.hh"
#include "selftests/sim/world.hh"

/* ASan's own defaults would hide what the simulation is after, or cost what it need not. */
extern "C" const char *__asan_default_options();
extern "C" const char *__asan_default_options()
{
	return "detect_leaks=0:detect_stack_use_after_return=0:quarantine_size_mb=32:"
	       "malloc_context_size=2:max_redzone=128";
}

namespace {

/* What the child tells the parent. */
struct Progress {
	unsigned long long seed; /* that runs */
	unsigned long long passed, steps;
	unsigned long long histories; /* of all seeds, in one number */
	unsigned long long two_reads, two_replies, both_used, groups, reply_groups, items,
		reply_items, gathered, results_sent, results_written; /* VersionTalk's */
	unsigned long long several_reads[2];			      /* the same */
	unsigned long long went_down, came_back;		      /* VersionMemory's */
	unsigned long long full_payloads;			      /* Swarm's */
	unsigned long long replayed, met_running, repeated;	      /* Ledger's */
} * progress;

/* No seed takes so long, s: one that does goes in circles without giving up the processor. */
constexpr unsigned kLongest = 300;

/* So many seeds have all of it. */
constexpr unsigned long long kEnough = 500;
/* And so many have a server of version 2 that is of version 1 for a while. */
constexpr unsigned long long kEnoughServers = 1500;

double seconds()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return double(t.tv_sec) + double(t.tv_nsec) / 1e9;
}

void run(unsigned long long seed, bool verify)
{
	progress->seed = seed;
	sim::u64 history = 0;
	sim::run_world(seed, [&] {
		sim::scenario();
		history = sim::history();
		progress->steps += sim::steps();
	});
	if (verify)
		sim::run_world(seed, [&] {
			sim::scenario();
			REQUIRE(sim::history() == history,
				"the seed's second run differs: something depends on more than the "
				"seed");
		});
	progress->passed++;
	progress->histories = progress->histories * 0x100000001b3 + history;
	progress->two_reads += sim::VersionTalk::two_reads;
	progress->two_replies += sim::VersionTalk::two_replies;
	progress->both_used += sim::VersionTalk::both_used;
	progress->groups += sim::VersionTalk::groups;
	progress->reply_groups += sim::VersionTalk::reply_groups;
	progress->items += sim::VersionTalk::items;
	progress->reply_items += sim::VersionTalk::reply_items;
	progress->gathered += sim::VersionTalk::gathered;
	progress->results_sent += sim::VersionTalk::results_sent;
	progress->results_written += sim::VersionTalk::results_written;
	for (int i : {0, 1}) {
		progress->several_reads[i] += sim::VersionTalk::several_reads[i];
		sim::VersionTalk::several_reads[i] = 0;
	}
	progress->went_down += sim::VersionMemory::went_down;
	progress->came_back += sim::VersionMemory::came_back;
	progress->full_payloads += sim::Swarm::full_payloads;
	progress->replayed += sim::Ledger::replayed;
	progress->met_running += sim::Ledger::met_running;
	progress->repeated += sim::Ledger::repeated;
	sim::VersionTalk::two_reads = sim::VersionTalk::two_replies = sim::VersionTalk::both_used =
		sim::VersionTalk::groups = sim::VersionTalk::reply_groups =
			sim::VersionTalk::items = sim::VersionTalk::reply_items =
				sim::VersionTalk::gathered = sim::VersionTalk::results_sent =
					sim::VersionTalk::results_written = 0;
	sim::VersionMemory::went_down = sim::VersionMemory::came_back = 0;
	sim::Swarm::full_payloads = 0;
	sim::Ledger::replayed = sim::Ledger::met_running = sim::Ledger::repeated = 0;
}

[[noreturn]] void usage()
{
	std::fprintf(
		stderr,
		"usage: sim [--first N] [--seeds N] [--stop] | --seed N | --tape FILE | --edits "
		"FILE\n"
		"  --stop         end with the first seed that fails\n"
		"  --edits FILE   what coverage has led to (guided.cc)\n"
		"one history:\n"
		"  --trace        print all that happens\n"
		"  --record FILE  write its tape\n"
		"  --shrink FILE  it fails: write the tape of the smallest that does, and tell it\n"
		"  --limit S      shrink for so many seconds at most (60)\n");
	std::exit(2);
}

/* The tape of the child's run, when it has ended well or not. */
sim::Recording *recording;

bool write_recording(const char *path, unsigned long long seed)
{
	sim::Tape tape;

	tape.seed = seed;
	tape.decisions.assign(recording->decisions, recording->decisions + recording->count);
	if (tape.write(path, "as it was run"))
		return true;
	std::perror(path);
	return false;
}

/* The bytes of a file, as a seed and its edits. */
unsigned long long read_edits(const char *path)
{
	unsigned char bytes[1024];
	std::FILE *file = std::fopen(path, "rb");

	if (!file) {
		std::perror(path);
		std::exit(2);
	}
	const std::size_t size = std::fread(bytes, 1, sizeof(bytes), file);
	std::fclose(file);
	return sim::use_edits(bytes, size);
}

} // namespace

int main(int argc, char **argv)
{
	unsigned long long first = 1, count = 100;
	bool stop = false, single = false;
	const char *record = nullptr, *shrink_to = nullptr, *edits = nullptr;
	std::string what, tape_file;
	unsigned long long limit = 60;
	sim::Tape tape;

	for (int i = 1; i < argc; i++) {
		const std::string option = argv[i];
		auto number = [&] {
			char *end;

			if (++i == argc)
				usage();
			const unsigned long long value = std::strtoull(argv[i], &end, 0);
			if (*end || end == argv[i])
				usage();
			return value;
		};
		auto text = [&] {
			if (++i == argc)
				usage();
			return argv[i];
		};

		if (option == "--first")
			first = number();
		else if (option == "--seeds")
			count = number();
		else if (option == "--seed") {
			first = number();
			count = 1;
			single = true;
			what = "--seed " + std::to_string(first);
		} else if (option == "--tape") {
			tape_file = text();
			if (const std::string wrong = tape.read(tape_file.c_str()); !wrong.empty()) {
				std::fprintf(stderr, "sim: %s %s\n", tape_file.c_str(),
					     wrong.c_str());
				return 2;
			}
			first = tape.seed;
			count = 1;
			single = true;
			what = "--tape " + tape_file;
		} else if (option == "--edits") {
			edits = text();
			first = read_edits(edits);
			count = 1;
			single = true;
			what = "--edits " + std::string(edits);
		} else if (option == "--record")
			record = text();
		else if (option == "--shrink")
			shrink_to = text();
		else if (option == "--limit")
			limit = number();
		else if (option == "--stop")
			stop = true;
		else if (option == "--trace")
			sim::tracing = true;
		else
			usage();
	}
	if ((record || shrink_to) && !single)
		usage();
	const sim::Tape *played = tape_file.empty() ? nullptr : &tape;
	if (shrink_to) {
		const sim::Subject subject = {sim::scenario, sim::calls_made,
					      [] { return kLongest; }};
		const bool shrunk = sim::shrink(first, played, subject, double(limit), shrink_to);

		if (shrunk)
			std::printf("it again, with a trace: %s --tape %s --trace\n", argv[0],
				    shrink_to);
		std::printf("%d passed, %d failed, 0 skipped\n", shrunk, !shrunk);
		return !shrunk;
	}
	if (record && !(recording = sim::new_recording())) {
		std::perror("sim");
		return 2;
	}
	if (played || record)
		sim::use_tape(played, recording);
	if (sim::tracing)
		rpcordma_trace_enabled = ~0u;
	progress = static_cast<Progress *>(mmap(nullptr, sizeof(*progress), PROT_READ | PROT_WRITE,
						MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	if (progress == MAP_FAILED) {
		std::perror("sim");
		return 2;
	}

	const double began = seconds();
	unsigned long long failed = 0, next = first;
	while (next < first + count) {
		std::fflush(stdout);
		const pid_t child = fork();
		if (child < 0) {
			std::perror("sim: fork");
			return 2;
		}
		if (!child) {
			progress->seed = next;
			/* Now and then a seed runs twice: its history is to be its own alone. */
			for (unsigned long long seed = next; seed < first + count; seed++) {
				alarm(single ? 0 : kLongest);
				run(seed, !single && seed % 64 == 0);
			}
			/* Not _exit(): a build for coverage has something to write. */
			std::exit(0);
		}
		int status;
		waitpid(child, &status, 0);
		if (WIFEXITED(status) && !WEXITSTATUS(status))
			break;
		failed++;
		if (WIFSIGNALED(status))
			std::printf("\nseed %llu: killed by signal %d%s\n", progress->seed,
				    WTERMSIG(status),
				    WTERMSIG(status) == SIGALRM ? ": there is no end to it" : "");
		if (what.empty() || what == "--seed " + std::to_string(progress->seed))
			std::printf("seed %llu again, with a trace: %s --seed %llu --trace\n",
				    progress->seed, argv[0], progress->seed);
		else
			std::printf("it again, with a trace: %s %s --trace\n", argv[0],
				    what.c_str());
		next = progress->seed + 1;
		if (stop)
			break;
	}
	const double took = seconds() - began;
	if (record && !write_recording(record, first))
		return 2;
	if (!single)
		std::printf(
			"two kinds of chunk: %llu calls, %llu for replies, %llu replies in both; "
			"several Read chunks: %llu calls of version 1, %llu of 2\n",
			progress->two_reads, progress->two_replies, progress->both_used,
			progress->several_reads[0], progress->several_reads[1]);
	if (!single)
		std::printf("several transmissions: %llu calls, %llu replies; items in Sends: %llu "
			    "of calls, "
			    "%llu of replies; %llu Sends read the pages of calls; "
			    "results by directions: %llu sent, %llu written\n",
			    progress->groups, progress->reply_groups, progress->items,
			    progress->reply_items, progress->gathered, progress->results_sent,
			    progress->results_written);
	if (!single)
		std::printf("versions: %llu clients went down to version 1, %llu came back to 2\n",
			    progress->went_down, progress->came_back);
	if (!single)
		std::printf("payloads of 1 MiB: %llu; reply cache: %llu calls answered, %llu met "
			    "while they ran, %llu forgotten and executed again\n",
			    progress->full_payloads, progress->replayed, progress->met_running,
			    progress->repeated);
	if (progress->passed >= kEnough && !progress->full_payloads) {
		std::printf("\nno seed has a payload of 1 MiB\n");
		failed++;
	}
	if (progress->passed >= kEnough && (!progress->replayed || !progress->repeated)) {
		std::printf("\nno seed has a call that comes again to the reply cache\n");
		failed++;
	}
#ifndef RPCORDMA_TEST_VERSION
	if (progress->passed >= kEnough &&
	    (!progress->two_reads || !progress->two_replies || !progress->both_used ||
	     !progress->groups || !progress->reply_groups ||
	     /* Receives of version 2 have no larger pages. */
	     (kPageSize <= sim::kLeast &&
	      (!progress->items || !progress->reply_items || !progress->gathered)) ||
	     !progress->results_sent || !progress->results_written || !progress->several_reads[0] ||
	     !progress->several_reads[1] ||
	     (progress->passed >= kEnoughServers && (!progress->went_down || !progress->came_back)))) {
		std::printf("\nthe seeds have not all that they are to have\n");
		failed++;
	}
#endif
	std::printf("histories: %016llx\n", progress->histories);
	if (!single)
		std::printf("%.1f s, %.0f seeds a minute, %.0f steps each\n", took,
			    double(progress->passed + failed) / took * 60,
			    double(progress->steps) /
				    double(progress->passed ? progress->passed : 1));
	std::printf("%llu passed, %llu failed, 0 skipped\n", progress->passed, failed);
	return failed != 0;
}
