// SPDX-License-Identifier: GPL-2.0-only
/* Calls whose chunks broke a connection: module/server/failures.hh. */
#include "kunit/testing.hh"
#include "module/server/failures.hh"

namespace rpcordma {
namespace {

constexpr u64 kAddress = 0x1234, kNow = 1000000;

/** A message of @size bytes that no other number has. */
struct Message {
	u8 bytes[64];

	explicit Message(u32 number)
	{
		for (u32 i = 0; i < sizeof(bytes); i++)
			bytes[i] = u8(i * 7);
		xdr::store_be32(bytes, number);
	}
	operator Bytes() const
	{
		return bytes;
	}
};

} // namespace

RPCORDMA_TEST(server_failures, recall)
{
	Failures failures;
	const Message one(1), two(2);

	EXPECT_FALSE(failures.any(kNow));
	EXPECT_FALSE(failures.any(0));
	EXPECT_FALSE(failures.recall(kAddress, one, kNow));
	failures.remember(kAddress, one, kNow);
	EXPECT_TRUE(failures.any(kNow));
	/* Every copy, not just the first. */
	EXPECT_TRUE(failures.recall(kAddress, one, kNow));
	EXPECT_TRUE(failures.recall(kAddress, one, kNow + 1));
	EXPECT_FALSE(failures.recall(kAddress, two, kNow));
	EXPECT_FALSE(failures.recall(kAddress + 1, one, kNow));
}

/* Each byte counts but those of the credit value; and so does the length. */
RPCORDMA_TEST(server_failures, digest)
{
	Failures failures;
	Message message(1);

	failures.remember(kAddress, message, kNow);
	for (u32 i = 0; i < sizeof(message.bytes); i++) {
		TEST_NOTE("byte", i);
		message.bytes[i] ^= 0x10;
		EXPECT_EQ(failures.recall(kAddress, message, kNow), i >= 8 && i < 12);
		message.bytes[i] ^= 0x10;
	}
	for (u32 length = 0; length <= sizeof(message.bytes); length++) {
		TEST_NOTE("length", length);
		const ExactCopy copy(Bytes(message).first(length));
		EXPECT_EQ(failures.recall(kAddress, copy.bytes(), kNow),
			  length == sizeof(message.bytes));
	}
}

RPCORDMA_TEST(server_failures, expiry)
{
	Failures failures;
	const Message one(1), two(2);
	constexpr u64 end = kNow + Failures::kLifetimeMs;

	failures.remember(kAddress, one, kNow);
	EXPECT_TRUE(failures.recall(kAddress, one, end - 1));
	EXPECT_TRUE(failures.any(end - 1));
	EXPECT_FALSE(failures.recall(kAddress, one, end));
	EXPECT_FALSE(failures.any(end));

	/* The youngest says until when there are any. */
	failures.remember(kAddress, two, kNow + 10);
	EXPECT_TRUE(failures.any(end + 9));
	EXPECT_FALSE(failures.recall(kAddress, one, end + 9));
	EXPECT_TRUE(failures.recall(kAddress, two, end + 9));
	EXPECT_FALSE(failures.any(end + 10));

	/* A failure again is remembered anew. */
	failures.remember(kAddress, one, end);
	EXPECT_TRUE(failures.recall(kAddress, one, end + Failures::kLifetimeMs - 1));
}

/* As many as there is room for; then the oldest makes place, however often it was asked for. */
RPCORDMA_TEST(server_failures, oldest_goes)
{
	Failures failures;

	for (u32 i = 0; i < Failures::kEntries; i++)
		failures.remember(kAddress, Message(i), kNow + i);
	for (u32 i = 0; i < Failures::kEntries; i++) {
		TEST_NOTE("message", i);
		EXPECT_TRUE(failures.recall(kAddress, Message(i), kNow + 100));
	}
	for (u32 more = 0; more < 3; more++) {
		TEST_NOTE("more", more);
		failures.remember(kAddress, Message(1000 + more), kNow + 200 + more);
		EXPECT_TRUE(failures.recall(kAddress, Message(1000 + more), kNow + 300));
		for (u32 i = 0; i < Failures::kEntries; i++)
			EXPECT_EQ(failures.recall(kAddress, Message(i), kNow + 300), i > more);
	}
}

RPCORDMA_SUITE(server_failures, recall, digest, expiry, oldest_goes);

} // namespace rpcordma
