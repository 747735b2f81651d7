// SPDX-License-Identifier: GPL-2.0-only
/*
 * libFuzzer's side of a target: see fuzz.hh. Provides what kunit/port.h wants of its surroundings. The
 * program takes libFuzzer's arguments.
 */
#include "fuzz.hh"

#include <cstdio>
#include <cstdlib>

namespace {

rpcordma::Bytes input;

void print(const rpcordma_test_value &v)
{
	if (v.kind == RPCORDMA_TEST_SIGNED)
		fprintf(stderr, " %lld", static_cast<long long>(v.bits));
	else if (v.kind != RPCORDMA_TEST_OBJECT)
		fprintf(stderr, " %llu (0x%llx)", v.bits, v.bits);
}

} // namespace

rpcordma::Input::Input() : left_(input)
{
}

extern "C" void rpcordma_test_report(const rpcordma_test_failure *f)
{
	fprintf(stderr, "%s:%d: %s(%s%s%s)\n\tleft: ", f->file, f->line, f->macro, f->left,
		f->right ? ", " : "", f->right ? f->right : "");
	print(f->left_value);
	if (f->right) {
		fprintf(stderr, "\n\tright:");
		print(f->right_value);
	}
	for (const rpcordma_test_note *n = f->notes; n; n = n->outer) {
		fprintf(stderr, "\n\twith %s:", n->name);
		print(n->value);
	}
	fprintf(stderr, "\n");
	abort();
}

extern "C" void rpcordma_test_skip(const char *)
{
	abort();
}

/* As host_glue.cc. */
extern "C" void *rpcordma_test_alloc(size_t size)
{
	char *p = static_cast<char *>(malloc(size ? size : 1));

	if (!p)
		abort();
	return size ? p : p + 1;
}

extern "C" void rpcordma_test_free(void *memory, size_t size)
{
	free(size ? memory : static_cast<char *>(memory) - 1);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input = {data, size};
	rpcordma_test_run(0, 0);
	return 0;
}
