# SPDX-License-Identifier: GPL-2.0-only
"""What an RPC costs, in numbers that do not depend on how busy the host is: two transports in turn, at both
ends of one pair of machines, by the same means (vmlib/cost.py)."""

from vmlib import cost, disturb, lab, machine

from . import report

ROUNDS = 1
KIB, MIB = 1024, 1024 * 1024
XPRTS = ("rpcrdma", "rpcordma")
# Ours at both ends in version 2, the server's Receives grown. It is a leg beside XPRTS: what is asked of ours
# beside in-tree is asked of version 1.
VERSION2 = "version2"
# The same with round-trip reduction: the cases that it is for, and some that are to take no more by it.
REDUCED = "reduced"
# In-tree once more, of a few cases: the means have to say the same of it as the first time.
CONTROL = "control"
CONTROLLED = ("GETATTR", "READ 1 MiB")
SAME = 0.005
NAMES = {"rpcrdma": "in-tree", "rpcordma": "ours", VERSION2: "ours, v2", REDUCED: "ours, v2 reduced",
         CONTROL: "in-tree again"}
LEGS = (*XPRTS, VERSION2, REDUCED)
MOUNT = "rsize=1048576,wsize=1048576,actimeo=600"
# Cases of REDUCED.
REDUCIBLE = ("GETATTR", "READ 4 KiB", "WRITE 4 KiB", "READ 64 KiB", "WRITE 64 KiB", "READDIR 32 KiB", "long call",
             "longer call")
# What makes a transfer odd: offset in the file, offset in a page of memory, bytes less.
ODD = (1001, 617, 3)
# Of a call: more than any inline threshold here takes.
LONG = 20000
# And more than a Receive of version 2 takes.
LONGER = 60000
ENTRIES = 5000
# Of the files that are read and written.
FILE_PAGES = 24 * MIB // 4096


def settle(pair, where):
    """Has the mount @where work until its connection has what it comes to have with use: our server grants a new one few
    credits, and makes Receives when these grow, as our client does. The in-tree transport makes all at once."""
    for turn in range(4):
        pair.client.run(f"work_to_grow {where} settle{turn}", 60, "use the connection")


class Case:
    """@n RPCs of one kind: @script(count) does @count of them in the client. @calls False: the client decides
    how many calls one takes."""

    def __init__(self, name, n, script, calls=True):
        self.name, self.n, self.script, self.calls = name, n, script, calls

    def measure(self, pair, take=cost.snapshot):
        def work(count):
            pair.client.run(self.script(count), 120, f"{self.name}: {count} times")

        # What nfsd knows of the caller's groups is asked for anew with each call once it is a minute old, which is 77
        # instructions of sunrpc's.
        pair.server.run("date +%s > /proc/net/rpc/auth.unix.gid/flush", 10, "forget groups")

        return cost.per_call(pair, lambda: work(1), lambda: work(1 + self.n),
                             self.n if self.calls else None, take=take)


class LongReply(Case):
    """Directories in replies of 32 KiB, which no Receive takes: a mount of its own, over the same connection."""

    def __init__(self, n):
        super().__init__("READDIR 32 KiB", n, lambda count: f"repeat list /small/dir {count}", calls=False)

    def measure(self, pair, take=cost.snapshot):
        pair.mount("3", "rsize=32768,actimeo=600,nosharecache,nordirplus", where="/small")
        try:
            return super().measure(pair, take)
        finally:
            pair.umount("/small")


class Modern(Case):
    """Over NFSv4.2, so a mount of its own, and a connection of its own."""

    def measure(self, pair, take=cost.snapshot):
        pair.mount("4.2", MOUNT, where="/v4")
        try:
            if pair.client.run(f"cat {disturb.VERSION2} 2>/dev/null || echo 0", 10, "read the version").strip() != "0":
                disturb.grow(pair, where="/v4")
            settle(pair, "/v4")
            return super().measure(pair, take)
        finally:
            pair.umount("/v4")


class LongCall(Modern):
    """An extended attribute, which is not eligible for direct placement."""

    def __init__(self, name, n, length):
        super().__init__(name, n, lambda count: f"repeat setxattr /v4/side {count} {length}")


