# SPDX-License-Identifier: GPL-2.0-only
"""User-Mode Linux machines: what scripts/uml-kunit and scripts/uml-pair have in common.

A machine is one process of a kernel that scripts/uml-kernel built. Its root is a folder of this
project's build tree, mounted read-only; a job folder of its own is mounted at /job, read and
write, and carries the script to run, the modules to load and every result. The console is logged,
and any complaint of the kernel in it fails the run.

What is tested, and what the results mean, is not here.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(TOP, "scripts"))
sys.dont_write_bytecode = True

from vmlib import kernlog  # noqa: E402

BUILD = os.environ.get("UML_BUILD", os.path.join(TOP, "build", "uml"))

# What the debug kernel's checkers say beyond the common list.
MORE_BAD = re.compile(
    r"ODEBUG|suspicious RCU|suspicious rcu|sleeping function called|turning off the locking|"
    r"kmemleak: \d+ new suspected|DEBUG_LOCKS_WARN_ON|Attempt to release alive|segfault|"
    r"INFO: trying to register non-static key")

# Programs of the guest and the package that each comes from.
PROGRAMS = {
    "ip": "iproute2", "rdma": "iproute2", "mount.nfs": "nfs-common", "rpc.statd": "nfs-common",
    "exportfs": "nfs-kernel-server", "rpc.mountd": "nfs-kernel-server",
    "rpcbind": "rpcbind", "kmod": "kmod",
}

# Taint bits that a healthy run has: out-of-tree module (12), unsigned module (13), KUnit (18).
HEALTHY_TAINT = 1 << 12 | 1 << 13 | 1 << 18

INIT = """#!/bin/sh
# First process of the guest: mounts what every script needs, runs the job, stops the machine.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
mount -t devtmpfs dev /dev
for d in /tmp /run /mnt /export /var/lib/nfs /etc; do
	if [ $d = /etc ]; then
		cp -a /etc /tmp/etc
		mount -t tmpfs tmp /etc
		cp -a /tmp/etc/. /etc/
		rm -rf /tmp/etc
	else
		mount -t tmpfs -o mode=755 tmp $d
	fi
