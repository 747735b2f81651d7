# SPDX-License-Identifier: GPL-2.0-only
"""A day of NFS over RDMA in a few minutes: client and server in one User-Mode Linux kernel where only waiting takes
time, and what that has in use of its memory at the end of each hour.

The machine has time-travel=inf-cpu (see selftests/bench/benchlib/trips.py): what is computed takes no time, and when
all are waiting, the clock goes on to the next timer. So an hour of which most is idle, with leases that are renewed,
connections that are closed after five idle minutes, and all timers of NFS, takes as long as its work.

Each hour does the same work (hour() in the guest's script), on mounts of NFS v3, v4.1 and v4.2 that stay all day, and
every byte of it is compared. What is sampled, and how it is judged, is in vmlib/memory.py.
"""

import glob
import os
import re
import sys

import uml
from vmlib import kernlog, memory

sys.path.insert(0, os.path.join(uml.TOP, "selftests", "wire"))
import golden  # noqa: E402

GUEST = os.path.join(uml.TOP, "selftests", "vm", "guest")
LEAKS = os.path.join(uml.TOP, "selftests", "uml", "leaks")
# Milliseconds that a packet takes, one way.
DELAY = 1
# With KASAN, lockdep and kmemleak.
CONFIG = "debug"
# Real seconds that an hour may take, on a machine that has other things to do.
PATIENCE = 300

SETUP = uml.BOTH_ENDS + """
leaks_forget
both_up @DELAY@
export_up 400M
insmod /job/rpcordma.ko || die "rpcordma does not load"
server_up rpcordma 90 90
OURS=/sys/kernel/debug/rpcordma
MOUNTS="3 4.1 4.2"
mkdir -p /job/samples
fsops gen /tmp/src 5 > /dev/null || die "no files to begin with"
head -c 3000001 /dev/urandom > /tmp/large
seconds() {
	cut -d . -f 1 /proc/uptime
}
sample() {
	{
		echo "at: $(seconds)"
		@SAMPLE@
	} > /tmp/sample 2> /tmp/errors
	[ ! -s /tmp/errors ] || die "sample $1: $(cat /tmp/errors)"
	cp /tmp/sample /job/samples/$(printf %04d $1)
}
# rpc_mount VERSION WHERE [OPTIONS]: over a transport of its own.
rpc_mount() {
	mkdir -p $2
	case $1 in
	3) source=/export more=nolock,mountproto=tcp,mounthost=127.0.0.1 ;;
	*) source=/ more=clientaddr=fe80::2%va ;;
	esac
	/sbin/mount.nfs "[fe80::1%va]:$source" $2 -o vers=$1,proto=rdma6,port=20049,nosharecache,$more${3:+,$3} ||
		die "no mount of $1"
	echo mount >> /job/done
}
# copied FROM TO [MOUNT]: there, and looked at from here and in the server's own files.
copied() {
	fsops copy $1 $2 2 >> /job/done || die "copy to $2"
	echo 1 > /proc/sys/vm/drop_caches
	fsops compare $1 $2 2 >> /job/done && fsops compare $1 /export/${2##*/} > /dev/null || die "$2 is not $1"
}
# Metadata, odd offsets past the page cache, mappings, attributes, locks.
small() {
	mkdir $2 && fsops names $2/names > /tmp/said && fsops direct $2 $3 > /tmp/said && fsops mapped $2 > /tmp/said ||
		die "small work on $1"
	[ $1 != 4.2 ] || fsops xattr $2/file > /tmp/said || die "extended attributes"
	[ $1 = 3 ] || fsops locks $2 > /tmp/said || die "locks on $1"
}
# Copies over which all connections are lost, at client and server in turn.
dropped() {
	rm -f /tmp/ended.*
	for version in $MOUNTS; do
		{ (copied /tmp/src/d09 /mnt/$version/$version-dropped); echo $? > /tmp/ended.$version; } &
	done
	until [ $(ls /tmp/ended.* | wc -l) = 3 ]; do
		usleep 40000
		echo 1 > $OURS/disconnect && echo "drop client" >> /job/done
		usleep 40000
		echo all > $OURS/server/disconnect && echo "drop server" >> /job/done
		usleep 100000
	done 2> /dev/null
	wait
	[ "$(cat /tmp/ended.* | tr -d '\n')" = 000 ] || die "a copy that lost its connections"
	rm -r /mnt/3/*-dropped
}
# Calls that are given up: what they have lent to the server has to come back.
killed() {
	cp /tmp/large $1/large && echo 1 > /proc/sys/vm/drop_caches || die "$1/large"
	for pause in 1000 2500 6000 13000; do
		dd if=$1/large of=/dev/null bs=1M iflag=direct 2> /dev/null & a=$!
		dd if=/tmp/large of=$1/other bs=700001 oflag=direct 2> /dev/null & b=$!
		usleep $pause
		kill -9 $a $b 2> /dev/null && echo kill >> /job/done
		wait
	done
	cmp /tmp/large $1/large || die "$1/large"
}
# A delegation that is recalled, by a program of the server's own.
recalled() {
	echo before > /export/given
	rm -f /tmp/stop
	state read $1/given /tmp/stop > /tmp/said &
	sleep 2
	echo after >> /export/given
	touch /tmp/stop
	wait
	[ "$(cat $1/given | tr '\\n' ' ')" = "before after " ] || die "$1/given: $(cat $1/given)"
	rm $1/given
}
hour() {
	for version in $MOUNTS; do
		here=/mnt/$version/$version-$1
		copied /tmp/src/d0$(($1 % 8)) $here
		rm -r $here
	done
	set -- $1 $(echo $MOUNTS $MOUNTS | cut -d ' ' -f $(($1 % 3 + 1))-)
	small $2 /mnt/$2/small $1
	rm -r /mnt/$2/small
	dropped
	killed /mnt/$3
	rm /mnt/$3/large /mnt/$3/other
	recalled /mnt/4.1
	recalled /mnt/4.2
	for version in $MOUNTS; do
		rpc_mount $version /tmp/other nconnect=$(($1 % 3 + 1))
		copied /tmp/src/d10/s1 /tmp/other/again
		rm -r /tmp/other/again
		umount /tmp/other || die "umount"
	done
	if [ $(($1 % 6)) = 5 ]; then
		nfsd_stop
		sleep 20
		nfsd_start 8 grace
		copied /tmp/src/d11/s2 /mnt/$2/after
		rm -r /mnt/$2/after
	fi
	# Idle: connections of v3 are closed, leases renewed.
	sleep $(($start + ($1 + 1) * 3600 - $(seconds)))
	sample $1
}
for version in $MOUNTS; do
	rpc_mount $version /mnt/$version $([ $version = 4.1 ] && echo nconnect=2)
done
start=$(seconds)
n=0
while [ $n -lt @HOURS@ ]; do
	hour $n
	n=$((n + 1))
done
cat $OURS/stats > /job/stats
grep DELEGRETURN: /proc/self/mountstats > /job/returned
for version in $MOUNTS; do
	umount /mnt/$version || die "umount"
done
nfsd_stop
unloaded rpcordma
health
"""


