// SPDX-License-Identifier: GPL-2.0-only
/* Messages of version 1 as a peer makes them, with chunks that point to its memory (PortPeer). */
#pragma once

#include "kunit/test_rdma_port.hh"
#include "kunit/test_xdr_reference.hh"
#include "xdr/v1.hh"

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

/** Byte @i of what goes inline; of the client's memory there is PortPeer::memory. */
[[nodiscard]] constexpr u8 pattern(u32 i)
{
	return u8(i * 13 + 5);
}

/** As that, of a call from its third word on: with no credential and no verifier. */
[[nodiscard]] constexpr u8 call_pattern(u32 i)
{
	return i >= 24 && i < 40 ? 0 : pattern(i);
}

/** A forward call, or whatever else a client may send. */
struct CallMaker {
	static constexpr u32 kRoom = 8192;
	u8 *bytes; /* a kernel's stack is small */
	u32 length = 0;
	u32 header = 0;
	u32 xid;
	v1::Encoder encoder;

	explicit CallMaker(u32 number, u32 credits = 64, xdr::Kind proc = xdr::Kind::msg)
		: bytes(static_cast<u8 *>(rpcordma_test_alloc(kRoom))),
		  xid(number),
		  encoder({bytes, kRoom}, Xid(number), Credits(credits), proc)
	{
	}
	~CallMaker()
	{
		rpcordma_test_free(bytes, kRoom);
	}
	CallMaker(const CallMaker &) = delete;
	CallMaker &operator=(const CallMaker &) = delete;

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

} // namespace rpcordma
