// SPDX-License-Identifier: GPL-2.0-only
/*
 * The part of the test framework that both sides share: the table of suites, notes, and the
 * memory of a case. Printing and counting are the sides' (kunit/port.h).
 *
 * All state here is global and unlocked: one case runs at a time.
 */
#include "kunit/testing.hh"

#define RPCORDMA_LIST_SUITE(name) extern "C" const rpcordma::test::Suite rpcordma_suite_##name;
#include "kunit_suites.inc" /* generated: one line per RPCORDMA_SUITE of kunit/test_*.cc */
#undef RPCORDMA_LIST_SUITE

namespace rpcordma {
namespace {

const test::Suite *const suites[] = {
#define RPCORDMA_LIST_SUITE(name) &rpcordma_suite_##name,
#include "kunit_suites.inc"
#undef RPCORDMA_LIST_SUITE
};

const rpcordma_test_note *notes;

/* Kept apart from the memory it stands for, so that a read before its start is seen too. */
struct Allocation {
	Allocation *next;
	u8 *memory;
	usize size;
};
Allocation *allocations;

void free_allocations()
{
	while (Allocation *a = allocations) {
		allocations = a->next;
		rpcordma_test_free(a->memory, a->size);
		rpcordma_test_free(a, sizeof(*a));
	}
}

} // namespace

namespace test {

void fail(const char *file, int line, const char *macro, const char *left, const char *right,
	  rpcordma_test_value left_value, rpcordma_test_value right_value)
{
	const rpcordma_test_failure failure = {file,  line,	  macro,       left,
					       right, left_value, right_value, notes};

	rpcordma_test_report(&failure);
}

bool same_bytes(const char *file, int line, const char *macro, const char *left, const char *right,
		Bytes a, Bytes b)
{
	if (a.size() != b.size()) {
		const Note note("the values are the lengths; left", shown(a.size()));
		fail(file, line, macro, left, right, shown(a.size()), shown(b.size()));
		return false;
	}
	for (usize i = 0; i < a.size(); i++) {
		if (a[i] == b[i])
			continue;
		const Note note("first difference at offset", shown(i));
		fail(file, line, macro, left, right, shown(a[i]), shown(b[i]));
		return false;
	}
	return true;
}

Note::Note(const char *name, rpcordma_test_value value) : note_{notes, name, value}
{
	notes = &note_;
}

Note::~Note()
{
	notes = note_.outer;
}

} // namespace test

MutableBytes test_alloc(usize size)
{
	auto *memory = static_cast<u8 *>(rpcordma_test_alloc(size));
	auto *entry = static_cast<Allocation *>(rpcordma_test_alloc(sizeof(Allocation)));

	*entry = {allocations, memory, size};
	allocations = entry;
	return {memory, size};
}

MutableBytes test_copy(Bytes bytes)
{
	MutableBytes copy = test_alloc(bytes.size());

	if (!bytes.empty())
		__builtin_memcpy(copy.data(), bytes.data(), bytes.size());
	return copy;
}

ExactCopy::ExactCopy(Bytes bytes)
	: bytes_(static_cast<u8 *>(rpcordma_test_alloc(bytes.size())), bytes.size())
{
	if (!bytes.empty())
		__builtin_memcpy(bytes_.data(), bytes.data(), bytes.size());
}

ExactCopy::~ExactCopy()
{
	rpcordma_test_free(bytes_.data(), bytes_.size());
}

} // namespace rpcordma

unsigned int rpcordma_test_suite_count()
{
	return sizeof(rpcordma::suites) / sizeof(rpcordma::suites[0]);
}

const char *rpcordma_test_suite_name(unsigned int suite)
{
	return rpcordma::suites[suite]->name;
}

unsigned int rpcordma_test_case_count(unsigned int suite)
{
	return rpcordma::suites[suite]->count;
}

const char *rpcordma_test_case_name(unsigned int suite, unsigned int index)
{
	return rpcordma::suites[suite]->cases[index].name;
}

void rpcordma_test_run(unsigned int suite, unsigned int index)
{
	/* A case that ended by force (no memory) left these behind. */
	rpcordma::notes = nullptr;
	rpcordma::free_allocations();

	rpcordma::suites[suite]->cases[index].run();
	rpcordma::free_allocations();
}
