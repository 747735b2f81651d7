# SPDX-License-Identifier: GPL-2.0-only
"""Round-trip reduction between two ends of ours: long calls in several messages instead of an RDMA Read."""

import collections
import os
import re
import time

from vmlib import cost, disturb, lab, testing, trace
from vmlib.testing import test

OURS = disturb.OURS


def counters(pair):
    """What both ends count of it, and the server's RDMA Reads."""
    counted, stats = disturb.server_counters(pair), disturb.client_stats(pair)
    return {"sent": stats["group_count"], "short": stats["credits_short"],
            "reported": stats["repterr_count"], "taken": counted["v2_groups"],
            "replies": stats["reply_group_count"], "sent back": counted["v2_reply_groups"],
            "items": stats["sent_item_count"], "items taken": counted["v2_sent_items"],
            "lent": counted["lent_pages"], "Read chunks": stats["read_chunk_count"],
            "asked": stats["asked_item_count"], "items back": stats["received_item_count"],
            "Write chunks": stats["write_chunk_count"], "Writes": counted["write"],
            "dropped": counted["v2_groups_dropped"], "repterr": counted["v2_repterr"], "Reads": counted["read"]}


def on_the_wire(t, capture, at, counted):
    """What Wireshark reads in the first @at bytes of @capture: the groups that the server @counted, whole, and nothing that
    breaks a rule."""
    # Its folder is in the path when all tests are loaded.
    import dissect

    rest = capture.replace(".pcap", "-rest.pcap")
    dissect.split(capture, at, rest)
    groups, wrong = dissect.groups(capture)
    t.check(not wrong, f"Wireshark complains of {len(wrong)} messages: {wrong[:3]}")
    calls, replies = ([g for g in groups if g.source == source] for source in ("10.0.0.2", "10.0.0.1"))
    t.equal(len(replies), counted["sent back"], "replies in several messages that Wireshark sees whole")
    # Of calls with items most have several messages, the 24 longest do.
    t.check(counted["taken"] + 24 <= len(calls) <= counted["taken"] + counted["items taken"],
            f"{len(calls)} calls in several messages that Wireshark sees whole (all that was counted: {counted})")
    sizes = collections.Counter(g.count for g in groups)
    t.check({2, 3} <= set(sizes), f"transmissions of groups: {dict(sizes)}")
    t.check(any(g.length > 65536 for g in calls), f"calls of {sorted({g.length for g in calls})} bytes")
    print(f"    on the wire {len(calls)} calls and {len(replies)} replies, of {dict(sorted(sizes.items()))} transmissions",
          flush=True)
    for path in (capture, rest):
        os.unlink(path)


def during(pair, what, command):
    """What @command adds to these."""
    before = counters(pair)
    pair.client.run(command, 60, what)
    after = counters(pair)
    return {name: after[name] - before[name] for name in before}


def transmissions(traced, what):
    """The fields of each transmission that is "sent" or "received", in order."""
    return re.findall(rf": rpcordma_group: peer=\S+ {what} (.*)$", traced.text(), re.M)