def _transfer(what, size, odd=False, apart=False, modern=False):
    """How many pages are one behind the other in memory decides what ours takes, and not what in-tree does: those of the
    client's memory and the server's page cache are all neighbours, or, @apart, none."""
    at, skew, less = ODD if odd else (0, 0, 0)
    where = "apart" if apart else "side"
    amount = f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"
    name = f"{what.upper()} {amount}{' odd' if odd else ''}{' apart' if apart else ''}{', NFSv4.2' if modern else ''}"
    file = f"{'/v4' if modern else '/mnt'}/{where}"
    # How many of its Sends are signaled differs by one between two runs of in-tree: of small ones the more.
    return (Modern if modern else Case)(
        name, 20 if size >= MIB else 64, lambda count: f"repeat {what} {file} {count} {size - less} {at} {skew} {where}")


def cases():
    """All that is measured, in this order."""
    # Enough of both for how often a Send is signaled.
    yield Case("NULL", 128, lambda count: f"repeat null /mnt {count}")
    yield Case("GETATTR", 128, lambda count: f"repeat stat /fresh/side {count}")
    for what in ("read", "write"):
        for size, odds in ((4 * KIB, (False, True)), (16 * KIB, (False,)), (64 * KIB, (False, True)),
                           (MIB, (False, True))):
            for odd in odds:
                yield _transfer(what, size, odd)
            if size >= 64 * KIB:
                yield _transfer(what, size, apart=True)
    yield Case("READDIR large", 4, lambda count: f"repeat list /mnt/dir {count}", calls=False)
    yield LongReply(4)
    # Others stand behind the data of an NFSv4 call, so that the end of its last page is needed for them.
    for what in ("read", "write"):
        for size in (4 * KIB, 64 * KIB, MIB):
            yield _transfer(what, size, modern=True)
    yield LongCall("long call", 10, LONG)
    yield LongCall("longer call", 10, LONGER)


def names(_full):
    return [case.name for case in cases()]


def legs(turn, chosen, usual, middle=XPRTS):
    """[(leg, its cases)] in the order of measuring in round @turn: @middle, and CONTROL. A B C C B A: a host that gets
    slower, or faster, all the time favours none; and between in-tree and in-tree is what is between in-tree and
    ours, as far as the round is not the next one."""
    order = [*((leg, chosen) for leg in middle), (CONTROL, report.controls(chosen, usual))]
    return [(leg, [case for case in some if leg != REDUCED or case.name in REDUCIBLE])
            for leg, some in (order[::-1] if turn % 2 else order)]


def module_of(leg):
    return {CONTROL: XPRTS[0], VERSION2: XPRTS[1], REDUCED: XPRTS[1]}.get(leg, leg)


def setting(leg):
    """A shell command that has @leg's version spoken, and what it does of that, over connections from now on."""
    return (f"echo {int(leg in (VERSION2, REDUCED))} > {disturb.VERSION2} && "
            f"echo {7 * (leg == REDUCED)} > {disturb.RTR} && "
            f"echo {65536 * (leg == REDUCED)} > {disturb.SENT} && "
            f"echo {65536 * (leg == REDUCED)} > {disturb.ASKED}")


def by_round(rows, case, measure, legs_=XPRTS):
    """For each of @legs_ @measure of @case in the rounds that have all of them."""
    by = [{row["round"]: measure(row) for row in rows
           if row["case"] == case and row["xprt"] == leg and "profile" not in row} for leg in legs_]
    rounds = sorted(set.intersection(*map(set, by)))
    return tuple([found[turn] for turn in rounds] for found in by)


def control(table, rows, case, what, measure, same=SAME):
    """Adds to @table the control of a number that does not depend on the host: the same in each round, but for
    @same of the smaller one."""
    first, again = by_round(rows, case, measure, (XPRTS[0], CONTROL))
    if not first:
        table.control(f"{case}, {what}", "-", "-", False)
        return
    worst = max(zip(first, again), key=lambda pair: max(pair) / max(min(pair), 1e-9))
    # Where nothing was counted the means are broken.
    table.control(f"{case}, {what}: within {same:.1%}", text(worst[0]),
                  text(worst[1]) + (f": {worst[1] / worst[0]:.4f}" if worst[0] > 0 else ""),
                  min(first + again) > 0 and all(max(pair) - min(pair) <= same * min(pair)
                                                 for pair in zip(first, again)))


