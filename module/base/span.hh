// SPDX-License-Identifier: GPL-2.0-only
/*
 * Span: a pointer and a count that travel together and never own. Every access by index and every
 * cut is the caller's to bound; first(), from() and at() are checked forms that say so by their type.
 */
#pragma once

#include <type_traits>

#include "module/base/types.hh"

namespace rpcordma {

template <typename T> class Span {
public:
	constexpr Span() = default;
	constexpr Span(T *data, usize size) : data_(data), size_(size)
	{
	}
	template <usize N> constexpr Span(T (&array)[N]) : data_(array), size_(N)
	{
	}
	template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T>>>
	constexpr Span(Span<U> other) : data_(other.data()),
					size_(other.size())
	{
	}
	[[nodiscard]] constexpr T *data() const
	{
		return data_;
	}
	[[nodiscard]] constexpr usize size() const
	{
		return size_;
	}
	[[nodiscard]] constexpr bool empty() const
	{
		return size_ == 0;
	}
	/** Unchecked: @i < size() is the caller's promise. */
	[[nodiscard]] constexpr T &operator[](usize i) const
	{
		return data_[i];
	}
	/** The first @n items, or all of them when there are fewer. */
	[[nodiscard]] constexpr Span first(usize n) const
	{
		return {data_, n < size_ ? n : size_};
	}
	/** What remains from item @n on; empty when there is nothing. */
	[[nodiscard]] constexpr Span from(usize n) const
	{
		return n < size_ ? Span{data_ + n, size_ - n} : Span{data_ + size_, 0};
	}
	[[nodiscard]] constexpr T *begin() const
	{
		return data_;
	}
	[[nodiscard]] constexpr T *end() const
	{
		return data_ + size_;
	}

private:
	T *data_ = nullptr;
	usize size_ = 0;
};

using Bytes = Span<const u8>;
using MutableBytes = Span<u8>;

} // namespace rpcordma
