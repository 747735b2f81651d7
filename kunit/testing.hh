// SPDX-License-Identifier: GPL-2.0-only
/*
 * The unit tests' vocabulary: what a kunit/test_*.cc file includes. The same source runs on the
 * host under GoogleTest with ASan and UBSan, and in a kernel under KUnit with KASAN. How failures
 * are shown and memory is found is not here but behind kunit/port.h.
 *
 *	#include "kunit/testing.hh"
 *
 *	RPCORDMA_TEST(xdr_v1, prefixes)
 *	{
 *		for (usize n = 0; n < full.size(); n++) {
 *			TEST_NOTE("length", n);
 *			ExactCopy copy(full.first(n));
 *			EXPECT_ERROR(decode(copy.bytes()), Error::message_size);
 *		}
 *	}
 *
 *	RPCORDMA_SUITE(xdr_v1, prefixes);
 *
 * - The list that ends the file is what runs, here and there: no static constructor registers
 *   tests in a kernel. A test that the list forgets is a build error (-Werror=unused-function).
 *   Suites themselves need no list: the build collects every RPCORDMA_SUITE of kunit/test_*.cc.
 * - ASSERT_* returns from the function it stands in, which must return void. EXPECT_* goes on.
 * - Operands are evaluated once and taken by value. Integers of different signedness are compared
 *   as numbers. Nothing can be streamed into an expectation: say it with TEST_NOTE.
 * - A decoder is given an ExactCopy (or test_copy()), never a large buffer: only then do the
 *   sanitizers see the first byte read too far.
 */
#pragma once

#include <type_traits>
#include <utility>

#include "kunit/port.h"
#include "module/base/result.hh"
#include "module/base/span.hh"
#include "module/base/types.hh"

namespace rpcordma::test {

struct Case {
	const char *name;
	void (*run)();
};

struct Suite {
	const char *name;
	const Case *cases;
	unsigned int count;
};

template <usize N> [[nodiscard]] constexpr bool all_different(const Case (&cases)[N])
{
	for (usize i = 0; i < N; i++)
		for (usize j = i + 1; j < N; j++)
			if (cases[i].run == cases[j].run)
				return false;
	return true;
}

/** @v as a failure report shows it; strong types show what their get() returns. */
template <typename T> [[nodiscard]] rpcordma_test_value shown(T v);

template <typename T, typename = void> struct HasGet : std::false_type {
};
template <typename T>
struct HasGet<T, std::void_t<decltype(std::declval<const T &>().get())>> : std::true_type {
};

template <typename T> rpcordma_test_value shown(T v)
{
	if constexpr (std::is_same_v<T, bool>)
		return {RPCORDMA_TEST_BOOLEAN, v};
	else if constexpr (std::is_enum_v<T>)
		return shown(static_cast<std::underlying_type_t<T>>(v));
	else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
		return {RPCORDMA_TEST_SIGNED,
			static_cast<unsigned long long>(static_cast<long long>(v))};
	else if constexpr (std::is_integral_v<T>)
		return {RPCORDMA_TEST_UNSIGNED, v};
	else if constexpr (std::is_null_pointer_v<T>)
		return {RPCORDMA_TEST_POINTER, 0};
	else if constexpr (std::is_pointer_v<T>)
		return {RPCORDMA_TEST_POINTER, reinterpret_cast<__UINTPTR_TYPE__>(v)};
	else if constexpr (HasGet<T>::value)
		return shown(v.get());
	else
		return {RPCORDMA_TEST_OBJECT, 0};
}

template <typename T>
static constexpr bool is_number = std::is_integral_v<T> && !std::is_same_v<T, bool>;

/** a == b; numbers compare as numbers, whatever their signedness. */
template <typename A, typename B> [[nodiscard]] constexpr bool equal(const A &a, const B &b)
{
	if constexpr (is_number<A> && is_number<B> && std::is_signed_v<A> != std::is_signed_v<B>) {
		if constexpr (std::is_signed_v<A>)
			return a >= 0 && static_cast<std::make_unsigned_t<A>>(a) == b;
		else
			return b >= 0 && static_cast<std::make_unsigned_t<B>>(b) == a;
	} else {
		return a == b;
	}
}

/** a < b, likewise. */
template <typename A, typename B> [[nodiscard]] constexpr bool less(const A &a, const B &b)
{
	if constexpr (is_number<A> && is_number<B> && std::is_signed_v<A> != std::is_signed_v<B>) {
		if constexpr (std::is_signed_v<A>)
			return a < 0 || static_cast<std::make_unsigned_t<A>>(a) < b;
		else
			return b >= 0 && a < static_cast<std::make_unsigned_t<B>>(b);
	} else {
		return a < b;
	}
}

/** Report a failure with the notes in force. */
void fail(const char *file, int line, const char *macro, const char *left, const char *right,
	  rpcordma_test_value left_value, rpcordma_test_value right_value);

/** Compare and report: length first, then the first byte that differs, with its offset. */
[[nodiscard]] bool same_bytes(const char *file, int line, const char *macro, const char *left,
			      const char *right, Bytes a, Bytes b);

/** Holds a name and a value for the reports of the scope it stands in. */
class Note {
public:
	Note(const char *name, rpcordma_test_value value);
	~Note();
	Note(const Note &) = delete;
	Note &operator=(const Note &) = delete;

private:
	rpcordma_test_note note_;
};

} // namespace rpcordma::test

