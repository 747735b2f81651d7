# SPDX-License-Identifier: GPL-2.0-only
"""What a connection that was never busy takes of the server's memory.

Mounts make the connections, each of which carries one or two small calls. What
the server's free memory has shrunk by, on average of many, is what one takes; the rings of its queue
pair and completion queues, which are the device driver's, are told apart by /proc/vmallocinfo.
"""

import re
import time

from . import disturb, lab

PER_MOUNT = 16    # nconnect's maximum
FIRST = 101       # last byte of the server's first further address
SHARE = 4         # ours may take the in-tree transport's memory divided by this


def connections(vm):
    """RDMA connections of @vm."""
    return int(vm.run("rdma resource show qp | grep -c 'type RC.*state RTS'", 10, check=False))


def snapshot(vm):
    """KiB of @vm's memory that are in use: in all, of rings, and of the kinds that the kernel tells apart."""
    text = vm.run("sync; echo 3 > /proc/sys/vm/drop_caches; sleep 2; "
                  "echo 3 > /proc/sys/vm/drop_caches; cat /proc/meminfo; "
                  "grep rxe_queue_init /proc/vmallocinfo", 60, "read memory", check=False)
    info = disturb.meminfo(text)
    rings = sum(int(pages) * 4 for pages in re.findall(r"rxe_queue_init.* pages=(\d+)", text))
    return {"total": disturb.in_use(info), "rings": rings,
            "slab": info["SUnreclaim"] + info["SReclaimable"],
            "vmalloc": info["VmallocUsed"]}


def slabs(vm):
    """{cache: KiB} of @vm's slab allocator."""
    lines = (line.split() for line in vm.run("cat /proc/slabinfo", 20, "slabs").splitlines()[2:])
    return {words[0]: int(words[2]) * int(words[3]) // 1024 for words in lines}


def measure(pair, number):
    """{what: KiB for each connection, or a text} of @pair, a Lab whose nfsd is not up yet."""
    pair.server.run(f"server_up {pair.server_xprt}", 60, "NFS server up")
    # The first ones fill what is made once.
    batches = number // PER_MOUNT
    at, shots = [], []
    for i in range(batches + 1):
        # A client shares the connections to an address: an address of the server for each mount.
        pair.server.run(f"ip addr add 10.0.0.{FIRST + i}/24 dev eth0", 10)
        pair.client.run(f"nfs_mount 3 nconnect={PER_MOUNT},nolock /mnt{i} sys 10.0.0.{FIRST + i}", 120,
                        f"mount {i + 1}")
        # Each connection is made by the first call that goes over it; calls take turns.
        pair.client.run(f"for n in $(seq {PER_MOUNT}); do stat -f /mnt{i} > /dev/null; done", 60)
        want = PER_MOUNT * (i + 1)
        deadline = time.monotonic() + 60
        while connections(pair.server) < want:
            if time.monotonic() > deadline:
                raise lab.LabError(f"{connections(pair.server)} connections after {i + 1} mounts of "
                                   f"{PER_MOUNT}")
            time.sleep(0.5)
        if i in (0, batches):
            at.append(connections(pair.server))
            shots.append(snapshot(pair.server))
    more = at[1] - at[0]
    each = {what: (shots[1][what] - shots[0][what]) / more for what in shots[0]}
    caps = pair.server.run(f"tail -n 1 {disturb.METER}/caps", 10, "read verbsmeter")
    for i in range(batches + 1):
        pair.umount(f"/mnt{i}", timeout=120)
    return {"connections": more, **each, "own": each["total"] - each["rings"],
            "caps": re.sub(r"^qp \d+ ", "", caps.strip())}


class Table:
    """Measurements of several server modules, side by side."""

    def __init__(self):
        self.columns = {}

    def add(self, xprt, measured):
        self.columns[xprt] = measured

    def tell(self):
        if not self.columns:
            return
        rows = (("connections measured", "connections"), ("all, KiB for each", "total"),
                ("  queue pair and CQ rings", "rings"), ("  transport and the rest", "own"),
                ("of all: slab", "slab"), ("of all: vmalloc", "vmalloc"))
        print(f"    {'never-busy connection':28}" + "".join(f"{x:>12}" for x in self.columns))
        for text, key in rows:
            print(f"    {text:28}" + "".join(f"{c[key]:12.1f}" if key != "connections" else
                                             f"{c[key]:12}" for c in self.columns.values()))
        for xprt, column in self.columns.items():
            print(f"    {xprt}: asked of the device: {column['caps']}", flush=True)

    def ours_is_small(self):
        """Whether ours takes at most a SHAREth, rings aside."""
        return self.columns["rpcordma"]["own"] * SHARE <= self.columns["rpcrdma"]["own"]
