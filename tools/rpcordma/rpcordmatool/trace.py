# SPDX-License-Identifier: GPL-2.0-only
"""`rpcordma trace`: the latency of each RPC, taken apart, by trace points of this module and of sunrpc.

Recorder has the kernel's side: an instance of tracefs of its own, which nobody else's tracing sees, and which goes when the
command ends; one that a killed command left goes when the next one begins. Analysis is pure: it takes lines of trace_pipe and
makes of the events of an RPC the times between them.

A client's RPC, by its xid (and until it has one, by sunrpc's task):

    slot    rpc_request -> xprt_reserve: until there was a free slot
    queue   -> rpcordma_marshal: encoding, the send lock, a credit
    post    -> rpcordma_post "send": mapping memory, the header, the doorbell
    wire    -> rpcordma_reply "reply": network and server
    fence   rpcordma_post "invalidate" -> its completion: memory is taken back; most calls have none
    done    -> rpc_stats_latency: until the caller's task is through with the reply

A server's, by peer and xid:

    receive rpcordma_completion "receive" -> rpcordma_decode
    reads   rpcordma_post "read" -> its completion: the call's data come
    queue   -> svc_process, less reads: until an nfsd thread took it
    thread  -> rpcordma_encode: nfsd, file system and disk
    reply   -> the completion of its Send; of one that is not signaled, until it is posted

Of the in-tree transport xprtrdma_marshal, xprtrdma_post_send and xprtrdma_reply stand for the client's three.
"""

import contextlib
import os
import re
import select
import signal
import time

from . import status

TRACEFS = ("sys/kernel/tracing", "sys/kernel/debug/tracing")
EVENTS = {
    "rpcordma": "marshal post reply completion decode encode",
    "rpcrdma": "xprtrdma_marshal xprtrdma_post_send xprtrdma_reply",
    "sunrpc": "rpc_request xprt_reserve rpc_stats_latency svc_process",
}
BUFFER_KB = 4096
CLIENT, SERVER = "client", "server"
STAGES = {CLIENT: ("slot", "queue", "post", "wire", "fence", "done"),
          SERVER: ("receive", "reads", "queue", "thread", "reply")}
# Upper ends of the buckets of a histogram, microseconds: a factor of two each; the last one has all above, too.
BUCKETS = [1 << n for n in range(5, 17)]
# RPCs under way that are kept; of more the oldest are given up: their ends were lost.
MOST_OPEN = 20000


class TraceError(Exception):
    """Nothing can be traced; the text says why, and what to do."""


LINE = re.compile(r"\s*(?P<task>.{1,16})-(?P<pid>\d+)\s+\[(?P<cpu>\d+)\]\s+\S+\s+(?P<time>\d+\.\d+): (?P<event>\w+): (?P<rest>.*)")
LOST = re.compile(r"CPU:\d+ \[LOST (\d+) EVENTS\]")
TASK = re.compile(r"task:([0-9a-f]+@[0-9a-f]+|\d+@\d+)")
XID = re.compile(r"\bxid=0x([0-9a-f]+)")
CID = re.compile(r"\bcid=(0x[0-9a-f]+)")
PEER = re.compile(r"^peer=(\S+) ?(.*)$")
LATENCY = re.compile(r"xid=0x[0-9a-f]+ (\S+?)v(\d+) (\S+) backlog=")
PROCESS = re.compile(r"addr=(\S+) xid=0x([0-9a-f]+) service=(\S+) vers=(\d+) proc=(\S+)")


def _host(peer):
    return peer.rpartition(":")[0].strip("[]")


