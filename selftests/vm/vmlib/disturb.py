# SPDX-License-Identifier: GPL-2.0-only
"""Both ends of a lab under the eyes and hands of verbsmeter; connections that are dropped; what is
left over afterwards.

verbsmeter is loaded before anything uses the device, so that it knows every queue pair.
"""

import re
import threading
import time

from . import image, lab, machine

METER = "/sys/kernel/debug/verbsmeter/rxe0"
OURS = "/sys/kernel/debug/rpcordma"
VERSION2 = "/sys/module/rpcordma/parameters/version2"
RTR = "/sys/module/rpcordma/parameters/version2_rtr"
SENT = "/sys/module/rpcordma/parameters/send_write_max"
ASKED = "/sys/module/rpcordma/parameters/send_read_max"
# Any one of them.
DROP_ONE = f"""number=$(awk 'BEGIN {{ srand() }} {{ all[NR] = $1 }} END {{ if (NR) print all[int(rand() * NR) + 1] }}' \
    {OURS}/server/connections) && [ "$number" ] && echo $number > {OURS}/server/disconnect"""


def up(pair, export="600m", params="", serve=True, lease=10):
    """Like Lab.up(), with verbsmeter on both sides. serve=False: no nfsd yet."""
    script = f"net_up 1; modprobe ib_core; modprobe verbsmeter; rxe_up; export_up {export}"
    if serve:
        script += f"; server_up {pair.server_xprt} {lease}"
    job = pair.server.spawn(script, "NFS server up")
    pair.client_net(verbsmeter=True)
    pair.client_transport(params)
    job.wait(90)
    pair.client.until("ping -c 1 -W 1 10.0.0.1 > /dev/null", 10, "the server answers ping")


def server_counters(pair):
    """Our server's counters, by name."""
    text = pair.server.run(f"cat {OURS}/server/counters", 10, "read the server's counters")
    return {name: int(value) for name, value in re.findall(r"^(\w+) (\d+)$", text, re.M)}


def client_versions(pair):
    """The versions that our client's transports speak: a set, empty where there is no transport."""
    text = pair.client.run(f"cat {OURS}/stats", 10, "read the client's stats")
    return {int(version) for version in re.findall(r"^version: (\d+)$", text, re.M)}


def client_stats(pair):
    """{name: number} of what our client counts, of all its transports."""
    stats = {}
    for name, number in re.findall(r"^(\w+): (\d+)$", pair.client.run(f"cat {OURS}/stats", 10), re.M):
        stats[name] = stats.get(name, 0) + int(number)
    return stats


def grow(pair, connections=1, where="/mnt"):
    """Keeps the client's mount @where busy until the server's Receives of version 2 have grown. Raises image.NotHere
    where they never do."""
    if pair.server.page_size() > 4096:
        raise image.NotHere("Receives of version 2 have no pages where those of the kernel are larger than 4 KiB")
    want = server_counters(pair)["grown"] + connections
    for turn in range(12):
        pair.client.run(f"work_to_grow {where} {turn}", 60, "keep the connection busy")
        if server_counters(pair)["grown"] >= want:
            return
    raise lab.LabError("the server's Receives do not grow")


def inject(vm, text):
    vm.run(f"echo '{text}' > {METER}/inject", 10, f"inject {text}")


def drop_script(xprt, end, way=""):
    """Shell command that drops connections at @end, "client" or "server", whose transport module is @xprt. It
    fails where there is none.

    @way  "debugfs" (our client's has all dropped, our server's one), "verbs" (one, by its queue pair);
          default: debugfs for our module, verbs for the in-tree one, which has no trigger
    """
    if (way or {"rpcordma": "debugfs"}.get(xprt)) == "debugfs":
        return f"({DROP_ONE if end == 'server' else f'echo 1 > {OURS}/disconnect'}) 2>/dev/null"
    return f"echo 1 > {METER}/break 2>/dev/null"


