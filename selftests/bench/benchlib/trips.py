# SPDX-License-Identifier: GPL-2.0-only
"""Round trips that an operation takes, in a kernel where only waiting takes time.

One User-Mode Linux machine with time-travel=inf-cpu for each transport: whatever is computed takes no time, and
when all are waiting, time goes on to the next timer. Client and server are joined by two virtual interfaces
that hold each packet for the same time. So the time of an operation, divided by twice that, is the number of
times that it waited for the other end, whatever the host is busy with.
"""

import os
import sys

from . import report
from .counts import ENTRIES, LEGS, LONG, LONGER, NAMES, ODD, REDUCED, VERSION2, XPRTS, module_of, setting

sys.path.insert(0, os.path.join(report.TOP, "selftests", "uml"))
import uml  # noqa: E402

ROUNDS = 1
# Of its own kernel, not those of the virtual machines.
HOST = True
CONFIG = "plain"
KERNEL = [os.path.join(report.TOP, "scripts", "uml-kernel"), CONFIG]
# Milliseconds that a packet takes, one way: far more than the microseconds that reading the clock takes here,
# and far less than what any timer of a transport or of rxe waits for.
DELAY = 10
KIB, MIB = 1024, 1024 * 1024
GUEST = os.path.join(report.TOP, "selftests", "vm", "guest")
LIMIT = 240
ONE = ("READ 4 KiB", "READ 16 KiB", "WRITE 4 KiB", "WRITE 16 KiB", "long call")

COMMON = uml.BOTH_ENDS + """
leaks_forget
both_up @DELAY@
export_up 400M
server_up @XPRT@
rpc_mount() {
	mkdir -p $2
	case $1 in
	3) source=/export more=nolock,mountproto=tcp,mounthost=127.0.0.1,rsize=1048576,wsize=1048576 ;;
	*) source=/ more=rsize=1048576 ;;
	esac
	/sbin/mount.nfs "[fe80::1%va]:$source" $2 -o vers=$1,proto=rdma6,port=20049,$more,$3 || die "no mount of $1"
}
now() {
	sed -n 's/^now at \\([0-9]*\\) nsecs.*/\\1/p' /proc/timer_list
}
# timed NAME COUNT COMMAND...: what COMMAND takes once, and COUNT times more. The first time is not counted: it
# looks at what is cached from then on.
timed() {
	name=$1 more=$2
	shift 2
	for count in 1 1 $((1 + more)); do
		begin=$(now)
		[ "$begin" ] || die "no clock"
		("$@" $count) > /tmp/said 2>&1 || { echo "$name: $(cat /tmp/said)" >> /job/failed; return; }
		eval "took_$count=$(($(now) - begin))"
	done
	eval "echo \\"$name|$more|\\$took_1|\\$took_$((1 + more))\\"" >> /job/trips
}
"""

# grow DIR: keeps the mount DIR busy until the server's Receives of version 2 have grown.
GROW = """
grown() {
	sed -n 's/^grown //p' /sys/kernel/debug/rpcordma/server/counters
}
grow() {
	before=$(grown)
	for turn in $(seq 12); do
		work_to_grow $1 $turn
		[ $(grown) -le $before ] || return 0
	done
	die "the server's Receives do not grow"
}
"""

VERSION1 = """
grow() {
	:
}
"""

END = """
umount -a -t nfs,nfs4 || die "umount"
nfsd_stop
unloaded @XPRT@
health
"""


class Case:
    """@n times more than once the command of the guest's shell @command, whose last operand is how often."""

    def __init__(self, name, n, command, before="", after=""):
        self.name, self.n, self.command, self.before, self.after = name, n, command, before, after

    def script(self, name=""):
        """@name  of what it prints, where it is not the case's"""
        function = "f() { " + self.command.replace("COUNT", "$1") + "; }"
        return f"{self.before}\n{function}\ntimed '{name or self.name}' {self.n} f\n{self.after}\n"


def _transfer(what, size, odd):
    at, skew, less = ODD if odd else (0, 0, 0)
    amount = f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"
    return Case(f"{what.upper()} {amount}{' odd' if odd else ''}", 4,
                f"/job/repeat {what} /mnt/file COUNT {size - less} {at} {skew}")


def cases():
    """All that is measured, in this order."""
    for version in ("3", "4.2"):
        yield Case(f"mount {version}", 2, "for i in $(seq COUNT); do "
                   f"rpc_mount {version} /tmp/other nosharecache && umount /tmp/other || return 1; done")
    yield Case("GETATTR", 4, "/job/repeat stat /tmp/fresh/file COUNT",
               "rpc_mount 3 /tmp/fresh actimeo=0,nosharecache", "umount /tmp/fresh")
    for what in ("read", "write"):
        for size in (4 * KIB, 16 * KIB, 64 * KIB, 512 * KIB, MIB):
            for odd in (False,) if size == 16 * KIB else (False, True):
                yield _transfer(what, size, odd)
    yield Case("READDIR large", 4, "/job/repeat list /mnt/dir COUNT")
    for name, length in (("long call", LONG), ("longer call", LONGER)):
        yield Case(name, 4, f"/job/repeat setxattr /tmp/v4/file COUNT {length}",
                   "rpc_mount 4.2 /tmp/v4 actimeo=600; grow /tmp/v4", "umount /tmp/v4")


