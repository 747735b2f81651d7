# SPDX-License-Identifier: GPL-2.0-only
"""Our header codec beside rpcgen's code for the same XDR, and reduction, on this machine.

First both codecs have to make the same bytes of each header, find the same fields in them, and refuse
every shorter piece. Then each function is timed, ours and rpcgen's one after the other, in rounds that are a
process each ("times"); and run under valgrind, whose callgrind counts instructions ("instructions"): it takes
no hardware counter, and says the same on every run. A ratio is rpcgen's time by ours, and has a 95 %
interval. "again" is rpcgen's decoder with memory that an equal header left allocated.

The goal is a row for each shape. Where it is not met a profile says where the instructions are.
"""

import glob
import json
import os
import re
import statistics
import subprocess
import tempfile

from . import report, stats

ROUNDS = 20
# No machine but this one.
HOST = True
# Calls of each function whose instructions are counted.
COUNT = 200
PROGRAM = os.path.join(report.BUILD, "codec")
# Header decode, by rpcgen's time: the interval's lower end.
GOAL = 5.0
# The program may know more.
SHAPES = ("inline", "read-1", "read-16", "write-1", "write-16", "reply-chunk", "position-zero", "err-vers",
          "err-chunk")
NAME = re.compile(r"([a-z-]+)/([a-z_]+)/([\w-]+)")


class CodecError(report.BenchError):
    """The benchmark cannot be built or run."""


