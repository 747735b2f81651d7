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
import subprocess
import sys

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(TOP, "selftests", "vm"))
sys.dont_write_bytecode = True

from vmlib import job  # noqa: E402

GUEST_SHELL = job.GUEST_SHELL

# What begins a script that has both ends in one kernel and one network, as rxe knows no other. Two veth interfaces
# have an rxe device each; a packet takes DELAY, as tc has it (10ms, say), one way. What one interface sends to the other's
# address would be taken for loopback, but for a link-local address, which says which interface it is meant for: the
# server is fe80::1%va, its client fe80::2.
BOTH_ENDS = GUEST_SHELL + """
. /job/lib.sh
modprobe() {
	[ "$1" = -a ] && return 0
	[ -e /job/$1.ko ] && [ ! -e /sys/module/$1 ] || return 0
	/usr/sbin/insmod /job/$1.ko
}
tc() {
	/usr/sbin/tc "$@"
}
# unloaded MODULE: once those who still hold it have let go.
unloaded() {
	tries=0
	until /usr/sbin/rmmod $1 2> /tmp/rmmod; do
		tries=$((tries + 1))
		[ $tries -le 100 ] || die "rmmod $1: $(cat /tmp/rmmod)"
		usleep 100000
	done
}
# both_up DELAY
both_up() {
	ip link set lo up
	ip link add va type veth peer name vb || die "no veth"
	for dev in va vb; do
		echo 0 > /proc/sys/net/ipv6/conf/$dev/accept_dad
		ip link set $dev mtu 4500 addrgenmode none up
		tc qdisc add dev $dev root netem delay $1 limit 100000 || die "no netem"
	done
	ip addr add fe80::2/64 dev va nodad
	ip addr add fe80::1/64 dev vb nodad
	for dev in va vb; do
		rdma link add rxe_$dev type rxe netdev $dev || die "no rxe"
	done
}
# delayed DELAY: another one, from here on.
delayed() {
	for dev in va vb; do
		tc qdisc change dev $dev root netem delay $1 limit 100000 || die "no other delay"
	done
}
"""
BUILD = os.environ.get("UML_BUILD", os.path.join(TOP, "build", "uml"))

# Programs of the guest and the package that each comes from.
PROGRAMS = {
    "ip": "iproute2", "tc": "iproute2", "rdma": "iproute2", "mount.nfs": "nfs-common",
    "rpc.statd": "nfs-common",
    "exportfs": "nfs-kernel-server", "rpc.mountd": "nfs-kernel-server",
    "rpcbind": "rpcbind", "kmod": "kmod",
}

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


def compiled(source, target):
    """@source, one C file for the host, as the program @target."""
    if not os.path.exists(target) or os.stat(target).st_mtime < os.stat(source).st_mtime:
        done = subprocess.run(["gcc", "-O2", "-Wall", "-pthread", "-static", "-o", target, source])
        if done.returncode:
            raise UmlError(f"{source} does not compile, see above")
    return target


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
    inputs = [os.path.realpath(__file__), busybox, *programs.values()]
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
    return job.new_run(BUILD, name)


class Machine(job.Job):
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
        super().__init__(name, run, script, files)
        self._command = [
            os.path.join(kdir, "linux"), f"uml_dir={self.folder}", "umid=uml", f"mem={memory}",
            "rootfstype=hostfs", f"rootflags={root()}", "ro", "init=/init", "con=null",
            "con0=fd:0,fd:1", "panic=-1", "ignore_loglevel", f"job={self.folder}", *arguments]

    def start(self):
        # The guest's memory is a file that has to be executable.
        shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else self.folder
        self.launch(self._command, dict(os.environ, TMPDIR=shm))
        return self
