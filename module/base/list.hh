// SPDX-License-Identifier: GPL-2.0-only
/*
 * An intrusive, doubly linked list: the link lies in the item, nothing is allocated, and an item that
 * is on no list knows it. The list does no locking; whoever owns the list names the lock beside it.
 */
#pragma once

#include "module/base/types.hh"

namespace rpcordma {

/** The link of an item; @Tag lets one item stand on several lists through several bases. */
template <typename Tag> class ListLink {
public:
	constexpr ListLink() = default;
	ListLink(const ListLink &) = delete;
	ListLink &operator=(const ListLink &) = delete;
	[[nodiscard]] bool linked() const
	{
		return next_ != nullptr;
	}

private:
	template <typename, typename> friend class List;
	ListLink *next_ = nullptr;
	ListLink *prev_ = nullptr;
};

/** A list of T, which derives from ListLink<Tag>. */
template <typename T, typename Tag> class List {
	using Link = ListLink<Tag>;

public:
	constexpr List()
	{
		clear_();
	}
	List(const List &) = delete;
	List &operator=(const List &) = delete;

	[[nodiscard]] bool empty() const
	{
		return head_.next_ == &head_;
	}
	/** The first item, or null. */
	[[nodiscard]] T *front() const
	{
		return empty() ? nullptr : static_cast<T *>(head_.next_);
	}
	/** The item behind @item, or null. */
	[[nodiscard]] T *next(T *item) const
	{
		Link *n = static_cast<Link *>(item)->next_;
		return n == &head_ ? nullptr : static_cast<T *>(n);
	}
	/** @item must be on no list of this Tag. */
	void push_back(T *item)
	{
		insert_(static_cast<Link *>(item), head_.prev_, &head_);
	}
	void push_front(T *item)
	{
		insert_(static_cast<Link *>(item), &head_, head_.next_);
	}
	/** Take @item off whichever list of this Tag it is on; it must be on one. */
	static void remove(T *item)
	{
		Link *l = static_cast<Link *>(item);
		unlink_(l);
		l->next_ = l->prev_ = nullptr;
	}
	/** Move @item, which is on some list of this Tag, to the end of this one, or to the front. */
	void move_back(T *item)
	{
		unlink_(static_cast<Link *>(item));
		push_back(item);
	}
	void move_front(T *item)
	{
		unlink_(static_cast<Link *>(item));
		push_front(item);
	}
	/** The first item, taken off, or null. */
	T *pop_front()
	{
		T *item = front();
		if (item)
			remove(item);
		return item;
	}
	/** Move all items of @other to the end of this list. */
	void splice_back(List &other)
	{
		if (other.empty())
			return;
		Link *first = other.head_.next_, *last = other.head_.prev_;
		first->prev_ = head_.prev_;
		head_.prev_->next_ = first;
		last->next_ = &head_;
		head_.prev_ = last;
		other.clear_();
	}

private:
	constexpr void clear_()
	{
		head_.next_ = head_.prev_ = &head_;
	}
	static void unlink_(const Link *l)
	{
		Link *const prev = l->prev_, *const next = l->next_;

		/* The analyzer takes front() for the same item again after this. */
		// NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
		prev->next_ = next;
		next->prev_ = prev;
	}
	void insert_(Link *l, Link *prev, Link *next)
	{
		l->prev_ = prev;
		l->next_ = next;
		prev->next_ = l;
		next->prev_ = l;
	}
	Link head_;
};

} // namespace rpcordma
