# SPDX-License-Identifier: GPL-2.0-only
"""NVMe over RDMA in one kernel, by Linux's own nvme-rdma and nvmet-rdma, over two virtual RDMA devices (hca.py).

A judge of the devices that knows nothing of this project: what it needs of them is what is in its sources. Both ends
are in the first network namespace, as inet_pton_with_scope() is asked to look there; "%va" behind a link-local
address is the interface that it goes by, which keeps the connection off the loopback.
"""

import time

from . import hca

TARGET = "/sys/kernel/config/nvmet"
NQN = "nqn.2024-01.test:ram"
SIZES = (512, 4096, 16384, 65536, 262144, 1048576, 4194304)
# Of each size so many bytes, at most so many pieces.
BYTES, PIECES = 1 << 20, 24

UP = f"""
    modprobe -a nvme_rdma nvmet_rdma || die "no nvme_rdma or nvmet_rdma"
    modprobe brd rd_nr=1 rd_size=16384 || die "no brd"
    grep -q configfs /proc/mounts || mount -t configfs none /sys/kernel/config || die "no configfs"
    mkdir {TARGET}/subsystems/{NQN} && cd {TARGET}/subsystems/{NQN} || die "no subsystem"
    echo 1 > attr_allow_any_host
    mkdir namespaces/1 && echo /dev/ram0 > namespaces/1/device_path && echo 1 > namespaces/1/enable ||
        die "no namespace"
    mkdir {TARGET}/ports/1 && cd {TARGET}/ports/1 || die "no port"
    echo rdma > addr_trtype
    echo ipv6 > addr_adrfam
    echo fe80::1%vb > addr_traddr
    echo 4420 > addr_trsvcid
"""

DOWN = f"""
    rmdir {TARGET}/ports/1 && echo 0 > {TARGET}/subsystems/{NQN}/namespaces/1/enable &&
        rmdir {TARGET}/subsystems/{NQN}/namespaces/1 && rmdir {TARGET}/subsystems/{NQN} || die "the target stays"
    rmmod nvme_rdma nvmet_rdma && rmmod nvmet nvme_fabrics brd || die "modules stay"
"""


class Refused(Exception):
    """There is no connection; the text is what the kernel's log said meanwhile."""


