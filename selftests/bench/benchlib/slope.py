# SPDX-License-Identifier: GPL-2.0-only
"""How an operation's latency grows with the delay of the network.

As round trips are counted (trips.py), in a kernel where only waiting takes time; here netem holds each packet for one
of several times, from none to the 1.6 ms of a continent. Latency is a line over what a round trip takes more: the slope
is the number of round trips, and what is left at no delay is the same for all.
"""

from . import report, trips
from .counts import LEGS, NAMES

ROUNDS = 1
HOST = True
# Microseconds that a packet takes, one way: none, a mile of fibre there and back, ten miles, a hundred.
DELAYS = (0, 16, 160, 1600)
CASES = ("GETATTR", "READ 4 KiB", "READ 16 KiB", "READ 64 KiB", "WRITE 4 KiB", "WRITE 16 KiB", "WRITE 64 KiB",
         "long call", "longer call")
# Of the slopes: what goes with the message in version 2 takes one round trip, and two in version 1.
ONE = ("GETATTR", "READ 4 KiB", "READ 16 KiB", "WRITE 4 KiB", "WRITE 16 KiB", "long call")
HALVED = ("WRITE 4 KiB", "WRITE 16 KiB", "long call")
# What goes in several messages where there is round-trip reduction.
REDUCIBLE = ("longer call", "WRITE 64 KiB")
CLOSE = 0.01
LIMIT = 900


def names(_full):
    return list(CASES)


def run(rows, wrong, rounds, only, _full):
    """Appends to @rows {case, xprt, round, delay (microseconds, one way), latency (microseconds)}."""
    chosen = [case for case in trips.cases() if case.name in CASES and case.name.startswith(only)]
    body = "".join(f"delayed {delay}us\n" + "".join(case.script(f"{case.name}@{delay}") for case in chosen)
                   for delay in DELAYS)
    try:
        report.progress("slope: the kernel and the module")
        prepared = trips.prepare()
        for turn in range(rounds):
            for leg in LEGS:
                report.progress(f"slope: {NAMES[leg]}, round {turn + 1} of {rounds}")
                took, complaints = trips.timed(leg, body, f"{DELAYS[0]}us", prepared, "slope", LIMIT)
                wrong += [f"{NAMES[leg]}: {line}" for line in complaints]
                for case in chosen:
                    for delay in DELAYS:
                        latency = took.get(f"{case.name}@{delay}")
                        if latency is None:
                            wrong.append(f"{NAMES[leg]}: {case.name} at {delay} us was not measured")
                        else:
                            rows.append({"case": case.name, "xprt": leg, "round": turn, "delay": delay,
                                         "latency": latency / 1000})
    except trips.uml.UmlError as error:
        wrong.append(str(error))
    finally:
        report.progress("")


def line(points):
    """(slope, latency at no delay) of the line that is closest to @points, (microseconds of a round trip, latency)."""
    n = len(points)
    middle_x, middle_y = (sum(point[i] for point in points) / n for i in (0, 1))
    across = sum((x - middle_x) ** 2 for x, _ in points)
    slope = sum((x - middle_x) * (y - middle_y) for x, y in points) / across
    return slope, middle_y - slope * middle_x


def points_of(rows, leg, case):
    """What line() takes, of all rounds; None unless there are as many as there are delays."""
    points = [(2 * row["delay"], row["latency"]) for row in rows if row["case"] == case and row["xprt"] == leg]
    return points if len({x for x, _ in points}) == len(DELAYS) else None


def slope_of(rows, leg, case):
    """The slope, or None."""
    points = points_of(rows, leg, case)
    return line(points)[0] if points else None


def _latency(rows, leg, case, delay):
    found = [row["latency"] for row in rows if (row["case"], row["xprt"], row["delay"]) == (case, leg, delay)]
    return f"{sum(found) / len(found):.1f}" if found else "-"


def _text(slope):
    return "-" if slope is None else f"{slope:.3f}"


def tell(rows):
    print("\nmicroseconds of each, where a packet takes so many more, one way; and the slope over a round trip")
    report.table(("operation", "", *(str(delay) for delay in DELAYS), "slope"),
                 [(case, NAMES[leg], *(_latency(rows, leg, case, delay) for delay in DELAYS),
                   _text(slope_of(rows, leg, case)))
                  for case in dict.fromkeys(row["case"] for row in rows) for leg in LEGS])


def goals(rows):
    table = report.Goals("in-tree")
    for case in CASES:
        theirs, ours, two, reduced = (slope_of(rows, leg, case) for leg in LEGS)
        checks = [(f"{case}: no steeper in version 1", theirs, ours,
                   lambda at, theirs=theirs: 0.99 <= at <= theirs + CLOSE, None)]
        if case in ONE:
            checks.append((f"{case}: slope 1 in version 2", theirs, two, lambda at: abs(at - 1) <= CLOSE, True))
        if case in (*ONE, *REDUCIBLE):
            checks.append((f"{case}: reduced, slope 1 in version 2", theirs, reduced, lambda at: abs(at - 1) <= CLOSE,
                           True))
        if case in HALVED:
            checks.append((f"{case}: half of version 1's slope in version 2", ours, two,
                           lambda at, ours=ours: abs(2 * at - ours) <= 2 * CLOSE, None))
        for goal, other, slope, meets, alone in checks:
            if other is None or slope is None:
                table.add(goal, _text(other), _text(slope), "was not measured")
            else:
                table.add(goal, _text(other), _text(slope), meets(slope), meets(other) if alone else None)
    return table
