# SPDX-License-Identifier: GPL-2.0-only
"""What an administrator asks of our server and sees of it: how nfsd is told to listen, exports that want
a reserved port, sysctls and counters; and the trace points of both ends.

(To see these tests fail: take RQ_SECURE away, widen a range, count twice, leave an event out or give it
another xid. And server-ipv6: refuse AF_INET6; server-secure-6.1: have the port not reserved.)
"""

import re

from vmlib import disturb, image, lab, state, trace
from vmlib.testing import test


@test("server-listen")
def server_listen(t):
    """rpc.nfsd --rdma has nfsd listen; what is exported "secure" is served over RDMA"""
    pair = t.lab(server_xprt=lab.server_under_test())
    pair.up()
    pair.server.run("nfsd_stop", 60, "stop nfsd")
    t.equal(pair.server.run("cat /proc/fs/nfsd/portlist", 10), "", "where nfsd listens when it has stopped")
    # The port by its name, nfsrdma.
    pair.server.run("rpc.nfsd --rdma 8 && end_grace", 60, "rpc.nfsd --rdma")
    ports = pair.server.run("cat /proc/fs/nfsd/portlist", 10).splitlines()
    t.check("rdma 20049" in ports, f"nfsd listens on {ports}, not on rdma 20049")
    pair.server.run("sed -i s/insecure/secure/ /etc/exports && exportfs -ra && exportfs -v | grep -w secure",
                    20, "the export wants a reserved port")
    # That it does is seen over TCP, where rpc.nfsd has nfsd listen as well.
    job = pair.client.spawn("mkdir -p /mnt; mount.nfs 10.0.0.1:/ /mnt -o vers=4.2,proto=tcp,noresvport 2>&1")
    job.wait(40, check=False)
    t.check(job.status and "not permitted" in job.out,
            f"a mount over TCP from an ordinary port: status {job.status}, {job.out!r}")
    for version in ("3", "4.2"):
        pair.mount(version)
        pair.client.run("dd if=/dev/urandom of=/tmp/f bs=1000003 count=2 2>/dev/null; cp /tmp/f /mnt/f; "
                        "drop_caches; cmp /tmp/f /mnt/f", 40, f"vers={version}: compare")
        pair.umount()
    pair.unload()
    if pair.server_xprt != "rpcordma":
        return
    # A module that is not loaded is, by what `make install` puts there.
    pair.server.run("nfsd_stop", 60, "stop nfsd")
    pair.server.until("rmmod rpcordma", 15, "rmmod rpcordma")
    pair.install_names(pair.server)
    t.check(not pair.server.ok("lsmod | grep -E '^(rpcrdma|rpcordma) '"), "a transport is loaded without a port")
    pair.server.run("nfsd_start 8", 60, "echo rdma 20049 > /proc/fs/nfsd/portlist")
    loaded = pair.server.run("lsmod | grep -oE '^(rpcrdma|rpcordma) '", 10).split()
    t.equal(loaded, ["rpcordma"], "what the RDMA port loaded")
    pair.client_transport()
    pair.mount("4.2")
    pair.client.run("cmp /tmp/f /mnt/f", 40, "compare")
    pair.umount()
    pair.unload()


@test("server-secure-6.1")
def server_secure_6_1(t):
    """a kernel that asks the transport whether a peer's port is reserved: "secure" exports are served"""
    pair = t.lab(client_kernel="6.1", server_kernel="6.1", server_xprt=lab.server_under_test())
    pair.up()
    pair.server.run("sed -i s/insecure/secure/ /etc/exports && exportfs -ra && exportfs -v | grep -w secure",
                    20, "the export wants a reserved port")
    for version in ("3", "4.2"):
        pair.mount(version)
        pair.client.run("echo words > /mnt/f && drop_caches && grep words /mnt/f", 40, f"vers={version}: a file")
        pair.umount()
    pair.unload()


