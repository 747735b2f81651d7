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


# A data race: its title, then each access with its stack, whose first frame made it. The kernel has
# many that its authors accept; those that the module under test has a part in count.
RACE = re.compile(r"BUG: KCSAN: ")
RACE_END = re.compile(r"={20,}$")
RACE_LINES = 80
ACCESS = re.compile(r" to 0x[0-9a-f]+ of \d+ bytes by ")
OURS = re.compile(r"\[rpcordma\]")


class Scanner:
    """Collects complaints from console lines, in order; lines of requested dumps are left out."""

    def __init__(self):
        self.complaints = []
        self.others_races = 0
        self._dumping = False
        self._race = []

    def feed(self, line):
        if DUMP_BEGIN in line:
            self._dumping = True
        elif DUMP_END in line:
            self._dumping = False
        elif RACE.search(line):
            self.finish()
            self._race = [line]
        elif not self._dumping and is_bad(line):
            self.complaints.append(line)
        elif self._race:
            self._race.append(line)
            if RACE_END.search(line) or len(self._race) > RACE_LINES:
                self.finish()

    def finish(self):
        """The report of a race ends here, whole or not."""
        race, self._race = self._race, []
        accesses = [race[i + 1] for i, line in enumerate(race[:-1]) if ACCESS.search(line)]
        # One without an access was cut off: it may have been ours.
        if race and (any(OURS.search(frame) for frame in accesses) or not accesses):
            self.complaints.append(" | ".join([race[0], *accesses]))
        elif race:
            self.others_races += 1
