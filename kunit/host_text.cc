// SPDX-License-Identifier: GPL-2.0-only
/*
 * What kunit/port.h wants of any program on the host, whoever counts the failures: failures in words, and
 * memory of which ASan sees every byte.
 */
#include "kunit/host_text.hh"

#include <cstdio>
#include <cstdlib>

namespace {

std::string text(const rpcordma_test_value &v)
{
	char s[64];

	switch (v.kind) {
	case RPCORDMA_TEST_SIGNED:
		std::snprintf(s, sizeof(s), "%lld", static_cast<long long>(v.bits));
		return s;
	case RPCORDMA_TEST_UNSIGNED:
		std::snprintf(s, sizeof(s), "%llu (0x%llx)", v.bits, v.bits);
		return s;
	case RPCORDMA_TEST_BOOLEAN:
		return v.bits ? "true" : "false";
	case RPCORDMA_TEST_POINTER:
		std::snprintf(s, sizeof(s), "0x%llx", v.bits);
		return s;
	case RPCORDMA_TEST_OBJECT:
		break;
	}
	return "(an object)";
}

} // namespace

std::string rpcordma::failure_text(const rpcordma_test_failure &f)
{
	std::string s = std::string(f.macro) + "(" + f.left;

	if (f.right)
		s += std::string(", ") + f.right;
	s += ")\n\tleft:  " + text(f.left_value);
	if (f.right)
		s += "\n\tright: " + text(f.right_value);
	for (const rpcordma_test_note *n = f.notes; n; n = n->outer)
		s += std::string("\n\twith ") + n->name + ": " + text(n->value);
	return s;
}

/*
 * ASan gives malloc(0) one usable byte. So ask for one and hand out the end of it: the first byte
 * touched is then in the red zone.
 */
extern "C" void *rpcordma_test_alloc(size_t size)
{
	/* As kmalloc() has it. */
	const bool natural = size >= 64 && !(size & (size - 1));
	char *p = static_cast<char *>(natural ? std::aligned_alloc(size, size) :
						std::malloc(size ? size : 1));

	if (!p) {
		std::fprintf(stderr, "no memory for %zu bytes\n", size);
		std::abort();
	}
	return size ? p : p + 1;
}

extern "C" void rpcordma_test_free(void *memory, size_t size)
{
	std::free(size ? memory : static_cast<char *>(memory) - 1);
}
