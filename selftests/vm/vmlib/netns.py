# SPDX-License-Identifier: GPL-2.0-only
"""NFS clients and servers in network namespaces of one kernel, over virtual RDMA devices (hca.py).

A container is a process with network, mount and PID namespaces of its own; it ends as containers do, by the death of
that process. Pair N is a client cN and a server sN with a veth pair between them, whose ends are the interfaces
nNc and nNs; their RDMA devices are vhca_nNc and vhca_nNs. Addresses are 10.9.N.1 and fd00:9:0:N::1 of the server,
and ...2 of the client.
"""

import shlex
import time

from . import hca, lab, machine
from .testing import Wrong


class Container:
    """@name of the container in the machine @vm."""

    def __init__(self, vm, name):
        self.vm, self.name = vm, name
        self._job = vm.spawn("exec unshare -n -m -p -f --propagation private sh -c 'read pid rest < /proc/self/stat; "
                             "ip link set lo up; echo $pid; exec sleep 100000'", f"the container {name}")
        began = time.monotonic()
        while not self._job.out.strip():
            if not self._job.running() or time.monotonic() - began > 20 * machine.PATIENCE:
                raise lab.LabError(f"no container {name}: {self._job.out}")
            time.sleep(0.05)
        self.pid = int(self._job.out)
        # A name by which ip and rdma know the namespace, and which does not keep it.
        vm.run(f"mkdir -p /run/netns; ln -sf /proc/{self.pid}/ns/net /run/netns/{name}", 10)

    def script(self, script):
        """What the machine's shell does to have @script run in here."""
        return (f"nsenter -t {self.pid} -n -m -p /bin/sh -c {shlex.quote('. /lib/lib.sh; cd /' + chr(10) + script)} "
                f"< /dev/null\n")

    def run(self, script, timeout=30, what=None, check=True):
        what = f"{self.name}: {what or script.strip().splitlines()[0]}"
        return self.vm.run(self.script(script), timeout, what, check)

    def spawn(self, script, what):
        return self.vm.spawn(self.script(script), f"{self.name}: {what}")

    def end(self, timeout=60):
        """All its processes are killed; its namespaces go with what they hold.

        rpcbind first, if there is one. When it is by chance the last one to leave the mount namespace, it is also
        the one that stops the namespace's nfsd (nfsd_umount()), which asks rpcbind to forget it: for minutes, as its
        sockets are closed only behind that, and with nfsd_mutex held for all namespaces. So it is with any transport.
        """
        self.vm.run(f"""
            for p in $(pidof rpcbind); do
                [ "$(readlink /proc/$p/ns/net)" = "$(readlink /proc/{self.pid}/ns/net)" ] || continue
                kill -9 $p
                while grep -q "^State:[^Z]*$" /proc/$p/status; do usleep 20000; done
            done 2> /dev/null; true""", 20, f"{self.name}: rpcbind ends")
        self._job.kill()
        self._job.wait(timeout, check=False)


class Work:
    """Verified I/O of a container over its mount until it is told to stop; `rounds` that it has done so far."""

    def __init__(self, box):
        self.box = box
        self._job = box.spawn(f"""
            dd if=/dev/urandom of=/tmp/{box.name}.w bs=100003 count=5 2> /dev/null; rm -f /tmp/{box.name}.stop
            until [ -e /tmp/{box.name}.stop ]; do
                rm -f /mnt/w
                cp /tmp/{box.name}.w /mnt/w && sync /mnt/w || die "write"
                dd if=/mnt/w of=/tmp/{box.name}.r bs=64k iflag=direct 2> /dev/null || die "read"
                cmp /tmp/{box.name}.w /tmp/{box.name}.r || die "data differ"
                echo round
            done""", "verified I/O")

    @property
    def rounds(self):
        return self._job.out.count("round")

    def more(self, rounds=2, limit=60):
        """Until it has done so many more rounds."""
        want, began = self.rounds + rounds, time.monotonic()
        while self.rounds < want:
            if not self._job.running():
                raise Wrong(f"{self.box.name}: the I/O ended: {self._job.out}")
            if time.monotonic() - began > limit * machine.PATIENCE:
                raise Wrong(f"{self.box.name}: not {rounds} more rounds of I/O in {limit * machine.PATIENCE:g} s")
            time.sleep(0.1)

    def stop(self):
        self.box.vm.run(f"> /tmp/{self.box.name}.stop", 10)
        self._job.wait(60)


