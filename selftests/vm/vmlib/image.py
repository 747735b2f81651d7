# SPDX-License-Identifier: GPL-2.0-only
"""What a test VM boots.

A base archive per kernel (user land and the distribution's modules) is made once and remade when
one of its inputs changes. A small overlay (our modules, guest scripts, helper programs) is laid
over it at each start. Running a VM is not done here.

Everything made lands under build/vm/. Kernel packages come unpacked from `scripts/kernels image`;
VM_KERNEL_ROOT overrides that with a directory that holds boot/ and lib/modules/.
"""

import contextlib
import fcntl
import functools
import glob
import hashlib
import lzma
import os
import re
import shutil
import stat
import subprocess

from . import userland

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BUILD = os.environ.get("VM_BUILD", os.path.join(TOP, "build", "vm"))
GUEST = os.path.join(TOP, "selftests", "vm", "guest")

# Programs of the guest and the Debian package that each comes from.
PROGRAMS = {
    "ip": "iproute2", "rdma": "iproute2", "ss": "iproute2", "tc": "iproute2",
    "mount.nfs": "nfs-common", "rpc.statd": "nfs-common", "sm-notify": "nfs-common",
    "showmount": "nfs-common",
    "exportfs": "nfs-kernel-server", "rpc.mountd": "nfs-kernel-server",
    "rpc.nfsd": "nfs-kernel-server", "nfsdcld": "nfs-kernel-server",
    "rpcbind": "rpcbind", "rpcinfo": "rpcbind",
    "kmod": "kmod", "rping": "rdmacm-utils", "strace": "strace",
}

# What Kerberos adds to a guest, and the Debian packages.
KRB5_PROGRAMS = {
    "krb5kdc": "krb5-kdc", "kinit": "krb5-user", "klist": "krb5-user",
    "rpc.gssd": "nfs-common", "rpc.svcgssd": "nfs-common", "rpc.idmapd": "nfs-common",
    "nfsidmap": "nfs-common", "request-key": "keyutils",
}
# What makes the database and the keys, here.
KRB5_TOOLS = {"kdb5_util": "krb5-kdc", "kadmin.local": "krb5-admin-server"}
REALM = "RPCORDMA.TEST"

# Distribution modules of the guest; what they depend on comes along. Those that one of the two
# kernels has built in, or lacks, are passed over: the "?" says that absence is no error.
MODULES = """
    virtio_pci virtio_console virtio_net rdma_rxe rpcrdma nfsd nfs nfsv3 nfsv4 lockd nfs_acl rdma_cm rdma_ucm ib_uverbs
    auth_rpcgss dummy veth bonding sch_netem sunrpc grace nfs_layout_flexfiles 9p 9pnet_virtio
    8021q rpcsec_gss_krb5 cts? cmac? camellia_generic? aesni_intel? sha1_ssse3? sha256_ssse3? iw_cm
    virtio_blk? ext4? ifb? sch_ingress? cls_matchall? act_mirred?
    nvme_rdma nvmet_rdma brd crc32_generic? crc32c_generic? crc32_pclmul? crc32c-intel? libcrc32c? md5?
    zram lzo lzo-rle? button?
""".split()


class ImageError(Exception):
    """An image cannot be made; the text says what is missing and what to do about it."""


class NotHere(ImageError):
    """There is no such guest of that architecture; the text says why."""


def _which(program, where=userland.Native()):
    """Path of a program that guests of the user land @where get."""
    found = where.which(program)
    if not found:
        group = "interop" if program in KRB5_PROGRAMS or program in KRB5_TOOLS else "vm"
        package = {**PROGRAMS, **KRB5_PROGRAMS, **KRB5_TOOLS}.get(program, program)
        raise ImageError(f"{program} is not installed: run scripts/setup {group} "
                         f"(or apt-get install {package})")
    return found


@functools.cache
def _userland(arch):
    """The user land of guests of that architecture."""
    if arch == "amd64":
        return userland.Native()
    try:
        return userland.Unpacked(arch, {"arm64": "aarch64-linux-gnu"}[arch],
                                 {*PROGRAMS.values(), "busybox-static", "libgcc-s1", "ibverbs-providers", "libtirpc-common",
                                  "librdmacm-dev", "libibverbs-dev"})
    except RuntimeError as error:
        raise ImageError(str(error)) from None


