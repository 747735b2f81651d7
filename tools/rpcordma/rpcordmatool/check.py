# SPDX-License-Identifier: GPL-2.0-only
"""`rpcordma check`: what an administrator gets wrong, and the line to type that mends it.

Each look_...() says what it found about one thing, as Findings. A thing that is not of this machine's role (an nfsd that
does not run, a mount that there is not) gives none. Nothing is changed.
"""

import fnmatch
import gzip
import lzma
import os
import re
import resource
import shlex
import textwrap
import zlib
from dataclasses import dataclass

from . import parse, state, system

# In the order of their weight: RDMA does not work; it works badly, or will not after the next boot; worth knowing; well.
ERROR, WARNING, NOTE, OK = "error", "warning", "note", "ok"
# Exit status of the command, by the worst finding.
WIDTH = 80
EXIT = {ERROR: 2, WARNING: 1, NOTE: 0, OK: 0}

MODPROBE_FOLDERS = ("etc/modprobe.d", "run/modprobe.d", "usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d")
MODULE_FILES = ("rpcordma.ko", "rpcordma.ko.xz", "rpcordma.ko.zst", "rpcordma.ko.gz")
# A RoCE packet of 4096 bytes, with its headers.
ROCE_4096 = 4096 + 104
# Bytes that a process must be able to lock for rping and ib_*_bw; the kernel's NFS does not count against it.
MEMLOCK = 64 << 20
# Options of a mount that it has without their being said.
FOUND_OUT = re.compile(r"(rw|relatime|hard|local_lock=none)$|(addr|clientaddr|mountaddr|namlen)=")
FEW_REQUESTS = 16
FEW_SLOTS = 16


@dataclass
class Finding:
    weight: str
    what: str
    # Lines to type, as root; empty when there is nothing to mend.
    mend: tuple = ()


def _modinfo(image, key):
    m = re.search(rb"\0" + key + rb"=([^\0]*)\0", image)
    return m.group(1).decode(errors="replace") if m else None


def installed(machine, release):
    """The path of our module for the kernel @release, or None."""
    top = f"lib/modules/{release}"
    index = machine.word(f"{top}/modules.dep")
    for line in (index or "").splitlines():
        path = line.partition(":")[0]
        if os.path.basename(path) in MODULE_FILES:
            return f"{top}/{path}"
    for folder in ("updates", "updates/dkms", "extra", "kernel/net/sunrpc/xprtrdma"):
        for name in MODULE_FILES:
            if machine.exists(f"{top}/{folder}/{name}"):
                return f"{top}/{folder}/{name}"
    return None


def _image_fields(machine, path):
    """{"vermagic", "srcversion": text or None} of the module at @path. What is packed in a way that Python does not know,
    modinfo(8) may."""
    names = ("vermagic", "srcversion")
    opener = {".xz": lzma.open, ".gz": gzip.open, ".ko": open}.get(os.path.splitext(path)[1])
    if not opener:
        return {name: (machine.run("modinfo", "-F", name, "/" + path) or "").strip() or None for name in names}
    try:
        with opener(machine.path(path), "rb") as f:
            image = f.read()
    except (OSError, lzma.LZMAError, zlib.error, EOFError):
        image = b""
    return {name: _modinfo(image, name.encode()) for name in names}


def _mounted_over_rdma(machine, now):
    """([mount point], [line that mounts it again]) of what is mounted over RDMA, both in the order of the mounts."""
    found = {}
    for line in (machine.read("proc/mounts", note=False) or "").splitlines():
        words = line.split()
        if len(words) >= 4 and words[2] in ("nfs", "nfs4"):
            found[parse.unescape(words[1])] = words
    table = {parse.unescape(words[1]) for words in map(str.split, (machine.read("etc/fstab", note=False) or "").splitlines())
             if len(words) >= 3 and not words[0].startswith("#")}
    points, lines = [], []
    for mount in now["client"]["mounts"]:
        point = mount["mount"]
        points.append(shlex.quote(point))
        if point in table or point not in found:
            line = f"mount {points[-1]}"
        else:
            export, _, kind, options = found[point][:4]
            options = ",".join(o for o in options.split(",") if not FOUND_OUT.match(o))
            line = f"mount -t {kind} -o {shlex.quote(options)} {shlex.quote(parse.unescape(export))} {points[-1]}"
        if line not in lines:
            lines.append(line)
    return points, lines


