# SPDX-License-Identifier: GPL-2.0-only
"""One machine with both ends of NFS over RDMA in its kernel, over two virtual RDMA devices (selftests/hca).

The client's device is vhca_va, the server's vhca_vb: a veth pair joins their interfaces. Both are in one network;
what one interface sends to the other's address would be taken for loopback, but for a link-local address, which says
which interface it is meant for.
"""

import math
import os
import shutil
import tempfile
import time

from . import image, lab, machine

PRESETS = ("connectx", "irdma", "cxgb4", "qedr", "poor")
DEVICES = ("vhca_va", "vhca_vb")
ADDRESSES = {"vhca_va": "fe80::2", "vhca_vb": "fe80::1"}
DEBUGFS = "/sys/kernel/debug/vhca"
# For which ports and addresses go, s: longer than what is sent is tried again (engine.c), 7 times 50 ms at most.
AWAY = 1
VERSIONS = ("3", "4.0", "4.1", "4.2")

UP = """
	modprobe veth || die "no veth"
	ip link set lo up
	ip link add va type veth peer name vb || die "no veth pair"
	for dev in va vb; do
		echo 0 > /proc/sys/net/ipv6/conf/$dev/accept_dad
		ip link set $dev mtu 4500 addrgenmode none up
	done
	ip addr add fe80::2/64 dev va nodad
	ip addr add fe80::1/64 dev vb nodad
	modprobe vhca || die "no vhca"
"""

# What a kernel of ours with checkers wants: every complaint of the DMA API's, where by default it is the first alone; and
# that one who waits for this host, or for the checkers, is not taken for one who has stopped (TIMES: how much longer).
CHECKERS = """
	dma=/sys/kernel/debug/dma-api
	[ ! -e $dma ] || echo 1 > $dma/all_errors || die "no DMA API debugging"
	# FILE MOST
	longer() {
		[ -e $1 ] && [ $TIMES -gt 1 ] || return
		n=$(($(cat $1) * TIMES))
		echo $((n < $2 ? n : $2)) > $1 || die "$1 is not set"
	}
	longer /proc/sys/kernel/watchdog_thresh 60
	longer /proc/sys/kernel/hung_task_timeout_secs 3600
	longer /sys/module/rcupdate/parameters/rcu_cpu_stall_timeout 300
"""

# The refusals that the kernel log must have in so many words.
REFUSES_QUEUES = "queues are too short for NFS over RDMA"

# Why the in-tree transport cannot be the judge of what has bounce buffers.
IN_TREE_BOUNCES = "known: with bounce buffers the in-tree server of 6.12 stores wrong bytes"

# Data there and back in large and small pieces, through the page cache and past it; and a directory. STORED: where who
# mounts finds the server's files, if it is not /export.
VERIFIED_IO = """
	STORED=${STORED:-/export}
	[ -e /tmp/f ] || dd if=/dev/urandom of=/tmp/f bs=1000003 count=3 2>/dev/null
	cp /tmp/f /mnt/f && sync /mnt/f || die "copy"
	drop_caches
	cmp /tmp/f /mnt/f || die "read differs"
	cmp /tmp/f $STORED/f || die "written data differ"
	dd if=/tmp/f of=/mnt/g bs=262144 oflag=direct 2>/dev/null || die "direct write"
	cmp /tmp/f $STORED/g || die "direct write differs"
	dd if=/mnt/g of=/tmp/g bs=1M iflag=direct 2>/dev/null || die "direct read"
	cmp /tmp/f /tmp/g || die "direct read differs"
	mkdir /mnt/d
	for i in $(seq 1 40); do echo $i > /mnt/d/a-file-with-a-name-that-is-long-$i; done
	[ $(ls /mnt/d | wc -l) = 40 ] || die "directory"
	rm -r /mnt/d /mnt/f /mnt/g
"""