class Analysis:
    """Takes lines; `done` has [(role, operation, {stage: microseconds}, total)]."""

    def __init__(self):
        self.done = []
        self.lost = 0
        self.events = 0
        # Lines that are no event, and events whose form is not known.
        self.strange = 0
        self._by_task = {}
        self._client = {}
        self._server = {}
        # {(peer, cid): xid} of what was posted last
        self._invalidations, self._reads, self._sends = {}, {}, {}
        self._received = {}

    def take(self, line):
        lost = LOST.search(line)
        if lost:
            self.lost += int(lost.group(1))
            return
        m = LINE.fullmatch(line.rstrip("\n"))
        if not m:
            self.strange += bool(line.strip()) and not line.startswith("#")
            return
        self.events += 1
        handler = getattr(self, "_on_" + m.group("event"), None)
        if handler and handler(round(float(m.group("time")) * 1e6), m.group("rest"), m.group("cpu")) is False:
            self.strange += 1
        for table in (self._by_task, self._client, self._server, self._invalidations, self._reads, self._sends):
            if len(table) > MOST_OPEN:
                del table[next(iter(table))]

    @property
    def open(self):
        """RPCs that had not ended."""
        return len(self._client) + len(self._server)

    # The client's side

    def _on_rpc_request(self, at, rest, cpu):
        task = TASK.search(rest)
        if not task:
            return False
        self._by_task[task.group(1)] = {"begin": at}

    def _on_xprt_reserve(self, at, rest, cpu):
        task, xid = TASK.search(rest), XID.search(rest)
        if not task or not xid:
            return False
        # One that began before the trace has no first stage, and is left out.
        call = self._by_task.get(task.group(1))
        if call is not None:
            call["reserve"] = at
            self._client[xid.group(1)] = call

    def _mark(self, at, rest, what):
        xid = XID.search(rest)
        if not xid:
            return False
        call = self._client.get(xid.group(1))
        if call is not None:
            # Of a call that is sent again, the last time.
            call[what] = at

    def _on_rpcordma_marshal(self, at, rest, cpu):
        return self._mark(at, rest, "marshal")

    def _on_xprtrdma_marshal(self, at, rest, cpu):
        return self._mark(at, rest, "marshal")

    def _on_xprtrdma_post_send(self, at, rest, cpu):
        task = TASK.search(rest)
        if not task:
            return False
        call = self._by_task.get(task.group(1))
        if call is not None:
            call["post"] = at

    def _on_xprtrdma_reply(self, at, rest, cpu):
        return self._mark(at, rest, "reply")

    def _on_rpc_stats_latency(self, at, rest, cpu):
        xid, names, task = XID.search(rest), LATENCY.search(rest), TASK.search(rest)
        if not xid or not names:
            return False
        call = self._client.pop(xid.group(1), None)
        if task:
            self._by_task.pop(task.group(1), None)
        if call is None or not {"begin", "reserve", "marshal", "post", "reply"} <= call.keys():
            return None
        # The event of a post is behind it, when the reply may be here.
        reply = max(call["reply"], call["post"])
        fence = max(call.get("fenced", 0) - call["invalidate"], 0) if "invalidate" in call and "fenced" in call else 0
        stages = {"slot": call["reserve"] - call["begin"], "queue": call["marshal"] - call["reserve"],
                  "post": call["post"] - call["marshal"], "wire": reply - call["post"], "fence": fence,
                  "done": max(at - reply - fence, 0)}
        self.done.append((CLIENT, f"{names.group(3)}", stages, at - call["begin"]))

    # Both sides

    def _split(self, rest):
        m = PEER.match(rest)
        return (m.group(1), m.group(2)) if m else (None, rest)

    def _on_rpcordma_post(self, at, rest, cpu):
        peer, what = self._split(rest)
        xid, cid = XID.search(what), CID.search(what)
        if not xid or not cid or not peer:
            return False
        xid, cid, word = xid.group(1), (peer, cid.group(1)), what.split(" ", 1)[0]
        if word in ("send", "invalidate"):
            call = self._client.get(xid)
            if call is not None:
                call["post" if word == "send" else word] = at
                if word == "invalidate":
                    self._invalidations[cid] = xid
        call = self._server.get((peer, xid))
        if call is None:
            return None
        if word == "read":
            call.setdefault("read", at)
            self._reads[cid] = (peer, xid)
        elif word == "reply" and "encode" in call:
            call["posted"] = at
            if "signaled=1" in what:
                self._sends[cid] = (peer, xid)
            else:
                self._end(peer, xid, at)

    def _on_rpcordma_completion(self, at, rest, cpu):
        peer, what = self._split(rest)
        cid = CID.search(what)
        if not peer or not cid:
            return False
        key, word = (peer, cid.group(1)), what.split(" ", 1)[0]
        if word == "receive":
            self._received[cpu] = (peer, at)
        elif word == "invalidate":
            call = self._client.get(self._invalidations.pop(key, None))
            if call is not None:
                call["fenced"] = at
        elif word == "read":
            # A call may have several chains of Reads: the last one counts.
            call = self._server.get(self._reads.get(key))
            if call is not None:
                call["fetched"] = at
        elif word == "send" and key in self._sends:
            self._end(*self._sends.pop(key), at)

    def _on_rpcordma_reply(self, at, rest, cpu):
        peer, what = self._split(rest)
        return self._mark(at, what, "reply") if what.startswith("reply xid") else None

    # The server's side

    def _on_rpcordma_decode(self, at, rest, cpu):
        peer, what = self._split(rest)
        xid = XID.search(what)
        if not xid or not peer:
            return False
        received = self._received.get(cpu)
        # The completion is handled on the CPU that it came on, its call right behind it.
        came = received[1] if received and received[0] == peer else at
        self._server[(peer, xid.group(1))] = {"received": came, "decode": at, "operation": None}

    def _on_svc_process(self, at, rest, cpu):
        m = PROCESS.search(rest)
        if not m:
            return False
        address, xid = m.group(1), m.group(2)
        # sunrpc has no port of the peer's here: of several connections of one client an xid is of one.
        for key, call in self._server.items():
            if key[1] == xid and "process" not in call and _host(key[0]) in (_host(address), address):
                call["process"], call["operation"] = at, m.group(5)
                break

    def _on_rpcordma_encode(self, at, rest, cpu):
        peer, what = self._split(rest)
        xid = XID.search(what)
        if not xid or not peer:
            return False
        call = self._server.get((peer, xid.group(1)))
        if call is not None:
            call["encode"] = at

    def _end(self, peer, xid, at):
        call = self._server.pop((peer, xid), None)
        if call is None or not {"process", "encode"} <= call.keys():
            return
        reads = max(call["fetched"] - call["read"], 0) if "read" in call and "fetched" in call else 0
        stages = {"receive": call["decode"] - call["received"], "reads": reads,
                  "queue": max(call["process"] - call["decode"] - reads, 0), "thread": call["encode"] - call["process"],
                  "reply": at - call["encode"]}
        self.done.append((SERVER, call["operation"], stages, at - call["received"]))


