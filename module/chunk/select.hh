// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether a call and its reply go by round-trip reduction (rtrext-01) instead of by the chunks that reduce() has planned: in DDP
 * segments, or in several transmissions. By their lengths and by what both ends told of themselves; numbers only. What that
 * takes, credits, Receives and memory, group.cc has or has not: without, the chunks stay.
 *
 * Of each the first that fits:
 *
 *  Reply   fits one message at its largest				no XMTREQ for it
 *          page data eligible, no longer than read_max, the call
 *          fits one message, and all fits the transmissions		page data in DDP segments of ours
 *          page data eligible, rest fits one message			Write chunk
 *          fits the transmissions					inline, in several
 *          else							Reply chunk
 *  Call    fits one message						one
 *          page data eligible, rest fits one message, no longer than
 *          write_max, and all fits the transmissions			page data in DDP segments of the peer's
 *          page data eligible, rest fits one message			Read chunk
 *          fits the transmissions					inline, in several
 *          else							Position Zero Read chunk
 *
 * Where the one side needs an XMTREQ and the other one a chunk, both have chunks, as an XMTREQ offers none (rtrext-01 has
 * no Reply chunk in it).
 *
 * The drafts leave open more than that. What is done here on purpose:
 *
 *  - reduce() is asked first, and what it plans without a chunk stays so: of one message an XMTREQ saves nothing. So data of
 *    READs that fit one come inline, whatever read_max is.
 *  - An item that reduce() gives no chunk of its own, as the rest beside it is too long, is none here.
 *  - An XMTREQ goes to a peer that announced XMTREQ, XMTRESP and XMTCONT, also where it has one transmission: its reply may have
 *    several.
 *  - An item of the call and an item of the reply do not go together, and who asks for the reply's has a call of one message.
 *  - A stream in several transmissions, or with an item left out, has whole words, as all RPC messages have.
 *  - Who is asked for an item may send it inline: there are Receives for that, too.
 */
#pragma once

#include "module/chunk/reduce.hh"
#include "xdr/rtrext.hh"

namespace rpcordma::chunk {

/**
 * Receives that a reply of up to @transmissions (rsbuf, which counts the first) has besides those behind the credits: as
 * many as it says. By rtrext-01 that may mean all of them or all but the first.
 */
[[nodiscard]] constexpr u32 receives_to_reserve(u32 transmissions)
{
	return transmissions <= 1 ? 0 : transmissions;
}

/** How a call goes: as reduce() has planned it, or by an XMTREQ. */
enum class Way : u8 {
	planned,
	group,	   /* all of it inline, and all of the reply */
	sent_item, /* page data in DDP segments of the peer's, the rest inline, and all of the reply */
	asked_item, /* all of it inline; the reply's page data in DDP segments of ours, or inline */
};

/** What both ends told of themselves, and what calls have. Lengths in bytes. */
struct Means {
	/* That both know: a mask of properties::Extensions. */
	u32 extensions = 0;
	/* Of a message to the peer. */
	u32 send_bytes = 0;
	/* Of each transmission of a reply that has nothing placed: no more than reduce() was told. */
	u32 receive_bytes = 0;
	/* That the buffers of a Send have, or may be made to have. */
	u32 buffer_bytes = 0;
	/* Where the peer has the item of a call, and we that of a reply. */
	properties::Structure theirs, ours;
	/* Transmissions of a call that the peer receives and we send; and of a reply that it sends and we ask for. */
	u32 call_limit = 1, reply_limit = 1;
	/* DDP segments that the item of a call may take. */
	u32 item_segments = 0;
	/* Longer items do not go in Sends: of a call, of a reply. */
	u32 write_max = 0, read_max = 0;
};

/** Where it is not Way::planned, what the XMTREQ is. */
struct Selection {
	Way way = Way::planned;
	u32 call_transmissions = 1;
	/* That the reply may have, the first included: optxrq_rsbuf, and see receives_to_reserve(). */
	u32 reply_transmissions = 1;
	u32 header_length = 0; /* of the first transmission */
	/*
	 * What buffers a Send is to have. group: each but the last is as full as that allows. sent_item: where the item is
	 * copied, else as much as the peer's head. asked_item: all of it.
	 */
	u32 send_bytes = 0;
	/* asked_item: a shorter item comes inline, as in one transmission it costs no padding there. */
	u32 item_least = 0;
};

/**
 * How the call with @shape goes, which reduce() has planned as @plan. Of a group whose Sends turn out to have shorter buffers,
 * ask again, with these.
 */
[[nodiscard]] Selection select(const CallShape &shape, const Plan &plan, const Means &means);

} // namespace rpcordma::chunk
