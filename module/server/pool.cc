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
	bool made = growth_.create(RPCORDMA_LOCK_SINKS);

	for (Shelf &shelf : shelves_)
		made = made && shelf.lock.create(RPCORDMA_LOCK_SINKS);
	if (!made)
		exit();
	return made;
}

void ServerPool::exit()
{
	if (shelves_[kShelves - 1].lock.exists() && lent_pages())
		rpcordma_warn("sink pages are lent, and no connection is left");
	for (Shelf &shelf : shelves_)
		shelf.lock.destroy();
	growth_.destroy();
}

void ServerPool::join()
{
	const u32 node = rpcordma_node();
	{
		SpinGuard guard(growth_);

		if (users_.fetch_add(1, std::memory_order_relaxed))
			return;
		for (u32 size = 1; size < Transfer::kSizes; size++) {
			demands_[size].wanted.store(1, std::memory_order_relaxed);
			demands_[size].node.store(node, std::memory_order_relaxed);
		}
	}
	rpcordma_server_queue_refill();
}

void ServerPool::leave()
{
	{
		SpinGuard guard(growth_);

		if (users_.fetch_sub(1, std::memory_order_relaxed) != 1)
			return;
		for (u32 size = 1; size < Transfer::kSizes; size++) {
			demands_[size].wanted.store(0, std::memory_order_relaxed);
			demands_[size].node.store(0, std::memory_order_relaxed);
		}
	}
	/* Whoever gives later to a shelf that this has looked at sees under its lock that none is wanted. */
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

/*
 * The node that most of @pages are of, among which some may be absent; @node if all are. If no node has most, one of
 * them.
 */
[[nodiscard]] static u32 home_of(Span<page *const> pages, u32 node)
{
	u32 lead = 0;

	/* Of two pages of different nodes neither counts: who has most is left. */
	for (const page *p : pages) {
		if (!p)
			continue;
		const u32 its = rpcordma_page_node(p);

		if (its == node) {
			lead++;
		} else if (lead) {
			lead--;
		} else {
			node = its;
			lead = 1;
		}
	}
	return node;
}

/* A thread has exchanged pages that @sink used for its own, of which some may be absent. */
static void take_stock(Transfer &sink)
{
	const u32 used = sink.page_count;
	u32 present = 0;

	for (u32 i = 0; i < used; i++)
		present += sink.pages[i] != nullptr;
	if (present < used)
		sink.stock = close_gaps(sink.pages, sink.stock);
	put_in_order(sink.pages, present);
}

/* As many pages as it lacks, or as there is memory for; another node's, where its own has none. */
void ServerPool::fill_(Transfer *transfer)
{
	page **const lacking = transfer->pages + transfer->stock;
	const u32 count = rpcordma_pages_alloc(lacking,
					       Transfer::pages_of(transfer->size) - transfer->stock,
					       transfer->node, RPCORDMA_ALLOC_NOIO);

	if (!transfer->stock && rpcordma_nodes_differ())
		transfer->node = home_of({lacking, count}, transfer->node);
	put_in_order(lacking, count);
	transfer->stock += count;
}

/* --- a shelf --- */

/* @count changes under a lock. */
static void add(std::atomic<u32> &count, u32 more)
{
	count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

Transfer *ServerPool::Shelf::pop_locked(u32 size)
{
	Transfer *transfer = stocks[size].free.pop_front();

	if (transfer)
		add(free_count[size], -1u);
	return transfer;
}

Transfer *ServerPool::Shelf::pop(u32 size)
{
	if (!free_count[size].load(std::memory_order_relaxed))
		return nullptr;
	SpinGuard guard(lock);

	return pop_locked(size);
}

void ServerPool::Shelf::put_locked(Transfer *transfer)
{
	const u32 size = transfer->size;

	if (transfer->whole()) {
		stocks[size].free.push_front(transfer);
		add(free_count[size], 1);
	} else {
		stocks[size].lacking.push_front(transfer);
		add(lacking_count[size], 1);
	}
}

/* --- how many there are to be --- */

bool ServerPool::Demand::claim()
{
	u32 has = made.load(std::memory_order_relaxed);

	do {
		if (has >= wanted.load(std::memory_order_relaxed))
			return false;
	} while (!made.compare_exchange_weak(has, has + 1, std::memory_order_relaxed));
	usable.fetch_add(1, std::memory_order_relaxed);
	return true;
}

bool ServerPool::Demand::release_surplus()
{
	u32 has = made.load(std::memory_order_relaxed);

	do {
		if (has <= wanted.load(std::memory_order_relaxed))
			return false;
	} while (!made.compare_exchange_weak(has, has - 1, std::memory_order_relaxed));
	usable.fetch_sub(1, std::memory_order_relaxed);
	return true;
}

void ServerPool::Demand::lose()
{
	usable.fetch_sub(1, std::memory_order_relaxed);
	made.fetch_sub(1, std::memory_order_relaxed);
}

/* How many of @size there are to be once somebody has missed one. */
u32 ServerPool::goal_(u32 size, u32 cap_pages) const
{
	const Demand &demand = demands_[size];
	const u32 wanted = demand.wanted.load(std::memory_order_relaxed);
	u32 others = 0;

	/* Some lack pages, or were not made yet, or one has come since: no reason to have more for good. */
	if (demand.usable.load(std::memory_order_relaxed) < wanted)
		return wanted;
	for (const Shelf &shelf : shelves_)
		if (shelf.free_count[size].load(std::memory_order_relaxed))
			return wanted;
	for (u32 i = 1; i < Transfer::kSizes; i++)
		others += i == size ? 0 :
				      demands_[i].wanted.load(std::memory_order_relaxed) *
					      Transfer::pages_of(i);
	/* One call is possible, whatever the cap. */
	return min(max(2 * wanted, 1u),
		   cap_pages > others ? max((cap_pages - others) / Transfer::pages_of(size), 1u) :
					1);
}

/* A CPU of @node missed one of @size. Returns whether there is something to refill. */
bool ServerPool::want_more_(u32 size, u32 node, u32 cap_pages)
{
	Demand &demand = demands_[size];

	/* Everyone reads this cache line: it is written only when something changes. */
	if (demand.node.load(std::memory_order_relaxed) != node)
		demand.node.store(node, std::memory_order_relaxed);
	if (goal_(size, cap_pages) != demand.wanted.load(std::memory_order_relaxed)) {
		SpinGuard guard(growth_);

		demand.wanted.store(goal_(size, cap_pages), std::memory_order_relaxed);
	}
	return demand.usable.load(std::memory_order_relaxed) <
	       demand.wanted.load(std::memory_order_relaxed);
}

/*
 * One of @size, which is out, will be gone. Fewer are wanted, lest it be made again at once: whoever finds none asks for
 * more.
 */
void ServerPool::forgo_(u32 size)
{
	Demand &demand = demands_[size];
	SpinGuard guard(growth_);

	demand.wanted.store(min(demand.wanted.load(std::memory_order_relaxed),
				demand.made.load(std::memory_order_relaxed) - 1),
			    std::memory_order_relaxed);
	demand.lose();
}

/* One of @size, a sink, that lacks pages, which is out now; null: there is none. */
Transfer *ServerPool::pop_lacking_locked_(Shelf &shelf, u32 size)
{
	Transfer *transfer = shelf.stocks[size].lacking.pop_front();

	if (transfer) {
		add(shelf.lacking_count[size], -1u);
		demands_[size].usable.fetch_add(1, std::memory_order_relaxed);
	}
	return transfer;
}

/* One that nobody misses soon, which is out now; null: there is none. */
Transfer *ServerPool::pop_idle_(Shelf &shelf)
{
	SpinGuard guard(shelf.lock);
	Transfer *transfer = nullptr;

	for (u32 size = 0; size <= Transfer::kLarge && !transfer; size++) {
		const bool least = in_use_() && size == kLargest &&
				   shelf.free_count[size].load(std::memory_order_relaxed) == 1;

		if (Transfer::is_sink(size))
			transfer = pop_lacking_locked_(shelf, size);
		if (!transfer && !least)
			transfer = shelf.pop_locked(size);
	}
	return transfer;
}

/* --- taking and giving --- */

Transfer *ServerPool::take(u32 pages, rpcordma_alloc_how how)
{
	const u32 node = rpcordma_node(), size = pages > Transfer::kPages ? Transfer::kLarge : 0;
	Transfer *transfer = shelf_of_(node).pop(size);

	if (!transfer)
		transfer = create_(size, how);
	if (transfer)
		transfer->node = node;
	return transfer;
}

Transfer *ServerPool::take_sink(u32 pages, u32 cap_pages)
{
	const u32 node = rpcordma_node(), size = Transfer::size_for(pages);
	Transfer *transfer = shelf_of_(node).pop(size);

	if (!transfer) {
		transfer = take_other_(size, node);
		if ((!transfer || transfer->size != size) && want_more_(size, node, cap_pages))
			rpcordma_server_queue_refill();
	}
	if (transfer)
		transfer->page_count = pages;
	return transfer;
}

/* A sink of @size of another node than @node, or a larger one of any; null: there is none. */
Transfer *ServerPool::take_other_(u32 size, u32 node)
{
	const u32 shelves = min(rpcordma_node_count(), kShelves);

	/* A larger one is what another call may need. */
	for (; size < Transfer::kSizes; size++)
		for (u32 i = 0; i < shelves; i++)
			if (Transfer *transfer = shelves_[(node + i) % shelves].pop(size))
				return transfer;
	return nullptr;
}

/* @transfer, which was out and which nobody uses, goes on its shelf, unless there are enough. */
void ServerPool::put_(Transfer *transfer)
{
	const u32 size = transfer->size;
	Shelf &shelf = shelf_of_(transfer->node);
	bool keep;
	{
		SpinGuard guard(shelf.lock);

		if (Transfer::is_sink(size)) {
			keep = !demands_[size].release_surplus();
			if (keep && !transfer->whole())
				demands_[size].usable.fetch_sub(1, std::memory_order_relaxed);
		} else {
			keep = in_use_() && shelf.free_count[size].load(std::memory_order_relaxed) <
						    kept_bare(size);
		}
		if (keep)
			shelf.put_locked(transfer);
	}
	if (!keep)
		destroy_(transfer);
}

/* @transfer's pages in use may be others than it had. */
static void settle_pages(Transfer &transfer)
{
	transfer.runs.known = 0;
	if (Transfer::is_sink(transfer.size)) {
		/* Calls use the first ones: these are what the device writes into. Most machines have one node. */
		if (rpcordma_nodes_differ())
			transfer.node =
				home_of({transfer.pages, transfer.page_count}, transfer.node);
		take_stock(transfer);
	} else {
		rpcordma_pages_release(transfer.pages, transfer.page_count);
	}
	transfer.page_count = 0;
}

void ServerPool::give(Transfer *transfer)
{
	rpcordma_bulk_unmap(transfer->bulk);
	/* A sink that was lent has none in use. */
	if (transfer->page_count)
		settle_pages(*transfer);
	transfer->writes = false;
	const bool whole = transfer->whole();

	put_(transfer);
	if (!whole)
		rpcordma_server_queue_refill();
}

/* --- the worker, and the kernel's wish for memory --- */

/* One of @size that lacks pages, which is out now; null: there is none. */
Transfer *ServerPool::pop_lacking_(u32 size)
{
	for (Shelf &shelf : shelves_) {
		if (!shelf.lacking_count[size].load(std::memory_order_relaxed))
			continue;
		SpinGuard guard(shelf.lock);

		if (Transfer *transfer = pop_lacking_locked_(shelf, size))
			return transfer;
	}
	return nullptr;
}

/* Make one sink that is wanted, or fill one. False: none is missing, or there is no memory. */
bool ServerPool::restock_()
{
	Transfer *transfer = nullptr;
	u32 size = kLargest;

	for (; size; size--) {
		transfer = pop_lacking_(size);
		if (transfer || demands_[size].claim())
			break;
	}
	if (!size)
		return false;
	if (!transfer) {
		transfer = create_(size, RPCORDMA_ALLOC_NOIO);
		if (!transfer) {
			demands_[size].lose();
			return false;
		}
		transfer->node = demands_[size].node.load(std::memory_order_relaxed);
	}
	fill_(transfer);
	const bool whole = transfer->whole();

	put_(transfer);
	return whole;
}

void ServerPool::refill()
{
	while (restock_())
		;
}

u32 ServerPool::spare_pages()
{
	const bool in_use = in_use_();
	u32 spare = 0;

	for (const Shelf &shelf : shelves_)
		for (u32 size = 0; size <= Transfer::kLarge; size++) {
			const u32 free = shelf.free_count[size].load(std::memory_order_relaxed);
			const u32 least = in_use && size == kLargest && free;

			spare += shelf.lacking_count[size].load(std::memory_order_relaxed) *
					 own_pages(size) +
				 (free - least) * (own_pages(size) + Transfer::pages_of(size));
		}
	return spare;
}

u32 ServerPool::shrink(u32 pages)
{
	u32 freed = 0;

	for (Shelf &shelf : shelves_)
		while (freed < pages) {
			Transfer *transfer = pop_idle_(shelf);

			if (!transfer)
				break;
			if (Transfer::is_sink(transfer->size))
				forgo_(transfer->size);
			freed += transfer->stock + own_pages(transfer->size);
			destroy_(transfer);
		}
	return freed;
}

u32 ServerPool::lent_pages()
{
	u32 lent = 0;

	for (u32 size = 1; size < Transfer::kSizes; size++) {
		u32 there = 0;

		for (const Shelf &shelf : shelves_)
			there += shelf.free_count[size].load(std::memory_order_relaxed) +
				 shelf.lacking_count[size].load(std::memory_order_relaxed);
		const u32 made = demands_[size].made.load(std::memory_order_relaxed);

		lent += made > there ? (made - there) * Transfer::pages_of(size) : 0;
	}
	return lent;
}

} // namespace rpcordma