def _replace(machine, now, command):
    """Lines that run @command, which unloads the transport, with all that uses it stopped before and started behind it."""
    points, again = _mounted_over_rdma(machine, now)
    lines = [f"umount {' '.join(reversed(points))}"] if points else []
    serves = now["server"]["threads"] and any(line.startswith("rdma") for line in now["server"]["listeners"] or [])
    lines += ["systemctl stop nfs-server"] if serves else []
    lines.append(command)
    lines += ["systemctl start nfs-server"] if serves else []
    return (*lines, *again)


# Where the scripts for bpftrace are: installed, and in the sources.
_BPFTRACE = ("../bpftrace", "../../bpftrace")


def _as_they_happen(now, what):
    """Lines that show events as they happen: @what, "connections" or "errors", of the transport that is loaded."""
    ours = not (now["module"] and now["module"]["in_tree"])
    if ours and what == "errors":
        # Failures are few; what comes with every call is left out.
        begin = ("echo 1 > events/rpcordma/enable; echo 0 | tee events/rpcordma/rpcordma_{marshal,post,receive_posted,"
                 "completion,region,reply,decode,encode,*mapped}/enable > /dev/null")
    elif ours:
        begin = "echo 1 > events/rpcordma/rpcordma_connection/enable"
    else:
        names = "{reply_*_err,err_*}" if what == "errors" else "{connect,disconnect}"
        begin = f"echo 1 | tee events/rpcrdma/xprtrdma_{names}/enable > /dev/null"
    yield f"cd /sys/kernel/tracing; {begin}; cat trace_pipe"
    yield f"echo 0 > /sys/kernel/tracing/events/{'rpcordma' if ours else 'rpcrdma'}/enable    # afterwards"
    here = os.path.dirname(os.path.realpath(__file__))
    scripts = [os.path.normpath(os.path.join(here, folder, "connections.bt")) for folder in _BPFTRACE]
    for script in filter(os.path.exists, scripts) if ours else ():
        yield f"bpftrace {shlex.quote(script)}    # connections that are lost, and why"


def look_module(machine, now):
    """Which transport is loaded, and whether it is the one that is installed."""
    release = now["kernel"]
    module = now["module"]
    path = installed(machine, release)
    others = [name for name in machine.names("lib/modules") if name != release and installed(machine, name)]
    build = f"make install KDIR=/lib/modules/{release}/build"
    if not path:
        # One that is loaded works, either of them.
        weight = WARNING if module else ERROR
        text = f"rpcordma is not installed for the kernel that runs, {release}"
        if others:
            text += f"; it is for {', '.join(others)}"
        yield Finding(weight, text, (f"apt install linux-headers-{release}", build))
    else:
        fields = _image_fields(machine, path)
        vermagic = (fields["vermagic"] or "").split(" ")[0]
        loaded = machine.word("sys/module/rpcordma/srcversion")
        if vermagic and vermagic != release:
            yield Finding(WARNING if module else ERROR,
                          f"/{path} was built for {vermagic}; the kernel that runs is {release}", (build,))
        elif loaded and fields["srcversion"] and loaded != fields["srcversion"]:
            yield Finding(WARNING, "the module that is loaded is not the one that is installed",
                          _replace(machine, now, "rmmod rpcordma && modprobe rpcordma"))
    if not module:
        if path:
            yield Finding(WARNING, "no RDMA transport is loaded", ("modprobe rpcordma",))
    elif module["in_tree"]:
        yield Finding(WARNING, "the in-tree transport, rpcrdma, is loaded; rpcordma cannot be beside it",
                      _replace(machine, now, "rmmod rpcrdma && modprobe rpcordma"))
    else:
        yield Finding(OK, f"rpcordma is loaded, on Linux {release}")
    lockdown = now["lockdown"]
    if lockdown not in (None, "none") and not module:
        yield Finding(WARNING, f"the kernel is locked down ({lockdown}): it loads modules only that are signed with a "
                      "key that it trusts", ("mokutil --import /var/lib/dkms/mok.pub",))


