# SPDX-License-Identifier: GPL-2.0-only
"""`rpcordma report`: one text file with what a bug report needs.

What is in it is listed here and nowhere else: FILES, COMMANDS, and the outputs of the other subcommands. No file of a
user, no key, no environment is among them. With masking, names of this host and its peers, addresses, and paths of exports
and mounts become words such as "address-1", the same one each time; a table of them is not kept.
"""

import datetime
import fnmatch
import re

from . import VERSION, check, state, status, system

# Patterns, a folder at a time.
FILES = """
    etc/os-release
    proc/cmdline proc/version proc/meminfo proc/interrupts proc/modules
    proc/sys/kernel/tainted proc/sys/vm/min_free_kbytes
    proc/sys/sunrpc/* proc/sys/sunrpc/svc_rdma/*
    proc/self/mountstats
    proc/fs/nfsd/portlist proc/fs/nfsd/threads proc/fs/nfsd/versions proc/fs/nfsd/pool_stats
    proc/fs/nfsd/max_block_size proc/fs/nfsd/nfsv4leasetime proc/fs/nfsd/nfsv4gracetime
    proc/net/rpc/nfs proc/net/rpc/nfsd
    sys/module/rpcordma/parameters/* sys/module/rpcordma/srcversion sys/module/rpcordma/version
    sys/module/rpcordma/taint sys/module/rpcordma/refcnt sys/module/rpcrdma/refcnt
    sys/kernel/security/lockdown
    sys/kernel/debug/rpcordma/stats
    sys/kernel/debug/rpcordma/server/connections sys/kernel/debug/rpcordma/server/counters
    sys/kernel/debug/sunrpc/rpc_clnt/*/tasks
    sys/kernel/sunrpc/xprt-switches/*/*/xprt_info sys/kernel/sunrpc/xprt-switches/*/*/xprt_state
    sys/kernel/sunrpc/xprt-switches/*/*/dstaddr
    sys/class/infiniband/*/fw_ver sys/class/infiniband/*/node_type sys/class/infiniband/*/hca_type
    sys/class/infiniband/*/ports/*/state sys/class/infiniband/*/ports/*/link_layer
    sys/class/infiniband/*/ports/*/rate sys/class/infiniband/*/ports/*/counters/*
    sys/class/infiniband/*/ports/*/hw_counters/*
    sys/class/net/*/mtu sys/class/net/*/operstate
    etc/modprobe.d/rpcordma.conf
""".split()

COMMANDS = (("rdma", "link"), ("rdma", "dev"), ("rdma", "resource"), ("rdma", "resource", "show", "qp"),
            ("rdma", "resource", "show", "cm_id"), ("modinfo", "rpcordma"))

# Of the kernel's log the lines about this module, its neighbours, and what goes wrong in any.
LOG = re.compile(r"rpcordma|rpcrdma|sunrpc|\bRPC\b|svcrdma|\bnfsd?\b|lockd|rxe|siw|mlx|infiniband|rdma|"
                 r"BUG:|WARNING:|Oops|Call Trace|blocked for more than|out of memory|Tainted|^.{0,20} \? |\+0x", re.I)
LOG_LINES = 2000
FILE_BYTES = 256 << 10

# Of the kernel's command line, what is no secret of anybody's: names alone of what else is there.
CMDLINE = re.compile(r"(ro|rw|quiet|root|console|iommu|intel_iommu|amd_iommu|lockdown|module\S*|rpcordma\S*|sunrpc\S*|"
                     r"debug\S*|hugepages\S*|mitigations|init_on_alloc|init_on_free|swiotlb|mem|nr_cpus|isolcpus)(=.*)?$")


def expand(machine, pattern):
    """The files below the root that match @pattern, in which a "*" stands for (part of) one name."""
    found = [""]
    for part in pattern.split("/"):
        if "*" not in part:
            found = [f"{path}/{part}" for path in found]
            continue
        found = [f"{path}/{name}" for path in found for name in machine.names(path.lstrip("/"))
                 if fnmatch.fnmatchcase(name, part)]
    return [path.lstrip("/") for path in found if machine.exists(path.lstrip("/"))]


