# SPDX-License-Identifier: GPL-2.0-only
"""Whether the rules of the virtual RDMA device bite (selftests/hca/rules): each is broken on purpose, and must be
counted, and kept, and must not be.
"""

import os

from vmlib import hca
from vmlib.testing import test

# A device of each kind; with bounce buffers and without; with regions that may have gaps and of whole pages.
DEVICES = (("connectx", True), ("irdma", False), ("cxgb4", True))
RULES = "/sys/kernel/debug/vhca_rules"


@test("hca-rules")
def hca_rules(t):
    """The rules of the virtual RDMA device, each one broken and kept"""
    one = hca.OneKernel(t.name, t.xprt, memory=1024)
    t.labs.append(one)
    one.vm.run("modprobe vhca_rules || die \"no vhca_rules\"", 20, "load the module that breaks rules")
    every = set(one.vm.run(f"cat {RULES}/all", 10, "names of all cases").split())
    seen, failed = set(), []
    with open(os.path.join(one.logs, "cases"), "w") as report:
        for preset, bounce in DEVICES:
            one.devices_up(preset, bounce=bounce, quiet="Y")
            out = one.vm.run(f"for name in $(cat {RULES}/cases); do echo $name > {RULES}/run; "
                             f"echo \"$name: $(cat {RULES}/run)\"; done", 120, f"cases on {preset}")
            for line in out.splitlines():
                name, _, came = line.partition(": ")
                seen.add(name)
                print(f"{preset:9} {name:24} {came}", file=report)
                if came != "ok":
                    failed.append(f"{preset}: {line}")
            # The last case has it removed.
            one.vm.until(f"[ ! -e {hca.DEBUGFS}/vhca_va ]", 20, "the device that was removed")
            one.vm.run("rdma link add vhca_va type vhca netdev va; echo N > /sys/module/vhca/parameters/quiet", 20,
                       "a new one")
            # What is left mapped is a fault that is not quiet.
            one.devices_down()
    t.equal(failed, [], "cases that failed")
    t.equal(every - seen, set(), "cases that no device admits")
    one.vm.run("rmmod vhca_rules vhca", 30, "unload")
