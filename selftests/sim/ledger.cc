// SPDX-License-Identifier: GPL-2.0-only
/* What was executed and answered. See ledger.hh. */
#include "selftests/sim/ledger.hh"

namespace sim {

unsigned long long Ledger::replayed, Ledger::met_running, Ledger::repeated;

void Ledger::change(u32 id)
{
	REQUIRE(unrepeatable_.insert(id).second,
		"call %u is executed twice, and the reply cache has it", id);
	repeated += !changed_.insert(id).second;
}

void Ledger::change_backward(u32 xid)
{
	REQUIRE(backward_.insert(xid).second, "backward xid %#x is executed twice", xid);
}

Stamps Ledger::reply(u32 connection, u32 xid, u32 id, u32 execution)
{
	replies_.push_back({connection, xid, id, execution, false});
	return {u32(replies_.size()), execution};
}

u32 Ledger::last(const void *client, u32 xid) const
{
	const auto it = last_.find({client, xid});

	return it == last_.end() ? 0 : it->second;
}

void Ledger::take(const Stamps &stamps, u32 xid, u32 id, u32 connection)
{
	REQUIRE(stamps.reply && stamps.reply <= replies_.size(),
		"xid %#x: reply %u, which nobody gave", xid, stamps.reply);
	Reply &reply = replies_[stamps.reply - 1];
	REQUIRE(reply.xid == xid && reply.id == id,
		"xid %#x, call %u: the reply is to xid %#x, call %u", xid, id, reply.xid, reply.id);
	REQUIRE(reply.connection == connection,
		"xid %#x: the reply is to what went over connection %u, and not to what went over "
		"%u",
		xid, reply.connection, connection);
	REQUIRE(reply.execution == stamps.execution,
		"xid %#x: the reply has the results of execution %u, and not of %u", xid,
		stamps.execution, reply.execution);
	REQUIRE(!reply.taken, "xid %#x: reply %u is taken twice", xid, stamps.reply);
	reply.taken = true;
}

} // namespace sim
