// SPDX-License-Identifier: GPL-2.0-only
/*
 * Transport properties (version-two-03, rtrext-01): what an end of a connection of version 2 says of itself, as values,
 * and the bodies of the four messages that carry them. Their headers are in v2.hh. What follows from a property is the
 * connection's business.
 *
 * On the wire a property set is a counted list of properties, each an id and counted data; a subset of it is a counted
 * list of words, in which bit n % 32 of word n / 32 stands for the n-th property of the set.
 */
#pragma once

#include "xdr/wire.hh"

namespace rpcordma::properties {

/** The properties that are known here, by their ids. */
enum class Id : u32 {
	receive_size = 1, /* RBSIZ: uint32 */
	backward = 2,	  /* BRS: enum */
	extensions = 3,	  /* RTRSUPP: uint32 */
	structure = 4,	  /* RBSTRUCT */
	call_limit = 5,	  /* REQRXLIM: uint32 */
	reply_limit = 6,  /* RESPSXLIM: uint32 */
};
constexpr u32 known = 6;

/** Sets of known properties are masks of these. */
[[nodiscard]] constexpr u32 bit(Id id)
{
	return u32(1) << (static_cast<u32>(id) - 1);
}
constexpr u32 all = (u32(1) << known) - 1;

/** The receive size that every peer has, and is (version-two-03: MUST). */
constexpr u32 default_receive_size = 4096;
/** What a structure may say: more is taken for no structure. */
constexpr u32 most_structure_bytes = u32(1) << 20;
constexpr u32 most_structure_groups = 64;

/** rpcrdma2_bkreqsup: which backward calls an end takes. */
enum class Backward : u32 { none = 0, inline_only = 1, general = 2 };

/** The bits of RTRSUPP: which messages an end takes. */
enum Extensions : u32 {
	takes_xmtreq = 1,  /* RTRS_XREQ */
	takes_xmtresp = 2, /* RTRS_XRESP */
	takes_xmtcont = 4, /* RTRS_XCONT */
};

/**
 * RBSTRUCT, as far as a sender needs it: a head, and behind it the segments that take an item each ("DDP segments").
 * By default there is none.
 */
struct Structure {
	u32 total = 0;	  /* bytes of a receive buffer; 0: none, or one that contradicts itself */
	u32 segments = 0; /* DDP segments; 0 too where they differ in length or do not stand last */
	u32 segment_length = 0; /* bytes of each; 0 without */

	/** Bytes before the DDP segments: what header and stream may take. */
	[[nodiscard]] constexpr u32 head() const
	{
		return total - segments * segment_length;
	}
};

[[nodiscard]] constexpr bool operator==(const Structure &a, const Structure &b)
{
	return a.total == b.total && a.segments == b.segments &&
	       a.segment_length == b.segment_length;
}

/** What an end says of itself; by default, what an end is that says nothing. */
struct Properties {
	u32 receive_size = default_receive_size; /* bytes, at least that */
	Backward backward = Backward::inline_only;
	u32 extensions = 0; /* of Extensions; other bits as they came */
	Structure structure;
	u32 call_limit = 1;  /* transmissions of a call that it receives; not 0 */
	u32 reply_limit = 1; /* transmissions of a reply that it sends; not 0 */
	u32 present = 0;     /* which of them were said, or are to be: a mask of bit() */

	[[nodiscard]] constexpr bool has(Id id) const
	{
		return (present & bit(id)) != 0;
	}

	/**
	 * Bytes of a message that it receives. Where its structure speaks of another length than its receive size, the
	 * smaller holds, but never less than every peer has.
	 */
	[[nodiscard]] constexpr u32 receive_bytes() const
	{
		if (structure.total == 0 || structure.total == receive_size)
			return receive_size;
		return max(min(structure.total, receive_size), default_receive_size);
	}
	/** Its DDP segments: none where structure and receive size differ. */
	[[nodiscard]] constexpr u32 ddp_segments() const
	{
		return structure.total == receive_size ? structure.segments : 0;
	}

	/** Take over what @update says, but nothing of @fixed, a mask. */
	void apply(const Properties &update, u32 fixed);
};

/** Bytes of all six properties as encode() writes them. */
constexpr u32 most_set_length = 4 + 5 * 12 + 12 + 4 + 2 * 16;

/** A subset as it came (rpcrdma2_propsubset): points into the message. */
class Subset {
public:
	Subset() = default;
	explicit Subset(Bytes words) : words_(words)
	{
	}
	/** It has the property that is the @n-th of the set, from 0. */
	[[nodiscard]] bool has(u32 n) const
	{
		const usize at = usize(n / 32) * xdr::word_size;

		return at < words_.size() && (xdr::load_be32(words_.data() + at) >> (n % 32) & 1);
	}

private:
	Bytes words_; /* whole words */
};

/**
 * Step over a property set, or a subset, of any content.
 *
 * @reader  left behind it; anywhere, where the outcome is false
 * @count   the properties in it
 *
 * Returns whether it is all there.
 */
[[nodiscard]] bool skip_set(xdr::Reader &reader, u32 &count);
[[nodiscard]] bool skip_subset(xdr::Reader &reader);

/**
 * Read a property set at the front of @reader, and leave @reader behind it.
 *
 * Unknown ids are stepped over. Empty data stands for the default. Of a property that is there twice, the last counts.
 * A receive size under default_receive_size is that; a limit of 0 is 1. A structure that is well-formed, and
 * contradicts itself (a total that is not the sum, an empty group) or exceeds the limits above, is none.
 *
 * @said  filled from the defaults
 *
 * Errors: EPROTO, it is cut short, or the data of a known property is not what its type has: none of @said counts.
 */
[[nodiscard]] Error decode_set(xdr::Reader &reader, Properties &said);

/**
 * The body (xdr::Message::body()) of an RDMA2_CONNPROP.
 *
 * @said     as decode_set() has it
 * @nochange of which of the known ones the sender says that it will not change them: a mask. What it did not
 *           mention at all will not change either (version-two-03), and is not in the mask
 *
 * Errors: as decode_set().
 */
[[nodiscard]] Error decode_connprop(Bytes body, Properties &said, u32 &nochange);

/** The body of an RDMA2_REQPROP or RDMA2_UPDPROP. Errors: as decode_set(). */
[[nodiscard]] Error decode_updprop(Bytes body, Properties &said);

/** The body of an RDMA2_RESPROP; the subsets are of the set that was asked for. */
struct Response {
	Subset done;
	Subset rejected;
	Properties other;
};
/** Errors: as decode_set(). */
[[nodiscard]] Error decode_resprop(Bytes body, Response &response);

/**
 * Append the properties that @said says are present, in the order of their ids. A structure that is none gets empty
 * data, which says so; one that is some gets two groups, head and DDP segments, each only if there is any.
 */
void encode_set(xdr::Writer &writer, const Properties &said);

/** The subset of what encode_set() makes of @said that has those of @ids, a mask. One word. */
[[nodiscard]] u32 subset_of(const Properties &said, u32 ids);

} // namespace rpcordma::properties
