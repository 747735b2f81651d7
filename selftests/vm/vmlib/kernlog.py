# SPDX-License-Identifier: GPL-2.0-only
"""Which lines of a kernel log fail a run, and whose fault they tell of."""

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
INT3_TAIL = 10
SUSPECT = re.compile(r"\[(rpcordma\w*|verbsmeter|vhca)\]|\w*rpcordma_\w*\+0x|"
                     r"(RIP: [0-9a-f]+:|\s)(\? )?0x[0-9a-f]{16}\s*$")

# DMA API debugging does not like two mappings that share a cache line and that a device writes to: the head and the tail
# of a reply which comes by a Reply chunk often do. That is no fault where the device is coherent, as all of x86's are;
# the in-tree transport has it as well. A whole report of it, from where such regions are mapped, is counted and no more.
OVERLAP = re.compile(r"DMA-API: .*: cacheline tracking EEXIST, overlapping mappings aren't supported")
OVERLAP_LINES = 200
OVERLAP_OF = re.compile(r"\b(rpcordma_region_map|frwr_map)\+0x")
# What complains within the report; a kernel without CONFIG_DEBUG_BUGVERBOSE does not say in which file.
OVERLAP_WITHIN = re.compile(r"WARNING: .* at (kernel/dma/debug\.c:\d+ )?add_dma_entry\+0x|Call Trace:")
REPORT_END = re.compile(r"---\[ end trace ")


# rxe of 6.12 fails a work request that it takes for successful (WARN_ON_ONCE in rxe_completer) when connections end
# for hours. Once in a boot, and without consequence: the request is flushed.
RXE_COMPLETER = re.compile(r"WARNING: .* at drivers/infiniband/sw/rxe/rxe_comp\.c:827 rxe_completer\+")


class Known:
    """Takes the reports of a kernel's WARNING out of its log that is known, is not ours, and is to be counted.

    What else is told in the midst of one is passed on, and all of a report in which something of ours was called,
    or that is not whole. Without a @title, a pattern, none is known.
    """

    def __init__(self, title=re.compile(r"(?!)")):
        self._title = title
        self.count = 0
        self._held = []

    def pass_on(self, line):
        """Lines that are to be judged, now that @line has come."""
        if self._title.search(line):
            return self._begin(line)
        if not self._held:
            return [line]
        self._held.append(line)
        if not INT3_WHOLE.search(line):
            return self.rest() if len(self._held) > INT3_LINES else []
        held = self.rest()
        if any(SUSPECT.search(one) and not re.search(r"\s\? ", one) for one in held):
            return held
        self.count += 1
        return [one for one in held[1:] if not INT3_WITHIN.search(one)]

    def _begin(self, line):
        held = self.rest()
        self._held = [line]
        return held

    def rest(self):
        """Lines that were held back, when no more come."""
        held, self._held = self._held, []
        return held


class Scanner:
    """Collects complaints from console lines, in order; lines of requested dumps are left out, and reports that
    are `known`, a Known."""

    def __init__(self, known=None):
        self.complaints = []
        self.others_races = 0
        self.overlaps = 0
        # The report of one: lines that are still to come, at most; what complains in it; whether it is known whose.
        self._overlap = 0
        self._overlap_complaints = []
        self._overlap_known = False
        self.known = known or Known()
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
        self.__init__(self.known)

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
        elif OVERLAP.search(line):
            self._overlap_ends(whole=False)
            self._overlap, self._overlap_complaints = OVERLAP_LINES, [line]
        elif self._overlap and OVERLAP_WITHIN.search(line):
            self._overlap_complaints.append(line)
        elif not self._dumping and is_bad(line):
            self.complaints.append(line)
            part = INT3_BEHIND if self._int3_whole else INT3_WITHIN
            self._int3_complaints += bool(INT3.search(line) or (self._int3 and part.search(line)))
        elif self._race:
            self._race.append(line)
            if RACE_END.search(line) or len(self._race) > RACE_LINES:
                self._finish_race()

        if self._overlap:
            self._overlap -= 1
            self._overlap_known |= bool(OVERLAP_OF.search(line))
            if REPORT_END.search(line) or not self._overlap:
                self._overlap_ends(whole=bool(REPORT_END.search(line)))

    def _overlap_ends(self, whole):
        """The report of overlapping mappings ends here."""
        if whole and self._overlap_known:
            self.overlaps += 1
        else:
            self.complaints += self._overlap_complaints
        self._overlap, self._overlap_complaints, self._overlap_known = 0, [], False

    def finish(self):
        """The log ends here."""
        for line in self.known.rest():
            self._feed(line)
        self._overlap_ends(whole=False)
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
