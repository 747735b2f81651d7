// SPDX-License-Identifier: GPL-2.0-only
/* Making, posting and replacing Receives. See receives.hh. */

#include "module/server/receives.hh"

#include "module/server/server.hh"

namespace rpcordma {

/* Have @bare, which is nobody's, get its pages, and be spare. False: no memory, and it is as it was. */
[[nodiscard]] static bool complete_receive(Server &server, Receive *bare, rpcordma_alloc_how how)
{
	const bool made = server.receive_maker.add_pages(bare, how);
	SpinGuard guard(server.lock);

	made ? server.receives.put_spare(bare) : server.receives.put_bare(bare);
	return made;
}

bool provide_receives(Server &server, u32 receives, rpcordma_alloc_how how)
{
	for (;;) {
		Receive *chain = nullptr, *bare = nullptr;
		u32 count = 0;

		{
			SpinGuard guard(server.lock);
			Receives &have = server.receives;
			bool make = false;

			receives = min(receives, have.limit());
			while (have.posted() < receives &&
			       !server.closing.load(std::memory_order_relaxed)) {
				Receive *receive = have.take_spare();

				if (!receive) {
					bare = have.take_bare();
					/* As many may be in service as are posted, and as many being sent. */
					make = !bare &&
					       have.begin_making(kCallsPerReceive * receives);
					break;
				}
				receive->wr.next = chain ? &chain->wr : nullptr;
				chain = receive;
				count++;
			}
			if (chain)
				post_receives_locked(server, chain, count);
			if (!make && !bare)
				return have.posted() >= receives;
		}
		if (bare) {
			if (!complete_receive(server, bare, how))
				return false;
			continue;
		}
		auto call = create_call(server, how);
		Receive *made = call ? server.receive_maker.create(how) : nullptr;
		SpinGuard guard(server.lock);

		if (!made) {
			server.receives.give_up_making();
			return false;
		}
		server.receive_maker.own(made);
		put_done_locked(server, made);
		server.calls.own(call.let_go());
	}
}

void replenish(Server &server)
{
	u32 wanted, granted, target;
	{
		SpinGuard guard(server.lock);

		wanted = server.receives.credits().wanted();
		granted = server.receives.credits().granted();
		target = promised_locked(server) + kServerBatch;
	}
	if (!provide_receives(server, target, RPCORDMA_ALLOC_ATOMIC)) {
		/* Nothing is posted any more, and nobody misses it. */
		if (server.closing.load(std::memory_order_relaxed))
			return;
		rpcordma_server_count(RPCORDMA_SERVER_DEBT, 1);
		trace::failure(server.peer, trace::Failure::receives_missing, 0, int(target));
		server.grant.note_debt();
	}
	if (wanted <= granted) {
		begin_growth(server);
		return;
	}
	const bool backed =
		provide_receives(server, wanted - granted + target, RPCORDMA_ALLOC_ATOMIC);
	SpinGuard guard(server.lock);
	ResponderCredits &credits = server.receives.credits();

	trace::credits(server.peer, granted, backed ? wanted : granted);
	/* Without memory it stays as it is, and is tried again after as much use. */
	credits.grant(backed ? wanted : granted);
	server.grant.set(credits.granted());
	guard.release();
	begin_growth(server);
}

void pay_debt(Server &server, rpcordma_alloc_how how)
{
	u32 promised;
	{
		SpinGuard guard(server.lock);

		promised = promised_locked(server);
	}
	/* In a thread there is memory for what the completion had none for. */
	if (!provide_receives(server, promised, how)) {
		trace::failure(server.peer, trace::Failure::receives_missing, 0, int(promised));
		return;
	}
	/* Not before they are posted: others reply meanwhile. Nor while more are missing, as calls have come since. */
	SpinGuard guard(server.lock);

	if (server.receives.posted() >= min(promised_locked(server), server.receives.limit()))
		server.grant.forget_debt();
}

void put_receives(Server &server, Receive *receives)
{
	SpinGuard guard(server.lock);

	put_receives_locked(server, receives);
}

void put_transmissions(Server &server, Receive *receives)
{
	SpinGuard guard(server.lock);

	while (Receive *receive = receives) {
		receives = receive->next;
		put_receive_locked(server, receive);
	}
}

} // namespace rpcordma