def controlled(rows):
    """Cases that a control was measured of; some case in any case, so that one that is missing is seen."""
    return list(dict.fromkeys(row["case"] for row in rows if row["xprt"] == CONTROL)) or ["no case"]


def change(leg, pair):
    """Has @leg's transport at both ends, and nothing mounted. verbsmeter and rxe stay."""
    xprt = module_of(leg)
    pair.client.run("for where in $(awk '$3 == \"nfs\" { print $2 }' /proc/mounts); do umount $where || exit 1; done",
                    60, "umount")
    if (pair.xprt, pair.server_xprt) != (xprt, xprt):
        pair.server.run("nfsd_stop", 60, "stop nfsd")
        pair.client.until(f"rmmod {pair.xprt}", 30, f"rmmod {pair.xprt}")
        pair.server.until(f"rmmod {pair.server_xprt}", 30, f"rmmod {pair.server_xprt}")
        pair.client.run(f"modprobe {xprt}", 30)
        pair.server.run(f"modprobe {xprt} && nfsd_start 8", 60, f"nfsd over {xprt}")
        # Figures of ours without a version are those of version 1, as in-tree's are.
        for vm in (pair.client, pair.server) if xprt == "rpcordma" else ():
            vm.run(f"echo 0 > {disturb.VERSION2}", 10, "choose the version")
        pair.xprt = pair.server_xprt = xprt
    for vm in (pair.client, pair.server):
        pair.only(vm, xprt)


def select(leg, pair):
    """Mounts over @leg's transport at both ends. What ran there before goes."""
    change(leg, pair)
    if module_of(leg) == "rpcordma":
        for vm in (pair.client, pair.server):
            vm.run(setting(leg), 10, "choose the version")
    pair.mount("3", f"{MOUNT},nordirplus")
    # Its attributes are never fresh enough.
    pair.mount("3", "actimeo=0,nosharecache", where="/fresh")
    if leg in (VERSION2, REDUCED):
        disturb.grow(pair)
    settle(pair, "/mnt")


def make_files(pair):
    """On the server, what the cases work on; and the client gets what makes NULLs."""
    pair.client.run("modprobe nullrpc", 10, "load what makes NULLs")
    pair.server.run(f"repeat fill /export/apart {FILE_PAGES} apart && mount -o remount,huge=always /export && "
                    f"repeat fill /export/side {FILE_PAGES} side && mount -o remount,huge=never /export && "
                    "chmod 666 /export/apart /export/side && "
                    f"fsops dirmake /export/dir {ENTRIES}", 60, "make what is read")


def _prepare(pair):
    disturb.up(pair, lease=600)
    for vm in (pair.client, pair.server):
        cost.watch(vm)
    make_files(pair)


def run(rows, wrong, rounds, only, _full):
    """Appends to @rows {case, xprt, calls, cost by role}, of @rounds times both transports in turn, and in-tree
    once more (CONTROL), cases that begin with @only; and to @wrong what went wrong."""
    chosen = [case for case in cases() if case.name.startswith(only)]
    with lab.Lab("bench-counts", xprt=XPRTS[0], server_xprt=XPRTS[0], server_params="") as pair:
        try:
            _prepare(pair)
            for turn in range(rounds):
                for xprt, some in legs(turn, chosen, CONTROLLED, LEGS):
                    select(xprt, pair)
                    for number, case in enumerate(some):
                        report.progress(f"counts: {NAMES[xprt]}, round {turn + 1} of {rounds}: {case.name} "
                                        f"({number + 1} of {len(some)})")
                        try:
                            each, calls = case.measure(pair)
                        except (cost.Disturbed, machine.Failed) as error:
                            wrong.append(f"{NAMES[xprt]}: {case.name}: {error}")
                            continue
                        rows.append({"case": case.name, "xprt": xprt, "round": turn, "calls": calls, **each})
                    if rows:
                        rows[-1]["objects"] = {vm.name: pair.rdma_resources(vm)
                                               for vm in (pair.client, pair.server)}
        finally:
            report.progress("")
            wrong += [f"the kernel complained: {line}" for line in pair.complaints()]


