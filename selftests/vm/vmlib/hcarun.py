# SPDX-License-Identifier: GPL-2.0-only
"""What scripts/hca runs on two virtual RDMA devices in one kernel: parts, each some rows of a table.

A row that fails costs the machine: the next one boots another. One that QEMU ended (kernlog.py), with nothing of this
project's in the report, is run once more, aloud. A row that cannot be had is skipped, with the reason;
of one that is known to fail, what the kernel says of it must be there all the same.
"""

import collections
import contextlib
import time
import traceback

from . import disturb, hca, lab, machine, netns
from .testing import Skip, Wrong

MODES = ("bounce", "direct")
# Which version is taken where one has to do, in turn.
TURNS = ("4.2", "3", "4.1", "4.0")

# Of a Read, beyond which a device is to want registered memory: a large WRITE's sink has more, also where its pages lie side by
# side.
FEW_PIECES = 4
# The calls that hold a credit, of our client.
OUTSTANDING = "sed -n 's/^outstanding: //p' /sys/kernel/debug/rpcordma/stats"
# Those; the replies that came to no call; and the calls that had to invalidate their regions themselves. A call that is given
# up is one of the first, of the last, or of both.
CALLS = "awk '/^(outstanding|bad_xids|local_inv_needed):/ { print $2 }' /sys/kernel/debug/rpcordma/stats"
Calls = collections.namedtuple("Calls", "outstanding late invalidated")


class Table:
    """The rows, each printed as it comes."""

    def __init__(self):
        self.rows = []

    def add(self, part, what, verdict, detail, seconds):
        self.rows.append((part, what, verdict, detail, seconds))
        word = {"passed": "ok", "failed": "FAILED"}.get(verdict, verdict)
        print(f"  {word:8} {part:8} {what:44} {seconds:5.0f} s  {detail}", flush=True)

    def count(self, verdict):
        return sum(row[2] == verdict for row in self.rows)

    def tell(self):
        """A line for each part."""
        print(f"\n  {'part':10} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}")
        for part in dict.fromkeys(row[0] for row in self.rows):
            mine = [row for row in self.rows if row[0] == part]
            print(f"  {part:10} " + " ".join(f"{sum(r[2] == verdict for r in mine):{width}}" for verdict, width in
                                             (("passed", 7), ("failed", 7), ("skipped", 8))) +
                  f" {sum(r[4] for r in mine):8.0f}")