def names(_full):
    return [case.name for case in cases()]


def prepare():
    """The kernel, and what is taken along. Returns (its folder, {module: path}, [other files])."""
    kdir = uml.kernel(CONFIG)
    module = {"rpcrdma": os.path.join(kdir, "net", "sunrpc", "xprtrdma", "rpcrdma.ko"),
              "rpcordma": uml.build_module(".", kdir, os.path.join(uml.BUILD, f"{CONFIG}-module"))}
    programs = [uml.compiled(os.path.join(GUEST, f"{name}.c"), os.path.join(uml.BUILD, name))
                for name in ("fsops", "repeat")]
    return kdir, module, [os.path.join(GUEST, "lib.sh"), *programs]


def timed(leg, body, delay, prepared, what, limit=LIMIT):
    """
    Boots a machine with a mount of the export over transport @leg, each packet held for @delay, and has its shell work off
    @body. Returns ({name: nanoseconds of one more}, what went wrong).
    """
    kdir, module, files = prepared
    xprt = module_of(leg)
    # Figures of ours without a version are those of version 1, as in-tree's are.
    choose = f"{setting(leg)} || die 'no choice of the version'\n" if xprt == XPRTS[1] else ""
    script = COMMON + choose + (GROW if leg in (VERSION2, REDUCED) else VERSION1) + (f"/job/fsops dirmake /export/dir {ENTRIES}\n"
                       "dd if=/dev/zero of=/export/file bs=1M count=24 2>/dev/null; chmod 666 /export/file\n"
                       "rpc_mount 3 /mnt actimeo=600,nordirplus\ngrow /mnt\n")
    script = (script + body + END).replace("@XPRT@", xprt).replace("@DELAY@", delay)
    machine = uml.Machine(leg, uml.new_run(what), kdir, "PATH=/job:$PATH\n" + script, [module[xprt], *files],
                          memory="1G", arguments=["time-travel=inf-cpu"])
    machine.start()
    machine.wait(limit, f"counting for {what}")
    took = {}
    for line in machine.file("trips").splitlines():
        name, more, once, often = line.split("|")
        took[name] = (int(often) - int(once)) / int(more)
    return took, machine.file("failed").splitlines() + [f"{line} (see {machine.log})" for line in machine.judge()]


def run(rows, wrong, rounds, only, _full):
    """Appends to @rows {case, xprt, round, trips}."""
    chosen = [case for case in cases() if case.name.startswith(only)]
    try:
        report.progress("trips: the kernel and the module")
        prepared = prepare()
        body = "".join(case.script() for case in chosen)
        for turn in range(rounds):
            for xprt in LEGS:
                report.progress(f"trips: {NAMES[xprt]}, round {turn + 1} of {rounds}")
                took, complaints = timed(xprt, body, f"{DELAY}ms", prepared, "trips")
                wrong += [f"{NAMES[xprt]}: {line}" for line in complaints]
                wrong += [f"{NAMES[xprt]}: {case.name} was not measured" for case in chosen
                          if case.name not in took]
                rows += [{"case": name, "xprt": xprt, "round": turn, "trips": number / (2 * DELAY * 1e6)}
                         for name, number in took.items()]
    except uml.UmlError as error:
        wrong.append(str(error))
    finally:
        report.progress("")


def _cells(rows, xprt, case):
    return [row["trips"] for row in rows if row["case"] == case and row["xprt"] == xprt]


def _text(numbers):
    return " ".join(f"{number:.2f}" for number in numbers) or "-"


def tell(rows):
    print("\nround trips of each")
    report.table(("operation", *(NAMES[leg] for leg in LEGS)),
                 [(case, *(_text(_cells(rows, leg, case)) for leg in LEGS))
                  for case in dict.fromkeys(row["case"] for row in rows)])


def goals(rows):
    """Never more than in-tree; of several rounds the worst of ours, the best of in-tree."""
    table = report.Goals("in-tree")
    for case in names(False):
        theirs, ours = (_cells(rows, xprt, case) for xprt in XPRTS)
        if not theirs or not ours:
            table.add(f"{case}: no more round trips", "-", "-", "was not measured")
        # Less than one is no waiting for the other end: the delay is not there.
        elif min(theirs + ours) < 0.99:
            table.add(f"{case}: no more round trips", _text([min(theirs)]), _text([max(ours)]), False)
        else:
            table.add(f"{case}: no more round trips", _text([min(theirs)]), _text([max(ours)]),
                      max(ours) <= min(theirs) + 0.01)
    # What version 2 sends with the message, or messages, waits for no RDMA Read.
    for case, ending, chosen in [(case, "", VERSION2) for case in ONE] + [
            (case, " reduced", REDUCED) for case in ("longer call", "WRITE 64 KiB", "WRITE 64 KiB odd")]:
        theirs, ours = (_cells(rows, leg, case) for leg in (XPRTS[0], chosen))
        goal = f"{case}: 1 round trip in version 2{ending}"
        if not theirs or not ours:
            table.add(goal, "-", "-", "was not measured")
        else:
            table.ask(goal, (_text([min(theirs)]), _text([max(ours)])), theirs, ours,
                      lambda number: 0.99 <= number <= 1.01)
    return table
