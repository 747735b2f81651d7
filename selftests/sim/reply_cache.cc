// SPDX-License-Identifier: GPL-2.0-only
/* The duplicate reply cache. See reply_cache.hh. */
#include "selftests/sim/reply_cache.hh"

#include <algorithm>

#include "selftests/sim/cm.hh"

namespace sim {

static constexpr u32 kChecksummed = 256, kLongest = 256; /* bytes */
static constexpr u64 kExpiry = 120 * kSecond;

ReplyCache::Key ReplyCache::key_of(u64 peer, const Call &call, const std::vector<u8> &bytes)
{
	const u32 from = call.arguments_at();
	const u32 to = std::min(u32(bytes.size()), from + kChecksummed);
	Key key = {peer, xid_of(bytes), u32(call.kind), u32(bytes.size()), 0};

	for (u32 i = from; i < to; i++)
		key.checksum = (key.checksum ^ bytes[i]) * 0x01000193;
	return key;
}

void ReplyCache::erase_(std::map<Key, Entry>::iterator it)
{
	fabric->ledger.may_repeat(it->second.id);
	order_.erase(it->second.at);
	entries_.erase(it);
}

/* Those that are being executed stay. */
void ReplyCache::prune_()
{
	for (auto at = order_.begin(); at != order_.end();) {
		const auto it = entries_.find(*at++);

		if (!it->second.done)
			continue;
		if (entries_.size() <= room && now() - it->second.used < kExpiry)
			break;
		TRACE("the reply cache forgets xid %#x", it->first.xid);
		erase_(it);
	}
}

const ReplyCache::Entry *ReplyCache::look_up(const Key &key, u32 id)
{
	const auto [it, fresh] = entries_.try_emplace(key);
	Entry &entry = it->second;

	if (fresh) {
		entry = {id, false, 0, {}, now(), order_.insert(order_.end(), key)};
		prune_();
		return nullptr;
	}
	entry.used = now();
	order_.splice(order_.end(), order_, entry.at);
	return &entry;
}

void ReplyCache::keep(const Key &key, u32 execution, const std::vector<u8> &reply, u32 results_at)
{
	const auto it = entries_.find(key);

	REQUIRE(it != entries_.end() && !it->second.done, "xid %#x is executed by nobody", key.xid);
	if (reply.size() - results_at > kLongest)
		return erase_(it);
	Entry &entry = it->second;
	entry.done = true;
	entry.execution = execution;
	entry.results.assign(reply.begin() + results_at, reply.end());
	entry.used = now();
	order_.splice(order_.end(), order_, entry.at);
}

void ReplyCache::drop(const Key &key)
{
	erase_(entries_.find(key));
}

void ReplyCache::clear()
{
	while (!entries_.empty())
		erase_(entries_.begin());
}

} // namespace sim
