# SPDX-License-Identifier: GPL-2.0-only
"""The lives of listeners and connections of a server: addresses and devices that change or go, queues
that are full, calls that are put off, nfsd that stops under load, network namespaces that end.

With SERVER_XPRT=rpcrdma they are the in-tree server's; what that one fails is skipped, and said. (To
see these tests fail: let listeners ignore ADDR_CHANGE, or DEVICE_REMOVAL; bound the queue elsewhere;
report calls as longer than their head, which are never put off; leak a listener's identifier; post no
backward call over a second connection.)
"""

import os
import re
import time

from vmlib import disturb, lab, state, trace, workload
from vmlib.testing import test, until

# Of one client, with the default of server_accept_queue, as of all with this value of it.
MOST_QUEUED = 128
MOST_PARAMETER = "/sys/module/rpcordma/parameters/server_accept_queue"
# The clients that come at once, and the first of their 250 addresses.
CROWD = 500
CROWD_FIRST = "10.0.4.1"
# For how long nfsd lets a client keep what it was asked to give back, in seconds: long, so that a recall that
# arrives is told from one that does not.
LEASE = 45


def bring_up(t, device="rxe_up", **options):
    """A lab whose server has all but nfsd; returns it and the RDMA objects that the server has then."""
    pair = t.lab(server_xprt=lab.server_under_test(), **options)
    server = pair.server.spawn(f"net_up 1; {device}; export_up 300m; modprobe -a rdma_cm ib_core",
                               "server's network up")
    pair.client_net()
    pair.client_transport()
    server.wait(60)
    return pair, disturb.objects(pair.server)


def only_ours(t, why):
    """Skips what the in-tree server (of Linux 6.12) fails."""
    if lab.server_under_test() == "rpcrdma":
        t.skip(f"SERVER_XPRT=rpcrdma: {why}")


def serve(pair):
    pair.server.run(f"server_up {pair.server_xprt}", 60, "NFS server up")
    pair.client.until("ping -c 1 -W 1 10.0.0.1 > /dev/null", 20, "the server answers ping")


def listeners(vm):
    """The numbers of the RDMA identifiers that listen on a device; a new one has a new number."""
    return set(re.findall(r"cm-idn (\d+) state LISTEN", vm.run("rdma resource show cm_id", 10)))


def until_objects(t, vm, want, what):
    """Waits until @vm has just these RDMA objects."""
    until(t, 30, lambda: f"{what}: RDMA objects {disturb.objects(vm)}, expected {want}",
          lambda: disturb.objects(vm) == want)


@test("server-stop")
def server_stop(t):
    """nfsd stops with calls in flight, its transport is unloaded, all comes back: every byte right"""
    pair, before = bring_up(t)
    xprt = pair.server_xprt
    serve(pair)
    used = []
    # The first two fill what is made once; the others must cost nothing more.
    for version in ("3", "4.1") * 2:
        pair.mount(version, "nconnect=4")
        work = workload.Work(pair.client)
        work.goes_on(t, f"vers={version}, before nfsd stops")
        refusal = pair.server.run(f"rmmod {xprt} 2>&1", 20, check=False)
        t.check("in use" in refusal, f"rmmod {xprt} with nfsd serving: \"{refusal.strip()}\"")
        pair.server.run("nfsd_stop", 60, "stop nfsd")
        until_objects(t, pair.server, before, f"vers={version}: nfsd has stopped")
        pair.server.run(f"rmmod {xprt}", 20, f"rmmod {xprt} after nfsd has stopped")
        used.append(disturb.memory(pair.server)["kernel memory"])
        pair.server.run(f"modprobe {xprt} && nfsd_start 8 {'grace' if version != '3' else ''}", 60,
                        "start nfsd again")
        work.goes_on(t, f"vers={version}, after nfsd came back")
        work.end()
        pair.umount()
    print(f"    kernel memory of the server with nfsd stopped: {used} KiB", flush=True)
    t.check(used[3] - used[1] < 1024, f"kernel memory grew: {used} KiB with nfsd stopped")
    pair.unload()