def _do(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode:
        raise CodecError(f"{' '.join(command)} ended with status {done.returncode}:\n"
                         f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def agreements():
    """[(shape, what is wrong or nothing)]."""
    done = subprocess.run([PROGRAM, "--agree"], stdout=subprocess.PIPE, text=True)
    found = []
    for line in done.stdout.splitlines():
        word, shape, *why = line.split(" ", 2)
        found.append((shape.rstrip(":"), "" if word == "agree" else " ".join(why) or "they differ"))
    if not found or bool(done.returncode) != any(why for _, why in found):
        raise CodecError(f"{PROGRAM} --agree ended with status {done.returncode} and said: {done.stdout!r}")
    return found


def times(rounds):
    """{name: [ns of each round]}; CPU time, as other processes may run in between."""
    found = {}
    for number in range(rounds):
        report.progress(f"times: round {number + 1} of {rounds}")
        text = _do(PROGRAM, "--benchmark_format=json", "--benchmark_min_time=0.01")
        for one in json.loads(text)["benchmarks"]:
            found.setdefault(one["name"], []).append(float(one["cpu_time"]))
    report.progress("")
    return found


def instructions(folder):
    """({name: instructions of one call}, {name: callgrind's file}): the total of a dump by its calls."""
    report.progress(f"instructions: {COUNT} calls of each under valgrind")
    _do("valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out",
        PROGRAM, "--count", str(COUNT))
    found, files = {}, {}
    for path in glob.glob(f"{folder}/out.*"):
        with open(path) as f:
            text = f.read()
        trigger = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M)
        total = re.search(r"^summary: (\d+)$", text, re.M)
        if trigger and total:
            found[trigger.group(1)] = int(total.group(1)) / COUNT
            files[trigger.group(1)] = path
    report.progress("")
    if not found:
        raise CodecError("valgrind wrote no dump of a function")
    return found, files


def profile(path, lines=8):
    """Where the instructions of one dump are: [(instructions of one call, function)]."""
    text = _do("callgrind_annotate", "--threshold=100", "--auto=no", "--show-percs=no", path)
    by_function = {}
    for line in text.splitlines():
        match = re.match(r"^\s*([\d,]+)\s+(?:\S*/)?[^:\s]*:(\S.*?)(?: \[(?:.*/)?(.*)\])?$", line)
        if match and "PROGRAM TOTALS" not in line:
            # A function's instructions are listed by the file that they were inlined from.
            name = re.sub(r"\(.*", "", match.group(2).replace("(anonymous namespace)::", ""))
            name = name.replace("rpcordma::", "")
            if name.startswith("0x"):
                name = f"{match.group(3)}, which has no names"
            by_function[name] = by_function.get(name, 0) + int(match.group(1).replace(",", ""))
    most = sorted(by_function.items(), key=lambda item: -item[1])
    return [(number / COUNT, name) for name, number in most[:lines]]


def number(value):
    return "-" if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def interval(ratio):
    return "-" if ratio is None else f"{ratio[0]:.2f} [{ratio[1]:.2f}, {ratio[2]:.2f}]"


def _cell(row, codec, key):
    return row.get(codec, {}).get(key)


def _missed(row):
    """Whether it is known that the goal is not met."""
    ratio = _cell(row, "rpcgen", "ratio")
    return row["function"] == "decode" and ratio and ratio[1] < GOAL


def names(_full):
    return ["times", "instructions"]


def run(rows, wrong, rounds, only, _full):
    """Appends to @rows {function, shape, codec: {ns, all, ratio, instructions}}."""
    if rounds < 2:
        raise CodecError("an interval takes two rounds")
    _do("make", "-s", "-f", "selftests/bench/codec/codec.mk", f"BUILD={report.BUILD}", cwd=report.TOP)
    agreed = agreements()
    wrong += [f"{shape}: {why}" for shape, why in agreed if why]
    if wrong:
        wrong.append("nothing is timed while the codecs differ")
        return None
    print(f"the codecs agree on {len(agreed)} shapes, and refuse all shorter pieces of each")
    with tempfile.TemporaryDirectory(prefix="rpcordma-codec-") as folder:
        ns = times(rounds) if "times".startswith(only) else {}
        count, dumps = instructions(folder) if "instructions".startswith(only) else ({}, {})
        for name in ns or count:
            codec, function, shape = NAME.fullmatch(name).groups()
            if codec != "ours":
                continue
            row = {"function": function, "shape": shape}
            for other in ("ours", "rpcgen", "rpcgen-again"):
                their = f"{other}/{function}/{shape}"
                if their in ns:
                    row[other] = {"ns": statistics.median(ns[their]), "all": ns[their]}
                    if other != "ours":
                        row[other]["ratio"] = stats.ratio(ns[their], ns[name])
                if their in count:
                    row.setdefault(other, {})["instructions"] = count[their]
            if _missed(row) and dumps:
                row["profile"] = {each: profile(dumps[f"{each}/decode/{shape}"]) for each in ("ours", "rpcgen")}
            rows.append(row)
    return {"count": COUNT, "compiler": _do("g++-12", "--version").splitlines()[0]}


def tell(rows):
    for function in ("decode", "encode"):
        print(f"\n{function}: nanoseconds and instructions of one header")
        again = function == "decode"
        table = []
        for row in rows:
            if row["function"] != function:
                continue
            counts = [_cell(row, codec, "instructions") for codec in ("ours", "rpcgen")]
            table.append((row["shape"], number(_cell(row, "ours", "ns")), number(_cell(row, "rpcgen", "ns")),
                          interval(_cell(row, "rpcgen", "ratio")),
                          *((interval(_cell(row, "rpcgen-again", "ratio")),) if again else ()),
                          *map(number, counts), number(counts[1] / counts[0]) if all(counts) else "-"))
        report.table(("shape", "ours ns", "rpcgen ns", "rpcgen / ours", *(("again / ours",) if again else ()),
                      "ours instr.", "rpcgen instr.", "ratio"), table)
    print("\nreduction, which rpcgen has nothing like: reduce() of a call, plan_answer() of a reply")
    report.table(("function", "shape", "ns", "instr."),
                 [(row["function"], row["shape"], number(_cell(row, "ours", "ns")),
                   number(_cell(row, "ours", "instructions")))
                  for row in rows if row["function"] not in ("decode", "encode")])
    for row in rows:
        for codec, lines in row.get("profile", {}).items():
            print(f"\nwhere the instructions are: {codec}'s decode of {row['shape']}")
            for each, function in lines:
                print(f"  {each:8.1f}  {function}")


def goals(rows):
    table = report.Goals("rpcgen")
    decoded = {row["shape"]: row for row in rows if row["function"] == "decode"}
    for shape in SHAPES:
        row = decoded.get(shape)
        if not row:
            table.add(f"decode of {shape}: {GOAL:g} times rpcgen's speed", "-", "-", "was not measured")
            continue
        ratio = _cell(row, "rpcgen", "ratio")
        table.add(f"decode of {row['shape']}: {GOAL:g} times rpcgen's speed",
                  f"{number(_cell(row, 'rpcgen', 'ns'))} ns",
                  f"{number(_cell(row, 'ours', 'ns'))} ns: {interval(ratio)}",
                  ratio[1] >= GOAL if ratio else "no times were taken")
    return table
