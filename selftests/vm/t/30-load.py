# SPDX-License-Identifier: GPL-2.0-only
"""Loading and unloading: parameters, sysctls, rivals, aliases. No mount but the one that autoloads."""

import os
import time

from vmlib.testing import test

# Those of the in-tree transport: a value below and one above the range.
SYSCTLS = {
    "rdma_slot_table_entries": (0, 1 << 20),
    "rdma_max_inline_read": (0, 1 << 20),
    "rdma_max_inline_write": (0, 1 << 20),
    "rdma_inline_write_padding": (-1, 1 << 20),
    "rdma_memreg_strategy": (-1, 1000),
}


@test("load-often")
def load_often(t):
    """insmod and rmmod, 25 times, leave no trace (VM_SLOW=1: a hundred times)"""
    rounds = 100 if os.environ.get("VM_SLOW") else 25
    pair = t.lab(server=False)
    pair.client_net()
    trace = ("ls /sys/kernel/debug /proc/sys/sunrpc /sys/kernel/tracing/events /proc/fs 2>&1; "
             "for m in sunrpc ib_core rdma_cm; do echo $m $(cat /sys/module/$m/refcnt); done; "
             "rdma resource show")
    memory = ("sync; echo 3 > /proc/sys/vm/drop_caches; "
              "awk '/^(SUnreclaim|VmallocUsed|Percpu):/ { s += $2 } END { print s }' /proc/meminfo")
    cycle = f"modprobe {t.xprt} || die 'round '$i; rmmod {t.xprt} || die 'round '$i"
    # The first rounds fill caches that stay: of slabs, of the module loader, of dependencies.
    pair.client.run(f"for i in $(seq 10); do {cycle}; done", 60, "10 rounds to warm up")
    before = pair.client.run(trace)
    used = int(pair.client.run(memory))
    pair.client.run(f"for i in $(seq {rounds}); do {cycle}; done", 120, f"{rounds} rounds")
    t.equal(pair.client.run(trace), before, "what debugfs, sysctl, tracefs and rdma show")
    # Module memory is given back by RCU, some time later.
    began = time.monotonic()
    while (grown := int(pair.client.run(memory)) - used) >= 400 + 12 * rounds:
        t.within(20, began, f"{rounds} rounds cost {grown} KiB of kernel memory that does not come back")
        time.sleep(1)


@test("load-parameters")
def load_parameters(t):
    """a module parameter with a value that makes no sense fails the load"""
    pair = t.lab(server=False)
    pair.client_net()
    names = [line.split(":")[0] for line in
             pair.client.run(f"modinfo -p {t.xprt}").splitlines() if ":" in line]
    if not names:
        t.skip(f"{t.xprt} has no module parameters")
    pair.client.run("modprobe -a sunrpc rdma_cm")
    for name in names:
        job = pair.client.spawn(f"modprobe {t.xprt} {name}=nonsense")
        job.wait(20, check=False)
        t.check(job.status != 0, f"modprobe {t.xprt} {name}=nonsense succeeded")
        t.check(pair.kernel_log(f"{name}|nonsense"), f"{name}=nonsense: the kernel log is silent")
        t.check(not pair.client.ok(f"lsmod | grep '^{t.xprt} '"), f"loaded with {name}=nonsense")
    pair.client.run(f"modprobe {t.xprt} && rmmod {t.xprt}", 20, "load with defaults afterwards")


@test("load-sysctls")
def load_sysctls(t):
    """sysctl values out of range are refused and change nothing"""
    pair = t.lab(server=False)
    pair.client_net()
    pair.client.run(f"modprobe {t.xprt}")
    for name, values in SYSCTLS.items():
        path = f"/proc/sys/sunrpc/{name}"
        before = pair.client.run(f"cat {path}")
        for value in values:
            t.check(not pair.client.ok(f"echo {value} > {path}"), f"{name} takes {value}")
            t.equal(pair.client.run(f"cat {path}"), before, f"{name} after a refused {value}")
        pair.client.run(f"echo {before.strip()} > {path}", what=f"{name} takes its own value")
    pair.unload()
    t.check(not pair.client.ok("ls /proc/sys/sunrpc/rdma_*"), "sysctls stay after rmmod")


@test("load-class-held")
def load_class_held(t):
    """with the in-tree transport loaded, ours fails and says why"""
    t.only_rpcordma("about two transports in one kernel")
    pair = t.lab(server=False)
    pair.client_net()
    pair.client.run("modprobe rpcrdma")
    t.check(not pair.client.ok("modprobe rpcordma"), "rpcordma loads beside rpcrdma")
    t.check(pair.kernel_log("rpcordma.*rpcrdma"),
            "the kernel log does not say that rpcrdma is in the way of rpcordma")
    pair.client.run("rmmod rpcrdma && modprobe rpcordma", 20, "load once rpcrdma is gone")
    # The kernel answers EEXIST, which modprobe takes for "loaded already" and calls a success:
    # insmod tells the truth, and lsmod has to agree after either.
    path = "/lib/modules/$(uname -r)/kernel/net/sunrpc/xprtrdma/rpcrdma.ko"
    t.check(not pair.client.ok(f"insmod {path}"), "rpcrdma loads beside rpcordma")
    pair.client.spawn("modprobe rpcrdma").wait(20, check=False)
    t.check(not pair.client.ok("lsmod | grep '^rpcrdma '"), "rpcrdma was refused, yet is listed")
    t.check(pair.client.ok("lsmod | grep '^rpcordma '"), "rpcordma is gone")
    pair.unload()
    pair.client.run("modprobe rpcrdma && rmmod rpcrdma", 20, "rpcrdma loads after rpcordma left")


@test("load-alias")
def load_alias(t):
    """mount -o proto=rdma loads the transport by itself, through kmod and what is installed for it"""
    pair = t.lab()
    server = pair.server.spawn("net_up 1; rxe_up; export_up 100m; server_up rpcrdma")
    pair.client_net()
    if t.xprt == "rpcordma":
        pair.install_names(pair.client)
    pair.client.run("modprobe -a nfs nfsv4; rpc_daemons_up")
    t.check(not pair.client.ok("lsmod | grep -E '^(rpcrdma|rpcordma) '"), "loaded before a mount")
    server.wait(60)

    def mounting_loads(wanted):
        pair.mount("4.2")
        loaded = pair.client.run("lsmod | grep -oE '^(rpcrdma|rpcordma) '", 10).split()
        t.equal(loaded, [wanted], "what the mount loaded")
        pair.umount()
        # By the name that scripts know.
        pair.client.until("modprobe -r rpcrdma && ! lsmod | grep -E '^(rpcrdma|rpcordma) '", 15,
                          f"modprobe -r rpcrdma, which is {wanted}")

    mounting_loads(t.xprt)
    if t.xprt == "rpcordma":
        # As with a kernel that came by an upgrade and does not have the module.
        pair.client.run("rm $(modinfo -n rpcordma) && depmod", 60, "the module is gone")
        mounting_loads("rpcrdma")
        t.check(pair.client.ok("dmesg | grep 'rpcordma: not installed for this kernel'"), "nothing in the log")