class Bed:
    """The machine that the rows run on, and how they are judged.

    @name    directory of the logs
    @xprt    transport of both ends
    @times   removals in the whole run, and how often everything is made and undone
    @memory  MiB
    @checked  the kernel is one with KASAN, lockdep, kmemleak and DMA API debugging
    """

    def __init__(self, name, xprt, times=100, memory=2048, checked=False):
        self.name, self.xprt, self.times, self.memory, self.checked = name, xprt, times, memory, checked
        self.table = Table()
        self.one = None
        self._judged = 0    # complaints of the machine that a row has had
        self._machines = 0
        self.passed_over = collections.Counter()    # kernlog.Known.passed, of machines that are gone

    def machine(self):
        if not self.one:
            self._machines += 1
            self.one = self.make(f"{self.name}/{self._machines}")
            self._judged = 0
        return self.one

    def make(self, name):
        return hca.OneKernel(name, self.xprt, self.memory)

    def drop(self):
        if self.one:
            self.one.stop()
            for vm in self.one.vms:
                self.passed_over += vm.scanner.known.passed
        self.one = None

    def row(self, part, what, function, *args, again=False):
        """Runs @function(one, *args), whose text is the row's. Whether it passed; None where it is to be run once
        more, as QEMU was at fault, and this was not that (@again)."""
        began = time.monotonic()
        verdict, detail = "passed", ""
        try:
            detail = function(self.machine(), *args) or ""
            faults = self.one.faults()
            if faults:
                raise Wrong("; ".join(faults))
        except Skip as why:
            verdict, detail = "skipped", str(why)
        except (Wrong, machine.VmError, lab.LabError) as error:
            verdict, detail = "failed", str(error)
        except Exception:  # a fault of the row itself; the others are still worth running
            verdict, detail = "failed", traceback.format_exc().rstrip()
        complaints = self.one.complaints() if self.one else []
        if len(complaints) > self._judged:
            verdict = "failed"
            detail = "\n    ".join([detail or "the kernel complained:", *complaints[self._judged:][:4]])
            self._judged = len(complaints)
        if verdict == "failed" and self.one:
            detail += f"\n    log: {self.one.vm.log_path}"
            if self._emulators_fault() and not again:
                print(f"hca: {what}: {detail}\nhca: no fault of what is tested: {what} once more", flush=True)
                return None
        self.table.add(part, what, verdict, detail, time.monotonic() - began)
        return verdict == "passed"

    def _emulators_fault(self):
        """The machine goes. Whether all that its kernel complained of is a fault of QEMU's."""
        vms = self.one.vms
        self.drop()
        return machine.emulators_fault(vms)

    def station(self, part, preset, bounce, rows, **params):
        """Devices of @preset, and on them @rows: (what, function, arguments...). What is left of it afterwards is
        a row of its own."""
        mode = MODES[0] if bounce else MODES[1]
        name = f"{preset} {mode}"
        if self.xprt == "rpcrdma" and bounce:
            for what, *_ in rows:
                self.table.add(part, f"{name} {what}", "skipped", hca.IN_TREE_BOUNCES, 0)
            return
        before = None

        def left(one):
            # On another machine there is nothing that could be left, but for that.
            if len(machines) > 1:
                rows[-1][1](one, *rows[-1][2:])
            return down(one, before)

        for what, function, *args in [*rows, ("nothing is left", left)]:
            if function is left and not self.one:
                return
            machines = []
            for again in (False, True):
                if before is None or not self.one:
                    # There were none yet, or they went with their machine.
                    before = self.row_up(part, name, preset, bounce, params)
                    if before is None:
                        return
                machines.append(self.one)
                if self.row(part, f"{name} {what}", function, *args, again=again) is not None:
                    break

    def row_up(self, part, name, preset, bounce, params):
        """Devices and server; what objects() says without a mount. None: they did not come, which is a row."""
        before = []

        def up(one):
            one.devices_up(preset, bounce, **params)
            before.append(one.objects())
            one.serve()

        began = time.monotonic()
        for again in (False, True):
            try:
                up(self.machine())
                return before[-1]
            except (machine.VmError, lab.LabError) as error:
                if not self.one or not self._emulators_fault() or again:
                    self.drop()
                    self.table.add(part, f"{name} comes up", "failed", str(error), time.monotonic() - began)
                    return None
                print(f"hca: {error}\nhca: a fault of QEMU's: {name} once more", flush=True)

    def close(self):
        """At the end of a part: the modules unload, and the checkers have been at work."""
        if not self.one:
            return
        leaks = disturb.leaks(self.one.vm)
        self.row("end", "vhca unloads", lambda one: one.vm.run("rmmod vhca", 30), again=True)
        if not self.one:
            return
        if leaks is None:
            self.table.add("end", "kmemleak", "skipped", "this kernel has none", 0)
        else:
            self.table.add("end", "kmemleak", "failed" if leaks.strip() else "passed", leaks.strip()[:3000], 0)
        if self.one.vm.ok("test -e /proc/lockdep_stats"):
            works = self.one.vm.ok("grep -q 'debug_locks: *1' /proc/lockdep_stats")
            self.table.add("end", "lockdep at work to the end", "passed" if works else "failed", "", 0)
        if self.one.vm.ok("test -e /sys/kernel/debug/dma-api"):
            works = self.one.vm.ok("grep -q N /sys/kernel/debug/dma-api/disabled")
            self.table.add("end", "DMA API debugging at work to the end", "passed" if works else "failed", "", 0)
        self.drop()


def down(one, before):
    """The server and the devices go. No mount is left, nor anything else: objects() is @before until then."""
    mounted = one.vm.run("grep -E ' nfs4? ' /proc/mounts", 10, check=False)
    if mounted:
        raise Wrong(f"still mounted: {mounted}")
    one.stop_serving()
    one.back_to(before)
    stats = one.stats("vhca_va")
    one.devices_down()
    left = one.vm.run("rdma resource show", 10).strip()
    if left:
        raise Wrong(f"rdma resource: {left}")
    return f"{stats['send']} Sends, {stats['map_page'] + stats['map_sg']} mappings of the client's device"


# --- the kernel's checkers ---

# What is planted (selftests/hca/rules/plant.c), and what the kernel says of it.
PLANTED = (("kasan", "BUG: KASAN: slab-use-after-free"), ("lockdep", "possible circular locking dependency"),
           ("kmemleak", "unreferenced object"), ("dma-api", "check_unmap+0x"))


def planted(one, what):
    one.devices_up("connectx", False)
    one.vm.run(f"modprobe vhca_rules && echo {what} > /sys/kernel/debug/vhca_rules/plant || die 'not planted'", 60,
               f"plant a fault for {what}")
    one.devices_down()
    one.vm.run("rmmod vhca_rules", 30)


