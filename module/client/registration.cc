// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions: how many a connection has, which call has them, and how the memory behind them is given to the peer and
 * taken back.
 */

#include "module/client/client.hh"
#include "module/client/unmap.hh"

using namespace rpcordma;
using trace::Failure;

/* Regions made at once: a handful of full-sized calls. */
static constexpr u32 kRegionBatch = 16;

/* When a region could not be made for want of memory, or one that is discarded is the device's still. */
static constexpr u32 kRefillRetryMs = 100;

/* Make @count regions for the pool, or fewer. Returns how many. Process context. */
u32 rpcordma_client::create_regions(Connection &c, u32 count, bool gaps)
{
	std::atomic<u32> &created = c.regions_created[gaps];
	u32 made = 0;

	for (; made < count && created.load(std::memory_order_relaxed) < c.regions_limit; made++) {
		Region *region = create_region(c.endpoint, peer, c.limits.mr_pages, gaps,
					       RPCORDMA_ALLOC_NOIO);

		if (!region)
			break;
		SpinGuard guard(lock);
		pool.of(gaps).push_front(region);
		guard.release();
		created.fetch_add(1, std::memory_order_relaxed);
		tally(stats.mrs_allocated, 1);
	}
	return made;
}

bool rpcordma_client::has_discarded()
{
	SpinGuard guard(lock);

	return !discarded.empty();
}

/*
 * Destroy regions that nothing else is to be done with, some at a time, as calls that end wait for the fence mutex; and make
 * as many new ones. Returns whether any was made. Where a registration is in the send queue still, the region is the
 * device's: later, then.
 */
bool rpcordma_client::replace_discarded(Connection &c)
{
	u32 made = 0;

	if (!c.send_queue.asides_done())
		return false;
	for (u32 i = 0; i < kRegionBatch; i++) {
		Region *region;
		{
			SpinGuard guard(lock);

			region = discarded.pop_front();
		}
		if (!region)
			break;
		const bool gaps = region->gaps;

		destroy_region(region);
		c.regions_created[gaps].fetch_sub(1, std::memory_order_relaxed);
		made += create_regions(c, 1, gaps);
	}
	return made != 0;
}

void rpcordma_client::refill()
{
	bool again = false, made = false;

	{
		MutexGuard guard(fence);

		if (connection && !connection->closing) {
			const bool gaps = connection->wants_gaps.load(std::memory_order_relaxed);

			/* A sender that still lacks regions asks again. */
			made = has_discarded() && replace_discarded(*connection);
			again = has_discarded();
			if (!made && (!again || wants_space.load(std::memory_order_relaxed)))
				made = create_regions(*connection, kRegionBatch, gaps) != 0;
			/* At the limit, the regions that calls give back are what is waited for. */
			again = again || (!made && connection->regions_created[gaps].load(
							   std::memory_order_relaxed) <
							   connection->regions_limit);
		}
	}
	if (made)
		announce_space();
	if (again)
		rpcordma_xprt_queue_refill(xprt, kRefillRetryMs);
}

/*
 * The pool is empty: take what other calls than @but have to spare, of those that are idle, and of those that have gone without
 * a region, whose reply may take its time. The sender: nobody else makes an idle call anything else, nor plans one; who ends
 * one has the lock. See call.hh, `spare`.
 */
void rpcordma_client::take_kept(const Call *but)
{
	for (Call *call = all.front(); call; call = all.next(call))
		if (call != but && (call->get_state() == CallState::idle || !call->plan.rkeys()))
			at_hand.add(call->spare);
}

/* Have some more made, if there may be more. */
void rpcordma_client::want_more_regions(Connection &c, bool gaps)
{
	if (c.regions_created[gaps].load(std::memory_order_relaxed) >= c.regions_limit)
		return;
	c.wants_gaps.store(gaps, std::memory_order_relaxed);
	rpcordma_xprt_queue_refill(xprt, 0);
}

/*
 * Have the regions of @call's plan spare for it, and no others; false when there are too few, which are kept. The sender, who takes
 * all of the pool at a time, and has the lock as seldom: mostly a call has had the region before.
 */