def kernel_under_test():
    """What tests that name no kernel, or 6.12, run on: VM_KERNEL, or 6.12."""
    return os.environ.get("VM_KERNEL") or "6.12"


def tested(series):
    """Which series a machine has that is to have @series: another than 6.12 where VM_KERNEL says so."""
    return kernel_under_test() if series == "6.12" else series


def major_under_test():
    """Of its version the first number."""
    return int(kernel_under_test().partition(".")[0])


class Kernel:
    """One distribution kernel: its release, its vmlinuz and where its modules lie."""

    def __init__(self, series):
        self.series = series = tested(series)
        root = os.environ.get("VM_KERNEL_ROOT")
        if not root:
            tool = os.path.join(TOP, "scripts", "kernels")
            if not os.path.exists(tool):
                raise ImageError("scripts/kernels is missing and VM_KERNEL_ROOT is not set")
            done = subprocess.run([tool, "image", series], stdout=subprocess.PIPE, text=True)
            if done.returncode or not done.stdout.strip():
                raise ImageError(f"scripts/kernels image {series} failed: no kernel to boot")
            root = done.stdout.strip().splitlines()[-1]
        self.root = root
        self.arch = "arm64" if "-arm64" in series else "amd64"
        # 6.12+deb13 is of the series 6.12 as well, and so is 6.12+deb13-arm64.
        pattern = f"vmlinuz-{re.split('[+-]', series)[0]}.*"
        found = sorted(glob.glob(os.path.join(root, "boot", pattern)))
        if not found:
            raise ImageError(f"no boot/{pattern} under {root}")
        self.vmlinuz = found[-1]
        self.release = os.path.basename(self.vmlinuz)[len("vmlinuz-"):]
        modules = [d for d in (f"{root}/lib/modules/{self.release}",
                               f"{root}/usr/lib/modules/{self.release}") if os.path.isdir(d)]
        if not modules:
            raise ImageError(f"no lib/modules/{self.release} under {root}")
        self.modules = modules[0]