def part_checkers(bed):
    """a fault for each of the kernel's checkers, which must fail the row, or the end, of a run"""
    for what, said in PLANTED:
        if not bed.checked:
            bed.table.add("checkers", what, "skipped", "this kernel has none", 0)
            continue
        began = time.monotonic()
        inner = Bed(f"{bed.name}/{what}", bed.xprt, memory=bed.memory)
        with contextlib.redirect_stdout(None):
            inner.row("planted", what, planted, what, again=True)
            inner.close()
        found = [row[3] for row in inner.table.rows if row[2] == "failed" and said in row[3]]
        bed.table.add("checkers", what, "passed" if found else "failed",
                      f"fails the run: {said}" if found else f"nothing said of the fault: {inner.table.rows}",
                      time.monotonic() - began)


# --- smoke ---

def smoke(one, version):
    """Data there and back over a mount of @version."""
    sends = one.stats("vhca_va")["send"]
    one.mount(version)
    one.vm.run(hca.VERIFIED_IO, 120, "verified I/O")
    size = one.vm.run("sed -n 's/.* \\/mnt nfs.*rsize=\\([0-9]*\\).*/\\1/p' /proc/mounts", 10).strip()
    one.umount()
    sends = one.stats("vhca_va")["send"] - sends
    if sends < 50:
        raise Wrong(f"only {sends} Sends: the traffic did not go through the device")
    return f"rsize {size}, {sends} Sends"


def refused(one, text):
    """A mount must fail, with @text in the kernel log."""
    one.vm.run("dmesg -c > /dev/null", 10)
    if one.mount_fails("4.2"):
        raise Wrong("it was mounted")
    said = one.vm.run("dmesg | sed -n 's/.*rpcordma: //p'", 10).splitlines()
    right = [line for line in said if text in line]
    if not right:
        raise Wrong(f"no \"{text}\" in the kernel log, which has: {said}")
    return right[0]


def part_smoke(bed):
    """every NFS version on each preset"""
    for preset in hca.PRESETS:
        for bounce in (True, False):
            rows = [(f"v{version}", smoke, version) for version in hca.VERSIONS]
            bed.station("smoke", preset, bounce, rows)
    # As swiotlb does where nobody asks for more: a buffer begins at a page's beginning, wherever in a page its owner's does.
    for preset in hca.PRESETS:
        bed.station("smoke", preset, True, [(f"places lost, v{version}", smoke, version) for version in ("3", "4.2")],
                    align_mask=0)
    # The pages of a sink lie side by side where there is memory for that, in fewer pieces than this device does well with.
    bed.station("smoke", "connectx", True, [(f"Reads registered, v{version}", smoke, version) for version in ("3", "4.2")],
                sgl_rd=FEW_PIECES)
    # What benchmarks use: it copies in another way, which has to be right as well.
    for preset in ("connectx", "cxgb4"):
        bed.station("smoke", preset, False, [(f"without checks, v{version}", smoke, version) for version in ("3", "4.2")],
                    checks="N")
    if bed.xprt == "rpcordma":
        bed.station("smoke", "unfit", False, [("is refused", refused, hca.REFUSES_QUEUES)])
    else:
        bed.table.add("smoke", "unfit direct is refused", "skipped", "about the messages of rpcordma", 0)
    bed.close()


# --- calls that are given up ---

def calls(one):
    return Calls(*map(int, one.vm.run(CALLS).split()))


def calls_given_up(one, before):
    """How many calls have been given up since calls() said @before: one at least, before long."""
    deadline = time.monotonic() + 10 * machine.PATIENCE
    while time.monotonic() < deadline:
        # They hold their credits for a while, or not: where an invalidation meets the late reply's the connection ends
        # (vhca_mr_invalidate()), nothing is held back any more, and the other calls may have their replies after all.
        now = calls(one)
        given_up = max(now.outstanding, now.late - before.late, now.invalidated - before.invalidated)
        if given_up:
            return given_up
        time.sleep(0.05)
    raise Wrong(f"the calls had their replies before they could be given up: {before}, {now}")


