// SPDX-License-Identifier: GPL-2.0-only
/*
 * Coverage says what to try next: libFuzzer's side of the simulation. An input is a seed and edits (tape.hh): sources of the
 * seed's history that are drawn anew, from some draw on, while all others stay as they are. An input that runs what none has
 * run before, or more often, is kept, and edited further. What fails ends the program, and its input is an argument of
 * sim --edits.
 *
 * SIM_BLIND=1 in the environment: every input is a new seed, whatever the others have reached; for comparison.
 */
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>

#include "selftests/sim/scenario.hh"
#include "selftests/sim/tape.hh"
#include "selftests/sim/world.hh"

namespace {

constexpr std::size_t kSeed = 8;
const bool blind = std::getenv("SIM_BLIND");

std::size_t new_seed(std::uint8_t *data, std::minstd_rand &random)
{
	for (std::size_t i = 0; i < kSeed; i++)
		data[i] = std::uint8_t(random() >> 8);
	return kSeed;
}

/* Most at their first draw: what a run is about is drawn then. */
void new_edit(std::uint8_t *edit, std::minstd_rand &random)
{
	edit[0] = std::uint8_t(random() >> 8);
	edit[1] = std::uint8_t(random() >> 8);
	edit[2] = random() % 2 ? 0 : std::uint8_t((random() >> 8) % (random() % 2 ? 8 : 256));
	edit[3] = std::uint8_t(random() >> 8);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	sim::end_of_failed_run = std::abort;
	sim::run_world(sim::use_edits(data, size), sim::scenario);
	return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t *data, std::size_t size,
					       std::size_t most, unsigned seed)
{
	std::minstd_rand random(seed);
	const std::size_t edits = size < kSeed ? 0 : (size - kSeed) / sim::kEditSize;

	if (most < kSeed)
		return size;
	if (blind || size < kSeed || random() % 2 == 0)
		return new_seed(data, random);
	size = kSeed + edits * sim::kEditSize;
	if (random() % 2 == 0 && most >= kSeed + sim::kEditSize) {
		/* What it is about, and all else anew: what reaches something seldom comes near it more often. */
		if (!edits)
			size += sim::kEditSize;
		new_edit(data + kSeed, random);
		data[kSeed + 1] = sim::kOthers;
		data[kSeed + 2] = std::uint8_t(random() >> 8);
		return size;
	}
	std::uint8_t *any = data + kSeed + (edits ? random() % edits : 0) * sim::kEditSize;
	switch (edits ? random() % 4 : 0) {
	case 1: /* drawn anew once more */
		any[3]++;
		return size;
	case 2:
		new_edit(any, random);
		return size;
	case 3:
		std::memmove(any, any + sim::kEditSize,
			     std::size_t(data + size - any) - sim::kEditSize);
		return size - sim::kEditSize;
	default: /* one or some more */
		for (unsigned more = 1 + random() % 4;
		     more && size + sim::kEditSize <= most &&
		     size < kSeed + sim::kMostEdits * sim::kEditSize;
		     more--) {
			new_edit(data + size, random);
			size += sim::kEditSize;
		}
		return size;
	}
}

/* The seed and the edits of one, and some of the other's edits, which hold for any seed. */
extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t *one, std::size_t one_size,
						 const std::uint8_t *other, std::size_t other_size,
						 std::uint8_t *result, std::size_t most,
						 unsigned seed)
{
	std::minstd_rand random(seed);
	std::size_t size = std::min(one_size, most);

	std::memcpy(result, one, size);
	if (blind || size < kSeed)
		return size;
	size = kSeed + (size - kSeed) / sim::kEditSize * sim::kEditSize;
	for (std::size_t at = kSeed; at + sim::kEditSize <= other_size; at += sim::kEditSize)
		if (size + sim::kEditSize <= most && random() % 2) {
			std::memcpy(result + size, other + at, sim::kEditSize);
			size += sim::kEditSize;
		}
	return size;
}
