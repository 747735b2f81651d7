# SPDX-License-Identifier: GPL-2.0-only
"""Instructions that each RPC takes in the transport's module, and in the whole kernel, at both ends.

The cases are those of counts.py. A plugin of QEMU's TCG counts what the guests' kernels execute, block by block
(selftests/bench/tcg/instructions.c); the guests' symbols say whose the blocks are.
"""

import array
import bisect
import os
import socket
import subprocess

from vmlib import cost, image, lab, machine

from . import counts, report, stats
from .counts import NAMES, REDUCED, VERSION2, XPRTS, module_of

ROUNDS = 1
ROLES = ("client", "server")
# What is to be reached: shares of in-tree's, at the client and at the server, of the instructions in transport, sunrpc and
# ib_core, which a transport's design decides. A kind of RPC is what the case's name begins with, the longest counts.
SHARES = {
    "NULL": (0.93, 0.85), "GETATTR": (0.93, 0.85),
    "READ 4 KiB": (0.95, 0.85), "WRITE 4 KiB": (0.95, 0.85),
    "READ 16 KiB": (0.95, 0.85), "WRITE 16 KiB": (0.95, 0.85),
    "READ 64 KiB": (0.90, 0.80), "WRITE 64 KiB": (0.90, 0.80),
    "READ 1 MiB": (0.85, 0.62), "WRITE 1 MiB": (0.55, 0.78),
    "long": (1.0, 0.88), "READDIR": (1.0, 1.0),
}
# Of ours in version 2, as a share of in-tree's.
SHARES2 = {"READ 4 KiB": (0.85, 0.72), "WRITE 4 KiB": (0.85, 0.72)}
# What either transport calls, and its callers as well: sunrpc has what the in-tree transport codes headers
# with, ib_core what its server reads and writes a client's memory with. Ours does both itself.
HELPERS = ("sunrpc", "ib_core")
CONTROLLED = ("GETATTR", "READ 4 KiB", "WRITE 1 MiB")
# By how much runs of ours differ at 1 MiB, where its figure depends on which pages lie side by side in memory: the cases say
# how the client's memory and the server's page cache lie, but the pages that a server reads a WRITE into are its own. With
# them sunrpc and ib_core one took ours 115,700 to 121,100, which is 1.05 times as many. In-tree's does not depend on them.
LARGE = 0.05
# What the module executes at least for each page of a transfer that is not behind the last one in memory. Each is an entry of
# the list that ib_core maps: its pointer is read, compared with where the last one ended, stored with length and offset, and both
# pointers and the end are seen to (4 loads and stores, 2 for the comparison, 2 additions, 2 for the end). At the server each is an
# SGE besides (address and length read, and with the key stored, 2 additions, 2 for the end), and released (read, and seen to be
# there: 3).
ENTRY = 10
SGE = 9
RELEASED = 3
# Where modules are; lower, it is the kernel proper.
MODULES = 0xffffffffc0000000
names = counts.names


def plugin():
    """Path of the plugin, which is compiled."""
    source = os.path.join(image.TOP, "selftests", "bench", "tcg", "instructions.c")
    target = os.path.join(report.BUILD, "instructions.so")
    os.makedirs(report.BUILD, exist_ok=True)
    try:
        done = subprocess.run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
                               "-fvisibility=hidden", "-pthread", "-o", target, source],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError:
        raise image.ImageError("no gcc: run scripts/setup build") from None
    if done.returncode:
        raise image.ImageError(f"{source} does not compile:\n{done.stdout}")
    return target


def _plain(symbols):
    """Names of C++ as they are written, without parameters."""
    done = subprocess.run(["c++filt", "-p"], input="\n".join(symbols), stdout=subprocess.PIPE, text=True,
                          check=True)
    return done.stdout.split("\n")


# Kinds of symbols that are functions, weak ones among them: g++ makes such of what a class defines within itself.
FUNCTIONS = "tTwW"


