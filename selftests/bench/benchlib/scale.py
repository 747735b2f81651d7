# SPDX-License-Identifier: GPL-2.0-only
"""What connections cost the server in memory and CPU, idle and busy: two transports at the server in turn.

A program in the client makes the connections (selftests/verbs/hold.cc), so the client's transport has no part
in them. Memory is what is in use beyond what was without connections (vmlib/idle.py). What a call takes is
counted in instructions of the server's kernel (instructions.py), of which one round says nothing; the CPU that its
QEMU took of the host is kept beside them, and is all there is to say of a rest.
"""

import math
import statistics
import time

from vmlib import idle, lab, machine

from . import counts, instructions, report, stats
from .counts import NAMES, XPRTS

ROUNDS = 1
SIZES, MOST = (1, 100), 1000
# MiB: a connection of the in-tree server's takes 2.5.
MEMORY, MEMORY_MOST = 1024, 5120
# Calls for a figure, but at least one round of hold.cc's depth on each connection; and how many such figures.
# What disturbs the host makes them larger, never smaller: the least one counts.
CALLS, DEPTH, TIMES = 1200, 4, 3
# Seconds of doing nothing.
REST = 10
# Snapshots of memory differ by a few hundred KiB from one to the next, and timers are in the instructions of
# calls that take longer; what grows with the number of connections, as a list that is walked for each call, is
# beyond both.
MEMORY_GROWTH, CALL_GROWTH = 1.1, 1.1
# CPU seconds that REST seconds may take more with connections than without: 1 %, of both figures' noise.
REST_MORE = 0.1


def name_of(size):
    return f"{size} connection{'s' if size > 1 else ''}"


def sizes(full):
    return (*SIZES, MOST) if full else SIZES


def names(full):
    return [name_of(size) for size in sizes(full)]


class Crew:
    """The connections."""

    def __init__(self, client):
        self._client = client
        client.run("rm -f /tmp/orders && mkfifo /tmp/orders", 10)
        self._job = client.spawn("verbspeer 10.0.0.1 hold <> /tmp/orders", "hold connections")
        self._told = 0

    def order(self, text, limit):
        """They do it; returns what they say of it."""
        self._client.run(f"echo '{text}' > /tmp/orders", 20, text)
        deadline = time.monotonic() + limit * machine.PATIENCE
        while True:
            lines = self._job.out.splitlines(keepends=True)
            if len(lines) > self._told and lines[self._told].endswith("\n"):
                break
            if not self._job.running() or time.monotonic() > deadline:
                raise lab.LabError(f"{text}: no word from verbspeer in {limit} s: {self._job.out[-300:]}")
            time.sleep(0.02)
        line = lines[self._told].strip()
        self._told += 1
        if line.startswith("not ok"):
            raise lab.LabError(f"{text}: {line}")
        return line

    def end(self, server):
        self._client.run("echo end > /tmp/orders", 20)
        self._job.wait(120)
        none_left(server)


def none_left(server):
    server.until("! rdma resource show qp | grep -q 'type RC'", 120, "the last connection to go", pause=0.5)


def serve(pair, xprt, most):
    """nfsd over @xprt, and what it asks of mountd asked once; no connection is left."""
    counts.change(xprt, pair)
    server = pair.server
    # nfsd takes fewer by itself, and drops others for more.
    server.run(f"echo {most + 64} > /proc/fs/nfsd/max_connections", 10)
    for version in ("3", "4.0"):
        pair.mount(version)
        pair.client.run("stat -f /mnt && stat /mnt", 20)
        pair.umount()
    none_left(server)


def _took(server, meter, work):
    """(CPU seconds of the host, instructions of the kernel) that @work() takes the server."""
    before, seconds = meter.kernel(server), server.cpu_seconds()
    work()
    seconds = server.cpu_seconds() - seconds
    return seconds, meter.kernel(server) - before


def _each(now, before, size):
    return {what: (now[what] - before[what]) / size for what in now}