# Each round overwrites a file in place, with other bytes than the round before, reads it back, and compares it with
# what was written, and the server's file, too: a write that was lost is found as much as a wrong byte.
LOAD = """
	worker() {
		n=0
		until [ -e /tmp/enough ]; do
			n=$((n + 1))
			v=/tmp/v$((($1 + n) % 4))
			case $((($1 + n) % 3)) in
			0) dd if=$v of=/mnt/w$1 bs=131072 conv=notrunc oflag=direct ;;
			1) dd if=$v of=/mnt/w$1 bs=65536 conv=notrunc,fsync ;;
			2) dd if=$v of=/mnt/w$1 bs=20000 conv=notrunc oflag=direct ;;
			esac 2> /tmp/said.$1 || { cat /tmp/said.$1 >&2; die "worker $1, round $n: write"; }
			[ ! "$STORED" ] || cmp $v $STORED/w$1 || die "worker $1, round $n: the server stored other bytes"
			dd if=/mnt/w$1 of=/tmp/r$1 bs=1M iflag=direct 2> /tmp/said.$1 ||
				{ cat /tmp/said.$1 >&2; die "worker $1, round $n: read"; }
			cmp $v /tmp/r$1 || die "worker $1, round $n: other bytes were read"
			echo $n > /tmp/new.$1 && mv /tmp/new.$1 /tmp/round.$1
		done
	}
	for i in 0 1 2 3; do [ -e /tmp/v$i ] || dd if=/dev/urandom of=/tmp/v$i bs=400003 count=1 2>/dev/null; done
	rm -f /tmp/enough /tmp/failed /tmp/round.*
	for i in $(seq $WORKERS); do
		echo 0 > /tmp/round.$i
		{ (worker $i) || { touch /tmp/failed; exit 1; }; } &
		pids="$pids $!"
	done
	for pid in $pids; do wait $pid || exit 1; done
"""

# What md5sum -c wants to know of the files that a load has left behind.
SUMS = """
	for i in $(seq $WORKERS); do
		md5sum < /tmp/v$(((i + $(cat /tmp/round.$i)) % 4)) | sed "s/-/w$i/"
	done
"""

# Waits until each worker has begun a round, and ended it: of the one that is under way, the last call may have had its
# answer already.
GOES_ON = """
	set -- $(cat /tmp/round.*)
	i=0
	for from; do
		i=$((i + 1))
		until [ $(cat /tmp/round.$i) -ge $((from + 2)) ]; do
			[ ! -e /tmp/failed ] || die "the load has failed"
			usleep 20000
		done
	done
"""

# Processes that are killed in the middle of what they do over and over, COUNT of them.
KILLED = """
	rm -rf /mnt/k; mkdir /mnt/k
	# Each is a process group, which goes on until it is killed.
	cat > /tmp/k <<- 'EOK'
		while :; do case $1 in
		0) dd if=/tmp/v0 of=/mnt/k/f bs=131072 oflag=direct ;;
		1) dd if=/mnt/k/f of=/dev/null bs=1M iflag=direct ;;
		2) dd if=/tmp/v1 of=/mnt/k/g bs=65536 conv=fsync ;;
		3) ls -l /mnt/k; echo > /mnt/k/h; rm /mnt/k/h ;;
		esac; done
	EOK
	for n in $(seq $COUNT); do
		setsid sh /tmp/k $((n % 4)) > /dev/null 2>&1 &
		usleep $((n * 7919 % 60 * 1000))
		# Until it is there, on a slow machine.
		until kill -9 -$!; do usleep 2000; done 2> /dev/null
		wait $! || :
	done
"""


# The whole machine sleeps, STATE "freeze" or "mem", until somebody wakes it. One that knows no power button does all of the
# former but the sleeping itself. Tasks that wait for others which sleep already make it fail, and it is tried again.
SLEEP = """
	[ $STATE = freeze ] || echo deep > /sys/power/mem_sleep || die "no suspend to RAM here"
	did=slept
	modprobe -q button
	if [ $STATE = freeze ] && ! grep -q " enabled" /sys/firmware/acpi/interrupts/ff_pwr_btn; then
		echo platform > /sys/power/pm_test || die "nothing wakes it, and there is no way to try without"
		did=rehearsed
	fi
	before=$(cat /sys/power/suspend_stats/success)
	for try in 1 2 3 4 5; do
		echo $STATE > /sys/power/state && break
	done
	[ $(cat /sys/power/suspend_stats/success) = $((before + 1)) ] ||
		die "it did not sleep: $(cd /sys/power/suspend_stats && grep . fail* last*)"
	[ $did = slept ] || echo none > /sys/power/pm_test
	echo $did
"""