namespace rpcordma {

/**
 * @size bytes of heap that end where the memory ends, undefined, freed when the case ends. Does
 * not return when there is no memory. For loops prefer ExactCopy, which is freed sooner.
 */
[[nodiscard]] MutableBytes test_alloc(usize size);

/** A copy of @bytes with the same properties. */
[[nodiscard]] MutableBytes test_copy(Bytes bytes);

/** One T on the heap, zeroed, freed when the case ends: for what is too big for a kernel stack. */
template <typename T> [[nodiscard]] T &test_zeroed()
{
	static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T>);
	MutableBytes m = test_alloc(sizeof(T));
	__builtin_memset(m.data(), 0, sizeof(T));
	return *reinterpret_cast<T *>(m.data());
}

/** A heap copy of exactly the given bytes, for the scope it stands in. */
class ExactCopy {
public:
	explicit ExactCopy(Bytes bytes);
	~ExactCopy();
	ExactCopy(const ExactCopy &) = delete;
	ExactCopy &operator=(const ExactCopy &) = delete;

	[[nodiscard]] MutableBytes bytes() const
	{
		return bytes_;
	}
	[[nodiscard]] u8 &operator[](usize i) const
	{
		return bytes_[i];
	}

private:
	MutableBytes bytes_;
};

/** The bytes of @object, padding included: to see whether it is as it was. */
template <typename T> [[nodiscard]] Bytes bytes_of(const T &object)
{
	return {reinterpret_cast<const u8 *>(&object), sizeof(T)};
}

} // namespace rpcordma

/** Define a test: RPCORDMA_TEST(suite, name) { ... }. The suite's list must name it. */
#define RPCORDMA_TEST(suite, name) static void rpcordma_test_##suite##_##name()