done
mkdir -p /dev/shm /run/rpcbind /run/sendsigs.omit.d
mkdir -p /var/lib/nfs/rpc_pipefs /var/lib/nfs/sm /var/lib/nfs/sm.bak /var/lib/nfs/v4recovery
job=$(sed -n 's/.*\\bjob=\\([^ ]*\\).*/\\1/p' /proc/cmdline)
mount -t hostfs -o "$job" none /job || echo "init: no /job"
sh /job/run.sh
echo "job ended with status $?" > /job/status
poweroff -f
"""

ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nstatd:x:65533:65534::/:/bin/sh\n"
              "_rpc:x:65532:65534::/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n10.0.0.1 server\n10.0.0.2 client\n",
    "nsswitch.conf": "hosts: files\npasswd: files\ngroup: files\nprotocols: files\n"
                     "services: files\nrpc: files\nnetgroup: files\n",
    "protocols": "ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nipv6 41 IPv6\n",
    "services": "sunrpc 111/tcp portmapper\nsunrpc 111/udp portmapper\nnfs 2049/tcp\nnfsrdma 20049/tcp\n",
    "rpc": "portmapper 100000\nnfs 100003\nmountd 100005\nnlockmgr 100021\nstatus 100024\n"
           "nfs_acl 100227\n",
}


class UmlError(Exception):
    """The run cannot go on; the text says what is wrong and what to do."""


def kernel(config):
    """Builds the kernel if needed; returns its build folder."""
    done = subprocess.run([os.path.join(TOP, "scripts", "uml-kernel"), config],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise UmlError(f"scripts/uml-kernel {config} failed, see above")
    if "up to date" not in done.stdout:
        print(done.stdout, end="", flush=True)
    return os.path.join(BUILD, config)


def build_module(source, kdir, out, *variables):
    """Builds the module of folder @source against the UML kernel @kdir; returns the .ko's path.

    Compilers are silent unless something is wrong: a warning is an error.
    """
    command = [os.path.join(TOP, "scripts", "build-module"), source, kdir, out, "ARCH=um",
               "KCXX=" + os.environ.get("KCXX", "g++-12"), *variables]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = done.stdout.splitlines()
    if done.returncode or any(": warning:" in line or "WARNING:" in line for line in lines):
        print(done.stdout, end="", flush=True)
        raise UmlError(f"building the module of {source} failed or warned, see above")
    found = [line for line in lines if line.endswith(".ko") and os.path.isabs(line)]
    if not found:
        print(done.stdout, end="", flush=True)
        raise UmlError(f"scripts/build-module {source} named no module")
    return found[-1]


def _which(name):
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if not found:
        raise UmlError(f"{name} is not installed: apt-get install {PROGRAMS.get(name, name)}")
    return os.path.realpath(found)


def root():
    """The guest's root folder: busybox, some programs and what they link; made once."""
    target = os.path.join(BUILD, "root")
    busybox = _which("busybox")
    programs = {name: _which(name) for name in PROGRAMS}
    inputs = [__file__, busybox, *programs.values()]
    stamp = "".join(f"{p} {os.stat(p).st_size} {os.stat(p).st_mtime_ns}\n" for p in inputs)
    try:
        with open(os.path.join(target, ".stamp")) as f:
            if f.read() == stamp:
                return target
    except FileNotFoundError:
        pass

    with open(busybox, "rb") as f:
        if b"/lib64/ld-linux" in f.read():
            raise UmlError(f"{busybox} is not static: apt-get install busybox-static")
    # Made beside the target and moved there whole; another run may be using the old one.
    new = f"{target}.{os.getpid()}"
    shutil.rmtree(new, ignore_errors=True)
    for name in ("proc sys dev tmp run mnt export job shared var/lib/nfs etc root bin sbin usr/bin "
                 "usr/sbin").split():
        os.makedirs(os.path.join(new, name))
    shutil.copy(busybox, os.path.join(new, "bin", "busybox"))
    libraries = set()
    for name, path in programs.items():
        shutil.copy(path, os.path.join(new, "usr", "sbin", name))
        listed = subprocess.run(["ldd", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                text=True).stdout
        libraries |= set(re.findall(r"(/[^ ]+\.so[^ ]*)", listed))
    for extra in ("/lib/x86_64-linux-gnu/libnss_files.so.2", "/lib/x86_64-linux-gnu/libgcc_s.so.1"):
        if os.path.exists(extra):
            libraries.add(extra)
    for library in libraries:
        where = new + library
        os.makedirs(os.path.dirname(where), exist_ok=True)
        shutil.copy(os.path.realpath(library), where)
    for name in ("insmod", "rmmod", "lsmod", "modinfo"):
        os.symlink("kmod", os.path.join(new, "usr", "sbin", name))
    for name in ("mount.nfs4", "umount.nfs", "umount.nfs4"):
        os.symlink("mount.nfs", os.path.join(new, "usr", "sbin", name))
    for name in ("mount.nfs", "mount.nfs4", "umount.nfs", "umount.nfs4", "ip", "rdma"):
        os.symlink(f"../usr/sbin/{name}", os.path.join(new, "sbin", name))
    applets = subprocess.run([busybox, "--list"], stdout=subprocess.PIPE, text=True).stdout.split()
    for applet in applets:
        taken = [os.path.join(new, d, applet) for d in ("bin", "sbin", "usr/sbin")]
        if not any(os.path.lexists(t) for t in taken):
            os.symlink("busybox", taken[0])
    if os.path.exists("/etc/netconfig"):
        shutil.copy("/etc/netconfig", os.path.join(new, "etc"))
    for name, text in ETC.items():
        with open(os.path.join(new, "etc", name), "w") as f:
            f.write(text)
    os.symlink("/proc/mounts", os.path.join(new, "etc", "mtab"))
    with open(os.path.join(new, "init"), "w") as f:
        f.write(INIT)
    os.chmod(os.path.join(new, "init"), 0o755)
    with open(os.path.join(new, ".stamp"), "w") as f:
        f.write(stamp)
    if os.path.lexists(target):
        os.rename(target, new + ".old")
        shutil.rmtree(new + ".old")
    os.rename(new, target)
    return target


def new_run(name):
    """An empty folder for one run's logs and results, named by the time; the last ten are kept."""
    runs = os.path.join(BUILD, "runs")
    os.makedirs(runs, exist_ok=True)
    old = sorted(d for d in os.listdir(runs) if d.startswith(name + "."))
    for d in old[:-9]:
        shutil.rmtree(os.path.join(runs, d), ignore_errors=True)
    path = os.path.join(runs, f"{name}.{time.strftime('%Y%m%d-%H%M%S')}.{os.getpid()}")
    os.makedirs(path)
    return path


class Machine:
    """One UML process.

    @name       of the machine; its folder in the run is named so
    @run        folder of the run (new_run())
    @kdir       build folder of the kernel
    @script     text of the shell script that the guest runs
    @files      paths to copy into /job
    @arguments  more words for the kernel's command line
    @memory     of the guest
    """

    def __init__(self, name, run, kdir, script, files=(), arguments=(), memory="512M"):
        self.name = name
        self.folder = os.path.join(run, name)
        self.log = os.path.join(self.folder, "console.log")
        self.complaints = []
        self.timed_out = False
        self._process = None
        os.makedirs(self.folder)
        for path in files:
            shutil.copy(path, self.folder)
        with open(os.path.join(self.folder, "run.sh"), "w") as f:
            f.write(script)
        self._command = [
            os.path.join(kdir, "linux"), f"uml_dir={self.folder}", "umid=uml", f"mem={memory}",
            "rootfstype=hostfs", f"rootflags={root()}", "ro", "init=/init", "con=null",
            "con0=fd:0,fd:1", "panic=-1", "ignore_loglevel", f"job={self.folder}", *arguments]

    def start(self):
        # stdin and stdout have to be pollable, and stdin must not end.
        stdin_read, self._stdin_write = os.pipe()
        environment = dict(os.environ)
        # The guest's memory is a file that has to be executable.
        environment["TMPDIR"] = "/dev/shm" if os.access("/dev/shm", os.W_OK) else self.folder
        self._started = time.monotonic()
        # A group of its own: UML has helper threads and processes, all of which have to end.
        self._process = subprocess.Popen(self._command, stdin=stdin_read, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT,
                                         start_new_session=True, env=environment)
        os.close(stdin_read)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def _read(self):
        with open(self.log, "w") as log:
            for raw in self._process.stdout:
                line = raw.decode(errors="replace").rstrip("\r\n")
                log.write(f"{time.monotonic() - self._started:8.3f} {line}\n")
                log.flush()
                if kernlog.is_bad(line) or MORE_BAD.search(line):
                    self.complaints.append(line)

    @property
    def running(self):
        return self._process.poll() is None

    def wait(self, seconds, what):
        """Waits for the machine to stop, at most @seconds; @what it was doing is for the message."""
        try:
            self._process.wait(max(0.1, seconds))
        except subprocess.TimeoutExpired:
            self.timed_out = True
            self.complaints.append(f"{self.name}: no end after {seconds:.0f} s of {what}")
        self.stop()

    def stop(self):
        """Ends the process group, whatever state it is in."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        os.close(self._stdin_write)
        self._reader.join(5)

    def file(self, name):
        """The text of a file that the guest left in /job, or "" when there is none."""
        try:
            with open(os.path.join(self.folder, name), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def finished(self):
        """Whether the guest's script came to its end; a panic or a kill leaves no status."""
        return self.file("status").startswith("job ended with status 0")

    def _said(self):
        """What the guest's programs, not its kernel, wrote to the console."""
        lines = [line[9:] for line in self.file("console.log").splitlines()]
        return [line for line in lines if line and not re.match(r"\[ *\d+\.\d+\]", line)]

    def judge(self):
        """What is wrong with the machine's run, apart from results: a list of lines."""
        wrong = list(self.complaints)
        if not self.finished() and not self.timed_out:
            wrong.append(f"{self.name}: the guest's script did not end well: "
                         f"{self.file('status').strip() or 'it never ended'}")
            wrong += [f"{self.name}: {line}" for line in self._said()[-5:]]
        health = self.file("health")
        if self.finished() and "taint" not in health:
            wrong.append(f"{self.name}: no health report")
        for line in health.splitlines():
            m = re.match(r"taint (\d+)", line)
            if m and int(m.group(1)) & ~HEALTHY_TAINT:
                wrong.append(f"{self.name}: the kernel is tainted: {m.group(1)}")
            if re.match(r"\s*debug_locks:\s+0", line):
                wrong.append(f"{self.name}: lockdep turned itself off")
        leaks = self.file("kmemleak")
        if leaks.strip():
            wrong += [f"kmemleak: {line}" for line in leaks.splitlines()[:40]]
        return wrong


# For the guest's scripts. leaks_forget before the work, health after it. An object is a leak when
# two scans, at least five seconds after its allocation, find no pointer to it. The shell waits by
# itself: a process "sleep" would leave its own remains to RCU, and time that travels stands still
# until the scan, which then calls them leaks.
GUEST_SHELL = """
leaks_forget() {
	[ -e /sys/kernel/debug/kmemleak ] || return 0
	echo scan=off > /sys/kernel/debug/kmemleak
	echo clear > /sys/kernel/debug/kmemleak
}
health() {
	if [ -e /sys/kernel/debug/kmemleak ]; then
		mkfifo /tmp/never
		read -t 6 nothing <> /tmp/never
		echo scan > /sys/kernel/debug/kmemleak
		echo scan > /sys/kernel/debug/kmemleak
		cat /sys/kernel/debug/kmemleak > /job/kmemleak
	fi
	{
		echo "taint $(cat /proc/sys/kernel/tainted)"
		grep debug_locks: /proc/lockdep_stats 2>/dev/null
		lsmod
	} > /job/health
}
"""