class Symbols:
    """The functions of the modules that @vm has loaded now."""

    def __init__(self, vm):
        found = {}
        for line in vm.run("grep '\\]$' /proc/kallsyms", 60, "read symbols").splitlines():
            address, kind, name, module = line.split()
            # Data is behind a module's last function, and is where that ends.
            if kind in FUNCTIONS or int(address, 16) not in found:
                found[int(address, 16)] = (module.strip("[]"), name if kind in FUNCTIONS else "")
        self._addresses = sorted(found)
        plain = _plain([found[address][1] for address in self._addresses])
        self._names = [(found[address][0], name) for address, name in zip(self._addresses, plain)]

    def of(self, address):
        """(module, function); of what is in no module the module's name is "kernel"."""
        at = bisect.bisect_right(self._addresses, address) - 1
        if address < MODULES or at < 0 or not self._names[at][1]:
            return "kernel", ""
        return self._names[at]

    def beginning(self, address):
        """Where the function begins that @address is in."""
        return self._addresses[bisect.bisect_right(self._addresses, address) - 1]


class Meter:
    """The plugin's counters of both machines of @pair, for cost.per_call(), as long as no module comes or
    goes."""

    def __init__(self, pair, symbols=Symbols):
        self._symbols = {vm.name: symbols(vm) for vm in (pair.client, pair.server)}
        self._where = {vm.name: {} for vm in (pair.client, pair.server)}

    def read(self, vm):
        """All counters of @vm."""
        data = bytearray()
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(vm.plugin[1])
            while got := sock.recv(1 << 20):
                data += got
        table = array.array("Q", bytes(data))
        # In front: user space, and what found no room.
        if len(table) < 6 or len(table) % 3 or table[4]:
            raise lab.LabError(f"{vm.name}: the plugin's table is {'full' if len(table) > 5 else 'cut off'}")
        symbols, where = self._symbols[vm.name], self._where[vm.name]
        total = {"user": table[1], "rounds": sum(table[8::3])}
        for address, instructions in zip(table[6::3], table[7::3]):
            place = where.get(address) or where.setdefault(address, symbols.of(address))
            total[place] = total.get(place, 0) + instructions
        return total

    def kernel(self, vm):
        """All that @vm's kernel has executed, of whichever module or of none."""
        return sum(number for place, number in self.read(vm).items() if isinstance(place, tuple))

    def take(self, pair):
        # Before and after some work both machines are quiet.
        at = {vm.name: self.read(vm) for vm in (pair.client, pair.server)}
        at["server"]["calls"] = self.calls(pair.server)
        return at

    @staticmethod
    def calls(server):
        """That nfsd of machine @server has taken up."""
        return int(server.run("sed -n 's/^rpc //p' /proc/net/rpc/nfsd", 10, "read nfsd's counters").split()[0])


def by_module(counters):
    """{module: instructions} of one machine's @counters."""
    modules = {}
    for place, number in counters.items():
        if isinstance(place, tuple) and number:
            modules[place[0]] = modules.get(place[0], 0) + number
    return modules


def figures(xprt, counters):
    """What of one machine's @counters is kept."""
    xprt = module_of(xprt)
    modules, functions = by_module(counters), {}
    for place, number in counters.items():
        if isinstance(place, tuple) and number and place[0] in (xprt, *HELPERS):
            functions.setdefault(place[0], {})[place[1]] = number
    transport = modules.get(xprt, 0)
    return {"transport": transport, "helped": transport + sum(modules.get(name, 0) for name in HELPERS),
            "kernel": sum(modules.values()), "user": counters["user"], "rounds": counters["rounds"],
            "modules": modules, "functions": functions}


def run(rows, wrong, rounds, only, _full):
    """Appends to @rows {case, xprt, round, calls, and of each role instructions for each RPC}: transport, its
    module's; helped, with HELPERS; kernel, all of the kernel; rounds of string instructions; modules, and the
    functions of those."""
    chosen = [case for case in counts.cases() if case.name.startswith(only)]
    with lab.Lab("bench-instructions", xprt=XPRTS[0], server_xprt=XPRTS[0], server_params="",
                 plugin=plugin()) as pair:
        try:
            pair.up(lease=600)
            counts.make_files(pair)
            for turn in range(rounds):
                for xprt, some in counts.legs(turn, chosen, CONTROLLED, counts.LEGS):
                    counts.select(xprt, pair)
                    meter = Meter(pair)
                    for number, case in enumerate(some):
                        report.progress(f"instructions: {NAMES[xprt]}, round {turn + 1} of {rounds}: "
                                        f"{case.name} ({number + 1} of {len(some)})")
                        try:
                            each, calls = case.measure(pair, meter.take)
                        except (cost.Disturbed, machine.Failed) as error:
                            wrong.append(f"{NAMES[xprt]}: {case.name}: {error}")
                            continue
                        rows.append({"case": case.name, "xprt": xprt, "round": turn, "calls": calls,
                                     **{role: figures(xprt, each[role]) for role in ROLES}})
        finally:
            report.progress("")
            wrong += [f"the kernel complained: {line}" for line in pair.complaints()]


