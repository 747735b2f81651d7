// SPDX-License-Identifier: GPL-2.0-only
/*
 * The words of the project: integers, big-endian fields, and strong types for quantities that must
 * not be mixed up. No function here does I/O or allocates.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace rpcordma {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using usize = std::size_t;

/** A 32-bit quantity that converts to nothing by itself; @Tag makes each one a type of its own. */
template <typename Tag> class Strong32 {
public:
	constexpr Strong32() = default;
	explicit constexpr Strong32(u32 value) : value_(value)
	{
	}
	[[nodiscard]] constexpr u32 get() const
	{
		return value_;
	}
	friend constexpr bool operator==(Strong32 a, Strong32 b)
	{
		return a.value_ == b.value_;
	}
	friend constexpr bool operator!=(Strong32 a, Strong32 b)
	{
		return a.value_ != b.value_;
	}

private:
	u32 value_ = 0;
};

/** An RPC transaction ID in host byte order. */
using Xid = Strong32<struct XidTag>;
/** A memory key as the peer uses it (RFC 8166 calls it a handle). */
using Rkey = Strong32<struct RkeyTag>;
/** An XDR position in the call's payload stream, in bytes (RFC 8166 3.4.5). */
using Position = Strong32<struct PositionTag>;
/** A number of RPC calls that may be outstanding (RFC 8166 3.3.1). */
using Credits = Strong32<struct CreditsTag>;

/** A big-endian 32-bit field of a wire structure; alignment 1, so that it may stand anywhere. */
class Be32 {
public:
	constexpr Be32() = default;
	explicit constexpr Be32(u32 v) : b_{u8(v >> 24), u8(v >> 16), u8(v >> 8), u8(v)}
	{
	}
	[[nodiscard]] constexpr u32 get() const
	{
		return u32(b_[0]) << 24 | u32(b_[1]) << 16 | u32(b_[2]) << 8 | u32(b_[3]);
	}

private:
	u8 b_[4] = {};
};
static_assert(sizeof(Be32) == 4 && alignof(Be32) == 1);

/** The bytes of XDR padding behind an item of @length bytes (RFC 4506 3). */
[[nodiscard]] constexpr u32 xdr_pad(u32 length)
{
	return (4 - (length & 3)) & 3;
}

template <typename T> [[nodiscard]] constexpr T min(T a, T b)
{
	return b < a ? b : a;
}

template <typename T> [[nodiscard]] constexpr T max(T a, T b)
{
	return a < b ? b : a;
}

/** @n / @d rounded up; @n + @d must not overflow. */
template <typename T> [[nodiscard]] constexpr T div_round_up(T n, T d)
{
	return (n + d - 1) / d;
}

/** Add without wrapping. Returns false, and leaves @sum alone, when a + b does not fit. */
template <typename T> [[nodiscard]] constexpr bool checked_add(T a, T b, T &sum)
{
	static_assert(std::is_unsigned_v<T>);
	if (a > static_cast<T>(~T(0)) - b)
		return false;
	sum = a + b;
	return true;
}

} // namespace rpcordma