@test("server-device", slow="server-device-address does this, and hca-removal with a listener on all addresses")
def server_device(t):
    """the server's RDMA device goes under I/O and comes back: its listeners do so, and its clients"""
    pair, before = bring_up(t)
    serve(pair)
    listening = disturb.objects(pair.server)
    pair.mount("3", "nconnect=2")
    work = workload.Work(pair.client)
    work.goes_on(t, "before the device goes")
    pair.server.run("rdma link delete rxe0", 60, "rdma link delete")
    t.equal(disturb.objects(pair.server), {}, "RDMA objects without a device")
    pair.server.run("rxe_up", 20)
    work.goes_on(t, "after the device came back")
    work.end()
    pair.umount()
    until_objects(t, pair.server, listening, "without a mount")
    pair.mount("4.1")
    pair.client.run(f"cp {work.source} /mnt/c && drop_caches && cmp {work.source} /mnt/c", 60, "a new mount")
    pair.umount()
    pair.server.run("nfsd_stop", 60, "stop nfsd")
    until_objects(t, pair.server, before, "nfsd has stopped")
    pair.unload()


@test("server-device-address")
def server_device_address(t):
    """the same with a listener on one address: its own identifier goes with the device"""
    only_ours(t, "its listener keeps the identifier, and rdma link delete waits for that without end")
    pair, before = bring_up(t)
    serve(pair)
    pair.server.run("nfsd_stop; nfsdlisten 10.0.0.1 20049 && echo 8 > /proc/fs/nfsd/threads", 60,
                    "listen on one address")
    listening = disturb.objects(pair.server)
    t.equal(len(listeners(pair.server)), 1, "identifiers that listen")
    pair.mount("3", "nconnect=2")
    work = workload.Work(pair.client)
    work.goes_on(t, "before the device goes")
    pair.server.run("rdma link delete rxe0", 60, "rdma link delete")
    t.equal(disturb.objects(pair.server), {}, "RDMA objects without a device")
    until(t, 20, "the server to say so", lambda: pair.kernel_log("nobody can connect", pair.server))
    pair.server.run("rxe_up", 20)
    until(t, 30, "the server to listen again", lambda: listeners(pair.server))
    work.goes_on(t, "after the device came back")
    work.end()
    pair.umount()
    until_objects(t, pair.server, listening, "without a mount")
    # Once more, and nfsd stops while it tries.
    pair.server.run("rdma link delete rxe0; nfsd_stop; rxe_up", 60, "stop nfsd without a device")
    t.equal(disturb.objects(pair.server), before, "RDMA objects with nfsd stopped")
    pair.server.until(f"rmmod {pair.server_xprt}", 20, f"rmmod {pair.server_xprt}")
    pair.unload()


@test("server-addr-change")
def server_addr_change(t):
    """a bond fails over to another hardware address: the listener is made anew, connections too"""
    only_ours(t, "its listener is dead afterwards: the port is still taken when it makes another identifier")
    # The one thing that makes RDMA_CM_EVENT_ADDR_CHANGE: failover of a bond whose hardware address
    # follows its active slave, under an identifier that is bound to the bond. So the listener needs
    # an address of its own.
    pair, before = bring_up(t, device="""
        ip addr flush dev eth0; modprobe bonding max_bonds=0 && modprobe dummy && ip link add bond0 type bond mode active-backup fail_over_mac active &&
        ip link add spare type dummy && ip link set bond0 mtu 4500 up || die 'no bond'
        ip link set eth0 down; ip link set eth0 master bond0; ip link set spare down
        ip link set spare master bond0 || die 'no slaves'
        ip link set bond0 type bond active_slave eth0 || die 'eth0 is not active'
        ip link set bond0 mtu 4500; ip addr add 10.0.0.1/24 dev bond0
        modprobe rdma_rxe; rdma link add rxe0 type rxe netdev bond0 || die 'no rxe'""")
    serve(pair)
    pair.server.run("nfsd_stop; nfsdlisten 10.0.0.1 20049 && echo 8 > /proc/fs/nfsd/threads", 60,
                    "listen on one address")
    listening = disturb.objects(pair.server)
    pair.mount("3", "nconnect=2")
    work = workload.Work(pair.client)
    work.goes_on(t, "before the failover")
    old = listeners(pair.server)
    t.equal(len(old), 1, "identifiers that listen")
    # Away to where nobody hears it, and back: the hardware address changes twice.
    pair.server.run("ip link set bond0 type bond active_slave spare; sleep 1; "
                    "ip link set bond0 type bond active_slave eth0", 20, "fail over and back")
    seen = pair.kernel_log("RDMA CM addr change for ndev bond0", pair.server)
    t.check(len(seen) >= 2, f"the RDMA core saw {len(seen)} changes of addresses, expected the "
                            "listener's and the connections'")
    new = until(t, 30, "a new identifier to listen", lambda: listeners(pair.server) - old)
    t.equal(len(new), 1, "identifiers that listen anew")
    work.goes_on(t, "after the failover")
    work.end()
    pair.umount()
    pair.mount("4.1")
    pair.client.run(f"cp {work.source} /mnt/c && drop_caches && cmp {work.source} /mnt/c", 60, "a new mount")
    pair.umount()
    until_objects(t, pair.server, listening, "without a mount")
    pair.server.run("nfsd_stop", 60, "stop nfsd")
    until_objects(t, pair.server, before, "nfsd has stopped")
    pair.unload()


