# SPDX-License-Identifier: GPL-2.0-only
"""Version 2 between two ends of ours, and what all others notice of it: nothing."""

import os
import re

from vmlib import cost, disturb, image, lab, workload
from vmlib.testing import test, until

OURS = disturb.OURS


def both(t, client, server, **options):
    """Ours at both ends, with these values of the parameter."""
    pair = t.lab(server_xprt="rpcordma", server_params=f"{lab.STRICT} version2={server}", **options)
    pair.up(params=f"version2={client}")
    return pair


def spoken(pair):
    """The version that the client speaks, of the mount's transports."""
    found = disturb.client_versions(pair)
    if len(found) != 1:
        raise lab.LabError(f"the client's transports speak the versions {sorted(found)}")
    return found.pop()


def asked(pair):
    """Connections of version 2 that the server has counted."""
    return disturb.server_counters(pair)["v2_connections"]


def clean(t, pair):
    """No error went over the wire."""
    counted = {name: value for name, value in disturb.server_counters(pair).items()
               if re.fullmatch(r"(v2_)?err_\w+|dropped", name)}
    t.equal(len(counted), 9, f"the server's counters of errors: {sorted(counted)}")
    for name, value in counted.items():
        t.equal(value, 0, f"the server's {name}")
    t.equal(pair.xprt_stats()["bad_reply"], 0, "bad replies at the client")


@test("version2-default")
def version2_default(t):
    """as the module is loaded, without a word: version 2 between two ends of ours, version 1 where the client's limits are small"""
    t.only_rpcordma("about two ends of ours")
    pair = t.lab(server_xprt="rpcordma", server_params=lab.STRICT)
    pair.up()
    for vm in (pair.client, pair.server):
        t.equal(vm.run(f"cat {disturb.VERSION2}", 10).strip(), "1", f"version2, of the {vm.name}")
    # Pages larger than what version 2 speaks of by default are no part of Receives.
    pages = 4 if pair.client.page_size() == 4096 else 0
    for least, version, why in ((4096, 2, "answered"), (3072, 1, "off"), (4096, 2, "answered")):
        pair.client.run(f"echo {least} > /proc/sys/sunrpc/rdma_max_inline_read", 10, f"inline reads of {least}")
        pair.mount("4.2")
        pair.client.run("echo text > /mnt/text && drop_caches && grep text /mnt/text", 20, "I/O")
        stats = pair.client.run(f"cat {OURS}/stats", 10)
        for line in (f"version: {version}", f"version_why: {why}", "peer_receive_size: 4096",
                     f"receive_pages: {pages if version == 2 else 0}"):
            t.check(f"\n{line}\n" in stats, f"inline reads of {least}: no line '{line}' in {stats}")
        seen = pair.server.run(f"cat {OURS}/server/connections", 10)
        t.check(f" version={version} " in seen and " receive=4096 pages=0 " in seen and
                f" why={'CONNPROP' if version == 2 else 'unmarked'}\n" in seen + "\n",
                f"inline reads of {least}: the server's connections: {seen}")
        pair.umount()
    pair.unload()


