# SPDX-License-Identifier: GPL-2.0-only
"""File system work over the mount of a lab, every result verified.

The steps of the demonstration, which the interop matrix does as well. fsops does the work in the
guests; here is what is done in which order, and on which side it is checked. And work that goes on
while something is done to the machines.
"""

import re

from . import lab, testing

SEED = 20049
ENTRIES = 5000
WORKERS = 4


class Count:
    """Files and bytes that went through the mount and were compared."""

    def __init__(self):
        self.files = self.bytes = 0

    def add(self, output):
        found = re.findall(r"^(?:copy|compare) files=(\d+) bytes=(\d+)$", output, re.M)
        if not found:
            raise lab.LabError(f"fsops did not say what it copied: {output!r}")
        self.files += sum(int(files) for files, _ in found)
        self.bytes += sum(int(size) for _, size in found)


def there_and_back(pair, version, count):
    """The generated tree and the guest's own files, to the server and back, compared."""
    client, server = pair.client, pair.server
    count.add(client.run(f"fsops copy /src /mnt/there {WORKERS}", 100, f"{version}: copy to the server"))
    count.add(client.run(f"fsops copy /usr /mnt/usr {WORKERS}", 60,
                         f"{version}: copy real files to the server"))
    count.add(client.run(f"fsops copy /lib/modules /mnt/modules {WORKERS}", 60,
                         f"{version}: copy kernel modules to the server"))
    client.run("drop_caches", 30)
    # The server looks at what it has by itself: an error that cancels itself out on the way back
    # would be seen here.
    job = server.spawn(f"fsops compare /src /export/there && fsops compare /usr /export/usr",
                       f"{version}: server checks what arrived")
    count.add(client.run(f"rm -rf /back; fsops copy /mnt/there /back {WORKERS}", 100,
                         f"{version}: copy back"))
    client.run("fsops compare /src /back && rm -rf /back", 60, f"{version}: compare")
    count.add(client.run(f"fsops compare /usr /mnt/usr {WORKERS}", 60, f"{version}: compare real files"))
    count.add(client.run(f"fsops compare /lib/modules /mnt/modules {WORKERS}", 60,
                         f"{version}: compare kernel modules"))
    job.wait(60)


def names_and_attributes(pair, version, _count):
    """What is not data: names, listings, locks, attributes; and data past the page cache."""
    client = pair.client
    client.run("fsops names /mnt/names", 60, f"{version}: names")
    # The server makes them: one at a time over the wire they would take longer than all the rest.
    pair.server.run(f"fsops dirmake /export/dir {ENTRIES}", 30, f"{version}: make entries")
    client.run(f"fsops dirlist /mnt/dir {ENTRIES}", 60,
               f"{version}: list {ENTRIES} entries")
    client.run("fsops locks /mnt", 60, f"{version}: locks")
    client.run(f"fsops direct /mnt {SEED} && fsops mapped /mnt", 90, f"{version}: O_DIRECT, mmap")
    client.run("fsops acl /mnt/acl" if version == "3" else "fsops acl4 /mnt/acl", 30,
               f"{version}: access control lists")
    if version == "4.2" and pair.server_xattr:
        client.run("fsops xattr /mnt/xattr", 30, f"{version}: extended attributes")


def copy_over_restart(pair, version, count, before="", after=""):
    """nfsd goes and comes back in the middle of a copy, which must end complete and correct.

    @before, @after  what the server's shell does before nfsd stops, and once it has started again
    """
    client, server = pair.client, pair.server
    job = client.spawn("mkdir /mnt/again && fsops copy /src/d08 /mnt/again/d08 2 && "
                       "fsops copy /src/d07 /mnt/again/d07 2", f"{version}: copy while nfsd restarts")
    server.until("[ $(du -sm /export/again | cut -f1) -ge 3 ]", 60,
                 f"{version}: 3 MB of the copy to arrive")
    server.run(f"{before}\nnfsd_stop", 40, f"{version}: stop nfsd")
    if not job.running():
        raise lab.LabError(f"{version}: the copy ended before nfsd was stopped")
    server.run(f"sleep 1; nfsd_start 8 grace\n{after}", 40, f"{version}: start nfsd again")
    count.add(job.wait(150))
    client.run("drop_caches", 60, f"{version}: sync")
    server.run("fsops compare /src/d08 /export/again/d08 && "
               "fsops compare /src/d07 /export/again/d07", 60, f"{version}: check the copy")


STEPS = (there_and_back, names_and_attributes, copy_over_restart)


class Work:
    """Verified I/O on @vm, @where, that goes on until it is told to end. Its files begin with the machine's name.
    `source` is a file of the machine's that it copies there."""

    def __init__(self, vm, jobs=3, where="/mnt"):
        self.vm = vm
        self.source = source = "/tmp/f" + where.replace("/", "-")
        vm.run(f"rm -f /tmp/enough; dd if=/dev/urandom of={source} bs=1000003 count=1 2>/dev/null")
        self.jobs = [vm.spawn(f"""
            round=0 a={where}/{vm.name}-a{i} b={where}/{vm.name}-b{i}
            until [ -e /tmp/enough ]; do
                round=$((round + 1))
                cp {source} $a && sync $a && dd if={source} of=$b bs=262144 oflag=direct 2>/dev/null ||
                    die "round $round: write"
                echo 1 > /proc/sys/vm/drop_caches
                cmp {source} $a && cmp {source} $b || die "round $round: compare"
                rm $a $b || die "round $round: remove"
                echo $round
            done""", f"I/O number {i}") for i in range(jobs)]

    def rounds(self):
        return [len(job.out.split()) for job in self.jobs]

    def goes_on(self, t, what, seconds=120):
        """Waits until each job has ended a round that was begun after now."""
        goal = [n + 2 for n in self.rounds()]

        def done():
            for job in self.jobs:
                if not job.running():
                    job.wait(1)
                    t.check(False, f"{job.what}: ended {what}")
            return all(n >= m for n, m in zip(self.rounds(), goal))

        testing.until(t, seconds, f"I/O {what}", done)

    def end(self):
        self.vm.run("> /tmp/enough")
        for job in self.jobs:
            job.wait(120)