def look_aliases(machine, now):
    """Whether a mount, and nfsd, load ours when they ask for "rpcrdma"."""
    aliases, install = set(), False
    for folder in MODPROBE_FOLDERS:
        for name in machine.names(folder):
            if not name.endswith(".conf"):
                continue
            for line in (machine.read(f"{folder}/{name}", note=False) or "").splitlines():
                words = line.split()
                if words[:2] == ["install", "rpcrdma"] and "rpcordma" in line:
                    install = True
                elif len(words) >= 3 and words[0] == "alias" and words[2] in ("rpcrdma", "rpcordma"):
                    aliases.add(words[1])
    lacking = [name for name in ("rpcrdma6", "xprtrdma", "svcrdma")
               if not any(fnmatch.fnmatchcase(name, alias) for alias in aliases)]
    if install and not lacking:
        yield Finding(OK, "mounts and nfsd load rpcordma by themselves")
        return
    what = "a mount or nfsd loads the in-tree transport" if not install else f"nobody finds {', '.join(lacking)}"
    yield Finding(WARNING, f"the names of the in-tree transport do not mean rpcordma (/etc/modprobe.d/rpcordma.conf): {what}",
                  ("make install", "modprobe rpcordma           # until then, before the mount"))


def _ports(machine):
    """[(device, port, state, link layer, network device or None)]."""
    top = "sys/class/infiniband"
    for device in machine.names(top):
        for port in machine.names(f"{top}/{device}/ports"):
            folder = f"{top}/{device}/ports/{port}"
            yield (device, port, (machine.word(f"{folder}/state") or "?").rpartition(": ")[2],
                   machine.word(f"{folder}/link_layer") or "?", machine.word(f"{folder}/gid_attrs/ndevs/0") or None)


def _some_netdev(machine):
    """A network device that could carry soft RoCE, for an example that fits this machine."""
    return next((n for n in machine.names("sys/class/net") if n != "lo" and not n.startswith(("veth", "docker"))), "eth0")


def look_device(machine, now):
    """RDMA devices, their ports, and the MTU below them."""
    ports = list(_ports(machine))
    if not ports:
        netdev = _some_netdev(machine)
        yield Finding(ERROR, "there is no RDMA device; soft RoCE makes one of any Ethernet device",
                      ("apt install rdma-core", f"rdma link add rxe0 type rxe netdev {netdev}"))
        return
    active = [port for port in ports if port[2] == "ACTIVE"]
    for device, port, word, layer, netdev in ports:
        if word != "ACTIVE":
            yield Finding(WARNING if active else ERROR, f"port {port} of the RDMA device {device} is {word}, not ACTIVE",
                          (f"ip link set {netdev} up" if netdev else "rdma link",))
            continue
        mtu = parse.number(machine.word(f"sys/class/net/{netdev}/mtu")) if netdev else None
        if layer == "Ethernet" and mtu is not None and mtu < 1280:
            yield Finding(WARNING, f"{netdev}, below {device}, has an MTU of {mtu}: RDMA packets of 512 bytes or less",
                          (f"ip link set {netdev} mtu 1500",))
        elif layer == "Ethernet" and mtu is not None and mtu < ROCE_4096:
            yield Finding(NOTE, f"{netdev}, below {device}, has an MTU of {mtu}: RDMA packets of 1024 or 2048 bytes. From "
                          f"{ROCE_4096} on they have 4096, if each switch and the other end take that",
                          (f"ip link set {netdev} mtu {ROCE_4096}",))
        else:
            yield Finding(OK, f"RDMA device {device}, port {port}: ACTIVE"
                          f"{f', on {netdev} with an MTU of {mtu}' if mtu else ''}")


