// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel side of the unit tests: a module that hands every suite to KUnit when it is loaded.
 * Results are in /sys/kernel/debug/kunit/<suite>/results until it is unloaded.
 *
 * KUnit wants arrays of its own structures, and its macros want them static. Which tests there are
 * is known to C++ alone, so they are built here at load time. KUnit tells a case neither its suite
 * nor its index: the suite comes from suite_init, the index from the name.
 *
 * Only one case runs at a time, so the current one is a plain global.
 */
#include <kunit/test.h>
#include <linux/glob.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "kunit/port.h"

/* A loop that fails a million times must not fill the log; KUnit counts the case, not these. */
#define SHOWN_FAILURES_PER_CASE 16

static char *filter = "*";
module_param(filter, charp, 0444);
MODULE_PARM_DESC(filter, "run only the cases whose SUITE.NAME matches this glob (default *)");

struct our_suite {
	struct kunit_suite suite;
	unsigned int number;
};

static struct our_suite *all_suites;
static struct kunit_suite **selected;
static unsigned int selected_count;

static struct our_suite *current_suite;
static struct kunit *current_test;
static unsigned int current_failures;

static int enter_suite(struct kunit_suite *suite)
{
	current_suite = container_of(suite, struct our_suite, suite);
	return 0;
}

static void run_case(struct kunit *test)
{
	unsigned int suite = current_suite->number;
	unsigned int i, n = rpcordma_test_case_count(suite);

	for (i = 0; i < n; i++) {
		if (strcmp(rpcordma_test_case_name(suite, i), test->name))
			continue;
		current_test = test;
		current_failures = 0;
		rpcordma_test_run(suite, i);
		if (current_failures > SHOWN_FAILURES_PER_CASE)
			kunit_err(test, "%u expectations failed, %u of them shown\n",
				  current_failures, SHOWN_FAILURES_PER_CASE);
		current_test = NULL;
		return;
	}
	KUNIT_FAIL(test, "the case is in no list");
}

static const char *value_text(const struct rpcordma_test_value *value, char *text, size_t size)
{
	switch (value->kind) {
	case RPCORDMA_TEST_SIGNED:
		snprintf(text, size, "%lld", (long long)value->bits);
		return text;
	case RPCORDMA_TEST_UNSIGNED:
		snprintf(text, size, "%llu (0x%llx)", value->bits, value->bits);
		return text;
	case RPCORDMA_TEST_BOOLEAN:
		return value->bits ? "true" : "false";
	case RPCORDMA_TEST_POINTER:
		snprintf(text, size, "0x%llx", value->bits);
		return text;
	case RPCORDMA_TEST_OBJECT:
		break;
	}
	return "(an object)";
}

void rpcordma_test_report(const struct rpcordma_test_failure *f)
{
	const struct rpcordma_test_note *note;
	char left[48], right[48];

	/* As KUnit's own expectations do it, without their formatting. */
	WRITE_ONCE(current_test->status, KUNIT_FAILURE);
	if (++current_failures > SHOWN_FAILURES_PER_CASE)
		return;
	value_text(&f->left_value, left, sizeof(left));
	kunit_err(current_test, "%s:%d: %s(%s%s%s)\n", f->file, f->line, f->macro, f->left,
		  f->right ? ", " : "", f->right ? f->right : "");
	kunit_err(current_test, "  left:  %s\n", value_text(&f->left_value, left, sizeof(left)));
	if (f->right)
		kunit_err(current_test, "  right: %s\n",
			  value_text(&f->right_value, right, sizeof(right)));
	for (note = f->notes; note; note = note->outer)
		kunit_err(current_test, "  with %s: %s\n", note->name,
			  value_text(&note->value, left, sizeof(left)));
}

void rpcordma_test_skip(const char *reason)
{
	/* A failure before the skip stays a failure. */
	if (READ_ONCE(current_test->status) != KUNIT_FAILURE)
		kunit_mark_skipped(current_test, "%s", reason);
}

/* kmalloc(0) is no memory at all, but an address that faults: just what is asked for. */
void *rpcordma_test_alloc(size_t size)
{
	void *memory = kmalloc(size, GFP_KERNEL);

	if (!memory) {
		KUNIT_FAIL(current_test, "no %zu bytes to be had; the case ends here", size);
		kunit_try_catch_throw(&current_test->try_catch);
	}
	return memory;
}

void rpcordma_test_free(void *memory, size_t size)
{
	kfree(memory);
}

static void free_suites(void)
{
	unsigned int i;

	for (i = 0; all_suites && i < rpcordma_test_suite_count(); i++)
		kfree(all_suites[i].suite.test_cases);
	kfree(all_suites);
	kfree(selected);
}

/* The filter sees SUITE.NAME, as GoogleTest's does on the host. */
static bool __init wanted(unsigned int suite, unsigned int index)
{
	char name[256];

	snprintf(name, sizeof(name), "%s.%s", rpcordma_test_suite_name(suite),
		 rpcordma_test_case_name(suite, index));
	return glob_match(filter, name);
}

static int __init make_suite(unsigned int number)
{
	struct our_suite *ours = &all_suites[number];
	unsigned int i, chosen = 0, n = rpcordma_test_case_count(number);

	ours->number = number;
	ours->suite.suite_init = enter_suite;
	/* The name is const for those who write a suite down; this one is being made. */
	snprintf((char *)ours->suite.name, sizeof(ours->suite.name), "%s",
		 rpcordma_test_suite_name(number));
	/* One more, empty: KUnit's end mark. */
	ours->suite.test_cases = kcalloc(n + 1, sizeof(*ours->suite.test_cases), GFP_KERNEL);
	if (!ours->suite.test_cases)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		struct kunit_case *c = &ours->suite.test_cases[chosen];

		if (!wanted(number, i))
			continue;
		c->run_case = run_case;
		c->name = rpcordma_test_case_name(number, i);
		c->module_name = KBUILD_MODNAME;
		chosen++;
	}
	if (chosen)
		selected[selected_count++] = &ours->suite;
	return 0;
}

static int __init rpcordma_kunit_init(void)
{
	unsigned int i, n = rpcordma_test_suite_count();
	int rc = -ENOMEM;

	all_suites = kcalloc(n, sizeof(*all_suites), GFP_KERNEL);
	selected = kcalloc(n, sizeof(*selected), GFP_KERNEL);
	if (!all_suites || !selected)
		goto failed;
	for (i = 0; i < n; i++) {
		rc = make_suite(i);
		if (rc)
			goto failed;
	}
	rc = -ENOENT;
	if (!selected_count) {
		pr_err("no test matches '%s'\n", filter);
		goto failed;
	}
	rc = __kunit_test_suites_init(selected, selected_count);
	if (rc)
		goto failed;
	return 0;

failed:
	free_suites();
	return rc;
}

static void __exit rpcordma_kunit_exit(void)
{
	__kunit_test_suites_exit(selected, selected_count);
	free_suites();
}

module_init(rpcordma_kunit_init);
module_exit(rpcordma_kunit_exit);
MODULE_DESCRIPTION("Unit tests of the RPC-over-RDMA transport");
MODULE_LICENSE("GPL");
