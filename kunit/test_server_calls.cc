// SPDX-License-Identifier: GPL-2.0-only
/* What test_server_calls.hh declares. No tests here. */
#include "kunit/test_server_calls.hh"

namespace rpcordma {

void expect_write(const Served &c, u32 size, u32 offset)
{
	const u32 padded = size + xdr_pad(size);

	EXPECT_EQ(c.rqst->arg.head_length, 40);
	EXPECT_EQ(c.rqst->arg.page_length, padded);
	EXPECT_EQ(c.rqst->arg.tail_length, 20);
	for (u32 i = 8; i < 40; i++)
		ASSERT_EQ(c.call_byte(i), call_pattern(i));
	for (u32 i = 0; i < size; i++)
		ASSERT_EQ(c.call_byte(40 + i), c.peer.memory[offset + i]);
	/* The pad, which nobody sent, tells nothing of whose the page was. */
	for (u32 i = size; i < padded; i++)
		ASSERT_EQ(c.call_byte(40 + i), 0);
	for (u32 i = 40; i < 60; i++)
		ASSERT_EQ(c.call_byte(padded + i), pattern(i));
}

void have_call(Connected &c, u32 write, u32 reply, bool ddp)
{
	CallMaker call(1);

	if (write)
		call.write(write, kWrite);
	if (reply)
		call.reply(reply, kReply);
	call.finish(40);
	ASSERT_TRUE(c.send(call));
	ASSERT_EQ(c.receive(), 40);
	c.rqst->ddp_allowed = ddp;
}

void expect_written(u32 at, u32 first, u32 length)
{
	for (u32 i = 0; i < length; i++) {
		TEST_NOTE("byte", i);
		ASSERT_EQ(the_port->peer.memory[at + i], pattern(first + i));
	}
}

void expect_promise(const Served &c)
{
	EXPECT_GE(c.verbs.posted, c.granted() + c.backward_backed());
	EXPECT_EQ(c.verbs.posted, c.posted());
}

} // namespace rpcordma