# QEMU's ICH9 forgets where the ports of its power management are (PMBASE, ACPI_CNTL) when it resets for suspend to RAM,
# and SeaBIOS does not tell it again: without these, that was the last time that the machine could sleep.
PORTS = "/sys/bus/pci/devices/0000:00:1f.0/config"
KEEP_PORTS = f"dd if={PORTS} of=/tmp/ports bs=1 skip=64 count=5 2> /dev/null"
PORTS_AGAIN = f"dd if=/tmp/ports of={PORTS} bs=1 seek=64 conv=notrunc 2> /dev/null || die 'PMBASE is not written'"


# Waits until a device has a GID, or has it no more; or until its port has a state.
GIDS = """
	# DEVICE ADDRESS there|gone
	gid() {
		tries=0
		while :; do
			now=gone
			! grep -qx "fe80:0000:0000:0000:0000:0000:0000:$(printf %04x 0x${2##*::})" \
				/sys/class/infiniband/$1/ports/1/gids/* 2> /dev/null || now=there
			[ $now != $3 ] || return 0
			[ $((tries += 1)) -lt 500 ] || die "the GID $2 of $1 is $now"
			usleep 10000
		done
	}
	# DEVICE STATE
	port() {
		tries=0
		until rdma link show $1/1 | grep -q "state $2 "; do
			[ $((tries += 1)) -lt 500 ] || die "not $2: $(rdma link show $1/1)"
			usleep 10000
		done
	}
"""


# Of the allocations that MODULE makes, or has others make, each EVERY-th fails, but for those below SPARED, a function or
# another module: KIND is failslab (objects) or fail_page_alloc (2 to the power of ORDER pages, or more). After TIMES of them no
# more; "times" counts down.
FAILING = """
	texts() { awk -v m="[$1]" '$4 == m && $2 ~ /^[tT]$/ { print $1, $3 }' /proc/kallsyms | sort; }
	span() { texts $1 | sed -n '1s/ .*//p;$s/ .*//p'; }
	range() { texts $MODULE | sed -n "/ $1\$/{s/ .*//p;n;s/ .*//p}"; }
	cd /sys/kernel/debug/$KIND || die "this kernel has no $KIND"
	set -- $(span $MODULE) $(span $SPARED; range $SPARED)
	[ $# = 4 ] || die "no text of $MODULE and $SPARED in kallsyms: $*"
	echo 0x$1 > require-start; echo 0x$2 > require-end
	echo 0x$3 > reject-start; echo 0x$4 > reject-end
	echo N > ignore-gfp-wait; echo 0 > verbose; echo $TIMES > times; echo $EVERY > interval
	[ $KIND = failslab ] || { echo N > ignore-gfp-highmem; echo $ORDER > min-order; }
	echo 100 > probability
	[ "$(cat interval probability | xargs)" = "$EVERY 100" ] || die "$KIND was not set"
"""


def interface_of(device):
    return device.removeprefix("vhca_")


class Load:
    """Verified I/O by some processes, of files of 400 kB, until finish()."""

    WORKERS = 3

    def __init__(self, one, patience=60):
        self.vm = one.vm
        self.vm.run("rm -f /tmp/round.*", 10)
        self.job = self.vm.spawn(f"WORKERS={self.WORKERS}; STORED={one.stored}\n{LOAD}", "verified load")
        self.vm.until(f"[ $(cat /tmp/round.* 2>/dev/null | wc -l) = {self.WORKERS} ]", 30, "the load to begin")
        self.goes_on(patience, "a first round of the load")

    def goes_on(self, timeout, what):
        """Each of them does a round from its beginning to its end."""
        try:
            self.vm.run(GOES_ON, timeout, what)
        except machine.Failed:
            self.job.wait(10)    # says why
            raise

    def finish(self, timeout=60):
        """Ends it; returns how many rounds there were."""
        self.vm.run("touch /tmp/enough", 10)
        self.job.wait(timeout)
        return sum(int(n) for n in self.vm.run("cat /tmp/round.*", 10).split())

    def sums(self):
        """Behind finish(): what md5sum -c is to check in the folder of the mount, and in the export."""
        return self.vm.run(f"WORKERS={self.WORKERS}\n{SUMS}", 30, "sums of what was written")


