# SPDX-License-Identifier: GPL-2.0-only
"""RDMA devices that are absent, lack what is needed, are small, fail, or go away."""

import time

from vmlib import machine
from vmlib.testing import test


def refused_mount(t, pair, limit, what, source="10.0.0.1", options=""):
    """A mount that must fail with a message, within @limit seconds; returns the message."""
    began = time.monotonic()
    job = pair.client.spawn(
        f"mkdir -p /mnt; /sbin/mount.nfs {source}:/ /mnt -o vers=4.2,proto=rdma,port=20049,"
        f"sec=sys,retry=0,soft,timeo=30,retrans=1{options}", f"mount {what}")
    job.wait(limit, check=False)
    t.check(job.status != 0, f"mount {what}: succeeded")
    t.check(job.out.strip(), f"mount {what}: failed without a word")
    t.check(not pair.client.ok("grep ' /mnt nfs' /proc/mounts"), f"mount {what}: is mounted")
    t.within(limit, began, f"mount {what}")
    return job.out


@test("device-none")
def device_none(t):
    """no RDMA device at all: the mount fails, in bounded time"""
    pair = t.lab(server=False)
    pair.client.run("net_up 2")
    pair.client_transport()
    refused_mount(t, pair, 60, "without an RDMA device")
    pair.unload()


@test("device-no-mem-mgt")
def device_no_mem_mgt(t):
    """a device without memory management extensions: refused, nothing leaked"""
    pair = t.lab()
    server = pair.server.spawn("net_up 1; rxe_up; export_up 100m; server_up rpcrdma")
    pair.client_net(True, "attrs=mem_mgt_extensions=0")
    before = pair.rdma_resources()
    pair.client_transport()
    server.wait(60)
    refused_mount(t, pair, 60, "without memory management extensions")
    pair.client.until("! rdma resource show qp | grep -q RC", 15, "queue pairs to go")
    pair.unload()
    t.equal(pair.rdma_resources(), before, "RDMA objects afterwards")
    # With the capability back, and nothing else changed, it must work.
    pair.client.run("echo mem_mgt_extensions=1 > /sys/kernel/debug/verbsmeter/rxe0/attrs")
    pair.client_transport()
    pair.mount("4.2")
    pair.umount()
    pair.unload()


@test("device-small", slow="hca-smoke has poorer devices")
def device_small(t):
    """a device with small limits: slower, but every byte is right"""
    pair = t.lab()
    server = pair.server.spawn("net_up 1; rxe_up; export_up 300m; server_up rpcrdma")
    pair.client_net(True, "attrs=max_fast_reg_page_list_len=64,max_send_sge=5,max_sge_rd=2,"
                          "max_qp_rd_atom=1,max_qp_init_rd_atom=1")
    pair.client_transport()
    server.wait(60)
    pair.mount("4.2")
    pair.client.run("dd if=/dev/urandom of=/tmp/f bs=1000003 count=6 2>/dev/null; cp /tmp/f /mnt/f;"
                    "drop_caches; cmp /tmp/f /mnt/f && fsops direct /mnt 1", 60,
                    "write, read, compare")
    pair.umount()
    pair.unload()


@test("device-errors")
def device_errors(t):
    """posts and completions that fail during I/O: reconnects, every byte right"""
    pair = t.lab()
    pair.up(verbsmeter=True)
    pair.mount("4.2")
    pair.client.run("dd if=/dev/urandom of=/tmp/f bs=1000003 count=6 2>/dev/null")
    inject = "/sys/kernel/debug/verbsmeter/rxe0/inject"
    for number, what in enumerate((
            "post_send 20 12", "post_send 20 22", "post_recv 1 12", "wc 20 4", "wc 31 10",
            "wc 20 12"), 1):
        pair.client.run(f"echo '{what}' > {inject}; cp /tmp/f /mnt/f && drop_caches && "
                        f"cmp /tmp/f /mnt/f && cp /tmp/f /mnt/f && drop_caches && "
                        f"cmp /tmp/f /mnt/f", 90, f"I/O over \"{what}\"")
        t.equal(pair.verbs()["injected"], number, f"injected after \"{what}\"")
    t.check(pair.xprt_stats()["connect_count"] > 1, "no error led to a reconnect")
    pair.umount()
    pair.unload()


@test("device-removal", slow="hca-removal takes the client's device and the server's")
def device_removal(t):
    """rdma link delete under a mount with I/O, then the device comes back"""
    pair = t.lab()
    pair.up()
    pair.mount("4.2")
    pair.client.run("dd if=/dev/urandom of=/tmp/f bs=1M count=24 2>/dev/null")
    job = pair.client.spawn("until [ -e /tmp/enough ]; do for i in 1 2 3; do cp /tmp/f /mnt/f$i || exit 1; "
                            "done; done; sync", "copy while the device goes and comes")
    pair.server.until("[ -s /export/f1 ]", 20, "the copy to begin")
    pair.client.run("rdma link delete rxe0", 40, "rdma link delete")
    t.equal(pair.rdma_resources(), {}, "RDMA objects without a device")
    t.check(job.running(), "the copy ended when the device went")
    pair.client.run("> /tmp/enough; rdma link add rxe0 type rxe netdev eth0", 20)
    job.wait(120)
    pair.client.run("drop_caches; for i in 1 2 3; do cmp /tmp/f /mnt/f$i || exit 1; done", 60,
                    "compare")
    pair.umount()
    pair.unload()
    pair.client.run("rdma link delete rxe0", 20, "rdma link delete at the end")


@test("peer-absent")
def peer_absent(t):
    """a server that is not there, and one that does not listen: a clear error in bounded time"""
    pair = t.lab()
    pair.client_net()
    pair.client_transport()
    pair.server.run("net_up 1; rxe_up; modprobe rdma_cm")
    before = pair.rdma_resources()
    refused_mount(t, pair, 60, "of a machine that does not exist", "10.0.0.77")
    refused_mount(t, pair, 60, "of a machine that does not listen")
    pair.client.until("! rdma resource show qp | grep -q RC", 15, "queue pairs to go")
    t.equal(pair.rdma_resources(), before, "RDMA objects afterwards")
    pair.unload()


@test("peer-not-rpc")
def peer_not_rpc(t):
    """a server that accepts and speaks something else: an error in bounded time, nothing leaked"""
    pair = t.lab()
    pair.client_net()
    pair.client_transport()
    pair.server.run("net_up 1; rxe_up; modprobe -a rdma_ucm ib_uverbs")
    before = pair.rdma_resources()
    rping = pair.server.spawn("while :; do rping -s -a 10.0.0.1 -p 20049; done", "rping")
    pair.server.until("rdma resource show cm_id | grep -q 20049", 15, "rping to listen")
    try:
        refused_mount(t, pair, 150, "of rping")
    except machine.Timeout as error:
        t.check(False, str(error))
    t.check(rping.running(), "rping has ended")
    pair.client.until("! rdma resource show qp | grep -q RC", 15, "queue pairs to go")
    t.equal(pair.rdma_resources(), before, "RDMA objects afterwards")
    pair.unload()