class Mask:
    """Puts words in the place of addresses and of names that learn() was told."""

    _IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
    _IPV6 = re.compile(r"(?<![\w:.])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:])")

    def __init__(self):
        self._words = {}
        self._names = {}

    def learn(self, kind, name):
        """@name is to be masked wherever it stands by itself."""
        if name and len(name) > 1 and name != "/":
            self._names.setdefault(name, kind)

    def _word(self, kind, text):
        if text not in self._words:
            count = sum(word.startswith(kind + "-") for word in self._words.values())
            self._words[text] = f"{kind}-{count + 1}"
        return self._words[text]

    def __call__(self, text):
        # The longest first: one may begin as another.
        for name in sorted(self._names, key=len, reverse=True):
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])",
                          lambda m: self._word(self._names[m.group(0)], m.group(0)), text)

        def address(m):
            # A time of day, a PCI address or a MAC is none, nor is what has no digit.
            plain = m.group(0)
            if plain in ("::", "::1", "127.0.0.1", "0.0.0.0") or re.fullmatch(r"\d\d:\d\d:\d\d", plain):
                return plain
            return self._word("address", plain)

        return self._IPV6.sub(address, self._IPV4.sub(address, text))


def _masker(machine, now):
    mask = Mask()
    host = now["host"]
    mask.learn("host", host)
    mask.learn("host", (host or "").partition(".")[0])
    for mount in now["client"]["mounts"]:
        mask.learn("mount", mount["mount"])
        server, colon, path = mount["export"].partition(":/")
        if colon:
            mask.learn("host", server.strip("[]"))
            mask.learn("export", "/" + path)
    return mask


def _cmdline(text):
    return " ".join(word if CMDLINE.fullmatch(word) else word.partition("=")[0] + "=..." if "=" in word else word
                    for word in text.split()) + "\n"


# mountstats has every mount of this machine, and others are nobody's business.
def _mountstats(text):
    blocks = re.split(r"(?m)^(?=device )", text)
    return "".join(b for b in blocks if "xprt:\trdma" in b or not b.startswith("device "))


def _section(title, text):
    return f"\n=== {title} ===\n{text if text.endswith(chr(10)) or not text else text + chr(10)}"


def make(machine, masked, when=None):
    """The report, a text. @when: a datetime; now."""
    now = state.collect(machine)
    when = when or datetime.datetime.now(datetime.timezone.utc)
    parts = [f"rpcordma report, made by rpcordma {VERSION} at {when:%Y-%m-%d %H:%M:%S} UTC\n"
             f"Addresses and names of hosts, exports and mounts are "
             f"{'masked' if masked else 'as they are: --mask puts words in their place'}. Please read it before you send it.\n",
             # Wide enough for whole addresses, which a mask would not know otherwise.
             _section("rpcordma status", "\n".join(status.text(now, 200))),
             _section("rpcordma check", "\n".join(check.text(check.findings(machine, now)))),
             _section("rpcordma status --json", status.as_json(now))]
    missing = []
    for pattern in FILES:
        paths = expand(machine, pattern)
        if not paths:
            missing.append("/" + pattern)
        for path in paths:
            text = machine.read(path)
            if text is None:
                missing.append(f"/{path} ({machine.sources['/' + path]})")
                continue
            if path == "proc/cmdline":
                text = _cmdline(text)
            elif path == system.MOUNTSTATS:
                text = _mountstats(text)
            if len(text) > FILE_BYTES:
                text = text[:FILE_BYTES] + f"\n[cut: {len(text)} characters]\n"
            parts.append(_section("/" + path, text))
    for command in COMMANDS:
        text = machine.run(*command)
        if text is None:
            missing.append(" ".join(command) + f" ({machine.sources[' '.join(command)]})")
        else:
            parts.append(_section("$ " + " ".join(command), text))
    log = machine.run("dmesg")
    if log is None:
        missing.append(f"dmesg ({machine.sources['dmesg']})")
    else:
        lines = [line for line in log.splitlines() if LOG.search(line)]
        parts.append(_section(f"$ dmesg: {min(len(lines), LOG_LINES)} of {len(log.splitlines())} lines",
                              "\n".join(lines[-LOG_LINES:])))
    parts.append(_section("not there, or not readable", "\n".join(missing)))
    text = "".join(parts)
    if masked:
        mask = _masker(machine, now)
        text = mask(text)
    return text


def default_name(when=None):
    when = when or datetime.datetime.now(datetime.timezone.utc)
    return f"rpcordma-report-{when:%Y%m%d-%H%M%S}.txt"
