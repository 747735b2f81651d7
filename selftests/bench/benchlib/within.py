# SPDX-License-Identifier: GPL-2.0-only
"""Where within our module's functions the instructions of one kind of RPC are, instruction by instruction.

    scripts/bench within CASE [FUNCTION ...] [--end server] [--version2]

CASE is one of those of "instructions". Without a FUNCTION: our functions, those first that take most. With one: those of its
instructions that were executed, and before each run of them how many a call executes there. What is never entered is left
out. RPCORDMA_KO=its.ko measures another module.
"""

import argparse
import re
import subprocess

from vmlib import image, lab, machine

from . import counts, instructions, report
from .counts import VERSION2, XPRTS

OURS = XPRTS[1]
# What ends a run that is entered as a whole: a block of translated code goes no further than that.
JUMP = re.compile(r"(j[a-z]+|call|ret|syscall|iretq?)\b")
LINE = re.compile(r"^\s*([0-9a-f]+):\t(.*?)\s*$")
HEAD = re.compile(r"^([0-9a-f]+) <(.*)>:$")


class Places(instructions.Symbols):
    """As Symbols, but that a function of ours is told with how far behind its beginning the address is."""

    def of(self, address):
        module, name = super().of(address)
        if module != OURS:
            return module, name
        return module, (name, address - self.beginning(address))


def plain(name):
    """@name without parameters, and without what the compiler made of it: "(a, b) [clone .part.0]"."""
    return re.sub(r"\((?!anonymous).*| \[clone .*", "", name)


def by_function(places):
    """{function: {offset: instructions}} of a role's figures by place."""
    functions = {}
    for (name, offset), number in places.items():
        functions.setdefault(plain(name), {})[offset] = number
    return functions


def disassembly(ko, function):
    """[(offset, instruction)] of @function in the module's file."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "-C", ko], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    return instructions_of(text.splitlines(), function)


def instructions_of(lines, function):
    """The same out of objdump's @lines."""
    found, begin = [], None
    for line in lines:
        if head := HEAD.match(line):
            begin = int(head[1], 16) if plain(head[2]) == function and not found else None
        elif begin is not None and (one := LINE.match(line)):
            found.append((int(one[1], 16) - begin, one[2]))
    return found


def listing(code, counted):
    """Lines of the instructions of @code, [(offset, instruction)], that were executed: @counted has how many instructions
    were, by where the block begins."""
    lines, running = [], False
    for offset, text in code:
        running = running or offset in counted
        if running:
            number = f"{counted[offset]:8.1f}" if offset in counted else " " * 8
            lines.append(f"{number} {offset:5x}  {text}")
        running = running and not JUMP.match(text)
    return lines


def measure(case, leg):
    """{role: {(function, offset): instructions for each RPC}} of ours, and how many RPCs that was."""
    with lab.Lab("bench-within", xprt=XPRTS[0], server_xprt=XPRTS[0], server_params="",
                 plugin=instructions.plugin()) as pair:
        pair.up(lease=600)
        counts.make_files(pair)
        counts.select(leg, pair)
        each, calls = case.measure(pair, instructions.Meter(pair, Places).take)
        return {role: {place[1]: number for place, number in each[role].items()
                       if isinstance(place, tuple) and place[0] == OURS and number}
                for role in instructions.ROLES}, calls


def main(arguments, build):
    """@build: a function that has our module built."""
    parser = argparse.ArgumentParser(prog="bench within", description=__doc__.splitlines()[0])
    cases = {case.name: case for case in counts.cases()}
    parser.add_argument("case", help=", ".join(cases))
    parser.add_argument("function", nargs="*", default=[], help="as in the list without one: rpcordma_client::send_request")
    parser.add_argument("--end", choices=instructions.ROLES, default="client")
    parser.add_argument("--version2", action="store_true")
    args = parser.parse_args(arguments)
    if args.case not in cases:
        parser.error(f"there is no case {args.case}; there are {', '.join(cases)}")
    try:
        build()
        ko = image.find_module(OURS, image.Kernel("6.12"))
        figures, calls = measure(cases[args.case], VERSION2 if args.version2 else OURS)
    except (image.ImageError, machine.VmError, lab.LabError) as error:
        print(f"within: {error}")
        return 1
    functions = by_function(figures[args.end])
    print(f"{args.case}, {args.end}: {sum(figures[args.end].values()):.0f} instructions of {ko} for each of {calls} RPCs")
    if not args.function:
        report.table(("function", ""), sorted(((name, f"{sum(found.values()):.0f}") for name, found in functions.items()),
                                              key=lambda row: -int(row[1])))
    for name in args.function:
        if name not in functions:
            print(f"within: {name} was not executed; what was is listed without a function")
            return 1
        print(f"\n{name}: {sum(functions[name].values()):.0f}")
        print("\n".join(listing(disassembly(ko, name), functions[name])))
    return 0
