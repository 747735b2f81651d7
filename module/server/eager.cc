// SPDX-License-Identifier: GPL-2.0-only
/* How much may be pulled ahead of threads. See eager.hh. */

#include "module/server/eager.hh"

#include "module/server/transfer.hh"

namespace rpcordma {

EagerTotal eager_total;

/* What part of the machine's memory eager Reads may fill, however few the threads. */
static constexpr u32 kPartOfMemory = 128;

u64 eager_cap(const svc_xprt *xprt, u32 page_size)
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
	return max<u64>(u64(limits.threads) * (bytes_of_one + kTransferBytes),
			rpcordma_memory_size() / kPartOfMemory);
}

bool EagerBudget::take(u32 bytes, u64 cap)
{
	/* Only receive completions, one at a time, add to it. */
	const u64 mine = bytes_.load(std::memory_order_relaxed);

	if (mine) {
		const u32 users = max(1u, eager_total.users.load(std::memory_order_relaxed));

		if (!replied() || mine + bytes > cap / users)
			return false;
	}
	if (eager_total.bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes > cap) {
		eager_total.bytes.fetch_sub(bytes, std::memory_order_relaxed);
		return false;
	}
	if (!bytes_.fetch_add(bytes, std::memory_order_relaxed))
		eager_total.users.fetch_add(1, std::memory_order_relaxed);
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
	eager_total.bytes.fetch_sub(bytes, std::memory_order_relaxed);
	if (bytes_.fetch_sub(bytes, std::memory_order_relaxed) == bytes)
		eager_total.users.fetch_sub(1, std::memory_order_relaxed);
}

} // namespace rpcordma
