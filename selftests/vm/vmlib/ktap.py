# SPDX-License-Identifier: GPL-2.0-only
"""Results of the unit tests in a kernel: KUnit's suites, in KTAP, and what they add up to."""

import glob
import os
import re


class Outcome:
    """Passed, failed, skipped, and what to show for the failed ones."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.lines = []

    def count(self, ok, text):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            self.lines.append(text)

    def skip(self, what, why):
        self.skipped += 1
        print(f"skipped: {what}: {why}")

    def report(self):
        """Prints the failures and, as the very last line, the totals; returns an exit status."""
        for line in self.lines:
            print(f"FAILED:  {line}")
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed or not self.passed else 0


def read_suite(name, text, outcome, verbose):
    """Counts the cases in @text, KUnit's results of one suite in KTAP; returns their number."""
    before = (outcome.passed, outcome.failed, outcome.skipped)
    planned = None
    detail = []
    for line in text.splitlines():
        plan = re.match(r"\s+1\.\.(\d+)$", line)
        case = re.match(r"\s+(not ok|ok) \d+ (\S+)(?: # SKIP ?(.*))?", line)
        if plan:
            planned = int(plan.group(1))
        elif case and not re.match(r"(not )?ok", line):
            status, case_name, skip = case.groups()
            if skip is not None:
                outcome.skip(f"{name}.{case_name}", skip)
            elif status == "ok":
                outcome.passed += 1
            else:
                outcome.failed += 1
                print(f"FAILED:  {name}.{case_name}")
                for d in detail:
                    print("    " + re.sub(r"^\s*# ?[^:]*: ", "", d))
            if verbose:
                print(f"  {status:6} {name}.{case_name}")
            detail = []
        elif re.match(r"\s+#", line) and "Subtest:" not in line and "module:" not in line:
            detail.append(line)
    now = (outcome.passed, outcome.failed, outcome.skipped)
    passed, failed, skipped = (b - a for a, b in zip(before, now))
    print(f"{name:28} {passed:3} passed, {failed} failed, {skipped} skipped")
    ran = passed + failed + skipped
    if planned is None or planned != ran:
        outcome.count(False, f"{name}: {ran} results of {planned or 'unknown'} planned cases")
    return ran


def read_suites(folders, build, all_suites, outcome, verbose):
    """Counts the results of every suite, a file each in one of @folders.

    @build       where the module was built: it says how many suites there are
    @all_suites  whether each of them has to have reported
    """
    with open(os.path.join(build, "kunit", "kunit_suites.inc")) as f:
        built = len(re.findall(r"RPCORDMA_LIST_SUITE", f.read()))
    results = sorted(path for folder in folders for path in glob.glob(os.path.join(folder, "*")))
    for path in results:
        with open(path) as f:
            read_suite(os.path.basename(path), f.read(), outcome, verbose)
    if all_suites and len(results) != built:
        outcome.count(False, f"{len(results)} suites reported, {built} are built in")
    elif not results:
        outcome.count(False, "no suite reported anything")