# Heads of a role's table, and the counters that are added up.
COLUMNS = {
    "client": (("WRs", "send_wrs"), ("posts", "send_posts"), ("Send", "wr_send"), ("REG_MR", "wr_reg_mr"),
               ("LOC_INV", "wr_local_inv"), ("signaled", "send_signaled"), ("recv posts", "recv_posts"),
               ("compl.", "completions"), ("polls", "polls"), ("MRs made", "mrs_made"), ("wakes", "wakeups"),
               ("switches", "ctxt"), ("kmalloc", "kmalloc"), ("slab", "slab"), ("pages", "pages"), ("pkts out", "rxe_sent_pkts"),
               ("in", "rxe_rcvd_pkts"), ("bytes out", "net_tx_bytes"), ("in", "net_rx_bytes")),
    "server": (("WRs", "send_wrs"), ("posts", "send_posts"), ("Send", "wr_send"), ("with inv", "wr_send_with_inv"),
               ("RDMA W", "wr_rdma_write"), ("RDMA R", "wr_rdma_read"), ("SGEs", "send_sges"),
               ("signaled", "send_signaled"), ("recv posts", "recv_posts"), ("compl.", "completions"),
               ("polls", "polls"), ("nfsd wakes", "nfsd_wakeups"), ("dequeues", "dequeues"),
               ("MRs made", "mrs_made"), ("wakes", "wakeups"), ("switches", "ctxt"), ("kmalloc", "kmalloc"),
               ("slab", "slab"), ("pages", "pages"), ("pkts out", "rxe_sent_pkts"), ("in", "rxe_rcvd_pkts"),
               ("bytes out", "net_tx_bytes"), ("in", "net_rx_bytes")),
}


def value(row, role, names):
    return sum(row[role][name] for name in ((names,) if isinstance(names, str) else names))


def text(number):
    if abs(number) >= 100:
        return f"{number:.0f}"
    # Adding 0.0 makes a zero of what rounds to a negative one.
    return f"{round(number, 2) + 0.0:g}"


def tell(rows):
    for role, columns in COLUMNS.items():
        print(f"\n{role}, for each RPC")
        # A case's rows stand side by side.
        report.table(("RPC", "transport", *(head for head, _ in columns)),
                     [(row["case"], NAMES[row["xprt"]], *(text(value(row, role, names)) for _, names in columns))
                      for case in dict.fromkeys(row["case"] for row in rows)
                      for row in rows if row["case"] == case])
    print()
    for row in rows:
        for role, objects in row.get("objects", {}).items():
            print(f"  {NAMES[row['xprt']]} {role}, RDMA objects at the end: "
                  + ", ".join(f"{number} {kind}" for kind, number in objects.items() if number))


