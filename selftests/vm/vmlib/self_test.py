# SPDX-License-Identifier: GPL-2.0-only
"""Whether a test, and a row of scripts/hca, is run once more for the right logs, and for no other; and whether known
reports, of overlapping DMA mappings and others, are passed over, and no others; and what becomes of tests for which there is no time; and which of several modules machines get: vm-check --self-test.
"""

import contextlib
import io
import os
import signal
import tempfile
import types
from unittest import mock

from . import faults, hca, hcarun, image, kernlog, testing

HEADER = """
[   41.270113] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI
[   41.270891] CPU: 1 UID: 0 PID: 0 Comm: swapper/1 Tainted: G           OE      6.12.117+deb12-amd64 #1  Debian
[   41.271822] Tainted: [O]=OOT_MODULE, [E]=UNSIGNED_MODULE
[   41.272301] Hardware name: QEMU Standard PC (Q35 + ICH9, 2009), BIOS 1.16.2-debian-1.16.2-1 04/01/2014
"""
RIP = """
[   41.273142] RIP: 0010:sched_clock_cpu+0x6/0x190
[   41.273653] Code: 90 90 90 90 90 90 90 90 90 f3 0f 1e fa cc <1f> 44 00 00 41 54 55 53
[   41.275201] RSP: 0018:ffffa2b9c0097e78 EFLAGS: 00000246
[   41.280113] CR2: 00007f5e1c0f3000 CR3: 0000000003a1c000 CR4: 0000000000750ef0
"""
TRACE = """
[   41.281010] Call Trace:
[   41.281322]  <TASK>
[   41.281601]  irqtime_account_irq+0x3b/0xc0
[   41.282098]  ? __die_body.cold+0x8/0x12
[   41.282544]  do_idle+0x1ec/0x280
[   41.283399]  secondary_startup_64_no_verify+0x17a/0x17b
"""
USER = """
[   41.283720] RIP: 0033:0x7f3c8a5b3c9d
"""
END = """
[   41.284022]  </TASK>
[   41.284310] Modules linked in: rpcordma(OE) rpcordma_kunit(OE) nfsd nfsv4 rdma_rxe [last unloaded: rpcordma(OE)]
[   41.286020] ---[ end trace 0000000000000000 ]---
[   41.286555] RIP: 0010:sched_clock_cpu+0x6/0x190
[   41.286610] Code: 90 90 90 90 90 90 90 90 90 f3 0f 1e fa cc <1f> 44 00 00 41 54 55 53
[   41.286622] RSP: 0018:ffffa2b9c0097e78 EFLAGS: 00000246
[   41.286634] RAX: 0000000000000000 RBX: ffffffff9c011140 RCX: ffff8d2d41322340
[   41.286646] RDX: 00000000000236fa RSI: ffffffff9c011140 RDI: ffff8d2d78c1d000
[   41.286658] RBP: ffffa2b9c0097de8 R08: 000000103ae05084 R09: 0000000000000001
[   41.286670] R10: 0000000000000000 R11: ffff8d2d78c1d000 R12: ffff8d2d78c32780
[   41.286682] R13: ffffa2b9c0097da8 R14: ffff8d2d41322340 R15: 0000000000000000
[   41.286694] FS:  0000000000000000(0000) GS:ffff8d2dbbecb000(0000) knlGS:0000000000000000
[   41.286706] CS:  0010 DS: 0000 ES: 0000 CR0: 0000000080050033
[   41.286718] CR2: 00007f5e1c0f3000 CR3: 0000000003a1c000 CR4: 0000000000750ef0
[   41.286730] PKRU: 55555554
[   41.287303] Kernel panic - not syncing: Fatal exception in interrupt
[   41.288011] Kernel Offset: 0x1b400000 from 0xffffffff81000000 (relocation range: 0xffffffff80000000-0xffffffffbfffffff)
"""
LEAK = """
[   40.100000] BUG rpcordma_call (Tainted: G           OE     ): Objects remaining in rpcordma_call on shutdown
"""
QEMUS = HEADER + RIP + TRACE + USER + END


def frame(text):
    return f"[   41.282301]  {text}\n"


def machine_that_said(*lines, known=None):
    scanner = kernlog.Scanner(known)
    for line in "".join(lines).splitlines():
        scanner.feed(line)
    scanner.finish()
    return types.SimpleNamespace(scanner=scanner, complaints=scanner.complaints)


