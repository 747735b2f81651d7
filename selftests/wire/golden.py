# SPDX-License-Identifier: GPL-2.0-only
"""The work that scripts/wire-golden captures, the machines that do it, and how two captures are compared.

One User-Mode Linux machine with time-travel=inf-cpu is client and server, joined by two virtual interfaces, as for
the round trips of scripts/bench: no time passes while anything is computed, so the order of events is that of the
timers and of the scheduler, whatever the host is busy with. The wall clock begins at the same second each time.

What is random is random still: file handles and generations of inodes, verifiers, client and session IDs, state IDs.
And NFS makes names of times and of process numbers: open owners, changes and times of files. A time is that of the
latest tick, and what comes in the moment of a tick may come before it or after; how many threads the kernel has
started depends on its memory. None of this is the transport's. So the first revision does its work twice: the second
time with another date, a microsecond later in each step, and by processes with other numbers. A 32-bit word of a
payload that differs between these two is chosen anew by every run, and is left out of the comparison with the
second revision; all others are in it. Two such words are the same by chance once in 4 billion.

RPCs that are under way together are sent in the order in which the scheduler runs their threads. So the work has one
at a time.
"""

import difflib
import os
import re
import shutil
import subprocess
import sys

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
# Where the parts are that other programs share.
UML_FOLDER = os.path.join(TOP, "selftests", "uml")
GUEST = os.path.join(TOP, "selftests", "vm", "guest")
sys.path.insert(0, UML_FOLDER)
import uml  # noqa: E402

import roce  # noqa: E402

CONFIG = os.environ.get("WIRE_KERNEL", "debug")
WORK = os.path.join(TOP, "build", "golden")
PROGRAM = os.path.join(TOP, "selftests", "wire", "golden.c")
# Milliseconds that a packet takes; the clock of all machines, in nanoseconds.
DELAY = 1
CLOCK = 1700000000 * 10 ** 9
LIMIT = 600
# The second run of a version: by how much its date is later, so that neither seconds nor nanoseconds of any time
# are the same; nanoseconds by which each step is behind; processes that have taken numbers.
AGAIN_LATER = 1000000 * 10 ** 9 + 500012345
AGAIN = """
export SKEW=1777
for i in 1 2 3 4 5 6 7; do
	(exit 0)
done
"""
# Of the client's address, fe80::2 in the guest.
CLIENT = 2

SETUP = uml.BOTH_ENDS + """
nfsd_start() {
	echo '@CLASS@ 20049' > /proc/fs/nfsd/portlist || die "nfsd does not listen on @CLASS@"
	echo 1 > /proc/fs/nfsd/threads || die "nfsd does not start"
	echo Y > /proc/fs/nfsd/v4_end_grace
}
leaks_forget
both_up @DELAY@
export_up 400M
for module in @MODULES@; do
	insmod /job/$module.ko || die "$module does not load"
done
server_up none 3600
rpc_mount() {
	version=$1
	shift
	mkdir -p /mnt
	golden settle /mnt
	case $version in
	3) source=/export more=nolock,mountproto=tcp,mounthost=127.0.0.1 ;;
	*) source=/ more=clientaddr=fe80::2%va ;;
	esac
	/sbin/mount.nfs "[fe80::1%va]:$source" /mnt \\
		-o vers=$version,proto=rdma6,port=20049,rsize=1048576,wsize=1048576,$more,$1 || die "no mount of $version"
}
# cell NAME COMMAND...: what COMMAND puts on the wire, until nothing is mounted any more.
cell() {
	name=$1
	shift
	/job/golden capture va /job/$name.pcap 2> /job/$name.lost &
	capture=$!
	until [ -e /job/$name.pcap.ready ]; do
		kill -0 $capture || die "no capture: $(cat /job/$name.lost)"
		usleep 10000
	done
	("$@") > /job/$name.said 2>&1 || echo "$name: $(tail -n 3 /job/$name.said)" >> /job/failed
	grep -q " /mnt nfs" /proc/mounts && { umount /mnt || echo "$name: umount" >> /job/failed; }
	sleep 3
	kill $capture
	wait $capture || echo "$name: $(cat /job/$name.lost)" >> /job/failed
	rm -rf /export/*
}
everything() {
	rpc_mount $1 actimeo=0 && golden work /mnt && golden sweep /mnt ${2:-4096}
}
inline() {
	echo $2 > /proc/sys/sunrpc/rdma_max_inline_read
	echo $2 > /proc/sys/sunrpc/rdma_max_inline_write
	everything $1 $2
	status=$?
	echo 4096 > /proc/sys/sunrpc/rdma_max_inline_read
	echo 4096 > /proc/sys/sunrpc/rdma_max_inline_write
	return $status
}
recall() {
	rpc_mount $1 && golden recall /mnt /export
}
reconnect() {
	rpc_mount $1 actimeo=0 && golden small /mnt && nfsd_stop && sleep 5 && nfsd_start && golden small /mnt &&
		sleep 3 && golden small /mnt
}
"""

