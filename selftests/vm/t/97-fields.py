# SPDX-License-Identifier: GPL-2.0-only
"""The counters of mountstats and of the server, with the same work over our transport and over the in-tree one.

Programs and people know what these count from the in-tree transport. Each is equal here, or DIFFERS says why it need not be.
"""

from vmlib import image, lab
from vmlib.testing import test, until

MIB = 1 << 20
# What differs, why, and what has to hold all the same: a function of (ours, in-tree).
DIFFERS = {
    "connect_time": ("seconds, which the machines' load decides", lambda o, i: True),
    "idle_time": ("as that", lambda o, i: True),
    "req_u": ("a sum over the calls under way at each transmission: how they overlap is chance", lambda o, i: o > 0 < i),
    "bklog_u": ("as that", lambda o, i: True),
    "sends": ("renewals of the lease come by the clock", lambda o, i: abs(o - i) <= 4),
    "recvs": ("as that", lambda o, i: abs(o - i) <= 4),
    "read_chunks": ("segments: ours has one region for 1 MiB, the in-tree several", lambda o, i: 0 < o <= i),
    "write_chunks": ("as that", lambda o, i: 0 < o <= i),
    "reply_chunks": ("segments: a Reply chunk of the in-tree transport may have two", lambda o, i: 0 < o <= i),
    "failed_marshal": ("the in-tree transport counts a call that waits for regions, and is sent later; ours counts that "
                       "in empty_sendctx", lambda o, i: o == 0),
    "pullup": ("how much of a call is copied and how much is sent by its own SGE", lambda o, i: True),
    "fixup": ("how much of a reply comes inline, of pages that could have been placed", lambda o, i: True),
    "hardway": ("ours keeps buffers with a slot, and replaces those that are too small; counted in bytes",
                lambda o, i: True),
    "mrs_allocated": ("regions are made ahead, by other numbers", lambda o, i: o > 0 < i),
    "local_inv": ("ours leaves the invalidation of a call's only region to the server", lambda o, i: o <= i),
    "empty_sendctx": ("how long the send queue is", lambda o, i: True),
    "mrs_recycled": ("regions that were mapped when a connection ended: of a call that was killed", lambda o, i: True),
}
# Files that work() opens, and bytes that a delegation adds to the reply to OPEN, at most.
OPENS, DELEGATION = 41, 100
# Of 7.x alone, whose nfsd gives delegations for new files.
DIFFERS_7 = {
    "total_reply": ("which OPENs get a delegation, and whether with a stateid of its own, is chance",
                    lambda o, i: abs(o - i) <= OPENS * DELEGATION),
}
SERVER_DIFFERS = {
    "rdma_stat_write": ("a reply that fits inline goes so, where the in-tree server takes a Reply chunk that is offered",
                        lambda o, i: 0 < o <= i),
    "rdma_stat_recv": ("renewals of the lease come by the clock; as sends", lambda o, i: abs(o - i) <= 4),
    "rdma_stat_sq_starve": ("how long the send queue is", lambda o, i: True),
}


def work(pair):
    """One call at a time, of each kind: long and short, both ways, names, and attributes that go in no chunk."""
    pair.client.run("dd if=/dev/zero of=/tmp/f bs=1M count=4 2> /dev/null; "
                    "dd if=/tmp/f of=/mnt/f bs=1M count=4 oflag=direct 2> /dev/null && "
                    "dd if=/mnt/f of=/dev/null bs=1M count=4 iflag=direct 2> /dev/null && "
                    "for i in $(seq 1 40); do : > /mnt/name$i; done; drop_caches; ls -l /mnt > /dev/null; "
                    "cat /mnt/name* ; rm /mnt/name*", 120, "the same work on both")


def numbers(t, xprt, server_xprt, kill=True):
    """The client's fields after the work, the server's counters, and what a killed call adds to bad_xids."""
    # With "tools" as the tests of tools: their machines' snapshots save the boot.
    pair = t.lab(xprt=xprt, server_xprt=server_xprt, tools=True)
    pair.up(lease=300)
    pair.mount("4.2", "rsize=1048576,wsize=1048576")
    work(pair)
    fields = pair.xprt_stats()
    text = pair.server.run("cd /proc/sys/sunrpc/svc_rdma; for f in *; do echo $f $(cat $f); done", 20)
    server = {name: int(value) for name, value in (line.split() for line in text.splitlines())}
    killed = None
    if kill:
        # A LOOKUP is under way, its process goes, and then comes the reply. Of a READ the process goes alone: it is
        # not killed with it.
        pair.server.pause()
        try:
            pair.client.run("stat /mnt/nobody > /dev/null 2>&1 & sleep 3; kill -9 $!", 30, "kill a LOOKUP")
        finally:
            pair.server.resume()
        killed = until(t, 50, f"{xprt}: no reply to the killed call was counted",
                       lambda: pair.xprt_stats()["bad_xids"] - fields["bad_xids"])
        t.equal(pair.xprt_stats()["bad_reply"], 0, f"{xprt}: bad replies")
    pair.umount()
    for vm in pair.vms:
        vm.stop()
    return fields, server, killed


def compare(t, what, ours, theirs, differs):
    t.equal(sorted(ours), sorted(theirs), f"names of {what}")
    wrong = []
    for name in ours:
        equal = ours[name] == theirs[name]
        holds = differs[name][1](ours[name], theirs[name]) if name in differs else equal
        if not holds:
            wrong.append(f"{name}: {ours[name]}, in-tree {theirs[name]}")
        print(f"    {what} {name:28} {ours[name]:10} {theirs[name]:10}  "
              f"{'equal' if equal else differs.get(name, ('WRONG',))[0]}", flush=True)
    t.check(not wrong, f"{what}: {'; '.join(wrong)}")


@test("fields", slow="three pairs of machines, a minute")
def fields(t):
    """the same work over both transports: each counter is equal, or its difference has a reason"""
    t.only_rpcordma("it compares both")
    differs = dict(DIFFERS)
    if image.major_under_test() >= 7:
        differs.update(DIFFERS_7)
    t.equal(sorted(differs.keys() - set(lab.XPRT_FIELDS)), [], "DIFFERS names fields that there are not")
    theirs, their_server, their_killed = numbers(t, "rpcrdma", "rpcrdma")
    mine, _, my_killed = numbers(t, "rpcordma", "rpcrdma")
    compare(t, "mountstats", mine, theirs, differs)
    t.equal(my_killed, their_killed, "bad_xids of one killed call")
    _, my_server, _ = numbers(t, "rpcrdma", "rpcordma", kill=False)
    compare(t, "svc_rdma", my_server, their_server, SERVER_DIFFERS)
