// SPDX-License-Identifier: GPL-2.0-only
/*
 * The Receives of a connection, and what they are promised for (RFC 8166 3.3.1): credits that are granted,
 * and backward calls. A Receive is posted, with a call, or spare; moreover the receive completion has those
 * of a message that is not whole yet.
 */
#pragma once

#include <atomic>

#include "compat/port/port.h"
#include "module/rdma/credits.hh"
#include "module/rdma/receive.hh"
#include "module/server/call.hh"

namespace rpcordma {

/** Receives that there may be for each one that is promised: a bound on what a client can pin. */
static constexpr u32 kCallsPerReceive = 3;
/** Receives posted beyond those that are promised. */
static constexpr u32 kServerBatch = 4;

/** How many there are, and how many there have to be. Whoever has one guards it with a lock. */
class Receives {
public:
	/** @limit: what the queue pair holds. @max_credits: the most that is ever granted. */
	void init(u32 limit, u32 max_credits)
	{
		limit_ = limit;
		credits_ = ResponderCredits(max_credits);
	}
	[[nodiscard]] u32 limit() const
	{
		return limit_;
	}
	[[nodiscard]] u32 posted() const
	{
		return posted_;
	}
	/** Receives for credits and for backward calls, so that no message of an honest client finds none. */
	[[nodiscard]] u32 promised() const
	{
		return credits_.granted() + backed_;
	}
	[[nodiscard]] ResponderCredits &credits()
	{
		return credits_;
	}
	[[nodiscard]] const ResponderCredits &credits() const
	{
		return credits_;
	}
	/** The most backward calls that were outstanding, with Receives posted for them. */
	[[nodiscard]] u32 backed() const
	{
		return backed_;
	}
	void back(u32 calls)
	{
		backed_ = max(backed_, calls);
	}
	/** A spare one is to be posted; null: there is none. */
	[[nodiscard]] Receive *take_spare()
	{
		Receive *receive = spare_;

		if (receive) {
			spare_ = receive->next;
			posted_++;
		}
		return receive;
	}
	/** One that its owner is done with is posted again. */
	void repost()
	{
		posted_++;
	}
	void put_spare(Receive *receive)
	{
		receive->next = spare_;
		spare_ = receive;
	}
	/** @receive lacks the pages that it has to have before it is posted again. */
	void put_bare(Receive *receive)
	{
		receive->next = bare_;
		bare_ = receive;
	}
	/** One of these; null: there is none. */
	[[nodiscard]] Receive *take_bare()
	{
		Receive *receive = bare_;

		if (receive)
			bare_ = receive->next;
		return receive;
	}
	/** All that are spare lack pages now. */
	void set_spares_aside()
	{
		bare_ = spare_;
		spare_ = nullptr;
	}
	/** One was consumed. */
	void completed()
	{
		posted_--;
	}
	/** Count one that is going to be made; false: there are @most. */
	[[nodiscard]] bool begin_making(u32 most)
	{
		if (made_ >= most)
			return false;
		made_++;
		return true;
	}
	/** It was not made. */
	void give_up_making()
	{
		made_--;
	}

private:
	friend struct ServerInside;
	Receive *spare_ = nullptr; /* chained by `next` */
	Receive *bare_ = nullptr;  /* likewise */
	u32 posted_ = 0;
	u32 made_ = 0; /* there are, or are being made */
	u32 limit_ = 0;
	u32 backed_ = 0;
	ResponderCredits credits_{1};
};

/** What replies ask of Receives, without the lock. */
class Grant {
public:
	/** What replies grant from now on. Under the lock. */
	void set(u32 credits)
	{
		credits_.store(credits, std::memory_order_relaxed);
	}
	[[nodiscard]] Credits credits() const
	{
		return Credits(credits_.load(std::memory_order_relaxed));
	}
	/** There are too few Receives: the next reply makes up for it first. */
	void note_debt()
	{
		debt_.store(true, std::memory_order_relaxed);
	}
	/** Whether there was such a note. */
	[[nodiscard]] bool in_debt() const
	{
		return debt_.load(std::memory_order_acquire);
	}
	/** It is paid: whoever sees that replies behind the posts. Under the lock. */
	void forget_debt()
	{
		debt_.store(false, std::memory_order_release);
	}

private:
	friend struct ServerInside;
	std::atomic<u32> credits_{1};
	std::atomic<bool> debt_{false};
};

/**
 * Have @receives posted, making some, each with a ServerCall, where none are spare. Returns whether so many
 * are. Receive completion; or any process context, with @how to match.
 */
[[nodiscard]] bool provide_receives(Server &server, u32 receives, rpcordma_alloc_how how);
/**
 * A Receive was consumed, and few are left: post others, before anything that lets the client send again; or a debt has been
 * noted, which what would do so pays. Receive completion.
 */
void replenish(Server &server);
/**
 * There is a debt, and what is about to be sent has the client send again, a call for the credit that it gives back, or a reply:
 * make up for it. Process context, with @how to match.
 */
void pay_debt(Server &server, rpcordma_alloc_how how);
/** @receives, chained by `next`, are done with: post those that are missing, the others are spare. May be null. */
void put_receives(Server &server, Receive *receives);
/** The same, of the transmissions of a message of round-trip reduction: of any version's messages there may be one. */
void put_transmissions(Server &server, Receive *receives);

} // namespace rpcordma
