# SPDX-License-Identifier: GPL-2.0-only
"""Which lines of a kernel log fail a run, and whose fault they tell of."""

import collections
import re
import typing

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

# A processor that runs into the breakpoint of the kernel's own code patching after that is over. QEMU does it:
# translated code that is no longer valid is run now and then when there are two processors. But a module can do
# it too: by a jump to what is no code, or is none any more (execmem is filled with breakpoints). So it counts as
# QEMU's only where nothing of this project's is in the trace, and no address that has lost its name.
INT3 = re.compile(r"Oops: int3\b")
INT3_WHOLE = re.compile(r"---\[ end trace ")
INT3_LINES = 300
# What a report has of lines that complain: these before its end, and behind it, in so many lines, the panic.
INT3_WITHIN = re.compile(r"Call Trace:")
INT3_BEHIND = re.compile(r"Kernel panic - not syncing: Fatal exception")
INT3_TAIL = 16
SUSPECT = re.compile(r"\[(rpcordma\w*|verbsmeter|vhca)\]|\w*rpcordma_\w*\+0x|"
                     r"(RIP: [0-9a-f]+:|\s)(\? )?0x[0-9a-f]{16}\s*$")

# The end of a report that begins with "cut here".
REPORT_END = INT3_WHOLE
REPORT_LINES = 300


class Report(typing.NamedTuple):
    """One of a kernel's reports that is known, and is passed over where a Known says so.

    Each field but the first two is a pattern; None: whatever it is.
    """

    name: str
    why: str            # it is no fault of what is tested
    begins: re.Pattern  # its first line that complains
    within: re.Pattern  # what else of it complains
    has: re.Pattern     # what it has, or it is another one
    lacks: re.Pattern   # a frame that was called there, with which it is another one


OVERLAP = Report(
    "mappings that share a cache line",
    # The head and the tail of a reply which comes by a Reply chunk often do, the in-tree transport's as well.
    "DMA API debugging does not like a device to write to both; that is no fault where devices are coherent, as on x86",
    re.compile(r"DMA-API: .*: cacheline tracking EEXIST, overlapping mappings aren't supported"),
    # A kernel without CONFIG_DEBUG_BUGVERBOSE does not say in which file.
    re.compile(r"WARNING: .* at (kernel/dma/debug\.c:\d+ )?add_dma_entry\+0x|Call Trace:"),
    # From where such regions are mapped.
    re.compile(r"\b(rpcordma_region_map|frwr_map)\+0x"),
    None)

RXE_COMPLETER = Report(
    "rxe's WARNING in rxe_completer (rxe_comp.c:827)",
    "rxe of 6.12 fails a work request that it takes for successful when connections end for hours, or packets are lost; "
    "once in a boot, as it is WARN_ON_ONCE, and without consequence: the request is flushed",
    re.compile(r"WARNING: .* at drivers/infiniband/sw/rxe/rxe_comp\.c:827 rxe_completer\+"),
    re.compile(r"Call Trace:"),
    None,
    SUSPECT)


class Known:
    """Takes known reports out of a kernel's log, and counts them: `passed`, {Report: number}.

    @reports  that are known, of all machines (OVERLAP) or of those where they are met (RXE_COMPLETER: rxe for hours,
              or where packets are lost)

    What else is told in the midst of one is passed on, and all of a report that is not whole, or has not what it must
    have, or has what it must not.
    """

    def __init__(self, *reports):
        self.reports = reports
        self.passed = collections.Counter()
        self._of = None    # the report that has begun
        self._held = []    # its lines

    @property
    def count(self):
        """How many were passed over."""
        return self.passed.total()

    def pass_on(self, line):
        """Lines that are to be judged, now that @line has come."""
        begun = next((report for report in self.reports if report.begins.search(line)), None)
        if begun:
            held = self.rest()
            self._of, self._held = begun, [line]
            return held
        if not self._held:
            return [line]
        self._held.append(line)
        if not REPORT_END.search(line):
            return self.rest() if len(self._held) > REPORT_LINES else []
        of, held = self._of, self.rest()
        if of.has and not any(of.has.search(one) for one in held):
            return held
        # A frame with a question mark is a stale address on the stack.
        if of.lacks and any(of.lacks.search(one) and not re.search(r"\s\? ", one) for one in held):
            return held
        self.passed[of] += 1
        return [one for one in held[1:] if not of.within.search(one)]

    def rest(self):
        """Lines that were held back, when no more come."""
        held, self._held = self._held, []
        return held


class Scanner:
    """Collects complaints from console lines, in order; lines of requested dumps are left out, and reports that
    are `known`, a Known: by default those that any machine may have."""

    def __init__(self, known=None):
        self.complaints = []
        self.others_races = 0
        self.known = known or Known(OVERLAP)
        # Lines of a report of int3 that are still to come, at most; what is known of these reports.
        self._int3 = 0
        self._int3_complaints = 0
        self._int3_whole = self._int3_suspect = False
        self._dumping = False
        self._race = []

    @property
    def emulators_fault(self):
        """Whether there are complaints, and all are of whole reports of a fault of QEMU's."""
        return 0 < len(self.complaints) == self._int3_complaints and self._int3_whole and \
            not self._int3_suspect

    def forget(self):
        """All of it was the affair of a machine that is gone."""
        self.__init__(Known(*self.known.reports))

    def feed(self, line):
        for one in self.known.pass_on(line):
            self._feed(one)

    def _feed(self, line):
        if INT3.search(line):
            self._int3, self._int3_whole = INT3_LINES, False
        elif self._int3:
            self._int3 -= 1
            if INT3_WHOLE.search(line):
                self._int3, self._int3_whole = INT3_TAIL, True
        self._int3_suspect |= bool(self._int3 and SUSPECT.search(line))
        if DUMP_BEGIN in line:
            self._dumping = True
        elif DUMP_END in line:
            self._dumping = False
        elif RACE.search(line):
            self._finish_race()
            self._race = [line]
        elif not self._dumping and is_bad(line):
            self.complaints.append(line)
            part = INT3_BEHIND if self._int3_whole else INT3_WITHIN
            self._int3_complaints += bool(INT3.search(line) or (self._int3 and part.search(line)))
        elif self._race:
            self._race.append(line)
            if RACE_END.search(line) or len(self._race) > RACE_LINES:
                self._finish_race()

    def finish(self):
        """The log ends here."""
        for line in self.known.rest():
            self._feed(line)
        self._finish_race()

    def _finish_race(self):
        """The report of a race ends here, whole or not."""
        race, self._race = self._race, []
        accesses = [race[i + 1] for i, line in enumerate(race[:-1]) if ACCESS.search(line)]
        # One without an access was cut off: it may have been ours.
        if race and (any(OURS.search(frame) for frame in accesses) or not accesses):
            self.complaints.append(" | ".join([race[0], *accesses]))
        elif race:
            self.others_races += 1