def crowd(t, pair, number, waiting, first=""):
    """@number connections ask at once of a server without threads; returns the job when @waiting wait. @first:
    the first of their addresses, if each has its own."""
    job = pair.client.spawn(f"exec verbspeer 10.0.0.1 crowd {number} 60 {first}", f"{number} connections")

    def all_asked():
        t.check(job.running(), f"the crowd has ended: {job.out}")
        said = re.findall(r"crowd: (\d+) asked, (\d+) wait, (\d+) refused", job.out)
        if not said:
            return False
        asked, wait, refused = (int(n) for n in said[-1])
        return asked == number and wait == waiting and refused == number - waiting

    until(t, 50, f"{waiting} of {number} connections to wait, the others to be refused", all_asked)
    return job


def check_crowd(t, out, number, refused, all_kept, what):
    """@out is of a crowd of @number, of which so many were refused, and the others are all served; unless @all_kept,
    some of these were evicted, which looks like a refusal to one that was about to be connected."""
    told = re.search(rf"ok - crowd: {number} connections, (\d+) connected, (\d+) of them served, (\d+) refused, "
                     "0 without", out)
    t.check(told and told[1] == told[2], f"{what}: {out}")
    connected, told_refused = int(told[1]), int(told[3])
    if all_kept:
        t.equal((connected, told_refused), (number - refused, refused), f"{what}: connected and refused")
    else:
        t.check(disturb.LEAST_KEPT <= connected <= number - refused and told_refused >= refused,
                f"{what}: {connected} connected, {told_refused} refused")


@test("server-queue-full")
def server_queue_full(t):
    """more connections than may wait to be accepted, and no nfsd thread: the others are refused"""
    pair, before = bring_up(t)
    serve(pair)
    pair.client.run("modprobe -a rdma_ucm ib_uverbs")
    prepare = "echo 'rdma 20049' > /proc/fs/nfsd/portlist"
    pair.server.run("nfsd_stop", 60)
    all_kept = disturb.keep_all(pair.server, 400)
    pair.server.run(prepare, 60, "a listener without threads")
    listening = disturb.objects(pair.server)
    number = MOST_QUEUED + 16
    # The in-tree server lets all of them wait.
    most = MOST_QUEUED if pair.server_xprt == "rpcordma" else number

    def refused():
        path = "/sys/kernel/debug/rpcordma/server/counters"
        return int(pair.server.run(f"sed -n 's/^refused //p' {path}", 10))

    # They lose patience; and do not keep others away.
    job = crowd(t, pair, number, most)
    t.equal(disturb.objects(pair.server)["cm_id"], listening["cm_id"] + most, "identifiers on the server")
    pair.client.run("for i in $(seq 3 22); do ip addr add 10.0.0.$i/24 dev eth0; done", 10)
    others = crowd(t, pair, 2, 2, "10.0.0.3")
    for one in (others, job):
        one.kill()
        one.wait(30, check=False)
    until_objects(t, pair.server, listening, "the crowd is gone")

    # The server does.
    job = crowd(t, pair, number, most)
    pair.server.run("nfsd_stop", 60, "the listener goes")
    until_objects(t, pair.server, before, "no listener")
    out = job.wait(60, check=False)
    t.check(f"0 connected, 0 of them served, {number} refused" in out, f"the listener went: {out}")

    # Threads come.
    pair.server.run(prepare, 10)
    job = crowd(t, pair, number, most)
    pair.server.run("echo 8 > /proc/fs/nfsd/threads", 60, "start threads")
    out = job.wait(120, check=False)
    check_crowd(t, out, number, number - most, all_kept, "threads came")
    if pair.server_xprt == "rpcordma":
        t.equal(refused(), 3 * (number - most), "connections that the server counts as refused")
        t.check(pair.kernel_log("too many of this client wait to be accepted", pair.server),
                "the server's log is silent")
        # All together. Of the lines about those above the kernel keeps back all but ten in five seconds.
        time.sleep(5.5)
        pair.server.run(f"nfsd_stop; {prepare}; echo 16 > {MOST_PARAMETER}", 60, "16 may wait")
        job = crowd(t, pair, 20, 16, "10.0.0.3")
        t.check(pair.kernel_log("too many wait to be accepted; are there", pair.server), "the server's log is silent")
        job.kill()
        job.wait(30, check=False)
        pair.server.run("echo 8 > /proc/fs/nfsd/threads", 60, "start threads")
    pair.mount("3")
    pair.client.run("dd if=/dev/urandom of=/tmp/f bs=1M count=2 2>/dev/null; cp /tmp/f /mnt/f; "
                    "drop_caches; cmp /tmp/f /mnt/f", 60, "a mount afterwards")
    pair.umount()
    until_objects(t, pair.server, listening, "all have gone")
    pair.server.run("nfsd_stop", 60, "stop nfsd")
    until_objects(t, pair.server, before, "nfsd has stopped")
    pair.unload()


