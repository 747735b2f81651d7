// SPDX-License-Identifier: GPL-2.0-only
/* The smallest history that still fails. See shrink.hh. */
#include "selftests/sim/shrink.hh"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <map>
#include <tuple>

#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "selftests/sim/world.hh"

namespace sim {
namespace {

Recording *recording;
const Subject *running;

double seconds_now()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return double(t.tv_sec) + double(t.tv_nsec) / 1e9;
}

/* How far it came; also of a run that fails. */
void note_end()
{
	recording->steps = steps();
	recording->ended_at = now();
	recording->calls = running->calls();
}

[[noreturn]] void end_of_child()
{
	note_end();
	_exit(1);
}

void end_quietly()
{
	end_of_child();
}

/* Numbers, and words with one in them, differ from one history to the next that fails for the same reason. */
std::string without_numbers(const std::string &text)
{
	std::string result, word;
	bool number = false;

	for (std::size_t i = 0; i <= text.size(); i++) {
		const char c = i < text.size() ? text[i] : ' ';

		if (std::isalnum(static_cast<unsigned char>(c))) {
			word += c;
			number = number || std::isdigit(static_cast<unsigned char>(c));
			continue;
		}
		result += number ? "#" : word;
		result += c;
		word.clear();
		number = false;
	}
	return result;
}

std::string line_at(const std::string &text, std::size_t at)
{
	return text.substr(at, text.find('\n', at) - at);
}

/* What a run that has failed said about it; "" of one that has not. */
std::string reason_of(const std::string &said, int status)
{
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return "";
	std::size_t at = said.find(" failed at ");
	if (at != std::string::npos && (at = said.find("\n\t", at)) != std::string::npos)
		return line_at(said, at + 2);
	if ((at = said.find("ERROR: AddressSanitizer: ")) != std::string::npos) {
		const std::string line = line_at(said, at);

		return line.substr(0, line.find(" on "));
	}
	if ((at = said.find("runtime error: ")) != std::string::npos)
		return line_at(said, at);
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGALRM ? "there is no end to it" : "killed by a signal";
	return "ended for no reason that it told";
}

class Shrinker {
public:
	Shrinker(u64 seed, const Subject &subject, double seconds)
		: subject_(subject),
		  deadline_(seconds_now() + seconds)
	{
		tape_.seed = seed;
	}

	/** Of what is to be shrunk: false if it does not fail. */
	bool begin(const Tape *tape)
	{
		reason_ = run_(tape);
		if (reason_.empty())
			return false;
		endless_ = without_numbers(reason_) == without_numbers("there is no end to it");
		take_();
		return true;
	}
	/** Whether the tape alone leads there. */
	bool replays()
	{
		return fails_(tape_);
	}
	void shrink()
	{
		for (std::size_t before = ~std::size_t(0); before > size_();) {
			before = size_();
			drop_groups_([](const Recorded &r) { return u64(r.kind); });
			drop_tails_();
			drop_groups_([](const Recorded &r) {
				return std::make_tuple(r.at.function, r.at.file, r.kind);
			});
			drop_groups_([](const Recorded &r) { return std::string(r.who); });
			drop_chunks_();
			drop_groups_([](const Recorded &r) {
				return r.kind == Draw::turn ? 0 : r.source;
			});
			make_smaller_();
		}
	}

