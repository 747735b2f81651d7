# SPDX-License-Identifier: GPL-2.0-only
"""Calls that their tasks gave up while the server still has them: what its late answer does."""

import time

from vmlib.testing import test


# nfsd has to ask mountd about each call's export, and mountd does not answer: until it goes on, no call is
# executed. So nothing is written for the READs before they are given up, and all of it after that.
HOLD = """kill -STOP $(pidof rpc.mountd) || die 'no mountd'
for cache in nfsd.export nfsd.fh; do date +%s > /proc/net/rpc/$cache/flush || exit 1; done"""
READERS = 4


def stat(pair, name):
    """A number from our module's own file."""
    return int(pair.client.run(f"sed -n 's/^{name}: //p' /sys/kernel/debug/rpcordma/stats"))


def cancel_and_resume(t, params):
    """Kill READs that the server holds, let it go on: it writes the data of all of them too late.

    Returns how many reconnects there were, and how many regions got scratch memory.
    """
    pair = t.lab()
    pair.up(params=params)
    pair.mount("3", "hard,timeo=600,actimeo=600")
    pair.client.run("dd if=/dev/urandom of=/tmp/f bs=1M count=16 2>/dev/null; cp /tmp/f /mnt/f; "
                    "drop_caches")
    # A working directory keeps the mount, so that umount -f kills its calls and nothing else.
    stay = pair.client.spawn("cd /mnt && exec sleep 300", "a process that stays in the mount")
    # The readers open the file while the server is there: nothing but READs is to wait for it.
    jobs = [pair.client.spawn(f"exec < /mnt/f; echo open >&2; until [ -e /tmp/go ]; do usleep 20000; done; "
                              f"exec dd of=/tmp/o{i} bs=1M skip={4 * i} count=4 2>&1",
                              f"reader {i}") for i in range(READERS)]
    began = time.monotonic()
    while not all("open" in job.out for job in jobs):
        t.within(20, began, "the readers to open the file")
        time.sleep(0.1)
    before = pair.xprt_stats()
    pair.server.run(HOLD, 20, "mountd stops, caches are flushed")
    pair.client.run("touch /tmp/go")
    # Each of them reads ahead: as many as there are readers is the least that the server has then.
    pair.client.until(f"[ $(sed -n 's/^outstanding: //p' /sys/kernel/debug/rpcordma/stats) -ge {READERS} ]", 20,
                      "READs to be with the server")
    for job in jobs:
        t.check(job.running(), "a READ was answered without mountd")
        job.kill()
        job.wait(15, check=False)
    # The readers are gone, their calls are not: this kills those.
    t.check(not pair.client.ok("umount -f /mnt", 20), "umount -f took a busy mount")
    cancelled = stat(pair, "outstanding")
    t.check(cancelled >= READERS, f"{cancelled} calls were cancelled: the server did not hold them")
    t.equal(pair.xprt_stats()["connect_count"], before["connect_count"], "connections until the server goes on")
    pair.server.run("kill -CONT $(pidof rpc.mountd)", 20, "mountd goes on")
    pair.client.run("cmp /tmp/f /mnt/f", 60, "the file is whole once the server goes on")
    # The replies that were owed have come, or the connection they were owed on is gone.
    pair.client.until("grep -q '^outstanding: 0' /sys/kernel/debug/rpcordma/stats", 10, "all credits to be back")
    # If that one is gone, this makes another; cmp may have had its answers before.
    pair.client.run("stat -f /mnt", 60, "a call over whatever connection there is")
    reconnects = pair.xprt_stats()["connect_count"] - before["connect_count"]
    scratch = stat(pair, "scratch_count")
    stay.kill()
    stay.wait(10, check=False)
    pair.client.until("umount /mnt", 20, "umount")
    pair.unload()
    print(f"    {cancelled} calls cancelled with their READs held: {reconnects} reconnects, {scratch} regions "
          "with scratch memory", flush=True)
    return reconnects, scratch


@test("cancelled-reads")
def cancelled_reads(t):
    """READs given up while the server has them: its late RDMA Writes cost the connection, and no more"""
    t.only_rpcordma("about its counters")
    reconnects, scratch = cancel_and_resume(t, "")
    t.equal(scratch, 0, "regions with scratch memory, which is off")
    # None: they went through, as the R_keys were still valid. More: they cost a connection that is not theirs.
    t.equal(reconnects, 1, "connections that late RDMA Writes cost")


@test("cancelled-scratch", slow="odd-server has conversations with scratch_remap=Y, which is off by default")
def cancelled_scratch(t):
    """the same with scratch_remap=Y: the late RDMA Writes go to scratch memory, the connection stays"""
    t.only_rpcordma("about its module parameter")
    reconnects, scratch = cancel_and_resume(t, "scratch_remap=Y")
    t.check(scratch >= READERS, f"{scratch} regions got scratch memory, of {READERS} READs at least")
    t.equal(reconnects, 0, "connections that late RDMA Writes cost")
