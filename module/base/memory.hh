// SPDX-License-Identifier: GPL-2.0-only
/*
 * Owners of the port's memory. What they own goes when they go; none can be copied.
 */
#pragma once

#include <new>

#include "compat/port/port.h"
#include "module/base/span.hh"
#include "module/base/types.hh"

namespace rpcordma {

/** Where an owned object lies: as rpcordma_alloc() has it, or as rpcordma_alloc_large(). */
struct Heap {
	[[nodiscard]] static void *allocate(usize size, rpcordma_alloc_how how)
	{
		return rpcordma_alloc(size, how);
	}
	[[nodiscard]] static void *allocate_near(const rpcordma_endpoint *endpoint, usize size,
						 rpcordma_alloc_how how)
	{
		return rpcordma_alloc_near(endpoint, size, how);
	}
	static void release(void *p)
	{
		rpcordma_free(p);
	}
};
struct LargeHeap {
	[[nodiscard]] static void *allocate(usize size, rpcordma_alloc_how how)
	{
		return rpcordma_alloc_large(size, how);
	}
	static void release(void *p)
	{
		rpcordma_free_large(p);
	}
};

/** Owns one T, or nothing. */
template <typename T, typename From = Heap> class Owned {
public:
	Owned() = default;
	Owned(Owned &&other) noexcept : object_(other.let_go())
	{
	}
	Owned &operator=(Owned &&other) noexcept
	{
		reset(other.let_go());
		return *this;
	}
	Owned(const Owned &) = delete;
	Owned &operator=(const Owned &) = delete;
	~Owned()
	{
		reset(nullptr);
	}
	/** A new T, or nothing without memory. @how names the contexts from which this may be called. */
	[[nodiscard]] static Owned create(rpcordma_alloc_how how)
	{
		return made_at_(From::allocate(sizeof(T), how));
	}
	/** As that, of memory near @endpoint's device, where there is some. */
	[[nodiscard]] static Owned create_near(const rpcordma_endpoint *endpoint,
					       rpcordma_alloc_how how)
	{
		return made_at_(From::allocate_near(endpoint, sizeof(T), how));
	}
	/** Take over @object, which create() made and let_go() gave away. */
	[[nodiscard]] static Owned take_over(T *object)
	{
		return Owned(object);
	}
	[[nodiscard]] explicit operator bool() const
	{
		return object_ != nullptr;
	}
	[[nodiscard]] T *get() const
	{
		return object_;
	}
	[[nodiscard]] T *operator->() const
	{
		return object_;
	}
	[[nodiscard]] T &operator*() const
	{
		return *object_;
	}
	/** Own it no longer: it is the caller's. */
	[[nodiscard]] T *let_go()
	{
		T *object = object_;

		object_ = nullptr;
		return object;
	}

private:
	explicit Owned(T *object) : object_(object)
	{
	}
	[[nodiscard]] static Owned made_at_(void *place)
	{
		return Owned(place ? new (place) T : nullptr);
	}
	void reset(T *object)
	{
		if (object_) {
			object_->~T();
			From::release(object_);
		}
		object_ = object;
	}
	T *object_ = nullptr;
};

/** Owns a run of bytes, or nothing. */
class Buffer {
public:
	Buffer() = default;
	Buffer(const Buffer &) = delete;
	Buffer &operator=(const Buffer &) = delete;
	~Buffer()
	{
		rpcordma_free(data_);
	}
	/**
	 * Have @size bytes, zeroed, in place of what there was; false without memory, and then what there was
	 * stays.
	 */
	[[nodiscard]] bool create(usize size, rpcordma_alloc_how how)
	{
		return take_(rpcordma_alloc(size, how), size);
	}
	/** Have nothing. */
	void release()
	{
		rpcordma_free(data_);
		data_ = nullptr;
		size_ = 0;
	}
	/** As create(), near @endpoint's device, which is to read or write it. */
	[[nodiscard]] bool create_near(const rpcordma_endpoint *endpoint, usize size,
				       rpcordma_alloc_how how)
	{
		return take_(rpcordma_alloc_near(endpoint, size, how), size);
	}
	[[nodiscard]] u8 *data() const
	{
		return data_;
	}
	[[nodiscard]] usize size() const
	{
		return size_;
	}
	[[nodiscard]] explicit operator bool() const
	{
		return data_ != nullptr;
	}
	[[nodiscard]] MutableBytes bytes() const
	{
		return {data_, size_};
	}

private:
	[[nodiscard]] bool take_(void *data, usize size)
	{
		if (!data)
			return false;
		rpcordma_free(data_);
		data_ = static_cast<u8 *>(data);
		size_ = size;
		return true;
	}

	u8 *data_ = nullptr;
	usize size_ = 0;
};

} // namespace rpcordma
