// SPDX-License-Identifier: GPL-2.0-only
/* What a run is about. See swarm.hh. */
#include "selftests/sim/swarm.hh"

#include <algorithm>

#include "compat/port/port.h"
#include "selftests/sim/memory.hh"

namespace sim {

Swarm swarm;
unsigned long long Swarm::full_payloads;

static constexpr u32 kAllCalls = (1u << u32(Kind::count)) - 1;

void Swarm::draw()
{
	*this = {};
	large = chance.one_in(24);
	edges = chance.one_in(4);
	odd = chance.one_in(6);
	bursts = chance.one_in(3);
	watched = chance.one_in(4);
	tuned = chance.one_in(8);
	pace = chance.one_in(8) ? chance.between(20, 400) : 1;
	kinds = u32(chance.next());
	blows = chance.one_in(2) ? ~0u : u32(chance.next());
	scattered = chance.one_in(large ? 2 : 12);
	calls = chance.one_in(2) ? kAllCalls : 1 + chance.below(kAllCalls);
}

static void draw_reclaim()
{
	static const u32 odds[] = {0, 0, 5, 50};

	faults.reclaim = chance.any_of(odds);
}

/* Something is short nearly everywhere: so what is done about that is done amid all that may go on. */
static void draw_shortage()
{
	u32 *const kinds[] = {&faults.memory, &faults.mapping, &faults.posting};

	if (chance.one_in(8))
		*chance.any_of(kinds) = chance.between(4, 16);
}

void Swarm::draw_faults() const
{
	static const u32 rare[] = {50, 200, 1000};
	static const u32 breaks[] = {20, 100, 500};
	u32 which = kinds;
	auto odds = [&](u32 drawn) {
		const bool on = which & 1;

		which >>= 1;
		return on ? drawn : 0;
	};

	faults.active = true;
	faults.memory = odds(chance.any_of(rare));
	faults.mapping = odds(chance.any_of(rare));
	faults.posting = odds(chance.any_of(rare));
	faults.resolving = odds(chance.between(2, 8));
	faults.breaking = odds(chance.any_of(breaks));
	faults.registering = odds(chance.any_of(breaks));
	faults.slowness = odds(chance.any_of(rare));
	faults.tearing = odds(2);
	faults.patience = chance.between(1, 20);
	faults.bursts = bursts;
	draw_reclaim();
	draw_shortage();
}

u32 Swarm::draw_inline() const
{
	static const u32 usual[] = {1024, 1024, 4096, 4096, 8192};

	if (!odd)
		return chance.any_of(usual);
	switch (chance.below(4)) {
	case 0:
		return 65536;
	case 1:
		return 1024 * chance.between(1, 64);
	default:
		return chance.between(1024, 20000);
	}
}

/* Near something that code compares lengths with. */
static u32 edge_length(u32 most)
{
	static const u32 edges[] = {
		0, 4, 1024, kPageSize, 2 * kPageSize, 4 * kPageSize, 16 * kPageSize, 1 << 20};
	const u32 at = chance.one_in(3) ? most : std::min(most, chance.any_of(edges));
	const u32 off = chance.below(6);

	return chance.one_in(2) ? at - std::min(at, off) : std::min(most, at + off);
}

u32 Swarm::draw_length(u32 most) const
{
	if (large)
		return most - (chance.one_in(2) ?
				       0 :
				       chance.below(std::min(most, chance.one_in(2) ? 8 : 40000u)));
	if (edges && chance.one_in(2))
		return edge_length(most);
	switch (chance.below(4)) {
	case 0:
		return chance.below(64);
	case 1:
		return chance.below(3000);
	case 2:
		return std::min(most, kPageSize * chance.between(1, 8));
	default:
		return chance.below(std::min(most, chance.one_in(8) ? most : 20000u));
	}
}

Kind Swarm::draw_kind() const
{
	/* A tape may say the same each time. */
	for (u32 tries = 0; tries < 200; tries++) {
		const u32 kind = chance.below(u32(Kind::count));

		if (calls & 1u << kind)
			return Kind(kind);
	}
	return Kind(__builtin_ctz(calls));
}

/* A message's header takes 28 bytes in either version, unless it has chunks. */
void Swarm::to_the_limit(Call &call) const
{
	const u32 limits[] = {rpcordma_tunables.max_inline_write, rpcordma_tunables.max_inline_read,
			      rpcordma_server_tunables.max_req_size, kPageSize};

	if (!edges || call.kind != Kind::small || chance.one_in(2))
		return;
	const u32 limit = std::min(chance.any_of(limits), 2000u) - 28 + 4 * chance.below(5) - 8;
	u32 &data = chance.one_in(2) ? call.call_data : call.reply_data;
	const u32 around = (&data == &call.call_data ? call.call_length() : call.reply_length()) -
			   Call::padded(data);

	if (limit > around)
		data = limit - around - chance.below(4);
}

void outages()
{
	while (faults.active) {
		faults.quiet = true;
		sleep_for(chance.below(8000) * swarm.pace, "an outage");
		faults.quiet = false;
		sleep_for(chance.below(4000) * swarm.pace, "the end of an outage");
	}
	faults.quiet = false;
}

} // namespace sim
