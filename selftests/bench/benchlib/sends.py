# SPDX-License-Identifier: GPL-2.0-only
"""Payloads in Sends beside RDMA: READ and WRITE of 20 to 64 KiB, over either device, where time is instructions.

As icount.py measures, in one machine of one CPU that is both ends: in-tree, ours in version 1, in version 2, and in
version 2 with the payload of calls and replies in Sends (send_write_max, send_read_max). What one operation takes in
instructions, alone, is its latency there, as a nanosecond is one. A row is one case in one boot:

    {"case", "xprt", "round", "rate", "depth", "p50", "p99"    as icount.py has them
     "sent"        the share of payloads that went in Sends, by one thread, and "sent-all" by all: 16 Receives are
                   reserved for what comes in several messages, so that some of many calls at a time do without}

and one for what a connection takes in memory, by its Receives:

    {"case": "DEVICE: memory", "xprt", "round", "client", "server": KiB}
"""

import statistics

from vmlib import hca, lab

from . import icount, report
from .counts import MOUNT, NAMES, REDUCED, VERSION2, XPRTS, module_of, setting

ROUNDS = 2
PASSES = 3
KIB = 1024
SIZES = (20, 32, 48, 64)
LEGS = (*XPRTS, VERSION2, REDUCED)
DEPTH, EACH, ALONE = 8, 24, 60
# Both directions in one: either has its own. A function: it is called hundreds of times, and what is longer than 128 KiB no shell takes.
ITEMS = """
    items() {
        awk '/^(sent|asked)_item_count:/ { n += $2 } END { print n + 0 }' /sys/kernel/debug/rpcordma/stats 2> /dev/null || echo 0
    }
"""
# KiB of the Receives that the one connection has, at the client and at the server.
MEMORY = """
    echo "{leg}|{device}: memory|memory|repeat client=$(awk '/^receives:/ {{ n = $2 }} /^receive_size:/ {{ b = $2 }}
        END {{ print int(n * b / 1024) }}' /sys/kernel/debug/rpcordma/stats) server=$(awk '{{
        for (i = 1; i <= NF; i++) {{ split($i, at, "="); v[at[1]] = at[2] }} n += v["receives"] * v["receive"] }}
        END {{ print int(n / 1024) }}' /sys/kernel/debug/rpcordma/server/connections)" >> /tmp/said
"""
BEGIN = """
    modprobe {xprt} && [ ! -e /sys/module/{other} ] || die "not {xprt} alone"
    {settings}
    {serve} || die "no nfsd"
    {mount} || die "no mount"
    {grow}
"""
GROW = """
    n=0
    until [ "$(awk '$1 == "grown" { print $2 }' /sys/kernel/debug/rpcordma/server/counters)" -gt 0 ]; do
        work_to_grow /mnt $n
        n=$((n + 1))
        [ $n -lt 20 ] || die "the server's Receives do not grow"
    done
"""


def cases():
    """All that is measured, in this order, by devices."""
    for device in icount.DEVICES:
        for what in ("read", "write"):
            for size in SIZES:
                case = icount.Case(f"{device}: {what.upper()} {size} KiB", f"{what} /mnt/file COUNT {size * KIB} 0 0",
                                   EACH, DEPTH, ALONE)
                yield case


def names(_full):
    return [case.name for case in cases()]


def _leg(leg, device, chosen, first):
    xprt, ours = module_of(leg), module_of(leg) == XPRTS[1]
    script = BEGIN.format(
        xprt=xprt, other=XPRTS[xprt == XPRTS[0]],
        settings=f"{setting(leg)} || die 'no such setting'" if ours else "",
        serve=f"server_up {xprt} 3600" if first else "nfsd_start 8",
        mount=hca.OneKernel.mount_command("3", f"{MOUNT},nordirplus", "/mnt"),
        grow=GROW if leg in (VERSION2, REDUCED) else "")
    for case in PASSES * chosen:
        for what, command in case.commands():
            script += (f"items=$(items)\nsaid=$({command}) || die '{case.name}'\n"
                       f"echo \"{leg}|{case.name}|{what}|$said sent=$(($(items) - items))\" >> /tmp/said\n")
    if ours:
        script += MEMORY.format(leg=leg, device=device)
    return script + icount.GONE.format(xprt=xprt)