# what, what each machine of the test said, how often the test has to be run
CASES = (
    ("nobody complains", [""], 1),
    ("a fault of QEMU's", [QEMUS], 2),
    ("the same, and the other machine is well", ["", QEMUS], 2),
    ("our function was interrupted",
     [HEADER + RIP + TRACE + frame("rpcordma_poll+0x41/0x90 [rpcordma]") + USER + END], 1),
    ("a method of ours, by its linker's name",
     [HEADER + RIP + TRACE + frame("_ZN8rpcordma9SendQueue4takeEjj+0x12/0x70 [rpcordma]") + END], 1),
    ("something of ours, maybe, was on the stack",
     [HEADER + RIP + TRACE + frame("? rpcordma_core_send_done+0x1a/0x60 [rpcordma]") + END], 1),
    ("our function is where it happened",
     [HEADER + RIP.replace("sched_clock_cpu+0x6/0x190", "rpcordma_post+0x6/0x40 [rpcordma]") + TRACE + END], 1),
    ("it is a work item of ours",
     [HEADER + frame("Workqueue: xprtiod rpcordma_close_worker [rpcordma]") + RIP + TRACE + END], 1),
    ("the unit tests' module was on the stack",
     [HEADER + RIP + TRACE + frame("rpcordma_test_run+0x30/0x80 [rpcordma_kunit]") + END], 1),
    ("it happened where no code is any more",
     [HEADER + RIP.replace("sched_clock_cpu+0x6/0x190", "0xffffffffc0a3f123") + TRACE + END], 1),
    ("called from where no code is any more",
     [HEADER + RIP + TRACE + frame("? 0xffffffffc0a3f123") + END], 1),
    ("the report is cut off", [HEADER + RIP], 1),
    ("something else before it", [LEAK + QEMUS], 1),
    ("something else behind it", [QEMUS + LEAK], 1),
    ("something else in the midst of it", [HEADER + RIP + LEAK + TRACE + END], 1),
    ("another fault, whose machine goes on", [QEMUS.replace("Kernel panic - not syncing: Fatal exception",
                                                            "BUG: Bad page state") + TRACE], 1),
    ("two of QEMU's", [QEMUS + QEMUS], 2),
    ("something else in the other machine", [LEAK, QEMUS], 1),
    ("one of QEMU's and one of ours", [QEMUS, HEADER + RIP + frame("rpcordma_poll+0x41/0x90 [rpcordma]") + END], 1),
    ("another oops", [QEMUS.replace("int3: 0000", "0000")], 1),
)

# As a kernel with CONFIG_DMA_API_DEBUG has it.
OVERLAP = """
[   93.104116] ------------[ cut here ]------------
[   93.104871] DMA-API: vhca vhca.1: cacheline tracking EEXIST, overlapping mappings aren't supported
[   93.106202] WARNING: CPU: 1 PID: 311 at kernel/dma/debug.c:601 add_dma_entry+0x2c1/0x370
[   93.107530] Modules linked in: rpcordma(O) vhca(O) nfsv4 nfsd
[   93.108211] RIP: 0010:add_dma_entry+0x2c1/0x370
[   93.109340] Call Trace:
[   93.109771]  <TASK>
[   93.110207]  debug_dma_map_sg+0x5b1/0x8f0
[   93.110816]  __dma_map_sg_attrs+0x129/0x1a0
"""
OVERLAP_END = """
[   93.118202]  </TASK>
[   93.119833] ---[ end trace 0000000000000000 ]---
[   93.120514] DMA-API: Mapped at:
[   93.121006]  debug_dma_map_sg+0x1a1/0x8f0
"""
OURS = frame("rpcordma_region_map+0x2f1/0x560 [rpcordma]")
IN_TREE = frame("frwr_map+0x3a8/0x11f0 [rpcrdma]")

