// SPDX-License-Identifier: GPL-2.0-only
/*
 * The calls of a connection that wait for a thread: those that are ready for the service, or to be refused, and
 * those whose Reads are held back until a thread posts them.
 */
#pragma once

#include "module/server/call.hh"

namespace rpcordma {

/** Calls in the order in which they came. */
class CallFifo {
public:
	[[nodiscard]] bool empty() const
	{
		return !first_;
	}
	/** @call is on no list. */
	void push(ServerCall *call)
	{
		call->next = nullptr;
		(first_ ? last_->next : first_) = call;
		last_ = call;
	}
	/** The first one, taken off, or null. */
	[[nodiscard]] ServerCall *pop()
	{
		ServerCall *call = first_;

		if (call)
			first_ = call->next;
		return call;
	}

private:
	ServerCall *first_ = nullptr;
	ServerCall *last_ = nullptr; /* means nothing while there is none */
};

/** Whoever has one guards it with a lock. */
class CallQueue {
public:
	/** What is to be done with a call. */
	enum class Lane : u8 {
		ready, /* hand it to the service, or refuse it */
		held,  /* pull its Read chunks */
	};
	struct Taken {
		ServerCall *call; /* null: there is none */
		Lane lane;
	};

	void push(ServerCall *call, Lane lane)
	{
		(lane == Lane::ready ? ready_ : held_).push(call);
	}
	/** In turn, so that calls which came later and went by do not keep the held ones waiting. */
	[[nodiscard]] Taken take()
	{
		held_turn_ = !held_turn_;
		if (!held_turn_ || held_.empty())
			if (ServerCall *call = ready_.pop())
				return {call, Lane::ready};
		return {held_.pop(), Lane::held};
	}
	[[nodiscard]] bool empty() const
	{
		return ready_.empty() && held_.empty();
	}
	[[nodiscard]] bool none_held() const
	{
		return held_.empty();
	}

private:
	friend struct ServerInside;
	CallFifo ready_;
	CallFifo held_;
	bool held_turn_ = false; /* of the two, when both have calls */
};

/** Queue @call, and have a thread look. Completions. (Or enqueue_locked().) */
void enqueue(Server &server, ServerCall *call, CallQueue::Lane lane);
/** The connection is there, and what is queued may be looked at. */
void establish(Server &server);
/** What a thread is to do next. A service thread. */
[[nodiscard]] CallQueue::Taken take_call(Server &server);

} // namespace rpcordma
