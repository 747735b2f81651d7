# SPDX-License-Identifier: GPL-2.0-only
"""The command rpcordma (tools/rpcordma) on machines with our transport, with the in-tree one, and with none."""

import base64
import io
import json
import os
import re
import tarfile

from vmlib import image
from vmlib.testing import test

TOOL = "/run/rpcordma/rpcordma"
# What is recorded for the tests on the host (selftests/tools), by shell patterns of the guest.
RECORDED = """
    /proc/self/mountstats /proc/mounts /proc/sys/kernel/osrelease /proc/sys/kernel/hostname
    /proc/sys/sunrpc/rdma_* /proc/sys/sunrpc/svc_rdma/* /proc/fs/nfsd/portlist /proc/fs/nfsd/threads
    /sys/kernel/debug/rpcordma/stats /sys/kernel/debug/rpcordma/server/connections
    /sys/kernel/debug/rpcordma/server/counters /sys/module/rpcordma/parameters/* /sys/module/rpcrdma/refcnt
    /sys/module/rpcordma/refcnt /sys/kernel/sunrpc/xprt-switches/*/xprt-*/dstaddr
    /sys/kernel/sunrpc/xprt-switches/*/xprt-*/xprt_info /sys/kernel/sunrpc/xprt-switches/*/xprt-*/xprt_state
    /sys/class/infiniband/*/ports/1/state /sys/class/infiniband/*/ports/1/link_layer
    /sys/class/infiniband/*/ports/1/gid_attrs/ndevs/0 /sys/class/net/eth0/mtu /sys/kernel/security/lockdown
    /etc/modprobe.d/rpcordma.conf
""".split()


def install(vm):
    """The command and what belongs to it, in /run."""
    folder = os.path.join(image.TOP, "tools", "rpcordma")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(folder, "rpcordma", filter=lambda m: None if "__pycache__" in m.name else m)
    text = base64.b64encode(packed.getvalue()).decode()
    vm.run(f"echo {text} | base64 -d | tar -xz -C /run && tool python3 -c 'import json'", 60, "unpack the tools")


def rpcordma(vm, arguments, status=0, timeout=60):
    """What `rpcordma ARGUMENTS` prints there; it exits with @status."""
    out = vm.run(f"tool python3 {TOOL} {arguments} 2>&1; echo \"exit $?\"", timeout, f"rpcordma {arguments}")
    text, _, code = out.rpartition("exit ")
    if int(code) != status or "Traceback" in text:
        raise RuntimeError(f"{vm.name}: rpcordma {arguments}: exit status {code.strip()}, not {status}:\n{text}")
    return text


def record(t, vm, name):
    """Copies the kernel's files to the logs, in a file of the form that selftests/tools/check reads."""
    text = vm.run(f"for f in {' '.join(RECORDED)}; do [ -e $f ] || continue; echo \"=@= $f\"; "
                  "cat $f 2> /dev/null; done; echo '=@= /commands/rdma_-j_resource_show_cm_id'; "
                  "/sbin/rdma -j resource show cm_id", 30, "record files")
    folder = os.path.join(t.labs[-1].logs, "recorded")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{name}.txt"), "w") as f:
        f.write("# SPDX-License-Identifier: GPL-2.0-only\n" + text)


def keep(t, name, text):
    """Output for Documentation/tools.rst, beside the logs."""
    folder = os.path.join(t.labs[-1].logs, "output")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w") as f:
        f.write(text)


def work(pair):
    pair.client.run("dd if=/dev/urandom of=/tmp/f bs=1M count=4 2> /dev/null; cp /tmp/f /mnt/f; drop_caches; "
                    "cmp /tmp/f /mnt/f; ls -l /mnt", 60, "some work")


def only_client(t, now):
    t.equal(len(now["client"]["connections"]), 1, f"connections of the client in {json.dumps(now, indent=1)}")
    return now["client"]["connections"][0]


def prometheus_of(text):
    return dict(re.findall(r"^(rpcordma_\w+)(?:\{.*\})? (\S+)$", text, re.M))