@test("server-crowd")
def server_crowd(t):
    """500 clients at 250 addresses connect at once, go, and come again at once"""
    pair, before = bring_up(t, server_memory=3072, client_memory=2048)
    serve(pair)
    pair.client.run("modprobe -a rdma_ucm ib_uverbs")
    pair.client.run("for i in $(seq 250); do echo addr add 10.0.4.$i/32 dev eth0; done | ip -batch -", 60, "addresses")
    pair.server.run("ip route add 10.0.4.0/24 dev eth0", 10)
    all_kept = disturb.keep_all(pair.server, 1000)
    listening = disturb.objects(pair.server)
    told = []
    for turn in ("first", "again"):
        job = pair.client.spawn(f"exec verbspeer 10.0.0.1 crowd {CROWD} 120 {CROWD_FIRST}", f"{CROWD} clients, {turn}")
        out = job.wait(180, check=False)
        check_crowd(t, out, CROWD, 0, all_kept, turn)
        told.append(re.search(r"([0-9.]+ s)$", out.strip())[1])
    print(f"    {CROWD} connected and served in {', '.join(told)}", flush=True)
    if pair.server_xprt == "rpcordma":
        t.check(not pair.kernel_log("connection refused", pair.server), "the server's log speaks of refusals")
    until_objects(t, pair.server, listening, "all have gone")
    pair.server.run("nfsd_stop", 60, "stop nfsd")
    until_objects(t, pair.server, before, "nfsd has stopped")
    pair.unload()


DEFERRALS = [f"sunrpc/svc_defer{what}" for what in ("", "_queue", "_recv", "_drop")]


def forget(vm, traced):
    """What nfsd knows of exports it has to ask mountd for, who does not answer; nothing is traced yet."""
    vm.run("kill -STOP $(pidof rpc.mountd) || die 'no mountd'; "
           "for cache in nfsd.export nfsd.fh; do date +%s > /proc/net/rpc/$cache/flush; done", 20,
           "mountd stops, caches are flushed")
    traced.clear()


