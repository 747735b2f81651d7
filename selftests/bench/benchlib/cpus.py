# SPDX-License-Identifier: GPL-2.0-only
"""Instructions of each small RPC with 1, 2 and 4 CPUs, over 1, 8 and 100 connections: two transports in turn.

Client and server are in one kernel, over two devices: the virtual one of selftests/hca without its checks. A hundred
threads, in ten processes with a file each, do one thing after another, so that there are always more calls than
CPUs: over one mount with nconnect=1 or 8, or over ten mounts with nconnect=10, to ten ports of the server. --full has
1,000 connections as well, with 4 CPUs: of a hundred mounts, and with a thousand threads.

Each number of CPUs is a boot, in which in-tree, ours and in-tree again are measured as in counts.py. Instructions are
counted as in instructions.py, at both ends together. The plugin's counters may lose an addition where two CPUs
run the same code, so the CPUs take turns in one thread of the host's. They do so within a critical section, too, so that
locks are contended, but by far less than where CPUs run at the same time: how that is says locks.py. A CPU that waits for a
lock goes round in functions of the kernel proper, which have a column of their own (SPINS).
"""

import math

from vmlib import cost, hca, lab, machine

from . import counts, icount, instructions, report
from .counts import CONTROL, NAMES, XPRTS, module_of

ROUNDS = 1
CPUS = (1, 2, 4)
# {connections: (mounts, connections of each)}
MOUNTS = {1: (1, 1), 8: (1, 8), 100: (10, 10), 1000: (100, 10)}
USUAL, MOST = (1, 8, 100), 1000
THREADS = 10
OPERATIONS = {"GETATTR": "stat {} COUNT", "READ 4 KiB": "read {} COUNT 4096 0 0"}
# Operations of each thread that are counted: MANY less FEW; MOST's threads do fewer.
FEW, MANY = 10, 30
PORT = 20049
# Where the kernel proper waits for another CPU.
SPINS = ("native_queued_spin_lock_slowpath", "queued_read_lock_slowpath", "queued_write_lock_slowpath", "osq_lock",
         "mutex_spin_on_owner", "rwsem_spin_on_owner", "rwsem_optimistic_spin")
# Calls of each connection before it is measured: a server's grows with use.
SETTLED = 120
# By how much two measurements of the same may differ, of transport, sunrpc and ib_core; and two ratios of such.
SAME, GROWTH = 0.02, 0.03


def _count(number, what):
    return f"{number} {what}{'s' if number > 1 else ''}"


