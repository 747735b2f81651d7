# SPDX-License-Identifier: GPL-2.0-only
"""How often locks are waited for with 4 CPUs, over 1, 8 and 100 connections: two transports in turn.

Client and server, threads and connections are those of cpus.py, but the CPUs run at the same time. Who finds a lock held
goes into one of the kernel's functions SLOW: of spin locks, read-write locks, mutexes and semaphores. A kprobe at each
counts that by the stack. Whose it is, is the first function on that stack that is in a module, so that a wake-up or a piece
of work of the transport's counts as the transport's. The machine's CPU does not say that it is a virtual one: else the
kernel has simple spin locks in place of queued ones.

Contentions come by chance, and how many depends on whether the host lets CPUs run at once, so the ratio of several rounds
counts, with its interval. How long was waited is not told: the host stops a CPU that holds a lock for as long as it likes.

A row is one case in one round: {"case", "xprt", "round", "calls", "places": {"MODULE: FUNCTION": contentions}}; of what is
in no module, MODULE is "kernel".
"""

import re

from vmlib import hca, lab, machine

from . import cpus, report, stats
from .counts import NAMES, XPRTS
from .icount import Meter

ROUNDS = 3
CPUS = 4
CPU = machine.CPU + ",-hypervisor"
OWN = "sunrpc"
SLOW = ("native_queued_spin_lock_slowpath", "queued_read_lock_slowpath", "queued_write_lock_slowpath", "__mutex_lock_slowpath",
        "rwsem_down_read_slowpath", "rwsem_down_write_slowpath")
TRACING, PROBES = "/sys/kernel/tracing", "rpcordma_locks"
TRIGGER = "hist:keys=common_stacktrace:size=65536"
# Where what was interrupted begins, which has no part in it.
INTERRUPT = "asm_"
# What a lock itself is made of.
LOCKING = re.compile(r"(native_)?queued_|_raw_|__raw_|(__)?pv_|osq_|rwsem_|(__)?down_|(__)?mutex_|kprobe|(arch_)?ftrace_")
FRAME = re.compile(r"^\s+(\S+?)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(\w+)\])?\s*$")
END = re.compile(r"^\} hitcount: +(\d+)")


def cases():
    return list(cpus.cases(False, (CPUS,)))


def names(_full):
    return [case.name for case in cases()]


def place(frames):
    """"MODULE: FUNCTION" of a stack, [(function, module or None)], the innermost first."""
    shown = None
    for function, module in frames:
        if function.startswith(INTERRUPT):
            break
        if module:
            return f"{module}: {function}"
        if not shown and not LOCKING.match(function):
            shown = function
    return f"kernel: {shown or 'unknown'}"


def places_of(text):
    """{place: contentions} of what the triggers' files say."""
    if re.findall(r"^ +Dropped: (\d+)$", text, re.M) != ["0"] * len(SLOW):
        raise lab.LabError("the hist triggers of contentions dropped some, or were not read to their end")
    found, frames = {}, []
    for line in text.splitlines():
        if line.startswith("{"):
            frames = []
        elif match := FRAME.match(line):
            frames.append((match[1], match[2]))
        elif match := END.match(line):
            where = place(frames)
            found[where] = found.get(where, 0) + int(match[1])
    return found


def run(rows, wrong, rounds, only, _full):
    """Appends a row (above) to @rows for each case that begins with @only, transport and round; to @wrong what went wrong."""
    chosen = [case for case in cases() if case.name.startswith(only)]
    most = max(case.connections for case in chosen)
    with hca.OneKernel("bench-locks", XPRTS[1], memory=3072, cpus=CPUS, cpu=CPU) as one:
        try:
            cpus.prepare(one)
            _watch(one)
            for turn in range(rounds):
                for xprt in XPRTS[::-1 if turn % 2 else 1]:
                    cpus.serve(one, xprt, most)
                    for connections in dict.fromkeys(case.connections for case in chosen):
                        these = [case for case in chosen if case.connections == connections]
                        cpus.mount(one, connections)
                        cpus.settle(one, these[0])
                        for case in these:
                            report.progress(f"locks: {NAMES[xprt]}, round {turn + 1} of {rounds}: {case.name}")
                            rows.append({"case": case.name, "xprt": xprt, "round": turn, **_measure(one, case)})
                        cpus.umount(one, connections)
                    one.stop_serving()
        except (lab.LabError, machine.VmError) as error:
            wrong.append(str(error))
        finally:
            report.progress("")
            wrong += [f"the kernel complained: {line}" for line in one.complaints()]
    if rows and not any(sum(row["places"].values()) for row in rows):
        wrong.append("no lock was ever waited for: are there queued spin locks?")