class Namespaces(hca.OneKernel):
    """Use as hca.OneKernel, whose own interfaces stay unused. `exclusive`: an RDMA device is seen in one namespace
    alone (`rdma system set netns exclusive`), not in all of them."""

    def __init__(self, name, xprt=None, memory=2048):
        super().__init__(name, xprt, memory)
        self.exclusive = False
        self.all = {}
        self._idle = {}    # queue pairs of a device that nobody uses: that of connection management, or none with iWARP
        self.vm.run("for dev in va vb; do ip link set $dev down; done; modprobe -a nfsd nfs nfsv3 nfsv4 lockd; "
                    f"modprobe {self.xprt}; mkdir -p /var/lib/nfs /export; "
                    "echo '/export *(rw,fsid=0,no_root_squash,no_subtree_check,insecure,async)' > /etc/exports",
                    40, "modules for all namespaces")

    def set_exclusive(self, exclusive):
        """There is no namespace but the first one, or soon none."""
        mode = "exclusive" if exclusive else "shared"
        self.vm.until(f"rdma system set netns {mode} && rdma system | grep -q 'netns {mode}'", 20,
                      f"RDMA devices are {mode}")
        self.exclusive = exclusive

    def link(self, n, four=True, six=True):
        """Containers cN and sN, with a cable between them; IPv4 and IPv6 addresses or not."""
        self.vm.run(f"ip link add n{n}c type veth peer name n{n}s", 10)
        for end, number in (("c", 2), ("s", 1)):
            box = Container(self.vm, f"{end}{n}")
            self.all[box.name] = box
            dev = f"n{n}{end}"
            self.vm.run(f"ip link set {dev} netns {box.pid}", 10)
            six_up = (f"echo 0 > /proc/sys/net/ipv6/conf/{dev}/accept_dad; ip link set {dev} up; "
                      f"ip addr add fd00:9:0:{n}::{number}/64 dev {dev} nodad" if six else
                      f"echo 1 > /proc/sys/net/ipv6/conf/{dev}/disable_ipv6; ip link set {dev} up")
            box.run(f"ip link set {dev} mtu 4500; {six_up}" +
                    (f"; ip addr add 10.9.{n}.{number}/24 dev {dev}" if four else ""), 20, "interface up")
        return self.all[f"c{n}"], self.all[f"s{n}"]

    def devices(self, n, preset="connectx", bounce=True):
        """The RDMA devices of pair @n, each made in its own namespace."""
        self.vm.run(f"echo {preset} > /sys/module/vhca/parameters/preset; "
                    f"echo {'Y' if bounce else 'N'} > /sys/module/vhca/parameters/bounce", 10)
        for end in "cs":
            dev, box = f"n{n}{end}", self.all[f"{end}{n}"]
            box.run(f"rdma link add vhca_{dev} type vhca netdev {dev} || die 'no vhca_{dev}'", 20)
            if self.exclusive:
                # It is the first namespace's until it is given away.
                self.vm.run(f"rdma dev set vhca_{dev} netns {box.name} || die 'vhca_{dev} stays'", 20)
            self._idle[dev] = self.stats(f"vhca_{dev}")["qps"]

    def pair(self, n, preset="connectx", bounce=True):
        made = self.link(n)
        self.devices(n, preset, bounce)
        return made

    def serve(self, n, lease=90):
        """nfsd, mountd and rpcbind of container sN, with a tmpfs that is exported. Its grace period of 10 s has
        begun, and cannot be ended: nfsd of a container without nfsdcld has nobody to ask whether it may be."""
        self.all[f"s{n}"].run(f"""
            mount -t tmpfs run /run && mkdir -p /run/rpcbind /run/sendsigs.omit.d
            mount -t tmpfs state /var/lib/nfs && mkdir -p /var/lib/nfs/v4recovery /var/lib/nfs/rpc_pipefs
            mount -t tmpfs -o size=200m,mode=1777 export /export || die "no tmpfs"
            server_up {self.xprt} {lease} 10 grace
            grep -q '^rdma 20049' /proc/fs/nfsd/portlist && [ $(cat /proc/fs/nfsd/threads) = 8 ] || die "no nfsd"
            """, 60, "NFS server up")

    def mount(self, n, version, six=False, options="", address=None, where="/mnt", timeout=60):
        """In container cN; @version as in the option vers="""
        address = address or (f"fd00:9:0:{n}::1" if six else f"10.9.{n}.1")
        host = f"[{address}]" if six else address
        source = "/export" if version == "3" else "/"
        more = f",nolock,mountproto={'tcp6' if six else 'tcp'}" if version == "3" else ""
        self.all[f"c{n}"].run(f"mkdir -p {where}; /sbin/mount.nfs '{host}:{source}' {where} -o vers={version},"
                              f"proto={'rdma6' if six else 'rdma'},port=20049{more}{',' + options if options else ''}",
                              timeout, f"mount vers={version} {host}")

    def connections(self, n, where="/mnt"):
        """How many connections the mount of container cN has made so far."""
        text = self.all[f"c{n}"].run("cat /proc/self/mountstats", 10)
        found = [line.split() for block in text.split("\ndevice ") if f" mounted on {where} with" in block
                 for line in block.splitlines() if line.strip().startswith("xprt:")]
        if [words[1] for words in found] != ["rdma"]:
            raise lab.LabError(f"c{n}: the mount's transports: {found}")
        return int(found[0][2 + lab.XPRT_FIELDS.index("connect_count")])

    def uses(self):
        """How many hold the transport's module."""
        return int(self.vm.run(f"cat /sys/module/{self.xprt}/refcnt", 10))

    def gone(self, name, timeout=60):
        """Until the network namespace of a container that has ended is no more, with its interface and device."""
        box = self.all.pop(name)
        dev = f"n{name[1:]}{name[0]}"
        self.vm.until(f"! [ -e {hca.DEBUGFS}/vhca_{dev} ]", timeout, f"the device of {name} to go with its namespace")
        return box

    def quiet(self, n, timeout=60):
        """Until the devices of pair @n have no queue pair but those of their own, and no region."""
        for end in "cs":
            self.vm.until(f"set -- $(sed -n 's/^\\(qps\\|mrs\\) //p' {hca.DEBUGFS}/vhca_n{n}{end}/stats); "
                          f"[ \"$*\" = '{self._idle[f'n{n}{end}']} 0' ] || die \"n{n}{end} has $* queue pairs and regions\"",
                          timeout,
                          f"vhca_n{n}{end}: queue pairs and regions to go")
