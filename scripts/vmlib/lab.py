# SPDX-License-Identifier: GPL-2.0-only
"""A client VM and a server VM with NFS over RDMA between them.

The server always runs the in-tree transport and a stock 6.12; which transport module the client
runs, and on which kernel, is the caller's choice. What is done over the mount is in the tests.
"""

import os

from . import image, machine

LOGS = os.environ.get("VM_LOGS", os.path.join(image.TOP, "build", "log", "vm"))

# Columns of the "xprt: rdma" line of mountstats, in their order.
XPRT_FIELDS = """
    port bind_count connect_count connect_time idle_time sends recvs bad_xids req_u bklog_u
    read_chunks write_chunks reply_chunks total_request total_reply pullup fixup hardway
    failed_marshal bad_reply nomsg_calls mrs_recycled mrs_orphaned mrs_allocated local_inv
    empty_sendctx reply_waits
""".split()


class LabError(Exception):
    """The lab cannot be set up, or what it was used for left something behind."""


def default_xprt():
    """The client's transport module: XPRT, or rpcordma."""
    xprt = os.environ.get("XPRT", "rpcordma")
    if xprt not in ("rpcordma", "rpcrdma"):
        raise LabError(f"XPRT={xprt}: must be rpcordma or rpcrdma")
    return xprt


class Lab:
    """Use as a context manager; `client` and `server` are machine.VM.

    @name           of the test: directory of the logs
    @client_kernel  "6.12" or "6.1"
    @xprt           module that is the client's transport
    @server         False: no second machine, and the client's eth0 leads nowhere
    """

    def __init__(self, name, client_kernel="6.12", xprt=None, server=True, client_memory=1024,
                 server_memory=1024, client_cmdline=""):
        self.name = name
        self.xprt = xprt or default_xprt()
        self.vms = []
        self.client = self.server = None
        self.logs = os.path.join(LOGS, name)
        kernel, initramfs = image.image(client_kernel)
        server_image = image.image("6.12") if server else None
        if self.xprt == "rpcordma" and not image.find_module("rpcordma", kernel):
            raise LabError(f"no rpcordma.ko for {kernel.release} under build/: "
                           f"run make module KVER={client_kernel}, or set RPCORDMA_KO")

        def boot():
            near, far = machine.link()
            if server:
                # One CPU: two machines of two CPUs on a host of two spend a third of their time
                # on each other. The client, which is under test, keeps its two.
                self.server = self._boot("server", *server_image, near, server_memory, cpus=1)
            self.client = self._boot("client", kernel, initramfs, far, client_memory,
                                     client_cmdline)
            for vm in self.vms:
                vm.wait_boot(90)

        try:
            try:
                boot()
            except machine.VmError as error:
                # Nothing of ours runs before a machine has booted: this was the emulator or a
                # starved host. Said aloud, and tried once more.
                print(f"vm: {error}\nvm: booting {name} once more", flush=True)
                self.stop()
                self.vms = []
                boot()
        except BaseException:
            self.stop()
            raise

    def _boot(self, role, kernel, initramfs, net, memory, cmdline="", cpus=2):
        capture = None
        if os.environ.get("CAPTURE") and role == "client":
            os.makedirs(self.logs, exist_ok=True)
            capture = os.path.join(self.logs, f"{role}.pcap")
        vm = machine.VM(role, kernel, initramfs, os.path.join(self.logs, f"{role}.log"), [net],
                        memory=memory, capture=capture, cmdline=cmdline, cpus=cpus)
        self.vms.append(vm)
        return vm

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for vm in self.vms:
            vm.stop()

    def complaints(self):
        """Kernel complaints of all machines so far, each with its machine's name."""
        return [f"{vm.name}: {line}" for vm in self.vms for line in vm.complaints]

    # Roles

    def up(self, export="600m", verbsmeter=False, params=""):
        """Brings both sides to where a mount works."""
        server = self.server.spawn(f"net_up 1; rxe_up; export_up {export}; server_up rpcrdma",
                                   "NFS server up")
        self.client_net(verbsmeter)
        self.client_transport(params)
        server.wait(60)
        self.client.until("ping -c 1 -W 1 10.0.0.1 > /dev/null", 10, "the server answers ping")

    def client_net(self, verbsmeter=False, verbsmeter_params=""):
        load = f"modprobe verbsmeter {verbsmeter_params};" if verbsmeter else ""
        self.client.run(f"net_up 2; modprobe ib_core; {load} rxe_up", 30, "client network up")

    def client_transport(self, params=""):
        self.client.run(f"client_up {self.xprt} {params}", 30, f"client loads {self.xprt}")

    def mount(self, version, options="", where="/mnt", timeout=40):
        self.client.run(f"nfs_mount {version} '{options}' {where}", timeout,
                        f"mount vers={version} {options}")

    def umount(self, where="/mnt", timeout=40):
        self.client.run(f"umount {where}", timeout, f"umount {where}")

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

    def verbs(self, vm=None, device="rxe0"):
        """{counter: value} of verbsmeter's total."""
        text = (vm or self.client).run(f"cat /sys/kernel/debug/verbsmeter/{device}/total", 10,
                                       "read verbsmeter")
        return {name: int(value) for name, value in (line.split() for line in text.splitlines())}

    def reset_verbs(self, vm=None, device="rxe0"):
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