END = """
nfsd_stop
for module in @UNLOAD@; do
	unloaded $module
done
health
"""

# {machine: {cell: what its guest's shell does}}
CELLS = {
    "ours": {
        "v3": "everything 3", "v4.1": "everything 4.1", "v4.2": "everything 4.2",
        "inline-1024": "inline 3 1024", "inline-65536": "inline 4.1 65536",
        "recall": "recall 4.1", "reconnect": "reconnect 4.1"},
    "in-tree-server": {"in-tree-server": "everything 4.1"},
}


class GoldenError(Exception):
    """The comparison cannot be made; the text says why."""


# --- modules -------------------------------------------------------------------------------------

# What a module is built from, and what is never part of it.
OMIT = {"build", ".git", "__pycache__"}


def _files(folder):
    found = set()
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in OMIT]
        found |= {os.path.relpath(os.path.join(where, name), folder) for name in names}
    return found


def _same(a, b):
    with open(a, "rb") as one, open(b, "rb") as other:
        return one.read() == other.read()


def _sync(source, target):
    """Makes @target what @source is; files that are the same keep their times, for make."""
    old, new = _files(target), _files(source)
    for name in old - new:
        os.unlink(os.path.join(target, name))
    for name in new:
        a, b = os.path.join(source, name), os.path.join(target, name)
        if name in old and not os.path.islink(a) and _same(a, b):
            continue
        os.makedirs(os.path.dirname(b), exist_ok=True)
        if os.path.lexists(b):
            os.unlink(b)
        if os.path.islink(a):
            os.symlink(os.readlink(a), b)
        else:
            shutil.copy(a, b)


def _edit(path, *changes):
    """Each of @changes is (pattern, replacement), and has to be found."""
    with open(path) as f:
        text = f.read()
    for pattern, replacement in changes:
        text, n = re.subn(pattern, replacement, text)
        if not n:
            raise GoldenError(f"{path} has no {pattern}")
    with open(path, "w") as f:
        f.write(text)