SVC_RDMA = "/proc/sys/sunrpc/svc_rdma"
# Default, least and most.
LIMITS = {
    "max_requests": (64, 4, 16384),
    "max_req_size": (4096, 4096, 65536),
    "max_outbound_read_requests": (16, 1, 255),
}
COUNTERS = ("rdma_stat_recv", "rdma_stat_read", "rdma_stat_write", "rdma_stat_sq_starve")
ALWAYS_0 = ("rdma_stat_rq_starve", "rdma_stat_rq_poll", "rdma_stat_rq_prod", "rdma_stat_sq_poll",
            "rdma_stat_sq_prod")
BLOCKS = 4
# Long: whether a backward call was answered shows before it ends.
LEASE = 90
# enum ib_wc_status
FLUSHED = 5


def sysctl_ranges(t, vm, xprt):
    """The names and ranges of @xprt's sysctls; and that what is refused changes nothing."""
    names = {*LIMITS, *COUNTERS, *ALWAYS_0}
    limits = dict(LIMITS)
    if image.major_under_test() >= 7:
        limits["max_requests"] = (128, *LIMITS["max_requests"][1:])
    t.equal(set(vm.run(f"ls {SVC_RDMA}", 10).split()), names, f"{xprt}: names in {SVC_RDMA}")
    t.equal(vm.run(f"stat -c %a {SVC_RDMA}/* | sort -u", 10), "644\n", f"{xprt}: modes in {SVC_RDMA}")
    for name in sorted(names):
        default, least, most = limits.get(name, (0, 0, 0))
        path = f"{SVC_RDMA}/{name}"
        t.equal(vm.run(f"cat {path}", 10), f"{default}\n", f"{xprt}: {name} when nothing has happened")
        if name in COUNTERS:
            continue
        for value in (least, most, default):
            t.equal(vm.run(f"echo {value} > {path} && cat {path}", 10), f"{value}\n", f"{xprt}: {name}")
        for value in (least - 1, most + 1, "nonsense"):
            refusal = vm.run(f"echo {value} > {path}; cat {path}", 10, check=False)
            t.check("nvalid argument" in refusal and refusal.endswith(f"\n{default}\n"),
                    f"{xprt}: {name} of {default}, when {value} was written to it: {refusal!r}")


def sysctl_counters(t, pair, xprt):
    """That @xprt counts what a client asks for, and from 0 after any write."""
    def read():
        return {name: int(pair.server.run(f"cat {SVC_RDMA}/{name}", 10)) for name in COUNTERS}

    def sent():
        return sum(transmissions for _, transmissions, _ in disturb.op_counts(pair.client).values())

    # vers=3: each READ or WRITE is a call, and nothing goes over the connection by itself once it is mounted.
    # What asks for ACLs is not in the mount's statistics.
    pair.mount("3", "rsize=1048576,wsize=1048576,actimeo=600,noacl")
    before = read()
    t.check(before["rdma_stat_recv"] > 0, f"{xprt}: a mount, and the counters are {before}")
    pair.server.run(f"echo 1 > {SVC_RDMA}/rdma_stat_recv", 10)
    t.equal(read(), {**before, "rdma_stat_recv": 0}, f"{xprt}: when 1 was written to rdma_stat_recv")
    pair.server.run(f"for name in {' '.join(COUNTERS)}; do echo nonsense > {SVC_RDMA}/$name; done", 10)
    t.equal(read(), dict.fromkeys(COUNTERS, 0), f"{xprt}: when \"nonsense\" was written to each")
    calls = sent()
    pair.client.run(f"dd if=/dev/zero of=/mnt/file bs=1M count={BLOCKS} oflag=direct 2>&1 && "
                    f"dd if=/mnt/file of=/dev/null bs=1M iflag=direct 2>&1", 60, "I/O")
    calls, after = sent() - calls, read()
    t.check(calls >= 2 * BLOCKS, f"{xprt}: {calls} calls for {2 * BLOCKS} blocks")
    t.equal(after["rdma_stat_recv"], calls, f"{xprt}: rdma_stat_recv, of calls")
    for name in ("rdma_stat_read", "rdma_stat_write"):
        t.check(BLOCKS <= after[name] <= BLOCKS * 300, f"{xprt}: {name} is {after[name]} of {BLOCKS} MiB")
    pair.umount()


