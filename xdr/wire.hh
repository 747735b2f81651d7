// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ground that all header codecs stand on: big-endian loads and stores, a bounded reader and writer
 * of XDR words, the RDMA segment, and the four words that begin every RPC-over-RDMA message whatever
 * its version. What one version defines is in v1.hh or v2.hh; the chunk lists that versions share, in lists.hh.
 *
 * Everything in xdr/ is a pure function over bytes that the caller owns: no state, no I/O, no
 * allocation. All of it may be called from any context, interrupts included.
 */
#pragma once

#include "module/base/result.hh"
#include "module/base/span.hh"
#include "module/base/types.hh"

namespace rpcordma::xdr {

/** The bytes of an XDR word (RFC 4506 3). */
constexpr u32 word_size = 4;

/*
 * Raw access, unchecked and at any alignment: whoever calls these has bounded @at. Everything else
 * in xdr/ goes through them, so byte order is decided here alone.
 */
[[nodiscard]] inline u32 load_be32(const u8 *at)
{
	u32 v;
	__builtin_memcpy(&v, at, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	v = __builtin_bswap32(v);
#endif
	return v;
}

[[nodiscard]] inline u64 load_be64(const u8 *at)
{
	u64 v;
	__builtin_memcpy(&v, at, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	return v;
}

inline void store_be32(u8 *at, u32 v)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	v = __builtin_bswap32(v);
#endif
	__builtin_memcpy(at, &v, sizeof(v));
}

inline void store_be64(u8 *at, u64 v)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	__builtin_memcpy(at, &v, sizeof(v));
}

/** A plain RDMA segment: one contiguous memory region of the requester (RFC 8166 3.4.3). */
struct Segment {
	Rkey handle;
	u32 length = 0; /* bytes; zero makes it an "empty segment" */
	u64 offset = 0; /* virtual address or zero-based offset, as the memory was registered */
};

/** A plain segment and the Position of the Read chunk that it belongs to (RFC 8166 3.4.5). */
struct ReadSegment {
	Position position;
	Segment target;
};

[[nodiscard]] constexpr bool operator==(const Segment &a, const Segment &b)
{
	return a.handle == b.handle && a.length == b.length && a.offset == b.offset;
}

[[nodiscard]] constexpr bool operator==(const ReadSegment &a, const ReadSegment &b)
{
	return a.position == b.position && a.target == b.target;
}

/** Wire sizes: HLOO and PHLOO of RFC 8166 4.7. */
constexpr u32 segment_size = 16;
constexpr u32 read_segment_size = 20;

/** Unchecked: @at has segment_size bytes. */
[[nodiscard]] inline Segment load_segment(const u8 *at)
{
	return {Rkey(load_be32(at)), load_be32(at + 4), load_be64(at + 8)};
}

/** Unchecked: @at has segment_size bytes. */
inline void store_segment(u8 *at, const Segment &segment)
{
	store_be32(at, segment.handle.get());
	store_be32(at + 4, segment.length);
	store_be64(at + 8, segment.offset);
}

/** Reads words off the front of a byte span. Nothing it does reads outside the span. */
class Reader {
public:
	explicit constexpr Reader(Bytes bytes) : at_(bytes.data()), left_(bytes.size())
	{
	}
	/** Bytes not yet read. */
	[[nodiscard]] constexpr usize left() const
	{
		return left_;
	}
	[[nodiscard]] constexpr const u8 *at() const
	{
		return at_;
	}
	/** The next word into @word; false, with nothing changed, when the span ends before. */
	[[nodiscard]] bool word(u32 &word)
	{
		if (left_ < word_size)
			return false;
		word = load_be32(at_);
		advance_(word_size);
		return true;
	}
	/** Step over @bytes; false, with nothing changed, when there are fewer. */
	[[nodiscard]] bool skip(usize bytes)
	{
		if (left_ < bytes)
			return false;
		advance_(bytes);
		return true;
	}

private:
	void advance_(usize bytes)
	{
		at_ += bytes;
		left_ -= bytes;
	}
	const u8 *at_;
	usize left_;
};

/**
 * Appends words to a byte span that the caller owns. The first failure sticks: from then on nothing
 * is written, so that a run of puts needs one check, at its end. Nothing outside the span is touched.
 */
class Writer {
public:
	/** At most the first 2^32 - 1 bytes of @room are used: no message is longer. */
	explicit constexpr Writer(MutableBytes room)
		: at_(room.data()),
		  left_(u32(min<usize>(room.size(), ~u32(0))))
	{
	}
	[[nodiscard]] constexpr Error error() const
	{
		return error_;
	}
	/** Bytes written so far. */
	[[nodiscard]] constexpr u32 length() const
	{
		return length_;
	}
	/** Make @error the outcome, unless something failed before. */
	constexpr void fail(Error error)
	{
		if (error_ == Error::none)
			error_ = error;
	}
	/**
	 * Room for @bytes, all of which the caller now stores; or null, and then ENOSPC (or the
	 * earlier failure) is the outcome.
	 */
	[[nodiscard]] u8 *reserve(u32 bytes)
	{
		if (error_ != Error::none)
			return nullptr;
		if (left_ < bytes) {
			error_ = Error::no_space;
			return nullptr;
		}
		u8 *at = at_;
		at_ += bytes;
		left_ -= bytes;
		length_ += bytes;
		return at;
	}
	void word(u32 value)
	{
		if (u8 *at = reserve(word_size))
			store_be32(at, value);
	}

private:
	u8 *at_;
	u32 left_;
	u32 length_ = 0;
	Error error_ = Error::none;
};

/** RDMA_ERROR, whose value is fixed for all versions (RFC 8166 4.1.2). */
constexpr u32 proc_error = 4;
/** ERR_VERS, whose value and body are fixed for all versions (RFC 8166 4.1.2). */
constexpr u32 error_code_vers = 1;

/** The words whose place and meaning no version may change (RFC 8166 4.2); nothing in them is checked. */
struct FixedHeader {
	Xid xid;
	u32 vers = 0;
	Credits credits;
	u32 proc = 0;
};
constexpr u32 fixed_header_size = 16;

/**
 * Read the four fixed words of a message of any version: to choose a codec by version, or to learn
 * what an RDMA_ERROR has to echo.
 *
 * @message  the received message, from the first byte of rdma_xid
 *
 * Errors: EMSGSIZE, under 16 bytes, of which nothing is to be believed: drop it.
 */
[[nodiscard]] inline Result<FixedHeader> peek(Bytes message)
{
	if (message.size() < fixed_header_size)
		return Error::message_size;
	const u8 *at = message.data();
	return FixedHeader{Xid(load_be32(at)), load_be32(at + 4), Credits(load_be32(at + 8)),
			   load_be32(at + 12)};
}

/**
 * Write the four fixed words, as every codec's messages begin.
 *
 * @at  where to: room for fixed_header_size bytes
 */
inline void store_fixed(u8 *at, const FixedHeader &fixed)
{
	store_be32(at, fixed.xid.get());
	store_be32(at + 4, fixed.vers);
	store_be32(at + 8, fixed.credits.get());
	store_be32(at + 12, fixed.proc);
}

} // namespace rpcordma::xdr
