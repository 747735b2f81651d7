// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdr/private_data.hh, on arbitrary private data: the first place where RFC 8797 4's eight bytes stand is
 * found, wherever it is, and no other, and the mark right behind them; and what we say comes back as it was said.
 */
#include "fuzz.hh"
#include "xdr/private_data.hh"

namespace rpcordma {
namespace {

using namespace private_data;

void expect_found(Bytes bytes)
{
	const auto found = parse(bytes);

	for (usize at = 0; at + 8 <= bytes.size(); at++) {
		static constexpr u8 start[] = {0xf6, 0xab, 0x0e, 0x18, 1};
		bool here = true;

		for (usize i = 0; i < sizeof(start); i++)
			here = here && bytes[at + i] == start[i];
		if (!here)
			continue;
		ASSERT_OK(found);
		EXPECT_EQ(found.value().remote_invalidation, bool(bytes[at + 5] & 1));
		EXPECT_EQ(found.value().send_size, (bytes[at + 6] + 1) * 1024);
		EXPECT_EQ(found.value().receive_size, (bytes[at + 7] + 1) * 1024);
		static constexpr u8 mark[] = {0x72, 0x32, 0x64, 0x33, 1, 0, 0, 0};
		bool marked = at + 16 <= bytes.size();

		for (usize i = 0; marked && i < sizeof(mark); i++)
			marked = bytes[at + 8 + i] == mark[i];
		EXPECT_EQ(found.value().mark, marked);
		return;
	}
	EXPECT_ERROR(found, Error::no_protocol);
}

/* Never more than was meant, nor less by a whole unit, within what the fields can tell. */
void expect_told(u32 meant, u32 told)
{
	const u32 possible = min(max(meant, 1024u), 256 * 1024u);

	EXPECT_LE(told, possible);
	EXPECT_LT(possible - told, 1024);
	EXPECT_EQ(told % 1024, 0);
}

} // namespace
} // namespace rpcordma

FUZZ_TARGET()
{
	Input in;
	const u32 send_size = in.word(), receive_size = in.word(), flags = in.byte();
	const Properties said = {send_size, receive_size, bool(flags & 1), bool(flags & 2)};
	MutableBytes room = test_alloc(in.byte() % 20);
	const auto length = encode(room, said);

	if (room.size() < (said.mark ? 16 : 8)) {
		EXPECT_ERROR(length, Error::no_space);
	} else {
		ASSERT_OK(length);
		const ExactCopy message(Bytes(room.first(length.value())));
		expect_found(message.bytes());
		const Properties heard = parse(message.bytes()).value();
		EXPECT_EQ(heard.remote_invalidation, said.remote_invalidation);
		EXPECT_EQ(heard.mark, said.mark);
		expect_told(said.send_size, heard.send_size);
		expect_told(said.receive_size, heard.receive_size);
	}
	const ExactCopy received(in.take(256));
	expect_found(received.bytes());
}