def measure(pair, chosen, say):
    """[{all that was measured of one number of connections}] of the transport that serves."""
    server, meter = pair.server, instructions.Meter(pair)
    # What the first connection has made is there for all others.
    crew = Crew(pair.client)
    crew.order("open 4", 60)
    crew.order(f"calls {CALLS // DEPTH // 4}", 120)
    crew.end(server)
    say("without connections")
    rest, _ = _took(server, meter, lambda: time.sleep(REST))

    rows = []
    for size in chosen:
        def tell(what, size=size):
            say(f"{name_of(size)}, {what}")

        tell("made")
        before, slabs = idle.snapshot(server), idle.slabs(server)
        # None of these has been busy yet.
        crew = Crew(pair.client)
        began = time.monotonic()
        crew.order(f"open {size}", 60 + size)
        took = time.monotonic() - began
        have = idle.connections(server)
        if have != size:
            raise lab.LabError(f"the server has {have} connections, {size} were made")
        tell("idle")
        idles, where = idle.snapshot(server), idle.slabs(server)
        resting, _ = _took(server, meter, lambda: time.sleep(REST))
        turns = max(1, CALLS // DEPTH // size)
        calls, done = f"calls {turns}", turns * DEPTH * size
        tell("busy")
        # Code that runs for the first time is translated first.
        crew.order(calls, 300)
        costs, seconds = [], []
        for _ in range(TIMES):
            began = time.monotonic()
            costs.append(_took(server, meter, lambda calls=calls, crew=crew: crew.order(calls, 300)))
            seconds.append(time.monotonic() - began)
        busy = idle.snapshot(server)
        crew.end(server)
        most = sorted(((where[name] - slabs.get(name, 0), name) for name in where), reverse=True)[:4]
        rows.append({
            "case": name_of(size), "connections": size, "made_seconds": took,
            "idle": _each(idles, before, size), "busy": _each(busy, before, size),
            "slabs": {name: kib / size for kib, name in most if kib > 0},
            "rest_cpu": resting, "rest_cpu_without": rest, "calls": done, "seconds": seconds,
            "cpu": [host * 1000 / done for host, _ in costs],
            "instructions": [number / done for _, number in costs]})
    return rows


def run(rows, wrong, rounds, only, full):
    """Appends to @rows those of measure(), each with xprt and round, of @rounds times both transports in turn;
    and to @wrong what went wrong."""
    chosen = [size for size in sizes(full) if name_of(size).startswith(only)]
    most = max(chosen)
    with lab.Lab("bench-scale", xprt=XPRTS[0], server_xprt=XPRTS[0], server_params="",
                 server_memory=MEMORY_MOST if most == MOST else MEMORY, plugin=instructions.plugin()) as pair:
        try:
            pair.up()
            pair.client.run("modprobe -a rdma_ucm ib_uverbs", 30)
            for turn in range(rounds):
                for xprt in XPRTS:
                    def say(what, xprt=xprt, turn=turn):
                        report.progress(f"scale: {NAMES[xprt]}, round {turn + 1} of {rounds}: {what}")

                    serve(pair, xprt, most)
                    try:
                        measured = measure(pair, chosen, say)
                    except (lab.LabError, machine.Failed) as error:
                        wrong.append(f"{NAMES[xprt]}: {error}")
                        # What was left would be counted as the next one's.
                        return
                    rows += [{"xprt": xprt, "round": turn, **row} for row in measured]
        finally:
            report.progress("")
            wrong += [f"the kernel complained: {line}" for line in pair.complaints()]


def text(number, digits=0):
    return f"{number:.{digits}f}"


def tell(rows):
    ordered = [row for case in dict.fromkeys(row["case"] for row in rows) for row in rows if row["case"] == case]
    print("\nserver's memory for each connection, KiB; rings are those of queue pair and CQs, which the device's "
          "driver makes")
    report.table(("server with", "transport", *(f"{state}: {what}" if not i else what for state in ("idle", "busy")
                                     for i, what in enumerate(("all", "rings", "the rest", "of all: slab",
                                                               "vmalloc")))),
                 [(row["case"], NAMES[row["xprt"]],
                   *(text(value) for state in ("idle", "busy")
                     for value in (row[state]["total"], row[state]["rings"], own(row, state), row[state]["slab"],
                                   row[state]["vmalloc"]))) for row in ordered])
    for row in ordered:
        if row["connections"] > 1:
            print(f"  {NAMES[row['xprt']]}, {row['case']}: of the slab when idle, KiB: "
                  + ", ".join(f"{cache} {text(kib, 1)}" for cache, kib in row["slabs"].items()))
    print("\nserver's CPU")
    report.table(("server with", "transport", f"idle, s in {REST} s", "without", "s per 1000 calls", "calls per s",
                  "made in s"),
                 [(row["case"], NAMES[row["xprt"]], text(row["rest_cpu"], 2), text(row["rest_cpu_without"], 2),
                   text(min(row["cpu"]), 3), text(row["calls"] / min(row["seconds"])), text(row["made_seconds"], 1))
                  for row in ordered])
    table = []
    for case in dict.fromkeys(row["case"] for row in ordered):
        found = _ratio(rows, *({"case": case, "xprt": xprt} for xprt in XPRTS))
        if found:
            table.append((case, *(text(statistics.median(of_call(row) for row in rows if row["case"] == case
                                                         and row["xprt"] == xprt)) for xprt in XPRTS), _shown(found)))
    # A single round's are as far apart by chance.
    if table:
        print("\ninstructions of the server's kernel for a call: medians of the rounds")
        report.table(("server with", "in-tree", "ours", "ours / in-tree"), table)


def own(row, state):
    """KiB of a connection without its rings."""
    return row[state]["total"] - row[state]["rings"]


def of_call(row):
    """Instructions."""
    return min(row["instructions"])


def _ratio(rows, under, over):
    """(ratio, low, high) of what a call takes in the rows that are @over, to those of the same round that are @under,
    both {key: value}; None where fewer than two rounds have both."""
    by = [{row["round"]: of_call(row) for row in rows if which.items() <= row.items()} for which in (over, under)]
    pairs = [(by[0][turn], by[1][turn]) for turn in by[0] if turn in by[1]]
    if len(pairs) < 2:
        return None
    # Where nothing was counted the means are broken.
    return stats.ratio(*zip(*pairs)) if min(map(min, pairs)) > 0 else (math.inf,) * 3


def _shown(found):
    return "{:.2f} [{:.2f}, {:.2f}]".format(*found)


def goals(rows):
    """The issue's, of several rounds' middle: memory of a never-busy connection, and that nothing grows faster
    than the number of connections. For the latter the in-tree transport's figures are there to compare. Of what a
    call takes of the kernel it is the upper end of the ratio's interval, which one round does not have."""
    table = report.Goals("in-tree")

    def figure(xprt, size, measure_of):
        found = [measure_of(row) for row in rows if row["xprt"] == xprt and row["connections"] == size]
        return statistics.median(found) if found else None

    def missing(goal, needed):
        found = [size for size in needed for xprt in XPRTS if figure(xprt, size, of_call) is None]
        if found:
            table.add(goal, "-", "-", f"{name_of(found[0])}: not measured"
                      + (" without --full" if MOST in found else ""))
        return found

    def add(goal, needed, of, meets, relative=False):
        """@of(xprt): the figure and its digits, where all @needed numbers of connections were measured. @meets(ours),
        or where it is @relative (in-tree's, ours)."""
        if missing(goal, needed):
            return
        theirs, ours = (of(xprt) for xprt in XPRTS)
        if relative:
            table.add(goal, text(*theirs), text(*ours), meets(theirs[0], ours[0]))
        else:
            table.ask(goal, (text(*theirs), text(*ours)), theirs[:1], ours[:1], meets)

    def growth(goal, a, b, measure_of, most):
        add(f"{goal}: {b} / {a} at most {most}", (a, b),
            lambda xprt: (figure(xprt, b, measure_of) / figure(xprt, a, measure_of), 2),
            lambda number: 0 < number <= most)

    def call_growth(a, b):
        goal = f"instructions of a call: {b} / {a} at most {CALL_GROWTH}"
        if missing(goal, (a, b)):
            return
        found = [_ratio(rows, *({"connections": size, "xprt": xprt} for size in (a, b))) for xprt in XPRTS]
        if not all(found):
            table.add(goal, "-", "-", "one round has no interval")
            return
        table.ask(goal, map(_shown, found), found[:1], found[1:], lambda ratio: round(ratio[2], 9) <= CALL_GROWTH)

    hundred = max(SIZES)
    for size in (hundred, MOST):
        for what, measure_of in (("without rings", lambda row: own(row, "idle")),
                                 ("in all", lambda row: row["idle"]["total"])):
            add(f"never-busy connection of {size}, KiB {what}: at most 1/{idle.SHARE}", (size,),
                lambda xprt, size=size, measure_of=measure_of: (figure(xprt, size, measure_of), 0),
                lambda theirs, ours: 0 < ours * idle.SHARE <= theirs, relative=True)
    for state in ("idle", "busy"):
        for what, measure_of in (("in all", lambda row, state=state: row[state]["total"]),
                                 ("slab", lambda row, state=state: row[state]["slab"])):
            growth(f"memory of a connection, {state}, {what}", hundred, MOST, measure_of, MEMORY_GROWTH)
    call_growth(1, hundred)
    call_growth(hundred, MOST)
    for size in (hundred, MOST):
        add(f"{size} idle connections: at most {REST_MORE} s of CPU in {REST} s", (size,),
            lambda xprt, size=size: (figure(xprt, size,
                                            lambda row: row["rest_cpu"] - row["rest_cpu_without"]), 2),
            lambda number: number <= REST_MORE)
    return table
