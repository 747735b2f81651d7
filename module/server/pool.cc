// SPDX-License-Identifier: GPL-2.0-only
/* Transfers and sink pages. See pool.hh. */

#include "module/server/pool.hh"

#include "module/base/memory.hh"

namespace rpcordma {

ServerPool server_pool;

/* Free transfers without pages that a shelf keeps: more are a burst's. */
[[nodiscard]] static constexpr u32 kept_bare(u32 size)
{
	return size == Transfer::kLarge ? 4 : 64;
}

/* The size of the largest sink. */
static constexpr u32 kLargest = Transfer::kSizes - 1;
static_assert(Transfer::pages_of(kLargest) == Transfer::kPages);

/* A transfer's own memory, in pages of the usual size, its mapping's included. */
[[nodiscard]] static constexpr u32 own_pages(u32 size)
{
	return (size == Transfer::kLarge ? kTransferBytesFor<Transfer::kLargePages> :
					   kTransferBytes) /
	       4096;
}

bool ServerPool::init()
{
	for (Shelf &shelf : shelves_)
		if (!shelf.lock.create(RPCORDMA_LOCK_SINKS)) {
			exit();
			return false;
		}
	return true;
}

void ServerPool::exit()
{
	if (shelves_[kShelves - 1].lock.exists() && lent_pages())
		rpcordma_warn("sink pages are lent, and no connection is left");
	for (Shelf &shelf : shelves_)
		shelf.lock.destroy();
}

void ServerPool::join()
{
	if (users_.fetch_add(1, std::memory_order_relaxed))
		return;
	const u32 node = rpcordma_node();
	Shelf &shelf = shelf_of_(node);
	{
		SpinGuard guard(shelf.lock);

		shelf.node = node;
		for (u32 size = 1; size < Transfer::kSizes; size++)
			shelf.stocks[size].wanted = 1;
	}
	rpcordma_server_queue_refill();
}

void ServerPool::leave()
{
	if (users_.fetch_sub(1, std::memory_order_relaxed) != 1)
		return;
	for (Shelf &shelf : shelves_) {
		SpinGuard guard(shelf.lock);

		shelf.node = 0;
		for (Stock &stock : shelf.stocks)
			stock.wanted = 0;
	}
	/* Whoever gives later sees under the lock that nobody uses it. */
	(void)shrink(~0u);
}

/* --- a transfer --- */

using OwnedTransfer = Owned<Transfer, LargeHeap>;

template <u32 Pages> [[nodiscard]] static OwnedTransfer create_for(rpcordma_alloc_how how)
{
	return OwnedTransfer::take_over(Owned<TransferFor<Pages>, LargeHeap>::create(how).let_go());
}

Transfer *ServerPool::create_(u32 size, rpcordma_alloc_how how)
{
	auto transfer = size == Transfer::kLarge ? create_for<Transfer::kLargePages>(how) :
						   create_for<Transfer::kPages>(how);

	if (transfer)
		transfer->bulk = rpcordma_bulk_create(Transfer::pieces_for(transfer->room), how);
	if (!transfer || !transfer->bulk)
		return nullptr;
	transfer->size = size;
	return transfer.let_go();
}

void ServerPool::destroy_(Transfer *transfer)
{
	rpcordma_pages_release(transfer->pages, transfer->stock);
	rpcordma_bulk_destroy(transfer->bulk);
	(void)OwnedTransfer::take_over(transfer);
}

/*
 * The kernel's allocator often hands out neighbours from the last to the first, in runs. The right way round they are
 * one piece of a mapping, and one SGE. Whether most go down tells, and not where the first and the last one lie.
 */
static void put_in_order(page **pages, u32 count)
{
	u32 down = 0;

	for (u32 i = 1; i < count; i++)
		down += std::uintptr_t(pages[i]) < std::uintptr_t(pages[i - 1]);
	if (!down || 2 * down < count)
		return;
	for (page **low = pages, **high = pages + count - 1; low < high; low++, high--) {
		page *const last = *high;

		*high = *low;
		*low = last;
	}
}

/* Close the gaps among the first @count of @pages. Returns how many are left. */
[[nodiscard]] static u32 close_gaps(page **pages, u32 count)
{
	page **to = pages;

	for (page **from = pages; from < pages + count; from++)
		if (*from)
			*to++ = *from;
	return static_cast<u32>(to - pages);
}

/* Release those of @count @pages that are not of @node, and leave null in their place. */
static void release_strays(page **pages, u32 count, u32 node)
{
	for (page **p = pages; p < pages + count; p++)
		if (*p && rpcordma_page_node(*p) != node) {
			rpcordma_pages_release(p, 1);
			*p = nullptr;
		}
}

/* A thread has exchanged pages that @sink used for its own, of which some may be absent, or of another node. */
static void take_stock(Transfer &sink)
{
	const u32 used = sink.page_count;
	u32 present = 0;

	/* Most machines have one. */
	if (rpcordma_node_count() > 1) {
		if (sink.keeps_strays)
			sink.keeps_strays--;
		else
			release_strays(sink.pages, used, sink.node);
	}
	for (u32 i = 0; i < used; i++)
		present += sink.pages[i] != nullptr;
	if (present < used)
		sink.stock = close_gaps(sink.pages, sink.stock);
	put_in_order(sink.pages, present);
}

/* Whether some of @pages are not of @node. */
[[nodiscard]] static bool has_strays(Span<page *const> pages, u32 node)
{
	for (const page *p : pages)
		if (rpcordma_page_node(p) != node)
			return true;
	return false;
}

/*
 * As many pages as it lacks, or as there is memory for. Where the node has none they are another's, and to release these
 * after each use would only bring the like; after a while it may have some again.
 */
void ServerPool::fill_(Transfer *transfer)
{
	page **const lacking = transfer->pages + transfer->stock;
	const u32 count = rpcordma_pages_alloc(lacking,
					       Transfer::pages_of(transfer->size) - transfer->stock,
					       transfer->node, RPCORDMA_ALLOC_NOIO);

	if (rpcordma_node_count() > 1 && has_strays({lacking, count}, transfer->node))
		transfer->keeps_strays = 255;
	put_in_order(lacking, count);
	transfer->stock += count;
}

/* --- a shelf --- */

Transfer *ServerPool::Stock::pop()
{
	Transfer *transfer = free.pop_front();

	if (transfer) {
		free_count--;
		out++;
	}
	return transfer;
}

Transfer *ServerPool::Stock::pop_lacking()
{
	Transfer *transfer = lacking.pop_front();

	if (transfer) {
		lacking_count--;
		out++;
	}
	return transfer;
}

void ServerPool::Stock::put(Transfer *transfer)
{
	out--;
	if (transfer->whole()) {
		free_count++;
		free.push_front(transfer);
	} else {
		lacking_count++;
		lacking.push_front(transfer);
	}
}

/* There was use for more of @size. Returns whether some are missing. */
bool ServerPool::Shelf::want_more_locked(u32 size, u32 cap_pages)
{
	Stock &stock = stocks[size];
	const u32 pages = Transfer::pages_of(size);
	u32 others = 0;

	if (stock.free_count + stock.out >= stock.wanted) {
		for (u32 i = 1; i < Transfer::kSizes; i++)
			others += i == size ? 0 : stocks[i].wanted * Transfer::pages_of(i);
		/* One call is possible, whatever the cap. */
		const u32 most = cap_pages > others ? (cap_pages - others) / pages : 0;
		stock.wanted = min(max(2 * stock.wanted, 1u), max(most, 1u));
	}
	return stock.free_count + stock.out < stock.wanted;
}

/* One that nobody misses soon, which is out now; null: there is none. */
Transfer *ServerPool::Shelf::pop_idle_locked(bool in_use)
{
	for (u32 size = 0; size <= Transfer::kLarge; size++) {
		Stock &stock = stocks[size];
		const bool least = in_use && size == kLargest && stock.free_count == 1;
		Transfer *transfer = stock.pop_lacking();

		if (!transfer && !least)
			transfer = stock.pop();
		/* Lest it be made again at once; who finds none asks for more. */
		if (transfer) {
			stock.wanted = min(stock.wanted, stock.count() - 1);
			return transfer;
		}
	}
	return nullptr;
}

/* --- taking and giving --- */

Transfer *ServerPool::take(u32 pages, rpcordma_alloc_how how)
{
	const u32 node = rpcordma_node(), size = pages > Transfer::kPages ? Transfer::kLarge : 0;
	Shelf &shelf = shelf_of_(node);
	Transfer *transfer;
	{
		SpinGuard guard(shelf.lock);

		transfer = shelf.stocks[size].pop();
		/* Else one is made. */
		shelf.stocks[size].out += !transfer;
	}
	if (!transfer)
		transfer = create_(size, how);
	if (transfer) {
		transfer->node = node;
		return transfer;
	}
	SpinGuard guard(shelf.lock);

	shelf.stocks[size].out--;
	return nullptr;
}

Transfer *ServerPool::take_sink(u32 pages, u32 cap_pages)
{
	const u32 node = rpcordma_node(), size = Transfer::size_for(pages);
	Shelf &shelf = shelf_of_(node);
	Transfer *transfer = nullptr;
	bool refill = false;
	{
		SpinGuard guard(shelf.lock);

		shelf.node = node;
		for (u32 larger = size; larger < Transfer::kSizes && !transfer; larger++)
			transfer = shelf.stocks[larger].pop();
		if (!transfer || transfer->size != size)
			refill = shelf.want_more_locked(size, cap_pages);
	}
	if (transfer) {
		transfer->node = node;
		transfer->page_count = pages;
	}
	if (refill)
		rpcordma_server_queue_refill();
	return transfer;
}

/* @transfer, which was out and which nobody uses, goes on its shelf, unless that has enough. */
void ServerPool::put_(Transfer *transfer)
{
	Shelf &shelf = shelf_of_(transfer->node);
	bool keep;
	{
		SpinGuard guard(shelf.lock);
		Stock &stock = shelf.stocks[transfer->size];

		keep = in_use_() && (Transfer::is_sink(transfer->size) ?
					     stock.count() <= stock.wanted :
					     stock.free_count < kept_bare(transfer->size));
		if (keep)
			stock.put(transfer);
		else
			stock.out--;
	}
	if (!keep)
		destroy_(transfer);
}

void ServerPool::give(Transfer *transfer)
{
	rpcordma_bulk_unmap(transfer->bulk);
	if (Transfer::is_sink(transfer->size))
		take_stock(*transfer);
	else
		rpcordma_pages_release(transfer->pages, transfer->page_count);
	transfer->page_count = 0;
	transfer->writes = false;
	const bool whole = transfer->whole();

	put_(transfer);
	if (!whole)
		rpcordma_server_queue_refill();
}

/* --- the worker, and the kernel's wish for memory --- */

/* Make one transfer that is wanted, or fill one. False: none is missing, or there is no memory. */
bool ServerPool::restock_(Shelf &shelf)
{
	Transfer *transfer = nullptr;
	u32 node, size = kLargest;
	{
		SpinGuard guard(shelf.lock);

		node = shelf.node;
		for (; size; size--) {
			Stock &stock = shelf.stocks[size];

			transfer = stock.pop_lacking();
			if (transfer)
				break;
			if (stock.count() < stock.wanted) {
				stock.out++;
				break;
			}
		}
	}
	if (!size)
		return false;
	if (!transfer)
		transfer = create_(size, RPCORDMA_ALLOC_NOIO);
	if (!transfer) {
		SpinGuard guard(shelf.lock);

		shelf.stocks[size].out--;
		return false;
	}
	transfer->node = node;
	fill_(transfer);
	const bool whole = transfer->whole();

	put_(transfer);
	return whole;
}

void ServerPool::refill()
{
	for (Shelf &shelf : shelves_)
		while (restock_(shelf))
			;
}

u32 ServerPool::spare_pages()
{
	const bool in_use = in_use_();
	u32 spare = 0;

	for (Shelf &shelf : shelves_) {
		SpinGuard guard(shelf.lock);

		for (u32 size = 0; size <= Transfer::kLarge; size++) {
			const Stock &stock = shelf.stocks[size];
			const u32 least = in_use && size == kLargest && stock.free_count;

			spare += stock.lacking_count * own_pages(size) +
				 (stock.free_count - least) *
					 (own_pages(size) + Transfer::pages_of(size));
		}
	}
	return spare;
}

u32 ServerPool::shrink(u32 pages)
{
	u32 freed = 0;

	for (Shelf &shelf : shelves_)
		while (freed < pages) {
			Transfer *transfer;
			{
				SpinGuard guard(shelf.lock);

				transfer = shelf.pop_idle_locked(in_use_());
				if (transfer)
					shelf.stocks[transfer->size].out--;
			}
			if (!transfer)
				break;
			freed += transfer->stock + own_pages(transfer->size);
			destroy_(transfer);
		}
	return freed;
}

u32 ServerPool::lent_pages()
{
	u32 lent = 0;

	for (Shelf &shelf : shelves_) {
		SpinGuard guard(shelf.lock);

		for (u32 size = 1; size < Transfer::kSizes; size++)
			lent += shelf.stocks[size].out * Transfer::pages_of(size);
	}
	return lent;
}

} // namespace rpcordma
