// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which way a call and its reply go on a connection of version 2 with round-trip reduction: inline, in DDP segments, in
 * several transmissions, or by chunks. By their lengths and by what the peer told of itself; numbers only. Chunks are then
 * planned by reduce.hh, as without round-trip reduction, and DDP segments by placement.hh.
 *
 * Nothing drives it yet (architecture.rst).
 */
#pragma once

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

/** How a call goes, the cheapest first. */
enum class CallWay : u8 {
	one,	    /* inline, in one transmission */
	sent,	    /* its item in DDP segments of the peer's */
	read_chunk, /* its item by a Read chunk, the rest inline */
	group,	    /* all of it inline, in several transmissions */
	long_call,  /* all of it by a Position Zero Read chunk */
};

/** How its reply may come. A responder may answer inline whatever was offered, if it fits. */
enum class ReplyWay : u8 {
	one,	     /* inline, in one transmission */
	sent,	     /* its item in DDP segments of ours */
	write_chunk, /* its item by a Write chunk, the rest inline */
	group,	     /* all of it inline, in several transmissions */
	reply_chunk, /* all of it by a Reply chunk */
};

/** What an end told of itself (properties::Properties), as far as it matters here; by default, what a silent one is. */
struct End {
	u32 receive_bytes = properties::default_receive_size; /* at least that */
	properties::Structure room;
	u32 extensions = 0;  /* a mask of properties::Extensions */
	u32 call_limit = 1;  /* transmissions of a call that it receives */
	u32 reply_limit = 1; /* transmissions of a reply that it sends */
};

/** What the client has to spend. */
struct Means {
	End ours, peer;
	u32 write_max = 0; /* a longer item of a call does not go in DDP segments, bytes */
	u32 read_max = 0;  /* nor a longer one of a reply; and it does not come inline */
	/* Transmissions of this call that credits can be had for, the first included: at least one. */
	u32 credits = 1;
	/* Receives that can be reserved for its reply. */
	u32 receives = 0;
};

/** A call and the largest reply to it. Bytes, without transport headers; an item without its pad is in both numbers. */
struct Lengths {
	u32 call = 0;
	u32 call_item = 0; /* that may be placed apart (DDP-eligible); 0: none */
	u32 reply = 0;
	u32 reply_item = 0;
	/* RPCSEC_GSS protects the payload: nothing may be placed apart. */
	bool sealed = false;
};

struct Selection {
	CallWay call = CallWay::one;
	ReplyWay reply = ReplyWay::one;
	u32 call_transmissions = 1;
	/* That the reply may have, the first included: optxrq_rsbuf. Without an XMTREQ, 1. */
	u32 reply_transmissions = 1;

	/** It is an XMTREQ; else an RDMA_MSG or RDMA_NOMSG. */
	[[nodiscard]] constexpr bool xmtreq() const
	{
		return call == CallWay::sent || call == CallWay::group || reply == ReplyWay::sent ||
		       reply == ReplyWay::group;
	}
	/** A chunk is offered, which an XMTREQ cannot do. */
	[[nodiscard]] constexpr bool chunks() const
	{
		return call == CallWay::read_chunk || call == CallWay::long_call ||
		       reply == ReplyWay::write_chunk || reply == ReplyWay::reply_chunk;
	}
};

/**
 * The ways of one call and its reply: of each the first that fits, in the order of the ways; and where one of both would
 * need an XMTREQ and the other a chunk, chunks for both, as an XMTREQ has none. What is larger than any way takes comes out
 * as a chunk, and is reduce()'s to refuse.
 *
 * An XMTREQ goes to a peer that takes these and sends XMTRESPs; one of several transmissions, or that may have a reply of
 * several, to one that knows XMTCONT too.
 */
[[nodiscard]] Selection select(const Lengths &lengths, const Means &means);

} // namespace rpcordma::chunk