@test("server-deferred")
def server_deferred(t):
    """calls that wait for mountd are put off, those with page data are not: all are answered in the end"""
    pair, before = bring_up(t, server_memory=1024)
    serve(pair)
    listening = disturb.objects(pair.server)
    # vers=3: of NFSv4 nothing is put off. Each call of the jobs' last steps goes over the wire.
    pair.mount("3", "actimeo=600")
    # What sunrpc does with calls that it puts off.
    traced = trace.Trace(pair.server, DEFERRALS)
    pair.server.run("cd /export && dd if=/dev/urandom of=big bs=64k count=1 2>/dev/null && "
                    "dd if=/dev/urandom of=small bs=500 count=1 2>/dev/null && mkdir dir && cd dir && "
                    "for i in $(seq 60); do > a-name-that-takes-some-room-in-a-listing-$i; done", 20)
    pair.client.run("dd if=/dev/urandom of=/tmp/new bs=64k count=1 2>/dev/null")
    resume = "kill -CONT $(pidof rpc.mountd)"

    def put_off(after):
        """READ, READDIRPLUS and LOOKUP while mountd is stopped; then after(), then they go on."""
        pair.client.run("drop_caches; rm -f /tmp/go; stat /mnt/big /mnt/small /mnt/dir > /dev/null", 20)
        wait = "until [ -e /tmp/go ]; do usleep 20000; done"
        jobs = [pair.client.spawn(f"exec < /mnt/{name}; echo open; {wait}; cat > /tmp/{name}", f"READ of {name}")
                for name in ("big", "small")]
        jobs.append(pair.client.spawn(f"cd /mnt/dir; echo open; {wait}; ls | sort > /tmp/ls", "READDIRPLUS"))
        jobs.append(pair.client.spawn(f"echo open; {wait}; [ ! -e /mnt/$$ ]", "LOOKUP"))
        until(t, 20, "all to be ready", lambda: all("open" in job.out for job in jobs))
        forget(pair.server, traced)
        pair.client.run("> /tmp/go")
        # Threads wait some seconds for mountd before they put a call off.
        until(t, 60, f"{len(jobs)} calls to be put off",
              lambda: traced.counts()["svc_defer"] >= len(jobs))
        t.check(all(job.running() for job in jobs), "a call was answered without mountd")
        after()
        pair.server.run(resume, 10, "mountd goes on")
        for job in jobs:
            job.wait(120)
        for name in ("big", "small"):
            sums = [vm.run(f"md5sum < {where}/{name}", 20)
                    for vm, where in ((pair.client, "/tmp"), (pair.server, "/export"))]
            t.equal(sums[0], sums[1], f"what was read of {name}")
        t.equal(pair.client.run("cat /tmp/ls", 10), pair.server.run("ls /export/dir | sort", 10),
                "the listing")
        counts = until(t, 30, "all that was put off to be done with", lambda: (
            lambda n: n if n["svc_defer"] == n["svc_defer_recv"] + n["svc_defer_drop"] else None)(
                traced.counts()))
        return counts

    counts = put_off(lambda: None)
    t.equal(counts["svc_defer_drop"], 0, f"calls put off and then dropped ({counts})")
    t.check(counts["svc_defer_recv"] >= 4, f"calls put off and taken up again: {counts}")
    print(f"    put off and answered: {counts['svc_defer_recv']}", end="", flush=True)

    # Their connection goes while they are put off: they are dropped, and come again.
    counts = put_off(lambda: pair.client.run(disturb.drop_script(pair.xprt, "client"), 20,
                                             "drop the connection"))
    t.check(counts["svc_defer_drop"] >= 4, f"calls put off, of a lost connection: {counts}")
    print(f"; of a lost connection: {counts['svc_defer_drop']}", end="", flush=True)

    # A WRITE: while mountd is silent the client is told to come again (EJUKEBOX).
    errors = disturb.op_counts(pair.client).get("WRITE", (0, 0, 0))[2]
    job = pair.client.spawn("exec > /mnt/new; echo open >&2; until [ -e /tmp/go2 ]; do usleep 20000; done; "
                            "cat /tmp/new", "WRITE")
    until(t, 20, "the writer to be ready", lambda: "open" in job.out)
    forget(pair.server, traced)
    pair.client.run("> /tmp/go2")
    until(t, 60, "a WRITE to be sent away",
          lambda: disturb.op_counts(pair.client)["WRITE"][2] > errors)
    t.equal(traced.counts()["svc_defer"], 0, "calls put off while there was only a WRITE")
    t.check(job.running(), "the WRITE was done without mountd")
    pair.server.run(resume, 10, "mountd goes on")
    job.wait(120)
    pair.client.run("drop_caches; cmp /tmp/new /mnt/new", 60, "compare over the wire")
    t.equal(pair.client.run("md5sum < /tmp/new"), pair.server.run("md5sum < /export/new"), "what was written")
    print("; the WRITE was sent away, and came again", flush=True)
    pair.umount()
    until_objects(t, pair.server, listening, "without a mount")
    pair.server.run("nfsd_stop", 60, "stop nfsd")
    until_objects(t, pair.server, before, "nfsd has stopped")
    pair.server.until(f"rmmod {pair.server_xprt}", 20, f"rmmod {pair.server_xprt}")
    pair.unload()


