# SPDX-License-Identifier: GPL-2.0-only
"""Trace events of a machine: recorded, counted, read. What was recorded is worth nothing when events were
lost, so that this is an error."""

from . import lab

FOLDER = "/sys/kernel/tracing"


class Trace:
    """Records @events ("SYSTEM/EVENT", or "SYSTEM" for all of its) of @vm from now on.

    @buffer   KiB for each CPU
    @filters  {event: filter of the kernel's}
    """

    def __init__(self, vm, events, buffer=8192, filters=None):
        self.vm, self.events = vm, tuple(events)
        steps = ["echo 0 > tracing_on", "echo 0 > events/enable", f"echo {buffer} > buffer_size_kb"]
        steps += [f"echo '{text}' > events/{event}/filter" for event, text in (filters or {}).items()]
        steps += [f"echo 1 > events/{event}/enable" for event in self.events]
        self._run([*steps, "echo > trace", "echo 1 > tracing_on"], "trace on")

    def _run(self, steps, what, timeout=20):
        return self.vm.run(" && ".join([f"cd {FOLDER}", *steps]), timeout, what)

    def clear(self):
        """Forgets what was recorded so far."""
        self._run(["echo > trace"], "clear the trace")

    def stop(self):
        self._run(["echo 0 > tracing_on", "echo 0 > events/enable"], "trace off")

    def _check(self):
        lost = self._run(["sed -n 's/^overrun: //p' per_cpu/cpu*/stats"], "look for lost trace events")
        if any(map(int, lost.split())):
            raise lab.LabError(f"{self.vm.name}: the trace buffer was too small, events were lost")

    def counts(self):
        """{event: number}, without their systems."""
        names = [event.split("/")[-1] for event in self.events]
        count = "".join(f"echo {name} $(grep -c ' {name}: ' trace); " for name in names)
        text = self._run([f"{{ {count}}}"], "count trace events", 60)
        self._check()
        return {name: int(number) for name, number in (line.split() for line in text.splitlines())}

    def text(self):
        """All that was recorded."""
        self._check()
        return self._run(["cat trace"], "read the trace", 120)
