// SPDX-License-Identifier: GPL-2.0-only
/* Messages as a peer makes them, with chunks that point to its memory (PortPeer). */
#pragma once

#include "kunit/test_rdma_port.hh"
#include "kunit/test_xdr_reference.hh"
#include "xdr/v1.hh"
#include "xdr/v2.hh"

namespace rpcordma {

/** A transport header as the tests see it, and @message's; that must be one. */
using DecodedHeader = xdr::Message;

[[nodiscard]] inline DecodedHeader decoded(Bytes message)
{
	const Result<DecodedHeader> header = xdr_reference::decode(message);

	EXPECT_OK(header);
	return header.ok() ? header.value() : DecodedHeader();
}

/** What a message of RPC begins with, after its xid. */
enum MessageType : u32 { kCallMessage, kReplyMessage, kNeither };

/** Byte @i of what goes inline; of the client's memory there is PortPeer::memory. No two pages are equal. */
[[nodiscard]] constexpr u8 pattern(u32 i)
{
	return u8(i * 13 + i / 256 + 5);
}

/** As that, of a call from its third word on: with no credential and no verifier. */
[[nodiscard]] constexpr u8 call_pattern(u32 i)
{
	return i >= 24 && i < 40 ? 0 : pattern(i);
}

/** A forward call, or whatever else a client may send, whose header @Encoder makes. */
template <typename Encoder> struct MessageMaker {
	static constexpr u32 kRoom = 8192;
	u8 *bytes; /* a kernel's stack is small */
	u32 length = 0;
	u32 header = 0;
	u32 xid;
	Encoder encoder;

	template <typename... More>
	MessageMaker(u32 number, u32 credits, xdr::Kind proc, More... more)
		: bytes(static_cast<u8 *>(rpcordma_test_alloc(kRoom))),
		  xid(number),
		  encoder({bytes, kRoom}, Xid(number), Credits(credits), proc, more...)
	{
	}
	~MessageMaker()
	{
		rpcordma_test_free(bytes, kRoom);
	}
	MessageMaker(const MessageMaker &) = delete;
	MessageMaker &operator=(const MessageMaker &) = delete;

	[[nodiscard]] static xdr::Segment segment(u32 size, u32 offset = 0)
	{
		return {Rkey(PortPeer::kKey), size, PortPeer::kAddress + offset};
	}
	void read(u32 position, u32 size, u32 offset = 0)
	{
		encoder.read_segment(Position(position), segment(size, offset));
	}
	void write(u32 size, u32 offset = 0)
	{
		const xdr::Segment segments[] = {segment(size, offset)};
		encoder.write_chunk(segments);
	}
	void reply(u32 size, u32 offset = 0)
	{
		const xdr::Segment segments[] = {segment(size, offset)};
		encoder.reply_chunk(segments);
	}
	/** The header ends, and @size bytes of RPC message follow: a Call, or a Reply. */
	void finish(u32 size, MessageType type = kCallMessage)
	{
		const auto end = encoder.finish();

		ASSERT_OK(end);
		header = end.value();
		length = header + size;
		ASSERT_LE(length, kRoom);
		for (u32 i = 0; i < size; i++)
			bytes[header + i] = pattern(i);
		if (size >= 8) {
			xdr::store_be32(bytes + header, xid);
			xdr::store_be32(bytes + header + 4, type);
		}
		if (size >= 40 && type == kCallMessage)
			credential(0);
	}
	/** The call's credential has @length bytes, of which some may not be there; the verifier, none. */
	void credential(u32 length_of_it, u32 verifier = 0)
	{
		const u32 words[] = {0, length_of_it};
		const u32 more[] = {0, verifier};

		put(24, words);
		put(32 + length_of_it + xdr_pad(length_of_it), more);
	}
	void put(u32 at, Span<const u32> words)
	{
		for (const u32 word : words) {
			if (header + at + 4 <= length)
				xdr::store_be32(bytes + header + at, word);
			at += 4;
		}
	}
	[[nodiscard]] Bytes message() const
	{
		return {bytes, length};
	}
};

/** Of version 1. */
struct CallMaker : MessageMaker<v1::Encoder> {
	explicit CallMaker(u32 number, u32 credits = 64, xdr::Kind proc = xdr::Kind::msg)
		: MessageMaker(number, credits, proc)
	{
	}
};

/** Of version 2: which way it goes, and what its reply is to invalidate. */
struct Call2Maker : MessageMaker<v2::Encoder> {
	explicit Call2Maker(u32 number, u32 credits = 64, xdr::Kind proc = xdr::Kind::msg,
			    xdr::Direction direction = xdr::Direction::call, u32 invalidate = 0)
		: MessageMaker(number, credits, proc, direction, Rkey(invalidate))
	{
	}
};

/** As that, a reply. */
struct Reply2Maker : Call2Maker {
	explicit Reply2Maker(u32 number, u32 credits = 32, xdr::Kind proc = xdr::Kind::msg)
		: Call2Maker(number, credits, proc, xdr::Direction::reply)
	{
	}
};

/** A message of version 2 as the tests see it; it must be one. */
[[nodiscard]] inline xdr::Message decoded2(Bytes bytes)
{
	xdr::Message message;

	EXPECT_EQ(v2::decode(bytes, message), Error::none);
	return message;
}

/** Words as they go over the wire: in a message that a case writes out, and in one that it compares. */
struct RawMessage {
	static constexpr u32 kMost = 64;
	u8 bytes[4 * kMost];
	u32 length = 0;

	RawMessage(Span<const u32> words)
	{
		EXPECT_LE(words.size(), usize(kMost));
		for (const u32 word : words) {
			xdr::store_be32(bytes + length, word);
			length += 4;
		}
	}
	[[nodiscard]] Bytes message() const
	{
		return {bytes, length};
	}
};

/** @message is these words. */
inline void expect_words(Bytes message, Span<const u32> words)
{
	const RawMessage raw(words);

	EXPECT_BYTES(message, raw.message());
}

/**
 * Have @what done, once, by somebody else: while a completion looks at a message, or while a thread waits. It lives
 * until then.
 */
template <typename What> void have_done_meanwhile(What &what)
{
	the_port->sync.what = &what;
	the_port->sync.meanwhile = [] { (*static_cast<What *>(the_port->sync.what))(); };
}

} // namespace rpcordma
