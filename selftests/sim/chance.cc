// SPDX-License-Identifier: GPL-2.0-only
/* Sources and their streams. See chance.hh. */
#include "selftests/sim/chance.hh"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace sim {

Random chance;
u64 (*decide)(const Decision &decision);

/* splitmix64: a number for each state, and the states are so far apart. */
static constexpr u64 kApart = 0x9e3779b97f4a7c15;

static u64 mixed(u64 z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static u64 hash_of(const char *text, u64 hash)
{
	for (; *text; text++)
		hash = (hash ^ u8(*text)) * 0x100000001b3;
	return mixed(hash);
}

/* Of its text: where the compiler has put the text differs from build to build. */
static u64 hash_of(Place at)
{
	struct Known {
		Place at;
		u64 hash;
	};
	static Known known[512];
	const auto where = reinterpret_cast<std::uintptr_t>(at.file) * 31 +
			   reinterpret_cast<std::uintptr_t>(at.function);
	Known &k = known[(where ^ where >> 9) % 512];

	if (k.at.file != at.file || k.at.function != at.function) {
		const char *slash = std::strrchr(at.file, '/');

		k.at = at;
		k.hash = hash_of(at.function, hash_of(slash ? slash + 1 : at.file, 0));
	}
	return k.hash;
}

/* --- who draws --- */

void Actor::begin(u64 identity, const char *who)
{
	identity_ = identity;
	who_ = who;
	sources_.clear();
	children_.clear();
	interruptions_ = {};
}

u64 Actor::child(const std::string &name)
{
	const u64 hash = hash_of(name.c_str(), identity_);

	for (auto &[known, count] : children_)
		if (known == hash)
			return mixed(hash + ++count * kApart);
	children_.emplace_back(hash, 0);
	return hash;
}

Source &Actor::source_(u64 seed, Draw kind, Place at)
{
	for (Source &s : sources_)
		if (s.at.function == at.function && s.at.file == at.file && s.kind == kind)
			return s;
	const u64 name = mixed((hash_of(at) + u64(kind)) ^ identity_);
	/* An inline function may have several texts of its name. */
	for (Source &s : sources_)
		if (s.name == name)
			return s;
	if (sources_.empty())
		sources_.reserve(8);
	sources_.push_back({at, kind, name, mixed(seed ^ name), 0});
	return sources_.back();
}

/* --- chance --- */

void Random::seed(u64 seed)
{
	apart_ = seed >= kFirstApart;
	/* Hashed: the states of seeds that the stream leads from one to the other would all be of one sequence. */
	state_ = seed;
	state_ = seed_ = stream_();
	outside_.begin(0, "-");
	actor_ = &outside_;
	turns_ = {};
	instant_ = ~u64(0);
}

u64 Random::stream_()
{
	return mixed(state_ += kApart);
}

u64 Random::draw_from_(Source &source, u32 range)
{
	const u64 bits = apart_ ? mixed(source.state + source.drawn * kApart) : stream_();
	const u64 value = reduced_(source.kind, range, bits);
	const u32 index = source.drawn++;

	if (__builtin_expect(!decide, 1))
		return value;
	const u64 decided = decide({source, index, range, value, actor_->who()});
	switch (source.kind) {
	case Draw::bits:
		return decided;
	case Draw::number:
		return range ? std::min<u64>(decided, range - 1) : 0;
	default:
		return !!decided;
	}
}

u64 Random::draw_apart_(Draw kind, u32 range, Place at)
{
	return draw_from_(actor_->source_(seed_, kind, at), range);
}

bool Random::interrupts(u32 n)
{
	if (__builtin_expect(!apart_ && !decide, 1))
		return reduced_(Draw::yes, n, stream_());
	Source &s = actor_->interruptions_;
	if (!s.name) {
		s.at = {"world.cc", "port_call"};
		s.kind = Draw::interruption;
		s.name = mixed(actor_->identity_ + u64(Draw::interruption) * kApart);
		s.state = mixed(seed_ ^ s.name);
	}
	return draw_from_(s, n);
}

u32 Random::drawn_turn_(u32 n, u64 now)
{
	if (__builtin_expect(!apart_ && !decide, 1))
		return u32(reduced_(Draw::number, n, stream_()));
	if (instant_ != now) {
		instant_ = now;
		turns_ = {{"world.cc", "pick"}, Draw::turn, mixed(~now), 0, 0};
		turns_.state = mixed(seed_ ^ turns_.name);
	}
	const u64 bits = apart_ ? mixed(turns_.state + turns_.drawn * kApart) : stream_();
	turns_.drawn++;
	return u32(reduced_(Draw::number, n, bits));
}

u32 Random::decided_turn_(u32 n, u32 drawn, u32 eldest)
{
	const u64 decided =
		decide({turns_, turns_.drawn - 1, n, drawn == eldest ? 0 : u64(drawn) + 1, "-"});

	return decided && decided <= n ? u32(decided) - 1 : eldest;
}

} // namespace sim