def kernel_headers(kernel):
    """The header directory to build modules for @kernel against (VM_KERNEL_HEADERS overrides)."""
    root = os.environ.get("VM_KERNEL_HEADERS")
    if root:
        return os.path.join(root, f"linux-headers-{kernel.release}")
    done = subprocess.run([os.path.join(TOP, "scripts", "kernels"), "headers", kernel.series],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode or not done.stdout.strip():
        raise ImageError(f"scripts/kernels headers {kernel.series} failed: no kernel headers")
    return done.stdout.strip().splitlines()[-1]


class Archive:
    """A newc cpio archive, written by hand: reproducible, and no root needed for its owners."""

    def __init__(self, path):
        self.out = open(path, "wb")
        self.seen = set()
        self.inode = 0

    def _entry(self, name, mode, data, size=None):
        self.inode += 1
        raw = name.encode() + b"\0"
        fields = (self.inode, mode, 0, 0, 1, 0, len(data) if size is None else size,
                  0, 0, 0, 0, len(raw), 0)
        self.out.write(b"070701" + "".join(f"{f:08x}" for f in fields).encode() + raw)
        self.out.write(b"\0" * (-(110 + len(raw)) % 4))
        self.out.write(data)
        self.out.write(b"\0" * (-len(data) % 4))

    def directory(self, name):
        name = name.strip("/")
        if not name or name in self.seen:
            return
        self.directory(os.path.dirname(name))
        self.seen.add(name)
        self._entry(name, stat.S_IFDIR | 0o755, b"")

    def data(self, name, data, mode=0o644):
        name = name.strip("/")
        self.directory(os.path.dirname(name))
        self.seen.add(name)
        self._entry(name, stat.S_IFREG | mode, data)

    def file(self, name, path, mode=None):
        with open(path, "rb") as f:
            data = f.read()
        self.data(name, data, os.stat(path).st_mode & 0o777 if mode is None else mode)

    def symlink(self, name, target):
        name = name.strip("/")
        if name in self.seen:
            return
        self.directory(os.path.dirname(name))
        self.seen.add(name)
        self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def close(self):
        self._entry("TRAILER!!!", 0, b"")
        self.out.write(b"\0" * (-self.out.tell() % 512))
        self.out.close()


def _stamp(paths, *extra):
    """A digest over files and over texts: by whatever path they are named, from wherever.

    Sources of this project count by what is in them, others, which are large, by their size and time.
    """
    digest = hashlib.sha256()
    for name, path in sorted((os.path.relpath(os.path.realpath(path), TOP), path) for path in paths):
        st = os.stat(path)
        ours = not name.startswith(("..", "build" + os.sep)) and st.st_size < 1 << 20
        digest.update(f"{name} {st.st_size} ".encode())
        if ours:
            with open(path, "rb") as f:
                digest.update(hashlib.sha256(f.read()).digest())
        else:
            digest.update(f"{st.st_mtime_ns}\n".encode())
    for text in extra:
        digest.update(repr(text).encode())
    return digest.hexdigest()


def _up_to_date(target, stamp):
    try:
        with open(target + ".stamp") as f:
            return f.read() == stamp and os.path.exists(target)
    except FileNotFoundError:
        return False


def _record(target, stamp):
    with open(target + ".stamp", "w") as f:
        f.write(stamp)


def _module_files(kernel):
    """{name: path} of every module in the kernel's tree, names with "_" for "-"."""
    found = {}
    for where, _, names in os.walk(os.path.join(kernel.modules, "kernel")):
        for name in names:
            m = re.fullmatch(r"(.+)\.ko(\.xz)?", name)
            if m:
                found[m.group(1).replace("-", "_")] = os.path.join(where, name)
    return found


def _module_image(path):
    with (lzma.open(path) if path.endswith(".xz") else open(path, "rb")) as f:
        return f.read()


def _modinfo(image, key):
    m = re.search(rb"\0" + key.encode() + rb"=([^\0]*)\0", image)
    return m.group(1).decode() if m else ""


def _select_modules(kernel):
    """[(path in lib/modules/<release>, image)] of MODULES and all that they depend on."""
    files = _module_files(kernel)
    with open(os.path.join(kernel.modules, "modules.builtin")) as f:
        builtin = {os.path.basename(line.strip())[:-3].replace("-", "_") for line in f}
    wanted = [(m.rstrip("?").replace("-", "_"), m.endswith("?")) for m in MODULES]
    chosen = {}
    while wanted:
        name, optional = wanted.pop()
        if name in chosen or name in builtin:
            continue
        if name not in files:
            if optional:
                continue
            raise ImageError(f"the kernel {kernel.release} has no module {name}")
        path = files[name]
        image = _module_image(path)
        plain = os.path.relpath(path, kernel.modules)
        chosen[name] = (plain[:-3] if plain.endswith(".xz") else plain, image)
        wanted += [(d.replace("-", "_"), False) for d in _modinfo(image, "depends").split(",") if d]
        # A soft dependency is fetched at run time, and may be absent.
        for soft in re.findall(rb"\0softdep=pre: ([^\0]*)\0", image):
            wanted += [(d.replace("-", "_"), True) for d in soft.decode().split() if ":" not in d]
    return sorted(chosen.values())


def _base(kernel):
    """The base archive of @kernel; returns (archive, staging directory for depmod)."""
    target = os.path.join(BUILD, kernel.release, "base.cpio")
    stage = os.path.join(BUILD, kernel.release, "stage")
    where = _userland(kernel.arch)
    programs = {name: _which(name, where) for name in PROGRAMS}
    busybox = _which("busybox", where)
    stamp = _stamp([__file__, userland.__file__, kernel.vmlinuz, busybox, *programs.values()], kernel.modules, MODULES)
    if _up_to_date(target, stamp) and os.path.isdir(stage):
        return target, stage

    if re.search(rb"/lib(64)?/ld-linux", open(busybox, "rb").read()):
        raise ImageError(f"{busybox} is not static: apt-get install busybox-static")
    print(f"vm: making the base image for {kernel.release}", flush=True)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.rmtree(stage, ignore_errors=True)
    tree = os.path.join(stage, "lib", "modules", kernel.release)
    os.makedirs(tree)

    archive = Archive(target + ".new")
    for name in ("proc sys dev tmp run root etc mnt export var/lib/nfs/rpc_pipefs var/lib/nfs/sm "
                 "var/lib/nfs/sm.bak var/lib/nfs/v4recovery etc/modprobe.d usr/sbin usr/bin "
                 "bin sbin").split():
        archive.directory(name)
    archive.file("bin/busybox", busybox, 0o755)
    for name, path in programs.items():
        archive.file(f"usr/sbin/{name}", path, 0o755)
    libraries = {}
    for path in programs.values():
        libraries |= where.libraries(path)
    # Loaded by name at run time: name service, the rxe provider of libibverbs, stack unwinding.
    for pattern in (f"/lib/{where.triplet}/libnss_files.so.2", f"/lib/{where.triplet}/libgcc_s.so.1",
                    f"/usr/lib/{where.triplet}/libibverbs/librxe-rdmav*.so"):
        libraries |= where.find(pattern)
    if not any("librxe" in lib for lib in libraries):
        raise ImageError("libibverbs has no rxe provider, which rping needs: "
                         "apt-get install ibverbs-providers")
    for lib, path in sorted(libraries.items()):
        archive.file(lib, path, 0o755)
    for name in ("/etc/libibverbs.d/rxe.driver", "/etc/netconfig"):
        for path in where.find(name).values():
            archive.file(name, path)
    for name in ("modprobe", "insmod", "rmmod", "lsmod", "modinfo", "depmod"):
        archive.symlink(f"usr/sbin/{name}", "kmod")
        archive.symlink(f"sbin/{name}", "../usr/sbin/kmod")
    for name in ("mount.nfs4", "umount.nfs", "umount.nfs4"):
        archive.symlink(f"usr/sbin/{name}", "mount.nfs")
    # mount(8) of busybox looks for helpers in /sbin; ip and rdma are called by that path as well.
    for name in ("mount.nfs", "mount.nfs4", "umount.nfs", "umount.nfs4", "ip", "rdma"):
        archive.symlink(f"sbin/{name}", f"../usr/sbin/{name}")
    # The same in each of Debian's, and this machine cannot run that of another architecture.
    applets = subprocess.run([_which("busybox"), "--list"], stdout=subprocess.PIPE, text=True).stdout.split()
    for applet in applets:
        if f"usr/sbin/{applet}" not in archive.seen and f"sbin/{applet}" not in archive.seen:
            archive.symlink(f"bin/{applet}", "busybox")

    for name, text in {
            "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/:/bin/sh\n"
                          "statd:x:65533:65534::/:/bin/sh\n_rpc:x:65532:65534::/:/bin/sh\n"
                          "nobody:x:65534:65534:nobody:/:/bin/sh\n",
            "etc/group": "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n",
            "etc/hosts": "127.0.0.1 localhost\n10.0.0.1 server\n10.0.0.2 client\n",
            "etc/nsswitch.conf": "hosts: files\npasswd: files\ngroup: files\n"
                                 "protocols: files\nservices: files\nrpc: files\n",
            "etc/protocols": "ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nipv6 41 IPv6\n",
            "etc/services": "sunrpc 111/tcp portmapper\nsunrpc 111/udp portmapper\n"
                            "nfs 2049/tcp\nnfsrdma 20049/tcp\n",
            "etc/rpc": "portmapper 100000\nnfs 100003\nmountd 100005\nnlockmgr 100021\n"
                       "status 100024\nnfs_acl 100227\n"}.items():
        archive.data(name, text.encode())

    for path, image in _select_modules(kernel):
        where = os.path.join(tree, path)
        os.makedirs(os.path.dirname(where), exist_ok=True)
        with open(where, "wb") as f:
            f.write(image)
        archive.data(f"lib/modules/{kernel.release}/{path}", image)
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copy(os.path.join(kernel.modules, name), tree)
    archive.close()
    os.rename(target + ".new", target)
    _record(target, stamp)
    return target, stage


def _helper(name, flags=(), arch="amd64"):
    """A static program of the guest, compiled from selftests/vm/guest/<name>.c."""
    source = os.path.join(GUEST, f"{name}.c")
    target = os.path.join(BUILD, "helpers", *([] if arch == "amd64" else [arch]), name)
    stamp = _stamp([source], flags)
    if not _up_to_date(target, stamp):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        compiler = _userland(arch).compiler()
        if not compiler:
            raise ImageError("no gcc: run scripts/setup build")
        done = subprocess.run([*compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread",
                               "-o", target, source, *flags])
        if done.returncode:
            raise ImageError(f"{source} does not compile")
        _record(target, stamp)
    return target


def _verbspeer(arch):
    """The program of the verbs tests; make knows what it is made of."""
    target = os.path.join(BUILD, "..", "verbs" if arch == "amd64" else f"verbs-{arch}", "verbspeer")
    where = _userland(arch)
    cross = []
    if arch != "amd64":
        compiler = " ".join(where.compiler()).replace("-gcc-", "-g++-")
        cross = [f"CXX={compiler}", f"SYSROOT={where.root}", f"TRIPLET={where.triplet}"]
    done = subprocess.run(["make", "-s", "-f", "selftests/verbs/verbs.mk",
                           f"BUILD={os.path.relpath(os.path.dirname(target), TOP)}", *cross,
                           os.path.relpath(target, TOP)], cwd=TOP,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise ImageError(f"selftests/verbs does not compile:\n{done.stdout}")
    return target


def build_module(kernel, source, *settings):
    """Builds the out-of-tree C module in directory @source for @kernel; returns its .ko.

    @settings  for make, such as "CONFIG_X=m"
    The sources are copied first: kbuild writes beside what it compiles.
    """
    name = {"hca": "vhca"}.get(os.path.basename(source), os.path.basename(source))
    work = os.path.join(BUILD, kernel.release, name)
    target = os.path.join(work, f"{name}.ko")
    headers = kernel_headers(kernel)
    sources = [os.path.join(where, f) for where, _, files in os.walk(source) for f in files if not f.startswith(".")]
    stamp = _stamp([*sources, os.path.join(headers, "Makefile")], headers, settings)
    if _up_to_date(target, stamp):
        return target
    print(f"vm: building {name}.ko for {kernel.release}", flush=True)
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, work, ignore=shutil.ignore_patterns(".*"))
    log = os.path.join(work, "build.log")
    with open(log, "w") as f:
        done = subprocess.run([os.path.join(TOP, "scripts", "userland"), "for", headers,
                               "make", "-C", headers, f"M={work}", *settings, "modules"], stdout=f,
                              stderr=subprocess.STDOUT)
    text = open(log).read()
    if done.returncode or re.search(r"warning:", text):
        raise ImageError(f"{name}.ko for {kernel.release} does not build cleanly:\n{text}")
    _record(target, stamp)
    return target


def siw_module(kernel):
    """siw.ko, which Debian leaves out of its kernels, from Debian's source of the same series."""
    done = subprocess.run([os.path.join(TOP, "scripts", "kernels"), "source", kernel.series],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode or not done.stdout.strip():
        raise ImageError(f"scripts/kernels source {kernel.series} failed: no siw to build")
    return build_module(kernel, os.path.join(done.stdout.strip().splitlines()[-1], "drivers",
                                             "infiniband", "sw", "siw"), "CONFIG_RDMA_SIW=m")


def find_module(name, kernel):
    """The <name>.ko that `make module` made for @kernel, or None; <NAME>_KO names another.

    What the default compiler made comes first, then the newest: `make check` builds with another
    compiler as well, after it. Deeper below build/ are those that other tests have for themselves.
    """
    override = os.environ.get(f"{name.upper()}_KO")
    found = [override] if override else glob.glob(os.path.join(TOP, "build", "*", f"{name}.ko"))
    for path in sorted(found, key=lambda p: ("clang" not in p, os.path.getmtime(p)), reverse=True):
        with open(path, "rb") as f:
            if _modinfo(f.read(), "vermagic").split(" ")[0] == kernel.release:
                return path
    return None


def _krb5_database():
    """Directory with a realm: database and stash of its KDC, and keytabs.

    Made here rather than in a guest, where it would take long; the same for all machines.
    """
    where = os.path.join(BUILD, "krb5")
    done = os.path.join(where, "krb5.keytab")
    tools = [_which(tool) for tool in KRB5_TOOLS]
    stamp = _stamp([__file__, *tools])
    if _up_to_date(done, stamp):
        return where
    shutil.rmtree(where, ignore_errors=True)
    os.makedirs(where)
    # One encryption type, the strongest that the older kernel's rpcsec_gss_krb5 has as well.
    with open(os.path.join(where, "krb5.conf"), "w") as f:
        f.write(f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n"
                " dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n"
                " permitted_enctypes = aes256-cts-hmac-sha1-96\n"
                f"[realms]\n {REALM} = {{\n  kdc = 10.0.0.1\n }}\n"
                f"[domain_realm]\n server = {REALM}\n client = {REALM}\n"
                "[logging]\n kdc = FILE:/run/krb5kdc.log\n")

    def kdc_conf(path, directory):
        with open(path, "w") as f:
            f.write(f"[kdcdefaults]\n kdc_ports = 88\n kdc_tcp_ports = 88\n[realms]\n {REALM} = {{\n"
                    f"  database_name = {directory}/principal\n"
                    f"  key_stash_file = {directory}/stash\n  acl_file = {directory}/none.acl\n"
                    "  supported_enctypes = aes256-cts-hmac-sha1-96:normal\n"
                    "  master_key_type = aes256-cts-hmac-sha1-96\n }\n")

    kdc_conf(os.path.join(where, "kdc.conf"), "/etc/krb5kdc")
    kdc_conf(os.path.join(where, "kdc-here.conf"), where)
    environment = dict(os.environ, KRB5_CONFIG=os.path.join(where, "krb5.conf"),
                       KRB5_KDC_PROFILE=os.path.join(where, "kdc-here.conf"))
    commands = [[tools[0], "create", "-s", "-r", REALM, "-P", "secret"]]
    for keytab, principals in (("krb5.keytab", ("nfs/server", "nfs/client")),
                               ("user.keytab", ("user",))):
        for principal in principals:
            commands += [[tools[1], "-r", REALM, "-q", f"addprinc -randkey {principal}"],
                         [tools[1], "-r", REALM, "-q",
                          f"ktadd -norandkey -k {where}/{keytab} {principal}"]]
    for command in commands:
        made = subprocess.run(command, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if made.returncode:
            raise ImageError(f"{' '.join(command)}: {made.stdout}")
    for keytab in ("krb5.keytab", "user.keytab"):
        if not os.path.exists(os.path.join(where, keytab)):
            raise ImageError(f"kadmin.local made no {keytab}: {made.stdout}")
    _record(done, stamp)
    return where


def _krb5():
    """The archive that makes a guest of any kernel a member of a Kerberos realm."""
    database = _krb5_database()
    programs = {name: _which(name) for name in KRB5_PROGRAMS}
    target = os.path.join(BUILD, "krb5.cpio")
    stamp = _stamp([__file__, userland.__file__, os.path.join(database, "krb5.keytab"), *programs.values()])
    if _up_to_date(target, stamp):
        return target
    archive = Archive(target + ".new")
    for name, path in programs.items():
        archive.file(f"usr/sbin/{name}", path, 0o755)
    # The kernel calls it by this path.
    archive.symlink("sbin/request-key", "../usr/sbin/request-key")
    # Loaded by name at run time, libverto's from where libverto itself is.
    plugins = [path for pattern in ("/usr/lib/x86_64-linux-gnu/krb5/plugins/kdb/db2.so",
                                    "/usr/lib/x86_64-linux-gnu/libnfsidmap/nsswitch.so",
                                    "/usr/lib/x86_64-linux-gnu/libnfsidmap/static.so",
                                    "/lib/x86_64-linux-gnu/libverto-libev.so.1")
               for path in glob.glob(pattern)]
    if len(plugins) != 4:
        raise ImageError("plug-ins of krb5-kdc or nfs-common are missing: run scripts/setup interop")
    libraries = {path: os.path.realpath(path) for path in plugins}
    for path in [*programs.values(), *plugins]:
        libraries |= _userland("amd64").libraries(path)
    for name, path in sorted(libraries.items()):
        archive.file(name, path, 0o755)
    archive.file("etc/krb5.conf", os.path.join(database, "krb5.conf"))
    for name in ("krb5.keytab", "user.keytab"):
        archive.file(f"etc/{name}", os.path.join(database, name), 0o600 if name[0] == "k" else 0o644)
    for name in ("kdc.conf", "principal", "principal.kadm5", "principal.kadm5.lock", "principal.ok",
                 "stash"):
        archive.file(f"etc/krb5kdc/{name}", os.path.join(database, name), 0o600)
    domain = REALM.lower()
    archive.data("etc/idmapd.conf", (
        f"[General]\nDomain = {domain}\nLocal-Realms = {REALM}\n"
        "[Mapping]\nNobody-User = nobody\nNobody-Group = nogroup\n"
        "[Translation]\nMethod = static,nsswitch\nGSS-Methods = static,nsswitch\n"
        # root of a client machine stays root, as with sec=sys and no_root_squash
        f"[Static]\nnfs/client@{REALM} = root\n").encode())
    archive.data("etc/request-key.conf",
                 b"create id_resolver * * /usr/sbin/nfsidmap -t 600 %k %d\n")
    archive.close()
    os.rename(target + ".new", target)
    _record(target, stamp)
    return target


@contextlib.contextmanager
def exclusive():
    """Of several programs that make images here, one at a time."""
    os.makedirs(BUILD, exist_ok=True)
    with open(os.path.join(BUILD, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def image(series, extra_modules=(), krb5=False):
    """Kernel and initramfs of a test VM.

    @series         "6.12", "6.1", "7.3", ...: what scripts/kernels takes
    @extra_modules  paths of further .ko files for lib/modules/<release>/extra
    @krb5           with a Kerberos realm, and all its daemons

    Returns (Kernel, path of the initramfs).
    """
    kernel = Kernel(series)
    here = kernel.arch == "amd64"
    if krb5 and not here:
        raise NotHere(f"there is no Kerberos for guests of {kernel.arch}")
    base, stage = _base(kernel)
    extra = {os.path.basename(p): p for p in extra_modules}
    extra["verbsmeter.ko"] = build_module(kernel, os.path.join(TOP, "selftests", "vm", "verbsmeter"))
    # Benchmarks run on this kernel, and nothing else needs it.
    if kernel.series.startswith("6.12") and here:
        extra["nullrpc.ko"] = build_module(kernel, os.path.join(TOP, "selftests", "vm", "nullrpc"))
    # The virtual device is for 6.12 and later. It needs DMA operations of its own, which arm64's kernels leave a driver no
    # room for.
    if kernel.series != "6.1" and here:
        extra["vhca.ko"] = build_module(kernel, os.path.join(TOP, "selftests", "hca"))
        extra["vhca_rules.ko"] = os.path.join(os.path.dirname(extra["vhca.ko"]), "rules", "vhca_rules.ko")
    ours = find_module("rpcordma", kernel)
    if ours:
        extra.setdefault("rpcordma.ko", ours)
    helpers = {name: _helper(name, arch=kernel.arch)
               for name in ("agent", "fsops", "metaload", "nfsdlisten", "repeat", "state")}
    helpers["verbspeer"] = _verbspeer(kernel.arch)
    scripts = [os.path.join(GUEST, f) for f in sorted(os.listdir(GUEST)) if not f.endswith(".c")]

    parts = [base] + ([_krb5()] if krb5 else [])
    target = os.path.join(BUILD, kernel.release, f"initramfs{'-krb5' if krb5 else ''}"
                                                 f"{'-siw' if 'siw.ko' in extra else ''}.cpio")
    stamp = _stamp([__file__, *parts, *extra.values(), *helpers.values(), *scripts])
    if _up_to_date(target, stamp):
        return kernel, target
    tree = os.path.join(stage, "lib", "modules", kernel.release)
    shutil.rmtree(os.path.join(tree, "extra"), ignore_errors=True)
    os.makedirs(os.path.join(tree, "extra"))
    overlay = Archive(target + ".overlay")
    for name, path in extra.items():
        shutil.copy(path, os.path.join(tree, "extra", name))
        overlay.file(f"lib/modules/{kernel.release}/extra/{name}", path, 0o644)
    subprocess.run(["depmod", "-b", stage, kernel.release], executable=_which("kmod"), check=True)
    for path in glob.glob(os.path.join(tree, "modules.*")):
        overlay.file(f"lib/modules/{kernel.release}/{os.path.basename(path)}", path)
    for name, path in helpers.items():
        overlay.file(f"sbin/{name}", path, 0o755)
    for path in scripts:
        name = os.path.basename(path)
        if name == "init":
            overlay.file("init", path, 0o755)
        elif name.endswith(".sh"):
            overlay.file(f"lib/{name}", path, 0o644)
        else:
            overlay.file(f"etc/{name}", path, 0o644)
    overlay.close()
    with open(target + ".new", "wb") as out:
        for part in (*parts, target + ".overlay"):
            with open(part, "rb") as f:
                shutil.copyfileobj(f, out)
    os.unlink(target + ".overlay")
    os.rename(target + ".new", target)
    _record(target, stamp)
    return kernel, target