# what, what the machine said, how many reports are passed over, whether it complains all the same
OVERLAPS = (
    ("overlapping mappings of ours", OVERLAP + OURS + OVERLAP_END, 1, False),
    ("the in-tree transport's", OVERLAP + IN_TREE + OVERLAP_END, 1, False),
    ("by a kernel that does not name its files",
     OVERLAP.replace("kernel/dma/debug.c:601 ", "") + OURS + OVERLAP_END, 1, False),
    ("two of them", 2 * (OVERLAP + OURS + OVERLAP_END), 2, False),
    ("overlapping mappings of somebody else", OVERLAP + frame("nvme_rdma_map_data+0x1f/0x80") + OVERLAP_END, 0, True),
    ("the report of some is cut off", OVERLAP + OURS, 0, True),
    ("one in another one", OVERLAP + OVERLAP + OURS + OVERLAP_END, 1, True),
    ("a leak in the midst of it", OVERLAP + LEAK + OURS + OVERLAP_END, 1, True),
    ("another complaint of DMA API debugging",
     OVERLAP.replace("cacheline tracking EEXIST, overlapping mappings aren't supported",
                     "device driver failed to check map error") + OURS + OVERLAP_END, 0, True),
)

TIMES = {1: "run once", 2: "run once more"}

KNOWN = """
[ 5021.270113] ------------[ cut here ]------------
[ 5021.270891] WARNING: CPU: 0 PID: 131 at drivers/infiniband/sw/rxe/rxe_comp.c:827 rxe_completer+0x9d1/0xf50 [rdma_rxe]
[ 5021.284310] Modules linked in: rpcordma(OE) nfsd rdma_rxe [last unloaded: rpcordma(OE)]
[ 5021.284810] Workqueue: rxe_wq do_work [rdma_rxe]
""" + TRACE + frame("rxe_requester+0x9/0x1480 [rdma_rxe]") + """
[ 5021.290011] ---[ end trace 0000000000000000 ]---
"""
RXE, BOTH = (kernlog.RXE_COMPLETER,), (kernlog.RXE_COMPLETER, kernlog.OVERLAP)
# what, what a machine said, what is known of it, complaints, reports that are left out
KNOWN_CASES = (
    ("rxe's WARNING that is known", KNOWN, RXE, 0, 1),
    ("the same where it is not", KNOWN, (kernlog.OVERLAP,), 2, 0),
    ("a stale address of ours on its stack", KNOWN.replace("rxe_requester", "? rpcordma_core_send_done"), RXE, 0, 1),
    ("the same WARNING where we were called", KNOWN.replace("rxe_requester", "rpcordma_core_send_done"), RXE, 2, 0),
    ("a WARNING elsewhere in rxe", KNOWN.replace("rxe_comp.c:827", "rxe_comp.c:828"), RXE, 2, 0),
    ("a known one that is cut off", KNOWN[:KNOWN.index("---[ end")], RXE, 2, 0),
    ("a leak behind a known one", KNOWN + LEAK, RXE, 1, 1),
    ("a leak in the midst of a known one", KNOWN.replace(TRACE, LEAK + TRACE), RXE, 1, 1),
    ("two known ones", KNOWN + OVERLAP + OURS + OVERLAP_END, BOTH, 0, 2),
    ("one known one in the midst of another", OVERLAP + KNOWN + OURS + OVERLAP_END, BOTH, 2, 1),
)


def known():
    """Returns how many of KNOWN_CASES passed."""
    passed = 0
    for what, said, reports, complaints, count in KNOWN_CASES:
        of = kernlog.Known(*reports)
        got = len(machine_that_said(said, known=of).complaints), of.count
        passed += got == (complaints, count)
        print(f"{'ok' if got == (complaints, count) else 'not ok'} - {what}: {complaints} complaints, {count} left out"
              + ("" if got == (complaints, count) else f", and it was {got}"))
    return passed


def told(what, runs, wanted):
    print(f"{'ok' if runs == wanted else 'not ok'} - {what}: {TIMES[wanted]}"
          + ("" if runs == wanted else f", and was run {runs} times"))
    return runs == wanted


class OneThatSays:
    """In place of hca.OneKernel; its kernel says nothing before a row."""

    def __init__(self, *_):
        self.vm = machine_that_said("")
        self.vm.log_path = "a log"
        self.vms = [self.vm]

    def complaints(self):
        return self.vm.complaints

    def __getattr__(self, _name):
        return lambda *_, **__: {}


def row_runs(said):
    """How often a row is run whose machine's kernel says @said."""
    runs = 0

    def function(one):
        nonlocal runs
        runs += 1
        for line in said.splitlines():
            one.vm.scanner.feed(line)

    with mock.patch.object(hca, "OneKernel", OneThatSays), mock.patch.object(hcarun, "down", lambda *_: ""), \
            contextlib.redirect_stdout(None):
        hcarun.Bed("a run", "rpcordma").station("a part", "a preset", True, [("a row", function)])
    return runs