class Day:
    """One boot of a machine that works for @hours: its `samples`, what it `did`, what went `wrong`, and the reports
    that are `known`."""

    def __init__(self, hours, module, kdir, name="day"):
        script = SETUP
        for word, value in (("@SAMPLE@", memory.SAMPLE), ("@DELAY@", f"{DELAY}ms"), ("@HOURS@", hours)):
            script = script.replace(word, str(value))
        programs = [uml.compiled(os.path.join(GUEST, f"{program}.c"), os.path.join(uml.BUILD, program))
                    for program in ("fsops", "state")]
        machine = uml.Machine(name, uml.new_run(name), kdir, "PATH=/job:$PATH\n" + script,
                              [os.path.join(GUEST, "lib.sh"), module, *programs], memory="1500M",
                              arguments=["time-travel=inf-cpu"])
        self.known = machine.known = kernlog.Known(kernlog.RXE_COMPLETER)
        machine.start()
        machine.wait((hours + 2) * PATIENCE, f"{hours} hours")
        self.folder = machine.folder
        self.samples = []
        for path in sorted(glob.glob(os.path.join(machine.folder, "samples", "*"))):
            with open(path) as f:
                text = f.read()
            self.samples.append((int(re.search(r"^at: (\d+)$", text, re.M).group(1)), memory.parse(text)))
        self.path = os.path.join(machine.folder, "samples.json")
        memory.save(self.path, self.samples, "virtual")
        self.wrong = machine.judge()
        if len(self.samples) != hours:
            self.wrong.append(f"{len(self.samples)} samples of {hours} hours")
        self.did = self._did(machine)

    @staticmethod
    def _did(machine):
        """{what: number}"""
        done = machine.file("done")
        moved = re.findall(r"^(?:copy|compare) files=(\d+) bytes=(\d+)$", done, re.M)
        return {"files written or compared": sum(int(files) for files, _ in moved),
                "MiB": sum(int(size) for _, size in moved) >> 20,
                "drops, client's": done.count("drop client\n"), "drops, server's": done.count("drop server\n"),
                "connects of what stayed": sum(map(int, re.findall(r"connects: *(\d+)", machine.file("stats")))),
                "calls killed": done.count("kill\n"), "mounts": done.count("mount\n"),
                "delegations returned": sum(int(n) for n in re.findall(r"DELEGRETURN: (\d+)",
                                                                       machine.file("returned")))}