	u32 tries = 0;
	const Tape &tape() const
	{
		return tape_;
	}
	const std::string &reason() const
	{
		return reason_;
	}
	bool over() const
	{
		return seconds_now() > deadline_;
	}

private:
	/* In a child, as it may die of it. Returns the reason why it failed, if it did. */
	std::string run_(const Tape *tape)
	{
		const int said = memfd_create("said", MFD_CLOEXEC);

		recording->count = recording->calls = 0;
		recording->steps = recording->ended_at = 0;
		std::fflush(stdout);
		const pid_t child = fork();
		if (!child) {
			dup2(said, 1);
			dup2(said, 2);
			end_of_failed_run = end_quietly;
			running = &subject_;
			use_tape(tape, recording);
			/* One that does not fail now may go on for long. */
			if (steps && !endless_)
				most_steps = 3 * steps + 5000;
			alarm(endless_ || !steps ? subject_.limit() : 20);
			run_world(tape_.seed, [this] {
				subject_.scenario();
				note_end();
			});
			_exit(0);
		}
		int status = 0;
		std::string text(65536, 0);
		if (child > 0)
			waitpid(child, &status, 0);
		const ssize_t size = pread(said, &text[0], text.size(), 0);
		text.resize(size > 0 ? std::size_t(size) : 0);
		close(said);
		tries++;
		return reason_of(text, status);
	}
	/* What was decided in the run that has just been. */
	void take_()
	{
		tape_.decisions.assign(recording->decisions,
				       recording->decisions + recording->count);
		steps = recording->steps;
		ended_at = recording->ended_at;
		calls = recording->calls;
	}
	bool fails_(const Tape &candidate)
	{
		return without_numbers(run_(&candidate)) == without_numbers(reason_);
	}
	std::size_t size_() const
	{
		return tape_.decisions.size();
	}
	/* The candidate takes the tape's place if it fails, too, and is no longer. */
	bool try_(const Tape &candidate)
	{
		const std::string reason = over() ? "" : run_(&candidate);

		if (reason.empty() || without_numbers(reason) != without_numbers(reason_) ||
		    recording->count > candidate.decisions.size())
			return false;
		reason_ = reason;
		take_();
		return true;
	}
	template <typename Keep> bool try_those_(Keep keep)
	{
		Tape candidate;

		candidate.seed = tape_.seed;
		for (std::size_t i = 0; i < size_(); i++)
			if (keep(i))
				candidate.decisions.push_back(tape_.decisions[i]);
		return candidate.decisions.size() < size_() && try_(candidate);
	}
	/* All of a group at once; the largest first. */
	template <typename Group> void drop_groups_(Group group)
	{
		std::map<decltype(group(tape_.decisions[0])), u32> sizes;

		for (const Recorded &r : tape_.decisions)
			sizes[group(r)]++;
		std::vector<std::pair<u32, decltype(group(tape_.decisions[0]))>> order;
		for (const auto &of : sizes)
			order.emplace_back(of.second, of.first);
		std::sort(order.rbegin(), order.rend());
		for (const auto &of : order)
			try_those_([&](std::size_t i) {
				return group(tape_.decisions[i]) != of.second;
			});
	}
	/* It may be all over sooner. */
	void drop_tails_()
	{
		for (std::size_t tail = size_() / 2; tail; tail /= 2)
			while (tail < size_() &&
			       try_those_([&](std::size_t i) { return i < size_() - tail; }))
				;
	}
	void drop_chunks_()
	{
		for (std::size_t chunk = (size_() + 1) / 2; chunk && !over(); chunk /= 2)
			for (std::size_t at = 0; at < size_() && !over();)
				if (!try_those_([&](std::size_t i) {
					    return i < at || i >= at + chunk;
				    }))
					at += chunk;
	}
	bool try_value_(std::size_t which, u64 value)
	{
		Tape candidate = tape_;

		if (which >= size_() || value >= tape_.decisions[which].value)
			return false;
		candidate.decisions[which].value = value;
		return try_(candidate);
	}
	void make_smaller_()
	{
		for (std::size_t i = 0; i < size_() && !over(); i++) {
			if (tape_.decisions[i].kind == Draw::bits) {
				try_value_(i, 1);
				for (u64 bit = u64(1) << 63; bit && i < size_(); bit >>= 1)
					if (tape_.decisions[i].value & bit)
						try_value_(i, tape_.decisions[i].value & ~bit);
				continue;
			}
			if (try_value_(i, 1))
				continue;
			/* Between what does not fail and what does. */
			for (u64 low = 1; i < size_() && low + 1 < tape_.decisions[i].value;) {
				const u64 middle = low + (tape_.decisions[i].value - low) / 2;

				if (!try_value_(i, middle))
					low = middle;
			}
		}
	}

public:
	u64 steps = 0, ended_at = 0;
	u32 calls = 0;

private:
	const Subject &subject_;
	const double deadline_;
	Tape tape_;
	std::string reason_;
	bool endless_ = false;
};

void say(const char *when, const Shrinker &s)
{
	std::printf("%s: %zu decisions, %llu steps, %.6f s, %u calls\n", when,
		    s.tape().decisions.size(), static_cast<unsigned long long>(s.steps),
		    double(s.ended_at) / kSecond, s.calls);
}

/* One line for those that one function of one fiber makes, at the first of them; so many lines. */
constexpr u32 kTold = 30;

void tell(const Tape &tape)
{
	u32 lines = 0;
	std::vector<bool> told(tape.decisions.size());
	std::size_t turns = 0, interruptions = 0;

	for (std::size_t i = 0; i < tape.decisions.size(); i++) {
		const Recorded &r = tape.decisions[i];

		turns += r.kind == Draw::turn;
		interruptions += r.kind == Draw::interruption;
		if (told[i] || r.kind == Draw::turn || r.kind == Draw::interruption)
			continue;
		if (++lines == kTold + 1)
			std::printf("\tand others, which the tape has\n");
		if (lines > kTold)
			continue;
		const char *slash = std::strrchr(r.at.file, '/');
		std::printf("\t%s: %s: %s:", r.who, slash ? slash + 1 : r.at.file, r.at.function);
		for (std::size_t k = i; k < tape.decisions.size(); k++) {
			const Recorded &other = tape.decisions[k];

			if (other.source != r.source)
				continue;
			told[k] = true;
			if (r.kind == Draw::yes)
				std::printf(" yes[%u]", other.index);
			else if (r.kind == Draw::bits)
				std::printf(" bits[%u]=%llx", other.index,
					    static_cast<unsigned long long>(other.value));
			else
				std::printf(" [%u]=%llu", other.index,
					    static_cast<unsigned long long>(other.value));
		}
		std::putchar('\n');
	}
	std::printf("\tout of turn: %zu; interrupted at a call of the port: %zu\n", turns,
		    interruptions);
}

} // namespace

bool shrink(u64 seed, const Tape *tape, const Subject &subject, double seconds,
	    const std::string &to)
{
	const double began = seconds_now();

	recording = new_recording();
	if (!recording) {
		std::perror("sim");
		return false;
	}
	Shrinker shrinker(seed, subject, seconds);
	if (!shrinker.begin(tape)) {
		std::printf("it does not fail: there is nothing to shrink\n");
		return false;
	}
	std::printf("it fails: %s\n", shrinker.reason().c_str());
	say("as it was", shrinker);
	if (!shrinker.replays()) {
		std::printf("its tape does not fail in this way: something depends on more than "
			    "the decisions\n");
		return false;
	}
	shrinker.shrink();
	say("what is left", shrinker);
	tell(shrinker.tape());
	std::printf("it fails: %s\n", shrinker.reason().c_str());
	std::printf("%u runs, %.1f s%s\n", shrinker.tries, seconds_now() - began,
		    shrinker.over() ? ", when the time was over" : "");
	if (!shrinker.tape().write(to.c_str(), shrinker.reason())) {
		std::perror(to.c_str());
		return false;
	}
	return true;
}

} // namespace sim
