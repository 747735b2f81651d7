// SPDX-License-Identifier: GPL-2.0-only
/*
 * The backward direction (RFC 8167): calls to the client over its own connection, and their replies. A backward
 * call goes out with a ServerCall that has no Receive, and that lives until its Send completes. Who waits for
 * the reply, and for how long, is sunrpc's business.
 */
#pragma once

#include "module/base/result.hh"
#include "module/base/types.hh"
#include "module/server/call.hh"

namespace rpcordma {

/** Most backward calls outstanding (RFC 8167 4.1): a client's session slots. */
static constexpr u32 kServerBackwardCalls = 16;

/** Backward calls that wait for a reply. Whoever has one guards it with a lock. */
class Backward {
public:
	[[nodiscard]] u32 outstanding() const
	{
		return outstanding_;
	}
	/** As many as there are with one more. */
	[[nodiscard]] u32 with_one_more() const
	{
		return min(outstanding_ + 1, kServerBackwardCalls);
	}
	void begin()
	{
		outstanding_ = with_one_more();
	}
	/** A reply came, or the call was not sent. There may be more replies than there were calls. */
	void end()
	{
		outstanding_ -= outstanding_ > 0;
	}

private:
	u32 outstanding_ = 0;
};

/** @receives, chained by `next`, have a reply in the backward direction. Receive completion. */
void take_backward_reply(Server &server, const Receive &receive);
/**
 * Send the backward call in @message. Errors: ENOTCONN, the connection is gone; EMSGSIZE, it is larger than the
 * client's receive buffer; ENOBUFS, call again after a delay. Process context.
 */
[[nodiscard]] Status send_backward(Server &server, u32 xid, const rpcordma_xdr_buf *message);
/** The largest backward call and reply, bytes; of no connection, or before it is known, a lower bound. */
[[nodiscard]] u32 backward_payload(const Server *server);

} // namespace rpcordma
