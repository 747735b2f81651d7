# SPDX-License-Identifier: GPL-2.0-only
"""Which lines of a kernel log fail a run."""

import re

BAD = re.compile(
    r"BUG:|WARNING:|possible circular|possible recursive|inconsistent lock|unreferenced object|"
    r"Kernel panic|Call Trace|Oops|UBSAN|KASAN|KFENCE|general protection|"
    r"INFO: task .* blocked for more than|self-detected stall|detected stalls|refcount_t:|"
    r"Bad page state|list_(add|del) corruption|scheduling while atomic|"
    r"Slab cache still has objects|Objects remaining in|is still in use|soft lockup")

# Lines that match and are harmless. Each needs its reason.
HARMLESS = [
]

# While the runner itself asks for a dump of all tasks, stacks are what it asked for.
DUMP_BEGIN = "vm: dump begins"
DUMP_END = "vm: dump ends"


def is_bad(line):
    """Whether the console line @line is a kernel complaint that fails the run."""
    return bool(BAD.search(line)) and not any(h.search(line) for h in HARMLESS)


class Scanner:
    """Collects complaints from console lines, in order; lines of requested dumps are left out."""

    def __init__(self):
        self.complaints = []
        self._dumping = False

    def feed(self, line):
        if DUMP_BEGIN in line:
            self._dumping = True
        elif DUMP_END in line:
            self._dumping = False
        elif not self._dumping and is_bad(line):
            self.complaints.append(line)
