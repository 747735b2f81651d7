# SPDX-License-Identifier: GPL-2.0-only
"""The command rpcordma (tools/rpcordma) on machines with our transport, with the in-tree one, and with none."""

import base64
import io
import json
import os
import re
import sys
import tarfile

from vmlib import image, machine
from vmlib.testing import test

sys.path.append(os.path.join(image.TOP, "tools", "rpcordma"))
from rpcordmatool import parse  # noqa: E402
from rpcordmatool import trace as tracing  # noqa: E402

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


def programs_of_nfs(t, pair):
    """What administrators look at NFS with takes the transport for the one that it knows."""
    counted = operations(pair.client)
    # The program, what it must say, and how often an operation is in it.
    for vm, command, expected in (
            (pair.client, "python3 /host/sbin/nfsiostat /mnt", r"10\.0\.0\.1:/ mounted on /mnt:"),
            (pair.client, "python3 /host/sbin/mountstats --nfs /mnt", r"vers=4\.2,.*proto=rdma"),
            (pair.client, "python3 /host/sbin/mountstats --rpc /mnt", rf"WRITE:\s+{counted['WRITE']} ops "),
            (pair.client, "../sbin/nfsstat -m", r"/mnt from 10\.0\.0\.1:/\n Flags:.*proto=rdma"),
            (pair.client, "../sbin/nfsstat -c -4", r"Client rpc stats:"),
            (pair.server, "../sbin/nfsstat -s -4", r"Server rpc stats:"),
            (pair.client, "../sbin/rpcdebug -m rpc -s trans", r"rpc\s+.*trans")):
        out = vm.run(f"tool {command} 2>&1", 60, command)
        keep(t, "-".join(re.findall(r"\w+", command.partition("/sbin/")[2])) + ".txt", out)
        t.check(re.search(expected, out), f"{command} does not say {expected}: {out}")
    pair.client.run("tool ../sbin/rpcdebug -m rpc -c trans", 60)


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
    programs_of_nfs(t, pair)

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


BPFTRACE = os.path.join(image.TOP, "tools", "bpftrace")


def pid_of(script):
    """A command of the guest that prints the process that runs the script, if there is one."""
    return f"for p in $(pidof bpftrace); do grep -q {script}.bt /proc/$p/cmdline && echo $p; done"


def printed_by(vm, script):
    return vm.run(f"cat /run/bpftrace/{script}.out", 20)


def copy_bpftrace(vm, script):
    """The script, as it is here, in /run/bpftrace of the guest; returns how many trace points it has."""
    with open(os.path.join(BPFTRACE, f"{script}.bt")) as f:
        text = f.read()
    packed = base64.b64encode(text.encode()).decode()
    vm.run(f"mkdir -p /run/bpftrace; echo {packed} | base64 -d > /run/bpftrace/{script}.bt", 20, f"copy {script}.bt")
    return len(re.findall(r"^tracepoint:", text, re.M))


def start_bpftrace(vm, *scripts):
    """Starts the scripts in the guest; returns when all their probes are attached."""
    probes = {}
    for script in scripts:
        probes[script] = copy_bpftrace(vm, script)
        # A line at a time, so that what is printed is there at once.
        vm.run(f"cd /run/bpftrace; tool true; tool bpftrace -B line {script}.bt > {script}.out 2>&1 < /dev/null &", 30,
               f"start {script}.bt")
    for script in scripts:
        try:
            # One program for each probe is loaded right before it is attached.
            vm.until(f"p=$({pid_of(script)}); [ -n \"$p\" ] && [ $(ls -l /proc/$p/fd | grep -c bpf-prog) -ge {probes[script]} ]",
                     90, f"{script}.bt to be attached")
        except machine.VmError as error:
            raise RuntimeError(f"{error}: {printed_by(vm, script)}") from None
    vm.run("sleep 2", 10)


def stop_bpftrace(t, vm, script):
    """Ends it as ctrl-C does; returns what it printed."""
    # One that comes while bpftrace attaches its last probe is lost.
    vm.until(f"p=$({pid_of(script)}); [ -z \"$p\" ] || {{ kill -INT $p; false; }}", 60, f"{script}.bt to end", 5)
    out = printed_by(vm, script)
    keep(t, f"bpftrace-{script}-{vm.name}.txt", out)
    return out


