// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls whose chunks broke a connection (RFC 8166 4.5.3). A Read or Write that the client's device
 * refuses ends the connection, so the call cannot be answered on it; the client connects again and sends
 * it again, maybe with the same chunks. Then it gets ERR_CHUNK instead of another broken connection.
 *
 * Remembered is only the call whose work request first reported a remote access error on its connection:
 * what is flushed after it, or failed for want of an answer, says nothing about chunks. A client that
 * registers its memory anew sends other bytes, and is served.
 */
#pragma once

#include "compat/port/port.h"
#include "module/base/lock.hh"
#include "module/base/span.hh"
#include "module/base/types.hh"
#include "module/server/call.hh"
#include "xdr/wire.hh"

namespace rpcordma {

class Failures {
public:
	static constexpr u32 kEntries = 32;
	/** A client that has not come back with the call by then has given it up. */
	static constexpr u64 kLifetimeMs = 120000;

	/** The call @message, from @address, failed. The oldest entry makes room. */
	void remember(u64 address, Bytes message, u64 now_ms)
	{
		Entry *oldest = entries_;

		for (Entry &entry : entries_)
			if (entry.expires < oldest->expires)
				oldest = &entry;
		*oldest = {address, digest_(message), now_ms + kLifetimeMs};
		last_ = now_ms + kLifetimeMs;
	}
	/** Whether there was never one: asked before all else, without the lock. */
	[[nodiscard]] bool none_ever() const
	{
		return !__atomic_load_n(&last_, __ATOMIC_RELAXED);
	}
	/** Whether anything is remembered: asked before the rest, without the lock. */
	[[nodiscard]] bool any(u64 now_ms) const
	{
		return now_ms < __atomic_load_n(&last_, __ATOMIC_RELAXED);
	}
	/** Whether @message, from @address, failed before. */
	[[nodiscard]] bool recall(u64 address, Bytes message, u64 now_ms) const
	{
		const u64 digest = digest_(message);

		for (const Entry &entry : entries_) {
			if (entry.expires <= now_ms || entry.address != address ||
			    entry.digest != digest)
				continue;
			/* Until it expires: every copy of the call gets the same answer. */
			return true;
		}
		return false;
	}

private:
	struct Entry {
		u64 address;
		u64 digest;
		u64 expires; /* 0: never used */
	};

	/* FNV-1a, of all but the credit value, which may differ from copy to copy. */
	[[nodiscard]] static u64 digest_(Bytes message)
	{
		u64 hash = 0xcbf29ce484222325;

		for (usize i = 0; i < message.size(); i++)
			if (i < 2 * xdr::word_size || i >= 3 * xdr::word_size)
				hash = (hash ^ message[i]) * 0x100000001b3;
		return hash;
	}

	Entry entries_[kEntries] = {};
	u64 last_ = 0; /* when the youngest entry expires */
};

/** The calls whose chunks broke connections, of all clients; and its lock. */
extern ModuleLock server_failures_lock;
extern Failures server_failures;

/**
 * Whether the call whose first Receive is @receive broke an earlier connection with its chunks, or, if it is an RDMA2_OPTIONAL,
 * with its RDMA segments.
 */
[[nodiscard]] bool failed_before(const Server &server, const Receive &receive);
/**
 * A work request of @call failed, and the connection ends. The first on a connection to report a remote access
 * error tells that the call's chunks are bad; those behind it are flushed, and tell nothing. @what: the kind of
 * work request. Send completion.
 */
void chain_failed(Server &server, ServerCall *call, trace::Loss what,
		  const rpcordma_completion &completion);

} // namespace rpcordma
