# SPDX-License-Identifier: GPL-2.0-only
"""Hours of verified NFS over RDMA between two machines, ours at both ends, and what each has in use of its memory.

Mounts of NFS v3, v4.1 and v4.2 stay all the time. A round works on all of them, while connections are dropped at both
ends, calls are killed, and another mount comes and goes; then all is at rest, and both machines are sampled
(memory.py). Every other round has its new connections speak version 2.
"""

import os
import random
import time

from . import disturb, kernlog, lab, machine, memory, workload
from .testing import Wrong

VERSIONS = ("3", "4.1", "4.2")
# Seconds between two drops.
PERIOD = 7.0
# How long a round may take behind its end: each reconnect without a reply doubles the wait for the next.
PATIENCE = 240
# Of a tree that fsops makes.
FOLDERS = 12
# Processes that have a call under way at once, which is more than there are slots: a slot's buffers grow to what its calls
# need, and stay so.
CROWD = 140


class Pair(lab.Lab):
    """Passes over what rxe complains of itself when connections are lost for long (kernlog.RXE_COMPLETER). Each cache of
    objects has its own name, so that a series says what it is of."""

    def _boot(self, role, kernel, initramfs, nets, memory, cmdline="", cpus=2):
        vm = super()._boot(role, kernel, initramfs, nets, memory, f"{cmdline} slab_nomerge", cpus)
        vm.scanner.known = kernlog.Known(kernlog.OVERLAP, kernlog.RXE_COMPLETER)
        return vm