def cancelled(one, version, kind, device="vhca_vb"):
    """I/O is killed while a work request of @kind waits at @device, the server's or the client's; then its late RDMA operation
    comes, or it is told of its late message."""
    # A mount of before, whose calls were given up, may still have some: what waits is to be this one's.
    one.unused()
    one.mount(version)
    one.vm.run("[ -e /tmp/c ] || dd if=/dev/urandom of=/tmp/c bs=1M count=4 2>/dev/null; "
               "cp /tmp/c /mnt/c; sync /mnt/c; cp /tmp/c /mnt/s; sync /mnt/s; drop_caches", 60)
    stay = one.vm.spawn("cd /mnt && exec sleep 600", "a process that stays in the mount")
    way = "if=/mnt/s of=/dev/null iflag=direct" if kind != "read" else "if=/tmp/c of=/mnt/s conv=notrunc oflag=direct"
    # The process is there and has the file open before the device is told to wait.
    go = f"exec 3< /mnt/s; echo open >&2; until [ -e /tmp/go ]; do usleep 5000; done; exec dd {way} bs=512k"
    one.vm.run("rm -f /tmp/go")
    jobs = [one.vm.spawn(go, f"I/O to be killed, {i}") for i in range(3)]
    deadline = time.monotonic() + 20 * machine.PATIENCE
    while not all("open" in job.out for job in jobs):
        if time.monotonic() > deadline:
            raise Wrong("the processes did not open the file")
        time.sleep(0.05)
    held = one.stats(device)["held"]
    one.inject(device, f"{kind} 1 hold 600000")
    one.vm.run("touch /tmp/go", 10)
    if one.xprt == "rpcordma":
        one.vm.until(f"[ $({OUTSTANDING}) -ge 2 ]", 10, "calls to be with the server", 0.05)
    else:
        time.sleep(0.5)
    before = calls(one) if one.xprt == "rpcordma" else None
    for job in jobs:
        job.kill()
    one.vm.ok("umount -f /mnt", 20)
    given_up = calls_given_up(one, before) if one.xprt == "rpcordma" else 0
    # What a process that was killed asks next -- CLOSE, on a slot of the session that the server has in use still -- waits
    # for the server too, and umount -f gives up what waits at that moment alone.
    deadline = time.monotonic() + 30 * machine.PATIENCE
    while any(job.running() for job in jobs) and time.monotonic() < deadline:
        time.sleep(1)
        one.vm.ok("umount -f /mnt", 20)
    for job in jobs:
        job.wait(10, check=False)
        if job.status == 0:
            raise Wrong("I/O was done before it could be killed")
    if kind == "recv" and one.stats(device)["held"] != held + 1:
        raise Wrong("no Receive was held back")
    one.inject(device, "release")
    one.vm.run("sleep 1; drop_caches; cmp /tmp/c /mnt/c", 90, "the file is whole")
    if one.xprt == "rpcordma":
        one.vm.until(f"[ $({OUTSTANDING}) = 0 ]", 30, "all credits to be back")
    connects = one.connects()
    stay.kill()
    stay.wait(10, check=False)
    one.vm.until("umount /mnt", 30, "umount")
    return f"{given_up} calls given up, {connects} connections"


def killed(one, version):
    """Processes are killed during I/O, beside a load that is not."""
    one.mount(version)
    work = hca.Load(one)
    one.vm.run(f"COUNT=40\n{hca.KILLED}", 180, "kill processes in the midst of I/O")
    work.goes_on(60, "the load to go on")
    rounds = work.finish()
    one.umount()
    return f"40 processes killed, {rounds} rounds of others verified"


def part_cancel(bed):
    """calls that are given up while the server has them"""
    for preset, bounce in (("connectx", True), ("irdma", False), ("cxgb4", True)):
        rows = []
        for version in ("3", "4.2"):
            rows += [(f"v{version} late Write", cancelled, version, "write"),
                     (f"v{version} late Read", cancelled, version, "read"),
                     (f"v{version} late Send", cancelled, version, "send"),
                     (f"v{version} late Receive of a call", cancelled, version, "recv"),
                     (f"v{version} late Receive of a reply", cancelled, version, "recv", "vhca_va"),
                     (f"v{version} kill -9", killed, version)]
        bed.station("cancel", preset, bounce, rows)
    bed.close()


# --- disturbances under load ---

def under_load(one, version, disturb_once, times, patience=60):
    """A verified load; @disturb_once(one, number) so many times, after each of which the load must go on within @patience s.

    Returns the load's rounds, the reconnects, and the longest time, s, until it went on.
    """
    one.mount(version)
    connects = one.connects()
    work = hca.Load(one)
    longest = 0
    for number in range(times):
        disturb_once(one, number)
        began = time.monotonic()
        work.goes_on(patience, f"the load to go on after disturbance {number + 1} of {times}")
        longest = max(longest, time.monotonic() - began)
    rounds = work.finish()
    connects = one.connects() - connects
    one.umount()
    return rounds, connects, longest


def drops(one, version, times):
    """All queue pairs of a device fail, of client and server in turn."""
    rounds, connects, _ = under_load(one, version, lambda one, n: one.event(hca.DEVICES[n % 2], "qp-fatal"), times)
    if connects < times:
        raise Wrong(f"{connects} connections after {times} drops")
    return f"{times} drops, {connects} reconnects, {rounds} rounds verified"


