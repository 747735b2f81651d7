/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the unit tests need from the world they run in, and what they offer to it. Read by C and
 * C++. Two sides provide the first half: kunit_glue.c in a kernel (KUnit), host_glue.cc on the
 * host (GoogleTest). testing.cc provides the second half to both. Test files do not include this
 * file: they include kunit/testing.hh.
 *
 * Tests run one at a time, in process context, and may sleep.
 */
#ifndef RPCORDMA_KUNIT_PORT_H
#define RPCORDMA_KUNIT_PORT_H

#ifdef __cplusplus
extern "C" {
#endif

enum rpcordma_test_kind {
	RPCORDMA_TEST_OBJECT, /* nothing to show */
	RPCORDMA_TEST_SIGNED,
	RPCORDMA_TEST_UNSIGNED,
	RPCORDMA_TEST_BOOLEAN,
	RPCORDMA_TEST_POINTER,
};

/* A value as a failure report shows it. */
struct rpcordma_test_value {
	enum rpcordma_test_kind kind;
	unsigned long long bits; /* sign-extended when kind is SIGNED */
};

/* A name and a value that hold for a scope (TEST_NOTE), innermost first. */
struct rpcordma_test_note {
	const struct rpcordma_test_note *outer;
	const char *name;
	struct rpcordma_test_value value;
};

/* An expectation that did not hold. */
struct rpcordma_test_failure {
	const char *file;
	int line;
	const char *macro; /* "EXPECT_EQ" */
	const char *left, *right; /* the expressions as written; right is null for one operand */
	struct rpcordma_test_value left_value, right_value;
	const struct rpcordma_test_note *notes;
};

/* --- provided by the side --- */

/* Count @failure against the running case and print it. Returns; the case goes on. */
void rpcordma_test_report(const struct rpcordma_test_failure *failure);

/* Mark the running case as skipped, for @reason. The caller then returns from the case. */
void rpcordma_test_skip(const char *reason);

/*
 * Memory of exactly @size bytes, so that the sanitizer sees the first byte beyond. Contents
 * undefined. @size may be 0: then no byte may be touched. Never returns null: a case that finds no
 * memory fails and ends here.
 */
void *rpcordma_test_alloc(__SIZE_TYPE__ size);

/* Give back what rpcordma_test_alloc() returned for @size. */
void rpcordma_test_free(void *memory, __SIZE_TYPE__ size);

/* --- provided by testing.cc --- */

unsigned int rpcordma_test_suite_count(void);
const char *rpcordma_test_suite_name(unsigned int suite);
unsigned int rpcordma_test_case_count(unsigned int suite);
const char *rpcordma_test_case_name(unsigned int suite, unsigned int index);

/* Run one case and free what it allocated with test_alloc(). */
void rpcordma_test_run(unsigned int suite, unsigned int index);

#ifdef __cplusplus
}
#endif

#endif
