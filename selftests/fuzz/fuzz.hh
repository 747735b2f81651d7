// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a fuzz target includes. A target is one test case, run once for each input, in the vocabulary of the
 * unit tests and with their doubles of the port; an expectation that does not hold ends the program, as a
 * sanitizer's report does, and leaves the input in a file.
 *
 *	FUZZ_TARGET()
 *	{
 *		Input in;
 *		const u32 limit = in.below(4096);
 *		const ExactCopy message(in.rest());
 *		EXPECT_...
 *	}
 */
#pragma once

#include "kunit/testing.hh"
#include "xdr/v1.hh"

namespace rpcordma {

/** The bytes of the running input, taken from the front; when they are used up, zeros. */
class Input {
public:
	/** All of the input. */
	Input();
	[[nodiscard]] bool empty() const
	{
		return left_.empty();
	}
	[[nodiscard]] u8 byte()
	{
		const u8 value = left_.empty() ? 0 : left_[0];

		left_ = left_.from(1);
		return value;
	}
	[[nodiscard]] u32 half()
	{
		const u32 high = byte();

		return high << 8 | byte();
	}
	[[nodiscard]] u32 word()
	{
		const u32 high = half();

		return high << 16 | half();
	}
	/** Less than @limit, which is at most 65536; 0 of 0. */
	[[nodiscard]] u32 below(u32 limit)
	{
		const u32 value = half();

		return limit ? value % limit : 0;
	}
	/** Up to @n bytes. */
	[[nodiscard]] Bytes take(usize n)
	{
		const Bytes taken = left_.first(n);

		left_ = left_.from(n);
		return taken;
	}
	[[nodiscard]] Bytes rest()
	{
		return take(left_.size());
	}

private:
	Bytes left_;
};

/** The version 1 message in @bytes, which it points into. */
[[nodiscard]] inline Result<xdr::Message> decoded(Bytes bytes)
{
	xdr::Message message;
	const Error error = v1::decode(bytes, message);

	if (error != Error::none)
		return error;
	return message;
}

} // namespace rpcordma

/** Define the target; once in a file. */
#define FUZZ_TARGET()                         \
	namespace rpcordma {                  \
	static void rpcordma_test_fuzz_one(); \
	RPCORDMA_SUITE(fuzz, one);            \
	}                                     \
	static void rpcordma::rpcordma_test_fuzz_one()