def trace(t, pair, ends):
    """Those of the machines at once, while files are written and read; what it says is whole, and nothing is left."""
    jobs = {}
    for vm in ends:
        jobs[vm] = vm.spawn(f"tool python3 {TOOL} trace -s 20 --json --raw /run/raw-{vm.name}; echo \"exit $?\"", "trace")
        # Python starts slowly there; this event is the last one that it enables.
        vm.until("grep -q 1 /sys/kernel/tracing/instances/rpcordma-*/events/sunrpc/svc_process/enable", 60,
                 "the trace to begin")
    pair.client.run("for i in 1 2 3 4; do dd if=/tmp/f of=/mnt/f bs=64k oflag=direct conv=notrunc 2> /dev/null; "
                    "dd if=/mnt/f of=/dev/null bs=64k iflag=direct 2> /dev/null; done", 120, "work to trace")
    for vm, job in jobs.items():
        out, _, code = job.wait(200).rpartition("exit ")
        t.equal(code.strip(), "0", f"exit status of trace at the {vm.name}: {out}")
        found = json.loads(out)
        keep(t, f"trace-{vm.name}.json", out)
        keep(t, f"trace-raw-{vm.name}.txt", vm.run(f"head -c 2000000 /run/raw-{vm.name}", 60))
        wanted = {"READ", "WRITE"} if vm is pair.client else {"COMPOUND"}
        by_name = {entry["operation"]: entry for entry in found[vm.name]}
        t.check(wanted <= by_name.keys(), f"trace at the {vm.name}: {sorted(by_name)}, expected {wanted}: {found}")
        for name in wanted:
            entry = by_name[name]
            t.check(entry["calls"] >= 50, f"trace at the {vm.name}: {entry}")
            # Stages are between the same two events as the whole, which is rounded as they are.
            t.check(abs(sum(entry["stages"].values()) - entry["mean_us"]) <= entry["mean_us"] * 0.1 + 10,
                    f"the stages are not the whole: {entry}")
        left = vm.run("ls /sys/kernel/tracing/instances", 10)
        t.equal(left, "", f"what trace left at the {vm.name}")


def trace_killed(t, pair):
    """One that is killed leaves its instance, which the next one removes; SIGTERM does not."""
    for number, left in ((15, 0), (9, 1)):
        pair.client.run(f"tool python3 {TOOL} trace -s 60 > /dev/null & until ls -d /sys/kernel/tracing/instances/rpcordma-*; "
                        f"do sleep 0.2; done; pid=$(cd /sys/kernel/tracing/instances; echo rpcordma-*); "
                        f"kill -{number} ${{pid#rpcordma-}}; wait", 120, f"kill -{number}")
        t.equal(pair.client.run("ls /sys/kernel/tracing/instances | wc -l", 10).strip(), str(left), f"after kill -{number}")
    rpcordma(pair.client, "trace -s 0.5")
    t.equal(pair.client.run("ls /sys/kernel/tracing/instances", 10), "", "what the next one left")


@test("tools-ours")
def tools_ours(t):
    """rpcordma status and trace with our transport at both ends, without debugfs, and locked down"""
    # As it is installed: what is recorded is what users see.
    pair = t.lab(server_xprt="rpcordma", server_params="", tools=True)
    pair.up()
    for vm in (pair.client, pair.server):
        install(vm)
    pair.mount("4.2")
    work(pair)
    for vm in (pair.client, pair.server):
        record(t, vm, f"ours-{vm.name}")
        keep(t, f"status-{vm.name}.txt", rpcordma(vm, "status"))
    for vm in (pair.client, pair.server):
        # The names of the in-tree transport are not installed there, and the module is not in modules.dep.
        for arguments, status in (("check", 1), ("top -n 2 -s 1", 0), ("report --mask -o /run/report", 0)):
            keep(t, f"{arguments.split()[0]}-{vm.name}.txt", rpcordma(vm, arguments, status))
        text = vm.run("cat /run/report", 20)
        t.check("10.0.0." not in text and "=== /sys/kernel/debug/rpcordma/stats ===" in text, f"report: {text[:4000]}")
    now = json.loads(rpcordma(pair.client, "status --json"))
    one = only_client(t, now)
    t.equal((one["peer"], one["state"], one["version"]), ("10.0.0.1:20049", "connected", 2), "the client's connection")
    # Of version 2: how much depends on whether the server's Receives have become large.
    t.check(min(one["inline"].values()) >= 4096, f"inline sizes at the client: {one['inline']}")
    t.equal(sorted(one["sources"]), ["debugfs", "mountstats", "sysfs"], "sources")
    t.equal(one["mounts"], ["/mnt"], "mounts")
    t.equal(now["not_understood"], [], "lines that were not understood")
    t.check(one["regions"] and one["receives"] and one["credits"]["granted"], f"no regions, Receives or credits: {one}")
    samples = prometheus_of(rpcordma(pair.client, "status --prometheus"))
    t.equal(samples.get("rpcordma_client_connected"), "1", f"of {samples}: rpcordma_client_connected")

    now = json.loads(rpcordma(pair.server, "status --json"))
    t.equal(len(now["server"]["connections"]), 1, "connections of the server")
    served = now["server"]["connections"][0]
    t.check(served["peer"].startswith("10.0.0.2:"), f"the server's connection: {served}")
    t.equal((served["state"], served["version"]), ("connected", 2), "the server's connection")
    t.check(min(served["inline"].values()) >= 4096, f"inline sizes at the server: {served['inline']}")
    t.equal(now["not_understood"], [], "lines that were not understood at the server")
    t.check(now["server"]["counters"]["recv"] > 0 and now["server"]["threads"] == 8, f"the server: {now['server']}")

    trace(t, pair, (pair.client, pair.server))
    trace_killed(t, pair)

    # What is left without debugfs.
    pair.client.run("umount /sys/kernel/debug", 10)
    bare = only_client(t, json.loads(rpcordma(pair.client, "status --json")))
    t.equal((bare["peer"], bare["state"], bare["version"]), ("10.0.0.1:20049", "connected", None), "without debugfs")
    t.check(bare["credits"]["granted"], f"without debugfs no credits: {bare}")
    t.check(bare["counters"]["write_chunk_count"] > 0, f"without debugfs no counters: {bare}")
    text = rpcordma(pair.client, "status")
    keep(t, "status-no-debugfs.txt", text)
    t.check("mount -t debugfs" in text, f"it does not say what is missing: {text}")
    pair.client.run("mount -t debugfs debugfs /sys/kernel/debug", 10)

    # An unsigned module is not loaded into a kernel that is locked down, but one that is loaded may be locked in.
    pair.client.run("mount -t securityfs security /sys/kernel/security; "
                    "echo confidentiality > /sys/kernel/security/lockdown", 10, "lock the kernel down")
    locked = json.loads(rpcordma(pair.client, "status --json"))
    t.equal(locked["lockdown"], "confidentiality", "lockdown")
    t.equal(only_client(t, locked)["state"], "connected", "the connection of a kernel that is locked down")
    keep(t, "status-lockdown.txt", rpcordma(pair.client, "status"))
    text = rpcordma(pair.client, "trace -s 1", status=1)
    t.check("locked down (confidentiality)" in text, f"trace in a kernel that is locked down: {text}")
    pair.umount()