def goals(rows):
    """The issue's goals that are about counts; of several rounds the worst of ours, the best of in-tree."""
    table = report.Goals("in-tree")

    def add(goal, case, measure, most, least=0):
        found = {xprt: [row for row in rows if row["case"] == case and row["xprt"] == xprt] for xprt in XPRTS}
        if not all(found.values()):
            table.add(goal, "-", "-", f"{case} was not measured")
            return
        # An RPC takes a work request: where none was seen the means are broken, and a zero says nothing.
        broken = [xprt for xprt in XPRTS for row in found[xprt] if row["client"]["wr_send"] < 1]
        if broken:
            table.add(goal, "-", f"no Send of {', '.join(broken)} was counted", False)
            return
        theirs, ours = ([measure(row) for row in found[xprt]] for xprt in XPRTS)
        table.ask(goal, (text(min(theirs)), text(max(ours))), theirs, ours, lambda number: least <= number <= most)

    def of(role, *names):
        return lambda row: value(row, role, names)

    add("1 MiB READ, client: 2 WRs (in-tree 17)", "READ 1 MiB", of("client", "send_wrs"), 2, 2)
    add("1 MiB READ, client: 1 post (2)", "READ 1 MiB", of("client", "send_posts"), 1, 1)
    add("1 MiB READ, client: no LOCAL_INV (8)", "READ 1 MiB", of("client", "wr_local_inv"), 0)
    add("1 MiB READ, server: about 9 RDMA Writes (56)", "READ 1 MiB", of("server", "wr_rdma_write"), 10, 1)
    for case in ("READ 4 KiB odd", "READ 64 KiB odd", "READ 1 MiB odd", "WRITE 4 KiB odd", "WRITE 64 KiB odd",
                 "WRITE 1 MiB odd"):
        add(f"{case}: no LOCAL_INV", case, of("client", "wr_local_inv"), 0)
    for case in ("NULL", "GETATTR"):
        add(f"{case}, client: 1 WR", case, of("client", "send_wrs"), 1, 1)
        add(f"{case}, client: 1 post", case, of("client", "send_posts"), 1, 1)
        add(f"{case}, client: under a tenth of Sends signaled", case,
            lambda row: row["client"]["send_signaled"] / row["client"]["wr_send"], 0.0999)
    for size in ("4 KiB", "4 KiB odd", "64 KiB", "64 KiB odd", "1 MiB", "1 MiB odd"):
        # A thread that is just about to sleep is woken once more.
        add(f"{size} WRITE, server: 1 wake-up of nfsd (2 to 4)", f"WRITE {size}", of("server", "nfsd_wakeups"),
            1.1, 0.5)
        add(f"{size} WRITE, server: nfsd turns to it once", f"WRITE {size}", of("server", "dequeues"), 1.1, 0.9)
    _version2(table, rows)
    for case in controlled(rows):
        for role in COLUMNS:
            control(table, rows, case, f"{role}'s WRs", of(role, "send_wrs"))
    return table


# What goes with the messages of version 2.
WITH_MESSAGES = tuple(f"{what} {size} KiB" for what in ("READ", "WRITE") for size in (4, 16))


def _version2(table, rows):
    """One Send each way and nothing else; one packet may be an acknowledgement. In-tree's figures are beside."""
    def add(case, what, role, names, most, least=0, leg=VERSION2):
        found = {which: [value(row, role, names) for row in rows if row["case"] == case and row["xprt"] == which]
                 for which in (XPRTS[0], leg)}
        goal = f"{case}, version 2{' reduced' if leg == REDUCED else ''}, {role}: {what}"
        if not all(found.values()):
            table.add(goal, "-", "-", f"{case} was not measured")
            return
        table.ask(goal, (text(min(found[XPRTS[0]])), text(max(found[leg]))), found[XPRTS[0]], found[leg],
                  lambda number: least <= number <= most)

    for case in WITH_MESSAGES:
        for role in COLUMNS:
            add(case, "1 WR, a Send", role, ("send_wrs",), 1, 1)
            add(case, "1 post", role, ("send_posts",), 1, 1)
        # Of a Send's now and then; the server has one for each, which tells when a reply's memory may go.
        add(case, "1 completion and hardly another", "client", ("completions",), 1.1, 0.99)
        add(case, "2 completions", "server", ("completions",), 2.1, 1.99)
        add(case, "nothing is registered", "client", ("wr_reg_mr", "wr_local_inv"), 0)
        add(case, "nfsd turns to it once", "server", ("dequeues",), 1.1, 0.9)
    add("long call", "1 WR, a Send", "client", ("send_wrs",), 1, 1)
    add("long call", "no RDMA", "server", ("wr_rdma_read", "wr_rdma_write"), 0)
    for case in ("READDIR 32 KiB", "longer call", "WRITE 64 KiB"):
        add(case, "1 post", "client", ("send_posts",), 1.1, 1, REDUCED)
        add(case, "nothing is registered", "client", ("wr_reg_mr", "wr_local_inv"), 0, leg=REDUCED)
        add(case, "no RDMA", "server", ("wr_rdma_read", "wr_rdma_write"), 0, leg=REDUCED)