def look_server(machine, now):
    """nfsd, if it runs."""
    server = now["server"]
    if not server["threads"]:
        return
    if not any(line.startswith("rdma") for line in server["listeners"] or []):
        yield Finding(WARNING, "nfsd runs and does not listen on RDMA",
                      ('echo "rdma 20049" > /proc/fs/nfsd/portlist',
                       "systemctl edit nfs-server    # at each start: ExecStartPost=, as \"Installing\" has it"))
    else:
        yield Finding(OK, f"nfsd listens on RDMA, with {server['threads']} threads")
    if server["threads"] < 4:
        yield Finding(WARNING, f"nfsd has {server['threads']} threads: calls wait for one",
                      ("echo 16 > /proc/fs/nfsd/threads",))
    requests = server["settings"].get("max_requests")
    if requests is not None and requests < FEW_REQUESTS:
        yield Finding(WARNING, f"max_requests is {requests}: each client has so many calls at once, and no more",
                      ("echo 64 > /proc/sys/sunrpc/svc_rdma/max_requests",))
    counters = server["counters"]
    if counters.get("refused"):
        yield Finding(NOTE, f"{counters['refused']} connections were refused since the module was loaded: too many waited "
                      "to be accepted",
                      ("echo 64 > /proc/fs/nfsd/threads",
                       "echo 4096 > /sys/module/rpcordma/parameters/server_accept_queue"))
    if counters.get("debt"):
        yield Finding(NOTE, f"Receives could not be posted at once {counters['debt']} times since the module was loaded: memory "
                      "was short",
                      ("sysctl -w vm.min_free_kbytes=262144",))


def look_client(machine, now):
    """Mounts over RDMA, and the sizes of queues and messages."""
    client = now["client"]
    settings = client["settings"]
    slots = settings.get("rdma_slot_table_entries")
    if slots is not None and slots < FEW_SLOTS:
        yield Finding(WARNING, f"rdma_slot_table_entries is {slots}: a mount has so many calls at once, and no more",
                      ("echo 128 > /proc/sys/sunrpc/rdma_slot_table_entries    # for mounts from then on",))
    for name in ("rdma_max_inline_read", "rdma_max_inline_write"):
        if settings.get(name, 4096) < 4096:
            yield Finding(WARNING, f"{name} is {settings[name]}: calls and replies that are longer need RDMA of their own",
                          (f"echo 4096 > /proc/sys/sunrpc/{name}",))
    for c in client["connections"]:
        # Of sunrpc's queues what waits for a connection; only where it has them is an idle connection known to be one.
        waiting = None if c["queues"] is None else max(sum(c["queues"].values()), c["credits"]["in_use"] or 0)
        if c["state"] == "down" and waiting == 0:
            # A client that went is none of nfsd's business.
            if c["role"] == "client":
                yield Finding(NOTE, f"the connection to {c['peer']} is down: idle; the next call opens it again")
        elif c["state"] == "down":
            calls = f", and {waiting} call{'s wait' if waiting > 1 else ' waits'} for it" if waiting else ""
            yield Finding(WARNING, f"the connection to {c['peer']} is down{calls}",
                          ("rdma link; ping -c 1 " + parse.split_address(c["peer"])[0],))
        if c["reconnects"] and c["reconnects"] >= 10:
            yield Finding(NOTE, f"the connection to {c['peer']} was made again {c['reconnects']} times since the mount",
                          tuple(_as_they_happen(now, "connections")))
        if c["errors"]:
            yield Finding(NOTE, f"{c['errors']} calls to {c['peer']} failed in the transport since the mount",
                          tuple(_as_they_happen(now, "errors")))