@test("server-sysctls")
def server_sysctls(t):
    """/proc/sys/sunrpc/svc_rdma: names, ranges and counters, the in-tree server's and ours"""
    pair = t.lab(server_xprt="rpcrdma")
    pair.up()
    for xprt in ("rpcrdma", "rpcordma"):
        # Loaded anew, so that counters are those of nothing.
        pair.server.run("nfsd_stop", 60, "stop nfsd")
        pair.server.until("for m in rpcrdma rpcordma; do ! lsmod | grep -q \"^$m \" || rmmod $m || exit 1; "
                          "done", 20, "remove the transport")
        pair.server.run(f"modprobe {xprt}", 20, f"load {xprt}")
        pair.only(pair.server, xprt)
        sysctl_ranges(t, pair.server, xprt)
        pair.server.run("nfsd_start 8", 60, "start nfsd")
        sysctl_counters(t, pair, xprt)
    pair.unload()


class Event:
    """One line of a trace: the event's name, its peer, the words that it has, and its fields."""

    def __init__(self, name, peer, rest):
        self.name, self.peer = name, peer
        self.fields = {key: int(value, 0) for key, value in re.findall(r"(\w+)=(\w+)", rest)}
        self.what = re.sub(r":? *(\w+=.*|-?\d+)$", "", rest)


def events(traced):
    """{name: [Event]} without the names' common beginning."""
    found = {}
    for name, peer, rest in re.findall(r": rpcordma_(\w+): peer=(\S+) (.*)$", traced.text(), re.M):
        found.setdefault(name, []).append(Event(name, peer, rest))
    return found


# What each end says of an undisturbed mount with I/O, the recall of a delegation, and the end.
CLIENT_EVENTS = {
    "connection": {"address resolved", "route resolved ", "established", "connected",
                   "inline threshold, send", "inline threshold, receive", "close"},
    "version": {"client: off"},
    "marshal": {""},
    "post": {"send", "receive"},
    "receive_posted": {""},
    "completion": {"receive"},
    "region": {"map", "remote-inv"},
    "credits": {""},
    "reply": {"reply", "backward call"},
}
# As it happens: who closes first, and which Send is signaled.
CLIENT_MAY = {"connection": {"disconnected"}, "disconnected": {""}, "completion": {"send"}}
SERVER_EVENTS = {
    "connection": {"accept", "established", "disconnected"},
    "version": {"server: off"},
    "disconnected": {""},
    "post": {"receive", "read", "reply"},
    "receive_posted": {""},
    "completion": {"receive", "read", "send"},
    "credits": {""},
    "reply": {"call", "backward reply"},
    "decode": {""},
    "encode": {""},
    "sink_mapped": {""},
    "sink_unmapped": {""},
    "reply_mapped": {""},
    "reply_unmapped": {""},
}
# What is written, and read.
BYTES = 2 << 20
CONNPROP = 6


def xids(events, name, what=""):
    return {event.fields["xid"] for event in events[name] if event.what == what}


def total(events, name, field):
    return sum(event.fields[field] for event in events[name])


def check_ids(t, end, found):
    """What completes was posted: on that queue, with that number."""
    posted = {what: {(event.fields["cq_id"], event.fields["cid"]) for name, event in
                     ((name, event) for name in ("post", "receive_posted") for event in found[name])
                     if (name == "receive_posted") == (what == "receive") and event.what != "receive"}
              for what in ("receive", "send")}
    t.equal(len({queue for queue, _ in posted["receive"]}), 1, f"{end}: queues of Receives")
    t.equal(len({queue for queue, _ in posted["send"]}), 1, f"{end}: queues of Sends")
    for event in found["completion"]:
        entry = event.fields["cq_id"], event.fields["cid"]
        t.check(entry in posted["receive" if event.what == "receive" else "send"],
                f"{end}: {event.what} {event.fields} completes, and was not posted")
    # An R_key is its region's but for the lowest byte, which changes each time that it is mapped.
    regions = {(event.fields["rkey"] >> 8, event.fields["mr_id"]) for event in found.get("region", ())}
    t.equal(len({rkey for rkey, _ in regions}), len(regions), f"{end}: regions {regions}: R_keys and numbers")
    t.equal(len({number for _, number in regions}), len(regions), f"{end}: regions {regions}: numbers and R_keys")