def _run(command, what, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        raise GoldenError(f"{what}:\n" + "\n".join(done.stdout.splitlines()[-15:]))
    return done.stdout


class Version:
    """A revision of the module, or the working tree, and what is built of it.

    @name      "base" or "after"; its folder under build/golden
    @revision  of git, or "" for the working tree
    @patch     a file that is applied to a copy of that, or ""
    """

    def __init__(self, name, revision, patch=""):
        self.name, self._revision = name, revision
        # Of names as long as each other: debugging information in the module has them.
        self._folder = os.path.join(WORK, f"{name:-<5}")
        self.source = os.path.join(self._folder, "source")
        os.makedirs(self.source, exist_ok=True)
        self.title = "the working tree"
        if revision:
            self.title = _run(["git", "-C", TOP, "log", "-1", "--format=%h %s", f"{revision}^{{commit}}"],
                              f"there is no commit {revision}").strip()
        self._fill()
        if patch:
            with open(patch) as f:
                _run(["patch", "-s", "-p1", "-d", self.source], f"{patch} does not apply", stdin=f)
            self.title += f", with {os.path.basename(patch)}"

    def _fill(self):
        if not self._revision:
            _sync(TOP, self.source)
            return
        new = os.path.join(self._folder, "archive")
        shutil.rmtree(new, ignore_errors=True)
        os.makedirs(new)
        packed = os.path.join(self._folder, "archive.tar")
        _run(["git", "-C", TOP, "archive", "-o", packed, self._revision], "git archive")
        _run(["tar", "-xf", packed, "-C", new], "tar")
        _sync(new, self.source)
        shutil.rmtree(new)
        os.unlink(packed)

    def build(self, kdir):
        """The path of rpcordma.ko."""
        out = _run([os.path.join(self.source, "scripts", "build-module"), ".", kdir,
                    os.path.join(self._folder, "module"), "ARCH=um",
                    "KCXX=" + os.environ.get("KCXX", "g++-12")], f"{self.title} does not build")
        return [line for line in out.splitlines() if line.endswith(".ko") and os.path.isabs(line)][-1]


def in_tree(kdir):
    """The in-tree server as a module that stands beside ours in one kernel.

    No kernel takes two modules with one name for their transports. So a copy of the kernel's source is built with
    a server's class "rdmi", and a client with a number that nobody asks for.
    """
    source = os.path.realpath(os.path.join(kdir, "source", "net", "sunrpc", "xprtrdma"))
    if not os.path.isdir(source):
        raise GoldenError(f"{source} is missing: the kernel's source is not there")
    folder = os.path.join(WORK, "in-tree-server")
    result = os.path.join(folder, "rpcrdma.ko")
    if os.path.exists(result) and os.stat(result).st_mtime > os.stat(os.path.join(kdir, "linux")).st_mtime:
        return result
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder, ignore=lambda _, names: [n for n in names if n.endswith((".o", ".ko", ".cmd"))])
    _edit(os.path.join(folder, "svc_rdma_transport.c"), (r'xcl_name = "rdma"', 'xcl_name = "rdmi"'),
          (r"xcl_ident = XPRT_TRANSPORT_RDMA\b", "xcl_ident = 0x701"))
    _edit(os.path.join(folder, "svc_rdma_backchannel.c"),
          (r"\bXPRT_TRANSPORT_BC_RDMA\b", "(0x701 | XPRT_TRANSPORT_BC)"))
    _edit(os.path.join(folder, "svc_rdma.c"), (r'"sunrpc/svc_rdma"', '"sunrpc/svc_rdmi"'))
    _edit(os.path.join(folder, "transport.c"), (r'register_sysctl\("sunrpc"', 'register_sysctl("sunrpc/rdmi"'),
          (r"(\.ident\s*)= XPRT_TRANSPORT_RDMA\b", r"\1= 0x702"))
    _run(["make", "-C", kdir, f"M={folder}", "ARCH=um", "CONFIG_SUNRPC_XPRT_RDMA=m", "modules"],
         "the in-tree transport does not build outside of the kernel",
         env={k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))})
    return result


class Machine(uml.Machine):
    """One whose addresses are the same each time: the kernel's memory lies where the host's loader leaves room."""

    def start(self):
        self._command[:0] = ["setarch", "-R"]
        return super().start()


# --- runs ----------------------------------------------------------------------------------------

def kernel():
    """Its build folder: WIRE_KDIR, or what scripts/uml-kernel makes."""
    return os.environ.get("WIRE_KDIR") or uml.kernel(CONFIG)


def prepare():
    """Makes what all machines have in common, before several of them start at once."""
    uml.root()
    uml.compiled(PROGRAM, os.path.join(WORK, "golden"))