class Hours:
    """A run of @rounds, each @seconds long at the least: `samples`, {machine: [(seconds, {series: number})]}; what it
    `did`, {what: number}; what went `wrong`. Leaves the samples in @folder."""

    def __init__(self, rounds, seconds, folder, seed=1):
        self.rounds, self.seconds, self.folder = rounds, seconds, folder
        self.random = random.Random(seed)
        self.samples = {"client": [], "server": []}
        self.did = dict.fromkeys(("rounds of I/O", "trees copied and compared", "drops", "calls killed", "mounts",
                                  "reconnects", "rounds with version 2"), 0)
        self.wrong = []
        self.passed_over = {}
        os.makedirs(folder, exist_ok=True)
        with Pair("endurance", xprt="rpcordma", server_xprt="rpcordma", server_params="", client_memory=1536,
                  server_memory=1536) as self.pair:
            try:
                self._run()
            except (Wrong, machine.VmError, lab.LabError) as error:
                self.wrong.append(str(error))
            self.wrong += self.pair.complaints()
            for vm in self.pair.vms:
                for report, count in vm.scanner.known.passed.items():
                    self.passed_over[report] = self.passed_over.get(report, 0) + count

    def _run(self):
        client, server = self.pair.client, self.pair.server
        self.pair.up(export="700m", lease=60, grace=15)
        client.run("fsops gen /src 5; dd if=/dev/urandom of=/tmp/large bs=3000001 count=1 2> /dev/null", 120, "make files")
        server.run("fsops gen /src 5", 120, "make files")
        for version in VERSIONS:
            self.pair.mount(version, where=f"/mnt/{version}", timeout=120)
            # The mounts are of the same files: to each its own.
            client.run(f"mkdir /mnt/{version}/of-{version}", 60, "make a folder")
        for version in VERSIONS:
            self._crowd(version)
        began = time.monotonic()
        for number in range(self.rounds):
            end = began + (number + 1) * self.seconds
            self._round(number, end)
            # Connections that were replaced are gone, so are the states of what was killed.
            time.sleep(max(10.0, end - time.monotonic()))
            for vm in (client, server):
                values = memory.parse(vm.run(memory.SAMPLE, 120, "sample"))
                self.samples[vm.name].append((time.monotonic() - began, values))
                memory.save(self.path(vm.name), self.samples[vm.name], "real")
            if complaints := self.pair.complaints():
                raise Wrong(complaints[0])
            print(f"    round {number + 1} of {self.rounds}: " +
                  ", ".join(f"{n} {what}" for what, n in self.did.items()), flush=True)
        for version in VERSIONS:
            self.did["reconnects"] += int(self.pair.xprt_stats(f"/mnt/{version}")["connect_count"]) - 1
            self.pair.umount(f"/mnt/{version}", 120)
        self.pair.unload()
        server.run("nfsd_stop", 60, "stop nfsd")
        server.until("rmmod rpcordma", 60, "rmmod rpcordma")

    def path(self, name):
        return os.path.join(self.folder, f"{name}.json")

    def _round(self, number, end):
        """Works until a little before @end."""
        client, server = self.pair.client, self.pair.server
        version2 = number % 2
        for vm in (client, server):
            vm.run(f"echo {version2} > {disturb.VERSION2}", 10, "choose the version")
        self.did["rounds with version 2"] += version2
        client.run("rm -f /tmp/enough", 10)
        works = [workload.Work(client, 1, f"/mnt/{version}/of-{version}") for version in VERSIONS]
        dropper = disturb.Dropper([(vm, disturb.drop_script("rpcordma", vm.name)) for vm in (client, server)], PERIOD)
        try:
            turn = 0
            while time.monotonic() < end - min(60, self.seconds / 4):
                version = VERSIONS[turn % len(VERSIONS)]
                (self._tree, self._kill, self._mount)[turn // len(VERSIONS) % 3](version)
                turn += 1
        finally:
            dropper.stop()
        for version, work in zip(VERSIONS, works):
            self._goes_on(work, version)
        for work in works:
            work.end()
            self.did["rounds of I/O"] += sum(work.rounds())
        self.did["drops"] += sum(dropper.drops.values())

    @staticmethod
    def _goes_on(work, version):
        deadline = time.monotonic() + PATIENCE
        goal = [n + 2 for n in work.rounds()]
        while any(n < m for n, m in zip(work.rounds(), goal)):
            work.vm.must_live(f"I/O of {version}")
            for job in work.jobs:
                if not job.running():
                    job.wait(1)
                    raise Wrong(f"{job.what} of {version} has ended")
            if time.monotonic() > deadline:
                raise Wrong(f"I/O of {version} does not go on behind the drops")
            time.sleep(0.5)

    def _crowd(self, version):
        """As many calls at once as there can be: what is kept for each is there before samples are taken."""
        self.pair.client.run(f"""
            here=/mnt/{version}/of-{version}
            for i in $(seq {CROWD}); do
                (cp /tmp/large $here/crowd$i && cmp /tmp/large $here/crowd$i &&
                    rm $here/crowd$i || echo "$i failed") &
            done > /tmp/crowd
            wait
            [ ! -s /tmp/crowd ] || die "$(cat /tmp/crowd)"
            """, PATIENCE, f"{CROWD} processes on {version}")

    def _tree(self, version):
        folder, tree = f"d{self.random.randrange(FOLDERS):02}", f"tree-{version}"
        here = f"/mnt/{version}/{tree}"
        self.pair.client.run(f"fsops copy /src/{folder} {here} 2 && echo 1 > /proc/sys/vm/drop_caches && "
                             f"fsops compare /src/{folder} {here} 2", PATIENCE, f"a tree on {version}")
        self.pair.server.run(f"fsops compare /src/{folder} /export/{tree}", 60, f"{version}: what arrived")
        self.pair.client.run(f"rm -r {here}", PATIENCE, f"remove a tree of {version}")
        self.did["trees copied and compared"] += 1

    def _kill(self, version):
        """Calls that are given up: what they have lent to the server has to come back."""
        pauses = " ".join(str(self.random.randrange(1000, 60000)) for _ in range(4))
        self.pair.client.run(f"""
            here=/mnt/{version}/of-{version}
            dd if=/tmp/large of=$here/kept bs=1M 2> /dev/null || die "write"
            for pause in {pauses}; do
                echo 1 > /proc/sys/vm/drop_caches
                dd if=$here/kept of=/dev/null bs=1M iflag=direct 2> /dev/null & a=$!
                dd if=/tmp/large of=$here/other bs=700001 oflag=direct 2> /dev/null & b=$!
                usleep $pause
                kill -9 $a $b 2> /dev/null
                wait $a $b
            done
            cmp /tmp/large $here/kept && rm -f $here/kept $here/other || die "what was kept is not right"
            """, PATIENCE, f"calls that are killed on {version}")
        self.did["calls killed"] += 8

    def _mount(self, version):
        self.pair.mount(version, f"nosharecache,nconnect={self.random.randrange(1, 4)}", "/other", PATIENCE)
        self.pair.client.run("dd if=/tmp/large of=/other/brief bs=65536 oflag=direct 2> /dev/null && "
                             "cmp /tmp/large /other/brief && rm /other/brief", PATIENCE, f"another mount of {version}")
        self.pair.umount("/other", PATIENCE)
        self.did["mounts"] += 1
