// SPDX-License-Identifier: GPL-2.0-only
/* Transfers and sink pages. See pool.hh. */

#include "module/server/pool.hh"

#include <new>

namespace rpcordma {

/* Free transfers that are kept: more are a burst's. */
static constexpr u32 kKeptTransfers = 64;

/* Pages allocated at once, with the lock not held. */
static constexpr u32 kRefillBatch = 64;

bool ServerPool::init()
{
	lock_ = rpcordma_lock_create(RPCORDMA_LOCK_SINKS);
	return lock_ != nullptr;
}

void ServerPool::exit()
{
	trim_();
	rpcordma_free(spare_);
	rpcordma_free(top_);
	spare_ = top_ = nullptr;
	rpcordma_lock_destroy(lock_);
	lock_ = nullptr;
}

void ServerPool::join()
{
	rpcordma_lock_acquire(lock_);
	const bool first = users_++ == 0;
	if (first)
		wanted_ = Transfer::kPages;
	rpcordma_lock_release(lock_);
	if (first)
		rpcordma_server_queue_refill();
}

void ServerPool::leave()
{
	rpcordma_lock_acquire(lock_);
	const bool last = --users_ == 0;
	if (last)
		wanted_ = 0;
	rpcordma_lock_release(lock_);
	if (last)
		trim_();
}

Transfer *ServerPool::create_(rpcordma_alloc_how how)
{
	void *place = rpcordma_alloc_large(sizeof(Transfer), how);
	rpcordma_bulk *bulk = place ? rpcordma_bulk_create(Transfer::kPages, how) : nullptr;

	if (!bulk) {
		rpcordma_free_large(place);
		return nullptr;
	}
	Transfer *transfer = new (place) Transfer;
	transfer->bulk = bulk;
	return transfer;
}

void ServerPool::destroy_(Transfer *transfer)
{
	rpcordma_bulk_destroy(transfer->bulk);
	rpcordma_free_large(transfer);
}

Transfer *ServerPool::take(rpcordma_alloc_how how)
{
	rpcordma_lock_acquire(lock_);
	Transfer *transfer = transfers_.pop_front();
	if (transfer)
		transfer_count_--;
	rpcordma_lock_release(lock_);
	return transfer ? transfer : create_(how);
}

bool ServerPool::push_locked_(page *p)
{
	if (!top_ || top_->count == Block::kPages) {
		Block *block = spare_;

		spare_ = nullptr;
		if (!block) {
			void *place = rpcordma_alloc(sizeof(Block), RPCORDMA_ALLOC_ATOMIC);

			if (!place)
				return false;
			block = new (place) Block;
		}
		block->below = top_;
		top_ = block;
	}
	top_->pages[top_->count++] = p;
	page_count_++;
	return true;
}

page *ServerPool::pop_locked_()
{
	page *p = top_->pages[--top_->count];

	page_count_--;
	if (!top_->count && top_->below) {
		Block *empty = top_;

		top_ = empty->below;
		if (spare_)
			rpcordma_free(empty);
		else
			spare_ = empty;
	}
	return p;
}

Transfer *ServerPool::take_sink(u32 pages, u32 cap_pages)
{
	Transfer *transfer = take(RPCORDMA_ALLOC_ATOMIC);
	bool low;

	if (!transfer)
		return nullptr;
	rpcordma_lock_acquire(lock_);
	const bool enough = page_count_ >= pages;
	if (enough)
		for (; transfer->page_count < pages; transfer->page_count++)
			transfer->pages[transfer->page_count] = pop_locked_();
	else
		/* There was use for more. */
		wanted_ = min(max(2 * wanted_, pages), max(cap_pages, pages));
	low = page_count_ < wanted_ / 2;
	rpcordma_lock_release(lock_);
	if (!enough || low)
		rpcordma_server_queue_refill();
	if (enough)
		return transfer;
	give(transfer);
	return nullptr;
}

void ServerPool::give(Transfer *transfer)
{
	u32 kept = 0;

	rpcordma_bulk_unmap(transfer->bulk);
	rpcordma_lock_acquire(lock_);
	const bool keep = transfer_count_ < kKeptTransfers && users_;
	while (kept < transfer->page_count && !transfer->writes && page_count_ < wanted_ &&
	       (!transfer->pages[kept] || push_locked_(transfer->pages[kept])))
		kept++;
	rpcordma_lock_release(lock_);
	rpcordma_pages_release(transfer->pages + kept, transfer->page_count - kept);
	transfer->page_count = 0;
	transfer->writes = false;
	if (!keep) {
		destroy_(transfer);
		return;
	}
	rpcordma_lock_acquire(lock_);
	transfers_.push_front(transfer);
	transfer_count_++;
	rpcordma_lock_release(lock_);
}

void ServerPool::refill()
{
	for (;;) {
		page *fresh[kRefillBatch];

		rpcordma_lock_acquire(lock_);
		const u32 missing = wanted_ > page_count_ ? wanted_ - page_count_ : 0;
		rpcordma_lock_release(lock_);
		if (!missing)
			return;
		const u32 count = rpcordma_pages_alloc(fresh, min(missing, kRefillBatch),
						       RPCORDMA_ALLOC_NOIO);
		u32 kept = 0;
		rpcordma_lock_acquire(lock_);
		while (kept < count && page_count_ < wanted_ && push_locked_(fresh[kept]))
			kept++;
		rpcordma_lock_release(lock_);
		rpcordma_pages_release(fresh + kept, count - kept);
		/* Without memory, or without room for it: whoever finds too few asks again. */
		if (!kept)
			return;
	}
}

/* Free all that is kept. */
void ServerPool::trim_()
{
	for (;;) {
		page *p = nullptr;
		Transfer *transfer = nullptr;

		rpcordma_lock_acquire(lock_);
		if (page_count_)
			p = pop_locked_();
		if (transfer_count_) {
			transfer = transfers_.pop_front();
			transfer_count_--;
		}
		rpcordma_lock_release(lock_);
		if (!p && !transfer)
			return;
		if (p)
			rpcordma_pages_release(&p, 1);
		if (transfer)
			destroy_(transfer);
	}
}

} // namespace rpcordma