def placed_writes(t, pair):
    """WRITEs of up to 64 KiB go in Sends, into pages that the server lends to nfsd: no Read chunk, so no region of memory, and
    no RDMA Read, so one round trip. Each file is compared at the server. Returns, of when no connection had been dropped yet,
    the bytes of the capture, and what was counted."""
    pair.client.run("echo 65536 > /sys/module/rpcordma/parameters/send_write_max", 10, "WRITEs in Sends")
    pair.mount("4.2")
    disturb.grow(pair)
    # Of whole pages, and of bytes that leave the last page, and a word, unfinished.
    for size, count in ((65536, 8), (20480, 8), (40001, 8)):
        pair.client.run(f"dd if=/dev/urandom of=/tmp/file bs={size} count={count} 2>/dev/null", 20, "a file")
        seen = during(pair, f"WRITEs of {size} bytes",
                      f"dd if=/tmp/file of=/mnt/placed bs={size} count={count} oflag=direct 2>/dev/null")
        for name, wanted in (("items", count), ("items taken", count), ("lent", count * -(-size // 4096)),
                             ("Read chunks", 0), ("Reads", 0)):
            t.equal(seen[name], wanted, f"{name}, of WRITEs of {size} bytes (all: {seen})")
        ends = [vm.run(f"md5sum < {path}", 20, "what the file is") for vm, path in
                ((pair.client, "/tmp/file"), (pair.server, "/export/placed"))]
        t.equal(ends[1].split()[0], ends[0].split()[0], f"the file, at the server and at the client, of {size} bytes each")
        pair.client.run("rm /mnt/placed", 10)
    # One byte more than that is read by RDMA, as ever.
    seen = during(pair, "a WRITE of 65537 bytes",
                  "dd if=/dev/zero of=/mnt/placed bs=65537 count=1 oflag=direct 2>/dev/null")
    t.equal(seen["items"], 0, f"items of 65537 bytes (all: {seen})")
    t.check(seen["Reads"] > 0, f"no RDMA Read for 65537 bytes (all: {seen})")
    pair.client.run("mkdir /mnt/p && fsops copy /src/d08 /mnt/p/d08 2 && drop_caches && "
                    "fsops compare /src/d08 /mnt/p/d08", 90, "files, there and back, with WRITEs in Sends")
    # Nothing is under way, so that no message is cut.
    at, counted = os.path.getsize(pair.client.capture), counters(pair)
    # A connection that is dropped amid WRITEs.
    pair.client.run("dd if=/dev/urandom of=/tmp/file bs=65536 count=40 2>/dev/null", 20, "a file")
    pair.client.run(f"(sleep 0.3; echo 1 > {OURS}/disconnect) & "
                    "dd if=/tmp/file of=/mnt/dropped bs=65536 count=40 oflag=direct 2>/dev/null; wait; "
                    "drop_caches; cmp /tmp/file /mnt/dropped", 90, "WRITEs while the connection is dropped")
    last = counters(pair)
    for name in ("reported", "repterr"):
        t.equal(last[name], 0, f"{name} (all: {last})")
    pair.umount()
    return at, counted


def placed_reads(t, pair):
    """READs of up to 64 KiB whose data come in Sends, into pages of the client's: no Write chunk, so no region of memory, and
    no RDMA Write. Each file is compared with the server's."""
    pair.client.run("echo 65536 > /sys/module/rpcordma/parameters/send_read_max", 10, "READs in Sends")
    pair.mount("4.2")
    disturb.grow(pair)
    # Of whole pages; what is one page too long for a message; odd ones.
    for size, count in ((65536, 8), (20480, 8), (40001, 8)):
        pair.server.run(f"dd if=/dev/urandom of=/export/placed bs={size} count={count} 2>/dev/null", 20, "a file")
        seen = during(pair, f"READs of {size} bytes",
                      f"dd if=/mnt/placed of=/tmp/file bs={size} count={count} iflag=direct 2>/dev/null")
        for name, wanted in (("asked", count), ("items back", count), ("Write chunks", 0), ("Writes", 0)):
            t.equal(seen[name], wanted, f"{name}, of READs of {size} bytes (all: {seen})")
        ends = [vm.run(f"md5sum < {path}", 20, "what the file is") for vm, path in
                ((pair.client, "/tmp/file"), (pair.server, "/export/placed"))]
        t.equal(ends[0].split()[0], ends[1].split()[0], f"the file, at the client and at the server, of {size} bytes each")
    # One byte more is written by RDMA, as ever; and the end of a file is inline.
    seen = during(pair, "a READ of 65537 bytes", "dd if=/mnt/placed of=/dev/null bs=65537 count=1 iflag=direct 2>/dev/null")
    t.equal(seen["asked"], 0, f"READs of 65537 bytes that ask for Sends (all: {seen})")
    t.check(seen["Writes"] > 0, f"no RDMA Write for 65537 bytes (all: {seen})")
    seen = during(pair, "a READ of what is short",
                  "dd if=/mnt/f of=/dev/null bs=65536 count=1 iflag=direct 2>/dev/null")
    t.equal((seen["asked"], seen["items back"], seen["Writes"]), (1, 0, 0), f"a short file (all: {seen})")
    pair.client.run("mkdir /mnt/q && fsops copy /src/d08 /mnt/q/d08 2 && drop_caches && "
                    "fsops compare /src/d08 /mnt/q/d08", 90, "files, there and back, with READs in Sends")
    pair.server.run("dd if=/dev/urandom of=/export/dropped bs=65536 count=40 2>/dev/null", 20, "a file")
    pair.client.run(f"(sleep 0.3; echo 1 > {OURS}/disconnect) & "
                    "dd if=/mnt/dropped of=/tmp/file bs=65536 count=40 iflag=direct 2>/dev/null; wait", 90,
                    "READs while the connection is dropped")
    ends = [vm.run(f"md5sum < {path}", 20, "what the file is") for vm, path in
            ((pair.client, "/tmp/file"), (pair.server, "/export/dropped"))]
    t.equal(ends[0].split()[0], ends[1].split()[0], "the file that was read while the connection was dropped")
    last = counters(pair)
    for name in ("reported", "repterr"):
        t.equal(last[name], 0, f"{name} (all: {last})")
    pair.umount()


@test("rtrext")
def rtrext(t):
    """both ends with version2_rtr=7: a mount, a long call of 20,000 bytes in three messages, without an RDMA Read; verified files"""
    t.only_rpcordma("about two ends of ours")
    # One page behind the head: 8 KiB a message, so that 20,000 bytes are three.
    switch = "version2=1 version2_rtr=7 version2_pages=1"
    pair = t.lab(server_xprt="rpcordma", server_params=f"{lab.STRICT} {switch}", capture=True)
    pair.up(params=switch)
    pair.client.run("fsops gen /src 1", 60, "make the files")
    pair.mount("4.2")
    disturb.grow(pair)
    pair.client.run("echo text > /mnt/f && sync /mnt/f", 20, "a file")
    traced = [trace.Trace(vm, ["rpcordma/rpcordma_group"]) for vm in (pair.client, pair.server)]
    seen = during(pair, "an attribute of 20,000 bytes", "fsops value /mnt/f 20000")
    for one in traced:
        one.stop()
    sent, received, whole = (transmissions(traced[end], what) for end, what in ((0, "sent"), (1, "received"), (1, "whole")))
    t.equal(received, sent, "transmissions at the server, and at the client")
    later = [fields for fields in sent if "option=3" in fields]
    t.equal(whole, later[-1:], f"what a call is whole with, of {sent}")
    lengths = [int(re.search(r"stream_length=(\d+)", fields)[1]) for fields in sent if fields[:14] == later[-1][:14]]
    t.check(len(lengths) == 3 and sum(lengths) > 20000, f"not three messages with 20,000 bytes: {sent}")
    t.equal(seen["sent"], 1, f"calls of several messages, at the client (all: {seen})")
    t.equal(seen["taken"], 1, f"calls of several messages, at the server (all: {seen})")
    t.equal(seen["Reads"], 0, f"RDMA Reads (all: {seen})")
    pair.server.run("fsops value-is /export/f 20000", 10, "the attribute, at the server")
    # Beyond four messages a chunk carries it, as ever.
    seen = during(pair, "an attribute of 60,000 bytes", "fsops value /mnt/f 60000")
    t.equal(seen["sent"], 0, f"calls of several messages, of 60,000 bytes (all: {seen})")
    t.check(seen["Reads"] > 0, f"no RDMA Read for 60,000 bytes (all: {seen})")
    pair.client.run("mkdir /mnt/d && fsops copy /src/d08 /mnt/d/d08 2 && drop_caches && "
                    "fsops compare /src/d08 /mnt/d/d08 && fsops names /mnt/names", 90, "files, there and back")
    pair.client.run("fsops xattr /mnt/attributes", 60, "attributes of all sizes")
    # Dropped connections come back, and groups go on.
    pair.client.run(f"echo 1 > {OURS}/disconnect", 10, "drop the connection")
    seen = during(pair, "an attribute after a reconnect", "fsops value /mnt/f 12000")
    last = counters(pair)
    t.check(seen["sent"] in (0, 1) and last["sent"] >= 2, f"calls of several messages in the end: {last}")
    t.equal(last["sent"], last["taken"], f"calls of several messages, at both ends (all: {last})")
    for name in ("reported", "dropped", "repterr"):
        t.equal(last[name], 0, f"{name} (all: {last})")
    pair.umount()
    # With four pages the longest attribute and a part of a directory fit four messages: no Reply chunk, no RDMA Write.
    for vm in (pair.client, pair.server):
        vm.run("echo 4 > /sys/module/rpcordma/parameters/version2_pages", 10, "messages of 20 KiB")
    pair.mount("4.2")
    disturb.grow(pair)
    before = counters(pair)
    pair.client.run("fsops dirmake /mnt/many 1500 && fsops value /mnt/f 50000", 90, "what has long replies")
    pair.client.run("drop_caches && fsops dirlist /mnt/many 1500 && fsops value-is /mnt/f 50000", 90, "long replies")
    after = counters(pair)
    t.check(after["replies"] - before["replies"] >= 2, f"hardly any replies of several messages: {before}, {after}")
    t.equal(after["replies"], after["sent back"], f"replies of several messages, at both ends (all: {after})")
    for name in ("reported", "dropped", "repterr"):
        t.equal(after[name], 0, f"{name} (all: {after})")
    pair.umount()
    at, counted = placed_writes(t, pair)
    placed_reads(t, pair)
    pair.unload()
    # The capture is whole once the machine has ended.
    pcap = pair.client.capture
    pair.stop()
    on_the_wire(t, pcap, at, counted)


# Of each call, with all of it on: the client's work requests, its completions of Receives and of Sends; the server's work
# requests and its Receives. No call has an RDMA Read, which would be a round trip more, nor a region.
ROWS = {
    "READ 4 KiB": (1, 1, 0, 1, 1),
    "READ 16 KiB": (1, 1, 0, 1, 1),
    "WRITE 4 KiB": (1, 1, 0, 1, 1),
    # It fits one message, and is copied into that: nobody has to hear of the Send's end.
    "WRITE 16 KiB": (1, 1, 0, 1, 1),
    # Of 80 KiB at 20 each. The Sends read the caller's pages, so that the last one is signaled.
    "WRITE 64 KiB": (4, 1, 1, 1, 4),
    # The call fits one message, and its reply is as long as four can be. With fewer entries there are fewer, down to one.
    "READDIR 64 KiB": (1, 4, 0, 4, 1),
    # A Receive that has grown takes 20,480 bytes: one message, which is copied.
    "long call": (1, 1, 0, 1, 1),
}
CALLS = 16
COMMANDS = {"READDIR 64 KiB": "list /mnt/dir COUNT", "long call": "setxattr /mnt/file COUNT 20000"}
# An NFSv4.2 READDIR has 84 bytes for each, on average.
NAMES = 750


@test("rtrext-counts")
def rtrext_counts(t):
    """what calls cost both ends with all of it on: one round trip, work requests, no registration, completions"""
    t.only_rpcordma("about two ends of ours")
    switch = "version2=1 version2_rtr=7"
    pair = t.lab(server_xprt="rpcordma", server_params=f"{lab.STRICT} {switch}")
    # A lease that is renewed in between would count.
    disturb.up(pair, lease=300, params=f"{switch} send_write_max=65536 send_read_max=65536")
    for vm in (pair.client, pair.server):
        cost.watch(vm)
    pair.server.run(f"dd if=/dev/urandom of=/export/file bs=64k count={CALLS + 1} 2>/dev/null; chmod 666 /export/file; "
                    f"fsops dirmake /export/dir {NAMES}", 30, "a file, and a directory")
    pair.mount("4.2", "rsize=65536,wsize=65536,actimeo=600,nordirplus")
    disturb.grow(pair)
    for what, (client_wrs, received, signaled, server_wrs, server_received) in ROWS.items():
        name, *size = what.lower().split()
        command = COMMANDS.get(what) or f"{name} /mnt/file COUNT {int(size[0]) * 1024} 0 0"

        def work(count):
            pair.client.run(f"repeat {command.replace('COUNT', str(count))}", 60, f"{count} times {what}")

        one = cost.per_call(pair, lambda: work(1), lambda: work(1 + CALLS), CALLS)[0]
        client, server = one["client"], one["server"]
        for end, which, counter, wanted in (
                ("client", "work requests", "send_wrs", client_wrs), ("client", "posts", "send_posts", 1),
                ("client", "regions registered", "wr_reg_mr", 0), ("client", "regions invalidated", "wr_local_inv", 0),
                ("client", "Receives", "wc_recv", received), ("server", "work requests", "send_wrs", server_wrs),
                ("server", "posts", "send_posts", 1), ("server", "round trips beyond the first", "wr_rdma_read", 0),
                ("server", "RDMA Writes", "wr_rdma_write", 0), ("server", "Receives", "wc_recv", server_received),
                ("server", "signaled Sends", "wc_send", 1)):
            t.equal(one[end][counter], wanted, f"{what}: the {end}'s {which} (all: {one})")
        # A Send is signaled now and then, in one of two pieces of work or in the other.
        t.check(abs(client["wc_send"] - signaled) <= 0.2, f"{what}: the client's signaled Sends (all: {one})")
        for end in (client, server):
            t.equal(end["completions"], end["wc_recv"] + end["wc_send"], f"{what}: completions (all: {one})")
        print(f"    {what}: 1 round trip; client {client['send_wrs']:g} work requests, {client['wr_reg_mr']:g} regions, "
              f"{client['completions']:g} completions; server {server['send_wrs']:g} and {server['completions']:g}",
              flush=True)
    t.equal(pair.xprt_stats()["connect_count"], 1, "connections, with nothing to disturb one")
    pair.umount()
    pair.unload()


# As many messages as the replies of all listings have Receives for, and each writer's.
LISTINGS, WRITERS = 4, 2
HELD = LISTINGS + 4 * WRITERS
ENTRIES = 1500
# Shell: $1 processes that list a long directory, each its own, as a client asks for the same entries once; and $2 that write 64 KiB
# at a time, past the cache; until they are killed. Their numbers are in $all. They look names up before they begin, and not again.
WORKERS = f"""
outstanding() {{ sed -n 's/^outstanding: //p' {OURS}/stats; }}
workers() {{
    all=
    for n in $(seq $1); do repeat list /mnt/many$n 100000 > /dev/null 2>&1 & all="$all $!"; done
    for n in $(seq $2); do repeat timed 1 1 write /mnt/w$n 100000 65536 0 0 > /dev/null 2>&1 & all="$all $!"; done
}}"""


def server_is_free(pair):
    """Whether the server has none of the client's calls, and a Receive for each that it grants."""
    found = re.findall(r" credits=(\d+) calls=(\d+) .* receives=(\d+) ",
                       pair.server.run(f"cat {OURS}/server/connections", 10))
    return bool(found) and all(calls == "0" and int(receives) >= int(credits) for credits, calls, receives in found)


def held(t, pair):
    """Calls are killed whose messages are on their way to a server that does not move: listings with their processes, WRITEs by
    umount -f, as nobody waits killably for one past its cache. Their credits, and the Receives for their replies, are free once
    the server has replied: each turn takes all of the Receives."""
    first, compared = disturb.client_stats(pair), 0
    for turn in range(4):
        before = disturb.client_stats(pair)
        job = pair.client.spawn(f"""{WORKERS}
            rm -f /tmp/still; workers {LISTINGS} {WRITERS}; usleep 500000; echo begun
            until [ -e /tmp/still ] && [ $(outstanding) -ge {HELD} ]; do usleep 20000; done
            kill -9 $all
            umount -f /mnt &
            usleep 100000; echo kept $(outstanding)
            wait 2>/dev/null
            until [ $(outstanding) = 0 ]; do usleep 50000; done
            echo free""", f"turn {turn} of killed calls")
        testing.until(t, 20, "calls to be made", lambda: "begun" in job.out)
        pair.server.pause()
        try:
            pair.client.run("> /tmp/still", 20)
            testing.until(t, 20, f"calls of {HELD} messages to be killed", lambda: "kept" in job.out)
        finally:
            pair.server.resume()
        kept = int(re.search(r"^kept (\d+)$", job.out, re.M)[1])
        t.check(kept >= HELD, f"turn {turn}: {kept} credits are taken by calls that were given up, expected {HELD}")
        # Else they went by chunks, whose late RDMA Writes cost the connection. A new one begins with none, for a moment.
        now = disturb.client_stats(pair)
        if now["connects"] == before["connects"]:
            compared += 1
            t.equal(now["reserve_short"] - before["reserve_short"], 0, f"turn {turn}: calls without Receives for their replies")
        testing.until(t, 30, f"turn {turn}: all credits to be back", lambda: "free" in job.out)
        job.wait(20)
    testing.until(t, 10, "the server to be done with all calls, and to have Receives for as many", lambda: server_is_free(pair))
    after = disturb.client_stats(pair)
    for name in ("repterr_count", "bad_reply_count"):
        t.equal(after[name] - first[name], 0, f"{name}, while calls were killed (all: {after})")
    # What a turn keeps is missed by the next one over the same connection.
    t.check(compared >= 2, f"only {compared} turns kept their connection")
    print(f"    calls of {HELD} messages killed four times, over {1 + after['connects'] - first['connects']} connections",
          flush=True)


def at_random(t, pair):
    """The same at any moment, while the connection is dropped, and while nfsd stops and starts."""
    job = pair.client.spawn(f"""{WORKERS}
        for i in $(seq 16); do
            # A reply: without one a client waits longer each time before it connects again.
            stat -f /mnt > /dev/null
            workers 2 2
            usleep $((i * 130000 % 400000 + 20000))
            [ $((i % 3)) != 1 ] || echo 1 > {OURS}/disconnect
            kill -9 $all
            [ $((i % 3)) != 2 ] || umount -f /mnt
            wait
            echo $i
        done 2>/dev/null""", "rounds of killed calls")
    before = disturb.client_stats(pair)["connects"]
    began = time.monotonic()
    while len(job.out.split()) < 6:
        t.check(job.running(), f"the rounds ended early: {job.out}")
        t.within(60, began, "six rounds")
        time.sleep(0.1)
    pair.server.run("nfsd_stop; nfsd_start 8", 60, "nfsd stops and starts")
    job.wait(90)
    drops = disturb.client_stats(pair)["connects"] - before
    t.check(drops >= 4, f"hardly any connection was dropped: {drops}")
    print(f"    16 rounds of killed calls, {drops} connections dropped meanwhile", flush=True)


@test("rtrext-killed")
def rtrext_killed(t):
    """calls killed while their messages, or those of their replies, are under way: credits and Receives come back, data are right"""
    t.only_rpcordma("about two ends of ours")
    switch = "version2=1 version2_rtr=7"
    pair = t.lab(server_xprt="rpcordma", server_params=f"{lab.STRICT} {switch}")
    pair.up(params=f"{switch} send_write_max=65536 send_read_max=65536")
    idle = {vm.name: disturb.objects(vm) for vm in (pair.client, pair.server)}
    pair.server.run(f"for n in $(seq {LISTINGS}); do fsops dirmake /export/many$n {ENTRIES}; done", 30, "long directories")
    pair.client.run("dd if=/dev/urandom of=/tmp/file bs=65536 count=64 2>/dev/null", 20, "a file")
    options = "hard,nordirplus,actimeo=600,rsize=65536,wsize=65536"
    pair.mount("3", options)
    disturb.grow(pair)
    pair.client.run("cp /tmp/file /mnt/w1 && cp /tmp/file /mnt/w2", 30, "files")
    # Keeps the mount, so that umount -f kills its calls and nothing else.
    stay = pair.client.spawn("cd /mnt && exec sleep 100000", "a process that stays in the mount")
    before = counters(pair)
    held(t, pair)
    at_random(t, pair)
    pair.client.until(f"grep -q '^outstanding: 0' {OURS}/stats", 40, "all credits to be back")
    testing.until(t, 10, "the server to be done with all calls", lambda: server_is_free(pair))
    last = counters(pair)
    t.check(last["items"] > before["items"] and last["replies"] > before["replies"],
            f"no groups: {before}, {last}")
    for name in ("reported", "repterr", "dropped"):
        t.equal(last[name], 0, f"{name} (all: {last})")
    # A client whose connections were lost early speaks version 1 for a while: a mount of its own goes on as before, in Sends.
    stay.kill()
    stay.wait(10, check=False)
    pair.umount()
    pair.mount("3", options)
    disturb.grow(pair)
    seen = during(pair, "WRITEs afterwards", "dd if=/tmp/file of=/mnt/w1 bs=65536 oflag=direct conv=notrunc 2>/dev/null")
    t.equal((seen["items"], seen["items taken"], seen["Reads"]), (64, 64, 0), f"WRITEs in Sends (all: {seen})")
    seen = during(pair, "a listing afterwards", f"drop_caches && fsops dirlist /mnt/many1 {ENTRIES}")
    t.check(seen["replies"] >= 1, f"no reply in several messages (all: {seen})")
    ends = [vm.run(f"md5sum < {path}", 20, "what the file is") for vm, path in
            ((pair.client, "/tmp/file"), (pair.server, "/export/w1"), (pair.client, "/mnt/w1"))]
    t.equal(len(set(end.split()[0] for end in ends)), 1, f"what the file is, at both ends: {ends}")
    pair.umount()
    pair.unload()
    testing.until(t, 20, "RDMA objects to go", lambda: idle == {
        vm.name: disturb.objects(vm) for vm in (pair.client, pair.server)})
