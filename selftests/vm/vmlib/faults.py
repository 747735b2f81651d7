# SPDX-License-Identifier: GPL-2.0-only
"""What scripts/faults runs: a matrix of faults, NFS versions, and mounts that are idle or under a verified load.

A row mounts, has files written and verified, lets the fault happen, has more written and verified, compares what is
stored with what was written at both ends, and unmounts; then every RDMA object must be gone that was not there
before. On which bed a fault happens is the fault's: `vhca`, two virtual devices in one kernel (hca.py); `netns`, the
same with client and server in containers (netns.py); `rxe`, two machines with soft RoCE, of which the server has a
disk. Records of rows and tables of them are in faults_table.py.
"""

import collections
import contextlib
import os
import re
import subprocess
import time

from . import hca, hcarun, image, kernlog, lab, machine, netns
from .testing import Wrong

VERSIONS = ("3", "4.1", "4.2")
STATES = ("idle", "load")

# What the server stores is on a disk, and so is what nfsd has to know of its clients when it starts again.
DISK = """
	modprobe -a virtio_blk ext4 || die "no disk"
	mkdir -p /export
	mount -t ext4 /dev/vda /export || die "no file system"
	[ -e /export/.nfs ] || cp -a /var/lib/nfs /export/.nfs
	mount -o bind /export/.nfs /var/lib/nfs
	chmod 1777 /export
	echo "/export *(rw,fsid=0,no_root_squash,no_subtree_check,insecure,sync)" > /etc/exports
"""
DISK_MIB = 512

# What comes in by eth0 passes ifb0, where packets are lost or late. Not where they leave: a packet that the network
# does not take from rxe is an error to it, and its queue pair of connection management does not come back from that.
INWARD = """
	modprobe -a ifb sch_ingress cls_matchall act_mirred sch_netem || die "no ifb"
	ip link set ifb0 mtu 9000 up || die "no ifb0"
	tc=/usr/sbin/tc
	$tc qdisc add dev ifb0 root netem $HOW limit 20000 && $tc qdisc add dev eth0 handle ffff: ingress &&
		$tc filter add dev eth0 parent ffff: matchall action mirred egress redirect dev ifb0 || die "no $HOW"
"""
AS_BEFORE = "/usr/sbin/tc qdisc del dev eth0 ingress; /usr/sbin/tc -s qdisc show; rmmod ifb"
# Nor may a machine lose the other's address, as it cannot ask for it while nothing comes in.
KNOWN = """
	ping -c 4 -W 5 PEER > /dev/null && set -- $(ip neigh show PEER dev eth0) &&
		ip neigh replace PEER lladdr $3 dev eth0 nud permanent || die "no address of PEER: $*"
"""
# Nor may the queue of what leaves be full, for the same reason: with lost packets whole answers to RDMA Reads are sent
# again, of all queue pairs at once.
ROOM = "ip link set eth0 txqueuelen 20000"

# All memory but LEFT MiB is taken, by what cannot be swapped out.
SQUEEZE = """
	mkdir -p /hog; mount -t tmpfs -o size=100% hog /hog
	sync; echo 3 > /proc/sys/vm/drop_caches
	left=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
	dd if=/dev/zero of=/hog/f bs=1M count=$((left - LEFT)) 2> /dev/null || die "no memory to take"
"""
LET_GO = "umount /hog"
LEFT = 64

# A file that takes a while, of what the load has files of; MIB of it.
LARGE = "for i in $(seq $((MIB * 5 / 4))); do cat /tmp/v0 /tmp/v1; done"

# How long a load may take to go on: each reconnect without a reply doubles the wait for the next.
PATIENCE = 240


class Vhca(hca.OneKernel):
    """Two virtual devices in one kernel, and nfsd. What they are like is another thing with each version."""

    PRESETS = {"3": ("irdma", False), "4.1": ("qedr", True), "4.2": ("connectx", True)}

    def __init__(self, name, xprt, version):
        super().__init__(name, xprt)
        try:
            self.devices_up(*self.PRESETS[version])
            self.serve()
        except BaseException:
            self.stop()
            raise