class OneKernel:
    """Use as a context manager; `vm` is the machine.

    @name       of the test: directory of the logs
    @xprt       the transport of both ends
    @memory     of the machine, MiB
    @cpus       that it has
    @share      None, or a directory of the host's, as machine.VM has it
    @counted    it has one CPU, and its time is what that executes: machine.VM has more of it
    @cpu        as machine.VM has it; None: the usual one, of each kind of machine
    @plugin     path of a plugin of QEMU's that runs in it, or None
    @turns      as machine.VM has it
    """

    # Where the machine that mounts has the server's files; "": nowhere.
    stored = "/export"

    def __init__(self, name, xprt=None, memory=2048, cpus=2, share=None, counted=False, cpu=None, plugin=None,
                 turns=False):
        self.xprt = xprt or lab.default_xprt()
        self._served = False
        self.logs = os.path.join(lab.LOGS, name)
        with image.exclusive():
            kernel, initramfs = image.image("6.12")
        if kernel.arch != "amd64":
            raise image.NotHere(f"the virtual RDMA device is for x86 alone, and {kernel.release} is for {kernel.arch}")
        if self.xprt == "rpcordma" and not image.find_module("rpcordma", kernel):
            raise lab.LabError(f"no rpcordma.ko for {kernel.release} under build/: run make module")
        os.makedirs(self.logs, exist_ok=True)
        self.vms = []
        self._sockets = tempfile.mkdtemp(prefix="rpcordma-vm-")

        def boot():
            how = {"cpus": 1, "cpu": cpu or machine.COUNTED_CPU, "cmdline": "nokaslr", "counted": True}
            if not counted:
                how = {"cpus": cpus, "cpu": cpu or machine.CPU, "snapshots": lab.SNAPSHOTS, "warm": lab.WARM,
                       "turns": turns}
            self.vm = machine.VM("one", kernel, initramfs, os.path.join(self.logs, "one.log"), memory=memory,
                                 share=share, plugin=plugin and (plugin, os.path.join(self._sockets, "plugin")), **how)
            self.vms = [self.vm]
            # What Lab calls it.
            self.client = self.server = self.vm
            self.vm.wait_boot(90)

        try:
            try:
                boot()
            except machine.VmError as error:
                # As in Lab: nothing of ours has run yet.
                print(f"vm: {error}\nvm: booting {name} once more", flush=True)
                self.stop()
                boot()
            self.vm.run(f"TIMES={math.ceil(machine.PATIENCE)}\n{CHECKERS}\n{UP}", 40, "two interfaces and vhca")
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for vm in self.vms:
            vm.stop()
        shutil.rmtree(self._sockets, ignore_errors=True)

    def complaints(self):
        return [f"{self.vm.name}: {line}" for line in self.vm.complaints]

    def devices_up(self, preset, bounce=True, **params):
        """Makes both devices; @params are module parameters of vhca."""
        params = {"preset": preset, "bounce": "Y" if bounce else "N", "checks": "Y", "align_mask": 4095, "sgl_rd": 0,
                  **params}
        self.vm.run("".join(f"echo {value} > /sys/module/vhca/parameters/{name}\n" for name, value in params.items()) +
                    "for dev in va vb; do rdma link add vhca_$dev type vhca netdev $dev || die \"no vhca_$dev\"; done",
                    20, f"devices of preset {preset}")

    def devices_down(self):
        self.vm.run("for dev in va vb; do rdma link delete vhca_$dev || die \"vhca_$dev stays\"; done", 60,
                    "rdma link delete")

    def serve(self, export="400m", lease=3600):
        """Also after stop_serving(), which leaves the export and its files."""
        first = f"export_up {export}; server_up {self.xprt} {lease}; modprobe -a nfs nfsv3 nfsv4"
        self.vm.run(f"modprobe {self.xprt} && nfsd_start 8" if self._served else first, 60, "NFS server up")
        self._served = True
        lab.Lab.only(self.vm, self.xprt)

    def unused(self):
        """Waits until no NFS client is left."""
        # umount has returned, but calls may be under way: after processes were killed NFS asks for a slot's sequence number,
        # in 15 s once more.
        self.vm.until("[ $(wc -l < /proc/fs/nfsfs/servers) -le 1 ] && "
                      "! grep -q ^transport: /sys/kernel/debug/rpcordma/stats 2> /dev/null", 60, "the NFS clients to end")

    def stop_serving(self):
        """nfsd ends, and the transport goes, which nobody may hold any more. No mount is left."""
        # Without a server its calls would be under way for minutes.
        self.unused()
        self.vm.run("nfsd_stop", 60, "stop nfsd")
        self.vm.until(f"rmmod {self.xprt}", 30, f"rmmod {self.xprt}")

    def event(self, device, text):
        """@device has @text happen (selftests/hca/inject.c)."""
        self.vm.run(f"echo '{text}' > {DEBUGFS}/{device}/event", 20, f"{text}, {device}")

    def inject(self, device, text):
        """What is asked for there of a work request to come, or "release" (selftests/hca/inject.c)."""
        self.vm.run(f"echo '{text}' > {DEBUGFS}/{device}/inject", 10, f"{text}, {device}")

    def address(self, device):
        """The interface of @device gets one more address and loses it: a GID that comes and goes."""
        interface = interface_of(device)
        self.vm.run(f"{GIDS}\nip addr add fe80::99/64 dev {interface} nodad || die\ngid {device} fe80::99 there\n"
                    f"ip addr del fe80::99/64 dev {interface} || die\ngid {device} fe80::99 gone", 20,
                    f"a GID of {device} comes and goes")

    def own_address(self, device):
        """The interface of @device is for a while without the address that connections use: a GID that goes and comes."""
        own, interface = ADDRESSES[device], interface_of(device)
        self.vm.run(f"{GIDS}\nip addr del {own}/64 dev {interface} || die\ngid {device} {own} gone\nsleep {AWAY}\n"
                    f"ip addr add {own}/64 dev {interface} nodad || die\ngid {device} {own} there", 20,
                    f"the GID of {device} goes and comes")

    def link(self, device):
        """The interface of @device is down for a while, which takes its address along."""
        own, interface = ADDRESSES[device], interface_of(device)
        self.vm.run(f"{GIDS}\nip link set {interface} down || die\nport {device} DOWN\nsleep {AWAY}\n"
                    f"ip link set {interface} up && ip addr replace {own}/64 dev {interface} nodad || die\n"
                    f"port {device} ACTIVE\ngrep -q RNIC /sys/class/infiniband/{device}/node_type || gid {device} {own} there", 20,
                    f"the link of {device} goes and comes")

    def port(self, device, up):
        """The port of @device, and not its interface, goes down or comes up."""
        self.event(device, f"port {'up' if up else 'down'}")
        self.vm.run(f"{GIDS}\nport {device} {'ACTIVE' if up else 'DOWN'}", 20, f"the port of {device}")

    def port_flap(self, device):
        """The port of @device is down for a while."""
        self.port(device, False)
        time.sleep(AWAY)
        self.port(device, True)

    def behave(self, device, **how):
        """Sets read_delay, cq_delay, cq_batch, map_fails of a device."""
        self.vm.run("".join(f"echo {value} > {DEBUGFS}/{device}/{name}\n" for name, value in how.items()), 10,
                    f"{device}: {how}")

    def connecting(self, device):
        """All connections are lost, and the client makes one for as long as what @device's connection manager sends is lost:
        until @device goes."""
        self.vm.run(f"echo Y > {DEBUGFS}/{device}/cm_lost\necho qp-fatal > {DEBUGFS}/{device}/event", 10,
                    f"{device} loses its connections")
        # By which the client's queue pair is that of a request that nobody has answered.
        self.vm.until("rdma resource show qp link vhca_va/1 | grep -q 'type RC state INIT'", 30, "the client to connect")

    def remove(self, device):
        """The device goes, and comes back."""
        # As long as it is not gone altogether, its name is taken.
        self.vm.run(f"echo remove > {DEBUGFS}/{device}/event || die 'no {device}'\n"
                    f"until rdma link add {device} type vhca netdev {interface_of(device)}; do usleep 20000; done "
                    "2> /dev/null", 60, f"{device} goes and comes")

    def sleep(self, state):
        """The machine suspends to idle ("freeze") or to RAM ("mem"), and wakes up. Returns what it did."""
        job = self.vm.spawn(f"STATE={state}\n{KEEP_PORTS}\n{SLEEP}\n{PORTS_AGAIN}", f"suspend, {state}")
        deadline = time.monotonic() + 60 * machine.PATIENCE
        while job.running() and time.monotonic() < deadline:
            time.sleep(2)
            # To idle: for QEMU it is awake. Who is awake takes no notice of its power button.
            if self.vm.monitor.command("query-status")["status"] == "suspended":
                self.vm.monitor.command("system_wakeup")
            elif state == "freeze":
                self.vm.monitor.command("system_powerdown")
        return job.wait(10).strip()

    def cpu(self, number, online):
        self.vm.run(f"echo {int(online)} > /sys/devices/system/cpu/cpu{number}/online", 60,
                    f"CPU {number} {'comes' if online else 'goes'}")

    def fail_allocations(self, kind, every, times, order=0, spared="vhca"):
        """Each @every-th of what the transport allocates by @kind, failslab or fail_page_alloc, fails, @times at most; of pages,
        those that come by 2 to the power of @order, or more; but for what is below @spared, a function of the transport's or
        another module. For a kernel of ours with checkers."""
        self.vm.run(f"KIND={kind} MODULE={self.xprt} EVERY={every} TIMES={times} ORDER={order} SPARED={spared}\n{FAILING}",
                    30, f"each {every}th allocation fails, {kind}")

    def allocations_last(self, kind, times):
        """The end of that. Returns how many have failed."""
        left = self.vm.run(f"cd /sys/kernel/debug/{kind} && echo 0 > probability && cat times", 10, f"no more {kind}")
        return times - int(left)

    def connects(self):
        """How often the mount's transports have connected."""
        return lab.Lab.xprt_stats(self)["connect_count"]

    def objects(self):
        """{(device, kind): number} of what users of the devices have: queue pairs, regions, mappings."""
        return {(device, kind): stats[kind] for device in DEVICES for stats in (self.stats(device),)
                for kind in ("qps", "mrs", "mapped")}

    def back_to(self, before):
        """Waits until objects() is @before; the last connections take a moment."""
        deadline = time.monotonic() + 20 * machine.PATIENCE
        while (after := self.objects()) != before:
            if time.monotonic() > deadline:
                raise lab.LabError("objects are left over: " + ", ".join(
                    f"{device} {kind} {before[device, kind]} -> {n}" for (device, kind), n in after.items()
                    if n != before[device, kind]))
            time.sleep(0.3)

    def mount(self, version, options="", where="/mnt", timeout=60):
        """@version as in the option vers="""
        self.vm.run(self.mount_command(version, options, where), timeout, f"mount vers={version} {options}")

    @staticmethod
    def mount_command(version, options="", where="/mnt", port=20049):
        source = "/export" if version == "3" else "/"
        more = "nolock,mountproto=tcp,mounthost=127.0.0.1" if version == "3" else "clientaddr=fe80::2%va"
        return (f"mkdir -p {where}; /sbin/mount.nfs '[fe80::1%va]:{source}' {where} -o vers={version},proto=rdma6,"
                f"port={port},{more}{',' + options if options else ''}")

    def mount_fails(self, version):
        """Tries a mount that must fail, soon. Whether it is mounted all the same."""
        job = self.vm.spawn(self.mount_command(version, "retry=0,soft,timeo=30,retrans=1"), "a mount that must fail")
        job.wait(90, check=False)
        return job.status == 0

    def umount(self, where="/mnt"):
        self.vm.run(f"umount {where}", 60, f"umount {where}")

    def stats(self, device):
        """{counter: value} of one device (selftests/hca/inject.c)."""
        text = self.vm.run(f"cat {DEBUGFS}/{device}/stats", 10, f"read the counters of {device}")
        return {name: int(value) for name, value in (line.split() for line in text.splitlines())}

    def faults(self):
        """What rules were broken at the devices that there are, as texts."""
        return self.vm.run(f"for dev in {DEBUGFS}/vhca_*; do [ ! -e $dev ] || "
                           "[ \"$(sed -n 's/^faults //p' $dev/stats)\" = 0 ] || "
                           f"echo \"${{dev##*/}}: $(cat $dev/fault)\"; done", 10, "read the faults").splitlines()