def fault_runs(deaf):
    """How often a row of the fault matrix is run that fails with the machines @deaf, and what is recorded of it."""
    runs = 0

    def function(*_):
        nonlocal runs
        runs += 1
        raise testing.Wrong(f"run {runs}")

    bed = faults.Bed("rxe", "4.2", "rpcordma")
    with mock.patch.object(faults, "one_row", function), mock.patch.object(OneThatSays, "deaf", lambda _: deaf, create=True), \
            mock.patch.object(bed, "make", OneThatSays), contextlib.redirect_stdout(None):
        verdict, found, _ = bed.run(faults.FAULTS["loss-1"], "idle")
    return runs, verdict, found["detail"].splitlines()[0]


# The machines that rxe has made deaf; runs, verdict and detail of the row.
DEAF = ((["client"], (3, "failed", "run 3")), ([], (1, "failed", "run 1")))


def deaf_rows():
    """Returns how many of DEAF passed."""
    passed = 0
    for names, wanted in DEAF:
        got = fault_runs(names)
        passed += got == wanted
        print(f"{'ok' if got == wanted else 'not ok'} - a row of the fault matrix that fails with {len(names)} deaf machines: "
              f"{wanted[0]} runs" + ("" if got == wanted else f", and it was {got}"))
    return passed


# What is asked for: names, --slow, VM_SLOW; what is to run then, and what to be skipped.
CHOICES = (
    ((), False, False, ["quick", "quick-too"], ["quick-slow"]),
    (("quick",), False, False, ["quick", "quick-too"], ["quick-slow"]),
    (("quick-slow",), False, False, ["quick-slow"], []),
    (("quick-s",), False, False, [], ["quick-slow"]),
    ((), False, True, ["quick", "quick-slow", "quick-too"], []),
    ((), True, False, ["quick-slow"], []),
    (("quick-too",), True, False, [], []),
)


def choices():
    """Returns how many of CHOICES passed."""
    passed = 0
    with mock.patch.object(testing, "_registry", {}):
        for name, slow in (("quick", None), ("quick-slow", "takes long"), ("quick-too", None)):
            testing.test(name, slow=slow)(lambda _t: None)
        tests = dict(testing._registry)
    for names, only, too, runs, skipped in CHOICES:
        verdicts = {name: testing.run(name, function)[:2]
                    for name, function in testing.choose(tests, names, only, too).items()}
        good = verdicts == {**dict.fromkeys(runs, ("pass", "")),
                            **dict.fromkeys(skipped, ("skip", "takes long: VM_SLOW=1 or its name runs it"))}
        passed += good
        print(f"{'ok' if good else 'not ok'} - {' '.join(names) or 'all'}{', --slow' * only}{', VM_SLOW=1' * too}: "
              f"{len(runs)} run, {len(skipped)} skipped" + ("" if good else f", and it was {verdicts}"))
    return passed


def ends_it(_t):
    os.kill(os.getpid(), signal.SIGTERM)


def ends_machines_as_well(_t):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        raise testing.Wrong("the machine is gone")


def fails(_t):
    raise testing.Wrong("no")


def passes(_t):
    pass


LEFT_OUT = testing.left_out("takes long")
# What the tests do, the time at which each begins, from the deadline on, or None where there is no deadline; how each
# ends, and exit status.
IN_TIME = (
    ("in time", (passes, passes), (-2, -1), ("passed", "passed"), 0),
    ("no deadline", (passes,), None, ("passed",), 0),
    ("the deadline passes", (passes, passes, LEFT_OUT), (-1, 0, 1),
     ("passed", "skipped no time left, its name runs it: scripts/vm-check t1", "skipped takes long"), 0),
    ("it has passed", (passes,), (5,), ("skipped no time left, its name runs it: scripts/vm-check t0",), 0),
    ("none is left but those that are left out anyway", (LEFT_OUT,), (-5,), ("skipped takes long",), 1),
    ("a failure before the deadline", (fails, passes), (-1, 0),
     ("FAILED no", "skipped no time left, its name runs it: scripts/vm-check t1"), 1),
    ("SIGTERM", (passes, ends_it, passes, LEFT_OUT), None,
     ("passed", "skipped no time left, SIGTERM came while it ran", "skipped no time left, SIGTERM came before it was begun",
      "skipped takes long"), 1),
    ("SIGTERM, which ends machines, too", (fails, ends_machines_as_well), None,
     ("FAILED no", "skipped no time left, SIGTERM came while it ran"), 1),
)