def _cases(rows):
    return list(dict.fromkeys(row["case"] for row in rows))


def _pick(rows, case, measure):
    """In-tree's best round and our worst, or None for what was not measured."""
    found = [[measure(row) for row in rows if row["case"] == case and row["xprt"] == xprt] for xprt in XPRTS]
    return [best(values) if values else None for best, values in zip((min, max), found)]


def _of(what, *roles):
    return lambda row: sum(row[role][what] for role in roles)


def tell(rows):
    for roles in (("client",), ("server",), ROLES):
        print(f"\n{' and '.join(roles)}, instructions for each RPC")
        table = []
        for case in _cases(rows):
            cells = [case]
            for what in ("transport", "helped"):
                theirs, ours = _pick(rows, case, _of(what, *roles))
                cells += map(_text, (theirs, ours))
                cells.append(f"{ours / theirs:.2f}" if min(theirs or 0, ours or 0) > 0 else "-")
            cells += _whole(rows, case, roles)
            table.append(cells)
        heads = ("RPC", "in-tree", "ours", "ratio", f"+{'+'.join(HELPERS)}", "ours", "ratio", "kernel: ours / in-tree")
        # Without rounds to compare there is no such column.
        report.table(heads[:len(table[0])], table)
    _tell_version2(rows, VERSION2, "version 2", "v2")
    _tell_version2(rows, REDUCED, "version 2 reduced", "reduced")
    for case, role in [(case, role) for case in _cases(rows) for role in ROLES]:
        if _verdict(rows, case, role)[2] is False:
            print(f"\n{case}, {role}: where our instructions are")
            profile(rows, case, role)


def _tell_version2(rows, leg, name, head):
    """Ours as @leg beside ours in version 1."""
    table = []
    for case in dict.fromkeys(row["case"] for row in rows if row["xprt"] == leg):
        cells = [case]
        for role in ROLES:
            for what in ("transport", "helped"):
                one, two = _worst(rows, case, XPRTS[1], role, what), _worst(rows, case, leg, role, what)
                cells += map(_text, (one, two))
                cells.append(f"{two / one:.2f}" if one and two else "-")
        table.append(cells)
    if table:
        print(f"\nours in version 1 and in {name}, instructions for each RPC")
        report.table(("RPC", *(one for role in ROLES for what in ("module", f"+{'+'.join(HELPERS)}")
                               for one in (f"{role}, {what}", head, "ratio"))), table)


def _worst(rows, case, leg, role, what):
    """The most of all rounds, or None."""
    return max((row[role][what] for row in rows if row["case"] == case and row["xprt"] == leg), default=None)


def _whole(rows, case, roles):
    """[ratio] of all that the kernels execute, with its interval. What else they do meanwhile is as much as the
    difference that is looked for: a single round says nothing, and is [] here."""
    theirs, ours = counts.by_round(rows, case, _of("kernel", *roles))
    if len({row["round"] for row in rows}) < 2:
        return []
    if len(ours) < 2 or min(theirs + ours) <= 0:
        return ["-"]
    return ["{:.2f} [{:.2f}, {:.2f}]".format(*stats.ratio(ours, theirs))]


def profile(rows, case, role, lines=10, width=60):
    """Prints the functions that take most with either transport, side by side, of the kernel's modules with their names; all
    of them are in the record."""
    columns = []
    for xprt in XPRTS:
        row = next(row for row in rows if row["case"] == case and row["xprt"] == xprt)
        found = [(name if module == xprt else f"{module}: {name}", number)
                 for module, functions in row[role]["functions"].items() if module in _counted(case, xprt)
                 for name, number in functions.items()]
        found.sort(key=lambda item: -item[1])
        columns.append([(name if len(name) <= width else name[:width - 3] + "...", f"{number:.0f}")
                        for name, number in found[:lines]])
    longest = max(map(len, columns))
    theirs, ours = [column + [("", "")] * (longest - len(column)) for column in columns]
    report.table(("ours", "", "in-tree", ""), [(*mine, *other) for mine, other in zip(ours, theirs)])


