# SPDX-License-Identifier: GPL-2.0-only
"""`rpcordma top`: what `rpcordma status` shows, live: rates, times, and a sparkline for each.

Model is pure: it takes the states of state.collect() and makes lines; run() has the terminal. Rates are differences of
counters over the time between two states; a counter that went back (a new mount, a module loaded anew) has none.
"""

import os
import select
import shutil
import signal
import sys
import termios
import time
import tty

from . import state, status

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-=+*#@"
HISTORY = 16
# Rows of the terminal that there have to be: less is of no use.
LEAST = 6


def sparkline(values, width, bars=BARS):
    """The last @width of @values, each beside the largest of them; None, which is not known, is a blank."""
    values = list(values)[-width:]
    most = max((v for v in values if v is not None), default=0)
    text = "".join(" " if v is None else bars[0] if most <= 0 else bars[min(int(v * len(bars) / most), len(bars) - 1)]
                   for v in values)
    return text.rjust(width)


def rate(value):
    """A rate, in five characters at most."""
    if value is None:
        return "-"
    if not value:
        return "0"
    for unit in ("", "k", "M", "G"):
        if value < 9.95:
            return f"{value:.1f}{unit}"
        if value < 9999.5 and not unit or value < 999.5:
            return f"{value:.0f}{unit}"
        value /= 1000
    return f"{value:.0f}T"


def milliseconds(value):
    """Likewise."""
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else rate(value)


class Series:
    """What became of one number: its history as rates or as values."""

    def __init__(self):
        self.values = []

    def add(self, value):
        self.values = (self.values + [value])[-4 * HISTORY:]

    @property
    def last(self):
        return self.values[-1] if self.values else None


def difference(before, after, seconds):
    """What a counter grew by in a second; None where it is not known, or went back."""
    if before is None or after is None or after < before or seconds <= 0:
        return None
    return (after - before) / seconds


def _ops(mount):
    """Sums over all operations of a mount."""
    total = {"ops": 0, "queue_ms": 0, "rtt_ms": 0, "bytes_sent": 0, "bytes_recv": 0}
    for op in mount["operations"].values():
        for name in total:
            total[name] += op.get(name, 0)
    return total


def _mounts(now):
    """{(where, of what): the mount}: one may be over another, and what is bound to its own place is there twice."""
    return {(mount["mount"], mount["export"]): mount for mount in now["client"]["mounts"]}


