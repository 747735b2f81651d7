# SPDX-License-Identifier: GPL-2.0-only
"""How fast it is: two transports in turn, at both ends of one pair of machines, as ratios with intervals.

fio does the I/O in the client, O_DIRECT, for a second each; metaload.c makes, looks at and removes files. What
is read and written is in the server's tmpfs. Each round runs all cases over one transport, then all over the
other, and one case over in-tree once more: changing it takes seconds. Many short rounds rather than few long
ones: what slows the machine for minutes slows both of a pair. At last a few cases are profiled: what one
operation takes of both kernels' instructions, and in which modules, which does not depend on the host
(instructions.py).

A row is one case in one round:

    {"case", "xprt", "round",
     "ops"       finished, in "seconds",
     "iops", "bw"  of each second; bw in bytes, None where nothing is moved,
     "lat"       {"p10", "p25", "p50", "p75", "p90", "p95", "p99", "p999"} in microseconds, of each operation,
     "cpu"       {"client", "server"}: seconds that the machine's CPUs were not idle, for each "per": GiB, or
                 1000 ops}

and of those that were profiled

    {"case", "xprt", "round", "profile": {role: {module: kernel instructions of one operation}}}
"""

import collections
import json
import re
import statistics

from vmlib import cost, lab, machine

from . import instructions, report, stats
from .counts import CONTROL, MOUNT, NAMES, XPRTS, by_round, change, controlled, legs

ROUNDS = 5
MILLISECONDS = 1000
KIB, MIB, GIB = 1024, 1 << 20, 1 << 30
# The file on the server, and what of it is used, in MiB.
FILE, SIZE = 64, 60
NCONNECT = (1, 4, 8)
DELAYS = (0, 0.1, 1, 10)
PERCENTILES = {"p10": 10, "p25": 25, "p50": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99, "p999": 99.9}
# What is profiled, as far as it is measured.
PROFILED = ("4 KiB random read, depth 16", "4 KiB random write, depth 16", "1 MiB read, depth 4",
            "1 MiB write, depth 4")
# Rounds of that, at most.
PROFILES = 3
# What in-tree is measured in once more.
CONTROLLED = ("4 KiB random read, depth 16",)
# The control's interval: its ends at most this apart, as a wide one has 1 in it whatever the means do; and the
# per cent by which 1 is in it, as one of 95 % has not once in twenty runs where nothing is wrong.
CONTROL_WIDTH, CONTROL_PERCENT = 1.3, 99
# Modules of a profile, in this order, and who else is in a column; the rest is the kernel proper, or NFS's.
SHARES = (("transport", XPRTS), ("sunrpc", ("sunrpc",)), ("rxe, ib_core", ("rdma_rxe", "ib_core")),
          ("NFS", ("nfs", "nfsv3", "nfsd", "lockd", "nfs_acl", "exportfs", "auth_rpcgss", "netfs")),
          ("network device", ("virtio_net", "virtio_pci", "virtio_ring", "virtio", "virtio_pci_modern_dev",
                              "virtio_pci_legacy_dev", "net_failover", "failover")))
# Ticks of /proc/stat.
HZ = 100
# At least, of the ratio ours to in-tree: everywhere, and where the structure differs.
EQUAL, AHEAD = 0.97, 1.15

# @fio: the options; None for metaload. @least: of the ratio's interval. @delay: ms on the way to the server.
Case = collections.namedtuple("Case", "name fio least nconnect delay", defaults=(1, 0))


def _fio(name, rw, size, depth, least=EQUAL, more=""):
    return Case(f"{name}, depth {depth}", f"rw={rw}\nbs={size}\niodepth={depth}\n{more}", least)


def _workloads():
    for what in ("read", "write"):
        for depth in (1, 16, 128):
            # A WRITE of 4 KiB has its data in a chunk.
            least = AHEAD if (what, depth) == ("write", 1) else EQUAL
            yield _fio(f"4 KiB random {what}", f"rand{what}", 4 * KIB, depth, least)
    yield _fio("4 KiB random 70/30", "randrw", 4 * KIB, 16, more="rwmixread=70\n")
    yield _fio("1 MiB read", "read", MIB, 4, AHEAD)
    yield _fio("1 MiB write", "write", MIB, 4)
    yield _fio("1 MiB write", "write", MIB, 1, AHEAD)
    # Whatever follows the first is odd in memory as well.
    for what in ("read", "write"):
        yield _fio(f"64 KiB odd {what}", what, 64 * KIB - 3, 4, AHEAD, "offset=1001\n")
        yield _fio(f"1 MiB odd {what}", what, MIB - 3, 4, AHEAD, "offset=1001\n")


