# SPDX-License-Identifier: GPL-2.0-only
"""The wire: tshark, whose decoder is independent of ours, reads what was sent, and agrees with our trace
points on it."""

import collections
import os

import dissect
from vmlib import trace
from vmlib.testing import test

VERSIONS = ("3", "4.0", "4.1")
CLIENT, SERVER = "10.0.0.2", "10.0.0.1"
MSG, NOMSG, ERROR = 0, 1, 4


def work(pair):
    """Small calls, chunks of all kinds, odd lengths, a long directory, long names."""
    pair.client.run("dd if=/dev/urandom of=/tmp/file bs=300007 count=1 2>/dev/null")
    for version in VERSIONS:
        pair.mount(version)
        pair.client.run("cp /tmp/file /mnt/file && drop_caches && cmp /tmp/file /mnt/file && "
                        "dd if=/mnt/file of=/dev/null bs=65536 iflag=direct 2>/dev/null && "
                        "mkdir /mnt/dir && (cd /mnt/dir && for i in $(seq 150); do "
                        "> a-name-that-is-longer-than-most-so-that-a-reply-is-long-$i; done) && "
                        "drop_caches && [ $(ls -l /mnt/dir | wc -l) = 151 ] && "
                        "ln -s $(head -c 3000 /dev/zero | tr '\\0' x) /mnt/link && "
                        "drop_caches && readlink /mnt/link | wc -c && "
                        "rm -r /mnt/dir /mnt/link /mnt/file", 90, f"vers={version}: all kinds of calls")
        pair.umount()


def capture(t, xprt, traced):
    """(capture's path, the client's and the server's trace) of work() with @xprt at both ends."""
    pair = t.lab(xprt=xprt, server_xprt=xprt, capture=True)
    pair.up()
    traces = [trace.Trace(vm, ("rpcordma",), 20000) for vm in (pair.client, pair.server) if traced]
    work(pair)
    for one in traces:
        one.stop()
    events = [dissect.events(one.text()) for one in traces]
    pcap = pair.client.capture
    # The capture is whole once the machine has ended.
    pair.stop()
    return (pcap, *events)


def agree(t, what, got, expected):
    """@got and @expected are {xid: [...]}; says how many, and the first that differ."""
    t.check(expected, f"{what}: the trace has none")
    wrong = [xid for xid in sorted({*got, *expected})
             if sorted(got.get(xid, [])) != sorted(expected.get(xid, []))]
    t.check(not wrong, f"{what}: {len(wrong)} of {len(expected)} differ; xid 0x{(wrong or [0])[0]:08x}: on the "
            f"wire {got.get((wrong or [0])[0])}, in the trace {expected.get((wrong or [0])[0])}")
    return len(expected)


def by_xid(pairs):
    found = collections.defaultdict(list)
    for xid, value in pairs:
        found[xid].append(value)
    return found


@test("wire")
def wire_test(t):
    """every message decodes, and tshark reads in it what our trace points logged"""
    t.only_rpcordma("about our trace points")
    theirs, = capture(t, "rpcrdma", False)
    accepted = dissect.complaints(theirs)
    in_tree = dissect.messages(theirs)
    t.check(len(in_tree) > 1000, f"only {len(in_tree)} messages in the in-tree transport's capture")
    ours, client, server = capture(t, "rpcordma", True)
    messages = dissect.messages(ours)
    found = dissect.complaints(ours)
    # The same work, give or take a retransmission.
    new = {what: f"{n}, in-tree {accepted[what]}" for what, n in found.items()
           if n > 1.1 * accepted[what] + (2 if accepted[what] else 0)}
    t.check(not new, f"tshark complains more than of the in-tree transport's capture: {new}")
    t.check({m.version for m in messages} == {1}, f"versions {({m.version for m in messages})}")

    # Whatever the client sent: its forward calls are "marshal" events, with the credits asked for.
    forward = {e["xid"] for name, e in client if name == "marshal"}
    calls = [m for m in messages if m.source == CLIENT and m.xid in forward]
    count = {"calls": agree(t, "calls: (credits, type)",
                            by_xid((m.xid, (m.credits, m.proc)) for m in calls),
                            by_xid((e["xid"], (e["credits"], e["proc"])) for name, e in client
                                   if name == "marshal"))}
    # Each segment of a call is a region that was mapped for it.
    count["segments"] = agree(t, "segments: (R_key, length, offset)",
                              by_xid((m.xid, s) for m in calls for s in m.segments),
                              by_xid((e["xid"], (e["rkey"], e["length"], e["iova"])) for name, e in client
                                     if name == "region" and e["what"] == "map"))
    # What the client received: replies, and the server's calls.
    received = [m for m in messages if m.source == SERVER]
    count["received"] = agree(t, "received: (credits, type)",
                              by_xid((m.xid, (m.credits, m.proc)) for m in received),
                              by_xid((e["xid"], (e["credits"], e["proc"])) for name, e in client
                                     if name == "reply" and e["what"] in ("reply", "backward call")))
    # The server sent each of these in one post.
    count["posts"] = agree(t, "the server's posts",
                           by_xid((m.xid, 0) for m in received),
                           by_xid((e["xid"], e["result"]) for name, e in server
                                  if name == "post" and e["what"] == "reply"))
    kinds = collections.Counter(m.proc for m in messages)
    positions = {p for m in calls for p in m.positions}
    t.check(kinds[NOMSG], "no message went without an inline part")
    # None of these calls is too long for a message of 4 KiB but for what goes in a Read chunk (a long
    # ACL would be; odd-long-call has that).
    t.check(positions and 0 not in positions, f"Read chunks at positions {sorted(positions)}")
    t.check(set(kinds) <= {MSG, NOMSG}, f"message types {dict(kinds)}")
    print(f"    {len(messages)} messages of ours, {len(in_tree)} of the in-tree transport's; compared: " +
          ", ".join(f"{n} {what}" for what, n in count.items()) +
          f"; tshark's complaints, in both: {dict(accepted) or 'none'}", flush=True)
    for path in (theirs, ours):
        os.unlink(path)
