// SPDX-License-Identifier: GPL-2.0-only
/* Tapes and edits. See tape.hh. */
#include "selftests/sim/tape.hh"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include <sys/mman.h>

namespace sim {

static const char kTitle[] = "rpcordma tape 1";
static const char *const kKinds[] = {"bits", "number", "yes", "interruption", "turn"};

/* --- files --- */

std::string Tape::read(const char *path)
{
	char line[512];
	std::FILE *file = std::fopen(path, "r");

	if (!file)
		return "cannot be opened";
	decisions.clear();
	std::string wrong = "does not begin with '" + std::string(kTitle) + "'";
	if (std::fgets(line, sizeof(line), file) && !std::strncmp(line, kTitle, sizeof(kTitle) - 1)) {
		wrong.clear();
		while (wrong.empty() && std::fgets(line, sizeof(line), file)) {
			Recorded r = {};

			if (*line == '#' || *line == '\n' ||
			    std::sscanf(line, "seed %" SCNu64, &seed) == 1)
				continue;
			if (std::sscanf(line, "%" SCNx64 " %" SCNu32 " %" SCNu64, &r.source,
					&r.index, &r.value) == 3)
				decisions.push_back(r);
			else
				wrong = "has a line that is no decision: " + std::string(line);
		}
	}
	std::fclose(file);
	return wrong;
}

bool Tape::write(const char *path, const std::string &about) const
{
	std::FILE *file = std::fopen(path, "w");

	if (!file)
		return false;
	std::fprintf(file, "%s\n# %s\nseed %" PRIu64 "\n", kTitle, about.c_str(), seed);
	for (const Recorded &r : decisions) {
		std::fprintf(file, "%016" PRIx64 " %" PRIu32 " %" PRIu64, r.source, r.index,
			     r.value);
		if (r.at.file) {
			const char *slash = std::strrchr(r.at.file, '/');

			std::fprintf(file, "\t# %s: %s: %s, %s", r.who,
				     slash ? slash + 1 : r.at.file, r.at.function,
				     kKinds[u32(r.kind)]);
		}
		std::fputc('\n', file);
	}
	return !std::fclose(file);
}

/* --- what decides --- */

namespace {

struct Edit {
	bool there;
	u8 from;
	u32 again;
};

/* Few enough that an edit is seldom of nothing: a run has hundreds of sources, and turns at thousands of instants. */
constexpr u32 kBuckets = 512;

bool playing, editing;
std::unordered_map<u64, u64> played;
Edit edits[kBuckets];
/* All that the run's first fiber does not draw: it says what the run is about. */
Edit others;
Recording *recording;

u64 key(u64 source, u32 index)
{
	return source + index * 0x9e3779b97f4a7c15;
}

/* What is drawn anew is as likely as what was drawn first. */
u64 drawn_anew(const Decision &d, u32 again)
{
	u64 z = key(d.source.state, d.index) ^ again * 0xd6e8feb86659fd93;

	for (int i = 0; i < 2; i++)
		z = (z ^ z >> 32) * 0xd6e8feb86659fd93;
	z ^= z >> 32;
	const u32 number = u32((z >> 32) * d.range >> 32);
	switch (d.source.kind) {
	case Draw::bits:
		return z;
	case Draw::yes:
	case Draw::interruption:
		return !number;
	default:
		return number;
	}
}

u64 decided(const Decision &d)
{
	u64 value = d.value;

	if (playing) {
		const auto it = played.find(key(d.source.name, d.index));

		value = it == played.end() ? 0 : it->second;
		if (d.source.kind == Draw::number)
			value = std::min<u64>(value, d.range - 1);
		else if (d.source.kind == Draw::turn)
			value = value > d.range ? 0 : value;
	} else if (editing) {
		const Edit &e = edits[d.source.name % kBuckets];

		if (e.there && d.index >= e.from)
			value = drawn_anew(d, e.again);
		else if (others.there && (d.source.kind == Draw::turn ||
					  (std::strcmp(d.who, "main") && std::strcmp(d.who, "-"))))
			value = drawn_anew(d, 256 + others.again);
	}
	if (recording && value && recording->count < Recording::kMost) {
		Recorded &r = recording->decisions[recording->count++];

		r = {d.source.name, value, d.index, d.source.kind, {}, d.source.at};
		std::strncpy(r.who, d.who, sizeof(r.who) - 1);
	}
	return value;
}

} // namespace

Recording *new_recording()
{
	void *shared = mmap(nullptr, sizeof(Recording), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return shared == MAP_FAILED ? nullptr : static_cast<Recording *>(shared);
}

void use_tape(const Tape *tape, Recording *into)
{
	playing = tape;
	editing = editing && !tape;
	recording = into;
	played.clear();
	if (tape)
		for (const Recorded &r : tape->decisions)
			played[key(r.source, r.index)] = r.value;
	decide = playing || editing || recording ? decided : nullptr;
}

u64 use_edits(const u8 *bytes, std::size_t size)
{
	u64 seed = 0;

	std::memcpy(&seed, bytes, std::min(size, sizeof(seed)));
	std::memset(edits, 0, sizeof(edits));
	others = {};
	editing = size >= sizeof(seed) + kEditSize;
	for (std::size_t at = sizeof(seed);
	     at + kEditSize <= std::min(size, sizeof(seed) + kMostEdits * kEditSize);
	     at += kEditSize) {
		const u8 *e = bytes + at;

		if (e[1] == kOthers)
			others = {true, 0, e[2] | u32(e[3]) << 8};
		else
			edits[(e[0] | e[1] << 8) % kBuckets] = {true, e[2], e[3]};
	}
	decide = playing || editing || recording ? decided : nullptr;
	return std::max(seed, kFirstApart);
}

} // namespace sim
