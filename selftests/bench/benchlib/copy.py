# SPDX-License-Identifier: GPL-2.0-only
"""What it costs this machine's CPU to copy what version 2 sends with the message, and version 1 registers memory for.

Instruction counts say nothing of it: a copy is one instruction. The goal is that a copy of what goes with the messages
at most takes less than the round trip which it saves a WRITE.
"""

import json
import os
import statistics
import subprocess

from . import report

ROUNDS = 5
# No machine but this one.
HOST = True
SIZES = (1024, 4096, 16384, 32768, 65536)
PLACES = ("cached", "uncached")
# The most that goes with a message by default, and ns: less than a round trip of any network with RDMA takes.
MOST, ROUND_TRIP = 16384, 2000
PROGRAM = os.path.join(report.BUILD, "copy")


def names(_full):
    return list(PLACES)


def _do(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=report.TOP)
    if done.returncode:
        raise report.BenchError(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def run(rows, wrong, rounds, only, _full):
    """Appends to @rows {case, round, bytes, ns}: CPU time, of @rounds processes."""
    os.makedirs(report.BUILD, exist_ok=True)
    _do("g++-12", "-std=gnu++17", "-O2", "-Wall", "-Wextra", "-Werror", "-o", PROGRAM, "selftests/bench/copy/copy.cc",
        "-lbenchmark", "-lpthread")
    for number in range(rounds):
        report.progress(f"copy: round {number + 1} of {rounds}")
        text = _do(PROGRAM, "--benchmark_format=json", "--benchmark_min_time=0.05", f"--benchmark_filter=^{only}")
        for one in json.loads(text)["benchmarks"]:
            if one.get("error_occurred"):
                wrong.append(f"{one['name']}: {one['error_message']}")
                continue
            place, size, _ = one["name"].split("/")
            rows.append({"case": place, "round": number, "bytes": int(size), "ns": float(one["cpu_time"])})
    report.progress("")


def _middle(rows, place, size):
    """The median of the rounds, or None."""
    found = [row["ns"] for row in rows if (row["case"], row["bytes"]) == (place, size)]
    return statistics.median(found) if found else None


def tell(rows):
    print("\nns to copy")
    report.table(("bytes", *PLACES, "GB/s", *PLACES[1:]), [
        (size, *("-" if ns is None else f"{ns:.0f}" for ns in found),
         *("-" if not ns else f"{size / ns:.1f}" for ns in found))
        for size in SIZES for found in [[_middle(rows, place, size) for place in PLACES]]])


def goals(rows):
    table = report.Goals("")
    for place in PLACES:
        ns = _middle(rows, place, MOST)
        table.add(f"{MOST} bytes, {place}: less than the round trip saved, {ROUND_TRIP} ns", "-",
                  "-" if ns is None else f"{ns:.0f}", "was not measured" if ns is None else 0 < ns < ROUND_TRIP)
    return table
