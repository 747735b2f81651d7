# SPDX-License-Identifier: GPL-2.0-only
"""A server and peers that are odd, broken or hostile: selftests/verbs, run in the client."""

import os
import re
import time

from vmlib import disturb, idle, image, lab, trace
from vmlib.testing import test

# What the in-tree server does otherwise than specified: these have to fail with it, so that the
# list stays true, and with no other.
IN_TREE_FAILS = {
    "header-under-16": "answers ERR_CHUNK to what has no header",
    "header-under-28": "answers ERR_CHUNK to what is too short to be believed",
    "header-optional": "takes any word but 0 for a 1",
    "header-nomsg-nothing": "drops it",
    "header-nomsg-no-call": "drops it",
    "header-payload": "drops it, or answers another xid",
    "header-reply": "answers ERR_CHUNK to replies with chunks that nobody waits for",
    "connect-no-private-data": "sends more than 1024 bytes",
    "connect-noise": "sends more than 1024 bytes",
    "chunk-read-bad-key": "loses the connection each time",
    "chunk-read-stale-key": "loses the connection each time",
    "chunk-read-past-end": "loses the connection each time",
    "chunk-read-bad-address": "loses the connection each time",
    "chunk-call-bad-key": "loses the connection each time",
    "chunk-write-bad-key": "loses the connection each time",
    "chunk-reply-bad-key": "loses the connection each time",
    "chunk-call-past-end": "loses the connection each time",
    "chunk-write-stale-key": "loses the connection each time",
    "chunk-write-reused-key": "loses the connection each time",
    "chunk-write-past-end": "loses the connection each time",
    "chunk-reply-stale-key": "loses the connection each time",
    "chunk-reply-past-end": "loses the connection each time",
    "backward-wrong": "has no use for the right answer behind wrong ones",
    "chunk-position": "loses the connection",
    "nfs-write-call-chunk": "forgets the Read chunk behind a Position Zero one",
    "nfs-write-odd-call-chunk": "takes what is behind the data for their pad: BADXDR, nothing is written",
    "nfs-write-pad-call-chunk": "the same, with the pad",
    "nfs-write-two-call-chunk": "loses the connection",
    "nfs-read-reply-chunk": "says that the Reply chunk is longer than it is, by what went to the Write chunk",
    "nfs-read-reply-chunk-one": "loses the connection",
    "nfs-read-nothing-first": "puts the second READ's data into the first one's chunk",
    "nfs-readlink-4": "places what nfsd announces, which is not the path",
    "nfs-read-empty-chunk": "answers ERR_CHUNK to an empty Write chunk",
}
# Of these, what it does as specified in 7.x.
IN_TREE_MENDED = ("chunk-position",)
# Not run with it: the kernel complains (the length of a call that has several Read chunks, or one
# beside inline bytes, is counted wrongly), or nfsd writes what was in its pages to the file.
IN_TREE_WARNS = ("header-msg-position-zero", "nfs-write-two", "nfs-write-two-odd", "nfs-write-short-chunk")
# What our server does otherwise than specified, likewise.
OURS_FAILS = {}
# What nfsd does, whatever the transport, where pages are larger than 4 KiB: nfsd_iter_read() puts the data of a READ behind
# another one into the page behind the one that the reply goes on in.
LARGE_PAGES_FAIL = ("nfs-read-two", "nfs-read-second-inline", "nfs-read-empty-chunk", "nfs-read-reply-chunk",
                    "rtr-read-several")
# Those that need a server's Receives with pages, which it has for pages of 4 KiB alone.
IN_PAGES = ("rtr-item-sent", "rtr-item-many", "rtr-item-wrong", "rtr-item-gone")
# Those of round-trip reduction, for which the server has it switched on.
GROUPS = "rtr-"
# These send no more than they were granted, so that they must find a Receive each time. Others send many
# messages that get no reply: where those find none it is not the server's fault, and by default their
# devices try again.
KEEP_TO_CREDITS = ("connect-", "chunk-", "nfs-")