def drop_first(pair):
    """Drops the first client's connection at the server, and no other."""
    if pair.server_xprt == "rpcordma":
        folder = "/sys/kernel/debug/rpcordma/server"
        script = f"""number=$(sed -n 's/ 10[.]0[.]0[.]2:.*//p' {folder}/connections)
            echo $number > {folder}/disconnect || die "connections: $(cat {folder}/connections)" """
    else:
        # rxe0 has the first client's alone.
        script = disturb.drop_script(pair.server_xprt, "server")
    pair.server.run(script, 10, "drop the first client's connection")


def bound(pair):
    """How often the first client has told nfsd that a connection of its is for backward calls too."""
    return disturb.op_counts(pair.client)["BIND_CONN_TO_SESSION"][0]


def recall(t, pair, version, lost):
    """The second client wants what is delegated to the first, whose connection is lost.

    @lost  "before": it has come back with another when nfsd asks for the delegation; "with the answer":
           it goes when the client answers, and of the answer nothing gets out

    What nfsd (of Linux 6.12) asks while there is no connection, or with the connection that is lost, it
    does not ask again, over any transport: the second client then waits until the lease has run out. So
    that is not shown here.
    """
    name = f"{lost.replace(' ', '-')}-{version}"
    pair.server.run(f"echo 'first words' > /export/{name} && chmod 666 /export/{name}", 10)
    job = state.delegated(pair, name)
    before, connections, binds = state.returned(pair), pair.xprt_stats()["connect_count"], bound(pair)
    pair.client.run("rm -f /tmp/enough")
    # Something to come back for, of which nothing can be delegated.
    tick = "until [ -e /tmp/enough ]; do mkdir /mnt/tick && rmdir /mnt/tick; sleep 1; done"
    if lost == "before":
        drop_first(pair)
        ticks = pair.client.spawn(tick, "a call every second")
        until(t, 20, "the first client to come back", lambda: bound(pair) > binds)
    else:
        # Nothing else is sent by the first client until then.
        disturb.inject(pair.client, "disconnect 1 1")
    opening = pair.client2.spawn(f"state write /mnt/{name} 'other words'", "open for writing")
    if lost != "before":
        pair.client.until(f"[ -z \"$(cat {disturb.METER}/inject)\" ]", 20, f"the connection to be lost {lost}")
        ticks = pair.client.spawn(tick, "a call every second")
    out = opening.wait(2 * LEASE)
    took = int(re.search(r"open ms=(\d+)", out).group(1))
    what = f"vers={version}, connection lost {lost}"
    t.check(took < LEASE * 500, f"{what}: the second client's open took {took} ms")
    t.equal(state.returned(pair) - before, 1, f"{what}: delegations given back")
    t.equal(state.delegations(pair), [], f"{what}: delegations that nfsd lists")
    pair.client.run("> /tmp/enough")
    ticks.wait(30)
    t.equal(pair.xprt_stats()["connect_count"] - connections, 1, f"{what}: reconnects")
    state.let_go(pair.client, job)
    t.equal(pair.client.run(f"cat /mnt/{name}", 10).strip(), "other words",
            f"{what}: what the first client reads")
    return took


@test("server-recall")
def server_recall(t):
    """a delegation is recalled around the loss of its holder's connection: given back once, within the lease
    (VM_SLOW=1: with NFSv4.1 too)"""
    pair = t.lab(server_xprt=lab.server_under_test(), client2=True)
    pair.up(lease=LEASE, verbsmeter=True, server_meter=True)
    for version in ("4.1", "4.2") if os.environ.get("VM_SLOW") else ("4.2",):
        pair.mount(version)
        pair.mount2(version)
        took = {lost: recall(t, pair, version, lost) for lost in ("before", "with the answer")}
        print(f"    vers={version}: the second client's open, connection lost "
              + ", ".join(f"{lost}: {ms} ms" for lost, ms in took.items()), flush=True)
        pair.umount()
        pair.client2.run("umount /mnt", 40, "umount")
    pair.unload()