class TwoMachines(lab.Lab):
    """Client and server over soft RoCE, used as a hca.OneKernel is."""

    stored = ""

    def __init__(self, name, xprt, version):
        del version
        self.disk = os.path.join(image.BUILD, f"{name.replace('/', '-')}.disk")
        os.makedirs(os.path.dirname(self.disk), exist_ok=True)
        with open(self.disk, "wb") as f:
            f.truncate(DISK_MIB << 20)
        subprocess.run(["/usr/sbin/mke2fs", "-q", "-F", "-t", "ext4", self.disk], check=True)
        super().__init__(name, xprt=xprt, server_xprt=xprt, server_params="", server_disk=self.disk)
        try:
            self.client_net()
            self.client.run(ROOM, 10)
            self._serve("")
            self.client_transport()
            self.client.until("ping -c 1 -W 1 10.0.0.1 > /dev/null", 10, "the server answers ping")
        except BaseException:
            self.stop()
            raise

    @property
    def vm(self):
        return self.client

    def _boot(self, *args, **options):
        vm = super()._boot(*args, **options)
        vm.scanner.known = kernlog.Known(kernlog.OVERLAP, kernlog.RXE_COMPLETER)
        return vm

    def stop(self):
        super().stop()
        os.unlink(self.disk)

    def _serve(self, grace):
        self.server.run(f"net_up 1; {ROOM}; rdma_up rxe\n{DISK}\n"
                        f"server_up {self.server_xprt} 60 15 {grace}", 90, "NFS server up")
        self.only(self.server, self.server_xprt)

    def power_cut(self):
        """The server has no power, and then it has."""
        self.power_cycle("server")
        self._serve("grace")

    def inward(self, vm, how):
        """What comes in to @vm meets with @how, in netem's words."""
        for one, peer in ((self.client, "10.0.0.1"), (self.server, "10.0.0.2")):
            one.run(KNOWN.replace("PEER", peer), 20, "the other's address")
        vm.run(f"HOW='{how}'\n{INWARD}", 20, f"{how} on the way in")

    def outward(self, vm):
        """As before; returns how many packets were dropped."""
        said = vm.run(AS_BEFORE, 20, "the way in as before")
        return int(re.search(r"dev ifb0 root .*\n.*\(dropped (\d+),", said)[1])

    def objects(self):
        """{(machine, kind): number} of RDMA objects."""
        return {(vm.name, kind): n for vm in (self.client, self.server)
                for kind, n in sorted(self.rdma_resources(vm).items())}

    def faults(self):
        """Rules that were broken: of rxe nobody knows any."""
        return []

    def deaf(self):
        """Names of the machines with which no connection can be made any more, nor ended: rxe has put its queue pair
        of connection management into the state of errors, and leaves it there."""
        names = []
        for vm in (self.client, self.server):
            # A machine that has gone is deaf for another reason.
            with contextlib.suppress(machine.VmError):
                if vm.ok("rdma resource show qp | grep -q 'type GSI state ERR'"):
                    names.append(vm.name)
        return names

    back_to, connects = hca.OneKernel.back_to, hca.OneKernel.connects


class Containers(netns.Namespaces):
    """Containers come with the row."""

    def __init__(self, name, xprt, version):
        del version
        super().__init__(name, xprt)


BEDS = {"vhca": Vhca, "netns": Containers, "rxe": TwoMachines}