class Nvme:
    """A target with a RAM disk, and the host that uses it, in the machine of @one (hca.OneKernel)."""

    def __init__(self, one):
        self.one, self.vm = one, one.vm
        self.disk = None
        self.vm.run(UP, 40, "nvme target up")

    def devices_up(self, preset, host_bounce, target_bounce):
        """As OneKernel.devices_up(), with bounce buffers at either end or not."""
        script = f"echo {preset} > /sys/module/vhca/parameters/preset\n"
        for dev, bounce in (("va", host_bounce), ("vb", target_bounce)):
            script += (f"echo {'Y' if bounce else 'N'} > /sys/module/vhca/parameters/bounce\n"
                       f"rdma link add vhca_{dev} type vhca netdev {dev} || die 'no vhca_{dev}'\n")
        self.vm.run(script, 20, f"devices of preset {preset}")

    def listen(self):
        self.vm.run(f"ln -s {TARGET}/subsystems/{NQN} {TARGET}/ports/1/subsystems/{NQN} || die 'no listener'", 20,
                    "nvme target listens")

    def close(self):
        self.vm.run(f"rm {TARGET}/ports/1/subsystems/{NQN}", 20, "nvme target listens no more")

    def connect(self, bounce):
        """Raises Refused where the two ends do not come together.

        @bounce  the host's device has bounce buffers: requests are kept to what one of them takes. nvme-rdma does not
                 ask for dma_max_mapping_size(), and tries what is too large again for ever: nvme_rdma_queue_rq() has
                 EIO be a fault of the path.
        """
        self.vm.run("dmesg -c > /dev/null", 10)
        if not self.vm.ok(f"echo 'transport=rdma,traddr=fe80::1%va,trsvcid=4420,nqn={NQN},nr_io_queues=2,"
                          f"reconnect_delay=1' > /dev/nvme-fabrics", 60, "nvme connects"):
            raise Refused(self.vm.run("dmesg", 10))
        self.disk = self.vm.until("cd /dev && echo /dev/nvme*n1 | grep -v '[*]'", 20, "nvme's disk").strip()
        if bounce:
            self.vm.run("for most in /sys/block/nvme*n1/queue/max_sectors_kb; do echo 256 > $most || die $most; done",
                        10, "keep requests to the size of bounce buffers")

    def disconnect(self):
        self.vm.run("for c in /sys/class/nvme/nvme*/delete_controller; do echo 1 > $c; done; "
                    "! ls /sys/class/nvme/ | grep . ", 60, "nvme disconnects")
        self.disk = None

    def down(self):
        self.vm.run(DOWN, 30, "nvme target down")

    def verified_io(self):
        """New data there and back past the page cache, in pieces of each size; and as the target's disk has them,
        of whose page cache the target knows nothing."""
        script, at = "dd if=/dev/urandom of=/tmp/data bs=1M count=4 2> /dev/null\n", 0
        for size in SIZES:
            count = max(1, min(PIECES, BYTES // size))
            # Each at a place of its own, aligned to its size: what is there is of an earlier preset.
            at = -(-at // size) * size
            script += f"""
                head -c {size * count} /tmp/data > /tmp/f
                {{ dd if=/tmp/f of={self.disk} bs={size} count={count} seek={at // size} oflag=direct &&
                  dd if={self.disk} of=/tmp/g bs={size} count={count} skip={at // size} iflag=direct; }} 2> /tmp/e ||
                    die "{size}: $(cat /tmp/e)"
                cmp /tmp/f /tmp/g || die "{size}: what is read differs"
                echo 3 > /proc/sys/vm/drop_caches
                dd if=/dev/ram0 of=/tmp/g bs={size} count={count} skip={at // size} 2> /dev/null
                cmp /tmp/f /tmp/g || die "{size}: the target's disk differs"
                """
            at += size * count
        self.vm.run(script, 60, "write, read, compare")

    def verified_loss(self):
        """The connection is lost in the middle of writing, and nvme-rdma makes another; the data are right."""
        job = self.vm.spawn(f"""
            dd if=/dev/urandom of=/tmp/f bs=1M count=2 2> /dev/null
            i=0; rm -f /tmp/lost
            until [ -e /tmp/lost ] && [ $i -gt 2 ]; do
                dd if=/tmp/f of={self.disk} bs=65536 oflag=direct 2> /dev/null || die "write"
                i=$((i + 1)); echo round
            done""", "write while the connection is lost")
        began = time.monotonic()
        while "round" not in job.out and job.running() and time.monotonic() - began < 30:
            time.sleep(0.05)
        self.vm.run(f"dmesg -c > /dev/null; echo qp-fatal > {hca.DEBUGFS}/vhca_va/event; > /tmp/lost", 10,
                    "lose the connection")
        job.wait(60)
        self.vm.until("dmesg | grep -q 'nvme nvme.*: Successfully reconnected'", 20, "nvme-rdma connects again")
        self.vm.run(f"""
            echo 3 > /proc/sys/vm/drop_caches
            for disk in "{self.disk} iflag=direct" /dev/ram0; do
                dd if=$disk of=/tmp/g bs=1M count=2 2> /dev/null; cmp /tmp/f /tmp/g || die "$disk differs"
            done""", 30, "compare after the loss")


def judge(t, nvme, preset, bounce, loss=True):
    """The two ends meet on devices of @preset, move data and part; nothing is left, and no rule was broken.

    @bounce  the host's device has bounce buffers; the target's never (see stale())
    """
    one, what = nvme.one, f"{preset}, bounce={'Y' if bounce else 'N'}"
    nvme.devices_up(preset, bounce, False)
    before = [left(one, device) for device in hca.DEVICES]
    nvme.listen()
    try:
        nvme.connect(bounce)
    except Refused as refused:
        t.check(False, f"{what}: refused: {refused}")
    nvme.verified_io()
    if loss:
        nvme.verified_loss()
    stats = one.stats("vhca_vb")
    t.check(min(stats[kind] for kind in ("write", "read")) > 50, f"{what}: the data went another way: {stats}")
    nvme.disconnect()
    nvme.close()
    one.vm.until("".join(f"set -- $(grep -E '^(qps|mrs|mapped) ' {hca.DEBUGFS}/{device}/stats | cut -d ' ' -f 2); "
                         f"[ \"$*\" = '{was}' ] || die \"{device}: $*, before: {was}\"; "
                         for device, was in zip(hca.DEVICES, before)), 20, f"{what}: objects to go")
    t.equal(one.faults(), [], f"{what}: rules that were broken")
    one.devices_down()


def left(one, device):
    """"MAPPED QPS MRS" of a device, in the order of its counters."""
    return " ".join(str(n) for name, n in one.stats(device).items() if name in ("mapped", "qps", "mrs"))


def stale(t, nvme, preset):
    """With bounce buffers at the target's end what a host reads is what was in memory before.

    nvmet_rdma_map_sgl_keyed() (drivers/nvme/target/rdma.c of Linux 6.12) has rdma_rw_ctx_init() map a command's pages
    when it arrives, before there is anything in them, and nvmet_rdma_queue_response() sends them without a sync. So
    the host's first look at the controller finds nonsense, and nvme_check_ctrl_fabric_info() refuses it.
    """
    nvme.devices_up(preset, False, True)
    nvme.listen()
    try:
        nvme.connect(False)
        t.check(False, f"{preset}: with bounce buffers at the target's end nvme works, against what is documented")
    except Refused as refused:
        t.check("Mismatching cntlid" in str(refused), f"{preset}: refused for another reason: {refused}")
    nvme.close()
    t.equal(nvme.one.faults(), [], f"{preset}: rules that were broken")
    nvme.one.devices_down()