class Run:
    """What one boot of a machine put on the wire: {cell: [(stream, [Line])]}, and what went wrong."""

    def __init__(self, machine, kdir, cells, modules, title, before="", again=False):
        self.cells, self.wrong, self.folder = {}, [], ""
        program = os.path.join(WORK, "golden")
        script = SETUP + (AGAIN if again else "") + before
        script += "".join(f"cell {name} {do}\n" for name, do in cells.items()) + END
        names = [os.path.basename(path)[:-3] for path in modules]
        for word, value in (("@CLASS@", "rdmi" if machine == "in-tree-server" else "rdma"),
                            ("@DELAY@", f"{DELAY}ms"), ("@MODULES@", " ".join(names)),
                            ("@UNLOAD@", " ".join(reversed(names)))):
            script = script.replace(word, value)
        clock = CLOCK + (AGAIN_LATER if again else 0)
        # A name of the same length each time: it is part of the kernel's command line.
        self.folder = os.path.join(WORK, "runs", f"{title:-<6.6}")
        shutil.rmtree(os.path.join(self.folder, machine), ignore_errors=True)
        guest = Machine(machine, self.folder, kdir, "PATH=/job:$PATH\n" + script,
                            [os.path.join(GUEST, "lib.sh"), program, *modules], memory="1500M",
                            arguments=["time-travel=inf-cpu", f"time-travel-start={clock}",
                                       "nfs.callback_tcpport=40000"])
        guest.start()
        guest.wait(LIMIT, "work")
        self.wrong += guest.file("failed").splitlines()
        if judged := [line for line in guest.judge() if ": Checking " not in line]:
            self.wrong.append("; ".join(judged) + f" (see {guest.log})")
        for name in cells:
            path = os.path.join(guest.folder, f"{name}.pcap")
            if not os.path.exists(path):
                continue
            try:
                streams = roce.Capture(path, CLIENT).streams()
            except roce.Damaged as error:
                self.wrong.append(f"{name}: {error}")
                continue
            streams.append(("what the operations returned",
                            [roce.Line(line) for line in guest.file(f"{name}.said").splitlines()]))
            self.cells[name] = streams


# --- comparison ----------------------------------------------------------------------------------

def _words(data):
    return [data[i:i + 4] for i in range(0, len(data), 4)]


def _mask(a, b):
    """The numbers of the words in which two payloads of the same length differ."""
    if a == b:
        return set()
    return {i for i, (one, other) in enumerate(zip(_words(a), _words(b))) if one != other}


def _texts(lines):
    return [f"{line.text}{f' <{len(line.payload)}>' if line.payload else ''}" for line in lines]


def _diff(a, b, names, most=60):
    lines = list(difflib.unified_diff(a, b, *names, n=3, lineterm=""))
    return lines[:most] + ([f"... and {len(lines) - most} lines more"] if len(lines) > most else [])


def differences(base, again, after, names=("base", "after")):
    """What differs of one cell: lines to print; none when all is equal.

    @base and @again are of one version and tell what is chosen anew each time; @again may be None.
    """
    found, volatile = [], 0
    again = again or base
    for kind, one, other, titles in (("is not the same each time", base, again, (names[0], names[0] + ", again")),
                                     ("differs", base, after, names)):
        if [name for name, _ in one] != [name for name, _ in other]:
            return [f"other connections: {kind}", *_diff([n for n, _ in one], [n for n, _ in other], titles)], 0
        for (name, lines), (_, theirs) in zip(one, other):
            a, b = _texts(lines), _texts(theirs)
            if a != b:
                found += [f"{name}: {kind}", *_diff(a, b, titles)]
        if found:
            return found, 0
    for (name, lines), (_, second), (_, theirs) in zip(base, again, after):
        for number, (line, twice, changed) in enumerate(zip(lines, second, theirs)):
            mask = _mask(line.payload, twice.payload)
            volatile += len(mask)
            new = sorted(_mask(line.payload, changed.payload) - mask)
            if new and len(found) < 40:
                found.append(f"{name}, line {number + 1}: {line.text} <{len(line.payload)}>: "
                             f"{len(new)} words of the payload differ")
                for i in new[:4]:
                    found += [f"-{names[0]}: byte {4 * i}: {line.payload[4 * i:4 * i + 4].hex()}",
                              f"+{names[1]}: byte {4 * i}: {changed.payload[4 * i:4 * i + 4].hex()}"]
    return found, volatile


def counts(streams):
    """How much there is to compare, in words."""
    lines = [line for name, lines in streams for line in lines if name.endswith("by RPC")]
    return (f"{len(lines)} messages, {sum(len(line.payload) for line in lines)} bytes, "
            f"{sum(name.endswith('by RPC') for name, _ in streams)} connections")
