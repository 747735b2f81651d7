# SPDX-License-Identifier: GPL-2.0-only
"""Machines with a whole Debian: systemd, dpkg, DKMS and a disk that keeps what was done over reboots.

The system is that of `scripts/debian-root system trixie`. A boot takes the newest kernel of the disk's /boot with its
initramfs, as a boot loader would; QEMU is handed both. What is done in the machine goes through the same agent as in
the other test machines, here a service of systemd's.
"""

import glob
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import time

from . import image, machine

BUILD = os.path.join(image.TOP, "build", "debian-system")

AGENT = """\
[Unit]
Description=Runs the scripts of the test
After=multi-user.target
[Service]
ExecStart=/usr/local/sbin/agent /dev/virtio-ports/agent
Environment=PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
KillMode=process
TimeoutStopSec=3
[Install]
WantedBy=multi-user.target
"""

# What somebody who tries soft RoCE has: the RDMA device comes up with its network device.
INTERFACES = """\
auto lo
iface lo inet loopback
auto eth0
iface eth0 inet manual
	up /usr/local/sbin/rxe-up
"""

RXE_UP = """\
#!/bin/sh -e
case $(hostname) in
server) ip addr add 10.0.0.1/24 dev eth0 ;;
client) ip addr add 10.0.0.2/24 dev eth0 ;;
esac
ip link set eth0 mtu 4500 up
rdma link add rxe0 type rxe netdev eth0
"""

# An emulated machine takes its time.
PATIENT_SERVICE = "[Service]\nTimeoutStartSec=900s\n"
PATIENT = "[Manager]\nDefaultTimeoutStartSec=900s\nDefaultTimeoutStopSec=300s\nDefaultDeviceTimeoutSec=900s\n"

# The compiler of an emulated machine takes an hour for what it does in a minute outside: the same sources of the
# same package were compiled there, in the same system, and DKMS takes that in place of a compilation.
COMPILED = """\
PRE_BUILD=""
MAKE[0]="mkdir -p build/dkms && cp /root/compiled/$PACKAGE_VERSION/$kernelver/rpcordma.ko build/dkms/"
"""