def _counted(case, xprt):
    """The modules whose instructions the goal of @case is about: what sunrpc does for a READDIR is nfsd's XDR by far."""
    return (module_of(xprt), *HELPERS) if not case.startswith("READDIR") else (module_of(xprt), "ib_core")


def _decided(case, role):
    """What of a row the goal of @case is about."""
    if not case.startswith("READDIR"):
        return _of("helped", role)
    return lambda row: sum(row[role]["modules"].get(name, 0) for name in _counted(case, row["xprt"]))


def _most(case, role, shares):
    """The share of in-tree's that is to be reached, or None."""
    kinds = [kind for kind in shares if case.startswith(kind)]
    return shares[max(kinds, key=len)][ROLES.index(role)] if kinds else None


def _verdict(rows, case, role):
    """(in-tree, ours, whether the goal is met or why not known)."""
    theirs, ours = _pick(rows, case, _decided(case, role))
    if theirs is None or ours is None:
        return theirs, ours, f"{case} was not measured"
    # A transport that executes nothing was not seen.
    return theirs, ours, theirs > 0 and 0 < ours <= _most(case, role, SHARES) * theirs


def bound(rows, case, role):
    """Why the goal of @case cannot be met, or "": what sunrpc and ib_core take, and the pages, is more than that. Without the
    module's own for a call, of which nothing is proved."""
    least = {"client": ENTRY, "server": ENTRY + SGE + RELEASED if case.startswith("READ") else 0}[role]
    theirs, _, met = _verdict(rows, case, role)
    if met is not False or not case.endswith(" apart") or not least:
        return ""
    others = min(row[role]["helped"] - row[role]["transport"] for row in rows
                 if row["case"] == case and row["xprt"] == XPRTS[1])
    amount, unit = case.split()[1:3]
    pages = int(amount) * {"KiB": counts.KIB, "MiB": counts.KIB ** 2}[unit] // 4096
    floor, goal = others + pages * least, _most(case, role, SHARES) * theirs
    if floor <= goal:
        return ""
    return (f"sunrpc and ib_core take {others:.0f}, and {pages} pages {least} each: {floor:.0f}, "
            f"where {goal:.0f} is the goal")


def _near(case, role, theirs, ours):
    """Whether ours, in another run, may be on the other side of the limit."""
    if "1 MiB" not in case or not theirs or not ours:
        return False
    return 1 / (1 + LARGE) < ours / (_most(case, role, SHARES) * theirs) < 1 + LARGE


def _text(number):
    return "-" if number is None else f"{number:.0f}"


def goals(rows):
    """Of each end by itself; in-tree's best round and our worst."""
    table = report.Goals("in-tree")
    near = 0
    for case in counts.names(False):
        for role in ROLES:
            theirs, ours, met = _verdict(rows, case, role)
            share = f": {ours / theirs:.3f}" if theirs and ours else ""
            table.add(f"{case}, {role}: {_most(case, role, SHARES):g} of in-tree's", _text(theirs), f"{_text(ours)}{share}", met,
                      bounded=bound(rows, case, role))
            near += _near(case, role, theirs, ours)
    for case in SHARES2:
        for role in ROLES:
            theirs = _pick(rows, case, _of("helped", role))[0]
            one, two = (_worst(rows, case, leg, role, "helped") for leg in (XPRTS[1], VERSION2))
            share = _most(case, role, SHARES2)
            name = f"{case} in version 2, {role}"
            why = f"{case} was not measured"
            table.add(f"{name}: {share:g} of in-tree's", _text(theirs), _text(two),
                      why if theirs is None or two is None else theirs > 0 and 0 < two <= share * theirs)
            table.add(f"{name}: below version 1 ({_text(one)})", "-", _text(two),
                      why if one is None or two is None else 0 < two < one)
    for case in counts.controlled(rows):
        for role in ROLES:
            counts.control(table, rows, case, role, _of("transport", role), counts.SAME)
    if near:
        table.note(f"{near} of the goals of 1 MiB are nearer to their limit than {LARGE:.0%}, by which runs of "
                   "ours differ: one run does not settle them")
    return table