def version_events(t, pair, client, server):
    """({name: [Event]} of the client, of the server), of versions and properties in a mount with I/O, and these values
    of the parameter."""
    for vm, value in ((pair.client, client), (pair.server, server)):
        vm.run(f"echo {value} > /sys/module/rpcordma/parameters/version2", 10)
    traced = [trace.Trace(vm, ["rpcordma/rpcordma_version", "rpcordma/rpcordma_property"])
              for vm in (pair.client, pair.server)]
    pair.mount("4.1")
    pair.client.run("echo text > /mnt/text && drop_caches && grep text /mnt/text", 20, "I/O")
    pair.umount()
    for one in traced:
        one.stop()
    found = tuple(map(events, traced))
    for end, which in zip(("client", "server"), found):
        t.equal(len(which["version"]), 1, f"{end}, version2={client}/{server}: connections that came to a version")
    return found


def trace_version2(t, pair):
    """Why a connection has its version, and what both ends said of themselves."""
    def came_to(found):
        return [(event.what, event.fields["version"]) for end in found for event in end["version"]]

    def said(found, what, proc):
        return [event.fields for event in found.get("property", ()) if (event.what, event.fields["proc"]) == (what, proc)]

    client, server = found = version_events(t, pair, 1, 1)
    t.equal(came_to(found), [("client: answered", 2), ("server: CONNPROP", 2)], "versions")
    for sender, taker, what in ((client, server, "the client"), (server, client, "the server")):
        t.equal(len(said(sender, "sent", CONNPROP)), 1, f"CONNPROPs that {what} sent")
        t.equal(said(taker, "applied", CONNPROP), said(sender, "sent", CONNPROP), f"properties of {what}")
    fields = said(client, "sent", CONNPROP)[0]
    t.equal((fields["ids"], fields["fixed"], fields["receive_size"]), (0x3f, 0x3f, 4096 * (1 + fields["pages"])),
            f"the client's properties {fields}")
    # Asked without a mark, the server says what it speaks.
    client, server = found = version_events(t, pair, 2, 0)
    t.equal(came_to(found), [("client: ERR_VERS", 1), ("server: off", 1)], "versions, version2=0 at the server")
    t.equal([event.what for event in client["property"]], ["sent"], "the client's properties")
    t.equal(server.get("property"), None, "the server's properties")
    pair.client.run("echo 0 > /sys/module/rpcordma/parameters/version2", 10)