@test("version2")
def version2(t):
    """both ends of ours: files both ways, in version 2, with NFSv3 and 4.2 (VM_SLOW=1: 4.0 and 4.1 too); and in version 1 again"""
    t.only_rpcordma("about two ends of ours")
    versions = ("3", "4.0", "4.1", "4.2") if os.environ.get("VM_SLOW") else ("3", "4.2")
    pair = both(t, 1, 1)
    pair.client.run("fsops gen /src 1", 60, "make the files")
    pair.server.run("fsops gen /src 1", 60, "make the files to compare with")
    for version in versions:
        before = asked(pair)
        pair.mount(version)
        t.equal(spoken(pair), 2, f"{version}: the version spoken")
        pair.client.run("mkdir /mnt/d && fsops copy /src/d08 /mnt/d/d08 2 && drop_caches && "
                        "fsops compare /src/d08 /mnt/d/d08 && fsops names /mnt/names", 90,
                        f"{version}: files, there and back")
        pair.client.run("dd if=/dev/urandom of=/tmp/file bs=1000003 count=5 2>/dev/null && "
                        "cp /tmp/file /mnt/file && drop_caches && cmp /tmp/file /mnt/file && "
                        "fsops direct /mnt 1", 90, f"{version}: large ones")
        stats = pair.xprt_stats()
        t.check(stats["read_chunks"] and stats["write_chunks"], f"{version}: no chunks: {stats}")
        # NFSv3 has a mount program beside it, over TCP.
        t.equal(stats["connect_count"], 1, f"{version}: connections")
        t.check(asked(pair) > before, f"{version}: the server counts no connection of version 2")
        clean(t, pair)
        pair.server.run("fsops compare /src/d08 /export/d/d08", 60, f"{version}: the server compares")
        if version != "4.2":
            pair.umount()
            pair.server.run("rm -rf /export/*", 30)
    # The server is switched back, as if it were replaced by another one; then on again.
    for value, want in ((0, 1), (1, 2)):
        pair.server.run(f"echo {value} > {disturb.VERSION2}", 10, f"version2={value} at the server")
        pair.client.run(f"echo 1 > {OURS}/disconnect", 10, "drop the connection")
        pair.client.run("cp /tmp/file /mnt/file2 && drop_caches && cmp /tmp/file /mnt/file2", 60,
                        f"a file, with version2={value} at the server")
        t.equal(spoken(pair), want, f"the version spoken, with version2={value} at the server")
    pair.umount()
    pair.unload()


def moved(t, pair, what, command):
    """What @command moved by RDMA, and registered for it: nothing, where all of it went with the messages."""
    def now():
        count, stats = disturb.server_counters(pair), pair.xprt_stats()
        return {"Reads": count["read"], "Writes": count["write"],
                "chunks": stats["read_chunks"] + stats["write_chunks"] + stats["reply_chunks"]}

    before = now()
    pair.client.run(command, 60, what)
    after = now()
    return {name: after[name] - before[name] for name in before}


@test("version2-inline")
def version2_inline(t):
    """4 and 16 KiB go with the messages, once the server's Receives have grown: no RDMA, no registration, every byte there"""
    t.only_rpcordma("about two ends of ours")
    pair = both(t, 1, 1)
    pair.mount("4.2")
    pair.client.run("dd if=/dev/urandom of=/tmp/file bs=16k count=8 2>/dev/null && cp /tmp/file /mnt/file", 30)
    small = "dd if=/tmp/file of=/mnt/file bs=16k count=8 oflag=direct conv=notrunc 2>/dev/null"
    t.check(moved(t, pair, "WRITEs before it grows", small)["Reads"] >= 8 or disturb.server_counters(pair)["grown"],
            "a WRITE of 16 KiB fits a Receive of 4 KiB")
    if not disturb.server_counters(pair)["grown"]:
        disturb.grow(pair)
    t.equal(disturb.server_counters(pair)["grown"], 1, "connections that have grown")
    for size in (4, 16):
        count = 128 // size
        write = f"dd if=/tmp/file of=/mnt/file bs={size}k count={count} oflag=direct conv=notrunc 2>/dev/null"
        read = f"drop_caches && dd if=/mnt/file of=/tmp/back bs={size}k count={count} iflag=direct 2>/dev/null"
        # New bytes, so that what was there before does not pass for them.
        pair.client.run("dd if=/dev/urandom of=/tmp/file bs=16k count=8 2>/dev/null", 10)
        t.equal(moved(t, pair, f"WRITEs of {size} KiB", write), {"Reads": 0, "Writes": 0, "chunks": 0},
                f"WRITEs of {size} KiB")
        t.equal(moved(t, pair, f"READs of {size} KiB", read), {"Reads": 0, "Writes": 0, "chunks": 0},
                f"READs of {size} KiB")
        pair.client.run("cmp /tmp/file /tmp/back", 10, f"compare, {size} KiB")
        pair.server.run("true", 10)
        text = pair.client.run("md5sum < /tmp/file", 10)
        t.equal(pair.server.run("md5sum < /export/file", 10), text, f"what the server has, {size} KiB")
    # Larger ones go as ever.
    t.check(moved(t, pair, "a WRITE of 64 KiB", "dd if=/tmp/file of=/mnt/file bs=64k count=1 oflag=direct "
                  "conv=notrunc 2>/dev/null")["Reads"] > 0, "a WRITE of 64 KiB takes no RDMA Read")
    clean(t, pair)
    pair.umount()
    pair.unload()


