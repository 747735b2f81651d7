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

RPCORDMA_SUITE(xdr_rpc, call_and_reply, too_short, other_types);

} // namespace rpcordma
