# SPDX-License-Identifier: GPL-2.0-only
"""Whether what judges the figures is right: intervals, goals, and what is read from the machines. No machine is
booted; the figures are made up, so that each verdict is known."""

import contextlib
import io
import json
import math

from vmlib import lab

from . import (codec, copy, counts, cpus, icount, instructions, locks, plot, report, scale, sends, slope, stats, times, trips,
               within)
from .counts import CONTROL, VERSION2, XPRTS


def _goals(part, rows):
    """{goal: verdict: True, False, or None for what was skipped}."""
    return {row["goal"]: row["met"] for row in part.goals(rows).rows}


def _one(found, beginning):
    """The verdict on the one goal that begins so."""
    verdicts = [met for goal, met in found.items() if goal.startswith(beginning)]
    return verdicts[0] if len(verdicts) == 1 else f"{len(verdicts)} goals"


def _stats(expect):
    middle, low, high = stats.ratio([2, 8], [1, 4])
    expect("stats: twice, each time", (round(middle, 9), round(low, 9), round(high, 9)), (2, 2, 2))
    middle, low, high = stats.ratio([2, 1], [1, 2])
    expect("stats: twice and half are 1", round(middle, 9), 1)
    # The logarithms are ln 2 and -ln 2: their standard error is ln 2, Student's t of one degree 12.706.
    expect("stats: the 99 % interval", tuple(round(number, 6) for number in stats.ratio([2, 1, 1], [1, 2, 1], 99)),
           tuple(round(math.exp(9.925 * sign * math.log(2) / math.sqrt(3)), 6) for sign in (0, -1, 1)))
    expect("stats: the interval", (round(low, 9), round(high, 9)),
           (round(math.exp(-12.706 * math.log(2)), 9), round(math.exp(12.706 * math.log(2)), 9)))
    try:
        stats.ratio([1], [1])
        expect("stats: one pair", "an interval", "refused")
    except ValueError:
        pass


def _report(expect):
    table = report.Goals("in-tree")
    for theirs, ours in (([1], [1]), ([2], [1]), ([1, 2], [1, 1]), ([1], [1, 2])):
        table.ask("at most 1", ("", ""), theirs, ours, lambda number: number <= 1)
    table.add("no more than in-tree", "1", "1", True)
    table.add("no figure", "-", "-", "not measured", True)
    expect("goals: asked of both", [(row["met"], row["other_met"]) for row in table.rows],
           [(True, True), (True, False), (True, False), (False, True), (True, None), (None, True)])
    expect("goals: what in-tree meets as well is said in the row",
           [row["verdict"] for row in table.rows[:4]], ["met, by in-tree as well", "met", "met", "NOT MET"])
    expect("goals: what in-tree meets as well", table.as_well(), 1)
    for same, told in ((True, False), (None, False), ("one round", False), (False, True)):
        table.control("a case", "1", "1", same) if same is not None else table.add("a goal", "1", "1", False)
        expect(f"goals: told of a control that is {same}", (table.refuted(), "BELIEVED" in _told(table.tell)),
               (told, told))
    expect("goals: totals", table.counts(), (5, 3, 2))
    for met, why, is_bounded in ((False, "proved", 1), (True, "proved", 0), (False, "", 0), ("not measured", "proved", 0)):
        table = report.Goals("in-tree")
        table.add("a goal", "1", "2", met, bounded=why)
        expect(f"goals: {met}, {why or 'nothing'} proved",
               (table.bounded(), table.counts()[1], "bounded: a goal: proved" in _told(table.tell)),
               (is_bounded, int(met is False and not is_bounded), bool(is_bounded)))

    def named(*names):
        return [times.Case(name, None, 1) for name in names]

    expect("control: of the usual cases", report.controls(named("a", "b", "c"), ("c", "b")), named("b", "c"))
    expect("control: of the first, where there is none", report.controls(named("a", "b"), ("c",)), named("a"))
    order = [(leg, [case.name for case in some]) for turn in (0, 1)
             for leg, some in counts.legs(turn, named("a", "b"), ("b",))]
    expect("control: the order of measuring", order, [
        ("rpcrdma", ["a", "b"]), ("rpcordma", ["a", "b"]), (CONTROL, ["b"]),
        (CONTROL, ["b"]), ("rpcordma", ["a", "b"]), ("rpcrdma", ["a", "b"])])
    expect("control: last, where version 2 is measured too",
           [leg for leg, _ in counts.legs(0, named("a"), (), (*XPRTS, VERSION2))], [*XPRTS, VERSION2, CONTROL])
    expect("legs: what is for reduction",
           [(leg, [case.name for case in some])
            for leg, some in counts.legs(0, named("a", "GETATTR"), ("a",), (counts.REDUCED,))],
           [(counts.REDUCED, ["GETATTR"]), (CONTROL, ["a"])])
    expect("version 2: its module", counts.module_of(VERSION2), XPRTS[1])
    expect("control: its module", [counts.module_of(leg) for leg in (*XPRTS, CONTROL)], [*XPRTS, XPRTS[0]])


def _told(tell, *args):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        tell(*args)
    return said.getvalue()


def _times_rows(case, rates):
    """@rates: (in-tree, ours and, maybe, in-tree again) of each round."""
    return [{"case": case, "xprt": xprt, "round": turn, "iops": rate, "bw": None, "lat": {"p50": 1}, "cpu": {},
             "per": ""} for turn, all_ in enumerate(rates) for xprt, rate in zip((*XPRTS, CONTROL), all_)]


# In-tree again to in-tree, as measured on a busy host: 0.83 [0.35, 1.97].
WIDE = [(100, 0, 132.8), (100, 0, 51.9)] * 2


