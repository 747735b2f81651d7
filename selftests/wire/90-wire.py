# SPDX-License-Identifier: GPL-2.0-only
"""The wire: tshark, whose decoders are independent of ours, reads what was sent, and agrees with our trace points
on it, in version 1 and in version 2."""

import collections
import os

import dissect
from vmlib import lab, trace
from vmlib.testing import test

VERSIONS = ("3", "4.0", "4.1")
# In version 2 of RPC-over-RDMA, as NFS knows nothing of it.
VERSIONS2 = ("4.1",)
PARAMETER = "/sys/module/rpcordma/parameters/version2"
CLIENT, SERVER = "10.0.0.2", "10.0.0.1"
MSG, NOMSG, ERROR, CONNPROP = 0, 1, 4, 6
# RFC 8797's message begins with the first; the second stands behind its 8 bytes.
MAGIC, MARK = bytes.fromhex("f6ab0e18"), bytes.fromhex("7232643301000000")


def work(pair, versions):
    """Small calls, chunks of all kinds, odd lengths, a long directory, long names."""
    pair.client.run("dd if=/dev/urandom of=/tmp/file bs=300007 count=1 2>/dev/null")
    for version in versions:
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


def traced(pair, versions):
    """What the client's and the server's trace points say of work()."""
    traces = [trace.Trace(vm, ("rpcordma",), 20000) for vm in (pair.client, pair.server)]
    work(pair, versions)
    for one in traces:
        one.stop()
    return [dissect.events(one.text()) for one in traces]


def capture_theirs(t):
    """The capture of work() with the in-tree transport at both ends."""
    pair = t.lab(xprt="rpcrdma", server_xprt="rpcrdma", capture=True)
    pair.up()
    work(pair, VERSIONS)
    pcap = pair.client.capture
    # The capture is whole once the machine has ended.
    pair.stop()
    return pcap


def capture_ours(t):
    """[(capture, the client's events, the server's)] of work() with ours: in version 1, in version 2."""
    pair = t.lab(xprt="rpcordma", server_xprt="rpcordma", capture=True, server_params=f"{lab.STRICT} version2=0")
    pair.up(params="version2=0")
    first = traced(pair, VERSIONS)
    pcap = pair.client.capture
    # Nothing is mounted, so that no message is cut.
    at = os.path.getsize(pcap)
    for vm in (pair.client, pair.server):
        vm.run(f"echo 1 > {PARAMETER}", 10, "version 2 on")
    second = traced(pair, VERSIONS2)
    pair.stop()
    rest = pcap.replace(".pcap", "-version2.pcap")
    dissect.split(pcap, at, rest)
    return [(pcap, *first), (rest, *second)]


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


def compare(t, messages, client, server):
    """What both versions have: @messages, and the two ends' events of them. Returns {what: how many}."""
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
    # What the client received: replies, and the server's calls; in version 2 what is about the connection, but for
    # the answer to the client's question, which is none of these.
    received = [m for m in messages if m.source == SERVER]
    count["received"] = agree(t, "received: (credits, type)",
                              by_xid((m.xid, (m.credits, m.proc)) for m in received if m.proc != CONNPROP),
                              by_xid((e["xid"], (e["credits"], e["proc"])) for name, e in client
                                     if name == "reply" and e["what"] in ("reply", "backward call", "control")))
    # The server sent each of these in one post.
    count["posts"] = agree(t, "the server's posts",
                           by_xid((m.xid, 0) for m in received),
                           by_xid((e["xid"], e["result"]) for name, e in server
                                  if name == "post" and e["what"] == "reply"))
    positions = {p for m in calls for p in m.positions}
    # None of these calls is too long for a message of 4 KiB but for what goes in a Read chunk (a long
    # ACL would be; odd-long-call has that).
    t.check(positions and 0 not in positions, f"Read chunks at positions {sorted(positions)}")
    t.check(any(m.proc == NOMSG for m in messages), "no message went without an inline part")
    return count


