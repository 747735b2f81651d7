# SPDX-License-Identifier: GPL-2.0-only
"""NVMe over RDMA on the virtual RDMA devices: Linux's own users of RDMA as judges of vhca, unchanged. What they
need of a device, and what vhca holds them to, are not this project's to choose.
"""

import os

from vmlib import hca, nvme
from vmlib.testing import test

# Of every run: one of each kind of connection management, with regions for Reads at the target; bounce buffers.
CELLS = (("connectx", True), ("cxgb4", False))


@test("hca-nvme", slow="about the virtual device, which hca-rules is as well")
def hca_nvme(t):
    """nvme-rdma with nvmet-rdma over virtual devices: data compared, a lost connection (VM_SLOW=1: every preset)"""
    one = hca.OneKernel(t.name, t.xprt)
    t.labs.append(one)
    judge = nvme.Nvme(one)
    slow = os.environ.get("VM_SLOW") == "1"
    for preset, bounce in [(p, b) for p in hca.PRESETS for b in (False, True)] if slow else CELLS:
        nvme.judge(t, judge, preset, bounce)
    for preset in hca.PRESETS if slow else ("connectx",):
        nvme.stale(t, judge, preset)
    judge.down()
    one.vm.until("rmmod vhca", 30, "unload vhca")