class Row:
    """A mount of @version on a bed, idle or under a load. @found gets what there is to say of it."""

    def __init__(self, one, version, loaded, found):
        self.one, self.version, self.loaded, self.found = one, version, loaded, found
        self.rounds = 0
        self.said = []
        self.before = one.objects()
        one.mount(version)
        self.connects = one.connects()
        self.load = hca.Load(one, PATIENCE)
        if not loaded:
            self._rest()

    def _rest(self):
        """The load ends; what it wrote is looked at by both ends."""
        self.rounds += self.load.finish(PATIENCE)
        self.sums = self.load.sums()
        self.load = None
        self._compare()

    def _compare(self):
        for vm, where in ((self.one.client, "/mnt"), (self.one.server, "/export")):
            vm.run(f"drop_caches; cd {where}; echo '{self.sums.strip()}' > /tmp/sums; md5sum -c /tmp/sums", PATIENCE,
                   f"compare the files in {where}")

    def again(self):
        """A load, after nothing was done or all who did something are gone."""
        self.load = hca.Load(self.one, PATIENCE)

    def goes_on(self):
        """The load has rounds from begin to end. A mount that is idle stays so."""
        if self.load:
            self.load.goes_on(PATIENCE, "the load to go on")

    def used(self):
        """There is I/O now, and it is right, also over what was idle until now."""
        if self.loaded:
            self.goes_on()
        else:
            self._compare()
            self.again()
            self._rest()

    def say(self, text):
        self.said.append(text)

    def end(self, fault, plant):
        if not self.loaded:
            self._compare()
            self.again()
        self._rest()
        if plant:
            plant(self)
        self._compare()
        connects = self.one.connects() - self.connects
        self.one.umount()
        if fault.after:
            fault.after(self)
        self.one.back_to(self.before)
        self.found.update(
            happened="; ".join([*self.said, f"{connects} reconnects"]), data=f"{self.rounds} rounds",
            objects=tell_objects(self.before))


def tell_objects(objects):
    """Those that come with connections, of {(where, kind): number}: "client 1 qp 0 mr, server 1 qp 0 mr"."""
    places = dict.fromkeys(where for where, _ in objects)
    return ", ".join(f"{where.removeprefix('vhca_')} " + " ".join(f"{n} {kind}" for (at, kind), n in objects.items()
                                                                  if at == where and kind not in ("ctx", "pd"))
                     for where in places)


# --- on the virtual devices ---

# Of hca.DEVICES.
WHOSE = ("client's", "server's")


def removal(row, number):
    row.one.remove(hca.DEVICES[number])
    row.say(f"{WHOSE[number]} device goes and comes")


def port_flap(row, number):
    row.one.port_flap(hca.DEVICES[number])
    row.say(f"{WHOSE[number]} port down {hca.AWAY} s")


def rmmod_refused(row, _):
    said = row.one.vm.run(f"! rmmod {row.one.xprt} 2>&1", 20, "rmmod under a mount")
    if "in use" not in said:
        raise Wrong(f"rmmod under a mount: {said.strip()}")
    row.say("refused while mounted, and goes behind that")


def rmmod_done(row):
    """Without a mount and with nfsd stopped it goes."""
    row.one.stop_serving()
    row.one.serve()


def nfsd_restart(row, _):
    row.one.server.run("nfsd_stop", 60, "stop nfsd")
    time.sleep(1)
    row.one.server.run("nfsd_start 8 grace", 60, "start nfsd")
    row.say("nfsd away 1 s, then in grace")


def kill_all(row, _):
    """Of those that do I/O while replies are late, or of those that have a file open and do nothing."""
    one = row.one
    if row.loaded:
        one.vm.run(f"echo 'send 1 hold {int(1500 * machine.PATIENCE)}' > {hca.DEBUGFS}/vhca_vb/inject", 10)
        if one.xprt == "rpcordma":
            one.vm.until(f"[ $({hcarun.OUTSTANDING}) -ge 2 ]", 10, "calls to be with the server", 0.05)
            row.say(f"{one.vm.run(hcarun.OUTSTANDING).split()[0]} calls under way")
        row.load.job.kill()
        row.load.job.wait(60, check=False)
    else:
        jobs = [one.vm.spawn(f"exec 3<> /mnt/w{i}; cd /mnt; echo there; exec sleep 600", "one that has a file open")
                for i in (1, 2, 3)]
        deadline = time.monotonic() + 20 * machine.PATIENCE
        while not all("there" in job.out for job in jobs):
            if time.monotonic() > deadline:
                raise Wrong("no process has opened its file")
            time.sleep(0.05)
        for job in jobs:
            job.kill()
        for job in jobs:
            job.wait(30, check=False)
        row.say(f"{len(jobs)} with open files killed")
    if one.xprt == "rpcordma":
        one.vm.until(f"[ $({hcarun.OUTSTANDING}) = 0 ]", 30, "all credits to be back")
    if row.loaded:
        row.again()