# Of each call, in version 1 and in version 2: the client's work requests, the regions that it registers, the server's
# work requests, its RDMA Reads (each is one round trip more), its posts; packets there and back. The client has one
# post, either end has one Receive, and nfsd turns to it once.
ALONE = (1, 0, 1, 0, 1)
ROWS = {
    "NULL": ((*ALONE, 2, 2), (*ALONE, 2, 2)),
    "GETATTR": ((*ALONE, 2, 2), (*ALONE, 2, 2)),
    "READ 4 KiB": ((2, 1, 2, 0, 1, 3, 3), (*ALONE, 2, 3)),
    "READ 16 KiB": ((2, 1, 2, 0, 1, 3, 6), (*ALONE, 2, 6)),
    "WRITE 4 KiB": ((2, 1, 2, 1, 2, 3, 3), (*ALONE, 3, 2)),
    "WRITE 16 KiB": ((2, 1, 2, 1, 2, 6, 3), (*ALONE, 6, 2)),
}
CALLS = 20
NULLS = 10
# NFSv3: each operation is one call.
MOUNT = "actimeo=600,nordirplus"


@test("version2-counts")
def version2_counts(t):
    """what small calls cost both ends in version 1 and in version 2: round trips, work requests, registrations, completions, packets"""
    t.only_rpcordma("about two ends of ours")
    pair = t.lab(server_xprt="rpcordma", server_params=lab.STRICT)
    # A lease that is renewed in between would count.
    disturb.up(pair, lease=300)
    for vm in (pair.client, pair.server):
        cost.watch(vm)
    pair.server.run("dd if=/dev/urandom of=/export/file bs=16k count=32 2>/dev/null; chmod 666 /export/file", 10)

    def each(what):
        if what == "NULL":
            return cost.per_null(pair, NULLS, MOUNT)[0]
        name, *size = what.split()
        command = f"repeat {name.lower()} /mnt/file COUNT {int(size[0]) * 1024} 0 0" if size else \
            "repeat stat /fresh/file COUNT"

        def work(count):
            pair.client.run(command.replace("COUNT", str(count)), 60, f"{count} times {what}")

        return cost.per_call(pair, lambda: work(1), lambda: work(1 + CALLS), CALLS)[0]

    for version in (1, 2):
        for vm in (pair.client, pair.server):
            vm.run(f"echo {version - 1} > {disturb.VERSION2}", 10, "choose the version")
        pair.mount("3", MOUNT)
        pair.mount("3", "actimeo=0,nosharecache", where="/fresh")
        t.equal(spoken(pair), version, "the version spoken")
        if version == 2:
            disturb.grow(pair)
        for what, rows in ROWS.items():
            client_wrs, regions, server_wrs, reads, server_posts, packets_out, packets_in = rows[version - 1]
            one = each(what)
            client, server = one["client"], one["server"]
            where = f"version {version}, {what}"
            t.equal(client["send_wrs"], client_wrs, f"{where}: the client's work requests (all: {one})")
            t.equal(client["wr_reg_mr"], regions, f"{where}: regions registered (all: {one})")
            t.equal(client["wr_local_inv"], 0, f"{where}: regions invalidated by the client (all: {one})")
            t.equal(server["send_wrs"], server_wrs, f"{where}: the server's work requests (all: {one})")
            t.equal(server["wr_rdma_read"], reads, f"{where}: round trips beyond the first (all: {one})")
            for end, role, posts in ((client, "client", 1), (server, "server", server_posts)):
                t.equal(end["wc_recv"], 1, f"{where}: the {role}'s Receives (all: {one})")
                t.equal(end["send_posts"], posts, f"{where}: the {role}'s posts (all: {one})")
            # A Send is signaled now and then; the server's are, and so is what fetches a call's data.
            t.check(client["completions"] <= 1.2, f"{where}: the client's completions (all: {one})")
            t.check(abs(server["completions"] - 2 - reads) <= 0.1, f"{where}: the server's completions (all: {one})")
            t.check(0.9 <= server["dequeues"] <= 1.1, f"{where}: turns of nfsd (all: {one})")
            # A thread that has not gone to sleep yet need not be woken; rxe sends again now and then on a busy host.
            # Threads of 7.x that have nothing to do wake every 5 s by themselves.
            if image.major_under_test() < 7:
                t.check(server["nfsd_wakeups"] <= 1.2, f"{where}: wake-ups of nfsd (all: {one})")
            for name, packets in (("rxe_sent_pkts", packets_out), ("rxe_rcvd_pkts", packets_in)):
                t.check(abs(client[name] - packets) <= 0.25, f"{where}: the client's {name} are not {packets} (all: {one})")
            print(f"    version {version}, {what}: {1 + reads} round trips, {client['send_wrs']:g} and "
                  f"{server['send_wrs']:g} work requests, {client['wr_reg_mr']:g} regions, {client['completions']:g} and "
                  f"{server['completions']:g} completions, {client['rxe_sent_pkts']:g} packets there, "
                  f"{client['rxe_rcvd_pkts']:g} back, {server['nfsd_wakeups']:g} wake-ups", flush=True)
        t.equal(pair.xprt_stats()["connect_count"], 1, "connections, with nothing to disturb one")
        pair.umount("/fresh")
        pair.umount()
    pair.unload()


