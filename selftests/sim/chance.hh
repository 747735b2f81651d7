// SPDX-License-Identifier: GPL-2.0-only
/*
 * Chance: every decision of a run, and where it comes from. Nothing else in a run is random.
 *
 * A decision has a source: the function that draws it, what kind of thing it draws, and who it is that runs. Its value
 * follows from the seed, the source, and how often that source was drawn from before; so a draw more or less in one place
 * moves no draw elsewhere. Who runs next (the scheduler's turns) has a source for each instant of virtual time: what
 * one step more has moved is as it was when time goes on. What a decision comes to can be changed from outside (decide):
 * tape.hh records them, and has a history in which they are others.
 */
#pragma once

#include <string>
#include <vector>

#include "module/base/types.hh"

namespace sim {

using rpcordma::u8, rpcordma::u16, rpcordma::u32, rpcordma::u64;

/** Seeds from here on have a stream for each source; those below one for all, and keep the histories that they had. */
constexpr u64 kFirstApart = 1000000000;

/** Where something is drawn: a function, so that its lines may move. */
struct Place {
	static constexpr Place here(const char *file = __builtin_FILE(),
				    const char *function = __builtin_FUNCTION())
	{
		return {file, function};
	}

	const char *file, *function;
};

/** What is drawn. The calm value of each is 0: nothing happens, the smallest, the first of a list, in turn. */
enum class Draw : u8 {
	bits,	      /* 64 of them */
	number,	      /* below the range */
	yes,	      /* 1 with one chance in so many */
	interruption, /* the same, at each call of the port: somebody else runs first */
	turn, /* who runs next: who has waited longest, or the one with this number, from 1 on */
};

struct Source {
	Place at;
	Draw kind;
	u64 name;  /* the same in each run, whatever the seed */
	u64 state; /* where its stream begins */
	u32 drawn; /* so often */
};

/** Who draws: a fiber, or what is outside them. */
class Actor {
public:
	/** @identity is the same in each run. @who is shown, and lives as long. */
	void begin(u64 identity, const char *who);
	/** Somebody whom this one begins is who, in each run? The @name, and how many of that name there were. */
	u64 child(const std::string &name);
	const char *who() const
	{
		return who_;
	}

private:
	friend class Random;

	Source &source_(u64 seed, Draw kind, Place at);

	u64 identity_ = 0;
	const char *who_ = "-";
	std::vector<Source> sources_;
	std::vector<std::pair<u64, u32>> children_;
	Source interruptions_ = {};
};

struct Decision {
	const Source &source;
	u32 index; /* of the source's */
	u32 range;
	u64 value; /* as it was drawn */
	const char *who;
};

/** If this is set, it says what a decision comes to; the value it returns is in range, or is made so. */
extern u64 (*decide)(const Decision &decision);

class Random {
public:
	void seed(u64 seed);
	/** Who draws from now on; nullptr: nobody. */
	void set_actor(Actor *actor)
	{
		actor_ = actor ? actor : &outside_;
	}
	/** The identity of who is begun now, by whoever draws. */
	u64 child(const std::string &name)
	{
		return apart_ || decide ? actor_->child(name) : 0;
	}

	u64 next(Place at = Place::here())
	{
		return draw_(Draw::bits, 0, at);
	}
	/** 0 to @n - 1. */
	u32 below(u32 n, Place at = Place::here())
	{
		return u32(draw_(Draw::number, n, at));
	}
	u32 between(u32 low, u32 high, Place at = Place::here())
	{
		return low + below(high - low + 1, at);
	}
	/** With @n = 0: never. */
	bool one_in(u32 n, Place at = Place::here())
	{
		return n && draw_(Draw::yes, n, at);
	}
	template <typename T, std::size_t N> T any_of(const T (&items)[N], Place at = Place::here())
	{
		return items[below(N, at)];
	}
	/** Whether somebody else runs before a call of the port, with one chance in @n. */
	bool interrupts(u32 n);
	/** Which of @n runs next, at @now; @eldest(), of these, has waited longest. */
	template <typename Eldest> u32 turn(u32 n, u64 now, Eldest eldest)
	{
		const u32 drawn = drawn_turn_(n, now);

		return __builtin_expect(!decide, 1) ? drawn : decided_turn_(n, drawn, eldest());
	}
	/** Whether what is drawn for later, and may never matter, is not drawn. */
	bool frugal() const
	{
		return apart_;
	}

private:
	u64 stream_();
	u64 draw_(Draw kind, u32 range, Place at)
	{
		if (__builtin_expect(!apart_ && !decide, 1))
			return reduced_(kind, range, stream_());
		return draw_apart_(kind, range, at);
	}
	static u64 reduced_(Draw kind, u32 range, u64 bits)
	{
		const u64 number = u64((bits >> 32) * range >> 32);

		return kind == Draw::bits ? bits : kind == Draw::number ? number : !number;
	}
	u64 draw_apart_(Draw kind, u32 range, Place at);
	u64 draw_from_(Source &source, u32 range);
	u32 drawn_turn_(u32 n, u64 now);
	u32 decided_turn_(u32 n, u32 drawn, u32 eldest);

	u64 seed_ = 0;	/* hashed */
	u64 state_ = 0; /* of the one stream */
	bool apart_ = false;
	Actor outside_;
	Actor *actor_ = &outside_;
	Source turns_ = {};
	u64 instant_ = 0;
};
extern Random chance;

} // namespace sim
