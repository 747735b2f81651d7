# SPDX-License-Identifier: GPL-2.0-only
"""A server VM and one or two client VMs with NFS over RDMA between them.

Which transport module each side runs, and on which kernel, is the caller's choice; a second client
always runs the in-tree one. What is done over the mount is in the tests.
"""

import os
import shlex
import shutil
import tempfile

from . import image, machine

LOGS = os.environ.get("VM_LOGS", os.path.join(image.TOP, "build", "log", "vm"))

# Machines after boot (snapshot.py).
SNAPSHOTS = None if os.environ.get("VM_SNAPSHOTS") == "0" else os.path.join(image.BUILD, "snapshots")

# Parameters of our module at the server: a Receive that is missing there costs the connection, where
# by default the client's device would send again and nobody would see it.
STRICT = "server_rnr_retry_count=0"

# What a machine does before its first test, once for its snapshot: modules of the distribution that take a while
# to load, and on which neither transport depends; and the first packet of each kind. Behind that the kernel patches
# its own text, for random numbers that are drawn once, which QEMU's second processor does not always survive
# (kernlog.INT3).
WARM = """
    modprobe -a nfsv3 nfsv4 nfsd lockd rdma_cm
    ip link set lo up
    for to in 127.0.0.1 ::1; do
        nc -l -p 1 < /dev/null > /dev/null 2>&1 & sleep 0.1
        echo | nc -w 1 $to 1 > /dev/null 2>&1
        ping -c 1 -W 1 $to > /dev/null
        nslookup -timeout=1 a $to > /dev/null 2>&1
    done
    wait
    true
"""

# Columns of the "xprt: rdma" line of mountstats, in their order.
XPRT_FIELDS = """
    port bind_count connect_count connect_time idle_time sends recvs bad_xids req_u bklog_u
    read_chunks write_chunks reply_chunks total_request total_reply pullup fixup hardway
    failed_marshal bad_reply nomsg_calls mrs_recycled mrs_orphaned mrs_allocated local_inv
    empty_sendctx reply_waits
""".split()


class LabError(Exception):
    """The lab cannot be set up, or what it was used for left something behind."""


XPRTS = ("rpcordma", "rpcrdma")


def _xprt(variable, default):
    xprt = os.environ.get(variable, default)
    if xprt not in XPRTS:
        raise LabError(f"{variable}={xprt}: must be rpcordma or rpcrdma")
    return xprt


def default_xprt():
    """The client's transport module: XPRT, or rpcordma."""
    return _xprt("XPRT", "rpcordma")


def default_server_xprt():
    """The server's transport module: SERVER_XPRT, or the in-tree rpcrdma."""
    return _xprt("SERVER_XPRT", "rpcrdma")


def server_under_test():
    """That of tests that are about the server: SERVER_XPRT, or rpcordma."""
    return _xprt("SERVER_XPRT", "rpcordma")