def _varied(case, nconnect, delay):
    name = case.name + (f", nconnect {nconnect}" if nconnect > 1 else "") + (f", {delay} ms" if delay else "")
    return case._replace(name=name, nconnect=nconnect, delay=delay)


def cases(full):
    """All that is measured, in this order; @full: each workload at each nconnect and delay."""
    workloads = list(_workloads())
    yield from workloads
    for what in ("create", "stat", "unlink"):
        yield Case(what, None, EQUAL)
    some = workloads if full else [case for case in workloads if case.name in (
        "4 KiB random read, depth 16", "1 MiB read, depth 4", "1 MiB write, depth 4")]
    for nconnect in NCONNECT:
        for delay in DELAYS:
            if (nconnect > 1) + (delay > 0) in ((1, 2) if full else (1,)):
                yield from (_varied(case, nconnect, delay) for case in some)


def names(full):
    return [case.name for case in cases(full)]


# Both machines' first line of /proc/stat, with a name; the server's comes over TCP.
SNAP = """#!/bin/sh
read client < /proc/stat
server=$(nc 10.0.0.1 7777 < /dev/null)
echo "$1 $client $server" >> /tmp/stats
"""
# What a delay needs is no part of what is measured under it.
BEFORE = """#!/bin/sh
exec 2>> /tmp/wrong
# With its path: busybox has one of its own, which knows no netem.
[ "$2" = 0 ] || /usr/sbin/tc qdisc replace dev eth0 root netem delay $2ms limit 20000 || exit 1
sh /tmp/snap $1
"""
AFTER = """#!/bin/sh
exec 2>> /tmp/wrong
sh /tmp/snap $1
[ "$2" = 0 ] || /usr/sbin/tc qdisc del dev eth0 root
"""
GLOBAL = f"""
[global]
thread=1
ioengine=libaio
direct=1
invalidate=0
fallocate=none
size={SIZE}m
norandommap=1
randrepeat=1
time_based=1
unified_rw_reporting=1
percentile_list={':'.join(str(p) for p in PERCENTILES.values())}
"""
# What _script() prints before each of its results.
MARKS = ("=== snapshots", "=== files", "=== fio")
# Pools and caches of a new connection are filled before anything is measured.
WARM = "[warm{n}]\nfilename={where}/file\nstonewall\nruntime=300ms\nrw={rw}\nbs={bs}\niodepth=16\n"


def _where(nconnect):
    """A mount of its own; of an address of the server's own, else it shares another one's connections."""
    return "/mnt" if nconnect == 1 else f"/mnt{nconnect}"


def _address(nconnect):
    return f"10.0.0.{1 if nconnect == 1 else 100 + nconnect}"


def _file(name, text):
    return f"cat > /tmp/{name} <<'END'\n{text}END\n"


def _prepare(pair):
    pair.up(lease=600)
    addresses = "".join(f"ip addr add {_address(n)}/24 dev eth0; " for n in NCONNECT if n > 1)
    pair.server.run(f"{addresses} dd if=/dev/zero of=/export/file bs=1M count={FILE} 2>&1; mkdir /export/meta; "
                    "chmod 777 /export/meta; chmod 666 /export/file\n"
                    + _file("stat", "#!/bin/sh\nread line < /proc/stat\necho $line\n") +
                    "chmod 755 /tmp/stat\nnc -ll -p 7777 -e /tmp/stat > /dev/null 2>&1 < /dev/null &", 60,
                    "make what is read")
    pair.client.run(_file("snap", SNAP) + _file("before", BEFORE) + _file("after", AFTER) +
                    "cd /tmp && rm -f stats wrong && sh before try 1 && sh after try 1; cat wrong >&2; "
                    "[ $(grep -c '^try cpu .* cpu ' stats) = 2 ] && [ ! -s wrong ]", 30,
                    "delay packets, and read the server's /proc/stat")


