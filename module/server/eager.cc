// SPDX-License-Identifier: GPL-2.0-only
/* How much may be pulled ahead of threads. See eager.hh. */

#include "module/server/eager.hh"

#include "module/server/transfer.hh"

namespace rpcordma {

EagerTotal eager_total;

static constexpr u32 kPartOfMemory = 128;

u64 eager_memory()
{
	return rpcordma_memory_size() / kPartOfMemory;
}

u64 eager_cap(const svc_xprt *xprt, u32 page_size, u64 memory)
{
	const u32 bytes = rpcordma_server_tunables.eager_read_bytes;
	rpcordma_svc_limits limits;

	if (bytes)
		return bytes;
	rpcordma_svc_get_limits(xprt, &limits);
	if (!limits.threads)
		return 0;
	/* What is longer than a sink is not pulled ahead. */
	const u32 bytes_of_one = min(limits.max_message + page_size, Transfer::kPages * page_size);
	return max(u64(limits.threads) * (bytes_of_one + kTransferBytes), memory);
}

bool EagerTotal::take(u64 bytes, u64 cap, bool joins)
{
	const u64 more = bytes + (joins ? kUser : 0);

	if (taken_.fetch_add(more, std::memory_order_relaxed) % kUser + bytes <= cap)
		return true;
	taken_.fetch_sub(more, std::memory_order_relaxed);
	return false;
}

bool EagerBudget::take(u32 bytes, u64 cap)
{
	/* Only receive completions, one at a time, add to it. */
	const u64 mine = bytes_.load(std::memory_order_relaxed);

	if (mine && (!replied() || mine + bytes > cap / max(1u, eager_total.users())))
		return false;
	if (!eager_total.take(bytes, cap, !mine))
		return false;
	/* What it had may have been given back since. */
	if (!bytes_.fetch_add(bytes, std::memory_order_relaxed) && mine)
		eager_total.join();
	return true;
}

bool EagerBudget::begin_reading(u32 bytes, u32 most)
{
	/* As in take(). */
	const u32 reading = reading_.load(std::memory_order_relaxed);

	if (reading && reading + bytes > most)
		return false;
	reading_.fetch_add(bytes, std::memory_order_relaxed);
	return true;
}

void EagerBudget::give_back(u32 bytes)
{
	const bool last = bytes_.fetch_sub(bytes, std::memory_order_relaxed) == bytes;

	eager_total.give_back(bytes, last);
}

} // namespace rpcordma
