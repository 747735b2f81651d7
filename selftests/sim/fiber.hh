// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fibers: functions with a stack of their own, that give up the processor where they choose to. The
 * switch saves what the System V ABI has a callee save; ASan is told of each, so that its view of the
 * stacks is right. Who runs next is the scheduler's business (world.hh).
 */
#pragma once

#include <cstddef>
#include <functional>

namespace sim {

class FiberStack {
public:
	static constexpr std::size_t kSize = 256 * 1024;

	/** Stacks are used again and again: mapping one costs more than a whole fiber does. */
	static FiberStack take();
	void give_back();

	char *bottom = nullptr;
};

/** What is switched to and from: a fiber, or the thread's own stack when it has no function. */
class Strand {
public:
	Strand() = default;
	explicit Strand(std::function<void()> body);
	~Strand();
	Strand(const Strand &) = delete;
	Strand &operator=(const Strand &) = delete;

	/** Leave this strand, which must be the one that runs, for @to; returns when somebody comes back. */
	void switch_to(Strand &to);
	/** As that, for good. The function must have left nothing behind. */
	[[noreturn]] void finish(Strand &to);

private:
	static void enter_();
	void arrived_(void *fake_stack);

	std::function<void()> body_;
	FiberStack stack_;
	void *stack_pointer_ = nullptr;
	const void *bottom_ = nullptr; /* as ASan has it */
	std::size_t size_ = 0;
};

} // namespace sim
