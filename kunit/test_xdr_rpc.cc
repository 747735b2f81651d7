// SPDX-License-Identifier: GPL-2.0-only
/*
 * The look at an RPC message's first words. What a transport concludes from them is tested with
 * v1::direction() in test_xdr_v1.cc.
 */
#include "kunit/testing.hh"
#include "xdr/rpc.hh"

namespace rpcordma {

RPCORDMA_TEST(xdr_rpc, call_and_reply)
{
	u8 bytes[] = {0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, 0, 0, 0, 2};

	for (u8 type : {0, 1}) {
		bytes[7] = type;
		for (usize n = 8; n <= sizeof(bytes); n++) {
			ExactCopy payload(Bytes(bytes, n));
			auto peek = rpc::peek(payload.bytes());
			ASSERT_OK(peek);
			EXPECT_EQ(peek.value().xid.get(), 0x12345678);
			EXPECT_EQ(u32(peek.value().type), u32(type));
		}
	}
}

RPCORDMA_TEST(xdr_rpc, too_short)
{
	const u8 bytes[8] = {};

	for (usize n = 0; n < 8; n++) {
		TEST_NOTE("length", n);
		ExactCopy payload(Bytes(bytes, n));
		EXPECT_ERROR(rpc::peek(payload.bytes()), Error::message_size);
	}
	EXPECT_ERROR(rpc::peek(Bytes{}), Error::message_size);
}

/* Each bit of msg_type but the last makes it something else. */
RPCORDMA_TEST(xdr_rpc, other_types)
{
	for (u32 bit = 1; bit < 32; bit++) {
		for (u8 low : {0, 1}) {
			TEST_NOTE("bit", bit);
			u8 bytes[8] = {1, 2, 3, 4, 0, 0, 0, low};
			bytes[7 - bit / 8] |= u8(1u << bit % 8);
			ExactCopy payload((Bytes(bytes)));
			EXPECT_ERROR(rpc::peek(payload.bytes()), Error::protocol);
		}
	}
}

/* --- what precedes a call's arguments --- */

namespace {

/* A Call whose credential and verifier say that they have so many bytes. */
struct Preface {
	u8 bytes[1024] = {};

	Preface(u32 credential, u32 verifier)
	{
		/* Whatever is not a length says nothing. */
		for (u8 &byte : bytes)
			byte = 0xee;
		xdr::store_be32(bytes + 28, credential);
		if (credential <= 400)
			xdr::store_be32(bytes + 36 + credential + xdr_pad(credential), verifier);
	}
};

} // namespace

/* Its length, pads included; and EMSGSIZE wherever it is cut off. */
RPCORDMA_TEST(xdr_rpc, preface)
{
	static constexpr struct {
		u32 credential = 0, verifier = 0, length;
	} prefaces[] = {
		{.length = 40},
		{.credential = 1, .length = 44},
		{.credential = 4, .length = 44},
		{.verifier = 3, .length = 44},
		{.credential = 32, .length = 72},
		{.credential = 24, .verifier = 16, .length = 80},
		{.credential = 5, .verifier = 6, .length = 56},
		{.credential = 400, .length = 440},
		{.credential = 399, .length = 440},
		{.verifier = 400, .length = 440},
		{.verifier = 397, .length = 440},
		{.credential = 400, .verifier = 400, .length = 840},
	};

	for (const auto &p : prefaces) {
		TEST_NOTE("credential", p.credential);
		TEST_NOTE("verifier", p.verifier);
		const Preface call(p.credential, p.verifier);

		for (u32 n = 0; n < p.length; n++) {
			TEST_NOTE("cut off at", n);
			const ExactCopy payload(Bytes(call.bytes, n));
			EXPECT_ERROR(rpc::call_preface(payload.bytes()), Error::message_size);
		}
		for (const u32 more : {0u, 1u, 100u}) {
			TEST_NOTE("arguments", more);
			const ExactCopy payload(Bytes(call.bytes, p.length + more));
			const auto preface = rpc::call_preface(payload.bytes());
			ASSERT_OK(preface);
			EXPECT_EQ(preface.value(), p.length);
		}
	}
	EXPECT_ERROR(rpc::call_preface(Bytes{}), Error::message_size);
	EXPECT_ERROR(rpc::least_call_head(Bytes{}), Error::message_size);
	EXPECT_EQ(rpc::least_call_length, 40);
}

/* With RPCSEC_GSS a word of the arguments, too. */
RPCORDMA_TEST(xdr_rpc, head)
{
	for (const u32 flavor : {0u, 1u, 5u, 6u, 7u, 390003u, ~0u}) {
		TEST_NOTE("flavor", flavor);
		Preface call(24, 8);

		xdr::store_be32(call.bytes + 24, flavor);
		const auto head = rpc::least_call_head(call.bytes);
		ASSERT_OK(head);
		EXPECT_EQ(head.value(), flavor == 6 ? 76 : 72);
	}
}

/* Longer than RFC 5531 8.2 allows, up to where sums overflow. */
RPCORDMA_TEST(xdr_rpc, preface_too_long)
{
	for (const u32 length : {401u, 404u, 500u, 1u << 31, ~3u - 40, ~3u, ~0u}) {
		TEST_NOTE("length", length);
		const Preface credential(length, 0), verifier(0, length);

		EXPECT_ERROR(rpc::call_preface(credential.bytes), Error::message_size);
		EXPECT_ERROR(rpc::call_preface(verifier.bytes), Error::message_size);
	}
}

RPCORDMA_SUITE(xdr_rpc, call_and_reply, too_short, other_types, preface, head, preface_too_long);

} // namespace rpcordma