# --- between two machines ---

def _large(row, mib, during):
    """Writes a file and has @during() come in the midst of it; what is stored is right."""
    make = LARGE.replace("MIB", str(mib))
    job = row.one.client.spawn(f"{{ {make}; }} | dd of=/mnt/large bs=65536 iflag=fullblock conv=fsync", "a large file")
    row.one.server.until("[ $(stat -c %s /export/large) -ge 2000000 ]", 60, "2 MB of it to arrive", 0.02)
    during()
    job.wait(PATIENCE)
    want = row.one.client.run(f"{{ {make}; }} | md5sum", 60).split()[0]
    for vm, where in ((row.one.client, "/mnt"), (row.one.server, "/export")):
        got = vm.run(f"drop_caches; md5sum < {where}/large", 120).split()[0]
        if got != want:
            raise Wrong(f"the large file differs in {where}")
    row.one.client.run("rm /mnt/large", 60)
    return mib


def memory_pressure(row, _):
    ends = (row.one.client, row.one.server)
    for vm in ends:
        vm.run(SQUEEZE.replace("LEFT", str(LEFT)), 90, "take all memory")
    row.used()
    large = _large(row, 2 * LEFT, lambda: None) if row.loaded else 0
    for vm in ends:
        vm.run(LET_GO, 30)
    row.say(f"{LEFT} MiB left at both ends" + (f", {large} MiB written" if large else ""))


def _netem(row, how):
    ends = (row.one.client, row.one.server)
    for vm in ends:
        row.one.inward(vm, how)
    for _ in range(3 if row.loaded else 1):
        row.used()
    return sum(row.one.outward(vm) for vm in ends)


def loss_1(row, _):
    row.say(f"{_netem(row, 'loss 1%')} packets lost")


def loss_5(row, _):
    row.say(f"{_netem(row, 'loss 5%')} packets lost")


def delay(row, _):
    _netem(row, "delay 10ms")
    row.say("10 ms each way")


def link_flap(row, number):
    """What would come in to one end does not, for longer than a packet is sent again or for less."""
    vm, seconds = (row.one.client, 1) if number == 0 else (row.one.server, 5)
    row.one.inward(vm, "loss 100%")
    time.sleep(seconds)
    row.one.outward(vm)
    row.say(f"{vm.name}'s link away {seconds} s")


def power_cut(row, _):
    if row.loaded:
        row.say(f"off and on; a file of {_large(row, 64, row.one.power_cut)} MiB was under way")
    else:
        row.one.power_cut()
        row.say("off and on")


# --- between containers ---

def namespace_exit(ns, version, loaded, found, plant):
    """First the client's namespace of one pair ends, then its server's; the other pair goes on. With a mount and what
    the load of the rows elsewhere has not: another namespace."""
    uses = ns.uses()
    for n in (1, 2):
        ns.pair(n, "connectx", ns.xprt == "rpcordma")
        ns.serve(n)
        ns.mount(n, version)
    first, second = netns.Work(ns.all["c1"]), netns.Work(ns.all["c2"])
    first.more()
    second.more()
    ns.all["c1"].run("cp /tmp/c1.w /mnt/kept && sync /mnt/kept", 60)
    if not loaded:
        first.stop()
        second.stop()
    ns.all["c1"].end()
    ns.gone("c1")
    # The other end of a cable goes with the one that is gone, and the device on it.
    ns.vm.until(f"! [ -e {hca.DEBUGFS}/vhca_n1s ]", 60, "the server's device to go with its cable")
    if loaded:
        second.more(3)
    if plant:
        plant(ns)
    ns.all["s1"].run("cmp /tmp/c1.w /export/kept", 20, "what the client stored before it ended")
    ns.all["s1"].end()
    ns.gone("s1")
    rounds = first.rounds
    if not loaded:
        rounds += second.rounds
        second = netns.Work(ns.all["c2"])
    second.more(3)
    connects = ns.connections(2)
    if connects != 1:
        raise Wrong(f"the mount in the other namespace has connected {connects} times")
    second.stop()
    rounds += second.rounds
    ns.all["s2"].run("cmp /tmp/c2.w /export/w", 20, "what the other one stored")
    ns.all["c2"].run("umount /mnt", 60)
    ns.quiet(2)
    for name in ("c2", "s2"):
        ns.all[name].end()
        ns.gone(name)
    ns.vm.until(f"[ $(cat /sys/module/{ns.xprt}/refcnt) = {uses} ] && [ ! \"$(ls /sys/class/infiniband)\" ]", 60,
                "everything to go with its namespace")
    found.update(happened="client's ends, then server's; 0 reconnects of the others",
                 data=f"{rounds} rounds", objects="no device, module held as before")