class Lab:
    """Use as a context manager; `client`, `server` and `client2` are machine.VM.

    @name           of the test: directory of the logs
    @client_kernel  "6.12", which VM_KERNEL may have stand for another, or what else scripts/kernels takes
    @xprt           module that is the client's transport
    @server         False: no second machine, and the client's eth0 leads nowhere
    @server_kernel  likewise
    @server_xprt    module that is the server's transport
    @server_params  parameters of our module when the server loads it, "" for its defaults
    @client2        a third machine, on a network of its own: the server's eth1
    @device         "rxe" or "siw" (6.12 only)
    @krb5           the machines are members of a Kerberos realm
    @tools          the guests can run programs of the host (`tool` in lib.sh)
    @capture        the client's traffic is kept, in the file that its VM's capture names
    @plugin         path of a plugin of QEMU's that runs in every machine's, or None
    @server_disk    path of the server's disk, which outlives the machine, or None
    @server_nodes   NUMA nodes of the server, a CPU each
    """

    def __init__(self, name, client_kernel="6.12", xprt=None, server=True, client_memory=1024,
                 server_memory=1024, client_cmdline="", server_kernel="6.12", server_xprt=None,
                 client2=False, device="rxe", krb5=False, tools=False, capture=False,
                 plugin=None, server_params=STRICT, server_disk=None, server_nodes=1):
        self.name = name
        self.xprt = xprt or default_xprt()
        self.server_xprt = server_xprt or default_server_xprt()
        self.device = device
        # The tmpfs that is exported has user attributes since 6.6.
        self.server_xattr = image.tested(server_kernel) != "6.1"
        self.vms = []
        self.client = self.server = self.client2 = None
        self.logs = os.path.join(LOGS, name)
        self._share = "/usr" if tools else None
        self._plugin = plugin
        self._disks = {"server": server_disk}
        self._nodes = {"server": server_nodes}
        self._server_params = server_params
        # What each machine was made with, by its role.
        self._made = {}
        self._capture = capture or bool(os.environ.get("CAPTURE"))
        # Sockets have short names only.
        self._cables = tempfile.mkdtemp(prefix="rpcordma-vm-")
        self._cable = self._cable2 = None

        def need(xprt, series):
            with image.exclusive():
                extra = [image.siw_module(image.Kernel(series))] if device == "siw" else []
                made = image.image(series, extra, krb5)
            if tools and made[0].arch != "amd64":
                raise image.NotHere(f"a guest of {made[0].arch} cannot run this machine's programs")
            if xprt == "rpcordma" and not image.find_module("rpcordma", made[0]):
                raise LabError(f"no rpcordma.ko for {made[0].release} under build/: "
                               f"run make module KVER={series}, or set RPCORDMA_KO")
            return made

        def boot():
            self._cable = machine.Cable(os.path.join(self._cables, "0"))
            self._cable2 = machine.Cable(os.path.join(self._cables, "1"))
            # One CPU: two machines of two CPUs on a host of two spend a third of their time
            # on each other. The client, which is under test, keeps its two.
            nets = [self._cable, self._cable2] if client2 else [self._cable]
            machines = [("server", *server_image, nets, server_memory, "", server_nodes)] if server else []
            machines.append(("client", *client_image, [self._cable], client_memory, client_cmdline, 2))
            if server_disk:
                # The first one keeps its end of the cable when the other one is gone.
                machines.reverse()
            if client2:
                machines.append(("client2", *client2_image, [self._cable2], 768, "", 1))
            for role, *how, cpus in machines:
                setattr(self, role, self._boot(role, *how, cpus=cpus))
            for vm in self.vms:
                self._booted(vm)

        try:
            client_image = need(self.xprt, client_kernel)
            server_image = need(self.server_xprt, server_kernel) if server else None
            client2_image = need("rpcrdma", server_kernel) if client2 else None
            try:
                boot()
            except machine.VmError as error:
                # Nothing of ours runs before a machine has booted: this was the emulator or a
                # starved host. Said aloud, and tried once more.
                print(f"vm: {error}\nvm: booting {name} once more", flush=True)
                for vm in self.vms:
                    vm.stop()
                self.vms = []
                for name in os.listdir(self._cables):
                    os.unlink(os.path.join(self._cables, name))
                boot()
        except BaseException:
            self.stop()
            raise

    def _boot(self, role, kernel, initramfs, nets, memory, cmdline="", cpus=2):
        self._made[role] = (kernel, initramfs, nets, memory, cmdline), {"cpus": cpus}
        capture = None
        # A machine that boots again keeps the logs of its earlier lives.
        life = sum(vm.name == role for vm in self.vms) + 1
        log = os.path.join(self.logs, role if life == 1 else f"{role}-{life}")
        if self._capture and role == "client":
            os.makedirs(self.logs, exist_ok=True)
            capture = f"{log}.pcap"
        plugin = self._plugin and (self._plugin, os.path.join(self._cables, f"{role}.plugin"))
        vm = machine.VM(role, kernel, initramfs, f"{log}.log", nets, memory=memory,
                        capture=capture, cmdline=cmdline, cpus=cpus, share=self._share,
                        snapshots=SNAPSHOTS if life == 1 else None, warm=WARM, plugin=plugin,
                        disk=self._disks.get(role), nodes=self._nodes.get(role, 1))
        self.vms.append(vm)
        vm.company = self.vms
        return vm

    def _booted(self, vm):
        vm.wait_boot(90)
        if vm is self.server and self._server_params:
            # For modprobe, whoever calls it: tests unload the module and load it again.
            vm.run(f"echo options rpcordma {self._server_params} > /etc/modprobe.d/options.conf")

    def power_cycle(self, role):
        """Takes the power from the client or the server, without a word to anybody, and boots it again. A server has
        a disk for that (server_disk): without one the other end of its cable would be lost."""
        args, options = self._made[role]
        getattr(self, role).stop()

        def boot():
            vm = self._boot(role, *args, **options)
            setattr(self, role, vm)
            self._booted(vm)

        try:
            boot()
        except machine.VmError as error:
            # As when the lab began.
            print(f"vm: {error}\nvm: booting the {role} once more", flush=True)
            vm = getattr(self, role)
            vm.stop()
            vm.scanner.forget()
            boot()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for vm in self.vms:
            vm.stop()
        shutil.rmtree(self._cables, ignore_errors=True)

    def complaints(self):
        """Kernel complaints of all machines so far, each with its machine's name."""
        return [f"{vm.name}: {line}" for vm in self.vms for line in vm.complaints]

    # Roles

    def up(self, export="600m", verbsmeter=False, params="", flavours="sys", lease=10, grace=10,
           server_meter=False):
        """Brings all sides to where a mount works; nfsd's @lease and @grace period in seconds.
        @verbsmeter is the client's, @server_meter the server's."""
        meter = "modprobe ib_core; modprobe verbsmeter; " if server_meter else ""
        second = f"net_up 1 1 eth1; rdma_up {self.device} eth1; " if self.client2 else ""
        server = self.server.spawn(f"net_up 1; {meter}rdma_up {self.device}; {second}"
                                   f"export_up {export} {flavours}; "
                                   f"server_up {self.server_xprt} {lease} {grace}",
                                   "NFS server up")
        self.client_net(verbsmeter)
        self.client_transport(params)
        server.wait(60)
        self.only(self.server, self.server_xprt)
        self.client.until("ping -c 1 -W 1 10.0.0.1 > /dev/null", 10, "the server answers ping")
        if self.client2:
            self.client2.run(f"net_up 2 1; rdma_up {self.device}; client_up rpcrdma", 30,
                             "second client up")
            self.client2.until("ping -c 1 -W 1 10.0.1.1 > /dev/null", 10,
                               "the server answers the second client's ping")

    def client_net(self, verbsmeter=False, verbsmeter_params=""):
        load = f"modprobe verbsmeter {verbsmeter_params};" if verbsmeter else ""
        self.client.run(f"net_up 2; modprobe ib_core; {load} rdma_up {self.device}", 30,
                        "client network up")

    def client_transport(self, params=""):
        self.client.run(f"client_up {self.xprt} {params}", 30, f"client loads {self.xprt}")
        self.only(self.client, self.xprt)

    @staticmethod
    def only(vm, xprt):
        """A module alias could have loaded the other transport; nothing would be shown then."""
        loaded = [name for name in XPRTS if vm.ok(f"lsmod | grep -q '^{name} '")]
        if loaded != [xprt]:
            raise LabError(f"{vm.name}: the transports loaded are {loaded}, not {xprt} alone")

    def krb5_up(self):
        """Kerberos on server and client. From here on NFSv4 uses it for its state, whatever sec= is."""
        self.server.run("krb5_server_up", 60, "KDC and svcgssd up")
        self.client.run("krb5_client_up", 60, "gssd up")

    def mount(self, version, options="", where="/mnt", timeout=40, sec="sys"):
        self.client.run(f"nfs_mount {version} '{options}' {where} {sec}", timeout,
                        f"mount vers={version} sec={sec} {options}")

    def mount2(self, version, options="", where="/mnt", timeout=40):
        """The same on the second client."""
        self.client2.run(f"nfs_mount {version} '{options}' {where} sys 10.0.1.1", timeout,
                         f"mount vers={version} {options}")

    def umount(self, where="/mnt", timeout=40):
        self.client.run(f"umount {where}", timeout, f"umount {where}")

    def install_names(self, vm):
        """Has modprobe of @vm know what `make install` tells it."""
        with open(os.path.join(image.TOP, "scripts", "kbuild", "modprobe.conf")) as conf:
            vm.run(f"printf '%s' {shlex.quote(conf.read())} > /etc/modprobe.d/rpcordma.conf", 10)

    def unload(self):
        """Removes the client's transport module; a failed mount takes a moment to let go of it."""
        self.client.until(f"rmmod {self.xprt}", 15, f"rmmod {self.xprt}")

    # Numbers

    def xprt_stats(self, where="/mnt"):
        """{column: sum over the mount's transports} of the xprt lines in mountstats."""
        text = self.client.run("cat /proc/self/mountstats", 10, "read mountstats")
        total = None
        for block in text.split("\ndevice "):
            if f" mounted on {where} with" not in block.splitlines()[0]:
                continue
            for line in block.splitlines():
                words = line.split()
                if words[:2] != ["xprt:", "rdma"]:
                    continue
                values = [int(w) for w in words[2:]]
                if len(values) != len(XPRT_FIELDS):
                    raise LabError(f"mountstats: {len(values)} columns after \"xprt: rdma\", "
                                   f"not {len(XPRT_FIELDS)}: {line}")
                total = [a + b for a, b in zip(total or [0] * len(values), values)]
        if total is None:
            raise LabError(f"mountstats has no \"xprt: rdma\" line for {where}")
        return dict(zip(XPRT_FIELDS, total))

    def verbs(self, vm=None, device=None):
        """{counter: value} of verbsmeter's total."""
        device = device or f"{self.device}0"
        text = (vm or self.client).run(f"cat /sys/kernel/debug/verbsmeter/{device}/total", 10,
                                       "read verbsmeter")
        return {name: int(value) for name, value in (line.split() for line in text.splitlines())}

    def reset_verbs(self, vm=None, device=None):
        device = device or f"{self.device}0"
        (vm or self.client).run(f"echo > /sys/kernel/debug/verbsmeter/{device}/reset", 10,
                                "reset verbsmeter")

    def rdma_resources(self, vm=None):
        """{kind: number} of the RDMA objects that exist, over all devices (`rdma resource`)."""
        total = {}
        for line in (vm or self.client).run("rdma resource show", 10).splitlines():
            words = line.split()[2:]
            for kind, number in zip(words[::2], words[1::2]):
                total[kind] = total.get(kind, 0) + int(number)
        return total

    def kernel_log(self, pattern, vm=None):
        """Lines of the kernel log that match an extended regular expression."""
        return (vm or self.client).run(f"dmesg | grep -E '{pattern}'", 10,
                                       check=False).splitlines()
