// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the Receives of one message come together. A message of one transmission, which is every message of
 * version 1, is whole when it comes. The transmissions of one message come in order, with no other
 * message of that direction between them; what breaks that rule ends the message that was begun.
 */
#pragma once

#include "module/rdma/receive.hh"

namespace rpcordma {

class Assembly {
public:
	struct Outcome {
		/* The first Receive of a message that is whole; the others follow by `next`. Null: wait. */
		Receive *whole = nullptr;
		/* Receives of no use, chained by `next`, which are the caller's again. */
		Receive *useless = nullptr;
	};

	/** @receive, which was decoded, is next in this direction. */
	[[nodiscard]] Outcome add(Receive *receive)
	{
		/* As nearly all are. */
		if (!first_ && receive->message.transmissions == 1 && !receive->message.transmission)
			return {receive, nullptr};
		return collect_(receive);
	}

	/** What was begun will never be whole: its Receives, chained by `next`, or null. */
	[[nodiscard]] Receive *abandon()
	{
		Receive *begun = first_;

		first_ = last_ = nullptr;
		return begun;
	}

private:
	[[nodiscard]] Outcome collect_(Receive *receive)
	{
		const xdr::Message &message = receive->message;
		Outcome outcome;

		if (first_ && (message.transmission != last_->message.transmission + 1 ||
			       message.xid != first_->message.xid ||
			       message.direction != first_->message.direction))
			outcome.useless = abandon();
		if (!first_) {
			if (message.transmission) {
				/* Of a message that was not begun, or was given up. */
				receive->next = outcome.useless;
				outcome.useless = receive;
				return outcome;
			}
			first_ = receive;
		} else {
			last_->next = receive;
		}
		last_ = receive;
		if (u32(message.transmission) + 1 >= first_->message.transmissions)
			outcome.whole = abandon();
		return outcome;
	}

	Receive *first_ = nullptr;
	Receive *last_ = nullptr;
};

} // namespace rpcordma
