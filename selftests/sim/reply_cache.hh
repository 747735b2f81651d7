// SPDX-License-Identifier: GPL-2.0-only
/*
 * The service's duplicate reply cache, as in fs/nfsd/nfscache.c: by peer, xid, procedure, length and a checksum. It has room for
 * so many calls, forgets each after two minutes, and keeps no long results. What it forgets may be executed again, which
 * the ledger is told of.
 */
#pragma once

#include <list>
#include <map>
#include <tuple>
#include <vector>

#include "selftests/sim/message.hh"

namespace sim {

class ReplyCache {
public:
	struct Key {
		u64 peer;
		u32 xid, procedure, length, checksum;

		bool operator<(const Key &other) const
		{
			return tie_() < other.tie_();
		}

	private:
		std::tuple<u64, u32, u32, u32, u32> tie_() const
		{
			return {peer, xid, procedure, length, checksum};
		}
	};
	/** What a call has become that came before. */
	struct Entry {
		u32 id;
		bool done;
		u32 execution;
		std::vector<u8> results;
		u64 used;
		std::list<Key>::iterator at;
	};

	/** That of the call @bytes, @call, from @peer. */
	static Key key_of(u64 peer, const Call &call, const std::vector<u8> &bytes);
	/** What there is about @key: null, and then @id is being executed from now on. */
	const Entry *look_up(const Key &key, u32 id);
	/** It has been, and @reply has the results, from @results_at on: if they are short they are kept. */
	void keep(const Key &key, u32 execution, const std::vector<u8> &reply, u32 results_at);
	/** It has not been, nor will be now. */
	void drop(const Key &key);
	/** Whoever comes next starts with nothing. Nothing is being executed. */
	void clear();

	u32 room = 1000;

private:
	void prune_();
	void erase_(std::map<Key, Entry>::iterator it);
	std::map<Key, Entry> entries_;
	std::list<Key> order_; /* the longest unused first */
};

} // namespace sim