def bring_up(t, **options):
    """A lab with the file that the conversations are about, its exports asked for once."""
    pair = t.lab(server_xprt=lab.server_under_test(), **options)
    pair.up()
    pair.client.run("modprobe -a rdma_ucm ib_uverbs")
    pair.server.run("> /export/verbs; chmod 666 /export/verbs")
    pair.mount("4.0")
    pair.client.run("cat /mnt/verbs", 20)
    return pair


# sunrpc counts the connections that have shown no filehandle yet; when it takes a new one and there are more than 64, it
# closes the oldest of them. One that ends while its first call is served is taken off that count twice
# (svc_xprt_set_valid() behind svc_delete_xprt()), and a count below zero is compared as a huge one: from then on each new
# connection may cost an idle one. Peers that leave amid their calls bring that about. This limit is never exceeded.
NO_LIMIT = "{ [ ! -e /proc/fs/nfsd/max_connections ] || echo 4294967295 > /proc/fs/nfsd/max_connections; }"


def endings():
    """The events that tell why our server, or sunrpc, ended a connection. They are rare, so that the messages themselves go
    the way that they go untraced."""
    with open(os.path.join(image.TOP, "compat", "port", "trace.h")) as f:
        text = f.read()
    ours = [name for kind in ("FAILURES", "LOSSES")
            for name in re.findall(r"\bX\((\w+),", re.search(rf"define RPCORDMA_{kind}\(X\)(.*?)\n\n", text, re.S)[1])]
    return [f"rpcordma/rpcordma_{name}" for name in ("connection", *ours)] + [
        f"sunrpc/svc_xprt_{name}" for name in ("accept", "close", "detach", "free")]


def judge(t, pair, names, expected):
    """Runs the conversations @names, of which those in @expected, and no others, have to fail. Returns what they say."""
    traced = trace.Trace(pair.server, endings()) if pair.server_xprt == "rpcordma" else None
    # With a trailing "=" a name is that of one test, not the beginning of many.
    out = pair.client.run("verbspeer 10.0.0.1 test " + " ".join(f"{n}=" for n in names), 400,
                          "conversations with the server", check=False)
    verdicts = {name: (word == "ok", line) for line, word, name in
                re.findall(r"^(((?:not )?ok) - ([a-z0-9-]+): .*)$", out, re.M)}
    missing = [name for name in names if name not in verdicts]
    t.check(not missing, f"no verdict on {', '.join(missing)}; the end was: {out[-300:]}")
    wrong = [line for name, (ok, line) in verdicts.items() if ok == (name in expected)]
    ended = ""
    if wrong and traced:
        traced.text()  # its log has it then
        ended = f"\n    how the server's connections ended is at the end of {pair.server.log_path}"
    t.check(not wrong, f"{len(wrong)} of {len(names)} not as expected of {pair.server_xprt}:" +
            "".join(f"\n    {line}" for line in wrong) + ended)
    return out