def _script(chosen):
    """All of @chosen in the client; prints the snapshots, what metaload said, and fio's JSON."""
    jobs, last = GLOBAL, []
    wheres = dict.fromkeys(_where(case.nconnect) for case in chosen if case.fio)
    for n, (where, rw, size) in enumerate((where, rw, size) for where in wheres
                                          for rw, size in (("randrw", 4 * KIB), ("rw", MIB))):
        jobs += WARM.format(n=n, where=where, rw=rw, bs=size)
    for n, case in enumerate(chosen):
        if case.fio:
            jobs += (f"[c{n}]\nfilename={_where(case.nconnect)}/file\nstonewall\nruntime={MILLISECONDS}ms\n"
                     f"{case.fio}exec_prerun=sh /tmp/before c{n} {case.delay}\n"
                     f"exec_postrun=sh /tmp/after c{n} {case.delay}\n")
    script = "cd /tmp; rm -f stats fio.json meta wrong\n"
    if wheres:
        script += (_file("job", jobs) + "tool fio --output-format=json --output=fio.json job || "
                   "{ cat fio.json wrong; die 'fio failed'; }\n[ ! -s wrong ] || die \"$(cat wrong)\"\n")
    meta = {case.name: n for n, case in enumerate(chosen) if not case.fio}
    if meta:
        # Each needs what the ones before it made.
        last = [f"sh snap c{meta.get(what, what)}; metaload {what} /fresh/meta {operands} > one || exit 1; "
                f"sh snap c{meta.get(what, what)}; echo \"c{meta.get(what, what)} $(cat one)\" >> meta"
                for what, operands in (("create", MILLISECONDS), ("stat", f"{MILLISECONDS} $files"),
                                       ("unlink", "$files"))]
        last.insert(1, "read files rest < one")
    return script + "\n".join(last) + "".join(f"\necho '{mark}'; cat {name} 2>/dev/null"
                                               for mark, name in zip(MARKS, ("stats", "meta", "fio.json"))) + "\ntrue\n"


def _busy(before, after):
    """{role: seconds} between two lines that snap wrote."""
    seconds = {}
    for at, role in ((1, "client"), (12, "server")):
        ticks = [[int(word) for word in line[at + 1:at + 9]] for line in (before, after)]
        # user nice system idle iowait irq softirq steal
        seconds[role] = sum(b - a for i, (a, b) in enumerate(zip(*ticks)) if i not in (3, 4)) / HZ
    return seconds


def _parse(text, chosen):
    """{number of a case: row} of what _script() printed."""
    snaps, meta, report_ = re.fullmatch(r"(?s).*?" + "".join(rf"{mark}\n(.*)" for mark in MARKS), text).groups()
    lines = collections.defaultdict(list)
    for line in filter(None, snaps.splitlines()):
        lines[line.split()[0]].append(line.split())
    measured = {}
    for line in filter(None, meta.splitlines()):
        name, ops, ns, *lat = line.split()
        measured[name] = (int(ops), int(ns) / 1e9, None, dict(zip(PERCENTILES, map(float, lat))))
    for job in json.loads(report_[report_.index("{"):])["jobs"] if "{" in report_ else []:
        if job["error"]:
            raise lab.LabError(f"fio: {job['jobname']}: error {job['error']}")
        did = job["mixed"]
        if not did["total_ios"]:
            raise lab.LabError(f"fio: {job['jobname']}: no I/O was done")
        shares = did["clat_ns"]["percentile"]
        measured[job["jobname"]] = (did["total_ios"], did["runtime"] / 1000, did["io_bytes"], {
            key: shares[f"{percent:.6f}"] / 1000 for key, percent in PERCENTILES.items()})
    rows = {}
    for n, case in enumerate(chosen):
        if f"c{n}" not in measured or len(lines[f"c{n}"]) != 2:
            raise lab.LabError(f"{case.name}: {'' if f'c{n}' in measured else 'not '}measured, "
                               f"{len(lines[f'c{n}'])} snapshots of /proc/stat, not 2")
        ops, seconds, moved, lat = measured[f"c{n}"]
        units = ops / 1000 if moved is None else moved / GIB
        rows[n] = {"case": case.name, "ops": ops, "seconds": seconds, "iops": ops / seconds,
                   "bw": None if moved is None else moved / seconds, "lat": lat,
                   "cpu": {role: busy / units for role, busy in _busy(*lines[f"c{n}"]).items()},
                   "per": "1000 ops" if moved is None else "GiB"}
    return rows


def _phase(pair, xprt, chosen):
    change(xprt, pair)
    for nconnect in dict.fromkeys(case.nconnect for case in chosen):
        _mount(pair, nconnect)
    if any(not case.fio for case in chosen):
        pair.mount("3", "actimeo=0,nosharecache", where="/fresh")
    connections = pair.client.run("grep -c 'xprt:.*rdma' /proc/self/mountstats", 10)
    # /fresh shares that of /mnt.
    want = sum({case.nconnect for case in chosen}) + any(not case.fio for case in chosen)
    if int(connections) != want:
        raise lab.LabError(f"{connections.strip()} connections, not the {want} that nconnect asks for")
    seconds = len(chosen) * MILLISECONDS / 1000
    return _parse(pair.client.run(_script(chosen), 60 + 6 * seconds, "all cases"), chosen)