@test("trace-points")
def trace_points(t):
    """every trace point that I/O must pass, at both ends, with fields that agree"""
    t.only_rpcordma("about the trace points of ours")
    # Version 1 has events for the chunks of all of it; version 2 follows.
    pair = t.lab(server_xprt="rpcordma", server_params=f"{lab.STRICT} version2=0")
    pair.up(lease=LEASE, params="version2=0")
    # Before the mount, so that both see all of it.
    traced = [trace.Trace(vm, ["rpcordma"]) for vm in (pair.client, pair.server)]
    pair.mount("4.1", "rsize=1048576,wsize=1048576")
    pair.client.run("dd if=/dev/zero of=/mnt/file bs=1M count=2 oflag=direct 2>&1 && "
                    "dd if=/mnt/file of=/dev/null bs=1M iflag=direct 2>&1", 60, "I/O")
    pair.server.run("echo before > /export/delegated")
    job = state.delegated(pair, "delegated")
    pair.server.run("echo after > /export/delegated", LEASE, "a local writer")
    state.let_go(pair.client, job)
    pair.umount()
    ends = r"rpcordma_connection: .* (close|disconnected): "
    for vm in pair.client, pair.server:
        vm.until(f"grep -qE '{ends}' {trace.FOLDER}/trace", 20, "the connection to end")
    for one in traced:
        one.stop()
    client, server = map(events, traced)

    for end, found, wanted, may, peer in (
            ("client", client, CLIENT_EVENTS, CLIENT_MAY, r"10\.0\.0\.1:20049"),
            ("server", server, SERVER_EVENTS, {}, r"10\.0\.0\.2:[1-9]\d*")):
        got = {name: {event.what for event in found[name]} - may.get(name, set()) for name in found}
        t.equal({name: got.get(name, set()) for name in wanted | got if got.get(name) or name not in may}, wanted,
                f"{end}: events")
        check_ids(t, end, found)
        for name, event in ((name, event) for name in found for event in found[name]):
            fields = event.fields
            text = f"{end}: {name}: {event.peer} {event.what!r} {fields}"
            t.check(re.fullmatch(peer, event.peer), f"{text}: not the peer")
            if name in ("marshal", "reply", "region") or name == "post" and event.what != "receive":
                t.check(fields["xid"], f"{text}: no xid")
            if name == "post":
                t.check(fields["result"] == 0 and fields["work_requests"], f"{text}: nothing was posted")
            elif name == "completion":
                # What is left is flushed when the connection ends.
                t.check(fields["status"] in (0, FLUSHED), f"{text}: failed")
            elif name == "marshal":
                t.check(fields["header"] >= 28 and fields["credits"], f"{text}: no such message")
            elif name == "region":
                t.check(fields["rkey"] and fields["length"] and fields["iova"], f"{text}: no region")
            elif name == "credits":
                t.check(fields["from"] != fields["to"] and fields["to"], f"{text}: no change")

    # The same calls at both ends, each of them answered.
    calls = xids(client, "marshal")
    for what, got in (("the client posted", xids(client, "post", "send")),
                      ("the server got", xids(server, "reply", "call")),
                      ("the server answered", xids(server, "post", "reply")),
                      ("the client has replies to", xids(client, "reply", "reply"))):
        t.check(calls <= got, f"the client made calls {calls}, {what} {got}")
    t.equal(xids(server, "reply", "call"), calls, "calls that the server got")
    backward = xids(client, "reply", "backward call")
    t.equal(xids(server, "reply", "backward reply"), backward, "backward calls that were answered")
    t.check(backward <= xids(server, "post", "reply"), "a backward call that the server never posted")
    # A WRITE has a Read chunk and a READ a Write chunk, each a region that the reply invalidates.
    sent = {event.fields["xid"] for event in client["marshal"] if event.fields["send_mode"]}
    t.equal(len(sent), 2, "calls with Read chunks")
    t.equal(xids(server, "post", "read"), sent, "calls whose chunks the server read")
    mapped = xids(client, "region", "map")
    t.check(sent < mapped <= calls, f"regions of calls {mapped}, with Read chunks {sent}, all calls {calls}")
    t.equal(xids(client, "region", "remote-inv"), mapped, "calls whose regions the server invalidated")

    # Each byte of file data went in chunks, and memory that was mapped for them is not any more.
    for name, field in (("decode", "read"), ("sink_mapped", "length")):
        t.equal(total(server, name, field), BYTES, f"{name}: {field}")
    # The delegated file, of a few bytes, is read as well.
    for name, field in (("encode", "write"), ("reply_mapped", "length")):
        t.equal(total(server, name, field), BYTES + len("before\n"), f"{name}: {field}")
    for name in "sink", "reply":
        t.equal(xids(server, f"{name}_unmapped"), xids(server, f"{name}_mapped"), f"{name}_unmapped")
    t.equal(xids(server, "sink_mapped"), sent, "calls with sinks")
    t.equal(xids(server, "decode"), calls, "decode: calls")
    t.equal(xids(server, "encode"), calls, "encode: replies")

    trace_version2(t, pair)

    # What goes wrong has an event of its own, which can be had alone. More messages than credits: where one finds no Receive, the
    # client's device is to send it again, as by default.
    pair.server.run("echo 7 > /sys/module/rpcordma/parameters/server_rnr_retry_count")
    one = trace.Trace(pair.server, ["rpcordma/rpcordma_message_short"])
    pair.client.run("modprobe -a rdma_ucm ib_uverbs; verbspeer 10.0.0.1 test header-under-16=", 60,
                    "a message that is no header")
    one.stop()
    t.equal(set(events(one)), {"message_short"}, "the events of a message that is no header")
    pair.unload()
