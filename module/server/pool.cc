// SPDX-License-Identifier: GPL-2.0-only
/* Transfers and sink pages. See pool.hh. */

#include "module/server/pool.hh"

#include "module/base/memory.hh"

namespace rpcordma {

ServerPool server_pool;

/* Free transfers that are kept: more are a burst's. */
static constexpr u32 kKeptTransfers = 64;

/* Those that are there before anybody needs one. */
static constexpr u32 kFirstTransfers = 4;

/* Pages allocated or freed at once, with the lock not held. */
static constexpr u32 kBatch = 64;

/* A transfer's memory, in pages of the usual size, its mapping's included. */
static constexpr u32 kTransferPages = div_round_up(kTransferBytes, 4096u);

bool ServerPool::init()
{
	return lock_.create(RPCORDMA_LOCK_SINKS);
}

void ServerPool::exit()
{
	(void)shrink(~0u);
	{
		SpinGuard guard(lock_);

		if (lent_)
			rpcordma_warn("sink pages are lent, and no connection is left");
		(void)Owned<Block>::take_over(spare_);
		(void)Owned<Block>::take_over(top_);
		spare_ = top_ = nullptr;
	}
	lock_.destroy();
}

void ServerPool::join()
{
	{
		SpinGuard guard(lock_);

		if (users_++)
			return;
		wanted_ = Transfer::kPages;
		transfers_wanted_ = kFirstTransfers;
	}
	rpcordma_server_queue_refill();
}

void ServerPool::leave()
{
	{
		SpinGuard guard(lock_);

		if (--users_)
			return;
		wanted_ = transfers_wanted_ = 0;
	}
	(void)shrink(~0u);
}

using OwnedTransfer = Owned<Transfer, LargeHeap>;

Transfer *ServerPool::create_(rpcordma_alloc_how how)
{
	auto transfer = OwnedTransfer::create(how);

	if (transfer)
		transfer->bulk = rpcordma_bulk_create(Transfer::kPieces, how);
	if (!transfer || !transfer->bulk)
		return nullptr;
	return transfer.let_go();
}

void ServerPool::destroy_(Transfer *transfer)
{
	rpcordma_bulk_destroy(transfer->bulk);
	(void)OwnedTransfer::take_over(transfer);
}

Transfer *ServerPool::pop_transfer_locked_()
{
	Transfer *spare = transfers_.pop_front();

	transfer_count_ -= spare != nullptr;
	return spare;
}

Transfer *ServerPool::take(rpcordma_alloc_how how)
{
	{
		SpinGuard guard(lock_);

		if (Transfer *transfer = pop_transfer_locked_())
			return transfer;
	}
	return create_(how);
}

/*
 * The kernel's allocator often hands out neighbours from the last to the first. The right way round they are one
 * piece of a mapping, and one SGE.
 */
static void put_in_order(page **pages, u32 count)
{
	if (!count || std::uintptr_t(pages[0]) <= std::uintptr_t(pages[count - 1]))
		return;
	for (page **low = pages, **high = pages + count - 1; low < high; low++, high--) {
		page *const last = *high;

		*high = *low;
		*low = last;
	}
}

/* Returns how many of @pages were taken, null ones among them: all, or as many as there is memory for. */
u32 ServerPool::push_locked_(page *const *pages, u32 count)
{
	for (u32 i = 0; i < count;) {
		if (!top_ || top_->count == Block::kPages) {
			Block *block = spare_;

			spare_ = nullptr;
			if (!block)
				block = Owned<Block>::create(RPCORDMA_ALLOC_ATOMIC).let_go();
			if (!block)
				return i;
			block->below = top_;
			top_ = block;
		}
		/* Absent ones leave room, which the next round fills. */
		page *const *const until = pages + i + min(count - i, Block::kPages - top_->count);
		page **const first = top_->pages + top_->count, **to = first;
		for (page *const *from = pages + i; from < until; from++)
			if (*from)
				*to++ = *from;
		i = static_cast<u32>(until - pages);
		top_->count += static_cast<u32>(to - first);
		page_count_ += static_cast<u32>(to - first);
	}
	return count;
}

/* In the order in which they were pushed, as neighbours may lie together in memory. There are so many. */
void ServerPool::pop_locked_(page **pages, u32 count)
{
	page_count_ -= count;
	while (count) {
		const u32 n = min(count, top_->count);

		top_->count -= n;
		count -= n;
		__builtin_memcpy(pages + count, top_->pages + top_->count, n * sizeof(void *));
		if (!top_->count && top_->below) {
			Block *empty = top_;

			top_ = empty->below;
			if (spare_)
				(void)Owned<Block>::take_over(empty);
			else
				spare_ = empty;
		}
	}
}

Transfer *ServerPool::take_sink(u32 pages, u32 cap_pages)
{
	Transfer *transfer = nullptr;
	bool low;
	{
		SpinGuard guard(lock_);

		if (page_count_ >= pages)
			transfer = pop_transfer_locked_();
		if (transfer) {
			pop_locked_(transfer->pages, pages);
			transfer->page_count = transfer->lent = pages;
			lent_ += pages;
		} else if (page_count_ >= pages) {
			/* There was use for more. */
			transfers_wanted_ = min(2 * transfers_wanted_, kKeptTransfers);
		} else if (!missing_locked_()) {
			wanted_ = min(max(2 * wanted_, pages), max(cap_pages, pages));
		}
		low = page_count_ + lent_ < wanted_ / 2;
	}
	if (!transfer || low)
		rpcordma_server_queue_refill();
	return transfer;
}

void ServerPool::give(Transfer *transfer)
{
	u32 kept = 0;
	bool keep;

	rpcordma_bulk_unmap(transfer->bulk);
	if (!transfer->writes)
		put_in_order(transfer->pages, transfer->page_count);
	{
		SpinGuard guard(lock_);

		lent_ -= transfer->lent;
		keep = transfer_count_ < kKeptTransfers && users_;
		const u32 have = page_count_ + lent_;
		if (!transfer->writes && have < wanted_)
			kept = push_locked_(transfer->pages,
					    min(transfer->page_count, wanted_ - have));
	}
	rpcordma_pages_release(transfer->pages + kept, transfer->page_count - kept);
	transfer->page_count = transfer->lent = 0;
	transfer->writes = false;
	if (!keep) {
		destroy_(transfer);
		return;
	}
	SpinGuard guard(lock_);

	transfers_.push_front(transfer);
	transfer_count_++;
}

/* Pages that are wanted beyond those that are here or lent. */
u32 ServerPool::missing_locked_() const
{
	const u32 have = page_count_ + lent_;

	return wanted_ > have ? wanted_ - have : 0;
}

u32 ServerPool::missing_()
{
	SpinGuard guard(lock_);

	return missing_locked_();
}

bool ServerPool::wants_transfer_()
{
	SpinGuard guard(lock_);

	return transfer_count_ < transfers_wanted_;
}

/* Returns how many of the first @count of @pages were wanted, and are the pool's. */
u32 ServerPool::keep_(page **pages, u32 count)
{
	SpinGuard guard(lock_);

	return push_locked_(pages, min(count, missing_locked_()));
}

void ServerPool::refill()
{
	while (wants_transfer_()) {
		Transfer *fresh = create_(RPCORDMA_ALLOC_NOIO);

		if (!fresh)
			break;
		give(fresh);
	}
	while (const u32 missing = missing_()) {
		page *fresh[kBatch];
		const u32 count =
			rpcordma_pages_alloc(fresh, min(missing, kBatch), RPCORDMA_ALLOC_NOIO);
		put_in_order(fresh, count);
		const u32 kept = keep_(fresh, count);

		rpcordma_pages_release(fresh + kept, count - kept);
		/* Without memory, or without room for it: whoever finds too few asks again. */
		if (!kept)
			return;
	}
}

u32 ServerPool::spare_pages_locked_() const
{
	const u32 least = users_ ? Transfer::kPages : 0;

	return page_count_ > least ? page_count_ - least : 0;
}

u32 ServerPool::spare_transfers_locked_() const
{
	const u32 least = users_ ? 1 : 0;

	return transfer_count_ > least ? transfer_count_ - least : 0;
}

u32 ServerPool::spare_pages()
{
	SpinGuard guard(lock_);

	return spare_pages_locked_() + spare_transfers_locked_() * kTransferPages;
}

u32 ServerPool::shrink(u32 pages)
{
	u32 freed = 0;

	while (freed < pages) {
		page *idle[kBatch];
		Transfer *transfer = nullptr;
		u32 count = 0;
		{
			SpinGuard guard(lock_);

			count = min(min(kBatch, pages - freed), spare_pages_locked_());
			pop_locked_(idle, count);
			if (count) {
				/* Lest they be allocated again at once; who finds too few asks for more. */
				wanted_ = min(wanted_, users_ ? page_count_ + lent_ : 0);
			} else if (spare_transfers_locked_()) {
				transfer = pop_transfer_locked_();
				transfers_wanted_ = min(transfers_wanted_, transfer_count_);
			}
		}
		if (!count && !transfer)
			break;
		rpcordma_pages_release(idle, count);
		if (transfer)
			destroy_(transfer);
		freed += count + (transfer ? kTransferPages : 0);
	}
	return freed;
}

} // namespace rpcordma