class Case:
    """@operation, by many threads, over so many @connections in a machine of @cpus."""

    def __init__(self, cpus, connections, operation):
        self.cpus, self.connections, self.operation = cpus, connections, operation
        self.name = f"{_count(cpus, 'CPU')}, {_count(connections, 'connection')}: {operation}"
        self.mounts, self.each = MOUNTS[connections]
        self.processes = max(THREADS, self.mounts)

    def share(self, count):
        """What each thread does of @count."""
        return max(1, count * THREADS // self.processes)

    def script(self, count):
        """All threads do @count operations, or their share of it."""
        what = OPERATIONS[self.operation].replace("COUNT", str(self.share(count)))
        return "".join(f"repeat timed {THREADS} 1 {what.format(f'/m{at % self.mounts}/file{at % THREADS}')} "
                       f"> /tmp/said{at} & pids=\"$pids $!\"\n" for at in range(self.processes)) + \
            "for pid in $pids; do wait $pid || die 'a process failed'; done"

    def calls(self):
        """By how many calls MANY of it are more than FEW."""
        return self.processes * THREADS * (self.share(MANY) - self.share(FEW))


def cases(full, cpus=CPUS):
    for number in cpus:
        for connections in (*USUAL, MOST) if full and number == max(CPUS) else USUAL:
            for operation in OPERATIONS:
                yield Case(number, connections, operation)


def names(full):
    return [case.name for case in cases(full)]


def prepare(one):
    """Two devices, and what is served."""
    one.vm.run(icount.up("vhca"), 60, "two devices")
    one.vm.run("mkdir -p /export", 10)


def serve(one, xprt, most):
    """nfsd over @xprt, at as many ports as there are mounts for @most connections."""
    one.xprt = xprt
    one.serve("200m")
    if xprt == XPRTS[1]:
        one.vm.run("echo 0 > /sys/module/rpcordma/parameters/version2", 10, "choose version 1")
    ports = "".join(f"echo 'rdma {PORT + at}' > /proc/fs/nfsd/portlist || die 'no port {PORT + at}'\n"
                    for at in range(1, MOUNTS[most][0]))
    # nfsd takes fewer connections by itself, and drops others for more.
    one.vm.run(f"nfsd_stop; echo {most + 64} > /proc/fs/nfsd/max_connections || die 'no limit'\nnfsd_start 8\n{ports}", 60,
               "nfsd at its ports")
    one.vm.run(f"for at in $(seq 0 {THREADS - 1}); do [ -e /export/file$at ] || "
               "dd if=/dev/zero of=/export/file$at bs=1M count=1 2> /dev/null; done; chmod 666 /export/file*", 30, "files")


def mount(one, connections):
    """All mounts of @connections, which have all of them when they have been used."""
    for at in range(MOUNTS[connections][0]):
        one.vm.run(one.mount_command("3", f"actimeo=0,nosharecache,nconnect={MOUNTS[connections][1]}", f"/m{at}", PORT + at),
                   60, f"mount {at}")


def umount(one, connections):
    one.vm.run("".join(f"umount /m{at} || die 'umount {at}'\n" for at in range(MOUNTS[connections][0])), 120, "umount")


def work(one, case, count):
    one.vm.run(case.script(count), 300, f"{case.name}: {count} times")


def settle(one, case):
    """Works until all connections are there, and have what they come to have with use."""
    for _ in range(math.ceil(SETTLED * case.connections / (case.processes * THREADS * case.share(MANY)))):
        work(one, case, MANY)
    # A connection is two queue pairs, of which one is of the client's device.
    have = int(one.vm.run("rdma resource show qp link vhca_va/1 | grep -c 'type RC state RTS'", 20, "count connections"))
    if have != case.connections:
        raise lab.LabError(f"{case.name}: there are {have} connections")


class _Symbols(instructions.Symbols):
    """As Symbols, but that functions of SPINS are told by name."""

    def __init__(self, vm):
        super().__init__(vm)
        # In front of /proc/kallsyms is the kernel proper, by address: the next one is the end.
        text = vm.run(f"awk -v names='{' '.join(SPINS)}' 'BEGIN {{ n = split(names, all); while (n) want[all[n--]] }} "
                      "begin && $1 != begin { print begin, $1, name; begin = \"\" } "
                      "/\\]$/ { exit } $3 in want { begin = $1; name = $3 }' /proc/kallsyms", 120, "read symbols")
        self._spins = [(int(begin, 16), int(end, 16), name) for begin, end, name in map(str.split, text.splitlines())]
        if SPINS[0] not in [name for *_, name in self._spins]:
            raise lab.LabError(f"this kernel has no {SPINS[0]}")

    def of(self, address):
        for begin, end, name in self._spins:
            if begin <= address < end:
                return "kernel", name
        return super().of(address)


def spins(counters):
    """Of one machine's @counters, what its CPUs waited for each other."""
    return sum(number for place, number in counters.items() if isinstance(place, tuple) and place[0] == "kernel" and place[1])


def run(rows, wrong, rounds, only, full):
    """Appends to @rows {case, xprt, round, calls, cpus, connections, operation, spins}, and what instructions.figures() says of
    an RPC at both ends; to @wrong what went wrong."""
    chosen = [case for case in cases(full) if case.name.startswith(only)]
    for turn in range(rounds):
        for number in CPUS:
            some = [case for case in chosen if case.cpus == number]
            if some:
                _boot(rows, wrong, turn, some)


def _boot(rows, wrong, turn, chosen):
    number, most = chosen[0].cpus, max(case.connections for case in chosen)
    try:
        with hca.OneKernel(f"bench-cpus-{number}", XPRTS[1], memory=3072 if most < MOST else 12288, cpus=number, turns=True,
                           plugin=instructions.plugin()) as one:
            try:
                prepare(one)
                for leg, some in counts.legs(turn, chosen, [case.name for case in chosen]):
                    serve(one, module_of(leg), most)
                    meter = icount.Meter(one, _Symbols)
                    for connections in dict.fromkeys(case.connections for case in some):
                        these = [case for case in some if case.connections == connections]
                        mount(one, connections)
                        settle(one, these[0])
                        for case in these:
                            report.progress(f"cpus: {NAMES[leg]}, round {turn + 1}: {case.name}")
                            rows.append({"case": case.name, "xprt": leg, "round": turn, "cpus": number,
                                         "connections": connections, "operation": case.operation,
                                         **_measure(one, meter, case, module_of(leg))})
                        umount(one, connections)
                    one.stop_serving()
            finally:
                report.progress("")
                wrong += [f"the kernel complained: {line}" for line in one.complaints()]
    except (cost.Disturbed, machine.VmError, lab.LabError) as error:
        wrong.append(f"{_count(number, 'CPU')}: {error}")


def _measure(one, meter, case, xprt):
    each, calls = cost.per_call(one, lambda: work(one, case, FEW), lambda: work(one, case, MANY), case.calls(),
                                take=meter.take)
    return {"calls": calls, "spins": spins(each["server"]), **instructions.figures(xprt, each["server"])}


def _of(what):
    return lambda row: row[what]


# Instructions in transport, sunrpc and ib_core.
_helped = _of("helped")


def _figure(rows, case, leg, measure=_helped, best=max):
    """The @best of all rounds, or None."""
    return best((measure(row) for row in rows if row["case"] == case and row["xprt"] == leg), default=None)


def _both(rows, case, measure=_helped):
    """In-tree's best and our worst."""
    return _figure(rows, case, XPRTS[0], measure, min), _figure(rows, case, XPRTS[1], measure)


def _first(operation):
    """The name of what growth is growth from."""
    return Case(1, 1, operation).name


def growth(rows, case, operation, leg, measure=_helped):
    """Of @leg, in the worst round, from one CPU and one connection; None where either was not measured, 0 where nothing
    was counted."""
    least, most = _figure(rows, _first(operation), leg, measure, min), _figure(rows, case, leg, measure)
    if least is None or most is None:
        return None
    return most / least if least > 0 else 0


def _ratio(theirs, ours):
    return f"{ours / theirs:.3f}" if theirs and ours else "-"


def _text(number, digits=0):
    # Adding 0.0 makes a zero of what rounds to a negative one.
    return "-" if number is None else f"{round(number, digits) + 0.0:.{digits}f}"


def tell(rows):
    measured = {row["case"]: row for row in rows}
    print("\ninstructions of an RPC in transport, sunrpc and ib_core, both ends; grown: from one CPU and one connection")
    report.table(("case", "in-tree", "ours", "ours / in-tree", "in-tree again", "in-tree grown", "ours grown"),
                 [(name, *map(_text, _both(rows, name)), _ratio(*_both(rows, name)),
                   _ratio(_figure(rows, name, XPRTS[0]), _figure(rows, name, CONTROL)),
                   *(_text(growth(rows, name, row["operation"], leg), 3) for leg in XPRTS)) for name, row in measured.items()])
    print("\nof these in the module alone; in all of the kernel, devices included; and there, while a CPU waits for a lock")
    report.table(("case", *(head for what in ("module", "kernel", "waiting") for head in (f"{what}: in-tree", "ours"))),
                 [(name, *(_text(number) for what in ("transport", "kernel", "spins")
                           for number in _both(rows, name, _of(what)))) for name in measured])
    for operation in OPERATIONS:
        _tell_functions(rows, operation)


def changes(before, after):
    """[(function, before, after)] of two rows' instructions, those first that have become more."""
    both = [{f"{module}: {name}": number for module, functions in row["functions"].items()
             for name, number in functions.items()} for row in (before, after)]
    return sorted(((name, *(found.get(name, 0) for found in both)) for name in {**both[0], **both[1]}),
                  key=lambda line: line[1] - line[2])


def _tell_functions(rows, operation, lines=12):
    """Of ours, which functions take more where the module takes most."""
    ours = [row for row in rows if row["xprt"] == XPRTS[1] and row["operation"] == operation]
    first = next((row for row in ours if row["case"] == _first(operation)), None)
    last = max(ours, key=lambda row: row["transport"], default=None)
    if not first or last["case"] == first["case"]:
        return
    print(f"\nours: functions that take more in \"{last['case']}\", where the module takes most, than in \"{first['case']}\"")
    report.table(("function", "before", "after", "more"),
                 [(name if len(name) < 72 else name[:69] + "...", _text(one), _text(two), _text(two - one))
                  for name, one, two in changes(first, last)[:lines] if two > one])


def goals(rows):
    """Of several rounds in-tree's best and our worst. Growth is that of the module, by a number of its own; and of all
    that is counted, beside in-tree's, as some of it is sunrpc's with either."""
    table = report.Goals("in-tree")
    for case in cases(True):
        _goals_of(table, rows, case)
    for name in counts.controlled(rows):
        counts.control(table, rows, name, "transport, sunrpc and ib_core", _helped, SAME)
    return table


def _goals_of(table, rows, case):
    theirs, ours = _both(rows, case.name)
    why = f"not measured{' without --full' if case.connections == MOST else ''}"
    goal = f"{case.name}: not above in-tree's"
    if theirs is None or ours is None:
        table.add(goal, _text(theirs), _text(ours), why)
    else:
        # A transport that executes nothing was not seen.
        table.add(goal, _text(theirs), f"{_text(ours)}: {_ratio(theirs, ours)}", 0 < ours <= theirs)
    if case.name == _first(case.operation):
        return

    def limit(goal, found, most, relative):
        shown = [_text(number, 3) for number in found]
        if None in found:
            table.add(goal, *shown, why)
        elif relative:
            table.add(goal, *shown, 0 < found[1] <= most)
        else:
            table.ask(goal, shown, found[:1], found[1:], lambda number: 0 < number <= most)

    found = [growth(rows, case.name, case.operation, leg, _of("transport")) for leg in XPRTS]
    limit(f"{case.name}: the module's at most {1 + GROWTH:g} of those with one of each", found, 1 + GROWTH, False)
    found = [growth(rows, case.name, case.operation, leg) for leg in XPRTS]
    limit(f"{case.name}: grown by at most {1 + GROWTH:g} of in-tree's growth", found, (1 + GROWTH) * (found[0] or 0), True)