def _script(turn, chosen):
    script, first = icount.PREPARE + ITEMS, True
    for device in icount.DEVICES:
        some = [case for case in chosen if case.name.startswith(f"{device}: ")]
        if not some:
            continue
        script += icount.up(device)
        for leg in LEGS[::-1] if turn % 2 else LEGS:
            script += _leg(leg, device, some, first)
            first = False
        script += icount.down(device)
    return script + "cat /tmp/said\n"


def _share_sent(passes, warm):
    """Of the operations of @passes, and @warm before each that nobody timed, how many went in Sends."""
    return sum(each["sent"] for each in passes) / (sum(each["ops"] for each in passes) + len(passes) * warm)


def _parse(text, turn, chosen):
    """Rows of what a boot printed."""
    found = icount.results(text)
    rows = []
    for case in chosen:
        for leg in LEGS:
            rate, alone = (found.get((leg, case.name, what), []) for what in ("rate", "alone"))
            if not len(rate) == len(alone) == PASSES:
                raise lab.LabError(f"{case.name}, {NAMES[leg]}: {len(rate)} rates and {len(alone)} latencies, "
                                   f"not {PASSES} of each")
            rows.append({"case": case.name, "xprt": leg, "round": turn, "depth": case.depth,
                         **icount.speed(rate, alone), "sent": _share_sent(alone, case.warm),
                         "sent-all": _share_sent(rate, DEPTH * case.warm)})
    for (leg, case, what), each in found.items():
        if what == "memory":
            rows.append({"case": case, "xprt": leg, "round": turn, **each[0]})
    return rows


def run(rows, wrong, rounds, only, _full):
    """Appends rows (above) to @rows for each case that begins with @only, leg and boot; to @wrong what went wrong."""
    chosen = [case for case in cases() if case.name.startswith(only)]
    icount.boots(rows, wrong, rounds, chosen, "sends", _script, _parse, memory=1536, limit=1800)


def _of(rows, case, leg):
    return [row for row in rows if (row["case"], row["xprt"]) == (case, leg)]


def _median(rows, what):
    return statistics.median(row[what] for row in rows) if rows else float("nan")


def _share(rows, case, what, leg):
    """@leg's figure to that of version 1: the boots' geometric mean."""
    ours, first = ([row[what] for row in sorted(_of(rows, case, each), key=lambda row: row["round"])]
                   for each in (leg, XPRTS[1]))
    if not ours or len(ours) != len(first) or min(ours + first) <= 0:
        return float("nan")
    return statistics.geometric_mean(a / b for a, b in zip(ours, first))


def _measured(rows):
    return list(dict.fromkeys(row["case"] for row in rows if "rate" in row))


def tell(rows):
    for what, title in (("rate", f"operations in a second of the machine's, by {DEPTH} threads"),
                        ("p50", "microseconds of one operation, by one thread: instructions of both ends, in thousands")):
        print(f"\n{title}; behind them ours to version 1's")
        sent = "sent-all" if what == "rate" else "sent"
        report.table(("case", *(NAMES[leg] for leg in LEGS), "v2", "v2 reduced", "in Sends"),
                     [(case, *(f"{_median(_of(rows, case, leg), what):.1f}" for leg in LEGS),
                       *(f"{_share(rows, case, what, leg):.3f}" for leg in LEGS[2:]),
                       f"{_median(_of(rows, case, REDUCED), sent):.0%}") for case in _measured(rows)])
    memory = list(dict.fromkeys(row["case"] for row in rows if "client" in row))
    print("\nKiB of Receives that the connection has")
    report.table(("device", "end", *(NAMES[leg] for leg in LEGS[1:])),
                 [(case.split(":")[0], end, *(f"{_median(_of(rows, case, leg), end):.0f}" for leg in LEGS[1:]))
                  for case in memory for end in ("client", "server")])


def goals(rows):
    """Each payload of one thread went in Sends, and with the leg that is for it alone. Which is faster is told, and is no goal: the
    parameters' defaults say what follows from it."""
    table = report.Goals("in-tree")
    for case in names(False):
        for leg in LEGS[1:]:
            some = _of(rows, case, leg)
            want = int(leg == REDUCED)
            shares = [row["sent"] for row in some] + ([] if want else [row["sent-all"] for row in some])
            table.add(f"{case}, {NAMES[leg]}: {'all' if want else 'none'} in Sends", "-",
                      f"{statistics.fmean(shares):.3f}" if some else "-",
                      all(share == want for share in shares) if some else "not measured")
    return table
