// SPDX-License-Identifier: GPL-2.0-only
/*
 * The benchmark of header codecs and of reduction: scripts/bench codec runs it, in three ways.
 *
 *	codec --agree			both codecs make and take the same bytes, one line for each shape
 *	codec --benchmark_...		times, by Google Benchmark
 *	valgrind --tool=callgrind --instr-atstart=no codec --count N
 *					each of the same functions N times, its cost in a dump of its own
 *
 * A name is CODEC/FUNCTION/SHAPE.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <valgrind/callgrind.h>

#include "selftests/bench/codec/codec.h"

namespace {

constexpr uint32_t kMsg = 0, kNomsg = 1, kError = 4;
constexpr uint32_t kErrVers = 1, kErrChunk = 2;
constexpr uint32_t kMiB = 1 << 20;

/* 16 segments of 64 KiB, and the first of them alone as 1 MiB. */
struct Segments {
	segment many[16];
	segment one[1];
	read_segment reads[1], reads16[16], zero[2];
	Segments()
	{
		for (uint32_t i = 0; i < 16; i++) {
			many[i] = {0x12345600 + i * 257, kMiB / 16,
				   0xffff888100000000 + uint64_t(i) * (kMiB / 16)};
			reads16[i] = {140, many[i]};
		}
		one[0] = {0x89abcdef, kMiB, 0xffff88810a2b3c40};
		reads[0] = {140, one[0]};
		zero[0] = {0, {0x89abcdef, 5000, 0xffff88810a2b3c40}};
		zero[1] = {0, {0x89abcef0, 4096, 0xffff888200000000}};
	}
};

const Segments segments;
const chunk write1[] = {{segments.one, 1}};
const chunk write16[] = {{segments.many, 16}};
const chunk reply1 = {segments.one, 1};

header make(const char *name, uint32_t proc)
{
	header made = {};

	made.name = name;
	made.xid = 0xfeedbeef;
	made.credits = 128;
	made.proc = proc;
	return made;
}

std::vector<header> make_headers()
{
	std::vector<header> all;
	header it = make("inline", kMsg);
	all.push_back(it);

	it = make("read-1", kMsg);
	it.reads = segments.reads;
	it.nr_reads = 1;
	all.push_back(it);

	it = make("read-16", kMsg);
	it.reads = segments.reads16;
	it.nr_reads = 16;
	all.push_back(it);

	it = make("write-1", kMsg);
	it.writes = write1;
	it.nr_writes = 1;
	all.push_back(it);

	it = make("write-16", kMsg);
	it.writes = write16;
	it.nr_writes = 1;
	all.push_back(it);

	it = make("reply-chunk", kMsg);
	it.reply = &reply1;
	all.push_back(it);

	it = make("position-zero", kNomsg);
	it.reads = segments.zero;
	it.nr_reads = 2;
	all.push_back(it);

	it = make("err-vers", kError);
	it.error = kErrVers;
	it.low = it.high = 1;
	all.push_back(it);

	it = make("err-chunk", kError);
	it.error = kErrChunk;
	all.push_back(it);
	return all;
}

const std::vector<header> headers = make_headers();

const header &header_of(const char *name)
{
	for (const header &it : headers)
		if (!strcmp(it.name, name))
			return it;
	abort();
}

/* As NFSv4 has them: about 140 bytes before a payload, a few behind it. rxe's regions hold 512 pages. */
const rpc_shape rpcs[] = {
	{"getattr", 120, 0, 0, 0, 260, 0, 0, 0, 0, 0, 257},
	{"read-1M", 140, 0, 0, 0, 200, kMiB, 12, 0, 0, 1, 257},
	{"read-1M-odd", 140, 0, 0, 0, 200, kMiB - 1234, 12, 617, 0, 1, 257},
	{"read-1M-16-segments", 140, 0, 0, 0, 200, kMiB, 12, 0, 0, 1, 16},
	{"write-1M", 140, kMiB, 16, 0, 260, 0, 0, 0, 1, 0, 257},
	{"readdir", 140, 0, 0, 0, 200, 32768, 12, 0, 0, 0, 257},
	{"long-call", 9000, 0, 0, 0, 260, 0, 0, 0, 0, 0, 257},
};

const answer_shape answers[] = {
	{"inline", &header_of("inline"), 240, 0, 0},
	{"read-1M", &header_of("write-1"), 128 + kMiB, 120, kMiB},
	{"read-1M-16-segments", &header_of("write-16"), 128 + kMiB, 120, kMiB},
	{"reply-chunk", &header_of("reply-chunk"), 30000, 0, 0},
};

/** A header's bytes on the heap, of exactly their length. */
struct Encoded {
	std::vector<uint8_t> bytes;
	void *prepared;
};

Encoded encoded(const header &it)
{
	Encoded made;

	made.bytes.resize(ROOM);
	made.bytes.resize(ours_encode(&it, made.bytes.data()));
	made.prepared = rpcgen_prepare(&it);
	return made;
}