# --- the matrix ---

# @once(row, number) happens @times times; @after(row) when nothing is mounted any more.
Fault = collections.namedtuple("Fault", "name bed title once times after", defaults=(1, None))

FAULTS = {fault.name: fault for fault in (
    Fault("removal", "vhca", "device removal", removal, 2),
    Fault("port", "vhca", "port flap", port_flap, 2),
    Fault("rmmod", "vhca", "rmmod refused, then done", rmmod_refused, 1, rmmod_done),
    Fault("nfsd", "vhca", "nfsd stops and starts", nfsd_restart),
    Fault("kill", "vhca", "kill -9 of all callers", kill_all),
    Fault("netns", "netns", "namespace exit", None),
    Fault("memory", "rxe", "memory pressure", memory_pressure),
    Fault("loss-1", "rxe", "1 % packet loss", loss_1),
    Fault("loss-5", "rxe", "5 % packet loss", loss_5),
    Fault("delay", "rxe", "10 ms delay", delay),
    Fault("link", "rxe", "link flap", link_flap, 2),
    Fault("power", "rxe", "server power cut", power_cut),
)}


def one_row(one, fault, version, loaded, found, plant=None):
    """The text of the row, whose parts are in @found."""
    if fault.once:
        row = Row(one, version, loaded, found)
        for number in range(fault.times):
            fault.once(row, number)
            row.goes_on()
        row.end(fault, plant)
    else:
        namespace_exit(one, version, loaded, found, plant)
    return f"{found['happened']}; {found['data']}; {found['objects']}"


class Bed(hcarun.Bed):
    """The bed @kind, for rows of one @version."""

    def __init__(self, kind, version, xprt):
        super().__init__(f"faults-{kind}-{version}", xprt)
        self.kind, self.version = kind, version

    def make(self, name):
        return BEDS[self.kind](name, self.xprt, self.version)

    def _emulators_fault(self):
        """A fault of rxe's, too, is none of what is tested."""
        deaf = self.one.deaf() if self.kind == "rxe" else []
        if deaf:
            print(f"faults: rxe's queue pair of connection management has come to an end: {', '.join(deaf)}", flush=True)
        return super()._emulators_fault() or bool(deaf)

    def run(self, fault, state, plant=None):
        """One row; returns (verdict, what there is to say of it, seconds)."""
        for again in (False, False, True):
            found = {}
            if self.row(fault.name, f"v{self.version} {state}", one_row, fault, self.version, state == "load", found,
                        plant, again=again) is not None:
                break
        _, _, verdict, detail, seconds = self.table.rows[-1]
        return verdict, {**found, "detail": detail}, seconds


# --- does it notice? ---

def _wrong_byte(row):
    row.one.server.run("printf X | dd of=/export/w2 bs=1 seek=1234 conv=notrunc 2> /dev/null; sync")


def _left_over(row):
    row.one.mount(row.version, where="/left")


def _warning(row):
    row.one.vm.run("echo '<4>WARNING: planted' > /dev/kmsg; sleep 1")


# What is done to a row, and what it must say.
PLANTS = {"a wrong byte in a file": (_wrong_byte, "w2: FAILED"),
          "a mount that stays": (_left_over, "objects are left over"),
          "a warning in the kernel log": (_warning, "WARNING: planted")}