/** RPCORDMA_SUITE(suite, name, name, ...); ends the file, outside anonymous namespaces. */
#define RPCORDMA_SUITE(suite, ...)                                             \
	static constexpr ::rpcordma::test::Case rpcordma_cases_##suite[] = {   \
		RPCORDMA_EACH_(RPCORDMA_CASE_, suite, __VA_ARGS__)};           \
	static_assert(::rpcordma::test::all_different(rpcordma_cases_##suite), \
		      "a test is listed twice");                               \
	extern "C" const ::rpcordma::test::Suite rpcordma_suite_##suite;       \
	const ::rpcordma::test::Suite rpcordma_suite_##suite = {               \
		#suite, rpcordma_cases_##suite,                                \
		sizeof(rpcordma_cases_##suite) / sizeof(rpcordma_cases_##suite[0])}

#define RPCORDMA_CASE_(suite, name) {#name, rpcordma_test_##suite##_##name},

/* Apply a macro to up to 341 names: each scan expands one more step of the recursion. */
#define RPCORDMA_PARENS_ ()
#define RPCORDMA_SCAN_(...) \
	RPCORDMA_SCAN4_(RPCORDMA_SCAN4_(RPCORDMA_SCAN4_(RPCORDMA_SCAN4_(__VA_ARGS__))))
#define RPCORDMA_SCAN4_(...) \
	RPCORDMA_SCAN3_(RPCORDMA_SCAN3_(RPCORDMA_SCAN3_(RPCORDMA_SCAN3_(__VA_ARGS__))))
#define RPCORDMA_SCAN3_(...) \
	RPCORDMA_SCAN2_(RPCORDMA_SCAN2_(RPCORDMA_SCAN2_(RPCORDMA_SCAN2_(__VA_ARGS__))))
#define RPCORDMA_SCAN2_(...) \
	RPCORDMA_SCAN1_(RPCORDMA_SCAN1_(RPCORDMA_SCAN1_(RPCORDMA_SCAN1_(__VA_ARGS__))))
#define RPCORDMA_SCAN1_(...) __VA_ARGS__
#define RPCORDMA_EACH_(macro, fixed, ...) \
	__VA_OPT__(RPCORDMA_SCAN_(RPCORDMA_STEP_(macro, fixed, __VA_ARGS__)))
#define RPCORDMA_STEP_(macro, fixed, first, ...) \
	macro(fixed, first) __VA_OPT__(RPCORDMA_AGAIN_ RPCORDMA_PARENS_(macro, fixed, __VA_ARGS__))
#define RPCORDMA_AGAIN_() RPCORDMA_STEP_

/** Until the end of the scope, each failure also shows @name and the value of now. */
#define TEST_NOTE(name, value)                                      \
	const ::rpcordma::test::Note RPCORDMA_JOIN_(rpcordma_note_, \
						    __LINE__)(name, ::rpcordma::test::shown(value))
#define RPCORDMA_JOIN_(a, b) RPCORDMA_JOIN2_(a, b)
#define RPCORDMA_JOIN2_(a, b) a##b

/** Leave the case (from a function that returns void); it is counted as skipped, with @reason. */
#define TEST_SKIP(reason)                   \
	do {                                \
		rpcordma_test_skip(reason); \
		return;                     \
	} while (0)

#define RPCORDMA_COMPARE_(macro, a, b, holds, otherwise)                              \
	do {                                                                          \
		const auto rpcordma_l_ = (a);                                         \
		const auto rpcordma_r_ = (b);                                         \
		if (__builtin_expect(!(holds), 0)) {                                  \
			::rpcordma::test::fail(__FILE__, __LINE__, macro, #a, #b,     \
					       ::rpcordma::test::shown(rpcordma_l_),  \
					       ::rpcordma::test::shown(rpcordma_r_)); \
			otherwise;                                                    \
		}                                                                     \
	} while (0)
#define RPCORDMA_EQ_ ::rpcordma::test::equal(rpcordma_l_, rpcordma_r_)
#define RPCORDMA_LT_ ::rpcordma::test::less(rpcordma_l_, rpcordma_r_)
#define RPCORDMA_GT_ ::rpcordma::test::less(rpcordma_r_, rpcordma_l_)

#define EXPECT_EQ(a, b) RPCORDMA_COMPARE_("EXPECT_EQ", a, b, RPCORDMA_EQ_, (void)0)
#define EXPECT_NE(a, b) RPCORDMA_COMPARE_("EXPECT_NE", a, b, !RPCORDMA_EQ_, (void)0)
#define EXPECT_LT(a, b) RPCORDMA_COMPARE_("EXPECT_LT", a, b, RPCORDMA_LT_, (void)0)
#define EXPECT_LE(a, b) RPCORDMA_COMPARE_("EXPECT_LE", a, b, !RPCORDMA_GT_, (void)0)
#define EXPECT_GT(a, b) RPCORDMA_COMPARE_("EXPECT_GT", a, b, RPCORDMA_GT_, (void)0)
#define EXPECT_GE(a, b) RPCORDMA_COMPARE_("EXPECT_GE", a, b, !RPCORDMA_LT_, (void)0)

#define ASSERT_EQ(a, b) RPCORDMA_COMPARE_("ASSERT_EQ", a, b, RPCORDMA_EQ_, return )
#define ASSERT_NE(a, b) RPCORDMA_COMPARE_("ASSERT_NE", a, b, !RPCORDMA_EQ_, return )
#define ASSERT_LT(a, b) RPCORDMA_COMPARE_("ASSERT_LT", a, b, RPCORDMA_LT_, return )
#define ASSERT_LE(a, b) RPCORDMA_COMPARE_("ASSERT_LE", a, b, !RPCORDMA_GT_, return )
#define ASSERT_GT(a, b) RPCORDMA_COMPARE_("ASSERT_GT", a, b, RPCORDMA_GT_, return )
#define ASSERT_GE(a, b) RPCORDMA_COMPARE_("ASSERT_GE", a, b, !RPCORDMA_LT_, return )

#define RPCORDMA_TRUTH_(macro, a, want, otherwise)                                     \
	do {                                                                           \
		if (__builtin_expect(static_cast<bool>(a) != (want), 0)) {             \
			::rpcordma::test::fail(__FILE__, __LINE__, macro, #a, nullptr, \
					       ::rpcordma::test::shown(!(want)), {});  \
			otherwise;                                                     \
		}                                                                      \
	} while (0)
#define EXPECT_TRUE(a) RPCORDMA_TRUTH_("EXPECT_TRUE", a, true, (void)0)
#define EXPECT_FALSE(a) RPCORDMA_TRUTH_("EXPECT_FALSE", a, false, (void)0)
#define ASSERT_TRUE(a) RPCORDMA_TRUTH_("ASSERT_TRUE", a, true, return )
#define ASSERT_FALSE(a) RPCORDMA_TRUTH_("ASSERT_FALSE", a, false, return )

/* A Result or Status, by its error; a failure shows the positive errno (0: none). */
#define RPCORDMA_ERROR_(macro, a, want, otherwise)                                    \
	do {                                                                          \
		const ::rpcordma::Error rpcordma_e_ = (a).error();                    \
		const ::rpcordma::Error rpcordma_w_ = (want);                         \
		if (__builtin_expect(rpcordma_e_ != rpcordma_w_, 0)) {                \
			::rpcordma::test::fail(__FILE__, __LINE__, macro, #a, #want,  \
					       ::rpcordma::test::shown(rpcordma_e_),  \
					       ::rpcordma::test::shown(rpcordma_w_)); \
			otherwise;                                                    \
		}                                                                     \
	} while (0)
#define EXPECT_OK(a) RPCORDMA_ERROR_("EXPECT_OK", a, ::rpcordma::Error::none, (void)0)
#define ASSERT_OK(a) RPCORDMA_ERROR_("ASSERT_OK", a, ::rpcordma::Error::none, return )
#define EXPECT_ERROR(a, e) RPCORDMA_ERROR_("EXPECT_ERROR", a, e, (void)0)
#define ASSERT_ERROR(a, e) RPCORDMA_ERROR_("ASSERT_ERROR", a, e, return )

/* Two spans of bytes: equal in length and content. */
#define EXPECT_BYTES(a, b)                                                                     \
	do {                                                                                   \
		(void)::rpcordma::test::same_bytes(__FILE__, __LINE__, "EXPECT_BYTES", #a, #b, \
						   (a), (b));                                  \
	} while (0)
#define ASSERT_BYTES(a, b)                                                                         \
	do {                                                                                       \
		if (!::rpcordma::test::same_bytes(__FILE__, __LINE__, "ASSERT_BYTES", #a, #b, (a), \
						  (b)))                                            \
			return;                                                                    \
	} while (0)
