// SPDX-License-Identifier: GPL-2.0-only
/* Fibers. See fiber.hh. */
#include "selftests/sim/fiber.hh"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(at, length) ((void)(at), (void)(length))
static void __sanitizer_start_switch_fiber(void **, const void *, std::size_t)
{
}
static void __sanitizer_finish_switch_fiber(void *, const void **, std::size_t *)
{
}
#endif

/* void sim_switch_stack(void **save, void *load) */
#if defined(__x86_64__)
asm(R"(
	.text
	.type sim_switch_stack, @function
sim_switch_stack:
	push %rbp
	push %rbx
	push %r12
	push %r13
	push %r14
	push %r15
	mov %rsp, (%rdi)
	mov %rsi, %rsp
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbx
	pop %rbp
	ret
	.size sim_switch_stack, .-sim_switch_stack
)");
#elif defined(__s390x__)
/* Whoever calls has room for the general registers at the end of its stack; the others go below. */
asm(R"(
	.text
	.type sim_switch_stack, @function
sim_switch_stack:
	stmg %r6,%r15,48(%r15)
	aghi %r15,-64
	std %f8,0(%r15)
	std %f9,8(%r15)
	std %f10,16(%r15)
	std %f11,24(%r15)
	std %f12,32(%r15)
	std %f13,40(%r15)
	std %f14,48(%r15)
	std %f15,56(%r15)
	stg %r15,0(%r2)
	lgr %r15,%r3
	ld %f8,0(%r15)
	ld %f9,8(%r15)
	ld %f10,16(%r15)
	ld %f11,24(%r15)
	ld %f12,32(%r15)
	ld %f13,40(%r15)
	ld %f14,48(%r15)
	ld %f15,56(%r15)
	lmg %r6,%r15,112(%r15)
	br %r14
	.size sim_switch_stack, .-sim_switch_stack
)");
#else
#error "the switch of stacks is not written for this machine: add it to fiber.cc"
#endif
extern "C" void sim_switch_stack(void **save, void *load);

namespace sim {
namespace {

constexpr std::size_t kGuard = 4096;

std::vector<char *> spare_stacks;

/* On the stack at @top, which is new, what sim_switch_stack() would have left there for its return to @enter. */
void *prepare_stack(char *top, void (*enter)())
{
	auto *words = reinterpret_cast<std::uintptr_t *>(top);
#if defined(__x86_64__)
	*--words = 0;
	*--words = reinterpret_cast<std::uintptr_t>(enter);
	/* Six registers. */
	for (int i = 0; i < 6; i++)
		*--words = 0;
#elif defined(__s390x__)
	/* The frame that @enter's caller would have: its registers from the 6th on are behind six words. */
	std::uintptr_t *const frame = words -= 160 / sizeof(*words);

	for (std::size_t i = 0; i < 160 / sizeof(*words); i++)
		frame[i] = 0;
	frame[14] = reinterpret_cast<std::uintptr_t>(enter);
	frame[15] = reinterpret_cast<std::uintptr_t>(frame);
	for (int i = 0; i < 8; i++)
		*--words = 0;
#endif
	return words;
}

/* Between two strands: whom the one that arrives came from, and who it is. */
Strand *leaving, *arriving;

} // namespace

FiberStack FiberStack::take()
{
	FiberStack stack;

	if (!spare_stacks.empty()) {
		stack.bottom = spare_stacks.back();
		spare_stacks.pop_back();
		return stack;
	}
	void *at = mmap(nullptr, kSize + kGuard, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED || mprotect(at, kGuard, PROT_NONE)) {
		std::perror("sim: no memory for a stack");
		std::abort();
	}
	stack.bottom = static_cast<char *>(at) + kGuard;
	return stack;
}

void FiberStack::give_back()
{
	if (!bottom)
		return;
	ASAN_UNPOISON_MEMORY_REGION(bottom, kSize);
	spare_stacks.push_back(bottom);
	bottom = nullptr;
}

Strand::Strand(std::function<void()> body) : body_(std::move(body)), stack_(FiberStack::take())
{
	bottom_ = stack_.bottom;
	size_ = FiberStack::kSize;
	stack_pointer_ = prepare_stack(stack_.bottom + FiberStack::kSize, &Strand::enter_);
}

Strand::~Strand()
{
	stack_.give_back();
}

/* Of the strand that was left ASan knows the stack now: the thread's own is learnt so. */
void Strand::arrived_(void *fake_stack)
{
	const void *bottom;
	std::size_t size;

	__sanitizer_finish_switch_fiber(fake_stack, &bottom, &size);
#if defined(__SANITIZE_ADDRESS__)
	leaving->bottom_ = bottom;
	leaving->size_ = size;
#endif
}

void Strand::enter_()
{
	Strand *self = arriving;

	self->arrived_(nullptr);
	self->body_();
	std::abort(); /* a body ends with finish() */
}

void Strand::switch_to(Strand &to)
{
	void *fake_stack = nullptr;

	__sanitizer_start_switch_fiber(&fake_stack, to.bottom_, to.size_);
	leaving = this;
	arriving = &to;
	sim_switch_stack(&stack_pointer_, to.stack_pointer_);
	arrived_(fake_stack);
}

void Strand::finish(Strand &to)
{
	__sanitizer_start_switch_fiber(nullptr, to.bottom_, to.size_);
	leaving = this;
	arriving = &to;
	sim_switch_stack(&stack_pointer_, to.stack_pointer_);
	std::abort();
}

} // namespace sim
