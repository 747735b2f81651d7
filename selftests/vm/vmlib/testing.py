# SPDX-License-Identifier: GPL-2.0-only
"""What a VM test is: a named function, machines that are always stopped, and a verdict.

The tests themselves are in selftests/vm/t/ and selftests/wire/, in files that begin with a number;
scripts/vm-check runs them.
"""

import glob
import importlib.util
import os
import signal
import sys
import time
import traceback

from . import image, lab, machine

TESTS = [os.path.join(image.TOP, "selftests", *where) for where in (("vm", "t"), ("wire",))]

_registry = {}

# How the reason begins of a test that was not run, or not to its end, as scripts/check has so many minutes.
# scripts/check and scripts/check-conformance look for it.
NO_TIME = "no time left"
WORDS = {"pass": "passed", "fail": "FAILED", "skip": "skipped"}


class Skip(Exception):
    """The test cannot be run here; the text says why."""


class Wrong(Exception):
    """Something was not as it must be."""


class CutOff(BaseException):
    """SIGTERM came. No Exception: it is no fault of the test that runs."""


def test(name, slow=None):
    """Decorator: registers a function of one argument, a Test, under @name. @slow: why it is no part of `make check`,
    and with VM_SLOW=1 alone, or by its whole name, is run."""
    def register(function):
        if name in _registry:
            raise ValueError(f"two tests are named {name}")
        _registry[name] = function
        function.slow = slow
        return function
    return register


def left_out(why):
    """What stands in place of a test that is not run, for the reason @why."""
    def function(t):
        t.skip(why)
    function.left_out = True
    return function


def not_run(function, why):
    """What stands in place of @function, for which there is no time, as @why says; one that is left out stays so."""
    return function if hasattr(function, "left_out") else left_out(f"{NO_TIME}, {why}")


def choose(tests, names, only_slow, slow_too):
    """{name: function} of those of @tests that begin as one of @names, or all; with @only_slow those alone that are
    slow. One that is slow is left out aloud where neither its whole name nor @slow_too asks for it."""
    chosen = {}
    for name, function in tests.items():
        if names and not name.startswith(tuple(names)) or only_slow and not function.slow:
            continue
        wanted = not function.slow or only_slow or slow_too or name in names
        chosen[name] = function if wanted else left_out(f"{function.slow}: VM_SLOW=1 or its name runs it")
    return chosen


def load():
    """{name: function} of all tests, in the order of their files."""
    for path in sorted((path for where in TESTS for path in glob.glob(os.path.join(where, "[0-9]*.py"))),
                       key=os.path.basename):
        # What a test has beside it.
        sys.path.append(os.path.dirname(path))
        spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return dict(_registry)


class Test:
    """What a test function works with."""

    def __init__(self, name):
        self.name = name
        self.xprt = lab.default_xprt()
        self.labs = []
        self.expected = []

    def lab(self, **options):
        """Boots machines (see lab.Lab); they are stopped and their logs judged after the test."""
        name = self.name if not self.labs else f"{self.name}.{len(self.labs) + 1}"
        new = lab.Lab(name, **{"xprt": self.xprt, **options})
        self.labs.append(new)
        return new

    def check(self, condition, what):
        if not condition:
            raise Wrong(what)

    def equal(self, got, want, what):
        if got != want:
            raise Wrong(f"{what}: {got!r}, expected {want!r}")

    def within(self, seconds, began, what):
        """Fails when more than @seconds (times machine.PATIENCE) have passed since @began
        (time.monotonic()). @what is a text, or a function that makes one."""
        took = time.monotonic() - began
        if took > seconds * machine.PATIENCE:
            raise Wrong(f"{what() if callable(what) else what}: took {took:.1f} s, "
                        f"limit {seconds * machine.PATIENCE:g} s")

    def skip(self, why):
        raise Skip(why)

    def only_rpcordma(self, why):
        if self.xprt != "rpcordma":
            raise Skip(f"XPRT={self.xprt}: {why}")


def until(t, seconds, what, condition):
    """Waits until condition() is true; returns its value. @what as in t.within()."""
    began = time.monotonic()
    while not (value := condition()):
        t.within(seconds, began, what)
        time.sleep(0.3)
    return value


def run(name, function):
    """Runs one test. Returns ("pass" | "fail" | "skip", detail, seconds). Once more when QEMU was at fault, aloud."""
    verdict, detail, seconds, vms = _run(name, function)
    if machine.emulators_fault(vms):
        print(f"vm: {name}: {detail}\nvm: a fault of QEMU's: {name} once more", flush=True)
        verdict, detail, again, _ = _run(name, function)
        seconds += again
    return verdict, detail, seconds


def run_all(chosen, deadline):
    """Runs the tests @chosen, {name: function}, says how they end, and counts. None is begun when @deadline, in seconds
    since the epoch, if any, has passed. Returns the exit status."""
    began = time.monotonic()
    count = dict.fromkeys(WORDS, 0)
    late = cut = running = False

    def cut_off(*_):
        nonlocal cut, running
        cut = True
        if running:
            running = False
            raise CutOff

    old = signal.signal(signal.SIGTERM, cut_off)
    for name, function in chosen.items():
        if cut:
            function = not_run(function, "SIGTERM came before it was begun")
        elif deadline and time.time() >= deadline:
            late, function = True, not_run(function, f"its name runs it: scripts/vm-check {name}")
        before = cut
        try:
            running = True
            verdict, detail, seconds = run(name, function)
            running = False
        except BaseException:
            if not cut:
                raise
        if cut and not before:
            # Whatever became of it: its machines may have had the signal, too.
            verdict, detail, seconds = "skip", f"{NO_TIME}, SIGTERM came while it ran", 0
        count[verdict] += 1
        print(f"{WORDS[verdict]:8} {name:24} {seconds:5.1f} s" + (f"  {detail}" if detail else ""), flush=True)
        if verdict == "fail":
            print(f"    logs: {os.path.join(lab.LOGS, name)}", flush=True)
    signal.signal(signal.SIGTERM, old)
    print(f"vm-check: client {lab.default_xprt()}, {time.monotonic() - began:.0f} s")
    print(f"{count['pass']} passed, {count['fail']} failed, {count['skip']} skipped")
    return 0 if (count["pass"] or late) and not count["fail"] and not cut else 1


def _run(name, function):
    """As run(), once; and the machines that it was run with."""
    began = time.monotonic()
    verdict, detail = "pass", ""
    t = None
    try:
        t = Test(name)
        function(t)
    except (Skip, image.NotHere) as skip:
        verdict, detail = "skip", str(skip)
    except (Wrong, machine.VmError, lab.LabError, image.ImageError) as error:
        verdict, detail = "fail", str(error)
    except Exception:  # a fault of the test itself; the others are still worth running
        verdict, detail = "fail", traceback.format_exc().rstrip()
    finally:
        for one in t.labs if t else ():
            one.stop()
    labs = t.labs if t else []
    complaints = [line for one in labs for line in one.complaints()]
    if complaints:
        verdict = "fail"
        detail = "\n    ".join([detail or "the kernel complained:", *complaints[:6]])
    return verdict, detail, time.monotonic() - began, [vm for one in labs for vm in one.vms]
