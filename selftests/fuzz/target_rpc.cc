// SPDX-License-Identifier: GPL-2.0-only
/* xdr/rpc.hh, on arbitrary payloads, against a walk by the words of RFC 5531 9. */
#include "fuzz.hh"
#include "kunit/test_xdr_reference.hh"
#include "xdr/rpc.hh"

namespace rpcordma {
namespace {

/* What a call's preface is, word by word; 0 when it is not there. */
u32 preface(Bytes payload)
{
	u32 word = 6; /* xid, CALL, RPC version, program, version, procedure */

	for (u32 opaque = 0; opaque < 2; opaque++) {
		if ((u64(word) + 2) * 4 > payload.size())
			return 0;
		const u32 length = xdr_reference::word_at(payload, word + 1);
		if (length > 400)
			return 0;
		word += 2;
		for (u32 i = 0; i < length; i += 4)
			word++;
	}
	return word * 4 <= payload.size() ? word * 4 : 0;
}

} // namespace
} // namespace rpcordma

FUZZ_TARGET()
{
	Input in;
	const ExactCopy copy(in.take(1024));
	const Bytes payload = copy.bytes();
	const auto peek = rpc::peek(payload);
	const auto length = rpc::call_preface(payload);

	if (payload.size() < 8) {
		EXPECT_ERROR(peek, Error::message_size);
	} else if (xdr_reference::word_at(payload, 1) > 1) {
		EXPECT_ERROR(peek, Error::protocol);
	} else {
		ASSERT_OK(peek);
		EXPECT_EQ(peek.value().xid, Xid(xdr_reference::word_at(payload, 0)));
		EXPECT_EQ(u32(peek.value().type), xdr_reference::word_at(payload, 1));
	}
	if (const u32 expected = preface(payload)) {
		ASSERT_OK(length);
		EXPECT_EQ(length.value(), expected);
	} else {
		EXPECT_ERROR(length, Error::message_size);
	}
}
