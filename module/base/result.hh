// SPDX-License-Identifier: GPL-2.0-only
/*
 * How a function says that it failed: Result<T> is a value or an Error, and an Error is a positive
 * errno. Nothing throws; [[nodiscard]] makes ignoring a failure a build error. TRY hands an error on.
 */
#pragma once

#include <type_traits>
#include <utility>

#include "module/base/types.hh"

namespace rpcordma {

/** The errnos that the cores use; the numbers are Linux's (asm-generic), checked in compat/linux. */
enum class Error : int {
	none = 0,
	io = 5,
	again = 11,
	no_memory = 12,
	no_device = 19,
	invalid = 22,
	no_space = 28,
	no_slot = 57,		   /* EBADSLT */
	protocol = 71,		   /* EPROTO */
	bad_message = 74,	   /* EBADMSG */
	message_size = 90,	   /* EMSGSIZE */
	no_option = 92,		   /* ENOPROTOOPT */
	no_protocol = 93,	   /* EPROTONOSUPPORT */
	not_supported = 95,	   /* EOPNOTSUPP */
	network_unreachable = 101, /* ENETUNREACH */
	no_buffers = 105,	   /* ENOBUFS */
	not_connected = 107,	   /* ENOTCONN */
	timed_out = 110,	   /* ETIMEDOUT */
	connection_refused = 111,  /* ECONNREFUSED */
	host_unreachable = 113,	   /* EHOSTUNREACH */
};

/** The negative errno that kernel interfaces expect. */
[[nodiscard]] constexpr int to_errno(Error e)
{
	return -static_cast<int>(e);
}

/** The Error for a negative errno @rc; @rc must be below zero. */
[[nodiscard]] constexpr Error from_errno(int rc)
{
	return static_cast<Error>(-rc);
}

template <typename T> class [[nodiscard]] Result {
	static_assert(std::is_trivially_destructible_v<T> || std::is_move_constructible_v<T>);

public:
	using Value = T;
	constexpr Result(Error e) : error_(e)
	{
	}
	constexpr Result(T value) : value_(static_cast<T &&>(value))
	{
	}
	[[nodiscard]] constexpr bool ok() const
	{
		return error_ == Error::none;
	}
	[[nodiscard]] constexpr explicit operator bool() const
	{
		return ok();
	}
	[[nodiscard]] constexpr Error error() const
	{
		return error_;
	}
	/** Only when ok(). */
	[[nodiscard]] constexpr T &value()
	{
		return value_;
	}
	[[nodiscard]] constexpr const T &value() const
	{
		return value_;
	}

private:
	T value_{};
	Error error_ = Error::none;
};

template <> class [[nodiscard]] Result<void> {
public:
	constexpr Result() = default;
	constexpr Result(Error e) : error_(e)
	{
	}
	[[nodiscard]] constexpr bool ok() const
	{
		return error_ == Error::none;
	}
	[[nodiscard]] constexpr explicit operator bool() const
	{
		return ok();
	}
	[[nodiscard]] constexpr Error error() const
	{
		return error_;
	}
	constexpr void value() const
	{
	}

private:
	Error error_ = Error::none;
};

using Status = Result<void>;

} // namespace rpcordma

/** The value of a Result, or return its Error from the calling function. */
#define TRY(expression)                                                                     \
	({                                                                                  \
		auto try_result_ = (expression);                                            \
		if (!try_result_.ok())                                                      \
			return try_result_.error();                                         \
		static_cast<typename decltype(try_result_)::Value &&>(try_result_.value()); \
	})

/** As TRY, for a Status. */
#define TRY_STATUS(expression)                                          \
	do {                                                            \
		if (auto try_status_ = (expression); !try_status_.ok()) \
			return try_status_.error();                     \
	} while (0)
