# SPDX-License-Identifier: GPL-2.0-only
"""One machine with both ends of NFS over RDMA in its kernel, over two virtual RDMA devices (selftests/hca).

The client's device is vhca_va, the server's vhca_vb: a veth pair joins their interfaces. Both are in one network;
what one interface sends to the other's address would be taken for loopback, but for a link-local address, which says
which interface it is meant for.
"""

import os

from . import image, lab, machine

PRESETS = ("connectx", "irdma", "cxgb4", "qedr", "poor")
DEVICES = ("vhca_va", "vhca_vb")
DEBUGFS = "/sys/kernel/debug/vhca"

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


class OneKernel:
    """Use as a context manager; `vm` is the machine.

    @name       of the test: directory of the logs
    @xprt       the transport of both ends
    @memory     of the machine, MiB
    """

    def __init__(self, name, xprt=None, memory=2048):
        self.xprt = xprt or lab.default_xprt()
        self.logs = os.path.join(lab.LOGS, name)
        with image.exclusive():
            kernel, initramfs = image.image("6.12")
        os.makedirs(self.logs, exist_ok=True)
        self.vm = machine.VM("one", kernel, initramfs, os.path.join(self.logs, "one.log"), memory=memory,
                             snapshots=lab.SNAPSHOTS, warm=lab.WARM)
        self.vms = [self.vm]
        try:
            self.vm.wait_boot(90)
            self.vm.run(UP, 40, "two interfaces and vhca")
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.vm.stop()

    def complaints(self):
        return [f"{self.vm.name}: {line}" for line in self.vm.complaints]

    def devices_up(self, preset, bounce=True, **params):
        """Makes both devices; @params are module parameters of vhca."""
        params = {"preset": preset, "bounce": "Y" if bounce else "N", **params}
        self.vm.run("".join(f"echo {value} > /sys/module/vhca/parameters/{name}\n" for name, value in params.items()) +
                    "for dev in va vb; do rdma link add vhca_$dev type vhca netdev $dev || die \"no vhca_$dev\"; done",
                    20, f"devices of preset {preset}")

    def devices_down(self):
        self.vm.run("for dev in va vb; do rdma link delete vhca_$dev || die \"vhca_$dev stays\"; done", 60,
                    "rdma link delete")

    def serve(self, export="400m", lease=3600):
        self.vm.run(f"export_up {export}; server_up {self.xprt} {lease}; modprobe -a nfs nfsv3 nfsv4", 60,
                    "NFS server up")

    def mount(self, version, options="", where="/mnt", timeout=60):
        """@version as in the option vers="""
        source = "/export" if version == "3" else "/"
        more = "nolock,mountproto=tcp,mounthost=127.0.0.1" if version == "3" else "clientaddr=fe80::2%va"
        self.vm.run(f"mkdir -p {where}; /sbin/mount.nfs '[fe80::1%va]:{source}' {where} -o vers={version},proto=rdma6,"
                    f"port=20049,{more}{',' + options if options else ''}", timeout, f"mount vers={version} {options}")

    def umount(self, where="/mnt"):
        self.vm.run(f"umount {where}", 60, f"umount {where}")

    def stats(self, device):
        """{counter: value} of one device (selftests/hca/inject.c)."""
        text = self.vm.run(f"cat {DEBUGFS}/{device}/stats", 10, f"read the counters of {device}")
        return {name: int(value) for name, value in (line.split() for line in text.splitlines())}

    def faults(self):
        """What rules were broken at the devices that there are, as texts."""
        return self.vm.run(f"for dev in {DEBUGFS}/vhca_*; do [ \"$(sed -n 's/^faults //p' $dev/stats)\" = 0 ] || "
                           f"echo \"${{dev##*/}}: $(cat $dev/fault)\"; done", 10, "read the faults").splitlines()