def _times(expect):
    name = "4 KiB random read, depth 16"
    for what, rates, met in (
            ("a little ahead", [(100, 101), (100, 102), (100, 101)], True),
            ("a little behind", [(100, 96), (100, 95), (100, 96)], False),
            ("wide, and ahead in the middle", [(100, 150), (100, 80), (100, 130)], False),
            ("in one round", [(100, 200)], None)):
        goal = f"{name}: at least 0.97"
        expect(f"times: {what}", _one(_goals(times, _times_rows(name, rates)), goal), met)
    found = times.goals(_times_rows(name, [(100, 150), (100, 80), (100, 130)]))
    expect("times: what is undecided is said", len(found.notes), 1)
    large = "1 MiB read, depth 4"
    found = _goals(times, _times_rows(large, [(100, 110), (100, 111), (100, 110)]))
    expect("times: 1.1 is not 1.15", _one(found, f"{large}: at least 1.15"), False)
    expect("times: nor with a delay", _one(found, f"{large}, 1 ms: at least 1.15"), None)
    for what, rates, met in (
            ("the same in the middle", [(100, 0, number) for number in (105, 95, 105, 95, 100)], True),
            ("not the same", [(100, 0, number) for number in (105, 106, 104, 105, 105)], False),
            ("not the same, less", [(100, 0, number) for number in (95, 94, 96, 95, 95)], False),
            # 1 is not in the 95 % interval [1.01, 1.09], but in that of 99 % [0.99, 1.11].
            ("the same by 99 %", [(100, 0, number) for number in (105, 105, 109, 105, 101)], True),
            # Intervals whose ends are 1.29 and 1.31 apart.
            ("nearly too wide", [(100, 0, number) for number in (122, 98, 120, 99, 110)], True),
            ("too wide", [(100, 0, number) for number in (123, 98, 121, 99, 110)], None),
            ("as wide as four rounds were", WIDE, None),
            ("wide, and never below 1", [(100, 0, number) for number in (150, 300, 150, 300)], None),
            ("in one round", [(100, 0, 100)], None), ("in no round", [(100, 100)] * 2, False),
            ("nothing was done", [(100, 0, 0)] * 2, False)):
        expect(f"times: control, {what}", _one(_goals(times, _times_rows(name, rates)), "control"), met)
    wide = [row["ours"] for row in times.goals(_times_rows(name, WIDE)).rows if "control" in row]
    expect("times: control, the interval is the one seen", ["0.83 [0.35, 1.97]" in cell for cell in wide], [True])
    profiled = [{"case": large, "xprt": xprt, "round": turn, "profile": {role: {"kernel": number, xprt: 77}
                 for role in ("client", "server")}}
                for turn in (0, 1) for xprt, number in zip(XPRTS, (1000 - 77, 2000 - 77))]

    def told(rows):
        text = _told(times._tell_profiles, rows)
        return [text.count(what) for what in ("2.00 [2.00, 2.00]", "1000", "2000", "923", "the rest", "77")]

    expect("times: profiles of two rounds have all, its ratio and the rest", told(profiled), [2, 2, 2, 4, 1, 4])
    expect("times: of one round, modules only", told(profiled[:2]), [0, 0, 0, 0, 0, 4])
    # Each transport has two rounds, but they have one in common.
    expect("times: of one round in common, modules only",
           told([{**row, "round": row["round"] + (row["xprt"] == XPRTS[1])} for row in profiled]), [0, 0, 0, 0, 0, 4])
    expect("times: a profile is no round",
           _one(_goals(times, profiled + _times_rows(large, [(100, 120)] * 2)), f"{large}: at"), True)

    # What the client prints, of I/O, of files, and of both.
    stat = " ".join(["cpu"] + ["0"] * 10)
    busy = "cpu 100 0 50 7 9 0 25 25 0 0"
    by = {case.name: case for case in times.cases(False)}
    percentiles = {f"{percent:.6f}": 5000 for percent in times.PERCENTILES.values()}

    def fio(number):
        return json.dumps({"jobs": [{"jobname": f"c{number}", "error": 0, "mixed": {
            "total_ios": 500, "runtime": 2000, "io_bytes": 500 * 4096, "clat_ns": {"percentile": percentiles}}}]})

    def printed(chosen):
        snaps = "".join(f"c{n} {stat} {stat}\nc{n} {busy} {stat}\n" for n in range(len(chosen)))
        files = "".join(f"c{n} 30 2000000000 {' '.join(['7'] * len(times.PERCENTILES))}\n"
                        for n, case in enumerate(chosen) if not case.fio)
        jobs = [fio(n) for n, case in enumerate(chosen) if case.fio]
        return "noise\n" + "\n".join(f"{mark}\n{text}" for mark, text in zip(times.MARKS, (
            snaps, files, jobs[0] if jobs else "")))

    for chosen in ([by[name]], [by["stat"]], [by[name], by["stat"]]):
        what = " and ".join(case.name for case in chosen)
        rows = times._parse(printed(chosen), chosen)
        expect(f"times: {what}: rates", [rows[n]["iops"] for n in range(len(chosen))],
               [250.0 if case.fio else 15.0 for case in chosen])
        expect(f"times: {what}: latency", [rows[n]["lat"]["p50"] for n in range(len(chosen))],
               [5.0 if case.fio else 7.0 for case in chosen])
        # 200 ticks of the client's; idle and waiting are none.
        expect(f"times: {what}: CPU", [rows[n]["cpu"] for n in range(len(chosen))],
               [{"client": 2 / (500 * 4096 / times.GIB) if case.fio else 2 / 0.03, "server": 0} for case in chosen])


