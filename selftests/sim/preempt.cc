// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interruptions within the module (PREEMPT=1). The module is compiled with -fsanitize=thread, but nothing of that
 * sanitizer's is linked: the functions that the compiler calls at each access to memory and in place of each atomic
 * operation are these. By chance another fiber runs first, so that what is between a check and what relies on it takes
 * any time, wherever it is in the source. And each access is looked up in ASan's shadow, as the compiler has one
 * sanitizer of the two only.
 */
#include "selftests/sim/world.hh"

#ifndef SIM_PREEMPT

void sim::draw_preemption()
{
}

#else

#include <sanitizer/asan_interface.h>

namespace sim {
namespace {

u32 accesses_apart, atomics_apart; /* of two interruptions, in the mean; 0: never */
u32 accesses_left;

void draw_next()
{
	accesses_left = accesses_apart ? 1 + chance.below(2 * accesses_apart + 1) : ~u32(0);
}

__attribute__((noinline)) void interrupt()
{
	draw_next();
	give_way();
}

void wrong(const void *at, std::size_t size, const char *what)
{
	__asan_describe_address(const_cast<void *>(at));
	fail("the module %s %zu bytes where there is no memory of its own", what, size);
}

inline void access(const void *at, std::size_t size, const char *what)
{
	if (__builtin_expect(!--accesses_left, 0))
		interrupt();
	if (__builtin_expect(__asan_region_is_poisoned(const_cast<void *>(at), size) != nullptr, 0))
		wrong(at, size, what);
}

inline void beside_atomic()
{
	if (chance.one_in(atomics_apart))
		give_way();
}

/* Around an atomic operation. */
class Window {
public:
	Window(const volatile void *at, std::size_t size)
	{
		access(const_cast<const void *>(at), size, "has an atomic operation on");
		beside_atomic();
	}
	~Window()
	{
		beside_atomic();
	}
};

} // namespace

void draw_preemption()
{
	static const u32 accesses[] = {0, 20, 60, 200, 1000, 5000};
	static const u32 atomics[] = {0, 2, 8, 32};

	accesses_apart = chance.any_of(accesses);
	atomics_apart = chance.any_of(atomics);
	draw_next();
}

} // namespace sim

extern "C" {

void __tsan_init()
{
}

#define ACCESS(alignment, size)                        \
	void __tsan_##alignment##read##size(void *at)  \
	{                                              \
		sim::access(at, size, "reads");        \
	}                                              \
	void __tsan_##alignment##write##size(void *at) \
	{                                              \
		sim::access(at, size, "writes");       \
	}
ACCESS(, 1)
ACCESS(, 2)
ACCESS(, 4)
ACCESS(, 8)
ACCESS(, 16)
ACCESS(unaligned_, 2)
ACCESS(unaligned_, 4)
ACCESS(unaligned_, 8)
ACCESS(unaligned_, 16)

void __tsan_read_range(void *at, long size)
{
	sim::access(at, size, "reads");
}

void __tsan_write_range(void *at, long size)
{
	sim::access(at, size, "writes");
}

void __tsan_vptr_update(void *, void *)
{
}

/* As the compiler declares them. */
#define AT(type) static_cast<volatile type *>(at)
#define RMW(type, bits, name)                                                 \
	type __tsan_atomic##bits##_##name(volatile void *at, type value, int) \
	{                                                                     \
		sim::Window window(at, sizeof(type));                         \
		return __atomic_##name(AT(type), value, __ATOMIC_SEQ_CST);    \
	}
#define EXCHANGE_IF(type, bits, kind)                                                          \
	bool __tsan_atomic##bits##_compare_exchange_##kind(volatile void *at, void *old,       \
							   type value, int, int)               \
	{                                                                                      \
		sim::Window window(at, sizeof(type));                                          \
		return __atomic_compare_exchange_n(AT(type), static_cast<type *>(old), value,  \
						   false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
	}
#define ATOMIC(type, bits)                                                                        \
	type __tsan_atomic##bits##_load(const volatile void *at, int)                             \
	{                                                                                         \
		sim::Window window(at, sizeof(type));                                             \
		return __atomic_load_n(static_cast<const volatile type *>(at), __ATOMIC_SEQ_CST); \
	}                                                                                         \
	void __tsan_atomic##bits##_store(volatile void *at, type value, int)                      \
	{                                                                                         \
		sim::Window window(at, sizeof(type));                                             \
		__atomic_store_n(AT(type), value, __ATOMIC_SEQ_CST);                              \
	}                                                                                         \
	type __tsan_atomic##bits##_exchange(volatile void *at, type value, int)                   \
	{                                                                                         \
		sim::Window window(at, sizeof(type));                                             \
		return __atomic_exchange_n(AT(type), value, __ATOMIC_SEQ_CST);                    \
	}                                                                                         \
	RMW(type, bits, fetch_add)                                                                \
	RMW(type, bits, fetch_sub)                                                                \
	RMW(type, bits, fetch_and)                                                                \
	RMW(type, bits, fetch_or)                                                                 \
	RMW(type, bits, fetch_xor)                                                                \
	EXCHANGE_IF(type, bits, strong)                                                           \
	EXCHANGE_IF(type, bits, weak)
ATOMIC(unsigned char, 8)
ATOMIC(unsigned short, 16)
ATOMIC(unsigned int, 32)
ATOMIC(unsigned long, 64)

void __tsan_atomic_thread_fence(int)
{
	sim::beside_atomic();
}

void __tsan_atomic_signal_fence(int)
{
}
}

#endif
