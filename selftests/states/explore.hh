// SPDX-License-Identifier: GPL-2.0-only
/*
 * All states of a world, breadth first. A world is a class with a State, which can be copied, and with
 *
 *	State first()
 *	std::string key(const State &)			two states with one key are the same
 *	void moves(const State &, Moves<State> &)	all that may happen next
 *	bool may_end(const State &)			nothing has to happen any more
 *
 * What is wrong with a state stands in its member `fault`. A state that may not end and has no move is wrong, too: a
 * deadlock. Each path ends: worlds count what happens, so that there is no way back to a state, and that is checked.
 */
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace states {

/** What a check found; the first thing counts. */
struct Fault {
	const char *what = nullptr;

	void unless(bool good, const char *said)
	{
		if (!good && !what)
			what = said;
	}
};

template <typename State> class Moves {
public:
	struct Move {
		std::string label;
		State to;
	};
	/** A copy of @from, in which @label happens; the reference is good until the next one. */
	State &add(const State &from, std::string label)
	{
		all.push_back({std::move(label), from});
		return all.back().to;
	}
	std::vector<Move> all;
};

/** What came of it. */
struct Outcome {
	std::size_t states = 0;
	std::size_t transitions = 0;
	unsigned deepest = 0;
	const char *wrong = nullptr;
};

/** Whether no path through @edges comes back to where it was: each state goes when none leads to it any more. */
inline bool all_paths_end(const std::vector<std::size_t> &edges,
			  const std::vector<std::size_t> &begins)
{
	std::vector<std::size_t> leading(begins.size() - 1), free;
	std::size_t gone = 0;

	for (const std::size_t to : edges)
		leading[to]++;
	for (std::size_t i = 0; i < leading.size(); i++)
		if (!leading[i])
			free.push_back(i);
	while (!free.empty()) {
		const std::size_t from = free.back();

		free.pop_back();
		gone++;
		for (std::size_t i = begins[from]; i < begins[from + 1]; i++)
			if (!--leading[edges[i]])
				free.push_back(edges[i]);
	}
	return gone == leading.size();
}

/** Explore @world, @name of which is printed with the figures; and how it comes to what is wrong. */
template <typename World> Outcome explore(const char *name, const World &world)
{
	using State = typename World::State;
	struct Node {
		State state;
		std::size_t from;
		std::string label;
		unsigned depth;
	};
	std::vector<Node> nodes;
	std::unordered_map<std::string, std::size_t> known;
	/* For each state, those that it can become: what the one before it has ends where its own begin. */
	std::vector<std::size_t> edges, begins;
	Outcome outcome;
	std::size_t at = 0;

	nodes.push_back({world.first(), 0, "", 0});
	known.emplace(world.key(nodes[0].state), 0);
	outcome.wrong = nodes[0].state.fault.what;
	for (; at < nodes.size() && !outcome.wrong; at++) {
		Moves<State> next;

		begins.push_back(edges.size());
		world.moves(nodes[at].state, next);
		if (next.all.empty() && !world.may_end(nodes[at].state))
			outcome.wrong = "nothing can happen any more, and it may not end here";
		for (auto &move : next.all) {
			const unsigned depth = nodes[at].depth + 1;
			const auto found = known.emplace(world.key(move.to), nodes.size());

			outcome.transitions++;
			edges.push_back(found.first->second);
			/* What is wrong may be with the way there, and the state be known. */
			outcome.wrong = move.to.fault.what;
			if (!found.second && !outcome.wrong)
				continue;
			nodes.push_back({std::move(move.to), at, std::move(move.label), depth});
			outcome.deepest = depth;
			if (outcome.wrong) {
				at = nodes.size() - 1;
				break;
			}
		}
		if (outcome.wrong)
			break;
	}
	begins.push_back(edges.size());
	if (!outcome.wrong && !all_paths_end(edges, begins))
		outcome.wrong = "there is a way back to a state", at = 0;
	outcome.states = nodes.size();
	std::printf("%-32s %8zu states, %8zu transitions, deepest %2u: %s\n", name, outcome.states,
		    outcome.transitions, outcome.deepest,
		    outcome.wrong ? outcome.wrong : "holds in all of them");
	if (outcome.wrong) {
		std::vector<std::size_t> path;

		for (std::size_t i = at; i; i = nodes[i].from)
			path.push_back(i);
		std::printf("FAILED: %s: %s. It comes to that so:\n", name, outcome.wrong);
		for (std::size_t step = path.size(); step--;)
			std::printf("  %2zu  %s\n", path.size() - step,
				    nodes[path[step]].label.c_str());
	}
	return outcome;
}

} // namespace states