/* What differs between the codecs for @it, or nothing. */
std::string disagreement(const header &it)
{
	uint8_t a[ROOM] = {}, b[ROOM] = {};
	uint64_t fields_a[MAX_FIELDS], fields_b[MAX_FIELDS];
	const size_t length = ours_encode(&it, a);

	if (!length || rpcgen_encode(rpcgen_prepare(&it), b) != length || memcmp(a, b, length))
		return "they encode different bytes";
	const size_t n = ours_fields(a, length, fields_a);
	if (!n || n == MAX_FIELDS || rpcgen_fields(a, length, fields_b) != n ||
	    memcmp(fields_a, fields_b, n * sizeof(fields_a[0])))
		return "they decode different fields";
	uint64_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += fields_a[i];
	rpcgen_forget();
	for (int round = 0; round < 2; round++)
		if (ours_decode(a, length) != sum || rpcgen_decode(a, length) != sum ||
		    rpcgen_decode_again(a, length) != sum)
			return "what is timed decodes something else";
	rpcgen_forget();
	for (size_t cut = 0; cut < length; cut++) {
		/* A copy of that length, for a memory checker to see a step beyond. */
		std::vector<uint8_t> part(a, a + cut);

		if (ours_fields(part.data(), cut, fields_a) ||
		    rpcgen_fields(part.data(), cut, fields_b))
			return "one takes the first " + std::to_string(cut) + " bytes of it";
	}
	return "";
}

int agree()
{
	int wrong = 0;

	for (const header &it : headers) {
		const std::string why = disagreement(it);

		printf("%s %s%s%s\n", why.empty() ? "agree" : "DISAGREE", it.name,
		       why.empty() ? "" : ": ", why.c_str());
		wrong += !why.empty();
	}
	return wrong ? 1 : 0;
}

struct Counted {
	std::string name;
	std::function<void(uint32_t)> run;
};
std::vector<Counted> counted;

/* Times @work, and counts it. One loop around each, compiled with it. */
template <typename Work> void add(const std::string &name, Work work)
{
	benchmark::RegisterBenchmark(name.c_str(), [work](benchmark::State &state) {
		/* What another shape left there has room for that shape only. */
		rpcgen_forget();
		for (auto _ : state)
			benchmark::DoNotOptimize(work());
	});
	counted.push_back({name, [work](uint32_t n) {
				   for (uint32_t i = 0; i < n; i++)
					   benchmark::DoNotOptimize(work());
			   }});
}

/* What is compared stands side by side, so that it is measured one after the other. */
void add_all()
{
	static uint8_t room[ROOM];
	static std::vector<Encoded> all;

	all.reserve(headers.size());
	for (const header &it : headers) {
		all.push_back(encoded(it));
		const Encoded &made = all.back();
		const std::string name = it.name;
		const uint8_t *bytes = made.bytes.data();
		const size_t length = made.bytes.size();
		void *prepared = made.prepared;
		const header *shape = &it;

		add("ours/encode/" + name, [=] { return ours_encode(shape, room); });
		add("rpcgen/encode/" + name, [=] { return rpcgen_encode(prepared, room); });
		add("ours/decode/" + name, [=] { return ours_decode(bytes, length); });
		add("rpcgen/decode/" + name, [=] { return rpcgen_decode(bytes, length); });
		add("rpcgen-again/decode/" + name,
		    [=] { return rpcgen_decode_again(bytes, length); });
	}
	for (const rpc_shape &it : rpcs) {
		const rpc_shape *shape = &it;

		if (!ours_reduce(shape))
			abort();
		add(std::string("ours/reduce/") + it.name, [=] { return ours_reduce(shape); });
	}
	for (const answer_shape &it : answers) {
		const answer_shape *shape = &it;
		static std::vector<Encoded> calls;

		calls.reserve(sizeof(answers) / sizeof(answers[0]));
		calls.push_back(encoded(*it.call));
		void *prepared = ours_prepare_answer(shape, calls.back().bytes.data(),
						     calls.back().bytes.size());
		if (!prepared || !ours_plan_answer(shape, prepared))
			abort();
		add(std::string("ours/plan_answer/") + it.name,
		    [=] { return ours_plan_answer(shape, prepared); });
	}
}

int count(uint32_t n)
{
	for (const Counted &it : counted) {
		/* The first time binds symbols, fills caches of malloc, and is not counted. */
		rpcgen_forget();
		it.run(2);
		CALLGRIND_START_INSTRUMENTATION;
		CALLGRIND_ZERO_STATS;
		it.run(n);
		CALLGRIND_DUMP_STATS_AT(it.name.c_str());
		CALLGRIND_STOP_INSTRUMENTATION;
	}
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--agree"))
		return agree();
	add_all();
	if (argc == 3 && !strcmp(argv[1], "--count"))
		return count(strtoul(argv[2], nullptr, 10));
	benchmark::Initialize(&argc, argv);
	if (benchmark::ReportUnrecognizedArguments(argc, argv))
		return 2;
	benchmark::RunSpecifiedBenchmarks();
	return 0;
}