def _mount(pair, nconnect):
    options = MOUNT + (f",nconnect={nconnect}" if nconnect > 1 else "")
    pair.client.run(f"nfs_mount 3 {options} {_where(nconnect)} sys {_address(nconnect)}", 40,
                    f"mount with nconnect={nconnect}")


def run(rows, wrong, rounds, only, full):
    """Appends a row (above) to @rows for each case that begins with @only, transport and round, and those of the
    profiles; to @wrong what went wrong."""
    chosen = [case for case in cases(full) if case.name.startswith(only)]
    with lab.Lab("bench-times", xprt=XPRTS[0], server_xprt=XPRTS[0], server_params="", tools=True) as pair:
        try:
            _prepare(pair)
            for turn in range(rounds):
                for xprt, some in legs(turn, chosen, CONTROLLED):
                    report.progress(f"times: {NAMES[xprt]}, round {turn + 1} of {rounds}, cases: {len(some)}")
                    for row in _phase(pair, xprt, some).values():
                        rows.append({"xprt": xprt, "round": turn, **row})
        except (lab.LabError, machine.VmError) as error:
            wrong.append(str(error))
        finally:
            report.progress("")
            wrong += [f"the kernel complained: {line}" for line in pair.complaints()]
    profiled = [case for case in chosen if case.name in PROFILED]
    if profiled and not wrong:
        _profiles(rows, wrong, profiled, min(rounds, PROFILES))


def _profiles(rows, wrong, chosen, rounds):
    """Machines of their own, as whoever counts instructions slows them down."""
    with lab.Lab("bench-profile", xprt=XPRTS[0], server_xprt=XPRTS[0], server_params="", tools=True,
                 plugin=instructions.plugin()) as pair:
        try:
            _prepare(pair)
            for turn in range(rounds):
                for xprt in XPRTS[::-1] if turn % 2 else XPRTS:
                    change(xprt, pair)
                    _mount(pair, 1)
                    meter = instructions.Meter(pair)
                    for case in chosen:
                        report.progress(f"times: {NAMES[xprt]}, round {turn + 1} of {rounds}: profile of {case.name}")
                        rows.append({"case": case.name, "xprt": xprt, "round": turn,
                                     "profile": _profile(pair, meter, case)})
        except (lab.LabError, machine.VmError) as error:
            wrong.append(f"profile: {error}")
        finally:
            report.progress("")
            wrong += [f"the kernel complained: {line}" for line in pair.complaints()]


def _profile(pair, meter, case):
    """{role: {module: instructions of one operation}}; an operation is a call."""
    def work(turns):
        job = GLOBAL.replace("time_based=1\n", "") + f"[job]\nfilename=/mnt/file\n{case.fio}number_ios={turns}\n"
        pair.client.run("cd /tmp\n" + _file("job", job) + "tool fio job > said 2>&1 || die \"$(cat said)\"", 120,
                        f"{case.name}: {turns} operations")

    few, many = (200, 2200) if "bs=4096\n" in case.fio else (20, 80)
    each, _ = cost.per_call(pair, lambda: work(few), lambda: work(many), many - few, take=meter.take)
    return {role: instructions.by_module(each[role]) for role in instructions.ROLES}


def ratio(rows, case, measure, legs_=XPRTS, percent=95):
    """Of the second of @legs_ to the first, ours to in-tree's: (ratio, low, high), or None. The interval is that of
    @percent."""
    under, over = by_round(rows, case, measure, legs_)
    if len(over) < 2 or min(under + over) <= 0:
        return None
    return stats.ratio(over, under, percent)


def _text(found):
    return "{:.2f} [{:.2f}, {:.2f}]".format(*found) if found else "-"


def _middle(rows, case, measure, legs_=XPRTS):
    """Medians of the rounds of @legs_, as texts of three digits."""
    return [f"{statistics.median(values):.3g}" if values and statistics.median(values) < 1000 else
            f"{statistics.median(values):.0f}" if values else "-" for values in by_round(rows, case, measure, legs_)]


def _rate(row):
    return row["bw"] / MIB if row["bw"] and row["bw"] > 16 * KIB * row["iops"] else row["iops"]


