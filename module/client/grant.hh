// SPDX-License-Identifier: GPL-2.0-only
/* Taking up what the peer grants. */
#pragma once

#include "module/client/client.hh"

namespace rpcordma {

/** The peer granted @granted credits. Receive completion. */
inline void accept_grant(Client &client, Connection &c, Credits granted)
{
	const protocol::Rules &rules = c.session.rules();
	const u32 before = c.credits.in_force();
	const u32 others = (client.backchannel ? 2 * kBackwardCredits : 0) + rules.extra_receives;
	u32 wanted = c.credits.accept(granted);

	if (!granted.get()) {
		tally(client.stats.bad_reply_count, 1);
		trace::failure(client.peer, trace::Failure::grant_zero, 0, 0);
	}
	/* C4: first the Receives, then the credits; as many credits as there are Receives for. */
	if (wanted * rules.transmissions + others > c.receive_queue.provided()) {
		const u32 provided = c.receive_queue.provide(wanted * rules.transmissions + others);
		const u32 backed = provided > others ? (provided - others) / rules.transmissions : 0;
		wanted = max(min(wanted, backed), min(wanted, before));
	}
	if (wanted == before)
		return;
	c.credits.put_in_force(wanted);
	trace::credits(client.peer, before, wanted);
	rpcordma_xprt_set_credits(client.xprt, wanted);
}

} // namespace rpcordma