def _each_event(script):
    """Shell commands: @script for each of the events, whose folder is $at."""
    return f"for at in {TRACING}/events/{PROBES}/*/; do {script} || die $at; done"


def _watch(one):
    """Counts from now on."""
    one.vm.run("".join(f"echo 'p:{PROBES}/{name} {name}' >> {TRACING}/kprobe_events || die 'no kprobe on {name}'\n"
                       for name in SLOW) + _each_event(f"echo '{TRIGGER}' > $at/trigger"), 60, "count contentions")


def _read(one):
    return places_of(one.vm.run(_each_event("cat $at/hist"), 120, "read contentions")), Meter.calls(one.vm)


def _measure(one, case):
    cpus.work(one, case, cpus.FEW)
    before, calls = _read(one)
    cpus.work(one, case, cpus.MANY)
    after, last = _read(one)
    calls = last - calls
    if calls < cpus.THREADS * case.processes * case.share(cpus.MANY):
        raise lab.LabError(f"{case.name}: the server took up {calls} calls only")
    return {"calls": calls, "places": {where: number - before.get(where, 0) for where, number in after.items()
                                       if number != before.get(where, 0)}}


def _some(rows, case, xprt):
    return [row for row in rows if row["case"] == case and row["xprt"] == xprt]


def _module(where):
    return where.split(":")[0]


def _sum(rows, belongs):
    """(contentions whose module @belongs, calls) of all @rows, or None."""
    return (sum(number for row in rows for where, number in row["places"].items() if belongs(_module(where))),
            sum(row["calls"] for row in rows)) if rows else None


def _each(found):
    """Of 1,000 calls."""
    return f"{1000 * found[0] / found[1]:.1f}" if found else "-"


def _groups(xprt):
    return (("module", lambda name: name == xprt), (OWN, lambda name: name == OWN),
            ("the rest", lambda name: name not in (xprt, OWN)))


def tell(rows):
    print("\ncontentions of locks, of 1,000 RPCs, by who took the lock")
    heads = [head for head, _ in _groups("")]
    report.table(("case", *(f"{head}: in-tree" if xprt == XPRTS[0] else "ours" for head in heads for xprt in XPRTS)),
                 [(case, *(_each(_sum(_some(rows, case, xprt), _groups(xprt)[at][1]))
                           for at in range(len(heads)) for xprt in XPRTS)) for case in dict.fromkeys(row["case"] for row in rows)])
    for xprt in XPRTS:
        found = _most(rows, xprt)
        if found:
            print(f"\n{NAMES[xprt]}: where locks were waited for most, of 1,000 RPCs, all cases together")
            report.table(("function", "contentions"), found)


def _most(rows, xprt, lines=12):
    some = [row for row in rows if row["xprt"] == xprt]
    found = {}
    for row in some:
        for where, number in row["places"].items():
            found[where] = found.get(where, 0) + number
    return [(where, _each((number, sum(row["calls"] for row in some))))
            for where, number in sorted(found.items(), key=lambda item: -item[1])[:lines]]


def ratio(rows, case):
    """(ratio, low, high) of ours to in-tree's contentions of a call, by transport and sunrpc, in the same round; None where
    fewer than two rounds have both, or one has none."""
    by = [{row["round"]: (found := _sum([row], lambda name, xprt=xprt: name in (xprt, OWN)))[0] / found[1]
           for row in _some(rows, case, xprt)} for xprt in XPRTS]
    pairs = [(by[1][turn], by[0][turn]) for turn in by[0] if turn in by[1]]
    return stats.ratio(*zip(*pairs)) if len(pairs) > 1 and min(map(min, pairs)) > 0 else None


def goals(rows):
    """An interval that the limit is in says nothing."""
    table = report.Goals("in-tree")
    for case in cases():
        goal = f"{case.name}: contentions by transport and {OWN}, of 1,000 RPCs: not above in-tree's"
        theirs, ours = (_sum(_some(rows, case.name, xprt), lambda name, xprt=xprt: name in (xprt, OWN)) for xprt in XPRTS)
        found = ratio(rows, case.name)
        met = "not measured" if not theirs or not ours else "one round has no interval"
        if found:
            met = True if found[2] <= 1 else False if found[1] > 1 else "the interval is too wide to tell"
        table.add(goal, _each(theirs), _each(ours) + (": {:.2f} [{:.2f}, {:.2f}]".format(*found) if found else ""), met)
    return table