def sums(text):
    """{operation: {stage: (calls, their sum in microseconds)}} of what client.bt or server.bt printed."""
    found = {}
    for stage, operation, calls, total in re.findall(r"^@sum_(?:\d_)?(\w+)\[(\w+)\]: count (\d+), average \d+, total (\d+)", text, re.M):
        found.setdefault(operation, {})[stage] = int(calls), int(total)
    return found


def operations(vm):
    """{operation: how often} of the mount, by the kernel's own count."""
    mounts, _ = parse.mountstats(vm.run("cat /proc/self/mountstats", 20))
    return {name: op["ops"] for mount in mounts for name, op in mount["ops"].items()}


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def compare_calls(t, printed, raw):
    """slow.bt beside rpcordma trace, call by call. Of the differences the median counts: a busy machine stops one of two
    observers of the same event now and then."""
    analysis, theirs = tracing.Analysis(), {}
    for line in raw.splitlines():
        before = len(analysis.done)
        analysis.take(line)
        if len(analysis.done) > before:
            _, operation, stages, total = analysis.done[-1]
            theirs[re.search(r"xid=0x([0-9a-f]+)", line).group(1)] = operation, [total, *stages.values()]
    lines = [line.split() for line in printed.splitlines() if re.match(r"\d\d:\d\d:\d\d ", line)]
    ours = {xid: (operation, [int(n) for n in numbers]) for _, operation, xid, *numbers in lines}
    t.equal(sorted(set(theirs) - set(ours)), [], "xids of calls that trace has, and slow.bt not")
    for operation in ("READ", "WRITE"):
        both = [(ours[xid][1], took) for xid, (name, took) in theirs.items() if name == operation]
        t.check(len(both) >= 64, f"{len(both)} calls of {operation} in the trace")
        for i, stage in enumerate(("total", *tracing.STAGES[tracing.CLIENT])):
            off = median([one[i] - other[i] for one, other in both])
            usual = median([other[i] for _, other in both])
            # At the last event the scripts' programs run ahead of the trace, and each takes its time here.
            most = 0.05 * usual + (500 if stage in ("done", "total") else 30)
            t.check(abs(off) <= most, f"{operation}, {stage}: slow.bt has {off} us more than trace's {usual}")


