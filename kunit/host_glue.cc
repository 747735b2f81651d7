// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host side of the unit tests: registers every case with GoogleTest and runs them. GoogleTest
 * selects (--gtest_filter), repeats, shuffles and counts; the report is printed here, to be brief,
 * and to stop after some failures of one case, since a failing loop can fail a million times.
 *
 * The last line printed is "N passed, N failed, N skipped".
 */
#include <cinttypes>
#include <cstdio>

#include <gtest/gtest.h>

#include "kunit/host_text.hh"

namespace {

constexpr int shown_failures_per_case = 16;
int failures_of_case;

class OurCase : public testing::Test {
public:
	OurCase(unsigned int suite, unsigned int index) : suite_(suite), index_(index)
	{
	}
	void TestBody() override
	{
		rpcordma_test_run(suite_, index_);
	}

private:
	unsigned int suite_, index_;
};

class Printer : public testing::EmptyTestEventListener {
	void OnTestStart(const testing::TestInfo &) override
	{
		failures_of_case = 0;
	}
	void OnTestPartResult(const testing::TestPartResult &r) override
	{
		if (r.skipped())
			return;
		if (++failures_of_case > shown_failures_per_case)
			return;
		std::printf("%s:%d: %s\n", r.file_name() ? r.file_name() : "?", r.line_number(),
			    r.message());
		std::fflush(stdout);
	}
	void OnTestEnd(const testing::TestInfo &info) override
	{
		const testing::TestResult &r = *info.result();

		if (r.Skipped()) {
			std::printf("skipped: %s.%s: %s\n", info.test_suite_name(), info.name(),
				    r.GetTestPartResult(0).message());
		} else if (r.Failed()) {
			std::printf("FAILED:  %s.%s, %d expectations\n", info.test_suite_name(),
				    info.name(), failures_of_case);
		}
	}
	void OnTestSuiteEnd(const testing::TestSuite &s) override
	{
		std::printf("%-28s %3d passed, %d failed, %d skipped, %" PRId64 " ms\n", s.name(),
			    s.successful_test_count(), s.failed_test_count(),
			    s.skipped_test_count(), static_cast<int64_t>(s.elapsed_time()));
		std::fflush(stdout);
	}
};

} // namespace

extern "C" void rpcordma_test_report(const rpcordma_test_failure *f)
{
	testing::internal::AssertHelper(testing::TestPartResult::kNonFatalFailure, f->file, f->line,
					rpcordma::failure_text(*f).c_str()) = testing::Message();
}

extern "C" void rpcordma_test_skip(const char *reason)
{
	testing::internal::AssertHelper(testing::TestPartResult::kSkip, nullptr, -1, reason) =
		testing::Message();
}

int main(int argc, char **argv)
{
	testing::InitGoogleTest(&argc, argv);
	if (argc > 1) {
		std::fprintf(stderr,
			     "unknown argument '%s'; --gtest_filter=SUITE.NAME selects tests\n",
			     argv[1]);
		return 2;
	}
	testing::UnitTest &unit = *testing::UnitTest::GetInstance();
	testing::TestEventListeners &listeners = unit.listeners();

	if (!testing::GTEST_FLAG(list_tests)) {
		delete listeners.Release(listeners.default_result_printer());
		listeners.Append(new Printer);
	}
	for (unsigned int s = 0; s < rpcordma_test_suite_count(); s++) {
		for (unsigned int c = 0; c < rpcordma_test_case_count(s); c++) {
			testing::RegisterTest(rpcordma_test_suite_name(s),
					      rpcordma_test_case_name(s, c), nullptr, nullptr,
					      __FILE__, __LINE__, [=]() -> testing::Test * {
						      return new OurCase(s, c);
					      });
		}
	}
	int rc = RUN_ALL_TESTS();

	if (testing::GTEST_FLAG(list_tests))
		return rc;
	if (unit.test_to_run_count() == 0) {
		std::printf("no test matches the filter\n");
		rc = 2;
	}
	std::printf("%d passed, %d failed, %d skipped\n", unit.successful_test_count(),
		    unit.failed_test_count(), unit.skipped_test_count());
	return rc;
}
