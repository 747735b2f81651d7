// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which version is spoken: what is heard of it on a connection, what a client remembers of its server, and the rules
 * for both. Neither core is asked; what they send, and when, says it.
 */
#pragma once

#include <set>
#include <vector>

#include "module/protocol/negotiation.hh"
#include "selftests/sim/world.hh"

namespace sim {

/** A message in whichever version it says it is of; nothing, and of no direction, if it does not decode. */
rpcordma::xdr::Message decode_message(const u8 *message, u32 length);

/** What is heard of versions on one connection, between two cores, or a core and a stranger. */
class VersionTalk {
public:
	/** What both ends said in their private data. @strange: the server has no core. */
	void begin(const std::vector<u8> &client, const std::vector<u8> &server, bool strange);
	/** The core at an end posts @message. */
	void posted(bool server, const rpcordma::xdr::Message &message, bool strange);
	/** The client's core is about to hear @message. */
	void heard(const rpcordma::xdr::Message &message, bool strange);
	/** The client's core may have learnt that the connection is lost. */
	void lost()
	{
		broken = broken || !ended;
	}

	/** It is what the client asked. */
	bool is_question(const rpcordma::xdr::Message &message) const
	{
		return message.kind == rpcordma::xdr::Kind::connprop ||
		       (message.kind == rpcordma::xdr::Kind::error && asked && !answered &&
			message.xid.get() == question);
	}
	/** What the client speaks from here on. */
	u32 version() const
	{
		return answered ? answer : asked ? 0 : rpcordma::protocol::Spoken::preferred();
	}

	bool client_mark = false, server_mark = false;
	bool asked = false, answered = false;
	bool broken = false;  /* before the client ended it: an answer need not count */
	bool ended = false;   /* by the client */
	bool replied = false; /* the client has heard a reply to a call of its own */
	u32 question = 0;     /* its xid */
	u64 asked_at = 0;
	u32 answer = 0; /* the version; 0: none, and another connection it is to be */
	u32 told =
		0; /* bytes of each Receive that the server has posted, since it said so; 0: it has not */
	static u32 grown; /* servers' connections that said so; of a run */
	/* Calls with two kinds of Read chunk, with two kinds of chunk for the reply, replies in both; of all runs. */
	static unsigned long long two_reads, two_replies, both_used;
	/* Calls and replies of several transmissions, and those with an item; of all runs. */
	static unsigned long long groups, reply_groups, items, reply_items;
	static unsigned long long gathered; /* Sends of these that read an RPC's own pages */
	/* Of clients with directions (strange_directions.cc). */
	static unsigned long long results_sent, results_written;
	/* Calls with several Read chunks, but for one of Position Zero, by version (strange_chunks.cc). */
	static unsigned long long several_reads[2];

private:
	u32 server_version_ = 0; /* 0: it has said nothing */
	std::set<u32> calls_;	 /* xids of the client's */
};

/** What a client has done to come to a connection, and what it may do next. */
class VersionMemory {
public:
	/** connect() begins. */
	void connecting();
	/** One more connection is tried. */
	void attempt();
	/** It has got as far as a request. */
	void requested(const std::vector<u8> &private_data);
	/** Both ends agreed; @talk is what will be heard. */
	void agreed(const std::shared_ptr<VersionTalk> &talk);
	/** A CONNPROP is posted, now. */
	void asks();
	/** connect() has ended: @version, by the core's own account, or 0. */
	void connected(u32 version);

	static void reset();

	/** Nothing goes wrong in this run: what is to happen has to. */
	static bool calm;
	/** The parameter of either end has been set so often. */
	static u32 changes;
	/** Connections of version 2 that came of a question behind an avoidance; of a run. */
	static u32 asked_again;
	/* Connections of version 1 next to one of version 2, and then of version 2 again, of one client; of all runs. */
	static unsigned long long went_down, came_back;

private:
	std::shared_ptr<VersionTalk> talk_, last_; /* of this attempt, and of the one before */
	u32 attempts_ = 0, changes_ = 0, parameter_ = 0;
	u32 spoken_ = 0;    /* over the last connection */
	bool down_ = false; /* it was version 2 before */
	u64 began_ = 0;
	bool strangers_ = false; /* there are some, or were when it connected last */
	/* Of faults, when it began: those since then may excuse what the attempt does not do. */
	u32 memory_failures_ = 0, mapping_failures_ = 0, posting_failures_ = 0;
	/* Until then the server is surely not asked; and may not be asked. */
	u64 avoid_surely_ = 0, avoid_maybe_ = 0;
};

/** For how long a server that did not go along is not asked again. */
constexpr u64 kAvoidance = 600 * kSecond;

} // namespace sim
