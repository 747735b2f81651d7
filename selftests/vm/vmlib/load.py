# SPDX-License-Identifier: GPL-2.0-only
"""Mixed verified I/O over eight connections while connections are dropped, and what must hold of it.

fio does the I/O in the client, and reads back and checks all that it writes. disturb.Dropper does the
dropping. `scripts/load` and a test are the callers.
"""

import json
import re
import time

from . import disturb

CONNECTIONS = 8
# So few that each is busy enough for the server to have large Receives for it.
REDUCED_CONNECTIONS = 2
# KiB of memory that may be more afterwards: noise of caches that are not given back whole.
GROWTH = 4096
# The longest that a call may take: each reconnect without a reply doubles the wait for the next.
PATIENCE = 240

# Four kinds of I/O, each by two processes on files of their own. With verify_backlog, what was just
# written is read back and checked all the time, so that reads and writes mix.
FIO = """
[global]
directory=/mnt
verify=crc32c
verify_fatal=1
verify_backlog=4
time_based=1
runtime={seconds}
randrepeat=1
randseed={seed}
fallocate=none
numjobs=2
rw=randwrite
[small-direct]
bs=4k
size=2m
direct=1
ioengine=libaio
iodepth=4
serialize_overlap=1
[large-direct]
bs=1m
size=24m
direct=1
ioengine=libaio
iodepth=4
serialize_overlap=1
[small-buffered]
bs=4k
size=2m
ioengine=psync
[large-buffered]
bs=1m
size=24m
ioengine=psync
"""


# More than a Receive takes, and less than four do.
REDUCED = """[middle-direct]
bs=48k
size=6m
direct=1
ioengine=libaio
iodepth=4
serialize_overlap=1
"""


class Result:
    """Of one run: `rows` to print, `good`, `bad` and `skipped` checks with a text each."""

    def __init__(self):
        self.rows, self.good, self.bad, self.skipped = [], [], [], []

    def check(self, condition, what, otherwise=""):
        (self.good if condition else self.bad).append(what if condition else f"{what}: {otherwise}")

    def row(self, name, value):
        self.rows.append((name, value))


def _io(pair, seconds, seed, reduced):
    """Starts fio; returns its Job. Page caches are emptied all the time, else the buffered half
    would check its own memory. @reduced: with what round-trip reduction is for."""
    # Attributes of all sizes; and a long one that is not in a cache when it is read.
    attributes = ("(while [ -e /tmp/fio.job ]; do fsops xattr /mnt/sizes && fsops value /mnt/long 50000 && drop_caches && "
                  "fsops value-is /mnt/long 50000 || exit 1; echo; done > /tmp/rounds) & attributes=$!\n"
                  if reduced else "attributes=\n")
    return pair.client.spawn(
        f"touch /mnt/long; cat > /tmp/fio.job <<'END'\n{FIO.format(seconds=seconds, seed=seed)}{REDUCED if reduced else ''}END\n"
        "rm -f /tmp/fio.json\n"
        "(while [ -e /tmp/fio.job ]; do echo 1 > /proc/sys/vm/drop_caches; sleep 1; done) &\n"
        + attributes +
        "tool fio --output-format=json --output=/tmp/fio.json /tmp/fio.job; status=$?\n"
        "rm /tmp/fio.job; [ ! $attributes ] || wait $attributes || { echo attributes failed; exit 1; }\n"
        "wait; exit $status", "fio")


def _reduced(pair):
    """What both ends of ours count of round-trip reduction."""
    stats = disturb.client_stats(pair)
    counted = disturb.server_counters(pair)
    return {"calls in several messages": stats["group_count"], "WRITEs in Sends": stats["sent_item_count"],
            "READs in Sends": stats["received_item_count"],
            "taken by the server": counted["v2_groups"] + counted["v2_sent_items"],
            "replies in several messages": stats["reply_group_count"], "reports": stats["repterr_count"]}


def _shake(pair, seconds, seed, scripts, period, reduced=False):
    """fio for @seconds, with drops all the while; its last calls end undisturbed."""
    job = _io(pair, seconds, seed, reduced)
    dropper = disturb.Dropper(scripts, period)
    try:
        end = time.monotonic() + seconds
        while job.running() and time.monotonic() < end:
            time.sleep(0.2)
            pair.client.must_live("fio")
    finally:
        dropper.stop()
    return job, job.wait(PATIENCE, check=False), dropper


def _settle(vm, before, result, what):
    """The RDMA objects of @vm must become those of @before; the last connections take a moment."""
    deadline = time.monotonic() + 30
    while True:
        after = disturb.objects(vm)
        if after == before or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    result.row(f"RDMA objects, {vm.name}", " ".join(f"{k} {before.get(k, 0)}->{after.get(k, 0)}"
                                                    for k in sorted({*before, *after})) or "none")
    result.check(after == before, what, f"{after}, before {before}")


def _clear(pair, version):
    """Nothing is mounted, nothing stored: where two measurements can be compared."""
    pair.client.run("rm -f /mnt/*", 120, "remove the files")
    pair.umount(timeout=120)
    pair.server.run("rm -rf /export/*", 60, "clear the export")


