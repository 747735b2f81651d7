# SPDX-License-Identifier: GPL-2.0-only
"""NFS over two virtual RDMA devices in one kernel, which do DMA and hold who uses them to the rules of real ones
(selftests/hca). A rule that is broken is a warning in the kernel's log, which fails the test.
"""

from vmlib import hca, lab
from vmlib.testing import test

# With its buffers in bounce buffers, the in-tree server of Linux 6.12 hands nfsd the data of a WRITE before it is
# there: svc_rdma_recv_ctxt_put() unmaps what RDMA Reads have filled when the call is over.
BOUNCES = ("rpcordma",)


def bring_up(t):
    """A machine with vhca, which is stopped and judged after the test."""
    one = hca.OneKernel(t.name, t.xprt)
    t.labs.append(one)
    return one


def verified_io(one):
    """Data there and back in large and small pieces, through the page cache and past it."""
    one.vm.run("""
        dd if=/dev/urandom of=/tmp/f bs=1000003 count=8 2>/dev/null
        cp /tmp/f /mnt/f && sync /mnt/f
        drop_caches
        cmp /tmp/f /mnt/f || die "read differs"
        cmp /tmp/f /export/f || die "written data differ"
        dd if=/tmp/f of=/mnt/g bs=262144 oflag=direct 2>/dev/null || die "direct write"
        cmp /tmp/f /export/g || die "direct write differs"
        dd if=/mnt/g of=/tmp/g bs=1M iflag=direct 2>/dev/null || die "direct read"
        cmp /tmp/f /tmp/g || die "direct read differs"
        mkdir /mnt/d
        for i in $(seq 1 100); do echo $i > /mnt/d/a-file-with-a-name-that-is-long-$i; done
        [ $(ls /mnt/d | wc -l) = 100 ] || die "directory"
        rm -r /mnt/d /mnt/f /mnt/g""", 120, "verified I/O")


@test("hca-smoke")
def hca_smoke(t):
    """NFS v3, v4.1, v4.2 over virtual devices that do DMA, with and without bounce buffers"""
    one = bring_up(t)
    for n, preset in enumerate(("connectx", "irdma", "qedr")):
        one.devices_up(preset, bounce=t.xprt in BOUNCES)
        if n == 0:
            one.serve()
        for version in ("3", "4.1", "4.2"):
            one.mount(version)
            verified_io(one)
            one.umount()
        t.equal(one.faults(), [], f"{preset}: rules that were broken")
        t.check(one.stats("vhca_va")["send"] > 100, f"{preset}: the traffic did not go through the device")
        one.devices_down()
    one.vm.run("nfsd_stop", 60, "stop nfsd")
    one.vm.until(f"rmmod {t.xprt} && rmmod vhca", 30, "unload")
