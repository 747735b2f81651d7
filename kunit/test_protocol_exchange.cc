// SPDX-License-Identifier: GPL-2.0-only
/* module/protocol/exchange: one question, and one message that nobody answers. No port is needed. */
#include "kunit/testing.hh"
#include "module/protocol/exchange.hh"

namespace rpcordma {

using protocol::Exchange;
using protocol::Turn;

/* One question at a time, as often as there is an answer. */
RPCORDMA_TEST(protocol_exchange, questions)
{
	Exchange exchange;

	for (u32 i = 0; i < 3; i++) {
		TEST_NOTE("question", i);
		EXPECT_TRUE(exchange.may_ask());
		exchange.ask();
		EXPECT_FALSE(exchange.may_ask());
		EXPECT_TRUE(exchange.may_tell());
		exchange.answered();
	}
	EXPECT_TRUE(exchange.may_ask());
}

/* Only the answer to an RPC that was sent later proves it, where numbers wrap around too. */
RPCORDMA_TEST(protocol_exchange, proof)
{
	for (u32 last : {0u, 1u, 0x7fffffffu, 0xfffffffeu, 0xffffffffu}) {
		Exchange exchange;

		TEST_NOTE("last", last);
		EXPECT_TRUE(exchange.may_tell());
		exchange.tell(Turn(last));
		EXPECT_FALSE(exchange.may_tell());
		EXPECT_TRUE(exchange.may_ask());
		exchange.proved(Turn(last - 1));
		EXPECT_FALSE(exchange.may_tell());
		exchange.proved(Turn(last));
		EXPECT_FALSE(exchange.may_tell());
		exchange.answered();
		EXPECT_FALSE(exchange.may_tell());
		exchange.proved(Turn(last + 1));
		EXPECT_TRUE(exchange.may_tell());
		exchange.tell(Turn(last + 2));
		exchange.proved(Turn(last + 9));
		EXPECT_TRUE(exchange.may_tell());
	}
}

RPCORDMA_SUITE(protocol_exchange, questions, proof);

} // namespace rpcordma