@test("tools-bpftrace", slow="bpftrace takes seconds for each script to start; the step tools has the scripts' names")
def tools_bpftrace(t):
    """the scripts of tools/bpftrace count what is known, and measure what rpcordma trace does"""
    if not os.path.exists("/usr/bin/bpftrace"):
        t.skip("bpftrace is not installed: scripts/setup tracing, or apt-get install bpftrace")
    pair = t.lab(server_xprt="rpcordma", server_params="", tools=True)
    client, server = pair.client, pair.server
    for vm in (client, server):
        install(vm)
    # Before there is a module: what the scripts' first lines say of it.
    copy_bpftrace(client, "client")
    out = client.run("modprobe sunrpc; cd /run/bpftrace; tool bpftrace client.bt 2>&1; echo \"exit $?\"", 60, "no module")
    t.check("tracepoint not found: rpcordma:rpcordma_marshal" in out and "exit 0" not in out, f"without the module: {out}")

    pair.up()
    pair.mount("4.2")
    work(pair)
    start_bpftrace(client, "client", "slow", "waits", "connections")
    start_bpftrace(server, "server", "reads")
    jobs = {vm: vm.spawn(f"tool python3 {TOOL} trace -s 600 --json --raw /run/raw; echo \"exit $?\"", "trace")
            for vm in (client, server)}
    for vm in jobs:
        vm.until("grep -q 1 /sys/kernel/tracing/instances/rpcordma-*/events/sunrpc/svc_process/enable", 60, "the trace to begin")
    before = operations(client)
    client.run("dd if=/tmp/f of=/mnt/f bs=64k oflag=direct conv=notrunc 2> /dev/null; "
               "dd if=/mnt/f of=/dev/null bs=64k iflag=direct 2> /dev/null", 120, "work to trace")
    done = {name: count - before[name] for name, count in operations(client).items() if count - before[name]}
    # The lease is renewed when it will be.
    done.pop("SEQUENCE", None)
    t.check(done["WRITE"] == 64 and done["READ"] >= 64, f"calls by mountstats: {done}")
    for vm, job in jobs.items():
        vm.run("pid=$(cd /sys/kernel/tracing/instances; echo rpcordma-*); kill ${pid#rpcordma-}", 20, "end the trace")
        text, _, code = job.wait(100).rpartition("exit ")
        t.equal(code.strip(), "0", f"exit status of trace at the {vm.name}: {text}")
        if vm is server:
            served, = json.loads(text)["server"]
    printed = {script: stop_bpftrace(t, vm, script) for vm, script in
               ((client, "client"), (client, "slow"), (client, "waits"), (server, "server"), (server, "reads"))}

    # Of each operation as many as the kernel has counted, in each stage.
    for name, count in done.items():
        found = sums(printed["client"]).get(name, {})
        t.equal({stage: calls for stage, (calls, _) in found.items()},
                dict.fromkeys([*tracing.STAGES[tracing.CLIENT], "total"], count), f"calls of {name} in client.bt")
        whole = found.pop("total")[1]
        t.check(abs(sum(took for _, took in found.values()) - whole) <= len(found) * count, f"the stages are not the whole: {found}")
    raw = client.run("cat /run/raw", 60)
    keep(t, "trace-raw-client.txt", raw)
    compare_calls(t, printed["slow"], raw)

    # An operation of the server is a COMPOUND. It was traced for longer than the work took.
    found = sums(printed["server"])["COMPOUND"]
    calls, whole = found.pop("total")
    t.check(sum(done.values()) <= calls <= sum(done.values()) + 30, f"calls in server.bt: {calls}, after {done}")
    t.equal({stage: count for stage, (count, _) in found.items()}, dict.fromkeys(tracing.STAGES[tracing.SERVER], calls),
            "calls in the stages of server.bt")
    for stage, (_, took) in found.items():
        t.check(abs(took / calls - served["stages"][stage]) <= 0.2 * served["mean_us"] + 500,
                f"{stage}: server.bt has a mean of {took / calls:.0f} us, trace {served['stages'][stage]}")
    # 64 KiB do not fit into a message: each WRITE has Reads.
    lines = re.findall(r"^\d\d:\d\d:\d\d [0-9a-f]{8} +65536 +\d+ +\d+ +0$", printed["reads"], re.M)
    t.equal(len(lines), done["WRITE"], "lines of reads.bt for WRITEs")
    t.equal(sum(int(n) for n in re.findall(r"^\[.*?(\d+) \|", printed["reads"], re.M)),
            len(re.findall(r"^\d\d:\d\d:\d\d [0-9a-f]{8} ", printed["reads"], re.M)), "calls in the histograms of reads.bt, and its lines")
    for name in ("slot", "queue"):
        waited = sum(int(n) for n in re.findall(rf"^@{name}_us: count (\d+)", printed["waits"], re.M))
        t.check(sum(done.values()) <= waited <= sum(done.values()) + 30, f"calls in waits.bt, {name}: {waited}, after {done}")

    client.run("for i in 1 2; do echo 1 > /sys/kernel/debug/rpcordma/disconnect; sleep 1; ls /mnt; done", 100, "lose connections")
    out = stop_bpftrace(t, client, "connections")
    for what, times in (("disconnect injected", 2), ("connected", 2), ("client version, answered", 2)):
        found = re.findall(rf"^\d\d:\d\d:\d\d {what} +\d+ 10\.0\.0\.1:20049$", out, re.M)
        t.equal(len(found), times, f"lines of {what} in connections.bt:\n{out}")
    t.check(re.search(r"^@events\[disconnect injected\]: 2$", out, re.M), out)
    lost = sum(int(n) for n in re.findall(r"^@losses\[.*\]: (\d+)$", out, re.M))
    t.equal(lost, len(re.findall(r"^\S+ tracepoint:rpcordma:rpcordma_\w+ ", out, re.M)), f"losses in connections.bt:\n{out}")
    t.check(lost >= 1, f"no reason for the loss of a connection:\n{out}")
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
        # It works, with the transport that is there.
        text = rpcordma(vm, "check", status=1)
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