bool rpcordma_client::take_regions(Connection &c, Call *call)
{
	const chunk::Plan &plan = call->plan;
	u32 missing[2] = {};

	for (const chunk::SegmentList *chunk :
	     {&plan.position_zero, &plan.read_chunk, &plan.write_chunk, &plan.reply_chunk})
		missing[chunk->gaps] += chunk->size();
	for (Region *r = call->spare.front(), *next; r; r = next) {
		next = call->spare.next(r);
		if (missing[r->gaps]) {
			missing[r->gaps]--;
			continue;
		}
		/* Of the other kind, or from another plan: nobody could have it while the call is out. */
		decltype(call->spare)::remove(r);
		at_hand.of(r->gaps).push_back(r);
	}
	for (const bool gaps : {false, true}) {
		bool took = false;

		for (; missing[gaps]; missing[gaps]--) {
			if (at_hand.of(gaps).empty()) {
				SpinGuard guard(lock);

				at_hand.add(pool);
				if (at_hand.of(gaps).empty()) {
					take_kept(call);
					took = true;
				}
			}
			Region *region = at_hand.of(gaps).pop_front();
			if (!region) {
				c.wants_gaps.store(gaps, std::memory_order_relaxed);
				return false;
			}
			call->spare.push_back(region);
		}
		/* Those whose regions these were would have none: there are to be enough for all. */
		if (__builtin_expect(took, 0))
			want_more_regions(c, gaps);
	}
	return true;
}

Status rpcordma_client::map_segments(const chunk::SegmentList &segments,
				     const rpcordma_xdr_buf *buf, Call *call, bool writable)
{
	for (chunk::ByteRange range : segments) {
		Region *region = call->spare.front();

		/* take_regions() has put them there. */
		while (region->gaps != segments.gaps)
			region = call->spare.next(region);
		TRY_STATUS(map_region(call, region, buf, range, writable));
	}
	return {};
}

/* The peer cannot reach @call's memory any more. Room for LOCAL_INVs that were not needed is given back too. */
void rpcordma_client::unmap_all(Connection &c, Call *call)
{
	while (Region *region = call->mapped.pop_front()) {
		rpcordma_region_unmap(region->device);
		trace::region(peer, "unmap", call->xid, *region);
		call->spare.push_back(region);
	}
	c.send_queue.return_invalidations(call->mapped_count);
	call->mapped_count = 0;
}

/* As unmap_one(), out of the way: of replies that come in several parts, or late. */
void rpcordma_client::unmap_invalidated(Connection &c, Call *call, u32 rkey)
{
	unmap_one(*this, c, call, rkey);
}

/*
 * The late reply to @call has invalidated one of its keys, that scratch memory is behind. The device may have done so
 * before it registered that memory, or after; nobody can tell. If it was before, the region is registered still, and to
 * register it again costs the connection; if it was after, a LOCAL_INV does, with some devices. The region is for nothing
 * but to be destroyed.
 */
void rpcordma_client::discard_invalidated(Connection &c, Call *call)
{
	Region *region = call->late_invalidated ?
				 take_invalidated(*this, c, call, call->late_invalidated_rkey) :
				 nullptr;

	if (!region)
		return;
	trace::region(peer, "discard", call->xid, *region);
	{
		SpinGuard guard(lock);

		discarded.move_back(region);
	}
	rpcordma_xprt_queue_refill(xprt, 0);
	announce_space();
}

/*
 * Post a LOCAL_INV for each region of @call that is mapped, of which there is one at least. The last one is
 * signaled, and the queue's order makes its completion stand for all. After an error the connection is on its way
 * out, and the drain takes the memory back.
 */
Status rpcordma_client::post_invalidations(Connection &c, Call *call)
{
	rpcordma_send_wr *first = nullptr, **link = &first, *last = nullptr;
	u32 count = 0;

	for (Region *region = call->mapped.front(); region; region = call->mapped.next(region)) {
		last = &region->invalidate_wr;
		last->cqe = &c.silent_invalidate_cqe;
		last->send_flags = 0;
		last->invalidate_rkey = region->mapping.rkey;
		*link = last;
		link = &last->next;
		count++;
		trace::region(peer, "local-inv", call->xid, *region);
	}
	/* Callers have seen that there is a region. */
	// NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
	last->next = nullptr;
	last->cqe = &call->invalidate_cqe.cqe;
	last->send_flags = RPCORDMA_SEND_SIGNALED;
	tally(stats.local_inv_needed, count);
	call->invalidating.store(1, std::memory_order_relaxed);
	rpcordma_xprt_queue_check(xprt, kInvalidationLimitMs);
	/* Once posted, they may complete, and the call be another one's, before this goes on. */
	const u32 xid = call->xid;
	const int rc = rpcordma_post_send(c.endpoint, first).error;
	trace::post(c.endpoint, "invalidate", xid, count, true, rc, &call->invalidate_cqe.cqe);
	if (!rc)
		return {};
	trace::failure(peer, Failure::invalidate_post_failed, xid, rc);
	c.request_close(trace::Loss::rpc_failed, rc);
	return from_errno(rc);
}
