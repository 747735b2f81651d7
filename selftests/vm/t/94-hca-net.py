# SPDX-License-Identifier: GPL-2.0-only
"""Network namespaces, VLANs and addresses of one kind: NFS between containers of one kernel, over virtual RDMA
devices (selftests/hca). Soft RoCE knows the first namespace alone.
"""

import time

from vmlib import netns
from vmlib.testing import test

# As in 90-hca.py: the in-tree server does without bounce buffers.
BOUNCES = ("rpcordma",)


def start(t):
    """A machine for containers, which is stopped and judged after the test."""
    ns = netns.Namespaces(t.name, t.xprt)
    t.labs.append(ns)
    ns.bounce = t.xprt in BOUNCES
    return ns


def verified(box):
    """Data there and back, through the page cache and past it."""
    box.run(f"""
        dd if=/dev/urandom of=/tmp/{box.name} bs=1000003 count=2 2> /dev/null
        cp /tmp/{box.name} /mnt/f && drop_caches && cmp /tmp/{box.name} /mnt/f || die "what is read differs"
        dd if=/tmp/{box.name} of=/mnt/g bs=262144 oflag=direct 2> /dev/null || die "direct write"
        cmp /tmp/{box.name} /mnt/g || die "what was written directly differs"
        mkdir /mnt/d && ls /mnt | wc -l && rm -r /mnt/d /mnt/f /mnt/g""", 60, "verified I/O")


def end_under_mount(t, ns):
    """Container c1 ends with I/O under way over its mount; c2, with a mount of its own, does not notice."""
    ns.mount(1, "3")
    ns.mount(2, "4.2")
    first, second = netns.Work(ns.all["c1"]), netns.Work(ns.all["c2"])
    first.more()
    second.more()
    ns.all["c1"].end()
    ns.gone("c1")
    second.more(3)
    t.equal(ns.connections(2), 1, "connections of the mount in the other namespace")
    second.stop()
    ns.all["c2"].run("umount /mnt", 60)
    ns.quiet(2)


@test("netns")
def mounts(t):
    """mounts from network namespaces, over RDMA devices that all see or one alone; one ends under its mount"""
    ns = start(t)
    for exclusive in (False, True):
        ns.set_exclusive(exclusive)
        for n, preset in ((1, "connectx"), (2, "qedr")):
            ns.pair(n, preset, ns.bounce)
            ns.serve(n)
        seen = ns.all["c1"].run("rdma dev | sed 's/.*: \\(vhca_[^:]*\\):.*/\\1/' | sort", 10).split()
        t.equal(seen, ["vhca_n1c"] if exclusive else ["vhca_n1c", "vhca_n1s", "vhca_n2c", "vhca_n2s"],
                "RDMA devices that a container sees")
        if not exclusive:
            # A device goes when its interface is given to another namespace.
            ns.vm.run("rdma link add vhca_va type vhca netdev va || die 'no vhca_va'; ip link set va netns c1", 20)
            ns.vm.until("! rdma link show vhca_va/1", 20, "the device of an interface that was moved to go")
        for version, six in (("3", exclusive), ("4.2", not exclusive)):
            other = ns.stats("vhca_n2c")["send"]
            before = ns.stats("vhca_n1c")["send"]
            ns.mount(1, version, six)
            verified(ns.all["c1"])
            t.equal(ns.connections(1), 1, f"vers={version}: connections")
            ns.all["c1"].run("umount /mnt", 60)
            t.check(ns.stats("vhca_n1c")["send"] > before + 20, "the traffic did not go through the namespace's device")
            t.equal(ns.stats("vhca_n2c")["send"], other, "Sends of a device of another namespace")
            ns.quiet(1)
        end_under_mount(t, ns)
        t.equal(ns.faults(), [], "rules that were broken")
        for name in sorted(ns.all):
            ns.all[name].end()
            ns.gone(name)
        ns.vm.until(f"[ $(cat /sys/module/{t.xprt}/refcnt) = 0 ] && [ ! \"$(ls /sys/class/infiniband)\" ]", 60,
                    "everything to go with its namespace")
    ns.vm.until(f"rmmod {t.xprt} && rmmod vhca", 30, "unload")


