# SPDX-License-Identifier: GPL-2.0-only
"""NFS over two virtual RDMA devices in one kernel, which do DMA and hold who uses them to the rules of real ones
(selftests/hca). A rule that is broken is a warning in the kernel's log, which fails the test. `make hca` is the whole
of which these are a part.
"""

import os

from vmlib import hca, hcarun
from vmlib.testing import test

# Each preset, each version, and both ways to do DMA; what is small takes the more calls.
SMOKE = (("connectx", True, "4.2"), ("irdma", False, "3"), ("qedr", True, "4.1"), ("poor", False, "4.0"),
         ("cxgb4", True, "4.2"))
# With VM_SLOW=1: presets done the other way.
MORE = (("poor", True, "3"), ("connectx", False, "4.1"), ("irdma", True, "4.2"), ("cxgb4", False, "3"))


class Station:
    """A machine whose virtual devices and NFS server come and go; nothing may be left of them.

    @t  the test, after which the machine is stopped and judged
    """

    def __init__(self, t):
        self.t = t
        self.one = hca.OneKernel(t.name, t.xprt)
        t.labs.append(self.one)

    def use(self, preset, bounce, function, *args):
        """@function(one, @args) over devices of @preset."""
        if bounce and self.t.xprt == "rpcrdma":
            print(f"    {preset} bounce: skipped: {hca.IN_TREE_BOUNCES}", flush=True)
            return
        self.one.devices_up(preset, bounce)
        before = self.one.objects()
        self.one.serve()
        said = function(self.one, *args)
        self.t.equal(self.one.faults(), [], f"{preset}: rules that were broken")
        hcarun.down(self.one, before)
        print(f"    {preset} {'bounce' if bounce else 'direct'}: {said}", flush=True)

    def end(self):
        self.one.vm.run("rmmod vhca", 30, "rmmod vhca")


@test("hca-smoke")
def hca_smoke(t):
    """every NFS version over virtual devices of several kinds that do DMA, with or without bounce buffers (VM_SLOW=1:
    both)"""
    station = Station(t)
    for preset, bounce, version in SMOKE + MORE * bool(os.environ.get("VM_SLOW")):
        station.use(preset, bounce, hcarun.smoke, version)
    if t.xprt == "rpcordma":
        station.use("unfit", False, hcarun.refused, hca.REFUSES_QUEUES)
    station.end()


@test("hca-drops")
def hca_drops(t):
    """all queue pairs of a virtual device fail under load, the client's and the server's in turn"""
    station = Station(t)
    station.use("irdma", False, hcarun.drops, "4.1", 2)
    station.end()


@test("hca-removal")
def hca_removal(t):
    """virtual devices go under load and come back, the client's and the server's in turn"""
    station = Station(t)
    station.use("connectx", t.xprt == "rpcordma", hcarun.removal, "4.2", 2)
    station.end()


def part_unheard(t, one):
    """A mount ends while no message of the CM's gets through: the server cannot know."""
    one.mount("3")
    for device in hca.DEVICES:
        one.port(device, False)
    one.umount()
    one.vm.until(f"[ \"$(sed -n 's/^qps //p' {hca.DEBUGFS}/vhca_va/stats)\" = 1 ]", 10, "the client's queue pair to go")
    t.equal(one.stats("vhca_vb")["qps"], 2, "queue pairs of the server, the CM's among them")


def lingering(t, one):
    """Both ends have an identifier of the connection, of whatever else they have."""
    for device in hca.DEVICES:
        said = one.vm.run(f"rdma resource show cm_id link {device}/1 | grep -v 'state LISTEN'; true", 10)
        t.equal(len(said.splitlines()), 1, f"{device}: identifiers of connections")


@test("hca-parting")
def hca_parting(t):
    """a connection ends while no message gets through: the other end learns of it all the same"""
    t.only_rpcordma("the in-tree transport sends one DREQ")
    one = hca.OneKernel(t.name, t.xprt)
    t.labs.append(one)
    one.devices_up("connectx")
    before = one.objects()
    one.serve()

    def forgotten(what):
        one.back_to(before)
        one.vm.until("! rdma resource show cm_id | grep -v 'state LISTEN' | grep .", 10, f"{what}: identifiers to go")

    # The client's DREQ was lost. The CM sends it again, every 4.6 s.
    part_unheard(t, one)
    for device in hca.DEVICES:
        one.port(device, True)
    forgotten("the port is up again")

    # What lingers goes with its device.
    part_unheard(t, one)
    lingering(t, one)
    for device in hca.DEVICES:
        one.remove(device)
    forgotten("the devices were removed")

    # At both ends, and with the module.
    part_unheard(t, one)
    one.vm.run("nfsd_stop", 60, "stop nfsd")
    one.vm.until(f"[ \"$(sed -n 's/^qps //p' {hca.DEBUGFS}/vhca_vb/stats)\" = 1 ]", 10, "the server's queue pair to go")
    lingering(t, one)
    one.vm.run(f"rmmod {t.xprt}", 10, "rmmod with connections that linger")
    forgotten("the module is gone")
    t.equal(one.faults(), [], "rules that were broken")
    one.devices_down()
    one.vm.run("rmmod vhca", 30, "rmmod vhca")
