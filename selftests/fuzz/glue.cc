// SPDX-License-Identifier: GPL-2.0-only
/*
 * libFuzzer's side of a target: see fuzz.hh. Provides what kunit/port.h wants of its surroundings, with
 * kunit/host_text.cc. The program takes libFuzzer's arguments.
 */
#include "fuzz.hh"

#include <cstdio>
#include <cstdlib>

#include "kunit/host_text.hh"

namespace {

rpcordma::Bytes input;

} // namespace

/* A simulated world counts its memory itself, and has stacks that ASan cannot have twice (selftests/sim/main.cc). */
extern "C" const char *__asan_default_options();
extern "C" const char *__asan_default_options()
{
	return "detect_leaks=0:detect_stack_use_after_return=0:quarantine_size_mb=32:"
	       "malloc_context_size=8:max_redzone=128";
}

rpcordma::Input::Input() : left_(input)
{
}

extern "C" void rpcordma_test_report(const rpcordma_test_failure *f)
{
	fprintf(stderr, "%s:%d: %s\n", f->file, f->line, rpcordma::failure_text(*f).c_str());
	abort();
}

extern "C" void rpcordma_test_skip(const char *)
{
	abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input = {data, size};
	rpcordma_test_run(0, 0);
	return 0;
}
