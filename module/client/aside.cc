// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages that no task sends: what refuses a backward call, and what is about the connection. They go out of
 * backward calls' send buffers, past the sender, from completions too.
 */

#include "module/client/aside.hh"
#include "xdr/rtrext.hh"

using namespace rpcordma;
using trace::Failure;

/*
 * A backward message has no chunk, so that call_buffer holds the received call and reply_buffer the reply
 * that the service writes. False: no memory. Process context.
 */
bool rpcordma_client::make_backward_call()
{
	Call *call = create_call(true);

	if (!call)
		return false;
	/* The service writes its reply into the other, and takes a page for granted. */
	if (!call->call_buffer.create(max(rpcordma_tunables.max_inline_read, 4096u),
				      RPCORDMA_ALLOC_NOIO) ||
	    !call->reply_buffer.create(rpcordma_page_size(), RPCORDMA_ALLOC_NOIO) ||
	    !ensure_send_buffer(call, RPCORDMA_ALLOC_NOIO)) {
		destroy_call(call);
		return false;
	}
	SpinGuard guard(lock);
	backward_free.push_back(call);
	return true;
}

/* One that is free, with one owner, or null. Any context. */
Call *rpcordma_client::take_backward(u32 xid)
{
	SpinGuard guard(lock);
	Call *call = backward_free.pop_front();

	guard.release();
	if (call) {
		call->xid = xid;
		call->set_state(CallState::serving);
		call->owners.store(1, std::memory_order_relaxed);
	}
	return call;
}

/* @receive has what gets an error for an answer. One answer at a time; more are dropped. Receive completion. */
void rpcordma_client::refuse(Connection &c, const Receive &receive, xdr::ErrorCode code)
{
	const auto request = xdr::peek(receive.bytes());

	tally(stats.bad_reply_count, 1);
	if (!request.ok())
		return;
	const u32 xid = request.value().xid.get();
	if (!send_aside(c, xid, [&](MutableBytes room) {
		    return c.session.encode_refusal(room, request.value(), Credits(kBackwardCredits),
						    c.session.refusal(code));
	    }))
		trace::failure(peer, Failure::backward_refusal_lost, xid, 0);
}

/*
 * Tell the server what is wrong with one of its transmissions, by @report, if it says that it has the extension. Once: it keeps
 * few Receives for what nobody asked for, and the connection mostly ends for it; then the report may not arrive. Receive
 * completion.
 */
void rpcordma_client::report_reply(Connection &c, const rtrext::Report &report)
{
	const u32 xid = report.bad.xid.get();
	/* About a call of the server's it is a reply, with a grant. */
	const Credits credits = report.about().direction == xdr::Direction::call ?
					Credits(kBackwardCredits) :
					c.credits.requested();

	tally(stats.bad_reply_count, 1);
	if (c.has_reported || !c.session.peer_reduction().extensions)
		return;
	c.has_reported = send_aside(c, xid, [&](MutableBytes room) {
		return rtrext::encode(room, credits, report);
	});
	trace::failure(peer, c.has_reported ? Failure::repterr_sent : Failure::backward_refusal_lost,
		       xid, static_cast<int>(report.detail.fault));
}