def run(pair, seconds, version="4.2", ends=("client", "server"), drop="", period=1.0, reduced=False):
    """The load over @pair, a Lab with tools that disturb.up() has brought up. Returns a Result. @reduced: both ends are
    ours with round-trip reduction, and there has to be some."""
    result = Result()
    vms = {"client": (pair.client, pair.xprt), "server": (pair.server, pair.server_xprt)}
    connections = REDUCED_CONNECTIONS if reduced else CONNECTIONS
    options = f"hard,nconnect={connections},rsize=1048576,wsize=1048576"

    scripts = [(vms[end][0], disturb.drop_script(vms[end][1], end, drop)) for end in ends]

    # Caches, pools and modules that stay are there after a first short run.
    pair.mount(version, options, timeout=120)
    _shake(pair, 4, 1, scripts, period)
    _clear(pair, version)
    time.sleep(5)
    objects = {name: disturb.objects(vm) for name, (vm, _) in vms.items()}
    memory = {name: disturb.memory(vm) for name, (vm, _) in vms.items()}

    pair.mount(version, options, timeout=120)
    connects = pair.xprt_stats()["connect_count"]
    lines = int(pair.client.run("grep -c 'xprt:.*rdma' /proc/self/mountstats", 10))
    result.check(lines == connections, f"{connections} connections", f"mountstats has {lines}")
    began = time.monotonic()
    before = _reduced(pair) if reduced else {}
    job, out, dropper = _shake(pair, seconds, 2, scripts, period, reduced)
    took = time.monotonic() - began

    text = pair.client.run("cat /tmp/fio.json", 20, "fio's report", check=False)
    report = json.loads(text[text.index("{"):]) if "{" in text else {"jobs": []}
    moved = sum(j[d]["io_bytes"] for j in report["jobs"] for d in ("read", "write"))
    wrong = [line for line in (out + text).splitlines()
             if re.search(r"verify|crc32c: |io_u error|error=", line) and not
             re.search(r'^\s*"', line)]
    kinds = {}
    for j in report["jobs"]:
        writes, reads = kinds.get(j["jobname"], (0, 0))
        kinds[j["jobname"]] = writes + j["write"]["total_ios"], reads + j["read"]["total_ios"]
    errors = [f"{j['jobname']}: error {j['error']}" for j in report["jobs"] if j["error"]]
    drops = sum(dropper.drops.values())
    stats = pair.xprt_stats()
    reconnects = stats["connect_count"] - connects
    ops = disturb.op_counts(pair.client)
    again = sum(sent - calls for calls, sent, _ in ops.values())

    result.row("seconds", f"{took:.0f}")
    result.row("GiB written and read back", f"{moved / 2**30:.2f}")
    for name, (writes, reads) in kinds.items():
        result.row(f"  {name}", f"{writes} writes, {reads} reads")
    result.row("drops", f"{drops} (" + ", ".join(f"{n} {name}" for name, n in dropper.drops.items()) +
               (f"; {dropper.missed} found nothing connected" if dropper.missed else "") + ")")
    result.row("reconnects", reconnects)
    result.row("calls sent again", again)
    result.row("verify errors", len(wrong))
    result.row("I/O errors", len(errors))
    result.check(job.status == 0 and not errors and not wrong,
                 "fio: every byte right, no error on a hard mount",
                 f"status {job.status}; {'; '.join((errors + wrong)[:4])}{job._tail()}")
    result.check(len(kinds) == FIO.count("\n[") - 1 + reduced and all(w and r for w, r in kinds.values()),
                 "each kind of I/O wrote and read back", f"{kinds}")
    result.check(drops >= seconds * 0.6 / period, "a connection dropped every second",
                 f"{drops} drops in {seconds} s")
    result.check(reconnects >= drops * 0.8, "connections came back", f"{reconnects} after {drops} drops")
    if reduced:
        found = {name: number - before[name] for name, number in _reduced(pair).items()}
        for name, number in found.items():
            result.row(name, number)
        result.row("rounds of attributes", pair.client.run("wc -l < /tmp/rounds", 10).strip())
        result.check(found["calls in several messages"] > 20 and found["WRITEs in Sends"] > 50 and
                     found["replies in several messages"] > 5, "round-trip reduction", f"hardly any: {found}")
        result.check(found["reports"] == 0, "no report of a bad transmission", f"{found}")
    result.check(stats["bad_reply"] == 0, "no bad reply", f"{stats['bad_reply']}")

    _clear(pair, version)
    for name, (vm, _) in vms.items():
        _settle(vm, objects[name], result, f"RDMA objects of the {name} as before")
        for again in range(6):
            if again:
                time.sleep(3)    # what RCU and work queues owe
            now = disturb.memory(vm)
            grown = {what: now[what] - kib for what, kib in memory[name].items()}
            if max(grown.values()) <= GROWTH:
                break
        for what, more in grown.items():
            result.row(f"{what}, {name}", f"{memory[name][what]} KiB, {more:+d} KiB")
            result.check(more <= GROWTH, f"{what} of the {name} as before", f"{more} KiB more")
        found = disturb.leaks(vm)
        if found is None:
            result.skipped.append(f"kmemleak of the {name}: this kernel has none")
        else:
            result.check(not found.strip(), f"no leak on the {name}", found[:2000])
        if vm.ok("test -e /proc/lockdep_stats"):
            result.check(vm.ok("grep -q 'debug_locks: *1' /proc/lockdep_stats"),
                         f"lockdep of the {name} at work to the end", "it had turned itself off")
    races = sum(vm.scanner.others_races for vm in pair.vms)
    if races:
        result.row("data races of others", f"{races} reports")
    # On its way out a module says what of its own is left: sink pages that are lent, calls, regions.
    pair.unload()
    pair.server.run("nfsd_stop", 60, "stop nfsd")
    pair.server.until(f"rmmod {pair.server_xprt}", 30, f"rmmod {pair.server_xprt}")
    complaints = pair.complaints()
    result.check(not complaints, "no kernel complaint", "; ".join(complaints[:4]))
    return result


def tell(result):
    """Prints a Result."""
    for name, value in result.rows:
        print(f"    {name:28} {value}")
    for mark, texts in (("ok", result.good), ("skipped", result.skipped), ("FAILED", result.bad)):
        for text in texts:
            print(f"  {mark:8} {text}")