def tell(rows):
    found = {row["case"]: row for row in rows if "profile" not in row}

    print("\nthroughput (MiB/s where an operation moves more than 16 KiB, else operations/s)")
    report.table(("case", "in-tree", "ours", "ours / in-tree"),
                 [(case, *_middle(rows, case, _rate), _text(ratio(rows, case, lambda row: row["iops"])))
                  for case in found])
    print("\nlatency, microseconds, in-tree | ours: medians of the rounds' percentiles")
    shown = ("p50", "p95", "p99", "p999")
    report.table(("case", *(head for p in shown for head in (p, "|")), "p50: ours / in-tree"),
                 [(case, *(cell for p in shown for cell in _middle(rows, case, lambda row, p=p: row["lat"][p])),
                   _text(ratio(rows, case, lambda row: row["lat"]["p50"]))) for case in found])
    print("\nCPU seconds for each GiB, or each 1000 operations, in-tree | ours")
    report.table(("case", "per", *(head for role in ("client", "server") for head in (role, "|", "ratio"))),
                 [(case, row["per"], *(cell for role in ("client", "server") for cell in (
                     *_middle(rows, case, lambda row, role=role: row["cpu"][role]),
                     _text(ratio(rows, case, lambda row, role=role: row["cpu"][role])))))
                  for case, row in found.items()])
    _tell_profiles(rows)


def _tell_profiles(rows):
    """Where the instructions of an operation are. How many there are in all differs from round to round by as much as
    the transports do: where there is one round only, that and what is in no column are not printed."""
    by = {}
    for row in rows:
        if "profile" in row:
            by.setdefault((row["case"], row["xprt"]), {})[row["round"]] = row["profile"]
    table = []
    for case in dict.fromkeys(case for case, _ in by):
        if any((case, xprt) not in by for xprt in XPRTS):
            continue
        for role in instructions.ROLES:
            totals = [{turn: sum(profile[role].values()) for turn, profile in by[case, xprt].items()} for xprt in XPRTS]
            common = sorted(set(totals[0]) & set(totals[1]))
            single = len(common) < 2
            whole = "-" if single else _text(stats.ratio(*([total[turn] for turn in common] for total in totals[::-1])))
            for xprt, cell in zip(XPRTS, ("", whole)):
                rounds = [profile[role] for profile in by[case, xprt].values()]
                shares = [statistics.median(sum(modules.get(name, 0) for name in names_) for modules in rounds)
                          for _, names_ in SHARES]
                total = statistics.median(sum(modules.values()) for modules in rounds)
                table.append((case, role, NAMES[xprt], *(f"{share:.0f}" for share in shares),
                              *(("-", "-", cell) if single else (f"{total - sum(shares):.0f}", f"{total:.0f}", cell))))
    if not table:
        return
    heads = ("case", "", "transport", *(head for head, _ in SHARES), "the rest", "all", "ours / in-tree")
    kept = len(heads) if any(row[-2] != "-" for row in table) else len(heads) - 3
    print("\nkernel instructions of one operation, by module: medians of the rounds")
    report.table(heads[:kept], [row[:kept] for row in table])


def goals(rows):
    """The lower end of a ratio's interval. An interval that the limit is in says nothing, and does not meet it."""
    table = report.Goals("in-tree")
    full = any(row["case"] not in names(False) for row in rows)
    undecided = 0
    for case in cases(full):
        goal = f"{case.name}: at least {case.least:g} of in-tree's rate"
        found = ratio(rows, case.name, lambda row: row["iops"])
        if not found:
            table.add(goal, "-", "-", "not measured, or in one round only")
            continue
        if found[1] < case.least < found[2]:
            goal += " (interval too wide to tell)"
            undecided += 1
        theirs, ours = _middle(rows, case.name, _rate)
        table.add(goal, theirs, f"{ours}: {_text(found)}", found[1] >= case.least)
    for case in controlled(rows):
        _control(table, rows, case)
    if undecided:
        table.note(f"of those not met, {undecided} are undecided: the limit is within the interval")
    return table


def _control(table, rows, case):
    """In-tree's rate is in-tree's, as far as the rounds can tell."""
    both = (XPRTS[0], CONTROL)
    found, sure = (ratio(rows, case, lambda row: row["iops"], both, percent) for percent in (95, CONTROL_PERCENT))
    first, again = _middle(rows, case, _rate, both)
    if any(row["xprt"] == CONTROL for row in rows) and len({row["round"] for row in rows}) < 2:
        same = "one round has no interval"
    elif found and found[2] / found[1] > CONTROL_WIDTH:
        same = f"these rounds cannot tell: the interval is wider than {CONTROL_WIDTH}"
    else:
        same = sure is not None and sure[1] <= 1 <= sure[2]
    table.control(f"{case}: 1 is in the {CONTROL_PERCENT} % interval", first,
                  f"{again}: {_text(found)}"
                  + (f", {CONTROL_PERCENT} % [{sure[1]:.2f}, {sure[2]:.2f}]" if sure else ""), same)
