# SPDX-License-Identifier: GPL-2.0-only
"""A rolling change of transports, from the in-tree one to ours and back, one machine after the other, while the others
work: what operating.rst tells an administrator to type.

A client is unmounted for it, and works no more while its module is exchanged. The server's nfsd stops, and both clients
wait: behind it they go on, and have what they had locked.
"""

from vmlib import lab, state, workload
from vmlib.testing import test

IN_TREE, OURS = "rpcrdma", "rpcordma"
# Both clients must have found the server again, and said what they hold, before it is over.
GRACE = 45
RANGE = "0 100"
SLOW = "takes a minute or three"


class Site:
    """A server, `client` and `client2`, with a mount and verified work at each of the two.

    @t        the test
    @version  as in the option vers=
    """

    def __init__(self, t, version):
        self.t, self.version = t, version
        self.pair = t.lab(xprt=IN_TREE, server_xprt=IN_TREE, client2=True)
        self.pair.up(lease=20, grace=GRACE)
        self.pair.server.run(f"echo {GRACE} > /proc/sys/fs/nfs/nlm_grace_period", 10)
        self.has = {"server": IN_TREE, "client": IN_TREE, "client2": IN_TREE}
        self.work = {}
        for name in ("client", "client2"):
            self.begin(name)

    def vm(self, name):
        return getattr(self.pair, name)

    def begin(self, name):
        """The client @name mounts and works."""
        mount = self.pair.mount if name == "client" else self.pair.mount2
        mount(self.version)
        self.work[name] = workload.Work(self.vm(name), jobs=2)
        self.work[name].goes_on(self.t, f"of {name} over {self.has[name]}")

    def end(self, name):
        self.work.pop(name).end()
        self.vm(name).run("umount /mnt", 40, "umount")

    def exchange(self, name, xprt):
        """The transport of @name, which nobody uses any more."""
        vm, old = self.vm(name), self.has[name]
        vm.until(f"rmmod {old}", 30, f"rmmod {old}")
        vm.run(f"modprobe {xprt}", 20, f"modprobe {xprt}")
        lab.Lab.only(vm, xprt)
        self.has[name] = xprt

    def go_on(self):
        for name, work in self.work.items():
            work.goes_on(self.t, f"of {name} with {self.has}", 180)

    def change_client(self, name, xprt):
        """The other one's work goes on."""
        self.end(name)
        self.exchange(name, xprt)
        self.begin(name)
        self.go_on()

    def change_server(self, xprt):
        """Both clients wait for it, and keep their locks."""
        server, nsm = self.pair.server, self.version == "3"
        held = {name: state.held(self.vm(name), f"lock /mnt/locked-{name} {RANGE}", "lock") for name in self.work}
        server.run(("statd_killed\n" if nsm else "") + "nfsd_stop", 60, "stop nfsd")
        self.exchange("server", xprt)
        server.run("nfsd_start 8 grace" + ("\nstatd_rebooted" if nsm else ""), 40, "start nfsd")
        self.go_on()
        for name, other in (("client", "client2"), ("client2", "client")):
            # Waits while the grace period lasts.
            job = self.vm(other).spawn(f"state try /mnt/locked-{name} {RANGE}", "try a lock")
            job.wait(GRACE + 60, check=False)
            self.t.equal(job.status, 3, f"a try for the lock of {name}, which the server has been told of again")
        for name, job in held.items():
            state.let_go(self.vm(name), job)


def rolling(t, version):
    t.only_rpcordma("it has both transports at each end")
    site = Site(t, version)
    for xprt in (OURS, IN_TREE):
        site.change_client("client", xprt)
        site.change_server(xprt)
        site.change_client("client2", xprt)
    for name in ("client", "client2"):
        site.end(name)


@test("rolling-v3", slow=SLOW)
def rolling_v3(t):
    """clients and server change their transport one after the other, to ours and back, under verified NFSv3 work"""
    rolling(t, "3")


@test("rolling-v4.2", slow=SLOW)
def rolling_v42(t):
    """the same with NFSv4.2, whose locks outlive the change of the server"""
    rolling(t, "4.2")
