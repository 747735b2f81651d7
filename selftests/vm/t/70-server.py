# SPDX-License-Identifier: GPL-2.0-only
"""What a server costs: work requests of a READ, wake-ups of nfsd for a WRITE, memory of a connection
that does nothing. In-tree and ours side by side; only ours is held to anything. And a short run of the
load."""

import os

from vmlib import disturb, idle, lab, load, trace
from vmlib.testing import Skip, test

CALLS = 10
# Of a 1 MiB READ, at most; as many as an rxe queue pair of 32 SGEs needs, and one.
MOST_WRITES = 10
EVENTS = ("sunrpc/svc_xprt_enqueue", "sunrpc/svc_xprt_dequeue", "sunrpc/svc_process", "sched/sched_wakeup")


def needs_server(vm, xprt):
    """Skips the test when our module was built without a server."""
    if xprt == "rpcordma" and not vm.ok(f"modprobe {xprt} && test -d /proc/sys/sunrpc/svc_rdma"):
        raise Skip("this rpcordma.ko has no server (no /proc/sys/sunrpc/svc_rdma)")


def cost(pair, direction):
    """As once(), of the first of three times in which the client asked for nothing else meanwhile."""
    for _ in range(3):
        one = once(pair, direction)
        if one["svc_process"] == 1:
            break
    return one


def once(pair, direction):
    """What the server did for each of CALLS calls of 1 MiB: that of a dd of as many, less one of one."""
    args = {"READ": "if=/mnt/file of=/dev/null iflag=direct",
            "WRITE": "if=/dev/zero of=/mnt/file oflag=direct conv=notrunc"}[direction]
    counts = []
    # The first one asks for what the client keeps from then on (ACCESS), and is not counted.
    for blocks in (1, 1, 1 + CALLS):
        pair.reset_verbs(pair.server)
        # Of wake-ups, those of nfsd's threads.
        traced = trace.Trace(pair.server, EVENTS, filters={"sched/sched_wakeup": 'comm == "nfsd"'})
        pair.client.run(f"dd {args} bs=1M count={blocks} 2>&1", 60)
        traced.stop()
        counts.append({**pair.verbs(pair.server), **traced.counts()})
    return {name: (counts[2][name] - counts[1][name]) / CALLS for name in counts[0]}


def measure(t, server):
    """(READ, WRITE) of a server that runs module @server."""
    pair = t.lab(server_xprt=server)
    needs_server(pair.server, server)
    disturb.up(pair)
    # vers=3: each READ or WRITE is a call, and there are no others.
    pair.mount("3", "rsize=1048576,wsize=1048576,actimeo=600")
    pair.client.run(f"dd if=/dev/zero of=/mnt/file bs=1M count={CALLS + 1} 2>&1", 60)
    costs = cost(pair, "READ"), cost(pair, "WRITE")
    t.equal(pair.xprt_stats()["connect_count"], 1, f"{server}: connections, with nothing to disturb one")
    pair.umount()
    for name, one in zip(("READ", "WRITE"), costs):
        t.equal(one["svc_process"], 1, f"{server}: calls that nfsd saw for each {name} of 1 MiB")
    return costs


def row(name, costs):
    read, write = costs
    return (f"    {name:10} {read['wr_rdma_write']:12g} {read['rdma_write_sges']:8g} {read['send_posts']:8g}"
            f" {read['completions']:8g} |{write['wr_rdma_read']:12g} {write['svc_xprt_enqueue']:9g}"
            f" {write['svc_xprt_dequeue']:9g} {write['sched_wakeup']:9g}")


# KiB, rings included, of a connection of version 2 that was never busy.
V2_IDLE = 450


@test("server-counts")
def server_counts(t):
    """for 1 MiB: RDMA Writes of a READ, nfsd's wake-ups for a WRITE (VM_SLOW=1: the in-tree server's beside)"""
    print("    per 1 MiB  READ: Writes     SGEs    posts    compl.|WRITE: Reads  enqueues  dequeues"
          "  wake-ups")
    if os.environ.get("VM_SLOW"):
        print(row("rpcrdma", measure(t, "rpcrdma")), flush=True)
    ours = measure(t, "rpcordma")
    print(row("rpcordma", ours), flush=True)
    read, write = ours
    t.check(read["wr_rdma_write"] <= MOST_WRITES,
            f"{read['wr_rdma_write']:g} RDMA Writes for a READ of 1 MiB")
    t.equal(write["svc_xprt_dequeue"], 1, "times that nfsd turned to the connection for each WRITE")