@test("tools-in-tree", slow="tools-ours has the same with our transport")
def tools_in_tree(t):
    """rpcordma status with the in-tree transport at both ends"""
    pair = t.lab(xprt="rpcrdma", server_xprt="rpcrdma", tools=True)
    pair.up()
    for vm in (pair.client, pair.server):
        install(vm)
    pair.mount("4.2")
    work(pair)
    for vm in (pair.client, pair.server):
        record(t, vm, f"in-tree-{vm.name}")
        keep(t, f"status-in-tree-{vm.name}.txt", rpcordma(vm, "status"))
    for vm in (pair.client, pair.server):
        text = rpcordma(vm, "check", status=2)
        keep(t, f"check-in-tree-{vm.name}.txt", text)
        t.check("the in-tree transport, rpcrdma, is loaded" in text, f"check at the {vm.name}: {text}")
        rpcordma(vm, "report -o /run/report")
        rpcordma(vm, "top -n 1")
    now = json.loads(rpcordma(pair.client, "status --json"))
    one = only_client(t, now)
    t.equal(now["module"]["name"], "rpcrdma", "module")
    t.equal((one["peer"], one["state"], one["version"]), ("10.0.0.1:20049", "connected", None), "the client's connection")
    t.check(one["counters"]["write_chunk_count"] > 0 and one["errors"] == 0, f"counters: {one}")
    trace(t, pair, (pair.client,))
    now = json.loads(rpcordma(pair.server, "status --json"))
    t.equal([c["state"] for c in now["server"]["connections"]], ["connected"], "connections of the server")
    t.check(now["server"]["counters"]["recv"] > 0, f"the server's counters: {now['server']}")
    pair.umount()


@test("tools-none")
def tools_none(t):
    """rpcordma status on a machine without RDMA"""
    pair = t.lab(server=False, tools=True)
    install(pair.client)
    record(t, pair.client, "none")
    text = rpcordma(pair.client, "status", status=1)
    t.check("no RDMA transport is loaded" in text, f"status says: {text}")
    now = json.loads(rpcordma(pair.client, "status --json", status=1))
    t.equal((now["module"], now["client"]["connections"], now["server"]["connections"]), (None, [], []), "what there is")
    t.equal(prometheus_of(rpcordma(pair.client, "status --prometheus", status=1)), {"rpcordma_info": "1"}, "metrics")
    t.check("there is no RDMA device" in rpcordma(pair.client, "check", status=2), "check does not miss a device")
    t.check("is loaded: modprobe rpcordma" in rpcordma(pair.client, "trace -s 1", status=1), "trace has what to trace")
    rpcordma(pair.client, "report -o /run/report")
