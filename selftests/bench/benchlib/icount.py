# SPDX-License-Identifier: GPL-2.0-only
"""How fast it is where time is instructions: in-tree and ours in turn, at both ends, in one machine of one CPU.

QEMU's -icount makes the machine's clock count what its one CPU executes, a nanosecond for each instruction, and go to
the next timer where that has nothing to do. So a rate does not depend on what the host does, and two boots give nearly
the same. Client and server are in one kernel, over two devices: the virtual one of selftests/hca without its checks,
which does little but copy, and rxe. Each boot measures in-tree, ours, and in-tree again, and the next one the other way
round; all of it in one script, as the clock runs away while the machine waits for the host. What is left of noise is
which thread runs when, so each leg does all its cases in several passes, and starts the threads anew.

A row is one case in one boot:

    {"case", "xprt", "round",
     "rate"       operations in a second of the machine's, by "depth" threads, of all passes,
     "p50", "p99"  microseconds of one, by one thread: the passes' median,
     "host"       {"seconds", "load"}: what the boot took the host, and how busy that was}

Two more boots, which count what an RPC takes by modules (instructions.py) over either device, say what of an operation
is the device's own. Their rows are

    {"case", "xprt", "round", "profile": {module: kernel instructions of one RPC, of both ends}, "copies": rounds of
     string instructions}
"""

import math
import os
import re
import statistics
import time

from vmlib import cost, hca, lab, machine

from . import instructions, report, stats
from .counts import CONTROL, ENTRIES, LONG, MOUNT, NAMES, XPRTS, by_round, legs, module_of

# As many boots begin with in-tree as end with it.
ROUNDS = 6
PASSES = 3
KIB, MIB = 1024, 1 << 20
# The control's interval: one whose ends are further apart says nothing; and by how many per cent 1 is to be in it.
CONTROL_WIDTH, CONTROL_PERCENT = 1.02, 99
# Modules of a device's own, and others that have a column.
DRIVERS = {"vhca": ("vhca",), "rxe": ("rdma_rxe", "veth", "ib_uverbs", "udp_tunnel", "ip6_udp_tunnel")}
SHARES = (("transport", XPRTS), ("sunrpc", ("sunrpc",)), ("ib_core", ("ib_core",)),
          ("NFS", ("nfs", "nfsv3", "nfsv4", "nfsd", "lockd", "nfs_acl", "auth_rpcgss", "netfs")))
# What is started with how: the commands of a device.
DEVICES = {
    "vhca": "cd /sys/module/vhca/parameters; echo connectx > preset; echo N > bounce; echo N > checks; cd /",
    "rxe": "modprobe rdma_rxe || die 'no rdma_rxe'",
}
# What there is on the server, and how much room.
PREPARE = f"""
    export_up 300m
    dd if=/dev/zero of=/export/file bs=1M count=24 2> /dev/null && chmod 666 /export/file || die "no file"
    fsops dirmake /export/dir {ENTRIES} || die "no directory"
    modprobe -a nfs nfsv3 nfsv4 nullrpc || die "no nfs"
"""
# Each leg connects anew, and leaves nothing.
BEGIN = """
    modprobe {xprt} && [ ! -e /sys/module/{other} ] || die "not {xprt} alone"
    [ {xprt} != rpcordma ] || echo 0 > /sys/module/rpcordma/parameters/version2 || die "no version 1"
    {serve} || die "no nfsd"
    {mounts}
    [ $(grep -c 'xprt:.*rdma' /proc/self/mountstats) = 3 ] || die "not three mounts over RDMA"
"""
# Nothing is left of it.
GONE = """
    umount /mnt && nfsd_stop || die "umount"
    n=0
    until rmmod {xprt} 2> /dev/null; do
        usleep 100000
        n=$((n + 1))
        [ $n -lt 100 ] || die "{xprt} stays"
    done
"""
END = """
    [ $(cat /sys/module/{xprt}/refcnt) -gt 0 ] || die "{xprt} was not used"
    umount /fresh && umount /v4 || die "umount"
""" + GONE