def _counts(expect):
    def row(xprt, client, server, case="READ 1 MiB"):
        return {"case": case, "xprt": xprt, "round": 0, "calls": 20,
                "client": {"send_wrs": 0, "send_posts": 0, "wr_reg_mr": 0, "wr_local_inv": 0, "wr_send": 1,
                           "send_signaled": 0, "completions": 0, **client},
                "server": {"send_wrs": 57, "send_posts": 1, "wr_rdma_write": 0, "wr_rdma_read": 0, "completions": 0,
                           "nfsd_wakeups": 0, "dequeues": 0, **server}}

    theirs = row("rpcrdma", {"send_wrs": 17, "send_posts": 2, "wr_local_inv": 8}, {"wr_rdma_write": 56})
    good = {"send_wrs": 2, "send_posts": 1}
    for what, client, server, verdicts in (
            ("as wanted", good, {"wr_rdma_write": 9}, (True, True, True, True)),
            ("a work request more", {**good, "send_wrs": 3}, {"wr_rdma_write": 9}, (False, True, True, True)),
            ("a LOCAL_INV", {**good, "wr_local_inv": 1}, {"wr_rdma_write": 9}, (True, True, False, True)),
            ("too many Writes", good, {"wr_rdma_write": 11}, (True, True, True, False)),
            ("no Write at all", good, {"wr_rdma_write": 0}, (True, True, True, False)),
            ("no Send was seen", {**good, "wr_send": 0}, {"wr_rdma_write": 9}, (False, False, False, False))):
        found = _goals(counts, [theirs, row("rpcordma", client, server)])
        expect(f"counts: {what}", tuple(_one(found, f"1 MiB READ, {goal}") for goal in (
            "client: 2 WRs", "client: 1 post", "client: no LOCAL_INV", "server: about 9")), verdicts)
    found = _goals(counts, [row("rpcordma", good, {})])
    expect("counts: in-tree was not measured", _one(found, "1 MiB READ, client: 2 WRs"), None)
    as_well = {row["goal"]: row["other_met"] for row in counts.goals([
        theirs, row("rpcordma", good, {"wr_rdma_write": 9})]).rows}
    expect("counts: 17 WRs are not 2", _one(as_well, "1 MiB READ, client: 2 WRs"), False)
    as_well = {row["goal"]: row["other_met"] for row in counts.goals([
        row(xprt, {}, {}, "WRITE 4 KiB odd") for xprt in XPRTS]).rows}
    expect("counts: in-tree has no LOCAL_INV either", _one(as_well, "WRITE 4 KiB odd: no LOCAL_INV"), True)
    for again, met in ((17, True), (17.08, True), (17.1, False), (16.9, False), (0, False), (None, False)):
        found = _goals(counts, [theirs, *([] if again is None else [row(CONTROL, {"send_wrs": again}, {})])])
        expect(f"counts: control, {again} WRs after 17",
               _one(found, f"control, in-tree twice: {'no case' if again is None else 'READ 1 MiB'}, client"), met)
    alone = {"send_wrs": 1, "send_posts": 1, "dequeues": 1}
    completed = ({"completions": 1.05}, {"completions": 2.05})
    for what, client, server, bad in (
            ("a Send each", {}, {}, ()), ("an RDMA Write", {}, {"send_wrs": 2}, ("server: 1 WR",)),
            ("a region", {"wr_reg_mr": 1, "send_wrs": 2}, {}, ("client: 1 WR", "client: nothing")),
            ("a LOCAL_INV", {"wr_local_inv": 0.1}, {}, ("client: nothing",)),
            ("two posts", {"send_posts": 2}, {}, ("client: 1 post",)),
            ("a completion more", {"completions": 2}, {"completions": 3}, ("client: 1 compl", "server: 2 compl")),
            ("nothing was counted", {"send_wrs": 0}, {}, ("client: 1 WR",)),
            ("nfsd turned to it twice", {}, {"dequeues": 2}, ("server: nfsd turns",))):
        found = _goals(counts, [row(leg, *({**alone, **usual, **here} for usual, here in zip(completed, ends)), "WRITE 16 KiB")
                                for leg, ends in (("rpcrdma", ({}, {})), (VERSION2, (client, server)))])
        found = {goal: met for goal, met in found.items() if goal.startswith("WRITE 16 KiB, version 2")}
        expect(f"counts: version 2, {what}", sorted(goal for goal, met in found.items() if not met),
               sorted(goal for goal in found for start in bad if f", {start}" in goal))
        expect(f"counts: version 2, {what}: all goals", len(found), 8)
    for what, client, server, bad in (("Sends alone", {}, {}, 0), ("an RDMA Read", {}, {"wr_rdma_read": 1}, 1),
                                      ("a region", {"wr_reg_mr": 1}, {}, 1), ("two posts", {"send_posts": 2}, {}, 1)):
        found = _goals(counts, [row(leg, *({**alone, "send_wrs": 3, **here} for here in ends), "longer call")
                                for leg, ends in (("rpcrdma", ({}, {})), (counts.REDUCED, (client, server)))])
        found = [met for goal, met in found.items() if goal.startswith("longer call, version 2 reduced")]
        expect(f"counts: reduced, {what}", (len(found), found.count(False)), (3, bad))
    for wakes, met in ((1, True), (1.2, False), (0, False)):
        found = _goals(counts, [row(xprt, {}, {"nfsd_wakeups": wakes, "dequeues": 1}, "WRITE 4 KiB odd")
                                for xprt in XPRTS])
        expect(f"counts: {wakes} wake-ups", _one(found, "4 KiB odd WRITE, server: 1 wake-up"), met)