@test("version2-drops")
def version2_drops(t):
    """verified I/O in version 2 while each end drops connections"""
    t.only_rpcordma("about two ends of ours")
    pair = both(t, 1, 1)
    pair.mount("4.2", "timeo=20")
    work = workload.Work(pair.client)
    work.goes_on(t, "before anything is dropped")
    dropper = disturb.Dropper([(pair.client, disturb.drop_script("rpcordma", "client")),
                               (pair.server, disturb.drop_script("rpcordma", "server"))], 2.0)
    for turn in range(3):
        before = sum(dropper.drops.values())
        work.goes_on(t, f"while connections are dropped, {turn}")
        # A fast machine is done before the next is due.
        until(t, 60, f"a connection to be dropped, {turn}",
              lambda: dropper.error or sum(dropper.drops.values()) > before)
    dropper.stop()
    work.goes_on(t, "afterwards")
    work.end()
    t.check(sum(dropper.drops.values()) >= 3, f"hardly anything was dropped: {dropper.drops}")
    until(t, 30, "version 2 to be spoken in the end", lambda: spoken(pair) in (1, 2))
    t.check(asked(pair) >= 2, "one connection of version 2 at most")
    pair.umount()
    pair.unload()


@test("version2-others")
def version2_others(t):
    """the in-tree transport at either end notices nothing: one connection, version 1"""
    t.only_rpcordma("about ours with the in-tree transport")
    pair = t.lab(server_xprt="rpcrdma", server_params="")
    pair.up(params="version2=1")
    for value in (1, 2):
        if value != 1:
            pair.client_transport(f"version2={value}")
        pair.mount("4.2")
        pair.client.run("dd if=/dev/urandom of=/tmp/file bs=1000003 count=2 2>/dev/null && "
                        "cp /tmp/file /mnt/file && drop_caches && cmp /tmp/file /mnt/file", 60,
                        "a file, there and back")
        t.equal(spoken(pair), 1, f"the version spoken, version2={value} at the client")
        stats = pair.xprt_stats()
        t.equal(stats["connect_count"], 1, "connections")
        t.equal(stats["bad_reply"], 0, "bad replies")
        pair.umount()
        pair.unload()
    pair = t.lab(xprt="rpcrdma", server_xprt="rpcordma", server_params=f"{lab.STRICT} version2=2")
    pair.up()
    pair.mount("4.2")
    pair.client.run("dd if=/dev/urandom of=/tmp/file bs=1000003 count=2 2>/dev/null && "
                    "cp /tmp/file /mnt/file && drop_caches && cmp /tmp/file /mnt/file", 60,
                    "a file, there and back, the in-tree client")
    t.equal(pair.xprt_stats()["connect_count"], 1, "connections of the in-tree client")
    t.equal(asked(pair), 0, "connections of version 2")
    pair.umount()
