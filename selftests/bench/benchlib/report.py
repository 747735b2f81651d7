# SPDX-License-Identifier: GPL-2.0-only
"""What a benchmark tells: a line while it runs, tables, goals, and a JSON file of each run."""

import json
import os
import platform
import subprocess
import sys
import time

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BUILD = os.environ.get("BENCH_BUILD", os.path.join(TOP, "build", "bench"))


class BenchError(Exception):
    """A benchmark cannot be built or run."""


def progress(text):
    """Says @text in place of what was said before; on a terminal only, or line by line."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(f"    {text}", file=sys.stderr, flush=True)


def table(heads, rows):
    """Prints @rows under @heads: the first column to the left, numbers to the right."""
    cells = [[str(cell) for cell in row] for row in [heads, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    for number, row in enumerate(cells):
        print("  " + "  ".join(cell.rjust(width) if i else cell.ljust(width)
                               for i, (cell, width) in enumerate(zip(row, widths))).rstrip())
        if not number:
            print("  " + "  ".join("-" * width for width in widths))
    sys.stdout.flush()


class Goals:
    """What is to be reached, the other's figure, and ours. Each is a check that passes, fails or is skipped."""

    def __init__(self, other):
        self.other = other
        self.rows = []
        self.notes = []

    def add(self, goal, other, ours, met, other_met=None, bounded=""):
        """@met: True, False, or a text that says why it could not be measured. @other_met: whether the other's
        own figure meets the goal; None where the goal is made of that figure. @bounded: why a goal that is not met
        cannot be, as the figures of this very run prove; it is told, and counted apart."""
        as_well = met is True and other_met is True
        bounded = bounded if met is False else ""
        if bounded:
            self.note(f"bounded: {goal}: {bounded}")
        self.rows.append({"goal": goal, "other": other, "ours": ours, "bounded": bool(bounded),
                          "verdict": met if isinstance(met, str) else "bounded" if bounded else "NOT MET" if not met else
                          f"met, by {self.other} as well" if as_well else "met",
                          "met": None if isinstance(met, str) else bool(met), "other_met": other_met})

    def ask(self, goal, shown, theirs, ours, meets):
        """A goal that does not depend on the other: @meets(figure) is asked of all figures @ours, and of @theirs.
        @shown: the texts of both."""
        self.add(goal, *shown, all(map(meets, ours)), all(map(meets, theirs)))

    def control(self, what, first, again, same):
        """The other against itself, by the same means. @same: as @met of add()."""
        self.add(f"control, {self.other} twice: {what}", first, again, same)
        self.rows[-1]["control"] = True

    def note(self, text):
        """Said below the rows."""
        self.notes.append(text)

    def tell(self):
        table(("goal", self.other, "ours", ""),
              [(row["goal"], row["other"], row["ours"],
                row["verdict"] if row["met"] is not None else f"skipped: {row['verdict']}")
               for row in self.rows])
        for text in self.notes:
            print(text)
        if self.as_well():
            print(f"{self.as_well()} of the goals met are met by {self.other} as well: they do not set ours apart")
        if self.refuted():
            print("the control failed: NO FIGURE ABOVE CAN BE BELIEVED")

    def counts(self):
        """(passed, failed, skipped); those that are bounded are none of these."""
        return tuple(sum(row["met"] is want and not row["bounded"] for row in self.rows) for want in (True, False, None))

    def bounded(self):
        """How many cannot be met."""
        return sum(row["bounded"] for row in self.rows)

    def as_well(self):
        """How many of those passed the other's figure meets too."""
        return sum(row["met"] is True and row["other_met"] is True for row in self.rows)

    def refuted(self):
        """Whether a control has failed."""
        return any(row["met"] is False and "control" in row for row in self.rows)


def controls(chosen, usual):
    """The cases of @chosen that the other is measured in once more: @usual are their names."""
    return [case for case in chosen if case.name in usual] or chosen[:1]


def _output(*command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=TOP)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def machine():
    """What a figure's reader has to know of this machine."""
    with open("/proc/cpuinfo") as f:
        models = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    qemu = _output("qemu-system-x86_64", "--version").splitlines()
    return {"cpu": models[0] if models else platform.machine(), "cpus": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30), 1),
            "kernel": platform.release(), "qemu": qemu[0] if qemu else "", "load": os.getloadavg()[0]}


def commit():
    """The commit that is measured, and whether something differs from it."""
    return _output("git", "describe", "--always", "--dirty")


def save(what, content, whole=True):
    """Writes build/bench/WHAT-TIME.json, and the same as WHAT.json when it is @whole; returns the first's path."""
    os.makedirs(BUILD, exist_ok=True)
    content = {"what": what, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "commit": commit(),
               "machine": machine(), **content}
    text = json.dumps(content, indent=1) + "\n"
    path = os.path.join(BUILD, f"{what}-{time.strftime('%Y%m%d-%H%M%S')}.json")
    for name in (path, os.path.join(BUILD, f"{what}.json"))[:1 + whole]:
        with open(name, "w") as f:
            f.write(text)
    return os.path.relpath(path, os.getcwd()) if path.startswith(TOP) else path