def _instructions(expect):
    def rows(case, theirs, ours):
        # What sunrpc takes, which is in no goal of READDIR.
        return [{"case": case, "xprt": xprt, "round": turn, **{
            role: {"transport": number // 2, "helped": number,
                   "modules": {instructions.module_of(xprt): number // 2, "sunrpc": 5000, "ib_core": number - number // 2}}
            for role in ("client", "server")}}
                for xprt, numbers in zip(XPRTS, (theirs, ours)) for turn, number in enumerate(numbers)]

    for what, case, role, theirs, ours, met in (
            ("0.95", "READ 4 KiB", "client", [1000], [950], True), ("0.951", "READ 4 KiB odd", "client", [1000], [951], False),
            ("0.85", "WRITE 4 KiB, NFSv4.2", "server", [1000], [850], True),
            ("0.851", "WRITE 4 KiB", "server", [1000], [851], False),
            ("0.8", "READ 64 KiB apart", "server", [1000], [800], True), ("0.9", "WRITE 64 KiB", "client", [1000], [901], False),
            ("0.93, inline", "GETATTR", "client", [1000], [930], True), ("0.94", "GETATTR", "client", [1000], [940], False),
            ("0.55", "WRITE 1 MiB odd", "client", [1000], [551], False), ("0.62", "READ 1 MiB", "server", [1000], [620], True),
            ("1.0", "long call", "client", [1000], [1000], True), ("0.88", "longer call", "server", [1000], [881], False),
            ("1.0 without sunrpc", "READDIR large", "server", [1000], [1000], True),
            ("1.001 without sunrpc", "READDIR 32 KiB", "client", [1000], [1001], False),
            ("the worst of ours", "GETATTR", "client", [1000, 1000], [900, 940], False),
            ("the best of in-tree", "GETATTR", "client", [1000, 900], [850, 850], False),
            ("nothing was seen", "GETATTR", "client", [1000], [0], False),
            ("nothing of in-tree", "GETATTR", "client", [0], [0], False)):
        expect(f"instructions: {case}, {role}: {what}", _one(_goals(instructions, rows(case, theirs, ours)), f"{case}, {role}"), met)
    # Of 100000 the goal of that READ is 62000 at the server; half of ours is the module's. 256 pages take 22 each there, 10 at a
    # client.
    for case, role, ours, is_bounded in (
            ("READ 1 MiB apart", "server", 112738, True), ("READ 1 MiB apart", "server", 112734, False),
            ("READ 1 MiB", "server", 200000, False), ("WRITE 1 MiB apart", "server", 200000, False),
            ("WRITE 1 MiB apart", "client", 104882, True), ("WRITE 1 MiB apart", "client", 104878, False),
            ("WRITE 1 MiB apart", "client", 50000, False), ("READ 64 KiB apart", "server", 159298, True),
            ("READ 64 KiB apart", "server", 159294, False)):
        expect(f"instructions: {case}, {role}, {ours} of 100000 is bounded",
               bool(instructions.bound(rows(case, [100000], [ours]), case, role)), is_bounded)
    for row, (case, role) in zip(instructions.goals([]).rows, [(case, role) for case in counts.names(False)
                                                               for role in instructions.ROLES]):
        expect(f"instructions: a goal for {case}, {role}", row["goal"].startswith(f"{case}, {role}: "), True)
    for numbers, met in (((850, 1000), True), ((851, 1000), False), ((0, 1000), False), ((850, 0), False)):
        found = [{**row, "xprt": VERSION2} for row in rows("READ 4 KiB", numbers[:1], [])]
        found += rows("READ 4 KiB", numbers[1:], [900])
        expect(f"instructions: version 2, {numbers[0]} of in-tree's {numbers[1]}",
               _one(_goals(instructions, found), "READ 4 KiB in version 2, client: 0.85"), met)
    small, large = "GETATTR", "WRITE 1 MiB"
    for case, theirs, again, met in (
            (small, [1000], [1005], True), (small, [1000], [1006], False), (small, [1000], [994], False),
            (small, [1000, 1000], [1000, 1006], False), (small, [0], [0], False), (small, [1000], [], False),
            # At 1 MiB runs of ours are farther apart than that; in-tree's are not.
            (large, [14240], [14240], True), (large, [11200], [13600], False), (large, [1000], [1006], False),
            (large, [1000, 1000], [1000, 994], False),
            (large, [0], [0], False)):
        found = rows(case, theirs, theirs) + [
            {**row, "xprt": CONTROL} for row in rows(case, again, [])]
        for role in ("client", "server"):
            expect(f"instructions: control of {case}, {role}, {again} after {theirs}",
                   _one(_goals(instructions, found), "control, in-tree twice: "
                        + (case if again else "no case") + f", {role}"), met)
    for one, two, met in (([1000], [999], True), ([1000], [1000], False), ([1000, 1001], [1000], True),
                          ([1000], [999, 1000], False), ([1000], [0], False), ([1000], [], None), ([], [999], None)):
        found = rows("READ 4 KiB", [1000], one) + [{**row, "xprt": VERSION2} for row in rows("READ 4 KiB", two, [])]
        for role in ("client", "server"):
            expect(f"instructions: version 2, {role}, {two} after {one}",
                   _one(_goals(instructions, found), f"READ 4 KiB in version 2, {role}: below"), met)
    expect("instructions: the control is of a case whose pages decide",
           [case.name for case in report.controls(list(counts.cases()), instructions.CONTROLLED)],
           [small, "READ 4 KiB", large])
    # Of 1000 the limits are 550 and 780; what is nearer to one than a factor of 1.05 another run may turn over.
    for case, ours, near in ((large, 523, 0), (large, 525, 1), (large, 577, 1), (large, 578, 0), (large, 742, 0),
                             (large, 743, 1), (large, 818, 1), (large, 820, 0), (large, 0, 0), ("READ 4 KiB", 940, 0)):
        notes = instructions.goals(rows(case, [1000], [ours])).notes
        expect(f"instructions: {case}, {ours} of 1000: what one run does not settle",
               [text.startswith(f"{near} of ") for text in notes], [True] * bool(near))
    found = _goals(instructions, rows(large, [1000], []))
    expect("instructions: ours was not measured", _one(found, f"{large}, client"), None)
    whole = [{"case": "GETATTR", "xprt": xprt, "round": turn, **{role: {"transport": 1000, "helped": 1000,
             "kernel": number, "functions": {}, "modules": {}} for role in ("client", "server")}}
             for turn in (0, 1) for xprt, number in zip(XPRTS, (1000, 3000))]
    expect("instructions: the whole kernel, of two rounds",
           _told(instructions.tell, whole).count("3.00 [3.00, 3.00]"), 3)
    one = _told(instructions.tell, whole[:2])
    expect("instructions: of one round, nothing", ("kernel" in one, "3.00" in one), (False, False))


def _icount_rows(case, rates):
    """@rates: (in-tree, ours, in-tree again) of each boot."""
    return [{"case": case, "xprt": xprt, "round": turn, "depth": 8, "rate": rate, "p50": 1e4 / max(rate, 1), "p99": 9.0,
             "host": {"seconds": 60 + turn, "load": 3}}
            for turn, all_ in enumerate(rates) for xprt, rate in zip((*XPRTS, CONTROL), all_)]


def _icount(expect):
    name, large = "rxe: GETATTR", "vhca: READ 1 MiB"
    for what, case, rates, met in (
            ("a little ahead", name, [(1000, 1004, 1000), (1000, 1005, 1000), (1000, 1006, 1000)], True),
            ("a little behind", name, [(1000, 996, 1000), (1000, 995, 1000), (1000, 994, 1000)], False),
            ("the same", name, [(1000, 1000, 1000)] * 3, True),
            ("wide, and ahead in the middle", name, [(1000, 1050, 1000), (1000, 980, 1000), (1000, 1030, 1000)], False),
            # In-tree gets slower by 1 % from boot to boot, or within each of them: ours is ahead of what is around it.
            ("with a drift", name, [(1000, 1005, 1000), (990, 995, 990), (980, 985, 980)], True),
            ("ahead of the first only", name, [(1000, 1005, 1020)] * 3, False),
            ("ahead of the last only", name, [(1020, 1005, 1000)] * 3, False),
            ("in-tree again is missing", name, [(1000, 2000)] * 3, None),
            ("nothing was done", name, [(1000, 0, 1000)] * 3, None),
            ("in one boot", name, [(1000, 2000, 1000)], None),
            ("1.19 of 1 MiB", large, [(1000, 1190, 1000)] * 3, False),
            ("1.2 of 1 MiB", large, [(1000, 1200.001, 1000)] * 3, True),
            ("1.1 of 1 MiB over rxe", large.replace("vhca", "rxe"), [(1000, 1100, 1000)] * 3, True)):
        expect(f"icount: {what}", _one(_goals(icount, _icount_rows(case, rates)), f"{case}: at least"), met)
    found = icount.goals(_icount_rows(name, [(1000, 1050, 1000), (1000, 980, 1000), (1000, 1030, 1000)]))
    expect("icount: what is undecided is said", (len(found.notes), "too wide" in found.rows[len(icount.names(False)) // 2 + 1]["goal"]),
           (1, True))
    for what, rates, met in (
            ("the same", [(1000, 1, 1000)] * 4, True),
            ("the same in the middle", [(1000, 1, number) for number in (1004, 997, 1003, 996)], True),
            ("not the same", [(1000, 1, number) for number in (1004, 1005, 1003, 1004)], False),
            ("not the same, less", [(1000, 1, number) for number in (996, 995, 997, 996)], False),
            ("too wide", [(1000, 1, number) for number in (1040, 960, 1030, 970)], None),
            ("nothing was done", [(1000, 1, 0)] * 4, False),
            ("in one boot", [(1000, 1, 1000)], None)):
        expect(f"icount: control, {what}", _one(_goals(icount, _icount_rows(name, rates)), "control"), met)
    expect("icount: control, none", [_one(_goals(icount, rows), "control") for rows in
                                     ([], _icount_rows(name, [(1000, 1)] * 3))], [False, False])
    # One that is faster and one that is slower by as much are no drift of the device's, and one alone is.
    both = _icount_rows(name, [(1000, 1, 1010)] * 3) + _icount_rows("rxe: NULL", [(1010, 1, 1000)] * 3)
    expect("icount: control, over all cases of a device", _one(_goals(icount, both), "control"), True)
    other = _icount_rows(name, [(1000, 1, 1010)] * 3) + _icount_rows("vhca: NULL", [(1010, 1, 1000)] * 3)
    expect("icount: control, of each device", [row["met"] for row in icount.goals(other).rows if "control" in row],
           [False, False])
    rows = _icount_rows(name, [(1000, 1100, 1000), (2000, 2200, 2000), (1010, 1100, 1000)])
    expect("icount: boots of the same order are compared", sorted(round(at, 9) for at in icount.spread(rows)), [0, 0, .01])
    profiled = [{"case": name, "xprt": xprt, "round": 0, "copies": 77,
                 "profile": {xprt: 100, "rdma_rxe": 300, "sunrpc": 50, "kernel": 550}} for xprt in XPRTS]
    text = _told(icount.tell, rows + profiled)
    expect("icount: told", [text.count(what) for what in ("1.098 [", "60 to 62 s", "30.0%", " 77 ")], [1, 1, 2, 2])
    expect("icount: a profile is no boot", _goals(icount, rows + profiled), _goals(icount, rows))

    # What a boot prints.
    chosen = [case for case in icount.cases() if case.name in (name, "rxe: long call")]

    def printed(passes, turn):
        return "noise\n" + "".join(
            f"{leg}|{case.name}|{what}|repeat ops=30 ns={1000 * ns} p50={2 * ns} p99={3 * ns}\n"
            for leg, these in counts.legs(turn, chosen, [case.name for case in chosen])
            for ns in passes for case in these for what, _ in case.commands())

    for turn in (0, 1):
        found = icount._parse(printed((1000, 4000, 1000), turn), turn, chosen)
        expect(f"icount: parsed, boot {turn}",
               {(row["case"], row["xprt"], row["round"], row["depth"], round(row["rate"]), row["p50"], row["p99"])
                for row in found},
               {(case.name, leg, turn, case.depth, 15000, 2.0, 3.0) for case in chosen for leg in (*XPRTS, CONTROL)})
    try:
        icount._parse(printed((1000, 4000), 0), 0, chosen)
        expect("icount: a pass is missing", "parsed", "refused")
    except lab.LabError:
        pass
    for turn in (0, 1):
        script = icount._script(turn, chosen)
        order = [line.split('"')[1].split("|")[0] for line in script.splitlines() if line.startswith('echo "')]
        expect(f"icount: the order of boot {turn}", list(dict.fromkeys(order)),
               [XPRTS[0], XPRTS[1], CONTROL] if not turn else [CONTROL, XPRTS[1], XPRTS[0]])
        expect(f"icount: boot {turn} asks for all, of this device only", (len(order), "vhca_va" in script),
               (3 * icount.PASSES * sum(len(case.commands()) for case in chosen), False))


def _sends(expect):
    chosen = [case for case in sends.cases() if case.name in ("vhca: READ 20 KiB", "vhca: WRITE 64 KiB")]
    name = chosen[0].name
    each = sends.ALONE + chosen[0].warm

    def printed(sent, passes=sends.PASSES):
        lines = []
        for case in chosen:
            for place, leg in enumerate(sends.LEGS):
                lines += [f"{leg}|{case.name}|rate|repeat ops={sends.DEPTH * sends.EACH} ns={(1 + place) * 192000} p50=1 p99=2 "
                          f"sent={sent.get(leg, 0)}",
                          f"{leg}|{case.name}|alone|repeat ops={sends.ALONE} ns=60000 p50={2000 * (1 + place)} p99=9000 "
                          f"sent={sent.get(leg, 0)}"] * passes
        return "noise\n" + "\n".join(lines) + "\nversion2|vhca: memory|memory|repeat client=40 server=50\n"

    rows = sends._parse(printed({sends.REDUCED: each}), 1, chosen)
    some = each / sends.DEPTH / (sends.EACH + chosen[0].warm)
    expect("sends: parsed", [(row["case"], row["xprt"], row["round"], round(row["rate"]), row["p50"], row["sent"],
                              row["sent-all"]) for row in rows if "rate" in row],
           [(case.name, leg, 1, round(1e6 / (1 + place)), 2.0 * (1 + place), *((1, some) if leg == sends.REDUCED else (0, 0)))
            for case in chosen for place, leg in enumerate(sends.LEGS)])
    expect("sends: memory", [row for row in rows if "client" in row],
           [{"case": "vhca: memory", "xprt": "version2", "round": 1, "client": 40, "server": 50}])
    try:
        sends._parse(printed({}, sends.PASSES - 1), 1, chosen)
        expect("sends: a pass is missing", "parsed", "refused")
    except lab.LabError:
        pass
    for what, sent, met in (("all", {sends.REDUCED: each}, [True] * 3), ("one less", {sends.REDUCED: each - 1}, [True, True, False]),
                            ("none", {}, [True, True, False]),
                            ("in version 2 too", {sends.REDUCED: each, "version2": 1}, [True, False, True])):
        found = sends.goals(sends._parse(printed(sent), 0, chosen))
        expect(f"sends: {what}", [row["met"] for row in found.rows if row["goal"].startswith(name)], met)
        expect(f"sends: {what}, others are not measured", [row["met"] for row in found.rows if "rxe" in row["goal"]],
               [None] * 24)
    text = _told(sends.tell, rows)
    # Of version 1, which is the second: a third and a fourth as fast as in-tree, so two thirds and a half of it.
    expect("sends: told", [text.count(what) for what in ("0.667", "0.500", "1.500", "2.000")], [2, 2, 2, 2])
    for turn in (0, 1):
        order = [line.split('"')[1].split("|")[0] for line in sends._script(turn, chosen).splitlines()
                 if line.strip().startswith('echo "')]
        expect(f"sends: the order of boot {turn}", list(dict.fromkeys(order)), list(sends.LEGS)[::-1 if turn else 1])


def _cpus(expect):
    def rows(name, first, numbers, again=None):
        """One CPU and one connection took @first of both; @name, in each round, (in-tree, ours), and in-tree @again."""
        by = {case.name: case for case in cpus.cases(True)}

        def row(case, leg, turn, number):
            module = counts.module_of(leg)
            return {"case": case.name, "xprt": leg, "round": turn, "cpus": case.cpus, "connections": case.connections,
                    "operation": case.operation, "calls": 1, "helped": number, "transport": number, "kernel": 7 * number,
                    "spins": -0.3, "functions": {module: {"post": number, f"only {case.cpus}": 1}}}

        return [row(by["1 CPU, 1 connection: GETATTR"], leg, turn, first) for leg in XPRTS for turn in range(len(numbers))] + [
            row(by[name], leg, turn, number) for turn, both in enumerate(numbers)
            for leg, number in zip((*XPRTS, CONTROL), (*both, *(again or ())))]

    name = "4 CPUs, 100 connections: GETATTR"
    for what, first, numbers, verdicts in (
            ("as before", 1000, [(1000, 1000)], (True, True, True)),
            ("below in-tree, and as much more as may be", 1000, [(1030, 1030)], (True, True, True)),
            ("more than in-tree", 1000, [(1000, 1001)], (False, True, True)),
            ("grown as in-tree's", 1000, [(1060, 1060)], (True, False, True)),
            ("grown more than in-tree's", 1000, [(960, 990)], (False, True, False)),
            ("in one of two rounds", 1000, [(1000, 1000), (1000, 1060)], (False, False, False)),
            ("in-tree in one of two rounds", 1000, [(1000, 1000), (900, 1000)], (False, True, True)),
            ("nothing was counted", 1000, [(1000, 0)], (False, False, False)),
            ("nothing at first", 0, [(1000, 1000)], (True, False, False))):
        found = _goals(cpus, rows(name, first, numbers))
        expect(f"cpus: {what}", tuple(_one(found, f"{name}: {goal}") for goal in (
            "not above", "the module's at most 1.03", "grown by at most 1.03 of in-tree's")), verdicts)
    as_well = {row["goal"]: row["other_met"] for row in cpus.goals(rows(name, 1000, [(1060, 1000)])).rows}
    expect("cpus: in-tree's grows", _one(as_well, f"{name}: the module's"), False)
    found = _goals(cpus, rows(name, 1000, [(1000, 1000)])[2:])
    expect("cpus: growth from what was not measured", _one(found, f"{name}: the module's"), None)
    expect("cpus: 1,000 without --full", _one(found, "4 CPUs, 1000 connections: READ 4 KiB: not above"), None)
    for again, met in ((1020, True), (1021, False), (979, False), (0, False), (None, False)):
        found = _goals(cpus, rows(name, 1000, [(1000, 1000)], [] if again is None else [again]))
        expect(f"cpus: control, {again} after 1000", _one(found, "control"), met)
    told = rows(name, 1000, [(1000, 1234)])
    text = _told(cpus.tell, told)
    expect("cpus: told", [text.count(what) for what in ("1.234", "8638", "-0", "rpcordma: post", "rpcordma: only 4")],
           [2, 1, 0, 1, 1])
    expect("cpus: what takes more", cpus.changes(*(row for row in told if row["xprt"] == XPRTS[1])),
           [("rpcordma: post", 1000, 1234), ("rpcordma: only 4", 0, 1), ("rpcordma: only 1", 1, 0)])
    expect("cpus: waiting", cpus.spins({("kernel", ""): 5, ("kernel", "osq_lock"): 3, ("sunrpc", "f"): 7, "user": 9}), 3)
    shared = {case.name: case for case in cpus.cases(True)}
    few, most = shared["1 CPU, 8 connections: READ 4 KiB"], shared["4 CPUs, 1000 connections: READ 4 KiB"]
    expect("cpus: all threads, and 1,000 connections' as many calls in all",
           [(case.script(cpus.MANY).count("repeat timed"), case.calls()) for case in (few, most)],
           [(10, 100 * (cpus.MANY - cpus.FEW)), (100, 100 * (cpus.MANY - cpus.FEW))])
    expect("cpus: each mount is used", sum(f" /m{at}/" in most.script(1) for at in range(100)), 100)


HIST = """# event histogram
#
# trigger info: hist:keys=common_stacktrace:vals=hitcount:sort=hitcount:size=16384 [paused]
#

{ common_stacktrace:
         native_queued_spin_lock_slowpath+0x1b0/0x2e0
         _raw_spin_lock_irqsave+0x40/0x50
         __wake_up+0x1e/0x60
         svc_xprt_enqueue+0x60/0x1f0 [sunrpc]
         rpcordma_svc_enqueue+0x10/0x20 [rpcordma]
} hitcount:          5
{ common_stacktrace:
         native_queued_spin_lock_slowpath+0x1b0/0x2e0
         _raw_spin_lock+0x30/0x40
         svc_xprt_enqueue+0x20/0x1f0 [sunrpc]
} hitcount:          2
{ common_stacktrace:
         native_queued_spin_lock_slowpath+0x1b0/0x2e0
         _raw_spin_lock+0x30/0x40
         try_to_wake_up+0x30/0x40
         asm_sysvec_call_function_single+0x1a/0x20
         rpcordma_lock_acquire+0x5/0x10 [rpcordma]
} hitcount:         11

Totals:
    Hits: 18
    Entries: 3
    Dropped: 0
"""


def _locks(expect):
    every = HIST + (len(locks.SLOW) - 1) * "Totals:\n    Hits: 0\n    Entries: 0\n    Dropped: 0\n"
    expect("locks: whose, and not what was interrupted", locks.places_of(every),
           {"sunrpc: svc_xprt_enqueue": 7, "kernel: try_to_wake_up": 11})
    for what, text in (("some were dropped", every.replace("Dropped: 0", "Dropped: 3", 1)), ("cut off", every[:-20])):
        try:
            expect(f"locks: {what}", locks.places_of(text), "refused")
        except lab.LabError:
            pass
    name = locks.names(False)[0]
    for what, rounds, met in (("fewer", [(100, 90), (200, 182), (100, 91)], True), ("more", [(100, 110), (200, 222)], False),
                              ("fewer in the middle", [(100, 60), (100, 110), (100, 90)], None), ("in one round", [(100, 50)], None),
                              ("none at all", [(0, 0)] * 2, None)):
        rows = [{"case": name, "xprt": xprt, "round": turn, "calls": calls, "places": {
            f"{xprt}: a": number * calls / 2000, "sunrpc: b": number * calls / 2000, "kernel: c": 5 * calls}}
            for turn, numbers in enumerate(rounds) for xprt, calls, number in zip(XPRTS, (2000, 1000), numbers)]
        expect(f"locks: {what}", _one(_goals(locks, rows), f"{name}:"), met)
        if met is False:
            # Of each transport two columns of the first table, and two lines of its own.
            text = _told(locks.tell, rows)
            expect("locks: told", [text.count(number) for number in (" 75.0", " 83.0", "5000.0", "rpcordma: a", "kernel: c")],
                   [4, 4, 4, 1, 2])
    expect("locks: not measured", set(_goals(locks, []).values()), {None})


def _trips(expect):
    for theirs, ours, met in ((2, 2, True), (2, 1, True), (2, 2.5, False), (2, 0.5, False)):
        found = _goals(trips, [{"case": "GETATTR", "xprt": xprt, "round": 0, "trips": number}
                               for xprt, number in zip(XPRTS, (theirs, ours))])
        expect(f"trips: {ours} to {theirs}", _one(found, "GETATTR"), met)
    for two, met in ((1, True), (1.02, False), (2, False), (0.5, False), (None, None)):
        found = _goals(trips, [{"case": "WRITE 16 KiB", "xprt": leg, "round": 0, "trips": number}
                               for leg, number in zip((*XPRTS, VERSION2), (2, 2, two)) if number is not None])
        expect(f"trips: version 2, {two}", _one(found, "WRITE 16 KiB: 1 round trip"), met)
        found = _goals(trips, [{"case": "longer call", "xprt": leg, "round": 0, "trips": number}
                               for leg, number in zip(counts.LEGS, (2, 2, 2, two)) if number is not None])
        expect(f"trips: reduced, {two}", _one(found, "longer call: 1 round trip"), met)
    expect("trips: not measured", _one(_goals(trips, []), "GETATTR"), None)


def _slope(expect):
    def rows(case, *steep):
        """Of slope.LEGS; None: it was not measured at one of the delays."""
        return [{"case": case, "xprt": leg, "round": 0, "delay": delay, "latency": 123.4 + 2 * delay * (at or 1)}
                for leg, at in zip(slope.LEGS, steep) for delay in slope.DELAYS if at or delay]

    steep, rest = slope.line([(0, 10), (2, 14), (4, 18)])
    expect("slope: of three points", (round(steep, 9), round(rest, 9)), (2, 10))
    expect("slope: of what is not on a line", round(slope.line([(0, 0), (1, 2), (2, 2)])[0], 9), 1)
    for ours, met in ((2, True), (2.02, False), (1.5, True), (0.5, False), (None, None)):
        expect(f"slope: {ours} to 2", _one(_goals(slope, rows("READ 64 KiB", 2, ours, 1, 1)), "READ 64 KiB: no steeper"),
               met)
    for two, one, half in ((1, True, True), (2, False, False), (1.02, False, False), (0.5, False, False),
                           (None, None, None)):
        found = _goals(slope, rows("WRITE 16 KiB", 2, 2, two, 1))
        expect(f"slope: version 2, {two}", _one(found, "WRITE 16 KiB: slope 1"), one)
        expect(f"slope: version 2, {two}, to 2", _one(found, "WRITE 16 KiB: half"), half)
        found = _goals(slope, rows("longer call", 2, 2, 2, two))
        expect(f"slope: reduced, {two}", _one(found, "longer call: reduced"), one)
    # The measurement has to see two where there are two.
    expect("slope: half of one", _one(_goals(slope, rows("WRITE 16 KiB", 1, 1, 1, 1)), "WRITE 16 KiB: half"), False)
    expect("slope: not measured", _one(_goals(slope, []), "GETATTR: slope"), None)


def _copy(expect):
    for cost, met in ((1999, True), (2000, False), (0, False), (None, None)):
        rows = [{"case": "uncached", "round": 0, "bytes": size, "ns": number} for size, number in (
            (16384, cost), (65536, 9999)) if number is not None]
        expect(f"copy: {cost} ns", _one(_goals(copy, rows), "16384 bytes, uncached"), met)


def _scale(expect):
    def rows(ours, calls=((1000, 1000),), theirs=None):
        """@calls, @theirs: of each round, instructions of a call with 1 and with 100 connections."""
        return [{"case": scale.name_of(size), "xprt": xprt, "connections": size, "round": turn,
                 **{state: {"total": kib, "rings": 10, "slab": kib, "vmalloc": 0} for state in ("idle", "busy")},
                 "instructions": [number, number + 5000], "rest_cpu": 0, "rest_cpu_without": 0, "cpu": [1], "calls": 1,
                 "seconds": [1], "made_seconds": 1, "slabs": {}}
                for xprt, kib, all_ in zip(XPRTS, (1000, ours), (theirs or calls, calls))
                for turn, numbers in enumerate(all_) for size, number in zip(scale.SIZES, numbers)]

    for ours, met in ((250, True), (251, False), (0, False)):
        expect(f"scale: {ours} of 1000 KiB", _one(_goals(scale, rows(ours)),
                                                  "never-busy connection of 100, KiB in all"), met)
    call = "instructions of a call: 100 / 1 "
    for what, calls, met in (
            ("1.1 of one round", ((1000, 1100),), None), ("2 of one round", ((1000, 2000),), None),
            ("1.1", ((1000, 1100),) * 3, True), ("1.101", ((1000, 1101),) * 3, False),
            ("1.00 [0.96, 1.04]", ((1000, 1016), (1000, 984), (1000, 1000)), True),
            # In the middle it is 1, too.
            ("1.00 [0.80, 1.25]", ((1000, 1094), (1000, 914), (1000, 1000)), False),
            ("nothing was counted", ((1000, 0),) * 3, False)):
        expect(f"scale: a call's instructions: {what}", _one(_goals(scale, rows(100, calls)), call), met)
        as_well = {row["goal"]: row["other_met"] for row in scale.goals(rows(100, ((1000, 900),) * 3, calls)).rows}
        if met is not None:
            expect(f"scale: in-tree's instructions: {what}", _one(as_well, call), met)
    for turns, found in ((1, False), (3, True)):
        text = _told(scale.tell, rows(100, ((1234, 600),) * turns, ((2468, 1200),) * turns))
        expect(f"scale: told of {turns} rounds, a call's instructions and their ratio",
               ("1234" in text, "0.50 [0.50, 0.50]" in text), (found, found))
    expect("scale: a goal made of in-tree's figure", _one(as_well, "never-busy connection of 100, KiB in all"), None)
    expect("scale: 1,000 without --full", _one(_goals(scale, rows(100)), "1000 idle connections"), None)


def _codec(expect):
    def rows(low):
        return [{"function": "decode", "shape": "inline", "ours": {"ns": 10},
                 "rpcgen": {"ns": 60, "ratio": (6, low, 7)}}]

    for low, met in ((5.0, True), (4.99, False)):
        expect(f"codec: an interval from {low}", _one(_goals(codec, rows(low)), "decode of inline"), met)
    expect("codec: another shape is missed", _one(_goals(codec, rows(5.5)), "decode of read-1:"), None)


def _within(expect):
    lines = """
0000000000000010 <__pfx_a::f>:
      10:\tnop

0000000000000020 <a::f(int, b) [clone .part.0]>:
      20:\tendbr64
      24:\tcall   29 <a::f+0x9>
      29:\ttest   %eax,%eax
      2b:\tje     30 <a::f+0x10>
      2d:\tinc    %eax
      2f:\tjmp    40 <__x86_return_thunk>
      30:\tdec    %eax
      32:\tret

0000000000000040 <a::(anonymous namespace)::f(int)>:
      40:\tret
""".splitlines()
    code = within.instructions_of(lines, "a::f")
    expect("within: a function's instructions, from its beginning on", [code[0], code[-1]],
           [(0, "endbr64"), (0x12, "ret")])
    expect("within: one of a nameless namespace", within.instructions_of(lines, "a::(anonymous namespace)::f"),
           [(0, "ret")])
    expect("within: what is not there", within.instructions_of(lines, "a::g"), [])
    expect("within: what was executed, and how often, up to where a block ends",
           [line.split()[:3] for line in within.listing(code, {0: 2.0, 9: 2.5, 0x10: 1.0})],
           [["2.0", "0", "endbr64"], ["4", "call", "29"], ["2.5", "9", "test"], ["b", "je", "30"],
            ["1.0", "10", "dec"], ["12", "ret"]])
    expect("within: by function",
           within.by_function({("a::f", 0): 2, ("a::f", 9): 3, ("c", 0): 1}), {"a::f": {0: 2, 9: 3}, "c": {0: 1}})


def main():
    # First: it may go on in another Python.
    drawn = plot.main(["--self-test"])
    wrong, good = [], 0

    def expect(what, got, want):
        nonlocal good
        if got == want:
            good += 1
        else:
            wrong.append(f"{what}: {got!r}, expected {want!r}")

    for test in (_stats, _report, _times, _counts, _instructions, _icount, _sends, _cpus, _locks, _trips, _slope, _scale, _copy, _codec,
                 _within):
        test(expect)
    for line in wrong:
        print(f"FAILED   {line}")
    print(f"{good + (drawn == 0)} passed, {len(wrong) + (drawn != 0)} failed, 0 skipped")
    return 1 if wrong or drawn else 0