class Case:
    """@depth threads do @n each, and one does @alone; None: the rate is that of the one."""

    def __init__(self, name, operation, n, depth, alone, least=1.0):
        self.name, self.operation, self.n, self.depth, self.alone, self.least = name, operation, n, depth, alone, least
        # Of each thread, uncounted.
        self.warm = max(1, alone // 5)

    def commands(self):
        """[(what its result is called, command)]"""
        runs = [("rate", self.n, self.depth)] if self.n else []
        return [(what, f"repeat timed {depth} {self.warm} {self.operation.replace('COUNT', str(n))}")
                for what, n, depth in [*runs, ("alone", self.alone, 1)]]


def _transfer(what, size, n, depth, alone, least):
    amount = f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"
    return Case(f"{what.upper()} {amount}", f"{what} /mnt/file COUNT {size} 0 0", n, depth, alone, least)


def _of(device):
    yield Case("NULL", "null /mnt COUNT", 60, 8, 150)
    yield Case("GETATTR", "stat /fresh/file COUNT", 60, 8, 150)
    for what in ("read", "write"):
        for size, n, depth, alone in ((4 * KIB, 60, 8, 150), (64 * KIB, 16, 8, 60), (MIB, 6, 4, 10)):
            # There the structure differs most, and vhca adds least to it.
            yield _transfer(what, size, n, depth, alone, 1.2 if (device, size) == ("vhca", MIB) else 1.0)
    yield Case("long call", f"setxattr /v4/file COUNT {LONG}", None, 1, 60)
    yield Case("READDIR large", "list /mnt/dir COUNT", None, 1, 4)


def cases():
    """All that is measured, in this order, by devices."""
    for device in DEVICES:
        for case in _of(device):
            case.name = f"{device}: {case.name}"
            yield case


def names(_full):
    return [case.name for case in cases()]


def _begin(xprt, first):
    mounts = "\n".join(f"{hca.OneKernel.mount_command(*how)} || die 'no mount at {how[2]}'" for how in (
        ("3", f"{MOUNT},nordirplus", "/mnt"), ("3", "actimeo=0,nosharecache", "/fresh"),
        ("4.2", "actimeo=600", "/v4")))
    return BEGIN.format(xprt=xprt, other=XPRTS[xprt == XPRTS[0]], mounts=mounts,
                        serve=f"server_up {xprt} 3600" if first else "nfsd_start 8")


def _leg(leg, chosen, first):
    script = _begin(module_of(leg), first)
    for case in PASSES * chosen:
        for what, command in case.commands():
            script += f"said=$({command}) || die '{case.name}'\necho \"{leg}|{case.name}|{what}|$said\" >> /tmp/said\n"
    return script + END.format(xprt=module_of(leg))


def _script(turn, chosen):
    """All that one boot does, device after device; prints a line for each result at the end."""
    script, first = PREPARE, True
    for device in DEVICES:
        some = [case for case in chosen if case.name.startswith(f"{device}: ")]
        if not some:
            continue
        script += up(device)
        for leg, these in legs(turn, some, [case.name for case in some]):
            script += _leg(leg, these, first)
            first = False
        script += down(device)
    return script + "cat /tmp/said\n"


def results(text):
    """{(leg, case, what): [{name: number}, of each pass]} of what a boot printed."""
    found = {}
    for leg, case, what, numbers in re.findall(r"^(\w+)\|(.*?)\|(\w+)\|repeat (.*)$", text, re.M):
        found.setdefault((leg, case, what), []).append(
            {key: int(value) for key, value in (word.split("=") for word in numbers.split())})
    return found


def speed(rate, alone):
    """What a row says of how fast it was: @rate and @alone have the results of each pass."""
    return {"rate": sum(each["ops"] for each in rate) / sum(each["ns"] for each in rate) * 1e9,
            **{p: statistics.median(each[p] for each in alone) / 1000 for p in ("p50", "p99")}}


def _parse(text, turn, chosen):
    """Rows of what a boot printed."""
    found = results(text)
    rows = []
    for leg, these in legs(turn, chosen, [case.name for case in chosen]):
        for case in these:
            alone = found.get((leg, case.name, "alone"), [])
            rate = found.get((leg, case.name, "rate"), []) if case.n else alone
            if not len(alone) == len(rate) == PASSES:
                raise lab.LabError(f"{case.name}: {len(rate)} rates and {len(alone)} latencies, not {PASSES} of each")
            rows.append({"case": case.name, "xprt": leg, "round": turn, "depth": case.depth, **speed(rate, alone)})
    return rows


def up(device):
    """Commands that make two of @device's."""
    return DEVICES[device] + "\n" + "".join(
        f"rdma link add {device}_{dev} type {device} netdev {dev} || die 'no {device}_{dev}'\n" for dev in ("va", "vb"))


def down(device):
    """And that take them away."""
    return "".join(f"rdma link delete {device}_{dev} || die '{device}_{dev} stays'\n" for dev in ("va", "vb"))


def boots(rows, wrong, rounds, chosen, part, script, parse, memory=1024, limit=900):
    """Boots a machine for each of @rounds, which does @script(turn, chosen) within @limit seconds; appends what
    @parse(text, turn, chosen) makes of it to @rows, to @wrong what went wrong. @part: its name."""
    for turn in range(rounds):
        report.progress(f"{part}: boot {turn + 1} of {rounds}, {len(chosen)} cases")
        began = time.monotonic()
        with hca.OneKernel(f"bench-{part}", XPRTS[1], memory=memory, counted=True) as one:
            try:
                found = parse(one.vm.run(script(turn, chosen), limit, "all cases"), turn, chosen)
                host = {"seconds": round(time.monotonic() - began, 1), "load": os.getloadavg()[0]}
                rows += [{**row, "host": host} for row in found]
            except (machine.VmError, lab.LabError) as error:
                wrong.append(f"boot {turn + 1}: {error}")
            finally:
                report.progress("")
                wrong += [f"the kernel complained: {line}" for line in one.complaints()]


def run(rows, wrong, rounds, only, _full):
    """Appends a row (above) to @rows for each case that begins with @only, transport and boot, and those of the
    profiles; to @wrong what went wrong."""
    chosen = [case for case in cases() if case.name.startswith(only)]
    boots(rows, wrong, rounds, chosen, "icount", _script, _parse)
    for device in DEVICES if not wrong else ():
        some = [case for case in chosen if case.name.startswith(f"{device}: ")]
        if some:
            _profiles(rows, wrong, device, some)


class Meter(instructions.Meter):
    """Of the one machine that is both ends."""

    def take(self, one):
        return {"server": {**self.read(one.vm), "calls": self.calls(one.vm)}}


def _profiles(rows, wrong, device, chosen):
    # Its clock is the host's, but it executes what the boots do: with another CPU the kernel copies in another way.
    with hca.OneKernel(f"bench-icount-{device}", XPRTS[1], memory=1024, cpus=1, cpu=machine.COUNTED_CPU,
                       plugin=instructions.plugin()) as one:
        try:
            one.vm.run(f"{PREPARE}\n{up(device)}", 60, f"{device}, and what is served")
            for number, xprt in enumerate(XPRTS):
                one.vm.run(_begin(xprt, not number), 90, f"NFS over {xprt}")
                meter = Meter(one)
                for case in chosen:
                    report.progress(f"icount: {NAMES[xprt]}, profile of {case.name}")
                    rows.append({"case": case.name, "xprt": xprt, "round": 0, **_profile(one, meter, case)})
                one.vm.run(END.format(xprt=xprt), 60, f"the end of {xprt}")
        except (lab.LabError, machine.VmError) as error:
            wrong.append(f"profile, {device}: {error}")
        finally:
            report.progress("")
            wrong += [f"the kernel complained: {line}" for line in one.complaints()]


def _profile(one, meter, case):
    def work(count):
        one.vm.run(f"repeat {case.operation.replace('COUNT', str(count))}", 120, f"{case.name}: {count} times")

    each, _ = cost.per_call(one, lambda: work(case.alone), lambda: work(2 * case.alone), take=meter.take)
    return {"profile": instructions.by_module(each["server"]), "copies": each["server"]["rounds"]}


def ratio(rows, case, measure, percent=95):
    """Of ours to in-tree's of the same boot, before and after it: (ratio, low, high), or None. The interval is that of
    @percent."""
    first, ours, again = by_round(rows, case, measure, (*XPRTS, CONTROL))
    if len(ours) < 2 or min(first + ours + again) <= 0:
        return None
    return stats.ratio(ours, [math.sqrt(a * b) for a, b in zip(first, again)], percent)


def _again(rows, cases_, measure):
    """Of each boot, in-tree's second figure to its first: the geometric mean of @cases_."""
    logs = {}
    for case in cases_:
        for turn, (first, again) in enumerate(zip(*by_round(rows, case, measure, (XPRTS[0], CONTROL)))):
            logs.setdefault(turn, []).append(math.log(again / first) if min(first, again) > 0 else math.nan)
    return [math.exp(statistics.fmean(found)) for found in logs.values()]


def _text(found):
    return "{:.3f} [{:.3f}, {:.3f}]".format(*found) if found else "-"


def _interval(ratios):
    return stats.ratio(ratios, [1] * len(ratios)) if len(ratios) > 1 and min(ratios) > 0 else None


def _figures(rows, case, measure):
    """Medians of the boots, in-tree's (both) and ours, as texts."""
    first, ours, again = by_round(rows, case, measure, (*XPRTS, CONTROL))
    medians = [statistics.median(values) for values in (first + again, ours) if values] or ["-", "-"]
    return [at if at == "-" else f"{at:.0f}" if at >= 1000 else f"{at:.1f}" for at in medians]


def _rate(row):
    return row["rate"]


def spread(rows):
    """[how far the rates of a case, a leg and an order of these are apart, at most, as a share]: where boots do the
    same, this is noise of the means."""
    by = {}
    for row in rows:
        if "profile" not in row:
            by.setdefault((row["case"], row["xprt"], row["round"] % 2), []).append(row["rate"])
    return [max(rates) / min(rates) - 1 for rates in by.values() if len(rates) > 1 and min(rates) > 0]


def tell(rows):
    measured = {row["case"]: row for row in rows if "profile" not in row}
    print("\noperations in a second of the machine's, by so many threads")
    report.table(("case", "threads", "in-tree", "ours", "ours / in-tree", "in-tree again / in-tree"),
                 [(case, row["depth"], *_figures(rows, case, _rate), _text(ratio(rows, case, _rate)),
                   _text(_interval(_again(rows, [case], _rate)))) for case, row in measured.items()])
    print("\nmicroseconds of one operation, by one thread")
    report.table(("case", "p50: in-tree", "ours", "ours / in-tree", "p99: in-tree", "ours"),
                 [(case, *_figures(rows, case, lambda row: row["p50"]),
                   _text(ratio(rows, case, lambda row: row["p50"])),
                   *_figures(rows, case, lambda row: row["p99"])) for case in measured])
    apart = spread(rows)
    if apart:
        hosts = {row["round"]: row["host"] for row in rows if "host" in row}.values()
        seconds, loads = ([host[what] for host in hosts] for what in ("seconds", "load"))
        print(f"\nthe boots took the host {min(seconds):.0f} to {max(seconds):.0f} s, at a load of {min(loads):.1f} to "
              f"{max(loads):.1f}; in boots of the same order a rate differs by {statistics.median(apart):.2%} in the "
              f"median, by {max(apart):.1%} at most")
    _tell_profiles(rows)


def _tell_profiles(rows):
    table = []
    for row in rows:
        if "profile" not in row:
            continue
        drivers = DRIVERS[row["case"].split(":")[0]]
        shares = [sum(row["profile"].get(name, 0) for name in names_) for names_ in
                  (*(names_ for _, names_ in SHARES), drivers)]
        total = sum(row["profile"].values())
        table.append((row["case"], NAMES[row["xprt"]], *(f"{share:.0f}" for share in shares),
                      f"{total - sum(shares):.0f}", f"{total:.0f}", f"{row['copies']:.0f}",
                      f"{shares[-1] / total:.1%}"))
    if table:
        print("\nkernel instructions of one RPC, both ends, by module; copies: rounds of string instructions besides")
        # A case's rows stand side by side.
        report.table(("case", "transport", *(head for head, _ in SHARES), "device", "the rest", "all", "copies",
                      "device's share"), sorted(table, key=lambda line: names(False).index(line[0])))


def goals(rows):
    """The lower end of a ratio's interval. An interval that the limit is in says nothing, and does not meet it."""
    table = report.Goals("in-tree")
    undecided = 0
    for case in cases():
        goal = f"{case.name}: at least {case.least:g} of in-tree's rate"
        found = ratio(rows, case.name, _rate)
        if not found:
            table.add(goal, "-", "-", "not measured, or in one boot only")
            continue
        if found[1] < case.least <= found[2]:
            goal += " (interval too wide to tell)"
            undecided += 1
        theirs, ours = _figures(rows, case.name, _rate)
        table.add(goal, theirs, f"{ours}: {_text(found)}", found[1] >= case.least)
    _control(table, rows)
    if undecided:
        table.note(f"of those not met, {undecided} are undecided: the limit is within the interval")
    return table


def _control(table, rows):
    """In-tree's rates are in-tree's: of each device, all of its cases together."""
    measured = dict.fromkeys(row["case"] for row in rows if "profile" not in row)
    for device in dict.fromkeys(case.split(":")[0] for case in measured) or ("no device",):
        cases_ = [case for case in measured if case.startswith(f"{device}: ")]
        ratios = _again(rows, cases_, _rate)
        found = sure = None
        if len(ratios) > 1 and min(ratios) > 0:
            found, sure = (stats.ratio(ratios, [1] * len(ratios), percent) for percent in (95, CONTROL_PERCENT))
        if len(ratios) == 1:
            same = "one boot has no interval"
        elif found and found[2] / found[1] > CONTROL_WIDTH:
            same = f"these boots cannot tell: the interval is wider than {CONTROL_WIDTH}"
        else:
            same = sure is not None and sure[1] <= 1 <= sure[2]
        table.control(f"{device}, rates of {len(cases_)} cases: 1 is in the {CONTROL_PERCENT} % interval", "1",
                      _text(found) + (f", {CONTROL_PERCENT} % [{sure[1]:.3f}, {sure[2]:.3f}]" if sure else ""), same)
