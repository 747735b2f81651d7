// SPDX-License-Identifier: GPL-2.0-only
/*
 * A request that waits for its reply, pinned: its task and its buffers stay until it is completed or the pin is
 * dropped. A pin is moved, never copied.
 */
#pragma once

#include "compat/port/port.h"

namespace rpcordma {

class Pin {
public:
	Pin() = default;
	/** Nobody waits for @xid: empty. Any context. */
	[[nodiscard]] static Pin find(rpc_xprt *xprt, rpcordma_u32 xid)
	{
		return Pin(rpcordma_rqst_find_pin(xprt, xid));
	}
	Pin(Pin &&other) noexcept : rqst_(other.let_go_())
	{
	}
	Pin &operator=(Pin &&other) noexcept
	{
		drop();
		rqst_ = other.let_go_();
		return *this;
	}
	Pin(const Pin &) = delete;
	Pin &operator=(const Pin &) = delete;
	~Pin()
	{
		drop();
	}
	[[nodiscard]] explicit operator bool() const
	{
		return rqst_ != nullptr;
	}
	/** Not empty. */
	[[nodiscard]] rpcordma_call *call() const
	{
		return rpcordma_rqst_call(rqst_);
	}
	/** Give the reply to sunrpc; empty afterwards, and the request may be gone. As rpcordma_rqst_complete(). */
	void complete(int result)
	{
		rpcordma_rqst_complete(let_go_(), result);
	}
	/** Unpin, if it is not empty. */
	void drop()
	{
		if (rqst_)
			rpcordma_rqst_unpin(let_go_());
	}

private:
	explicit Pin(rpc_rqst *rqst) : rqst_(rqst)
	{
	}
	rpc_rqst *let_go_()
	{
		rpc_rqst *rqst = rqst_;

		rqst_ = nullptr;
		return rqst;
	}
	rpc_rqst *rqst_ = nullptr;
};

} // namespace rpcordma
