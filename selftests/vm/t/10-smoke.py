# SPDX-License-Identifier: GPL-2.0-only
"""The shortest way through: mount, write, read, compare, umount, unload; on each kernel."""

from vmlib.testing import test

VERSIONS = ("3", "4.0", "4.1", "4.2")


def check_connections(t, pair, version, count):
    """One connection, unless soft RoCE waited in vain for an acknowledgment, as it does on a busy host: then it executes
    again what is in the send queue, registrations among it, and breaks the connection. Its counters say so."""
    if count == 1:
        return
    retries = sum(int(vm.run("cat /sys/class/infiniband/rxe0/ports/1/hw_counters/completer_retry_err", 10))
                  for vm in (pair.client, pair.server))
    t.check(retries, f"vers={version}: {count} connections, with nothing to disturb one")
    print(f"vm: vers={version}: {count} connections; soft RoCE sent again {retries} times: is this host busy?", flush=True)


def smoke(t, kernel, **options):
    pair = t.lab(client_kernel=kernel, **options)
    pair.client_net()
    before = pair.rdma_resources()
    pair.server.run(f"net_up 1; rxe_up; export_up 600m; server_up {pair.server_xprt}", 60, "NFS server up")
    pair.client_transport()
    if pair.server_xprt == "rpcordma":
        count = pair.server.run("cat /sys/module/rpcordma/parameters/server_rnr_retry_count", 10)
        t.equal(count, "0\n", "server_rnr_retry_count, for a Receive that is missing to be seen")
    for version in VERSIONS:
        pair.mount(version)
        options = pair.client.run("grep ' /mnt nfs' /proc/mounts")
        t.check("proto=rdma" in options, f"vers={version} is not mounted over rdma: {options}")
        pair.client.run("dd if=/dev/urandom of=/tmp/file bs=1000003 count=5 2>/dev/null && "
                        "cp /tmp/file /mnt/file && drop_caches && cmp /tmp/file /mnt/file && "
                        "fsops names /mnt/names", 60, f"vers={version}: write, read, compare")
        stats = pair.xprt_stats()
        t.check(stats["read_chunks"] and stats["write_chunks"],
                f"vers={version}: 5 MB went both ways without a chunk: {stats}")
        t.equal(stats["bad_reply"], 0, f"vers={version}: bad replies")
        check_connections(t, pair, version, stats["connect_count"])
        pair.umount()
    pair.unload()
    t.check(not pair.client.ok(f"lsmod | grep '^{pair.xprt} '"), f"{pair.xprt} is still loaded")
    t.equal(pair.rdma_resources(), before, "RDMA objects after rmmod")


@test("smoke-6.12")
def smoke_6_12(t):
    """every NFS version on a stock 6.12 client"""
    smoke(t, "6.12")


@test("smoke-6.1", slow="smoke-both-6.1 has this client")
def smoke_6_1(t):
    """every NFS version on a stock 6.1 client"""
    smoke(t, "6.1")


@test("smoke-server-6.12")
def smoke_server_6_12(t):
    """every NFS version, the in-tree client with our server on a stock 6.12"""
    smoke(t, "6.12", xprt="rpcrdma", server_xprt="rpcordma")


@test("smoke-both-6.1")
def smoke_both_6_1(t):
    """every NFS version, ours at both ends, on a stock 6.1"""
    smoke(t, "6.1", server_kernel="6.1", server_xprt="rpcordma")
