// SPDX-License-Identifier: GPL-2.0-only
/*
 * The RPC messages of the simulated consumer. A call says all that there is to know of it in its first
 * arguments; every other byte of it and of its reply follows from that. So each side can check every
 * byte it gets, and a byte of another call, or of nobody's, shows. A reply also says which reply it is, and of which execution
 * (ledger.hh), which its other bytes follow from too.
 */
#pragma once

#include <vector>

#include "selftests/sim/ledger.hh"

namespace sim {

/** The shapes that matter to a transport. */
enum class Kind : u32 {
	null,  /* nothing */
	small, /* arguments and results in head buffers */
	write, /* call data in pages, to be placed directly */
	read,  /* reply data likewise */
	both,  /* both */
	listing, /* reply data in pages, not to be placed: READDIR; the pages may be absent (sparse) */
	linking, /* call data in pages, not to be placed: SYMLINK */
	count,
};

struct Call {
	u32 id = 0; /* in the place of the data's file and offset */
	Kind kind = Kind::null;
	u32 call_data = 0, reply_data = 0; /* bytes */
	u32 credential = 0, verifier = 0;  /* of the call, and of the reply; words */
	bool sealed = false;		   /* integrity: nothing is to be placed directly */
	bool trailer = true;		   /* results behind the reply's data */
	bool changes = false;		   /* it is not to be executed twice */
	/* Arguments, and results, that are before the data; words. */
	u32 wide_call = 0, wide_reply = 0;

	/** Where a call's header ends. */
	u32 arguments_at() const
	{
		return 4 * (10 + credential);
	}
	/** Where a reply's does, which is made anew when the results are those of the reply cache. */
	u32 results_at() const
	{
		return 4 * (6 + verifier);
	}
	/** Bytes of the call, and of the reply, before their data and behind them. */
	u32 call_front() const
	{
		return arguments_at() + 4 * (11 + wide_call);
	}
	u32 reply_front() const
	{
		return results_at() + 4 * (4 + wide_reply);
	}
	u32 back() const
	{
		return 8;
	}
	u32 call_length() const
	{
		return call_front() + padded(call_data) + back();
	}
	u32 reply_length() const
	{
		return reply_front() + padded(reply_data) + (trailer ? back() : 0);
	}
	static u32 padded(u32 length)
	{
		return (length + 3) & ~u32(3);
	}
};

std::vector<u8> call_bytes(const Call &call, u32 xid);
u32 xid_of(const std::vector<u8> &bytes);
std::vector<u8> reply_bytes(const Call &call, u32 xid, const Stamps &stamps);
/** Results that were kept, with another header. */
std::vector<u8> reply_again(const Call &call, u32 xid, const Stamps &stamps,
			    const std::vector<u8> &results);
/** What the reply @bytes says of itself. */
Stamps stamps_of(const std::vector<u8> &bytes, u32 xid);
/** What @bytes is a call of; fails when it is no call, or a byte is wrong. */
Call check_call(const std::vector<u8> &bytes);
/** Fails when that is no reply to @call. The pad behind the data may hold anything. Which one it is the ledger has to say. */
Stamps check_reply(const Call &call, u32 xid, const std::vector<u8> &bytes);

} // namespace sim