def in_time():
    """Returns how many of IN_TIME passed."""
    passed = 0
    for what, functions, times, ends, wanted in IN_TIME:
        output, clock = io.StringIO(), iter(times or ())
        chosen = {f"t{i}": function for i, function in enumerate(functions)}
        with contextlib.redirect_stdout(output), mock.patch.object(testing.time, "time", lambda: 1000 + next(clock)):
            status = testing.run_all(chosen, 1000 if times else 0)
        lines = [" ".join(line.split()) for line in output.getvalue().splitlines() if "logs: " not in line]
        said = tuple(line.replace(f" t{i} 0.0 s", "") for i, line in enumerate(lines[:-2]))
        totals = ", ".join(f"{sum(end.startswith(word) for end in ends)} {word.lower()}" for word in testing.WORDS.values())
        good = (said, lines[-1], status) == (ends, totals, wanted)
        passed += good
        print(f"{'ok' if good else 'not ok'} - the time of a run: {what}"
              + ("" if good else f": it was {said}, {lines[-1]}, status {status}"))
    return passed


# What is below build/, each newer than the one before, of which release; which of them a machine gets.
MODULES = [
    ("what make module made of several compilers: the newest, without clang",
     [("6.12-g++-12", "6.12.1"), ("6.12-g++-14", "6.12.1"), ("6.12-clang++-19", "6.12.1"), ("6.1-g++-12", "6.1.1")], 1),
    ("not what another test has for itself, though it is newer",
     [("6.12-g++-12", "6.12.1"), ("check-install/lib/modules/6.12.1/updates", "6.12.1"), ("compilers/x", "6.12.1")], 0),
    ("clang's where there is no other", [("6.1-g++-12", "6.1.1"), ("6.12-clang++-19", "6.12.1")], 1),
    ("none of another kernel", [("6.1-g++-12", "6.1.1"), ("6.12-g++-12", "6.12.11")], None),
]


def modules():
    passed = 0
    for what, made, wanted in MODULES:
        with tempfile.TemporaryDirectory() as top, mock.patch.object(image, "TOP", top), \
                mock.patch.dict(os.environ, {"RPCORDMA_KO": ""}):
            paths = [os.path.join(top, "build", folder, "rpcordma.ko") for folder, _ in made]
            for number, (path, (_, release)) in enumerate(zip(paths, made)):
                os.makedirs(os.path.dirname(path))
                with open(path, "wb") as f:
                    f.write(b"\0vermagic=" + release.encode() + b" SMP\0")
                os.utime(path, (number, number))
            found = image.find_module("rpcordma", types.SimpleNamespace(release="6.12.1"))
            good = found == (None if wanted is None else paths[wanted])
            print(f"{'ok' if good else 'not ok'} - the module of a machine: {what}" + ("" if good else f": it was {found}"))
            passed += good
    return passed


def run():
    passed = choices() + deaf_rows() + in_time() + modules()
    for what, said, wanted in CASES:
        runs = 0

        def once(*_, said=said):
            nonlocal runs
            runs += 1
            vms = [machine_that_said(text) for text in said]
            return "fail" if any(vm.complaints for vm in vms) else "pass", what, 0.0, vms

        with mock.patch.object(testing, "_run", once), contextlib.redirect_stdout(None):
            testing.run("a test", None)
        passed += told(what, runs, wanted)
    ones = [(what, said[0], wanted) for what, said, wanted in CASES if len(said) == 1]
    for what, said, wanted in ones:
        passed += told(f"a row, {what}", row_runs(said), wanted)
    for what, said, passed_over, complains in OVERLAPS:
        scanner = machine_that_said(said).scanner
        good = scanner.known.count == passed_over and bool(scanner.complaints) == complains
        print(f"{'ok' if good else 'not ok'} - {what}" +
              ("" if good else f": {scanner.known.count} passed over, complaints {scanner.complaints}"))
        passed += good
    passed += known()
    count = len(CHOICES) + len(DEAF) + len(IN_TIME) + len(MODULES) + len(CASES) + len(ones) + len(OVERLAPS) + len(KNOWN_CASES)
    print(f"{passed} passed, {count - passed} failed, 0 skipped")
    return 0 if passed == count else 1
