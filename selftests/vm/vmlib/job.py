# SPDX-License-Identifier: GPL-2.0-only
"""A guest that runs one script and stops, and the folder that it shares with the host.

The folder carries the script, the modules to load and every result. How the machine is booted is
in selftests/uml/uml.py and scripts/vng-kunit; here is what all such guests do and how a run is judged:
by the console, by what the kernel's checkers say afterwards, and by the script having ended well.
"""

import os
import re
import shutil
import signal
import subprocess
import threading
import time

from . import kernlog

# What the checkers of a debug kernel say beyond the common list.
MORE_BAD = re.compile(
    r"ODEBUG|suspicious RCU|suspicious rcu|sleeping function called|turning off the locking|"
    r"kmemleak: \d+ new suspected|DEBUG_LOCKS_WARN_ON|Attempt to release alive|segfault|"
    r"INFO: trying to register non-static key")

# Taint bits that a healthy run has: out-of-tree module (12), unsigned module (13), KUnit (18). And that of a WARNING,
# which is healthy where one is known.
HEALTHY_TAINT = 1 << 12 | 1 << 13 | 1 << 18
WARNING_TAINT = 1 << 9

# For the guest's scripts; $JOB is the folder there. (Not $job: a UML kernel's command line has a word
# of that name for the folder here, and its first process gets it as a variable.) leaks_forget before
# the work, health after it. An object is a leak when two scans, at least five seconds after its
# allocation, find no pointer to it. The shell waits by itself: a process "sleep" would leave its own
# remains to RCU, and time that travels stands still until the scan, which then calls them leaks.
GUEST_SHELL = """
JOB=${JOB:-/job}
leaks_forget() {
	[ -e /sys/kernel/debug/kmemleak ] || return 0
	echo scan=off > /sys/kernel/debug/kmemleak
	echo clear > /sys/kernel/debug/kmemleak
}
# run_kunit FILTER: the unit tests, the results of each suite in a file of its own.
run_kunit() {
	insmod $JOB/rpcordma_kunit.ko "filter=$1" || exit 1
	mkdir -p $JOB/results
	for d in /sys/kernel/debug/kunit/*; do
		[ -e $d/results ] && cat $d/results > $JOB/results/${d##*/}
	done
	rmmod rpcordma_kunit || exit 1
}
health() {
	if [ -e /sys/kernel/debug/kmemleak ]; then
		mkfifo /tmp/never
		read -t 6 nothing <> /tmp/never
		echo scan > /sys/kernel/debug/kmemleak
		echo scan > /sys/kernel/debug/kmemleak
		cat /sys/kernel/debug/kmemleak > $JOB/kmemleak
	fi
	{
		echo "taint $(cat /proc/sys/kernel/tainted)"
		grep debug_locks: /proc/lockdep_stats 2>/dev/null
		lsmod
	} > $JOB/health
}
"""


def new_run(build, name):
    """An empty folder for one run's logs and results, named by the time; the last ten are kept."""
    runs = os.path.join(build, "runs")
    os.makedirs(runs, exist_ok=True)
    old = sorted(d for d in os.listdir(runs) if d.startswith(name + "."))
    for d in old[:-9]:
        shutil.rmtree(os.path.join(runs, d), ignore_errors=True)
    path = os.path.join(runs, f"{name}.{time.strftime('%Y%m%d-%H%M%S')}.{os.getpid()}")
    os.makedirs(path)
    return path


class Job:
    """One machine.

    @name    of the machine; its folder in the run is named so
    @run     folder of the run (new_run())
    @script  text of the shell script that the guest runs
    @files   paths to copy into the folder
    """

    def __init__(self, name, run, script, files=()):
        self.name = name
        self.folder = os.path.join(run, name)
        self.log = os.path.join(self.folder, "console.log")
        self.complaints = []
        self.known = kernlog.Known()
        self.timed_out = False
        os.makedirs(self.folder)
        for path in files:
            shutil.copy(path, self.folder)
        with open(os.path.join(self.folder, "run.sh"), "w") as f:
            f.write(script)

    def launch(self, command, environment):
        """Starts the machine's process; its console is what that prints."""
        # stdin and stdout have to be pollable, and stdin must not end.
        stdin_read, self._stdin_write = os.pipe()
        # A group of its own: there are helper threads and processes, all of which have to end.
        self._process = subprocess.Popen(command, stdin=stdin_read, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, start_new_session=True,
                                         env=environment)
        os.close(stdin_read)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        started = time.monotonic()
        with open(self.log, "w") as log:
            for raw in self._process.stdout:
                line = raw.decode(errors="replace").rstrip("\r\n")
                log.write(f"{time.monotonic() - started:8.3f} {line}\n")
                log.flush()
                self._look_at(self.known.pass_on(line))
        self._look_at(self.known.rest())

    def _look_at(self, lines):
        self.complaints += [line for line in lines if kernlog.is_bad(line) or MORE_BAD.search(line)]

    @property
    def running(self):
        return self._process.poll() is None

    @property
    def pid(self):
        """Of the machine's process, and of its group."""
        return self._process.pid

    def wait(self, seconds, what):
        """Waits for the machine to stop, at most @seconds; @what it was doing is for the message."""
        try:
            self._process.wait(max(0.1, seconds))
        except subprocess.TimeoutExpired:
            self.timed_out = True
            self.complaints.append(f"{self.name}: no end after {seconds:.0f} s of {what}")
        self.stop()

    def stop(self):
        """Ends the process group, whatever state it is in; returns the status with which the machine's process ended."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        os.close(self._stdin_write)
        self._reader.join(5)
        return self._process.returncode

    def file(self, name):
        """The text of a file that the guest left in the folder, or "" when there is none."""
        try:
            with open(os.path.join(self.folder, name), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def finished(self):
        """Whether the guest's script came to its end; a panic or a kill leaves no status."""
        return self.file("status").startswith("job ended with status 0")

    def _said(self):
        """What the guest's programs, not its kernel, wrote to the console."""
        lines = [line[9:] for line in self.file("console.log").splitlines()]
        return [line for line in lines if line and not re.match(r"\[ *\d+\.\d+\]", line)]

    def judge(self):
        """What is wrong with the machine's run, apart from results: a list of lines."""
        wrong = list(self.complaints)
        if not self.finished() and not self.timed_out:
            wrong.append(f"{self.name}: the guest's script did not end well: "
                         f"{self.file('status').strip() or 'it never ended'}")
            wrong += [f"{self.name}: {line}" for line in self._said()[-5:]]
        health = self.file("health")
        healthy = HEALTHY_TAINT | (WARNING_TAINT if self.known.count else 0)
        if self.finished() and "taint" not in health:
            wrong.append(f"{self.name}: no health report")
        for line in health.splitlines():
            m = re.match(r"taint (\d+)", line)
            if m and int(m.group(1)) & ~healthy:
                wrong.append(f"{self.name}: the kernel is tainted: {m.group(1)}")
            if re.match(r"\s*debug_locks:\s+0", line):
                wrong.append(f"{self.name}: lockdep turned itself off")
        leaks = self.file("kmemleak")
        if leaks.strip():
            wrong += [f"kmemleak: {line}" for line in leaks.splitlines()[:40]]
        return wrong