def root():
    """The folder of the Debian system, made if it is missing."""
    done = subprocess.run([os.path.join(image.TOP, "scripts", "debian-root"), "system", "trixie"],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise image.ImageError("scripts/debian-root system trixie failed, see above")
    return done.stdout.strip()


def kernels(folder):
    """(release that is installed in the system, release that it is upgraded to)."""
    def read(name):
        with open(os.path.join(folder, "root", name)) as f:
            return f.read().strip()
    return read("kernel.old"), read("kernel.new")


def package(version=None):
    """The path of rpcordma-dkms, as it is or with another version."""
    done = subprocess.run([os.path.join(image.TOP, "scripts", "build-deb"),
                           *(["--version", version] if version else []), BUILD],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise image.ImageError("scripts/build-deb failed, see above")
    return [line for line in done.stdout.split() if "rpcordma-dkms_" in line][0]


def _sources(deb):
    """A digest of what is compiled of @deb."""
    digest = hashlib.sha256()
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as unpack:
        with tarfile.open(fileobj=unpack.stdout, mode="r|") as tar:
            for member in tar:
                if re.match(r"\./usr/src/[^/]+/(Kbuild|compat|module|xdr|scripts/kbuild)\b", member.name) and member.isfile():
                    digest.update(member.name.encode() + tar.extractfile(member).read())
    return digest.hexdigest()


def compiled(folder, deb, version, release):
    """Compiles what @deb has for @release in a throw-away copy of the system; returns the path of the module. What an
    earlier run compiled of the same package is taken again."""
    target = os.path.join(BUILD, "compiled", version, release, "rpcordma.ko")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    stamp = _sources(deb)
    if image._up_to_date(target, stamp):
        return target
    script = f"""
        dpkg -x /share/{os.path.basename(deb)} /tmp/deb
        headers=/usr/lib/modules/{release}/build
        if [ ! -e $headers ]; then
            for one in /root/debs/linux-*.deb; do dpkg -x $one /; done
        fi
        /tmp/deb/usr/src/rpcordma-{version}/scripts/dkms-build {release} $headers
        cp /tmp/deb/usr/src/rpcordma-{version}/build/dkms/rpcordma.ko /share/compiled/{version}/{release}/"""
    with open(target + ".log", "w") as log:
        done = subprocess.run([os.path.join(image.TOP, "scripts", "debian-root"), "run", folder, "bash", "-euc", script],
                              env=dict(os.environ, SHARE=BUILD), stdout=log, stderr=subprocess.STDOUT)
    if done.returncode or not os.path.exists(target):
        raise image.ImageError(f"{deb} was not compiled for {release}: see {target}.log")
    image._record(target, stamp)
    return target


def make_disk(folder, files, disk):
    """Writes a disk with the system in @folder and @files, {path in the system: text or path outside (bytes)}."""
    work = disk + ".work"
    shutil.rmtree(work, ignore_errors=True)
    upper = os.path.join(work, "upper")
    for name, content in files.items():
        path = os.path.join(upper, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if isinstance(content, bytes):
            shutil.copy(content.decode(), path)
        else:
            with open(path, "w") as f:
                f.write(content)
            os.chmod(path, 0o755 if content.startswith("#!") else 0o644)
    for name in ("work", "root"):
        os.makedirs(os.path.join(work, name))
    with open(disk, "wb") as f:
        f.truncate(8 << 30)
    script = r"""
        mount --make-rprivate /
        mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
        cd "$2/root"
        rm -f usr/sbin/policy-rc.d etc/hostname
        chmod 755 usr/local/sbin/agent
        mkdir -p export
        chroot . systemctl --quiet enable agent.service
        chroot . systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer \
            dpkg-db-backup.timer nfs-blkmap.service
        /sbin/mke2fs -q -t ext4 -d . "$3" """
    done = subprocess.run(["unshare", "--mount", "bash", "-euc", script, "-", folder, work, disk],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    shutil.rmtree(work, ignore_errors=True)
    if done.returncode:
        raise image.ImageError(f"{disk} was not made:\n{done.stdout}")


def base_files():
    """What every machine has beside Debian, for make_disk()."""
    return {
        "etc/systemd/system/agent.service": AGENT,
        "etc/systemd/system.conf.d/patient.conf": PATIENT,
        "etc/systemd/system/networking.service.d/patient.conf": PATIENT_SERVICE,
        "etc/network/interfaces": INTERFACES,
        "etc/fstab": "/dev/vda / ext4 defaults,noatime 0 1\n",
        "usr/local/sbin/rxe-up": RXE_UP,
        "usr/local/sbin/agent": image._helper("agent").encode(),
        "usr/lib/lib.sh": "",
        "etc/dkms/rpcordma.conf": COMPILED,
    }


class _Kernel:
    """What a machine.VM boots."""

    arch = "amd64"

    def __init__(self, vmlinuz):
        self.vmlinuz = vmlinuz


class System:
    """One machine: its disk, and the VM that runs at the time.

    @name  its host name, `server` or `client`
    @disk  path of its disk
    """

    def __init__(self, name, disk):
        self.name = name
        self.disk = disk
        self.vm = None
        self.boots = 0
        self.complaints = []

    def _dump(self, name, to):
        subprocess.run(["/sbin/debugfs", "-R", f"dump {name} {to}", self.disk], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if not os.path.getsize(to):
            raise machine.VmError(f"{self.name}: its disk has no {name}")

    def start(self, cable):
        """Boots the newest kernel of the disk; wait() waits for it."""
        listing = subprocess.run(["/sbin/debugfs", "-R", "ls -p /boot", self.disk], check=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        releases = re.findall(r"/vmlinuz-([^/]+)/", listing)
        release = max(releases, key=lambda r: [int(n) for n in re.findall(r"\d+", r)])
        self.boots += 1
        vmlinuz, initrd = (os.path.join(BUILD, f"{self.name}.{what}") for what in ("vmlinuz", "initrd"))
        self._dump(f"/boot/vmlinuz-{release}", vmlinuz)
        self._dump(f"/boot/initrd.img-{release}", initrd)
        # no_timer_check: on a busy host the first timer interrupt comes later than the kernel waits for it.
        # clearcpuid: QEMU takes bytes one by one for `rep stosb`, with which a CPU that has erms clears pages, and
        # eight at once for what the kernel has otherwise. Limits of the watchdogs are those of a machine that waits.
        self.vm = machine.VM(self.name, _Kernel(vmlinuz), initrd, os.path.join(BUILD, f"{self.name}-{self.boots}.log"),
                             nets=[cable], memory=1536, disk=self.disk,
                             cmdline="no_timer_check clearcpuid=erms,fsrm watchdog_thresh=60 "
                                     "rcupdate.rcu_cpu_stall_timeout=300 "
                                     f"root=/dev/vda rw net.ifnames=0 systemd.hostname={self.name}")
        return release

    def wait(self):
        """Until the machine is up, with all that systemd starts. Units that failed are named; whether what they are
        for is there is the test's affair."""
        self.vm.wait_boot(900)
        self.run("systemctl is-system-running --wait || systemctl --failed --no-legend --plain", 600, "all services are up")

    def run(self, script, timeout=300, what=None):
        return self.vm.run(f"set -e\n{script}", timeout, what)

    def down(self):
        """Reboots or goes down as systemd does it, and waits for that; the machine that start() makes next is the
        one that comes up."""
        self.run("sync; systemctl reboot --no-block", 60)
        deadline = time.monotonic() + 600 * machine.PATIENCE
        while self.vm.alive():
            if time.monotonic() > deadline:
                raise machine.Timeout(f"{self.name}: did not go down in 600 s (log: {self.vm.log_path})")
            time.sleep(0.5)
        self.stop()

    def stop(self):
        """Ends the VM, whatever it does."""
        if self.vm:
            self.vm.stop()
            self.complaints += [f"{self.name}: {line}" for line in self.vm.complaints]
            self.vm = None


def clean():
    """Removes what an earlier run left, but for its logs."""
    os.makedirs(BUILD, exist_ok=True)
    for path in glob.glob(os.path.join(BUILD, "*.disk*")) + glob.glob(os.path.join(BUILD, "*.sock")):
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.remove(path)
