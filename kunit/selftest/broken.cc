// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests that fail on purpose, one for each way in which a test can: proof that the framework and
 * the checkers around it see what they are there for. Built by itself, on the host
 * (kunit/host-self-test) and as a kernel module (scripts/uml-kunit --self-test); never with the
 * real tests.
 *
 * Each case's name says what has to be reported. `sound` is the control: it must pass, or a
 * failure of the others would prove nothing.
 */
#include "kunit/testing.hh"
#include "kunit/selftest/misdeeds.h"

namespace rpcordma {
namespace {

/* Opaque to the optimizer, which would otherwise drop what has no effect. */
template <typename T> T hidden(T v)
{
	asm volatile("" : "+r"(v));
	return v;
}

const u8 four[] = {1, 2, 3, 4};

} // namespace

RPCORDMA_TEST(broken, sound)
{
	ExactCopy copy{Bytes(four)};
	MutableBytes kept = test_copy(Bytes(four));

	EXPECT_EQ(copy[hidden(usize(3))], 4);
	EXPECT_BYTES(copy.bytes(), kept);
	EXPECT_EQ(-1, hidden(-1));
	EXPECT_NE(-1, hidden(~0u));
	EXPECT_LT(-1, hidden(~0u));
	EXPECT_GT(hidden(1u), -1);
	EXPECT_LE(hidden(3), 3);
	EXPECT_GE(hidden(3), 3);
	EXPECT_TRUE(hidden(1) == 1);
	EXPECT_FALSE(hidden(1) == 2);
	EXPECT_OK(Status());
	EXPECT_EQ(test_alloc(0).size(), 0u);
}

/* Each kind of expectation once: the report must count all of them. */
RPCORDMA_TEST(broken, expectations)
{
	const u8 other[] = {1, 2, 9, 4};

	for (u32 n = 41; n < 43; n++) {
		TEST_NOTE("step", n);
		EXPECT_EQ(hidden(n), 41u);
	}
	EXPECT_NE(hidden(1), 1);
	EXPECT_LT(hidden(1), -1);
	EXPECT_LE(hidden(~0u), -1);
	EXPECT_GT(hidden(-1), 1u);
	EXPECT_GE(hidden(-1), 0u);
	EXPECT_TRUE(hidden(0) != 0);
	EXPECT_FALSE(hidden(0) == 0);
	EXPECT_OK(Status(Error::invalid));
	EXPECT_ERROR(Status(), Error::invalid);
	EXPECT_BYTES(Bytes(four), Bytes(other));
	EXPECT_BYTES(Bytes(four), Bytes(four).first(3));
}

RPCORDMA_TEST(broken, assertion)
{
	ASSERT_EQ(hidden(1), 2);
	/* Not reached: the report must count one failure. */
	EXPECT_EQ(hidden(3), 4);
}

RPCORDMA_TEST(broken, skips)
{
	TEST_SKIP("to show that a skip is counted");
}

RPCORDMA_TEST(broken, read_beyond_copy)
{
	ExactCopy copy{Bytes(four)};

	EXPECT_NE(hidden(copy[hidden(usize(4))]), 256);
}

RPCORDMA_TEST(broken, read_beyond_nothing)
{
	ExactCopy copy{Bytes()};

	EXPECT_NE(hidden(copy[hidden(usize(0))]), 256);
}

RPCORDMA_TEST(broken, read_after_free)
{
	u8 *p;
	{
		ExactCopy copy{Bytes(four)};
		p = hidden(copy.bytes().data());
	}
	EXPECT_NE(hidden(*p), 256);
}

RPCORDMA_TEST(broken, leak)
{
	void *p = rpcordma_test_alloc(hidden(usize(640)));

	__builtin_memset(p, 1, 640);
	p = hidden(static_cast<void *>(nullptr));
	EXPECT_EQ(p, nullptr);
}

/* The host's UBSan; in a kernel signed overflow is defined. */
RPCORDMA_TEST(broken, overflow)
{
	int n = hidden(0x7fffffff);

	EXPECT_NE(hidden(n + 1), 0);
}

/* What only a kernel can get wrong: the glue misbehaves in C. */
RPCORDMA_TEST(broken, sleep_in_atomic)
{
	if (!rpcordma_misdeed_sleep_in_atomic())
		TEST_SKIP("needs a kernel");
}

RPCORDMA_TEST(broken, lock_order)
{
	if (!rpcordma_misdeed_lock_order())
		TEST_SKIP("needs a kernel");
}

RPCORDMA_TEST(broken, warning)
{
	if (!rpcordma_misdeed_warning())
		TEST_SKIP("needs a kernel");
}

RPCORDMA_TEST(broken, oops)
{
	if (!rpcordma_misdeed_oops())
		TEST_SKIP("needs a kernel");
}

RPCORDMA_SUITE(broken, sound, expectations, assertion, skips, read_beyond_copy, read_beyond_nothing,
	       read_after_free, leak, overflow, sleep_in_atomic, lock_order, warning, oops);

} // namespace rpcordma
