// SPDX-License-Identifier: GPL-2.0-only
/*
 * What was executed and answered in a run, and what of that may be again: the account that nobody of those who are tested
 * keeps. Each execution of a call has a number, which is in its results, and in each byte of their data; each reply that the
 * service gives has another one, in its verifier. So who gets a reply can tell which it is: of which call, over which
 * connection, and of which execution.
 */
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "selftests/sim/world.hh"

namespace sim {

/** What a reply says of itself. */
struct Stamps {
	u32 reply = 0, execution = 0;
};

class Ledger {
public:
	/** A connection that is new; none is 0. */
	u32 connection()
	{
		return ++connections_;
	}

	/* Of the service: */
	/** The call with this @id, which changes something, is executed: never again while the reply cache has it. */
	void change(u32 id);
	/** The reply cache does not have it any more, or never had: what comes again is executed again. */
	void may_repeat(u32 id)
	{
		unrepeatable_.erase(id);
	}
	u32 execution()
	{
		return ++executions_;
	}
	/** A reply to the call with @id that came with @xid over @connection, of @execution. */
	Stamps reply(u32 connection, u32 xid, u32 id, u32 execution);
	/** The backward call with @xid is executed: never again. */
	void change_backward(u32 xid);

	/* Of clients: */
	/** @client posts the call with @xid, maybe once more, over @connection. */
	void sent(const void *client, u32 xid, u32 connection)
	{
		last_[{client, xid}] = connection;
	}
	/** The connection over which it did so last. */
	u32 last(const void *client, u32 xid) const;
	/** The reply with these @stamps is taken, as the one to the call with @id and @xid that went over @connection. */
	void take(const Stamps &stamps, u32 xid, u32 id, u32 connection);

	/* Of all runs: calls that were answered from the cache; that came again while they were executed; and that were executed
	   again. */
	static unsigned long long replayed, met_running, repeated;

private:
	struct Reply {
		u32 connection, xid, id, execution;
		bool taken;
	};

	u32 connections_ = 0, executions_ = 0;
	std::vector<Reply> replies_; /* by their number, from 1 on */
	std::set<u32> changed_, unrepeatable_, backward_;
	std::map<std::pair<const void *, u32>, u32> last_;
};

} // namespace sim