@test("hostile")
def hostile(t):
    """malformed headers, odd connections, NFS with unusual chunks, chunks that point nowhere"""
    pair = bring_up(t)
    pair.umount()
    pair.server.run(f"nfsd_stop && {NO_LIMIT} && nfsd_start 8", 60, "nfsd without a limit")
    names = [line.split()[0] for line in pair.client.run("verbspeer --list").splitlines()]
    large_pages = pair.server.page_size() > 4096
    of_nfsd = LARGE_PAGES_FAIL if large_pages else ()
    if pair.server_xprt == "rpcrdma":
        names = [name for name in names if not name.startswith(("version2-", GROUPS))]
        chosen = [name for name in names if name not in IN_TREE_WARNS]
        known = {*IN_TREE_FAILS, *of_nfsd} - {*(IN_TREE_MENDED if image.major_under_test() > 6 else ())}
        judge(t, pair, chosen, known)
        print(f"    rpcrdma: {len(chosen) - len(known)} conversations as specified, "
              f"{len(known)} not, as known; not tried, as its kernel complains: "
              f"{', '.join(IN_TREE_WARNS)}; nor those of version 2", flush=True)
        return
    names = os.environ.get("HOSTILE", "").split() or names
    if large_pages:
        names = [name for name in names if name not in IN_PAGES]
        print(f"    not tried, as Receives have no pages where the kernel's are larger than 4 KiB: {', '.join(IN_PAGES)}", flush=True)
    honest = [name for name in names if name.startswith(KEEP_TO_CREDITS)]
    if honest:
        judge(t, pair, honest, of_nfsd)
    # The default, and all new connections have it.
    pair.server.run("echo 7 > /sys/module/rpcordma/parameters/server_rnr_retry_count")
    groups = [name for name in names if name.startswith(GROUPS)]
    others = [name for name in names if name not in honest + groups]
    if others:
        judge(t, pair, others, ())
    if groups:
        pair.server.run("echo 7 > /sys/module/rpcordma/parameters/version2_rtr")
        judge(t, pair, groups, {*OURS_FAILS, *of_nfsd})
    known = [name for name in names if name in OURS_FAILS]
    print(f"    {len(names) - len(known)} conversations as specified" +
          "".join(f"; {name}, as known: {OURS_FAILS[name]}" for name in known), flush=True)


# nfsd has larger payloads since.
LARGE_SINCE = (6, 16)
LARGE = 4 * 1024 * 1024


@test("hostile-large")
def hostile_large(t):
    """READs and WRITEs of 4 MiB, where the kernel's nfsd has them; a client of Linux has 1 MiB at most"""
    release = image.Kernel("6.12").release
    if tuple(int(n) for n in release.split(".")[:2]) < LARGE_SINCE:
        t.skip(f"{release} has payloads of 1 MiB at most; VM_KERNEL=7.3 has larger ones")
    pair = bring_up(t)
    pair.umount()
    pair.server.run(f"nfsd_stop && echo {LARGE} > /proc/fs/nfsd/max_block_size && {NO_LIMIT} && nfsd_start 8", 60)
    out = judge(t, pair, ["nfs-large", "nfs-read", "nfs-write", "chunk-read-too-long"], ())
    t.check(f"{LARGE} bytes" in out, f"the server does not say that it takes {LARGE} bytes: {out}")
    pair.mount("4.2")
    pair.client.run("dd if=/dev/urandom of=/tmp/f bs=1M count=8 2>/dev/null; cp /tmp/f /mnt/f && drop_caches && "
                    "cmp /tmp/f /mnt/f", 120, "a mount beside")


# Longest that 256 KiB may take to be written, read and compared while a storm goes on.
PATIENCE = 20

# KiB that a connection may cost the server, its rings included, where it is granted 64 credits; 7.x grants 128.
MEMORY = {"rpcrdma": 4096, "rpcordma": 640 if image.major_under_test() < 7 else 1280}


def memory(vm):
    """{what: KiB} of a machine's memory."""
    text = vm.run("sync; echo 3 > /proc/sys/vm/drop_caches; cat /proc/meminfo", 20, "memory")
    return disturb.meminfo(text), idle.slabs(vm)