def part_drops(bed):
    """load with dropped connections"""
    for number in range(10):
        preset, bounce = hca.PRESETS[number // 2], number % 2 == 0
        # Each version with either mode.
        version = TURNS[(number // 2 + number) % 4]
        bed.station("drops", preset, bounce, [(f"v{version} qp-fatal", drops, version, 6)])
    bed.close()


# Completion statuses (enum ib_wc_status), as devices give them for each kind of work request.
LOCAL_PROTECTION, MEMORY_BIND, REMOTE_ACCESS, REMOTE_OPERATION, RETRIES, RECEIVER, GENERAL = 4, 6, 10, 11, 12, 13, 21
FAILURES = {
    "send": (RETRIES, RECEIVER, LOCAL_PROTECTION, REMOTE_OPERATION),
    "write": (REMOTE_ACCESS, RETRIES, LOCAL_PROTECTION, GENERAL),
    "read": (REMOTE_ACCESS, REMOTE_OPERATION, LOCAL_PROTECTION, RETRIES),
    "reg": (MEMORY_BIND, GENERAL),
    "inv": (MEMORY_BIND, GENERAL),
}


def errors(one, version, device, kind):
    """One of the next work requests of @kind fails at @device under load, with one status after the other: nothing but a
    new connection comes of it."""
    one.mount(version)
    work = hca.Load(one)
    began = one.connects()
    for number, status in enumerate(FAILURES[kind]):
        connects = one.connects()
        one.inject(device, f"{kind} {1 + 4 * number} {status}")
        deadline = time.monotonic() + 60 * machine.PATIENCE
        while one.connects() == connects:
            if time.monotonic() > deadline:
                raise Wrong(f"no new connection: no {kind} failed with {status}, or nothing came of it")
            time.sleep(0.2)
        work.goes_on(60, f"the load to go on after {kind} failed with {status}")
    rounds = work.finish()
    connects = one.connects() - began
    one.umount()
    return f"{len(FAILURES[kind])} failed, {connects} reconnects, {rounds} rounds verified"


def part_errors(bed):
    """a work request of each kind fails, at either end, with each status that devices give it, under load"""
    for preset, bounce, version in (("connectx", True, "4.2"), ("irdma", False, "3"), ("cxgb4", False, "4.1")):
        ends = [("client", "vhca_va", kind) for kind in ("send", "reg")]
        ends += [("server", "vhca_vb", kind) for kind in ("send", "write", "read")]
        # A page list of 128 is too short for one region, which the reply could invalidate. Reads there need registered memory,
        # and invalidate it themselves; those of many pieces do better with it on the other.
        if preset == "cxgb4":
            ends += [("client", "vhca_va", "inv"), ("server", "vhca_vb", "reg")]
        if preset == "connectx":
            ends += [("server", "vhca_vb", "reg"), ("server", "vhca_vb", "inv")]
        bed.station("errors", preset, bounce,
                    [(f"v{version} {kind} of the {end}'s", errors, version, device, kind) for end, device, kind in ends],
                    sgl_rd=FEW_PIECES if preset == "connectx" else 0)
    bed.close()


def slow(one, version, how):
    """The devices behave as @how says while a load goes on."""
    one.mount(version)
    connects = one.connects()
    for device in hca.DEVICES:
        one.behave(device, **how)
    work = hca.Load(one)
    for _ in range(3):
        work.goes_on(120, f"the load to go on with {how}")
    for device in hca.DEVICES:
        one.behave(device, read_delay=0, cq_delay=0, cq_batch=1, map_fails=0)
    rounds = work.finish(120)
    connects = one.connects() - connects
    one.umount()
    return f"{rounds} rounds verified, {connects} reconnects"


# For which a Receive is held back, s: longer than a worker's round takes otherwise.
HOLD = 3


def held(one, version, times):
    """A message comes, and is told of late, with all behind it: the server's calls and the client's replies in turn."""
    before = [one.stats(device)["held"] for device in hca.DEVICES]
    began = []

    def once(one, number):
        began.append(time.monotonic())
        one.inject(hca.DEVICES[number % 2], f"recv 1 hold {HOLD * 1000}")

    rounds, connects, _ = under_load(one, version, once, times)
    after = [one.stats(device)["held"] for device in hca.DEVICES]
    if sum(after) - sum(before) != times:
        raise Wrong(f"Receives held back: {before} -> {after}")
    waited = min(later - earlier for earlier, later in zip(began, began[1:]))
    if waited < HOLD:
        raise Wrong(f"a round of all took {waited:.1f} s, with a Receive held back for {HOLD} s")
    if connects:
        raise Wrong(f"{connects} reconnects")
    return f"{times} held back for {HOLD} s, {rounds} rounds verified"


HOW = (
    ("late Reads", {"read_delay": 2000}),
    ("late completions", {"cq_delay": 1000}),
    ("completions in batches", {"cq_delay": 2000, "cq_batch": 8}),
    ("all of it", {"read_delay": 1000, "cq_delay": 1000, "cq_batch": 4}),
    ("failing mappings", {"map_fails": 401}),
)


def part_late(bed):
    """late Reads, late and batched completions, late Receives, failing mappings"""
    stations = (("connectx", True), ("irdma", False), ("qedr", True), ("poor", False), ("cxgb4", True))
    for number, (preset, bounce) in enumerate(stations):
        rows = [(f"v{TURNS[(number + i) % 4]} {name}", slow, TURNS[(number + i) % 4], how)
                for i, (name, how) in enumerate(HOW)]
        rows.append((f"v{TURNS[(number + 1) % 4]} late Receives", held, TURNS[(number + 1) % 4], 4))
        bed.station("late", preset, bounce, rows)
    bed.close()


def removal(one, version, times, once=lambda one, number: one.remove(hca.DEVICES[number % 2])):
    """Devices go and come back, the client's and the server's in turn."""
    rounds, connects, _ = under_load(one, version, once, times)
    if connects < times:
        raise Wrong(f"{connects} connections after {times} removals")
    return f"{times} removals, {connects} reconnects, {rounds} rounds verified"


def removal_in_connect(one, version, times):
    """Connections are lost, and a device goes while the next one is being made: the client's, and the server's, in turn."""
    def once(one, number):
        device = hca.DEVICES[number % 2]
        connects = one.connects()
        one.connecting(device)
        if one.connects() != connects:
            raise Wrong("the client had connected before the device went")
        one.remove(device)

    return removal(one, version, times, once)


def part_removal(bed):
    """devices that are removed under load, and come back"""
    stations = (("connectx", True), ("connectx", False), ("irdma", True), ("qedr", False), ("poor", True), ("cxgb4", False))
    for number, (preset, bounce) in enumerate(stations):
        version = TURNS[number % 4]
        share = bed.times * (number + 1) // len(stations) - bed.times * number // len(stations)
        rows = [(f"v{version}", removal, version, share)] if share else []
        # iWARP has no messages of InfiniBand's CM, by which a connection can be held up.
        if preset != "cxgb4":
            rows.append((f"v{version} while it connects", removal_in_connect, version, 4))
        if rows:
            bed.station("removal", preset, bounce, rows)
    bed.close()


def events(one, version, happens, costs, patience, times):
    """@happens(one, device) under load, at either device in turn, each time with a reconnect (@costs), or never with one; the load
    goes on within @patience s."""
    rounds, connects, longest = under_load(one, version, lambda one, n: happens(one, hca.DEVICES[n % 2]), times, patience)
    if connects < times if costs else connects:
        raise Wrong(f"{connects} reconnects in {times} times")
    return f"{times} times, {connects} reconnects, {rounds} rounds verified, a break of {longest:.0f} s"


EVENTS = (
    ("port down, up", hca.OneKernel.port_flap, True, 60),
    ("link down, up", hca.OneKernel.link, True, 60),
    # A server whose GID went, and came again, cannot tell a client by an older connection that this is over. Where nothing is to
    # be sent by it the client learns that when a call has had no answer for a minute.
    ("its own GID goes, comes", hca.OneKernel.own_address, True, 150),
    ("another GID comes, goes", hca.OneKernel.address, False, 60),
    ("send queue drained", lambda one, device: one.event(device, "sq-drained"), False, 60),
    ("device fatal", lambda one, device: one.event(device, "fatal"), False, 60),
)


def part_events(bed):
    """ports, links and GIDs that go and come, and what else a device says, under load"""
    for preset, bounce, version in (("connectx", True, "4.1"), ("irdma", False, "3"), ("cxgb4", True, "4.2")):
        # iWARP's only GID is the interface's MAC address.
        mine = [event for event in EVENTS if preset != "cxgb4" or "GID" not in event[0]]
        bed.station("events", preset, bounce, [(f"v{version} {name}", events, version, *event, 6) for name, *event in mine])
    bed.close()


# --- memory that is short, or in pieces ---

# More than will fail.
MANY = 1000000


def in_pieces(one, version):
    """No four pages lie side by side, for either end, from before the connection is made on. Two do, as the checkers of this
    kernel have an object of 4 KiB take so many; and memory for RPC messages comes, which is up to 8 KiB that any transport asks
    for in one piece."""
    one.fail_allocations("fail_page_alloc", 1, MANY, order=2, spared="rpcordma_core_buf_alloc")
    try:
        one.mount(version)
        one.vm.run(hca.VERIFIED_IO, 120, "verified I/O")
        work = hca.Load(one)
        rounds = work.finish()
        one.umount()
    finally:
        failed = one.allocations_last("fail_page_alloc", MANY)
    if not failed:
        raise Wrong("no allocation failed: nothing asks for pages side by side, or the filter is wrong")
    return f"{failed} allocations of four pages or more failed, {rounds} rounds verified"


def short(one, version, kind, every):
    """Allocations fail under load, each @every-th."""
    one.mount(version)
    connects = one.connects()
    work = hca.Load(one)
    one.fail_allocations(kind, every, MANY)
    try:
        for number in range(6):
            # A device's queue pairs fail now and then: what a new connection allocates fails, too.
            one.event(hca.DEVICES[number % 2], "qp-fatal")
            work.goes_on(60, f"the load to go on while each {every}th allocation fails")
    finally:
        failed = one.allocations_last(kind, MANY)
    rounds = work.finish()
    connects = one.connects() - connects
    one.umount()
    if not failed:
        raise Wrong("no allocation failed")
    return f"{failed} allocations failed, {connects} reconnects, {rounds} rounds verified"


def part_memory(bed):
    """allocations of the transport that fail, those of several pages all, others now and then under load"""
    stations = (("connectx", False, "4.2", "3"), ("irdma", True, "3", "4.1"), ("cxgb4", False, "4.1", "4.2"))
    for preset, bounce, first, second in stations:
        rows = [(f"v{first} in pieces", in_pieces, first),
                (f"v{second} objects fail", short, second, "failslab", 307),
                (f"v{first} pages fail", short, first, "fail_page_alloc", 53)]
        if not bed.checked:
            for what, *_ in rows:
                bed.table.add("memory", f"{preset} {MODES[not bounce]} {what}", "skipped",
                              "this kernel fails no allocations on demand", 0)
            continue
        bed.station("memory", preset, bounce, rows)
    bed.close()


# --- the machine's power ---

def cpu_goes(one, version, times):
    """A CPU goes under load, and with it its interrupts; then it comes back."""
    moved = one.stats("vhca_va")["moved"] + one.stats("vhca_vb")["moved"]

    def once(one, _number):
        one.cpu(1, False)
        try:
            time.sleep(1)
        finally:
            one.cpu(1, True)

    rounds, connects, _ = under_load(one, version, once, times)
    moved = one.stats("vhca_va")["moved"] + one.stats("vhca_vb")["moved"] - moved
    if not moved:
        raise Wrong("no completion queue had its interrupts on the CPU that went")
    return f"{times} times, {moved} interrupts went elsewhere, {connects} reconnects, {rounds} rounds verified"


def sleeps(one, version, state, times):
    """The machine sleeps with a mount that is idle, and uses it."""
    one.mount(version)
    connects = one.connects()
    for _ in range(times):
        one.vm.run(hca.VERIFIED_IO, 120, "verified I/O")
        did = one.sleep(state)
    one.vm.run(hca.VERIFIED_IO, 120, "verified I/O after it woke up")
    connects = one.connects() - connects
    one.umount()
    return f"{did} {times} times, {connects} reconnects"


def sleeps_under_load(one, version, state, times):
    did = []
    rounds, connects, _ = under_load(one, version, lambda one, n: did.append(one.sleep(state)), times)
    return f"{did[-1]} {times} times, {connects} reconnects, {rounds} rounds verified"


def part_power(bed):
    """CPUs that go and come back, suspend to idle and to RAM"""
    for preset, bounce, versions in (("connectx", True, ("4.2", "3", "4.1")), ("irdma", False, ("3", "4.0", "4.2"))):
        first, second, third = versions
        bed.station("power", preset, bounce,
                    [(f"v{first} CPU goes", cpu_goes, first, 6),
                     (f"v{second} suspend to idle", sleeps, second, "freeze", 2),
                     (f"v{third} suspend to idle, load", sleeps_under_load, third, "freeze", 2),
                     (f"v{third} suspend to RAM", sleeps, third, "mem", 2),
                     (f"v{first} suspend to RAM, load", sleeps_under_load, first, "mem", 2)], vectors=4)
    bed.close()


# --- network namespaces ---

class NamespacesBed(Bed):
    """The same for rows that bring containers of their own; its rows are in the table of @bed."""

    def __init__(self, bed):
        super().__init__(f"{bed.name}/netns", bed.xprt, memory=bed.memory, checked=bed.checked)
        self.table, self.passed_over = bed.table, bed.passed_over

    def make(self, name):
        return netns.Namespaces(name, self.xprt, self.memory)


def seen(box):
    """The RDMA devices that a container sees."""
    return box.run("rdma dev | sed 's/.*: \\(vhca_[^:]*\\):.*/\\1/' | sort", 10).split()


def in_namespaces(one, exclusive, preset, bounce):
    """A client and a server, each in a namespace with a device of its own; then both namespaces end."""
    one.set_exclusive(exclusive)
    one.vm.run(f"modprobe {one.xprt}", 20)
    client, server = one.pair(1, preset, bounce)
    devices = [seen(client), seen(server)]
    if devices != ([["vhca_n1c"], ["vhca_n1s"]] if exclusive else [["vhca_n1c", "vhca_n1s"]] * 2):
        raise Wrong(f"RDMA devices that client and server see: {devices}")
    one.serve(1)
    before = one.stats("vhca_n1c")["send"]
    # v3 first: the server's grace period is under way.
    for number, version in enumerate(hca.VERSIONS):
        sends = one.stats("vhca_n1c")["send"]
        one.mount(1, version, six=number % 2 == exclusive)
        client.run(f"STORED=/proc/{server.pid}/root/export\n{hca.VERIFIED_IO}", 120, f"verified I/O, v{version}")
        if one.connections(1) != 1:
            raise Wrong(f"v{version}: {one.connections(1)} connections")
        client.run("umount /mnt", 60)
        one.quiet(1)
        if one.stats("vhca_n1c")["send"] - sends < 50:
            raise Wrong(f"v{version}: the traffic did not go through the namespace's device")
    sends = one.stats("vhca_n1c")["send"] - before
    faults = one.faults()
    if faults:
        raise Wrong("; ".join(faults))
    for name in ("c1", "s1"):
        one.all[name].end()
        one.gone(name)
    one.vm.until(f"rmmod {one.xprt}", 60, f"rmmod {one.xprt}, which went with its namespaces")
    left = one.vm.run("ls /sys/class/infiniband; rdma resource show", 10).strip()
    if left:
        raise Wrong(f"left behind: {left}")
    return f"{', '.join('v' + version for version in hca.VERSIONS)} over IPv4 and IPv6, {sends} Sends, nothing is left"


def part_netns(bed):
    """client and server in two network namespaces, over RDMA devices that all see or one alone"""
    inner = NamespacesBed(bed)
    for exclusive in (False, True):
        for preset, bounce in (("connectx", True), ("irdma", False), ("cxgb4", not exclusive)):
            what = f"{'exclusive' if exclusive else 'shared'}, {preset} {MODES[not bounce]}"
            if bed.xprt == "rpcrdma" and bounce:
                bed.table.add("netns", what, "skipped", hca.IN_TREE_BOUNCES, 0)
                continue
            for again in (False, True):
                if inner.row("netns", what, in_namespaces, exclusive, preset, bounce, again=again) is not None:
                    break
    inner.close()


# --- everything made and undone ---

def cycles(one, version, times):
    """Connect, mount, I/O, unmount, server and module gone, again and again."""
    before = {device: n for device, n in one.objects().items() if device[1] != "mapped"}
    for number in range(times):
        one.mount(version, options="" if number % 2 else "nconnect=2")
        one.vm.run(f"dd if=/dev/urandom of=/mnt/f bs=100003 count=1 conv=fsync 2>/dev/null; cmp /mnt/f /export/f || "
                   f"die 'cycle {number}: the file differs'; rm /mnt/f; umount /mnt", 60, f"I/O of cycle {number}")
        one.stop_serving()
        one.serve()
    now = {device: n for device, n in one.objects().items() if device[1] != "mapped"}
    if now != before:
        raise Wrong(f"objects: {before} -> {now}")
    return f"{times} times"


def part_cycle(bed):
    """connect, mount, unmount, rmmod"""
    stations = (("connectx", True), ("irdma", False), ("qedr", True), ("poor", False))
    for number, (preset, bounce) in enumerate(stations):
        share = bed.times * (number + 1) // len(stations) - bed.times * number // len(stations)
        if share:
            bed.station("cycle", preset, bounce, [(f"v{TURNS[number]}", cycles, TURNS[number], share)])
    bed.close()


PARTS = {"checkers": part_checkers, "smoke": part_smoke, "cancel": part_cancel, "drops": part_drops,
         "errors": part_errors, "late": part_late, "removal": part_removal, "events": part_events,
         "memory": part_memory, "power": part_power, "netns": part_netns, "cycle": part_cycle}