def compare2(t, messages, client, server):
    """What version 2 has besides, and what the server says of calls and replies. Returns {what: how many}."""
    wrong = [(hex(m.xid), m.more["malformed"], m.more["invalid"]) for m in messages
             if m.more["malformed"] or m.more["invalid"]]
    t.check(not wrong, f"version 2: {len(wrong)} messages break the rules: {wrong[:3]}")
    count = {}
    read = {e["xid"] for name, e in server if name == "decode"}
    calls = [m for m in messages if m.source == CLIENT and m.xid in read]
    count["calls"] = agree(t, "the server's calls: (credits, type, inline bytes, segments)",
                           by_xid((m.xid, (m.credits, m.proc, sum(m.more["payload_length"]), len(m.segments)))
                                  for m in calls),
                           by_xid((e["xid"], (e["credits"], e["proc"], e["inline"], e["read_segments"] +
                                              e["write_segments"] + e["reply_segments"]))
                                  for name, e in server if name == "decode"))
    count["replies"] = agree(t, "the server's replies: (credits, type, inline bytes, segments)",
                             by_xid((m.xid, (m.credits, m.proc, sum(m.more["payload_length"]), len(m.segments)))
                                    for m in messages if m.source == SERVER and m.xid in read),
                             by_xid((e["xid"], (e["credits"], e["proc"], e["inline"], e["segments"]))
                                    for name, e in server if name == "encode"))
    # The server may invalidate one of what it is offered.
    for m in calls:
        keys = {handle for handle, _, _ in m.segments}
        t.check(m.more["inv_handle"][0] in (keys or {0}),
                f"xid 0x{m.xid:08x}: R_key {m.more['inv_handle']} may be invalidated, of {keys}")
    # What each end said of itself, and what the other one took.
    said = [(m.source, dissect.properties(m)) for m in messages if dissect.properties(m)]
    for source, sender, taker in ((CLIENT, client, server), (SERVER, server, client)):
        wire = by_xid((p["xid"], tuple(p.items())) for who, p in said if who == source)
        for end, what in ((sender, "sent"), (taker, "applied")):
            logged = [{key: e[key] for key in said[0][1]} for name, e in end
                      if name == "property" and e["what"] == what]
            count["properties"] = count.get("properties", 0) + agree(
                t, f"properties that {source} sent: {what}", wire, by_xid((p["xid"], tuple(p.items())) for p in logged))
    for end, events, why in (("client", client, "client: answered"), ("server", server, "server: CONNPROP")):
        t.equal({(e["what"], e["version"]) for name, e in events if name == "version"}, {(why, 2)},
                f"{end}: how it came to version 2")
    return count


def marks(t, what, capture, marked):
    """Each request and each answer of the connections in @capture has RFC 8797's message; and the mark, or zeros."""
    for who, found in dissect.private_data(capture).items():
        t.check(found, f"{what}: tshark sees no {who}")
        for said in found:
            t.equal((said[:4].hex(), said[8:16].hex(), said[16:].strip(b"\0").hex()),
                    (MAGIC.hex(), (MARK if marked else bytes(8)).hex(), ""), f"{what}: private data of the {who}")


@test("wire")
def wire_test(t):
    """every message of versions 1 and 2 decodes, and tshark reads in it what our trace points logged"""
    t.only_rpcordma("about our trace points")
    theirs = capture_theirs(t)
    accepted = dissect.complaints(theirs)
    in_tree = dissect.messages(theirs)
    t.check(len(in_tree) > 1000, f"only {len(in_tree)} messages in the in-tree transport's capture")
    (ours, *events), (ours2, *events2) = capture_ours(t)
    marks(t, "in-tree", theirs, False)
    marks(t, "ours, version 1", ours, False)
    marks(t, "ours, version 2", ours2, True)
    messages = dissect.messages(ours)
    found = dissect.complaints(ours)
    # The same work, give or take a retransmission.
    new = {what: f"{n}, in-tree {accepted[what]}" for what, n in found.items()
           if n > 1.1 * accepted[what] + (2 if accepted[what] else 0)}
    t.check(not new, f"tshark complains more than of the in-tree transport's capture: {new}")
    t.check({m.version for m in messages} == {1}, f"versions {({m.version for m in messages})}")
    count = compare(t, messages, *events)
    kinds = collections.Counter(m.proc for m in messages)
    t.check(set(kinds) <= {MSG, NOMSG}, f"message types {dict(kinds)}")

    messages2 = dissect.messages(ours2, dissect.V2)
    t.check(len(messages2) > 300, f"only {len(messages2)} messages of version 2")
    t.check({m.version for m in messages2} == {2}, f"versions {({m.version for m in messages2})}")
    count2 = compare(t, messages2, *events2)
    more = compare2(t, messages2, *events2)
    kinds = collections.Counter(m.proc for m in messages2)
    t.check(ERROR not in kinds, f"message types {dict(kinds)}")
    print(f"    {len(messages)} messages of ours, {len(in_tree)} of the in-tree transport's; compared: " +
          ", ".join(f"{n} {what}" for what, n in count.items()) +
          f"; tshark's complaints, in both: {dict(accepted) or 'none'}", flush=True)
    print(f"    {len(messages2)} messages of version 2, by type {dict(sorted(kinds.items()))}; compared: " +
          ", ".join(f"{n} {what}" for what, n in count2.items()) + "; at the server: " +
          ", ".join(f"{n} {what}" for what, n in more.items()), flush=True)
    for path in (theirs, ours, ours2):
        os.unlink(path)