def percentile(values, percent):
    """Of sorted @values, not empty: the least one that so many percent do not exceed."""
    return values[max(-(-len(values) * percent // 100) - 1, 0)]


def histogram(values):
    """How many of @values are in each of BUCKETS; what exceeds the last is in it."""
    counts = [0] * len(BUCKETS)
    for value in values:
        counts[next((i for i, end in enumerate(BUCKETS) if value <= end), len(BUCKETS) - 1)] += 1
    return counts


def summary(analysis):
    """{role: [{"operation", "calls", "mean_us", "median_us", "p99_us", "stages": {stage: mean us}, "histogram": [int]}]},
    what there is most of first."""
    groups = {}
    for role, operation, stages, total in analysis.done:
        groups.setdefault((role, operation), []).append((stages, total))
    result = {CLIENT: [], SERVER: []}
    for (role, operation), calls in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        totals = sorted(total for _, total in calls)
        result[role].append({
            "operation": operation, "calls": len(calls), "mean_us": round(sum(totals) / len(calls), 1),
            "median_us": percentile(totals, 50), "p99_us": percentile(totals, 99),
            "stages": {stage: round(sum(stages[stage] for stages, _ in calls) / len(calls), 1) for stage in STAGES[role]},
            "histogram": histogram(totals)})
    return result


def microseconds(value):
    """Five characters at most: 12, 1234, 12ms, 1.2s."""
    if value < 9999.5:
        return f"{value:.0f}"
    if value < 999500:
        return f"{value / 1000:.0f}ms"
    return f"{value / 1e6:.1f}s" if value < 99.95e6 else f"{value / 1e6:.0f}s"


def text(analysis, bars):
    """Tables for people; 80 columns."""
    from . import top
    lines = []
    for role, entries in summary(analysis).items():
        if not entries:
            continue
        headings = [("OPERATION", False), ("CALLS", True), ("TOTAL", True), ("P99", True)]
        headings += [(stage.upper(), True) for stage in STAGES[role]] + [("32us..65ms", False)]
        rows = [(e["operation"][:13], status.number(e["calls"]), microseconds(e["mean_us"]), microseconds(e["p99_us"]),
                 *(microseconds(e["stages"][stage]) for stage in STAGES[role]),
                 top.sparkline(e["histogram"], len(BUCKETS), bars)) for e in entries]
        lines += [f"{role}: mean microseconds of each stage"] + status.table(headings, rows) + [""]
    if not analysis.done:
        lines += ["no RPC over RDMA began and ended meanwhile", ""]
    notes = [f"{analysis.events} events"]
    if analysis.open:
        notes.append(f"{analysis.open} RPCs had not ended")
    if analysis.lost:
        notes.append(f"{analysis.lost} events were lost: fewer seconds, or --buffer")
    if analysis.strange:
        notes.append(f"{analysis.strange} lines were not understood")
    return [line.rstrip() for line in lines] + [", ".join(notes)]


class Recorder:
    """A context manager: events come while it is entered. Raises TraceError.

    Nothing may interrupt it between a call and what remembers its result: a signal is answered with stop().
    """

    def __init__(self, machine, buffer_kb=BUFFER_KB):
        self.machine = machine
        self.buffer_kb = buffer_kb
        self.folder = None
        self.pipe = None
        self.stopped = False
        self.may_raise = False

    def stop(self, *_):
        """Ends lines(), half a second later at most. It may be called at any time, and handles a signal.

        In write() it raises KeyboardInterrupt.
        """
        self.stopped = True
        if self.may_raise:
            raise KeyboardInterrupt

    def _find(self):
        for place in TRACEFS:
            if self.machine.exists(place + "/instances"):
                return self.machine.path(place)
        if self.machine.lockdown() == "confidentiality":
            raise TraceError("the kernel is locked down (confidentiality) and does not let itself be traced")
        if not self.machine.is_root():
            raise TraceError("tracing is for root alone")
        raise TraceError("there is no tracefs: mount -t tracefs tracefs /sys/kernel/tracing")

    def _write(self, name, value):
        with open(os.path.join(self.folder, name), "w") as f:
            f.write(value)

    @staticmethod
    def sweep(instances):
        """Removes what commands left that were killed."""
        for name in os.listdir(instances):
            m = re.fullmatch(r"rpcordma-(\d+)", name)
            if m and (int(m.group(1)) == os.getpid() or not os.path.exists(f"/proc/{m.group(1)}")):
                # That of another PID namespace may be in use.
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(instances, name))

    def __enter__(self):
        instances = os.path.join(self._find(), "instances")
        try:
            self.sweep(instances)
            folder = os.path.join(instances, f"rpcordma-{os.getpid()}")
            os.mkdir(folder)
            self.folder = folder
            self._write("trace_clock", "mono")
            self._write("buffer_size_kb", str(self.buffer_kb))
            on = 0
            for system_name, names in EVENTS.items():
                for name in names.split():
                    event = f"{'rpcordma_' if system_name == 'rpcordma' else ''}{name}"
                    path = f"events/{system_name}/{event}/enable"
                    if os.path.exists(os.path.join(folder, path)):
                        self._write(path, "1")
                        on += system_name != "sunrpc"
            if not on:
                raise TraceError("neither rpcordma nor the in-tree transport is loaded: modprobe rpcordma")
            self.pipe = os.open(os.path.join(folder, "trace_pipe"), os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            self.__exit__()
            # Linux 6.12 makes no instance then, and says EINVAL.
            if self.machine.lockdown() == "confidentiality":
                raise TraceError("the kernel is locked down (confidentiality) and does not let itself be traced") from None
            if isinstance(error, PermissionError):
                raise TraceError("tracing is for root alone") from None
            raise TraceError(f"{error}: is the kernel short of memory? --buffer takes less") from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.pipe is not None:
            os.close(self.pipe)
            self.pipe = None
        if self.folder:
            # With the instance its events and its buffers go.
            os.rmdir(self.folder)
            self.folder = None

    def lines(self, seconds):
        """Lines as they come, for so long, or until it is stopped."""
        until = time.monotonic() + seconds
        rest = b""
        while not self.stopped and (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select([self.pipe], [], [], min(left, 0.5))
            if not ready:
                continue
            try:
                data = os.read(self.pipe, 1 << 16)
            except BlockingIOError:
                time.sleep(0.01)
                continue
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace")

    def write(self, raw, line):
        """A line for @raw, which nobody may be reading."""
        try:
            self.may_raise = True
            raw.write(line + "\n")
        finally:
            self.may_raise = False


# What ends a command, by a terminal or an administrator.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def record(machine, seconds, buffer_kb, raw):
    """Traces for so long; interrupted, it is analysed so far. @raw: a file that gets the lines, or None."""
    analysis = Analysis()
    recorder = Recorder(machine, buffer_kb)
    # What nohup has the command ignore stays ignored.
    old = {number: signal.signal(number, recorder.stop) for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN}
    try:
        with recorder:
            for line in recorder.lines(seconds):
                analysis.take(line)
                if raw:
                    recorder.write(raw, line)
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
    return analysis


def read(lines):
    """What was recorded before."""
    analysis = Analysis()
    for line in lines:
        analysis.take(line)
    return analysis