@test("server-netns")
def servers(t):
    """an nfsd in each of two network namespaces: one stops and starts under I/O, and ends; the other stays"""
    ns = start(t)
    none = ns.uses()
    for n in (1, 2):
        ns.pair(n, "connectx", ns.bounce)
        ns.serve(n)
    listening = ns.uses()
    t.check(listening > none, "the listeners do not hold the module")

    # With a listener and no device at all. No connection has been there: what is left of one holds the module for a while.
    for n in (3, 4):
        ns.link(n)
        ns.serve(n)
        t.check(ns.uses() > listening, "the listener does not hold the module")
        for name in (f"c{n}", f"s{n}"):
            ns.all.pop(name).end()
        ns.vm.until(f"[ $(cat /sys/module/{t.xprt}/refcnt) = {listening} ]", 60, "the namespace's listener to go")

    ns.mount(1, "3")
    ns.mount(2, "4.2")
    first, second = netns.Work(ns.all["c1"]), netns.Work(ns.all["c2"])
    first.more()
    second.more()

    ns.all["s1"].run("nfsd_stop", 60, "nfsd stops in one namespace")
    second.more(3)
    rounds = first.rounds
    time.sleep(2)
    t.check(first.rounds <= rounds + 1, "the namespace without an nfsd is served")
    ns.all["s1"].run("nfsd_start 8 grace", 60, "nfsd starts in it again")
    first.more(3)
    t.check(ns.connections(1) > 1, "the client of the nfsd that stopped has its first connection still")
    first.stop()
    ns.all["c1"].run("umount /mnt", 60)
    ns.quiet(1)

    # It ends with a connection and I/O, and its client's interface with it. A hard mount's page that has still to be
    # written would wait for it for ever, over any transport, and with it each sync(1) of the whole machine.
    ns.mount(1, "3", six=True, options="soft,timeo=20,retrans=1")
    first = netns.Work(ns.all["c1"])
    first.more()
    ns.all["s1"].end()
    ns.gone("s1")
    second.more(3)
    # Its client has nobody to speak to, and ends too.
    ns.all["c1"].end()
    ns.gone("c1")
    second.more()
    t.equal(ns.connections(2), 1, "connections of the mount in the other namespace")
    second.stop()

    verified(ns.all["c2"])
    ns.all["c2"].run("umount /mnt", 60)
    ns.quiet(2)
    t.equal(ns.faults(), [], "rules that were broken")
    for name in sorted(ns.all):
        ns.all[name].end()
        ns.gone(name)
    ns.vm.until(f"[ $(cat /sys/module/{t.xprt}/refcnt) = {none} ] && rmmod {t.xprt} && rmmod vhca", 60, "unload")


@test("hca-addresses", slow="netns has IPv4 and IPv6; a VLAN and xprtsec= are its own")
def addresses(t):
    """IPv4 alone, IPv6 alone, a VLAN; xprtsec= is refused"""
    ns = start(t)
    for n, what in ((1, "four"), (2, "six"), (3, "vlan")):
        client, server = ns.link(n, what != "six", what != "four")
        if what == "vlan":
            ns.vm.run("modprobe 8021q || die 'no VLANs'", 10)
            for box, end, number in ((client, "c", 2), (server, "s", 1)):
                box.run(f"ip link add link n3{end} name n3{end}.7 type vlan id 7; ip link set n3{end}.7 up; "
                        f"ip addr add 10.9.7.{number}/24 dev n3{end}.7", 10)
        ns.devices(n, "connectx", ns.bounce)
        ns.serve(n)
    for n, version, six, address in ((1, "3", False, None), (1, "4.2", False, None), (2, "3", True, None),
                                     (2, "4.1", True, None), (3, "3", False, "10.9.7.1"),
                                     (3, "4.2", False, "10.9.7.1")):
        before = ns.stats(f"vhca_n{n}s")["send"]
        ns.mount(n, version, six, address=address)
        verified(ns.all[f"c{n}"])
        t.equal(ns.connections(n), 1, f"{address or n}, vers={version}: connections")
        ns.all[f"c{n}"].run("umount /mnt", 60)
        t.check(ns.stats(f"vhca_n{n}s")["send"] > before + 20, "the traffic did not go through the device")
        ns.quiet(n)
    for policy in ("tls", "mtls"):
        began = time.monotonic()
        said = ns.all["c1"].run(f"mount.nfs 10.9.1.1:/ /mnt -o vers=4.2,proto=rdma,port=20049,xprtsec={policy} 2>&1; "
                                "echo status $?", 30)
        # All that mount.nfs knows: the kernel's reason is for programs that use fsopen().
        t.check("incorrect mount option" in said and "status 32" in said, f"xprtsec={policy} over RDMA: {said!r}")
        t.within(10, began, f"refusal of xprtsec={policy}")
    t.equal(ns.faults(), [], "rules that were broken")
    for name in sorted(ns.all):
        ns.all[name].end()
        ns.gone(name)
    ns.vm.until(f"rmmod {t.xprt} && rmmod vhca", 30, "unload")