@test("server-memory", slow="hostile-storm bounds what a connection takes")
def server_memory(t):
    """memory of a connection that was never busy: ours at most a quarter of the in-tree server's, at most 450 KiB in
    version 2"""
    table = idle.Table()
    try:
        for xprt, version2 in (("rpcrdma", 0), ("rpcordma", 0), ("rpcordma", 1)):
            if version2 and t.xprt != "rpcordma":
                continue
            pair = t.lab(server_xprt=xprt, server_memory=2048, server_params=f"{lab.STRICT} version2={version2}")
            needs_server(pair.server, xprt)
            disturb.up(pair, params=f"version2={version2}" if t.xprt == "rpcordma" else "", serve=False)
            measured = idle.measure(pair, 32)
            table.add("version 2" if version2 else xprt, measured)
            if version2:
                # The first ones, which fill what is made once, are counted besides.
                t.check(disturb.server_counters(pair)["v2_connections"] > measured["connections"],
                        "the connections were not of version 2")
                t.check(measured["total"] <= V2_IDLE, f"a connection of version 2 takes {measured['total']:.0f} KiB")
            pair.stop()
    finally:
        table.tell()
    t.check(table.ours_is_small(), f"ours takes more than a {idle.SHARE}th of the in-tree server's memory")


# Who looks at the node of a page, and what it is: those of a sink that is filled, and those that came with an exchange.
# And what is allocated: the pages of sinks, one of the least size at first (Transfer::pages_of()); few else are of a server.
PROBE = """
cd /sys/kernel/tracing
echo 'r:page_node rpcordma_page_node node=$retval:s32' > kprobe_events
echo 'r:allocated rpcordma_pages_alloc count=$retval:u32' >> kprobe_events
echo 'count >= 8' > events/kprobes/allocated/filter
echo 16384 > buffer_size_kb
echo 1 > events/kprobes/enable
"""


@test("server-nodes", slow="server_pool.threads_elsewhere and .full_node have the same without a kernel")
def server_nodes(t):
    """a server of two NUMA nodes: WRITEs arrive in pages of both, and sinks keep what they are given for those"""
    pair = t.lab(server_xprt="rpcordma", server_nodes=2, server_memory=2048)
    needs_server(pair.server, "rpcordma")
    t.equal(pair.server.run("cat /sys/devices/system/node/online").strip(), "0-1", "nodes of the server")
    disturb.up(pair)
    pair.mount("3", "wsize=1048576,nconnect=2")
    pair.server.run(PROBE)
    pair.client.run("dd if=/dev/urandom of=/tmp/data bs=1M count=64 2>/dev/null; "
                    "for i in 1 2 3 4; do dd if=/tmp/data of=/mnt/file.$i bs=1M oflag=direct 2>/dev/null & done; wait", 120)
    sums = pair.client.run("cd /tmp; md5sum < data; cd /mnt; for i in 1 2 3 4; do md5sum < file.$i; done", 120).split()
    t.equal(len({s for s in sums if s != "-"}), 1, "different contents of what was written, and the four copies")
    nodes = [int(n) for n in pair.server.run("cd /sys/kernel/tracing; echo 0 > events/kprobes/enable; "
                                             "for n in 0 1; do grep -c node=$n$ trace || true; done; "
                                             "sed -n 's/.* allocated: .*count=//p' trace | "
                                             "awk '{ pages += $1 } END { print pages + 0 }'", 120).split()]
    print(f"    pages looked at, by node: {nodes[:2]}; allocated for sinks: {nodes[2]} pages", flush=True)
    t.check(all(nodes[:2]), f"the pages that were looked at are of one node: {nodes}")
    t.check(0 < nodes[2] < 8192, "pages were allocated again for sinks that had been given others")
    pair.umount()


@test("load", slow="version2-drops, device-errors and hca-drops have verified I/O while connections go; make load")
def load_run(t):
    """40 s of mixed verified I/O over eight connections, of which one or all are dropped every second"""
    pair = t.lab(server_xprt=lab.server_under_test(), tools=True, client_memory=1536, server_memory=1536)
    needs_server(pair.server, pair.server_xprt)
    disturb.up(pair)
    result = load.run(pair, 40)
    load.tell(result)
    t.check(not result.bad, "; ".join(result.bad))