class Dropper:
    """Drops connections every @period seconds, on the machines in @ends in turn, until stop().

    @ends  list of (VM, shell command)
    """

    def __init__(self, ends, period=1.0):
        self.ends, self.period = ends, period
        self.drops = {vm.name: 0 for vm, _ in ends}
        self.missed = 0    # nothing was connected just then
        self.error = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        turn, due = 0, time.monotonic()
        while True:
            due += self.period
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            vm, script = self.ends[turn % len(self.ends)]
            turn += 1
            try:
                if vm.ok(script, 60, "drop a connection"):
                    self.drops[vm.name] += 1
                else:
                    self.missed += 1
            except machine.VmError as error:
                self.error = error
                return

    def stop(self):
        self._stop.set()
        self._thread.join(90)
        if self.error:
            raise self.error


def op_counts(vm, where="/mnt"):
    """{operation: (calls, transmissions, errors)} of a mount, by mountstats."""
    found, inside = {}, False
    for line in vm.run("cat /proc/self/mountstats", 10, "read mountstats").splitlines():
        if line.startswith("device "):
            inside = f" mounted on {where} with" in line
        words = line.split()
        if inside and len(words) >= 9 and re.fullmatch(r"[A-Z_0-9]+:", words[0]):
            found[words[0][:-1]] = (int(words[1]), int(words[2]), int(words[9]) if len(words) > 9 else 0)
    if not found:
        raise lab.LabError(f"mountstats has no operations of {where}")
    return found


def reply_cache(vm):
    """(hits, payload misses) of nfsd's duplicate reply cache."""
    text = vm.run("sed -n 's/^rc //p' /proc/net/rpc/nfsd; cat /proc/fs/nfsd/reply_cache_stats", 10,
                  "read the reply cache's counters")
    hits = int(text.split()[0])
    misses = re.search(r"^payload misses: +(\d+)", text, re.M)
    if not misses:
        raise lab.LabError(f"/proc/fs/nfsd/reply_cache_stats has no \"payload misses\": {text}")
    return hits, int(misses.group(1))


def objects(vm):
    """{kind: number} of RDMA objects, without the zeroes; MRs and contexts among them."""
    return {kind: n for kind, n in lab.Lab.rdma_resources(None, vm).items() if n}


def meminfo(text):
    """{name: KiB} of /proc/meminfo, which @text has."""
    return {name: int(kib) for name, kib in re.findall(r"^(\w+): +(\d+) kB", text, re.M)}


def in_use(info):
    """KiB of memory that are in use by @info, processes and page cache aside."""
    return info["MemTotal"] - info["MemFree"] - info["AnonPages"] - info["Cached"] - info["Buffers"]


def kernel_memory(text):
    """{what: KiB} that the kernel does not give back by itself, by /proc/meminfo and /proc/zoneinfo, which @text
    has: unreclaimable slab, vmalloc and per-CPU data; and all pages that are in use, processes, page cache and each
    CPU's own free pages aside, which has those that nobody accounts for."""
    info = meminfo(text)
    listed = 4 * sum(int(pages) for pages in re.findall(r"^ +count: +(\d+)$", text, re.M))
    return {"kernel memory": info["SUnreclaim"] + info["VmallocUsed"] + info["Percpu"],
            "pages in use": in_use(info) - listed}


def memory(vm):
    """kernel_memory() of @vm. Caches are dropped first, and what RCU owes has a moment to come."""
    return kernel_memory(vm.run("sync; echo 3 > /proc/sys/vm/drop_caches; sleep 1; "
                                "echo 3 > /proc/sys/vm/drop_caches; cat /proc/meminfo /proc/zoneinfo", 60,
                                "read kernel memory"))


def leaks(vm):
    """What kmemleak reports, or None where the kernel has none. Scans twice: the first scan of a
    young object never counts."""
    if not vm.ok("test -e /sys/kernel/debug/kmemleak"):
        return None
    return vm.run("k=/sys/kernel/debug/kmemleak; echo scan > $k || die 'kmemleak is off'; sleep 6; "
                  "echo scan > $k || die 'kmemleak is off'; cat $k", 300, "kmemleak scan")


# Connections of peers that have shown no file handle which newer kernels keep, at least.
LEAST_KEPT = 64


def keep_all(vm, number):
    """Has nfsd not evict connections that nobody has shown to be good clients, up to @number of them. Newer kernels
    cannot be told so: of such connections, of any transport, they keep LEAST_KEPT or a few more."""
    if not vm.ok("[ -e /proc/fs/nfsd/max_connections ]"):
        return False
    vm.run(f"echo {number} > /proc/fs/nfsd/max_connections", 10)
    return True