def look_parameters(machine, now):
    """Parameters of the module that do not go together."""
    module = now["module"]
    if not module or module["in_tree"]:
        return
    values = module["parameters"]
    folder = "/sys/module/rpcordma/parameters"
    if values.get("server_rnr_retry_count") == "0":
        yield Finding(WARNING, "server_rnr_retry_count is 0: a Receive that is missing costs the connection",
                      (f"echo 7 > {folder}/server_rnr_retry_count",))
    sizes = [now["client"]["settings"].get(n, 4096) for n in ("rdma_max_inline_read", "rdma_max_inline_write")]
    sizes.append(now["server"]["settings"].get("max_req_size", 4096))
    if values.get("version2", "0") != "0" and min(sizes) < 4096:
        yield Finding(WARNING, f"version2 is {values['version2']}, and an inline size is under 4096: version 1 is spoken",
                      ("echo 4096 | tee /proc/sys/sunrpc/rdma_max_inline_{read,write}",))
    if values.get("version2") == "0" and values.get("version2_rtr", "0") != "0":
        yield Finding(WARNING, f"version2_rtr is {values['version2_rtr']}, and version2 is 0: nothing is done of it",
                      (f"echo 1 > {folder}/version2",))
    for name in ("send_write_max", "send_read_max"):
        if values.get(name, "0") != "0" and values.get("version2_rtr") != "7":
            yield Finding(WARNING, f"{name} is {values[name]}, and version2_rtr is not 7: no payload goes in Sends",
                          (f"echo 7 > {folder}/version2_rtr    # at the server, too",))
    if values.get("send_read_max", "0") != "0" and values.get("version2_pages") == "0":
        yield Finding(WARNING, f"send_read_max is {values['send_read_max']}, and version2_pages is 0: no reply's payload comes "
                      "in Sends", (f"echo 4 > {folder}/version2_pages",))


def look_machine(machine, now):
    """What is about this machine rather than the transport."""
    if not machine.is_root():
        yield Finding(NOTE, "this is not root: debugfs and some of sysfs cannot be read", ("sudo rpcordma check",))
    if machine.live:
        soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        if soft != resource.RLIM_INFINITY and soft < MEMLOCK and not machine.is_root():
            yield Finding(NOTE, f"a process may lock {soft >> 10} KiB: too little for rping and perftest, though NFS does "
                          "not need it", ("ulimit -l unlimited",))
    module = now["module"]
    if module and not module["in_tree"] and machine.is_root() and not machine.exists(system.OURS):
        yield Finding(NOTE, "debugfs is not mounted: versions, regions and Receives are not shown",
                      ("mount -t debugfs debugfs /sys/kernel/debug",))


LOOKS = (look_module, look_aliases, look_device, look_client, look_server, look_parameters, look_machine)


def findings(machine, now=None):
    """All of them, the worst first; of one weight in the order of LOOKS."""
    now = now or state.collect(machine)
    found = [finding for look in LOOKS for finding in look(machine, now)]
    return sorted(found, key=lambda finding: list(EXIT).index(finding.weight))


def text(found):
    lines = []
    for finding in found:
        lines += textwrap.wrap(f"{finding.weight + ':':8} {finding.what}", WIDTH, subsequent_indent=" " * 9,
                               break_on_hyphens=False, break_long_words=False)
        # As they are: they are to be copied.
        lines += [f"{'':9}  {line}" for line in finding.mend]
    counts = [f"{sum(f.weight == weight for f in found)} {weight}s" for weight in (ERROR, WARNING, NOTE)]
    return lines + [", ".join(counts)]


def status(found):
    return max((EXIT[finding.weight] for finding in found), default=0)