def storm(t, number, mix, hold, server_memory):
    # As above: many of these send more than they were granted.
    pair = bring_up(t, server_memory=server_memory, server_params="")
    if not disturb.keep_all(pair.server, number + 64) and number > disturb.LEAST_KEPT:
        t.skip(f"this kernel keeps {disturb.LEAST_KEPT} connections of peers that it does not know, of any transport")
    pair.client.run("dd if=/dev/urandom of=/tmp/f bs=64k count=4 2>/dev/null")
    # The longest round in hundredths of a second, as /proc/uptime counts them.
    load = pair.client.spawn("""
        while [ ! -e /tmp/enough ]; do
            read began rest < /proc/uptime
            cp /tmp/f /mnt/f && drop_caches && cmp /tmp/f /mnt/f || exit 1
            read ended rest < /proc/uptime
            echo $((${ended%.*}${ended#*.} - ${began%.*}${began#*.}))
            sleep 0.2
        done""", "a mount's own work beside the storm")
    time.sleep(3)
    began = time.monotonic()
    while not (calm := [int(line) for line in load.out.split()]):
        t.within(PATIENCE, began, "the mount's first round")
        time.sleep(0.5)
    resources = pair.rdma_resources(pair.server)
    before, slabs_before = memory(pair.server)

    job = pair.client.spawn(f"verbspeer 10.0.0.1 storm {number} {mix} {hold}", "storm")
    limit = 60 + number
    began = time.monotonic()
    while "connections asked for" not in job.out:
        t.check(job.running(), f"the storm ended early: {job.out}")
        t.within(limit, began, f"{number} connections")
        time.sleep(0.2)
    during, slabs = memory(pair.server)
    connected = pair.rdma_resources(pair.server)["qp"] - resources["qp"]
    out = job.wait(hold + 120 + number // 2, check=False)
    print("".join(f"    {line}\n" for line in out.splitlines()), end="", flush=True)
    wrong = [line for line in out.splitlines() if line.startswith("not ok")]
    if pair.server_xprt == "rpcrdma":
        # As header-under-16.
        wrong = [line for line in wrong if " storm-h: " not in line]
    t.check(not wrong and re.search(r"^ok - storm-", out, re.M), f"the storm: {wrong or out[-300:]}")

    pair.client.run("> /tmp/enough")
    load.wait(120)
    rounds = [int(line) for line in load.out.split()][len(calm):]
    t.check(rounds, "the mount did nothing during the storm")
    t.check(max(rounds) < PATIENCE * 100,
            f"256 KiB took the mount {max(rounds) / 100} s during the storm")
    t.check(connected > number // 4, f"only {connected} connections were there at once")
    # Slab and rings are exact; what is left counts whole pages, and is noisy for few connections.
    slab, rings = ((during[name] - before[name]) // connected for name in ("Slab", "VmallocUsed"))
    each = max(slab + rings, (before["MemAvailable"] - during["MemAvailable"]) // connected)
    top = sorted(((slabs[name] - slabs_before.get(name, 0), name) for name in slabs),
                 reverse=True)[:4]
    print(f"    mount: {len(rounds)} rounds, {max(calm) / 100} s at most before, "
          f"{max(rounds) / 100} s during; {connected} connections at once, each {each} KiB: slab "
          f"{slab}, vmalloc (rings) {rings}; most in " +
          ", ".join(f"{name} {kib // connected}" for kib, name in top), flush=True)
    t.check(each < MEMORY[pair.server_xprt],
            f"a connection costs the server {each} KiB, limit {MEMORY[pair.server_xprt]}")
    # All that the strangers cost is given back.
    began = time.monotonic()
    while pair.rdma_resources(pair.server)["qp"] != resources["qp"]:
        t.within(60, began, "the server's queue pairs to go")
        time.sleep(0.5)
    after, _ = memory(pair.server)
    kept = before["MemAvailable"] - after["MemAvailable"]
    t.check(kept < 0.1 * each * connected + 4096, f"{kept} KiB of {each * connected} did not come back")
    pair.umount()


@test("hostile-storm")
def hostile_storm(t):
    """48 hostile connections beside a mount: it keeps its service; memory is bounded, and given back"""
    storm(t, 48, "ghnc", 2, 1536)


@test("hostile-storm-1000", slow="takes minutes")
def hostile_storm_1000(t):
    """the same with 1,000 connections"""
    storm(t, 1000, "ghnc", 10, 5120)
