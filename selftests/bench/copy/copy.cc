// SPDX-License-Identifier: GPL-2.0-only
/*
 * What copying costs that version 2 does instead of registering memory: with the instruction that the kernel's memcpy()
 * is made of, where source and target are in the cache, and where neither is, as with the pages of files.
 */
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace {

/* Far more than any cache; a page is used once in a walk over all of them. */
constexpr size_t room = size_t(512) << 20;

void copy_bytes(void *to, const void *from, size_t length)
{
#ifdef __x86_64__
	asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
#else
	memcpy(to, from, length);
	benchmark::ClobberMemory();
#endif
}

std::vector<uint8_t> &source()
{
	static std::vector<uint8_t> bytes(room, 1);
	return bytes;
}

std::vector<uint8_t> &target()
{
	static std::vector<uint8_t> bytes(room, 2);
	return bytes;
}

/* Arguments: bytes, and how far apart the copies are; 0: all in one place. */
void copy(benchmark::State &state)
{
	const size_t length = size_t(state.range(0)), step = size_t(state.range(1));
	uint8_t *const to = target().data();
	const uint8_t *const from = source().data();
	size_t at = 0;

	for (auto unused : state) {
		(void)unused;
		copy_bytes(to + at, from + at, length);
		at = at + step + length <= room ? at + step : 0;
	}
	if (to[0] != 1)
		state.SkipWithError("nothing was copied");
}

/* Pages that lie side by side would be fetched ahead. */
constexpr long apart = (64 << 10) + 4096 * 37;

BENCHMARK(copy)->Name("cached")->ArgsProduct({{1024, 4096, 16384, 32768, 65536}, {0}});
BENCHMARK(copy)->Name("uncached")->ArgsProduct({{1024, 4096, 16384, 32768, 65536}, {apart}});

} // namespace

BENCHMARK_MAIN();