class Model:
    """Takes states, one after the other, and makes lines of them."""

    def __init__(self, bars=BARS):
        self.bars = bars
        self.before = self.now = None
        self.series = {}

    def _series(self, *key):
        return self.series.setdefault(key, Series())

    def take(self, now):
        self.before, self.now = self.now, now
        seconds = now["time"] - self.before["time"] if self.before else 0
        old = {key: _ops(m) for key, m in _mounts(self.before).items()} if self.before else {}
        for key, mount in _mounts(now).items():
            total = _ops(mount)
            was = old.get(key)
            if was is None:
                continue
            calls = difference(was["ops"], total["ops"], seconds)
            self._series("mount", *key, "calls").add(calls)
            self._series("mount", *key, "bytes").add(difference(
                was["bytes_sent"] + was["bytes_recv"], total["bytes_sent"] + total["bytes_recv"], seconds))
            done = total["ops"] - was["ops"]
            for what in ("rtt_ms", "queue_ms"):
                grown = difference(was[what], total[what], 1)
                self._series("mount", *key, what).add(grown / done if done > 0 and grown is not None else None)
        for role in ("client", "server"):
            old = {self._key(c): c for c in self.before[role]["connections"]} if self.before else {}
            for c in now[role]["connections"]:
                self._series(role, self._key(c), "in use").add(c["credits"]["in_use"])
                was = old.get(self._key(c))
                if role == "client" and was:
                    self._series(role, self._key(c), "calls").add(difference(
                        was["counters"].get("sends"), c["counters"].get("sends"), seconds))
        if self.before:
            for name, value in now["server"]["counters"].items():
                self._series("counter", name).add(difference(self.before["server"]["counters"].get(name), value, seconds))

    @staticmethod
    def _key(c):
        return c.get("id") or c.get("number") or c["peer"]

    def _spark(self, *key, width=HISTORY):
        return sparkline(self._series(*key).values, width, self.bars)

    def _mount_table(self, width):
        """Of each mount; its four sparklines have what room there is."""
        # What it is, how it is written, its heading.
        columns = (("calls", rate, "CALLS/s"), ("bytes", rate, "BYTES/s"), ("rtt_ms", milliseconds, "RTT ms"),
                   ("queue_ms", milliseconds, "QUEUE ms"))
        mounts = list(_mounts(self.now))
        numbers = [[show(self._series("mount", *key, what).last) for what, show, _ in columns] for key in mounts]
        headings = [("MOUNT", False)]
        used = max(len("MOUNT"), *(len(name[-16:]) for name, _ in mounts))
        for i, (_, _, heading) in enumerate(columns):
            headings += [(heading, True), ("", False)]
            used += max(len(heading), *(len(row[i]) for row in numbers)) + 2
        room = max(min((width - used) // len(columns), HISTORY), 1)
        return status.table(headings, [
            (key[0][-16:], *(cell for number, (what, _, _) in zip(row, columns)
                             for cell in (number, self._spark("mount", *key, what, width=room))))
            for key, row in zip(mounts, numbers)])

    def lines(self, width=80):
        """The screen, each line at most @width long."""
        now = self.now
        clock = time.strftime("%H:%M:%S", time.localtime(now["time"]))
        lines = [f"{clock}  {status.headline(now)}   q leaves"]
        if now["client"]["mounts"]:
            lines += [""] + self._mount_table(width)
        rows = []
        for role in ("client", "server"):
            for c in now[role]["connections"]:
                credits = c["credits"]
                waits = c.get("waits") if role == "client" else c["waiting"] if c["waiting"] is None else int(c["waiting"])
                rows.append(("callbk" if c.get("role") == "callback" else role, c["peer"], status.number(c["version"]),
                             status.STATES.get(c["state"], c["state"]),
                             rate(self._series(role, self._key(c), "calls").last) if role == "client" else "-",
                             f"{status.number(credits['in_use'])}/{status.number(credits['granted'])}",
                             self._spark(role, self._key(c), "in use"), status.number(c.get("errors")),
                             status.number(waits)))
        if rows:
            lines += [""] + status.table((("ROLE", False), ("PEER", False), ("V", True), ("STATE", False), ("SENT/s", True),
                                          ("CREDITS", True), ("", False), ("ERRS", True), ("WAITS", True)), rows, width)
        counters = now["server"]["counters"]
        rows = [(what, rate(self._series("counter", name).last), self._spark("counter", name), status.number(counters[name]))
                for name, what in (("recv", "calls received"), ("read", "RDMA Reads"), ("write", "RDMA Writes"),
                                   ("held", "Reads left to threads"), ("sq_starve", "waits for send queue"),
                                   ("dropped", "messages dropped"), ("refused", "connections refused"))
                if name in counters and (name in ("recv", "read", "write") or counters[name])]
        if now["server"]["threads"] and rows:
            lines += [""] + status.table(((f"NFSD, {now['server']['threads']} THREADS", False), ("/s", True), ("", False),
                                          ("TOTAL", True)), rows)
        missing = status.missing(now)
        if missing:
            lines += ["", f"note: {missing[0]}"]
        return [line[:width] for line in lines]


def bars_of(stream):
    """Those that its encoding has."""
    encoding = (stream.encoding or "").lower().replace("-", "")
    return BARS if encoding == "utf8" else ASCII_BARS


def batch(machine, model, seconds, count):
    """Prints @count screens, for a file or a pipe. The first one has no rates."""
    for turn in range(count):
        if turn:
            time.sleep(seconds)
        model.take(state.collect(machine()))
        print("\n".join(model.lines(shutil.get_terminal_size((80, 24)).columns)), flush=True)
        if turn + 1 < count:
            print(flush=True)


def _draw(model):
    columns, rows = shutil.get_terminal_size((80, 24))
    lines = model.lines(columns)
    if rows < LEAST:
        lines = [f"{rows} rows are too few for top"[:columns]]
    elif len(lines) > rows:
        # The last row says that there is more.
        lines = lines[:rows - 1] + [f"({len(lines) - rows + 1} lines more)"[:columns]]
    sys.stdout.write("\033[H" + "\r\n".join(line + "\033[K" for line in lines) + "\033[J")
    sys.stdout.flush()


def live(machine, model, seconds):
    """On the terminal's other screen, until q, ctrl-C or a hang-up; the terminal is left as it was."""
    here = sys.stdin.fileno()
    saved = termios.tcgetattr(here)
    resized, write = os.pipe()
    os.set_blocking(write, False)
    # Written to by the interpreter when a signal comes, so that select() ends.
    old_fd = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    old = signal.signal(signal.SIGWINCH, lambda *_: None)

    def leave(*_):
        raise KeyboardInterrupt

    old_term = signal.signal(signal.SIGTERM, leave)
    try:
        tty.setcbreak(here)
        # The other screen, without a cursor.
        sys.stdout.write("\033[?1049h\033[?25l\033[2J")
        while True:
            model.take(state.collect(machine()))
            _draw(model)
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                ready, _, _ = select.select([here, resized], [], [], left)
                if here in ready:
                    key = os.read(here, 64)
                    if not key or b"q" in key or b"Q" in key:
                        return
                    if b" " in key:
                        break
                if resized in ready:
                    os.read(resized, 64)
                    _draw(model)
    except KeyboardInterrupt:
        return
    finally:
        signal.set_wakeup_fd(old_fd)
        signal.signal(signal.SIGWINCH, old)
        signal.signal(signal.SIGTERM, old_term)
        os.close(resized)
        os.close(write)
        sys.stdout.write("\033[?25h\033[?1049l")
        sys.stdout.flush()
        termios.tcsetattr(here, termios.TCSADRAIN, saved)


def run(machine, seconds, count):
    """@machine: makes a System. @count: screens to print, or None for the terminal."""
    model = Model(bars_of(sys.stdout))
    if count:
        batch(machine, model, seconds, count)
    else:
        live(machine, model, seconds)
